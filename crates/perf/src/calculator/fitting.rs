//! Refuses sizes that can't belong to one call: a trace has none, but who types them may take one for another.

use crate::calculator::CalculatorError;
use crate::calculator::keys::Given;
use crate::call::{Dims, InputLists};
use crate::literal;
use crate::models::elementwise::broadcast;
use crate::value::Value;

/// Matrix products: which of their inputs are multiplied, and which is added.
const PRODUCTS: &[(&str, usize, usize, Option<usize>)] = &[
    ("aten::mm", 0, 1, None),
    ("aten::bmm", 0, 1, None),
    ("aten::_scaled_mm", 0, 1, None),
    ("aten::_int_mm", 0, 1, None),
    ("aten::addmm", 1, 2, Some(0)),
    ("aten::addmm_", 1, 2, Some(0)),
    ("aten::baddbmm", 1, 2, Some(0)),
    ("aten::baddbmm_", 1, 2, Some(0)),
];

/// Convolutions: slot of x, the weights behind it; slots of `transposed` and of the number of groups.
const CONVOLUTIONS: &[(&str, usize, usize, usize)] =
    &[("aten::convolution", 0, 6, 8), ("aten::convolution_backward", 1, 7, 9)];

/// Refuses inputs of the model that is asked for, if they do not fit.
pub(super) fn check(given: &Given<'_>, inputs: &InputLists) -> Result<(), CalculatorError> {
    let dims = inputs.dims.as_deref().unwrap_or_default();
    let negative = |shape: &[i64]| shape.iter().any(|&size| size < 0);
    let any_negative = dims.iter().any(|dims| match dims {
        Dims::Shape(shape) => negative(shape),
        Dims::List(shapes) => shapes.iter().any(|shape| negative(shape)),
    });
    if any_negative {
        return Err(given.wrong("dims", "sizes from 0 on"));
    }
    product(given, dims)?;
    convolution(given, dims, inputs.concrete.as_deref().unwrap_or_default())
}

fn product(given: &Given<'_>, dims: &[Dims]) -> Result<(), CalculatorError> {
    let Some(&(_, left, right, added)) = PRODUCTS.iter().find(|(op, ..)| *op == given.model) else { return Ok(()) };
    let (Some(Dims::Shape(left)), Some(Dims::Shape(right))) = (dims.get(left), dims.get(right)) else { return Ok(()) };
    let ([batch @ .., rows, inner], [others @ .., inner_too, columns]) = (&left[..], &right[..]) else { return Ok(()) };
    if inner != inner_too || batch != others {
        let what = format!("sizes that fit: {} can't be multiplied with {}", by(left), by(right));
        return Err(given.wrong("dims", what));
    }
    let result = [batch, &[*rows, *columns]].concat();
    let Some(Dims::Shape(added)) = added.and_then(|slot| dims.get(slot)) else { return Ok(()) };
    if broadcast(&result, added).is_ok_and(|sum| sum == result) {
        return Ok(());
    }
    Err(given.wrong("dims", format!("sizes that fit: {} can't be added to {}", by(added), by(&result))))
}

fn convolution(given: &Given<'_>, dims: &[Dims], concrete: &[String]) -> Result<(), CalculatorError> {
    let Some(&(_, x, transposed, groups)) = CONVOLUTIONS.iter().find(|(op, ..)| *op == given.model) else {
        return Ok(());
    };
    let (Some(Dims::Shape(x)), Some(Dims::Shape(w))) = (dims.get(x), dims.get(x + 1)) else { return Ok(()) };
    // Without these two arguments the model itself has something to say.
    let said = |slot: usize| concrete.get(slot).and_then(|text| literal::parse(text));
    let (Some(transposed), Some(Value::Int(groups))) = (said(transposed), said(groups)) else { return Ok(()) };
    let ([_, channels, ..], [out, each, ..]) = (&x[..], &w[..]) else { return Ok(()) };
    let taken = if transposed.truth() { *out } else { each.saturating_mul(groups) };
    if taken == *channels && groups > 0 {
        return Ok(());
    }
    let (shapes, groups) = (format!("weights {} for x {}", by(w), by(x)), format!("{groups} groups"));
    Err(given.wrong("dims", format!("sizes that fit: {shapes} in {groups} take {taken} channels, not {channels}")))
}

/// `4096x1024`.
fn by(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

//! A real operation with the arguments as a trace records them.

use crate::calculator::keys::{Fallback, Family, Form, Given, Key, Type, sizes};
use crate::calculator::{CalculatorError, Outcome, failed};
use crate::call::{Dims, InputLists, OpCall};
use crate::literal;
use crate::models::{evaluate, evaluate_backward};
use crate::ops::ModelSource;
use crate::parity::Quirks;
use crate::value::Value;

/// The keys of every real operation.
pub(super) const FAMILY: Family = Family {
    name: "OPERATION",
    about: "any operation with a model, by its name and the arguments that a trace records",
    example: "aten::mm dims=4096x1024,1024x4096 types=bf16",
    keys: &[
        Key::required("dims", Form::List, "Input Dims: 4096x1024,1024x4096 or [[4096, 1024], [1024, 4096]]")
            .aliases(&["Input Dims"]),
        Key::required("types", Form::List, "Input type: one for all tensors, or a list")
            .aliases(&["Input type", "dtype"]),
        Key::required("concrete", Form::List, "Concrete Inputs: ['', '', '[1, 1]', 'False']")
            .fallback(Fallback::Absent)
            .aliases(&["Concrete Inputs"]),
        Key::required("strides", Form::List, "Input Strides, as dims")
            .fallback(Fallback::Absent)
            .aliases(&["Input Strides"]),
        Key::optional("bwd", Form::Flag, "no", "cost of its backward work instead").aliases(&["backward"]),
    ],
    run,
};

fn run(given: &Given<'_>) -> Result<Outcome, CalculatorError> {
    let dims = shapes(given, "dims")?.unwrap_or_default();
    fitting(given, &dims)?;
    let inputs = InputLists {
        types: Some(types(given, dims.len())?),
        strides: shapes(given, "strides")?,
        concrete: Some(concrete(given, dims.len())?),
        dims: Some(dims),
    };
    let call = OpCall {
        name: given.model,
        inputs: &inputs,
        kernels: &[],
        launches: &[],
        sequence: None,
        annotation: None,
        extra: &[],
        forward: None,
    };
    let quirks = &Quirks::NONE;
    let evaluation = if given.flag("bwd")? { evaluate_backward(&call, quirks) } else { evaluate(&call, quirks) };
    let cost = evaluation.cost.map_err(|error| failed(given.model, &error))?;
    Ok(Outcome { source: evaluation.source.unwrap_or(ModelSource::Generic), ..Outcome::new(cost) })
}

/// Matrix products, and which of their inputs are multiplied.
const PRODUCTS: &[(&str, usize, usize)] = &[
    ("aten::mm", 0, 1),
    ("aten::bmm", 0, 1),
    ("aten::_scaled_mm", 0, 1),
    ("aten::_int_mm", 0, 1),
    ("aten::addmm", 1, 2),
    ("aten::baddbmm", 1, 2),
];

/// Refuses matrices that can't be multiplied: a trace has none, but who types sizes may take one for another.
fn fitting(given: &Given<'_>, dims: &[Dims]) -> Result<(), CalculatorError> {
    let Some((_, a, b)) = PRODUCTS.iter().find(|(op, ..)| *op == given.model) else { return Ok(()) };
    let (Some(Dims::Shape(a)), Some(Dims::Shape(b))) = (dims.get(*a), dims.get(*b)) else { return Ok(()) };
    let ([batch_a @ .., _, k], [batch_b @ .., k_b, _]) = (&a[..], &b[..]) else { return Ok(()) };
    if k == k_b && batch_a == batch_b {
        return Ok(());
    }
    let by = |sizes: &[i64]| sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x");
    Err(given.wrong("dims", format!("sizes that fit: {} can't be multiplied with {}", by(a), by(b))))
}

/// Sizes of every input. Without brackets commas part the inputs and `x` the sizes; nothing between two commas is an
/// input that is no tensor.
fn shapes(given: &Given<'_>, key: &'static str) -> Result<Option<Vec<Dims>>, CalculatorError> {
    let Some(text) = given.text(key) else { return Ok(None) };
    let wrong = || given.wrong(key, "sizes of every input: 4096x1024,1024x4096 or [[4096, 1024], [1024, 4096]]");
    if !text.starts_with('[') && !text.starts_with('(') {
        let parts = text.split(',').map(str::trim);
        let one = |part: &str| if part.is_empty() { Some(Vec::new()) } else { sizes(part) };
        let shapes: Option<Vec<Dims>> = parts.map(|part| one(part).map(Dims::Shape)).collect();
        return shapes.map(Some).ok_or_else(wrong);
    }
    let Some(Value::List(items) | Value::Tuple(items)) = literal::parse(text) else { return Err(wrong()) };
    items.iter().map(dims).collect::<Option<Vec<Dims>>>().map(Some).ok_or_else(wrong)
}

/// One input: a shape, or the shapes of a list of tensors.
fn dims(value: &Value) -> Option<Dims> {
    let (Value::List(items) | Value::Tuple(items)) = value else { return None };
    if items.iter().any(|item| matches!(item, Value::List(_) | Value::Tuple(_))) {
        return items.iter().map(Value::ints).collect::<Option<Vec<_>>>().map(Dims::List);
    }
    value.ints().map(Dims::Shape)
}

/// One type an input; a lone one holds for all.
fn types(given: &Given<'_>, inputs: usize) -> Result<Vec<String>, CalculatorError> {
    let text = given.text("types").unwrap_or_default();
    let wrong = || given.wrong("types", "a type, or one for every input: bf16,bf16 or ['float', 'int']");
    let names: Vec<String> = if text.starts_with(['[', '(']) {
        let Some(Value::List(items) | Value::Tuple(items)) = literal::parse(text) else { return Err(wrong()) };
        let name = |item: &Value| if let Value::Str(name) = item { Some(Type::trace_name(name)) } else { None };
        items.iter().map(name).collect::<Option<_>>().ok_or_else(wrong)?
    } else {
        text.split(',').map(|word| Type::trace_name(word.trim())).collect()
    };
    match names.as_slice() {
        [] => Err(wrong()),
        [name] if name.is_empty() => Err(wrong()),
        [name] => Ok(vec![name.clone(); inputs]),
        _ => Ok(names),
    }
}

/// One text an input, as a trace has it: empty for tensors.
fn concrete(given: &Given<'_>, inputs: usize) -> Result<Vec<String>, CalculatorError> {
    let Some(text) = given.text("concrete") else { return Ok(vec![String::new(); inputs]) };
    let Some(Value::List(items) | Value::Tuple(items)) = literal::parse(text) else {
        return Err(given.wrong("concrete", "a list with one entry for every input: ['', '', '[1, 1]', 'False']"));
    };
    let text = |item: Value| if let Value::Str(text) = item { text } else { item.to_string() };
    Ok(items.into_iter().map(text).collect())
}

//! Reductions over some or all dimensions, and running sums.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::tally::{Bytes, Tally, in_out};
use crate::models::{Cost, ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Where a reduction says which dimensions go, and what it writes.
#[derive(Clone, Copy)]
struct Form {
    /// Slot of the dimension or list of dimensions.
    dims: usize,
    /// Whether a lone whole number in that slot is a dimension (else it is the result's type).
    lone_dim: bool,
    output: Output,
    /// Operations an input element.
    weight: i64,
}

/// Type of the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Output {
    /// As the input, unless slot names a type; sums of whole numbers are 64 bits wide.
    Sum { dtype: usize },
    /// As the input.
    Same,
    /// Value and position, if reduced along one dimension.
    WithIndex,
    /// A position.
    Index,
    /// True or false.
    Bool,
    /// Two values of the input's type.
    Pair,
}

/// Parameter: bytes of an element of the result, where they are not those of the input.
const OUTPUT_BYTES: &str = "output_bytes_per_elem";

const SUM: Form = Form { dims: 1, lone_dim: false, output: Output::Sum { dtype: 3 }, weight: 1 };
const PLAIN: Form = Form { dims: 1, lone_dim: false, output: Output::Same, weight: 1 };

/// `aten::sum(x, dims, keepdim, dtype)`, `aten::mean`.
pub fn sum(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    reduce(call, quirks, SUM)
}

/// `aten::prod(x, dim, keepdim, dtype)`.
pub fn prod(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    // With two inputs the second is the result's type.
    reduce(call, quirks, Form { lone_dim: Args::of(call).len() > 2, ..SUM })
}

/// `aten::amax(x, dims, keepdim)`, `aten::amin`, `aten::logsumexp`, `aten::std`, `aten::var`.
pub fn plain(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    reduce(call, quirks, PLAIN)
}

/// `aten::std_mean(x, dims, …)`, `aten::var_mean`: two results.
pub fn pair(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    reduce(call, quirks, Form { output: Output::Pair, ..PLAIN })
}

/// `aten::max(x)`, `aten::max(x, dim, keepdim)`, `aten::min`.
pub fn extremum(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    // One without dimensions has a type; a dimension to reduce is a number.
    let second = args.len() == 2 && !args.dtype_or_empty(1).is_empty() && !args.is_number(1);
    if !quirks.reduction_to_one_element && (args.has_tensor(1) || second && args.concrete_or_empty(1).is_empty()) {
        // The greater of two tensors, element by element.
        return crate::models::elementwise::binary_without_output(call, quirks);
    }
    reduce(call, quirks, Form { lone_dim: true, output: Output::WithIndex, ..PLAIN })
}

/// `aten::argmax(x, dim, keepdim)`, `aten::argmin`.
pub fn position(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    reduce(call, quirks, Form { lone_dim: true, output: Output::Index, ..PLAIN })
}

/// `aten::all(x, dim, keepdim)`, `aten::any`.
pub fn truth(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    reduce(call, quirks, Form { lone_dim: true, output: Output::Bool, ..PLAIN })
}

/// `aten::norm(x, p, dims, …)`, `aten::norm(x, p, dtype)`, `aten::linalg_norm(x, ord, dims, …)`.
pub fn norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let with_type = Args::of(call).len() == 3;
    let output = if with_type { Output::Sum { dtype: 2 } } else { Output::Same };
    reduce(call, quirks, Form { dims: 2, lone_dim: !with_type, output, ..PLAIN })
}

/// `aten::linalg_vector_norm(x, ord, dims, keepdim, dtype)`: a product and a sum an element.
pub fn vector_norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    reduce(call, quirks, Form { dims: 2, lone_dim: true, weight: 2, output: Output::Sum { dtype: 4 } })
}

/// `aten::cumsum(x, dim, dtype)`, `aten::cumprod`: as many results as inputs.
pub fn cumulative(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let elements = input_elements(args)?;
    let name = args.dtype(0)?;
    let input = dtype::size(name, quirks);
    let output = if quirks.reduction_to_one_element { input } else { sum_size(args, 2, quirks) };
    let read = if args.is_empty() { elements } else { args.read_numel(0, quirks)? };
    let bytes = Bytes::new().and(read, input).and(elements, output).total();
    let mut params = params(call.name, name, elements, elements);
    if read != elements {
        params.push(("stored_input_elems", read.into()));
    }
    if output != input {
        params.extend(output.map(|size| (OUTPUT_BYTES, size.into())));
    }
    finish(params, elements, bytes, name, quirks)
}

/// Elements of the input; none if the call has no inputs.
fn input_elements(args: Args<'_>) -> Result<Count, ModelError> {
    if args.is_empty() { Ok(Count::ZERO) } else { args.numel(0) }
}

fn reduce(call: &OpCall<'_>, quirks: &Quirks, form: Form) -> Read {
    let args = Args::of(call);
    let elements = input_elements(args)?;
    let name = args.dtype(0)?;
    let size = dtype::size(name, quirks);
    if quirks.reduction_to_one_element {
        let bytes = size.map(|size| (elements + Count::ONE) * size);
        return finish(params(call.name, name, elements, Count::ONE), elements, bytes, name, quirks);
    }
    let reduced = reduced_dims(args, form)?;
    let outputs = kept_elements(args.shape_or_empty(0), reduced.as_deref());
    let written = output_size(args, form, reduced.is_some(), quirks);
    let stored = args.stored_numel(0)?;
    let bytes = Bytes::new().and(stored, size).and(outputs, written).total();
    let mut params = params(call.name, name, elements, outputs);
    if stored != elements {
        params.push(("stored_input_elems", stored.into()));
    }
    if matches!(form.output, Output::Sum { .. }) && written != size {
        params.extend(written.map(|size| (OUTPUT_BYTES, size.into())));
    }
    finish(params, form.weight * elements, bytes, name, quirks)
}

fn finish(params: Params, flops: Count, bytes: Option<Count>, name: &str, quirks: &Quirks) -> Read {
    let precision = dtype::vector_precision(name, quirks);
    let cost = Cost::vector(flops.to_f64(), bytes.map(Count::to_f64), precision);
    // The gradient of a reduction passes over as much.
    let backward = Some(cost.clone());
    Tally { backward, ..Tally::new(params, cost) }.boxed()
}

fn params(op: &str, name: &str, inputs: Count, outputs: Count) -> Params {
    let kind = ["mean", "max", "min", "norm"].into_iter().find(|word| op.contains(word)).unwrap_or("sum");
    vec![
        ("num_input_elems", inputs.into()),
        ("num_output_elems", outputs.into()),
        ("dtype_in_out", in_out(name, None)),
        ("reduce_type", kind.into()),
    ]
}

/// The dimensions that go; `None` for all of them.
fn reduced_dims(args: Args<'_>, form: Form) -> Result<Option<Vec<i64>>, ModelError> {
    let text = args.concrete_or_empty(form.dims);
    if text.is_empty() {
        return Ok(None);
    }
    Ok(match args.literal(form.dims)? {
        Value::List(items) if items.is_empty() => None,
        list @ (Value::List(_) | Value::Tuple(_)) => list.ints(),
        Value::Int(dim) if form.lone_dim => Some(vec![dim]),
        _ => None,
    })
}

/// Product of the sizes that stay; negative dimensions count from the end.
pub(crate) fn kept_elements(shape: &[i64], reduced: Option<&[i64]>) -> Count {
    let Some(reduced) = reduced else { return Count::ONE };
    let rank = shape.len() as i64;
    let goes = |i: usize| reduced.iter().any(|&dim| dim == i as i64 || dim.saturating_add(rank) == i as i64);
    shape.iter().enumerate().filter(|&(i, _)| !goes(i)).fold(Count::ONE, |n, (_, &size)| n * size)
}

fn output_size(args: Args<'_>, form: Form, along_some: bool, quirks: &Quirks) -> Option<i64> {
    let size = dtype::size(args.dtype_or_empty(0), quirks);
    match form.output {
        // Without dimensions the type follows at once.
        Output::Sum { dtype } => sum_size(args, if along_some || args.len() > 2 { dtype } else { 1 }, quirks),
        Output::WithIndex if along_some => size.map(|size| size + 8),
        Output::Same | Output::WithIndex => size,
        Output::Index => Some(8),
        Output::Bool => Some(1),
        Output::Pair => size.map(|size| 2 * size),
    }
}

/// Bytes of an element of a sum: of the type named in `slot`, else of the input's, whole numbers widened.
fn sum_size(args: Args<'_>, slot: usize, quirks: &Quirks) -> Option<i64> {
    let named = args.int(slot).ok().and_then(dtype::size_of_code);
    let name = args.dtype_or_empty(0);
    named.or_else(|| if dtype::is_integer(name) { Some(8) } else { dtype::size(name, quirks) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negative_dimensions_wrap() {
        let shape = [16, 559, 1024];
        assert_eq!(kept_elements(&shape, Some(&[-1])).to_i64(), 16 * 559);
        assert_eq!(kept_elements(&shape, Some(&[0, 2])).to_i64(), 559);
        assert_eq!(kept_elements(&shape, None).to_i64(), 1);
        assert_eq!(kept_elements(&[], Some(&[0])).to_i64(), 1);
    }
}

//! What surrounds the experts: choosing them, sorting tokens by them, sending tokens to them and back.

use crate::args::Args;
use crate::call::{Dims, OpCall};
use crate::count::Count;
use crate::dtype;
use crate::models::reckoned::{self, Reckoned};
use crate::models::{ComputeUnit, ModelError, PerfModel};
use crate::parity::Quirks;
use crate::value::Value;

/// Routing helpers whose arguments say nothing more: every tensor once, one operation for each element of the largest.
#[expect(clippy::unnecessary_wraps, reason = "it is a reader")]
pub(crate) fn routing(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let mut operands = Vec::new();
    let mut bytes = Count::ZERO;
    let mut largest: Option<(Count, &str)> = None;
    for (i, dims) in call.inputs.dims.as_deref().unwrap_or_default().iter().enumerate() {
        let Dims::Shape(shape) = dims else { continue };
        if shape.is_empty() {
            continue;
        }
        let (elements, dtype) = (Count::of(shape), args.dtype_or_empty(i));
        operands.push(Value::Tuple(vec![Value::shape(shape), dtype.into()]));
        bytes = bytes + dtype::size(dtype, quirks).map_or(Count::ZERO, |size| elements * size);
        if largest.is_none_or(|(most, _)| elements > most) {
            largest = Some((elements, dtype));
        }
    }
    let flops = largest.map_or(Count::ZERO, |(elements, _)| elements);
    let precision = largest.and_then(|(_, dtype)| dtype::vector_precision(dtype, quirks));
    let bytes = Some(bytes).filter(|&b| b != Count::ZERO);
    let params = vec![("operands", Value::List(operands))];
    Ok(Reckoned::boxed(params, reckoned::cost(flops, bytes, ComputeUnit::Vector, precision)))
}

/// Expert numbers and weights of each token, both copied with the shared experts' added.
pub(crate) fn append_shared(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let ids = args.shape(0)?;
    let weights = Some(args.shape_or_empty(1)).filter(|s| !s.is_empty()).unwrap_or(ids);
    let [dtype_ids, dtype_weights] = [args.dtype_or_empty(0), args.dtype_or_empty(1)];
    let size = |name| dtype::size(name, quirks).unwrap_or(4);
    let bytes = 2 * (Count::of(ids) * size(dtype_ids) + Count::of(weights) * size(dtype_weights));
    let params = vec![
        ("shape_in1", Value::shape(ids)),
        ("shape_in2", Value::shape(weights)),
        ("dtype_in1_in2_out", Value::Tuple(vec![dtype_ids.into(), dtype_weights.into(), Value::None])),
        ("stride_input1", Value::None),
        ("stride_input2", Value::None),
        ("stride_output", Value::None),
    ];
    let precision = dtype::vector_precision(dtype_weights, quirks);
    Ok(Reckoned::boxed(params, reckoned::cost(Count::of(ids), Some(bytes), ComputeUnit::Vector, precision)))
}

/// Softplus over (M, E) router logits in slot 2, then the best k, written as 4-byte weights and 4-byte numbers.
pub(crate) fn topk_softplus(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, experts] = args.sizes(2)?;
    let topk = args.dim(0, 1)?;
    let dtype = args.dtype(2)?;
    let logits = Count::from(tokens) * experts;
    let bytes = dtype::size(dtype, quirks)
        .map(|size| logits * size + 4 * Count::from(experts) + 8 * Count::from(tokens) * topk);
    let params = vec![
        ("M", tokens.into()),
        ("n", 1.into()),
        ("C", experts.into()),
        ("E", experts.into()),
        ("topk", topk.into()),
        ("dtype_in", dtype.into()),
    ];
    let precision = dtype::vector_precision(dtype, quirks);
    Ok(Reckoned::boxed(params, reckoned::cost(logits * 6, bytes, ComputeUnit::Vector, precision)))
}

/// Tokens on their way to the experts or back: (tokens, hidden) once, in both directions of autograd.
#[expect(clippy::unnecessary_wraps, reason = "it is a reader")]
pub(crate) fn exchange(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let (tokens, hidden) = (args.dim(0, 0).ok(), args.dim(0, 1).ok());
    let size = dtype::size(args.dtype_or_empty(0), quirks);
    let bytes = tokens.zip(hidden).zip(size).map(|((tokens, hidden), size)| Count::from(tokens) * hidden * size);
    let cost = reckoned::cost(Count::ZERO, bytes, ComputeUnit::Unknown, None);
    let params = vec![("num_tokens", tokens.into()), ("hidden_dim", hidden.into()), ("bpe", size.into())];
    Ok(Box::new(Reckoned { params, cost: cost.clone(), backward: Some(cost) }))
}

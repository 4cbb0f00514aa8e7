//! Models of operations for which the reference has none: blank under `--parity`.
//!
//! Rules they share: an expanded dimension is read once; an in-place operation reads and writes its destination; the
//! element size of a tensor list comes from its kernels' templates; lists that the profiler cut off are counted by the
//! blocks of their kernels or not at all.

pub mod attention_side;
pub mod dense;
pub mod index;
pub mod lists;
pub mod loss;
pub mod memory;
pub mod order;
pub mod pointwise;
pub mod recurrent;
pub mod softmax;
pub mod spatial;

use crate::args::Args;
use crate::models::tally::in_out;
use crate::models::{ModelError, Params};
use crate::value::Value;

/// Shape, type and stride of the tensor in `slot`.
fn tensor_params(args: Args<'_>, slot: usize) -> Result<Params, ModelError> {
    Ok(vec![
        ("op_shape", Value::shape(args.shape(slot)?)),
        ("dtype_in_out", in_out(args.dtype(slot)?, None)),
        ("stride_input", args.stride_param(slot).unwrap_or(Value::None)),
        ("stride_output", Value::None),
    ])
}

/// The shape of another operand as a parameter, where it is not that of the tensor in slot 0: it decides the bytes.
pub(crate) fn other_shape(args: Args<'_>, slot: usize, key: &'static str) -> Option<(&'static str, Value)> {
    let shape = args.shape(slot).ok().filter(|shape| Ok(*shape) != args.shape(0))?;
    args.has_tensor(slot).then(|| (key, Value::shape(shape)))
}

/// Index of dimension `dim` of a shape of `rank` dimensions; negative ones count from the end.
fn wrapped(dim: i64, rank: usize) -> Result<usize, ModelError> {
    let at = if dim < 0 { dim.saturating_add(rank as i64) } else { dim };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < rank)
        .ok_or_else(|| ModelError::fail(format!("dimension {dim} of a tensor of {rank}")))
}

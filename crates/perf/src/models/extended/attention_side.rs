//! What surrounds attention in inference engines, and the reductions between devices that run as kernels.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::extended::tensor_params;
use crate::models::tally::{Bytes, Tally};
use crate::models::{ComputeUnit, Cost, ModelError, Read};
use crate::parity::Quirks;

/// `_C::rotary_embedding(positions, q, k, head_size, cache, …)`: three operations for each rotated element.
pub fn rotary(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let head = args.int(3).or_else(|_| args.last_dim(1))?;
    let rotated = args.dim(4, 1).unwrap_or(head);
    let heads = |slot: usize| -> Result<Count, ModelError> {
        let shape = args.shape(slot)?;
        let width = Count::of(shape.get(1..).unwrap_or_default());
        width.div_floor(head).ok_or_else(|| ModelError::fail("heads of no width"))
    };
    let all = if args.has_tensor(2) { heads(1)? + heads(2)? } else { heads(1)? };
    let elements = Count::from(args.dim(1, 0)?) * all * rotated;
    let size = args.size(1, quirks)?.unwrap_or(2);
    let params = vec![("num_elements", elements.into())];
    Tally::vector(params, 3 * elements, Some(2 * elements * size), args.dtype(1)?, quirks).boxed()
}

/// `_C_cache_ops::reshape_and_cache_flash(k, v, key_cache, value_cache, slots, …)`: new keys and values into the cache.
pub fn cache_write(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let elements = args.numel(0)? + args.numel(1)?;
    let bytes = Bytes::new().and(elements, args.size(0, quirks)?).and(elements, args.size(2, quirks)?);
    let bytes = bytes.and(args.numel(4)?, Some(8)).total();
    Tally::vector(tensor_params(args, 0)?, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// `symm_mem::multimem_all_reduce_(x, …)`: x read and written in local memory; the link is not counted.
pub fn all_reduce(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let bytes = dtype::size(args.dtype(0)?, quirks).map(|size| (2 * n * size).to_f64());
    let cost = Cost { flops: Some(0.0), bytes, unit: ComputeUnit::Unknown, precision: None };
    Tally::new(tensor_params(args, 0)?, cost).boxed()
}

/// `vllm::moe_forward` and other opaque expert layers: their weights are not among the arguments.
pub fn opaque_experts(_call: &OpCall<'_>, _quirks: &Quirks) -> Read {
    Err(ModelError::fail("the experts' inner width is not in the trace"))
}

//! Operations that only move elements: concatenation, padding, rearrangement, copies off the device.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::kernels;
use crate::models::elementwise::padded;
use crate::models::extended::tensor_params;
use crate::models::tally::Tally;
use crate::models::{ComputeUnit, Cost, ModelError, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// `aten::cat(tensors, dim)`, `aten::stack`: every element read and written. The type is that of the kernel; where one casts,
/// that of what it reads is not in the trace.
pub fn concatenation(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    // The legacy empty tensor `[0]` stands for nothing.
    let shapes: Vec<&[i64]> = args.shapes(0)?.into_iter().filter(|&shape| shape != [0]).collect();
    if shapes.is_empty() {
        return Err(ModelError::fail("the list of tensors is not in the trace"));
    }
    let written: Count = shapes.iter().map(|shape| Count::of(shape)).sum();
    let read: Count = args.stored_numels(0)?.into_iter().sum();
    let size = call.list_element_size().filter(|_| !kernels::casts(call.kernels));
    let bytes = size.map(|size| (read + written) * size);
    let params = vec![("shapes", Value::List(shapes.iter().map(|shape| Value::shape(shape)).collect()))];
    Tally::vector(params, Count::ZERO, bytes, call.list_dtype(), quirks).boxed()
}

/// x read, `written` elements of its type written.
fn rearranged(args: Args<'_>, written: Count, quirks: &Quirks) -> Read {
    let bytes = match args.size(0, quirks)? {
        Some(size) => Some((args.stored_numel(0)? + written) * size),
        None => None,
    };
    Tally::vector(tensor_params(args, 0)?, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// `triu(x)`, `flip`, `roll`, …: as many elements out as in.
pub fn same_size(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    rearranged(args, args.numel(0)?, quirks)
}

/// `constant_pad_nd(x, padding, value)`, `reflection_pad2d(x, padding)`.
pub fn pad(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let output = padded(args.shape(0)?, &args.ints(1)?)?;
    rearranged(args, Count::of(&output), quirks)
}

/// `aten::repeat(x, repeats)`.
pub fn repeat(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    rearranged(args, args.numel(0)? * Count::of(&args.literal_ints(1)?), quirks)
}

/// `aten::_local_scalar_dense(x)`: one element to the host, over the link and not through device memory.
pub fn to_host(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let name = args.dtype(0)?;
    let cost = Cost { flops: Some(0.0), bytes: None, unit: ComputeUnit::Unknown, precision: None };
    let params = vec![("op_shape", Value::shape(args.shape(0)?)), ("dtype_in_out", Value::texts(&[name, name]))];
    let mut tally = Tally::new(params, cost);
    tally.link_bytes = dtype::size(name, quirks).map(|size| (args.numel(0).unwrap_or(Count::ONE) * size).to_f64());
    tally.boxed()
}

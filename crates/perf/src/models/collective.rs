//! Collectives that serving engines wrote themselves: traffic of the local memory. What crosses between devices is
//! not counted, so these operations have no compute label and their rates are only those of the local side.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::reckoned::{self, Reckoned};
use crate::models::{ComputeUnit, Cost, ModelError, PerfModel};
use crate::parity::Quirks;
use crate::value::Value;

fn local(flops: Count, bytes: Option<Count>) -> Cost {
    reckoned::cost(flops, bytes, ComputeUnit::Unknown, None)
}

/// All-reduce with the norm that follows; x in slot 2, weight in slot 6.
pub(crate) fn all_reduce_norm(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    reduce_and_norm(call, 2, 6, quirks)
}

/// All-reduce with the norm that follows; x in slot 0, weight in slot 2.
pub(crate) fn all_reduce_norm_short(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    reduce_and_norm(call, 0, 2, quirks)
}

/// x and residual in, norm and residual out, one weight row: the addition costs N, the norm as any RMS norm.
fn reduce_and_norm(
    call: &OpCall<'_>,
    x: usize,
    weight: usize,
    quirks: &Quirks,
) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let (shape, channels) = (args.shape(x)?, args.dim(weight, 0)?);
    let elements = Count::of(shape);
    let rows = elements.div_floor(channels).ok_or_else(|| ModelError::fail("the norm has no channels"))?;
    let flops = elements + rows * (2 * Count::from(channels) + 2_i64.into()) + 2 * elements;
    let dtype = args.dtype(x)?;
    let bytes = dtype::size(dtype, quirks).map(|size| (4 * elements + channels.into()) * size);
    let params = vec![
        ("op_shape", Value::shape(shape)),
        ("dtype_in", dtype.into()),
        ("stride_input", reckoned::stride_param(args, x, quirks)?),
        ("num_channels", channels.into()),
    ];
    Ok(Reckoned::boxed(params, local(flops, bytes)))
}

/// All-reduce: x in slot 1, read and written.
pub(crate) fn all_reduce(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let (shape, dtype) = (args.shape(1)?, args.dtype(1)?);
    let bytes = dtype::size(dtype, quirks).map(|size| 2 * Count::of(shape) * size);
    let params = vec![
        ("op_shape", Value::shape(shape)),
        ("dtype_in", dtype.into()),
        ("stride_input", reckoned::stride_param(args, 1, quirks)?),
    ];
    Ok(Reckoned::boxed(params, local(Count::ZERO, bytes)))
}

/// Reduce-scatter or all-gather: input in slot 1, output in slot 2.
pub(crate) fn scatter_or_gather(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let (input, output, dtype) = (args.shape(1)?, args.shape(2)?, args.dtype(1)?);
    let bytes = dtype::size(dtype, quirks).map(|size| (Count::of(input) + Count::of(output)) * size);
    let params = vec![
        ("op_shape", Value::shape(input)),
        ("out_shape", Value::shape(output)),
        ("dtype_in", dtype.into()),
        ("stride_input", reckoned::stride_param(args, 1, quirks)?),
    ];
    Ok(Reckoned::boxed(params, local(Count::ZERO, bytes)))
}

/// All-gather: output in slot 0, input in slot 1.
pub(crate) fn gather_into(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let (output, input, dtype) = (args.shape(0)?, args.shape(1)?, args.dtype(0)?);
    let bytes = dtype::size(dtype, quirks).map(|size| (Count::of(input) + Count::of(output)) * size);
    let params =
        vec![("out_shape", Value::shape(output)), ("op_shape", Value::shape(input)), ("dtype_in", dtype.into())];
    Ok(Reckoned::boxed(params, local(Count::ZERO, bytes)))
}

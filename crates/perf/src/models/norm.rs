//! Normalisations: batch, layer, group, instance, RMS; forward and backward.
//!
//! The corrected formulas charge what the kernels of these operations do: batch norm in training reads x once for the
//! statistics and once more to transform it; the others keep a row on the chip. Channel-sized tensors count in their
//! own type, and only where they are given.

mod backward;
mod batch;
mod rms;
mod rms_fused;

pub use backward::{group_norm_backward, instance_norm_backward, layer_norm_backward};
pub use batch::{
    batch_norm, batch_norm_backward, batch_norm_backward_elements, batch_norm_backward_reduce, batch_norm_elements,
    batch_norm_stats, vendor_batch_norm_backward,
};
pub use rms::{ln_modulate, ln_modulate_backward, rms_norm, rms_norm_backward, vllm_fused_add_rms_norm, vllm_rms_norm};
pub use rms_fused::{
    rms_add, rms_add_group_fp8, rms_add_pad, rms_group_fp8, rms_group_quant, rms_into, rms_mxfp4, rms_plain,
    rms_token_quant,
};

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::tally::{Bytes, Tally, in_out};
use crate::models::{Cost, ModelError, Params, Read};
use crate::parity::{Quirks, ReferenceNorm};
use crate::value::Value;

/// What every norm shows.
#[derive(Clone, Copy)]
struct Shown {
    /// Slot of x.
    x: usize,
    has_bias: bool,
    is_affine: bool,
    is_training: bool,
}

fn params(args: Args<'_>, shown: Shown, channels: Value, quirks: &Quirks) -> Result<Params, ModelError> {
    Ok(vec![
        ("op_shape", Value::shape(args.shape(shown.x)?)),
        ("dtype_in_out", in_out(args.dtype(shown.x)?, None)),
        ("stride_input", args.shown_stride(shown.x, quirks)?),
        ("stride_output", Value::None),
        ("num_channels", channels),
        ("has_bias", shown.has_bias.into()),
        ("is_affine", shown.is_affine.into()),
        ("is_training", shown.is_training.into()),
    ])
}

/// Whether the tensor of slot `i` is given; the reference counts every slot that exists (F5). Fails past the end.
fn is_given(args: Args<'_>, i: usize, quirks: &Quirks) -> Result<bool, ModelError> {
    if quirks.absent_affine_counted { args.dims(i).map(|_| true) } else { Ok(args.has_tensor(i)) }
}

/// Adds `channels` elements of each of `slots` that holds a tensor, each in its own type.
fn and_channels(bytes: Bytes, args: Args<'_>, channels: Count, slots: &[usize], quirks: &Quirks) -> Bytes {
    slots
        .iter()
        .filter(|&&i| args.has_tensor(i))
        .fold(bytes, |sum, &i| sum.and(channels, dtype::size(args.dtype_or_empty(i), quirks)))
}

/// A forward cost by the reference's formula.
fn reference_forward(args: Args<'_>, shown: Shown, channels: Count, quirks: &Quirks) -> Read {
    let norm = reference_norm(args, shown, channels.to_f64(), quirks)?;
    let (flops, bytes) = norm.forward();
    let precision = dtype::vector_precision(args.dtype(shown.x)?, quirks);
    Tally::new(params(args, shown, channels.into(), quirks)?, Cost::vector(flops, Some(bytes), precision)).boxed()
}

/// A backward cost by the reference's formula; `mask` is shown and its first entry tells whether x gets a gradient.
fn reference_backward(args: Args<'_>, shown: Shown, channels: Value, mask: &[bool], quirks: &Quirks) -> Read {
    let count = match channels {
        Value::Int(c) => c as f64,
        Value::Float(c) => c,
        _ => return Err(ModelError::fail("no channels")),
    };
    let input = *mask.first().ok_or_else(|| ModelError::fail("empty output_mask"))?;
    let (flops, bytes) = reference_norm(args, shown, count, quirks)?.backward(input);
    let precision = dtype::vector_precision(args.dtype(shown.x)?, quirks);
    let mut params = params(args, shown, channels, quirks)?;
    params.push(mask_param(mask));
    Tally::new(params, Cost::vector(flops, Some(bytes), precision)).boxed()
}

fn mask_param(mask: &[bool]) -> (&'static str, Value) {
    ("output_mask", Value::List(mask.iter().map(|&wanted| wanted.into()).collect()))
}

fn reference_norm(args: Args<'_>, shown: Shown, channels: f64, quirks: &Quirks) -> Result<ReferenceNorm, ModelError> {
    Ok(ReferenceNorm {
        elements: args.numel(shown.x)?.to_f64(),
        channels,
        size: args.known_size(shown.x, quirks)? as f64,
        has_bias: shown.has_bias,
        is_affine: shown.is_affine,
        is_training: shown.is_training,
    })
}

/// A norm over rows: where its weight and bias stand, how many elements share a weight, how many rows have
/// statistics of their own.
struct Rows {
    weight: usize,
    bias: usize,
    channels: Count,
    count: Count,
}

/// Cost of a norm whose rows stay on the chip: x read, y written, weight and bias, mean and deviation of each row.
fn forward_over_rows(args: Args<'_>, shown: Shown, over: &Rows, quirks: &Quirks) -> Read {
    let elements = args.numel(shown.x)?;
    let size = args.size(shown.x, quirks)?;
    let bytes = Bytes::new().and_read(args, shown.x, quirks)?.and(elements, size);
    let bytes = and_channels(bytes, args, over.channels, &[over.weight, over.bias], quirks);
    let bytes = bytes.and(2 * over.count, Some(4)).total();
    let flops = 6 * over.channels + 2 * elements + (3 * elements).when(shown.is_training);
    let params = params(args, shown, over.channels.into(), quirks)?;
    Tally::vector(params, flops, bytes, args.dtype(shown.x)?, quirks).boxed()
}

/// `aten::layer_norm(x, shape, weight, bias, …)`.
pub fn layer_norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let channels = Count::of(&args.literal_ints(1)?);
    let (is_affine, has_bias) = (is_given(args, 2, quirks)?, is_given(args, 3, quirks)?);
    let shown = Shown { x: 0, has_bias, is_affine, is_training: true };
    if quirks.norm_passes_as_one {
        return reference_forward(args, shown, channels, quirks);
    }
    let rows = args.numel(0)?.div_floor(channels).unwrap_or_default();
    forward_over_rows(args, shown, &Rows { weight: 2, bias: 3, channels, count: rows }, quirks)
}

/// `aten::group_norm(x, groups, weight, bias, …)` and `aten::native_group_norm(x, weight, bias, N, C, HxW, groups, …)`.
pub fn group_norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let channels = Count::from(args.dim(0, 1)?);
    if quirks.norm_passes_as_one {
        let is_affine = is_given(args, 2, quirks)?;
        return reference_forward(args, Shown { x: 0, has_bias: true, is_affine, is_training: true }, channels, quirks);
    }
    let (weight, groups) = if call.name == "aten::native_group_norm" { (1, 6) } else { (2, 1) };
    let shown =
        Shown { x: 0, has_bias: args.has_tensor(weight + 1), is_affine: args.has_tensor(weight), is_training: true };
    let rows = Count::from(args.dim(0, 0)?) * args.int(groups).unwrap_or(1);
    forward_over_rows(args, shown, &Rows { weight, bias: weight + 1, channels, count: rows }, quirks)
}

/// `aten::instance_norm(x, weight, bias, running_mean, running_var, use_input_stats, …)`.
pub fn instance_norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let channels = Count::from(args.dim(0, 1)?);
    let is_training = if quirks.training_by_any_text { args.is_non_empty(5) } else { args.is_true(5) };
    if quirks.norm_passes_as_one {
        let is_affine = is_given(args, 2, quirks)?;
        return reference_forward(args, Shown { x: 0, has_bias: true, is_affine, is_training }, channels, quirks);
    }
    let shown = Shown { x: 0, has_bias: args.has_tensor(2), is_affine: args.has_tensor(1), is_training };
    let rows = channels * args.dim(0, 0)?;
    forward_over_rows(args, shown, &Rows { weight: 1, bias: 2, channels, count: rows }, quirks)
}

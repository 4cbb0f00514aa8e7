//! RMS norm, and layer norm fused with modulation.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::norm::{Shown, is_given, mask_param, params};
use crate::models::tally::{Tally, in_out};
use crate::models::{Cost, ModelError, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Sums of squares and a root for each row, then one product an element, or two with a weight: (N/C)·(2C + 2) + N·(1|2).
pub(super) fn rms_flops(elements: Count, channels: Count, is_affine: bool) -> f64 {
    let (n, c) = (elements.to_f64(), channels.to_f64());
    (n / c) * (2.0 * c + 2.0) + n * if is_affine { 2.0 } else { 1.0 }
}

/// Bytes of an element of the weight in `slot`; the reference takes x's (F7).
fn weight_size(args: Args<'_>, slot: usize, x: usize, quirks: &Quirks) -> Result<i64, ModelError> {
    args.known_size(if quirks.norm_stats_in_activation_type { x } else { slot }, quirks)
}

/// `aten::_fused_rms_norm(x, shape, weight, eps)`.
pub fn rms_norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let channels = Count::of(&args.literal_ints(1)?);
    let is_affine = is_given(args, 2, quirks)?;
    let elements = args.numel(0)?;
    let mut bytes = (args.read_numel(0, quirks)? + elements) * args.known_size(0, quirks)?;
    if is_affine {
        bytes = bytes + channels * weight_size(args, 2, 0, quirks)?;
    }
    let shown = Shown { x: 0, has_bias: false, is_affine, is_training: false };
    let precision = dtype::vector_precision(args.dtype(0)?, quirks);
    let cost = Cost::vector(rms_flops(elements, channels, is_affine), Some(bytes.to_f64()), precision);
    Tally::new(params(args, shown, channels.into(), quirks)?, cost).boxed()
}

/// `aten::_fused_rms_norm_backward(grad, x, shape, rstd, weight, mask)`.
pub fn rms_norm_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let channels = Count::of(&args.literal_ints(2)?);
    let is_affine = is_given(args, 4, quirks)?;
    let mask = args.literal_bools(5)?;
    let [input, weight] = mask[..] else { return Err(ModelError::fail("output_mask has not 2 entries")) };
    let n = args.numel(1)?;
    let flops = n.when(is_affine) + n + (6 * n).when(input);
    // The weight gradient is a sum over rows.
    let flops = flops + (n + n.when(n > channels)).when(weight && is_affine);
    let size = args.known_size(1, quirks)?;
    let mut bytes = if quirks.rms_gradients_unmasked {
        3 * n * size
    } else {
        (args.read_numel(0, quirks)? + args.read_numel(1, quirks)? + n.when(input)) * size
    };
    if is_affine {
        let tensors = if weight || quirks.rms_gradients_unmasked { 2 } else { 1 };
        bytes = bytes + tensors * channels * weight_size(args, 4, 1, quirks)?;
    }
    let shown = Shown { x: 1, has_bias: false, is_affine, is_training: false };
    let mut params = params(args, shown, channels.into(), quirks)?;
    params.push(mask_param(&mask));
    Tally::vector(params, flops, Some(bytes), args.dtype(1)?, quirks).boxed()
}

/// `_C::rms_norm(out, x, weight, eps)`.
pub fn vllm_rms_norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    vllm(call, quirks, 1, 2)
}

/// `_C::fused_add_rms_norm(x, residual, weight, eps)`: both tensors are read and written.
pub fn vllm_fused_add_rms_norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    vllm(call, quirks, 0, 4)
}

fn vllm(call: &OpCall<'_>, quirks: &Quirks, x: usize, passes: i64) -> Read {
    let args = Args::of(call);
    let channels = Count::from(args.dim(2, 0)?);
    let elements = args.numel(x)?;
    let size = args.known_size(x, quirks)?;
    let bytes = passes * elements * size + channels * args.known_size(2, quirks)?;
    // Four passes: the residual is added first.
    let sum = elements.when(passes == 4).to_f64();
    let flops = rms_flops(elements, channels, true) + sum;
    let shown = Shown { x, has_bias: false, is_affine: true, is_training: false };
    let cost = Cost::vector(flops, Some(bytes.to_f64()), dtype::vector_precision(args.dtype(x)?, quirks));
    Tally::new(params(args, shown, channels.into(), quirks)?, cost).boxed()
}

/// `primus::fused_ln_modulate(x, scale, shift, …)`, x (tokens, batch, hidden).
pub fn ln_modulate(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    modulated(call, quirks, 12, [2, 2], None)
}

/// `primus::fused_ln_modulate_backward(grad, x, …)`.
pub fn ln_modulate_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    modulated(call, quirks, 15, [3, 3], Some(mask_param(&[true; 3])))
}

/// `weight` operations an element; `passes` over x and over the (batch, hidden) tensors; two f32 statistics a row.
fn modulated(
    call: &OpCall<'_>,
    quirks: &Quirks,
    weight: i64,
    passes: [i64; 2],
    mask: Option<(&'static str, Value)>,
) -> Read {
    let args = Args::of(call);
    let [tokens, batch, hidden] = args.sizes::<3>(0)?;
    let elements = args.numel(0)?;
    let size = args.known_size(0, quirks)?;
    let modulation = Count::from(batch) * hidden;
    let statistics = 8 * Count::from(tokens) * batch;
    let bytes = passes[0] * elements * size + passes[1] * modulation * size + statistics;
    let name = args.dtype(0)?;
    let mut params = vec![
        ("op_shape", Value::shape(args.shape(0)?)),
        ("dtype_in_out", in_out(name, None)),
        ("stride_input", args.optional_stride_param(0)?),
        ("stride_output", Value::None),
        ("num_channels", hidden.into()),
        ("has_bias", true.into()),
        ("is_affine", true.into()),
        ("is_training", true.into()),
    ];
    params.extend(mask);
    Tally::vector(params, weight * elements, Some(bytes), name, quirks).boxed()
}

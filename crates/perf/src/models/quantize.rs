//! Conversions of activations to 8 and 4 bits, with the scales that go with them.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::tally::{Tally, in_out};
use crate::models::{Cost, ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Operations an element of the dynamic quantisers: maximum, scale and conversion over groups of 32.
const DYNAMIC_WEIGHT: f64 = 2.59375;

/// Shape, types and stride of the tensor that is converted; strides may be absent.
fn converted_params(args: Args<'_>, to: &str) -> Result<Params, ModelError> {
    Ok(vec![
        ("op_shape", Value::shape(args.shape(0)?)),
        ("dtype_in_out", in_out(args.dtype(0)?, Some(to))),
        ("stride_input", args.optional_stride_param(0)?),
        ("stride_output", Value::None),
    ])
}

/// `primus_turbo::quantize_fp8_tensorwise(x, …)`.
pub fn fp8_tensorwise(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let elements = args.numel(0)?;
    let bytes = args.size(0, quirks)?.map(|size| elements * (size + 1));
    let params = converted_params(args, "c10::Float8_e4m3fnuz")?;
    Tally::vector(params, elements, bytes, args.dtype(0)?, quirks).boxed()
}

/// `primus_turbo::quantize_mxfp4_dual(x, …)`: packed along rows and along columns, a scale per 32 values each.
pub fn mxfp4_dual(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let [m, n] = args.sizes::<2>(0)?;
    let elements = Count::from(m) * n;
    let blocks = |length: i64| Count::from(length).div_ceil(32_i64).unwrap_or_default();
    let packed = 2 * elements.div_ceil(2_i64).unwrap_or_default() + blocks(n) * m + blocks(m) * n;
    let bytes = args.size(0, quirks)?.map(|size| elements * size + packed);
    let params = converted_params(args, "c10::Float4_e2m1fn_x2")?;
    Tally::vector(params, elements, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aiter::dynamic_per_token_scaled_quant(out, x, scales)` and its likes.
pub fn dynamic_scaled(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let mut bytes = Count::ZERO;
    for slot in 0..3 {
        bytes = bytes + args.numel(slot)? * args.known_size(slot, quirks)?;
    }
    let params = vec![
        ("shape_in1", Value::shape(args.shape(1)?)),
        ("shape_in2", Value::shape(args.shape(2)?)),
        ("shape_out", Value::shape(args.shape(0)?)),
        ("dtype_in1_in2_out", Value::texts(&[args.dtype(1)?, args.dtype(2)?, args.dtype(0)?])),
        ("stride_input1", args.shown_stride(1, quirks)?),
        ("stride_input2", args.shown_stride(2, quirks)?),
        ("stride_output", args.shown_stride(0, quirks)?),
    ];
    let precision = dtype::vector_precision(args.dtype(1)?, quirks);
    let flops = DYNAMIC_WEIGHT * args.numel(0)?.to_f64();
    Tally::new(params, Cost::vector(flops, Some(bytes.to_f64()), precision)).boxed()
}

/// `vllm::triton_per_token_group_quant_fp8(x, group_size)`.
pub fn token_group_fp8(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let shape = args.shape(0)?;
    let (n, rows) = shape.split_last().map_or((1, &[][..]), |(&n, rows)| (n, rows));
    let m = Count::of(rows).to_i64();
    let group_size = args.int(1).ok().filter(|&size| size != 0).unwrap_or(128);
    let groups = Count::from(n).div_ceil(group_size).unwrap_or_default().max(Count::ONE);
    let elements = Count::from(m) * n;
    let name = args.dtype(0)?;
    let bytes = dtype::size(name, quirks).map(|size| elements * size + elements + groups * m * 4);
    let params = vec![
        ("M", m.into()),
        ("N", n.into()),
        ("group_size", group_size.into()),
        ("num_groups", groups.into()),
        ("shape_x", Value::shape(shape)),
        ("dtype_x", name.into()),
        ("shape_in1", Value::shape(shape)),
        ("shape_in2", Value::shape(&[])),
        ("shape_out", Value::shape(shape)),
        ("dtype_in1_in2_out", Value::Tuple(vec![name.into(), Value::None, "c10::float8_e4m3fn".into()])),
        ("stride_input1", Value::None),
        ("stride_input2", Value::None),
        ("stride_output", Value::None),
    ];
    Tally::vector(params, 6 * elements, bytes, name, quirks).boxed()
}

/// Whether the parameters show the input's stride.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stride {
    Shown,
    Hidden,
}

/// Packed 4-bit output and a scale per 32 values of the tensor in `slot`.
fn mxfp4(call: &OpCall<'_>, quirks: &Quirks, slot: usize, stride: Stride) -> Read {
    let args = Args::of(call);
    let elements = args.numel(slot)?;
    let name = args.dtype(slot)?;
    let bytes = dtype::size(name, quirks).map(|size| {
        let scales = elements.div_floor(32_i64).unwrap_or_default();
        (elements * size).to_f64() + 0.5 * elements.to_f64() + scales.to_f64()
    });
    let params = vec![
        ("op_shape", Value::shape(args.shape(slot)?)),
        ("dtype_in_out", Value::texts(&[name, name])),
        ("stride_input", if stride == Stride::Shown { args.shown_stride(slot, quirks)? } else { Value::None }),
        ("stride_output", Value::None),
    ];
    let precision = dtype::vector_precision(name, quirks);
    Tally::new(params, Cost::vector((2 * elements).to_f64(), bytes, precision)).boxed()
}

/// `sglang_profiler::fused_mxfp4_quant_fused_flatten_mxfp4_quant(x)`.
pub fn mxfp4_flatten(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    mxfp4(call, quirks, 0, Stride::Shown)
}

/// `sglang_profiler::quant_dynamic_mxfp4_quant(x)`.
pub fn mxfp4_dynamic(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    mxfp4(call, quirks, 0, Stride::Hidden)
}

/// `aiter::fused_dynamic_mx_quant_moe_sort_hip(out, scales, x, …)`.
pub fn mxfp4_expert_sort(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    mxfp4(call, quirks, 2, Stride::Shown)
}

/// `aiter::fused_dynamic_mxfp4_quant_moe_sort_hip(out, scales, x, …)`.
pub fn mxfp4_expert_sort_unstrided(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    mxfp4(call, quirks, 2, Stride::Hidden)
}

/// `aiter::dynamic_per_group_scaled_quant_fp4(out, x, scales)`.
pub fn mxfp4_group(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    mxfp4(call, quirks, 1, Stride::Hidden)
}

/// `_C::dynamic_scaled_fp8_quant(out, x, scale)` and the static one: one byte out for each element.
pub fn scaled_fp8(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let elements = args.numel(1)?;
    let bytes = args.size(1, quirks)?.map(|size| elements * size + elements);
    let params = vec![
        ("op_shape", Value::shape(args.shape(1)?)),
        ("dtype_in_out", Value::texts(&[args.dtype(1)?, args.dtype(0)?])),
        ("stride_input", args.shown_stride(1, quirks)?),
        ("stride_output", args.shown_stride(0, quirks)?),
    ];
    Tally::vector(params, 2 * elements, bytes, args.dtype(1)?, quirks).boxed()
}

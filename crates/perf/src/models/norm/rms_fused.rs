//! RMS norm fused with a residual, padding or quantisation, as the inference libraries offer it.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::norm::rms::rms_flops;
use crate::models::norm::{Shown, params};
use crate::models::tally::Tally;
use crate::models::{Cost, ModelError, Read};
use crate::parity::Quirks;

/// The sizes that all of these share.
struct Sizes {
    /// Elements of x.
    n: Count,
    /// Elements of a row.
    channels: Count,
    /// Rows.
    rows: Count,
    /// Bytes of an element of x.
    size: i64,
    /// Operations of the norm alone.
    norm: f64,
}

fn sizes(args: Args<'_>, x: usize, weight: usize, quirks: &Quirks) -> Result<Sizes, ModelError> {
    let n = args.numel(x)?;
    let channels = Count::from(args.dim(weight, 0)?);
    let rows = n.div_floor(channels).ok_or_else(|| ModelError::fail("weight of no elements"))?;
    let size = args.known_size(x, quirks)?;
    Ok(Sizes { n, channels, rows, size, norm: rms_flops(n, channels, true) })
}

impl Sizes {
    /// Bytes of `passes` over x and of the weight.
    fn passes(&self, passes: i64) -> f64 {
        ((passes * self.n + self.channels) * self.size).to_f64()
    }

    /// A quantised copy of x, one byte an element, and an f32 scale for each group of `group` elements of a row.
    fn fp8_copy(&self, group: Count) -> Result<f64, ModelError> {
        let groups = self.channels.div_ceil(group).ok_or_else(|| ModelError::fail("groups of no elements"))?;
        Ok((self.n + 4 * self.rows * groups).to_f64())
    }
}

fn finish(args: Args<'_>, x: usize, s: &Sizes, flops: f64, bytes: f64, quirks: &Quirks) -> Read {
    let shown = Shown { x, has_bias: false, is_affine: true, is_training: false };
    let cost = Cost::vector(flops, Some(bytes), dtype::vector_precision(args.dtype(x)?, quirks));
    Tally::new(params(args, shown, s.channels.into(), quirks)?, cost).boxed()
}

fn plain(call: &OpCall<'_>, quirks: &Quirks, x: usize) -> Read {
    let args = Args::of(call);
    let s = sizes(args, x, x + 1, quirks)?;
    finish(args, x, &s, s.norm, s.passes(2), quirks)
}

/// `aiter::rms_norm(x, weight, …)`.
pub fn rms_plain(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    plain(call, quirks, 0)
}

/// `aiter::rmsnorm(out, x, weight, …)`.
pub fn rms_into(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    plain(call, quirks, 1)
}

/// `aiter::add_rmsnorm(out, x, residual, residual_out, weight, …)`.
pub fn rms_add(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let s = sizes(args, 1, 4, quirks)?;
    finish(args, 1, &s, s.norm + s.n.to_f64(), s.passes(4), quirks)
}

/// `aiter::rmsnorm2d_fwd_with_dynamicquant_ck(out, x, scales, weight, …)`: one scale a row.
pub fn rms_token_quant(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let s = sizes(args, 1, 3, quirks)?;
    let bytes = s.passes(1) + s.fp8_copy(s.channels)?;
    finish(args, 1, &s, s.norm + 2.0 * s.n.to_f64(), bytes, quirks)
}

/// `aiter::rmsnorm_quant(out, x, scales, weight, eps, group_size, …)`.
pub fn rms_group_quant(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let s = sizes(args, 1, 3, quirks)?;
    let group = args.int(5).ok().filter(|&g| g > 0).map_or(s.channels, Count::from);
    let bytes = s.passes(1) + s.fp8_copy(group)?;
    finish(args, 1, &s, s.norm + 2.0 * s.n.to_f64(), bytes, quirks)
}

/// `vllm::rocm_aiter_rmsnorm_fp8_group_quant(x, weight, eps, group_size)`.
pub fn rms_group_fp8(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let s = sizes(args, 0, 1, quirks)?;
    let bytes = s.passes(1) + s.fp8_copy(args.int(3)?.into())?;
    finish(args, 0, &s, s.norm + 2.0 * s.n.to_f64(), bytes, quirks)
}

/// `vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant(x, residual, weight, eps, group_size)`.
pub fn rms_add_group_fp8(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let s = sizes(args, 0, 2, quirks)?;
    let bytes = s.passes(3) + s.fp8_copy(args.int(4)?.into())?;
    finish(args, 0, &s, s.norm + 3.0 * s.n.to_f64(), bytes, quirks)
}

/// `aiter::fused_add_rmsnorm_pad_(x, weight, eps, residual, multiple)`: rows padded to a multiple.
pub fn rms_add_pad(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let s = sizes(args, 0, 1, quirks)?;
    let multiple = args.int(4)?;
    let padded = if multiple > 0 { s.channels.div_ceil(multiple).unwrap_or_default() * multiple } else { s.channels };
    let written = s.rows * (padded + s.channels) * s.size;
    finish(args, 0, &s, s.norm + s.n.to_f64(), s.passes(2) + written.to_f64(), quirks)
}

/// `aiter::_fuse_rmsnorm_fp4_quant(x, weight, eps, x2, weight2, eps2, residual, …)`: 4-bit output with a scale per 32
/// elements, possibly a second, plain norm and a residual.
pub fn rms_mxfp4(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let s = sizes(args, 0, 1, quirks)?;
    let n = s.n.to_f64();
    let mut flops = s.norm + 2.0 * n;
    let mut bytes = s.passes(1) + 0.5 * n + s.n.div_floor(32_i64).unwrap_or_default().to_f64();
    if args.shape_or_empty(6).len() == 2 {
        flops += (s.rows * s.channels).to_f64();
        bytes += (2 * s.n * s.size).to_f64();
    }
    if let &[_, width] = args.shape_or_empty(3) {
        let second = s.rows * width;
        flops += (s.norm * second.to_f64() / n).trunc();
        bytes += ((2 * second + width.into()) * s.size).to_f64();
    }
    finish(args, 0, &s, flops, bytes, quirks)
}

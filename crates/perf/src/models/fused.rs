//! Fused operations that belong to no larger family: rotary embedding, cross entropy, state-space layers, sampling,
//! and the hyper-connections (`mHC`) of `DeepSeek` models.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::reckoned::{self, Reckoned};
use crate::models::{ComputeUnit, ModelError, PerfModel};
use crate::parity::Quirks;
use crate::value::Value;

/// Size of an element whose type was not recorded or is not known: nearly all of these run in 16 bits.
const USUAL_SIZE: i64 = 2;

/// `T[i]` where given, else `otherwise`.
fn dtype_or<'a>(args: Args<'a>, i: usize, otherwise: &'a str) -> &'a str {
    Some(args.dtype_or_empty(i)).filter(|t| !t.is_empty()).unwrap_or(otherwise)
}

/// A positive whole number among the arguments, else `otherwise`.
fn int_or(args: Args<'_>, i: usize, otherwise: i64) -> i64 {
    args.int(i).ok().filter(|&n| n != 0).unwrap_or(otherwise)
}

/// Rotation of `elements` numbers: two products and a sum for each, read and written.
fn rotation(elements: Count, dtype: &str, params: Vec<(&'static str, Value)>, quirks: &Quirks) -> Box<dyn PerfModel> {
    let bytes = 2 * elements * dtype::size(dtype, quirks).unwrap_or(USUAL_SIZE);
    let precision = dtype::vector_precision(dtype, quirks);
    Reckoned::boxed(params, reckoned::cost(3 * elements, Some(bytes), ComputeUnit::Vector, precision))
}

/// Rotary embedding of one (length, batch, heads, width) tensor.
pub(crate) fn rope(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let sizes: [i64; 4] = args.sizes(0)?;
    let elements = Count::of(&sizes);
    let mut params: Vec<_> = ["seq_len", "batch", "heads", "head_dim"].into_iter().zip(sizes.map(Value::Int)).collect();
    params.push(("num_elements", elements.into()));
    Ok(rotation(elements, args.dtype_or_empty(0), params, quirks))
}

/// Rotary embedding of the two tensors in slots 2 and 3.
pub(crate) fn rope_pair(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let (x, y) = (args.shape(2)?, args.shape(3)?);
    let elements = Count::of(x) + Count::of(y);
    let params = vec![("x_shape", Value::shape(x)), ("y_shape", Value::shape(y)), ("num_elements", elements.into())];
    Ok(rotation(elements, args.dtype_or_empty(0), params, quirks))
}

/// Rotary embedding of flat queries and keys: positions, q, k, head width, cache of sines and cosines.
pub(crate) fn rope_flat(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let head_width = int_or(args, 3, args.last_dim(1)?);
    let rotated = args.dim(4, 1).unwrap_or(head_width);
    let heads = |slot| -> Result<Count, ModelError> {
        // Heads may have a dimension of their own.
        let widths = if quirks.rotated_heads_flat { args.shape(slot)?.get(1..2) } else { args.shape(slot)?.get(1..) };
        let width = Count::of(widths.ok_or_else(|| ModelError::fail("no dimension of heads"))?);
        width.div_floor(head_width).ok_or_else(|| ModelError::fail("the heads have no width"))
    };
    let keys = if args.has_tensor(2) || quirks.rotated_heads_flat { heads(2)? } else { Count::ZERO };
    let elements = Count::from(args.dim(1, 0)?) * (heads(1)? + keys) * rotated;
    Ok(rotation(elements, args.dtype_or_empty(1), vec![("num_elements", elements.into())], quirks))
}

/// Sizes of the latent attention's rotary embedding, which also writes the cache.
struct LatentRope<'a> {
    tokens: i64,
    q_heads: i64,
    k_heads: i64,
    latent: i64,
    rotated: i64,
    dtype_in: &'a str,
    dtype_kv: &'a str,
}

impl<'a> LatentRope<'a> {
    fn read(args: Args<'a>, k_heads: i64) -> Result<Self, ModelError> {
        let [tokens, q_heads, latent] = args.sizes(0)?;
        let dtype_in = args.dtype(0)?;
        let dtype_kv = dtype_or(args, 4, dtype_in);
        Ok(Self { tokens, q_heads, k_heads, latent, rotated: args.dim(1, 2)?, dtype_in, dtype_kv })
    }

    fn params(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("T", self.tokens.into()),
            ("QH", self.q_heads.into()),
            ("KH", self.k_heads.into()),
            ("D_lora", self.latent.into()),
            ("D_pe", self.rotated.into()),
            ("dtype_in", self.dtype_in.into()),
            ("dtype_kv", self.dtype_kv.into()),
        ]
    }

    /// `out`: size of an element of the rotated queries.
    fn model(&self, out: Option<i64>, params: Vec<(&'static str, Value)>, quirks: &Quirks) -> Box<dyn PerfModel> {
        let heads = Count::from(self.q_heads) + self.k_heads.into();
        let flops = 3 * Count::from(self.tokens) * self.rotated * heads;
        let per_head = Count::from(self.tokens) * (Count::from(self.latent) + self.rotated.into());
        let sizes = (dtype::size(self.dtype_in, quirks), out, dtype::size(self.dtype_kv, quirks));
        let bytes = match sizes {
            (Some(size), Some(out), Some(kv)) => {
                let queries = Count::from(self.q_heads) * (Count::from(size) + out.into());
                Some(per_head * (queries + self.k_heads * (Count::from(size) + kv.into())))
            }
            _ => None,
        };
        let precision = dtype::vector_precision(self.dtype_in, quirks);
        Reckoned::boxed(params, reckoned::cost(flops, bytes, ComputeUnit::Vector, precision))
    }
}

/// Rotary embedding for latent attention, queries written in their own type.
pub(crate) fn latent_rope_cat(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let rope = LatentRope::read(args, args.dim(2, 1)?)?;
    Ok(rope.model(dtype::size(rope.dtype_in, quirks), rope.params(), quirks))
}

/// Rotary embedding for latent attention with one key head; the queries' output in slot 5.
pub(crate) fn latent_rope_concat(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let rope = LatentRope::read(args, 1)?;
    let dtype_out = dtype_or(args, 5, rope.dtype_in);
    let mut params = rope.params();
    params.push(("dtype_out", dtype_out.into()));
    Ok(rope.model(dtype::size(dtype_out, quirks), params, quirks))
}

/// Cross entropy over logits (…, V): for each row a 4-byte loss and an 8-byte target.
pub(crate) fn cross_entropy(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let (logits, vocabulary) = (args.shape(0)?, args.last_dim(0)?);
    let rows = if quirks.cross_entropy_rows_by_first_dim {
        Count::from(args.dim(0, 0)?)
    } else {
        Count::of(&logits[..logits.len() - 1])
    };
    let dtype = args.dtype_or_empty(0);
    let bytes = Count::of(logits) * dtype::size(dtype, quirks).unwrap_or(USUAL_SIZE) + 12 * rows;
    let params =
        vec![("batch", rows.into()), ("vocab_size", vocabulary.into()), ("logits_shape", Value::shape(logits))];
    let precision = dtype::vector_precision(dtype, quirks);
    Ok(Reckoned::boxed(params, reckoned::cost(5 * rows * vocabulary, Some(bytes), ComputeUnit::Vector, precision)))
}

/// Depthwise causal convolution of (batch, channels, length) with one short filter a channel.
pub(crate) fn causal_convolution(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [batch, channels, length] = args.sizes(0)?;
    let taps = args.dim(1, 1)?;
    let has_bias = args.has_tensor(2);
    let dtype = args.dtype_or_empty(0);
    let elements = Count::from(batch) * channels * length;
    let parameters = Count::from(channels) * taps + Count::from(channels).when(has_bias);
    let bytes = (2 * elements + parameters) * dtype::size(dtype, quirks).unwrap_or(USUAL_SIZE);
    let params = vec![
        ("batch", batch.into()),
        ("channels", channels.into()),
        ("seq_len", length.into()),
        ("kernel_size", taps.into()),
        ("has_bias", has_bias.into()),
    ];
    // No channel meets another, so that there is no matrix product in it (F45).
    let (unit, precision) = if quirks.causal_convolution_on_matrix_unit {
        (ComputeUnit::Matrix, dtype::precision(dtype, quirks))
    } else {
        (ComputeUnit::Vector, dtype::vector_precision(dtype, quirks))
    };
    Ok(Reckoned::boxed(params, reckoned::cost(2 * elements * taps, Some(bytes), unit, precision)))
}

/// A Mamba-2 layer: convolution, then the chunked scan, from one combined projection of width
/// `2·H·P + 2·G·N + H`.
pub(crate) fn mamba(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [batch, length, combined] = args.sizes(0)?;
    let [conv_channels, taps] = args.sizes(1)?;
    let heads = args.dim(3, 0)?;
    let (chunk, head_width, groups) = (int_or(args, 6, 128), int_or(args, 15, 64), int_or(args, 16, 1));
    let inner = Count::from(heads) * head_width;
    let state = (Count::from(combined) - 2 * inner - heads.into())
        .div_floor(2 * Count::from(groups))
        .filter(|&n| n > Count::ZERO && 2 * Count::from(groups) * n + 2 * inner + heads.into() == combined.into())
        .ok_or_else(|| ModelError::fail("the combined projection leaves no whole state width"))?;

    let tokens = Count::from(batch) * length;
    let flops = 2 * tokens * conv_channels * taps
        + 2 * tokens * groups * chunk * state
        + 2 * tokens * heads * chunk * head_width
        + 4 * tokens * heads * state * head_width;
    let size = dtype::size(args.dtype_or_empty(0), quirks).unwrap_or(USUAL_SIZE);
    let size_of = |slot, otherwise| dtype::size(args.dtype_or_empty(slot), quirks).unwrap_or(otherwise);
    let activations = tokens * combined + Count::from(conv_channels) * taps + conv_channels.into() + tokens * inner;
    let per_head = Count::from(size_of(3, 4)) + size_of(4, 4).into() + size_of(5, size).into();
    let bytes = activations * size + heads * per_head;
    let params = vec![
        ("B", batch.into()),
        ("T", length.into()),
        ("H", heads.into()),
        ("P", head_width.into()),
        ("G", groups.into()),
        ("N", state.into()),
        ("C", chunk.into()),
        ("d_inner", inner.into()),
        ("d_conv", taps.into()),
        ("conv_channels", conv_channels.into()),
        ("combined_dim", combined.into()),
    ];
    let precision = dtype::precision(args.dtype_or_empty(0), quirks);
    let cost = reckoned::cost(flops, Some(bytes), ComputeUnit::Matrix, precision);
    Ok(Box::new(Reckoned { params, cost: cost.clone(), backward: Some(cost) }))
}

/// Sampling from (T, V) logits with exponential noise; one 4-byte token a row.
pub(crate) fn sample_exponential(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [rows, vocabulary] = args.sizes(1)?;
    let (logits, noise) = (args.dtype(1)?, args.dtype(2)?);
    let elements = Count::from(rows) * vocabulary;
    let sizes = dtype::size(logits, quirks).zip(dtype::size(noise, quirks));
    let bytes = sizes.map(|(logits, noise)| elements * (Count::from(logits) + noise.into()) + 4 * Count::from(rows));
    let params = vec![
        ("T", rows.into()),
        ("V", vocabulary.into()),
        ("dtype_logits", logits.into()),
        ("dtype_noise", noise.into()),
    ];
    let precision = dtype::vector_precision(logits, quirks);
    Ok(Reckoned::boxed(params, reckoned::cost(2 * elements, bytes, ComputeUnit::Vector, precision)))
}

/// Sizes of a hyper-connection step: M tokens, n streams of width C, mixed by a projection to h numbers from K.
struct HyperConnection<'a> {
    tokens: i64,
    streams: i64,
    width: i64,
    /// h.
    mixed: Option<i64>,
    /// K, where the projection itself is part of the call.
    depth: Option<i64>,
    /// Partial sums of the projection.
    splits: Option<i64>,
    dtype: &'a str,
}

impl HyperConnection<'_> {
    fn params(&self) -> Vec<(&'static str, Value)> {
        let mut params: Vec<(&'static str, Value)> = vec![
            ("M", self.tokens.into()),
            ("n", self.streams.into()),
            ("C", self.width.into()),
            ("hc3", self.mixed.into()),
        ];
        params.extend(self.depth.map(|k| ("K", k.into())));
        params.extend(self.splits.map(|splits| ("split_k", splits.into())));
        params.push(("dtype_in", self.dtype.into()));
        params
    }

    /// M·C and M·n·C.
    fn elements(&self) -> (Count, Count) {
        let one = Count::from(self.tokens) * self.width;
        (one, one * self.streams)
    }

    /// The 4-byte gates and mixing matrices: n and n² numbers a token.
    fn gate_bytes(&self) -> Count {
        let gates = 4 * Count::from(self.tokens) * self.streams;
        gates + gates * self.streams
    }

    /// The 4-byte partial sums of the projection.
    fn partial_bytes(&self) -> Count {
        4 * Count::from(self.splits.unwrap_or(0)) * self.tokens * self.mixed.unwrap_or(0)
    }

    /// The 4-byte weights of the projection, its partial sums and those of the squares.
    fn projection_bytes(&self) -> Count {
        4 * Count::from(self.mixed.unwrap_or(0)) * self.depth.unwrap_or(0)
            + self.partial_bytes()
            + 4 * Count::from(self.splits.unwrap_or(0)) * self.tokens
    }

    fn projection_flops(&self) -> Count {
        2 * Count::from(self.tokens) * self.mixed.unwrap_or(0) * self.depth.unwrap_or(0)
    }

    /// Every stream is mixed from n streams and the layer's output.
    fn post_flops(&self) -> Count {
        2 * self.elements().1 * (Count::from(self.streams) + Count::ONE)
    }

    /// `activations`: 16-bit elements moved; `fixed`: bytes that do not depend on the type.
    fn model(
        &self,
        flops: Count,
        activations: Count,
        fixed: Count,
        unit: ComputeUnit,
        quirks: &Quirks,
    ) -> Box<dyn PerfModel> {
        let bytes = dtype::size(self.dtype, quirks).map(|size| activations * size + fixed);
        let precision = dtype::precision(self.dtype, quirks);
        Reckoned::boxed(self.params(), reckoned::cost(flops, bytes, unit, precision))
    }
}

/// The type of slot `i`; these operations run in bfloat16 unless the trace says otherwise.
fn hyper_dtype(args: Args<'_>, i: usize) -> &str {
    args.dtype(i).unwrap_or("c10::BFloat16")
}

/// Hyper-connections after a layer: out, x (M, C), residual streams, gates, mixing matrices.
pub(crate) fn hyper_post(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, width] = args.sizes(1)?;
    let streams = args.dim(0, 1)?;
    let dtype = hyper_dtype(args, 1);
    let step = HyperConnection { tokens, streams, width, mixed: None, depth: None, splits: None, dtype };
    let (one, all) = step.elements();
    Ok(step.model(step.post_flops(), one + 2 * all, step.gate_bytes(), ComputeUnit::Vector, quirks))
}

/// The projection before a layer: partial sums (split, M, h), squares, streams (M, n, C), weights (h, K).
pub(crate) fn hyper_projection(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, streams, width] = args.sizes(2)?;
    let [mixed, depth] = args.sizes(3)?;
    let step = HyperConnection {
        tokens,
        streams,
        width,
        mixed: Some(mixed),
        depth: Some(depth),
        splits: Some(args.dim(0, 0)?),
        dtype: hyper_dtype(args, 2),
    };
    let (flops, activations) = (step.projection_flops(), step.elements().1);
    Ok(step.model(flops, activations, step.projection_bytes(), ComputeUnit::Matrix, quirks))
}

/// What follows that projection, with the layer's norm: gates, mixing, out (M, C), partial sums, …, streams in slot 7.
pub(crate) fn hyper_pre_norm(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, width] = args.sizes(2)?;
    let step = HyperConnection {
        tokens,
        streams: args.dim(0, 1)?,
        width,
        mixed: Some(args.dim(6, 0)?),
        depth: None,
        splits: Some(args.dim(3, 0)?),
        dtype: hyper_dtype(args, 7),
    };
    let (one, all) = step.elements();
    let fixed = step.partial_bytes() + step.gate_bytes();
    Ok(step.model(2 * all + 5 * one, all + width.into() + one, fixed, ComputeUnit::Vector, quirks))
}

/// The step after one layer and the projection before the next, in one kernel.
pub(crate) fn hyper_post_projection(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, width] = args.sizes(3)?;
    let [mixed, depth] = args.sizes(7)?;
    let step = HyperConnection {
        tokens,
        streams: args.dim(2, 1)?,
        width,
        mixed: Some(mixed),
        depth: Some(depth),
        splits: Some(args.dim(0, 0)?),
        dtype: hyper_dtype(args, 3),
    };
    let (one, all) = step.elements();
    let flops = step.post_flops() + step.projection_flops();
    let fixed = step.gate_bytes() + step.projection_bytes();
    Ok(step.model(flops, one + 3 * all, fixed, ComputeUnit::Matrix, quirks))
}

//! Attention of serving engines: many requests in one call, its work told by the step annotation.
//!
//! With Σ over requests, a context request of sq new tokens that sees sk keys has sq·sk − sq²/2 unmasked pairs, a
//! generation request sq·sk. A pair costs 2·(`d_qk` + `d_v`) operations for each query head. New tokens bring their own
//! K and V; everything older is read from the cache once.

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::annotation::StepSums;
use crate::models::reckoned::{self, Reckoned};
use crate::models::{ComputeUnit, Cost, ModelError, Params, PerfModel};
use crate::parity::Quirks;
use crate::value::Value;

/// Type of the DeepSeek-V4 cache, which the call does not record.
const BF16: &str = "c10::BFloat16";

/// Width of the positional part of a multi-head latent key; the rest of it is the value.
const LATENT_ROPE_WIDTH: i64 = 64;

/// Sizes of an attention call.
#[derive(Debug, Clone, Copy)]
struct Shape {
    n_q: i64,
    h_q: i64,
    n_kv: i64,
    h_kv: i64,
    d_qk: i64,
    d_v: i64,
}

/// How the KV cache stores keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cache {
    /// Apart.
    KeysAndValues,
    /// One vector a token serves as both.
    Shared,
}

/// One attention call within a step.
#[derive(Debug)]
struct Attention {
    shape: Shape,
    sums: StepSums,
    cache: Cache,
    /// Keys that one query sees at most.
    window: Option<i64>,
    /// Whether the window also bounds what prompts see.
    window_on_context: bool,
    dtype_q: String,
    /// Type of the cache; `None` where the model does not look at it.
    dtype_kv: Option<String>,
    quirks: Quirks,
}

impl Attention {
    /// `value`, which grows with the keys of generating requests, within the window.
    fn within_window(&self, value: i64) -> i64 {
        let queries = self.sums.generation.sq;
        match self.window {
            Some(window) if window > 0 && queries > 0 => value.min(queries.saturating_mul(window)),
            _ => value,
        }
    }

    fn flops(&self) -> Count {
        let Shape { h_q, d_qk, d_v, .. } = self.shape;
        let StepSums { context, generation } = self.sums;
        let mut context_pairs = 2 * Count::from(context.sqsk) - Count::from(context.sqsq);
        if let Some(window) = self.window.filter(|&w| self.window_on_context && w > 0) {
            context_pairs = context_pairs.min(2 * Count::from(context.sq) * window);
        }
        let pairs = context_pairs + 2 * Count::from(self.within_window(generation.sqsk));
        (Count::from(d_qk) + d_v.into()) * h_q * pairs
    }

    fn bytes(&self) -> Count {
        let Shape { h_q, h_kv, d_qk, d_v, .. } = self.shape;
        let StepSums { context, generation } = self.sums;
        let width_out = Count::from(d_qk) + d_v.into();
        let width_kv = h_kv * if self.cache == Cache::Shared { Count::from(d_qk.max(d_v)) } else { width_out };
        let size_q = dtype::size(&self.dtype_q, &self.quirks).unwrap_or(2);
        let size_kv = self.dtype_kv.as_deref().and_then(|t| dtype::size(t, &self.quirks)).unwrap_or(size_q);
        let new_tokens = Count::from(context.sq) + generation.sq.into();
        let cached = Count::from(context.sk) - context.sq.into() + self.within_window(generation.sk).into()
            - generation.sq.into();
        new_tokens * (h_q * width_out + width_kv) * size_q + cached * width_kv * size_kv
    }
}

impl PerfModel for Attention {
    fn into_params(self: Box<Self>) -> Params {
        let mut params = shape_params(self.shape);
        let StepSums { context, generation } = self.sums;
        for (names, sums) in
            [(["c_sq", "c_sk", "c_sqsq", "c_sqsk"], context), (["g_sq", "g_sk", "g_sqsq", "g_sqsk"], generation)]
        {
            params.extend(names.into_iter().zip([sums.sq, sums.sk, sums.sqsq, sums.sqsk].map(Value::Int)));
        }
        params.push(("dtype_Q", self.dtype_q.as_str().into()));
        if let Some(dtype_kv) = &self.dtype_kv {
            params.push(("dtype_KV", dtype_kv.as_str().into()));
        }
        if let Some(window) = self.window {
            params.push(("sliding_window", window.into()));
        }
        params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        if self.sums.context.sq == 0 && self.sums.generation.sq == 0 {
            return Err(no_formula("the step has no tokens", &self.quirks));
        }
        let precision = dtype::precision(&self.dtype_q, &self.quirks);
        Ok(reckoned::cost(self.flops(), Some(self.bytes()), ComputeUnit::Matrix, precision))
    }
}

/// The parameters every attention model begins with.
fn shape_params(shape: Shape) -> Vec<(&'static str, Value)> {
    let Shape { n_q, h_q, n_kv, h_kv, d_qk, d_v } = shape;
    vec![
        ("B", 1.into()),
        ("N_Q", n_q.into()),
        ("H_Q", h_q.into()),
        ("H_V", h_kv.into()),
        ("H_K", h_kv.into()),
        ("N_KV", n_kv.into()),
        ("H_KV", h_kv.into()),
        ("d_h_qk", d_qk.into()),
        ("d_h_v", d_v.into()),
        ("dropout", 0.0.into()),
        ("causal", false.into()),
        ("flash_impl", true.into()),
    ]
}

/// The error for a call that no formula covers (F22).
fn no_formula(reason: &str, quirks: &Quirks) -> ModelError {
    if quirks.unformulated_rows_vanish { ModelError::Drop } else { ModelError::fail(reason) }
}

fn step_sums(call: &OpCall<'_>) -> Option<StepSums> {
    StepSums::parse(call.annotation?)
}

fn required_sums(call: &OpCall<'_>) -> Result<StepSums, ModelError> {
    step_sums(call).ok_or_else(|| ModelError::fail("no step annotation tells how many tokens were attended to"))
}

/// The layout most operations share: q = (tokens, heads, width), k = (…, tokens, heads, width).
fn base(call: &OpCall<'_>, quirks: &Quirks) -> Result<Attention, ModelError> {
    let sums = required_sums(call)?;
    let args = Args::of(call);
    let [n_q, h_q, d_qk] = args.sizes(0)?;
    let keys = args.shape(1)?;
    let Some(&[n_kv, h_kv, d_v]) = keys.last_chunk() else {
        return Err(ModelError::fail(format!("input 1 has {} dimensions, not 3 or more", keys.len())));
    };
    let dtype_q = args.dtype_or_empty(0);
    let dtype_kv = Some(args.dtype_or_empty(1)).filter(|t| !t.is_empty()).unwrap_or(dtype_q);
    Ok(Attention {
        shape: Shape { n_q, h_q, n_kv, h_kv, d_qk, d_v },
        sums,
        cache: Cache::KeysAndValues,
        window: configured_window(call, quirks),
        window_on_context: true,
        dtype_q: dtype_q.to_owned(),
        dtype_kv: Some(dtype_kv.to_owned()),
        quirks: *quirks,
    })
}

/// The model's sliding window, where its configuration was given with the call (F19).
fn configured_window(call: &OpCall<'_>, quirks: &Quirks) -> Option<i64> {
    if quirks.sliding_window_ignored {
        return None;
    }
    reckoned::extra_int(call, "sliding_window").filter(|&w| w > 0)
}

/// q, k as in the shared layout, v as wide as k.
pub(crate) fn packed(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    Ok(Box::new(base(call, quirks)?))
}

/// q, k, v with values of their own width.
pub(crate) fn packed_with_values(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let mut attention = base(call, quirks)?;
    if let Some(&width) = Args::of(call).shape_or_empty(2).last() {
        attention.shape.d_v = width;
    }
    Ok(Box::new(attention))
}

/// Multi-head latent attention while generating: one cached latent a token is key and, but for its positional part,
/// value (F20).
pub(crate) fn latent_decode(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let mut attention = base(call, quirks)?;
    if !quirks.mla_latent_counted_twice {
        attention.cache = Cache::Shared;
        let width = attention.shape.d_qk;
        attention.shape.d_v = if width > LATENT_ROPE_WIDTH { width - LATENT_ROPE_WIDTH } else { width };
    }
    Ok(Box::new(attention))
}

/// q, latent cache, (tokens, groups, k) indices of the keys to attend to, scale, value width.
pub(crate) fn sparse_latent(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    const VALUE_WIDTH: i64 = 512;
    let mut attention = base(call, quirks)?;
    let args = Args::of(call);
    let given = args.int(4).ok().filter(|&width| width > 0 && !quirks.sparse_value_width_fixed);
    attention.shape.d_v = given.unwrap_or(VALUE_WIDTH);
    if !quirks.mla_latent_counted_twice {
        attention.cache = Cache::Shared;
    }
    if !quirks.sliding_window_ignored {
        // The list of indices bounds what a query sees just as a window does.
        attention.window = args.shape_or_empty(2).last().copied().filter(|&k| k > 0).or(attention.window);
    }
    Ok(Box::new(attention))
}

/// Paged attention over ragged requests: q in slot 2, the two caches in slots 3 and 4.
pub(crate) fn paged_ragged(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let sums = required_sums(call)?;
    let args = Args::of(call);
    let [n_q, h_q, d_qk] = args.sizes(2)?;
    let keys = args.shape(3)?;
    let Some(&[h_kv, _]) = keys.last_chunk() else {
        return Err(ModelError::fail(format!("input 3 has {} dimensions, not 2 or more", keys.len())));
    };
    let n_kv = sums.context.sk.saturating_add(sums.generation.sk);
    let cache_type = Some(args.dtype_or_empty(3)).filter(|t| !t.is_empty() && !quirks.paged_cache_type_unknown);
    Ok(Box::new(Attention {
        shape: Shape { n_q, h_q, n_kv, h_kv, d_qk, d_v: args.last_dim(4)? },
        sums,
        cache: Cache::KeysAndValues,
        window: configured_window(call, quirks),
        window_on_context: true,
        dtype_q: args.dtype_or_empty(2).to_owned(),
        dtype_kv: cache_type.map(str::to_owned),
        quirks: *quirks,
    }))
}

/// Paged attention while generating, with its sliding window as argument 19.
pub(crate) fn paged_decode(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let sums = required_sums(call)?.generation_only();
    let args = Args::of(call);
    let [n_q, h_q, d_qk] = args.sizes(0)?;
    let dtype_q = args.dtype_or_empty(0);
    let dtype_kv = Some(args.dtype_or_empty(2)).filter(|t| !t.is_empty()).unwrap_or(dtype_q);
    Ok(Box::new(Attention {
        shape: Shape { n_q, h_q, n_kv: sums.generation.sk, h_kv: args.dim(2, 1)?, d_qk, d_v: d_qk },
        sums,
        cache: Cache::KeysAndValues,
        window: Some(args.int(19).unwrap_or(0)),
        window_on_context: false,
        dtype_q: dtype_q.to_owned(),
        dtype_kv: Some(dtype_kv.to_owned()),
        quirks: *quirks,
    }))
}

/// The three kinds of DeepSeek-V4 layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum V4Layer {
    /// Sliding window alone.
    Window,
    /// Window, and the best of the keys compressed four to one.
    Sparse,
    /// Window, and all keys compressed 128 to one.
    HeavilyCompressed,
}

/// What distinguishes the published DeepSeek-V4 models.
struct V4Variant {
    index_topk: i64,
    window: i64,
    heads: i64,
    width: i64,
}

const V4_PRO: V4Variant = V4Variant { index_topk: 1024, window: 128, heads: 128, width: 512 };
const V4_FLASH: V4Variant = V4Variant { index_topk: 512, window: 128, heads: 64, width: 512 };

impl V4Layer {
    /// Keys that one query sees.
    fn window(self, variant: &V4Variant, sums: StepSums) -> i64 {
        let queries = sums.generation.sq;
        let keys_each = if queries == 0 { None } else { Some(sums.generation.sk as f64 / queries as f64) };
        let compressed = |ratio: f64| keys_each.map(|keys| (keys / ratio).ceil() as i64);
        variant.window.saturating_add(match self {
            Self::Window => 0,
            Self::Sparse => compressed(4.0).map_or(variant.index_topk, |keys| keys.min(variant.index_topk)),
            Self::HeavilyCompressed => compressed(128.0).unwrap_or(0),
        })
    }
}

/// DeepSeek-V4 generation, window layers.
pub(crate) fn v4_window(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    v4(call, V4Layer::Window, quirks)
}

/// DeepSeek-V4 generation, compressed sparse layers.
pub(crate) fn v4_sparse(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    v4(call, V4Layer::Sparse, quirks)
}

/// DeepSeek-V4 generation, heavily compressed layers.
pub(crate) fn v4_compressed(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    v4(call, V4Layer::HeavilyCompressed, quirks)
}

fn v4(call: &OpCall<'_>, layer: V4Layer, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let sums = required_sums(call)?.generation_only();
    let model_name = match reckoned::extra(call, "v4_model_name") {
        Some(Value::Str(name)) => name.as_str(),
        _ => "",
    };
    let variant = if model_name.contains("DeepSeek-V4-Pro") { V4_PRO } else { V4_FLASH };
    let given = |name| reckoned::extra_int(call, name).filter(|&n| n > 0);
    let h_q = given("v4_H_Q").unwrap_or_else(|| (variant.heads / given("v4_tp").unwrap_or(1)).max(1));
    let width = given("v4_d_h").unwrap_or(variant.width);
    let n_q = Args::of(call).dim(0, 0).unwrap_or(sums.generation.sq);
    Ok(Box::new(Attention {
        shape: Shape { n_q, h_q, n_kv: sums.generation.sk, h_kv: 1, d_qk: width, d_v: width },
        sums,
        // Values are the keys themselves, which is why the layer turns its output back by the position.
        cache: if quirks.mla_latent_counted_twice { Cache::KeysAndValues } else { Cache::Shared },
        window: Some(layer.window(&variant, sums)),
        window_on_context: false,
        dtype_q: BF16.to_owned(),
        dtype_kv: Some(BF16.to_owned()),
        quirks: *quirks,
    }))
}

/// DeepSeek-V4 prompts: two lists of (query, key) pairs say exactly what is attended to; no annotation needed.
pub(crate) fn sparse_prefill(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [n_q, h_q, width] = args.sizes(0)?;
    let pairs = Count::from(args.dim(2, 0)?) + args.dim(5, 0)?.into();
    let (dtype_q, dtype_kv) = (args.dtype_or_empty(0), args.dtype_or_empty(1));
    let size_q = dtype::size(dtype_q, quirks).unwrap_or(2);
    let size_kv = dtype::size(dtype_kv, quirks).unwrap_or(size_q);
    let flops = pairs * h_q * 2 * (Count::from(width) + width.into());
    let bytes = 2 * Count::from(n_q) * h_q * width * size_q + pairs * width * size_kv;
    let mut params = shape_params(Shape { n_q, h_q, n_kv: pairs.to_i64(), h_kv: 1, d_qk: width, d_v: width });
    params.extend([("prefill_pairs", pairs.into()), ("dtype_Q", dtype_q.into()), ("dtype_KV", dtype_kv.into())]);
    let precision = dtype::precision(dtype_q, quirks).unwrap_or("bf16");
    Ok(Reckoned::boxed(params, reckoned::cost(flops, Some(bytes), ComputeUnit::Matrix, Some(precision))))
}

/// Gated delta net: linear attention with a state of `d_v` × `d_k` a head, updated and read for every token.
pub(crate) fn delta_net(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let sums = step_sums(call).ok_or_else(|| no_formula("no step annotation tells how many tokens ran", quirks))?;
    let args = Args::of(call);
    let (mixed, h_v, d_v) = (args.dim(0, 1)?, args.dim(1, 1)?, args.dim(3, 2)?);
    // q and k share what v leaves of the mixed projection, with half as many heads.
    let h_k = h_v.div_euclid(2);
    let keys = (Count::from(mixed) - Count::from(h_v) * d_v).div_floor(2_i64).and_then(|n| n.div_floor(h_k));
    let d_k = keys.ok_or_else(|| ModelError::fail("the delta net has no key heads"))?;
    let tokens = sums.tokens();
    let size = match dtype::size(args.dtype_or_empty(0), quirks) {
        Some(size) if !quirks.delta_net_two_bytes => size,
        _ => 2,
    };
    let per_head = Count::from(tokens) * h_v;
    let flops = per_head * 7 * d_v * d_k;
    let bytes = per_head * (d_k + 2 * Count::from(d_v) + 2_i64.into()) * size;
    let (context, generation) = (sums.context.sq, sums.generation.sq);
    let params = vec![
        ("B", 1.into()),
        ("N_Q", tokens.into()),
        ("H_Q", h_k.into()),
        ("N_KV", 0.into()),
        ("H_KV", h_k.into()),
        ("H_V", h_v.into()),
        ("H_K", h_k.into()),
        ("d_h_qk", d_k.into()),
        ("d_h_v", d_v.into()),
        ("c_sq", context.into()),
        ("c_sk", context.into()),
        ("c_sqsq", 0.into()),
        ("c_sqsk", 0.into()),
        ("g_sq", generation.into()),
        ("g_sk", generation.into()),
        ("g_sqsq", 0.into()),
        ("g_sqsk", 0.into()),
        ("dtype_Q", args.dtype_or_empty(0).into()),
    ];
    let precision = dtype::precision(args.dtype_or_empty(0), quirks);
    Ok(Reckoned::boxed(params, reckoned::cost(flops, Some(bytes), ComputeUnit::Matrix, precision)))
}

/// As [`delta_net`], for the operation whose annotation the reference forgets (F23).
pub(crate) fn linear_attention(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    if quirks.linear_attention_unannotated {
        return Err(no_formula("the operation is never annotated", quirks));
    }
    delta_net(call, quirks)
}

/// New keys and values, each read and written to its place in the cache.
pub(crate) fn store_cache(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let (shape, dtype) = (args.shape(0)?, args.dtype_or_empty(0));
    let elements = Count::of(shape);
    let bytes = 4 * elements * dtype::size(dtype, quirks).unwrap_or(2);
    let params = vec![("op_shape", Value::shape(shape)), ("nelems", elements.into()), ("dtype", dtype.into())];
    let precision = dtype::vector_precision(dtype, quirks);
    Ok(Reckoned::boxed(params, reckoned::cost(Count::ZERO, Some(bytes), ComputeUnit::Vector, precision)))
}

//! Mixture of experts: M tokens of width H, each through k of E experts of inner width I.
//!
//! An expert is an up projection H → I (twice if gated) and a down projection I → H. Only the weights of experts that
//! at least one token chose are read; with independent choices those are E·(1 − ((E − k)/E)^M) on average.

pub(crate) mod auxiliary;

#[cfg(test)]
mod tests;

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::reckoned;
use crate::models::{ComputeUnit, Cost, ModelError, Params, PerfModel};
use crate::parity::Quirks;
use crate::value::Value;

/// Which projections a call computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Fused,
    Up,
    Down,
}

/// M, H, I, E, k.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    tokens: i64,
    hidden: i64,
    inner: i64,
    experts: i64,
    topk: i64,
}

/// Bytes of one logical element.
#[derive(Debug, Clone, Copy)]
struct ElementBytes {
    input: f64,
    weight: f64,
    output: f64,
}

/// One expert GEMM, or a whole expert block.
#[derive(Debug)]
struct Experts {
    stage: Stage,
    sizes: Sizes,
    gated: bool,
    /// Whether `gated` is among the parameters.
    shows_gated: bool,
    bytes: ElementBytes,
    /// Names of the types, as shown.
    dtypes: Vec<(&'static str, Value)>,
    precision: Option<&'static str>,
}

impl Experts {
    fn flops(&self) -> Count {
        let Sizes { tokens, hidden, inner, topk, .. } = self.sizes;
        let one_projection = 2 * Count::from(tokens) * hidden * inner * topk;
        let up = one_projection * if self.gated { 2 } else { 1 };
        match self.stage {
            Stage::Up => up,
            Stage::Down => one_projection,
            // The k results of a token are weighted and added.
            Stage::Fused => up + one_projection + Count::from(tokens) * hidden * (2 * Count::from(topk) - Count::ONE),
        }
    }

    fn traffic(&self) -> f64 {
        let Sizes { tokens, hidden, inner, topk, .. } = self.sizes;
        let ElementBytes { input, weight, output } = self.bytes;
        let (m, h, i, k) = (tokens as f64, hidden as f64, inner as f64, topk as f64);
        let matrix = active_experts(self.sizes) * h * i * weight;
        let ups = if self.gated { 2.0 } else { 1.0 };
        match self.stage {
            Stage::Up => m * h * input + matrix * ups + m * i * k * output,
            Stage::Down => m * i * k * input + matrix + m * h * output,
            Stage::Fused => m * h * input + matrix * (ups + 1.0) + m * h * output,
        }
    }
}

/// Experts that at least one token chose, on average.
fn active_experts(sizes: Sizes) -> f64 {
    let experts = sizes.experts as f64;
    experts * (1.0 - ((experts - sizes.topk as f64) / experts).powf(sizes.tokens as f64))
}

impl PerfModel for Experts {
    fn into_params(self: Box<Self>) -> Params {
        let Sizes { tokens, hidden, inner, experts, topk } = self.sizes;
        let mut params: Vec<(&'static str, Value)> = vec![
            ("num_tokens", tokens.into()),
            ("hidden_dim", hidden.into()),
            ("inter_dim", inner.into()),
            ("num_experts", experts.into()),
            ("topk", topk.into()),
        ];
        if self.shows_gated {
            params.push(("gated", self.gated.into()));
        }
        params.extend(self.dtypes);
        params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        if self.sizes.experts == 0 {
            return Err(ModelError::fail("there are no experts"));
        }
        Ok(Cost {
            flops: Some(self.flops().to_f64()),
            bytes: Some(self.traffic()),
            unit: ComputeUnit::Matrix,
            precision: self.precision.map(Into::into),
        })
    }
}

/// How one operand is stored: its type and, if several numbers share a stored element, how many there are of each.
#[derive(Debug, Clone, Copy)]
struct Stored<'a> {
    dtype: &'a str,
    /// Length of the packed dimension as stored.
    packed: i64,
    /// Its length in numbers.
    logical: i64,
}

impl Stored<'_> {
    /// Bytes of one number. The reference has a short table, and `usual` for every type that it lacks.
    fn bytes(self, usual: f64, quirks: &Quirks) -> f64 {
        let listed = dtype::expert_size(self.dtype).unwrap_or(usual);
        if quirks.expert_sizes_assumed || self.packed <= 0 || self.logical <= 0 {
            return listed;
        }
        match dtype::size(self.dtype, quirks) {
            Some(size) => size as f64 * self.packed as f64 / self.logical as f64,
            None => listed,
        }
    }
}

fn unpacked(dtype: &str) -> Stored<'_> {
    Stored { dtype, packed: 1, logical: 1 }
}

/// ⌊a / b⌋, failing on zero.
fn ratio(a: i64, b: i64) -> Result<i64, ModelError> {
    let quotient = Count::from(a).div_floor(b).map(Count::to_i64);
    quotient.ok_or_else(|| ModelError::fail("a dimension of the weights is zero"))
}

/// Weights as (E, 2I or I, H) and (E, H, I), possibly packed; tells sizes, gating and packing.
struct Weights {
    experts: i64,
    hidden: i64,
    inner: i64,
    gated: bool,
    /// H as stored in the up projection.
    stored_hidden: i64,
}

impl Weights {
    fn read(args: Args<'_>, up: usize, down: usize) -> Result<Self, ModelError> {
        let [experts, hidden, stored_inner] = args.sizes(down)?;
        let stored_hidden = args.last_dim(up)?;
        let inner = stored_inner.saturating_mul(ratio(hidden, stored_hidden)?);
        let gated = args.dim(up, 1)? == inner.saturating_mul(2);
        Ok(Self { experts, hidden, inner, gated, stored_hidden })
    }

    fn sizes(&self, tokens: i64, topk: i64) -> Sizes {
        Sizes { tokens, hidden: self.hidden, inner: self.inner, experts: self.experts, topk }
    }

    fn stored<'a>(&self, dtype: &'a str) -> Stored<'a> {
        Stored { dtype, packed: self.stored_hidden, logical: self.hidden }
    }
}

/// x, up, down, (tokens, k): the layout of whole expert blocks and of pseudo-operations made from one.
fn block(call: &OpCall<'_>, stage: Stage, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let weights = Weights::read(args, 1, 2)?;
    let (dtype_in, dtype_weight) = (args.dtype(0)?, args.dtype(1)?);
    let input = Stored { dtype: dtype_in, packed: args.last_dim(0)?, logical: weights.hidden }.bytes(2.0, quirks);
    let rated = if stage == Stage::Fused { dtype_in } else { dtype_weight };
    Ok(Box::new(Experts {
        stage,
        sizes: weights.sizes(args.dim(0, 0)?, args.dim(3, 1)?),
        gated: weights.gated,
        shows_gated: true,
        bytes: ElementBytes { input, weight: weights.stored(dtype_weight).bytes(1.0, quirks), output: input },
        dtypes: vec![("input_dtype", dtype_in.into()), ("weight_dtype", dtype_weight.into())],
        precision: dtype::precision(rated, quirks),
    }))
}

/// A whole expert block in one kernel.
pub(crate) fn fused_block(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    block(call, Stage::Fused, quirks)
}

/// The up projection of an expert block.
pub(crate) fn block_up(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    block(call, Stage::Up, quirks)
}

/// The down projection of an expert block.
pub(crate) fn block_down(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    block(call, Stage::Down, quirks)
}

/// out, x, up, down, …, k as argument 8: a whole expert block with scales.
pub(crate) fn fused_scaled(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let weights = Weights::read(args, 2, 3)?;
    let [dtype_out, dtype_in, dtype_weight] = [args.dtype(0)?, args.dtype(1)?, args.dtype(2)?];
    let stored_width = args.shape_or_empty(1).last().copied().unwrap_or(0);
    let input = Stored { dtype: dtype_in, packed: stored_width, logical: weights.hidden };
    Ok(Box::new(Experts {
        stage: Stage::Fused,
        sizes: weights.sizes(args.dim(0, 0)?, args.int(8)?),
        gated: weights.gated,
        shows_gated: true,
        bytes: ElementBytes {
            input: input.bytes(1.0, quirks),
            weight: weights.stored(dtype_weight).bytes(1.0, quirks),
            output: unpacked(dtype_out).bytes(2.0, quirks),
        },
        dtypes: vec![
            ("input_dtype", dtype_in.into()),
            ("weight_dtype", dtype_weight.into()),
            ("output_dtype", dtype_out.into()),
        ],
        precision: dtype::precision(dtype_in, quirks),
    }))
}

/// x (M, H), up (E, ·, H), out (M, k, I).
pub(crate) fn tiled_up(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, hidden] = args.sizes(0)?;
    let (topk, inner) = (args.dim(2, 1)?, args.dim(2, 2)?);
    let gated = args.dim(1, 1)? == inner.saturating_mul(2);
    let sizes = Sizes { tokens, hidden, inner, experts: args.dim(1, 0)?, topk };
    tiled(args, Stage::Up, sizes, Some(gated), quirks)
}

/// x (M, k, I), down (E, H, ·), out (M, H).
pub(crate) fn tiled_down(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, topk, inner] = args.sizes(0)?;
    let sizes = Sizes { tokens, hidden: args.dim(1, 1)?, inner, experts: args.dim(1, 0)?, topk };
    tiled(args, Stage::Down, sizes, None, quirks)
}

fn tiled(
    args: Args<'_>,
    stage: Stage,
    sizes: Sizes,
    gated: Option<bool>,
    quirks: &Quirks,
) -> Result<Box<dyn PerfModel>, ModelError> {
    let [dtype_in, dtype_weight, dtype_out] = [args.dtype(0)?, args.dtype(1)?, args.dtype(2)?];
    let length = if stage == Stage::Up { sizes.hidden } else { sizes.inner };
    let weight =
        Stored { dtype: dtype_weight, packed: args.shape_or_empty(1).last().copied().unwrap_or(0), logical: length };
    Ok(Box::new(Experts {
        stage,
        sizes,
        gated: gated.unwrap_or(false),
        shows_gated: gated.is_some(),
        bytes: ElementBytes {
            input: unpacked(dtype_in).bytes(2.0, quirks),
            weight: weight.bytes(1.0, quirks),
            output: unpacked(dtype_out).bytes(2.0, quirks),
        },
        dtypes: vec![
            ("input_dtype", dtype_in.into()),
            ("weight_dtype", dtype_weight.into()),
            ("output_dtype", dtype_out.into()),
        ],
        precision: dtype::precision(dtype_in, quirks),
    }))
}

/// x, up, down, …, out (M, k, I) in slot 6.
pub(crate) fn staged_up(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let weights = Weights::read(args, 1, 2)?;
    let (dtype_in, dtype_weight) = (args.dtype(0)?, args.dtype(1)?);
    let stored_width = args.shape_or_empty(0).last().copied().unwrap_or(0);
    let input = Stored { dtype: dtype_in, packed: stored_width, logical: weights.hidden }.bytes(2.0, quirks);
    Ok(Box::new(Experts {
        stage: Stage::Up,
        sizes: weights.sizes(args.dim(0, 0)?, args.dim(6, 1)?),
        gated: weights.gated,
        shows_gated: true,
        bytes: ElementBytes {
            input,
            weight: weights.stored(dtype_weight).bytes(1.0, quirks),
            output: staged_output(args, input, quirks),
        },
        dtypes: vec![("input_dtype", dtype_in.into()), ("weight_dtype", dtype_weight.into())],
        precision: dtype::precision(dtype_in, quirks),
    }))
}

/// x (M, k, I), up, down, …, out (M, H) in slot 6.
pub(crate) fn staged_down(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, topk, stored_inner] = args.sizes(0)?;
    let (experts, hidden) = (args.dim(2, 0)?, args.dim(2, 1)?);
    let packing = match args.shape(1)?.last() {
        Some(&stored) => ratio(hidden, stored)?,
        None => 1,
    };
    let inner = stored_inner.saturating_mul(packing);
    let (dtype_in, dtype_weight) = (args.dtype(0)?, args.dtype(2)?);
    let input = Stored { dtype: dtype_in, packed: stored_inner, logical: inner }.bytes(2.0, quirks);
    let stored_weight = args.last_dim(2)?;
    Ok(Box::new(Experts {
        stage: Stage::Down,
        sizes: Sizes { tokens, hidden, inner, experts, topk },
        gated: false,
        shows_gated: false,
        bytes: ElementBytes {
            input,
            weight: Stored { dtype: dtype_weight, packed: stored_weight, logical: inner }.bytes(1.0, quirks),
            output: staged_output(args, input, quirks),
        },
        dtypes: vec![("input_dtype", dtype_in.into()), ("weight_dtype", dtype_weight.into())],
        precision: dtype::precision(dtype_in, quirks),
    }))
}

/// Bytes of a result element: the reference takes those of an input element, though slot 6 says better.
fn staged_output(args: Args<'_>, input: f64, quirks: &Quirks) -> f64 {
    match dtype::size(args.dtype_or_empty(6), quirks) {
        Some(size) if !quirks.expert_sizes_assumed => size as f64,
        _ => input,
    }
}

fn required_topk(call: &OpCall<'_>) -> Result<i64, ModelError> {
    reckoned::extra_int(call, "MoE topk").ok_or_else(|| ModelError::fail("it is not told how many experts a token has"))
}

/// The up projection of 4-bit GPTQ/AWQ weights packed two to a byte.
pub(crate) fn four_bit_up(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let gated = reckoned::extra(call, "MoE GEMM gated").is_none_or(Value::truth);
    let rows = args.dim(1, 1)?;
    let inner = if gated { rows.div_euclid(2) } else { rows };
    four_bit(call, Stage::Up, args.dim(1, 0)?, inner, Some(gated), quirks)
}

/// The down projection of 4-bit GPTQ/AWQ weights packed two to a byte.
pub(crate) fn four_bit_down(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    four_bit(call, Stage::Down, args.dim(2, 0)?, args.dim(2, 2)?.saturating_mul(2), None, quirks)
}

fn four_bit(
    call: &OpCall<'_>,
    stage: Stage,
    experts: i64,
    inner: i64,
    gated: Option<bool>,
    quirks: &Quirks,
) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, hidden] = args.sizes(0)?;
    let dtype_in = args.dtype(0)?;
    let input = unpacked(dtype_in).bytes(2.0, quirks);
    Ok(Box::new(Experts {
        stage,
        sizes: Sizes { tokens, hidden, inner, experts, topk: required_topk(call)? },
        gated: gated.unwrap_or(false),
        shows_gated: gated.is_some(),
        bytes: ElementBytes { input, weight: 0.5, output: input },
        dtypes: vec![("input_dtype", dtype_in.into())],
        precision: dtype::precision(dtype_in, quirks),
    }))
}

/// The up projection by a `matmul_ogs` kernel.
pub(crate) fn ogs_up(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    ogs(call, Stage::Up, quirks)
}

/// The down projection by a `matmul_ogs` kernel.
pub(crate) fn ogs_down(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    ogs(call, Stage::Down, quirks)
}

/// x (M, H), router logits (M, E); the weights are known only from the kernel's name.
fn ogs(call: &OpCall<'_>, stage: Stage, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [tokens, hidden] = args.sizes(0)?;
    let experts = args.dim(1, 1)?;
    let topk = required_topk(call)?;
    let gated = reckoned::extra(call, "MoE GEMM gated").map(Value::truth);
    let gated = gated.ok_or_else(|| ModelError::fail("it is not told whether the experts are gated"))?;
    let kernel = call.kernels.first().ok_or_else(|| ModelError::fail("no kernel tells the type of the weights"))?;
    if args.type_count() < 2 {
        return Err(ModelError::fail("the types were not recorded"));
    }
    let dtype_in = args.dtype(0)?;
    let (weight, rated) = ogs_weight(&kernel.to_ascii_lowercase(), quirks);
    let size = |name: &str| {
        let plain = dtype::size(name, quirks).filter(|_| !quirks.expert_sizes_assumed).map(|bytes| bytes as f64);
        let known = dtype::expert_size(name).or(plain);
        known.ok_or_else(|| ModelError::fail(format!("the size of type `{name}` is unknown")))
    };
    let input = size(dtype_in)?;
    // Nothing in the trace tells I; the models this kernel was written for have I = H.
    let configured = reckoned::extra_int(call, "MoE inter_dim").filter(|_| !quirks.expert_inner_width_as_hidden);
    Ok(Box::new(Experts {
        stage,
        sizes: Sizes { tokens, hidden, inner: configured.unwrap_or(hidden), experts, topk },
        gated,
        shows_gated: true,
        bytes: ElementBytes { input, weight: size(weight.unwrap_or_default())?, output: input },
        dtypes: vec![("input_dtype", dtype_in.into()), ("weight_dtype", weight.into())],
        precision: rated,
    }))
}

/// Type of the weights and rate of the arithmetic, from a kernel name in lower case.
///
/// `_matmul_ogs_NNT_bf16xbf16xmxfp4_…` names the types of result, activations and weights. Weights narrower than the
/// activations are widened before they are multiplied, so that the activations set the rate (F33).
fn ogs_weight(kernel: &str, quirks: &Quirks) -> (Option<&'static str>, Option<&'static str>) {
    let weight = if kernel.contains("fp4") {
        Some("FP4")
    } else if kernel.contains("fp8") || kernel.contains("e4m3") {
        Some("FP8")
    } else {
        None
    };
    if quirks.expert_inner_width_as_hidden {
        return (weight, weight.and_then(|w| dtype::precision(w, quirks)));
    }
    let [activation, stored] = ogs_operands(kernel);
    let weight = stored.map(|(dtype, _)| dtype).or(weight);
    let rated = activation.map(|(_, label)| label);
    (weight, rated.or_else(|| weight.and_then(|w| dtype::precision(w, quirks))))
}

/// Type name and precision label of activations and weights of a `matmul_ogs` kernel.
fn ogs_operands(kernel: &str) -> [Option<(&'static str, &'static str)>; 2] {
    let types = kernel.split_once("matmul_ogs_").and_then(|(_, rest)| rest.split('_').nth(1)).unwrap_or_default();
    // Microscaled types hold an `x` of their own: hide it before cutting at the separators.
    let types = types.replace("mxfp", "mfp");
    let mut words = types.split('x').skip(1).map(ogs_type);
    [words.next().flatten(), words.next().flatten()]
}

fn ogs_type(word: &str) -> Option<(&'static str, &'static str)> {
    match word {
        "bf16" => Some(("c10::BFloat16", "bf16")),
        "fp16" => Some(("c10::Half", "fp16")),
        "fp32" => Some(("float", "fp32")),
        "mfp4" | "fp4" => Some(("FP4", "fp4")),
        w if w == "mfp8" || w.starts_with("fp8") || w.contains("e4m3") || w.contains("e5m2") => Some(("FP8", "fp8")),
        _ => None,
    }
}

/// The Triton expert kernel of `SGLang`: x, weights (E, N, K), …, out in slot 3, (tokens, k) in slot 8.
pub(crate) fn triton_experts(call: &OpCall<'_>, quirks: &Quirks) -> Result<Box<dyn PerfModel>, ModelError> {
    let args = Args::of(call);
    let [experts, n, k] = args.sizes(1)?;
    let [tokens, topk] = args.sizes(8)?;
    if experts == 0 {
        return Err(ModelError::fail("there are no experts"));
    }
    let (dtype_in, dtype_weight) = (args.dtype(0)?, args.dtype(1)?);
    let dtype_out = Some(args.dtype_or_empty(3)).filter(|t| !t.is_empty()).unwrap_or(dtype_in);
    let rows = Count::from(tokens) * topk;
    let active = active_experts(Sizes { tokens, hidden: k, inner: n, experts, topk });
    let (m, width_in, width_out) = (rows.to_f64(), k as f64, n as f64);
    let bytes = m * width_in * unpacked(dtype_in).bytes(2.0, quirks)
        + active * width_out * width_in * unpacked(dtype_weight).bytes(1.0, quirks)
        + m * width_out * unpacked(dtype_out).bytes(2.0, quirks);
    let params = vec![
        ("m_work", rows.into()),
        ("num_tokens", tokens.into()),
        ("topk", topk.into()),
        ("N", n.into()),
        ("K", k.into()),
        ("num_experts", experts.into()),
        ("input_dtype", dtype_in.into()),
        ("weight_dtype", dtype_weight.into()),
        ("output_dtype", dtype_out.into()),
    ];
    let flops = 2 * rows * n * k;
    let precision = dtype::precision(dtype_weight, quirks);
    let mut cost = reckoned::cost(flops, None, ComputeUnit::Matrix, precision);
    cost.bytes = Some(bytes);
    Ok(reckoned::Reckoned::boxed(params, cost))
}

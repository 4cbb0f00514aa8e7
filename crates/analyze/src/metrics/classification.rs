//! `classification` of a row: what only its analyzer says of it. There are as many as distinct calls, so what most rows
//! have is small and the rest lies apart.

use std::borrow::Cow;

use serde::Serialize;

use crate::prepared::{BoundType, KernelTile};

/// What only one analyzer says of a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Classification {
    /// Of a matrix product.
    Gemm(Box<GemmClass>),
    /// Of attention.
    Sdpa(Box<SdpaClass>),
    /// Of an elementwise operation.
    Elementwise(ElementwiseClass),
    /// Of a reduction.
    Reduce(Box<ReduceClass>),
    /// Of a compiled kernel.
    Triton(TritonClass),
    /// Of a part of an expert layer.
    Moe(Box<MoeClass>),
    /// Of a batch norm.
    BatchNorm(BatchNormClass),
    /// Of another norm.
    Norm(Box<NormClass>),
    /// Of a convolution.
    Convolution(Box<ConvolutionClass>),
    /// Of everything else.
    Generic(GenericClass),
}

impl Classification {
    /// Queries of a call of attention, where its sizes are known.
    pub fn queries(&self) -> Option<i64> {
        match self {
            Self::Sdpa(class) => class.shape.as_ref().map(|shape| shape.n_q),
            _ => None,
        }
    }
}

/// Of a matrix product.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GemmClass {
    /// Sizes, where they are known.
    #[serde(flatten)]
    pub shape: Option<GemmShape>,
    /// Whether its operands are quantized.
    pub is_quantized: bool,
    /// `grouped`, `quantized`, `regular`.
    pub gemm_type: &'static str,
    /// Where it is called from.
    pub call_site: &'static str,
    /// Its shape in a word.
    pub shape_class: Option<&'static str>,
    /// Tile of its main kernel.
    pub tile: Option<KernelTile>,
    /// In how many parts the inner dimension is split; 0 if the kernel splits it and does not say.
    pub split: Option<i64>,
    /// Tiles of the output.
    pub tile_count: Option<i64>,
    /// Tiles for each multiprocessor.
    pub tiles_per_cu: Option<f64>,
    /// Part of the tiles' area that is no output.
    pub padding_percent: Option<f64>,
    /// Whether its sizes fit fast kernels.
    pub aligned: Option<bool>,
}

/// Sizes and type of a matrix product.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the usual names")]
pub struct GemmShape {
    pub m: i64,
    pub n: i64,
    pub k: i64,
    pub batch: i64,
    /// Short name of the operands' type.
    pub dtype: Cow<'static, str>,
}

/// Of attention.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SdpaClass {
    /// `flash`, `paged`, `memory_efficient`, `fused_other`.
    pub attention_type: &'static str,
    /// Whether it is the first.
    pub is_flash_attention: bool,
    /// Whether it is the second.
    pub is_paged_attention: bool,
    /// Kernel time by part, in percent.
    pub kernel_breakdown: KernelBreakdown,
    /// Sizes and what they let expect, where they are known.
    #[serde(flatten)]
    pub shape: Option<SdpaShape>,
}

/// Kernel time of attention by part, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct KernelBreakdown {
    /// Reads prompts, or all of it where no cache is paged.
    pub fwd_kernel: f64,
    /// Everything else.
    pub other: f64,
    /// Reads the cache.
    pub paged_attention: f64,
    /// Writes the cache.
    pub reshape_cache: f64,
}

/// Sizes of attention and what they let expect.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SdpaShape {
    /// Queries.
    pub n_q: i64,
    /// Keys.
    pub n_kv: i64,
    /// Heads of the queries.
    pub h_q: i64,
    /// Heads of the keys.
    pub h_kv: i64,
    /// Size of a head of queries and keys.
    pub d_qk: i64,
    /// Size of a head of values.
    pub d_v: i64,
    /// Whether queries see only what is before them.
    pub causal: Option<bool>,
    /// `MHA`, `MQA`, `GQA`.
    pub attention_pattern: &'static str,
    /// Query heads for each key head.
    pub gqa_ratio: Option<f64>,
    /// What a serving step is made of.
    pub workload_type: &'static str,
    /// Lower end of the expected efficiency.
    pub expected_low: f64,
    /// Upper end.
    pub expected_high: f64,
    /// Whether it lies between the two.
    pub within_expected: Option<bool>,
}

/// Of an elementwise operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of a file, each a fact of its own")]
pub struct ElementwiseClass {
    /// `copy`, `cast`, `add`, …
    pub op_type: &'static str,
    /// Whether the baseline is taken from it.
    pub is_baseline: bool,
    /// Whether it only copies over a link: between host and device, or between devices.
    pub is_memcpy: bool,
    /// Whether its operands are contiguous.
    pub contiguous: bool,
    /// Whether an operand repeats, or sizes differ.
    pub broadcast: bool,
    /// Bytes of one call / 2²⁰.
    pub bytes_per_call_mb: Option<f64>,
    /// Whether it is part of a chain that could be one kernel.
    pub in_chain: bool,
}

/// Of a reduction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReduceClass {
    /// Whether it is a softmax.
    pub is_softmax: bool,
    /// `softmax`, `sum`, `mean`, …
    pub reduce_type: &'static str,
    /// Whether it is part of attention written out.
    pub in_attention: bool,
    /// The dimension that is reduced.
    pub reduced_dim: Option<i64>,
    /// Product of the sizes before it.
    pub outer: Option<i64>,
    /// Its own size times those after it.
    pub inner: Option<i64>,
}

/// Of a compiled kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TritonClass {
    /// `pointwise`, `reduction`, …
    pub kernel_type: &'static str,
    /// What it was fused of.
    pub fused_ops: Box<str>,
    /// What bounds it.
    pub bound_type: Option<BoundType>,
}

/// Of a part of an expert layer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MoeClass {
    /// `routing`, `unfused_stage`, `fused`, `expert`.
    pub moe_type: &'static str,
    /// Tokens.
    pub tokens: Option<i64>,
    /// Experts.
    pub experts: Option<i64>,
    /// Experts that a token visits.
    pub top_k: Option<i64>,
    /// Width of a token.
    pub hidden: Option<i64>,
    /// Width inside an expert.
    pub intermediate: Option<i64>,
}

/// Of a batch norm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BatchNormClass {
    /// Layout of its input.
    pub layout: &'static str,
    /// Whether it reckons mean and deviation.
    pub is_training: bool,
    /// Whether its kernel is to blame.
    pub verdict: &'static str,
}

/// Of another norm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NormClass {
    /// `layer`, `rms`, …
    pub norm_type: &'static str,
    /// Last size of its input.
    pub hidden: Option<i64>,
    /// Product of the sizes before that.
    pub rows: Option<i64>,
}

/// Of a convolution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConvolutionClass {
    /// Geometry, where it is known.
    #[serde(flatten)]
    pub shape: Option<ConvolutionShape>,
    /// Layout of its input.
    pub layout: &'static str,
    /// Time of its kernels that only change a layout, all calls.
    pub transpose_time_us: f64,
    /// Of its time.
    pub transpose_percent: f64,
}

/// Geometry of a convolution.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConvolutionShape {
    /// `standard`, `pointwise`, `depthwise`, …
    pub conv_type: &'static str,
    /// Sides of the kernel.
    pub kernel_size: Vec<i64>,
    /// Groups of channels.
    pub groups: i64,
    /// Steps between the elements of the kernel.
    pub dilation: Vec<i64>,
    /// Whether the kernel has one dimension.
    pub is_1d: bool,
    /// Two.
    pub is_2d: bool,
    /// Three.
    pub is_3d: bool,
}

/// Of everything else.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GenericClass {
    /// `index`, `memory`, `optimizer`, …
    pub sub_category: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::JudgedOperation;

    #[test]
    fn sizes_that_are_not_known_are_left_out() {
        let mut class =
            ConvolutionClass { shape: None, layout: "unknown", transpose_time_us: 0.5, transpose_percent: f64::NAN };
        let text = |class: &ConvolutionClass| {
            serde_json::to_string(&Classification::Convolution(Box::new(class.clone()))).unwrap()
        };
        let rest = r#""layout":"unknown","transpose_time_us":0.5,"transpose_percent":null}"#;
        assert_eq!(text(&class), format!("{{{rest}"));
        class.shape = Some(ConvolutionShape {
            conv_type: "standard",
            kernel_size: vec![3, 3],
            groups: 1,
            dilation: vec![],
            is_1d: false,
            is_2d: true,
            is_3d: false,
        });
        let text = text(&class);
        assert!(
            text.starts_with(r#"{"conv_type":"standard","kernel_size":[3,3],"groups":1,"#) && text.ends_with(rest),
            "{text}"
        );
    }

    /// There are as many as distinct calls, and they live until the files are written.
    #[test]
    fn what_is_kept_of_a_row_is_small() {
        assert!(size_of::<Classification>() <= 48, "{}", size_of::<Classification>());
        assert!(size_of::<JudgedOperation>() <= 112, "{}", size_of::<JudgedOperation>());
        assert!(size_of::<GemmClass>() <= 208, "{}", size_of::<GemmClass>());
    }
}

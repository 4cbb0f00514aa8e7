//! What a leaf operation does, as far as patterns care. One table; names that stand in none are judged by their
//! kernels.

use jarvis_trace::CopyLink;

use super::LeafKernel;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A matrix product.
    Matrix,
    /// Several matrix products of different sizes in one call, or a whole expert layer.
    Grouped,
    /// A convolution.
    Convolution,
    /// Attention in one kernel.
    Attention,
    /// Softmax.
    Softmax,
    /// Its backward.
    SoftmaxBackward,
    /// A norm in one kernel, forward or backward.
    Norm,
    /// A copy on the device: layout, type or plain.
    Copy,
    /// Each element by itself.
    Elementwise,
    /// As elementwise, with a random number for each.
    Random,
    /// Many elements to one.
    Reduce,
    /// Tensors put together.
    Cat,
    /// Rows picked or added by number.
    Index,
    /// Sorting, choosing, counting.
    Sort,
    /// Written without being read: zeros, ranges, masks.
    Fill,
    /// A compiled kernel that is fused already.
    Compiled,
    /// One call for many tensors, as optimizers use.
    Multi,
    /// Anything else.
    Other,
}

impl Kind {
    /// Whether a compiler can fuse it with its neighbours into one pass over memory.
    pub fn is_fusible(self) -> bool {
        matches!(self, Self::Copy | Self::Elementwise | Self::Random | Self::Reduce)
    }

    /// The word in `fusion_candidates.json`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Matrix => "gemm",
            Self::Grouped => "grouped_gemm",
            Self::Convolution => "convolution",
            Self::Attention => "attention",
            Self::Softmax | Self::SoftmaxBackward => "softmax",
            Self::Norm => "norm",
            Self::Copy => "copy",
            Self::Elementwise | Self::Random => "elementwise",
            Self::Reduce => "reduce",
            Self::Cat => "cat",
            Self::Index => "index",
            Self::Sort => "sort",
            Self::Fill => "fill",
            Self::Compiled => "compiled",
            Self::Multi => "multi_tensor",
            Self::Other => "other",
        }
    }
}

/// An operation without `aten::` and without the mark of in-place variants.
pub fn base(name: &str) -> &str {
    let short = name.strip_prefix("aten::").unwrap_or(name);
    short.strip_suffix('_').filter(|s| !s.is_empty() && !s.ends_with('_')).unwrap_or(short)
}

/// Operands that come before the factors of a matrix product: what is added to it.
pub(crate) fn operands_before_factors(base: &str) -> usize {
    usize::from(matches!(base, "addmm" | "_addmm_activation" | "baddbmm"))
}

/// Operations by what they do; sorted.
#[rustfmt::skip]
const KINDS: &[(&str, Kind)] = &[
    ("_addmm_activation", Kind::Matrix),
    ("_batch_norm_with_update", Kind::Norm),
    ("_conj_physical", Kind::Elementwise),
    ("_euclidean_dist", Kind::Other),
    ("_fused_dropout", Kind::Random),
    ("_fused_rms_norm", Kind::Norm),
    ("_fused_rms_norm_backward", Kind::Norm),
    ("_grouped_mm", Kind::Grouped),
    ("_index_put_impl", Kind::Index),
    ("_int_mm", Kind::Matrix),
    ("_log_softmax", Kind::Other),
    ("_log_softmax_backward_data", Kind::Other),
    ("_masked_scale", Kind::Elementwise),
    ("_masked_softmax", Kind::Softmax),
    ("_safe_softmax", Kind::Softmax),
    ("_scaled_grouped_mm", Kind::Grouped),
    ("_scaled_grouped_mm_v2", Kind::Grouped),
    ("_scaled_mm", Kind::Matrix),
    ("_scaled_mm_v2", Kind::Matrix),
    ("_softmax", Kind::Softmax),
    ("_softmax_backward_data", Kind::SoftmaxBackward),
    ("_to_copy", Kind::Copy),
    ("_transform_bias_rescale_qkv", Kind::Elementwise),
    ("_weight_norm_interface", Kind::Norm),
    ("abs", Kind::Elementwise),
    ("add", Kind::Elementwise),
    ("addcdiv", Kind::Elementwise),
    ("addcmul", Kind::Elementwise),
    ("addmm", Kind::Matrix),
    ("addmv", Kind::Matrix),
    ("all", Kind::Reduce),
    ("amax", Kind::Reduce),
    ("amin", Kind::Reduce),
    ("any", Kind::Reduce),
    ("arange", Kind::Fill),
    ("argmax", Kind::Reduce),
    ("argmin", Kind::Reduce),
    ("atan2", Kind::Elementwise),
    ("baddbmm", Kind::Matrix),
    ("bernoulli", Kind::Random),
    ("bitwise_and", Kind::Elementwise),
    ("bitwise_not", Kind::Elementwise),
    ("bitwise_or", Kind::Elementwise),
    ("bmm", Kind::Matrix),
    ("cat", Kind::Cat),
    ("cauchy", Kind::Fill),
    ("ceil", Kind::Elementwise),
    ("celu", Kind::Elementwise),
    ("clamp", Kind::Elementwise),
    ("clamp_max", Kind::Elementwise),
    ("clamp_min", Kind::Elementwise),
    ("clone", Kind::Copy),
    ("constant_pad_nd", Kind::Other),
    ("contiguous", Kind::Copy),
    ("copy", Kind::Copy),
    ("cos", Kind::Elementwise),
    ("cross_entropy", Kind::Other),
    ("cumsum", Kind::Sort),
    ("div", Kind::Elementwise),
    ("dot", Kind::Matrix),
    ("elu", Kind::Elementwise),
    ("elu_backward", Kind::Elementwise),
    ("embedding", Kind::Index),
    ("embedding_dense_backward", Kind::Index),
    ("eq", Kind::Elementwise),
    ("erf", Kind::Elementwise),
    ("exp", Kind::Elementwise),
    ("expm1", Kind::Elementwise),
    ("exponential", Kind::Fill),
    ("fill", Kind::Fill),
    ("floor", Kind::Elementwise),
    ("floor_divide", Kind::Elementwise),
    ("fmod", Kind::Elementwise),
    ("gather", Kind::Index),
    ("ge", Kind::Elementwise),
    ("gelu", Kind::Elementwise),
    ("gelu_backward", Kind::Elementwise),
    ("geometric", Kind::Fill),
    ("glu", Kind::Elementwise),
    ("gt", Kind::Elementwise),
    ("hardsigmoid", Kind::Elementwise),
    ("hardswish", Kind::Elementwise),
    ("hardswish_backward", Kind::Elementwise),
    ("hardtanh", Kind::Elementwise),
    ("index", Kind::Index),
    ("index_add", Kind::Index),
    ("index_copy", Kind::Index),
    ("index_fill", Kind::Index),
    ("index_put", Kind::Index),
    ("index_select", Kind::Index),
    ("isinf", Kind::Elementwise),
    ("isnan", Kind::Elementwise),
    ("le", Kind::Elementwise),
    ("leaky_relu", Kind::Elementwise),
    ("leaky_relu_backward", Kind::Elementwise),
    ("lerp", Kind::Elementwise),
    ("linalg_vector_norm", Kind::Reduce),
    ("linear", Kind::Matrix),
    ("linspace", Kind::Fill),
    ("log", Kind::Elementwise),
    ("log1p", Kind::Elementwise),
    ("log2", Kind::Elementwise),
    ("log_normal", Kind::Fill),
    ("logical_and", Kind::Elementwise),
    ("logical_not", Kind::Elementwise),
    ("logical_or", Kind::Elementwise),
    ("logsumexp", Kind::Reduce),
    ("lt", Kind::Elementwise),
    ("masked_fill", Kind::Elementwise),
    ("masked_scatter", Kind::Index),
    ("masked_select", Kind::Sort),
    ("matmul", Kind::Matrix),
    ("max", Kind::Reduce),
    ("maximum", Kind::Elementwise),
    ("mean", Kind::Reduce),
    ("min", Kind::Reduce),
    ("minimum", Kind::Elementwise),
    ("mish", Kind::Elementwise),
    ("mm", Kind::Matrix),
    ("mul", Kind::Elementwise),
    ("mv", Kind::Matrix),
    ("nan_to_num", Kind::Elementwise),
    ("native_dropout", Kind::Random),
    ("native_dropout_backward", Kind::Elementwise),
    ("ne", Kind::Elementwise),
    ("neg", Kind::Elementwise),
    ("nonzero", Kind::Sort),
    ("norm", Kind::Reduce),
    ("normal", Kind::Fill),
    ("ones", Kind::Fill),
    ("ones_like", Kind::Fill),
    ("polar", Kind::Elementwise),
    ("pow", Kind::Elementwise),
    ("prelu", Kind::Elementwise),
    ("prod", Kind::Reduce),
    ("rand", Kind::Fill),
    ("randn", Kind::Fill),
    ("random", Kind::Fill),
    ("randperm", Kind::Sort),
    ("reciprocal", Kind::Elementwise),
    ("relu", Kind::Elementwise),
    ("remainder", Kind::Elementwise),
    ("repeat", Kind::Copy),
    ("repeat_interleave", Kind::Index),
    ("round", Kind::Elementwise),
    ("rsqrt", Kind::Elementwise),
    ("rsub", Kind::Elementwise),
    ("scatter", Kind::Index),
    ("scatter_add", Kind::Index),
    ("scatter_reduce", Kind::Index),
    ("searchsorted", Kind::Sort),
    ("sgn", Kind::Elementwise),
    ("sigmoid", Kind::Elementwise),
    ("sigmoid_backward", Kind::Elementwise),
    ("sign", Kind::Elementwise),
    ("silu", Kind::Elementwise),
    ("silu_backward", Kind::Elementwise),
    ("sin", Kind::Elementwise),
    ("softmax", Kind::Softmax),
    ("softplus", Kind::Elementwise),
    ("softplus_backward", Kind::Elementwise),
    ("sort", Kind::Sort),
    ("sqrt", Kind::Elementwise),
    ("square", Kind::Elementwise),
    ("stack", Kind::Cat),
    ("std", Kind::Reduce),
    ("sub", Kind::Elementwise),
    ("sum", Kind::Reduce),
    ("take_along_dim", Kind::Index),
    ("tanh", Kind::Elementwise),
    ("tanh_backward", Kind::Elementwise),
    ("threshold", Kind::Elementwise),
    ("threshold_backward", Kind::Elementwise),
    ("topk", Kind::Sort),
    ("tril", Kind::Fill),
    ("triu", Kind::Fill),
    ("uniform", Kind::Fill),
    ("unique", Kind::Sort),
    ("unique2", Kind::Sort),
    ("var", Kind::Reduce),
    ("var_mean", Kind::Reduce),
    ("where", Kind::Elementwise),
    ("zero", Kind::Fill),
    ("zeros", Kind::Fill),
    ("zeros_like", Kind::Fill),
];

/// Parts of operation names that mean attention in one kernel.
const ATTENTION_OPS: &[&str] = &[
    "scaled_dot_product_flash",
    "scaled_dot_product_efficient",
    "scaled_dot_product_cudnn",
    "scaled_dot_product_fused",
    "_flash_attention",
    "_efficient_attention",
    "_cudnn_attention",
    "flash_attn",
    "fmha",
    "mha_fwd",
    "mha_bwd",
    "mha_varlen",
    "unified_attention",
    "paged_attention",
    "sageattn",
    "flex_attention",
];

/// Parts of kernel names that mean the same; lower case.
const ATTENTION_KERNELS: &[&str] = &[
    "flash",
    "fmha",
    "attn_fwd",
    "attn_bwd",
    "paged_attention",
    "unified_attention",
    "_mha_",
    "sdpa",
    "kvcachekernel",
];

/// Parts of operation names that mean experts in one call; lower case.
const EXPERT_OPS: &[&str] = &["fused_moe", "moe_fused", "grouped_gemm", "grouped_mm", "group_gemm", "moe_forward"];

/// Whether an operation is one of the table's, whose names read as words.
pub fn is_known(base: &str) -> bool {
    KINDS.binary_search_by_key(&base, |e| e.0).is_ok()
}

/// What an operation does that launched these.
pub(super) fn of(name: &str, kernels: &[LeafKernel]) -> Kind {
    let name = base(name);
    if let Ok(at) = KINDS.binary_search_by_key(&name, |e| e.0) {
        // A copy over a link is no work of the GPU's memory.
        let is_linked = || kernels.iter().any(|k| CopyLink::of_name(&k.name).is_some());
        return if KINDS[at].1 == Kind::Copy && is_linked() { Kind::Other } else { KINDS[at].1 };
    }
    let lower = name.to_ascii_lowercase();
    let any = |parts: &[&str], text: &str| parts.iter().any(|p| text.contains(p));
    if lower.starts_with("triton") || kernels.iter().any(|k| k.name.starts_with("triton_")) {
        return Kind::Compiled;
    }
    // Not all that a library of attention kernels has is attention.
    let own_name = |k: &LeafKernel| k.name.to_ascii_lowercase().replace("flashinfer", "");
    let attention_kernel = |k: &LeafKernel| any(ATTENTION_KERNELS, &own_name(k));
    if any(ATTENTION_OPS, &lower) || kernels.iter().any(attention_kernel) {
        return Kind::Attention;
    }
    by_parts(&lower).unwrap_or_else(|| by_kernel(kernels))
}

/// Kinds that can be told from a part of the name.
fn by_parts(lower: &str) -> Option<Kind> {
    const PARTS: &[(&str, Kind)] = &[
        ("_foreach_", Kind::Multi),
        ("_fused_adam", Kind::Multi),
        ("_fused_sgd", Kind::Multi),
        ("_fused_adagrad", Kind::Multi),
        ("multi_tensor", Kind::Multi),
        ("convolution", Kind::Convolution),
        ("conv_depthwise", Kind::Convolution),
        ("layer_norm", Kind::Norm),
        ("layernorm", Kind::Norm),
        ("rms_norm", Kind::Norm),
        ("rmsnorm", Kind::Norm),
        ("group_norm", Kind::Norm),
        ("batch_norm", Kind::Norm),
        ("instance_norm", Kind::Norm),
    ];
    if EXPERT_OPS.iter().any(|p| lower.contains(p)) {
        return Some(Kind::Grouped);
    }
    PARTS.iter().find(|(part, _)| lower.contains(part)).map(|p| p.1)
}

/// What the framework's own kernels say of an operation that no table knows.
fn by_kernel(kernels: &[LeafKernel]) -> Kind {
    let Some(kernel) = kernels.first().filter(|k| k.name.starts_with("void at::native")) else {
        return Kind::Other;
    };
    // Gather and scatter kernels call themselves elementwise, but what they read depends on the data.
    if ["gather", "scatter", "index"].iter().any(|w| kernel.name.contains(w)) {
        Kind::Index
    } else if kernel.name.contains("elementwise") {
        Kind::Elementwise
    } else if kernel.name.contains("reduce_kernel") {
        Kind::Reduce
    } else {
        Kind::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_name_is_a_base() {
        for pair in KINDS.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{} stands before {}", pair[0].0, pair[1].0);
        }
        for (name, _) in KINDS {
            assert_eq!(base(name), *name);
        }
    }

    #[test]
    fn in_place_variants_lose_their_mark() {
        assert_eq!(base("aten::masked_fill_"), "masked_fill");
        assert_eq!(base("aten::copy_"), "copy");
        assert_eq!(base("aten::_softmax"), "_softmax");
        assert_eq!(base("_"), "_");
        assert_eq!(base("vllm::x"), "vllm::x");
    }
}

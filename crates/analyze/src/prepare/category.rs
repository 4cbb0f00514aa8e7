//! Categories of the analysis: name rules first, then the report's own categories.

use std::sync::Arc;

use super::place::names_backward;

/// A category of the analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CategoryInfo {
    /// Key: `gemm`.
    pub key: &'static str,
    /// As shown: `GEMM`.
    pub display: &'static str,
    /// Analyzer that is in charge of it.
    pub analyzer: &'static str,
}

/// Categories of matrix work.
const MATRIX: [&str; 6] = ["gemm", "sdpa_fwd", "sdpa_bwd", "inferenceattention", "convolution", "moe_fused"];

/// Whether the operations of a category are matrix work.
pub(crate) fn is_matrix(key: &str) -> bool {
    MATRIX.contains(&key)
}

/// The categories that have rules of their own. Any other is the report's label in lower case, with the generic
/// analyzer.
#[rustfmt::skip]
pub const CATEGORIES: &[CategoryInfo] = &[
    CategoryInfo { key: "gemm",               display: "GEMM",                analyzer: "gemm" },
    CategoryInfo { key: "sdpa_fwd",           display: "SDPA",                analyzer: "sdpa" },
    CategoryInfo { key: "sdpa_bwd",           display: "SDPA (backward)",     analyzer: "sdpa" },
    CategoryInfo { key: "inferenceattention", display: "Inference Attention", analyzer: "sdpa" },
    CategoryInfo { key: "elementwise",        display: "Elementwise",         analyzer: "elementwise" },
    CategoryInfo { key: "reduce",             display: "Reduce",              analyzer: "reduce" },
    CategoryInfo { key: "triton",             display: "Triton",              analyzer: "triton" },
    CategoryInfo { key: "moe_fused",          display: "MoE",                 analyzer: "moe" },
    CategoryInfo { key: "moe_unfused",        display: "MoE (unfused)",       analyzer: "moe" },
    CategoryInfo { key: "batchnorm",          display: "BatchNorm",           analyzer: "batchnorm" },
    CategoryInfo { key: "norm",               display: "Normalization",       analyzer: "norm" },
    CategoryInfo { key: "convolution",        display: "Convolution",         analyzer: "convolution" },
    CategoryInfo { key: "other",              display: "Other",               analyzer: "generic" },
];

/// Report categories and the keys they become, where no name rule decides.
const MAPPED: &[(&str, &str)] = &[
    ("GEMM", "gemm"),
    ("GroupedGEMM_fwd", "gemm"),
    ("GroupedGEMM_bwd", "gemm"),
    ("SDPA_fwd", "sdpa_fwd"),
    ("SDPA_bwd", "sdpa_bwd"),
    ("InferenceAttention", "inferenceattention"),
    ("elementwise", "elementwise"),
    ("RoPE_fwd", "elementwise"),
    ("RoPE_bwd", "elementwise"),
    ("FusedRoPE", "elementwise"),
    ("GroupQuant", "elementwise"),
    ("reduce", "reduce"),
    ("CrossEntropy_fwd", "reduce"),
    ("CrossEntropy_bwd", "reduce"),
    ("triton", "triton"),
    ("MoE_fused", "moe_fused"),
    ("MoE_aux", "moe_fused"),
    ("MoE_unfused", "moe_unfused"),
    ("BN_fwd", "batchnorm"),
    ("BN_bwd", "batchnorm"),
    ("NORM_fwd", "norm"),
    ("NORM_bwd", "norm"),
    ("RMSNorm", "norm"),
    ("CONV_fwd", "convolution"),
    ("CONV_bwd", "convolution"),
    ("", "other"),
    ("other", "other"),
];

/// Names of norms that are no batch norm, as they appear in front of `norm` or `_norm`.
const NORMS: &[&str] = &["layer", "group", "instance", "rms", "l2"];

/// Key, display name and analyzer of an operation.
pub(crate) fn category_of(name: &str, report_category: &str) -> (Arc<str>, Arc<str>, &'static str) {
    let key = by_name(name, report_category).or_else(|| mapped(report_category));
    if let Some(info) = key.and_then(|k| CATEGORIES.iter().find(|c| c.key == k)) {
        return (info.key.into(), info.display.into(), info.analyzer);
    }
    let label: String = report_category.to_lowercase().replace([' ', '/'], "_");
    (label.into(), report_category.into(), "generic")
}

fn mapped(report_category: &str) -> Option<&'static str> {
    MAPPED.iter().find(|(from, _)| *from == report_category).map(|(_, key)| *key)
}

/// The name rules; the first that holds wins.
fn by_name(name: &str, report_category: &str) -> Option<&'static str> {
    let n = name.to_lowercase();
    let attention = report_category.starts_with("SDPA") || report_category == "InferenceAttention";
    let communication = report_category.starts_with("MoE_comm")
        || report_category == "record_param_comms"
        || report_category == "CustomCollective";
    let other = report_category == "other" || report_category.is_empty();
    let conv = n.starts_with("aten::") && n.contains("conv") && !n.contains("convert")
        || n.starts_with("convbias")
        || report_category.starts_with("CONV");
    let norm = report_category.starts_with("NORM")
        || report_category.eq_ignore_ascii_case("rmsnorm")
        || NORMS.iter().any(|kind| n.contains(&format!("{kind}norm")) || n.contains(&format!("{kind}_norm")));
    let any = |words: &[&str]| words.iter().any(|w| n.contains(w));
    match () {
        () if report_category == "MoE_unfused" => Some("moe_unfused"),
        () if communication => Some("other"),
        () if names_moe(&n) => Some("moe_fused"),
        () if any(&["batch_norm", "batchnorm"]) => Some("batchnorm"),
        () if conv => Some("convolution"),
        () if n.contains("softmax") && !attention => Some("reduce"),
        () if norm => Some("norm"),
        () if n.starts_with("triton") => Some("triton"),
        () if other
            && any(&["attention_forward", "attention_backward", "scaled_dot_product", "flash_attn", "fmha"]) =>
        {
            Some(if names_backward(name) { "sdpa_bwd" } else { "sdpa_fwd" })
        }
        () if other && ["_grouped_mm", "::linear", "::matmul", "_int_mm"].iter().any(|end| n.ends_with(end)) => {
            Some("gemm")
        }
        () => None,
    }
}

/// Whether a lower-case name speaks of experts: `moe` as a word of its own, or in `fused_moe`, `fmoe`.
fn names_moe(n: &str) -> bool {
    n.match_indices("moe").any(|(at, _)| {
        let before = n[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphabetic()) || n[..at].ends_with('f')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, report: &str) -> String {
        category_of(name, report).0.to_string()
    }

    #[test]
    fn names_decide_first() {
        for (name, report, want) in [
            ("vllm::moe_forward", "other", "moe_fused"),
            ("aiter::fmoe_bf16", "other", "moe_fused"),
            ("aten::smoe", "other", "other"),
            ("anything", "MoE_unfused", "moe_unfused"),
            ("MoEDispatch", "MoE_comm_fwd", "other"),
            ("aten::cudnn_batch_norm_backward", "NORM_bwd", "batchnorm"),
            ("aten::batch_norm", "NORM_fwd", "batchnorm"),
            ("aten::_convert_weight", "other", "other"),
            ("aten::convolution_backward", "CONV_bwd", "convolution"),
            ("ConvBiasReLU_", "other", "convolution"),
            ("aten::_softmax", "other", "reduce"),
            ("aten::_softmax", "reduce", "reduce"),
            ("aten::native_layer_norm_backward", "NORM_bwd", "norm"),
            ("aten::_fused_rms_norm", "other", "norm"),
            ("triton_poi_fused_add_0", "triton", "triton"),
            ("aten::_cudnn_attention_backward", "other", "sdpa_bwd"),
            ("flash_attn::_flash_attn_forward", "other", "sdpa_fwd"),
            ("aten::_grouped_mm", "other", "gemm"),
            ("aten::_grouped_mm", "GroupedGEMM_fwd", "gemm"),
        ] {
            assert_eq!(key(name, report), want, "{name} of {report}");
        }
    }

    #[test]
    fn the_rest_is_mapped_or_keeps_its_label() {
        assert_eq!(key("aten::mm", "GEMM"), "gemm");
        assert_eq!(key("x", "RoPE_bwd"), "elementwise");
        assert_eq!(key("x", "BN_fwd"), "batchnorm");
        assert_eq!(key("x", ""), "other");
        let (key, display, analyzer) = category_of("x", "My Ops/Fast");
        assert_eq!((&*key, &*display, analyzer), ("my_ops_fast", "My Ops/Fast", "generic"));
    }

    #[test]
    fn every_mapped_key_is_listed() {
        assert!(MAPPED.iter().all(|(_, key)| CATEGORIES.iter().any(|c| c.key == *key)));
    }
}

//! Custom collectives, fused operations of no larger family, and compiled Triton kernels. Data only.

use crate::models::{collective, fused, triton};
use crate::ops::OpEntry;

/// The operations, sorted by name.
#[rustfmt::skip]
pub(crate) const OPS: &[OpEntry] = &[
    OpEntry::reference("CrossEntropyFunction",                         "CrossEntropy_fwd", "CrossEntropy",     fused::cross_entropy),
    OpEntry::reference("DaoAILab::_causal_conv1d_fwd_cpp",             "SSM_fwd",          "SSM",              fused::causal_convolution),
    OpEntry::reference("FusedRoPEFunc",                                "RoPE_fwd",         "RoPE",             fused::rope),
    OpEntry::reference("MambaSplitConv1dScanCombinedFn",               "SSM_fwd",          "SSM",              fused::mamba).backward("SSM_bwd"),
    OpEntry::reference("_C_custom_ar::all_reduce",                     "CustomCollective", "CustomCollective", collective::all_reduce),
    OpEntry::reference("_C_custom_ar::qr_all_reduce",                  "CustomCollective", "CustomCollective", collective::all_reduce),
    OpEntry::reference("aiter::all_gather_reg",                        "CustomCollective", "CustomCollective", collective::scatter_or_gather),
    OpEntry::reference("aiter::fused_allreduce_rmsnorm",               "CustomCollective", "CustomCollective", collective::all_reduce_norm),
    OpEntry::reference("aiter::fused_allreduce_rmsnorm_",              "CustomCollective", "CustomCollective", collective::all_reduce_norm_short),
    OpEntry::reference("aiter::fused_qk_rope_cat_and_cache_mla",       "RoPE_fwd",         "FusedRoPE",        fused::latent_rope_cat),
    OpEntry::reference("aiter::fused_qk_rope_concat_and_cache_mla",    "RoPE_fwd",         "FusedRoPE",        fused::latent_rope_concat),
    OpEntry::reference("aiter::mhc_fused_post_pre_gemm_sqrsum",        "mHC",              "mHC",              fused::hyper_post_projection),
    OpEntry::reference("aiter::mhc_post",                              "mHC",              "mHC",              fused::hyper_post),
    OpEntry::reference("aiter::mhc_pre_big_fuse_rmsnorm",              "mHC",              "mHC",              fused::hyper_pre_norm),
    OpEntry::reference("aiter::mhc_pre_gemm_sqrsum",                   "mHC",              "mHC",              fused::hyper_projection),
    OpEntry::reference("aiter::mixed_sample_outer_exponential",        "elementwise",      "elementwise",      fused::sample_exponential),
    OpEntry::reference("aiter::reduce_scatter",                        "CustomCollective", "CustomCollective", collective::scatter_or_gather),
    OpEntry::reference("aiter::rope_cached_positions_2c_fwd_impl",     "RoPE_fwd",         "RoPE",             fused::rope_pair),
    OpEntry::reference("sgl_kernel::all_reduce_reg",                   "CustomCollective", "CustomCollective", collective::all_reduce),
    OpEntry::reference("sgl_kernel::qr_all_reduce",                    "CustomCollective", "CustomCollective", collective::all_reduce),
    OpEntry::reference("sgl_kernel::rotary_embedding",                 "RoPE_fwd",         "RoPE",             fused::rope_flat),
    OpEntry::reference("sglang::reg_all_gather_into_tensor",           "CustomCollective", "CustomCollective", collective::gather_into),
];

/// Beginnings of names; a call counts as modelled only if `triton::can_model` says so. These rows have no sheet.
#[rustfmt::skip]
pub(crate) const PREFIXES: &[OpEntry] = &[
    OpEntry::extended("triton_bmm", "triton", "", triton::product),
    OpEntry::extended("triton_mm", "triton", "", triton::product),
    OpEntry::reference("triton_per_", "triton", "", triton::compiled),
    OpEntry::reference("triton_poi_", "triton", "", triton::compiled),
    OpEntry::reference("triton_red_", "triton", "", triton::compiled),
    OpEntry::extended("triton_tem_", "triton", "", triton::product),
];

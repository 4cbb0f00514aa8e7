//! Names to which the reference gives a category although it has no model of them.
//!
//! Where a model has the same name, the category here overrides the model's.

/// Name and category, sorted by name.
#[rustfmt::skip]
pub(super) const NAMES: &[(&str, &str)] = &[
    ("CrossEntropyFunctionBackward",                                                      "CrossEntropy_bwd"),
    ("DaoAILab::_causal_conv1d_bwd_cpp",                                                  "SSM_bwd"),
    ("FlashAttnFuncBackward",                                                             "SDPA_bwd"),
    ("FusedAttnFuncBackward",                                                             "SDPA_bwd"),
    ("FusedRoPEFuncBackward",                                                             "RoPE_bwd"),
    ("MambaSplitConv1dScanCombinedFnBackward",                                            "SSM_bwd"),
    ("MoECombineBackward",                                                                "MoE_comm_bwd"),
    ("MoEDispatchBackward",                                                               "MoE_comm_bwd"),
    ("TokenPermuteMaskMap",                                                               "MoE_comm_fwd"),
    ("TokenPermuteMaskMapBackward",                                                       "MoE_comm_bwd"),
    ("_C_cache_ops::concat_and_cache_mla",                                                "InferenceAttention"),
    ("_C_cache_ops::reshape_and_cache_flash",                                             "InferenceAttention"),
    ("_OperationFuserAutogradFunction",                                                   "MoE_comm_fwd"),
    ("_OperationFuserAutogradFunctionBackward",                                           "MoE_comm_bwd"),
    ("_moe_C::moe_align_block_size",                                                      "MoE_aux"),
    ("aiter::allgather_lastdim<std::bfloat16_t, 2>(aiter::RankData*, aiter::RankSignals, aiter::Signal*, std::bfloat16_t*, int, int, int) (Synthetic Op)", "CustomCollective"),
    ("aiter::allgather_lastdim<std::bfloat16_t, 4>(aiter::RankData*, aiter::RankSignals, aiter::Signal*, std::bfloat16_t*, int, int, int) (Synthetic Op)", "CustomCollective"),
    ("aiter::fused_dynamic_mxfp4_quant_moe_sort_hip",                                     "MoE_aux"),
    ("aiter::fused_moe_->_fused_dynamic_mxfp4_quant_moe_sort_kernel (Synthetic Op)",      "MoE_aux"),
    ("aiter::get_mla_metadata_v1",                                                        "InferenceAttention"),
    ("aiter::grouped_topk",                                                               "MoE_aux"),
    ("aiter::indexer_score_topk",                                                         "InferenceAttention"),
    ("aiter::moe_align_block_size",                                                       "MoE_aux"),
    ("aiter::moe_fused_gate",                                                             "MoE_aux"),
    ("aiter::moe_sorting_opus_fwd",                                                       "MoE_aux"),
    ("aiter::moe_sum",                                                                    "MoE_aux"),
    ("aiter::topk_sigmoid",                                                               "MoE_aux"),
    ("aiter::topk_softmax",                                                               "MoE_aux"),
    ("aiter::topk_softmax_asm",                                                           "MoE_aux"),
    ("aiter::unified_attention_with_output_base->_fused_qk_rope_reshape_and_cache_kernel (Synthetic Op)", "FusedRoPE"),
    ("aiter::v4_attention_with_output->_inverse_rope_gptj_kernel (Synthetic Op)",         "FusedRoPE"),
    ("aiter::v4_attention_with_output->_swa_write_kernel (Synthetic Op)",                 "InferenceAttention"),
    ("aiter::v4_attention_with_output->_update_compressor_states_kernel (Synthetic Op)",  "InferenceAttention"),
    ("aiter::v4_attention_with_output->fused_compress_attn_D128_RD64_R4_OVL_SS8_KB32_Q_ue8m0_psh_rmsbf16_pf_flydsl (Synthetic Op)", "InferenceAttention"),
    ("aiter::v4_attention_with_output->fused_compress_attn_D512_RD64_R4_OVL_SS8_KB32_rmsbf16_pf_flydsl (Synthetic Op)", "InferenceAttention"),
    ("aiter::v4_attention_with_output->hca_compress_forward_D512_R128_NW4_SL256_S128_flydsl (Synthetic Op)", "InferenceAttention"),
    ("aiter::v4_attention_with_output->hca_compress_forward_D512_R128_NW8_SL128_S128_flydsl (Synthetic Op)", "InferenceAttention"),
    ("aiter::v4_attention_with_output->hca_norm_rope_scatter_D512_RD64_R128_KB1_rmsbf16_flydsl (Synthetic Op)", "FusedRoPE"),
    ("aiter::v4_attention_with_output->qk_norm_rope_H32_D512_RD64_flydsl (Synthetic Op)", "FusedRoPE"),
    ("aiter::v4_attention_with_output->qk_norm_rope_H64_D512_RD64_flydsl (Synthetic Op)", "FusedRoPE"),
    ("aten::_efficient_attention_backward",                                               "SDPA_bwd"),
    ("aten::_efficient_attention_forward",                                                "SDPA_fwd"),
    ("aten::_scaled_dot_product_cudnn_attention_backward",                                "SDPA_bwd"),
    ("aten::_scaled_dot_product_efficient_attention_backward",                            "SDPA_bwd"),
    ("aten::_scaled_dot_product_flash_attention_backward",                                "SDPA_bwd"),
    ("aten::cudnn_convolution",                                                           "CONV_fwd"),
    ("aten::miopen_convolution",                                                          "CONV_fwd"),
    ("hipModuleLaunchKernel->kv_indices_generate_kernel (Synthetic Op)",                  "InferenceAttention"),
];

/// The category listed for `name`.
pub(super) fn find(name: &str) -> Option<&'static str> {
    NAMES.binary_search_by_key(&name, |&(listed, _)| listed).ok().map(|at| NAMES[at].1)
}

//! Mixture of experts. Data only.

use crate::models::moe;
use crate::models::moe::auxiliary;
use crate::ops::OpEntry;

/// The operations, sorted by name.
#[rustfmt::skip]
pub(crate) const OPS: &[OpEntry] = &[
    OpEntry::reference("MoECombine",                              "MoE_comm_fwd", "MoE_comm",    auxiliary::exchange).backward("MoE_comm_bwd"),
    OpEntry::reference("MoEDispatch",                             "MoE_comm_fwd", "MoE_comm",    auxiliary::exchange).backward("MoE_comm_bwd"),
    OpEntry::reference("aiter::biased_grouped_topk_hip",          "MoE_aux",      "MoE_aux",     auxiliary::routing),
    OpEntry::reference("aiter::ck_moe_stage1",                    "MoE_unfused",  "MoE_unfused", moe::staged_up),
    OpEntry::reference("aiter::ck_moe_stage2",                    "MoE_unfused",  "MoE_unfused", moe::staged_down),
    OpEntry::reference("aiter::fmoe_fp8_blockscale_g1u1",         "MoE_fused",    "MoE_fused",   moe::fused_scaled),
    OpEntry::reference("aiter::fmoe_g1u1",                        "MoE_fused",    "MoE_fused",   moe::fused_scaled),
    OpEntry::reference("aiter::moe_cktile2stages_gemm1_ck",       "MoE_unfused",  "MoE_unfused", moe::tiled_up),
    OpEntry::reference("aiter::moe_cktile2stages_gemm2_ck",       "MoE_unfused",  "MoE_unfused", moe::tiled_down),
    OpEntry::reference("aiter::moe_sorting_fwd",                  "MoE_aux",      "MoE_aux",     auxiliary::routing),
    OpEntry::reference("aiter::mxfp4_moe_sort_hip",               "MoE_aux",      "MoE_aux",     auxiliary::routing),
    OpEntry::reference("aiter::topk_softplus",                    "MoE_aux",      "MoE_aux",     auxiliary::topk_softplus),
    OpEntry::reference("pseudo_op::moe_aiter_fused_1stage",       "MoE_fused",    "MoE_fused",   moe::fused_block),
    OpEntry::reference("pseudo_op::moe_flydsl_stage1",            "MoE_unfused",  "MoE_unfused", moe::block_up),
    OpEntry::reference("pseudo_op::moe_flydsl_stage2",            "MoE_unfused",  "MoE_unfused", moe::block_down),
    OpEntry::reference("pseudo_op::moe_gptq_awq_down",            "MoE_unfused",  "MoE_unfused", moe::four_bit_down),
    OpEntry::reference("pseudo_op::moe_gptq_awq_up",              "MoE_unfused",  "MoE_unfused", moe::four_bit_up),
    OpEntry::reference("pseudo_op::moe_triton_unfused_down",      "MoE_unfused",  "MoE_unfused", moe::ogs_down),
    OpEntry::reference("pseudo_op::moe_triton_unfused_up",        "MoE_unfused",  "MoE_unfused", moe::ogs_up),
    OpEntry::reference("sglang_profiler::fused_moe_triton_kernels_fused_append_shared_experts", "MoE_aux",     "MoE_aux",     auxiliary::append_shared),
    OpEntry::reference("sglang_profiler::fused_moe_triton_kernels_invoke_fused_moe_kernel",     "MoE_unfused", "MoE_unfused", moe::triton_experts),
];

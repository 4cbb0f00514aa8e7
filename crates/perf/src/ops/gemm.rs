//! Matrix products.

use super::OpEntry;
use crate::models::Reader;
use crate::models::gemm::{
    a4w4, a8w8, a16w16, a16w16_asm, a16w16_atomic, addmm, afp4wfp4, baddbmm, batched_a8w8, batched_a16wfp4, bmm,
    dynamic_quant, hipblaslt_fp4, hipblaslt_fp8, int8_linear_matmul, mm, scaled_mm, te_gemm, te_linear, unquantized,
};

const fn gemm(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "GEMM", "GEMM", reader)
}

#[rustfmt::skip]
pub(super) const OPS: &[OpEntry] = &[
    gemm("_LayerNormLinearBackward_wgrad_mm",                         te_linear),
    gemm("_LayerNormLinearBackward_xgrad_mm",                         te_linear),
    gemm("_LayerNormLinear_yfwd_mm",                                  te_linear),
    gemm("_LinearBackward_wgrad_mm",                                  te_linear),
    gemm("_LinearBackward_xgrad_mm",                                  te_linear),
    gemm("_Linear_yfwd_mm",                                           te_linear),
    gemm("aiter::_gemm_a16w16_asm",                                   a16w16_asm),
    gemm("aiter::_gemm_a4w4_asm",                                     a4w4),
    gemm("aiter::_gemm_a8w8_blockscale_bpreshuffle_asm",              a8w8),
    gemm("aiter::batched_gemm_a16wfp4_",                              batched_a16wfp4),
    gemm("aiter::flatmm_a8w8_blockscale_asm",                         a8w8),
    gemm("aiter::gemm_a16w16",                                        a16w16),
    gemm("aiter::gemm_a16w16_atomic_",                                a16w16_atomic),
    gemm("aiter::gemm_a4w4",                                          a4w4),
    gemm("aiter::gemm_a8w8_blockscale_bpreshuffle_ck",                a8w8),
    gemm("aiter::gemm_a8w8_blockscale_bpreshuffle_cktile",            a8w8),
    gemm("aiter::gemm_a8w8_blockscale_ck",                            a8w8),
    gemm("aiter::gemm_a8w8_blockscale_cktile",                        a8w8),
    gemm("aiter::gemm_a8w8_bpreshuffle",                              a8w8),
    gemm("aiter::gemm_a8w8_bpreshuffle_ck",                           a8w8),
    gemm("aiter::gemm_a8w8_ck",                                       a8w8),
    gemm("aiter::gemm_afp4wfp4_",                                     afp4wfp4),
    gemm("aiter::gfx950_a8w8_blockscale_asm",                         a8w8),
    gemm("aten::_scaled_mm",                                          scaled_mm),
    gemm("aten::addmm",                                               addmm),
    gemm("aten::baddbmm",                                             baddbmm),
    gemm("aten::bmm",                                                 bmm),
    gemm("aten::mm",                                                  mm),
    gemm("bitsandbytes::int8_linear_matmul",                          int8_linear_matmul),
    gemm("primus_turbo::hipblaslt_gemm_fp4",                          hipblaslt_fp4),
    gemm("primus_turbo::hipblaslt_gemm_fp8",                          hipblaslt_fp8),
    gemm("primus_turbo_cpp_extension::hipblaslt_gemm_fp4",            hipblaslt_fp4),
    gemm("primus_turbo_cpp_extension::hipblaslt_gemm_fp8",            hipblaslt_fp8),
    gemm("sglang_profiler::batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant_batched_gemm_a8w8_a_per_token_group_prequant_w_per_batched_tensor_quant", batched_a8w8),
    gemm("sglang_profiler::fp8_utils_gemm_a8w8_blockscale",           a8w8),
    gemm("sglang_profiler::gemm_a8w8_blockscale_gemm_a8w8_blockscale", a8w8),
    gemm("sglang_profiler::gemm_kernels_flydsl_hgemm",                a16w16_atomic),
    gemm("tex_ts::te_gemm_ts",                                        te_gemm),
    gemm("trtllm::cublas_scaled_mm",                                  scaled_mm),
    gemm("vllm::_rocm_aiter_preshuffled_per_token_w8a8_gemm",         a8w8),
    gemm("vllm::gemm_with_dynamic_quant",                             dynamic_quant),
    gemm("vllm::rocm_aiter_triton_gemm_a8w8_blockscale",              a8w8),
    gemm("vllm::rocm_unquantized_gemm",                               unquantized),
];

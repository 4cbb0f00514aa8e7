//! Elementwise operations and quantisers.

use super::OpEntry;
use crate::models::{Reader, elementwise, quantize};

const fn unary_sheet(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "elementwise", "UnaryElementwise", reader)
}

const fn binary_sheet(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "elementwise", "BinaryElementwise", reader)
}

const fn group_quant(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "GroupQuant", "GroupQuant", reader)
}

const fn group_quant_binary(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "GroupQuant", "BinaryElementwise", reader)
}

#[rustfmt::skip]
pub(super) const OPS: &[OpEntry] = &[
    binary_sheet("LigerSiLUMulFunction",                                                 elementwise::binary_without_output),
    unary_sheet("_C::silu_and_mul",                                                      elementwise::silu_and_mul),
    group_quant_binary("aiter::dynamic_per_group_scaled_quant",                          quantize::dynamic_scaled),
    group_quant("aiter::dynamic_per_group_scaled_quant_fp4",                             quantize::mxfp4_group),
    group_quant_binary("aiter::dynamic_per_tensor_quant",                                quantize::dynamic_scaled),
    group_quant_binary("aiter::dynamic_per_token_scaled_quant",                          quantize::dynamic_scaled),
    group_quant("aiter::fused_dynamic_mx_quant_moe_sort_hip",                            quantize::mxfp4_expert_sort),
    group_quant("aiter::fused_dynamic_mxfp4_quant_moe_sort_hip",                         quantize::mxfp4_expert_sort_unstrided),
    unary_sheet("aiter::gelu_and_mul",                                                   elementwise::gelu_and_mul),
    unary_sheet("aiter::gelu_tanh_and_mul",                                              elementwise::gelu_tanh_and_mul),
    unary_sheet("aiter::silu_and_mul",                                                   elementwise::silu_and_mul),
    binary_sheet("aten::add",                                                            elementwise::binary),
    binary_sheet("aten::add_",                                                           elementwise::binary),
    unary_sheet("aten::clamp_max",                                                       elementwise::unary_with_operand),
    unary_sheet("aten::clamp_max_",                                                      elementwise::unary_with_operand),
    unary_sheet("aten::clamp_min",                                                       elementwise::unary_with_operand),
    unary_sheet("aten::clamp_min_",                                                      elementwise::unary_with_operand),
    unary_sheet("aten::copy",                                                            elementwise::copy),
    unary_sheet("aten::copy_",                                                           elementwise::copy),
    binary_sheet("aten::div",                                                            elementwise::binary),
    binary_sheet("aten::div_",                                                           elementwise::binary),
    binary_sheet("aten::mul",                                                            elementwise::binary),
    binary_sheet("aten::mul_",                                                           elementwise::binary),
    unary_sheet("aten::neg",                                                             elementwise::unary),
    unary_sheet("aten::pow",                                                             elementwise::unary_with_operand),
    unary_sheet("aten::replication_pad1d",                                               elementwise::replication_pad),
    unary_sheet("aten::replication_pad2d",                                               elementwise::replication_pad),
    unary_sheet("aten::replication_pad3d",                                               elementwise::replication_pad),
    unary_sheet("aten::rsqrt",                                                           elementwise::unary),
    unary_sheet("aten::sigmoid",                                                         elementwise::unary),
    binary_sheet("aten::sigmoid_backward",                                               elementwise::binary),
    unary_sheet("aten::silu",                                                            elementwise::unary),
    binary_sheet("aten::threshold_backward",                                             elementwise::binary),
    unary_sheet("aten::upsample_nearest1d",                                              elementwise::upsample_nearest),
    unary_sheet("aten::upsample_nearest2d",                                              elementwise::upsample_nearest),
    unary_sheet("aten::upsample_nearest3d",                                              elementwise::upsample_nearest),
    unary_sheet("primus::quantize_mxfp4_dual",                                           quantize::mxfp4_dual),
    unary_sheet("primus_turbo::quantize_fp8_tensorwise",                                 quantize::fp8_tensorwise),
    unary_sheet("primus_turbo::quantize_mxfp4_dual",                                     quantize::mxfp4_dual),
    unary_sheet("primus_turbo_cpp_extension::quantize_fp8_tensorwise",                   quantize::fp8_tensorwise),
    unary_sheet("primus_turbo_cpp_extension::quantize_mxfp4_dual",                       quantize::mxfp4_dual),
    unary_sheet("sgl_kernel::silu_and_mul",                                              elementwise::silu_and_mul),
    group_quant("sglang_profiler::fused_mxfp4_quant_fused_flatten_mxfp4_quant",          quantize::mxfp4_flatten),
    group_quant("sglang_profiler::quant_dynamic_mxfp4_quant",                            quantize::mxfp4_dynamic),
    group_quant_binary("vllm::triton_per_token_group_quant_fp8",                         quantize::token_group_fp8),
];

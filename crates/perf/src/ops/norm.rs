//! Normalisations.

use super::OpEntry;
use crate::models::Reader;
use crate::models::norm::{
    batch_norm, batch_norm_backward, batch_norm_backward_elements, batch_norm_backward_reduce, batch_norm_elements,
    batch_norm_stats, group_norm, group_norm_backward, instance_norm, instance_norm_backward, layer_norm,
    layer_norm_backward, ln_modulate, ln_modulate_backward, rms_add, rms_add_group_fp8, rms_add_pad, rms_group_fp8,
    rms_group_quant, rms_into, rms_mxfp4, rms_norm, rms_norm_backward, rms_plain, rms_token_quant,
    vendor_batch_norm_backward, vllm_fused_add_rms_norm, vllm_rms_norm,
};

const fn forward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "NORM_fwd", "Normalization", reader).backward("NORM_bwd")
}

const fn backward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "NORM_bwd", "Normalization", reader).backward("NORM_bwd")
}

const fn rms(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "RMSNorm", "RMSNorm", reader)
}

const fn extended_forward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::extended(name, "NORM_fwd", "Normalization", reader)
}

const fn extended_backward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::extended(name, "NORM_bwd", "Normalization", reader)
}

const fn extended_rms(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::extended(name, "RMSNorm", "RMSNorm", reader)
}

#[rustfmt::skip]
pub(super) const OPS: &[OpEntry] = &[
    extended_rms("_C::fused_add_rms_norm",                                               vllm_fused_add_rms_norm),
    extended_rms("_C::rms_norm",                                                         vllm_rms_norm),
    rms("aiter::_fuse_rmsnorm_fp4_quant",                                                rms_mxfp4),
    forward("aiter::_groupnorm_run",                                                     group_norm),
    rms("aiter::add_rmsnorm",                                                            rms_add),
    rms("aiter::fused_add_rmsnorm_pad_",                                                 rms_add_pad),
    rms("aiter::rms_norm",                                                               rms_plain),
    rms("aiter::rmsnorm",                                                                rms_into),
    rms("aiter::rmsnorm2d_fwd_ck",                                                       rms_plain),
    rms("aiter::rmsnorm2d_fwd_with_add_ck",                                              rms_add),
    rms("aiter::rmsnorm2d_fwd_with_dynamicquant_ck",                                     rms_token_quant),
    rms("aiter::rmsnorm_quant",                                                          rms_group_quant),
    extended_forward("aten::_batch_norm_impl_index",                                     batch_norm),
    extended_forward("aten::_batch_norm_with_update",                                    batch_norm),
    extended_forward("aten::_batch_norm_with_update_functional",                         batch_norm),
    forward("aten::_fused_rms_norm",                                                     rms_norm),
    backward("aten::_fused_rms_norm_backward",                                           rms_norm_backward),
    extended_forward("aten::_native_batch_norm_legit",                                   batch_norm),
    forward("aten::batch_norm",                                                          batch_norm),
    backward("aten::batch_norm_backward",                                                batch_norm_backward),
    extended_backward("aten::batch_norm_backward_elemt",                                 batch_norm_backward_elements),
    extended_backward("aten::batch_norm_backward_reduce",                                batch_norm_backward_reduce),
    extended_forward("aten::batch_norm_elemt",                                           batch_norm_elements),
    extended_forward("aten::batch_norm_stats",                                           batch_norm_stats),
    forward("aten::cudnn_batch_norm",                                                    batch_norm),
    backward("aten::cudnn_batch_norm_backward",                                          vendor_batch_norm_backward),
    forward("aten::cudnn_group_norm",                                                    group_norm),
    backward("aten::cudnn_group_norm_backward",                                          group_norm_backward),
    forward("aten::cudnn_instance_norm",                                                 instance_norm),
    backward("aten::cudnn_instance_norm_backward",                                       instance_norm_backward),
    forward("aten::cudnn_layer_norm",                                                    layer_norm),
    backward("aten::cudnn_layer_norm_backward",                                          layer_norm_backward),
    backward("aten::cudnn_rms_norm_backward",                                            rms_norm_backward),
    forward("aten::group_norm",                                                          group_norm),
    backward("aten::group_norm_backward",                                                group_norm_backward),
    forward("aten::instance_norm",                                                       instance_norm),
    backward("aten::instance_norm_backward",                                             instance_norm_backward),
    forward("aten::layer_norm",                                                          layer_norm),
    backward("aten::layer_norm_backward",                                                layer_norm_backward),
    forward("aten::miopen_batch_norm",                                                   batch_norm),
    backward("aten::miopen_batch_norm_backward",                                         vendor_batch_norm_backward),
    forward("aten::miopen_group_norm",                                                   group_norm),
    backward("aten::miopen_group_norm_backward",                                         group_norm_backward),
    forward("aten::miopen_instance_norm",                                                instance_norm),
    backward("aten::miopen_instance_norm_backward",                                      instance_norm_backward),
    forward("aten::miopen_layer_norm",                                                   layer_norm),
    backward("aten::miopen_layer_norm_backward",                                         layer_norm_backward),
    backward("aten::miopen_rms_norm_backward",                                           rms_norm_backward),
    forward("aten::native_batch_norm",                                                   batch_norm),
    backward("aten::native_batch_norm_backward",                                         batch_norm_backward),
    forward("aten::native_group_norm",                                                   group_norm),
    backward("aten::native_group_norm_backward",                                         group_norm_backward),
    forward("aten::native_instance_norm",                                                instance_norm),
    backward("aten::native_instance_norm_backward",                                      instance_norm_backward),
    forward("aten::native_layer_norm",                                                   layer_norm),
    backward("aten::native_layer_norm_backward",                                         layer_norm_backward),
    backward("aten::native_rms_norm_backward",                                           rms_norm_backward),
    backward("aten::rms_norm_backward",                                                  rms_norm_backward),
    forward("primus::fused_ln_modulate",                                                 ln_modulate),
    backward("primus::fused_ln_modulate_backward",                                       ln_modulate_backward),
    rms("sglang_profiler::fused_mxfp4_quant_fused_rms_mxfp4_quant",                      rms_mxfp4),
    rms("vllm::rocm_aiter_rmsnorm_fp8_group_quant",                                      rms_group_fp8),
    rms("vllm::rocm_aiter_rmsnorm_with_add_fp8_group_quant",                             rms_add_group_fp8),
    rms("vllm::rocm_aiter_triton_add_rmsnorm_pad",                                       rms_add_pad),
];

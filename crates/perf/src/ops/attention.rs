//! Dense attention.

use super::OpEntry;
use crate::models::Reader;
use crate::models::attention::{
    aiter_backward, aiter_forward, aiter_mha_backward, aiter_wrapper_backward, aiter_wrapper_forward,
    aten_cudnn_backward, aten_efficient_backward, aten_flash_backward, aten_packed_forward, aten_sdpa_bias,
    aten_sdpa_flash, evoformer, flash_attn_3_forward, flash_attn_backward, flash_attn_forward, flash_attn_function,
    flash_attn_varlen_backward, flash_attn_varlen_forward,
};

const fn forward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "SDPA_fwd", "SDPA", reader).backward("SDPA_bwd")
}

const fn backward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "SDPA_bwd", "SDPA", reader).backward("SDPA_bwd")
}

const fn extended_forward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::extended(name, "SDPA_fwd", "SDPA", reader).backward("SDPA_bwd")
}

const fn extended_backward(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::extended(name, "SDPA_bwd", "SDPA", reader)
}

#[rustfmt::skip]
pub(super) const OPS: &[OpEntry] = &[
    forward("EvoformerAttention",                                                        evoformer),
    forward("FlashAttnFunc",                                                             flash_attn_function),
    backward("aiter::_flash_attn_backward",                                              aiter_backward),
    forward("aiter::_flash_attn_forward",                                                aiter_forward),
    forward("aiter::fmha_v3_fwd",                                                        aiter_forward),
    backward("aiter::mha_bwd",                                                           aiter_mha_backward),
    forward("aiter::mha_fwd",                                                            aiter_forward),
    backward("aiter::wrapper_fmha_v3_bwd",                                               aiter_wrapper_backward),
    forward("aiter::wrapper_fmha_v3_fwd",                                                aiter_wrapper_forward),
    extended_backward("aten::_cudnn_attention_backward",                                 aten_cudnn_backward),
    extended_backward("aten::_efficient_attention_backward",                             aten_efficient_backward),
    extended_forward("aten::_efficient_attention_forward",                               aten_packed_forward),
    extended_backward("aten::_flash_attention_backward",                                 aten_flash_backward),
    extended_forward("aten::_flash_attention_forward",                                   aten_packed_forward),
    forward("aten::_scaled_dot_product_cudnn_attention",                                 aten_sdpa_bias),
    extended_backward("aten::_scaled_dot_product_cudnn_attention_backward",              aten_cudnn_backward),
    forward("aten::_scaled_dot_product_efficient_attention",                             aten_sdpa_bias),
    extended_backward("aten::_scaled_dot_product_efficient_attention_backward",          aten_efficient_backward),
    forward("aten::_scaled_dot_product_flash_attention",                                 aten_sdpa_flash),
    extended_backward("aten::_scaled_dot_product_flash_attention_backward",              aten_flash_backward),
    backward("flash_attn::_flash_attn_backward",                                         flash_attn_backward),
    forward("flash_attn::_flash_attn_forward",                                           flash_attn_forward),
    backward("flash_attn::_flash_attn_varlen_backward",                                  flash_attn_varlen_backward),
    forward("flash_attn::_flash_attn_varlen_forward",                                    flash_attn_varlen_forward),
    forward("flash_attn_3::fwd",                                                         flash_attn_3_forward),
];

//! Attention of serving engines. Data only.

use crate::models::inference_attention as attention;
use crate::ops::OpEntry;

const CATEGORY: &str = "InferenceAttention";

/// The operations, sorted by name.
#[rustfmt::skip]
pub(crate) const OPS: &[OpEntry] = &[
    OpEntry::reference("aiter::fmha_v3_varlen_fwd",                            CATEGORY, CATEGORY, attention::packed_with_values),
    OpEntry::reference("aiter::linear_attention_with_output_base",             CATEGORY, CATEGORY, attention::linear_attention),
    OpEntry::reference("aiter::mha_batch_prefill",                             CATEGORY, CATEGORY, attention::packed_with_values),
    OpEntry::reference("aiter::mha_varlen_fwd",                                CATEGORY, CATEGORY, attention::packed),
    OpEntry::reference("aiter::pa_decode_gluon",                               CATEGORY, CATEGORY, attention::paged_decode),
    OpEntry::reference("aiter::pa_sparse_prefill_opus_fwd",                    CATEGORY, CATEGORY, attention::sparse_prefill),
    OpEntry::reference("pseudo_mla_decode_fwd",                                CATEGORY, CATEGORY, attention::latent_decode),
    OpEntry::reference("pseudo_mla_prefill_fwd",                               CATEGORY, CATEGORY, attention::packed_with_values),
    OpEntry::reference("pseudo_v4_paged_decode_csa",                           CATEGORY, CATEGORY, attention::v4_sparse),
    OpEntry::reference("pseudo_v4_paged_decode_hca",                           CATEGORY, CATEGORY, attention::v4_compressed),
    OpEntry::reference("pseudo_v4_paged_decode_swa",                           CATEGORY, CATEGORY, attention::v4_window),
    OpEntry::reference("sglang::store_cache",                                  CATEGORY, CATEGORY, attention::store_cache),
    OpEntry::reference("sglang_profiler::attention_paged_attention_ragged",    CATEGORY, CATEGORY, attention::paged_ragged),
    OpEntry::reference("sglang_profiler::tilelang_kernel_tilelang_sparse_fwd", CATEGORY, CATEGORY, attention::sparse_latent),
    OpEntry::reference("vllm::gdn_attention_core",                             CATEGORY, CATEGORY, attention::delta_net),
    OpEntry::reference("vllm::unified_attention_with_output",                  CATEGORY, CATEGORY, attention::packed),
];

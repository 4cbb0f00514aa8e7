//! Grouped matrix products.

use super::OpEntry;
use crate::models::Reader;
use crate::models::grouped_gemm::{grouped, variable_k};

const fn group(name: &'static str, reader: Reader) -> OpEntry {
    OpEntry::reference(name, "GroupedGEMM_fwd", "GroupedGEMM", reader).backward("GroupedGEMM_bwd")
}

#[rustfmt::skip]
pub(super) const OPS: &[OpEntry] = &[
    group("primus_turbo::grouped_gemm",                             grouped),
    group("primus_turbo::grouped_gemm_impl",                        grouped),
    group("primus_turbo::grouped_gemm_variable_k",                  variable_k),
    group("primus_turbo::grouped_gemm_variable_k_impl",             variable_k),
    group("primus_turbo_cpp_extension::ck_grouped_gemm",            grouped),
    group("primus_turbo_cpp_extension::ck_grouped_gemm_variable_k", variable_k),
    group("primus_turbo_cpp_extension::grouped_gemm",               grouped),
    group("primus_turbo_cpp_extension::grouped_gemm_variable_k",    variable_k),
];

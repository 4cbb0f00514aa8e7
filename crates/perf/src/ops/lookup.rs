//! Searching the registry.

use std::sync::LazyLock;

use crate::ops::{GROUPS, ModelSource, OpEntry, PREFIXES, category_only};
use crate::parity::Quirks;
use jarvis_trace::InOrder;

/// All groups in one list sorted by name, the category-only names merged in.
static TABLE: LazyLock<Vec<OpEntry>> = LazyLock::new(|| {
    let mut table: Vec<OpEntry> = GROUPS.iter().copied().flatten().copied().collect();
    table.order_by_key(|entry| entry.name);
    for &(name, category) in category_only::NAMES {
        match table.binary_search_by_key(&name, |entry| entry.name) {
            // A category that stands there without a model overrides that of the model.
            Ok(at) => table[at].category = category,
            Err(at) => table.insert(
                at,
                OpEntry {
                    name,
                    category,
                    backward_category: None,
                    sheet: "",
                    reader: None,
                    source: ModelSource::Reference,
                },
            ),
        }
    }
    table
});

/// Every operation that has an entry of its own, sorted by name.
pub fn all() -> &'static [OpEntry] {
    &TABLE
}

/// The entry of exactly this name.
pub fn find(name: &str) -> Option<&'static OpEntry> {
    let table = all();
    table.binary_search_by_key(&name, |entry| entry.name).ok().map(|at| &table[at])
}

/// The entry with the longest name that `name` begins with, among those that stand for all names so beginning.
pub fn find_prefix(name: &str) -> Option<&'static OpEntry> {
    PREFIXES.iter().filter(|entry| name.starts_with(entry.name)).max_by_key(|entry| entry.name.len())
}

/// Category of an operation, `first_kernel` being the name of the first kernel below it.
///
/// Order: the registry, the two name beginnings, the kernel's name, `other`.
pub fn category(name: &str, first_kernel: Option<&str>, quirks: &Quirks) -> &'static str {
    if let Some(category) = registered_category(name, quirks).filter(|&category| category != "other") {
        return category;
    }
    if name.starts_with("triton") {
        return "triton";
    }
    if name.starts_with("record_param_comms") {
        return "record_param_comms";
    }
    let native = first_kernel.filter(|kernel| kernel.starts_with("void at::native")).and_then(|kernel| {
        ["elementwise", "reduce", "multi_tensor_apply"].into_iter().find(|word| kernel.contains(word))
    });
    let library =
        || first_kernel.filter(|_| has_no_operation(name) && !quirks.reference_models_only).and_then(of_kernel);
    native.or_else(library).unwrap_or("other")
}

/// Parts of kernel names and the categories of the operations that launch such kernels; the first that fits counts.
#[rustfmt::skip]
const KERNELS: &[(&str, &str)] = &[
    ("flash_bwd",      "SDPA_bwd"),
    ("fmha_cutlassB",  "SDPA_bwd"),
    ("sdpa_sm90_flash_bprop", "SDPA_bwd"),
    ("flash_fwd",      "SDPA_fwd"),
    ("fmha",           "SDPA_fwd"),
    ("sdpa_sm",        "SDPA_fwd"),
    ("attn_fwd",       "SDPA_fwd"),
    ("paged_attention", "InferenceAttention"),
    ("triton_",        "triton"),
    ("wgrad",          "CONV_bwd"),
    ("dgrad",          "CONV_bwd"),
    ("fprop",          "CONV_fwd"),
    ("implicit_convolve", "CONV_fwd"),
    ("igemm_fwd",      "CONV_fwd"),
    ("igemm_bwd",      "CONV_bwd"),
    ("igemm_wrw",      "CONV_bwd"),
    // Convolutions change layouts around themselves; for which of them is not told.
    ("batched_transpose", "CONV_fwd"),
    ("nchwToNhwc",     "CONV_fwd"),
    ("nhwcToNchw",     "CONV_fwd"),
    ("nvjet",          "GEMM"),
    ("Cijk_",          "GEMM"),
    ("gemm",           "GEMM"),
    ("gemv",           "GEMM"),
    ("splitKreduce",   "GEMM"),
    ("batch_norm_backward", "NORM_bwd"),
    ("batch_norm",     "NORM_fwd"),
    ("bn_fw",          "NORM_fwd"),
    ("bn_bw",          "NORM_bwd"),
    ("layer_norm",     "NORM_fwd"),
    ("rms_norm",       "NORM_fwd"),
    ("SoftMax",        "reduce"),
    ("softmax",        "reduce"),
];

/// Category by the name of a kernel.
fn of_kernel(kernel: &str) -> Option<&'static str> {
    KERNELS.iter().find(|(part, _)| kernel.contains(part)).map(|(_, category)| *category)
}

/// Whether a row stands for kernels whose operation is not recorded, as those of a replayed graph.
fn has_no_operation(name: &str) -> bool {
    let launched = name.split_once("->").map(|(launch, _)| launch);
    is_synthetic(name) && launched.is_none_or(|launch| ["cuda", "cu", "hip"].iter().any(|api| launch.starts_with(api)))
}

/// The category that the registry gives; of the entries that are ours alone the reference knows nothing.
fn registered_category(name: &str, quirks: &Quirks) -> Option<&'static str> {
    let entry = find(name)?;
    if entry.source == ModelSource::Extended && quirks.reference_models_only {
        return category_only::find(name);
    }
    Some(entry.category)
}

/// Family of sheets on which the operation's rows stand; empty for none.
pub fn sheet(entry: &OpEntry, quirks: &Quirks) -> &'static str {
    if entry.category == "GroupQuant" && !quirks.group_quant_on_two_sheets { "GroupQuant" } else { entry.sheet }
}

/// Whether the name is that of a row made for kernels that an operation launched directly.
pub fn is_synthetic(name: &str) -> bool {
    name.ends_with("(Synthetic Op)")
}

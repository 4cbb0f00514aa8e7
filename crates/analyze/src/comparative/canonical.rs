//! What an operation does, whatever its backend calls it.

use jarvis_perf::call::Dims;
use jarvis_perf::value::Value;

use crate::prepared::Row;

/// Names of one operation under several backends: how a name ends, and what it is.
const SAME: &[(&[&str], &str)] = &[
    (
        &["convolution", "convolution_overrideable", "cudnn_convolution", "miopen_convolution", "_convolution"],
        "convolution",
    ),
    (
        &["batch_norm", "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_impl_index"],
        "batch_norm",
    ),
    (&["layer_norm", "native_layer_norm"], "layer_norm"),
    (&["mm", "addmm", "_addmm_activation", "_scaled_mm", "linear"], "linear"),
    (&["bmm", "baddbmm"], "bmm"),
    (&["softmax", "_softmax", "_safe_softmax"], "softmax"),
    (&["copy_", "_to_copy", "to", "clone", "contiguous"], "copy"),
];

/// Parameters that say how much attention there is.
const ATTENTION: [&str; 7] = ["B", "N_Q", "H_Q", "N_KV", "H_KV", "d_h_qk", "d_h_v"];

/// Parameters that say how large a product is.
const PRODUCT: [&str; 4] = ["B", "M", "N", "K"];

/// The operation without the name of its backend.
pub(crate) fn name(row: &Row) -> String {
    if matches!(&*row.category, "sdpa_fwd" | "sdpa_bwd") {
        return format!("attention {}", row.category);
    }
    let bare = row.name.rsplit("::").next().unwrap_or(&row.name);
    match SAME.iter().find(|(names, _)| names.contains(&bare)) {
        Some((_, same)) => (*same).to_owned(),
        None => row.name.to_string(),
    }
}

/// Name, size and, if asked for, the type of the first tensor; none where no shapes are recorded.
pub(crate) fn key(row: &Row, with_type: bool) -> Option<String> {
    let name = name(row);
    let size = match name.as_str() {
        "linear" | "bmm" => parameters(row, &PRODUCT),
        n if n.starts_with("attention") => parameters(row, &ATTENTION),
        _ => None,
    };
    let size = size.or_else(|| tensors(row))?;
    let kind = row.inputs.types.as_deref().unwrap_or_default().iter().find(|t| !t.is_empty() && *t != "Scalar");
    Some(if with_type { format!("{name} {size} {kind:?}") } else { format!("{name} {size}") })
}

fn parameters(row: &Row, wanted: &[&str]) -> Option<String> {
    let found: Vec<String> = wanted
        .iter()
        .filter_map(|w| row.params.iter().find(|(k, _)| k == w))
        .filter(|(_, v)| !matches!(v, Value::None))
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    (found.len() >= 3).then(|| found.join(" "))
}

/// Shapes of all tensors.
fn tensors(row: &Row) -> Option<String> {
    let dims = row.inputs.dims.as_ref()?;
    let shapes: Vec<&Dims> = dims.iter().filter(|d| d.shape().is_none_or(|s| !s.is_empty())).collect();
    (!shapes.is_empty()).then(|| format!("{shapes:?}"))
}

//! Numbers as texts show them.

pub(crate) use crate::rounding::shown_ms as ms;

/// One decimal.
pub(crate) fn one(value: f64) -> String {
    crate::rounding::shown(value, 1)
}

/// A shape as `(8,12,64)`.
pub(crate) fn dims(dims: &[i64]) -> String {
    let parts: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("({})", parts.join(","))
}

//! Numbers as texts show them.

/// Milliseconds: two decimals, three below a tenth.
pub(crate) fn ms(value: f64) -> String {
    if value < 0.1 { format!("{value:.3}") } else { format!("{value:.2}") }
}

/// One decimal.
pub(crate) fn one(value: f64) -> String {
    format!("{value:.1}")
}

/// A shape as `(8,12,64)`.
pub(crate) fn dims(dims: &[i64]) -> String {
    let parts: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("({})", parts.join(","))
}

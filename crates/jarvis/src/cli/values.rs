//! Numbers that options take. Negative ones are let through to here, so that the error says what is expected.

/// A whole number.
pub(crate) fn whole(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "expected a whole number from 0 on".to_owned())
}

/// A whole number, and not none.
pub(crate) fn from_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "expected a whole number from 1 on".to_owned())
}

/// A number from 0 on.
pub(crate) fn from_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() && x >= 0.0 => Ok(x),
        _ => Err("expected a number from 0 on".to_owned()),
    }
}

/// A peak figure. One that no hardware can have is told where it is used, with what to do.
pub(crate) fn figure(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| "expected a number above 0".to_owned())
}

//! What functions of elements cost in a compiled kernel.

use crate::program::kind::Kind;

/// Vector instructions that an operation takes for an element: what one more of it adds to compiled kernels of six and
/// eighteen (eight and forty of the short ones) on normally distributed numbers, on an H200, less what reads and adds it
/// up. Neighbours that take different branches take both. What was not measured stands with what is computed like it. Exact
/// counts depend on the compiler; what matters is that some functions take tens of times as many as an addition.
const COUNTS: &[(&[&str], f64)] = &[
    (&["lgamma", "logaddexp", "logaddexp2", "mish", "mish_backward"], 98.0),
    (&["atan2"], 64.0),
    (&["log_sigmoid_forward", "softplus"], 51.0),
    (&["gelu_backward"], 48.0),
    (&["acosh", "asinh", "atan", "atanh", "cosh", "gelu", "sinh"], 40.0),
    (&["erf", "erfc", "fmod"], 34.0),
    (&["celu", "cos", "elu", "selu", "sin"], 32.0),
    (&["acos", "asin", "expm1", "log", "log10", "log1p", "log2", "logit", "logsumexp", "tan", "tanh"], 28.0),
    (&["floor_divide", "remainder"], 22.0),
    (&["silu", "silu_backward"], 20.0),
    (&["sigmoid"], 16.0),
    (&["clamp"], 14.0),
    (&["sqrt"], 12.0),
    (&["exp", "hardsigmoid", "hardswish", "sgn", "sign"], 10.5),
    (&["div"], 9.0),
    (&["ceil", "exp2", "floor", "reciprocal", "round", "rsqrt", "trunc"], 7.0),
    (&["clamp_max", "clamp_min", "maximum", "minimum", "relu", "where"], 3.0),
];

/// What one operation takes.
pub(super) fn of(base: &str, kind: Kind) -> f64 {
    match kind {
        Kind::Random => 90.0,
        _ => COUNTS.iter().find(|(names, _)| names.contains(&base)).map_or(2.0, |(_, count)| *count),
    }
}

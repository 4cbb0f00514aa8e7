//! Arguments and times as people read them.

use super::inputs::{Given, Input, Sizes};

/// The arguments of a call in one line: `BFloat16[8192x2048], BFloat16[2048x8192]`.
pub(crate) fn args(inputs: Option<&[Input]>) -> String {
    let Some(inputs) = inputs else { return "(no shapes recorded)".to_owned() };
    inputs.iter().map(arg).collect::<Vec<_>>().join(", ")
}

fn arg(input: &Input) -> String {
    match (input.given(), &input.dims) {
        (Given::Tensor, Sizes::One(sizes)) => {
            format!("{}[{}]", input.kind.replace("c10::", "").replace("at::", ""), by(sizes))
        }
        (Given::Tensors, Sizes::Many(list)) => {
            format!("[{}]", list.iter().map(|sizes| by(sizes)).collect::<Vec<_>>().join(", "))
        }
        (Given::UnknownTensors, _) => "[…]".to_owned(),
        (Given::Scalar(_) | Given::List(_), _) => input.concrete.clone(),
        _ => "-".to_owned(),
    }
}

fn by(sizes: &[i64]) -> String {
    sizes.iter().map(i64::to_string).collect::<Vec<_>>().join("x")
}

/// A number with four digits after the point at most.
pub(crate) fn rounded(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}

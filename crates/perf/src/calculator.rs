//! FLOPs, bytes and roofline time of an operation without a trace: the same models, fed with numbers from a user.
//!
//! Two ways in: a *family* (`gemm M=… N=… K=…`) with keys of its own, or the name of a real operation with the
//! arguments as a trace records them (`aten::mm dims=… types=…`). The corrected rules hold: real element sizes, true
//! counts of causal pairs.
//!
//! Families are one list, [`FAMILIES`]; keys, defaults, help and error texts follow from it.

mod families;
mod fitting;
mod keys;
mod norm;
mod real_op;
#[cfg(test)]
mod tests;
mod written;

pub use families::FAMILIES;
pub use keys::{Fallback, Family, Form, Key};

use crate::models::annotation::{Report, wants_annotation};
use crate::models::{Cost, ModelError};
use crate::nearest::nearest;
use crate::ops::{self, ModelSource};
use crate::parity::Quirks;
use crate::platform::{Figure, Platform};
use crate::roofline::Roofline;

/// The numbers of one operation.
#[derive(Debug, Clone, PartialEq)]
pub struct Calculation {
    /// Family or operation.
    pub model: String,
    /// What was computed with, defaults included.
    pub params: Vec<(String, String)>,
    /// FLOPs, bytes, Compute Spec.
    pub cost: Cost,
    /// Whose formula it is.
    pub source: ModelSource,
    /// What `torch.utils.flop_counter` says of the same call, where that is known.
    pub torch_flops: Option<f64>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// What a platform would need at least.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Rate for the Compute Spec in TFLOPS.
    pub peak: Option<Figure>,
    /// Time of the arithmetic alone.
    pub compute_us: Option<f64>,
    /// Time of the memory traffic alone.
    pub memory_us: Option<f64>,
    /// The longer of the two, and which it is.
    pub roofline: Option<Roofline>,
    /// FLOPs per byte at which both take equally long.
    pub knee: Option<f64>,
}

impl Calculation {
    /// FLOPs per byte.
    pub fn intensity(&self) -> Option<f64> {
        let bytes = self.cost.bytes.filter(|&bytes| bytes > 0.0)?;
        Some(self.cost.flops? / bytes)
    }

    /// Best times on `platform`.
    pub fn estimate(&self, platform: &Platform) -> Estimate {
        let spec = self.cost.spec();
        let peak = spec.as_deref().and_then(|spec| platform.peak(spec));
        Estimate {
            peak,
            compute_us: self.cost.flops.zip(peak).map(|(flops, peak)| flops / (peak.value * 1e12) * 1e6),
            memory_us: self.cost.bytes.map(|bytes| bytes / (platform.mem_bw_gbps.value * 1e9) * 1e6),
            roofline: Roofline::new(&self.cost, 0.0, platform, &Quirks::NONE),
            knee: spec.and_then(|spec| platform.knee(&spec)),
        }
    }
}

/// Why there are no numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalculatorError {
    /// Neither a family nor an operation with a model.
    #[error("there is no model `{name}`")]
    UnknownModel {
        /// What was asked for.
        name: String,
        /// The nearest known name.
        suggestion: Option<&'static str>,
    },
    /// A key that the family does not have.
    #[error("`{model}` has no key `{key}`")]
    UnknownKey {
        /// The family, or the real operation.
        model: String,
        /// The key.
        key: String,
        /// The nearest key.
        suggestion: Option<&'static str>,
    },
    /// A key that must be there is not.
    #[error("`{model}` needs `{key}`: {meaning}")]
    MissingKey {
        /// The family, or the real operation.
        model: String,
        /// The key.
        key: &'static str,
        /// What the key means.
        meaning: &'static str,
    },
    /// A key was given more than once.
    #[error("`{key}` is given twice")]
    Twice {
        /// The family, or the real operation.
        model: String,
        /// The key.
        key: &'static str,
    },
    /// A value does not fit.
    #[error("`{key}={value}`: expected {expected}")]
    Value {
        /// The family, or the real operation.
        model: String,
        /// The key.
        key: &'static str,
        /// What was given.
        value: String,
        /// What would have fitted.
        expected: String,
    },
    /// The model can't do with what it was given.
    #[error("`{model}`: {reason}")]
    Model {
        /// The family, or the real operation.
        model: String,
        /// Why.
        reason: String,
    },
}

impl CalculatorError {
    /// What to do next: the keys there are, and an example.
    pub fn help(&self) -> String {
        match self {
            Self::UnknownModel { suggestion, .. } => {
                let near = suggestion.map_or(String::new(), |name| format!("did you mean `{name}`?\n"));
                let names: Vec<&str> = FAMILIES.iter().map(|family| family.name).collect();
                format!("{near}families are {}; or give the name of an operation, such as aten::mm", names.join(", "))
            }
            Self::UnknownKey { model, suggestion, .. } => {
                let near = suggestion.map_or(String::new(), |name| format!("did you mean `{name}`?\n"));
                near + &usage(model)
            }
            Self::MissingKey { model, .. }
            | Self::Twice { model, .. }
            | Self::Value { model, .. }
            | Self::Model { model, .. } => usage(model),
        }
    }
}

/// The keys of a model and an example.
fn usage(model: &str) -> String {
    let family = family(model).unwrap_or(&real_op::FAMILY);
    let keys: Vec<String> = family.keys.iter().map(Key::usage).collect();
    format!("keys are {}\nfor example: jarvis model {}", keys.join(" "), family.example)
}

/// The family of this name.
pub fn family(name: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|family| family.name.eq_ignore_ascii_case(name))
}

/// How a real operation is given.
pub fn real_operation() -> &'static Family {
    &real_op::FAMILY
}

/// The numbers of `model`, a family or an operation, with these keys and values. A key without a value is a flag that
/// is on.
pub fn calculate(model: &str, given: &[(&str, Option<&str>)]) -> Result<Calculation, CalculatorError> {
    if let Some(family) = family(model) {
        let given = keys::Given::read(family.name, family.keys, given)?;
        return (family.run)(&given).map(|outcome| outcome.finish(family.name, &given));
    }
    if ops::find(model).or_else(|| ops::find_prefix(model)).is_some_and(|entry| entry.reader.is_some()) {
        let given = keys::Given::read(model, real_op::FAMILY.keys, given)?;
        return (real_op::FAMILY.run)(&given).map(|outcome| outcome.finish(model, &given));
    }
    let families = FAMILIES.iter().map(|family| family.name);
    let modelled = ops::all().iter().filter(|entry| entry.reader.is_some()).map(|entry| entry.name);
    let suggestion = nearest(model, families.chain(modelled));
    Err(CalculatorError::UnknownModel { name: model.to_owned(), suggestion })
}

/// Operations whose models must be told what no list of inputs holds: their forward call, or how the experts are routed.
const TOLD_MORE: &[&str] = &[
    "ConvBiasReLU_Backward",
    "ConvBias_Backward",
    "pseudo_op::moe_gptq_awq_down",
    "pseudo_op::moe_gptq_awq_up",
    "pseudo_op::moe_triton_unfused_down",
    "pseudo_op::moe_triton_unfused_up",
];

/// Whether the model of an operation needs more of a trace than the inputs of the call, so that [`calculate`] can't serve.
pub fn needs_trace(name: &str) -> bool {
    TOLD_MORE.contains(&name) || wants_annotation(name, Report::Inference, &Quirks::NONE)
}

/// What a family's formula returns.
struct Outcome {
    cost: Cost,
    source: ModelSource,
    torch_flops: Option<f64>,
    notes: Vec<String>,
}

impl Outcome {
    fn new(cost: Cost) -> Self {
        Self { cost, source: ModelSource::Extended, torch_flops: None, notes: Vec::new() }
    }

    fn finish(self, model: &str, given: &keys::Given<'_>) -> Calculation {
        let Self { cost, source, torch_flops, notes } = self;
        Calculation { model: model.to_owned(), params: given.shown(), cost, source, torch_flops, notes }
    }
}

/// The failure of a model, said of what the user asked for.
fn failed(model: &str, error: &ModelError) -> CalculatorError {
    let reason = match error {
        ModelError::Fail(reason) => reason.clone(),
        ModelError::Drop => "there is no formula for this direction".to_owned(),
    };
    CalculatorError::Model { model: model.to_owned(), reason }
}

//! What an operation costs: one file per family, each with its readers (how one op lays out its arguments) and its
//! formulas. Which op uses which reader stands in [`crate::ops`].
//!
//! [`evaluate`] and [`evaluate_backward`] are the way in.

pub mod attention;
pub mod conv;
pub mod elementwise;
mod evaluation;
pub mod extended;
pub mod gemm;
pub mod grouped_gemm;
pub mod norm;
pub mod quantize;
pub mod reduce;
mod tally;

pub use evaluation::{Evaluation, cost, evaluate, evaluate_backward, has_model};

pub mod annotation;
pub(crate) mod collective;
pub(crate) mod fused;
pub(crate) mod inference_attention;
pub(crate) mod moe;
pub(crate) mod reckoned;
pub mod triton;

use std::borrow::Cow;

use crate::call::OpCall;
use crate::parity::Quirks;
use crate::value::Value;

/// Which part of the chip does the arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ComputeUnit {
    /// Matrix units (tensor cores, MFMA).
    Matrix,
    /// Ordinary vector lanes.
    Vector,
    /// Not known, or no arithmetic to speak of: the Compute Spec cell stays blank.
    Unknown,
}

/// The Compute Specs that nearly all calls have: these need not be put together.
const USUAL_SPECS: &[&str] = &[
    "matrix_bf16",
    "vector_bf16",
    "vector_fp32",
    "matrix_fp32",
    "matrix_fp16",
    "vector_fp16",
    "matrix_fp8",
    "vector_fp64",
];

/// Arithmetic and traffic of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Floating point operations; `None` if they can't be told.
    pub flops: Option<f64>,
    /// Bytes moved to and from device memory; `None` if a size is unknown.
    pub bytes: Option<f64>,
    /// Where the arithmetic runs.
    pub unit: ComputeUnit,
    /// Precision label (`bf16`, `fp32`, …), `None` if the type has none.
    pub precision: Option<Cow<'static, str>>,
}

impl Cost {
    /// Work of the matrix units.
    pub fn matrix(flops: f64, bytes: Option<f64>, precision: Option<&'static str>) -> Self {
        Self { flops: Some(flops), bytes, unit: ComputeUnit::Matrix, precision: precision.map(Cow::Borrowed) }
    }

    /// Work of the vector lanes.
    pub fn vector(flops: f64, bytes: Option<f64>, precision: Option<&'static str>) -> Self {
        Self { flops: Some(flops), bytes, unit: ComputeUnit::Vector, precision: precision.map(Cow::Borrowed) }
    }

    /// The Compute Spec, such as `matrix_bf16`: the key of a platform's rates. `None` if either part is unknown.
    pub fn spec(&self) -> Option<Cow<'static, str>> {
        let unit = match self.unit {
            ComputeUnit::Matrix => "matrix_",
            ComputeUnit::Vector => "vector_",
            ComputeUnit::Unknown => return None,
        };
        let precision = self.precision.as_deref()?;
        let usual = USUAL_SPECS.iter().find(|spec| spec.strip_prefix(unit) == Some(precision));
        Some(usual.map_or_else(|| Cow::Owned(format!("{unit}{precision}")), |spec| Cow::Borrowed(*spec)))
    }
}

/// Why a model gave no numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The call lacks what the model needs, or contradicts it: the row stays, its model cells are blank.
    #[error("{0}")]
    Fail(String),
    /// The reference has no formula for this direction and removes the whole row.
    #[error("no formula")]
    Drop,
}

impl ModelError {
    /// An ordinary failure with its reason.
    pub fn fail(reason: impl Into<String>) -> Self {
        Self::Fail(reason.into())
    }
}

/// A model's parameters in the order in which tables show them.
pub type Params = Vec<(&'static str, Value)>;

/// A parsed call, ready to be costed.
pub trait PerfModel {
    /// Cost of the call itself.
    fn forward(&self) -> Result<Cost, ModelError>;
    /// Cost of the backward work that belongs to this forward call.
    fn backward(&self) -> Result<Cost, ModelError> {
        Err(ModelError::Drop)
    }
    /// Bytes over the link between host and device, or between devices: these are no device memory traffic.
    fn link_bytes(&self) -> Option<f64> {
        None
    }
    /// What `torch.utils.flop_counter` says of the call, where it counts it at all.
    fn torch_flops(&self) -> Option<f64> {
        None
    }
    /// Parameters in the order in which tables show them: the last thing asked, so that they need not be copied.
    fn into_params(self: Box<Self>) -> Params;
}

/// What a reader makes of a call.
pub type Read = Result<Box<dyn PerfModel>, ModelError>;

/// Reads a call's arguments into a model.
pub type Reader = fn(&OpCall<'_>, &Quirks) -> Read;

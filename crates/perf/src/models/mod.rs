//! What an operation costs: one file per family, each with its readers (how one op lays out its arguments) and its
//! formulas. Which op uses which reader stands in [`crate::ops`].

pub mod annotation;
pub(crate) mod collective;
pub(crate) mod fused;
pub(crate) mod inference_attention;
pub(crate) mod moe;
pub(crate) mod reckoned;
pub mod triton;

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
    pub precision: Option<String>,
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

/// A parsed call, ready to be costed.
pub trait PerfModel {
    /// Parameters in the order in which tables show them.
    fn params(&self) -> Vec<(&'static str, Value)>;
    /// Cost of the call itself.
    fn forward(&self) -> Result<Cost, ModelError>;
    /// Cost of the backward work that belongs to this forward call.
    fn backward(&self) -> Result<Cost, ModelError> {
        Err(ModelError::Drop)
    }
}

/// Reads a call's arguments into a model.
pub type Reader = fn(&OpCall<'_>, &Quirks) -> Result<Box<dyn PerfModel>, ModelError>;

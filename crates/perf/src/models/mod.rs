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

pub use evaluation::{Evaluation, evaluate, evaluate_backward, has_model};

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

impl Cost {
    /// Work of the matrix units.
    pub fn matrix(flops: f64, bytes: Option<f64>, precision: Option<&str>) -> Self {
        Self { flops: Some(flops), bytes, unit: ComputeUnit::Matrix, precision: precision.map(str::to_owned) }
    }

    /// Work of the vector lanes.
    pub fn vector(flops: f64, bytes: Option<f64>, precision: Option<&str>) -> Self {
        Self { flops: Some(flops), bytes, unit: ComputeUnit::Vector, precision: precision.map(str::to_owned) }
    }

    /// The Compute Spec cell: `matrix_bf16`, or the empty text if either part is unknown.
    pub fn spec(&self) -> String {
        let unit = match self.unit {
            ComputeUnit::Matrix => "matrix",
            ComputeUnit::Vector => "vector",
            ComputeUnit::Unknown => return String::new(),
        };
        self.precision.as_ref().map_or_else(String::new, |precision| format!("{unit}_{precision}"))
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
    /// Parameters in the order in which tables show them.
    fn params(&self) -> Params;
    /// Cost of the call itself.
    fn forward(&self) -> Result<Cost, ModelError>;
    /// Cost of the backward work that belongs to this forward call.
    fn backward(&self) -> Result<Cost, ModelError> {
        Err(ModelError::Drop)
    }
    /// Where less than the cost says: bytes of the call if everything that could stay on the chip did, or that are sure
    /// where the cost is an upper bound.
    fn least_bytes(&self) -> Option<f64> {
        None
    }
    /// Bytes over the link between host and device: these are no device memory traffic.
    fn host_bytes(&self) -> Option<f64> {
        None
    }
    /// What `torch.utils.flop_counter` says of the call, where it counts it at all.
    fn torch_flops(&self) -> Option<f64> {
        None
    }
}

/// What a reader makes of a call.
pub type Read = Result<Box<dyn PerfModel>, ModelError>;

/// Reads a call's arguments into a model.
pub type Reader = fn(&OpCall<'_>, &Quirks) -> Read;

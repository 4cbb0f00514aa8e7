//! The registry: operation name → category, sheet family, reader. Data only; one file per group, one op a line.
//!
//! Adding an operation is one line in its group's table and one case in its test.

mod fused;
mod inference;
mod moe;
#[cfg(test)]
mod served_cases;

use crate::models::Reader;

/// Which model made a row's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelSource {
    /// A model the reference has too.
    Reference,
    /// A model of ours: blank under `--parity`.
    Extended,
    /// Bytes of the tensors at hand, counted once: a lower bound.
    Generic,
    /// A model from the user's extension file.
    Extension,
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct OpEntry {
    /// Full operation name.
    pub name: &'static str,
    /// Category of the operation itself (`GEMM`, `SDPA_fwd`, …).
    pub category: &'static str,
    /// Category of its backward work, where the model has a backward formula.
    pub backward_category: Option<&'static str>,
    /// Family of per-category sheets (`GEMM`, `SDPA`, …).
    pub sheet: &'static str,
    /// How to read a call; `None` for operations that only have a category.
    pub reader: Option<Reader>,
    /// Whose model it is.
    pub source: ModelSource,
}

impl OpEntry {
    /// An operation that the reference models too.
    const fn reference(name: &'static str, category: &'static str, sheet: &'static str, reader: Reader) -> Self {
        Self { name, category, backward_category: None, sheet, reader: Some(reader), source: ModelSource::Reference }
    }

    /// The same operation with a category for its backward work.
    const fn backward(self, category: &'static str) -> Self {
        Self { backward_category: Some(category), ..self }
    }
}

//! The registry: operation name → category, sheet family, reader. Data only; one file per group, one op a line.
//!
//! Adding an operation is one line in its group's table and one case in its test.

mod about;
mod attention;
mod category_only;
mod conv;
mod elementwise;
mod extended;
mod fused;
mod gemm;
mod grouped_gemm;
mod inference;
mod lookup;
mod moe;
mod norm;
mod reduce;
#[cfg(test)]
mod served_cases;

pub use about::about;
pub use lookup::{all, category, find, find_prefix, is_synthetic, sheet};

use crate::models::Reader;

/// The groups that make up the registry.
const GROUPS: &[&[OpEntry]] = &[
    attention::OPS,
    conv::OPS,
    elementwise::OPS,
    extended::OPS,
    fused::OPS,
    gemm::OPS,
    grouped_gemm::OPS,
    inference::OPS,
    moe::OPS,
    norm::OPS,
    reduce::OPS,
];

/// Entries whose name is a beginning: they hold for every longer name that no other entry has.
const PREFIXES: &[OpEntry] = fused::PREFIXES;

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

impl ModelSource {
    /// The word in the `model_source` column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Extended => "extended",
            Self::Generic => "generic",
            Self::Extension => "extension",
        }
    }
}

/// One operation.
#[derive(Debug, Clone, Copy)]
pub struct OpEntry {
    /// Full operation name.
    pub name: &'static str,
    /// Category of the operation itself (`GEMM`, `SDPA_fwd`, …). `other` says nothing: the kernel's name decides.
    pub category: &'static str,
    /// Category of its backward work, where the model has a backward formula.
    pub backward_category: Option<&'static str>,
    /// Family of per-category sheets (`GEMM`, `SDPA`, …); empty if its rows stand in the unified table alone.
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

    /// An operation that only we model.
    const fn extended(name: &'static str, category: &'static str, sheet: &'static str, reader: Reader) -> Self {
        Self { name, category, backward_category: None, sheet, reader: Some(reader), source: ModelSource::Extended }
    }

    /// The same operation with a category for its backward work.
    const fn backward(self, category: &'static str) -> Self {
        Self { backward_category: Some(category), ..self }
    }
}

#[cfg(test)]
mod tests;

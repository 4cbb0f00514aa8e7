//! Analyzers of the compute tier: one file and one line of [`ANALYZERS`] each. An analyzer sees its own category and
//! the prepared trace, never the trace itself and never another analyzer.

mod batchnorm;
mod claims;
mod convolution;
mod cx;
mod drive;
mod elementwise;
mod findings;
mod fix;
mod gemm;
mod generic;
mod impact;
mod judge;
mod layout;
mod layout_gradient;
mod layout_loss;
mod layout_volumes;
mod moe;
mod neighbours;
mod norm;
mod operation;
mod outcome;
mod precision;
mod priority;
mod reduce;
mod sdpa;
mod triton;
mod words;

use std::collections::BTreeMap;

use crate::metrics::{Bottleneck, CategoryMetrics};
use crate::program::RowId;
use crate::thresholds::Threshold;

pub use claims::{Candidate, Claims};
pub use cx::CategoryCx;
pub use findings::compute_findings;
pub(crate) use gemm::is_tiny_batched_gemm;
pub use impact::{MADE_ONE, NOT_NEEDED, SHORTEST};
pub use judge::reason;
pub use outcome::{
    CategoryOutcome, analyze_categories, ask_for_package_of, refuse_package, refuse_package_of, without_data,
};
pub(crate) use priority::NOT_URGENT;

/// What an analyzer is.
#[derive(Debug, Clone, Copy)]
pub struct AnalyzerInfo {
    /// Stable name.
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// What it finds, why it matters, how it is computed, what to do, its limits: under these headings.
    pub doc: &'static str,
    /// Time above which an operation counts whatever its share.
    pub time: Threshold,
    /// Further limits it reads.
    pub thresholds: &'static [Threshold],
}

/// Limits that every analyzer reads.
const COMMON: &[Threshold] = &[
    Threshold::BottleneckShare,
    Threshold::BottleneckEfficiency,
    Threshold::ReportMinPercent,
    Threshold::EffExcellent,
    Threshold::EffGood,
    Threshold::EffAcceptable,
    Threshold::EffAnomaly,
    Threshold::ImpactLowFactor,
];

impl AnalyzerInfo {
    /// All limits it reads.
    pub fn all_thresholds(&self) -> Vec<Threshold> {
        let mut all = vec![self.time];
        all.extend_from_slice(COMMON);
        all.extend_from_slice(self.thresholds);
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Why an analyzer has nothing to say.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnalyzerError {
    /// Prepared data contradict each other.
    #[error("{0}")]
    Inconsistent(String),
    /// It panicked.
    #[error("the analyzer failed: {0}")]
    Panicked(String),
}

/// Rows with the share of their time that is meant, 0 to 1.
pub type Shares = BTreeMap<RowId, f64>;

/// Judges the rows of a category.
pub trait Analyzer: Sync {
    /// What it is.
    fn info(&self) -> &'static AnalyzerInfo;

    /// Judges a category.
    fn run(&self, cx: &CategoryCx<'_>) -> Result<CategoryMetrics, AnalyzerError>;

    /// What it would say of a bottleneck if it were only so much of these rows; `None` if nothing is left.
    fn part(&self, cx: &CategoryCx<'_>, left: &Shares) -> Option<Bottleneck>;
}

/// All analyzers; [`crate::prepare::category::CATEGORIES`] says who is in charge of what.
pub const ANALYZERS: &[&dyn Analyzer] = &[
    &gemm::Gemm,
    &sdpa::Sdpa,
    &elementwise::Elementwise,
    &reduce::Reduce,
    &triton::Triton,
    &moe::Moe,
    &batchnorm::BatchNorm,
    &norm::Norm,
    &convolution::Convolution,
    &generic::Generic,
];

/// The analyzer of this name.
pub fn analyzer(id: &str) -> Option<&'static dyn Analyzer> {
    ANALYZERS.iter().copied().find(|a| a.info().id == id)
}

#[cfg(test)]
mod tests;

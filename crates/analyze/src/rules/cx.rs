//! What an analyzer sees: its category, and the prepared trace around it.

use crate::metrics::Scope;
use crate::prepare::percent;
use crate::prepared::{BoundType, Category, Prepared, Row};
use crate::thresholds::Threshold;

use super::claims::Claims;

/// What an analyzer sees.
#[derive(Debug, Clone, Copy)]
pub struct CategoryCx<'a> {
    /// Everything prepared. Never the trace.
    pub prepared: &'a Prepared,
    /// The category to be analysed.
    pub category: &'a Category,
    /// Rows that patterns over several operations explain.
    pub claims: &'a Claims,
    /// One trace, or one against another.
    pub scope: Scope,
}

impl<'a> CategoryCx<'a> {
    /// The rows of the category, most time first.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &'a Row> + Clone + use<'a> {
        let prepared = self.prepared;
        self.category.rows.iter().map(|&id| prepared.row(id))
    }

    /// A limit.
    pub fn limit(&self, threshold: Threshold) -> f64 {
        self.prepared.thresholds.get(threshold)
    }

    /// Peak bandwidth in 10¹² bytes a second.
    pub fn peak_tbs(&self) -> f64 {
        self.prepared.peak_hbm_tbs()
    }

    /// Matrix rate for bf16 in 10¹² operations a second.
    pub fn peak_maf(&self) -> Option<f64> {
        self.prepared.platform.peak("matrix_bf16").map(|f| f.value)
    }

    /// Of the computation time, in percent.
    pub fn of_compute(&self, ms: f64) -> f64 {
        self.prepared.utilization.percent_of_compute(ms)
    }

    /// Of the total time, in percent.
    pub fn of_total(&self, ms: f64) -> f64 {
        self.prepared.utilization.percent_of_total(ms)
    }

    /// How much work of the device weighs in percent of computing: copies within its memory as if they computed.
    pub fn weight(&self, ms: f64) -> f64 {
        self.of_compute(ms).min(100.0)
    }

    /// The same within the category.
    pub fn weight_in_category(&self, ms: f64) -> f64 {
        percent(ms, self.category.time.work_ms)
    }

    /// Of the category, in percent.
    pub fn of_category(&self, ms: f64) -> f64 {
        percent(ms, self.category.time_ms)
    }

    /// Percent of peak that a row can be expected to reach: memory-bound work the memory ceiling, compute-bound work
    /// an excellent efficiency.
    pub fn ceiling(&self, bound: Option<BoundType>) -> f64 {
        match bound {
            Some(BoundType::Compute) => self.limit(Threshold::EffExcellent),
            _ => self.prepared.memory_ceiling(),
        }
    }
}

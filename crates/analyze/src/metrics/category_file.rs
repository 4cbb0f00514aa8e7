//! `<category>_metrics.json`.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use super::operation::OperationMetrics;
use super::{CategoryMetrics, JudgedOperation};
use crate::prepared::Prepared;

/// What an analyzer says of its category, as its file shows it. Operations take the form of the file one by one, as
/// they are written: there are as many as distinct calls.
#[derive(Debug, Clone, Copy)]
pub struct CategoryFile<'a> {
    /// What was said.
    pub metrics: &'a CategoryMetrics,
    /// What it was said of.
    pub prepared: &'a Prepared,
}

impl Serialize for CategoryFile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { metrics: m, prepared } = *self;
        let mut file = serializer.serialize_struct("CategoryMetrics", 20)?;
        file.serialize_field("schema_version", &m.schema_version)?;
        file.serialize_field("category", &m.category)?;
        file.serialize_field("display_name", &m.display_name)?;
        file.serialize_field("status", &m.status)?;
        file.serialize_field("comparison_scope", &m.comparison_scope)?;
        file.serialize_field("total_time_ms", &m.total_time_ms)?;
        file.serialize_field("copy_time_ms", &m.copy_time_ms)?;
        file.serialize_field("percent_of_compute", &m.percent_of_compute)?;
        file.serialize_field("percent_of_total", &m.percent_of_total)?;
        file.serialize_field("operation_count", &m.operation_count)?;
        file.serialize_field("unique_args_count", &m.unique_args_count)?;
        file.serialize_field("average_efficiency_percent", &m.average_efficiency_percent)?;
        file.serialize_field("mean_efficiency_percent_unweighted", &m.mean_efficiency_percent_unweighted)?;
        file.serialize_field("modeled_time_percent", &m.modeled_time_percent)?;
        file.serialize_field("operations", &Operations { judged: &m.operations, prepared })?;
        file.serialize_field("bottlenecks", &m.bottlenecks)?;
        file.serialize_field("patterns", &m.patterns)?;
        file.serialize_field("category_specific", &m.category_specific)?;
        file.serialize_field("impact_estimates", &m.impact_estimates)?;
        file.serialize_field("warnings", &m.warnings)?;
        file.end()
    }
}

struct Operations<'a> {
    judged: &'a [JudgedOperation],
    prepared: &'a Prepared,
}

impl Serialize for Operations<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.judged.iter().map(|judged| OperationMetrics::of(self.prepared, judged)))
    }
}

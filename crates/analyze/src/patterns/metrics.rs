//! Patterns as the metrics of a category tell them.

use super::findings::category;
use super::scene::Scene;
use super::{Confidence, Pattern, least_saving_ms};
use crate::metrics::PatternMetrics;
use crate::prepare::{percent, place};
use crate::prepared::Row;
use crate::program::{LeafId, RowId};
use crate::rounding::{Ms, Percent};

/// The patterns whose readers are those of a category, in the order of the patterns; `known` others are numbered before
/// them.
pub(crate) fn of_category(
    scene: &Scene<'_>,
    patterns: &[Pattern],
    rows: &[Row],
    key: &str,
    known: usize,
) -> Vec<PatternMetrics> {
    let mut own = patterns.iter().filter(|p| category(p) == key).peekable();
    if own.peek().is_none() {
        return Vec::new();
    }
    let row_us: Vec<f64> = rows.iter().map(|r| r.time_ms * 1e3).collect();
    let id = |i: usize| format!("{key}-p{}", known + i + 1);
    own.enumerate().map(|(i, p)| metrics(scene, p, rows, &row_us, id(i))).collect()
}

fn metrics(scene: &Scene<'_>, pattern: &Pattern, rows: &[Row], row_us: &[f64], id: String) -> PatternMetrics {
    let computation_ms = scene.utilization.all_kernels_ms();
    let shares = place::shares(scene.program, pattern.all_leaves().map(LeafId::index), row_us);
    let held: Vec<RowId> = shares.into_iter().map(|(row, _)| row).collect();
    PatternMetrics {
        id,
        pattern: pattern.code.as_str(),
        confidence: match pattern.confidence {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        },
        evidence: pattern.evidence.clone(),
        tree_uids: held.iter().map(|r| rows[r.index()].uid).collect(),
        rows: held,
        module: pattern.module.as_deref().map(str::to_owned),
        instances: pattern.instances,
        time_ms: Ms(pattern.total_ms()),
        percent_of_compute: Percent(percent(pattern.total_ms(), computation_ms)),
        savings_ms_low: pattern.saved_ms.map(|s| Ms(s.low)),
        savings_ms_high: pattern.saved_ms.map(|s| Ms(s.high)),
        notable: pattern.is_promoted(least_saving_ms(scene.thresholds, computation_ms)),
        spans: Some(pattern.id),
        promoted: None,
    }
}

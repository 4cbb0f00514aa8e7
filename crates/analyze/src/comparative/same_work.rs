//! Whether operations that are called alike do the same work. The length of an index list, for one, is no argument that
//! is recorded: the same call may move a few rows or all of them.

use super::both::Both;
use super::verdict::ExpectedRatio;
use crate::prepared::{Prepared, Row};
use crate::program::RowId;

/// The row with most time.
pub(crate) fn largest<'a>(p: &'a Prepared, rows: &[RowId]) -> Option<&'a Row> {
    let longer = |a: &'a Row, b: &'a Row| if b.time_ms > a.time_ms { b } else { a };
    rows.iter().map(|&id| p.row(id)).reduce(longer)
}

/// The ratios of best times that GPUs can bring about where the calls are alike; none where they are not, or where not
/// enough is known.
pub(crate) fn range(sides: Both<&Prepared>, rows: Both<Option<&Row>>) -> Option<ExpectedRatio> {
    let (reference, target) = (rows.reference?, rows.target?);
    let spec = |row: &Row| row.efficiency.compute_spec.clone();
    let alike = reference.inputs.dims == target.inputs.dims
        && reference.inputs.types == target.inputs.types
        && spec(reference) == spec(target);
    let platforms = Both::of(sides, |p| &p.platform);
    ExpectedRatio::of_any_bound(spec(target).as_deref(), platforms).filter(|_| alike)
}

/// Whether the best times of two rows differ by more than the GPUs do though all that is recorded of the calls is the
/// same: then the work differs. Where the layout differs too, that is what the best times tell of.
pub(crate) fn is_other(sides: Both<&Prepared>, rows: &Both<Vec<RowId>>) -> bool {
    let rows =
        Both { reference: largest(sides.reference, &rows.reference), target: largest(sides.target, &rows.target) };
    let best = Both::of(rows, |row| row.and_then(|r| r.efficiency.roofline_time_us).unwrap_or(0.0));
    let (Some(reference), Some(target)) = (rows.reference, rows.target) else { return false };
    if best.reference <= 0.0 || best.target <= 0.0 || reference.inputs != target.inputs {
        return false;
    }
    let limits = &sides.target.thresholds;
    range(sides, rows).is_some_and(|range| {
        let ratio = best.target / best.reference;
        range.is_exceeded_by(ratio, limits) || range.inverse().is_exceeded_by(1.0 / ratio, limits)
    })
}

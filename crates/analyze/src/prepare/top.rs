//! The operations that take most time, and which rows they account for.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_perf::tables::ReportRows;
use jarvis_trace::{InOrder, StrId, Trace};

use super::category::category_of;
use super::copies::copy_us;
use crate::prepared::{BoundType, Row, TopOperation, Utilization};
use crate::thresholds::{Threshold, Thresholds};

/// For a top operation the microseconds of its kernels, by row.
type Owned = BTreeMap<usize, f64>;

/// The top operations; marks the rows they account for. Copies count for the rank, but are no part of the computing.
///
/// Rows and operations are matched by kernels and not by name: a launching leaf and the operation that models it have
/// different names.
pub(crate) fn top_operations(
    trace: &Trace,
    report: &ReportRows,
    rows: &mut [Row],
    utilization: &Utilization,
    thresholds: &Thresholds,
) -> Vec<TopOperation> {
    let most = thresholds.get(Threshold::TopOps) as usize;
    // The report lists most time first.
    let listed = &report.ops[..report.ops.len().min(most)];
    let owners = Owners::of(trace, report, rows, listed.len());
    let owned = owners.owned(trace, report);
    let floor = thresholds.get(Threshold::TopOpsMinPercent);
    for (at, own) in owned.iter().enumerate() {
        for (&i, &us) in own {
            let row = &mut rows[i];
            if us / 1e3 >= 0.5 * row.time_ms && row.percent_of_compute >= floor {
                row.in_top_ops = true;
                row.top_rank = row.top_rank.or(Some(at + 1));
            }
        }
    }
    let mut cumulative = 0.0;
    let mut out = Vec::with_capacity(listed.len());
    for (i, (op, own)) in listed.iter().zip(&owned).enumerate() {
        let (time_ms, copy_time_ms) = (op.direct_us / 1e3, owners.copied_us[i] / 1e3);
        let percent = utilization.percent_of_compute((time_ms - copy_time_ms).max(0.0));
        cumulative += percent;
        let report_category = op.categories.first().map_or("", |c| &**c);
        let own_rows: Vec<&Row> = by_time(own, rows);
        let rated = rating(own, rows);
        out.push(TopOperation {
            rank: i + 1,
            name: Arc::clone(&op.name),
            category: match &*own_rows {
                [] => Some(category_of(&op.name, report_category).0),
                // A call that launches kernels without operations, such as those of a captured graph, may have several.
                [first, ..] => (!first.name.contains("->") || is_of(&first.category, own, rows))
                    .then(|| Arc::clone(&first.category)),
            },
            time_ms,
            copy_time_ms,
            percent_of_compute: percent,
            cumulative_percent: cumulative,
            count: op.count,
            bound_type: rated.0,
            flops_per_byte: own_rows.first().and_then(|r| r.efficiency.flops_per_byte),
            efficiency_percent: rated.1,
            aliases: aliases(&op.name, &own_rows),
        });
    }
    out
}

/// Which of the listed operations launched a kernel. Nobody's is beyond the list's end.
struct Owners {
    by_event: Vec<u32>,
    /// By operation: time of the copies it launched.
    copied_us: Vec<f64>,
}

impl Owners {
    fn of(trace: &Trace, report: &ReportRows, rows: &[Row], listed: usize) -> Self {
        let names: Vec<Option<StrId>> = report.ops[..listed].iter().map(|op| trace.strings().find(&op.name)).collect();
        let mut by_event = vec![u32::MAX; trace.len()];
        for launcher in report.launchers.rows() {
            let name = Some(trace.name_id(launcher.event));
            if let Some(at) = names.iter().position(|n| *n == name) {
                for kernel in report.launchers.kernels(launcher) {
                    by_event[kernel.index()] = at as u32;
                }
            }
        }
        let mut copied_us = vec![0.0; listed];
        for (row, _) in report.unified.rows.iter().zip(rows).filter(|(_, row)| row.copied_ms > 0.0) {
            for &kernel in report.unified.calls_of(row).flat_map(|call| &call.kernels) {
                if let Some(sum) = copied_us.get_mut(by_event[kernel.index()] as usize) {
                    *sum += copy_us(trace, kernel).unwrap_or_default();
                }
            }
        }
        Self { by_event, copied_us }
    }

    /// What the operations launched, by row.
    fn owned(&self, trace: &Trace, report: &ReportRows) -> Vec<Owned> {
        let mut out = vec![Owned::new(); self.copied_us.len()];
        for (i, row) in report.unified.rows.iter().enumerate() {
            for &kernel in report.unified.calls_of(row).flat_map(|call| &call.kernels) {
                if let Some(own) = out.get_mut(self.by_event[kernel.index()] as usize) {
                    *own.entry(i).or_default() += trace.dur(kernel).unwrap_or_default().as_us();
                }
            }
        }
        out
    }
}

/// Part of a launcher's time that its category has.
const NEARLY_ALL: f64 = 0.9;

/// Whether nearly all of an operation's time is in rows of a category.
fn is_of(category: &str, own: &Owned, rows: &[Row]) -> bool {
    let in_category: f64 = own.iter().filter(|&(&i, _)| *rows[i].category == *category).map(|(_, us)| us).sum();
    in_category >= NEARLY_ALL * own.values().sum::<f64>()
}

/// Rows that an operation's kernels are in, most of its time first.
fn by_time<'r>(own: &Owned, rows: &'r [Row]) -> Vec<&'r Row> {
    let mut list: Vec<(usize, f64)> = own.iter().map(|(&i, &us)| (i, us)).collect();
    list.order_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    list.into_iter().map(|(i, _)| &rows[i]).collect()
}

/// What bounds the operation and how close it comes: best time over time, of the rows that have one.
fn rating(own: &Owned, rows: &[Row]) -> (Option<BoundType>, Option<f64>) {
    let rated: Vec<&Row> = by_time(own, rows).into_iter().filter(|r| r.efficiency.judged().is_some()).collect();
    let time: f64 = rated.iter().map(|r| r.time_ms).sum();
    let best: f64 = rated.iter().filter_map(|r| Some(r.efficiency.judged()? * r.time_ms)).sum();
    (rated.first().and_then(|r| r.efficiency.bound_type), (time > 0.0).then(|| best / time))
}

fn aliases(name: &str, rows: &[&Row]) -> Vec<Arc<str>> {
    let mut out: Vec<Arc<str>> = Vec::new();
    for row in rows {
        if &*row.name != name && !out.contains(&row.name) {
            out.push(Arc::clone(&row.name));
        }
    }
    out
}

//! From report and trace to [`Prepared`]: everything that analyzers see, worked out once.

pub mod args;
pub(crate) mod baseline;
mod beside;
pub mod category;
mod copies;
mod efficiency;
mod fallback;
pub mod kernel_names;
pub(crate) mod model_info;
pub mod place;
mod rows;
pub mod timing;
mod top;
pub mod tree_data;
pub mod warnings;

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_perf::platform::Platform;
use jarvis_perf::tables::Report;
use jarvis_trace::{EventKind, InOrder, Key, Summary, Trace};

use self::kernel_names::KernelNames;
use crate::prepared::{Category, Prepared, Row};
use crate::program::{Program, RowId};
use crate::thresholds::Thresholds;

/// How to prepare.
#[derive(Debug, Clone, Default)]
pub struct PrepareOptions {
    /// The limits in force.
    pub thresholds: Thresholds,
}

impl Prepared {
    /// Prepares the analysis of a trace. The report must be one of this trace, made with
    /// [`call_stack`](jarvis_perf::tables::ReportOptions::call_stack) so that its tree has Python frames.
    pub fn of(trace: &Trace, report: &Report, platform: &Platform, options: &PrepareOptions) -> Self {
        let program = Program::of(trace, &report.tree, &Summary::of(trace), &report.arg_lists);
        Self::on(program, trace, report, platform, options)
    }

    /// The same where the program has been read already.
    pub fn on(program: Program, trace: &Trace, report: &Report, platform: &Platform, options: &PrepareOptions) -> Self {
        let thresholds = options.thresholds.clone();
        let program = program.with_rows(&report.rows.unified);
        let utilization = timing::utilization(&report.rows.timeline);
        let kernels = report.rows.unified.rows.iter().flat_map(|r| r.kernels.kernels.iter());
        let kernel_names = KernelNames::of(kernels);
        let mut rows = rows::rows(trace, report, &program, platform, &thresholds, &kernel_names);
        for row in &mut rows {
            row.percent_of_compute = utilization.percent_of_compute(row.compute_ms());
            row.percent_of_total = utilization.percent_of_total(row.time_ms);
            (row.cov, row.high_variance) = timing::variance(row, &thresholds);
        }
        let categories = categories(&mut rows, &utilization, &thresholds);
        let top_operations = top::top_operations(trace, &report.rows, &mut rows, &utilization, &thresholds);
        let mean_tbs: Vec<Option<f64>> = report.rows.unified.rows.iter().map(|r| r.tb_per_s.mean()).collect();
        let peak_tbs = platform.mem_bw_gbps.value / 1e3;
        let baseline = baseline::baseline(&rows, &mean_tbs, peak_tbs, &thresholds);
        let kernel_floor_us = timing::kernel_floor_us(&rows, &thresholds);
        let model = model_info::model_info(&program, &rows, &categories);
        let devices = trace.facts().devices();
        let models = trace.models_at_work();
        let device = models.first();
        let (has_operations, has_shapes) = operations(trace);
        let mut prepared = Self {
            platform: platform.clone(),
            device_name: device.map(|d| d.name.clone()).filter(|name| !name.is_empty()),
            compute_units: device.and_then(|d| d.multiprocessors).or(platform.num_cus.map(i64::from)),
            devices: timing::devices(trace, &report.rows.devices, &utilization),
            utilization,
            rows,
            categories,
            top_operations,
            baseline,
            kernel_names,
            kernel_floor_us,
            program,
            has_operations,
            has_shapes,
            has_types: trace.records(EventKind::CpuOp, Key::InputType),
            has_strides: trace.records(EventKind::CpuOp, Key::InputStrides),
            record_shapes: has_shapes || trace.facts().option_on("record_shapes"),
            device_count: devices.len(),
            models_at_work: models.iter().map(|d| d.name.clone()).collect(),
            model,
            thresholds,
            losses: warnings::losses(&report.diagnostics),
            warnings: Vec::new(),
        };
        prepared.warnings = warnings::warnings(&prepared, report);
        prepared
    }
}

/// Whether any operation was recorded, and the shapes of any.
fn operations(trace: &Trace) -> (bool, bool) {
    let mut operations = trace.events().filter(|&e| trace.kind(e) == EventKind::CpuOp).peekable();
    (operations.peek().is_some(), operations.any(|e| trace.get(e, Key::InputDims).is_some()))
}

pub(crate) fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// Rows by category, most time first.
fn categories(rows: &mut [Row], utilization: &crate::prepared::Utilization, thresholds: &Thresholds) -> Vec<Category> {
    let mut by_key: BTreeMap<Arc<str>, Vec<RowId>> = BTreeMap::new();
    for row in rows.iter() {
        by_key.entry(Arc::clone(&row.category)).or_default().push(row.id);
    }
    let mut out = Vec::with_capacity(by_key.len());
    for (key, mut ids) in by_key {
        ids.order_by(|a, b| order(&rows[a.index()], &rows[b.index()]));
        let members = || ids.iter().map(|id| &rows[id.index()]);
        let time = timing::breakdown(members(), thresholds);
        let time_ms: f64 = members().map(Row::compute_ms).sum();
        let mut calls_by_name: BTreeMap<Arc<str>, (usize, f64)> = BTreeMap::new();
        for row in members() {
            let (calls, ms) = calls_by_name.entry(Arc::clone(&row.name)).or_default();
            *calls += row.count;
            *ms += row.time_ms;
        }
        let first = &rows[ids[0].index()];
        let (_, display, analyzer) = category::category_of(&first.name, &first.report_category);
        out.push(Category {
            display,
            analyzer,
            time_ms,
            percent_of_compute: utilization.percent_of_compute(time_ms),
            percent_of_total: utilization.percent_of_total(time_ms),
            operation_count: calls_by_name.values().map(|(calls, _)| calls).sum(),
            calls_by_name,
            time,
            key,
            rows: ids,
        });
    }
    for category in &out {
        // Where all is copied and nothing computed, shares are of the copies.
        let copied_ms: f64 = category.rows.iter().map(|id| rows[id.index()].time_ms).sum();
        for id in &category.rows {
            let row = &mut rows[id.index()];
            row.percent_of_category = if category.time_ms > 0.0 {
                percent(row.compute_ms(), category.time_ms)
            } else {
                percent(row.time_ms, copied_ms)
            };
        }
    }
    out.order_by(|a, b| b.time_ms.total_cmp(&a.time_ms).then_with(|| a.key.cmp(&b.key)));
    out
}

/// The one order of rows: most time first, then name, arguments, place in the report.
pub(crate) fn order(a: &Row, b: &Row) -> std::cmp::Ordering {
    b.time_ms
        .total_cmp(&a.time_ms)
        .then_with(|| a.name.cmp(&b.name))
        .then_with(|| a.args.cmp(&b.args))
        .then_with(|| a.id.cmp(&b.id))
}

#[cfg(test)]
mod tests;

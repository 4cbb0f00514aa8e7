//! The table of operations, one row for each operation with the same arguments: the rows of `unified_perf_summary`.

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::prepare::args;
use jarvis_analyze::prepared::{BoundType, Prepared, Row};
use jarvis_analyze::program::RowId;
use jarvis_analyze::rounding::{Ms, Percent, Ratio};
use jarvis_perf::roofline::Bound;
use jarvis_perf::tables::{RowModel, UnifiedRow};
use jarvis_trace::Trace;
use serde::Serialize;

use super::family::Family;
use super::source::Source;
use super::texts::{TextId, Texts};

/// Most rows a page holds; the CSV files have all.
const MOST_ROWS: usize = 1000;

/// A row.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Operation {
    pub(crate) name: TextId,
    pub(crate) args: TextId,
    pub(crate) category: TextId,
    pub(crate) family: u8,
    pub(crate) uid: u32,
    pub(crate) count: usize,
    /// Kernel time of all calls.
    pub(crate) ms: Ms,
    /// Of the traced window.
    pub(crate) percent: Percent,
    /// Percent of what the hardware could do.
    pub(crate) efficiency: Option<Percent>,
    /// Whether the efficiency cannot be.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) anomaly: bool,
    pub(crate) bound: Option<&'static str>,
    pub(crate) spec: Option<TextId>,
    /// Operations per byte.
    pub(crate) intensity: Option<Ratio>,
    pub(crate) tflops: Option<Ratio>,
    pub(crate) tbs: Option<Ratio>,
    /// The kernel with most time.
    pub(crate) kernel: Option<TextId>,
    /// Kernels of a call.
    pub(crate) kernels: usize,
    pub(crate) module: Option<TextId>,
    /// Rank of the finding that speaks of it.
    pub(crate) finding: Option<usize>,
}

/// The rows of a page.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Operations {
    /// Most time first.
    pub(crate) rows: Vec<Operation>,
    /// Rows left out.
    pub(crate) more_rows: usize,
    /// Their kernel time.
    pub(crate) more_ms: Ms,
}

impl Operations {
    pub(crate) fn of(source: &Source<'_>, trace: &Trace, texts: &mut Texts) -> Self {
        let all = &source.report.rows.unified.rows;
        let rows =
            all.iter().take(MOST_ROWS).enumerate().map(|(i, row)| operation(source, trace, texts, i, row)).collect();
        let rest = &all[all.len().min(MOST_ROWS)..];
        let more_ms = rest.iter().map(|r| r.kernel_us.sum / 1e3).sum();
        Self { rows, more_rows: rest.len(), more_ms: Ms(more_ms) }
    }

    /// Tells every row the finding that speaks of it.
    pub(crate) fn name_findings(&mut self, analysis: &Analysis) {
        for (at, row) in self.rows.iter_mut().enumerate() {
            row.finding = analysis.finding_of(RowId(at as u32)).map(|f| f.rank);
        }
    }
}

fn operation(source: &Source<'_>, trace: &Trace, texts: &mut Texts, at: usize, row: &UnifiedRow) -> Operation {
    match source.prepared.and_then(|prepared| Some((prepared, prepared.rows.get(at)?))) {
        Some((prepared, seen)) => prepared_row(prepared, texts, seen, row),
        None => plain_row(source, trace, texts, row),
    }
}

/// What the sheet itself says.
fn plain_row(source: &Source<'_>, trace: &Trace, texts: &mut Texts, row: &UnifiedRow) -> Operation {
    let model = row.model.as_ref();
    let report = source.report;
    let first = report.rows.unified.calls_of(row).next();
    let args = first.map(|call| args::render(&report.arg_lists.of(trace, call.event)));
    let ms = row.kernel_us.sum / 1e3;
    let total_ms = report.rows.timeline.total.0 / 1e3;
    Operation {
        name: texts.add(&row.identity.name),
        args: texts.add(&one_line(args.as_deref().unwrap_or_default())),
        category: texts.add(&row.identity.category),
        family: Family::of_category(&row.identity.category).number(),
        uid: row.ex_uid,
        count: row.calls.len(),
        ms: Ms(ms),
        percent: Percent(if total_ms > 0.0 { 100.0 * ms / total_ms } else { 0.0 }),
        efficiency: row.efficiency_percent().map(Percent),
        anomaly: false,
        bound: model.and_then(RowModel::best).map(|(_, bound)| match bound {
            Bound::Compute => "compute",
            Bound::Memory | Bound::MemoryBytesOnly => "memory",
        }),
        spec: model.and_then(|m| m.compute_spec.as_ref()).map(|s| texts.add(s)),
        intensity: model.and_then(|m| m.flops_per_byte).map(Ratio),
        tflops: row.tflops_per_s.mean().map(Ratio),
        tbs: row.tb_per_s.mean().map(Ratio),
        kernel: row.kernels.kernels.last().map(|k| texts.add(&k.name)),
        kernels: row.kernels.per_call,
        module: None,
        finding: None,
    }
}

/// What the analysis sees of it, which is more.
fn prepared_row(prepared: &Prepared, texts: &mut Texts, seen: &Row, row: &UnifiedRow) -> Operation {
    let e = &seen.efficiency;
    let display = prepared.category(&seen.category).map_or(&seen.category, |c| &c.display);
    let module: Vec<&str> = seen.module_path.iter().map(|m| &**m).collect();
    Operation {
        name: texts.add(&row.identity.name),
        args: texts.add(&one_line(&seen.args)),
        category: texts.add(display),
        family: Family::of_category(&seen.category).number(),
        uid: row.ex_uid,
        count: row.calls.len(),
        ms: Ms(seen.time_ms),
        percent: Percent(seen.percent_of_total),
        efficiency: e.efficiency_percent.map(Percent),
        anomaly: e.is_anomaly,
        bound: e.bound_type.map(|b| match b {
            BoundType::Compute => "compute",
            BoundType::Memory => "memory",
        }),
        spec: e.compute_spec.as_ref().map(|s| texts.add(s)),
        intensity: e.flops_per_byte.map(Ratio),
        tflops: e.tflops_achieved.map(Ratio),
        tbs: e.tb_s_achieved.map(Ratio),
        kernel: row.kernels.kernels.last().map(|k| texts.add(&k.name)),
        kernels: row.kernels.per_call,
        module: (!module.is_empty()).then(|| texts.add(&module.join(" › "))),
        finding: None,
    }
}

/// Arguments as they stand in a cell of Markdown, without its line breaks.
fn one_line(args: &str) -> String {
    args.replace(args::SEPARATOR, ", ")
}

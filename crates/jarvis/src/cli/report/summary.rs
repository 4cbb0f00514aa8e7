//! What `jarvis report` prints: the timeline, the operations that take longest, where the files are.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use jarvis_analyze::texts::counted;
use jarvis_perf::platform::{Basis, Platform};
use jarvis_perf::roofline::Bound;
use jarvis_perf::tables::{KernelRow, Report, RowModel, Sheet, UnifiedRow};
use jarvis_trace::timeline::Timeline;
use jarvis_trace::{Id, Ns, Trace, spelled};
use serde_json::{Value, json};

use super::Places;
use crate::cli::info::thousands;
use crate::cli::layout::cut;
use crate::cli::platforms::number;

/// Operations shown.
const TOP: usize = 10;
/// Sheet of all operations.
const UNIFIED: &str = "unified_perf_summary";
/// Characters of an operation's name with its shapes.
const NAME_WIDTH: usize = 60;

/// Everything the summary tells.
pub(super) struct View<'a> {
    pub(super) path: &'a Path,
    pub(super) trace: &'a Trace,
    pub(super) report: &'a Report,
    /// How close a row comes to the roofline.
    pub(super) efficiency: fn(&UnifiedRow) -> Option<f64>,
    /// What each GPU did by itself.
    pub(super) gpus: &'a [(Id, Timeline<Ns>)],
    pub(super) sheets: &'a [Sheet<'a>],
    pub(super) platform: Option<&'a Platform>,
    pub(super) places: &'a Places,
    pub(super) files: &'a [PathBuf],
}

impl View<'_> {
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        let events = counted(thousands(self.trace.len() as u64), "event");
        let _ = writeln!(out, "{}: {events}", self.path.display());
        let _ = writeln!(out, "{}", self.measured_against());
        out.push('\n');
        self.timeline(&mut out);
        out.push('\n');
        self.operations(&mut out);
        self.files(&mut out);
        out
    }

    fn measured_against(&self) -> String {
        let Some(p) = self.platform else { return "no platform: no efficiencies".to_owned() };
        let rate = p.peak("matrix_bf16").map_or(String::new(), |f| format!(", {} TFLOPS bf16", number(f.value)));
        let basis = match p.basis {
            Some(Basis::Achievable) => " achievable",
            Some(Basis::Theoretical) => " theoretical",
            None => "",
        };
        format!("efficiencies against {}: {} TB/s{rate}{basis}", spelled(&p.name), number(p.mem_bw_gbps.value / 1e3))
    }

    fn timeline(&self, out: &mut String) {
        let _ = writeln!(out, "{:<24}{:>12}{:>9}", "GPU timeline", "ms", "share");
        for row in self.report.rows.timeline.rows() {
            let _ = writeln!(out, "  {:<22}{:>12.3}{:>8.1}%", row.kind, row.ms, row.percent);
        }
        if self.gpus.len() > 1 {
            self.each_gpu(out);
        }
    }

    /// Shares of one timeline hide that one GPU waits while another works.
    fn each_gpu(&self, out: &mut String) {
        let total_us = self.report.rows.timeline.total.0;
        let _ = writeln!(out, "of that, {} GPUs by themselves", self.gpus.len());
        for (id, gpu) in self.gpus.iter().take(TOP) {
            let percent = if total_us > 0.0 { 1e5 * gpu.busy.as_ms() / total_us } else { 0.0 };
            let name = format!("GPU {} busy", spelled(&self.trace.id_text(*id)));
            let _ = writeln!(out, "  {name:<22}{:>12.3}{percent:>8.1}%", gpu.busy.as_ms());
        }
        if self.gpus.len() > TOP {
            let _ = writeln!(out, "  and {} more (--json lists all)", self.gpus.len() - TOP);
        }
    }

    /// Operations of the sheet that has them all, and how many more it has than are shown.
    fn top(&self) -> (&[UnifiedRow], usize) {
        let rows = &self.report.rows.unified.rows;
        let listed = self.sheets.iter().find(|sheet| sheet.name == UNIFIED).map_or(rows.len(), Sheet::rows);
        let shown = listed.min(TOP).min(rows.len());
        (&rows[..shown], listed - shown)
    }

    fn operations(&self, out: &mut String) {
        let rows = &self.report.rows.unified.rows;
        if rows.is_empty() {
            kernels(&self.report.rows.kernels, out);
            return;
        }
        let _ = writeln!(
            out,
            "{:<NAME_WIDTH$}  {:>7}{:>11}{:>8}{:>12}  bound by",
            "operations by GPU time", "calls", "ms", "share", "efficiency"
        );
        let (rows, more) = self.top();
        for row in rows {
            let efficiency = (self.efficiency)(row).map_or("-".to_owned(), |pct| format!("{pct:.1}%"));
            let ms = row.kernel_us.sum / 1e3;
            let share = row.percent.0;
            let _ = writeln!(
                out,
                "  {:<width$}  {:>7}{ms:>11.3}{share:>7.1}%{efficiency:>12}  {}",
                label(row),
                thousands(row.calls.len() as u64),
                bound(row),
                width = NAME_WIDTH - 2
            );
        }
        if more > 0 {
            let _ = writeln!(out, "  {more} more in {UNIFIED}");
        }
        let failures = &self.report.rows.model_failures;
        if let Some(first) = failures.first() {
            let more = if failures.len() > 1 {
                format!(", and {} more (--json lists all)", failures.len() - 1)
            } else {
                String::new()
            };
            let _ = writeln!(out, "  no numbers for {}: {}{more}", spelled(&first.op), spelled(&first.reason));
        }
    }

    fn files(&self, out: &mut String) {
        if self.files.is_empty() {
            return;
        }
        out.push_str("\nwritten\n");
        let sheets = self.sheets.len();
        if let Some(path) = &self.places.page {
            let _ = writeln!(out, "  {}: open it in a browser", path.display());
        }
        if let Some(path) = &self.places.workbook {
            let _ = writeln!(out, "  {}: {}", path.display(), counted(sheets, "sheet"));
        }
        if let Some(folder) = &self.places.csv_folder {
            let _ = writeln!(out, "  {}: {}", folder.join("").display(), counted(sheets, "file"));
        }
    }

    pub(super) fn json(&self) -> Value {
        let rows = &self.report.rows;
        let platform = self.platform.map(|p| {
            json!({
                "name": p.name, "basis": p.basis.map(Basis::as_str), "mem_bw_gbps": p.mem_bw_gbps.value,
                "matrix_bf16_tflops": p.peak("matrix_bf16").map(|f| f.value),
            })
        });
        let timeline: Vec<Value> = rows
            .timeline
            .rows()
            .iter()
            .map(|row| json!({"type": row.kind, "ms": row.ms, "percent": row.percent}))
            .collect();
        let sheet = |s: &Sheet<'_>| json!({"name": s.name, "rows": s.rows(), "columns": s.heads().len()});
        let mut out = json!({
            "schema": "jarvis.report/1",
            "trace": self.path.to_string_lossy(),
            "events": self.trace.len(),
            "platform": platform,
            "gpu_timeline": timeline,
            "operations": self.top().0.iter().map(|row| self.operation(row)).collect::<Vec<_>>(),
            "sheets": self.sheets.iter().map(sheet).collect::<Vec<_>>(),
            "page": self.places.page.as_ref().map(|p| p.to_string_lossy()),
            "workbook": self.places.workbook.as_ref().map(|p| p.to_string_lossy()),
            "csv_folder": self.places.csv_folder.as_ref().map(|p| p.to_string_lossy()),
            "files": self.files.iter().map(|p| p.to_string_lossy()).collect::<Vec<_>>(),
            "unlinked_gpu_events": {"count": rows.unlinked.0, "ms": rows.unlinked.1 / 1e3},
            "models_without_numbers": rows.model_failures.iter().map(|f| json!({
                "operation": &*f.op, "reason": &*f.reason, "calls": f.calls, "example_uid": f.example,
            })).collect::<Vec<_>>(),
        });
        if !self.gpus.is_empty() {
            let id = |id: Id| match id {
                Id::Null => Value::Null,
                Id::Int(i) => i.into(),
                Id::Text(t) => self.trace.text(t).into(),
            };
            let gpu = |(device, t): &(Id, Timeline<Ns>)| {
                let (busy_ms, computation_ms) = (t.busy.as_ms(), t.computation.as_ms());
                json!({"device": id(*device), "busy_ms": busy_ms, "computation_ms": computation_ms})
            };
            out["gpus"] = self.gpus.iter().map(gpu).collect();
        }
        out
    }

    fn operation(&self, row: &UnifiedRow) -> Value {
        let model = row.model.as_ref();
        json!({
            "name": &*row.identity.name, "category": &*row.identity.category, "uid": row.ex_uid, "calls": row.calls.len(),
            "input_dims": row.identity.args.dims.as_deref(), "input_types": row.identity.args.types.as_deref(),
            "gpu_ms": row.kernel_us.sum / 1e3, "percent": row.percent.0,
            "efficiency_percent": (self.efficiency)(row), "bound": model.and_then(RowModel::best).map(|(_, b)| b.as_str()),
            "model_source": model.and_then(|m| m.source).map(jarvis_perf::ops::ModelSource::as_str),
        })
    }
}

/// Without operations the kernels tell.
fn kernels(rows: &[KernelRow], out: &mut String) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "{:<NAME_WIDTH$}  {:>7}{:>11}{:>8}", "kernels by GPU time", "count", "ms", "share");
    for row in rows.iter().take(TOP) {
        let (name, count) = (cut(&row.name, NAME_WIDTH - 2), thousands(row.us.count as u64));
        let (ms, share) = (row.us.sum / 1e3, row.percent_of_kernels);
        let _ = writeln!(out, "  {name:<width$}  {count:>7}{ms:>11.3}{share:>7.1}%", width = NAME_WIDTH - 2);
    }
}

/// Name and shapes, as much as fits.
fn label(row: &UnifiedRow) -> String {
    let dims = row.identity.args.dims.as_deref().unwrap_or("");
    cut(&format!("{} {dims}", row.identity.name), NAME_WIDTH - 2)
}

fn bound(row: &UnifiedRow) -> &'static str {
    match row.model.as_ref().and_then(RowModel::best) {
        Some((_, Bound::Compute)) => "compute",
        Some((_, Bound::Memory)) => "memory",
        Some((_, Bound::MemoryBytesOnly)) => "memory (bytes only)",
        None => "-",
    }
}

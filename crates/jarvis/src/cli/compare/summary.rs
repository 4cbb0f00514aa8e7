//! What `jarvis compare` prints: the timeline of all reports, the operations that changed most, where the files are.

use std::fmt::Write as _;
use std::path::PathBuf;

use jarvis_analyze::compare::reports::Comparison;
use jarvis_analyze::texts::counted;
use jarvis_perf::tables::{Cell, Table};
use jarvis_trace::InOrder;
use serde_json::{Value, json};

use super::Places;
use crate::cli::layout::cut;

/// Operations shown.
const TOP: usize = 10;
/// Characters of a name.
const NAME_WIDTH: usize = 44;
/// Variants shown side by side.
const VARIANTS: usize = 3;

/// Everything the summary tells.
pub(super) struct View<'a> {
    pub(super) tags: &'a [String],
    pub(super) paths: &'a [PathBuf],
    pub(super) comparison: &'a Comparison,
    pub(super) places: &'a Places,
    pub(super) files: &'a [PathBuf],
}

/// A line of a sheet: a name, its value in the baseline and in each variant.
struct Line {
    name: String,
    values: Vec<Option<f64>>,
}

impl Line {
    /// The largest change of any variant.
    fn change(&self) -> f64 {
        let base = self.values.first().copied().flatten().unwrap_or(0.0);
        self.values.iter().skip(1).map(|v| (v.unwrap_or(0.0) - base).abs()).fold(0.0, f64::max)
    }
}

fn number(cell: Option<&Cell>) -> Option<f64> {
    match cell {
        Some(Cell::Int(i)) => Some(*i as f64),
        Some(Cell::Float(x)) => Some(*x),
        _ => None,
    }
}

impl View<'_> {
    fn table(&self, name: &str) -> Option<&Table> {
        self.comparison.tables.iter().find(|t| t.name == name)
    }

    fn lines(&self, sheet: &str, key: &str, metric: &str) -> Vec<Line> {
        let Some(table) = self.table(sheet) else { return Vec::new() };
        let Some(keys) = table.column(key) else { return Vec::new() };
        let columns: Vec<_> = self.tags.iter().map(|tag| table.column(&format!("{tag}::{metric}"))).collect();
        let names = keys.texts();
        let line = |row: usize| Line {
            name: names[row].to_string(),
            values: columns.iter().map(|c| number(c.and_then(|c| c.cells.get(row)))).collect(),
        };
        (0..table.rows()).map(line).collect()
    }

    /// The operations with the largest changes, in milliseconds; kernels where there are no operations.
    fn changes(&self) -> (&'static str, Vec<Line>) {
        let mut found = ("operation", self.lines("ops_summary", "name", "total_direct_kernel_time_ms"));
        if found.1.is_empty() {
            let mut kernels = self.lines("kernel_summary", "Kernel name", "Kernel duration (µs)_sum");
            for value in kernels.iter_mut().flat_map(|l| &mut l.values).flatten() {
                *value /= 1e3;
            }
            kernels.extend(self.lines("kernel_summary", "name", "Total Kernel Time (ms)"));
            found = ("kernel", kernels);
        }
        found.1.order_by(|a, b| b.change().total_cmp(&a.change()).then_with(|| a.name.cmp(&b.name)));
        found
    }

    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for (at, (tag, path)) in self.tags.iter().zip(self.paths).enumerate() {
            let role = if at == 0 { "baseline" } else { "variant" };
            let _ = writeln!(out, "{role:<9} {tag}: {}", path.display());
        }
        let timeline = self.lines("gpu_timeline", "type", "time ms");
        self.block(&mut out, "GPU timeline, ms", &timeline);
        let (kind, changes) = self.changes();
        let compared = !changes.is_empty();
        let shown: Vec<Line> = changes.into_iter().filter(|l| l.change() > 0.0).collect();
        let title = format!("largest changes by {kind}, ms");
        self.block(&mut out, &title, &shown[..shown.len().min(TOP)]);
        if shown.len() > TOP {
            let _ = writeln!(out, "  {} more", shown.len() - TOP);
        } else if shown.is_empty() && compared {
            out.push_str("\nno difference in the time of any ");
            let _ = writeln!(out, "{kind}");
        }
        self.parts(&mut out);
        if !self.files.is_empty() {
            out.push_str("\nwritten\n");
            let sheets = self.comparison.tables.len();
            if let Some(path) = &self.places.workbook {
                let _ = writeln!(out, "  {}: {}", path.display(), counted(sheets, "sheet"));
            }
            if let Some(folder) = &self.places.csv_folder {
                let _ = writeln!(out, "  {}: {}", folder.join("").display(), counted(sheets, "file"));
            }
        }
        out
    }

    fn block(&self, out: &mut String, title: &str, lines: &[Line]) {
        if lines.is_empty() {
            return;
        }
        let shown = self.tags.len().min(VARIANTS + 1);
        let _ = write!(out, "\n{title:<NAME_WIDTH$}");
        for (at, tag) in self.tags[..shown].iter().enumerate() {
            let _ = write!(out, "{:>14}", cut(tag, 13));
            if at > 0 {
                let _ = write!(out, "{:>10}", "change");
            }
        }
        out.push('\n');
        for line in lines {
            let _ = write!(out, "  {:<width$}", cut(&line.name, NAME_WIDTH - 3), width = NAME_WIDTH - 2);
            let base = line.values.first().copied().flatten();
            for (at, value) in line.values[..shown].iter().enumerate() {
                let text = value.map_or("-".to_owned(), |v| format!("{v:.3}"));
                let _ = write!(out, "{text:>14}");
                if at > 0 {
                    let change = match (base, value) {
                        (Some(b), Some(v)) if b != 0.0 => format!("{:+.1}%", (v - b) / b * 100.0),
                        _ => "-".to_owned(),
                    };
                    let _ = write!(out, "{change:>10}");
                }
            }
            out.push('\n');
        }
        if self.tags.len() > shown {
            let _ = writeln!(out, "  {} more reports in the files", self.tags.len() - shown);
        }
    }

    /// How many rows of operations with their arguments both reports have.
    fn parts(&self, out: &mut String) {
        for tag in &self.tags[1..] {
            // Parts without rows are left out, so any of them says that the sheet is there.
            let parts = |sheet: &str| {
                let rows = |word: &str| self.table(&format!("{sheet}_{word}_{tag}")).map_or(0, Table::rows);
                [rows("intersect"), rows("only_baseline"), rows("only_variant")]
            };
            let sheets = ["unified_perf_summary", "ops_unique_args", "ops_all"];
            let first = sheets.map(parts).into_iter().find(|rows| rows.iter().any(|n| *n > 0));
            if let Some([both, base, variant]) = first {
                let _ = writeln!(
                    out,
                    "\noperations by arguments: {both} in both, {base} only in {}, {variant} only in {tag}",
                    self.tags[0]
                );
            }
        }
    }

    pub(super) fn json(&self) -> Value {
        let lines = |lines: &[Line], key: &str| -> Vec<Value> {
            let line = |l: &Line| {
                let values: serde_json::Map<String, Value> =
                    self.tags.iter().cloned().zip(l.values.iter().map(|v| Value::from(*v))).collect();
                json!({key: l.name, "ms": values})
            };
            lines.iter().map(line).collect()
        };
        let (kind, changes) = self.changes();
        let sheet = |t: &Table| json!({"name": t.name, "rows": t.rows(), "columns": t.columns.len()});
        json!({
            "schema": "jarvis.compare/1",
            "reports": self.tags.iter().zip(self.paths).map(|(tag, path)| json!({"name": tag, "path": path.to_string_lossy()})).collect::<Vec<_>>(),
            "gpu_timeline": lines(&self.lines("gpu_timeline", "type", "time ms"), "type"),
            "largest_changes": {"by": kind, "rows": lines(&changes[..changes.len().min(TOP)], "name")},
            "sheets": self.comparison.tables.iter().map(sheet).collect::<Vec<_>>(),
            "notes": self.comparison.notes,
            "workbook": self.places.workbook.as_ref().map(|p| p.to_string_lossy()),
            "csv_folder": self.places.csv_folder.as_ref().map(|p| p.to_string_lossy()),
            "files": self.files.iter().map(|p| p.to_string_lossy()).collect::<Vec<_>>(),
        })
    }
}

//! Steps 1 and 2: what was read, with which peaks, and the performance report made of it.

use jarvis_analyze::metrics::Peaks;

use super::capped;
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::words::{cell, counted, figure, options, pct};

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(3, "Step 1: Identify Traces & Setup"), Block::facts(setup(run))];
    blocks.extend(peaks(run));
    blocks.push(Block::heading(3, "Step 2: Generate Reports"));
    blocks.push(Block::paragraph(coverage(run)));
    let mut sheets = Table::new(&["Sheet", ">Rows"]);
    for sheet in run.sheets {
        sheets.row([Line::code(&sheet.name), cell(sheet.rows().to_string())]);
    }
    blocks.extend(capped(sheets, 60, "perf_report_csvs/"));
    blocks
}

fn setup(run: &Run<'_>) -> Vec<(&'static str, Line)> {
    let p = &run.analysis.prepared;
    let label = |l: &Option<String>| l.as_deref().map_or_else(|| cell("not given"), Line::code);
    let device = p.device_name.as_deref().map_or_else(|| cell("not recorded"), Line::code);
    let units = p.compute_units.map(|n| format!(", {n} compute units")).unwrap_or_default();
    let events: u64 = run.summary.categories.iter().map(|c| c.2).sum();
    let (shaped, ops) = run.summary.shaped_ops;
    vec![
        ("Trace", Line::code(&run.labels.trace_path)),
        ("Device of the trace", device.and_prose(&units)),
        ("GPUs seen by the process", cell(p.device_count.to_string())),
        ("Platform", cell(&*p.platform.name)),
        ("Cluster", label(&run.labels.cluster)),
        ("Container", label(&run.labels.container)),
        ("Model name given", label(&run.labels.model_name)),
        ("Options", options(&run.labels.flags)),
        ("Events", cell(format!("{events}, of them {}", counted(ops as usize, "host operation")))),
        ("Operations with shapes", cell(format!("{shaped} of {ops}"))),
        ("Python frames", cell(run.summary.python_frames.to_string())),
        ("Profiler steps", cell(run.summary.steps.len().to_string())),
        ("GPU streams", cell(run.summary.streams.len().to_string())),
    ]
}

fn peaks(run: &Run<'_>) -> Vec<Block> {
    let p = &run.analysis.prepared;
    let peaks = Peaks::of(p);
    let mut table = Table::new(&["Peak", ">Value", "Unit", "Source"]);
    table.row([
        cell("memory bandwidth"),
        cell(figure(peaks.peak_hbm_bw_tbs)),
        cell("TB/s"),
        cell(p.platform.mem_bw_gbps.source.as_str()),
    ]);
    for (spec, value) in &peaks.max_achievable_tflops {
        let source = peaks.peak_source.get(spec).copied().unwrap_or("-");
        table.row([Line::code(spec), cell(figure(*value)), cell("TFLOPS/s"), cell(source.replace('_', " "))]);
    }
    let mut blocks = vec![Block::Table(table)];
    blocks.extend(p.platform.notes.iter().map(|n| Block::paragraph(n.as_str())));
    blocks
}

/// How much of the computation a model covers.
fn coverage(run: &Run<'_>) -> String {
    let p = &run.analysis.prepared;
    let percent = |modelled: bool| -> f64 {
        let rows = p.rows.iter().filter(|r| r.efficiency.efficiency_percent.is_some() == modelled);
        rows.map(|r| r.percent_of_compute).sum()
    };
    let (known, unknown) = (percent(true), percent(false));
    format!(
        "Performance models cover {}% of compute time. The report is `perf_report.xlsx`, each sheet also stands in \
         `perf_report_csvs/`.",
        pct(share(known, unknown))
    )
}

/// The first as a share of all in percent. Kernels that run side by side are longer in all than the time in which
/// something is computed; those of no operation make all of it longer than the two.
fn share(known: f64, unknown: f64) -> f64 {
    100.0 * known / (known + unknown).max(100.0)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn models_cover_no_more_than_everything() {
        for ((known, unknown), covered) in [((60.0, 30.0), 60.0), ((120.0, 0.0), 100.0), ((120.0, 40.0), 75.0)] {
            assert!((share(known, unknown) - covered).abs() < 1e-9, "{known} and {unknown}");
        }
    }
}

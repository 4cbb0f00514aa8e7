//! The performance report without files: the slowest calls against their roofline, and every table by name.
//!
//! `cargo run --release --example tables -- trace.json.gz`

use std::error::Error;
use std::io::Write;
use std::path::Path;

use jarvis::perf::platform::Platform;
use jarvis::perf::tables::{ReportOptions, UnifiedRow, build_report};
use jarvis::trace::{ReadOptions, Trace};

/// Does it; the text goes to `out`.
pub(crate) fn run(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let trace = Trace::open(path, &ReadOptions::default())?;
    let options = ReportOptions { platform: Some(Platform::find("H200")?.clone()), ..ReportOptions::default() };
    let report = build_report(&trace, &options)?;
    let mut rows: Vec<&UnifiedRow> = report.rows.unified.rows.iter().collect();
    rows.sort_by(|a, b| b.kernel_us.sum.total_cmp(&a.kernel_us.sum));
    for row in rows.iter().take(5) {
        let roofline = row.pct_roofline.mean().map_or("  -".to_owned(), |percent| format!("{percent:3.0}"));
        writeln!(out, "{:10.1} µs  {roofline}% of the roofline  {}", row.kernel_us.sum, row.identity.name)?;
    }
    for table in &report.tables() {
        writeln!(out, "{}: {} rows, {} columns", table.name, table.rows(), table.columns.len())?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: tables TRACE")?;
    run(Path::new(&path), &mut std::io::stdout())
}

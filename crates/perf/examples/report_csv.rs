//! Writes the sheets of a trace as CSV files: `report_csv TRACE OUTDIR [--parity] [--arch FILE]`, to compare them with
//! others.

use std::error::Error;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, Table, build_report};
use jarvis_trace::{Fidelity, ReadOptions, Trace};

fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn csv(table: &Table) -> String {
    let line = |fields: Vec<String>| fields.join(",") + "\n";
    let columns: Vec<_> = table.columns.iter().map(jarvis_perf::tables::Column::texts).collect();
    let mut out = line(table.columns.iter().map(|c| field(&c.header)).collect());
    for row in 0..table.rows() {
        out += &line(columns.iter().map(|c| field(&c[row])).collect());
    }
    out
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = ReportOptions::default();
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--parity" => options.fidelity = Fidelity::Reference,
            "--arch" => {
                let file = args.next().ok_or("--arch needs a file")?;
                options.platform = Some(Platform::from_arch_json(&fs::read_to_string(file)?)?);
            }
            "--overlap" => options.include_overlap = true,
            "--recompute" => options.detect_recompute = true,
            "--call-stack" => options.call_stack = true,
            "--num-kernels" => options.group_by_num_kernels = true,
            "--first-occurrence" => options.first_occurrence = true,
            _ => paths.push(arg.into()),
        }
    }
    let [trace, out] = paths.as_slice() else {
        return Err("usage: report_csv TRACE OUTDIR [--parity] [--arch FILE]".into());
    };
    let trace = Trace::open(trace, &ReadOptions::default())?;
    let start = std::time::Instant::now();
    let report = build_report(&trace, &options)?;
    let took = start.elapsed();
    fs::create_dir_all(out)?;
    for table in report.tables() {
        fs::write(out.join(format!("{}.csv", table.name)), csv(&table))?;
    }
    writeln!(std::io::stderr(), "{} events, {} sheets, {took:.1?}", trace.len(), report.tables().len())?;
    Ok(())
}

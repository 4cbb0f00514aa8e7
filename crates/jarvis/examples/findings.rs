//! The whole analysis in memory: what to change, what it brings, and the files that would be written.
//!
//! `cargo run --release --example findings -- trace.json.gz`

use std::error::Error;
use std::io::Write;
use std::path::Path;

use jarvis::analyze::thresholds::Thresholds;
use jarvis::perf::platform::Platform;
use jarvis::pipeline::{AnalyzeOptions, ReplayChoice, analyze};
use jarvis::report::RunLabels;
use jarvis::trace::{ReadOptions, Trace};

/// Does it; the text goes to `out`.
pub(crate) fn run(path: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let trace = Trace::open(path, &ReadOptions::default())?;
    let options = AnalyzeOptions {
        platform: Platform::find("H200")?.clone(),
        labels: RunLabels { trace_path: path.display().to_string(), ..RunLabels::default() },
        extension: None,
        thresholds: Thresholds::default(),
        replay: ReplayChoice::None,
        emit: Vec::new(),
    };
    let analyzed = analyze(trace, &options)?;
    for finding in &analyzed.analysis.findings {
        let saved = &finding.impact.saved_ms;
        writeln!(out, "{}. {}: saves {:.3} to {:.3} ms", finding.rank, finding.title, saved.low, saved.high)?;
    }
    let files = analyzed.files.to_vec()?;
    let bytes: usize = files.iter().map(|file| file.bytes.len()).sum();
    writeln!(out, "{} files, {bytes} bytes", files.len())?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: findings TRACE")?;
    run(Path::new(&path), &mut std::io::stdout())
}

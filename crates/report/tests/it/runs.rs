//! Analyses of traces, as `jarvis analyze` makes them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jarvis_analyze::analysis::{Analysis, AnalysisOptions};
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Report, ReportOptions, build_report};
use jarvis_report::render::csv::{self, Texts};
use jarvis_report::{OutputFile, ReplayEntry, Run, RunLabels, data};
use jarvis_trace::{ReadOptions, Summary, Trace};

/// Everything a [`Run`] borrows.
pub(crate) struct Analysed {
    trace: Trace,
    report: Report,
    analysis: Analysis,
    summary: Summary,
    labels: RunLabels,
    pub(crate) replay: Vec<ReplayEntry>,
}

impl Analysed {
    /// `None` if the trace has no GPU events, hence no report.
    pub(crate) fn of(path: &Path, platform: &str) -> Option<Self> {
        let trace = Trace::open(path, &ReadOptions::default()).unwrap();
        let platform = Platform::find(platform).unwrap();
        let options = ReportOptions { call_stack: true, platform: Some(platform.clone()), ..ReportOptions::default() };
        let report = build_report(&trace, &options).ok()?;
        let analysis = Analysis::of(&trace, &report, platform, &AnalysisOptions::default());
        let summary = Summary::of(&trace);
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        let labels = RunLabels { trace_path: file, ..RunLabels::default() };
        Some(Self { trace, report, analysis, summary, labels, replay: Vec::new() })
    }

    pub(crate) fn run(&self) -> Run<'_> {
        Run {
            analysis: &self.analysis,
            report: &self.report,
            summary: &self.summary,
            trace: &self.trace,
            labels: &self.labels,
            replay: &self.replay,
        }
    }

    /// The machine files by name.
    pub(crate) fn data(&self) -> BTreeMap<String, Vec<u8>> {
        named(data::files(&self.run()))
    }

    /// The sheets of the performance report by name.
    pub(crate) fn sheets(&self) -> BTreeMap<String, Vec<u8>> {
        named(csv::files(&self.report.tables, "perf_report_csvs", Texts::Guarded))
    }
}

fn named(files: Vec<OutputFile>) -> BTreeMap<String, Vec<u8>> {
    let count = files.len();
    let named: BTreeMap<String, Vec<u8>> =
        files.into_iter().map(|f| (f.path.to_str().unwrap().replace('\\', "/"), f.bytes)).collect();
    assert_eq!(named.len(), count, "a file stands twice");
    named
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A trace of the project.
pub(crate) fn fixture(name: &str) -> PathBuf {
    root().join("fixtures").join(name)
}

/// All traces of the project and of the folder beside it, each with the platform it was recorded on.
pub(crate) fn all_traces() -> Vec<(PathBuf, &'static str)> {
    let beside = ["../shared/traces", "../../shared/traces"].map(|p| root().join(p));
    let shared = beside.iter().find(|p| p.exists()).unwrap_or(&beside[0]).clone();
    let mut all = Vec::new();
    for (base, folder, platform) in [
        (root().join("fixtures"), "h200", "H200"),
        (root().join("fixtures"), "handmade", "MI300X"),
        (shared.clone(), "h200", "H200"),
        (shared.clone(), "h100", "H100"),
        (shared.clone(), "mi300", "MI300X"),
        (shared.clone(), "mi210", "MI210"),
        (shared, "torch_compile_triton", "MI300X"),
    ] {
        let Ok(entries) = std::fs::read_dir(base.join(folder)) else { continue };
        let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        let is_trace = |p: &PathBuf| {
            let name = p.file_name().unwrap().to_string_lossy();
            name.ends_with(".json.gz") || (folder == "handmade" && name.ends_with(".json"))
        };
        files.retain(is_trace);
        files.sort();
        all.extend(files.into_iter().map(|p| (p, platform)));
    }
    assert!(!all.is_empty());
    all
}

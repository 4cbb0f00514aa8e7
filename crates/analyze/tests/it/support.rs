//! Finding traces and analysing them.

use std::path::{Path, PathBuf};

use jarvis_analyze::analysis::{Analysis, AnalysisOptions};
use jarvis_analyze::finding::Finding;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{ReadOptions, Trace};

/// Folders of traces with the platform they were recorded on.
const FOLDERS: &[(&str, &str)] = &[
    ("h200", "H200"),
    ("h100", "H100"),
    ("mi300", "MI300X"),
    ("mi210", "MI210"),
    ("torch_compile_triton", "MI300X"),
    ("handmade", "MI300X"),
];

/// The whole analysis of a trace; `None` if it has no GPU events.
pub(crate) fn analyse(path: &Path, platform: &str) -> Option<Analysis> {
    let trace = Trace::open(path, &ReadOptions::default()).unwrap();
    let platform = Platform::find(platform).unwrap();
    let options = ReportOptions { call_stack: true, platform: Some(platform.clone()), ..ReportOptions::default() };
    let report = build_report(&trace, &options).ok()?;
    Some(Analysis::of(&trace, &report, platform, &AnalysisOptions::default()))
}

/// The finding of this pattern.
pub(crate) fn finding<'a>(analysis: &'a Analysis, pattern: &str) -> &'a Finding {
    let found = analysis.findings.iter().find(|f| f.pattern.as_str() == pattern);
    found.unwrap_or_else(|| panic!("no {pattern} among {:?}", names(analysis)))
}

/// Patterns of all findings, the first to act on first.
pub(crate) fn names(analysis: &Analysis) -> Vec<&str> {
    analysis.findings.iter().map(|f| f.pattern.as_str()).collect()
}

/// Traces that the project carries.
pub(crate) fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// Where traces that the project does not carry may stand.
pub(crate) fn shared() -> Option<PathBuf> {
    let up = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = up.map(|folder| folder.join("shared/traces")).find(|folder| folder.is_dir());
    if found.is_none() {
        println!("skipped: there is no folder shared/traces with more traces");
    }
    found
}

/// A trace of the project, else one of the folder beside it; `None`, with a word, if neither has it.
pub(crate) fn trace(folder: &str, name: &str) -> Option<PathBuf> {
    let file = format!("{folder}/{name}.json.gz");
    let found = [Some(fixtures()), shared()].into_iter().flatten().map(|f| f.join(&file)).find(|p| p.exists());
    if found.is_none() {
        println!("skipped: {file} is not here");
    }
    found
}

/// All traces of both places with the platform they were recorded on.
pub(crate) fn all_traces() -> Vec<(PathBuf, &'static str)> {
    let mut out = Vec::new();
    for base in [Some(fixtures()), shared()].into_iter().flatten() {
        for &(folder, platform) in FOLDERS {
            out.extend(traces_in(&base.join(folder)).into_iter().map(|p| (p, platform)));
        }
    }
    out
}

/// Trace files of a folder and below, in order.
pub(crate) fn traces_in(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(traces_in(&path));
        } else if path.to_string_lossy().ends_with(".json.gz") {
            found.push(path);
        }
    }
    found.sort();
    found
}

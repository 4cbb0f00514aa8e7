//! Finding traces and analysing them.

use std::path::{Path, PathBuf};

use jarvis_analyze::finding::Finding;
use jarvis_analyze::metrics::Scope;
use jarvis_analyze::prepare::PrepareOptions;
use jarvis_analyze::prepared::Prepared;
use jarvis_analyze::rules::{CategoryOutcome, Claims, analyze_categories, compute_findings};
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportOptions, build_report};
use jarvis_trace::{ReadOptions, Trace};

/// An analysis of the compute tier, without patterns over several operations.
pub(crate) struct Analysis {
    pub(crate) prepared: Prepared,
    pub(crate) outcomes: Vec<CategoryOutcome>,
    pub(crate) findings: Vec<Finding>,
}

impl Analysis {
    pub(crate) fn of(path: &Path, platform: &str) -> Option<Self> {
        let trace = Trace::open(path, &ReadOptions::default()).unwrap();
        let platform = Platform::find(platform).unwrap();
        let options = ReportOptions { call_stack: true, platform: Some(platform.clone()), ..ReportOptions::default() };
        // A trace without GPU events has no report and no analysis.
        let report = build_report(&trace, &options).ok()?;
        let prepared = Prepared::of(&trace, &report, platform, &PrepareOptions::default());
        let claims = Claims::none();
        let outcomes = analyze_categories(&prepared, &claims, Scope::Standalone);
        let findings = compute_findings(&prepared, &outcomes, &claims, None);
        Some(Self { prepared, outcomes, findings })
    }

    /// The finding of this pattern.
    pub(crate) fn finding(&self, pattern: &str) -> &Finding {
        let found = self.findings.iter().find(|f| f.pattern.as_str() == pattern);
        found.unwrap_or_else(|| panic!("no {pattern} among {:?}", self.patterns()))
    }

    pub(crate) fn patterns(&self) -> Vec<&str> {
        self.findings.iter().map(|f| f.pattern.as_str()).collect()
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A trace of the project, else one of the folder beside it; `None`, with a word, if neither has it.
pub(crate) fn trace(folder: &str, name: &str) -> Option<PathBuf> {
    let file = format!("{folder}/{name}.json.gz");
    let places = [root().join("fixtures").join(&file), shared().join(&file)];
    let found = places.into_iter().find(|p| p.exists());
    if found.is_none() {
        println!("skipped: {file} is not here");
    }
    found
}

/// Where traces that the project does not carry may stand.
fn shared() -> PathBuf {
    let beside = ["../shared/traces", "../../shared/traces"].map(|p| root().join(p));
    let [first, second] = beside;
    if first.exists() { first } else { second }
}

/// All traces of both places with the platform they were recorded on.
pub(crate) fn all_traces() -> Vec<(PathBuf, &'static str)> {
    let mut out = Vec::new();
    for (base, folder, platform) in [
        (root().join("fixtures"), "h200", "H200"),
        (root().join("fixtures"), "handmade", "MI300X"),
        (shared(), "h200", "H200"),
        (shared(), "h100", "H100"),
        (shared(), "mi300", "MI300X"),
        (shared(), "mi210", "MI210"),
        (shared(), "torch_compile_triton", "MI300X"),
    ] {
        let Ok(entries) = std::fs::read_dir(base.join(folder)) else {
            println!("skipped: {folder} is not here");
            continue;
        };
        let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        files.retain(|p| p.to_string_lossy().ends_with(".json.gz"));
        files.sort();
        out.extend(files.into_iter().map(|p| (p, platform)));
    }
    out
}

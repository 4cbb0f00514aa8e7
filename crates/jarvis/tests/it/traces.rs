//! Every trace at hand, analysed in this process: those of the project, and those of a folder beside it if there is one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jarvis::pipeline::{AnalyzeOptions, Emit, ReplayChoice, analyze, quick_check, self_check};
use jarvis::trace::{ReadOptions, Trace};
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::platform::Platform;
use jarvis_report::RunLabels;
use jarvis_report::check::Problem;
use serde_json::Value;

use crate::support::shared;

/// An analysis with its files by name.
pub(crate) struct Ran {
    pub(crate) name: String,
    /// What a whole check of them finds, and a quick one.
    pub(crate) problems: Vec<Problem>,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

impl Ran {
    /// Analyses a trace; nothing if it has no GPU work.
    pub(crate) fn open(path: &Path, platform: &str) -> Option<Self> {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let trace = Trace::open(path, &ReadOptions::default()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let options = AnalyzeOptions {
            platform: Platform::find(platform).unwrap().clone(),
            labels: RunLabels { trace_path: name.clone(), ..RunLabels::default() },
            extension: None,
            thresholds: Thresholds::default(),
            replay: ReplayChoice::Auto,
            emit: vec![Emit::AnalysisMd],
        };
        let analyzed = analyze(trace, &options).ok()?;
        let problems = [self_check(&analyzed.files), quick_check(&analyzed.files)].concat();
        let files = analyzed.files.to_vec().unwrap();
        let files = files.into_iter().map(|f| (f.path.to_string_lossy().replace('\\', "/"), f.bytes)).collect();
        Some(Self { name: format!("{platform} {name}"), problems, files })
    }

    pub(crate) fn text(&self, name: &str) -> &str {
        let bytes = self.files.get(name).unwrap_or_else(|| panic!("{}: no {name}", self.name));
        std::str::from_utf8(bytes).unwrap()
    }

    pub(crate) fn json(&self, name: &str) -> Value {
        serde_json::from_str(self.text(name)).unwrap_or_else(|e| panic!("{}: {name}: {e}", self.name))
    }

    /// Rows of a CSV file by header.
    pub(crate) fn csv(&self, name: &str) -> Vec<BTreeMap<String, String>> {
        let mut reader = csv::Reader::from_reader(self.text(name).as_bytes());
        reader.deserialize().map(|row| row.unwrap_or_else(|e| panic!("{}: {name}: {e}", self.name))).collect()
    }

    pub(crate) fn manifest(&self) -> Value {
        self.json("category_manifest.json")
    }

    pub(crate) fn fair(&self) -> &str {
        self.text("standalone_analysis_fair.md")
    }

    pub(crate) fn rough(&self) -> &str {
        self.text("standalone_analysis_rough.md")
    }

    /// Metrics of compute categories that were analysed, by key.
    pub(crate) fn metrics(&self) -> BTreeMap<String, Value> {
        let manifest = self.manifest();
        let all = list(&manifest["categories"]).filter(|c| c["tier"] == "compute_kernel" && c["status"] == "OK");
        all.map(|c| (text(&c["name"]).to_owned(), self.json(text(&c["metrics_file"])))).collect()
    }
}

/// The items of a list.
pub(crate) fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

pub(crate) fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A committed trace.
pub(crate) fn fixture(name: &str) -> Ran {
    let platform = if name.starts_with("h200") { "H200" } else { "MI300X" };
    Ran::open(&root().join("fixtures").join(name), platform).expect("a trace with GPU work")
}

/// A trace of the folder beside the project.
pub(crate) fn beside(name: &str, platform: &str) -> Option<Ran> {
    Ran::open(&shared(name)?, platform)
}

/// Every trace, each analysed once.
pub(crate) fn each(mut check: impl FnMut(&Ran)) {
    let fixtures = root().join("fixtures");
    let mut folders = vec![(fixtures.join("h200"), "H200"), (fixtures.join("handmade"), "MI300X")];
    if let Some(shared) = shared("") {
        let more = [("h200", "H200"), ("h100", "H100"), ("mi300", "MI300X"), ("torch_compile_triton", "MI300X")];
        folders.extend(more.map(|(folder, platform)| (shared.join(folder), platform)));
    }
    let mut seen = 0;
    for (folder, platform) in folders {
        let mut paths: Vec<PathBuf> =
            std::fs::read_dir(&folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
        paths.retain(|p| {
            let name = p.to_string_lossy();
            let data = ["facts.json", "arch.json"].iter().any(|end| name.ends_with(end));
            (name.ends_with(".json") || name.ends_with(".json.gz")) && !data
        });
        paths.sort();
        for ran in paths.iter().filter_map(|p| Ran::open(p, platform)) {
            check(&ran);
            seen += 1;
        }
    }
    assert!(seen >= 12, "only {seen} traces were looked at");
}

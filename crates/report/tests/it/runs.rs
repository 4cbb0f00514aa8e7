//! Analyses of traces, and the Markdown made of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jarvis_analyze::analysis::{Analysis, AnalysisOptions};
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Report, ReportOptions, Sheet, Table, build_report};
use jarvis_report::data::{OpsCsv, Stems};
use jarvis_report::render::TextRow;
use jarvis_report::render::csv::{self, Texts};
use jarvis_report::{OutputFile, ReplayEntry, Run, RunLabels, data, sections};
use jarvis_trace::{ReadOptions, Summary, Trace};

/// A trace with all that reports are made of.
pub(crate) struct Analysed {
    pub(crate) name: String,
    pub(crate) analysis: Analysis,
    report: Report,
    tables: &'static [Table],
    sheets: &'static [Sheet<'static>],
    summary: Summary,
    labels: RunLabels,
    pub(crate) replay: Vec<ReplayEntry>,
}

/// A file.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Analysed {
    pub(crate) fn of(name: &str, trace: &Trace, platform: &str) -> Option<Self> {
        let platform = Platform::find(platform).unwrap();
        let options = ReportOptions { call_stack: true, platform: Some(platform.clone()), ..ReportOptions::default() };
        // A trace without GPU events has no report and no analysis.
        let report = build_report(trace, &options).ok()?;
        // They borrow from each other, and tests end soon.
        let tables: &[Table] = report.tables().leak();
        let sheets = Sheet::of(tables).leak();
        let analysis = Analysis::of(trace, &report, platform, &AnalysisOptions::default());
        let summary = Summary::of(trace);
        let labels = RunLabels { trace_path: name.to_owned(), ..RunLabels::default() };
        Some(Self { name: name.to_owned(), analysis, report, tables, sheets, summary, labels, replay: Vec::new() })
    }

    pub(crate) fn open(path: &Path, platform: &str) -> Option<Self> {
        let trace = Trace::open(path, &ReadOptions::default()).unwrap();
        Self::of(&path.file_name().unwrap().to_string_lossy(), &trace, platform)
    }

    fn run_with<'a>(&'a self, replay: &'a [ReplayEntry]) -> Run<'a> {
        let Self { analysis, report, sheets, summary, labels, .. } = self;
        Run { analysis, report, sheets, summary, labels, replay }
    }

    pub(crate) fn run(&self) -> Run<'_> {
        self.run_with(&self.replay)
    }

    /// `analysis.md` and what belongs to it, by name.
    pub(crate) fn analysis_md(&self) -> BTreeMap<String, Vec<u8>> {
        named(sections::analysis_md::files(&self.run()))
    }

    /// The machine files by name.
    pub(crate) fn data(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = data::files(&self.run());
        files.extend(self.ops());
        named(files)
    }

    /// The rows of each category.
    fn ops(&self) -> Vec<OutputFile> {
        let Some(sheet) = self.sheets.iter().find(|sheet| sheet.name == OpsCsv::SHEET) else { return Vec::new() };
        let stems = Stems::of(&self.analysis);
        let ops = OpsCsv::of(&self.analysis.prepared, &stems);
        let mut csv = csv::Writer::begin(Vec::new(), sheet, Texts::Guarded);
        let mut files = ops.begin(sheet, |_| Vec::new());
        for row in 0..sheet.rows() {
            let row = TextRow::of(sheet, row);
            files.row(&row, csv.row(&row).unwrap()).unwrap();
        }
        ops.paths().zip(files.finish().unwrap()).map(|(path, bytes)| OutputFile { path, bytes }).collect()
    }

    /// The sheets of the performance report by name.
    pub(crate) fn sheets(&self) -> BTreeMap<String, Vec<u8>> {
        named(csv::files(self.tables, "perf_report_csvs", Texts::Guarded).collect())
    }

    pub(crate) fn pages_with(&self, replay: &[ReplayEntry]) -> Vec<Page> {
        let run = self.run_with(replay);
        let page = |f: jarvis_report::OutputFile| Page {
            path: f.path.to_str().unwrap().to_owned(),
            text: String::from_utf8(f.bytes).unwrap(),
        };
        sections::files(&run).map(page).collect()
    }

    pub(crate) fn pages(&self) -> Vec<Page> {
        self.pages_with(&[])
    }

    pub(crate) fn page(&self, path: &str) -> String {
        self.pages().into_iter().find(|p| p.path == path).unwrap_or_else(|| panic!("no {path}")).text
    }

    pub(crate) fn fair(&self) -> String {
        self.page("standalone_analysis_fair.md")
    }

    pub(crate) fn rough(&self) -> String {
        self.page("standalone_analysis_rough.md")
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

/// A trace that the project carries.
pub(crate) fn fixture(folder: &str, name: &str) -> Analysed {
    let platform = if folder == "h200" { "H200" } else { "MI300X" };
    Analysed::open(&root().join("fixtures").join(folder).join(name), platform).unwrap()
}

/// All traces of the project and of the folder beside it, each analysed once.
pub(crate) fn each(check: impl Fn(&Analysed)) {
    let shared = ["../shared/traces", "../../shared/traces"].map(|p| root().join(p));
    let shared = shared.into_iter().find(|p| p.exists()).unwrap_or_default();
    let mut seen = 0;
    for (base, folder, platform) in [
        (root().join("fixtures"), "h200", "H200"),
        (root().join("fixtures"), "handmade", "MI300X"),
        (shared.clone(), "h200", "H200"),
        (shared.clone(), "h100", "H100"),
        (shared.clone(), "mi300", "MI300X"),
        (shared.clone(), "mi210", "MI210"),
        (shared, "torch_compile_triton", "MI300X"),
    ] {
        let Ok(entries) = std::fs::read_dir(base.join(folder)) else {
            println!("skipped: {folder} is not here");
            continue;
        };
        let mut files: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        files.retain(|p| {
            let name = p.to_string_lossy();
            let data = ["facts.json", "arch.json"].iter().any(|end| name.ends_with(end));
            (name.ends_with(".json") || name.ends_with(".json.gz")) && !data
        });
        files.sort();
        for analysed in files.iter().filter_map(|p| Analysed::open(p, platform)) {
            check(&analysed);
            seen += 1;
        }
    }
    assert!(seen >= 8, "only {seen} traces were looked at");
}

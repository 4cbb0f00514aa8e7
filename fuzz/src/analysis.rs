//! From a trace to tables and to all files of an analysis.

use std::sync::LazyLock;

use jarvis::pipeline::{
    AnalyzeError, AnalyzeOptions, Emit, ReplayChoice, analyze as run, compare_traces, quick_check, self_check,
};
use jarvis_analyze::comparative::Both;
use jarvis_analyze::compare::reports::read;
use jarvis_analyze::compare::tree::merge;
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Report, ReportOptions, Table, build_report};
use jarvis_report::render::{csv, xlsx};
use jarvis_report::{OutputFile, RunLabels};
use jarvis_trace::{Defect, Fidelity, Trace, Tree, TreeOptions};

use crate::corpus;

/// Options that make everything there is.
fn everything(fidelity: Fidelity, include_unlinked: bool) -> ReportOptions {
    ReportOptions {
        fidelity,
        include_unlinked,
        platform: Platform::find("H200").ok().cloned(),
        micro_idle_us: Some(5.0),
        group_by_num_kernels: true,
        include_overlap: true,
        detect_recompute: true,
        first_occurrence: true,
        call_stack: true,
        ..ReportOptions::default()
    }
}

/// Makes the performance report in both fidelities, and files of it that can be read again.
pub(crate) fn tables(data: &[u8]) {
    let Ok(trace) = Trace::parse(data) else { return };
    for options in [
        ReportOptions::default(),
        everything(Fidelity::Correct, false),
        everything(Fidelity::Correct, true),
        everything(Fidelity::Reference, false),
    ] {
        match build_report(&trace, &options) {
            Ok(report) => {
                sound(&report);
                if options.fidelity == Fidelity::Correct {
                    sums(&report);
                }
                files_of(&report.tables());
            }
            Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
        }
    }
}

/// Tables are rectangles, and no header stands twice.
fn sound(report: &Report) {
    for table in &report.tables() {
        let rows = table.rows();
        assert!(table.columns.iter().all(|c| c.cells.len() == rows), "{} is no rectangle", table.name);
        let mut headers: Vec<&str> = table.columns.iter().map(|c| c.header.as_str()).collect();
        headers.sort_unstable();
        assert!(headers.windows(2).all(|w| w[0] != w[1]), "{}: a header stands twice", table.name);
    }
}

/// The sheets split the same time in different ways.
fn sums(report: &Report) {
    let rows = &report.rows;
    let whole: f64 = rows.launchers.rows().iter().map(|r| r.direct_us).sum();
    if !whole.is_finite() || whole > 1e15 {
        return;
    }
    let same = |part: f64, what: &str| {
        assert!((part - whole).abs() <= 1e-6 * whole.abs().max(1.0), "{what}: {part}, but launchers: {whole}");
    };
    same(rows.categories.iter().map(|r| r.direct_us).sum(), "ops_summary_by_category");
    same(rows.ops.iter().map(|r| r.direct_us).sum(), "ops_summary");
    same(rows.unique_args.iter().map(|r| r.direct_us.sum).sum(), "ops_unique_args");
    let calls = rows.launchers.rows().len();
    assert_eq!(rows.categories.iter().map(|r| r.count).sum::<usize>(), calls);
    assert_eq!(rows.ops.iter().map(|r| r.count).sum::<usize>(), calls);
    assert_eq!(rows.unique_args.iter().map(|r| r.count).sum::<usize>(), calls);
    if whole > 0.0 {
        let percent: f64 = rows.categories.iter().map(|r| r.percent.0).sum();
        assert!((percent - 100.0).abs() < 1e-6, "categories have {percent}%");
    }
    assert_eq!(report.diagnostics.count(Defect::TimelineMismatch), 0, "the timeline does not add up");
}

/// What is written can be read.
fn files_of(tables: &[Table]) {
    for table in tables {
        let read = read::csv(&table.name, &csv::render(table, csv::Texts::Guarded)).expect("our own CSV");
        if !table.columns.is_empty() {
            // A line that holds one empty field only is a blank line for any reader.
            assert!(read.rows() == table.rows() || table.columns.len() == 1, "{}: rows", table.name);
            assert_eq!(read.columns.len(), table.columns.len(), "{}: columns", table.name);
        }
    }
    let book = xlsx::render(tables).expect("a workbook");
    let read = read::workbook(&book.bytes).expect("our own workbook");
    assert_eq!(read.len(), tables.len().max(1));
}

fn options(platform: &str) -> AnalyzeOptions {
    AnalyzeOptions {
        platform: Platform::find(platform).expect("a platform").clone(),
        labels: RunLabels { trace_path: "fuzz.json".to_owned(), ..RunLabels::default() },
        extension: None,
        thresholds: Thresholds::default(),
        replay: ReplayChoice::Auto,
        emit: vec![Emit::AnalysisMd],
    }
}

/// Files are what their names say.
fn readable(files: &[OutputFile]) {
    for file in files {
        let name = file.path.to_string_lossy();
        assert!(file.path.is_relative() && !name.contains(".."), "{name}");
        match file.path.extension().and_then(|e| e.to_str()) {
            Some("json") => drop(serde_json::from_slice::<serde_json::Value>(&file.bytes).expect("JSON")),
            Some("md" | "html" | "svg" | "csv" | "txt") => drop(std::str::from_utf8(&file.bytes).expect("UTF-8")),
            Some("xlsx") => drop(read::workbook(&file.bytes).expect("a workbook")),
            Some("png") => assert!(file.bytes.starts_with(b"\x89PNG"), "{name}"),
            Some("zip") => drop(zip::ZipArchive::new(std::io::Cursor::new(&file.bytes)).expect("a zip")),
            _ => panic!("{name}: what is this?"),
        }
    }
}

/// The whole of `jarvis analyze` but for the disk: the run's own checks hold and every file is sound.
pub(crate) fn analyze(data: &[u8]) {
    let Ok(trace) = Trace::parse(data) else { return };
    let analyzed = match run(trace.clone(), &options("H200")) {
        Ok(analyzed) => analyzed,
        Err(AnalyzeError::Report(error)) => return assert!(!error.help().is_empty()),
        Err(error) => panic!("{error}"),
    };
    let problems = [self_check(&analyzed.files), quick_check(&analyzed.files)].concat();
    assert!(problems.is_empty(), "{problems:#?}");
    let files = analyzed.files.to_vec().expect("files that were kept");
    readable(&files);
    // Not each time: it doubles the cost.
    if data.len().is_multiple_of(8) {
        let again = run(trace, &options("H200")).expect("as before");
        for (one, two) in files.iter().zip(&again.files.to_vec().expect("files that were kept")) {
            assert!(one.path == two.path && one.bytes == two.bytes, "{} differs", one.path.display());
        }
    }
}

/// A trace that others are compared with.
static REFERENCE: LazyLock<Trace> = LazyLock::new(|| Trace::parse(&corpus::traces()[0]).expect("a sound trace"));

/// `jarvis analyze --reference` and `jarvis diff` against a sound trace, both ways round.
pub(crate) fn versus(data: &[u8]) {
    let Ok(trace) = Trace::parse(data) else { return };
    let (ours, theirs) = (options("H200"), options("MI300X"));
    let sides = [
        (Both { reference: &*REFERENCE, target: &trace }, Both { reference: &ours, target: &theirs }),
        (Both { reference: &trace, target: &*REFERENCE }, Both { reference: &theirs, target: &ours }),
    ];
    let (traces, options) = sides[data.len() % 2];
    match compare_traces(traces, options) {
        Ok(compared) => {
            let problems = self_check(&compared.files);
            assert!(problems.is_empty(), "{problems:#?}");
            readable(&compared.files.to_vec().expect("files that were kept"));
        }
        Err(AnalyzeError::Report(_) | AnalyzeError::Reference(_) | AnalyzeError::Compare(_)) => {}
        Err(error) => panic!("{error}"),
    }
    for (fidelity, options) in [
        (Fidelity::Correct, TreeOptions::default().with_python()),
        (Fidelity::Reference, TreeOptions::default().like_reference()),
    ] {
        let (one, two) = (Tree::build(traces.reference, options), Tree::build(traces.target, options));
        merge(one.view(traces.reference), two.view(traces.target), fidelity);
    }
}

//! The whole way from a trace to the files of its analysis. Nothing here knows about terminals, and nothing is
//! written: who calls decides what becomes of the files.

mod compare;
mod replay;

use std::time::{Duration, Instant};

use jarvis_analyze::analysis::{Analysis, AnalysisOptions};
use jarvis_analyze::compare::reports::CompareError;
use jarvis_analyze::metrics::Scope;
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::extension::Extension;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Report, ReportError, ReportOptions, Table, build_report};
use jarvis_report::check::{self, Folder, Level, Problem};
use jarvis_report::render::{csv, xlsx};
use jarvis_report::replay::ReplayError;
use jarvis_report::{OutputFile, Run, RunLabels, data, html, sections};
use jarvis_trace::{Diagnostics, Population, Summary, Trace};

pub use compare::{ComparedTraces, compare_traces, compare_traces_watched};
pub use replay::ReplayChoice;

/// Names of the performance report in an output folder.
pub const WORKBOOK: &str = "perf_report.xlsx";
/// Folder of its CSV files.
pub const CSV_FOLDER: &str = "perf_report_csvs";

/// How to analyse a trace.
#[derive(Debug, Clone)]
pub struct AnalyzeOptions {
    /// The GPU to measure against.
    pub platform: Platform,
    /// What the user said about the run.
    pub labels: RunLabels,
    /// Models of the user's own.
    pub extension: Option<Extension>,
    /// Limits of the rules.
    pub thresholds: Thresholds,
    /// Which replay packages to write.
    pub replay: ReplayChoice,
}

/// Why there is no analysis.
#[derive(Debug, thiserror::Error)]
pub enum AnalyzeError {
    /// There is no performance report to analyse.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The workbook could not be made.
    #[error("the workbook could not be made: {0}")]
    Workbook(String),
    /// A replay package could not be made.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The reports could not be compared.
    #[error(transparent)]
    Compare(#[from] CompareError),
    /// There is no performance report of the reference.
    #[error("the reference: {0}")]
    Reference(ReportError),
}

/// A finished analysis with the files that tell of it.
#[derive(Debug)]
pub struct Analyzed {
    /// The analysis.
    pub analysis: Analysis,
    /// What was odd about the recording.
    pub diagnostics: Diagnostics,
    /// What is in the trace.
    pub summary: Summary,
    /// All files, with paths relative to the output folder.
    pub files: Vec<OutputFile>,
    /// What a workbook could not hold in full.
    pub cuts: xlsx::Cuts,
    /// Checks of `jarvis check` that the files do not pass: a fault of ours, and none of the trace.
    pub self_check: Vec<Problem>,
    /// How long each stage took.
    pub stages: Vec<(&'static str, Duration)>,
}

/// Who is told how the work goes on.
pub trait Progress: Sync {
    /// A stage begins.
    fn begins(&self, _stage: &'static str) {}
    /// A stage is done.
    fn ends(&self, _stage: &'static str, _took: Duration) {}
}

/// Nobody is told.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unwatched;

impl Progress for Unwatched {}

/// Analyses a trace. What is large and no longer needed, the trace itself first, goes before any file is made.
pub fn analyze(trace: Trace, options: &AnalyzeOptions) -> Result<Analyzed, AnalyzeError> {
    analyze_watched(trace, options, &Unwatched)
}

/// Analyses a trace and tells how it goes on.
pub fn analyze_watched(
    trace: Trace,
    options: &AnalyzeOptions,
    progress: &dyn Progress,
) -> Result<Analyzed, AnalyzeError> {
    let mut clock = StageClock::new(progress, "perf_report");
    let (report, population) = report(&trace, options)?;
    clock.then("analysis");
    let made = std::thread::scope(|scope| {
        // It depends on nothing that follows, so it is made beside it.
        let workbook = scope.spawn(|| workbook(&report.tables, ""));
        let (mut analysis, summary) = judged(&trace, &report, options, population);
        clock.then("drawing");
        let labels = &options.labels;
        let run = Run { analysis: &analysis, report: &report, summary: &summary, labels, replay: &[] };
        let drawing = html::Drawing::of(&run, &trace);
        clock.then("replay_packages");
        let chosen = replay::choose(&trace, &report, &analysis, &options.replay, &[]);
        drop(trace);
        let replay = replay::replay(chosen, &mut analysis)?;
        let run = Run { analysis: &analysis, report: &report, summary: &summary, labels, replay: &replay.entries };
        clock.then("reports");
        let mut files = data::files(&run);
        files.extend(sections::files(&run));
        clock.then("page");
        files.extend(drawing.files(&run, &beside(&files, &report, "")));
        files.extend(replay.files);
        clock.then("workbook");
        let (workbook, cuts) = joined(workbook)?;
        files.push(workbook);
        clock.then("csv");
        Ok::<_, AnalyzeError>((analysis, summary, files, cuts))
    });
    let (analysis, summary, mut files, cuts) = made?;
    let Report { tables, rows, tree, diagnostics } = report;
    let self_check = std::thread::scope(|scope| {
        scope.spawn(move || drop((tree, rows)));
        files.extend(csv_files(&tables, ""));
        drop(tables);
        clock.then("self_check");
        self_check(&files)
    });
    Ok(Analyzed { analysis, diagnostics, summary, files, cuts, self_check, stages: clock.finish() })
}

/// What is thought of a trace and what is in it.
fn judged(trace: &Trace, report: &Report, options: &AnalyzeOptions, population: Population) -> (Analysis, Summary) {
    let analysis_options =
        AnalysisOptions { thresholds: options.thresholds.clone(), scope: Scope::Standalone, population };
    std::thread::scope(|scope| {
        let summary = scope.spawn(|| Summary::of(trace));
        (Analysis::of(trace, report, &options.platform, &analysis_options), joined(summary))
    })
}

/// What a thread came to; its panic is ours.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// The checks that files about to be written do not pass.
pub fn self_check(files: &[OutputFile]) -> Vec<Problem> {
    let mut folder = Folder::new();
    for file in files {
        folder.file(file.path.to_string_lossy().replace('\\', "/"), &file.bytes);
    }
    let mut problems = check::check(&folder);
    problems.retain(|p| p.level == Level::Failed);
    problems
}

/// The performance report with everything that analysis reads. Where no GPU event has a recorded launch, all are
/// counted: there is nothing else to tell of.
fn report(trace: &Trace, options: &AnalyzeOptions) -> Result<(Report, Population), ReportError> {
    let linked = ReportOptions {
        platform: Some(options.platform.clone()),
        extension: options.extension.clone(),
        call_stack: true,
        ..ReportOptions::default()
    };
    match build_report(trace, &linked) {
        Err(ReportError::AllUnlinked { .. }) => {
            let all = ReportOptions { include_unlinked: true, ..linked };
            build_report(trace, &all).map(|report| (report, Population::All))
        }
        report => report.map(|report| (report, Population::Linked)),
    }
}

/// Files that the page can link to, with this before the name of the folder of sheets.
fn beside(files: &[OutputFile], report: &Report, prefix: &str) -> Vec<String> {
    let written = files.iter().map(|f| f.path.to_string_lossy().replace('\\', "/"));
    let sheets = report.tables.iter().map(|t| format!("{prefix}{CSV_FOLDER}/{}.csv", t.name));
    written.chain(sheets).collect()
}

/// The performance report as a workbook, with this before its name.
fn workbook(tables: &[Table], prefix: &str) -> Result<(OutputFile, xlsx::Cuts), AnalyzeError> {
    let workbook = xlsx::render(tables).map_err(|error| AnalyzeError::Workbook(error.to_string()))?;
    Ok((OutputFile { path: format!("{prefix}{WORKBOOK}").into(), bytes: workbook.bytes }, workbook.cuts))
}

/// The performance report as CSV files, with this before the name of their folder.
fn csv_files(tables: &[Table], prefix: &str) -> Vec<OutputFile> {
    csv::files(tables, &format!("{prefix}{CSV_FOLDER}"), csv::Texts::Guarded)
}

/// The performance report as files, with this before their names.
fn sheets(report: &Report, prefix: &str) -> Result<(Vec<OutputFile>, xlsx::Cuts), AnalyzeError> {
    let (workbook, cuts) = workbook(&report.tables, prefix)?;
    let mut files = csv_files(&report.tables, prefix);
    files.push(workbook);
    Ok((files, cuts))
}

/// Tells how long stages take.
struct StageClock<'a> {
    progress: &'a dyn Progress,
    stage: &'static str,
    since: Instant,
    stages: Vec<(&'static str, Duration)>,
}

impl<'a> StageClock<'a> {
    fn new(progress: &'a dyn Progress, first: &'static str) -> Self {
        progress.begins(first);
        Self { progress, stage: first, since: Instant::now(), stages: Vec::new() }
    }

    /// The stage is done, and the next one begins.
    fn then(&mut self, next: &'static str) {
        self.end();
        (self.stage, self.since) = (next, Instant::now());
        self.progress.begins(next);
    }

    fn finish(mut self) -> Vec<(&'static str, Duration)> {
        self.end();
        self.stages
    }

    fn end(&mut self) {
        let took = self.since.elapsed();
        self.stages.push((self.stage, took));
        self.progress.ends(self.stage, took);
    }
}

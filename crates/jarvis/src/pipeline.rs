//! The whole way from a trace to the files of its analysis. Nothing here knows about terminals, and nothing is
//! written: who calls decides what becomes of the files.

mod compare;
mod files;
mod replay;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jarvis_analyze::analysis::{Analysis, AnalysisOptions, Groundwork, Survey};
use jarvis_analyze::compare::reports::CompareError;
use jarvis_analyze::metrics::Scope;
use jarvis_analyze::system::System;
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::extension::Extension;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ArgLists, Report, ReportError, ReportOptions, Sheet, build_report_around};
use jarvis_report::check::{self, Folder, Level, Problem};
use jarvis_report::data::{OpsCsv, OpsFiles, Stems};
use jarvis_report::render::{TextRow, csv, xlsx};
use jarvis_report::replay::ReplayError;
use jarvis_report::{Run, RunLabels, data, html, sections};
use jarvis_trace::side_by_side::{beside, both};
use jarvis_trace::{Population, Summary, Trace, Tree};

pub use compare::{ComparedTraces, compare_traces, compare_traces_watched};
pub use files::{FileRef, Files, OpenFile, Shelf};
pub use replay::{ReplayChoice, no_such_operations};

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
    /// What else to write.
    pub emit: Vec<Emit>,
}

/// Files that are written only if they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emit {
    /// `analysis.md`, `priority_data.json` and a plot: the same findings as one report of cards.
    AnalysisMd,
}

impl std::str::FromStr for Emit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "analysis-md" => Ok(Self::AnalysisMd),
            _ => Err("expected analysis-md".to_owned()),
        }
    }
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
    /// A file could not be written.
    #[error("{}: the file can't be written: {error}", path.display())]
    Write {
        /// The file, relative to the output folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
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
    /// The performance report it was made from, with what was odd about the recording. Who ends soon can keep it: to give
    /// back so many rows takes a while.
    pub report: Report,
    /// What is in the trace.
    pub summary: Summary,
    /// All files, with paths relative to the output folder.
    pub files: Files,
    /// What a workbook could not hold in full.
    pub cuts: xlsx::Cuts,
    /// Names that [`ReplayChoice::Ops`] gave and no operation has.
    pub replay_missed: Vec<String>,
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
    analyze_watched(trace, options, &Unwatched, Files::default())
}

/// Analyses a trace, tells how it goes on, and adds its files to these.
pub fn analyze_watched(
    trace: Trace,
    options: &AnalyzeOptions,
    progress: &dyn Progress,
    mut files: Files,
) -> Result<Analyzed, AnalyzeError> {
    let mut clock = StageClock::new(progress, "perf_report");
    let Surveyed { mut report, groundwork, summary, judging } =
        surveyed(&trace, options, Scope::Standalone, || clock.then("groundwork"))?;
    clock.then("analysis");
    // Nothing that follows asks for launchers.
    let launchers = std::mem::take(&mut report.rows.launchers);
    let (drawing, judgement) = both(
        || {
            drop(launchers);
            html::Drawing::of(&groundwork, &report, &summary, &trace)
        },
        || groundwork.judge(&trace, &report, &judging),
    );
    let mut analysis = Analysis::on(groundwork, judgement);
    clock.then("replay_packages");
    let chosen = replay::choose(&trace, &report, &analysis, &options.replay, &[]);
    // All is known that the trace can tell.
    let known = (trace, std::mem::take(&mut report.tree), std::mem::take(&mut report.arg_lists));
    let (replay, ()) = both(|| replay::replay(chosen, &mut analysis), || drop(known));
    let replay = replay?;
    let stems = Stems::of(&analysis);
    let sheets = Sheets::of(report.sheets(), "").with(OpsCsv::of(&analysis.prepared, &stems));
    let made = std::thread::scope(|scope| {
        // They depend on nothing that follows, so they are made beside it.
        let more = files.more();
        let of_sheets = beside(scope, || sheets.make(more));
        let (labels, replayed) = (&options.labels, &*replay.entries);
        let all = &*sheets.all;
        let run =
            Run { analysis: &analysis, report: &report, sheets: all, summary: &summary, labels, replay: replayed };
        clock.then("data");
        data::each_file(&run, &mut files);
        clock.then("reports");
        files.put_all(sections::files(&run));
        clock.then("page");
        let linked = linked(files.paths(), &sheets);
        files.put_all(drawing.files(&run, &linked));
        if options.emit.contains(&Emit::AnalysisMd) {
            files.put_all(sections::analysis_md::files(&run));
        }
        files.put_all(replay.files);
        clock.then("sheets");
        sheets.help(&mut files)?;
        let (more, cuts) = of_sheets.joined()?;
        files.append(more);
        files.sort();
        Ok::<_, AnalyzeError>(cuts)
    });
    drop(sheets);
    let (cuts, replay_missed) = (made?, replay.missed);
    Ok(Analyzed { analysis, report, summary, files, cuts, replay_missed, stages: clock.finish() })
}

/// Checks of `jarvis check` that files about to be written do not pass: a fault of ours, and none of the trace.
pub fn self_check(files: &Files) -> Vec<Problem> {
    failed(files, |_, _| true)
}

/// Longer files of categories are left to `jarvis check`: to read and check them all took a fifth of the time of a run,
/// and they are lists of what shorter ones and the reports have too.
const CHECKED: usize = 16 << 10;

/// So are sheets from this length on, of which a few numbers are looked up.
const CHECKED_SHEET: usize = 1 << 20;

/// The same as far as it is quick.
pub fn quick_check(files: &Files) -> Vec<Problem> {
    let most = |path: &Path| match path {
        _ if path.starts_with(data::CATEGORY_DATA) => CHECKED,
        _ if path.starts_with(CSV_FOLDER) => CHECKED_SHEET,
        _ => usize::MAX,
    };
    failed(files, |path, len| len <= most(path))
}

/// What can't be read is told where files are written.
fn failed(files: &Files, looks_into: impl Fn(&Path, usize) -> bool) -> Vec<Problem> {
    let mut folder = Folder::new();
    for file in files.each() {
        if looks_into(file.path, file.len()) {
            folder.file_read_by(slashed(file.path), move || file.read().unwrap_or_default());
        } else {
            folder.closed_file(slashed(file.path));
        }
    }
    let mut problems = check::check(&folder);
    problems.retain(|p| p.level == Level::Failed);
    problems
}

/// The first look at a trace.
struct Surveyed {
    /// With everything that analysis reads.
    report: Report,
    groundwork: Groundwork,
    summary: Summary,
    /// How to judge it.
    judging: AnalysisOptions,
}

/// Takes it, and tells when the report has its rows. Where no GPU event has a recorded launch, all are counted: there is
/// nothing else to tell of.
fn surveyed(
    trace: &Trace,
    options: &AnalyzeOptions,
    scope: Scope,
    mut rows_are_made: impl FnMut(),
) -> Result<Surveyed, ReportError> {
    let linked = ReportOptions {
        platform: Some(options.platform.clone()),
        extension: options.extension.clone(),
        call_stack: true,
        ..ReportOptions::default()
    };
    let mut of = |report: &ReportOptions, population| {
        let thresholds = options.thresholds.clone();
        let judging = AnalysisOptions { thresholds, scope, population };
        let system = |tree: &Tree| System::of(trace, tree, population);
        let survey = |tree: &Tree, lists: &ArgLists| Survey::of(trace, tree, lists);
        let lay = |report: &Report, system, survey| {
            rows_are_made();
            Groundwork::of(survey, system, trace, report, &options.platform, &judging)
        };
        let (report, (groundwork, summary)) = build_report_around(trace, report, system, survey, lay)?;
        Ok(Surveyed { report, groundwork, summary, judging })
    };
    match of(&linked, linked.population()) {
        Err(ReportError::AllUnlinked { .. }) => {
            of(&ReportOptions { include_unlinked: true, ..linked }, Population::All)
        }
        found => found,
    }
}

/// A path as files of the output name each other.
fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

/// Files that the page can link to: these and those of the sheets.
fn linked<'a>(files: impl Iterator<Item = &'a Path>, sheets: &Sheets<'_>) -> Vec<String> {
    let beside = sheets.ops.into_iter().flat_map(OpsCsv::paths);
    let of_sheets = sheets.csv.iter().map(|(path, _)| slashed(path));
    files.map(slashed).chain(of_sheets).chain(beside.map(|path| slashed(&path))).collect()
}

/// The performance report on its way to files.
struct Sheets<'a> {
    all: Vec<Sheet<'a>>,
    prefix: String,
    /// For each sheet the path of its CSV file, and whether somebody has begun it.
    csv: Vec<(PathBuf, AtomicBool)>,
    /// Files that are written beside one of them.
    ops: Option<OpsCsv<'a>>,
}

impl<'a> Sheets<'a> {
    /// For files with this before their names.
    fn of(all: Vec<Sheet<'a>>, prefix: &str) -> Self {
        let folder = format!("{prefix}{CSV_FOLDER}");
        let paths = csv::paths(all.iter().map(|sheet| &*sheet.name), &folder);
        let csv = paths.map(|path| (path, AtomicBool::new(false))).collect();
        Self { all, prefix: prefix.to_owned(), csv, ops: None }
    }

    /// The same, and the rows of each category.
    fn with(self, ops: OpsCsv<'a>) -> Self {
        Self { ops: Some(ops), ..self }
    }

    /// Adds the workbook, and with each of its sheets the CSV file unless somebody else makes it.
    fn make(&self, mut files: Files) -> Result<(Files, xlsx::Cuts), AnalyzeError> {
        let path = PathBuf::from(format!("{}{WORKBOOK}", self.prefix));
        let mut workbook = xlsx::Workbook::begin(files.begin(&path), &self.all, xlsx::LongNames::default());
        for (at, sheet) in self.all.iter().enumerate() {
            let mut beside = Beside {
                csv: self.claim(at).map(|path| csv::Writer::begin(files.begin(path), sheet, csv::Texts::Guarded)),
                ops: self.ops_of(sheet).map(|ops| ops.begin(sheet, |path| files.begin(path))),
            };
            let made = workbook.add(sheet, &[], |row| beside.row(row));
            made.and_then(|()| beside.finish(&mut files)).map_err(failed_at(&self.csv[at].0))?;
        }
        let (file, cuts) = workbook.finish().map_err(|error| AnalyzeError::of_workbook(&path, error))?;
        files.end(file).map_err(failed_at(&path))?;
        Ok((files, cuts))
    }

    /// Adds CSV files that nobody has begun, the last ones first. That with others beside it is made with the workbook.
    fn help(&self, files: &mut Files) -> Result<(), AnalyzeError> {
        for (at, sheet) in self.all.iter().enumerate().rev().filter(|(_, sheet)| self.ops_of(sheet).is_none()) {
            let Some(path) = self.claim(at) else { continue };
            let written = csv::write(files.begin(path), sheet, csv::Texts::Guarded);
            written.and_then(|file| files.end(file)).map_err(failed_at(path))?;
        }
        Ok(())
    }

    /// What is written beside this sheet.
    fn ops_of(&self, sheet: &Sheet<'_>) -> Option<OpsCsv<'a>> {
        self.ops.filter(|_| sheet.name == OpsCsv::SHEET)
    }

    /// The path of a CSV file if nobody else makes it.
    fn claim(&self, at: usize) -> Option<&Path> {
        let (path, begun) = &self.csv[at];
        (!begun.swap(true, Ordering::Relaxed)).then_some(path)
    }
}

/// What is written of a sheet beside the workbook.
struct Beside<'a> {
    csv: Option<csv::Writer<OpenFile>>,
    ops: Option<OpsFiles<'a, OpenFile>>,
}

impl Beside<'_> {
    fn row(&mut self, row: &TextRow) -> io::Result<()> {
        let Some(csv) = &mut self.csv else { return Ok(()) };
        let record = csv.row(row)?;
        self.ops.as_mut().map_or(Ok(()), |ops| ops.row(row, record))
    }

    fn finish(self, files: &mut Files) -> io::Result<()> {
        let csv = self.csv.map(csv::Writer::finish).transpose()?;
        let ops = self.ops.map(OpsFiles::finish).transpose()?;
        csv.into_iter().chain(ops.into_iter().flatten()).try_for_each(|file| files.end(file))
    }
}

/// What became of a file that could not be written.
fn failed_at(path: &Path) -> impl FnOnce(io::Error) -> AnalyzeError {
    move |error| AnalyzeError::Write { path: path.to_path_buf(), error }
}

impl AnalyzeError {
    /// A workbook could not be made, or not be written there.
    fn of_workbook(path: &Path, error: xlsx::XlsxError) -> Self {
        match error.io() {
            Ok(error) => failed_at(path)(error),
            Err(error) => Self::Workbook(error.to_string()),
        }
    }
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

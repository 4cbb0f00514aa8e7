//! The whole way from two traces to the files of their comparison. Each side has a thread of its own.

use std::time::Duration;

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::comparative::{Both, Comparative, Gate};
use jarvis_analyze::compare::reports::{CompareOptions, NamedReport, SheetGroup, compare_tables};
use jarvis_analyze::metrics::Scope;
use jarvis_perf::tables::{Report, ReportError, Sheet, Table};
use jarvis_report::data::{OpsCsv, Stems};
use jarvis_report::render::xlsx;
use jarvis_report::{OutputFile, Run, Versus, data, html, sections};
use jarvis_trace::side_by_side::{beside, both};
use jarvis_trace::{Summary, Trace};

use super::{
    AnalyzeError, AnalyzeOptions, Files, Progress, Sheets, StageClock, Surveyed, Unwatched, linked, replay, surveyed,
};

/// Both reports, sheet by sheet.
const WORKBOOK: &str = "comparison.xlsx";

/// A finished comparison with the files that tell of it.
#[derive(Debug)]
pub struct ComparedTraces {
    /// Analyses of both sides.
    pub analyses: Both<Analysis>,
    /// Performance reports of both sides.
    pub reports: Both<Report>,
    /// What differs.
    pub comparative: Comparative,
    /// All files, with paths relative to the output folder.
    pub files: Files,
    /// What the workbooks could not hold in full.
    pub cuts: xlsx::Cuts,
    /// Names that [`super::ReplayChoice::Ops`] gave and no operation of the target has.
    pub replay_missed: Vec<String>,
    /// How long each stage took.
    pub stages: Vec<(&'static str, Duration)>,
}

/// What is known of one side.
struct Side {
    report: Report,
    tables: Vec<Table>,
    analysis: Analysis,
    summary: Summary,
}

impl Side {
    fn of(trace: &Trace, options: &AnalyzeOptions) -> Result<Self, ReportError> {
        let Surveyed { report, groundwork, summary, judging } = surveyed(trace, options, Scope::Comparative, || ())?;
        let judgement = groundwork.judge(trace, &report, &judging);
        let analysis = Analysis::on(groundwork, judgement);
        let tables = report.tables();
        Ok(Self { report, tables, analysis, summary })
    }

    fn run<'a>(
        &'a self,
        sheets: &'a Sheets<'a>,
        options: &'a AnalyzeOptions,
        replay: &'a [jarvis_report::ReplayEntry],
    ) -> Run<'a> {
        let Self { report, analysis, summary, .. } = self;
        Run { analysis, report, sheets: &sheets.all, summary, labels: &options.labels, replay }
    }
}

/// Compares a target with a reference.
pub fn compare_traces(traces: Both<&Trace>, options: Both<&AnalyzeOptions>) -> Result<ComparedTraces, AnalyzeError> {
    compare_traces_watched(traces, options, &[], &Unwatched, Files::default())
}

/// Compares a target with a reference, checks limits, tells how it goes on, and adds the files to these.
pub fn compare_traces_watched(
    traces: Both<&Trace>,
    options: Both<&AnalyzeOptions>,
    gates: &[Gate],
    progress: &dyn Progress,
    mut files: Files,
) -> Result<ComparedTraces, AnalyzeError> {
    let mut clock = StageClock::new(progress, "sides");
    let (reference, target) =
        both(|| Side::of(traces.reference, options.reference), || Side::of(traces.target, options.target));
    let (reference, mut target) = (reference.map_err(AnalyzeError::Reference)?, target?);
    clock.then("comparison");
    let mut comparative = Comparative::of(&reference.analysis, &target.analysis);
    comparative.check(gates);
    clock.then("replay_packages");
    let further: Vec<String> = comparative.gaps.iter().flat_map(|gap| gap.replay.iter().cloned()).collect();
    let chosen = replay::choose(traces.target, &target.report, &target.analysis, &options.target.replay, &further);
    let replay = replay::replay(chosen, &mut target.analysis)?;
    clock.then("reports");
    let stems = Stems::of(&target.analysis);
    let ops = OpsCsv::of(&target.analysis.prepared, &stems);
    let sheets = Both {
        reference: Sheets::of(Sheet::of(&reference.tables), "reference_"),
        target: Sheets::of(Sheet::of(&target.tables), "target_").with(ops),
    };
    let made = std::thread::scope(|scope| {
        let (more, further) = (files.more(), files.more());
        let of_reference = beside(scope, || sheets.reference.make(more));
        let of_target = beside(scope, || sheets.target.make(further));
        let versus = Versus {
            reference: reference.run(&sheets.reference, options.reference, &[]),
            target: target.run(&sheets.target, options.target, &replay.entries),
            comparative: &comparative,
        };
        files.put_all(data::compared_files(&versus));
        files.put_all(sections::compared_files(&versus));
        clock.then("page");
        let linked = linked(files.paths(), &sheets.target);
        files.put(html::compared_page(&versus, traces, &linked));
        clock.then("comparison_workbook");
        let (both, mut cuts) = workbook(&reference.tables, &target.tables)?;
        files.put(both);
        clock.then("sheets");
        for sheets in [of_reference, of_target] {
            let (more, cut) = sheets.joined()?;
            files.append(more);
            cuts += cut;
        }
        Ok::<_, AnalyzeError>(cuts)
    });
    drop(sheets);
    let cuts = made?;
    files.put_all(replay.files);
    Ok(ComparedTraces {
        analyses: Both { reference: reference.analysis, target: target.analysis },
        reports: Both { reference: reference.report, target: target.report },
        comparative,
        files,
        cuts,
        replay_missed: replay.missed,
        stages: clock.finish(),
    })
}

/// Sheets that come in parts, and what the parts are called in this workbook: with the word for the part and the side,
/// their own names are longer than a sheet's can be.
const SHORT_NAMES: [(&str, &str); 2] = [("ops_unique_args_", "ops_all_"), ("unified_perf_summary_", "unified_")];

/// Both performance reports side by side; the reference is the baseline.
fn workbook(reference: &[Table], target: &[Table]) -> Result<(OutputFile, xlsx::Cuts), AnalyzeError> {
    let groups = vec![SheetGroup::GpuTimeline, SheetGroup::OpsSummary, SheetGroup::OpsAll];
    let options = CompareOptions { groups, ..CompareOptions::default() };
    let reports = [NamedReport { tag: "reference", tables: reference }, NamedReport { tag: "target", tables: target }];
    let mut comparison = compare_tables(&reports, &options)?;
    for table in &mut comparison.tables {
        for (long, short) in SHORT_NAMES {
            if let Some(part) = table.name.strip_prefix(long) {
                table.name = format!("{short}{part}");
            }
        }
    }
    let rendered = xlsx::render_hiding(&comparison.tables, &comparison.hidden)
        .map_err(|error| AnalyzeError::Workbook(error.to_string()))?;
    Ok((OutputFile { path: WORKBOOK.into(), bytes: rendered.bytes }, rendered.cuts))
}

//! `jarvis analyze`: the main job. Reads a trace, judges it, writes the output folder, prints one screen.

mod questions;
mod summary;
mod versus;

use std::collections::BTreeSet;
use std::io::{self, IsTerminal as _, Write as _};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::Report;
use jarvis_report::check::Problem;
use jarvis_report::render::xlsx::Cuts;
use jarvis_report::{OutputFile, RunLabels};
use jarvis_trace::Trace;
use serde_json::json;

use super::platform_args::PlatformArgs;
use super::report::{FOLDER, beside, extension};
use super::sheets::warn_of_cuts;
use super::style::Style;
use super::{Failure, Session, Work};
use crate::exit;
use crate::output::{self, Batch};
use crate::pipeline::{AnalyzeError, AnalyzeOptions, ReplayChoice, analyze};

/// The machine form of the result.
const FINDINGS: &str = "findings.json";
/// Timings and warnings: the one file that differs between runs.
const RUN_LOG: &str = "run_log.json";

/// A real recording: two steps of a small Llama with eager attention on an H200.
const DEMO_TRACE: &[u8] = include_bytes!("../../assets/demo.json.gz");
/// What it is called in its reports.
const DEMO_NAME: &str = "demo_llama_h200.json.gz";
/// Where it was recorded.
const DEMO_PLATFORM: &str = "H200";

#[derive(Debug, Args)]
#[command(after_help = "\
Writes the output folder (default: analysis_output beside the trace):
  report.html                     everything on one page, for a browser; no network is needed
  standalone_analysis_fair.md     the report for everyone
  standalone_analysis_rough.md    the working record
  findings.json                   the same for programs
  improvement.svg, roofline.svg   pictures for Markdown
  perf_report.xlsx, perf_report_csvs/, category_data/, category_findings/, system_findings/, metadata/

With --reference the target is compared with another trace instead: comparative_analysis_fair.md, _rough.md, \
comparison.xlsx, both performance reports, category_data/comparison_metrics.json.

In a terminal, what is missing is asked for.

Examples:
  jarvis analyze trace.json.gz                               platform taken from the trace
  jarvis analyze trace.json.gz --platform MI300X -o out
  jarvis analyze after.json.gz --reference before.json.gz --fail-on slowdown=5%
  jarvis analyze mi300.json.gz --reference h100.json.gz --reference-platform H100
  jarvis analyze trace.json.gz --json | jq '.findings[0]'    what to change first, for a program
  jarvis analyze trace.json.gz --thresholds limits.json      other limits (jarvis explain thresholds lists them)")]
pub(crate) struct AnalyzeArgs {
    /// Trace file, plain or gzipped JSON; `-` for standard input
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Output folder [default: `analysis_output` beside the trace]
    #[arg(long, short, value_name = "DIR", visible_alias = "output-dir")]
    output: Option<PathBuf>,
    /// What the model is called in the reports [default: inferred from the trace]
    #[arg(long, value_name = "NAME")]
    model_name: Option<String>,
    /// File with models and categories of your own (jarvis.toml beside the trace is read by itself)
    #[arg(long, value_name = "FILE")]
    extension: Option<PathBuf>,
    /// File with other limits for the rules (JSON or TOML)
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,
    /// Which replay packages to write: `auto`, `none`, `all`, or names of operations with commas between
    #[arg(long, value_name = "WHICH", default_value = "auto")]
    replay: ReplayChoice,
    #[command(flatten)]
    reference: versus::ReferenceArgs,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    labels: LabelArgs,
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Labels")]
struct LabelArgs {
    /// Where the trace was recorded, as the reports should say it
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The container it was recorded in, as the reports should say it
    #[arg(long, value_name = "NAME")]
    container: Option<String>,
}

/// What is needed before the work can begin.
struct Inputs {
    trace: PathBuf,
    folder: PathBuf,
    labels: LabelArgs,
    platform: PlatformArgs,
}

pub(crate) fn run(session: &Session, args: &AnalyzeArgs) -> Result<(), Failure> {
    let began = Instant::now();
    let mut inputs = inputs(session, args)?;
    output::probe(&inputs.folder)?;
    let extension = extension(session, &inputs.trace, args.extension.as_deref(), false)?;
    let thresholds = thresholds(args.thresholds.as_deref())?;
    // A platform that can't be used is told before the trace is read.
    inputs.platform.named()?;
    if args.reference.is_given() {
        return versus::run(session, args, &inputs, extension.as_ref(), &thresholds);
    }
    let trace = ManuallyDrop::new(session.open(&inputs.trace, Work::Analysis)?);
    let read = began.elapsed();
    let mut chosen = inputs.platform.choose(&trace)?;
    if chosen.platform.is_none() && questions::can_ask(session) {
        inputs.platform.platform = Some(questions::platform(chosen.doubt.as_deref())?);
        chosen = inputs.platform.choose(&trace)?;
    }
    let Some(platform) = chosen.platform else {
        return Err(Failure::usage(chosen.doubt.unwrap_or_else(|| "no platform is known".to_owned()))
            .help("`jarvis platforms` lists the platforms and tells how to describe another one"));
    };
    if let Some(doubt) = &chosen.doubt {
        session.warn(doubt);
    }
    let labels = labels(args, &inputs);
    let options = AnalyzeOptions { platform, labels, extension, thresholds, replay: args.replay.clone() };
    finish(session, &trace, &options, &inputs.folder, read)
}

/// What the user said about the run.
fn labels(args: &AnalyzeArgs, inputs: &Inputs) -> RunLabels {
    RunLabels {
        trace_path: inputs.trace.to_string_lossy().into_owned(),
        cluster: inputs.labels.cluster.clone(),
        container: inputs.labels.container.clone(),
        model_name: args.model_name.clone(),
        flags: flags(args),
    }
}

/// The same on the trace that comes with the binary.
pub(crate) fn demo(session: &Session, folder: &Path) -> Result<(), Failure> {
    let began = Instant::now();
    output::probe(folder)?;
    let trace = Trace::read(DEMO_TRACE, DEMO_NAME, &session.read_options(Work::Analysis))?;
    let read = began.elapsed();
    let platform = Platform::find(DEMO_PLATFORM)?.clone();
    let labels = RunLabels { trace_path: DEMO_NAME.to_owned(), ..RunLabels::default() };
    let options = AnalyzeOptions {
        platform,
        labels,
        extension: None,
        thresholds: Thresholds::default(),
        replay: ReplayChoice::Auto,
    };
    finish(session, &trace, &options, folder, read)
}

/// From the trace to the output folder and the summary.
fn finish(
    session: &Session,
    trace: &Trace,
    options: &AnalyzeOptions,
    folder: &Path,
    read: Duration,
) -> Result<(), Failure> {
    let mut analyzed = ManuallyDrop::new(analyze(trace, options)?);
    analyzed.stages.insert(0, ("read", read));
    let files = std::mem::take(&mut analyzed.files);
    let log = Log {
        stages: &analyzed.stages,
        analysis: &analyzed.analysis,
        reports: &[&analyzed.report],
        self_check: &analyzed.self_check,
    };
    let findings = write(session, folder, files, analyzed.cuts, &log)?;
    let mut out = io::stdout().lock();
    if session.common.json {
        out.write_all(&findings)?;
    } else {
        let style = Style::of(&io::stdout());
        let view = summary::View { trace, folder, analyzed: &analyzed, options };
        out.write_all(view.text(style).as_bytes())?;
    }
    out.flush()?;
    session.report(Path::new(&options.labels.trace_path), &analyzed.report.diagnostics)?;
    failed_categories(session, &analyzed.analysis)
}

/// The trace and the folder, asked for if need be.
fn inputs(session: &Session, args: &AnalyzeArgs) -> Result<Inputs, Failure> {
    let (labels, platform) = (args.labels.clone(), args.platform.clone());
    let folder = |trace: &Path| args.output.clone().unwrap_or_else(|| beside(trace).join(FOLDER));
    match &args.trace {
        Some(trace) => Ok(Inputs { folder: folder(trace), trace: trace.clone(), labels, platform }),
        None if questions::can_ask(session) => questions::inputs(args),
        None => Err(Failure::usage("no trace is named: TRACE is missing")
            .help("for example: jarvis analyze trace.json.gz; in a terminal jarvis asks for what is missing")),
    }
}

fn thresholds(path: Option<&Path>) -> Result<Thresholds, Failure> {
    let Some(path) = path else { return Ok(Thresholds::default()) };
    Thresholds::from_text(&super::read_text(path)?)
        .map_err(|error| Failure::usage(format!("{}: {error}", path.display())).help(error.help()))
}

/// Options that change results, as reports repeat them.
fn flags(args: &AnalyzeArgs) -> Vec<String> {
    let mut flags = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        flags.extend(value.map(|value| format!("--{name} {value}")));
    };
    let file = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
    add("platform", args.platform.platform.clone());
    add("arch", file(&args.platform.arch));
    add("extension", file(&args.extension));
    add("thresholds", file(&args.thresholds));
    add("model-name", args.model_name.clone());
    args.reference.flags(&mut add);
    flags
}

/// What the log of a run tells.
struct Log<'a> {
    stages: &'a [(&'static str, Duration)],
    analysis: &'a Analysis,
    reports: &'a [&'a Report],
    /// What the run's own check of its files found.
    self_check: &'a [Problem],
}

/// Writes the folder, all of it or nothing, and returns the machine form of the findings.
fn write(
    session: &Session,
    folder: &Path,
    files: Vec<OutputFile>,
    cuts: Cuts,
    log: &Log<'_>,
) -> Result<Vec<u8>, Failure> {
    warn_of_cuts(session, cuts);
    if let Some(first) = log.self_check.first() {
        // The files are of use all the same; whoever runs our tests sees it on standard error.
        let more = log.self_check.len() - 1;
        session.warn(&format!("a fault of jarvis, please report it: {first} (and {more} more in {RUN_LOG})"));
    }
    let findings = files.iter().find(|f| f.path == Path::new(FINDINGS)).map(|f| f.bytes.clone()).unwrap_or_default();
    let names: BTreeSet<PathBuf> = files.iter().map(|f| f.path.clone()).collect();
    let mut batch = Batch::default();
    for file in files {
        batch.add(folder, file)?;
    }
    batch.add(folder, OutputFile::new(RUN_LOG, run_log(log, &names)))?;
    // Results of another trace or of other options would look like results of this run.
    batch.replaces(folder, listed);
    batch.write()?;
    Ok(findings)
}

/// Files that an earlier run into the folder says it wrote.
fn listed(folder: &Path) -> Vec<PathBuf> {
    let text = std::fs::read(folder.join(RUN_LOG)).unwrap_or_default();
    let log: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let files = log["files"].as_array().into_iter().flatten();
    files.filter_map(|name| Some(PathBuf::from(name.as_str()?))).collect()
}

fn run_log(log: &Log<'_>, files: &BTreeSet<PathBuf>) -> Vec<u8> {
    let stages: Vec<_> =
        log.stages.iter().map(|(name, took)| json!({"stage": name, "ms": took.as_micros() as f64 / 1e3})).collect();
    let failures: Vec<_> = log.analysis.failures().map(|o| &*o.category).collect();
    let diagnostics: Vec<_> = log
        .reports
        .iter()
        .flat_map(|report| report.diagnostics.seen())
        .map(|(d, count, _)| json!({"id": d.id, "count": count, "meaning": d.meaning, "remedy": d.remedy}))
        .collect();
    let log = json!({
        "schema_version": 1,
        "version": env!("CARGO_PKG_VERSION"),
        "stages": stages,
        "failed_categories": failures,
        "warnings": log.analysis.warnings,
        "data_quality": diagnostics,
        "self_check": log.self_check,
        "files": files.iter().map(|f| f.to_string_lossy().replace('\\', "/")).collect::<Vec<_>>(),
    });
    format!("{log:#}\n").into_bytes()
}

/// A category that failed is told, and a failure of the command if the user asked for that.
fn failed_categories(session: &Session, analysis: &Analysis) -> Result<(), Failure> {
    let failed: Vec<&str> = analysis.failures().map(|o| &*o.display).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let what = format!("left out because its analysis failed: {}", failed.join(", "));
    session.warn(&what);
    if session.common.strict {
        return Err(Failure::new(exit::GATE, what).help("run without --strict to use what is there"));
    }
    Ok(())
}

impl From<AnalyzeError> for Failure {
    fn from(error: AnalyzeError) -> Self {
        match error {
            AnalyzeError::Report(error) => error.into(),
            error => Self::new(exit::OUTPUT, error.to_string()),
        }
    }
}

/// Whether both ends of the conversation are a person.
fn is_conversation() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

//! `jarvis analyze`: the main job. Reads a trace, judges it, writes the output folder, prints one screen.

mod destination;
mod questions;
mod summary;
mod versus;

use std::io::{self, IsTerminal as _};
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::texts::counted;
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportError, require_gpu_work};
use jarvis_report::RunLabels;
use jarvis_trace::Trace;

pub(super) use self::destination::file_entry;
use self::destination::{Log, Output};
use super::platform_args::PlatformArgs;
use super::remote::{self, PlaceArgs};
use super::replay::How;
use super::report::{FOLDER, beside, extension, unreportable};
use super::{Failure, Outlet, Session, Stages, Work, info, resident};
use crate::exit;
use crate::output::{self, Batch};
use crate::pipeline::{AnalyzeError, AnalyzeOptions, Emit, Files, ReplayChoice, analyze_watched, quick_check};

/// The machine form of the result.
pub(super) const FINDINGS: &str = "findings.json";
/// Timings and warnings: the one file that differs between runs.
pub(super) const RUN_LOG: &str = "run_log.json";

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

With --emit analysis-md also analysis.md, priority_data.json, and, where there are recommendations, \
perf_improvement.png and perf_improvement_base64.txt.

With --reference the target is compared with another trace instead: report.html with both sides, \
comparative_analysis_fair.md, _rough.md, comparison.xlsx, both performance reports, category_data/comparison_metrics.json.

With --cluster HOST the analysis runs on that host, where the trace lies, over your own ssh; with --container NAME in a \
running container of it (or of this machine). TRACE and TRACE2 are then paths of that machine, relative to your home \
there; all other files are of this machine, and so is the output folder (default: analysis_output in the current \
folder). jarvis is copied there for the run if it is not installed, and removed afterwards.

In a terminal, what is missing is asked for.

Examples:
  jarvis analyze trace.json.gz                               platform taken from the trace
  jarvis analyze trace.json.gz --platform MI300X -o out
  jarvis analyze after.json.gz --reference before.json.gz --fail-on slowdown=5%
  jarvis analyze mi300.json.gz --reference h100.json.gz --reference-platform H100
  jarvis analyze trace.json.gz --json | jq '.findings[0]'    what to change first, for a program
  jarvis analyze trace.json.gz --thresholds limits.json      other limits (jarvis explain thresholds lists them)
  jarvis analyze runs/trace.json.gz --cluster gpu1           on gpu1, with the trace in ~/runs there
  jarvis analyze /data/t.json --cluster me@gpu1 --container train -o out
  JARVIS_SSH='ssh -F my_config' jarvis analyze /data/t.json --cluster gpu1")]
pub(crate) struct AnalyzeArgs {
    /// Trace file, plain or gzipped JSON; `-` for standard input
    #[arg(value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Output folder [default: `analysis_output` beside the trace]
    #[arg(long, short, value_name = "DIR", visible_alias = "output-dir")]
    output: Option<PathBuf>,
    /// What the model is called in the reports [default: inferred from the trace]
    #[arg(long, value_name = "NAME", value_parser = visible)]
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
    /// Compare the names of --replay whole or take any name that contains the text, capitals or not
    #[arg(long, value_name = "HOW", value_enum, default_value_t = How::Whole, requires = "replay")]
    replay_match: How,
    /// Write more files: `analysis-md` for one report of cards with scores, its data and a plot; may be repeated
    #[arg(long, value_name = "WHAT")]
    emit: Vec<Emit>,
    #[command(flatten)]
    reference: versus::ReferenceArgs,
    #[command(flatten)]
    platform: PlatformArgs,
    #[command(flatten)]
    place: PlaceArgs,
    #[command(flatten)]
    labels: LabelArgs,
}

/// A name that can be seen in a title.
fn visible(name: &str) -> Result<String, String> {
    if name.chars().any(char::is_alphanumeric) {
        Ok(name.to_owned())
    } else {
        Err("a name needs a letter or a digit; without the option it is inferred from the trace".to_owned())
    }
}

impl AnalyzeArgs {
    /// Which replay packages to write, with how names are compared.
    fn replay(&self) -> ReplayChoice {
        match self.replay.clone() {
            ReplayChoice::Ops(names) if self.replay_match == How::Contains => ReplayChoice::Containing(names),
            choice => choice,
        }
    }

    /// `~` in the names of traces, which no shell has expanded if they came from another machine.
    pub(crate) fn expand_home(&mut self, home: Option<&Path>) {
        for trace in [&mut self.trace, &mut self.reference.reference].into_iter().flatten() {
            *trace = remote::expanded(trace, home);
        }
    }
}

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Labels")]
struct LabelArgs {
    /// Where the trace was recorded, as the reports should say it [default: HOST of --cluster]
    #[arg(long, value_name = "NAME")]
    cluster_label: Option<String>,
    /// The container it was recorded in, as the reports should say it [default: NAME of --container]
    #[arg(long, value_name = "NAME")]
    container_label: Option<String>,
}

impl LabelArgs {
    /// What is not said is where the analysis runs.
    fn or_of(self, place: &PlaceArgs) -> Self {
        Self {
            cluster_label: self.cluster_label.or_else(|| place.cluster.as_ref().map(ToString::to_string)),
            container_label: self.container_label.or_else(|| place.container.as_ref().map(ToString::to_string)),
        }
    }
}

/// What is needed before the work can begin.
struct Inputs {
    trace: PathBuf,
    folder: PathBuf,
    labels: LabelArgs,
    platform: PlatformArgs,
    place: PlaceArgs,
}

pub(crate) fn run(session: &Session, args: &AnalyzeArgs) -> Result<(), Failure> {
    resident::settle();
    let began = Instant::now();
    if args.reference.is_given() && !args.emit.is_empty() {
        return Err(Failure::usage("--emit tells of one trace alone, and --reference compares two")
            .help("leave one of them out, or run jarvis once for each trace"));
    }
    let mut inputs = inputs(session, args)?;
    if matches!(session.outlet, Outlet::Here) {
        output::probe(&inputs.folder)?;
    }
    if !inputs.place.is_here() {
        return elsewhere(session, args, &inputs);
    }
    let extension = extension(session, &inputs.trace, args.extension.as_deref(), false)?;
    let thresholds = thresholds(args.thresholds.as_deref())?;
    // A platform that can't be used is told before the trace is read.
    inputs.platform.named()?;
    if args.reference.is_given() {
        return versus::run(session, args, &inputs, extension.as_ref(), &thresholds);
    }
    let trace = session.open(&inputs.trace, Work::Analysis)?;
    let read = began.elapsed();
    if !trace.has_gpu_events()
        && let Err(error) = require_gpu_work(&trace)
    {
        return Err(host_alone(session, &inputs.trace, &trace, error));
    }
    let mut chosen = inputs.platform.choose(&trace)?;
    if chosen.platform.is_none() {
        // Whoever is asked for a platform must not learn after that that there is nothing to measure.
        require_gpu_work(&trace).map_err(|error| unreportable(&trace, error))?;
    }
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
    session.log(1, || format!("measured against {}", platform.name));
    let labels = labels(args, &inputs);
    let options =
        AnalyzeOptions { platform, labels, extension, thresholds, replay: args.replay(), emit: args.emit.clone() };
    let output = Output::to(session, &inputs.folder, inputs_of(args, &inputs));
    finish(&output, trace, &options, read)
}

/// Without GPU events there is nothing to analyse: what the host did is told, and why there is no more.
fn host_alone(session: &Session, path: &Path, trace: &Trace, error: ReportError) -> Failure {
    // Whoever reads JSON waits for findings.
    let may_tell = error.is_host_alone() && !session.common.json;
    let told = if may_tell { info::tell(session, path, trace).map(drop) } else { Ok(()) };
    // A reader that went away takes nothing from why there is no more.
    told.err().filter(|failure| !failure.is_told()).unwrap_or_else(|| unreportable(trace, error))
}

/// Files of this machine that the results are made of.
fn inputs_of<'a>(args: &'a AnalyzeArgs, inputs: &'a Inputs) -> Vec<&'a Path> {
    let others = [&args.reference.reference, &args.extension, &args.thresholds, &inputs.platform.arch];
    std::iter::once(inputs.trace.as_path()).chain(others.into_iter().flatten().map(PathBuf::as_path)).collect()
}

/// The same on another machine or in a container; what comes back is written and told as if it had run here.
fn elsewhere(session: &Session, args: &AnalyzeArgs, inputs: &Inputs) -> Result<(), Failure> {
    // What can't be used is told before anybody has to type a password.
    thresholds(args.thresholds.as_deref())?;
    inputs.platform.named()?;
    let job = remote::Job {
        place: &inputs.place,
        trace: &inputs.trace,
        reference: args.reference.reference.as_deref(),
        folder: &inputs.folder,
        platform: inputs.platform.platform.as_deref(),
        cluster_label: inputs.labels.cluster_label.as_deref(),
        container_label: inputs.labels.container_label.as_deref(),
    };
    let outcome = remote::analyze(session, &job)?;
    if !outcome.files.is_empty() {
        let own = [&args.extension, &args.thresholds, &inputs.platform.arch];
        let own = own.into_iter().flatten().map(PathBuf::as_path).collect();
        Output::to(session, &inputs.folder, own).publish(&Files::from(outcome.files), None)?;
    }
    session.print(&outcome.out)?;
    if outcome.status == exit::OK { Ok(()) } else { Err(Failure::told(outcome.status)) }
}

/// What the user said about the run.
fn labels(args: &AnalyzeArgs, inputs: &Inputs) -> RunLabels {
    RunLabels {
        trace_path: inputs.trace.to_string_lossy().into_owned(),
        cluster: inputs.labels.cluster_label.clone(),
        container: inputs.labels.container_label.clone(),
        model_name: args.model_name.clone(),
        flags: flags(args),
    }
}

/// The same on the trace that comes with the binary.
pub(crate) fn demo(session: &Session, folder: &Path, save: Option<&Path>) -> Result<(), Failure> {
    let began = Instant::now();
    output::probe(folder)?;
    if let Some(path) = save {
        let mut batch = Batch::default();
        batch.add_at(path.to_path_buf(), DEMO_TRACE.to_vec())?;
        batch.write()?;
    }
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
        emit: Vec::new(),
    };
    finish(&Output::to(session, folder, save.into_iter().collect()), trace, &options, read)?;
    if !session.common.json && !session.common.quiet {
        let style = session.style();
        let what = style.faint("this trace as a file, for `jarvis tree` and others");
        let next = format!(
            "\n{}\n  jarvis analyze trace.json.gz               {}\n  jarvis demo --save-trace demo.json.gz      {what}\n",
            style.strong("Next"),
            style.faint("a trace of your own")
        );
        session.print(next.as_bytes())?;
    }
    Ok(())
}

/// From the trace to the output folder and the summary.
fn finish(output: &Output<'_>, trace: Trace, options: &AnalyzeOptions, read: Duration) -> Result<(), Failure> {
    let (session, folder) = (output.session, output.folder);
    let analyzed = analyze_watched(trace, options, &Stages::new(session), output.files());
    let mut analyzed = ManuallyDrop::new(analyzed.map_err(|error| output.failure(error))?);
    analyzed.stages.insert(0, ("read", read));
    let files = std::mem::take(&mut analyzed.files);
    let replayed = has_package(&files);
    let log =
        Log { stages: &analyzed.stages, analysis: &analyzed.analysis, diagnostics: &[&analyzed.report.diagnostics] };
    log_analysis(session, &analyzed.analysis);
    let (findings, checked) = output.write(&files, analyzed.cuts, &log, quick_check)?;
    if session.common.json {
        session.print(&findings)?;
    } else {
        let view = summary::View { folder, analyzed: &analyzed, options };
        session.print_text(&view.text(session.style()))?;
    }
    warn_of_replay(session, &options.replay, replayed, &analyzed.replay_missed);
    checked.outcome()?;
    session.report(Path::new(&options.labels.trace_path), &analyzed.report.diagnostics)?;
    failed_categories(session, &analyzed.analysis)
}

/// Whether a replay package is among the files.
fn has_package(files: &Files) -> bool {
    files.paths().any(|path| path.extension().is_some_and(|e| e == "zip"))
}

/// Tells of operations that the user named and that got no package: there are none, or none can be made of them.
fn warn_of_replay(session: &Session, choice: &ReplayChoice, replayed: bool, missed: &[String]) {
    if !missed.is_empty() {
        let names = missed.join(", ");
        session.warn(&format!("no operation is called {names}: `jarvis replay TRACE --list` shows what there is"));
    }
    let there: Vec<&str> = choice.names().iter().filter(|name| !missed.contains(name)).map(String::as_str).collect();
    if !replayed && !there.is_empty() {
        let names = there.join(", ");
        session.warn(&format!("no replay package was made of {names}: `jarvis replay TRACE --list` tells why"));
    }
}

/// Tells what came of the stages.
fn log_analysis(session: &Session, analysis: &Analysis) {
    for outcome in &analysis.outcomes {
        let bottlenecks = outcome.metrics().map_or(0, |m| m.bottlenecks.len());
        session.log(2, || format!("category {}: {}", outcome.display, counted(bottlenecks, "bottleneck")));
    }
    let [findings, warnings] = [(analysis.findings.len(), "finding"), (analysis.warnings.len(), "warning")];
    session.log(1, || format!("{}, {}", counted(findings.0, findings.1), counted(warnings.0, warnings.1)));
}

/// The trace and the folder, asked for if need be.
fn inputs(session: &Session, args: &AnalyzeArgs) -> Result<Inputs, Failure> {
    let (platform, place) = (args.platform.clone(), args.place.clone());
    let folder = |trace: &Path| args.output.clone().unwrap_or_else(|| usual_folder(trace, &place));
    match &args.trace {
        Some(trace) => {
            let labels = args.labels.clone().or_of(&place);
            Ok(Inputs { folder: folder(trace), trace: trace.clone(), labels, platform, place })
        }
        None if questions::can_ask(session) => questions::inputs(args),
        None => Err(Failure::usage("no trace is named: TRACE is missing")
            .help("for example: jarvis analyze trace.json.gz; in a terminal jarvis asks for what is missing")),
    }
}

/// Where results go if nothing is said: beside the trace, or here if that is elsewhere.
fn usual_folder(trace: &Path, place: &PlaceArgs) -> PathBuf {
    if place.is_here() { beside(trace).join(FOLDER) } else { PathBuf::from(FOLDER) }
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
    args.platform.figures("", &mut add);
    add("extension", file(&args.extension));
    add("thresholds", file(&args.thresholds));
    add("model-name", args.model_name.clone());
    args.reference.flags(&mut add);
    flags
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
            AnalyzeError::Reference(ref cause) => Self::new(exit::INPUT, error.to_string()).help(cause.help()),
            error => Self::new(exit::OUTPUT, error.to_string()),
        }
    }
}

/// Whether both ends of the conversation are a person.
fn is_conversation() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

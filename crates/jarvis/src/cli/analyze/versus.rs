//! `jarvis analyze --reference`: a target against a reference.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use jarvis_analyze::comparative::{Both, Checked, Gate, Outcome};
use jarvis_analyze::rounding::{shown, shown_ms};
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::extension::Extension;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ReportError, require_gpu_work};
use jarvis_report::RunLabels;
use jarvis_trace::{Trace, side_by_side, spelled};

use super::destination::{Log, Output};
use super::{
    AnalyzeArgs, Inputs, failed_categories, has_package, inputs_of, labels, log_analysis, questions, warn_of_replay,
};
use crate::cli::harmless::harmless;
use crate::cli::platform_args::{PlatformArgs, unknown_device};
use crate::cli::style::Style;
use crate::cli::values::figure;
use crate::cli::{Failure, Session, Stages, Work};
use crate::exit;
use crate::pipeline::{AnalyzeError, AnalyzeOptions, compare_traces_watched, self_check};

mod summary;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Comparison")]
pub(super) struct ReferenceArgs {
    /// Compare with this trace: it shows what is achievable, TRACE is to be improved
    #[arg(long, value_name = "TRACE2")]
    pub(super) reference: Option<PathBuf>,
    /// GPU of the reference [default: from its trace]
    #[arg(long, value_name = "NAME", requires = "reference", conflicts_with = "reference_arch")]
    reference_platform: Option<String>,
    /// File with the peak figures of the reference's GPU
    #[arg(long, value_name = "FILE", requires = "reference")]
    reference_arch: Option<PathBuf>,
    /// Memory bandwidth of the reference in TB/s
    #[arg(long, value_name = "X", requires = "reference", value_parser = figure, allow_negative_numbers = true)]
    reference_peak_hbm_tbs: Option<f64>,
    /// Matrix rate of the reference for bf16 and fp16 in TFLOPS
    #[arg(long, value_name = "X", requires = "reference", value_parser = figure, allow_negative_numbers = true)]
    reference_peak_maf_tflops: Option<f64>,
    /// Device memory of the reference in GB
    #[arg(long, value_name = "X", requires = "reference", value_parser = figure, allow_negative_numbers = true)]
    reference_memory_gb: Option<f64>,
    /// Exit 1 if the target takes this much more time: `slowdown=5%` of all, `gemm=10%` of a category; may be repeated
    #[arg(long, value_name = "NAME=PERCENT", requires = "reference", value_parser = gate)]
    fail_on: Vec<Gate>,
}

/// A limit, with one sign of percent at most.
fn gate(text: &str) -> Result<Gate, String> {
    if text.matches('%').count() > 1 {
        return Err("one % is enough: expected NAME=PERCENT, such as slowdown=5%".to_owned());
    }
    text.parse()
}

impl ReferenceArgs {
    pub(super) fn is_given(&self) -> bool {
        self.reference.is_some()
    }

    fn platform(&self) -> PlatformArgs {
        PlatformArgs {
            platform: self.reference_platform.clone(),
            arch: self.reference_arch.clone(),
            peak_hbm_tbs: self.reference_peak_hbm_tbs,
            peak_maf_tflops: self.reference_peak_maf_tflops,
            memory_gb: self.reference_memory_gb,
        }
    }

    /// Options that change results.
    pub(super) fn flags(&self, add: &mut impl FnMut(&str, Option<String>)) {
        let file = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
        add("reference", file(&self.reference));
        add("reference-platform", self.reference_platform.clone());
        add("reference-arch", file(&self.reference_arch));
        self.platform().figures("reference-", add);
    }
}

/// Compares, writes the folder, prints one screen, and fails if a limit does not hold.
pub(super) fn run(
    session: &Session,
    args: &AnalyzeArgs,
    inputs: &Inputs,
    extension: Option<&Extension>,
    thresholds: &Thresholds,
) -> Result<(), Failure> {
    let began = Instant::now();
    let Some(reference) = &args.reference.reference else { return Ok(()) };
    let paths = Both { reference: reference.as_path(), target: inputs.trace.as_path() };
    let stdin = Path::new("-");
    if paths.reference == stdin && paths.target == stdin {
        return Err(Failure::usage("both traces can't be read from standard input").help("name one of them as a file"));
    }
    for gate in &args.reference.fail_on {
        gate.known(extension).map_err(|what| Failure::usage(what).help("see --fail-on in `jarvis analyze --help`"))?;
    }
    let mut platforms = Both { reference: args.reference.platform(), target: inputs.platform.clone() };
    platforms.reference.named()?;
    let traces = open(session, paths)?;
    let read = began.elapsed();
    let options = |platform: &mut PlatformArgs, trace: &Trace, labels: RunLabels, side: &Side| {
        let platform = chosen(session, platform, trace, side)?;
        let (extension, thresholds) = (extension.cloned(), thresholds.clone());
        let replay = args.replay();
        Ok::<_, Failure>(AnalyzeOptions { platform, labels, extension, thresholds, replay, emit: Vec::new() })
    };
    let said = RunLabels { trace_path: reference.to_string_lossy().into_owned(), ..RunLabels::default() };
    let options = Both {
        reference: options(&mut platforms.reference, &traces.reference, said, &REFERENCE)?,
        target: options(&mut platforms.target, &traces.target, labels(args, inputs), &TARGET)?,
    };
    let output = Output::to(session, &inputs.folder, inputs_of(args, inputs));
    let stages = Stages::new(session);
    let made =
        compare_traces_watched(traces.as_ref(), options.as_ref(), &args.reference.fail_on, &stages, output.files());
    let mut made = made.map_err(|error| output.failure(error))?;
    made.stages.insert(0, ("read", read));
    let files = std::mem::take(&mut made.files);
    let replayed = has_package(&files);
    let log = Log {
        stages: &made.stages,
        analysis: &made.analyses.target,
        diagnostics: &[&made.reports.reference.diagnostics, &made.reports.target.diagnostics],
    };
    log_analysis(session, &made.analyses.target);
    let (findings, checked) = output.write(&files, made.cuts, &log, self_check)?;
    if session.common.json {
        session.print(&findings)?;
    } else {
        let view = summary::View { paths, folder: &inputs.folder, made: &made, options: options.as_ref() };
        session.print_text(&view.text(session.style()))?;
    }
    warn_of_replay(session, &args.replay(), replayed, &made.replay_missed);
    checked.outcome()?;
    session.report(paths.reference, &made.reports.reference.diagnostics)?;
    session.report(paths.target, &made.reports.target.diagnostics)?;
    failed_categories(session, &made.analyses.target)?;
    gates(&made.comparative.gates)
}

/// Reads both traces side by side.
fn open(session: &Session, paths: Both<&Path>) -> Result<Both<Trace>, Failure> {
    let open = |path| session.open_one_of_two(path, Work::Analysis);
    let (reference, target) = side_by_side::both(|| open(paths.reference), || open(paths.target));
    Ok(Both { reference: reference?, target: target? })
}

/// What a side is called, how its options begin, and what it means if there is nothing in it.
struct Side {
    name: &'static str,
    prefix: &'static str,
    unusable: fn(ReportError) -> AnalyzeError,
}

const REFERENCE: Side = Side { name: "the reference", prefix: "reference-", unusable: AnalyzeError::Reference };
const TARGET: Side = Side { name: "the target", prefix: "", unusable: AnalyzeError::Report };

/// The platform of a side.
fn chosen(session: &Session, args: &mut PlatformArgs, trace: &Trace, side: &Side) -> Result<Platform, Failure> {
    let mut chosen = args.choose(trace)?;
    if chosen.platform.is_none() {
        // Whoever is asked for a platform must not learn after that that there is nothing to measure.
        require_gpu_work(trace).map_err(side.unusable)?;
        chosen.doubt = Some(unknown_device(trace, side.name, side.prefix));
    }
    if chosen.platform.is_none() && questions::can_ask(session) {
        args.platform = Some(questions::platform(chosen.doubt.as_deref())?);
        chosen = args.choose(trace)?;
    }
    if let (Some(_), Some(doubt)) = (&chosen.platform, &chosen.doubt) {
        session.warn(&format!("{}: {doubt}", side.name));
    }
    chosen.platform.ok_or_else(|| {
        let what = chosen.doubt.unwrap_or_else(|| "no platform is known".to_owned());
        Failure::usage(what)
            .help(format!("name it with --{}platform; `jarvis platforms` lists the platforms", side.prefix))
    })
}

/// Tells which limits did not hold, row by row, and fails if any did not or can't be told to.
fn gates(checked: &[Checked]) -> Result<(), Failure> {
    let mut text = String::new();
    let (mut broken, mut unknown): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for one in checked {
        let limit = format!("{}={}%", one.gate.what, one.gate.percent);
        match &one.outcome {
            Outcome::Held => {}
            Outcome::Broken => {
                let _ = writeln!(text, "{limit}: {}", side_by_side(one.ms.unwrap_or_default()));
                for (name, ms) in &one.rows {
                    let _ = writeln!(text, "  {}  {}", side_by_side(*ms), spelled(&name.replace('`', "")));
                }
                if one.more_rows > 0 {
                    let _ = writeln!(text, "  {} more", one.more_rows);
                }
                broken.push(limit);
            }
            Outcome::NotComparable(why) => {
                let _ = writeln!(text, "{limit}: {why}");
                unknown.push(limit);
            }
        }
    }
    // Nothing can be done if standard error is gone.
    let _ = io::stderr().write_all(harmless(&text, Style::new(false)).as_bytes());
    let told = [("the target is slower than --fail-on allows", broken), ("--fail-on can't be checked", unknown)];
    let told: Vec<String> =
        told.iter().filter(|(_, l)| !l.is_empty()).map(|(what, l)| format!("{what}: {}", l.join(", "))).collect();
    if told.is_empty() { Ok(()) } else { Err(Failure::new(exit::GATE, told.join("; "))) }
}

/// `9.69 -> 20.01 ms (+106.5%)`.
fn side_by_side(ms: Both<f64>) -> String {
    let percent =
        ms.delta_percent().map_or("new".to_owned(), |p| format!("{}{}%", if p > 0.0 { "+" } else { "" }, shown(p, 1)));
    format!("{} -> {} ms ({percent})", shown_ms(ms.reference), shown_ms(ms.target))
}

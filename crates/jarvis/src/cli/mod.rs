//! The command line: parse, run one command, map the result to an exit status. The only place that knows about
//! terminals, the environment and standard streams.

mod analyze;
mod check;
mod compare;
mod diff;
mod explain;
mod failure;
mod fault;
mod harmless;
mod info;
mod interrupt;
mod layout;
mod manual;
mod memory;
mod model;
mod platform_args;
mod platforms;
mod progress;
mod remote;
mod replay;
mod report;
mod resident;
mod schema;
mod sheets;
mod strangers;
mod style;
mod tree;
mod values;
mod wrong_file;

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use jarvis_analyze::texts::counted;
use jarvis_trace::{Defect, Diagnostics, ReadOptions, Severity, Trace, spelled};

use crate::exit;
use crate::pipeline;
pub(crate) use failure::Failure;
use harmless::harmless;
pub(crate) use memory::Work;
use progress::Progress;
use style::Style;

/// What `--version` tells: version, commit and target.
const LONG_VERSION: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("JARVIS_COMMIT"), ", ", env!("JARVIS_TARGET"), ")");

/// GPU performance analyst for PyTorch profiler traces.
#[derive(Debug, Parser)]
#[command(after_help = "\
Start with `jarvis demo`, or with a trace of your own:
  jarvis analyze trace.json.gz

Exit status: 0 done; 1 a gate did not hold (--strict, --fail-on, check); 2 wrong usage; 3 no usable trace;
4 the output can't be written; 5 the other machine can't be used (--cluster, --container); 70 a fault of jarvis.")]
#[command(name = "jarvis", version, long_version = LONG_VERSION, propagate_version = true, disable_help_subcommand = false, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// Commands that read no trace.
const WITHOUT_TRACE: [&str; 8] = ["check", "compare", "platforms", "model", "explain", "schema", "completions", "man"];
/// Options about reading one.
const OF_READING: [&str; 3] = ["strict", "threads", "max_memory"];

impl Cli {
    /// The command line as it is shown. Commands that read no trace take the options about that, since they stand
    /// before any command too, but do not speak of them.
    fn described() -> clap::Command {
        let command = Self::command();
        let of_reading = command.get_arguments().filter(|arg| OF_READING.contains(&arg.get_id().as_str()));
        let hidden: Vec<clap::Arg> = of_reading.map(|arg| arg.clone().hide(true)).collect();
        WITHOUT_TRACE.iter().fold(command, |command, name| command.mut_subcommand(name, |it| it.args(&hidden)))
    }

    fn parsed(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut command = Self::described();
        let matches = command.try_get_matches_from_mut(words).map_err(|error| without_hidden(error, &command))?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Print the machine form (JSON) instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Print nothing but results and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Tell what is done and how long it takes, on standard error; twice for more
    #[arg(long, short, global = true, action = ArgAction::Count, conflicts_with = "quiet")]
    pub(crate) verbose: u8,
    /// Fail (exit 1) if part of the recording is lost or degraded
    #[arg(long, global = true)]
    pub(crate) strict: bool,
    /// Threads to use; results do not depend on it
    #[arg(long, global = true, value_name = "N", env = "RAYON_NUM_THREADS", hide_env = true, value_parser = values::whole, allow_negative_numbers = true)]
    pub(crate) threads: Option<usize>,
    /// Memory that traces may take, such as 8G or 50% [default: 80% of the machine or container]
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory::Amount::parse)]
    pub(crate) max_memory: Option<memory::Amount>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The main job: where the GPU's time goes, what to change, what each change would bring
    Analyze(Box<analyze::AnalyzeArgs>),
    /// The same on a real trace that comes with jarvis, to see what it does
    Demo(DemoArgs),
    /// What is in a trace: events, devices, streams, steps, capture options, data quality
    Info(info::InfoArgs),
    /// Questions about the call tree
    Tree(tree::TreeArgs),
    /// The performance report: a workbook and CSV files, and a summary
    Report(report::ReportArgs),
    /// Verifies a finished output folder: files, schemas, links, sums, language
    Check(check::CheckArgs),
    /// Finished reports side by side: what changed, in a workbook and CSV files
    Compare(compare::CompareArgs),
    /// Two traces by their call trees: which work differs, and what that costs
    Diff(diff::DiffArgs),
    /// Packages with which slow operations can be run again without the model
    Replay(replay::ReplayArgs),
    /// The hardware figures everything is measured against, and how to add some
    Platforms(platforms::PlatformsArgs),
    /// FLOPs, bytes and roofline time of an operation without a trace
    Model(model::ModelArgs),
    /// What jarvis does with an operation: category, sheet, model
    Explain(explain::ExplainArgs),
    /// The JSON Schemas of the files that `analyze` writes
    Schema(schema::SchemaArgs),
    /// Completions for a shell, to be put where it looks for them
    Completions(manual::CompletionsArgs),
    /// Manual pages, one for each command
    Man(manual::ManArgs),
    /// What `analyze --cluster` runs on the other machine
    #[command(hide = true)]
    RemoteSide(remote::SideArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Analyses two steps of a small Llama recorded on an H200, which comes with the binary.

Examples:
  jarvis demo
  jarvis demo -o somewhere/else
  jarvis demo --save-trace demo.json.gz      the trace too, for `jarvis tree` and the other commands
  jarvis demo --json | jq '.findings[0]'")]
struct DemoArgs {
    /// Output folder
    #[arg(long, short, value_name = "DIR", default_value = "jarvis_demo")]
    output: PathBuf,
    /// Also write the trace itself to this file
    #[arg(long, value_name = "FILE")]
    save_trace: Option<PathBuf>,
}

/// What a command works with.
pub(crate) struct Session {
    pub(crate) common: Common,
    pub(crate) outlet: Outlet,
    progress: Progress,
    began: Instant,
}

/// Where results go.
pub(crate) enum Outlet {
    /// To the disk and the standard output of this machine.
    Here,
    /// To whoever asked this machine for an analysis.
    There(Arc<remote::Peer>),
}

impl Session {
    pub(crate) fn new(common: Common, outlet: Outlet) -> Self {
        let is_seen = match &outlet {
            Outlet::Here => io::stderr().is_terminal(),
            Outlet::There(peer) => peer.has_terminal(),
        };
        let progress = Progress::new(is_seen && !common.quiet);
        Self { common, outlet, progress, began: Instant::now() }
    }

    /// Reads a trace; `-` is standard input. Commands that end with their answer keep it in a `ManuallyDrop`: the
    /// system takes all memory back at once, and faster than piece by piece.
    pub(crate) fn open(&self, path: &Path, work: Work) -> Result<Trace, Failure> {
        self.open_with(path, self.read_options(work))
    }

    /// Reads one of two traces that are needed at once, so each may take half of the memory.
    pub(crate) fn open_one_of_two(&self, path: &Path, work: Work) -> Result<Trace, Failure> {
        let mut options = self.read_options(work);
        options.limits.memory = options.limits.memory.map(|bytes| bytes / 2);
        self.open_with(path, options)
    }

    fn open_with(&self, path: &Path, mut options: ReadOptions) -> Result<Trace, Failure> {
        let began = Instant::now();
        let file = path != Path::new("-");
        let name = if file { path.to_string_lossy() } else { "standard input".into() };
        let short = path.file_name().filter(|_| file).map_or(name.clone(), |f| f.to_string_lossy());
        let len = std::fs::metadata(path).ok().filter(|m| file && m.is_file()).map(|m| m.len());
        let (reading, read) = self.progress.reading(&short, len);
        options.bytes_read = Some(read.clone());
        let trace = if file { Trace::open(path, &options) } else { Trace::read(io::stdin(), &name, &options) };
        drop(reading);
        let trace = trace.map_err(wrong_file::explain)?;
        self.log(1, || {
            let (took, read) = (began.elapsed(), read.load(Ordering::Relaxed));
            let rate = layout::amount((read as f64 / took.as_secs_f64()) as u64);
            let events = counted(info::thousands(trace.len() as u64), "event");
            format!("read {name}: {events}, {} at {rate}/s, in {took:.1?}", layout::amount(read))
        });
        self.log(2, || {
            let devices: Vec<String> = trace.facts().devices().into_iter().map(|d| d.name).collect();
            let threads = counted(options.threads, "thread");
            format!("{threads} at most; devices of the trace: {}", devices.join(", "))
        });
        for (d, count, _) in trace.diagnostics().seen() {
            self.log(2, || format!("{} {count}x [{}]: {}", d.id, d.severity.name(), d.meaning));
        }
        Ok(trace)
    }

    /// Does a part of the work that may take its time.
    pub(crate) fn stage<T>(&self, name: &'static str, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let going = self.progress.stage(name);
        let result = work();
        drop(going);
        self.log(1, || format!("{name}: {:.1?}", began.elapsed()));
        result
    }

    /// Tells something to those who asked for this much (`-v`: 1, `-vv`: 2).
    pub(crate) fn log(&self, level: u8, text: impl FnOnce() -> String) {
        if self.common.verbose >= level {
            let line = format!("[{:8.3}] {}", self.began.elapsed().as_secs_f64(), text());
            let line = spelled(&line);
            // Nothing can be done if standard error is gone.
            self.progress.aside(|| drop(writeln!(io::stderr(), "{line}")));
        }
    }

    /// How traces are read.
    pub(crate) fn read_options(&self, work: Work) -> ReadOptions {
        let mut options = ReadOptions::default();
        if let Some(threads) = self.common.threads {
            options.threads = threads.max(1);
        }
        options.limits.memory = memory::limit(self.common.max_memory);
        options.limits.later_per_event = memory::LATER_PER_EVENT;
        options.limits.later_per_text = work.per_text();
        // Who only looks at a trace is done before that pays.
        options.packed = work != Work::Look;
        options
    }

    /// Tells why the work failed, on standard error; nothing if that is known.
    pub(crate) fn tell(&self, failure: &Failure) {
        if !failure.is_told() {
            let style = match &self.outlet {
                Outlet::Here => Style::of(&io::stderr()),
                Outlet::There(peer) => Style::new(peer.has_colours()),
            };
            let text = failure.text(style);
            let text = harmless(&text, style);
            // Nothing can be done if standard error is gone.
            self.progress.aside(|| drop(writeln!(io::stderr(), "{text}")));
        }
    }

    /// Emphasis for what is printed.
    pub(crate) fn style(&self) -> Style {
        match &self.outlet {
            Outlet::Here => Style::of(&io::stdout()),
            Outlet::There(peer) => Style::new(peer.has_colours()),
        }
    }

    /// Whether the user sees a line on standard error that changes while the work goes on.
    pub(crate) fn shows_progress(&self) -> bool {
        let terminal = match &self.outlet {
            Outlet::Here => io::stderr().is_terminal(),
            Outlet::There(peer) => peer.has_terminal(),
        };
        terminal && !self.common.quiet
    }

    /// Writes to the user's standard output.
    pub(crate) fn print(&self, bytes: &[u8]) -> Result<(), Failure> {
        match &self.outlet {
            Outlet::Here => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()?;
            }
            Outlet::There(peer) => peer.print(bytes)?,
        }
        Ok(())
    }

    /// Writes a text for people to the user's standard output.
    pub(crate) fn print_text(&self, text: &str) -> Result<(), Failure> {
        self.print(harmless(text, self.style()).as_bytes())
    }

    /// Writes what was asked for in the form that was asked for: JSON as it is, or a text for people.
    pub(crate) fn print_answer(&self, answer: &str) -> Result<(), Failure> {
        if self.common.json { self.print(answer.as_bytes()) } else { self.print_text(answer) }
    }

    /// Something the user should do something about.
    pub(crate) fn warn(&self, text: &str) {
        self.say("warning", text);
    }

    /// Something the user should know.
    pub(crate) fn note(&self, text: &str) {
        self.say("note", text);
    }

    fn say(&self, kind: &str, text: &str) {
        if !self.common.quiet {
            let label = Style::of(&io::stderr()).label(kind);
            let text = spelled(text);
            // Nothing can be done if standard error is gone.
            self.progress.aside(|| drop(writeln!(io::stderr(), "{label} {text}")));
        }
    }

    /// Tells about defects on standard error, and fails on them if the user asked for that.
    pub(crate) fn report(&self, path: &Path, diagnostics: &Diagnostics) -> Result<(), Failure> {
        for (d, count, _) in diagnostics.seen().filter(|(d, ..)| d.severity == Severity::DataLoss) {
            self.warn(&format!("{}: {} ({count}x). {}", path.display(), d.meaning, d.remedy));
        }
        match diagnostics.worst() {
            Some(worst) if self.common.strict && worst > Severity::Info => {
                let names: Vec<String> = diagnostics
                    .seen()
                    .filter(|(d, ..)| d.severity > Severity::Info)
                    .map(|(d, count, _)| format!("{} {count}x", d.id))
                    .collect();
                let nested = match diagnostics.count(Defect::NestingDiscarded) {
                    0 => "",
                    _ => {
                        "; what overlaps its caller depends on whether Python frames are in the tree: reports and analyses \
                         have them, `jarvis info` has not, `jarvis tree --python` has"
                    }
                };
                Err(Failure::new(
                    exit::GATE,
                    format!("{}: the recording has defects: {}", path.display(), names.join(", ")),
                )
                .help(format!("run without --strict to use what is there; `jarvis info` explains each defect{nested}")))
            }
            _ => Ok(()),
        }
    }
}

/// Shows the stages of the pipeline.
pub(crate) struct Stages<'a> {
    session: &'a Session,
    going: Mutex<Option<progress::Going>>,
}

impl<'a> Stages<'a> {
    pub(crate) fn new(session: &'a Session) -> Self {
        Self { session, going: Mutex::default() }
    }

    fn set(&self, going: Option<progress::Going>) {
        *self.going.lock().unwrap_or_else(PoisonError::into_inner) = going;
    }
}

impl pipeline::Progress for Stages<'_> {
    fn begins(&self, stage: &'static str) {
        // The one before ends first, so that the line never tells of both.
        self.set(None);
        resident::give_back(stage);
        self.set(Some(self.session.progress.stage(stage)));
    }

    fn ends(&self, stage: &'static str, took: Duration) {
        self.set(None);
        self.session.log(1, || format!("{stage}: {took:.1?}"));
    }
}

/// The text of a file that the user names with an option.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    match remote::named_text(path) {
        Some(text) => Ok(text.to_owned()),
        None => read_file(path),
    }
}

/// The text of a file of this machine.
pub(crate) fn read_file(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{}: {error}", path.display())).help("check the path; the file must be readable text")
    })
}

/// Whether the trace was cut off.
pub(crate) fn is_truncated(diagnostics: &Diagnostics) -> bool {
    [Defect::GzipTruncated, Defect::JsonTruncated, Defect::GzipCorrupt].iter().any(|&d| diagnostics.count(d) > 0)
}

/// Runs one command.
fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Analyze(args) => analyze::run(session, &args),
        Command::Demo(args) => analyze::demo(session, &args.output, args.save_trace.as_deref()),
        Command::Info(args) => info::run(session, &args),
        Command::Tree(args) => tree::run(session, &args),
        Command::Report(args) => report::run(session, &args),
        Command::Check(args) => check::run(session, &args),
        Command::Compare(args) => compare::run(session, &args),
        Command::Diff(args) => diff::run(session, &args),
        Command::Replay(args) => replay::run(session, &args),
        Command::Platforms(args) => platforms::run(session, &args),
        Command::Model(args) => model::run(session, &args),
        Command::Explain(args) => explain::run(session, &args),
        Command::Schema(args) => schema::run(session, &args),
        Command::Completions(args) => manual::completions(session, &args, Cli::described()),
        Command::Man(args) => manual::man(session, &args, Cli::described()),
        Command::RemoteSide(args) => remote::serve(&args),
    }
}

/// The whole program.
pub fn main() -> ExitCode {
    let cli = match Cli::parsed(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            return ExitCode::from(told(&error));
        }
    };
    interrupt::watch();
    let session = Session::new(cli.common, Outlet::Here);
    session.log(2, || format!("jarvis {LONG_VERSION}"));
    let result = fault::guarded(|| run(&session, cli.command)).unwrap_or_else(|fault| {
        // Other threads may still be at it.
        crate::output::abandon();
        Err(fault.failure())
    });
    match result {
        Ok(()) => ExitCode::from(exit::OK),
        Err(failure) => {
            session.tell(&failure);
            ExitCode::from(failure.status)
        }
    }
}

/// The error without commands that nobody is meant to type.
fn without_hidden(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if error.kind() == ErrorKind::MissingSubcommand {
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let names = shown.map(|command| command.get_name().to_owned()).collect();
        error.insert(ContextKind::ValidSubcommand, ContextValue::Strings(names));
    }
    error
}

/// Tells what is wrong with the command line, or the help that was asked for. Gives the exit status.
fn told(error: &clap::Error) -> u8 {
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed.map_err(Failure::from) {
        // Nothing can be done if standard error is gone.
        _ if error.use_stderr() => exit::USAGE,
        Ok(()) => exit::OK,
        Err(failure) => {
            if !failure.is_told() {
                let _ = writeln!(io::stderr(), "{}", failure.text(Style::of(&io::stderr())));
            }
            failure.status
        }
    }
}

/// A trace file argument.
#[derive(Debug, Clone, Args)]
pub(crate) struct TraceArg {
    /// Trace file, plain or gzipped JSON; `-` for standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
}

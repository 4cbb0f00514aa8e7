//! The command line: parse, run one command, map the result to an exit status. The only place that knows about
//! terminals, the environment and standard streams.

mod analyze;
mod check;
mod compare;
mod diff;
mod explain;
mod failure;
mod info;
mod interrupt;
mod layout;
mod manual;
mod memory;
mod model;
mod platform_args;
mod platforms;
mod replay;
mod report;
mod sheets;
mod style;
mod tree;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory as _, Parser, Subcommand};
use jarvis_trace::{Defect, Diagnostics, ReadOptions, Severity, Trace};

use crate::exit;
pub(crate) use failure::Failure;
pub(crate) use memory::Work;

/// GPU performance analyst for PyTorch profiler traces.
#[derive(Debug, Parser)]
#[command(name = "jarvis", version, propagate_version = true, disable_help_subcommand = false, max_term_width = 120)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
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
    /// Fail (exit 1) if part of the recording is lost or degraded
    #[arg(long, global = true)]
    pub(crate) strict: bool,
    /// Threads to use; results do not depend on it
    #[arg(long, global = true, value_name = "N", env = "RAYON_NUM_THREADS", hide_env = true)]
    pub(crate) threads: Option<usize>,
    /// Memory that traces may take, such as 8G or 50% [default: 80% of the machine or container]
    #[arg(long, global = true, value_name = "SIZE", value_parser = memory::Amount::parse)]
    pub(crate) max_memory: Option<memory::Amount>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The main job: where the GPU's time goes, what to change, what each change would bring
    Analyze(analyze::AnalyzeArgs),
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
    /// Completions for a shell, to be put where it looks for them
    Completions(manual::CompletionsArgs),
    /// Manual pages, one for each command
    Man(manual::ManArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Analyses two steps of a small Llama recorded on an H200, which comes with the binary.

Examples:
  jarvis demo
  jarvis demo -o somewhere/else
  jarvis demo --json | jq '.findings[0]'")]
struct DemoArgs {
    /// Output folder
    #[arg(long, short, value_name = "DIR", default_value = "jarvis_demo")]
    output: PathBuf,
}

/// What a command works with.
pub(crate) struct Session {
    pub(crate) common: Common,
}

impl Session {
    /// Reads a trace; `-` is standard input. Commands that end with their answer keep it in a `ManuallyDrop`: the
    /// system takes all memory back at once, and faster than piece by piece.
    pub(crate) fn open(&self, path: &Path, work: Work) -> Result<Trace, Failure> {
        Self::open_with(path, &self.read_options(work))
    }

    /// Reads one of two traces that are needed at once, so each may take half of the memory.
    pub(crate) fn open_one_of_two(&self, path: &Path, work: Work) -> Result<Trace, Failure> {
        let mut options = self.read_options(work);
        options.limits.memory = options.limits.memory.map(|bytes| bytes / 2);
        Self::open_with(path, &options)
    }

    fn open_with(path: &Path, options: &ReadOptions) -> Result<Trace, Failure> {
        let trace = if path == Path::new("-") {
            Trace::read(io::stdin(), "standard input", options)?
        } else {
            Trace::open(path, options)?
        };
        Ok(trace)
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
        options
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
            // Nothing can be done if standard error is gone.
            let _ = writeln!(io::stderr(), "{kind}: {text}");
        }
    }

    /// Tells about defects on standard error, and fails on them if the user asked for that.
    pub(crate) fn report(&self, path: &Path, diagnostics: &Diagnostics) -> Result<(), Failure> {
        if !self.common.quiet {
            let mut err = io::stderr().lock();
            for (d, count, _) in diagnostics.seen().filter(|(d, ..)| d.severity == Severity::DataLoss) {
                // Nothing can be done if standard error is gone.
                let _ = writeln!(err, "warning: {}: {} ({count}x). {}", path.display(), d.meaning, d.remedy);
            }
        }
        match diagnostics.worst() {
            Some(worst) if self.common.strict && worst > Severity::Info => {
                let names: Vec<String> = diagnostics
                    .seen()
                    .filter(|(d, ..)| d.severity > Severity::Info)
                    .map(|(d, count, _)| format!("{} {count}x", d.id))
                    .collect();
                Err(Failure::new(
                    exit::GATE,
                    format!("{}: the recording has defects: {}", path.display(), names.join(", ")),
                )
                .help("run without --strict to use what is there; `jarvis info` explains each defect"))
            }
            _ => Ok(()),
        }
    }
}

/// The text of a file that the user names with an option.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!("{}: {error}", path.display())).help("check the path; the file must be readable text")
    })
}

/// Whether the trace was cut off.
pub(crate) fn is_truncated(diagnostics: &Diagnostics) -> bool {
    [Defect::GzipTruncated, Defect::JsonTruncated, Defect::GzipCorrupt].iter().any(|&d| diagnostics.count(d) > 0)
}

/// The whole program.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let status = if error.use_stderr() { exit::USAGE } else { exit::OK };
            // Nothing can be done if the stream is gone.
            let _ = error.print();
            return ExitCode::from(status);
        }
    };
    interrupt::watch();
    let session = Session { common: cli.common };
    let result = match cli.command {
        Command::Analyze(args) => analyze::run(&session, &args),
        Command::Demo(args) => analyze::demo(&session, &args.output),
        Command::Info(args) => info::run(&session, &args),
        Command::Tree(args) => tree::run(&session, &args),
        Command::Report(args) => report::run(&session, &args),
        Command::Check(args) => check::run(&session, &args),
        Command::Compare(args) => compare::run(&session, &args),
        Command::Diff(args) => diff::run(&session, &args),
        Command::Replay(args) => replay::run(&session, &args),
        Command::Platforms(args) => platforms::run(&session, &args),
        Command::Model(args) => model::run(&session, &args),
        Command::Explain(args) => explain::run(&session, &args),
        Command::Completions(args) => manual::completions(&args, Cli::command()),
        Command::Man(args) => manual::man(&args, Cli::command()),
    };
    match result {
        Ok(()) => ExitCode::from(exit::OK),
        Err(failure) => {
            if !failure.is_broken_pipe() {
                let _ = writeln!(io::stderr(), "{failure}");
            }
            ExitCode::from(failure.status)
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

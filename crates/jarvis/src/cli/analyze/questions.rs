//! What is missing is asked for, in a terminal. Questions go to standard error: standard output carries results.

mod paths;

use std::io::{self, Write as _};
use std::path::PathBuf;

use dialoguer::theme::{ColorfulTheme, SimpleTheme, Theme};
use dialoguer::{FuzzySelect, Input};
use jarvis_perf::platform::Platform;

use super::{AnalyzeArgs, Inputs, LabelArgs, PlaceArgs, usual_folder};
use crate::cli::remote::Host;
use crate::cli::style::Style;
use crate::cli::{Failure, Session};
use paths::{Paths, Wanted, expanded};

/// The first choice of platforms.
const FROM_TRACE: &str = "from the trace";

/// Whether a person is there to be asked.
pub(super) fn can_ask(session: &Session) -> bool {
    !session.common.quiet && !session.common.json && super::is_conversation()
}

/// All five questions. An empty answer takes the default.
pub(super) fn inputs(args: &AnalyzeArgs) -> Result<Inputs, Failure> {
    let theme = theme();
    say("To run standalone analysis, the following information is needed:")?;
    say("(Tab completes paths; an empty answer takes the default)\n")?;
    let mut place = args.place.clone();
    let trace = trace(&*theme, &mut place)?;
    let mut platform = args.platform.clone();
    if platform.platform.is_none() && platform.arch.is_none() {
        platform.platform = choose(&*theme, "2. Platform", Some(FROM_TRACE))?;
    }
    let labels = labels(&*theme, args, &mut place)?;
    let folder = if let Some(folder) = &args.output {
        folder.clone()
    } else {
        let usual = usual_folder(&trace, &place).display().to_string();
        let folders = Paths::new(Wanted::Folders);
        let question = Input::<String>::with_theme(&*theme).with_prompt("5. Output directory").default(usual);
        expanded(question.completion_with(&folders).interact_text().map_err(unanswered)?.trim())
    };
    Ok(Inputs { trace, folder, labels, platform, place })
}

/// The questions for cluster and container: names for the reports if the trace lies here, else where to go.
fn labels(theme: &dyn Theme, args: &AnalyzeArgs, place: &mut PlaceArgs) -> Result<LabelArgs, Failure> {
    let mut labels = args.labels.clone();
    let remote = !place.is_here();
    if !remote && labels.cluster_label.is_none() {
        labels.cluster_label = optional(theme, "3. Cluster name")?;
    }
    while remote && place.container.is_none() {
        match optional(theme, "4. Container name")?.map(|name| name.parse()) {
            None => break,
            Some(Ok(container)) => place.container = Some(container),
            Some(Err(error)) => say(&format!("   {error}"))?,
        }
    }
    if !remote && labels.container_label.is_none() {
        labels.container_label = optional(theme, "4. Container name")?;
    }
    Ok(labels.or_of(place))
}

/// A question that need not be answered.
fn optional(theme: &dyn Theme, question: &str) -> Result<Option<String>, Failure> {
    Ok(Some(text(theme, question, "none")?).filter(|answer| answer != "none"))
}

/// The trace: a file of this machine, or `HOST:PATH` for one of another; where the work is to be done elsewhere, any
/// path.
fn trace(theme: &dyn Theme, place: &mut PlaceArgs) -> Result<PathBuf, Failure> {
    let here = place.is_here();
    let traces = Paths::new(Wanted::Traces);
    let question = Input::<String>::with_theme(theme)
        .with_prompt("1. Trace file path")
        .completion_with(&traces)
        .validate_with(|answer: &String| {
            let path = expanded(answer.trim());
            match path.is_file() {
                true => Ok(()),
                false if !here || Host::with_path(answer.trim()).is_some() => Ok(()),
                false if path.is_dir() => Err(format!("{}: a folder; name a file in it", path.display())),
                false => Err(format!("{}: no such file here; HOST:PATH names one of another machine", path.display())),
            }
        });
    let answer = question.interact_text().map_err(unanswered)?;
    let answer = answer.trim();
    if !here {
        return Ok(PathBuf::from(answer));
    }
    match Host::with_path(answer).filter(|_| !expanded(answer).is_file()) {
        Some((host, path)) => {
            place.cluster = Some(host);
            Ok(path)
        }
        None => Ok(expanded(answer)),
    }
}

/// The platform alone, where the trace does not tell it.
pub(super) fn platform(doubt: Option<&str>) -> Result<String, Failure> {
    if let Some(doubt) = doubt {
        say(doubt)?;
    }
    let chosen = choose(&*theme(), "Platform", None)?;
    chosen.ok_or_else(|| Failure::usage("no platform was chosen"))
}

/// A platform of the list; arrow keys move, letters narrow it down. `None` is the choice that stands first.
fn choose(theme: &dyn Theme, question: &str, first: Option<&str>) -> Result<Option<String>, Failure> {
    let line = |p: &Platform| {
        let rate = p.peak("matrix_bf16").map_or(String::new(), |f| format!(", {} TFLOPS bf16", f.value));
        let memory = p.memory_gb.map_or(String::new(), |gb| format!(", {} GB", gb.value));
        format!("{:<8}{} TB/s{rate}{memory}", p.name, p.mem_bw_gbps.value / 1e3)
    };
    let lines: Vec<String> = first.map(str::to_owned).into_iter().chain(Platform::all().iter().map(line)).collect();
    let at = FuzzySelect::with_theme(theme)
        .with_prompt(format!("{question} (arrow keys or a part of its name, then Enter)"))
        .items(&lines)
        .default(0)
        .report(false)
        .interact()
        .map_err(unanswered)?;
    say(&format!("{question}: {}", lines[at].split("  ").next().unwrap_or_default()))?;
    let at = if first.is_some() { at.checked_sub(1) } else { Some(at) };
    Ok(at.and_then(|at| Platform::all().get(at)).map(|p| p.name.clone()))
}

fn text(theme: &dyn Theme, question: &str, default: &str) -> Result<String, Failure> {
    let question = Input::<String>::with_theme(theme).with_prompt(question).default(default.to_owned());
    Ok(question.interact_text().map_err(unanswered)?.trim().to_owned())
}

fn theme() -> Box<dyn Theme> {
    if Style::of(&io::stderr()).is_on() { Box::new(ColorfulTheme::default()) } else { Box::new(SimpleTheme) }
}

fn say(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stderr(), "{text}")?)
}

/// Interrupted, or the terminal is gone.
fn unanswered(_: dialoguer::Error) -> Failure {
    // A list hides the cursor while it is shown.
    let _ = console::Term::stderr().show_cursor();
    Failure::usage("the questions were not answered")
        .help("name the trace instead: jarvis analyze trace.json.gz --platform NAME")
}

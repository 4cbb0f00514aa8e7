//! What is missing is asked for, in a terminal. Questions go to standard error: standard output carries results.

use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use jarvis_perf::platform::Platform;

use super::{AnalyzeArgs, FOLDER, Inputs, LabelArgs, beside};
use crate::cli::{Failure, Session};

/// Whether a person is there to be asked.
pub(super) fn can_ask(session: &Session) -> bool {
    !session.common.quiet && !session.common.json && super::is_conversation()
}

/// All five questions. An empty answer takes the default.
pub(super) fn inputs(args: &AnalyzeArgs) -> Result<Inputs, Failure> {
    say("To run standalone analysis, the following information is needed:\n")?;
    let trace = loop {
        let answer = ask("1. Trace file path", None)?;
        let path = PathBuf::from(answer.trim());
        if path.is_file() {
            break path;
        }
        say(&format!("   {}: no such file", path.display()))?;
    };
    let mut platform = args.platform.clone();
    if platform.platform.is_none() && platform.arch.is_none() {
        let answer = ask(&format!("2. Platform ({})", names().join("/")), Some("from the trace"))?;
        platform.platform = Some(answer).filter(|a| !a.is_empty());
    }
    let label = |known: &Option<String>, question: &str| -> Result<Option<String>, Failure> {
        match known {
            Some(known) => Ok(Some(known.clone())),
            None => Ok(Some(ask(question, Some("none"))?).filter(|a| !a.is_empty())),
        }
    };
    let labels = LabelArgs {
        cluster: label(&args.labels.cluster, "3. Cluster name")?,
        container: label(&args.labels.container, "4. Container name")?,
    };
    let folder = if let Some(folder) = &args.output {
        folder.clone()
    } else {
        let usual = beside(&trace).join(FOLDER);
        let answer = ask("5. Output directory", Some(&usual.display().to_string()))?;
        if answer.is_empty() { usual } else { Path::new(&answer).to_path_buf() }
    };
    Ok(Inputs { trace, folder, labels, platform })
}

/// The platform alone, where the trace does not tell it.
pub(super) fn platform(doubt: Option<&str>) -> Result<String, Failure> {
    if let Some(doubt) = doubt {
        say(doubt)?;
    }
    for (i, p) in Platform::all().iter().enumerate() {
        let rate = p.peak("matrix_bf16").map_or(String::new(), |f| format!(", {} TFLOPS BF16", f.value));
        say(&format!("  {}. {} - {} TB/s HBM{rate}", i + 1, p.name, p.mem_bw_gbps.value / 1e3))?;
    }
    loop {
        let answer = ask("Platform (name or number)", None)?;
        let by_number = answer.parse::<usize>().ok().and_then(|n| Platform::all().get(n.checked_sub(1)?));
        match (by_number, Platform::find(&answer)) {
            (Some(p), _) | (None, Ok(p)) => return Ok(p.name.clone()),
            (None, Err(error)) => say(&format!("   {error}; {}", error.help()))?,
        }
    }
}

fn names() -> Vec<&'static str> {
    Platform::all().iter().map(|p| p.name.as_str()).collect()
}

fn say(text: &str) -> Result<(), Failure> {
    Ok(writeln!(io::stderr(), "{text}")?)
}

fn ask(question: &str, default: Option<&str>) -> Result<String, Failure> {
    let mut err = io::stderr();
    match default {
        Some(default) => write!(err, "{question} [{default}]: ")?,
        None => write!(err, "{question}: ")?,
    }
    err.flush()?;
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Err(Failure::usage("the questions were not answered")
            .help("name the trace instead: jarvis analyze trace.json.gz --platform NAME"));
    }
    Ok(line.trim().to_owned())
}

//! Instructions of a command, counted by valgrind: the same on every run and beside any other load, so that a change of
//! one percent shows.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::trace::{Container, Trace};

/// What is counted, on one thread: threads that wait for each other would make the figure vary.
const COUNTED: &[(&str, &str, Container)] = &[
    ("jarvis tree", "tree {trace} --uid 0 --quiet --threads 1", Container::Plain),
    ("jarvis tree", "tree {trace} --uid 0 --quiet --threads 1", Container::Gzip),
    ("jarvis info", "info {trace} --quiet --threads 1", Container::Gzip),
];

/// Whether instructions can be counted here.
pub(crate) fn available() -> bool {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// The figures of the smallest generated trace as a Markdown section.
pub(crate) fn section(jarvis: &Path, traces: &[Trace]) -> Result<String> {
    let generated = traces.iter().filter(|trace| trace.name.starts_with("generated"));
    let Some(smallest) = generated.min_by_key(|trace| trace.json_bytes).map(|trace| trace.name.clone()) else {
        return Ok(String::new());
    };
    let mut text = format!(
        "Instructions of read and tree on one thread, {smallest}, counted by callgrind (which offers the programs no \
         AVX-512):\n\n| file | command | instructions | per event |\n|---|---|---:|---:|\n"
    );
    for (label, arguments, container) in COUNTED {
        for trace in traces.iter().filter(|trace| trace.name == smallest && trace.container == *container) {
            let path = trace.path.display().to_string();
            let words: Vec<String> = arguments.split_whitespace().map(|word| word.replace("{trace}", &path)).collect();
            let count = count(jarvis, &words)?;
            let file = if *container == Container::Gzip { "gz" } else { "text" };
            let _ = writeln!(
                text,
                "| {file} | {label} | {:.2} M | {:.0} |",
                count as f64 / 1e6,
                count as f64 / trace.events as f64
            );
        }
    }
    Ok(text)
}

/// Instructions of a program with these arguments.
pub(super) fn count(program: &Path, arguments: &[String]) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .context("cannot run valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} {} failed under valgrind\n{text}", program.display(), arguments.join(" "));
    collected(&text).with_context(|| format!("valgrind told no count\n{text}"))
}

/// The count in what callgrind prints.
fn collected(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("Collected"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found() {
        let text = "==7== Events    : Ir\n==7== Collected : 73554098\n==7== \n==7== I   refs:      73,554,098\n";
        assert_eq!(collected(text), Some(73_554_098));
        assert_eq!(collected("==7== nothing"), None);
    }
}

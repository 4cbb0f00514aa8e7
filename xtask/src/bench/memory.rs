//! `cargo xtask memory`: what `analyze` takes can't grow unseen. Peak memory of the program as it ships on the
//! smallest trace that the promise is for, where code and constants weigh most.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::command::{build, building};
use super::measure::{self, Samples};
use super::trace::{self, Container};
use crate::size::Size;
use crate::workspace;

/// The smallest trace that the promise is for.
const SIZE: &str = "20MB";
const PROGRAMS: &[&str] = &["jarvis"];
/// Most memory, as a share of the raw JSON.
const MOST: f64 = 0.6;
/// Runs. How threads are scheduled makes a peak a little higher or lower; the lowest counts.
const RUNS: usize = 5;

/// What is in the way here, if anything.
pub(crate) fn obstacle() -> Option<String> {
    (!cfg!(target_os = "linux")).then(|| "memory is counted on Linux alone".to_owned())
}

/// Begins to build the program that is measured. For minutes that is work for one processor, so others can go on beside
/// it. Nothing is said of it: [`run`] waits until it is built, and tells what is wrong.
pub(crate) fn begin_building(root: &Path) -> Result<Option<Child>> {
    if obstacle().is_some() {
        return Ok(None);
    }
    let mut cargo = building(root, PROGRAMS);
    cargo.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map(Some).context("cannot run cargo")
}

/// Measures in a process of its own, since a peak counts what the parent held ([`measure`]); the ratio as a remark.
pub(crate) fn check(root: &Path) -> Result<String> {
    let output = Command::new(std::env::current_exe()?).arg("memory").current_dir(root).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Measures and tells.
pub(crate) fn run() -> Result<()> {
    let root = &workspace::root()?;
    build(root, PROGRAMS)?;
    let target = workspace::target(root);
    let folder = target.join("bench");
    fs::create_dir_all(&folder)?;
    let size: Size = SIZE.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let traces = trace::generated(size, 1, &folder, &std::env::current_exe()?)?;
    let trace = traces.iter().find(|t| t.container == Container::Gzip).context("no generated trace")?;
    let words = [&target.join("release/jarvis"), Path::new("analyze"), &trace.path, Path::new("--output")];
    let mut command: Vec<String> = words.iter().map(|w| w.display().to_string()).collect();
    command.extend([folder.join("memory").display().to_string(), "--quiet".to_owned()]);
    let mut samples = Samples::default();
    for _ in 0..RUNS {
        samples.push(measure::run(&command)?);
    }
    let ratio = |bytes: u64| bytes as f64 / trace.json_bytes as f64;
    let (least, most) = (ratio(samples.least_peak_bytes()), ratio(samples.peak_bytes()));
    ensure!(least <= MOST, "analyze of {SIZE} takes {least:.3} to {most:.3} times the raw JSON, {MOST} is allowed");
    println!("{least:.3} to {most:.3} times the raw JSON");
    Ok(())
}

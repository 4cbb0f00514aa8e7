//! The command line and the order of work.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use super::candidates::{self, Candidate};
use super::instructions;
use super::measure::{self, Samples};
use super::table::{self, Row};
use super::trace::{self, Trace};
use crate::size::Size;
use crate::workspace;

/// Arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Sizes of generated traces.
    #[arg(long, value_delimiter = ',', default_value = "10MB,20MB,100MB,1GB")]
    sizes: Vec<Size>,
    /// Runs of each command on each trace; the best counts.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Seed of the generated traces.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Folder of real traces, of which the largest is measured too [default: shared/traces beside or above the repository].
    #[arg(long)]
    traces: Option<PathBuf>,
    /// Further `jarvis` command line to measure, as in "info {trace} --threads 1"; may be given several times.
    #[arg(long = "command", value_name = "ARGUMENTS")]
    commands: Vec<String>,
    /// Keep a dated copy in bench/runs.
    #[arg(long)]
    record: bool,
}

/// Measures, prints the table and keeps it in `target/bench/latest.md`.
pub(crate) fn run(args: &Args) -> Result<()> {
    ensure!(args.runs > 0, "--runs must be at least 1");
    let root = workspace::root()?;
    let target = workspace::target(&root);
    let folder = target.join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    eprintln!("building with the release profile");
    // Both as they ship: one optimised more than the other would make every ratio wrong.
    build(&root, &["jarvis", "xtask"])?;
    let (xtask, jarvis) = (target.join("release/xtask"), target.join("release/jarvis"));

    let (candidates, mut skipped) = candidates::all(&xtask, &jarvis, &args.commands);
    let traces = collect(args, &root, &folder, &xtask, &mut skipped)?;
    let floor = measure::run(&[xtask.display().to_string(), "--version".to_owned()])?.peak_bytes;
    let out = folder.join(format!("out-{}", std::process::id()));
    let rows = measure_all(&candidates, &traces, args.runs, &out);
    // Not there if no candidate writes files.
    let _ = fs::remove_dir_all(&out);
    let rows = rows?;

    let counts = if instructions::available() {
        eprintln!("counting instructions");
        instructions::section(&jarvis, &traces)?
    } else {
        skipped.push("instruction counts: there is no valgrind on this machine".to_owned());
        String::new()
    };

    let text = format!("{}\n{}\n{counts}\n{}", preamble(args, floor), table::markdown(&rows), closing(&skipped));
    println!("{text}");
    let latest = folder.join("latest.md");
    fs::write(&latest, &text).with_context(|| format!("cannot write {}", latest.display()))?;
    if args.record {
        let runs = root.join("bench/runs");
        fs::create_dir_all(&runs)?;
        let path = runs.join(format!("{}.md", today()?));
        fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        eprintln!("recorded in {}", path.display());
    }
    Ok(())
}

/// Builds programs as they ship.
pub(super) fn build(root: &Path, programs: &[&str]) -> Result<()> {
    let status = building(root, programs).status().context("cannot run cargo")?;
    ensure!(status.success(), "the build failed");
    Ok(())
}

/// The command that does.
pub(super) fn building(root: &Path, programs: &[&str]) -> Command {
    let mut cargo = Command::new(workspace::cargo());
    cargo.current_dir(root).args(["build", "--quiet", "--release"]);
    cargo.args(programs.iter().flat_map(|program| ["-p", program]));
    cargo
}

fn collect(args: &Args, root: &Path, folder: &Path, xtask: &Path, skipped: &mut Vec<String>) -> Result<Vec<Trace>> {
    let mut traces = Vec::new();
    for &size in &args.sizes {
        traces.extend(trace::generated(size, args.seed, folder, xtask)?);
    }
    match args.traces.clone().or_else(|| workspace::real_traces(root)) {
        Some(folder) => match trace::largest_real(&folder, xtask)? {
            Some(real) => traces.push(real),
            None => skipped.push(format!("real traces: none under {}", folder.display())),
        },
        None => skipped.push("real traces: no shared/traces beside or above the repository".to_owned()),
    }
    Ok(traces)
}

/// Measures every candidate on every trace, in turns. Each run writes to a folder of its own, as the first one of a user
/// does; none is removed meanwhile, because file systems look for new files among those just removed.
fn measure_all(candidates: &[Candidate], traces: &[Trace], runs: usize, out: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut folders = 0;
    for trace in traces {
        eprintln!("measuring {} ({})", trace.name, trace.path.display());
        let fitting: Vec<&Candidate> = candidates.iter().filter(|candidate| candidate.reads(trace)).collect();
        let mut samples = vec![Samples::default(); fitting.len()];
        // One run before counting brings the file and the programs into memory.
        for turn in 0..=runs {
            for (candidate, samples) in fitting.iter().zip(&mut samples) {
                folders += 1;
                let sample = measure::run(&candidate.command(&trace.path, &out.join(folders.to_string())))?;
                if turn > 0 {
                    samples.push(sample);
                }
            }
        }
        for (candidate, samples) in fitting.into_iter().zip(samples) {
            rows.push(Row { trace: trace.clone(), label: candidate.label.clone(), samples });
        }
    }
    Ok(rows)
}

fn preamble(args: &Args, floor: u64) -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!(
        "# Benchmark\n\n{cores} cores, {} {}. Best of {} runs in turns after one that does not count, files in memory, \
         programs built with the `release` profile. MB are 10^6 bytes of JSON before compression. Ratios are to the \
         compressed file of the same trace. Growth is the exponent of wall and of processor time since the next \
         smaller trace: 1 is linear. \
         Peak memory below {:.1} MiB cannot be told apart.\n",
        std::env::consts::OS,
        std::env::consts::ARCH,
        args.runs,
        floor as f64 / f64::from(1 << 20),
    )
}

fn closing(skipped: &[String]) -> String {
    if skipped.is_empty() {
        return String::new();
    }
    let lines: Vec<String> = skipped.iter().map(|line| format!("- {line}")).collect();
    format!("Skipped:\n\n{}\n", lines.join("\n"))
}

/// The date in UTC, as `2026-11-15`.
fn today() -> Result<String> {
    let days = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86_400;
    let (year, month, day) = civil(days as i64);
    Ok(format!("{year:04}-{month:02}-{day:02}"))
}

/// Days since 1970 as a date of the Gregorian calendar, counted in eras of 400 years that begin in March, so that the
/// leap day comes last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_772, (2026, 11, 15)),
            (47_540, (2100, 2, 28)),
            (47_541, (2100, 3, 1)),
        ] {
            assert_eq!(civil(days), date, "{days}");
        }
    }
}

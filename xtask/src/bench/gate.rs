//! `cargo xtask instructions`: a slow-down can't slip in. Instructions of the main commands on a generated trace of
//! 10 MB, held against those on record. Counted by valgrind they are the same on a busy machine and an idle one.
//!
//! The program is the one that tests are run on, so that nothing else has to be built: its figures are no measure of
//! the program that ships (`cargo xtask bench` has those), but what makes one slower makes the other slower.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::instructions;
use super::trace::{self, Container};
use crate::size::Size;
use crate::workspace;

/// Arguments of `cargo xtask instructions`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Put the counts on record.
    #[arg(long)]
    record: bool,
}

/// Where the counts stand.
const RECORD: &str = "bench/instructions.txt";
/// Counts may be so much above those on record.
const ALLOWED: f64 = 0.03;
/// What is counted. Threads that wait for each other would make the figures vary.
const COUNTED: &[(&str, &str)] = &[
    ("tree", "tree {trace} --uid 0 --quiet --threads 1"),
    ("report", "report {trace} --platform H200 --quiet --threads 1 -o {out}"),
    ("analyze", "analyze {trace} --platform H200 --quiet --threads 1 -o {out}"),
];

/// Counts, and records or compares.
pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace::root()?;
    let counts = count(&root)?;
    for (name, count) in &counts {
        println!("{name:<10} {:>10.1} M", *count as f64 / 1e6);
    }
    if args.record {
        let path = root.join(RECORD);
        return fs::write(&path, text(&toolchain()?, &counts))
            .with_context(|| format!("cannot write {}", path.display()));
    }
    match compare(&root, &counts)? {
        Some(remark) => println!("{remark}"),
        None => println!("as on record"),
    }
    Ok(())
}

/// Whether the counts can be compared here; what is in the way if not.
pub(crate) fn obstacle(root: &Path) -> Result<Option<String>> {
    if !instructions::available() {
        return Ok(Some("there is no valgrind".to_owned()));
    }
    let (recorded, here) = (on_record(root)?.0, toolchain()?);
    Ok((recorded != here).then(|| format!("the counts on record are of {recorded}, this is {here}")))
}

/// Compares with what is on record. A remark if less is needed than that.
pub(crate) fn check(root: &Path) -> Result<Option<String>> {
    compare(root, &count(root)?)
}

fn compare(root: &Path, counts: &BTreeMap<String, u64>) -> Result<Option<String>> {
    let (_, recorded) = on_record(root)?;
    let mut fewer = Vec::new();
    let mut more = Vec::new();
    for (name, count) in counts {
        let Some(before) = recorded.get(name) else {
            bail!("{RECORD} has no `{name}`: cargo xtask instructions --record")
        };
        let change = *count as f64 / *before as f64 - 1.0;
        let told = format!("{name} takes {:+.1} % instructions ({count}, on record {before})", change * 100.0);
        match change {
            c if c > ALLOWED => more.push(told),
            c if c < -ALLOWED => fewer.push(told),
            _ => {}
        }
    }
    ensure!(
        more.is_empty(),
        "{}: find out why, or, if it is worth it, cargo xtask instructions --record",
        more.join("; ")
    );
    Ok((!fewer.is_empty()).then(|| format!("{}: cargo xtask instructions --record keeps it", fewer.join("; "))))
}

/// Counts all commands, each on a core of its own.
fn count(root: &Path) -> Result<BTreeMap<String, u64>> {
    let folder = workspace::target(root).join("bench");
    fs::create_dir_all(&folder)?;
    let jarvis = workspace::program_under_test(root)?;
    let trace = sample(&folder)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = COUNTED
            .iter()
            .map(|(name, arguments)| {
                let out = folder.join(format!("instructions_{name}"));
                let (jarvis, trace) = (&jarvis, &trace);
                let words: Vec<String> = arguments
                    .split_whitespace()
                    .map(|w| w.replace("{trace}", &trace.to_string_lossy()).replace("{out}", &out.to_string_lossy()))
                    .collect();
                (name, scope.spawn(move || instructions::count(jarvis, &words)))
            })
            .collect();
        let mut counts = BTreeMap::new();
        for (name, thread) in threads {
            let count = thread.join().map_err(|_| anyhow::anyhow!("counting `{name}` failed"))??;
            counts.insert((*name).to_owned(), count);
        }
        Ok(counts)
    })
}

/// The generated trace, compressed.
fn sample(folder: &Path) -> Result<PathBuf> {
    let size: Size = "10MB".parse().map_err(|error| anyhow::anyhow!("{error}"))?;
    let traces = trace::generated(size, 1, folder, &std::env::current_exe()?)?;
    let gzip = traces.into_iter().find(|t| t.container == Container::Gzip).context("no generated trace")?;
    Ok(gzip.path)
}

/// The compiler, by which counts differ.
fn toolchain() -> Result<String> {
    let output = Command::new("rustc").arg("--version").output().context("cannot run rustc")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn text(toolchain: &str, counts: &BTreeMap<String, u64>) -> String {
    let mut text = format!(
        "# Instructions of the test build on the generated trace of 10 MB: cargo xtask instructions [--record]\n\
         {toolchain}\n"
    );
    for (name, count) in counts {
        text.push_str(&format!("{name} {count}\n"));
    }
    text
}

/// The compiler and the counts on record.
fn on_record(root: &Path) -> Result<(String, BTreeMap<String, u64>)> {
    let path = root.join(RECORD);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| format!("{} is not as it should be", path.display()))
}

fn parse(text: &str) -> Option<(String, BTreeMap<String, u64>)> {
    let mut lines = text.lines().filter(|line| !line.starts_with('#'));
    let toolchain = lines.next()?.to_owned();
    let counts = lines.map(|line| {
        let (name, count) = line.split_once(' ')?;
        Some((name.to_owned(), count.parse().ok()?))
    });
    Some((toolchain, counts.collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_is_read_back() {
        let counts = BTreeMap::from([("tree".to_owned(), 12), ("analyze".to_owned(), 345)]);
        let (toolchain, read) = parse(&text("rustc 1.2.3", &counts)).unwrap();
        assert_eq!((toolchain.as_str(), read), ("rustc 1.2.3", counts));
        assert_eq!(parse("# nothing\n"), None);
        assert_eq!(parse("rustc\ntree many\n"), None);
    }

    #[test]
    fn more_than_allowed_is_an_error_and_less_a_remark() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("bench")).unwrap();
        let of = |tree: u64| BTreeMap::from([("tree".to_owned(), tree)]);
        fs::write(folder.path().join(RECORD), text("rustc", &of(1000))).unwrap();
        assert_eq!(compare(folder.path(), &of(1029)).unwrap(), None);
        assert!(compare(folder.path(), &of(1031)).unwrap_err().to_string().contains("tree takes +3.1 %"));
        assert!(compare(folder.path(), &of(900)).unwrap().unwrap().contains("-10.0 %"));
    }
}

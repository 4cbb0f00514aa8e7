//! The list of checks. A new check is one entry.

use std::path::Path;
use std::process::{Child, Command};

use anyhow::{Context, Result, ensure};

use super::{deny, file_sizes};
use crate::bench::{gate, memory as peak};
use crate::workspace;

/// How a check ended, unless it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All is well.
    Passed,
    /// All is well, but something was done otherwise than intended.
    PassedBut(String),
    /// It could not run here.
    Skipped(String),
}

/// One check.
#[derive(Debug)]
pub(crate) struct Step {
    /// What `cargo xtask test NAME` calls it.
    pub(crate) name: &'static str,
    /// What it makes sure of.
    pub(crate) about: &'static str,
    /// Runs it in the root of the repository; an error is a failure.
    pub(crate) run: fn(&Path) -> Result<Outcome>,
    /// Begins what it will wait for, before all checks.
    pub(crate) begin: fn(&Path) -> Result<Option<Child>>,
}

impl Step {
    const fn new(name: &'static str, about: &'static str, run: fn(&Path) -> Result<Outcome>) -> Self {
        Self { name, about, run, begin: |_| Ok(None) }
    }

    const fn beginning(self, begin: fn(&Path) -> Result<Option<Child>>) -> Self {
        Self { begin, ..self }
    }
}

/// All checks, cheapest first.
#[rustfmt::skip]
pub(crate) const STEPS: &[Step] = &[
    Step::new("format",       "rustfmt would change nothing",                                 format),
    Step::new("sizes",        "no source file is longer than a person can keep",              file_sizes::check),
    Step::new("deny",         "dependencies are what deny.toml allows",                       deny::check),
    Step::new("lint",         "clippy has nothing to say about any target",                   lint),
    Step::new("tools",        "programs that tests talk to are installed",                    tools),
    Step::new("python",       "pyflakes has nothing to say about the replayer and the tools", python),
    Step::new("tests",        "unit and integration tests pass",                              tests),
    Step::new("doctests",     "examples in the documentation work",                           doctests),
    Step::new("browser",      "report.html works in a real browser",                          browser),
    Step::new("instructions", "no command takes 3 % more instructions than on record",        instructions),
    Step::new("memory",       "analyze takes at most 0.6 times the raw JSON of 20 MB",        memory).beginning(peak::begin_building),
    Step::new("traces",       "real traces are at hand for the tests that read them",         traces),
];

fn format(root: &Path) -> Result<Outcome> {
    if !has_subcommand(root, "fmt") {
        return Ok(Outcome::Skipped("rustfmt is not installed (rustup component add rustfmt)".to_owned()));
    }
    cargo(root, &["fmt", "--all", "--check"])
}

fn lint(root: &Path) -> Result<Outcome> {
    if !has_subcommand(root, "clippy") {
        return Ok(Outcome::Skipped("clippy is not installed (rustup component add clippy)".to_owned()));
    }
    cargo(root, &["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"])
}

/// Programs that tests talk to: a command that shows whether it is there, and the Debian package that has it.
const TOOLS: &[Tool] = &[
    ("soffice", &["--version"], "libreoffice-calc"),
    ("/usr/bin/python3", &["-c", "import torch"], "python3-torch"),
    ("pyflakes3", &["--version"], "pyflakes3"),
    ("chromium", &["--version"], "chromium"),
    ("valgrind", &["--version"], "valgrind"),
    ("chromedriver", &["--version"], "chromium-driver"),
    ("ssh", &["-V"], "openssh-client"),
    ("test", &["-x", "/usr/sbin/sshd"], "openssh-server"),
];

type Tool = (&'static str, &'static [&'static str], &'static str);

/// Installs what is missing where that is possible without asking; tests that need what can't be had say so.
#[expect(clippy::unnecessary_wraps, reason = "all checks of the list have one type")]
fn tools(_root: &Path) -> Result<Outcome> {
    Ok(install(TOOLS))
}

/// Installs those of these programs that are missing.
fn install(tools: &[Tool]) -> Outcome {
    let missing = || tools.iter().filter(|(command, args, _)| !runs(command, args)).map(|(.., package)| *package);
    if missing().next().is_none() {
        return Outcome::Passed;
    }
    let packages: Vec<&str> = missing().collect();
    // Refreshing the lists may fail where an older list will do.
    let _ = runs("apt-get", &["update", "--quiet"]);
    let mut install = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    install.extend(&packages);
    let installed = runs("apt-get", &install) && missing().next().is_none();
    if installed {
        Outcome::PassedBut(format!("installed {}", packages.join(", ")))
    } else {
        Outcome::Skipped(format!("not installed and not to be had here: {}", packages.join(", ")))
    }
}

/// Opens pages of the fixtures and of a hostile trace in Chromium. Pictures of them stay in `target/browser/`.
fn browser(root: &Path) -> Result<Outcome> {
    let browser: Vec<Tool> = TOOLS.iter().copied().filter(|(.., package)| package.contains("chromium")).collect();
    if let Outcome::Skipped(reason) = install(&browser) {
        return Ok(Outcome::Skipped(reason));
    }
    crate::browser::check(root).map(Outcome::PassedBut)
}

/// A slow-down can't slip in.
fn instructions(root: &Path) -> Result<Outcome> {
    if let Some(reason) = gate::obstacle(root)? {
        return Ok(Outcome::Skipped(reason));
    }
    Ok(gate::check(root)?.map_or(Outcome::Passed, Outcome::PassedBut))
}

/// Nor can memory.
fn memory(root: &Path) -> Result<Outcome> {
    match peak::obstacle() {
        Some(reason) => Ok(Outcome::Skipped(reason)),
        None => peak::check(root).map(Outcome::PassedBut),
    }
}

/// Folders of Python files.
const PYTHON: &[&str] = &["crates/report/assets/replay", "crates/report/tests/python", "tools"];

fn python(root: &Path) -> Result<Outcome> {
    if !runs("pyflakes3", &["--version"]) {
        return Ok(Outcome::Skipped("pyflakes3 is not installed".to_owned()));
    }
    let status = Command::new("pyflakes3").args(PYTHON).current_dir(root).status().context("cannot run pyflakes3")?;
    ensure!(status.success(), "pyflakes3 found faults");
    Ok(Outcome::Passed)
}

/// Whether a command runs to a good end.
fn runs(command: &str, arguments: &[&str]) -> bool {
    Command::new(command)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .is_ok_and(|output| output.status.success())
}

fn tests(root: &Path) -> Result<Outcome> {
    if has_subcommand(root, "nextest") {
        return cargo(root, &["nextest", "run", "--workspace", "--no-fail-fast", "--status-level", "fail"]);
    }
    cargo(root, &["test", "--quiet", "--workspace", "--lib", "--bins", "--tests"])?;
    Ok(Outcome::PassedBut("cargo-nextest is not installed: ran `cargo test`".to_owned()))
}

fn doctests(root: &Path) -> Result<Outcome> {
    cargo(root, &["test", "--quiet", "--workspace", "--doc"])
}

/// Tests that read real traces skip themselves where there are none; this is where that is said.
#[expect(clippy::unnecessary_wraps, reason = "all checks of the list have one type")]
fn traces(root: &Path) -> Result<Outcome> {
    Ok(match workspace::real_traces(root) {
        Some(_) => Outcome::Passed,
        None => Outcome::Skipped(
            "no shared/traces beside or above the repository: tests on real traces did nothing".to_owned(),
        ),
    })
}

fn has_subcommand(root: &Path, name: &str) -> bool {
    let output = Command::new(workspace::cargo()).current_dir(root).args([name, "--version"]).output();
    output.is_ok_and(|output| output.status.success())
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<Outcome> {
    let status =
        Command::new(workspace::cargo()).current_dir(root).args(arguments).status().context("cannot run cargo")?;
    ensure!(status.success(), "`cargo {}` ended with {status}", arguments.join(" "));
    Ok(Outcome::Passed)
}

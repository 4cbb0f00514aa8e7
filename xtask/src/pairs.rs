//! `cargo xtask pairs`: estimates against what fixes really brought. The work is an example of the analyze crate, so
//! that building this program builds none of the project.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::workspace;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders with `facts.json` and the traces it names; else those of the fixtures and of the traces beside the
    /// repository.
    #[arg(long = "dir", value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let root = workspace::root()?;
    let dirs = if args.dirs.is_empty() {
        let shared = workspace::real_traces(&root).map(|folder| folder.join("h200"));
        [root.join("fixtures/h200")].into_iter().chain(shared).collect()
    } else {
        args.dirs.clone()
    };
    let build = ["run", "--quiet", "--release", "--package", "jarvis-analyze", "--example", "pairs", "--"];
    let status = Command::new(workspace::cargo()).args(build).args(dirs).status().context("cannot run the pairs")?;
    ensure!(status.success(), "not every pair holds");
    Ok(())
}

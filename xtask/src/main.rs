//! Tasks of this repository: `cargo xtask help` lists them.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a task prints is its result")]

mod bench;
mod browser;
mod dist;
mod generate;
mod pairs;
mod size;
mod suite;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// Tasks of this repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Check everything: format, lints, file sizes, tests.
    Test(suite::Args),
    /// Write a generated trace of any size.
    Gen(generate::command::Args),
    /// Measure how fast traces are read, against inflating them only.
    Bench(bench::Args),
    /// Count instructions and hold them against those on record.
    Instructions(bench::gate::Args),
    /// Measure the peak memory of `jarvis analyze` and hold it against what is promised.
    Memory,
    /// Build the static binary that is given away, and check that it is one.
    Dist(dist::Args),
    /// Hold estimates against what fixes really brought, pair by pair.
    Pairs(pairs::Args),
    /// Inflate a trace and throw it away; the yardstick of `bench`.
    #[command(hide = true)]
    Inflate(bench::inflate::Args),
}

fn main() -> ExitCode {
    match run(&Cli::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: &Task) -> Result<()> {
    match task {
        Task::Test(args) => suite::run(args)?,
        Task::Gen(args) => generate::command::run(args)?,
        Task::Bench(args) => bench::run(args)?,
        Task::Instructions(args) => bench::gate::run(args)?,
        Task::Memory => bench::memory::run()?,
        Task::Dist(args) => dist::run(args)?,
        Task::Pairs(args) => pairs::run(args)?,
        Task::Inflate(args) => bench::inflate::run(args)?,
    }
    Ok(())
}

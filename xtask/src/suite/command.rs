//! Runs the checks one after the other, all of them even if one fails, and sums up.

use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::steps::{Outcome, STEPS, Step};
use crate::workspace;

/// Arguments of `cargo xtask test`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only these checks.
    #[arg(value_name = "STEP")]
    only: Vec<String>,
    /// List the checks and run none.
    #[arg(long)]
    list: bool,
}

/// Runs the checks; an error means that at least one failed.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.list {
        for step in STEPS {
            println!("{:10} {}", step.name, step.about);
        }
        return Ok(());
    }
    let root = workspace::root()?;
    let steps = chosen(&args.only)?;
    let begun = steps.iter().filter_map(|step| (step.begin)(&root).transpose());
    let _begun: Vec<Begun> = begun.map(|begun| begun.map(Begun)).collect::<Result<_>>()?;
    let mut results = Vec::new();
    for step in steps {
        eprintln!("== {}: {}", step.name, step.about);
        let start = Instant::now();
        let result = (step.run)(&root);
        results.push((step, result, start.elapsed()));
    }
    println!("{}", summary(&results));
    let failed: Vec<&str> =
        results.iter().filter(|(_, result, _)| result.is_err()).map(|(step, ..)| step.name).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Something that goes on beside the checks, but not after them.
struct Begun(Child);

impl Drop for Begun {
    fn drop(&mut self) {
        // It has ended, or the check that waits for it could not run.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn chosen(only: &[String]) -> Result<Vec<&'static Step>> {
    if let Some(unknown) = only.iter().find(|name| STEPS.iter().all(|step| step.name != **name)) {
        let names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("there is no check {unknown:?}; there are {}", names.join(", "));
    }
    Ok(STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)).collect())
}

/// One line a check: how it ended, how long it took, and what there is to say.
fn summary(results: &[(&Step, Result<Outcome>, Duration)]) -> String {
    let line = |(step, result, time): &(&Step, Result<Outcome>, Duration)| {
        let (word, remark) = match result {
            Ok(Outcome::Passed) => ("passed", String::new()),
            Ok(Outcome::PassedBut(remark)) => ("passed", remark.clone()),
            Ok(Outcome::Skipped(reason)) => ("SKIPPED", reason.clone()),
            Err(error) => ("FAILED", format!("{error:#}").replace('\n', "\n                              ")),
        };
        format!("{:10} {word:8} {:7.1} s  {remark}", step.name, time.as_secs_f64()).trim_end().to_owned()
    };
    results.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn names_are_unique_and_unknown_ones_are_told() {
        let mut names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
        assert!(STEPS.iter().all(|step| !step.about.is_empty()));
        assert_eq!(chosen(&[]).unwrap().len(), STEPS.len());
        let picked: Vec<&str> = chosen(&["sizes".to_owned()]).unwrap().iter().map(|step| step.name).collect();
        assert_eq!(picked, ["sizes"]);
        assert!(chosen(&["nothing".to_owned()]).unwrap_err().to_string().contains("doctests"));
    }

    #[test]
    fn the_summary_says_what_was_skipped_and_what_failed() {
        let second = Duration::from_secs(1);
        let results = [
            (&STEPS[0], Ok(Outcome::Passed), second),
            (&STEPS[1], Ok(Outcome::Skipped("no such tool".to_owned())), second),
            (&STEPS[2], Err(anyhow!("one\ntwo")), second),
        ];
        let text = summary(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "format     passed       1.0 s");
        assert_eq!(lines[1], "sizes      SKIPPED      1.0 s  no such tool");
        assert!(lines[2].ends_with("one") && lines[3].ends_with("two"));
    }
}

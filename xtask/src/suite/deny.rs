//! Licences, sources, bans and known weaknesses of dependencies: `cargo deny` with our `deny.toml`. Where it is not
//! installed it is, into the target folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::steps::Outcome;
use crate::workspace;

/// What is installed where there is none. A newer one may know other rules.
const VERSION: &str = "0.20.2";

/// What is judged without the network.
const PARTS: [&str; 3] = ["licenses", "bans", "sources"];

/// Checks every dependency.
pub(super) fn check(root: &Path) -> Result<Outcome> {
    let program = match program(root)? {
        Ok(program) => program,
        Err(reason) => return Ok(Outcome::Skipped(reason)),
    };
    judge(|parts| {
        let output = Command::new(&program)
            .current_dir(root)
            .args(["--workspace", "check"])
            .args(parts)
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
    })
}

/// Where `cargo-deny` is, or why there is none.
fn program(root: &Path) -> Result<Result<PathBuf, String>> {
    let tools = workspace::target(root).join("tools");
    let own = tools.join("bin/cargo-deny");
    for program in [PathBuf::from("cargo-deny"), own.clone()] {
        if Command::new(&program).arg("--version").output().is_ok_and(|output| output.status.success()) {
            return Ok(Ok(program));
        }
    }
    // It looks at a few hundred packages: building it is what takes time, so it is built without optimisation.
    let output = Command::new(workspace::cargo())
        .current_dir(root)
        .args(["install", "cargo-deny", "--version", VERSION, "--locked", "--debug", "--quiet", "--root"])
        .arg(&tools)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .output()
        .context("cannot run cargo")?;
    if output.status.success() {
        return Ok(Ok(own));
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Ok(Err(format!(
        "cargo-deny is not installed and could not be: {}",
        said.lines().next().unwrap_or("no reason given")
    )))
}

/// Weaknesses apart, because their database may be out of reach while everything else can be judged.
fn judge(run: impl Fn(&[&str]) -> Result<(bool, String)>) -> Result<Outcome> {
    let (good, said) = run(&PARTS)?;
    if !good {
        bail!("cargo deny check {}: {said}", PARTS.join(" "));
    }
    let (good, said) = run(&["advisories"])?;
    let out_of_reach = ["failed to fetch advisory database", "failed to acquire advisory database"];
    match good {
        true => Ok(Outcome::Passed),
        false if out_of_reach.iter().any(|words| said.contains(words)) => {
            Ok(Outcome::PassedBut("NOT CHECKED: advisories, whose database is not to be had here".to_owned()))
        }
        false => bail!("cargo deny check advisories: {said}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_checked_is_said_and_what_was_refused_fails() {
        let outcome = |fails: &'static str, said: &'static str| {
            judge(move |parts| {
                let good = !parts.contains(&fails);
                Ok((good, if good { "" } else { said }.to_owned()))
            })
        };
        assert_eq!(outcome("", "").unwrap(), Outcome::Passed);
        let fetch = outcome("advisories", "error: failed to fetch advisory database https://…").unwrap();
        assert!(matches!(fetch, Outcome::PassedBut(remark) if remark.starts_with("NOT CHECKED")));
        assert!(outcome("advisories", "error[vulnerability]: x").is_err());
        assert!(outcome("licenses", "failed to fetch advisory database").is_err());
    }
}

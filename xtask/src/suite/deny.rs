//! Licences, sources and bans of dependencies, as `deny.toml` has them. `cargo deny` judges where it is installed; else
//! this does what can be done from `cargo metadata`, and says what it can't: known weaknesses need a database that is
//! fetched from the network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::steps::Outcome;
use crate::workspace;

/// Checks every dependency.
pub(super) fn check(root: &Path) -> Result<Outcome> {
    let deny =
        |arguments: &[&str]| Command::new(workspace::cargo()).current_dir(root).arg("deny").args(arguments).output();
    if deny(&["--version"]).is_ok_and(|output| output.status.success()) {
        return with_cargo_deny(|part| {
            let output = deny(&["--workspace", "check", part]).context("cannot run cargo deny")?;
            Ok((output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned()))
        });
    }
    let rules = Rules::parse(&fs::read_to_string(root.join("deny.toml")).context("cannot read deny.toml")?)?;
    let arguments = ["metadata", "--format-version", "1", "--locked", "--all-features"];
    let output =
        Command::new(workspace::cargo()).current_dir(root).args(arguments).output().context("cannot run cargo")?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")?;
    let (count, complaints) = rules.judge(&metadata);
    if !complaints.is_empty() {
        bail!(complaints.join("\n"));
    }
    Ok(Outcome::PassedBut(format!(
        "licences, sources, bans and versions of {count} packages, by ourselves: cargo-deny is not installed; \
         NOT CHECKED: advisories"
    )))
}

/// Part by part, because the database of weaknesses may be out of reach while everything else can be judged.
fn with_cargo_deny(run: impl Fn(&str) -> Result<(bool, String)>) -> Result<Outcome> {
    for part in ["licenses", "bans", "sources"] {
        let (good, said) = run(part)?;
        if !good {
            bail!("cargo deny check {part}: {said}");
        }
    }
    let (good, said) = run("advisories")?;
    let out_of_reach = ["failed to fetch advisory database", "failed to acquire advisory database"];
    match good {
        true => Ok(Outcome::Passed),
        false if out_of_reach.iter().any(|words| said.contains(words)) => {
            Ok(Outcome::PassedBut("NOT CHECKED: advisories, whose database is not to be had here".to_owned()))
        }
        false => bail!("cargo deny check advisories: {said}"),
    }
}

/// What `deny.toml` says, as far as it is judged here.
#[derive(Debug)]
struct Rules {
    licences: BTreeSet<String>,
    registries: Vec<String>,
    banned: Vec<Spec>,
    twice: Vec<Spec>,
}

/// A crate, and the beginning of a version if only that is meant.
#[derive(Debug)]
struct Spec {
    name: String,
    version: Option<String>,
}

impl Spec {
    fn parse(text: &str) -> Self {
        let (name, version) = text.split_once('@').map_or((text, None), |(name, version)| (name, Some(version)));
        Self { name: name.to_owned(), version: version.map(str::to_owned) }
    }

    fn fits(&self, name: &str, version: &str) -> bool {
        let begins =
            |wanted: &str| version.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        self.name == name && self.version.as_deref().is_none_or(begins)
    }
}

impl Rules {
    fn parse(text: &str) -> Result<Self> {
        let toml: toml::Table = text.parse().context("deny.toml is no TOML")?;
        let list = |section: &str, key: &str| -> Result<Vec<toml::Value>> {
            let found = toml.get(section).and_then(|s| s.get(key)).and_then(toml::Value::as_array);
            found.cloned().with_context(|| format!("deny.toml has no list {section}.{key}"))
        };
        let texts = |section: &str, key: &str| -> Result<Vec<String>> {
            Ok(list(section, key)?.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect())
        };
        let specs = |key: &str| -> Result<Vec<Spec>> {
            let named = list("bans", key)?;
            Ok(named.iter().filter_map(|v| v.get("crate")?.as_str()).map(Spec::parse).collect())
        };
        Ok(Self {
            licences: texts("licenses", "allow")?.into_iter().collect(),
            registries: texts("sources", "allow-registry")?,
            banned: specs("deny")?,
            twice: specs("skip")?,
        })
    }

    /// How many packages there are, and what is wrong with them.
    fn judge(&self, metadata: &Value) -> (usize, Vec<String>) {
        let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
        let mut complaints = Vec::new();
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for package in packages {
            let text = |key: &str| package[key].as_str();
            let (name, version) = (text("name").unwrap_or_default(), text("version").unwrap_or_default());
            match text("license") {
                None => complaints.push(format!("{name} {version} names no licence")),
                Some(licence) if !allowed(licence, &self.licences) => {
                    complaints.push(format!("{name} {version} is under {licence}, which deny.toml does not allow"));
                }
                Some(_) => {}
            }
            // Those of the workspace have none.
            if let Some(source) = text("source")
                && !self.registries.iter().any(|r| source.strip_prefix("registry+") == Some(r))
            {
                complaints.push(format!("{name} {version} comes from {source}"));
            }
            if self.banned.iter().any(|spec| spec.fits(name, version)) {
                complaints.push(format!("{name} {version} is banned"));
            }
            if !self.twice.iter().any(|spec| spec.fits(name, version)) {
                versions.entry(name).or_default().push(version);
            }
        }
        for (name, versions) in versions.into_iter().filter(|(_, versions)| versions.len() > 1) {
            complaints.push(format!("{name} is there in versions {}", versions.join(" and ")));
        }
        (packages.len(), complaints)
    }
}

/// Whether a licence expression can be met with these licences. `/` is an old way to write `OR`.
fn allowed(expression: &str, licences: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&words, &mut at, licences) && at == words.len()
}

/// Terms with `OR` between them.
fn any_of(words: &[&str], at: &mut usize, licences: &BTreeSet<String>) -> bool {
    let mut met = all_of(words, at, licences);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        met |= all_of(words, at, licences);
    }
    met
}

/// Terms with `AND` between them.
fn all_of(words: &[&str], at: &mut usize, licences: &BTreeSet<String>) -> bool {
    let mut met = term(words, at, licences);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        met &= term(words, at, licences);
    }
    met
}

/// A licence, with its exception if it has one, or an expression in brackets.
fn term(words: &[&str], at: &mut usize, licences: &BTreeSet<String>) -> bool {
    let Some(&word) = words.get(*at) else { return false };
    *at += 1;
    if word == "(" {
        let met = any_of(words, at, licences);
        let closed = words.get(*at) == Some(&")");
        *at += usize::from(closed);
        return met && closed;
    }
    if words.get(*at) == Some(&"WITH") {
        let exception = words.get(*at + 1).copied().unwrap_or_default();
        *at += 2;
        return licences.contains(&format!("{word} WITH {exception}"));
    }
    licences.contains(word)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn licence_expressions_are_read_as_they_are_meant() {
        let ours: BTreeSet<String> = ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].map(str::to_owned).into();
        for good in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/GPL-3.0",
            "(GPL-3.0 OR MIT) AND Zlib",
            "MIT AND Zlib OR GPL-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
        ] {
            assert!(allowed(good, &ours), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT", "MIT)", "MIT WITH x", "Apache-2.0", "MIT Zlib", "OR MIT"]
        {
            assert!(!allowed(bad, &ours), "{bad}");
        }
    }

    const RULES: &str = r#"
        [licenses]
        allow = ["MIT"]
        [bans]
        deny = [{ crate = "bad" }]
        skip = [{ crate = "old@1" }]
        [sources]
        allow-registry = ["https://index"]
    "#;

    #[test]
    fn every_rule_is_judged() {
        let rules = Rules::parse(RULES).unwrap();
        let package = |name: &str, version: &str, licence: Option<&str>, source: Option<&str>| json!({"name": name, "version": version, "license": licence, "source": source});
        let (mit, index) = (Some("MIT"), Some("registry+https://index"));
        let good = [
            package("ours", "0.1.0", mit, None),
            package("old", "1.2.0", mit, index),
            package("old", "2.0.0", mit, index),
        ];
        assert_eq!(rules.judge(&json!({"packages": good})), (3, Vec::new()));
        let wrong = [
            package("bad", "1.0.0", mit, index),
            package("gpl", "1.0.0", Some("GPL-3.0"), index),
            package("none", "1.0.0", None, index),
            package("git", "1.0.0", mit, Some("git+https://index")),
            package("two", "1.0.0", mit, index),
            package("two", "2.0.0", mit, index),
            package("old", "10.0.0", mit, index),
            package("old", "3.0.0", mit, index),
        ];
        let (_, complaints) = rules.judge(&json!({"packages": wrong}));
        assert_eq!(
            complaints,
            [
                "bad 1.0.0 is banned",
                "gpl 1.0.0 is under GPL-3.0, which deny.toml does not allow",
                "none 1.0.0 names no licence",
                "git 1.0.0 comes from git+https://index",
                "old is there in versions 10.0.0 and 3.0.0",
                "two is there in versions 1.0.0 and 2.0.0",
            ]
        );
        assert!(Rules::parse("").is_err());
    }

    #[test]
    fn what_cargo_deny_could_not_do_is_said() {
        let outcome = |fails: &'static str, said: &'static str| {
            with_cargo_deny(move |part| Ok((part != fails, if part == fails { said } else { "" }.to_owned())))
        };
        assert_eq!(outcome("", "").unwrap(), Outcome::Passed);
        let fetch = outcome("advisories", "error: failed to fetch advisory database https://…").unwrap();
        assert!(matches!(fetch, Outcome::PassedBut(remark) if remark.starts_with("NOT CHECKED")));
        assert!(outcome("advisories", "error[vulnerability]: x").is_err());
        assert!(outcome("licenses", "failed to fetch advisory database").is_err());
    }
}

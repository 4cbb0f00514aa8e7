//! Verifies a finished output folder: files, schemas, links, sums, limits of the reports, language. It reads nothing
//! but what it is given, so it can run before anything is written.

mod comparison;
mod folder;
mod layout;
mod markdown;
mod numbers;
mod recommendations;
mod references;
mod reports;
pub mod schema;
mod text;

use jarvis_trace::side_by_side;
use serde::Serialize;
use serde_json::Value;

pub use folder::Folder;
use folder::Problems;
use schema::Schemas;

/// How grave a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// A check did not hold.
    Failed,
    /// Worth knowing; the recording explains it.
    Warning,
}

/// A check that did not hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// How grave.
    pub level: Level,
    /// Stable name of the check: `W2`, `schema`, `language`, …
    pub check: &'static str,
    /// The file it is about.
    pub file: String,
    /// Line of it, from 1.
    pub line: Option<usize>,
    /// What is wrong, in one line.
    pub text: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            Level::Failed => "FAIL",
            Level::Warning => "WARN",
        };
        write!(f, "{level} {} {}", self.check, self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.text)
    }
}

/// What many checks read: the JSON files that tell of the whole run; `Null` where one can't be read.
#[derive(Default)]
struct Facts {
    manifest: Value,
    findings: Value,
    model: Value,
}

impl Facts {
    fn of(folder: &Folder<'_>) -> Self {
        // A file that is no JSON is told of where all of them are read.
        let get = |name| folder.bytes(name).and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        Self {
            manifest: get("category_manifest.json"),
            findings: get("findings.json"),
            model: get("metadata/model_info.json"),
        }
    }

    fn is_comparative(&self) -> bool {
        self.manifest["comparison_scope"] == "comparative"
    }

    /// Categories of the manifest of a tier.
    fn categories(&self, tier: &'static str) -> impl Iterator<Item = &Value> {
        list(&self.manifest["categories"]).filter(move |c| c["tier"] == tier)
    }
}

/// The items of a list; none if it is no list.
fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A part of the checks that needs nothing of the others.
type Part<'a> = Box<dyn Fn(&mut Problems) + Sync + 'a>;

/// All checks. No problem means that the folder is as it should be.
pub fn check(folder: &Folder<'_>) -> Vec<Problem> {
    let (facts, schemas) = (&Facts::of(folder), &Schemas::new());
    let mut parts: Vec<Part<'_>> = vec![
        Box::new(|problems| layout::check(folder, facts, problems)),
        Box::new(|problems| numbers::check(facts, problems)),
        Box::new(|problems| references::check(folder, facts, problems)),
        Box::new(|problems| reports::check(folder, facts, problems)),
    ];
    for name in folder.ending(".json") {
        parts.push(Box::new(move |problems| document(folder, name, facts, schemas, problems)));
    }
    for name in folder.ending(".md") {
        parts.push(Box::new(move |problems| text::check(folder, name, facts, problems)));
    }
    let found = side_by_side::each(&parts, |part| {
        let mut problems = Problems::default();
        part(&mut problems);
        problems
    });
    Problems::all(found.into_iter()).into_list()
}

/// Everything that is checked of a JSON file by itself. A file takes many times its size once it is read, so it is read
/// for this alone.
fn document(folder: &Folder<'_>, name: &str, facts: &Facts, schemas: &Schemas, problems: &mut Problems) {
    let document = match serde_json::from_slice(&folder.bytes(name).unwrap_or_default()) {
        Ok(document) => document,
        Err(error) => return problems.fail("json", name, format!("no JSON: {error}")),
    };
    if let Some(schema) = schemas.of(name) {
        for violation in schema::violations(schema, &document) {
            problems.fail("schema", name, violation);
        }
    }
    numbers::document(name, &document, facts, problems);
    comparison::document(folder, name, &document, problems);
    references::document(folder, name, &document, facts, problems);
}

#[cfg(test)]
mod tests;

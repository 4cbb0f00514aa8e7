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

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

pub use folder::Folder;
use folder::Problems;

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

/// What the checks know of the run: its JSON files, each read once; `Null` where one can't be read.
#[derive(Default)]
struct Facts {
    documents: BTreeMap<String, Value>,
    manifest: Value,
    findings: Value,
    model: Value,
}

impl Facts {
    fn of(documents: BTreeMap<String, Value>) -> Self {
        let get = |name: &str| documents.get(name).cloned().unwrap_or_default();
        let (manifest, findings) = (get("category_manifest.json"), get("findings.json"));
        Self { manifest, findings, model: get("metadata/model_info.json"), documents }
    }

    /// A JSON file.
    fn json(&self, name: &str) -> &Value {
        self.documents.get(name).unwrap_or(&Value::Null)
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

/// All checks. No problem means that the folder is as it should be.
pub fn check(folder: &Folder<'_>) -> Vec<Problem> {
    let mut problems = Problems::default();
    let facts = Facts::of(documents(folder, &mut problems));
    layout::check(folder, &facts, &mut problems);
    schemas(&facts, &mut problems);
    numbers::check(folder, &facts, &mut problems);
    comparison::check(folder, &facts, &mut problems);
    references::check(folder, &facts, &mut problems);
    reports::check(folder, &facts, &mut problems);
    text::check(folder, &facts, &mut problems);
    problems.into_list()
}

/// The JSON files of a folder.
fn documents(folder: &Folder<'_>, problems: &mut Problems) -> BTreeMap<String, Value> {
    let mut documents = BTreeMap::new();
    for name in folder.ending(".json") {
        match serde_json::from_slice(folder.bytes(name).unwrap_or_default()) {
            Ok(document) => drop(documents.insert(name.to_owned(), document)),
            Err(error) => problems.fail("json", name, format!("no JSON: {error}")),
        }
    }
    documents
}

/// Every JSON file is what its schema says.
fn schemas(facts: &Facts, problems: &mut Problems) {
    let mut parsed: BTreeMap<&str, Value> = BTreeMap::new();
    for (name, document) in &facts.documents {
        let Some(schema) = schema::schema_of(name) else { continue };
        // Our own schemas parse; a test sees to it.
        let parsed = parsed.entry(schema.name).or_insert_with(|| serde_json::from_str(schema.text).unwrap_or_default());
        for violation in schema::violations(parsed, document) {
            problems.fail("schema", name, violation);
        }
    }
}

#[cfg(test)]
mod tests;

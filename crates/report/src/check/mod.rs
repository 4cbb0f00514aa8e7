//! Verifies a finished output folder: files, schemas, links, sums, limits of the reports, language. It reads nothing
//! but what it is given, so it can run before anything is written.

mod analysis_md;
mod comparison;
mod folder;
mod json;
mod layout;
mod markdown;
mod numbers;
mod recommendations;
mod references;
mod reports;
pub mod schema;
mod sheet;
mod suspicion;
mod text;
mod written;

use jarvis_trace::side_by_side;
use serde::Serialize;

pub use folder::Folder;
use folder::Problems;
use json::Json;
use schema::Schemas;
use written::Log;

use crate::language::in_prose;

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
struct Facts<'a> {
    manifest: Json<'a>,
    findings: Json<'a>,
    model: Json<'a>,
    /// The bytes of these files, in this order.
    bytes: [&'a [u8]; 3],
}

impl<'a> Facts<'a> {
    const FILES: [&'static str; 3] = ["category_manifest.json", "findings.json", "metadata/model_info.json"];

    fn of(bytes: [&'a [u8]; 3]) -> Self {
        // A file that is no JSON is told of where all of them are read.
        let [manifest, findings, model] = bytes.map(|bytes| Json::read(bytes).unwrap_or_default());
        Self { manifest, findings, model, bytes }
    }

    /// What a file of these bytes says, if one such was read: the manifest stands in the folder twice.
    fn read_from(&self, bytes: &[u8]) -> Option<&Json<'a>> {
        let read = [&self.manifest, &self.findings, &self.model];
        let same = self.bytes.iter().zip(read).find(|(other, _)| **other == bytes);
        same.map(|(_, document)| document).filter(|document| !document.is_null())
    }

    fn is_comparative(&self) -> bool {
        self.manifest["comparison_scope"] == "comparative"
    }

    /// Names that somebody chose for a platform or a category, where they could not stand in a sentence otherwise.
    fn chosen_names(&self) -> Vec<String> {
        let reference = &self.findings["comparison"]["reference"]["platform"];
        let platforms = [&self.manifest["platform"], &self.findings["platform"]["name"], reference];
        let categories = list(&self.manifest["categories"]).flat_map(|c| [&c["name"], &c["display_name"]]);
        let names = platforms.into_iter().chain(categories).filter_map(Json::as_str).map(str::trim);
        let chosen = names.filter(|name| !name.is_empty() && in_prose(name) != **name);
        let mut names: Vec<String> = chosen.map(str::to_owned).collect();
        // Of names within names the longer goes first.
        names.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        names.dedup();
        names
    }

    /// Categories of the manifest of a tier.
    fn categories(&self, tier: &'static str) -> impl Iterator<Item = &Json<'a>> {
        list(&self.manifest["categories"]).filter(move |c| c["tier"] == tier)
    }
}

/// The items of a list; none if it is no list.
fn list<'v, 'a>(value: &'v Json<'a>) -> impl Iterator<Item = &'v Json<'a>> {
    value.items().iter()
}

/// A part of the checks that needs nothing of the others.
type Part<'a> = Box<dyn Fn(&mut Problems) + Sync + 'a>;

/// All checks. No problem means that the folder is as it should be.
pub fn check(folder: &Folder<'_>) -> Vec<Problem> {
    let files = Facts::FILES.map(|name| folder.bytes(name).unwrap_or_default());
    let facts = &Facts::of(files.each_ref().map(|bytes| &**bytes));
    let log = folder.bytes(written::LOG).filter(|_| folder.is_on_disk()).unwrap_or_default();
    let log = Log::read(&log);
    let strangers = log.as_ref().map(|log| log.strangers(folder, facts)).unwrap_or_default();
    let mut told = Problems::default();
    written::tell_strangers(&strangers, &mut told);
    // What the run did not write is not its fault.
    let found = checked(&folder.without(&strangers), log.as_ref(), facts);
    Problems::all(found.into_iter().chain([told])).into_list()
}

fn checked(folder: &Folder<'_>, log: Option<&Log<'_>>, facts: &Facts<'_>) -> Vec<Problems> {
    let schemas = &Schemas::new();
    let mut parts: Vec<Part<'_>> = vec![
        Box::new(|problems| layout::check(folder, facts, problems)),
        Box::new(|problems| numbers::check(facts, problems)),
        Box::new(|problems| references::check(folder, facts, problems)),
        Box::new(|problems| reports::check(folder, facts, problems)),
        Box::new(|problems| analysis_md::check(folder, facts, problems)),
        Box::new(|problems| written::leftovers(folder, problems)),
        Box::new(|problems| written::log(folder, log, facts, problems)),
        Box::new(|problems| written::workbooks(folder, problems)),
    ];
    for name in folder.ending(".json") {
        parts.push(Box::new(move |problems| document(folder, name, facts, schemas, problems)));
    }
    for name in folder.ending(".md") {
        parts.push(Box::new(move |problems| text::check(folder, name, facts, problems)));
    }
    side_by_side::each(&parts, |part| {
        let mut problems = Problems::default();
        part(&mut problems);
        problems
    })
}

/// Everything that is checked of a JSON file by itself. A file takes many times its size once it is read, so it is read
/// for this alone, unless all checks have it anyway.
fn document(folder: &Folder<'_>, name: &str, facts: &Facts<'_>, schemas: &Schemas, problems: &mut Problems) {
    let bytes = folder.bytes(name).unwrap_or_default();
    let read;
    let document = match facts.read_from(&bytes) {
        Some(document) => document,
        None => match Json::read(&bytes) {
            Ok(document) => {
                read = document;
                &read
            }
            Err(error) => return problems.fail("json", name, format!("no JSON: {error}")),
        },
    };
    if let Some(schema) = schemas.of(name) {
        for violation in schema.violations(document) {
            problems.fail("schema", name, violation);
        }
    }
    numbers::document(name, document, facts, problems);
    comparison::document(folder, name, document, problems);
    references::document(folder, name, document, facts, problems);
    written::document(folder, name, document, problems);
}

#[cfg(test)]
mod tests;

//! `docs/requirements.md` names, for each requirement, what shows that it holds. Nothing it names is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Requirements of each source, numbered from 1.
const SOURCES: [(&str, usize); 5] = [("S000", 42), ("S001", 55), ("S002", 72), ("S003", 66), ("S004", 39)];

/// Heading of the requirements that nothing shows yet.
const OPEN: &str = "## Open";

/// The folder of the project.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row of the document.
struct Row {
    id: String,
    is_open: bool,
    requirement: String,
    shown_by: Vec<String>,
}

/// Rows of all tables whose first cell is an id.
fn rows(document: &str) -> Vec<Row> {
    let mut is_open = false;
    let mut rows = Vec::new();
    for line in document.lines() {
        if line.starts_with("## ") {
            is_open = line == OPEN;
        }
        let cells: Vec<&str> = line.trim().trim_matches('|').split(" | ").map(str::trim).collect();
        let id = cells[0];
        if !line.starts_with("| S0") || cells.len() < 2 {
            continue;
        }
        let shown_by = cells.get(2).map(|c| c.split('`').skip(1).step_by(2).map(str::to_owned).collect());
        rows.push(Row {
            id: id.to_owned(),
            is_open,
            requirement: cells[1].to_owned(),
            shown_by: shown_by.unwrap_or_default(),
        });
    }
    rows
}

/// The functions of a file that are marked as tests.
fn tests_of(source: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        match line.strip_prefix("fn ").or_else(|| line.strip_prefix("pub(crate) fn ")) {
            Some(name) => {
                if is_test {
                    found.insert(name.split(['(', '<']).next().unwrap());
                }
                is_test = false;
            }
            None => is_test |= line == "#[test]",
        }
    }
    found
}

/// What is wrong with a reference; nothing if it leads somewhere.
pub(crate) fn fault(reference: &str) -> Option<String> {
    let (path, test) = match reference.split_once("::") {
        Some((path, test)) => (path, Some(test)),
        None => (reference, None),
    };
    let file = root().join(path);
    if path.is_empty() || path.contains("..") || !file.exists() {
        return Some(format!("{path} does not exist"));
    }
    let test = test?;
    let source = std::fs::read_to_string(&file).unwrap_or_default();
    let step = path.ends_with("xtask/src/suite/steps.rs") && source.contains(&format!("Step::new(\"{test}\","));
    (!step && !tests_of(&source).contains(test)).then(|| format!("{path} has no test {test}"))
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/requirements.md")).unwrap()
}

#[test]
fn every_requirement_stands_once() {
    let document = document();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for row in rows(&document) {
        *seen.entry(row.id).or_default() += 1;
    }
    let wanted: Vec<String> = SOURCES.iter().flat_map(|(s, n)| (1..=*n).map(move |i| format!("{s}-{i}"))).collect();
    assert_eq!(wanted.len(), 274);
    let missing: Vec<&String> = wanted.iter().filter(|id| !seen.contains_key(*id)).collect();
    assert!(missing.is_empty(), "not told: {missing:?}");
    let strange: Vec<_> = seen.iter().filter(|(id, n)| !wanted.contains(id) || **n != 1).collect();
    assert!(strange.is_empty(), "no requirement, or told twice: {strange:?}");
}

#[test]
fn what_shows_a_requirement_exists() {
    let document = document();
    let mut faults = Vec::new();
    for row in rows(&document) {
        if row.requirement.is_empty() {
            faults.push(format!("{}: says nothing", row.id));
        }
        if row.shown_by.is_empty() && !row.is_open {
            faults.push(format!("{}: nothing shows it", row.id));
        }
        if row.is_open && !row.shown_by.is_empty() {
            faults.push(format!("{}: shown, and still open", row.id));
        }
        faults.extend(row.shown_by.iter().filter_map(|r| fault(r)).map(|fault| format!("{}: {fault}", row.id)));
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn references_that_lead_nowhere_are_noticed() {
    assert_eq!(fault("crates/jarvis/tests/it/requirements.rs::every_requirement_stands_once"), None);
    assert_eq!(fault("xtask/src/suite/steps.rs::tests"), None);
    assert!(fault("crates/jarvis/tests/it/requirements.rs::rows").is_some(), "no test");
    assert!(fault("crates/jarvis/tests/it/nothing.rs").is_some());
    assert!(fault("").is_some());
    let told = rows("## Open\n\n| id | requirement |\n| --- | --- |\n| S000-1 | a thing |\n");
    assert_eq!((told.len(), told[0].is_open, told[0].shown_by.len()), (1, true, 0));
}

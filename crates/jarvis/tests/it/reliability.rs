//! `docs/reliability.md` says what is borne and what shows it. Nothing it names is missing.

use std::collections::BTreeMap;

use crate::requirements::{fault, root};

/// Sections, with the number of rows that each has at least.
const SECTIONS: [(&str, usize); 4] = [("Edge cases", 40), ("Truncation", 5), ("Fuzzing", 10), ("Properties", 8)];

/// The cells of all table rows by section; heads and rules are left out.
fn rows(document: &str) -> BTreeMap<String, Vec<Vec<String>>> {
    let mut all: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let mut section = String::new();
    let mut in_body = false;
    for line in document.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            name.clone_into(&mut section);
        }
        if !line.starts_with('|') {
            in_body = false;
        } else if line.starts_with("| ---") {
            in_body = true;
        } else if in_body {
            let cells = line.trim().trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned());
            all.entry(section.clone()).or_default().push(cells.collect());
        }
    }
    all
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn document() -> String {
    std::fs::read_to_string(root().join("docs/reliability.md")).unwrap()
}

#[test]
fn every_test_named_in_the_document_exists() {
    let document = document();
    let named: Vec<&str> = document.lines().flat_map(quoted).filter(|q| q.contains(".rs")).collect();
    assert!(named.len() > 60, "only {} tests are named", named.len());
    let faults: Vec<String> = named.into_iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn every_row_says_what_is_expected_and_what_shows_it() {
    let all = rows(&document());
    for (section, least) in SECTIONS {
        let rows = all.get(section).map_or(&[][..], Vec::as_slice);
        assert!(rows.len() >= least, "{section} has {} rows", rows.len());
        for row in rows {
            assert!(row.len() >= 3 && row.iter().all(|cell| !cell.is_empty()), "{section}: {row:?}");
        }
    }
    for row in ["Edge cases", "Truncation", "Properties"].iter().flat_map(|s| &all[*s]) {
        let shown = row.last().map_or(0, |cell| quoted(cell).filter(|q| q.contains(".rs::")).count());
        assert!(shown > 0, "no test shows {row:?}");
    }
}

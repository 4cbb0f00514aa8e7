//! Every number has a source: the tables and rows that findings name are there, and so are replay packages.

use std::collections::{BTreeMap, BTreeSet};

use jarvis_analyze::system::communication::UNNAMED;

use super::folder::{Folder, Problems};
use super::json::Json;
use super::layout::is_relative;
use super::{Facts, list, sheet};

const FINDINGS: &str = "findings.json";

pub(super) fn check(folder: &Folder<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let mut sources = Sources { folder, facts, uids: BTreeMap::new() };
    for finding in list(&facts.findings["findings"]) {
        let rank = &finding["rank"];
        if list(&finding["evidence"]).next().is_none() {
            problems.fail("evidence", FINDINGS, format!("finding {rank} has none"));
        }
        for evidence in list(&finding["evidence"]) {
            if let Err(why) = sources.holds(evidence) {
                problems.fail("evidence", FINDINGS, format!("finding {rank}: {why}"));
            }
        }
        match finding["replay_package"].as_str() {
            Some(path) if !is_relative(path) => {
                problems.fail(
                    "path",
                    FINDINGS,
                    format!("finding {rank}: the replay package leaves the folder: {path}"),
                );
            }
            Some(path) if !folder.has(path) => {
                problems.fail("replay", path, format!("missing; finding {rank} names it"));
            }
            None if finding["replay_reason"].is_null() => {
                problems.fail("replay", FINDINGS, format!("finding {rank} has neither a replay package nor a reason"));
            }
            _ => {}
        }
    }
}

/// What a JSON file is referred to for, and the packages it refers to.
pub(super) fn document(
    folder: &Folder<'_>,
    name: &str,
    document: &Json<'_>,
    facts: &Facts<'_>,
    problems: &mut Problems,
) {
    if let Some(table) = name.strip_prefix("category_data/") {
        evidence_in(table, document, facts, problems);
    }
    let packages: Vec<&str> = if name == "replay_packages/index.json" {
        list(&document["packages"]).filter_map(|p| p["package"].as_str()).collect()
    } else if facts.categories("compute_kernel").any(|c| c["metrics_file"] == name) {
        list(&document["bottlenecks"]).filter_map(|b| b["replay"]["package"].as_str()).collect()
    } else {
        return;
    };
    for package in packages {
        let path = format!("replay_packages/{}", package.rsplit('/').next().unwrap_or(package));
        if !folder.has(&path) {
            problems.fail("replay", &path, format!("missing; {name} names it"));
        }
    }
}

/// What findings say to stand in a file of `category_data/` does.
fn evidence_in(table: &str, document: &Json<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    for finding in list(&facts.findings["findings"]) {
        let rows = list(&finding["evidence"]).filter(|e| e["table"] == table).filter_map(|e| e["row"].as_str());
        for row in rows {
            let found = if table == "fusion_candidates.json" { candidate(document, row) } else { entry(document, row) };
            if !found {
                let text = format!("finding {}: {table} has no `{row}`", finding["rank"]);
                problems.fail("evidence", FINDINGS, text);
            }
        }
    }
}

/// Sheets, each read once.
struct Sources<'a, 'f> {
    folder: &'a Folder<'f>,
    facts: &'a Facts<'a>,
    uids: BTreeMap<String, Option<BTreeSet<u64>>>,
}

impl Sources<'_, '_> {
    fn holds(&mut self, evidence: &Json<'_>) -> Result<(), String> {
        let (Some(table), Some(row)) = (evidence["table"].as_str(), evidence["row"].as_str()) else {
            return Err("evidence without table or row".to_owned());
        };
        if table.strip_suffix(".json").is_some() {
            // Whether the row is there is seen when the file is read.
            let path = format!("category_data/{table}");
            return if self.folder.has(&path) { Ok(()) } else { Err(format!("{path} is not there")) };
        }
        self.sheet_holds(table, row, evidence["uid"].as_u64())
    }

    fn sheet_holds(&mut self, table: &str, row: &str, uid: Option<u64>) -> Result<(), String> {
        let folder = if self.facts.is_comparative() { "target_perf_report_csvs" } else { "perf_report_csvs" };
        let path = format!("{folder}/{table}.csv");
        if !is_relative(&path) {
            return Err(format!("{path} leaves the folder"));
        }
        if !self.folder.has(&path) {
            return Err(format!("{path} is not there"));
        }
        if self.folder.is_closed(&path) {
            return Ok(());
        }
        let bytes = || self.folder.bytes(&path).unwrap_or_default();
        let uids = self.uids.entry(path.clone()).or_insert_with(|| uids(&bytes()));
        let found = match (uids, uid) {
            // What is said of a whole category has no row.
            (Some(_), None) => list(&self.facts.manifest["categories"]).any(|c| c["name"] == row),
            (Some(uids), Some(uid)) => uids.contains(&uid),
            (None, _) => {
                let bytes = bytes();
                has_cell(&bytes, row) || row == UNNAMED && has_cell(&bytes, "")
            }
        };
        let uid = uid.map(|uid| format!(" (uid {uid})")).unwrap_or_default();
        if found { Ok(()) } else { Err(format!("{path} has no row `{row}`{uid}")) }
    }
}

/// The examples that rows of a sheet are known by, if it has such a column.
fn uids(bytes: &[u8]) -> Option<BTreeSet<u64>> {
    let uid = |cell: &str| cell.strip_suffix(".0").unwrap_or(cell).parse().ok();
    Some(sheet::column(bytes, "ex_UID")?.filter_map(uid).collect())
}

/// Whether a cell of a sheet is this text; a guard against formulas does not count.
fn has_cell(bytes: &[u8], text: &str) -> bool {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(bytes);
    let is = |cell: &str| cell == text || cell.strip_prefix('\'') == Some(text);
    reader.records().flatten().any(|record| record.iter().any(is))
}

/// `CODE dims` names a candidate of this pattern.
fn candidate(document: &Json<'_>, row: &str) -> bool {
    let code = row.split_whitespace().next().unwrap_or_default();
    list(&document["candidates"]).any(|c| c["pattern"] == code)
}

/// `gap_analysis.by_class host_sync` names an entry of a list or of an object.
fn entry(document: &Json<'_>, row: &str) -> bool {
    let (path, key) = row.split_once(' ').unwrap_or((row, ""));
    let place = path.split('.').fold(document, |value, part| &value[part]);
    match place {
        Json::Object(object) => key.is_empty() || object.get(key).is_some(),
        Json::List(items) => {
            let is = |v: &Json<'_>| v.as_str() == Some(key) || v.as_u64().is_some_and(|n| n.to_string() == key);
            key.is_empty() || items.iter().any(|i| ["class", "name", "rank", "collective"].iter().any(|k| is(&i[k])))
        }
        Json::Null => false,
        _ => key.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_of_files_are_found_by_place_and_key() {
        let written = json!({
            "gap_analysis": {"by_class": [{"class": "host_sync"}], "top_gaps": [{"rank": 2}]},
            "sync": {"by_name": {"a b": {}}},
        });
        let document = Json::deserialize(&written).unwrap();
        assert!(entry(&document, "gap_analysis.by_class host_sync"));
        assert!(entry(&document, "gap_analysis.top_gaps 2"));
        assert!(entry(&document, "sync.by_name a b"));
        assert!(!entry(&document, "gap_analysis.by_class host_work"));
        assert!(!entry(&document, "gap_analysis.top_gaps 1"));
        assert!(!entry(&document, "nowhere x"));
    }

    #[test]
    fn rows_of_sheets_are_found_by_uid_else_by_text() {
        let sheet = "name,ex_UID\naten::mm,12\naten::add,7.0\n'=x,\n".as_bytes();
        assert_eq!(uids(sheet).unwrap().into_iter().collect::<Vec<_>>(), [7, 12]);
        assert_eq!(uids(b"type,time ms\nidle_time,1.0\n"), None);
        assert!(has_cell(sheet, "aten::add") && has_cell(sheet, "=x"));
        assert!(!has_cell(sheet, "aten::addmm"));
    }
}

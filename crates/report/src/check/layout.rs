//! W1 to W7: the files that must be there are there, and no others of their kind.

use super::folder::{Folder, Problems};
use super::json::Json;
use super::{Facts, list};

/// Folders of every run.
const FOLDERS: [&str; 3] = ["metadata", "category_data", "system_findings"];
/// Folder of every run that has a category of operations.
const CATEGORIES: &str = "category_findings";

/// Keys of a manifest entry that name a file, with the checks they belong to.
const PATHS: [(&str, &str); 6] = [
    ("metadata_file", "W2"),
    ("tree_data_file", "W5"),
    ("findings_file", "W6"),
    ("csv_file", "files"),
    ("metrics_file", "files"),
    ("data_file", "files"),
];

pub(super) fn check(folder: &Folder<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    let has_categories = facts.categories("compute_kernel").next().is_some();
    let wanted = FOLDERS.into_iter().chain(has_categories.then_some(CATEGORIES));
    for name in wanted.filter(|f| !folder.has_folder(f)) {
        problems.fail("W1", name, "the folder is missing");
    }
    required(folder, facts, problems);
    let manifest = "category_manifest.json";
    let copy = folder.bytes("category_data/category_manifest.json");
    if copy.is_some_and(|copy| Some(copy) != folder.bytes(manifest)) {
        problems.fail("files", "category_data/category_manifest.json", "differs from that at the root");
    }
    for category in list(&facts.manifest["categories"]) {
        for (key, check) in PATHS {
            if let Some(path) = category[key].as_str() {
                if !is_relative(path) {
                    problems.fail("path", manifest, format!("`{key}` leaves the output folder: {path}"));
                } else if !folder.has(path) {
                    problems.fail(check, path, format!("missing; `{key}` of {} names it", category["name"]));
                }
            }
        }
        if category["metrics_file"].is_null() || category["findings_file"].is_null() {
            problems.fail("W6", manifest, format!("{} has no metrics or no findings", category["name"]));
        }
        csv_rows(folder, category, problems);
    }
    known_findings(folder, facts, problems);
}

/// Files of every run, whatever is in the trace, with the checks they belong to.
fn of_every_run(facts: &Facts<'_>) -> Vec<(&'static str, &'static str)> {
    let mut files = vec![
        ("files", "category_manifest.json"),
        ("files", "category_data/category_manifest.json"),
        ("files", "findings.json"),
        ("W3", "metadata/model_info.json"),
    ];
    let reports: &[_] = if facts.is_comparative() {
        &[
            ("files", "target_perf_report.xlsx"),
            ("files", "reference_perf_report.xlsx"),
            ("W4", "target_perf_report_csvs/unified_perf_summary.csv"),
            ("files", "target_perf_report_csvs/gpu_timeline.csv"),
            ("files", "reference_perf_report_csvs/gpu_timeline.csv"),
            ("files", "comparison.xlsx"),
            ("files", "category_data/comparison_metrics.json"),
            ("files", "comparative_analysis_fair.md"),
            ("files", "comparative_analysis_rough.md"),
        ]
    } else {
        &[
            ("files", "perf_report.xlsx"),
            ("W4", "perf_report_csvs/unified_perf_summary.csv"),
            ("files", "perf_report_csvs/gpu_timeline.csv"),
            ("files", "standalone_analysis_fair.md"),
            ("files", "standalone_analysis_rough.md"),
        ]
    };
    files.extend(reports);
    // Without operations that have kernels the report has no such sheet.
    let no_rows = facts.categories("compute_kernel").all(|c| c["csv_file"].is_null());
    files.retain(|(check, _)| !(*check == "W4" && no_rows));
    files
}

fn required(folder: &Folder<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    for (check, name) in of_every_run(facts).into_iter().filter(|(_, name)| !folder.has(name)) {
        problems.fail(check, name, "missing");
    }
}

/// Files that the run must have written: those of every run, its page, and what its manifest names.
pub(super) fn must_have_written<'f>(facts: &'f Facts<'_>) -> impl Iterator<Item = &'f str> {
    let named = list(&facts.manifest["categories"]).flat_map(|c| PATHS.map(|(key, _)| c[key].as_str()));
    let always = of_every_run(facts).into_iter().map(|(_, name)| name);
    always.chain([crate::html::PAGE]).chain(named.flatten())
}

/// Whether a findings file is that of a category without operations: its metrics say so, and the manifest has no such entry.
fn is_without_data(folder: &Folder<'_>, findings: &str) -> bool {
    let key = findings.strip_prefix("category_findings/").and_then(|name| name.strip_suffix("_findings.md"));
    let metrics = key.and_then(|key| folder.bytes(&format!("category_data/{key}_metrics.json")));
    metrics.is_some_and(|bytes| Json::read(&bytes).is_ok_and(|m| m["status"].as_str() == Some("NO_DATA")))
}

/// W7: no findings that the manifest does not know, hence none in the folder of the other tier.
fn known_findings(folder: &Folder<'_>, facts: &Facts<'_>, problems: &mut Problems) {
    for (tier, place) in [("compute_kernel", "category_findings/"), ("system", "system_findings/")] {
        let known: Vec<&str> = facts.categories(tier).filter_map(|c| c["findings_file"].as_str()).collect();
        for name in folder.ending(".md").filter(|name| name.starts_with(place) && !known.contains(name)) {
            if is_without_data(folder, name) {
                continue;
            }
            problems.fail("W7", name, "no category of the manifest has these findings");
        }
    }
}

/// The rows of a category are as many as the manifest says, with the columns that the analysis adds.
fn csv_rows(folder: &Folder<'_>, category: &Json<'_>, problems: &mut Problems) {
    /// Columns of texts that a trace or an extension is free to choose.
    const TEXTS: [&str; 11] = [
        "name",
        "op category",
        "process_name",
        "process_label",
        "thread_name",
        "Input Dims",
        "Input type",
        "Input Strides",
        "Concrete Inputs",
        "enhanced_category",
        "display_name",
    ];
    const ADDED: [&str; 4] = ["enhanced_category", "percent_of_category", "in_top_ops", "efficiency_percent"];
    let Some(name) = category["csv_file"].as_str() else { return };
    let Some(bytes) = folder.bytes(name) else { return };
    let mut reader = csv::ReaderBuilder::new().from_reader(&*bytes);
    let headers: Vec<String> = reader.headers().map(|h| h.iter().map(str::to_owned).collect()).unwrap_or_default();
    for missing in ADDED.into_iter().filter(|a| !headers.iter().any(|h| h == a)) {
        problems.fail("csv", name, format!("no column `{missing}`"));
    }
    let mut rows = 0;
    for record in reader.records() {
        match record {
            Ok(record) => {
                rows += 1;
                let mut numbers =
                    record.iter().zip(&headers).filter(|(_, h)| !TEXTS.contains(&h.as_str())).map(|(cell, _)| cell);
                if numbers.any(|cell| matches!(cell, "nan" | "NaN" | "inf" | "-inf")) {
                    problems.fail_at("nan", name, rows + 1, "a value is no number");
                }
            }
            Err(error) => {
                problems.fail("csv", name, format!("no CSV: {error}"));
                return;
            }
        }
    }
    if category["ops_count"].as_u64() != Some(rows as u64) {
        problems.fail("csv", name, format!("{rows} rows, the manifest says {}", category["ops_count"]));
    }
}

/// Whether a path stays in the folder it is relative to.
pub(super) fn is_relative(path: &str) -> bool {
    let drive = path.as_bytes().get(1) == Some(&b':');
    !path.is_empty() && !drive && !path.contains('\\') && path.split('/').all(|part| !part.is_empty() && part != "..")
}

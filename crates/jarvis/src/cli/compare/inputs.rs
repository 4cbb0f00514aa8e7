//! Reports from files and folders, and the names they go by.

use std::fs;
use std::path::{Path, PathBuf};

use jarvis_analyze::compare::reports::read::{self, ReadTableError};
use jarvis_analyze::texts::counted;
use jarvis_perf::tables::Table;

use crate::cli::Failure;
use crate::exit;

/// Names that say nothing about what is in a report: the folder above does.
const USUAL: [&str; 5] =
    ["perf_report", "perf_report_csvs", "target_perf_report_csvs", "analysis_output", "comparison_csvs"];
/// Endings that say nothing either.
const ENDINGS: [&str; 3] = ["_perf_report_csvs", "_perf_report", "_csvs"];

/// Folders of CSV files in an output folder. Of a comparison, the report is the target's.
const INNER: [&str; 2] = ["perf_report_csvs", "target_perf_report_csvs"];

/// The tables of a report.
pub(super) fn read(path: &Path) -> Result<Vec<Table>, Failure> {
    if path.is_dir() {
        // The output folders of `jarvis report` and `jarvis analyze` hold their CSV files in a folder of their own.
        let inner = INNER.iter().map(|name| path.join(name)).find(|inner| inner.is_dir());
        return folder(inner.as_deref().unwrap_or(path));
    }
    let bytes = fs::read(path).map_err(|error| unreadable(path, &error))?;
    if !bytes.starts_with(b"PK") {
        let help = "give an .xlsx report or a folder of CSV files; `jarvis report TRACE` makes them, and \
                    `jarvis diff TRACE1 TRACE2` compares traces";
        return Err(Failure::new(exit::INPUT, format!("{}: not a report", path.display())).help(help));
    }
    read::workbook(&bytes).map_err(|error| damaged(path, &error))
}

fn folder(path: &Path) -> Result<Vec<Table>, Failure> {
    let entries = fs::read_dir(path).map_err(|error| unreadable(path, &error))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv")) && file.is_file());
    files.sort_unstable();
    if files.is_empty() {
        let what = format!("{}: there are no CSV files in this folder", path.display());
        return Err(Failure::new(exit::INPUT, what).help("give a folder that `jarvis report` made, or an .xlsx report"));
    }
    let table = |file: &PathBuf| {
        let sheet = file.file_stem().unwrap_or_default().to_string_lossy();
        let bytes = fs::read(file).map_err(|error| unreadable(file, &error))?;
        read::csv(&sheet, &bytes).map_err(|error| damaged(path, &error))
    };
    files.iter().map(table).collect()
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(exit::INPUT, format!("{}: {error}", path.display())).help("check the path and who may read it")
}

fn damaged(path: &Path, error: &ReadTableError) -> Failure {
    Failure::new(exit::INPUT, format!("{}: {error}", path.display())).help(error.help())
}

/// The names of the reports: those given, else from their files.
pub(super) fn tags(reports: &[PathBuf], names: &[String], parity: bool) -> Result<Vec<String>, Failure> {
    if !names.is_empty() {
        if names.len() != reports.len() {
            let what = format!("{} for {}", counted(names.len(), "name"), counted(reports.len(), "report"));
            return Err(Failure::usage(what).help("give --names one name a report, in their order"));
        }
        return Ok(names.to_vec());
    }
    if parity {
        let stem = |path: &PathBuf| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(reports.iter().map(stem).collect());
    }
    let words: Vec<Vec<String>> = reports.iter().map(|path| words(path)).collect();
    let mut tags: Vec<String> = Vec::new();
    for (at, own) in words.iter().enumerate() {
        // As many folders as it takes to tell it from the others.
        let long = |count: usize| {
            let from = own.len().saturating_sub(count);
            own[from..].join("_")
        };
        let others = |count: usize| {
            let from = |w: &Vec<String>| w[w.len().saturating_sub(count)..].join("_");
            words.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, w)| from(w)).collect::<Vec<_>>()
        };
        let count = (1..=own.len().max(1)).find(|&count| !others(count).contains(&long(count))).unwrap_or(1);
        let tag = Some(long(count)).filter(|tag| !tag.is_empty()).unwrap_or_else(|| "report".to_owned());
        let mut free = tag.clone();
        let mut number = 1;
        while tags.contains(&free) {
            number += 1;
            free = format!("{tag}-{number}");
        }
        tags.push(free);
    }
    Ok(tags)
}

/// The parts of a path that say something, outermost first, in characters that can stand in column names.
fn words(path: &Path) -> Vec<String> {
    let full = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let stem = if full.is_dir() { full.file_name() } else { full.file_stem() };
    let folders = full.parent().into_iter().flat_map(Path::iter).skip(1);
    let parts = folders.chain(stem).map(|part| part.to_string_lossy().into_owned());
    let mut words: Vec<String> = parts.collect();
    while words.len() > 1 && words.last().is_some_and(|w| USUAL.contains(&w.as_str())) {
        words.pop();
    }
    if let Some(last) = words.last_mut() {
        for ending in ENDINGS {
            if let Some(short) = last.strip_suffix(ending).filter(|s| !s.is_empty()) {
                *last = short.to_owned();
            }
        }
    }
    for word in &mut words {
        *word = word.replace("::", "_");
        while word.contains("__") {
            *word = word.replace("__", "_");
        }
        *word = word.trim_matches('_').to_owned();
    }
    words.retain(|w| !w.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(paths: &[&str]) -> Vec<String> {
        tags(&paths.iter().map(PathBuf::from).collect::<Vec<_>>(), &[], false).unwrap()
    }

    #[test]
    fn names_say_what_tells_reports_apart() {
        assert_eq!(named(&["x/a.xlsx", "y/b.xlsx"]), ["a", "b"]);
        assert_eq!(named(&["/r/before/analysis_output", "/r/after/analysis_output"]), ["before", "after"]);
        assert_eq!(named(&["/r/one/perf_report.xlsx", "/r/two/perf_report.xlsx"]), ["one", "two"]);
        assert_eq!(named(&["/m/q__5_perf_report_csvs", "/n/q__5_perf_report_csvs"]), ["m_q_5", "n_q_5"]);
        assert_eq!(named(&["/a/r.xlsx", "/a/r.xlsx", "/a/r.xlsx"]), ["r", "r-2", "r-3"]);
        assert_eq!(named(&["/a/run-old.xlsx", "/a/run.xlsx"]), ["run-old", "run"]);
        assert!(tags(&[PathBuf::from("a")], &["x".into(), "y".into()], false).is_err());
    }
}

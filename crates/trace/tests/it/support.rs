//! What the tests share.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use jarvis_trace::{ReadOptions, Trace};

/// The folder of reference traces in `$JARVIS_SHARED` or beside the checkout, if it is there.
pub(crate) fn shared_traces() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("JARVIS_SHARED").map_or_else(beside, PathBuf::from).join("traces");
    let found = root.is_dir().then_some(root);
    if found.is_none() {
        eprintln!("skipped: ../shared/traces is not there");
    }
    found
}

/// A trace below the folder of reference traces.
pub(crate) fn shared_trace(root: &Path, name: &str) -> Trace {
    Trace::open(&root.join(format!("{name}.json.gz")), &ReadOptions::default()).unwrap()
}

/// Every reference trace: its path without the suffix, the folder of tables beside it, and the trace itself.
pub(crate) fn all_shared_traces() -> impl Iterator<Item = (String, PathBuf, Trace)> {
    let paths = shared_traces().map_or_else(Vec::new, |root| trace_files(&root));
    paths.into_iter().map(|path| {
        let stem = path.to_str().unwrap().strip_suffix(".json.gz").unwrap().to_owned();
        let trace = Trace::open(&path, &ReadOptions::default()).unwrap();
        (stem.clone(), PathBuf::from(stem + "_perf_report_csvs"), trace)
    })
}

/// Rows of a CSV file as maps from column to cell; `None` where there is no such file.
pub(crate) fn table(path: &Path) -> Option<Vec<HashMap<String, String>>> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut records = vec![vec![String::new()]];
    let mut quoted = false;
    for c in text.chars() {
        let record = records.last_mut().unwrap();
        match c {
            // A doubled quote closes and opens again; the quote itself is of no interest here.
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(String::new()),
            '\n' if !quoted => records.push(vec![String::new()]),
            '\r' if !quoted => {}
            c => record.last_mut().unwrap().push(c),
        }
    }
    records.retain(|r| r.len() > 1);
    let header = records.remove(0);
    Some(records.into_iter().map(|r| header.iter().cloned().zip(r).collect()).collect())
}

/// All trace files below a folder, in a fixed order.
pub(crate) fn trace_files(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".json.gz") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Unpacks a gzip file with the plain library reader.
pub(crate) fn gunzip(path: &Path) -> Vec<u8> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut text).unwrap();
    text
}

/// A committed fixture.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

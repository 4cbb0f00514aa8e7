//! What the tests share.

use std::path::PathBuf;

/// The folder of reference traces beside the checkout, if it is there.
pub(crate) fn shared_traces() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let found = root.is_dir().then_some(root);
    if found.is_none() {
        eprintln!("skipped: ../shared/traces is not there");
    }
    found
}

/// All trace files below a folder, in a fixed order.
pub(crate) fn trace_files(root: &std::path::Path) -> Vec<PathBuf> {
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
pub(crate) fn gunzip(path: &std::path::Path) -> Vec<u8> {
    let mut text = Vec::new();
    let file = std::fs::File::open(path).unwrap();
    std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(file), &mut text).unwrap();
    text
}

/// A committed fixture.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

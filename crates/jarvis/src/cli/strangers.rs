//! Files in an output folder that are none of this run: an earlier one left them, of another trace or with other
//! options, and they would look like its results.

use std::path::{Path, PathBuf};

use super::Session;

/// Tells of files in a folder that this run did not write and whose names are those of results.
pub(crate) fn warn_of_strangers(session: &Session, folder: &Path, ours: &[PathBuf], is_result: impl Fn(&str) -> bool) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut strangers: Vec<String> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| !ours.contains(path))
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .filter(|name| is_result(name))
        .collect();
    strangers.sort_unstable();
    if !strangers.is_empty() {
        let names = strangers.join(", ");
        session.warn(&format!("{} also holds files that this run did not write: {names}", folder.display()));
    }
}

/// Whether a file may be a table.
pub(crate) fn is_sheet(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "csv")
}

//! Where a trace can't be opened: what else is there that may have been meant.

use std::io;
use std::path::Path;

use jarvis_perf::nearest::nearest;
use jarvis_trace::ReadError;

use super::Failure;

/// Names listed at most.
const LIST: usize = 5;

/// Endings of trace files.
const ENDINGS: [&str; 2] = [".json", ".json.gz"];

/// Whether a file is called like a trace.
pub(crate) fn looks_like_a_trace(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The failure, with the names of traces that are there.
pub(crate) fn explain(error: ReadError) -> Failure {
    let help = match &error {
        ReadError::Directory { path } => Some(inside(path)),
        ReadError::Io { path, source } if source.kind() == io::ErrorKind::NotFound => meant(path),
        _ => None,
    };
    let failure = Failure::from(error);
    match help {
        Some(help) => failure.help(help),
        None => failure,
    }
}

/// What to do with a folder.
fn inside(folder: &Path) -> String {
    if folder.join("category_manifest.json").is_file() {
        return "it is an output folder of jarvis: open its report.html, or pass the trace it was made from".to_owned();
    }
    let names = traces_in(folder);
    if names.is_empty() {
        return "pass one trace file; no .json or .json.gz is in that folder".to_owned();
    }
    let shown: Vec<String> = names.iter().take(LIST).map(|name| folder.join(name).display().to_string()).collect();
    let more = if names.len() > LIST { format!(" and {} more", names.len() - LIST) } else { String::new() };
    format!("pass one trace file of that folder: {}{more}", shown.join(", "))
}

/// The file that may have been meant.
fn meant(path: &Path) -> Option<String> {
    if let Ok(aim) = std::fs::read_link(path) {
        return Some(format!("it is a link to {}, which is not there", aim.display()));
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let names = traces_in(folder.unwrap_or(Path::new(".")));
    // The ending is what is left out most often.
    let longer = names.iter().find(|n| n.starts_with(&*name)).map(String::as_str);
    let near = longer.or_else(|| nearest(&name, names.iter().map(String::as_str)))?;
    Some(format!("did you mean {}?", folder.map_or(near.into(), |folder| folder.join(near)).display()))
}

/// Names of a folder's files that are called like traces, sorted.
fn traces_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // Links count by what they lead to.
    let files = entries.filter(|entry| entry.path().metadata().is_ok_and(|it| !it.is_dir()));
    let mut names: Vec<String> = files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| looks_like_a_trace(name));
    names.sort_unstable();
    names
}

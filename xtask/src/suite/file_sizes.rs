//! Source files stay short enough to be read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::steps::Outcome;

/// Longest source file, in lines.
const MOST_LINES: usize = 1000;

/// Files that may be longer, with the reason; only tables of data belong here.
const DATA_TABLES: &[(&str, &str)] = &[];

/// Endings of source files.
const SOURCES: &[&str] = &["rs", "py", "js", "mjs", "ts", "css", "html", "sh"];

/// Folders that hold nothing written by hand.
const NOT_OURS: &[&str] = &["target", "node_modules"];

/// Fails if a source file is too long, or if an entry of the list of exceptions is not needed.
pub(super) fn check(root: &Path) -> Result<Outcome> {
    let mut complaints = Vec::new();
    let mut exceptions: Vec<&str> = DATA_TABLES.iter().map(|(path, _)| *path).collect();
    for path in sources(root)? {
        let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = String::from_utf8_lossy(&text).lines().count();
        let shown = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if lines <= MOST_LINES {
            continue;
        }
        match exceptions.iter().position(|exception| *exception == shown) {
            Some(at) => drop(exceptions.swap_remove(at)),
            None => complaints.push(format!("{shown} has {lines} lines; split it, {MOST_LINES} is the limit")),
        }
    }
    complaints.extend(exceptions.iter().map(|path| format!("{path} needs no exception any more")));
    if complaints.is_empty() { Ok(Outcome::Passed) } else { bail!(complaints.join("\n")) }
}

/// Source files under `root`, sorted. Links are not followed, so a linked folder of traces costs nothing.
fn sources(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kind = entry.file_type()?;
            if kind.is_dir() && !name.starts_with('.') && !NOT_OURS.contains(&name.as_str()) {
                folders.push(entry.path());
            } else if kind.is_file() && name.rsplit_once('.').is_some_and(|(_, end)| SOURCES.contains(&end)) {
                found.push(entry.path());
            }
        }
    }
    found.sort_unstable();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_named_and_others_pass() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::create_dir_all(root.join("target")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        fs::write(root.join("src/deep/good.rs"), "x\n".repeat(MOST_LINES)).unwrap();
        for ignored in ["src/data.json", "target/long.rs", ".git/long.rs"] {
            fs::write(root.join(ignored), "x\n".repeat(MOST_LINES + 1)).unwrap();
        }
        assert_eq!(check(root).unwrap(), Outcome::Passed);
        fs::write(root.join("src/deep/long.rs"), "x\n".repeat(MOST_LINES + 1)).unwrap();
        let complaint = check(root).unwrap_err().to_string();
        assert_eq!(complaint, "src/deep/long.rs has 1001 lines; split it, 1000 is the limit");
    }
}

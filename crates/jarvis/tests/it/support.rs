//! Running the binary.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A committed fixture.
pub(crate) fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// The result of a run: exit status, standard output, standard error.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().expect("no signal"),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }
}

/// Runs jarvis with these arguments.
pub(crate) fn jarvis(args: &[&str]) -> Run {
    command(args).output().expect("jarvis runs").into()
}

/// Runs jarvis with this standard input.
pub(crate) fn jarvis_fed(args: &[&str], input: &[u8]) -> Run {
    use std::io::Write;
    let mut child =
        command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("jarvis runs");
    // The program may stop reading early.
    let _ = child.stdin.take().expect("piped").write_all(input);
    child.wait_with_output().expect("jarvis ends").into()
}

/// Jarvis with these arguments, ready to be run.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jarvis"));
    // Help is wrapped to the width of the terminal.
    command.args(args).stdin(Stdio::null()).env("COLUMNS", "120");
    command
}

/// Every file below a folder, by its path in it.
pub(crate) fn files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(root).expect("inside").to_string_lossy().replace('\\', "/");
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

/// A trace or folder that is not part of the project, if it is there.
pub(crate) fn shared(name: &str) -> Option<PathBuf> {
    let up = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = up.map(|folder| folder.join("shared/traces").join(name)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: shared/traces/{name} is not here");
    }
    found
}

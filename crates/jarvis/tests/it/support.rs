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

/// Runs a command of the shell in a terminal and answers it: each text is typed once what stands before it was shown.
/// Nothing where there is no `script` to make a terminal.
pub(crate) fn in_a_terminal(command: &str, folder: &Path, talk: &[(&str, &str)]) -> Option<Run> {
    use std::io::{Read as _, Write as _};
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    if !cfg!(target_os = "linux") {
        return None;
    }
    let child = Command::new("script")
        .args(["--quiet", "--return", "--echo", "never", "--command", command, "/dev/null"])
        .current_dir(folder)
        .env("NO_COLOR", "1")
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped: there is no `script` here");
        return None;
    };
    let mut stdin = child.stdin.take().expect("piped");
    let mut stdout = child.stdout.take().expect("piped");
    let shown = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&shown);
    let listener = std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(n @ 1..) = stdout.read(&mut buffer) {
            heard.lock().expect("no panic").extend_from_slice(&buffer[..n]);
        }
    });
    let mut seen = 0;
    for (awaited, typed) in talk {
        let began = Instant::now();
        loop {
            let text = String::from_utf8_lossy(&shown.lock().expect("no panic")).into_owned();
            if let Some(at) = text.get(seen..).and_then(|rest| rest.find(awaited)) {
                seen += at + awaited.len();
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(30), "{awaited:?} was not shown:\n{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
        stdin.write_all(typed.as_bytes()).expect("typed");
    }
    let status = child.wait().expect("it ends");
    listener.join().expect("no panic");
    // The end of input would have ended the terminal before the answer was there.
    drop(stdin);
    let out = String::from_utf8_lossy(&shown.lock().expect("no panic")).into_owned();
    Some(Run { status: status.code().expect("no signal"), out, err: String::new() })
}

/// The binary.
pub(crate) const JARVIS: &str = env!("CARGO_BIN_EXE_jarvis");

//! `jarvis check`: verifies a finished output folder.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use jarvis_analyze::texts::counted;
use jarvis_report::check::{Folder, Level, Problem, check};
use jarvis_trace::spelled;
use serde_json::json;

use super::{Failure, Session};
use crate::exit;

#[derive(Debug, Args)]
#[command(
    after_help = "One line for each check that does not hold; exit status 1 if there is one.\n\nExamples:\n  jarvis check analysis_output\n  jarvis check analysis_output --json"
)]
pub(crate) struct CheckArgs {
    /// Output folder of `jarvis analyze`
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(session: &Session, args: &CheckArgs) -> Result<(), Failure> {
    let read = session.stage("reading", || Contents::of(&args.folder))?;
    let mut folder = Folder::new();
    for name in &read.folders {
        folder.folder(name.clone());
    }
    for (name, file) in &read.files {
        folder.size(name.clone(), file.size);
        if is_looked_at(name) {
            folder.file(name.clone(), &file.bytes);
        } else {
            // One that can't be read is not the one that was written.
            let path = args.folder.join(name);
            folder.file_read_by(name.clone(), move || std::fs::read(&path).unwrap_or_default().into());
        }
    }
    if !folder.is_output() {
        return Err(Failure::new(exit::INPUT, format!("{}: no output of `jarvis analyze`", args.folder.display()))
            .help("name the folder that has `category_manifest.json` and `findings.json`"));
    }
    let problems = session.stage("checks", || check(&folder));
    let failed = problems.iter().filter(|p| p.level == Level::Failed).count();
    let mut answer = String::new();
    if session.common.json {
        answer = format!("{:#}\n", machine_form(&args.folder, folder.len(), failed, &problems));
    } else {
        for problem in problems.iter().filter(|p| p.level == Level::Failed || !session.common.quiet) {
            answer += &format!("{}\n", spelled(&problem.to_string()));
        }
        if failed == 0 && !session.common.quiet {
            answer += &format!("ok: {}, every check holds\n", counted(folder.len(), "file"));
        }
    }
    session.print(answer.as_bytes())?;
    if failed == 0 {
        return Ok(());
    }
    let checks = if failed == 1 { "1 check does".to_owned() } else { format!("{failed} checks do") };
    Err(Failure::new(exit::GATE, format!("{}: {checks} not hold", args.folder.display())).help(
        "run `jarvis analyze` again into an empty folder; if that does not help, please report it with the lines above",
    ))
}

fn machine_form(folder: &Path, files: usize, failed: usize, problems: &[Problem]) -> serde_json::Value {
    json!({
        "schema": "jarvis.check/1",
        "folder": folder.to_string_lossy(),
        "ok": failed == 0,
        "files": files,
        "failed": failed,
        "warnings": problems.len() - failed,
        "problems": problems,
    })
}

/// Files whose contents are looked at.
const READ: [&str; 3] = ["json", "md", "csv"];

/// Folders deeper than this are not part of an output.
const DEEPEST: usize = 4;

/// Whether the contents of a file are looked at. The others may be large, and are read only to see whether they are
/// whole.
fn is_looked_at(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| READ.iter().any(|r| e == *r))
}

/// A file of the folder.
struct Found {
    /// Empty where the contents are not looked at.
    bytes: Vec<u8>,
    size: u64,
}

/// What is in a folder.
#[derive(Default)]
struct Contents {
    files: BTreeMap<String, Found>,
    folders: Vec<String>,
}

impl Contents {
    fn of(root: &Path) -> Result<Self, Failure> {
        let mut contents = Self::default();
        contents.add(root, "", 0)?;
        contents.folders.sort_unstable();
        Ok(contents)
    }

    fn add(&mut self, path: &Path, inside: &str, depth: usize) -> Result<(), Failure> {
        let unreadable = |path: &Path, error: io::Error| {
            Failure::new(exit::INPUT, format!("{}: {error}", path.display()))
                .help("name a folder that `jarvis analyze` wrote and that can be read")
        };
        for entry in std::fs::read_dir(path).map_err(|e| unreadable(path, e))? {
            let entry = entry.map_err(|e| unreadable(path, e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let name = if inside.is_empty() { name } else { format!("{inside}/{name}") };
            let kind = entry.file_type().map_err(|e| unreadable(&entry.path(), e))?;
            if kind.is_dir() && depth < DEEPEST {
                self.add(&entry.path(), &name, depth + 1)?;
                self.folders.push(name);
            } else if kind.is_file() {
                let bytes = if is_looked_at(&name) {
                    std::fs::read(entry.path()).map_err(|e| unreadable(&entry.path(), e))?
                } else {
                    Vec::new()
                };
                let size = entry.metadata().map_err(|e| unreadable(&entry.path(), e))?.len();
                self.files.insert(name, Found { bytes, size });
            }
        }
        Ok(())
    }
}

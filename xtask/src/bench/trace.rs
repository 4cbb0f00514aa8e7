//! The traces a benchmark runs on: generated ones, kept between runs, and the largest real one that is at hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::generate::VERSION;
use crate::size::Size;

/// How a trace is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Container {
    /// Compressed.
    Gzip,
    /// As text.
    Plain,
}

/// A trace with what is known of it.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// Same for a compressed file and its text.
    pub(crate) name: String,
    pub(crate) container: Container,
    pub(crate) path: PathBuf,
    pub(crate) json_bytes: u64,
    pub(crate) file_bytes: u64,
    pub(crate) events: u64,
}

impl Trace {
    /// Describes a file, counting its events.
    fn open(name: &str, container: Container, path: PathBuf, xtask: &Path) -> Result<Self> {
        let output = Command::new(xtask).args(["inflate", "--how", "count"]).arg(&path).output();
        let output = output.with_context(|| format!("cannot run {}", xtask.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
        let (json_bytes, events) = numbers.next().zip(numbers.next()).unwrap_or_default();
        ensure!(output.status.success() && events > 0, "{} is no readable trace", path.display());
        let file_bytes = fs::metadata(&path)?.len();
        Ok(Self { name: name.to_owned(), container, path, json_bytes, file_bytes, events })
    }
}

/// A generated trace of `size`, compressed and as text; files of earlier runs are used again.
pub(crate) fn generated(size: Size, seed: u64, folder: &Path, xtask: &Path) -> Result<Vec<Trace>> {
    let mut traces = Vec::new();
    for (container, suffix) in [(Container::Gzip, "json.gz"), (Container::Plain, "json")] {
        let path = folder.join(format!("generated-v{VERSION}-seed{seed}-{size}.{suffix}"));
        if !path.exists() {
            eprintln!("generating {}", path.display());
            let mut command = Command::new(xtask);
            command.args(["gen", "--size", &size.to_string(), "--seed", &seed.to_string()]).arg("-o").arg(&path);
            if container == Container::Gzip {
                command.arg("--gzip");
            }
            let output = command.output().with_context(|| format!("cannot run {}", xtask.display()))?;
            ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        traces.push(Trace::open(&format!("generated {size}"), container, path, xtask)?);
    }
    Ok(traces)
}

/// The largest real trace under `folder`.
pub(crate) fn largest_real(folder: &Path, xtask: &Path) -> Result<Option<Trace>> {
    let mut largest: Option<(u64, PathBuf)> = None;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
            let entry = entry?;
            let (path, metadata) = (entry.path(), entry.metadata()?);
            if metadata.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(".json.gz") {
                let candidate = (metadata.len(), path);
                largest = largest.max(Some(candidate));
            }
        }
    }
    let Some((_, path)) = largest else { return Ok(None) };
    let shown = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
    Trace::open(&format!("real {shown}"), Container::Gzip, path, xtask).map(Some)
}

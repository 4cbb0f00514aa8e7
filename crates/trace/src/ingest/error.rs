//! Why a file can't be read as a trace, and what to do about it.

use std::io;
use std::path::PathBuf;

use super::kinds::NotATrace;

/// Why there is no trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The operating system said no.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A folder was given.
    #[error("{} is a folder", path.display())]
    Directory {
        /// The folder.
        path: PathBuf,
    },
    /// There is nothing in it.
    #[error("{} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// It is something else.
    #[error("{} is no PyTorch profiler trace{}", path.display(), what.map_or(String::new(), |w| looks(w, *packed)))]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: Option<&'static NotATrace>,
        /// Whether that lay inside gzip.
        packed: bool,
    },
    /// It is JSON, but no trace.
    #[error("{} is JSON without a traceEvents array{}", path.display(), what.map_or(String::new(), |w| looks(w, false)))]
    NoEvents {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: Option<&'static NotATrace>,
    },
    /// It ends before the first event.
    #[error("{} ends before the first event", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
    },
}

fn looks(what: &NotATrace, packed: bool) -> String {
    format!(": it looks like {}{}", what.name, if packed { ", gzipped" } else { "" })
}

impl ReadError {
    /// What the user can do.
    pub fn help(&self) -> String {
        match self {
            Self::Io { source, .. }
                if matches!(source.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
            {
                "check the path; `ls` the folder it should be in".to_owned()
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "check the file's permissions".to_owned()
            }
            Self::Io { .. } => "check that the disk or network share is healthy, then try again".to_owned(),
            Self::Directory { .. } => "pass one trace file of that folder".to_owned(),
            Self::Empty { .. } => "the profiler may not have finished writing; wait for it or capture anew".to_owned(),
            Self::NotATrace { what: Some(what), .. } | Self::NoEvents { what: Some(what), .. } => what.help.to_owned(),
            Self::NotATrace { what: None, .. } | Self::NoEvents { what: None, .. } => {
                "record one with torch.profiler and prof.export_chrome_trace(\"trace.json.gz\")".to_owned()
            }
            Self::Truncated { .. } => "the file was cut very early: copy it again, or capture anew".to_owned(),
        }
    }
}

//! Why a file can't be read as a trace, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::limits::{Exceeded, Halt};

use super::kinds::NotATrace;

/// A number of bytes as people say it.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = "bytes";
    for larger in UNITS {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, larger);
    }
    if value.fract() == 0.0 { format!("{value} {unit}") } else { format!("{value:.1} {unit}") }
}

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
    /// It takes more memory than it may.
    #[error("{} takes more than {} of memory: that much was reached at byte {at} of its text, after {events} events", path.display(), size(*limit))]
    Memory {
        /// The file.
        path: PathBuf,
        /// What was allowed, in bytes.
        limit: u64,
        /// Byte of the (unpacked) text.
        at: u64,
        /// Events read until then.
        events: u64,
    },
    /// It goes on and on without an event.
    #[error("{} has more than {} of text without an event, from byte {from} of its text on", path.display(), size(*limit))]
    NoEventFor {
        /// The file.
        path: PathBuf,
        /// What is allowed, in bytes.
        limit: u64,
        /// Byte of the (unpacked) text after which no event ends.
        from: u64,
    },
    /// It unpacks to more than a recording would.
    #[error("{} is packed too well to be a recording: its first {} unpack to {}", path.display(), size(*packed), size(*unpacked))]
    Ratio {
        /// The file.
        path: PathBuf,
        /// Packed bytes read.
        packed: u64,
        /// What they unpack to.
        unpacked: u64,
    },
    /// It has more events than can be told apart.
    #[error("{} has more events or arguments than jarvis can count: {events} events were read", path.display())]
    TooManyEvents {
        /// The file.
        path: PathBuf,
        /// Events read until then.
        events: u64,
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
    pub(super) fn of_halt(halt: Halt, path: &Path) -> Self {
        let path = path.to_owned();
        match halt {
            Halt::Io(source) => Self::Io { path, source },
            Halt::Limit(Exceeded::Memory { limit, at, events }) => Self::Memory { path, limit, at, events },
            Halt::Limit(Exceeded::NoEvent { limit, from }) => Self::NoEventFor { path, limit, from },
            Halt::Limit(Exceeded::Ratio { packed, unpacked }) => Self::Ratio { path, packed, unpacked },
            Halt::Limit(Exceeded::Events { events }) => Self::TooManyEvents { path, events },
        }
    }

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
            Self::Memory { .. } => {
                "allow more with --max-memory SIZE if the machine has it, or record fewer steps (profiler schedule)"
                    .to_owned()
            }
            Self::NoEventFor { .. } => "no profiler writes this: find out where the file comes from".to_owned(),
            Self::Ratio { .. } => "find out where the file comes from; if you trust it and have the room, unpack it \
                                   yourself (gzip -dc) and pass the .json"
                .to_owned(),
            Self::TooManyEvents { .. } => "record fewer steps (profiler schedule), or a single rank a file".to_owned(),
            Self::Truncated { .. } => "the file was cut very early: copy it again, or capture anew".to_owned(),
        }
    }
}

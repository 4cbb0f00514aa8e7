//! Why a file can't be read as a trace, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use super::limits::{Exceeded, Halt};

/// A kind of file people mistake for a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotATrace {
    /// What it is.
    pub name: &'static str,
    /// How it begins.
    begins: &'static [u8],
    /// What to do.
    pub help: &'static str,
}

/// Kinds of files that are recognised by how they begin.
#[rustfmt::skip]
pub const NOT_TRACES: &[NotATrace] = &[
    NotATrace { name: "a PNG picture", begins: b"\x89PNG", help: "pass the profiler's trace file, usually *.pt.trace.json or *.json.gz" },
    NotATrace { name: "a JPEG picture", begins: b"\xff\xd8\xff", help: "pass the profiler's trace file, usually *.pt.trace.json or *.json.gz" },
    NotATrace { name: "a PDF document", begins: b"%PDF", help: "pass the profiler's trace file, usually *.pt.trace.json or *.json.gz" },
    NotATrace { name: "a web page", begins: b"<", help: "a download that failed often leaves an error page; fetch the trace again and look at the file" },
    NotATrace { name: "an SQLite database (an Nsight Systems or rocprof export)", begins: b"SQLite format 3", help: "jarvis reads PyTorch profiler traces; record one with torch.profiler and export_chrome_trace" },
    NotATrace { name: "an Nsight Systems report", begins: b"NVIDIA Nsight Systems", help: "jarvis reads PyTorch profiler traces; record one with torch.profiler and export_chrome_trace" },
    NotATrace { name: "a zip archive", begins: b"PK\x03\x04", help: "unzip it and pass the .json inside" },
    NotATrace { name: "zstd-compressed data", begins: b"\x28\xb5\x2f\xfd", help: "unpack it first: zstd -d FILE" },
    NotATrace { name: "xz-compressed data", begins: b"\xfd7zXZ", help: "unpack it first: xz -d FILE" },
    NotATrace { name: "bzip2-compressed data", begins: b"BZh", help: "unpack it first: bzip2 -d FILE" },
    NotATrace { name: "a Perfetto protobuf trace", begins: b"\x0a", help: "jarvis reads the JSON form; record one with torch.profiler and export_chrome_trace" },
    NotATrace { name: "a Python pickle", begins: b"\x80", help: "pass the profiler's trace file, usually *.pt.trace.json or *.json.gz" },
    NotATrace { name: "a program", begins: b"\x7fELF", help: "pass the profiler's trace file, usually *.pt.trace.json or *.json.gz" },
    NotATrace { name: "a CSV table (a rocprof or Nsight export)", begins: b"\"", help: "jarvis reads PyTorch profiler traces; record one with torch.profiler and export_chrome_trace" },
];

/// What the bytes look like, if they look like anything known.
pub(super) fn recognise(head: &[u8]) -> Option<&'static NotATrace> {
    let text = head.trim_ascii_start();
    NOT_TRACES.iter().find(|kind| head.starts_with(kind.begins) || text.starts_with(kind.begins))
}

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
    #[error("{} is no PyTorch profiler trace{}", path.display(), what.map_or(String::new(), |w| format!(": it looks like {}", w.name)))]
    NotATrace {
        /// The file.
        path: PathBuf,
        /// What it looks like.
        what: Option<&'static NotATrace>,
    },
    /// It is JSON, but no trace.
    #[error("{} is JSON without a traceEvents array", path.display())]
    NoEvents {
        /// The file.
        path: PathBuf,
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
            Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "check the path; `ls` the folder it should be in".to_owned()
            }
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                "check the file's permissions".to_owned()
            }
            Self::Io { .. } => "check that the disk or network share is healthy, then try again".to_owned(),
            Self::Directory { .. } => "pass one trace file of that folder".to_owned(),
            Self::Empty { .. } => "the profiler may not have finished writing; wait for it or capture anew".to_owned(),
            Self::NotATrace { what: Some(what), .. } => what.help.to_owned(),
            Self::NotATrace { what: None, .. } | Self::NoEvents { .. } => {
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

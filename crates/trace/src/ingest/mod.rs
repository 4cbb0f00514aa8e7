//! From bytes to a [`Trace`]: open, tell what it is, unpack, parse. The only part of jarvis that reads trace files.

mod counted;
mod document;
mod error;
mod general;
mod gzip;
mod kinds;
mod limits;
mod literal;
mod number;
mod pipeline;
mod rows;
mod scan;
mod shapes;
mod texts;

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub use error::ReadError;
pub use kinds::{NOT_TRACES, NotATrace};
pub use limits::Limits;

use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{Columns, EventKind, Trace};
use counted::Counted;
use document::{Document, State};
use gzip::Gunzip;
use limits::{Budget, Halt};
use pipeline::{Plain, read_inline, read_parallel, read_piped};

/// How to read.
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Threads to use at most; the result does not depend on it.
    pub threads: usize,
    /// What reading may cost at most.
    pub limits: Limits,
    /// Whether to store arguments in as few bytes as they need: a little work for a trace that takes less while it is
    /// worked on.
    pub packed: bool,
    /// Told how many bytes of the file, as it lies on the disk, have been read so far.
    pub bytes_read: Option<Arc<AtomicU64>>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { threads: crate::side_by_side::processors(), limits: Limits::default(), packed: true, bytes_read: None }
    }
}

/// A container jarvis can look into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Gzip,
    Json,
}

/// Whether a file that begins so is of a format.
type Fits = fn(&[u8]) -> bool;

/// Told apart by their first bytes, never by the file's name; the first that fits.
const FORMATS: &[(Format, Fits)] = &[
    (Format::Gzip, |head| head.starts_with(&gzip::MAGIC)),
    (Format::Json, |head| {
        matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')) || head.starts_with(b"\xef\xbb\xbf")
    }),
];

/// Enough to tell formats apart, even behind some blank lines.
const SNIFF: usize = 4096;

impl Trace {
    /// Reads a trace file, plain or gzipped.
    ///
    /// ```no_run
    /// use jarvis_trace::{ReadOptions, Trace};
    ///
    /// let trace = Trace::open("trace.json.gz".as_ref(), &ReadOptions::default())?;
    /// println!("{} events", trace.len());
    /// # Ok::<(), jarvis_trace::ReadError>(())
    /// ```
    pub fn open(path: &Path, options: &ReadOptions) -> Result<Self, ReadError> {
        let open = || File::open(path);
        let failed = |source: io::Error| ReadError::Io { path: path.to_owned(), source };
        let file = open().map_err(failed)?;
        if file.metadata().map_err(failed)?.is_dir() {
            return Err(ReadError::Directory { path: path.to_owned() });
        }
        let (head, rest) = sniff(Counted::new(file, options)).map_err(failed)?;
        if detect(&head) == Some(Format::Json)
            && options.threads > 1
            && let Some(document) = read_parallel(open, options, &Budget::new(options.limits))
                .map_err(|halt| ReadError::of_halt(halt, path))?
        {
            return finish(document, Diagnostics::default(), path, options);
        }
        read(head, rest, path, options)
    }

    /// Reads a trace from any reader; `name` stands for it in messages.
    pub fn read(reader: impl Read + Send, name: &str, options: &ReadOptions) -> Result<Self, ReadError> {
        let path = PathBuf::from(name);
        let (head, rest) =
            sniff(Counted::new(reader, options)).map_err(|source| ReadError::Io { path: path.clone(), source })?;
        read(head, rest, &path, options)
    }

    /// Reads a trace from memory.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        Self::read(bytes, "trace in memory", &ReadOptions { threads: 1, ..ReadOptions::default() })
    }
}

fn sniff<R: Read>(mut reader: R) -> io::Result<(Vec<u8>, R)> {
    let mut head = Vec::with_capacity(SNIFF);
    reader.by_ref().take(SNIFF as u64).read_to_end(&mut head)?;
    Ok((head, reader))
}

fn detect(head: &[u8]) -> Option<Format> {
    FORMATS.iter().find(|(_, fits)| fits(head)).map(|&(format, _)| format)
}

fn read(head: Vec<u8>, rest: impl Read + Send, path: &Path, options: &ReadOptions) -> Result<Trace, ReadError> {
    let failed = |halt: Halt| ReadError::of_halt(halt, path);
    let budget = Budget::new(options.limits);
    if head.is_empty() {
        return Err(ReadError::Empty { path: path.to_owned() });
    }
    let Some(format) = detect(&head) else {
        let what = kinds::recognise(&head, path);
        return Err(ReadError::NotATrace { path: path.to_owned(), what, packed: false });
    };
    let small = head.len() < SNIFF;
    let whole = Cursor::new(head).chain(rest);
    let document = Document::new(State::Start, 0);
    match format {
        Format::Gzip => {
            let mut gunzip = Gunzip::new(whole);
            if options.threads > 1 && !small {
                let (document, gunzip) = read_piped(gunzip, document, &budget, options.packed).map_err(failed)?;
                return finish(document, gunzip.diagnostics, path, options);
            }
            let document = read_inline(&mut gunzip, document, &budget).map_err(failed)?;
            finish(document, gunzip.diagnostics, path, options)
        }
        Format::Json => {
            let mut plain = Plain(whole);
            let document = if options.threads > 1 && !small {
                read_piped(plain, document, &budget, options.packed).map_err(failed)?.0
            } else {
                read_inline(&mut plain, document, &budget).map_err(failed)?
            };
            finish(document, Diagnostics::default(), path, options)
        }
    }
}

fn finish(document: Document, container: Diagnostics, path: &Path, options: &ReadOptions) -> Result<Trace, ReadError> {
    if let Some(error) = no_trace(&document, &container, path) {
        return Err(error);
    }
    let mut diagnostics = container;
    diagnostics.append(&document.rows.diagnostics, 0, 0);
    let mut columns = document.rows.columns;
    count_by_class(&columns, &mut diagnostics);
    if options.packed {
        columns.pack();
    }
    Ok(Trace::new(columns, document.facts, diagnostics, options.threads))
}

/// What the document is, if no event came of it.
fn no_trace(document: &Document, container: &Diagnostics, path: &Path) -> Option<ReadError> {
    let (head, path) = (&document.head, path.to_owned());
    let cut =
        [Defect::GzipTruncated, Defect::GzipCorrupt, Defect::GzipChecksum].iter().any(|&d| container.count(d) > 0);
    match document.state {
        State::Start if cut => Some(ReadError::Truncated { path }),
        State::Start if head.trim_ascii().is_empty() => Some(ReadError::Empty { path }),
        State::Keys { seen_events: false } => Some(ReadError::Truncated { path }),
        State::Start | State::NotATrace if !matches!(head.trim_ascii_start().first(), Some(b'{' | b'[')) => {
            // What is not packed was looked at before.
            Some(ReadError::NotATrace { what: kinds::recognise(head, &path), path, packed: true })
        }
        State::Start | State::NotATrace | State::Done { seen_events: false } => {
            Some(ReadError::NoEvents { what: kinds::recognise_json(head, &path), path })
        }
        _ => None,
    }
}

/// Defects that all events of a class share are counted once the events are known.
fn count_by_class(columns: &Columns, diagnostics: &mut Diagnostics) {
    let defect_of = |class: &crate::model::Class| {
        let category = class.layout.category.map_or("", |c| columns.strings.get(c));
        match class.layout.phase {
            0 => Some(Defect::MissingPhase),
            b'B' | b'E' => {
                let as_complete = EventKind::classify(b'X', category);
                (as_complete != EventKind::Other).then_some(Defect::BeginEndEvent)
            }
            _ => None,
        }
    };
    let by_class: Vec<Option<Defect>> = columns.class_table.iter().map(defect_of).collect();
    if by_class.iter().all(Option::is_none) {
        return;
    }
    for (uid, class) in columns.classes().enumerate() {
        if let Some(defect) = by_class[class.index()] {
            diagnostics.add(defect, At::Event(uid as u32));
        }
    }
}

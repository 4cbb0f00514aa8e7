//! What people pass by mistake, and what to do about it. Only messages depend on this: what is a trace is decided by
//! its contents alone.

use std::path::Path;

/// A kind of file people mistake for a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotATrace {
    /// What it is.
    pub name: &'static str,
    /// How it is told.
    mark: Mark,
    /// What to do.
    pub help: &'static str,
}

/// How a kind of file is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// It begins so.
    Begins(&'static [u8]),
    /// It begins so, and this follows soon.
    With(&'static [u8], &'static [u8]),
    /// It begins so, and is no text.
    Binary(&'static [u8]),
    /// This stands at this byte.
    At(usize, &'static [u8]),
    /// It is text whose lines are rows of cells.
    Table,
    /// It is JSON and this stands near its beginning.
    Json(&'static [u8]),
    /// Its name ends so, and nothing else fits.
    Ends(&'static [&'static str]),
    /// It is text, and nothing else fits.
    Text,
}

const PASS: &str = "pass the profiler's trace file, usually *.pt.trace.json or *.json.gz";
const RECORD: &str = "jarvis reads PyTorch profiler traces: record one with torch.profiler and export_chrome_trace";
const WORKBOOK: &str = "pass the trace it was made from; jarvis compare takes reports such as this one";
const EXECUTION: &str = "jarvis needs the profiler's own trace (export_chrome_trace), which has the GPU's times";

/// Kinds of files that are recognised; the first that fits.
#[rustfmt::skip]
pub const NOT_TRACES: &[NotATrace] = &[
    NotATrace { name: "a PNG picture",                mark: Mark::Begins(b"\x89PNG"), help: PASS },
    NotATrace { name: "a JPEG picture",               mark: Mark::Begins(b"\xff\xd8\xff"), help: PASS },
    NotATrace { name: "a PDF document",               mark: Mark::Begins(b"%PDF"), help: PASS },
    NotATrace { name: "an XML document",              mark: Mark::Begins(b"<?xml"), help: PASS },
    NotATrace { name: "a web page",                   mark: Mark::Begins(b"<"), help: "a download that failed often leaves an error page; fetch the trace again and look at the file" },
    NotATrace { name: "a Git LFS pointer",            mark: Mark::Begins(b"version https://git-lfs"), help: "the trace itself was not fetched: run git lfs pull in its repository" },
    NotATrace { name: "an SQLite database (an Nsight Systems or rocprof export)", mark: Mark::Begins(b"SQLite format 3"), help: RECORD },
    NotATrace { name: "an Nsight Systems report",     mark: Mark::Begins(b"NVIDIA Nsight Systems"), help: RECORD },
    NotATrace { name: "a PyTorch checkpoint",         mark: Mark::With(b"PK\x03\x04", b"data.pkl"), help: PASS },
    NotATrace { name: "a workbook",                   mark: Mark::With(b"PK\x03\x04", b"xl/"), help: WORKBOOK },
    // Other programs put what tells a workbook too far inside.
    NotATrace { name: "a workbook",                   mark: Mark::Ends(&[".xlsx", ".xlsm"]), help: WORKBOOK },
    NotATrace { name: "a zip archive",                mark: Mark::Begins(b"PK\x03\x04"), help: "unzip it and pass the .json inside" },
    NotATrace { name: "a tar archive",                mark: Mark::At(257, b"ustar"), help: "unpack it (tar -xf FILE) and pass the .json or .json.gz inside" },
    NotATrace { name: "zstd-compressed data",         mark: Mark::Begins(b"\x28\xb5\x2f\xfd"), help: "unpack it first: zstd -d FILE" },
    NotATrace { name: "xz-compressed data",           mark: Mark::Begins(b"\xfd7zXZ"), help: "unpack it first: xz -d FILE" },
    NotATrace { name: "bzip2-compressed data",        mark: Mark::Begins(b"BZh"), help: "unpack it first: bzip2 -d FILE" },
    NotATrace { name: "lz4-compressed data",          mark: Mark::Begins(b"\x04\x22\x4d\x18"), help: "unpack it first: lz4 -d FILE" },
    NotATrace { name: "a 7-Zip archive",              mark: Mark::Begins(b"7z\xbc\xaf"), help: "unpack it and pass the .json inside" },
    NotATrace { name: "gzipped data that was gzipped twice", mark: Mark::Begins(b"\x1f\x8b"), help: "unpack it once: gunzip FILE" },
    NotATrace { name: "text in UTF-32",               mark: Mark::Begins(b"\xff\xfe\0\0"), help: "turn it into UTF-8: iconv -f UTF-32 -t UTF-8 FILE > trace.json" },
    NotATrace { name: "text in UTF-32",               mark: Mark::Begins(b"\0\0\xfe\xff"), help: "turn it into UTF-8: iconv -f UTF-32 -t UTF-8 FILE > trace.json" },
    NotATrace { name: "text in UTF-32",               mark: Mark::Begins(b"{\0\0\0"), help: "turn it into UTF-8: iconv -f UTF-32LE -t UTF-8 FILE > trace.json" },
    NotATrace { name: "text in UTF-32",               mark: Mark::Begins(b"\0\0\0{"), help: "turn it into UTF-8: iconv -f UTF-32BE -t UTF-8 FILE > trace.json" },
    NotATrace { name: "text in UTF-16",               mark: Mark::Begins(b"\xff\xfe"), help: "turn it into UTF-8: iconv -f UTF-16 -t UTF-8 FILE > trace.json" },
    NotATrace { name: "text in UTF-16",               mark: Mark::Begins(b"\xfe\xff"), help: "turn it into UTF-8: iconv -f UTF-16 -t UTF-8 FILE > trace.json" },
    NotATrace { name: "text in UTF-16",               mark: Mark::Begins(b"{\0"), help: "turn it into UTF-8: iconv -f UTF-16LE -t UTF-8 FILE > trace.json" },
    NotATrace { name: "text in UTF-16",               mark: Mark::Begins(b"\0{"), help: "turn it into UTF-8: iconv -f UTF-16BE -t UTF-8 FILE > trace.json" },
    NotATrace { name: "a Perfetto protobuf trace",    mark: Mark::Binary(b"\x0a"), help: "jarvis reads the JSON form: record with torch.profiler and export_chrome_trace" },
    NotATrace { name: "a CUDA memory snapshot",       mark: Mark::With(b"\x80", b"segments"), help: "it tells of memory, not of time: record with torch.profiler and export_chrome_trace" },
    NotATrace { name: "a Python pickle",              mark: Mark::Begins(b"\x80"), help: PASS },
    NotATrace { name: "a NumPy array",                mark: Mark::Begins(b"\x93NUMPY"), help: PASS },
    NotATrace { name: "a Parquet table",              mark: Mark::Begins(b"PAR1"), help: PASS },
    NotATrace { name: "a program",                    mark: Mark::Begins(b"\x7fELF"), help: PASS },
    NotATrace { name: "a rocprofv3 trace",            mark: Mark::Json(b"rocprofiler-sdk"), help: RECORD },
    NotATrace { name: "an execution trace (Chakra)",  mark: Mark::Json(b"chakra"), help: EXECUTION },
    NotATrace { name: "an execution trace",           mark: Mark::Json(b"execution_trace"), help: EXECUTION },
    NotATrace { name: "a result of jarvis",           mark: Mark::Json(b"\"jarvis."), help: "pass the trace it was made from" },
    NotATrace { name: "a result of jarvis",           mark: Mark::Json(b"\"findings\""), help: "pass the trace it was made from" },
    NotATrace { name: "a Jupyter notebook",           mark: Mark::Json(b"\"cells\""), help: PASS },
    NotATrace { name: "an answer of a server: an error, not a file", mark: Mark::Json(b"\"message\""), help: "fetch the trace again and look at the file" },
    NotATrace { name: "an answer of a server: an error, not a file", mark: Mark::Json(b"\"error\""), help: "fetch the trace again and look at the file" },
    NotATrace { name: "an Nsight Systems report",     mark: Mark::Ends(&[".nsys-rep", ".qdrep"]), help: RECORD },
    NotATrace { name: "an Nsight Compute report",     mark: Mark::Ends(&[".ncu-rep"]), help: RECORD },
    NotATrace { name: "a profile of another framework", mark: Mark::Ends(&[".xplane.pb"]), help: RECORD },
    NotATrace { name: "a Perfetto protobuf trace",    mark: Mark::Ends(&[".pftrace", ".perfetto-trace"]), help: "jarvis reads the JSON form: record with torch.profiler and export_chrome_trace" },
    NotATrace { name: "a CSV table (rocprof and Nsight export such)", mark: Mark::Table, help: RECORD },
    NotATrace { name: "plain text",                   mark: Mark::Text, help: PASS },
];

/// How far text is looked for.
const NEAR: usize = 1024;

impl Mark {
    fn fits(self, head: &[u8], path: &Path) -> bool {
        let text = head.trim_ascii_start();
        let begins = |with: &[u8]| head.starts_with(with) || text.starts_with(with);
        match self {
            Self::Begins(with) => begins(with),
            Self::With(with, soon) => head.starts_with(with) && contains(head, soon),
            Self::Binary(with) => head.starts_with(with) && !is_text(head),
            Self::At(at, what) => head.get(at..).is_some_and(|rest| rest.starts_with(what)),
            Self::Json(what) => matches!(text.first(), Some(b'{' | b'[')) && contains(head, what),
            Self::Ends(endings) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
                !is_text(head) && endings.iter().any(|ending| name.ends_with(ending))
            }
            Self::Table => is_table(head),
            Self::Text => is_text(head),
        }
    }
}

fn contains(head: &[u8], what: &[u8]) -> bool {
    memchr::memmem::find(&head[..head.len().min(NEAR)], what).is_some()
}

fn is_text(head: &[u8]) -> bool {
    let near = &head[..head.len().min(NEAR)];
    near.iter().all(|&b| b >= b' ' || b.is_ascii_whitespace() || b == b'\x1b')
        // A character may be cut at the end.
        && std::str::from_utf8(near).map_or_else(|e| near.len() - e.valid_up_to() < 4, |_| true)
}

/// Whether the first two lines have the same number of cells, and more than two.
fn is_table(head: &[u8]) -> bool {
    let commas = |line: &[u8]| memchr::memchr_iter(b',', line).count();
    let mut lines = head.trim_ascii_start().split(|&b| b == b'\n');
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    is_text(head) && (first.starts_with(b"\"") || commas(first) >= 2 && commas(first) <= commas(second))
}

/// What a file that begins so looks like, if it looks like anything known.
pub(super) fn recognise(head: &[u8], path: &Path) -> Option<&'static NotATrace> {
    NOT_TRACES.iter().find(|kind| kind.mark.fits(head, path))
}

/// The same for JSON, of which only the marks of JSON say anything.
pub(super) fn recognise_json(head: &[u8], path: &Path) -> Option<&'static NotATrace> {
    NOT_TRACES.iter().find(|kind| matches!(kind.mark, Mark::Json(_)) && kind.mark.fits(head, path))
}

//! Reading: the same columns whatever the container and the number of threads, and what `serde_json` reads where it can.

use std::fmt::Write as _;
use std::io::Write as _;

use jarvis_trace::{Defect, ReadError, ReadOptions, Trace};
use serde_json::Value;

use crate::mutate::gzip;

/// Defects of the container: those that packing the same text again can't keep.
const CONTAINER: &[Defect] =
    &[Defect::GzipTruncated, Defect::GzipCorrupt, Defect::GzipChecksum, Defect::GzipTrailingData];

/// Everything that was read, as text.
fn dump(trace: &Trace) -> String {
    let mut out = String::new();
    for e in trace.events() {
        let args: Vec<_> = trace.args(e).collect();
        let track = trace.track(trace.track_id(e));
        let ids = (trace.id_text(track.pid), trace.id_text(track.tid));
        let times = (trace.ts(e), trace.dur(e), trace.end(e));
        writeln!(out, "{:?} {:?} {:?} {ids:?} {times:?} {args:?}", trace.name(e), trace.kind(e), trace.phase(e))
            .unwrap();
    }
    let facts: Vec<_> = trace.facts().entries().collect();
    let defects: Vec<_> = trace.diagnostics().seen().filter(|(d, ..)| !CONTAINER.contains(&d.defect)).collect();
    writeln!(out, "{facts:?} {defects:?}").unwrap();
    out
}

fn shown(result: &Result<Trace, ReadError>) -> String {
    result.as_ref().map_or_else(|error| format!("{error:?} {}", error.help()), dump)
}

fn read(bytes: &[u8], threads: usize) -> Result<Trace, ReadError> {
    Trace::read(bytes, "fuzz", &ReadOptions { threads, ..ReadOptions::default() })
}

/// Reads bytes in every way there is.
pub(crate) fn ingest(data: &[u8]) {
    let one = read(data, 1);
    let text = shown(&one);
    assert!(shown(&read(data, 2)) == text, "two threads read otherwise");
    if data.starts_with(&[0x1f, 0x8b]) {
        return;
    }
    if let Ok(trace) = &one {
        let packed = read(&gzip(data), 1);
        assert!(shown(&packed) == text, "gzip reads otherwise");
        let blanks = [b" \n".as_slice(), data].concat();
        // A byte order mark counts only where it comes first.
        if !data.starts_with(b"\xef\xbb\xbf") {
            assert_eq!(read(&blanks, 1).map(|t| t.len()).ok(), Some(trace.len()), "blanks change the events");
        }
    }
    as_serde(data, &one);
}

/// What is a document for `serde_json` is read without loss.
fn as_serde(data: &[u8], read: &Result<Trace, ReadError>) {
    let Ok(Value::Object(document)) = serde_json::from_slice(data) else { return };
    let Some(events) = document.get("traceEvents").and_then(Value::as_array) else { return };
    // A second list of events, or a list inside a list, is no document of ours.
    if data.windows(13).filter(|w| w == b"\"traceEvents\"").count() != 1 {
        return;
    }
    let trace = read.as_ref().unwrap_or_else(|error| panic!("a sound document is refused: {error}"));
    assert_eq!(trace.len(), events.len(), "events of a sound document");
    let lost = [Defect::MalformedEvent, Defect::JsonTruncated, Defect::TrailingData, Defect::InvalidUtf8];
    assert!(lost.iter().all(|&d| trace.diagnostics().count(d) == 0), "{:?}", trace.diagnostics());
    for (e, expected) in trace.events().zip(events) {
        // What is no text is read as the text it stands as.
        let is_told = |value: &Value| value.is_null() || value.is_string();
        let text = |key: &str| is_told(&expected[key]).then(|| expected[key].as_str().unwrap_or_default());
        assert!(text("name").is_none_or(|name| trace.name(e) == name), "{} of {expected}", trace.name(e));
        assert!(text("cat").is_none_or(|cat| trace.category(e) == cat), "{} of {expected}", trace.category(e));
    }
}

/// A plain file large enough that several threads read parts of it: the events of `data` over and over.
pub(crate) fn split(data: &[u8]) {
    const ENOUGH: usize = 9 << 19;
    if data.is_empty() || data.len() > ENOUGH {
        return;
    }
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut text = b"{\"traceEvents\": [".to_vec();
    while text.len() < ENOUGH {
        text.extend_from_slice(data);
        text.extend_from_slice(b",\n");
    }
    text.extend_from_slice(b"{\"ph\": \"i\"}], \"last\": 1}");
    file.write_all(&text).expect("room for a temporary file");
    let open = |threads| shown(&Trace::open(file.path(), &ReadOptions { threads, ..ReadOptions::default() }));
    let one = open(1);
    for threads in [2, 3] {
        let other = open(threads);
        assert!(other == one, "{threads} threads read otherwise");
    }
}

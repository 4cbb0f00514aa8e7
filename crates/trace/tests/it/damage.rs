//! Damaged input: counted by name, never fatal while something can be read, never a panic.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jarvis_trace::{At, Defect, EventKind, ReadError, ReadOptions, Trace};

use crate::support::{fixture, gunzip};

fn events(inside: &str) -> String {
    format!("{{\"schemaVersion\": 1, \"traceEvents\": [{inside}], \"traceName\": \"t\"}}")
}

const GOOD: &str = r#"{"ph": "X", "cat": "cpu_op", "name": "good", "pid": 1, "tid": 1, "ts": 5, "dur": 2}"#;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// A defect, a document that has it, and how many elements are read all the same.
fn cases() -> Vec<(Defect, Vec<u8>, usize)> {
    let doc = |s: &str| events(s).into_bytes();
    let packed = gzip(&doc(&[GOOD; 50].join(",")));
    let truncated = packed[..packed.len() - 12].to_vec();
    let mut wrong_sum = packed.clone();
    let at = packed.len() - 6;
    wrong_sum[at] ^= 1;
    let mut trailing = packed.clone();
    trailing.extend(b"not gzip at all");
    // A second member whose first block is of the kind that does not exist.
    let mut corrupt = gzip(format!("{{\"traceEvents\": [{GOOD}, ").as_bytes());
    corrupt.extend(&packed[..10]);
    corrupt.extend([0x07; 32]);
    let many_args: Vec<String> = (0..1100).map(|i| format!("\"a{i}\": {i}")).collect();
    vec![
        (Defect::GzipTruncated, truncated, usize::MAX),
        (Defect::GzipCorrupt, corrupt, 1),
        (Defect::GzipChecksum, wrong_sum, 50),
        (Defect::GzipTrailingData, trailing, 50),
        (Defect::JsonTruncated, format!("{{\"traceEvents\": [{GOOD}, {GOOD}, {{\"ph\": \"X\", \"na").into_bytes(), 2),
        (Defect::TrailingData, [doc(GOOD), b" {\"second\": 1}".to_vec()].concat(), 1),
        (Defect::ByteOrderMark, [b"\xef\xbb\xbf".to_vec(), doc(GOOD)].concat(), 1),
        (Defect::MalformedEvent, doc(&format!(r#"{GOOD}, {{"ph": "X", "name": "a "b" c", "ts": 1}}, {GOOD}"#)), 3),
        (Defect::NotAnObject, doc(&format!("{GOOD}, 17, {GOOD}")), 3),
        (Defect::MissingPhase, doc(r#"{"name": "x", "ts": 1}"#), 1),
        (Defect::ArgsNotObject, doc(r#"{"ph": "X", "name": "x", "args": [1]}"#), 1),
        (Defect::TooManyArguments, doc(&format!("{{\"ph\": \"X\", \"args\": {{{}}}}}", many_args.join(","))), 1),
        (Defect::DuplicateKey, doc(r#"{"ph": "i", "ph": "X", "name": "x"}"#), 1),
        (
            Defect::InvalidUtf8,
            events("{\"ph\": \"X\", \"name\": \"@\"}")
                .replace('@', "\u{1}")
                .bytes()
                .map(|b| if b == 1 { 0xff } else { b })
                .collect(),
            1,
        ),
        (Defect::InvalidEscape, doc(r#"{"ph": "X", "name": "C:\Users\me"}"#), 1),
        (Defect::TextNumber, doc(r#"{"ph": "X", "name": "x", "ts": "12.5", "dur": 1}"#), 1),
        (Defect::BadTime, doc(r#"{"ph": "X", "name": "x", "ts": NaN, "dur": 1}"#), 1),
        (Defect::RoundedTime, doc(r#"{"ph": "X", "name": "x", "ts": 1.23456, "dur": 1}"#), 1),
        (Defect::NegativeDuration, doc(r#"{"ph": "X", "name": "x", "ts": 1, "dur": 0.-500}"#), 1),
        (Defect::BeginEndEvent, doc(r#"{"ph": "B", "cat": "cpu_op", "name": "x", "ts": 1}"#), 1),
    ]
}

/// Tests of the defects that only the tree can see.
const TREE_TESTS: &[&str] = &[
    include_str!("edge_cases.rs"),
    include_str!("impossible.rs"),
    include_str!("links.rs"),
    include_str!("nesting.rs"),
    include_str!("queries.rs"),
    include_str!("timelines.rs"),
    include_str!("../../src/tree/backward.rs"),
];

#[test]
fn every_reading_defect_is_counted_and_reading_goes_on() {
    for (defect, bytes, elements) in cases() {
        let trace = Trace::parse(&bytes).unwrap_or_else(|e| panic!("{defect:?}: {e}"));
        assert!(trace.diagnostics().count(defect) >= 1, "{defect:?} not counted: {:?}", trace.diagnostics());
        if elements == usize::MAX {
            assert!(!trace.is_empty(), "{defect:?}");
        } else {
            assert_eq!(trace.len(), elements, "{defect:?}");
        }
    }
}

#[test]
fn every_defect_has_a_case() {
    let covered: Vec<Defect> = cases().into_iter().map(|(d, ..)| d).collect();
    for d in jarvis_trace::DIAGNOSTICS {
        let name = format!("Defect::{:?}", d.defect);
        let with_the_tree = TREE_TESTS.iter().any(|source| source.contains(&name));
        assert!(covered.contains(&d.defect) || with_the_tree, "{} has no case", d.id);
    }
}

#[test]
fn a_damaged_event_keeps_its_uid() {
    let text = events(&format!(
        r#"{GOOD}, {{"ph": "X", "name": "a "b" c", "args": {{"d": [{{"x": 1}}, {{"y": 2}}]}}}}, {GOOD}"#
    ));
    let trace = Trace::parse(text.as_bytes()).unwrap();
    let kinds: Vec<_> = trace.events().map(|e| trace.kind(e)).collect();
    assert_eq!(kinds, [EventKind::CpuOp, EventKind::Inert, EventKind::CpuOp]);
    let (_, count, at) = trace.diagnostics().seen().next().unwrap();
    assert_eq!((count, at), (1, At::Event(1)));
    assert_eq!(trace.facts().text("traceName"), Some("\"t\""), "what follows the events is read too");
}

#[test]
fn odd_values_are_kept_as_what_they_are() {
    let text = events(
        r#"{"ph": "X", "cat": "gpu_memcpy", "name": "a	b", "pid": "Spans", "tid": 1.0, "ts": 1e3, "dur": 0.25,
            "args": {"memory bandwidth (GB/s)": inf, "bytes": "512", "big": 18446744073709551616, "n": null, "t": true,
                     "correlation": "77"}}"#,
    );
    let trace = Trace::parse(text.as_bytes()).unwrap();
    let e = trace.event(0).unwrap();
    assert_eq!(trace.diagnostics().worst(), None);
    assert_eq!(trace.name(e), "a\tb", "a raw control character stays");
    assert_eq!(trace.ts(e), Some(jarvis_trace::Ns(1_000_000)));
    assert_eq!(trace.arg(e, "memory bandwidth (GB/s)").unwrap().as_f64(), Some(f64::INFINITY));
    assert_eq!(trace.int(e, jarvis_trace::Key::Correlation), Some(77));
    assert_eq!(trace.arg(e, "big").unwrap().as_f64(), Some(18_446_744_073_709_551_616.0));
    assert_eq!(trace.args(e).count(), 6);
}

#[test]
fn what_is_no_trace_is_told() {
    let error = |bytes: &[u8]| Trace::parse(bytes).unwrap_err();
    assert!(matches!(error(b""), ReadError::Empty { .. }));
    assert!(matches!(error(b"{}"), ReadError::NoEvents { .. }));
    assert!(matches!(error(br#"{"a": [1, 2]}"#), ReadError::NoEvents { .. }));
    assert!(matches!(error(br#"{"schemaVersion": 1, "devi"#), ReadError::Truncated { .. }));
    assert!(matches!(error(&gzip(b"{\"a\": 1}")[..12]), ReadError::Truncated { .. }));
    assert!(matches!(error(&gzip(b"")), ReadError::Empty { .. }));
    assert!(matches!(error(b"\x01\x02\x03"), ReadError::NotATrace { what: None, .. }));
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (bytes, what) in [
        (b"\x89PNG\r\n\x1a\n".as_slice(), "PNG"),
        (b"  <!DOCTYPE html><html>", "web page"),
        (b"SQLite format 3\0", "SQLite"),
        (b"PK\x03\x04....", "zip"),
        (b"PK\x03\x04....archive/data.pkl", "checkpoint"),
        (b"PK\x03\x04....[Content_Types].xml....xl/workbook.xml", "workbook"),
        (&tar, "a tar archive"),
        (b"\x80\x04\x95\x10}\x94(\x8c\x08segments", "memory snapshot"),
        (b"\x80\x04\x95\x10}\x94(\x8c\x08weights", "pickle"),
        (b"\x0a\x35\x08\x01\x12\x00", "Perfetto"),
        (b"\nepoch 1\nepoch 2\n", "plain text"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
        (b"\"Name\",\"Calls\"\n\"k\",1\n", "CSV"),
        (b"Index,KernelName,gpu-id\n0,k,1\n", "CSV"),
        (b"2024-01-01, step 3\n", "plain text"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b"\0{\0\"", "UTF-16"),
        (b"\xff\xfe\0\0{\0\0\0", "UTF-32"),
        (b"\0\0\xfe\xff\0\0\0{", "UTF-32"),
        (b"\0\0\0{", "UTF-32"),
        (br#"{"rocprofiler-sdk-tool": [{"agents": []}]}"#, "rocprofv3"),
        (br#"{"schema": "1.1.1-chakra.0.0.4", "nodes": []}"#, "Chakra"),
        (br#"{"message": "Not Found"}"#, "server"),
    ] {
        for error in [error(bytes), error(&gzip(bytes))] {
            assert!(error.to_string().contains(what), "{error}");
            assert!(!error.help().is_empty());
        }
        let gzipped = error(&gzip(bytes)).to_string();
        assert!(bytes[0] == b'{' || gzipped.ends_with(", gzipped"), "{gzipped}");
    }
    let by_name =
        |name: &str| Trace::read(&b"\x01\x02\x03"[..], name, &ReadOptions::default()).unwrap_err().to_string();
    assert!(by_name("run.nsys-rep").ends_with("an Nsight Systems report"));
    assert!(by_name("run.json").ends_with("no PyTorch profiler trace"));
}

#[test]
fn bytes_of_the_file_are_counted_as_they_are_read() {
    let events = (0..30_000).map(|i| format!(r#"{{"ph":"X","name":"k{}","ts":{i},"dur":1,"pid":1,"tid":1}}"#, i % 7));
    let text = format!("{{\"traceEvents\":[{}]}}", events.collect::<Vec<_>>().join(",\n"));
    for threads in [1, 3] {
        for bytes in [text.clone().into_bytes(), gzip(text.as_bytes())] {
            let count = Arc::new(AtomicU64::new(0));
            let options = ReadOptions { threads, bytes_read: Some(Arc::clone(&count)), ..ReadOptions::default() };
            Trace::read(bytes.as_slice(), "memory", &options).unwrap();
            assert_eq!(count.load(Ordering::Relaxed), bytes.len() as u64);
        }
    }
}

/// Offsets at which the elements of `traceEvents` end.
pub(crate) fn element_ends(text: &[u8]) -> Vec<usize> {
    let key = b"\"traceEvents\"";
    let start = text.windows(key.len()).position(|w| w == key).unwrap();
    let start = start + text[start..].iter().position(|&b| b == b'[').unwrap() + 1;
    let (mut depth, mut in_string, mut ends) = (0, false, Vec::new());
    let mut i = start;
    while depth >= 0 {
        match text[i] {
            b'\\' if in_string => i += 1,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth -= 1;
                if depth == 0 {
                    ends.push(i + 1);
                }
            }
            _ => {}
        }
        i += 1;
    }
    ends
}

#[test]
fn json_cut_at_every_byte_gives_what_was_there() {
    let text = gunzip(&fixture("h200/elementwise_compiled.json.gz"));
    let whole = Trace::parse(&text).unwrap();
    let ends = element_ends(&text);
    assert_eq!(ends.len(), whole.len());
    for cut in 0..text.len() {
        let complete = ends.iter().take_while(|&&end| end <= cut).count();
        match Trace::parse(&text[..cut]) {
            Ok(trace) => {
                assert_eq!(trace.len(), complete, "cut at {cut}");
                assert!(trace.events().all(|e| trace.name(e) == whole.name(e) && trace.ts(e) == whole.ts(e)));
                assert_eq!(trace.diagnostics().count(Defect::JsonTruncated), 1, "cut at {cut}");
            }
            Err(e) => assert_eq!(complete, 0, "cut at {cut}: {e}"),
        }
    }
}

#[test]
fn gzip_cut_at_every_byte_gives_what_was_there() {
    let packed = std::fs::read(fixture("h200/elementwise_compiled.json.gz")).unwrap();
    let whole = Trace::parse(&packed).unwrap();
    let mut longest = 0;
    for cut in 0..packed.len() {
        match Trace::parse(&packed[..cut]) {
            Ok(trace) => {
                assert!(trace.len() >= longest && trace.len() <= whole.len());
                assert!(trace.events().all(|e| trace.name(e) == whole.name(e)));
                assert_eq!(trace.diagnostics().count(Defect::GzipTruncated), 1, "cut at {cut}");
                longest = trace.len();
            }
            Err(e) => assert_eq!(longest, 0, "cut at {cut}: {e}"),
        }
    }
    assert_eq!(longest, whole.len(), "the checksum is the last thing to be cut");
}

#[test]
fn every_byte_flipped_never_panics() {
    let text = gunzip(&fixture("h200/elementwise_compiled.json.gz"));
    for at in (0..text.len()).step_by(3) {
        let mut bad = text.clone();
        bad[at] = b"\"{}[],\\x\0\xff"[at % 10];
        let _ = Trace::parse(&bad);
    }
}

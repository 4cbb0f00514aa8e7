//! Input without measure: it gives a trace, or an error that says which limit was met, and soon.
#![allow(clippy::format_collect, reason = "tests may be plain")]

use std::io::{self, Cursor, Read, Write};

use jarvis_trace::tree::{DEEPEST_INDENT, SubtreeText};
use jarvis_trace::{Defect, Limits, ReadError, ReadOptions, Trace, Tree, TreeOptions};

const HEAD: &str = "{\"schemaVersion\": 1, \"traceEvents\": [";
const EVENT: &str = r#"{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 5, "dur": 2},"#;

fn options(threads: usize, limits: Limits) -> ReadOptions {
    ReadOptions { threads, limits, ..ReadOptions::default() }
}

/// What reading a text gives, on one thread and on two; both must be the same.
fn read_error(text: impl Fn() -> Box<dyn Read + Send>, limits: Limits) -> ReadError {
    let [one, two] = [1, 2].map(|threads| Trace::read(text(), "t", &options(threads, limits)).unwrap_err());
    assert_eq!(one.to_string(), two.to_string());
    assert!(!one.help().is_empty());
    one
}

/// Many texts behind each other.
fn many(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().concat()
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// The same bytes over and over.
struct Cycle(Vec<u8>, usize);

impl Read for Cycle {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = out.len().min(self.0.len() - self.1);
        out[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
        self.1 = (self.1 + n) % self.0.len();
        Ok(n)
    }
}

/// A gzip file of members that repeat without end.
fn endless_gzip(first: &str, again: &str) -> Box<dyn Read + Send> {
    Box::new(Cursor::new(gzip(first.as_bytes())).chain(Cycle(gzip(again.as_bytes()), 0)))
}

#[test]
fn more_events_than_memory_is_an_error_that_says_where() {
    let limits = Limits { memory: Some(16 << 20), later_per_event: 8, ..Limits::default() };
    let error = read_error(|| endless_gzip(HEAD, &EVENT.repeat(10_000)), limits);
    let ReadError::Memory { limit, at, events, .. } = error else { panic!("{error}") };
    // 24 bytes a row and 8 for later.
    assert_eq!(limit, 16 << 20);
    assert!((500_000..560_000).contains(&events), "{events}");
    assert!(at.abs_diff(events * EVENT.len() as u64) < 1 << 20, "{at}");
    assert!(error.to_string().starts_with("t takes more than 16 MiB of memory"), "{error}");
    assert!(error.help().contains("--max-memory"));
    // Enough is enough.
    let text = format!("{HEAD}{}{{}}]}}", EVENT.repeat(500_000));
    assert_eq!(Trace::read(text.as_bytes(), "t", &options(1, limits)).unwrap().len(), 500_001);
}

#[test]
fn distinct_texts_and_layouts_count_as_memory_too() {
    let limits = Limits { memory: Some(4 << 20), ..Limits::default() };
    let names = many(200_000, |i| format!("{{\"name\": \"a name of its own {i}\"}},"));
    let keys = many(50_000, |i| format!("{{\"key {i}\": 1, \"args\": {{\"k{i}\": 1}}}},"));
    let facts = many(200_000, |i| format!("\"fact {i}\": 1,"));
    for text in
        [format!("{HEAD}{names}{{}}]}}"), format!("{HEAD}{keys}{{}}]}}"), format!("{{{facts}\"traceEvents\": []}}")]
    {
        let error = read_error(|| Box::new(Cursor::new(text.clone().into_bytes())), limits);
        assert!(matches!(error, ReadError::Memory { .. }), "{error}");
    }
    let limits = Limits { memory: Some(16 << 20), later_per_text: 4096, ..Limits::default() };
    let text = format!("{HEAD}{names}{{}}]}}");
    let error = read_error(|| Box::new(Cursor::new(text.clone().into_bytes())), limits);
    assert!(matches!(error, ReadError::Memory { .. }), "{error}");
}

/// The parsers of a plain file's parts share one limit.
#[test]
fn parts_of_a_plain_file_share_the_memory() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let text = format!("{HEAD}{}{{}}]}}", EVENT.repeat(200_000));
    std::fs::write(file.path(), text).unwrap();
    let open = |threads, memory| {
        Trace::open(file.path(), &options(threads, Limits { memory: Some(memory), ..Limits::default() }))
    };
    for threads in [1, 2, 4] {
        assert!(matches!(open(threads, 3 << 20), Err(ReadError::Memory { .. })), "{threads} threads");
        assert_eq!(open(threads, 6 << 20).unwrap().len(), 200_001, "{threads} threads");
    }
}

/// Blanks, zeros, a string and a broken event that never end: before, among and inside events.
#[test]
fn text_without_an_event_ends_in_an_error() {
    let limits = Limits { without_event: 3 << 20, ..Limits::default() };
    let broken_event = format!("{HEAD}{EVENT}{{\"name\": \"a \"b\" c\",");
    let cases = [
        (HEAD.to_owned(), b' '),
        (HEAD.to_owned(), b','),
        (format!("{HEAD}{EVENT}"), b'\n'),
        (format!("{HEAD}{EVENT}{{\"name\": \""), b'a'),
        (format!("{HEAD}{EVENT}{{\"args\": {{\"a\": "), b'['),
        (format!("{HEAD}{EVENT}"), 0),
        (broken_event, b'x'),
        ("{".to_owned(), 0),
        ("{\"traceName\": \"".to_owned(), b'a'),
    ];
    for (start, endless) in cases {
        let text = || -> Box<dyn Read + Send> { Box::new(Cursor::new(start.clone()).chain(io::repeat(endless))) };
        let error = read_error(text, limits);
        assert!(matches!(error, ReadError::NoEventFor { .. }), "{start} and {endless}: {error}");
        assert!(error.to_string().contains("3 MiB of text without an event, from byte "), "{error}");
    }
    let error = read_error(|| endless_gzip(" ", &" ".repeat(1 << 20)), limits);
    assert!(matches!(error, ReadError::NoEventFor { from: 0, .. }), "{error}");
}

#[test]
fn what_is_no_trace_is_told_without_reading_on() {
    let endless = || -> Box<dyn Read + Send> { endless_gzip("hello", &"x".repeat(1 << 20)) };
    assert!(matches!(read_error(endless, Limits::default()), ReadError::NotATrace { .. }));
    let zeros = || -> Box<dyn Read + Send> { endless_gzip("\0", &"\0".repeat(1 << 20)) };
    assert!(matches!(read_error(zeros, Limits::default()), ReadError::NotATrace { .. }));
}

#[test]
fn what_follows_the_end_without_end_is_left_alone() {
    for filler in [b' ', b'x'] {
        let text = format!("{HEAD}{EVENT}{{}}]}}");
        let endless = Cursor::new(text).chain(io::repeat(filler));
        let trace = Trace::read(endless, "t", &options(2, Limits::default())).unwrap();
        assert_eq!((trace.len(), trace.diagnostics().count(Defect::TrailingData)), (2, 1));
    }
}

#[test]
fn a_file_that_is_packed_too_well_is_refused_unless_it_is_small() {
    let limits = Limits { ratio_from: 8 << 20, ..Limits::default() };
    let filler = format!("{EVENT}{}", " ".repeat(1 << 20));
    let error = read_error(|| endless_gzip(HEAD, &filler), limits);
    let ReadError::Ratio { packed, unpacked, .. } = error else { panic!("{error}") };
    assert!(unpacked / packed > Limits::MOST_RATIO && unpacked > 8 << 20 && unpacked < 16 << 20, "{error}");
    assert!(error.help().contains("gzip -dc"), "{}", error.help());
    let small = gzip(format!("{HEAD}{}{{}}]}}", filler.repeat(6)).as_bytes());
    assert_eq!(Trace::read(small.as_slice(), "t", &options(1, limits)).unwrap().len(), 7);
}

#[test]
fn one_string_of_a_hundred_megabytes_is_read() {
    let long = "x".repeat(100 << 20);
    let text = format!("{HEAD}{EVENT}{{\"ph\": \"X\", \"name\": \"{long}\", \"ts\": 1, \"dur\": 1}},{EVENT}{{}}]}}");
    for threads in [1, 2] {
        let trace = Trace::read(text.as_bytes(), "t", &options(threads, Limits::default())).unwrap();
        assert_eq!((trace.len(), trace.diagnostics().count(Defect::MalformedEvent)), (4, 0));
        assert_eq!(trace.name(trace.event(1).unwrap()).len(), 100 << 20);
    }
}

#[test]
fn a_million_distinct_names_are_kept_apart() {
    let names = many(1_000_000, |i| format!("{{\"ph\": \"X\", \"name\": \"op {i}\"}},"));
    let trace = Trace::parse(format!("{HEAD}{names}{{}}]}}").as_bytes()).unwrap();
    assert_eq!(trace.len(), 1_000_001);
    assert!(trace.strings().len() > 1_000_000);
    assert_eq!(trace.name(trace.event(999_999).unwrap()), "op 999999");
}

#[test]
fn a_hundred_thousand_levels_of_calls_are_a_tree() {
    // |------------------------------|
    //  |----------------------------|   and so on, with a launch and its kernel in the innermost
    const LEVELS: i64 = 100_000;
    let mut b = jarvis_trace::TraceBuilder::new();
    for i in 0..LEVELS {
        b.cpu_op("op", i as f64, (3 * LEVELS - 2 * i) as f64);
    }
    b.launch("cudaLaunchKernel", (LEVELS + 1) as f64, 1.0, 1);
    b.kernel("k", (LEVELS + 2) as f64, 1.0, 1);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let view = tree.view(&trace);
    let kernel = trace.events().last().unwrap();
    assert_eq!(tree.ancestors(kernel).count() as i64, LEVELS + 1);
    let root = trace.event(0).unwrap();
    let text = view.subtree_text(root, SubtreeText::default());
    assert_eq!(text.lines().count() as i64, LEVELS + 2);
    assert!(text.len() < 200 << 20, "{} bytes", text.len());
    let last = text.lines().last().unwrap().trim_start();
    assert!(last.starts_with("└── [level 100001] UID: ") && last.contains("Category: kernel"), "{last}");
    // As deep as is indented, a line is drawn as always.
    let line = text.lines().nth(DEEPEST_INDENT).unwrap();
    assert_eq!(line.find("└── UID"), Some(4 * DEEPEST_INDENT));
    let shallow = view.subtree_text(root, SubtreeText { depth: Some(3), ..SubtreeText::default() });
    assert_eq!(shallow.lines().count(), 4);
}

#[test]
fn a_hundred_thousand_levels_of_arguments_are_a_text() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = format!("{HEAD}{{\"ph\": \"X\", \"name\": \"x\", \"args\": {{\"deep\": {deep}}}}}], \"fact\": {deep}}}");
    let trace = Trace::parse(text.as_bytes()).unwrap();
    let e = trace.event(0).unwrap();
    assert_eq!(trace.arg(e, "deep"), Some(jarvis_trace::Arg::Json(&deep)));
    assert_eq!(jarvis_trace::pyliteral::of_arg(trace.arg(e, "deep").unwrap()).len(), deep.len());
    assert_eq!(trace.facts().text("fact"), Some(deep.as_str()));
    assert_eq!(trace.facts().value("fact"), None, "too deep for a value, and no crash");
}

//! What writers, killed jobs and rewriting programs leave in a trace, case by case; `docs/reliability.md` lists them all
//! with what is expected.

use jarvis_trace::tree::{ForwardLink, SubtreeText};
use jarvis_trace::{
    Defect, EventId, EventKind, Id, Names, Ns, Population, ReadError, ReadOptions, Timeline, Trace, Tree, TreeOptions,
    Us,
};

fn parse(events: &str) -> Trace {
    Trace::parse(format!("{{\"traceEvents\": [{events}]}}").as_bytes()).unwrap()
}

fn tree(trace: &Trace) -> Tree {
    Tree::build(trace, TreeOptions::default())
}

fn event(uid: u32) -> EventId {
    EventId::from_uid(uid)
}

const LAUNCH: &str = r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 5, "dur": 2, "args": {"correlation": 7}}"#;
const START: &str = r#"{"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 5, "cat": "ac2g", "name": "ac2g"}"#;
const END: &str = r#"{"ph": "f", "id": 7, "pid": 0, "tid": 7, "ts": 10, "cat": "ac2g", "name": "ac2g", "bp": "e"}"#;
const KERNEL: &str = r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 3, "args": {"device": 0, "stream": 7, "correlation": 7}}"#;

#[test]
fn an_empty_list_of_events_is_a_trace() {
    let trace = parse("");
    let tree = tree(&trace);
    assert!(trace.is_empty() && tree.roots().is_empty() && tree.diagnostics().worst().is_none());
    assert!(Timeline::<Us>::of(&trace, &Population::All.of(&trace, &tree), None).is_none());
}

#[test]
fn a_file_is_known_by_its_content_and_not_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{{\"traceEvents\": [{LAUNCH}]}}");
    let packed = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    for (name, bytes) in
        [("trace", text.as_bytes()), ("a.txt", text.as_bytes()), ("b.json", &packed), ("c.gz", text.as_bytes())]
    {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(Trace::open(&path, &ReadOptions::default()).unwrap().len(), 1, "{name}");
    }
    assert!(matches!(Trace::open(folder.path(), &ReadOptions::default()), Err(ReadError::Directory { .. })));
}

#[test]
fn commas_newlines_control_characters_and_a_second_document() {
    let text = "\u{feff}{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"two\nlines\u{1}\",}, ,{\"ph\": \"i\"},],}\n{\"traceEvents\": [{\"ph\": \"X\"}]}";
    let trace = Trace::parse(text.as_bytes()).unwrap();
    assert_eq!((trace.len(), trace.name(event(0))), (2, "two\nlines\u{1}"));
    let seen: Vec<Defect> = trace.diagnostics().seen().map(|(d, ..)| d.defect).collect();
    let told = [Defect::TrailingData, Defect::SecondDocument, Defect::ByteOrderMark];
    assert_eq!(seen, told, "the second document is ignored, and told");
}

#[test]
fn a_comment_costs_one_place_and_nothing_else() {
    let trace = parse(&format!("{LAUNCH}, /* by hand */ {KERNEL}, {LAUNCH}"));
    let kinds: Vec<EventKind> = trace.events().map(|e| trace.kind(e)).filter(|k| *k != EventKind::Inert).collect();
    assert_eq!(kinds.last(), Some(&EventKind::Runtime), "what follows is read");
    assert_eq!(trace.diagnostics().count(Defect::MalformedEvent), 1);
}

#[test]
fn numbers_that_are_none_make_no_time() {
    for word in ["NaN", "Infinity", "-Infinity", "inf", "nan", "1e999", "null", "true", "[1]", "{}"] {
        let trace = parse(&format!(r#"{{"ph": "X", "cat": "cpu_op", "name": "x", "ts": {word}, "dur": 1}}, {LAUNCH}"#));
        assert_eq!((trace.len(), trace.ts(event(0))), (2, None), "{word}");
        assert_eq!(trace.diagnostics().count(Defect::BadTime), 1, "{word}");
        assert_eq!(tree(&trace).diagnostics().count(Defect::MissingTime), 1, "{word}: left out of the tree");
    }
}

#[test]
fn a_time_out_of_range_is_told_as_that() {
    for (ts, counts) in [("1e18", 1), ("-1e18", 1), ("10000000000000000", 1), ("9e15", 0)] {
        let trace = parse(&format!(r#"{{"ph": "X", "cat": "cpu_op", "name": "x", "ts": {ts}, "dur": 1}}, {LAUNCH}"#));
        assert_eq!(trace.diagnostics().count(Defect::BadTime), counts, "{ts}");
        let told: Vec<&str> = trace.diagnostics().seen().map(|(d, ..)| d.meaning).collect();
        assert!(counts == 0 || told.iter().any(|meaning| meaning.contains("beyond the 292 years")), "{told:?}");
    }
}

#[test]
fn a_lone_surrogate_becomes_a_replacement_character() {
    let trace =
        parse(r#"{"ph": "X", "name": "a\ud800b"}, {"ph": "X", "name": "\udc00"}, {"ph": "X", "name": "\ud83d\ude00"}"#);
    let names: Vec<&str> = trace.events().map(|e| trace.name(e)).collect();
    assert_eq!(names, ["a\u{fffd}b", "\u{fffd}", "😀"]);
    assert!(trace.diagnostics().count(Defect::InvalidEscape) + trace.diagnostics().count(Defect::InvalidUtf8) > 0);
}

#[test]
fn defects_in_the_layout_of_events_are_counted_each_time() {
    // A layout is learned from the first event that has it and only compared from then on.
    let odd = |text: &str| text.replace("\"cat\": \"cuda_runtime\"", "\"cat\": \"cuda\\qruntime\"");
    let trace = parse(&vec![odd(LAUNCH); 50].join(","));
    assert_eq!(trace.diagnostics().count(Defect::InvalidEscape), 50);
    let mut bytes =
        format!("{{\"traceEvents\": [{}]}}", vec![LAUNCH.replace("correlation", "corr@"); 50].join(",")).into_bytes();
    for byte in bytes.iter_mut().filter(|b| **b == b'@') {
        *byte = 0xff;
    }
    assert_eq!(Trace::parse(&bytes).unwrap().diagnostics().count(Defect::InvalidUtf8), 50);
}

#[test]
fn a_defect_in_a_text_is_counted_once_however_often_it_is_read() {
    // The text is read before it shows that the event has a layout of its own, and is read again.
    let event = |i: usize| format!(r#"{{"ph": "X", "name": "odd \q @", "ts": {i}, "dur": 1, "args": {{"k{i}": 1}}}}"#);
    let events: Vec<String> = (0..200).map(event).collect();
    let mut bytes = format!("{{\"traceEvents\": [{}]}}", events.join(",")).into_bytes();
    for byte in bytes.iter_mut().filter(|b| **b == b'@') {
        *byte = 0xff;
    }
    let trace = Trace::parse(&bytes).unwrap();
    let counts = [Defect::InvalidEscape, Defect::InvalidUtf8].map(|defect| trace.diagnostics().count(defect));
    assert_eq!(counts, [200, 200]);
}

#[test]
fn of_a_key_that_stands_twice_the_last_counts() {
    let trace = parse(r#"{"ph": "X", "name": "first", "args": {"a": 1, "a": 2}, "name": "last"}"#);
    assert_eq!(trace.name(event(0)), "last");
    assert_eq!(trace.arg(event(0), "a").unwrap().as_int(), Some(2));
    assert_eq!(trace.diagnostics().count(Defect::DuplicateKey), 2);
}

#[test]
fn elements_that_are_no_events_keep_their_places() {
    let trace = parse(&format!(r#"17, "text", null, [1, {{"ph": "X"}}], {{"name": "no phase"}}, {{}}, {LAUNCH}"#));
    assert_eq!(trace.len(), 7);
    assert!(trace.events().take(4).all(|e| trace.kind(e) == EventKind::Inert));
    assert_eq!(trace.diagnostics().count(Defect::NotAnObject), 4);
    assert_eq!(trace.diagnostics().count(Defect::MissingPhase), 2);
    assert_eq!(trace.kind(event(6)), EventKind::Runtime);
}

#[test]
fn nothing_needs_arguments_or_a_name() {
    let trace = parse(
        r#"{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 1, "ts": 0, "dur": 9},
           {"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 2},
           {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "pid": 1, "tid": 1, "ts": 0, "dur": 9},
           {"ph": "s", "cat": "ac2g", "name": "ac2g", "pid": 1, "tid": 1, "ts": 1}"#,
    );
    let tree = tree(&trace);
    assert_eq!((trace.name(event(1)), tree.parent(event(1))), ("", Some(event(0))));
    assert!(trace.diagnostics().worst().is_none() && tree.diagnostics().worst().is_none());
    let text = tree.view(&trace).subtree_text(event(0), SubtreeText::default());
    assert!(text.contains("op"), "{text}");
    assert!(!tree.view(&trace).parent_chain_text(event(1), &[], ForwardLink::Stop).is_empty());
}

#[test]
fn a_first_launch_without_arguments_links_by_external_id() {
    let bare =
        r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1, "dur": 1}"#;
    let by_id = |text: &str| text.replace("\"correlation\": 7", "\"External id\": 7");
    let trace = parse(&[bare, &by_id(LAUNCH), START, END, &by_id(KERNEL)].join(","));
    assert_eq!(tree(&trace).linked_gpu_events().count(), 1);
}

#[test]
fn arguments_that_are_no_object_count_as_none() {
    for args in ["null", "[1, 2]", "\"text\"", "5"] {
        let trace =
            parse(&format!(r#"{{"ph": "X", "cat": "cpu_op", "name": "x", "ts": 1, "dur": 1, "args": {args}}}"#));
        assert_eq!((trace.len(), trace.args(event(0)).count()), (1, 0), "{args}");
        assert_eq!(trace.diagnostics().count(Defect::ArgsNotObject), 1, "{args}");
    }
}

#[test]
fn numbers_in_quotes_are_numbers_where_numbers_are_meant() {
    let quoted = |text: &str| text.replace(": 7", ": \"7\"");
    let trace = parse(&[&quoted(LAUNCH), &quoted(START), END, KERNEL].map(str::to_owned).join(","));
    assert_eq!(tree(&trace).linked_gpu_events().count(), 1, "correlation and id as text");
    let trace =
        parse(r#"{"ph": "X", "cat": "cpu_op", "name": "x", "ts": "12.5", "dur": "1", "args": {"bytes": "512"}}"#);
    assert_eq!((trace.ts(event(0)), trace.dur(event(0))), (Some(Ns(12_500)), Some(Ns(1_000))));
    assert_eq!(trace.diagnostics().count(Defect::TextNumber), 2);
    assert_eq!(trace.arg(event(0), "bytes").unwrap().as_str(), Some("512"), "arguments stay as they are written");
}

#[test]
fn begin_and_end_events_carry_no_work() {
    let pair = r#"{"ph": "B", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "ts": 0}, {"ph": "E", "cat": "cpu_op", "name": "x", "pid": 1, "tid": 1, "ts": 9}"#;
    let trace = parse(&format!("{pair}, {LAUNCH}"));
    let tree = tree(&trace);
    assert_eq!((tree.parent(event(2)), tree.roots().len()), (None, 0));
    assert_eq!(trace.diagnostics().count(Defect::BeginEndEvent), 2);
}

#[test]
fn a_negative_duration_counts_as_zero() {
    let negative = KERNEL.replace("\"dur\": 3", "\"dur\": 0.-500");
    let trace = parse(&format!("{negative}, {}", KERNEL.replace("\"ts\": 10", "\"ts\": 20")));
    assert_eq!(trace.dur(event(0)), Some(Ns(0)));
    assert_eq!(trace.diagnostics().count(Defect::NegativeDuration), 1);
    let t = Timeline::<Ns>::of(&trace, &trace.events().collect::<Vec<_>>(), None).unwrap();
    assert_eq!((t.busy, t.total), (Ns(3_000), Ns(13_000)), "it is where it is, and takes nothing");
}

#[test]
fn a_gpu_event_of_no_length_stretches_the_total_alone() {
    // 10   13       20
    // |----|        .
    let empty = KERNEL.replace("\"ts\": 10, \"dur\": 3", "\"ts\": 20, \"dur\": 0");
    let trace = parse(&format!("{KERNEL}, {empty}"));
    let t = Timeline::<Ns>::of(&trace, &trace.events().collect::<Vec<_>>(), None).unwrap();
    assert_eq!((t.busy, t.idle, t.total), (Ns(3_000), Ns(7_000), Ns(10_000)));
}

#[test]
fn a_launch_without_a_kernel_has_no_child() {
    let trace = parse(&format!("{LAUNCH}, {START}"));
    let tree = tree(&trace);
    assert_eq!((tree.children(event(0)).count(), tree.gpu_event_count(event(0))), (0, 0));
    assert!(tree.diagnostics().worst().is_none());
}

#[test]
fn metadata_of_any_kind_is_borne() {
    let trace = parse(
        r#"{"ph": "M", "name": "num_cpus", "pid": 1, "args": {"n": 8}}, {"ph": "M", "name": "process_name"},
           {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
           {"ph": "M", "name": "process_labels", "pid": 2, "tid": 0, "args": {"labels": "GPU 0"}},
           {"ph": "M", "name": "thread_name", "pid": 1, "tid": 3, "args": {"name": 5}},
           {"ph": "M", "name": "thread_name", "pid": 1, "tid": 4, "args": {"name": "first"}},
           {"ph": "M", "name": "thread_name", "pid": 1, "tid": 4, "args": {"name": "last"}}"#,
    );
    let names = Names::of(&trace);
    assert_eq!(names.process(Id::Int(1)), Some("python"), "without a thread, it is the process's");
    assert_eq!(names.label(Id::Int(2)), Some("GPU 0"));
    assert_eq!((names.thread(Id::Int(1), Id::Int(3)), names.thread(Id::Int(1), Id::Int(4))), (None, Some("last")));
}

#[test]
fn a_gpu_and_a_thread_may_have_one_number() {
    let host = |text: &str| text.replace("\"pid\": 1, \"tid\": 1", "\"pid\": 0, \"tid\": 7");
    let trace = parse(&[host(LAUNCH), host(START), END.to_owned(), KERNEL.to_owned()].join(","));
    let tree = tree(&trace);
    assert_eq!(tree.parent(event(3)), Some(event(0)), "the kernel, not the call, is the end of the flow");
    assert_eq!(tree.linked_gpu_events().collect::<Vec<_>>(), [event(3)]);
}

#[test]
fn times_beyond_the_reach_of_floats_nest_exactly_and_are_told() {
    // Microseconds since 1970: one step of a float is a quarter of a microsecond.
    let at = |ns: i64| format!("{}.{:03}", 1_700_000_000_000_000 + ns / 1000, ns % 1000);
    let op = |name: &str, ns: i64, dur: &str| {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "{name}", "pid": 1, "tid": 1, "ts": {}, "dur": {dur}}}"#,
            at(ns)
        )
    };
    let kernel = KERNEL.replace("\"ts\": 10", &format!("\"ts\": {}", at(50)));
    let trace = parse(&[op("outer", 0, "0.100"), op("inner", 1, "0.098"), op("next", 100, "0.050"), kernel].join(","));
    let tree = tree(&trace);
    assert_eq!((tree.parent(event(1)), tree.parent(event(2))), (Some(event(0)), None));
    assert_eq!(trace.ts(event(1)), Some(Ns(1_700_000_000_000_000_001)));
    assert_eq!(tree.diagnostics().count(Defect::CoarseTime), 1);
    let near = parse(KERNEL);
    assert_eq!(self::tree(&near).diagnostics().count(Defect::CoarseTime), 0);
    // Beyond what nanoseconds can count, nothing overflows.
    let far = parse(&format!("{}, {KERNEL}", op("far", 0, "9e18").replace(&at(0), "9223372036854775807")));
    assert_eq!(far.len(), 2);
    self::tree(&far);
}

#[test]
fn nesting_without_end_costs_one_event() {
    const DEEP: usize = 200_000;
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let deep = open.repeat(DEEP) + "1" + &close.repeat(DEEP);
        let trace = parse(&format!(r#"{LAUNCH}, {{"ph": "X", "name": "deep", "args": {{"x": {deep}}}}}, {KERNEL}"#));
        assert_eq!(trace.len(), 3, "{open}");
        assert_eq!((trace.kind(event(0)), trace.kind(event(2))), (EventKind::Runtime, EventKind::Kernel), "{open}");
        // As an element, as a fact, and never closed.
        assert_eq!(parse(&format!("{deep}, {KERNEL}")).len(), 2);
        let fact = format!("{{\"fact\": {deep}, \"traceEvents\": [{KERNEL}]}}");
        let trace = Trace::parse(fact.as_bytes()).unwrap();
        assert_eq!(trace.len(), 1);
        assert!(trace.facts().value("fact").is_none(), "too deep to be looked into");
        let _ = Trace::parse(format!("{{\"traceEvents\": [{}", open.repeat(DEEP)).as_bytes());
    }
}

#[test]
fn events_of_every_list_are_read() {
    let event = |name: &str| format!(r#"{{"ph": "X", "name": "{name}"}}"#);
    let (a, b, c) = (event("a"), event("b"), event("c"));
    let text =
        format!(r#"{{"x": 1, "traceEvents": [{a}], "traceEvents": [], "y": 2, "traceEvents": [{b}, {c}], "z": 3}}"#);
    let trace = Trace::read(text.as_bytes(), "t", &ReadOptions::default()).unwrap();
    let names: Vec<&str> = trace.events().map(|e| trace.name(e)).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(trace.diagnostics().count(Defect::RepeatedEventList), 2);
    assert_eq!(trace.diagnostics().count(Defect::TrailingData), 0);
}

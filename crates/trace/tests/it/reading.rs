//! Reading, held against `serde_json`: every name, id, time and argument of every event.

use jarvis_trace::{Arg, Defect, EventId, Id, ReadOptions, Trace};
use proptest::prelude::*;
use serde_json::Value;

use crate::support::{gunzip, shared_traces, trace_files};

fn id_value(trace: &Trace, id: Id) -> Value {
    match id {
        Id::Null => Value::Null,
        Id::Int(i) => i.into(),
        Id::Text(t) => trace.text(t).into(),
    }
}

fn arg_value(arg: Arg<'_>) -> Value {
    match arg {
        Arg::Int(i) => i.into(),
        Arg::Float(f) => f.into(),
        Arg::Text(t) => t.into(),
        Arg::Json(t) => serde_json::from_str(t).unwrap(),
        Arg::Bool(b) => b.into(),
        Arg::Null => Value::Null,
    }
}

fn assert_same_event(trace: &Trace, e: EventId, expected: &Value) {
    let text = |key: &str| expected[key].as_str().unwrap_or("");
    assert_eq!(trace.name(e), text("name"), "name of {e}");
    assert_eq!(trace.category(e), text("cat"), "category of {e}");
    assert_eq!(trace.phase(e).to_string(), text("ph"), "phase of {e}");
    let track = trace.track(trace.track_id(e));
    assert_eq!(id_value(trace, track.pid), expected["pid"], "pid of {e}");
    assert_eq!(id_value(trace, track.tid), expected["tid"], "tid of {e}");
    assert_eq!(trace.ts(e).map(jarvis_trace::Ns::as_us), expected["ts"].as_f64(), "ts of {e}");
    assert_eq!(trace.dur(e).map(jarvis_trace::Ns::as_us), expected["dur"].as_f64(), "dur of {e}");
    let args: serde_json::Map<String, Value> = trace.args(e).map(|(k, v)| (k.to_owned(), arg_value(v))).collect();
    let expected_args = expected["args"].as_object().cloned().unwrap_or_default();
    assert_eq!(args, expected_args, "args of {e}");
}

/// Compares everything a trace keeps with what `serde_json` reads of the same text.
fn assert_same(trace: &Trace, text: &[u8]) {
    let document: Value = serde_json::from_slice(text).unwrap();
    let events = document["traceEvents"].as_array().unwrap();
    assert_eq!(trace.len(), events.len());
    for (e, expected) in trace.events().zip(events) {
        assert_same_event(trace, e, expected);
    }
    for (key, value) in document.as_object().unwrap() {
        if key != "traceEvents" {
            assert_eq!(trace.facts().value(key).as_ref(), Some(value), "fact {key}");
        }
    }
}

/// Every column as text, to compare two readings of one file.
fn dump(trace: &Trace) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    for e in trace.events() {
        let args: Vec<_> = trace.args(e).collect();
        writeln!(
            out,
            "{:?} {:?} {:?} {:?} {:?} {:?} {args:?}",
            trace.name_id(e),
            trace.class_id(e),
            trace.kind(e),
            trace.track_id(e),
            trace.ts(e),
            trace.dur(e)
        )
        .unwrap();
    }
    writeln!(out, "{:?} {:?}", trace.facts().entries().collect::<Vec<_>>(), trace.diagnostics()).unwrap();
    out
}

#[test]
fn real_traces_read_as_serde_json_reads_them() {
    let Some(root) = shared_traces() else { return };
    let files = trace_files(&root);
    assert!(files.len() > 20);
    for path in files {
        let trace = Trace::open(&path, &ReadOptions::default()).unwrap();
        assert_eq!(trace.diagnostics().worst(), None, "{}", path.display());
        assert_same(&trace, &gunzip(&path));
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let Some(root) = shared_traces() else { return };
    let path = root.join("h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz");
    let text = gunzip(&path);
    let plain = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(plain.path(), &text).unwrap();
    let read = |path: &std::path::Path, threads| {
        dump(&Trace::open(path, &ReadOptions { threads, ..ReadOptions::default() }).unwrap())
    };
    let one = read(&path, 1);
    for threads in [1, 2, 3, 5] {
        assert!(read(&path, threads) == one, "gzip, {threads} threads");
        assert!(read(plain.path(), threads) == one, "plain, {threads} threads");
    }
}

#[test]
fn blanks_between_events_and_bare_arrays() {
    let text = "\u{feff} \n[ {\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"dur\":2} ,\n\n {\"ph\":\"i\"}, ]  ";
    let trace = Trace::parse(text.as_bytes()).unwrap();
    assert_eq!(trace.len(), 2);
    assert_eq!(trace.diagnostics().count(Defect::ByteOrderMark), 1);
    assert_eq!(trace.diagnostics().seen().count(), 1);
}

#[test]
fn escaped_keys_are_read_however_often_they_come() {
    let event = |keys: [&str; 3], ts: u32| {
        let [phase, name, args] = keys;
        format!(r#"{{"{phase}": "X", "{name}": "mm", "pid": 1, "tid": 1, "ts": {ts}, "{args}": {{"n": {ts}}}}}"#)
    };
    // The second of a kind is read the fast way, if it can be.
    let kinds = [["ph", "name", "\\u0061rgs"], ["\\u0070h", "name", "args"], ["ph", "n\\u0061me", "arg\\u0073"]];
    let events: Vec<String> = (1..=9).map(|ts| event(kinds[(ts as usize - 1) / 3], ts)).collect();
    let text = format!(r#"{{"trace\u0045vents": [{}]}}"#, events.join(", "));
    let trace = Trace::parse(text.as_bytes()).unwrap();
    assert_same(&trace, text.as_bytes());
    assert_eq!(trace.diagnostics().seen().count(), 0);
    // An escaped phase, and a key that stands twice under two spellings: the last one counts.
    let text = r#"{"traceEvents": [{"ph": "\u0058", "ts": 1, "t\u0073": 2}, {"ph": "\u0058", "ts": 3}]}"#;
    let trace = Trace::parse(text.as_bytes()).unwrap();
    let phases_and_times: Vec<_> = trace.events().map(|e| (trace.phase(e), trace.ts(e).unwrap().as_us())).collect();
    assert_eq!(phases_and_times, [('X', 2.0), ('X', 3.0)]);
    assert_eq!(trace.diagnostics().count(Defect::DuplicateKey), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Random layouts: key order, blanks, escapes, missing and odd fields.
    #[test]
    fn random_documents_read_as_serde_json_reads_them(
        events in prop::collection::vec(event(), 0..40),
        blank in prop::sample::select(vec!["", " ", "\n    "]),
        colon in prop::sample::select(vec![":", ": ", " : "]),
        spell in prop::sample::select(vec![plain as fn(&str) -> String, escaped]),
    ) {
        let text = render(&events, blank, colon, spell);
        let trace = Trace::parse(text.as_bytes()).unwrap();
        assert_same(&trace, text.as_bytes());
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Trace::parse(&bytes);
        let mut inside = b"{\"traceEvents\": [{\"ph\": \"X\", \"name\": \"a\", \"ts\": 1.5}, {".to_vec();
        inside.extend(&bytes);
        let _ = Trace::parse(&inside);
    }
}

type Fields = Vec<(String, String)>;

fn event() -> impl Strategy<Value = Fields> {
    let literal = prop_oneof![
        (0i64..100_000).prop_map(|i| i.to_string()),
        any::<i64>().prop_map(|i| i.to_string()),
        (-1e6f64..1e6).prop_map(|f| format!("{f:?}")),
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("[[1, 2], [], \"a]\\\"b\"]".to_owned()),
        Just("{\"x\": [1, {}]}".to_owned()),
        "[ -~é]{0,24}".prop_map(|s| Value::from(s).to_string()),
    ];
    let args = prop::collection::btree_map("[a-d]|Input Dims|External id|correlation", literal, 0..6);
    let id = prop_oneof![(0i64..4).prop_map(|i| i.to_string()), Just("\"Spans\"".to_owned())];
    let ts = (0u64..10_000_000_000_000_000).prop_map(|ns| format!("{}.{:03}", ns / 1000, ns % 1000));
    let dur = (0u64..10_000_000_000).prop_map(|ns| format!("{}.{:03}", ns / 1000, ns % 1000));
    let name = "[ -~]{0,40}".prop_map(|s| Value::from(s).to_string());
    let cat = prop::sample::select(vec!["cpu_op", "kernel", "python_function", "ac2g"]);
    (prop::sample::select(vec!["X", "s", "i"]), cat, name, (id.clone(), id), (ts, dur), args, any::<u64>()).prop_map(
        |(ph, cat, name, (pid, tid), (ts, dur), args, order)| {
            let args: Vec<String> = args.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
            let mut fields: Fields = [
                ("ph", format!("\"{ph}\"")),
                ("cat", format!("\"{cat}\"")),
                ("name", name),
                ("pid", pid),
                ("tid", tid),
                ("ts", ts),
                ("dur", dur),
                ("args", format!("{{{}}}", args.join(", "))),
            ]
            .map(|(k, v)| (k.to_owned(), v))
            .into();
            fields.rotate_left((order % 3) as usize);
            if order % 5 == 0 {
                fields.swap(1, 6);
            }
            fields
        },
    )
}

fn plain(key: &str) -> String {
    key.to_owned()
}

/// The same key with its first letter escaped.
fn escaped(key: &str) -> String {
    let mut letters = key.chars();
    letters.next().map_or(String::new(), |first| format!("\\u{:04x}{}", u32::from(first), letters.as_str()))
}

fn render(events: &[Fields], blank: &str, colon: &str, spell: fn(&str) -> String) -> String {
    let event = |fields: &Fields| {
        let fields: Vec<String> = fields.iter().map(|(k, v)| format!("{blank}\"{}\"{colon}{v}", spell(k))).collect();
        format!("{{{}{blank}}}", fields.join(","))
    };
    let events: Vec<String> = events.iter().map(event).collect();
    format!(
        "{{\"a\": 1,{blank}\"{}\"{colon}[{blank}{}{blank}], \"z\": [2]}}",
        spell("traceEvents"),
        events.join(&format!(",{blank}"))
    )
}

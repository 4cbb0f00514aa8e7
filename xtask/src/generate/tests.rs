//! Holds generated traces to what real ones are: valid JSON, nested threads, launches with kernels, arrows with two ends.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::layout::Layout;
use super::step::{self, Extent};
use super::writer::Writer;
use super::{Options, Summary, write_trace};

const SEED: u64 = 7;

/// Process and thread.
type Place = (i64, i64);

fn generate(size: u64, seed: u64, layout: Layout) -> (Vec<u8>, Summary) {
    let mut bytes = Vec::new();
    let summary = write_trace(&Options { size, seed, layout }, &mut bytes).unwrap();
    (bytes, summary)
}

fn events(bytes: &[u8]) -> Vec<Value> {
    let document: Value = serde_json::from_slice(bytes).unwrap();
    document["traceEvents"].as_array().unwrap().clone()
}

/// Two steps of three layers, the third with experts: about 2 MB, and quicker to make than a given size.
const EXTENT: Extent = Extent { layers: 3, samples: 4 };

fn write(layout: Layout) -> Vec<u8> {
    let template = step::build(layout, SEED, EXTENT);
    let mut bytes = Vec::new();
    let written = Writer::new(&template, SEED, 2, &mut bytes).trace("name.json").unwrap();
    assert_eq!(written.bytes, bytes.len() as u64);
    bytes
}

/// The events that every structural test reads.
fn sample() -> Vec<Value> {
    events(&write(Layout::Kineto))
}

fn cat(event: &Value) -> &str {
    event["cat"].as_str().unwrap_or("")
}

/// Nanoseconds; microseconds with three decimals survive a double up to 2^53 ns.
fn ns(value: &Value) -> i64 {
    (value.as_f64().unwrap() * 1000.0).round() as i64
}

fn span(event: &Value) -> (i64, i64) {
    let start = ns(&event["ts"]);
    (start, start + ns(&event["dur"]))
}

fn place(event: &Value) -> Place {
    (event["pid"].as_i64().unwrap(), event["tid"].as_i64().unwrap())
}

fn is_launch(name: &str) -> bool {
    name.contains("Launch") || name.contains("Memcpy") || name.contains("Memset")
}

fn is_gpu(event: &Value) -> bool {
    matches!(cat(event), "kernel" | "gpu_memcpy" | "gpu_memset")
}

fn is_runtime(event: &Value) -> bool {
    matches!(cat(event), "cuda_runtime" | "cuda_driver")
}

#[test]
fn every_layout_is_valid_json_with_the_same_events() {
    let layouts = [Layout::Kineto, Layout::Compact, Layout::Indented];
    let documents = layouts.map(|layout| serde_json::from_slice::<Value>(&write(layout)).unwrap());
    assert_eq!(documents[0], documents[1]);
    assert_eq!(documents[2]["metadata"], serde_json::json!({}));
    for key in ["traceEvents", "deviceProperties", "distributedInfo", "traceName", "baseTimeNanoseconds"] {
        assert_eq!(documents[0][key], documents[2][key], "{key}");
    }
    assert_eq!(documents[0]["traceName"], "name.json");
}

#[test]
fn same_seed_same_bytes_and_another_seed_others() {
    // A megabyte, valid as JSON too.
    let (one, summary) = generate(1_000_000, SEED, Layout::Compact);
    let (two, again) = generate(1_000_000, SEED, Layout::Compact);
    assert!(one == two && summary == again);
    assert_eq!(events(&one).len() as u64, summary.events);
    let (other, _) = generate(1_000_000, SEED + 1, Layout::Compact);
    assert!(one != other);
}

/// Benchmarks keep generated files; a changed generator must not be measured on old ones.
#[test]
fn the_version_changes_with_the_bytes() {
    let bytes = write(Layout::Kineto);
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32IsoHdlc, &bytes);
    assert_eq!((super::VERSION, sum), (1, 2_276_196_479), "the bytes changed: raise VERSION and put the new sum here");
}

#[test]
fn size_is_near_the_one_asked_for() {
    for (size, layout) in [(1_000_000, Layout::Kineto), (4_000_000, Layout::Indented), (9_000_000, Layout::Kineto)] {
        let (bytes, summary) = generate(size, SEED, layout);
        let share = bytes.len() as f64 / size as f64;
        assert!((0.98..1.02).contains(&share), "{size}: {share}, {summary:?}");
    }
}

/// The head and foot of `h200/hf_llama_train`, but for what this trace has more.
#[test]
fn the_file_begins_and_ends_as_kineto_writes_it() {
    let text = String::from_utf8(write(Layout::Kineto)).unwrap();
    let head = "\n  {\n    \"schemaVersion\": 1,\n    \"deviceProperties\": [\n    {\n      \"id\": 0, \"name\": \"NVIDIA H200\", \
                \"totalGlobalMem\": 150109880320,\n      \"computeMajor\": 9, \"computeMinor\": 0,\n      \"maxThreadsPerBlock\": 1024, \
                \"maxThreadsPerMultiprocessor\": 2048,\n      \"regsPerBlock\": 65536, \"warpSize\": 32,\n      \"sharedMemPerBlock\": 49152, \
                \"numSms\": 132\n    , \"regsPerMultiprocessor\": 65536, \"sharedMemPerBlockOptin\": 232448, \
                \"sharedMemPerMultiprocessor\": 233472\n    }\n    ],\n      \"trace_id\": \"";
    assert!(text.starts_with(head), "{}", &text[..700]);
    assert!(text.contains("\n      \"cupti_version\": 130001,\n  \"displayTimeUnit\": \"ms\",\n  \"baseTimeNanoseconds\": 1790857026000000000,\n  \"traceEvents\": [\n  {\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": "));
    assert!(text.ends_with("\n  }\n  ],\n  \"traceName\": \"name.json\"\n}"));
}

#[test]
fn host_events_nest_on_every_thread() {
    let mut threads: BTreeMap<Place, Vec<(i64, i64, String)>> = BTreeMap::new();
    for event in sample() {
        let on_host = matches!(cat(&event), "cpu_op" | "python_function" | "user_annotation") || is_runtime(&event);
        if event["ph"] == "X" && on_host {
            let (start, end) = span(&event);
            threads.entry(place(&event)).or_default().push((start, end, event["name"].to_string()));
        }
    }
    assert!(threads.len() >= 3, "main, autograd and a waiting thread");
    for (thread, mut spans) in threads {
        spans.sort_by_key(|span| (span.0, -span.1));
        let mut open: Vec<i64> = Vec::new();
        for pair in spans.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{thread:?}: two events start together: {pair:?}");
        }
        for (start, end, name) in spans {
            assert!(start < end, "{thread:?}: {name} takes no time");
            while open.last().is_some_and(|&outer| outer <= start) {
                open.pop();
            }
            assert!(open.last().is_none_or(|&outer| end <= outer), "{thread:?}: {name} outlives the event around it");
            open.push(end);
        }
    }
}

#[test]
fn every_launch_has_its_kernel_and_every_kernel_its_launch() {
    let events = sample();
    let mut gpu: HashMap<i64, &Value> = HashMap::new();
    for event in events.iter().filter(|event| is_gpu(event)) {
        let correlation = event["args"]["correlation"].as_i64().unwrap();
        assert!(gpu.insert(correlation, event).is_none(), "two GPU events of one launch");
        assert_eq!(
            place(event),
            (event["args"]["device"].as_i64().unwrap(), event["args"]["stream"].as_i64().unwrap())
        );
    }
    let mut launches = 0;
    for event in events.iter().filter(|event| is_runtime(event)) {
        let correlation = event["args"]["correlation"].as_i64().unwrap();
        if is_launch(event["name"].as_str().unwrap()) {
            let target = gpu.remove(&correlation).expect("a launch without its kernel");
            assert!(span(target).0 >= span(event).0, "a kernel starts before its launch");
            assert_eq!(target["args"]["External id"], event["args"]["External id"]);
            launches += 1;
        } else {
            assert!(!gpu.contains_key(&correlation));
        }
    }
    assert!(gpu.is_empty(), "a kernel without its launch");
    assert!(launches > 100);
}

/// Rules of `ac2g`: one arrow end on each runtime call, `s` for launches and waits, and `f` on each GPU event.
#[test]
fn launch_arrows_have_both_ends() {
    let events = sample();
    let mut ends: BTreeMap<i64, Vec<(String, Place, i64)>> = BTreeMap::new();
    for event in events.iter().filter(|event| cat(event) == "ac2g") {
        let end = (event["ph"].as_str().unwrap().to_owned(), place(event), ns(&event["ts"]));
        ends.entry(event["id"].as_i64().unwrap()).or_default().push(end);
    }
    for event in events.iter().filter(|event| is_gpu(event) || is_runtime(event)) {
        let name = event["name"].as_str().unwrap();
        let starts = is_runtime(event) && (is_launch(name) || name.contains("Synchronize"));
        let end = (if starts { "s" } else { "f" }.to_owned(), place(event), span(event).0);
        let found = ends.get_mut(&event["args"]["correlation"].as_i64().unwrap()).unwrap();
        let at = found.iter().position(|candidate| *candidate == end).expect("an event without its arrow end");
        found.swap_remove(at);
    }
    assert!(ends.values().all(Vec::is_empty));
}

#[test]
fn external_ids_name_the_innermost_op() {
    let events = sample();
    let ops: Vec<(Place, (i64, i64), i64)> = events
        .iter()
        .filter(|event| cat(event) == "cpu_op")
        .map(|op| (place(op), span(op), op["args"]["External id"].as_i64().unwrap()))
        .collect();
    let ids: BTreeSet<i64> = ops.iter().map(|op| op.2).collect();
    assert_eq!(ids.len(), ops.len());
    for call in events.iter().filter(|event| is_runtime(event)) {
        let (thread, (start, end)) = (place(call), span(call));
        let around = ops.iter().filter(|op| op.0 == thread && op.1.0 <= start && end <= op.1.1);
        let innermost = around.max_by_key(|op| op.1.0).map(|op| op.2);
        assert_eq!(call["args"].get("External id").and_then(Value::as_i64), innermost);
    }
}

#[test]
fn forward_and_backward_are_joined_by_sequence_number() {
    let events = sample();
    let mut ops: HashMap<(Place, i64), &Value> = HashMap::new();
    for op in events.iter().filter(|event| cat(event) == "cpu_op") {
        ops.insert((place(op), span(op).0), op);
    }
    let mut arrows: BTreeMap<i64, Vec<&Value>> = BTreeMap::new();
    for event in events.iter().filter(|event| cat(event) == "fwdbwd") {
        arrows.entry(event["id"].as_i64().unwrap()).or_default().push(event);
    }
    assert!(arrows.len() > 50);
    for ends in arrows.values() {
        assert_eq!(ends.len(), 2);
        let of = |ph: &str| {
            let end = ends.iter().find(|end| end["ph"] == ph).unwrap();
            ops[&(place(end), ns(&end["ts"]))]
        };
        let (forward, backward) = (of("s"), of("f"));
        assert_eq!(forward["args"]["Sequence number"], backward["args"]["Sequence number"]);
        assert_ne!(place(forward), place(backward));
        assert!(backward["name"].as_str().unwrap().ends_with(['0', '1']));
        assert!(span(forward).1 < span(backward).0);
    }
}

#[test]
fn kernels_of_a_stream_follow_each_other() {
    let mut streams: BTreeMap<Place, Vec<(i64, i64)>> = BTreeMap::new();
    for event in sample().iter().filter(|event| is_gpu(event)) {
        streams.entry(place(event)).or_default().push(span(event));
    }
    assert_eq!(streams.len(), 3);
    for mut spans in streams.into_values() {
        spans.sort_unstable();
        assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0));
    }
}

#[test]
fn python_parents_enclose_their_children() {
    let events = sample();
    let frames: BTreeMap<i64, &Value> = events
        .iter()
        .filter(|event| cat(event) == "python_function")
        .map(|event| (event["args"]["Python id"].as_i64().unwrap(), event))
        .collect();
    let mut roots = 0;
    for frame in frames.values() {
        let Some(parent) = frame["args"]["Python parent id"].as_i64() else {
            roots += 1;
            continue;
        };
        let (outer, inner) = (span(frames[&parent]), span(frame));
        assert!(outer.0 < inner.0 && inner.1 <= outer.1, "{frame} in {}", frames[&parent]);
    }
    assert_eq!(roots, 2, "one for each thread with Python frames");
}

#[test]
fn memory_events_add_up() {
    let mut total = None;
    let mut seen = 0;
    for event in sample().iter().filter(|event| event["name"] == "[memory]") {
        let after = event["args"]["Total Allocated"].as_i64().unwrap();
        let bytes = event["args"]["Bytes"].as_i64().unwrap();
        assert_eq!(total.unwrap_or(after - bytes) + bytes, after);
        total = Some(after);
        seen += 1;
    }
    assert!(seen > 50);
}

#[test]
fn event_numbers_count_up_without_gaps() {
    let mut expected = 0;
    for event in sample() {
        if let Some(number) = event["args"]["Ev Idx"].as_i64() {
            assert_eq!(number, expected, "{event}");
            expected += 1;
        }
    }
}

#[test]
fn the_mix_is_that_of_real_traces() {
    let (bytes, summary) = generate(12_000_000, SEED, Layout::Kineto);
    let events = events(&bytes);
    assert_eq!(events.len() as u64, summary.events);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for event in &events {
        *counts.entry(format!("{} {}", event["ph"].as_str().unwrap(), cat(event))).or_default() += 1;
    }
    let share = |key: &str| counts[key] as f64 / events.len() as f64;
    assert!((0.62..0.76).contains(&share("X python_function")), "{counts:?}");
    assert!((0.08..0.20).contains(&share("X cpu_op")), "{counts:?}");
    for key in [
        "X kernel",
        "X gpu_memcpy",
        "X gpu_memset",
        "X cuda_runtime",
        "X cuda_driver",
        "X user_annotation",
        "X gpu_user_annotation",
        "X overhead",
        "X Trace",
        "s ac2g",
        "f ac2g",
        "s fwdbwd",
        "f fwdbwd",
        "i cpu_instant_event",
        "i ",
        "M ",
    ] {
        assert!(counts.contains_key(key), "no {key:?}");
    }
    let names: BTreeSet<&str> = events.iter().filter_map(|event| event["name"].as_str()).collect();
    assert!(names.len() > 500, "{}", names.len());
    assert!(names.contains("nn.Module: LlamaDecoderLayer_1") && names.contains("ProfilerStep#6"));
}

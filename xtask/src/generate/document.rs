//! What stands around the events: header, trailer, names of processes and threads, frames open all along, and the
//! span of the trace.

use super::collectives::WORLD_SIZE;
use super::draw;
use super::layout::{Fill, Layout, Pen, Shape};
use super::random::Random;
use super::template::{AUTOGRAD_TID, PID, Stream};
use super::timeline::Span;

/// Moment that `ts` counts from.
const BASE_TIME_NS: i64 = 1_790_857_026_000_000_000;
/// Devices that Kineto names whether they exist or not.
const NAMED_DEVICES: i64 = 16;

/// Frames open before the trace began, outermost first, with their thread; a thread's outermost has no parent.
const OUTER_FRAMES: &[(&str, i64)] = &[
    ("threading.py(1030): _bootstrap", 0),
    ("threading.py(1073): _bootstrap_inner", 0),
    ("tqdm/_monitor.py(69): run", 0),
    ("threading.py(655): wait", 0),
    ("threading.py(359): wait", 0),
    ("train.py(312): <module>", PID),
    ("train.py(287): main", PID),
    ("transformers/trainer.py(2238): train", PID),
    ("transformers/trainer.py(2330): _inner_training_loop", PID),
];

/// Number of frames open all along: their ids come before those of the steps, and the last is the steps' parent.
pub(super) const OUTER_FRAME_COUNT: u64 = OUTER_FRAMES.len() as u64;

/// The frames open all along, with the values of their holes but for `Ev Idx`.
pub(super) fn outer_frames(layout: Layout, trace: Span) -> Vec<(Shape, Fill)> {
    let mut frames = Vec::new();
    for (index, &(name, tid)) in OUTER_FRAMES.iter().enumerate() {
        let py = index as u64 + 1;
        let has_parent = index > 0 && OUTER_FRAMES[index - 1].1 == tid;
        let shape = draw::outer_frame(layout, name, tid, has_parent);
        // Each begins a little after the one around it; all end together, when the trace does.
        let late_ns = 1_500 * py;
        let (ts_ns, dur_ns) = (trace.start_ns + late_ns, trace.dur_ns - late_ns);
        frames.push((shape, Fill { ts_ns, dur_ns, py, parent: py - 1, ..Fill::default() }));
    }
    frames
}

/// Metadata that stands beside the events.
fn metadata(pen: &mut Pen, seed: u64) {
    pen.key("\n    ", "schemaVersion");
    pen.int(1);
    pen.key(",\n    ", "deviceProperties");
    devices(pen);
    let mut random = Random::new(seed, u64::MAX);
    let lead = ",\n      ";
    pen.key(lead, "trace_id");
    pen.text(&format!("{:016X}{:016X}", random.next(), random.next()));
    for name in ["with_stack", "record_shapes", "profile_memory"] {
        pen.key(lead, name);
        pen.int(1);
    }
    pen.key(lead, "distributedInfo");
    distributed(pen);
    for (name, value) in [("cuda_driver_version", 13_000), ("cuda_runtime_version", 13_000), ("cupti_version", 130_001)]
    {
        pen.key(lead, name);
        pen.int(value);
    }
    pen.key(",\n  ", "displayTimeUnit");
    pen.text("ms");
    pen.key(",\n  ", "baseTimeNanoseconds");
    pen.int(BASE_TIME_NS);
}

fn distributed(pen: &mut Pen) {
    let ranks: Vec<i64> = (0..WORLD_SIZE).collect();
    pen.open();
    pen.key("", "backend");
    pen.text("nccl");
    pen.key(", ", "rank");
    pen.int(0);
    pen.key(", ", "world_size");
    pen.int(WORLD_SIZE);
    pen.key(", ", "pg_count");
    pen.int(1);
    pen.key(", ", "pg_config");
    pen.list_of_one("", |pen| {
        pen.open();
        pen.key("", "pg_name");
        pen.text("0");
        pen.key(", ", "pg_desc");
        pen.text("default_pg");
        pen.key(", ", "backend_config");
        pen.text("cuda:nccl");
        pen.key(", ", "pg_size");
        pen.int(WORLD_SIZE);
        pen.key(", ", "ranks");
        pen.ints(&ranks);
        pen.close("");
    });
    pen.key(", ", "nccl_version");
    pen.text("2.28.9");
    pen.close("");
}

/// Fields of the device, with what Kineto prints before each.
const DEVICE: [(&str, &str, i64); 11] = [
    (", ", "totalGlobalMem", 150_109_880_320),
    (",\n      ", "computeMajor", 9),
    (", ", "computeMinor", 0),
    (",\n      ", "maxThreadsPerBlock", 1024),
    (", ", "maxThreadsPerMultiprocessor", 2048),
    (",\n      ", "regsPerBlock", 65_536),
    (", ", "warpSize", 32),
    (",\n      ", "sharedMemPerBlock", 49_152),
    (", ", "numSms", 132),
    ("\n    , ", "regsPerMultiprocessor", 65_536),
    (", ", "sharedMemPerBlockOptin", 232_448),
];

fn devices(pen: &mut Pen) {
    // Kineto puts the braces of the list's one member on lines of their own.
    pen.list_of_one("\n    ", |pen| {
        pen.open();
        pen.key("\n      ", "id");
        pen.int(0);
        pen.key(", ", "name");
        pen.text("NVIDIA H200");
        for (lead, name, value) in DEVICE {
            pen.key(lead, name);
            pen.int(value);
        }
        pen.key(", ", "sharedMemPerMultiprocessor");
        pen.int(233_472);
        pen.close("\n    ");
    });
}

/// Text up to the first event, without what separates events.
pub(super) fn head(layout: Layout, seed: u64) -> Vec<u8> {
    let mut pen = Pen::new(layout, 0);
    if layout == Layout::Kineto {
        pen.raw("\n  ");
    }
    pen.open();
    if layout == Layout::Indented {
        // Tools that re-indent put their own key first and the profiler's after the events.
        pen.key("", "metadata");
        pen.raw("{}");
    } else {
        metadata(&mut pen, seed);
    }
    pen.key(",\n  ", "traceEvents");
    pen.raw("[");
    pen.into_text()
}

/// Text after the last event.
pub(super) fn tail(layout: Layout, seed: u64, name: &str) -> Vec<u8> {
    let mut pen = Pen::new(layout, 1);
    pen.raw(match layout {
        Layout::Kineto | Layout::Indented => "\n  ]",
        Layout::Compact => "]",
    });
    pen.continue_object();
    if layout == Layout::Indented {
        metadata(&mut pen, seed);
    }
    pen.key(",\n  ", "traceName");
    pen.text(name);
    pen.close("\n");
    pen.into_text()
}

/// The events after those of the steps: names of processes and threads, the span of the trace, and its two marks.
pub(super) fn closing_events(layout: Layout, trace: Span) -> Vec<Shape> {
    let ts = micros(trace.start_ns + 200_000, layout);
    let start = micros(trace.start_ns, layout);
    let mut events = Vec::new();
    let mut name = |kind: &str, place: (i64, i64), value: NameValue<'_>| {
        events.push(metadata_event(layout, kind, &ts, place, value));
    };
    name("process_name", (PID, 0), NameValue::Text("name", "python3"));
    name("process_labels", (PID, 0), NameValue::Text("labels", "CPU"));
    name("process_sort_index", (PID, 0), NameValue::Sort(PID));
    for device in 0..NAMED_DEVICES {
        name("process_name", (device, 0), NameValue::Text("name", "python3"));
        name("process_labels", (device, 0), NameValue::Text("labels", &format!("GPU {device}")));
        name("process_sort_index", (device, 0), NameValue::Sort(5_000_000 + device));
    }
    for stream in Stream::ALL.map(Stream::number) {
        name("thread_name", (0, stream), NameValue::Text("name", &format!("stream {stream} ")));
        name("thread_sort_index", (0, stream), NameValue::Sort(stream));
    }
    for (tid, process) in [(PID, "python3"), (AUTOGRAD_TID, "pt_autograd_0"), (PID, "python3")] {
        name("thread_name", (PID, tid), NameValue::Text("name", &format!("thread {tid} ({process})")));
        name("thread_sort_index", (PID, tid), NameValue::Sort(tid));
    }
    events.push(span_event(layout, &start, &micros(trace.dur_ns, layout)));
    events.push(spans_sort_event(layout, &start));
    events.push(mark(layout, "Iteration Start: PyTorch Profiler", ("Traces", "Trace PyTorch Profiler"), &start));
    events.push(mark(layout, "Record Window End", ("", ""), &micros(trace.end_ns() + 17_000_000, layout)));
    events
}

fn micros(ns: u64, layout: Layout) -> String {
    let text = format!("{}.{:03}", ns / 1000, ns % 1000);
    if layout == Layout::Kineto {
        return text;
    }
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}

#[derive(Clone, Copy)]
enum NameValue<'a> {
    Text(&'a str, &'a str),
    Sort(i64),
}

fn metadata_event(layout: Layout, kind: &str, ts: &str, place: (i64, i64), value: NameValue<'_>) -> Shape {
    let mut pen = Pen::event(layout);
    pen.key("\n    ", "name");
    pen.text(kind);
    pen.key(", ", "ph");
    pen.text("M");
    pen.key(", ", "ts");
    pen.raw(ts);
    pen.key(", ", "pid");
    pen.int(place.0);
    pen.key(", ", "tid");
    pen.int(place.1);
    pen.key(",\n    ", "args");
    pen.open();
    match value {
        NameValue::Text(key, text) => {
            pen.key("\n      ", key);
            pen.text(text);
        }
        NameValue::Sort(index) => {
            pen.key("\n      ", "sort_index");
            pen.int(index);
        }
    }
    pen.close("\n    ");
    pen.finish()
}

fn span_event(layout: Layout, start: &str, dur: &str) -> Shape {
    let mut pen = Pen::event(layout);
    pen.key("\n    ", "ph");
    pen.text("X");
    pen.key(", ", "cat");
    pen.text("Trace");
    pen.key(", ", "ts");
    pen.raw(start);
    pen.key(", ", "dur");
    pen.raw(dur);
    pen.key(",\n    ", "pid");
    pen.text("Spans");
    pen.key(", ", "tid");
    pen.text("PyTorch Profiler");
    pen.key(",\n    ", "name");
    pen.text("PyTorch Profiler (0)");
    pen.key(",\n    ", "args");
    pen.open();
    pen.key("\n      ", "Op count");
    pen.int(0);
    pen.close("\n    ");
    pen.finish()
}

fn spans_sort_event(layout: Layout, start: &str) -> Shape {
    let mut pen = Pen::event(layout);
    pen.key("\n    ", "name");
    pen.text("process_sort_index");
    pen.key(", ", "ph");
    pen.text("M");
    pen.key(", ", "ts");
    pen.raw(start);
    pen.key(",\n    ", "pid");
    pen.text("Spans");
    pen.key(", ", "tid");
    pen.int(0);
    pen.key(",\n    ", "args");
    pen.open();
    pen.key("\n      ", "sort_index");
    pen.int(536_870_912);
    pen.close("\n    ");
    pen.finish()
}

fn mark(layout: Layout, name: &str, place: (&str, &str), ts: &str) -> Shape {
    let mut pen = Pen::event(layout);
    pen.key("\n    ", "name");
    pen.text(name);
    pen.key(", ", "ph");
    pen.text("i");
    pen.key(", ", "s");
    pen.text("g");
    pen.key(",\n    ", "pid");
    pen.text(place.0);
    pen.key(", ", "tid");
    pen.text(place.1);
    pen.key(", ", "ts");
    pen.raw(ts);
    pen.finish()
}

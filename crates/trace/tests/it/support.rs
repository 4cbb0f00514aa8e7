//! Finds the shared traces and reads them by a plain second way, independent of the crate's own reader.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use jarvis_trace::{BuilderArg, Ns, Trace, TraceBuilder};
use serde_json::Value;

/// The folder of shared traces, or `None` with a printed word where it is absent.
pub(crate) fn traces() -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let shared = std::env::var_os("JARVIS_SHARED").map_or_else(|| workspace.join("../shared"), PathBuf::from);
    let traces = shared.join("traces");
    if traces.is_dir() {
        return Some(traces);
    }
    println!("skipped: no traces at {}", traces.display());
    None
}

/// All files below a folder whose name passes a test, sorted.
pub(crate) fn files(folder: &Path, test: &dyn Fn(&str) -> bool) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if test(path.file_name().unwrap().to_str().unwrap()) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Every shared trace with its path, the folder of reference tables beside it, and the trace itself.
pub(crate) fn all_traces() -> impl Iterator<Item = (String, PathBuf, Trace)> {
    let folder = traces();
    let paths = folder.iter().flat_map(|folder| files(folder, &|name| name.ends_with(".json.gz")));
    let paths: Vec<PathBuf> = paths.collect();
    paths.into_iter().map(|path| {
        let stem = path.to_str().unwrap().strip_suffix(".json.gz").unwrap().to_owned();
        let tables = PathBuf::from(format!("{stem}_perf_report_csvs"));
        (stem, tables, load(&path))
    })
}

/// Rows of a CSV file as maps from column to cell; `None` where there is no such file.
pub(crate) fn table(path: &Path) -> Option<Vec<HashMap<String, String>>> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut records = vec![vec![String::new()]];
    let mut quoted = false;
    for c in text.chars() {
        let record = records.last_mut().unwrap();
        match c {
            // A doubled quote closes and opens again; the quote itself is of no interest here.
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(String::new()),
            '\n' if !quoted => records.push(vec![String::new()]),
            '\r' if !quoted => {}
            c => record.last_mut().unwrap().push(c),
        }
    }
    records.retain(|r| r.len() > 1);
    let header = records.remove(0);
    Some(records.into_iter().map(|r| header.iter().cloned().zip(r).collect()).collect())
}

/// Reads a trace with a general JSON parser.
pub(crate) fn load(path: &Path) -> Trace {
    load_repeated(path, 1)
}

/// As [`load`], but with the recording repeated several times, one after the other in time. As the profiler does, all
/// operations and frames come before all else in the file.
pub(crate) fn load_repeated(path: &Path, times: i64) -> Trace {
    let bytes = std::fs::read(path).unwrap();
    let mut text = Vec::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut text).unwrap();
    } else {
        text = bytes;
    }
    let document: Value = serde_json::from_slice(&text).unwrap();
    let mut b = TraceBuilder::new();
    let events = document["traceEvents"].as_array().unwrap();
    let is_call = |e: &Value| matches!(e["cat"].as_str(), Some("cpu_op" | "python_function" | "fwdbwd"));
    if times == 1 {
        events.iter().for_each(|e| add(&mut b, e, Shift::default()));
        return b.build();
    }
    let numbers = events.iter().filter_map(|e| e["args"]["correlation"].as_i64());
    let (low, high) = numbers.fold((i64::MAX, 0), |(low, high), n| (low.min(n), high.max(n)));
    for calls in [true, false] {
        for copy in 0..times {
            let shift = Shift { time: Ns(copy * 10_000_000_000), number: copy * (high - low + 1) };
            events.iter().filter(|e| is_call(e) == calls).for_each(|e| add(&mut b, e, shift));
        }
    }
    b.build()
}

/// What tells one copy of a recording from the next.
#[derive(Clone, Copy, Default)]
struct Shift {
    time: Ns,
    number: i64,
}

fn add(b: &mut TraceBuilder, event: &Value, shift: Shift) {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let phase = text("ph").chars().next().unwrap_or('\0');
    let id = event.get("id").and_then(Value::as_i64);
    let e = match id {
        Some(id) => b.flow(phase, text("cat"), 0.0, id + shift.number),
        None => b.event(phase, text("cat"), text("name"), 0.0, 0.0),
    };
    e.on(arg(&event["pid"]), arg(&event["tid"]));
    // Three decimals of the nearest float are those of the text while the float grid is finer than a nanosecond.
    let time = |key: &str| {
        let ns = format!("{:.3}", event[key].as_f64()?).replace('.', "").parse().unwrap();
        Some(Ns(ns))
    };
    match (time("ts"), time("dur")) {
        (Some(ts), Some(dur)) => e.at(ts + shift.time, dur),
        (Some(ts), None) => e.at(ts + shift.time, Ns(0)).without_dur(),
        _ => e.without_ts().without_dur(),
    };
    for (key, value) in event["args"].as_object().into_iter().flatten() {
        match (key.as_str(), value.as_i64()) {
            ("correlation" | "Sequence number", Some(number)) => e.arg(key, number + shift.number),
            _ => e.arg(key, arg(value)),
        };
    }
}

fn arg(value: &Value) -> BuilderArg {
    match value {
        Value::Null => BuilderArg::Null,
        Value::Bool(b) => (*b).into(),
        Value::Number(n) => n.as_i64().map_or_else(|| n.as_f64().unwrap().into(), BuilderArg::from),
        Value::String(s) => s.as_str().into(),
        list => list.to_string().into(),
    }
}

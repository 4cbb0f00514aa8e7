//! Recordings that programs or profilers have put out of order: the numbers are the same, or it is told what is wrong.

use std::fs;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use crate::support::{files, fixture, jarvis};

/// A small real recording.
fn recording(name: &str) -> Value {
    let mut text = String::new();
    let file = fs::File::open(fixture(&format!("h200/{name}.json.gz"))).unwrap();
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn events(trace: &mut Value) -> &mut Vec<Value> {
    trace["traceEvents"].as_array_mut().unwrap()
}

fn us(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

/// What a run on this prints, with the folder that it writes.
fn analyzed(folder: &Path, name: &str, trace: &Value) -> String {
    let path = folder.join(format!("{name}.json"));
    fs::write(&path, trace.to_string()).unwrap();
    let out = folder.join(name);
    let args =
        ["analyze", path.to_str().unwrap(), "-o", out.to_str().unwrap(), "--platform", "H200", "--replay", "none"];
    let run = jarvis(&args);
    assert_eq!(run.status, 0, "{}", run.err);
    let check = jarvis(&["check", out.to_str().unwrap()]);
    assert_eq!(check.status, 0, "{name}: {}{}", check.out, check.err);
    run.out
}

/// The tables of a run without the columns of UIDs, which are positions in the file.
fn tables(folder: &Path) -> Vec<(String, Vec<Vec<String>>)> {
    let tables = files(folder).into_iter().filter(|(name, _)| name.starts_with("perf_report_csvs"));
    tables
        .map(|(name, bytes)| {
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(bytes.as_slice());
            let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
            let kept: Vec<usize> = (0..rows[0].len()).filter(|&i| !rows[0][i].contains("UID")).collect();
            let row = |r: &csv::StringRecord| kept.iter().map(|&i| r[i].to_owned()).collect();
            (name, rows.iter().map(row).collect())
        })
        .collect()
}

/// Every finding: what it is, its time, what it saves.
fn findings(folder: &Path) -> Vec<[Value; 4]> {
    let told: Value = serde_json::from_slice(&fs::read(folder.join("findings.json")).unwrap()).unwrap();
    let keys = ["title", "time_ms", "savings_ms_low", "savings_ms_high"];
    told["findings"].as_array().unwrap().iter().map(|f| keys.map(|key| f[key].clone())).collect()
}

#[test]
fn another_order_of_the_file_says_the_same() {
    for name in ["lm_compiled_train", "attn_unfused", "decode_graphed"] {
        let folder = tempfile::tempdir().unwrap();
        let mut trace = recording(name);
        analyzed(folder.path(), "as_recorded", &trace);
        let mut state = 1u64;
        let list = events(&mut trace);
        for i in (1..list.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            list.swap(i, (state >> 33) as usize % (i + 1));
        }
        analyzed(folder.path(), "shuffled", &trace);
        let [one, other] = ["as_recorded", "shuffled"].map(|run| folder.path().join(run));
        assert_eq!(findings(&one), findings(&other), "{name}");
        for ((table, rows), (_, again)) in tables(&one).into_iter().zip(tables(&other)) {
            assert_eq!(rows, again, "{name}: {table}");
        }
    }
}

#[test]
fn an_impossible_duration_is_told_and_promises_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut trace = recording("mlp_fp32");
    let list = events(&mut trace);
    let kernels: Vec<usize> = (0..list.len()).filter(|&i| list[i]["cat"] == "kernel").collect();
    list[kernels[kernels.len() / 2]]["dur"] = 30e6.into();
    let out = analyzed(folder.path(), "long", &trace);
    let told = "Part of the recording is lost: a GPU event outlasts what ran after it on its stream";
    assert!(out.replace("\n    ", " ").contains(told), "{out}");
    let total = |run: &str| -> f64 {
        let told: Value =
            serde_json::from_slice(&fs::read(folder.path().join(run).join("findings.json")).unwrap()).unwrap();
        us(&told["gpu_timeline"]["total_time_ms"])
    };
    analyzed(folder.path(), "sound", &recording("mlp_fp32"));
    assert!((total("long") - total("sound")).abs() < 0.05 * total("sound"), "30 s are no part of it");
}

#[test]
fn events_that_stand_twice_and_clocks_apart_are_told() {
    let folder = tempfile::tempdir().unwrap();
    analyzed(folder.path(), "sound", &recording("attn_unfused"));
    let mut trace = recording("attn_unfused");
    let list = events(&mut trace);
    let again: Vec<Value> = list.iter().filter(|e| e["ph"] == "X").step_by(3).cloned().collect();
    list.extend(again);
    let out = analyzed(folder.path(), "twice", &trace).replace("\n    ", " ");
    assert!(out.contains("Some numbers are unsure: an event stands in the file more than once"), "{out}");
    let [sound, twice] = ["sound", "twice"].map(|run| findings(&folder.path().join(run)));
    assert_eq!(sound, twice);
    let mut trace = recording("attn_unfused");
    for e in events(&mut trace).iter_mut().filter(|e| e["cat"] == "kernel") {
        e["ts"] = (us(&e["ts"]) - 1000.0).into();
    }
    let out = analyzed(folder.path(), "skewed", &trace).replace("\n    ", " ");
    assert!(out.contains("Some numbers are unsure: a GPU event begins before the call that launched it"), "{out}");
}

#[test]
fn what_older_versions_do_not_record_is_told_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    for (key, told) in [
        ("Input type", "Shapes are recorded without the types of the inputs"),
        ("Input Strides", "Shapes are recorded without strides"),
        ("none", ""),
    ] {
        let mut trace = recording("mlp_fp32");
        for e in events(&mut trace) {
            if let Some(args) = e["args"].as_object_mut() {
                args.remove(key);
            }
        }
        let name = key.replace(' ', "_");
        analyzed(folder.path(), &name, &trace);
        let rough = fs::read_to_string(folder.path().join(&name).join("standalone_analysis_rough.md")).unwrap();
        assert_eq!(rough.matches("Shapes are recorded without").count(), usize::from(!told.is_empty()), "{key}");
        assert!(rough.contains(told), "{key}");
    }
}

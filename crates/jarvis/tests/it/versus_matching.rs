//! `jarvis analyze --reference`: which calls are compared with which, and what sums of them say.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::versus::{compare, findings};

const SAME_GPU: [&str; 4] = ["--platform", "H200", "--reference-platform", "H200"];

/// A call with one kernel.
#[derive(Clone, Copy)]
struct Call {
    name: &'static str,
    dims: &'static str,
    strides: &'static str,
    us: u32,
}

const ROWS: &str = "[[4096,1],[4096,1]]";
const COLUMNS: &str = "[[1,4096],[4096,1]]";

fn mm(strides: &'static str, us: u32) -> Call {
    Call { name: "aten::mm", dims: "[[4096,4096],[4096,4096]]", strides, us }
}

/// A trace of one step with these calls one after the other, in a module if one is named.
fn write(path: &Path, calls: &[Call], module: Option<&str>) {
    let mut events = String::from(
        r#"{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":900000}"#,
    );
    if let Some(module) = module {
        let _ = write!(
            events,
            r#",{{"ph":"X","cat":"python_function","name":"nn.Module: {module}_0","pid":1,"tid":1,"ts":1,"dur":99999,"args":{{"Python id":1,"Python module id":0}}}}"#
        );
    }
    let mut at = 1000;
    for (id, call) in (1..).zip(calls) {
        let Call { name, dims, strides, us } = call;
        let (host, launch) = (10 * id, 10 * id + 2);
        let types = vec!["\"c10::BFloat16\""; dims.matches("],").count() + 1].join(",");
        let _ = write!(
            events,
            r#",
{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{host},"dur":8,"args":{{"External id":{id},"Input Dims":{dims},"Input type":[{types}],"Input Strides":{strides}}}}},
{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{launch},"dur":2,"args":{{"correlation":{id},"External id":{id}}}}},
{{"ph":"X","cat":"kernel","name":"k_{name}","pid":0,"tid":7,"ts":{at},"dur":{us},"args":{{"correlation":{id},"External id":{id},"device":0,"stream":7}}}}"#
        );
        at += us;
    }
    let text = format!(r#"{{"deviceProperties":[{{"id":0,"name":"NVIDIA H200"}}],"traceEvents":[{events}]}}"#);
    fs::write(path, text).unwrap();
}

/// The sides of a comparison, and what came of it.
struct Compared {
    fair: String,
    metrics: Value,
    findings: Value,
    err: String,
}

fn compared(reference: &[Call], target: &[Call], module: Option<&str>, more: &[&str]) -> Compared {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("r.json"), reference, module);
    write(&path("t.json"), target, module);
    let out = path("out");
    let run = compare(&path("t.json"), &path("r.json"), &out, &[&SAME_GPU[..], &["--quiet"], more].concat());
    let metrics = fs::read(out.join("category_data/comparison_metrics.json")).unwrap();
    Compared {
        fair: fs::read_to_string(out.join("comparative_analysis_fair.md")).unwrap(),
        metrics: serde_json::from_slice(&metrics).unwrap(),
        findings: findings(&out),
        err: run.err,
    }
}

fn levels(metrics: &Value) -> Vec<(&str, f64)> {
    let operations = metrics["operations"].as_array().unwrap().iter();
    operations.map(|o| (o["match_level"].as_str().unwrap(), o["target_count"].as_f64().unwrap())).collect()
}

#[test]
fn calls_that_only_one_side_makes_in_a_layout_match_those_in_another() {
    let reference = [mm(ROWS, 200); 4];
    let target = [mm(ROWS, 200), mm(ROWS, 200), mm(COLUMNS, 400), mm(COLUMNS, 400)];
    for module in [None, Some("Linear")] {
        let c = compared(&reference, &target, module, &[]);
        assert_eq!(levels(&c.metrics), [("shape", 2.0), ("exact", 2.0)], "{module:?}: {}", c.fair);
        assert_eq!(c.metrics["coverage"]["matched_target_percent"], 100.0);
        assert!(c.fair.contains("Priority 1: `aten::mm` `(4096,4096) bf16`"), "{}", c.fair);
        for wrong in ["other amounts of data", "without a counterpart", "(gemm, 2 shapes)"] {
            assert!(!c.fair.contains(wrong), "{module:?}: {}", c.fair);
        }
        let saved = c.findings["comparison"]["gaps"][0]["saved_ms"].as_f64().unwrap();
        assert!((saved - 0.4).abs() < 1e-6, "{saved}");
    }
    assert!(compared(&reference, &target, None, &[]).err.is_empty());
}

//! `jarvis analyze --reference`: which calls are compared with which, and what sums of them say.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::fixture;
use crate::versus::{SQUARE, SQUARES, compare, findings, sketch};

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

const UNFUSED: &str = "h200/attn_unfused.json.gz";
const FUSED: &str = "h200/attn_fused.json.gz";

fn text(out: &Path, name: &str) -> String {
    fs::read_to_string(out.join(name)).unwrap()
}

fn metrics(out: &Path) -> Value {
    serde_json::from_str(&text(out, "category_data/comparison_metrics.json")).unwrap()
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap()
}

#[test]
fn categories_have_all_their_calls_and_are_judged_by_what_is_most_of_them() {
    let out = tempfile::tempdir().unwrap();
    let limits = ["elementwise=5%", "reduce=5%", "gemm=5%"].map(|limit| ["--fail-on", limit]).concat();
    let run = compare(&fixture(UNFUSED), &fixture(FUSED), out.path(), &limits);
    assert_eq!(run.status, 1, "{}", run.err);
    let all = metrics(out.path());
    let of = |key: &str| named(&all["categories"], key);
    let calls = |key: &str| (of(key)["reference_count"].as_f64().unwrap(), of(key)["target_count"].as_f64().unwrap());
    assert_eq!((calls("gemm"), calls("sdpa_fwd")), ((21.0, 29.0), (4.0, 0.0)));
    // What both sides run takes as long; the rest is attention of other operations.
    assert_eq!((&of("elementwise")["verdict"], &of("elementwise")["expected"]), (&"unmatched".into(), &"n/a".into()));
    assert_eq!((&of("gemm")["verdict"], &of("norm")["expected"]), (&"hardware_slower".into(), &"Yes".into()));
    let page = text(out.path(), "report.html");
    assert!(page.contains("– other operations") && !page.contains("▲▲ kernel issue"));
    // A limit names operations of its own category only.
    for says in ["1.28 ms (new)  aten::bmm in Attention", "2.95 ms (new)  aten::_softmax in Attention"] {
        assert!(run.err.contains(says), "{}", run.err);
    }
    assert!(!run.err.contains("10.16"), "{}", run.err);
    // What is saved is told with its own share.
    let rough = text(out.path(), "comparative_analysis_rough.md");
    let saved = "9.54 ms (55.8% of target compute)";
    assert!(rough.contains("= 9.54 ms, 55.8% of target compute."), "{rough}");
    assert!(text(out.path(), "comparative_analysis_fair.md").contains(saved));
}

#[test]
fn other_operations_in_the_same_time_are_no_lack_of_difference() {
    let call = |name| Call { name, ..mm(ROWS, 200) };
    let (own, other) = ([call("aten::mm"), call("aten::silu")], [call("mylib::gemm"), call("aten::silu")]);
    for module in [None, Some("Linear")] {
        let c = compared(&own, &other, module, &["--fail-on", "other=5%"]);
        assert_eq!(c.findings["comparison"]["no_difference"], false, "{}", c.fair);
        assert!(c.fair.contains("The target takes the same time, with other operations."), "{}", c.fair);
        assert!(!c.fair.contains("No difference: "), "{}", c.fair);
        assert!(c.err.contains("0.20 ms (new)  mylib::gemm"), "{}", c.err);
        assert_eq!(compared(&own, &own, module, &[]).findings["comparison"]["no_difference"], true);
    }
}

#[test]
fn arguments_of_each_side_stand_in_its_own_column() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    sketch(&path("r.json"), &[("aten::mm", SQUARES, "c10::BFloat16", 170)], 0);
    sketch(&path("t.json"), &[("aten::mm", SQUARES, "float", 2600)], 0);
    let run = compare(&path("t.json"), &path("r.json"), &path("out"), &SAME_GPU);
    assert_eq!(run.status, 0, "{}", run.err);
    let page = text(&path("out"), "report.html");
    let (_, row) = page.split_once("<td>Arguments</td>").unwrap();
    let (row, _) = row.split_once("</tr>").unwrap();
    let (bf16, fp32) = (row.find("bf16").unwrap(), row.find("fp32").unwrap());
    assert!(bf16 < fp32 && row.matches("bf16").count() == 2 && row.matches("fp32").count() == 2, "{row}");
}

#[test]
fn calls_and_shares_of_a_shorter_reference_are_in_the_unit_of_its_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let step = |more| [("aten::mm", SQUARES, "float", 300), ("aten::silu", SQUARE, "float", 100), more];
    let alone = ("aten::gelu", SQUARE, "float", 100);
    let (reference, target) = (step(alone).to_vec(), step(("aten::tanh", SQUARE, "float", 100)).repeat(4));
    for (name, calls) in [("r.json", &reference), ("t.json", &target)] {
        sketch(&path(name), calls, 0);
        let marked = fs::read_to_string(path(name)).unwrap();
        fs::write(path(name), marked.replace("\"cat\":\"user_annotation\",", "")).unwrap();
    }
    let run = compare(&path("t.json"), &path("r.json"), &path("out"), &SAME_GPU);
    assert_eq!(run.status, 0, "{}", run.err);
    let all = metrics(&path("out"));
    assert_eq!(all["normalization"]["mode"], "per_call", "{all:#}");
    let product = named(&all["operations"], "aten::mm");
    assert_eq!((&product["reference_ms"], &product["reference_count"]), (&1.2.into(), &4.0.into()), "{product:#}");
    let left = &all["unmatched_reference"][0];
    assert_eq!((&left["time_ms"], &left["percent_of_compute"]), (&0.4.into(), &20.0.into()), "{left:#}");
    let rough = text(&path("out"), "comparative_analysis_rough.md");
    assert!(rough.contains("**Steps:** times are as recorded"), "{rough}");
}

#[test]
fn the_page_says_whose_warnings_it_shows() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("r.json"), &[mm(ROWS, 200)], None);
    // No H200 is that fast.
    write(&path("t.json"), &[mm(ROWS, 100)], None);
    let run = compare(&path("t.json"), &path("r.json"), &path("out"), &SAME_GPU);
    assert_eq!(run.status, 0, "{}", run.err);
    let page = text(&path("out"), "report.html");
    let (before, _) = page.split_once("of peak: verify the measurement").unwrap();
    assert!(before[before.len() - 120..].contains("Of the target: "), "{}", &before[before.len() - 120..]);
}

//! `jarvis analyze --reference`.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::support::{Run, files, fixture, jarvis, shared};

const BEFORE: &str = "h200/attn_unfused.json.gz";
const AFTER: &str = "h200/attn_fused.json.gz";

pub(crate) fn compare(target: &Path, reference: &Path, out: &Path, more: &[&str]) -> Run {
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (target, reference, out) = (text(target), text(reference), text(out));
    let mut args = vec!["analyze", &target, "--reference", &reference, "-o", &out];
    args.extend(more);
    jarvis(&args)
}

pub(crate) fn findings(out: &Path) -> Value {
    serde_json::from_slice(&fs::read(out.join("findings.json")).expect("findings")).expect("JSON")
}

fn checked(out: &Path) {
    let run = jarvis(&["check", out.to_str().expect("UTF-8")]);
    assert_eq!(run.status, 0, "{}{}", run.out, run.err);
}

#[test]
fn every_file_of_a_comparison_is_written_and_holds() {
    let out = tempfile::tempdir().unwrap();
    let run = compare(&fixture(AFTER), &fixture(BEFORE), out.path(), &[]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    assert!(run.out.lines().count() <= 45, "{}", run.out);
    assert!(run.out.contains("In Attention: aten::masked_fill"), "{}", run.out);
    let written = files(out.path());
    for name in [
        "target_perf_report.xlsx",
        "target_perf_report_csvs/unified_perf_summary.csv",
        "reference_perf_report.xlsx",
        "reference_perf_report_csvs/unified_perf_summary.csv",
        "comparison.xlsx",
        "category_data/comparison_metrics.json",
        "comparative_analysis_fair.md",
        "comparative_analysis_rough.md",
        "findings.json",
        "report.html",
    ] {
        assert!(written.contains_key(name), "{name} of {:?}", written.keys());
    }
    assert!(!written.contains_key("perf_report.xlsx") && !written.contains_key("standalone_analysis_fair.md"));
    checked(out.path());
    let found = findings(out.path());
    let total = &found["comparison"]["total_ms"];
    let difference = total["target"].as_f64().unwrap() - total["reference"].as_f64().unwrap();
    let first = &found["comparison"]["changes"][0];
    assert_eq!(first["kind"], "replaced");
    let brought = first["delta_ms"].as_f64().unwrap();
    assert!((brought - difference).abs() <= 0.1 * difference.abs(), "{brought} of {difference} ms");
    assert_eq!(found["comparison"]["findings_gone"][0], "unfused_attention");
    let manifest: Value = serde_json::from_slice(&written["category_manifest.json"]).unwrap();
    assert_eq!(manifest["comparison_scope"], "comparative");
    assert!(manifest["reference"]["categories"].as_array().is_some_and(|c| !c.is_empty()));
}

#[test]
fn identical_traces_do_not_differ() {
    let out = tempfile::tempdir().unwrap();
    let trace = fixture(BEFORE);
    let run = compare(&trace, &trace, out.path(), &["--fail-on", "slowdown=0%", "--fail-on", "gemm=0%"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    assert!(run.out.contains("No difference"), "{}", run.out);
    assert_eq!(findings(out.path())["comparison"]["no_difference"], true);
    let fair = fs::read_to_string(out.path().join("comparative_analysis_fair.md")).unwrap();
    assert!(fair.contains("No difference: the target does the same work in the same time."));
    let page = fs::read_to_string(out.path().join("report.html")).unwrap();
    assert!(page.contains("No difference: the target does the same work in the same time"));
    assert!(!page.contains("NaN") && !page.contains("{{"));
    checked(out.path());
}

#[test]
fn a_limit_that_does_not_hold_fails_and_names_the_rows() {
    let out = tempfile::tempdir().unwrap();
    let gates = ["--fail-on", "slowdown=5%", "--fail-on", "elementwise=10%", "--fail-on", "norm=90%"];
    let run = compare(&fixture(BEFORE), &fixture(AFTER), out.path(), &gates);
    assert_eq!(run.status, 1, "{}", run.err);
    assert!(run.err.contains("slowdown=5%: 9.69 -> 20.01 ms (+106.5%)"), "{}", run.err);
    assert!(run.err.contains("elementwise=10%") && run.err.contains("aten::masked_fill"), "{}", run.err);
    assert!(!run.err.contains("norm=90%"), "{}", run.err);
    checked(out.path());
    let run = compare(&fixture(AFTER), &fixture(BEFORE), out.path(), &gates[..2]);
    assert_eq!(run.status, 0, "{}", run.err);
}

#[test]
fn wrong_options_are_told_before_anything_is_read() {
    let out = tempfile::tempdir().unwrap();
    for (more, says) in [
        (&["--fail-on", "nothing=5%"][..], "nothing"),
        (&["--fail-on", "gemm"], "NAME=PERCENT"),
        (&["--reference-platform", "H999"], "H999"),
    ] {
        let run = compare(&fixture(AFTER), &fixture(BEFORE), out.path(), more);
        assert_eq!(run.status, 2, "{more:?}: {}", run.err);
        assert!(run.err.contains(says), "{more:?}: {}", run.err);
    }
    let trace = fixture(AFTER);
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "--fail-on", "slowdown=5%"]);
    assert_eq!(run.status, 2, "{}", run.err);
    assert_eq!(files(out.path()).len(), 0);
}

#[test]
fn peaks_of_the_reference_can_be_given_by_hand() {
    let out = tempfile::tempdir().unwrap();
    let peaks = ["--reference-peak-hbm-tbs", "9.6", "--reference-peak-maf-tflops", "1980", "--json"];
    let run = compare(&fixture(AFTER), &fixture(AFTER), out.path(), &peaks);
    assert_eq!(run.status, 0, "{}", run.err);
    let metrics: Value =
        serde_json::from_slice(&fs::read(out.path().join("category_data/comparison_metrics.json")).unwrap()).unwrap();
    assert_eq!(metrics["reference"]["peak_hbm_bw_tbs"], 9.6);
    let memory = metrics["operations"].as_array().unwrap().iter().find(|o| o["bound_type"] == "memory").unwrap();
    assert_eq!((&memory["ratio"], &memory["expected_ratio"]), (&1.0.into(), &2.0.into()));
    assert_eq!(memory["verdict"], "unexpected_fast");
    assert_eq!(run.out, fs::read_to_string(out.path().join("findings.json")).unwrap());
}

#[test]
fn two_runs_and_any_number_of_threads_give_the_same_bytes() {
    let runs: Vec<_> = ["1", "2", "2"]
        .iter()
        .map(|threads| {
            let out = tempfile::tempdir().unwrap();
            let run = compare(&fixture(BEFORE), &fixture(AFTER), out.path(), &["--threads", threads, "--quiet"]);
            assert_eq!(run.status, 0, "{}", run.err);
            let mut found = files(out.path());
            // Stage timings differ from run to run.
            found.remove("run_log.json").expect("a log");
            found
        })
        .collect();
    for other in &runs[1..] {
        assert_eq!(runs[0].keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
        for (name, bytes) in &runs[0] {
            assert!(other[name] == *bytes, "{name} differs");
        }
    }
}

#[test]
fn the_example_of_the_requirements_is_told() {
    const NAME: &str = "facebook_timesformer-base-finetuned-k400__1016002.json.gz";
    let [Some(target), Some(reference)] = ["mi300", "h100"].map(|folder| shared(&format!("{folder}/{NAME}"))) else {
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let run = compare(&target, &reference, out.path(), &["--quiet"]);
    assert_eq!(run.status, 0, "{}", run.err);
    checked(out.path());
    let fair = fs::read_to_string(out.path().join("comparative_analysis_fair.md")).unwrap();
    for says in [
        "# Timesformer Performance Comparison: H100 vs MI300X",
        "Target platform compute time is 118.76 ms (-23.4% different from reference). This suggests memory-bound \
         characteristics dominate.",
        "+2697% on target, expected -36.8% from hardware - investigate.",
        "**Impact**: 13.40 ms (11.3% of target compute) if the hardware-expected time is reached",
        "| `aten::_softmax` | `(8,12,3137,3137) bf16` | 68.69 | 41.72 | -39.3% | -36.8% | Yes | Target has higher HBM \
         bandwidth. |",
        "| 1.98 | 3.06 | +54.6% | +39.8% | Yes | Reference has higher peak compute: not a bug. |",
        "investigate if there is a kernel issue or fundamental hardware difference",
    ] {
        assert!(fair.contains(says), "{says}");
    }
}

/// What the example of the requirements shows, on traces that are always there: one operation far slower than hardware
/// explains, one as much slower and one as much faster as it does.
#[test]
fn slower_faster_and_as_expected_are_told_in_their_forms() {
    let folder = tempfile::tempdir().unwrap();
    let of = |silu: u32, mm: u32, gelu: u32| {
        let kind = "c10::BFloat16";
        [("aten::silu", SQUARE, kind, silu), ("aten::mm", SQUARES, kind, mm), ("aten::gelu", SQUARE, kind, gelu)]
    };
    sketch(&folder.path().join("r.json"), &of(100, 200, 100), 0);
    sketch(&folder.path().join("t.json"), &of(70, 300, 900), 0);
    let [target, reference, out] = ["t.json", "r.json", "out"].map(|name| folder.path().join(name));
    let platforms = ["--platform", "MI300X", "--reference-platform", "H100", "--quiet"];
    assert_eq!(compare(&target, &reference, &out, &platforms).status, 0);
    checked(&out);
    let fair = fs::read_to_string(out.join("comparative_analysis_fair.md")).unwrap();
    let sections: Vec<&str> = fair.lines().filter(|l| l.starts_with("## ") && *l != "## Warnings").collect();
    let wanted = ["Executive Summary", "Recommendations for MI300X", "Detailed Comparison", "Appendix"];
    assert_eq!(sections, wanted.map(|name| format!("## {name}")));
    for says in [
        "# Workload Performance Comparison: H100 vs MI300X",
        "Target platform compute time is 1.27 ms (+217% different from reference). This suggests memory-bound \
         characteristics dominate.",
        "| Total Compute | 0.40 ms | 1.27 ms | +217% |",
        "1. `aten::gelu` `(8192,8192) bf16`: +800% on target, expected -36.8% from hardware - investigate.",
        "(unexpected - should be \\~-36.8% based on hardware)",
        "**Impact**: 0.84 ms (65.9% of target compute) if the hardware-expected time is reached",
        "| Metric | Reference | Target | Δ | Expected? |",
        "| Time | 0.10 ms | 0.90 ms | +800% | No |",
        "- **Expected based on hardware?:** NO - the ratio is 9.000, the hardware suggests 0.632, memory-bound.",
        "- **Verdict:** kernel issue.",
        "- **INVESTIGATE:** Operation `aten::gelu` is 800% slower on target - investigate if there is a kernel issue or \
         fundamental hardware difference.",
        "- **ACTION:** Follow Priority 1.",
        "| 0.20 | 0.30 | +50.0% | +39.8% | Yes | Reference has higher peak compute: not a bug. |",
        "| 0.10 | 0.070 | -30.0% | -36.8% | Yes | Target has higher HBM bandwidth. |",
    ] {
        assert!(fair.contains(says), "{says} is not in {fair}");
    }
    for winner in ["winner", "loser", "beats", "better GPU"] {
        assert!(!fair.contains(winner), "{winner}");
    }
}

#[test]
fn every_trace_can_be_compared_with_every_other_of_the_project() {
    let names = [
        "h200/mlp_fp32.json.gz",
        "h200/lm_compiled_train.json.gz",
        "handmade/rocm_like.json",
        "handmade/gpu_only.json",
    ];
    for target in names {
        for reference in names {
            let out = tempfile::tempdir().unwrap();
            let platform = ["--platform", "MI300X", "--reference-platform", "H200", "--quiet"];
            let run = compare(&fixture(target), &fixture(reference), out.path(), &platform);
            assert_eq!(run.status, 0, "{target} with {reference}: {}", run.err);
            checked(out.path());
        }
    }
}

/// A trace of operations one after the other, each with one kernel: name, dims, type, microseconds; this much idle
/// time after each.
pub(crate) fn sketch(path: &Path, operations: &[(&str, &str, &str, u32)], idle_us: u32) {
    let mut events = vec![
        r#"{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,"ts":0,"dur":900000}"#.to_owned(),
    ];
    let mut at = 0;
    for (i, (name, dims, kind, us)) in operations.iter().enumerate() {
        let (host, id) = (10 * i, i + 1);
        let types = dims.matches(']').count().max(2) - 1;
        let types = vec![format!("\"{kind}\""); types].join(",");
        events.push(format!(r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":1,"ts":{host},"dur":8,"args":{{"External id":{id},"Input Dims":{dims},"Input type":[{types}]}}}}"#));
        events.push(format!(r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":2,"args":{{"correlation":{id},"External id":{id}}}}}"#, host + 2));
        events.push(format!(r#"{{"ph":"X","cat":"kernel","name":"k_{name}_{kind}","pid":0,"tid":7,"ts":{},"dur":{us},"args":{{"correlation":{id},"External id":{id},"device":0,"stream":7}}}}"#, 1000 + at));
        at += us + idle_us;
    }
    let device = r#"[{"id":0,"name":"NVIDIA H200"}]"#;
    fs::write(path, format!("{{\"deviceProperties\":{device},\"traceEvents\":[{}]}}", events.join(",\n"))).unwrap();
}

/// Compares two sketches and returns the short report.
pub(crate) fn told(folder: &Path, more: &[&str]) -> String {
    let (target, reference, out) = (folder.join("t.json"), folder.join("r.json"), folder.join("out"));
    let run = compare(&target, &reference, &out, &[&["--platform", "H200", "--quiet"], more].concat());
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    checked(&out);
    fs::read_to_string(out.join("comparative_analysis_fair.md")).unwrap()
}

pub(crate) const SQUARES: &str = "[[4096,4096],[4096,4096]]";
pub(crate) const SQUARE: &str = "[[8192,8192]]";

#[test]
fn another_precision_is_no_kernel_issue() {
    let folder = tempfile::tempdir().unwrap();
    sketch(&folder.path().join("r.json"), &[("aten::mm", SQUARES, "c10::BFloat16", 170)], 0);
    sketch(&folder.path().join("t.json"), &[("aten::mm", SQUARES, "float", 2600)], 0);
    let fair = told(folder.path(), &["--reference-platform", "H200"]);
    let metrics = fs::read(folder.path().join("out/category_data/comparison_metrics.json")).unwrap();
    let metrics: Value = serde_json::from_slice(&metrics).unwrap();
    for key in ["operations", "by_name", "categories"] {
        let one = &metrics[key][0];
        assert_eq!((&one["verdict"], &one["explanation_id"]), (&"precision".into(), &"other_types".into()), "{one:#}");
        // The rate of bf16 over that of fp32, and not 1: both sides have the same GPU.
        assert!(one["expected_ratio_low"].as_f64().unwrap() > 10.0, "{one:#}");
        // No more than what is above the roofline of bf16: 139 of 2600 us.
        let saved = one["saved_ms"].as_f64().unwrap();
        assert!((2.42..=2.461).contains(&saved), "{saved}");
    }
    assert!(fair.contains("Priority 1: Precision of `aten::mm`"), "{fair}");
    assert!(fair.contains("Path A: Compute in `c10::BFloat16` as the reference does"), "{fair}");
    assert!(fair.contains("if the precision of the reference is used"), "{fair}");
    assert!(!fair.contains("kernel selection") && !fair.contains("**Verdict:** kernel issue"), "{fair}");
    assert!(fair.contains("| Metric | Reference | Target | Δ | Expected? |"), "{fair}");
    // Slower than its types explain is a matter of kernels again, and what is saved is above its own roofline.
    sketch(&folder.path().join("t.json"), &[("aten::mm", SQUARES, "float", 9000)], 0);
    let fair = told(folder.path(), &["--reference-platform", "H200"]);
    assert!(fair.contains("**Verdict:** kernel issue."), "{fair}");
}

#[test]
fn what_is_faster_but_not_enough_is_not_called_slower() {
    let folder = tempfile::tempdir().unwrap();
    sketch(&folder.path().join("r.json"), &[("aten::silu", SQUARE, "c10::BFloat16", 200)], 0);
    sketch(&folder.path().join("t.json"), &[("aten::silu", SQUARE, "c10::BFloat16", 190)], 0);
    let fair = told(folder.path(), &["--reference-platform", "H100"]);
    assert!(fair.contains("Target is 5.0% faster on `aten::silu`"), "{fair}");
    assert!(fair.contains("Operation `aten::silu` is 5.0% faster on target"), "{fair}");
}

#[test]
fn every_large_slowdown_is_a_key_finding_and_idle_time_no_part_of_compute() {
    let names = ["silu", "gelu", "relu", "tanh", "sigmoid", "exp", "neg", "abs"].map(|name| format!("aten::{name}"));
    let folder = tempfile::tempdir().unwrap();
    let of = |us: u32| names.iter().map(|name| (name.as_str(), SQUARE, "c10::BFloat16", us)).collect::<Vec<_>>();
    sketch(&folder.path().join("r.json"), &of(100), 0);
    sketch(&folder.path().join("t.json"), &of(250), 3000);
    let fair = told(folder.path(), &["--reference-platform", "H200"]);
    let (_, key) = fair.split_once("### Key Findings").unwrap();
    let (key, _) = key.split_once("---").unwrap();
    for name in &names {
        assert!(key.contains(&format!("`{name}`")), "{name}: {key}");
    }
    assert!(key.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count() <= 6, "{key}");
    let gaps = findings(&folder.path().join("out"))["comparison"]["gaps"].clone();
    let idle = gaps.as_array().unwrap().iter().find(|gap| gap["source"] == "idle").unwrap();
    assert!(idle["saved_percent_of_compute"].is_null(), "{idle:#}");
    assert!((80.0..100.0).contains(&idle["saved_percent_of_total"].as_f64().unwrap()), "{idle:#}");
    assert!(fair.contains("% of target GPU time) if the time of the reference is reached"), "{fair}");
    assert!(!fair.contains("1050.0% of target compute"), "{fair}");
}

#[test]
fn sheets_of_the_comparison_have_whole_names() {
    let out = tempfile::tempdir().unwrap();
    let run = compare(&fixture(AFTER), &fixture(BEFORE), out.path(), &["--quiet"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let file = fs::File::open(out.path().join("comparison.xlsx")).unwrap();
    let mut archive = zip::ZipArchive::new(file).unwrap();
    let mut book = String::new();
    archive.by_name("xl/workbook.xml").unwrap().read_to_string(&mut book).unwrap();
    for name in [
        "gpu_timeline",
        "ops_summary",
        "ops_all_intersect_target",
        "ops_all_only_baseline_target",
        "ops_all_only_variant_target",
    ] {
        assert!(book.contains(&format!("name=\"{name}\"")), "{name}: {book}");
    }
    assert!(!book.contains("targe\"") && !book.contains("ops_unique_args_"), "{book}");
}

#[test]
fn a_reference_that_can_not_be_used_is_told_like_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let (bad, out) = (folder.path().join("bad.json"), folder.path().join("out"));
    let host = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":8}"#;
    for text in [r#"{"traceEvents":[]}"#.to_owned(), format!("{{\"traceEvents\":[{host}]}}"), r#"{"a": 1}"#.to_owned()]
    {
        fs::write(&bad, &text).unwrap();
        let platform = ["--platform", "H200"];
        let path = bad.to_str().unwrap();
        let alone = jarvis(&[&["analyze", path, "-o", out.to_str().unwrap()][..], &platform].concat());
        let compared = compare(&fixture(AFTER), &bad, &out, &["--platform", "H200", "--reference-platform", "H200"]);
        assert_eq!((alone.status, compared.status), (3, 3), "{text}: {}", compared.err);
        let help = |err: &str| err.lines().find(|line| line.starts_with("help:")).map(str::to_owned);
        assert!(help(&alone.err).is_some() && help(&alone.err) == help(&compared.err), "{}{}", alone.err, compared.err);
    }
}

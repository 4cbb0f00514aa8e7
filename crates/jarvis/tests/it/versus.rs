//! `jarvis analyze --reference`.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{Run, files, fixture, jarvis, shared};

const BEFORE: &str = "h200/attn_unfused.json.gz";
const AFTER: &str = "h200/attn_fused.json.gz";

fn compare(target: &Path, reference: &Path, out: &Path, more: &[&str]) -> Run {
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let (target, reference, out) = (text(target), text(reference), text(out));
    let mut args = vec!["analyze", &target, "--reference", &reference, "-o", &out];
    args.extend(more);
    jarvis(&args)
}

fn findings(out: &Path) -> Value {
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

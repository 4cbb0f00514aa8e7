//! `jarvis analyze`.

use std::fs;
use std::path::Path;

use crate::support::{Run, files, fixture, jarvis, jarvis_fed};

/// Runs `jarvis analyze` on a fixture into a folder.
fn analyze(trace: &str, out: &Path, more: &[&str]) -> Run {
    let (trace, out) = (fixture(trace), out.to_string_lossy().into_owned());
    let mut args = vec!["analyze", trace.to_str().expect("UTF-8"), "-o", &out];
    args.extend(more);
    jarvis(&args)
}

/// What differs from machine to machine.
fn normal(text: &str, out: &Path) -> String {
    let fixtures = fixture("");
    text.replace(&*out.to_string_lossy(), "OUT").replace(&*fixtures.to_string_lossy(), "FIXTURES/")
}

#[test]
fn one_screen_tells_what_to_change() {
    let out = tempfile::tempdir().unwrap();
    let run = analyze("h200/attn_unfused.json.gz", out.path(), &[]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    assert!(run.out.lines().count() <= 45, "{}", run.out);
    insta::assert_snapshot!("analyze_summary", normal(&run.out, out.path()));
}

#[test]
fn json_is_the_findings_file() {
    let out = tempfile::tempdir().unwrap();
    let run = analyze("h200/mlp_fp32.json.gz", out.path(), &["--json"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let written = fs::read_to_string(out.path().join("findings.json")).unwrap();
    assert_eq!(run.out, written);
    let findings: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(findings["schema"], "jarvis.findings/1");
    assert_eq!(findings["findings"][0]["pattern"], "full_precision_gemm");
}

#[test]
fn two_runs_and_any_number_of_threads_give_the_same_bytes() {
    for trace in ["h200/attn_unfused.json.gz", "h200/lm_compiled_train.json.gz", "handmade/rocm_like.json"] {
        let runs: Vec<_> = [&["--threads", "1"][..], &["--threads", "2"], &["--threads", "2"]]
            .iter()
            .map(|threads| {
                let out = tempfile::tempdir().unwrap();
                let more: Vec<&str> = threads.iter().copied().chain(["--quiet", "--platform", "H200"]).collect();
                assert_eq!(analyze(trace, out.path(), &more).status, 0);
                let mut found = files(out.path());
                // Stage timings differ from run to run.
                found.remove("run_log.json").expect("a log");
                found
            })
            .collect();
        assert!(runs[0].len() > 20, "{:?}", runs[0].keys());
        for other in &runs[1..] {
            assert_eq!(runs[0].keys().collect::<Vec<_>>(), other.keys().collect::<Vec<_>>());
            for (name, bytes) in &runs[0] {
                assert!(other[name] == *bytes, "{trace}: {name} differs");
            }
        }
    }
}

#[test]
fn an_earlier_run_leaves_nothing_behind() {
    let out = tempfile::tempdir().unwrap();
    assert_eq!(analyze("h200/attn_unfused.json.gz", out.path(), &["--quiet"]).status, 0);
    fs::write(out.path().join("mine.txt"), "keep").unwrap();
    assert_eq!(analyze("h200/mlp_fp32.json.gz", out.path(), &["--quiet"]).status, 0);
    let mixed = files(out.path());
    let alone = tempfile::tempdir().unwrap();
    assert_eq!(analyze("h200/mlp_fp32.json.gz", alone.path(), &["--quiet"]).status, 0);
    let mut names: Vec<String> = files(alone.path()).into_keys().chain(["mine.txt".to_owned()]).collect();
    names.sort();
    assert_eq!(mixed.into_keys().collect::<Vec<_>>(), names);
}

#[test]
fn a_forged_log_removes_nothing_outside() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("out");
    fs::create_dir(&out).unwrap();
    fs::write(home.path().join("precious"), "x").unwrap();
    let absolute = home.path().join("precious").to_string_lossy().into_owned();
    fs::write(out.join("run_log.json"), serde_json::json!({"files": ["../precious", absolute]}).to_string()).unwrap();
    assert_eq!(analyze("h200/mlp_fp32.json.gz", &out, &["--quiet"]).status, 0);
    assert!(home.path().join("precious").exists());
}

#[test]
fn a_result_that_was_edited_is_not_removed() {
    let out = tempfile::tempdir().unwrap();
    assert_eq!(analyze("h200/attn_unfused.json.gz", out.path(), &["--quiet"]).status, 0);
    let of_this_trace = out.path().join("category_findings/norm_findings.md");
    assert!(of_this_trace.is_file());
    fs::write(&of_this_trace, "my notes").unwrap();
    let run = analyze("h200/mlp_fp32.json.gz", out.path(), &[]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert_eq!(fs::read_to_string(&of_this_trace).unwrap(), "my notes");
    let told = run.err.lines().find(|line| line.contains("not what an earlier run wrote")).unwrap_or_default();
    assert!(told.contains("norm_findings.md"), "{}", run.err);
}

#[test]
fn what_is_missing_is_said() {
    let run = jarvis(&["analyze"]);
    assert_eq!(run.status, 2, "{}", run.err);
    assert!(run.err.contains("TRACE is missing"), "{}", run.err);
    let out = tempfile::tempdir().unwrap();
    let run = analyze("handmade/rocm_like.json", out.path(), &["--platform", "MI300Y"]);
    assert_eq!(run.status, 2, "{}", run.err);
    assert!(run.err.contains("MI300X"), "{}", run.err);
    let (cpu, folder) = (fixture("handmade/cpu_only.json"), out.path().to_string_lossy().into_owned());
    // Nobody is sent for a platform that would not help.
    for platform in [&["--platform", "H200"][..], &[]] {
        let run = jarvis(&[&["analyze", cpu.to_str().unwrap(), "-o", &folder], platform].concat());
        assert_eq!(run.status, 3, "{}", run.err);
        assert!(run.err.contains("no GPU events") && run.err.contains("help:"), "{}", run.err);
        // What there is to tell is told.
        assert!(run.out.contains("host operations by their own time"), "{}", run.out);
    }
    assert_eq!(files(out.path()).len(), 0, "nothing is written without a result");
}

#[test]
fn odd_traces_are_analysed_as_far_as_they_go() {
    for trace in
        ["handmade/gpu_only.json", "handmade/truncated.json", "handmade/truncated.json.gz", "handmade/rocm_like.json"]
    {
        let out = tempfile::tempdir().unwrap();
        let run = analyze(trace, out.path(), &["--platform", "MI300X"]);
        assert_eq!(run.status, 0, "{trace}: {}", run.err);
        assert!(files(out.path()).contains_key("findings.json"), "{trace}");
    }
}

#[test]
fn the_trace_may_come_through_a_pipe() {
    let out = tempfile::tempdir().unwrap();
    let trace = fs::read(fixture("h200/mlp_fp32.json.gz")).unwrap();
    let folder = out.path().to_string_lossy().into_owned();
    let run = jarvis_fed(&["analyze", "-", "-o", &folder, "--quiet"], &trace);
    assert_eq!(run.status, 0, "{}", run.err);
}

//! `jarvis analyze --emit analysis-md`: further files if they are asked for, and nothing else changes.

use std::fs;

use crate::support::{files, fixture, jarvis};

/// What the option adds.
const ADDED: [&str; 4] = ["analysis.md", "perf_improvement.png", "perf_improvement_base64.txt", "priority_data.json"];

fn analyze(trace: &str, folder: &std::path::Path, more: &[&str]) {
    let trace = fixture(trace);
    let run = jarvis(&[&["analyze", trace.to_str().unwrap(), "-o", folder.to_str().unwrap(), "-q"], more].concat());
    assert_eq!((run.status, run.err.as_str()), (0, ""));
}

#[test]
fn the_option_adds_its_files_and_changes_no_other() {
    let out = tempfile::tempdir().unwrap();
    let [without, with, again] = ["without", "with", "again"].map(|name| out.path().join(name));
    analyze("h200/attn_unfused.json.gz", &without, &[]);
    for folder in [&with, &again] {
        analyze("h200/attn_unfused.json.gz", folder, &["--emit", "analysis-md"]);
        let run = jarvis(&["check", folder.to_str().unwrap()]);
        assert_eq!(run.status, 0, "{}", run.out);
    }
    let [without, mut with, mut again] = [without, with, again].map(|folder| files(&folder));
    for log in [&mut with, &mut again] {
        log.remove("run_log.json");
    }
    assert!(with == again, "two runs give the same bytes");
    for name in ADDED {
        assert!(with.remove(name).is_some_and(|bytes| bytes.len() > 100), "{name}");
        assert!(!without.contains_key(name), "{name}");
    }
    for (name, bytes) in without.iter().filter(|(name, _)| *name != "run_log.json") {
        assert!(with.get(name) == Some(bytes), "{name} is the same with and without");
    }
    assert_eq!(with.len() + 1, without.len());
}

#[test]
fn a_run_without_the_option_takes_the_files_away_again() {
    let out = tempfile::tempdir().unwrap();
    analyze("h200/tiny_bmm_window.json.gz", out.path(), &["--emit", "analysis-md", "--emit", "analysis-md"]);
    assert!(out.path().join("analysis.md").exists(), "it may be repeated");
    analyze("h200/tiny_bmm_window.json.gz", out.path(), &[]);
    assert!(ADDED.iter().all(|name| !out.path().join(name).exists()), "they would look like results of this run");
}

#[test]
fn a_folder_that_someone_has_changed_does_not_pass() {
    let out = tempfile::tempdir().unwrap();
    analyze("h200/attn_unfused.json.gz", out.path(), &["--emit", "analysis-md"]);
    let page = out.path().join("analysis.md");
    let whole = fs::read_to_string(&page).unwrap();
    fs::write(&page, whole.replacen("**Insight**", "**Outlook**", 1)).unwrap();
    let run = jarvis(&["check", out.path().to_str().unwrap()]);
    assert_eq!(run.status, 1);
    assert!(run.out.contains("FAIL W11 analysis.md"), "{}", run.out);
    fs::remove_file(out.path().join("perf_improvement.png")).unwrap();
    let run = jarvis(&["check", out.path().to_str().unwrap()]);
    assert!(run.out.contains("FAIL W8 perf_improvement.png"), "{}", run.out);
}

#[test]
fn what_can_not_be_is_told_before_anything_is_read() {
    let (trace, missing) = (fixture("h200/attn_fused.json.gz"), fixture("no_such_trace.json"));
    let (trace, missing) = (trace.to_str().unwrap(), missing.to_str().unwrap());
    let run = jarvis(&["analyze", missing, "--reference", trace, "--emit", "analysis-md"]);
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(run.err.contains("--emit tells of one trace alone") && run.err.contains("help: "), "{}", run.err);
    let run = jarvis(&["analyze", trace, "--emit", "analysis"]);
    assert_eq!(run.status, 2);
    assert!(run.err.contains("analysis-md"), "{}", run.err);
}

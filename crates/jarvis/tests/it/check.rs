//! `jarvis check`. What each check finds is tested in `jarvis-report`; here is what a user sees.

use std::fs;
use std::path::Path;

use crate::support::{fixture, jarvis};

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(path, text).expect("a folder to write to");
}

#[test]
fn a_folder_that_is_no_output_is_told_apart_from_a_bad_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let run = jarvis(&["check", path]);
    assert_eq!((run.status, run.out.as_str()), (3, ""));
    assert!(run.err.contains("no output of `jarvis analyze`") && run.err.contains("help: "), "{}", run.err);
    let run = jarvis(&["check", folder.path().join("missing").to_str().unwrap()]);
    assert_eq!(run.status, 3);
    let run = jarvis(&["check", fixture("h200/attn_fused.json.gz").to_str().unwrap()]);
    assert_eq!(run.status, 3, "{}", run.err);
}

#[test]
fn each_check_that_fails_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "findings.json", "{\"schema\": \"jarvis.findings/2\"}");
    write(folder.path(), "standalone_analysis_fair.md", "# T\nLow occupancy.\n");
    let path = folder.path().to_str().unwrap();
    let run = jarvis(&["check", path]);
    assert_eq!(run.status, 1);
    assert!(run.out.lines().all(|l| l.starts_with("FAIL ")), "{}", run.out);
    for line in [
        "FAIL W1 metadata: the folder is missing",
        "FAIL files category_manifest.json: missing",
        "FAIL schema findings.json: $: `trace` is missing",
        "FAIL W9 standalone_analysis_fair.md: no heading `Executive Summary`",
        "FAIL language standalone_analysis_fair.md:2: `occupancy`; say: Kernel running slower than expected",
    ] {
        assert!(run.out.lines().any(|l| l == line), "{line}\n{}", run.out);
    }
    assert!(run.err.contains("checks do not hold"), "{}", run.err);
    let json: serde_json::Value = serde_json::from_str(&jarvis(&["check", path, "--json"]).out).unwrap();
    assert_eq!((&json["schema"], &json["ok"]), (&"jarvis.check/1".into(), &false.into()));
    assert_eq!(json["failed"].as_u64().unwrap() as usize, run.out.lines().count());
    assert_eq!(json["problems"][0]["level"], "failed");
}

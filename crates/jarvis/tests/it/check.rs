//! `jarvis check`. What each check finds is tested in `jarvis-report`; here is what a user sees.

use std::fs;
use std::path::Path;

use crate::support::{files, fixture, jarvis};

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

/// What `jarvis check` says of a folder after a change.
fn told_after(folder: &Path, change: impl FnOnce()) -> (i32, String) {
    change();
    let run = jarvis(&["check", folder.to_str().unwrap()]);
    (run.status, run.out)
}

#[test]
fn every_file_of_a_run_that_is_gone_or_shorter_is_noticed() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/attn_unfused.json.gz"), out.path());
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", folder.to_str().unwrap(), "--quiet"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let (status, said) = told_after(folder, || {});
    assert_eq!(status, 0, "{said}");
    let written = files(folder);
    assert!(written.keys().any(|name| name.ends_with(".zip")), "{:?}", written.keys());
    for (name, bytes) in written.iter().filter(|(name, _)| *name != "run_log.json") {
        let path = folder.join(name);
        let (status, said) = told_after(folder, || fs::remove_file(&path).unwrap());
        assert!(status == 1 && said.contains(&format!(" {name}: ")), "{name} is gone: {said}");
        let (status, said) = told_after(folder, || fs::write(&path, "").unwrap());
        assert!(status == 1 && said.contains(&format!(" {name}: ")), "{name} is empty: {said}");
        // As long as before, and a bit of the last byte is another: in tables a digit or the end of a line.
        let mut other = bytes.clone();
        *other.last_mut().unwrap() ^= 1;
        let (status, said) = told_after(folder, || fs::write(&path, other).unwrap());
        assert!(
            status == 1 && said.contains(&format!("FAIL written {name}: not what the run wrote")),
            "{name}: {said}"
        );
        assert!(!name.ends_with(".zip") || said.contains("its SHA-256 differs"), "{name}: {said}");
        fs::write(&path, bytes).unwrap();
    }
    // A row of the largest table.
    let table = folder.join("perf_report_csvs/unified_perf_summary.csv");
    let text = fs::read_to_string(&table).unwrap();
    let without: String =
        text.split_inclusive('\n').enumerate().filter(|(at, _)| *at != 2).map(|(_, line)| line).collect();
    let (status, said) = told_after(folder, || fs::write(&table, without).unwrap());
    assert!(status == 1 && said.contains("FAIL written perf_report_csvs/unified_perf_summary.csv"), "{said}");
    fs::write(&table, text).unwrap();
    // Files of others are not asked for; what a killed run left is told.
    write(folder, "notes.txt", "mine");
    let (status, said) = told_after(folder, || write(folder, ".jarvis-1-2.tmp", "half"));
    assert!(status == 0 && said.starts_with("WARN leftover .jarvis-1-2.tmp: "), "{said}");
    let (status, said) = told_after(folder, || fs::remove_file(folder.join("run_log.json")).unwrap());
    assert!(status == 1 && said.starts_with("FAIL written run_log.json: missing"), "{said}");
}

#[test]
fn files_of_others_among_results_are_told_and_no_fault() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/mlp_fp32.json.gz"), out.path().to_str().unwrap());
    let mine = ["category_findings/mine.md", "replay_packages/evil.py", "perf_report_csvs/odd.csv"];
    for name in mine {
        fs::create_dir_all(out.path().join(name).parent().unwrap()).unwrap();
        write(out.path(), name, "# Low occupancy!\n");
    }
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", folder]);
    assert_eq!(run.status, 0, "{}", run.err);
    let told: Vec<&str> = run.err.lines().filter(|line| line.contains("that this run did not write")).collect();
    assert!(
        mine.iter().all(|name| told.iter().any(|line| line.ends_with(name.rsplit('/').next().unwrap()))),
        "{told:?}"
    );
    let (status, said) = told_after(out.path(), || {});
    let strangers = said.lines().filter(|line| line.starts_with("WARN stranger "));
    assert!(status == 0 && strangers.count() == mine.len(), "{said}");
    let log = out.path().join("run_log.json");
    let mut text: serde_json::Value = serde_json::from_slice(&fs::read(&log).unwrap()).unwrap();
    text["files"] = serde_json::json!([]);
    let (status, said) = told_after(out.path(), || fs::write(&log, text.to_string()).unwrap());
    assert!(status == 1 && said.contains("report.html is not listed") && !said.contains("language"), "{said}");
}

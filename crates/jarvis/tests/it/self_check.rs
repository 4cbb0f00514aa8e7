//! What is written passes the checks of `jarvis check`, whatever the trace.

use std::fs;

use crate::support::{fixture, jarvis};
use crate::traces::each;

#[test]
fn no_run_fails_a_check_of_its_own() {
    each(|ran| {
        assert!(ran.problems.is_empty(), "{}: {:#?}", ran.name, ran.problems);
    });
}

#[test]
fn the_log_tells_of_the_check_and_the_command_agrees() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/attn_unfused.json.gz"), out.path().to_str().unwrap());
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", folder, "--quiet"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let log: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(out.path().join("run_log.json")).unwrap()).unwrap();
    assert_eq!(log["self_check"], serde_json::json!([]));
    let stages: Vec<&str> = log["stages"].as_array().unwrap().iter().filter_map(|s| s["stage"].as_str()).collect();
    let preparing = ["read", "perf_report", "groundwork", "analysis", "replay_packages"];
    let telling = ["data", "reports", "page", "sheets", "self_check"];
    assert_eq!(stages, [preparing, telling].concat(), "each step rests on the ones before it");
    let run = jarvis(&["check", folder]);
    assert_eq!(run.status, 0, "{}", run.out);
    // A folder that someone has changed does not pass.
    let fair = out.path().join("standalone_analysis_fair.md");
    let text = fs::read_to_string(&fair).unwrap().replace("| Idle Time |", "| Idle |");
    fs::write(&fair, text).unwrap();
    let run = jarvis(&["check", folder]);
    assert_eq!(run.status, 1);
    assert!(run.out.contains("W10"), "{}", run.out);
}

#[test]
fn a_model_may_be_called_anything_that_can_be_seen() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (out.path().join("demo.json.gz"), out.path().join("out"));
    let [trace, folder] = [&trace, &folder].map(|path| path.to_str().unwrap());
    let run = jarvis(&["demo", "--save-trace", trace, "-o", folder, "--quiet"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    // The trace tells what the model is; the user may call it otherwise.
    for name in ["Foo", "it's \"my\" $(net)", "nan", "ü"] {
        let run = jarvis(&["analyze", trace, "-o", folder, "--quiet", "--model-name", name]);
        assert_eq!((run.status, run.err.as_str()), (0, ""), "{name}");
        let fair = fs::read_to_string(format!("{folder}/standalone_analysis_fair.md")).unwrap();
        assert!(!fair.contains("**Model**: Llama") && fair.contains(name), "{fair}");
        let run = jarvis(&["check", folder]);
        assert_eq!(run.status, 0, "{name}: {}", run.out);
    }
    for name in ["", "  "] {
        let run = jarvis(&["analyze", trace, "-o", folder, "--model-name", name]);
        assert_eq!((run.status, run.out.as_str()), (2, ""), "{}", run.err);
        assert!(run.err.contains("a name needs a letter or a digit"), "{}", run.err);
    }
}

#[test]
fn the_short_report_lists_as_many_operations_as_it_is_told_to() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/attn_unfused.json.gz"), out.path().join("out"));
    let limits = out.path().join("limits.json");
    fs::write(&limits, "{\"fair.top_ops_rows\": 2}").unwrap();
    let [trace, to, limits] = [&trace, &folder, &limits].map(|path| path.to_str().unwrap());
    let run = jarvis(&["analyze", trace, "-o", to, "--quiet", "--thresholds", limits]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let report = fs::read_to_string(folder.join("standalone_analysis_fair.md")).unwrap();
    let (_, table) = report.split_once("### Top Operations").unwrap();
    let rows = table.lines().take_while(|l| !l.starts_with("## ")).filter(|l| l.starts_with("| ")).count();
    assert_eq!(rows, 2 + 2, "a head, a rule and two operations");
    // A list of two is not called one of ten.
    fs::write(limits, "{\"top_ops.count\": 2}").unwrap();
    let run = jarvis(&["analyze", trace, "-o", to, "--quiet", "--thresholds", limits]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    for (name, says) in [("fair", "(not in the top 2)"), ("rough", "| In Top 2 |")] {
        let report = fs::read_to_string(folder.join(format!("standalone_analysis_{name}.md"))).unwrap();
        assert!(report.contains(says) && !report.to_lowercase().contains("top 10"), "{report}");
    }
}

#[test]
fn what_users_set_as_they_like_fails_no_check() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/attn_unfused.json.gz"), out.path().join("out"));
    let [trace, folder] = [&trace, &folder].map(|path| path.to_str().unwrap());
    let limits = |text: &str| ("limits.json", "--thresholds", text.to_owned());
    let category = |name: &str| ("ops.toml", "--extension", format!("[op.\"aten::bmm\"]\ncategory = \"{name}\"\n"));
    for (file, option, text) in [
        limits("{\"report.min_percent_of_compute\": 0}"),
        limits("{\"sync.ratio\": 0}"),
        limits("{\"fair.top_ops_rows\": 10}"),
        category("sdpa (fwd)"),
        category("überops"),
        category("CON"),
    ] {
        let file = out.path().join(file);
        fs::write(&file, &text).unwrap();
        let run = jarvis(&["analyze", trace, "-o", folder, "--quiet", option, file.to_str().unwrap()]);
        assert_eq!((run.status, run.err.as_str()), (0, ""), "{text}");
        let run = jarvis(&["check", folder]);
        assert_eq!(run.status, 0, "{text}: {}", run.out);
    }
    let run = jarvis(&["analyze", trace, "-o", folder, "--quiet", "--peak-hbm-tbs", "1e-6"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
}

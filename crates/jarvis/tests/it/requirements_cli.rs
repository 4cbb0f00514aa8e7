//! What `docs/requirements.md` says of the command line, shown by running it.

use std::fs;
use std::path::Path;

use jarvis_perf::platform::Platform;
use serde_json::Value;

use crate::support::{JARVIS, files, fixture, in_a_terminal, jarvis};

fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))).unwrap()
}

#[test]
fn the_platforms_have_the_numbers_of_the_sources() {
    let wanted = [
        ("MI300X", 5.3, 708.0, 192.0),
        ("MI325X", 6.0, 708.0, 256.0),
        ("MI355X", 6.5, 850.0, 288.0),
        ("MI400", 7.0, 1000.0, 320.0),
        ("H200", 4.8, 990.0, 141.0),
        ("H100", 3.35, 990.0, 80.0),
        ("A100", 2.0, 312.0, 80.0),
    ];
    for (name, tbs, tflops, gb) in wanted {
        let p = Platform::find(name).unwrap();
        let is = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(is(p.mem_bw_gbps.value / 1e3, tbs), "{name}");
        assert!(is(p.peak("matrix_bf16").unwrap().value, tflops), "{name}");
        assert!(is(p.memory_gb.unwrap().value, gb), "{name}");
    }
}

#[test]
fn peaks_given_by_hand_are_used() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/mlp_fp32.json.gz"), out.path().to_str().unwrap());
    let by_hand = ["--peak-hbm-tbs", "4.0", "--peak-maf-tflops", "900", "--memory-gb", "100"];
    let args = [&["analyze", trace.to_str().unwrap(), "-o", folder, "--quiet"][..], &by_hand].concat();
    let run = jarvis(&args);
    assert_eq!(run.status, 0, "{}", run.err);
    let manifest = json(&out.path().join("category_manifest.json"));
    assert_eq!(manifest["peaks"]["peak_hbm_bw_tbs"], 4.0);
    assert_eq!(manifest["peaks"]["peak_bf16_maf_tflops"], 900.0);
    assert_eq!(manifest["peaks"]["peak_source"]["matrix_bf16"], "flag");
    let fair = fs::read_to_string(out.path().join("standalone_analysis_fair.md")).unwrap();
    let hardware = &fair[fair.find("### Hardware Reference").unwrap()..];
    assert!(hardware.contains("- **Peak HBM BW:** 4 TB/s\n"), "{hardware}");
    assert!(hardware.contains("900 TFLOPS (BF16)") && hardware.contains("- **Memory:** 100 GB\n"), "{hardware}");
}

#[test]
fn results_go_to_analysis_output_beside_the_trace() {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("t.json.gz");
    fs::copy(fixture("h200/mlp_fp32.json.gz"), &trace).unwrap();
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "--quiet"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let found = files(&home.path().join("analysis_output"));
    assert!(found.contains_key("standalone_analysis_fair.md"), "{:?}", found.keys());
    // Plain JSON is read as well as gzipped.
    let plain = home.path().join("plain");
    let out = plain.to_str().unwrap();
    let run = jarvis(&[
        "analyze",
        fixture("handmade/rocm_like.json").to_str().unwrap(),
        "--platform",
        "mi300x",
        "-o",
        out,
        "-q",
    ]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(files(&plain).contains_key("category_manifest.json"));
}

#[test]
fn labels_reach_the_manifest_and_the_working_record() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/mlp_fp32.json.gz"), out.path().to_str().unwrap());
    let labels = ["--cluster-label", "tw008", "--container-label", "box_3", "--model-name", "My Net"];
    let args = [&["analyze", trace.to_str().unwrap(), "-o", folder, "--quiet"][..], &labels].concat();
    assert_eq!(jarvis(&args).status, 0);
    let manifest = json(&out.path().join("category_manifest.json"));
    assert_eq!((&manifest["run"]["cluster"], &manifest["run"]["container"]), (&"tw008".into(), &"box_3".into()));
    let rough = fs::read_to_string(out.path().join("standalone_analysis_rough.md")).unwrap();
    assert!(rough.starts_with("# My Net - H200 Standalone Analysis (Rough)\n"), "{}", &rough[..80]);
    assert!(rough.contains("tw008") && rough.contains("box_3"));
}

#[test]
fn in_a_terminal_the_five_questions_are_asked() {
    let home = tempfile::tempdir().unwrap();
    let trace = home.path().join("t.json");
    fs::copy(fixture("handmade/rocm_like.json"), &trace).unwrap();
    let asked = [
        "To run standalone analysis, the following information is needed:",
        "1. Trace file path: ",
        "no/such/file: no such file",
        "2. Platform (",
        "3. Cluster name",
        "4. Container name",
        "5. Output directory",
    ];
    // No such file first, then the trace by the first letter of its name, a platform by a part of its name, a cluster,
    // no container, the default folder.
    let answers = ["", "no/such/file\r", "", "mi300\r", "tw008\r", "\r", "\r"];
    let mut talk: Vec<(&str, &str)> = asked.into_iter().zip(answers).collect();
    talk.insert(3, ("1. Trace file path: ", "t.\t\r"));
    let command = format!("{JARVIS} analyze");
    let Some(run) = in_a_terminal(&command, home.path(), &talk) else { return };
    assert_eq!(run.status, 0, "{}", run.out);
    for name in ["MI300X", "MI325X", "MI355X", "MI400"] {
        assert!(run.out.contains(name), "{name} is no choice: {}", run.out);
    }
    assert!(run.out.contains("5.3 TB/s, 708 TFLOPS bf16, 192 GB"), "{}", run.out);
    let manifest = json(&home.path().join("analysis_output/category_manifest.json"));
    assert_eq!((&manifest["platform"], &manifest["run"]["cluster"]), (&"MI300X".into(), &"tw008".into()));
    assert!(manifest["run"]["container"].is_null());
}

#[test]
fn without_a_terminal_nothing_is_asked() {
    let run = jarvis(&["analyze"]);
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(run.err.contains("TRACE is missing") && !run.err.contains("Cluster"), "{}", run.err);
    let out = tempfile::tempdir().unwrap();
    let trace = fixture("handmade/gpu_only.json");
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", out.path().to_str().unwrap()]);
    assert_eq!(run.status, 2, "{}", run.err);
    assert!(run.err.contains("platform"), "{}", run.err);
}

#[test]
fn packages_of_named_operations_are_written() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/attn_unfused.json.gz"), out.path().to_str().unwrap());
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", folder, "-q", "--replay", "aten::mm,aten::bmm"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let zips: Vec<String> = files(out.path()).into_keys().filter(|n| n.ends_with(".zip")).collect();
    let wanted = ["aten_bmm_replay_package.zip", "aten_mm_replay_package.zip"];
    assert_eq!(zips, wanted.map(|n| format!("replay_packages/{n}")));
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", folder, "-q", "--replay", "none"]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(!files(out.path()).keys().any(|n| n.ends_with(".zip")), "those of the earlier run are gone");
}

#[test]
fn parts_of_names_are_compared_without_capitals() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/attn_unfused.json.gz"), out.path().to_str().unwrap());
    let trace = trace.to_str().unwrap();
    let analyze = |more: &[&str]| jarvis(&[&["analyze", trace, "-o", folder, "--replay", "SoftMax"], more].concat());
    let run = analyze(&["--replay-match", "contains"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let zips: Vec<String> = files(out.path()).into_keys().filter(|n| n.ends_with(".zip")).collect();
    assert_eq!(zips, ["replay_packages/aten__softmax_replay_package.zip"]);
    let run = analyze(&[]);
    assert!(run.err.contains("no operation is called SoftMax"), "whole names are compared exactly: {}", run.err);
    let run = jarvis(&["replay", trace, "-o", folder, "--op", "SoftMax", "--match", "contains"]);
    assert!(run.status == 0 && run.out.contains("aten__softmax_replay_package.zip"), "{}{}", run.out, run.err);
    let run = jarvis(&["replay", trace, "-o", folder, "--op", "SoftMax"]);
    assert!(run.status == 2 && run.err.contains("did you mean aten::_softmax?"), "{}", run.err);
    let run = jarvis(&["tree", trace, "--name", "SOFTMAX", "--limit", "1"]);
    assert!(run.out.contains("aten::softmax"), "{}", run.out);
}

#[test]
fn a_name_that_no_operation_has_is_told_as_such_and_kept() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/attn_unfused.json.gz"), out.path().to_str().unwrap());
    let args = ["analyze", trace.to_str().unwrap(), "-o", folder, "--replay", "aten::softmx"];
    let run = jarvis(&args);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.err.contains("no operation is called aten::softmx"), "{}", run.err);
    assert!(!run.err.contains("tells why") && !run.out.contains("softmx"), "it is told once: {}{}", run.out, run.err);
    let warnings = json(&out.path().join("findings.json"))["warnings"].to_string();
    assert!(warnings.contains("is called `aten::softmx`: no replay package was made of it."), "{warnings}");
}

#[test]
fn every_operation_of_a_finding_opens_in_the_tree() {
    let out = tempfile::tempdir().unwrap();
    let trace = fixture("h200/attn_unfused.json.gz");
    let (trace, folder) = (trace.to_str().unwrap(), out.path().to_str().unwrap());
    assert_eq!(jarvis(&["analyze", trace, "-o", folder, "-q"]).status, 0);
    let findings = json(&out.path().join("findings.json"));
    let operation = &findings["findings"][0]["operations"][0];
    let (uid, name) = (operation["uid"].to_string(), operation["name"].as_str().unwrap());
    let parents = jarvis(&["tree", trace, "--uid", &uid, "--parents", "--python"]);
    assert_eq!(parents.status, 0, "{}", parents.err);
    assert!(parents.out.contains(name) && parents.out.contains("nn.Module"), "{}", parents.out);
    let subtree = jarvis(&["tree", trace, "--uid", &uid, "--subtree", "--fields", "Input Dims,Input type"]);
    assert!(subtree.out.contains("Input Dims: [") && subtree.out.contains("Input type: ["), "{}", subtree.out);
    assert!(subtree.out.contains("Category: kernel"), "{}", subtree.out);
}

#[test]
fn an_extension_gives_an_operation_its_model() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("models.toml");
    let model = "[op.\"aten::_scaled_mm\"]\ncategory = \"GEMM\"\nflops = \"7\"\nbytes = \"1000000\"\n";
    fs::write(&file, model).unwrap();
    let (trace, folder) = (fixture("h200/fp8_gemms.json.gz"), out.path().join("out"));
    let args = ["analyze", trace.to_str().unwrap(), "-o", folder.to_str().unwrap(), "-q", "--extension"];
    let run = jarvis(&[&args[..], &[file.to_str().unwrap()]].concat());
    assert_eq!(run.status, 0, "{}", run.err);
    let metrics = json(&folder.join("category_data/gemm_metrics.json"));
    let scaled = metrics["operations"].as_array().unwrap().iter().find(|o| o["name"] == "aten::_scaled_mm").unwrap();
    assert_eq!(scaled["efficiency"]["bound_type"], "memory", "{scaled}");
    let rough = fs::read_to_string(folder.join("standalone_analysis_rough.md")).unwrap();
    assert!(rough.contains("--extension"), "the record says that models were added");
}

#[test]
fn a_run_takes_a_small_part_of_the_time_once_allowed() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/lm_compiled_train.json.gz"), out.path().to_str().unwrap());
    assert_eq!(jarvis(&["analyze", trace.to_str().unwrap(), "-o", folder, "-q"]).status, 0);
    let log = json(&out.path().join("run_log.json"));
    let ms: f64 = log["stages"].as_array().unwrap().iter().filter_map(|s| s["ms"].as_f64()).sum();
    // The sources allow 60 to 120 s for the report and 60 to 90 s for the preparation; this build is not optimized.
    assert!(ms < 30_000.0, "{log:#}");
}

#[test]
fn attention_is_costed_with_and_without_a_causal_mask() {
    let flops = |causal: &str| {
        let keys = ["B=2", "H_Q=16", "N_Q=2048", "d_h_qk=128", causal];
        let run = jarvis(&[&["model", "sdpa"][..], &keys, &["--json"]].concat());
        assert_eq!(run.status, 0, "{}", run.err);
        let answer: Value = serde_json::from_str(&run.out).unwrap();
        find(&answer, "flops").unwrap_or_else(|| panic!("{answer:#}"))
    };
    let full = 2.0 * 2.0 * 16.0 * 2048.0 * 2048.0 * (128.0 + 128.0);
    assert!((flops("causal=no") / full - 1.0).abs() < 1e-9);
    assert!((flops("causal=yes") / full - 0.5).abs() < 1e-3);
}

/// The first number under a key, however deep.
fn find(value: &Value, key: &str) -> Option<f64> {
    match value {
        Value::Object(map) => map.get(key).and_then(Value::as_f64).or_else(|| map.values().find_map(|v| find(v, key))),
        Value::Array(items) => items.iter().find_map(|v| find(v, key)),
        _ => None,
    }
}

//! What `jarvis analyze --reference` makes of differences that are not the hardware's.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::versus::{SQUARE, SQUARES, compare, findings, sketch, told};

const BF16: &str = "c10::BFloat16";
/// Both sides are recorded on the same GPU.
const SAME_GPU: [&str; 2] = ["--reference-platform", "H200"];

fn metrics(folder: &Path) -> Value {
    let bytes = fs::read(folder.join("out/category_data/comparison_metrics.json")).unwrap();
    serde_json::from_slice(&bytes).unwrap()
}

/// Writes one text for another in a trace.
fn rewrite(trace: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(trace).unwrap();
    assert!(text.contains(from), "{from}: {text}");
    fs::write(trace, text.replace(from, to)).unwrap();
}

fn key_findings(fair: &str) -> &str {
    let (_, key) = fair.split_once("### Key Findings").unwrap();
    key.split_once("---").unwrap().0
}

#[test]
fn kernels_that_lost_tf32_are_a_matter_of_precision() {
    let folder = tempfile::tempdir().unwrap();
    let (reference, target) = (folder.path().join("r.json"), folder.path().join("t.json"));
    sketch(&reference, &[("aten::mm", SQUARES, "float", 350)], 0);
    sketch(&target, &[("aten::mm", SQUARES, "float", 2600)], 0);
    rewrite(&reference, "k_aten::mm_float", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n");
    let fair = told(folder.path(), &SAME_GPU);
    for key in ["operations", "by_name", "categories"] {
        let one = &metrics(folder.path())[key][0];
        assert_eq!((&one["verdict"], &one["explanation_id"]), (&"precision".into(), &"other_types".into()), "{one:#}");
        // As much as in the mode of the reference, on the same GPU.
        assert!((2.24..=2.26).contains(&one["saved_ms"].as_f64().unwrap()), "{one:#}");
    }
    assert!(fair.contains("Target computes in `fp32`, reference in `tf32`"), "{fair}");
    assert!(fair.contains("`torch.set_float32_matmul_precision(\"high\")`"), "{fair}");
    assert!(key_findings(&fair).contains("for the types of each side"), "{fair}");
    assert!(!fair.contains("not a bug") && !fair.contains("higher peak compute"), "{fair}");
    // The other way round it is no virtue of the GPU either.
    fs::rename(&reference, folder.path().join("x.json")).unwrap();
    fs::rename(&target, &reference).unwrap();
    fs::rename(folder.path().join("x.json"), &target).unwrap();
    let fair = told(folder.path(), &SAME_GPU);
    assert!(fair.contains("Differences that the types of each side explain"), "{fair}");
    assert!(!fair.contains("higher peak compute") && !fair.contains("Hardware-explained"), "{fair}");
}

#[test]
fn slowdowns_by_precision_are_all_told_alike() {
    let folder = tempfile::tempdir().unwrap();
    let dims: Vec<String> = (1..=7).map(|i| format!("[[4096,{0}],[{0},4096]]", 1024 * i)).collect();
    let of =
        |kind, us: u32| dims.iter().zip(1..).map(|(d, i)| ("aten::mm", d.as_str(), kind, us * i)).collect::<Vec<_>>();
    sketch(&folder.path().join("r.json"), &of(BF16, 45), 0);
    sketch(&folder.path().join("t.json"), &of("float", 650), 0);
    let fair = told(folder.path(), &SAME_GPU);
    let key = key_findings(&fair);
    assert!(key.matches("for the types of each side").count() >= 5, "{key}");
    assert!(!key.contains("investigate"), "{key}");
}

#[test]
fn the_same_call_on_more_data_is_other_work() {
    let folder = tempfile::tempdir().unwrap();
    let index = "[[8192,1024],[]]";
    for (name, us, rows) in [("r.json", 10, 1024), ("t.json", 52, 16384)] {
        let path = folder.path().join(name);
        sketch(&path, &[("aten::index", index, BF16, us), ("aten::silu", SQUARE, BF16, 100)], 0);
        rewrite(&path, "[\"c10::BFloat16\",\"c10::BFloat16\"]", "[\"c10::BFloat16\",\"\"]");
        rewrite(&path, "k_aten::index_c10::BFloat16", "void at::native::vectorized_gather_kernel<16, long>(char*)");
        rewrite(&path, "\"stream\":7}", &format!("\"stream\":7,\"grid\":[{rows},1,1],\"block\":[128,1,1]}}"));
    }
    let fair = told(folder.path(), &SAME_GPU);
    let all = metrics(folder.path());
    let names: Vec<&str> = all["operations"].as_array().unwrap().iter().map(|o| o["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["aten::silu"], "{all:#}");
    assert_eq!(all["unmatched_target"][0]["name"], "aten::index");
    assert!(!fair.contains("% from hardware - investigate"), "{fair}");
}

/// Compares sketches that mark no steps, with limits.
fn gated(folder: &Path, reference: &[(&str, u32)], target: &[(&str, u32)], limits: &[&str]) -> (i32, String) {
    for (name, operations) in [("r.json", reference), ("t.json", target)] {
        let operations: Vec<_> = operations.iter().map(|(op, us)| (*op, SQUARES, BF16, *us)).collect();
        sketch(&folder.join(name), &operations, 0);
        rewrite(&folder.join(name), "\"cat\":\"user_annotation\",", "");
    }
    let mut more = vec!["--quiet"];
    for limit in limits {
        more.extend(["--fail-on", limit]);
    }
    let run = compare(&folder.join("t.json"), &folder.join("r.json"), &folder.join("out"), &more);
    (run.status, run.err)
}

#[test]
fn limits_hold_or_break_whatever_the_number_of_calls() {
    let folder = tempfile::tempdir().unwrap();
    let once = [("aten::mm", 200), ("aten::silu", 100)];
    let limits = ["slowdown=5%", "gemm=5%", "elementwise=5%"];
    assert_eq!(gated(folder.path(), &once, &once.repeat(3), &limits), (0, String::new()));
    let slow = [("aten::mm", 300), ("aten::silu", 101)];
    let (status, said) = gated(folder.path(), &once.repeat(3), &slow, &limits);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("gemm=5%: 0.20 -> 0.30 ms (+50.0%)"), "{said}");
    assert!(said.contains("slower than --fail-on allows: slowdown=5%, gemm=5%\n"), "{said}");
    let gates = &findings(&folder.path().join("out"))["comparison"]["gates"];
    let told: Vec<_> = gates.as_array().unwrap().iter().map(|g| g["status"].as_str().unwrap()).collect();
    assert_eq!(told, ["broken", "broken", "held"], "{gates:#}");
    assert_eq!((&gates[1]["name"], &gates[1]["limit_percent"]), (&"gemm".into(), &5.0.into()));
    assert!((gates[1]["measured_percent"].as_f64().unwrap() - 50.0).abs() < 0.01, "{gates:#}");
}

#[test]
fn a_limit_that_can_not_be_checked_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (reference, target) = ([("aten::mm", 100); 3], [("aten::mm", 100), ("aten::bmm", 900)]);
    let (status, said) = gated(folder.path(), &reference, &target, &["slowdown=5%"]);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("--fail-on can't be checked: slowdown=5%"), "{said}");
    let gates = &findings(&folder.path().join("out"))["comparison"]["gates"];
    assert_eq!(gates[0]["status"], "not_comparable", "{gates:#}");
}

#[test]
fn work_that_only_the_target_does_is_a_place_to_improve() {
    let folder = tempfile::tempdir().unwrap();
    let both = ("aten::mm", SQUARES, BF16, 200);
    sketch(&folder.path().join("r.json"), &[both], 0);
    sketch(&folder.path().join("t.json"), &[both, ("aten::gelu", SQUARE, BF16, 60)], 0);
    let fair = told(folder.path(), &SAME_GPU);
    assert!(fair.contains("Priority 1: Work without a counterpart"), "{fair}");
    assert!(fair.contains("the reference does without them"), "{fair}");
    let key = key_findings(&fair);
    assert!(key.contains("`aten::gelu` (1 kernel) in the target: 0.000 to 0.060 ms - investigate"), "{key}");
    // Each difference once.
    assert_eq!(key.matches("Work without a counterpart").count(), 1, "{key}");
}

#[test]
fn other_shapes_in_one_module_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for (name, dims, us) in
        [("r.json", "[[8192,1024],[1024,50304]]", 1000), ("t.json", "[[8192,1024],[1024,50257]]", 8000)]
    {
        let path = folder.path().join(name);
        sketch(&path, &[("aten::mm", dims, BF16, us)], 0);
        let module = r#"{"ph":"X","cat":"python_function","name":"nn.Module: Linear_0","pid":1,"tid":1,"ts":0,"dur":9,"args":{"Python id":1,"Python module id":0}}"#;
        rewrite(&path, "\"traceEvents\":[", &format!("\"traceEvents\":[{module},"));
    }
    let fair = told(folder.path(), &SAME_GPU);
    let (reference, target) = ("(8192,1024) bf16, (1024,50304) bf16", "(8192,1024) bf16, (1024,50257) bf16");
    assert!(fair.contains(&format!("`aten::mm` on `{target}` instead of `{reference}`")), "{fair}");
    assert!(!fair.contains("replaced by") && !fair.contains("use the same form"), "{fair}");
    // What is known of the shape itself comes first.
    assert!(fair.contains("Path A: Pad "), "{fair}");
    assert_eq!(key_findings(&fair).matches("`Linear`").count(), 1, "{fair}");
}

#[test]
fn a_gpu_that_is_not_known_is_told_with_its_side() {
    let folder = tempfile::tempdir().unwrap();
    let (known, unknown) = (folder.path().join("t.json"), folder.path().join("r.json"));
    for path in [&known, &unknown] {
        sketch(path, &[("aten::mm", SQUARES, BF16, 200)], 0);
    }
    rewrite(&unknown, "NVIDIA H200", "A GPU of tomorrow");
    let out = folder.path().join("out");
    let run = compare(&known, &unknown, &out, &[]);
    assert_eq!(run.status, 2, "{}", run.err);
    assert!(run.err.contains("`A GPU of tomorrow` of the reference"), "{}", run.err);
    assert!(run.err.contains("--reference-platform NAME") && !run.err.contains(" --platform"), "{}", run.err);
    // A trace without events is no question of platforms.
    fs::write(&unknown, r#"{"traceEvents":[]}"#).unwrap();
    for (target, reference) in [(&unknown, &known), (&known, &unknown)] {
        let run = compare(target, reference, &out, &[]);
        assert!(run.status == 3 && run.err.contains("has no events"), "{}", run.err);
    }
}

#[test]
fn rates_of_different_kinds_are_told() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["r.json", "t.json"] {
        sketch(&folder.path().join(name), &[("aten::mm", SQUARES, BF16, 200)], 0);
    }
    let caveat = "these are different scales";
    assert!(!told(folder.path(), &SAME_GPU).contains(caveat));
    let fair = told(folder.path(), &["--reference-platform", "MI300X"]);
    assert!(fair.contains("The matrix rate of MI300X is achievable, that of H200 theoretical"), "{fair}");
    let own = ["--reference-platform", "MI300X", "--reference-peak-maf-tflops", "900"];
    assert!(!told(folder.path(), &own).contains(caveat));
}

#[test]
fn a_list_without_entries_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["aten::silu", "aten::gelu"];
    let path = |name: &str| folder.path().join(name);
    let told = |target: [u32; 2]| {
        for (file, us) in [("r.json", [1000, 1000]), ("t.json", target)] {
            let operations: Vec<_> = names.iter().zip(us).map(|(name, us)| (*name, SQUARE, BF16, us)).collect();
            sketch(&path(file), &operations, 0);
        }
        compare(&path("t.json"), &path("r.json"), &path("out"), &[]).out
    };
    let little = told([1007, 1007]);
    assert!(little.contains("What differs\n  nothing by more than 1% of the reference's time"), "{little}");
    // One is slower, the other faster, and their sum is the same.
    let both = told([1300, 700]);
    assert!(both.contains("+0.30 ms  1.00 -> 1.30") && both.contains("-0.30 ms  1.00 -> 0.70"), "{both}");
}

//! What `jarvis analyze --reference` makes of recordings that miss a part, of time in which nothing computes, and of
//! recordings without steps.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::Run;
use crate::versus::{SQUARE, SQUARES, compare, findings, sketch, told};

const BF16: &str = "c10::BFloat16";
const NOWHERE: &str = "takes nowhere longer";

fn run(folder: &Path, more: &[&str]) -> Run {
    compare(&folder.join("t.json"), &folder.join("r.json"), &folder.join("out"), &[&["--quiet"], more].concat())
}

fn comparison(folder: &Path) -> Value {
    findings(&folder.join("out"))["comparison"].clone()
}

fn sources(folder: &Path) -> Vec<String> {
    let gaps = comparison(folder)["gaps"].as_array().unwrap().clone();
    gaps.iter().map(|gap| gap["source"].as_str().unwrap().to_owned()).collect()
}

fn fair(folder: &Path) -> String {
    fs::read_to_string(folder.join("out/comparative_analysis_fair.md")).unwrap()
}

/// Cuts a trace off before its last event, which is a kernel.
fn cut_off(trace: &Path) {
    let text = fs::read_to_string(trace).unwrap();
    let last = text.rfind("{\"ph\"").unwrap();
    fs::write(trace, &text[..last]).unwrap();
}

/// Rewrites the events of a trace, one a line.
fn by_line(trace: &Path, one: impl Fn(&str) -> String) {
    let text = fs::read_to_string(trace).unwrap();
    fs::write(trace, text.lines().map(one).collect::<Vec<_>>().join("\n")).unwrap();
}

fn without_steps(trace: &Path) {
    by_line(trace, |line| line.replace("\"cat\":\"user_annotation\",", ""));
}

#[test]
fn a_limit_on_a_recording_that_is_cut_off_can_not_be_checked() {
    let folder = tempfile::tempdir().unwrap();
    for (side, name) in [("target", "t.json"), ("reference", "r.json")] {
        for name in ["r.json", "t.json"] {
            sketch(&folder.path().join(name), &[("aten::mm", SQUARES, BF16, 200); 4], 0);
        }
        cut_off(&folder.path().join(name));
        let run = run(folder.path(), &["--fail-on", "slowdown=5%", "--fail-on", "gemm=5%"]);
        assert_eq!(run.status, 1, "{}", run.err);
        assert!(run.err.contains(&format!("a part of the recording of the {side} is lost")), "{}", run.err);
        for gate in comparison(folder.path())["gates"].as_array().unwrap() {
            assert_eq!(gate["status"], "not_comparable", "{gate:#}");
        }
    }
}

#[test]
fn what_a_reference_has_lost_is_no_fault_of_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let both = [("aten::mm", SQUARES, BF16, 2000), ("aten::gelu", SQUARE, BF16, 300)];
    for (name, idle) in [("r.json", 0), ("t.json", 400)] {
        sketch(&folder.path().join(name), &both, idle);
    }
    run(folder.path(), &[]);
    assert_eq!(sources(folder.path()), ["idle"], "of whole recordings");
    cut_off(&folder.path().join("r.json"));
    run(folder.path(), &[]);
    let fair = fair(folder.path());
    assert_eq!(sources(folder.path()), Vec::<String>::new(), "{fair}");
    assert!(!fair.contains("does without them") && !fair.contains(NOWHERE), "{fair}");
    assert!(fair.contains("A part of the recording of the reference is lost, so the rest is not judged."), "{fair}");
}

#[test]
fn a_call_that_has_lost_its_kernel_is_no_call() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["r.json", "t.json"] {
        let path = folder.path().join(name);
        sketch(&path, &[("aten::mm", SQUARES, BF16, 200); 2], 10);
        // Each product begins with a fill, which the cut leaves.
        by_line(&path, |line| {
            if !line.contains("\"cat\":\"kernel\"") {
                return line.to_owned();
            }
            let fill = line
                .trim_end_matches("]}")
                .trim_end_matches(',')
                .replace("\"cat\":\"kernel\"", "\"cat\":\"gpu_memset\"");
            let fill = fill.replace("k_aten::mm_c10::BFloat16", "Memset (Device)").replace("\"dur\":200", "\"dur\":1");
            format!("{fill},\n{}", line.replace("\"dur\":200", "\"dur\":198"))
        });
    }
    cut_off(&folder.path().join("r.json"));
    run(folder.path(), &[]);
    let metrics = fs::read(folder.path().join("out/category_data/comparison_metrics.json")).unwrap();
    let metrics: Value = serde_json::from_slice(&metrics).unwrap();
    let one = &metrics["operations"][0];
    assert_eq!((&one["reference_count"], &one["target_count"]), (&1.0.into(), &1.0.into()), "{one:#}");
    assert!((one["ratio"].as_f64().unwrap() - 1.0).abs() < 0.02, "{one:#}");
}

/// What becomes of the line of an event.
type Rewrite = fn(&str) -> String;

/// A product and something beside computation, of other length on each side.
fn beside(folder: &Path, us: [u32; 2], rewrite: Rewrite) -> String {
    for (name, us) in ["r.json", "t.json"].into_iter().zip(us) {
        let path = folder.join(name);
        sketch(&path, &[("aten::mm", SQUARES, BF16, 200), ("beside", "[[1000000]]", BF16, us)], 0);
        by_line(&path, rewrite);
    }
    told(folder, &["--reference-platform", "H200"])
}

fn copy(line: &str) -> String {
    let line = line.replace("\"name\":\"beside\"", "\"name\":\"aten::copy_\"");
    if !line.contains("k_beside") {
        return line;
    }
    line.replace("\"cat\":\"kernel\"", "\"cat\":\"gpu_memcpy\"")
        .replace("k_beside_c10::BFloat16", "Memcpy DtoH (Device -> Pageable)")
        .replace("\"stream\":7", "\"stream\":7,\"bytes\":2000000")
}

fn collective(line: &str) -> String {
    let line = line.replace("\"name\":\"beside\"", "\"name\":\"record_param_comms\"");
    if !line.contains("k_beside") {
        return line;
    }
    let message =
        r#""stream":20,"Collective name":"allreduce","Group size":8,"dtype":"BFloat16","In msg nelems":1000000"#;
    line.replace("k_beside_c10::BFloat16", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL").replace("\"stream\":7", message)
}

#[test]
fn time_in_which_only_copies_or_communication_go_on_is_a_place_to_improve() {
    let folder = tempfile::tempdir().unwrap();
    let kinds: [(&str, &str, Rewrite); 2] =
        [("copies", "Exposed memory copies", copy), ("communication", "Exposed communication", collective)];
    for (source, title, rewrite) in kinds {
        let fair = beside(folder.path(), [100, 2000], rewrite);
        assert_eq!(sources(folder.path()), [source], "{fair}");
        assert!(fair.contains(&format!("Priority 1: {title}")) && !fair.contains(NOWHERE), "{fair}");
        assert!(fair.contains(&format!("{title}: 0.10 to 2.00 ms - investigate.")), "{fair}");
        let gap = comparison(folder.path())["gaps"][0].clone();
        assert!((gap["saved_ms"].as_f64().unwrap() - 1.9).abs() < 1e-3, "{gap:#}");
        assert!(gap["saved_percent_of_compute"].is_null(), "no part of it: {gap:#}");
        let fair = beside(folder.path(), [2000, 100], rewrite);
        assert!(sources(folder.path()).is_empty() && fair.contains(NOWHERE), "{fair}");
    }
}

#[test]
fn recordings_of_different_length_wait_differently() {
    let folder = tempfile::tempdir().unwrap();
    for (name, calls) in [("r.json", 2), ("t.json", 6)] {
        let path = folder.path().join(name);
        sketch(&path, &vec![("aten::mm", SQUARES, BF16, 200); calls], 500);
        without_steps(&path);
    }
    let fair = told(folder.path(), &[]);
    assert_eq!(comparison(folder.path())["normalization"]["mode"], "per_call");
    assert_eq!(sources(folder.path()), Vec::<String>::new(), "{fair}");
    assert!(fair.contains("| Steps | - | - | - |") && !fair.contains(NOWHERE), "{fair}");
}

#[test]
fn layers_that_are_called_one_by_one_are_no_steps() {
    let folder = tempfile::tempdir().unwrap();
    let narrow = ("aten::mm", "[[4096,1024],[1024,1024]]", BF16, 40);
    let wide = ("aten::mm", "[[4096,1024],[1024,3072]]", BF16, 120);
    for (name, operations) in [("r.json", vec![narrow; 4]), ("t.json", vec![wide, narrow])] {
        let path = folder.path().join(name);
        sketch(&path, &operations, 0);
        without_steps(&path);
        let mut modules = String::new();
        for i in 0..operations.len() {
            let at = 10 * i;
            let _ = write!(
                modules,
                r#"{{"ph":"X","cat":"python_function","name":"nn.Module: Linear_{i}","pid":1,"tid":1,"ts":{at},"dur":9,"args":{{"Python id":{},"Python module id":{i}}}}},"#,
                i + 1
            );
        }
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("\"traceEvents\":[", &format!("\"traceEvents\":[{modules}"))).unwrap();
    }
    let fair = told(folder.path(), &[]);
    assert!(fair.contains("| Total GPU Time | 0.16 ms | 0.16 ms | 0.0% |"), "{fair}");
}

/// Steps of one product each that the host marks, with this much time between their kernels.
fn steps(path: &Path, count: usize, between_us: u32) {
    sketch(path, &vec![("aten::mm", SQUARES, BF16, 200); count], between_us);
    let text = fs::read_to_string(path).unwrap();
    let mark = |i: usize| {
        let (name, at) = (format!("ProfilerStep#{i}"), 10 * i);
        format!(r#"{{"ph":"X","cat":"user_annotation","name":"{name}","pid":1,"tid":1,"ts":{at},"dur":9}}"#)
    };
    let (first, rest) = text.split_once(",\n").unwrap();
    let begin = &first[..first.find("{\"ph\"").unwrap()];
    let marks: Vec<String> = (0..count).map(mark).collect();
    fs::write(path, format!("{begin}{},\n{rest}", marks.join(",\n"))).unwrap();
}

#[test]
fn what_a_limit_measures_is_what_the_report_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    // (steps and time between them, of the reference and of the target; what a step takes)
    for (reference, target, ms, sources_of) in [
        ((1, 0), (4, 1000), [0.2, 0.2], &[][..]),
        ((4, 1000), (1, 0), [0.2, 0.2], &[]),
        ((2, 1000), (4, 1000), [1.2, 1.2], &[]),
        ((2, 100), (4, 1000), [0.3, 1.2], &["idle"]),
    ] {
        steps(&path("r.json"), reference.0, reference.1);
        steps(&path("t.json"), target.0, target.1);
        run(folder.path(), &["--fail-on", "slowdown=5%"]);
        let all = comparison(folder.path());
        let (gate, total) = (&all["gates"][0], &all["total_ms"]);
        assert_eq!((&gate["reference_ms"], &gate["target_ms"]), (&total["reference"], &total["target"]), "{all:#}");
        assert_eq!(gate["measured_percent"], total["delta_percent"]);
        assert_eq!((&total["reference"], &total["target"]), (&ms[0].into(), &ms[1].into()), "{reference:?} {target:?}");
        assert_eq!(sources(folder.path()), sources_of, "{reference:?} {target:?}");
        let fair = fair(folder.path());
        assert!(fair.contains("The traces hold different numbers of steps"), "{fair}");
    }
}

#[test]
fn recordings_with_too_little_in_common_are_not_compared_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    // A captured graph is recorded without operations; one operation is called once however long the recording is.
    let common = ("aten::gelu", SQUARE, BF16, 2);
    for (reference, target, mode, status) in [
        (&[][..], 1, "total", "held"),
        (&[], 3, "per_call", "not_comparable"),
        (&[common], 3, "per_call", "not_comparable"),
    ] {
        for (name, times) in [("r.json", 1), ("t.json", target)] {
            let path = folder.path().join(name);
            let work = [("aten::mm", SQUARES, BF16, 200), ("aten::silu", SQUARE, BF16, 100)].repeat(times);
            sketch(&path, &[reference, &work].concat(), 10);
            without_steps(&path);
            if name == "t.json" {
                by_line(&path, |line| match line {
                    _ if line.contains("aten::gelu") || !line.contains("\"cpu_op\"") => {
                        line.replace("cudaLaunchKernel", "cudaGraphLaunch")
                    }
                    _ => line.replace("\"cat\":\"cpu_op\",", ""),
                });
            }
        }
        run(folder.path(), &["--fail-on", "slowdown=50%"]);
        let all = comparison(folder.path());
        assert_eq!(
            (&all["normalization"]["mode"], &all["gates"][0]["status"]),
            (&mode.into(), &status.into()),
            "{all:#}"
        );
        assert_eq!(sources(folder.path()), Vec::<String>::new(), "{all:#}");
        let is_known = mode == "total";
        assert_eq!(all["total_ms"]["delta_percent"].is_null(), !is_known);
        let fair = fair(folder.path());
        assert_eq!(fair.contains("too little runs on both sides to tell"), !is_known, "{fair}");
        assert!(!fair.contains("the calls are as many"), "{fair}");
    }
}

#[test]
fn waiting_that_faster_kernels_lay_bare_is_no_place_to_improve() {
    let folder = tempfile::tempdir().unwrap();
    for (name, us, idle) in [("r.json", 400, 100), ("t.json", 200, 300)] {
        sketch(&folder.path().join(name), &[("aten::mm", SQUARES, BF16, us); 4], idle);
    }
    let fair = told(folder.path(), &[]);
    assert_eq!(sources(folder.path()), Vec::<String>::new(), "{fair}");
    assert_eq!(fair.matches("in all the target takes no longer for it").count(), 2, "{fair}");
    // A rank that computes less waits longer for the others.
    for (name, us, waits) in [("r.json", 900, 200), ("t.json", 600, 500)] {
        let path = folder.path().join(name);
        sketch(&path, &[("aten::mm", SQUARES, BF16, us), ("beside", "[[1000000]]", BF16, waits)], 0);
        by_line(&path, collective);
    }
    let fair = told(folder.path(), &[]);
    assert_eq!(sources(folder.path()), Vec::<String>::new(), "{fair}");
    assert!(fair.contains("in all the target takes no longer for it"), "{fair}");
}

#[test]
fn work_of_steps_whose_marks_are_lost_is_no_work_that_the_reference_does_without() {
    let folder = tempfile::tempdir().unwrap();
    steps(&folder.path().join("r.json"), 3, 0);
    let target = folder.path().join("t.json");
    steps(&target, 3, 0);
    let is_lost = |line: &str| ["ProfilerStep#1", "ProfilerStep#2"].iter().any(|mark| line.contains(mark));
    by_line(&target, |line| if is_lost(line) { String::new() } else { line.to_owned() });
    cut_off(&target);
    run(folder.path(), &[]);
    let fair = fair(folder.path());
    assert_eq!(sources(folder.path()), Vec::<String>::new(), "{fair}");
    assert!(!fair.contains("does without them"), "{fair}");
}

#[test]
fn the_side_that_is_hardly_matched_is_the_one_that_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let both = ("aten::mm", SQUARES, BF16, 200);
    sketch(&folder.path().join("r.json"), &[both, ("aten::gelu", SQUARE, BF16, 100)], 0);
    sketch(&folder.path().join("t.json"), &[both], 0);
    let fair = told(folder.path(), &[]);
    assert!(fair.contains("Only 66.7% of the reference's kernel time could be compared by operation"), "{fair}");
}

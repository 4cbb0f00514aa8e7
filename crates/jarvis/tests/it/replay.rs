//! `jarvis replay`: what packages hold, and that they run with a real PyTorch.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use jarvis_trace::TraceBuilder;
use serde_json::Value as Json;

use crate::support::{Run, fixture, jarvis};
use crate::versus::{SQUARES, sketch};

/// Members of a package, in their order.
const MEMBERS: [&str; 7] =
    ["replay_ir.json", "batched_replay.py", "utils.py", "README.md", "replay.py", "timing.py", "verify.py"];

/// Names that a model's trace is full of and that no package may hold.
const SECRETS: [&str; 6] =
    ["SecretNet", "secret_file", "/home/secretuser", "secrethost", "secret_layer", "secret_step"];

fn replay(source: &Path, out: &Path, more: &[&str]) -> Run {
    let mut args = vec!["replay", source.to_str().expect("UTF-8"), "-o", out.to_str().expect("UTF-8")];
    args.extend(more);
    jarvis(&args)
}

/// Members of a zip by name, in their order.
fn members(path: &Path) -> Vec<(String, String)> {
    let mut archive = zip::ZipArchive::new(fs::File::open(path).expect("a package")).expect("a zip");
    (0..archive.len())
        .map(|at| {
            let mut file = archive.by_index(at).expect("a member");
            let mut text = String::new();
            file.read_to_string(&mut text).expect("UTF-8");
            (file.name().expect("a name").into_owned(), text)
        })
        .collect()
}

fn entries(path: &Path) -> Vec<Json> {
    let ir = members(path).remove(0).1;
    serde_json::from_str::<Json>(&ir).expect("JSON").as_array().expect("an array").clone()
}

/// All packages of a folder.
fn packages(out: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(out.join("replay_packages"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "zip"))
        .collect();
    found.sort();
    found
}

fn index(out: &Path) -> Json {
    serde_json::from_slice(&fs::read(out.join("replay_packages/index.json")).expect("an index")).expect("JSON")
}

#[test]
fn a_package_has_its_members_and_the_same_bytes_every_time() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let trace = fixture("h200/attn_unfused.json.gz");
    for out in [&one, &two] {
        let run = replay(&trace, out.path(), &["--op", "aten::bmm,aten::_soft*", "--threads", "2"]);
        assert_eq!((run.status, run.err.as_str()), (0, ""));
    }
    let names: Vec<String> =
        packages(one.path()).iter().map(|p| p.file_name().unwrap().to_string_lossy().into()).collect();
    assert_eq!(names, ["aten__softmax_replay_package.zip", "aten_bmm_replay_package.zip"]);
    for (a, b) in packages(one.path()).iter().zip(packages(two.path())) {
        assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap());
        let members = members(a);
        assert_eq!(members.iter().map(|m| m.0.as_str()).collect::<Vec<_>>(), MEMBERS);
        assert!(members[3].1.contains("time to beat") && members[3].1.contains("python3 replay.py"));
        let causes = "To find the cause of a slow kernel, run a tool that\nreads hardware counters on this script.";
        assert!(members[3].1.contains(causes), "{}", members[3].1);
    }
    let index = index(one.path());
    assert_eq!(index["packages"][0]["op_name"], "aten::_softmax");
    assert_eq!(index["packages"][0]["tier"], "requested");
    assert_eq!(index["packages"][0]["sha256"].as_str().map(str::len), Some(64));
}

#[test]
fn a_finished_analysis_keeps_its_packages_and_stays_whole() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let out = folder.path().to_str().unwrap();
    let trace = fixture("h200/attn_unfused.json.gz");
    let analysed = jarvis(&["analyze", trace.to_str().unwrap(), "--replay", "aten::_softmax", "-o", out]);
    assert_eq!((analysed.status, analysed.err.as_str()), (0, ""));
    // From the tables of the analysis, and from its trace.
    for (source, op) in [(folder.path(), "aten::bmm"), (trace.as_path(), "aten::mm")] {
        assert_eq!(replay(source, folder.path(), &["--op", op]).status, 0);
    }
    let index = index(folder.path());
    let mut names: Vec<&str> =
        index["packages"].as_array().unwrap().iter().filter_map(|p| p["op_name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["aten::_softmax", "aten::bmm", "aten::mm"]);
    let checked = jarvis(&["check", out]);
    assert_eq!(checked.status, 0, "{}{}", checked.out, checked.err);
    // Another trace may have the same operations, but not their times.
    let before = fs::read(folder.path().join("replay_packages/index.json")).unwrap();
    let mixed = replay(&fixture("h200/attn_fused.json.gz"), folder.path(), &["--op", "aten::mm"]);
    assert_eq!(mixed.status, 2, "{}", mixed.err);
    assert!(mixed.err.contains("an analysis of another trace") && mixed.err.contains("-o DIR"), "{}", mixed.err);
    assert_eq!(fs::read(folder.path().join("replay_packages/index.json")).unwrap(), before);
    assert_eq!(replay(&fixture("h200/attn_fused.json.gz"), other.path(), &["--op", "aten::mm"]).status, 0);
    let mixed = replay(&trace, other.path(), &["--op", "aten::mm"]);
    assert!(mixed.status == 2 && mixed.err.contains("a package of another trace"), "{}", mixed.err);
    // What is gone is no longer listed.
    fs::remove_file(folder.path().join("replay_packages/aten_bmm_replay_package.zip")).unwrap();
    assert_eq!(replay(&trace, folder.path(), &["--op", "aten::mm"]).status, 0);
    assert!(!fs::read_to_string(folder.path().join("replay_packages/index.json")).unwrap().contains("aten::bmm"));
}

#[test]
fn an_entry_holds_what_the_format_says() {
    let out = tempfile::tempdir().unwrap();
    replay(&fixture("h200/attn_unfused.json.gz"), out.path(), &["--op", "aten::bmm"]);
    let entry = &entries(&packages(out.path())[0])[0];
    assert_eq!(entry["ir_version"], 1);
    assert_eq!(entry["id"], "aten::bmm#0");
    assert_eq!(entry["overload"], "");
    assert_eq!(entry["schema"], "aten::bmm(Tensor self, Tensor mat2) -> Tensor");
    let args = entry["replay_ir"]["list_pos_args"].as_array().unwrap();
    assert_eq!((&args[1]["arg_name"], &args[1]["kind"]), (&"mat2".into(), &"tensor".into()));
    assert_eq!(args[1]["value"]["init"], "normal");
    assert_eq!(entry["inputs"][0]["type"], "c10::BFloat16");
    assert_eq!(entry["replayable"], "yes");
    let trace = &entry["trace"];
    assert_eq!((&trace["platform"], &trace["device_name"]), (&"H200".into(), &"NVIDIA H200".into()));
    assert!(trace["kernel_time_us"]["mean"].as_f64().unwrap() > 100.0);
    assert!(trace["flops"].as_u64().unwrap() > 1_000_000_000);
    assert!(!trace["kernels"].as_array().unwrap().is_empty());
}

/// A trace of a model with telling names, from modules and files to hosts and text arguments.
fn secret_trace() -> String {
    let mut b = TraceBuilder::new();
    b.fact("host_name", "\"secrethost\"");
    b.fact("trace_name", "\"/home/secretuser/secret_file.json\"");
    b.annotation("secret_step", 0.0, 500.0);
    b.python("nn.Module: SecretNet_0", 0.0, 400.0);
    b.python("/home/secretuser/secret_file.py(12): forward", 1.0, 300.0);
    b.cpu_op("aten::mm", 10.0, 50.0)
        .arg("Input Dims", "[[64, 32], [32, 16]]")
        .arg("Input type", "[\"float\", \"float\"]")
        .arg("Input Strides", "[[32, 1], [16, 1]]")
        .arg("Concrete Inputs", "[\"\", \"\"]");
    b.launch("cudaLaunchKernel", 20.0, 5.0, 1);
    b.kernel("gemm_kernel", 30.0, 20.0, 1);
    b.cpu_op("vllm::unified_attention", 100.0, 50.0)
        .arg("Input Dims", "[[64, 32], []]")
        .arg("Input type", "[\"float\", \"\"]")
        .arg("Input Strides", "[[32, 1], []]")
        .arg("Concrete Inputs", "[\"\", \"secret_layer.3.attn\"]");
    b.launch("cudaLaunchKernel", 110.0, 5.0, 2);
    b.kernel("attention_kernel", 120.0, 20.0, 2);
    b.to_json()
}

#[test]
fn packages_hold_no_names_of_the_model() {
    let out = tempfile::tempdir().unwrap();
    let trace = out.path().join("secret_file.json");
    let text = secret_trace();
    assert!(SECRETS.iter().all(|secret| text.contains(secret)), "the trace is a real test");
    fs::write(&trace, text).unwrap();
    let run = replay(&trace, out.path(), &["--op", "*", "--platform", "H200"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let zips = packages(out.path());
    assert_eq!(zips.len(), 2, "{}", run.out);
    for path in &zips {
        let text: String = members(path).into_iter().map(|(name, text)| name + &text).collect();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{} holds {secret}", path.display());
        }
    }
    assert!(zips.iter().any(|path| entries(path)[0]["imports"][0] == "vllm"));
}

#[test]
fn anonymous_packages_also_lack_kernels_device_and_counts() {
    let out = tempfile::tempdir().unwrap();
    replay(&fixture("h200/mlp_fp32.json.gz"), out.path(), &["--op", "aten::mm,aten::addmm", "--anonymous"]);
    for path in packages(out.path()) {
        for entry in entries(&path) {
            assert_eq!(entry["count"], Json::Null);
            assert_eq!(entry["trace"]["device_name"], Json::Null);
            assert_eq!((&entry["trace"]["platform"], &entry["trace"]["peak_hbm_tbs"]), (&Json::Null, &Json::Null));
            assert_eq!(entry["trace"]["kernels"].as_array().map(Vec::len), Some(0));
            assert_eq!(entry["trace"]["kernel_time_us"]["sum"], Json::Null);
        }
    }
}

#[test]
fn the_list_puts_the_largest_loss_first_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json.gz");
    fs::copy(fixture("h200/attn_unfused.json.gz"), &trace).unwrap();
    let run = jarvis(&["replay", trace.to_str().unwrap(), "--list", "--json"]);
    assert_eq!(run.status, 0);
    let list: Vec<Json> = serde_json::from_str(&run.out).unwrap();
    let lost: Vec<f64> = list.iter().filter_map(|row| row["lost_ms"].as_f64()).collect();
    assert!(lost.len() > 10 && lost.is_sorted_by(|a, b| a >= b), "{lost:?}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let text = jarvis(&["replay", trace.to_str().unwrap(), "--list"]).out;
    assert!(text.starts_with("  lost ms   time ms"), "{text}");
}

#[test]
fn what_cannot_be_packaged_says_why() {
    let run = jarvis(&["replay", fixture("h200/lm_compiled_train.json.gz").to_str().unwrap(), "--list", "--json"]);
    let list: Vec<Json> = serde_json::from_str(&run.out).unwrap();
    let reasons: BTreeMap<&str, &str> =
        list.iter().filter_map(|row| Some((row["op_name"].as_str()?, row["reason"].as_str()?))).collect();
    assert_eq!(reasons["aten::_fused_adamw_"], "Tensor list without recorded shapes.");
    let generated = reasons.iter().filter(|(op, _)| op.starts_with("triton_"));
    assert!(generated.clone().count() > 5 && generated.clone().all(|(_, why)| why.starts_with("Generated kernel")));
    let run = jarvis(&["replay", fixture("h200/decode_graphed.json.gz").to_str().unwrap(), "--list", "--json"]);
    let list: Vec<Json> = serde_json::from_str(&run.out).unwrap();
    assert!(list.iter().any(|row| row["reason"] == "Kernels ran from a GPU graph; no operation was recorded."));
    let usage = jarvis(&["replay", fixture("h200/mlp_fp32.json.gz").to_str().unwrap(), "--op", "aten::nothing"]);
    assert_eq!(usage.status, 2);
    assert!(usage.err.contains("no operation is called aten::nothing"), "{}", usage.err);
    assert_eq!(jarvis(&["replay", fixture("h200/mlp_fp32.json.gz").to_str().unwrap()]).status, 2);
}

#[test]
fn a_finished_report_gives_the_same_calls_as_its_trace() {
    let out = tempfile::tempdir().unwrap();
    let trace = fixture("h200/elementwise_eager.json.gz");
    let (report, from_trace) = (out.path().join("report"), out.path().join("trace"));
    assert_eq!(jarvis(&["report", trace.to_str().unwrap(), "-o", report.to_str().unwrap()]).status, 0);
    assert_eq!(replay(&trace, &from_trace, &["--op", "aten::*"]).status, 0);
    let run = jarvis(&["replay", report.to_str().unwrap(), "--op", "aten::*", "--platform", "H200"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let (a, b) = (packages(&from_trace), packages(&report));
    assert_eq!(a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        let (mut a, mut b) = (entries(a), entries(b));
        for entry in a.iter_mut().chain(&mut b) {
            entry["trace"]["device_name"] = Json::Null;
        }
        assert_eq!(a, b);
    }
    // The folder of a comparison has the calls of its target.
    let both = out.path().join("both");
    let (trace, both) = (trace.to_str().unwrap(), both.to_str().unwrap());
    assert_eq!(jarvis(&["analyze", trace, "--reference", trace, "-o", both, "--quiet"]).status, 0);
    let run = jarvis(&["replay", both, "--list"]);
    assert!(run.status == 0 && run.out.contains("aten::mul"), "{}{}", run.out, run.err);
    for none in ["--max-packages", "--max-entries"] {
        let run = jarvis(&["replay", trace, "--op", "aten::*", none, "0"]);
        assert!(run.status == 2 && run.err.contains("from 1"), "{}", run.err);
    }
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(jarvis(&["replay", empty.path().to_str().unwrap(), "--op", "x"]).status, 3);
}

/// A Python that has PyTorch. `cargo xtask test` installs one; without any these tests say so and do nothing.
#[expect(clippy::print_stderr, reason = "a test that does nothing must say so")]
fn python() -> Option<&'static str> {
    let has_torch = |name: &&str| {
        Command::new(name).args(["-c", "import torch"]).output().is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_torch);
    if found.is_none() {
        eprintln!("skipped: there is no python3 with torch");
    }
    found
}

/// Operations of the fixtures that PyTorch 1.13 has no CPU kernel for, or does not know at all.
const NOT_ON_CPU: &[&str] = &[
    "aten::_cudnn_attention_backward",
    "aten::_fused_rms_norm",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_cudnn_attention_backward",
    "aten::_scaled_mm",
];

#[test]
fn without_pytorch_a_package_says_so_and_tells_what_it_can() {
    let out = tempfile::tempdir().unwrap();
    let run = replay(&fixture("h200/elementwise_eager.json.gz"), out.path(), &["--op", "*", "--max-packages", "1"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let package = packages(out.path()).remove(0);
    for (name, text) in members(&package) {
        fs::write(out.path().join(name), text).unwrap();
    }
    // As if it were not there, even where it is.
    let absent = "raise ModuleNotFoundError(\"No module named 'torch'\", name=\"torch\")\n";
    fs::write(out.path().join("torch.py"), absent).unwrap();
    let python = |args: &[&str]| {
        let mut command = Command::new("python3");
        command.arg("replay.py").args(args).current_dir(out.path()).output().ok().map(Run::from)
    };
    let Some(help) = python(&["--help"]) else {
        println!("skipped: there is no python3");
        return;
    };
    assert!(help.status == 0 && help.out.contains("--warmup"), "{}", help.err);
    let list = python(&["--list"]).unwrap();
    assert!(list.status == 0 && list.out.contains(" us "), "{}", list.err);
    let run = python(&[]).unwrap();
    assert_eq!((run.status, run.out.as_str()), (2, ""));
    assert!(run.err.starts_with("error: PyTorch is missing") && !run.err.contains("Traceback"), "{}", run.err);
}

#[test]
fn packages_of_the_fixtures_run_on_a_cpu() {
    let Some(python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in ["attn_unfused", "elementwise_eager", "fp8_gemms", "lm_compiled_train", "mlp_fp32", "tiny_bmm_window"] {
        let (trace, out) = (fixture(&format!("h200/{name}.json.gz")), folder.path().join("packages").join(name));
        let run = replay(&trace, &out, &["--op", "*", "--max-packages", "1000", "--max-entries", "1000"]);
        assert_eq!(run.status, 0, "{}", run.err);
    }
    // Every call is resolved and its tensors are made; calls that a CPU would take long for are not made.
    let output = Command::new(python)
        .arg(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/replay_device.py"))
        .args(["packages", "--json", "out.json", "--"])
        .args(["--device", "cpu", "--max-gflop", "1", "--warmup", "1", "--repeat", "1"])
        .current_dir(folder.path())
        .output()
        .expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Json = serde_json::from_slice(&fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    let traces = results["traces"].as_object().unwrap();
    assert_eq!(traces.len(), 6);
    let (mut called, mut built) = (0, 0);
    for (trace, entry) in
        traces.iter().flat_map(|(trace, list)| list.as_array().unwrap().iter().map(move |e| (trace, e)))
    {
        let (op, reason) = (entry["op_name"].as_str().unwrap(), entry["reason"].as_str().unwrap_or(""));
        let is_resolved = !entry["overload"].is_null();
        called += i32::from(entry["status"] == "ok");
        built += i32::from(is_resolved);
        let too_much = is_resolved && reason == "More than 1 GFLOP.";
        let missing = NOT_ON_CPU.contains(&op) && entry["status"] == "skipped";
        assert!(entry["status"] == "ok" || too_much || missing, "{trace} {op}: {reason}");
    }
    assert!(called >= 20 && built >= 60, "{called} called, {built} built");
}

#[test]
fn the_replayer_passes_its_own_tests() {
    let Some(python) = python() else { return };
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../report");
    let output = Command::new(python)
        .args(["-m", "unittest", "-v", "test_replayer"])
        .env("PYTHONPATH", root.join("assets/replay"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(root.join("tests/python"))
        .output()
        .expect("python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_name_that_no_operation_has_is_told_beside_those_that_are_there() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (fixture("h200/attn_unfused.json.gz"), out.path().to_str().unwrap());
    let trace = trace.to_str().unwrap();
    let skipped = || {
        let index = fs::read(out.path().join("replay_packages/index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_slice(&index).unwrap();
        assert_eq!(index["packages"][0]["op_name"], "aten::mm", "{index:#}");
        let all = index["skipped"].as_array().unwrap().clone();
        all.into_iter().filter(|entry| entry["op_name"] == "aten::nope").count()
    };
    let run = jarvis(&["replay", trace, "--op", "aten::mm,aten::nope", "-o", folder]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.err.contains("warning: no operation is called aten::nope"), "{}", run.err);
    assert_eq!(skipped(), 1);
    let run = jarvis(&["analyze", trace, "--replay", "aten::mm,aten::nope", "-o", folder]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.err.contains("warning: no operation is called aten::nope"), "{}", run.err);
    assert_eq!(skipped(), 1);
    let run = jarvis(&["analyze", trace, "--reference", trace, "--replay", "aten::mm,aten::nope", "-o", folder]);
    assert!(run.err.contains("warning: no operation is called aten::nope"), "{}", run.err);
    let run = jarvis(&["replay", trace, "--op", "aten::nope", "-o", folder]);
    assert_eq!(run.status, 2, "{}", run.err);
    let run = jarvis(&["replay", trace, "--op", "aten::mm", "-o", folder]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
}

#[test]
fn shares_of_packages_are_of_the_compute_time() {
    let out = tempfile::tempdir().unwrap();
    let trace = fixture("h200/attn_unfused.json.gz");
    let (trace, folder) = (trace.to_str().unwrap(), out.path().to_str().unwrap());
    let json = |path: &str| -> serde_json::Value {
        serde_json::from_slice(&fs::read(out.path().join(path)).unwrap()).unwrap()
    };
    let shares = || {
        let index = json("replay_packages/index.json");
        let of = |p: &serde_json::Value| (p["time_ms"].as_f64().unwrap(), p["percent_of_compute"].as_f64().unwrap());
        index["packages"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let hold = |shares: &[(f64, f64)]| {
        let compute = json("findings.json")["gpu_timeline"]["computation_time_ms"].as_f64().unwrap();
        assert!(!shares.is_empty());
        for (ms, percent) in shares {
            assert!((percent - 100.0 * ms / compute).abs() < 0.01, "{ms} of {compute} ms are not {percent} %");
        }
    };
    let run = jarvis(&["analyze", trace, "-o", folder, "--replay", "aten::mm,aten::copy_"]);
    assert_eq!(run.status, 0, "{}", run.err);
    hold(&shares());
    // The same from a trace alone, and from the tables of a report.
    for source in [trace, folder] {
        let run = jarvis(&["replay", source, "--op", "aten::mm", "-o", folder, "--platform", "H200"]);
        assert_eq!(run.status, 0, "{}", run.err);
        hold(&shares());
    }
}

#[test]
fn efficiencies_are_those_of_all_calls_as_in_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, out) = (folder.path().join("t.json"), folder.path().join("out"));
    // Of the second call only a short kernel is recorded: alone it would be at a hundred times the roof.
    let call = |us: u32| ("aten::mm", SQUARES, "c10::BFloat16", us);
    sketch(&trace, &[call(278), call(1)], 0);
    let run = jarvis(&["report", trace.to_str().unwrap(), "-o", out.to_str().unwrap(), "--platform", "H200"]);
    assert_eq!(run.status, 0, "{}", run.err);
    for source in [&trace, &out] {
        let more = ["--list", "--json", "--platform", "H200"];
        let run = jarvis(&[&["replay", source.to_str().unwrap()], &more[..]].concat());
        let list: Json = serde_json::from_str(&run.out).unwrap();
        let percent = list[0]["efficiency_percent"].as_f64().unwrap();
        assert!((99.0..100.0).contains(&percent), "{}: {percent}", source.display());
    }
}

#[test]
fn packages_and_analyses_of_different_traces_are_kept_apart() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let trace = fixture("h200/mlp_fp32.json.gz");
    let analyze = || jarvis(&["analyze", trace.to_str().unwrap(), "--replay", "none", "--quiet", "-o", out]);
    assert_eq!(analyze().status, 0);
    // There is no package yet that would tell whose folder it is.
    let log = fs::read(folder.path().join("run_log.json")).unwrap();
    let mixed = replay(&fixture("h200/attn_fused.json.gz"), folder.path(), &["--op", "aten::mm"]);
    assert_eq!(mixed.status, 2, "{}", mixed.err);
    assert!(mixed.err.contains("an analysis of another trace") && mixed.err.contains("-o DIR"), "{}", mixed.err);
    assert_eq!(fs::read(folder.path().join("run_log.json")).unwrap(), log);
    assert_eq!(replay(&trace, folder.path(), &["--op", "aten::relu"]).status, 0);
    let again = jarvis(&["analyze", trace.to_str().unwrap(), "--replay", "none", "-o", out]);
    assert_eq!(again.status, 0);
    assert!(again.err.contains("asked for earlier are gone: aten_relu_replay_package.zip"), "{}", again.err);
}

//! Edge cases of traces as a user of the command line meets them; those of reading alone are in the trace crate.

use std::fs;
use std::path::PathBuf;

use crate::support::{files, fixture, jarvis};

/// A file with these events, in a folder that lasts as long as it is held.
fn trace(events: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    fs::write(&path, format!("{{\"traceEvents\": [{events}]}}")).unwrap();
    (folder, path)
}

#[test]
fn a_trace_without_events_answers_questions_and_gives_no_report() {
    let (folder, path) = trace("");
    let path = path.to_str().unwrap();
    let info = jarvis(&["info", path]);
    assert_eq!(info.status, 0, "{}", info.err);
    let roots = jarvis(&["tree", path]);
    assert_eq!(roots.status, 0, "{}", roots.err);
    let out = folder.path().join("out");
    for command in ["report", "analyze"] {
        let args = [command, path, "-o", out.to_str().unwrap(), "--platform", "H200"];
        let run = jarvis(&args);
        assert_eq!(run.status, 3, "{command}: {}", run.err);
        assert!(run.err.contains("the trace has no events") && run.err.contains("help:"), "{command}: {}", run.err);
    }
    assert!(!out.exists() || files(&out).is_empty(), "nothing is written");
}

#[test]
fn a_timeline_of_no_length_has_no_percentages() {
    let kernel = r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": 0, "args": {"stream": 7, "correlation": 7}}"#;
    let (folder, path) = trace(kernel);
    let out = folder.path().join("out");
    let args = [
        "report",
        path.to_str().unwrap(),
        "-o",
        out.to_str().unwrap(),
        "--platform",
        "H200",
        "--include-unlinked-kernels",
    ];
    let run = jarvis(&args);
    assert_eq!(run.status, 0, "{}", run.err);
    let sheet = String::from_utf8(files(&out)["perf_report_csvs/gpu_timeline.csv"].clone()).unwrap();
    assert!(sheet.lines().skip(1).all(|line| line.ends_with(',')), "{sheet}");
    let analysed = jarvis(&["analyze", path.to_str().unwrap(), "-o", out.to_str().unwrap(), "--platform", "H200"]);
    assert_eq!(analysed.status, 0, "{}", analysed.err);
    assert!(!analysed.err.contains("fault of jarvis"), "{}", analysed.err);
}

#[test]
fn a_report_says_so_where_an_efficiency_cannot_be() {
    // 2·8192·8192·2 bytes take 56 µs at 4.8 TB/s.
    let events = |us: u32| {
        format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "aten::relu", "pid": 1, "tid": 1, "ts": 0, "dur": 9, "args": {{"Input Dims": [[8192, 8192]], "Input type": ["c10::BFloat16"], "Input Strides": [[8192, 1]], "Concrete Inputs": [""]}}}},
            {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1, "dur": 2, "args": {{"correlation": 7}}}},
            {{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 10, "dur": {us}, "args": {{"stream": 7, "correlation": 7}}}}"#
        )
    };
    let note = |us: u32| {
        let (folder, path) = trace(&events(us));
        let out = folder.path().join("out");
        let run = jarvis(&["report", path.to_str().unwrap(), "-o", out.to_str().unwrap(), "--platform", "H200"]);
        assert_eq!(run.status, 0, "{}", run.err);
        run.err
    };
    assert!(note(28).contains("aten::relu (UID 0) reaches 199.7% of peak: verify the measurement"), "{}", note(28));
    assert!(!note(80).contains("of peak"), "{}", note(80));
}

/// Analyses events and returns the run's own complaints with the reports.
fn analysed(events: &str) -> (String, std::collections::BTreeMap<String, Vec<u8>>) {
    let (folder, path) = trace(events);
    let out = folder.path().join("out");
    let run = jarvis(&["analyze", path.to_str().unwrap(), "-o", out.to_str().unwrap(), "--platform", "H200"]);
    assert_eq!(run.status, 0, "{}", run.err);
    (run.err, files(&out))
}

const KERNEL: &str = r#"{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 30, "dur": 5, "args": {"stream": 7, "correlation": 7}}"#;

#[test]
fn a_trace_without_operations_passes_its_own_checks() {
    let (err, written) = analysed(KERNEL);
    assert!(!err.contains("fault of jarvis"), "{err}");
    let rough = String::from_utf8_lossy(&written["standalone_analysis_rough.md"]);
    assert!(rough.contains("No operation of the trace is in a category."), "{rough}");
}

#[test]
fn modules_without_a_name_leave_the_model_unknown() {
    let events = [
        r#"{"ph": "X", "cat": "python_function", "name": "nn.Module: ", "pid": 1, "tid": 1, "ts": 0, "dur": 20, "args": {"Python id": 1}}"#,
        r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 9, "args": {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}}"#,
        r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 2, "args": {"correlation": 7}}"#,
        r#"{"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 2, "cat": "ac2g", "name": "ac2g"}"#,
        r#"{"ph": "f", "id": 7, "pid": 0, "tid": 7, "ts": 30, "cat": "ac2g", "name": "ac2g"}"#,
        KERNEL,
    ];
    let (err, written) = analysed(&events.join(","));
    assert!(!err.contains("fault of jarvis"), "{err}");
    let model: serde_json::Value = serde_json::from_slice(&written["metadata/model_info.json"]).unwrap();
    assert_eq!(model["model"], "Cannot be inferred from trace", "{model:#}");
}

#[test]
fn operations_without_a_name_pass_their_own_checks() {
    let events = [
        r#"{"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1, "dur": 9, "args": {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}}"#,
        r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 2, "args": {"correlation": 7}}"#,
        KERNEL,
    ];
    let (err, written) = analysed(&events.join(","));
    assert!(!err.contains("fault of jarvis"), "{err}");
    let manifest: serde_json::Value = serde_json::from_slice(&written["category_manifest.json"]).unwrap();
    assert_eq!(manifest["top_operations"][0]["name"], "", "{manifest:#}");
}

#[test]
fn kernels_that_run_at_once_are_told_and_no_fault() {
    let on = |stream: u32, correlation: u32| {
        let launch = format!(
            r#"{{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": {correlation}0, "dur": 9}},
            {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {correlation}2, "dur": 2, "args": {{"correlation": {correlation}}}}}"#
        );
        let kernel = format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "k{stream}", "pid": 0, "tid": {stream}, "ts": 100, "dur": 50, "args": {{"stream": {stream}, "correlation": {correlation}}}}}"#
        );
        format!("{launch},{kernel}")
    };
    let (err, written) = analysed(&[on(7, 1), on(8, 2)].join(","));
    assert!(!err.contains("fault of jarvis"), "{err}");
    let findings: serde_json::Value = serde_json::from_slice(&written["findings.json"]).unwrap();
    let told = "Category times add up to 0.10 ms, computation time is 0.050 ms: streams overlap";
    assert!(findings["warnings"].to_string().contains(told), "{findings:#}");
}

/// Words that mean something to Markdown, to a check or to the rules of language.
const HOSTILE_NAMES: &[&str] = &[
    "",
    "-",
    "nan",
    "inf",
    "{x}",
    "/usr/bin/x",
    "warp",
    "cache miss",
    "occupancy",
    "Nvidia",
    "a|b",
    "`x`",
    "_lead_",
    "*star*",
    "<script>",
    "&lt;",
    "~~",
    "\\\\|",
    "[a](#b)",
    "![x](y)",
    "https://x.y/z",
    "#",
    "1.",
    "---",
    "→",
    "Priority",
    "new\\nline",
    "\\u202eabc",
    "=1+1",
    "../../x",
    "NUL",
];

#[test]
fn whatever_things_are_called_no_check_of_our_own_fails() {
    let long = "x".repeat(3000);
    let mut faults = Vec::new();
    for name in HOSTILE_NAMES.iter().copied().chain([long.as_str()]) {
        let mut events = vec![
            format!(r#"{{"ph": "M", "name": "process_name", "pid": 1, "args": {{"name": "{name}"}}}}"#),
            format!(r#"{{"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {{"name": "{name}"}}}}"#),
            format!(
                r#"{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 1, "tid": 1, "ts": 0, "dur": 9999}}"#
            ),
            format!(
                r#"{{"ph": "X", "cat": "python_function", "name": "nn.Module: {name}", "pid": 1, "tid": 1, "ts": 0, "dur": 9999, "args": {{"Python id": 1}}}}"#
            ),
        ];
        for (i, op) in
            [name.to_owned(), format!("{name}::{name}"), name.to_owned(), "aten::mm".to_owned()].iter().enumerate()
        {
            let (at, id) = (1000 * i, i + 1);
            events.push(format!(
                r#"{{"ph": "X", "cat": "python_function", "name": "nn.Module: {name}_{i}", "pid": 1, "tid": 1, "ts": {at}, "dur": 900, "args": {{"Python id": {}, "Python parent id": 1}}}},
                {{"ph": "X", "cat": "cpu_op", "name": "{op}", "pid": 1, "tid": 1, "ts": {}, "dur": 90, "args": {{"Input Dims": [[640, 640], [640, 640]], "Input type": ["float", "{name}"]}}}},
                {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {}, "dur": 2, "args": {{"correlation": {id}}}}},
                {{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {}, "dur": {}, "args": {{"stream": 7, "correlation": {id}}}}}"#,
                id + 1, at + 1, at + 2, at + 30, 50 + i,
            ));
        }
        let (folder, path) = trace(&events.join(","));
        let path = path.to_str().unwrap();
        let (alone, both) = (folder.path().join("alone"), folder.path().join("both"));
        for args in [
            vec!["analyze", path, "-o", alone.to_str().unwrap(), "--platform", "H200"],
            vec![
                "analyze",
                path,
                "-o",
                both.to_str().unwrap(),
                "--platform",
                "H200",
                "--reference",
                path,
                "--reference-platform",
                "H200",
            ],
        ] {
            let run = jarvis(&args);
            assert_eq!(run.status, 0, "{name:?}: {}", run.err);
            faults.extend(run.err.lines().filter(|l| l.contains("fault of jarvis")).map(|l| format!("{name:?}: {l}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Names that a user gives a platform and categories are data too.
#[test]
fn whatever_a_user_calls_things_no_check_of_our_own_fails() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (trace, reference) = (fixture("h200/mlp_fp32.json.gz"), fixture("h200/attn_fused.json.gz"));
    let (trace, reference) = (trace.to_str().unwrap(), reference.to_str().unwrap());
    let (arch, extension) = (at("arch.json"), at("mine.toml"));
    let names = [
        "H100 Tensor Core GPU",
        "My GPU!",
        "warp",
        "nan",
        "{x}",
        "/a/b",
        "SM_*",
        "a | nan",
        "cudnn <b>",
        "GPU_nan_",
        "l1[x](y)",
    ];
    for (i, name) in names.iter().enumerate() {
        let figures =
            serde_json::json!({"matrix_bf16": 700, "matrix_fp32": 400, "vector_fp32": 60, "matrix_fp16": 700});
        let platform = serde_json::json!({"name": name, "mem_bw_gbps": 3350, "max_achievable_tflops": figures});
        fs::write(&arch, platform.to_string()).unwrap();
        let category = serde_json::Value::from(*name);
        fs::write(&extension, format!("[op.\"aten::mm\"]\ncategory = {category}\n")).unwrap();
        let (alone, both) = (at(&format!("alone-{i}")), at(&format!("both-{i}")));
        let chosen = ["--arch", &arch, "--extension", &extension];
        let analyze = [&["analyze", trace, "-o", &alone, "--emit", "analysis-md"][..], &chosen].concat();
        let compare = ["analyze", trace, "-o", &both, "--reference", reference, "--reference-arch", &arch];
        for args in [analyze, [&compare[..], &chosen].concat()] {
            let run = jarvis(&args);
            assert_eq!(run.status, 0, "{name:?}: {}", run.err);
            assert!(!run.err.contains("fault of jarvis"), "{name:?}: {}", run.err);
        }
        let check = jarvis(&["check", &alone]);
        assert_eq!(check.status, 0, "{name:?}: {}", check.out);
    }
    for name in ["", " \t"] {
        let platform = serde_json::json!({"name": name, "mem_bw_gbps": 1, "max_achievable_tflops": {"matrix_bf16": 1}});
        fs::write(&arch, platform.to_string()).unwrap();
        let run = jarvis(&["analyze", &at("absent.json"), "-o", &at("out"), "--arch", &arch]);
        assert_eq!(run.status, 2, "{name:?}: {}", run.err);
        assert!(run.err.contains("arch.json: `name` is empty"), "{}", run.err);
    }
}

#[test]
fn collectives_whose_kind_was_not_recorded_pass_their_own_checks() {
    let events = r#"{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 2, "args": {"correlation": 7}},
        {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "pid": 0, "tid": 7, "ts": 30, "dur": 500, "args": {"stream": 7, "correlation": 7}}"#;
    let (err, written) = analysed(events);
    assert!(!err.contains("fault of jarvis"), "{err}");
    let findings: serde_json::Value = serde_json::from_slice(&written["findings.json"]).unwrap();
    assert_eq!(findings["findings"][0]["pattern"], "exposed_communication", "{findings:#}");
}

#[test]
fn times_whose_sum_is_too_large_are_no_panic() {
    let kernel = |ts: &str| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": 9000000000000000}}"#
        )
    };
    let linked = r#"{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 9},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2, "dur": 2, "args": {"correlation": 7}}"#;
    let (err, _) = analysed(&[linked, KERNEL, &kernel("1"), &kernel("2"), &kernel("3")].join(","));
    assert!(!err.contains("panicked") && !err.contains("fault of jarvis"), "{err}");
}

/// An operation with its launch and a kernel of this length at this time; arguments as they stand in the trace.
fn operation(id: u32, arguments: &str, at: u32, long: u32) -> String {
    format!(
        r#"{{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": {id}0, "dur": 9, "args": {{"External id": {id}, {arguments}}}}},
           {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": {id}2, "dur": 2, "args": {{"correlation": {id}, "External id": {id}}}}},
           {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": {at}, "dur": {long}, "args": {{"correlation": {id}, "External id": {id}, "device": 0, "stream": 7}}}}"#
    )
}

const SQUARES: &str = r#""Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]"#;

#[test]
fn a_window_without_any_work_passes_its_own_checks() {
    let (err, written) = analysed(&[operation(1, SQUARES, 100, 0), operation(2, SQUARES, 900, 0)].join(","));
    assert!(!err.contains("fault of jarvis"), "{err}");
    let idle: serde_json::Value = serde_json::from_slice(&written["category_data/cpu_idle_metrics.json"]).unwrap();
    assert!(idle["potential_speedup"].as_f64().is_some_and(|speedup| speedup > 1.0), "{idle:#}");
}

#[test]
fn texts_of_arguments_are_no_numbers() {
    let dims = r#""Input Dims": [[64, 64], [64, 64]]"#;
    let types = r#""Input type": ["float", "float"]"#;
    for arguments in [
        format!(r#"{dims}, {types}, "Input Strides": "nan""#),
        format!(r#"{dims}, {types}, "Concrete Inputs": "nan""#),
        format!(r#"{dims}, "Input type": "nan""#),
        format!(r#"{types}, "Input Dims": "inf""#),
    ] {
        let (err, _) = analysed(&operation(1, &arguments, 100, 15));
        assert!(!err.contains("fault of jarvis"), "{arguments}: {err}");
    }
}

#[test]
fn events_of_every_list_are_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let operation = operation(1, SQUARES, 100, 15);
    fs::write(&path, format!("{{\"traceEvents\": [], \"traceEvents\": [{operation}]}}")).unwrap();
    let out = folder.path().join("out");
    let args = ["analyze", path.to_str().unwrap(), "-o", out.to_str().unwrap(), "--platform", "H200"];
    let run = jarvis(&args);
    assert_eq!(run.status, 0, "{}", run.err);
    let log: serde_json::Value = serde_json::from_slice(&files(&out)["run_log.json"]).unwrap();
    assert_eq!(log["data_quality"][0]["id"], "repeated_event_list", "{log:#}");
}

#[test]
fn two_gpus_of_an_unknown_model_are_told_in_every_report() {
    let mut events = Vec::new();
    for i in 0..6 {
        let (at, device) = (100 * i, i % 2);
        let place = |cat: &str, name: &str, pid: i32, tid: i32, dur: i32| {
            format!(
                r#""ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {at}, "dur": {dur}"#
            )
        };
        let args = format!(r#""args": {{"correlation": {i}, "External id": {i}, "device": {device}, "stream": 7}}"#);
        events.push(format!("{{{}}}", place("cpu_op", "aten::mm", 9, 9, 50)));
        events.push(format!("{{{}, {args}}}", place("cuda_runtime", "cudaLaunchKernel", 9, 9, 5)));
        events.push(format!("{{{}, {args}}}", place("kernel", "k", device, 7, 100)));
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (folder.path().join("trace.json"), folder.path().join("out"));
    let device = |id: i32| format!(r#"{{"id": {id}, "name": "GPU X", "numSms": 132, "totalGlobalMem": 150110011392}}"#);
    let text =
        format!(r#"{{"deviceProperties": [{}, {}], "traceEvents": [{}]}}"#, device(0), device(1), events.join(","));
    fs::write(&path, text).unwrap();
    let (path, out) = (path.to_str().unwrap(), out.to_str().unwrap());
    let run = jarvis(&["analyze", path, "-o", out]);
    assert_eq!(run.status, 0, "{}", run.err);
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let guess = "The peaks may not fit: `GPU X` is not a known device; its size is that of the H200.";
    let each = "Of the whole window GPU 0 is busy for 50.0%, GPU 1 is busy for 50.0%; for the rest each is idle.";
    let written = files(folder.path());
    let fair = String::from_utf8_lossy(&written["out/standalone_analysis_fair.md"]).into_owned();
    for text in [&run.out, &fair] {
        assert!(flat(text).contains(guess) && flat(text).matches(each).count() == 1, "{text}");
    }
    let findings: serde_json::Value = serde_json::from_slice(&written["out/findings.json"]).unwrap();
    assert_eq!(findings["warnings"][0], guess);
    assert_eq!(findings["gpu_timeline"]["idle_time_percent"], 0.0);
    let devices = findings["gpu_timeline"]["devices"].as_array().unwrap();
    let told = |i: usize| (devices[i]["device"].as_str().unwrap(), devices[i]["idle_time_percent"].as_f64().unwrap());
    assert_eq!((devices.len(), told(0), told(1)), (2, ("0", 50.0), ("1", 50.0)));
    let check = jarvis(&["check", out]);
    assert_eq!(check.status, 0, "{}", check.out);

    let report = |more: &[&str]| jarvis(&[&["report", path, "--no-xlsx", "--no-csv", "--no-html"], more].concat()).out;
    let text = flat(&report(&[]));
    assert!(text.contains("of that, 2 GPUs by themselves GPU 0 busy 0.300 50.0% GPU 1 busy 0.300 50.0%"), "{text}");
    let summary: serde_json::Value = serde_json::from_str(&report(&["--json"])).unwrap();
    assert_eq!(summary["gpus"][1], serde_json::json!({"device": 1, "busy_ms": 0.3, "computation_ms": 0.3}));
    assert!(!report(&["--parity"]).contains("by themselves"));
}

/// A trace whose times begin later by this many microseconds.
fn shifted(text: &str, by: i128) -> String {
    let mut parts = text.split("\"ts\":");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let number = part.trim_start();
        let end = number.find([',', '}', '\n', ' ']).unwrap();
        let (whole, fraction) = number[..end].split_once('.').unwrap_or((&number[..end], "0"));
        out += &format!("\"ts\": {}.{fraction}{}", whole.parse::<i128>().unwrap() + by, &number[end..]);
    }
    out
}

#[test]
fn findings_do_not_depend_on_where_time_begins() {
    use std::io::Read;
    for name in ["attn_unfused", "mlp_fp32"] {
        let mut text = String::new();
        let file = fs::File::open(fixture(&format!("h200/{name}.json.gz"))).unwrap();
        flate2::read::GzDecoder::new(file).read_to_string(&mut text).unwrap();
        let findings = |by: i128| {
            let folder = tempfile::tempdir().unwrap();
            let (path, out) = (folder.path().join("trace.json"), folder.path().join("out"));
            fs::write(&path, shifted(&text, by)).unwrap();
            let run = jarvis(&["analyze", path.to_str().unwrap(), "-o", out.to_str().unwrap(), "--platform", "H200"]);
            assert_eq!(run.status, 0, "{}", run.err);
            let all: serde_json::Value = serde_json::from_slice(&files(&out)["findings.json"]).unwrap();
            assert!(all["findings"].as_array().is_some_and(|f| !f.is_empty()), "{name}");
            all["findings"].clone()
        };
        assert_eq!(findings(0), findings(1_700_000_000_000_000), "{name}");
    }
}

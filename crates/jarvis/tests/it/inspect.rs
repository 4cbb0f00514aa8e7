//! `jarvis info` and `jarvis tree`.

use crate::support::{fixture, jarvis, jarvis_fed};

fn path(name: &str) -> String {
    fixture(name).to_string_lossy().into_owned()
}

#[test]
fn info_fits_one_screen_and_says_what_matters() {
    let run = jarvis(&["info", &path("h200/attn_unfused.json.gz")]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    assert!(run.out.lines().count() <= 40, "one screen:\n{}", run.out);
    for part in [
        "NVIDIA H200 (CUDA), 132 multiprocessors, 140 GiB",
        "record_shapes",
        "steps",
        "GPU streams",
        "cpu_op",
        "data quality",
    ] {
        assert!(run.out.contains(part), "{part} is missing in\n{}", run.out);
    }
}

#[test]
fn info_reads_standard_input_and_speaks_json() {
    let packed = std::fs::read(fixture("h200/tiny_bmm_window.json.gz")).unwrap();
    let run = jarvis_fed(&["info", "-", "--json"], &packed);
    assert_eq!(run.status, 0, "{}", run.err);
    let info: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(info["schema"], "jarvis.info/1");
    assert_eq!(info["devices"][0]["name"], "NVIDIA H200");
    let t = &info["gpu_timeline_ms"];
    let part = |key: &str| t[key].as_f64().unwrap();
    let sum = part("computation") + part("exposed_communication") + part("exposed_memcpy") + part("idle");
    assert!((sum - part("total")).abs() < 1e-6);
}

#[test]
fn truncated_files_are_read_and_the_user_is_told() {
    for name in ["handmade/truncated.json", "handmade/truncated.json.gz"] {
        let run = jarvis(&["info", &path(name)]);
        assert_eq!(run.status, 0);
        assert!(run.out.contains("the file is cut off"), "{}", run.out);
        assert!(run.err.contains("warning:") && run.err.contains("ends early"), "{}", run.err);
        let strict = jarvis(&["info", &path(name), "--strict"]);
        assert_eq!(strict.status, 1);
        assert!(strict.err.contains("_truncated 1x"), "{}", strict.err);
        assert_eq!(jarvis(&["info", &path(name), "--quiet"]).err, "");
    }
}

#[test]
fn traces_without_gpu_or_host_work_are_told() {
    let cpu = jarvis(&["info", &path("handmade/cpu_only.json")]);
    assert!(cpu.out.contains("no GPU events in this trace"), "{}", cpu.out);
    // `aten::empty` lies in `aten::add`.
    let listed = "host operations by their own time\n        3.2 µs  76.5%  aten::add in 1 call\n        1.0 µs  23.5%  aten::empty in 1 call\n";
    assert!(cpu.out.contains(listed), "{}", cpu.out);
    let json = jarvis(&["info", &path("handmade/cpu_only.json"), "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["host"]["operations"][0], serde_json::json!({"name": "aten::add", "calls": 1, "own_ms": 0.00325}));
    let gpu = jarvis(&["info", &path("handmade/gpu_only.json")]);
    assert!(gpu.out.contains("no host operations"), "{}", gpu.out);
}

#[test]
fn errors_say_what_where_and_what_next() {
    let missing = jarvis(&["info", "no/such/file.json"]);
    assert_eq!(missing.status, 3);
    assert!(missing.err.starts_with("error: no/such/file.json: "), "{}", missing.err);
    assert!(missing.err.contains("\nhelp: "), "{}", missing.err);
    let folder = jarvis(&["info", &path("h200")]);
    assert_eq!(folder.status, 3);
    let png = jarvis_fed(&["info", "-"], b"\x89PNG\r\n\x1a\n");
    assert_eq!(png.status, 3);
    assert!(png.err.contains("standard input") && png.err.contains("PNG picture"), "{}", png.err);
    assert_eq!(jarvis(&["info"]).status, 2);
    assert_eq!(jarvis(&["nonsense"]).status, 2);
}

#[test]
fn a_subtree_reads_as_a_tree() {
    let trace = path("handmade/rocm_like.json");
    let run = jarvis(&["tree", &trace, "--name", "aten::linear", "--subtree", "--fields", "Input Dims"]);
    let expected = "\
└── UID: 1, Category: cpu_op, Name: aten::linear
    |   Input Dims: [[128, 512], [256, 512], [256]]
    |   \n    └── UID: 2, Category: cpu_op, Name: aten::addmm
        |   Input Dims: [[256], [128, 512], [512, 256], [], []]
        |   \n        └── UID: 5, Category: cuda_runtime, Name: hipExtModuleLaunchKernel
            └── UID: 7, Category: kernel, Name: Cijk_Alik_Bljk_BBS_BH_MT128x160x64_MI16x16x16x1_SN, Duration: 12.28
";
    assert_eq!(run.out, expected);
    let shallow = jarvis(&["tree", &trace, "--uid", "1", "--subtree", "--depth", "1"]);
    assert_eq!(shallow.out.lines().count(), 2, "{}", shallow.out);
}

#[test]
fn parents_kernels_and_json() {
    let trace = path("handmade/rocm_like.json");
    let parents = jarvis(&["tree", &trace, "--uid", "7", "--parents"]);
    assert!(parents.out.starts_with("Node:\n  UID: 7"), "{}", parents.out);
    assert!(parents.out.contains("3-up:\n  UID: 1, Category: cpu_op, Name: aten::linear"), "{}", parents.out);
    let kernels = jarvis(&["tree", &trace, "--name", "^aten::add", "--regex", "--kernels", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&kernels.out).unwrap();
    assert_eq!(answer["matches"], 1);
    assert_eq!(answer["events"][0]["kernels"][0]["dur_us"], 12.28);
}

/// Two calls that begin together, the shorter one first: the reference closes the longer one with it.
const BEGIN_TOGETHER: &str = r#"{"traceEvents": [
{"ph":"X","cat":"cpu_op","name":"root","pid":1,"tid":1,"ts":0,"dur":200,"args":{}},
{"ph":"X","cat":"cpu_op","name":"inner","pid":1,"tid":1,"ts":10,"dur":5,"args":{}},
{"ph":"X","cat":"cpu_op","name":"outer","pid":1,"tid":1,"ts":10,"dur":20,"args":{}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":16,"dur":1,"args":{"correlation":1}},
{"ph":"s","cat":"ac2g","name":"ac2g","id":1,"pid":1,"tid":1,"ts":16},
{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":310,"dur":5,"args":{"stream":7,"correlation":1}},
{"ph":"f","bp":"e","cat":"ac2g","name":"ac2g","id":1,"pid":0,"tid":7,"ts":310}]}"#;

#[test]
fn under_parity_the_tree_is_that_of_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json");
    std::fs::write(&trace, BEGIN_TOGETHER).unwrap();
    let trace = trace.to_str().unwrap();
    for (more, caller) in [(&[][..], "outer"), (&["--parity"], "root")] {
        let tree = jarvis(&[&["tree", trace, "--uid", "5", "--parents"][..], more].concat());
        let second = tree.out.split("2-up:").nth(1).unwrap_or_default();
        assert!(second.lines().nth(1).is_some_and(|line| line.ends_with(caller)), "{caller}: {}", tree.out);
        let out = folder.path().join(caller);
        let report = ["report", trace, "-o", out.to_str().unwrap(), "--quiet"];
        assert_eq!(jarvis(&[&report[..], more].concat()).status, 0);
        let table = std::fs::read_to_string(out.join("perf_report_csvs/ops_summary.csv")).unwrap();
        assert!(table.lines().nth(1).is_some_and(|row| row.starts_with(caller)), "{caller}: {table}");
    }
}

/// Forward work with its backward, which follows it on another thread.
const BACKWARD: &str = r#"{"traceEvents": [
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":9,"args":{"Sequence number":4,"External id":1}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":2,"args":{"correlation":7}},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":20,"dur":5,"args":{"stream":7,"correlation":7}},
{"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: MmBackward0","pid":1,"tid":2,"ts":30,"dur":19,
 "args":{"Sequence number":4,"Fwd thread id":1,"External id":2}},
{"ph":"X","cat":"cpu_op","name":"MmBackward0","pid":1,"tid":2,"ts":32,"dur":15,
 "args":{"Sequence number":4,"Fwd thread id":1,"External id":3}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":33,"dur":2,"args":{"correlation":8}},
{"ph":"X","cat":"kernel","name":"gemm_back","pid":0,"tid":7,"ts":50,"dur":5,"args":{"stream":7,"correlation":8}}
]}"#;

#[test]
fn the_machine_form_has_the_backward_branch_and_the_way_up_through_the_forward_pass() {
    let out = tempfile::tempdir().unwrap();
    let trace = out.path().join("t.json");
    std::fs::write(&trace, BACKWARD).unwrap();
    let trace = trace.to_str().unwrap();
    let ask = |more: &[&str]| {
        let text = jarvis(&[&["tree", trace][..], more].concat()).out;
        let run = jarvis(&[&["tree", trace, "--json"][..], more].concat());
        let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}: {}", run.err));
        (text, answer["events"][0].clone())
    };
    let names = |list: &serde_json::Value| -> Vec<String> {
        let rows = list.as_array().unwrap().iter();
        rows.map(|row| format!("{} {}", row["uid"], row["link"].as_str().unwrap_or("-"))).collect()
    };
    let (text, event) = ask(&["--uid", "0", "--subtree", "--backward"]);
    assert!(text.contains("[BWD]"), "{text}");
    assert_eq!(names(&event["subtree"]), ["0 -", "1 -", "2 -", "3 backward", "4 -", "5 -", "6 -"], "{text}");
    let (_, event) = ask(&["--uid", "0", "--subtree"]);
    assert_eq!(names(&event["subtree"]), ["0 -", "1 -", "2 -"]);
    let (text, event) = ask(&["--uid", "6", "--parents", "--backward"]);
    assert!(text.contains("UID: 0"), "{text}");
    assert_eq!(names(&event["parents"]), ["5 -", "4 -", "3 -", "0 forward"], "{text}");
}

#[test]
fn wrong_questions_are_explained() {
    let trace = path("handmade/cpu_only.json");
    let uid = jarvis(&["tree", &trace, "--uid", "99"]);
    assert_eq!(uid.status, 2);
    assert!(uid.err.contains("UIDs of this trace go from 0 to 2; larger ones"), "{}", uid.err);
    let pattern = jarvis(&["tree", &trace, "--name", "(", "--regex"]);
    assert_eq!(pattern.status, 2);
    assert!(pattern.err.contains("no regular expression"), "{}", pattern.err);
    // What says how events are shown says nothing without events.
    for option in [&["--parents"][..], &["--subtree"], &["--kernels"], &["--backward"], &["--fields", "Input Dims"]] {
        let run = jarvis(&[&["tree", &*trace][..], option].concat());
        assert!(run.status == 2 && run.err.contains("--uid"), "{option:?}: {}", run.err);
    }
    // A field of no event here is known all the same if the profiler writes it.
    let fields = |name: &str| jarvis(&["tree", &trace, "--uid", "0", "--fields", name]);
    assert_eq!(fields("Input Dims, stream").status, 0);
    let run = fields("Input Dims,foo");
    assert_eq!(run.status, 2);
    assert!(run.err.contains("no event has an argument `foo`"), "{}", run.err);
    assert!(run.err.contains("help: --fields takes any of ") && run.err.contains(", Input Dims, "), "{}", run.err);
    assert_eq!(jarvis(&["tree", &trace, "--name", "nothing like it"]).out, "no event has a name like that\n");
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let trace = path("h200/decode_graphed.json.gz");
    let one = jarvis(&["info", &trace, "--json", "--threads", "1"]);
    let two = jarvis(&["info", &trace, "--json", "--threads", "2"]);
    assert_eq!(one.out, two.out);
}

#[test]
fn models_without_a_trace_read_well_and_refuse_nonsense() {
    let long =
        jarvis(&["model", "aten::_scaled_dot_product_flash_attention", "dims=1x2x4x8,1x2x4x8,1x2x4x8", "types=bf16"]);
    assert!(long.out.starts_with("aten::_scaled_dot_product_flash_attention dims="), "{}{}", long.out, long.err);
    for (types, dims) in [("bf16", "-4x8,8x2"), ("foo", "4x8,8x2")] {
        let run = jarvis(&["model", "aten::mm", &format!("dims={dims}"), &format!("types={types}")]);
        assert_eq!((run.status, run.out.as_str()), (2, ""), "{}", run.err);
    }
    // The hint is given where it works.
    let hint = |name: &str| jarvis(&["explain", name]).out.contains("jarvis model");
    assert!(hint("aten::mm") && !hint("vllm::unified_attention_with_output") && !hint("ConvBias_Backward"));
}

/// A recording that two GPUs of two models took turns in, marked by two threads, with a header that tells no option.
#[test]
fn info_tells_what_is_there_whatever_the_header_says() {
    let mut events = Vec::new();
    for (i, device) in [1, 0, 1].into_iter().enumerate() {
        let at = 100 * i;
        for thread in [1, 2] {
            let (name, dur) = (10 + i, 90);
            events.push(format!(
                r#"{{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#{name}", "pid": 1, "tid": {thread}, "ts": {at}, "dur": {dur}}}"#
            ));
        }
        for (cat, name, pid, tid) in
            [("cpu_op", "aten::mm", 1, 1), ("python_function", "f", 1, 1), ("kernel", "k", device, 7)]
        {
            events.push(format!(
                r#"{{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {at}, "dur": 100, "args": {{"Input Dims": [[1]]}}}}"#
            ));
        }
    }
    events.push(
        r#"{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#9", "pid": 1, "tid": 1, "dur": 90}"#.into(),
    );
    let properties = r#"[{"id": 0, "name": "A"}, {"id": 1, "name": "B"}, {"id": 2, "name": "B"}]"#;
    let text = format!(r#"{{"deviceProperties": {properties}, "traceEvents": [{}]}}"#, events.join(","));
    let out = jarvis_fed(&["info", "-"], text.as_bytes()).out;
    for line in [
        "device        1 x A\ndevice        2 x B\n              at work: B, A\n",
        "steps         4: #9 to #12, 90.0 µs each on the host\n",
        "  GPU 0: busy 33.3% of that, idle 66.7%\n  GPU 1: busy 66.7% of that, idle 33.3%\n",
        "capture       record_shapes, with_stack; shapes on 100% of operations\n",
    ] {
        assert!(out.contains(line), "{line}\n{out}");
    }
    let bare = text.replace("Input Dims", "x").replace("python_function", "y");
    let out = jarvis_fed(&["info", "-"], bare.as_bytes()).out;
    assert!(out.contains("record_shapes not recorded (") && out.contains("with_stack not recorded ("), "{out}");
    let out = jarvis_fed(&["info", "-"], bare.replace("{\"device", "{\"with_modules\": 1, \"device").as_bytes()).out;
    assert!(out.contains("record_shapes off (") && out.contains("with_stack off ("), "{out}");
    let told = jarvis_fed(&["info", "-", "--json"], text.as_bytes()).out;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&told["capture"]["record_shapes"], &told["gpus"][1]["busy_ms"]), (&true.into(), &0.2.into()));
}

#[test]
fn strict_looks_at_defects_of_the_call_tree_too() {
    for command in ["info", "tree"] {
        let strict = jarvis(&[command, &path("handmade/rocm_like.json"), "--strict"]);
        assert_eq!(strict.status, 1, "{command}: {}", strict.err);
        assert!(strict.err.contains("unlinked_gpu_event"), "{command}: {}", strict.err);
    }
}

#[test]
fn an_event_says_the_same_of_itself_wherever_it_stands() {
    let trace = path("handmade/rocm_like.json");
    let json = |args: &[&str]| -> serde_json::Value {
        let run = jarvis(&[&["tree", &trace, "--json"], args].concat());
        serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{args:?}: {}", run.err))
    };
    let found = json(&["--name", "", "--limit", "0", "--subtree", "--all", "--kernels"]);
    let events = found["events"].as_array().unwrap();
    assert!(events.iter().any(|e| !e["parent"].is_null()));
    assert!(events.iter().all(|e| e["subtree"][0]["parent"] == e["parent"]), "{found:#}");
    let kernel = events.iter().find(|e| e["category"] == "kernel").unwrap();
    assert_eq!((&kernel["gpu_events"], &kernel["kernels"][0]["uid"]), (&1.into(), &kernel["uid"]));
    let uid = kernel["uid"].to_string();
    let told = jarvis(&["tree", &trace, "--uid", &uid, "--kernels"]).out;
    assert!(told.contains(": 1 GPU event, busy ") && told.lines().count() == 2, "{told}");
}

#[test]
fn strict_says_why_an_analysis_counts_more_than_a_look() {
    let trace = path("fuzz/trace_streams_overlap.json");
    let out = tempfile::tempdir().unwrap();
    let analyze = ["analyze", &trace, "-o", out.path().to_str().unwrap(), "--platform", "MI300X", "--strict"];
    let (analyze, info) = (jarvis(&analyze).err, jarvis(&["info", &trace, "--strict"]).err);
    assert!(analyze.contains("nesting_discarded 1x") && analyze.contains("whether Python frames are in the tree"));
    assert!(!info.contains("nesting_discarded") && !info.contains("Python frames"), "{info}");
    assert!(jarvis(&["tree", &trace, "--python", "--strict"]).err.contains("nesting_discarded 1x"));
}

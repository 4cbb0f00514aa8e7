//! Real traces against the numbers the reference gives for them.

use std::collections::BTreeMap;

use jarvis_trace::tree::Communication;
use jarvis_trace::{
    Arg, Defect, Diagnostics, EventKind, Id, Key, Nesting, Ns, Population, Timeline, Trace, Tree, TreeOptions, Us,
};

use crate::support::{all_shared_traces, shared_trace, shared_traces, table};

/// Tree and timeline of a trace, in the reference's own arithmetic: times in microseconds, bit for bit.
struct Golden {
    trace: &'static str,
    events: usize,
    roots: usize,
    linked: usize,
    gpu: usize,
    launchers: usize,
    runtime_launchers: usize,
    computation: f64,
    exposed_communication: f64,
    exposed_memcpy: f64,
    busy: f64,
    total: f64,
}

#[rustfmt::skip]
#[expect(clippy::unreadable_literal, reason = "as the reference prints them")]
const GOLDEN: &[Golden] = &[
    Golden { trace: "h100/Falconsai_nsfw_image_detection__1016002", events: 5138, roots: 276, linked: 156, gpu: 156, launchers: 151, runtime_launchers: 0, computation: 1225.308837890625, exposed_communication: 0.0, exposed_memcpy: 0.0, busy: 1225.308837890625, total: 7559.843994140625 },
    Golden { trace: "h100/Qwen_Qwen1.5-0.5B-Chat__1016005", events: 18221, roots: 1378, linked: 1198, gpu: 1707, launchers: 1030, runtime_launchers: 0, computation: 31903.115234375, exposed_communication: 0.0, exposed_memcpy: 2.367919921875, busy: 31905.483154296875, total: 34892.4189453125 },
    Golden { trace: "h100/facebook_timesformer-base-finetuned-k400__1016002", events: 50125, roots: 964, linked: 534, gpu: 534, launchers: 445, runtime_launchers: 0, computation: 154969.03125, exposed_communication: 0.0, exposed_memcpy: 3464.141845703125, busy: 158433.17309570312, total: 159992.4267578125 },
    Golden { trace: "h100/gaunernst_bert-small-uncased__1016001", events: 2551, roots: 104, linked: 61, gpu: 61, launchers: 61, runtime_launchers: 0, computation: 307.19775390625, exposed_communication: 0.0, exposed_memcpy: 2.239990234375, busy: 309.437744140625, total: 3907.824951171875 },
    Golden { trace: "mi300/Falconsai_nsfw_image_detection__1016002", events: 5371, roots: 276, linked: 155, gpu: 155, launchers: 151, runtime_launchers: 0, computation: 1716.298828125, exposed_communication: 0.0, exposed_memcpy: 0.0, busy: 1716.298828125, total: 6868.84912109375 },
    Golden { trace: "mi300/Qwen_Qwen1.5-0.5B-Chat__1016005", events: 18090, roots: 1378, linked: 1054, gpu: 1517, launchers: 1054, runtime_launchers: 0, computation: 29743.16796875, exposed_communication: 0.0, exposed_memcpy: 0.759765625, busy: 29743.927734375, total: 33131.33349609375 },
    Golden { trace: "mi210/gpu_only_trace/gpu_only_trace", events: 2443, roots: 0, linked: 562, gpu: 562, launchers: 562, runtime_launchers: 562, computation: 5343.3701171875, exposed_communication: 0.0, exposed_memcpy: 0.0, busy: 5343.3701171875, total: 5979.5029296875 },
    Golden { trace: "perf_model/normalization/normalization_layer_test", events: 8500, roots: 126, linked: 168, gpu: 173, launchers: 114, runtime_launchers: 0, computation: 991.9912109375, exposed_communication: 0.0, exposed_memcpy: 0.0, busy: 991.9912109375, total: 1068779.8325195312 },
    Golden { trace: "torch_compile_triton/trace", events: 246, roots: 2, linked: 12, gpu: 12, launchers: 12, runtime_launchers: 0, computation: 12549.02099609375, exposed_communication: 0.0, exposed_memcpy: 0.0, busy: 12549.02099609375, total: 12549.0322265625 },
];

fn parity() -> TreeOptions {
    TreeOptions::default().like_reference()
}

fn timeline(trace: &Trace, tree: &Tree, micro: Option<Us>) -> Timeline<Us> {
    Timeline::of(trace, &Population::Linked.of(trace, tree), micro).unwrap()
}

fn assert_bits(what: &str, ours: f64, reference: f64) {
    assert_eq!(ours.to_bits(), reference.to_bits(), "{what}: {ours} is not {reference}");
}

#[test]
fn trees_and_timelines_are_those_of_the_reference() {
    let Some(folder) = shared_traces() else { return };
    for golden in GOLDEN {
        let trace = shared_trace(&folder, golden.trace);
        let tree = Tree::build(&trace, parity());
        let name = golden.trace;
        assert_eq!(trace.len(), golden.events, "{name}");
        assert_eq!(tree.roots().len(), golden.roots, "{name}");
        assert_eq!(
            (tree.linked_gpu_events().count(), tree.all_gpu_events().len()),
            (golden.linked, golden.gpu),
            "{name}"
        );
        let launchers = tree.view(&trace).launchers(Communication::Include);
        let runtime = launchers.iter().filter(|l| trace.kind(l.event).is_runtime()).count();
        assert_eq!((launchers.len(), runtime), (golden.launchers, golden.runtime_launchers), "{name}");
        let t = timeline(&trace, &tree, None);
        assert_bits(name, t.computation.0, golden.computation);
        assert_bits(name, t.exposed_communication.0, golden.exposed_communication);
        assert_bits(name, t.exposed_memcpy.0, golden.exposed_memcpy);
        assert_bits(name, t.busy.0, golden.busy);
        assert_bits(name, t.total.0, golden.total);
    }
}

#[test]
fn idle_time_splits_as_in_the_reference() {
    let Some(folder) = shared_traces() else { return };
    #[expect(clippy::unreadable_literal, reason = "as the reference prints them")]
    let cases = [
        ("h100/gaunernst_bert-small-uncased__1016001", 36.128173828125, 3562.259033203125),
        ("mi210/gpu_only_trace/gpu_only_trace", 116.279296875, 519.853515625),
    ];
    for (name, micro, macro_idle) in cases {
        let trace = shared_trace(&folder, name);
        let tree = Tree::build(&trace, parity());
        let idle = timeline(&trace, &tree, Some(Us(20.0))).micro_macro_idle.unwrap();
        assert_bits(name, idle.0.0, micro);
        assert_bits(name, idle.1.0, macro_idle);
    }
}

#[test]
fn timeline_tables_are_those_of_the_reference() {
    let mut compared = 0;
    for (name, tables, trace) in all_shared_traces() {
        let Some(reference) = table(&tables.join("gpu_timeline.csv")) else { continue };
        let tree = Tree::build(&trace, parity());
        let t = timeline(&trace, &tree, None);
        assert_eq!(t.rows().len(), reference.len(), "{name}");
        for (ours, theirs) in t.rows().iter().zip(&reference) {
            assert_eq!(ours.kind, theirs["type"], "{name}");
            assert_bits(&format!("{name} {}", ours.kind), ours.ms, theirs["time ms"].parse().unwrap());
            assert_bits(&format!("{name} {} percent", ours.kind), ours.percent, theirs["percent"].parse().unwrap());
        }
        let mut seen = Diagnostics::default();
        t.check(&mut seen);
        let exact = Timeline::<Ns>::of(&trace, &Population::Linked.of(&trace, &tree), None).unwrap();
        exact.check(&mut seen);
        assert!(seen.worst().is_none(), "{name}: parts do not add up");
        assert!((exact.busy.as_us() - t.busy.0).abs() < 0.1, "{name}");
        compared += 1;
    }
    assert!(compared == 0 || compared >= 30, "only {compared} tables were found");
}

#[test]
fn launcher_times_are_those_of_the_reference() {
    for (name, tables, trace) in all_shared_traces() {
        let Some(reference) = table(&tables.join("ops_summary.csv")) else { continue };
        let tree = Tree::build(&trace, parity());
        let view = tree.view(&trace);
        let mut sums: BTreeMap<&str, (f64, f64, usize)> = BTreeMap::new();
        for launcher in view.launchers(Communication::Exclude).iter() {
            let sum = sums.entry(trace.name(launcher.event)).or_default();
            sum.0 += view.direct_busy(launcher).0;
            sum.1 += view.subtree_busy(launcher.event).0;
            sum.2 += 1;
        }
        assert_eq!(sums.len(), reference.len(), "{name}: names of launchers");
        for row in &reference {
            let op = row["name"].as_str();
            let (direct, subtree, count) = sums[op];
            let number = |column: &str| row[column].parse::<f64>().unwrap();
            assert!((direct - number("total_direct_kernel_time_sum")).abs() < 1e-6, "{name}: {op} direct");
            assert!((subtree - number("total_subtree_kernel_time_sum")).abs() < 1e-6, "{name}: {op} subtree");
            assert_eq!(count.to_string(), row["Count"], "{name}: {op}");
        }
    }
}

#[test]
fn recordings_keep_their_own_promises() {
    for (name, _, trace) in all_shared_traces() {
        for options in [TreeOptions::default(), parity(), parity().with_python()] {
            let tree = Tree::build(&trace, options);
            assert_eq!((tree.discarded().len(), tree.forgiven_overlaps()), (0, 0), "{name}: all nest");
            assert_eq!(tree.diagnostics().count(Defect::BackwardLinkMismatch), 0, "{name}: flows agree");
            for k in tree.linked_gpu_events() {
                let op = tree.ancestors(k).find(|&e| trace.kind(e) == EventKind::CpuOp);
                if let (Some(own), Some(op)) = (trace.int(k, Key::ExternalId), op) {
                    assert_eq!(trace.int(op, Key::ExternalId), Some(own), "{name}: launcher of {k}");
                }
            }
        }
        for e in trace.events().filter(|&e| trace.kind(e).is_gpu()) {
            let track = trace.track(trace.track_id(e));
            let (device, stream) = (trace.int(e, Key::Device).unwrap(), trace.int(e, Key::Stream).unwrap());
            assert_eq!((track.pid, track.tid), (Id::Int(device), Id::Int(stream)), "{name}: place of {e}");
        }
        let lists = [Key::InputDims, Key::InputType, Key::InputStrides, Key::ConcreteInputs];
        for e in trace.events().filter(|&e| trace.kind(e) == EventKind::CpuOp) {
            let length = |key| match trace.get(e, key)? {
                Arg::Json(text) => Some(serde_json::from_str::<Vec<serde_json::Value>>(text).unwrap().len()),
                other => panic!("{name}: {other:?}"),
            };
            let lengths = lists.map(length);
            assert!(lengths.iter().all(|l| *l == lengths[0]), "{name}: arguments of {e}: {lengths:?}");
        }
    }
}

#[test]
fn frames_change_neither_links_nor_launchers() {
    for (name, _, trace) in all_shared_traces() {
        let [off, on] = [parity(), parity().with_python()].map(|o| Tree::build(&trace, o));
        assert_eq!(off.roots(), on.roots(), "{name}");
        let [launchers_off, launchers_on] = [&off, &on].map(|t| t.view(&trace).launchers(Communication::Include));
        assert!(launchers_off.iter().eq(launchers_on.iter()), "{name}");
        for e in trace.events() {
            if trace.kind(e) != EventKind::PythonFunction {
                assert_eq!(off.gpu_events(e), on.gpu_events(e), "{name}: {e}");
            }
        }
    }
}

#[test]
fn known_counts_hold() {
    let Some(folder) = shared_traces() else { return };
    let open = |name: &str| shared_trace(&folder, name);
    // Forward/backward links, confirmed by the recorded flows.
    for (name, links) in [("perf_model/normalization/normalization_layer_test", 51), ("h200/hf_llama_train", 620)] {
        let trace = open(name);
        let tree = Tree::build(&trace, parity());
        let found = trace.events().filter(|&e| tree.forward_of(e).is_some()).count();
        assert_eq!(found, links, "{name}");
        let flows = trace.events().filter(|&e| trace.kind(e) == EventKind::BackwardFlowEnd).count();
        assert_eq!(flows, links, "{name}");
    }
    // Fills of ROCm have no flow; correlation finds their calls.
    let trace = open("perf_model/normalization/normalization_layer_test");
    let linked = |options| Tree::build(&trace, options).linked_gpu_events().count();
    assert_eq!((linked(parity()), linked(TreeOptions::default())), (168, 173));
    // Each replay of a graph owns all its kernels.
    let trace = open("h200/decode_graphed");
    let tree = Tree::build(&trace, parity());
    let replays: Vec<usize> =
        trace.events().filter(|&e| trace.name(e) == "cudaGraphLaunch").map(|e| tree.launched(e).len()).collect();
    assert!(!replays.is_empty() && replays.iter().all(|&n| n == replays[0] && n > 1), "{replays:?}");
    assert_eq!(tree.linked_gpu_events().count(), trace.events().filter(|&e| trace.kind(e).is_gpu()).count());
    // Float nesting loses frames that end with their callers.
    let trace = open("h100/gaunernst_bert-small-uncased__1016001");
    let float = TreeOptions { nesting: Nesting::Float, ..parity().with_python() };
    assert!(!Tree::build(&trace, float).discarded().is_empty());
}

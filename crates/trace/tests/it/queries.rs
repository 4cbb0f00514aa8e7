//! Questions to the tree and its text forms.

use jarvis_trace::tree::{Communication, ForwardLink, NameIndex, SubtreeText};
use jarvis_trace::{EventId, Trace, TraceBuilder, Tree, TreeOptions, TreeView, Us};

use crate::support::{shared_trace, shared_traces};

fn named(trace: &Trace, name: &str) -> EventId {
    trace.events().find(|&e| trace.name(e) == name).unwrap()
}

fn names<'a>(trace: &'a Trace, events: &[EventId]) -> Vec<&'a str> {
    events.iter().map(|&e| trace.name(e)).collect()
}

// thread 1   |-- nn.Module: Net_0 ---------------------------------------------|
//              |-- nn.Module: Linear_12 --------|  |-- nn.Module: ReLU_1 --|
//                |-- aten::linear -----------|       |-- aten::relu --|
//                  |-- aten::t --|  |launch|           |launch|          |launch|
// stream 7                            |-- gemm --|         |-- relu --|      |-- tail --|
// stream 8                              |-- memset --|
fn model() -> Trace {
    let mut b = TraceBuilder::new();
    b.python("nn.Module: Net_0", 0.0, 1000.0);
    b.python("nn.Module: Linear_12", 10.0, 300.0);
    b.cpu_op("aten::linear", 20.0, 250.0).arg("External id", 5).arg("Input Dims", "[[8, 4], [2,4]]");
    b.cpu_op("aten::t", 30.0, 20.0);
    b.launch("cudaLaunchKernel", 100.0, 10.0, 1);
    b.launch("cudaMemsetAsync", 120.0, 10.0, 2);
    b.python("nn.Module: ReLU_1", 400.0, 200.0);
    b.cpu_op("aten::relu", 410.0, 100.0).arg("External id", 6);
    b.launch("cudaLaunchKernel", 420.0, 10.0, 3);
    b.launch("cudaLaunchKernel", 800.0, 10.0, 4);
    b.kernel("gemm", 150.0, 100.0, 1);
    b.gpu("gpu_memset", "Memset (Device)", 200.0, 100.0, 2, 8);
    b.kernel("relu", 450.0, 50.0, 3);
    b.kernel("tail", 850.0, 25.0, 4);
    b.build()
}

#[test]
fn modules_know_their_path_children_and_time() {
    let trace = model();
    let tree = Tree::build(&trace, TreeOptions::default().with_python());
    let view = tree.view(&trace);
    let net = named(&trace, "nn.Module: Net_0");
    let path = |name| view.module_path(named(&trace, name));
    assert_eq!(path("aten::t").unwrap(), ["nn.Module: Net", "nn.Module: Linear"]);
    assert_eq!(path("nn.Module: Linear_12").unwrap(), ["nn.Module: Net"]);
    assert_eq!(path("nn.Module: Net_0").unwrap(), ["root"]);
    assert_eq!(path("gemm"), None, "GPU events are not nested");
    assert_eq!(names(&trace, &view.child_modules(net)), ["nn.Module: Linear_12", "nn.Module: ReLU_1"]);
    assert_eq!(view.module_of(named(&trace, "gemm")), Some(named(&trace, "nn.Module: Linear_12")));
    // gemm 150..250 and memset 200..300 overlap; relu 50; tail 25.
    assert_eq!(view.subtree_busy(net), Us(225.0));
    assert_eq!(view.non_module_busy(net), Us(25.0));
    assert_eq!(view.subtree_busy(named(&trace, "aten::linear")), Us(150.0));
    assert_eq!(view.subtree_busy(named(&trace, "aten::t")), Us(0.0));
    let off = Tree::build(&trace, TreeOptions::default());
    assert_eq!(off.view(&trace).module_path(named(&trace, "aten::t")), None, "frames are needed to know");
}

#[test]
fn launchers_skip_frames_and_execute_and_come_in_order_of_start() {
    // |-- execute ------------------------------------|
    //   |-- b ------------| |launch 3|   (a starts later but its kernel is first in the file)
    //     |launch 2|
    // |-- a --| on thread 2, later
    let mut b = TraceBuilder::new();
    b.kernel("ka", 500.0, 10.0, 1);
    b.kernel("kb", 100.0, 10.0, 2);
    b.kernel("nccl_AllReduce", 300.0, 10.0, 3);
    b.kernel("kb2", 200.0, 10.0, 4);
    b.gpu("gpu_memset", "ncclMemset", 320.0, 10.0, 5, 7);
    b.cpu_op("execute", 0.0, 90.0);
    b.cpu_op("b", 10.0, 40.0);
    b.launch("cudaLaunchKernel", 20.0, 5.0, 2);
    b.launch("cudaLaunchKernel", 30.0, 5.0, 4);
    b.launch("ncclLaunch", 60.0, 5.0, 3);
    b.launch("cudaMemsetAsync", 70.0, 5.0, 5);
    b.cpu_op("a", 400.0, 50.0).on(1, 2);
    b.launch("cudaLaunchKernel", 410.0, 5.0, 1).on(1, 2);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let view = tree.view(&trace);
    let show = |communication| {
        let launchers = view.launchers(communication);
        let show = |l: jarvis_trace::tree::Launcher<'_>| {
            format!("{}: {}", trace.name(l.event), names(&trace, l.kernels).join(" "))
        };
        launchers.iter().map(show).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(show(Communication::Exclude), "b: kb kb2, a: ka");
    assert_eq!(
        show(Communication::Include),
        "b: kb kb2, ncclLaunch: nccl_AllReduce, cudaMemsetAsync: ncclMemset, a: ka"
    );
    let all = view.launchers(Communication::Include);
    assert!(all.iter().all(|l| l.kernels.iter().all(|&k| view.launcher_of(k) == Some(l.event))));
    assert_eq!(view.direct_busy(all.iter().next().unwrap()), Us(20.0));
}

#[test]
fn names_find_events() {
    let trace = model();
    let tree = Tree::build(&trace, TreeOptions::default());
    let (flat, in_tree) = (NameIndex::of_trace(&trace), NameIndex::of_tree(&trace, &tree));
    assert_eq!(flat.find(&trace, "cudaLaunchKernel").len(), 3);
    assert_eq!(flat.find(&trace, "nn.Module: Net_0").len(), 1);
    assert!(in_tree.find(&trace, "nn.Module: Net_0").is_empty(), "frames are not in this tree");
    assert!(flat.find(&trace, "no such name").is_empty());
    let modules: Vec<_> = flat.matching(&trace, |n| n.starts_with("nn.Module")).map(|(_, e)| e.len()).collect();
    assert_eq!(modules, [1, 1, 1]);
}

#[test]
fn the_index_lists_hosts_by_start_and_gpu_events_by_link() {
    let mut b = TraceBuilder::new();
    b.launch("x", 50.0, 5.0, 2);
    b.launch("x", 10.0, 5.0, 1);
    b.cpu_op("x", 30.0, 5.0).on(1, 2);
    b.kernel("x", 100.0, 5.0, 1);
    b.kernel("x", 90.0, 5.0, 2);
    b.runtime("first launch names the key", 0.0, 1.0).arg("correlation", 77);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let uids = |index: &NameIndex| index.find(&trace, "x").iter().map(|e| e.uid()).collect::<Vec<_>>();
    assert_eq!(uids(&NameIndex::of_trace(&trace)), [1, 3, 4, 6, 8]);
    assert_eq!(uids(&NameIndex::of_tree(&trace, &tree)), [3, 4, 1, 6, 8]);
    let reference = Tree::build(&trace, TreeOptions::default().like_reference());
    assert_eq!(uids(&NameIndex::of_tree(&trace, &reference)), [3, 4, 1, 8, 6]);
}

#[test]
fn threads_list_their_events_callers_first() {
    let mut b = TraceBuilder::new();
    // thread 2   |-- late --------|        |-- alone --|
    //               |inside|
    // thread 1      |-- op --|
    b.cpu_op("alone", 50.0, 5.0).on(1, 2);
    b.cpu_op("op", 12.0, 5.0);
    b.cpu_op("inside", 12.0, 2.0).on(1, 2);
    b.cpu_op("late", 10.0, 20.0).on(1, 2);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let found: Vec<_> = tree.thread_events().map(|(_, events)| names(&trace, events)).collect();
    assert_eq!(found, [vec!["late", "inside", "alone"], vec!["op"]]);
}

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn subtrees_print_with_branches_and_details() {
    let trace = model();
    let tree = Tree::build(&trace, TreeOptions::default());
    let view = tree.view(&trace);
    let linear = named(&trace, "aten::linear");
    let fields = ["No such", "Input Dims", "External id"];
    let what = SubtreeText { prune: false, fields: &fields, ..SubtreeText::default() };
    assert_eq!(
        lines(&view.subtree_text(linear, what)),
        [
            "└── UID: 2, Category: cpu_op, Name: aten::linear",
            "    |   Input Dims: [[8, 4], [2, 4]]",
            "    |   External id: 5",
            "    |   ",
            "    ├── UID: 3, Category: cpu_op, Name: aten::t",
            "    ├── UID: 5, Category: cuda_runtime, Name: cudaLaunchKernel",
            "    │   └── UID: 15, Category: kernel, Name: gemm, Duration: 100.0",
            "    └── UID: 7, Category: cuda_runtime, Name: cudaMemsetAsync",
            "        └── UID: 17, Category: gpu_memset, Name: Memset (Device), Duration: 100.0",
        ]
    );
    let pruned = view.subtree_text(linear, SubtreeText::default());
    assert!(!pruned.contains("aten::t\n"));
    let shallow = view.subtree_text(linear, SubtreeText { depth: Some(1), ..SubtreeText::default() });
    assert_eq!(lines(&shallow).len(), 3, "one level: the two calls, not their GPU events");
    assert_eq!(
        view.subtree_text(named(&trace, "aten::t"), SubtreeText::default()),
        "└── UID: 3, Category: cpu_op, Name: aten::t\n",
        "the root is never pruned"
    );
}

// thread 1  |-- aten::mul (7) --|
//             |cudaLaunchKernel|
// thread 2                       |-- evaluate_function: MulBackward0 (7) -----------|
//                                  |-- MulBackward0 (7) ----------|  |-- aten::add --|
//                                    |launch|
fn training() -> Trace {
    let mut b = TraceBuilder::new();
    b.cpu_op("aten::mul", 0.0, 50.0).arg("Sequence number", 7).arg("Input Dims", "[[2]]");
    b.launch("cudaLaunchKernel", 10.0, 5.0, 1);
    b.cpu_op("autograd::engine::evaluate_function: MulBackward0", 100.0, 100.0).on(1, 2).arg("Sequence number", 7);
    b.cpu_op("MulBackward0", 110.0, 50.0).on(1, 2).arg("Sequence number", 7);
    b.launch("cudaLaunchKernel", 120.0, 5.0, 2).on(1, 2);
    b.cpu_op("aten::add", 180.0, 10.0).on(1, 2);
    b.kernel("mul", 20.0, 1.5, 1);
    b.kernel("mul_backward", 130.0, 2.0, 2);
    b.build()
}

#[test]
fn backward_work_prints_below_its_forward() {
    let trace = training();
    let tree = Tree::build(&trace, TreeOptions::default());
    let what = SubtreeText { backward: true, ..SubtreeText::default() };
    let forward = [
        "└── UID: 0, Category: cpu_op, Name: aten::mul",
        "    ├── UID: 2, Category: cuda_runtime, Name: cudaLaunchKernel",
        "    │   └── UID: 9, Category: kernel, Name: mul, Duration: 1.5",
        "    └── [BWD] autograd::engine::evaluate_function: MulBackward0 (UID: 3)",
    ];
    let below = |connector, bar| {
        vec![
            format!("        {connector} UID: 4, Category: cpu_op, Name: MulBackward0"),
            format!("        {bar}   └── UID: 6, Category: cuda_runtime, Name: cudaLaunchKernel"),
            format!("        {bar}       └── UID: 11, Category: kernel, Name: mul_backward, Duration: 2.0"),
        ]
    };
    let expected = |rest: Vec<String>| forward.iter().map(|&l| l.to_owned()).chain(rest).collect::<Vec<_>>();
    assert_eq!(lines(&tree.view(&trace).subtree_text(EventId::from_uid(0), what)), expected(below("└──", " ")));
    // F21: the reference does not prune right below [BWD].
    let reference = Tree::build(&trace, TreeOptions::default().like_reference());
    let mut rest = below("├──", "│");
    rest.push("        └── UID: 7, Category: cpu_op, Name: aten::add".to_owned());
    assert_eq!(lines(&reference.view(&trace).subtree_text(EventId::from_uid(0), what)), expected(rest));
}

#[test]
fn parent_chains_print_and_follow_the_forward_link() {
    let trace = training();
    let tree = Tree::build(&trace, TreeOptions::default());
    let view = tree.view(&trace);
    let kernel = named(&trace, "mul_backward");
    let chain = [
        "Node:",
        "  UID: 11, Category: kernel, Name: mul_backward, Duration: 2.0",
        "1-up:",
        "  UID: 6, Category: cuda_runtime, Name: cudaLaunchKernel",
        "2-up:",
        "  UID: 4, Category: cpu_op, Name: MulBackward0",
        "3-up:",
        "  UID: 3, Category: cpu_op, Name: autograd::engine::evaluate_function: MulBackward0",
    ];
    assert_eq!(lines(&view.parent_chain_text(kernel, &["Input Dims"], ForwardLink::Stop)), chain);
    let rule = "=".repeat(60);
    let forward = [
        "",
        &rule,
        "Following fwd_event link to forward call stack (UID: 0)",
        &rule,
        "Node:",
        "  UID: 0, Category: cpu_op, Name: aten::mul",
        "    Input Dims: [[2]]",
    ];
    let both: Vec<&str> = chain.iter().chain(&forward).copied().collect();
    assert_eq!(lines(&view.parent_chain_text(kernel, &["Input Dims"], ForwardLink::Follow)), both);
}

#[test]
fn call_stacks_are_cut_filtered_and_followed() {
    let trace = training();
    let tree = Tree::build(&trace, TreeOptions::default());
    let view = tree.view(&trace);
    let kernel = named(&trace, "mul_backward");
    let wrapper = "autograd::engine::evaluate_function: MulBackward0";
    assert_eq!(
        view.call_stack(kernel, &[], ForwardLink::Follow),
        ["mul_backward", "cudaLaunchKernel", "MulBackward0", wrapper, "[FWD]", "aten::mul"]
    );
    assert_eq!(view.call_stack(kernel, &["Mul"], ForwardLink::Stop), ["mul_backward", "MulBackward0", wrapper]);
    let long = "é".repeat(300);
    let mut b = TraceBuilder::new();
    b.cpu_op(&long, 0.0, 10.0);
    b.cpu_op(&long, 1.0, 5.0);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let stack = tree.view(&trace).call_stack(EventId::from_uid(1), &[], ForwardLink::Stop);
    assert_eq!(stack, [long.clone(), "é".repeat(256) + ".."]);
    let line = tree.view(&trace).subtree_text(EventId::from_uid(1), SubtreeText::default());
    assert_eq!(line, format!("└── UID: 1, Category: cpu_op, Name: {}..\n", "é".repeat(64)));
}

#[test]
fn links_in_a_circle_end() {
    // Each wrapper's forward lies below the other wrapper: damaged sequence numbers.
    let mut b = TraceBuilder::new();
    b.cpu_op("autograd::engine::evaluate_function: A", 0.0, 100.0).on(1, 1).arg("Sequence number", 1);
    b.cpu_op("forward of B", 10.0, 10.0).on(1, 1).arg("Sequence number", 2);
    b.cpu_op("autograd::engine::evaluate_function: B", 0.0, 100.0).on(1, 2).arg("Sequence number", 2);
    b.cpu_op("forward of A", 10.0, 10.0).on(1, 2).arg("Sequence number", 1);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    assert_eq!(trace.events().filter(|&e| tree.forward_of(e).is_some()).count(), 2);
    let stack = tree.view(&trace).call_stack(EventId::from_uid(0), &[], ForwardLink::Follow);
    assert_eq!(stack.iter().filter(|s| *s == "[FWD]").count(), 2);
}

/// The lines of a text that tell of one of these UIDs.
fn about(text: &str, left_out: &[u32]) -> String {
    let tells = |line: &&str| left_out.iter().all(|uid| !line.contains(&format!("UID: {uid},")));
    text.lines().filter(tells).flat_map(|line| [line, "\n"]).collect()
}

#[test]
fn texts_of_a_real_trace_are_those_of_the_reference() {
    let Some(folder) = shared_traces() else { return };
    let trace = shared_trace(&folder, "h100/gaunernst_bert-small-uncased__1016001");
    let tree = Tree::build(&trace, TreeOptions::default());
    let view: TreeView<'_> = tree.view(&trace);
    let linear = EventId::from_uid(42);
    let all = view.subtree_text(linear, SubtreeText { prune: false, ..SubtreeText::default() });
    assert_eq!(
        about(&all, &[45, 46, 47, 2141]),
        "\
└── UID: 42, Category: cpu_op, Name: aten::linear
    ├── UID: 43, Category: cpu_op, Name: aten::reshape
    │   └── UID: 44, Category: cpu_op, Name: aten::view
    ├── UID: 48, Category: cpu_op, Name: aten::addmm
    │   ├── UID: 49, Category: cpu_op, Name: aten::empty
    │   ├── UID: 2143, Category: cuda_runtime, Name: cudaMemsetAsync
    │   └── UID: 2147, Category: cuda_driver, Name: cuLaunchKernel
    │       └── UID: 2145, Category: kernel, Name: void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_.., Duration: 5.824
    └── UID: 50, Category: cpu_op, Name: aten::view
"
    );
    let fields = ["Input Dims", "Input type"];
    let pruned = view.subtree_text(linear, SubtreeText { fields: &fields, ..SubtreeText::default() });
    let top = "\
└── UID: 42, Category: cpu_op, Name: aten::linear
    |   Input Dims: [[1, 141, 512], [512, 512], [512]]
    |   Input type: ['c10::BFloat16', 'c10::BFloat16', 'c10::BFloat16']
    |   
    └── UID: 48, Category: cpu_op, Name: aten::addmm
";
    assert!(pruned.starts_with(top), "{pruned}");
    let chain = view.parent_chain_text(EventId::from_uid(2145), &["Input Dims"], ForwardLink::Stop);
    let bottom = "\
Node:
  UID: 2145, Category: kernel, Name: void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_.., Duration: 5.824
1-up:
  UID: 2147, Category: cuda_driver, Name: cuLaunchKernel
2-up:
  UID: 48, Category: cpu_op, Name: aten::addmm
    Input Dims: [[512], [141, 512], [512, 512], [], []]
";
    assert!(chain.starts_with(bottom), "{chain}");
}

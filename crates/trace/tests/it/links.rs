//! Launch → GPU links, forward ↔ backward links, recompute marks.

use jarvis_trace::tree::{BackwardLinks, Recompute};
use jarvis_trace::{At, Defect, EventId, Ns, Population, Timeline, Trace, TraceBuilder, Tree, TreeOptions};

fn parity() -> TreeOptions {
    TreeOptions::default().like_reference()
}

fn both() -> [TreeOptions; 2] {
    [TreeOptions::default(), parity()]
}

fn names(trace: &Trace, events: &[EventId]) -> Vec<String> {
    events.iter().map(|&e| trace.name(e).to_owned()).collect()
}

fn named(trace: &Trace, name: &str) -> EventId {
    trace.events().find(|&e| trace.name(e) == name).unwrap()
}

#[test]
fn gpu_events_come_in_order_of_their_calls() {
    // thread 1   |-- op -------------------------|
    //              |late|       |early|               file order: late call first
    // stream 7          |k_late|      |k_early|
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", 50.0, 5.0, 2);
    b.launch("cudaLaunchKernel", 10.0, 5.0, 1);
    b.cpu_op("op", 0.0, 100.0);
    b.kernel("k1", 20.0, 5.0, 1);
    b.kernel("k2", 60.0, 5.0, 2);
    let trace = b.build();
    for (options, order) in both().into_iter().zip([["k1", "k2"], ["k2", "k1"]]) {
        let tree = Tree::build(&trace, options);
        let op = named(&trace, "op");
        assert_eq!(names(&trace, &tree.gpu_events(op)), order, "by time, or as the reference has it");
        let calls: Vec<_> = tree.children(op).collect();
        assert_eq!(names(&trace, &tree.gpu_events(calls[0])), ["k1"], "children are in order of time");
        assert!(tree.is_linked(named(&trace, "k1")) && !tree.is_linked(op));
        assert!(tree.gpu_events(named(&trace, "k1")).is_empty());
        assert!(tree.diagnostics().worst().is_none());
    }
}

#[test]
fn a_call_of_the_driver_inside_one_of_the_runtime_owns_its_kernel() {
    // |-- cudaLaunchKernelExC (1) ------|
    //    |-- cuLaunchKernelEx (2) --|
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernelExC", 0.0, 20.0, 1);
    b.flow('s', "ac2g", 5.0, 2);
    b.event('X', "cuda_driver", "cuLaunchKernelEx", 5.0, 10.0).arg("correlation", 2);
    b.kernel("outer", 30.0, 5.0, 1);
    b.kernel("inner", 40.0, 5.0, 2);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let call = named(&trace, "cudaLaunchKernelExC");
    assert_eq!(names(&trace, &tree.children(call).collect::<Vec<_>>()), ["cuLaunchKernelEx", "outer"]);
    assert_eq!(names(&trace, &tree.gpu_events(call)), ["outer", "inner"]);
    let launcher = tree.view(&trace).launcher_of(named(&trace, "inner")).unwrap();
    assert_eq!(trace.name(launcher), "cuLaunchKernelEx", "a call around a call is no operation");
}

#[test]
fn a_graph_launch_owns_all_its_gpu_events_without_flows() {
    let mut b = TraceBuilder::new();
    b.cpu_op("op", 0.0, 100.0);
    b.runtime("hipGraphLaunch", 10.0, 5.0).arg("correlation", 9);
    for (i, stream) in [7, 8, 7].into_iter().enumerate() {
        b.gpu("kernel", &format!("k{i}"), 20.0 + i as f64, 1.0, 9, stream);
    }
    let trace = b.build();
    for options in both() {
        let tree = Tree::build(&trace, options);
        assert_eq!(names(&trace, &tree.gpu_events(named(&trace, "op"))), ["k0", "k1", "k2"]);
    }
}

#[test]
fn other_graph_launches_count_too_unless_the_reference_is_asked_for() {
    // F10
    let mut b = TraceBuilder::new();
    b.launch("cuGraphLaunch", 10.0, 5.0, 9);
    b.kernel("k0", 20.0, 1.0, 9);
    b.kernel("k1", 21.0, 1.0, 9);
    let trace = b.build();
    let linked = |o| Tree::build(&trace, o).linked_gpu_events().count();
    assert_eq!((linked(TreeOptions::default()), linked(parity())), (2, 1));
}

#[test]
fn a_flow_that_ends_on_its_own_call_links_nothing() {
    // F8: `f` at the place of the runtime call
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", 10.0, 5.0, 1);
    b.event('X', "kernel", "k", 20.0, 1.0).arg("correlation", 1);
    b.flow('f', "ac2g", 10.0, 1);
    let trace = b.build();
    for options in both() {
        let tree = Tree::build(&trace, options);
        assert_eq!(tree.linked_gpu_events().count(), 0);
        assert_eq!(tree.diagnostics().count(Defect::UnlinkedGpuEvent), 1);
    }
}

#[test]
fn of_two_calls_with_one_correlation_the_last_owns_the_kernel() {
    // F9; the calls are those of two ranks merged into one file
    let mut b = TraceBuilder::new();
    b.cpu_op("rank 0", 0.0, 50.0);
    b.launch("cudaLaunchKernel", 10.0, 5.0, 1);
    b.cpu_op("rank 1", 0.0, 50.0).on(2, 1);
    b.launch("cudaLaunchKernel", 10.0, 5.0, 1).on(2, 1);
    b.kernel("k", 20.0, 1.0, 1);
    let trace = b.build();
    for options in both() {
        let tree = Tree::build(&trace, options);
        assert_eq!(names(&trace, &tree.gpu_events(named(&trace, "rank 1"))), ["k"]);
        assert!(tree.gpu_events(named(&trace, "rank 0")).is_empty(), "not counted twice");
        assert_eq!(tree.diagnostics().count(Defect::DuplicateLaunch), 1);
        assert_eq!(tree.diagnostics().count(Defect::SharedCorrelation), 1);
    }
}

#[test]
fn of_two_kernels_of_a_plain_launch_the_last_is_linked() {
    // F11
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", 10.0, 5.0, 1);
    b.kernel("k0", 20.0, 1.0, 1);
    b.kernel("k1", 21.0, 1.0, 1);
    let trace = b.build();
    for options in both() {
        let tree = Tree::build(&trace, options);
        assert_eq!(names(&trace, &tree.linked_gpu_events().collect::<Vec<_>>()), ["k1"]);
        let seen: Vec<_> = tree.diagnostics().seen().map(|(d, n, at)| (d.defect, n, at)).collect();
        let k0 = named(&trace, "k0").uid();
        let call = named(&trace, "cudaLaunchKernel").uid();
        assert_eq!(
            seen,
            [(Defect::AmbiguousLaunch, 1, At::Event(k0)), (Defect::SeveralKernelsPerLaunch, 1, At::Event(call)),]
        );
        assert!(tree.is_gpu_path(named(&trace, "k0")), "an unlinked kernel is still GPU work");
    }
}

#[test]
fn a_fill_without_a_flow_is_linked_by_correlation_unless_the_reference_is_asked_for() {
    // F6: ROCm writes no flow start for fills
    let mut b = TraceBuilder::new();
    b.launch("hipLaunchKernel", 0.0, 5.0, 1);
    b.runtime("hipMemsetAsync", 10.0, 5.0).arg("correlation", 2);
    b.flow('f', "ac2g", 10.0, 2);
    b.gpu("gpu_memset", "Memset (Device)", 20.0, 1.0, 2, 7);
    b.gpu("gpu_memset", "launched before the window", 25.0, 1.0, 3, 7);
    let trace = b.build();
    let linked = |o| {
        let tree = Tree::build(&trace, o);
        (tree.linked_gpu_events().count(), tree.diagnostics().count(Defect::UnlinkedGpuEvent))
    };
    assert_eq!((linked(TreeOptions::default()), linked(parity())), ((1, 1), (0, 2)));
}

#[test]
fn without_correlations_external_ids_link() {
    let mut b = TraceBuilder::new();
    b.flow('s', "ac2g", 10.0, 5);
    b.runtime("hipLaunchKernel", 10.0, 5.0).arg("External id", 5);
    b.flow('f', "ac2g", 20.0, 5).on(0, 7);
    b.event('X', "kernel", "k", 20.0, 1.0).arg("External id", 5);
    let trace = b.build();
    for options in both() {
        assert_eq!(Tree::build(&trace, options).linked_gpu_events().count(), 1);
    }
}

#[test]
fn a_window_of_copies_alone_is_linked_by_correlation() {
    // No call is a launch. External ids are those of the operations around and tie nothing to the GPU.
    let mut b = TraceBuilder::new();
    b.flow('s', "ac2g", 10.0, 5);
    b.runtime("cudaMemcpyAsync", 10.0, 5.0).arg("correlation", 5).arg("External id", 77);
    b.gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 20.0, 1.0, 5, 7).arg("External id", 77);
    let trace = b.build();
    let linked = |options| Tree::build(&trace, options).linked_gpu_events().count();
    assert_eq!((linked(TreeOptions::default()), linked(parity())), (1, 0));
}

#[test]
fn launches_of_a_runtime_that_is_not_read_are_not_called_missing() {
    let mut b = TraceBuilder::new();
    b.event('X', "xpu_runtime", "urEnqueueKernelLaunch", 10.0, 5.0).arg("correlation", 5);
    b.gpu("kernel", "k", 20.0, 1.0, 5, 7);
    let tree = Tree::build(&b.build(), TreeOptions::default());
    let seen: Vec<_> = tree.diagnostics().seen().map(|(d, count, _)| (d.defect, count)).collect();
    assert_eq!(seen, [(Defect::UnreadRuntime, 1)]);
}

#[test]
fn a_discarded_call_still_owns_its_kernel_but_its_caller_does_not() {
    // |-- op --------|
    //         |-- launch --|
    let mut b = TraceBuilder::new();
    b.cpu_op("op", 0.0, 10.0);
    b.launch("cudaLaunchKernel", 8.0, 10.0, 1);
    b.kernel("k", 20.0, 1.0, 1);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let (op, call) = (named(&trace, "op"), named(&trace, "cudaLaunchKernel"));
    assert_eq!(tree.discarded(), [call]);
    assert_eq!(tree.gpu_events(call).len(), 1);
    assert!(tree.gpu_events(op).is_empty() && !tree.is_gpu_path(op));
    assert_eq!(tree.view(&trace).launcher_of(named(&trace, "k")), Some(call));
}

#[test]
fn a_thousand_graph_launches_of_one_number_stay_linear() {
    let mut b = TraceBuilder::new();
    for i in 0..2000 {
        b.runtime("cudaGraphLaunch", f64::from(i), 0.5).arg("correlation", 1);
        b.event('X', "kernel", "k", 1e4 + f64::from(i), 1.0).arg("correlation", 1);
    }
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let last = trace.events().rfind(|&e| trace.kind(e).is_runtime()).unwrap();
    assert_eq!((tree.gpu_event_count(last), tree.launched(last).len()), (2000, 2000));
    assert_eq!(tree.diagnostics().count(Defect::DuplicateLaunch), 2000);
}

// thread 1  |-- linear (7) ----------|
//              |-- addmm (7) --|
// thread 2                              |-- evaluate_function: Addmm (7) --|
//                                          |-- AddmmBackward0 (7) --|
fn training() -> TraceBuilder {
    let wrapper = "autograd::engine::evaluate_function: AddmmBackward0";
    let mut b = TraceBuilder::new();
    b.cpu_op(wrapper, 100.0, 50.0).on(1, 2).arg("Sequence number", 7);
    b.cpu_op("AddmmBackward0", 110.0, 30.0).on(1, 2).arg("Sequence number", 7);
    b.flow('f', "fwdbwd", 110.0, 1).on(1, 2);
    b.cpu_op("aten::linear", 0.0, 40.0).arg("Sequence number", 7);
    b.cpu_op("aten::addmm", 10.0, 20.0).arg("Sequence number", 7);
    b.flow('s', "fwdbwd", 10.0, 1);
    b
}

#[test]
fn backward_belongs_to_the_innermost_forward_operation() {
    let trace = training().build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let (addmm, wrapper) = (named(&trace, "aten::addmm"), EventId::from_uid(0));
    assert_eq!(tree.forward_of(wrapper), Some(addmm));
    assert_eq!(tree.backward_of(addmm).collect::<Vec<_>>(), [wrapper]);
    let linear = named(&trace, "aten::linear");
    assert_eq!(tree.backward_of(linear).count(), 0);
    assert_eq!(tree.subtree_backward(linear).collect::<Vec<_>>(), [wrapper]);
    assert_eq!(tree.forward_of(named(&trace, "AddmmBackward0")), None, "only the wrapper is linked");
    assert_eq!(tree.diagnostics().count(Defect::BackwardLinkMismatch), 0);
}

#[test]
fn recomputed_forward_on_the_backward_thread_is_not_its_own_cause() {
    let mut b = training();
    b.cpu_op("aten::addmm", 102.0, 5.0).on(1, 2).arg("Sequence number", 7);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    assert_eq!(tree.forward_of(EventId::from_uid(0)), Some(named(&trace, "aten::addmm")));
}

#[test]
fn flows_disagree_aloud_and_add_links_on_request() {
    // Forward and backward on one thread: sequence numbers never link them.
    let mut b = TraceBuilder::new();
    b.cpu_op("aten::mm", 0.0, 10.0).arg("Sequence number", 3);
    b.flow('s', "fwdbwd", 0.0, 1);
    b.cpu_op("autograd::engine::evaluate_function: MmBackward0", 20.0, 20.0).arg("Sequence number", 3);
    b.cpu_op("MmBackward0", 22.0, 10.0).arg("Sequence number", 3);
    b.flow('f', "fwdbwd", 22.0, 1);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let links = |tree: &Tree| trace.events().filter(|&e| tree.forward_of(e).is_some()).count();
    assert_eq!((links(&tree), tree.diagnostics().count(Defect::BackwardLinkMismatch)), (0, 1));
    let options = TreeOptions { backward: BackwardLinks::AndFlows, ..TreeOptions::default() };
    let tree = Tree::build(&trace, options);
    assert_eq!(tree.forward_of(EventId::from_uid(2)), Some(EventId::from_uid(0)));
}

#[test]
fn everything_below_a_recompute_frame_is_marked() {
    // thread 2  |-- checkpoint.py: recompute_fn -----|  |-- other ---|
    //              |-- aten::mm --|
    //                 |launch|                             |launch|
    // stream 7               |k1|                                |k2|
    for file in ["torch/utils/checkpoint.py", "torch\\utils\\checkpoint.py"] {
        let mut b = TraceBuilder::new();
        b.python(&format!("{file}(1100): recompute_fn"), 0.0, 100.0).on(1, 2);
        b.cpu_op("aten::mm", 10.0, 50.0).on(1, 2);
        b.launch("cudaLaunchKernel", 20.0, 5.0, 1).on(1, 2);
        b.kernel("k1", 30.0, 5.0, 1);
        b.python(&format!("{file}(300): backward"), 200.0, 100.0).on(1, 2);
        b.launch("cudaLaunchKernel", 220.0, 5.0, 2).on(1, 2);
        b.kernel("k2", 230.0, 5.0, 2);
        b.cpu_op("recompute_fn of torch/utils/checkpoint.py", 400.0, 5.0);
        let trace = b.build();
        let marked = |options| {
            let tree = Tree::build(&trace, options);
            let marked: Vec<EventId> = trace.events().filter(|&e| tree.is_recompute(e)).collect();
            names(&trace, &marked).split_off(1).join(" ")
        };
        let with = TreeOptions::default().with_python();
        assert_eq!(marked(with), "aten::mm cudaLaunchKernel k1");
        let reentrant = TreeOptions { recompute: Recompute::AndReentrant, ..with };
        assert!(marked(reentrant).ends_with("backward cudaLaunchKernel k2"));
        let without = Tree::build(&trace, TreeOptions::default());
        assert!(trace.events().all(|e| !without.is_recompute(e)), "frames are needed to know");
    }
}

#[test]
fn a_trace_without_operations_is_gpu_only() {
    let mut b = TraceBuilder::new();
    b.launch("hipLaunchKernel", 0.0, 5.0, 1);
    b.kernel("k", 10.0, 5.0, 1);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    assert!(tree.is_gpu_only() && tree.roots().is_empty());
    assert_eq!(tree.view(&trace).launcher_of(named(&trace, "k")), Some(named(&trace, "hipLaunchKernel")));
    let empty = Tree::build(&TraceBuilder::new().build(), TreeOptions::default());
    assert!(empty.is_gpu_only() && empty.roots().is_empty() && empty.diagnostics().worst().is_none());
}

#[test]
fn a_kernel_days_away_from_all_calls_is_left_out_and_told() {
    const START: f64 = 3_800_000_000_000.0;
    let mut b = TraceBuilder::new();
    for i in 0..4 {
        b.launch("cudaLaunchKernel", START + 10.0 * f64::from(i), 1.0, i64::from(i));
        b.kernel("k", if i == 2 { 0.0 } else { START + 10.0 * f64::from(i) + 5.0 }, 1.0, i64::from(i));
    }
    let trace = b.build();
    let window = |options: TreeOptions| {
        let tree = Tree::build(&trace, options);
        let timeline: Timeline<Ns> = Timeline::of(&trace, &Population::Linked.of(&trace, &tree), None).unwrap();
        (timeline.total, tree.diagnostics().count(Defect::StrayGpuTime))
    };
    assert_eq!(window(TreeOptions::default()), (Ns(31_000), 1));
    assert!(window(parity()).0 > Ns(1_000_000_000_000_000), "as the reference has it");
    // A GPU with a clock of its own has no strays.
    let mut b = TraceBuilder::new();
    for i in 0..4 {
        b.launch("cudaLaunchKernel", START + 10.0 * f64::from(i), 1.0, i64::from(i));
        b.kernel("k", 10.0 * f64::from(i), 1.0, i64::from(i));
    }
    assert_eq!(Tree::build(&b.build(), TreeOptions::default()).diagnostics().count(Defect::StrayGpuTime), 0);
}

#[test]
fn launches_whose_kernels_are_missing_are_told_where_they_are_many() {
    let lost = |kernels: i64| {
        let mut b = TraceBuilder::new();
        for i in 0..100 {
            b.launch("cudaLaunchKernel", 10.0 * i as f64, 1.0, i);
            if i < kernels {
                b.kernel("k", 10.0 * i as f64 + 5.0, 1.0, i);
            }
        }
        Tree::build(&b.build(), TreeOptions::default()).diagnostics().count(Defect::LaunchWithoutKernel)
    };
    assert_eq!([lost(100), lost(81), lost(80), lost(1)], [0, 0, 20, 99]);
}

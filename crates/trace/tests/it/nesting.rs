//! Host nesting on drawn timelines. One thread unless said otherwise; microseconds.

use jarvis_trace::{Defect, EventId, EventKind, Nesting, Ns, Trace, TraceBuilder, Tree, TreeOptions};

/// An event of a drawing: name, start, duration, category by the first letter of the name (`r…` is a runtime call).
type Bar = (&'static str, f64, f64);

fn trace_of(bars: &[Bar]) -> Trace {
    let mut b = TraceBuilder::new();
    for &(name, ts, dur) in bars {
        if name.starts_with("rt") {
            b.runtime(name, ts, dur)
        } else {
            b.cpu_op(name, ts, dur)
        };
    }
    b.build()
}

/// `name→parent` for each event in file order; `name→` without a parent, `name✗` if it has no place.
fn parents(trace: &Trace, options: TreeOptions) -> String {
    let tree = Tree::build(trace, options);
    let show = |e: EventId| {
        let parent = tree.parent(e).map_or("", |p| trace.name(p));
        let arrow = if tree.discarded().contains(&e) { "✗" } else { "→" };
        format!("{}{arrow}{parent}", trace.name(e))
    };
    trace.events().map(show).collect::<Vec<_>>().join(" ")
}

fn check(bars: &[Bar], expected: &str) {
    let trace = trace_of(bars);
    assert_eq!(parents(&trace, TreeOptions::default()), expected);
    assert_eq!(parents(&trace, float()), expected, "in float microseconds");
}

fn float() -> TreeOptions {
    TreeOptions { nesting: Nesting::Float, ..TreeOptions::default() }
}

#[test]
fn a_bleed_below_a_microsecond_pops_once() {
    // 0         9.5  10    14.5           100
    // |-- R -------------------------------|
    // |-- A ---------|
    //            |-- rtB --|
    check(&[("R", 0.0, 100.0), ("A", 0.0, 10.0), ("rtB", 9.5, 5.0)], "R→ A→R rtB→R");
}

#[test]
fn a_bleed_of_a_microsecond_discards() {
    // |-- R -------------------------------|
    // |-- A ---------|
    //           |-- rtB --|    overlap 1.0
    let bars = [("R", 0.0, 100.0), ("A", 0.0, 10.0), ("rtB", 9.0, 5.0)];
    check(&bars, "R→ A→R rtB✗");
    let tree = Tree::build(&trace_of(&bars), TreeOptions::default());
    assert_eq!(tree.diagnostics().count(Defect::NestingDiscarded), 1);
    assert_eq!(tree.forgiven_overlaps(), 0);
}

#[test]
fn a_bleed_at_depth_one_discards() {
    // |-- A ---------|
    //            |-- rtB --|
    check(&[("A", 0.0, 10.0), ("rtB", 9.5, 5.0)], "A→ rtB✗");
}

#[test]
fn a_bleed_may_outlive_the_new_parent() {
    // |-- R ---------------------------------------|
    //  |-- A 1..11 -------|
    //   |-- A2 2..11 -----|
    //                  |-- B 10.5..15.5 --|
    let bars = [("R", 0.0, 100.0), ("A", 1.0, 10.0), ("A2", 2.0, 9.0), ("B", 10.5, 5.0)];
    check(&bars, "R→ A→R A2→A B→A");
    assert_eq!(Tree::build(&trace_of(&bars), TreeOptions::default()).forgiven_overlaps(), 1);
}

#[test]
fn an_empty_event_is_no_parent() {
    // |-- R ----------|
    //     Z (3..3)
    //     |-- C --|
    check(&[("R", 0.0, 10.0), ("Z", 3.0, 0.0), ("C", 3.0, 2.0)], "R→ Z→R C→R");
}

#[test]
fn an_event_at_the_end_is_outside() {
    // |-- R ----------|
    //                 Z
    check(&[("R", 0.0, 10.0), ("Z", 10.0, 0.0)], "R→ Z→");
}

#[test]
fn equal_starts_nest_by_file_order() {
    // |-- outer ------|
    // |-- inner --|
    check(&[("outer", 10.0, 20.0), ("inner", 10.0, 5.0)], "outer→ inner→outer");
}

#[test]
fn equal_starts_nest_by_length_when_the_inner_comes_first() {
    // |-- root ----------------|
    //    |-- inner --|            first in the file
    //    |-- outer ------|
    let trace = trace_of(&[("root", 0.0, 100.0), ("inner", 10.0, 5.0), ("outer", 10.0, 20.0)]);
    assert_eq!(parents(&trace, TreeOptions::default()), "root→ inner→outer outer→root");
    assert_eq!(parents(&trace, float()), "root→ inner→root outer✗", "the reference loses the outer one");
}

#[test]
fn floats_lose_an_event_that_starts_where_the_last_one_ends() {
    // |A 1000.1..1000.3|
    //                  |-- B --|        1000.1 + 0.2 > 1000.3 in floats
    let trace = trace_of(&[("A", 1000.1, 0.2), ("B", 1000.3, 5.0)]);
    assert_eq!(parents(&trace, TreeOptions::default()), "A→ B→");
    assert_eq!(parents(&trace, float()), "A→ B✗");
    assert_eq!(Tree::build(&trace, TreeOptions::default()).roots().len(), 2);
}

#[test]
fn file_order_does_not_matter_and_threads_are_apart() {
    // thread 1  |-- a ------------|     |-- c --|
    //              |rtx|
    // thread 2     |-- b ------------------|
    //                 |rty|
    let mut b = TraceBuilder::new();
    b.runtime("rty", 4.0, 2.0).on(1, 2);
    b.cpu_op("c", 12.0, 4.0);
    b.runtime("rtx", 3.0, 2.0);
    b.cpu_op("a", 0.0, 10.0);
    b.cpu_op("b", 2.0, 20.0).on(1, 2);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    assert_eq!(parents(&trace, TreeOptions::default()), "rty→b c→ rtx→a a→ b→");
    let roots: Vec<_> = tree.roots().iter().map(|&e| trace.name(e)).collect();
    assert_eq!(roots, ["a", "b", "c"], "roots are in order of time over all threads");
}

#[test]
fn missing_ids_are_a_thread_of_their_own() {
    use jarvis_trace::BuilderArg::Null;
    let mut b = TraceBuilder::new();
    b.cpu_op("a", 0.0, 10.0).on(Null, Null);
    b.cpu_op("b", 1.0, 5.0).on(Null, Null);
    b.cpu_op("c", 1.0, 5.0);
    assert_eq!(parents(&b.build(), TreeOptions::default()), "a→ b→a c→");
}

#[test]
fn an_op_in_a_runtime_call_is_a_root_but_one_in_an_op_is_not() {
    // |-- rt ----------------------------|
    //    |-- op --------|  |-- op2 --|
    //       |-- rt2 --|
    //         |op3|
    let trace = trace_of(&[
        ("rt", 0.0, 100.0),
        ("op", 10.0, 30.0),
        ("rt2", 15.0, 10.0),
        ("op3", 16.0, 5.0),
        ("op2", 50.0, 10.0),
    ]);
    let tree = Tree::build(&trace, TreeOptions::default());
    let roots: Vec<_> = tree.roots().iter().map(|&e| trace.name(e)).collect();
    assert_eq!(roots, ["op", "op2"]);
}

#[test]
fn events_without_a_time_are_left_out_and_counted() {
    let mut b = TraceBuilder::new();
    b.cpu_op("a", 0.0, 10.0);
    b.cpu_op("no start", 1.0, 1.0).without_ts();
    b.cpu_op("no duration", 2.0, 1.0).without_dur();
    b.launch("cudaLaunchKernel", 3.0, 1.0, 1).without_dur();
    b.kernel("k", 5.0, 1.0, 1);
    b.kernel("k2", 5.0, 1.0, 2).without_dur();
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    assert_eq!(tree.diagnostics().count(Defect::MissingTime), 3);
    assert_eq!(tree.diagnostics().count(Defect::MissingGpuTime), 1);
    assert_eq!(tree.roots().len(), 1);
    let kernel = tree.all_gpu_events()[0];
    let call = tree.parent(kernel).expect("a launch without a duration is still a launch");
    assert_eq!((trace.name(call), tree.parent(call)), ("cudaLaunchKernel", None));
    assert!(!tree.contains(call), "but it is not found by name");
}

#[test]
fn python_frames_nest_on_request_and_are_checked_against_their_ids() {
    // |-- main (id 1) -----------------------------|
    //    |-- nn.Module: Net_0 (id 2, parent 1) ---|
    //       |-- aten::mm --|  |-- g (id 3, parent 9) --|
    let mut b = TraceBuilder::new();
    b.python("main", 0.0, 100.0).arg("Python id", 1).arg("Python parent id", jarvis_trace::BuilderArg::Null);
    b.python("nn.Module: Net_0", 10.0, 80.0).arg("Python id", 2).arg("Python parent id", 1);
    b.cpu_op("aten::mm", 20.0, 10.0);
    b.python("g", 40.0, 10.0).arg("Python id", 3).arg("Python parent id", 9);
    let trace = b.build();
    assert_eq!(parents(&trace, TreeOptions::default()), "main→ nn.Module: Net_0→ aten::mm→ g→");
    let with = TreeOptions::default().with_python();
    assert_eq!(parents(&trace, with), "main→ nn.Module: Net_0→main aten::mm→nn.Module: Net_0 g→nn.Module: Net_0");
    let tree = Tree::build(&trace, with);
    assert_eq!(tree.diagnostics().count(Defect::PythonParentMismatch), 1);
    assert_eq!(tree.roots().len(), 1);
}

#[test]
fn annotations_and_other_categories_are_not_in_the_tree() {
    let mut b = TraceBuilder::new();
    b.annotation("step", 0.0, 100.0);
    b.event('X', "overhead", "overhead", 1.0, 50.0);
    b.event('i', "cpu_instant_event", "[memory]", 2.0, 0.0);
    b.cpu_op("op", 3.0, 10.0);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default().with_python());
    let inside: Vec<_> = trace.events().filter(|&e| tree.contains(e)).map(|e| trace.name(e)).collect();
    assert_eq!(inside, ["op"]);
    assert_eq!(tree.parent(EventId::from_uid(999)), None, "an event that does not exist has no parent");
}

#[test]
fn a_hundred_thousand_levels_are_no_problem() {
    // |-- frame 0 ---------------------------|
    //  |-- frame 1 -------------------------|
    //   …  op, launch, kernel at the bottom
    const DEPTH: i64 = 100_000;
    let mut b = TraceBuilder::new();
    for i in 0..DEPTH {
        b.python("frame", 0.0, 0.0).at(Ns(i), Ns(10 * DEPTH - 2 * i));
    }
    b.cpu_op("op", 0.0, 0.0).at(Ns(2 * DEPTH), Ns(1000));
    b.launch("cudaLaunchKernel", 0.0, 0.0, 1).at(Ns(2 * DEPTH + 1), Ns(10));
    b.kernel("k", 1e6, 5.0, 1);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default().with_python());
    let view = tree.view(&trace);
    let (top, kernel) = (EventId::from_uid(0), tree.all_gpu_events()[0]);
    assert_eq!(tree.ancestors(kernel).count(), DEPTH as usize + 2);
    assert_eq!(&tree.gpu_events(top)[..], [kernel]);
    assert_eq!(view.subtree(top).count(), DEPTH as usize + 3);
    assert_eq!(view.subtree(top).filter(|&e| trace.kind(e).is_gpu()).collect::<Vec<_>>(), [kernel]);
    assert_eq!(view.launchers(jarvis_trace::tree::Communication::Include).len(), 1);
    assert_eq!(view.call_stack(kernel, &[], jarvis_trace::tree::ForwardLink::Follow).len(), DEPTH as usize + 3);
    let deepest = tree.ancestors(kernel).filter(|&e| trace.kind(e) == EventKind::PythonFunction).count();
    assert_eq!(deepest, DEPTH as usize);
}

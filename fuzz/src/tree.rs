//! The call tree and the timeline: everything has one place, and the parts add up to the whole.

use jarvis_trace::tree::{Annotations, Communication, ForwardLink, NameIndex, SubtreeText};
use jarvis_trace::{EventId, Nesting, Ns, Overlaps, Population, Summary, Timeline, Trace, Tree, TreeOptions, Us};

/// Times beyond this saturate, and sums of them no longer add up.
const FAR: i64 = 1 << 60;

/// Builds all trees of a trace.
pub(crate) fn tree(data: &[u8]) {
    let Ok(trace) = Trace::parse(data) else { return };
    for options in [
        TreeOptions::default(),
        TreeOptions::default().with_python(),
        TreeOptions::default().with_python().like_reference(),
        TreeOptions { nesting: Nesting::Float, ..TreeOptions::default() },
    ] {
        let tree = Tree::build(&trace, options);
        places(&trace, &tree);
        if options.nesting == Nesting::Exact && near(&trace) {
            exclusive_times(&trace, &tree);
        }
        queries(&trace, &tree);
        for population in [Population::Linked, Population::All] {
            timeline(&trace, &population.of(&trace, &tree));
        }
    }
    let summary = Summary::of(&trace);
    assert_eq!(format!("{summary:?}"), format!("{:?}", Summary::of(&trace)));
}

fn near(trace: &Trace) -> bool {
    trace.events().all(|e| [trace.ts(e), trace.dur(e)].iter().flatten().all(|t| t.0.abs() < FAR))
}

/// Parents and children are two views of one relation without cycles.
fn places(trace: &Trace, tree: &Tree) {
    let (mut with_parent, mut as_child) = (0, 0);
    for e in trace.events() {
        with_parent += usize::from(tree.parent(e).is_some());
        for child in tree.children(e) {
            assert_eq!(tree.parent(child), Some(e), "the parent of {child}");
            as_child += 1;
        }
        assert!(tree.ancestors(e).take(trace.len() + 1).count() <= trace.len(), "a cycle above {e}");
        assert_eq!(tree.gpu_events(e).len(), tree.gpu_event_count(e));
        assert!(tree.launched(e).iter().all(|&gpu| tree.parent(gpu) == Some(e)));
    }
    assert_eq!(with_parent, as_child, "every event stands below one parent");
    let linked = tree.linked_gpu_events().count();
    assert_eq!(tree.all_gpu_events().iter().filter(|&&e| tree.is_linked(e)).count(), linked);
    let tops = trace.events().filter(|&e| tree.parent(e).is_none() && !trace.kind(e).is_gpu());
    assert_eq!(tops.map(|e| tree.gpu_event_count(e)).sum::<usize>(), linked, "GPU events below the tops");
}

/// A host call's time is its own and that of its children, which lie in it one after the other.
fn exclusive_times(trace: &Trace, tree: &Tree) {
    if tree.forgiven_overlaps() > 0 {
        return;
    }
    let span = |e: EventId| (trace.ts(e).unwrap_or_default(), trace.end(e).unwrap_or_default());
    let mut own = vec![Ns(0); trace.len()];
    for e in trace.events().filter(|&e| tree.is_nested(e)) {
        let (start, end) = span(e);
        let (mut rest, mut last) = (end - start, start);
        for child in tree.children(e).filter(|&c| tree.is_nested(c)) {
            let (from, to) = span(child);
            assert!(start <= from && to <= end, "{child} lies outside of {e}");
            assert!(last <= from, "{child} begins before the one before it ends");
            last = to;
            rest = rest - (to - from);
        }
        assert!(rest >= Ns(0), "{e} is shorter than its children");
        own[e.index()] = rest;
    }
    let view = tree.view(trace);
    // From a few tops only: a chain of calls would make this quadratic.
    for top in trace.events().filter(|&e| tree.is_nested(e) && tree.parent(e).is_none()).take(50) {
        let (start, end) = span(top);
        let sum: Ns = view.subtree(top).filter(|&e| tree.is_nested(e)).map(|e| own[e.index()]).sum();
        assert_eq!(sum, end - start, "exclusive times below {top}");
    }
}

fn queries(trace: &Trace, tree: &Tree) {
    let view = tree.view(trace);
    let listed: usize = view.launchers(Communication::Include).iter().map(|l| l.kernels.len()).sum();
    assert_eq!(listed, tree.linked_gpu_events().count(), "every linked GPU event has one launcher");
    for launcher in view.launchers(Communication::Exclude).iter() {
        let busy = view.direct_busy(launcher);
        assert!(busy >= Us(0.0) || busy.0.is_nan());
        view.by_start(launcher.kernels);
    }
    let annotations = Annotations::of(trace);
    for e in trace.events().take(40) {
        view.call_stack(e, &[], ForwardLink::Follow);
        view.parent_chain_text(e, &["dur", "pid", "Input Dims"], ForwardLink::Follow);
        view.module_path(e);
        view.non_module_busy(e);
        annotations.innermost(trace, e);
    }
    for &root in tree.roots().iter().take(10) {
        view.subtree_text(root, SubtreeText { prune: false, fields: &["ts", "args"], backward: true, depth: Some(30) });
    }
    NameIndex::of_tree(trace, tree).find(trace, "aten::mm");
}

/// Busy and idle make the total; what is counted apart makes busy.
fn timeline(trace: &Trace, events: &[EventId]) {
    Timeline::<Us>::of(trace, events, Some(Us(5.0)));
    Overlaps::<Ns>::find(trace, events, |_| None);
    Overlaps::<Us>::find(trace, events, |_| None);
    let Some(t) = Timeline::<Ns>::of(trace, events, Some(Ns(5_000))) else { return };
    if !near(trace) {
        return;
    }
    assert_eq!(t.busy + t.idle, t.total);
    assert_eq!(t.computation + t.exposed_communication + t.exposed_memcpy, t.busy);
    let (small, large) = t.micro_macro_idle.unwrap_or_default();
    assert_eq!(small + large, t.idle);
    assert!(t.communication >= t.exposed_communication && t.memcpy >= t.exposed_memcpy && t.idle >= Ns(0));
    let devices = Timeline::<Ns>::by_device(trace, events, None);
    assert!(devices.iter().all(|(_, d)| d.busy <= t.busy && d.busy + d.idle == d.total));
    assert!(devices.iter().map(|(_, d)| d.busy).sum::<Ns>() >= t.busy);
}

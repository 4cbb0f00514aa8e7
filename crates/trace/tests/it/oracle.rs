//! The rules of nesting and linking written down a second time, plainly: maps and lists, no cleverness. What the crate
//! builds has to agree with it on every shared trace and on random ones.

use std::collections::HashMap;

use jarvis_trace::tree::PythonFrames;
use jarvis_trace::{Clock, Defect, EventId, EventKind, Id, Key, Nesting, Ns, Trace, Tree, TreeOptions, Us};
use proptest::prelude::*;

use crate::support::all_shared_traces;

#[derive(Default)]
struct Oracle {
    parent: HashMap<EventId, EventId>,
    children: HashMap<EventId, Vec<EventId>>,
    gpu_events: HashMap<EventId, Vec<EventId>>,
    roots: Vec<EventId>,
    discarded: Vec<EventId>,
    forgiven: u64,
}

impl Oracle {
    fn build<C: Clock>(trace: &Trace, options: TreeOptions) -> Self {
        let mut oracle = Self::default();
        oracle.nest::<C>(trace, options.python, options.nesting);
        oracle.link(trace);
        oracle
    }

    fn nest<C: Clock>(&mut self, trace: &Trace, python: PythonFrames, nesting: Nesting) {
        let is_host = |e: &EventId| match trace.kind(*e) {
            EventKind::CpuOp | EventKind::Runtime | EventKind::Driver => true,
            EventKind::PythonFunction => python == PythonFrames::With,
            _ => false,
        };
        let mut hosts: Vec<EventId> = trace.events().filter(is_host).filter(|&e| trace.end(e).is_some()).collect();
        let span = |e: EventId| C::span(trace.ts(e).unwrap(), trace.dur(e).unwrap());
        hosts.sort_by_key(|&e| span(e).0);
        if nesting == Nesting::Exact {
            hosts = longer_first(trace, &hosts);
        }
        let mut stacks: HashMap<_, Vec<EventId>> = HashMap::new();
        for e in hosts {
            let stack = stacks.entry(trace.track_id(e)).or_default();
            let (start, end) = span(e);
            while stack.last().is_some_and(|&top| start >= span(top).1) {
                stack.pop();
            }
            if let Some(&top) = stack.last()
                && end > span(top).1
            {
                if span(top).1 - start < C::MICROSECOND && stack.len() >= 2 {
                    stack.pop();
                    self.forgiven += 1;
                } else {
                    self.discarded.push(e);
                    continue;
                }
            }
            if let Some(&top) = stack.last() {
                self.parent.insert(e, top);
                self.children.entry(top).or_default().push(e);
            }
            if trace.kind(e) == EventKind::CpuOp && stack.iter().all(|&s| trace.kind(s) != EventKind::CpuOp) {
                self.roots.push(e);
            }
            stack.push(e);
        }
    }

    fn link(&mut self, trace: &Trace) {
        let is_launch = |e: &EventId| trace.kind(*e).is_runtime() && trace.name(*e).to_lowercase().contains("launch");
        let first = trace.events().find(is_launch);
        let key = match first {
            Some(e) if trace.get(e, Key::Correlation).is_some() => Key::Correlation,
            _ => Key::ExternalId,
        };
        let (mut flow_starts, mut flow_ends) = (HashMap::new(), HashMap::new());
        let mut by_place: HashMap<(Id, Id, i64), EventId> = HashMap::new();
        let mut by_number: HashMap<i64, Vec<EventId>> = HashMap::new();
        for e in trace.events() {
            let place = trace.track(trace.track_id(e));
            match (trace.kind(e), trace.int(e, Key::FlowId), trace.int(e, key)) {
                (EventKind::LaunchFlowStart, Some(id), _) => drop(flow_starts.insert(id, e)),
                (EventKind::LaunchFlowEnd, Some(id), _) => drop(flow_ends.insert(id, place)),
                (kind, _, Some(number)) => {
                    by_place.insert((place.pid, place.tid, number), e);
                    if kind.is_gpu() {
                        by_number.entry(number).or_default().push(e);
                    }
                }
                _ => {}
            }
        }
        for call in trace.events().filter(|&e| trace.kind(e).is_runtime()) {
            let Some(number) = trace.int(call, key) else { continue };
            let targets = if matches!(trace.name(call), "cudaGraphLaunch" | "hipGraphLaunch") {
                by_number.get(&number).cloned().unwrap_or_default()
            } else {
                let place = flow_starts.get(&number).and(flow_ends.get(&number));
                let target = place.and_then(|p| by_place.get(&(p.pid, p.tid, number)).copied());
                target.filter(|&t| trace.kind(t).is_gpu()).into_iter().collect()
            };
            for gpu in targets {
                self.place(gpu, call);
            }
        }
    }

    fn place(&mut self, gpu: EventId, call: EventId) {
        if let Some(&before) = self.parent.get(&gpu) {
            self.children.get_mut(&before).unwrap().retain(|&c| c != gpu);
            let mut above = Some(before);
            while let Some(e) = above {
                self.gpu_events.get_mut(&e).unwrap().retain(|&g| g != gpu);
                above = self.parent.get(&e).copied();
            }
        }
        self.parent.insert(gpu, call);
        self.children.entry(call).or_default().push(gpu);
        let mut above = Some(call);
        while let Some(e) = above {
            self.gpu_events.entry(e).or_default().push(gpu);
            above = self.parent.get(&e).copied();
        }
    }

    fn assert_agrees(&self, trace: &Trace, tree: &Tree, what: &str) {
        let mut roots = self.roots.clone();
        roots.sort_by_key(|&e| (trace.ts(e), e));
        assert_eq!(tree.roots(), roots, "{what}: roots");
        let mut discarded = tree.discarded().to_vec();
        let mut expected = self.discarded.clone();
        discarded.sort_unstable();
        expected.sort_unstable();
        assert_eq!(discarded, expected, "{what}: discarded");
        assert_eq!(tree.forgiven_overlaps(), self.forgiven, "{what}: forgiven");
        let none = Vec::new();
        for e in trace.events() {
            assert_eq!(tree.parent(e), self.parent.get(&e).copied(), "{what}: parent of {e}");
            let children: Vec<EventId> = tree.children(e).collect();
            assert_eq!(&children, self.children.get(&e).unwrap_or(&none), "{what}: children of {e}");
            let gpu = tree.gpu_events(e);
            assert_eq!(&gpu[..], &self.gpu_events.get(&e).unwrap_or(&none)[..], "{what}: GPU events of {e}");
            assert_eq!(tree.gpu_event_count(e), gpu.len(), "{what}: {e}");
            assert_eq!(tree.is_gpu_path(e), trace.kind(e).is_gpu() || !gpu.is_empty(), "{what}: path of {e}");
            let below = tree.view(trace).subtree(e).skip(1);
            let mut walked: Vec<EventId> = below.filter(|&e| trace.kind(e).is_gpu()).collect();
            let mut listed = gpu.to_vec();
            walked.sort_unstable();
            listed.sort_unstable();
            assert_eq!(walked, listed, "{what}: kernels under {e}");
        }
    }
}

/// Events in order of start with ties resolved: the longer outside, empty ones behind what they follow.
fn longer_first(trace: &Trace, hosts: &[EventId]) -> Vec<EventId> {
    // Blocks of events that start together on a thread: first the empty ones before all others, then each of the others
    // with the empty ones behind it.
    let mut groups: Vec<Vec<Vec<EventId>>> = Vec::new();
    let mut known = HashMap::new();
    for &e in hosts {
        let group = *known.entry((trace.ts(e), trace.track_id(e))).or_insert_with(|| {
            groups.push(vec![Vec::new()]);
            groups.len() - 1
        });
        let group = &mut groups[group];
        if trace.dur(e) != Some(Ns(0)) {
            group.push(Vec::new());
        }
        group.last_mut().unwrap().push(e);
    }
    let ordered = groups.into_iter().flat_map(|mut group| {
        group[1..].sort_by_key(|block| std::cmp::Reverse(trace.dur(block[0])));
        group
    });
    ordered.flatten().collect()
}

fn assert_trees_agree(trace: &Trace, what: &str) {
    for python in [PythonFrames::Without, PythonFrames::With] {
        let options = TreeOptions { python, ..TreeOptions::default().like_reference() };
        Oracle::build::<Ns>(trace, options).assert_agrees(trace, &Tree::build(trace, options), what);
        let options = TreeOptions { nesting: Nesting::Float, ..options };
        Oracle::build::<Us>(trace, options).assert_agrees(trace, &Tree::build(trace, options), what);
    }
}

#[test]
fn trees_of_real_traces_follow_the_rules() {
    for (name, _, trace) in all_shared_traces() {
        assert_trees_agree(&trace, &name);
    }
}

/// A random event: what, thread or stream, start and length in steps of 0.25 µs, correlation, variant.
type Draw = (u8, i64, u32, u32, i64, u8);

fn draw() -> impl Strategy<Value = Vec<Draw>> {
    prop::collection::vec((0u8..6, 0i64..3, 0u32..60, 0u32..50, 0i64..8, 0u8..8), 0..70)
}

fn random_trace(events: &[Draw]) -> Trace {
    let mut b = jarvis_trace::TraceBuilder::new();
    for &(what, lane, ts, dur, correlation, variant) in events {
        let (ts, dur) = (f64::from(ts) / 4.0, f64::from(dur) / 4.0);
        match what {
            0 => drop(b.cpu_op("op", ts, dur).on(1, lane)),
            1 => drop(b.python("frame", ts, dur).on(1, lane)),
            2 | 3 => {
                let name = if variant == 7 { "cudaGraphLaunch" } else { "cudaLaunchKernel" };
                if variant > 0 {
                    b.flow('s', "ac2g", ts, correlation).on(1, lane);
                }
                if variant == 6 {
                    // The end of a flow on the call itself leads nowhere.
                    b.flow('f', "ac2g", ts, correlation).on(1, lane);
                }
                b.runtime(name, ts, dur).on(1, lane).arg("correlation", correlation);
            }
            _ => {
                if variant > 0 {
                    b.flow('f', "ac2g", ts, correlation).on(0, lane);
                }
                b.event('X', "kernel", "k", ts, dur).on(0, lane).arg("correlation", correlation);
            }
        }
    }
    b.build()
}

proptest! {
    #[test]
    fn trees_of_random_traces_follow_the_rules(events in draw()) {
        assert_trees_agree(&random_trace(&events), "random");
    }

    #[test]
    fn a_child_lies_in_its_parent_unless_an_overlap_was_forgiven(events in draw()) {
        let trace = random_trace(&events);
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        prop_assume!(tree.forgiven_overlaps() == 0);
        for e in trace.events().filter(|&e| !trace.kind(e).is_gpu()) {
            if let Some(parent) = tree.parent(e) {
                prop_assert!(trace.ts(e) >= trace.ts(parent) && trace.end(e) <= trace.end(parent));
            }
        }
    }

    /// The time of a call is its own and that of the calls in it, one after the other.
    #[test]
    fn exclusive_times_add_up(events in draw()) {
        let trace = random_trace(&events);
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        prop_assume!(tree.forgiven_overlaps() == 0);
        let hosts: Vec<EventId> = trace.events().filter(|&e| tree.is_nested(e)).collect();
        let dur = |e: EventId| trace.dur(e).unwrap();
        let inside = |e: EventId| tree.children(e).filter(|&c| tree.is_nested(c)).map(dur).sum::<Ns>();
        for &e in &hosts {
            prop_assert!(inside(e) <= dur(e), "{e} is shorter than what is in it");
        }
        let view = tree.view(&trace);
        for &top in hosts.iter().filter(|&&e| tree.parent(e).is_none()) {
            let own: Ns = view.subtree(top).filter(|&e| tree.is_nested(e)).map(|e| dur(e) - inside(e)).sum();
            prop_assert_eq!(own, dur(top));
        }
        let all: Ns = hosts.iter().map(|&e| dur(e) - inside(e)).sum();
        let tops: Ns = hosts.iter().filter(|&&e| tree.parent(e).is_none()).map(|&e| dur(e)).sum();
        prop_assert_eq!(all, tops, "all exclusive times make the time of the outermost calls");
    }

    /// Every GPU event stands in one place: under one launch, or under none and then counted.
    #[test]
    fn every_gpu_event_has_one_place(events in draw()) {
        let trace = random_trace(&events);
        let tree = Tree::build(&trace, TreeOptions::default());
        let placed: usize = trace.events().map(|e| tree.launched(e).len()).sum();
        prop_assert_eq!(placed, tree.linked_gpu_events().count());
        let unlinked = [Defect::UnlinkedGpuEvent, Defect::AmbiguousLaunch].map(|d| tree.diagnostics().count(d));
        prop_assert_eq!(placed + unlinked.iter().sum::<u64>() as usize, tree.all_gpu_events().len());
    }
}

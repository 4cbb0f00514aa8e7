//! Forward operations and the backward work they caused.

use super::Tree;
use super::by_key::ByKey;
use super::nest::NONE;
use super::roles::LinkRoles;
use crate::diagnostics::{At, Defect};
use crate::model::{EventId, EventKind, Key, Ns, StrId, Trace, TrackId};
use crate::parity::Fidelity;
use crate::side_by_side::both_if;

/// How the autograd engine names the event around the backward of one operation.
const WRAPPER: &str = "autograd::engine::evaluate_function:";

/// Where forward and backward are tied together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackwardLinks {
    /// By sequence number alone, as the reference does.
    #[default]
    SequenceNumber,
    /// Recorded flows add what sequence numbers leave unlinked, such as a backward on the thread of its forward.
    AndFlows,
}

/// A forward event and a backward wrapper it caused.
#[derive(Debug, Clone, Copy)]
struct Pair {
    forward: EventId,
    backward: EventId,
}

/// Forward ↔ backward, by either side.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    /// By (node of the forward event, its UID), so the forwards below a node stand together.
    by_forward: Vec<((u32, EventId), EventId)>,
    /// By backward event.
    by_backward: Vec<(EventId, EventId)>,
}

impl Pairs {
    pub(crate) fn backward_of(&self, node: u32, forward: EventId) -> impl ExactSizeIterator<Item = EventId> + '_ {
        let key = (node, forward);
        let from = self.by_forward.partition_point(|p| p.0 < key);
        let to = self.by_forward.partition_point(|p| p.0 <= key);
        self.by_forward[from..to].iter().map(|p| p.1)
    }

    pub(crate) fn backward_below(&self, nodes: std::ops::Range<u32>) -> impl ExactSizeIterator<Item = EventId> + '_ {
        let from = self.by_forward.partition_point(|p| p.0.0 < nodes.start);
        let to = self.by_forward.partition_point(|p| p.0.0 < nodes.end);
        self.by_forward[from..to].iter().map(|p| p.1)
    }

    pub(crate) fn forward_of(&self, backward: EventId) -> Option<EventId> {
        let i = self.by_backward.binary_search_by_key(&backward, |p| p.0).ok()?;
        Some(self.by_backward[i].1)
    }
}

/// What is known of forward and backward before the host nodes are.
#[derive(Debug)]
pub(crate) struct Backward {
    wrappers: Wrappers,
    /// By sequence number, in order of the backward events.
    pairs: Vec<Pair>,
    /// Where flows begin, by their number, and where they end.
    starts: ByKey,
    ends: Vec<EventId>,
}

impl Backward {
    /// `None` if the recording knows of no backward work.
    pub(crate) fn of(trace: &Trace, roles: &mut LinkRoles, fidelity: Fidelity) -> Option<Self> {
        if roles.sequenced.is_empty() && roles.backward_ends.is_empty() {
            return None;
        }
        let wrappers = Wrappers::of(trace);
        let mut pairs = by_sequence_number(trace, &roles.sequenced, &wrappers, fidelity);
        pairs.sort_by_key(|p| p.backward);
        let ends = std::mem::take(&mut roles.backward_ends);
        let starts =
            if ends.is_empty() { ByKey::default() } else { ByKey::new(trace, Key::FlowId, &roles.backward_starts) };
        Some(Self { wrappers, pairs, starts, ends })
    }
}

impl Tree {
    /// Ties forward and backward together; needs the host nodes.
    pub(crate) fn link_backward(&mut self, trace: &Trace, backward: Backward, side_by_side: bool) {
        let (first, second) = backward.ends.split_at(backward.ends.len() / 2);
        let check = |ends| self.check_flows(trace, &backward, ends);
        let (first, second) = both_if(side_by_side, || check(first), || check(second));
        let mut pairs = backward.pairs;
        for (wrapper, forward) in first.into_iter().chain(second) {
            self.diagnostics.add(Defect::BackwardLinkMismatch, At::Event(wrapper.uid()));
            if self.options.backward == BackwardLinks::AndFlows {
                pairs.extend(forward.map(|forward| Pair { forward, backward: wrapper }));
            }
        }
        if self.options.backward == BackwardLinks::AndFlows {
            pairs.sort_by_key(|p| p.backward);
            pairs.dedup_by_key(|p| p.backward);
        }
        let mut by_forward: Vec<_> =
            pairs.iter().map(|p| ((self.node_of[p.forward.index()], p.forward), p.backward)).collect();
        by_forward.sort_by_key(|p| p.0);
        if self.options.fidelity.orders_by_time() {
            by_forward.chunk_by_mut(|a, b| a.0 == b.0).for_each(|of_one| of_one.sort_by_key(|p| trace.ts(p.1)));
        }
        let by_backward = pairs.iter().map(|p| (p.backward, p.forward)).collect();
        self.pairs = Pairs { by_forward, by_backward };
    }

    /// Compares links by sequence number with recorded flows. Gives the wrappers that disagree, each with its forward
    /// event where only the flow knows one.
    fn check_flows(&self, trace: &Trace, backward: &Backward, ends: &[EventId]) -> Vec<(EventId, Option<EventId>)> {
        let mut mismatches = Vec::new();
        for &end in ends {
            let Some(id) = trace.int(end, Key::FlowId) else { continue };
            let Some(&start) = backward.starts.get(id).last() else { continue };
            let Some(wrapper) = self.wrapper_at(trace, end, &backward.wrappers) else { continue };
            let known = backward.pairs.binary_search_by_key(&wrapper, |p| p.backward);
            let known = known.ok().map(|i| backward.pairs[i].forward);
            if known.is_some_and(|f| place_of(trace, f) == place_of(trace, start)) {
                continue;
            }
            let forward = if known.is_none() { self.ops_at(trace, start).last() } else { None };
            mismatches.push((wrapper, forward));
        }
        mismatches
    }

    /// The wrapper around the operation that a flow leads to.
    fn wrapper_at(&self, trace: &Trace, end: EventId, wrappers: &Wrappers) -> Option<EventId> {
        // The profiler writes the end of a flow right behind the operation, which spares the search.
        let before = EventId(end.uid().wrapping_sub(1));
        let is_op = |&e: &EventId| {
            e.index() < trace.len() && trace.kind(e) == EventKind::CpuOp && place_of(trace, e) == place_of(trace, end)
        };
        let around = |op| std::iter::successors(Some(op), |&e| self.parent(e)).find(|&e| wrappers.contains(trace, e));
        Some(before).filter(is_op).and_then(around).or_else(|| self.ops_at(trace, end).find_map(around))
    }

    /// The operations that start where a flow begins or ends, outermost first.
    fn ops_at<'a>(&'a self, trace: &'a Trace, flow: EventId) -> impl Iterator<Item = EventId> + 'a {
        let (thread, ts) = place_of(trace, flow);
        let nodes = self.threads.iter().find(|t| t.track == thread).map_or(0..0, |t| t.nodes.clone());
        let nodes = &self.event_of[nodes.start as usize..nodes.end as usize];
        let first = nodes.partition_point(|&e| trace.ts(e) < ts);
        nodes[first..]
            .iter()
            .copied()
            .take_while(move |&e| trace.ts(e) == ts)
            .filter(|&e| trace.kind(e) == EventKind::CpuOp)
    }

    /// Node range of an event and all below it; empty for events that are no host nodes.
    pub(crate) fn node_range(&self, e: EventId) -> std::ops::Range<u32> {
        match self.node(e) {
            Some(n) if n < self.hosts() => n..self.end[n as usize],
            _ => NONE..NONE,
        }
    }
}

/// Which names are those of wrappers: each distinct name is looked at once.
#[derive(Debug)]
struct Wrappers {
    of_name: Vec<bool>,
}

impl Wrappers {
    fn of(trace: &Trace) -> Self {
        let is_wrapper = |i| trace.text(StrId(i as u32)).starts_with(WRAPPER);
        Self { of_name: (0..trace.strings().len()).map(is_wrapper).collect() }
    }

    fn contains(&self, trace: &Trace, e: EventId) -> bool {
        self.of_name[trace.name_id(e).index()]
    }
}

fn place_of(trace: &Trace, e: EventId) -> (TrackId, Option<Ns>) {
    (trace.track_id(e), trace.ts(e))
}

/// The first wrapper with a number belongs to the event with that number on another thread that starts last: the
/// innermost forward operation. Of several that start together it is the outermost, which the profiler writes first.
fn by_sequence_number(trace: &Trace, sequenced: &[EventId], wrappers: &Wrappers, fidelity: Fidelity) -> Vec<Pair> {
    let by_time = fidelity.orders_by_time();
    // What file order decides where the reference is followed, length does here.
    let start = |e: EventId| (trace.ts(e), trace.dur(e).filter(|_| by_time));
    let first = |best: EventId, e: EventId| if by_time && trace.ts(e) < trace.ts(best) { e } else { best };
    let pair = |group: &[EventId]| {
        let backward = group.iter().copied().filter(|&e| wrappers.contains(trace, e)).reduce(first)?;
        let thread = trace.track_id(backward);
        let others = group.iter().copied().filter(|&e| trace.track_id(e) != thread && trace.ts(e).is_some());
        // Of equal starts the first wins, so a later one has to be greater.
        let forward = others.reduce(|best, e| if start(e) > start(best) { e } else { best })?;
        Some(Pair { forward, backward })
    };
    ByKey::new(trace, Key::SequenceNumber, sequenced).groups().filter_map(pair).collect()
}

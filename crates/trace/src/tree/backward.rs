//! Forward operations and the backward work they caused.

use super::Tree;
use super::nest::NONE;
use super::roles::Roles;
use crate::diagnostics::{At, Defect};
use crate::model::{EventId, EventKind, Key, Ns, Trace, TrackId};

/// How the autograd engine names the event around the backward of one operation.
pub(crate) const WRAPPER: &str = "autograd::engine::evaluate_function:";

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

    pub(crate) fn len(&self) -> usize {
        self.by_backward.len()
    }
}

impl Tree {
    /// Ties forward and backward together; needs the host nodes.
    pub(crate) fn link_backward(&mut self, trace: &Trace, roles: &Roles) {
        let mut pairs = by_sequence_number(trace, &roles.sequenced);
        pairs.sort_by_key(|p| p.backward);
        if !roles.backward_ends.is_empty() {
            let added = self.check_flows(trace, roles, &pairs);
            if self.options.backward == BackwardLinks::AndFlows {
                pairs.extend(added);
                pairs.sort_by_key(|p| p.backward);
            }
        }
        let mut by_forward: Vec<_> =
            pairs.iter().map(|p| ((self.node_of[p.forward.index()], p.forward), p.backward)).collect();
        by_forward.sort_by_key(|p| p.0);
        let by_backward = pairs.iter().map(|p| (p.backward, p.forward)).collect();
        self.pairs = Pairs { by_forward, by_backward };
    }

    /// Compares links by sequence number with the recorded flows. Gives the pairs that only the flows know.
    fn check_flows(&mut self, trace: &Trace, roles: &Roles, pairs: &[Pair]) -> Vec<Pair> {
        let mut starts: Vec<(i64, EventId)> =
            roles.backward_starts.iter().filter_map(|&e| Some((trace.int(e, Key::FlowId)?, e))).collect();
        // Stable, so the last of equal ids is the last in the file.
        starts.sort_by_key(|s| s.0);
        let mut added: Vec<Pair> = Vec::new();
        for &end in &roles.backward_ends {
            let Some(id) = trace.int(end, Key::FlowId) else { continue };
            let after = starts.partition_point(|s| s.0 <= id);
            let Some(&(_, start)) = after.checked_sub(1).map(|i| &starts[i]).filter(|s| s.0 == id) else { continue };
            let Some(wrapper) = self.ops_at(trace, end).find_map(|op| self.wrapper_of(trace, op)) else { continue };
            let known = pairs.binary_search_by_key(&wrapper, |p| p.backward).ok().map(|i| pairs[i].forward);
            if known.is_some_and(|f| place_of(trace, f) == place_of(trace, start)) {
                continue;
            }
            self.diagnostics.add(Defect::BackwardLinkMismatch, At::Event(wrapper.uid()));
            if known.is_none()
                && added.iter().all(|p| p.backward != wrapper)
                && let Some(forward) = self.ops_at(trace, start).last()
            {
                added.push(Pair { forward, backward: wrapper });
            }
        }
        added
    }

    /// The operations that start where a flow begins or ends, outermost first.
    fn ops_at<'a>(&'a self, trace: &'a Trace, flow: EventId) -> impl Iterator<Item = EventId> + 'a {
        let (track, ts) = place_of(trace, flow);
        let nodes = self.threads.iter().find(|t| t.track == track).map_or(0..0, |t| t.nodes.clone());
        let nodes = &self.event_of[nodes.start as usize..nodes.end as usize];
        let first = nodes.partition_point(|&e| trace.ts(e) < ts);
        nodes[first..]
            .iter()
            .copied()
            .take_while(move |&e| trace.ts(e) == ts)
            .filter(|&e| trace.kind(e) == EventKind::CpuOp)
    }

    fn wrapper_of(&self, trace: &Trace, op: EventId) -> Option<EventId> {
        std::iter::successors(Some(op), |&e| self.parent(e)).find(|&e| trace.name(e).starts_with(WRAPPER))
    }

    /// Node range of an event and all below it; empty for events that are no host nodes.
    pub(crate) fn node_range(&self, e: EventId) -> std::ops::Range<u32> {
        match self.node(e) {
            Some(n) if n < self.hosts() => n..self.end[n as usize],
            _ => NONE..NONE,
        }
    }
}

fn place_of(trace: &Trace, e: EventId) -> (TrackId, Option<Ns>) {
    (trace.track_id(e), trace.ts(e))
}

/// The first wrapper with a number belongs to the event with that number on another thread that starts last: the
/// innermost forward operation.
fn by_sequence_number(trace: &Trace, sequenced: &[EventId]) -> Vec<Pair> {
    let mut numbered: Vec<(i64, EventId)> =
        sequenced.iter().filter_map(|&e| Some((trace.int(e, Key::SequenceNumber)?, e))).collect();
    numbered.sort_by_key(|n| n.0);
    let pair = |group: &[(i64, EventId)]| {
        let backward = group.iter().map(|n| n.1).find(|&e| trace.name(e).starts_with(WRAPPER))?;
        let thread = trace.track_id(backward);
        let others = group.iter().map(|n| n.1).filter(|&e| trace.track_id(e) != thread && trace.ts(e).is_some());
        // Of equal starts the first wins, so a later one has to be greater.
        let forward = others.reduce(|best, e| if trace.ts(e) > trace.ts(best) { e } else { best })?;
        Some(Pair { forward, backward })
    };
    numbered.chunk_by(|a, b| a.0 == b.0).filter_map(pair).collect()
}

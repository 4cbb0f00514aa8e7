//! Events by name.

use super::Tree;
use super::nest::start_order;
use crate::clock::Us;
use crate::model::{EventId, Ns, StrId, Trace};
use crate::parity::Nesting;

/// Events grouped by name.
#[derive(Debug)]
pub struct NameIndex {
    /// Where the events of a name start in `events`; one more entry than the trace has texts.
    first: Vec<u32>,
    events: Vec<EventId>,
}

impl NameIndex {
    /// All events of a trace whatever they are; file order within a name.
    pub fn of_trace(trace: &Trace) -> Self {
        Self::group(trace, (0..trace.len() as u32).map(EventId))
    }

    /// The events of a tree; within a name host events in order of time (those without a place too), then linked GPU
    /// events in link order.
    pub fn of_tree(trace: &Trace, tree: &Tree) -> Self {
        let mut events: Vec<EventId> = tree
            .threads
            .iter()
            .flat_map(|t| &tree.event_of[t.nodes.start as usize..t.nodes.end as usize])
            .copied()
            .collect();
        events.extend(tree.discarded());
        events.sort_by(|&a, &b| match tree.options().nesting {
            Nesting::Exact => start_order::<Ns>(trace, a, b),
            Nesting::Float => start_order::<Us>(trace, a, b),
        });
        events.extend(tree.links_in_order());
        Self::group(trace, events.into_iter())
    }

    fn group(trace: &Trace, events: impl Iterator<Item = EventId> + Clone) -> Self {
        let mut first = vec![0u32; trace.strings().len() + 1];
        let mut count = 0;
        for e in events.clone() {
            first[trace.name_id(e).index() + 1] += 1;
            count += 1;
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut next = first.clone();
        let mut grouped = vec![EventId(0); count];
        for e in events {
            let at = &mut next[trace.name_id(e).index()];
            grouped[*at as usize] = e;
            *at += 1;
        }
        Self { first, events: grouped }
    }

    /// Events with the name of this handle.
    pub fn get(&self, name: StrId) -> &[EventId] {
        &self.events[self.first[name.index()] as usize..self.first[name.index() + 1] as usize]
    }

    /// Events with exactly this name.
    pub fn find(&self, trace: &Trace, name: &str) -> &[EventId] {
        trace.strings().find(name).map_or(&[], |name| self.get(name))
    }

    /// Events whose name passes a test, name by name in order of the trace's texts. The test runs once per name.
    pub fn matching<'a>(
        &'a self,
        trace: &'a Trace,
        test: impl Fn(&str) -> bool + 'a,
    ) -> impl Iterator<Item = (StrId, &'a [EventId])> + 'a {
        let names = (0..self.first.len() - 1).map(|i| StrId(i as u32));
        names
            .map(|name| (name, self.get(name)))
            .filter(move |(name, events)| !events.is_empty() && test(trace.text(*name)))
    }
}

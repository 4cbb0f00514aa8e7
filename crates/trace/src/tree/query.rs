//! Questions that need both the tree and the trace: names, kinds and times beside structure.

use super::Tree;
use super::nodes::PythonFrames;
use crate::clock::{Clock, Us};
use crate::interval::IntervalSet;
use crate::model::{EventId, Ns, Trace};
use crate::shortened;

/// Start of the names of module calls.
const MODULE: &str = "nn.Module:";

/// Stands where a name was longer.
pub(super) const CUT: &str = "..";

/// Longest name of an ancestor in a call stack, in characters.
const STACK_NAME: usize = 256;

/// Whether a call stack goes on in the forward pass where a backward one ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardLink {
    /// Ends at the outermost event.
    #[default]
    Stop,
    /// Goes on at the forward operation.
    Follow,
}

/// A tree with the trace it was built from.
#[derive(Debug, Clone, Copy)]
pub struct TreeView<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) tree: &'a Tree,
}

impl Tree {
    /// The tree with its trace, for questions that need both. The trace has to be the one it was built from.
    pub fn view<'a>(&'a self, trace: &'a Trace) -> TreeView<'a> {
        TreeView { trace, tree: self }
    }
}

impl<'a> TreeView<'a> {
    /// The trace.
    pub fn trace(self) -> &'a Trace {
        self.trace
    }

    /// The tree.
    pub fn tree(self) -> &'a Tree {
        self.tree
    }

    /// An event and everything below it, depth first, children in their order.
    pub fn subtree(self, e: EventId) -> impl Iterator<Item = EventId> + 'a {
        let mut open = vec![e];
        let mut children: Vec<EventId> = Vec::new();
        std::iter::from_fn(move || {
            let e = open.pop()?;
            children.extend(self.tree.children(e));
            open.extend(children.drain(..).rev());
            Some(e)
        })
    }

    /// Time during which at least one of the events runs, in the arithmetic that the tree was built for.
    pub fn busy(self, events: &[EventId]) -> Us {
        if self.tree.options().fidelity.measures_in_floats() {
            busy::<Us>(self.trace, events)
        } else {
            Us(busy::<Ns>(self.trace, events).as_us())
        }
    }

    /// Time during which the GPU runs something launched below an event; overlapping work counts once.
    pub fn subtree_busy(self, e: EventId) -> Us {
        self.busy(&self.tree.gpu_events(e))
    }

    /// Whether an event is a call of an `nn.Module`.
    pub fn is_module(self, e: EventId) -> bool {
        self.trace.name(e).starts_with(MODULE)
    }

    /// Labels of the modules around an event, outermost first; `["root"]` where there are none. `None` without Python
    /// frames and for events that are not nested.
    pub fn module_path(self, e: EventId) -> Option<Vec<&'a str>> {
        if !self.tree.is_nested(e) || self.tree.options().python == PythonFrames::Without {
            return None;
        }
        let names = self.tree.ancestors(e).map(|e| self.trace.name(e)).filter(|name| name.starts_with(MODULE));
        let mut labels: Vec<&str> = names.map(module_label).collect();
        labels.reverse();
        if labels.is_empty() {
            labels.push("root");
        }
        Some(labels)
    }

    /// The innermost module around an event.
    pub fn module_of(self, e: EventId) -> Option<EventId> {
        self.tree.ancestors(e).find(|&e| self.is_module(e))
    }

    /// The outermost modules below an event.
    pub fn child_modules(self, e: EventId) -> Vec<EventId> {
        let mut modules = Vec::new();
        let range = self.tree.node_range(e);
        let mut node = range.start.saturating_add(1);
        // Nodes are in preorder, so skipping a module's own nodes leaves the outermost ones.
        while node < range.end {
            let event = self.tree.event_of[node as usize];
            if self.is_module(event) {
                modules.push(event);
                node = self.tree.end[node as usize];
            } else {
                node += 1;
            }
        }
        modules
    }

    /// GPU time below a module that is not below one of its child modules.
    pub fn non_module_busy(self, e: EventId) -> Us {
        let mut inside: Vec<EventId> =
            self.child_modules(e).iter().flat_map(|&m| self.tree.gpu_events(m).into_owned()).collect();
        inside.sort_unstable();
        let own =
            self.tree.gpu_events(e).iter().copied().filter(|k| inside.binary_search(k).is_err()).collect::<Vec<_>>();
        self.busy(&own)
    }

    /// Names of an event and of the events around it, innermost first. Names of ancestors are cut after 256
    /// characters; with a filter only ancestors whose name contains one of its texts are kept. Following the forward
    /// link adds `"[FWD]"` and the stack of the forward operation.
    pub fn call_stack(self, e: EventId, filter: &[&str], forward: ForwardLink) -> Vec<String> {
        let mut stack = Vec::new();
        for e in self.chain_starts(e, forward) {
            if !stack.is_empty() {
                stack.push("[FWD]".to_owned());
            }
            stack.push(self.trace.name(e).to_owned());
            let names = self.tree.ancestors(e).map(|a| self.trace.name(a));
            let kept = names.filter(|name| filter.is_empty() || filter.iter().any(|f| name.contains(f)));
            stack.extend(kept.map(|name| shortened(name, STACK_NAME, CUT).into_owned()));
        }
        stack
    }

    /// Where the chains of parents of an event start: at the event itself and, if forward links are followed, at the
    /// forward operation of each chain's outermost event.
    pub fn chain_starts(self, e: EventId, forward: ForwardLink) -> Vec<EventId> {
        let mut starts = vec![e];
        // Damaged sequence numbers could lead in a circle.
        let mut tops = Vec::new();
        let mut at = Some(e);
        while forward == ForwardLink::Follow
            && let Some(e) = at
        {
            let top = self.tree.ancestors(e).last().unwrap_or(e);
            at = if tops.contains(&top) { None } else { self.tree.forward_of(top) };
            tops.push(top);
            starts.extend(at);
        }
        starts
    }
}

/// Time during which at least one of the events runs.
pub(crate) fn busy<T: Clock>(trace: &Trace, events: &[EventId]) -> T {
    match *events {
        // Most operations launch one kernel.
        [e] => T::span_of(trace, e).map_or(T::ZERO, |(start, end)| end - start),
        _ => events.iter().filter_map(|&e| T::span_of(trace, e)).collect::<IntervalSet<T>>().measure(),
    }
}

/// `nn.Module: Linear_3` → `nn.Module: Linear`.
fn module_label(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match stem.strip_suffix('_') {
        Some(label) if stem.len() < name.len() => label,
        _ => name,
    }
}

//! The notions of the comparison about a node of one tree.

use jarvis_trace::{EventId, EventKind, Trace, Tree, TreeView};
use rapidhash::RapidHashMap;

use super::names::{NameTable, NamesOf};

/// Start of the names of module calls.
const MODULE: &str = "nn.Module:";

/// A tree with the changes that the comparison makes to it.
#[derive(Debug)]
pub(crate) struct Nodes<'a> {
    pub(crate) view: TreeView<'a>,
    names: NamesOf,
    /// Children of nodes whose children were replaced.
    children: RapidHashMap<EventId, Vec<EventId>>,
    /// Parents of nodes that were moved.
    parents: RapidHashMap<EventId, EventId>,
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(view: TreeView<'a>) -> Self {
        Self {
            view,
            names: NamesOf::new(view.trace()),
            children: RapidHashMap::default(),
            parents: RapidHashMap::default(),
        }
    }

    pub(crate) fn trace(&self) -> &'a Trace {
        self.view.trace()
    }

    pub(crate) fn tree(&self) -> &'a Tree {
        self.view.tree()
    }

    pub(crate) fn name(&mut self, table: &mut NameTable, e: EventId) -> u32 {
        let trace = self.view.trace();
        self.names.get(table, trace, trace.name_id(e))
    }

    pub(crate) fn children(&self, e: EventId) -> Vec<EventId> {
        self.children.get(&e).map_or_else(|| self.tree().children(e).collect(), Clone::clone)
    }

    pub(crate) fn is_gpu_path(&self, e: EventId) -> bool {
        self.tree().is_gpu_path(e)
    }

    pub(crate) fn gpu_children(&self, e: EventId) -> Vec<EventId> {
        let mut children = self.children(e);
        children.retain(|&c| self.is_gpu_path(c));
        children
    }

    /// A runtime or driver call that is no graph launch.
    pub(crate) fn is_dispatch(&self, e: EventId) -> bool {
        is_dispatch(self.trace(), e)
    }

    /// Gives a node the children of another.
    pub(crate) fn adopt(&mut self, node: EventId, from: EventId) {
        let children = self.children(from);
        for &child in &children {
            self.parents.insert(child, node);
        }
        self.children.insert(node, children);
    }

    pub(crate) fn parent(&self, e: EventId) -> Option<EventId> {
        self.parents.get(&e).copied().or_else(|| self.tree().parent(e))
    }

    /// The call without a caller around an event.
    pub(crate) fn top(&self, e: EventId) -> EventId {
        std::iter::successors(Some(e), |&e| self.parent(e)).last().unwrap_or(e)
    }

    /// The moved nodes, for those who ask for callers later.
    pub(crate) fn into_moved(self) -> RapidHashMap<EventId, EventId> {
        self.parents
    }
}

pub(crate) fn is_dispatch(trace: &Trace, e: EventId) -> bool {
    trace.kind(e).is_runtime() && !matches!(trace.name(e), "cudaGraphLaunch" | "hipGraphLaunch")
}

/// The nearest operation around an event.
pub(crate) fn op_around(view: TreeView<'_>, e: EventId) -> Option<EventId> {
    view.tree().ancestors(e).find(|&a| view.trace().kind(a) == EventKind::CpuOp)
}

/// Labels of the modules around an event, outermost first.
pub(crate) fn modules_around(trace: &Trace, ancestors: impl Iterator<Item = EventId>) -> Vec<&str> {
    let names = ancestors.map(|a| trace.name(a)).filter(|name| name.starts_with(MODULE));
    let mut labels: Vec<&str> = names.map(label).collect();
    labels.reverse();
    labels
}

/// `nn.Module: Linear_3` → `nn.Module: Linear`.
fn label(name: &str) -> &str {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    match stem.strip_suffix('_') {
        Some(label) if stem.len() < name.len() => label,
        _ => name,
    }
}

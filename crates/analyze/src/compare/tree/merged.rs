//! The merged tree: what two traces have in common, and what only one has.

use jarvis_trace::{EventId, TreeView};
use rapidhash::RapidHashMap;

/// One of the two traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Which {
    /// The first, the baseline.
    One,
    /// The second.
    Two,
}

impl Which {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::One, Self::Two];

    /// `trace1` or `trace2`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::One => "trace1",
            Self::Two => "trace2",
        }
    }
}

/// Who made a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Presence {
    /// Both traces.
    Combined,
    /// The first only.
    One,
    /// The second only.
    Two,
}

/// A call of either trace, or of both. At least one of the events is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergedNode {
    /// The event of the first trace.
    pub one: Option<EventId>,
    /// The event of the second trace.
    pub two: Option<EventId>,
    /// Nodes below it, in order of the merge.
    pub children: Vec<u32>,
}

impl MergedNode {
    /// Who made the call.
    pub fn presence(&self) -> Presence {
        match (self.one, self.two) {
            (Some(_), Some(_)) => Presence::Combined,
            (Some(_), None) => Presence::One,
            _ => Presence::Two,
        }
    }

    /// The event of a trace.
    pub fn of(&self, which: Which) -> Option<EventId> {
        match which {
            Which::One => self.one,
            Which::Two => self.two,
        }
    }
}

/// Two trees laid over each other. The id of a node is its position among the nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MergedTree {
    pub(crate) nodes: Vec<MergedNode>,
    pub(crate) roots: Vec<u32>,
    /// Events of each trace that the merge put under another caller.
    pub(crate) moved: [RapidHashMap<EventId, EventId>; 2],
}

impl MergedTree {
    /// All nodes, by id.
    pub fn nodes(&self) -> &[MergedNode] {
        &self.nodes
    }

    /// The node with this id.
    pub fn node(&self, id: u32) -> &MergedNode {
        &self.nodes[id as usize]
    }

    /// The outermost nodes.
    pub fn roots(&self) -> &[u32] {
        &self.roots
    }

    /// Whether every call that leads to GPU work is in both traces under the same name.
    pub fn is_same(&self, one: TreeView<'_>, two: TreeView<'_>) -> bool {
        self.nodes.iter().all(|node| match (node.one, node.two) {
            (Some(a), Some(b)) => one.trace().name(a) == two.trace().name(b),
            (Some(a), None) => !one.tree().is_gpu_path(a),
            (None, Some(b)) => !two.tree().is_gpu_path(b),
            (None, None) => true,
        })
    }

    /// The partner of every event of a trace that is in the merged tree; `None` if it has none.
    pub fn partners(&self, which: Which) -> RapidHashMap<EventId, Option<EventId>> {
        let other = if which == Which::One { Which::Two } else { Which::One };
        self.nodes.iter().filter_map(|node| Some((node.of(which)?, node.of(other)))).collect()
    }

    /// The same with the traces in the other order.
    pub(crate) fn mirrored(mut self) -> Self {
        for node in &mut self.nodes {
            std::mem::swap(&mut node.one, &mut node.two);
        }
        self.moved.swap(0, 1);
        self
    }

    /// The events around an event of a trace, innermost first.
    pub(crate) fn ancestors<'a>(
        &'a self,
        which: Which,
        view: TreeView<'a>,
        e: EventId,
    ) -> impl Iterator<Item = EventId> + 'a {
        let moved = &self.moved[which as usize];
        let parent = move |e: &EventId| moved.get(e).copied().or_else(|| view.tree().parent(*e));
        std::iter::successors(parent(&e), parent)
    }

    /// Children as the text form lists them: those of both traces first, then those of each.
    pub fn shown_children(&self, id: u32) -> Vec<u32> {
        let mut children = self.node(id).children.clone();
        children.sort_by_key(|&c| self.node(c).presence());
        children
    }
}

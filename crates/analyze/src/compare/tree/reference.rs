//! The merge as the reference does it, step by step: positions count where lists are equally long, wrappers vanish,
//! and what is left over is collapsed and compared by looser names. Part of the compatibility mode (see
//! [`crate::compare::parity`]).

use jarvis_trace::{Clock, EventId, EventKind, TreeView, Us};
use rapidhash::RapidHashMap;

use super::align::{Pair, Step, edit_steps, rematched};
use super::merged::{MergedNode, MergedTree};
use super::names::NameTable;
use super::nodes::Nodes;

/// An operation on the child lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Op {
    Match(EventId, EventId),
    One(EventId),
    Two(EventId),
}

type Events = Option<EventId>;
type EventPair = (Events, Events);

struct Merger<'a> {
    sides: [Nodes<'a>; 2],
    table: NameTable,
    nodes: Vec<MergedNode>,
    known: RapidHashMap<EventPair, u32>,
}

/// Merges two trees as the reference does.
pub(crate) fn merge(one: TreeView<'_>, two: TreeView<'_>) -> MergedTree {
    let mut merger = Merger {
        sides: [Nodes::new(one), Nodes::new(two)],
        table: NameTable::default(),
        nodes: Vec::new(),
        known: RapidHashMap::default(),
    };
    let roots = merger.sides.each_mut().map(roots);
    let count = roots[0].len().max(roots[1].len());
    let root = |merger: &mut Merger<'_>, i: usize| merger.subtree(roots[0].get(i).copied(), roots[1].get(i).copied());
    let roots = (0..count).map(|i| root(&mut merger, i)).collect();
    let moved = merger.sides.map(Nodes::into_moved);
    MergedTree { nodes: merger.nodes, roots, moved }
}

/// The roots to compare: below each outermost call, the first that branches or does something.
fn roots(nodes: &mut Nodes<'_>) -> Vec<EventId> {
    let mut found: Vec<EventId> = Vec::new();
    let mut seen: rapidhash::RapidHashSet<EventId> = rapidhash::RapidHashSet::default();
    for &root in nodes.tree().roots() {
        let top = nodes.top(root);
        let mut down = top;
        loop {
            let children = nodes.children(down);
            let [only] = children[..] else { break };
            if nodes.trace().kind(only) == EventKind::CpuOp || nodes.is_dispatch(only) {
                break;
            }
            down = only;
        }
        if down != top {
            nodes.adopt(top, down);
        }
        if seen.insert(down) {
            found.push(down);
        }
    }
    found
}

impl Merger<'_> {
    /// Merges two subtrees; returns the id of the node.
    fn subtree(&mut self, one: Events, two: Events) -> u32 {
        let mut top = 0;
        // Where a finished id goes: a place in the children of a node, or to the caller.
        let mut pending: Vec<(EventPair, Option<(u32, usize)>)> = vec![((one, two), None)];
        while let Some((pair, place)) = pending.pop() {
            let known = self.known.get(&pair).copied();
            let id = known.unwrap_or(self.nodes.len() as u32);
            match place {
                None => top = id,
                Some((parent, at)) => self.nodes[parent as usize].children[at] = id,
            }
            if known.is_some() {
                continue;
            }
            self.known.insert(pair, id);
            let (pair, ops) = self.operations(pair);
            let children = vec![0; ops.len()];
            self.nodes.push(MergedNode { one: pair.0, two: pair.1, children });
            let below = ops.into_iter().enumerate().map(|(at, op)| {
                let pair = match op {
                    Op::Match(x, y) => (Some(x), Some(y)),
                    Op::One(x) => (Some(x), None),
                    Op::Two(y) => (None, Some(y)),
                };
                (pair, Some((id, at)))
            });
            let first = pending.len();
            pending.extend(below);
            pending[first..].reverse();
        }
        top
    }

    fn name(&mut self, side: usize, e: EventId) -> u32 {
        self.sides[side].name(&mut self.table, e)
    }

    fn names(&mut self, side: usize, events: &[EventId]) -> Vec<u32> {
        events.iter().map(|&e| self.sides[side].name(&mut self.table, e)).collect()
    }

    fn sort(&self, side: usize, events: &mut [EventId]) {
        let trace = self.sides[side].trace();
        events.sort_by_key(|&e| trace.ts(e).map(Us::of));
    }

    /// What becomes of the children of a pair, and the pair itself, which may move down to where a list branches.
    fn operations(&mut self, (mut one, mut two): (Events, Events)) -> ((Events, Events), Vec<Op>) {
        let [mut a, mut b] = self.child_lists([one, two]);
        if a.len() != b.len() {
            if let [only] = a[..] {
                if let (last, Some(branches)) = self.collapse(0, only)
                    && branches.len() > 1
                {
                    (one, a) = (Some(last), branches);
                }
            } else if let [only] = b[..]
                && let (last, Some(branches)) = self.collapse(1, only)
                && branches.len() > 1
            {
                (two, b) = (Some(last), branches);
            }
        }
        let ops = self.aligned(&a, &b);
        let ops = self.reconciled(a, b, ops);
        ((one, two), self.canonical(ops))
    }

    /// Children that lead to GPU work, and those that only the other side's name asks for.
    fn child_lists(&mut self, pair: [Events; 2]) -> [Vec<EventId>; 2] {
        let mut lists = [0, 1].map(|side| pair[side].map_or_else(Vec::new, |e| self.sides[side].gpu_children(e)));
        let names = [0, 1].map(|side| self.names(side, &lists[side]));
        for side in [0, 1] {
            let Some(node) = pair[side] else { continue };
            let mut wanted: Vec<u32> = names[1 - side].clone();
            wanted.retain(|name| !names[side].contains(name));
            if wanted.is_empty() {
                continue;
            }
            let mut taken = Vec::new();
            for child in self.sides[side].children(node).into_iter().rev() {
                let name = self.name(side, child);
                if wanted.contains(&name) && !taken.contains(&name) {
                    taken.push(name);
                    lists[side].push(child);
                }
            }
        }
        for (side, list) in lists.iter_mut().enumerate() {
            self.sort(side, list);
        }
        lists
    }

    /// Follows single children; the children where they branch or end.
    fn collapse(&self, side: usize, e: EventId) -> (EventId, Option<Vec<EventId>>) {
        let nodes = &self.sides[side];
        let mut e = e;
        loop {
            let launches =
                nodes.trace().kind(e) == EventKind::CpuOp && nodes.children(e).iter().any(|&c| nodes.is_dispatch(c));
            if nodes.is_dispatch(e) || launches {
                return (e, None);
            }
            let children = nodes.gpu_children(e);
            let [only] = children[..] else { return (e, Some(children)) };
            e = only;
        }
    }

    /// By position where both lists are equally long and nobody launches, else by names.
    fn aligned(&mut self, a: &[EventId], b: &[EventId]) -> Vec<Op> {
        let launches = |side: usize, list: &[EventId]| list.iter().any(|&e| self.sides[side].is_dispatch(e));
        if a.len() == b.len() && !launches(0, a) && !launches(1, b) {
            return a.iter().zip(b).map(|(&x, &y)| Op::Match(x, y)).collect();
        }
        let names = [self.names(0, a), self.names(1, b)];
        self.align(a, b, &names)
    }

    fn align(&mut self, a: &[EventId], b: &[EventId], names: &[Vec<u32>; 2]) -> Vec<Op> {
        let steps = edit_steps(&names[0], &names[1]);
        let mut pair = Pair { sides: &mut self.sides, table: &mut self.table };
        let steps = rematched(&mut pair, a, b, steps);
        let op = |step| match step {
            Step::Match(i, j) => Op::Match(a[i], b[j]),
            Step::Delete(i) => Op::One(a[i]),
            Step::Insert(j) => Op::Two(b[j]),
        };
        steps.into_iter().map(op).collect()
    }

    /// Opens wrappers that only one side has, and aligns again.
    fn reconciled(&mut self, a: Vec<EventId>, b: Vec<EventId>, ops: Vec<Op>) -> Vec<Op> {
        let (left, right) = unmatched(&ops);
        if left.is_empty() || right.is_empty() {
            return ops;
        }
        let mut opened: [RapidHashMap<EventId, Vec<EventId>>; 2] = Default::default();
        for &x in &left {
            for &y in &right {
                if !self.is_wrapper(0, x) || !self.is_wrapper(1, y) {
                    continue;
                }
                let below = [self.sides[0].gpu_children(x), self.sides[1].gpu_children(y)];
                let names = [self.names(0, &below[0]), self.names(1, &below[1])];
                let [in_x, in_y] = below;
                if names[1].contains(&self.name(0, x)) {
                    opened[1].insert(y, in_y);
                } else if names[0].contains(&self.name(1, y)) {
                    opened[0].insert(x, in_x);
                } else if !in_x.is_empty() && names[0] == names[1] {
                    opened[0].insert(x, in_x);
                    opened[1].insert(y, in_y);
                }
            }
        }
        if opened.iter().all(RapidHashMap::is_empty) {
            return ops;
        }
        let mut lists = [a, b];
        for (side, list) in lists.iter_mut().enumerate() {
            *list = list.iter().flat_map(|e| opened[side].get(e).cloned().unwrap_or_else(|| vec![*e])).collect();
            self.sort(side, list);
        }
        let mut kept: Vec<Op> = ops.into_iter().filter(|op| matches!(op, Op::Match(..))).collect();
        let [rest_a, rest_b] = [0, 1].map(|side| {
            let matched = |e: &EventId| kept.iter().any(|op| matches!(op, Op::Match(x, y) if [x, y][side] == e));
            lists[side].iter().copied().filter(|e| !matched(e)).collect::<Vec<_>>()
        });
        if rest_a.is_empty() || rest_b.is_empty() {
            kept.extend(rest_a.into_iter().map(Op::One).chain(rest_b.into_iter().map(Op::Two)));
        } else {
            kept.extend(self.aligned(&rest_a, &rest_b));
        }
        kept
    }

    fn is_wrapper(&self, side: usize, e: EventId) -> bool {
        !self.sides[side].trace().kind(e).is_gpu() && !self.sides[side].is_dispatch(e)
    }

    /// Collapses what is still unmatched on both sides and compares it by name, then by looser names.
    fn canonical(&mut self, ops: Vec<Op>) -> Vec<Op> {
        let (left, right) = unmatched(&ops);
        if left.is_empty() || right.is_empty() {
            return ops;
        }
        let a: Vec<EventId> = left.iter().map(|&e| self.collapse(0, e).0).collect();
        let b: Vec<EventId> = right.iter().map(|&e| self.collapse(1, e).0).collect();
        let mut out: Vec<Op> = ops.into_iter().filter(|op| matches!(op, Op::Match(..))).collect();
        let names = [self.names(0, &a), self.names(1, &b)];
        let first = self.align(&a, &b, &names);
        let (left, right) = unmatched(&first);
        out.extend(first.iter().filter(|op| matches!(op, Op::Match(..))));
        let loose = |merger: &mut Self, side: usize, list: &[EventId]| -> Vec<u32> {
            let trace = merger.sides[side].trace();
            list.iter().map(|&e| merger.table.loose(trace.name(e))).collect()
        };
        let names = [loose(self, 0, &left), loose(self, 1, &right)];
        out.extend(self.align(&left, &right, &names));
        out
    }
}

fn unmatched(ops: &[Op]) -> (Vec<EventId>, Vec<EventId>) {
    let one = ops.iter().filter_map(|op| if let Op::One(e) = op { Some(*e) } else { None });
    let two = ops.iter().filter_map(|op| if let Op::Two(e) = op { Some(*e) } else { None });
    (one.collect(), two.collect())
}

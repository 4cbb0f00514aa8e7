//! Which events become rows of `unified_perf_summary`: the tree is cut so that every kernel stands in one row, under
//! the outermost operation that a model knows and whose work no call inside it stands for, else under the operation that
//! launched it.

use std::borrow::Cow;
use std::slice;

use jarvis_trace::{EventId, EventKind, PythonFrames, Tree};
use rapidhash::{RapidHashMap, RapidHashSet};

use crate::tables::context::{Context, RowName};
use crate::tables::costs::{Call, CostId, Pass};

/// How deep below an operation its own launch may be.
const DEEPEST_LAUNCH: usize = 10;

/// An event that makes a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taken {
    /// The event itself, or the one that a synthetic row is copied from.
    pub(crate) event: EventId,
    /// UID of the row: the event's, or one after all events for synthetic rows.
    pub(crate) uid: u32,
    pub(crate) name: RowName,
    /// Whether a model claims it.
    pub(crate) own_model: bool,
    /// The forward operation that tells the cost of a backward one.
    pub(crate) forward: Option<Forward>,
    /// The only GPU event of a synthetic row.
    kernel: Option<EventId>,
}

impl Taken {
    /// GPU events, in the order in which they were launched.
    pub(crate) fn kernels<'t>(&'t self, tree: &'t Tree) -> Cow<'t, [EventId]> {
        self.kernel.as_ref().map_or_else(|| tree.gpu_events(self.event), |kernel| slice::from_ref(kernel).into())
    }
}

/// A forward operation that tells what a backward operation costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forward {
    pub(crate) event: EventId,
    pub(crate) cost: CostId,
}

/// What to do with a visited event.
enum Verdict {
    Stop,
    Descend,
    Take { own_model: bool, forward: Option<Forward> },
}

/// Walks the tree.
pub(crate) struct Collector<'c, 'a> {
    cx: &'c mut Context<'a>,
    /// Events below which, through operations and frames alone, a model claims an operation that used the GPU.
    modelled_below: Vec<bool>,
    /// Backward wrappers that hold exactly one operation of their name.
    sole: RapidHashMap<EventId, bool>,
    taken: Vec<Taken>,
}

/// The rows of a trace, in the order in which the tree is walked; synthetic ones last.
pub(crate) fn collect(cx: &mut Context<'_>) -> Vec<Taken> {
    let mut collector = Collector { modelled_below: Vec::new(), sole: RapidHashMap::default(), taken: Vec::new(), cx };
    collector.mark_modelled();
    collector.walk();
    collector.add_left_over();
    collector.taken
}

impl Collector<'_, '_> {
    fn mark_modelled(&mut self) {
        let (trace, tree) = (self.cx.trace, self.cx.tree);
        self.modelled_below = vec![false; trace.len()];
        for e in trace.events() {
            if trace.kind(e) != EventKind::CpuOp || tree.gpu_event_count(e) == 0 || !self.cx.has_model(e) {
                continue;
            }
            if !self.cx.quirks.casting_calls_make_rows {
                self.cx.note_casts(e);
            }
            for above in tree.ancestors(e) {
                // What is already marked is so all the way up.
                if std::mem::replace(&mut self.modelled_below[above.index()], true) || !passes(trace.kind(above)) {
                    break;
                }
            }
        }
    }

    fn walk(&mut self) {
        let (trace, tree) = (self.cx.trace, self.cx.tree);
        let mut visited: RapidHashSet<EventId> = RapidHashSet::default();
        let mut roots: Vec<EventId> = Vec::new();
        let frames = tree.options().python == PythonFrames::With;
        if frames {
            let outermost = |&e: &EventId| {
                trace.kind(e) == EventKind::PythonFunction && tree.contains(e) && tree.parent(e).is_none()
            };
            roots.extend(trace.events().filter(outermost).filter(|&e| tree.gpu_event_count(e) > 0));
            if !self.cx.quirks.events_in_file_order {
                roots.sort_by_key(|&e| trace.ts(e));
            }
        }
        roots.extend(tree.roots());
        let mut open: Vec<EventId> = Vec::new();
        let mut children: Vec<EventId> = Vec::new();
        for root in roots {
            open.push(root);
            while let Some(e) = open.pop() {
                if frames && !visited.insert(e) {
                    continue;
                }
                match self.judge(e, frames) {
                    Verdict::Stop => {}
                    Verdict::Descend => {
                        children.extend(tree.children(e).filter(|&c| !trace.kind(c).is_gpu()));
                        open.extend(children.drain(..).rev());
                    }
                    Verdict::Take { own_model, forward } => {
                        if trace.kind(e) == EventKind::PythonFunction {
                            // Operations below a frame are roots of their own and must not be taken again.
                            visited.extend(self.cx.view().subtree(e));
                        }
                        let (uid, name) = (e.uid(), self.cx.name_of(e));
                        self.taken.push(Taken { event: e, uid, name, own_model, forward, kernel: None });
                    }
                }
            }
        }
    }

    fn judge(&mut self, e: EventId, frames: bool) -> Verdict {
        let kind = self.cx.trace.kind(e);
        let frame = frames && kind == EventKind::PythonFunction;
        if !(kind == EventKind::CpuOp || frame) || self.cx.tree.gpu_event_count(e) == 0 {
            return Verdict::Stop;
        }
        if kind == EventKind::CpuOp {
            if self.cx.casts.only_casts(e) {
                return Verdict::Descend;
            }
            if self.cx.has_model(e) {
                return Verdict::Take { own_model: true, forward: None };
            }
            if !self.modelled_below[e.index()]
                && let Some(forward) = self.sole_backward(e)
            {
                return Verdict::Take { own_model: false, forward: Some(forward) };
            }
        }
        if self.modelled_below[e.index()] {
            return Verdict::Descend;
        }
        let may_take = kind == EventKind::CpuOp || self.cx.quirks.frames_make_rows;
        if may_take && self.launches(e) {
            let communicates = self.cx.tree.gpu_events(e).iter().any(|&k| self.cx.is_communication(k));
            return if communicates { Verdict::Stop } else { Verdict::Take { own_model: false, forward: None } };
        }
        Verdict::Descend
    }

    /// Whether an event launches GPU work itself and not through an operation inside it.
    fn launches(&self, e: EventId) -> bool {
        let (trace, tree) = (self.cx.trace, self.cx.tree);
        let driver = !self.cx.quirks.driver_launches_overlooked;
        let mut open = vec![(e, 0)];
        while let Some((e, depth)) = open.pop() {
            if !tree.launched(e).is_empty() {
                return true;
            }
            if depth == DEEPEST_LAUNCH {
                continue;
            }
            let through = tree.children(e).filter(|&c| match trace.kind(c) {
                EventKind::Runtime | EventKind::PythonFunction => true,
                EventKind::Driver => driver,
                _ => false,
            });
            open.extend(through.map(|c| (c, depth + 1)));
        }
        false
    }

    /// The forward operation of a backward one, if the backward work of it is all this operation does.
    fn sole_backward(&mut self, e: EventId) -> Option<Forward> {
        let (wrapper, event) = self.cx.wrapper_and_forward(e)?;
        let name = self.cx.name_of(event);
        if !self.cx.has_model(event) || self.cx.costs.backward_category(name).is_none() || !self.is_sole(wrapper) {
            return None;
        }
        let working = self.cx.casts.working(event);
        let name = self.cx.name_of(working);
        let kernels = self.cx.kernels_by_start(working);
        let inputs = self.cx.inputs_of(working);
        let cost = self.cx.cost(&Call { event: working, name, inputs, kernels: &kernels, pass: Pass::Backward });
        self.cx.costs.get(cost).cost.is_ok().then_some(Forward { event, cost })
    }

    /// Whether exactly one operation that used the GPU below a backward wrapper has the name the wrapper gives.
    fn is_sole(&mut self, wrapper: EventId) -> bool {
        if let Some(&known) = self.sole.get(&wrapper) {
            return known;
        }
        let (trace, tree) = (self.cx.trace, self.cx.tree);
        let wanted = trace.name(wrapper).split_once(": ").map(|(_, name)| name);
        let mut count = 0;
        let mut open = vec![wrapper];
        while let Some(e) = open.pop() {
            for child in tree.children(e).filter(|&c| trace.kind(c) == EventKind::CpuOp) {
                let named = wanted.is_none_or(|name| trace.name(child) == name);
                count += usize::from(named && tree.gpu_event_count(child) > 0);
                open.push(child);
            }
        }
        self.sole.insert(wrapper, count == 1);
        count == 1
    }

    /// Makes a row of each kernel that no taken event covers; communication is left out.
    fn add_left_over(&mut self) {
        let (trace, tree) = (self.cx.trace, self.cx.tree);
        let mut covered = vec![false; trace.len()];
        for taken in &self.taken {
            for k in taken.kernels(tree).iter() {
                covered[k.index()] = true;
            }
        }
        // Per runtime call in order of its first kernel, then per operation in order of the kernels.
        let mut calls: Vec<(EventId, Vec<EventId>)> = Vec::new();
        let mut call_index: RapidHashMap<EventId, usize> = RapidHashMap::default();
        let mut of_ops: Vec<(EventId, EventId)> = Vec::new();
        for kernel in tree.linked_gpu_events() {
            if covered[kernel.index()] || self.cx.is_communication(kernel) {
                continue;
            }
            let op = tree.ancestors(kernel).find(|&e| trace.kind(e) == EventKind::CpuOp);
            match (op, tree.parent(kernel)) {
                (Some(op), _) => of_ops.push((op, kernel)),
                (None, Some(call)) => {
                    let at = *call_index.entry(call).or_insert_with(|| {
                        calls.push((call, Vec::new()));
                        calls.len() - 1
                    });
                    calls[at].1.push(kernel);
                }
                (None, None) => {}
            }
        }
        let of_calls = calls.into_iter().flat_map(|(call, kernels)| kernels.into_iter().map(move |k| (call, k)));
        let rows: Vec<(EventId, EventId)> = of_calls.chain(of_ops).collect();
        for (i, (event, kernel)) in rows.into_iter().enumerate() {
            let name = RowName { op: trace.name_id(event), kernel: Some(trace.name_id(kernel)) };
            self.taken.push(Taken {
                event,
                uid: (trace.len() + i) as u32,
                name,
                own_model: self.cx.has_model_named(event, name),
                forward: None,
                kernel: Some(kernel),
            });
        }
    }
}

/// Whether operations below such an event count as below what is around it.
fn passes(kind: EventKind) -> bool {
    matches!(kind, EventKind::CpuOp | EventKind::PythonFunction)
}

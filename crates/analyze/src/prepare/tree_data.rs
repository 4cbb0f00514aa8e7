//! `<category>_tree_data.json`: where the important rows of a category stand in the call tree.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use jarvis_perf::tables::{Report, UnifiedCall};
use jarvis_trace::tree::Annotations;
use jarvis_trace::{Clock, EventId, EventKind, Ns, Trace};

use super::args::{dims_json, types_json};
use crate::metrics::{Fusion, Parent, Sibling, SubtreeNode, TreeEntry};
use crate::patterns::scene::breaks;
use crate::prepared::{Category, Prepared, Row};
use crate::program::{Leaf, MODULE_PREFIX, RowId};
use crate::rounding::Us;

/// A row with more than this share of its category is always told of, in percent.
const SELECTED_PERCENT: f64 = 10.0;

/// Rows told of if none has such a share.
const SELECTED_ROWS: usize = 5;

/// Most leaves told of where nothing but their order holds them together.
const MOST_OF_SEQUENCE: usize = 32;

/// Category of the spans that a user marks.
const ANNOTATION: &str = "user_annotation";

/// Most entries of a category.
const MOST_ENTRIES: usize = 50;

/// Most parents of an entry.
const MOST_PARENTS: usize = 64;

/// Most nodes below an entry.
const MOST_NODES: usize = 200;

/// Where rows stand in the call tree.
#[derive(Debug)]
pub struct TreeData<'a> {
    trace: &'a Trace,
    report: &'a Report,
    prepared: &'a Prepared,
    /// They are no part of the tree.
    annotations: Annotations,
}

impl<'a> TreeData<'a> {
    /// Of the rows of a report.
    pub fn new(trace: &'a Trace, report: &'a Report, prepared: &'a Prepared) -> Self {
        Self { trace, report, prepared, annotations: Annotations::of(trace) }
    }

    /// Of a category, by UID. `bottlenecks` are always told of; `fusion` says which candidate covers a row.
    pub fn of_category(
        &self,
        category: &Category,
        bottlenecks: &BTreeSet<RowId>,
        fusion: &BTreeMap<RowId, Fusion>,
    ) -> BTreeMap<u32, TreeEntry> {
        let selected = selected(self.prepared, category, bottlenecks);
        selected.into_iter().map(|id| (self.prepared.row(id).uid, self.entry(id, fusion.get(&id).cloned()))).collect()
    }
}

fn selected(prepared: &Prepared, category: &Category, bottlenecks: &BTreeSet<RowId>) -> Vec<RowId> {
    let large = |id: &&RowId| prepared.row(**id).percent_of_category > SELECTED_PERCENT;
    let mut out: Vec<RowId> = category.rows.iter().filter(large).copied().collect();
    if out.is_empty() {
        out.extend(category.rows.iter().take(SELECTED_ROWS));
    }
    let mut taken: BTreeSet<RowId> = out.iter().copied().collect();
    out.extend(category.rows.iter().filter(|id| bottlenecks.contains(id) && taken.insert(**id)));
    out.truncate(MOST_ENTRIES);
    out
}

impl TreeData<'_> {
    fn entry(&self, id: RowId, fusion: Option<Fusion>) -> TreeEntry {
        let row = self.prepared.row(id);
        let unified = &self.report.rows.unified;
        let call = unified.calls_of(&unified.rows[id.index()]).next();
        let event = call.map(|c| c.event);
        // UIDs after those of all events stand for kernels that no operation accounts for.
        let alone = call.filter(|c| c.uid != c.event.uid());
        let (subtree, truncated) = match alone {
            Some(call) => self.kernels_alone(call),
            None => event.map(|e| self.subtree(e)).unwrap_or_default(),
        };
        let parent_chain = event.map(|e| self.parents(e)).unwrap_or_default();
        let mut notes = Vec::new();
        if !self.prepared.program.has_frames {
            let marked = parent_chain.iter().any(|p| p.cat == ANNOTATION);
            let what = if marked { "ops and annotations" } else { "ops" };
            notes.push(format!("no python stack in trace: chain holds {what} only"));
        }
        if let Some(call) = alone {
            notes.push(format!("{} is no event: it stands for kernels that UID {} launched", row.uid, call.event));
        }
        TreeEntry {
            op_name: Arc::clone(&row.name),
            ex_uid: row.uid,
            input_dims: dims_json(row.inputs.dims.as_deref()),
            input_type: types_json(row.inputs.types.as_deref()),
            input_strides: dims_json(row.inputs.strides.as_deref()),
            instance_count: row.count,
            parent_chain,
            module_path: Arc::clone(&row.module_path),
            call_site: row.call_site,
            subtree,
            truncated,
            siblings: event.map(|e| self.siblings(e, row)).unwrap_or_default(),
            fusion_opportunity: fusion.is_some(),
            fusion,
            notes,
        }
    }

    /// Operations, frames and annotations around an event, innermost first. Annotations are found by time, on the thread
    /// of the event.
    fn parents(&self, event: EventId) -> Vec<Parent> {
        let trace = self.trace;
        let is_call = |e: &EventId| matches!(trace.kind(*e), EventKind::CpuOp | EventKind::PythonFunction);
        let mut calls = self.report.tree.ancestors(event).filter(is_call).peekable();
        let mut spans = self.annotations.around(trace, event).peekable();
        let innermost = || match (calls.peek(), spans.peek()) {
            (Some(&call), Some(&span)) if self.holds(call, span) => spans.next(),
            (Some(_), _) => calls.next(),
            (None, _) => spans.next(),
        };
        let parent = |e: EventId| Parent {
            name: trace.name(e).to_owned(),
            cat: trace.category(e).to_owned(),
            uid: e.uid(),
            module: trace.name(e).starts_with(MODULE_PREFIX),
        };
        std::iter::from_fn(innermost).take(MOST_PARENTS).map(parent).collect()
    }

    /// Whether one event goes on all the while that another does.
    fn holds(&self, outer: EventId, inner: EventId) -> bool {
        let span = |e| Ns::span_of(self.trace, e);
        matches!((span(outer), span(inner)), (Some(o), Some(i)) if o.0 <= i.0 && i.1 <= o.1)
    }

    /// The call that launched kernels which no operation accounts for, with these alone: it may have launched others.
    fn kernels_alone(&self, call: &UnifiedCall) -> (Vec<SubtreeNode>, bool) {
        let kernels: Vec<String> =
            call.kernels.iter().take(MOST_NODES).map(|&k| self.trace.name(k).to_owned()).collect();
        let truncated = kernels.len() < call.kernels.len();
        (vec![self.node(call.event, 0, call.kernel_us, kernels)], truncated)
    }

    fn node(&self, event: EventId, depth: usize, kernel_us: f64, kernels: Vec<String>) -> SubtreeNode {
        let inputs = self.report.arg_lists.of(self.trace, event);
        SubtreeNode {
            depth,
            name: self.trace.name(event).to_owned(),
            cat: self.trace.category(event).to_owned(),
            uid: event.uid(),
            input_dims: dims_json(inputs.dims.as_deref()),
            input_type: types_json(inputs.types.as_deref()),
            kernel_time_us: Us(kernel_us),
            kernels,
        }
    }

    /// Operations and frames below an event with their kernels, and whether some were left out.
    fn subtree(&self, root: EventId) -> (Vec<SubtreeNode>, bool) {
        let (trace, tree) = (self.trace, &self.report.tree);
        let view = tree.view(trace);
        let mut out = Vec::new();
        let mut truncated = false;
        let mut stack = vec![(root, 0)];
        while let Some((event, depth)) = stack.pop() {
            if out.len() == MOST_NODES {
                return (out, true);
            }
            let children: Vec<EventId> = tree.children(event).collect();
            let launches = children.iter().filter(|&&c| trace.kind(c).is_runtime());
            let mut launched = launches.flat_map(|&c| tree.launched(c));
            let kernels = launched.by_ref().take(MOST_NODES).map(|&k| trace.name(k).to_owned()).collect();
            truncated |= launched.next().is_some();
            out.push(self.node(event, depth, view.subtree_busy(event).0, kernels));
            let below = children.into_iter().rev();
            stack.extend(
                below
                    .filter(|&c| matches!(trace.kind(c), EventKind::CpuOp | EventKind::PythonFunction))
                    .map(|c| (c, depth + 1)),
            );
        }
        (out, truncated)
    }

    /// Leaves beside those of an event, its own among them.
    fn siblings(&self, event: EventId, row: &Row) -> Vec<Sibling> {
        let leaves = &self.prepared.program.leaves;
        let below: BTreeSet<u32> = self.report.tree.view(self.trace).subtree(event).map(EventId::uid).collect();
        let is_self = |l: &Leaf| l.uid == event.uid() || l.row == Some(row.id) && below.contains(&l.uid);
        let Some(at) = leaves.iter().position(is_self) else { return Vec::new() };
        let sibling = |leaf: &Leaf| Sibling {
            uid: leaf.uid,
            name: Arc::clone(&leaf.name),
            category: leaf.row.map(|r| Arc::clone(&self.prepared.row(r).category)),
            kernel_time_us: Us(leaf.us),
            input_dims: dims_json(leaf.inputs.dims.as_deref()),
            is_self: below.contains(&leaf.uid),
        };
        leaves[self.beside(at, &below)].iter().map(sibling).collect()
    }

    /// What stands beside a leaf: the leaves of the innermost module around it, else of the innermost operation that holds
    /// others than those `below` the row, else the nearest ones of its sequence.
    fn beside(&self, at: usize, below: &BTreeSet<u32>) -> Range<usize> {
        let program = &self.prepared.program;
        let leaf = &program.leaves[at];
        if let Some(module) = leaf.module {
            return nearest(program.module(module).leaves.clone(), at, MOST_NODES);
        }
        for op in leaf.around.iter().filter(|op| !below.contains(&op.uid)) {
            let held = |l: &Leaf| l.uid == op.uid || l.around.contains(op);
            let stretch = stretch(&program.leaves, at, |a, b| held(a) && held(b));
            if program.leaves[stretch.clone()].iter().any(|l| !below.contains(&l.uid)) {
                return nearest(stretch, at, MOST_NODES);
            }
        }
        nearest(stretch(&program.leaves, at, |a, b| !breaks(a, b)), at, MOST_OF_SEQUENCE)
    }
}

/// The leaves around one that are joined to each other.
fn stretch(leaves: &[Leaf], at: usize, joined: impl Fn(&Leaf, &Leaf) -> bool) -> Range<usize> {
    let to_next = |i: &usize| leaves.get(i + 1).is_some_and(|next| joined(&leaves[*i], next));
    let from = (0..at).rev().take_while(to_next).last().unwrap_or(at);
    let to = (at..leaves.len()).find(|i| !to_next(i)).unwrap_or(at);
    from..to + 1
}

/// The first of a range, or those around a place that lies further on.
fn nearest(range: Range<usize>, at: usize, most: usize) -> Range<usize> {
    if range.len() <= most {
        return range;
    }
    let from = if at < range.start + most { range.start } else { (at - most / 2).min(range.end - most) };
    from..from + most
}

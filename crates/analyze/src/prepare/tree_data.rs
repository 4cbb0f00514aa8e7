//! `<category>_tree_data.json`: where the important rows of a category stand in the call tree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jarvis_perf::tables::Report;
use jarvis_trace::{EventId, EventKind, Trace};

use super::args::{dims_json, types_json};
use crate::metrics::{Fusion, Parent, Sibling, SubtreeNode, TreeEntry};
use crate::prepared::{Category, Prepared, Row};
use crate::program::{MODULE_PREFIX, RowId};
use crate::rounding::Us;

/// A row with more than this share of its category is always told of, in percent.
const SELECTED_PERCENT: f64 = 10.0;

/// Rows told of if none has such a share.
const SELECTED_ROWS: usize = 5;

/// Most entries of a category.
const MOST_ENTRIES: usize = 50;

/// Most parents of an entry.
const MOST_PARENTS: usize = 64;

/// Most nodes below an entry.
const MOST_NODES: usize = 200;

/// Tree data of a category, by UID. `bottlenecks` are always told of; `fusion` says which candidate covers a row.
pub fn tree_data(
    trace: &Trace,
    report: &Report,
    prepared: &Prepared,
    category: &Category,
    bottlenecks: &BTreeSet<RowId>,
    fusion: &BTreeMap<RowId, Fusion>,
) -> BTreeMap<u32, TreeEntry> {
    let reader = Reader { trace, report, prepared };
    let selected = selected(prepared, category, bottlenecks);
    selected.into_iter().map(|id| (prepared.row(id).uid, reader.entry(id, fusion.get(&id).cloned()))).collect()
}

fn selected(prepared: &Prepared, category: &Category, bottlenecks: &BTreeSet<RowId>) -> Vec<RowId> {
    let large = |id: &&RowId| prepared.row(**id).percent_of_category > SELECTED_PERCENT;
    let mut out: Vec<RowId> = category.rows.iter().filter(large).copied().collect();
    if out.is_empty() {
        out.extend(category.rows.iter().take(SELECTED_ROWS));
    }
    for id in category.rows.iter().filter(|id| bottlenecks.contains(id)) {
        if !out.contains(id) {
            out.push(*id);
        }
    }
    out.truncate(MOST_ENTRIES);
    out
}

struct Reader<'a> {
    trace: &'a Trace,
    report: &'a Report,
    prepared: &'a Prepared,
}

impl Reader<'_> {
    fn entry(&self, id: RowId, fusion: Option<Fusion>) -> TreeEntry {
        let row = self.prepared.row(id);
        let unified = &self.report.rows.unified;
        let event = unified.calls_of(&unified.rows[id.index()]).next().map(|c| c.event);
        let (subtree, truncated) = event.map(|e| self.subtree(e)).unwrap_or_default();
        let mut notes = Vec::new();
        if !self.prepared.program.has_frames {
            notes.push("no python stack in trace: chain holds ops only".to_owned());
        }
        TreeEntry {
            op_name: Arc::clone(&row.name),
            ex_uid: row.uid,
            input_dims: dims_json(row.inputs.dims.as_deref()),
            input_type: types_json(row.inputs.types.as_deref()),
            input_strides: dims_json(row.inputs.strides.as_deref()),
            instance_count: row.count,
            parent_chain: event.map(|e| self.parents(e)).unwrap_or_default(),
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

    fn parents(&self, event: EventId) -> Vec<Parent> {
        let trace = self.trace;
        let shown = |e: &EventId| {
            let kind = trace.kind(*e);
            matches!(kind, EventKind::CpuOp | EventKind::PythonFunction) || kind.is_annotation()
        };
        let parent = |e: EventId| Parent {
            name: trace.name(e).to_owned(),
            cat: trace.category(e).to_owned(),
            uid: e.uid(),
            module: trace.name(e).starts_with(MODULE_PREFIX),
        };
        self.report.tree.ancestors(event).filter(shown).take(MOST_PARENTS).map(parent).collect()
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
            let inputs = self.report.arg_lists.of(trace, event);
            out.push(SubtreeNode {
                depth,
                name: trace.name(event).to_owned(),
                cat: trace.category(event).to_owned(),
                uid: event.uid(),
                input_dims: dims_json(inputs.dims.as_deref()),
                input_type: types_json(inputs.types.as_deref()),
                kernel_time_us: Us(view.subtree_busy(event).0),
                kernels,
            });
            let below = children.into_iter().rev();
            stack.extend(
                below
                    .filter(|&c| matches!(trace.kind(c), EventKind::CpuOp | EventKind::PythonFunction))
                    .map(|c| (c, depth + 1)),
            );
        }
        (out, truncated)
    }

    /// Leaves under the innermost module around an event.
    fn siblings(&self, event: EventId, row: &Row) -> Vec<Sibling> {
        let program = &self.prepared.program;
        let first = program.leaves.iter().find(|l| l.row == Some(row.id) && l.module.is_some());
        let Some(module) = first.and_then(|l| l.module) else { return Vec::new() };
        let below: BTreeSet<u32> = self.report.tree.view(self.trace).subtree(event).map(EventId::uid).collect();
        let leaves = &program.leaves[program.module(module).leaves.clone()];
        let sibling = |leaf: &crate::program::Leaf| Sibling {
            uid: leaf.uid,
            name: Arc::clone(&leaf.name),
            category: leaf.row.map(|r| Arc::clone(&self.prepared.row(r).category)),
            kernel_time_us: Us(leaf.us),
            input_dims: dims_json(leaf.inputs.dims.as_deref()),
            is_self: below.contains(&leaf.uid),
        };
        leaves.iter().take(MOST_NODES).map(sibling).collect()
    }
}

//! One row a GPU event: under which operation it ran, and the lowest call around it that both traces made.

use std::sync::Arc;

use jarvis_trace::{Clock, EventId, EventKind, Fidelity, IntervalSet, Ns, TreeView};

use super::merged::{MergedTree, Presence, Which};
use super::nodes::{modules_around, op_around};
use crate::compare::parity::Quirks;

/// A GPU event in the comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffRow {
    /// The trace it is of.
    pub which: Which,
    /// The GPU event.
    pub kernel: EventId,
    /// The nearest operation around it; by default the nearest call where there is no operation.
    pub op: EventId,
    /// Id of the lowest common call in the merged tree.
    pub lca: Option<u32>,
    /// Name of that call; both names where they differ.
    pub lca_name: Option<Arc<str>>,
    /// Time during which any GPU event of that call and trace runs, in microseconds.
    pub busy_us: f64,
}

/// All rows, in the order of the merged tree.
#[derive(Debug, Clone, PartialEq)]
pub struct DiffRows {
    /// The rows; of identical traces only those of the first.
    pub rows: Vec<DiffRow>,
    /// Whether the two traces have the same calls, kernels and times.
    pub identical: bool,
}

/// Both traces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Views<'a>(pub(crate) [TreeView<'a>; 2]);

impl<'a> Views<'a> {
    pub(crate) fn of(self, which: Which) -> TreeView<'a> {
        self.0[which as usize]
    }

    pub(crate) fn name(self, which: Which, e: EventId) -> &'a str {
        self.of(which).trace().name(e)
    }

    /// `nn_module_stack` and `nn_module_parent` of an event.
    pub(crate) fn modules(self, merged: &MergedTree, which: Which, e: EventId) -> (String, String) {
        let view = self.of(which);
        let labels = modules_around(view.trace(), merged.ancestors(which, view, e));
        match labels.last() {
            Some(&last) => (labels.join(";"), last.to_owned()),
            None => ("root".to_owned(), "root".to_owned()),
        }
    }
}

impl DiffRows {
    /// The rows of two merged traces.
    pub fn of(one: TreeView<'_>, two: TreeView<'_>, merged: &MergedTree, fidelity: Fidelity) -> Self {
        let views = Views([one, two]);
        let quirks = Quirks::of(fidelity);
        let rows = if quirks.merge_like_reference {
            LikeReference { views, merged, marked: vec![false; merged.nodes().len()], rows: Vec::new() }.walk()
        } else {
            by_owner(views, merged)
        };
        let identical = are_identical(views, &rows, quirks);
        let rows = if identical { rows.into_iter().filter(|r| r.which == Which::One).collect() } else { rows };
        Self { rows, identical }
    }
}

/// Whether both traces have the same rows.
fn are_identical(views: Views<'_>, rows: &[DiffRow], quirks: Quirks) -> bool {
    let of = |which: Which| rows.iter().filter(move |r| r.which == which);
    let facts = |row: &DiffRow| {
        let trace = views.of(row.which).trace();
        let args = super::tables::ARG_KEYS.map(|key| trace.text_id(row.op, key).map(|id| trace.text(id)));
        let uids = quirks.same_by_uid.then_some((row.kernel, row.op));
        (trace.name(row.kernel), trace.dur(row.kernel), trace.name(row.op), args, row.lca, row.busy_us.to_bits(), uids)
    };
    of(Which::One).map(facts).eq(of(Which::Two).map(facts))
}

/// `f(12)` → `f`: line numbers do not belong to a name.
fn without_numbers(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find('(') {
        let digits = rest[at + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let end = at + 1 + digits;
        if digits > 0 && rest[end..].starts_with(')') {
            out.push_str(&rest[..at]);
            rest = &rest[end + 1..];
        } else {
            out.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
        }
    }
    out + rest
}

/// The name of a call that both traces made, or one.
fn common_name(views: Views<'_>, merged: &MergedTree, id: u32, sides: &[Which]) -> Arc<str> {
    let node = merged.node(id);
    let name = |&which: &Which| Some(without_numbers(views.name(which, node.of(which)?)));
    let mut names: Vec<String> = sides.iter().filter_map(name).collect();
    names.dedup();
    names.join(" | ").into()
}

/// Three decimals, rounded as the exact decimal value says.
pub(crate) fn rounded(us: f64) -> f64 {
    format!("{us:.3}").parse().unwrap_or(us)
}

/// The walk of the reference.
struct LikeReference<'a> {
    views: Views<'a>,
    merged: &'a MergedTree,
    marked: Vec<bool>,
    rows: Vec<DiffRow>,
}

impl LikeReference<'_> {
    fn walk(mut self) -> Vec<DiffRow> {
        let mut pending: Vec<(u32, Option<u32>)> = self.merged.roots().iter().rev().map(|&r| (r, None)).collect();
        while let Some((id, from)) = pending.pop() {
            if self.marked[id as usize] {
                continue;
            }
            let node = self.merged.node(id);
            let which = match node.presence() {
                Presence::Combined => {
                    let on_path = |which| node.of(which).is_some_and(|e| self.views.of(which).tree().is_gpu_path(e));
                    let [one, two] = Which::BOTH.map(on_path);
                    if one && two {
                        self.common_call(id);
                    }
                    if one || two {
                        pending.extend(node.children.iter().rev().map(|&c| (c, Some(id))));
                    }
                    continue;
                }
                Presence::One => Which::One,
                Presence::Two => Which::Two,
            };
            let Some(event) = node.of(which) else { continue };
            let kernels = self.views.of(which).tree().gpu_events(event).into_owned();
            let name = from.map(|lca| common_name(self.views, self.merged, lca, &[which]));
            self.emit(which, &kernels, from, name.as_ref());
            self.marked[id as usize] = true;
        }
        self.rows
    }

    /// Rows of a call that both traces made, if work below it differs or it is GPU work itself.
    fn common_call(&mut self, id: u32) {
        let node = self.merged.node(id);
        let (views, merged) = (self.views, self.merged);
        let is_work = |which: Which, e: EventId| {
            matches!(views.of(which).trace().kind(e), EventKind::Kernel | EventKind::GpuMemcpy)
        };
        let own = Which::BOTH.map(|which| node.of(which).filter(|&e| is_work(which, e)));
        let differing = Which::BOTH.map(|which| -> Vec<(u32, EventId)> {
            let of_one = |&c: &u32| {
                let child = merged.node(c);
                let e = child.of(which)?;
                let alone = child.presence() != Presence::Combined;
                (alone && views.of(which).tree().is_gpu_path(e)).then_some((c, e))
            };
            node.children.iter().filter_map(of_one).collect()
        });
        if differing.iter().all(Vec::is_empty) && own.iter().any(Option::is_none) {
            return;
        }
        let name = common_name(self.views, self.merged, id, &Which::BOTH);
        for which in Which::BOTH {
            let mut kernels = Vec::new();
            for &(_, e) in &differing[which as usize] {
                kernels.extend_from_slice(&self.views.of(which).tree().gpu_events(e));
                if is_work(which, e) {
                    kernels.push(e);
                }
            }
            kernels.extend(own[which as usize]);
            self.emit(which, &kernels, Some(id), Some(&name));
        }
        self.marked[id as usize] = true;
        for (child, _) in differing.into_iter().flatten() {
            self.marked[child as usize] = true;
        }
    }

    fn emit(&mut self, which: Which, kernels: &[EventId], lca: Option<u32>, name: Option<&Arc<str>>) {
        let view = self.views.of(which);
        let busy_us = rounded(view.busy(kernels).0);
        for &kernel in kernels {
            let Some(op) = op_around(view, kernel) else { continue };
            self.rows.push(DiffRow { which, kernel, op, lca, lca_name: name.cloned(), busy_us });
        }
    }
}

/// GPU events under the nearest call of the host that both traces made; where there is none, under the outermost call.
fn by_owner(views: Views<'_>, merged: &MergedTree) -> Vec<DiffRow> {
    let mut owners: Vec<u32> = Vec::new();
    let mut works: Vec<[Vec<EventId>; 2]> = vec![Default::default(); merged.nodes().len()];
    let mut pending: Vec<(u32, u32)> = merged.roots().iter().rev().map(|&r| (r, r)).collect();
    while let Some((id, owner)) = pending.pop() {
        let node = merged.node(id);
        let kind = |which: Which| node.of(which).map(|e| views.of(which).trace().kind(e));
        let calls = |kind: EventKind| !kind.is_gpu() && !kind.is_runtime();
        let common = kind(Which::One).is_some_and(calls) && kind(Which::Two).is_some_and(calls);
        let owner = if common { id } else { owner };
        for which in Which::BOTH {
            if let Some(e) = node.of(which).filter(|&e| views.of(which).trace().kind(e).is_gpu()) {
                let work = &mut works[owner as usize];
                if work.iter().all(Vec::is_empty) {
                    owners.push(owner);
                }
                work[which as usize].push(e);
            }
        }
        pending.extend(node.children.iter().rev().map(|&c| (c, owner)));
    }
    let mut rows = Vec::new();
    for owner in owners {
        let name = common_name(views, merged, owner, &Which::BOTH);
        for which in Which::BOTH {
            let (view, kernels) = (views.of(which), &works[owner as usize][which as usize]);
            let busy = kernels.iter().filter_map(|&e| Ns::span_of(view.trace(), e)).collect::<IntervalSet<Ns>>();
            let busy_us = busy.measure().as_us();
            for &kernel in kernels {
                let op = op_around(view, kernel).or_else(|| view.tree().parent(kernel)).unwrap_or(kernel);
                let lca_name = Some(Arc::clone(&name));
                rows.push(DiffRow { which, kernel, op, lca: Some(owner), lca_name, busy_us });
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_leave_names() {
        for (name, without) in
            [("f(12)", "f"), ("a.py(3): g", "a.py: g"), ("f(x)(2)", "f(x)"), ("((1)", "("), ("f(", "f(")]
        {
            assert_eq!(without_numbers(name), without);
        }
    }
}

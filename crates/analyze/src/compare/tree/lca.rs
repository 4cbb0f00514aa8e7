//! One row a call that both traces made: how long its GPU work takes in each.

use std::sync::Arc;

use jarvis_trace::InOrder;
use rapidhash::RapidHashMap;

use super::merged::Which;
use super::tables::RowTexts;

/// How the work of a call differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LcaStatus {
    /// The same kernels in the same number.
    SameKernels,
    /// Other kernels, or another number of them.
    OtherKernels,
    /// Only the first trace has GPU work here.
    OnlyOne,
    /// Only the second has.
    OnlyTwo,
}

impl LcaStatus {
    /// As files show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SameKernels => "same_kernels",
            Self::OtherKernels => "other_kernels",
            Self::OnlyOne => "only_trace1",
            Self::OnlyTwo => "only_trace2",
        }
    }
}

/// A call that both traces made, with its GPU work in each.
#[derive(Debug, Clone, PartialEq)]
pub struct LcaRow {
    /// Operations that launched the work.
    pub name: Arc<str>,
    /// The call.
    pub lca_name: Arc<str>,
    /// Its id in the merged tree.
    pub lca: u32,
    /// Modules around it.
    pub nn_module_stack: Arc<str>,
    /// The innermost of them.
    pub nn_module_parent: Arc<str>,
    /// Dims, strides, types, concrete inputs of the first operation.
    pub args: [Arc<str>; 4],
    /// Busy time in each trace, in microseconds.
    pub us: [f64; 2],
    /// Kernels in each trace.
    pub kernels: [Vec<Arc<str>>; 2],
    /// UID of the first operation in each trace.
    pub uids: [Option<u32>; 2],
    /// How the work differs.
    pub status: LcaStatus,
}

impl LcaRow {
    /// Time of the second trace by that of the first: above 1 the second is slower. `None` if the first has none.
    pub fn ratio(&self) -> Option<f64> {
        (self.us[0] > 0.0).then(|| self.us[1] / self.us[0])
    }

    /// What the second takes more.
    pub fn delta_us(&self) -> f64 {
        self.us[1] - self.us[0]
    }
}

/// Sums over all rows.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    /// Microseconds in each trace.
    pub us: [f64; 2],
    /// Kernels in each trace.
    pub kernels: [usize; 2],
}

/// The rows summed up a call, most time of the first trace first. `identical` rows stand for both traces.
pub fn lca_summary(rows: &[RowTexts], identical: bool) -> (Vec<LcaRow>, Totals) {
    let mut order: Vec<Vec<&RowTexts>> = Vec::new();
    let mut index: RapidHashMap<u32, usize> = RapidHashMap::default();
    for row in rows {
        let Some(lca) = row.lca else { continue };
        let at = *index.entry(lca).or_insert(order.len());
        if at == order.len() {
            order.push(Vec::new());
        }
        order[at].push(row);
    }
    let mut summary: Vec<LcaRow> = order.iter().filter_map(|rows| lca_row(rows, identical)).collect();
    summary.order_by(|a, b| b.us[0].total_cmp(&a.us[0]).then(b.us[1].total_cmp(&a.us[1])).then(a.lca.cmp(&b.lca)));
    let mut totals = Totals::default();
    for row in &summary {
        for side in [0, 1] {
            totals.us[side] += row.us[side];
            totals.kernels[side] += row.kernels[side].len();
        }
    }
    (summary, totals)
}

fn lca_row(rows: &[&RowTexts], identical: bool) -> Option<LcaRow> {
    let of = |which: Which| rows.iter().copied().filter(move |r| r.which == which);
    let first = of(Which::One).next().or_else(|| of(Which::Two).next())?;
    let ops = |which: Which| {
        let mut names: Vec<&str> = of(which).map(|r| &*r.cpu_op_name).collect();
        names.sort_unstable();
        names.dedup();
        names.join(" | ")
    };
    let name = Some(ops(Which::One)).filter(|n| !n.is_empty()).unwrap_or_else(|| ops(Which::Two));
    let mut us = Which::BOTH.map(|which| of(which).next().map_or(0.0, |r| r.busy_us));
    let mut kernels = Which::BOTH.map(|which| of(which).map(|r| Arc::clone(&r.name)).collect::<Vec<_>>());
    let mut uids = Which::BOTH.map(|which| of(which).next().map(|r| r.cpu_op_uid));
    if identical {
        us[1] = us[0];
        kernels = [kernels[0].clone(), std::mem::take(&mut kernels[0])];
        uids[1] = uids[0];
    }
    let sorted = |side: usize| {
        let mut names = kernels[side].clone();
        names.sort_unstable();
        names
    };
    let status = match (kernels[0].is_empty(), kernels[1].is_empty()) {
        (false, true) => LcaStatus::OnlyOne,
        (true, false) => LcaStatus::OnlyTwo,
        _ if sorted(0) == sorted(1) => LcaStatus::SameKernels,
        _ => LcaStatus::OtherKernels,
    };
    Some(LcaRow {
        name: name.into(),
        lca_name: first.lca_name.clone().unwrap_or_else(|| "unknown".into()),
        lca: first.lca?,
        nn_module_stack: Arc::clone(&first.nn_module_stack),
        nn_module_parent: Arc::clone(&first.nn_module_parent),
        args: first.args.clone(),
        us,
        kernels,
        uids,
        status,
    })
}

/// Common calls that look the same to a reader: operation, call, shapes, types and status.
#[derive(Debug, Clone, PartialEq)]
pub struct LcaGroup {
    /// The first of them.
    pub first: LcaRow,
    /// How many.
    pub count: usize,
    /// Microseconds in each trace.
    pub us: [f64; 2],
    /// Kernels in each trace.
    pub kernels: [usize; 2],
}

impl LcaGroup {
    /// What the second trace takes more.
    pub fn delta_us(&self) -> f64 {
        self.us[1] - self.us[0]
    }

    /// Time of the second trace by that of the first.
    pub fn ratio(&self) -> Option<f64> {
        (self.us[0] > 0.0).then(|| self.us[1] / self.us[0])
    }
}

/// The rows put together by what a reader can tell apart, largest change first.
pub fn lca_groups(rows: &[LcaRow]) -> Vec<LcaGroup> {
    let mut index: RapidHashMap<(&str, &str, [&str; 2], &str), usize> = RapidHashMap::default();
    let mut groups: Vec<LcaGroup> = Vec::new();
    for row in rows {
        let key = (&*row.name, &*row.lca_name, [&*row.args[0], &*row.args[2]], row.status.as_str());
        let at = *index.entry(key).or_insert(groups.len());
        if at == groups.len() {
            groups.push(LcaGroup { first: row.clone(), count: 0, us: [0.0; 2], kernels: [0; 2] });
        }
        let group = &mut groups[at];
        group.count += 1;
        for side in [0, 1] {
            group.us[side] += row.us[side];
            group.kernels[side] += row.kernels[side].len();
        }
    }
    let change = |g: &LcaGroup| g.delta_us().abs();
    groups.order_by(|a, b| {
        change(b).total_cmp(&change(a)).then(b.us[0].total_cmp(&a.us[0])).then(a.first.lca.cmp(&b.first.lca))
    });
    groups
}

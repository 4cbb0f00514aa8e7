//! The analyzer of everything else; [`DOC`] is what `jarvis explain generic` prints.

use std::collections::BTreeMap;

use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{Group, Judged, Judgement};
use super::priority::NOT_URGENT;
use super::words::{Said, kind_by_words};
use crate::finding::{PatternId, Priority};
use crate::metrics::{Bottleneck, BottleneckImpact, CategoryMetrics, Classification, GenericClass};
use crate::patterns::scene::numel;
use crate::patterns::unfold::UNFOLD;
use crate::prepared::{BoundType, Row};
use crate::program::Direction;
use crate::program::firsts::SORTS;
use crate::system::communication::COLLECTIVES;
use crate::texts::TextId;
use crate::thresholds::Threshold;

const DOC: &str = "\
Operations that no other analyzer is in charge of: indexing, sorting, pooling, concatenation, optimizer kernels, …

## What it finds
Such operations far below the roofline; and those that no model covers but that take much time.

## Why it matters
Each is rare, together they can hide a tenth of a step.

## How it is computed
Efficiency is the roofline time over kernel time where a model covers the operation. A row is a bottleneck if it takes
more than `other.time_ms` or `bottleneck.percent_of_category` and reaches less than `bottleneck.efficiency`, or has no
model at all.

## What to do
Run the region under `torch.compile`, or replay the operation for a kernel team.

## Limits
Communication is counted here and analysed with the system. Priorities are capped at medium unless the operation is one
of the top operations.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "generic",
    title: "Other operations below the roofline",
    doc: DOC,
    time: Threshold::OtherTimeMs,
    thresholds: &[],
};

/// Words of operation names and the kinds they mean, the first that fits; [`COLLECTIVES`] are communication too.
const KINDS: &[(&str, &[&str])] = &[
    ("communication", &["broadcast", "collective", "nccl", "rccl", "c10d", "record_param_comms"]),
    ("graph", &["graph"]),
    ("optimizer", &["_foreach", "_fused_adam", "_fused_sgd", "multi_tensor", "optimizer"]),
    ("memory", &["memcpy", "memset", "::cat", "stack", "slice", "index_put"]),
    ("order", &["topk", "sort", "unique", "histc", "bincount", "nonzero"]),
    ("index", &["embedding", "index", "gather", "scatter"]),
    ("resize", &["upsample", "interpolate", "pad", "roll", "flip"]),
    ("pooling", &["pool"]),
];

/// What is said instead of a projection where an operation does more than to move data.
const NO_SAVING: &str = "bandwidth alone does not tell how long it has to take, so no projection";

/// The analyzer of everything else.
#[derive(Debug)]
pub(super) struct Generic;

fn kind(row: &Row) -> &'static str {
    let by_name = kind_by_words(KINDS, &row.name);
    let name = row.name.to_lowercase();
    let communication = COLLECTIVES.iter().any(|word| name.contains(word))
        || row.report_category.contains("comm")
        || &*row.report_category == "CustomCollective";
    if communication { "communication" } else { by_name.unwrap_or("miscellaneous") }
}

/// The gradient of a table, and the least times as many rows as are looked up at most that it has.
const TABLE_GRADIENT: &str = "aten::embedding_dense_backward";
const FEW_ROWS: i64 = 4;

/// Rows of a table and how many of them have a gradient at most, if these are few.
fn sparse_gradient(row: &Row) -> Option<[i64; 2]> {
    let used = numel(row.inputs.dims.as_ref().filter(|_| &*row.name == TABLE_GRADIENT)?.get(1)?.shape()?);
    let rows: i64 = row.inputs.concrete.as_ref()?.get(2)?.parse().ok()?;
    (used > 0 && used.saturating_mul(FEW_ROWS) <= rows).then_some([rows, used])
}

/// Whether a table has another gradient beside that of its lookups, as the weights of a head that are the same: that one
/// is of all rows.
fn is_shared(cx: &CategoryCx<'_>, gradient: &Row) -> bool {
    let width = |row: &Row| row.inputs.dims.as_ref()?.first()?.shape()?.last().copied();
    let Some((columns, [rows, _])) = width(gradient).zip(sparse_gradient(gradient)) else { return false };
    let is_table = |dims: &[i64]| *dims == [rows, columns];
    let adds = |row: &Row| {
        let of_table = row.inputs.dims.iter().flat_map(|d| d.iter()).filter(|d| d.shape().is_some_and(is_table));
        row.direction == Direction::Backward && row.name.starts_with("aten::add") && of_table.count() > 1
    };
    cx.prepared.rows.iter().any(adds)
}

impl Rules for Generic {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        let kind = kind(row);
        j.excluded = kind == "communication" || row.is_link_copy;
        // Only bandwidth can be told of operations without rules of their own, and only of those that just move data.
        let memory = row.efficiency.bound_type == Some(BoundType::Memory) && row.efficiency.judged().is_some();
        let moves = matches!(kind, "memory" | "index" | "pooling" | "optimizer" | "resize");
        j.finding = (memory && moves).then_some(PatternId::LOW_BANDWIDTH_ELEMENTWISE);
        j
    }

    fn classify(&self, _: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        Classification::Generic(GenericClass { sub_category: kind(judged.row) })
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        let mut said = Said::default();
        said.bound(cx, group);
        // No compiler makes them faster.
        if SORTS.contains(&&*group.row().name) {
            said.model(TextId::A_SORT, &[]);
        } else if &*group.row().name == UNFOLD {
            said.model(TextId::A_UNFOLD, &[]);
        } else if let Some([rows, used]) = sparse_gradient(group.row()).filter(|_| !is_shared(cx, group.row())) {
            said.model(TextId::A_SPARSE_TABLE, &[("rows", &rows.to_string()), ("used", &used.to_string())]);
        } else {
            said.compile(cx, group.row());
        }
        if group.largest().judgement.finding.is_some() {
            said.bandwidth(cx, group);
        }
        said.selection(group.row());
        said.replay();
        said
    }

    fn finish(&self, cx: &CategoryCx<'_>, _: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
        for row in cx.rows() {
            *by_kind.entry(kind(row)).or_default() += row.count;
        }
        let calls = |wanted: &str| by_kind.get(wanted).copied().unwrap_or(0);
        metrics.category_specific.extend([
            ("communication_count", json!(calls("communication"))),
            ("graph_count", json!(calls("graph"))),
            ("memory_count", json!(calls("memory"))),
            ("index_count", json!(calls("index") + calls("order"))),
            ("miscellaneous_count", json!(calls("miscellaneous"))),
            ("peak_maf_tflops", json!(cx.peak_maf())),
            ("peak_hbm_bw_tbs", json!(cx.peak_tbs())),
        ]);
        for b in metrics.bottlenecks.iter_mut().filter(|b| !b.in_top_ops) {
            b.priority_category = b.priority_category.max(Priority::Medium);
            b.priority_by_share = b.priority_by_share.max(Priority::Medium);
            b.priority = b.priority.max(Priority::Medium);
            if !b.replay.required {
                without_package(b, NOT_URGENT);
            }
        }
        for b in metrics.bottlenecks.iter_mut().filter(|b| b.finding.is_none() && b.efficiency_percent.is_some()) {
            b.impact = BottleneckImpact { basis: NO_SAVING.to_owned(), ..Default::default() };
            if !b.replay.required {
                b.priority = b.priority.max(Priority::Medium);
                without_package(b, "what it could save is not known");
            }
        }
    }
}

/// Takes back that a package is made, and says why.
fn without_package(b: &mut Bottleneck, why: &str) {
    if b.replay.recommended {
        b.replay.recommended = false;
        why.clone_into(&mut b.replay.reason);
        Said::without_replay(&mut b.kernel, &mut b.text_ids);
    }
}

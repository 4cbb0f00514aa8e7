//! The elementwise analyzer; [`DOC`] is what `jarvis explain elementwise` prints.

use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{Group, Judged, Judgement, Needless, RowPattern};
use super::words::{Said, kind_by_words, odd_strides};
use crate::finding::PatternId;
use crate::metrics::{CategoryMetrics, Classification, ElementwiseClass};
use crate::prepare::percent;
use crate::prepared::{Baseline, Row};
use crate::program::kind::base;
use crate::rounding::{round, shown};
use crate::texts::TextId;
use crate::thresholds::Threshold;

const DOC: &str = "\
Elementwise operations: arithmetic, copies, casts, activations, masks, fills.

## What it finds
Elementwise operations far below the peak bandwidth, and a baseline that is low for the whole trace: what simple
additions, multiplications and copies of large plain tensors reach.

## Why it matters
Every elementwise operation reads and writes whole tensors. They are bound by memory alone, so what they miss of the
bandwidth is lost, and operations that could be fused pay for the same tensor again and again.

## How it is computed
Efficiency is bytes over peak bandwidth over kernel time. Simple operations reach 70-80 % of the peak. A row is a
bottleneck if it takes more than `elementwise.time_ms` or `bottleneck.percent_of_category` and reaches less than
`bottleneck.efficiency`. The baseline takes rows of equal contiguous operands that move `baseline.min_mb` or more.

## What to do
Fuse with the neighbouring operations (`torch.compile`); make inputs contiguous where strides are odd; replay the
operation for a kernel team.

## Limits
Copies between host and device, or between devices, are not judged here. Small tensors take the time of a launch,
whatever the bandwidth.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "elementwise",
    title: "Elementwise operations below the memory bandwidth",
    doc: DOC,
    time: Threshold::ElementwiseTimeMs,
    thresholds: &[
        Threshold::BaselineMinMb,
        Threshold::BaselineDefault,
        Threshold::BaselineMinCeiling,
        Threshold::HighCount,
        Threshold::HighCountUs,
    ],
};

const HIGH_COUNT: &str = "HIGH_COUNT";

/// A baseline below this is low for any GPU, in percent of peak.
const LOW_BASELINE: f64 = 50.0;

/// Expected of simple operations, in percent of peak.
const SIMPLE_BAND: (f64, f64) = (70.0, 80.0);

/// Operations the band holds for.
const SIMPLE: &[&str] = &["aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::copy_", "aten::fill_"];

const MASK: &str = "compare_mask";

/// Comparisons. Their names are so short that others hold them.
const COMPARISONS: &[&str] = &[
    "eq",
    "ne",
    "gt",
    "lt",
    "ge",
    "le",
    "isinf",
    "isnan",
    "isfinite",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
];

/// Words of operation names and the types they mean, the first that fits.
const TYPES: &[(&str, &[&str])] = &[
    (MASK, &["masked"]),
    ("copy", &["copy_", "clone", "contiguous", "::cat", "repeat", "expand"]),
    ("cast", &["_to_copy", "::to", "type_as"]),
    ("fill", &["fill_", "zero", "ones", "full", "arange"]),
    (
        "activation",
        &["relu", "gelu", "silu", "sigmoid", "tanh", "threshold", "clamp_min", "hardswish", "elu", "dropout"],
    ),
    (MASK, &["where", "clamp", "tril", "triu", "bitwise"]),
    ("add", &["add"]),
    ("multiply", &["mul"]),
    ("divide", &["div", "reciprocal"]),
    ("subtract", &["sub", "neg"]),
    ("math", &["exp", "log", "pow", "sqrt", "sin", "cos", "erf", "square", "abs", "floor", "round"]),
];

/// The elementwise analyzer.
#[derive(Debug)]
pub(super) struct Elementwise;

fn op_type(name: &str) -> &'static str {
    if COMPARISONS.contains(&base(name)) { MASK } else { kind_by_words(TYPES, name).unwrap_or("other") }
}

/// Whether some tensor repeats along a dimension, or sizes differ.
fn is_broadcast(row: &Row) -> bool {
    let Some(dims) = &row.inputs.dims else { return false };
    let shapes: Vec<&[i64]> = dims.iter().filter_map(|d| d.shape()).filter(|s| !s.is_empty()).collect();
    let repeats =
        row.inputs.strides.as_deref().unwrap_or_default().iter().filter_map(|s| s.shape()).any(|s| s.contains(&0));
    repeats || shapes.windows(2).any(|w| w[0] != w[1])
}

fn chain_share(cx: &CategoryCx<'_>, row: &Row) -> f64 {
    cx.claims.share_of_pattern(row.id, PatternId::ELEMENTWISE_CHAIN)
}

fn high_count(cx: &CategoryCx<'_>, row: &Row) -> Option<RowPattern> {
    let short = row.mean_us < cx.limit(Threshold::HighCountUs);
    let many = row.count as f64 >= cx.limit(Threshold::HighCount);
    (many && short).then(|| {
        let evidence = format!("{} calls, {} us on average", row.count, shown(row.mean_us, 1));
        RowPattern::new(HIGH_COUNT, vec![evidence]).fact()
    })
}

/// Operations that write a tensor out several times, which most others need not have.
const REPEATS: &[&str] = &["aten::repeat", "aten::tile"];

impl Rules for Elementwise {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.finding = Some(PatternId::LOW_BANDWIDTH_ELEMENTWISE);
        j.excluded = row.is_link_copy;
        if REPEATS.contains(&&*row.name) {
            j.needless = Needless::All;
        }
        j.patterns.extend(high_count(cx, row));
        if SIMPLE.contains(&&*row.name) {
            j.band = Some(SIMPLE_BAND);
        }
        j.assessment = row.efficiency.judged().map(|e| match e {
            e if e > 70.0 => "Near optimal",
            e if e >= 50.0 => "Good",
            e if e >= 30.0 => "Look for fusion",
            _ => "Anomaly",
        });
        j
    }

    fn classify(&self, cx: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        let row = judged.row;
        Classification::Elementwise(ElementwiseClass {
            op_type: op_type(&row.name),
            is_baseline: cx.prepared.baseline.rows.contains(&row.uid),
            is_memcpy: row.is_link_copy,
            contiguous: odd_strides(row).is_none(),
            broadcast: is_broadcast(row),
            bytes_per_call_mb: row.data_moved_mb.map(|mb| round(mb, 3)),
            in_chain: chain_share(cx, row) > 0.0,
        })
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        let row = group.row();
        let mut said = Said::default();
        said.bound(cx, group);
        if REPEATS.contains(&&*row.name) {
            said.model(TextId::A_BROADCAST, &[]);
        } else {
            said.fuse(cx, row);
        }
        if group.has(HIGH_COUNT) {
            said.compile(cx, row);
        }
        said.bandwidth(cx, group);
        said.selection(row);
        said.replay();
        said.strides(row);
        said
    }

    fn finish(&self, cx: &CategoryCx<'_>, _: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let baseline = &cx.prepared.baseline;
        let seed = baseline.seed_bandwidth_tbs;
        let chains: Vec<_> = cx.claims.of_pattern(PatternId::ELEMENTWISE_CHAIN).collect();
        let odd: f64 = cx.rows().filter(|r| odd_strides(r).is_some()).map(Row::compute_ms).sum();
        metrics.category_specific.extend([
            ("baseline_bandwidth_tbs", json!(seed.map(|s| round(s, 4)))),
            ("baseline_efficiency_percent", json!(seed.map(|s| round(percent(s, cx.peak_tbs()), 2)))),
            ("baseline_robust_tbs", json!(round(baseline.bandwidth_tbs, 4))),
            ("baseline_robust_percent", json!(round(baseline.efficiency_percent, 2))),
            ("baseline_source", json!(baseline.source)),
            ("peak_hbm_bw_tbs", json!(cx.peak_tbs())),
            ("chain_time_ms", json!(round(chains.iter().map(|c| c.time_ms).sum::<f64>(), 3))),
            ("chain_count", json!(chains.len())),
            ("memcpy_rows_time_ms", json!(round(cx.category.time.copy_time_ms, 3))),
            ("noncontiguous_time_percent", json!(round(cx.of_category(odd), 2))),
        ]);
        if baseline.source == Baseline::MEASURED && baseline.efficiency_percent < LOW_BASELINE {
            let base = shown(baseline.efficiency_percent, 1);
            metrics.notes.push(TextId::I_LOW_BASELINE.fill(&[("base", &base)]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_go_by_whole_names_where_they_are_short() {
        for (name, wanted) in [
            ("aten::neg", "subtract"),
            ("aten::lerp_", "other"),
            ("aten::ne", "compare_mask"),
            ("aten::le_", "compare_mask"),
            ("aten::masked_fill_", "compare_mask"),
            ("aten::fill_", "fill"),
            ("aten::copy_", "copy"),
            ("aten::clamp_min", "activation"),
        ] {
            assert_eq!(op_type(name), wanted, "{name}");
        }
    }
}

//! The reduction analyzer; [`DOC`] is what `jarvis explain reduce` prints.

use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{Group, Judged, Judgement, assess_bandwidth};
use super::words::{Said, kind_by_words};
use crate::finding::PatternId;
use crate::metrics::{CategoryMetrics, Classification, ReduceClass};
use crate::patterns::scene::{self, numel};
use crate::prepared::Row;
use crate::program::kind::base;
use crate::rounding::round;
use crate::texts::TextId;
use crate::thresholds::Threshold;

const DOC: &str = "\
Reductions: softmax, sums, means, maxima, norms of vectors, scans, cross entropy.

## What it finds
Reductions far below the peak bandwidth. Softmax inside attention that is written out is told with the attention.

## Why it matters
A reduction reads its input once and writes little; what it misses of the bandwidth is lost time.

## How it is computed
Efficiency is bytes over peak bandwidth over kernel time; 50-70 % is expected. A row is a bottleneck if it takes more
than `reduce.time_ms` or `bottleneck.percent_of_category` and reaches less than `bottleneck.efficiency`.

## What to do
Fuse the reduction with the operations that make or use its operand; replay it for a kernel team.

## Limits
Reductions of small tensors take the time of a launch, whatever the bandwidth.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "reduce",
    title: "Reductions below the memory bandwidth",
    doc: DOC,
    time: Threshold::ReduceTimeMs,
    thresholds: &[],
};

/// Expected, in percent of peak.
const BAND: (f64, f64) = (50.0, 70.0);

/// Words of operation names and the kinds they mean.
const KINDS: &[(&str, &[&str])] = &[
    ("softmax", &["softmax"]),
    ("cross_entropy", &["cross_entropy", "crossentropy", "nll_loss"]),
    ("scan", &["cumsum", "cumprod", "scan"]),
    ("arg", &["argmax", "argmin"]),
    ("variance", &["var", "std"]),
    ("mean", &["mean"]),
    ("sum", &["sum"]),
    ("max", &["max", "amax"]),
    ("min", &["min", "amin"]),
    ("norm", &["norm"]),
    ("logic", &["all", "any"]),
];

/// The reduction analyzer.
#[derive(Debug)]
pub(super) struct Reduce;

fn kind(name: &str) -> &'static str {
    kind_by_words(KINDS, name).unwrap_or("other")
}

/// The dimension that is reduced and the sizes around it, where the arguments tell: product of the sizes before it, its
/// own size times those after it.
fn reduced(row: &Row) -> Option<(i64, i64, i64)> {
    let shape = row.inputs.dims.as_ref()?.first()?.shape().filter(|s| !s.is_empty())?;
    let dims = scene::reduced(&row.inputs, base(&row.name), shape.len() as i64)?;
    let &[dim] = &dims[..] else { return None };
    let at = usize::try_from(dim).ok().filter(|&a| a < shape.len())?;
    Some((dim, numel(&shape[..at]), numel(&shape[at..])))
}

fn in_attention(cx: &CategoryCx<'_>, row: &Row) -> f64 {
    cx.claims.share_of_pattern(row.id, PatternId::UNFUSED_ATTENTION)
}

impl Rules for Reduce {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.band = Some(BAND);
        j.finding = Some(PatternId::LOW_BANDWIDTH_REDUCE);
        j.assessment = row.efficiency.judged().map(|e| assess_bandwidth(cx, e, "Needs investigation"));
        j
    }

    fn classify(&self, cx: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        let sizes = reduced(judged.row);
        let kind = kind(&judged.row.name);
        Classification::Reduce(Box::new(ReduceClass {
            is_softmax: kind == "softmax",
            reduce_type: kind,
            in_attention: in_attention(cx, judged.row) > 0.0,
            reduced_dim: sizes.map(|s| s.0),
            outer: sizes.map(|s| s.1),
            inner: sizes.map(|s| s.2),
        }))
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        let row = group.row();
        let mut said = Said::default();
        said.bound(cx, group);
        if in_attention(cx, row) > 0.0 {
            said.model(TextId::A_FLASH_PATH, &[]);
        }
        said.fuse(cx, row);
        said.bandwidth(cx, group);
        said.replay();
        said.strides(row);
        said
    }

    fn finish(&self, cx: &CategoryCx<'_>, _: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let softmax: Vec<&Row> = cx.rows().filter(|r| kind(&r.name) == "softmax").collect();
        let in_attention: f64 = softmax.iter().map(|r| r.time_ms * in_attention(cx, r)).sum();
        metrics.category_specific.extend([
            ("softmax_count", json!(softmax.iter().map(|r| r.count).sum::<usize>())),
            ("softmax_time_ms", json!(round(softmax.iter().map(|r| r.time_ms).sum::<f64>(), 3))),
            ("softmax_in_attention_time_ms", json!(round(in_attention, 3))),
            ("peak_hbm_bw_tbs", json!(cx.peak_tbs())),
            ("baseline_robust_percent", json!(round(cx.prepared.baseline.efficiency_percent, 2))),
        ]);
    }
}

//! The analyzer of all other norms; [`DOC`] is what `jarvis explain norm` prints.

use serde_json::json;

use super::AnalyzerInfo;
use super::batchnorm::BELOW_BASELINE;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{Group, Judged, Judgement, RowPattern, aggregate, assess_bandwidth};
use super::neighbours::Neighbours;
use super::words::{Said, is_backward, kind_by_words, trains};
use crate::finding::PatternId;
use crate::metrics::{CategoryMetrics, Classification, NormClass};
use crate::patterns::scene::numel;
use crate::prepared::{Baseline, Row};
use crate::rounding::{round, shown};
use crate::texts::TextId;
use crate::thresholds::Threshold;

const DOC: &str = "\
Layer, group, instance and RMS norms that run as one operation.

## What it finds
Norms far below the memory bandwidth, against what simple elementwise operations reach in the same trace.

## Why it matters
A norm reads and writes its input once; everything beyond that is lost.

## How it is computed
Efficiency is bytes over peak bandwidth over kernel time. A row is a bottleneck if it takes more than `norm.time_ms` or
`bottleneck.percent_of_category` and reaches less than `bottleneck.efficiency`.

## What to do
Fuse the norm with the residual addition next to it, run the region under `torch.compile`, or replay the operation for a
kernel team.

## Limits
Norms written out as separate operations do not reach this category: the fusion findings tell of them.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "norm",
    title: "Norms below what the memory gives",
    doc: DOC,
    time: Threshold::NormTimeMs,
    thresholds: &[Threshold::BnRatioLow],
};

const KINDS: &[(&str, &[&str])] = &[
    ("rms", &["rms"]),
    ("layer", &["layer_norm", "layernorm"]),
    ("group", &["group_norm", "groupnorm"]),
    ("instance", &["instance_norm", "instancenorm"]),
    ("l2", &["l2norm", "l2_norm"]),
];

/// The analyzer of norms.
#[derive(Debug)]
pub(super) struct Norm;

fn kind(name: &str) -> &'static str {
    kind_by_words(KINDS, name).unwrap_or("other")
}

fn below_baseline(cx: &CategoryCx<'_>, efficiency: f64) -> bool {
    let baseline = &cx.prepared.baseline;
    baseline.source == Baseline::MEASURED && efficiency < cx.limit(Threshold::BnRatioLow) * baseline.efficiency_percent
}

impl Rules for Norm {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.finding = Some(PatternId::NORM_BELOW_BASELINE);
        if let Some(e) = row.efficiency.judged().filter(|&e| below_baseline(cx, e)) {
            let base = shown(cx.prepared.baseline.efficiency_percent, 1);
            let evidence = vec![format!("{}% against {base}% of simple operations", shown(e, 1))];
            j.patterns.push(RowPattern::new(BELOW_BASELINE, evidence));
        }
        j.assessment = row.efficiency.judged().map(|e| assess_bandwidth(cx, e, "Compare with baseline"));
        j
    }

    fn classify(&self, _: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        let row = judged.row;
        let shape = row.inputs.dims.as_ref().and_then(|d| d.iter().find_map(|d| d.shape().filter(|s| s.len() > 1)));
        Classification::Norm(Box::new(NormClass {
            norm_type: kind(&row.name),
            hidden: shape.and_then(|s| s.last().copied()),
            rows: shape.map(|s| numel(&s[..s.len() - 1])),
        }))
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        let row = group.row();
        let mut said = Said::default();
        if group.has(BELOW_BASELINE) {
            let values = [
                ("bn_eff", &*shown(group.efficiency.unwrap_or(f64::NAN), 1)),
                ("base", &shown(cx.prepared.baseline.efficiency_percent, 1)),
            ];
            said.issue(TextId::I_BN, &values);
        }
        said.bound(cx, group);
        if !is_backward(row) && Neighbours::of(cx, row).names.iter().any(|n| n.contains("add")) {
            said.model(TextId::A_FUSE_RESIDUAL, &[]);
        }
        said.compile(cx, row);
        if kind(&row.name) == "layer" && trains(cx.prepared) {
            said.model(TextId::A_RMSNORM, &[]);
        }
        said.bandwidth(cx, group);
        said.replay();
        said.strides(row);
        said
    }

    fn finish(&self, cx: &CategoryCx<'_>, _: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let baseline = &cx.prepared.baseline;
        metrics.category_specific.extend([
            ("norm_efficiency_percent", json!(aggregate(cx.rows()).map(|e| round(e, 2)))),
            ("baseline_efficiency_percent", json!(round(baseline.efficiency_percent, 2))),
            ("baseline_source", json!(baseline.source)),
            ("peak_hbm_bw_tbs", json!(cx.peak_tbs())),
        ]);
    }
}

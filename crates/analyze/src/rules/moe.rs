//! The analyzer of expert layers; [`DOC`] is what `jarvis explain moe` prints.

use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{Group, Judged, Judgement};
use super::words::Said;
use crate::finding::PatternId;
use crate::metrics::{CategoryMetrics, Classification, MoeClass};
use crate::prepared::{BoundType, Row};
use crate::rounding::round;
use crate::texts::TextId;
use crate::thresholds::Threshold;

const DOC: &str = "\
Mixture-of-experts operations: routing, expert products, fused expert kernels.

## What it finds
Expert kernels far below the roofline, and expert layers that run in separate stages.

## Why it matters
Each token visits a few of many experts: a step touches the weights of nearly all experts and computes with few tokens
on each, so these layers are bound by weight bytes unless many tokens are batched.

## How it is computed
Efficiency is the roofline time over kernel time; bytes assume that tokens spread evenly over experts. A row is a
bottleneck if it takes more than `moe.time_ms` or `bottleneck.percent_of_category` and reaches less than
`bottleneck.efficiency`.

## What to do
Batch more tokens per expert call, quantize the weights, use a fused expert kernel instead of separate stages.

## Limits
How tokens spread over experts is not visible in a trace.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "moe",
    title: "Expert layers below the roofline",
    doc: DOC,
    time: Threshold::MoeTimeMs,
    thresholds: &[],
};

const ROUTING_WORDS: &[&str] = &["gate", "router", "topk", "sort", "align"];

/// The analyzer of expert layers.
#[derive(Debug)]
pub(super) struct Moe;

fn kind(row: &Row) -> &'static str {
    let name = row.name.to_lowercase();
    match () {
        () if ROUTING_WORDS.iter().any(|w| name.contains(w)) => "routing",
        () if &*row.category == "moe_unfused" => "unfused_stage",
        () if name.contains("fused") || name.contains("fmoe") => "fused",
        () => "expert",
    }
}

/// Tokens, experts, hidden and inner width, as far as the arguments of a fused call tell: activations `[tokens,
/// hidden]`, then weights `[experts, inner, hidden]`.
fn sizes(row: &Row) -> [Option<i64>; 4] {
    let dims = row.inputs.dims.as_deref().unwrap_or_default();
    let shapes: Vec<&[i64]> = dims.iter().filter_map(|d| d.shape()).collect();
    let tokens = shapes.iter().find(|s| s.len() == 2);
    let weights = shapes.iter().find(|s| s.len() == 3);
    [tokens.map(|s| s[0]), weights.map(|s| s[0]), tokens.map(|s| s[1]), weights.map(|s| s[1])]
}

fn is_narrow(row: &Row) -> bool {
    let spec = row.efficiency.compute_spec.as_deref().unwrap_or_default();
    ["fp8", "fp4", "fp6", "int8"].iter().any(|p| spec.ends_with(p))
}

impl Rules for Moe {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.finding = Some(PatternId::MOE_BELOW_BAND);
        j.assessment = row.efficiency.judged().map(|e| match e {
            e if e > 50.0 => "Good",
            e if e >= 30.0 => "Check routing balance",
            _ => "Needs investigation",
        });
        j
    }

    fn classify(&self, _: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        let row = judged.row;
        let [tokens, experts, hidden, intermediate] = sizes(row);
        let top_k = row.params.iter().find(|(k, _)| k == "topk" || k == "top_k").map(|(_, v)| v.to_string());
        Classification::Moe(Box::new(MoeClass {
            moe_type: kind(row),
            tokens,
            experts,
            top_k: top_k.and_then(|t| t.parse().ok()),
            hidden,
            intermediate,
        }))
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        let row = group.row();
        let mut said = Said::default();
        said.bound(cx, group);
        if kind(row) == "unfused_stage" {
            said.model(TextId::A_MOE_FUSE, &[]);
        }
        said.model(TextId::A_MOE_BATCH, &[]);
        if row.efficiency.bound_type == Some(BoundType::Memory) && !is_narrow(row) {
            said.model(TextId::A_QUANT, &[]);
        }
        said.selection(row);
        said.replay();
        said
    }

    fn finish(&self, cx: &CategoryCx<'_>, _: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let routing: f64 = cx.rows().filter(|r| kind(r) == "routing").map(|r| r.time_ms).sum();
        metrics.category_specific.extend([
            ("peak_maf_tflops", json!(cx.peak_maf())),
            ("peak_hbm_bw_tbs", json!(cx.peak_tbs())),
            ("routing_time_percent", json!(round(cx.of_category(routing), 2))),
            ("approximation", json!("bytes assume uniform routing")),
        ]);
        metrics.notes.push(TextId::N_MOE.plain());
    }
}

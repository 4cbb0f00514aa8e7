//! The batch norm analyzer; [`DOC`] is what `jarvis explain batchnorm` prints.

use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{Group, Judged, Judgement, RowPattern, aggregate, assess_bandwidth};
use super::layout::{self, Layout, LayoutNames};
use super::words::{Said, is_backward, trains};
use crate::finding::PatternId;
use crate::metrics::{BatchNormClass, CategoryMetrics, Classification};
use crate::prepare::{kernel_names, percent};
use crate::prepared::{Baseline, Row};
use crate::program::Direction;
use crate::rounding::{round, shown};
use crate::texts::{TextId, counted};
use crate::thresholds::Threshold;

const DOC: &str = "\
Batch norm, forward and backward, training and inference.

## What it finds
Batch norms far below the memory bandwidth, and whether the kernel or the hardware is the limit: what simple elementwise
operations reach in the same trace tells.

## Why it matters
Batch norm does little arithmetic, yet takes 10-50 % of the time of convolutional networks when its kernels are poor.

## How it is computed
Bytes count the passes a kernel must make: training forward reads its input twice and writes once, backward reads input
and gradient twice and writes once. Efficiency is bytes over peak bandwidth over kernel time. Below `bn.low` with a
baseline above `bn.baseline`, or below `bn.ratio_low` of the baseline, the kernel is the limit. Without a measured
baseline no verdict is given.

## What to do
Convert the model to channels-last where convolutions are near; fuse with `torch.compile`; use another norm where the
model allows; replay the operation for a kernel team.

## Limits
Small inputs stay on the chip between the passes, so their efficiency may look better than it is.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "batchnorm",
    title: "Batch norms below what the memory gives",
    doc: DOC,
    time: Threshold::BatchnormTimeMs,
    thresholds: &[Threshold::BnLow, Threshold::BnBaseline, Threshold::BnRatioLow, Threshold::BnRatioOk],
};

/// Code of the pattern, for norms of every kind.
pub(super) const BELOW_BASELINE: &str = "BN_BELOW_BASELINE";

/// Shares of compute that are common, in percent.
const COMMON_SHARE: (f64, f64) = (10.0, 50.0);

/// The batch norm analyzer.
#[derive(Debug)]
pub(super) struct BatchNorm;

/// Whether a norm at this efficiency is the kernel's fault; `unknown` without a measured baseline.
fn verdict(cx: &CategoryCx<'_>, efficiency: Option<f64>) -> &'static str {
    let baseline = &cx.prepared.baseline;
    let (Some(e), true) = (efficiency, baseline.source == Baseline::MEASURED) else { return "unknown" };
    let ratio = if baseline.efficiency_percent > 0.0 { e / baseline.efficiency_percent } else { f64::NAN };
    let strict = baseline.efficiency_percent > cx.limit(Threshold::BnBaseline);
    match () {
        () if e < cx.limit(Threshold::BnLow) && strict => "kernel_issue",
        () if ratio < cx.limit(Threshold::BnRatioLow) => "below_baseline",
        () if ratio >= cx.limit(Threshold::BnRatioOk) => "ok",
        () => "between",
    }
}

fn is_training(row: &Row) -> bool {
    let told = row.params.iter().find(|(k, _)| k == "is_training").map(|(_, v)| v.truth());
    told.unwrap_or(row.direction == Direction::Backward)
}

fn native_percent<'r>(rows: &(impl Iterator<Item = &'r Row> + Clone)) -> f64 {
    let us = |native: bool| {
        let kernels = rows.clone().flat_map(|r| r.kernels.iter());
        kernels.filter(|k| !native || kernel_names::is_native(&k.name)).map(|k| k.total_us).sum::<f64>()
    };
    percent(us(true), us(false))
}

/// Place of the running mean among the arguments of all forward batch norms, and of `training`.
const RUNNING_MEAN: usize = 3;
const TRAINING: usize = 5;

/// Place of the bias among the arguments of convolutions.
const CONVOLUTION_BIAS: usize = 2;

/// Whether a norm that has running statistics was told not to use them. (Without any it can't.)
fn recomputes_statistics(row: &Row) -> bool {
    let training = row.inputs.concrete.as_ref().and_then(|c| c.get(TRAINING)).is_some_and(|t| &**t == "True");
    let mean = row.inputs.dims.as_ref().and_then(|d| d.get(RUNNING_MEAN)).and_then(|d| d.shape());
    training && mean.is_some_and(|s| !s.is_empty())
}

/// Advice to leave training mode, if norms run in it and nothing goes backward: statistics are then reckoned, and running
/// ones changed, for nothing.
fn in_training_for_nothing<'r>(cx: &CategoryCx<'_>, rows: impl Iterator<Item = &'r Row>) -> Option<String> {
    let calls: usize = rows.filter(|r| recomputes_statistics(r)).map(|r| r.count).sum();
    (calls > 0 && !trains(cx.prepared)).then(|| counted(calls, "batch norm call"))
}

/// Whether convolutions add a bias to as many channels: then nothing is left of a norm that is folded into them. Else the
/// bias that it leaves takes its place, which brought from 0.89x to 1.04x in four measured networks.
fn follows_bias(cx: &CategoryCx<'_>, norm: &Row) -> bool {
    let shape = |row: &Row, at: usize| row.inputs.dims.as_ref()?.get(at)?.shape().map(<[i64]>::to_vec);
    let Some(channels) = shape(norm, 0).and_then(|dims| dims.get(1).copied()) else { return false };
    let adds = |row: &&Row| !is_backward(row) && shape(row, CONVOLUTION_BIAS).as_deref() == Some(&[channels]);
    cx.prepared.rows.iter().filter(|row| &*row.category == "convolution").any(|row| adds(&row))
}

impl Rules for BatchNorm {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.finding = Some(PatternId::NORM_BELOW_BASELINE);
        let efficiency = row.efficiency.judged();
        let verdict = verdict(cx, efficiency);
        if matches!(verdict, "kernel_issue" | "below_baseline") {
            let base = shown(cx.prepared.baseline.efficiency_percent, 1);
            let evidence =
                vec![format!("{}% against {base}% of simple operations", shown(efficiency.unwrap_or(0.0), 1))];
            j.patterns.push(RowPattern::new(BELOW_BASELINE, evidence).high());
        }
        j.assessment = efficiency.map(|e| assess_bandwidth(cx, e, "Compare with baseline"));
        j
    }

    fn classify(&self, cx: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        let row = judged.row;
        Classification::BatchNorm(BatchNormClass {
            layout: Layout::of(row).as_str(),
            is_training: is_training(row),
            verdict: verdict(cx, row.efficiency.judged()),
        })
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
            let native = native_percent(&group.members.iter().map(|m| m.row));
            said.kernel(TextId::B_BN, &[("pct", &shown(native, 0))]);
        }
        said.bound(cx, group);
        if let Some(calls) = in_training_for_nothing(cx, group.members.iter().map(|m| m.row)) {
            said.model(TextId::A_EVAL, &[("n", &calls)]);
        }
        // There are no kernels for volumes with channels last.
        if Layout::of(row) != Layout::ChannelsLast
            && !layout::is_volume(row)
            && layout::may_change(cx.prepared)
            && let Some(names) = LayoutNames::of(row)
        {
            said.model(TextId::A_CHANNELS_LAST_NORM, &[("format", names.format), ("last", names.last)]);
        }
        said.compile(cx, row);
        if trains(cx.prepared) {
            said.model(TextId::A_BN_ALT, &[]);
        } else if follows_bias(cx, row) {
            said.model(TextId::A_BN_FOLD, &[]);
        }
        said.bandwidth(cx, group);
        said.replay();
        said
    }

    fn finish(&self, cx: &CategoryCx<'_>, _: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let baseline = &cx.prepared.baseline;
        let efficiency = aggregate(cx.rows());
        let weighted: f64 = cx.rows().filter_map(|r| Some(r.efficiency.tb_s_achieved? * r.time_ms)).sum();
        let rated: f64 = cx.rows().filter(|r| r.efficiency.tb_s_achieved.is_some()).map(|r| r.time_ms).sum();
        let measured = baseline.source == Baseline::MEASURED;
        let ratio = efficiency.filter(|_| measured && baseline.efficiency_percent > 0.0);
        let last: f64 = cx.rows().filter(|r| Layout::of(r) == Layout::ChannelsLast).map(|r| r.time_ms).sum();
        metrics.category_specific.extend([
            ("bn_bandwidth_tbs", json!((rated > 0.0).then(|| round(weighted / rated, 4)))),
            ("bn_efficiency_percent", json!(efficiency.map(|e| round(e, 2)))),
            ("baseline_efficiency_percent", json!(round(baseline.efficiency_percent, 2))),
            ("baseline_source", json!(baseline.source)),
            ("bn_to_baseline_ratio", json!(ratio.map(|e| round(e / baseline.efficiency_percent, 4)))),
            ("verdict", json!(verdict(cx, efficiency))),
            ("training_rows", json!(cx.rows().filter(|r| is_training(r)).count())),
            ("inference_rows", json!(cx.rows().filter(|r| !is_training(r)).count())),
            ("channels_last_time_percent", json!(round(cx.of_category(last), 2))),
            ("native_kernel_time_percent", json!(round(native_percent(&cx.rows()), 2))),
        ]);
        if let Some(calls) = in_training_for_nothing(cx, cx.rows()) {
            metrics.notes.push(TextId::A_EVAL.fill(&[("n", &calls)]));
        }
        let share = cx.category.percent_of_compute;
        if (COMMON_SHARE.0..=COMMON_SHARE.1).contains(&share) {
            metrics.notes.push(TextId::N_BN_COMMON.fill(&[("pct", &shown(share, 1))]));
        }
    }
}

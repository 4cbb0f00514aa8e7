//! The convolution analyzer; [`DOC`] is what `jarvis explain convolution` prints.

mod across;
mod depthwise;
mod few_channels;
mod shape;

use std::collections::BTreeMap;

use jarvis_trace::InOrder;
use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::{Rules, number};
use super::judge::{Group, Judged, Judgement, RowPattern, aggregate};
use super::layout::{self, Layout};
use super::precision;
use super::words::{Said, compiled_already, is_backward};
use crate::finding::PatternId;
use crate::metrics::{
    Bottleneck, CategoryMetrics, Classification, ConvolutionClass, ConvolutionShape, Fact, Facts, PatternMetrics,
};
use crate::prepare::kernel_names::main_kernel;
use crate::prepare::percent;
use crate::prepared::{BoundType, Row};
use crate::rounding::round;
use crate::texts::TextId;
use crate::thresholds::Threshold;
use shape::{Kind, Shape};

const DOC: &str = "\
Convolutions, forward and backward, of one to three dimensions.

## What it finds
Layout-changing kernels around convolutions, and convolutions below the band for their kind (large, 3x3, 1x1,
depthwise).

## Why it matters
DNN libraries prefer channels-last tensors while the framework makes channels-first ones: every mismatch is paid with
transposes before and after the kernel, often a third of the time, and slower batch norms in between.

## How it is computed
Transposes are kernels with the name of one, inside convolution operations: their share of the category's kernel time is
high above `conv.transpose_high` and moderate from `conv.transpose_moderate` on. Bands are `conv.band.*`; those of
transposed, grouped and dilated convolutions are `conv.band.odd_factor` of them, and no depthwise one is asked for more
than 3.2 vector instructions a tap allow (8 in full precision), nor called slow at less than 7 (13). Of no more than 8 input
channels 5 to 35% is expected (18 to 45% in full precision), as measured with 768 of them, and nothing is counted on: which
layout and how many added channels are fastest differs from shape to shape. A row is a bottleneck
if it takes more than `convolution.time_ms` or `bottleneck.percent_of_category` and lies below its band. What the right
layout saves: the transposes, batch norm up to the memory ceiling, convolutions up to their band. Batch norms on volumes
have no kernels for it: what they take then was measured, and is more in inference. Around convolutions in
groups of two channels, or of a number that is no power of two, transposes stay, and take up to four times as long where
images are channels-last: where that outweighs the rest the advice is to keep the layout. The gradient of an
average over the sides comes channels first all the same; the cautious end counts what sums of images that get it, and
the blocks between them, take longer for that. Depthwise convolutions on kernels for channels first are told of the
layout together with such norms, with copies between layouts and with work on tensors of both; not where filters of more
than 5 by 5 are trained in full precision, whose backward gets slower.

## What to do
`model.to(memory_format=torch.channels_last)`, and the same for the inputs (3-D tensors have no such format); else fuse
the convolution with what follows it, or replay it for a kernel team.

## Limits
Layouts are read from recorded strides. Which kernel the library picks for the other layout is not known beforehand.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "convolution",
    title: "Layout transposes, and convolutions below the band for their kind",
    doc: DOC,
    time: Threshold::ConvolutionTimeMs,
    thresholds: &[
        Threshold::ConvTransposeHigh,
        Threshold::ConvTransposeModerate,
        Threshold::ConvLargeLow,
        Threshold::ConvLargeHigh,
        Threshold::ConvStandardLow,
        Threshold::ConvStandardHigh,
        Threshold::ConvPointwiseLow,
        Threshold::ConvPointwiseHigh,
        Threshold::ConvDepthwiseLow,
        Threshold::ConvDepthwiseHigh,
        Threshold::ConvOddFactor,
        Threshold::ImpactCautiousMemory,
        Threshold::BaselineMinMb,
    ],
};

/// The convolution analyzer.
#[derive(Debug)]
pub(super) struct Convolution;

/// Efficiency expected of a convolution, in percent.
fn band(cx: &CategoryCx<'_>, shape: &Shape) -> (f64, f64) {
    use Threshold as T;
    let kind = shape.kind();
    let by_size = |size: Kind| match size {
        Kind::Pointwise => (T::ConvPointwiseLow, T::ConvPointwiseHigh),
        Kind::Large => (T::ConvLargeLow, T::ConvLargeHigh),
        _ => (T::ConvStandardLow, T::ConvStandardHigh),
    };
    let (low, high) = match kind {
        Kind::Depthwise => (T::ConvDepthwiseLow, T::ConvDepthwiseHigh),
        _ => by_size(shape.size()),
    };
    let odd = matches!(kind, Kind::Transposed | Kind::Grouped) || shape.is_dilated() && kind != Kind::Depthwise;
    let factor = if odd { cx.limit(T::ConvOddFactor) } else { 1.0 };
    (factor * cx.limit(low), factor * cx.limit(high))
}

/// Code of the pattern that a kind is.
const fn code(kind: Kind) -> &'static str {
    match kind {
        Kind::Transposed => "TRANSPOSED_CONV",
        Kind::Depthwise => "DEPTHWISE",
        Kind::Grouped => "GROUPED",
        Kind::Pointwise => "POINTWISE_1X1",
        Kind::Large => "LARGE_KERNEL",
        Kind::Standard => "STANDARD_3X3",
    }
}

/// Kinds for which libraries have good kernels in both layouts.
fn is_plain(j: &Judgement) -> bool {
    [Kind::Pointwise, Kind::Large, Kind::Standard].iter().any(|&kind| j.has(code(kind)))
}

impl Rules for Convolution {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.finding = Some(PatternId::CONVOLUTION_BELOW_BAND);
        let shape = Shape::of(row);
        if !shape.as_ref().is_some_and(few_channels::has_few) {
            j.patterns.extend(precision::pattern(cx, row));
        }
        let Some(shape) = shape else { return j };
        let band = band(cx, &shape);
        j = j.with_band(cx, row, band.0, band.1);
        let kind = shape.kind();
        let evidence = vec![format!("kernel {}", shape.kernel_text())];
        j.patterns.push(RowPattern::new(code(kind), evidence.clone()).high().fact());
        if shape.is_dilated() {
            j.patterns.push(RowPattern::new("DILATED", evidence).high().fact());
        }
        if kind == Kind::Depthwise {
            j.finding = Some(PatternId::DEPTHWISE_CONVOLUTION);
            depthwise::limit_to_vector_units(cx, row, &mut j);
        } else if few_channels::has_few(&shape) {
            few_channels::limit(row, &shape, &mut j);
        }
        j
    }

    fn classify(&self, _: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        let row = judged.row;
        let (_, transpose_ms) = layout::transposes(row);
        Classification::Convolution(Box::new(ConvolutionClass {
            shape: Shape::of(row).map(geometry),
            layout: Layout::of(row).as_str(),
            transpose_time_us: round(1e3 * transpose_ms, 2),
            transpose_percent: round(percent(transpose_ms, row.time_ms), 2),
        }))
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        let row = group.row();
        let shape = Shape::of(row);
        let kind = shape.as_ref().map(Shape::kind);
        let mut said = Said::default();
        said.bound(cx, group);
        if let Some(shape) = shape.as_ref().filter(|s| few_channels::has_few(s)) {
            few_channels::say(row, shape, &mut said);
        }
        match kind {
            _ if group.largest().judgement.unsure.is_some() => {}
            Some(Kind::Pointwise | Kind::Standard) if !is_backward(row) => {
                said.model(compiled_already(cx, row).unwrap_or(TextId::A_FUSE_CONV), &[]);
            }
            Some(Kind::Depthwise) if depthwise::wants_channels_last(cx, row) => {
                said.model(TextId::A_DEPTHWISE_LAST, &[]);
            }
            _ => said.model(TextId::A_LIMITED, &[]),
        }
        if kind == Some(Kind::Depthwise) && !depthwise::runs_specialized(row) {
            said.kernel(TextId::B_DEPTHWISE, &[]);
        }
        if group.members.iter().any(|m| m.judgement.has(precision::CODE)) {
            precision::say_advice(cx, row, &mut said);
        }
        let vector_units = depthwise::is_limited_to_vector_units(cx, &group.largest().judgement);
        if row.efficiency.bound_type == Some(BoundType::Memory) && !vector_units {
            said.bandwidth(cx, group);
        }
        if main_kernel(row).is_some() {
            said.selection(row);
        }
        said.replay();
        if Layout::of(row) == Layout::Other {
            said.strides(row);
        }
        said
    }

    fn finish(&self, cx: &CategoryCx<'_>, judged: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let (count, ms) = cx.rows().map(layout::transposes).fold((0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let share = percent(ms, cx.category.time_ms);
        let level = match () {
            () if share > cx.limit(Threshold::ConvTransposeHigh) => "high",
            () if share >= cx.limit(Threshold::ConvTransposeModerate) => "moderate",
            () => "acceptable",
        };
        let mut layouts: BTreeMap<&str, f64> = BTreeMap::new();
        for row in cx.rows() {
            *layouts.entry(Layout::of(row).as_str()).or_default() += row.time_ms;
        }
        let layouts: BTreeMap<&str, f64> =
            layouts.into_iter().map(|(l, ms)| (l, round(cx.of_category(ms), 2))).collect();
        metrics.category_specific.extend([
            ("transpose_count", json!(count).into()),
            ("transpose_time_ms", json!(round(ms, 3)).into()),
            ("transpose_overhead_percent", json!(round(share, 2)).into()),
            ("transpose_level", json!(level).into()),
            ("layout_time", json!(layouts).into()),
            ("by_type", by_type(cx)),
            ("peak_maf_tflops", json!(cx.peak_maf()).into()),
            ("peak_hbm_bw_tbs", json!(cx.peak_tbs()).into()),
        ]);
        if let Some(pattern) = layout::pattern(cx, judged, &is_plain) {
            tell_layout(&pattern, &mut metrics.bottlenecks);
            metrics.patterns.insert(0, pattern);
            renumber(cx, metrics);
        }
        depthwise::promote(cx, judged, metrics);
        precision::promote(cx, metrics);
    }
}

/// Channels of each group of a convolution that is neither whole nor depthwise.
pub(super) fn group_width(row: &Row) -> Option<i64> {
    Shape::of(row).filter(|s| s.kind() == Kind::Grouped).map(|s| s.per_group)
}

/// Geometry as files show it.
fn geometry(shape: Shape) -> ConvolutionShape {
    let dimensions = shape.kernel.len();
    ConvolutionShape {
        conv_type: shape.kind().as_str(),
        kernel_size: shape.kernel,
        groups: shape.groups,
        dilation: shape.dilation,
        is_1d: dimensions == 1,
        is_2d: dimensions == 2,
        is_3d: dimensions == 3,
    }
}

/// What a bottleneck gains from the other layout goes before what else helps it. (Only where the layout explains all of
/// it: the rest becomes a finding of its own, which must not tell of the layout again.)
fn tell_layout(pattern: &PatternMetrics, bottlenecks: &mut [Bottleneck]) {
    let Some(layout) = &pattern.promoted else { return };
    for b in bottlenecks.iter_mut().filter(|b| b.rows.iter().all(|r| layout.explains.contains(r))) {
        b.issue = format!("{} {}", b.issue, layout.issue);
        b.algorithmic.splice(0..0, layout.algorithmic.iter().cloned());
        b.text_ids.splice(0..0, layout.algorithmic.iter().map(|s| s.id));
        b.text_ids.insert(0, TextId::I_TRANSPOSE.id());
    }
}

/// Gives patterns their ids anew, and bottlenecks the ids of theirs.
fn renumber(cx: &CategoryCx<'_>, metrics: &mut CategoryMetrics) {
    number(cx, &mut metrics.patterns);
    for b in &mut metrics.bottlenecks {
        let explains = |p: &&PatternMetrics| p.rows.iter().any(|r| b.rows.contains(r));
        b.patterns = metrics.patterns.iter().filter(explains).map(|p| p.id.clone()).collect();
    }
}

/// Calls, time and efficiency by kind, most time first.
fn by_type(cx: &CategoryCx<'_>) -> Fact {
    let mut by: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in cx.rows() {
        let kind = Shape::of(row).map_or("unknown", |s| s.kind().as_str());
        by.entry(kind).or_default().push(row);
    }
    let time = |rows: &[&Row]| rows.iter().map(|r| r.time_ms).sum::<f64>();
    let mut list: Vec<(&str, Vec<&Row>)> = by.into_iter().collect();
    list.order_by(|a, b| time(&b.1).total_cmp(&time(&a.1)).then(a.0.cmp(b.0)));
    let entry = |(kind, rows): (&str, Vec<&Row>)| {
        Facts::of([
            ("type", kind.into()),
            ("count", rows.iter().map(|r| r.count).sum::<usize>().into()),
            ("time_ms", round(time(&rows), 3).into()),
            ("efficiency_percent", json!(aggregate(rows.iter().copied()).map(|e| round(e, 2))).into()),
        ])
    };
    Fact::List(list.into_iter().map(entry).collect())
}

#[cfg(test)]
mod tests;

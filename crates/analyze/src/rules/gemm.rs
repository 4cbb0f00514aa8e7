//! The GEMM analyzer; [`DOC`] is what `jarvis explain gemm` prints.

mod patterns;
mod shape;

use jarvis_trace::InOrder;
use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{ASSESSMENTS, Group, Judged, Judgement};
use super::precision;
use super::words::{Said, maybe, trains};
use crate::finding::PatternId;
use crate::metrics::{CategoryMetrics, Classification, Fact, Facts, GemmClass, GemmShape, SetAside};
use crate::prepare::percent;
use crate::prepared::{BoundType, Row};
use crate::rounding::{round, shown};
use crate::texts::TextId;
use crate::thresholds::{Threshold, Thresholds};
use patterns::code;
pub(super) use patterns::is_looped;
use shape::Shape;

const DOC: &str = "\
Matrix products: `mm`, `bmm`, `addmm`, `baddbmm`, scaled, grouped and vendor products.

## What it finds
Products far below the peak of their precision or, if memory bounds them, below the peak bandwidth; and why, as far as
shapes tell: many tiny products, skinny ones bound by the bytes of one operand, full precision where a lower one has a
far higher peak, sizes that do not fit the kernels, too few tiles to fill the GPU, quantized products below their own
peak.

## Why it matters
Products are where most models spend their time, and their peak is far above everything else a GPU does: one at a
quarter of it costs as much as four good ones.

## How it is computed
Efficiency is the roofline time (the longer of FLOPs over peak rate and bytes over peak bandwidth) over kernel time,
summed over calls. A row is a bottleneck if it takes more than `gemm.time_ms` or `bottleneck.percent_of_category`, and
its efficiency is below `bottleneck.efficiency`. Tiles are read from kernel names.

## What to do
Batch tiny products, process more tokens or quantize the weight where it is most of the bytes, use bf16 or TF32 for full
precision, pad odd sizes; else tune tiles, split the inner dimension, or replay the operation for a kernel team.

## Limits
Sparsity of weights, accuracy of quantization and what limits a kernel inside the chip are not visible in a trace. Tile
counts need a kernel name that gives the tile.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "gemm",
    title: "Matrix products below what the hardware can do, by shape and precision",
    doc: DOC,
    time: Threshold::GemmTimeMs,
    thresholds: &[
        Threshold::GemmIntensityCompute,
        Threshold::GemmIntensityMemory,
        Threshold::GemmTinyLong,
        Threshold::GemmTinyShort,
        Threshold::GemmTinyDepth,
        Threshold::GemmTinyCount,
        Threshold::GemmTinyFactor,
        Threshold::GemmTinyLoop,
        Threshold::GemmSkinnyShort,
        Threshold::GemmSkinnyLong,
        Threshold::GemmPadding,
        Threshold::GemmUnaligned,
        Threshold::GemmPaddedBest,
        Threshold::GemmPaddedLeast,
        Threshold::HighCount,
        Threshold::HighCountUs,
        Threshold::PrecisionGain,
    ],
};

/// Whether a row is many small products, as the patterns say it.
pub(crate) fn is_tiny_batched_gemm(row: &Row, limits: &Thresholds) -> bool {
    &*row.category == INFO.id && Shape::of(row).is_some_and(|shape| shape.is_tiny_batched(row, limits))
}

/// The GEMM analyzer.
#[derive(Debug)]
pub(super) struct Gemm;

impl Rules for Gemm {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.intensity = (cx.limit(Threshold::GemmIntensityCompute), cx.limit(Threshold::GemmIntensityMemory));
        let shape = Shape::of(row);
        j.patterns = patterns::of(cx, row, shape.as_ref());
        j.finding = Some(finding(&j));
        j.batchable = j.has(code::TINY_BATCHED_GEMM);
        targets(cx, row, shape.as_ref(), &mut j);
        j
    }

    fn classify(&self, cx: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        Classification::Gemm(Box::new(class(cx, judged)))
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        say(cx, group)
    }

    fn finish(&self, cx: &CategoryCx<'_>, judged: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        metrics.category_specific.extend([
            ("quantized_count", json!(count(judged, code::QUANTIZED_GEMM).0).into()),
            ("quantized_time_ms", json!(round(count(judged, code::QUANTIZED_GEMM).1, 3)).into()),
            ("missing_perf_model_count", json!(cx.rows().filter(|r| r.lacks_model()).count()).into()),
            ("peak_maf_tflops", json!(cx.peak_maf()).into()),
            ("peak_hbm_bw_tbs", json!(cx.peak_tbs()).into()),
            ("by_call_site", shares(cx, judged, "site", |j| j.row.call_site)),
            (
                "by_shape_class",
                shares(cx, judged, "class", |j| Shape::of(j.row).map_or("unknown", |s| s.class(cx, j.row))),
            ),
            ("by_assessment", by_assessment(cx, judged)),
            ("native_kernel_time_percent", json!(round(native_percent(cx), 2)).into()),
        ]);
        metrics.notes.push(TextId::A_SPARSE.plain());
        precision::promote(cx, metrics);
        patterns::promote_skinny(cx, judged, metrics);
    }
}

/// What a mended product can reach. Few tiles leave a part of the GPU idle, whatever the kernel; padding an odd size
/// makes it what an aligned one of the same size is.
fn targets(cx: &CategoryCx<'_>, row: &Row, shape: Option<&Shape>, j: &mut Judgement) {
    if row.efficiency.bound_type != Some(BoundType::Compute) {
        return;
    }
    let filled = shape.and_then(|s| s.filled(cx.prepared.compute_units?)).unwrap_or(1.0);
    j.ceiling *= filled;
    if j.finding == Some(PatternId::MISALIGNED_GEMM) {
        j.ceiling = filled * cx.limit(Threshold::GemmPaddedBest);
        j.floor_target = Some(filled * cx.limit(Threshold::GemmPaddedLeast));
    }
}

/// What a finding about a row is called: the most exact of what holds.
fn finding(j: &Judgement) -> PatternId {
    match () {
        () if j.has(code::TINY_BATCHED_GEMM) => PatternId::TINY_GEMMS,
        () if j.has(code::QUANTIZED_GEMM) => PatternId::QUANTIZED_GEMM,
        () if j.has(precision::CODE) => PatternId::FULL_PRECISION_GEMM,
        () if j.has(code::UNALIGNED_SHAPE) || j.has(code::TILE_PADDING) => PatternId::MISALIGNED_GEMM,
        () if j.has(code::SKINNY_GEMM) || j.has(code::MEMORY_BOUND_LOW) => PatternId::MEMORY_BOUND_GEMM,
        () => PatternId::LOW_EFFICIENCY_GEMM,
    }
}

fn class(cx: &CategoryCx<'_>, judged: &Judged<'_>) -> GemmClass {
    let row = judged.row;
    let shape = Shape::of(row);
    let is_quantized = judged.judgement.has(code::QUANTIZED_GEMM);
    let fit = shape.as_ref().and_then(|s| s.tiles(row));
    let tiles_per_unit = |units: i64| fit.map(|f| round(f.tiles as f64 / units as f64, 2));
    GemmClass {
        is_quantized,
        gemm_type: match () {
            () if row.report_category.starts_with("GroupedGEMM") || row.name.contains("grouped") => "grouped",
            () if is_quantized => "quantized",
            () => "regular",
        },
        call_site: row.call_site,
        shape_class: shape.as_ref().map(|s| s.class(cx, row)),
        tile: row.tile,
        split: row.split,
        tile_count: fit.map(|f| f.tiles),
        tiles_per_cu: cx.prepared.compute_units.and_then(tiles_per_unit),
        padding_percent: fit.map(|f| round(f.padding_percent, 2)),
        aligned: shape.as_ref().map(|s| s.unaligned().is_empty()),
        shape: shape.map(|Shape { m, n, k, batch, dtype, .. }| GemmShape { m, n, k, batch, dtype }),
    }
}

/// Rows that show a pattern, and their time.
fn count(judged: &[Judged<'_>], code: &str) -> (usize, f64) {
    let rows = judged.iter().filter(|j| j.judgement.has(code));
    rows.fold((0, 0.0), |(n, ms), j| (n + 1, ms + j.row.time_ms))
}

/// Time by some property of rows, most first.
fn shares(
    cx: &CategoryCx<'_>,
    judged: &[Judged<'_>],
    key: &'static str,
    of: impl Fn(&Judged<'_>) -> &'static str,
) -> Fact {
    let mut by: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for j in judged {
        *by.entry(of(j)).or_default() += j.row.time_ms;
    }
    let mut list: Vec<(&str, f64)> = by.into_iter().collect();
    list.order_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    let entry = |(name, ms): (&str, f64)| {
        let percent = round(cx.of_category(ms), 2);
        Facts::of([(key, name.into()), ("time_ms", round(ms, 3).into()), ("percent", percent.into())])
    };
    Fact::List(list.into_iter().map(entry).collect())
}

/// The class of products that are slow because a kernel takes no less, with what follows from it.
const KERNEL_FLOOR: (&str, &str) = ("Kernel floor", "fewer or larger calls save time, faster kernels hardly do");

/// Rows and time by how good their efficiency is, with what follows from it, the best first.
fn by_assessment(cx: &CategoryCx<'_>, judged: &[Judged<'_>]) -> Fact {
    let at_floor = |j: &Judged<'_>| j.set_aside == Some(SetAside::KernelFloor);
    let entry = |(word, action): (&'static str, &'static str)| {
        // The notes tell why faster kernels would not help these.
        let rows = judged.iter().filter(|j| {
            if word == KERNEL_FLOOR.0 { at_floor(j) } else { j.judgement.assessment == Some(word) && !at_floor(j) }
        });
        let (count, ms) = rows.fold((0, 0.0), |(n, ms), j| (n + 1, ms + j.row.time_ms));
        (count > 0).then(|| {
            Facts::of([
                ("assessment", word.into()),
                ("rows", count.into()),
                ("time_ms", round(ms, 3).into()),
                ("percent", round(cx.of_category(ms), 2).into()),
                ("action", action.into()),
            ])
        })
    };
    Fact::List(ASSESSMENTS.into_iter().chain([KERNEL_FLOOR]).filter_map(entry).collect())
}

fn native_percent(cx: &CategoryCx<'_>) -> f64 {
    let sum = |native: bool| {
        cx.rows()
            .flat_map(|r| r.kernels.iter())
            .filter(|k| !native || cx.prepared.kernel_names.get(&k.name).is_native())
            .map(|k| k.total_us)
            .sum()
    };
    percent(sum(true), sum(false))
}

fn say(cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
    let row = group.row();
    let j = &group.largest().judgement;
    let shape = Shape::of(row);
    let mut said = Said::default();
    if j.has(code::TINY_BATCHED_GEMM) {
        patterns::say_tiny(cx, row, shape.as_ref(), &mut said);
    }
    if j.has(code::QUANTIZED_GEMM) {
        let dtype = shape.as_ref().map_or("-", |s| &*s.dtype);
        let eff = maybe(row.efficiency.judged(), 1);
        let peak = quantized_peak(cx, row);
        said.issue(TextId::I_QUANT, &[("dtype", dtype), ("eff", &eff), ("peak", &peak)]);
        said.model(TextId::A_QUANT_CHECK, &[]);
        said.kernel(TextId::B_QUANT_REPLAY, &[]);
        if row.efficiency.bound_type == Some(BoundType::Memory) {
            said.bandwidth(cx, group);
        }
    }
    if j.has(precision::CODE) {
        precision::say_advice(cx, row, &mut said);
    }
    if j.has(code::UNALIGNED_SHAPE) || j.has(code::TILE_PADDING) {
        patterns::say_padding(row, shape.as_ref(), j, &mut said);
    }
    if j.has(code::SKINNY_GEMM) {
        patterns::say_skinny(cx, row, shape.as_ref(), &mut said);
        said.bandwidth(cx, group);
    }
    said.bound(cx, group);
    if j.has(precision::CODE) {
        precision::say_issue(cx.prepared, &[(row, group.time_ms)], &mut said);
    }
    if j.has(code::FEW_TILES) && ![TextId::A_BATCH, TextId::A_BATCHED].iter().any(|t| said.ids.contains(&t.id())) {
        // Layers one after another need each other's results, as far as a trace tells.
        said.model(TextId::A_BATCH_IF, &[]);
    }
    // The limit of the pattern is fixed; in fp32 the roofline may say otherwise, and it decides.
    if j.has(code::MEMORY_BOUND_LOW) && row.efficiency.bound_type != Some(BoundType::Compute) {
        said.fuse(cx, row);
        let is_weight_bound = shape.as_ref().is_some_and(Shape::is_weight_bound);
        if !j.has(code::QUANTIZED_GEMM) && is_weight_bound && !trains(cx.prepared) {
            said.model(TextId::A_QUANT, &[]);
        }
        said.bandwidth(cx, group);
    }
    if j.has(code::COMPUTE_BOUND_LOW) || j.has(code::HIGH_COUNT) || said.algorithmic.is_empty() {
        said.compile_batch(cx, row);
    }
    if row.efficiency.bound_type == Some(BoundType::Compute) {
        patterns::say_tiles(cx, row, shape.as_ref(), &mut said);
        if j.has(code::FEW_TILES)
            && let Some(s) = shape.as_ref().filter(|s| row.split.is_none() && s.k > s.m.max(s.n))
        {
            said.kernel(TextId::B_SPLIT, &[("k", &s.k.to_string())]);
        }
    }
    said.selection(row);
    if j.finding == Some(PatternId::LOW_EFFICIENCY_GEMM) && group.efficiency.is_some() {
        said.kernel(TextId::N_COUNTERS, &[]);
    }
    said.replay();
    said.strides(row);
    said
}

/// The peak that the efficiency of a quantized product is a share of.
fn quantized_peak(cx: &CategoryCx<'_>, row: &Row) -> String {
    match row.efficiency.bound_type {
        Some(BoundType::Memory) => format!("peak bandwidth ({} TB/s)", shown(cx.peak_tbs(), 2)),
        _ => format!("its own peak ({} TFLOPS/s)", maybe(row.efficiency.resolved_peak_maf, 0)),
    }
}

/// Factor by which a row exceeds its roofline time.
fn over_roofline(row: &Row) -> Option<f64> {
    row.efficiency.judged().filter(|&e| e > 0.0).map(|e| 100.0 / e)
}

fn shown_factor(row: &Row) -> String {
    over_roofline(row).map_or_else(|| "-".to_owned(), |f| shown(f, 1))
}

#[cfg(test)]
mod tests;

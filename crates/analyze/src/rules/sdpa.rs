//! The attention analyzer; [`DOC`] is what `jarvis explain sdpa` prints.

mod shape;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::AnalyzerInfo;
use super::cx::CategoryCx;
use super::drive::Rules;
use super::judge::{Group, Judged, Judgement, Needless, RowPattern, aggregate};
use super::precision;
use super::words::{Said, maybe};
use crate::finding::PatternId;
use crate::metrics::{CategoryMetrics, Classification, KernelBreakdown, SdpaClass, SdpaShape};
use crate::prepared::Row;
use crate::rounding::{round, shown};
use crate::texts::{TextId, counted, quoted};
use crate::thresholds::Threshold;
use shape::{Kind, Shape, Workload};

const DOC: &str = "\
Fused attention, forward, backward and over a paged cache.

## What it finds
Attention kernels below what their sequence length lets expect, and attention that runs fused but not on a flash path.
Attention written out as separate kernels is found by its sequence of operations and told here too.

## Why it matters
Attention grows with the square of the sequence length. A kernel that keeps the scores on the chip is several times
faster than one that does not, and one tuned for its shape up to twice as fast again.

## How it is computed
FLOPs are 2·B·H·Nq·Nk·(dqk + dv), half of that if causal with equal lengths; bytes are those of Q, K, V and the output.
The band of expected efficiency follows from the sequence length (`sdpa.band.*`); backward bands are
`sdpa.backward_factor` of it. Short sequences (below 1024) are slow only below `sdpa.short_factor` of their band's lower
end. A row is a bottleneck if it takes more than `sdpa.time_ms` or `bottleneck.percent_of_category` and is slow.

## What to do
Use `torch.nn.functional.scaled_dot_product_attention` with inputs that its flash backend accepts; else tune the kernel
for the shape, or replay the operation for a kernel team.

## Limits
Masks other than causal are not visible, so sparse masks look slower than they are. Within its band an efficiency is
expected, however low the number.";

const INFO: AnalyzerInfo = AnalyzerInfo {
    id: "sdpa",
    title: "Attention below what its sequence length lets expect",
    doc: DOC,
    time: Threshold::SdpaTimeMs,
    thresholds: &[
        Threshold::SdpaBelow512Low,
        Threshold::SdpaBelow512High,
        Threshold::SdpaBelow1024Low,
        Threshold::SdpaBelow1024High,
        Threshold::SdpaBelow2048Low,
        Threshold::SdpaBelow2048High,
        Threshold::SdpaTo4096Low,
        Threshold::SdpaTo4096High,
        Threshold::SdpaAbove4096Low,
        Threshold::SdpaAbove4096High,
        Threshold::SdpaDecodeLow,
        Threshold::SdpaDecodeHigh,
        Threshold::SdpaPrefillLow,
        Threshold::SdpaPrefillHigh,
        Threshold::SdpaMixedLow,
        Threshold::SdpaMixedHigh,
        Threshold::SdpaShortFactor,
        Threshold::SdpaBackwardFactor,
    ],
};

/// Category of backward operations. (Forward ones that run again within the backward pass stay what they are.)
const BACKWARD: &str = "sdpa_bwd";

const SHORT_SEQUENCE: &str = "SHORT_SEQUENCE_ATTENTION";

/// Sequences shorter than this are short.
const SHORT: i64 = 1024;

/// Up to this many queries a call decodes.
const DECODE_QUERIES: i64 = 8;

/// Head sizes that kernels are usually made for.
const USUAL_HEADS: [i64; 5] = [32, 64, 96, 128, 256];

/// Most sequence lengths that a sentence names beside that of the largest row.
const MOST_LENGTHS: usize = 3;

/// Share of cache reshaping above which its block size is worth a look, in percent.
const RESHAPE_PERCENT: f64 = 10.0;

/// Share of paged kernels above which decoding is all there is, in percent.
const PAGED_PERCENT: f64 = 70.0;

/// The attention analyzer.
#[derive(Debug)]
pub(super) struct Sdpa;

/// Whether a call decodes: a few queries against a longer cache.
fn decodes(shape: &Shape) -> bool {
    let few_queries = shape.n_q <= DECODE_QUERIES && shape.n_kv > shape.n_q;
    shape.workload == Workload::Decode || few_queries
}

/// Expected efficiency of a shape, and the efficiency below which it is slow.
fn band(cx: &CategoryCx<'_>, row: &Row, shape: &Shape) -> ((f64, f64), f64) {
    use Threshold as T;
    let pair = |low: T, high: T| (cx.limit(low), cx.limit(high));
    let n = shape.length();
    let kind = Kind::of(row);
    let (mut band, short) = match shape.workload {
        Workload::Prefill if kind == Kind::Paged => (pair(T::SdpaPrefillLow, T::SdpaPrefillHigh), false),
        Workload::Mixed if kind == Kind::Paged => (pair(T::SdpaMixedLow, T::SdpaMixedHigh), false),
        _ if decodes(shape) => (pair(T::SdpaDecodeLow, T::SdpaDecodeHigh), true),
        _ if n < 512 => (pair(T::SdpaBelow512Low, T::SdpaBelow512High), true),
        _ if n < SHORT => (pair(T::SdpaBelow1024Low, T::SdpaBelow1024High), true),
        _ if n < 2048 => (pair(T::SdpaBelow2048Low, T::SdpaBelow2048High), false),
        _ if n <= 4096 => (pair(T::SdpaTo4096Low, T::SdpaTo4096High), false),
        _ => (pair(T::SdpaAbove4096Low, T::SdpaAbove4096High), false),
    };
    if &*cx.category.key == BACKWARD {
        let factor = cx.limit(T::SdpaBackwardFactor);
        band = (factor * band.0, factor * band.1);
    }
    let slow = if short { cx.limit(T::SdpaShortFactor) * band.0 } else { band.0 };
    (band, slow)
}

impl Rules for Sdpa {
    fn info(&self) -> &'static AnalyzerInfo {
        &INFO
    }

    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement {
        let mut j = Judgement::usual(cx, row);
        j.finding = Some(PatternId::ATTENTION_BELOW_BAND);
        j.patterns.extend(precision::pattern(cx, row));
        let Some(shape) = Shape::of(row) else { return j };
        let (band, slow) = band(cx, row, &shape);
        j = j.with_band(cx, row, band.0, band.1);
        j.slow_below = slow;
        if shape.has_square_mask(row) {
            j.needless = Needless::Half;
            j.ceiling = (2.0 * j.ceiling).min(100.0);
        }
        if shape.length() < SHORT {
            let evidence = vec![format!("sequence length {}", shape.length())];
            j.patterns.push(RowPattern::new(SHORT_SEQUENCE, evidence).high().fact());
        }
        let efficiency = row.efficiency.judged();
        j.assessment = efficiency.map(|e| match () {
            () if e > band.1 => "Above expectation",
            () if e >= band.0 => "Within expectation",
            () if e >= j.slow_below => "Slightly below expectation",
            () => "Needs investigation",
        });
        j
    }

    fn classify(&self, _: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification {
        let kind = Kind::of(judged.row);
        Classification::Sdpa(Box::new(SdpaClass {
            attention_type: kind.as_str(),
            is_flash_attention: shape::is_flash(judged.row),
            is_paged_attention: kind == Kind::Paged,
            kernel_breakdown: rounded(breakdown(judged.row)),
            shape: sizes(judged),
        }))
    }

    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
        say(cx, group)
    }

    fn finish(&self, cx: &CategoryCx<'_>, judged: &[Judged<'_>], metrics: &mut CategoryMetrics) {
        let of_kind = |kind: Kind| cx.rows().filter(|r| Kind::of(r) == kind).map(|r| r.count).sum::<usize>();
        let flash: usize = cx.rows().filter(|r| shape::is_flash(r)).map(|r| r.count).sum();
        let paged = of_kind(Kind::Paged);
        let efficient = of_kind(Kind::MemoryEfficient);
        let unfused: Vec<_> = cx.claims.of_pattern(PatternId::UNFUSED_ATTENTION).collect();
        let unfused_ms: f64 = unfused.iter().map(|c| c.time_ms).sum();
        let slower = !unfused.is_empty() || efficient > 0;
        let usage = match (flash > 0, slower, cx.rows().len() > 0) {
            (true, false, _) => "Yes",
            (true, true, _) => "Partial",
            (false, true, _) | (false, false, true) => "No",
            (false, false, false) => "N/A",
        };
        metrics.category_specific.extend([
            ("flash_attention_detected", json!(flash > 0)),
            ("flash_attention_count", json!(flash)),
            ("paged_attention_detected", json!(paged > 0)),
            ("paged_attention_count", json!(paged)),
            ("memory_efficient_attention_detected", json!(efficient > 0)),
            ("memory_efficient_attention_count", json!(efficient)),
            ("unfused_attention_detected", json!(!unfused.is_empty())),
            ("unfused_attention_time_ms", json!(round(unfused_ms, 3))),
            ("unfused_attention_instances", json!(unfused.iter().map(|c| c.instances).sum::<usize>())),
            ("flash_attention_usage", json!(usage)),
            ("has_perf_model_count", json!(cx.rows().filter(|r| r.has_perf_model).count())),
            ("workload_profile", json!(profile(cx))),
            ("kernel_breakdown_avg", average(cx).map_or_else(|| json!({}), |parts| json!(rounded(parts)))),
            ("peak_maf_tflops", json!(cx.peak_maf())),
            ("peak_hbm_bw_tbs", json!(cx.peak_tbs())),
        ]);
        notes(cx, judged, metrics);
        precision::promote(cx, metrics);
    }
}

/// Sizes and the band they are judged by.
fn sizes(judged: &Judged<'_>) -> Option<SdpaShape> {
    let judgement = &judged.judgement;
    let (shape, (low, high)) = (Shape::of(judged.row)?, judgement.band?);
    Some(SdpaShape {
        n_q: shape.n_q,
        n_kv: shape.n_kv,
        h_q: shape.h_q,
        h_kv: shape.h_kv,
        d_qk: shape.d_qk,
        d_v: shape.d_v,
        causal: shape.causal,
        attention_pattern: shape.heads(),
        gqa_ratio: shape.ratio().map(|r| round(r, 2)),
        workload_type: shape.workload.as_str(),
        expected_low: round(low, 2),
        expected_high: round(high, 2),
        within_expected: judged.row.efficiency.judged().map(|e| e >= low && e <= high),
    })
}

/// An end of a band: those of backward operations are no whole numbers.
fn limit(percent: f64) -> String {
    let text = shown(percent, 1);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

/// Remarks on rows that are not slow for their band, on the path they take, head sizes, shared heads, and tiles.
fn notes(cx: &CategoryCx<'_>, judged: &[Judged<'_>], metrics: &mut CategoryMetrics) {
    for j in judged {
        let Some(shape) = Shape::of(j.row) else { continue };
        if let (Some(e), Some((low, high)), false) = (j.row.efficiency.judged(), j.judgement.band, j.is_bottleneck())
            && e >= j.judgement.slow_below
        {
            // By the number that is printed.
            let text = match round(e, 1) {
                e if e < low => TextId::N_NEAR_EXPECTED,
                e if e > high => TextId::N_ABOVE_EXPECTED,
                _ => TextId::N_EXPECTED,
            };
            metrics.notes.push(text.fill(&[
                ("eff", &shown(e, 1)),
                ("low", &limit(low)),
                ("high", &limit(high)),
                ("n", &shape.length().to_string()),
                ("slow", &limit(j.judgement.slow_below)),
            ]));
        }
        // A bottleneck says so itself.
        if Kind::of(j.row) == Kind::MemoryEfficient && !j.is_bottleneck() {
            let (advice, dtype) = to_flash(j.row);
            let issue = TextId::I_NOT_FLASH.fill(&[("op", &j.row.name)]);
            metrics.notes.push(format!("{issue} {}", advice.fill(&[("dtype", dtype)])));
        }
        if shape.d_qk > 0 && !USUAL_HEADS.contains(&shape.d_qk) {
            metrics.notes.push(format!(
                "{}: head size {} is not one of the usual sizes",
                quoted(&j.row.name),
                shape.d_qk
            ));
        }
        if shape.heads() == "GQA" {
            metrics.notes.push(format!(
                "{}: {} query heads share {} key/value heads",
                quoted(&j.row.name),
                shape.h_q,
                shape.h_kv
            ));
        }
    }
    metrics.notes.extend(judged.iter().filter_map(|j| few_tiles(cx, j.row)));
    // Rows that differ in other ways say the same, not always one after the other.
    let mut told = BTreeSet::new();
    metrics.notes.retain(|note| told.insert(note.clone()));
}

/// That a call has fewer tiles than the GPU has units: heads of all sequences, cut along the queries where the kernel's
/// name gives its tile.
fn few_tiles(cx: &CategoryCx<'_>, row: &Row) -> Option<String> {
    let (shape, units) = (Shape::of(row)?, cx.prepared.compute_units?);
    let heads = shape.b.max(1).saturating_mul(shape.h_q.max(1));
    let tile = row.tile.map(|t| t.m).filter(|&m| m > 0);
    let (tiles, told) = match tile {
        Some(m) => {
            let tiles = heads.saturating_mul(shape.n_q.max(1).saturating_add(m - 1) / m);
            (tiles, format!("{tiles} tiles of {m} queries"))
        }
        // Of a kernel that does not tell its tile only a single query is known not to be cut.
        None if shape.n_q == 1 => (heads, format!("{heads} single queries")),
        None => return None,
    };
    let values = [("op", &*quoted(&row.name)), ("b", &shape.b.to_string()), ("h", &shape.h_q.to_string())];
    let counts = [("tiles", &*told), ("cus", &units.to_string())];
    (tiles < units).then(|| TextId::N_SDPA_TILES.fill(&[&values[..], &counts].concat()))
}

fn say(cx: &CategoryCx<'_>, group: &Group<'_>) -> Said {
    let row = group.row();
    let mut said = Said::default();
    let (Some(shape), Some((low, high))) = (Shape::of(row), group.largest().judgement.band) else {
        said.bound(cx, group);
        said.model(TextId::A_LIMITED, &[]);
        said.selection(row);
        said.replay();
        return said;
    };
    let lengths = by_length(group);
    let Some((own, others)) = lengths.split_first() else { return said };
    let more = listed(others, |l| format!("; {}: {}%, expected {}", l.name(), l.efficiency(), l.expected()));
    let values = [("n", &*own.name()), ("eff", &own.efficiency()), ("low", &limit(low)), ("high", &limit(high))];
    // Of what has no model only the time is known.
    if group.efficiency.is_none() {
        said.bound(cx, group);
    }
    said.issue(TextId::I_SDPA_BELOW, &[&values[..], &[("more", &more)]].concat());
    let kind = Kind::of(row);
    let not_flash = matches!(kind, Kind::FusedOther | Kind::MemoryEfficient);
    if not_flash {
        said.also(TextId::I_NOT_FLASH, &[("op", &row.name)]);
        let (advice, dtype) = to_flash(row);
        said.model(advice, &[("dtype", dtype)]);
        said.selection(row);
    }
    if kind == Kind::Paged {
        let parts = breakdown(row);
        if parts.reshape_cache > RESHAPE_PERCENT {
            said.model(TextId::A_KV_BLOCK, &[]);
        }
        if parts.paged_attention > PAGED_PERCENT && shape.workload == Workload::Decode {
            said.model(TextId::A_DECODE_BATCH, &[]);
        }
        if shape.workload == Workload::Prefill {
            said.model(TextId::A_CHUNKED, &[]);
        }
    }
    let d = shape.d_qk.to_string();
    // Of an unknown efficiency nobody knows what would help.
    if shape.has_square_mask(row) {
        said.model(TextId::A_SDPA_MASK, &[("n", &shape.n_q.to_string())]);
    } else if !not_flash && group.efficiency.is_none() {
        said.model(TextId::A_LIMITED, &[]);
    } else if !not_flash {
        said.model(TextId::A_SDPA_SHAPE, &[("d", &d), ("b", &shape.b.to_string())]);
    }
    let also = listed(others, |l| format!("; also N={}", l.n));
    let n = own.n.to_string();
    said.kernel(TextId::B_SDPA, &[("n", &n), ("d", &d), ("pattern", shape.heads()), ("more", &also)]);
    said.replay();
    said.strides(row);
    said
}

/// Rows of a group with one sequence length, which are judged by one band.
struct Length<'a> {
    n: i64,
    decodes: bool,
    band: (f64, f64),
    rows: Vec<&'a Row>,
}

impl Length<'_> {
    fn name(&self) -> String {
        if self.decodes { format!("{} (decode)", self.n) } else { self.n.to_string() }
    }

    fn efficiency(&self) -> String {
        maybe(aggregate(self.rows.iter().copied()), 1)
    }

    fn expected(&self) -> String {
        format!("{}-{}%", limit(self.band.0), limit(self.band.1))
    }
}

/// The lengths in a group, that of its largest row first: an average over several fits the band of none.
fn by_length<'a>(group: &Group<'a>) -> Vec<Length<'a>> {
    let mut out: Vec<Length<'a>> = Vec::new();
    for member in &group.members {
        let (Some(shape), Some(band)) = (Shape::of(member.row), member.judgement.band) else { continue };
        let (n, decodes) = (shape.length(), decodes(&shape));
        match out.iter_mut().find(|l| (l.n, l.decodes) == (n, decodes)) {
            Some(known) => known.rows.push(member.row),
            None => out.push(Length { n, decodes, band, rows: vec![member.row] }),
        }
    }
    out
}

/// The first few of some lengths in words, and how many more there are.
fn listed(lengths: &[Length<'_>], words: impl Fn(&Length<'_>) -> String) -> String {
    let mut text: String = lengths.iter().take(MOST_LENGTHS).map(words).collect();
    match lengths.len().saturating_sub(MOST_LENGTHS) {
        0 => {}
        more => text.push_str(&format!("; {}", counted(more, "more length"))),
    }
    text
}

/// The way to a flash path, and the type that bars it: flash kernels take half precision only.
fn to_flash(row: &Row) -> (TextId, &'static str) {
    match row.inputs.types.as_ref().and_then(|types| types.first()).map(String::as_str) {
        Some("float") => (TextId::A_FLASH_HALF, "fp32"),
        Some("double") => (TextId::A_FLASH_HALF, "fp64"),
        _ => (TextId::A_FLASH_PATH, "-"),
    }
}

/// Kernel time by part of paged attention, in percent.
fn breakdown(row: &Row) -> KernelBreakdown {
    let total: f64 = row.kernels.iter().map(|k| k.total_us).sum();
    let mut parts = KernelBreakdown::default();
    for kernel in row.kernels.iter().filter(|_| total > 0.0) {
        let name = kernel.name.to_lowercase();
        let part = match () {
            () if name.contains("reshape") && name.contains("cache") => &mut parts.reshape_cache,
            () if name.contains("paged_attention") => &mut parts.paged_attention,
            () if name.contains("fwd") => &mut parts.fwd_kernel,
            () => &mut parts.other,
        };
        *part += 100.0 * kernel.total_us / total;
    }
    parts
}

/// Mean of the breakdowns, weighted by time; `None` without rows.
fn average(cx: &CategoryCx<'_>) -> Option<KernelBreakdown> {
    let mut mean = None;
    for row in cx.rows() {
        let (parts, weight) = (breakdown(row), cx.of_category(row.time_ms));
        let mean: &mut KernelBreakdown = mean.get_or_insert_default();
        mean.fwd_kernel += parts.fwd_kernel * weight / 100.0;
        mean.other += parts.other * weight / 100.0;
        mean.paged_attention += parts.paged_attention * weight / 100.0;
        mean.reshape_cache += parts.reshape_cache * weight / 100.0;
    }
    mean
}

fn rounded(parts: KernelBreakdown) -> KernelBreakdown {
    KernelBreakdown {
        fwd_kernel: round(parts.fwd_kernel, 2),
        other: round(parts.other, 2),
        paged_attention: round(parts.paged_attention, 2),
        reshape_cache: round(parts.reshape_cache, 2),
    }
}

/// Workload of most of the category's time.
fn profile(cx: &CategoryCx<'_>) -> &'static str {
    let mut by: BTreeMap<&'static str, f64> = BTreeMap::new();
    for row in cx.rows() {
        let workload = Shape::of(row).map_or(Workload::Unknown, |s| s.workload);
        *by.entry(workload.as_str()).or_default() += row.time_ms;
    }
    by.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or("unknown", |(name, _)| name)
}

#[cfg(test)]
mod tests;

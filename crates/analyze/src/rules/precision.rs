//! Matrix work in full precision, whichever category it is in: how it is found and what a lower precision would bring.

use jarvis_perf::platform::Platform;
use jarvis_perf::roofline::MB;

use super::Shares;
use super::cx::CategoryCx;
use super::judge::RowPattern;
use super::layout::{Layout, transposes, turned_ms};
use super::priority::Weight;
use super::words::Said;
use crate::finding::{Mending, PatternId, Range};
use crate::metrics::{CategoryMetrics, Promoted};
use crate::prepare::category;
use crate::prepared::{BoundType, Prepared, Row};
use crate::program::{Direction, RowId};
use crate::rounding::{shown, shown_ms};
use crate::texts::TextId;
use crate::thresholds::Threshold;
use jarvis_trace::InOrder;

/// Code of the pattern.
pub(crate) const CODE: &str = "FULL_PRECISION";

/// Precision that the work could be done in.
const LOWER: &str = "matrix_bf16";

const MICRO_TO_MILLI: f64 = 1e-3;

/// The share of TF32's efficiency that the lower precision reaches, at worst and at best. In three measured pairs the
/// convolutions reached 1.0 to 1.4 of it, those furthest below the peak most.
const OF_TF32: (f64, f64) = (0.75, 1.4);

/// The same of products: in five measured shapes those for bf16 reached 1.03 to 1.22 of it.
const OF_TF32_PRODUCTS: (f64, f64) = (0.85, 1.25);

/// The part of a product's tensors that is cast for it at worst: weights are once for all calls, and results stay.
const CAST_OF_PRODUCT: f64 = 0.5;

/// The share of the lower precision's peak that large products usually reach, whatever the kernels of the other reached:
/// those for fp64 reached 0.45 in one measured pair, those for bf16 then 0.72. Products are large that take so many
/// milliseconds at that peak.
const USUAL: f64 = 0.70;
const LARGE_MS: f64 = 0.01;

/// What large products reach of their efficiency in full precision, or the usual one if that is higher: at worst and at
/// best, and the most of the peak. In fourteen measured shapes 0.90 to 1.14, and up to 0.89 of the peak.
const LARGE_REACH: (f64, f64) = (0.6, 1.12);
const MOST_OF_PEAK: f64 = 0.9;
/// The same for other work, whose kernels fill the GPU less the shorter they are: convolutions and attention 0.69 and 0.70
/// in two measured pairs.
const REACH: (f64, f64) = (0.55, 1.0);

/// What convolutions reach of the lower precision's peak that have many operations for each byte, whatever the kernels of
/// the other reached: those for fp32 reached 0.23 to 0.57 in four measured shapes, those for bf16 then 0.38 to 0.65. In
/// twenty-six more shapes 0.37 to 0.80. Many are so many times what the platform has time for.
const DENSE_REACH: (f64, f64) = (0.37, 0.70);
const DENSE: f64 = 2.5;

/// Bytes that a cast moves for each byte in the lower precision: four read and two written or the other way round.
const CAST_BYTES: f64 = 3.0;

/// A peak that is no more times as high is the same.
const NEXT_TO_NOTHING: f64 = 1.1;

/// Full-precision matrix work that its peak bounds, where bf16 has a far higher one.
pub(crate) fn pattern(cx: &CategoryCx<'_>, row: &Row) -> Option<RowPattern> {
    let (peak, lower) = peaks(cx.prepared, row)?;
    let gain = lower / peak >= cx.limit(Threshold::PrecisionGain);
    let bound = row.efficiency.bound_type == Some(BoundType::Compute) && !row.efficiency.is_anomaly;
    let evidence = vec![format!("{} TFLOPS/s peak, {} in bf16", shown(peak, 0), shown(lower, 0))];
    (gain && bound).then(|| RowPattern::new(CODE, evidence).high())
}

/// Precision of TF32, which computes on tensors in fp32.
const TF32: &str = "matrix_tf32";

/// What of a row the rule is about: where its calls ran kernels of several precisions, the full one of most time, TF32 only
/// where there is no other, and its share of the row. All of a row is in the precision that it is rated by otherwise.
fn part(row: &Row) -> (&str, f64) {
    let of = |is: fn(&str) -> bool| row.efficiency.specs.iter().find(move |(spec, _)| is(spec));
    let full = of(|spec| is_full(spec) && spec != TF32).or_else(|| of(is_full));
    full.map_or((row.efficiency.compute_spec.as_deref().unwrap_or_default(), 1.0), |(spec, share)| (spec, *share))
}

/// Whether this is a precision that matrix work could do better than in.
fn is_full(spec: &str) -> bool {
    matches!(spec, "matrix_fp32" | "matrix_fp64" | TF32)
}

/// Whether what the rule is about computes in TF32.
fn is_tf32(row: &Row) -> bool {
    part(row).0 == TF32
}

/// Whether any call of a row computes in TF32.
fn has_tf32(row: &Row) -> bool {
    row.efficiency.compute_spec.as_deref() == Some(TF32) || row.efficiency.specs.iter().any(|(spec, _)| &**spec == TF32)
}

fn is_tf32_product(row: &Row) -> bool {
    is_tf32(row) && &*row.category == "gemm"
}

fn is_fp64(row: &Row) -> bool {
    part(row).0 == "matrix_fp64"
}

/// Peak of the row's precision and of the lower one.
fn peaks(p: &Prepared, row: &Row) -> Option<(f64, f64)> {
    let (spec, _) = part(row);
    let own = if row.efficiency.specs.is_empty() {
        row.efficiency.resolved_peak_maf
    } else {
        p.platform.peak(spec).map(|figure| figure.value)
    };
    // Recurrent layers compute so too, but no analyzer tells it of them.
    let told = is_full(spec) && category::is_matrix(&row.category);
    Some((own.filter(|_| told)?, p.platform.peak(LOWER)?.value))
}

/// What a row would save in the lower precision: its time falls as the peaks rise, at an efficiency that [`scaled_ms`]
/// tells, but never below the time that half (a quarter for fp64) of its bytes take. Kernels for the lower precision may
/// want convolutions in the other layout; at worst every byte is then moved once more each way.
pub(crate) fn row_saving(cx: &CategoryCx<'_>, row: &Row) -> Option<Range> {
    let (peak, lower) = peaks(cx.prepared, row)?;
    let memory_ms = memory_ms(cx, row) * part(row).1;
    let cautious = cx.limit(Threshold::ImpactCautiousMemory) / 100.0;
    let scaled = scaled_ms(cx, row, (peak, lower));
    // What is turned already is turned no more often.
    let turns = transposes(row).0 > 0;
    let turned = &*row.category == "convolution" && Layout::of(row) != Layout::ChannelsLast && !turns;
    let turning_ms = if turned { 2.0 * memory_ms / cautious } else { 0.0 };
    // Where the peak is but twice as high it matters that what goes in may be cast first.
    let casting_ms = if is_tf32_product(row) { CAST_OF_PRODUCT * casts_ms(cx, row) } else { 0.0 };
    let at_worst = scaled.high.max(memory_ms / cautious) + turning_ms + casting_ms;
    let matrix_ms = matrix_ms(row);
    Some(Range::new(matrix_ms - at_worst, matrix_ms - scaled.low.max(memory_ms)))
}

/// Time of a row's kernels but those that only change a layout and those of other precisions: what the first cost is no
/// matter of precision.
fn matrix_ms(row: &Row) -> f64 {
    (row.time_ms - turned_ms(row)).max(0.0) * part(row).1
}

/// What a row takes under the lower precision's peak in place of its own, at best and at worst. The kernels of TF32 are
/// much like those of bf16.
fn scaled_ms(cx: &CategoryCx<'_>, row: &Row, (peak, lower): (f64, f64)) -> Range {
    let same_ms = matrix_ms(row) * peak / lower;
    let reaching = |ms: f64, (worst, best): (f64, f64)| Range::new(ms / best, ms / worst);
    let at_peak = |ms: f64| row.efficiency.efficiency_percent.map(|percent| ms * percent / 100.0);
    let is_large = |ms: &f64| *ms >= LARGE_MS * row.count as f64 * part(row).1;
    match &*row.category {
        "gemm" if let Some(ideal_ms) = at_peak(same_ms).filter(is_large) => {
            let reach = if is_tf32_product(row) { OF_TF32_PRODUCTS } else { LARGE_REACH };
            let Range { low, high } = reaching(same_ms.min(ideal_ms / USUAL), reach);
            Range::new(low.max(ideal_ms / MOST_OF_PEAK), high)
        }
        _ if is_tf32(row) => {
            let ideal_ms = at_peak(row.time_ms * part(row).1 * peak / lower).filter(is_large);
            let Range { low, high } = reaching(same_ms, OF_TF32);
            Range::new(ideal_ms.map_or(same_ms, |ideal| low.max(ideal / DENSE_REACH.1).min(same_ms)), high)
        }
        "convolution" if is_dense(cx, row, lower) => {
            match at_peak(row.time_ms * part(row).1 * peak / lower).filter(is_large) {
                Some(ideal_ms) => reaching(ideal_ms, DENSE_REACH),
                None => reaching(same_ms, REACH),
            }
        }
        _ => reaching(same_ms, REACH),
    }
}

/// Whether a row has far more operations for each byte in the lower precision than the platform has time for.
fn is_dense(cx: &CategoryCx<'_>, row: &Row, lower: f64) -> bool {
    let intensity = row.efficiency.flops_per_byte.unwrap_or_default() * shrink(row);
    intensity >= DENSE * lower / cx.peak_tbs().max(f64::MIN_POSITIVE)
}

/// How many times fewer bytes the lower precision has.
fn shrink(row: &Row) -> f64 {
    if is_fp64(row) { 4.0 } else { 2.0 }
}

/// What the bytes of a row take in the lower precision at peak bandwidth.
fn memory_ms(cx: &CategoryCx<'_>, row: &Row) -> f64 {
    let bytes = row.data_moved_mb.unwrap_or_default() * MB / shrink(row) * row.count as f64;
    bytes / (cx.peak_tbs() * 1e12) * 1e6 * MICRO_TO_MILLI
}

/// The same for a row that another finding speaks of: products of attention, as a rule. Their kernels stay further below
/// the higher peak, and under autocast what lies between them stays in fp32, so at worst every element is turned into
/// the lower precision or back, as fast as simple operations move three times its bytes.
fn told_saving(cx: &CategoryCx<'_>, row: &Row) -> Option<Range> {
    let at_worst = row_saving(cx, row)?.low;
    Some(Range::new((at_worst - casts_ms(cx, row)).max(0.0), at_worst.max(0.0)))
}

/// What it takes to cast each element of a row's tensors once, as fast as simple operations move three times their bytes.
fn casts_ms(cx: &CategoryCx<'_>, row: &Row) -> f64 {
    CAST_BYTES * memory_ms(cx, row) * part(row).1 / (cx.prepared.baseline.efficiency_percent / 100.0)
}

/// Operations in full precision that memory bounds: half of their bytes go with the precision where the whole program
/// changes it. (Under autocast some stay in fp32, which is why the cautious end leaves them out.) An optimizer keeps its
/// parameters and states as they are, and so do gradients of tables.
fn memory_bound(p: &Prepared) -> Vec<&Row> {
    let full = |r: &&Row| match r.efficiency.compute_spec.as_deref() {
        Some("vector_fp32" | "vector_fp64") => !category::is_matrix(&r.category) && !r.is_link_copy,
        Some(spec) => is_full(spec) && is_memory_bound(r),
        None => false,
    };
    let stays = |r: &&Row| r.direction == Direction::Optimizer || r.name.contains("embedding_dense_backward");
    p.rows.iter().filter(|r| full(r) && !stays(r)).collect()
}

fn is_memory_bound(row: &Row) -> bool {
    row.efficiency.bound_type == Some(BoundType::Memory)
}

/// The category with most full-precision matrix work: it speaks for the operations around all of it.
fn leads(cx: &CategoryCx<'_>) -> bool {
    let time = |category: &crate::prepared::Category| -> f64 {
        let rows = category.rows.iter().map(|&r| cx.prepared.row(r));
        rows.filter(|r| pattern(cx, r).is_some()).map(matrix_ms).sum()
    };
    let own = time(cx.category);
    let others = cx.prepared.categories.iter().filter(|c| c.key != cx.category.key);
    others.map(time).all(|other| other < own)
}

/// Work in one precision: the first of its rows, and the time of all.
type Work<'r> = (&'r Row, f64);

/// Work in each precision, most time first, of rows with the time that is meant.
fn by_precision<'r>(rows: impl Iterator<Item = Work<'r>>) -> Vec<Work<'r>> {
    let mut parts: Vec<Work<'r>> = Vec::new();
    for (row, ms) in rows {
        match parts.iter_mut().find(|(first, _)| dtype(first) == dtype(row)) {
            Some((_, sum)) => *sum += ms,
            None => parts.push((row, ms)),
        }
    }
    parts.order_by(|a, b| b.1.total_cmp(&a.1));
    parts
}

/// Says how much work runs in each full precision.
pub(crate) fn say_issue(prepared: &Prepared, parts: &[Work<'_>], said: &mut Said) {
    let Some((&(row, time_ms), further)) = parts.split_first() else { return };
    let Some((peak, lower)) = peaks(prepared, row) else { return };
    let clause = |&(row, ms): &Work<'_>| {
        let peak = peaks(prepared, row).map_or_else(|| "-".to_owned(), |(peak, _)| shown(peak, 0));
        format!(", {} ms in {} ({peak} TFLOPS/s peak)", shown_ms(ms), dtype(row))
    };
    let more: String = further.iter().map(clause).collect();
    let values = [("time", &*shown_ms(time_ms)), ("dtype", dtype(row)), ("peak", &shown(peak, 0)), ("more", &more)];
    said.also(TextId::I_FP32, &[&values[..], &[("peak16", &shown(lower, 0))]].concat());
}

/// Title and issue of what findings of several categories were merged to, or of what others left of one: they are about
/// these shares of rows, which take so long without changes of layout.
pub(super) fn retold(prepared: &Prepared, shares: &Shares, time_ms: f64) -> Option<(String, String)> {
    let mut rows: Vec<(&Row, f64)> = shares.iter().map(|(&r, &share)| (prepared.row(r), share)).collect();
    rows.order_by(|a, b| crate::prepare::order(a.0, b.0));
    let mut parts = by_precision(rows.iter().map(|&(row, share)| (row, matrix_ms(row).min(share * row.time_ms))));
    let all: f64 = parts.iter().map(|(_, ms)| ms).sum();
    parts.iter_mut().filter(|_| all > 0.0).for_each(|(_, ms)| *ms *= time_ms / all);
    let mut said = Said::default();
    say_issue(prepared, &parts, &mut said);
    parts.first().filter(|_| !said.issue.is_empty()).map(|(row, _)| (title(row), said.issue))
}

fn title(row: &Row) -> String {
    format!("Matrix work in {}", dtype(row))
}

/// The precision of a row, as sentences write it.
fn dtype(row: &Row) -> &str {
    part(row).0.trim_start_matches("matrix_")
}

/// Says what to do about a row. The switch that lets matrix products compute in TF32 does not govern convolutions; theirs
/// is one of a library that only some platforms have. Attention needs half precision for its best kernels. Neither
/// autocast nor TF32 touches fp64.
pub(crate) fn say_advice(cx: &CategoryCx<'_>, row: &Row, said: &mut Said) {
    let text = match (&*cx.category.key, cx.prepared.platform.vendor.as_deref()) {
        ("sdpa_fwd" | "sdpa_bwd", _) => TextId::A_FLASH_HALF,
        _ if is_fp64(row) && gains_with_tf32_alone(&cx.prepared.platform) => TextId::A_PRECISION_FP64_TF32,
        _ if is_fp64(row) => TextId::A_PRECISION_FP64,
        // Where some compute in TF32 the switch is on.
        ("convolution", Some("NVIDIA")) if !cx.rows().any(has_tf32) => TextId::A_PRECISION_CONV,
        ("convolution", _) => TextId::A_PRECISION_BF16,
        _ if may_allow_tf32(cx.prepared) => TextId::A_PRECISION,
        _ => TextId::A_PRECISION_MATRIX,
    };
    said.model(text, &[("dtype", dtype(row))]);
}

/// Whether fp32 gains next to nothing over fp64 until TF32 is allowed: both have the same peak then.
fn gains_with_tf32_alone(platform: &Platform) -> bool {
    let peak = |spec: &str| platform.peak(spec).map(|p| p.value);
    let (Some(fp64), Some(fp32), Some(_)) = (peak("matrix_fp64"), peak("matrix_fp32"), peak(TF32)) else {
        return false;
    };
    fp32 <= NEXT_TO_NOTHING * fp64
}

/// Whether TF32 is there to be allowed for products, and is not yet. Convolutions have a switch of their own.
fn may_allow_tf32(p: &Prepared) -> bool {
    let is_on = || p.rows.iter().any(|r| has_tf32(r) && &*r.category != "convolution");
    // PyTorch allows it by that switch on no other vendor's GPUs.
    p.platform.vendor.as_deref() == Some("NVIDIA") && p.platform.peak("matrix_tf32").is_some() && !is_on()
}

/// Makes one finding of all full-precision work of a category.
pub(crate) fn promote(cx: &CategoryCx<'_>, metrics: &mut CategoryMetrics) {
    let all = metrics.patterns.iter().filter(|p| p.pattern == CODE).flat_map(|p| &p.rows);
    let all = all.map(|&r| cx.prepared.row(r));
    // What another finding speaks of is not told again, but it gets faster as well.
    let (mut rows, told): (Vec<&Row>, Vec<&Row>) = all.partition(|r| cx.claims.covering(r.id).is_none());
    rows.order_by(|a, b| crate::prepare::order(a, b));
    let time_ms: f64 = rows.iter().map(|r| matrix_ms(r)).sum();
    let Some(&largest) = rows.first() else { return };
    if cx.of_compute(time_ms) < cx.limit(Threshold::ReportMinPercent) {
        return;
    }
    let own = rows.iter().filter_map(|r| row_saving(cx, r));
    let saved: Vec<Range> = own.chain(told.iter().filter_map(|r| told_saving(cx, r))).collect();
    let low = saved.iter().map(|r| r.low).sum::<f64>();
    let high = saved.iter().map(|r| r.high).sum::<f64>();
    let memory_bound = if leads(cx) { memory_bound(cx.prepared) } else { Vec::new() };
    let half = |of_matrices: bool| -> f64 {
        let rows = memory_bound.iter().filter(|r| category::is_matrix(&r.category) == of_matrices);
        0.5 * rows.map(|r| r.time_ms).sum::<f64>()
    };
    let matrices = high + half(true);
    // Where little is matrix work, nobody changes the precision for the sake of the rest.
    let rest = half(false).min(matrices);
    let capped = rest < half(false);
    let promoted = finding(cx, &rows, Range::new(low, matrices + rest), &told, (&memory_bound, capped));
    let pattern = metrics.patterns.iter_mut().find(|p| p.pattern == CODE && p.rows.contains(&largest.id));
    if let Some(pattern) = pattern {
        pattern.promoted = Some(promoted);
    }
}

/// The finding of these rows, most time first; what others tell of and what memory bounds gains with them. The latter may
/// be capped.
fn finding(
    cx: &CategoryCx<'_>,
    rows: &[&Row],
    saved: Range,
    told: &[&Row],
    (memory_bound, capped): (&[&Row], bool),
) -> Promoted {
    let ms = |rows: &[&Row]| rows.iter().map(|r| matrix_ms(r)).sum::<f64>();
    let (time_ms, told_ms) = (ms(rows), ms(told));
    let parts = by_precision(rows.iter().map(|r| (*r, matrix_ms(r))));
    let largest = parts[0].0;
    let mut said = Said::default();
    say_issue(cx.prepared, &parts, &mut said);
    say_advice(cx, largest, &mut said);
    // What is told of the others reaches fp64 as little as the other way round.
    if let Some((other, _)) = parts.iter().find(|(row, _)| is_fp64(row) != is_fp64(largest)) {
        say_advice(cx, other, &mut said);
    }
    said.selection(largest);
    said.replay();
    let weight = Weight {
        in_top_ops: rows.iter().any(|r| r.in_top_ops),
        efficiency: None,
        percent_of_category: cx.of_category(time_ms),
        percent_of_compute: cx.of_compute(time_ms),
        category_percent_of_compute: cx.category.percent_of_compute,
        notable: true,
    };
    let mut basis = basis(cx, rows, told_ms, ms(memory_bound));
    if capped {
        basis.push_str(", but no more than the matrix work saves");
    }
    let explains: Vec<RowId> = rows.iter().map(|r| r.id).collect();
    let mending = if rows.iter().all(|r| is_tf32_product(r)) { Mending::Accuracy } else { Mending::CountedOn };
    Promoted {
        pattern: PatternId::FULL_PRECISION_GEMM,
        title: title(largest),
        issue: said.issue,
        algorithmic: said.algorithmic,
        kernel: said.kernel,
        basis,
        explains,
        also: told.iter().chain(memory_bound).map(|r| r.id).collect(),
        time_ms,
        saved,
        priority: weight.overall(cx),
        facts: Vec::new(),
        mending,
    }
}

/// How the range was found, precision by precision.
fn basis(cx: &CategoryCx<'_>, rows: &[&Row], told_ms: f64, memory_bound_ms: f64) -> String {
    // The first row, and the time of all now and in the lower precision.
    let mut parts: Vec<(&Row, f64, Range)> = Vec::new();
    for row in rows {
        let now = matrix_ms(row);
        let same = Range::new(now, now);
        let scaled = peaks(cx.prepared, row).map_or(same, |peaks| scaled_ms(cx, row, peaks));
        match parts.iter_mut().find(|(first, ..)| dtype(first) == dtype(row)) {
            Some((_, ms, sum)) => {
                *ms += now;
                *sum = Range::new(sum.low + scaled.low, sum.high + scaled.high);
            }
            None => parts.push((row, now, scaled)),
        }
    }
    let mut with = if told_ms > 0.0 {
        format!(", with {} ms that other findings speak of,", shown_ms(told_ms))
    } else {
        String::new()
    };
    let part = |(row, ms, scaled): &(&Row, f64, Range)| {
        let (peak, lower) = peaks(cx.prepared, row).unwrap_or_default();
        let of_that = |end: f64| shown(end / ms.max(f64::MIN_POSITIVE), 3);
        format!(
            "{} ms{} at {} TFLOPS/s peak take {} to {} of that at {} in bf16",
            shown_ms(*ms),
            std::mem::take(&mut with),
            shown(peak, 0),
            of_that(scaled.low),
            of_that(scaled.high),
            shown(lower, 0),
        )
    };
    let parts: Vec<String> = parts.iter().map(part).collect();
    format!(
        "{}, and never less than their bytes do; the hopeful end adds half of {} ms of full-precision work that memory bounds",
        parts.join("; "),
        shown_ms(memory_bound_ms),
    )
}

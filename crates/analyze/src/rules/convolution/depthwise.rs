//! Depthwise convolutions with channels first that run on the framework's own kernels.

use super::across::Across;
use super::shape::Shape;
use crate::finding::{Mending, PatternId, Range};
use crate::metrics::{CategoryMetrics, Promoted};
use crate::prepare::kernel_names::{is_native, main_kernel};
use crate::prepared::Row;
use crate::rounding::{shown, shown_ms};
use crate::rules::cx::CategoryCx;
use crate::rules::impact::{row_range, together};
use crate::rules::judge::{Judged, Judgement, aggregate};
use crate::rules::layout::{self, Layout};
use crate::rules::priority::Weight;
use crate::rules::words::{Said, is_backward};
use crate::texts::TextId;
use crate::thresholds::Threshold;

/// Parts of the names of kernels for images with channels first: the framework's own, and cuDNN's.
const CHANNELS_FIRST: &[&str] = &["conv_depthwise2d", "c1_k1_nchw"];

/// Longest side of a filter with which training in full precision gains: in 130 measured convolutions cuDNN's backward of
/// filters of seven by seven took 1.1 to 6 times as long with channels last.
const LONGEST_TRAINED: i64 = 5;

/// Whether a kernel for images with channels first ran: with channels last cuDNN has a faster one. In 130 measured
/// convolutions it took 0.19 to 0.72 of the time in half precision (with strides up to 1.1, where they are small), 0.28 to
/// 0.75 in full; in three measured pairs the whole step then took 0.47 to 0.54 of its time.
pub(super) fn wants_channels_last(cx: &CategoryCx<'_>, row: &Row) -> bool {
    let has_library = cx.prepared.platform.vendor.as_deref() == Some("NVIDIA");
    let is_long = |shape: Shape| shape.kernel.iter().any(|side| *side > LONGEST_TRAINED);
    let trains = || cx.rows().any(is_backward);
    let loses = !is_half(row) && Shape::of(row).is_some_and(is_long) && trains();
    has_library
        && !loses
        && Layout::of(row) == Layout::Contiguous
        && main_kernel(row).is_some_and(|k| CHANNELS_FIRST.iter().any(|part| k.contains(part)))
}

fn is_half(row: &Row) -> bool {
    let first = row.inputs.types.as_ref().and_then(|t| t.first());
    first.is_some_and(|t| matches!(&**t, "c10::Half" | "c10::BFloat16"))
}

/// Parts of the names of the library's kernels for depthwise convolutions.
const SPECIALIZED: &[&str] = &["c1_k1", "depthwise"];

/// Whether a library's kernel for depthwise convolutions ran. (The framework has one too, which is not as good.)
pub(super) fn runs_specialized(row: &Row) -> bool {
    main_kernel(row).is_some_and(|k| !is_native(k) && SPECIALIZED.iter().any(|part| k.contains(part)))
}

/// Vector instructions for each tap of the filter, at best and at worst: loading, converting and adding up. In half
/// precision cuDNN's kernels for large filters took the time of 3.3 to 4.9, with the bias that of 6.7; in full of 9.1 to 12.5.
const PER_TAP: (f64, f64) = (3.2, 7.0);
const PER_TAP_IN_FULL: (f64, f64) = (8.0, 13.0);

/// Asks no more of a depthwise convolution than the vector units can do: no matrix unit helps, and large filters do more
/// work for each byte than memory would have time for.
pub(super) fn limit_to_vector_units(cx: &CategoryCx<'_>, row: &Row, judgement: &mut Judgement) {
    let peak = cx.prepared.platform.vector_peak().map(|p| p.value);
    let (Some(peak), Some(reached), Some(efficiency)) =
        (peak, row.efficiency.tflops_achieved.filter(|t| *t > 0.0), row.efficiency.judged())
    else {
        return;
    };
    // A tap is two operations and, at the peak, one instruction.
    let at = |instructions: f64| efficiency * peak / instructions / reached;
    let per_tap = if is_half(row) { PER_TAP } else { PER_TAP_IN_FULL };
    let (best, worst) = (at(per_tap.0), at(per_tap.1));
    judgement.ceiling = judgement.ceiling.min(best);
    judgement.slow_below = judgement.slow_below.min(worst);
    judgement.floor_target = judgement.floor_target.map(|t| t.min(worst));
}

/// Whether that is less than memory would allow.
pub(super) fn is_limited_to_vector_units(cx: &CategoryCx<'_>, judgement: &Judgement) -> bool {
    judgement.band.is_some_and(|(_, high)| judgement.ceiling < high.min(cx.prepared.memory_ceiling()))
}

/// Makes one finding of them, the batch norms on the same images, and what goes between layouts: the same change mends all.
/// Without these the usual finding says all; where transposes are the larger fault, theirs does.
pub(super) fn promote(cx: &CategoryCx<'_>, judged: &[Judged<'_>], metrics: &mut CategoryMetrics) {
    let is_slow = |j: &&Judged<'_>| {
        wants_channels_last(cx, j.row) && j.row.efficiency.judged().is_some_and(|e| e < j.judgement.slow_below)
    };
    let slow: Vec<&Judged<'_>> = judged.iter().filter(is_slow).collect();
    let convolutions: Vec<&Row> = slow.iter().map(|j| j.row).collect();
    let norms = layout::norms(cx);
    let ms = |rows: &[&Row]| rows.iter().map(|r| r.time_ms).sum::<f64>();
    let across = Across::of(cx, &convolutions);
    let (conv_ms, norm_ms) = (ms(&convolutions), ms(&norms));
    let told = metrics.patterns.iter().any(|p| p.pattern == layout::CODE && p.promoted.is_some());
    let Some(largest) = convolutions.first() else { return };
    if told || norms.is_empty() && across.is_empty() || cx.of_compute(conv_ms) < cx.limit(Threshold::ReportMinPercent) {
        return;
    }
    let ranges = slow.iter().filter_map(|j| row_range(cx, j.row, &j.judgement));
    let own = ranges.fold(Range::new(0.0, 0.0), |a, b| Range::new(a.low + b.low, a.high + b.high));
    let efficiency = |rows: &[&Row]| shown(aggregate(rows.iter().copied()).unwrap_or_default(), 1);
    let mut said = Said::default();
    let (conv_percent, norm_percent) = (efficiency(&convolutions), efficiency(&norms));
    said.issue(TextId::I_DEPTHWISE_FIRST, &[("time", &shown_ms(conv_ms)), ("pct", &conv_percent)]);
    if !norms.is_empty() {
        said.also(TextId::I_DEPTHWISE_NORM, &[("norm", &shown_ms(norm_ms)), ("normpct", &norm_percent)]);
    }
    if !across.is_empty() {
        said.also(TextId::I_DEPTHWISE_ACROSS, &[("time", &shown_ms(across.ms()))]);
    }
    said.model(TextId::A_DEPTHWISE_LAST, &[]);
    said.kernel(TextId::B_DEPTHWISE, &[]);
    said.selection(largest);
    said.replay();
    let all: Vec<&Row> = convolutions.iter().chain(&norms).copied().chain(across.rows()).collect();
    let weight = Weight {
        in_top_ops: all.iter().any(|r| r.in_top_ops),
        efficiency: aggregate(all.iter().copied()),
        percent_of_category: cx.of_category(conv_ms),
        percent_of_compute: cx.of_compute(ms(&all)),
        category_percent_of_compute: cx.category.percent_of_compute,
        notable: true,
    };
    let (conv_shown, norm_shown) = (shown_ms(conv_ms), shown_ms(norm_ms));
    let mut basis =
        vec![format!("{conv_shown} ms of depthwise convolutions at {conv_percent}% of peak come into their band")];
    let mut facts = Vec::new();
    if !norms.is_empty() {
        basis.push(format!(
            "{norm_shown} ms of batch norm on channels-first inputs run at {norm_percent}% of bandwidth now and would at \
             {}-{}%",
            shown(cx.limit(Threshold::EffAcceptable), 0),
            shown(cx.prepared.memory_ceiling(), 0),
        ));
        facts.push(format!("{norm_shown} ms of batch norm work on channels-first inputs"));
    }
    if !across.is_empty() {
        let ms = shown_ms(across.ms());
        basis.push(format!(
            "of {ms} ms between layouts half of the copies and of what strides cost go at worst, at best all, with the \
             biases that linear layers add on their own to such inputs and the copies that operations make of them within"
        ));
        facts.push(format!("{ms} ms copy between layouts or work on tensors of both"));
    }
    basis.push("deviations add in squares".to_owned());
    let promoted = Promoted {
        pattern: PatternId::DEPTHWISE_CONVOLUTION,
        title: "Depthwise convolutions with channels first".to_owned(),
        issue: said.issue,
        algorithmic: said.algorithmic,
        kernel: said.kernel,
        basis: basis.join("; "),
        explains: all.iter().map(|r| r.id).collect(),
        also: Vec::new(),
        time_ms: ms(&all),
        saved: together(&[own, layout::norm_saving(cx, &norms), across.saving(cx)]),
        priority: weight.overall(cx),
        facts,
        mending: Mending::CountedOn,
    };
    let has = |rows: &[crate::program::RowId]| rows.contains(&largest.id);
    if let Some(pattern) = metrics.patterns.iter_mut().find(|p| p.pattern == CODE && has(&p.rows)) {
        pattern.promoted = Some(promoted);
    }
}

/// Code of the pattern that all depthwise convolutions are.
const CODE: &str = super::code(super::Kind::Depthwise);

//! Depthwise convolutions with channels first that run on the framework's own kernels.

use crate::finding::{PatternId, Range};
use crate::metrics::{CategoryMetrics, Promoted};
use crate::prepare::kernel_names::{is_native, main_kernel};
use crate::prepared::Row;
use crate::rounding::{shown, shown_ms};
use crate::rules::cx::CategoryCx;
use crate::rules::impact::{row_range, together};
use crate::rules::judge::{Judged, Judgement, aggregate};
use crate::rules::layout::{self, Layout};
use crate::rules::priority::Weight;
use crate::rules::words::Said;
use crate::texts::TextId;
use crate::thresholds::Threshold;

/// Whether the framework's own kernel for depthwise convolutions ran on half-precision images with channels first: with
/// channels last cuDNN's takes its place. In three measured pairs the whole step then took 0.47 to 0.54 of its time.
pub(super) fn wants_channels_last(cx: &CategoryCx<'_>, row: &Row) -> bool {
    let has_library = cx.prepared.platform.vendor.as_deref() == Some("NVIDIA");
    let first = row.inputs.types.as_ref().and_then(|t| t.first());
    let half = first.is_some_and(|t| matches!(&**t, "c10::Half" | "c10::BFloat16"));
    has_library
        && half
        && Layout::of(row) == Layout::Contiguous
        && main_kernel(row).is_some_and(|k| k.contains("conv_depthwise2d"))
}

/// Parts of the names of the library's kernels for depthwise convolutions.
const SPECIALIZED: &[&str] = &["c1_k1", "depthwise"];

/// Whether a library's kernel for depthwise convolutions ran. (The framework has one too, which is not as good.)
pub(super) fn runs_specialized(row: &Row) -> bool {
    main_kernel(row).is_some_and(|k| !is_native(k) && SPECIALIZED.iter().any(|part| k.contains(part)))
}

/// Vector instructions for each tap of the filter, at best and at worst: loading, converting and adding up. cuDNN's
/// kernel for filters of seven by seven took the time of five in a recording, with the bias that of seven.
const PER_TAP: (f64, f64) = (2.0, 7.0);

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
    let (best, worst) = (at(PER_TAP.0), at(PER_TAP.1));
    judgement.ceiling = judgement.ceiling.min(best);
    judgement.slow_below = judgement.slow_below.min(worst);
    judgement.floor_target = judgement.floor_target.map(|t| t.min(worst));
}

/// Whether that is less than memory would allow.
pub(super) fn is_limited_to_vector_units(cx: &CategoryCx<'_>, judgement: &Judgement) -> bool {
    judgement.band.is_some_and(|(_, high)| judgement.ceiling < high.min(cx.prepared.memory_ceiling()))
}

/// Makes one finding of them and the batch norms on the same images: the same change mends both. Without such norms the
/// usual finding says all; where transposes are the larger fault, theirs does.
pub(super) fn promote(cx: &CategoryCx<'_>, judged: &[Judged<'_>], metrics: &mut CategoryMetrics) {
    let is_slow = |j: &&Judged<'_>| {
        wants_channels_last(cx, j.row) && j.row.efficiency.judged().is_some_and(|e| e < j.judgement.slow_below)
    };
    let slow: Vec<&Judged<'_>> = judged.iter().filter(is_slow).collect();
    let convolutions: Vec<&Row> = slow.iter().map(|j| j.row).collect();
    let norms = layout::norms(cx);
    let ms = |rows: &[&Row]| rows.iter().map(|r| r.time_ms).sum::<f64>();
    let (conv_ms, norm_ms) = (ms(&convolutions), ms(&norms));
    let told = metrics.patterns.iter().any(|p| p.pattern == layout::CODE && p.promoted.is_some());
    let Some(largest) = convolutions.first() else { return };
    if told || norms.is_empty() || cx.of_compute(conv_ms) < cx.limit(Threshold::ReportMinPercent) {
        return;
    }
    let ranges = slow.iter().filter_map(|j| row_range(cx, j.row, &j.judgement));
    let own = ranges.fold(Range::new(0.0, 0.0), |a, b| Range::new(a.low + b.low, a.high + b.high));
    let efficiency = |rows: &[&Row]| shown(aggregate(rows.iter().copied()).unwrap_or_default(), 1);
    let mut said = Said::default();
    let (conv_percent, norm_percent) = (efficiency(&convolutions), efficiency(&norms));
    said.issue(
        TextId::I_DEPTHWISE_FIRST,
        &[
            ("time", &shown_ms(conv_ms)),
            ("pct", &conv_percent),
            ("norm", &shown_ms(norm_ms)),
            ("normpct", &norm_percent),
        ],
    );
    said.model(TextId::A_DEPTHWISE_LAST, &[]);
    said.kernel(TextId::B_DEPTHWISE, &[]);
    said.selection(largest);
    said.replay();
    let all: Vec<&Row> = convolutions.iter().chain(&norms).copied().collect();
    let weight = Weight {
        in_top_ops: all.iter().any(|r| r.in_top_ops),
        efficiency: aggregate(all.iter().copied()),
        percent_of_category: cx.of_category(conv_ms),
        percent_of_compute: cx.of_compute(conv_ms + norm_ms),
        category_percent_of_compute: cx.category.percent_of_compute,
        notable: true,
    };
    let promoted = Promoted {
        pattern: PatternId::DEPTHWISE_CONVOLUTION,
        title: "Depthwise convolutions with channels first".to_owned(),
        issue: said.issue,
        algorithmic: said.algorithmic,
        kernel: said.kernel,
        basis: format!(
            "{} ms of depthwise convolutions at {conv_percent}% of peak come into their band; {} ms of batch norm on \
             channels-first inputs run at {norm_percent}% of bandwidth now and would at {}-{}%; deviations add in squares",
            shown_ms(conv_ms),
            shown_ms(norm_ms),
            shown(cx.limit(Threshold::EffAcceptable), 0),
            shown(cx.prepared.memory_ceiling(), 0),
        ),
        explains: all.iter().map(|r| r.id).collect(),
        also: Vec::new(),
        time_ms: conv_ms + norm_ms,
        saved: together(&[own, layout::norm_saving(cx, &norms)]),
        priority: weight.overall(cx),
        facts: vec![format!("{} ms of batch norm work on channels-first inputs", shown_ms(norm_ms))],
    };
    let has = |rows: &[crate::program::RowId]| rows.contains(&largest.id);
    if let Some(pattern) = metrics.patterns.iter_mut().find(|p| p.pattern == CODE && has(&p.rows)) {
        pattern.promoted = Some(promoted);
    }
}

/// Code of the pattern that all depthwise convolutions are.
const CODE: &str = super::code(super::Kind::Depthwise);

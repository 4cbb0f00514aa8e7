//! The sheets of kernels: `kernel_summary`, `short_kernel_histogram`, `short_kernels_summary`.
//!
//! They count all kernels, linked or not, while the timeline counts linked ones: shares of the total time may add up
//! to more than 100 %.

use std::sync::Arc;

use jarvis_trace::{EventId, EventKind, InOrder, Key, StrId};

use super::context::Context;
use super::launchers::LauncherRows;
use super::sheet::{Columns, Stat, count, group_by, maybe_text, number, text};
use super::stats::{Stats, pairwise_sum};
use super::texts::TextId;
use super::{Cell, Format, Sheet};

/// A kernel and who it belongs to.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    event: EventId,
    us: f64,
    /// Innermost operation around the launch.
    op: Option<EventId>,
    /// Name of that, else of the launching call.
    parent: Option<StrId>,
    category: Option<TextId>,
}

/// All kernels of a trace.
pub(crate) struct Kernels {
    list: Vec<Kernel>,
    total_us: f64,
    /// Whether any of them belongs to an operation.
    pub(crate) any_op: bool,
}

impl Kernels {
    pub(crate) fn of(cx: &mut Context<'_>, launchers: &LauncherRows) -> Self {
        let (trace, tree) = (cx.trace, cx.tree);
        let kernels = tree.all_gpu_events().iter().filter(|&&e| trace.kind(e) == EventKind::Kernel);
        let list: Vec<Kernel> = kernels
            .map(|&event| {
                let call = tree.parent(event);
                let op = tree.ancestors(event).find(|&e| trace.kind(e) == EventKind::CpuOp);
                let category = match (op, call) {
                    (Some(op), _) => Some(match launchers.get(op) {
                        Some(launcher) => launcher.category,
                        None => cx.category_of(op, cx.name_of(op), &[]),
                    }),
                    (None, Some(call)) => Some(cx.texts.intern(runtime_category(trace.name(call)))),
                    (None, None) => None,
                };
                let us = trace.dur(event).unwrap_or_default().as_us();
                Kernel { event, us, op, parent: op.or(call).map(|e| trace.name_id(e)), category }
            })
            .collect();
        let times: Vec<f64> = list.iter().map(|k| k.us).collect();
        let any_op = list.iter().any(|k| k.op.is_some());
        Self { list, total_us: pairwise_sum(&times), any_op }
    }
}

fn runtime_category(call: &str) -> &'static str {
    let name = call.to_lowercase();
    if name.contains("cudagraph") || name.contains("graphlaunch") { "graph" } else { "runtime" }
}

/// A row of `kernel_summary`.
#[derive(Debug, Clone)]
pub struct KernelRow {
    /// Category of the operation that launched it; `graph` or `runtime` without one, `None` if unlinked.
    pub category: Option<Arc<str>>,
    /// Name of the operation or call that launched it; `None` if unlinked.
    pub parent: Option<Arc<str>>,
    /// Name of the kernel.
    pub name: Arc<str>,
    /// Stream.
    pub stream: Option<i64>,
    /// Durations in microseconds.
    pub us: Stats,
    /// Share of the time of all kernels, in percent.
    pub percent_of_kernels: f64,
    /// Share of the whole timeline, in percent.
    pub percent_of_total: f64,
    /// The first such kernel.
    pub example: EventId,
}

/// `kernel_summary`: kernels by who launched them, name and stream, most time first.
pub(crate) fn summary(cx: &mut Context<'_>, kernels: &Kernels, timeline_us: f64) -> Vec<KernelRow> {
    let (trace, list) = (cx.trace, &kernels.list);
    let stream = |e: EventId| trace.int(e, Key::Stream);
    let groups = group_by(list, |k| (k.category, k.parent, trace.name_id(k.event), stream(k.event)));
    let mut rows: Vec<KernelRow> = groups
        .into_iter()
        .map(|group| {
            let first = &list[group[0]];
            let us = Stats::of(group.iter().map(|&i| list[i].us));
            KernelRow {
                category: first.category.map(|c| cx.texts.get(c)),
                parent: first.parent.map(|p| cx.texts.shared(p)),
                name: cx.texts.shared(trace.name_id(first.event)),
                stream: stream(first.event),
                us,
                percent_of_kernels: us.sum / kernels.total_us * 100.0,
                percent_of_total: us.sum / timeline_us * 100.0,
                example: first.event,
            }
        })
        .collect();
    // Missing keys come last.
    let key = |r: &KernelRow| {
        let known_first = |t: &Option<Arc<str>>| (t.is_none(), t.clone());
        (known_first(&r.category), known_first(&r.parent), Arc::clone(&r.name), r.stream.is_none(), r.stream)
    };
    rows.sort_by_cached_key(key);
    rows.order_by(|a, b| b.us.sum.total_cmp(&a.us.sum));
    rows
}

/// The sheet of [`summary`].
pub(crate) fn summary_sheet(any_op: bool, rows: &[KernelRow]) -> Sheet<'_> {
    Columns::<KernelRow>::new()
        .plain("Parent op category", |r| maybe_text(r.category.as_ref()))
        .when(any_op, |c| c.plain("Parent cpu_op", |r| maybe_text(r.parent.as_ref())))
        .plain("Kernel name", |r| text(&r.name))
        .plain("Kernel stream", |r| r.stream.map_or(Cell::Missing, Cell::Int))
        .time("Kernel duration (µs)_sum", |r| Cell::float(r.us.sum))
        .plain("Kernel duration (µs)_count", |r| count(r.us.count))
        .stats("Kernel duration (µs)", &[Stat::Mean, Stat::Min, Stat::Max], Format::Time, |r| &r.us)
        .percent("Percent of kernels time (%)", |r| Cell::float(r.percent_of_kernels))
        .percent("Percent of total time (%)", |r| Cell::float(r.percent_of_total))
        .sheet("kernel_summary", rows)
}

/// A bin of the histogram of short kernels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Lower edge in microseconds.
    pub start: f64,
    /// Upper edge in microseconds; belongs to the next bin, except in the last.
    pub end: f64,
    /// Kernels.
    pub count: usize,
}

/// `short_kernel_histogram`: how long the short kernels take.
pub(crate) fn histogram(kernels: &Kernels, threshold_us: f64, bins: usize) -> Vec<Bin> {
    let values: Vec<f64> = kernels.list.iter().map(|k| k.us).filter(|&us| us < threshold_us).collect();
    bin(&values, bins)
}

fn bin(values: &[f64], bins: usize) -> Vec<Bin> {
    let (Some(low), Some(high)) =
        (values.iter().copied().min_by(f64::total_cmp), values.iter().copied().max_by(f64::total_cmp))
    else {
        return Vec::new();
    };
    if bins == 0 {
        return Vec::new();
    }
    let (low, high) = if low < high { (low, high) } else { (low - 0.5, high + 0.5) };
    let width = (high - low) / bins as f64;
    let edge = |i: usize| if i == bins { high } else { low + i as f64 * width };
    let mut counts = vec![0; bins];
    for &value in values {
        let mut at = ((value - low) * (bins as f64 / (high - low))) as usize;
        at = at.min(bins - 1);
        // Rounding may have put the value beside its bin.
        if value < edge(at) {
            at = at.saturating_sub(1);
        }
        if at + 1 < bins && value >= edge(at + 1) {
            at += 1;
        }
        counts[at] += 1;
    }
    counts.into_iter().enumerate().map(|(i, count)| Bin { start: edge(i), end: edge(i + 1), count }).collect()
}

/// The sheet of [`histogram`].
pub(crate) fn histogram_sheet(rows: &[Bin]) -> Sheet<'_> {
    Columns::<Bin>::new()
        .time("bin_start", |r| Cell::float(r.start))
        .time("bin_end", |r| Cell::float(r.end))
        .plain("count", |r| count(r.count))
        .sheet("short_kernel_histogram", rows)
}

/// A row of `short_kernels_summary`.
#[derive(Debug, Clone)]
pub struct ShortKernelRow {
    /// The operation that launched it, with its dims, strides and concrete inputs; `None` in recordings without
    /// operations.
    pub op: Option<[Arc<str>; 4]>,
    /// Name of the kernel.
    pub name: Arc<str>,
    /// Durations in microseconds.
    pub us: Stats,
    /// Share of the whole timeline, in percent.
    pub percent_of_total: f64,
    /// The first such kernel.
    pub example: EventId,
}

/// An operation and how its dims, strides and concrete inputs read.
type OpKey = (StrId, [TextId; 3]);

/// `short_kernels_summary`: short kernels by operation and arguments, most time first. Kernels of operations whose
/// arguments were not recorded are left out.
pub(crate) fn short_kernels(cx: &mut Context<'_>, kernels: &Kernels, timeline_us: f64) -> Vec<ShortKernelRow> {
    let trace = cx.trace;
    let threshold = cx.options.short_kernel_threshold_us;
    let op_key = |cx: &mut Context<'_>, kernel: &Kernel| -> Option<OpKey> {
        let inputs = cx.inputs_of(kernel.op?);
        Some((trace.name_id(kernel.op?), cx.inputs.shown_without_types(inputs)?))
    };
    let short = kernels.list.iter().filter(|k| k.us < threshold);
    let short: Vec<&Kernel> = short.filter(|k| !kernels.any_op || op_key(cx, k).is_some()).collect();
    let groups = group_by(&short, |k| (op_key(cx, k), trace.name_id(k.event)));
    let mut rows: Vec<ShortKernelRow> = groups
        .into_iter()
        .map(|group| {
            let first = short[group[0]];
            let us = Stats::of(group.iter().map(|&i| short[i].us));
            ShortKernelRow {
                op: op_key(cx, first).map(|(name, [dims, strides, concrete])| {
                    let name = cx.texts.of(name);
                    [name, dims, strides, concrete].map(|t| cx.texts.get(t))
                }),
                name: cx.texts.shared(trace.name_id(first.event)),
                us,
                percent_of_total: us.sum / timeline_us * 100.0,
                example: first.event,
            }
        })
        .collect();
    rows.order_by(|a, b| b.us.sum.total_cmp(&a.us.sum).then(a.us.count.cmp(&b.us.count)));
    if let Some(most) = cx.options.topk_short_kernels {
        rows.truncate(most);
    }
    rows
}

/// The sheet of [`short_kernels`]; without rows it has no columns either.
pub(crate) fn short_sheet(any_op: bool, rows: &[ShortKernelRow]) -> Sheet<'_> {
    let mut columns = Columns::<ShortKernelRow>::new();
    if !rows.is_empty() {
        let headers = ["Parent cpu_op", "Input dims", "Input strides", "Concrete Inputs"];
        for (i, header) in headers.into_iter().enumerate().filter(|_| any_op) {
            columns = columns.plain(header, move |r| maybe_text(r.op.as_ref().map(|op| &op[i])));
        }
        columns = columns
            .plain("Kernel name", |r| text(&r.name))
            .time("Short Kernel duration (µs) sum", |r| Cell::float(r.us.sum))
            .plain("Short Kernel count", |r| count(r.us.count))
            .time("Short Kernel duration (µs) mean", |r| number(r.us.mean()))
            .percent("Short Kernel duration (µs) percent of total time", |r| Cell::float(r.percent_of_total));
    }
    columns.sheet("short_kernels_summary", rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_half_open_but_the_last() {
        let bins = bin(&[1.0, 1.5, 2.0, 3.0], 2);
        assert_eq!(bins, [Bin { start: 1.0, end: 2.0, count: 2 }, Bin { start: 2.0, end: 3.0, count: 2 }]);
        let same = bin(&[4.0, 4.0], 4);
        assert_eq!((same[0].start, same[3].end, same[2].count), (3.5, 4.5, 2));
        assert_eq!(bin(&[], 10), []);
    }
}

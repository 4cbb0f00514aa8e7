//! What a reader of the numbers should know before believing them, in a fixed order.

use jarvis_perf::platform::{Platform, Source};
use jarvis_perf::tables::Report;
use jarvis_trace::{At, Defect, Diagnostics, Severity};

use super::args;
use crate::prepared::Prepared;
use crate::rounding::{shown, shown_ms};
use crate::texts::quoted;

/// Told where no Python frames were recorded.
pub const NO_STACK: &str = "No Python stack in the trace: module patterns are limited; record with `with_stack=True`.";

/// Told where no host operation was recorded: nothing else that could be recorded would help then.
pub const NO_OPERATIONS: &str = "No host operations in the trace: no shapes, no modules, no efficiency and no replay; \
                                 record with `activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]`.";

/// Told where shapes were asked for and no operation has any.
pub const LOST_SHAPES: &str = "No operation in the trace has shapes although `record_shapes` was on: no efficiency and \
                               no replay.";

/// Told where no shapes were recorded.
pub const NO_SHAPES: &str = "No shapes in the trace: no efficiency and no replay; record with `record_shapes=True`.";

/// Told where no profiler step was recorded.
pub const NO_STEP: &str = "No profiler step in the trace: times are of the whole window.";

/// Told where category times are far from the computation time; with these words the sentence begins.
pub const TIMES_APART: &str = "Category times add up to";

/// Told of GPU events without a launch, within a sentence.
pub const UNLAUNCHED: &str = "have no recorded launch";

/// Category times may differ from the computation time by this much before it is told, in percent.
const TIME_SUM_TOLERANCE: f64 = 10.0;

/// GPU time without a recorded launch above this share of kernel time is told, in percent.
const UNLINKED_TOLERANCE: f64 = 5.0;

pub(crate) fn warnings(p: &Prepared, report: &Report) -> Vec<String> {
    // First, because it says what all other numbers are of.
    let mut out = p.losses.clone();
    out.extend(other_device(p));
    for row in p.rows.iter().filter(|r| r.efficiency.is_anomaly) {
        let percent = row.efficiency.efficiency_percent.unwrap_or_default();
        out.push(beyond_peak(&row.name, &row.args, percent));
    }
    for row in p.rows.iter().filter(|r| r.high_variance) {
        let cov = shown(row.cov.unwrap_or_default(), 2);
        out.push(format!(
            "The times of {} vary widely: deviation {cov} of the mean, {} ms in all.",
            quoted(&row.name),
            shown_ms(row.time_ms)
        ));
    }
    out.extend(time_sum(p));
    let in_graphs = report.rows.kernels.iter().any(|k| k.category.as_deref() == Some("graph"));
    out.extend(not_recorded(p, in_graphs).into_iter().map(str::to_owned));
    if p.program.steps == 0 {
        out.push(NO_STEP.to_owned());
    }
    out.extend(unlinked(p, report));
    out.extend(derived_peaks(p));
    out
}

/// GPU events without a launch. What was still running when the recording began is no part of the window: nothing of the
/// window is missing then.
fn unlinked(p: &Prepared, report: &Report) -> Vec<String> {
    let ((all, all_us), (before, before_us)) = (report.rows.unlinked, report.rows.unlinked_before);
    let within = (all - before, all_us - before_us);
    let kernel_us: f64 = p.rows.iter().map(|r| r.time_ms * 1e3).sum();
    let considerable = |us: f64| us > UNLINKED_TOLERANCE / 100.0 * kernel_us;
    let mut out = Vec::new();
    if considerable(within.1) {
        let (count, time) = (within.0, shown_ms(within.1 / 1e3));
        out.push(format!("{count} GPU events ({time} ms) {UNLAUNCHED} and belong to no operation."));
    }
    if considerable(before_us) {
        let time = shown_ms(before_us / 1e3);
        out.push(format!(
            "{before} GPU events ({time} ms) were launched before the recording began and ended before the window: they \
             are left out. `torch.cuda.synchronize()` before the first recorded step keeps them out of the recording."
        ));
    }
    out
}

/// What the recording lacks, with the advice that would add it. Why kernels that a GPU graph launched have no operations
/// is told where graphs are told of.
fn not_recorded(p: &Prepared, in_graphs: bool) -> Vec<&'static str> {
    if !p.has_operations && !in_graphs {
        return vec![NO_OPERATIONS];
    }
    let stack = (!p.program.has_frames).then_some(NO_STACK);
    let shapes = match (p.has_shapes, p.record_shapes) {
        (true, _) => None,
        _ if in_graphs && !p.has_operations => None,
        (false, true) => Some(LOST_SHAPES).filter(|_| !in_graphs),
        (false, false) => Some(NO_SHAPES),
    };
    stack.into_iter().chain(shapes).collect()
}

/// What is known to be missing from the recording, one sentence each.
pub(crate) fn losses(diagnostics: &Diagnostics) -> Vec<String> {
    let lost: Vec<_> = diagnostics.seen().filter(|(d, ..)| d.severity == Severity::DataLoss).collect();
    let cuts = [Defect::GzipTruncated, Defect::GzipCorrupt, Defect::JsonTruncated];
    let (cut, rest): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(d, ..)| cuts.contains(&d.defect));
    // A file that is cut shows it twice: as a container and as a document. The document knows where.
    let place = cut.iter().find_map(|(d, _, at)| match at {
        At::Byte(byte) if d.defect == Defect::JsonTruncated => Some(format!(", at byte {byte} of its text")),
        _ => None,
    });
    let first = cut.first().map(|(d, ..)| {
        let why = match d.defect {
            Defect::GzipTruncated => "the gzip stream ends early",
            Defect::GzipCorrupt => "the gzip stream is damaged",
            _ => "the document ends early",
        };
        let place = place.unwrap_or_default();
        format!(
            "The recording is cut off: {why}{place}. Everything before the cut is analysed; what came after is lost."
        )
    });
    let told = rest.iter().map(|(d, count, _)| format!("Part of the recording is lost: {} ({count}x).", d.meaning));
    first.into_iter().chain(told).collect()
}

fn other_device(p: &Prepared) -> Option<String> {
    let name = p.device_name.as_deref()?;
    let memory = None;
    let found = Platform::from_device(name, p.compute_units.and_then(|n| u32::try_from(n).ok()), memory)?;
    (found.platform.name != p.platform.name)
        .then(|| format!("The trace is of {}; the analysis uses the peaks of {}.", quoted(name), p.platform.name))
}

fn time_sum(p: &Prepared) -> Option<String> {
    let sum: f64 = p.categories.iter().map(|c| c.time_ms).sum();
    let compute = p.utilization.computation_time_ms;
    let far = compute > 0.0 && (sum - compute).abs() > TIME_SUM_TOLERANCE / 100.0 * compute;
    far.then(|| {
        let why = if sum > compute { "streams overlap" } else { "kernels belong to no operation" };
        let (sum, compute) = (shown_ms(sum), shown_ms(compute));
        format!("{TIMES_APART} {sum} ms, computation time is {compute} ms: {why}.")
    })
}

fn derived_peaks(p: &Prepared) -> Option<String> {
    let mut specs: Vec<&str> = p
        .rows
        .iter()
        .filter_map(|r| r.efficiency.compute_spec.as_deref())
        .filter(|spec| p.platform.peak(spec).is_some_and(|f| f.source == Source::Derived))
        .collect();
    specs.sort_unstable();
    specs.dedup();
    (!specs.is_empty()).then(|| format!("Derived peaks are used for {}.", specs.join(", ")))
}

/// Told of what is faster than the hardware.
fn beyond_peak(name: &str, args: &str, percent: f64) -> String {
    // Lists of tensors have no shape to tell.
    let on = if args.is_empty() { String::new() } else { format!(" on {}", args::in_prose(args)) };
    format!("{}{on} reaches {}% of peak: verify the measurement.", quoted(name), shown(percent, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::prepared_of;
    use jarvis_trace::TraceBuilder;

    /// A kernel, launched by a call, with an operation or without, and shapes as the header says.
    fn told(header: Option<&str>, operation: bool, call: &str) -> (bool, Vec<String>) {
        let mut b = TraceBuilder::new();
        if let Some(value) = header {
            b.fact("record_shapes", value);
        }
        if operation {
            b.cpu_op("aten::mm", 0.0, 10.0);
        }
        b.launch(call, 2.0, 2.0, 1);
        b.kernel("k", 10.0, 5.0, 1);
        let p = prepared_of(&b, "H200");
        (p.record_shapes, p.warnings.into_iter().filter(|w| w != NO_STEP && !w.starts_with(TIMES_APART)).collect())
    }

    #[test]
    fn only_what_would_help_is_advised() {
        let (launch, graph) = ("cudaLaunchKernel", "cudaGraphLaunch");
        assert_eq!(told(None, true, launch), (false, vec![NO_STACK.into(), NO_SHAPES.into()]));
        assert_eq!(told(Some("1"), true, launch), (true, vec![NO_STACK.into(), LOST_SHAPES.into()]));
        // Shapes and frames belong to operations.
        for (header, asked) in [(Some("1"), true), (None, false)] {
            assert_eq!(told(header, false, launch), (asked, vec![NO_OPERATIONS.into()]));
            assert_eq!(told(header, false, graph), (asked, vec![NO_STACK.into()]));
        }
    }

    #[test]
    fn what_ran_before_the_window_is_told_apart() {
        // stream 7  |lost 100| |mm 50| |lost 20|  with the launch of the second alone
        let of = |before_us: f64, within_us: f64| {
            let mut b = TraceBuilder::new();
            b.gpu("kernel", "lost", 0.0, before_us, 98, 7);
            b.cpu_op("aten::mm", 150.0, 10.0);
            b.launch("cudaLaunchKernel", 152.0, 2.0, 1);
            b.kernel("k", 200.0, 50.0, 1);
            b.gpu("kernel", "lost", 300.0, within_us, 99, 7);
            let told = prepared_of(&b, "H200").warnings.into_iter();
            told.filter(|w| w.contains("GPU events")).collect::<Vec<_>>()
        };
        let [within, before] = &of(100.0, 20.0)[..] else { panic!("both are told") };
        assert_eq!(within, "1 GPU events (0.020 ms) have no recorded launch and belong to no operation.");
        assert!(before.starts_with("1 GPU events (0.10 ms) were launched before the recording began"), "{before}");
        assert!(before.contains("torch.cuda.synchronize()"), "{before}");
        assert_eq!(of(100.0, 1.0).len(), 1, "a share of the window that can be neglected");
    }

    #[test]
    fn what_has_no_shape_is_told_without() {
        let told = |args| beyond_peak("aten::add", args, 114.84);
        assert_eq!(told("(2,3) fp32"), "`aten::add` on (2,3) fp32 reaches 114.8% of peak: verify the measurement.");
        assert_eq!(told(""), "`aten::add` reaches 114.8% of peak: verify the measurement.");
    }
}

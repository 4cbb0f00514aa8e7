//! Aggregation on random traces: whatever way the sheets split the GPU's time, the parts make the whole.

use jarvis_perf::tables::{Report, ReportOptions, build_report};
use jarvis_trace::timeline::is_communication_name;
use jarvis_trace::{EventId, Trace, TraceBuilder};
use proptest::prelude::*;

/// A random operation: its name, start and length; kernels it launches, each with name, stream, start, length.
type Draw = (usize, u32, u32, Vec<(usize, i64, u32, u32)>);

const OPS: &[&str] =
    &["aten::mm", "aten::add", "aten::softmax", "my::op", "autograd::engine::evaluate_function: X", ""];
const KERNELS: &[&str] = &["gemm", "elementwise", "ncclDevKernel_AllReduce", "Memcpy DtoD", ""];

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let kernel = (0..KERNELS.len(), 0i64..3, 0u32..4000, 0u32..200);
    let op = (0..OPS.len(), 0u32..2000, 1u32..300, prop::collection::vec(kernel, 0..4));
    prop::collection::vec(op, 1..25)
}

fn random_trace(draws: &[Draw]) -> Trace {
    let mut b = TraceBuilder::new();
    let mut correlation = 0;
    for (name, ts, dur, kernels) in draws {
        let (ts, dur) = (f64::from(*ts), f64::from(*dur));
        b.cpu_op(OPS[*name], ts, dur)
            .arg("Input Dims", "[[128, 256], [256, 512]]")
            .arg("Input type", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
            .arg("Input Strides", "[[256, 1], [512, 1]]")
            .arg("Concrete Inputs", "[\"\", \"\"]");
        for (i, &(kernel, stream, start, length)) in kernels.iter().enumerate() {
            correlation += 1;
            b.launch("cudaLaunchKernel", ts + dur * (i as f64 + 1.0) / 5.0, dur / 10.0, correlation);
            let category = if KERNELS[kernel].starts_with("Memcpy") { "gpu_memcpy" } else { "kernel" };
            b.gpu(category, KERNELS[kernel], f64::from(start), f64::from(length) / 4.0, correlation, stream);
        }
    }
    b.build()
}

fn near(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-6 * a.abs().max(b.abs()).max(1.0), "{what}: {a} and {b}");
}

fn sum<T>(rows: &[T], value: impl Fn(&T) -> f64) -> f64 {
    rows.iter().map(value).sum()
}

/// Sheets that split the time of operations.
fn operations(report: &Report) {
    let rows = &report.rows;
    let launchers = rows.launchers.rows();
    let whole = sum(launchers, |r| r.direct_us);
    near(sum(&rows.categories, |r| r.direct_us), whole, "ops_summary_by_category");
    near(sum(&rows.ops, |r| r.direct_us), whole, "ops_summary");
    near(sum(&rows.unique_args, |r| r.direct_us.sum), whole, "ops_unique_args");
    for (what, count) in [
        ("ops_summary_by_category", rows.categories.iter().map(|r| r.count).sum::<usize>()),
        ("ops_summary", rows.ops.iter().map(|r| r.count).sum()),
        ("ops_unique_args", rows.unique_args.iter().map(|r| r.count).sum()),
        ("calls of ops_unique_args", rows.unique_args.iter().map(|r| r.calls.len()).sum()),
    ] {
        assert_eq!(count, launchers.len(), "{what}");
    }
    if whole > 0.0 {
        for (what, percents) in [
            ("ops_summary_by_category", rows.categories.iter().map(|r| r.percent).collect::<Vec<_>>()),
            ("ops_summary", rows.ops.iter().map(|r| r.percent).collect()),
            ("ops_unique_args", rows.unique_args.iter().map(|r| r.percent).collect()),
        ] {
            near(sum(&percents, |p| p.0), 100.0, what);
            near(percents.last().map_or(0.0, |p| p.1), 100.0, what);
        }
    }
    for category in &rows.categories {
        let members = rows.ops.iter().filter(|op| op.categories.contains(&category.category));
        assert!(members.map(|op| op.direct_us).sum::<f64>() >= category.direct_us - 1e-6, "{}", category.category);
    }
}

/// Sheets that split the time of kernels.
fn kernels(trace: &Trace, report: &Report) {
    let rows = &report.rows;
    let unified = &rows.unified;
    near(sum(&unified.rows, |r| r.kernel_us.sum), sum(&unified.calls, |c| c.kernel_us), "unified_perf_summary");
    assert_eq!(unified.rows.iter().map(|r| r.calls.len()).sum::<usize>(), unified.calls.len());
    let mut listed: Vec<EventId> = unified.calls.iter().flat_map(|c| c.kernels.iter().copied()).collect();
    listed.retain(|&k| !is_communication_name(trace.name(k)));
    listed.sort_unstable();
    let ours = report.tree.linked_gpu_events().filter(|&k| !is_communication_name(trace.name(k)));
    let mut expected: Vec<EventId> = ours.collect();
    expected.sort_unstable();
    assert_eq!(listed, expected, "each kernel stands in one row");
    let summed = sum(&rows.kernels, |r| r.us.sum);
    let counted: usize = rows.kernels.iter().map(|r| r.us.count).sum();
    let all: Vec<EventId> =
        report.tree.all_gpu_events().iter().copied().filter(|&e| trace.category(e) == "kernel").collect();
    assert_eq!(counted, all.len(), "kernel_summary");
    let lengths: f64 = all.iter().filter_map(|&e| trace.dur(e)).map(jarvis_trace::Ns::as_us).sum();
    // Lengths of the sheet are differences of rounded times.
    assert!((summed - lengths).abs() <= 1e-3 * all.len() as f64, "kernel_summary: {summed} and {lengths}");
    if summed > 0.0 {
        near(sum(&rows.kernels, |r| r.percent_of_kernels), 100.0, "kernel_summary");
    }
    let threshold = ReportOptions::default().short_kernel_threshold_us;
    let short = all.iter().filter(|&&e| trace.dur(e).is_some_and(|dur| dur.as_us() < threshold)).count();
    assert_eq!(rows.histogram.iter().map(|b| b.count).sum::<usize>(), short, "short_kernel_histogram");
    // Kernels whose operation has no recorded arguments stand in the histogram alone.
    assert!(rows.short_kernels.iter().map(|r| r.us.count).sum::<usize>() <= short, "short_kernels_summary");
}

/// The timeline's parts.
fn timeline(report: &Report) {
    let t = &report.rows.timeline;
    near(t.busy.0 + t.idle.0, t.total.0, "busy and idle");
    near(t.computation.0 + t.exposed_communication.0 + t.exposed_memcpy.0, t.busy.0, "what the GPU is busy with");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn the_parts_of_every_sheet_make_the_whole(draws in draws(), recompute in any::<bool>()) {
        let trace = random_trace(&draws);
        let options = ReportOptions {
            kernel_summary: true,
            short_kernel_study: true,
            detect_recompute: recompute,
            group_by_num_kernels: recompute,
            topk_short_kernels: None,
            ..ReportOptions::default()
        };
        let Ok(report) = build_report(&trace, &options) else { return Ok(()) };
        operations(&report);
        kernels(&trace, &report);
        timeline(&report);
    }
}

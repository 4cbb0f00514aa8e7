//! By default, models cover nearly all GPU time, stay below what the hardware can do, and count what PyTorch counts.

use std::fs;

use jarvis_perf::ops::ModelSource;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Report, ReportOptions, UnifiedRow, build_report};
use jarvis_trace::{Fidelity, Trace};

use crate::report_parity::report;
use crate::support::{Case, cases, fixtures, shared_traces};

/// What a chip keeps of 50 MB of last-level cache: traffic below this may come from the cache and exceed the memory's
/// rate.
const CACHE_MB: f64 = 50.0;

/// The traces of this GPU: all that are at hand, else those of the repository.
fn h200() -> Vec<Case> {
    let folder = shared_traces().unwrap_or_else(fixtures).join("h200");
    cases(&folder)
}

fn default_report(case: &Case) -> Report {
    report(case, ReportOptions::default()).1
}

#[test]
fn models_cover_the_gpu_time() {
    let mut short = Vec::new();
    for case in h200() {
        let report = default_report(&case);
        let time = |test: &dyn Fn(&UnifiedRow) -> bool| -> f64 {
            report.rows.unified.rows.iter().filter(|r| test(r)).fold(0.0, |sum, r| sum + r.kernel_us.sum)
        };
        let source = |r: &UnifiedRow| r.model.as_ref().and_then(|m| m.source);
        let aside = |r: &UnifiedRow| r.identity.name.contains("GraphLaunch->");
        // Copies to the host move their bytes over the link.
        let sized = |r: &UnifiedRow| r.model.as_ref().is_some_and(|m| m.data_moved_mb.or(m.link_bytes).is_some());
        let own = |r: &UnifiedRow| sized(r) && source(r).is_some_and(|s| s != ModelSource::Generic);
        let (all, left) = (time(&|_| true), time(&|r| !aside(r)));
        let covered = if left > 0.0 { time(&own) / left } else { 1.0 };
        println!(
            "{}: {:.2} % modelled, {:.2} % by tensors alone, {:.2} % of all replayed",
            case.name,
            covered * 100.0,
            time(&|r| source(r) == Some(ModelSource::Generic)) / all * 100.0,
            (all - left) / all * 100.0
        );
        if covered < 0.98 {
            short.push(case.name);
        }
    }
    assert!(short.is_empty(), "below 98 %: {short:?}");
}

/// Rows faster than the hardware need a reason: data that stays in the cache.
#[test]
fn no_row_beats_the_hardware_without_a_reason() {
    let mut faults = Vec::new();
    for case in h200() {
        let report = default_report(&case);
        let arch = fs::read_to_string(case.arch.as_ref().unwrap()).unwrap();
        let platform = Platform::from_arch_json(&arch).unwrap();
        let memory = platform.mem_bw_gbps.value / 1e3;
        for row in &report.rows.unified.rows {
            let Some(model) = &row.model else { continue };
            let above = |rate: Option<f64>, peak: Option<f64>| {
                rate.zip(peak).map(|(rate, peak)| rate / peak).filter(|&share| share > 1.05)
            };
            let peak = model.compute_spec.as_ref().and_then(|spec| platform.peak(spec)).map(|p| p.value);
            let bytes = above(row.tb_per_s.mean(), Some(memory));
            let flops = above(row.tflops_per_s.mean(), peak);
            if bytes.is_none() && flops.is_none() {
                continue;
            }
            let cached = model.data_moved_mb.is_some_and(|mb| mb <= CACHE_MB);
            let line = format!(
                "{}: {} {} at {:.2} of the memory's and {:.2} of the arithmetic's peak",
                case.name,
                row.identity.name,
                row.identity.args.dims.as_ref().map_or("", |d| d),
                bytes.unwrap_or_default(),
                flops.unwrap_or_default()
            );
            if cached && flops.is_none() {
                println!("{line}: its {:.1} MB stay in the cache", model.data_moved_mb.unwrap_or_default());
            } else {
                faults.push(line);
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// PyTorch counts a step of each workload; the calls of the trace hold several steps.
#[test]
fn flops_are_those_of_the_framework() {
    let facts = fs::read_to_string(fixtures().join("h200/facts.json")).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    let mut compared = 0;
    for case in h200() {
        let fact = &facts["workloads"][&case.name];
        let (Some(steps), Some(counted)) = (fact["steps"].as_f64(), fact["flops_by_op"]["Global"].as_object()) else {
            println!("{}: the framework could not count it", case.name);
            continue;
        };
        let report = default_report(&case);
        for (op, flops) in counted {
            let flops = flops.as_f64().unwrap();
            // The framework charges the weight gradient of grouped convolutions for every pair of channels.
            if case.name == "convnext_train" && op == "aten.convolution_backward" {
                continue;
            }
            let ours: f64 = report
                .rows
                .unified
                .rows
                .iter()
                .filter(|row| counts_as(&row.identity.name, op))
                .map(|row| row.model.as_ref().and_then(|m| m.torch_flops).unwrap_or_default() * row.calls.len() as f64)
                .sum();
            let ratio = ours / steps / flops;
            println!("{}: {op}: {ratio:.6}", case.name);
            assert!((ratio - 1.0).abs() < 0.01, "{}: {op}: {ours} in {steps} steps, not {flops} in one", case.name);
            compared += 1;
        }
    }
    assert!(compared >= 10, "only {compared} operations compared");
}

/// Whether calls of `name` in the trace are what the framework counted as `op`.
fn counts_as(name: &str, op: &str) -> bool {
    let name = name.replace("::", ".");
    // Compiled code calls the inner backward operation directly.
    name == op || op == "aten._scaled_dot_product_cudnn_attention_backward" && name == "aten._cudnn_attention_backward"
}

/// Two operations, the second with two kernels side by side, recorded from a time on.
fn recorded_from(origin_us: i64) -> Trace {
    let at = |ns: i64| format!("{}.{:03}", origin_us + ns / 1000, ns % 1000);
    let place = |cat: &str, name: &str, pid: i64, tid: i64, ns: i64, dur: &str| {
        format!(
            r#""ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {}, "dur": {dur}"#,
            at(ns)
        )
    };
    let flow = |ph: char, pid: i64, tid: i64, ns: i64, id: i64| {
        format!(
            r#"{{"ph": "{ph}", "cat": "ac2g", "name": "ac2g", "id": {id}, "pid": {pid}, "tid": {tid}, "ts": {}}}"#,
            at(ns)
        )
    };
    let mut events = vec![
        format!(r#"{{{}, "args": {{"External id": 1}}}}"#, place("cpu_op", "aten::gelu", 1, 1, 0, "9.001")),
        format!(r#"{{{}, "args": {{"External id": 2}}}}"#, place("cpu_op", "aten::mul", 1, 1, 20_003, "9.001")),
    ];
    let kernels = [(1, 1_000, 7, 30_001, "1.117"), (2, 21_000, 7, 40_003, "1.377"), (3, 23_000, 8, 41_007, "2.119")];
    for (id, call, stream, start, dur) in kernels {
        let args = format!(r#""args": {{"correlation": {id}, "device": 0, "stream": {stream}}}"#);
        events.push(format!("{{{}, {args}}}", place("cuda_runtime", "cudaLaunchKernel", 1, 1, call, "1")));
        events.push(flow('s', 1, 1, call, id));
        events.push(format!("{{{}, {args}}}", place("kernel", "k", 0, stream, start, dur)));
        events.push(flow('f', 0, stream, start, id));
    }
    Trace::parse(format!(r#"{{"traceEvents": [{}]}}"#, events.join(", ")).as_bytes()).unwrap()
}

/// What the sheets say does not hang on where a recording counts its time from: floats that count microseconds from 1970 are
/// a quarter apart, which is what the reference shows.
#[test]
fn times_are_the_same_wherever_a_recording_begins() {
    let sheets = |origin_us: i64, fidelity: Fidelity| {
        let options = ReportOptions { fidelity, include_overlap: true, first_occurrence: true, ..Default::default() };
        let options = ReportOptions { kernel_summary: true, micro_idle_us: Some(9.0), ..options };
        let report = build_report(&recorded_from(origin_us), &options).unwrap();
        let sheet = |t: &jarvis_perf::tables::Table| (t.name.clone(), crate::support::Texts::of(t).rows);
        report.tables().iter().map(sheet).collect::<Vec<_>>()
    };
    let (near, far) = (1_000, 1_700_000_000_000_000);
    assert_eq!(sheets(near, Fidelity::Correct), sheets(far, Fidelity::Correct));
    assert_ne!(sheets(near, Fidelity::Reference), sheets(far, Fidelity::Reference));
    let timeline = sheets(far, Fidelity::Correct).swap_remove(0).1;
    assert_eq!(&timeline[0][..2], ["computation_time", "0.00424"], "1.117 µs, and from 40.003 to 43.126 µs");
}

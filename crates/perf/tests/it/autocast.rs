//! Under autocast a call casts its arguments and then calls its own operation again: the inner call is the work. So is the
//! operation inside a function that is recorded with less than it.

use jarvis_perf::tables::{Report, ReportOptions, build_report};
use jarvis_trace::{Fidelity, TraceBuilder};

fn cells(report: &Report, sheet: &str, header: &str) -> Vec<String> {
    let table = report.table(sheet).unwrap_or_else(|| panic!("no sheet {sheet}"));
    table.column(header).unwrap().texts().into_iter().map(Into::into).collect()
}

fn reports(b: &TraceBuilder) -> [Report; 2] {
    let trace = b.build();
    [Fidelity::Reference, Fidelity::Correct]
        .map(|fidelity| build_report(&trace, &ReportOptions { fidelity, ..ReportOptions::default() }).unwrap())
}

/// An operation on tensors of one shape and type, with a number if it takes part in the backward pass.
fn op(b: &mut TraceBuilder, thread: i64, (name, ts, dur): (&str, f64, f64), types: &[&str], sequence: Option<i64>) {
    let shape = "[2, 8, 64, 64]";
    let dims = vec![if name == "aten::mm" { "[8192, 8192]" } else { shape }; types.len()];
    let concrete = vec!["\"\""; types.len()];
    let types: Vec<String> = types.iter().map(|t| format!("\"{t}\"")).collect();
    let event = b
        .cpu_op(name, ts, dur)
        .on(1, thread)
        .arg("Input Dims", format!("[{}]", dims.join(", ")))
        .arg("Input type", format!("[{}]", types.join(", ")))
        .arg("Concrete Inputs", format!("[{}]", concrete.join(", ")));
    if let Some(number) = sequence {
        event.arg("Sequence number", number);
    }
}

fn kernel(b: &mut TraceBuilder, thread: i64, ts: f64, name: &str, dur: f64) {
    let number = ts as i64;
    b.flow('s', "ac2g", ts, number).on(1, thread);
    b.runtime("cudaLaunchKernel", ts, 1.0).on(1, thread).arg("correlation", number);
    b.gpu("kernel", name, 1000.0 + 10.0 * ts, dur, number, 7);
}

const HALF: &str = "c10::BFloat16";

/// `outer(float) > aten::copy_, aten::copy_, outer(bf16)`, the calls inside an `outer` of 90 µs.
fn cast_call(b: &mut TraceBuilder, name: &str, operands: usize, outer: Option<i64>, inner: Option<i64>) {
    op(b, 1, (name, 0.0, 90.0), &vec!["float"; operands], outer);
    for (at, number) in [(10.0, 5), (20.0, 6)] {
        op(b, 1, ("aten::copy_", at, 8.0), &[HALF, "float"], outer.map(|_| number));
        kernel(b, 1, at + 1.0, "cast", 4.0);
    }
    op(b, 1, (name, 30.0, 50.0), &vec![HALF; operands], inner);
    kernel(b, 1, 32.0, "work", 40.0);
}

#[test]
fn work_is_rated_by_the_types_after_the_cast() {
    let mut b = TraceBuilder::new();
    cast_call(&mut b, "aten::mm", 2, None, None);
    let [parity, default] = reports(&b);
    assert_eq!(cells(&parity, "unified_perf_summary", "name"), ["aten::mm"]);
    assert_eq!(cells(&parity, "unified_perf_summary", "Compute Spec"), ["matrix_fp32"]);
    assert_eq!(cells(&parity, "GEMM", "Compute Spec"), ["matrix_fp32", "matrix_bf16"]);
    assert_eq!(cells(&default, "unified_perf_summary", "name"), ["aten::mm", "aten::copy_"]);
    assert_eq!(cells(&default, "unified_perf_summary", "Kernel Time (µs)_sum"), ["40.0", "8.0"]);
    assert_eq!(cells(&default, "unified_perf_summary", "Compute Spec")[0], "matrix_bf16");
    assert_eq!(cells(&default, "GEMM", "Compute Spec"), ["matrix_bf16"]);
    assert_eq!(cells(&default, "GEMM", "Kernel Time (µs)_sum"), ["40.0"]);
}

#[test]
fn the_same_types_inside_are_one_call() {
    let mut b = TraceBuilder::new();
    op(&mut b, 1, ("aten::mm", 0.0, 90.0), &[HALF, HALF], None);
    op(&mut b, 1, ("aten::mm", 30.0, 50.0), &[HALF, HALF], None);
    kernel(&mut b, 1, 32.0, "work", 40.0);
    let [_, default] = reports(&b);
    assert_eq!(cells(&default, "unified_perf_summary", "ex_UID"), ["0"]);
    assert_eq!(cells(&default, "GEMM", "name_count"), ["2"]);
}

#[test]
fn what_works_itself_is_more_than_a_cast() {
    let mut b = TraceBuilder::new();
    cast_call(&mut b, "aten::mm", 2, None, None);
    kernel(&mut b, 1, 85.0, "more", 3.0);
    let [_, default] = reports(&b);
    assert_eq!(cells(&default, "unified_perf_summary", "ex_UID"), ["0"]);
    assert_eq!(cells(&default, "unified_perf_summary", "Kernel Time (µs)_sum"), ["51.0"]);
}

/// The backward operation has no model here, so its forward call tells its cost.
fn with_backward(outer: Option<i64>, inner: Option<i64>) -> Report {
    let mut b = TraceBuilder::new();
    cast_call(&mut b, "aten::_scaled_dot_product_flash_attention", 3, outer, inner);
    for (ts, number, name, dur) in [(200.0, 7, "Flash", 100.0), (300.0, 5, "ToCopy", 9.0)] {
        let wrapper = format!("autograd::engine::evaluate_function: {name}Backward0");
        op(&mut b, 2, (&wrapper, ts, 60.0), &[], Some(number));
        op(&mut b, 2, (&format!("{name}Backward0"), ts + 1.0, 50.0), &[], Some(number));
        kernel(&mut b, 2, ts + 3.0, "gradient", dur);
    }
    let [_, default] = reports(&b);
    default
}

#[test]
fn backward_work_is_rated_by_the_types_after_the_cast() {
    // Numbered as PyTorch does, the outer call as the first cast; casts that need no gradient; the outer call alone.
    for (outer, inner) in [(Some(5), Some(7)), (Some(7), Some(7)), (Some(7), None)] {
        let report = with_backward(outer, inner);
        let rows = cells(&report, "unified_perf_summary", "name");
        let at = rows.iter().position(|name| name == "FlashBackward0").unwrap();
        let cell = |header| cells(&report, "unified_perf_summary", header)[at].clone();
        assert_eq!(cell("Compute Spec"), "matrix_bf16", "{outer:?} {inner:?}");
        assert_eq!(cell("Kernel Time (µs)_sum"), "100.0", "{outer:?} {inner:?}");
        assert_eq!(cells(&report, "SDPA_fwd", "Compute Spec"), ["matrix_bf16"]);
        assert_eq!(cells(&report, "SDPA_bwd", "Compute Spec"), ["matrix_bf16"]);
        assert_eq!(cells(&report, "SDPA_bwd", "Kernel Time (µs)_sum"), ["100.0"]);
    }
}

/// Attention over 1024 keys, causal, with its number in the backward pass and what stands behind the flag.
fn attention(b: &mut TraceBuilder, (name, ts, dur): (&str, f64, f64), behind: [&str; 2]) {
    let texts =
        |texts: &[&str]| format!("[{}]", texts.iter().map(|t| format!("\"{t}\"")).collect::<Vec<_>>().join(", "));
    let tensor = "[1, 1024, 4, 64]";
    b.cpu_op(name, ts, dur)
        .on(1, 1)
        .arg("Input Dims", format!("[{tensor}, {tensor}, {tensor}, [], [], [], [], []]"))
        .arg("Input type", texts(&[HALF, HALF, HALF, "Scalar", "Scalar", "Scalar", "", "Scalar"]))
        .arg("Concrete Inputs", texts(&["", "", "", "0.", "0.125", "True", behind[0], behind[1]]))
        .arg("Input Strides", "[[262144, 256, 64, 1], [262144, 256, 64, 1], [262144, 256, 64, 1], [], [], [], [], []]")
        .arg("Sequence number", 7);
}

/// A function is recorded without its window, the operation inside with it; its backward work is known by the function
/// alone.
#[test]
fn a_window_is_that_of_the_operation_inside() {
    let mut b = TraceBuilder::new();
    attention(&mut b, ("FlashAttnFunc", 0.0, 90.0), ["", "0."]);
    attention(&mut b, ("flash_attn::_flash_attn_forward", 30.0, 50.0), ["127", "0"]);
    kernel(&mut b, 1, 32.0, "work", 40.0);
    op(&mut b, 2, ("autograd::engine::evaluate_function: FlashAttnFuncBackward", 200.0, 60.0), &[], Some(7));
    op(&mut b, 2, ("FlashAttnFuncBackward", 201.0, 50.0), &[], Some(7));
    kernel(&mut b, 2, 203.0, "gradient", 100.0);
    let [parity, default] = reports(&b);
    let summary = |report, header| cells(report, "unified_perf_summary", header);
    assert_eq!(summary(&parity, "name"), ["FlashAttnFuncBackward", "FlashAttnFunc"]);
    assert_eq!(summary(&default, "name"), ["FlashAttnFuncBackward", "flash_attn::_flash_attn_forward"]);
    // A query sees itself and 127 keys before it: 128·129/2 + 896·128 pairs; 2·4 heads·(2·64) and (5·64) wide.
    let pairs = 128.0 * 129.0 / 2.0 + 896.0 * 128.0;
    let gflops: Vec<f64> = summary(&default, "GFLOPS").iter().map(|text| text.parse().unwrap()).collect();
    for (ours, width) in gflops.iter().zip([320.0, 128.0]) {
        assert!((ours - pairs * 8.0 * width / 1e9).abs() < 1e-9, "{gflops:?}");
    }
    assert_eq!(cells(&default, "SDPA_fwd", "name"), ["flash_attn::_flash_attn_forward"]);
    assert_eq!(cells(&default, "SDPA_bwd", "name"), ["flash_attn::_flash_attn_forward"]);
    assert_eq!(cells(&default, "SDPA_bwd", "Kernel Time (µs)_sum"), ["100.0"]);
}

/// Where no operation inside is recorded, the function's own arguments are all there is.
#[test]
fn a_function_without_an_operation_inside_keeps_its_row() {
    let mut b = TraceBuilder::new();
    attention(&mut b, ("FlashAttnFunc", 0.0, 90.0), ["", "0."]);
    kernel(&mut b, 1, 32.0, "work", 40.0);
    let [_, default] = reports(&b);
    assert_eq!(cells(&default, "unified_perf_summary", "name"), ["FlashAttnFunc"]);
    assert_eq!(cells(&default, "SDPA_fwd", "name"), ["FlashAttnFunc"]);
}

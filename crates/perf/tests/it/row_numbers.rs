//! What rows of `unified_perf_summary` say where their calls are not alike, are made of other calls, or stand for the
//! backward work of another.

use jarvis_perf::extension::Extension;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Report, ReportOptions, UnifiedRow, build_report};
use jarvis_trace::{Fidelity, TraceBuilder};

fn reports(b: &TraceBuilder, extension: Option<Extension>) -> [Report; 2] {
    let trace = b.build();
    let platform = Some(Platform::find("H200").unwrap().clone());
    let options = ReportOptions { platform, extension, ..ReportOptions::default() };
    [Fidelity::Reference, Fidelity::Correct]
        .map(|fidelity| build_report(&trace, &ReportOptions { fidelity, ..options.clone() }).unwrap())
}

fn rows<'r>(report: &'r Report, name: &str) -> Vec<&'r UnifiedRow> {
    report.rows.unified.rows.iter().filter(|row| row.identity.name.starts_with(name)).collect()
}

fn op(b: &mut TraceBuilder, thread: i64, (name, ts, dur): (&str, f64, f64), dims: &str, types: &str) {
    b.cpu_op(name, ts, dur).on(1, thread).arg("Input Dims", dims).arg("Input type", types);
}

/// A launch of so many blocks at `ts`, and its kernel.
fn kernel(b: &mut TraceBuilder, thread: i64, ts: f64, (name, dur): (&str, f64), blocks: i64) {
    let number = ts as i64;
    b.flow('s', "ac2g", ts, number).on(1, thread);
    b.runtime("cudaLaunchKernel", ts, 1.0).on(1, thread).arg("correlation", number);
    b.gpu("kernel", name, 10_000.0 + 100.0 * ts, dur, number, 7)
        .arg("grid", format!("[{blocks}, 1, 1]"))
        .arg("block", "[32, 1, 1]");
}

const GATHER: &str = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int)";

/// `x[index]` of rows of 512 bytes; the index is not recorded, the launch tells how many rows there are.
fn picks(b: &mut TraceBuilder, ts: f64, (name, dur): (&str, f64), rows: i64) {
    op(b, 1, ("aten::index", ts, 10.0), "[[1000000, 256], []]", r#"["c10::BFloat16", ""]"#);
    kernel(b, 1, ts + 1.0, (name, dur), rows);
}

#[test]
fn a_row_of_unlike_calls_has_their_mean() {
    let mut b = TraceBuilder::new();
    for (i, rows) in [1000, 3000, 8000].into_iter().enumerate() {
        picks(&mut b, 100.0 * (i + 1) as f64, (GATHER, rows as f64 / 100.0), rows);
    }
    let [_, default] = reports(&b, None);
    let row = rows(&default, "aten::index")[0];
    let model = row.model.as_ref().unwrap();
    // Each row is read and written, and has an index.
    let bytes = 4000.0 * (2.0 * 512.0 + 8.0);
    assert!(model.is_mean);
    assert!((model.data_moved_mb.unwrap() * 1_048_576.0 - bytes).abs() < 1e-3, "{model:?}");
    let best_us = bytes / 4.8e6;
    assert!((model.roofline.unwrap().0 - best_us).abs() < 1e-9, "{model:?}");
    let percent = 100.0 * 3.0 * best_us / 120.0;
    assert!((row.efficiency_percent().unwrap() - percent).abs() < 1e-9, "{row:?}");
}

#[test]
fn calls_that_no_model_can_size_do_not_count_as_their_neighbours() {
    let mut b = TraceBuilder::new();
    picks(&mut b, 100.0, (GATHER, 20.0), 4000);
    picks(&mut b, 200.0, (GATHER, 20.0), 4000);
    picks(&mut b, 300.0, ("index_kernel_of_another_maker", 5.0), 10);
    let [parity, default] = reports(&b, None);
    let calls = |report: &Report| rows(report, "aten::index").iter().map(|r| r.calls.len()).collect::<Vec<_>>();
    assert_eq!(calls(&default), [2, 1]);
    assert_eq!(calls(&parity), [3]);
    let [sized, unsized_row] = rows(&default, "aten::index")[..] else { panic!("two rows") };
    assert!(!sized.model.as_ref().unwrap().is_mean && sized.efficiency_percent().is_some());
    assert_eq!(unsized_row.efficiency_percent(), None);
}

#[test]
fn a_copy_made_of_others_leaves_the_work_to_them() {
    // aten::copy_ > (aten::contiguous > aten::clone > aten::copy_, aten::copy_)
    let mut b = TraceBuilder::new();
    let (dims, types) = ("[[64, 512, 1024], [64, 512, 1024]]", r#"["float", "float"]"#);
    op(&mut b, 1, ("aten::copy_", 100.0, 100.0), dims, types);
    op(&mut b, 1, ("aten::clone", 110.0, 30.0), "[[64, 512, 1024]]", r#"["float"]"#);
    op(&mut b, 1, ("aten::copy_", 111.0, 20.0), dims, types);
    kernel(&mut b, 1, 112.0, ("elementwise_kernel<direct_copy_kernel_cuda>", 75.0), 64);
    op(&mut b, 1, ("aten::copy_", 150.0, 40.0), dims, types);
    kernel(&mut b, 1, 151.0, ("Memcpy DtoH (Device -> Pageable)", 2700.0), 1);
    let [parity, default] = reports(&b, None);
    let times = |report: &Report| report.rows.unified.rows.iter().map(|r| r.kernel_us.sum).collect::<Vec<_>>();
    assert_eq!(times(&parity), [2775.0]);
    assert_eq!(times(&default), [2700.0, 75.0]);
    let [over_link, on_device] = &default.rows.unified.rows[..] else { panic!("two rows") };
    let model = over_link.model.as_ref().unwrap();
    assert!(model.link_bytes.is_some() && model.data_moved_mb.is_none(), "{model:?}");
    // 134 MB read and written in 75 us of 4.8 TB/s.
    assert!((on_device.efficiency_percent().unwrap() - 74.6).abs() < 0.1, "{on_device:?}");
}

#[test]
fn copies_over_any_link_have_no_traffic_of_device_memory() {
    for (name, link) in
        [("CopyHostToDevice", "host"), ("Memcpy PtoP (Device -> Device)", "peer"), ("CopyDeviceToDevice", "")]
    {
        let mut b = TraceBuilder::new();
        op(&mut b, 1, ("aten::copy_", 100.0, 20.0), "[[4096, 4096], [4096, 4096]]", r#"["float", "float"]"#);
        kernel(&mut b, 1, 101.0, (name, 150.0), 1);
        let [_, default] = reports(&b, None);
        let row = rows(&default, "aten::copy_")[0];
        let model = row.model.as_ref().unwrap();
        let shown = model.params.iter().find(|(key, _)| key == "link").map(|(_, value)| value.to_string());
        assert_eq!(shown.unwrap_or_default().trim_matches('\''), link, "{name}");
        assert_eq!(row.efficiency_percent().is_none(), !link.is_empty(), "{name}");
    }
}

/// A function of the program on one thread; its backward work on another, with a sum beside it.
fn function_with_backward(b: &mut TraceBuilder, function: &str, dims: &str, types: &str, concrete: &str) {
    b.cpu_op(function, 100.0, 50.0)
        .arg("Input Dims", dims)
        .arg("Input type", types)
        .arg("Concrete Inputs", concrete)
        .arg("Sequence number", 5);
    kernel(b, 1, 101.0, ("forward_kernel", 400.0), 8);
    let inside = format!("{function}Backward");
    b.cpu_op(&format!("autograd::engine::evaluate_function: {inside}"), 200.0, 90.0).on(1, 2).arg("Sequence number", 5);
    b.cpu_op(&inside, 201.0, 40.0).on(1, 2).arg("Sequence number", 5);
    kernel(b, 2, 202.0, ("backward_kernel", 1000.0), 8);
    op(b, 2, ("aten::sum", 250.0, 30.0), "[[4, 2048, 8512], []]", r#"["float", "ScalarList"]"#);
    kernel(b, 2, 251.0, ("reduce_kernel", 300.0), 8);
}

#[test]
fn backward_rows_have_the_time_of_their_own_kernels() {
    let mut b = TraceBuilder::new();
    let dims = "[[4, 2048, 8512], [4352, 4], [4352], [64], [64], [64], [], [], [], [], [], [], [], [], [], [], []]";
    let half = "\"c10::BFloat16\"";
    let types = format!(
        r#"[{half}, {half}, {half}, "float", "float", "float", "Scalar", "", "", "", "", "", "", "", "", "Scalar", "Scalar"]"#
    );
    let concrete = r#"["", "", "", "", "", "", "256", "", "", "", "", "", "", "", "", "64", "1"]"#;
    function_with_backward(&mut b, "MambaSplitConv1dScanCombinedFn", dims, &types, concrete);
    let [parity, default] = reports(&b, None);
    let time = |report: &Report| {
        let row = rows(report, "MambaSplitConv1dScanCombinedFnBackward")[0];
        assert!(row.model.as_ref().unwrap().gflops.is_some());
        row.kernel_us.sum
    };
    assert_eq!((time(&parity), time(&default)), (1300.0, 1000.0));
    let all: f64 = default.rows.unified.rows.iter().map(|r| r.kernel_us.sum).sum();
    assert!((all - 1700.0).abs() < 1e-9, "every kernel once: {all}");
}

#[test]
fn the_user_names_the_category_of_backward_work() {
    let mut b = TraceBuilder::new();
    function_with_backward(&mut b, "MyAct", "[[4096, 4096]]", r#"["float"]"#, r#"[""]"#);
    let file = "[op.MyAct]\ncategory = \"act\"\nbwd_category = \"act_bwd\"\n[op.\"aten::sum\"]\ncategory = \"mine\"\n";
    let [_, default] = reports(&b, Some(Extension::parse(file, "my.toml").unwrap()));
    for (name, category) in [("MyActBackward", "act_bwd"), ("MyAct", "act"), ("aten::sum", "mine")] {
        let found = default.rows.unified.rows.iter().find(|r| &*r.identity.name == name).unwrap();
        assert_eq!(&*found.identity.category, category, "{name}");
    }
    let table = default.table("ops_summary_by_category").unwrap();
    let categories: Vec<String> = table.column("op category").unwrap().texts().into_iter().map(Into::into).collect();
    assert_eq!(categories, ["act_bwd", "act", "mine"]);
}

#[test]
fn what_a_mask_picks_is_told_by_the_launch() {
    // aten::index(x, mask) > aten::nonzero
    let mut b = TraceBuilder::new();
    op(&mut b, 1, ("aten::index", 100.0, 60.0), "[[1000000, 256], []]", r#"["c10::BFloat16", ""]"#);
    op(&mut b, 1, ("aten::nonzero", 105.0, 20.0), "[[1000000]]", r#"["bool"]"#);
    kernel(&mut b, 1, 106.0, ("DeviceSelectSweepKernel", 4.0), 8);
    kernel(&mut b, 1, 140.0, (GATHER, 40.0), 4000);
    let [_, default] = reports(&b, None);
    let row = rows(&default, "aten::index->")[0];
    let bytes = 4000.0 * (2.0 * 512.0 + 8.0);
    let model = row.model.as_ref().unwrap();
    assert!((model.data_moved_mb.unwrap() * 1_048_576.0 - bytes).abs() < 1e-3, "{model:?}");
    assert!(row.has_perf_model && row.efficiency_percent().is_some());
    assert_eq!(rows(&default, "aten::nonzero").len(), 1);
}

//! What each option and each correction changes, on traces made by hand.

use jarvis_perf::extension::Extension;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Cell, Report, ReportError, ReportOptions, Table, build_report};
use jarvis_trace::{Fidelity, TraceBuilder};

fn texts(table: &Table, header: &str) -> Vec<String> {
    let column = table.column(header).unwrap_or_else(|| panic!("{} has no column {header}", table.name));
    column.texts().into_iter().map(Into::into).collect()
}

fn cells(report: &Report, sheet: &str, header: &str) -> Vec<String> {
    texts(&report.table(sheet).unwrap_or_else(|| panic!("no sheet {sheet}")), header)
}

fn sheets(report: &Report) -> Vec<String> {
    report.tables().into_iter().map(|t| t.name).collect()
}

fn both(b: &TraceBuilder, options: &ReportOptions) -> [Report; 2] {
    let trace = b.build();
    [Fidelity::Reference, Fidelity::Correct]
        .map(|fidelity| build_report(&trace, &ReportOptions { fidelity, ..options.clone() }).unwrap())
}

/// An operation with the sizes of a product of bf16 matrices, a launch and a kernel.
struct Maker {
    b: TraceBuilder,
    next: i64,
}

impl Maker {
    fn new() -> Self {
        Self { b: TraceBuilder::new(), next: 1 }
    }

    fn op(&mut self, name: &str, ts: f64, dur: f64) -> &mut Self {
        self.b
            .cpu_op(name, ts, dur)
            .arg("Input Dims", "[[128, 256], [256, 512]]")
            .arg("Input type", "[\"c10::BFloat16\", \"c10::BFloat16\"]")
            .arg("Input Strides", "[[256, 1], [512, 1]]")
            .arg("Concrete Inputs", "[\"\", \"\"]");
        self
    }

    /// A launch at `ts` of a kernel that runs at `at` for `dur` on a stream.
    fn kernel(&mut self, ts: f64, name: &str, at: f64, dur: f64, stream: i64) -> &mut Self {
        self.b.launch("cudaLaunchKernel", ts, 1.0, self.next);
        self.b.gpu("kernel", name, at, dur, self.next, stream);
        self.next += 1;
        self
    }
}

#[test]
fn nothing_to_report_is_an_error_with_advice() {
    let mut b = TraceBuilder::new();
    let error = build_report(&b.build(), &ReportOptions::default()).unwrap_err();
    assert_eq!(error, ReportError::NoEvents);
    b.event('X', "v8", "parse", 0.0, 1.0);
    let error = build_report(&b.build(), &ReportOptions::default()).unwrap_err();
    assert_eq!(error, ReportError::Foreign { count: 1 });
    for (phase, category, told) in [
        ('X', "Operator", ReportError::Old { count: 1 }),
        ('X', "Kernel", ReportError::Old { count: 1 }),
        ('i', "cpu_instant_event", ReportError::MemoryAlone { count: 1 }),
    ] {
        let mut b = TraceBuilder::new();
        b.event(phase, category, "[memory]", 0.0, 1.0);
        let error = build_report(&b.build(), &ReportOptions::default()).unwrap_err();
        assert!(!error.to_string().contains("not of the PyTorch profiler"), "{error}");
        assert_eq!(error, told);
    }
    b.cpu_op("aten::mm", 0.0, 10.0);
    let error = build_report(&b.build(), &ReportOptions::default()).unwrap_err();
    assert_eq!(error, ReportError::NoGpuEvents);
    assert!(error.to_string().contains("no GPU events") && error.help().contains("ProfilerActivity.CUDA"));

    // The calls are there, and of what they launched nothing.
    b.launch("cudaLaunchKernel", 1.0, 1.0, 7);
    let error = build_report(&b.build(), &ReportOptions::default()).unwrap_err();
    assert_eq!(error, ReportError::GpuNotRecorded { launches: 1 });
    assert!(error.is_host_alone() && error.help().contains("one profiler at a time"), "{error}");

    b.event('X', "kernel", "lost", 20.0, 5.0).arg("correlation", 99);
    let error = build_report(&b.build(), &ReportOptions::default()).unwrap_err();
    assert_eq!(error, ReportError::AllUnlinked { count: 1, unread: false });
    assert!(error.help().contains("--include-unlinked") && error.help().contains("warm-up"));

    // The launches are there, but not as calls that are read: no warm-up would bring them.
    let mut other = TraceBuilder::new();
    other.event('X', "xpu_runtime", "urEnqueueKernelLaunch", 0.0, 2.0).arg("correlation", 99);
    other.event('X', "kernel", "k", 20.0, 5.0).arg("correlation", 99);
    let error = build_report(&other.build(), &ReportOptions::default()).unwrap_err();
    assert_eq!(error, ReportError::AllUnlinked { count: 1, unread: true });
    assert!(!error.help().contains("warm-up") && !error.to_string().contains("recorded"), "{error}");

    let options = ReportOptions { include_unlinked: true, ..ReportOptions::default() };
    let report = build_report(&b.build(), &options).unwrap();
    assert_eq!(cells(&report, "gpu_timeline", "time ms")[0], "0.005");
    assert_eq!(report.rows.unlinked, (1, 5.0));
}

#[test]
fn copies_over_the_link_are_rows_of_their_own() {
    let mut m = Maker::new();
    for (i, kernel) in
        ["Memcpy HtoD (Pageable -> Device)", "copy_kernel", "Memcpy HtoD (Pageable -> Device)"].into_iter().enumerate()
    {
        let at = 100.0 * i as f64;
        let (sizes, types) = ("[[4096, 4096], [4096, 4096]]", "[\"float\", \"float\"]");
        m.b.cpu_op("aten::copy_", at, 50.0)
            .arg("Input Dims", sizes)
            .arg("Input type", types)
            .arg("Input Strides", "[[4096, 1], [4096, 1]]");
        m.kernel(at + 1.0, kernel, 1000.0 + at, if i == 1 { 20.0 } else { 60.0 }, 7);
    }
    let [reference, correct] = both(&m.b, &ReportOptions::default());
    for (sheet, count) in [("unified_perf_summary", "operation_count"), ("UnaryElementwise", "name_count")] {
        assert_eq!(cells(&reference, sheet, count), ["3"], "{sheet}");
        assert_eq!(cells(&correct, sheet, count), ["2", "1"], "{sheet}");
        let rates = cells(&correct, sheet, "TB/s_mean");
        assert!(rates[0].is_empty() && !rates[1].is_empty(), "{sheet}: {rates:?}");
    }
}

#[test]
fn idle_time_splits_by_length() {
    let mut m = Maker::new();
    m.op("aten::mm", 0.0, 50.0).kernel(1.0, "a", 100.0, 10.0, 7).kernel(3.0, "b", 112.0, 8.0, 7);
    m.kernel(5.0, "c", 220.0, 10.0, 7);
    let options = ReportOptions { micro_idle_us: Some(5.0), ..ReportOptions::default() };
    let [report, _] = both(&m.b, &options);
    let kinds = cells(&report, "gpu_timeline", "type");
    let at = kinds.iter().position(|k| k == "micro_idle_time").unwrap();
    assert_eq!(kinds[at + 1], "macro_idle_time");
    assert_eq!(cells(&report, "gpu_timeline", "time ms")[at..=at + 1], ["0.002", "0.1"]);
}

#[test]
fn collectives_by_what_they_exchange() {
    let mut m = Maker::new();
    m.op("c10d::allreduce_", 0.0, 50.0);
    for (i, dur) in [8656.708, 8932.626, 9208.906, 5.0].into_iter().enumerate() {
        let name = "ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)";
        let ts = 1e5 * i as f64;
        m.b.launch("cudaLaunchKernel", 1.0 + i as f64, 1.0, m.next);
        let kernel = m.b.gpu("kernel", name, ts, dur, m.next, 4);
        m.next += 1;
        if i < 3 {
            kernel
                .arg("Process Group Name", "0")
                .arg("Process Group Ranks", "(0, 1)")
                .arg("Collective name", "allreduce")
                .arg("Group size", 8)
                .arg("dtype", "BFloat16")
                .arg("In msg nelems", 8_816_192)
                .arg("Out msg nelems", 8_816_192)
                .arg("In split size", "()")
                .arg("Out split size", "()");
        }
    }
    let [parity, default] = both(&m.b, &ReportOptions::default());
    assert_eq!(cells(&parity, "coll_analysis", "In msg size (MB)_first"), ["16.8155517578125"]);
    assert_eq!(cells(&parity, "coll_analysis", "operation_count"), ["3"]);
    assert_eq!(cells(&parity, "coll_analysis", "Group size"), ["8.0"], "one kernel lacks it");
    assert_eq!(parity.rows.collectives.rows[0].collective(), Some("allreduce"));
    // By default nothing vanishes.
    assert_eq!(cells(&default, "coll_analysis", "Collective name"), ["allreduce", ""]);
    assert_eq!(cells(&default, "coll_analysis", "Process Group Name"), ["0", "Unknown_Group"]);
    // Communication is no operation's own time.
    assert!(parity.table("ops_summary").is_none());
    assert_eq!(cells(&parity, "kernel_summary", "Parent cpu_op"), ["c10d::allreduce_"]);
    let off = ReportOptions { coll_analysis: false, ..ReportOptions::default() };
    assert!(both(&m.b, &off)[0].table("coll_analysis").is_none());
}

/// A call of all ranks and a kernel for each type, one after the other.
fn exchanges(types: &[&str]) -> Maker {
    let mut m = Maker::new();
    m.op("c10d::allreduce_", 0.0, 50.0);
    for (i, dtype) in types.iter().enumerate() {
        m.b.launch("cudaLaunchKernel", 1.0 + i as f64, 1.0, m.next);
        m.b.gpu("kernel", "ncclDevKernel_AllReduce", 1e3 * (i as f64 + 1.0), 90.0 - i as f64, m.next, 4)
            .arg("Process Group Name", "0")
            .arg("Process Group Ranks", "(0, 1)")
            .arg("Collective name", "allreduce")
            .arg("Group size", 2)
            .arg("dtype", *dtype)
            .arg("In msg nelems", 1 << 20)
            .arg("Out msg nelems", 1 << 21)
            .arg("In split size", "()")
            .arg("Out split size", "()");
        m.next += 1;
    }
    m
}

#[test]
fn collectives_of_any_type_have_a_size() {
    let m = exchanges(&["Float", "Float8_e4m3fn", "UInt32", "Mystery"]);
    let [parity, default] = both(&m.b, &ReportOptions::default());
    let (sent, received) = ("In msg size (MB)_first", "Out msg size (MB)_first");
    assert_eq!(cells(&default, "coll_analysis", sent), ["4.0", "1.0", "4.0", ""]);
    assert_eq!(cells(&default, "coll_analysis", received), ["8.0", "2.0", "8.0", ""]);
    assert_eq!(cells(&parity, "coll_analysis", sent), ["4.0", "", "", ""]);
}

#[test]
fn collectives_are_those_of_the_recorded_rank() {
    let ranks = |m: &Maker| both(&m.b, &ReportOptions::default()).map(|r| cells(&r, "coll_analysis", "rank").join(" "));
    let mut m = exchanges(&["Float"]);
    assert_eq!(ranks(&m), ["0", "0"]);
    // The place within a group of some ranks tells nothing.
    let call = |m: &mut Maker, group: &str, rank: i64| {
        m.b.cpu_op("record_param_comms", 60.0, 5.0).arg("Process Group Description", group).arg("Rank", rank);
    };
    call(&mut m, "tp", 1);
    assert_eq!(ranks(&m), ["0", "0"]);
    call(&mut m, "default_pg", 5);
    assert_eq!(ranks(&m), ["0", "5"]);
    m.b.fact("distributedInfo", r#"{"backend": "nccl", "rank": 2, "world_size": 4}"#);
    assert_eq!(ranks(&m), ["0", "2"]);
}

#[test]
fn recomputed_work_is_told_apart() {
    // thread 1  |-- forward 0..100 --|        |-- torch/utils/checkpoint.py(1): recompute_fn 200..300 --|
    //             |aten::mm|                     |aten::mm|
    let mut m = Maker::new();
    m.b.python("train.py(1): forward", 0.0, 100.0);
    m.op("aten::mm", 10.0, 20.0).kernel(12.0, "gemm", 50.0, 10.0, 7);
    m.b.python("torch/utils/checkpoint.py(1): recompute_fn", 200.0, 100.0);
    m.op("aten::mm", 210.0, 20.0).kernel(212.0, "gemm", 250.0, 14.0, 7);
    let options = ReportOptions { detect_recompute: true, ..ReportOptions::default() };
    let [parity, default] = both(&m.b, &options);
    for report in [&parity, &default] {
        for sheet in ["ops_summary", "ops_summary_by_category", "ops_unique_args", "unified_perf_summary", "GEMM"] {
            assert_eq!(cells(report, sheet, "is_recompute"), ["True", "False"], "{sheet}: most time first");
        }
    }
    let parts = |report: &Report| {
        let mut parts = cells(report, "gpu_timeline", "is_recompute");
        parts.dedup();
        parts
    };
    assert_eq!(parts(&parity), ["False", "True"]);
    assert_eq!(parts(&default), ["False", "True", "all"]);
    assert!(both(&m.b, &ReportOptions::default())[0].table("GEMM").unwrap().column("is_recompute").is_none());
}

#[test]
fn calls_of_different_cost_have_rows_of_their_own() {
    let mut m = Maker::new();
    let calls = [("[64, 1024]", "c10::BFloat16"), ("[1, 1024]", "c10::BFloat16"), ("[64, 1024]", "c10::BFloat16")];
    for (name, at) in [("aten::copy_", 0.0), ("aten::pow", 1000.0)] {
        for (i, (second, dtype)) in calls.into_iter().enumerate() {
            let ts = at + 100.0 * i as f64;
            m.b.cpu_op(name, ts, 20.0)
                .arg("Input Dims", format!("[[64, 1024], {second}]"))
                .arg("Input type", format!(r#"["c10::BFloat16", "{dtype}"]"#))
                .arg("Input Strides", "[[1024, 1], [1024, 1]]")
                .arg("Concrete Inputs", r#"["", ""]"#);
            m.kernel(ts + 1.0, "k", ts + 5.0, 10.0, 7);
        }
    }
    let [parity, default] = both(&m.b, &ReportOptions::default());
    let sheet = |report: &Report, column: &str| cells(report, "UnaryElementwise", column);
    assert_eq!(sheet(&parity, "name_count"), ["3", "3"], "as the reference has them");
    assert_eq!(sheet(&default, "name_count"), ["2", "2", "1", "1"]);
    let mb = |elements: f64| (2.0 * elements / 1_048_576.0).to_string();
    let expected = [2.0 * 65536.0, 3.0 * 65536.0, 66560.0, 2.0 * 65536.0 + 1024.0].map(mb);
    assert_eq!(sheet(&default, "Data Moved (MB)_first"), expected);
    assert_eq!(sheet(&default, "param: source_shape"), ["", "", "(1, 1024)", ""]);
    assert_eq!(sheet(&default, "param: operand_shape"), ["", "", "", "(1, 1024)"]);
    assert!(parity.table("UnaryElementwise").unwrap().column("param: source_shape").is_none());
}

#[test]
fn a_call_that_lost_its_kernel_does_not_decide_how_fast_the_others_are() {
    let mut m = Maker::new();
    m.op("aten::mm", 0.0, 20.0).kernel(1.0, "gemm", 5.0, 10.0, 7);
    m.op("aten::mm", 30.0, 20.0).kernel(31.0, "Memset (Device)", 35.0, 0.01, 7);
    let options = ReportOptions { platform: Some(Platform::find("H200").unwrap().clone()), ..ReportOptions::default() };
    let [_, default] = both(&m.b, &options);
    let row = &default.rows.unified.rows[0];
    let (best_us, _) = row.model.as_ref().unwrap().roofline.unwrap();
    let expected = 100.0 * 2.0 * best_us / 10.01;
    assert!((row.efficiency_percent().unwrap() - expected).abs() < 1e-9);
    assert!(row.pct_roofline.mean().unwrap() > 100.0 * expected);
}

#[test]
fn rows_of_different_kernels_are_marked() {
    let mut m = Maker::new();
    m.op("aten::mm", 0.0, 20.0).kernel(1.0, "gemm_a", 5.0, 10.0, 7);
    m.op("aten::mm", 30.0, 20.0).kernel(31.0, "gemm_b", 35.0, 10.0, 7);
    m.op("my::op", 60.0, 20.0).kernel(61.0, "k", 65.0, 5.0, 7);
    let [parity, default] = both(&m.b, &ReportOptions::default());
    for (sheet, marks) in
        [("ops_unique_args", &["True", "False"][..]), ("unified_perf_summary", &["True", "False"]), ("GEMM", &["True"])]
    {
        assert_eq!(cells(&default, sheet, "mixed_kernels"), marks, "{sheet}");
        assert!(parity.table(sheet).unwrap().column("mixed_kernels").is_none(), "{sheet}");
    }
    let mut alike = Maker::new();
    alike.op("aten::mm", 0.0, 20.0).kernel(1.0, "gemm", 5.0, 10.0, 7);
    let [_, default] = both(&alike.b, &ReportOptions::default());
    assert!(default.table("GEMM").unwrap().column("mixed_kernels").is_none(), "only where there is any");
}

#[test]
fn backward_operations_stand_on_the_backward_sheets_of_overlaps() {
    let mut m = Maker::new();
    let (image, weight) = ("[8, 16, 32, 32]", "[16, 16, 3, 3]");
    let numbers = r#""[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1""#;
    m.b.cpu_op("aten::convolution", 0.0, 20.0)
        .arg("Input Dims", format!("[{image}, {weight}, [], [], [], [], [], [], []]"))
        .arg(
            "Input type",
            r#"["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"]"#,
        )
        .arg("Concrete Inputs", format!(r#"["", "", "", {numbers}]"#));
    m.kernel(1.0, "conv", 100.0, 50.0, 7);
    m.b.cpu_op("aten::convolution_backward", 30.0, 20.0)
        .arg("Input Dims", format!("[{image}, {image}, {weight}, [], [], [], [], [], [], [], []]"))
        .arg("Input type", r#"["float", "float", "float", "ScalarList", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar", "ScalarList"]"#)
        .arg("Concrete Inputs", format!(r#"["", "", "", "[0]", {numbers}, "[True, True, False]"]"#));
    m.kernel(31.0, "conv_back", 200.0, 50.0, 7);
    let options = ReportOptions { include_overlap: true, ..ReportOptions::default() };
    let [parity, default] = both(&m.b, &options);
    for sheet in ["CONV_fwd", "CONV_fwd_kl_overlap"] {
        assert_eq!(cells(&default, sheet, "name"), ["aten::convolution"], "{sheet}");
    }
    for sheet in ["CONV_bwd", "CONV_bwd_kl_overlap"] {
        assert_eq!(cells(&default, sheet, "name"), ["aten::convolution_backward"], "{sheet}");
    }
    assert_eq!(cells(&parity, "CONV_fwd_kl_overlap", "name").len(), 2, "as the reference has them");
    assert!(parity.table("CONV_bwd_kl_overlap").is_none());
}

#[test]
fn overlapping_kernels_are_named() {
    // stream 7  |-- gemm 100..200 --|      |-- gemm 300..400 --|
    // stream 8            |-- copy 150..250 --|
    let mut m = Maker::new();
    m.op("aten::mm", 0.0, 20.0).kernel(1.0, "gemm", 100.0, 100.0, 7);
    m.op("my::copy", 30.0, 20.0).kernel(31.0, "copy", 150.0, 100.0, 8);
    m.op("aten::mm", 60.0, 20.0).kernel(61.0, "gemm", 300.0, 100.0, 7);
    let options = ReportOptions { include_overlap: true, ..ReportOptions::default() };
    for report in both(&m.b, &options) {
        let sheet = "ops_unique_args_kl_overlap";
        assert_eq!(cells(&report, sheet, "name"), ["aten::mm", "my::copy", "aten::mm"], "by time and UID");
        assert_eq!(cells(&report, sheet, "overlapping_kernel_names"), ["['copy']", "['gemm']", ""]);
        let sheet = "unified_perf_summary_kl_overlap";
        assert_eq!(cells(&report, sheet, "name"), ["aten::mm", "aten::mm", "my::copy"], "an operation stays together");
        assert_eq!(cells(&report, sheet, "overlapping_kernel_names"), ["['copy']", "", "['gemm']"]);
        assert_eq!(cells(&report, sheet, "overlap_pct_mean"), ["0.5", "", "0.5"]);
        assert_eq!(cells(&report, sheet, "overlap_pct_std"), ["0.0", "", "0.0"]);
        let names = sheets(&report);
        let at = names.iter().position(|n| *n == "GEMM").unwrap();
        assert_eq!(names[at + 1], "GEMM_kl_overlap");
        let details = cells(&report, "GEMM_kl_overlap", "overlapping_kernels_details__summarize_kernel_stats");
        assert!(
            details[0].starts_with("[{'name': 'copy', 'stream': 8, 'overlap_pct': 0.5, 'count': 1,"),
            "{details:?}"
        );
    }
}

#[test]
fn call_stacks_lead_to_the_program() {
    let mut m = Maker::new();
    m.b.python("train.py(10): step", 0.0, 100.0);
    m.b.python("nn.Module: Linear_3", 5.0, 90.0);
    m.b.python("torch/nn/modules/linear.py(124): forward", 6.0, 80.0);
    m.op("aten::mm", 10.0, 20.0).kernel(12.0, "gemm", 50.0, 10.0, 7);
    let options = ReportOptions { call_stack: true, ..ReportOptions::default() };
    for report in both(&m.b, &options) {
        assert_eq!(cells(&report, "unified_perf_summary", "entry_point"), ["torch/nn/modules/linear.py(124): forward"]);
        assert_eq!(
            cells(&report, "unified_perf_summary", "call_stack_full"),
            ["['nn.Module: Linear', 'torch/nn/modules/linear.py(124): forward', 'aten::mm', 'gemm']"]
        );
    }
}

#[test]
fn calls_part_by_number_of_kernels() {
    let mut m = Maker::new();
    m.op("aten::mm", 0.0, 20.0).kernel(1.0, "gemm", 100.0, 10.0, 7);
    m.op("aten::mm", 30.0, 20.0).kernel(31.0, "gemm", 200.0, 10.0, 7).kernel(33.0, "fix", 215.0, 5.0, 7);
    let options = ReportOptions { group_by_num_kernels: true, first_occurrence: true, ..ReportOptions::default() };
    let [parity, default] = both(&m.b, &options);
    for report in [&parity, &default] {
        assert_eq!(cells(report, "ops_unique_args", "num_kernels"), ["2", "1"]);
        assert_eq!(cells(report, "ops_unique_args", "first_occurrence_time"), ["30.0", "0.0"]);
        assert_eq!(cells(report, "GEMM", "num_kernels"), ["2", "1"]);
    }
    assert_eq!(cells(&parity, "unified_perf_summary", "operation_count"), ["2"], "the reference forgets to");
    assert_eq!(cells(&default, "unified_perf_summary", "num_kernels"), ["2", "1"]);
}

#[test]
fn caps_hold_by_default() {
    let mut m = Maker::new();
    for (i, name) in ["aten::mm", "my::a", "my::b"].into_iter().enumerate() {
        let ts = 30.0 * i as f64;
        m.op(name, ts, 20.0).kernel(ts + 1.0, "k", 1000.0 + 100.0 * i as f64, 10.0 + i as f64, 7);
    }
    m.op("aten::mm", 200.0, 20.0).kernel(201.0, "k2", 2000.0, 1.0, 7);
    let options = ReportOptions {
        topk_ops: Some(1),
        topk_roofline_ops: Some(0),
        topk_short_kernels: Some(1),
        ..ReportOptions::default()
    };
    let [parity, default] = both(&m.b, &options);
    assert_eq!(cells(&default, "ops_summary", "name"), ["my::b"]);
    assert_eq!(cells(&default, "unified_perf_summary", "name"), ["my::b"]);
    assert_eq!(default.rows.unified.rows.len(), 3, "later stages see all rows");
    assert!(default.table("GEMM").is_none() && parity.table("GEMM").is_some());
    assert_eq!(cells(&parity, "ops_summary", "name").len(), 3);
    assert_eq!(cells(&parity, "short_kernels_summary", "Kernel name"), ["k2"]);
}

#[test]
fn launches_through_the_driver_belong_to_their_operation() {
    let mut m = Maker::new();
    m.op("my::op", 0.0, 20.0);
    m.b.flow('s', "ac2g", 1.0, 1);
    m.b.event('X', "cuda_driver", "cuLaunchKernel", 1.0, 1.0).arg("correlation", 1);
    m.b.kernel("k", 100.0, 10.0, 1);
    let [parity, default] = both(&m.b, &ReportOptions::default());
    assert_eq!(cells(&parity, "unified_perf_summary", "name"), ["my::op->k (Synthetic Op)"]);
    assert_eq!(cells(&parity, "unified_perf_summary", "ex_UID"), ["5"], "one after all events");
    assert_eq!(cells(&default, "unified_perf_summary", "name"), ["my::op"]);
    assert_eq!(cells(&default, "unified_perf_summary", "model_source"), ["generic"]);
    assert!(parity.table("unified_perf_summary").unwrap().column("model_source").is_none());
}

// thread 1   |-- aten::_scaled_dot_product_flash_attention --|
// thread 2        |-- autograd::engine::evaluate_function: FlashBackward0 --|
//                    |-- FlashBackward0 -----------------------------|
//                       |-- aten::_flash_attention_backward --|
fn attention() -> Maker {
    let mut m = Maker::new();
    let tensor = "[2, 8, 1024, 64]";
    let forward = "aten::_scaled_dot_product_flash_attention";
    m.b.cpu_op(forward, 0.0, 50.0)
        .arg("Input Dims", format!("[{tensor}, {tensor}, {tensor}, [], []]"))
        .arg("Input type", "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"Scalar\", \"Scalar\"]")
        .arg("Concrete Inputs", "[\"\", \"\", \"\", \"0.\", \"False\"]")
        .arg("Sequence number", 5);
    m.kernel(1.0, "flash_fwd", 100.0, 20.0, 7);
    let wrapper = "autograd::engine::evaluate_function: FlashBackward0";
    m.b.cpu_op(wrapper, 200.0, 60.0).on(1, 2).arg("Sequence number", 5);
    m.b.cpu_op("FlashBackward0", 201.0, 50.0).on(1, 2).arg("Sequence number", 5);
    m.b.cpu_op("aten::_flash_attention_backward", 202.0, 40.0)
        .on(1, 2)
        .arg("Input Dims", format!("[{0}, {0}, {0}, {0}, {0}, [2, 8, 1024]]", "[2, 1024, 8, 64]"))
        .arg("Input type", "[\"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"c10::BFloat16\", \"float\"]")
        .arg("Concrete Inputs", "[\"\", \"\", \"\", \"\", \"\", \"\"]");
    m.b.flow('s', "ac2g", 203.0, m.next).on(1, 2);
    m.b.runtime("cudaLaunchKernel", 203.0, 1.0).on(1, 2).arg("correlation", m.next);
    m.b.gpu("kernel", "flash_bwd", 300.0, 50.0, m.next, 7);
    m
}

#[test]
fn backward_work_is_known_by_its_forward_operation() {
    let [parity, default] = both(&attention().b, &ReportOptions::default());
    assert_eq!(cells(&parity, "unified_perf_summary", "name")[0], "FlashBackward0");
    assert_eq!(cells(&parity, "unified_perf_summary", "op category")[0], "SDPA_bwd");
    assert_eq!(cells(&parity, "unified_perf_summary", "has_perf_model"), ["True", "True"]);
    // Five products of 2·8·1024²·64 multiply-adds, twice.
    let flops = 5.0 * 2.0 * 2.0 * 8.0 * 1024.0 * 1024.0 * 64.0 / 1e9;
    assert_eq!(cells(&parity, "unified_perf_summary", "GFLOPS")[0], flops.to_string());
    assert_eq!(cells(&parity, "SDPA_bwd", "name"), ["aten::_scaled_dot_product_flash_attention"]);
    assert_eq!(cells(&parity, "SDPA_bwd", "Kernel Time (µs)_sum"), ["50.0"]);
    // By default the backward operation has a model of its own, and stands on the backward sheet once.
    assert_eq!(cells(&default, "unified_perf_summary", "name")[0], "aten::_flash_attention_backward");
    assert_eq!(cells(&default, "SDPA_bwd", "name"), ["aten::_flash_attention_backward"]);
    assert_eq!(cells(&default, "SDPA_fwd", "name"), ["aten::_scaled_dot_product_flash_attention"]);
}

#[test]
fn parameters_of_backward_operations_stand_on_their_sheet_alone() {
    let mut m = Maker::new();
    let steps = r#""[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1""#;
    let (x, w, y) = ("[8, 64, 56, 56]", "[128, 64, 3, 3]", "[8, 128, 56, 56]");
    for (at, name, dims, concrete) in [
        (0.0, "aten::convolution", format!("[{x}, {w}, []]"), format!(r#"["", "", "", {steps}]"#)),
        (
            50.0,
            "aten::convolution_backward",
            format!("[{y}, {x}, {w}]"),
            format!(r#"["", "", "", "", {steps}, "[False, True, False]"]"#),
        ),
    ] {
        m.b.cpu_op(name, at, 20.0)
            .arg("Input Dims", dims)
            .arg("Input type", r#"["float", "float", "float"]"#)
            .arg("Concrete Inputs", concrete);
        m.kernel(at + 1.0, "conv", 100.0 + at, 20.0, 7);
    }
    let [_, default] = both(&m.b, &ReportOptions::default());
    assert_eq!(cells(&default, "CONV_bwd", "param: output_mask"), ["[False, True, False]"]);
    let forward = default.table("CONV_fwd").unwrap();
    assert!(forward.column("param: output_mask").is_none() && forward.column("param: stride").is_some());
}

#[test]
fn what_has_no_formula_keeps_its_row_by_default() {
    let mut m = Maker::new();
    m.op("aten::instance_norm_backward", 0.0, 20.0).kernel(1.0, "k", 100.0, 10.0, 7);
    m.op("aten::mm", 30.0, 20.0).kernel(31.0, "gemm", 200.0, 10.0, 7);
    let [parity, default] = both(&m.b, &ReportOptions::default());
    assert_eq!(cells(&parity, "unified_perf_summary", "name"), ["aten::mm"]);
    assert_eq!(cells(&default, "unified_perf_summary", "name"), ["aten::instance_norm_backward", "aten::mm"]);
    assert_eq!(default.rows.model_failures.len(), 1);
    assert_eq!(default.rows.model_failures[0].calls, 1);
}

#[test]
fn models_of_the_user_come_first() {
    let file = "[op.\"my::op\"]\ncategory = \"Mine\"\nunit = \"vector\"\nprecision = \"T[0]\"\nparams = { n = \"numel(D[0])\" }\nflops = \"3 * n\"\nbytes = \"2 * n\"\n";
    let extension = Extension::parse(file, "my.toml").unwrap();
    let mut m = Maker::new();
    m.op("my::op", 0.0, 20.0).kernel(1.0, "k", 100.0, 10.0, 7);
    let options = ReportOptions { extension: Some(extension), ..ReportOptions::default() };
    let [parity, default] = both(&m.b, &options);
    for report in [&parity, &default] {
        assert_eq!(cells(report, "unified_perf_summary", "op category"), ["Mine"]);
        assert_eq!(cells(report, "ops_summary", "Categories"), ["['Mine']"]);
        assert_eq!(cells(report, "unified_perf_summary", "GFLOPS"), ["9.8304e-05"]);
        assert_eq!(cells(report, "unified_perf_summary", "perf_params"), ["{'n': 32768}"]);
    }
    assert_eq!(cells(&default, "unified_perf_summary", "model_source"), ["extension"]);
}

#[test]
fn graph_replays_have_rows_by_default() {
    let mut b = TraceBuilder::new();
    b.python("replay", 0.0, 50.0);
    b.runtime("cudaGraphLaunch", 1.0, 5.0).arg("correlation", 1);
    b.kernel("a", 100.0, 3.0, 1);
    b.kernel("b", 110.0, 20.0, 1);
    let [parity, default] = both(&b, &ReportOptions::default());
    let of_kernels = ["gpu_timeline", "kernel_summary", "short_kernel_histogram", "short_kernels_summary"];
    assert_eq!(sheets(&parity), of_kernels);
    assert_eq!(cells(&parity, "kernel_summary", "Parent op category"), ["graph", "graph"]);
    assert_eq!(cells(&parity, "short_kernels_summary", "Kernel name"), ["a"]);
    assert_eq!(
        cells(&default, "unified_perf_summary", "name"),
        ["cudaGraphLaunch->b (Synthetic Op)", "cudaGraphLaunch->a (Synthetic Op)"]
    );
    assert_eq!(cells(&default, "ops_summary", "name"), ["cudaGraphLaunch"]);
}

#[test]
fn no_short_kernel_leaves_the_sheets_empty() {
    let mut m = Maker::new();
    m.op("aten::mm", 0.0, 20.0).kernel(1.0, "gemm", 100.0, 10.0, 7);
    let [report, _] = both(&m.b, &ReportOptions::default());
    let histogram = report.table("short_kernel_histogram").unwrap();
    assert_eq!((histogram.columns.len(), histogram.rows()), (3, 0));
    assert!(report.table("short_kernels_summary").unwrap().columns.is_empty());
    let off = ReportOptions { short_kernel_study: false, kernel_summary: false, ..ReportOptions::default() };
    assert_eq!(
        sheets(&both(&m.b, &off)[0]),
        ["gpu_timeline", "ops_summary_by_category", "ops_summary", "ops_unique_args", "unified_perf_summary", "GEMM"]
    );
}

#[test]
fn rooflines_need_a_platform() {
    let mut m = Maker::new();
    m.op("aten::mm", 0.0, 20.0).kernel(1.0, "gemm", 100.0, 10.0, 7);
    let without = both(&m.b, &ReportOptions::default());
    assert!(without[1].table("GEMM").unwrap().column("Pct Roofline_mean").is_none());
    let platform = Some(Platform::find("H200").unwrap().clone());
    let [report, _] = both(&m.b, &ReportOptions { platform, ..ReportOptions::default() });
    // 2·128·512·256 operations at 990e12 a second against 2·(128·256 + 256·512 + 128·512) bytes at 4.8e12.
    let memory = 2.0 * f64::from(128 * 256 + 256 * 512 + 128 * 512) / 4.8e12 * 1e6;
    let sheet = report.table("GEMM").unwrap();
    let column = sheet.column("Roofline Time (µs)_first").unwrap();
    let Cell::Float(us) = column.cells[0] else { panic!("{column:?}") };
    assert!((us - memory).abs() < 1e-12);
    assert_eq!(cells(&report, "GEMM", "Roofline Bound_first"), ["MEMORY_BOUND"]);
}

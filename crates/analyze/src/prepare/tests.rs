//! The whole preparation on made-up programs.

use std::collections::BTreeSet;

use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{Report, ReportOptions, build_report};
use jarvis_trace::{Trace, TraceBuilder};

use super::*;
use crate::metrics::{Manifest, ManifestCategory, ManifestInputs, Metadata, Scope, Status, TreeEntry};
use crate::prepared::{Baseline, BoundType, ModelInfo};
use crate::program::Direction;
use crate::testing::{Call, Scene};
use crate::thresholds::Threshold;

fn report(trace: &Trace) -> (Report, &'static Platform) {
    let platform = Platform::find("H200").unwrap();
    let options = ReportOptions { call_stack: true, platform: Some(platform.clone()), ..ReportOptions::default() };
    (build_report(trace, &options).unwrap(), platform)
}

fn prepared(b: &TraceBuilder) -> Prepared {
    let trace = b.build();
    let (report, platform) = report(&trace);
    Prepared::of(&trace, &report, platform, &PrepareOptions::default())
}

#[test]
fn shares_have_their_own_denominators() {
    // stream 7  |kernel 60|   gap 40   |kernel 100|
    let mut b = TraceBuilder::new();
    for (i, (name, start, us)) in [("aten::mm", 100.0, 60.0), ("aten::relu", 200.0, 100.0)].into_iter().enumerate() {
        let at = 10.0 * i as f64;
        b.cpu_op(name, at, 8.0).arg("Input Dims", "[[8, 8], [8, 8]]").arg("Input type", r#"["float", "float"]"#);
        b.launch("cudaLaunchKernel", at + 1.0, 2.0, i as i64 + 1);
        b.kernel("k", start, us, i as i64 + 1);
    }
    let p = prepared(&b);
    let u = &p.utilization;
    assert_eq!((u.total_time_ms, u.computation_time_ms, u.idle_time_ms), (0.2, 0.16, 0.04));
    assert!((u.computation_time_percent - 80.0).abs() < 1e-9 && (u.idle_time_percent - 20.0).abs() < 1e-9);
    let mm = p.rows.iter().find(|r| &*r.name == "aten::mm").unwrap();
    assert!((mm.percent_of_compute - 37.5).abs() < 1e-9);
    assert!((mm.percent_of_total - 30.0).abs() < 1e-9);
    assert!((mm.percent_of_category - 100.0).abs() < 1e-9);
    assert_eq!((&*p.categories[0].key, &*p.categories[1].key), ("elementwise", "gemm"), "most time first");
}

#[test]
fn host_time_is_counted_once() {
    // host      |--------- mine::layer 100 ---------|
    // stream 7        |a 10|  |b 20|  |a 10|             a row for each kernel name
    let mut b = TraceBuilder::new();
    b.cpu_op("mine::layer", 0.0, 100.0);
    b.cpu_op("aten::relu", 80.0, 10.0).arg("Input Dims", "[[8, 8]]").arg("Input type", r#"["float"]"#);
    b.launch("cudaLaunchKernel", 82.0, 2.0, 4);
    b.kernel("relu", 300.0, 10.0, 4);
    for (i, (name, us)) in [("a", 10.0), ("b", 20.0), ("a", 10.0)].into_iter().enumerate() {
        b.launch("cudaLaunchKernel", 10.0 + 10.0 * i as f64, 2.0, i as i64 + 1);
        b.kernel(name, 200.0 + 30.0 * i as f64, us, i as i64 + 1);
    }
    let p = prepared(&b);
    let own: Vec<_> = p.rows.iter().filter(|r| r.name.contains("mine::layer")).collect();
    assert!(own.iter().map(|r| r.count).sum::<usize>() == 3, "{own:?}");
    let host: f64 = own.iter().map(|r| r.host_ms).sum();
    assert!((host - 0.1).abs() < 1e-9, "{host}");
    let category = p.category(&own[0].category).unwrap();
    assert!((category.time.cpu_duration_ms - 0.1).abs() < 1e-9, "{:?}", category.time);
}

#[test]
fn copies_over_the_link_are_no_compute_time() {
    // stream 7  |copy from the host 9000||copy on the device 60||mm 180|  four times over
    let mut b = TraceBuilder::new();
    let copy = ("aten::copy_", "[[8192, 4096], [8192, 4096]]");
    let steps = [
        (copy, "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 9000.0),
        (copy, "kernel", "bfloat16_copy_kernel_cuda", 60.0),
        (("aten::mm", "[[4096, 4096], [4096, 4096]]"), "kernel", "gemm", 180.0),
    ];
    let mut gpu = 1000.0;
    for i in 0..12 {
        let ((name, dims), category, event, us) = steps[i % 3];
        let (at, number) = (10.0 * i as f64, i as i64 + 1);
        b.cpu_op(name, at, 8.0).arg("Input Dims", dims).arg("Input type", r#"["c10::BFloat16", "c10::BFloat16"]"#);
        b.launch("cudaLaunchKernel", at + 1.0, 2.0, number);
        b.gpu(category, event, gpu, us, number, 7);
        gpu += us;
    }
    let p = prepared(&b);
    let elementwise = p.category("elementwise").unwrap();
    assert!((elementwise.time_ms - 0.24).abs() < 1e-9, "{elementwise:?}");
    assert!(p.categories.iter().map(|c| c.percent_of_compute).sum::<f64>() < 103.0, "{:?}", p.categories);
    assert_eq!(&*p.categories[0].key, "gemm");
    // The two kinds of copy are rows of their own; only the one on the device can be rated by the memory's rate.
    let [host, device] = [true, false].map(|host| {
        p.rows
            .iter()
            .find(|r| &*r.name == "aten::copy_" && r.is_link_copy == host)
            .unwrap_or_else(|| panic!("{:?}", p.rows))
    });
    assert!(host.count == 4 && host.percent_of_compute < 0.1 && host.percent_of_total > 95.0, "{host:?}");
    assert_eq!(host.efficiency.efficiency_percent, None);
    assert!(device.count == 4 && (device.percent_of_compute - 25.0).abs() < 0.1, "{device:?}");
    // 2·8192·4096·2 bytes in 60 µs at 4.8 TB/s.
    assert!((device.efficiency.efficiency_percent.unwrap() - 46.6).abs() < 0.1, "{device:?}");
    let top = &p.top_operations[0];
    assert!(&*top.name == "aten::copy_" && (top.percent_of_compute - 25.0).abs() < 0.1, "{top:?}");
    assert!((top.time_ms - 36.24).abs() < 1e-9 && (top.copy_time_ms - 36.0).abs() < 1e-9, "{top:?}");
}

#[test]
fn what_the_timeline_calls_a_copy_is_no_compute_time() {
    // stream 7  |mm 100||copy 900|  four times over
    let prepared = |kind: &str, copy: &str| {
        let mut b = TraceBuilder::new();
        for i in 0..8_i64 {
            let (at, number) = (10.0 * i as f64, i + 1);
            let gpu = 1000.0 * (1 + i / 2) as f64;
            let name = if i % 2 == 0 { "aten::mm" } else { "aten::copy_" };
            let op = b.cpu_op(name, at, 8.0);
            op.arg("Input Dims", "[[4096, 4096], [4096, 4096]]").arg("Input type", r#"["float", "float"]"#);
            b.launch("cudaLaunchKernel", at + 1.0, 2.0, number);
            if i % 2 == 0 {
                b.gpu("kernel", "gemm", gpu, 100.0, number, 7);
            } else {
                b.gpu(kind, copy, gpu + 100.0, 900.0, number, 7);
            }
        }
        prepared(&b)
    };
    for (kind, copy, crosses) in [
        ("gpu_memcpy", "Memcpy DtoD (Device -> Device)", false),
        ("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", true),
        ("gpu_memcpy", "CopyHostToDevice", true),
        ("kernel", "__amd_rocclr_copyBuffer", false),
        ("kernel", "MEMORY_COPY_DEVICE_TO_HOST", true),
        ("gpu_memcpy", "Memcpy PtoP (Device -> Device)", true),
    ] {
        let p = prepared(kind, copy);
        let shares: f64 = p.categories.iter().map(|c| c.percent_of_compute).sum();
        assert!((shares - 100.0).abs() < 1e-6, "{copy}: {:?}", p.categories);
        let top: Vec<&str> = p.top_operations.iter().map(|t| &*t.name).collect();
        assert_eq!(top, ["aten::copy_", "aten::mm"], "{copy}");
        // Their time stands apart, and what stays on the device is still work that could be spared.
        let row = p.rows.iter().find(|r| &*r.name == "aten::copy_").unwrap();
        assert_eq!((row.compute_ms(), row.copied_ms, row.is_link_copy), (0.0, 3.6, crosses), "{copy}");
        assert_eq!(row.work_ms() > 0.0, !crosses, "{copy}");
        assert!((p.category("elementwise").unwrap().time.copy_time_ms - 3.6).abs() < 1e-9, "{copy}");
        assert!(p.warnings.iter().all(|w| !w.contains(super::warnings::TIMES_APART)), "{copy}: {:?}", p.warnings);
    }
}

/// Four products of 100 µs on stream 7, the last `beside` of them with another kernel of 100 µs at the same time.
fn beside(beside: usize) -> Prepared {
    let mut b = TraceBuilder::new();
    for i in 0..4 {
        let (at, start) = (30.0 * i as f64, 1000.0 + 200.0 * i as f64);
        // A product takes longer if it has to share the GPU.
        let us = if i + beside >= 4 { 200.0 } else { 100.0 };
        b.cpu_op("aten::mm", at, 8.0)
            .arg("Input Dims", "[[2048, 2048], [2048, 2048]]")
            .arg("Input type", r#"["c10::BFloat16", "c10::BFloat16"]"#);
        b.launch("cudaLaunchKernel", at + 1.0, 2.0, 2 * i as i64 + 1);
        b.gpu("kernel", "gemm", start, us, 2 * i as i64 + 1, 7);
        if i + beside >= 4 {
            b.cpu_op("mine::other", at + 10.0, 8.0);
            b.launch("cudaLaunchKernel", at + 11.0, 2.0, 2 * i as i64 + 2);
            b.gpu("kernel", "other", start + 1.0, us - 2.0, 2 * i as i64 + 2, 8);
        }
    }
    prepared(&b)
}

#[test]
fn products_that_share_the_gpu_are_judged_by_those_that_do_not() {
    let row = |p: &Prepared| p.rows.iter().find(|r| &*r.name == "aten::mm").unwrap().clone();
    // 2·2048³ FLOPs take 17.4 µs at 990 TFLOPS/s.
    let alone = row(&beside(0));
    assert!((alone.efficiency.judged().unwrap() - 17.35).abs() < 0.01 && alone.beside.percent == 0.0);
    let half = row(&beside(2));
    assert_eq!((half.beside.alone_count, half.beside.alone_us), (2, 200.0));
    assert!((half.beside.percent - 66.0).abs() < 0.1, "{:?}", half.beside);
    assert!((half.efficiency.judged().unwrap() - 17.35).abs() < 0.01, "{:?}", half.efficiency);
    let p = beside(4);
    let never = row(&p);
    assert!(never.efficiency.is_shared && never.efficiency.judged().is_none(), "{:?}", never.efficiency);
    let (outcomes, findings) = crate::testing::analyzed(&p);
    let gemm = crate::testing::metrics(&outcomes, "gemm");
    assert!(gemm.bottlenecks.is_empty() && findings.is_empty(), "{findings:?}");
    assert!(gemm.warnings.iter().any(|w| w.contains("no call ran alone")), "{:?}", gemm.warnings);
    let (outcomes, _) = crate::testing::analyzed(&beside(2));
    let warnings = &crate::testing::metrics(&outcomes, "gemm").warnings;
    assert!(warnings.iter().any(|w| w.contains("that of the 2 calls that ran alone")), "{warnings:?}");
}

#[test]
fn a_row_has_the_kernels_of_all_its_calls() {
    // Three calls: one kernel; a clear and a kernel; another kernel.
    let mut b = TraceBuilder::new();
    let launches = [(0, "norm", 40.0), (1, "Memset (Device)", 2.0), (1, "norm", 20.0), (2, "other", 14.0)];
    for call in 0..3 {
        b.cpu_op("aten::batch_norm", 30.0 * f64::from(call), 20.0).arg("Input Dims", "[[8, 8]]");
    }
    for (i, (call, name, us)) in launches.into_iter().enumerate() {
        let at = 30.0 * f64::from(call) + 2.0 + 4.0 * i as f64;
        b.launch("cudaLaunchKernel", at, 2.0, i as i64 + 1);
        b.kernel(name, 1000.0 + 100.0 * i as f64, us, i as i64 + 1);
    }
    let p = prepared(&b);
    let row = &p.rows[0];
    assert_eq!((p.rows.len(), row.count), (1, 3), "{:?}", p.rows);
    let kernels: Vec<(&str, usize, f64)> = row.kernels.iter().map(|k| (&*k.name, k.count, k.total_us)).collect();
    assert_eq!(kernels, [("Memset (Device)", 1, 2.0), ("other", 1, 14.0), ("norm", 2, 60.0)]);
    assert!((row.time_ms - 0.076).abs() < 1e-9);
}

#[test]
fn a_row_has_a_model_where_the_table_says_so() {
    // What is picked is not recorded: only the blocks of the kernel tell its size.
    let mut b = TraceBuilder::new();
    b.cpu_op("aten::index", 0.0, 20.0)
        .arg("Input Dims", "[[2048, 1024], []]")
        .arg("Input type", r#"["c10::BFloat16", ""]"#);
    b.launch("cudaLaunchKernel", 5.0, 2.0, 1);
    b.kernel("void at::native::vectorized_gather_kernel<16, long>(char*, char*)", 100.0, 9.0, 1)
        .arg("grid", "[4096, 1, 1]")
        .arg("block", "[128, 1, 1]");
    b.cpu_op("mine::op", 30.0, 20.0).arg("Input Dims", "[[2048]]").arg("Input type", r#"["float"]"#);
    b.launch("cudaLaunchKernel", 35.0, 2.0, 2);
    b.kernel("mine", 120.0, 5.0, 2);
    let trace = b.build();
    let (report, platform) = report(&trace);
    let p = Prepared::of(&trace, &report, platform, &PrepareOptions::default());
    assert!(p.rows[0].has_perf_model && report.rows.unified.rows[0].has_perf_model);
    // Counting the tensors is no model.
    assert!(!p.rows[1].has_perf_model);
}

#[test]
fn a_row_has_the_rank_of_what_launches_most_of_its_time() {
    // A norm whose input is cast first: the copies of the program take longest, but not of this row.
    let mut b = TraceBuilder::new();
    let args = |e: &mut jarvis_trace::EventBuilder| {
        e.arg("Input Dims", "[[4096, 4096]]").arg("Input type", r#"["float"]"#);
    };
    args(b.cpu_op("aten::layer_norm", 0.0, 100.0));
    b.cpu_op("aten::copy_", 10.0, 20.0);
    b.launch("cudaLaunchKernel", 15.0, 5.0, 1);
    b.cpu_op("aten::native_layer_norm", 40.0, 50.0);
    b.launch("cudaLaunchKernel", 50.0, 5.0, 2);
    args(b.cpu_op("aten::copy_", 110.0, 20.0));
    b.launch("cudaLaunchKernel", 115.0, 5.0, 3);
    b.kernel("cast", 200.0, 20.0, 1);
    b.kernel("norm", 220.0, 80.0, 2);
    b.kernel("copy", 300.0, 100.0, 3);
    let p = prepared(&b);
    let ranked: Vec<_> = p.rows.iter().map(|r| (&*r.name, r.top_rank)).collect();
    assert_eq!(ranked, [("aten::layer_norm", Some(2)), ("aten::copy_", Some(1))]);
}

#[test]
fn top_operations_are_matched_by_kernels() {
    // aten::linear has a model; the launching leaf below it has another name.
    let mut b = TraceBuilder::new();
    b.cpu_op("aten::_scaled_dot_product_flash_attention", 0.0, 100.0)
        .arg("Input Dims", "[[2, 4, 2048, 64], [2, 4, 2048, 64], [2, 4, 2048, 64]]")
        .arg("Input type", r#"["c10::Half", "c10::Half", "c10::Half"]"#);
    b.cpu_op("aten::_flash_attention_forward", 10.0, 80.0);
    b.launch("cudaLaunchKernel", 20.0, 5.0, 1);
    b.kernel("flash_fwd_kernel", 200.0, 50.0, 1);
    let p = prepared(&b);
    let top = &p.top_operations[0];
    assert_eq!(&*top.name, "aten::_flash_attention_forward");
    assert_eq!(top.category.as_deref(), Some("sdpa_fwd"));
    assert_eq!(top.aliases.iter().map(|a| &**a).collect::<Vec<_>>(), ["aten::_scaled_dot_product_flash_attention"]);
    assert!(p.rows[0].in_top_ops && top.efficiency_percent.is_some());
    assert_eq!(p.rows[0].top_rank, Some(1));
    assert_eq!(top.bound_type, Some(BoundType::Compute));
}

#[test]
fn rows_know_their_modules_and_passes() {
    let mut b = TraceBuilder::new();
    b.python("nn.Module: Qwen2ForCausalLM_0", 0.0, 500.0);
    b.python("nn.Module: Qwen2Attention_3", 10.0, 300.0);
    b.cpu_op("aten::mm", 20.0, 20.0).arg("Input Dims", "[[8, 8], [8, 8]]");
    b.launch("cudaLaunchKernel", 22.0, 2.0, 1);
    b.cpu_op("autograd::engine::evaluate_function: MmBackward0", 600.0, 50.0);
    b.cpu_op("aten::mm", 610.0, 20.0).arg("Input Dims", "[[8, 8], [8, 16]]");
    b.launch("cudaLaunchKernel", 612.0, 2.0, 2);
    b.kernel("gemm", 700.0, 10.0, 1);
    b.kernel("gemm", 720.0, 20.0, 2);
    let p = prepared(&b);
    let (forward, backward) = (&p.rows[1], &p.rows[0]);
    assert_eq!((forward.direction, backward.direction), (Direction::Forward, Direction::Backward));
    assert_eq!(
        forward.module_path.iter().map(|m| &**m).collect::<Vec<_>>(),
        ["Qwen2ForCausalLM_0", "Qwen2Attention_3"]
    );
    assert_eq!(forward.call_site, "attention");
    assert_eq!(*forward.launcher_path, *"Qwen2ForCausalLM > Qwen2Attention");
    assert_eq!(*backward.launcher_path, *"Not found");
    assert_eq!(p.model.model, "Qwen2");
    assert_eq!(p.model.scale, ModelInfo::UNKNOWN);
}

#[test]
fn the_baseline_takes_large_plain_operands_only() {
    let mut scene = Scene::new();
    scene.add(4, 128, 4.0).add(4, 1, 0.1);
    let p = scene.prepared();
    assert_eq!((p.baseline.source, p.baseline.rows.len()), (Baseline::MEASURED, 1));
    assert!((p.baseline.bandwidth_tbs - 4.0).abs() < 1e-3 && (p.memory_ceiling() - 83.33).abs() < 0.1);
    let mut scene = Scene::new();
    scene.add(4, 1, 0.1);
    let p = scene.prepared();
    assert_eq!((p.baseline.source, p.memory_ceiling()), (Baseline::DEFAULT, 70.0));
    let mut scene = Scene::new();
    scene.add(4, 128, 2.0);
    assert!((scene.prepared().memory_ceiling() - 70.0).abs() < 1e-9, "a poor baseline is no ceiling");
}

#[test]
fn a_few_row_major_tensors_do_not_speak_for_a_channels_last_model() {
    let image = |count: usize| {
        let mut scene = Scene::new();
        // 128 MiB in channels-last, three times over at 4 TB/s; and a row-major tensor at 2.
        let dims = "[[64, 256, 64, 64], [64, 256, 64, 64], []]";
        let types = r#"["c10::BFloat16", "c10::BFloat16", "Scalar"]"#;
        let kernels = [("void at::native::vectorized_elementwise_kernel<8>", 3.0 * 128.0 * 1.048_576 / 4.0)];
        let mut call = Call::new("aten::add", dims, types, &kernels);
        call.strides = Some("[[1048576, 1, 16384, 256], [1048576, 1, 16384, 256], []]");
        scene.calls(count, &call).add(1, 64, 2.0);
        scene.prepared().baseline
    };
    let mostly = image(4);
    assert_eq!(mostly.rows.len(), 2, "both kinds are dense");
    assert!(mostly.bandwidth_tbs > 3.5, "{mostly:?}");
    assert!((image(1).bandwidth_tbs - 2.0).abs() < 1e-3, "half of the time is theirs");
}

#[test]
fn host_dominated_rows_and_varying_times_are_told() {
    let mut b = TraceBuilder::new();
    b.cpu_op("aten::mm", 0.0, 9000.0).arg("Input Dims", "[[8, 8], [8, 8]]");
    b.launch("cudaLaunchKernel", 10.0, 2.0, 1);
    b.kernel("gemm", 9000.0, 100.0, 1);
    let p = prepared(&b);
    let time = &p.categories[0].time;
    assert!(time.has_sync_bottleneck && time.sync_ops_count == 1);
    assert!((time.sync_time_ms - 8.9).abs() < 1e-9);

    let mut scene = Scene::new();
    scene.mm(11, [512, 512, 512], 2.0).mm(1, [512, 512, 512], 900.0);
    let p = scene.prepared();
    assert!(p.rows[0].high_variance && p.rows[0].cov.unwrap() > 1.0);
    let told = "The times of `aten::mm` on (512,512) bf16, (512,512) bf16 vary widely (12 calls): deviation";
    assert!(p.warnings.iter().any(|w| w.starts_with(told)), "{:?}", p.warnings);
}

#[test]
fn another_device_than_the_platform_is_told() {
    let mut scene = Scene::new();
    scene.mm(2, [512, 512, 512], 20.0);
    let p = scene.prepared_on("MI300X");
    assert!(p.warnings[0].contains("`NVIDIA H200`") && p.warnings[0].contains("MI300X"), "{:?}", p.warnings);
    assert_eq!(p.compute_units, Some(132), "what the trace says of its device");
}

#[test]
fn copies_alone_have_shares_of_their_category() {
    let mut b = jarvis_trace::TraceBuilder::new();
    for (i, us) in [(0, 30.0), (1, 10.0)] {
        let at = 100.0 * f64::from(i);
        b.cpu_op(["aten::item", "aten::cpu"][i as usize], at, 50.0);
        b.launch("cudaMemcpyAsync", at + 1.0, 2.0, i64::from(i));
        b.gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", at + 5.0, us, i64::from(i), 7);
    }
    let p = crate::testing::prepared_of(&b, "H200");
    let shares: Vec<(f64, f64)> = p.rows.iter().map(|r| (r.compute_ms(), r.percent_of_category.round())).collect();
    assert_eq!((p.categories.len(), shares), (1, vec![(0.0, 75.0), (0.0, 25.0)]));
}

#[test]
fn metadata_and_manifest_have_their_fields_in_order() {
    let mut scene = Scene::new();
    scene.mm(2, [512, 512, 512], 20.0);
    let p = scene.prepared();
    let metadata = Metadata::of(&p, &p.categories[0], "a/b.json.gz", Scope::Standalone, &[Threshold::GemmTimeMs]);
    let text = serde_json::to_string(&metadata).unwrap();
    let fields = [
        "schema_version",
        "platform",
        "device_name",
        "peak_hbm_bw_tbs",
        "peak_bf16_maf_tflops",
        "max_achievable_tflops",
        "peak_source",
        "memory_gb",
        "compute_units",
        "trace_path",
        "output_dir",
        "category",
        "category_name",
        "tier",
        "comparison_scope",
        "gpu_utilization",
        "time_breakdown",
        "elementwise_baseline",
        "thresholds",
        "trace_loading_policy",
    ];
    in_order(&text, &fields);
    assert!(text.contains(r#""thresholds":{"gemm.time_ms":50.0}"#), "{text}");
    assert!(text.contains(r#""matrix_bf16":"seed""#) && text.contains(r#""matrix_fp8":"table""#), "{text}");
    let manifest = Manifest::of(
        &p,
        ManifestInputs {
            trace_path: "a/b.json.gz".to_owned(),
            compute: vec![ManifestCategory::compute(&p.categories[0], Status::Ok)],
            ..ManifestInputs::default()
        },
    );
    let text = serde_json::to_string(&manifest).unwrap();
    let fields = [
        "schema_version",
        "platform",
        "trace_path",
        "output_dir",
        "comparison_scope",
        "run",
        "gpu_utilization",
        "utilization_ok",
        "cpu_idle_critical",
        "system_first",
        "top_operations",
        "categories",
        "time_metric_note",
        "peaks",
    ];
    in_order(&text, &fields);
    assert!(text.contains(r#""csv_file":"category_data/gemm_ops.csv""#), "{text}");
}

fn in_order(json: &str, fields: &[&str]) {
    let mut at = 0;
    for field in fields {
        let key = format!("\"{field}\":");
        let found = json[at..].find(&key);
        at += found.unwrap_or_else(|| panic!("`{field}` is missing or out of order in {json}"));
    }
}

/// Tree data of a category.
fn entries(trace: &Trace, report: &Report, p: &Prepared, category: &Category) -> BTreeMap<u32, TreeEntry> {
    tree_data::TreeData::new(trace, report, p).of_category(category, &BTreeSet::new(), &BTreeMap::new())
}

#[test]
fn tree_data_do_not_list_thousands_of_kernels() {
    // A recurrent layer: one operation, a kernel for each cell.
    let mut b = TraceBuilder::new();
    b.cpu_op("aten::_cudnn_rnn", 0.0, 2000.0);
    for i in 0..300 {
        let at = 5.0 * f64::from(i);
        b.launch("cudaLaunchKernel", at + 1.0, 2.0, i64::from(i) + 1);
        b.kernel("LSTM_elementWise_fp", at + 10.0, 4.0, i64::from(i) + 1);
    }
    let trace = b.build();
    let (report, platform) = report(&trace);
    let p = Prepared::of(&trace, &report, platform, &PrepareOptions::default());
    let row = &p.rows[0];
    assert_eq!((row.kernels_per_call, row.kernels.len(), row.kernels[0].count), (300, 1, 300));
    let floor_us = 300.0 * p.kernel_floor_us;
    assert!((p.floor_ms(row) - floor_us / 1e3).abs() < 1e-9, "each of them takes its time");
    let category = p.category(&row.category).unwrap();
    let entries = entries(&trace, &report, &p, category);
    let entry = &entries[&row.uid];
    assert_eq!((entry.subtree[0].kernels.len(), entry.truncated), (200, true));
}

#[test]
fn tree_data_tell_of_parents_siblings_and_kernels() {
    let mut b = TraceBuilder::new();
    b.python("nn.Module: Block_0", 0.0, 500.0);
    b.cpu_op("aten::linear", 10.0, 100.0);
    b.cpu_op("aten::mm", 20.0, 20.0).arg("Input Dims", "[[8, 8], [8, 8]]");
    b.launch("cudaLaunchKernel", 22.0, 2.0, 1);
    b.cpu_op("aten::relu", 200.0, 20.0).arg("Input Dims", "[[8, 8]]");
    b.launch("cudaLaunchKernel", 202.0, 2.0, 2);
    b.kernel("gemm", 700.0, 10.0, 1);
    b.kernel("relu", 720.0, 20.0, 2);
    let trace = b.build();
    let (report, platform) = report(&trace);
    let p = Prepared::of(&trace, &report, platform, &PrepareOptions::default());
    let gemm = p.category("gemm").unwrap();
    let entries = entries(&trace, &report, &p, gemm);
    let entry = entries.values().next().unwrap();
    assert_eq!(&*entry.op_name, "aten::mm");
    let chain: Vec<_> = entry.parent_chain.iter().map(|p| (p.name.as_str(), p.module)).collect();
    assert_eq!(chain, [("aten::linear", false), ("nn.Module: Block_0", true)]);
    assert_eq!(entry.subtree[0].kernels, ["gemm"]);
    let siblings: Vec<_> = entry.siblings.iter().map(|s| (&*s.name, s.is_self)).collect();
    assert_eq!(siblings, [("aten::mm", true), ("aten::relu", false)]);
}

#[test]
fn operations_and_sequences_have_siblings_where_there_are_no_modules() {
    // A sequence of 60 additions in the second half of which one operation holds two products.
    let mut b = TraceBuilder::new();
    let mut correlation = 0;
    let mut op = |b: &mut TraceBuilder, name: &str, at: f64, us: f64| {
        correlation += 1;
        b.cpu_op(name, at, 8.0).arg("Input Dims", "[[8, 8], [8, 8]]");
        b.launch("cudaLaunchKernel", at + 1.0, 2.0, correlation);
        b.kernel("k", 5000.0 + 100.0 * correlation as f64, us, correlation);
    };
    for i in 0..60 {
        let at = 30.0 * f64::from(i);
        let (name, us) = if i == 40 { ("aten::relu", 90.0) } else { ("aten::add", 5.0) };
        op(&mut b, name, at, us);
        if i == 50 {
            b.cpu_op("mine::both", at + 9.0, 20.0);
            op(&mut b, "aten::mm", at + 10.0, 6.0);
            op(&mut b, "aten::bmm", at + 19.0, 5.0);
        }
    }
    let trace = b.build();
    let (report, platform) = report(&trace);
    let p = Prepared::of(&trace, &report, platform, &PrepareOptions::default());
    let siblings = |name: &str| {
        let row = p.rows.iter().find(|r| &*r.name == name).unwrap();
        let entries = entries(&trace, &report, &p, p.category(&row.category).unwrap());
        entries[&row.uid].siblings.iter().map(|s| (s.name.to_string(), s.is_self)).collect::<Vec<_>>()
    };
    assert_eq!(siblings("aten::mm"), [("aten::mm".to_owned(), true), ("aten::bmm".to_owned(), false)]);
    let relu = siblings("aten::relu");
    assert_eq!(relu.len(), 32);
    let own: Vec<usize> = (0..32).filter(|&i| relu[i].1).collect();
    assert_eq!(own, [16], "in the middle of those around it");
    assert_eq!(relu[16].0, "aten::relu");
    assert!(siblings("aten::add")[0].1, "at the start the first are told");
}

#[test]
fn kernels_of_a_graph_are_told_one_by_one() {
    // host      |cudaGraphLaunch|
    // stream 7                     |gemm 30|  |norm 10|
    let mut b = TraceBuilder::new();
    b.launch("cudaGraphLaunch", 0.0, 50.0, 1);
    b.kernel("gemm", 100.0, 30.0, 1);
    b.kernel("norm", 140.0, 10.0, 1);
    let trace = b.build();
    let launch = trace.events().find(|&e| trace.name(e) == "cudaGraphLaunch").unwrap().uid();
    let (report, platform) = report(&trace);
    let p = Prepared::of(&trace, &report, platform, &PrepareOptions::default());
    for (kernel, us) in [("gemm", 30.0), ("norm", 10.0)] {
        let row = p.rows.iter().find(|r| r.name.contains(kernel)).unwrap();
        assert!(row.uid as usize >= trace.len(), "no event has this UID");
        let entries = entries(&trace, &report, &p, p.category(&row.category).unwrap());
        let entry = &entries[&row.uid];
        let nodes: Vec<_> = entry.subtree.iter().map(|n| (n.name.as_str(), n.uid, n.kernel_time_us.0)).collect();
        assert_eq!(nodes, [("cudaGraphLaunch", launch, us)]);
        assert_eq!(entry.subtree[0].kernels, [kernel]);
        assert!(entry.siblings.iter().any(|s| s.is_self && s.uid == launch));
        let note = format!("{} is no event: it stands for kernels that UID {launch} launched", row.uid);
        assert!(entry.notes.contains(&note), "{:?}", entry.notes);
    }
}

#[test]
fn annotations_are_parents_by_time_and_thread() {
    // thread 1  |-- ProfilerStep#2 --------------------------------------------------|
    //             |-- frame --------------------------------------------|
    //               |-- Optimizer.step#SGD.step -----|
    //                 |-- aten::_foreach_add_ --|
    // thread 2  |-- elsewhere ---------------------------------------------------------|
    let mut b = TraceBuilder::new();
    b.annotation("ProfilerStep#2", 0.0, 500.0);
    b.annotation("elsewhere", 0.0, 600.0).on(1, 2);
    b.python("train.py(3): step", 5.0, 300.0);
    b.annotation("Optimizer.step#SGD.step", 10.0, 200.0);
    b.cpu_op("aten::_foreach_add_", 20.0, 20.0);
    b.launch("cudaLaunchKernel", 22.0, 2.0, 1);
    b.kernel("multi_tensor_apply_kernel", 700.0, 10.0, 1);
    let trace = b.build();
    let (report, platform) = report(&trace);
    let p = Prepared::of(&trace, &report, platform, &PrepareOptions::default());
    let entries = entries(&trace, &report, &p, &p.categories[0]);
    let chain: Vec<_> = entries.values().next().unwrap().parent_chain.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(chain, ["Optimizer.step#SGD.step", "train.py(3): step", "ProfilerStep#2"]);
}

#[test]
fn results_do_not_depend_on_who_asks() {
    let mut scene = Scene::new();
    scene.mm(3, [512, 512, 512], 20.0).add(3, 64, 4.0);
    let types = r#"["c10::BFloat16"]"#;
    scene.calls(3, &Call::new("aten::relu", "[[64, 64]]", types, &[("k", 3.0)]));
    let text = |p: &Prepared| format!("{:?} {:?} {:?}", p.rows, p.categories, p.top_operations);
    assert_eq!(text(&scene.prepared()), text(&scene.prepared()));
}

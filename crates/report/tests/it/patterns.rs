//! Patterns on the pages of their categories, in made-up programs.

use jarvis_analyze::finding::PatternId;
use jarvis_analyze::program::LeafId;
use jarvis_trace::TraceBuilder;

use crate::runs::Analysed;

/// A call: name, `Input Dims`, `Input type`, `Concrete Inputs`, and its kernels with their microseconds.
type Call<'a> = (&'a str, &'a str, &'a str, &'a str, &'a [(&'a str, f64)]);

/// Ten calls in a row.
fn analysed((name, dims, types, concrete, kernels): Call<'_>) -> Analysed {
    let mut builder = TraceBuilder::new();
    let (mut gpu_us, mut correlation) = (1000.0, 0);
    for i in 0..10 {
        let host_us = 10.0 * f64::from(i);
        let op = builder.cpu_op(name, host_us, 9.0);
        op.arg("Input Dims", dims).arg("Input type", types).arg("Concrete Inputs", concrete);
        for (k, (kernel, us)) in kernels.iter().enumerate() {
            correlation += 1;
            builder.launch("cudaLaunchKernel", host_us + 1.0 + k as f64, 0.5, correlation);
            builder.kernel(kernel, gpu_us, *us, correlation);
            gpu_us += us;
        }
    }
    Analysed::of(name, &builder.build(), "H200").unwrap()
}

fn page(analysed: &Analysed, category: &str) -> String {
    let path = format!("category_findings/{category}_findings.md");
    analysed.pages().into_iter().find(|p| p.path == path).unwrap().text
}

#[test]
fn transposes_are_counted_beside_the_precision() {
    let kernels = [("void cudnn::nchwToNhwcKernel<float>", 400.0), ("implicit_convolve_sgemm", 1000.0)];
    let run = analysed((
        "aten::convolution",
        "[[64, 64, 56, 56], [64, 64, 3, 3], [], [], [], [], [], [], []]",
        r#"["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"]"#,
        r#"["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]"#,
        &kernels,
    ));
    // A lower precision brings more, but leaves the transposes.
    let of = |p: PatternId| run.analysis.findings.iter().find(|f| f.pattern == p).unwrap();
    let (precision, transposes) = (of(PatternId::FULL_PRECISION_GEMM), of(PatternId::LAYOUT_TRANSPOSES));
    assert!(precision.rank < transposes.rank && (2.4..2.6).contains(&(precision.time_ms / transposes.time_ms)));
    let page = page(&run, "convolution");
    let layout = &page[page.find("Layout transposes around convolutions").unwrap()..];
    assert!(layout.contains("- **Algorithmic:** Convert the model with `model.to(memory_format=torch.channels_last)`"));
    assert!(!layout.contains("not on top of finding"), "{layout}");
    assert!(layout.contains("- **Priority:** "), "{layout}");
    assert!(page.contains("### 1. Matrix work in fp32") && page.contains("### 2. Layout transposes"), "{page}");
}

#[test]
fn memory_efficient_attention_is_not_called_flash_attention() {
    let run = analysed((
        "aten::_scaled_dot_product_efficient_attention",
        "[[2, 16, 2048, 64], [2, 16, 2048, 64], [2, 16, 2048, 64], [], [], [], [], []]",
        r#"["float", "float", "float", "", "Scalar", "Scalar", "Scalar", ""]"#,
        r#"["", "", "", "", "False", "0.", "False", ""]"#,
        &[("fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<float>)", 3000.0)],
    ));
    let page = page(&run, "sdpa_fwd");
    assert!(page.contains("- **Flash Attention:** No; 10 calls of memory-efficient attention\n"), "{page}");
    assert!(page.contains("which is not a Flash Attention path.\n"), "{page}");
    assert_eq!(page.matches("- **Algorithmic:** Run attention in bf16 or fp16 first; ").count(), 2, "{page}");
}

#[test]
fn what_ran_before_the_window_asks_for_no_section_and_copies_stand_with_their_operation() {
    let told = |late: bool| {
        let mut b = TraceBuilder::new();
        b.gpu("kernel", "early", 0.0, 500.0, 90, 7);
        for (i, (name, kind, kernel)) in
            [("aten::mm", "kernel", "gemm"), ("aten::copy_", "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)")]
                .into_iter()
                .enumerate()
        {
            let (host, number) = (600.0 + 10.0 * i as f64, i as i64);
            let op = b.cpu_op(name, host, 9.0);
            op.arg("Input Dims", "[[4096, 4096], [4096, 4096]]").arg("Input type", r#"["float", "float"]"#);
            b.launch("cudaLaunchKernel", host + 1.0, 0.5, number);
            b.gpu(kind, kernel, 700.0 + 400.0 * i as f64, 300.0, number, 7);
        }
        if late {
            b.gpu("kernel", "late", 1500.0, 500.0, 91, 7);
        }
        Analysed::of("early", &b.build(), "H200").unwrap().fair()
    };
    let (fair, with_late) = (told(false), told(true));
    assert!(fair.contains("it is left out") && !fair.contains("Kernels Without Operations"), "{fair}");
    assert!(
        !fair.contains("start the profiler before") && with_late.contains("start the profiler before"),
        "{with_late}"
    );
    assert!(with_late.contains("Kernels Without Operations"), "{with_late}");
    assert!(fair.contains("| `aten::copy_` | Elementwise | 0.30 (0.30 copied) | 0.0 |"), "{fair}");
    assert!(fair.contains("| `aten::mm` | GEMM | 0.30 | 100.0 |"), "{fair}");
}

#[test]
fn steps_that_are_fused_elsewhere_are_no_kernels_of_a_bottleneck() {
    const CONV: &str = "sm90_xmma_fprop_implicit_gemm_f16f16_f16f32_f32_nhwckrsc_nhwc_tilesize128x128x64_x";
    let mut b = TraceBuilder::new();
    for i in 0..10 {
        let at = 30.0 * f64::from(i);
        b.cpu_op("aten::convolution", at, 25.0)
            .arg("Input Dims", "[[64, 256, 56, 56], [256, 256, 3, 3], [256], [], [], [], [], [], []]")
            .arg(
                "Input type",
                r#"["c10::Half", "c10::Half", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"]"#,
            )
            .arg("Concrete Inputs", r#"["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]"#);
        let steps = [("aten::cudnn_convolution", CONV), ("aten::add_", "vectorized_elementwise_kernel")];
        for (step, (name, kernel)) in (0..2).zip(steps) {
            let (host, number) = (at + 1.0 + 10.0 * f64::from(step), i64::from(2 * i + step) + 1);
            b.cpu_op(name, host, 8.0);
            b.launch("cudaLaunchKernel", host + 1.0, 2.0, number);
            b.kernel(kernel, 1000.0 + 2000.0 * number as f64, 1000.0, number);
        }
    }
    let mut run = Analysed::of("bias", &b.build(), "H200").unwrap();
    let listed = |run: &Analysed| {
        let page = page(run, "convolution");
        page.lines().find(|l| l.starts_with("- **Kernels:** ")).unwrap().to_owned()
    };
    assert!(listed(&run).contains("elementwise"), "{}", listed(&run));
    let leaves = (0..run.analysis.prepared.program.leaves.len() as u32).map(LeafId).collect();
    run.analysis.claims.add_leaves("Block", PatternId::UNFUSED_MODULE, false, 10, &run.analysis.prepared, &leaves);
    assert!(listed(&run).contains("xmma_fprop") && !listed(&run).contains("elementwise"), "{}", listed(&run));
}

#[test]
fn waits_of_the_device_have_their_action() {
    // Host   |launch||launch| ...
    // GPU            |k|     |k|     |k| ...      launches are there long before
    let mut b = TraceBuilder::new();
    for i in 0..10 {
        let host = 10.0 * f64::from(i);
        b.cpu_op("aten::mm", host, 9.0);
        b.launch("cudaLaunchKernel", host + 1.0, 0.5, i.into());
        b.kernel("gemm", 1000.0 + 300.0 * f64::from(i), 100.0, i.into());
    }
    let run = Analysed::of("waits", &b.build(), "H200").unwrap();
    let told = "1.80 of 1.80 ms idle time lies in `device_wait` gaps: work was queued; waits for another stream, event or \
                rank.";
    let pages = run.pages();
    let idle = &pages.iter().find(|p| p.path == "system_findings/cpu_idle_findings.md").unwrap().text;
    assert!(idle.contains(&format!("{told} Check stream dependencies; overlap communication.")), "{idle}");
    assert!(!idle.contains("No change is worth a recommendation."), "{idle}");
    assert!(run.fair().contains(&format!("- {told}")), "{}", run.fair());
}

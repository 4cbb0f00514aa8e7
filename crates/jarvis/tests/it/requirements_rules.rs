//! What `docs/requirements.md` says of limits, categories and words, read from the lists that the program uses.

use jarvis_analyze::prepare::category::CATEGORIES;
use jarvis_analyze::rules::ANALYZERS;
use jarvis_analyze::texts::TextId;
use jarvis_analyze::thresholds::THRESHOLDS;
use jarvis_report::language::violations;

#[test]
fn limits_have_the_values_of_the_sources() {
    let wanted = [
        // Bottlenecks: attention, products, convolutions.
        ("sdpa.time_ms", 100.0),
        ("gemm.time_ms", 50.0),
        ("convolution.time_ms", 50.0),
        ("bottleneck.percent_of_category", 5.0),
        ("bottleneck.efficiency", 40.0),
        // Attention by sequence length.
        ("sdpa.band.below_512.low", 5.0),
        ("sdpa.band.below_512.high", 15.0),
        ("sdpa.band.below_1024.low", 8.0),
        ("sdpa.band.below_1024.high", 15.0),
        ("sdpa.band.below_2048.low", 20.0),
        ("sdpa.band.below_2048.high", 40.0),
        ("sdpa.band.to_4096.low", 40.0),
        ("sdpa.band.to_4096.high", 60.0),
        ("sdpa.band.above_4096.low", 50.0),
        ("sdpa.band.above_4096.high", 70.0),
        // Priorities.
        ("priority.critical_share", 15.0),
        ("priority.critical_eff", 30.0),
        ("priority.high_share", 10.0),
        ("priority.high_eff", 40.0),
        ("priority.medium_share", 5.0),
        // Products by intensity, and tiny ones.
        ("gemm.intensity_compute", 200.0),
        ("gemm.intensity_memory", 100.0),
        ("gemm.tiny.count", 1000.0),
        ("gemm.tiny.factor", 5.0),
        // Everything else by intensity and efficiency.
        ("intensity.compute", 100.0),
        ("intensity.memory", 50.0),
        ("eff.excellent", 80.0),
        ("eff.good", 60.0),
        ("eff.acceptable", 40.0),
        ("util.compute_ok_percent", 95.0),
        ("top_ops.count", 10.0),
        ("fair.top_ops_rows", 6.0),
        // Replay packages.
        ("replay.min_percent_of_compute", 10.0),
        ("replay.max_efficiency", 30.0),
        // Convolutions by kind, and their transposes.
        ("conv.band.large.low", 60.0),
        ("conv.band.large.high", 80.0),
        ("conv.band.standard.low", 50.0),
        ("conv.band.standard.high", 70.0),
        ("conv.band.pointwise.low", 40.0),
        ("conv.band.pointwise.high", 60.0),
        ("conv.band.depthwise.low", 30.0),
        ("conv.band.depthwise.high", 50.0),
        ("conv.transpose_high", 20.0),
        ("conv.transpose_moderate", 10.0),
        // Norms against simple operations.
        ("bn.low", 20.0),
        ("bn.baseline", 70.0),
        // Comparisons.
        ("compare.kernel_issue_delta", 100.0),
        ("compare.tiny_gemm_factor", 5.0),
    ];
    for (key, value) in wanted {
        let found = THRESHOLDS.iter().find(|t| t.key == key).unwrap_or_else(|| panic!("no limit {key}"));
        assert!((found.default - value).abs() < 1e-12, "{key} is {}", found.default);
        assert!(found.origin.contains('S'), "{key} comes from {}", found.origin);
    }
}

#[test]
fn every_category_of_the_sources_has_its_analyzer() {
    let wanted = [
        ("gemm", "gemm"),
        ("sdpa_fwd", "sdpa"),
        ("elementwise", "elementwise"),
        ("reduce", "reduce"),
        ("triton", "triton"),
        ("moe_fused", "moe"),
        ("batchnorm", "batchnorm"),
        ("convolution", "convolution"),
        ("other", "generic"),
    ];
    for (key, analyzer) in wanted {
        let found = CATEGORIES.iter().find(|c| c.key == key).unwrap_or_else(|| panic!("no category {key}"));
        assert_eq!(found.analyzer, analyzer);
        assert!(ANALYZERS.iter().any(|a| a.info().id == analyzer), "no analyzer {analyzer}");
    }
}

#[test]
fn advice_names_what_the_sources_name() {
    let said = [
        (TextId::A_FLASH, "torch.nn.functional.scaled_dot_product_attention"),
        (TextId::A_FLASH, "typically 3-10x"),
        (TextId::B_UNFUSED, "10-30%"),
        (TextId::I_NOT_FLASH, "not a Flash Attention path"),
        (TextId::A_BATCH, "torch.bmm"),
        (TextId::A_SPARSE, "sparsity-aware"),
        (TextId::A_QUANT, "W8A8, FP8"),
        (TextId::A_COMPILE_BATCH, "torch.compile"),
        (TextId::A_QUANT_CHECK, "calibration"),
        (TextId::B_QUANT_REPLAY, "Quantized kernels may need their own tuning"),
        (TextId::B_TINY, "above the 5x expected of batching overhead: kernel issue"),
        (TextId::B_TILE, "Tune tile sizes"),
        (TextId::B_SELECT, "kernel selection"),
        (TextId::B_STRIDE, "not contiguous"),
        (TextId::A_CHANNELS_LAST, "model.to(memory_format=torch.channels_last)"),
        (TextId::A_CHANNELS_LAST, "NHWC instead of NCHW removes the transposes (typically 30-45% of convolution time"),
        (TextId::A_LIMITED, "usually well optimized"),
        (TextId::B_DEPTHWISE, "specialized depthwise kernels"),
        (TextId::A_FUSE_CONV, "Fuse the convolution"),
        (TextId::A_RMSNORM, "RMSNorm instead of LayerNorm"),
        (TextId::N_BN_COMMON, "10-50%"),
        (TextId::N_COUNTERS, "Low efficiency - profile with hardware counters to diagnose."),
        (TextId::N_REPRODUCER, "Bottleneck identified - generate reproducer for kernel team."),
        (TextId::B_REPLAY, "Replay artifact recommended for kernel team to investigate and optimize."),
    ];
    for (text, part) in said {
        assert!(text.template().contains(part), "{}: {}", text.id(), text.template());
    }
}

#[test]
fn forbidden_words_have_the_replacements_of_the_sources() {
    let wanted = [
        ("a CUDA kernel", "GPU kernels"),
        ("uses NCCL", "collective communication"),
        ("uses CUTLASS", "vendor GEMM library"),
        ("uses cuBLAS", "vendor GEMM library"),
        ("uses cuDNN", "DNN library"),
        ("uses MIOpen", "DNN library"),
        ("uses FMHA", "optimized attention kernel"),
        ("a bank conflict", "Low efficiency - profile with hardware counters to diagnose."),
        ("low occupancy", "Kernel running slower than expected"),
        ("cache hit rate", "Large working set may exceed cache"),
        ("uncoalesced reads", "Replay artifact provided for kernel team investigation"),
        ("the root cause", "Bottleneck identified - generate reproducer for kernel team."),
        ("this is the winner", "improve the target"),
    ];
    for (text, instead) in wanted {
        let found = violations(&format!("# T\n\nIt {text}.\n"));
        assert!(found.iter().any(|v| v.instead == instead), "{text}: {found:?}");
    }
    assert!(violations("# T\n\n`cudnn_conv` runs on GPU kernels of a vendor GEMM library.\n").is_empty());
}

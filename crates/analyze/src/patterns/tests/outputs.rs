//! Findings and files.

use super::sketch::Sketch;
use crate::finding::Tier;
use crate::patterns::candidates::{FusionMetrics, fusion, fusion_candidates, fusion_metrics};
use crate::patterns::scene::Scene;
use crate::patterns::{Code, Pattern, show};
use crate::thresholds::Threshold;

const X: &[i64] = &[8, 2048, 4096];
const ROW: &[i64] = &[8, 2048, 1];

fn metrics_of(scene: &Scene<'_>, patterns: &[Pattern]) -> FusionMetrics {
    fusion_metrics(scene, patterns, &fusion_candidates(scene, patterns))
}

fn trace() -> Sketch {
    let mut s = Sketch::new();
    for i in 0..3 {
        s.module(&format!("Block_{i}"), |s| {
            s.module(&format!("RMSNorm_{i}"), |s| {
                s.op("aten::pow", &[X, &[]], 60.0).reduce("aten::mean", X, 40.0);
                s.op("aten::add", &[ROW, &[], &[]], 1.0).op("aten::rsqrt", &[ROW], 1.0);
                s.op("aten::mul", &[X, ROW], 100.0).op("aten::mul", &[&[4096], X], 100.0);
            });
            s.op("aten::mm", &[&[16384, 4096], &[4096, 4096]], 700.0);
            s.op("aten::silu", &[X], 70.0).op("aten::mul", &[X, X], 90.0);
        });
    }
    s
}

#[test]
fn no_leaf_is_in_two_patterns() {
    trace().look(|scene, patterns, _| {
        let mut all: Vec<_> = patterns.iter().flat_map(crate::patterns::Pattern::all_leaves).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(count > 0 && count < scene.len());
    });
}

#[test]
fn the_same_calls_are_rated_once() {
    let analysis = |us: f64| {
        let mut s = Sketch::new();
        for i in 0..3 {
            s.module(&format!("Block_{i}"), |s| {
                s.op("aten::mul", &[X, &[]], 80.0).op("aten::add", &[X, X, &[]], 100.0);
                // It reads its operand once, but `x != x` names it twice.
                s.calling("aten::isnan", X, |s| {
                    s.op("aten::ne", &[X, X], us);
                });
                s.op("aten::mul", &[X, &[]], 80.0);
            });
        }
        s.analysis()
    };
    let rated = |us: f64| {
        let analysis = analysis(us);
        let row = analysis.prepared.rows.iter().find(|r| &*r.name == "aten::isnan").unwrap().efficiency.clone();
        let operations = analysis.findings.iter().flat_map(|f| f.operations.clone());
        let of_ne: Vec<Option<f64>> =
            operations.filter(|o| o.name == "aten::ne").map(|o| o.efficiency_percent).collect();
        (row, of_ne)
    };
    let (row, told) = rated(60.0);
    assert!(row.judged().unwrap() < 80.0);
    assert!(!told.is_empty() && told.iter().all(|t| (t.unwrap() - row.judged().unwrap()).abs() < 0.01), "{told:?}");
    // Nor is what is not right told at all.
    let (row, told) = rated(30.0);
    assert!(row.is_anomaly && told.iter().all(Option::is_none), "{told:?}");
}

#[test]
fn findings_are_whole() {
    trace().look(|scene, _, findings| {
        assert_eq!(findings.len(), 2);
        for (i, f) in findings.iter().enumerate() {
            assert_eq!(f.rank, i + 1);
            assert!(f.impact.saved_ms.low > 0.0 && f.impact.saved_ms.low <= f.impact.saved_ms.high);
            assert!(f.impact.saved_ms.high <= f.time_ms + 0.1, "no more is saved than is spent");
            assert!(f.impact.speedup.low > 1.0 && f.impact.speedup.high < 10.0);
            assert!(f.impact.basis.ends_with('.') && f.issue.ends_with('.'));
            assert!(!f.operations.is_empty() && !f.evidence.is_empty());
            assert!(!f.paths.algorithmic.is_empty() && !f.paths.kernel.is_empty());
            let texts = f.paths.algorithmic.iter().chain([&f.issue, &f.title, &f.impact.basis]);
            assert!(texts.into_iter().all(|t| !t.contains('{')), "all placeholders are filled");
            let times: f64 = f.operations.iter().map(|o| o.time_ms).sum();
            assert!((times - f.time_ms).abs() < 1e-9);
            let known = |uid: u32| scene.program.leaves.iter().any(|l| l.uid == uid);
            assert!(f.operations.iter().all(|o| known(o.uid)));
        }
    });
}

#[test]
fn kernels_side_by_side_shorten_the_window_once() {
    let (alone, beside) = (trace().on_streams(1.0), trace().on_streams(4.0));
    assert!(!alone.is_empty() && alone.len() == beside.len());
    for (alone, beside) in alone.iter().zip(&beside) {
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        near(alone.percent_of_total, beside.percent_of_total);
        near(alone.impact.speedup.low, beside.impact.speedup.low);
        near(alone.impact.speedup.high, beside.impact.speedup.high);
        assert_eq!(alone.priority, beside.priority);
    }
}

#[test]
fn the_same_trace_gives_the_same_text() {
    let text = || {
        trace().look(|scene, patterns, findings| {
            let candidates = serde_json::to_string(&fusion_candidates(scene, patterns)).unwrap();
            let metrics = serde_json::to_string(&metrics_of(scene, patterns)).unwrap();
            let patterns = serde_json::to_string(patterns).unwrap();
            [candidates, metrics, patterns, serde_json::to_string(findings).unwrap()]
        })
    };
    assert_eq!(text(), text());
}

#[test]
fn the_longest_kernel_of_an_operation_does_its_work() {
    let mut s = Sketch::new();
    s.module("Attention_0", |s| {
        s.clearing().op("aten::bmm", &[&[32, 2048, 64], &[32, 64, 2048]], 100.0);
        s.op("aten::_softmax", &[&[4, 8, 2048, 2048], &[], &[]], 300.0);
        s.op("aten::bmm", &[&[32, 2048, 2048], &[32, 2048, 64]], 100.0);
    });
    s.look(|scene, patterns, _| {
        let candidates = fusion_candidates(scene, patterns);
        let kernels = &candidates.iter().find(|c| c.pattern == Code::UnfusedAttention).unwrap().kernels;
        assert_eq!(&*kernels[0].name, "Memset (Device)");
        assert!(kernels[0].gflops.is_none() && !kernels[0].has_perf_data, "{:?}", kernels[0]);
        assert!((kernels[1].gflops.unwrap() - 17.179_869_184).abs() < 1e-9, "{:?}", kernels[1]);
    });
}

#[test]
fn candidates_and_metrics_tell_of_each_other() {
    trace().look(|scene, patterns, _| {
        let candidates = fusion_candidates(scene, patterns);
        let metrics = metrics_of(scene, patterns);
        assert_eq!((metrics.candidate_count, metrics.impact_estimates.len()), (candidates.len(), candidates.len()));
        let norm = candidates.iter().find(|c| c.base_name.as_deref() == Some("RMSNorm")).unwrap();
        assert_eq!((norm.instance_count, norm.kernel_count, norm.call_site, norm.source), (3, 6, "norm", "module"));
        assert_eq!(norm.kernel_type_signature, "elementwise+reduce+elementwise+elementwise+elementwise+elementwise");
        assert_eq!(norm.op_uids.len(), 18);
        assert!((norm.total_kernel_time_us - 3.0 * 302.0).abs() < 1e-6);
        assert!((norm.kernels[0].dur_us_mean - 60.0).abs() < 1e-9);
        let estimate = metrics.impact_estimates.iter().find(|e| e.operation == "RMSNorm").unwrap();
        assert_eq!((estimate.fusion_type, estimate.estimation), ("memory_bound", "full"));
        assert!(estimate.savings_ms_low.unwrap() > 0.0);
        assert!(metrics.high_confidence_uids.len() >= 18);
    });
}

#[test]
fn kernels_read_and_write_what_their_shapes_say() {
    let mut s = trace();
    s.module("Attention_0", |s| {
        s.op("aten::bmm", &[&[32, 2048, 64], &[32, 64, 2048]], 100.0);
        s.op("aten::_softmax", &[&[4, 8, 2048, 2048], &[], &[]], 300.0);
        s.op("aten::bmm", &[&[32, 2048, 2048], &[32, 2048, 64]], 100.0);
    });
    s.look(|scene, patterns, _| {
        let candidates = fusion_candidates(scene, patterns);
        let moved = |code: Code, at: usize| {
            let kernel = &candidates.iter().find(|c| c.pattern == code).unwrap().kernels[at];
            (kernel.data_in_mb.unwrap(), kernel.data_out_mb.unwrap())
        };
        // bf16: (8,2048,4096) is 128 MB of 2^20 bytes, what a reduction of its last dimension leaves 1/32 MB.
        assert_eq!(moved(Code::UnfusedRmsNorm, 0), (128.0, 128.0));
        assert_eq!(moved(Code::UnfusedRmsNorm, 1), (128.0, 0.03125));
        // A product of 16 MB of operands fills 256 MB.
        assert_eq!(moved(Code::UnfusedAttention, 0), (16.0, 256.0));
    });
}

#[test]
fn tree_data_tell_the_numbers_of_the_candidate() {
    let mut s = Sketch::new();
    s.module("RMSNorm_0", |s| {
        s.sequenced("norm::pow", 7, |s| {
            s.clearing().op("aten::pow", &[X, &[]], 60.0);
        });
        s.reduce("aten::mean", X, 40.0).op("aten::add", &[ROW, &[], &[]], 1.0);
        s.op("aten::rsqrt", &[ROW], 1.0).op("aten::mul", &[X, ROW], 100.0);
    });
    s.backward("PowBackward0", 7, |s| {
        s.op("aten::mul", &[X, X], 90.0);
    });
    s.look(|scene, patterns, _| {
        let pattern = patterns.iter().find(|p| p.code == Code::UnfusedRmsNorm).unwrap();
        assert!(pattern.backward_ms > 0.0);
        let candidates = fusion_candidates(scene, patterns);
        let candidate = candidates.iter().find(|c| c.pattern == Code::UnfusedRmsNorm).unwrap();
        let told = fusion(scene.program, pattern);
        assert!(candidate.kernel_count > pattern.ops.len(), "memory is cleared by a kernel of its own");
        assert_eq!(told.kernels_per_instance, candidate.kernel_count);
        assert!((told.time_ms.0 - candidate.total_kernel_time_us / 1e3).abs() < 1e-9);
    });
}

#[test]
fn what_is_saved_follows_from_the_numbers_beside_it() {
    let mut s = trace();
    s.look(|scene, patterns, findings| {
        let norm = patterns.iter().find(|p| p.code == Code::UnfusedRmsNorm).unwrap();
        // Five of six kernels go, three times.
        assert!((norm.pauses_ms - 15.0 * scene.pause_us / 1e3).abs() < 1e-9 && norm.pauses_ms > 0.0);
        let (saved, fused) = (norm.saved_ms.unwrap().high, norm.fused_ms.unwrap().low);
        assert!((norm.total_ms() + norm.pauses_ms - fused - saved).abs() < 1e-9);
        let told = format!("3 calls take 0.91 ms, pauses between their kernels {} ms;", show::ms(norm.pauses_ms));
        assert!(norm.basis.starts_with(&told), "{}", norm.basis);
        let json = serde_json::to_value(metrics_of(scene, patterns)).unwrap();
        let all = json["impact_estimates"].as_array().unwrap();
        let one = all.iter().find(|e| e["pattern"] == "UNFUSED_RMSNORM").unwrap();
        assert!((one["pauses_ms"].as_f64().unwrap() - norm.pauses_ms).abs() < 1e-3, "{one}");
        let basis = &findings.iter().find(|f| f.title.contains("RMS")).unwrap().impact.basis;
        assert!(basis.ends_with("Both ends allow up to 1.5% for the error of measuring it."), "{basis}");
    });
    // Most of the time is that of products: no fusion saves half of it.
    s.limit(Threshold::FusionMinPercent, 50.0);
    s.look(|_, _, findings| assert!(findings.is_empty(), "{findings:?}"));
    assert!(s.analysis().findings.iter().all(|f| f.tier != Tier::Fusion));
}

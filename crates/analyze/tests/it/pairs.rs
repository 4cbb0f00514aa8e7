//! Estimates against what a fix really brought: step times measured without the profiler, before and after.

use crate::support::{Analysis, trace};

/// A trace before a fix, the finding that names the fix, and the step times in milliseconds before and after it.
struct Pair {
    before: &'static str,
    pattern: &'static str,
    step_ms: (f64, f64),
}

const PAIRS: &[Pair] = &[
    Pair { before: "mlp_fp32", pattern: "full_precision_gemm", step_ms: (46.831, 4.361) },
    Pair { before: "resnet50_nchw", pattern: "layout_transposes", step_ms: (44.750, 33.330) },
];

#[test]
fn measured_speedups_lie_inside_their_ranges() {
    for pair in PAIRS {
        let Some(path) = trace("h200", pair.before) else { continue };
        let analysis = Analysis::of(&path, "H200").unwrap();
        let finding = analysis.finding(pair.pattern);
        let (low, high) = (finding.impact.speedup.low, finding.impact.speedup.high);
        let measured = pair.step_ms.0 / pair.step_ms.1;
        assert!(low <= measured && measured <= high, "{}: {measured} not in {low} to {high}", pair.before);
        assert!(high / low <= 2.0, "{}: {low} to {high} says little", pair.before);
        assert_eq!(finding.rank, 1, "{}: {:?}", pair.before, analysis.patterns());
    }
}

#[test]
fn fixed_programs_no_longer_show_the_fault() {
    for (after, pattern) in [("mlp_bf16", "full_precision_gemm"), ("resnet50_nhwc", "layout_transposes")] {
        let Some(path) = trace("h200", after) else { continue };
        let analysis = Analysis::of(&path, "H200").unwrap();
        assert!(!analysis.patterns().contains(&pattern), "{after}: {:?}", analysis.patterns());
    }
}

#[test]
fn tiny_products_are_found() {
    let Some(path) = trace("h200", "tiny_bmm_window") else { return };
    let analysis = Analysis::of(&path, "H200").unwrap();
    assert_eq!(analysis.patterns()[0], "tiny_gemms");
}

//! What must be found in real traces, and how close estimates come to measured changes.

use std::path::Path;

use jarvis_analyze::finding::PatternId;
use jarvis_analyze::patterns::{Code, Confidence, Pattern};

use crate::pattern_support::{Analysis, analyse, first_shape, traces, traces_in};

fn group<'a>(analysis: &'a Analysis, code: Code, anchor: &[i64]) -> &'a Pattern {
    let found = analysis.patterns.iter().find(|p| p.code == code && p.anchor_dims == anchor);
    found.unwrap_or_else(|| panic!("no {} on {anchor:?}", code.as_str()))
}

fn near(value: f64, oracle: f64, tolerance: f64) {
    assert!((value - oracle).abs() <= tolerance * oracle, "{value} is not {oracle}");
}

#[test]
fn timesformer_attends_in_two_shapes() {
    let Some(folder) = traces() else { return };
    let path = folder.join("mi300/facebook_timesformer-base-finetuned-k400__1016002.json.gz");
    let Some(analysis) = analyse(&path) else { return };
    for (anchor, ms) in [([8, 12, 3137, 3137], 77.30), ([3136, 12, 8, 8], 17.62)] {
        let p = group(&analysis, Code::UnfusedAttention, &anchor);
        assert_eq!((p.instances, p.ops.len(), p.confidence), (12, 5, Confidence::High));
        near(p.time_ms, ms, 0.01);
    }
    let attention = analysis.findings.iter().filter(|f| f.pattern == PatternId::UNFUSED_ATTENTION).count();
    assert_eq!((attention, analysis.findings[0].pattern), (1, PatternId::UNFUSED_ATTENTION));
}

#[test]
fn qwen_norms_are_written_out() {
    let Some(folder) = traces() else { return };
    let Some(analysis) = analyse(&folder.join("mi300/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz")) else { return };
    let p = group(&analysis, Code::UnfusedRmsNorm, &[16, 559, 1024]);
    assert_eq!((p.instances, p.ops.len(), p.module.as_deref()), (49, 8, Some("Qwen2RMSNorm")));
    near(p.time_ms, 5.67, 0.01);
    let saved = p.saved_ms.unwrap();
    near(saved.low, 3.25, 0.05);
    near(saved.high, 5.25, 0.05);
    assert!(analysis.patterns.iter().any(|p| p.code == Code::SdpaCopyOverhead && p.instances == 24));
    assert!(analysis.patterns.iter().any(|p| p.code == Code::UnfusedRope && p.instances == 48));
}

#[test]
fn llama_with_eager_attention_shows_all_it_does_by_hand() {
    let Some(folder) = traces() else { return };
    let Some(analysis) = analyse(&folder.join("h200/hf_llama_eager_attn.json.gz")) else { return };
    let codes = [Code::UnfusedAttention, Code::RepeatedKvHeads, Code::UnfusedRmsNorm, Code::UnfusedRope];
    for code in codes {
        let p = analysis.patterns.iter().find(|p| p.code == code);
        let p = p.unwrap_or_else(|| panic!("no {}", code.as_str()));
        assert!(p.is_promoted(analysis.computation_ms) && p.confidence == Confidence::High, "{}", code.as_str());
    }
    let attention = group(&analysis, Code::UnfusedAttention, &[4, 16, 1024, 1024]);
    assert_eq!(attention.instances, 8);
    assert!(attention.halo_ms > 0.3);
}

#[test]
fn training_counts_the_backward_of_what_it_finds() {
    let Some(folder) = traces() else { return };
    let Some(analysis) = analyse(&folder.join("h200/hf_llama_train.json.gz")) else { return };
    let norm = analysis.patterns.iter().find(|p| p.code == Code::UnfusedRmsNorm).unwrap();
    assert_eq!(norm.instances, 18);
    assert!(norm.backward_ms > 2.0 * norm.time_ms, "{} after {}", norm.backward_ms, norm.time_ms);
    assert!(analysis.patterns.iter().all(|p| p.code != Code::UnfusedAttention));
}

/// Largest ratio of the two ends of a predicted speed-up.
const WIDEST: f64 = 1.6;

#[test]
fn predicted_speedups_hold_on_measured_pairs() {
    let Some(folder) = traces() else { return };
    let pairs = [
        ("attn_unfused", "attn_fused", PatternId::UNFUSED_ATTENTION),
        ("norm_unfused", "norm_fused", PatternId::UNFUSED_NORM),
        ("elementwise_eager", "elementwise_compiled", PatternId::ELEMENTWISE_CHAIN),
    ];
    let Ok(text) = std::fs::read_to_string(folder.join("h200/facts.json")) else {
        println!("skipped: no h200/facts.json");
        return;
    };
    let facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    for (before, after, pattern) in pairs {
        let step = |name: &str| facts["workloads"][name]["step_ms"].as_f64().unwrap();
        let measured = step(before) / step(after);
        let open = |name: &str| analyse(&folder.join(format!("h200/{name}.json.gz")));
        let (Some(b), Some(a)) = (open(before), open(after)) else { continue };
        let finding =
            b.findings.iter().find(|f| f.pattern == pattern).unwrap_or_else(|| panic!("{before}: no finding"));
        let range = finding.impact.saved_ms.speedup(b.window_ms);
        println!("{before}: measured {measured:.3}, predicted {:.3} to {:.3}", range.low, range.high);
        assert!(range.low <= measured && measured <= range.high, "{before}: {measured} outside {range:?}");
        assert!(range.high / range.low <= WIDEST, "{before}: {range:?} is too wide");
        // After the change it is gone, apart from what was never part of it.
        let saved = finding.impact.saved_ms.high;
        let left: f64 = a.findings.iter().filter(|f| f.title == finding.title).map(|f| f.time_ms).sum();
        assert!(left < 0.02 * saved, "{after}: {left} ms are left");
    }
}

#[test]
fn all_traces_give_sound_patterns_twice_the_same() {
    let Some(folder) = traces() else { return };
    for path in traces_in(&folder) {
        let Some(first) = analyse(&path) else { continue };
        check(&first, &path);
        let again = analyse(&path).unwrap();
        let text =
            |a: &Analysis| (serde_json::to_string(&a.patterns).unwrap(), serde_json::to_string(&a.findings).unwrap());
        assert_eq!(text(&first), text(&again), "{}", path.display());
    }
}

fn check(analysis: &Analysis, path: &Path) {
    let mut owner = vec![None; analysis.program.leaves.len()];
    for pattern in analysis.patterns.iter().filter(|p| p.code != Code::Recomputation) {
        for leaf in pattern.all_leaves() {
            let known = owner[leaf.index()].replace(pattern.code);
            let of = analysis.program.leaf(leaf);
            assert!(known.is_none(), "{}: {} {:?} is in two patterns", path.display(), of.name, first_shape(of));
        }
        assert!(pattern.time_ms >= 0.0 && pattern.instances == pattern.leaves.len());
        if let Some(saved) = pattern.saved_ms {
            assert!(0.0 <= saved.low && saved.low <= saved.high && saved.high.is_finite());
        }
    }
    for finding in &analysis.findings {
        assert!(finding.time_ms <= analysis.window_ms * 1.5, "{}: {}", path.display(), finding.title);
        assert!(finding.impact.saved_ms.low > 0.0 && !finding.operations.is_empty());
        assert!(finding.impact.speedup.high.is_finite() && finding.impact.speedup.low >= 1.0);
    }
}

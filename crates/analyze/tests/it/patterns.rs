//! What must be found in real traces, and how close estimates come to measured changes.

use std::path::Path;

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::finding::PatternId;
use jarvis_analyze::patterns::{Code, Confidence, Pattern};

use crate::support::{all_traces, analyse, trace};

fn group<'a>(analysis: &'a Analysis, code: Code, anchor: &[i64]) -> &'a Pattern {
    let found = analysis.patterns.iter().find(|p| p.code == code && p.anchor_dims == anchor);
    found.unwrap_or_else(|| panic!("no {} on {anchor:?}", code.as_str()))
}

fn near(value: f64, oracle: f64, tolerance: f64) {
    assert!((value - oracle).abs() <= tolerance * oracle, "{value} is not {oracle}");
}

#[test]
fn timesformer_attends_in_two_shapes() {
    let Some(path) = trace("mi300", "facebook_timesformer-base-finetuned-k400__1016002") else { return };
    let analysis = analyse(&path, "MI300X").unwrap();
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
    let Some(path) = trace("mi300", "Qwen_Qwen1.5-0.5B-Chat__1016005") else { return };
    let analysis = analyse(&path, "MI300X").unwrap();
    let p = group(&analysis, Code::UnfusedRmsNorm, &[16, 559, 1024]);
    assert_eq!((p.instances, p.ops.len(), p.module.as_deref()), (49, 8, Some("Qwen2RMSNorm")));
    near(p.time_ms, 5.67, 0.01);
    let saved = p.saved_ms.unwrap();
    near(saved.low, 2.82, 0.05);
    near(saved.high, 5.25, 0.05);
    assert!(analysis.patterns.iter().any(|p| p.code == Code::SdpaCopyOverhead && p.instances == 24));
    assert!(analysis.patterns.iter().any(|p| p.code == Code::UnfusedRope && p.instances == 48));
}

#[test]
fn llama_with_eager_attention_shows_all_it_does_by_hand() {
    let Some(path) = trace("h200", "hf_llama_eager_attn") else { return };
    let analysis = analyse(&path, "H200").unwrap();
    let codes = [Code::UnfusedAttention, Code::RepeatedKvHeads, Code::UnfusedRmsNorm, Code::UnfusedRope];
    for code in codes {
        let p = analysis.patterns.iter().find(|p| p.code == code);
        let p = p.unwrap_or_else(|| panic!("no {}", code.as_str()));
        let least_ms = 0.005 * analysis.prepared.utilization.computation_time_ms;
        assert!(p.is_promoted(least_ms) && p.confidence == Confidence::High, "{}", code.as_str());
    }
    let attention = group(&analysis, Code::UnfusedAttention, &[4, 16, 1024, 1024]);
    assert_eq!(attention.instances, 8);
    assert!(attention.halo_ms > 0.3);
}

#[test]
fn training_counts_the_backward_of_what_it_finds() {
    let Some(path) = trace("h200", "hf_llama_train") else { return };
    let analysis = analyse(&path, "H200").unwrap();
    let norm = analysis.patterns.iter().find(|p| p.code == Code::UnfusedRmsNorm).unwrap();
    assert_eq!(norm.instances, 18);
    assert!(norm.backward_ms > 2.0 * norm.time_ms, "{} after {}", norm.backward_ms, norm.time_ms);
    assert!(analysis.patterns.iter().all(|p| p.code != Code::UnfusedAttention));
}

#[test]
fn all_traces_give_sound_patterns_twice_the_same() {
    for (path, platform) in all_traces() {
        let Some(first) = analyse(&path, platform) else { continue };
        check(&first, &path);
        let again = analyse(&path, platform).unwrap();
        let text =
            |a: &Analysis| (serde_json::to_string(&a.patterns).unwrap(), serde_json::to_string(&a.findings).unwrap());
        assert_eq!(text(&first), text(&again), "{}", path.display());
    }
}

fn check(analysis: &Analysis, path: &Path) {
    let mut owner = vec![None; analysis.prepared.program.leaves.len()];
    for pattern in analysis.patterns.iter().filter(|p| p.code != Code::Recomputation) {
        for leaf in pattern.all_leaves() {
            let known = owner[leaf.index()].replace(pattern.code);
            let of = analysis.prepared.program.leaf(leaf);
            assert!(known.is_none(), "{}: {} {} is in two patterns", path.display(), of.name, of.uid);
        }
        assert!(pattern.time_ms >= 0.0 && pattern.instances == pattern.leaves.len());
        if let Some(saved) = pattern.saved_ms {
            assert!(0.0 <= saved.low && saved.low <= saved.high && saved.high.is_finite());
        }
    }
    let window = analysis.prepared.utilization.total_time_ms;
    for finding in &analysis.findings {
        assert!(finding.time_ms <= window * 1.5, "{}: {}", path.display(), finding.title);
    }
}

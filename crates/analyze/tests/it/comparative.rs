//! Targets against references: the example of the requirements, and pairs of recordings before and after a fix.

use jarvis_analyze::comparative::{Change, ChangeKind, Comparative, Compared, GapSource, MatchLevel, Mode, Verdict};
use jarvis_analyze::finding::PatternId;

use crate::support::{analyse, trace};

const TIMESFORMER: &str = "facebook_timesformer-base-finetuned-k400__1016002";

fn compare(reference: (&str, &str, &str), target: (&str, &str, &str)) -> Option<Comparative> {
    let [reference, target] =
        [reference, target].map(|(folder, name, platform)| analyse(&trace(folder, name)?, platform));
    Some(Comparative::of(&reference?, &target?))
}

/// The same recording on two platforms, the example of the requirements.
fn timesformer() -> Option<Comparative> {
    compare(("h100", TIMESFORMER, "H100"), ("mi300", TIMESFORMER, "MI300X"))
}

fn operation<'a>(c: &'a Comparative, name: &str, args: &str) -> &'a Compared {
    let found = c.operations.iter().find(|o| o.name == name && o.args.replace("<br>", " ").contains(args));
    found.unwrap_or_else(|| panic!("no {name} {args}"))
}

fn near(value: f64, expected: f64, digits: i32) {
    assert!((value - expected).abs() <= 0.5 * 10f64.powi(-digits), "{value} is not {expected}");
}

#[test]
fn the_example_of_the_requirements_is_reproduced() {
    let Some(c) = timesformer() else { return };
    assert_eq!(c.normalization.mode, Mode::PerStep);
    near(c.totals.reference.computation_ms, 154.97, 2);
    near(c.totals.target.computation_ms, 118.76, 2);
    // (name, arguments, reference, target, percent, expected, excess, verdict)
    let rows = [
        ("aten::bmm", "(37632,8,64) bf16 (37632,64,8)", 0.49, 13.71, 2697.0, 0.632, 44.2, Verdict::KernelIssue),
        ("aten::bmm", "(37632,8,8) bf16 (37632,8,64)", 1.30, 3.36, 158.0, 0.632, 4.1, Verdict::KernelIssue),
        ("aten::addmm", "(25089,768) bf16 (768,3072)", 1.98, 3.06, 55.0, 1.398, 1.1, Verdict::HardwareSlower),
    ];
    for (name, args, reference, target, percent, expected, excess, verdict) in rows {
        let o = operation(&c, name, args);
        assert_eq!((o.level, o.verdict), (Some(MatchLevel::Exact), Some(verdict)), "{name} {args}");
        near(o.ms.reference, reference, 2);
        near(o.ms.target, target, 2);
        near(o.ms.delta_percent().unwrap(), percent, 0);
        near(o.expected.unwrap().middle(), expected, 3);
        near(o.excess().unwrap(), excess, 1);
    }
    let softmax = c.by_name.iter().find(|o| o.name == "aten::_softmax").unwrap();
    near(softmax.ms.reference, 68.78, 2);
    near(softmax.ms.target, 41.86, 2);
    near(softmax.ms.delta_percent().unwrap(), -39.1, 1);
    near(softmax.excess().unwrap(), 0.96, 2);
    assert_eq!(softmax.verdict, Some(Verdict::HardwareFaster));
    assert_eq!(softmax.explanation().unwrap().id, "target_higher_bandwidth");
    let first = &c.gaps[0];
    assert!(first.title.contains("aten::bmm") && matches!(first.source, GapSource::Operation(_)));
    near(first.saved_ms, 13.40, 2);
    near(first.saved_percent_of_compute.unwrap(), 11.3, 1);
    assert!(c.gaps.windows(2).all(|pair| pair[0].saved_ms >= pair[1].saved_ms));
    assert_eq!((c.coverage_percent.reference, c.coverage_percent.target), (100.0, 100.0));
}

#[test]
fn the_hardware_explains_a_sum_only_if_it_explains_its_parts() {
    let Some(c) = timesformer() else { return };
    let is_product = |change: &&Change| change.what.contains("`aten::bmm`");
    let is_expected = |change: &&Change| change.verdict.is_some_and(Verdict::is_expected);
    let sum = c.changes.iter().filter(is_product).find(is_expected).unwrap();
    assert!(!c.is_explained(sum), "one of its shapes is not: {}", sum.what);
    assert!(c.changes.iter().any(|change| c.is_explained(change)));
}

#[test]
fn a_fix_is_named_with_what_it_brought() {
    // Before, after, what the largest change is and says.
    let pairs = [
        ("attn_unfused", "attn_fused", ChangeKind::Replaced, "scaled_dot_product"),
        ("norm_unfused", "norm_fused", ChangeKind::Replaced, "aten::_fused_rms_norm"),
        ("resnet50_nchw", "resnet50_nhwc", ChangeKind::Kernels, "nhwc"),
        ("mlp_fp32", "mlp_bf16", ChangeKind::Precision, "in `c10::BFloat16` instead of `float`"),
        ("elementwise_eager", "elementwise_compiled", ChangeKind::Unmatched, "triton_red_fused"),
        ("item_every_step", "item_never", ChangeKind::Idle, "`host_sync`"),
        ("decode_eager", "decode_graphed", ChangeKind::Idle, "`launch_bound`"),
    ];
    let mut seen = 0;
    for (before, after, kind, says) in pairs {
        let Some(c) = compare(("h200", before, "H200"), ("h200", after, "H200")) else { continue };
        seen += 1;
        let first = &c.changes[0];
        assert!(first.kind == kind && first.what.contains(says), "{before}: {:?} {}", first.kind, first.what);
        let delta = c.totals.target.total_ms - c.totals.reference.total_ms;
        let told: f64 = c.large_changes().map(|change| change.ms.delta()).sum();
        assert!((told - delta).abs() <= 0.1 * delta.abs(), "{before}: {told} ms are told of {delta} ms");
        let all: f64 = c.changes.iter().map(|change| change.ms.delta()).sum();
        assert!((all - delta).abs() < 1e-6, "{before}: the changes add up to {all}, the difference is {delta}");
        assert!(!c.is_same());
    }
    assert!(seen >= 2, "the project carries two pairs");
}

#[test]
fn what_a_fix_would_bring_is_the_first_gap_of_the_trace_without_it() {
    for (before, after, title, says) in [
        ("attn_unfused", "attn_fused", "`Attention`", "scaled_dot_product"),
        ("mlp_fp32", "mlp_bf16", "`aten::", "Compute in `c10::BFloat16`"),
        ("item_every_step", "item_never", "GPU idle time", "aten::item"),
    ] {
        let Some(c) = compare(("h200", after, "H200"), ("h200", before, "H200")) else { continue };
        let gap = &c.gaps[0];
        assert!(gap.title.contains(title), "{before}: {}", gap.title);
        assert!(gap.paths.algorithmic.iter().any(|p| p.contains(says)), "{before}: {:?}", gap.paths);
        assert!(gap.saved_ms <= c.totals.target.total_ms);
    }
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    for name in ["attn_unfused", "lm_compiled_train", "decode_graphed"] {
        let Some(c) = compare(("h200", name, "H200"), ("h200", name, "H200")) else { continue };
        assert!(c.is_same(), "{name}: {:?}", c.changes.first());
        assert!(c.gaps.is_empty() && c.gone.is_empty() && c.new.is_empty());
        assert!(c.changes.iter().all(|change| change.ms.delta() == 0.0), "{name}");
        assert!(c.operations.iter().all(|o| o.level == Some(MatchLevel::Exact)), "{name}");
    }
}

/// Images of a network channels first, and last, on the same GPU.
fn layouts() -> Option<Comparative> {
    compare(("h200", "resnet50_nhwc", "H200"), ("h200", "resnet50_nchw", "H200"))
}

#[test]
fn a_gpu_does_not_explain_differences_to_itself() {
    let Some(c) = layouts() else { return };
    let expected: Vec<&Compared> = c.notable().filter(|o| o.verdict.is_some_and(Verdict::is_expected)).collect();
    assert!(!expected.is_empty() && expected.iter().all(|o| o.is_within_tolerance()), "{expected:?}");
    let Some(other) = timesformer() else { return };
    assert!(!operation(&other, "aten::addmm", "(25089,768) bf16 (768,3072)").is_within_tolerance());
}

#[test]
fn what_only_the_target_shows_is_one_gap() {
    let Some(c) = layouts() else { return };
    let first = &c.gaps[0];
    assert_eq!(first.source, GapSource::Cause(PatternId::LAYOUT_TRANSPOSES));
    assert!(c.new.contains(&PatternId::LAYOUT_TRANSPOSES) && first.paths.algorithmic[0].contains("channels_last"));
    let members: Vec<&Compared> = first.operations.iter().map(|&at| &c.operations[at]).collect();
    let saved: f64 = members.iter().map(|o| o.saved_ms).sum();
    assert!(members.len() > 10 && (first.saved_ms - saved).abs() < 1e-9);
    assert!(
        members.iter().any(|o| &*o.category == "batchnorm") && members.iter().any(|o| &*o.category == "convolution")
    );
    assert!(members.windows(2).all(|pair| pair[0].saved_ms >= pair[1].saved_ms));
    // What both sides show explains no difference.
    let Some(other) = timesformer() else { return };
    assert!(other.gaps.len() > 1 && other.gaps.iter().all(|gap| matches!(gap.source, GapSource::Operation(_))));
}

#[test]
fn parts_that_cancel_each_other_are_told_apart() {
    let Some(c) = timesformer() else { return };
    let slow = operation(&c, "aten::bmm", "(37632,8,64) bf16 (37632,64,8)");
    let holds = |change: &&Change| change.operations.iter().any(|&at| &c.operations[at] == slow);
    let told = c.large_changes().find(holds).unwrap();
    assert!(told.ms.delta() >= slow.ms.delta() && told.operations.iter().all(|&at| c.operations[at].ms.delta() > 0.0));
}

#[test]
fn where_no_operation_is_matched_none_is_said_to_be_as_expected() {
    let Some(c) = compare(("h200", "decode_eager", "H200"), ("h200", "decode_graphed", "H200")) else { return };
    assert!(c.operations.is_empty() && c.gaps.is_empty());
    let said = c.no_gap();
    assert!(said.starts_with("No operation could be compared: the kernels of the target are recorded with"), "{said}");
    // The graph runs the kernels that it was captured from.
    let ms = c.same_kernels_ms();
    assert!(c.same_kernels.iter().all(|k| (k.runs.reference - k.runs.target).abs() < 1e-9), "{:?}", c.same_kernels);
    near(ms.reference, c.totals.reference.computation_ms, 1);
    near(ms.target, c.totals.target.computation_ms, 1);
    let Some(whole) = timesformer() else { return };
    assert!(whole.same_kernels.is_empty());
}

#[test]
fn advice_tells_no_times_of_the_whole_trace() {
    let Some(c) = layouts() else { return };
    assert_eq!((c.normalization.mode, c.normalization.steps.target), (Mode::PerStep, 2));
    let said = c.gaps.iter().flat_map(|gap| gap.paths.algorithmic.iter().chain(&gap.paths.kernel));
    for sentence in said {
        assert!(!sentence.contains(" ms"), "{sentence}");
    }
}

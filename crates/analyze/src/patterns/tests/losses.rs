//! Losses over many classes.

use super::super::Confidence;
use super::super::loss;
use super::sketch::Sketch;
use super::*;
use crate::finding::{PatternId, Range, Tier};

const TOKENS: &[i64] = &[4, 2048];
const CLASSES: i64 = 65536;

/// What is written in a loss, beside its softmax.
#[derive(Clone, Copy)]
struct Written {
    classes: i64,
    cast: bool,
    shift: bool,
    pick: &'static str,
    trains: bool,
}

const PLAIN: Written = Written { classes: CLASSES, cast: true, shift: false, pick: "nll_loss", trains: true };

/// The loss as the framework runs it, with times that such kernels take.
fn draw(w: Written) -> Sketch {
    let mut s = Sketch::new();
    add(&mut s, w);
    s
}

fn add(s: &mut Sketch, w: Written) {
    let (batch, length) = (TOKENS[0], TOKENS[1]);
    let rows = if w.shift { batch * (length - 1) } else { batch * length };
    let whole: &[i64] = &[batch, length, w.classes];
    let shifted: &[i64] = &[batch, length - 1, w.classes];
    let flat: &[i64] = &[rows, w.classes];
    let dtype = if w.cast || w.shift { "float" } else { "c10::BFloat16" };
    s.op("aten::mm", &[&[batch * length, 1024], &[1024, w.classes]], 10_000.0);
    if w.cast {
        s.sequenced("aten::_to_copy", 1, |s| {
            s.typed("aten::copy_", &[whole, whole], &["float", "c10::BFloat16"], 1600.0);
        });
    }
    if w.shift {
        let strides: &[i64] = &[length * w.classes, w.classes, 1];
        s.sequenced("aten::slice", 2, |_| ());
        s.sequenced("aten::clone", 3, |s| {
            let dense: &[i64] = &[(length - 1) * w.classes, w.classes, 1];
            s.strided("aten::copy_", &[shifted, shifted], &["float", "float"], &[dense, strides], 1600.0);
        });
    }
    // Labels are made ready in between.
    s.typed("aten::copy_", &[&[batch, length - 1], &[batch, length - 1]], &["long int", "long int"], 2.0);
    s.dtype(dtype).sequenced("aten::log_softmax", 4, |s| _ = s.op("aten::_log_softmax", &[flat, &[], &[]], 2000.0));
    match w.pick {
        "nll_loss" | "smoothed" => s.sequenced("aten::nll_loss", 5, |s| {
            s.typed(
                "aten::nll_loss_forward",
                &[flat, &[rows], &[], &[], &[]],
                &[dtype, "long int", "", "Scalar", "Scalar"],
                20.0,
            );
        }),
        "gather" => s.sequenced("aten::gather", 5, |s| {
            s.typed("aten::gather", &[flat, &[], &[rows, 1], &[]], &[dtype, "Scalar", "long int", "Scalar"], 10.0);
        }),
        "mul" => {
            s.op("aten::exp", &[flat], 900.0).op("aten::mul", &[flat, flat], 1300.0).op("aten::neg", &[flat], 900.0)
        }
        _ => s,
    };
    if w.pick == "smoothed" {
        s.sequenced("aten::sum", 6, |s| _ = s.reduce("aten::sum", flat, 480.0));
    }
    if !w.trains {
        s.dtype("c10::BFloat16");
        return;
    }
    if w.pick == "smoothed" {
        s.backward("SumBackward0", 6, |s| _ = s.op("aten::neg", &[&[rows, 1]], 2.0));
    }
    let zeros = |s: &mut Sketch| _ = s.op("aten::fill_", &[flat, &[]], 450.0);
    if w.pick == "gather" {
        s.backward("GatherBackward0", 5, |s| {
            zeros(s);
            s.op("aten::scatter_add_", &[flat, &[], &[rows, 1], &[rows, 1]], 9.0);
        });
    } else {
        s.backward("NllLossBackward0", 5, |s| {
            zeros(s);
            s.op("aten::nll_loss_backward", &[&[], flat, &[rows], &[], &[], &[], &[]], 12.0);
        });
    }
    s.backward("LogSoftmaxBackward0", 4, |s| {
        s.op("aten::_log_softmax_backward_data", &[flat, flat, &[], &[]], 2150.0);
    });
    if w.shift {
        s.backward("SliceBackward0", 2, |s| {
            s.op("aten::fill_", &[whole, &[]], 450.0).op("aten::copy_", &[shifted, shifted], 1600.0);
        });
    }
    if w.cast {
        s.backward("ToCopyBackward0", 1, |s| {
            s.typed("aten::copy_", &[whole, whole], &["c10::BFloat16", "float"], 720.0);
        });
    }
    s.dtype("c10::BFloat16");
}

#[test]
fn the_loss_of_a_language_model_is_one_finding_with_its_backward() {
    let s = draw(Written { shift: true, ..PLAIN });
    let p = s.one(Code::UnfusedLoss);
    assert_eq!(p.ops.len(), 4, "{:?}", p.ops);
    assert!((p.time_ms - 5.22).abs() < 1e-9 && (p.backward_ms - 5.382).abs() < 1e-9, "{} {}", p.time_ms, p.backward_ms);
    s.look(|_, patterns, findings| {
        assert_eq!(patterns.iter().filter(|p| p.is_promoted(0.0)).count(), 1, "nothing of it is told twice");
        let f = &findings[0];
        assert_eq!((f.pattern, f.tier), (PatternId::UNFUSED_MODULE, Tier::Fusion));
        assert_eq!(f.title, "Unfused loss over many classes");
        assert!(
            f.issue.contains("logits of 65536 classes") && f.issue.contains("5.38 ms of it in the backward"),
            "{}",
            f.issue
        );
        let advice = f.paths.algorithmic.join(" ");
        for call in ["torch.compile", "Shift the labels", "last linear layer"] {
            assert!(advice.contains(call), "{advice}");
        }
        assert!(!advice.contains("cross_entropy` in the place of"), "{advice}");
        assert!(f.paths.kernel[0].contains("where they lie"), "{:?}", f.paths.kernel);
        let Range { low, high } = f.impact.speedup;
        assert!(low > 1.4 && high / low < 1.6, "{low} {high}");
    });
}

#[test]
fn a_loss_in_modules_is_told_with_them() {
    let mut s = Sketch::new();
    s.module("CrossEntropyLoss_0", |s| add(s, Written { trains: false, ..PLAIN }));
    let p = s.one(Code::UnfusedLoss);
    assert_eq!((p.confidence, p.module.as_deref()), (Confidence::High, Some("CrossEntropyLoss")));
}

/// What compiled losses of this size took on an H200, in milliseconds.
#[test]
fn compiled_losses_that_were_measured_lie_within_the_range() {
    let measured = [
        (PLAIN, 1.313),
        (Written { cast: false, ..PLAIN }, 1.312),
        (Written { shift: true, ..PLAIN }, 1.744),
        (Written { pick: "smoothed", ..PLAIN }, 2.487),
        (Written { pick: "gather", ..PLAIN }, 2.616),
        (Written { pick: "gather", trains: false, ..PLAIN }, 0.672),
        (Written { pick: "", trains: false, ..PLAIN }, 1.107),
    ];
    for (i, (written, ms)) in measured.into_iter().enumerate() {
        let fused = draw(written).one(Code::UnfusedLoss).fused_ms.unwrap();
        assert!(fused.low < ms && ms < fused.high, "{i}: {ms} is not within {fused:?}");
    }
}

#[test]
fn picking_by_index_is_told_to_become_a_cross_entropy() {
    let advice = |w: Written| draw(w).look(|_, _, findings| findings[0].paths.algorithmic.join(" "));
    let gather = Written { pick: "gather", ..PLAIN };
    assert!(advice(gather).contains("cross_entropy` in the place of"));
    let inference = advice(Written { trains: false, ..gather });
    assert!(inference.contains("torch.compile") && !inference.contains("cross_entropy"), "{inference}");
}

#[test]
fn log_probabilities_that_are_kept_are_no_loss() {
    let s = draw(Written { pick: "", trains: false, ..PLAIN });
    let p = s.one(Code::UnfusedLoss);
    assert!(p.facts.iter().any(|f| f.0 == loss::BARE));
    s.look(|_, _, findings| assert_eq!(findings[0].title, "Unfused log-softmax over many classes"));
    // Alone there is nothing to fuse it with.
    draw(Written { pick: "", cast: false, trains: false, ..PLAIN }).none(Code::UnfusedLoss);
}

#[test]
fn small_classifiers_and_other_softmaxes_are_no_losses_over_many_classes() {
    draw(Written { classes: 1000, ..PLAIN }).none(Code::UnfusedLoss);
    // A function that goes on is told as a whole.
    let mut s = draw(Written { pick: "mul", trains: false, ..PLAIN });
    s.none(Code::UnfusedLoss);
    // A divergence from what another model says, whose softmax is made in between.
    let flat: &[i64] = &[8192, CLASSES];
    s = draw(Written { pick: "", trains: false, ..PLAIN });
    s.typed("aten::copy_", &[flat, flat], &["float", "c10::BFloat16"], 1600.0);
    s.dtype("float").op("aten::_softmax", &[flat, &[], &[]], 1900.0);
    s.op("aten::xlogy", &[flat, flat], 1300.0).op("aten::mul", &[flat, flat], 1300.0).op(
        "aten::sub",
        &[flat, flat],
        1300.0,
    );
    s.none(Code::UnfusedLoss);
    // Few rows.
    let few: &[i64] = &[64, 8192];
    s = Sketch::new();
    s.typed("aten::copy_", &[few, few], &["float", "c10::BFloat16"], 4.0);
    s.dtype("float").op("aten::_log_softmax", &[few, &[], &[]], 6.0).op("aten::nll_loss_forward", &[few, &[64]], 4.0);
    s.none(Code::UnfusedLoss);
    // Attention, and a softmax over the channels of images.
    let x: &[i64] = &[8, 16, 2048, 2048];
    for (softmax, dim) in [("aten::_softmax", "-1"), ("aten::_log_softmax", "1")] {
        s = Sketch::new();
        s.typed("aten::copy_", &[x, x], &["float", "c10::BFloat16"], 800.0);
        s.launch(
            softmax,
            900.0,
            &[
                ("Input Dims", format!("[{x:?}, [], []]")),
                ("Input type", r#"["float", "Scalar", "Scalar"]"#.to_owned()),
                ("Concrete Inputs", format!(r#"["", "{dim}", "False"]"#)),
            ],
        );
        s.typed("aten::copy_", &[x, x], &["c10::BFloat16", "float"], 800.0).none(Code::UnfusedLoss);
    }
}

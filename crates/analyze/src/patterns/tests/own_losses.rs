//! Losses over many classes that normalize their logits by themselves.

use super::sketch::Sketch;
use super::*;

const ROWS: i64 = 8192;
const CLASSES: i64 = 32000;
const LOGITS: &[i64] = &[ROWS, CLASSES];
const PICKED: &[i64] = &[ROWS, 1];

/// How logits are normalized, and what is done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own {
    /// `log(softmax)`, elements picked.
    Logarithm,
    /// The same kept off zero.
    KeptOffZero,
    /// Elements of the softmax, then their logarithm.
    PickedFirst,
    /// `logsumexp` and the logits that it is held against.
    Sum,
    /// The same with the logits picked before.
    SumAfter,
    /// A cross entropy with a penalty on `logsumexp`.
    Penalty,
}

fn gather(s: &mut Sketch) {
    s.typed("aten::gather", &[LOGITS, &[], PICKED, &[]], &["float", "Scalar", "long int", "Scalar"], 10.0);
}

fn log_sum(s: &mut Sketch) {
    s.sequenced("aten::logsumexp", 3, |s| {
        s.reduce("aten::amax", LOGITS, 260.0).op("aten::abs", &[&[ROWS]], 1.0);
        s.op("aten::sub", &[LOGITS, PICKED, &[]], 771.0).op("aten::exp_", &[LOGITS], 494.0);
        s.reduce("aten::sum", LOGITS, 251.0).op("aten::log_", &[&[ROWS]], 1.6);
    });
}

/// As the framework runs it, with times that such kernels took on an H200.
fn draw(own: Own, trains: bool) -> Sketch {
    let mut s = Sketch::new();
    s.op("aten::mm", &[&[ROWS, 1024], &[1024, CLASSES]], 714.0);
    s.sequenced("aten::_to_copy", 1, |s| {
        s.typed("aten::copy_", &[LOGITS, LOGITS], &["float", "c10::BFloat16"], 748.0);
    });
    s.dtype("float");
    let softmax = |s: &mut Sketch| {
        s.sequenced("aten::softmax", 2, |s| _ = s.op("aten::_softmax", &[LOGITS, &[], &[]], 824.0));
    };
    match own {
        Own::Logarithm | Own::KeptOffZero => {
            softmax(&mut s);
            if own == Own::KeptOffZero {
                s.sequenced("aten::clamp_min", 7, |s| _ = s.op("aten::clamp_min", &[LOGITS, &[]], 491.0));
            }
            s.sequenced("aten::log", 3, |s| _ = s.op("aten::log", &[LOGITS], 491.0)).sequenced(
                "aten::gather",
                4,
                gather,
            );
        }
        Own::PickedFirst => {
            softmax(&mut s);
            s.sequenced("aten::gather", 4, gather).op("aten::log", &[PICKED], 1.0);
        }
        Own::Sum => {
            log_sum(&mut s);
            s.sequenced("aten::gather", 4, gather).op("aten::sub", &[&[ROWS], &[ROWS]], 1.0);
        }
        Own::SumAfter => {
            s.sequenced("aten::gather", 4, gather);
            log_sum(&mut s);
        }
        Own::Penalty => {
            s.sequenced("aten::log_softmax", 2, |s| _ = s.op("aten::_log_softmax", &[LOGITS, &[], &[]], 822.0));
            s.sequenced("aten::nll_loss", 4, |s| {
                let types = ["float", "long int", "", "Scalar", "Scalar"];
                s.typed("aten::nll_loss_forward", &[LOGITS, &[ROWS], &[], &[], &[]], &types, 19.0);
            });
            log_sum(&mut s);
            s.op("aten::pow", &[&[ROWS], &[]], 1.0);
        }
    }
    if trains {
        backward(&mut s, own);
    }
    s
}

fn backward(s: &mut Sketch, own: Own) {
    s.backward("GatherBackward0", 4, |s| {
        s.op("aten::fill_", &[LOGITS, &[]], 224.0).op("aten::scatter_add_", &[LOGITS, &[], PICKED, PICKED], 9.0);
    });
    match own {
        Own::Logarithm | Own::KeptOffZero => {
            s.backward("LogBackward0", 3, |s| _ = s.op("aten::div", &[LOGITS, LOGITS], 720.0));
        }
        Own::Sum | Own::SumAfter | Own::Penalty => {
            s.backward("LogsumexpBackward0", 3, |s| {
                s.op("aten::sub", &[LOGITS, PICKED, &[]], 774.0).op("aten::exp", &[LOGITS], 491.0);
                s.op("aten::mul", &[PICKED, LOGITS], 774.0);
            });
        }
        Own::PickedFirst => {}
    }
    if !matches!(own, Own::Sum | Own::SumAfter) {
        s.backward("SoftmaxBackward0", 2, |s| {
            s.op("aten::_softmax_backward_data", &[LOGITS, LOGITS, &[], &[]], 991.0);
        });
    }
    s.backward("ToCopyBackward0", 1, |s| {
        s.typed("aten::copy_", &[LOGITS, LOGITS], &["c10::BFloat16", "float"], 360.0);
    });
}

/// What they took compiled, in milliseconds.
#[test]
fn each_way_to_write_it_is_one_loss_whose_compiled_time_lies_in_the_range() {
    let measured = [
        (Own::Logarithm, true, 1.43),
        (Own::KeptOffZero, true, 1.45),
        (Own::PickedFirst, true, 1.32),
        (Own::Sum, true, 0.975),
        (Own::SumAfter, true, 0.975),
        (Own::Penalty, true, 1.10),
        (Own::Logarithm, false, 0.407),
    ];
    for (own, trains, ms) in measured {
        let p = draw(own, trains).one(Code::UnfusedLoss);
        assert_eq!(p.instances, 1, "{own:?}");
        let fused = p.fused_ms.unwrap();
        assert!(fused.low < ms && ms < fused.high, "{own:?}: {ms} is not within {fused:?}");
        draw(own, trains).none(Code::ElementwiseChain);
    }
}

#[test]
fn what_picks_by_index_is_told_to_become_a_cross_entropy() {
    for own in [Own::Logarithm, Own::PickedFirst, Own::Sum, Own::SumAfter] {
        let advice = draw(own, true).look(|_, _, findings| findings[0].paths.algorithmic.join(" "));
        assert!(advice.contains("cross_entropy` in the place of"), "{own:?}: {advice}");
    }
}

#[test]
fn softmaxes_that_no_logarithm_follows_are_no_losses() {
    // Written out, with the division at its end.
    let mut s = Sketch::new();
    s.dtype("float").reduce("aten::amax", LOGITS, 260.0).op("aten::sub", &[LOGITS, PICKED, &[]], 771.0);
    s.op("aten::exp", &[LOGITS], 494.0).reduce("aten::sum", LOGITS, 251.0).op("aten::div", &[LOGITS, PICKED], 780.0);
    s.none(Code::UnfusedLoss);
    // Probabilities of sampled tokens, and the entropy of all of them.
    for made_of_all in [false, true] {
        s = Sketch::new();
        s.dtype("float").op("aten::_softmax", &[LOGITS, &[], &[]], 824.0);
        if made_of_all {
            s.op("aten::log", &[LOGITS], 491.0).op("aten::mul", &[LOGITS, LOGITS], 720.0);
        } else {
            gather(&mut s);
        }
        s.none(Code::UnfusedLoss);
    }
}

//! Optimizer steps of operations on lists of tensors.

use super::sketch::Sketch;
use crate::finding::{PatternId, Range};
use crate::patterns::{Code, Confidence};

const LISTS: [&str; 3] = ["TensorList", "TensorList", "TensorList"];

/// A step of these operations, each on so many lists.
fn step(ops: &[(&str, usize)], us: f64) -> Sketch {
    let mut s = Sketch::new();
    s.annotated("Optimizer.step#Adam.step", |s| {
        for &(op, lists) in ops {
            s.typed(&format!("aten::_foreach_{op}"), &[&[] as &[i64]; 3][..lists], &LISTS[..lists], us);
        }
    });
    s
}

const ADAM: [(&str, usize); 7] =
    [("lerp_", 2), ("mul_", 1), ("addcmul_", 3), ("sqrt", 1), ("div_", 1), ("add_", 1), ("addcdiv_", 3)];

#[test]
fn a_step_on_lists_passes_over_them_again_and_again() {
    let fused = |ops: &[(&str, usize)], us: f64| {
        let p = step(ops, us).one(Code::UnfusedOptimizer);
        assert_eq!((p.ops.len(), p.confidence), (ops.len(), Confidence::High));
        p.fused_ms.unwrap()
    };
    let close = |r: Range, low: f64, high: f64| (r.low - 0.94 * low).abs() < 1e-9 && (r.high - high).abs() < 1e-9;
    // Seven of eighteen, three, two and four each.
    let adam = fused(&ADAM, 180.0);
    assert!(close(adam, 7.0 * 0.07, 7.0 * 0.07 * 1.25), "{adam:?}");
    // Short kernels leave more.
    let short = fused(&ADAM, 9.0);
    assert!(close(short, 7.0 * 0.0035, 7.0 * 0.0035 * 1.5), "{short:?}");
    let largest = fused(&[&ADAM[..], &[("maximum_", 2)]].concat(), 210.0);
    assert!(close(largest, 9.0 * 0.08, 9.0 * 0.08 * 1.25), "{largest:?}");
    // Momentum: five of eight.
    let momentum = fused(&[("mul_", 1), ("add_", 2), ("add_", 2)], 80.0);
    assert!(close(momentum, 5.0 * 0.03, 5.0 * 0.03 * 1.25), "{momentum:?}");
}

#[test]
fn the_advice_is_the_fused_variant() {
    let finding = step(&ADAM, 180.0).look(|_, _, findings| findings[0].clone());
    assert_eq!((finding.pattern, &*finding.category), (PatternId::UNFUSED_OPTIMIZER, "multi_tensor_apply"));
    assert!(finding.paths.algorithmic[0].contains("`fused=True`"), "{:?}", finding.paths);
    assert!(finding.issue.starts_with("The optimizer step is 7 operations on lists of tensors"), "{}", finding.issue);
}

#[test]
fn what_the_host_gains_is_not_counted_on() {
    // The host is late for every operation: the cautious end saves GPU time, the other spares launches too.
    let all = step(&ADAM, 4.0).analysis().findings;
    let saved = all.into_iter().find(|f| f.pattern == PatternId::UNFUSED_OPTIMIZER).unwrap().impact.saved_ms;
    assert!(saved.low < 0.01 && saved.high > 0.05, "{saved:?}");
}

#[test]
fn what_no_fused_variant_does_is_left() {
    // Without momentum there is one pass; the others have no fused variant.
    step(&[("add_", 2)], 80.0).none(Code::UnfusedOptimizer);
    step(&[("mul_", 1), ("addcmul_", 3), ("sqrt", 1), ("add_", 1), ("addcdiv_", 3)], 80.0).none(Code::UnfusedOptimizer);
    step(&[&ADAM[..], &[("reciprocal_", 1)]].concat(), 80.0).none(Code::UnfusedOptimizer);
    // Outside of a step they may do anything.
    let mut s = Sketch::new();
    for (op, lists) in ADAM {
        s.typed(&format!("aten::_foreach_{op}"), &[&[] as &[i64]; 3][..lists], &LISTS[..lists], 80.0);
    }
    s.none(Code::UnfusedOptimizer);
}

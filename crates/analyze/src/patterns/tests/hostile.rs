//! Calls that no program makes, but a damaged or odd trace may show.

use super::super::Code;
use super::sketch::{Dims, Sketch};

const OPS: &[&str] = &[
    "aten::_softmax",
    "aten::_softmax_backward_data",
    "aten::bmm",
    "aten::baddbmm",
    "aten::matmul",
    "aten::mm",
    "aten::addmm",
    "aten::linear",
    "aten::copy_",
    "aten::mul",
    "aten::add",
    "aten::sub",
    "aten::pow",
    "aten::mean",
    "aten::var",
    "aten::rsqrt",
    "aten::neg",
    "aten::cat",
    "aten::tanh",
    "aten::silu",
    "aten::index",
    "aten::_flash_attention_forward",
    "aten::native_dropout",
    "triton_poi_fused_0",
    "",
];

const MANY: i64 = i64::MAX / 2;

const CALLS: &[Dims<'static>] = &[
    &[],
    &[&[]],
    &[&[0]],
    &[&[-1, 3], &[3, -1]],
    &[&[0, 0, 0], &[0, 0, 0]],
    &[&[4, 0, 8], &[4, 8, 0]],
    &[&[MANY, MANY, MANY], &[MANY, MANY, MANY]],
    &[&[2, 3, 5], &[7, 11]],
    &[&[1], &[1], &[1], &[1], &[1]],
    &[&[4, 16, 128, 128], &[4, 16, 128, 128], &[4, 16, 128, 128]],
];

/// Dimensions that reductions cannot go over.
const OVER: &[&str] = &["[-1, -2, -3]", "[0, 0]", "[5]", "[-9223372036854775808]", "[9223372036854775807, 0]", "-4"];

#[test]
fn nothing_panics_and_no_number_is_odd() {
    for shift in 0..CALLS.len() {
        for with_module in [false, true] {
            let mut s = Sketch::new();
            let draw = |s: &mut Sketch| {
                for round in 0..3 {
                    for (i, op) in OPS.iter().enumerate() {
                        let dims = CALLS[(i + shift * (round + 1)) % CALLS.len()];
                        let first = dims.first().copied().unwrap_or(&[]);
                        let over = OVER[(i + shift + round) % OVER.len()];
                        s.op(op, dims, 3.0).reduce(op, first, 2.0).over(op, first, over, 2.0).bare(op, 1.0);
                    }
                }
            };
            if with_module {
                s.module("SparseMoeAttentionNormMLP_0", draw);
            } else {
                draw(&mut s);
            }
            s.look(|_, patterns, findings| {
                for p in patterns {
                    assert!(
                        p.time_ms.is_finite() && p.saved_ms.is_none_or(|r| r.low.is_finite() && r.high.is_finite())
                    );
                }
                assert!(findings.iter().all(|f| f.impact.saved_ms.low > 0.0));
            });
        }
    }
}

#[test]
fn a_reduction_over_more_dimensions_than_there_are_is_no_norm() {
    let mut s = Sketch::new();
    for op in ["aten::pow", "aten::mean", "aten::rsqrt", "aten::mul"] {
        s.over(op, &[4, 8], "[-1, -2, -3]", 3.0);
    }
    s.none(Code::UnfusedRmsNorm);
}

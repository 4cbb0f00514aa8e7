//! What one pass over memory in the place of a chain moves and computes.

use super::sketch::Sketch;
use crate::finding::{Finding, PatternId};
use crate::patterns::Code;

#[test]
fn columns_of_a_larger_tensor_are_read_with_what_lies_between() {
    // x1, y1, x2, y2 = boxes.unbind(-1): ((x2 - x1) * (y2 - y1)).clamp(0, 9).sqrt()
    let x: &[i64] = &[4 << 20];
    let moved = |stride: i64, us: f64| {
        let (column, dense): (&[i64], &[i64]) = (&[stride], &[1]);
        let mut s = Sketch::new();
        s.dtype("float").strided("aten::sub", &[x, x], &["float"; 2], &[column, column], us);
        s.strided("aten::sub", &[x, x], &["float"; 2], &[column, column], us);
        s.strided("aten::mul", &[x, x], &["float"; 2], &[dense, dense], 12.0).op("aten::sqrt", &[x], 8.0);
        let basis = s.one(Code::ElementwiseChain).basis;
        let moved = basis.split("one pass moves ").nth(1).unwrap();
        moved.split(" and takes").next().unwrap().to_owned()
    };
    // 16 MiB a tensor. Without gaps: two are read, one or none more comes in, one is written.
    assert_eq!(moved(1, 25.0), "48.0 MiB to 64.0 MiB");
    // Four columns lie together, in one tensor or two; in the time of one column's tensor no other can be read.
    assert_eq!(moved(4, 33.0), "80.0 MiB to 184.0 MiB");
    assert_eq!(moved(4, 18.0), "80.0 MiB to 122.4 MiB");
    // No more than the pieces that memory is read in.
    assert_eq!(moved(64, 60.0), moved(8, 60.0));
}

#[test]
fn a_cast_for_nothing_but_a_reduction_is_told() {
    let x: &[i64] = &[4096, 4096];
    let draw = |from: &str, op: &str, read: &[i64]| {
        let mut s = Sketch::new();
        s.typed("aten::copy_", &[x, x, &[]], &["float", from, "Scalar"], 30.0)
            .dtype("float")
            .over(op, read, "[0]", 20.0);
        s.op("aten::mm", &[&[64, 64], &[64, 64]], 5.0);
        s
    };
    let sum = draw("c10::BFloat16", "aten::sum", x);
    assert_eq!(sum.one(Code::ElementwiseChain).ops.len(), 2);
    let advice = |s: &Sketch| {
        let of = |f: &&Finding| f.pattern == PatternId::ELEMENTWISE_CHAIN;
        s.look(|_, _, findings| findings.iter().find(of).unwrap().paths.algorithmic.join(" "))
    };
    assert!(advice(&sum).contains("Pass `dtype=` to `aten::sum`"), "{}", advice(&sum));
    let largest = draw("c10::BFloat16", "aten::amax", x);
    assert!(!advice(&largest).contains("dtype="), "it has no such argument");
    draw("float", "aten::sum", x).none(Code::ElementwiseChain);
    // One after the other, and with what is done to the sums.
    let mut s = Sketch::new();
    for _ in 0..3 {
        s.typed("aten::copy_", &[x, x, &[]], &["float", "c10::BFloat16", "Scalar"], 30.0);
        s.dtype("float").over("aten::sum", x, "[0]", 20.0);
    }
    assert_eq!(s.one(Code::ElementwiseChain).instances, 3);
    let mut s = draw("c10::BFloat16", "aten::mean", x);
    s.typed("aten::copy_", &[x, x, &[]], &["float", "c10::BFloat16", "Scalar"], 30.0);
    s.over("aten::mean", x, "[0]", 20.0).op("aten::sqrt", &[&[1, 4096]], 2.0);
    assert_eq!(s.patterns(Code::ElementwiseChain).len(), 2);
    draw("c10::BFloat16", "aten::sum", &[64, 64]).none(Code::ElementwiseChain);
}

#[test]
fn what_stands_before_a_reduction_of_a_few_is_computed_for_each() {
    // y = x ** 2.2; (y - y.mean(1, keepdim=True)) * 1.3
    let fused_us = |channels: i64| {
        let x: &[i64] = &[96 / channels, channels, 1024, 1024];
        let of_one: &[i64] = &[96 / channels, 1, 1024, 1024];
        let mut s = Sketch::new();
        s.dtype("float").launch(
            "aten::pow",
            200.0,
            &[
                ("Input Dims", format!("[{x:?}, []]")),
                ("Input type", "[\"float\", \"Scalar\"]".to_owned()),
                ("Concrete Inputs", "[\"\", \"2.2\"]".to_owned()),
            ],
        );
        s.over("aten::mean", x, "[1]", 100.0).op("aten::sub", &[x, of_one], 250.0).op("aten::mul", &[x, &[]], 180.0);
        1e3 * s.one(Code::ElementwiseChain).fused_ms.unwrap().low
    };
    // 98 instructions for a power, for each of three channels and once more; of 32 channels the mean is kept.
    let us = |instructions: f64| 96.0 * f64::from(1 << 20) * instructions / 33.5e6;
    assert!(fused_us(3) > us(0.85 * 4.0 * 98.0), "{}", fused_us(3));
    assert!(fused_us(32) < us(2.0 * 98.0), "{}", fused_us(32));
}

#[test]
fn what_looks_like_a_rotation_within_a_longer_function_is_part_of_it() {
    let n = 1 << 22;
    let (x, parts): (&[i64], &[i64]) = (&[n], &[n, 1]);
    let draw = |around: bool, matrix: bool| {
        let mut s = Sketch::new();
        s.dtype("float");
        if around {
            for op in ["aten::mul", "aten::add", "aten::mul", "aten::add"] {
                s.op(op, &[x, x], 20.0);
            }
            s.op("aten::rsqrt", &[x], 15.0);
        }
        s.op("aten::mul", &[x, x], 20.0).op("aten::mul", &[x, x], 20.0).op("aten::sub", &[x, x], 20.0);
        s.op("aten::mul", &[x, x], 20.0).op("aten::mul", &[x, x], 20.0).op("aten::add", &[x, x], 20.0);
        s.cat(&[parts, parts], 30.0);
        if matrix {
            s.op("aten::mm", &[&[512, 512], &[512, 512]], 5.0);
        }
        s
    };
    assert_eq!(draw(true, false).one(Code::ElementwiseChain).ops.len(), 12);
    assert_eq!(draw(false, false).one(Code::UnfusedRope).ops.len(), 7);
    assert_eq!(draw(true, true).one(Code::UnfusedRope).ops.len(), 7);
}

//! Gradients that are put together twice.

use super::sketch::Sketch;
use crate::finding::PatternId;
use crate::patterns::Code;

const PART: &[i64] = &[16, 12, 1024, 128];
const ALL: &[i64] = &[16, 1024, 3, 12, 128];

/// What attention's backward leaves of three parts, and what is done with it.
fn draw(name: &str, strides: &[i64]) -> Sketch {
    let mut s = Sketch::new();
    for step in 0..4 {
        s.backward("Unbind", step, |s| {
            let args = [
                ("Input Dims", format!("[[{PART:?}, {PART:?}, {PART:?}], []]")),
                ("Input type", r#"["TensorList", "Scalar"]"#.to_owned()),
            ];
            s.within(name, |s| {
                s.launch("aten::cat", 298.0, &args);
            });
        });
        s.backward("View", 10 + step, |s| {
            let types = ["c10::BFloat16", "c10::BFloat16", "Scalar"];
            let plain: &[i64] = &[4_718_592, 4608, 1536, 128, 1];
            s.strided("aten::copy_", &[ALL, ALL, &[]], &types, &[plain, strides, &[]], 237.0);
        });
    }
    s
}

#[test]
fn gradients_of_parts_that_are_written_twice() {
    let turned = &[1_572_864, 128, 25_165_824, 131_072, 1];
    let p = draw("aten::stack", turned).one(Code::StackedGradients);
    assert_eq!((p.id, p.instances, p.ops.len()), (PatternId::LOW_BANDWIDTH_ELEMENTWISE, 4, 2));
    // 302 MB at 40 to 85 % of the bandwidth; 75 us were measured.
    let fused = p.fused_ms.unwrap();
    assert!(fused.low < 4.0 * 0.075 && fused.high > 4.0 * 0.075 && fused.high < 2.2 * fused.low, "{fused:?}");
    // As it lies; put together as it is needed.
    draw("aten::stack", &[4_718_592, 4608, 1536, 128, 1]).none(Code::StackedGradients);
    draw("aten::cat", turned).none(Code::StackedGradients);
}

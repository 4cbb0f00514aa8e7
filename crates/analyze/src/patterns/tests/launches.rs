//! What compiling brings where the GPU waits for launches.

use super::sketch::Sketch;
use crate::finding::PatternId;

/// The hopeful end where the GPU waits between these operations, repeated.
fn hopeful(ops: &[(&str, &[i64], f64)]) -> f64 {
    let mut s = Sketch::new();
    for _ in 0..24 {
        for &(name, dims, us) in ops {
            s.op(name, &[dims], us);
        }
    }
    let finding = s.analysis().findings.into_iter().find(|f| f.pattern == PatternId::LAUNCH_BOUND).unwrap();
    finding.impact.speedup.high
}

const IMAGES: &[i64] = &[8, 64, 32, 32];

#[test]
fn one_pass_takes_the_place_of_several_over_the_same_elements() {
    let passes = hopeful(&[
        ("aten::sort", IMAGES, 4.0),
        ("aten::add_", IMAGES, 2.0),
        ("aten::relu", IMAGES, 2.0),
        ("aten::mul", IMAGES, 3.0),
    ]);
    // The same times, with tensors of other sizes or work that is no pass between them.
    let sizes = hopeful(&[
        ("aten::sort", IMAGES, 4.0),
        ("aten::add_", IMAGES, 2.0),
        ("aten::relu", &[8, 64, 32, 16], 2.0),
        ("aten::mul", IMAGES, 3.0),
    ]);
    let between = hopeful(&[
        ("aten::add_", IMAGES, 2.0),
        ("aten::sort", IMAGES, 2.0),
        ("aten::mul", IMAGES, 3.0),
        ("aten::sort", IMAGES, 4.0),
    ]);
    assert!((sizes - between).abs() < 0.01 * sizes, "{sizes} {between}");
    // 7 of 11 us are left.
    let gain = passes / sizes;
    assert!((1.4..1.7).contains(&gain), "{passes} {sizes}");
}

//! Tests of what findings say once bottlenecks are merged.

use crate::finding::{Finding, PatternId, Priority, Range};
use crate::testing::{Call, Scene, analyzed};

const BF16: &str = r#"["c10::BFloat16"]"#;

/// Ten calls on a bf16 matrix of so many MiB, at so many percent of 4.8 TB/s.
fn unary(scene: &mut Scene, name: &str, mb: f64, percent: f64) {
    let dims = format!("[[{}, 1024]]", mb * 512.0);
    let us = 2.0 * mb * 1_048_576.0 / 4.8e6 * 100.0 / percent;
    scene.calls(10, &Call::new(name, &dims, BF16, &[("k", us)]));
}

fn found(scene: &Scene) -> Vec<Finding> {
    analyzed(&scene.prepared()).1
}

#[test]
fn a_merged_finding_tells_of_all_it_is_about() {
    let mut scene = Scene::new();
    // The two shapes of one operation take longer than the other one, but that has the largest shape.
    unary(&mut scene, "aten::relu", 64.0, 20.0);
    unary(&mut scene, "aten::relu", 60.0, 20.0);
    unary(&mut scene, "aten::sigmoid", 64.0, 12.0);
    let all = found(&scene);
    let [f] = all.as_slice() else { panic!("{} findings", all.len()) };
    // 188 MiB read and written in the time of 1153.
    assert!(f.title.ends_with("`aten::sigmoid` and `aten::relu` at 16.3% of peak on average"), "{}", f.title);
    assert!(
        f.issue.contains("`aten::sigmoid` moves 0.58 of 4.80 TB/s (12.0% of peak) on its only shape"),
        "{}",
        f.issue
    );
    let saved = |text: &String| text.split(' ').find_map(|word| word.parse::<f64>().ok());
    let told = f.paths.kernel.iter().find(|s| s.contains("bandwidth gap")).and_then(saved);
    assert!((told.unwrap_or_default() - f.impact.saved_ms.high).abs() < 0.01, "{told:?} of {:?}", f.impact.saved_ms);
}

#[test]
fn operations_that_are_left_out_are_counted() {
    let mut scene = Scene::new();
    for more in 0..29 {
        unary(&mut scene, "aten::relu", 64.0 + f64::from(more), 2.0);
    }
    let all = found(&scene);
    let [f] = all.as_slice() else { panic!("{} findings", all.len()) };
    let listed: f64 = f.operations.iter().map(|o| o.time_ms).sum();
    assert_eq!((f.operations.len(), f.operations_total), (24, 29));
    assert!((listed + f.operations_left_out_ms - f.time_ms).abs() < 1e-6, "{listed} and {}", f.operations_left_out_ms);
}

#[test]
fn a_large_operation_without_a_model_is_told_without_a_number() {
    let told = |us: f64| {
        let mut scene = Scene::new();
        scene.calls(
            4,
            &Call::new("vllm::moe_wna16_gemm", "[[8, 64]]", r#"["mine::Packed"]"#, &[("fused_moe_kernel", us)]),
        );
        scene.mm(10, [4096, 4096, 4096], 180.0);
        found(&scene)
    };
    let all = told(900.0);
    let [f] = all.as_slice() else { panic!("{} findings", all.len()) };
    assert_eq!((f.pattern, f.priority), (PatternId::MOE_BELOW_BAND, Priority::High));
    assert!(f.is_unquantified() && f.impact.saved_ms == Range::new(0.0, 0.0));
    assert!(f.title.ends_with("66.7% of compute"), "{}", f.title);
    assert!(!f.paths.algorithmic.is_empty() && !f.paths.kernel.is_empty(), "both paths: {:?}", f.paths);
    assert!(told(40.0).is_empty(), "a twelfth of the time");
}

#[test]
fn shapes_that_are_fast_enough_are_counted() {
    for (others, told) in [(0, "on its only shape;"), (1, "on one of its 2 shapes;"), (2, "on one of its 3 shapes;")] {
        let mut scene = Scene::new();
        unary(&mut scene, "aten::relu", 64.0, 12.0);
        for other in 0..others {
            unary(&mut scene, "aten::relu", 80.0 + f64::from(other), 70.0);
        }
        let issue = found(&scene)[0].issue.clone();
        assert!(issue.contains(told), "{issue}");
    }
    let mut scene = Scene::new();
    unary(&mut scene, "aten::relu", 64.0, 12.0);
    unary(&mut scene, "aten::relu", 60.0, 12.0);
    assert!(found(&scene)[0].issue.contains("on its largest shape;"));
    unary(&mut scene, "aten::relu", 40.0, 70.0);
    assert!(found(&scene)[0].issue.contains("on the largest of 2 of its 3 shapes;"));
}

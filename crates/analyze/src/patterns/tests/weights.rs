//! Weights that are made, cast or copied in every call, and adapters beside them.

use super::sketch::Sketch;
use crate::patterns::{Code, Confidence};

#[test]
fn weights_that_are_made_in_every_call_could_be_made_once() {
    let (w, x): (&[i64], &[i64]) = (&[4096, 4096], &[64, 4096]);
    let draw = |made: &[i64], trains: bool| {
        let mut s = Sketch::new();
        s.module("Linear_0", |s| {
            s.sequenced("aten::mul", 1, |s| {
                s.typed("aten::copy_", &[made, made], &["c10::BFloat16", "float"], 40.0);
                s.op("aten::mul", &[made, &[made[0], 1]], 40.0);
            });
            s.op("aten::mm", &[x, w], 10.0);
        });
        if trains {
            s.backward("MulBackward0", 1, |s| {
                s.op("aten::mul", &[made, made], 40.0);
            });
        }
        s
    };
    let advice = |s: &Sketch| s.look(|_, _, findings| findings[0].paths.algorithmic[0].clone());
    let s = draw(w, false);
    assert!(advice(&s).starts_with("Make the weight once"), "{}", advice(&s));
    assert!(s.one(Code::UnfusedModule).fused_ms.unwrap().low < 1e-9);
    // The input of the product, and weights that are learnt.
    assert!(!advice(&draw(x, false)).contains("weight once"));
    assert!(!advice(&draw(w, true)).contains("weight once"));
}

#[test]
fn weights_that_are_cast_in_every_call() {
    let (weight, bias, x): (&[i64], &[i64], &[i64]) = (&[4096, 1024], &[4096], &[512, 1024]);
    let draw = |cast: bool, trains: bool| {
        let types = if cast { ["c10::BFloat16", "float"] } else { ["c10::BFloat16", "c10::BFloat16"] };
        let mut s = Sketch::new();
        for layer in 0..4 {
            s.module(&format!("Linear_{layer}"), |s| {
                s.typed("aten::copy_", &[bias, bias], &types, 2.0).typed("aten::copy_", &[weight, weight], &types, 7.0);
                s.typed("aten::copy_", &[x, x], &types, 2.0);
                s.op("aten::addmm", &[bias, x, &[1024, 4096], &[], &[]], 9.0);
            });
            s.op("aten::mul", &[&[512, 4096], &[]], 3.0);
        }
        if trains {
            s.backward("AddmmBackward0", 1, |s| {
                s.op("aten::mm", &[&[4096, 512], &[512, 1024]], 9.0);
            });
        }
        s
    };
    let s = draw(true, false);
    let p = s.one(Code::WeightCopies);
    // The cast of the input stays.
    assert_eq!((p.instances, p.ops.len(), p.confidence), (4, 2, Confidence::High));
    let (title, advice) = s.look(|_, _, f| (f[0].title.clone(), f[0].paths.algorithmic[0].clone()));
    assert_eq!(title, "Weights cast in every call in `Linear`");
    assert!(advice.contains("model.to(torch.bfloat16)"), "{advice}");
    let (title, advice) = draw(false, false).look(|_, _, f| (f[0].title.clone(), f[0].paths.algorithmic[0].clone()));
    assert!(title.starts_with("Weights copied") && advice.starts_with("Keep the copy"), "{title}: {advice}");
    // Weights that are learnt change from step to step.
    draw(true, true).none(Code::WeightCopies);
}

#[test]
fn weights_of_one_byte_are_dequantized_with_their_scales() {
    let (weight, x): (&[i64], &[i64]) = (&[4096, 1024], &[512, 1024]);
    let draw = |stored: &'static str, scale: &[i64]| {
        let mut s = Sketch::new();
        for _ in 0..4 {
            s.typed("aten::copy_", &[weight, weight], &["c10::BFloat16", stored], 7.0);
            s.op("aten::mul", &[weight, scale], 6.0).op("aten::mm", &[x, &[1024, 4096]], 9.0);
        }
        s
    };
    let s = draw("signed char", &[4096, 1]);
    let p = s.one(Code::WeightCopies);
    assert_eq!((p.instances, p.ops.len()), (4, 2));
    s.look(|_, _, findings| {
        let f = &findings[0];
        assert_eq!(f.title, "Weights dequantized in every call");
        assert!(f.issue.contains("in a wider type") && f.issue.contains("(copy, mul)"), "{}", f.issue);
        assert!(f.paths.algorithmic[0].starts_with("Dequantize the weights once"), "{:?}", f.paths);
    });
    assert_eq!(draw("c10::Float8_e4m3fn", &[4096, 1]).one(Code::WeightCopies).ops.len(), 2);
    // What is stored as wide is not dequantized, and two tensors of its size make no weight.
    draw("float", &[4096, 1]).none(Code::WeightCopies);
    draw("signed char", weight).none(Code::WeightCopies);
}

#[test]
fn what_autocast_casts_beside_weights_goes_as_well() {
    let (weight, x): (&[i64], &[i64]) = (&[4096, 4096], &[8192, 4096]);
    let draw = |wrapped: bool| {
        let (cast, mixed) = (["c10::BFloat16", "float"], ["float", "c10::BFloat16", "Scalar"]);
        let mut s = Sketch::new();
        for _ in 0..4 {
            let product = |s: &mut Sketch| {
                s.typed("aten::copy_", &[weight, weight], &cast, 20.0).typed("aten::copy_", &[x, x], &cast, 50.0);
                s.op("aten::mm", &[x, &[4096, 4096]], 400.0);
            };
            if wrapped {
                s.within("aten::linear", product);
            } else {
                product(&mut s);
            }
            s.typed("aten::add", &[x, x, &[]], &mixed, 120.0);
        }
        s
    };
    let s = draw(true);
    let p = s.one(Code::WeightCopies);
    assert_eq!((p.instances, p.ops.len()), (4, 1));
    assert!((p.time_ms - 0.08).abs() < 1e-9 && (p.halo_ms - 0.2).abs() < 1e-9, "{} {}", p.time_ms, p.halo_ms);
    s.look(|_, _, f| {
        let f = f.iter().find(|f| f.title.starts_with("Weights cast in every call")).unwrap();
        assert!(f.issue.starts_with("Weights, and what is multiplied with them, are cast"), "{}", f.issue);
        assert!(f.impact.basis.contains("norms between the products take 0."), "{}", f.impact.basis);
        // Ten bytes an element are six then, of three additions.
        assert!(f.impact.saved_ms.high > 0.28 + 0.4 * 3.0 * 0.12, "{:?}", f.impact);
        assert!(f.impact.saved_ms.low < 0.08 + 0.66 * 0.2, "{:?}", f.impact);
    });
    // Others may have reasons of their own to cast what is multiplied.
    let p = draw(false).one(Code::WeightCopies);
    assert!(p.halo_ms == 0.0 && (p.time_ms - 0.08).abs() < 1e-9, "{} {}", p.time_ms, p.halo_ms);
}

#[test]
fn adapters_beside_linear_layers() {
    let (x, out): (&[i64], &[i64]) = (&[4096, 2048], &[4096, 2048]);
    let draw = |rank: i64, summed: &str, trains: bool| {
        let mut s = Sketch::new();
        for layer in 0..3 {
            s.module(&format!("LoraLinear_{layer}"), |s| {
                s.op("aten::mm", &[x, &[2048, 2048]], 45.0).op("aten::mm", &[x, &[2048, rank]], 8.0);
                s.op("aten::mm", &[&[4096, rank], &[rank, 2048]], 9.0);
                s.op("aten::mul", &[out, &[]], 11.0).op(summed, &[out, out, &[]], 16.0);
            });
        }
        if trains {
            s.backward("MmBackward0", 1, |s| {
                s.op("aten::mm", &[&[2048, 4096], x], 45.0);
            });
        }
        s
    };
    let s = draw(16, "aten::add", false);
    let p = s.one(Code::Adapters);
    assert_eq!((p.instances, p.ops.len(), p.confidence), (3, 4, Confidence::High));
    s.look(|_, _, findings| {
        assert_eq!(findings[0].title, "Adapters beside linear layers in `LoraLinear`");
        assert!(findings[0].paths.algorithmic[0].starts_with("Merge the adapters"), "{:?}", findings[0].paths);
        assert!((findings[0].time_ms - 0.132).abs() < 1e-9, "{}", findings[0].time_ms);
    });
    // Too wide for one, no sum, and what is learnt.
    draw(512, "aten::add", false).none(Code::Adapters);
    draw(16, "aten::sub", false).none(Code::Adapters);
    draw(16, "aten::add", true).none(Code::Adapters);
}

//! Norms.

use super::sketch::Sketch;
use crate::finding::PatternId;
use crate::patterns::{Code, Confidence};

const X: &[i64] = &[8, 2048, 4096];
const ROW: &[i64] = &[8, 2048, 1];
const W: &[i64] = &[4096];

/// As language models write it: in float, then back.
fn rms(s: &mut Sketch) {
    s.typed("aten::copy_", &[X, X], &["float", "c10::BFloat16"], 100.0);
    s.dtype("float").op("aten::pow", &[X, &[]], 60.0).reduce("aten::mean", X, 40.0);
    s.op("aten::add", &[ROW, &[], &[]], 1.0).op("aten::rsqrt", &[ROW], 1.0).op("aten::mul", &[X, ROW], 100.0);
    s.typed("aten::copy_", &[X, X], &["c10::BFloat16", "float"], 50.0);
    s.dtype("c10::BFloat16").op("aten::mul", &[W, X], 90.0);
}

#[test]
fn rms_norm_in_a_module_and_without_one() {
    let mut s = Sketch::new();
    s.module("LlamaRMSNorm_0", rms).module("LlamaRMSNorm_1", rms);
    let p = s.one(Code::UnfusedRmsNorm);
    assert_eq!((p.instances, p.ops.len(), p.confidence), (2, 8, Confidence::High));
    let path = s.look(|_, _, findings| findings[0].paths.algorithmic.clone());
    assert_eq!(path[0], "Replace the decomposed RMS norm with one fused kernel: `torch.nn.RMSNorm`.");
    // A sum of two tensors before and after belongs to the block, not to the norm.
    let mut s = Sketch::new();
    s.op("aten::add", &[X, X, &[]], 50.0);
    rms(&mut s);
    s.op("aten::mm", &[&[16384, 4096], &[4096, 4096]], 500.0).op("aten::add", &[X, X, &[]], 50.0);
    let p = s.one(Code::UnfusedRmsNorm);
    assert_eq!((p.ops.len(), p.confidence), (8, Confidence::Medium));
}

#[test]
fn fused_norms_of_short_rows_and_of_parts_take_longer() {
    // Queries of heads, on their own or beside keys and values.
    let fused = |heads: i64, length: i64, width: i64| {
        let (x, row): (&[i64], &[i64]) = (&[2, 4096, heads, length], &[2, 4096, heads, 1]);
        let strides: &[i64] = &[4096 * width, width, length, 1];
        let mut s = Sketch::new();
        s.strided("aten::copy_", &[x, x], &["float", "c10::BFloat16"], &[strides, strides], 300.0);
        s.dtype("float").op("aten::pow", &[x, &[]], 200.0).reduce("aten::mean", x, 150.0);
        s.op("aten::add", &[row, &[], &[]], 1.0).op("aten::rsqrt", &[row], 1.0).op("aten::mul", &[x, row], 300.0);
        s.typed("aten::copy_", &[x, x], &["c10::BFloat16", "float"], 100.0);
        s.dtype("c10::BFloat16").op("aten::mul", &[&[length], x], 200.0);
        s.one(Code::UnfusedRmsNorm).fused_ms.unwrap().high
    };
    let [long, short, shorter] = [(8, 512), (32, 128), (128, 32)].map(|(heads, length)| fused(heads, length, 4096));
    // 134 MB at a quarter, 0.11 and a fourth of that of the peak bandwidth, and the arithmetic beside them.
    assert!(long > 0.11 && long < 0.13 && short > 0.25 && short < 0.27 && shorter > 3.5 * short, "{long} {short}");
    assert!(fused(32, 128, 3 * 4096) > 1.2 * short);
}

#[test]
fn rms_norm_whose_root_is_cast_back() {
    let mut s = Sketch::new();
    s.typed("aten::copy_", &[X, X], &["float", "c10::BFloat16"], 100.0);
    s.dtype("float").op("aten::pow", &[X, &[]], 60.0).reduce("aten::mean", X, 40.0);
    s.op("aten::add", &[ROW, &[], &[]], 1.0).op("aten::rsqrt", &[ROW], 1.0);
    s.typed("aten::copy_", &[ROW, ROW], &["c10::BFloat16", "float"], 1.0);
    s.dtype("c10::BFloat16").op("aten::mul", &[X, ROW], 90.0).op("aten::mul", &[X, W], 90.0);
    assert_eq!(s.one(Code::UnfusedRmsNorm).ops.len(), 8);
}

#[test]
fn casts_for_the_means_and_for_the_scaling_both_belong_to_it() {
    // x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + eps)
    let cast = |s: &mut Sketch, to, from| {
        s.typed("aten::copy_", &[X, X], &[to, from], 100.0);
    };
    let mut s = Sketch::new();
    cast(&mut s, "float", "c10::BFloat16");
    rms(&mut s);
    cast(&mut s, "float", "c10::BFloat16");
    rms(&mut s);
    let p = s.one(Code::UnfusedRmsNorm);
    assert_eq!((p.instances, p.ops.len()), (2, 9));
    // What was cast the other way just before is the result of something else.
    let mut s = Sketch::new();
    s.module("LlamaRMSNorm_0", |s| {
        cast(s, "c10::BFloat16", "float");
        rms(s);
    });
    assert_eq!(s.one(Code::UnfusedRmsNorm).ops.len(), 8);
}

#[test]
fn division_by_the_length_of_a_row() {
    let mut s = Sketch::new();
    s.op("aten::linalg_vector_norm", &[X, &[], &[], &[], &[]], 40.0);
    s.op("aten::clamp_min", &[ROW, &[]], 1.0).op("aten::div", &[X, ROW], 90.0).op("aten::mul", &[X, &[]], 80.0);
    s.op("aten::mul", &[X, W], 90.0);
    assert_eq!(s.one(Code::UnfusedRmsNorm).ops.len(), 5);
}

#[test]
fn two_norms_in_a_row_are_two() {
    let mut s = Sketch::new();
    rms(&mut s);
    rms(&mut s);
    let p = s.one(Code::UnfusedRmsNorm);
    assert_eq!((p.instances, p.ops.len()), (2, 8));
}

#[test]
fn a_single_row_is_a_norm_too() {
    let (x, row): (&[i64], &[i64]) = (&[1, 1, 1024], &[1, 1, 1]);
    let mut s = Sketch::new();
    s.op("aten::pow", &[x, &[]], 2.0).reduce("aten::mean", x, 2.0);
    s.op("aten::add", &[row, &[], &[]], 2.0).op("aten::rsqrt", &[row], 2.0);
    s.op("aten::mul", &[x, row], 2.0).op("aten::mul", &[&[1024], x], 2.0);
    assert_eq!(s.one(Code::UnfusedRmsNorm).ops.len(), 6);
}

#[test]
fn layer_norm_in_its_forms() {
    let mut pow = Sketch::new();
    pow.reduce("aten::mean", X, 40.0).op("aten::sub", &[X, ROW, &[]], 90.0).op("aten::pow", &[X, &[]], 60.0);
    pow.reduce("aten::mean", X, 40.0).op("aten::add", &[ROW, &[], &[]], 1.0).op("aten::rsqrt", &[ROW], 1.0);
    pow.op("aten::mul", &[X, ROW], 90.0).op("aten::mul", &[X, W], 90.0).op("aten::add", &[X, W, &[]], 90.0);
    assert_eq!(pow.one(Code::UnfusedLayerNorm).ops.len(), 9);
    let mut var = Sketch::new();
    var.reduce("aten::mean", X, 40.0).op("aten::sub", &[X, ROW, &[]], 90.0).reduce("aten::var", X, 60.0);
    var.op("aten::add", &[ROW, &[], &[]], 1.0).op("aten::sqrt", &[ROW], 1.0).op("aten::div", &[X, ROW], 90.0);
    assert_eq!(var.one(Code::UnfusedLayerNorm).ops.len(), 6);
    let mut std = Sketch::new();
    std.reduce("aten::mean", X, 40.0).op("aten::sub", &[X, ROW, &[]], 90.0).op("aten::mul", &[W, X], 90.0);
    std.reduce("aten::std", X, 60.0).op("aten::add", &[ROW, &[], &[]], 1.0).op("aten::div", &[X, ROW], 90.0);
    assert_eq!(std.one(Code::UnfusedLayerNorm).ops.len(), 6);
}

/// As networks for images write it: over the second dimension.
#[test]
fn layer_norm_over_channels() {
    let (x, row, w): (&[i64], &[i64], &[i64]) = (&[32, 256, 64, 64], &[32, 1, 64, 64], &[256, 1, 1]);
    let draw = |weight: &[i64]| {
        let mut s = Sketch::new();
        s.module("Norm_0", |s| {
            s.over("aten::mean", x, "[1]", 40.0).op("aten::sub", &[x, row, &[]], 90.0).op("aten::pow", &[x, &[]], 60.0);
            s.over("aten::mean", x, "[1]", 40.0).op("aten::sub", &[x, row, &[]], 90.0);
            s.op("aten::add", &[row, &[], &[]], 1.0).op("aten::sqrt", &[row], 1.0).op("aten::div", &[x, row], 90.0);
            s.op("aten::mul", &[weight, x], 90.0).op("aten::add", &[x, weight, &[]], 90.0);
        });
        s
    };
    for weight in [w, &[1, 256, 1, 1]] {
        let s = draw(weight);
        let p = s.one(Code::UnfusedLayerNorm);
        assert_eq!((p.ops.len(), &p.facts[..]), (10, &[("name", "layer norm over channels".to_owned())][..]));
        s.none(Code::UnfusedBatchNorm);
        s.none(Code::ElementwiseChain);
        s.look(|_, _, findings| {
            assert_eq!(findings[0].title, "Unfused layer norm in `Norm`");
            assert!(findings[0].paths.algorithmic.iter().any(|a| a.contains("channels-last memory")));
        });
    }
    // Weights of columns are something else.
    assert_eq!(draw(&[64]).one(Code::UnfusedLayerNorm).ops.len(), 8);
}

#[test]
fn a_norm_by_itself_may_be_a_step_of_a_longer_function() {
    let (x, row): (&[i64], &[i64]) = (&[4096, 8192], &[4096, 1]);
    let draw = |module: bool, more: usize| {
        let norm = |s: &mut Sketch| {
            s.over("aten::mean", x, "[1]", 40.0).op("aten::sub", &[x, row, &[]], 90.0).op("aten::pow", &[x, &[]], 60.0);
            s.over("aten::mean", x, "[1]", 40.0).op("aten::add", &[row, &[], &[]], 1.0);
            s.op("aten::rsqrt", &[row], 1.0).op("aten::mul", &[x, row], 90.0);
        };
        let mut s = Sketch::new();
        if module {
            s.module("Norm_0", norm);
        } else {
            norm(&mut s);
        }
        for _ in 0..more {
            s.op("aten::tanh", &[x], 60.0).op("aten::neg", &[x], 60.0);
        }
        s
    };
    assert_eq!(draw(false, 0).one(Code::UnfusedLayerNorm).ops.len(), 7);
    draw(false, 1).none(Code::UnfusedLayerNorm);
    assert_eq!(draw(false, 1).one(Code::ElementwiseChain).ops.len(), 9);
    assert_eq!(draw(true, 1).one(Code::UnfusedLayerNorm).ops.len(), 7);
}

#[test]
fn weights_of_channels_make_a_group_norm() {
    let (x, groups, row): (&[i64], &[i64], &[i64]) = (&[8, 256, 64, 64], &[8, 32, 32768], &[8, 32, 1]);
    let draw = |weight: &[i64]| {
        let mut s = Sketch::new();
        s.reduce("aten::mean", groups, 40.0).reduce("aten::var", groups, 40.0);
        s.op("aten::sub", &[groups, row, &[]], 90.0).op("aten::add", &[row, &[], &[]], 1.0);
        s.op("aten::sqrt", &[row], 1.0).op("aten::div", &[groups, row], 90.0);
        s.op("aten::mul", &[x, weight], 90.0).op("aten::add", &[x, weight, &[]], 90.0);
        s
    };
    // As many channels as there are groups in the batch: the rank tells them apart.
    let s = draw(&[256, 1, 1]);
    let p = s.one(Code::UnfusedLayerNorm);
    assert_eq!((p.ops.len(), &p.facts[..]), (8, &[("name", "group norm".to_owned())][..]));
    s.none(Code::UnfusedBatchNorm);
    s.look(|_, _, findings| assert_eq!(findings[0].title, "Unfused group norm"));
    // A mean for each channel.
    let means: &[i64] = &[8, 256, 1, 1];
    let mut s = Sketch::new();
    s.over("aten::mean", x, "[2, 3]", 40.0).over("aten::var", x, "[2, 3]", 40.0);
    s.op("aten::sub", &[x, means, &[]], 90.0).op("aten::add", &[means, &[], &[]], 1.0);
    s.op("aten::rsqrt", &[means], 1.0).op("aten::mul", &[x, means], 90.0);
    s.op("aten::mul", &[x, &[1, 256, 1, 1]], 90.0).op("aten::add", &[x, &[1, 256, 1, 1], &[]], 90.0);
    let p = s.one(Code::UnfusedLayerNorm);
    assert_eq!((p.ops.len(), &p.facts[..]), (8, &[("name", "instance norm".to_owned())][..]));
    s.look(|_, _, findings| assert_eq!(findings[0].title, "Unfused instance norm"));
    // Weights of columns are something else.
    assert_eq!(draw(&[64]).one(Code::UnfusedLayerNorm).ops.len(), 6);
}

#[test]
fn what_lacks_a_step_is_no_norm() {
    // No root: a mean taken off.
    let mut s = Sketch::new();
    s.op("aten::pow", &[X, &[]], 60.0).reduce("aten::mean", X, 40.0);
    s.op("aten::add", &[ROW, &[], &[]], 1.0).op("aten::sub", &[X, ROW, &[]], 90.0);
    s.none(Code::UnfusedRmsNorm);
    s.none(Code::UnfusedLayerNorm);
    // No square: a softmax written out.
    let mut s = Sketch::new();
    s.reduce("aten::amax", X, 40.0).op("aten::sub", &[X, ROW, &[]], 90.0).op("aten::exp", &[X], 60.0);
    s.reduce("aten::sum", X, 40.0).op("aten::div", &[X, ROW], 90.0);
    s.none(Code::UnfusedLayerNorm);
    // A fused norm.
    let mut s = Sketch::new();
    s.module("RMSNorm_0", |s| {
        s.op("aten::_fused_rms_norm", &[X, &[], W, &[]], 40.0);
    });
    s.none(Code::UnfusedRmsNorm);
}

#[test]
fn its_backward_belongs_to_it() {
    let mut s = Sketch::new();
    s.module("RMSNorm_0", |s| {
        s.op("aten::pow", &[X, &[]], 60.0).reduce("aten::mean", X, 40.0);
        s.op("aten::add", &[ROW, &[], &[]], 1.0).op("aten::rsqrt", &[ROW], 1.0);
        s.sequenced("aten::mul", 7, |s| {
            s.op("aten::mul", &[X, ROW], 100.0);
        });
    });
    s.backward("MulBackward0", 7, |s| {
        s.op("aten::mul", &[X, ROW], 300.0).op("aten::mul", &[X, X], 300.0);
    });
    let p = s.one(Code::UnfusedRmsNorm);
    assert!((p.backward_ms - 0.6).abs() < 1e-9);
    s.none(Code::ElementwiseChain);
    s.look(|_, _, findings| {
        assert_eq!(findings[0].pattern, PatternId::UNFUSED_NORM);
        assert!((findings[0].time_ms - 0.802).abs() < 1e-9);
    });
}

#[test]
fn savings_are_those_of_one_pass() {
    // 8·2048·4096 elements of two bytes in and out: 268.4 MB, 59.2 us at 94.5% of 4.8 TB/s, 139.8 us at 40%.
    let mut s = Sketch::new();
    s.module("RMSNorm_0", rms);
    let fused = s.one(Code::UnfusedRmsNorm).fused_ms.unwrap();
    let bytes = 2.0 * 2.0 * 8.0 * 2048.0 * 4096.0;
    assert!((fused.low - bytes / (4.8e12 * 0.945) * 1e3).abs() < 1e-6, "{}", fused.low);
    assert!(fused.high > bytes / (4.8e12 * 0.4) * 1e3 && fused.high < 0.16, "{}", fused.high);
}

#[test]
fn frozen_batch_norm_is_a_product_and_a_sum_per_channel() {
    let (x, c): (&[i64], &[i64]) = (&[64, 128, 56, 56], &[1, 128, 1, 1]);
    let mut s = Sketch::new();
    s.module("FrozenBatchNorm2d_0", |s| {
        s.op("aten::mul", &[x, c], 80.0).op("aten::add", &[x, c, &[]], 80.0);
    });
    assert_eq!(s.one(Code::UnfusedBatchNorm).ops.len(), 2);
    // Along the last dimension it is no channel.
    let mut s = Sketch::new();
    s.op("aten::mul", &[x, &[1, 1, 1, 56]], 80.0).op("aten::add", &[x, &[1, 1, 1, 56], &[]], 80.0);
    s.none(Code::UnfusedBatchNorm);
}

/// As textbooks write it: over all dimensions but the second.
#[test]
fn batch_norm_with_the_statistics_of_the_batch() {
    let (x, row): (&[i64], &[i64]) = (&[64, 128, 56, 56], &[1, 128, 1, 1]);
    let draw = |averages: bool, weight: &[i64]| {
        let mut s = Sketch::new();
        s.op("aten::cudnn_convolution", &[x, &[128, 128, 3, 3]], 90.0).module("Bn_0", |s| {
            s.over("aten::mean", x, "[0, 2, 3]", 130.0).op("aten::sub", &[x, row, &[]], 60.0);
            s.op("aten::pow", &[x, &[]], 30.0).over("aten::mean", x, "[0, 2, 3]", 130.0);
            s.op("aten::sub", &[x, row, &[]], 60.0).op("aten::add", &[row, &[], &[]], 1.0).op(
                "aten::sqrt",
                &[row],
                1.0,
            );
            s.op("aten::div", &[x, row], 70.0);
            if averages {
                s.op("aten::mul", &[row, &[]], 1.0).op("aten::mul", &[row, &[]], 1.0).op(
                    "aten::add",
                    &[row, row, &[]],
                    1.0,
                );
            }
            s.op("aten::mul", &[x, weight], 60.0).op("aten::add", &[x, weight, &[]], 60.0);
        });
        s.op("aten::relu", &[x], 30.0);
        s
    };
    for (averages, weight, leaves) in [(false, &[128, 1, 1][..], 10), (true, row, 13)] {
        let s = draw(averages, weight);
        let p = s.one(Code::UnfusedBatchNorm);
        assert_eq!((p.ops.len(), &p.facts[..]), (leaves, &[("name", "batch norm".to_owned())][..]));
        s.none(Code::ElementwiseChain);
        s.look(|_, _, findings| {
            assert_eq!(findings[0].title, "Unfused batch norm in `Bn`");
            assert!(findings[0].paths.algorithmic[0].contains("torch.nn.BatchNorm2d"));
        });
        // Read twice and written once, with channels first in half precision.
        let ms = 3.0 * 2.0 * f64::from(64 * 128 * 56 * 56) / 4.8e12 * 1e3;
        let fused = p.fused_ms.unwrap();
        assert!((fused.low - ms / 0.38).abs() < 1e-6 && fused.high > ms / 0.09 && fused.high < ms / 0.07, "{fused:?}");
    }
}

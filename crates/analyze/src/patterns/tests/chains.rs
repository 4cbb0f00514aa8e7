//! Rotary embeddings, activations, chains, epilogues, modules.

use super::sketch::Sketch;
use crate::finding::PatternId;
use crate::patterns::candidates::fusion_candidates;
use crate::patterns::{Code, Confidence};
use crate::thresholds::Threshold;

const X: &[i64] = &[8192, 8192];

#[test]
fn rotary_embedding() {
    let (q, half, table): (&[i64], &[i64], &[i64]) = (&[4, 16, 1024, 128], &[4, 16, 1024, 64], &[1, 1, 1024, 128]);
    let draw = |negated: bool| {
        let mut s = Sketch::new();
        s.module("LlamaAttention_0", |s| {
            s.op("aten::mul", &[q, table], 30.0);
            s.op(if negated { "aten::neg" } else { "aten::abs" }, &[half], 10.0);
            s.cat(&[half, half], 30.0).op("aten::mul", &[q, table], 30.0).op("aten::add", &[q, q, &[]], 30.0);
        });
        s
    };
    let p = draw(true).one(Code::UnfusedRope);
    assert_eq!((p.ops.len(), p.confidence), (5, Confidence::High));
    draw(false).none(Code::UnfusedRope);
}

#[test]
fn a_rotary_embedding_of_halves() {
    // stack((a * cos - b * sin, a * sin + b * cos), -1), interleaved or side by side
    let (half, table): (&[i64], &[i64]) = (&[4, 16, 1024, 64], &[1024, 64]);
    let draw = |last: &str, between: &str| {
        let mut s = Sketch::new();
        s.op("aten::mul", &[half, table], 15.0).op("aten::mul", &[half, table], 15.0);
        s.op("aten::sub", &[half, half, &[]], 15.0).op(between, &[half], 15.0);
        s.op("aten::mul", &[half, table], 15.0).op("aten::mul", &[half, table], 15.0);
        s.op(last, &[half, half, &[]], 15.0).cat(&[&[4, 16, 1024, 64, 1], &[4, 16, 1024, 64, 1]], 30.0);
        s
    };
    let p = draw("aten::add", "aten::copy_").one(Code::UnfusedRope);
    assert_eq!(p.ops.len(), 8);
    assert_eq!(p.evidence, ["two halves of (4,16,1024,64) are multiplied by the tables, added and joined again"]);
    // The whole tensor once there and once back.
    let bytes = 2.0 * 2.0 * f64::from(4 * 16 * 1024 * 128);
    assert!((p.fused_ms.unwrap().low - bytes / (4.8e12 * 0.95) * 1e3).abs() < 1e-3, "{:?}", p.fused_ms);
    // What is not rotated is copied with them.
    let mut s = Sketch::new();
    s.op("aten::mul", &[half, table], 15.0).op("aten::mul", &[half, table], 15.0);
    s.op("aten::sub", &[half, half, &[]], 15.0);
    s.op("aten::mul", &[half, table], 15.0).op("aten::mul", &[half, table], 15.0);
    s.op("aten::add", &[half, half, &[]], 15.0).cat(&[half, half, &[4, 16, 1024, 128]], 60.0);
    let part = s.one(Code::UnfusedRope);
    assert_eq!(part.ops.len(), 7);
    assert!(part.fused_ms.unwrap().low > 1.9 * p.fused_ms.unwrap().low, "{:?}", part.fused_ms);
    draw("aten::div", "aten::copy_").none(Code::UnfusedRope);
    draw("aten::add", "aten::sort").none(Code::UnfusedRope);
}

#[test]
fn a_chain_goes_on_in_another_order_of_dimensions() {
    // ((x.float() / 255 - mean) / deviation).permute(0, 3, 1, 2).contiguous().bfloat16()
    let (rows, turned): (&[i64], &[i64]) = (&[32, 256, 256, 3], &[32, 3, 256, 256]);
    let draw = |source: &[i64]| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::div", &[rows, &[]], 30.0).op("aten::sub", &[rows, &[3]], 30.0);
        s.op("aten::mul", &[rows, &[3]], 30.0);
        let written: &[i64] = &[196_608, 65_536, 256, 1];
        s.strided("aten::copy_", &[turned, turned], &["float", "float"], &[written, source], 30.0);
        s.op("aten::abs", &[turned], 30.0).op("aten::mm", &[&[64, 64], &[64, 64]], 5.0);
        s.one(Code::ElementwiseChain).ops.len()
    };
    assert_eq!(draw(&[196_608, 1, 768, 3]), 5);
    // Something else that lies in memory with gaps, or in another order.
    assert_eq!(draw(&[589_824, 1, 2304, 9]), 3);
    assert_eq!(draw(&[196_608, 65_536, 1, 256]), 3);
}

#[test]
fn a_tensor_of_one_number_does_not_end_a_chain() {
    // binary_cross_entropy_with_logits makes its ones
    let draw = |ones: &[i64]| {
        let mut s = Sketch::new();
        s.op("aten::sigmoid", &[X], 80.0).op("aten::log", &[X], 80.0);
        s.op("aten::fill_", &[ones, &[]], 36.0).op("aten::sub_", &[X, X, &[]], 118.0);
        s.op("aten::mul_", &[X, X], 118.0).op("aten::sub_", &[X, X, &[]], 118.0);
        s.op("aten::fill_", &[X, &[]], 36.0).op("aten::mm", &[&[64, 64], &[64, 64]], 5.0);
        s.one(Code::ElementwiseChain).ops.len()
    };
    assert_eq!(draw(X), 6);
    // Something else is made, and what is made last is for what follows.
    assert_eq!(draw(&[8192, 64]), 3);
}

#[test]
fn what_is_written_without_gaps_is_read_in_any_shape() {
    // (x.view(8, 16, 2, 2, 64, 64).permute(0, 1, 4, 2, 5, 3).reshape(8, 16, 128, 128) * 0.5 + 0.5).clamp(0, 1)
    let (parts, whole): (&[i64], &[i64]) = (&[8, 16, 64, 2, 64, 2], &[8, 16, 128, 128]);
    let draw = |written: &[i64]| {
        let mut s = Sketch::new();
        let source: &[i64] = &[262_144, 16_384, 64, 8192, 1, 4096];
        s.strided("aten::copy_", &[parts, parts], &["c10::BFloat16"; 2], &[written, source], 10.0);
        s.op("aten::mul", &[whole, &[]], 5.0).op("aten::add", &[whole, &[]], 5.0).op("aten::clamp", &[whole], 5.0);
        s.one(Code::ElementwiseChain).ops.len()
    };
    assert_eq!(draw(&[262_144, 16_384, 256, 128, 2, 1]), 4);
    assert_eq!(draw(&[524_288, 32_768, 512, 256, 4, 2]), 3, "with gaps");
}

#[test]
fn what_puts_results_together_is_part_of_their_chain() {
    // torch.cat((torch.sin(x * f), torch.cos(x * f)), -1)
    let x: &[i64] = &[65_536, 48];
    let draw = |joined: &[&[i64]]| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mul", &[x, &[48]], 5.0).op("aten::sin", &[x], 5.0);
        s.op("aten::mul", &[x, &[48]], 5.0).op("aten::cos", &[x], 5.0).cat(joined, 10.0);
        s.one(Code::ElementwiseChain)
    };
    let p = draw(&[x, x]);
    assert_eq!(p.ops.len(), 5);
    assert_eq!(draw(&[x, &[65_536, 16]]).ops.len(), 4, "something else is among it");
    assert_eq!(draw(&[x; 5]).ops.len(), 4, "there are no five results");
    assert!(p.fused_ms.unwrap().low > draw(&[x; 5]).fused_ms.unwrap().low, "both are computed everywhere");
}

#[test]
fn a_chain_goes_on_with_what_a_reduction_leaves() {
    // ((x * weights).sum(1) > 0.5).float().mean()
    let (x, left): (&[i64], &[i64]) = (&[32, 3, 256, 256], &[32, 256, 256]);
    let draw = |channels: i64| {
        let mut s = Sketch::new();
        s.op("aten::mul", &[&[32, channels, 256, 256], &[1, channels, 1, 1]], 30.0);
        s.launch(
            "aten::sum",
            20.0,
            &[
                ("Input Dims", format!("[[32, {channels}, 256, 256], [], [], []]")),
                ("Input type", "[\"c10::BFloat16\", \"ScalarList\", \"Scalar\", \"\"]".to_owned()),
                ("Concrete Inputs", "[\"\", \"[1]\", \"False\", \"\"]".to_owned()),
            ],
        );
        s.op("aten::gt", &[left, &[]], 10.0).op("aten::neg", &[left], 10.0);
        s
    };
    assert_eq!(draw(x[1]).one(Code::ElementwiseChain).ops.len(), 4);
    draw(64).none(Code::ElementwiseChain);
}

#[test]
fn numbers_that_nothing_on_the_whole_uses_take_no_pass() {
    // clamp(1 - x * y, 0).square().mean() + 0.1 * x.square().mean(), or divided by the first number
    let x: &[i64] = &[4096, 4096];
    let draw = |divides: bool| {
        let mut s = Sketch::new();
        s.op("aten::mul", &[x, x], 30.0).op("aten::clamp", &[x], 20.0).op("aten::mean", &[x], 20.0);
        let (dims, types): (&[&[i64]], &[&str]) =
            if divides { (&[x, &[]], &["c10::BFloat16", "c10::BFloat16"]) } else { (&[x], &["c10::BFloat16"]) };
        s.typed(if divides { "aten::div" } else { "aten::square" }, dims, types, 20.0).op("aten::mean", &[x], 20.0);
        s.one(Code::ElementwiseChain).fused_ms.unwrap()
    };
    let (apart, used) = (draw(false), draw(true));
    assert!(used.low > 1.5 * apart.low, "{used:?} {apart:?}");
}

#[test]
fn a_chain_goes_on_behind_a_softmax() {
    // p = softmax(a); (p * (log(p) - log_softmax(b))).sum(-1)
    let x: &[i64] = &[4096, 2048];
    let draw = |between: &str, shape: &[i64]| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::_softmax", &[x], 30.0).op("aten::add", &[x, &[]], 20.0).op("aten::log", &[x], 20.0);
        s.op(between, &[shape], 30.0).op("aten::sub", &[x, x, &[]], 20.0).op("aten::mul", &[x, x], 20.0);
        s.op("aten::exp", &[x], 20.0);
        s
    };
    let p = draw("aten::_log_softmax", x).one(Code::ElementwiseChain);
    assert_eq!((p.ops.len(), p.halo[0].len()), (5, 2), "both softmaxes go with it");
    let apart = draw("aten::cumsum", x).one(Code::ElementwiseChain);
    assert_eq!(apart.evidence, ["3 memory-bound operations in a row on (4096,2048)"]);
    let other = draw("aten::_log_softmax", &[2048, 2048]).one(Code::ElementwiseChain);
    assert_eq!(other.evidence, ["3 memory-bound operations in a row on (4096,2048)"]);
}

#[test]
fn a_rotary_embedding_has_its_casts() {
    let (q, half, table): (&[i64], &[i64], &[i64]) = (&[4, 16, 1024, 128], &[4, 16, 1024, 64], &[1, 1, 1024, 128]);
    let (low, high) = ("c10::BFloat16", "float");
    let draw = |there: &[&str], back: &[&str]| {
        let mut s = Sketch::new();
        s.typed("aten::copy_", &[q, q], there, 30.0);
        s.dtype(high).op("aten::mul", &[q, table], 60.0).op("aten::neg", &[half], 20.0);
        s.cat(&[half, half], 60.0).op("aten::mul", &[q, table], 60.0).op("aten::add", &[q, q, &[]], 60.0);
        s.typed("aten::copy_", &[q, q], back, 30.0);
        s
    };
    let p = draw(&[high, low], &[low, high]).one(Code::UnfusedRope);
    assert_eq!(p.ops.len(), 7);
    // Two bytes an element there and two back.
    let bytes = 2.0 * 2.0 * f64::from(4 * 16 * 1024 * 128);
    assert!((p.fused_ms.unwrap().low - bytes / (4.8e12 * 0.95) * 1e3).abs() < 1e-3, "{:?}", p.fused_ms);
    // A cast that nothing undoes, or to another type, is something else's.
    assert_eq!(draw(&[high, low], &["c10::Half", high]).one(Code::UnfusedRope).ops.len(), 5);
}

#[test]
fn what_is_reduced_over_other_dimensions_than_the_last_is_read_again() {
    let fused = |over: &str| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mul", &[X, &[]], 130.0).over("aten::amax", X, over, 70.0);
        s.op("aten::div", &[X, &[8192, 1]], 130.0).op("aten::exp", &[X], 130.0);
        s.one(Code::ElementwiseChain).fused_ms.unwrap().low
    };
    // Read once and written, or read twice.
    assert!((fused("[0]") / fused("[1]") - 1.5).abs() < 1e-6, "{} {}", fused("[0]"), fused("[1]"));
}

#[test]
fn gated_activation_with_the_product_behind_a_projection() {
    let draw = |read: &[i64], other: &[i64]| {
        let mut s = Sketch::new();
        s.op("aten::silu", &[X], 60.0).op("aten::mm", &[read, X], 900.0);
        s.op("aten::mul", &[X, other], 90.0);
        s
    };
    let input = &[8192, 1024];
    assert_eq!(draw(input, X).one(Code::UnfusedSwiglu).ops.len(), 2);
    draw(input, &[8192, 1]).none(Code::UnfusedSwiglu);
    // x * gate(silu(x)): what the layer gives is multiplied and not the activation.
    draw(X, X).none(Code::UnfusedSwiglu);
    // Sigmoid, times its input, times the gate.
    let mut s = Sketch::new();
    s.op("aten::sigmoid", &[X], 60.0).op("aten::mul", &[X, X], 90.0).op("aten::mul", &[X, X], 90.0);
    assert_eq!(s.one(Code::UnfusedSwiglu).ops.len(), 3);
    // Limits and factors of the gate and of what it is multiplied by are no chain of their own.
    let mut s = Sketch::new();
    s.op("aten::clamp", &[X, &[], &[]], 60.0).op("aten::add", &[X, &[], &[]], 60.0).op("aten::mul", &[X, &[]], 60.0);
    s.op("aten::sigmoid", &[X], 60.0).op("aten::mul", &[X, X], 90.0).op("aten::mul", &[X, X], 90.0);
    s.op("aten::neg", &[X], 60.0);
    assert_eq!(s.one(Code::UnfusedSwiglu).ops.len(), 7);
    s.none(Code::ElementwiseChain);
}

#[test]
fn a_bias_of_both_halves_belongs_to_a_gated_activation() {
    // a, b = (x + bias).chunk(2, -1); a * gelu(b)
    let both: &[i64] = &[8192, 16384];
    let draw = |what: &str, to: &[i64], added: &[i64]| {
        let mut s = Sketch::new();
        s.op("aten::mm", &[X, &[8192, 16384]], 900.0).op(what, &[to, added, &[]], 180.0);
        s.op("aten::gelu", &[X], 60.0).op("aten::mul", &[X, X], 90.0);
        s.one(Code::UnfusedSwiglu)
    };
    let with = draw("aten::add", both, &[16384]);
    assert_eq!(with.ops.len(), 3);
    let without = draw("aten::add", both, both);
    assert_eq!(without.ops.len(), 2, "the sum of two tensors reads more than both halves");
    // The same bytes, which kernels that read halves of rows move more slowly at worst.
    let (with, without) = (with.fused_ms.unwrap(), without.fused_ms.unwrap());
    assert!((with.low - without.low).abs() < 0.05 * with.low && with.high > 1.2 * without.high, "{with:?} {without:?}");
    assert_eq!(draw("aten::mul", both, &[16384]).ops.len(), 2);
    assert_eq!(draw("aten::add", &[8192, 8192], &[8192]).ops.len(), 2);
}

#[test]
fn casts_around_a_gated_activation_belong_to_it() {
    // (g.float() * sigmoid(g.float()) * u.float()).to(g.dtype), without the first casts or with
    let draw = |casts: bool| {
        let (up, down) = (["float", "c10::BFloat16"], ["c10::BFloat16", "float"]);
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mm", &[X, X], 900.0);
        for _ in 0..2 * usize::from(casts) {
            s.typed("aten::copy_", &[X, X], &up, 80.0);
        }
        s.op("aten::sigmoid", &[X], 60.0).op("aten::mul", &[X, X], 90.0);
        if casts {
            s.typed("aten::copy_", &[X, X], &up, 80.0);
        }
        s.op("aten::mul", &[X, X], 90.0).typed("aten::copy_", &[X, X], &down, 80.0);
        s.one(Code::UnfusedSwiglu)
    };
    let (plain, cast) = (draw(false), draw(true));
    assert_eq!((plain.ops.len(), cast.ops.len()), (3, 7));
    // Two tensors read and one written, of two bytes an element instead of four.
    let ratio = cast.fused_ms.unwrap().low / plain.fused_ms.unwrap().low;
    assert!((ratio - 0.5).abs() < 0.01, "{ratio}");
}

#[test]
fn work_on_single_numbers_does_not_end_a_chain() {
    // As in a step of a diffusion model, whose factors are tensors without dimensions.
    let draw = |number: &dyn Fn(&mut Sketch)| {
        let mut s = Sketch::new();
        for (name, dims) in [("aten::mul", [X, &[]]), ("aten::sub", [X, X]), ("aten::div", [X, &[]])] {
            number(&mut s);
            s.op(name, &dims, 90.0);
        }
        number(&mut s);
        s
    };
    let scalar = |s: &mut Sketch| _ = s.typed("aten::sqrt", &[&[]], &["c10::BFloat16"], 1.0);
    // Those between the others belong to it, but not those around it.
    assert_eq!(draw(&scalar).one(Code::ElementwiseChain).ops.len(), 5);
    // Of this one nothing is known.
    draw(&|s| _ = s.bare("aten::sqrt", 1.0)).none(Code::ElementwiseChain);
    // What becomes of all elements is there only after them: the flag of a condition.
    let mut s = Sketch::new();
    s.op("aten::mul", &[X, X], 90.0).op("aten::abs", &[X], 60.0).op("aten::max", &[X], 40.0);
    s.typed("aten::gt", &[&[], &[]], &["c10::BFloat16", "Scalar"], 1.0);
    s.op("aten::mul", &[X, &[]], 60.0).op("aten::where", &[&[], X, X], 90.0);
    assert_eq!(s.one(Code::ElementwiseChain).ops.len(), 3);
    // Numbers alone are no chain.
    let mut s = Sketch::new();
    for name in ["aten::sqrt", "aten::rsub", "aten::mul", "aten::sqrt", "aten::rsub"] {
        s.typed(name, &[&[]], &["float"], 40.0);
    }
    s.none(Code::ElementwiseChain);
}

#[test]
fn a_program_of_one_function_is_one_chain() {
    // GELU of a sum, and more after it: as a layer of a model, and as all there is.
    let draw = |matrices: bool| {
        let mut s = Sketch::new();
        if matrices {
            s.op("aten::mm", &[X, X], 900.0);
        }
        s.op("aten::neg", &[X], 60.0).op("aten::abs", &[X], 60.0);
        gelu(&mut s);
        s.op("aten::sigmoid", &[X], 60.0).op("aten::neg", &[X], 60.0).op("aten::abs", &[X], 60.0);
        s
    };
    assert_eq!(draw(true).one(Code::UnfusedGelu).ops.len(), 8);
    draw(false).none(Code::UnfusedGelu);
    assert_eq!(draw(false).one(Code::ElementwiseChain).ops.len(), 13);
}

#[test]
fn a_number_made_of_all_elements_has_them_read_again() {
    let draw = |reduced: &dyn Fn(&mut Sketch), ends: bool| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mul", &[X, X], 90.0).op("aten::add", &[X, &[]], 60.0);
        reduced(&mut s);
        if !ends {
            s.typed("aten::sub", &[X, &[]], &["float", "float"], 60.0).op("aten::neg", &[X], 60.0);
        }
        s.one(Code::ElementwiseChain).fused_ms.unwrap()
    };
    let plain = draw(&|s| _ = s.op("aten::abs", &[X], 60.0), false);
    let whole = draw(&|s| _ = s.op("aten::amin", &[X], 40.0), false);
    // An empty list of dimensions stands for all of them.
    assert_eq!(whole, draw(&|s| _ = s.over("aten::amin", X, "[]", 40.0), false));
    // Two tensors are read twice and one is written: five instead of three.
    assert!((whole.low / plain.low - 5.0 / 3.0).abs() < 1e-9, "{whole:?} {plain:?}");
    // At the end it is not needed again: two are read and none is written, at least at two thirds of the peak.
    let summed = draw(&|s| _ = s.op("aten::sum", &[X], 40.0), true);
    assert!((summed.low / plain.low - 2.0 / 3.0).abs() < 1e-9, "{summed:?} {plain:?}");
    assert!(summed.high < 2.0 * 4.0 * 8192.0 * 8192.0 / (4.8e12 * 0.66) * 1e3, "{summed:?}");
}

#[test]
fn a_result_of_which_few_elements_are_used_is_not_written() {
    let draw = |picked_us: f64, read_on: bool| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mul", &[X, X], 90.0).op("aten::add", &[X, &[]], 60.0);
        s.over("aten::sum", X, "[1]", 40.0).op("aten::div", &[X, &[8192, 1]], 60.0);
        s.op("aten::index", &[X, &[8192], &[8192]], picked_us);
        if read_on {
            s.op("aten::mm", &[X, X], 900.0);
        }
        s.one(Code::ElementwiseChain).fused_ms.unwrap()
    };
    let (picked, all) = (draw(8.0, false), draw(60.0, false));
    // Two tensors are read, and one is written only if all of it is used: by the operation that picks or by another.
    assert!((picked.low / all.low - 2.0 / 3.0).abs() < 1e-9 && picked.high < all.high, "{picked:?} {all:?}");
    assert_eq!(draw(8.0, true), all);
}

#[test]
fn a_step_is_no_shorter_than_the_compiled_call_that_it_consists_of() {
    let draw = |trains: bool| {
        let mut s = Sketch::new();
        let ops = [("aten::mul", "MulBackward0"), ("aten::tanh", "TanhBackward0"), ("aten::add", "AddBackward0")];
        for (i, (name, _)) in (1..).zip(ops) {
            s.sequenced(name, i, |s| _ = s.op(name, &[X, X], 400.0));
        }
        for (i, (name, backward)) in (1..).zip(ops).filter(|_| trains) {
            s.backward(backward, i, |s| _ = s.op(name, &[X, X], 400.0));
        }
        let found = s.with_host();
        let chain = found.iter().find(|f| f.pattern == PatternId::ELEMENTWISE_CHAIN).unwrap();
        let window = s.look(|scene, _, _| scene.utilization.total_time_ms);
        (window - chain.impact.saved_ms.high, window - chain.impact.saved_ms.low)
    };
    // Its kernel takes longer than the call alone, but not than the backward as well: 295 to 689 us.
    let (called, trained) = (draw(false), draw(true));
    assert!(called.1 < 0.2, "{called:?}");
    assert!((0.28..0.30).contains(&trained.0) && (0.67..0.70).contains(&trained.1), "{trained:?}");
}

#[test]
fn a_chain_ends_where_the_next_layer_casts_its_weights() {
    let draw = |weights: bool| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mul", &[X, X], 90.0).op("aten::tanh", &[X], 60.0).op("aten::add", &[X, X], 90.0);
        if weights {
            s.typed("aten::copy_", &[&[X[1]], &[X[1]]], &["c10::BFloat16", "float"], 1.0);
        }
        s.op("aten::mm", &[X, X], 900.0).one(Code::ElementwiseChain)
    };
    let (plain, before_weights) = (draw(false), draw(true));
    assert_eq!(before_weights.ops.len(), 3);
    assert_eq!(before_weights.fused_ms, plain.fused_ms);
}

#[test]
fn what_the_backward_pass_has_by_itself_may_stay() {
    let mut s = Sketch::new();
    s.backward("AddBackward0", 1, |s| {
        s.op("aten::mul", &[X, X], 90.0).op("aten::tanh", &[X], 60.0).op("aten::add_", &[X, X], 90.0);
    });
    let p = s.one(Code::ElementwiseChain);
    let fused = p.fused_ms.unwrap();
    assert!(fused.low < 0.7 * p.total_ms() && (fused.high - p.total_ms()).abs() < 1e-9, "{fused:?}");
}

fn gelu(s: &mut Sketch) {
    s.op("aten::mul", &[X, &[]], 60.0).op("aten::pow", &[X, &[]], 60.0).op("aten::mul", &[X, &[]], 60.0);
    s.op("aten::add", &[X, X, &[]], 90.0).op("aten::mul", &[X, &[]], 60.0).op("aten::tanh", &[X], 60.0);
    s.op("aten::add", &[X, &[], &[]], 60.0).op("aten::mul", &[X, X], 90.0);
}

#[test]
fn gelu_by_tanh_and_by_erf() {
    let mut s = Sketch::new();
    gelu(&mut s);
    gelu(&mut s);
    let p = s.one(Code::UnfusedGelu);
    assert_eq!((p.instances, p.ops.len()), (2, 8));
    let mut s = Sketch::new();
    s.op("aten::div", &[X, &[]], 60.0).op("aten::erf", &[X], 60.0).op("aten::add", &[X, &[], &[]], 60.0);
    s.op("aten::mul", &[X, X], 90.0).op("aten::mul", &[X, &[]], 60.0);
    assert_eq!(s.one(Code::UnfusedGelu).ops.len(), 5);
    // Times another tensor it moves half as much again. (In half precision its arithmetic takes longer than that.)
    let by_erf = |gated: bool| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mul", &[X, &[]], 60.0).op("aten::mul", &[X, &[]], 60.0).op("aten::erf", &[X], 60.0);
        s.op("aten::add", &[X, &[], &[]], 60.0).op("aten::mul", &[X, X], 90.0);
        if gated {
            s.op("aten::mul", &[X, X], 90.0);
        }
        s.one(Code::UnfusedGelu)
    };
    let (plain, gated) = (by_erf(false), by_erf(true));
    assert_eq!((plain.ops.len(), gated.ops.len()), (5, 6));
    let ratio = gated.fused_ms.unwrap().low / plain.fused_ms.unwrap().low;
    assert!((ratio - 1.5).abs() < 1e-9, "{ratio}");
    // Without the addition it is some other function.
    let mut s = Sketch::new();
    s.op("aten::mul", &[X, &[]], 60.0).op("aten::tanh", &[X], 60.0).op("aten::mul", &[X, X], 90.0);
    s.op("aten::mul", &[X, &[]], 60.0);
    s.none(Code::UnfusedGelu);
    // Nor is one kernel written out.
    let mut s = Sketch::new();
    s.op("aten::gelu", &[X, &[]], 60.0);
    s.none(Code::UnfusedGelu);
}

#[test]
fn casts_of_autocast_belong_to_gelu() {
    let (half, full) = ("c10::BFloat16", "float");
    let mut s = Sketch::new();
    s.op("aten::mul", &[X, &[]], 60.0).typed("aten::copy_", &[X, X, &[]], &[full, half, "Scalar"], 90.0);
    s.dtype(full).op("aten::pow", &[X, &[]], 120.0).op("aten::mul", &[X, &[]], 120.0);
    s.typed("aten::add", &[X, X, &[]], &[half, full, "Scalar"], 150.0).op("aten::mul", &[X, &[]], 120.0);
    s.op("aten::tanh", &[X], 120.0).op("aten::add", &[X, &[], &[]], 120.0);
    s.typed("aten::mul", &[X, X], &[half, full], 150.0).typed(
        "aten::copy_",
        &[X, X, &[]],
        &[half, full, "Scalar"],
        90.0,
    );
    let p = s.one(Code::UnfusedGelu);
    assert_eq!((p.instances, p.ops.len()), (1, 10));
    // One pass in the smaller type.
    let plain = {
        let mut s = Sketch::new();
        gelu(&mut s);
        s.one(Code::UnfusedGelu)
    };
    let (cast, plain) = (p.fused_ms.unwrap(), plain.fused_ms.unwrap());
    assert!(cast.low < 1.2 * plain.low && cast.high < 1.2 * plain.high, "{cast:?} {plain:?}");
}

#[test]
fn three_in_a_row_are_a_chain_and_two_are_not() {
    let draw = |n: usize| {
        let mut s = Sketch::new();
        let ops = ["aten::mul", "aten::tanh", "aten::neg", "aten::exp"];
        for op in &ops[..n] {
            s.op(op, &[X], 60.0);
        }
        s
    };
    draw(2).none(Code::ElementwiseChain);
    let p = draw(3).one(Code::ElementwiseChain);
    assert_eq!((p.ops.len(), p.confidence), (3, Confidence::Medium));
    // In and out once: 268.4 MB.
    let fused = p.fused_ms.unwrap();
    assert!((fused.low - 2.0 * 2.0 * 8192.0 * 8192.0 / (4.8e12 * 0.945) * 1e3).abs() < 1e-6, "{}", fused.low);
}

#[test]
fn shapes_and_matrix_products_break_chains() {
    let mut s = Sketch::new();
    s.op("aten::neg", &[X], 60.0).op("aten::exp", &[X], 60.0);
    s.op("aten::mm", &[X, X], 900.0).op("aten::tanh", &[X], 60.0).op("aten::neg", &[X], 60.0);
    s.none(Code::ElementwiseChain);
    let mut s = Sketch::new();
    s.op("aten::neg", &[X], 60.0).op("aten::exp", &[X], 60.0).op("aten::tanh", &[&[4096, 4096]], 60.0);
    s.none(Code::ElementwiseChain);
    // Means and biases fit in.
    let mut s = Sketch::new();
    s.op("aten::neg", &[X], 60.0).reduce("aten::mean", X, 40.0).op("aten::sqrt", &[&[8192, 1]], 1.0);
    s.op("aten::add", &[X, &[8192], &[]], 90.0);
    assert_eq!(s.one(Code::ElementwiseChain).ops.len(), 4);
}

#[test]
fn the_same_operation_on_many_tensors_is_no_chain() {
    let mut s = Sketch::new();
    for _ in 0..6 {
        s.op("aten::add_", &[X, X, &[]], 90.0);
    }
    s.none(Code::ElementwiseChain);
}

#[test]
fn repeats_are_separate_calls() {
    let mut s = Sketch::new();
    for _ in 0..4 {
        s.op("aten::neg", &[X], 60.0).op("aten::exp", &[X], 60.0).op("aten::tanh", &[X], 60.0);
    }
    let p = s.one(Code::ElementwiseChain);
    assert_eq!((p.instances, p.ops.len()), (4, 3));
}

#[test]
fn every_place_has_its_own_numbers() {
    let mut s = Sketch::new();
    for i in 0..4 {
        s.module(&format!("Experts_{i}"), |s| {
            s.op("aten::neg", &[X], 60.0).op("aten::exp", &[X], 60.0).op("aten::tanh", &[X], 60.0);
        });
        s.op("aten::mm", &[X, X], 900.0);
    }
    for i in 0..2 {
        s.module(&format!("Rotary_{i}"), |s| {
            s.op("aten::cos", &[X], 50.0).op("aten::sin", &[X], 50.0).op("aten::mul", &[X, &[]], 50.0);
        });
        s.op("aten::mm", &[X, X], 900.0);
    }
    s.look(|_, _, findings| {
        let f = findings.iter().find(|f| f.pattern == PatternId::ELEMENTWISE_CHAIN).unwrap();
        assert_eq!(f.title, "Chain of elementwise operations in `Experts` and elsewhere");
        assert!(f.issue.contains("(neg, exp, tanh); 0.72 ms over 4 calls; "), "{}", f.issue);
        let other = "likewise in 1 more place: `Rotary`: cos, sin, mul (0.30 ms over 2 calls).";
        assert!(f.issue.ends_with(other), "{}", f.issue);
        assert!((f.time_ms - 1.02).abs() < 1e-9, "it is still one change to all");
    });
}

#[test]
fn a_chain_takes_its_backward_with_it() {
    let mut s = Sketch::new();
    for (i, op) in ["aten::mul", "aten::tanh", "aten::exp"].iter().enumerate() {
        s.sequenced(op, i as i64, |s| {
            s.op(op, &[X], 60.0);
        });
    }
    s.backward("TanhBackward0", 1, |s| {
        s.op("aten::tanh_backward", &[X, X], 90.0).op("aten::mul", &[X, X], 90.0).op("aten::neg", &[X], 60.0);
    });
    let p = s.one(Code::ElementwiseChain);
    assert!((p.backward_ms - 0.24).abs() < 1e-9);
    s.look(|scene, patterns, findings| {
        let candidate = &fusion_candidates(scene, patterns)[0];
        let listed: f64 = candidate.kernels.iter().map(|k| k.dur_us_total).sum();
        let whole = listed + candidate.backward_kernel_time_us;
        assert!((candidate.total_kernel_time_us - whole).abs() < 1e-6, "{candidate:?}");
        assert_eq!(candidate.backward_kernel_count, 3);
        assert!(findings.iter().all(|f| f.issue.contains(", 0.24 ms of it in the backward pass.")), "{findings:?}");
    });
}

#[test]
fn elementwise_work_on_a_products_output_is_an_epilogue() {
    let draw = |shape: &[i64], module: bool| {
        let mut s = Sketch::new();
        let draw = |s: &mut Sketch| {
            s.op("aten::addmm", &[&[4096], &[16384, 1024], &[1024, 4096], &[], &[]], 200.0);
            s.op("aten::relu", &[shape], 60.0);
        };
        if module {
            s.module("MLP_0", draw);
        } else {
            draw(&mut s);
        }
        s
    };
    let p = draw(&[8, 2048, 4096], true).one(Code::GemmEpilogue);
    assert_eq!(p.confidence, Confidence::Medium);
    assert!(p.saved_ms.unwrap().low > 0.0);
    draw(&[8, 4096, 2048], true).none(Code::GemmEpilogue);
    draw(&[8, 2048, 4096], false).none(Code::GemmEpilogue);
}

#[test]
fn small_modules_of_separate_kernels() {
    let draw = |between: &str| {
        let mut s = Sketch::new();
        s.module("Scale_0", |s| {
            s.op("aten::mul", &[X, &[]], 60.0).op(between, &[X, X], 60.0);
        });
        s
    };
    let p = draw("aten::add").one(Code::UnfusedModule);
    assert_eq!((p.ops.len(), p.stretches), (2, 1));
    assert_eq!(p.evidence, ["2 memory-bound operations stand next to each other"]);
    assert!(p.basis.contains("one pass moves"), "{}", p.basis);
    draw("aten::mm").none(Code::UnfusedModule);
}

#[test]
fn operations_with_others_between_them_are_no_neighbours() {
    let mut s = Sketch::new();
    s.module("Scale_0", |s| {
        for _ in 0..2 {
            s.op("aten::mul", &[X, &[]], 60.0).op("aten::add", &[X, X], 60.0).op("aten::cumsum", &[X, &[]], 60.0);
        }
    });
    let p = s.one(Code::UnfusedModule);
    assert_eq!((p.ops.len(), p.stretches), (4, 2));
    assert_eq!(p.evidence, ["4 memory-bound operations stand in 2 groups of neighbours"]);
    let mut one = Sketch::new();
    one.module("Scale_0", |s| {
        s.op("aten::mul", &[X, &[]], 60.0).op("aten::add", &[X, X], 60.0);
    });
    let one = one.one(Code::UnfusedModule);
    let (both, single) = (p.fused_ms.unwrap(), one.fused_ms.unwrap());
    assert!((both.high - 2.0 * single.high).abs() < 1e-9, "each group is a pass: {both:?} {single:?}");
    assert!(p.basis.contains("2 passes move"), "{}", p.basis);
    s.look(|_, _, findings| {
        let said = &findings.iter().find(|f| f.title.contains("Scale")).unwrap().paths.algorithmic;
        assert!(said[0].contains("each of the 2 groups of adjacent operations"), "{said:?}");
    });
}

#[test]
fn sizes_are_in_the_unit_that_they_ask_for() {
    let basis = |x: &[i64]| {
        let mut s = Sketch::new();
        s.op("aten::mul", &[x, &[]], 60.0).op("aten::add", &[x, &[], &[]], 60.0).op("aten::tanh", &[x], 60.0);
        s.one(Code::ElementwiseChain).basis
    };
    // In bf16, read once and written once.
    assert!(basis(X).contains("one pass moves 256.0 MiB and takes"), "{}", basis(X));
    assert!(basis(&[64, 96]).contains("one pass moves 24.0 KiB and takes"), "{}", basis(&[64, 96]));
}

#[test]
fn the_bandwidth_of_a_basis_is_that_of_its_bytes_and_times() {
    // A share of the peak for the worst and the best time, as the bytes give it.
    let shares = |basis: &str, mib: f64| {
        let between = |from: &str, to: &str| basis.split_once(from).unwrap().1.split_once(to).unwrap().0.to_owned();
        let range =
            |text: String| text.split_once('-').map(|(a, b)| [a, b].map(|n| n.parse::<f64>().unwrap())).unwrap();
        let ([best, worst], told) = (range(between("and takes ", " us")), range(between("a call, ", "%")));
        [(worst, told[0]), (best, told[1])].map(|(us, told)| (100.0 * mib * 1_048_576.0 / (us * 4.8e6), told))
    };
    let mut s = Sketch::new();
    s.op("aten::mul", &[X, &[]], 60.0).op("aten::add", &[X, &[], &[]], 60.0).op("aten::neg", &[X], 60.0);
    let basis = s.one(Code::ElementwiseChain).basis;
    for (given, told) in shares(&basis, 256.0) {
        assert!((given - told).abs() < 0.2, "{given} {basis}");
    }
    assert!(basis.contains("% of 4.8 TB/s with arithmetic (simple operations reach 90.0%)"), "{basis}");
    let mut small = Sketch::new();
    let x: &[i64] = &[64, 96];
    small.op("aten::mul", &[x, &[]], 60.0).op("aten::add", &[x, &[], &[]], 60.0).op("aten::tanh", &[x], 60.0);
    let basis = small.one(Code::ElementwiseChain).basis;
    assert!(
        basis.contains("takes 2.0-4.0 us a call, and no fused kernel is taken to need less than 2.0-4.0 us"),
        "{basis}"
    );
}

#[test]
fn limits_of_modules_are_those_in_force() {
    let mut s = Sketch::new();
    s.module("Scale_0", |s| {
        s.op("aten::mul", &[X, &[]], 60.0).op("aten::add", &[X, X], 60.0);
    });
    assert!(s.one(Code::UnfusedModule).saved_ms.is_some());
    s.limit(Threshold::FusionModeledFew, 1.1);
    assert_eq!(s.one(Code::UnfusedModule).saved_ms, None, "more than all of it must have a model");
    s.limit(Threshold::FusionMaxKernels, 1.0).none(Code::UnfusedModule);
}

#[test]
fn more_of_a_module_with_many_operations_must_have_a_model() {
    let mut s = Sketch::new();
    s.module("Scale_0", |s| {
        for _ in 0..2 {
            s.op("aten::mul", &[X, &[]], 60.0).op("aten::add", &[X, X], 60.0).op("aten::cumsum", &[X, &[]], 60.0);
        }
        s.op("aten::mul", &[X, &[]], 60.0).op("aten::add", &[X, X], 60.0);
    });
    s.limit(Threshold::FusionModeledFew, 1.1);
    assert!(s.one(Code::UnfusedModule).saved_ms.is_some(), "six operations are many");
    s.limit(Threshold::FusionModeledMany, 1.1);
    assert_eq!(s.one(Code::UnfusedModule).saved_ms, None);
}

#[test]
fn elements_picked_with_one_hot_rows() {
    let x: &[i64] = &[8192, 32000];
    let draw = |around: &str, summed: bool| {
        let mut s = Sketch::new();
        s.module("Loss_0", |s| {
            s.within(around, |s| {
                s.typed("aten::fill_", &[x, &[]], &["long int", "Scalar"], 450.0);
                s.typed(
                    "aten::scatter_",
                    &[x, &[], &[8192, 1], &[]],
                    &["long int", "Scalar", "long int", "Scalar"],
                    6.0,
                );
            });
            s.typed("aten::copy_", &[x, x], &["float", "long int"], 870.0);
            s.dtype("float").op("aten::_log_softmax", &[x, &[], &[]], 800.0).op("aten::mul", &[x, x], 770.0);
            if summed {
                s.reduce("aten::sum", x, 250.0);
            }
        });
        s
    };
    let s = draw("aten::one_hot", true);
    let p = s.one(Code::OneHotTargets);
    assert_eq!((p.ops.len(), p.confidence), (5, Confidence::High));
    s.look(|_, _, findings| {
        assert_eq!(findings[0].title, "Elements picked with one-hot rows in `Loss`");
        assert!(findings[0].paths.algorithmic[0].contains("cross_entropy(logits, targets)"), "{:?}", findings[0].paths);
        assert!((findings[0].time_ms - 2.346).abs() < 1e-9, "{}", findings[0].time_ms);
    });
    // Nothing of it is fused, so it is no candidate for that.
    assert!(s.analysis().fusion_candidates.iter().all(|c| c.pattern != Code::OneHotTargets));
    draw("aten::zeros", true).none(Code::OneHotTargets);
    draw("aten::one_hot", false).none(Code::OneHotTargets);
}

#[test]
fn a_convolution_by_unfolding() {
    let (image, unfolded, weight): (&[i64], &[i64], &[i64]) = (&[32, 128, 56, 56], &[32, 3136, 1152], &[1152, 128]);
    let draw = |between: &str, batched: bool| {
        let mut s = Sketch::new();
        s.module("Local_0", |s| {
            s.op("aten::im2col", &[image, &[], &[], &[], &[]], 390.0).op(between, &[unfolded, unfolded], 800.0);
            if batched {
                s.op("aten::bmm", &[unfolded, &[32, 1152, 128]], 70.0);
            } else {
                s.op("aten::mm", &[&[100_352, 1152], weight], 70.0);
            }
            s.op("aten::copy_", &[&[32, 128, 3136], &[32, 128, 3136]], 85.0);
        });
        s
    };
    let s = draw("aten::copy_", false);
    let p = s.one(Code::UnfoldedConvolution);
    assert_eq!((p.ops.len(), p.confidence), (4, Confidence::High));
    let roofline_ms = 2.0 * 100_352.0 * 1152.0 * 128.0 / 990e9;
    let fused = p.fused_ms.unwrap();
    assert!(
        (fused.low - roofline_ms / 0.7).abs() < 1e-6 && (fused.high - roofline_ms / 0.35).abs() < 1e-6,
        "{fused:?}"
    );
    s.look(|_, _, findings| {
        assert_eq!(findings[0].title, "Convolution by unfolding in `Local`");
        assert!(findings[0].paths.algorithmic[0].contains("torch.nn.functional.conv2d"), "{:?}", findings[0].paths);
    });
    assert!(s.analysis().fusion_candidates.iter().all(|c| c.pattern != Code::UnfoldedConvolution));
    // Something is done to what was unfolded, or each image has a weight of its own.
    draw("aten::mul", false).none(Code::UnfoldedConvolution);
    draw("aten::copy_", true).none(Code::UnfoldedConvolution);
}

#[test]
fn a_tensor_that_may_come_from_elsewhere_may_need_a_gradient() {
    let x: &[i64] = &[8192, 8192];
    let worst = |second: &[i64], trains: bool| {
        let mut s = Sketch::new();
        s.recorded(1).op("aten::abs", &[x], 80.0).recorded(2).op("aten::mul", &[x, second], 120.0);
        s.recorded(3).op("aten::neg", &[x], 80.0);
        if trains {
            for (node, sequence, op) in
                [("NegBackward0", 3, "neg"), ("MulBackward0", 2, "mul"), ("AbsBackward0", 1, "mul")]
            {
                s.backward(node, sequence, |s| {
                    s.op(&format!("aten::{op}"), &[x, x], 120.0);
                });
            }
        }
        s.one(Code::ElementwiseChain).fused_ms.unwrap().high
    };
    // It is read, read again, and its gradient is written.
    let brought = |trains: bool| worst(x, trains) - worst(&[], trains);
    let times = brought(true) / brought(false);
    assert!((times - 3.0).abs() < 0.2, "{times}");
}

#[test]
fn rows_picked_with_a_one_hot_matrix() {
    let rows: &[i64] = &[16384, 8192];
    let draw = |read: &[i64]| {
        let mut s = Sketch::new();
        s.module("Embed_0", |s| {
            s.within("aten::one_hot", |s| {
                s.typed("aten::fill_", &[rows, &[]], &["long int", "Scalar"], 230.0);
                s.typed(
                    "aten::scatter_",
                    &[rows, &[], &[16384, 1], &[]],
                    &["long int", "Scalar", "long int", "Scalar"],
                    6.0,
                );
            });
            s.typed("aten::copy_", &[rows, rows], &["c10::BFloat16", "long int"], 350.0);
            s.op("aten::mm", &[read, &[8192, 1024]], 380.0);
        });
        s
    };
    let s = draw(rows);
    let p = s.one(Code::OneHotTargets);
    assert_eq!(p.ops.len(), 4);
    s.look(|_, _, findings| {
        assert_eq!(findings[0].title, "Rows picked with a one-hot matrix in `Embed`");
        assert!(findings[0].paths.algorithmic[0].contains("embedding(indices, weight)"), "{:?}", findings[0].paths);
    });
    // The rows are read and written, at a fifth of the bandwidth at worst.
    let ms = 2.0 * 2.0 * 16384.0 * 1024.0 / 4.8e9;
    assert!((p.fused_ms.unwrap().high - ms / 0.2).abs() < 1e-6, "{:?}", p.fused_ms);
    draw(&[16384, 4096]).none(Code::OneHotTargets);
}

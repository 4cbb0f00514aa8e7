//! Ordinary programs that look like a pattern and are none.

use super::sketch::Sketch;
use crate::patterns::Code;

const B: i64 = 4;
const H: i64 = 8;
const N: i64 = 512;
const D: i64 = 64;
const SCORES: &[i64] = &[B, H, N, N];

/// Attention in separate operations, with something between its products and something behind them.
fn attention(dim: &str, between: impl Fn(&mut Sketch), behind: impl Fn(&mut Sketch)) -> Sketch {
    let mut s = Sketch::new();
    for layer in 0..2 {
        s.module(&format!("Attention_{layer}"), |s| {
            s.op("aten::bmm", &[&[B * H, N, D], &[B * H, D, N]], 40.0).op("aten::mul", &[SCORES, &[]], 40.0);
            between(s);
            let args = [
                ("Input Dims", format!("[{SCORES:?}, [], []]")),
                ("Input type", r#"["c10::BFloat16", "Scalar", "Scalar"]"#.to_owned()),
                ("Concrete Inputs", format!(r#"["", "{dim}", "False"]"#)),
            ];
            s.launch("aten::_softmax", 60.0, &args);
            s.op("aten::bmm", &[&[B * H, N, N], &[B * H, N, D]], 40.0);
            behind(s);
            s.op("aten::mm", &[&[B * N, H * D], &[H * D, H * D]], 30.0);
        });
    }
    s
}

fn nothing(_: &mut Sketch) {}

#[test]
fn what_fused_attention_does_not_compute_is_none() {
    attention("-1", nothing, nothing).one(Code::UnfusedAttention);
    // Over the queries, as slots compete for what is looked at.
    attention("2", nothing, nothing).none(Code::UnfusedAttention);
    // Each head's scores are made of those of all heads.
    let talking = |s: &mut Sketch| _ = s.op("aten::mm", &[&[B * N * N, H], &[H, H]], 90.0);
    attention("-1", talking, nothing).none(Code::UnfusedAttention);
    // A loss on the weights themselves; their mean over heads is what layers of the framework give.
    let guided =
        |s: &mut Sketch| _ = s.op("aten::mul", &[SCORES, &[1, 1, N, N]], 50.0).whole("aten::mean", SCORES, 9.0);
    attention("-1", nothing, guided).none(Code::UnfusedAttention);
    let averaged = |s: &mut Sketch| {
        let dims = ("Input Dims", format!("[{SCORES:?}, [], [], []]"));
        let types = ("Input type", r#"["c10::BFloat16", "ScalarList", "Scalar", ""]"#.to_owned());
        s.launch("aten::mean", 20.0, &[dims, types, ("Concrete Inputs", r#"["", "[1]", "False", ""]"#.to_owned())]);
    };
    attention("-1", nothing, averaged).one(Code::UnfusedAttention);
}

#[test]
fn a_function_on_the_scores_needs_another_call() {
    let capped = |s: &mut Sketch| {
        s.op("aten::div", &[SCORES, &[]], 40.0).op("aten::tanh", &[SCORES], 40.0).op("aten::mul", &[SCORES, &[]], 40.0);
    };
    let saved = |s: Sketch| {
        s.look(|_, patterns, findings| {
            let p = patterns.iter().find(|p| p.code == Code::UnfusedAttention).unwrap();
            (findings[0].paths.algorithmic[0].clone(), p.fused_ms.unwrap())
        })
    };
    let (usual, plain) = saved(attention("-1", nothing, nothing));
    let (advice, slower) = saved(attention("-1", capped, nothing));
    assert!(usual.contains("scaled_dot_product_attention` so that"), "{usual}");
    assert!(advice.contains("flex_attention") && advice.contains("(`aten::tanh`)"), "{advice}");
    assert!((slower.low / plain.low - 2.5).abs() < 1e-6, "{slower:?} {plain:?}");
}

#[test]
fn layers_with_an_activation_between_are_no_adapters() {
    let out: &[i64] = &[4096, 2048];
    let draw = |between: &str, added: &[i64]| {
        let mut s = Sketch::new();
        for layer in 0..3 {
            s.module(&format!("Adapter_{layer}"), |s| {
                s.op("aten::mm", &[out, &[2048, 2048]], 45.0).op("aten::mm", &[out, &[2048, 16]], 8.0);
                s.op(between, &[&[4096, 16], &[]], 3.0).op("aten::mm", &[&[4096, 16], &[16, 2048]], 9.0);
                s.op("aten::add", &[out, added, &[]], 16.0);
            });
        }
        s
    };
    draw("aten::mul", out).one(Code::Adapters);
    draw("aten::relu", out).none(Code::Adapters);
    draw("aten::mul", &[2048]).none(Code::Adapters);
}

#[test]
fn what_is_put_to_a_whole_sequence_is_no_cache() {
    let (long, short): (&[i64], &[i64]) = (&[8, 16, 1024, 64], &[8, 16, 4, 64]);
    let all = [8, 16, 1028, 64];
    let draw = |parts: [&[i64]; 2], queries: &[i64], layer: &str, dims: &[i64]| {
        let mut s = Sketch::new();
        for _ in 0..4 {
            s.cat(&parts, 90.0).cat(&parts, 90.0).op(layer, &[dims, &[64, 16, 3, 3]], 5.0);
            s.op("aten::_scaled_dot_product_flash_attention", &[queries, &all, &all, &[], &[], &[]], 250.0);
        }
        s
    };
    draw([long, short], short, "aten::relu", long).one(Code::GrownCache);
    // Tokens that are learnt, before or behind those of a sequence that attends to itself; convolutions read them first.
    draw([short, long], short, "aten::relu", long).none(Code::GrownCache);
    draw([long, short], long, "aten::relu", long).none(Code::GrownCache);
    draw([long, short], short, "aten::convolution", long).none(Code::GrownCache);
}

#[test]
fn factors_of_one_image_are_no_batch_norm() {
    let draw = |batch: i64| {
        let (x, c): (&[i64], &[i64]) = (&[batch, 256, 128, 128], &[1, 256, 1, 1]);
        let mut s = Sketch::new();
        s.op("aten::native_group_norm", &[x, &[256], &[256]], 60.0).op("aten::add", &[c, &[]], 2.0);
        s.op("aten::mul", &[x, c], 80.0).op("aten::add", &[x, c, &[]], 80.0);
        s
    };
    draw(8).one(Code::UnfusedBatchNorm);
    draw(1).none(Code::UnfusedBatchNorm);
}

#[test]
fn sums_for_each_class_pick_nothing() {
    let x: &[i64] = &[8192, 32000];
    let draw = |over: &str| {
        let mut s = Sketch::new();
        s.within("aten::one_hot", |s| {
            s.typed("aten::fill_", &[x, &[]], &["long int", "Scalar"], 450.0);
            let types = ["long int", "Scalar", "long int", "Scalar"];
            s.typed("aten::scatter_", &[x, &[], &[8192, 1], &[]], &types, 6.0);
        });
        s.typed("aten::copy_", &[x, x], &["float", "long int"], 870.0);
        s.dtype("float").op("aten::mul", &[x, x], 770.0).over("aten::sum", x, over, 250.0);
        s
    };
    draw("[-1]").one(Code::OneHotTargets);
    draw("[0]").none(Code::OneHotTargets);
}

#[test]
fn all_rows_but_a_few_are_used() {
    let draw = |read: &[i64]| {
        let whole: &[i64] = &[4, 1024, 32000];
        let mut s = Sketch::new();
        s.op("aten::mm", &[&[4096, 1024], &[1024, 32000]], 4000.0);
        s.view("aten::select", whole).op("aten::argmax", &[&[4, 32000]], 5.0);
        s.view("aten::slice", whole).op("aten::_log_softmax", &[read, &[], &[]], 900.0);
        s
    };
    draw(&[4, 32000]).one(Code::UnusedRows);
    draw(&[4, 1023, 32000]).none(Code::UnusedRows);
}

#[test]
fn random_numbers_are_drawn_and_no_loop_over_tensors() {
    let draw = |name: &str| {
        let mut s = Sketch::new();
        for n in 0..150 {
            s.op(name, &[&[1024 + 8 * n, 1024], &[], &[]], 4.0);
        }
        s
    };
    assert_eq!(draw("aten::mul_").patterns(Code::UnfusedOptimizer).len(), 1);
    for name in ["aten::uniform_", "aten::exponential_", "aten::log_normal_", "aten::normal_"] {
        draw(name).none(Code::UnfusedOptimizer);
    }
}

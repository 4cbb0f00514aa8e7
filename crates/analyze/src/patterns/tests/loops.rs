//! Experts, loops over slices, optimizers, recomputation.

use super::sketch::Sketch;
use crate::finding::{Finding, PatternId};
use crate::patterns::candidates::is_told_of_rows;
use crate::patterns::{Code, Confidence};
use crate::system::selections::tell_of_loops;

fn expert(s: &mut Sketch, rows: i64, indexed: bool) {
    if indexed {
        s.op("aten::index", &[&[8192, 1024], &[]], 5.0);
    }
    // At most a third of what the GPU can do.
    let us = 20.0_f64.max(rows as f64 / 32.0);
    s.op("aten::mm", &[&[rows, 1024], &[1024, 4096]], us).op("aten::silu", &[&[rows, 4096]], 5.0);
    s.op("aten::mm", &[&[rows, 4096], &[4096, 1024]], us);
    if indexed {
        s.op("aten::index_add_", &[&[8192, 1024], &[], &[rows], &[rows, 1024]], 10.0);
    }
}

#[test]
fn experts_in_a_loop() {
    let draw_in = |module: &str, experts: i64, indexed: bool, spread: i64| {
        let mut s = Sketch::new();
        s.module(module, |s| {
            for e in 0..experts {
                expert(s, 500 + spread * e, indexed);
            }
        });
        s
    };
    let draw = |experts: i64, indexed: bool, spread: i64| draw_in("SparseMoeBlock_0", experts, indexed, spread);
    let p = draw(8, true, 7).one(Code::MoeExpertLoop);
    assert_eq!((p.instances, p.confidence), (1, Confidence::High));
    assert_eq!(p.ops.len(), 8 * 5);
    draw(3, true, 7).none(Code::MoeExpertLoop);
    draw(8, false, 7).none(Code::MoeExpertLoop);
    // The same load everywhere counts where the module's name says what it is.
    assert_eq!(draw(8, true, 0).patterns(Code::MoeExpertLoop).len(), 1);
    draw_in("SparseGIN_0", 8, true, 0).none(Code::MoeExpertLoop);
    let mut s = Sketch::new();
    for _ in 0..8 {
        expert(&mut s, 500, true);
    }
    s.none(Code::MoeExpertLoop);
    // Without a module different loads are enough.
    let mut s = Sketch::new();
    for e in 0..8 {
        expert(&mut s, 500 + 7 * e, true);
    }
    assert_eq!(s.one(Code::MoeExpertLoop).confidence, Confidence::Medium);
}

#[test]
fn experts_on_parts_of_sorted_rows() {
    // y = torch.cat([experts[e](rows) for e, rows in enumerate(x[order].split(counts))]), then back into order
    let draw = |loads: &[i64], all: i64| {
        let mut s = Sketch::new();
        s.op("aten::index", &[&[8192, 1024], &[]], 9.0);
        for &rows in loads {
            expert(&mut s, rows, false);
        }
        // An expert for all tokens has the same weights.
        s.cat(&[], 5.0).op("aten::index_put_", &[&[all, 1024], &[], &[all, 1024]], 9.0);
        expert(&mut s, 8192, false);
        s
    };
    let p = draw(&[700, 500, 900, 300], 2400).one(Code::MoeExpertLoop);
    assert_eq!((p.instances, p.ops.len()), (1, 1 + 4 * 3 + 2));
    assert_eq!(p.evidence[0], "4 experts of 2 matrix products each, 300 to 900 rows in the first loop");
    // Other rows than all together, few experts, equal loads.
    draw(&[700, 500, 900, 300], 2401).none(Code::MoeExpertLoop);
    draw(&[700, 500, 900], 2100).none(Code::MoeExpertLoop);
    draw(&[600, 600, 600, 600], 2400).none(Code::MoeExpertLoop);
    draw(&[0, 0, 0, 0, 0], 2400).none(Code::MoeExpertLoop);
}

#[test]
fn a_function_called_again_and_again_is_no_expert() {
    // for chunk in chunks: y = mlp(chunk); kept.append(all[y.mean(-1) > 0])
    let (own, same) = (true, false);
    let draw = |rows: [i64; 2], us: f64, own_module: bool| {
        let mut s = Sketch::new();
        for turn in 0..8 {
            let rows = rows[turn % 2];
            s.module(&format!("Mlp_{}", if own_module { turn } else { 0 }), |s| {
                s.op("aten::mm", &[&[rows, 1024], &[1024, 4096]], us).op("aten::silu", &[&[rows, 4096]], 5.0);
                s.op("aten::mm", &[&[rows, 4096], &[4096, 1024]], us);
            });
            s.op("aten::nonzero", &[&[rows]], 9.0).op("aten::index", &[&[32768, 1024], &[]], 9.0);
        }
        s
    };
    draw([100, 100], 20.0, own).one(Code::MoeExpertLoop);
    draw([100, 200], 20.0, own).one(Code::MoeExpertLoop);
    // One module has one set of weights.
    draw([100, 100], 20.0, same).none(Code::MoeExpertLoop);
    draw([100, 200], 20.0, same).none(Code::MoeExpertLoop);
    // Equal loads of many rows are no experts', whatever the modules.
    draw([16384, 16384], 500.0, own).none(Code::MoeExpertLoop);
    draw([16384, 8192], 500.0, own).one(Code::MoeExpertLoop);
    // Products that fill the GPU take as long in a group.
    draw([16384, 16256], 160.0, own).none(Code::MoeExpertLoop);
}

#[test]
fn layers_on_a_graph_one_after_another_are_no_experts() {
    // for layer in layers: x = relu(layer.own(gather(x)) @ ...), on fewer nodes each time
    let draw = |picks_from: fn(i64) -> i64| {
        let mut s = Sketch::new();
        for nodes in [9000, 4000, 1600, 700, 300, 120] {
            s.op("aten::index_select", &[&[picks_from(nodes), 1024], &[], &[nodes * 5]], 9.0);
            s.op("aten::mm", &[&[nodes, 1024], &[1024, 1024]], nodes as f64 / 20.0);
            s.op("aten::mm", &[&[nodes, 1024], &[1024, 1024]], nodes as f64 / 20.0);
        }
        s
    };
    draw(|nodes| 2 * nodes).none(Code::MoeExpertLoop);
    draw(|_| 16384).one(Code::MoeExpertLoop);
}

#[test]
fn experts_of_a_layer_are_told_whole() {
    // The host pauses for long within the loop of the first of two layers.
    let mut s = Sketch::new();
    for layer in 0..2 {
        s.op("aten::mm", &[&[8192, 1024], &[1024, 3072]], 90.0);
        for e in 0..16 {
            if layer == 0 && e == 6 {
                s.pause();
            }
            expert(&mut s, 500 + 7 * e, true);
        }
    }
    let p = s.one(Code::MoeExpertLoop);
    assert_eq!((p.instances, p.leaves[0].len(), p.leaves[1].len()), (2, 16 * 5, 16 * 5));
    assert!(p.basis.starts_with("2 loops take "), "{}", p.basis);
    let a = s.analysis();
    assert_eq!(a.prepared.model.architecture, "MoE");
    let f = a.findings.iter().find(|f| f.pattern == PatternId::MOE_EXPERT_LOOP).unwrap();
    // Sixteen loads for each of four operations, and one shape of the rows they are picked from.
    assert_eq!((f.operations.len(), f.operations_total), (24, 4 * 16 + 1));
    let names: std::collections::BTreeSet<&str> = f.operations.iter().map(|o| o.name.as_str()).collect();
    assert_eq!(names.into_iter().collect::<Vec<_>>(), ["aten::index", "aten::index_add_", "aten::mm", "aten::silu"]);
    let listed: f64 = f.operations.iter().map(|o| o.time_ms).sum();
    assert!((listed + f.operations_left_out_ms - p.time_ms).abs() < 1e-9, "{listed}");
    assert!(f.operations.windows(2).all(|w| w[0].time_ms >= w[1].time_ms));
}

/// Looks for the tokens of an expert.
fn search(s: &mut Sketch) {
    s.op("aten::eq", &[&[8192, 2], &[]], 2.0).op("aten::nonzero", &[&[8192, 2]], 9.0);
}

#[test]
fn experts_without_tokens_belong_to_the_loop() {
    let mut s = Sketch::new();
    s.op("aten::topk", &[&[8192, 64]], 9.0);
    for e in 0..64 {
        search(&mut s);
        if (20..24).contains(&e) {
            expert(&mut s, 8192, true);
        }
    }
    // The same load everywhere: that each expert's tokens are looked for says what it is.
    let p = s.op("aten::nonzero", &[&[512]], 9.0).one(Code::MoeExpertLoop);
    assert_eq!((p.instances, p.ops.len()), (1, 64 * 2 + 4 * 5));
    assert_eq!(
        p.evidence[0],
        "4 of 64 experts have tokens: 2 matrix products each, 8192 to 8192 rows in the first loop"
    );
}

#[test]
fn gradients_of_experts_are_written_once() {
    // y[rows] @ w[e], with the weights of all experts in one tensor
    let draw = |summed: bool| {
        let mut s = Sketch::new();
        for e in 0..8_i64 {
            let rows = 500 + 7 * e;
            s.op("aten::index", &[&[8192, 1024], &[]], 5.0);
            s.sequenced("aten::mm", e, |s| _ = s.op("aten::mm", &[&[rows, 1024], &[1024, 4096]], 20.0));
            s.op("aten::mm", &[&[rows, 4096], &[4096, 1024]], 20.0);
            s.op("aten::index_add_", &[&[8192, 1024], &[], &[rows], &[rows, 1024]], 10.0);
        }
        for e in (0..8_i64).rev() {
            s.backward("MmBackward0", e, |s| {
                s.op("aten::mm", &[&[1024, 500 + 7 * e], &[500 + 7 * e, 4096]], 20.0);
                if summed {
                    s.op("aten::add_", &[&[8, 1024, 4096], &[8, 1024, 4096], &[]], 50.0);
                }
            });
        }
        s.one(Code::MoeExpertLoop)
    };
    let (summed, alone) = (draw(true), draw(false));
    assert!((summed.backward_ms - alone.backward_ms - 8.0 * 0.05).abs() < 1e-9, "{}", summed.backward_ms);
    // One of the sums is left at best, all of them at worst.
    let more = |end: fn(crate::finding::Range) -> f64| end(summed.fused_ms.unwrap()) - end(alone.fused_ms.unwrap());
    let once = 3.0 * 2.0 * 8.0 * 1024.0 * 4096.0 / 4.32e12 * 1e3;
    assert!((more(|r| r.low) - once).abs() < 1e-6, "{} {once}", more(|r| r.low));
    assert!((more(|r| r.high) - 0.4).abs() < 1e-9, "{}", more(|r| r.high));
}

#[test]
fn waits_within_a_loop_over_experts_go_with_it() {
    let told = |after: usize, wait: &str| {
        let mut s = Sketch::new();
        s.op("aten::topk", &[&[8192, 64]], 9.0);
        for e in 0..16 {
            search(&mut s);
            s.op("aten::_local_scalar_dense", &[&[1]], 1.0);
            expert(&mut s, 500 + 7 * e, true);
        }
        for _ in 0..after {
            s.op("aten::native_layer_norm", &[&[8192, 1024], &[], &[1024], &[1024], &[]], 9.0);
            s.op("aten::nonzero", &[&[512]], 9.0).op("aten::_local_scalar_dense", &[&[1]], 1.0);
        }
        s.look(|scene, patterns, findings| {
            let experts = findings.iter().find(|f| f.pattern == PatternId::MOE_EXPERT_LOOP).unwrap();
            let mut waits = Finding { pattern: PatternId::HOST_SYNC, ..experts.clone() };
            waits.operations.truncate(1);
            waits.operations[0].name = wait.to_owned();
            waits.paths.algorithmic.clear();
            let mut all = vec![experts.clone(), waits];
            tell_of_loops(&mut all, patterns, scene.program);
            let waits = all.pop().unwrap();
            assert_eq!(waits.goes_with.is_some(), !waits.paths.algorithmic.is_empty());
            waits.paths.algorithmic
        })
    };
    for (wait, gone) in [("aten::nonzero", "nothing is selected"), ("aten::_local_scalar_dense", "nothing is read")] {
        let first = &told(0, wait)[0];
        assert!(first.starts_with("Mend the loop first (Experts run one after another"), "{first}");
        assert!(first.contains(gone), "{first}");
        assert_eq!(told(20, wait), Vec::<String>::new(), "most wait elsewhere");
    }
}

#[test]
fn searches_tell_a_loop_in_which_few_experts_have_tokens() {
    let draw = |active: &[i64], searches: i64, indexed: bool| {
        let mut s = Sketch::new();
        s.op("aten::topk", &[&[8192, 64]], 9.0);
        for e in 0..searches {
            search(&mut s);
            if active.contains(&e) {
                expert(&mut s, 8192, indexed);
            }
        }
        s.op("aten::native_layer_norm", &[&[8192, 1024], &[], &[1024], &[1024], &[]], 9.0);
        s
    };
    // The last expert of the loop counts as well.
    let p = draw(&[3, 15], 16, true).one(Code::MoeExpertLoop);
    assert_eq!(p.ops.len(), 16 * 2 + 2 * 5);
    assert_eq!(
        p.evidence[0],
        "2 of 16 experts have tokens: 2 matrix products each, 8192 to 8192 rows in the first loop"
    );
    // Five kernels of its own and two of the search.
    assert_eq!(p.facts, [("n", "16".to_owned()), ("kernels", "7".to_owned())]);
    draw(&[1], 3, true).none(Code::MoeExpertLoop);
    draw(&[], 16, true).none(Code::MoeExpertLoop);
    draw(&[3, 15], 16, false).none(Code::MoeExpertLoop);
}

#[test]
fn experts_behind_a_mask_are_counted_once() {
    // for e in range(16): m = choice == e; out[m] = silu(x[m] @ w1[e]) @ w2[e]
    let draw = |loads: &[i64]| {
        let mut s = Sketch::new();
        s.dtype("long int").op("aten::argmax", &[&[8192, 16]], 9.0).dtype("c10::BFloat16");
        for &rows in loads {
            s.op("aten::eq", &[&[8192], &[]], 2.0).op("aten::nonzero", &[&[8192]], 9.0);
            if rows > 0 {
                expert(&mut s, rows, true);
            }
            // The mask is turned into numbers once more to write the rows, also where there are none.
            s.op("aten::nonzero", &[&[8192]], 9.0);
            if rows > 0 {
                s.op("aten::_index_put_impl_", &[&[8192, 1024], &[], &[rows, 1024], &[], &[]], 5.0);
            }
        }
        s.op("aten::mul", &[&[8192, 1024], &[8192, 1]], 9.0);
        s
    };
    let all: Vec<i64> = (0..16).map(|e| 500 + 7 * e).collect();
    let p = draw(&all).one(Code::MoeExpertLoop);
    assert_eq!((p.instances, p.ops.len()), (1, 16 * 9));
    assert_eq!(p.facts, [("n", "16".to_owned()), ("kernels", "8".to_owned())]);
    // All tokens have gone to one: the searches for the others make the loop, whatever stands before it.
    for only in [0, 7, 15] {
        let mut loads = vec![0; 16];
        loads[only] = 8192;
        let p = draw(&loads).one(Code::MoeExpertLoop);
        assert_eq!((p.instances, p.ops.len()), (1, 16 * 3 + 6), "{only}");
        assert_eq!(
            p.evidence[0],
            "1 of 16 experts have tokens: 2 matrix products each, 8192 to 8192 rows in the first loop"
        );
    }
}

#[test]
fn layers_are_no_experts() {
    // Attention between the products of each repeat.
    let mut s = Sketch::new();
    for e in 0..8 {
        let n = 500 + 7 * e;
        s.op("aten::index", &[&[8192, 1024], &[]], 5.0);
        s.op("aten::mm", &[&[n, 1024], &[1024, 1024]], 20.0);
        s.op("aten::_flash_attention_forward", &[&[1, n, 8, 128], &[1, n, 8, 128], &[1, n, 8, 128]], 20.0);
        s.op("aten::mm", &[&[n, 1024], &[1024, 1024]], 20.0);
    }
    s.none(Code::MoeExpertLoop);
}

#[test]
fn an_optimizer_step_of_many_small_kernels() {
    let of_type = |dtype, parameters: usize, annotation: &str| {
        let mut s = Sketch::new();
        let p: &[i64] = &[1024, 1024];
        s.dtype(dtype).annotated(annotation, |s| {
            for _ in 0..parameters {
                s.op("aten::mul_", &[p, &[]], 3.0).op("aten::lerp_", &[p, p, &[]], 4.0);
                s.op("aten::addcmul_", &[p, p, p, &[]], 4.0).op("aten::sqrt", &[p], 2.0);
                s.op("aten::addcdiv_", &[p, p, p, &[]], 4.0);
            }
        });
        s
    };
    let draw = |parameters, annotation: &str| of_type("float", parameters, annotation);
    let p = draw(20, "Optimizer.step#Adam.step").one(Code::UnfusedOptimizer);
    assert_eq!((p.instances, p.confidence, p.ops.len()), (1, Confidence::High, 100));
    // Twenty parameters of 4 MB: four tensors read, three written.
    let bytes = 20.0 * 4.0 * 1024.0 * 1024.0 * 7.0;
    assert!((p.fused_ms.unwrap().low - bytes / (4.8e12 * 0.945) * 1e3).abs() < 1e-6);
    // With half the bytes it is far from twice as fast.
    let halves = of_type("c10::BFloat16", 20, "Optimizer.step#Adam.step").one(Code::UnfusedOptimizer);
    let (low, high) = (bytes / 2.0 / (4.8e12 * 0.6) * 1e3, bytes / 2.0 / (4.8e12 * 0.4) * 1e3);
    let fused = halves.fused_ms.unwrap();
    assert!((fused.low - low).abs() < 1e-6 && (fused.high - high).abs() < 1e-6, "{fused:?}");
    // A few large parameters are passed over as often.
    assert_eq!(draw(4, "Optimizer.step#Adam.step").one(Code::UnfusedOptimizer).ops.len(), 20);
    draw(3, "Optimizer.step#Adam.step").none(Code::UnfusedOptimizer);
    // Without the annotation, tensors of one shape may be one tensor.
    draw(20, "my step").none(Code::UnfusedOptimizer);
}

#[test]
fn moving_averages_of_many_tensors() {
    let (weight, bias): (&[i64], &[i64]) = (&[1024, 1024], &[1024]);
    let draw = |pairs: usize, shapes: [&[i64]; 2], update: &dyn Fn(&mut Sketch, &[i64])| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mm", &[weight, weight], 20.0);
        for _ in 0..pairs {
            for p in shapes {
                update(&mut s, p);
            }
        }
        s
    };
    let lerp = |s: &mut Sketch, p: &[i64]| {
        s.op("aten::mul_", &[p, &[]], 3.0).op("aten::add_", &[p, p, &[]], 4.0);
    };
    let s = draw(25, [weight, bias], &lerp);
    let p = s.one(Code::UnfusedOptimizer);
    assert_eq!((p.instances, p.confidence, p.ops.len()), (1, Confidence::Medium, 100));
    s.none(Code::ElementwiseChain);
    s.look(|_, _, findings| {
        assert_eq!(findings[0].title, "Tensors handled one by one");
        assert!(findings[0].paths.algorithmic[0].contains("torch._foreach_lerp_"), "{:?}", findings[0].paths);
    });
    // Average and parameter are read, the average is written.
    let bytes = 25.0 * 4.0 * (1024.0 * 1024.0 + 1024.0) * 3.0;
    assert!((p.fused_ms.unwrap().low - bytes / (4.8e12 * 0.945) * 1e3).abs() < 1e-6);
    let copied_back = |s: &mut Sketch, p: &[i64]| {
        s.op("aten::mul", &[p, &[]], 3.0).op("aten::mul", &[p, &[]], 3.0).op("aten::add", &[p, p, &[]], 4.0);
        s.op("aten::copy_", &[p, p], 3.0);
    };
    assert_eq!(draw(13, [weight, bias], &copied_back).one(Code::UnfusedOptimizer).ops.len(), 104);
    // A loop of another kind right after it, which seems to begin with its last operation.
    let mut two = draw(25, [weight, bias], &lerp);
    for i in 0..120 {
        let p = if i % 2 == 0 { weight } else { bias };
        two.op("aten::add_", &[p, p, &[]], 4.0);
    }
    assert_eq!(two.one(Code::UnfusedOptimizer).instances, 2);
    // Too few; tensors of one shape, which may be one; a function of each.
    draw(24, [weight, bias], &lerp).none(Code::UnfusedOptimizer);
    draw(25, [weight, weight], &lerp).none(Code::UnfusedOptimizer);
    let function = |s: &mut Sketch, p: &[i64]| {
        s.op("aten::exp", &[p], 3.0).op("aten::mul", &[p, p], 3.0).op("aten::add", &[p, p, &[]], 4.0);
        s.op("aten::tanh", &[p], 3.0);
    };
    draw(20, [weight, bias], &function).none(Code::UnfusedOptimizer);
}

/// Forward, backward, and what a closure draws for each of some parameters.
fn after_backward(parameters: usize, draw: impl Fn(&mut Sketch, &[i64])) -> Sketch {
    let (x, p): (&[i64], &[i64]) = (&[512, 1024], &[1024, 1024]);
    let mut s = Sketch::new();
    s.dtype("float").sequenced("aten::linear", 1, |s| {
        s.op("aten::mm", &[x, p], 20.0);
    });
    s.backward("MmBackward0", 1, |s| {
        s.op("aten::mm", &[p, x], 20.0);
    });
    for _ in 0..parameters {
        draw(&mut s, p);
    }
    // The next step begins.
    s.op("aten::mul", &[x, &[]], 3.0).op("aten::mm", &[x, p], 20.0);
    s
}

#[test]
fn an_optimizer_step_written_by_hand() {
    let adam = |s: &mut Sketch, p: &[i64]| {
        s.op("aten::mul_", &[p, &[]], 3.0).op("aten::add_", &[p, p, &[]], 4.0).op("aten::mul_", &[p, &[]], 3.0);
        s.op("aten::addcmul_", &[p, p, p, &[]], 4.0).op("aten::sqrt", &[p], 2.0).op("aten::add_", &[p, &[]], 2.0);
        s.op("aten::addcdiv_", &[p, p, p, &[]], 4.0);
    };
    let s = after_backward(20, adam);
    let p = s.one(Code::UnfusedOptimizer);
    assert_eq!((p.instances, p.confidence, p.ops.len()), (1, Confidence::Medium, 140));
    s.none(Code::ElementwiseChain);
    s.look(|_, _, findings| assert!(findings[0].paths.algorithmic[0].contains("_foreach_")));
    after_backward(14, adam).none(Code::UnfusedOptimizer);
    // Scaled gradients, and work that changes nothing in place.
    let clip = |s: &mut Sketch, p: &[i64]| {
        s.op("aten::mul_", &[p, p], 3.0);
    };
    after_backward(120, clip).none(Code::UnfusedOptimizer);
    let metrics = |s: &mut Sketch, p: &[i64]| {
        s.op("aten::abs", &[p], 3.0).op("aten::mul", &[p, p], 3.0).op("aten::exp", &[p], 3.0);
        s.op("aten::add_", &[p, p, &[]], 3.0);
    };
    after_backward(40, metrics).none(Code::UnfusedOptimizer);
}

/// What is done with each tensor.
type Turn<'a> = &'a dyn Fn(&mut Sketch, &[i64]);

/// Of a weight and a bias.
const SHAPES: [&[i64]; 2] = [&[1024, 1024], &[1024]];

#[test]
fn loops_that_scale_copy_or_measure_tensors() {
    let mb = 4.0 * (1024.0 * 1024.0 + 1024.0) / 1e6;
    let draw = |pairs: usize, turn: Turn<'_>| {
        let mut s = Sketch::new();
        s.dtype("float").op("aten::mm", &[&[1024, 1024], &[1024, 1024]], 20.0);
        for _ in 0..pairs {
            for p in SHAPES {
                turn(&mut s, p);
            }
        }
        s
    };
    let scaled = |s: &mut Sketch, p: &[i64]| _ = s.op("aten::mul_", &[p, &[]], 3.0);
    let copied = |s: &mut Sketch, p: &[i64]| _ = s.typed("aten::copy_", &[p, p], &["c10::BFloat16", "float"], 3.0);
    let measured = |s: &mut Sketch, p: &[i64]| _ = s.whole("aten::linalg_vector_norm", p, 3.0);
    // Read and written; read, and half as much written; read alone.
    let all: [Turn<'_>; 3] = [&scaled, &copied, &measured];
    for (turn, times) in all.into_iter().zip([2.0, 1.5, 1.0]) {
        let p = draw(50, turn).one(Code::UnfusedOptimizer);
        assert_eq!(p.ops.len(), 100);
        let best = 50.0 * mb * times / (4.8e6 * 0.945) * 1e3;
        assert!((p.fused_ms.unwrap().low - best).abs() < 1e-6, "{times}: {:?} {best}", p.fused_ms);
        draw(49, turn).none(Code::UnfusedOptimizer);
    }
    // Something else before and after it.
    let mut s = Sketch::new();
    s.dtype("float").op("aten::mm", &[&[1024, 1024], &[1024, 1024]], 20.0).op(
        "aten::add_",
        &[&[1024], &[1024], &[]],
        3.0,
    );
    for p in [SHAPES; 25].concat() {
        s.op("aten::mul_", &[p, &[]], 3.0).op("aten::add_", &[p, p, &[]], 4.0);
    }
    s.op("aten::add", &[&[64], &[]], 3.0).op("aten::exp", &[&[64]], 3.0);
    assert_eq!(s.one(Code::UnfusedOptimizer).ops.len(), 100);
    // One loop after the other, as clipping by hand has them.
    let mut s = draw(50, &measured);
    for _ in 0..50 {
        for p in SHAPES {
            scaled(&mut s, p);
        }
    }
    assert_eq!(s.patterns(Code::UnfusedOptimizer).iter().map(|p| p.instances).sum::<usize>(), 2);
}

#[test]
fn a_multi_tensor_optimizer_is_fused_already() {
    let mut s = Sketch::new();
    s.annotated("Optimizer.step#Adam.step", |s| {
        for _ in 0..200 {
            s.op("aten::_foreach_add_", &[&[1024]], 3.0);
        }
    });
    s.none(Code::UnfusedOptimizer);
}

#[test]
fn forward_work_under_a_checkpoint_is_recomputed() {
    let x: &[i64] = &[8192, 2048];
    let draw = |block: &str| {
        let mut s = Sketch::new();
        s.backward(block, 1, |s| {
            s.within(block, |s| {
                s.op("aten::mm", &[x, &[2048, 2048]], 90.0).op("aten::relu", &[x], 20.0);
                // The block's own backward runs inside, under its own wrapper.
                s.within("autograd::engine::evaluate_function: MmBackward0", |s| {
                    s.op("aten::mm", &[x, &[2048, 2048]], 95.0);
                });
            });
        });
        s
    };
    let s = draw("CheckpointFunctionBackward");
    let p = s.one(Code::Recomputation);
    assert!((p.time_ms - 0.11).abs() < 1e-9);
    let saved = p.saved_ms.unwrap();
    assert!((saved.low - 0.033).abs() < 1e-9 && (saved.high - 0.11).abs() < 1e-9);
    // What that costs is a matter of the schedule, so the system tier tells it.
    s.look(|_, _, findings| assert!(findings.iter().all(|f| f.pattern != PatternId::RECOMPUTATION)));
    draw("OtherFunctionBackward").none(Code::Recomputation);
}

const WEIGHTS: &[i64] = &[12, 256, 64];
const ROWS: &[i64] = &[12, 128, 256];

/// `torch.stack([relu(x[i] @ a[i]) @ b[i] for i in range(turns)])`, with the parts that are taken.
fn loop_over_slices(turns: usize, rows: bool, weights: bool, stacked: &[&[i64]]) -> Sketch {
    let mut s = Sketch::new();
    s.op("aten::layer_norm", &[&[1536, 256]], 9.0);
    for _ in 0..turns {
        if rows {
            s.select(ROWS);
        }
        if weights {
            s.select(WEIGHTS);
        }
        s.op("aten::mm", &[&[128, 256], &[256, 64]], 4.0).op("aten::relu", &[&[128, 64]], 3.0);
        if weights {
            s.select(&[12, 64, 256]);
        }
        s.op("aten::mm", &[&[128, 64], &[64, 256]], 4.0);
    }
    s.cat(stacked, 5.0);
    s
}

#[test]
fn turns_on_slices_could_be_one() {
    let results: Vec<&[i64]> = vec![&[1, 128, 256]; 12];
    let p = loop_over_slices(12, true, true, &results).one(Code::LoopedGemms);
    assert_eq!((p.id, p.instances, p.ops.len()), (PatternId::TINY_GEMMS, 1, 12 * 3 + 1));
    assert_eq!(p.evidence, ["12 equal turns of 3 operations on parts of larger tensors"]);
    // Products at their roofline over 0.7 and 0.3, the rest by its bytes; nothing is stacked at best.
    let (fused, now) = (p.fused_ms.unwrap(), p.total_ms());
    assert!(fused.low < 0.1 * now && fused.high < 0.6 * now, "{fused:?} of {now}");
    // All turns may share what goes in, and profilers leave out the shapes of long lists.
    assert_eq!(loop_over_slices(12, false, true, &results).patterns(Code::LoopedGemms).len(), 1);
    let p = loop_over_slices(40, true, true, &[]).one(Code::LoopedGemms);
    assert_eq!(p.ops.len(), 40 * 3 + 1);
    // Weights may be the same in each turn.
    let p = loop_over_slices(12, true, false, &results).one(Code::LoopedGemms);
    assert_eq!(p.evidence, ["12 equal turns of 3 operations on parts of larger tensors"]);
    // If nothing is a part, the result of a turn may be what goes into the next.
    loop_over_slices(12, false, false, &results).none(Code::LoopedGemms);
    // Few turns; of no parts other results than those, more results than turns.
    loop_over_slices(7, true, true, &results[..7]).none(Code::LoopedGemms);
    loop_over_slices(12, false, true, &[&[1, 64, 256][..]; 12]).none(Code::LoopedGemms);
    loop_over_slices(12, false, true, &[&[1, 128, 256][..]; 13]).none(Code::LoopedGemms);
}

#[test]
fn turns_on_slices_need_nothing_that_stacks_them() {
    // What comes next stacks something else.
    let p = loop_over_slices(12, true, true, &[&[1, 64, 256][..]; 12]).one(Code::LoopedGemms);
    assert_eq!(p.ops.len(), 12 * 3, "what is stacked stays");
    // [x[i] @ w[i] for i in range(turns)], and then x[i] with the same weight, or written where the next turn may read it
    let draw = |turns: usize, part: bool, written: bool| {
        let mut s = Sketch::new();
        s.op("aten::layer_norm", &[&[1536, 256]], 9.0);
        for _ in 0..turns {
            s.select(ROWS);
            if part {
                s.select(WEIGHTS);
            }
            s.op("aten::mm", &[&[128, 256], &[256, 64]], 4.0);
            if written {
                s.select(&[12, 128, 64]).op("aten::copy_", &[&[128, 64], &[128, 64]], 2.0);
            }
        }
        s.op("aten::layer_norm", &[&[1536, 64]], 9.0);
        s
    };
    let p = draw(12, true, false).one(Code::LoopedGemms);
    assert_eq!(p.evidence, ["12 equal turns of one operation on parts of larger tensors"]);
    assert_eq!(p.ops.len(), 12);
    draw(7, true, false).none(Code::LoopedGemms);
    draw(12, true, true).none(Code::LoopedGemms);
    // With the same weight it is read once, if it is the same.
    let (apart, same) = (p.fused_ms.unwrap(), draw(12, false, false).one(Code::LoopedGemms).fused_ms.unwrap());
    assert!(same.low < apart.low && (same.high - apart.high).abs() < 1e-9, "{same:?} {apart:?}");
    draw(12, false, false).look(|_, _, findings| {
        let loops = findings.iter().find(|f| f.pattern == PatternId::TINY_GEMMS).unwrap();
        assert!(loops.paths.algorithmic[0].contains("`m(x)` for `m(x[i])`"), "{:?}", loops.paths);
    });
}

#[test]
fn loops_within_a_loop_are_one() {
    // torch.stack([torch.stack([x[b, h] @ w[h] for h in range(16)]) for b in range(batch)])
    let draw = |batch: usize| {
        let mut s = Sketch::new();
        for _ in 0..batch {
            for _ in 0..16 {
                s.select(&[16, 512, 64]).select(&[16, 64, 64]).op("aten::mm", &[&[512, 64], &[64, 64]], 4.0);
            }
            s.cat(&[&[1, 512, 64][..]; 16], 5.0);
        }
        s.cat(&vec![&[1, 16, 512, 64][..]; batch], 9.0);
        s
    };
    let p = draw(24).one(Code::LoopedGemms);
    assert_eq!((p.instances, p.leaves[0].len()), (1, 24 * 17 + 1));
    assert_eq!(p.evidence, ["384 equal turns of one operation on parts of larger tensors"]);
    // Fewer may need each other.
    let p = draw(7).one(Code::LoopedGemms);
    assert_eq!((p.instances, p.leaves[0].len()), (7, 17));
}

#[test]
fn a_module_on_one_slice_after_the_other_is_told_where_the_gpu_waits_for_launches() {
    // A block of a norm, two layers and a sum, on x[i : i + 1] or on what the call before gave
    let advice = |calls: usize, sliced: bool| {
        let mut s = Sketch::new();
        for _ in 0..calls {
            if sliced {
                s.select(&[16, 16, 512]);
            }
            s.module("Block_0", |s| {
                s.op("aten::rms_norm", &[&[16, 512], &[], &[512]], 2.0);
                s.op("aten::addmm", &[&[512], &[16, 512], &[512, 512], &[], &[]], 2.0);
                s.op("aten::gelu", &[&[16, 512]], 2.0);
                s.op("aten::addmm", &[&[512], &[16, 512], &[512, 512], &[], &[]], 2.0);
                s.op("aten::add", &[&[16, 512], &[16, 512]], 2.0);
            });
        }
        let findings = s.analysis().findings;
        let waits = findings.into_iter().find(|f| f.pattern == PatternId::LAUNCH_BOUND).unwrap();
        waits.paths.algorithmic[0].clone()
    };
    let told = advice(12, true);
    assert!(told.starts_with("Call `Block` once where it is called 12 times in a row"), "{told}");
    assert!(advice(3, true).starts_with("Capture"), "too few");
    assert!(advice(12, false).starts_with("Capture"), "blocks one after another");
}

/// `[m(x[i : i + 1]) for i in range(slices)]`, with so many times two layers in `m` whose products take so long.
fn network_on_slices(slices: usize, layers: usize, us: f64) -> Sketch {
    let mut s = Sketch::new();
    for _ in 0..slices {
        s.select(&[8, 1, 1024]);
        for _ in 0..layers {
            s.op("aten::addmm", &[&[4096], &[1, 1024], &[1024, 4096], &[], &[]], us);
            s.op("aten::silu", &[&[1, 4096]], 2.0);
            s.op("aten::addmm", &[&[1024], &[1, 4096], &[4096, 1024], &[], &[]], us);
        }
    }
    s
}

#[test]
fn a_network_on_each_slice_has_as_many_turns_as_there_are_slices() {
    let p = network_on_slices(8, 6, 9.0).one(Code::LoopedGemms);
    assert_eq!(p.evidence, ["8 equal turns of 18 operations on parts of larger tensors"]);
    // Layers one after another are no turns, however many.
    network_on_slices(1, 48, 9.0).none(Code::LoopedGemms);
    network_on_slices(7, 6, 9.0).none(Code::LoopedGemms);
}

#[test]
fn products_as_fast_as_their_weights_are_read_gain_where_those_are_the_same() {
    // 8 MiB take 1.75 us at the peak.
    let draw = |us: f64| network_on_slices(8, 6, us);
    draw(9.0).none(Code::LoopedRows);
    let s = draw(2.0);
    s.none(Code::LoopedGemms);
    let p = s.one(Code::LoopedRows);
    // At best the weights are read once and as fast as now; if they differ the products stay.
    let products_ms = 8.0 * 12.0 * 2.0 / 1e3;
    let fused = p.fused_ms.unwrap();
    assert!(fused.low > products_ms / 8.0 && fused.low < products_ms / 8.0 + 8.0 * 6.0 * 2.0 / 1e3, "{fused:?}");
    assert!(fused.high > 0.99 * products_ms, "{fused:?}");
    s.look(|_, _, findings| {
        let found = findings.iter().find(|f| f.pattern == PatternId::MEMORY_BOUND_GEMM).unwrap();
        assert!(found.issue.ends_with("at the peak bandwidth takes 87% of the products' time."), "{}", found.issue);
        assert!(found.paths.algorithmic[0].contains("`m(x)` for `m(x[i])`"), "{:?}", found.paths);
    });
}

#[test]
fn turns_that_carry_a_state_are_no_loop_over_slices() {
    // h = tanh(x[t] @ a + h @ b), with states of another size and of the same
    for width in [64, 256] {
        let mut s = Sketch::new();
        for _ in 0..12 {
            s.select(ROWS);
            s.op("aten::mm", &[&[128, 256], &[256, width]], 4.0).op("aten::mm", &[&[128, width], &[width, width]], 4.0);
            s.op("aten::add", &[&[128, width], &[128, width]], 3.0).op("aten::tanh", &[&[128, width]], 3.0);
        }
        s.none(Code::LoopedGemms);
    }
}

#[test]
fn a_loop_is_no_fusion_of_its_rows() {
    let p = loop_over_slices(12, true, true, &[&[1, 128, 256][..]; 12]).one(Code::LoopedGemms);
    assert!(!is_told_of_rows(&p), "no candidate has its numbers");
}

#[test]
fn turns_may_cast_what_they_take() {
    // torch.stack([x[i] @ w[i] for i in range(turns)]) in fp32 under autocast
    let mut s = Sketch::new();
    for _ in 0..16 {
        s.select(&[16, 64, 64]).select(&[16, 64, 64]);
        for _ in 0..2 {
            let types = ["c10::BFloat16", "float", "Scalar"];
            s.typed("aten::copy_", &[&[64, 64], &[64, 64], &[]], &types, 2.0);
        }
        s.op("aten::mm", &[&[64, 64], &[64, 64]], 4.0);
    }
    let p = s.cat(&[&[1, 64, 64][..]; 16], 5.0).one(Code::LoopedGemms);
    assert_eq!(p.ops.len(), 16 * 3 + 1);
}

#[test]
fn turns_may_cast_their_own_weights() {
    // torch.cat([m(x) for m in modules]) under autocast: bias, weight, product
    let draw = |added: bool| {
        let mut s = Sketch::new();
        let cast = ["c10::BFloat16", "float", "Scalar"];
        for _ in 0..16 {
            s.typed("aten::copy_", &[&[4], &[4], &[]], &cast, 2.0);
            s.typed("aten::copy_", &[&[4, 1024], &[4, 1024], &[]], &cast, 2.0);
            if added {
                // What is cast is more than a factor.
                s.op("aten::add", &[&[4, 1024], &[4, 1024]], 3.0);
            }
            s.op("aten::addmm", &[&[4], &[2048, 1024], &[1024, 4], &[], &[]], 9.0);
        }
        s.cat(&[&[2048, 4][..]; 16], 5.0);
        s
    };
    let p = draw(false).one(Code::LoopedGemms);
    assert_eq!(p.evidence, ["16 equal turns of 3 operations with weights of their own"]);
    draw(true).none(Code::LoopedGemms);
}

#[test]
fn backward_products_that_fill_the_gpu_stay_as_they_are() {
    let draw = |backward_us: f64| {
        let mut s = Sketch::new();
        for turn in 0..8 {
            s.select(&[8, 512, 1024]).select(&[8, 1024, 1024]);
            s.sequenced("aten::matmul", turn, |s| _ = s.op("aten::mm", &[&[512, 1024], &[1024, 1024]], 20.0));
        }
        s.cat(&[&[1, 512, 1024][..]; 8], 5.0);
        for turn in (0..8).rev() {
            s.backward("MmBackward0", turn, |s| _ = s.op("aten::mm", &[&[1024, 512], &[512, 1024]], backward_us));
        }
        s.one(Code::LoopedGemms).fused_ms.unwrap().low
    };
    // 8 products of 1.1 us at the peak, at 70% of it or at 2 us as they are.
    assert!(draw(2.0) > draw(20.0), "{} {}", draw(2.0), draw(20.0));
}

/// `torch.stack([m(x) for m in modules])`, each of two linear layers to so many numbers; `number` names a layer.
fn loop_over_modules(wide: i64, number: impl Fn(usize) -> usize) -> Sketch {
    let mut s = Sketch::new();
    s.module("Towers_0", |s| {
        for turn in 0..10 {
            s.module(&format!("Linear_{}", number(2 * turn)), |s| {
                s.op("aten::addmm", &[&[64], &[128, 256], &[256, 64], &[], &[]], 4.0);
            });
            s.op("aten::relu", &[&[128, 64]], 3.0);
            s.module(&format!("Linear_{}", number(2 * turn + 1)), |s| {
                s.op("aten::addmm", &[&[wide], &[128, 64], &[64, wide], &[], &[]], 4.0);
            });
        }
        s.cat(&[&[1, 128, wide][..]; 10], 5.0);
    });
    s
}

#[test]
fn modules_on_the_same_input_could_be_one() {
    let s = loop_over_modules(256, |layer| layer);
    let p = s.one(Code::LoopedGemms);
    assert_eq!(p.evidence, ["10 equal turns of 3 operations with weights of their own"]);
    // Layers one after another whose results are all kept look the same.
    assert_eq!(p.confidence, Confidence::Medium);
    s.look(|_, _, findings| {
        let advice = &findings.iter().find(|f| f.pattern == PatternId::TINY_GEMMS).unwrap().paths.algorithmic;
        assert!(advice[0].contains("stack_module_state"), "{advice:?}");
    });
    // The same modules again and again may be a recurrence, unless what they give can't go in again.
    loop_over_modules(256, |layer| layer % 2).none(Code::LoopedGemms);
    assert_eq!(loop_over_modules(8, |layer| layer % 2).patterns(Code::LoopedGemms).len(), 1);
    assert_eq!(loop_over_modules(8, |layer| layer).one(Code::LoopedGemms).confidence, Confidence::High);
}

#[test]
fn a_turn_is_the_call_of_a_module_whatever_layers_it_has() {
    // torch.stack([m(x) for m in networks]), each of equal layers, where no module is around them
    let mut s = Sketch::new();
    for network in 0..12 {
        s.module(&format!("Sequential_{network}"), |s| {
            for layer in 0..6 {
                s.module(&format!("Linear_{}", 6 * network + layer), |s| {
                    s.op("aten::mm", &[&[256, 256], &[256, 256]], 4.0);
                });
                s.module(&format!("ReLU_{}", 6 * network + layer), |s| _ = s.op("aten::relu", &[&[256, 256]], 3.0));
            }
        });
    }
    let p = s.cat(&[], 5.0).one(Code::LoopedGemms);
    assert_eq!(p.evidence, ["12 equal turns of 12 operations with weights of their own"]);
    assert_eq!(p.confidence, Confidence::Medium);
}

#[test]
fn heads_whose_results_cannot_go_in_again_need_nothing_that_stacks_them() {
    // [m(x).softmax(-1) for m in heads]
    let draw = |wide: i64, number: fn(usize) -> usize| {
        let mut s = Sketch::new();
        for head in 0..12 {
            s.module(&format!("Linear_{}", number(head)), |s| {
                s.op("aten::addmm", &[&[wide], &[128, 256], &[256, wide], &[], &[]], 4.0);
            });
            s.op("aten::_softmax", &[&[128, wide], &[], &[]], 3.0);
        }
        s
    };
    let p = draw(100, |head| head).one(Code::LoopedGemms);
    assert_eq!(p.evidence, ["12 equal turns of 2 operations with weights of their own"]);
    assert_eq!((p.instances, p.ops.len()), (1, 12 * 2));
    // The same heads again, too few of them for a loop.
    assert_eq!(draw(100, |head| head % 9).one(Code::LoopedGemms).ops.len(), 9 * 2);
    // Layers one after another, and one module called again and again.
    draw(256, |head| head).none(Code::LoopedGemms);
    draw(100, |_| 0).none(Code::LoopedGemms);
}

#[test]
fn what_a_turn_gave_may_be_added_to_a_part() {
    // for i in range(12): y[i] += x[i] @ a[i] @ b[i]
    let mut s = Sketch::new();
    s.op("aten::layer_norm", &[&[1536, 256]], 9.0);
    for _ in 0..12 {
        s.select(ROWS).select(ROWS).select(WEIGHTS).op("aten::mm", &[&[128, 256], &[256, 64]], 4.0);
        s.select(&[12, 64, 256]).op("aten::mm", &[&[128, 64], &[64, 256]], 4.0);
        s.op("aten::add_", &[&[128, 256], &[128, 256], &[]], 3.0);
    }
    let p = s.op("aten::layer_norm", &[&[1536, 256]], 9.0).one(Code::LoopedGemms);
    assert_eq!(p.evidence, ["12 equal turns of 3 operations on parts of larger tensors"]);
}

#[test]
fn an_input_that_all_turns_share_is_read_once() {
    // Each product moves its bytes well, and nearly all of them are the input's.
    let bytes = 2.0 * f64::from(8192 * 1024 + 1024 * 16 + 8192 * 16);
    let draw = |share: f64| {
        let mut s = Sketch::new();
        s.module("Heads_0", |s| {
            for head in 0..32 {
                s.module(&format!("Linear_{head}"), |s| {
                    s.op("aten::addmm", &[&[16], &[8192, 1024], &[1024, 16], &[], &[]], bytes / (4.8e6 * share));
                });
            }
            s.cat(&[&[8192, 1, 16][..]; 32], 5.0);
        });
        s
    };
    let p = draw(0.8).one(Code::LoopedGemms);
    // Together they are a product of 8192x1024 and 1024x512.
    let best_us = (2.0 * 8192.0 * 1024.0 * 512.0 / 990e6_f64).max(2.0 * f64::from(8192 * 1024 + 1024 * 512) / 4.8e6);
    let fused = p.fused_ms.unwrap();
    assert!(fused.low < 3.0 * best_us / 0.7 / 1e3 && fused.high < 0.5 * p.time_ms, "{fused:?} {best_us} {}", p.time_ms);
}

#[test]
fn recurrent_layers_are_no_find() {
    // h = tanh(h @ u + x[t] @ w), with the state first or last
    for state_first in [true, false] {
        let mut s = Sketch::new();
        for _ in 0..16 {
            s.module("RNNCell_0", |s| {
                let of_state = |s: &mut Sketch| _ = s.op("aten::mm", &[&[32, 64], &[64, 64]], 4.0);
                if state_first {
                    of_state(s);
                }
                s.select(&[16, 32, 48]).op("aten::mm", &[&[32, 48], &[48, 64]], 4.0);
                if !state_first {
                    of_state(s);
                }
                s.op("aten::add", &[&[32, 64], &[32, 64]], 3.0).op("aten::tanh", &[&[32, 64]], 3.0);
            });
        }
        s.cat(&[&[1, 32, 64][..]; 16], 5.0).none(Code::LoopedGemms);
    }
    // v = a @ v
    let mut s = Sketch::new();
    for _ in 0..16 {
        s.op("aten::mv", &[&[64, 64], &[64]], 4.0);
    }
    s.cat(&[&[1, 64][..]; 16], 5.0).none(Code::LoopedGemms);
}

#[test]
fn turns_that_go_on_with_what_the_turn_before_gave_are_no_find() {
    // state = state * decay + k[t] @ v[t]; out.append(state @ q[t])
    let mut s = Sketch::new();
    for _ in 0..16 {
        s.select(&[16, 64, 64]).select(&[16, 64, 64]);
        s.op("aten::mm", &[&[64, 64], &[64, 64]], 4.0);
        s.op("aten::mul", &[&[64, 64], &[]], 3.0).op("aten::add", &[&[64, 64], &[64, 64]], 3.0);
        s.select(&[16, 64, 64]).op("aten::mm", &[&[64, 64], &[64, 64]], 4.0);
    }
    s.cat(&[&[1, 64, 64][..]; 16], 5.0).none(Code::LoopedGemms);
}

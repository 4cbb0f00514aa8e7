//! Attention that runs as separate kernels.
//!
//! # What it finds
//! A softmax, or the exponentials, sums and division of one that is written out, between two batched matrix products
//! whose shapes fit: scores `[b, Mq, d]·[b, d, Nk]`, softmax over `[.., Mq, Nk]`, values `[b, Mq, Nk]·[b, Nk, dv]`.
//! Everything between the products (scaling, masks, casts, dropout) belongs to it, and so does the mean of the weights over
//! heads that may follow; copies of Q, K, V before and of the output after are its halo. Heads that run one after another
//! and whose results are put together are one find, with projections of their own. The backward work is found through the
//! links that autograd records, or around a softmax backward with at least three such products; what puts the gradients
//! of Q, K and V together is no part of it.
//!
//! # Why it matters
//! Every step between the two products writes and reads the whole score matrix, which one fused kernel never stores.
//!
//! # How it is computed
//! Only the product of the leading dimensions has to agree, so 3-D and 4-D forms match each other. Saved is what the
//! operations take less what a fused kernel would: the roofline time R of the same attention, at worst and at best at
//! the ends of the band for the longer of queries and keys (15% to 55% up to 1023 tokens, 20% to 65% up to 2047, 40% to
//! 70% up to 4095, 40% to 75% up to 4096, 50% to 75% beyond), but never slower than the two matrix products take now,
//! 1.15 times that in full precision, or up to 1.95 times that with a mask and 128 keys or more. Where a mask needs a
//! gradient, which only slower kernels give, they take 95 to 160 instructions for each score, 230 to 520 backward; where
//! autograd records and no backward tells, that is the end at worst. Heads of 64 are taken to reach at most 34% to 50%,
//! smaller ones that much less, and those between it and 128 are computed as 128, unless their products are in fp32, which
//! reach 55% at best; where memory bounds short sequences, it is at least 75% at best. With one query for 64 keys or more it
//! is a matter of reading them, at 70% to 98% of the bandwidth. What was cast to a larger type for the products is taken as
//! it was. A causal mask halves the work at best and takes a third off at worst; one that differs by head or by key has to
//! be read and leaves 45% to 65% of the efficiency. The backward does 2.5
//! times the work at 0.6 to 0.85 of the efficiency; dropout adds its random numbers. Each block of 128 queries of one head,
//! however short the sequence, takes 2 to 3.4 us of a compute unit, 1.4 to 2.2 us up to 64 tokens with the memory-efficient
//! backend, and up to 8 us with a mask: many short sequences may gain nothing.
//!
//! # What to do
//! Call `scaled_dot_product_attention`, or `flex_attention` where a function is computed on the scores.
//!
//! # Limits
//! A softmax over another dimension, products over the heads of the scores, and weights that something else reads than
//! their mean over heads are not what fused kernels compute, and are not matched.
//! Additive terms that depend on content (relative positions computed by further products) are not matched. Whether a
//! mask is causal is known only when `triu` or `tril` made it; other square masks count as possibly causal. Without
//! recorded shapes it is a guess and no recommendation.

use jarvis_perf::models::Cost;

use super::attention_time::{Causal, Learned, Mask, Shape, basis, fused};
use super::claims::Claims;
use super::group::Instance;
use super::normalizer::is_over_last;
use super::scene::{Look, Operand, Scene, element_size, numel};
use super::show::{dims, one};
use super::{Code, Confidence, Fused, Source, looped};
use crate::program::kind::Kind;
use crate::program::{Autograd, Direction, LeafId};

mod heads;

/// Fact: how many heads run one after another.
pub(super) const TURNS: &str = "turns";
/// Fact: the weights are averaged over heads, as `nn.MultiheadAttention` does unless it is told not to.
pub(super) const AVERAGED: &str = "averaged";

/// Fact: an operation on the scores that the usual call has no place for, such as a soft cap.
pub(super) const FUNCTION: &str = "function";
/// By how much that makes attention slower, compiled, than the kernels of the usual call: three measured with a tangent took
/// 1.7 to 2.2 times their worst and 3.6 to 4.1 times their best, forward and backward.
const WITH_FUNCTION: f64 = 2.5;
/// Such operations.
const ON_SCORES: [&str; 7] = ["tanh", "sigmoid", "relu", "softplus", "gelu", "silu", "pow"];

const HINTS: &[&str] = &["attn", "attention", "sdpa"];
/// Leaves allowed between the score product and the softmax, and between the softmax and the value product, where
/// nothing but their order tells that they belong together.
const WINDOW: (usize, usize) = (8, 4);
/// The same within a module whose name says attention.
const IN_MODULE: (usize, usize) = (24, 12);
/// Leaves searched for copies before and after.
const HALO_REACH: usize = 12;
/// Leaves searched for the mean of the weights over heads, behind the projection of the output and its casts.
const AVERAGE_REACH: usize = 8;
/// Leaves searched for products around a softmax backward.
const BACKWARD_REACH: (usize, usize) = (6, 10);

/// No attention has more heads.
const MOST_HEADS: i64 = 128;

/// Batched product `[batch, m, k]·[batch, k, n]`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Product {
    batch: i64,
    m: i64,
    k: i64,
    n: i64,
}

impl Product {
    fn of(look: &Look<'_>) -> Option<Self> {
        let skip = match look.base {
            "bmm" | "matmul" => 0,
            "baddbmm" => 1,
            _ => return None,
        };
        let [.., m, k] = *look.operands.get(skip)?.dims else { return None };
        let [ref lead @ .., k2, n] = *look.operands.get(skip + 1)?.dims else { return None };
        let batch = numel(&look.operands[skip].dims[..look.operands[skip].dims.len() - 2]);
        // A weight without leading dimensions is a projection, not a score product.
        (k == k2 && !lead.is_empty() && batch == numel(lead)).then_some(Self { batch, m, k, n })
    }
}

/// Finds attention, forward and backward.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let softmaxes = (0..scene.len()).filter(|&i| scene.look(i).kind == Kind::Softmax || is_written_out(scene, i));
    let mut guesses: Vec<Instance> = Vec::new();
    let mut cores: Vec<Core> = Vec::new();
    for i in softmaxes {
        match core(scene, i) {
            Some(core) => cores.push(core),
            None => guesses.extend(without_shapes(scene, i)),
        }
    }
    let forward = heads::joined(scene, cores).into_iter().map(|core| core.finish(scene));
    let mut found = claims.settle(scene, forward.chain(guesses).collect());
    let mut backward: Vec<Instance> = found.iter().filter_map(|f| linked_backward(scene, f)).collect();
    backward = claims.settle(scene, backward);
    let unlinked = (0..scene.len()).filter(|&i| scene.look(i).kind == Kind::SoftmaxBackward && claims.is_free(i));
    let unlinked: Vec<Instance> = unlinked.filter_map(|i| window_backward(scene, i)).collect();
    backward.extend(claims.settle(scene, unlinked));
    found.extend(backward);
    found
}

/// Whether a softmax written out operation by operation has its exponentials here: their sums and the division follow.
fn is_written_out(scene: &Scene<'_>, at: usize) -> bool {
    let is = |i: Option<usize>, base: &str| {
        i.is_some_and(|i| scene.look(i).base == base && scene.look(i).numel() == scene.look(at).numel())
    };
    let mut after = scene.after(at);
    is(Some(at), "exp") && is(after.next(), "sum") && is(after.next(), "div")
}

/// A forward pass, of one head or more.
#[derive(Debug)]
struct Core {
    instance: Instance,
    shape: Shape,
    /// Time of its matrix products.
    products_us: f64,
    /// Times it runs one after another.
    turns: usize,
    /// Whether its weights are averaged over heads.
    averaged: bool,
    /// What the projections of all heads take that become one with it.
    projected: Fused,
}

impl Core {
    /// The find, with what a fused kernel takes.
    fn finish(self, scene: &Scene<'_>) -> Instance {
        let Self { mut instance, shape, products_us, turns, averaged, projected } = self;
        let function = function_on_scores(scene, &instance, &shape);
        let time = with_function(fused(scene, &shape, products_us, false), function.as_deref());
        instance.basis = basis(scene, &shape, time, false) + &projected_basis(projected);
        instance.fused = Some(time.and(projected));
        describe(scene, &mut instance, &shape, turns);
        if let Some(name) = function {
            instance.evidence.push(format!("{name} is computed on the scores"));
            instance.facts.push((FUNCTION, name));
        }
        if averaged {
            instance.evidence.push("the weights are averaged over heads afterwards".to_owned());
            instance.facts.push((AVERAGED, "true".to_owned()));
        }
        instance
    }
}

/// The operation on all scores that the usual call has no place for, if there is one.
fn function_on_scores(scene: &Scene<'_>, instance: &Instance, shape: &Shape) -> Option<String> {
    let scores = numel(&[shape.batch, shape.mq, shape.nk]);
    let on_scores = |l: &&LeafId| {
        let look = scene.look(l.index());
        ON_SCORES.contains(&look.base) && look.numel() == scores
    };
    let leaf = instance.leaves.iter().find(on_scores)?;
    Some(crate::texts::quoted(&scene.program.leaf(*leaf).name))
}

/// What a compiled kernel takes with a function on the scores in the place of one without.
fn with_function(time: Fused, function: Option<&str>) -> Fused {
    let slower = if function.is_some() { WITH_FUNCTION } else { 1.0 };
    Fused { best_us: slower * time.best_us, worst_us: slower * time.worst_us }
}

/// What the projections take, if there are any.
fn projected_basis(time: Fused) -> String {
    if time == Fused::NOTHING {
        return String::new();
    }
    format!(", their projections {}-{} us", one(time.best_us), one(time.worst_us))
}

/// The forward pass around a softmax.
fn core(scene: &Scene<'_>, softmax: usize) -> Option<Core> {
    let scores = &scene.look(softmax).full;
    let [ref lead @ .., mq, nk] = scores[..] else { return None };
    if scores.len() < 3 || nk < 2 || mq < 1 {
        return None;
    }
    let rows = numel(&[numel(lead), mq]);
    let reach = reach(scene, softmax);
    let scores_fit = |p: &Product| numel(&[p.batch, p.m]) == rows && p.n == nk;
    let values_fit = |p: &Product| numel(&[p.batch, p.m]) == rows && p.k == nk;
    let first = nearest(scene, within(scene, scene.before(softmax).rev(), reach.0, IN_MODULE.0), scores_fit)?;
    let last = nearest(scene, within(scene, scene.after(softmax), reach.1, IN_MODULE.1), values_fit)?;
    let (qk, pv) = (Product::of(scene.look(first))?, Product::of(scene.look(last))?);
    let mut between = (first + 1..last).map(|i| scene.look(i));
    if !is_over_last(scene, softmax) || between.any(|look| mixes_heads(look, rows, nk)) {
        return None;
    }
    // Projections that are computed in between stay as they are.
    let is_core = |&i: &usize| i == first || i == last || !is_projection(scene, i);
    let leaves: Vec<LeafId> = (first..=last).filter(is_core).map(|i| LeafId(i as u32)).collect();
    let mut instance =
        Instance::new(scene, Code::UnfusedAttention, leaves, LeafId(softmax as u32), HINTS, Confidence::High);
    if fused_kernel_inside(scene, &instance) {
        return None;
    }
    let (mask, learned) = mask(scene, &instance.leaves, mq, nk);
    let mut shape = Shape {
        batch: rows / mq,
        mq,
        nk,
        d: qk.k,
        dv: pv.n,
        dtype: element(scene, first),
        spec: scene.look(first).cost.as_ref().and_then(Cost::spec),
        causal: causal(scene, &instance.leaves, mq, nk),
        mask,
        learned,
        dropout: instance.leaves.iter().any(|l| scene.look(l.index()).kind == Kind::Random),
    };
    instance.halo = halo(scene, first, last, &shape);
    let core = instance.leaves.len();
    let averages: Vec<usize> = averages(scene, last, &shape).collect();
    if weights_are_read(scene, last, &shape, &averages) {
        return None;
    }
    instance.leaves.extend(averages.into_iter().map(|i| LeafId(i as u32)));
    let averaged = instance.leaves.len() > core;
    shape.as_before_casts(cast_from(scene, &instance.halo));
    let products_us = [first, last].iter().map(|&i| scene.leaf(i).us).sum();
    Some(Core { instance, shape, products_us, turns: 1, averaged, projected: Fused::NOTHING })
}

fn reach(scene: &Scene<'_>, softmax: usize) -> (usize, usize) {
    let hinted = scene.hint(scene.module_of(scene.leaf(softmax)), HINTS).is_some();
    if hinted { IN_MODULE } else { WINDOW }
}

/// Positions up to the first behind so many operations. Projections and copies, which may be casts for them, do not count,
/// but for `most` in all.
fn within<'s>(
    scene: &'s Scene<'_>,
    positions: impl Iterator<Item = usize> + 's,
    reach: usize,
    most: usize,
) -> impl Iterator<Item = usize> + 's {
    let mut passed = 0;
    positions.take(most + 1).take_while(move |&i| {
        let is_near = passed <= reach;
        passed += usize::from(scene.look(i).kind != Kind::Copy && !is_projection(scene, i));
        is_near
    })
}

/// The nearest batched product; it must fit.
fn nearest(
    scene: &Scene<'_>,
    mut positions: impl Iterator<Item = usize>,
    fits: impl Fn(&Product) -> bool,
) -> Option<usize> {
    let (at, product) = positions.find_map(|i| Product::of(scene.look(i)).map(|p| (i, p)))?;
    fits(&product).then_some(at)
}

fn is_projection(scene: &Scene<'_>, at: usize) -> bool {
    scene.look(at).kind == Kind::Matrix && Product::of(scene.look(at)).is_none()
}

fn element(scene: &Scene<'_>, product: usize) -> String {
    scene.look(product).operands.last().map_or(String::new(), |o| o.dtype.to_owned())
}

/// The mean of the weights over heads, as leaves after the value product.
fn averages<'s>(scene: &'s Scene<'_>, last: usize, shape: &Shape) -> impl Iterator<Item = usize> + 's {
    let scores = numel(&[shape.batch, shape.mq, shape.nk]);
    let [mq, nk] = [shape.mq, shape.nk];
    let is_mean = move |&i: &usize| {
        let look = scene.look(i);
        let [batch, heads, m, n] = look.full[..] else { return false };
        let over_heads = heads > 1 && (m, n) == (mq, nk) && look.numel() == scores;
        let kept = || look.result().is_some_and(|kept| numel(&kept) == numel(&[batch, m, n]));
        look.kind == Kind::Reduce && over_heads && kept()
    };
    let mean = scene.after(last).take(AVERAGE_REACH).find(is_mean);
    let is_division = move |&i: &usize| {
        let look = scene.look(i);
        look.base == "div" && matches!(look.full[..], [_, m, n] if (m, n) == (mq, nk))
    };
    let divisions = mean.map(|i| scene.after(i).take_while(is_division).take(2));
    mean.into_iter().chain(divisions.into_iter().flatten())
}

/// Whether anything but their mean over heads is made of the weights: a fused kernel gives none.
fn weights_are_read(scene: &Scene<'_>, last: usize, shape: &Shape, averages: &[usize]) -> bool {
    let scores = numel(&[shape.batch, shape.mq, shape.nk]);
    let is_weights =
        |dims: &[i64]| matches!(dims, [_, .., m, n] if (*m, *n) == (shape.mq, shape.nk)) && numel(dims) == scores;
    let reads = |i: usize| {
        let look = scene.look(i);
        let forward = scene.leaf(i).direction != Direction::Backward;
        forward && look.kind != Kind::Matrix && look.operands.iter().any(|o| o.dims.len() > 2 && is_weights(o.dims))
    };
    // What the next layer computes on scores of its own follows products.
    let same_part = scene.after(last).take(AVERAGE_REACH).take_while(|&i| Product::of(scene.look(i)).is_none());
    same_part.filter(|i| !averages.contains(i)).any(reads)
}

/// Whether a product goes over the heads of all scores, each of which is made of several then: no fused kernel does so.
fn mixes_heads(look: &Look<'_>, rows: i64, nk: i64) -> bool {
    if look.kind != Kind::Matrix || Product::of(look).is_some() {
        return false;
    }
    let of_heads = |o: &Operand<'_>| {
        let heads = o.dims.last().copied().unwrap_or_default();
        o.dims.len() > 1 && o.numel() == rows.saturating_mul(nk) && heads > 1 && rows % heads == 0
    };
    let is_small = |o: &Operand<'_>| o.numel() <= MOST_HEADS * MOST_HEADS;
    look.operands.iter().any(of_heads) && look.operands.iter().any(|o| o.dims.len() == 2 && is_small(o))
}

/// What Q and K were before they were cast to a larger type for the products, as the framework does where no fused kernel
/// may take them: a fused kernel takes them as they were.
fn cast_from<'s>(scene: &'s Scene<'_>, halo: &[LeafId]) -> Option<&'s str> {
    let casts = halo.iter().map(|l| scene.look(l.index())).filter(|look| look.is_cast());
    let from = |look: &'s Look<'_>| match &look.operands[..] {
        [to, from] if element_size(from.dtype) < element_size(to.dtype) => Some(from.dtype),
        _ => None,
    };
    let smaller: Vec<&str> = casts.filter_map(from).collect();
    (smaller.len() >= 2).then(|| smaller[0])
}

/// Whether the module runs attention in one kernel too: then the products are something else.
fn fused_kernel_inside(scene: &Scene<'_>, instance: &Instance) -> bool {
    let range = match instance.module.map(|m| scene.program.module(m)) {
        Some(m)
            if instance.source == Source::Module && HINTS.iter().any(|h| m.base.to_ascii_lowercase().contains(h)) =>
        {
            m.leaves.clone()
        }
        _ => instance.leaves.first().map_or(0, |l| l.index())..instance.leaves.last().map_or(0, |l| l.index()),
    };
    range.into_iter().any(|i| scene.look(i).kind == Kind::Attention)
}

fn causal(scene: &Scene<'_>, leaves: &[LeafId], mq: i64, nk: i64) -> Causal {
    if mq != nk {
        return Causal::No;
    }
    let is_square = |dims: &[i64]| matches!(*dims, [.., m, n] if m == mq && n == nk);
    let mut found = Causal::No;
    for l in leaves {
        let look = scene.look(l.index());
        match look.base {
            "triu" | "tril" if is_square(&look.full) => return Causal::Yes,
            // The mask is smaller than the scores it is laid over, and the same for all heads.
            "masked_fill" | "add" | "where" | "mul" => {
                let is_mask =
                    |o: &Operand<'_>| is_square(o.dims) && o.numel() < look.numel() && !differs_by_head(o.dims);
                if look.operands.iter().any(is_mask) {
                    found = Causal::Maybe;
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether a tensor laid over scores has numbers for each head.
fn differs_by_head(dims: &[i64]) -> bool {
    matches!(*dims, [.., heads, _, _] if heads > 1)
}

/// What is laid over the scores, and whether it needs a gradient. What is square and the same for all heads may be causal
/// instead.
fn mask(scene: &Scene<'_>, leaves: &[LeafId], mq: i64, nk: i64) -> (Mask, Learned) {
    let is_over_scores = |dims: &[i64]| matches!(*dims, [.., m, n] if m == mq && n == nk);
    let mut laid = (Mask::None, Learned::No);
    for l in leaves {
        let look = scene.look(l.index());
        if !matches!(look.base, "add" | "masked_fill" | "where") || !is_over_scores(&look.full) {
            continue;
        }
        let whole = look.operands.iter().filter(|o| o.numel() == look.numel()).count();
        let of = |o: &Operand<'_>| match *o.dims {
            // One of two is the scores themselves.
            _ if o.numel() == look.numel() && look.base == "add" && whole > 1 => Mask::OfScores,
            _ if o.numel() == look.numel() => Mask::None,
            [.., m, n] if n == nk && m == mq && m > 1 && differs_by_head(o.dims) => Mask::OfHeads,
            [.., m, n] if n == nk && (m == mq || m == 1) && (m != n || differs_by_head(o.dims)) => Mask::OfKeys,
            _ => Mask::None,
        };
        for operand in &look.operands {
            let mask = of(operand);
            if mask >= Mask::OfHeads && look.base == "add" {
                laid.1 = laid.1.max(learned(scene, *l, leaves, operand));
            }
            laid.0 = laid.0.max(mask);
        }
    }
    laid
}

/// Whether what an operation adds to the scores needs a gradient: the backward sums it up over all sequences then.
fn learned(scene: &Scene<'_>, add: LeafId, leaves: &[LeafId], added: &Operand<'_>) -> Learned {
    if scene.leaf(add.index()).autograd == Autograd::Off {
        return Learned::No;
    }
    let scores = scene.look(add.index()).numel();
    let backward = scene.backward_of(leaves);
    if backward.is_empty() || added.numel() == scores {
        return Learned::Maybe;
    }
    let sums_up = |l: &LeafId| {
        let look = scene.look(l.index());
        look.kind == Kind::Reduce
            && look.numel() == scores
            && look.result().is_some_and(|kept| numel(&kept) == added.numel())
    };
    if backward.iter().any(sums_up) { Learned::Yes } else { Learned::No }
}

/// Copies of Q, K and V before the first product and of the output after the second, up to the projections; scaling of
/// Q or K by a number too, and filling the tensor that the scores are added to.
fn halo(scene: &Scene<'_>, first: usize, last: usize, shape: &Shape) -> Vec<LeafId> {
    let of = |tokens: i64, size: i64| numel(&[shape.batch, tokens, size]);
    let (q, k, v, out) = (of(shape.mq, shape.d), of(shape.nk, shape.d), of(shape.nk, shape.dv), of(shape.mq, shape.dv));
    let repeats = |i: usize| {
        let look = scene.look(i);
        look.kind == Kind::Copy && look.operands.iter().any(|o| o.strides.is_some_and(|s| s.contains(&0)))
    };
    // Repeated heads are told on their own, unless those of the values stand within: one change mends both.
    let with_repeats = (first + 1..last).any(repeats);
    let is_copy = |i: usize, sizes: &[i64]| {
        let look = scene.look(i);
        look.kind == Kind::Copy && sizes.contains(&look.numel()) && (with_repeats || !repeats(i))
    };
    let is_scaling = |i: usize| {
        let look = scene.look(i);
        matches!(look.base, "mul" | "div") && look.with_scalar() && [q, k].contains(&look.numel())
    };
    let scores = numel(&[shape.batch, shape.mq, shape.nk]);
    let is_fill = |i: usize| scene.look(i).kind == Kind::Fill && scene.look(i).numel() == scores;
    let in_reach = |i: &usize| scene.look(*i).kind != Kind::Matrix;
    let before = scene.before(first).rev().take(HALO_REACH).take_while(in_reach);
    let mut halo: Vec<usize> = before.filter(|&i| is_copy(i, &[q, k, v]) || is_scaling(i) || is_fill(i)).collect();
    let after = scene.after(last).take(HALO_REACH).take_while(in_reach);
    halo.extend(after.filter(|&i| is_copy(i, &[out])).take(1));
    halo.sort_unstable();
    halo.into_iter().map(|i| LeafId(i as u32)).collect()
}

/// Two batched products with a softmax between them in a module that says attention, but no shapes: a guess.
fn without_shapes(scene: &Scene<'_>, softmax: usize) -> Option<Instance> {
    if scene.leaf(softmax).inputs.dims.is_some() || reach(scene, softmax) != IN_MODULE {
        return None;
    }
    let is_product = |&i: &usize| matches!(scene.look(i).base, "bmm" | "baddbmm" | "matmul");
    let first = scene.before(softmax).rev().take(IN_MODULE.0).find(is_product)?;
    let last = scene.after(softmax).take(IN_MODULE.1).find(is_product)?;
    let leaves = (first..=last).map(|i| LeafId(i as u32)).collect();
    let mut instance =
        Instance::new(scene, Code::UnfusedAttention, leaves, LeafId(softmax as u32), HINTS, Confidence::Low);
    "no shapes were recorded, so nothing can be estimated".clone_into(&mut instance.basis);
    Some(instance)
}

/// What autograd ran for a forward find.
fn linked_backward(scene: &Scene<'_>, forward: &Instance) -> Option<Instance> {
    let all: Vec<LeafId> = forward.leaves.iter().chain(&forward.halo).copied().collect();
    let leaves = scene.backward_of(&all);
    // A softmax that is written out has no backward of its own: any work on all scores will do.
    let scores = scene.look(forward.anchor.index()).numel();
    let is_softmax = |l: &LeafId| scene.look(l.index()).kind == Kind::SoftmaxBackward;
    let on_scores = |l: &LeafId| {
        scene.look(forward.anchor.index()).base == "exp"
            && scene.look(l.index()).kind == Kind::Elementwise
            && scene.look(l.index()).numel() == scores
    };
    let anchor = leaves.iter().copied().find(is_softmax).or_else(|| leaves.iter().copied().find(on_scores))?;
    let shape = backward_shape(scene, anchor, &leaves)?;
    // Heads that ran one after another have a softmax each.
    let turns = leaves.iter().filter(|l| is_softmax(l)).count().max(1);
    let mut leaves = leaves;
    if turns == 1 {
        // What puts the gradients of Q, K and V together, where they were parts of one tensor, stays.
        leaves.retain(|l| scene.look(l.index()).kind != Kind::Cat);
    }
    let causal = causal(scene, &forward.leaves, shape.mq, shape.nk);
    let (mask, learned) = mask(scene, &forward.leaves, shape.mq, shape.nk);
    let mut shape = Shape { causal, mask, learned, batch: shape.batch.saturating_mul(turns as i64), ..shape };
    shape.as_before_casts(cast_from(scene, &forward.halo));
    let mut instance = Instance { code: Code::UnfusedAttentionBackward, anchor, ..forward.clone() };
    (instance.leaves, instance.halo) = (leaves, Vec::new());
    Some(finish_backward(scene, instance, &shape, turns))
}

/// Backward attention seen by its order alone.
fn window_backward(scene: &Scene<'_>, softmax: usize) -> Option<Instance> {
    let [ref lead @ .., mq, nk] = scene.look(softmax).full[..] else { return None };
    let scores = numel(&[numel(lead), mq, nk]);
    let fits = |i: &usize| {
        let sizes = |p: Product| [[p.m, p.n], [p.m, p.k], [p.k, p.n]].map(|[a, b]| numel(&[p.batch, a, b]));
        Product::of(scene.look(*i)).is_some_and(|p| sizes(p).contains(&scores))
    };
    let before: Vec<usize> = scene.before(softmax).rev().take(BACKWARD_REACH.0).filter(fits).take(2).collect();
    let after: Vec<usize> = scene.after(softmax).take(BACKWARD_REACH.1).filter(fits).take(2).collect();
    if before.is_empty() || after.is_empty() || before.len() + after.len() < 3 {
        return None;
    }
    let (first, last) = (*before.last()?, *after.last()?);
    let leaves: Vec<LeafId> = (first..=last).map(|i| LeafId(i as u32)).collect();
    let anchor = LeafId(softmax as u32);
    let shape = backward_shape(scene, anchor, &leaves)?;
    let instance = Instance::new(scene, Code::UnfusedAttentionBackward, leaves, anchor, HINTS, Confidence::High);
    Some(finish_backward(scene, instance, &shape, 1))
}

/// Sizes of the attention that a softmax backward belongs to.
fn backward_shape(scene: &Scene<'_>, softmax: LeafId, leaves: &[LeafId]) -> Option<Shape> {
    let [ref lead @ .., mq, nk] = scene.look(softmax.index()).full[..] else { return None };
    let products: Vec<(usize, Product)> =
        leaves.iter().filter_map(|l| Product::of(scene.look(l.index())).map(|p| (l.index(), p))).collect();
    // The product that gives the gradient of the probabilities has the size of a head inside.
    let (at, p) = *products.iter().find(|(_, p)| p.m == mq && p.n == nk).or(products.first())?;
    let d = if p.m == mq && p.n == nk { p.k } else { p.n.min(p.m).min(p.k) };
    Some(Shape {
        batch: numel(lead),
        mq,
        nk,
        d,
        dv: d,
        dtype: element(scene, at),
        spec: scene.look(at).cost.as_ref().and_then(Cost::spec),
        causal: causal(scene, leaves, mq, nk),
        // What was laid over the scores is seen in the forward pass.
        mask: Mask::None,
        learned: Learned::No,
        dropout: leaves
            .iter()
            .any(|l| matches!(scene.look(l.index()).base, "native_dropout_backward" | "_masked_scale")),
    })
}

fn finish_backward(scene: &Scene<'_>, mut instance: Instance, shape: &Shape, turns: usize) -> Instance {
    let products = instance.leaves.iter().filter(|l| Product::of(scene.look(l.index())).is_some());
    let function = instance.facts.iter().find(|f| f.0 == FUNCTION).cloned();
    let time = fused(scene, shape, products.map(|l| scene.program.leaf(*l).us).sum(), true);
    let time = with_function(time, function.as_ref().map(|f| f.1.as_str()));
    let projections: Vec<LeafId> =
        instance.leaves.iter().copied().filter(|l| is_projection(scene, l.index())).collect();
    // Those of a single call are no part of it.
    let projected = if turns > 1 { looped::batched_if_small(scene, &projections) } else { Fused::NOTHING };
    instance.basis = basis(scene, shape, time, true) + &projected_basis(projected);
    instance.fused = Some(time.and(projected));
    instance.evidence.clear();
    describe(scene, &mut instance, shape, turns);
    instance.facts.extend(function);
    instance
}

fn describe(scene: &Scene<'_>, instance: &mut Instance, shape: &Shape, turns: usize) {
    let softmax = scene.look(instance.anchor.index());
    instance.evidence.push(format!(
        "{} on {} stands between batched matrix products of head size {} and {}",
        crate::texts::quoted(&scene.program.leaf(instance.anchor).name),
        dims(&softmax.full),
        shape.d,
        shape.dv
    ));
    if shape.causal == Causal::Yes {
        instance.evidence.push("the mask is causal".to_owned());
    }
    let math = scene.common_op(&instance.leaves).filter(|op| op.contains("scaled_dot_product"));
    if let Some(op) = math {
        instance.evidence.push(format!("`{op}` was called, but no fused backend took this input"));
    }
    instance.facts = vec![("n", shape.longest().to_string()), ("ops", instance.leaves.len().to_string())];
    if turns > 1 {
        instance.evidence.push(format!("{turns} heads run one after another"));
        instance.facts.push((TURNS, turns.to_string()));
    }
}

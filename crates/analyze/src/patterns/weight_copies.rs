//! Weights that are cast or copied in every call.
//!
//! # What it finds
//! Copies of a weight right before the matrix product or convolution that reads it, and of its bias, in a trace without a
//! backward pass: casts that autocast makes of full-precision weights, and weights that are turned or made contiguous each
//! time. Where autocast casts what is multiplied with such a weight in the same call, that belongs to it. Weights of one
//! byte an element that are cast, and scaled, are dequantized.
//!
//! # Why it matters
//! A weight is the same in every call, so its copy is too.
//!
//! # How it is computed
//! The copies go, and nothing replaces them. In a model of that type the casts of what is multiplied go as well, at worst
//! two thirds of them: what comes before has the type then. At best elementwise work and norms between the products, on
//! contiguous tensors of four bytes an element, move half of these.
//!
//! # What to do
//! Convert the model once, or keep the copy. Of quantized weights, where there is no room for a copy: a product that takes
//! them as they are stored.
//!
//! # Limits
//! A copy is known by its shape alone: it must be that of the weight, and of none of the other operands. Where autocast keeps
//! its casts for all calls within one context, a trace shows them once.

use super::claims::Claims;
use super::group::Instance;
use super::scene::{Look, Operand, Scene, agree, element_size, is_transposed};
use super::show::dims;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::kind::{Kind, operands_before_factors};

/// Leaves before a product among which the copy of its weight stands: those of bias and input may come between.
const REACH: usize = 4;

/// Operations that casts are called by.
const CASTS_OF: [&str; 2] = ["aten::to", "aten::_to_copy"];

/// Fact: the copies change the type.
pub(super) const CASTS: &str = "casts";

/// Fact: the copies are those of weights that are stored in one byte an element.
pub(super) const DEQUANTIZES: &str = "dequantizes";

/// Bytes of an element of the types that autocast chooses.
const HALF: f64 = 2.0;

/// How its time is found.
pub(super) const BASIS: &str = "the copies are made once and not in every call";

/// Finds copies before products and convolutions.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    // Weights that are learnt change.
    if scene.trains() {
        return Vec::new();
    }
    let mut found: Vec<Instance> = Vec::new();
    for at in 0..scene.len() {
        let copies = weight(scene.look(at)).map(|weight| copies_of(scene, claims, at, weight));
        found.extend(copies.and_then(|copies| instance(scene, copies, at)));
    }
    claims.settle(scene, found)
}

/// The weight of a product or convolution, if its shape tells it from the other operands.
pub(super) fn weight<'s>(look: &'s Look<'_>) -> Option<&'s Operand<'s>> {
    let (at, is_form): (usize, fn(usize) -> bool) = match look.kind {
        // Batches of matrices are no weights.
        Kind::Matrix => (operands_before_factors(look.base) + 1, |rank| rank == 2),
        Kind::Convolution => (1, |rank| rank > 2),
        _ => return None,
    };
    let weight = look.operands.get(at).filter(|o| is_form(o.dims.len()))?;
    let is_own = |(i, o): (usize, &Operand<'_>)| i == at || !same(o.dims, weight.dims);
    look.operands.iter().enumerate().all(is_own).then_some(weight)
}

/// Whether two shapes are the same, or one is the other turned.
pub(super) fn same(a: &[i64], b: &[i64]) -> bool {
    a == b || is_transposed(a, b)
}

/// The copies of the weight and, if there is one of that, of the bias, in their order. What scales a dequantized weight
/// belongs to its copy.
fn copies_of(scene: &Scene<'_>, claims: &Claims, at: usize, weight: &Operand<'_>) -> Vec<usize> {
    let copies = copies_before(scene, claims, at, weight, true);
    if copies.iter().any(|&i| dequantizes(scene.look(i))) {
        return copies;
    }
    copies_before(scene, claims, at, weight, false)
}

/// Whether a copy makes more than one byte an element of one.
fn dequantizes(look: &Look<'_>) -> bool {
    look.is_cast() && element_size(look.operands[1].dtype) <= 1.0 && element_size(look.operands[0].dtype) > 1.0
}

/// The same, with or without what scales them.
fn copies_before(scene: &Scene<'_>, claims: &Claims, at: usize, weight: &Operand<'_>, scaled: bool) -> Vec<usize> {
    let is_weight = |i: &usize| same(&scene.look(*i).full, weight.dims);
    let scales = |i: &usize| {
        let look = scene.look(*i);
        scaled && look.kind == Kind::Elementwise && is_weight(i) && look.full_operands().count() == 1
    };
    let near =
        |i: &usize| (scene.look(*i).kind == Kind::Copy || scales(i)) && scene.leaf(*i).module == scene.leaf(at).module;
    let biases: Vec<&[i64]> = scene.look(at).operands.iter().map(|o| o.dims).filter(|d| d.len() == 1).collect();
    let is_bias = |i: &usize| biases.contains(&&*scene.look(*i).full);
    let before = scene.before(at).rev().take(REACH).take_while(near).filter(|&i| claims.is_free(i));
    let mut copies: Vec<usize> = before.filter(|i| is_weight(i) || is_bias(i)).collect();
    copies.reverse();
    if copies.iter().any(is_weight) { copies } else { Vec::new() }
}

/// The cast of what is multiplied with a weight, if autocast made it: the call that it casts for, which calls itself with
/// the other type, holds both.
fn input_cast(scene: &Scene<'_>, copies: &[usize], product: usize) -> Option<LeafId> {
    let to = |at: usize| scene.look(at).operands.first().map(|o| o.dtype);
    let weight = *copies.iter().find(|&&i| scene.look(i).is_cast())?;
    let input = scene.look(product).operands.get(usize::from(is_added_to(scene, product)))?;
    let is_it = |i: &usize| {
        let look = scene.look(*i);
        let fits = look.is_cast() && to(*i) == to(weight) && agree(&look.full, input.dims);
        let op = || scene.common_op(&[LeafId(*i as u32), LeafId(product as u32)]);
        fits && !copies.contains(i) && op().is_some_and(|name| name.starts_with("aten::"))
    };
    let found = scene.before(product).rev().take(REACH).find(is_it)?;
    Some(LeafId(found as u32))
}

fn is_added_to(scene: &Scene<'_>, product: usize) -> bool {
    let look = scene.look(product);
    look.kind == Kind::Matrix && operands_before_factors(look.base) > 0
}

/// What elementwise work and norms between products save at best if what autocast left in full precision has the type of
/// the products, in milliseconds. `products` are operations beside each of the products, in their order.
pub(super) fn lighter_ms(scene: &Scene<'_>, products: &[LeafId]) -> f64 {
    let between = products.windows(2).filter(|w| scene.in_one_run(w[0].index(), w[1].index()));
    let all = between.flat_map(|w| w[0].index() + 1..w[1].index());
    all.map(|at| lighter_us(scene, at)).sum::<f64>() / 1e3
}

fn lighter_us(scene: &Scene<'_>, at: usize) -> f64 {
    let (look, us) = (scene.look(at), scene.leaf(at).us);
    let is_full = |o: &Operand<'_>| o.dtype == "float" && o.numel() == look.numel();
    // What is strided takes its time for other reasons than its bytes.
    let gains = matches!(look.kind, Kind::Elementwise | Kind::Norm)
        && look.operands.iter().any(is_full)
        && look.operands.iter().all(Operand::is_contiguous);
    if !gains {
        return 0.0;
    }
    let result = look.numel() as f64;
    let bytes = |most: f64| {
        let read: f64 = look.operands.iter().map(|o| o.numel() as f64 * element_size(o.dtype).min(most)).sum();
        read + (look.result_bytes() / result).min(most) * result
    };
    let (now, then) = (bytes(f64::INFINITY), bytes(HALF));
    let by_bytes = us * (1.0 - then / now);
    match look.kind {
        // Operations on two types are slower than their bytes tell.
        Kind::Elementwise => by_bytes.max(us - then / (scene.bytes_per_us() * scene.baseline_share())),
        _ => by_bytes,
    }
}

fn instance(scene: &Scene<'_>, copies: Vec<usize>, product: usize) -> Option<Instance> {
    let largest = *copies.iter().max_by_key(|&&i| scene.look(i).numel())?;
    let input = input_cast(scene, &copies, product);
    let leaves = copies.into_iter().map(|i| LeafId(i as u32)).collect();
    let anchor = LeafId(largest as u32);
    let mut instance = Instance::new(scene, Code::WeightCopies, leaves, anchor, &[], Confidence::High);
    instance.fused = Some(Fused::NOTHING);
    instance.halo.extend(input);
    BASIS.clone_into(&mut instance.basis);
    let (shape, name) = (dims(&scene.look(largest).full), &scene.leaf(product).name);
    instance.evidence.push(format!("a weight of {shape} is copied right before the `{name}` that reads it"));
    // A cast is no place.
    instance.holder = instance.holder.filter(|name| !CASTS_OF.contains(&&**name));
    let dequantized = instance.leaves.iter().any(|l| dequantizes(scene.look(l.index())));
    if dequantized {
        instance.facts.push((DEQUANTIZES, "true".to_owned()));
    } else if scene.look(largest).is_cast() {
        instance.facts.push((CASTS, "true".to_owned()));
    }
    Some(instance)
}

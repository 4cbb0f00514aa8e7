//! Gated activations in two or three kernels.
//!
//! # What it finds
//! An activation (`silu`, `gelu`, `relu`, or `sigmoid` times its input) and the product of its result with another
//! tensor of the same shape, as in `SwiGLU`. A matrix product that makes the other tensor may stand between them; one that
//! reads a tensor as large as the activation may be a layer on it, and ends the search.
//!
//! # Why it matters
//! The activation's result is written and read again only to be multiplied.
//!
//! # How it is computed
//! The product must have two operands of the activation's shape and follow within three leaves. Operations of one of
//! these tensors and numbers (limits, factors) right before and after belong to it, and so do casts before and back, and
//! a bias that is added right before to one tensor that holds both. One pass reads both tensors and writes one (backward:
//! reads three, writes two).
//!
//! # What to do
//! Compile the block, or use a fused `silu_and_mul` kernel.
//!
//! # Limits
//! That the product's operand is the activation's result is seen from shape and order only.

use super::chain;
use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::scene::{Operand, Scene, agree, numel};
use super::show::dims;
use super::{Code, Confidence};
use crate::program::LeafId;
use crate::program::kind::{Kind, operands_before_factors};

const HINTS: &[&str] = &["mlp", "silu", "swiglu", "ffn", "feedforward", "glu", "expert"];
/// Share of the peak bandwidth that a kernel reaches at worst which reads both halves of each row. One compiled for
/// `gelu` reached 0.60.
const OF_HALVES_AT_WORST: f64 = 0.55;
/// Leaves between the activation and the product.
const REACH: usize = 3;

/// Finds activations with a product after them.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|i| from(scene, claims, i)).collect();
    let found = chain::no_part_of_more(scene, claims, found);
    claims.settle(scene, found)
}

fn from(scene: &Scene<'_>, claims: &Claims, at: usize) -> Option<Instance> {
    let gate = scene.look(at);
    let is_product = |i: usize| {
        let look = scene.look(i);
        look.base == "mul" && look.operands.len() == 2 && look.operands.iter().all(|o| agree(o.dims, &gate.full))
    };
    let mut leaves = vec![at];
    match gate.base {
        "silu" | "gelu" | "clamp_min" | "relu" => {}
        // Sigmoid times its own input is written out silu.
        "sigmoid" => leaves.push(scene.after(at).next().filter(|&i| is_product(i))?),
        _ => return None,
    }
    let last = *leaves.last()?;
    // A layer that reads the activation gates with something else.
    let reads_gate = |i: usize| {
        let look = scene.look(i);
        look.operands.get(operands_before_factors(look.base)).is_some_and(|o| o.numel() == gate.numel())
    };
    let between_ok = |i: &usize| match scene.look(*i).kind {
        Kind::Matrix => !reads_gate(*i),
        Kind::Copy => true,
        _ => is_product(*i),
    };
    leaves.push(scene.after(last).take(REACH).take_while(between_ok).find(|&i| is_product(i))?);
    let leaves = with_neighbours(scene, claims, leaves);
    let leaves: Vec<LeafId> = leaves.into_iter().map(|i| LeafId(i as u32)).collect();
    if !claims.are_free(&leaves) {
        return None;
    }
    let mut instance = Instance::new(scene, Code::UnfusedSwiglu, leaves, LeafId(at as u32), HINTS, Confidence::High);
    instance.backward = scene.backward_of(&instance.leaves);
    let input = read_bytes(scene, &instance.leaves, gate.full_operands().next()?.bytes());
    let output = instance.leaves.last().map_or(input, |l| scene.look(l.index()).result_bytes());
    let mut forward = Part::moving(2.0 * input, output).computing(scene, &instance.leaves, 1.0);
    let is_of_halves = instance.leaves.first().is_some_and(|l| scene.look(l.index()).numel() > gate.numel());
    forward.known_share = is_of_halves.then_some(OF_HALVES_AT_WORST);
    instance.fused = Some(forward.time(scene));
    instance.basis = forward.basis(scene);
    instance.backward_fused = Part::moving(2.0 * input + output, 2.0 * input).time(scene);
    instance.evidence.push(format!(
        "`{}` on {} is multiplied by a tensor of the same shape",
        gate.base,
        dims(&gate.full)
    ));
    instance.facts = vec![("name", "gated activation".to_owned())];
    Some(instance)
}

/// The leaves, which stand in order, with those right before and after that change one of the tensors by numbers alone
/// (limits, factors, offsets) or cast it: a pass that reads the tensors does that on the way. A cast at the end of tensors
/// that were not cast before is for what follows.
fn with_neighbours(scene: &Scene<'_>, claims: &Claims, leaves: Vec<usize>) -> Vec<usize> {
    let (Some(&first), Some(&last)) = (leaves.first(), leaves.last()) else { return leaves };
    let full = &scene.look(first).full;
    let joins = |i: &usize, casts: bool| {
        let look = scene.look(*i);
        let alone = look.operands.len() == 1 && look.kind == Kind::Elementwise;
        (alone || casts && look.is_cast()) && agree(&look.full, full) && claims.is_free(*i)
    };
    let before = scene.before(first).rev().take_while(|i| joins(i, true)).last().unwrap_or(first);
    let cast = (before..last).any(|i| joins(&i, true) && scene.look(i).is_cast());
    let after = scene.after(last).take_while(|i| joins(i, cast)).last().unwrap_or(last);
    let within = (first..=last).filter(|i| leaves.contains(i) || joins(i, true) && scene.look(*i).is_cast());
    let bias = biased(scene, claims, before);
    bias.into_iter().chain(before..first).chain(within).chain(last + 1..=after).collect()
}

/// What adds a bias to the tensor that holds the activation's input beside the other factor: twice as wide, and right
/// before.
fn biased(scene: &Scene<'_>, claims: &Claims, gate: usize) -> Option<usize> {
    let at = scene.before(gate).next_back().filter(|&i| claims.is_free(i))?;
    let (both, half) = (scene.look(at), &scene.look(gate).full);
    let ([lead @ .., wide], [half_lead @ .., width]) = (&*both.full, &**half) else { return None };
    let is_both = lead == half_lead && width.checked_mul(2) == Some(*wide);
    let of_columns = |o: &Operand<'_>| o.dims.is_empty() || numel(o.dims) == *wide;
    let is_bias = both.base == "add" && both.full_operands().count() == 1;
    let others = || both.operands.iter().filter(|o| o.dims != both.full);
    (is_both && is_bias && others().all(of_columns)).then_some(at)
}

/// Bytes of one of the tensors as they were before they were cast.
fn read_bytes(scene: &Scene<'_>, leaves: &[LeafId], bytes: f64) -> f64 {
    let casts = leaves.iter().map(|l| scene.look(l.index())).filter(|look| look.is_cast());
    casts.filter_map(|look| look.read().first()).map(Operand::bytes).fold(bytes, f64::min)
}

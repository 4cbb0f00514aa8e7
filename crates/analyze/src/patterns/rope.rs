//! Rotary position embedding written out.
//!
//! # What it finds
//! `x·cos + rotate_half(x)·sin` as separate kernels: one half negated, both halves put together again, two products with
//! the tables and their sum. Queries and keys are two finds.
//!
//! # Why it matters
//! Five kernels move the tensor about nine times where one would read it once and write it once.
//!
//! # How it is computed
//! A `neg` on half the last dimension, directly before a `cat` of two such halves, with a product before or after and
//! a product and a sum on the whole right after. A cast of the whole right before and the one back right after belong to
//! it. One pass reads and writes the tensor; its backward as well.
//!
//! # What to do
//! Compile the function, or use a fused rotary kernel.
//!
//! # Limits
//! Rotations by complex numbers run as one product already and are not matched.

use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::kind::Kind;
use super::scene::Scene;
use super::show::dims;
use super::{Code, Confidence};
use crate::program::LeafId;

const HINTS: &[&str] = &["rotary", "rope", "attn", "attention"];
/// Leaves after the `cat` in which the product and the sum must stand.
const REACH: usize = 4;

/// Finds rotations around `cat`.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let cats = (0..scene.len()).filter(|&i| scene.look(i).kind == Kind::Cat);
    let found = cats.filter_map(|i| around(scene, claims, i)).collect();
    claims.settle(scene, found)
}

fn around(scene: &Scene<'_>, claims: &Claims, cat: usize) -> Option<Instance> {
    let [a, b] = &scene.look(cat).operands[..] else { return None };
    let whole = a.numel().saturating_add(b.numel());
    let neg = scene.before(cat).rev().take(2).find(|&i| scene.look(i).base == "neg")?;
    let negated = scene.look(neg);
    if a.dims != b.dims || negated.numel() != a.numel() || a.numel() < 2 {
        return None;
    }
    let on_whole = |i: usize, name: &str| scene.look(i).base == name && scene.look(i).numel() == whole;
    let before = scene.before(neg).next_back().filter(|&i| on_whole(i, "mul"));
    let sum = scene.after(cat).take(REACH).find(|&i| on_whole(i, "add"))?;
    let inside = |i: &usize| i != &cat && i != &neg && i != &sum;
    let first = before.unwrap_or(neg);
    let products = (first..sum).filter(|&i| on_whole(i, "mul")).count();
    let fusible = (first..sum).filter(inside).all(|i| scene.look(i).kind.is_fusible());
    if products < 2 || !fusible {
        return None;
    }
    let (first, last) = with_casts(scene, claims, first, sum);
    let leaves: Vec<LeafId> = (first..=last).map(|i| LeafId(i as u32)).collect();
    if !claims.are_free(&leaves) {
        return None;
    }
    let mut instance = Instance::new(scene, Code::UnfusedRope, leaves, LeafId(sum as u32), HINTS, Confidence::High);
    instance.backward = scene.backward_of(&instance.leaves);
    let read = if first < before.unwrap_or(neg) { first } else { sum };
    let read = scene.look(read).full_operands().next().map_or(0.0, super::scene::Operand::bytes);
    let written = scene.look(last).result_bytes();
    let forward = Part::moving(read, written).computing(scene, &instance.leaves, 1.0);
    instance.fused = Some(forward.time(scene));
    instance.basis = forward.basis(scene);
    instance.backward_fused = Part::moving(written, read).time(scene);
    let shape = dims(&scene.look(sum).full);
    instance.evidence.push(format!("a half of {shape} is negated, joined again, multiplied by the tables and added"));
    instance.facts = vec![("name", "rotary embedding".to_owned())];
    Some(instance)
}

/// The same with the cast right before it and the one back right after it, where there are both.
fn with_casts(scene: &Scene<'_>, claims: &Claims, first: usize, last: usize) -> (usize, usize) {
    let whole = scene.look(last).numel();
    let is_cast = |i: &usize| scene.look(*i).is_cast() && scene.look(*i).numel() == whole && claims.is_free(*i);
    let types = |i: usize| match &scene.look(i).operands[..] {
        [to, from] => Some((from.dtype, to.dtype)),
        _ => None,
    };
    let there = scene.before(first).next_back().filter(is_cast);
    let back = scene.after(last).next().filter(is_cast);
    match (there, back) {
        (Some(there), Some(back)) if types(there) == types(back).map(|(from, to)| (to, from)) => (there, back),
        _ => (first, last),
    }
}

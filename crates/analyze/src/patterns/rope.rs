//! Rotary position embedding written out.
//!
//! # What it finds
//! `x·cos + rotate_half(x)·sin` as separate kernels: one half negated, both halves put together again, two products with
//! the tables and their sum. Or the halves, which may lie interleaved, by themselves: four products, a difference and a
//! sum, put together at the end, perhaps with what is not rotated. Queries and keys are two finds.
//!
//! # Why it matters
//! Five kernels move the tensor about nine times where one would read it once and write it once.
//!
//! # How it is computed
//! A `neg` on half the last dimension, directly before a `cat` of two such halves, with a product before or after and
//! a product and a sum on the whole right after; or a `cat` or `stack` of two halves right after four products, a
//! difference and a sum of their size. A cast of the whole right before and the one back right after belong to it. One
//! pass reads and writes the tensor; its backward as well.
//!
//! # What to do
//! Compile the function, or use a fused rotary kernel.
//!
//! # Limits
//! Rotations by complex numbers run as one product already and are not matched.

use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::scene::{Operand, Scene};
use super::show::dims;
use super::{Code, Confidence, chain};
use crate::program::LeafId;
use crate::program::kind::Kind;

const HINTS: &[&str] = &["rotary", "rope", "attn", "attention"];
/// Leaves after the `cat` in which the product and the sum must stand.
const REACH: usize = 4;
/// Leaves before the `cat` of halves in which their products, difference and sum must stand.
const REACH_OF_HALVES: usize = 8;

/// Finds rotations around `cat`.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let cats = (0..scene.len()).filter(|&i| scene.look(i).kind == Kind::Cat);
    let found = cats.filter_map(|i| around(scene, claims, i)).collect();
    let found = chain::no_part_of_more(scene, claims, found);
    claims.settle(scene, found)
}

/// A rotation, from its first leaf to its last.
struct Rotation {
    first: usize,
    last: usize,
    /// The leaf that tells the shape, and how often that is the tensor's.
    shaped: (usize, i64),
    evidence: &'static str,
}

fn around(scene: &Scene<'_>, claims: &Claims, cat: usize) -> Option<Instance> {
    let [a, b, unrotated @ ..] = &scene.look(cat).operands[..] else { return None };
    if a.dims != b.dims || a.numel() < 2 || unrotated.len() > 1 {
        return None;
    }
    let of_whole = || whole_tensor(scene, cat, a.numel()).filter(|_| unrotated.is_empty());
    let rotation = of_whole().or_else(|| halves(scene, cat, a.numel()))?;
    let whole = a.numel().saturating_add(b.numel()).saturating_add(unrotated.iter().map(Operand::numel).sum());
    let (first, last) = with_casts(scene, claims, &rotation, whole);
    let leaves: Vec<LeafId> = (first..=last).map(|i| LeafId(i as u32)).collect();
    if !claims.are_free(&leaves) {
        return None;
    }
    let (shaped, times) = rotation.shaped;
    let mut instance = Instance::new(scene, Code::UnfusedRope, leaves, LeafId(shaped as u32), HINTS, Confidence::High);
    instance.backward = scene.backward_of(&instance.leaves);
    let bytes = |at: usize| scene.look(at).full_operands().next().map_or(0.0, Operand::bytes);
    let tensor = times as f64 * bytes(shaped) + unrotated.iter().map(Operand::bytes).sum::<f64>();
    let read = if first < rotation.first { bytes(first) } else { tensor };
    let written = if last > rotation.last { scene.look(last).result_bytes() } else { tensor };
    let forward = Part::moving(read, written).computing(scene, &instance.leaves, 1.0);
    instance.fused = Some(forward.time(scene));
    instance.basis = forward.basis(scene);
    instance.backward_fused = Part::moving(written, read).time(scene);
    let shape = dims(&scene.look(shaped).full);
    instance.evidence.push(rotation.evidence.replace("{shape}", &shape));
    instance.facts = vec![("name", "rotary embedding".to_owned())];
    Some(instance)
}

/// `x·cos + rotate_half(x)·sin`, around the `cat` of the two halves.
fn whole_tensor(scene: &Scene<'_>, cat: usize, half: i64) -> Option<Rotation> {
    let neg = scene.before(cat).rev().take(2).find(|&i| scene.look(i).base == "neg")?;
    if scene.look(neg).numel() != half {
        return None;
    }
    let on_whole = |i: usize, name: &str| scene.look(i).base == name && scene.look(i).numel() == half.saturating_mul(2);
    let before = scene.before(neg).next_back().filter(|&i| on_whole(i, "mul"));
    let sum = scene.after(cat).take(REACH).find(|&i| on_whole(i, "add"))?;
    let inside = |i: &usize| i != &cat && i != &neg && i != &sum;
    let first = before.unwrap_or(neg);
    let products = (first..sum).filter(|&i| on_whole(i, "mul")).count();
    let fusible = (first..sum).filter(inside).all(|i| scene.look(i).kind.is_fusible());
    let evidence = "a half of {shape} is negated, joined again, multiplied by the tables and added";
    (products >= 2 && fusible).then_some(Rotation { first, last: sum, shaped: (sum, 1), evidence })
}

/// `cat(a·cos - b·sin, a·sin + b·cos)`, before the `cat`.
fn halves(scene: &Scene<'_>, cat: usize, half: i64) -> Option<Rotation> {
    let (mut products, mut sums, mut differences) = (0, 0, 0);
    for at in scene.before(cat).rev().take(REACH_OF_HALVES) {
        let look = scene.look(at);
        if !look.kind.is_fusible() {
            return None;
        }
        if look.numel() != half {
            continue;
        }
        match look.base {
            "mul" => products += 1,
            "add" => sums += 1,
            "sub" => differences += 1,
            _ => {}
        }
        if (products, sums, differences) == (4, 1, 1) {
            let evidence = "two halves of {shape} are multiplied by the tables, added and joined again";
            return Some(Rotation { first: at, last: cat, shaped: (at, 2), evidence });
        }
    }
    None
}

/// The same with the cast right before it and the one back right after it, where there are both.
fn with_casts(scene: &Scene<'_>, claims: &Claims, rotation: &Rotation, whole: i64) -> (usize, usize) {
    let (first, last) = (rotation.first, rotation.last);
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

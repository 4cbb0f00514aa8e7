//! GELU written out.
//!
//! # What it finds
//! `0.5·x·(1 + tanh(c·(x + 0.044715·x³)))` or `0.5·x·(1 + erf(x/√2))` as separate kernels.
//!
//! # Why it matters
//! Up to eight kernels read and write the tensor where one would do it once.
//!
//! # How it is computed
//! A `tanh` or `erf` directly followed by the addition of a number, with products around it, all on one shape and in a
//! row, with the casts that autocast puts before, among and after them. One pass reads and writes the tensor in the
//! smaller of its types (backward: reads two, writes one), and reads the tensor that the result is multiplied by.
//!
//! # What to do
//! `torch.nn.functional.gelu`, with `approximate="tanh"` for the first form.
//!
//! # Limits
//! Other functions of the same form (1 + tanh) are taken for GELU; the advice to fuse them holds all the same.

use super::chain;
use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::scene::{Operand, Scene};
use super::show::dims;
use super::{Code, Confidence};
use crate::program::LeafId;

const HINTS: &[&str] = &["gelu", "mlp", "activation", "intermediate", "ffn"];
/// Leaves before the function and after the addition that may belong to it.
const REACH: (usize, usize) = (8, 2);
/// Fewer leaves are no GELU.
const LEAST_LEAVES: usize = 4;

/// Finds GELU around `tanh` and `erf`.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let anchors = (0..scene.len()).filter(|&i| matches!(scene.look(i).base, "tanh" | "erf"));
    let found = anchors.filter_map(|i| around(scene, claims, i)).collect();
    let found = chain::no_part_of_more(scene, claims, found);
    claims.settle(scene, found)
}

/// Whether a leaf is the addition or the product at the end of an earlier one.
fn ends_another(scene: &Scene<'_>, at: usize) -> bool {
    let is_function = |i: usize| matches!(scene.look(i).base, "tanh" | "erf");
    let adds = |i: usize| scene.look(i).base == "add" && scene.before(i).next_back().is_some_and(is_function);
    adds(at) || scene.before(at).next_back().is_some_and(adds)
}

fn around(scene: &Scene<'_>, claims: &Claims, at: usize) -> Option<Instance> {
    let look = scene.look(at);
    let plus_one = scene.after(at).next()?;
    let adds_number = scene.look(plus_one).base == "add" && scene.look(plus_one).with_scalar();
    let is_step = |i: &usize| {
        let l = scene.look(*i);
        let computes = matches!(l.base, "mul" | "div" | "pow" | "add" | "square");
        (computes || l.is_cast()) && l.numel() == look.numel() && claims.is_free(*i)
    };
    if !adds_number || !is_step(&plus_one) {
        return None;
    }
    let before = scene.before(at).rev().take(REACH.0).take_while(is_step);
    let first = before.take_while(|&i| !ends_another(scene, i)).last().unwrap_or(at);
    // The factor of one half stands at one end or the other.
    let opening = (first..at).find(|&i| !scene.look(i).is_cast()).unwrap_or(first);
    let halved = at > opening + 1 && scene.look(opening).with_scalar() && scene.look(opening).base != "pow";
    let is_product =
        |i: &usize| is_step(i) && scene.look(*i).base == "mul" && !(halved && scene.look(*i).with_scalar());
    let last = scene.after(plus_one).take(REACH.1).take_while(is_product).last()?;
    let is_cast = |i: &usize| is_step(i) && scene.look(*i).is_cast();
    let last = scene.after(last).next().filter(is_cast).unwrap_or(last);
    let leaves: Vec<LeafId> = (first..=last).map(|i| LeafId(i as u32)).collect();
    if leaves.len() < LEAST_LEAVES || !claims.are_free(&leaves) {
        return None;
    }
    let anchor = LeafId(at as u32);
    let mut instance = Instance::new(scene, Code::UnfusedGelu, leaves, anchor, HINTS, Confidence::High);
    instance.backward = scene.backward_of(&instance.leaves);
    // A second product of two tensors takes another one in: the function is a gate.
    let products = (plus_one + 1..=last).filter(|&i| scene.look(i).base == "mul" && !scene.look(i).with_scalar());
    let others = products.count().saturating_sub(1) as f64;
    let operands = instance.leaves.iter().flat_map(|l| scene.look(l.index()).full_operands());
    let bytes = operands.map(Operand::bytes).reduce(f64::min)?;
    // The function of the library computes one series and a few products, whatever the operations now compute.
    let moved = Part::moving((1.0 + others) * bytes, bytes);
    let own_share = moved.computing(scene, &instance.leaves, 1.0).own_share;
    let forward = Part { own_share, ..moved }.computing(scene, &[anchor], 1.5);
    instance.fused = Some(forward.time(scene));
    instance.basis = forward.basis(scene);
    let backward = Part::moving((2.0 + others) * bytes, (1.0 + others) * bytes);
    instance.backward_fused = backward.computing(scene, &[anchor], 2.0).time(scene);
    let count = instance.leaves.len();
    instance.evidence.push(format!("{count} operations on {} around `{}`", dims(&look.full), look.base));
    instance.facts = vec![("name", "GELU".to_owned())];
    Some(instance)
}

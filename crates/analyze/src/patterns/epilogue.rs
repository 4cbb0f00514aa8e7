//! Elementwise work right after a matrix product.
//!
//! # What it finds
//! A matrix product followed by one or two elementwise operations on exactly its output, in one module.
//!
//! # Why it matters
//! The output is written, read and written again; a product with an epilogue applies the operation before it writes.
//!
//! # How it is computed
//! At best only tensors that the operations add still have to be read; at worst their result is written once more.
//!
//! # What to do
//! A GEMM library call with an epilogue, or a compiler that generates one.
//!
//! # Limits
//! Not every library offers every epilogue, and none is free; therefore never more than medium confidence.

use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::scene::{Look, Scene, numel};
use super::show::{dims, one};
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::kind::{Kind, operands_before_factors};

/// Most operations in an epilogue.
const LONGEST: usize = 2;

/// Finds elementwise operations after matrix products.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let products = (0..scene.len()).filter(|&i| scene.look(i).kind == Kind::Matrix);
    let trains = scene.trains();
    let found = products.filter_map(|i| after(scene, claims, i, trains)).collect();
    claims.settle(scene, found)
}

/// Elements and last dimension of a matrix product's output.
pub(super) fn output(look: &Look<'_>) -> Option<(i64, i64)> {
    let skip = operands_before_factors(look.base);
    let [ref lead @ .., m, _] = *look.operands.get(skip)?.dims else { return None };
    let b = look.operands.get(skip + 1)?.dims;
    let n = if look.base == "linear" { b.first() } else { b.last() };
    let n = *n.filter(|_| b.len() >= 2)?;
    Some((numel(&[numel(lead), m, n]), n))
}

fn after(scene: &Scene<'_>, claims: &Claims, product: usize, trains: bool) -> Option<Instance> {
    let (elements, last) = output(scene.look(product))?;
    let is_step = |i: &usize| {
        let look = scene.look(*i);
        let fits = look.numel() == elements && look.full.last() == Some(&last);
        look.kind == Kind::Elementwise && fits && claims.is_free(*i)
    };
    let steps: Vec<usize> = scene.after(product).take(LONGEST).take_while(is_step).collect();
    let leaves: Vec<LeafId> = steps.iter().map(|&i| LeafId(i as u32)).collect();
    let with_product: Vec<LeafId> = std::iter::once(LeafId(product as u32)).chain(leaves.iter().copied()).collect();
    if leaves.is_empty() || scene.common_module(&with_product).is_none() {
        return None;
    }
    let added: f64 =
        steps.iter().filter_map(|&i| scene.look(i).full_operands().nth(1)).map(super::scene::Operand::bytes).sum();
    let written = scene.look(*steps.last()?).result_bytes();
    // The backward of an activation reads what goes into it, so that is written as well.
    let is_kept = |&i: &usize| !matches!(scene.look(i).base, "add" | "sub" | "mul" | "div" | "relu" | "clamp_min");
    let kept = if trains && steps.iter().any(is_kept) { written } else { 0.0 };
    let best = Part::moving(added, kept);
    let best_us = if added + kept > 0.0 { best.time(scene).best_us } else { 0.0 };
    let worst_us = Part::moving(added, written).time(scene).worst_us;
    let mut instance =
        Instance::new(scene, Code::GemmEpilogue, leaves, LeafId(product as u32), &[], Confidence::Medium);
    instance.module = scene.common_module(&with_product);
    instance.fused = Some(Fused { best_us, worst_us });
    instance.basis = format!("as part of the matrix product they take {}-{} us a call", one(best_us), one(worst_us));
    let name = &scene.leaf(product).name;
    let shape = dims(&scene.look(steps[0]).full);
    instance.evidence.push(format!("elementwise work on {shape} stands right after the `{name}` that makes it"));
    Some(instance)
}

//! Convolutions by unfolding.
//!
//! # What it finds
//! `unfold` (`im2col`) and the matrix product that reads what it gives, with copies of that and of the result between them:
//! a convolution in three steps.
//!
//! # Why it matters
//! Every element of the images is written once for each tap of the filter and read again, nine times the traffic for a
//! filter of three by three. The kernels of a convolution read each input where it lies.
//!
//! # How it is computed
//! The convolution does the same arithmetic on the images as they are, at 70% of its roofline at best and at 35% at worst;
//! the rest goes.
//!
//! # What to do
//! The convolution itself: `torch.nn.functional.conv2d`, or a `torch.nn.Conv2d` with the same weight.
//!
//! # Limits
//! Where the weights differ from place to place it is no convolution: then the product is a batched one, which is not
//! matched.

use super::claims::Claims;
use super::group::Instance;
use super::scene::Scene;
use super::show::{dims, one};
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::kind::Kind;

const HINTS: &[&str] = &["conv", "unfold"];
/// What writes out what each position of a filter reads.
pub(crate) const UNFOLD: &str = "aten::im2col";
/// Leaves from it to the product.
const REACH: usize = 4;
/// Shares of the roofline that the convolution reaches, at worst and at best.
const REACHED: (f64, f64) = (0.35, 0.70);

/// How its time is found begins so.
pub(super) const BASIS: &str = "the convolution takes";

/// Finds them around what unfolds.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|i| around(scene, claims, i)).collect();
    claims.settle(scene, found)
}

fn around(scene: &Scene<'_>, claims: &Claims, unfold: usize) -> Option<Instance> {
    if scene.look(unfold).name != UNFOLD {
        return None;
    }
    let is_product = |i: &usize| scene.look(*i).kind == Kind::Matrix;
    let product = scene.after(unfold).take(REACH).find(is_product)?;
    // One weight for all places: two matrices, whichever comes first.
    let is_plain = scene.look(product).operands.iter().all(|o| o.dims.len() <= 2);
    let is_copy = |i: &usize| scene.look(*i).kind == Kind::Copy && claims.is_free(*i);
    // What the operation itself launches may be several leaves.
    let within = |i: usize| scene.program.ops_around(scene.leaf(i)).any(|op| &**op == UNFOLD);
    if !is_plain || !(unfold + 1..product).all(|i| is_copy(&i) || within(i)) {
        return None;
    }
    let (elements, _) = super::epilogue::output(scene.look(product))?;
    let after = scene.after(product).next().filter(|i| is_copy(i) && scene.look(*i).numel() == elements);
    let leaves: Vec<LeafId> = (unfold..=product).chain(after).map(|i| LeafId(i as u32)).collect();
    if !claims.are_free(&leaves) {
        return None;
    }
    // The same arithmetic on the images as they are.
    let (arithmetic, _) = scene.sides_us(scene.look(product))?;
    let images = scene.look(unfold).operands.first()?;
    let element = super::scene::element_size(images.dtype);
    let roofline = arithmetic.max((images.bytes() + elements as f64 * element) / scene.bytes_per_us());
    let time = Fused { best_us: roofline / REACHED.1, worst_us: roofline / REACHED.0 };
    let mut instance =
        Instance::new(scene, Code::UnfoldedConvolution, leaves, LeafId(product as u32), HINTS, Confidence::High);
    instance.fused = Some(time);
    instance.basis = format!("{BASIS} {}-{} us a call", one(time.best_us), one(time.worst_us));
    let image = scene.look(unfold).operands.first().map_or_else(String::new, |o| dims(o.dims));
    instance.evidence.push(format!("{image} is unfolded for one matrix product"));
    Some(instance)
}

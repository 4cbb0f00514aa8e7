//! Batch norm written out: here with fixed statistics; with those of the batch it is found with the other norms.
//!
//! # What it finds
//! A product and then a sum with one number per channel each, on a tensor of at least three dimensions whose second is
//! the channel: a frozen batch norm.
//!
//! # Why it matters
//! Two kernels read and write the activations for what could be one, or part of the convolution before it.
//!
//! # How it is computed
//! Both second operands must have as many elements as there are channels and lie along the second dimension. One pass
//! reads and writes the tensor.
//!
//! # What to do
//! Fold the factors into the convolution's weights, use `batch_norm` in evaluation mode, or compile.
//!
//! # Limits
//! Any scale and shift per channel looks the same; behind a norm of a single image it is taken for one made for that image.

use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::scene::{Look, Scene};
use super::show::dims;
use super::{Code, Confidence};
use crate::program::LeafId;
use crate::program::kind::Kind;

const HINTS: &[&str] = &["batchnorm", "frozenbatchnorm", "frozenbn", "norm"];

/// Leaves from a norm to what is made of its result.
const NEAR: usize = 3;

/// Finds a product and a sum per channel.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|i| from(scene, claims, i)).collect();
    claims.settle(scene, found)
}

fn from(scene: &Scene<'_>, claims: &Claims, at: usize) -> Option<Instance> {
    if !per_channel(scene.look(at), "mul") {
        return None;
    }
    // The factors of one image may be made for it: behind a norm they are.
    let is_norm = |i: usize| scene.look(i).kind == Kind::Norm;
    if scene.look(at).full.first() == Some(&1) && scene.before(at).rev().take(NEAR).any(is_norm) {
        return None;
    }
    let sum = scene.after(at).next()?;
    if !per_channel(scene.look(sum), "add") || scene.look(sum).full != scene.look(at).full {
        return None;
    }
    let leaves = vec![LeafId(at as u32), LeafId(sum as u32)];
    if !claims.are_free(&leaves) {
        return None;
    }
    let mut instance = Instance::new(scene, Code::UnfusedBatchNorm, leaves, LeafId(at as u32), HINTS, Confidence::High);
    instance.backward = scene.backward_of(&instance.leaves);
    let bytes = scene.look(sum).full_operands().next()?.bytes();
    let forward = Part::moving(bytes, bytes).computing(scene, &instance.leaves, 1.0);
    instance.fused = Some(forward.time(scene));
    instance.basis = forward.basis(scene);
    let backward = Part::moving(2.0 * bytes, bytes).computing(scene, &instance.backward, 1.0);
    instance.backward_fused = backward.time(scene);
    let shape = dims(&scene.look(at).full);
    instance.evidence.push(format!("{shape} is multiplied by and added to one number per channel"));
    instance.facts = vec![("name", "batch norm".to_owned())];
    Some(instance)
}

fn per_channel(look: &Look<'_>, base: &str) -> bool {
    let [_, channels, ref rest @ ..] = look.full[..] else { return false };
    if look.base != base || rest.is_empty() || channels < 2 || super::scene::numel(rest) < 2 {
        return false;
    }
    let tail = rest.len() + 1;
    let is_channels =
        |d: &[i64]| d.len() >= tail && d[d.len() - tail] == channels && super::scene::numel(d) == channels;
    look.operands.len() == 2
        && look.operands.iter().any(|o| is_channels(o.dims))
        && look.operands.iter().any(|o| o.dims == &look.full[..])
}

//! Gradients of parts of a tensor that are put together in one order and then brought into another.
//!
//! # What it finds
//! In the backward pass a `stack` of gradients, and right after it a copy of all that it gave into another order. Queries,
//! keys and values that are taken out of one projection by `permute` and `unbind` leave both.
//!
//! # Why it matters
//! Each passes over the gradients of the whole projection, and neither computes anything.
//!
//! # How it is computed
//! One `cat` that writes them as they are needed, at 40 to 85% of the peak bandwidth, takes the place of both: in two measured
//! pairs it took 0.14 and 0.25 of their time.
//!
//! # What to do
//! Take the parts out of the last dimension as it lies, and reshape them then.
//!
//! # Limits
//! Only where the shapes of the stacked gradients were recorded.

use std::sync::Arc;

use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::scene::{Operand, Scene};
use super::show::dims;
use super::{Code, Confidence};
use crate::program::kind::Kind;
use crate::program::{Direction, LeafId};

const HINTS: &[&str] = &["attn", "attention"];
/// Shares of the peak bandwidth that the one `cat` reaches, at worst and at best.
const ONE_CAT: (f64, f64) = (0.40, 0.85);

/// Finds them.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|at| from(scene, claims, at)).collect();
    claims.settle(scene, found)
}

fn from(scene: &Scene<'_>, claims: &Claims, stack: usize) -> Option<Instance> {
    let (leaf, look) = (scene.leaf(stack), scene.look(stack));
    if leaf.direction != Direction::Backward || look.kind != Kind::Cat {
        return None;
    }
    let [first, rest @ ..] = &look.operands[..] else { return None };
    let alike = !rest.is_empty() && first.dims.len() > 2 && rest.iter().all(|o| o.dims == first.dims);
    // A stack may call `cat` on views of its tensors.
    let stacks = |op: &Arc<str>| &**op == "aten::stack";
    if !alike || look.base != "stack" && !scene.program.ops_around(leaf).any(stacks) {
        return None;
    }
    let copy = scene.after(stack).next()?;
    let copied = scene.look(copy);
    let all = look.operands.iter().map(Operand::numel).fold(0, i64::saturating_add);
    let reorders = copied.operands.last().is_some_and(|source| !source.is_contiguous());
    if copied.kind != Kind::Copy || copied.is_cast() || copied.numel() != all || !reorders {
        return None;
    }
    let leaves = vec![LeafId(stack as u32), LeafId(copy as u32)];
    if !claims.are_free(&leaves) {
        return None;
    }
    let bytes = copied.result_bytes();
    let part = Part { known_share: Some(ONE_CAT.0), best_share: Some(ONE_CAT.1), ..Part::moving(bytes, bytes) };
    let mut instance =
        Instance::new(scene, Code::StackedGradients, leaves, LeafId(stack as u32), HINTS, Confidence::High);
    instance.fused = Some(part.time(scene));
    instance.basis = part.basis(scene);
    let parts = look.operands.len();
    instance
        .evidence
        .push(format!("{parts} gradients of {} are stacked and copied into another order", dims(first.dims)));
    Some(instance)
}

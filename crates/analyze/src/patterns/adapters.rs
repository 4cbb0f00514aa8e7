//! Low-rank adapters beside linear layers.
//!
//! # What it finds
//! A matrix product, the same input through two narrow ones (down to a few columns and up to the width of the first, with no
//! activation between them), and the sum of both, in a trace without a backward pass: adapters as fine-tuning leaves them.
//!
//! # Why it matters
//! The narrow products do little work, but read the input again and write as much as the layer itself, and so do the scaling
//! and the sum.
//!
//! # How it is computed
//! Everything but the layer's own product goes.
//!
//! # What to do
//! Add the product of the two narrow weights to the layer's own once, before inference.
//!
//! # Limits
//! Where one model serves several adapters at a time they can't be merged.

use super::claims::Claims;
use super::epilogue::output;
use super::group::Instance;
use super::scene::Scene;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::kind::{Kind, operands_before_factors};

const HINTS: &[&str] = &["lora", "adapter"];
/// Most columns of the narrow products, and how many times as wide the others are at least.
const MOST_COLUMNS: i64 = 256;
const NARROWER: i64 = 4;
/// Leaves from the layer's own product to the sum: casts and drop-outs may stand between.
const REACH: usize = 8;

/// How its time is found.
pub(super) const BASIS: &str = "with the weights merged only the layer's own product is left";

/// Finds them behind the products of layers.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    // What is learnt can't be merged.
    if scene.trains() {
        return Vec::new();
    }
    let found = (0..scene.len()).filter_map(|i| behind(scene, claims, i)).collect();
    claims.settle(scene, found)
}

/// Rows, columns that go in and columns that come out of a matrix product.
fn sizes(scene: &Scene<'_>, at: usize) -> Option<[i64; 3]> {
    let look = scene.look(at);
    if look.kind != Kind::Matrix {
        return None;
    }
    let (all, columns) = output(look)?;
    let inner = *look.operands.get(operands_before_factors(look.base))?.dims.last()?;
    Some([all / columns.max(1), inner, columns])
}

fn behind(scene: &Scene<'_>, claims: &Claims, layer: usize) -> Option<Instance> {
    let [rows, inner, columns] = sizes(scene, layer)?;
    let near = || scene.after(layer).take(REACH);
    let down = near().find(|&i| scene.look(i).kind == Kind::Matrix)?;
    let [down_rows, down_inner, rank] = sizes(scene, down)?;
    let is_narrow = rank <= MOST_COLUMNS && NARROWER * rank <= inner.min(columns);
    if !is_narrow || (down_rows, down_inner) != (rows, inner) {
        return None;
    }
    let up = near().find(|&i| i > down && scene.look(i).kind == Kind::Matrix)?;
    if sizes(scene, up)? != [rows, rank, columns] {
        return None;
    }
    // An activation between the narrow products makes them layers of their own.
    let is_linear = |i: usize| {
        let look = scene.look(i);
        matches!(look.kind, Kind::Copy | Kind::Random) || matches!(look.base, "mul" | "div")
    };
    if !(down + 1..up).all(is_linear) {
        return None;
    }
    let all = rows.saturating_mul(columns);
    let adds_outputs = |i: usize| {
        let look = scene.look(i);
        look.base == "add" && look.operands.iter().filter(|o| o.numel() == all).count() > 1
    };
    let sum = near().find(|&i| i > up && adds_outputs(i))?;
    let fits =
        |i: usize| i == up || i == down || matches!(scene.look(i).kind, Kind::Elementwise | Kind::Copy | Kind::Random);
    let leaves: Vec<LeafId> = (layer + 1..=sum).map(|i| LeafId(i as u32)).collect();
    if !(layer + 1..=sum).all(fits) || !claims.are_free(&leaves) {
        return None;
    }
    let mut instance = Instance::new(scene, Code::Adapters, leaves, LeafId(up as u32), HINTS, Confidence::High);
    instance.fused = Some(Fused::NOTHING);
    BASIS.clone_into(&mut instance.basis);
    instance
        .evidence
        .push(format!("{inner} columns go through {rank} to {columns} beside the layer and are added to it"));
    Some(instance)
}

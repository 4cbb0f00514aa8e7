//! Targets written out as one-hot rows.
//!
//! # What it finds
//! `one_hot` of indices, a cast of it, its product with another tensor and the sum of that over the classes: one element
//! of each row is picked by multiplying all others by zero, as losses written by hand do; or their product with a matrix, which picks its
//! rows. The backward work belongs to it.
//!
//! # Why it matters
//! The rows are as large as all probabilities, in eight bytes an element at first, and are written, cast, read and multiplied
//! where an index would do.
//!
//! # How it is computed
//! The operations go. Picking elements by index reads next to nothing; its backward writes the gradient once. Picked rows are
//! read and written, at 20% of the peak bandwidth at worst; their backward also clears the gradient of the matrix.
//!
//! # What to do
//! `torch.nn.functional.cross_entropy` with indices as targets, or `gather`; an embedding for rows of a matrix.
//!
//! # Limits
//! Targets that are smoothed or mixed need more than one element of a row; then they are no products with `one_hot` alone.

use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::scene::Scene;
use super::show::dims;
use super::{Code, Confidence};
use crate::program::LeafId;
use crate::program::kind::{self, Kind};

const HINTS: &[&str] = &["loss", "criterion", "entropy"];
/// Leaves between the rows and their product: a cast, and what makes the other factor.
const REACH: usize = 6;

/// How its time is found.
pub(super) const BASIS: &str = "elements are picked by index, and the backward pass writes the gradient once";

/// Finds them around what puts the ones into their rows.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|i| around(scene, claims, i)).collect();
    claims.settle(scene, found)
}

fn around(scene: &Scene<'_>, claims: &Claims, scatter: usize) -> Option<Instance> {
    let n = scene.look(scatter).numel();
    let in_one_hot = |i: usize| scene.program.ops_around(scene.leaf(i)).any(|op| &**op == "aten::one_hot");
    if !scene.look(scatter).base.starts_with("scatter") || !in_one_hot(scatter) || n < 2 {
        return None;
    }
    // Rows of zeros, and whatever else the operation does before.
    let first = scene.before(scatter).rev().take_while(|&i| in_one_hot(i)).last().unwrap_or(scatter);
    let on_rows = |i: &usize| scene.look(*i).numel() == n;
    let mut after = scene.after(scatter).take(REACH).filter(on_rows);
    let product = after.find(|&i| scene.look(i).base == "mul" || is_lookup(scene, i, n))?;
    let looks_up = is_lookup(scene, product, n);
    // What is summed up over rows keeps a number for each class.
    let classes = scene.look(scatter).full.last().copied().filter(|&c| c > 0)?;
    let picks = |i: &usize| scene.look(*i).result().is_some_and(|kept| super::scene::numel(&kept) == n / classes);
    let sums = |i: &usize| on_rows(i) && scene.look(*i).kind == Kind::Reduce && picks(i);
    let sum = scene.after(product).next().filter(sums);
    if sum.is_none() && !looks_up {
        return None;
    }
    let casts = scene.after(scatter).take_while(|&i| i < product).filter(|&i| on_rows(&i) && scene.look(i).is_cast());
    let mut leaves: Vec<LeafId> = (first..=scatter).chain(casts).map(|i| LeafId(i as u32)).collect();
    leaves.extend(std::iter::once(product).chain(sum.filter(|_| !looks_up)).map(|i| LeafId(i as u32)));
    if !claims.are_free(&leaves) {
        return None;
    }
    let anchor = LeafId(product as u32);
    let mut instance = Instance::new(scene, Code::OneHotTargets, leaves, anchor, HINTS, Confidence::High);
    instance.backward = scene.backward_of(&instance.leaves);
    let shape = dims(&scene.look(product).full);
    if looks_up {
        let (elements, _) = super::epilogue::output(scene.look(product))?;
        let size = scene.look(product).operands.first().map_or(4.0, |o| super::scene::element_size(o.dtype));
        // Rows are read and written; gathering short ones reaches little of the bandwidth.
        let rows = elements as f64 * size;
        let part = Part { known_share: Some(GATHERED), ..Part::moving(rows, rows) };
        instance.fused = Some(part.time(scene));
        // The gradient of every row is added to that of the matrix, which is cleared first.
        let table = scene.look(product).operands.last().map_or(0.0, super::scene::Operand::bytes);
        let backward = Part { known_share: Some(GATHERED), ..Part::moving(rows, rows + table) };
        instance.backward_fused = backward.time(scene);
        instance.basis = part.basis(scene);
        instance.evidence.push(format!("one-hot rows of {shape} pick the rows of a matrix"));
        instance.facts.push((LOOKUP, "true".to_owned()));
        return Some(instance);
    }
    instance.fused = Some(Part::default().time(scene));
    let gradient = Part::moving(0.0, scene.look(product).result_bytes());
    instance.backward_fused = gradient.time(scene);
    BASIS.clone_into(&mut instance.basis);
    instance.evidence.push(format!("{shape} is multiplied by one-hot rows and summed"));
    Some(instance)
}

/// Fact: rows of a matrix are picked.
pub(super) const LOOKUP: &str = "lookup";
/// Share of the peak bandwidth that gathering rows reaches at worst: one block of threads takes a row, however short.
const GATHERED: f64 = 0.2;

/// Whether a matrix product reads the one-hot rows.
fn is_lookup(scene: &Scene<'_>, at: usize, n: i64) -> bool {
    let look = scene.look(at);
    let rows = look.operands.get(kind::operands_before_factors(look.base));
    look.kind == Kind::Matrix && rows.is_some_and(|o| o.numel() == n)
}

//! Products of which only some rows are used.
//!
//! # What it finds
//! A matrix product, and copies or simple functions of all of its result, after which only a part of the rows is taken
//! (`select`, `slice`, an index): the logits of all tokens where those of the last one are needed. Nothing reads all of them
//! until the product is called again. Rows that are used are at most an eighth.
//!
//! # Why it matters
//! The layer over a vocabulary is a large part of a model, and its result the largest tensor.
//!
//! # How it is computed
//! A product of few rows is bound by its weights: at best they are read at 85% of the peak bandwidth, at worst at 35%. What was
//! done with all rows becomes a kernel of the shortest length.
//!
//! # What to do
//! Take the rows before the layer.
//!
//! # Limits
//! Which tensor is read is known by its shape alone. Products with a backward pass are not told, nor results that are kept
//! for later without being read in the trace.

use super::claims::Claims;
use super::fused::{LARGE_BYTES, SHORTEST_US};
use super::group::Instance;
use super::scene::{Scene, element_size, numel};
use super::show::dims;
use super::{Code, Confidence, Fused};
use crate::program::kind::{Kind, operands_before_factors};
use crate::program::{Direction, Leaf, LeafId};

/// At most this part of the rows is used.
const USED: i64 = 8;
/// Leaves that may stand between the product and the first use, and after it before a use of all is ruled out.
const REACH: usize = 6;
const MOST_AFTER: usize = 2000;
/// Shares of the peak bandwidth that weights are read at.
const WEIGHTS: (f64, f64) = (0.85, 0.35);

/// Fact: how many rows there are, and how many are used.
pub(super) const ROWS: &str = "rows";
pub(super) const USED_ROWS: &str = "used_rows";

/// How its time is found.
pub(super) const BASIS: &str = "the rows that are used need the weights once";

/// Finds them.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|i| from(scene, claims, i)).collect();
    claims.settle(scene, found)
}

/// What of a result a leaf reads.
enum Reads {
    Nothing,
    All,
    /// So many rows of it.
    Rows(i64),
}

fn from(scene: &Scene<'_>, claims: &Claims, product: usize) -> Option<Instance> {
    let (look, leaf) = (scene.look(product), scene.leaf(product));
    let is_forward = leaf.direction != Direction::Backward && !leaf.is_repeated;
    if look.kind != Kind::Matrix || !is_forward || !claims.is_free(product) {
        return None;
    }
    let result = look.result()?;
    let [rows, columns] = result[..] else { return None };
    let weights = look.operands.get(operands_before_factors(look.base) + 1)?;
    let size = element_size(weights.dtype);
    if weights.dims.len() != 2 || numel(&result) as f64 * size < LARGE_BYTES {
        return None;
    }
    let (copies, first) = made_of_all(scene, claims, product, [rows, columns])?;
    let later = used_later(scene, product, first_after(&copies, product), [rows, columns])?;
    let used = first.saturating_add(later);
    if used.saturating_mul(USED) > rows {
        return None;
    }
    let leaves: Vec<LeafId> = [product].into_iter().chain(copies).map(|i| LeafId(i as u32)).collect();
    if !scene.backward_of(&leaves).is_empty() {
        return None;
    }
    let mut instance =
        Instance::new(scene, Code::UnusedRows, leaves.clone(), leaves[0], &["head", "logits"], Confidence::High);
    let (bytes, copies) = (weights.numel() as f64 * size, (leaves.len() - 1) as f64);
    let time = |share: f64, shortest: f64| (bytes / (scene.bytes_per_us() * share)).max(shortest) + copies * shortest;
    let (best_us, worst_us) = (time(WEIGHTS.0, SHORTEST_US.0), time(WEIGHTS.1, SHORTEST_US.1));
    // What takes no longer now is not told.
    if worst_us >= scene.us(&leaves) {
        return None;
    }
    instance.fused = Some(Fused { best_us, worst_us });
    BASIS.clone_into(&mut instance.basis);
    instance.evidence.push(format!("{used} of the {rows} rows of {} are used", dims(&result)));
    instance.facts.extend([(ROWS, rows.to_string()), (USED_ROWS, used.to_string())]);
    Some(instance)
}

/// Copies and functions of all of a result right after it, and how many rows the first use after them takes.
fn made_of_all(scene: &Scene<'_>, claims: &Claims, product: usize, result: [i64; 2]) -> Option<(Vec<usize>, i64)> {
    let mut copies = Vec::new();
    let mut others = 0;
    for i in following(scene, product) {
        match reads(scene.leaf(i), result) {
            Reads::Rows(used) => return Some((copies, used)),
            Reads::All => {
                let look = scene.look(i);
                let is_one = look.full_operands().count() == 1 && look.numel() == numel(&result);
                if !matches!(look.kind, Kind::Copy | Kind::Elementwise) || !is_one || !claims.is_free(i) {
                    return None;
                }
                copies.push(i);
            }
            Reads::Nothing if others == REACH => return None,
            Reads::Nothing => others += 1,
        }
    }
    None
}

fn first_after(copies: &[usize], product: usize) -> usize {
    copies.last().copied().unwrap_or(product) + 1
}

/// How many rows later leaves take, until the product is called again; `None` if one reads them all. The first use is not
/// counted.
fn used_later(scene: &Scene<'_>, product: usize, from: usize, result: [i64; 2]) -> Option<i64> {
    let of = scene.leaf(product);
    let mut used = 0_i64;
    let mut is_first = true;
    for i in following(scene, product).skip_while(|&i| i < from).take(MOST_AFTER) {
        let leaf = scene.leaf(i);
        if leaf.name == of.name && leaf.inputs == of.inputs {
            break;
        }
        match reads(leaf, result) {
            Reads::All => return None,
            Reads::Rows(_) if is_first => is_first = false,
            Reads::Rows(more) => used = used.saturating_add(more),
            Reads::Nothing => {}
        }
    }
    Some(used)
}

/// Leaves after one on its thread.
fn following<'s>(scene: &'s Scene<'_>, at: usize) -> impl Iterator<Item = usize> + 's {
    let thread = scene.leaf(at).thread;
    (at + 1..scene.len()).take_while(move |&i| scene.leaf(i).thread == thread)
}

/// What a leaf reads of a result, by the shapes of its inputs.
fn reads(leaf: &Leaf, [rows, columns]: [i64; 2]) -> Reads {
    let n = rows.saturating_mul(columns);
    let written = usize::from(&*leaf.name == "aten::copy_");
    let inputs = leaf.inputs.dims.as_deref().unwrap_or_default();
    let shapes = || inputs.iter().enumerate().skip(written).filter_map(|(i, d)| Some((i, d.shape()?)));
    if shapes().any(|(_, shape)| numel(shape) == n && shape.last() == Some(&columns)) {
        // Of what is read by number only so many rows are.
        let picked = (&*leaf.name == "aten::index").then(|| picked_rows(leaf)).flatten();
        return picked.filter(|&picked| picked < rows).map_or(Reads::All, Reads::Rows);
    }
    let is_part = |i: usize, shape: &[i64]| {
        let part = numel(shape) / columns;
        leaf.takes_part(i) && shape.last() == Some(&columns) && part > 0 && part < rows
    };
    match shapes().find(|&(i, shape)| is_part(i, shape)).map(|(_, shape)| numel(shape) / columns) {
        // The last of each sequence, say; others are all but a few.
        Some(part) if rows % part == 0 => Reads::Rows(part),
        Some(_) => Reads::All,
        None => Reads::Nothing,
    }
}

/// How many rows an `index` picks: as many as its longest list of numbers has.
fn picked_rows(leaf: &Leaf) -> Option<i64> {
    let look = super::scene::Look::new(leaf);
    let numbers = look.operands.get(1..)?.iter();
    numbers.map(super::scene::Operand::numel).max()
}

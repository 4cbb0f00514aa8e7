//! Rows that are sorted for their first few elements.
//!
//! # What it finds
//! A `sort` of whole rows after which only one end of each is read: at most an eighth of it, by a `slice` or a `select`.
//!
//! # Why it matters
//! A sort passes over all elements and their numbers eight times and more; to find the largest few takes a part of that.
//!
//! # How it is computed
//! What `topk` takes was measured on an H200 for rows of 64 to 16 million elements: of rows from 8,192 elements on it reads
//! 3 to 6.2% of the peak bandwidth, of shorter ones less, and it takes 60 to 95 us where there are few elements in all. What
//! the sort copies before it goes with it. Where `topk` may take as long as the sort does, nothing is told.
//!
//! # What to do
//! `torch.topk`, or `torch.kthvalue`, `amax` and `amin` where one element is needed.
//!
//! # Limits
//! Results are known by their shape: where another tensor of that shape is read within 32 operations after the sort, nothing is
//! told. What is sorted for all elements, as in sampling by a sum of probabilities, is not told either.

use super::claims::Claims;
use super::group::Instance;
use super::scene::{Scene, element_size};
use super::show::dims;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::firsts::{Firsts, SORTS};

/// At most this part of a row is read.
const USED: i64 = 8;
/// Leaves after the call of a sort among which its copies stand.
const COPIES: usize = 4;
/// Shares of the peak bandwidth that `topk` reads rows at, by the elements they have at least and by bytes of an element:
/// four and more, fewer; at best, at worst.
const SHARES: [(i64, [(f64, f64); 2]); 3] = [
    (8192, [(0.062, 0.040), (0.050, 0.030)]),
    (512, [(0.055, 0.030), (0.045, 0.020)]),
    (0, [(0.026, 0.014), (0.014, 0.007)]),
];
/// And the least it takes, in microseconds: of rows from 512 elements on, of shorter ones.
const LEAST_US: [(i64, (f64, f64)); 2] = [(512, (60.0, 95.0)), (0, (8.0, 20.0))];

/// Facts: how many elements a row has, and how many are read.
pub(super) const ELEMENTS: &str = "elements";
pub(super) const READ: &str = "read";

/// How its time is found.
pub(super) const BASIS: &str = "`topk` of as many rows takes as long as was measured";

/// Finds them.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|at| from(scene, claims, at)).collect();
    claims.settle(scene, found)
}

fn from(scene: &Scene<'_>, claims: &Claims, sort: usize) -> Option<Instance> {
    let Firsts { read, of } = scene.program.firsts_of(LeafId(sort as u32)).filter(|_| claims.is_free(sort))?;
    let rows = scene.look(sort).operands.first()?;
    if read.saturating_mul(USED) > of {
        return None;
    }
    let mut leaves: Vec<LeafId> = copies_of(scene, claims, sort).map(|i| LeafId(i as u32)).collect();
    leaves.push(LeafId(sort as u32));
    leaves.sort_unstable();
    let narrow = usize::from(element_size(rows.dtype) < 4.0);
    let share = SHARES.iter().find(|(least, _)| of >= *least).map_or((1.0, 1.0), |(_, shares)| shares[narrow]);
    let least = LEAST_US.iter().find(|(least, _)| of >= *least).map_or((0.0, 0.0), |(_, us)| *us);
    let time = |share: f64, least: f64| (rows.bytes() / (scene.bytes_per_us() * share)).max(least);
    let (best_us, worst_us) = (time(share.0, least.0), time(share.1, least.1));
    if worst_us >= scene.us(&leaves) {
        return None;
    }
    let anchor = LeafId(sort as u32);
    let mut instance = Instance::new(scene, Code::SortedForFew, leaves, anchor, &[], Confidence::High);
    // The sort itself is no place.
    instance.holder = instance.holder.filter(|name| !SORTS.contains(&&**name));
    instance.fused = Some(Fused { best_us, worst_us });
    BASIS.clone_into(&mut instance.basis);
    instance.evidence.push(format!("of the sorted rows of {} only {read} elements are read", dims(rows.dims)));
    instance.facts.extend([(ELEMENTS, of.to_string()), (READ, read.to_string())]);
    Some(instance)
}

/// What a sort calls: it works on copies, and numbers the elements.
fn copies_of(scene: &Scene<'_>, claims: &Claims, sort: usize) -> impl Iterator<Item = usize> {
    let uid = scene.leaf(sort).uid;
    let is_its = move |i: &usize| scene.leaf(*i).around.iter().any(|op| op.uid == uid);
    scene.after(sort).take(COPIES).filter(is_its).filter(|&i| claims.is_free(i))
}

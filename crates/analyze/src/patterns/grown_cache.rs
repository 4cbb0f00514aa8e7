//! Keys and values that are copied to append to them.
//!
//! # What it finds
//! A `cat` before attention of which the first tensor is 90% or more, with no projection or convolution in between and
//! few queries: a cache that grows by concatenation. What is put before a sequence, or behind one that attends to itself,
//! is none.
//!
//! # Why it matters
//! The whole cache is read and written for every new token, and attention reads it once more.
//!
//! # How it is computed
//! The copies go; what is new is still written. Where the host then becomes the limit, the recorded schedule is run again
//! without them.
//!
//! # What to do
//! A cache of its full length that new keys and values are written into.
//!
//! # Limits
//! What is joined is known by its shape alone.

use super::attention_copies::{HINTS, REACH, attention_after};
use super::claims::Claims;
use super::group::Instance;
use super::scene::Scene;
use super::show::dims;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::kind::Kind;

/// How its time is found.
pub(super) const BASIS: &str = "only what is new is written, and the copies go";

/// Finds them before attention.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let caches = grown_caches(scene, claims);
    claims.settle(scene, caches)
}

/// Share of what a `cat` gives that one of its tensors has, from which on the others are appended to it.
const GROWN: f64 = 0.9;

/// Elements that a `cat` copies to append others to them, and those others: what is kept comes first.
fn grows(scene: &Scene<'_>, at: usize) -> Option<(i64, i64)> {
    let look = scene.look(at);
    let mut sizes = look.operands.iter().filter(|o| o.dims.len() > 2).map(super::scene::Operand::numel);
    let (kept, new) = (sizes.next()?, sizes.fold(0, i64::saturating_add));
    let is_grown = look.kind == Kind::Cat && new > 0 && kept as f64 >= GROWN * kept.saturating_add(new) as f64;
    is_grown.then_some((kept, new))
}

/// Whether attention has few queries for what was put together: those of a whole sequence come with keys of their own, to
/// which something fixed is appended.
fn has_few_queries(scene: &Scene<'_>, cat: usize, attention: usize) -> bool {
    let look = scene.look(attention);
    let queries = match (look.kind, look.operands.first().map_or(&look.full[..], |o| o.dims)) {
        (Kind::Softmax, [.., queries, _]) | (_, [_, queries, _]) => *queries,
        // Heads before tokens or after them.
        (_, [_, a, b, _]) => *a.max(b),
        _ => return true,
    };
    let first = scene.look(cat).operands.iter().find(|o| o.dims.len() > 2);
    let longest = first.and_then(|o| o.dims[1..o.dims.len() - 1].iter().max()).copied().unwrap_or_default();
    queries.saturating_mul(2) <= longest
}

/// Keys and values that are written out whole to append to them.
fn grown_caches(scene: &Scene<'_>, claims: &Claims) -> Vec<Instance> {
    let mut found: Vec<Instance> = Vec::new();
    let mut at = 0;
    while at < scene.len() {
        // What a projection or a convolution reads is no cache.
        let is_layer = |i: usize| matches!(scene.look(i).kind, Kind::Matrix | Kind::Convolution);
        let is_plain = |attention: &usize| (at + 1..*attention).all(|i| !is_layer(i));
        let attention = attention_after(scene, at).filter(is_plain).filter(|_| claims.is_free(at));
        let reads = |attention: usize| has_few_queries(scene, at, attention);
        let Some((kept, _)) = grows(scene, at).filter(|_| attention.is_some_and(reads)) else {
            at += 1;
            continue;
        };
        // Keys and values of one call belong together.
        let same = |i: &usize| grows(scene, *i).is_some_and(|(other, _)| other == kept) && claims.is_free(*i);
        let near = scene.after(at).take(REACH).take_while(|&i| Some(i) != attention);
        let partners: Vec<usize> = near.filter(same).collect();
        // Where queries are put together like keys and values, two sequences are, and nothing is kept of them.
        if let [_, .., last] = partners[..] {
            at = last + 1;
            continue;
        }
        let partner = partners.first().copied();
        let leaves: Vec<LeafId> = [Some(at), partner].into_iter().flatten().map(|i| LeafId(i as u32)).collect();
        at = partner.unwrap_or(at) + 1;
        let look = scene.look(leaves[0].index());
        let [first, second] = [0, 1].map(|i| look.operands.get(i).map_or_else(String::new, |o| dims(o.dims)));
        let mut instance = Instance::new(scene, Code::GrownCache, leaves.clone(), leaves[0], HINTS, Confidence::High);
        instance.backward = scene.backward_of(&leaves);
        instance.evidence.push(format!("{first} and {second} are written out together before attention"));
        instance.fused = Some(Fused::NOTHING);
        BASIS.clone_into(&mut instance.basis);
        found.push(instance);
    }
    found
}

//! Tables looked up one after another.
//!
//! # What it finds
//! At least eight lookups in a row (`embedding`, `embedding_bag`) of rows as long as each other's, each with the same number
//! of rows to pick, and none in the module of another: the tables of a recommender, `[t(i) for t, i in zip(tables, ids)]`.
//!
//! # Why it matters
//! Each lookup is too small to fill the GPU, and the host launches as many as there are tables, and for their gradients a
//! sort of the rows each.
//!
//! # How it is computed
//! One lookup moves the bytes of all at the baseline at best, and takes as long as all do now at worst; nothing is put
//! together. Its backward takes as long as one to all of them. Where the host is the limit, the recorded schedule is run
//! again with one lookup in the place of all.
//!
//! # What to do
//! One table of all rows, with an offset for each of the former ones.
//!
//! # Limits
//! What is done between two lookups but to make indices ends the loop.

use std::collections::BTreeSet;

use super::claims::Claims;
use super::group::Instance;
use super::looped::is_stack;
use super::moe::KERNELS;
use super::scene::Scene;
use super::show::one;
use super::{Code, Confidence, Fused};
use crate::program::kind::Kind;
use crate::program::{LeafId, ModuleId};

/// Fewer are no loop.
const LEAST_LOOKUPS: usize = 8;
/// Operations that look rows up, as programs call them.
const LOOKUPS: [&str; 2] = ["aten::embedding", "aten::embedding_bag"];

/// A lookup: its leaves, and what it has in common with others of a loop.
struct Lookup {
    leaves: Vec<usize>,
    /// Elements of a row, and how many are picked.
    shape: (i64, i64),
    module: Option<ModuleId>,
}

/// Finds loops over tables.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let mut found = Vec::new();
    let mut run: Vec<Lookup> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut at = 0;
    while at < scene.len() {
        let Some(lookup) = lookup(scene, at).filter(|l| l.leaves.iter().all(|&i| claims.is_free(i))) else {
            // Indices may be copied, and offsets be counted off.
            if !matches!(scene.look(at).kind, Kind::Copy | Kind::Fill) {
                found.extend(instance(scene, &std::mem::take(&mut run)));
            }
            at += 1;
            continue;
        };
        at = lookup.leaves.last().map_or(at, |last| last + 1);
        let name = lookup.module.map(|m| &*scene.program.module(m).name);
        let goes_on = run.last().is_some_and(|last| {
            last.shape == lookup.shape && last.module.is_some() == lookup.module.is_some() && {
                let between = last.leaves.last().zip(lookup.leaves.first());
                between.is_some_and(|(&a, &b)| scene.together(a, b))
            }
        });
        if !goes_on || name.is_some_and(|name| seen.contains(name)) {
            found.extend(instance(scene, &std::mem::take(&mut run)));
            seen.clear();
        }
        seen.extend(name);
        run.push(lookup);
    }
    found.extend(instance(scene, &run));
    claims.settle(scene, found)
}

/// The lookup that begins with this leaf.
fn lookup(scene: &Scene<'_>, at: usize) -> Option<Lookup> {
    let call = call(scene, at)?;
    let leaves: Vec<usize> =
        std::iter::once(at).chain(scene.after(at)).take_while(|&i| self::call(scene, i) == Some(call)).collect();
    // The operation that reads the table knows its rows and how many of them are picked.
    let main = leaves.iter().map(|&i| scene.look(i)).find(|look| look.operands.len() > 1)?;
    let [table, picked, ..] = &main.operands[..] else { return None };
    let ([_, width], [rows, ..]) = (table.dims, picked.dims) else { return None };
    Some(Lookup { leaves, shape: (*width, *rows), module: scene.leaf(at).module })
}

/// The call of a lookup around a leaf of the forward pass, by its UID.
fn call(scene: &Scene<'_>, at: usize) -> Option<u32> {
    let leaf = scene.leaf(at);
    if LOOKUPS.contains(&&*leaf.name) {
        return Some(leaf.uid);
    }
    let around = leaf.around.iter().zip(scene.program.ops_around(leaf));
    around.into_iter().find(|(_, name)| LOOKUPS.contains(&&***name)).map(|(op, _)| op.uid)
}

fn instance(scene: &Scene<'_>, run: &[Lookup]) -> Option<Instance> {
    let (first, last) = (run.first()?, run.last()?);
    if run.len() < LEAST_LOOKUPS {
        return None;
    }
    let (&from, &to) = (first.leaves.first()?, last.leaves.last()?);
    let stack = scene.after(to).next().filter(|&i| is_stack(scene.look(i)));
    let leaves: Vec<LeafId> = (from..=to).chain(stack).map(|i| LeafId(i as u32)).collect();
    let backward = scene.backward_of(&leaves);
    let kernels: usize = first.leaves.iter().map(|&i| scene.leaf(i).kernels.len()).sum();
    let proven = if first.module.is_some() { Confidence::High } else { Confidence::Medium };
    let mut instance = Instance::new(scene, Code::LoopedLookups, leaves, LeafId(from as u32), &[], proven);
    // Lookups in a row tell by themselves what they are.
    instance.confidence = proven;
    let (now, count) = (scene.us(&instance.leaves), run.len());
    let moved = |i: &usize| scene.look(*i).cost.as_ref().and_then(|c| c.bytes);
    let bytes: f64 = run.iter().flat_map(|l| &l.leaves).filter_map(moved).sum();
    let best_us = (bytes / (scene.bytes_per_us() * scene.baseline_share())).max(now / count as f64).min(now);
    instance.fused = Some(Fused { best_us, worst_us: now });
    let backward_us = scene.us(&backward);
    instance.backward_fused = Fused { best_us: backward_us / count as f64, worst_us: backward_us };
    instance.backward = backward;
    instance.basis = format!("one lookup in a table of all rows takes {}-{} us", one(best_us), one(now));
    let (width, rows) = first.shape;
    instance.evidence.push(format!("{count} lookups in a row pick {rows} rows of {width} elements each"));
    instance.facts = vec![("n", count.to_string()), (KERNELS, kernels.to_string())];
    Some(instance)
}

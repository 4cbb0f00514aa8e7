//! Attention that runs head by head: `torch.cat([softmax(q[h] @ k[h].mT) @ v[h] for h in range(n)], -1)`, or a module for
//! each head with projections of its own. One call takes all heads, so they are one find.

use std::ops::Range;

use super::{Core, Shape, is_projection};
use crate::patterns::looped::{batched, is_stack};
use crate::patterns::scene::Scene;
use crate::program::LeafId;
use crate::program::kind::Kind;

/// Most operations between two heads: copies and scaling, or projections and their casts.
const BETWEEN: usize = 24;

/// Most operations between the last head and what puts the results together.
const BEFORE_END: usize = 6;

/// The passes, those of equal heads one after another in one.
pub(super) fn joined(scene: &Scene<'_>, cores: Vec<Core>) -> Vec<Core> {
    let mut out: Vec<Core> = Vec::with_capacity(cores.len());
    let mut run: Vec<Core> = Vec::new();
    for core in cores {
        if run.last().is_some_and(|last| !follows(scene, last, &core)) {
            end(scene, &mut run, &mut out);
        }
        run.push(core);
    }
    end(scene, &mut run, &mut out);
    out
}

fn end(scene: &Scene<'_>, run: &mut Vec<Core>, out: &mut Vec<Core>) {
    let together = run.last().filter(|_| run.len() > 1).and_then(|last| put_together(scene, last, run.len()));
    match together {
        Some(at) => out.extend(join(scene, std::mem::take(run), at)),
        None => out.append(run),
    }
}

/// Whether a pass comes right after another one of the same sizes. With products between them, all that one head does
/// the other must do too.
fn follows(scene: &Scene<'_>, before: &Core, after: &Core) -> bool {
    let between = last(before) + 1..first(after);
    let apart = last(before) < first(after) && between.len() <= BETWEEN;
    if before.shape != after.shape || !apart || !scene.together(last(before), first(after)) {
        return false;
    }
    let turn = first(after) - first(before);
    let is_next_turn =
        || (first(before)..=last(before)).all(|i| i + turn < scene.len() && scene.are_alike(i, i + turn));
    between.clone().all(|i| is_small(scene, i))
        || between.into_iter().all(|i| may_lie_between(scene, i)) && is_next_turn()
}

fn first(core: &Core) -> usize {
    core.instance.leaves.first().map_or(0, |l| l.index())
}

fn last(core: &Core) -> usize {
    core.instance.leaves.last().map_or(0, |l| l.index())
}

fn is_small(scene: &Scene<'_>, at: usize) -> bool {
    matches!(scene.look(at).kind, Kind::Copy | Kind::Elementwise | Kind::Fill) && !is_stack(scene.look(at))
}

fn may_lie_between(scene: &Scene<'_>, at: usize) -> bool {
    is_small(scene, at) || is_projection(scene, at)
}

/// Where the results of so many heads, of which this is the last, are put together. Profilers do not record the shapes
/// of long lists.
fn put_together(scene: &Scene<'_>, core: &Core, heads: usize) -> Option<LeafId> {
    let mut after = scene.after(last(core)).take(BEFORE_END + 1);
    let found = after.find(|&i| !is_small(scene, i)).filter(|&i| is_stack(scene.look(i)))?;
    [0, heads].contains(&scene.look(found).operands.len()).then_some(LeafId(found as u32))
}

/// What puts the results together goes too, and projections of each head become one.
fn join(scene: &Scene<'_>, run: Vec<Core>, together: LeafId) -> Option<Core> {
    let projections = projections(scene, &run);
    let turns = run.len();
    let mut run = run.into_iter();
    let mut all = run.next()?;
    for Core { instance, products_us, .. } in run {
        all.instance.leaves.extend(instance.leaves);
        all.instance.halo.extend(instance.halo);
        all.products_us += products_us;
    }
    all.instance.halo.push(together);
    all.shape = Shape { batch: all.shape.batch.saturating_mul(turns as i64), ..all.shape };
    all.turns = turns;
    // Those that fill the GPU stay as they are.
    if let Some(time) = batched(scene, &projections).filter(|_| !projections.is_empty()) {
        all.instance.halo.retain(|l| projections.binary_search(l).is_err());
        all.instance.leaves.extend(projections);
        all.instance.leaves.sort_unstable();
        all.instance.stretches = 2;
        all.projected = time;
    }
    all.instance.halo.sort_unstable();
    all.instance.halo.dedup();
    Some(all)
}

/// Projections of the heads, with the casts around them: what lies before and within each head and is no part of it.
fn projections(scene: &Scene<'_>, run: &[Core]) -> Vec<LeafId> {
    let lead = run.windows(2).map(|pair| first(&pair[1]) - last(&pair[0]) - 1).min().unwrap_or(0);
    let turn = |core: &Core| -> Range<usize> { first(core).saturating_sub(lead)..last(core) };
    let (one, next) = (turn(&run[0]), turn(&run[1]));
    // What lies before the first head must be what lies before the others.
    let is_alike = one.len() == next.len() && one.clone().zip(next).all(|(a, b)| scene.are_alike(a, b));
    let mut found = Vec::new();
    for core in run.iter().skip(usize::from(!is_alike)) {
        let own = |i: &usize| core.instance.leaves.binary_search(&LeafId(*i as u32)).is_ok();
        found.extend(turn(core).filter(|i| !own(i)).map(|i| LeafId(i as u32)));
    }
    if found.iter().any(|l| is_projection(scene, l.index())) { found } else { Vec::new() }
}

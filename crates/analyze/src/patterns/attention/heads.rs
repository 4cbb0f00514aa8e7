//! Attention that runs head by head: `torch.cat([softmax(q[h] @ k[h].mT) @ v[h] for h in range(n)], -1)`. One call takes all
//! heads, so they are one find.

use super::{Core, Shape};
use crate::patterns::group::Instance;
use crate::patterns::kind::Kind;
use crate::patterns::scene::Scene;
use crate::program::LeafId;

/// Most operations between two heads, and between the last one and what puts their results together: copies and scaling.
const BETWEEN: usize = 6;

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
        Some(at) => out.extend(join(std::mem::take(run), at)),
        None => out.append(run),
    }
}

/// Whether a pass comes right after another one of the same sizes.
fn follows(scene: &Scene<'_>, before: &Core, after: &Core) -> bool {
    let between = last(before) + 1..first(after);
    before.shape == after.shape
        && between.len() <= BETWEEN
        && scene.together(last(before), first(after))
        && between.into_iter().all(|i| is_small(scene, i))
}

fn first(core: &Core) -> usize {
    core.instance.leaves.first().map_or(0, |l| l.index())
}

fn last(core: &Core) -> usize {
    core.instance.leaves.last().map_or(0, |l| l.index())
}

/// Whether an operation may stand between heads.
fn is_small(scene: &Scene<'_>, at: usize) -> bool {
    matches!(scene.look(at).kind, Kind::Copy | Kind::Elementwise) && !puts_together(scene, at)
}

fn puts_together(scene: &Scene<'_>, at: usize) -> bool {
    matches!(scene.look(at).base, "cat" | "stack")
}

/// Where the results of so many heads, of which this is the last, are put together. Profilers do not record the shapes
/// of long lists.
fn put_together(scene: &Scene<'_>, core: &Core, heads: usize) -> Option<LeafId> {
    let mut after = scene.after(last(core)).take(BETWEEN + 1);
    let found = after.find(|&i| !is_small(scene, i)).filter(|&i| puts_together(scene, i))?;
    [0, heads].contains(&scene.look(found).operands.len()).then_some(LeafId(found as u32))
}

/// What puts the results together goes too.
fn join(run: Vec<Core>, together: LeafId) -> Option<Core> {
    let turns = run.len();
    let mut run = run.into_iter();
    let mut all = run.next()?;
    for Core { instance, products_us, .. } in run {
        let Instance { leaves, halo, .. } = instance;
        all.instance.leaves.extend(leaves);
        all.instance.halo.extend(halo);
        all.products_us += products_us;
    }
    all.instance.halo.push(together);
    all.instance.halo.sort_unstable();
    all.instance.halo.dedup();
    all.shape = Shape { batch: all.shape.batch.saturating_mul(turns as i64), ..all.shape };
    all.turns = turns;
    Some(all)
}

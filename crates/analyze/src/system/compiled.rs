//! What a compiler takes off the GPU of a program that waits for launches: of kernels in a row that read and write tensors
//! of one size, one pass at best, and the layout changes around convolutions, for which it picks a layout. It matters once
//! launches are no longer late: of two small networks of convolutions one went 9.1 times as fast, where its kernels alone
//! would have allowed for 6.0.

use jarvis_trace::Ns;
use rapidhash::RapidHashMap;

use crate::patterns::scene::numel;
use crate::prepare::kernel_names::is_transpose;
use crate::program::kind::Kind;
use crate::program::{Direction, Leaf, Program};

/// GPU time that goes, by UID of its kernel.
pub(super) fn spared(program: &Program) -> Vec<(u32, Ns)> {
    let mut spared = Vec::new();
    // Many launch the same few kernels.
    let mut known: RapidHashMap<&str, bool> = RapidHashMap::default();
    let mut is_transpose = |name| *known.entry(name).or_insert_with(|| is_transpose(name));
    let mut leaves = &program.leaves[..];
    while let Some(first) = leaves.first() {
        let run = leaves.iter().take_while(|leaf| is_fused(leaf) && goes_with(leaf, first)).count();
        let (of_run, rest) = leaves.split_at(run.max(1));
        leaves = rest;
        if run == 0 {
            let turns = kernels(of_run).filter(|k| is_transpose(k.0));
            spared.extend(turns.map(|(_, uid, time)| (uid, time)));
            continue;
        }
        // What takes the place of all is as long as the longest of them.
        let longest = kernels(of_run).max_by_key(|&(_, _, time)| time).map(|(_, uid, _)| uid);
        spared.extend(kernels(of_run).filter(|&(_, uid, _)| Some(uid) != longest).map(|(_, uid, time)| (uid, time)));
    }
    spared
}

/// Whether a compiler makes one kernel of it and what stands beside it. An optimizer passes over each parameter once.
fn is_fused(leaf: &Leaf) -> bool {
    let is_pass = leaf.kind.is_fusible() || leaf.kind == Kind::Norm;
    is_pass && leaf.is_op && leaf.direction != Direction::Optimizer && leaf.kernels.iter().all(|k| !k.is_copy)
}

/// Whether both can be one pass: one after the other in a step, over as many elements.
fn goes_with(leaf: &Leaf, first: &Leaf) -> bool {
    (leaf.thread, leaf.step) == (first.thread, first.step) && elements(leaf) == elements(first)
}

/// Elements of its largest input.
fn elements(leaf: &Leaf) -> Option<i64> {
    leaf.inputs.dims.as_ref()?.iter().filter_map(|dims| dims.shape()).map(numel).max()
}

fn kernels(leaves: &[Leaf]) -> impl Iterator<Item = (&str, u32, Ns)> {
    leaves.iter().flat_map(|l| l.kernels.iter()).map(|k| (&*k.name, k.uid, Ns((k.us * 1e3).round() as i64)))
}

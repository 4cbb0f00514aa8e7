//! Which leaves already belong to a pattern: no time is counted twice.

use super::group::Instance;
use super::scene::Scene;
use crate::program::LeafId;
use jarvis_trace::InOrder;

/// Leaves that patterns have taken.
#[derive(Debug)]
pub struct Claims {
    taken: Vec<bool>,
}

impl Claims {
    pub(crate) fn new(leaves: usize) -> Self {
        Self { taken: vec![false; leaves] }
    }

    pub(crate) fn is_free(&self, at: usize) -> bool {
        !self.taken[at]
    }

    pub(crate) fn are_free(&self, leaves: &[LeafId]) -> bool {
        leaves.iter().all(|l| self.is_free(l.index()))
    }

    /// Takes the leaves of proposals that are still free: those in the innermost modules first, then those that take
    /// most time. Copies and backward work that another pattern has are left to it.
    pub(crate) fn settle(&mut self, scene: &Scene<'_>, mut proposals: Vec<Instance>) -> Vec<Instance> {
        let depth = |i: &Instance| scene.depth(i.module);
        proposals.order_by(|a, b| {
            depth(b)
                .cmp(&depth(a))
                .then(scene.us(&b.leaves).total_cmp(&scene.us(&a.leaves)))
                .then_with(|| a.leaves.cmp(&b.leaves))
        });
        let mut settled = Vec::new();
        for mut proposal in proposals {
            if !self.are_free(&proposal.leaves) {
                continue;
            }
            proposal.halo.retain(|l| self.is_free(l.index()) && !proposal.leaves.contains(l));
            // Loops have thousands of leaves.
            let mut known: Vec<LeafId> = proposal.leaves.iter().chain(&proposal.halo).copied().collect();
            known.sort_unstable();
            proposal.backward.retain(|l| self.is_free(l.index()) && known.binary_search(l).is_err());
            for l in proposal.leaves.iter().chain(&proposal.halo).chain(&proposal.backward) {
                self.taken[l.index()] = true;
            }
            settled.push(proposal);
        }
        settled.order_by(|a, b| a.leaves.cmp(&b.leaves));
        settled
    }
}

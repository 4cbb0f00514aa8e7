//! Forward work that runs a second time in the backward pass.
//!
//! # What it finds
//! Work under the functions of activation checkpointing, directly under the backward of a checkpointed block, or that
//! autograd records a second time inside a backward node.
//!
//! # Why it matters
//! It is paid for in time to save memory that may not be short.
//!
//! # How it is computed
//! Saved is at most all of it, at least three tenths: usually some layers must stay checkpointed.
//!
//! # What to do
//! Checkpoint fewer layers, or only what is cheap to recompute.
//!
//! # Limits
//! Without Python frames blocks of fewer than five kernels are only seen in the reentrant form. Whether memory allows the
//! change a trace can't tell. The operations may belong to other patterns too.

use super::claims::Claims;
use super::group::Instance;
use super::scene::Scene;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;

/// Finds recomputed stretches. They claim nothing: what is slow in them is slow in the forward pass as well.
pub(super) fn find(scene: &Scene<'_>, _claims: &mut Claims) -> Vec<Instance> {
    let mut runs: Vec<Vec<LeafId>> = Vec::new();
    for at in (0..scene.len()).filter(|&i| scene.leaf(i).is_repeated) {
        let id = LeafId(at as u32);
        match runs.last_mut() {
            Some(run)
                if run
                    .last()
                    .is_some_and(|l| scene.leaf(l.index()).thread == scene.leaf(at).thread && l.index() + 1 == at) =>
            {
                run.push(id);
            }
            _ => runs.push(vec![id]),
        }
    }
    runs.into_iter().map(|run| instance(scene, run)).collect()
}

fn instance(scene: &Scene<'_>, run: Vec<LeafId>) -> Instance {
    let anchor = run[0];
    let mut instance = Instance::new(scene, Code::Recomputation, run, anchor, &[], Confidence::High);
    (instance.module, instance.holder) = (None, None);
    // The frames and operations that mark it leave no doubt.
    instance.confidence = Confidence::High;
    instance.fused = Some(Fused::NOTHING);
    "checkpointing fewer layers saves between three tenths and all of it".clone_into(&mut instance.basis);
    instance.evidence.push("it runs inside the backward pass of a checkpointed block".to_owned());
    instance
}

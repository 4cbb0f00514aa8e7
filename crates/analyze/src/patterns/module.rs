//! Modules whose kernels would be cheaper as fewer.
//!
//! # What it finds
//! Modules of two to fifteen kernels in which neighbouring memory-bound operations are left that no other pattern
//! explains.
//!
//! # Why it matters
//! What one of them writes the next one reads.
//!
//! # How it is computed
//! The operations are split at matrix products; each stretch of two or more becomes one pass over memory, as for
//! chains. Operations without a model keep their time, and where they are too many nothing is promised.
//!
//! # What to do
//! Compile the module.
//!
//! # Limits
//! Modules with a fused or compiled kernel are left alone. The innermost module takes an operation.

use super::chain;
use super::claims::Claims;
use super::fused::{self, Part};
use super::group::Instance;
use super::kind::Kind;
use super::scene::Scene;
use super::{Code, Confidence, Fused};
use crate::program::{LeafId, ModuleId, ModuleKind};
use jarvis_trace::InOrder;

/// Kernels that a module may have to be looked at.
const KERNELS: std::ops::RangeInclusive<usize> = 2..=15;
/// Share of the kernels that must have a model, for few kernels and for this many and more.
const MODELED: (f64, f64) = (0.5, 0.75);
const MANY_KERNELS: usize = 5;

/// Finds modules, innermost first.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let mut modules: Vec<(usize, ModuleId)> = Vec::new();
    for (i, module) in scene.program.modules.iter().enumerate() {
        let id = ModuleId(i as u32);
        if module.kind == ModuleKind::Module {
            modules.push((scene.depth(Some(id)), id));
        }
    }
    modules.order_by_key(|&(depth, id)| (std::cmp::Reverse(depth), id));
    let mut found = Vec::new();
    for (_, id) in modules {
        let proposal = of(scene, claims, id);
        found.extend(claims.settle(scene, proposal.into_iter().collect()));
    }
    found
}

fn of(scene: &Scene<'_>, claims: &Claims, id: ModuleId) -> Option<Instance> {
    let range = scene.program.module(id).leaves.clone();
    let kernels: usize = range.clone().map(|i| scene.leaf(i).kernels.len()).sum();
    let fused_already = |i: usize| matches!(scene.look(i).kind, Kind::Attention | Kind::Compiled | Kind::Grouped);
    if !KERNELS.contains(&kernels) || range.clone().any(fused_already) {
        return None;
    }
    let mut parts = chain::runs(scene, range, |i| claims.is_free(i));
    parts.retain(|p| p.len() >= 2 && p.iter().any(|l| scene.look(l.index()).kind != Kind::Copy));
    let leaves: Vec<LeafId> = parts.iter().flatten().copied().collect();
    let anchor = *leaves.iter().max_by_key(|l| scene.look(l.index()).numel())?;
    let passes: Vec<Part> = parts.iter().map(|p| chain::part(scene, p)).collect();
    let time = passes.iter().map(|p| p.time(scene)).reduce(Fused::and)?;
    let mut instance = Instance::new(scene, Code::UnfusedModule, leaves, anchor, &[], Confidence::Medium);
    instance.module = Some(id);
    let modeled = instance.leaves.iter().filter(|l| scene.look(l.index()).cost.is_some()).count() as f64;
    let needed = if instance.leaves.len() >= MANY_KERNELS { MODELED.1 } else { MODELED.0 };
    if modeled >= needed * instance.leaves.len() as f64 {
        instance.fused = Some(time);
        instance.basis = fused::basis(scene, &passes);
    } else {
        "too many of its kernels have no model".clone_into(&mut instance.basis);
    }
    let n = instance.leaves.len();
    instance.evidence.push(match parts.len() {
        1 => format!("{n} memory-bound operations stand next to each other"),
        groups => format!("{n} memory-bound operations stand in {groups} groups of neighbours"),
    });
    instance.stretches = parts.len();
    Some(instance)
}

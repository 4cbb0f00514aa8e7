//! Modules whose kernels would be cheaper as fewer.
//!
//! # What it finds
//! Modules of two to fifteen kernels (`fusion.max_kernels`) in which neighbouring memory-bound operations are left that
//! no other pattern explains.
//!
//! # Why it matters
//! What one of them writes the next one reads.
//!
//! # How it is computed
//! The operations are split at matrix products; each stretch of two or more becomes one pass over memory, as for
//! chains. Stretches that make the weight of the product after them, without a backward pass, are nothing at best.
//! Operations without a model keep their time, and where they are too many (`fusion.min_modeled_fraction_few`, `_many`)
//! nothing is promised.
//!
//! # What to do
//! Compile the module. Where the operations make the weight of a matrix product, do them once and keep what they give.
//!
//! # Limits
//! Modules with a fused or compiled kernel are left alone. The innermost module takes an operation.

use super::chain;
use super::claims::Claims;
use super::fused::{self, Part};
use super::group::Instance;
use super::scene::Scene;
use super::{Code, Confidence, Fused, weight_copies};
use crate::program::kind::Kind;
use crate::program::{LeafId, ModuleId, ModuleKind};
use crate::thresholds::Threshold;
use jarvis_trace::InOrder;

/// Fewer kernels are none to fuse.
const LEAST_KERNELS: usize = 2;
/// From so many operations on more of them must have a model.
const MANY: usize = 5;

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
    let most = scene.thresholds.get(Threshold::FusionMaxKernels);
    if kernels < LEAST_KERNELS || kernels as f64 > most || range.clone().any(fused_already) {
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
    let of_weights = parts.iter().all(|part| makes_weight(scene, part));
    let time = if of_weights { Fused { best_us: 0.0, ..time } } else { time };
    let modeled = instance.leaves.iter().filter(|l| scene.look(l.index()).cost.is_some()).count() as f64;
    let many = instance.leaves.len() >= MANY;
    let needed = scene.thresholds.get(if many { Threshold::FusionModeledMany } else { Threshold::FusionModeledFew });
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
    if of_weights {
        instance.facts.push((WEIGHTS, "true".to_owned()));
        instance.basis.push_str(", and nothing where it is done once for all calls");
    }
    Some(instance)
}

/// Fact: the operations make the weights of matrix products.
pub(super) const WEIGHTS: &str = "weights";

/// Whether a stretch makes the weight of the matrix product right after it, and no backward work came of it: what it
/// computes is the same in every call.
fn makes_weight(scene: &Scene<'_>, part: &[LeafId]) -> bool {
    let Some(last) = part.last() else { return false };
    let product = scene.after(last.index()).next().map(|i| scene.look(i)).filter(|look| look.kind == Kind::Matrix);
    let weight = product.and_then(weight_copies::weight);
    let made = &scene.look(last.index()).full;
    weight.is_some_and(|weight| weight_copies::same(weight.dims, made)) && scene.backward_of(part).is_empty()
}

//! Optimizer steps made of small kernels.
//!
//! # What it finds
//! An optimizer step with at least 100 elementwise operations that each handle one parameter.
//!
//! # Why it matters
//! Parameters, gradients and states are read and written several times, and each kernel costs the host a launch.
//!
//! # How it is computed
//! Parameters are counted by the in-place operation that touches least elements: each step updates every parameter with
//! it once. A fused step reads parameters, gradients and states and writes parameters and states: two states where the
//! update divides (`addcdiv`, as Adam does), one with momentum, none else; at the baseline of the trace.
//!
//! # What to do
//! `fused=True` or `foreach=True`.
//!
//! # Limits
//! Steps are known by the annotation that PyTorch puts around them.

use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::kind::Kind;
use super::scene::{Look, Scene};
use super::{Code, Confidence};
use crate::program::{Direction, LeafId};

/// What kernels that only stream many tensors through reach at worst, of the peak bandwidth.
const STREAMING_SHARE: f64 = 0.65;
/// Fewer kernels than this are no pattern.
const LEAST_LEAVES: usize = 100;

/// Finds steps that no fused or multi-tensor kernel does.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let mut steps: Vec<Vec<LeafId>> = Vec::new();
    let mut last: Option<usize> = None;
    for at in 0..scene.len() {
        if scene.leaf(at).direction != Direction::Optimizer {
            last = None;
            continue;
        }
        let begins = last.is_none_or(|l| !scene.together(l, at));
        last = Some(at);
        if begins {
            steps.push(Vec::new());
        }
        let look = scene.look(at);
        let part = matches!(look.kind, Kind::Elementwise | Kind::Copy | Kind::Random) || is_read(look);
        let free = claims.is_free(at) && part;
        if free && let Some(step) = steps.last_mut() {
            step.push(LeafId(at as u32));
        }
    }
    let computing = |s: &[LeafId]| s.iter().filter(|l| !is_read(scene.look(l.index()))).count();
    let found = steps.into_iter().filter(|s| computing(s) >= LEAST_LEAVES).filter_map(|s| instance(scene, s)).collect();
    claims.settle(scene, found)
}

/// Whether the host reads a value, as the step number of each parameter: a fused step does not.
fn is_read(look: &Look<'_>) -> bool {
    matches!(look.base, "_local_scalar_dense" | "item")
}

fn instance(scene: &Scene<'_>, leaves: Vec<LeafId>) -> Option<Instance> {
    let mut by_op: Vec<(&str, f64, usize)> = Vec::new();
    for l in &leaves {
        let look = scene.look(l.index());
        let bytes = look.operands.first().map_or(0.0, super::scene::Operand::bytes);
        if !look.in_place || bytes == 0.0 || look.kind != Kind::Elementwise {
            continue;
        }
        match by_op.iter_mut().find(|o| o.0 == look.base) {
            Some(op) => (op.1, op.2) = (op.1 + bytes, op.2 + 1),
            None => by_op.push((look.base, bytes, 1)),
        }
    }
    let parameters = by_op.iter().map(|o| o.1).reduce(f64::min)?;
    let states = states(&by_op);
    let part = Part::moving(parameters * (2.0 + states), parameters * (1.0 + states));
    let part = Part { known_share: Some(STREAMING_SHARE), ..part };
    let anchor = leaves[0];
    let count = leaves.len();
    let mut instance = Instance::new(scene, Code::UnfusedOptimizer, leaves, anchor, &["optimizer"], Confidence::High);
    // The annotation says what it is, whatever else holds it together.
    instance.confidence = Confidence::High;
    instance.fused = Some(part.time(scene));
    instance.basis = part.basis(scene);
    instance
        .evidence
        .push(format!("{count} elementwise operations in one optimizer step, none of them for many tensors"));
    let updates = by_op.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |o| o.2);
    instance.facts = vec![("n", count.to_string()), ("parameters", updates.to_string())];
    Some(instance)
}

/// Tensors of state per parameter.
fn states(by_op: &[(&str, f64, usize)]) -> f64 {
    let count = |name: &str| by_op.iter().find(|o| o.0 == name).map_or(0, |o| o.2);
    if count("addcdiv") > 0 {
        2.0
    } else if count("mul") > 0 && count("add") > count("mul") {
        1.0
    } else {
        0.0
    }
}

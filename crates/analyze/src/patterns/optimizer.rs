//! Optimizer steps made of small kernels.
//!
//! # What it finds
//! An optimizer step with at least 100 elementwise operations that each handle one parameter; also one written by hand: as
//! many outside of modules right after a backward pass, a third of them or more in place. Moving averages of parameters are
//! found wherever they stand: as many operations outside of modules, the same few again and again on tensors of different
//! shapes, that add to what stays.
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
//! `fused=True` or `foreach=True`; by hand, an optimizer of the framework or its operations on lists of tensors.
//!
//! # Limits
//! Steps are known by the annotation that PyTorch puts around them. Where one has it, none is taken to be written by hand.

use std::collections::BTreeSet;

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

/// Of a step written by hand, the least share of operations that update something in place, as one of so many.
const ONE_UPDATE_OF: usize = 3;

/// The fact of a step that is written by hand.
pub(super) const BY_HAND: &str = "by_hand";

/// The fact of an update that is no step.
pub(super) const AVERAGES: &str = "averages";

/// Most operations on a tensor of an update that is no step.
const LONGEST_UPDATE: usize = 6;

/// What an average without operations in place is: two products, their sum, and the copy back.
const COPIED_BACK: [&str; 4] = ["mul", "mul", "add", "copy"];

/// Finds steps that no fused or multi-tensor kernel does.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let annotated = annotated(scene, claims);
    let by_hand = if annotated.is_empty() { by_hand(scene, claims) } else { Vec::new() };
    let in_steps: BTreeSet<LeafId> = by_hand.iter().flatten().copied().collect();
    let averages = averages(scene, |at| claims.is_free(at) && !in_steps.contains(&LeafId(at as u32)));
    let computing = |s: &[LeafId]| s.iter().filter(|l| !is_read(scene.look(l.index()))).count();
    let found = |steps: Vec<Vec<LeafId>>, form: Form| {
        let long = steps.into_iter().filter(move |s| computing(s) >= LEAST_LEAVES);
        long.filter_map(move |s| instance(scene, s, form))
    };
    let by_hand = found(by_hand, Form::ByHand).chain(found(averages, Form::Averages));
    let found = found(annotated, Form::Annotated).chain(by_hand).collect();
    claims.settle(scene, found)
}

/// How an update of many tensors was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Annotated,
    ByHand,
    Averages,
}

impl Form {
    /// The annotation says what it is, whatever else holds it together.
    fn confidence(self) -> Confidence {
        if self == Self::Annotated { Confidence::High } else { Confidence::Medium }
    }

    fn what(self) -> &'static str {
        if self == Self::Averages { "loop over tensors" } else { "optimizer step" }
    }
}

/// Loops over tensors that stay, outside of modules and of the backward pass, each of which a few operations update.
fn averages(scene: &Scene<'_>, is_free: impl Fn(usize) -> bool) -> Vec<Vec<LeafId>> {
    let is_member = |at: &usize| {
        let (leaf, look) = (scene.leaf(*at), scene.look(*at));
        let elsewhere = matches!(leaf.direction, Direction::Backward | Direction::Optimizer);
        let is_update = matches!(look.kind, Kind::Elementwise | Kind::Copy) && look.numel() > 0;
        !elsewhere && leaf.module.is_none() && is_update && is_free(*at)
    };
    let mut runs: Vec<Vec<LeafId>> = Vec::new();
    let mut last: Option<usize> = None;
    for at in (0..scene.len()).filter(is_member) {
        let goes_on = last.is_some_and(|last| last + 1 == at && scene.in_one_run(last, at));
        if !goes_on {
            runs.push(Vec::new());
        }
        last = Some(at);
        if let Some(run) = runs.last_mut() {
            run.push(LeafId(at as u32));
        }
    }
    runs.retain(|run| run.len() >= LEAST_LEAVES);
    runs.iter().filter_map(|run| updates_in(scene, run)).collect()
}

/// The part of a run in which the same few operations follow each other, one tensor after the other.
fn updates_in(scene: &Scene<'_>, run: &[LeafId]) -> Option<Vec<LeafId>> {
    let look = |l: &LeafId| scene.look(l.index());
    let on = |l: &LeafId| look(l).operands.first().map(|o| o.dims);
    let repeats = |period: usize| {
        let same = |i: &usize| look(&run[*i]).base == look(&run[i - period]).base;
        // What stands before the loop is left out.
        let from = (period..run.len()).rev().find(|i| !same(i)).map_or(0, |i| i + 1 - period);
        let of_one = |unit: &&[LeafId]| unit.iter().all(|l| on(l) == on(&unit[0]));
        let units = run[from..].chunks_exact(period).take_while(of_one).count();
        &run[from..from + units * period]
    };
    let long = |period: usize| Some((period, repeats(period))).filter(|(_, leaves)| leaves.len() >= LEAST_LEAVES);
    let (period, leaves) = (1..=LONGEST_UPDATE).find_map(long)?;
    let unit: Vec<&Look<'_>> = leaves[..period].iter().map(look).collect();
    let kept = unit.iter().filter(|l| is_update(l)).count();
    let bases = unit.iter().map(|l| l.base);
    let updates = kept * ONE_UPDATE_OF >= period && unit.iter().any(|l| is_update(l) && ADDS.contains(&l.base));
    let other_shapes = leaves.iter().any(|l| on(l) != on(&leaves[0]));
    ((updates || bases.eq(COPIED_BACK)) && other_shapes).then(|| leaves.to_vec())
}

/// What the framework's optimizers do, step by step.
fn annotated(scene: &Scene<'_>, claims: &Claims) -> Vec<Vec<LeafId>> {
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
        let free = claims.is_free(at) && is_part(scene.look(at));
        if free && let Some(step) = steps.last_mut() {
            step.push(LeafId(at as u32));
        }
    }
    steps
}

/// What looks like an optimizer step without its annotation: operations outside of modules that begin when a backward
/// pass has ended, up to the last that changes something in place.
fn by_hand(scene: &Scene<'_>, claims: &Claims) -> Vec<Vec<LeafId>> {
    let is_backward = |at: &usize| scene.leaf(*at).direction == Direction::Backward;
    let mut backward: Vec<_> = (0..scene.len()).filter(is_backward).map(|at| scene.leaf(at).start).collect();
    backward.sort_unstable();
    let mut steps: Vec<Vec<LeafId>> = Vec::new();
    let mut open = false;
    for at in (0..scene.len()).filter(|at| !is_backward(at)) {
        let (leaf, look) = (scene.leaf(at), scene.look(at));
        let previous = at.checked_sub(1).map(|p| scene.leaf(p)).filter(|p| p.thread == leaf.thread);
        let passed = previous.is_some_and(|p| {
            p.direction == Direction::Backward
                || backward.partition_point(|b| *b <= p.start) < backward.partition_point(|b| *b < leaf.start)
        });
        if passed {
            steps.push(Vec::new());
        }
        let goes_on = open && previous.is_some_and(|p| p.step == leaf.step);
        open = (passed || goes_on) && leaf.module.is_none() && (is_part(look) || look.kind == Kind::Reduce);
        if open
            && look.kind != Kind::Reduce
            && claims.is_free(at)
            && let Some(step) = steps.last_mut()
        {
            step.push(LeafId(at as u32));
        }
    }
    let updates = |l: &LeafId| is_update(scene.look(l.index()));
    for step in &mut steps {
        step.truncate(step.iter().rposition(updates).map_or(0, |last| last + 1));
        if step.iter().filter(|l| updates(l)).count() * ONE_UPDATE_OF < step.len() || !steps_parameters(scene, step) {
            step.clear();
        }
    }
    steps
}

/// Operations that add something to what stays.
const ADDS: [&str; 4] = ["add", "sub", "addcdiv", "lerp"];

/// Whether something is added to what stays, as a step does: scaling alone, as of gradients, is none.
fn steps_parameters(scene: &Scene<'_>, leaves: &[LeafId]) -> bool {
    leaves.iter().map(|l| scene.look(l.index())).any(|l| is_update(l) && ADDS.contains(&l.base))
}

fn is_update(look: &Look<'_>) -> bool {
    look.in_place && look.kind == Kind::Elementwise
}

/// What a step of small kernels is made of.
fn is_part(look: &Look<'_>) -> bool {
    matches!(look.kind, Kind::Elementwise | Kind::Copy | Kind::Random) || is_read(look)
}

/// Whether the host reads a value, as the step number of each parameter: a fused step does not.
fn is_read(look: &Look<'_>) -> bool {
    matches!(look.base, "_local_scalar_dense" | "item")
}

fn instance(scene: &Scene<'_>, leaves: Vec<LeafId>, form: Form) -> Option<Instance> {
    let confidence = form.confidence();
    // Without operations in place the copies back are what updates.
    let in_place = leaves.iter().any(|l| is_update(scene.look(l.index())));
    let updates = |look: &Look<'_>| if in_place { is_update(look) } else { look.kind == Kind::Copy };
    let mut by_op: Vec<(&str, f64, usize)> = Vec::new();
    for l in &leaves {
        let look = scene.look(l.index());
        let bytes = look.operands.first().map_or(0.0, super::scene::Operand::bytes);
        if bytes == 0.0 || !updates(look) {
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
    let mut instance = Instance::new(scene, Code::UnfusedOptimizer, leaves, anchor, &["optimizer"], confidence);
    instance.confidence = confidence;
    instance.fused = Some(part.time(scene));
    instance.basis = part.basis(scene);
    instance
        .evidence
        .push(format!("{count} elementwise operations in one {}, none of them for many tensors", form.what()));
    let updates = by_op.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |o| o.2);
    instance.facts = vec![("n", count.to_string()), ("parameters", updates.to_string())];
    let fact = match form {
        Form::Annotated => None,
        Form::ByHand => Some(BY_HAND),
        Form::Averages => Some(AVERAGES),
    };
    instance.facts.extend(fact.map(|fact| (fact, "true".to_owned())));
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

//! Optimizer steps made of small kernels.
//!
//! # What it finds
//! An optimizer step with at least 20 elementwise operations that each handle one parameter; also one written by hand: 100
//! of them or more outside of modules right after a backward pass, a third of them or more in place. Other loops over
//! tensors are found wherever they stand, as moving averages of parameters, copies of them or norms of gradients: as many
//! outside of modules, the same few again and again on tensors of different shapes, that change them in place, copy them or
//! make a number of each. Also a step of Adam, `AdamW` or SGD with momentum whose operations are on lists of tensors
//! (`foreach=True`).
//!
//! # Why it matters
//! Parameters, gradients and states are read and written several times, and each kernel costs the host a launch.
//!
//! # How it is computed
//! Parameters are counted by the in-place operation that touches least elements: each step updates every parameter with
//! it once. A fused step reads parameters, gradients and states and writes parameters and states: two states where the
//! update divides (`addcdiv`, as Adam does), one with momentum, none else; at the baseline of the trace, but with elements
//! of two bytes at 40 to 60% of the peak bandwidth. Other loops read each tensor once, with the one that is added or copied
//! to it, and write what changes. Of operations on lists the time tells: a fused step takes about as long for each tensor
//! that it reads or writes, or up to a quarter longer (half where kernels are short).
//!
//! # What to do
//! `fused=True`, or `foreach=True` where there is no fused variant; by hand, an optimizer of the framework or its
//! operations on lists of tensors.
//!
//! # Limits
//! Steps are known by the annotation that PyTorch puts around them. Where one has it, none is taken to be written by hand.

use std::collections::BTreeSet;
use std::ops::Range;

use super::claims::Claims;
use super::fused::Part;
use super::group::Instance;
use super::scene::{Look, Scene};
use super::{Code, Confidence, optimizer_lists};
use crate::program::kind::Kind;
use crate::program::{Direction, LeafId};

/// What kernels that only stream many tensors through reach at worst, of the peak bandwidth.
const STREAMING_SHARE: f64 = 0.65;
/// What a fused step reaches with parameters of two bytes, at worst and at best: it takes nearly as long for an element as
/// with four. Nine recordings on one GPU: 0.43 to 0.58.
const HALVES_SHARE: (f64, f64) = (0.4, 0.6);
/// Fewer kernels than this are no pattern.
const LEAST_LEAVES: usize = 100;
/// The same where an annotation says what they are: a few large parameters are passed over as often as many small ones.
const LEAST_ANNOTATED: usize = 20;

/// Of a step written by hand, the least share of operations that update something in place, as one of so many.
const ONE_UPDATE_OF: usize = 3;

/// The fact of a step that is written by hand.
pub(super) const BY_HAND: &str = "by_hand";

/// The fact of a loop over tensors that is no step.
pub(super) const LOOP: &str = "loop";

/// The fact of a step of operations on lists of tensors.
pub(super) const LISTS: &str = "lists";

/// Most operations on a tensor in such a loop.
const LONGEST_TURN: usize = 6;

/// What an average without operations in place is: two products, their sum, and the copy back.
const COPIED_BACK: [&str; 4] = ["mul", "mul", "add", "copy"];

/// Finds steps that no fused or multi-tensor kernel does.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let annotated = annotated(scene, claims);
    let by_hand = if annotated.is_empty() { by_hand(scene, claims) } else { Vec::new() };
    let in_steps: BTreeSet<LeafId> = by_hand.iter().flatten().copied().collect();
    let loops = loops(scene, |at| claims.is_free(at) && !in_steps.contains(&LeafId(at as u32)));
    let computing = |s: &[LeafId]| s.iter().filter(|l| !is_read(scene.look(l.index()))).count();
    let found = |steps: Vec<Vec<LeafId>>, least: usize, confidence: Confidence| {
        let long = steps.into_iter().filter(move |s| computing(s) >= least);
        long.filter_map(move |s| instance(scene, s, confidence))
    };
    // The annotation says what it is, whatever else holds it together.
    let annotated = found(annotated, LEAST_ANNOTATED, Confidence::High);
    let steps = annotated.chain(found(by_hand, LEAST_LEAVES, Confidence::Medium));
    let lists = optimizer_lists::find(scene, |at| claims.is_free(at));
    let found = steps.chain(loops).chain(lists).collect();
    claims.settle(scene, found)
}

/// Loops over tensors outside of modules and of the backward pass, with a few operations for each.
fn loops(scene: &Scene<'_>, is_free: impl Fn(usize) -> bool) -> Vec<Instance> {
    let is_member = |at: &usize| {
        let (leaf, look) = (scene.leaf(*at), scene.look(*at));
        let elsewhere = matches!(leaf.direction, Direction::Backward | Direction::Optimizer);
        let fits = matches!(look.kind, Kind::Elementwise | Kind::Copy) || makes_number(look);
        !elsewhere && leaf.module.is_none() && fits && look.numel() > 0 && is_free(*at)
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
    runs.iter().flat_map(|run| loops_in(scene, run)).collect()
}

/// The parts of a run in which the same few operations follow each other, one tensor after the other.
fn loops_in(scene: &Scene<'_>, run: &[LeafId]) -> Vec<Instance> {
    let mut found = Vec::new();
    let mut at = 0;
    // For each number of operations the next part; what was found stays found until it is passed.
    let mut next: Vec<Option<Range<usize>>> = (1..=LONGEST_TURN).map(|period| part(scene, run, period, 0)).collect();
    loop {
        for (i, part_of) in next.iter_mut().enumerate() {
            if part_of.as_ref().is_some_and(|p| p.start < at) {
                *part_of = part(scene, run, i + 1, at);
            }
        }
        let Some(start) = next.iter().flatten().map(|p| p.start).min() else { return found };
        // What is the same again and again is so too with twice as many for a turn, and may then begin a little sooner.
        let first = next.iter().position(|p| p.as_ref().is_some_and(|p| p.start < start + LONGEST_TURN));
        let Some((i, range)) = first.and_then(|i| Some((i, next[i].clone()?))) else { return found };
        at = range.end;
        let leaves = &run[range];
        found.extend(is_loop(scene, leaves, i + 1).then(|| loop_of(scene, leaves, i + 1)));
    }
}

/// The first part of a run from `at` on that is the same operations again and again, so many for each tensor, and long
/// enough.
fn part(scene: &Scene<'_>, run: &[LeafId], period: usize, at: usize) -> Option<Range<usize>> {
    let what = |i: usize| (scene.look(run[i].index()).base, scene.look(run[i].index()).in_place);
    let is_turn = |turn: &&[LeafId]| turn.iter().all(|l| first_of(scene, *l) == first_of(scene, turn[0]));
    let mut start = at;
    for end in at + period..=run.len() {
        if end < run.len() && what(end) == what(end - period) {
            continue;
        }
        // The first turn may have begun before the part did.
        let from = start..end.min(start + period);
        let of = |from: usize| from..from + run[from..end].chunks_exact(period).take_while(is_turn).count() * period;
        let longest = from.map(of).rev().max_by_key(ExactSizeIterator::len);
        if let Some(range) = longest.filter(|r| r.len() >= LEAST_LEAVES) {
            return Some(range);
        }
        start = end + 1 - period;
    }
    None
}

/// The shape of what an operation is about.
fn first_of<'s>(scene: &'s Scene<'_>, leaf: LeafId) -> Option<&'s [i64]> {
    scene.look(leaf.index()).operands.first().map(|o| o.dims)
}

/// Whether a call on lists takes the place of such a part.
fn is_loop(scene: &Scene<'_>, leaves: &[LeafId], period: usize) -> bool {
    let turn: Vec<&Look<'_>> = leaves[..period].iter().map(|l| scene.look(l.index())).collect();
    let updates = turn.iter().filter(|l| is_update(l)).count() * ONE_UPDATE_OF >= period;
    let alone = period == 1 && (turn[0].kind == Kind::Copy || makes_number(turn[0]));
    // Tensors of one shape may be one tensor.
    let other_shapes = leaves.iter().any(|l| first_of(scene, *l) != first_of(scene, leaves[0]));
    (updates || alone || turn.iter().map(|l| l.base).eq(COPIED_BACK)) && other_shapes
}

/// Whether an operation makes one number of a tensor.
fn makes_number(look: &Look<'_>) -> bool {
    look.kind == Kind::Reduce && (look.leaves_a_number || look.result().is_none())
}

/// One call on lists in the place of a loop with so many operations for each tensor.
fn loop_of(scene: &Scene<'_>, leaves: &[LeafId], period: usize) -> Instance {
    let (mut reads, mut writes) = (0.0, 0.0);
    for unit in leaves.chunks_exact(period) {
        let looks = || unit.iter().map(|l| scene.look(l.index()));
        let own = looks().next().and_then(|l| l.operands.first()).map_or(0.0, super::scene::Operand::bytes);
        let other = looks().find_map(|l| l.full_operands().nth(1)).map_or(0.0, super::scene::Operand::bytes);
        let (read, written) = match looks().next() {
            Some(look) if makes_number(look) => (own, 0.0),
            Some(look) if look.kind == Kind::Copy => (look.read().iter().map(super::scene::Operand::bytes).sum(), own),
            _ => (own + other, own),
        };
        (reads, writes) = (reads + read, writes + written);
    }
    let part = Part { known_share: Some(STREAMING_SHARE), ..Part::moving(reads, writes) };
    let (count, tensors) = (leaves.len(), leaves.len() / period);
    let mut instance =
        Instance::new(scene, Code::UnfusedOptimizer, leaves.to_vec(), leaves[0], &[], Confidence::Medium);
    instance.confidence = Confidence::Medium;
    instance.fused = Some(part.time(scene));
    instance.basis = part.basis(scene);
    instance.evidence.push(format!("{count} operations in a loop over {tensors} tensors, none of them for many"));
    instance.facts = vec![("n", count.to_string()), ("parameters", tensors.to_string()), (LOOP, "true".to_owned())];
    instance
}

/// What the framework's optimizers do to one parameter after the other, step by step.
fn annotated(scene: &Scene<'_>, claims: &Claims) -> Vec<Vec<LeafId>> {
    let is_own = |at| claims.is_free(at) && is_part(scene.look(at));
    let mut steps = annotated_steps(scene, |last, at| scene.together(last, at), is_own);
    // One that multiplies matrices, as to make updates orthogonal, is none that has a fused variant.
    let multiplies = |step: &Vec<LeafId>| match step[..] {
        [first, .., last] => (first.index()..=last.index()).any(|i| scene.look(i).kind == Kind::Matrix),
        _ => false,
    };
    steps.retain(|step| !multiplies(step));
    steps
}

/// Members of the steps that an annotation tells.
pub(super) fn annotated_steps(
    scene: &Scene<'_>,
    goes_on: impl Fn(usize, usize) -> bool,
    is_member: impl Fn(usize) -> bool,
) -> Vec<Vec<LeafId>> {
    let mut steps: Vec<Vec<LeafId>> = Vec::new();
    let mut last: Option<usize> = None;
    for at in 0..scene.len() {
        if scene.leaf(at).direction != Direction::Optimizer {
            last = None;
            continue;
        }
        if last.is_none_or(|last| !goes_on(last, at)) {
            steps.push(Vec::new());
        }
        last = Some(at);
        if let Some(step) = steps.last_mut().filter(|_| is_member(at)) {
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

/// Whether something is added to what stays, as a step does: scaling alone, as of gradients, is none.
fn steps_parameters(scene: &Scene<'_>, leaves: &[LeafId]) -> bool {
    leaves
        .iter()
        .map(|l| scene.look(l.index()))
        .any(|l| is_update(l) && matches!(l.base, "add" | "sub" | "addcdiv" | "lerp"))
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

fn instance(scene: &Scene<'_>, leaves: Vec<LeafId>, confidence: Confidence) -> Option<Instance> {
    let mut by_op: Vec<(&str, f64, usize)> = Vec::new();
    for l in &leaves {
        let look = scene.look(l.index());
        let bytes = look.operands.first().map_or(0.0, super::scene::Operand::bytes);
        if bytes == 0.0 || !is_update(look) {
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
    let (worst, best) =
        if has_halves(scene, &leaves) { (HALVES_SHARE.0, Some(HALVES_SHARE.1)) } else { (STREAMING_SHARE, None) };
    let part = Part { known_share: Some(worst), best_share: best, ..part };
    let anchor = leaves[0];
    let count = leaves.len();
    let mut instance = Instance::new(scene, Code::UnfusedOptimizer, leaves, anchor, &["optimizer"], confidence);
    instance.confidence = confidence;
    instance.fused = Some(part.time(scene));
    instance.basis = part.basis(scene);
    instance
        .evidence
        .push(format!("{count} elementwise operations in one optimizer step, none of them for many tensors"));
    let updates = by_op.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(0, |o| o.2);
    instance.facts = vec![("n", count.to_string()), ("parameters", updates.to_string())];
    if confidence != Confidence::High {
        instance.facts.push((BY_HAND, "true".to_owned()));
    }
    Some(instance)
}

/// Whether most elements that a step updates have two bytes or fewer.
fn has_halves(scene: &Scene<'_>, leaves: &[LeafId]) -> bool {
    let updated = leaves.iter().map(|l| scene.look(l.index())).filter(|l| is_update(l));
    let (elements, bytes) = updated
        .filter_map(|l| l.operands.first())
        .fold((0.0, 0.0), |(n, bytes), o| (n + o.numel() as f64, bytes + o.bytes()));
    bytes < 3.0 * elements
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

//! Elementwise operations in a row.
//!
//! # What it finds
//! At least three elementwise or reducing leaves one after the other whose largest tensor has the same shape, with no
//! matrix product between them, and their backward. Operations on smaller tensors that fit into that shape (means,
//! biases, single numbers) may stand among them. Also a cast of a tensor for nothing but a reduction right after it.
//!
//! # Why it matters
//! Each of them is bound by memory: it writes what the next one reads.
//!
//! # How it is computed
//! A trace does not tell which tensor goes where. At least the first operation's inputs must be read and the last
//! one's result written; of columns of a larger tensor what lies between them is read as well. Later operations on two
//! tensors may each bring in a new one, but most use what is there already: after a first one with two they bring in one or
//! none, after one with one up to half as many as there are, or one. Functions take up to 35 instructions an element where
//! an addition takes two, a mean or sum that flows back into rows longer than 1024 takes another pass, what stands before
//! one of up to eight elements is computed for each of them again, and what is made of all elements, or of those over other
//! dimensions than the last, has them read again where the rest uses it. A softmax right before or after or between two
//! parts belongs to it: at worst two fifths of its time stay. A copy that writes its result in another order of dimensions
//! is part of it, and so are a tensor of one number made in between and what puts its results together. A result of
//! which only a few elements are used is not written. A backward reads the inputs again and what dropout has left, and writes
//! a gradient of each. What the backward pass has by itself stays as it is at worst.
//!
//! # What to do
//! Compile the region.
//!
//! # Limits
//! Intermediate results that something else needs later must be written all the same. Repeats of the same operations
//! are taken for separate calls.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

use jarvis_trace::InOrder;

use super::claims::Claims;
use super::fused::{Part, instructions, passes};
use super::group::Instance;
use super::scene::{Look, Operand, Scene, agree, element_size, has_scalar_tensor, numel, reduced};
use super::show::dims;
use super::{Code, Confidence};
use crate::prepare::baseline::is_contiguous;
use crate::program::kind::Kind;
use crate::program::{Direction, LeafId};

/// Fewer full-size leaves are no chain.
pub(super) const LEAST_LEAVES: usize = 3;
/// Fact: the reduction for which a tensor is cast, if it can cast by itself.
pub(super) const CAST_FOR: &str = "cast_for";
/// Reductions that take a type to compute in.
const REDUCE_AS: [&str; 4] = ["sum", "mean", "prod", "linalg_vector_norm"];
/// What a pass that ends with a sum or mean reaches of the baseline at worst: two compiled losses reached 0.84 of it.
const REDUCED_AT_WORST: f64 = 0.75;
/// A chain is more than a function in it if it takes this many times as long.
const MORE: f64 = 1.1;
/// How soon elements are picked from a result, and what share of the time to move all of it that takes at most.
const PICKED_WITHIN: usize = 6;
const FEW_PICKED: f64 = 0.25;
/// So few elements made one by a reduction leave a tensor that is as good as the whole.
const MOST_MADE_ONE: i64 = 8;
/// Longer rows than this a kernel does not keep from one pass to the next.
const KEPT_ROW: i64 = 8192;
/// Instructions for each element of a softmax within a compiled function, forward or backward: a loss over the entropy took
/// 111 and 148 in all, one between two models 166 and 88 with two softmaxes and the gradient of one.
const SOFTMAX: (f64, f64) = (30.0, 57.0);
/// Memory is read in pieces of so many bytes.
const SECTOR: f64 = 32.0;
/// Such an operation: it draws random numbers as the framework does.
const TAKEN_WHOLE: &str = "aten::multinomial";
/// Repeats of fewer leaves than this are one chain, not several.
const LEAST_PERIOD: usize = 3;

/// Finds chains in what is left: first those of the forward pass, which take their backward with them, then those that
/// the backward pass has by itself.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let mut found = Vec::new();
    for backward in [false, true] {
        let in_pass = |i: usize| (scene.leaf(i).direction == Direction::Backward) == backward;
        let runs = runs(scene, 0..scene.len(), |i| claims.is_free(i) && in_pass(i) && !is_taken_whole(scene, i));
        let runs = joined_by_softmax(scene, claims, runs);
        let calls = runs.into_iter().flat_map(|run| split(scene, run)).map(|run| with_cat(scene, claims, run));
        let mut chains: Vec<Instance> =
            calls.filter(|run| is_chain(scene, run)).map(|run| instance(scene, run)).collect();
        for chain in chains.iter_mut().filter(|_| backward) {
            stays_at_worst(scene, chain);
        }
        found.extend(claims.settle(scene, chains));
    }
    found
}

/// Whether a leaf is a step of an operation that the compiler takes as it is.
fn is_taken_whole(scene: &Scene<'_>, at: usize) -> bool {
    scene.program.ops_around(scene.leaf(at)).any(|op| &**op == TAKEN_WHOLE)
}

/// Those of known functions that are not part of a longer chain where there is no matrix work: such a program is a
/// function itself and compiled as a whole, so the chain tells of all its operations.
pub(super) fn no_part_of_more(scene: &Scene<'_>, claims: &Claims, mut found: Vec<Instance>) -> Vec<Instance> {
    if scene.matrix_ms > 0.0 || found.is_empty() {
        return found;
    }
    let is_free = |i: usize| claims.is_free(i) && scene.leaf(i).direction != Direction::Backward;
    let runs = runs(scene, 0..scene.len(), is_free).into_iter();
    let calls: Vec<Vec<LeafId>> = runs.flat_map(|run| split(scene, run)).filter(|run| is_chain(scene, run)).collect();
    found.retain(|instance| {
        let first = instance.leaves[0];
        let call = calls.get(calls.partition_point(|call| call.last().is_some_and(|last| *last < first)));
        let call = call.filter(|call| call.contains(&first));
        call.is_none_or(|call| scene.us(call) <= MORE * scene.us(&instance.leaves))
    });
    found
}

/// Maximal runs of free leaves that could become one pass over memory.
pub(super) fn runs(scene: &Scene<'_>, range: Range<usize>, is_free: impl Fn(usize) -> bool) -> Vec<Vec<LeafId>> {
    let mut runs: Vec<Vec<LeafId>> = Vec::new();
    let mut run: Vec<LeafId> = Vec::new();
    let mut wide = 0;
    // What the last reduction of the run has given.
    let mut reduced: Option<Vec<i64>> = None;
    for at in range {
        let look = scene.look(at);
        let of_reduced = reduced.as_ref().is_some_and(|shape| fits(shape, &look.full));
        // A tensor of one number is made for what follows, and one pass has no need of it.
        let is_constant = look.kind == Kind::Fill && !run.is_empty() && agree(&scene.look(wide).full, &look.full);
        let free = is_free(at) && (look.kind.is_fusible() || is_constant) && (look.numel() > 0 || look.is_scalar);
        let joins = run.last().is_none_or(|last| {
            let uses_number = look.is_scalar && scene.look(last.index()).leaves_a_number;
            last.index() + 1 == at
                && !uses_number
                && scene.together(last.index(), at)
                && (of_reduced
                    || fits(&scene.look(wide).full, &look.full)
                    || reorders(scene, &scene.look(wide).full, at)
                    || is_written_for(scene, last.index(), at))
        });
        let ends = !free || !joins;
        if ends && !run.is_empty() {
            runs.push(std::mem::take(&mut run));
        }
        if free {
            // Of what was written in another order the rest of a run reads that.
            let is_wider = look.numel() > scene.look(wide).numel();
            let is_other = || reorders(scene, &scene.look(wide).full, at);
            if run.is_empty() || is_wider || is_other() || is_written_for(scene, at - 1, at) {
                wide = at;
            }
            if run.is_empty() || look.kind == Kind::Reduce {
                reduced = Some(look).filter(|l| l.kind == Kind::Reduce).and_then(Look::result);
            }
            run.push(LeafId(at as u32));
        }
    }
    runs.push(run);
    for run in &mut runs {
        trim(scene, run);
    }
    runs.retain(|r| !r.is_empty());
    runs
}

/// Whether a leaf copies a tensor of this shape, as it lies in memory without gaps, into another order of dimensions.
fn reorders(scene: &Scene<'_>, shape: &[i64], at: usize) -> bool {
    let look = scene.look(at);
    let [_, source] = &look.operands[..] else { return false };
    let Some(strides) = source.strides.filter(|s| look.kind == Kind::Copy && s.len() == source.dims.len()) else {
        return false;
    };
    let mut order: Vec<usize> = (0..strides.len()).collect();
    order.order_by_key(|&i| Reverse((strides[i], source.dims[i])));
    let [dims, strides] = [source.dims, strides].map(|list| order.iter().map(|&i| list[i]).collect::<Vec<_>>());
    look.full != shape && dims == shape && is_contiguous(&dims, &strides)
}

/// Whether a copy writes without gaps what the next leaf may read in any shape, as `reshape` does where a view can't.
fn is_written_for(scene: &Scene<'_>, copy: usize, next: usize) -> bool {
    let (look, reader) = (scene.look(copy), scene.look(next));
    let is_dense = |to: &Operand<'_>| to.strides.is_some_and(|strides| is_contiguous(to.dims, strides));
    look.kind == Kind::Copy
        && reader.kind == Kind::Elementwise
        && look.numel() == reader.numel()
        && !agree(&look.full, &reader.full)
        && look.operands.first().is_some_and(is_dense)
}

/// The same with two runs on one shape that nothing but a softmax of that shape keeps apart as one: a compiler makes one
/// pass of all three.
fn joined_by_softmax(scene: &Scene<'_>, claims: &Claims, runs: Vec<Vec<LeafId>>) -> Vec<Vec<LeafId>> {
    // Each with the widest of its leaves.
    let mut joined: Vec<(Vec<LeafId>, &Look<'_>)> = Vec::with_capacity(runs.len());
    for run in runs {
        let wide = widest(scene, &run);
        let before = joined.last_mut().filter(|(before, wide_before)| {
            let [Some(last), Some(first)] = [before.last(), run.first()] else { return false };
            let softmax = last.index() + 1;
            first.index() == softmax + 1
                && claims.is_free(softmax)
                && scene.together(last.index(), first.index())
                && is_softmax_of(scene, softmax, wide_before.numel())
                && agree(&wide_before.full, &wide.full)
        });
        match before {
            Some((before, _)) => before.extend(run),
            None => joined.push((run, wide)),
        }
    }
    joined.into_iter().map(|(run, _)| run).collect()
}

/// The same with what puts its results together right after it: a compiler writes them where they end up.
fn with_cat(scene: &Scene<'_>, claims: &Claims, mut run: Vec<LeafId>) -> Vec<LeafId> {
    let n = widest(scene, &run).numel();
    let cat = run.last().and_then(|last| scene.after(last.index()).next()).filter(|&at| {
        let (look, results) = (scene.look(at), run.iter().filter(|l| scene.look(l.index()).numel() == n).count());
        let puts_together = look.kind == Kind::Cat && (2..=results).contains(&look.operands.len());
        puts_together && claims.is_free(at) && look.operands.iter().all(|o| o.numel() == n)
    });
    run.extend(cat.map(|at| LeafId(at as u32)));
    run
}

/// Copies of less than the whole at the end are casts for what follows, such as those of the next layer's weights. Work on
/// numbers alone belongs to a run only inside it, and so do tensors of one number.
fn trim(scene: &Scene<'_>, run: &mut Vec<LeafId>) {
    let is_scalar = |l: &LeafId| scene.look(l.index()).is_scalar;
    run.drain(..run.iter().take_while(|l| is_scalar(l)).count());
    run.truncate(run.iter().rposition(|l| !is_scalar(l)).map_or(0, |last| last + 1));
    let whole = run.iter().map(|l| scene.look(l.index()).numel()).max().unwrap_or(0);
    while run.last().is_some_and(|l| {
        let look = scene.look(l.index());
        look.kind == Kind::Fill || (look.kind == Kind::Copy && look.numel() < whole)
    }) {
        run.pop();
    }
}

fn widest<'s>(scene: &'s Scene<'_>, run: &[LeafId]) -> &'s Look<'s> {
    let mut best = scene.look(run[0].index());
    for l in run {
        let look = scene.look(l.index());
        if look.numel() > best.numel() {
            best = look;
        }
    }
    best
}

/// Whether a leaf works on the tensor of the run or on a smaller one that fits into it.
fn fits(wide: &[i64], other: &[i64]) -> bool {
    agree(wide, other) || is_inside(wide, other) || is_inside(other, wide)
}

/// Whether `small` is laid over `large` by repetition.
fn is_inside(large: &[i64], small: &[i64]) -> bool {
    let fits = |(l, s): (&i64, &i64)| l == s || *s == 1;
    small.len() <= large.len() && numel(small) < numel(large) && large.iter().rev().zip(small.iter().rev()).all(fits)
}

/// Enough operations on the whole tensor, and not just one and the same again and again: that is a loop over tensors.
fn is_chain(scene: &Scene<'_>, run: &[LeafId]) -> bool {
    let n = widest(scene, run).numel();
    let looks = || run.iter().map(|l| scene.look(l.index()));
    // What is left of the whole where only a few elements are made one.
    let results = looks().filter(|l| l.kind == Kind::Reduce).filter_map(Look::result);
    let large: Vec<i64> = results.map(|shape| numel(&shape)).filter(|r| r.saturating_mul(MOST_MADE_ONE) >= n).collect();
    let full: Vec<&Look<'_>> = looks().filter(|l| l.numel() == n || large.contains(&l.numel())).collect();
    let mut computing: Vec<&str> = full.iter().filter(|l| l.kind != Kind::Copy).map(|l| l.base).collect();
    computing.sort_unstable();
    computing.dedup();
    full.len() >= LEAST_LEAVES && computing.len() >= 2 || is_cast_to_reduce(scene, run)
}

/// Whether all that a run does with the whole is to cast it for a reduction, which could cast what it reads.
fn is_cast_to_reduce(scene: &Scene<'_>, run: &[LeafId]) -> bool {
    let n = widest(scene, run).numel();
    let whole: Vec<&Look<'_>> = run.iter().map(|l| scene.look(l.index())).filter(|l| l.numel() == n).collect();
    let [cast, reduction] = whole[..] else { return false };
    let gives = |dtype: &str| reduction.operands.first().is_some_and(|o| o.dtype == dtype);
    cast.is_cast() && cast.operands.first().is_some_and(|to| gives(to.dtype)) && reduction.kind == Kind::Reduce
}

/// A run that is the same sequence several times over is several calls.
fn split(scene: &Scene<'_>, run: Vec<LeafId>) -> Vec<Vec<LeafId>> {
    let same = |a: &LeafId, b: &LeafId| {
        let (x, y) = (scene.program.leaf(*a), scene.program.leaf(*b));
        x.name == y.name && x.inputs == y.inputs
    };
    let periodic = |p: &usize| run.len().is_multiple_of(*p) && (*p..run.len()).all(|i| same(&run[i], &run[i - p]));
    let least = if run.len() > 2 && is_cast_to_reduce(scene, &run[..2]) { 2 } else { LEAST_PERIOD };
    match (least..=run.len() / 2).find(periodic) {
        Some(period) => run.chunks(period).map(<[LeafId]>::to_vec).collect(),
        None => vec![run],
    }
}

fn instance(scene: &Scene<'_>, run: Vec<LeafId>) -> Instance {
    let wide = widest(scene, &run);
    let (shape, n) = (dims(&wide.full), wide.numel());
    let anchor = run.iter().copied().find(|l| scene.look(l.index()).numel() == n).unwrap_or(run[0]);
    let mut instance = Instance::new(scene, Code::ElementwiseChain, run, anchor, &[], Confidence::High);
    let softmaxes = softmax_beside(scene, &instance.leaves, n);
    let mut forward = part(scene, &instance.leaves);
    let (own, again) = read_for_softmax(scene, &instance.leaves, &softmaxes);
    let inputs = (forward.reads.0 + own, forward.reads.1 + own);
    forward.reads = (inputs.0 + again, inputs.1 + again);
    forward = forward.with(n as f64 * softmaxes.len() as f64, SOFTMAX);
    instance.fused = Some(forward.time(scene));
    instance.basis = forward.basis(scene);
    instance.backward = scene.backward_of(&instance.leaves);
    // The gradient and the inputs are read again, and what dropout has left; each input gets a gradient, at worst also
    // those that there may be.
    let dropped = instance.leaves.iter().filter(|l| scene.look(l.index()).base == "native_dropout").count();
    let read = forward.writes + dropped as f64 * n as f64;
    let backward = Part {
        reads: (read + inputs.0, read + inputs.1 + again + (inputs.1 - inputs.0)),
        writes: inputs.0,
        ..Part::default()
    };
    let trained = softmaxes.iter().filter(|l| !scene.backward_of(std::slice::from_ref(*l)).is_empty()).count();
    let backward = backward.with(n as f64 * trained as f64, SOFTMAX);
    instance.backward_fused = backward.computing(scene, &instance.backward, 1.0).time(scene);
    let may_cast = |l: &&LeafId| REDUCE_AS.contains(&scene.look(l.index()).base);
    let reduction = instance.leaves.iter().find(may_cast).filter(|_| is_cast_to_reduce(scene, &instance.leaves));
    if let Some(l) = reduction {
        instance.facts.push((CAST_FOR, scene.program.leaf(*l).name.to_string()));
    }
    let ops = instance.leaves.len();
    instance.evidence.push(format!("{ops} memory-bound operations in a row on {shape}"));
    let backward = scene.backward_of(&softmaxes);
    instance.halo = softmaxes.into_iter().chain(backward).collect();
    instance
}

/// What a pass reads more for softmaxes in between: tensors that they alone bring in, and what is read again since their
/// rows are too long to be kept. What is made of a tensor right before its softmax is made again as well.
fn read_for_softmax(scene: &Scene<'_>, run: &[LeafId], softmaxes: &[LeafId]) -> (f64, f64) {
    let [Some(first), Some(last)] = [run.first(), run.last()] else { return (0.0, 0.0) };
    let bytes = |i: usize| scene.look(i).full_operands().next().map_or(0.0, Operand::bytes);
    let mut read = (0.0, 0.0);
    for softmax in softmaxes.iter().filter(|l| first < l && l < &last) {
        let look = scene.look(softmax.index());
        let makes_it = |i: &usize| {
            let (of_run, look) = (run.binary_search(&LeafId(*i as u32)).is_ok(), scene.look(*i));
            let is_one = matches!(look.kind, Kind::Copy | Kind::Elementwise) && look.full_operands().count() == 1;
            of_run && is_one && look.numel() == scene.look(softmax.index()).numel()
        };
        let origin = (first.index()..softmax.index()).rev().take_while(makes_it).last();
        // The pass counts the inputs of its first leaf.
        if origin != Some(first.index()) {
            read.0 += bytes(origin.unwrap_or(softmax.index()));
        }
        if look.full.last().is_some_and(|&row| row > KEPT_ROW) {
            read.1 += bytes(origin.unwrap_or(softmax.index()));
        }
    }
    read
}

/// The softmax right before, in or right after a run on the same tensor: a compiler makes it part of the pass. One compiled
/// loss left nothing of it, but it has a good kernel of its own.
fn softmax_beside(scene: &Scene<'_>, run: &[LeafId], n: i64) -> Vec<LeafId> {
    let [Some(first), Some(last)] = [run.first(), run.last()] else { return Vec::new() };
    let between = (first.index()..last.index()).filter(|&i| run.binary_search(&LeafId(i as u32)).is_err());
    let beside = [scene.before(first.index()).next_back(), scene.after(last.index()).next()];
    let all = beside.into_iter().flatten().chain(between).filter(|&i| is_softmax_of(scene, i, n));
    all.map(|i| LeafId(i as u32)).collect()
}

/// Whether a leaf is a softmax of so many elements.
fn is_softmax_of(scene: &Scene<'_>, at: usize, n: i64) -> bool {
    let look = scene.look(at);
    matches!(look.base, "_softmax" | "_log_softmax") && look.numel() == n
}

/// What the backward pass has by itself, gradients of weights and sums where paths meet, only goes if all around it is
/// compiled as well.
fn stays_at_worst(scene: &Scene<'_>, chain: &mut Instance) {
    let now = scene.us(&chain.leaves);
    if let Some(fused) = &mut chain.fused {
        fused.worst_us = fused.worst_us.max(now);
    }
}

/// One pass over memory instead of a run.
pub(super) fn part(scene: &Scene<'_>, run: &[LeafId]) -> Part {
    let wide = widest(scene, run);
    let n = wide.numel();
    let full: Vec<LeafId> = run.iter().copied().filter(|l| scene.look(l.index()).numel() == n).collect();
    let look = |l: &LeafId| scene.look(l.index());
    let first = look(&full[0]);
    let inputs = first_inputs(scene, full[0]);
    // Two operands of full size: one of them may come from outside.
    let puts_together = |l: &LeafId| look(l).kind == Kind::Cat;
    let second = |l: &LeafId| look(l).full_operands().nth(1).map(moved);
    let brought = |l: &LeafId| second(l).filter(|_| !puts_together(l));
    let later: Vec<f64> = full[1..].iter().filter_map(brought).collect();
    let (fewest, most) = brought_in(first.full_operands().count(), later.len());
    let each = later.iter().sum::<f64>() / later.len().max(1) as f64;
    let last = run.last().map_or(first, look);
    let feedback = feedback_reductions(scene, run, n);
    // What elements from all over the tensor make is there only after them: everything is read again.
    let is_late = |l: &&LeafId| look(l).leaves_a_number || reduces_across(scene, **l);
    let again = 1.0 + feedback.iter().filter(is_late).count() as f64;
    let is_picked = run.last().is_some_and(|last| is_picked_from(scene, last.index(), wide));
    let ends_reduced = is_picked || last.kind == Kind::Reduce && feedback.is_empty();
    let part = Part {
        reads: (again * (inputs.0 + fewest * each), again * (inputs.1 + most * each)),
        writes: match last.kind {
            Kind::Cat => last.operands.iter().map(Operand::bytes).sum(),
            _ if last.kind == Kind::Reduce || is_picked => 0.0,
            _ => last.result_bytes(),
        },
        known_share: ends_reduced.then(|| REDUCED_AT_WORST * scene.baseline_share()),
        ..Part::default()
    };
    if is_picked {
        let whole = run.iter().rposition(|l| look(l).kind == Kind::Reduce).map_or(run, |last| &run[..=last]);
        return part.computing(scene, whole, 1.0);
    }
    let more = unrolled(scene, run, &feedback);
    let part = part.with(1.0, (more, more));
    // What is put together is computed for every place, also where another result goes.
    let computed = if last.kind == Kind::Cat { last.operands.len() as f64 } else { 1.0 };
    part.computing(scene, run, computed * passes(feedback.len(), wide.full.last().copied().unwrap_or(1)))
}

/// What the first leaf of a run brings in, at least and at most: columns may be those of one tensor or of one each, of as
/// many as the leaf has the time to read.
fn first_inputs(scene: &Scene<'_>, first: LeafId) -> (f64, f64) {
    let look = scene.look(first.index());
    let (columns, whole): (Vec<&Operand<'_>>, Vec<&Operand<'_>>) = look.full_operands().partition(|o| gaps(o) > 1.0);
    let whole: f64 = whole.into_iter().map(Operand::bytes).sum();
    let largest = columns.iter().map(|o| moved(o)).fold(0.0, f64::max);
    let all: f64 = columns.iter().map(|o| moved(o)).sum();
    let in_its_time = scene.leaf(first.index()).us * scene.bytes_per_us() - look.result_bytes();
    (whole + largest, (whole + all).min(in_its_time).max(whole + largest))
}

/// What memory moves for an operand: of a column of a larger tensor what lies in between as well.
fn moved(operand: &Operand<'_>) -> f64 {
    operand.bytes() * gaps(operand)
}

/// How many times its bytes that is.
fn gaps(operand: &Operand<'_>) -> f64 {
    let sizes = operand.strides.unwrap_or_default().iter().zip(operand.dims);
    let nearest = sizes.filter(|(_, size)| **size > 1).map(|(stride, _)| *stride).min().unwrap_or(1);
    let most = SECTOR / element_size(operand.dtype);
    (nearest as f64).min(most).max(1.0)
}

/// Whether nothing but a few elements of a run's result is used, as a loss takes the targets' probabilities out of all: a
/// compiler then computes those alone, and the rest is neither written nor computed.
fn is_picked_from(scene: &Scene<'_>, last: usize, wide: &Look<'_>) -> bool {
    let whole_us = wide.result_bytes() / scene.bytes_per_us();
    let reads_it = |&i: &usize| scene.look(i).operands.iter().any(|o| o.dims == wide.full);
    let mut readers = scene.after(last).take(PICKED_WITHIN).filter(reads_it);
    let picks = |i: usize| scene.look(i).kind == Kind::Index && scene.leaf(i).us < FEW_PICKED * whole_us;
    readers.next().is_some_and(picks)
        && readers.next().is_none()
        && scene.backward_of(&[LeafId(last as u32)]).is_empty()
}

/// How many tensors so many later operations on two of them bring in, at best and at worst, after a first one with so many.
/// Of 28 chains whose program is known, those that begin with two tensors brought in one more or none. Those that begin
/// with one may work on each tensor before they put it together with others: the only one brought one in in two chains of
/// three, two of three in three chains, three of five and three of six.
fn brought_in(first: usize, operations: usize) -> (f64, f64) {
    match (first, operations) {
        (_, 0) => (0.0, 0.0),
        (0 | 1, 1 | 2) => (0.0, 1.0),
        (0 | 1, n) => (1.0, 0.5 * (n.min(6) + 1) as f64),
        (_, 1) => (0.0, 0.75),
        (..) => (0.0, 1.0),
    }
}

/// Reductions of the whole whose result is used on the whole again.
fn feedback_reductions(scene: &Scene<'_>, run: &[LeafId], n: i64) -> Vec<LeafId> {
    let is = |l: &LeafId, reduce: bool| {
        let look = scene.look(l.index());
        look.numel() == n && (look.kind == Kind::Reduce) == reduce
    };
    let last_full = run.iter().rposition(|l| is(l, false)).unwrap_or(0);
    // What later operations on the whole use besides it, from the last one on.
    let (mut sizes, mut numbers, mut any) = (BTreeSet::new(), false, false);
    let mut found = Vec::new();
    for l in run[..=last_full].iter().rev() {
        let look = scene.look(l.index());
        if is(l, false) {
            sizes.extend(look.operands.iter().map(Operand::numel).filter(|&size| size < n));
            numbers |= has_scalar_tensor(&scene.program.leaf(*l).inputs);
            any = true;
        } else if is(l, true) {
            let used = match look.result() {
                Some(shape) => sizes.contains(&numel(&shape)),
                None => any && !look.leaves_a_number,
            };
            found.extend((used || look.leaves_a_number && numbers).then_some(*l));
        }
    }
    found.reverse();
    found
}

/// Instructions for what stands before reductions of a few elements each, whose result is used on all of them again: a
/// compiler writes such a reduction out, and computes what it needs for each element once more. One compiled function with
/// a power before the mean of three channels took four times the power's instructions.
fn unrolled(scene: &Scene<'_>, run: &[LeafId], feedback: &[LeafId]) -> f64 {
    let of = |l: &LeafId| {
        let look = scene.look(l.index());
        let left = look.result().map_or(1, |shape| numel(&shape));
        let made_one = look.numel() / left.max(1);
        let before = run.partition_point(|r| r < l);
        if made_one > MOST_MADE_ONE { 0.0 } else { made_one as f64 * instructions(scene, &run[..before]) }
    };
    feedback.iter().map(of).sum()
}

/// Whether a reduction goes over other dimensions than the last ones, so that what it makes one number of lies apart.
fn reduces_across(scene: &Scene<'_>, leaf: LeafId) -> bool {
    let (inputs, look) = (&scene.program.leaf(leaf).inputs, scene.look(leaf.index()));
    let rank = look.full.len() as i64;
    let over = reduced(inputs, look.base, rank).filter(|over| !over.is_empty());
    over.is_some_and(|over| over.iter().any(|d| *d < rank - over.len() as i64))
}

//! Small matrix products in a loop over slices or modules.
//!
//! # What it finds
//! At least eight equal turns of up to eight operations, with matrix products among them, whose results are stacked after
//! the last: `torch.stack([relu(x[i] @ a[i]) @ b[i] for i in range(n)])`, or `torch.stack([m(x) for m in modules])`. The
//! operands of each turn are parts taken out of larger tensors, weights, what all turns share, or come from the same turn.
//! Where the first product reads such a part, nothing has to stack the results: `[x[i] @ w[i] for i in range(n)]`, or
//! `[m(x[i]) for i in range(n)]`. Then a turn may be as long as a small network, and ends where the next part is read. Nor
//! has it to where each turn has a module of its own and gives what can't be the input of the next, by its shape:
//! `[m(x).softmax(-1) for m in heads]`.
//!
//! # Why it matters
//! Each product is too small to fill the GPU (it reaches less than half of its roofline), or all read again what they
//! share, and the host launches as many times as there are turns what it could launch once.
//!
//! # How it is computed
//! Batched products take the roofline time of all turns together at 70% of it at best, at 30% at worst and never longer
//! than the products take now; what the first product of all turns shares counts once; the other operations
//! move their bytes at the baseline at best, at half of it at worst; the stacking goes. Where the host is the limit, the
//! recorded schedule is run again with one turn in the place of all.
//!
//! # What to do
//! One batched product (`torch.bmm`) on the larger tensors as they are; weights that lie apart are first put into one.
//! Products that are as fast as their weights can be read gain nothing from that, but may have the same weights in each
//! turn: then one call reads them once (`LOOPED_ROWS`).
//!
//! # Limits
//! Turns that may go on with what the turn before gave, as those of recurrent layers do, are no find: what a turn gives
//! must not have the shape of what the next one reads, unless every turn has a module of its own. That may still be layers
//! one after another whose results are all kept, so the advice says on what it depends, and it is less sure. Where nothing
//! stacks the results, the first product reads no part and no modules are recorded, turns of one product are told by the
//! products' shapes alone (category `gemm`), longer ones not at all.

use std::collections::BTreeSet;
use std::ops::Range;

use jarvis_perf::call::Dims;

use super::claims::Claims;
use super::group::Instance;
use super::moe::KERNELS;
use super::scene::{Look, Scene, agree, is_transposed, numel};
use super::show::one;
use super::turns::Turns;
use super::{Code, Confidence, Fused};
use crate::program::kind::{Kind, operands_before_factors};
use crate::program::{Leaf, LeafId};

/// Fact: the weights of the turns lie apart.
pub(super) const APART: &str = "apart";
/// Fact: they may be the same in all turns.
pub(super) const SAME: &str = "same";
/// Fact: percent of the products' time that reading the weights takes at the peak bandwidth.
pub(super) const WEIGHTS_SHARE: &str = "weights_share";

/// Fewer turns are no loop.
const LEAST_TURNS: usize = 8;
/// Most operations of a turn.
const LONGEST_TURN: usize = 8;
/// Most of one that ends where the next part is read.
const LONGEST_ON_PARTS: usize = 64;
/// Shares of the roofline that batched products reach. In six measured pairs 0.48 to 1.0.
const BATCHED: (f64, f64) = (0.3, 0.7);
/// Products that reach this share of the roofline fill the GPU by themselves.
const FILLING: f64 = 0.5;
/// Share of the baseline that batched operations reach at worst.
const SLOWER: f64 = 0.5;

/// Turns that could be one call.
#[derive(Clone)]
struct Loop {
    turns: Turns,
    weights: Weights,
    again: Again,
    /// Positions of all turns and of what stacks their results.
    all: Range<usize>,
}

/// What an operation of a turn gives.
struct Given<'a> {
    shape: Vec<i64>,
    /// Where the operation changes it.
    dtype: Option<&'a str>,
    /// Whether it is something of another turn, of all or from before in another type.
    is_only_cast: bool,
}

/// Where the weights of turns lie.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    /// In larger tensors.
    Together,
    /// They may be the same in each turn, which differ by the rows they read.
    Same,
    /// Each by itself.
    Apart,
    /// The same, and nothing but the modules tells that turns do not go on with each other's results.
    OfModules,
}

/// Finds loops by what stacks their results, and those on parts of larger tensors whose results nothing stacks.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let stacked: Vec<Loop> = (0..scene.len()).filter_map(|at| ended_by(scene, at)).collect();
    let stacked = of_loops(scene, &stacked).iter().filter_map(|l| instance(scene, l)).collect();
    let mut found = claims.settle(scene, stacked);
    for begin in [Begin::Part, Begin::OwnModule] {
        found.extend(claims.settle(scene, wherever_results_go(scene, begin)));
    }
    found
}

/// How turns begin whose results may go anywhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Begin {
    /// With a product of a part that was taken out of a larger tensor.
    Part,
    /// With a product of something else, each in another module.
    OwnModule,
}

impl Begin {
    fn is_at(self, scene: &Scene<'_>, at: usize) -> bool {
        let (look, leaf) = (scene.look(at), scene.leaf(at));
        let takes_part = || leaf.takes_part(operands_before_factors(look.base));
        look.kind == Kind::Matrix
            && match self {
                Self::Part => takes_part(),
                Self::OwnModule => leaf.module.is_some() && !takes_part(),
            }
    }
}

/// Loops of turns that begin in this way, wherever their results go.
fn wherever_results_go(scene: &Scene<'_>, begin: Begin) -> Vec<Instance> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(from) = (at..scene.len()).find(|&i| begin.is_at(scene, i)) {
        let last = scene.len().min(from + LONGEST_ON_PARTS + 1);
        let mut next = (from + 1..last).filter(|&i| scene.are_alike(from, i) && begin.is_at(scene, i));
        let Some(turns) = next.find_map(|next| turns_from(scene, from, next - from, begin)) else {
            at = from + 1;
            continue;
        };
        at = turns.all().end;
        // What modules of their own do one after another may be layers, unless shapes tell that it is not.
        let tells = |weights| begin == Begin::Part || weights == Weights::Apart;
        if let Some((weights, again)) = weights(scene, &turns, None).filter(|(weights, _)| tells(*weights)) {
            let all = turns.all();
            found.extend(instance(scene, &Loop { turns, weights, again, all }));
        }
    }
    found
}

/// Equal turns of this length from here on, each of which begins in this way: one that begins with anything but a part goes
/// on with what the turn before gave, as the next layer does. Turns that write into a tensor may go on with what the turn
/// before has written there.
fn turns_from(scene: &Scene<'_>, from: usize, length: usize, begin: Begin) -> Option<Turns> {
    let turn = from..from + length;
    let end = scene.after(from).end;
    if end < from + LEAST_TURNS * length {
        return None;
    }
    let writes = turn.clone().map(|i| scene.look(i)).any(|look| look.kind == Kind::Copy && !look.is_cast());
    if writes || !may_be_turn(scene, turn) {
        return None;
    }
    let module = |at: usize| scene.leaf(at).module.map(|m| &*scene.program.module(m).name);
    let mut seen = BTreeSet::from([module(from)]);
    // The same modules again are another loop.
    let mut is_new = |at: usize| begin != Begin::OwnModule || seen.insert(module(at));
    let goes_on = |&next: &usize| {
        begin.is_at(scene, next) && is_new(next) && (next..next + length).all(|i| scene.are_alike(i - length, i))
    };
    let next = (from + length..=end - length).step_by(length);
    let turns = Turns { begin: from, length, count: 1 + next.take_while(goes_on).count() };
    (turns.count >= LEAST_TURNS).then_some(turns)
}

/// The loop whose results this operation stacks. Profilers do not record the shapes of long lists: then as many turns
/// count as there are.
fn ended_by(scene: &Scene<'_>, at: usize) -> Option<Loop> {
    let stack = scene.look(at);
    let results = &stack.operands;
    let equal = results.iter().all(|o| o.dims == results[0].dims);
    let told = (!results.is_empty()).then_some(results.len());
    if !is_stack(stack) || !equal || told.is_some_and(|n| n < LEAST_TURNS) {
        return None;
    }
    let before = scene.before(at);
    // Where modules make up the turns, a layer of theirs is none.
    let of_modules = calls_that_end(scene, at).into_iter().filter(|l| *l <= LONGEST_ON_PARTS);
    let (length, count) = of_modules.chain(1..=LONGEST_TURN).find_map(|length| {
        let last = at.checked_sub(length).filter(|&l| l >= before.start && may_be_turn(scene, l..at))?;
        let repeated = (before.start..last).rev().take_while(|&i| scene.are_alike(i, i + length)).count();
        let count = 1 + repeated / length;
        let count = told.unwrap_or(count).min(count);
        (count >= told.unwrap_or(LEAST_TURNS)).then_some((length, count))
    })?;
    let turns = Turns { begin: at - count * length, length, count };
    let (weights, again) = weights(scene, &turns, results.first().map(|o| o.dims))?;
    let all = turns.begin..at + 1;
    Some(Loop { turns, weights, again, all })
}

/// The numbers of operations in the calls of modules that end right before this one, longest first.
fn calls_that_end(scene: &Scene<'_>, at: usize) -> Vec<usize> {
    let innermost = at.checked_sub(1).and_then(|last| scene.leaf(last).module);
    let around = std::iter::successors(innermost, |m| scene.program.module(*m).parent);
    let calls = around.map(|m| &scene.program.module(m).leaves).take_while(|leaves| leaves.end == at);
    let mut lengths: Vec<usize> = calls.map(ExactSizeIterator::len).collect();
    lengths.reverse();
    lengths
}

/// Loops within a loop are one: equal ones right after each other, as many as make a loop, with what stacks their results.
fn of_loops(scene: &Scene<'_>, loops: &[Loop]) -> Vec<Loop> {
    let are_alike = |a: &Range<usize>, b: &Range<usize>| {
        a.len() == b.len() && a.clone().zip(b.clone()).all(|(a, b)| scene.are_alike(a, b))
    };
    let follows = |a: &Loop, b: &Loop| a.all.end == b.all.start && are_alike(&a.all, &b.all);
    let mut found = Vec::with_capacity(loops.len());
    for run in loops.chunk_by(follows) {
        let (Some(first), Some(last)) = (run.first(), run.last().filter(|_| run.len() >= LEAST_TURNS)) else {
            found.extend_from_slice(run);
            continue;
        };
        let end = last.all.end;
        let stacked = end < scene.len() && is_stack(scene.look(end)) && scene.together(end - 1, end);
        let turns = Turns { count: run.len() * first.turns.count, ..first.turns };
        found.push(Loop { turns, all: first.all.start..end + usize::from(stacked), ..*first });
    }
    found
}

pub(super) fn is_stack(look: &Look<'_>) -> bool {
    matches!(look.base, "cat" | "stack")
}

/// Whether operations may be a turn: products and what comes with them. Nothing is stacked in it, so that what lies behind
/// another loop's end is not looked at.
fn may_be_turn(scene: &Scene<'_>, turn: Range<usize>) -> bool {
    let looks = || turn.clone().map(|i| scene.look(i));
    let of_turn = [Kind::Matrix, Kind::Elementwise, Kind::Copy, Kind::Norm, Kind::Softmax];
    let fits = |l: &Look<'_>| of_turn.contains(&l.kind) && !is_stack(l);
    looks().all(fits) && looks().any(|l| l.kind == Kind::Matrix)
}

/// Where the weights lie of turns that need nothing of the turn before; `None` if one may: what the operations of a turn
/// read was taken out of a larger tensor, or they gave it to each other, each value once, and what is left is the result.
/// Products may also read a weight that no one gave, and the first the factor that all turns share. If the result of a
/// turn could be one of these in the next, only modules of their own tell that it is not. With them what all turns read
/// again.
fn weights(scene: &Scene<'_>, turns: &Turns, result: Option<&[i64]>) -> Option<(Weights, Again)> {
    let mut given: Vec<Given<'_>> = Vec::new();
    let (mut shared, mut apart) = (Vec::new(), Vec::new());
    let mut is_first = true;
    for at in turns.first() {
        let (leaf, look) = (scene.leaf(at), scene.look(at));
        let is_product = look.kind == Kind::Matrix;
        let factor = is_product.then(|| operands_before_factors(look.base));
        // The destination of a copy is written, not read.
        let read = usize::from(look.kind == Kind::Copy);
        let types = leaf.inputs.types.as_deref().unwrap_or_default();
        let mut is_only_cast = false;
        let inputs = || leaf.inputs.dims.as_deref().unwrap_or_default().iter().enumerate().skip(read);
        // What is known to be a part comes last, so that the others are what the turn gave.
        let [others, parts] = [false, true].map(|part| inputs().filter(move |(i, _)| leaf.takes_part(*i) == part));
        for (i, dims) in others.chain(parts) {
            // What is added to a product, and what else has no rows, all turns may share.
            let is_factor = factor.is_some_and(|f| f <= i);
            let least = if is_factor { 1 } else { 2 };
            let Some(dims) = dims.shape().filter(|d| d.len() >= least) else { continue };
            let from = given.iter().position(|given| {
                let fits = agree(&given.shape, dims) || is_transposed(&given.shape, dims);
                fits && given.dtype.is_none_or(|d| types.get(i).is_none_or(|t| t == d))
            });
            let from = from.map(|at| given.swap_remove(at));
            let is_new = from.as_ref().is_none_or(|given| given.is_only_cast);
            let weight = factor.map(|f| f + 1);
            match from {
                Some(_) if !is_new => {}
                None if leaf.takes_part(i) => {}
                _ if is_first && factor == Some(i) => shared.push(dims),
                _ if weight == Some(i) => apart.push((dims, is_turned(leaf, i))),
                // To lower precision, as autocast does before a product.
                None if look.is_cast() => is_only_cast = true,
                _ => return None,
            }
        }
        is_first &= !is_product;
        let shape = look.result()?;
        // What is added to products is cast too.
        if look.is_cast() && shape.len() < 2 {
            continue;
        }
        let dtype = types.first().map(String::as_str).filter(|_| look.kind == Kind::Copy);
        given.push(Given { shape, dtype, is_only_cast });
    }
    let [Given { shape: last, .. }] = &given[..] else { return None };
    if result.is_some_and(|r| !agree(last, r)) {
        return None;
    }
    let plain = apart.iter().filter(|(_, is_turned)| !is_turned).map(|(dims, _)| dims);
    let goes_on = || shared.iter().chain(plain).any(|dims| agree(last, dims) || is_transposed(last, dims));
    let weights = if apart.is_empty() {
        Weights::Together
    } else if goes_on() {
        have_modules_of_their_own(scene, turns).then_some(Weights::OfModules)?
    } else if shared.is_empty() && !have_modules_of_their_own(scene, turns) {
        Weights::Same
    } else {
        Weights::Apart
    };
    let again = match weights {
        Weights::Same => {
            let elements = apart.iter().map(|(dims, _)| numel(dims)).fold(0, i64::saturating_add);
            Again { elements, surely: is_one_module(scene, turns) }
        }
        _ => Again { elements: shared.first().map_or(0, |dims| numel(dims)), surely: true },
    };
    Some((weights, again))
}

/// What every turn reads that one call would read once.
#[derive(Clone, Copy)]
struct Again {
    elements: i64,
    /// Whether it is known to be the same.
    surely: bool,
}

/// Whether an input is a matrix with its rows and columns exchanged, as layers read their weights: nothing an operation
/// gives is.
fn is_turned(leaf: &Leaf, input: usize) -> bool {
    let strides = leaf.inputs.strides.as_ref().and_then(|all| all.get(input)).and_then(Dims::shape);
    matches!(strides, Some([1, rows]) if *rows > 1)
}

/// The modules in which turns run their first product.
fn modules<'a>(scene: &'a Scene<'_>, turns: &Turns) -> impl Iterator<Item = Option<&'a str>> {
    let (length, count) = (turns.length, turns.count);
    let product = turns.first().find(|&i| scene.look(i).kind == Kind::Matrix);
    let of_turn = move |turn: usize| product.and_then(|product| scene.leaf(product + turn * length).module);
    (0..count).map(of_turn).map(|module| module.map(|m| &*scene.program.module(m).name))
}

/// Whether no two turns run their first product in the same module.
pub(super) fn have_modules_of_their_own(scene: &Scene<'_>, turns: &Turns) -> bool {
    of_other_modules(scene, turns) == turns.count
}

/// The first turns that run their first product in another module each.
fn of_other_modules(scene: &Scene<'_>, turns: &Turns) -> usize {
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    modules(scene, turns).take_while(|module| module.is_some_and(|name| seen.insert(name))).count()
}

/// Whether all run it in the same, so that its weights are the same.
fn is_one_module(scene: &Scene<'_>, turns: &Turns) -> bool {
    let mut all = modules(scene, turns);
    all.next().flatten().is_some_and(|first| all.all(|other| other == Some(first)))
}

/// A find in the making.
fn instance(scene: &Scene<'_>, of: &Loop) -> Option<Instance> {
    let Loop { turns, weights, again, all } = of;
    let weights = *weights;
    let leaves: Vec<LeafId> = all.clone().map(|i| LeafId(i as u32)).collect();
    let backward = scene.backward_of(&leaves);
    let anchor = turns.first().find(|&i| scene.look(i).kind == Kind::Matrix)?;
    let anchor = LeafId(anchor as u32);
    let kernels: usize = turns.first().map(|i| scene.leaf(i).kernels.len()).sum();
    let sure = if weights == Weights::OfModules { Confidence::Medium } else { Confidence::High };
    // Read once for all turns, if it is the same.
    let look = scene.look(anchor.index());
    let element = look.operands.last().map_or(0.0, |o| super::scene::element_size(o.dtype));
    let once_us = again.elements as f64 * element / scene.bytes_per_us();
    let again_us = (turns.count - 1) as f64 * once_us;
    let Batched { time, reached, products_us } = batched_sharing(scene, &leaves, again_us, again.surely)?;
    let reads_weights = weights == Weights::Same && reached >= FILLING;
    let code = if reads_weights { Code::LoopedRows } else { Code::LoopedGemms };
    let mut instance = Instance::new(scene, code, leaves, anchor, &[], sure);
    if weights == Weights::OfModules {
        // The modules show it as well where no other holds them all.
        instance.confidence = sure;
    }
    instance.backward_fused = batched_if_small(scene, &backward);
    instance.backward = backward;
    instance.fused = Some(time);
    let count = turns.count;
    instance.basis =
        format!("batched over {count} turns they take {}-{} us a loop", one(time.best_us), one(time.worst_us));
    let each = if turns.length == 1 { "one operation".to_owned() } else { format!("{} operations", turns.length) };
    let on = match weights {
        Weights::Together | Weights::Same => "on parts of larger tensors",
        Weights::Apart | Weights::OfModules => "with weights of their own",
    };
    instance.evidence.push(format!("{count} equal turns of {each} {on}"));
    instance.facts = vec![("n", count.to_string()), (KERNELS, kernels.to_string())];
    match weights {
        Weights::Together => {}
        Weights::Same if reads_weights => {
            let share = 100.0 * (again_us + once_us) / products_us;
            instance.facts.push((WEIGHTS_SHARE, format!("{:.0}", share.min(100.0))));
        }
        Weights::Same => instance.facts.push((SAME, "true".to_owned())),
        Weights::Apart | Weights::OfModules => instance.facts.push((APART, "true".to_owned())),
    }
    Some(instance)
}

/// Time of the same work done for all turns at once; nothing is stacked. `None` if the products are not small.
pub(super) fn batched(scene: &Scene<'_>, leaves: &[LeafId]) -> Option<Fused> {
    batched_sharing(scene, leaves, 0.0, true).map(|b| b.time)
}

/// The same work done for all turns at once.
struct Batched {
    time: Fused,
    /// Share of the roofline that the products reach now.
    reached: f64,
    /// What they take now.
    products_us: f64,
}

/// The same for products of which so much may go into reading again what they share, surely or at best.
fn batched_sharing(scene: &Scene<'_>, leaves: &[LeafId], again_us: f64, surely: bool) -> Option<Batched> {
    let (mut roofline, mut products, mut rest) = (0.0, 0.0, Fused::NOTHING);
    let (mut arithmetic, mut memory) = (0.0, 0.0);
    for l in leaves {
        let (leaf, look) = (scene.program.leaf(*l), scene.look(l.index()));
        match look.kind {
            Kind::Matrix => {
                let sides = scene.sides_us(look)?;
                roofline += sides.0.max(sides.1);
                (arithmetic, memory) = (arithmetic + sides.0, memory + sides.1);
                products += leaf.us;
            }
            _ if is_stack(look) => {
                rest = rest.and(Fused { best_us: 0.0, worst_us: leaf.us });
            }
            _ => {
                let bytes = look.cost.as_ref().and_then(|c| c.bytes);
                let moved = bytes.map(|b| b / (scene.bytes_per_us() * scene.baseline_share()));
                let at = |share: f64| moved.map_or(leaf.us, |m| (m / share).min(leaf.us));
                rest = rest.and(Fused { best_us: at(1.0), worst_us: at(SLOWER) });
            }
        }
    }
    let least = if again_us > 0.0 { arithmetic.max(memory - again_us).min(roofline) } else { roofline };
    if products < least / FILLING {
        return None;
    }
    let most = if surely { least } else { roofline };
    // What they reach now one by one they reach together.
    let reached = (roofline / products).min(1.0);
    let shares = [(most, BATCHED.0), (least, BATCHED.1.max(reached))];
    let [worst_us, best_us] = shares.map(|(us, share)| (us / share).min(products));
    Some(Batched { time: rest.and(Fused { best_us, worst_us }), reached, products_us: products })
}

/// The same if the products are small; else they stay as they are.
pub(super) fn batched_if_small(scene: &Scene<'_>, leaves: &[LeafId]) -> Fused {
    let now = scene.us(leaves);
    batched(scene, leaves).unwrap_or(Fused { best_us: now, worst_us: now })
}

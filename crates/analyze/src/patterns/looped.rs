//! Small matrix products in a loop over slices.
//!
//! # What it finds
//! At least eight equal turns of up to eight operations, with matrix products among them, whose results are stacked after
//! the last: `torch.stack([relu(x[i] @ a[i]) @ b[i] for i in range(n)])`. The operands of each turn are parts taken out of
//! larger tensors, or come from the same turn.
//!
//! # Why it matters
//! Each product is too small to fill the GPU, and the host launches as many times as there are turns what it could launch
//! once.
//!
//! # How it is computed
//! Batched products take the roofline time of all turns together at 70% of it at best, at 20% at worst and never longer
//! than the products take now; the other operations move their bytes at the baseline at best, at half of it at worst;
//! the stacking goes. Where the host is the limit, the recorded schedule is run again with one turn in the place of all.
//!
//! # What to do
//! One batched product (`torch.bmm`) on the larger tensors as they are.
//!
//! # Limits
//! Turns that go on with what the turn before gave, as those of recurrent layers do, are no find: there the weights are the
//! same in each turn and not taken out of anything. Turns of one product with weights that lie apart, or whose results
//! nothing stacks, are told by the products' shapes alone (category `gemm`), longer ones not at all.

use std::ops::Range;

use super::claims::Claims;
use super::group::Instance;
use super::kind::{Kind, operands_before_factors};
use super::moe::KERNELS;
use super::scene::{Look, Scene, agree};
use super::show::one;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;

/// Fewer turns are no loop.
const LEAST_TURNS: usize = 8;
/// Most operations of a turn.
const LONGEST_TURN: usize = 8;
/// Shares of the roofline that batched products reach.
const BATCHED: (f64, f64) = (0.2, 0.7);
/// Share of the baseline that batched operations reach at worst.
const SLOWER: f64 = 0.5;

/// Finds loops by what stacks their results.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|at| ended_by(scene, at)).collect();
    claims.settle(scene, found)
}

/// The loop whose results this operation stacks. Profilers do not record the shapes of long lists: then as many turns
/// count as there are.
fn ended_by(scene: &Scene<'_>, at: usize) -> Option<Instance> {
    let stack = scene.look(at);
    let results = &stack.operands;
    let equal = results.iter().all(|o| o.dims == results[0].dims);
    let told = (!results.is_empty()).then_some(results.len());
    if !is_stack(stack) || !equal || told.is_some_and(|n| n < LEAST_TURNS) {
        return None;
    }
    let before = scene.before(at);
    let (length, turns) = (1..=LONGEST_TURN).find_map(|length| {
        let last = at.checked_sub(length).filter(|&l| l >= before.start && may_be_turn(scene, l..at))?;
        let repeated = (before.start..last).rev().take_while(|&i| scene.are_alike(i, i + length)).count();
        let turns = 1 + repeated / length;
        let turns = told.unwrap_or(turns).min(turns);
        (turns >= told.unwrap_or(LEAST_TURNS)).then_some((length, turns))
    })?;
    let begin = at - turns * length;
    let turn = begin..begin + length;
    let result = results.first().map(|o| o.dims);
    stands_alone(scene, turn.clone(), result).then(|| instance(scene, turn, turns, at)).flatten()
}

fn is_stack(look: &Look<'_>) -> bool {
    matches!(look.base, "cat" | "stack")
}

/// Whether operations may be a turn: products and what comes with them. Nothing is stacked in it, so that what lies behind
/// another loop's end is not looked at.
fn may_be_turn(scene: &Scene<'_>, turn: Range<usize>) -> bool {
    let looks = || turn.clone().map(|i| scene.look(i));
    let fits = |l: &Look<'_>| matches!(l.kind, Kind::Matrix | Kind::Elementwise | Kind::Copy) && !is_stack(l);
    looks().all(fits) && looks().any(|l| l.kind == Kind::Matrix)
}

/// Whether a turn needs nothing of the turn before: what its operations read was taken out of a larger tensor, or they
/// gave it to each other, each value once, and what is left is the result. Only the first product may read what no one
/// gave, and only as the factor that is not its weight: all turns share it.
fn stands_alone(scene: &Scene<'_>, turn: Range<usize>, result: Option<&[i64]>) -> bool {
    // Shapes, with the type where an operation changes it.
    let mut given: Vec<(Vec<i64>, Option<&str>)> = Vec::new();
    let mut is_first = true;
    for at in turn {
        let (leaf, look) = (scene.leaf(at), scene.look(at));
        let is_product = look.kind == Kind::Matrix;
        let shared = (is_product && is_first).then(|| operands_before_factors(look.base));
        // The destination of a copy is written, not read.
        let read = usize::from(look.kind == Kind::Copy);
        let types = leaf.inputs.types.as_deref().unwrap_or_default();
        for (i, dims) in leaf.inputs.dims.iter().flatten().enumerate().skip(read) {
            let Some(dims) = dims.shape().filter(|d| d.len() >= 2) else { continue };
            let from = given.iter().position(|(shape, dtype)| {
                let fits = agree(shape, dims) || is_transposed(shape, dims);
                fits && dtype.is_none_or(|d| types.get(i).is_none_or(|t| t == d))
            });
            match from {
                Some(from) => drop(given.swap_remove(from)),
                None if leaf.takes_part(i) || shared == Some(i) => {}
                None => return false,
            }
        }
        is_first &= !is_product;
        let Some(gives) = look.result() else { return false };
        given.push((gives, types.first().map(String::as_str).filter(|_| look.kind == Kind::Copy)));
    }
    matches!(&given[..], [(last, _)] if result.is_none_or(|r| agree(last, r)))
}

fn is_transposed(a: &[i64], b: &[i64]) -> bool {
    a.len() == 2 && b.len() == 2 && a[0] == b[1] && a[1] == b[0]
}

fn instance(scene: &Scene<'_>, turn: Range<usize>, turns: usize, stack: usize) -> Option<Instance> {
    let leaves: Vec<LeafId> = (turn.start..=stack).map(|i| LeafId(i as u32)).collect();
    let backward = scene.backward_of(&leaves);
    let anchor = turn.clone().find(|&i| scene.look(i).kind == Kind::Matrix)?;
    let anchor = LeafId(anchor as u32);
    let kernels: usize = turn.clone().map(|i| scene.leaf(i).kernels.len()).sum();
    let mut instance = Instance::new(scene, Code::LoopedGemms, leaves, anchor, &[], Confidence::High);
    let time = batched(scene, &instance.leaves)?;
    instance.backward_fused = batched(scene, &backward).unwrap_or(Fused::NOTHING);
    instance.backward = backward;
    instance.fused = Some(time);
    instance.basis =
        format!("batched over {turns} turns they take {}-{} us a call", one(time.best_us), one(time.worst_us));
    let each = if turn.len() == 1 { "one operation".to_owned() } else { format!("{} operations", turn.len()) };
    instance.evidence.push(format!("{turns} equal turns of {each} on parts of larger tensors"));
    instance.facts = vec![("n", turns.to_string()), (KERNELS, kernels.to_string())];
    Some(instance)
}

/// Time of the same work done for all turns at once; nothing is stacked.
fn batched(scene: &Scene<'_>, leaves: &[LeafId]) -> Option<Fused> {
    let (mut roofline, mut products, mut rest) = (0.0, 0.0, Fused::NOTHING);
    for l in leaves {
        let (leaf, look) = (scene.program.leaf(*l), scene.look(l.index()));
        match look.kind {
            Kind::Matrix => {
                roofline += scene.roofline_us(look)?;
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
    let [worst_us, best_us] = [BATCHED.0, BATCHED.1].map(|share| (roofline / share).min(products));
    Some(rest.and(Fused { best_us, worst_us }))
}

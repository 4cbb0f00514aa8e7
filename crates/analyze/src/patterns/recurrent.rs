//! Recurrent layers written out step by step.
//!
//! # What it finds
//! At least sixteen equal turns of a matrix product from the state to its gates (`h @ u`, or of the input and the state side
//! by side), sigmoids and tangents of these, and products and sums of the results, which give a state of the same shape:
//! the loop over time of an LSTM or a GRU in Python, with one product for all gates or one for each.
//!
//! # Why it matters
//! The host launches ten or more small kernels for every step in time, forward and backward, where a library launches few
//! and without Python in between.
//!
//! # How it is computed
//! A step in time of the library's layers takes 12 to 30 us forward and 21 to 55 us backward, as measured for LSTMs and
//! GRUs of 8 to 256 rows and 256 to 1024 features, but no less than the products' roofline over 0.7 at best and over 0.3 at
//! worst. Where the host is the limit, the recorded schedule is run again with one turn in the place of all.
//!
//! # What to do
//! `torch.nn.LSTM` or `torch.nn.GRU` on the whole sequence.
//!
//! # Limits
//! Cells that differ from those of the library in their arithmetic look the same; those can be compiled or captured. Loops
//! without gates are not told from layers one after another, and neither are turns with modules of their own.

use super::claims::Claims;
use super::group::Instance;
use super::kind::{Kind, operands_before_factors};
use super::looped::{Turns, have_modules_of_their_own, is_stack};
use super::moe::KERNELS;
use super::scene::{Look, Operand, Scene};
use super::show::one;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;

/// Fewer turns are no sequence.
const LEAST_TURNS: usize = 16;
/// Most operations of a turn: eight products, with a cast before each, and the gates.
const LONGEST_TURN: usize = 40;
/// What a step in time of the library's layers takes in microseconds, forward and backward.
const FORWARD_US: (f64, f64) = (12.0, 30.0);
const BACKWARD_US: (f64, f64) = (21.0, 55.0);
/// Shares of the roofline that products reach.
const PRODUCTS: (f64, f64) = (0.3, 0.7);

/// Finds loops over time.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < scene.len() {
        let Some(turns) = repeated(scene, at) else {
            at += 1;
            continue;
        };
        if is_recurrent(scene, &turns) && turns.all().all(|i| claims.is_free(i)) {
            found.extend(instance(scene, &turns));
        }
        // What repeats is the same from wherever it is looked at.
        at = turns.all().end;
    }
    claims.settle(scene, found)
}

/// The turns that begin with a product here, if there are enough.
fn repeated(scene: &Scene<'_>, at: usize) -> Option<Turns> {
    if scene.look(at).kind != Kind::Matrix {
        return None;
    }
    let end = scene.after(at).end;
    // A product may stand in a turn more than once, so the first length that fits need not be it.
    let lengths = 1..=LONGEST_TURN.min(end - at - 1);
    lengths
        .filter(|&length| scene.are_alike(at, at + length))
        .map(|length| {
            let alike = (at..end - length).take_while(|&i| scene.are_alike(i, i + length)).count();
            Turns { begin: at, length, count: 1 + alike / length }
        })
        .find(|turns| turns.count >= LEAST_TURNS)
}

/// Whether turns go on with a state through gates.
fn is_recurrent(scene: &Scene<'_>, turns: &Turns) -> bool {
    let looks = || turns.first().map(|i| scene.look(i));
    let fits = looks().all(|l| matches!(l.kind, Kind::Matrix | Kind::Elementwise | Kind::Copy) || is_stack(l));
    let gates = |base: &str| looks().any(|l| l.kind == Kind::Elementwise && l.base == base);
    if !fits || !gates("sigmoid") || !gates("tanh") || have_modules_of_their_own(scene, turns) {
        return false;
    }
    // The state goes into a product, or is put beside the input before one, and comes out of the turn.
    let results = || looks().filter(|l| l.kind == Kind::Elementwise && l.base != "tanh").filter_map(Look::result);
    looks().any(|l| states(l).iter().any(|state| results().any(|result| result == state.dims)))
}

/// Operands of an operation that may be the state.
fn states<'l>(look: &'l Look<'_>) -> &'l [Operand<'l>] {
    match look.kind {
        Kind::Matrix => look.operands.get(operands_before_factors(look.base)..).map_or(&[], |o| &o[..o.len().min(1)]),
        _ if is_stack(look) => &look.operands,
        _ => &[],
    }
}

fn instance(scene: &Scene<'_>, turns: &Turns) -> Option<Instance> {
    let leaves: Vec<LeafId> = turns.all().map(|i| LeafId(i as u32)).collect();
    let backward = scene.backward_of(&leaves);
    let kernels: usize = turns.first().map(|i| scene.leaf(i).kernels.len()).sum();
    let anchor = LeafId(turns.begin as u32);
    let mut instance = Instance::new(scene, Code::UnfusedRecurrence, leaves, anchor, &[], Confidence::High);
    let time = time(scene, &instance.leaves, turns.count, FORWARD_US)?;
    instance.fused = Some(time);
    instance.backward_fused = time_or_now(scene, &backward, turns.count);
    instance.backward = backward;
    let (count, range) = (turns.count, format!("{}-{}", one(time.best_us), one(time.worst_us)));
    instance.basis = format!("{count} steps in time by one call take {range} us forward");
    let (name, layer) = layer(scene, turns);
    let each = turns.length;
    instance.evidence.push(format!("{count} equal turns of {each} operations pass a state on as {name} does"));
    instance.facts = vec![("n", count.to_string()), (KERNELS, kernels.to_string()), ("layer", layer.to_owned())];
    Some(instance)
}

/// The layer that has such gates, and what it is called in PyTorch: an LSTM takes the tangent of its state as well.
fn layer(scene: &Scene<'_>, turns: &Turns) -> (&'static str, &'static str) {
    let tangents = turns.first().filter(|&i| scene.look(i).base == "tanh").count();
    if tangents > 1 { ("an LSTM", "torch.nn.LSTM") } else { ("a GRU", "torch.nn.GRU") }
}

/// Time of so many steps in time. `None` where a product has no roofline.
fn time(scene: &Scene<'_>, leaves: &[LeafId], steps: usize, each: (f64, f64)) -> Option<Fused> {
    let products = leaves.iter().map(|l| scene.look(l.index())).filter(|l| l.kind == Kind::Matrix);
    let roofline = products.map(|l| scene.roofline_us(l)).sum::<Option<f64>>()?;
    let steps = steps as f64;
    Some(Fused {
        best_us: (steps * each.0).max(roofline / PRODUCTS.1),
        worst_us: (steps * each.1).max(roofline / PRODUCTS.0),
    })
}

/// The same of backward work, which stays as it is where nothing is known of it.
fn time_or_now(scene: &Scene<'_>, backward: &[LeafId], steps: usize) -> Fused {
    let now = scene.us(backward);
    time(scene, backward, steps, BACKWARD_US).unwrap_or(Fused { best_us: now, worst_us: now })
}

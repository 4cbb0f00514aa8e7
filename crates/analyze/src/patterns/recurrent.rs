//! Recurrent layers written out step by step.
//!
//! # What it finds
//! At least sixteen equal turns of a matrix product from the state to its gates (`h @ u`, or of the input and the state side
//! by side), sigmoids and tangents of these, and products and sums of the results, which give a state of the same shape:
//! the loop over time of an LSTM or a GRU in Python, with one product for all gates or one for each. Likewise cells of the
//! library (`LSTMCell`, `GRUCell`), which have one kernel for the gates, called again and again.
//!
//! # Why it matters
//! The host launches ten or more small kernels for every step in time, forward and backward, where a library launches few
//! and without Python in between.
//!
//! # How it is computed
//! A step in time of the library's layers takes 10 to 30 us forward and 16 to 55 us backward, as measured for LSTMs and
//! GRUs of 1 to 256 rows and 128 to 2048 features; 1.3 to 6.5 and 2 to 14 up to 128 features but in bf16; 1.8 to 18 and 3 to
//! 30 for LSTMs in fp16 up to 1024 features; but no less than the products' roofline over 0.7 at best and over 0.3 at worst.
//! Where the host is the limit, the recorded schedule is run again with one turn in the place of all.
//!
//! # What to do
//! `torch.nn.LSTM` or `torch.nn.GRU` on the whole sequence.
//!
//! # Limits
//! Cells that differ from those of the library in their arithmetic look the same; those can be compiled or captured. Loops
//! without gates are not told from layers one after another, and neither are turns with modules of their own.

use jarvis_perf::platform::Platform;

use super::claims::Claims;
use super::group::Instance;
use super::looped::{have_modules_of_their_own, is_stack};
use super::moe::KERNELS;
use super::scene::{Look, Operand, Scene};
use super::show::one;
use super::turns::Turns;
use super::{Code, Confidence, Fused};
use crate::program::LeafId;
use crate::program::kind::{Kind, operands_before_factors};

/// Fewer turns are no sequence.
const LEAST_TURNS: usize = 16;
/// Most operations of a turn: eight products, with a cast before each, and the gates.
const LONGEST_TURN: usize = 40;
/// What a step in time of the library's layers takes in microseconds, forward and backward.
const USUAL: Each = Each { forward_us: (10.0, 30.0), backward_us: (16.0, 55.0) };
/// The same up to so many features, whose weights stay where they are from step to step: there are no such kernels for
/// bf16.
const FEW_FEATURES: i64 = 128;
const OF_FEW_FEATURES: Each = Each { forward_us: (1.3, 6.5), backward_us: (2.0, 14.0) };
/// And of LSTMs in fp16, which have them for more; some numbers of rows don't take them.
const HALF_FEATURES: i64 = 1024;
const OF_HALF: Each = Each { forward_us: (1.8, 18.0), backward_us: (3.0, 30.0) };
/// Kernels for the gates of a cell of the library.
const CELLS: [(&str, Layer); 2] = [("_thnn_fused_lstm_cell", Layer::Lstm), ("_thnn_fused_gru_cell", Layer::Gru)];
/// Layers of the library that run cell by cell where they have no other kernel.
const LAYERS: [&str; 2] = ["aten::lstm", "aten::gru"];
/// Shares of the roofline that products reach.
const PRODUCTS: (f64, f64) = (0.3, 0.7);

/// A layer of the library.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Lstm,
    Gru,
}

/// What a step in time takes in microseconds, at best and at worst.
#[derive(Clone, Copy)]
struct Each {
    forward_us: (f64, f64),
    backward_us: (f64, f64),
}

impl Each {
    fn of(platform: &Platform, layer: Layer, state: &Operand<'_>) -> Self {
        let features = state.dims.last().copied().unwrap_or_default();
        match state.dtype {
            // Kernels that keep the weights are one vendor's.
            _ if platform.vendor.as_deref() != Some("NVIDIA") => USUAL,
            "c10::BFloat16" => USUAL,
            _ if features <= FEW_FEATURES => OF_FEW_FEATURES,
            "c10::Half" if layer == Layer::Lstm && features <= HALF_FEATURES => OF_HALF,
            _ => USUAL,
        }
    }
}

/// Finds loops over time.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < scene.len() {
        // Turns begin with a product.
        let is_product = scene.look(at).kind == Kind::Matrix;
        let span = at..scene.after(at).end;
        let turns = is_product.then(|| Turns::repeated(scene, span, LONGEST_TURN, LEAST_TURNS)).flatten();
        let Some(turns) = turns else {
            at += 1;
            continue;
        };
        if turns.all().all(|i| claims.is_free(i)) {
            found.extend(state(scene, &turns).and_then(|state| instance(scene, &turns, state)));
        }
        // What repeats is the same from wherever it is looked at.
        at = turns.all().end;
    }
    claims.settle(scene, found)
}

/// The state with which turns go on through gates, if they do.
fn state<'s>(scene: &'s Scene<'_>, turns: &Turns) -> Option<&'s Operand<'s>> {
    let looks = || turns.first().map(|i| scene.look(i));
    let may_be_part = |l: &Look<'_>| {
        matches!(l.kind, Kind::Matrix | Kind::Elementwise | Kind::Copy) || is_stack(l) || cell(l).is_some()
    };
    let of_library = turns.first().any(|i| scene.program.ops_around(scene.leaf(i)).any(|op| LAYERS.contains(&&**op)));
    if !looks().all(may_be_part) || of_library || have_modules_of_their_own(scene, turns) {
        return None;
    }
    // The state goes into a product, or is put beside the input before one, and comes out of the turn.
    let mut entering = looks().flat_map(states);
    if let Some(cell) = looks().find(|l| cell(l).is_some()) {
        // Gates of input and state come first, and then the state that the cell goes on with.
        let kept = cell.operands.get(2)?;
        return entering.find(|state| state.dims == kept.dims);
    }
    let gates = |base: &str| looks().any(|l| l.kind == Kind::Elementwise && l.base == base);
    if !gates("sigmoid") || !gates("tanh") {
        return None;
    }
    let results = || looks().filter(|l| l.kind == Kind::Elementwise && l.base != "tanh").filter_map(Look::result);
    entering.find(|state| results().any(|result| result == state.dims))
}

/// The layer whose cell an operation is the kernel of.
fn cell(look: &Look<'_>) -> Option<Layer> {
    CELLS.iter().find(|(name, _)| *name == look.base).map(|(_, layer)| *layer)
}

/// Operands of an operation that may be the state.
fn states<'l>(look: &'l Look<'_>) -> &'l [Operand<'l>] {
    match look.kind {
        Kind::Matrix => look.operands.get(operands_before_factors(look.base)..).map_or(&[], |o| &o[..o.len().min(1)]),
        _ if is_stack(look) => &look.operands,
        _ => &[],
    }
}

fn instance(scene: &Scene<'_>, turns: &Turns, state: &Operand<'_>) -> Option<Instance> {
    let leaves: Vec<LeafId> = turns.all().map(|i| LeafId(i as u32)).collect();
    let backward = scene.backward_of(&leaves);
    let kernels: usize = turns.first().map(|i| scene.leaf(i).kernels.len()).sum();
    let anchor = LeafId(turns.begin as u32);
    let mut instance = Instance::new(scene, Code::UnfusedRecurrence, leaves, anchor, &[], Confidence::High);
    let layer = layer(scene, turns);
    let each = Each::of(scene.platform, layer, state);
    let time = time(scene, &instance.leaves, turns.count, each.forward_us)?;
    instance.fused = Some(time);
    instance.backward_fused = time_or_now(scene, &backward, turns.count, each.backward_us);
    instance.backward = backward;
    let (count, range) = (turns.count, format!("{}-{}", one(time.best_us), one(time.worst_us)));
    instance.basis = format!("{count} steps in time by one call take {range} us forward");
    let (name, layer) = match layer {
        Layer::Lstm => ("an LSTM", "torch.nn.LSTM"),
        Layer::Gru => ("a GRU", "torch.nn.GRU"),
    };
    instance
        .evidence
        .push(format!("{count} equal turns of {} operations pass a state on as {name} does", turns.length));
    instance.facts = vec![("n", count.to_string()), (KERNELS, kernels.to_string()), ("layer", layer.to_owned())];
    Some(instance)
}

/// The layer that has such gates: an LSTM takes the tangent of its state as well.
fn layer(scene: &Scene<'_>, turns: &Turns) -> Layer {
    let looks = || turns.first().map(|i| scene.look(i));
    let tangents = looks().filter(|l| l.base == "tanh").count();
    looks().find_map(cell).unwrap_or(if tangents > 1 { Layer::Lstm } else { Layer::Gru })
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
fn time_or_now(scene: &Scene<'_>, backward: &[LeafId], steps: usize, each: (f64, f64)) -> Fused {
    let now = scene.us(backward);
    time(scene, backward, steps, each).unwrap_or(Fused { best_us: now, worst_us: now })
}

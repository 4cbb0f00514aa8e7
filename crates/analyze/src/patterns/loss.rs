//! A loss over many classes of separate kernels, as that over a vocabulary.
//!
//! # What it finds
//! A log-softmax over at least 1024 classes that moves at least 8 MB, a softmax with a logarithm after it, or a
//! logarithm of sums of exponentials; the casts, shifts, contiguous copies and scalings of the logits right before it;
//! what picks the targets' elements after it (`nll_loss`, `gather`, an index) and the sum of a smoothed loss; such sums
//! beside it, as a penalty of large logits has them; and their backward work: zeros, the gradient of the softmax, of
//! shifts and of casts. Small work on labels may stand among them.
//!
//! # Why it matters
//! The logits of a language model are its largest tensor. Each of these kernels reads or writes all of them, mostly in
//! full precision, where the loss needs one number of each row and its gradient can be made of the logits as they
//! came.
//!
//! # How it is computed
//! A compiled loss reads the logits in their own type, once at best and twice at worst, and writes next to nothing;
//! its backward reads them once more and writes the gradient in the same type. Arithmetic is mostly what bounds it, 40
//! to 57 instructions an element forward, 39 to 55 backward, 84 (in full precision 126) where rows are no multiple of
//! 16 bytes; with a smoothed loss 54 to 83 and 78 to 121. A shift of the logits goes at best, as one of the labels does
//! the same; compiled as it is, its backward takes up to 81 (159) instructions. `gather` becomes a cross entropy at best;
//! compiled as it is, its backward writes the zeros and reads them twice. Log-probabilities that nothing picks from
//! are written all the same. Sums of exponentials alone take 30 to 60 instructions an element.
//!
//! # What to do
//! Compile the loss with its casts and copies; shift the labels; or a fused linear cross entropy, which works on a few
//! tokens at a time and never has all logits.
//!
//! # Limits
//! Where something else needs the logits in full precision, their cast stays. Log-probabilities that other operations
//! on all of them follow, as in a divergence of two models, are told as a chain, and so are losses that make their own
//! log-softmax of exponentials and sums. Softmaxes over other dimensions than the last are not told.

use super::claims::Claims;
use super::fused::{LARGE_BYTES, Part, basis, instructions};
use super::group::Instance;
use super::normalizer::{Form, Normalizer, REACH, is_small, is_small_operand, picks};
use super::scene::{Look, Operand, Scene, element_size};
use super::show::dims;
use super::{Code, Confidence};
use crate::program::kind::Kind;
use crate::program::{Direction, LeafId};

const HINTS: &[&str] = &["loss", "criterion", "entropy"];
/// Fewer classes than this are a classifier's.
const LEAST_CLASSES: i64 = 1024;
/// A shift or a selection of rows leaves at least this part of the logits.
const MOST_CUT: i64 = 2;

/// Vector instructions of compiled losses for an element, at best and at worst, of 91 measured by themselves on an H200 with
/// 8192 to 256000 classes: forward, with the sum of a smoothed loss, and on top where log-probabilities are written. With
/// 1024 classes, whose rows stay in registers, thirteen took 25 to 49, and 80 with a shift.
const FORWARD: (f64, f64) = (40.0, 57.0);
const FORWARD_SMOOTHED: (f64, f64) = (54.0, 83.0);
const WRITING: (f64, f64) = (15.0, 35.0);
/// Of a softmax and its logarithm four took 51 to 60, of sums alone two took 35 and 57; sums beside a log-softmax, which a
/// compiler makes once more, 81 together.
const LOGARITHM_AT_WORST: f64 = 62.0;
const SUM: (f64, f64) = (30.0, 60.0);
/// The same backward, at best; at worst with rows that are a multiple of [`ALIGNED`] bytes and with others; the worst of
/// others in full precision, and where the logits were shifted.
const BACKWARD: (f64, [f64; 2]) = (39.0, [55.0, 84.0]);
const BACKWARD_SMOOTHED: (f64, [f64; 2]) = (78.0, [105.0, 121.0]);
const BACKWARD_FULL: f64 = 126.0;
const BACKWARD_SHIFTED: [f64; 2] = [81.0, 159.0];
const ALIGNED: f64 = 16.0;
/// How often the zeros that elements are picked from by index go through memory in a compiled backward: they are written, then
/// read for the sum of each row and again.
const TIMES_OF_ZEROS: f64 = 3.0;

/// Fact: logits of some tokens are copied out.
pub(super) const SHIFTED: &str = "shifted";
/// Fact: elements are picked by index, with a backward pass.
pub(super) const GATHERED: &str = "gathered";
/// Fact: there is a backward pass.
pub(super) const TRAINS: &str = "trains";
/// Fact: number of classes.
pub(super) const CLASSES: &str = "classes";
/// Fact: no loss is made of the log-probabilities.
pub(super) const BARE: &str = "bare";

/// What is made of the log-probabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// They are written for something else.
    Written,
    /// A loss of the library picks the targets'.
    Loss,
    /// Elements are picked by index.
    Gathered,
}

/// Finds losses around their softmax.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let found = (0..scene.len()).filter_map(|i| around(scene, claims, i)).collect();
    claims.settle(scene, found)
}

fn around(scene: &Scene<'_>, claims: &Claims, at: usize) -> Option<Instance> {
    let normalizer = Normalizer::at(scene, claims, at)?;
    let (look, form) = (scene.look(at), normalizer.form);
    let input = look.operands.first()?;
    let classes = *input.dims.last()?;
    if classes < LEAST_CLASSES || input.bytes() < LARGE_BYTES || input.dtype == "double" {
        return None;
    }
    let before = prepared(scene, claims, at, classes, form);
    let Uses { leaves: after, used, smoothed, sums } = used(scene, claims, &normalizer, &before)?;
    if form == Form::LogSoftmax && before.is_empty() && after.is_empty() {
        return None;
    }
    let id = |i: usize| LeafId(i as u32);
    let leaves: Vec<LeafId> = before.iter().rev().copied().chain(normalizer.leaves).chain(after).map(id).collect();
    let (anchor, outermost) = (id(at), scene.look(before.last().copied().unwrap_or(at)));
    let logits = outermost.read().iter().max_by_key(|o| o.numel())?;
    let computing = before.iter().copied().filter(|&i| scene.look(i).kind == Kind::Elementwise).map(id);
    let computing: Vec<LeafId> = computing.collect();
    let mut instance = Instance::new(scene, Code::UnfusedLoss, leaves, anchor, HINTS, Confidence::High);
    instance.backward = backward(scene, &instance.leaves);
    let trains = !instance.backward.is_empty();
    let loss = Loss {
        logits,
        elements: logits.numel() as f64,
        result: logits.numel() as f64 * result_size(scene, at),
        is_shifted: logits.numel() > input.numel() || before.iter().any(|&i| takes_rows(scene.look(i))),
        form,
        used,
        smoothed,
        sums,
        before: instructions(scene, &computing),
    };
    let mut parts = vec![loss.forward()];
    instance.fused = Some(loss.forward().time(scene));
    if trains {
        instance.backward_fused = loss.backward().time(scene);
        parts.push(loss.backward());
    }
    instance.basis = basis(scene, &parts);
    let facts = [
        (SHIFTED, loss.is_shifted),
        (GATHERED, trains && used == Use::Gathered),
        (TRAINS, trains),
        (BARE, used == Use::Written),
    ];
    instance.facts.extend(facts.into_iter().filter(|f| f.1).map(|f| (f.0, "true".to_owned())));
    instance.facts.push((CLASSES, classes.to_string()));
    let what = match form {
        Form::LogSoftmax => "a log-softmax",
        Form::Logarithm | Form::Picked => "a softmax and its logarithm",
        Form::Sum => "a logarithm of sums of exponentials",
    };
    instance.evidence.push(format!("{what} of {} with what comes before and after it", dims(&look.full)));
    Some(instance)
}

/// Bytes of a log-probability: a softmax of half precision may give its result in full.
fn result_size(scene: &Scene<'_>, softmax: usize) -> f64 {
    let concrete = scene.leaf(softmax).inputs.concrete.as_ref();
    let widens = concrete.and_then(|c| c.get(2)).is_some_and(|c| c == "True");
    let size = scene.look(softmax).operands.first().map_or(4.0, |o| element_size(o.dtype));
    if widens { size.max(4.0) } else { size }
}

/// What makes the softmax's input of the logits, last first: copies, and work on each element that brings in no other tensor
/// of that size. Sums are held against elements that may have been picked of the logits before.
fn prepared(scene: &Scene<'_>, claims: &Claims, softmax: usize, classes: i64, form: Form) -> Vec<usize> {
    let n = scene.look(softmax).numel();
    let mut found = Vec::new();
    let mut least = n;
    for i in scene.before(softmax).rev().take(REACH) {
        let look = scene.look(i);
        if is_small(look, n) {
            continue;
        }
        let is_large = |o: &&Operand<'_>| !is_small_operand(o, n);
        let has_size =
            look.full.last() == Some(&classes) && (least..=n.saturating_mul(MOST_CUT)).contains(&look.numel());
        let works =
            matches!(look.kind, Kind::Copy | Kind::Elementwise) && look.read().iter().filter(is_large).count() == 1;
        let is_picked = form == Form::Sum && picks(look.kind, look.base);
        if !has_size || !(works || is_picked) || !claims.is_free(i) {
            break;
        }
        least = look.numel();
        found.push(i);
    }
    found
}

/// Whether a copy takes some rows out of a tensor, as a shift by a token does.
fn takes_rows(look: &Look<'_>) -> bool {
    let has_gaps = |o: &Operand<'_>| !o.is_contiguous() && o.strides.is_some_and(|s| s.last() == Some(&1));
    look.kind == Kind::Copy && look.read().iter().any(has_gaps)
}

/// What becomes of normalized logits.
struct Uses {
    leaves: Vec<usize>,
    used: Use,
    /// Whether it is a smoothed loss.
    smoothed: bool,
    /// Whether their sums of exponentials are made beside them.
    sums: bool,
}

/// What reads them right after they are made. `None` where they go into a longer function.
fn used(scene: &Scene<'_>, claims: &Claims, normalizer: &Normalizer, before: &[usize]) -> Option<Uses> {
    let last = normalizer.last();
    let n = scene.look(last).numel();
    let is_sum = normalizer.form == Form::Sum;
    let was_picked = is_sum && before.iter().any(|&i| picks(scene.look(i).kind, scene.look(i).base));
    // Of a sum nothing is left that is as large as the logits.
    let first = match () {
        () if was_picked => Use::Gathered,
        () if is_sum => Use::Loss,
        () => Use::Written,
    };
    let mut uses = Uses { leaves: Vec::new(), used: first, smoothed: false, sums: false };
    let mut taken = last;
    for i in scene.after(last).take(REACH) {
        let look = scene.look(i);
        if scene.leaf(i).direction == Direction::Backward {
            break;
        }
        if i <= taken || is_small(look, n) {
            continue;
        }
        let is_free = look.numel() == n && claims.is_free(i);
        let sums = || Normalizer::at(scene, claims, i).filter(|more| more.form == Form::Sum);
        match (look.kind, look.base) {
            (_, base) if is_free && base.starts_with("nll_loss") => uses.used = Use::Loss,
            (kind, base) if is_free && picks(kind, base) && (uses.used == Use::Written || is_sum) => {
                uses.used = Use::Gathered;
            }
            (Kind::Reduce, "sum" | "mean") if is_free && uses.used != Use::Written => uses.smoothed = true,
            (Kind::Reduce, "amax" | "max") if is_free && !is_sum && uses.used != Use::Written && !uses.sums => {
                let Some(more) = sums() else { break };
                taken = more.last();
                uses.sums = true;
                uses.leaves.extend(more.leaves);
                continue;
            }
            // What they are compared with may be made first, as by another model.
            (Kind::Copy | Kind::Softmax, _) if look.numel() == n && uses.used == Use::Written => continue,
            // All of them go into something else, or another pattern has that.
            (Kind::Elementwise | Kind::Index | Kind::Reduce | Kind::Other, _)
                if look.numel() == n && (uses.used == Use::Written || is_sum) =>
            {
                return None;
            }
            _ => break,
        }
        uses.leaves.push(i);
    }
    Some(uses)
}

/// The backward work of a loss; the products of the layer before it are not its own.
fn backward(scene: &Scene<'_>, leaves: &[LeafId]) -> Vec<LeafId> {
    let mut found = scene.backward_of(leaves);
    found.retain(|l| {
        let kind = scene.look(l.index()).kind;
        !matches!(kind, Kind::Matrix | Kind::Grouped | Kind::Convolution | Kind::Attention | Kind::Norm)
    });
    found
}

/// A loss and the logits that it begins with.
struct Loss<'s> {
    logits: &'s Operand<'s>,
    elements: f64,
    /// Bytes of log-probabilities of all of them.
    result: f64,
    is_shifted: bool,
    form: Form,
    used: Use,
    smoothed: bool,
    /// Whether sums of exponentials are made beside.
    sums: bool,
    /// Instructions of what is computed of them before the softmax.
    before: f64,
}

impl Loss<'_> {
    /// Whether rows of logits begin at whole words.
    fn is_aligned(&self) -> bool {
        let classes = self.logits.dims.last().copied().unwrap_or_default();
        (classes as f64 * element_size(self.logits.dtype)) % ALIGNED == 0.0
    }

    fn forward(&self) -> Part {
        let (mut least, mut most) = match self.form {
            _ if self.smoothed => FORWARD_SMOOTHED,
            Form::Sum => SUM,
            Form::LogSoftmax => FORWARD,
            Form::Logarithm | Form::Picked => (FORWARD.0, LOGARITHM_AT_WORST),
        };
        if self.sums {
            most += SUM.1;
        }
        let bytes = self.logits.bytes();
        let mut part = Part { reads: (bytes, 2.0 * bytes), ..Part::default() };
        if self.used == Use::Written {
            (least, most) = (least + WRITING.0, most + WRITING.1);
            part.writes = self.result;
        }
        part.instructions = (self.before + least * self.elements, self.before + most * self.elements);
        part
    }

    fn backward(&self) -> Part {
        let (least, most) = if self.smoothed { BACKWARD_SMOOTHED } else { BACKWARD };
        let at = usize::from(!self.is_aligned());
        let is_full = !self.is_aligned() && element_size(self.logits.dtype) >= 4.0;
        let at_least = |holds: bool, instructions: f64| if holds { instructions } else { 0.0 };
        let most = most[at].max(at_least(self.is_shifted, BACKWARD_SHIFTED[at])).max(at_least(is_full, BACKWARD_FULL));
        let bytes = self.logits.bytes();
        let mut part = Part::moving(bytes, bytes);
        match self.used {
            Use::Loss => {}
            Use::Gathered => part.reads.1 += TIMES_OF_ZEROS * self.result,
            // Their gradient is read for the sum of each row, and again where rows are long.
            Use::Written => part.reads = (bytes + self.result, bytes + 2.0 * self.result),
        }
        // What was computed before is computed again, and has a gradient.
        let before = 2.0 * self.before;
        part.instructions = (before + least * self.elements, before + most * self.elements);
        part
    }
}

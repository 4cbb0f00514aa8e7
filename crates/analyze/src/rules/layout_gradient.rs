//! Gradients that come channels first into a network of channels-last images: that of an average over the sides does,
//! whatever the images' layout, and sums of images pass it on to all blocks between them.

use super::cx::CategoryCx;
use super::layout::{Layout, norm_saving, norms};
use crate::finding::Range;
use crate::patterns::scene::{element_size, reduced};
use crate::program::kind::{self, Kind};
use crate::program::{Direction, Leaf, Program};

/// How much longer operations take at most where one of their images lies channels first and the other channels-last: for
/// elements of two bytes, then for larger ones. Of six shapes from 64x1024x7x7 to 64x192x64x64 on an H200.
#[derive(Clone, Copy)]
struct Slower {
    half: f64,
    single: f64,
}

/// Gradients that are added, beyond the time of the sum itself: 1.2 to 4.6 and 1.2 to 1.6 times as long.
const ADDED: Slower = Slower { half: 4.6, single: 1.6 };

/// What a block ends with turns its gradient, an elementwise function in its backward and a convolution before it: 0.7 to
/// 4.7 and 0.7 to 2.5 times the sum.
const TURNED: Slower = Slower { half: 4.7, single: 2.5 };

/// The backward of a batch norm beyond what it takes now: it took 0.8 to 2.0 and 0.4 to 1.6 times as long.
const NORM: Slower = Slower { half: 1.0, single: 0.6 };

/// Functions whose backward lays its result out as what they gave, so that the gradient goes on channels-last. That of
/// others takes the layout of the gradient it gets.
const TURN_BACK: [&str; 4] = ["clamp_min", "leaky_relu", "relu", "threshold"];

/// Sums of images whose gradient is that of an average.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstGradients {
    pub(super) sums: usize,
    /// How much longer the backward takes, in milliseconds: next to nothing where the gradient is turned once.
    pub(super) ms: Range,
}

impl FirstGradients {
    pub(super) fn of(cx: &CategoryCx<'_>) -> Self {
        let program = &cx.prepared.program;
        let backward = backward(program);
        let forward: Vec<(usize, &Leaf)> =
            program.leaves.iter().enumerate().filter(|(_, l)| l.direction == Direction::Forward).collect();
        let turning = norms(cx);
        let mut found = Self { sums: 0, ms: Range::new(0.0, 0.0) };
        // From the end to the beginning: images that get the gradient of an average.
        let mut trunk: Option<&[i64]> = None;
        for (at, &(id, leaf)) in forward.iter().enumerate().rev() {
            let before = forward[..at].iter().rev().map(|f| f.1);
            if let Some(image) = averaged(leaf).filter(|_| backward[id].is_some()) {
                let mut left = before.clone().skip_while(|l| passes_on(l, image));
                // What else is averaged is a part of a block, as where channels are weighted.
                if left.next().is_some_and(|l| summed(l) == Some(image)) {
                    trunk = Some(image);
                }
            }
            let (Some(image), Some(sum)) = (trunk, summed(leaf)) else { continue };
            if sum != image || forward.get(at + 1).is_some_and(|next| turns_back(next.1, image)) {
                // The gradient comes from a convolution or such a function there, and lies as the images do.
                trunk = None;
                continue;
            }
            found.sums += 1;
            let half = leaf.inputs.types.iter().filter_map(|t| t.first()).any(|t| element_size(t) <= 2.0);
            let of = |slower: Slower| if half { slower.half } else { slower.single };
            let norm = forward[..at].last().filter(|f| is_batch_norm(f.1)).and_then(|f| backward[f.0]);
            let block_ms = norm.map_or(of(TURNED) * leaf.us / 1e3, |norm| {
                // Nor does it gain what such norms gain.
                let row = norm.row.and_then(|r| turning.iter().find(|row| row.id == r));
                let gain = row.map_or(0.0, |row| norm_saving(cx, &[row]).high / row.time_ms.max(f64::MIN_POSITIVE));
                (of(NORM) + gain) * norm.us / 1e3
            });
            found.ms.high += of(ADDED) * leaf.us / 1e3 + block_ms;
        }
        found
    }
}

/// For each leaf one that its backward launched; of norms the norm's.
fn backward(program: &Program) -> Vec<Option<&Leaf>> {
    let mut all: Vec<Option<&Leaf>> = vec![None; program.leaves.len()];
    for leaf in program.leaves.iter().filter(|l| l.direction == Direction::Backward && !l.is_repeated) {
        let Some(of) = leaf.forward.and_then(|f| all.get_mut(f.index())) else { continue };
        if of.is_none() || is_batch_norm(leaf) {
            *of = Some(leaf);
        }
    }
    all
}

fn is_batch_norm(leaf: &Leaf) -> bool {
    leaf.kind == Kind::Norm && leaf.name.contains("batch_norm")
}

/// The shape of an image that is an argument of a call.
fn image(leaf: &Leaf, argument: usize) -> Option<&[i64]> {
    leaf.inputs.dims.as_ref()?.get(argument)?.shape().filter(|dims| dims.len() >= 4)
}

/// The images that are averaged over all their sides, if they lie channels first.
fn averaged(leaf: &Leaf) -> Option<&[i64]> {
    let dims = image(leaf, 0).filter(|_| kind::base(&leaf.name) == "mean")?;
    let rank = dims.len() as i64;
    let mut over = reduced(&leaf.inputs, "mean", rank)?;
    over.sort_unstable();
    let sides = over.into_iter().eq(2..rank);
    (sides && Layout::of_inputs(&leaf.inputs) == Some(Layout::Contiguous)).then_some(dims)
}

/// The images that are summed, one by one.
fn summed(leaf: &Leaf) -> Option<&[i64]> {
    let dims = image(leaf, 0).filter(|_| kind::base(&leaf.name) == "add")?;
    (image(leaf, 1) == Some(dims)).then_some(dims)
}

/// Whether the backward of an elementwise function of such images takes the layout of the gradient.
fn passes_on(leaf: &Leaf, dims: &[i64]) -> bool {
    let is_one = leaf.kind == Kind::Elementwise && summed(leaf).is_none();
    is_one && image(leaf, 0) == Some(dims) && !turns_back(leaf, dims)
}

fn turns_back(leaf: &Leaf, dims: &[i64]) -> bool {
    TURN_BACK.contains(&kind::base(&leaf.name)) && image(leaf, 0) == Some(dims)
}

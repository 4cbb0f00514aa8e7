//! Norms written out operation by operation.
//!
//! # What it finds
//! RMS norm: squares, their mean over the last dimensions, a root, the product with the input, a weight; or the length of
//! each row and the division by it. Layer norm: the same with the mean taken off (or a variance). Group norm: the same
//! with weights of the channels, on the tensor in its own shape; instance norm: with a mean for each channel. Layer norms
//! over the channels of images are in it too, and batch norms: with means over all dimensions but the second. Casts before
//! and after belong to it, and the backward work that autograd ran for it.
//!
//! # Why it matters
//! Eight kernels read and write the whole tensor where one would read it once and write it once.
//!
//! # How it is computed
//! Leaves in a row that each do one step of a norm on the same tensor: square, reduce, shift, root, scale, weight, cast.
//! The row must have a reduction, a root and a scaling by the root, and at least 4 leaves. A fused norm reads the input
//! and writes the output (backward: two reads, one write), at best as well as simple operations of the trace do or
//! somewhat better. At worst it reaches a share of the peak bandwidth that depends on the bytes of a row, for layer norm
//! and RMS norm: 33% and 40% from 4096 on, 29% and 35% from 2048 on, 20% and 25% from 1024 on, 12% and 15% from 512 on,
//! below that 6% and 11% at 256 and in proportion. Group norms reach 12% at worst, backward work 25% from rows of 512
//! bytes on and less in proportion below. Batch norms read their input twice, and reach between 8% and 38% in half
//! precision (19% and 40% with channels last), between 25% and 67% in full (45% and 80%).
//!
//! # What to do
//! `torch.nn.functional.rms_norm`, `layer_norm` or `group_norm`, or compile the module.
//!
//! # Limits
//! Norms over groups and channels without weights are not told from layer norms. A product of two different tensors right
//! before a mean looks like a square.

use super::chain;
use super::claims::Claims;
use super::fused::{Part, passes};
use super::group::Instance;
use super::scene::{Look, Operand, Scene, numel, reduced};
use super::show::dims;
use super::{Code, Confidence};
use crate::program::LeafId;
use crate::program::kind::Kind;

const HINTS: &[&str] = &["norm"];
/// How the names of norms over the channels of images end.
pub(super) const OVER_CHANNELS: &str = " over channels";
/// Fewer leaves are no norm.
const LEAST_LEAVES: usize = 4;
/// Shares of the peak bandwidth that the framework's fused norms reach at worst, by the bytes of a row: layer norm, RMS
/// norm. Of forty recorded ones all that move more than 10 MB lay above; a block of threads to a row has little to do where
/// rows are short.
const WORST: [(f64, [f64; 2]); 4] =
    [(4096.0, [0.33, 0.40]), (2048.0, [0.29, 0.35]), (1024.0, [0.20, 0.25]), (512.0, [0.12, 0.15])];
/// The same of rows of 256 bytes. Shorter ones take as long as these: from 32 to 512 bytes the share was proportional to
/// the length, 0.07 to 0.10 and 0.14 to 0.18 at this one.
const WORST_OF_SHORT: (f64, [f64; 2]) = (256.0, [0.06, 0.11]);
/// The same of their backward, which also reduces over the rows for the weights: of rows that are not shorter than this,
/// and less in proportion of others.
const WORST_BACKWARD: (f64, f64) = (512.0, 0.25);
/// The same of group norms, which take a kernel for the means and one for the rest: seven recorded ones that move more
/// than 10 MB reached 0.12 to 0.18.
const WORST_OF_GROUPS: f64 = 0.12;
/// What batch norms reach of the peak bandwidth, at worst and at best, forward and backward: in half precision and in
/// full, with channels first and last. Of 28 measured on an H200 that move more than 75 MB, and eight compiled ones; channels
/// first are slow where there are few of them, for each has a block of threads.
const OF_BATCHES: [[BatchShares; 2]; 2] = [
    [((0.08, 0.38), (0.075, 0.26)), ((0.19, 0.40), (0.22, 0.57))],
    [((0.25, 0.67), (0.18, 0.58)), ((0.45, 0.80), (0.50, 0.85))],
];
/// Forward and backward, each at worst and at best.
type BatchShares = ((f64, f64), (f64, f64));
/// Steps searched after a reduction; batch norms may keep averages of what they find.
const REACH: usize = 12;
const REACH_OF_BATCH: usize = 20;

/// One step of a norm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Cast,
    Square,
    Mean,
    /// Variance or standard deviation: squares and means in one.
    Spread,
    /// The length of a row: squares, sums and their root in one.
    Length,
    Shift,
    /// On the means: adding epsilon, casting.
    Small,
    Root,
    Scale,
    Weight,
    /// One weight for each channel of the tensor in its own shape.
    ChannelWeight,
}

/// Finds norms around reductions.
pub(super) fn find(scene: &Scene<'_>, claims: &mut Claims) -> Vec<Instance> {
    let mut found: Vec<Instance> = Vec::new();
    let mut next = 0;
    for at in 0..scene.len() {
        if at < next || scene.look(at).kind != Kind::Reduce || !claims.is_free(at) {
            continue;
        }
        if let Some((instance, end)) = around(scene, claims, at) {
            next = end;
            found.push(instance);
        }
    }
    // A norm that no module holds may be a step of a longer function.
    let (of_modules, bare): (Vec<Instance>, Vec<Instance>) =
        found.into_iter().partition(|norm| scene.common_module(&norm.leaves).is_some());
    let bare = chain::no_part_of_more(scene, claims, bare);
    claims.settle(scene, of_modules.into_iter().chain(bare).collect())
}

/// The tensor that is normalised.
struct Tensor<'s> {
    dims: &'s [i64],
    numel: i64,
    /// Number of means.
    rows: i64,
    /// Dimension that the means are taken over, counted from the end: the last is 1, also where more go with it.
    axis: usize,
    /// Whether they are taken over all but the channels.
    of_batch: bool,
}

impl Tensor<'_> {
    /// Elements that share a mean.
    fn row(&self) -> i64 {
        self.numel / self.rows.max(1)
    }

    fn is_full(&self, o: &Operand<'_>) -> bool {
        o.numel() == self.numel
    }

    /// Whether the means are taken over the channels of images, which lie in the middle.
    fn is_over_channels(&self) -> bool {
        self.axis > 2
    }

    /// Of sizes or strides, that of the dimension that the means are taken over.
    fn along(&self, list: &[i64]) -> Option<i64> {
        list.len().checked_sub(self.axis).map(|at| list[at])
    }

    /// Whether the elements that share a mean lie together.
    fn is_contiguous(&self, look: &Look<'_>) -> bool {
        look.operands.first().and_then(|o| self.along(o.strides?)) == Some(1)
    }

    /// Has one element for each mean, and keeps the place of the others or stands for all of them.
    fn is_row(&self, o: &Operand<'_>) -> bool {
        let expanded = self.is_full(o) && o.strides.is_some_and(|s| self.along(s) == Some(0));
        expanded || o.numel() == self.rows && (self.of_batch || self.along(o.dims) == Some(1))
    }

    /// Whether an operation lays one number for each channel over the tensor, which is back in the shape it had before
    /// its channels were put into groups, or has a mean for each channel.
    fn has_channel_weight(&self, look: &Look<'_>) -> bool {
        let [_, channels, _, ..] = look.full[..] else { return false };
        let is_weight = |o: &Operand<'_>| o.numel() == channels && o.dims.last() == Some(&1);
        !self.is_over_channels()
            && !self.of_batch
            && (look.full.len() != self.dims.len() || self.rows > channels)
            && look.operands.len() == 2
            && look.operands.iter().any(|o| self.is_full(o))
            && look.operands.iter().any(is_weight)
    }

    fn is_weight(&self, o: &Operand<'_>) -> bool {
        o.numel() == self.row() && self.along(o.dims) == self.along(self.dims)
    }
}

fn around(scene: &Scene<'_>, claims: &Claims, reduce: usize) -> Option<(Instance, usize)> {
    let look = scene.look(reduce);
    let (rows, axis, of_batch) = rows(scene, reduce)?;
    let tensor = Tensor { dims: &look.full, numel: look.numel(), rows, axis, of_batch };
    if tensor.row() < 2 || rows < 1 || numel(tensor.dims) == 0 {
        return None;
    }
    let step_at = |i: usize| step(scene, i, &tensor).filter(|_| claims.is_free(i));
    let mut first = reduce;
    // Before the first reduction stand at most the square of its input, or the shift for a variance, and a cast.
    for i in scene.before(reduce).rev().take(2) {
        match step_at(i) {
            Some(Step::Cast | Step::Square) => first = i,
            _ => break,
        }
    }
    // Where the input is cast for the means and once more for the scaling, both casts stand before them.
    let before = scene.before(first).next_back().filter(|&i| step_at(i) == Some(Step::Cast));
    if let Some(again) = before.filter(|&i| step_at(first) == Some(Step::Cast) && scene.are_alike(i, first)) {
        first = again;
    }
    let mut steps: Vec<(usize, Step)> = (first..reduce).filter_map(|i| step_at(i).map(|s| (i, s))).collect();
    steps.push((reduce, step_at(reduce)?));
    for i in scene.after(reduce).take(if of_batch { REACH_OF_BATCH } else { REACH }) {
        let Some(s) = step_at(i) else { break };
        // Weights of channels have the shape of the means.
        let scaled = of_batch && steps.iter().any(|s| s.1 == Step::Scale);
        steps.push((i, if scaled && s == Step::Scale { Step::ChannelWeight } else { s }));
    }
    trim(scene, &mut steps, of_batch);
    let has = |s: Step| steps.iter().any(|x| x.1 == s);
    let squares = has(Step::Square) || has(Step::Spread) || has(Step::Length);
    let roots = has(Step::Root) || has(Step::Length) || scene_has_std(scene, &steps);
    if steps.len() < LEAST_LEAVES || !has(Step::Scale) || !squares || !roots {
        return None;
    }
    let end = steps.last()?.0 + 1;
    let code = match () {
        () if of_batch => Code::UnfusedBatchNorm,
        () if has(Step::Shift) || has(Step::Spread) => Code::UnfusedLayerNorm,
        () => Code::UnfusedRmsNorm,
    };
    Some((instance(scene, code, &steps, reduce, &tensor), end))
}

fn scene_has_std(scene: &Scene<'_>, steps: &[(usize, Step)]) -> bool {
    steps.iter().any(|s| scene.look(s.0).base == "std")
}

/// A norm ends with its scaling, its weights or a cast; what follows is something else, such as the next norm. A cast
/// right before that one is its own. A batch norm may keep averages of its means before it comes to its weights.
fn trim(scene: &Scene<'_>, steps: &mut Vec<(usize, Step)>, of_batch: bool) {
    let Some(scale) = steps.iter().position(|s| s.1 == Step::Scale) else { return };
    let is_end = |s: &(usize, Step)| {
        matches!(s.1, Step::Weight | Step::ChannelWeight | Step::Cast) || of_batch && s.1 == Step::Small
    };
    if let Some(beyond) = steps[scale + 1..].iter().position(|s| !is_end(s)) {
        steps.truncate(scale + 1 + beyond);
        if let Some(&(cast, _)) = steps.last().filter(|s| s.1 == Step::Cast) {
            steps.pop();
            // The next one casts its input twice.
            steps.pop_if(|s| s.1 == Step::Cast && scene.are_alike(s.0, cast));
        }
    }
    while of_batch && steps.last().is_some_and(|s| s.1 == Step::Small) {
        steps.pop();
    }
}

/// Number of means that a reduction gives, the dimension it goes over, counted from the end, and whether it goes over all
/// but the channels: from its `dim` argument, else over the last one.
fn rows(scene: &Scene<'_>, at: usize) -> Option<(i64, usize, bool)> {
    let look = scene.look(at);
    let rank = look.full.len() as i64;
    let known = matches!(look.base, "mean" | "sum" | "var" | "std" | "var_mean" | "linalg_vector_norm" | "norm");
    if rank == 0 || !known {
        return None;
    }
    let given = reduced(&scene.leaf(at).inputs, look.base, rank).filter(|list| !list.is_empty());
    let mut over = given.unwrap_or_else(|| vec![rank - 1]);
    over.sort_unstable();
    if over == [1] && rank > 3 {
        // The channels of images.
        let channels = look.full[1].max(1);
        return Some((numel(&look.full) / channels, look.full.len() - 1, false));
    }
    if rank > 1 && over.iter().copied().eq((0..rank).filter(|d| *d != 1)) {
        return Some((look.full[1], if rank > 2 { 1 } else { 2 }, true));
    }
    // The last dimensions, without a gap.
    let tail = (0..).zip(over.iter().rev()).all(|(i, d)| *d == rank - 1 - i);
    let before = look.full.len().checked_sub(over.len())?;
    (tail && !over.is_empty()).then(|| (numel(&look.full[..before]), 1, false))
}

fn step(scene: &Scene<'_>, at: usize, tensor: &Tensor<'_>) -> Option<Step> {
    let look = scene.look(at);
    let operands = &look.operands;
    let all = |test: &dyn Fn(&Operand<'_>) -> bool| !operands.is_empty() && operands.iter().all(test);
    let full = |o: &Operand<'_>| tensor.is_full(o);
    let pair = |test: &dyn Fn(&Operand<'_>) -> bool| {
        operands.len() == 2 && operands.iter().any(full) && operands.iter().any(test)
    };
    let row = |o: &Operand<'_>| tensor.is_row(o);
    let weight = |o: &Operand<'_>| tensor.is_weight(o);
    match (look.kind, look.base) {
        (Kind::Copy, _) if all(&full) => look.is_cast().then_some(Step::Cast),
        (Kind::Elementwise, "mul" | "add") if tensor.has_channel_weight(look) => Some(Step::ChannelWeight),
        // The root itself is cast back, to scale the input as it came.
        (Kind::Copy, _) if all(&row) && look.is_cast() => Some(Step::Small),
        (Kind::Reduce, "mean" | "sum") if all(&full) => Some(Step::Mean),
        (Kind::Reduce, "var" | "std" | "var_mean") if all(&full) => Some(Step::Spread),
        (Kind::Reduce, "linalg_vector_norm" | "norm") if all(&full) => Some(Step::Length),
        (Kind::Elementwise, "pow" | "square") if all(&full) => Some(Step::Square),
        // A constant factor, as the root of the row's length.
        (Kind::Elementwise, "mul" | "div") if operands.len() == 1 && all(&full) => Some(Step::Weight),
        // With a single row the weight is as large as the tensor.
        (Kind::Elementwise, "mul" | "add") if tensor.rows == 1 && all(&full) && ranks_differ(look) => {
            Some(Step::Weight)
        }
        (Kind::Elementwise, "mul") if operands.len() == 2 && all(&full) && !operands.iter().any(row) => {
            followed_by_mean(scene, at, tensor).then_some(Step::Square)
        }
        (Kind::Elementwise, "rsqrt" | "sqrt" | "pow" | "reciprocal") if all(&row) => Some(Step::Root),
        (Kind::Elementwise, "add" | "div" | "mul" | "clamp_min" | "sub") if all(&row) => Some(Step::Small),
        (Kind::Elementwise, "sub") if pair(&row) => Some(Step::Shift),
        (Kind::Elementwise, "mul" | "div") if pair(&row) => Some(Step::Scale),
        (Kind::Elementwise, "add") if tensor.of_batch && pair(&row) => Some(Step::ChannelWeight),
        (Kind::Elementwise, "mul" | "add" | "div") if pair(&weight) => Some(Step::Weight),
        // Work on the weight itself, such as adding one to it or casting it.
        (Kind::Elementwise | Kind::Copy, _) if all(&weight) => Some(Step::Weight),
        _ => None,
    }
}

fn ranks_differ(look: &Look<'_>) -> bool {
    matches!(&look.operands[..], [a, b] if a.dims.len() != b.dims.len())
}

fn followed_by_mean(scene: &Scene<'_>, at: usize, tensor: &Tensor<'_>) -> bool {
    let next = scene.after(at).next();
    next.is_some_and(|i| matches!(scene.look(i).base, "mean" | "sum") && scene.look(i).numel() == tensor.numel)
}

fn instance(scene: &Scene<'_>, code: Code, steps: &[(usize, Step)], reduce: usize, tensor: &Tensor<'_>) -> Instance {
    let leaves: Vec<LeafId> = steps.iter().map(|s| LeafId(s.0 as u32)).collect();
    let anchor = LeafId(reduce as u32);
    let mut instance = Instance::new(scene, code, leaves, anchor, HINTS, Confidence::High);
    instance.backward = scene.backward_of(&instance.leaves);
    let n = tensor.numel as f64;
    let (input, output) = ends(scene, &instance.leaves);
    let weight = steps.iter().find(|s| s.1 == Step::ChannelWeight).map(|s| scene.look(s.0));
    let in_groups = weight.is_some() && !tensor.of_batch;
    let row_bytes = tensor.row() as f64 * input;
    let worst = if in_groups { WORST_OF_GROUPS } else { worst(code, row_bytes) };
    let mut forward = Part { known_share: Some(worst), ..Part::moving(n * input, n * output) };
    let channels_last = || first_full(scene, &instance.leaves).and_then(|o| o.strides?.get(1).copied()) == Some(1);
    let of_batch = tensor.of_batch.then(|| OF_BATCHES[usize::from(input > 2.0)][usize::from(channels_last())]);
    if let Some(((worst, best), _)) = of_batch {
        // Once for the means, once to shift and scale.
        forward =
            Part { known_share: Some(worst), best_share: Some(best), ..Part::moving(2.0 * n * input, n * output) };
    } else if tensor.is_over_channels() && !tensor.is_contiguous(scene.look(reduce)) {
        // The framework's own takes rows that lie together: a copy before it and one after.
        forward.reads.1 += 2.0 * n * (input + output);
    } else if first_full(scene, &instance.leaves).is_some_and(|o| !o.is_contiguous()) {
        // A part of a larger tensor is copied first.
        forward.reads.1 += 2.0 * n * input;
    }
    let forward = forward.computing(scene, &instance.leaves, passes(1, tensor.row()));
    instance.fused = Some(forward.time(scene));
    instance.basis = forward.basis(scene);
    let worst = WORST_BACKWARD.1 * (row_bytes / WORST_BACKWARD.0).min(1.0);
    let mut backward = Part { known_share: Some(worst), ..Part::moving(n * (input + output), n * input) };
    if let Some((_, (worst, best))) = of_batch {
        let twice = Part::moving(2.0 * n * (input + output), n * input);
        backward = Part { known_share: Some(worst), best_share: Some(best), ..twice };
    }
    instance.backward_fused = backward.computing(scene, &instance.backward, 1.0).time(scene);
    let name = match (code, weight) {
        // By the length of a row and not by its root mean square: no layer of the framework does that.
        (Code::UnfusedRmsNorm, _) if steps.iter().any(|s| s.1 == Step::Length) => "L2 norm",
        (Code::UnfusedRmsNorm, _) => "RMS norm",
        (Code::UnfusedBatchNorm, _) => "batch norm",
        (_, None) => "layer norm",
        (_, Some(weight)) if weight.full.len() == tensor.dims.len() => "instance norm",
        (_, Some(_)) => "group norm",
    };
    let whereabouts = if tensor.is_over_channels() { OVER_CHANNELS } else { "" };
    instance.facts = vec![("name", format!("{name}{whereabouts}"))];
    let ops = steps.len();
    instance.evidence.push(format!("{ops} operations normalise {} over rows of {}", dims(tensor.dims), tensor.row()));
    instance
}

/// What a fused norm of rows of this many bytes reaches at worst.
fn worst(code: Code, row_bytes: f64) -> f64 {
    let of = |[layer, rms]: [f64; 2]| if code == Code::UnfusedRmsNorm { rms } else { layer };
    let (length, shares) = WORST_OF_SHORT;
    let long = WORST.into_iter().find(|(least, _)| row_bytes >= *least).map(|(_, shares)| of(shares));
    long.unwrap_or_else(|| (of(shares) * row_bytes / length).min(of(WORST[WORST.len() - 1].1)))
}

/// The tensor that goes in.
fn first_full<'s>(scene: &'s Scene<'_>, leaves: &[LeafId]) -> Option<&'s Operand<'s>> {
    scene.look(leaves.first()?.index()).full_operands().next()
}

/// Bytes of an element going in and coming out.
fn ends(scene: &Scene<'_>, leaves: &[LeafId]) -> (f64, f64) {
    let size = |l: Option<&LeafId>, result: bool| {
        let look = scene.look(l?.index());
        let bytes = if result { look.result_bytes() } else { look.full_operands().next()?.bytes() };
        Some(bytes / look.numel().max(1) as f64)
    };
    (size(leaves.first(), false).unwrap_or(4.0), size(leaves.last(), true).unwrap_or(4.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::explained;

    #[test]
    fn the_explanation_has_the_shares() {
        let percent = |share: f64| format!("{:.0}%", 100.0 * share);
        let both = |[layer, rms]: [f64; 2]| format!("{} and {}", percent(layer), percent(rms));
        let bands = WORST.map(|(bytes, shares)| format!("{} from {bytes} on", both(shares)));
        let said = [
            format!("at least {LEAST_LEAVES} leaves"),
            format!("layer norm and RMS norm: {}", bands.join(", ")),
            format!("below that {} at {}", both(WORST_OF_SHORT.1), WORST_OF_SHORT.0),
            format!("Group norms reach {} at worst", percent(WORST_OF_GROUPS)),
            format!("backward work {} from rows of {} bytes on", percent(WORST_BACKWARD.1), WORST_BACKWARD.0),
        ];
        let text = explained(Code::UnfusedRmsNorm);
        for sentence in said {
            assert!(text.contains(&sentence), "{sentence}\n{text}");
        }
    }
}

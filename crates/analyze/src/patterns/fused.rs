//! What a fused replacement would take, and what that saves.
//!
//! A fused pass over memory is bound by the bytes that must still move or by its arithmetic. How well it moves bytes is
//! taken from the trace's own simple operations (the baseline), never from a constant alone.

use super::scene::{Look, Scene};
use super::{Fused, Pattern, instructions, show};
use crate::finding::Range;
use crate::prepared::Baseline;
use crate::program::kind::Kind;
use crate::program::{Leaf, LeafId};
use crate::system::texts::bytes;
use crate::texts::listed;

/// At best a fused kernel moves bytes this much better than the simple operations of the trace do.
const ABOVE_BASELINE: f64 = 1.05;
/// No kernel moves bytes faster than this share of the peak.
const HIGHEST_SHARE: f64 = 0.95;
/// What well written kernels reach even where the trace's own operations are too small to show it.
const GOOD_SHARE: f64 = 0.80;
/// What a fused kernel reaches at worst: of the baseline, and of the peak if it reduces.
const OF_BASELINE_AT_WORST: f64 = 0.70;
const SHARE_AT_WORST: f64 = 0.50;
/// The same of the baseline where it streams more bytes than any cache holds: seven compiled ones reached 0.86 to 0.91 of
/// the peak, which was about their baseline.
const STREAMING_AT_WORST: f64 = 0.90;
const STREAMING_BYTES: f64 = 128e6;
/// The same of what the best of the replaced operations reaches, where the bytes are known exactly.
const OF_OWN_AT_WORST: f64 = 0.75;
/// What it takes to read an element from a cache, in instructions.
const CACHED_READ: f64 = 4.0;
/// Instruction counts are estimates: this much less at best, this much more at worst.
const INSTRUCTIONS: (f64, f64) = (0.85, 1.15);
/// Instructions of a power in general, as compiled on an H200.
const POWER: f64 = 98.0;
/// Arithmetic that makes a pass this many times as long is told.
const NOTICED: f64 = 1.01;
/// Of the shorter of memory and arithmetic, what does not hide behind the longer.
const NOT_HIDDEN: f64 = 0.15;
/// Smaller operations say nothing of the memory's speed.
pub(crate) const LARGE_BYTES: f64 = 8e6;
/// A kernel takes at least this long, in microseconds: at best, at worst.
pub(super) const SHORTEST_US: (f64, f64) = (2.0, 4.0);
/// Of what should be saved, the least that really is.
const LOW_FACTOR: f64 = 0.60;
/// Matrix work that stays may run this much slower once the pauses between its kernels are gone. In seventy measured pairs the same kernels took 0.97 to 1.13 times as long afterwards, in one 1.18.
const MATRIX_LOSS: f64 = 0.12;
/// Rows up to this long stay in registers, so that a reduction over them takes no second pass.
const ROW_IN_REGISTERS: i64 = 1024;

/// No part of a program is told to become more times faster than this.
const MOST_GAIN: f64 = 100.0;
/// Shorter times are not told, in milliseconds.
pub(crate) const SHOWN_MS: f64 = 0.001;

/// A stretch of operations that becomes one pass over memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Part {
    /// Bytes that must be read: at least, at most.
    pub(crate) reads: (f64, f64),
    /// Bytes that must be written.
    pub(crate) writes: f64,
    /// Vector instructions of all elements, at best and at worst.
    pub(crate) instructions: (f64, f64),
    /// Whether it reduces.
    pub(crate) reduces: bool,
    /// Share of the peak bandwidth that the best of the operations reaches by itself.
    pub(crate) own_share: f64,
    /// What such kernels are known to reach at worst, of the peak bandwidth.
    pub(crate) known_share: Option<f64>,
    /// The same at best.
    pub(crate) best_share: Option<f64>,
}

impl Part {
    /// Bytes that are known exactly.
    pub(crate) fn moving(reads: f64, writes: f64) -> Self {
        Self { reads: (reads, reads), writes, ..Self::default() }
    }

    /// The same with so many instructions for each of some elements more, at best and at worst.
    pub(crate) fn with(mut self, elements: f64, each: (f64, f64)) -> Self {
        self.instructions = (self.instructions.0 + elements * each.0, self.instructions.1 + elements * each.1);
        self
    }

    /// The same with the arithmetic of these operations, `passes` times over.
    pub(crate) fn computing(mut self, scene: &Scene<'_>, leaves: &[LeafId], passes: f64) -> Self {
        let more = passes * instructions(scene, leaves);
        self.instructions = (self.instructions.0 + more, self.instructions.1 + more);
        self.reduces |= leaves.iter().any(|l| scene.look(l.index()).kind == Kind::Reduce);
        self.own_share = leaves.iter().map(|l| share(scene, *l)).fold(self.own_share, f64::max);
        self
    }

    /// Shares of the peak bandwidth that it reaches: at best, at worst.
    fn shares(&self, scene: &Scene<'_>) -> (f64, f64) {
        let base = scene.baseline_share();
        let best_share = (base * ABOVE_BASELINE).max(self.own_share).clamp(GOOD_SHARE, HIGHEST_SHARE);
        let exact = self.reads.1 - self.reads.0 < 1.0;
        let own = if exact { self.own_share * OF_OWN_AT_WORST } else { 0.0 };
        let of_base =
            if self.reads.0 + self.writes >= STREAMING_BYTES { STREAMING_AT_WORST } else { OF_BASELINE_AT_WORST };
        let streaming = (base * of_base).max(own).max(SHARE_AT_WORST);
        let worst_share = self.known_share.unwrap_or(if self.reduces { SHARE_AT_WORST } else { streaming });
        (self.best_share.unwrap_or(best_share), worst_share)
    }

    /// Its time.
    pub(crate) fn time(&self, scene: &Scene<'_>) -> Fused {
        let (best_share, worst_share) = self.shares(scene);
        let memory = |bytes: f64, share: f64| (bytes + self.writes) / (scene.bytes_per_us() * share);
        let vector = |instructions: f64| instructions / scene.instructions_per_us();
        let (least, most) = unlikely_together(
            (memory(self.reads.0, 1.0), memory(self.reads.1, 1.0)),
            (1.0 / best_share, 1.0 / worst_share),
        );
        let best = least.max(vector(self.instructions.0) * INSTRUCTIONS.0);
        let (m, v) = (most, vector(self.instructions.1) * INSTRUCTIONS.1);
        Fused { best_us: best.max(SHORTEST_US.0), worst_us: (m.max(v) + NOT_HIDDEN * m.min(v)).max(SHORTEST_US.1) }
    }

    /// How its time was found.
    pub(crate) fn basis(&self, scene: &Scene<'_>) -> String {
        basis(scene, &[*self])
    }
}

/// How the time of stretches that become a pass each was found.
pub(crate) fn basis(scene: &Scene<'_>, parts: &[Part]) -> String {
    let size = |reads: fn(&Part) -> f64| bytes(parts.iter().map(|p| reads(p) + p.writes).sum::<f64>() as i64);
    let (least, most) = (size(|p| p.reads.0), size(|p| p.reads.1));
    let moved = if least == most { least } else { format!("{least} to {most}") };
    let passes = match parts.len() {
        1 => format!("one pass moves {moved} and takes"),
        n => format!("{n} passes move {moved} and take"),
    };
    let time = together(scene, parts);
    format!("{passes} {}-{} us a call, {}", show::one(time.best_us), show::one(time.worst_us), bound(scene, parts))
}

/// The time of stretches that become a pass each.
fn together(scene: &Scene<'_>, parts: &[Part]) -> Fused {
    parts.iter().map(|p| p.time(scene)).fold(Fused::NOTHING, Fused::and)
}

/// What that time comes from: the bandwidth that it amounts to, beside the one of simple operations, or the shortest that
/// a kernel takes.
fn bound(scene: &Scene<'_>, parts: &[Part]) -> String {
    let time = together(scene, parts);
    let is_shortest = |p: &Part| {
        let Fused { best_us, worst_us } = p.time(scene);
        best_us <= SHORTEST_US.0 && worst_us <= SHORTEST_US.1
    };
    if parts.iter().all(is_shortest) {
        return format!(
            "and no fused kernel is taken to need less than {}-{} us",
            show::one(SHORTEST_US.0),
            show::one(SHORTEST_US.1)
        );
    }
    let reached = |reads: fn(&Part) -> f64, us: f64| {
        let bytes: f64 = parts.iter().map(|p| reads(p) + p.writes).sum();
        100.0 * bytes / (us * scene.bytes_per_us())
    };
    let moving: Vec<Part> = parts.iter().map(|p| Part { instructions: (0.0, 0.0), ..*p }).collect();
    let computes = time.worst_us > NOTICED * together(scene, &moving).worst_us;
    let baseline = show::one(100.0 * scene.baseline_share());
    let simple = match scene.baseline.source {
        Baseline::MEASURED => format!("simple operations reach {baseline}%"),
        _ => format!("{baseline}% is assumed of simple operations"),
    };
    // What moves far more at worst may be the faster at it.
    let shares = [reached(|p| p.reads.1, time.worst_us), reached(|p| p.reads.0, time.best_us)];
    format!(
        "{}-{}% of {} TB/s{} ({simple})",
        show::one(shares[0].min(shares[1])),
        show::one(shares[0].max(shares[1])),
        show::one(scene.platform.mem_bw_gbps.value / 1e3),
        if computes { " with arithmetic" } else { "" },
    )
}

/// The product of two ranges that have nothing to do with each other: they rarely both come out at the same end, so
/// their widths add in squares.
fn unlikely_together(a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let half_width = |(low, high): (f64, f64)| (high / low).ln() / 2.0;
    let spread = half_width(a).hypot(half_width(b)).exp();
    let middle = (a.0 * a.1 * b.0 * b.1).sqrt();
    if spread.is_finite() && middle.is_finite() { (middle / spread, middle * spread) } else { (a.0 * b.0, a.1 * b.1) }
}

impl Fused {
    /// Nothing takes the place of what goes.
    pub(crate) const NOTHING: Self = Self { best_us: 0.0, worst_us: 0.0 };

    /// One after the other.
    pub(crate) fn and(self, other: Self) -> Self {
        Self { best_us: self.best_us + other.best_us, worst_us: self.worst_us + other.worst_us }
    }
}

/// Share of the peak bandwidth that an operation on a large tensor reaches. Small ones may live in a cache, and so does
/// what seems to be faster than the memory.
fn share(scene: &Scene<'_>, leaf: LeafId) -> f64 {
    let us = scene.program.leaf(leaf).us;
    let bytes = scene.look(leaf.index()).cost.as_ref().and_then(|c| c.bytes).filter(|b| *b >= LARGE_BYTES && us > 0.0);
    let share = bytes.map_or(0.0, |b| b / us / scene.bytes_per_us());
    if share <= 1.0 { share.min(HIGHEST_SHARE) } else { 0.0 }
}

/// Vector instructions of operations, all elements.
pub(crate) fn instructions(scene: &Scene<'_>, leaves: &[LeafId]) -> f64 {
    let of = |l: &LeafId| {
        let look = scene.look(l.index());
        let count = match look.base {
            // Compilers multiply instead of dividing by a number, and for powers that are few products or roots.
            "div" if look.operands.len() == 1 => instructions::of("mul", look.kind),
            "pow" if exponent(scene.program.leaf(*l)).is_some_and(|e| !is_easy(e)) => POWER,
            base => instructions::of(base, look.kind),
        };
        look.numel() as f64 * (count + from_caches(look))
    };
    leaves.iter().map(of).sum()
}

/// Instructions an element that go into reading smaller tensors again and again where no operand has all elements, as in
/// `a[:, None] - b[None]`: nothing else of that takes time, and caches answer a quarter of the lanes at a time. One compiled
/// distance took 15 instructions an element, five of them arithmetic.
fn from_caches(look: &Look<'_>) -> f64 {
    if look.kind != Kind::Elementwise || look.operands.len() < 2 || look.full_operands().next().is_some() {
        return 0.0;
    }
    // What is the same for a whole row is read once.
    let read = look.operands.iter().filter(|o| o.dims.last().is_some_and(|&d| d > 1)).count();
    CACHED_READ * read as f64
}

/// The exponent of a power, if it is a number that was recorded.
fn exponent(leaf: &Leaf) -> Option<f64> {
    leaf.inputs.concrete.as_ref()?.get(1)?.parse().ok()
}

/// Whether a power is a few products or a root.
fn is_easy(exponent: f64) -> bool {
    [0.5, -0.5].contains(&exponent) || exponent.fract() == 0.0 && exponent.abs() <= 8.0
}

/// How often a fused kernel goes over its rows: once more for every reduction whose result flows back into the rows,
/// unless a row stays in registers.
pub(crate) fn passes(feedback_reductions: usize, row: i64) -> f64 {
    if row <= ROW_IN_REGISTERS { 1.0 } else { 1.0 + feedback_reductions as f64 }
}

/// What is saved where `time` and `halo` become `fused` and `matrix_ms` of matrix work stays; all in milliseconds.
pub(crate) fn saved(time_ms: f64, halo_ms: f64, fused: Range, matrix_ms: f64) -> Range {
    let high = time_ms + halo_ms - fused.low;
    let cautious = (time_ms + halo_ms - kept_ms(halo_ms) - fused.high).max(0.0);
    let low = (cautious - MATRIX_LOSS * matrix_ms.max(0.0)).max(LOW_FACTOR * cautious);
    Range { low: low.min(high.max(0.0)), high: high.max(0.0) }
}

/// Copies around the operations that stay at worst.
fn kept_ms(halo_ms: f64) -> f64 {
    (1.0 - LOW_FACTOR) * halo_ms
}

/// What becomes of a pattern's time where one call takes its place, in milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Change {
    /// Kernels and the pauses between them now.
    pub(crate) now: f64,
    /// What takes their place, at best and at worst.
    pub(crate) fused: Range,
    /// Copies that stay at worst.
    pub(crate) kept: f64,
    /// How much longer matrix work elsewhere takes at worst.
    pub(crate) slower: f64,
}

impl Change {
    /// All that becomes of patterns.
    pub(crate) fn of<'p>(patterns: impl IntoIterator<Item = &'p Pattern>) -> Self {
        patterns.into_iter().filter_map(Self::of_one).fold(Self::default(), |a, b| Self {
            now: a.now + b.now,
            fused: Range::new(a.fused.low + b.fused.low, a.fused.high + b.fused.high),
            kept: a.kept + b.kept,
            slower: a.slower + b.slower,
        })
    }

    fn of_one(pattern: &Pattern) -> Option<Self> {
        let (fused, saved) = (pattern.fused_ms?, pattern.saved_ms?);
        let (now, kept) = (pattern.total_ms() + pattern.pauses_ms, kept_ms(pattern.halo_ms));
        let slower = (now - kept - fused.high).max(0.0) - saved.low.max(0.0);
        Some(Self { now, fused, kept, slower: slower.max(0.0) })
    }

    /// What it brings where it comes with another change, at worst and at best: perhaps a loss, less than nothing.
    pub(crate) fn net(pattern: &Pattern) -> Option<(f64, f64)> {
        let (change, saved) = (Self::of_one(pattern)?, pattern.saved_ms?);
        let or_loss = |saved: f64, left: f64| if saved > 0.0 { saved } else { (change.now - left).min(0.0) };
        Some((or_loss(saved.low, change.fused.high + change.kept), or_loss(saved.high, change.fused.low)))
    }

    /// How many times faster it is, at worst and at best.
    pub(crate) fn gain(&self) -> Range {
        let times = |left: f64| self.now / left.max(self.now / MOST_GAIN);
        Range::new(times(self.fused.high + self.kept), times(self.fused.low))
    }

    /// What the low end leaves out besides the time of what takes the place; nothing where that is next to nothing.
    pub(crate) fn low_end(&self) -> Option<String> {
        let copies = (self.kept >= SHOWN_MS).then(|| format!("{} ms of the copies stay", show::ms(self.kept)));
        let slower = (self.slower >= SHOWN_MS).then(|| {
            format!("matrix work elsewhere, with less between its kernels, takes {} ms longer", show::ms(self.slower))
        });
        let parts: Vec<String> = copies.into_iter().chain(slower).collect();
        (!parts.is_empty()).then(|| format!("At the low end {}.", listed(&parts)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_that_are_products_or_roots_are_easy() {
        assert!([2.0, 3.0, -1.0, 0.5, -0.5, 8.0].into_iter().all(is_easy));
        assert!(![2.4, 1.5, 0.75, 40.0, f64::NAN, f64::INFINITY].into_iter().any(is_easy));
    }
}

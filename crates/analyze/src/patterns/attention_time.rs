//! What fused attention takes.

use std::borrow::Cow;

use jarvis_perf::dtype;
use jarvis_perf::parity::Quirks;

use super::scene::{Scene, element_size, numel};
use super::{Fused, show};

/// Whether the upper half of the scores is thrown away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Causal {
    No,
    /// A square mask whose content is not known.
    Maybe,
    Yes,
}

/// What is laid over the scores that a fused kernel has to be given and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mask {
    None,
    /// Numbers for each key, as for padding.
    OfKeys,
    /// Numbers for each head, as for relative positions.
    OfHeads,
    /// A number for each score.
    OfScores,
}

/// Whether what is laid over the scores needs a gradient, which few kernels give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Learned {
    No,
    /// Autograd recorded it, and no backward tells.
    Maybe,
    Yes,
}

/// Sizes of attention.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    /// Sequences times heads.
    pub(crate) batch: i64,
    /// Queries.
    pub(crate) mq: i64,
    /// Keys.
    pub(crate) nk: i64,
    /// Head size of queries and keys.
    pub(crate) d: i64,
    /// Head size of values.
    pub(crate) dv: i64,
    pub(crate) dtype: String,
    /// Compute Spec of its products.
    pub(crate) spec: Option<Cow<'static, str>>,
    pub(crate) causal: Causal,
    /// What is laid over the scores that the kernel has to read.
    pub(crate) mask: Mask,
    pub(crate) learned: Learned,
    pub(crate) dropout: bool,
}

/// Shares of the roofline that fused kernels reach, at worst and at best, by the longest sequence they hold for. The low
/// ends are those of the expected bands, the high ones and all that follows was measured on an H200 (two hundred calls of
/// `scaled_dot_product_attention` in bf16 with 16 to 4096 tokens, heads of 32 to 128, with and without masks).
const BANDS: &[(i64, f64, f64)] = &[(1023, 0.15, 0.55), (2047, 0.20, 0.65), (4095, 0.40, 0.70), (4096, 0.40, 0.75)];
const BAND_OF_LONG: (f64, f64) = (0.50, 0.75);
/// The same at worst where each compute unit gets so many blocks and no mask is read, with small heads and with large ones:
/// of 66 such calls with 96 to 3072 tokens none reached less than 0.30 and 0.49, causal ones 0.27 and 0.40 of half the work.
const FILLED_BLOCKS: f64 = 8.0;
const FILLED: (f64, f64) = (0.30, 0.45);
/// At best, where so many short sequences are read that memory bounds them.
const MANY_SHORT: f64 = 0.75;
/// The same with few queries for many keys, which take as long as it takes to read them: in two measured pairs 0.96, 0.97.
const FEW_QUERIES: (f64, f64) = (0.70, 0.98);
/// So few, in keys for each.
const KEYS_FOR_EACH: i64 = 64;
/// Small heads have half the products for each exponential, however long the sequence, and half of that at half the size;
/// where products are slow, in fp32, that does not show.
const SMALL_HEAD: i64 = 64;
const SMALL_HEADS: (f64, f64) = (0.34, 0.50);
/// Larger ones are computed as if they were this large.
const LARGE_HEAD: i64 = 128;
/// At best in full precision.
const FULL_PRECISION: f64 = 0.55;
/// What is left of these shares where a mask has to be read.
const WITH_MASK: (f64, f64) = (0.45, 0.65);
/// Work that a causal mask leaves: at best half, at worst this, because blocks on the diagonal are computed whole and
/// their rows are uneven.
const CAUSAL_WORST: f64 = 2.0 / 3.0;
/// The backward does so many times the work and is so much less efficient, at worst and at best: the longer the sequence,
/// the less it shows, and where memory bounds it, it is half.
const BACKWARD_WORK: f64 = 2.5;
const BACKWARD_EFFICIENCY: (f64, f64) = (0.60, 0.85);
const BACKWARD_OF_SHORT: f64 = 0.5;
/// How much longer than the products alone a fused kernel may take in full precision, where its products are not those
/// of a library: 1.05 times in a measured pair.
const FULL_PRECISION_PRODUCTS: f64 = 1.15;
/// The same with a mask, with heads of up to [`SMALL_HEAD`] and with larger ones, forward and backward. Of 130 calls in bf16
/// with 128 to 2048 tokens none took longer (H200); a block that has all keys is as fast as it was measured.
const MASKED_PRODUCTS: &[(Mask, [f64; 2], [f64; 2])] = &[
    (Mask::OfKeys, [1.0, 1.0], [1.15, 1.5]),
    (Mask::OfHeads, [1.05, 1.4], [1.2, 1.95]),
    (Mask::OfScores, [1.25, 1.45], [1.4, 1.95]),
];
/// Instructions for each score where the mask needs a gradient, at best and at worst: forward, backward. Only the kernels of
/// the memory-efficient backend give one; forward they took 1.7 to 3.2 times as long as the products, backward, with what
/// they prepare, 1.9 to 4.7.
const LEARNED_INSTRUCTIONS: [(f64, f64); 2] = [(95.0, 135.0), (230.0, 330.0)];
const LEARNED_INSTRUCTIONS_OF_LARGE: [(f64, f64); 2] = [(140.0, 160.0), (375.0, 520.0)];
/// Instructions for a random number where four are drawn at once: forward, backward at best and at worst, where in one
/// measured pair 30 did not hide behind the products.
const DROPOUT_INSTRUCTIONS: f64 = 28.0;
const DROPOUT_BACKWARD_INSTRUCTIONS: (f64, f64) = (18.0, 30.0);
/// Queries of one head that a block of a fused kernel takes, however few there are.
const QUERIES_OF_BLOCK: i64 = 128;
/// What a block takes of a compute unit, however little it has to do, in microseconds at best and at worst: alone, with a
/// mask, with one whose rows are no multiple of [`ALIGNED_BYTES`], and backward.
const BLOCK_US: (f64, f64) = (2.0, 3.4);
const BLOCK_WITH_MASK_US: (f64, f64) = (3.1, 4.7);
const BLOCK_WITH_UNALIGNED_MASK_US: (f64, f64) = (3.1, 8.0);
const BLOCK_BACKWARD_US: (f64, f64) = (3.6, 10.0);
/// Up to so many tokens the kernels of the memory-efficient backend are faster: alone, with a mask.
pub(crate) const SHORT: i64 = 64;
const BLOCK_OF_SHORT_US: (f64, f64) = (1.4, 2.2);
const BLOCK_OF_SHORT_WITH_MASK_US: (f64, f64) = (1.7, 3.0);
const ALIGNED_BYTES: i64 = 16;
/// What a fused kernel takes however few blocks it has, and its backward, which is three kernels: at best, at worst. Two
/// recordings with one query: 6.0 to 6.6.
const SHORTEST_US: (f64, f64) = (4.0, 7.0);
const SHORTEST_BACKWARD_US: (f64, f64) = (8.0, 16.0);

impl Shape {
    /// Computes with another type, if there is one.
    pub(crate) fn as_before_casts(&mut self, dtype: Option<&str>) {
        if let Some(dtype) = dtype {
            dtype.clone_into(&mut self.dtype);
            self.spec = dtype::precision(dtype, &Quirks::NONE).map(|precision| format!("matrix_{precision}").into());
        }
    }

    /// The longer of queries and keys.
    pub(crate) fn longest(&self) -> i64 {
        self.mq.max(self.nk)
    }

    /// Roofline time in microseconds with this share of the products' work; `None` where the platform has no rate for it.
    fn roofline_us(&self, scene: &Scene<'_>, work: f64) -> Option<f64> {
        Some((self.arithmetic_us(scene)? * work).max(self.memory_us(scene)))
    }

    fn arithmetic_us(&self, scene: &Scene<'_>) -> Option<f64> {
        let [b, m, n, d, dv] = [self.batch, self.mq, self.nk, self.d, self.dv].map(|x| x as f64);
        Some(2.0 * b * m * n * (d + dv) / scene.flops_per_us(self.spec.as_deref())?)
    }

    fn memory_us(&self, scene: &Scene<'_>) -> f64 {
        let [b, m, n, d, dv] = [self.batch, self.mq, self.nk, self.d, self.dv].map(|x| x as f64);
        b * (m * d + n * d + n * dv + m * dv) * element_size(&self.dtype) / scene.bytes_per_us()
    }

    /// Whether reading and writing takes longer than the products would.
    fn is_memory_bound(&self, scene: &Scene<'_>) -> bool {
        self.arithmetic_us(scene).is_some_and(|arithmetic| self.memory_us(scene) > arithmetic)
    }

    /// Shares of the roofline: at worst, at best.
    fn efficiency(&self, scene: &Scene<'_>, backward: bool) -> (f64, f64) {
        let (worst, best) = self.forward_efficiency(scene);
        let masked = if self.reads_mask() { WITH_MASK } else { (1.0, 1.0) };
        let pass = match backward {
            true if self.is_memory_bound(scene) => (BACKWARD_OF_SHORT, BACKWARD_OF_SHORT),
            true => BACKWARD_EFFICIENCY,
            false => (1.0, 1.0),
        };
        (worst * masked.0 * pass.0, best * masked.1 * pass.1)
    }

    fn forward_efficiency(&self, scene: &Scene<'_>) -> (f64, f64) {
        if self.mq.saturating_mul(KEYS_FOR_EACH) <= self.nk {
            return FEW_QUERIES;
        }
        let n = self.longest();
        let (worst, best) = BANDS.iter().find(|b| n <= b.0).map_or(BAND_OF_LONG, |b| (b.1, b.2));
        let worst = worst.max(self.filled_at_worst(scene));
        if self.is_memory_bound(scene) {
            return (worst, best.max(MANY_SHORT));
        }
        if self.is_full_precision() {
            return (worst, best.min(FULL_PRECISION));
        }
        let head = self.d.max(self.dv);
        let of = |size: i64| (head as f64 / size as f64).min(1.0);
        if head > SMALL_HEAD {
            return (worst, best * of(LARGE_HEAD));
        }
        (worst.min(SMALL_HEADS.0 * of(SMALL_HEAD)), best.min(SMALL_HEADS.1 * of(SMALL_HEAD)))
    }

    /// What is reached at worst where there is enough to do for all of the GPU; nothing elsewhere.
    fn filled_at_worst(&self, scene: &Scene<'_>) -> f64 {
        let units = scene.platform.num_cus.map_or(f64::INFINITY, f64::from);
        let is_filled = self.blocks() >= FILLED_BLOCKS * units;
        match is_filled && !self.reads_mask() && !self.is_full_precision() {
            true if self.d.max(self.dv) >= LARGE_HEAD => FILLED.1,
            true => FILLED.0,
            false => 0.0,
        }
    }

    fn blocks(&self) -> f64 {
        self.batch as f64 * (self.mq as f64 / QUERIES_OF_BLOCK as f64).ceil()
    }

    /// What its blocks take, however little each has to do: at best, at worst.
    fn blocks_us(&self, scene: &Scene<'_>, backward: bool) -> (f64, f64) {
        let Some(units) = scene.platform.num_cus else { return (0.0, 0.0) };
        let each = match (backward, self.reads_mask()) {
            (true, _) => BLOCK_BACKWARD_US,
            (false, false) if self.longest() <= SHORT => BLOCK_OF_SHORT_US,
            (false, true) if self.longest() <= SHORT => BLOCK_OF_SHORT_WITH_MASK_US,
            (false, false) => BLOCK_US,
            (false, true) if self.nk * element_size(&self.dtype) as i64 % ALIGNED_BYTES == 0 => BLOCK_WITH_MASK_US,
            (false, true) => BLOCK_WITH_UNALIGNED_MASK_US,
        };
        let (blocks, shortest) = (self.blocks() / f64::from(units), shortest_us(backward));
        ((blocks * each.0).max(shortest.0), (blocks * each.1).max(shortest.1))
    }

    fn reads_mask(&self) -> bool {
        self.mask != Mask::None
    }

    fn is_large(&self) -> bool {
        self.d.max(self.dv) > SMALL_HEAD
    }

    /// How many times as long as its products alone it may take.
    fn slower_than_products(&self, backward: bool) -> f64 {
        if self.is_full_precision() {
            return FULL_PRECISION_PRODUCTS;
        }
        let of_mask = MASKED_PRODUCTS.iter().find(|of| of.0 == self.mask && self.nk >= QUERIES_OF_BLOCK);
        of_mask.map_or(1.0, |of| [of.1, of.2][usize::from(backward)][usize::from(self.is_large())])
    }

    /// What the kernels take that give the gradient of a mask: at best, at worst. `None` where the mask needs none, and
    /// where blocks have so little to do that each takes as long as any other.
    fn learned_us(&self, scene: &Scene<'_>, backward: bool) -> Option<(f64, f64)> {
        let has_enough = self.longest() > SHORT || (backward && self.is_large());
        if self.learned == Learned::No || self.is_full_precision() || !has_enough {
            return None;
        }
        let each = if self.is_large() { LEARNED_INSTRUCTIONS_OF_LARGE } else { LEARNED_INSTRUCTIONS };
        let (best, worst) = each[usize::from(backward)];
        let whole = |n: i64| n.max(1).saturating_add(QUERIES_OF_BLOCK - 1) / QUERIES_OF_BLOCK * QUERIES_OF_BLOCK;
        let heads = (self.d.max(self.dv) as f64 / LARGE_HEAD as f64).max(1.0);
        let scores = self.batch as f64 * whole(self.mq) as f64 * whole(self.nk) as f64 * heads;
        let us = |instructions: f64| scores * instructions / scene.instructions_per_us();
        Some((us(best), us(worst)))
    }

    fn is_full_precision(&self) -> bool {
        element_size(&self.dtype) > 2.0
    }

    fn work(&self) -> (f64, f64) {
        match self.causal {
            // A mask that is read is read whole.
            _ if self.reads_mask() => (1.0, 1.0),
            Causal::No => (1.0, 1.0),
            Causal::Maybe => (1.0, 0.5),
            Causal::Yes => (CAUSAL_WORST, 0.5),
        }
    }
}

fn shortest_us(backward: bool) -> (f64, f64) {
    if backward { SHORTEST_BACKWARD_US } else { SHORTEST_US }
}

/// Time of one fused kernel. `products_us` is what the matrix products take now: a fused kernel does the same products
/// without storing their scores, so it is not slower than they are, but for [`FULL_PRECISION_PRODUCTS`],
/// [`MASKED_PRODUCTS`], masks that need a gradient, and where there is too little to do for each of its blocks.
pub(crate) fn fused(scene: &Scene<'_>, shape: &Shape, products_us: f64, backward: bool) -> Fused {
    let (worst, best) = shape.efficiency(scene, backward);
    let (worst_work, best_work) = shape.work();
    let times = if backward { BACKWARD_WORK } else { 1.0 };
    let time = |work: f64, share: f64| match shape.roofline_us(scene, work * times) {
        Some(roofline_us) => roofline_us / share,
        // Nothing tells how fast the products could be, so they stay as fast as they are.
        None => (products_us * work).max(shape.memory_us(scene)),
    };
    let scores = numel(&[shape.batch, shape.mq, shape.nk]) as f64;
    let draws = match (shape.dropout, backward) {
        (false, _) => (0.0, 0.0),
        (true, true) => DROPOUT_BACKWARD_INSTRUCTIONS,
        (true, false) => (DROPOUT_INSTRUCTIONS, DROPOUT_INSTRUCTIONS),
    };
    let drawing_us = |draw: f64| scores * draw / scene.instructions_per_us();
    let blocks = shape.blocks_us(scene, backward);
    let slowest_us = products_us * shape.slower_than_products(backward);
    let mut best_us = time(best_work, best).max(blocks.0);
    let mut worst_us = time(worst_work, worst).min(slowest_us).max(blocks.1);
    if let Some((best, worst)) = shape.learned_us(scene, backward) {
        worst_us = worst_us.max(worst);
        if shape.learned == Learned::Yes {
            best_us = best_us.max(best);
        }
    }
    let worst_us = worst_us.max(best_us);
    Fused { best_us: best_us + drawing_us(draws.0), worst_us: worst_us + drawing_us(draws.1) }
}

/// How that was found.
pub(crate) fn basis(scene: &Scene<'_>, shape: &Shape, time: Fused, backward: bool) -> String {
    let (worst_work, best_work) = shape.work();
    let times = if backward { BACKWARD_WORK } else { 1.0 };
    let kernel = format!(
        "fused {}attention of {} heads, {}x{} tokens",
        if backward { "backward " } else { "" },
        shape.batch,
        shape.mq,
        shape.nk,
    );
    let takes = span(&show::one(time.best_us), &show::one(time.worst_us));
    let roofline = |work: f64| shape.roofline_us(scene, work * times);
    let (Some(whole), Some(at_worst), Some(at_best)) = (roofline(1.0), roofline(worst_work), roofline(best_work))
    else {
        return format!(
            "{kernel} takes {takes} us a call with products as fast as they are now: without a peak rate for their \
             precision it is not known how fast they could be"
        );
    };
    let percent = |roofline: f64, us: f64| format!("{:.0}", 100.0 * roofline / us);
    let least_us = shape.blocks_us(scene, backward).0;
    let bound = if least_us < time.best_us {
        String::new()
    } else if least_us <= shortest_us(backward).0 {
        ", the least that such a kernel takes".to_owned()
    } else {
        format!(", which its {QUERIES_OF_BLOCK}-query blocks take however short the sequences are")
    };
    format!(
        "{kernel} has a roofline of {} us{} and takes {takes} us a call at {}% of it{bound}",
        show::one(whole),
        match shape.causal {
            _ if shape.learned == Learned::Yes => ", reads a mask and gives its gradient",
            _ if shape.reads_mask() => ", reads a mask",
            Causal::No => "",
            Causal::Maybe => " (half if the mask is causal)",
            Causal::Yes => " (causal: half to two thirds of it)",
        },
        span(&percent(at_worst, time.worst_us), &percent(at_best, time.best_us)),
    )
}

/// Two ends, or one number where they are the same.
fn span(low: &str, high: &str) -> String {
    if low == high { low.to_owned() } else { format!("{low}-{high}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::{Code, explained};

    #[test]
    fn the_explanation_has_the_bands() {
        let percent = |low: f64, high: f64| format!("{:.0}% to {:.0}%", 100.0 * low, 100.0 * high);
        let bands: Vec<String> =
            BANDS.iter().map(|(n, low, high)| format!("{} up to {n}", percent(*low, *high))).collect();
        let bands = format!("{}, {} beyond)", bands.join(", "), percent(BAND_OF_LONG.0, BAND_OF_LONG.1));
        let slowest = MASKED_PRODUCTS.iter().flat_map(|of| [of.1, of.2]).flatten().fold(1.0, f64::max);
        let said = [
            bands.replacen(&format!("up to {}", BANDS[0].0), &format!("up to {} tokens", BANDS[0].0), 1),
            format!("Heads of {SMALL_HEAD} are taken to reach at most {}", percent(SMALL_HEADS.0, SMALL_HEADS.1)),
            format!("leaves {} of the efficiency", percent(WITH_MASK.0, WITH_MASK.1)),
            format!("Each block of {QUERIES_OF_BLOCK} queries"),
            format!(
                "takes {} to {} us of a compute unit, {} to {} us up to {SHORT} tokens",
                BLOCK_US.0, BLOCK_US.1, BLOCK_OF_SHORT_US.0, BLOCK_OF_SHORT_US.1
            ),
            format!("up to {} us with a mask", BLOCK_WITH_UNALIGNED_MASK_US.1),
            format!("unless their products are in fp32, which reach {:.0}% at best", 100.0 * FULL_PRECISION),
            format!("those between it and {LARGE_HEAD} are computed as {LARGE_HEAD}"),
            format!("it is at least {:.0}% at best", 100.0 * MANY_SHORT),
            format!("{FULL_PRECISION_PRODUCTS} times that in full precision"),
            format!("up to {slowest} times that with a mask and {QUERIES_OF_BLOCK} keys or more"),
            format!(
                "{} to {} instructions for each score",
                LEARNED_INSTRUCTIONS[0].0, LEARNED_INSTRUCTIONS_OF_LARGE[0].1
            ),
            format!("{} to {} backward", LEARNED_INSTRUCTIONS[1].0, LEARNED_INSTRUCTIONS_OF_LARGE[1].1),
            format!("one query for {KEYS_FOR_EACH} keys"),
            format!("reading them, at {} of the bandwidth", percent(FEW_QUERIES.0, FEW_QUERIES.1)),
            format!(
                "The backward does {BACKWARD_WORK} times the work at {} to {} of the efficiency",
                BACKWARD_EFFICIENCY.0, BACKWARD_EFFICIENCY.1
            ),
        ];
        let text = explained(Code::UnfusedAttention);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for sentence in said {
            assert!(text.contains(&sentence), "{sentence}\n{text}");
        }
    }
}

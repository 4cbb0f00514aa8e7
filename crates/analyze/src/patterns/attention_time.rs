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
    pub(crate) dropout: bool,
}

/// Shares of the roofline that fused kernels reach, at worst and at best, by the longest sequence they hold for. The low
/// ends are those of the expected bands.
const BANDS: &[(i64, f64, f64)] = &[(1023, 0.15, 0.40), (2047, 0.20, 0.55), (4095, 0.40, 0.65), (4096, 0.40, 0.75)];
const BAND_OF_LONG: (f64, f64) = (0.50, 0.75);
/// At best, where so many short sequences are read that memory bounds them: 0.53 in a measured pair.
const MANY_SHORT: f64 = 0.60;
/// The same with few queries for many keys, which take as long as it takes to read them: in two measured pairs 0.96, 0.97.
const FEW_QUERIES: (f64, f64) = (0.70, 0.98);
/// So few, in keys for each.
const KEYS_FOR_EACH: i64 = 64;
/// Small heads have half the products for each exponential, however long the sequence; where products are slow, in fp32,
/// that does not show.
const SMALL_HEAD: i64 = 64;
const SMALL_HEADS: (f64, f64) = (0.34, 0.50);
/// Work that a causal mask leaves: at best half, at worst this, because blocks on the diagonal are computed whole and
/// their rows are uneven.
const CAUSAL_WORST: f64 = 2.0 / 3.0;
/// The backward does so many times the work and is so much less efficient.
const BACKWARD_WORK: f64 = 2.5;
const BACKWARD_EFFICIENCY: f64 = 0.6;
/// How much longer than the products alone a fused kernel may take in full precision, where its products are not those
/// of a library: 1.05 times in a measured pair.
const FULL_PRECISION_PRODUCTS: f64 = 1.15;
/// Instructions for a random number where four are drawn at once.
const DROPOUT_INSTRUCTIONS: f64 = 20.0;

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

    /// Shares of the roofline: at worst, at best.
    fn efficiency(&self, scene: &Scene<'_>) -> (f64, f64) {
        if self.mq.saturating_mul(KEYS_FOR_EACH) <= self.nk {
            return FEW_QUERIES;
        }
        let n = self.longest();
        let (worst, best) = BANDS.iter().find(|b| n <= b.0).map_or(BAND_OF_LONG, |b| (b.1, b.2));
        if self.arithmetic_us(scene).is_some_and(|arithmetic| self.memory_us(scene) > arithmetic) {
            return (worst, best.max(MANY_SHORT));
        }
        if self.d.max(self.dv) > SMALL_HEAD || self.is_full_precision() {
            return (worst, best);
        }
        (worst.min(SMALL_HEADS.0), best.min(SMALL_HEADS.1))
    }

    fn is_full_precision(&self) -> bool {
        element_size(&self.dtype) > 2.0
    }

    fn work(&self) -> (f64, f64) {
        match self.causal {
            Causal::No => (1.0, 1.0),
            Causal::Maybe => (1.0, 0.5),
            Causal::Yes => (CAUSAL_WORST, 0.5),
        }
    }
}

/// Time of one fused kernel. `products_us` is what the matrix products take now: a fused kernel does the same products
/// without storing their scores, so it is not slower than they are, but for [`FULL_PRECISION_PRODUCTS`].
pub(crate) fn fused(scene: &Scene<'_>, shape: &Shape, products_us: f64, backward: bool) -> Fused {
    let (worst, best) = shape.efficiency(scene);
    let (worst_work, best_work) = shape.work();
    let (times, efficiency) = if backward { (BACKWARD_WORK, BACKWARD_EFFICIENCY) } else { (1.0, 1.0) };
    let time = |work: f64, share: f64| match shape.roofline_us(scene, work * times) {
        Some(roofline_us) => roofline_us / (share * efficiency),
        // Nothing tells how fast the products could be, so they stay as fast as they are.
        None => (products_us * work).max(shape.memory_us(scene)),
    };
    let scores = numel(&[shape.batch, shape.mq, shape.nk]) as f64;
    let dropout = if shape.dropout { scores * DROPOUT_INSTRUCTIONS / scene.instructions_per_us() } else { 0.0 };
    let best_us = time(best_work, best);
    let slower = if shape.is_full_precision() { FULL_PRECISION_PRODUCTS } else { 1.0 };
    let worst_us = time(worst_work, worst).min(products_us * slower).max(best_us);
    Fused { best_us: best_us + dropout, worst_us: worst_us + dropout }
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
    format!(
        "{kernel} has a roofline of {} us{} and takes {takes} us a call at {}% of it",
        show::one(whole),
        match shape.causal {
            Causal::No => "",
            Causal::Maybe => " (half if the mask is causal)",
            Causal::Yes => " (half of it causal)",
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
        let said = [
            bands.replacen(&format!("up to {}", BANDS[0].0), &format!("up to {} tokens", BANDS[0].0), 1),
            format!(
                "Heads of at most {SMALL_HEAD} are taken to reach at most {}",
                percent(SMALL_HEADS.0, SMALL_HEADS.1)
            ),
            format!("it is at least {:.0}% at best", 100.0 * MANY_SHORT),
            format!("{FULL_PRECISION_PRODUCTS} times that in full precision"),
            format!("one query for {KEYS_FOR_EACH} keys"),
            format!("reading them, at {} of the bandwidth", percent(FEW_QUERIES.0, FEW_QUERIES.1)),
            format!("the backward does {BACKWARD_WORK} times the work at {BACKWARD_EFFICIENCY} of the efficiency"),
        ];
        let text = explained(Code::UnfusedAttention);
        for sentence in said {
            assert!(text.contains(&sentence), "{sentence}\n{text}");
        }
    }
}

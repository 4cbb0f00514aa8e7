//! What the hardware lets one expect of a difference, and what to make of one that is not so.

use jarvis_perf::platform::Platform;
use serde::Serialize;

use super::both::Both;
use super::compared::Compared;
use crate::prepared::BoundType;
use crate::thresholds::{Threshold, Thresholds};

/// The precision that stands for matrix work where nothing more is known.
const USUAL_SPEC: &str = "matrix_bf16";

/// Figures that differ by less are the same, but for rounding.
const SAME_FIGURE: f64 = 1e-9;

/// Target over reference as the hardware suggests it: one number, or an interval where what bounds the work is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedRatio {
    /// Smaller end.
    pub low: f64,
    /// Larger end.
    pub high: f64,
}

impl ExpectedRatio {
    /// One number.
    pub fn exactly(ratio: f64) -> Self {
        Self { low: ratio, high: ratio }
    }

    /// The middle of the interval.
    pub fn middle(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    /// Whether a ratio lies above it by more than the tolerance.
    pub(crate) fn is_exceeded_by(&self, ratio: f64, limits: &Thresholds) -> bool {
        self.excess(ratio) > 1.0 + limits.get(Threshold::CompareTolerance)
    }

    /// How far a ratio lies from it: 1 inside the interval, else against the nearer end.
    pub fn excess(&self, ratio: f64) -> f64 {
        if ratio > self.high {
            ratio / self.high
        } else if ratio < self.low {
            ratio / self.low
        } else {
            1.0
        }
    }

    /// What it is for several together, each with the time it takes on the reference; none if they take none.
    pub(crate) fn of_sum(parts: &[&Compared], of: fn(&Compared) -> Option<Self>) -> Option<Self> {
        let (mut low, mut high, mut all) = (0.0, 0.0, 0.0);
        for (e, ms) in parts.iter().filter_map(|c| Some((of(c)?, c.ms.reference))) {
            low += e.low * ms;
            high += e.high * ms;
            all += ms;
        }
        (all > 0.0).then(|| Self { low: low / all, high: high / all })
    }

    /// The same of the reference over the target.
    pub(crate) fn inverse(&self) -> Self {
        Self { low: 1.0 / self.high, high: 1.0 / self.low }
    }

    /// The nearest ratio inside.
    pub(crate) fn nearest(&self, ratio: f64) -> f64 {
        ratio.max(self.low).min(self.high)
    }

    /// Whatever bounds the work; none where the GPUs are not known to compute so.
    pub(crate) fn of_any_bound(spec: Option<&str>, platforms: Both<&Platform>) -> Option<Self> {
        rate_ratio(spec.unwrap_or(USUAL_SPEC), platforms).map(|_| Self::of_bound(None, spec, platforms))
    }

    /// By what bounds the work; without that, between the two.
    pub fn of_bound(bound: Option<BoundType>, spec: Option<&str>, platforms: Both<&Platform>) -> Self {
        let memory = bandwidth_ratio(platforms);
        let compute = rate_ratio(spec.unwrap_or(USUAL_SPEC), platforms).unwrap_or(memory);
        match bound {
            Some(BoundType::Memory) => Self::exactly(memory),
            Some(BoundType::Compute) => Self::exactly(compute),
            None => Self { low: memory.min(compute), high: memory.max(compute) },
        }
    }
}

/// Bandwidth of the reference over that of the target.
fn bandwidth_ratio(platforms: Both<&Platform>) -> f64 {
    platforms.reference.mem_bw_gbps.value / platforms.target.mem_bw_gbps.value
}

/// The same of a compute rate.
fn rate_ratio(spec: &str, platforms: Both<&Platform>) -> Option<f64> {
    let rate = Both::of(platforms, |p| p.peak(spec).map(|f| f.value));
    Some(rate.reference? / rate.target?)
}

/// What to make of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The target takes less time, as its hardware suggests.
    HardwareFaster,
    /// The target takes more time, as its hardware suggests.
    HardwareSlower,
    /// The target takes more time than its hardware suggests.
    UnexpectedSlow,
    /// The target takes more than twice the time, and its hardware does not suggest it.
    KernelIssue,
    /// The target takes more time, as its hardware suggests for its types; in those of the reference it would not.
    Precision,
    /// The target takes less time than its hardware suggests.
    UnexpectedFast,
}

impl Verdict {
    /// Judges a ratio.
    pub fn of(ratio: f64, expected: ExpectedRatio, is_tiny_gemm: bool, limits: &Thresholds) -> Self {
        let tolerance = 1.0 + limits.get(Threshold::CompareTolerance);
        let excess = expected.excess(ratio);
        let large = 1.0 + limits.get(Threshold::CompareKernelIssue) / 100.0;
        match () {
            () if is_tiny_gemm && ratio > limits.get(Threshold::CompareTinyGemm) => Self::KernelIssue,
            () if excess > tolerance && ratio > large => Self::KernelIssue,
            () if excess > tolerance => Self::UnexpectedSlow,
            () if excess < 1.0 / tolerance => Self::UnexpectedFast,
            () if ratio < 1.0 => Self::HardwareFaster,
            () => Self::HardwareSlower,
        }
    }

    /// Judges a sum by its parts: where most of the time is a matter of precision, the sum is.
    pub(crate) fn of_sum(ratio: f64, expected: ExpectedRatio, parts: &[&Compared], limits: &Thresholds) -> Self {
        let own = Self::of(ratio, expected, false, limits);
        let time = |parts: &mut dyn Iterator<Item = &&Compared>| parts.map(|c| c.ms.target).sum::<f64>();
        let by_types = time(&mut parts.iter().filter(|c| c.verdict == Some(Self::Precision)));
        if !own.is_slow() && 2.0 * by_types > time(&mut parts.iter()) { Self::Precision } else { own }
    }

    /// Whether the hardware explains it.
    pub fn is_expected(self) -> bool {
        matches!(self, Self::HardwareFaster | Self::HardwareSlower)
    }

    /// Whether the target should be improved here.
    pub fn is_slow(self) -> bool {
        matches!(self, Self::UnexpectedSlow | Self::KernelIssue | Self::Precision)
    }

    /// As files write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::HardwareFaster => "hardware_faster",
            Self::HardwareSlower => "hardware_slower",
            Self::UnexpectedSlow => "unexpected_slow",
            Self::KernelIssue => "kernel_issue",
            Self::Precision => "precision",
            Self::UnexpectedFast => "unexpected_fast",
        }
    }
}

/// Why a difference is as it is: a stable name and a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// Stable name.
    pub id: &'static str,
    /// The sentence.
    pub text: &'static str,
}

/// The same work in another precision.
pub(crate) const OTHER_TYPES: Explanation = Explanation {
    id: "other_types",
    text: "The sides compute in different types, for which the hardware suggests different times.",
};

/// The same where the models do not tell what the types are worth.
pub(crate) const UNKNOWN_TYPES: Explanation = Explanation {
    id: "other_types",
    text: "The sides compute in different types, which the hardware ratio leaves out.",
};

/// A ratio that is about what the hardware suggests, where it suggests no difference in this direction.
pub(crate) const WITHIN_TOLERANCE: Explanation =
    Explanation { id: "within_tolerance", text: "Within the tolerance of what the hardware suggests." };

/// Explains a verdict. `hardware` is what the figures of the GPUs suggest alone: a GPU is said to have more only if it has.
pub(crate) fn explain(
    verdict: Verdict,
    bound: Option<BoundType>,
    expected: ExpectedRatio,
    hardware: ExpectedRatio,
) -> Explanation {
    let text = |id, text| Explanation { id, text };
    let target_has_more = expected.high.max(hardware.high) < 1.0 - SAME_FIGURE;
    let reference_has_more = expected.low.min(hardware.low) > 1.0 + SAME_FIGURE;
    match (verdict, bound) {
        (Verdict::HardwareFaster, Some(BoundType::Memory)) if target_has_more => {
            text("target_higher_bandwidth", "Target has higher HBM bandwidth.")
        }
        (Verdict::HardwareFaster, Some(BoundType::Compute)) if target_has_more => {
            text("target_higher_compute", "Target has higher peak compute.")
        }
        (Verdict::HardwareSlower, Some(BoundType::Memory)) if reference_has_more => {
            text("reference_higher_bandwidth", "Reference has higher HBM bandwidth: not a bug.")
        }
        (Verdict::HardwareSlower, Some(BoundType::Compute)) if reference_has_more => {
            text("reference_higher_compute", "Reference has higher peak compute: not a bug.")
        }
        (Verdict::HardwareFaster | Verdict::HardwareSlower, _) => WITHIN_TOLERANCE,
        (Verdict::UnexpectedSlow, _) => {
            text("potential_issue", "Slower than the hardware ratio suggests: potential kernel/software issue.")
        }
        (Verdict::KernelIssue, _) => text(
            "large_slowdown",
            "Large slowdown: kernel selection or tuning; generate replay artifact, check kernel tile sizes.",
        ),
        (Verdict::Precision, _) => OTHER_TYPES,
        (Verdict::UnexpectedFast, _) => text(
            "reference_inefficiency",
            "Faster than the hardware ratio suggests: the reference may have an inefficiency.",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platforms() -> Both<&'static Platform> {
        Both { reference: Platform::find("H100").unwrap(), target: Platform::find("MI300X").unwrap() }
    }

    #[test]
    fn the_hardware_suggests_a_ratio_by_bound() {
        let memory = ExpectedRatio::of_bound(Some(BoundType::Memory), None, platforms());
        assert!((memory.low - 3.35 / 5.3).abs() < 1e-12 && memory == ExpectedRatio::exactly(memory.low));
        let compute = ExpectedRatio::of_bound(Some(BoundType::Compute), Some("matrix_bf16"), platforms());
        assert!((compute.high - 990.0 / 708.0).abs() < 1e-12);
        let unknown = ExpectedRatio::of_bound(None, None, platforms());
        assert_eq!((unknown.low, unknown.high), (memory.low, compute.high));
        assert!((unknown.excess(1.0) - 1.0).abs() < 1e-12, "inside the interval");
        assert!((unknown.excess(2.0 * compute.high) - 2.0).abs() < 1e-12);
        assert!((unknown.excess(0.5 * memory.low) - 0.5).abs() < 1e-12);
    }

    #[test]
    fn verdicts_follow_excess_and_slowdown() {
        let limits = Thresholds::default();
        let of =
            |ratio: f64, expected: f64, tiny: bool| Verdict::of(ratio, ExpectedRatio::exactly(expected), tiny, &limits);
        assert_eq!(of(0.61, 0.632, false), Verdict::HardwareFaster);
        assert_eq!(of(1.546, 1.398, false), Verdict::HardwareSlower);
        assert_eq!(of(1.3, 1.0, false), Verdict::UnexpectedSlow);
        assert_eq!(of(2.01, 1.0, false), Verdict::KernelIssue);
        assert_eq!(of(0.79, 1.0, false), Verdict::UnexpectedFast);
        assert_eq!(of(5.1, 5.0, true), Verdict::KernelIssue, "tiny products, whatever is expected");
        assert_eq!(of(5.1, 5.0, false), Verdict::HardwareSlower);
        assert_eq!(of(1.0, 1.0, false), Verdict::HardwareSlower);
    }

    #[test]
    fn hardware_explains_only_what_it_can() {
        let of = |verdict, bound, expected: f64, hardware: f64| {
            explain(verdict, Some(bound), ExpectedRatio::exactly(expected), ExpectedRatio::exactly(hardware)).id
        };
        let (faster, slower) = (Verdict::HardwareFaster, Verdict::HardwareSlower);
        assert_eq!(of(faster, BoundType::Memory, 0.632, 0.632), "target_higher_bandwidth");
        assert_eq!(of(faster, BoundType::Memory, 1.0, 1.0), "within_tolerance");
        // The same GPU twice has no more of anything, whatever the best times of the sides are.
        assert_eq!(of(slower, BoundType::Compute, 7.39, 1.0), "within_tolerance");
        assert_eq!(of(slower, BoundType::Compute, 1.398, 1.398), "reference_higher_compute");
    }
}

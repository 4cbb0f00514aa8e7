//! Measured pairs: what an estimate says before a fix against what the fix brought.
//!
//! A pair is a recording before a fix and one after it, with the step times that were measured without the profiler.
//! The fix has to be what the analysis names first, what it brought has to lie in the range, the range has to say
//! something, and afterwards the finding has to be gone or at least no longer urgent.

use crate::analysis::Analysis;
use crate::finding::{Finding, PATTERNS, PatternId, Priority, Range};

/// What is expected of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Name of the pair.
    pub pair: &'static str,
    /// The finding that names its fix.
    pub pattern: PatternId,
    /// How many times the cautious end the hopeful one may be.
    pub widest: f64,
}

/// Pairs by name.
pub const EXPECTED: &[Expected] = &[
    Expected { pair: "attention", pattern: PatternId::UNFUSED_ATTENTION, widest: 1.6 },
    Expected { pair: "rmsnorm", pattern: PatternId::UNFUSED_NORM, widest: 1.6 },
    Expected { pair: "elementwise_fusion", pattern: PatternId::ELEMENTWISE_CHAIN, widest: 1.6 },
    Expected { pair: "conv_layout", pattern: PatternId::LAYOUT_TRANSPOSES, widest: 2.0 },
    Expected { pair: "precision", pattern: PatternId::FULL_PRECISION_GEMM, widest: 2.0 },
    Expected { pair: "host_sync", pattern: PatternId::HOST_SYNC, widest: 3.0 },
    Expected { pair: "host_bound", pattern: PatternId::LAUNCH_BOUND, widest: 8.0 },
];

/// Where nothing is said of a pattern.
const WIDEST: f64 = 3.0;

impl Expected {
    /// What is expected of a pair: by its name, or by the pattern that its name begins with, as in
    /// `unfused_norm:small`.
    pub fn of(pair: &str) -> Option<Self> {
        if let Some(known) = EXPECTED.iter().find(|e| e.pair == pair) {
            return Some(*known);
        }
        let pattern = PATTERNS.iter().find(|p| pair.split_once(':').is_some_and(|(id, _)| id == p.id.as_str()))?.id;
        let known = EXPECTED.iter().find(|e| e.pattern == pattern);
        Some(known.copied().unwrap_or(Self { pair: "", pattern, widest: WIDEST }))
    }
}

/// How an estimate holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Checked {
    /// What was expected.
    pub expected: Expected,
    /// How many times shorter the step was after the fix.
    pub measured: f64,
    /// Rank of the finding before the fix.
    pub rank: Option<usize>,
    /// Its estimate.
    pub range: Option<Range>,
    /// How urgent it still is after the fix.
    pub after: Option<Priority>,
}

impl Checked {
    /// Checks a pair; step times are those before and after.
    pub fn of(expected: Expected, step_ms: (f64, f64), before: &Analysis, after: &Analysis) -> Self {
        let find =
            |a: &Analysis| -> Option<Finding> { a.findings.iter().find(|f| f.pattern == expected.pattern).cloned() };
        let first = find(before);
        Self {
            expected,
            measured: step_ms.0 / step_ms.1,
            rank: first.as_ref().map(|f| f.rank),
            range: first.map(|f| f.impact.speedup),
            after: find(after).map(|f| f.priority),
        }
    }

    /// Whether the finding is the first.
    pub fn is_first(&self) -> bool {
        self.rank == Some(1)
    }

    /// Whether what was measured lies in the range.
    pub fn is_inside(&self) -> bool {
        self.range.is_some_and(|r| r.low <= self.measured && self.measured <= r.high)
    }

    /// The hopeful end over the cautious one.
    pub fn width(&self) -> Option<f64> {
        self.range.map(|r| r.high / r.low)
    }

    /// Whether the range says something.
    pub fn is_narrow(&self) -> bool {
        self.width().is_some_and(|w| w <= self.expected.widest)
    }

    /// Whether the finding is gone after the fix, or no longer urgent.
    pub fn is_mended(&self) -> bool {
        self.after.is_none_or(|p| p > Priority::High)
    }

    /// Whether all of this holds.
    pub fn holds(&self) -> bool {
        self.is_first() && self.is_inside() && self.is_narrow() && self.is_mended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_known_by_name_or_by_pattern() {
        assert_eq!(Expected::of("rmsnorm").map(|e| e.pattern), Some(PatternId::UNFUSED_NORM));
        let small = Expected::of("unfused_norm:small").unwrap();
        assert_eq!((small.pattern, small.widest.to_bits()), (PatternId::UNFUSED_NORM, 1.6f64.to_bits()));
        assert_eq!(Expected::of("blocking_copies:large").map(|e| e.pattern), Some(PatternId::BLOCKING_COPIES));
        assert_eq!(Expected::of("unheard_of:small"), None);
    }

    #[test]
    fn a_pair_holds_if_all_of_it_does() {
        let expected = Expected::of("rmsnorm").unwrap();
        let range = Some(Range { low: 1.1, high: 1.5 });
        let good = Checked { expected, measured: 1.3, rank: Some(1), range, after: Some(Priority::Medium) };
        assert!(good.holds());
        assert!(!Checked { rank: Some(2), ..good }.holds());
        assert!(!Checked { measured: 1.51, ..good }.holds());
        assert!(!Checked { range: Some(Range { low: 1.1, high: 1.9 }), ..good }.holds(), "too wide");
        assert!(!Checked { after: Some(Priority::High), ..good }.holds());
        assert!(!Checked { rank: None, range: None, ..good }.holds());
    }
}

//! What the window would take after each fix, made in the order of the findings.

use jarvis_analyze::finding::{Finding, Priority, Range};
use jarvis_analyze::rank;

/// Most fixes shown.
const MOST: usize = 12;

/// A fix.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fix {
    pub(crate) rank: usize,
    pub(crate) title: String,
    pub(crate) priority: Priority,
    /// What it saves alone, as the finding says.
    pub(crate) saved: Range,
    /// What is expected before it.
    pub(crate) before_ms: f64,
    /// What is expected after it.
    pub(crate) after_ms: f64,
    /// If all fixes up to this one bring the most, and the least.
    pub(crate) after: Range,
}

/// The window and what is left of it after each fix.
///
/// Savings of several findings cannot simply be added up: a kernel that a fusion removes cannot be made faster as well.
/// Each fix is taken to shorten what is left by the share that it saves of the window alone.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Waterfall {
    pub(crate) window_ms: f64,
    pub(crate) fixes: Vec<Fix>,
}

impl Waterfall {
    pub(crate) fn of(findings: &[Finding], window_ms: f64) -> Self {
        let mut fixes: Vec<Fix> = Vec::new();
        if window_ms <= 0.0 {
            return Self::default();
        }
        let (mut expected, mut best, mut worst) = (window_ms, window_ms, window_ms);
        for finding in rank::recommended(findings).filter(|f| f.expected_ms() > 0.0).take(MOST) {
            let left = |saved: f64| 1.0 - (saved / window_ms).clamp(0.0, 0.98);
            let before_ms = expected;
            let saved = finding.impact.saved_ms;
            expected *= left(finding.expected_ms());
            best *= left(saved.high);
            worst *= left(saved.low);
            fixes.push(Fix {
                rank: finding.rank,
                title: finding.title.clone(),
                priority: finding.priority,
                saved,
                before_ms,
                after_ms: expected,
                after: Range::new(best, worst),
            });
        }
        Self { window_ms, fixes }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use jarvis_analyze::finding::{Impact, Paths, PatternId, Tier};

    pub(crate) fn finding(rank: usize, title: &str, low: f64, high: f64) -> Finding {
        let saved_ms = Range::new(low, high);
        Finding {
            rank,
            pattern: PatternId::TINY_GEMMS,
            tier: Tier::Compute,
            category: "gemm".to_owned(),
            priority: Priority::High,
            title: title.to_owned(),
            issue: String::new(),
            operations: Vec::new(),
            operations_total: 0,
            operations_left_out_ms: 0.0,
            time_ms: 1.0,
            percent_of_total: 1.0,
            paths: Paths::default(),
            impact: Impact::of(saved_ms, 10.0, String::new()),
            evidence: Vec::new(),
            replay_package: None,
            replay_reason: None,
            rows: Vec::new(),
        }
    }

    #[test]
    fn each_fix_shortens_what_the_others_leave() {
        let findings = [finding(1, "a", 4.0, 6.0), finding(2, "b", 5.0, 5.0), finding(3, "c", 0.0, 0.0)];
        let w = Waterfall::of(&findings, 10.0);
        let after: Vec<f64> = w.fixes.iter().map(|f| f.after_ms).collect();
        assert_eq!(after, [5.0, 2.5]);
        assert_eq!(w.fixes[1].after, Range { low: 2.0, high: 3.0 });
        assert_eq!(Waterfall::of(&findings, 0.0), Waterfall::default());
    }
}

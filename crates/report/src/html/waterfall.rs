//! What the window would take after each fix, made in the order of the findings.

use jarvis_analyze::finding::{Finding, PatternId, Priority, Range};
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
/// Each fix is taken to shorten what is left by the share that it saves of the window alone. One whose cause goes with
/// that of an earlier fix brings nothing more, and no fixes together bring the window below the kernels that they leave.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Waterfall {
    pub(crate) window_ms: f64,
    pub(crate) fixes: Vec<Fix>,
}

/// What is left of a window, and of its kernels, if each fix brings as much.
#[derive(Clone, Copy)]
struct Left {
    window_ms: f64,
    kernels_ms: f64,
}

impl Left {
    fn fix(&mut self, saved_ms: f64, of_kernels_ms: f64, whole_ms: f64) {
        self.kernels_ms = (self.kernels_ms - of_kernels_ms).max(0.0);
        let after = self.window_ms * (1.0 - (saved_ms / whole_ms).clamp(0.0, Range::MOST));
        self.window_ms = after.max(self.kernels_ms).min(self.window_ms);
    }
}

impl Waterfall {
    /// `kernels_ms` is the part of the window in which kernels run.
    pub(crate) fn of(findings: &[Finding], window_ms: f64, kernels_ms: f64) -> Self {
        let mut fixes: Vec<Fix> = Vec::new();
        if window_ms <= 0.0 {
            return Self::default();
        }
        let mut made: Vec<PatternId> = Vec::new();
        let [mut expected, mut best, mut worst] = [Left { window_ms, kernels_ms }; 3];
        for finding in rank::recommended(findings).filter(|f| f.expected_ms() > 0.0).take(MOST) {
            let before_ms = expected.window_ms;
            let (saved, kernels) = (finding.impact.saved_ms, finding.kernels_saved_ms);
            if finding.goes_with.is_none_or(|other| !made.contains(&other)) {
                expected.fix(finding.expected_ms(), f64::midpoint(kernels.low, kernels.high), window_ms);
                best.fix(saved.high, kernels.high, window_ms);
                worst.fix(saved.low, kernels.low, window_ms);
            }
            made.push(finding.pattern);
            fixes.push(Fix {
                rank: finding.rank,
                title: finding.title.clone(),
                priority: finding.priority,
                saved,
                before_ms,
                after_ms: expected.window_ms,
                after: Range::new(best.window_ms, worst.window_ms),
            });
        }
        Self { window_ms, fixes }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use jarvis_analyze::finding::{Impact, Mending, Paths, Tier};

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
            kernels_saved_ms: saved_ms,
            goes_with: None,
            mending: Mending::CountedOn,
        }
    }

    #[test]
    fn each_fix_shortens_what_the_others_leave() {
        let findings = [finding(1, "a", 4.0, 6.0), finding(2, "b", 5.0, 5.0), finding(3, "c", 0.0, 0.0)];
        let w = Waterfall::of(&findings, 10.0, 10.0);
        let after: Vec<f64> = w.fixes.iter().map(|f| f.after_ms).collect();
        assert_eq!(after, [5.0, 2.5]);
        assert_eq!(w.fixes[1].after, Range { low: 2.0, high: 3.0 });
        assert_eq!(Waterfall::of(&findings, 0.0, 0.0), Waterfall::default());
    }

    #[test]
    fn a_cause_that_goes_with_another_is_not_mended_twice() {
        let experts = Finding { pattern: PatternId::MOE_EXPERT_LOOP, ..finding(1, "experts", 6.0, 8.0) };
        let waits = |goes_with| Finding { goes_with, ..finding(2, "waits", 2.0, 5.0) };
        let last = |findings: &[Finding]| Waterfall::of(findings, 10.0, 10.0).fixes.last().unwrap().clone();
        let both = last(&[experts.clone(), waits(Some(PatternId::MOE_EXPERT_LOOP))]);
        let alone = last(std::slice::from_ref(&experts));
        assert_eq!((both.before_ms, both.after_ms, both.after), (alone.after_ms, alone.after_ms, alone.after));
        assert!(last(&[experts, waits(None)]).after_ms < alone.after_ms);
        // Without the other one it brings what it says.
        assert!(last(&[waits(Some(PatternId::MOE_EXPERT_LOOP))]).after_ms < 10.0);
    }

    #[test]
    fn kernels_that_stay_take_their_time() {
        let no_kernels = |f: Finding| Finding { kernels_saved_ms: Range::default(), ..f };
        let shorter = Finding { kernels_saved_ms: Range::new(0.5, 1.0), ..finding(1, "a", 6.0, 8.0) };
        let w = Waterfall::of(&[shorter, no_kernels(finding(2, "b", 4.0, 9.0))], 10.0, 2.0);
        // Of two milliseconds of kernels one to one and a half stay.
        let found = [w.fixes[1].after.low, w.fixes[1].after_ms, w.fixes[1].after.high];
        assert!(found.iter().zip([1.0, 1.25, 2.4]).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
    }
}

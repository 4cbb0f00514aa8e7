//! The one order of findings: how urgent, then how much the change is expected to bring end to end.
//!
//! Urgency is first what shares and efficiencies say ([`Priority`] as each tier sets it). What a change is expected to
//! bring end to end then moves it: a kernel that hides behind launches is no emergency however slow it is, and a change
//! that would shorten the window by a tenth matters whatever its rows look like; nor is one less urgent that brings more
//! than another at both ends of its range, unless nobody can count on it. What brings next to nothing, or nothing while the
//! GPU awaits launches, is of low priority and stands behind all that brings something: the tables account for the
//! operation. Waits of the GPU are never less urgent than their tier says, which knows what must go first: a step with host
//! waits cannot be captured as a whole. Faster launching rises only above what surely brings less: much of what it may
//! bring is the profiler's own time.

use std::cmp::Ordering;

use crate::finding::{Finding, Mending, PatternId, Priority, Tier};
use crate::prepared::Prepared;
use jarvis_trace::InOrder;

/// Expected saving, in percent of the window, from which a change is critical, and at least of high priority.
const CRITICAL_GAIN: f64 = 30.0;
const HIGH_GAIN: f64 = 10.0;

/// Saving that is reached even at the low end of its range, in percent of the window, from which a change is at least of
/// high priority: it must not stand behind one that may bring nothing.
pub(crate) const SURE_GAIN: f64 = 5.0;

/// Expected savings below these, in percent of the window, are not critical, and of medium priority at most.
const NOT_CRITICAL_GAIN: f64 = HIGH_GAIN;
const NOT_HIGH_GAIN: f64 = 1.0;

/// Below this, even at the hopeful end, a change is not worth making: in percent of the window.
const NO_GAIN: f64 = 0.5;

/// Weight of faster launching beside changes that name what is launched too often. What these bring is a part of what it
/// brings: one that brings half of it goes first.
const GENERIC: f64 = 0.5;

/// The same for a change that is one argument of a constructor, made before one that takes days: a third of it is enough.
const ONE_ARGUMENT: f64 = 1.0 / 3.0;

/// Settles how urgent each finding is, sorts them and numbers them; the change to make first is 1. `host_bound` tells
/// that the GPU awaits launches: a finding without a saving brings nothing then, else its saving is only not known.
pub fn ranked(mut findings: Vec<Finding>, prepared: &Prepared, host_bound: bool) -> Vec<Finding> {
    let window = prepared.utilization.total_time_ms;
    let brings_nothing = |f: &Finding| host_bound && !is_settled(f) && f.saves_nothing();
    for finding in &mut findings {
        finding.priority = settled(finding, window);
        if brings_nothing(finding) {
            finding.priority = Priority::Low;
        }
    }
    let launching = weight_of_launching(&findings);
    let stays = |f: &Finding| brings_nothing(f) || brings_little(f, window);
    let risen = |f: &Finding| if stays(f) { f.priority } else { lifted(f, &findings, launching, window) };
    let lifted: Vec<Priority> = findings.iter().map(risen).collect();
    for (finding, priority) in findings.iter_mut().zip(lifted) {
        finding.priority = priority;
    }
    findings.order_by(|a, b| order(a, b, launching, prepared));
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.rank = i + 1;
    }
    findings
}

/// Whether its tier alone says how urgent a finding is.
fn is_settled(finding: &Finding) -> bool {
    finding.tier == Tier::System && finding.pattern != PatternId::RECOMPUTATION
}

/// As urgent as any other that brings less, and as faster launching that it goes before: what names the cause explains
/// what helps in general.
fn lifted(finding: &Finding, all: &[Finding], launching: f64, window_ms: f64) -> Priority {
    if matches!(finding.mending, Mending::Trial | Mending::KernelTeam | Mending::Accuracy) {
        return finding.priority;
    }
    let own = finding.impact.saved_ms;
    let is_launching = finding.pattern == PatternId::LAUNCH_BOUND;
    let brings_less = |f: &&Finding| {
        let other = f.impact.saved_ms;
        match f.pattern {
            PatternId::LAUNCH_BOUND => {
                !is_settled(finding) && launching <= finding.expected_ms() && 100.0 * own.low >= SURE_GAIN * window_ms
            }
            _ if is_settled(f) || f.is_unquantified() => false,
            _ if f.saves_nothing() => !is_settled(finding),
            _ if is_launching => own.low >= other.high,
            _ => own.low >= other.low && own.high > other.high,
        }
    };
    let others = all.iter().filter(brings_less).map(|f| f.priority);
    others.min().map_or(finding.priority, |other| other.min(finding.priority))
}

/// Whether a change is not worth making. Where the saving is not known, it is not known to be little.
fn brings_little(finding: &Finding, window_ms: f64) -> bool {
    let most = finding.impact.saved_ms.high;
    !is_settled(finding) && most > 0.0 && 100.0 * most < NO_GAIN * window_ms
}

/// How urgent a finding is once its gain is known.
fn settled(finding: &Finding, window_ms: f64) -> Priority {
    // What an operation without a model would gain is not known, which is not to say that it is little.
    if is_settled(finding) || finding.is_unquantified() {
        return finding.priority;
    }
    let percent = |ms: f64| if window_ms > 0.0 { 100.0 * ms / window_ms } else { 0.0 };
    let saved = finding.impact.saved_ms;
    if brings_little(finding, window_ms) {
        return Priority::Low;
    }
    // Whoever chose the precision has weighed speed against accuracy.
    if finding.mending == Mending::Accuracy {
        return finding.priority.max(Priority::Medium);
    }
    moved(finding.priority, percent(finding.expected_ms()), percent(saved.low))
}

/// Where a priority goes by what is expected to be saved and what surely is, in percent of the window.
fn moved(priority: Priority, expected: f64, sure: f64) -> Priority {
    let at_least = match expected {
        g if g >= CRITICAL_GAIN => Priority::Critical,
        g if g >= HIGH_GAIN || sure >= SURE_GAIN => Priority::High,
        _ => Priority::Low,
    };
    let at_most = match expected {
        g if g < NOT_HIGH_GAIN => Priority::Medium,
        // Where the host is the limit, a faster kernel may bring nothing at all.
        g if g < NOT_CRITICAL_GAIN || sure < NOT_HIGH_GAIN => Priority::High,
        _ => Priority::Critical,
    };
    // The more urgent a level is, the smaller it is.
    priority.min(at_least).max(at_most)
}

/// What faster launching weighs in the order, in milliseconds: it is what helps in general, so changes that name what is
/// launched too often go first even if they bring somewhat less.
fn weight_of_launching(findings: &[Finding]) -> f64 {
    let expected = |pattern: PatternId| findings.iter().filter(move |f| f.pattern == pattern).map(Finding::expected_ms);
    let launching = expected(PatternId::LAUNCH_BOUND).fold(0.0, f64::max);
    let optimizer = expected(PatternId::UNFUSED_OPTIMIZER).filter(|ms| *ms >= ONE_ARGUMENT * launching);
    optimizer.map(f64::next_down).fold(GENERIC * launching, f64::min)
}

/// What a finding is expected to bring, for the order.
fn weight(finding: &Finding, launching: f64) -> f64 {
    if finding.pattern == PatternId::LAUNCH_BOUND { launching } else { finding.expected_ms() }
}

/// Whether it is of one of the largest operations.
fn is_top(finding: &Finding, prepared: &Prepared) -> bool {
    finding.rows.iter().any(|&(r, _)| prepared.row(r).in_top_ops)
}

fn order(a: &Finding, b: &Finding, launching: f64, prepared: &Prepared) -> Ordering {
    let top = |f: &Finding| is_top(f, prepared);
    a.priority
        .cmp(&b.priority)
        .then(weight(b, launching).total_cmp(&weight(a, launching)))
        .then(top(b).cmp(&top(a)))
        .then(b.time_ms.total_cmp(&a.time_ms))
        .then_with(|| (a.pattern, &a.category, &a.title).cmp(&(b.pattern, &b.category, &b.title)))
}

/// Findings that become recommendations: all but those of low priority.
pub fn recommended(findings: &[Finding]) -> impl Iterator<Item = &Finding> {
    findings.iter().filter(|f| f.priority < Priority::Low)
}

/// Percent of so much computing that recommendations could save at best, each operation counted once and none with more
/// than it takes; nothing if none is about kernels. What launches that go bring is no computing.
pub fn recoverable_percent<'f>(recommended: impl IntoIterator<Item = &'f Finding>, compute_ms: f64) -> Option<f64> {
    let of_kernels = recommended.into_iter().filter(|f| f.tier != Tier::System);
    let saved: f64 = of_kernels.map(|f| f.kernels_saved_ms.high.min(f.impact.saved_ms.high).min(f.time_ms)).sum();
    (saved > 0.0 && compute_ms > 0.0).then(|| (100.0 * saved / compute_ms).min(100.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::finding;

    #[test]
    fn what_kernels_could_save_is_no_more_than_they_take() {
        use Priority::{Critical, High};
        let mut all = [finding(Tier::Compute, High, 0.5, 1.0), finding(Tier::System, Critical, 1.0, 9.0)];
        all[0].time_ms = 2.0;
        assert_eq!(recoverable_percent(&all, 10.0), Some(10.0));
        all[0].time_ms = 0.6;
        assert_eq!(recoverable_percent(&all, 10.0), Some(6.0));
        assert_eq!(recoverable_percent(&all[1..], 10.0), None);
        // Of 1 ms that a change brings its kernels save a part; the rest is time in which the GPU waits.
        all[0].kernels_saved_ms.high = 0.4;
        assert_eq!(recoverable_percent(&all, 10.0), Some(4.0));
    }

    #[test]
    fn what_brings_more_is_no_less_urgent() {
        use Priority::{Critical, High, Medium};
        let all = [
            finding(Tier::Compute, High, 0.5, 1.0),
            finding(Tier::Fusion, Medium, 0.5, 3.0),
            finding(Tier::Compute, Medium, 0.4, 9.0),
            // What must go first its tier knows.
            finding(Tier::System, Critical, 0.0, 0.5),
            finding(Tier::System, Medium, 0.9, 3.0),
            Finding { pattern: PatternId::LAUNCH_BOUND, ..finding(Tier::System, Medium, 0.9, 9.0) },
            Finding { pattern: PatternId::LAUNCH_BOUND, ..finding(Tier::System, Medium, 1.0, 9.0) },
        ];
        let lifted: Vec<Priority> = all.iter().map(|f| lifted(f, &all, 20.0, 100.0)).collect();
        assert_eq!(lifted, [High, High, Medium, Critical, High, Medium, High]);
    }

    #[test]
    fn what_a_kernel_team_may_reach_is_recommended_and_not_urgent() {
        use Priority::{Critical, High, Medium};
        let unsure = Finding { mending: Mending::KernelTeam, ..finding(Tier::Compute, Critical, 0.0, 60.0) };
        assert_eq!(settled(&unsure, 100.0), Medium);
        let unsure = Finding { priority: Medium, ..unsure };
        let all = [unsure.clone(), finding(Tier::Compute, High, 0.0, 20.0)];
        assert_eq!(lifted(&unsure, &all, 0.0, 100.0), Medium);
        assert!(recommended(&all).count() == 2 && recoverable_percent(&[unsure], 100.0).is_some());
    }

    #[test]
    fn an_unknown_gain_is_not_a_small_one_and_lifts_nothing() {
        use Priority::{High, Low};
        let operation = crate::finding::FindingOperation { efficiency_percent: None, ..Default::default() };
        let unknown = Finding { operations: vec![operation], ..finding(Tier::Compute, High, 0.0, 0.0) };
        assert_eq!(settled(&unknown, 100.0), High);
        let small = finding(Tier::Compute, Low, 1.0, 2.0);
        assert_eq!(lifted(&small, &[unknown, small.clone()], 0.0, 100.0), Low);
    }

    #[test]
    fn a_change_that_names_what_is_launched_goes_before_faster_launching() {
        use Priority::{Critical, High};
        let prepared = crate::testing::Scene::new().mm(1, [64, 64, 64], 9.0).prepared();
        let launching = Finding { pattern: PatternId::LAUNCH_BOUND, ..finding(Tier::System, Critical, 30.0, 50.0) };
        let first_beside = |pattern, priority, low, high| {
            let named = Finding { pattern, ..finding(Tier::Fusion, priority, low, high) };
            let ranked = ranked(vec![launching.clone(), named], &prepared, true);
            assert_eq!(ranked[0].rank, 1);
            ranked[0].pattern
        };
        let (norm, optimizer, launches) =
            (PatternId::UNFUSED_NORM, PatternId::UNFUSED_OPTIMIZER, PatternId::LAUNCH_BOUND);
        // Half of what faster launching brings, and as urgent then.
        assert_eq!(first_beside(norm, Critical, 20.0, 22.0), norm);
        assert_eq!(first_beside(norm, High, 20.0, 22.0), norm);
        assert_eq!(first_beside(norm, Critical, 17.0, 21.0), launches);
        // One argument is worth less of it, but stands before nothing else that brings more.
        assert_eq!(first_beside(optimizer, High, 12.0, 16.0), optimizer);
        assert_eq!(first_beside(optimizer, High, 11.0, 15.0), launches);
        let all = vec![
            launching.clone(),
            Finding { pattern: optimizer, ..finding(Tier::Fusion, High, 12.0, 16.0) },
            Finding { pattern: norm, ..finding(Tier::Fusion, Critical, 13.0, 16.0) },
        ];
        let order: Vec<PatternId> = ranked(all, &prepared, true).iter().map(|f| f.pattern).collect();
        assert_eq!(order, [norm, optimizer, launches]);
    }

    #[test]
    fn what_may_bring_nothing_is_not_as_urgent_as_faster_launching() {
        let launching =
            Finding { pattern: PatternId::LAUNCH_BOUND, ..finding(Tier::System, Priority::Critical, 30.0, 50.0) };
        for (low, after) in [(0.0, Priority::High), (4.9, Priority::High), (5.0, Priority::Critical)] {
            let named = finding(Tier::Fusion, Priority::High, low, 60.0);
            let all = [launching.clone(), named.clone()];
            assert_eq!(lifted(&named, &all, weight_of_launching(&all), 100.0), after, "{low} ms for sure");
        }
    }

    #[test]
    fn what_brings_nothing_while_the_gpu_awaits_launches_is_of_low_priority() {
        use Priority::{Low, Medium};
        let mut scene = crate::testing::Scene::new();
        // Eleven operations, so that one is not among the ten largest.
        for (i, name) in ('a'..='k').enumerate() {
            let name = format!("custom::{name}");
            scene.calls(1, &crate::testing::Call::new(&name, "[]", "[]", &[("k", 100.0 - i as f64)]));
        }
        let prepared = scene.prepared();
        let row = |name: &str| prepared.rows.iter().find(|r| &*r.name == name).unwrap().id;
        let of = |row, high, title: &str| Finding {
            rows: vec![(row, 1.0)],
            title: title.to_owned(),
            ..finding(Tier::Compute, Medium, 0.0, high)
        };
        let (top, small) = (row("custom::a"), row("custom::k"));
        assert!(prepared.row(top).in_top_ops && !prepared.row(small).in_top_ops);
        let some = Finding { priority: Low, ..of(small, 0.01, "some") };
        let all = vec![of(small, 0.0004, "none"), of(top, 0.0, "none of a large one"), some];
        let told = |host_bound| -> Vec<(String, Priority)> {
            let ranked = ranked(all.clone(), &prepared, host_bound);
            ranked.into_iter().map(|f| (f.title, f.priority)).collect()
        };
        let expected = [("some", Low), ("none", Low), ("none of a large one", Low)];
        assert_eq!(told(true), expected.map(|(title, priority)| (title.to_owned(), priority)));
        // Where the host is ahead, what it saves is only not known; next to nothing is known.
        let expected = [("some", Medium), ("none of a large one", Medium), ("none", Low)];
        assert_eq!(told(false), expected.map(|(title, priority)| (title.to_owned(), priority)));
    }

    #[test]
    fn what_a_change_brings_moves_its_priority() {
        use Priority::{Critical, High, Low, Medium};
        for (before, expected, sure, after) in [
            (Critical, 0.4, 0.4, Medium),
            (Critical, 9.0, 9.0, High),
            (Critical, 12.0, 0.0, High),
            (Critical, 12.0, 1.0, Critical),
            (Low, 31.0, 1.0, Critical),
            (Low, 12.0, 0.0, High),
            (Low, 4.0, 4.0, Low),
            // Little, but for sure.
            (Medium, 9.0, 5.4, High),
            (Medium, 9.0, 4.9, Medium),
        ] {
            assert_eq!(moved(before, expected, sure), after, "{before:?}, {expected} % expected, {sure} % sure");
        }
    }
}

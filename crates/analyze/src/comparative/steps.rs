//! What times are divided by, so that recordings of different length can be compared.

use std::collections::BTreeMap;

use jarvis_trace::{Clock, Ns};
use serde::Serialize;

use super::both::Both;
use super::is_covered;
use super::work::Part;
use crate::analysis::Analysis;
use crate::prepared::Prepared;

/// How times were made comparable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Times are of one step.
    PerStep,
    /// Times are of the whole recordings, which hold the same calls.
    Total,
    /// Times of the reference are scaled to the target's calls, operation by operation.
    PerCall,
}

/// How times were made comparable, and why so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Normalization {
    /// How.
    pub mode: Mode,
    /// Why.
    pub reason: String,
    /// Steps of each side; 1 where there are none.
    pub steps: Both<u32>,
}

impl Normalization {
    /// Whether times are of one step, and the recordings hold different numbers of them.
    pub fn has_other_length(&self) -> bool {
        self.mode == Mode::PerStep && self.steps.reference != self.steps.target
    }

    /// What times are of, in words.
    pub fn unit(&self) -> &'static str {
        match self.mode {
            Mode::PerStep => "per step",
            Mode::Total => "of the whole trace",
            Mode::PerCall => "as recorded, those of operations at the target's number of calls",
        }
    }
}

/// Recordings with the same number of these calls are equally long: this share of the time must be of such.
const SAME_CALLS_SHARE: f64 = 0.9;

/// By steps that are marked, else by calls of the outermost module if both sides make as many; `None` if there is
/// neither. Different numbers of calls need not be different numbers of steps.
pub(crate) fn by_steps(sides: Both<&Prepared>) -> Option<Normalization> {
    let marked = Both::of(sides, |p| p.program.steps);
    let (steps, reason) = if marked.reference > 0 && marked.target > 0 {
        (marked, "both traces mark their steps".to_owned())
    } else {
        let outer = Both::of(sides, outermost);
        let (reference, target) = (outer.reference?, outer.target?);
        if reference != target {
            return None;
        }
        (Both { reference: reference.1, target: target.1 }, format!("both traces call the module `{}`", reference.0))
    };
    Some(Normalization { mode: Mode::PerStep, reason, steps })
}

/// Which side marks its steps, where not both do.
pub(crate) fn marks(sides: Both<&Prepared>) -> &'static str {
    match (sides.reference.program.steps, sides.target.program.steps) {
        (0, 0) => "the traces mark no steps",
        (_, 0) => "only the reference marks its steps",
        _ => "only the target marks its steps",
    }
}

/// Steps of a recording that can be compared with as many of another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Window {
    spans: Vec<(Ns, Ns)>,
    steps: usize,
}

/// How long the GPU waits in a step on both sides where their numbers differ: first to last kernel of a whole recording
/// holds one gap between steps less than it has steps. As many of the last steps of each are taken, since in the first
/// ones the host is not yet ahead: from begin to begin where there are two, else what lies within. `None` if no kernel
/// can be told to be of a step.
pub(crate) fn idle_ms(analyses: Both<&Analysis>) -> Option<Both<f64>> {
    let windows = windows(&Both::of(analyses, |a| spans(&a.prepared)))?;
    let idle = |a: &Analysis, window: &Window| {
        let gaps = &a.system.as_ref()?.gaps;
        Some(gaps.idle_within(&window.spans).ms() / window.steps as f64)
    };
    Some(Both {
        reference: idle(analyses.reference, &windows.reference)?,
        target: idle(analyses.target, &windows.target)?,
    })
}

fn windows(spans: &Both<Vec<(Ns, Ns)>>) -> Option<Both<Window>> {
    let steps = spans.reference.len().min(spans.target.len());
    let last = Both::of(spans.as_ref(), |s| &s[s.len() - steps..]);
    let of = |window: fn(&[(Ns, Ns)]) -> Option<Window>| {
        Some(Both { reference: window(last.reference)?, target: window(last.target)? })
    };
    of(begin_to_begin).or_else(|| of(within))
}

/// First start and last end of the GPU work of each step that has some, in their order.
fn spans(p: &Prepared) -> Vec<(Ns, Ns)> {
    let mut spans: BTreeMap<u32, (Ns, Ns)> = BTreeMap::new();
    for (step, leaf) in p.program.leaves.iter().filter_map(|leaf| Some((leaf.step?, leaf))) {
        for kernel in &leaf.kernels {
            let end = kernel.start + Ns((kernel.us * 1e3).round() as i64);
            let span = spans.entry(step).or_insert((kernel.start, end));
            *span = (span.0.min(kernel.start), span.1.max(end));
        }
    }
    spans.into_values().collect()
}

/// From the first begin to the last.
fn begin_to_begin(spans: &[(Ns, Ns)]) -> Option<Window> {
    let [first, .., last] = spans else { return None };
    (last.0 > first.0).then(|| Window { spans: vec![(first.0, last.0)], steps: spans.len() - 1 })
}

/// Each step without what lies between steps.
fn within(spans: &[(Ns, Ns)]) -> Option<Window> {
    (!spans.is_empty()).then(|| Window { spans: spans.to_vec(), steps: spans.len() })
}

/// What tells whether recordings without steps are equally long.
pub(crate) struct Calls {
    /// Time of the operations that both have.
    matched_ms: Both<f64>,
    /// Time of those of them that both call as often.
    as_often_ms: Both<f64>,
    /// Time of all kernels.
    kernel_ms: Both<f64>,
    /// Whether the kernels of both, by their names, run as often.
    same_runs: bool,
}

impl Calls {
    /// Of calls and time of each operation that both have.
    pub(crate) fn of(rows: impl Iterator<Item = Both<(f64, f64)>>, kernel_ms: Both<f64>, same_runs: bool) -> Self {
        let (mut matched_ms, mut as_often_ms) = (Both::default(), Both::default());
        for row in rows {
            let ms = Both::of(row, |(_, ms)| ms);
            matched_ms.add(ms);
            if (row.reference.0 - row.target.0).abs() < 1e-9 {
                as_often_ms.add(ms);
            }
        }
        Self { matched_ms, as_often_ms, kernel_ms, same_runs }
    }

    /// Whether the operations that both have are called as often.
    fn are_as_many(&self) -> bool {
        let sum = |ms: Both<f64>| ms.reference + ms.target;
        sum(self.as_often_ms) >= SAME_CALLS_SHARE * sum(self.matched_ms)
    }

    /// Whether the operations that both have are most of either side. A few that are called once in any recording do
    /// not tell how long it is.
    fn are_most(&self) -> bool {
        let share = Both::of(self.matched_ms.zip(self.kernel_ms), |(own, all)| all > 0.0 && is_covered(own, all));
        share.reference && share.target
    }
}

/// Where no steps are known: as they are if the recordings are known to be equally long, else call by call.
pub(crate) fn by_calls(marks: &str, calls: &Calls) -> Normalization {
    let (mode, why) = match () {
        () if calls.are_most() && calls.are_as_many() => (Mode::Total, "; the calls are as many"),
        () if !calls.are_most() && calls.same_runs => (Mode::Total, "; the kernels of both run as often"),
        () if !calls.are_as_many() => (Mode::PerCall, " and the numbers of calls differ"),
        () => (Mode::PerCall, " and too little runs on both sides to tell whether the recordings are equally long"),
    };
    Normalization { mode, reason: format!("{marks}{why}"), steps: Both { reference: 1, target: 1 } }
}

/// Calls and time of some parts.
pub(crate) fn calls_and_ms(parts: &[Part]) -> (f64, f64) {
    parts.iter().fold((0.0, 0.0), |(calls, ms), p| (calls + p.calls, ms + p.ms))
}

/// The class of the outermost module with most leaves, and the calls of that module: a model that is called layer by
/// layer has many of the class in a step.
fn outermost(p: &Prepared) -> Option<(String, u32)> {
    let outer = p.program.modules.iter().filter(|m| m.parent.is_none());
    let largest = outer.clone().max_by_key(|m| m.leaves.len())?;
    let calls = outer.filter(|m| m.name == largest.name).count() as u32;
    Some((largest.base.to_string(), calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_calls_do_not_tell_how_long_a_recording_is() {
        const DIFFER: &str = "the traces mark no steps and the numbers of calls differ";
        const UNKNOWN: &str = "the traces mark no steps and too little runs on both sides to tell whether the \
                               recordings are equally long";
        let row = |reference: f64, target: f64| Both { reference: (reference, 9.0), target: (target, 9.0) };
        let of = |rows: &[Both<(f64, f64)>], kernel_ms: f64, same_runs: bool| {
            let kernel_ms = Both { reference: 10.0, target: kernel_ms };
            by_calls("the traces mark no steps", &Calls::of(rows.iter().copied(), kernel_ms, same_runs))
        };
        for (rows, kernel_ms, same_runs, mode, reason) in [
            (&[row(2.0, 2.0)][..], 10.0, false, Mode::Total, "the traces mark no steps; the calls are as many"),
            (&[row(2.0, 3.0)], 10.0, false, Mode::PerCall, DIFFER),
            (&[row(2.0, 3.0)], 10.0, true, Mode::PerCall, DIFFER),
            // The target runs much that the reference does not.
            (&[row(2.0, 2.0)], 30.0, false, Mode::PerCall, UNKNOWN),
            (&[row(2.0, 3.0)], 30.0, false, Mode::PerCall, DIFFER),
            // Nothing in common but the kernels.
            (&[], 10.0, false, Mode::PerCall, UNKNOWN),
            (&[], 10.0, true, Mode::Total, "the traces mark no steps; the kernels of both run as often"),
        ] {
            let found = of(rows, kernel_ms, same_runs);
            assert_eq!((found.mode, &*found.reason), (mode, reason), "{rows:?} of {kernel_ms}");
        }
    }

    #[test]
    fn the_gap_between_steps_counts_once_a_step() {
        let ms = |from: i64, to: i64| (Ns(from * 1_000_000), Ns(to * 1_000_000));
        let length = |window: &Window| window.spans.iter().map(|(a, b)| *b - *a).sum::<Ns>().ms() / window.steps as f64;
        let a_step = |window: Option<Window>| window.as_ref().map(length);
        // Steps of 8 ms every 10 ms.
        let three = [ms(0, 8), ms(10, 18), ms(20, 28)];
        assert_eq!(a_step(begin_to_begin(&three)), Some(10.0));
        assert_eq!(a_step(begin_to_begin(&three[..2])), Some(10.0), "as with fewer of them");
        assert_eq!(begin_to_begin(&three[..1]), None);
        assert_eq!((a_step(within(&three)), a_step(within(&three[2..])), within(&[])), (Some(8.0), Some(8.0), None));
        // A recording against its own last steps, the first of all being slower.
        let slow = vec![ms(-20, -2), three[0], three[1], three[2]];
        for steps in 1..=4 {
            let own = Both { reference: slow[4 - steps..].to_vec(), target: slow.clone() };
            let windows = windows(&own).unwrap();
            assert_eq!(windows.reference, windows.target, "{steps} steps");
        }
        assert_eq!(windows(&Both { reference: Vec::new(), target: slow }), None);
    }
}

//! What times are divided by, so that recordings of different length can be compared.

use std::collections::BTreeMap;

use jarvis_trace::{Clock, Ns};
use serde::Serialize;

use super::both::Both;
use super::work::Part;
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

/// The time of a step on both sides where their numbers differ: first to last kernel of a whole recording holds one gap
/// between steps less than it has steps. As many of the last steps of each are taken, since in the first ones the host is
/// not yet ahead: from begin to begin where there are two, else what lies within. `None` if no kernel can be told to be
/// of a step.
pub(crate) fn pace(sides: Both<&Prepared>) -> Option<Both<f64>> {
    pace_of(&Both::of(sides, spans))
}

fn pace_of(spans: &Both<Vec<(Ns, Ns)>>) -> Option<Both<f64>> {
    let steps = spans.reference.len().min(spans.target.len());
    let last = Both::of(spans.as_ref(), |s| &s[s.len() - steps..]);
    let of = |time: fn(&[(Ns, Ns)]) -> Option<f64>| {
        Some(Both { reference: time(last.reference)?, target: time(last.target)? })
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

/// Milliseconds from one begin to the next.
fn begin_to_begin(spans: &[(Ns, Ns)]) -> Option<f64> {
    let [first, .., last] = spans else { return None };
    Some((last.0 - first.0).ms() / (spans.len() - 1) as f64).filter(|ms| *ms > 0.0)
}

/// Milliseconds of a step without what lies between steps.
fn within(spans: &[(Ns, Ns)]) -> Option<f64> {
    let sum: f64 = spans.iter().map(|(start, end)| (*end - *start).ms()).sum();
    (!spans.is_empty()).then(|| sum / spans.len() as f64)
}

/// Where no steps are known: as they are if the operations that both have are called as often, else call by call.
pub(crate) fn by_calls(marks: &str, rows: impl Iterator<Item = Both<(f64, f64)>>) -> Normalization {
    let (mut same, mut all) = (0.0, 0.0);
    for row in rows {
        let (calls, ms) = ((row.reference.0, row.target.0), row.reference.1 + row.target.1);
        all += ms;
        if (calls.0 - calls.1).abs() < 1e-9 {
            same += ms;
        }
    }
    let (mode, calls) = match () {
        () if all <= 0.0 => (Mode::Total, "; no operation of one trace is found in the other"),
        () if same >= SAME_CALLS_SHARE * all => (Mode::Total, "; the calls are as many"),
        () => (Mode::PerCall, " and the numbers of calls differ"),
    };
    Normalization { mode, reason: format!("{marks}{calls}"), steps: Both { reference: 1, target: 1 } }
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
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_common_says_nothing_of_calls() {
        let row = |reference: f64, target: f64| Both { reference: (reference, 1.0), target: (target, 1.0) };
        let of = |rows: &[Both<(f64, f64)>]| by_calls("the traces mark no steps", rows.iter().copied());
        for (rows, mode, reason) in [
            (&[][..], Mode::Total, "the traces mark no steps; no operation of one trace is found in the other"),
            (&[row(2.0, 2.0)], Mode::Total, "the traces mark no steps; the calls are as many"),
            (&[row(2.0, 3.0)], Mode::PerCall, "the traces mark no steps and the numbers of calls differ"),
        ] {
            let found = of(rows);
            assert_eq!((found.mode, &*found.reason), (mode, reason));
        }
    }

    #[test]
    fn the_gap_between_steps_counts_once_a_step() {
        let ms = |from: i64, to: i64| (Ns(from * 1_000_000), Ns(to * 1_000_000));
        // Steps of 8 ms every 10 ms.
        let three = [ms(0, 8), ms(10, 18), ms(20, 28)];
        assert_eq!(begin_to_begin(&three), Some(10.0));
        assert_eq!(begin_to_begin(&three[..2]), Some(10.0), "as with fewer of them");
        assert_eq!(begin_to_begin(&three[..1]), None);
        assert_eq!((within(&three), within(&three[2..]), within(&[])), (Some(8.0), Some(8.0), None));
        // A recording against its own last steps, the first of all being slower.
        let slow = vec![ms(-20, -2), three[0], three[1], three[2]];
        for steps in 1..=4 {
            let own = Both { reference: slow[4 - steps..].to_vec(), target: slow.clone() };
            let pace = pace_of(&own).unwrap();
            assert_eq!(pace.reference, pace.target, "{steps} steps");
        }
        assert_eq!(pace_of(&Both { reference: Vec::new(), target: slow }), None);
    }
}

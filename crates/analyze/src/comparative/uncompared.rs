//! What can still be said where operations can't be matched: which kernels both sides run, by their names alone. The
//! kernels of a captured graph are recorded without operations.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_trace::{GpuWork, InOrder};

use super::both::Both;
use super::changes::{Change, ChangeKind, launcher, launchers, listed};
use super::gaps::longer_beside_computing;
use super::work::Part;
use super::{COVERAGE_PERCENT, Comparative, WORTH_PERCENT, is_covered};
use crate::prepared::Prepared;
use crate::rounding::{shown, shown_ms};

/// A kernel that both sides run. Times are as [`super::Normalization`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct SameKernel {
    /// Its name.
    pub name: Arc<str>,
    /// Time.
    pub ms: Both<f64>,
    /// How often it runs.
    pub runs: Both<f64>,
}

/// Time and runs of the kernels of a side, by name.
type ByName<'a> = BTreeMap<&'a Arc<str>, (f64, f64)>;

fn by_name(p: &Prepared) -> ByName<'_> {
    let mut found = ByName::new();
    let kernels = p.program.leaves.iter().flat_map(|leaf| leaf.kernels.iter());
    for kernel in kernels.filter(|k| !k.is_copy && k.work != GpuWork::Communication) {
        let known = found.entry(&kernel.name).or_default();
        *known = (known.0 + kernel.us / 1e3, known.1 + 1.0);
    }
    found
}

/// Whether most of the kernels of either side run on the other too, and as often.
pub(super) fn run_as_often(sides: Both<&Prepared>) -> bool {
    let named = Both::of(sides, by_name);
    let is_most = |own: &ByName<'_>, other: &ByName<'_>| {
        let is_same = |name: &Arc<str>, runs: f64| other.get(name).is_some_and(|(_, n)| (runs - n).abs() < 0.5);
        let ms = |of: &dyn Fn(&Arc<str>, f64) -> bool| {
            own.iter().filter(|(name, (_, runs))| of(name, *runs)).map(|(_, (ms, _))| ms).sum::<f64>()
        };
        let all = ms(&|_, _| true);
        all > 0.0 && is_covered(ms(&is_same), all)
    };
    is_most(&named.reference, &named.target) && is_most(&named.target, &named.reference)
}

/// The kernels that both sides run, those with the largest difference first.
pub(super) fn same_kernels(sides: Both<&Prepared>, steps: Both<f64>) -> Vec<SameKernel> {
    let by_name = Both::of(sides, by_name);
    let one = |(name, target): (&&Arc<str>, &(f64, f64))| {
        let of = Both { reference: *by_name.reference.get(*name)?, target: *target };
        let per_step = Both::of(of.zip(steps), |((ms, runs), steps)| (ms / steps, runs / steps));
        Some(SameKernel {
            name: Arc::clone(name),
            ms: Both::of(per_step, |(ms, _)| ms),
            runs: Both::of(per_step, |(_, runs)| runs),
        })
    };
    let mut same: Vec<SameKernel> = by_name.target.iter().filter_map(one).collect();
    same.order_by(|a, b| b.ms.delta().abs().total_cmp(&a.ms.delta().abs()).then_with(|| a.name.cmp(&b.name)));
    same
}

/// Times in which nothing computes.
const BESIDE: [ChangeKind; 3] = [ChangeKind::Idle, ChangeKind::Copies, ChangeKind::Communication];

impl Comparative {
    /// Whether so little is matched that the operations say little of the whole.
    pub(super) fn is_hardly_matched(&self) -> bool {
        self.coverage_percent.reference.min(self.coverage_percent.target) < COVERAGE_PERCENT
    }

    /// What the kernels of the same name take in all.
    pub fn same_kernels_ms(&self) -> Both<f64> {
        let mut ms = Both::<f64>::default();
        self.same_kernels.iter().for_each(|k| ms.add(k.ms));
        ms
    }

    /// What is to be said where nothing is found to improve. What was not compared may well take longer.
    pub fn no_gap(&self) -> String {
        if !self.is_hardly_matched() {
            return self.nothing_longer();
        }
        let mut text = if self.operations.is_empty() {
            format!("No operation could be compared: {}.", self.why_unmatched())
        } else {
            let percent = self.coverage_percent;
            let (side, percent) = if percent.reference < percent.target {
                ("reference", percent.reference)
            } else {
                ("target", percent.target)
            };
            format!(
                "Only {}% of the {side}'s kernel time could be compared by operation, and of that nothing takes longer \
                 than the hardware explains.",
                shown(percent, 1)
            )
        };
        if !self.same_kernels.is_empty() {
            let ms = self.same_kernels_ms();
            text += &format!(
                " By name, the kernels that both sides run take {} ms in the reference and {} ms in the target.",
                shown_ms(ms.reference),
                shown_ms(ms.target)
            );
        }
        text
    }

    /// What is to be said where operations are compared and none takes longer. Other time may.
    fn nothing_longer(&self) -> String {
        let floor = WORTH_PERCENT / 100.0 * self.totals.target.total_ms;
        let is_longer = |c: &&Change| BESIDE.contains(&c.kind) && c.ms.delta() > 0.0 && c.ms.delta() >= floor;
        let longer: Vec<&Change> = self.changes.iter().filter(is_longer).collect();
        let incomplete = self.incomplete_sides();
        if self.uncomparable.is_none() && longer.is_empty() && incomplete.is_none() {
            return "The target takes nowhere longer than its hardware explains.".to_owned();
        }
        let mut text =
            "Of the operations that both sides run, none takes the target longer than its hardware explains."
                .to_owned();
        if let Some(why) = &self.uncomparable {
            text += &format!(" Times in which nothing computes can't be compared: {why}.");
            return text;
        }
        for c in longer {
            let ms = Both::of(c.ms, shown_ms);
            text += &format!(" {}: {} ms in the reference, {} ms in the target", c.what, ms.reference, ms.target);
            text += self.why_no_gap(c).map_or_else(|| ".".to_owned(), |why| format!("; {why}.")).as_str();
        }
        if let Some(sides) = incomplete {
            text += &format!(" A part of the recording of the {sides} is lost, so the rest is not judged.");
        }
        text
    }

    /// Why a time in which nothing computes is no place to improve though it is longer, if the totals tell.
    pub fn why_no_gap(&self, change: &Change) -> Option<&'static str> {
        let floor = WORTH_PERCENT / 100.0 * self.totals.target.total_ms;
        let is_longer = BESIDE.contains(&change.kind) && change.ms.delta() > 0.0;
        let is_known = self.uncomparable.is_none() && self.incomplete_sides().is_none();
        (is_longer && is_known && longer_beside_computing(self.totals.as_ref()) < floor)
            .then_some("in all the target takes no longer for it: the reference computes in that time, or waits for something else")
    }

    /// Why operations have no counterpart.
    fn why_unmatched(&self) -> String {
        let of = |side: &str, parts: &[Part]| {
            let bare: Vec<Part> = parts.iter().filter(|p| launcher(&p.name).is_some()).cloned().collect();
            let ms = |parts: &[Part]| parts.iter().map(|p| p.ms).sum::<f64>();
            (2.0 * ms(&bare) > ms(parts)).then(|| {
                let launchers = listed(&launchers(&bare));
                format!(
                    "the kernels of the {side} are recorded with what launched them ({launchers}), without operations"
                )
            })
        };
        let sides = [of("reference", &self.left.reference), of("target", &self.left.target)];
        let known: Vec<String> = sides.into_iter().flatten().collect();
        if known.is_empty() { "the sides run different ones".to_owned() } else { known.join(", and ") }
    }
}

//! A target against a reference: which work is which, which differences the hardware explains, where the target should be
//! improved. The reference shows what is achievable; it is no contest.

mod both;
mod canonical;
mod changes;
mod collectives;
mod compared;
mod gaps;
mod gate;
mod matching;
mod same_work;
mod steps;
mod uncompared;
mod verdict;
mod work;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jarvis_trace::InOrder;
use serde::Serialize;

pub use both::Both;
pub use changes::{Change, ChangeKind};
pub use compared::Compared;
pub use gaps::{Gap, GapSource};
pub use gate::{Checked, Gate, Outcome};
pub use matching::MatchLevel;
pub use steps::{Mode, Normalization};
pub use uncompared::SameKernel;
pub use verdict::{ExpectedRatio, Explanation, Verdict};
pub use work::{Part, Place};

use changes::Recorded;
use compared::{Scene, Sum};
use gaps::Timeline;
use matching::{Matched, Surplus, matched};
use steps::Calls;
use work::Work;

use crate::analysis::Analysis;
use crate::finding::{PatternId, Tier};
use crate::prepared::{BoundType, Prepared};
use crate::rank;
use crate::texts::counted;

/// Differences and operations below this share are not told, in percent.
pub const WORTH_PERCENT: f64 = 1.0;

/// A difference of an operation that is worth telling, in percent of the reference.
pub const DIFFERENCE_PERCENT: f64 = 10.0;

/// Less matched kernel time than this is worth a warning, in percent.
const COVERAGE_PERCENT: f64 = 80.0;

/// Whether a part of a kernel time is enough of it to speak for the whole.
fn is_covered(part: f64, all: f64) -> bool {
    100.0 * part >= COVERAGE_PERCENT * all
}

/// Two times that differ by less than this share are the same.
const SAME: f64 = 0.005;

/// The GPU's time on a side, as [`Normalization`] says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SideTotals {
    /// From the first start to the last end.
    pub total_ms: f64,
    /// Some kernel computes.
    pub computation_ms: f64,
    /// Only copies go on.
    pub exposed_copy_ms: f64,
    /// Only communication goes on.
    pub exposed_comm_ms: f64,
    /// Copies go on.
    pub copy_ms: f64,
    /// Nothing goes on.
    pub idle_ms: f64,
    /// Something goes on.
    pub busy_ms: f64,
    /// Communication goes on.
    pub comm_ms: f64,
}

/// One of the times of a side.
pub type TotalOf = fn(&SideTotals) -> f64;

impl SideTotals {
    fn of(p: &Prepared, steps: f64) -> Self {
        let u = &p.utilization;
        Self {
            total_ms: u.total_time_ms / steps,
            computation_ms: u.computation_time_ms / steps,
            exposed_copy_ms: u.exposed_memcpy_time_ms / steps,
            exposed_comm_ms: u.exposed_comm_time_ms / steps,
            copy_ms: u.total_memcpy_time_ms / steps,
            idle_ms: u.idle_time_ms / steps,
            busy_ms: u.busy_time_ms / steps,
            comm_ms: u.total_comm_time_ms / steps,
        }
    }

    /// The same with what the GPU waits in a step, where the recording as a whole tells another time.
    fn waiting(self, idle_ms: f64) -> Self {
        Self { idle_ms, total_ms: self.busy_ms + idle_ms, ..self }
    }
}

/// What bounds most of the target's compute time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Dominant {
    /// Memory traffic.
    Memory,
    /// Arithmetic.
    Compute,
    /// Neither for more than half of the time.
    Mixed,
}

impl Dominant {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Memory => "memory-bound characteristics dominate",
            Self::Compute => "compute-bound characteristics dominate",
            Self::Mixed => "mixed characteristics",
        }
    }
}

/// Why totals can't be compared where the numbers of steps differ.
const UNKNOWN_BEGIN: &str =
    "the traces hold different numbers of steps, and it can't be told where one begins on the GPU";

/// A finished comparison.
#[derive(Debug, Clone)]
pub struct Comparative {
    /// How times were made comparable.
    pub normalization: Normalization,
    /// The GPU's time.
    pub totals: Both<SideTotals>,
    /// Computation in the unit of operations: that of the reference is scaled as they are.
    pub compute_ms: Both<f64>,
    /// Why the totals, and times in which nothing computes, can't be compared; none if they can.
    pub uncomparable: Option<String>,
    /// Whether what has no counterpart is in the same unit on both sides: of one step, of recordings that are equally
    /// long, or scaled as most of the work is.
    pub is_to_scale: bool,
    /// Kernel time that is matched, in percent of that of the side.
    pub coverage_percent: Both<f64>,
    /// What bounds most of the target's compute time.
    pub dominant: Dominant,
    /// What both sides do, most time first.
    pub operations: Vec<Compared>,
    /// The same, summed by the name of the operation.
    pub by_name: Vec<Compared>,
    /// The same, summed by category, with what has no counterpart.
    pub categories: Vec<Compared>,
    /// What has no counterpart, most time first.
    pub left: Both<Vec<Part>>,
    /// Kernels that both sides run, where operations say little of the whole; the largest difference first.
    pub same_kernels: Vec<SameKernel>,
    /// Rows left out because they copy between host and device, or between devices.
    pub host_copies: Both<usize>,
    /// Whether both sides run the same collectives, of the same sizes and as often; none if neither has any.
    pub same_collectives: Option<bool>,
    /// What differs, the largest difference first. The parts add up to the difference of the total times.
    pub changes: Vec<Change>,
    /// Patterns of urgent findings that only the reference has.
    pub gone: Vec<PatternId>,
    /// Patterns of urgent findings that only the target has.
    pub new: Vec<PatternId>,
    /// Where the target should be improved.
    pub gaps: Vec<Gap>,
    /// Limits that were checked.
    pub gates: Vec<Checked>,
    /// What is missing from the recordings, and of which side.
    pub losses: Vec<String>,
    /// Which recordings miss a part.
    pub is_incomplete: Both<bool>,
    /// What a reader of the numbers should know; losses first, because they say what the numbers are of.
    pub warnings: Vec<String>,
}

impl Comparative {
    /// Compares an analysed target with a reference.
    pub fn of(reference: &Analysis, target: &Analysis) -> Self {
        let analyses = Both { reference, target };
        let sides = Both::of(analyses, |a| &a.prepared);
        let (normalization, work) = comparable(sides);
        let steps = Both::of(normalization.steps, f64::from);
        let mut totals = Both::of(sides.zip(steps), |(p, steps)| SideTotals::of(p, steps));
        let idle_ms = if normalization.has_other_length() { steps::idle_ms(analyses) } else { None };
        if let Some(idle_ms) = idle_ms {
            totals = Both::of(totals.zip(idle_ms), |(totals, idle_ms)| totals.waiting(idle_ms));
        }
        let uncomparable = match normalization.mode {
            Mode::PerCall => Some(normalization.reason.clone()),
            Mode::PerStep if normalization.has_other_length() && idle_ms.is_none() => Some(UNKNOWN_BEGIN.to_owned()),
            Mode::PerStep | Mode::Total => None,
        };
        let surplus = if normalization.mode == Mode::PerCall { Surplus::Scaled } else { Surplus::LeftOver };
        let kernel_ms = Both::of(work.as_ref(), Work::ms);
        let communicated = Both::of(analyses, |a| a.system.as_ref().map_or(&[][..], |s| &s.communication.collectives));
        let same_collectives = collectives::same(communicated, steps);
        let host_copies = Both::of(work.as_ref(), |w| w.host_copies);
        let copies = Both::of(work.as_ref(), |w| w.copies);
        let found = matched(sides, Both::of(work, |w| w.parts), surplus);
        let in_categories = category_sums(&found);
        let factor = Both { reference: found.factor, target: 1.0 };
        let compute_ms = Both::of(totals.zip(factor), |(t, factor)| t.computation_ms * factor);
        let scene = Scene { sides, compute_ms };
        let mut operations: Vec<Compared> = found.matches.iter().map(|m| scene.judged(m)).collect();
        let time = |c: &Compared| c.ms.reference.max(c.ms.target);
        operations
            .order_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| (&a.name, &a.args).cmp(&(&b.name, &b.args))));
        let left = sorted(found.left);
        let left_ms = Both::of(left.as_ref(), |parts| parts.iter().map(|p| p.ms).sum::<f64>());
        let coverage_percent = Both::of(left_ms.zip(kernel_ms).zip(factor), |((left, all), factor)| {
            if all > 0.0 { (100.0 * (1.0 - left / factor / all)).clamp(0.0, 100.0) } else { 0.0 }
        });
        let waits = Both::of(analyses, |a| {
            let mut waits = patterns(a, &[Tier::System]);
            waits.retain(|id| gaps::WAITS.contains(id));
            waits
        });
        let recorded = Recorded { totals: totals.as_ref(), kernel_ms, copies };
        let changes = changes::changes(&operations, &left, &recorded, &waits, &target.prepared.thresholds);
        let is_to_scale = normalization.mode != Mode::PerCall || is_covered(ms_of_calls(&operations), kernel_ms.target);
        let timeline = Timeline {
            totals: totals.as_ref(),
            lost_overlap_ms: recorded.lost_overlap_ms(),
            is_comparable: uncomparable.is_none(),
            is_to_scale,
            same_collectives,
        };
        let gaps = gaps::gaps(analyses, &operations, &changes, &timeline);
        let mut out = Self {
            by_name: by_name(&scene, &operations),
            categories: by_category(&scene, &operations, &in_categories),
            dominant: dominant(&target.prepared),
            warnings: Vec::new(),
            losses: losses(Both::of(sides, |p| &*p.losses)),
            is_incomplete: Both::of(sides, |p| !p.losses.is_empty()),
            gone: Vec::new(),
            new: Vec::new(),
            same_collectives,
            uncomparable,
            is_to_scale,
            normalization,
            totals,
            compute_ms,
            coverage_percent,
            operations,
            left,
            same_kernels: Vec::new(),
            host_copies,
            changes,
            gaps,
            gates: Vec::new(),
        };
        if out.is_hardly_matched() && out.normalization.mode != Mode::PerCall {
            out.same_kernels = uncompared::same_kernels(sides, steps);
        }
        out.warnings.clone_from(&out.losses);
        out.warnings.extend(warnings(&out));
        let told = Both::of(analyses, |a| patterns(a, &[Tier::Compute, Tier::Fusion, Tier::System]));
        out.gone = told.reference.iter().copied().filter(|p| !told.target.contains(p)).collect();
        out.new = told.target.iter().copied().filter(|p| !told.reference.contains(p)).collect();
        out
    }

    /// Checks limits.
    pub fn check(&mut self, gates: &[Gate]) {
        self.gates = gates.iter().map(|gate| gate.check(self)).collect();
    }

    /// The sides whose recordings miss a part, in words; none if both are whole.
    pub(crate) fn incomplete_sides(&self) -> Option<&'static str> {
        match (self.is_incomplete.reference, self.is_incomplete.target) {
            (false, false) => None,
            (true, false) => Some("reference"),
            (false, true) => Some("target"),
            (true, true) => Some("reference and of the target"),
        }
    }

    /// Whether nothing that is worth telling differs.
    pub fn is_same(&self) -> bool {
        self.is_as_long() && self.other_work().next().is_none()
    }

    /// Whether all times are the same, but for what is not worth telling.
    fn is_as_long(&self) -> bool {
        let near = |ms: Both<f64>| ms.delta().abs() <= SAME * ms.reference.max(ms.target);
        near(Both::of(self.totals, |t| t.total_ms))
            && self.changes.iter().all(|c| c.ms.delta().abs() <= SAME * self.longer_ms())
            && self.gaps.is_empty()
    }

    /// The time of the side that takes more.
    fn longer_ms(&self) -> f64 {
        self.totals.reference.total_ms.max(self.totals.target.total_ms)
    }

    /// What to say at first where no time differs; none where one does.
    pub fn sameness(&self) -> Option<String> {
        if !self.is_as_long() {
            return None;
        }
        let other: Vec<&str> = self.other_work().map(|change| &*change.what).collect();
        Some(match &*other {
            [] => "No difference: the target does the same work in the same time.".to_owned(),
            [only] => format!("The target takes the same time, with other operations. {only}."),
            [first, rest @ ..] => {
                let rest = counted(rest.len(), "more place");
                format!("The target takes the same time, with other operations. {first}, and {rest}.")
            }
        })
    }

    /// Work that is done with other operations, where that is worth telling, the largest difference first.
    fn other_work(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| {
            let ms = match change.kind {
                ChangeKind::Replaced => {
                    let groups = change.operations.iter().filter_map(|&at| self.operations.get(at));
                    groups.map(|o| unlike_ms(&o.parts)).fold(0.0, f64::max)
                }
                ChangeKind::Unmatched => unlike_ms(&self.left),
                _ => 0.0,
            };
            ms > SAME * self.longer_ms()
        })
    }

    /// Operations that differ enough to be told: by more than a tenth, with a share of the compute of either side.
    pub fn notable(&self) -> impl Iterator<Item = &Compared> {
        self.operations.iter().filter(|c| c.is_notable())
    }
}

/// Time of operations that only one side runs, of the side with more of it.
fn unlike_ms(parts: &Both<Vec<Part>>) -> f64 {
    let only = |own: &[Part], other: &[Part]| -> f64 {
        let known: BTreeSet<&str> = other.iter().map(|p| &*p.name).collect();
        own.iter().filter(|p| !known.contains(&*p.name)).map(|p| p.ms).sum()
    };
    only(&parts.reference, &parts.target).max(only(&parts.target, &parts.reference))
}

/// Patterns of the urgent findings of some tiers, those to act on first first.
fn patterns(analysis: &Analysis, tiers: &[Tier]) -> Vec<PatternId> {
    let mut found: Vec<PatternId> = Vec::new();
    for f in rank::recommended(&analysis.findings).filter(|f| tiers.contains(&f.tier)) {
        if !found.contains(&f.pattern) {
            found.push(f.pattern);
        }
    }
    found
}

/// How times are made comparable, and the work of both sides in that unit.
fn comparable(sides: Both<&Prepared>) -> (Normalization, Both<Work>) {
    if let Some(normalization) = steps::by_steps(sides) {
        let steps = Both::of(normalization.steps, f64::from);
        return (normalization, Both::of(sides.zip(steps), |(p, steps)| Work::of(p, steps)));
    }
    let work = Both::of(sides, |p| Work::of(p, 1.0));
    let parts = Both::of(work.as_ref(), |w| w.parts.clone());
    let rows = matched(sides, parts, Surplus::Scaled).matches;
    // Scaled matches have lost the calls of the reference: they are looked up again.
    let rows = rows.iter().filter(|m| m.level != MatchLevel::Module).map(|m| {
        let ids: Vec<_> = m.parts.reference.iter().filter_map(|p| p.row).collect();
        let own: Vec<Part> =
            work.reference.parts.iter().filter(|p| p.row.is_some_and(|r| ids.contains(&r))).cloned().collect();
        Both { reference: steps::calls_and_ms(&own), target: steps::calls_and_ms(&m.parts.target) }
    });
    let calls = Calls::of(rows, Both::of(work.as_ref(), Work::ms), uncompared::run_as_often(sides));
    (steps::by_calls(steps::marks(sides), &calls), work)
}

/// The target's time in calls that the reference makes too: what the scale of the rest rests on.
fn ms_of_calls(operations: &[Compared]) -> f64 {
    operations.iter().filter(|o| o.level != Some(MatchLevel::Module)).map(|o| o.ms.target).sum()
}

fn sorted(mut left: Both<Vec<Part>>) -> Both<Vec<Part>> {
    for parts in [&mut left.reference, &mut left.target] {
        parts.retain(|p| p.ms > 0.0);
        parts.order_by(|a, b| {
            b.ms.total_cmp(&a.ms).then_with(|| (&a.name, a.row, &a.place).cmp(&(&b.name, b.row, &b.place)))
        });
    }
    left
}

fn by_name(scene: &Scene<'_>, operations: &[Compared]) -> Vec<Compared> {
    let mut names: BTreeMap<&str, Vec<&Compared>> = BTreeMap::new();
    for c in operations.iter().filter(|c| c.level != Some(MatchLevel::Module)) {
        names.entry(&c.name).or_default().push(c);
    }
    let mut all: Vec<Compared> = names
        .into_iter()
        .map(|(name, members)| scene.summed(name, &members[0].category, &members, &Sum::of(&members)))
        .collect();
    all.order_by(|a, b| b.ms.target.total_cmp(&a.ms.target).then_with(|| a.name.cmp(&b.name)));
    all
}

/// What each category adds up to, the reference scaled as its operations are.
fn category_sums(found: &Matched) -> BTreeMap<Arc<str>, Sum> {
    let mut sums: BTreeMap<Arc<str>, Sum> = BTreeMap::new();
    for parts in found.matches.iter().map(|m| &m.parts).chain([&found.left]) {
        for part in &parts.reference {
            let own = Both { reference: std::slice::from_ref(part), target: &[] };
            sums.entry(Arc::clone(&part.category)).or_default().add(&Sum::of_parts(own));
        }
        for part in &parts.target {
            let own = Both { reference: &[][..], target: std::slice::from_ref(part) };
            sums.entry(Arc::clone(&part.category)).or_default().add(&Sum::of_parts(own));
        }
    }
    sums
}

/// Categories with all their calls; the hardware suggests for each what it suggests for its matched operations.
fn by_category(scene: &Scene<'_>, operations: &[Compared], sums: &BTreeMap<Arc<str>, Sum>) -> Vec<Compared> {
    let is_row = |c: &&Compared| c.level != Some(MatchLevel::Module);
    let one = |(key, sum): (&Arc<str>, &Sum)| {
        let members: Vec<&Compared> = operations.iter().filter(is_row).filter(|c| c.category == *key).collect();
        scene.summed(key, key, &members, sum)
    };
    let mut all: Vec<Compared> = sums.iter().map(one).collect();
    all.order_by(|a, b| b.ms.target.total_cmp(&a.ms.target).then_with(|| a.name.cmp(&b.name)));
    all
}

fn dominant(target: &Prepared) -> Dominant {
    let time = |bound: BoundType| {
        let rows = target.rows.iter().filter(|r| r.efficiency.bound_type == Some(bound) && !r.is_link_copy);
        rows.map(|r| r.time_ms).sum::<f64>()
    };
    let half = 0.5 * target.rows.iter().filter(|r| !r.is_link_copy).map(|r| r.time_ms).sum::<f64>();
    if half > 0.0 && time(BoundType::Memory) > half {
        Dominant::Memory
    } else if half > 0.0 && time(BoundType::Compute) > half {
        Dominant::Compute
    } else {
        Dominant::Mixed
    }
}

fn losses(sides: Both<&[String]>) -> Vec<String> {
    let of = |side: &'static str, losses: &[String]| -> Vec<String> {
        losses.iter().map(|loss| format!("Of the {side}: {loss}")).collect()
    };
    [of("target", sides.target), of("reference", sides.reference)].concat()
}

fn warnings(c: &Comparative) -> Vec<String> {
    let mut warnings = Vec::new();
    for (side, percent) in [("reference", c.coverage_percent.reference), ("target", c.coverage_percent.target)] {
        if percent < COVERAGE_PERCENT {
            warnings.push(format!(
                "Only {percent:.1}% of the {side}'s kernel time is matched; the rest is listed without a counterpart."
            ));
        }
    }
    if c.normalization.mode == Mode::PerCall {
        warnings.push(format!(
            "Steps are not compared, since {}: operations are compared call by call, totals are not comparable, and a \
             limit on the slowdown is one on the kernel time.",
            c.normalization.reason
        ));
    }
    if c.normalization.has_other_length() {
        let Both { reference, target } = c.normalization.steps;
        warnings.push(match &c.uncomparable {
            Some(_) => "The traces hold different numbers of steps and it can't be told where one begins on the GPU: \
                        gaps between steps count differently on both sides, and a limit on the slowdown can't be \
                        checked."
                .to_owned(),
            None => format!(
                "The traces hold different numbers of steps, {reference} and {target}. The time in which the GPU has \
                 nothing to do is that of as many of the last steps of each, all other times are of all their steps."
            ),
        });
    }
    if c.same_collectives == Some(false) {
        warnings.push("The sides do not run the same collectives, so communication is not compared.".to_owned());
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_name_their_side() {
        let cut = ["The recording is cut off.".to_owned()];
        assert_eq!(losses(Both { reference: &[], target: &cut }), ["Of the target: The recording is cut off."]);
        assert_eq!(losses(Both { reference: &cut, target: &[] }), ["Of the reference: The recording is cut off."]);
    }
}

//! A thing that both sides do: how long it takes on each, what the hardware suggests, what to make of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::both::Both;
use super::matching::{Match, MatchLevel};
use super::same_work::{self, largest};
use super::verdict::{ExpectedRatio, Explanation, OTHER_TYPES, UNKNOWN_TYPES, Verdict, WITHIN_TOLERANCE, explain};
use super::work::{Part, Place};
use super::{DIFFERENCE_PERCENT, WORTH_PERCENT, is_covered};
use crate::prepared::{BoundType, Prepared, Row};
use crate::program::RowId;
use crate::rules::is_tiny_batched_gemm;
use jarvis_perf::platform::Platform;
use jarvis_trace::InOrder;

/// An operation, a group of operations or a category on both sides. Times are as [`super::Normalization`] says.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Operation, module or category; both names where they differ.
    pub name: String,
    /// How the sides were found to be the same; none for sums over several.
    pub level: Option<MatchLevel>,
    /// Arguments in short form; empty for what has none.
    pub args: String,
    /// Arguments of each side's row with most time, in short form.
    pub shapes: Both<String>,
    /// Category key.
    pub category: Arc<str>,
    /// Where in the module tree, for groups.
    pub place: Option<Place>,
    /// Time.
    pub ms: Both<f64>,
    /// Calls, in the unit of the times.
    pub calls: Both<f64>,
    /// Kernels.
    pub launched: Both<f64>,
    /// Of the computation time of its side.
    pub percent_of_compute: Both<f64>,
    /// What bounds it on the target.
    pub bound: Option<BoundType>,
    /// Target over reference as the hardware suggests; none if the reference takes no time.
    pub expected: Option<ExpectedRatio>,
    /// The same of the GPUs alone: what it would be if both sides computed as the target does.
    pub hardware: Option<ExpectedRatio>,
    /// What to make of it.
    pub verdict: Option<Verdict>,
    /// Target over reference that can be reached: what the hardware suggests, in the types of the reference.
    pub goal: Option<f64>,
    /// What the target would save there, never more than what is above the roofline.
    pub saved_ms: f64,
    /// Best time over time, in percent.
    pub efficiency_percent: Both<Option<f64>>,
    /// Operations, most time first.
    pub operations: Both<Vec<Arc<str>>>,
    /// Kernel with most time of each row, then of the next.
    pub kernels: Both<Vec<Arc<str>>>,
    /// What the sides compute in, where that differs: the type of the first tensor, or what the kernels make of it.
    pub precision: Option<Both<String>>,
    /// Rows of the performance reports.
    pub rows: Both<Vec<RowId>>,
    /// The calls that are compared; none for sums over several.
    pub parts: Both<Vec<Part>>,
    /// UID of an example in the target.
    pub uid: Option<u32>,
}

impl Compared {
    /// How far the ratio lies from the expected one.
    pub fn excess(&self) -> Option<f64> {
        Some(self.expected?.excess(self.ms.ratio()?))
    }

    /// Why it is as it is.
    pub fn explanation(&self) -> Option<Explanation> {
        let (verdict, expected) = (self.verdict?, self.expected?);
        let by_types = verdict.is_expected() || verdict == Verdict::Precision;
        let is_modelled = self.efficiency_percent.reference.is_some() && self.efficiency_percent.target.is_some();
        Some(match self.precision {
            Some(_) if self.level.is_some() && !is_modelled => UNKNOWN_TYPES,
            Some(_) if by_types => OTHER_TYPES,
            _ => explain(verdict, self.bound, expected, self.hardware.unwrap_or(expected)),
        })
    }

    /// Whether it is about what the hardware suggests, but no figure of the GPUs accounts for the difference.
    pub fn is_within_tolerance(&self) -> bool {
        self.explanation() == Some(WITHIN_TOLERANCE)
    }

    /// Whether it differs by more than a tenth and has a share of the compute of either side.
    pub fn is_notable(&self) -> bool {
        let differs = self.ms.delta_percent().is_none_or(|d| d.abs() > DIFFERENCE_PERCENT);
        differs && self.percent_of_compute.reference.max(self.percent_of_compute.target) >= WORTH_PERCENT
    }

    /// Whether both sides run the same operations, in whatever order.
    pub(crate) fn same_operations(&self) -> bool {
        let set = Both::of(self.operations.as_ref(), |names| names.iter().collect::<BTreeSet<_>>());
        set.reference == set.target
    }

    /// Whether both sides run the same kernels.
    pub(crate) fn same_kernels(&self) -> bool {
        let set = Both::of(self.kernels.as_ref(), |k| k.iter().collect::<BTreeSet<_>>());
        set.reference == set.target
    }
}

/// What all comparisons of a run share.
#[derive(Clone, Copy)]
pub(crate) struct Scene<'a> {
    pub(crate) sides: Both<&'a Prepared>,
    /// Computation time in the unit of all times.
    pub(crate) compute_ms: Both<f64>,
}

/// What several calls add up to.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Sum {
    pub(crate) ms: Both<f64>,
    pub(crate) calls: Both<f64>,
    pub(crate) launched: Both<f64>,
}

impl Sum {
    /// Of several comparisons.
    pub(crate) fn of(members: &[&Compared]) -> Self {
        let mut sum = Self::default();
        for c in members {
            sum.ms.add(c.ms);
            sum.calls.add(c.calls);
            sum.launched.add(c.launched);
        }
        sum
    }

    /// Of calls on each side.
    pub(crate) fn of_parts(parts: Both<&[Part]>) -> Self {
        let add = |of: fn(&Part) -> f64| Both::of(parts, |parts| parts.iter().map(of).sum());
        Self { ms: add(|p| p.ms), calls: add(|p| p.calls), launched: add(|p| p.kernels) }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.ms.add(other.ms);
        self.calls.add(other.calls);
        self.launched.add(other.launched);
    }
}

/// What to make of a time; the fields are those of [`Compared`].
struct Judgement {
    expected: Option<ExpectedRatio>,
    hardware: Option<ExpectedRatio>,
    verdict: Option<Verdict>,
    goal: Option<f64>,
    saved_ms: f64,
}

impl Scene<'_> {
    /// A match, judged.
    pub(crate) fn judged(&self, found: &Match) -> Compared {
        let Sum { ms, calls, launched } = Sum::of_parts(Both::of(found.parts.as_ref(), |parts| &**parts));
        let rows = Both::of(found.parts.as_ref(), |parts| row_ids(parts));
        let largest = Both {
            reference: largest(self.sides.reference, &rows.reference),
            target: largest(self.sides.target, &rows.target),
        };
        let lead = largest.target.or(largest.reference);
        let is_group = found.level == MatchLevel::Module;
        let precision = other_precision(largest, found.level);
        let roofs = Both {
            reference: roof_ms(self.sides.reference, &found.parts.reference),
            target: roof_ms(self.sides.target, &found.parts.target),
        };
        let judgement = self.judgement(found, largest, roofs, precision.is_some());
        let efficiency = |roof: Option<f64>, ms: f64| roof.filter(|_| !is_group && ms > 0.0).map(|r| 100.0 * r / ms);
        let place = found.parts.target.first().map(|p| p.place.clone()).filter(|_| is_group);
        let operations = Both::of(found.parts.as_ref(), |parts| names(parts));
        let name = match &place {
            Some(place) => place.short(),
            None if operations.reference == operations.target => operations.target.join(", "),
            None => format!("{} | {}", operations.reference.join(", "), operations.target.join(", ")),
        };
        Compared {
            name,
            level: Some(found.level),
            args: lead.filter(|_| !is_group).map(|r| r.args.to_string()).unwrap_or_default(),
            shapes: Both::of(largest, |row| row.map(|r| r.args.to_string()).unwrap_or_default()),
            category: category(found),
            place,
            ms,
            calls,
            launched,
            percent_of_compute: self.share(ms),
            bound: lead.and_then(|r| r.efficiency.bound_type).filter(|_| !is_group),
            hardware: judgement.hardware,
            expected: judgement.expected,
            verdict: judgement.verdict,
            goal: judgement.goal,
            saved_ms: judgement.saved_ms,
            efficiency_percent: Both {
                reference: efficiency(roofs.reference, ms.reference),
                target: efficiency(roofs.target, ms.target),
            },
            operations,
            kernels: Both {
                reference: kernels(self.sides.reference, &rows.reference),
                target: kernels(self.sides.target, &rows.target),
            },
            precision,
            uid: largest.target.map(|r| r.uid),
            rows,
            parts: found.parts.clone(),
        }
    }

    /// What to make of the time of a match. `largest` are the rows with most time, `roofs` the best times.
    fn judgement(
        &self,
        found: &Match,
        largest: Both<Option<&Row>>,
        roofs: Both<Option<f64>>,
        in_other_types: bool,
    ) -> Judgement {
        let ms = found.ms();
        let lead = largest.target.or(largest.reference);
        let is_group = found.level == MatchLevel::Module;
        // Best times are of the work alone; a group does other work on the other side.
        let best = match (roofs.reference, roofs.target) {
            (Some(r), Some(t)) if !is_group && r > 0.0 => Some(Both { reference: r, target: t }),
            _ => None,
        };
        let of_bound = |row: Option<&Row>| {
            let row = row.filter(|_| !is_group);
            let spec = row.and_then(spec);
            let bound = row.and_then(|r| r.efficiency.bound_type);
            ExpectedRatio::of_bound(bound, spec, Both::of(self.sides, |p| &p.platform))
        };
        let hardware = of_bound(lead);
        // The same work takes no other best time than the GPUs bring about.
        let range = same_work::range(self.sides, largest);
        let expected = best.map_or(hardware, |best| {
            let ratio = best.target / best.reference;
            ExpectedRatio::exactly(range.map_or(ratio, |range| range.nearest(ratio)))
        });
        // What the hardware would suggest if the target computed as the reference does.
        let in_same_types = of_bound(largest.reference);
        let can_compute_so = can_compute_as(largest.reference, &self.sides.target.platform);
        let limits = &self.sides.target.thresholds;
        let judged = |ratio: f64| {
            let tiny = !is_group && lead.is_some_and(|row| is_tiny_batched_gemm(row, limits));
            let own = Verdict::of(ratio, expected, tiny, limits);
            let is_beyond_types = best.is_some() && own.is_slow();
            let by_types = in_other_types && can_compute_so && !is_beyond_types;
            if by_types && in_same_types.is_exceeded_by(ratio, limits) { Verdict::Precision } else { own }
        };
        let expected = (ms.reference > 0.0).then_some(expected);
        let verdict = ms.ratio().filter(|_| expected.is_some()).map(judged);
        // Work that is done in the types of the reference has another roofline.
        let (goal, floor) = match verdict {
            Some(Verdict::Precision) => {
                (Some(in_same_types.high), roofs.reference.map_or(0.0, |r| r * in_same_types.low))
            }
            _ => (expected.map(|e| e.high), roofs.target.filter(|_| !is_group).unwrap_or(0.0)),
        };
        let saved_ms = goal.map_or(0.0, |goal| ms.target - goal * ms.reference).min(ms.target - floor).max(0.0);
        Judgement { expected, hardware: expected.map(|_| hardware), verdict, goal, saved_ms }
    }

    /// Several comparisons as one, with what else the same name has on both sides. The hardware suggests for it what it
    /// suggests for its parts, where they are most of it and what is said of them holds for the whole.
    pub(crate) fn summed(&self, name: &str, category: &Arc<str>, parts: &[&Compared], whole: &Sum) -> Compared {
        let ms = Sum::of(parts).ms;
        let is_most = is_covered(ms.reference, whole.ms.reference) && is_covered(ms.target, whole.ms.target);
        let expected = ExpectedRatio::of_sum(parts, |c| c.expected).filter(|_| is_most && ms.reference > 0.0);
        let limits = &self.sides.target.thresholds;
        let judged = |ms: Both<f64>| Some(Verdict::of_sum(ms.ratio()?, expected?, parts, limits));
        let verdict = match (judged(ms), judged(whole.ms)) {
            (Some(of_parts), Some(of_all)) if of_parts.is_expected() && of_all.is_expected() => Some(of_all),
            (Some(of_parts), Some(of_all)) if of_parts.is_slow() && of_all.is_slow() => Some(of_parts),
            (of_parts, of_all) => of_parts.filter(|_| of_parts == of_all),
        };
        let expected = expected.filter(|_| verdict.is_some());
        let goal = expected.map(|e| e.high).filter(|_| verdict != Some(Verdict::Precision));
        let of_parts = || parts.iter().map(|c| c.saved_ms).sum::<f64>().min(ms.target);
        let saved_ms = goal.map_or_else(of_parts, |goal| (ms.target - goal * ms.reference).max(0.0));
        let time = |bound: BoundType| parts.iter().filter(|c| c.bound == Some(bound)).map(|c| c.ms.target).sum::<f64>();
        let (memory, compute) = (time(BoundType::Memory), time(BoundType::Compute));
        let bound =
            (memory + compute > 0.0).then_some(if memory >= compute { BoundType::Memory } else { BoundType::Compute });
        let precision = parts.iter().filter(|c| c.precision.is_some());
        let other_types_ms = precision.clone().map(|c| c.ms.target).sum::<f64>();
        let is_other = 2.0 * other_types_ms > parts.iter().map(|c| c.ms.target).sum::<f64>();
        let joined = |of: fn(&Compared) -> &Vec<RowId>| parts.iter().flat_map(|c| of(c).iter().copied()).collect();
        Compared {
            name: name.to_owned(),
            level: None,
            args: String::new(),
            shapes: Both::default(),
            category: Arc::clone(category),
            place: None,
            ms: whole.ms,
            calls: whole.calls,
            launched: whole.launched,
            percent_of_compute: self.share(whole.ms),
            bound,
            hardware: ExpectedRatio::of_sum(parts, |c| c.hardware),
            expected,
            verdict,
            goal,
            saved_ms,
            efficiency_percent: Both::default(),
            operations: Both::default(),
            kernels: Both::default(),
            precision: precision.clone().next().filter(|_| is_other).and_then(|c| c.precision.clone()),
            rows: Both { reference: joined(|c| &c.rows.reference), target: joined(|c| &c.rows.target) },
            parts: Both::default(),
            uid: parts.first().and_then(|c| c.uid),
        }
    }

    /// Times in percent of the computation of their side.
    pub(crate) fn share(&self, ms: Both<f64>) -> Both<f64> {
        Both::of(ms.zip(self.compute_ms), |(ms, all)| if all > 0.0 { 100.0 * ms / all } else { 0.0 })
    }
}

/// Best time of these calls, if it is known for all of them.
fn roof_ms(p: &Prepared, parts: &[Part]) -> Option<f64> {
    let of = |part: &Part| Some(p.row(part.row?).efficiency.roofline_time_us? * part.calls / 1e3);
    parts.iter().map(of).sum()
}

fn row_ids(parts: &[Part]) -> Vec<RowId> {
    let mut ids: Vec<RowId> = parts.iter().filter_map(|p| p.row).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Main kernels of the rows, each once, those with most time first.
fn kernels(p: &Prepared, rows: &[RowId]) -> Vec<Arc<str>> {
    let mut stats: Vec<(f64, &Arc<str>)> =
        rows.iter().flat_map(|&id| p.row(id).kernels.iter()).map(|k| (k.total_us, &k.name)).collect();
    stats.order_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let mut names: Vec<Arc<str>> = Vec::new();
    for (_, name) in stats {
        if !names.contains(name) {
            names.push(Arc::clone(name));
        }
    }
    names
}

/// Operations of some parts, those with most time first.
pub(crate) fn names(parts: &[Part]) -> Vec<Arc<str>> {
    let mut times: Vec<(Arc<str>, f64)> = Vec::new();
    for part in parts {
        match times.iter_mut().find(|(name, _)| *name == part.name) {
            Some(known) => known.1 += part.ms,
            None => times.push((Arc::clone(&part.name), part.ms)),
        }
    }
    times.order_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    times.into_iter().map(|(name, _)| name).collect()
}

/// The category that most of the time belongs to, on the side that takes more.
fn category(found: &Match) -> Arc<str> {
    let ms = found.ms();
    let parts = if ms.target >= ms.reference { &found.parts.target } else { &found.parts.reference };
    let mut times: Vec<(&Arc<str>, f64)> = Vec::new();
    for part in parts {
        match times.iter_mut().find(|(key, _)| **key == part.category) {
            Some(known) => known.1 += part.ms,
            None => times.push((&part.category, part.ms)),
        }
    }
    times.order_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    times.first().map_or_else(|| "other".into(), |(key, _)| Arc::clone(key))
}

/// What the sides compute in, if that differs: in other types, or in the same ones on other units of the GPU.
fn other_precision(largest: Both<Option<&Row>>, level: MatchLevel) -> Option<Both<String>> {
    if level == MatchLevel::Dims {
        return Some(Both::of(largest, |row| row.and_then(first_type).unwrap_or_else(|| "other types".to_owned())));
    }
    let (reference, target) = (spec(largest.reference?)?, spec(largest.target?)?);
    let differ = level != MatchLevel::Module && reference != target;
    let precision = |spec: &str| spec.split_once('_').map_or(spec, |(_, precision)| precision).to_owned();
    differ.then(|| Both { reference: precision(reference), target: precision(target) })
}

fn spec(row: &Row) -> Option<&str> {
    row.efficiency.compute_spec.as_deref()
}

/// Whether a GPU is known to compute in what a row computes in; it is where nothing is known of the row.
fn can_compute_as(row: Option<&Row>, platform: &Platform) -> bool {
    row.and_then(spec).is_none_or(|spec| platform.peak(spec).is_some())
}

fn first_type(row: &Row) -> Option<String> {
    row.inputs.types.as_deref().unwrap_or_default().iter().find(|t| !t.is_empty() && *t != "Scalar").cloned()
}

//! What differs between the sides, in parts that add up to the difference of the GPU's time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jarvis_trace::InOrder;
use serde::Serialize;

use super::both::Both;
use super::compared::{Compared, names};
use super::matching::MatchLevel;
use super::verdict::{ExpectedRatio, Verdict};
use super::work::{Copies, Part};
use super::{Comparative, SideTotals, WORTH_PERCENT};
use crate::finding::PatternId;
use crate::prepare::args::SEPARATOR;
use crate::texts::counted;
use crate::thresholds::Thresholds;

/// What kind of difference it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// Other operations in the same place of the module tree.
    Replaced,
    /// The same operations in other types.
    Precision,
    /// The same operations with other kernels.
    Kernels,
    /// The same operations with the same kernels.
    Time,
    /// Work that has no counterpart.
    Unmatched,
    /// The GPU has nothing to do.
    Idle,
    /// Calls that the target makes more or fewer.
    Calls,
    /// Copies apart from operations that nothing overlaps.
    Copies,
    /// Work that runs beside other work on one side only.
    Overlap,
    /// Kernels that no operation is known of.
    Unknown,
    /// Communication that nothing overlaps.
    Communication,
}

impl ChangeKind {
    /// Whether it is one of kernel time, and not of when kernels run or how often.
    pub(crate) fn is_of_kernels(self) -> bool {
        matches!(self, Self::Replaced | Self::Precision | Self::Kernels | Self::Time | Self::Unmatched)
    }
}

/// A difference.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// What kind.
    pub kind: ChangeKind,
    /// What it is, in one line; names stand between backticks.
    pub what: String,
    /// Time on each side.
    pub ms: Both<f64>,
    /// What to make of it, where the hardware suggests a time.
    pub verdict: Option<Verdict>,
    /// Positions of the operations of the comparison that it is made of.
    pub operations: Vec<usize>,
}

impl Change {
    fn of(kind: ChangeKind, what: String, ms: Both<f64>) -> Self {
        Self { kind, what, ms, verdict: None, operations: Vec::new() }
    }
}

/// Names listed before the rest is only counted.
const LISTED: usize = 3;

/// All differences, the largest first. They add up to the difference of the total times.
pub(crate) fn changes(
    operations: &[Compared],
    left: &Both<Vec<Part>>,
    recorded: &Recorded<'_>,
    waits: &Both<Vec<PatternId>>,
    limits: &Thresholds,
) -> Vec<Change> {
    let mut found: Vec<Change> = Vec::new();
    let mut groups: BTreeMap<(&str, ChangeKind), Vec<usize>> = BTreeMap::new();
    for (at, c) in operations.iter().enumerate() {
        match kind(c) {
            ChangeKind::Replaced => found.push(Change { operations: vec![at], ..replaced(c) }),
            kind => groups.entry((&c.category, kind)).or_default().push(at),
        }
    }
    let worth_ms = WORTH_PERCENT / 100.0 * recorded.totals.reference.total_ms;
    for ((category, kind), at) in groups {
        found.extend(by_direction(at, operations, worth_ms).into_iter().map(|at| {
            let members: Vec<&Compared> = at.iter().filter_map(|&at| operations.get(at)).collect();
            Change { operations: at, ..group(category, kind, &members, limits) }
        }));
    }
    if !left.reference.is_empty() || !left.target.is_empty() {
        found.push(unmatched(left));
    }
    let mut kernel_ms = Both::<f64>::default();
    for change in &found {
        kernel_ms.add(change.ms);
    }
    let totals = recorded.totals;
    let mut timeline = |kind: ChangeKind, what: String, ms: Both<f64>| found.push(Change::of(kind, what, ms));
    timeline(ChangeKind::Idle, idle(waits), Both::of(totals, |t| t.idle_ms));
    let alone = "Communication that nothing overlaps".to_owned();
    timeline(ChangeKind::Communication, alone, Both::of(totals, |t| t.exposed_comm_ms));
    // Only the reference is ever scaled.
    let calls = Both { reference: recorded.kernel_ms.reference, target: kernel_ms.reference };
    if calls.delta().abs() > LEAST_MS {
        let what =
            "The number of calls: what the reference's operations take at their own and at the target's".to_owned();
        timeline(ChangeKind::Calls, what, calls);
    }
    let rest = recorded.rest();
    timeline(ChangeKind::Copies, "Memory copies that nothing overlaps".to_owned(), Both::of(rest, |r| r.copies));
    timeline(ChangeKind::Unknown, "Kernels of no known operation".to_owned(), Both::of(rest, |r| r.unknown));
    let (what, ms) = overlap(rest);
    timeline(ChangeKind::Overlap, what.to_owned(), ms);
    found.retain(|c| c.ms != Both::default());
    found.order_by(|a, b| b.ms.delta().abs().total_cmp(&a.ms.delta().abs()).then_with(|| a.what.cmp(&b.what)));
    found
}

/// Those that take more time and those that take less, where both are worth telling: together they look like nothing.
fn by_direction(group: Vec<usize>, operations: &[Compared], worth_ms: f64) -> Vec<Vec<usize>> {
    let (more, less): (Vec<usize>, Vec<usize>) =
        group.iter().partition(|&&at| operations.get(at).is_some_and(|o| o.ms.delta() > 0.0));
    let is_large = |part: &[usize]| {
        let notable = part.iter().filter_map(|&at| operations.get(at)).filter(|o| o.is_notable());
        notable.map(|o| o.ms.delta()).sum::<f64>().abs() >= worth_ms.max(LEAST_MS)
    };
    if is_large(&more) && is_large(&less) { vec![more, less] } else { vec![group] }
}

/// Times below this are rounding, in milliseconds.
const LEAST_MS: f64 = 1e-6;

/// What was recorded on both sides, in the unit of the totals.
pub(crate) struct Recorded<'a> {
    /// The GPU's time.
    pub(crate) totals: Both<&'a SideTotals>,
    /// Kernel time of all parts, not scaled.
    pub(crate) kernel_ms: Both<f64>,
    /// Copies.
    pub(crate) copies: Both<Copies>,
}

/// What a side's computation and copies take besides the kernel time of its parts, in milliseconds. Nothing is
/// negative.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Rest {
    /// Copies apart from operations that nothing overlaps.
    copies: f64,
    /// Kernel time that passes beside other work.
    beside: f64,
    /// Time of kernels that no part holds.
    unknown: f64,
}

impl Recorded<'_> {
    fn rest(&self) -> Both<Rest> {
        Both::of(self.totals.zip(self.kernel_ms).zip(self.copies), |((t, kernel_ms), copies)| {
            // Which copies are overlapped is not known: those of operations are the last to be.
            let apart = copies.apart_ms.min((t.exposed_copy_ms - copies.in_parts_ms).max(0.0));
            let beside = kernel_ms + apart - t.computation_ms - t.exposed_copy_ms;
            let at_least = |ms: f64| if ms > LEAST_MS { ms } else { 0.0 };
            Rest { copies: at_least(apart), beside: at_least(beside), unknown: at_least(-beside) }
        })
    }

    /// What the target's kernels would save if they ran beside each other as the reference's do; no more than what the
    /// target takes longer: with less work there is less to overlap.
    pub(crate) fn lost_overlap_ms(&self) -> f64 {
        let longer = Both::of(self.totals, |t| t.total_ms).delta();
        overlap(self.rest()).1.delta().min(longer).max(0.0)
    }
}

/// Overlap that one side has more, as the time that the other takes without it.
fn overlap(rest: Both<Rest>) -> (&'static str, Both<f64>) {
    let gained = Both::of(rest, |r| r.beside).delta();
    if gained < 0.0 {
        let what = "Overlap that is lost: kernels that run beside each other in the reference and not in the target";
        (what, Both { reference: 0.0, target: -gained })
    } else {
        let what = "Overlap that is gained: kernels that run beside each other in the target and not in the reference";
        (what, Both { reference: gained, target: 0.0 })
    }
}

impl Comparative {
    /// Differences that are worth telling: of at least this share of the reference's time, in percent.
    pub fn large_changes(&self) -> impl Iterator<Item = &Change> {
        let floor = WORTH_PERCENT / 100.0 * self.totals.reference.total_ms;
        self.changes.iter().filter(move |c| c.ms.delta().abs() >= floor && self.is_compared(c))
    }

    /// Whether a change says more than that one recording is longer.
    pub(crate) fn is_compared(&self, change: &Change) -> bool {
        let is_in_unit = self.is_to_scale || change.kind != ChangeKind::Unmatched;
        self.uncomparable.is_none() || change.kind.is_of_kernels() && is_in_unit
    }

    /// Whether the hardware explains a change, and each of its operations that is told apart.
    pub fn is_explained(&self, change: &Change) -> bool {
        let is_expected = |verdict: Option<Verdict>| verdict.is_some_and(Verdict::is_expected);
        let mut members = change.operations.iter().filter_map(|&at| self.operations.get(at));
        is_expected(change.verdict) && members.all(|o| !o.is_notable() || is_expected(o.verdict))
    }
}

/// Idle time, with what the sides wait for.
fn idle(waits: &Both<Vec<PatternId>>) -> String {
    let list = |ids: &[PatternId]| match ids {
        [] => "nothing of the kind above Low".to_owned(),
        ids => ids.iter().map(|id| format!("`{}`", id.as_str())).collect::<Vec<_>>().join(", "),
    };
    let text = "Time in which the GPU has nothing to do";
    if waits.reference.is_empty() && waits.target.is_empty() {
        return text.to_owned();
    }
    format!("{text}; the reference shows {}, the target {}", list(&waits.reference), list(&waits.target))
}

fn kind(c: &Compared) -> ChangeKind {
    match c.level {
        Some(MatchLevel::Module) => ChangeKind::Replaced,
        _ if c.precision.is_some() => ChangeKind::Precision,
        _ if c.same_kernels() => ChangeKind::Time,
        _ => ChangeKind::Kernels,
    }
}

/// `a`, `b` and 3 more.
pub(crate) fn listed(names: &[Arc<str>]) -> String {
    let mut text = names.iter().take(LISTED).map(|n| format!("`{}`", short(n))).collect::<Vec<_>>().join(", ");
    if names.len() > LISTED {
        text += &format!(" and {} more", names.len() - LISTED);
    }
    text
}

/// The kernels that only one side runs, in words: the first of each, cut so that it shows where the names differ.
fn other_kernels(kernels: Both<&[Arc<str>]>) -> String {
    let own = |own: &[Arc<str>], other: &[Arc<str>]| own.iter().find(|name| !other.contains(name)).cloned();
    let only =
        Both { reference: own(kernels.reference, kernels.target), target: own(kernels.target, kernels.reference) };
    match (only.reference, only.target) {
        (Some(reference), Some(target)) => {
            let [reference, target] = apart(&reference, &target);
            format!("other kernels, `{target}` instead of `{reference}`")
        }
        (None, Some(target)) => format!("other kernels, also `{}`", short(&target)),
        (Some(reference), None) => format!("other kernels, without `{}`", short(&reference)),
        (None, None) => "same kernels".to_owned(),
    }
}

/// Characters before the first difference that are shown of long names.
const BEFORE: usize = 20;

/// Two names that fit into a sentence and differ there, if they differ.
pub(crate) fn apart(one: &str, other: &str) -> [String; 2] {
    let cut = [one, other].map(short);
    if cut[0] != cut[1] || one == other {
        return cut;
    }
    let same = one.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    [one, other].map(|name| {
        let rest: String = name.chars().skip(same.saturating_sub(BEFORE)).collect();
        format!("...{}", short(&rest))
    })
}

/// A name that fits into a sentence.
fn short(name: &str) -> String {
    const MOST: usize = 60;
    let cut: String = name.chars().take(MOST).collect();
    let end = if cut.len() < name.len() { "..." } else { "" };
    cut.replace('`', "'") + end
}

fn replaced(c: &Compared) -> Change {
    let kernels = Both::of(c.launched, |n| counted(n.round(), "kernel"));
    let (reference, target) = (listed(&c.operations.reference), listed(&c.operations.target));
    let what = if c.same_operations() {
        let kernels = if kernels.reference == kernels.target {
            format!("{} on both sides", kernels.target)
        } else {
            format!("{}, {} in the reference", kernels.target, kernels.reference)
        };
        format!("{target} {} ({kernels})", other_inputs(c))
    } else {
        format!("{reference} ({}) replaced by {target} ({})", kernels.reference, kernels.target)
    };
    let what = format!("In `{}`: {what}", short(&c.name));
    Change { verdict: c.verdict, ..Change::of(ChangeKind::Replaced, what, c.ms) }
}

/// What the target calls the same operations of a group on, and what the reference does.
pub(crate) fn other_inputs(c: &Compared) -> String {
    let shapes = Both::of(c.shapes.as_ref(), |args| short(&args.replace(SEPARATOR, ", ")));
    if shapes.reference.is_empty() || shapes.target.is_empty() {
        return "whose arguments are not recorded".to_owned();
    }
    // Calls that look the same are matched unless they are known to differ.
    if shapes.reference == shapes.target {
        return "on other amounts of data".to_owned();
    }
    format!("on `{}` instead of `{}`", shapes.target, shapes.reference)
}

fn group(category: &str, kind: ChangeKind, members: &[&Compared], limits: &Thresholds) -> Change {
    let (mut ms, mut launched) = (Both::<f64>::default(), Both::<f64>::default());
    for c in members {
        ms.add(c.ms);
        launched.add(c.launched);
    }
    let mut largest: Vec<&&Compared> = members.iter().collect();
    largest.order_by(|a, b| b.ms.delta().abs().total_cmp(&a.ms.delta().abs()).then_with(|| a.name.cmp(&b.name)));
    let mut operations: Vec<Arc<str>> = Vec::new();
    for name in largest.iter().flat_map(|c| &c.operations.target) {
        if !operations.contains(name) {
            operations.push(Arc::clone(name));
        }
    }
    // Calls of one shape may be matched in parts: those of the same layout, then those of another.
    let shapes: BTreeSet<(&str, &str)> = members.iter().map(|c| (&*c.name, &*c.args)).collect();
    let of = format!("{} ({category}, {})", listed(&operations), counted(shapes.len(), "shape"));
    let what = match kind {
        ChangeKind::Precision => {
            let types = largest.first().and_then(|c| c.precision.clone()).unwrap_or_default();
            format!("{of}: in `{}` instead of `{}`", types.target, types.reference)
        }
        ChangeKind::Kernels => {
            let kernels = largest.first().map(|c| other_kernels(Both::of(c.kernels.as_ref(), |k| &**k)));
            let kernels = kernels.unwrap_or_default();
            let (before, after) = (launched.reference.round() as u64, launched.target.round() as u64);
            let launches =
                if before == after { String::new() } else { format!("; {after} instead of {before} kernels") };
            format!("{of}: {kernels}{launches}")
        }
        _ => format!("{of}: same kernels"),
    };
    Change {
        verdict: ExpectedRatio::of_sum(members, |c| c.expected)
            .zip(ms.ratio())
            .map(|(e, r)| Verdict::of_sum(r, e, members, limits)),
        ..Change::of(kind, what, ms)
    }
}

/// What launched a kernel that is recorded without an operation.
pub(crate) fn launcher(name: &str) -> Option<&str> {
    name.split_once("->").map(|(launcher, _)| launcher)
}

/// Names of operations; of kernels that only a launch is known of, the launch.
pub(crate) fn launchers(parts: &[Part]) -> Vec<Arc<str>> {
    let mut found: Vec<Arc<str>> = Vec::new();
    for name in names(parts) {
        let launcher = launcher(&name).unwrap_or(&name);
        if found.iter().all(|f| **f != *launcher) {
            found.push(launcher.into());
        }
    }
    found
}

fn unmatched(left: &Both<Vec<Part>>) -> Change {
    let ms = Both::of(left.as_ref(), |parts| parts.iter().map(|p| p.ms).sum::<f64>());
    let kernels =
        Both::of(left.as_ref(), |parts| counted(parts.iter().map(|p| p.kernels).sum::<f64>().round(), "kernel"));
    let side = |parts: &[Part], kernels: &str| {
        if parts.is_empty() { "nothing".to_owned() } else { format!("{} ({kernels})", listed(&launchers(parts))) }
    };
    let what = format!(
        "Work without a counterpart: {} in the reference, {} in the target",
        side(&left.reference, &kernels.reference),
        side(&left.target, &kernels.target)
    );
    Change::of(ChangeKind::Unmatched, what, ms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparative::work::Place;
    use crate::program::Direction;

    fn side(computation_ms: f64, exposed_copy_ms: f64) -> SideTotals {
        let total_ms = computation_ms + exposed_copy_ms;
        SideTotals { total_ms, computation_ms, exposed_copy_ms, ..SideTotals::default() }
    }

    /// Changes of work that has no counterpart, of which the rest does not depend.
    fn of(kernels: Both<f64>, recorded: &Recorded<'_>) -> Vec<Change> {
        let part = |ms: f64| Part {
            row: None,
            name: "mm".into(),
            category: "gemm".into(),
            place: Place { direction: Direction::Forward, modules: "".into() },
            calls: 1.0,
            kernels: 1.0,
            ms,
        };
        let left = Both::of(kernels, |ms| vec![part(ms)]);
        let changes = changes(&[], &left, recorded, &Both::default(), &Thresholds::default());
        assert!(changes.iter().all(|c| c.ms.reference >= 0.0 && c.ms.target >= 0.0), "{changes:?}");
        let told: f64 = changes.iter().map(|c| c.ms.delta()).sum();
        let totals = Both::of(recorded.totals, |t| t.total_ms);
        assert!((told - totals.delta()).abs() < 1e-9, "{changes:?}");
        changes
    }

    fn ms(changes: &[Change], kind: ChangeKind) -> Option<Both<f64>> {
        changes.iter().find(|c| c.kind == kind).map(|c| c.ms)
    }

    #[test]
    fn kernels_are_named_where_they_differ() {
        let list = |names: &[&str]| -> Vec<Arc<str>> { names.iter().map(|&n| n.into()).collect() };
        let told = |reference: &[&str], target: &[&str]| {
            let (reference, target) = (list(reference), list(target));
            other_kernels(Both { reference: &*reference, target: &*target })
        };
        let long = format!("void at::native::{}", "x".repeat(60));
        assert_eq!(
            told(&[&format!("{long}<float>")], &[&format!("{long}<c10::Half>")]),
            "other kernels, `...xxxxxxxxxxxxxxxxxxx<c10::Half>` instead of `...xxxxxxxxxxxxxxxxxxx<float>`"
        );
        assert_eq!(told(&["same", "a"], &["same", "b"]), "other kernels, `b` instead of `a`");
        assert_eq!(told(&["same"], &["same", "b"]), "other kernels, also `b`");
        assert_eq!(told(&["same", "a"], &["same"]), "other kernels, without `a`");
        let one = format!("{long}<float>");
        assert_eq!(apart(&one, &one)[0], apart(&one, &one)[1], "the same name needs no difference");
    }

    #[test]
    fn lost_overlap_is_told_as_that() {
        let kernel_ms = Both { reference: 5.0, target: 5.0 };
        let (reference, target) = (side(3.0, 0.0), side(5.0, 0.0));
        let totals = Both { reference: &reference, target: &target };
        let recorded = Recorded { totals, kernel_ms, copies: Both::default() };
        let found = of(kernel_ms, &recorded);
        assert_eq!(ms(&found, ChangeKind::Overlap), Some(Both { reference: 0.0, target: 2.0 }));
        assert_eq!(ms(&found, ChangeKind::Copies), None);
        assert!((recorded.lost_overlap_ms() - 2.0).abs() < 1e-12);
        let back = Recorded { totals: Both { reference: &target, target: &reference }, ..recorded };
        assert_eq!(ms(&of(kernel_ms, &back), ChangeKind::Overlap), Some(Both { reference: 2.0, target: 0.0 }));
        assert!(back.lost_overlap_ms() == 0.0);
    }

    #[test]
    fn more_calls_are_no_copies() {
        // The reference makes half of the calls: its parts were scaled from 2 to 4 ms.
        let (reference, target) = (side(2.0, 0.0), side(4.0, 0.0));
        let totals = Both { reference: &reference, target: &target };
        let kernel_ms = Both { reference: 2.0, target: 4.0 };
        let found = of(Both { reference: 4.0, target: 4.0 }, &Recorded { totals, kernel_ms, copies: Both::default() });
        assert_eq!(ms(&found, ChangeKind::Calls), Some(Both { reference: 2.0, target: 4.0 }));
        assert_eq!((ms(&found, ChangeKind::Copies), ms(&found, ChangeKind::Overlap)), (None, None));
    }

    #[test]
    fn copies_are_those_that_nothing_overlaps_and_no_operation_has() {
        let (reference, target) = (side(4.0, 1.0), side(4.0, 3.0));
        let totals = Both { reference: &reference, target: &target };
        // One millisecond of each side is of an operation.
        let kernel_ms = Both { reference: 5.0, target: 5.0 };
        let copies = Both {
            reference: Copies { apart_ms: 0.0, in_parts_ms: 1.0 },
            target: Copies { apart_ms: 2.5, in_parts_ms: 1.0 },
        };
        let found = of(kernel_ms, &Recorded { totals, kernel_ms, copies });
        assert_eq!(ms(&found, ChangeKind::Copies), Some(Both { reference: 0.0, target: 2.0 }));
        assert_eq!(ms(&found, ChangeKind::Overlap), None);
        let unknown = Recorded { totals, kernel_ms: Both { reference: 5.0, target: 4.0 }, copies };
        let found = of(unknown.kernel_ms, &unknown);
        assert_eq!(ms(&found, ChangeKind::Unknown), Some(Both { reference: 0.0, target: 1.0 }));
    }
}

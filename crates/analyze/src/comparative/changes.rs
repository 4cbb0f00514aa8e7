//! What differs between the sides, in parts that add up to the difference of the GPU's time.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_trace::InOrder;
use serde::Serialize;

use super::both::Both;
use super::compared::{Compared, names};
use super::matching::MatchLevel;
use super::verdict::{ExpectedRatio, Verdict};
use super::work::Part;
use super::{Comparative, SideTotals};
use crate::finding::PatternId;
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
    /// Copies that nothing overlaps; kernels that run beside each other count once.
    Copies,
    /// Communication that nothing overlaps.
    Communication,
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
}

/// Names listed before the rest is only counted.
const LISTED: usize = 3;

/// All differences, the largest first. They add up to the difference of the total times.
pub(crate) fn changes(
    operations: &[Compared],
    left: &Both<Vec<Part>>,
    totals: Both<&SideTotals>,
    waits: &Both<Vec<PatternId>>,
    limits: &Thresholds,
) -> Vec<Change> {
    let mut found: Vec<Change> = Vec::new();
    let mut groups: BTreeMap<(&str, ChangeKind), Vec<&Compared>> = BTreeMap::new();
    for c in operations {
        match kind(c) {
            ChangeKind::Replaced => found.push(replaced(c)),
            kind => groups.entry((&c.category, kind)).or_default().push(c),
        }
    }
    found.extend(groups.into_iter().map(|((category, kind), members)| group(category, kind, &members, limits)));
    if !left.reference.is_empty() || !left.target.is_empty() {
        found.push(unmatched(left));
    }
    let mut kernel_ms = Both::<f64>::default();
    for change in &found {
        kernel_ms.add(change.ms);
    }
    let mut timeline =
        |kind: ChangeKind, what: String, ms: Both<f64>| found.push(Change { kind, what, ms, verdict: None });
    timeline(ChangeKind::Idle, idle(waits), Both::of(totals, |t| t.idle_ms));
    let alone = "Communication that nothing overlaps".to_owned();
    timeline(ChangeKind::Communication, alone, Both::of(totals, |t| t.exposed_comm_ms));
    let rest = "Memory copies, less what runs beside other kernels".to_owned();
    let ms = Both::of(totals.zip(kernel_ms), |(t, kernels)| t.computation_ms + t.exposed_copy_ms - kernels);
    timeline(ChangeKind::Copies, rest, ms);
    found.retain(|c| c.ms != Both::default());
    found.order_by(|a, b| b.ms.delta().abs().total_cmp(&a.ms.delta().abs()).then_with(|| a.what.cmp(&b.what)));
    found
}

impl Comparative {
    /// Differences that are worth telling: of at least this share of the reference's time, in percent.
    pub fn large_changes(&self) -> impl Iterator<Item = &Change> {
        let floor = super::WORTH_PERCENT / 100.0 * self.totals.reference.total_ms;
        self.changes.iter().filter(move |c| c.ms.delta().abs() >= floor)
    }
}

/// Idle time, with what the sides wait for.
fn idle(waits: &Both<Vec<PatternId>>) -> String {
    let list = |ids: &[PatternId]| match ids {
        [] => "no wait".to_owned(),
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
        Some(MatchLevel::Dims) => ChangeKind::Precision,
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

/// A name that fits into a sentence.
fn short(name: &str) -> String {
    const MOST: usize = 60;
    let cut: String = name.chars().take(MOST).collect();
    let end = if cut.len() < name.len() { "..." } else { "" };
    cut.replace('`', "'") + end
}

fn count(n: f64, thing: &str) -> String {
    let n = n.round();
    format!("{n} {thing}{}", if (n - 1.0).abs() < f64::EPSILON { "" } else { "s" })
}

fn replaced(c: &Compared) -> Change {
    let what = format!(
        "In `{}`: {} ({}) replaced by {} ({})",
        short(&c.name),
        listed(&c.operations.reference),
        count(c.launched.reference, "kernel"),
        listed(&c.operations.target),
        count(c.launched.target, "kernel")
    );
    Change { kind: ChangeKind::Replaced, what, ms: c.ms, verdict: c.verdict }
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
    let of = format!("{} ({category}, {})", listed(&operations), count(members.len() as f64, "shape"));
    let what = match kind {
        ChangeKind::Precision => {
            let types = largest.first().map(|c| Both::of(c.types.as_ref(), |t| t.clone().unwrap_or_default()));
            let types = types.unwrap_or_default();
            format!("{of}: in `{}` instead of `{}`", types.target, types.reference)
        }
        ChangeKind::Kernels => {
            let kernels = largest.first().map(|c| Both::of(c.kernels.as_ref(), |k| listed(&k[..k.len().min(1)])));
            let kernels = kernels.unwrap_or_default();
            let (before, after) = (launched.reference.round() as u64, launched.target.round() as u64);
            let launches =
                if before == after { String::new() } else { format!("; {after} instead of {before} kernels") };
            format!("{of}: other kernels, {} instead of {}{launches}", kernels.target, kernels.reference)
        }
        _ => format!("{of}: same kernels"),
    };
    Change {
        kind,
        what,
        ms,
        verdict: ExpectedRatio::of_sum(members).zip(ms.ratio()).map(|(e, r)| Verdict::of_sum(r, e, members, limits)),
    }
}

/// Names of operations; of kernels that only a launch is known of, the launch.
fn launchers(parts: &[Part]) -> Vec<Arc<str>> {
    let mut found: Vec<Arc<str>> = Vec::new();
    for name in names(parts) {
        let launcher = name.split_once("->").map_or(&*name, |(launcher, _)| launcher);
        if found.iter().all(|f| **f != *launcher) {
            found.push(launcher.into());
        }
    }
    found
}

fn unmatched(left: &Both<Vec<Part>>) -> Change {
    let ms = Both::of(left.as_ref(), |parts| parts.iter().map(|p| p.ms).sum::<f64>());
    let kernels = Both::of(left.as_ref(), |parts| count(parts.iter().map(|p| p.kernels).sum(), "kernel"));
    let side = |parts: &[Part], kernels: &str| {
        if parts.is_empty() { "nothing".to_owned() } else { format!("{} ({kernels})", listed(&launchers(parts))) }
    };
    let what = format!(
        "Work without a counterpart: {} in the reference, {} in the target",
        side(&left.reference, &kernels.reference),
        side(&left.target, &kernels.target)
    );
    Change { kind: ChangeKind::Unmatched, what, ms, verdict: None }
}

//! Where the target should be improved: what takes it longer than its hardware explains.

use std::collections::BTreeMap;

use super::both::Both;
use super::changes::{Change, ChangeKind, apart, listed, other_inputs};
use super::compared::Compared;
use super::matching::MatchLevel;
use super::verdict::{ExpectedRatio, Verdict};
use super::{SideTotals, WORTH_PERCENT, patterns};
use crate::analysis::Analysis;
use crate::finding::{Finding, Paths, PatternId, Tier};
use crate::prepare::args::SEPARATOR;
use crate::program::RowId;
use crate::texts::{TextId, counted};
use crate::thresholds::Threshold;
use jarvis_trace::InOrder;

/// What a gap is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapSource {
    /// Position among the operations of the comparison.
    Operation(usize),
    /// Several operations that one change explains: the target shows this pattern, and the reference does not.
    Cause(PatternId),
    /// Work without a counterpart.
    Unmatched,
    /// The GPU has nothing to do.
    Idle,
    /// Kernels run one after the other that run beside each other in the reference.
    Overlap,
    /// Only copies go on.
    Copies,
    /// Only communication goes on.
    Communication,
}

impl GapSource {
    /// Whether it is about time in which nothing computes.
    fn is_beside_computation(self) -> bool {
        matches!(self, Self::Idle | Self::Copies | Self::Communication)
    }
}

/// A gap: something the target could do in less time.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// 1 is the one to close first.
    pub rank: usize,
    /// What it is about.
    pub source: GapSource,
    /// Positions of the operations of the comparison that it is about, those that save most first.
    pub operations: Vec<usize>,
    /// Operation, module or what else it is about.
    pub name: String,
    /// One line; names stand between backticks.
    pub title: String,
    /// Category key, or the name of a system category.
    pub category: String,
    /// Time on each side.
    pub ms: Both<f64>,
    /// Target over reference as the hardware suggests.
    pub expected: Option<ExpectedRatio>,
    /// What closing it saves.
    pub saved_ms: f64,
    /// The same in percent of the target's computation time; none for time in which nothing computes.
    pub saved_percent_of_compute: Option<f64>,
    /// The same in percent of the target's total time.
    pub saved_percent_of_total: f64,
    /// Types of both sides, where closing it takes another precision.
    pub precision: Option<Both<String>>,
    /// What to do.
    pub paths: Paths,
    /// Operations to make replay packages of.
    pub replay: Vec<String>,
}

impl Gap {
    /// A gap of which all that the target takes longer could be saved.
    fn new(source: GapSource, name: &str, category: &str, ms: Both<f64>, paths: Paths) -> Self {
        Self {
            rank: 0,
            source,
            operations: Vec::new(),
            name: name.to_owned(),
            title: name.to_owned(),
            category: category.to_owned(),
            ms,
            expected: None,
            saved_ms: ms.delta(),
            saved_percent_of_compute: None,
            saved_percent_of_total: 0.0,
            precision: None,
            paths,
            replay: Vec::new(),
        }
    }
}

/// What is known of when the GPU does what.
pub(crate) struct Timeline<'a> {
    /// The GPU's time.
    pub(crate) totals: Both<&'a SideTotals>,
    /// What the target would save if its kernels ran beside each other as the reference's do.
    pub(crate) lost_overlap_ms: f64,
    /// Whether the recordings are equally long, or times are of one step.
    pub(crate) is_comparable: bool,
    /// Whether what has no counterpart is in the same unit on both sides.
    pub(crate) is_to_scale: bool,
    /// Whether both sides run the same collectives; none if neither has any.
    pub(crate) same_collectives: Option<bool>,
}

/// The gaps, those that save most first.
pub(crate) fn gaps(
    analyses: Both<&Analysis>,
    operations: &[Compared],
    changes: &[Change],
    timeline: &Timeline<'_>,
) -> Vec<Gap> {
    let totals = timeline.totals;
    // What the reference has lost is nothing that it does without. Of a target that misses a part, marks of steps may
    // be gone and their work not.
    let is_whole = [analyses.reference, analyses.target].iter().all(|a| a.prepared.losses.is_empty());
    let target = analyses.target;
    let limits = &target.prepared.thresholds;
    let mut found: Vec<Gap> = Vec::new();
    for (i, c) in operations.iter().enumerate() {
        if c.verdict.is_some_and(Verdict::is_slow) && c.percent_of_compute.target >= WORTH_PERCENT {
            found.push(of_operation(target, i, c));
        }
    }
    let mut found = by_cause(found, operations, analyses);
    let compute = totals.target.computation_ms;
    let tolerance = 1.0 + limits.get(Threshold::CompareTolerance);
    let unmatched = changes.iter().find(|c| c.kind == ChangeKind::Unmatched);
    let is_more =
        |c: &&Change| c.ms.ratio().is_none_or(|r| r > tolerance) && 100.0 * c.ms.delta() >= WORTH_PERCENT * compute;
    if let Some(c) = unmatched.filter(is_more).filter(|_| is_whole && timeline.is_to_scale) {
        found.push(of_unmatched(analyses, c.ms));
    }
    if timeline.is_comparable && is_whole {
        let compares_collectives = timeline.same_collectives == Some(true);
        let communication = of_communication(&target.findings, changes).filter(|_| compares_collectives);
        let idle = of_idle(&target.findings, totals);
        let waits = [Some(idle), of_copies(&target.findings, changes), communication];
        let overlap = of_overlap(timeline.lost_overlap_ms);
        let is_worth = |gap: &Gap| 100.0 * gap.saved_ms >= WORTH_PERCENT * totals.target.total_ms && gap.saved_ms > 0.0;
        let waits = exposed(waits.into_iter().flatten().collect(), totals);
        found.extend(waits.into_iter().chain([overlap]).filter(is_worth));
    }
    let percent_of = |ms: f64, all: f64| if all > 0.0 { 100.0 * ms / all } else { 0.0 };
    for gap in &mut found {
        gap.saved_percent_of_total = percent_of(gap.saved_ms, totals.target.total_ms);
        let is_part = !gap.source.is_beside_computation();
        gap.saved_percent_of_compute = is_part.then(|| percent_of(gap.saved_ms, compute));
    }
    let least = limits.get(Threshold::ReportMinPercent);
    found.retain(|gap| gap.saved_percent_of_compute.unwrap_or(gap.saved_percent_of_total) >= least);
    found.order_by(|a, b| b.saved_ms.total_cmp(&a.saved_ms).then_with(|| a.title.cmp(&b.title)));
    for (gap, rank) in found.iter_mut().zip(1..) {
        gap.rank = rank;
    }
    found
}

/// Patterns that one change does away with, however many operations show them.
const CAUSES: [PatternId; 8] = [
    PatternId::LAYOUT_TRANSPOSES,
    PatternId::UNFUSED_ATTENTION,
    PatternId::REPEATED_KV_HEADS,
    PatternId::MOE_EXPERT_LOOP,
    PatternId::UNFUSED_NORM,
    PatternId::ELEMENTWISE_CHAIN,
    PatternId::UNFUSED_OPTIMIZER,
    PatternId::UNFUSED_MODULE,
];

/// Gaps of operations that one finding speaks of are one where only the target has such a finding: it is what differs
/// between the sides. What both sides show explains no difference.
fn by_cause(gaps: Vec<Gap>, operations: &[Compared], analyses: Both<&Analysis>) -> Vec<Gap> {
    let known = patterns(analyses.reference, &[Tier::Compute, Tier::Fusion]);
    let mut causes: BTreeMap<usize, (&Finding, Vec<Gap>)> = BTreeMap::new();
    let mut found: Vec<Gap> = Vec::new();
    for gap in gaps {
        let rows = gap.operations.first().and_then(|&at| operations.get(at)).map(|c| &*c.rows.target);
        let told = rows.and_then(|rows| finding(analyses.target, rows)).filter(|_| gap.precision.is_none());
        match told.filter(|f| CAUSES.contains(&f.pattern) && !known.contains(&f.pattern)) {
            Some(f) => causes.entry(f.rank).or_insert_with(|| (f, Vec::new())).1.push(gap),
            None => found.push(gap),
        }
    }
    for (_, (cause, members)) in causes {
        match &*members {
            [_, _, ..] => found.push(of_cause(cause, members, operations)),
            _ => found.extend(members),
        }
    }
    found
}

/// Several gaps as one: what closing all of them saves, with what is said of the largest.
fn of_cause(cause: &Finding, mut members: Vec<Gap>, operations: &[Compared]) -> Gap {
    members.order_by(|a, b| b.saved_ms.total_cmp(&a.saved_ms).then_with(|| a.title.cmp(&b.title)));
    let mut ms = Both::<f64>::default();
    let mut replay: Vec<String> = Vec::new();
    for gap in &members {
        ms.add(gap.ms);
        for op in &gap.replay {
            if !replay.contains(op) {
                replay.push(op.clone());
            }
        }
    }
    let at: Vec<usize> = members.iter().flat_map(|gap| gap.operations.iter().copied()).collect();
    let compared: Vec<&Compared> = at.iter().filter_map(|&at| operations.get(at)).collect();
    let paths = members.first().map(|gap| gap.paths.clone()).unwrap_or_default();
    Gap {
        title: format!("{} ({})", cause.title, counted(members.len(), "operation")),
        expected: ExpectedRatio::of_sum(&compared, |c| c.expected),
        saved_ms: members.iter().map(|gap| gap.saved_ms).sum(),
        operations: at,
        replay,
        ..Gap::new(GapSource::Cause(cause.pattern), &cause.title, &cause.category, ms, paths)
    }
}

fn of_operation(target: &Analysis, at: usize, c: &Compared) -> Gap {
    let told = finding(target, &c.rows.target);
    let is_group = c.level == Some(MatchLevel::Module);
    let mut paths = told.map(|f| f.paths.clone()).unwrap_or_default();
    // The finding tells what all its rows would save in the whole trace; the gap tells what this one does, in its unit.
    paths.kernel.retain(|sentence| !TextId::B_BW.is_said_in(sentence));
    if is_group && c.same_operations() {
        // What is known of these shapes alone says more.
        paths.algorithmic.push(format!(
            "In this place the target runs {} {}; use what the reference does.",
            listed(&c.operations.target),
            other_inputs(c)
        ));
    } else if is_group {
        paths.algorithmic.insert(
            0,
            format!(
                "In this place the reference runs {} in {} kernels where the target runs {}; use the same form.",
                listed(&c.operations.reference),
                c.launched.reference.round(),
                c.launched.target.round()
            ),
        );
    }
    if let Some(precision) = c.precision.as_ref().filter(|_| c.ms.delta() > 0.0) {
        paths.algorithmic.insert(0, as_the_reference(precision, &c.category));
    }
    if paths.algorithmic.is_empty() {
        paths
            .algorithmic
            .push("Check that both sides call the operation with the same layout, precision and flags.".to_owned());
    }
    let types = c.precision.clone().filter(|_| c.verdict == Some(Verdict::Precision));
    if types.is_some() {
        paths.kernel = vec!["None while the types differ: kernels of different types can't be compared.".to_owned()];
    } else {
        paths.kernel.insert(0, investigate(c));
    }
    let precision = if types.is_some() { "Precision of " } else { "" };
    Gap {
        title: match c.args.split(SEPARATOR).next() {
            _ if is_group => format!("Operations of `{}`", c.name),
            Some(first) if !first.is_empty() => format!("{precision}`{}` `{first}`", c.name),
            _ => format!("{precision}`{}`", c.name),
        },
        expected: c.expected,
        saved_ms: c.saved_ms,
        precision: types,
        operations: vec![at],
        replay: c.operations.target.first().filter(|_| !is_group).map(ToString::to_string).into_iter().collect(),
        ..Gap::new(GapSource::Operation(at), &c.name, &c.category, c.ms, paths)
    }
}

/// How to compute as the reference does. TF32 is no type of a tensor but a setting.
fn as_the_reference(precision: &Both<String>, category: &str) -> String {
    match (&*precision.reference, &*precision.target) {
        ("tf32", "fp32") if category == "convolution" => {
            "Allow TF32 as the reference does, with `torch.backends.cudnn.allow_tf32 = True`, if accuracy allows."
                .to_owned()
        }
        ("tf32", "fp32") => {
            "Allow TF32 as the reference does, with `torch.set_float32_matmul_precision(\"high\")`, if \
                             accuracy allows."
                .to_owned()
        }
        (kind, _) => format!("Compute in `{kind}` as the reference does, if accuracy allows."),
    }
}

/// What to look at where the same work in the same types takes longer.
fn investigate(c: &Compared) -> String {
    let (Some(reference), Some(target)) = (c.kernels.reference.first(), c.kernels.target.first()) else {
        return "Generate a replay artifact and compare the kernels of both sides.".to_owned();
    };
    let [reference, target] = apart(reference, target);
    format!(
        "Generate a replay artifact and check kernel selection and tile sizes: `{target}` here, `{reference}` in the \
         reference."
    )
}

/// Patterns that say what the GPU waits for while it is idle.
pub(crate) const WAITS: [PatternId; 3] = [PatternId::LAUNCH_BOUND, PatternId::HOST_SYNC, PatternId::INPUT_STARVED];

fn of_idle(findings: &[Finding], totals: Both<&SideTotals>) -> Gap {
    let idle = Both::of(totals, |t| t.idle_ms);
    let paths = paths_of(findings, &WAITS, "See `system_findings/cpu_idle_findings.md` for what the GPU waits for.");
    Gap::new(GapSource::Idle, "GPU idle time", "cpu_idle", idle, paths)
}

/// Copies that operations make are compared with those.
fn of_copies(findings: &[Finding], changes: &[Change]) -> Option<Gap> {
    let ms = changes.iter().find(|c| c.kind == ChangeKind::Copies)?.ms;
    let see = "See `system_findings/multi_kernel_findings.md` for what copies, and let it run beside computation.";
    let paths = paths_of(findings, &[PatternId::BLOCKING_COPIES], see);
    Some(Gap::new(GapSource::Copies, "Exposed memory copies", "multi_kernel", ms, paths))
}

fn of_communication(findings: &[Finding], changes: &[Change]) -> Option<Gap> {
    let ms = changes.iter().find(|c| c.kind == ChangeKind::Communication)?.ms;
    let see = "See `system_findings/multi_kernel_findings.md` for the collectives, and overlap them with computation.";
    let mut paths = paths_of(findings, &[PatternId::EXPOSED_COMMUNICATION], see);
    paths.algorithmic.push(
        "Some of it may be waiting for ranks that compute longer: one rank can't tell waiting from transfer."
            .to_owned(),
    );
    Some(Gap::new(GapSource::Communication, "Exposed communication", "multi_kernel", ms, paths))
}

/// Gaps that together save no more than what the target takes longer beside computing; the largest have the first share
/// of it.
fn exposed(mut gaps: Vec<Gap>, totals: Both<&SideTotals>) -> Vec<Gap> {
    gaps.order_by(|a, b| b.saved_ms.total_cmp(&a.saved_ms));
    let mut left = longer_beside_computing(totals);
    for gap in &mut gaps {
        gap.saved_ms = gap.saved_ms.min(left);
        left -= gap.saved_ms.max(0.0);
    }
    gaps
}

/// What the target takes longer in all because of times in which nothing computes. Where the reference waited instead,
/// nothing is lost; where it computed instead, it does not show that the target can do without: kernels that take less
/// time lay bare how long the host takes.
pub(crate) fn longer_beside_computing(totals: Both<&SideTotals>) -> f64 {
    let in_all = Both::of(totals, |t| t.total_ms).delta();
    let beside = Both::of(totals, |t| t.total_ms - t.computation_ms).delta();
    in_all.min(beside)
}

/// What the target's own finding of one of these patterns says, else where to look.
fn paths_of(findings: &[Finding], patterns: &[PatternId], see: &str) -> Paths {
    let told = findings.iter().find(|f| patterns.contains(&f.pattern));
    let mut paths = told.map(|f| f.paths.clone()).unwrap_or_default();
    if paths.algorithmic.is_empty() {
        paths.algorithmic.push(see.to_owned());
    }
    if paths.kernel.is_empty() {
        paths.kernel.push("None: not a kernel matter.".to_owned());
    }
    paths
}

fn of_unmatched(analyses: Both<&Analysis>, ms: Both<f64>) -> Gap {
    let repeated =
        Both::of(analyses, |a| a.findings.iter().find(|f| f.pattern == PatternId::RECOMPUTATION).map(|f| &f.paths));
    let mut algorithmic = match (repeated.reference, repeated.target) {
        (None, Some(paths)) => paths.algorithmic.clone(),
        _ => Vec::new(),
    };
    algorithmic.push(if ms.reference > 0.0 {
        "Compare the two lists of operations without a counterpart: what the target runs as separate operations may have \
         a shorter form, as the reference shows."
            .to_owned()
    } else {
        "See whether the target needs the operations that only it runs: the reference does without them.".to_owned()
    });
    let kernel = vec!["None while the operations differ; match them first.".to_owned()];
    Gap::new(GapSource::Unmatched, "Work without a counterpart", "other", ms, Paths { algorithmic, kernel })
}

fn of_overlap(ms: f64) -> Gap {
    let paths = Paths {
        algorithmic: vec![
            "Let kernels that do not depend on each other run on streams of their own, as the reference does."
                .to_owned(),
        ],
        kernel: vec!["None: not a kernel matter.".to_owned()],
    };
    Gap::new(GapSource::Overlap, "Overlap of kernels", "other", Both { reference: 0.0, target: ms }, paths)
}

/// The finding that speaks of most of these rows' time.
fn finding<'a>(target: &'a Analysis, rows: &[RowId]) -> Option<&'a Finding> {
    let ms = |f: &Finding| -> f64 {
        f.rows.iter().filter(|(r, _)| rows.contains(r)).map(|(r, s)| s * target.prepared.row(*r).time_ms).sum()
    };
    let best = target.findings.iter().map(|f| (ms(f), f)).filter(|(ms, _)| *ms > 0.0);
    best.reduce(|a, b| if b.0 > a.0 { b } else { a }).map(|(_, f)| f)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Priority;
    use crate::testing::finding;

    #[test]
    fn only_what_the_gpu_waits_for_is_advice_on_idle_time() {
        let told = |pattern: PatternId, says: &str| Finding {
            pattern,
            paths: Paths { algorithmic: vec![says.to_owned()], kernel: Vec::new() },
            ..finding(Tier::System, Priority::High, 1.0, 2.0)
        };
        let advice = |findings: &[Finding]| {
            let gap = of_idle(findings, Both { reference: &waiting(1.0, 4.0), target: &waiting(5.0, 4.0) });
            gap.paths.algorithmic.first().cloned().unwrap_or_default()
        };
        let repeated = told(PatternId::RECOMPUTATION, "Checkpoint fewer layers.");
        assert!(advice(std::slice::from_ref(&repeated)).starts_with("See `system_findings/"));
        assert_eq!(advice(&[repeated, told(PatternId::HOST_SYNC, "Do not wait.")]), "Do not wait.");
    }

    fn waiting(idle_ms: f64, computation_ms: f64) -> SideTotals {
        SideTotals { total_ms: idle_ms + computation_ms, idle_ms, computation_ms, ..SideTotals::default() }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "the numbers are exact")]
    fn waiting_saves_what_the_reference_shows_can_be_done_without() {
        let saved = |reference: SideTotals, target: SideTotals| {
            let totals = Both { reference: &reference, target: &target };
            exposed(vec![of_idle(&[], totals)], totals)[0].saved_ms
        };
        assert_eq!(saved(waiting(1.0, 4.0), waiting(5.0, 4.0)), 4.0);
        assert_eq!(saved(waiting(1.0, 4.0), waiting(3.0, 2.0)), 0.0, "the kernels take less, the whole as much");
        assert_eq!(saved(waiting(1.0, 4.0), waiting(3.0, 3.0)), 1.0);
        assert!(saved(waiting(1.0, 4.0), waiting(2.0, 1.0)) < 0.0, "the whole takes less");
        // A rank that waits for one that computes longer.
        let rank = |computation_ms: f64, exposed_comm_ms: f64| SideTotals {
            total_ms: computation_ms + exposed_comm_ms,
            computation_ms,
            exposed_comm_ms,
            ..SideTotals::default()
        };
        let (slow, fast) = (rank(9.0, 2.0), rank(6.0, 5.0));
        let totals = Both { reference: &slow, target: &fast };
        let gap = Gap::new(GapSource::Communication, "", "", Both::of(totals, |t| t.exposed_comm_ms), Paths::default());
        assert_eq!(exposed(vec![gap], totals)[0].saved_ms, 0.0);
        // What the target takes longer in all is saved once.
        let own = |idle_ms: f64, exposed_comm_ms: f64| SideTotals {
            total_ms: 8.0 + idle_ms + exposed_comm_ms,
            computation_ms: 8.0 - 4.0 * f64::from(u8::from(idle_ms > 1.0)),
            idle_ms,
            exposed_comm_ms,
            ..SideTotals::default()
        };
        let (reference, target) = (own(1.0, 1.0), SideTotals { total_ms: 12.0, ..own(4.0, 4.0) });
        let totals = Both { reference: &reference, target: &target };
        let communication =
            Gap::new(GapSource::Communication, "", "", Both::of(totals, |t| t.exposed_comm_ms), Paths::default());
        let both = exposed(vec![of_idle(&[], totals), communication], totals);
        assert_eq!(both.iter().map(|gap| gap.saved_ms).sum::<f64>(), 2.0, "{both:?}");
    }

    #[test]
    fn tf32_is_a_setting() {
        let both = |reference: &str, target: &str| Both { reference: reference.to_owned(), target: target.to_owned() };
        assert!(as_the_reference(&both("tf32", "fp32"), "gemm").contains("set_float32_matmul_precision"));
        assert!(as_the_reference(&both("tf32", "fp32"), "convolution").contains("cudnn.allow_tf32"));
        assert!(as_the_reference(&both("c10::Half", "float"), "gemm").starts_with("Compute in `c10::Half`"));
    }
}

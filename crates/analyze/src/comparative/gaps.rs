//! Where the target should be improved: what takes it longer than its hardware explains.

use super::both::Both;
use super::changes::{Change, ChangeKind, apart, listed};
use super::compared::Compared;
use super::matching::MatchLevel;
use super::verdict::{ExpectedRatio, Verdict};
use super::{SideTotals, WORTH_PERCENT};
use crate::analysis::Analysis;
use crate::finding::{Finding, Paths, Tier};
use crate::program::RowId;
use crate::thresholds::Threshold;
use jarvis_trace::InOrder;

/// What a gap is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapSource {
    /// Position among the operations of the comparison.
    Operation(usize),
    /// Work without a counterpart.
    Unmatched,
    /// The GPU has nothing to do.
    Idle,
    /// Kernels run one after the other that run beside each other in the reference.
    Overlap,
}

/// A gap: something the target could do in less time.
#[derive(Debug, Clone, PartialEq)]
pub struct Gap {
    /// 1 is the one to close first.
    pub rank: usize,
    /// What it is about.
    pub source: GapSource,
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
    /// The same in percent of the target's computation time; none for idle time, which is no part of it.
    pub saved_percent_of_compute: Option<f64>,
    /// The same in percent of the target's total time.
    pub saved_percent_of_total: f64,
    /// Types of both sides, where closing it takes another precision.
    pub precision: Option<Both<String>>,
    /// What to do.
    pub paths: Paths,
    /// Operation to make a replay package of.
    pub replay: Option<String>,
}

impl Gap {
    /// Position of the operation that it is about.
    pub fn operation(&self) -> Option<usize> {
        match self.source {
            GapSource::Operation(at) => Some(at),
            GapSource::Unmatched | GapSource::Idle | GapSource::Overlap => None,
        }
    }
}

/// The gaps, those that save most first.
pub(crate) fn gaps(
    target: &Analysis,
    operations: &[Compared],
    changes: &[Change],
    totals: Both<&SideTotals>,
    lost_overlap_ms: f64,
) -> Vec<Gap> {
    let limits = &target.prepared.thresholds;
    let mut found: Vec<Gap> = Vec::new();
    for (i, c) in operations.iter().enumerate() {
        if c.verdict.is_some_and(Verdict::is_slow) && c.percent_of_compute.target >= WORTH_PERCENT {
            found.push(of_operation(target, i, c));
        }
    }
    let compute = totals.target.computation_ms;
    let tolerance = 1.0 + limits.get(Threshold::CompareTolerance);
    let unmatched = changes.iter().find(|c| c.kind == ChangeKind::Unmatched);
    let is_more =
        |c: &&Change| c.ms.ratio().is_some_and(|r| r > tolerance) && 100.0 * c.ms.delta() >= WORTH_PERCENT * compute;
    if let Some(c) = unmatched.filter(is_more) {
        found.push(Gap {
            rank: 0,
            source: GapSource::Unmatched,
            name: "Work without a counterpart".to_owned(),
            title: "Work without a counterpart".to_owned(),
            category: "other".to_owned(),
            ms: c.ms,
            expected: None,
            saved_ms: c.ms.delta(),
            saved_percent_of_compute: None,
            saved_percent_of_total: 0.0,
            precision: None,
            paths: Paths {
                algorithmic: vec!["Compare the two lists of operations without a counterpart: what the target runs as separate operations may have a shorter form, as the reference shows.".to_owned()],
                kernel: vec!["None while the operations differ; match them first.".to_owned()],
            },
            replay: None,
        });
    }
    let idle = Both::of(totals, |t| t.idle_ms);
    if 100.0 * idle.delta() >= WORTH_PERCENT * totals.target.total_ms {
        found.push(of_idle(target, idle));
    }
    if 100.0 * lost_overlap_ms >= WORTH_PERCENT * totals.target.total_ms && lost_overlap_ms > 0.0 {
        found.push(of_overlap(lost_overlap_ms));
    }
    let percent_of = |ms: f64, all: f64| if all > 0.0 { 100.0 * ms / all } else { 0.0 };
    for gap in &mut found {
        gap.saved_percent_of_total = percent_of(gap.saved_ms, totals.target.total_ms);
        gap.saved_percent_of_compute = (gap.source != GapSource::Idle).then(|| percent_of(gap.saved_ms, compute));
    }
    let least = limits.get(Threshold::ReportMinPercent);
    found.retain(|gap| gap.saved_percent_of_compute.unwrap_or(gap.saved_percent_of_total) >= least);
    found.order_by(|a, b| b.saved_ms.total_cmp(&a.saved_ms).then_with(|| a.title.cmp(&b.title)));
    for (gap, rank) in found.iter_mut().zip(1..) {
        gap.rank = rank;
    }
    found
}

fn of_operation(target: &Analysis, at: usize, c: &Compared) -> Gap {
    let told = finding(target, &c.rows.target);
    let is_group = c.level == Some(MatchLevel::Module);
    let mut paths = told.map(|f| f.paths.clone()).unwrap_or_default();
    if is_group {
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
        rank: 0,
        source: GapSource::Operation(at),
        name: c.name.clone(),
        title: match c.args.split("<br>").next() {
            _ if is_group => format!("Operations of `{}`", c.name),
            Some(first) if !first.is_empty() => format!("{precision}`{}` `{first}`", c.name),
            _ => format!("{precision}`{}`", c.name),
        },
        category: c.category.to_string(),
        ms: c.ms,
        expected: c.expected,
        saved_ms: c.saved_ms,
        saved_percent_of_compute: None,
        saved_percent_of_total: 0.0,
        precision: types,
        paths,
        replay: c.operations.target.first().filter(|_| !is_group).map(ToString::to_string),
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

fn of_idle(target: &Analysis, idle: Both<f64>) -> Gap {
    let system = target.findings.iter().find(|f| f.tier == Tier::System);
    let mut paths = system.map(|f| f.paths.clone()).unwrap_or_default();
    if paths.algorithmic.is_empty() {
        paths.algorithmic.push("See `system_findings/cpu_idle_findings.md` for what the GPU waits for.".to_owned());
    }
    if paths.kernel.is_empty() {
        paths.kernel.push("None: not a kernel matter.".to_owned());
    }
    Gap {
        rank: 0,
        source: GapSource::Idle,
        name: "GPU idle time".to_owned(),
        title: "GPU idle time".to_owned(),
        category: "cpu_idle".to_owned(),
        ms: idle,
        expected: None,
        saved_ms: idle.delta(),
        saved_percent_of_compute: None,
        saved_percent_of_total: 0.0,
        precision: None,
        paths,
        replay: None,
    }
}

fn of_overlap(ms: f64) -> Gap {
    let ms = Both { reference: 0.0, target: ms };
    Gap {
        rank: 0,
        source: GapSource::Overlap,
        name: "Overlap of kernels".to_owned(),
        title: "Overlap of kernels".to_owned(),
        category: "other".to_owned(),
        ms,
        expected: None,
        saved_ms: ms.delta(),
        saved_percent_of_compute: None,
        saved_percent_of_total: 0.0,
        precision: None,
        paths: Paths {
            algorithmic: vec![
                "Let kernels that do not depend on each other run on streams of their own, as the reference does."
                    .to_owned(),
            ],
            kernel: vec!["None: not a kernel matter.".to_owned()],
        },
        replay: None,
    }
}

/// The finding that speaks of most of these rows' time.
fn finding<'a>(target: &'a Analysis, rows: &[RowId]) -> Option<&'a Finding> {
    let ms = |f: &Finding| -> f64 {
        f.rows.iter().filter(|(r, _)| rows.contains(r)).map(|(r, s)| s * target.prepared.row(*r).time_ms).sum()
    };
    let best = target.findings.iter().map(|f| (ms(f), f)).filter(|(ms, _)| *ms > 0.0);
    best.reduce(|a, b| if b.0 > a.0 { b } else { a }).map(|(_, f)| f)
}

//! `priority_data.json`: the scores and cards of `analysis.md` for programs.

use jarvis_analyze::finding::{Finding, Range};
use jarvis_analyze::metrics::SCHEMA_VERSION;
use jarvis_analyze::prepared::BoundType;
use jarvis_analyze::rounding::{Ms, Percent, Ratio};
use jarvis_trace::InOrder;
use serde::Serialize;

use super::groups::Estimate;
use super::plan::{ComputeCard, FusionCard, Plan};
use super::score::Score;
use crate::Run;

/// The whole file.
#[derive(Serialize)]
pub(crate) struct Data<'a> {
    schema_version: u32,
    /// The window that all scores are percentages of.
    baseline_ms: Ms,
    priorities: Vec<CategoryPriority<'a>>,
    recommendations: Vec<Recommendation<'a>>,
    findings: Vec<Card<'a>>,
    all_estimates: Vec<OperationEstimate<'a>>,
}

/// A score as files write it.
#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the names of the file")]
struct Scores {
    impact_score_low: Ratio,
    impact_score: Ratio,
    impact_score_high: Ratio,
}

impl From<Score> for Scores {
    fn from(score: Score) -> Self {
        Self {
            impact_score_low: Ratio(score.low),
            impact_score: Ratio(score.mid),
            impact_score_high: Ratio(score.high),
        }
    }
}

/// Milliseconds of the window.
#[derive(Serialize)]
struct Saved {
    low: Ms,
    high: Ms,
}

impl From<Range> for Saved {
    fn from(range: Range) -> Self {
        Self { low: Ms(range.low), high: Ms(range.high) }
    }
}

/// What improving all operations of a category could bring: the sum over them.
#[derive(Serialize)]
struct CategoryPriority<'a> {
    rank: usize,
    category: &'a str,
    display_name: &'a str,
    time_ms: Ms,
    percent_of_compute: Percent,
    operations: usize,
    #[serde(flatten)]
    scores: Scores,
}

/// A bar of the picture: a recommendation of the other reports.
#[derive(Serialize)]
struct Recommendation<'a> {
    rank: usize,
    title: &'a str,
    priority: &'static str,
    saved_ms: Saved,
}

/// A card.
#[derive(Serialize)]
struct Card<'a> {
    tier: &'static str,
    rank: usize,
    anchor: String,
    category: &'a str,
    operations: Vec<&'a str>,
    time_ms: Ms,
    percent_of_total: Percent,
    bound_type: Option<BoundType>,
    library: Option<&'static str>,
    efficiency_band: Option<&'static str>,
    efficiency_percent: Option<Percent>,
    estimation: &'static str,
    /// Absent where nothing can be told.
    #[serde(flatten)]
    scores: Option<Scores>,
    /// Ranks of the findings of `findings.json` that speak of it.
    told_in: Vec<usize>,
}

/// A row of the performance report.
#[derive(Serialize)]
struct OperationEstimate<'a> {
    category: &'a str,
    operation: &'a str,
    tree_uid: u32,
    args: &'a str,
    time_ms: Ms,
    percent_of_total: Percent,
    bound_type: Option<BoundType>,
    library: Option<&'static str>,
    efficiency_band: Option<&'static str>,
    /// What the score is made of, over all calls.
    efficiency_percent: Option<Percent>,
    /// What the report shows, the mean over calls.
    efficiency_percent_mean: Option<Percent>,
    estimation: &'static str,
    #[serde(flatten)]
    scores: Scores,
    /// Number of its card among those of the compute tier.
    finding: Option<usize>,
}

/// The file of a run.
pub(crate) fn data<'a>(run: &Run<'a>, plan: &'a Plan<'a>) -> Data<'a> {
    let window_ms = run.analysis.prepared.utilization.total_time_ms;
    let compute = plan.compute.iter().zip(1..).map(|(card, rank)| compute_card(card, rank));
    let fusion = plan.fusion.iter().zip(1..).map(|(card, rank)| fusion_card(card, rank, window_ms));
    let system = plan.system.iter().zip(1..).map(|(finding, rank)| system_card(finding, rank, window_ms));
    let mut estimates: Vec<&Estimate<'_>> = plan.categories.iter().flat_map(|(_, estimates)| estimates).collect();
    estimates.order_by(|a, b| b.score.mid.total_cmp(&a.score.mid).then(a.row.id.cmp(&b.row.id)));
    let mut cards = vec![None; run.analysis.prepared.rows.len()];
    for (card, rank) in plan.compute.iter().zip(1..) {
        card.group.members.iter().for_each(|member| cards[member.row.id.index()] = Some(rank));
    }
    Data {
        schema_version: SCHEMA_VERSION,
        baseline_ms: Ms(window_ms),
        priorities: priorities(plan),
        recommendations: plan
            .recommendations
            .fixes
            .iter()
            .map(|fix| Recommendation {
                rank: fix.rank,
                title: &fix.title,
                priority: fix.priority.title(),
                saved_ms: fix.saved.into(),
            })
            .collect(),
        findings: compute.chain(fusion).chain(system).collect(),
        all_estimates: estimates.into_iter().map(|e| operation(e, cards[e.row.id.index()])).collect(),
    }
}

/// Categories, those that promise most first.
fn priorities<'a>(plan: &'a Plan<'a>) -> Vec<CategoryPriority<'a>> {
    let mut rollups: Vec<_> = plan.categories.iter().map(|(rollup, _)| rollup).collect();
    rollups.order_by(|a, b| b.score.mid.total_cmp(&a.score.mid));
    let priority = |(rollup, rank): (&'a super::groups::Rollup, usize)| CategoryPriority {
        rank,
        category: &rollup.name.key,
        display_name: &rollup.name.display,
        time_ms: Ms(rollup.time_ms),
        percent_of_compute: Percent(rollup.percent_of_compute),
        operations: rollup.rows,
        scores: rollup.score.into(),
    };
    rollups.into_iter().zip(1..).map(priority).collect()
}

fn compute_card<'a>(card: &'a ComputeCard<'a>, rank: usize) -> Card<'a> {
    let group = &card.group;
    Card {
        tier: "compute",
        rank,
        anchor: super::document::compute_anchor(rank),
        category: &group.category.key,
        operations: group.operations(),
        time_ms: Ms(group.time_ms),
        percent_of_total: Percent(group.percent_of_total),
        bound_type: group.bound,
        library: group.library,
        efficiency_band: group.band.percent(),
        efficiency_percent: group.efficiency().map(Percent),
        estimation: group.members.first().map_or("", |m| m.basis.as_str()),
        scores: Some(group.score.into()),
        told_in: card.told.iter().map(|(finding, _)| finding.rank).collect(),
    }
}

fn fusion_card<'a>(card: &FusionCard<'a>, rank: usize, window_ms: f64) -> Card<'a> {
    let estimate = card.estimate;
    let mut operations: Vec<&str> = Vec::new();
    for kernel in &card.candidate.kernels {
        if !operations.contains(&&*kernel.op) {
            operations.push(&kernel.op);
        }
    }
    let score = Score { low: estimate.impact_score_low, mid: estimate.impact_score, high: estimate.impact_score_high };
    Card {
        tier: "fusion",
        rank,
        anchor: super::document::fusion_anchor(rank),
        category: card.candidate.pattern.as_str(),
        operations,
        time_ms: Ms(estimate.time_ms),
        percent_of_total: Percent(100.0 * estimate.time_ms / window_ms.max(f64::MIN_POSITIVE)),
        bound_type: None,
        library: None,
        efficiency_band: None,
        efficiency_percent: None,
        estimation: estimate.estimation,
        scores: Some(score.into()),
        told_in: card.told.iter().map(|finding| finding.rank).collect(),
    }
}

fn system_card(finding: &Finding, rank: usize, window_ms: f64) -> Card<'_> {
    let percent = |ms: f64| 100.0 * ms / window_ms.max(f64::MIN_POSITIVE);
    let saved = finding.impact.saved_ms;
    let score = Score { low: percent(saved.low), mid: percent(finding.expected_ms()), high: percent(saved.high) };
    Card {
        tier: "system",
        rank,
        anchor: super::document::system_anchor(rank),
        category: &finding.category,
        operations: finding.operations.iter().map(|o| o.name.as_str()).collect(),
        time_ms: Ms(finding.time_ms),
        percent_of_total: Percent(finding.percent_of_total),
        bound_type: None,
        library: None,
        efficiency_band: None,
        efficiency_percent: None,
        estimation: "schedule",
        scores: (saved.high > 0.0).then(|| score.into()),
        told_in: vec![finding.rank],
    }
}

fn operation<'a>(estimate: &'a Estimate<'a>, card: Option<usize>) -> OperationEstimate<'a> {
    let row = estimate.row;
    OperationEstimate {
        category: &estimate.category.key,
        operation: &row.name,
        tree_uid: row.uid,
        args: &row.args,
        time_ms: Ms(row.time_ms),
        percent_of_total: Percent(row.percent_of_total),
        bound_type: row.efficiency.bound_type,
        library: row.library,
        efficiency_band: estimate.band.percent(),
        efficiency_percent: row.efficiency.efficiency_percent.map(Percent),
        efficiency_percent_mean: row.efficiency.efficiency_percent_mean.map(Percent),
        estimation: estimate.basis.as_str(),
        scores: estimate.score.into(),
        finding: card,
    }
}

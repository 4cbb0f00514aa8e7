//! What `analysis.md` tells, before it is written: cards of all three tiers and the numbers behind them.

use jarvis_analyze::finding::{Finding, Priority, Tier};
use jarvis_analyze::metrics::{Bottleneck, SetAside};
use jarvis_analyze::patterns::candidates::{FusionCandidate, FusionEstimate};
use jarvis_analyze::rank;
use jarvis_trace::InOrder;

use super::groups::{Band, Estimate, Group, Rollup, categories, groups};
use super::score::Score;
use crate::Run;
use crate::html::waterfall::Waterfall;
use crate::sections::fusion;

/// Most cards of fusions; the machine form has all.
const MOST_FUSIONS: usize = 12;

/// Everything that is told.
pub(crate) struct Plan<'a> {
    /// Categories, most time first, with what improving their rows could bring.
    pub(crate) categories: Vec<(Rollup, Vec<Estimate<'a>>)>,
    /// Cards, each tier with those first that promise most. A card's number is its place, from 1.
    pub(crate) compute: Vec<ComputeCard<'a>>,
    pub(crate) fusion: Vec<FusionCard<'a>>,
    pub(crate) system: Vec<&'a Finding>,
    /// Fusions that are worth a change and have no card.
    pub(crate) more_fusions: usize,
    /// What each recommendation brings.
    pub(crate) recommendations: Waterfall,
}

/// Operations that are slow in the same way, and who speaks of them.
pub(crate) struct ComputeCard<'a> {
    pub(crate) group: Group<'a>,
    /// Findings that speak of its rows and the share of its time in percent, the largest first.
    pub(crate) told: Vec<(&'a Finding, f64)>,
    /// Its largest bottleneck.
    pub(crate) bottleneck: Option<&'a Bottleneck>,
}

/// Operations that could be one kernel.
pub(crate) struct FusionCard<'a> {
    pub(crate) candidate: &'a FusionCandidate,
    pub(crate) estimate: &'a FusionEstimate,
    /// The finding that speaks of it.
    pub(crate) told: Option<&'a Finding>,
}

impl<'a> Plan<'a> {
    pub(crate) fn of(run: &Run<'a>) -> Self {
        let categories = categories(run);
        let estimates: Vec<Estimate<'a>> = categories.iter().flat_map(|(_, estimates)| estimates).cloned().collect();
        let compute = groups(&estimates).into_iter().map(|group| ComputeCard::of(run, group)).collect();
        let mut fusion: Vec<FusionCard<'a>> = fusion::worth(run)
            .into_iter()
            .map(|(candidate, estimate)| FusionCard { candidate, estimate, told: fusion::finding(run, candidate) })
            .collect();
        fusion.order_by(|a, b| b.estimate.impact_score.total_cmp(&a.estimate.impact_score));
        let more_fusions = fusion.len().saturating_sub(MOST_FUSIONS);
        fusion.truncate(MOST_FUSIONS);
        let findings = &run.analysis.findings;
        let utilization = &run.analysis.prepared.utilization;
        Self {
            categories,
            compute,
            fusion,
            system: rank::recommended(findings).filter(|f| f.tier == Tier::System).collect(),
            more_fusions,
            recommendations: Waterfall::of(findings, utilization.total_time_ms, utilization.computation_time_ms),
        }
    }
}

impl<'a> ComputeCard<'a> {
    fn of(run: &Run<'a>, group: Group<'a>) -> Self {
        let mut told: Vec<(&'a Finding, f64)> = Vec::new();
        for member in &group.members {
            let Some(finding) = run.analysis.finding_of(member.row.id) else { continue };
            let percent = 100.0 * member.row.time_ms / group.time_ms.max(f64::MIN_POSITIVE);
            match told.iter_mut().find(|(known, _)| known.rank == finding.rank) {
                Some(known) => known.1 += percent,
                None => told.push((finding, percent)),
            }
        }
        told.order_by(|a, b| b.1.total_cmp(&a.1).then(a.0.rank.cmp(&b.0.rank)));
        let largest = group.members.iter().find_map(|member| bottleneck(run, member));
        Self { group, told, bottleneck: largest }
    }

    /// How urgent it is: as urgent as the finding that speaks of half of it or more.
    pub(crate) fn priority(&self) -> Priority {
        self.told.first().filter(|(_, percent)| *percent >= 50.0).map_or(Priority::Low, |(finding, _)| finding.priority)
    }

    /// Whether most of its time goes to kernels that take as long as any kernel does.
    pub(crate) fn is_kernel_floor(&self) -> bool {
        let floor = self.group.members.iter().filter(|m| m.judged.set_aside == Some(SetAside::KernelFloor));
        2.0 * floor.map(|m| m.row.time_ms).sum::<f64>() > self.group.time_ms
    }

    /// Whether its score rests on models.
    pub(crate) fn is_modelled(&self) -> bool {
        self.group.band != Band::Unknown
    }

    pub(crate) fn score(&self) -> Score {
        self.group.score
    }
}

/// The bottleneck that a row belongs to.
fn bottleneck<'a>(run: &Run<'a>, member: &Estimate<'_>) -> Option<&'a Bottleneck> {
    let outcome = run.analysis.outcomes.iter().find(|o| o.category == member.row.category)?;
    outcome.metrics()?.bottlenecks.iter().find(|b| b.rows.contains(&member.row.id))
}

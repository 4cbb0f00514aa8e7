//! Rows of the performance report with their scores, and groups of those that are slow in the same way.

use std::sync::Arc;

use jarvis_analyze::metrics::JudgedOperation;
use jarvis_analyze::prepared::{BoundType, Row};
use jarvis_analyze::program::Direction;
use jarvis_trace::InOrder;

use super::score::{Basis, Score};
use crate::Run;

/// Groups that promise less than this, in percent of the window, get no card.
pub(crate) const LEAST_IMPACT: f64 = 0.5;

/// A category that is told by pass here and nowhere else: its key, and key and name of each pass.
struct ByPass {
    category: &'static str,
    forward: (&'static str, &'static str),
    backward: (&'static str, &'static str),
}

const BY_PASS: [ByPass; 2] = [
    ByPass {
        category: "convolution",
        forward: ("conv_fwd", "Convolution (forward)"),
        backward: ("conv_bwd", "Convolution (backward)"),
    },
    ByPass {
        category: "norm",
        forward: ("norm_fwd", "Normalization (forward)"),
        backward: ("norm_bwd", "Normalization (backward)"),
    },
];

/// How much of its peak an operation reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Band {
    Lowest,
    Middle,
    Highest,
    /// No performance model covers it.
    Unknown,
}

impl Band {
    fn of(percent: f64) -> Self {
        match percent {
            p if p < 30.0 => Self::Lowest,
            p if p < 60.0 => Self::Middle,
            _ => Self::Highest,
        }
    }

    /// In percent of peak, as it is written; nothing where it is not known.
    pub(crate) fn percent(self) -> Option<&'static str> {
        match self {
            Self::Lowest => Some("0-30"),
            Self::Middle => Some("30-60"),
            Self::Highest => Some("60-100"),
            Self::Unknown => None,
        }
    }
}

/// A row and what improving it could bring.
#[derive(Debug, Clone)]
pub(crate) struct Estimate<'a> {
    pub(crate) row: &'a Row,
    /// What its analyzer says of it.
    pub(crate) judged: &'a JudgedOperation,
    /// Key and name of its category, by pass where that is told apart.
    pub(crate) category: Named,
    pub(crate) band: Band,
    pub(crate) basis: Basis,
    pub(crate) score: Score,
}

/// What something is called in files and in sentences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) key: Arc<str>,
    pub(crate) display: Arc<str>,
}

/// A category as the summary tells it.
#[derive(Debug, Clone)]
pub(crate) struct Rollup {
    pub(crate) name: Named,
    pub(crate) time_ms: f64,
    pub(crate) percent_of_compute: f64,
    /// Rows.
    pub(crate) rows: usize,
    pub(crate) score: Score,
}

/// Estimates of one category that are bound by the same, run on kernels of the same maker and reach as much.
#[derive(Debug, Clone)]
pub(crate) struct Group<'a> {
    pub(crate) category: Named,
    pub(crate) bound: Option<BoundType>,
    pub(crate) library: Option<&'static str>,
    pub(crate) band: Band,
    /// Most time first.
    pub(crate) members: Vec<Estimate<'a>>,
    pub(crate) time_ms: f64,
    pub(crate) percent_of_total: f64,
    pub(crate) score: Score,
}

impl Group<'_> {
    /// Percent of peak over all members, by their time.
    pub(crate) fn efficiency(&self) -> Option<f64> {
        let known = || self.members.iter().filter_map(|m| Some((efficiency(m.row)?, m.row.time_ms)));
        let time: f64 = known().map(|(_, ms)| ms).sum();
        (self.band != Band::Unknown && time > 0.0).then(|| known().map(|(e, ms)| e * ms).sum::<f64>() / time)
    }

    /// Calls of all members.
    pub(crate) fn calls(&self) -> usize {
        self.members.iter().map(|m| m.row.count).sum()
    }

    /// Names of the operations, the one with most time first.
    pub(crate) fn operations(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for member in &self.members {
            if !names.contains(&&*member.row.name) {
                names.push(&member.row.name);
            }
        }
        names
    }
}

/// Percent of peak as this report shows it: the mean over calls.
pub(crate) fn efficiency(row: &Row) -> Option<f64> {
    row.efficiency.efficiency_percent_mean.or(row.efficiency.efficiency_percent)
}

/// Categories with their rows, most time first; those whose analysis failed are left out.
pub(crate) fn categories<'a>(run: &Run<'a>) -> Vec<(Rollup, Vec<Estimate<'a>>)> {
    let p = &run.analysis.prepared;
    let mut found: Vec<(Rollup, Vec<Estimate<'a>>)> = Vec::new();
    for outcome in &run.analysis.outcomes {
        let Some(metrics) = outcome.metrics() else { continue };
        for judged in &metrics.operations {
            let row = p.row(judged.row);
            let category = category_of(&outcome.category, &outcome.display, row.direction);
            let at = found.iter().position(|(rollup, _)| rollup.name == category).unwrap_or_else(|| {
                let name = category.clone();
                let score = Score::default();
                found.push((Rollup { name, time_ms: 0.0, percent_of_compute: 0.0, rows: 0, score }, Vec::new()));
                found.len() - 1
            });
            let (rollup, estimates) = &mut found[at];
            rollup.time_ms += row.compute_ms();
            rollup.percent_of_compute += row.percent_of_compute;
            rollup.rows += 1;
            estimates.extend(estimate(row, judged, category));
        }
    }
    for (rollup, estimates) in &mut found {
        rollup.score = estimates.iter().map(|e| e.score).sum();
    }
    found.order_by(|a, b| b.0.time_ms.total_cmp(&a.0.time_ms).then_with(|| a.0.name.key.cmp(&b.0.name.key)));
    found
}

/// A category, by pass where that is told apart. What belongs to no pass is told with the forward one.
fn category_of(key: &Arc<str>, display: &Arc<str>, direction: Direction) -> Named {
    let Some(by_pass) = BY_PASS.iter().find(|c| *c.category == **key) else {
        return Named { key: Arc::clone(key), display: Arc::clone(display) };
    };
    let (key, display) = if direction == Direction::Backward { by_pass.backward } else { by_pass.forward };
    Named { key: key.into(), display: display.into() }
}

fn estimate<'a>(row: &'a Row, judged: &'a JudgedOperation, category: Named) -> Option<Estimate<'a>> {
    let (score, basis) = Score::of(row)?;
    let band = match basis {
        Basis::Roofline => efficiency(row).map_or(Band::Unknown, Band::of),
        Basis::RuleOfThumb => Band::Unknown,
    };
    Some(Estimate { row, judged, category, band, basis, score })
}

/// Groups of estimates that are worth a card, those that promise most first.
pub(crate) fn groups<'a>(estimates: &[Estimate<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for e in estimates {
        // Without a model nothing is known of what bounds it.
        let bound = e.row.efficiency.bound_type.filter(|_| e.band != Band::Unknown);
        let (library, band) = (e.row.library, e.band);
        let same =
            |g: &&mut Group<'_>| g.category == e.category && g.bound == bound && g.library == library && g.band == band;
        match groups.iter_mut().find(same) {
            Some(group) => group.members.push(e.clone()),
            None => groups.push(Group {
                category: e.category.clone(),
                bound,
                library,
                band,
                members: vec![e.clone()],
                time_ms: 0.0,
                percent_of_total: 0.0,
                score: Score::default(),
            }),
        }
    }
    for group in &mut groups {
        group.members.order_by(|a, b| b.row.time_ms.total_cmp(&a.row.time_ms).then(a.row.id.cmp(&b.row.id)));
        group.time_ms = group.members.iter().map(|m| m.row.time_ms).sum();
        group.percent_of_total = group.members.iter().map(|m| m.row.percent_of_total).sum();
        group.score = group.members.iter().map(|m| m.score).sum();
    }
    groups.retain(|g| g.score.mid > LEAST_IMPACT);
    let key = |g: &Group<'_>| (Arc::clone(&g.category.key), g.band, g.library, g.bound.map(|b| b == BoundType::Memory));
    groups.order_by(|a, b| b.score.mid.total_cmp(&a.score.mid).then_with(|| key(a).cmp(&key(b))));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_begin_where_they_say() {
        assert_eq!(
            [0.0, 29.99, 30.0, 59.99, 60.0, 108.0].map(|p| Band::of(p).percent()),
            [Some("0-30"), Some("0-30"), Some("30-60"), Some("30-60"), Some("60-100"), Some("60-100")]
        );
        assert_eq!(Band::Unknown.percent(), None);
    }

    #[test]
    fn convolutions_and_norms_are_told_by_pass() {
        let key = |key: &str, direction| category_of(&key.into(), &"X".into(), direction).key.to_string();
        assert_eq!(key("convolution", Direction::Backward), "conv_bwd");
        assert_eq!(key("convolution", Direction::Unknown), "conv_fwd");
        assert_eq!(key("norm", Direction::Forward), "norm_fwd");
        assert_eq!(key("gemm", Direction::Backward), "gemm");
    }
}

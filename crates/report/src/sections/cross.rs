//! What refers to what: findings to recommendations, recommendations to top operations, top operations to findings.

use jarvis_analyze::finding::{Finding, PatternId, Priority, Tier};
use jarvis_analyze::metrics::SetAside;
use jarvis_analyze::prepared::{Row, TopOperation};
use jarvis_analyze::rank;

use crate::Run;

/// How marks begin that name a recommendation: of the operation, or of more than it.
const RECOMMENDATION: &str = "recommendation R";
const COVERED: &str = "covered by R";

const WITHIN_EXPECTED: &str = "within expected";
const NO_MODEL: &str = "no performance model";
const HOST_COPY: &str = "copy between host and device";

/// Marks that name nothing else.
pub(crate) const PLAIN_MARKS: [&str; 6] = [
    WITHIN_EXPECTED,
    NO_MODEL,
    HOST_COPY,
    SetAside::KernelFloor.mark(),
    SetAside::SmallShare.mark(),
    SetAside::BelowFloor.mark(),
];

/// Most recommendations; the rest stands in the detailed section.
pub(crate) const MOST_RECOMMENDATIONS: usize = 12;

/// Findings that become recommendations, in rank order. Number n is the finding of rank n.
pub(crate) fn recommendations<'a>(run: &Run<'a>) -> Vec<&'a Finding> {
    rank::recommended(&run.analysis.findings).take(MOST_RECOMMENDATIONS).collect()
}

/// Whether the finding is printed as a recommendation.
pub(crate) fn is_recommendation(finding: &Finding) -> bool {
    finding.priority < Priority::Low && finding.rank <= MOST_RECOMMENDATIONS
}

/// Rank of the operation in the top list, by its own name or one under which its kernels appear.
pub(crate) fn top_rank(run: &Run<'_>, operation: &str) -> Option<usize> {
    let tops = &run.analysis.prepared.top_operations;
    tops.iter().find(|t| names(t).any(|n| n == operation)).map(|t| t.rank)
}

/// Whether a finding is of several operations that make up one thing, and not of operations each slow for itself.
pub(crate) fn spans_operations(finding: &Finding) -> bool {
    let spans = [PatternId::UNFUSED_ATTENTION, PatternId::REPEATED_KV_HEADS, PatternId::MOE_EXPERT_LOOP];
    finding.tier == Tier::Fusion || spans.contains(&finding.pattern)
}

/// The operation a finding is best known by, and its rank in the top list: the largest, or the one that stands highest
/// there among those that make up one thing.
pub(crate) fn leading<'a>(run: &Run<'_>, finding: &'a Finding) -> (Option<&'a str>, Option<usize>) {
    if !spans_operations(finding) {
        let first = finding.operations.first().map(|o| o.name.as_str());
        return (first, first.and_then(|name| top_rank(run, name)));
    }
    let ranked = finding.operations.iter().filter_map(|o| Some((top_rank(run, &o.name)?, o.name.as_str())));
    match ranked.min() {
        Some((rank, name)) => (Some(name), Some(rank)),
        None => (finding.operations.first().map(|o| o.name.as_str()), None),
    }
}

/// All names of a top operation.
fn names(top: &TopOperation) -> impl Iterator<Item = &str> {
    std::iter::once(&*top.name).chain(top.aliases.iter().map(|a| &**a))
}

/// What became of a top operation: the recommendation for it, if there is one, else the word for most of its time.
pub(crate) fn mark(run: &Run<'_>, top: &TopOperation) -> String {
    let mut marks: Vec<(String, f64)> = Vec::new();
    for row in run.analysis.prepared.rows.iter().filter(|r| names(top).any(|n| n == &*r.name)) {
        let mark = row_mark(run, row);
        match marks.iter_mut().find(|m| m.0 == mark) {
            Some(known) => known.1 += row.time_ms,
            None => marks.push((mark, row.time_ms)),
        }
    }
    let recommended = |mark: &str| mark.starts_with(RECOMMENDATION) || mark.starts_with(COVERED);
    let before = |a: &(String, f64), b: &(String, f64)| match (recommended(&a.0), recommended(&b.0)) {
        (a, b) if a != b => b,
        _ => b.1 > a.1,
    };
    let most = marks.into_iter().reduce(|a, b| if before(&a, &b) { b } else { a });
    most.map_or_else(|| NO_MODEL.to_owned(), |m| m.0)
}

/// The same for a row of the performance report.
pub(crate) fn row_mark(run: &Run<'_>, row: &Row) -> String {
    let analysis = run.analysis;
    if let Some(f) = analysis.finding_of(row.id) {
        let several = f.tier == Tier::Fusion || f.operations.first().is_some_and(|o| *o.name != *row.name);
        return match (is_recommendation(f), several) {
            (false, _) => format!("finding {} of {} priority", f.rank, f.priority.title().to_lowercase()),
            (true, true) => format!("{COVERED}{}", f.rank),
            (true, false) => format!("{RECOMMENDATION}{}", f.rank),
        };
    }
    if row.is_host_copy {
        return HOST_COPY.to_owned();
    }
    if row.efficiency.efficiency_percent.is_none() {
        return NO_MODEL.to_owned();
    }
    let metrics = analysis.outcomes.iter().filter(|o| o.category == row.category).find_map(|o| o.metrics());
    let bottleneck = metrics.and_then(|m| m.bottlenecks.iter().find(|b| b.rows.contains(&row.id)));
    if let Some(b) = bottleneck {
        return match &b.covered_by {
            Some(name) => format!("part of `{}`", name.replace('`', "'")),
            None => format!("bottleneck {}, no saving to be had", b.id),
        };
    }
    let operation = metrics.and_then(|m| m.operations.iter().find(|o| o.row == row.id));
    operation.and_then(|o| o.set_aside).map_or(WITHIN_EXPECTED, SetAside::mark).to_owned()
}

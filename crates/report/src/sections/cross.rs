//! What refers to what: findings to recommendations, recommendations to top operations, top operations to findings.

use jarvis_analyze::finding::{Finding, PatternId, Priority, Tier};
use jarvis_analyze::metrics::{Bottleneck, JudgedOperation, SetAside};
use jarvis_analyze::prepared::{Link, Prepared, Row, TopOperation};
use jarvis_analyze::program::RowId;
use jarvis_analyze::rank;
use jarvis_analyze::rounding::round;
use jarvis_analyze::rules::CategoryOutcome;
use jarvis_analyze::thresholds::Threshold;

use rapidhash::RapidHashMap;

use crate::Run;

/// How marks begin that name a recommendation: of the operation, or of more than it.
const RECOMMENDATION: &str = "recommendation R";
const COVERED: &str = "covered by R";

const WITHIN_EXPECTED: &str = "within expected";
/// Below its band, and above the lower limit from which on nothing is done about it.
const NOT_SLOW: &str = "below its band, above what counts as slow";
const NOT_JUDGED: &str = "efficiency not judged";
const NO_MODEL: &str = "no performance model";
const NO_RATE: &str = "no peak rate for its precision";
const HOST_COPY: &str = "copy between host and device";
const PEER_COPY: &str = "copy between devices";

/// Marks that name nothing else.
pub(crate) const PLAIN_MARKS: [&str; 11] = [
    WITHIN_EXPECTED,
    NOT_SLOW,
    NOT_JUDGED,
    NO_MODEL,
    NO_RATE,
    HOST_COPY,
    PEER_COPY,
    SetAside::KernelFloor.mark(),
    SetAside::SmallShare.mark(),
    SetAside::BelowFloor.mark(),
    SetAside::FusibleSteps.mark(),
];

/// Most recommendations; the rest stands in the detailed section.
pub(crate) const MOST_RECOMMENDATIONS: usize = 12;

/// Findings that become recommendations, in rank order. Number n is the finding of rank n.
pub(crate) fn recommendations<'a>(run: &Run<'a>) -> Vec<&'a Finding> {
    rank::recommended(&run.analysis.findings).take(MOST_RECOMMENDATIONS).collect()
}

/// Percent of compute time that they could save at best.
pub(crate) fn recoverable_percent(run: &Run<'_>) -> Option<f64> {
    rank::recoverable_percent(recommendations(run), run.analysis.prepared.utilization.computation_time_ms)
}

/// Whether the finding is printed as a recommendation.
pub(crate) fn is_recommendation(finding: &Finding) -> bool {
    finding.priority < Priority::Low && finding.rank <= MOST_RECOMMENDATIONS
}

/// Whether a finding is of several operations that make up one thing, and not of operations each slow for itself.
pub(crate) fn spans_operations(finding: &Finding) -> bool {
    let spans = [PatternId::UNFUSED_ATTENTION, PatternId::REPEATED_KV_HEADS, PatternId::MOE_EXPERT_LOOP];
    finding.tier == Tier::Fusion || spans.contains(&finding.pattern)
}

/// The operation a finding is best known by, and its rank in the top list: the one with most time, or the one that stands
/// highest there among those that make up one thing. What is too little for a row to count as a top operation is too
/// little for a finding.
pub(crate) fn leading<'a>(prepared: &Prepared, finding: &'a Finding) -> (Option<&'a str>, Option<usize>) {
    let mut named: Vec<(&str, f64)> = Vec::new();
    for o in &finding.operations {
        match named.iter_mut().find(|(name, _)| *name == o.name) {
            Some((_, ms)) => *ms += o.time_ms,
            None => named.push((&o.name, o.time_ms)),
        }
    }
    if finding.pattern == PatternId::LAYOUT_TRANSPOSES {
        // What is told is what turns images round, though other operations may gain more.
        let turns = |name: &str| {
            finding.rows.iter().any(|&(r, _)| *prepared.row(r).name == *name && prepared.row(r).turns_layout())
        };
        let turning: Vec<(&str, f64)> = named.iter().copied().filter(|(name, _)| turns(name)).collect();
        named = if turning.is_empty() { named } else { turning };
    }
    let Some(&(most, _)) = named.iter().reduce(|a, b| if b.1 > a.1 { b } else { a }) else { return (None, None) };
    let least = prepared.thresholds.get(Threshold::TopOpsMinPercent);
    if !spans_operations(finding) {
        // Operations are rows, matched with the list by their kernels: what launches these has another name.
        let part = |&(r, share): &(RowId, f64)| (prepared.row(r), share * prepared.row(r).percent_of_compute);
        let rows = finding.rows.iter().map(part).filter(|(r, percent)| *r.name == *most && *percent >= least);
        return (Some(most), rows.filter_map(|(r, _)| r.top_rank).min());
    }
    let least_ms = least / 100.0 * prepared.utilization.computation_time_ms;
    let enough = |name: &str| named.iter().any(|(n, ms)| *n == name && *ms >= least_ms);
    match prepared.top_operations.iter().find(|t| enough(&t.name)) {
        Some(top) => (named.iter().map(|n| n.0).find(|n| *n == &*top.name), Some(top.rank)),
        None => (Some(most), None),
    }
}

/// The rank of the top operation of this name: a reader finds it in the table, however little of it is meant. A launching
/// leaf has the name of what it is a step of and more: `aten::native_layer_norm`.
pub(crate) fn listed(prepared: &Prepared, name: &str) -> Option<usize> {
    let base = name.rsplit(':').next().unwrap_or(name);
    let is = |t: &TopOperation| *t.name == *name || t.name.ends_with(base) && t.aliases.iter().any(|a| **a == *name);
    prepared.top_operations.iter().find(|t| is(t)).map(|t| t.rank)
}

/// All names of a top operation.
fn names(top: &TopOperation) -> impl Iterator<Item = &str> {
    std::iter::once(&*top.name).chain(top.aliases.iter().map(|a| &**a))
}

/// What became of operations, with what was judged of each row at hand: there are many rows.
pub(crate) struct Marks<'r, 'a> {
    run: &'r Run<'a>,
    operations: RapidHashMap<RowId, &'r JudgedOperation>,
    bottlenecks: RapidHashMap<RowId, &'r Bottleneck>,
}

impl<'r, 'a> Marks<'r, 'a> {
    pub(crate) fn of(run: &'r Run<'a>) -> Self {
        let (mut operations, mut bottlenecks) = (RapidHashMap::default(), RapidHashMap::default());
        for metrics in run.analysis.outcomes.iter().filter_map(CategoryOutcome::metrics) {
            operations.extend(metrics.operations.iter().map(|o| (o.row, o)));
            for b in &metrics.bottlenecks {
                for row in &b.rows {
                    bottlenecks.entry(*row).or_insert(b);
                }
            }
        }
        Self { run, operations, bottlenecks }
    }
}

impl Marks<'_, '_> {
    /// What became of a top operation: the recommendation for it, if there is one, else the word for most of its time.
    pub(crate) fn of_top(&self, top: &TopOperation) -> String {
        let mut marks: Vec<(String, f64)> = Vec::new();
        for row in self.run.analysis.prepared.rows.iter().filter(|r| names(top).any(|n| n == &*r.name)) {
            let mark = self.of_row(row);
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
    pub(crate) fn of_row(&self, row: &Row) -> String {
        let analysis = self.run.analysis;
        if let Some(f) = analysis.finding_of(row.id) {
            let several = f.tier == Tier::Fusion || f.operations.first().is_some_and(|o| *o.name != *row.name);
            return match (is_recommendation(f), several) {
                (false, _) => format!("finding {} of {} priority", f.rank, f.priority.title().to_lowercase()),
                (true, true) => format!("{COVERED}{}", f.rank),
                (true, false) => format!("{RECOMMENDATION}{}", f.rank),
            };
        }
        if row.is_link_copy {
            let mark = match row.link {
                Link::Host => HOST_COPY,
                Link::Devices => PEER_COPY,
            };
            return mark.to_owned();
        }
        if row.efficiency.lacks_rate {
            return NO_RATE.to_owned();
        }
        if row.efficiency.efficiency_percent.is_none() {
            return NO_MODEL.to_owned();
        }
        if let Some(b) = self.bottlenecks.get(&row.id) {
            return match &b.covered_by {
                Some(name) => format!("part of `{}`", name.replace('`', "'")),
                None => format!("bottleneck {}, no saving told", b.id),
            };
        }
        let operation = self.operations.get(&row.id);
        let mark = match (operation.and_then(|o| o.set_aside), row.efficiency.judged()) {
            (Some(set_aside), _) => set_aside.mark(),
            (None, None) if row.efficiency.is_anomaly || row.efficiency.is_shared => NOT_JUDGED,
            // At most so fast is not fast.
            (None, Some(_)) if row.efficiency.is_at_most() => NOT_JUDGED,
            (None, Some(e)) if operation.and_then(|o| o.expected).is_some_and(|(low, _)| round(e, 1) < low) => NOT_SLOW,
            (None, _) => WITHIN_EXPECTED,
        };
        mark.to_owned()
    }
}

//! From metrics to findings: patterns that name a fix first, then what they leave unexplained.

use std::collections::BTreeSet;

use super::Shares;
use super::claims::Claims;
use super::cx::CategoryCx;
use super::fix::{Calls, Fix};
use super::layout::turned_ms;
use super::outcome::CategoryOutcome;
use super::precision;
use super::words::speaks_of_package;
use crate::finding::{
    Evidence, Finding, FindingOperation, Impact, MOST_OPERATIONS, Mending, Paths, PatternId, Priority, Range,
};
use crate::metrics::short_name;
use crate::metrics::{Bottleneck, CategoryMetrics, PatternMetrics, Promoted, Sentence};
use crate::prepare::args::{SEPARATOR, dims_json, types_json};
use crate::prepare::{order, percent};
use crate::prepared::{BoundType, Prepared, Row};
use crate::program::RowId;
use crate::rounding::{of_peak, shown, shown_ms};
use crate::system::host_bound::HostBound;
use crate::texts::{counted, quoted};
use crate::thresholds::Threshold;
use jarvis_trace::InOrder;

/// From this share of its time on a bottleneck counts as all there is of it: the rest is rounding.
const WHOLE: f64 = 0.995;

/// Findings of the compute tier, the one to act on first ranked 1. No row's time is counted twice: a pattern that names
/// a fix takes the rows it explains, and rows claimed by patterns over several operations are left to those.
/// `host` says how much of a saving arrives where the GPU waits for the host.
pub fn compute_findings(
    prepared: &Prepared,
    outcomes: &[CategoryOutcome],
    claims: &Claims,
    host: Option<&HostBound>,
) -> Vec<Finding> {
    let metrics: Vec<&CategoryMetrics> = outcomes.iter().filter_map(CategoryOutcome::metrics).collect();
    let mut explained = Explained::default();
    let (mut drafts, mut unmodeled): (Vec<Draft>, Vec<Draft>) = (Vec::new(), Vec::new());
    let mut promoted: Vec<(&CategoryMetrics, &PatternMetrics, &Promoted)> = Vec::new();
    for m in &metrics {
        promoted.extend(m.patterns.iter().filter_map(|p| Some((*m, p, p.promoted.as_ref()?))));
    }
    // What brings most takes the rows that several would mend.
    promoted.order_by(|a, b| b.2.saved.high.total_cmp(&a.2.saved.high));
    let all: Vec<&Promoted> = promoted.iter().map(|(.., p)| *p).collect();
    explained.shared = shared(prepared, &all);
    for (m, pattern, p) in promoted {
        drafts.extend(Draft::promoted(m, pattern, p, &Left { prepared, claims, explained: &explained }));
        explained.add(p);
    }
    for m in &metrics {
        for b in m.bottlenecks.iter().filter(|b| b.covered_by.is_none() || b.replay.required) {
            let left = Left { prepared, claims, explained: &explained };
            match Draft::bottleneck(m, b, &left) {
                Some(draft) => drafts.push(draft),
                None => unmodeled.extend(Draft::unmodeled(m, b, &left, host)),
            }
        }
    }
    let left = Left { prepared, claims, explained: &explained };
    let told = merged(drafts).into_iter().map(|d| d.in_its_words(&metrics, &left));
    // Operations of which nothing is known have nothing in common.
    let mut findings: Vec<Finding> = told.chain(unmodeled).map(|d| d.finding(&left, host)).collect();
    findings.order_by(|a, b| {
        let top = |f: &Finding| f.operations.iter().any(|o| in_top(prepared, o));
        a.priority
            .cmp(&b.priority)
            .then(top(b).cmp(&top(a)))
            .then(b.impact.saved_ms.high.total_cmp(&a.impact.saved_ms.high))
            .then(b.time_ms.total_cmp(&a.time_ms))
            .then_with(|| (a.pattern, &a.category).cmp(&(b.pattern, &b.category)))
    });
    for (i, finding) in findings.iter_mut().enumerate() {
        finding.rank = i + 1;
    }
    findings
}

fn in_top(prepared: &Prepared, operation: &FindingOperation) -> bool {
    prepared.rows.iter().any(|r| r.uid == operation.uid && r.in_top_ops)
}

/// What kernels that only change a layout are of a row.
fn turned(row: &Row) -> f64 {
    percent(turned_ms(row), row.time_ms) / 100.0
}

/// Rows that are spoken of for their layout and for their precision, with what belongs to the layout.
fn shared(prepared: &Prepared, promoted: &[&Promoted]) -> Shares {
    let rows = |pattern| promoted.iter().filter(move |p| p.pattern == pattern).flat_map(|p| &p.explains);
    let precision: BTreeSet<&RowId> = rows(PatternId::FULL_PRECISION_GEMM).collect();
    let both = rows(PatternId::LAYOUT_TRANSPOSES).filter(|r| precision.contains(r));
    both.map(|&r| (r, turned(prepared.row(r)))).collect()
}

/// What of rows patterns have taken.
#[derive(Default)]
struct Explained {
    taken: Shares,
    /// Rows that two patterns divide between them, with what belongs to the layout.
    shared: Shares,
}

impl Explained {
    fn share(&self, row: RowId) -> f64 {
        self.taken.get(&row).copied().unwrap_or_default()
    }

    /// What of a row a pattern is about.
    fn meant(&self, pattern: PatternId, row: RowId) -> f64 {
        match (pattern, self.shared.get(&row)) {
            (PatternId::LAYOUT_TRANSPOSES, Some(turned)) => *turned,
            (PatternId::FULL_PRECISION_GEMM, Some(turned)) => 1.0 - turned,
            _ => 1.0,
        }
    }

    fn add(&mut self, p: &Promoted) {
        for &row in &p.explains {
            let meant = self.meant(p.pattern, row);
            let taken = self.taken.entry(row).or_default();
            *taken = (*taken + meant).min(1.0);
        }
    }
}

/// What is left of rows once patterns have taken theirs.
struct Left<'a> {
    prepared: &'a Prepared,
    claims: &'a Claims,
    explained: &'a Explained,
}

impl Left<'_> {
    fn share(&self, row: RowId) -> f64 {
        (1.0 - self.explained.share(row) - self.claims.share(row)).max(0.0)
    }

    /// What is left of these rows, and its time.
    fn rest(&self, rows: &[RowId]) -> (Shares, f64) {
        let rows: Shares = rows.iter().map(|&r| (r, self.share(r))).filter(|(_, share)| *share > 0.01).collect();
        let time_ms = rows.iter().map(|(&r, share)| share * self.prepared.row(r).time_ms).sum();
        (rows, time_ms)
    }

    /// What is left of rows for a pattern that mends several, which only others of its tier take rows from, and its part
    /// of what the pattern is about.
    fn of(&self, p: &Promoted) -> (Shares, f64) {
        let time = |r: RowId| self.prepared.row(r).time_ms;
        let share = |r: RowId| {
            let meant = self.explained.meant(p.pattern, r);
            (1.0 - self.explained.share(r) - self.claims.share_of_compute(r)).clamp(0.0, meant)
        };
        let shares: Shares = p.explains.iter().map(|&r| (r, share(r))).filter(|(_, s)| *s > 0.01).collect();
        let all: f64 = match p.pattern {
            // What it saves depends on whole rows.
            PatternId::LAYOUT_TRANSPOSES => p.explains.iter().map(|&r| time(r)).sum(),
            _ => p.explains.iter().map(|&r| self.explained.meant(p.pattern, r) * time(r)).sum(),
        };
        let left: f64 = shares.iter().map(|(&r, s)| s * time(r)).sum();
        (shares, if all > 0.0 { left / all } else { 0.0 })
    }

    /// What a pattern saves with these shares of its rows, a part of what it is about: that about layouts at least what
    /// the transposes among them stand for.
    fn saved(&self, pattern: &PatternMetrics, p: &Promoted, rows: &Shares, part: f64) -> Range {
        let saved = Range::new(part * p.saved.low, part * p.saved.high);
        match (p.pattern, pattern.savings_ms_low, pattern.savings_ms_high) {
            (PatternId::LAYOUT_TRANSPOSES, Some(low), Some(high)) if part < WHOLE => {
                let own = self.part_of_turned(p, rows);
                let [low, high] =
                    [(low.0, p.saved.low), (high.0, p.saved.high)].map(|(own_ms, all)| own * own_ms.min(all));
                Range::new(saved.low.max(low), saved.high.max(high))
            }
            _ => saved,
        }
    }

    /// Which part of the transposes of a pattern these shares of its rows hold.
    fn part_of_turned(&self, p: &Promoted, rows: &Shares) -> f64 {
        let (mut all, mut held) = (0.0, 0.0);
        for &r in &p.explains {
            let row = self.prepared.row(r);
            let turned = turned(row);
            all += turned * row.time_ms;
            held += rows.get(&r).map_or(0.0, |share| share.min(turned)) * row.time_ms;
        }
        if all > 0.0 { held / all } else { 0.0 }
    }

    /// A bottleneck as if there were no more of it than these rows.
    fn restated(&self, m: &CategoryMetrics, rows: &Shares) -> Option<Bottleneck> {
        let (prepared, claims) = (self.prepared, self.claims);
        let category = prepared.category(&m.category)?;
        let cx = CategoryCx { prepared, category, claims, scope: m.comparison_scope };
        super::analyzer(category.analyzer)?.part(&cx, rows)
    }
}

/// A finding in the making.
struct Draft {
    pattern: PatternId,
    category: String,
    category_ms: f64,
    priority: Priority,
    title: String,
    issue: String,
    algorithmic: Vec<Sentence>,
    kernel: Vec<Sentence>,
    basis: Vec<String>,
    facts: Vec<String>,
    /// Rows with the share of their time that is meant.
    rows: Shares,
    /// Other rows that get shorter.
    also: Vec<RowId>,
    time_ms: f64,
    saved: Range,
    mending: Mending,
    /// Whether it is one change to the program, which can be measured, and not operations below what they could reach.
    is_change: bool,
    /// Whether all it was merged of are bottlenecks, so that their analyzer can tell it anew.
    is_bottleneck: bool,
    replay_reason: Option<String>,
}

impl Draft {
    /// `None` if others have taken all of its rows.
    fn promoted(m: &CategoryMetrics, pattern: &PatternMetrics, p: &Promoted, left: &Left<'_>) -> Option<Self> {
        let (rows, part) = left.of(p);
        let saved = left.saved(pattern, p, &rows, part);
        (part > 0.01).then(|| Self {
            pattern: p.pattern,
            category: m.category.to_string(),
            category_ms: left.prepared.category(&m.category).map_or(0.0, |c| c.time_ms),
            priority: p.priority,
            title: p.title.clone(),
            issue: p.issue.clone(),
            algorithmic: p.algorithmic.clone(),
            kernel: p.kernel.clone(),
            basis: vec![p.basis.clone()],
            facts: p.facts.clone(),
            rows,
            also: p.also.clone(),
            time_ms: part * p.time_ms,
            saved,
            mending: p.mending,
            is_change: true,
            is_bottleneck: false,
            replay_reason: None,
        })
    }

    /// `None` if nothing is left of the bottleneck, or nothing can be said of its impact.
    fn bottleneck(m: &CategoryMetrics, b: &Bottleneck, left: &Left<'_>) -> Option<Self> {
        let pattern = b.finding.filter(|_| b.efficiency_percent.is_some())?;
        let (rows, time_ms) = left.rest(&b.rows);
        let floor = left.prepared.thresholds.get(Threshold::ReportMinPercent);
        if rows.is_empty() || left.prepared.utilization.percent_of_compute(time_ms) < floor {
            return None;
        }
        let restated = if time_ms < WHOLE * b.time_ms.0 { left.restated(m, &rows) } else { None };
        let told = restated.as_ref().unwrap_or(b);
        // Whether a package is made the whole bottleneck decides.
        let may_say = |s: &&Sentence| !speaks_of_package(s.id) || b.kernel.iter().any(|k| k.id == s.id);
        Some(Self {
            pattern,
            category: m.category.to_string(),
            category_ms: m.total_time_ms.0,
            priority: b.priority,
            title: title(pattern, told, &[&b.operation]),
            issue: told.brief.clone(),
            algorithmic: told.algorithmic.clone(),
            kernel: told.kernel.iter().filter(|s| may_say(s)).cloned().collect(),
            basis: vec![told.impact.basis.clone()],
            facts: Vec::new(),
            rows,
            also: Vec::new(),
            time_ms,
            saved: told.impact.range()?,
            mending: b.mending,
            is_change: false,
            is_bottleneck: true,
            replay_reason: (!b.replay.recommended).then(|| b.replay.reason.clone()),
        })
    }

    /// A large operation of which only the time is known: it has to be told, and what a change would bring can't be. Those
    /// of no category with rules of its own stand under the gaps of the analysis.
    fn unmodeled(m: &CategoryMetrics, b: &Bottleneck, left: &Left<'_>, host: Option<&HostBound>) -> Option<Self> {
        let weighty = left.prepared.thresholds.get(Threshold::PriorityHighShare);
        let pattern = b.finding?;
        let (rows, time_ms) = left.rest(&b.rows);
        let part = if b.time_ms.0 > 0.0 { time_ms / b.time_ms.0 } else { 0.0 };
        let awaits_launches = host.is_some_and(HostBound::is_limit);
        let large = b.priority <= Priority::High && part * b.percent_of_compute.0 > weighty;
        // Where no inputs were recorded at all, that is what to change.
        let inputs = |&r: &RowId| left.prepared.row(r).inputs.dims.as_ref().is_some_and(|d| !d.is_empty());
        if b.efficiency_percent.is_some() || !large || awaits_launches || !b.rows.iter().any(inputs) {
            return None;
        }
        Some(Self {
            pattern,
            category: m.category.to_string(),
            category_ms: m.total_time_ms.0,
            priority: b.priority,
            title: format!(
                "Large and without a performance model: {}, {}% of compute",
                quoted(&short_name(&b.operation)),
                shown(part * b.percent_of_compute.0, 1)
            ),
            issue: b.brief.clone(),
            algorithmic: b.algorithmic.clone(),
            kernel: b.kernel.clone(),
            basis: vec![b.impact.basis.clone()],
            facts: Vec::new(),
            rows,
            also: Vec::new(),
            time_ms,
            saved: Range::new(0.0, 0.0),
            mending: Mending::Unknown,
            is_change: false,
            is_bottleneck: true,
            replay_reason: (!b.replay.recommended).then(|| b.replay.reason.clone()),
        })
    }

    /// Takes in another of the same pattern; the larger one keeps its words.
    fn merge(&mut self, other: Self) {
        let (mut first, second) = if other.time_ms > self.time_ms {
            (other, std::mem::replace(self, Self::empty()))
        } else {
            (std::mem::replace(self, Self::empty()), other)
        };
        if second.category_ms > first.category_ms {
            first.category.clone_from(&second.category);
            first.category_ms = second.category_ms;
        }
        first.priority = first.priority.min(second.priority);
        add_new(&mut first.algorithmic, second.algorithmic);
        add_new(&mut first.kernel, second.kernel);
        first.basis.extend(second.basis);
        first.facts.extend(second.facts);
        first.rows.extend(second.rows);
        first.also.extend(second.also);
        first.time_ms += second.time_ms;
        first.saved = Range::new(first.saved.low + second.saved.low, first.saved.high + second.saved.high);
        first.is_bottleneck &= second.is_bottleneck;
        first.replay_reason = first.replay_reason.and(second.replay_reason);
        *self = first;
    }

    /// What several were merged to has a largest shape and an efficiency of its own: title, issue and the numbers of its
    /// advice are those of all of it.
    fn in_its_words(mut self, metrics: &[&CategoryMetrics], left: &Left<'_>) -> Self {
        if self.pattern == PatternId::FULL_PRECISION_GEMM && !self.is_bottleneck {
            if let Some(told) = precision::retold(left.prepared, &self.rows, self.time_ms) {
                (self.title, self.issue) = told;
            }
            return self;
        }
        if self.basis.len() < 2 || !self.is_bottleneck {
            return self;
        }
        let own = metrics.iter().find(|m| *m.category == *self.category);
        let Some(told) = own.and_then(|m| left.restated(m, &self.rows)) else { return self };
        let mut rows: Vec<&Row> = self.rows.keys().map(|&r| left.prepared.row(r)).collect();
        rows.order_by(|a, b| order(a, b));
        let mut names: Vec<&str> = Vec::new();
        for row in rows {
            if !names.contains(&&*row.name) {
                names.push(&row.name);
            }
        }
        let near = |a: f64, b: f64| (a - b).abs() <= (1.0 - WHOLE) * a.max(b);
        let sums_up = |r: &Range| near(r.low, self.saved.low) && near(r.high, self.saved.high);
        if told.impact.range().as_ref().is_some_and(sums_up) {
            self.basis = vec![told.impact.basis.clone()];
        }
        self.title = title(self.pattern, &told, &names);
        self.issue = told.brief;
        for sentence in self.algorithmic.iter_mut().chain(&mut self.kernel) {
            let anew = told.algorithmic.iter().chain(&told.kernel).find(|s| s.id == sentence.id);
            if let Some(anew) = anew {
                *sentence = anew.clone();
            }
        }
        self
    }

    fn empty() -> Self {
        Self {
            pattern: PatternId::LOW_EFFICIENCY_GEMM,
            category: String::new(),
            category_ms: 0.0,
            priority: Priority::Low,
            title: String::new(),
            issue: String::new(),
            algorithmic: Vec::new(),
            kernel: Vec::new(),
            basis: Vec::new(),
            facts: Vec::new(),
            rows: Shares::new(),
            also: Vec::new(),
            time_ms: 0.0,
            saved: Range::new(0.0, 0.0),
            mending: Mending::CountedOn,
            is_change: false,
            is_bottleneck: false,
            replay_reason: None,
        }
    }

    fn finding(self, left: &Left<'_>, host: Option<&HostBound>) -> Finding {
        let prepared = left.prepared;
        let part = |(&r, &share): (&RowId, &f64)| {
            if self.is_bottleneck { left.claims.part(prepared, r, share) } else { prepared.row(r).part(share) }
        };
        let mut rows: Vec<Row> = self.rows.iter().map(part).collect();
        // Of rows that two patterns divide each has a part of every call.
        for row in rows.iter_mut().filter(|r| left.explained.shared.contains_key(&r.id)) {
            row.count = prepared.row(row.id).count;
        }
        rows.order_by(order);
        let total = prepared.utilization.total_time_ms;
        let mut evidence: Vec<Evidence> =
            rows.iter().take(MOST_OPERATIONS).map(|row| evidence(row, prepared.row(row.id))).collect();
        evidence.extend(self.facts.into_iter().map(|fact| Evidence {
            table: "unified_perf_summary".to_owned(),
            row: self.category.clone(),
            uid: None,
            fact,
        }));
        let calls = match self.pattern {
            PatternId::TINY_GEMMS => Calls::Batched,
            PatternId::LAYOUT_TRANSPOSES => Calls::WithoutTransposes,
            _ => Calls::Stay,
        };
        let fix = Fix { saved: self.saved, time_ms: self.time_ms, calls };
        let shorter: BTreeSet<RowId> = self.rows.keys().copied().chain(self.also).collect();
        let (saved, limit) = fix.within_host(prepared, host, &shorter);
        let time_ms = prepared.utilization.of_window(self.time_ms);
        // What can't be measured exactly still saves no more than it takes, nor than the kernel time that is told with it.
        let most = if saved.high <= time_ms { time_ms } else { f64::INFINITY };
        let most = if limit.is_some() { most.min(saved.high.max(self.saved.high)) } else { most };
        let saved = if self.is_change { saved.as_measured(total) } else { saved };
        let saved = Range::new(saved.low.min(most), saved.high.min(most));
        let more = self.basis.len() - 1;
        let mut basis = self.basis.into_iter().next().unwrap_or_default();
        if more > 0 {
            basis.push_str(&format!("; likewise for {more} more of the same kind"));
        }
        if let Some(limit) = limit {
            basis.push_str(&limit);
        }
        Finding {
            rank: 0,
            pattern: self.pattern,
            tier: self.pattern.tier(),
            category: self.category,
            priority: self.priority,
            title: self.title,
            issue: self.issue,
            operations: rows.iter().take(MOST_OPERATIONS).map(operation).collect(),
            operations_total: rows.len(),
            operations_left_out_ms: rows.iter().skip(MOST_OPERATIONS).map(|r| r.time_ms).sum(),
            time_ms,
            percent_of_total: prepared.utilization.percent_of_total(self.time_ms),
            paths: Paths { algorithmic: texts(self.algorithmic), kernel: texts(self.kernel) },
            impact: Impact::of(saved, total, basis),
            evidence,
            replay_package: None,
            replay_reason: self.replay_reason,
            rows: self.rows.into_iter().collect(),
            kernels_saved_ms: prepared.utilization.range_of_window(self.saved).as_measured(total),
            goes_with: None,
            mending: self.mending,
        }
    }
}

/// Adds what was not said yet: the same sentence with other numbers says nothing new.
fn add_new(to: &mut Vec<Sentence>, from: Vec<Sentence>) {
    for sentence in from {
        if to.iter().all(|s| s.id != sentence.id) {
            to.push(sentence);
        }
    }
}

fn texts(sentences: Vec<Sentence>) -> Vec<String> {
    sentences.into_iter().map(|s| s.text).collect()
}

/// One draft for each pattern and category, and another for what nobody can count on: no time or saving is of both.
/// Precision is one fix for all categories.
fn merged(drafts: Vec<Draft>) -> Vec<Draft> {
    let mut out: Vec<Draft> = Vec::new();
    for draft in drafts {
        let same = |d: &&mut Draft| {
            let is_precision = d.pattern == PatternId::FULL_PRECISION_GEMM;
            (d.pattern, d.mending) == (draft.pattern, draft.mending) && (d.category == draft.category || is_precision)
        };
        match out.iter_mut().find(same) {
            Some(known) => known.merge(draft),
            None => out.push(draft),
        }
    }
    out
}

/// `names` are those of its operations, most time first.
fn title(pattern: PatternId, b: &Bottleneck, names: &[&str]) -> String {
    let eff =
        b.efficiency_percent.map_or_else(|| "unknown efficiency".to_owned(), |e| format!("{}% of peak", of_peak(e.0)));
    let eff = if b.member_count > 1 { eff + " on average" } else { eff };
    let what = match pattern {
        PatternId::TINY_GEMMS => "Tiny batched GEMMs",
        PatternId::MISALIGNED_GEMM => "GEMM sizes that do not fit the kernels",
        PatternId::MEMORY_BOUND_GEMM => "GEMMs bound by memory",
        PatternId::QUANTIZED_GEMM => "Quantized GEMMs below their peak",
        PatternId::LOW_EFFICIENCY_GEMM => "GEMMs below the roofline",
        PatternId::FULL_PRECISION_GEMM => "Matrix work in full precision",
        PatternId::ATTENTION_BELOW_BAND => "Attention below its band",
        PatternId::DEPTHWISE_CONVOLUTION => "Depthwise convolutions below their band",
        PatternId::CONVOLUTION_BELOW_BAND => "Convolutions below their band",
        PatternId::NORM_BELOW_BASELINE => "Norms below the memory bandwidth",
        PatternId::LOW_BANDWIDTH_REDUCE => "Reductions below the memory bandwidth",
        PatternId::TRITON_BELOW_BAND => "Compiled kernels below the roofline",
        PatternId::MOE_BELOW_BAND => "Expert kernels below the roofline",
        _ => "Operations below the memory bandwidth",
    };
    let name = |name: &str| quoted(&short_name(name));
    let who = match names {
        [first, second] => format!("{} and {}", name(first), name(second)),
        [first, _, more @ ..] => format!("{} and {} more", name(first), more.len() + 1),
        _ => name(&b.operation),
    };
    format!("{what}: {who} at {eff}")
}

/// Of a row, or of a part of each of its calls.
fn evidence(row: &Row, whole: &Row) -> Evidence {
    let of_all = if row.count == whole.count && row.time_ms < WHOLE * whole.time_ms {
        format!(" of {}", shown_ms(whole.time_ms))
    } else {
        String::new()
    };
    let rate = row.efficiency.judged().map(|e| format!(", {}% of peak", of_peak(e))).unwrap_or_default();
    Evidence {
        table: "unified_perf_summary".to_owned(),
        row: format!("{} {}", row.name, row.args.replace(SEPARATOR, ", ")).trim_end().to_owned(),
        uid: Some(row.uid),
        fact: format!("{}, {}{of_all} ms{rate}", counted(row.count, "call"), shown_ms(row.time_ms)),
    }
}

fn operation(row: &Row) -> FindingOperation {
    FindingOperation {
        name: row.name.to_string(),
        uid: row.uid,
        count: row.count,
        input_dims: dims_json(row.inputs.dims.as_deref()),
        input_types: types_json(row.inputs.types.as_deref()),
        time_ms: row.time_ms,
        efficiency_percent: row.efficiency.judged(),
        bound: row.efficiency.bound_type.map(|b| match b {
            BoundType::Compute => "compute",
            BoundType::Memory => "memory",
        }),
        module: FindingOperation::module_of(row.module_path.iter().map(|m| &**m)),
    }
}

#[cfg(test)]
mod tests;

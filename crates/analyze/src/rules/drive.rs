//! What all analyzers have in common: judge every row, group the slow ones, project, prioritise.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::cx::CategoryCx;
use super::judge::{self, Group, Judged, Judgement, aggregate, reason};
use super::priority::Weight;
use super::words::{Said, maybe};
use super::{Analyzer, AnalyzerError, AnalyzerInfo, Shares, impact, operation, precision};
use crate::metrics::{
    Bottleneck, CategoryMetrics, Classification, Facts, PatternMetrics, Replay, SCHEMA_VERSION, SetAside, Status,
};
use crate::prepare::warnings::doubt;
use crate::prepare::{args, percent};
use crate::prepared::Row;
use crate::program::base_name;
use crate::rounding::{Ms, Percent, shown, shown_ms};
use crate::system::direction::CopyDirection;
use crate::system::kernels::is_graph_launch;
use crate::texts::{TextId, counted, listed, quoted};
use crate::thresholds::Threshold;
use jarvis_trace::InOrder;
use jarvis_trace::copies::CopyLink;

/// What differs from category to category.
pub(crate) trait Rules: Sync {
    /// What the analyzer is.
    fn info(&self) -> &'static AnalyzerInfo;

    /// What a row is judged by.
    fn judge(&self, cx: &CategoryCx<'_>, row: &Row) -> Judgement;

    /// What only this analyzer says of a row.
    fn classify(&self, cx: &CategoryCx<'_>, judged: &Judged<'_>) -> Classification;

    /// What is said of a bottleneck.
    fn say(&self, cx: &CategoryCx<'_>, group: &Group<'_>) -> Said;

    /// What only this analyzer has to say of its category.
    fn finish(&self, cx: &CategoryCx<'_>, judged: &[Judged<'_>], metrics: &mut CategoryMetrics);
}

/// Whoever has rules is an analyzer.
impl<R: Rules> Analyzer for R {
    fn info(&self) -> &'static AnalyzerInfo {
        Rules::info(self)
    }

    fn run(&self, cx: &CategoryCx<'_>) -> Result<CategoryMetrics, AnalyzerError> {
        Ok(drive(cx, self))
    }

    fn part(&self, cx: &CategoryCx<'_>, left: &Shares) -> Option<Bottleneck> {
        part(cx, self, left)
    }
}

/// Judges a category by its rules.
fn drive(cx: &CategoryCx<'_>, rules: &dyn Rules) -> CategoryMetrics {
    let time_ms = cx.limit(rules.info().time);
    // Few rows are judged by a part, and a row is large.
    let parts: Vec<Option<Box<Row>>> =
        cx.rows().map(|row| cx.claims.without_steps(cx.prepared, row).map(Box::new)).collect();
    let pairs = cx.rows().zip(&parts).map(|(row, part)| (row, part.as_deref().unwrap_or(row)));
    let judged: Vec<Judged<'_>> = pairs.map(|(row, part)| judged(cx, rules, row, part, time_ms)).collect();
    let mut metrics = frame(cx, &judged);
    metrics.operations = judged.iter().map(|j| operation::operation(cx, j, rules.classify(cx, j))).collect();
    metrics.patterns = patterns(cx, &judged);
    let groups = judge::groups(&judged);
    metrics.bottlenecks = groups
        .iter()
        .enumerate()
        .map(|(i, group)| bottleneck(cx, i + 1, group, rules.say(cx, group), &metrics.patterns))
        .collect();
    rules.finish(cx, &judged, &mut metrics);
    if metrics.bottlenecks.iter().any(|b| b.replay.recommended) {
        metrics.notes.push(TextId::N_REPRODUCER.plain());
    }
    metrics
}

/// Judges a row by a part of it, which may be all of it: the word for its efficiency is that of the whole.
fn judged<'a>(cx: &CategoryCx<'_>, rules: &dyn Rules, row: &Row, part: &'a Row, time_ms: f64) -> Judged<'a> {
    let mut judged = judge::test(cx, part, rules.judge(cx, part), time_ms);
    if part.time_ms < row.time_ms {
        let whole = judge::test(cx, row, rules.judge(cx, row), time_ms);
        if whole.is_bottleneck() && !judged.is_bottleneck() {
            judged.set_aside = Some(SetAside::FusibleSteps);
        }
        judged.judgement.assessment = whole.judgement.assessment;
    }
    judged
}

/// What is said of these rows if only so much of them is meant: other findings tell of the rest, and no sentence may
/// count it again.
fn part(cx: &CategoryCx<'_>, rules: &dyn Rules, left: &Shares) -> Option<Bottleneck> {
    let mut rows: Vec<Row> = left.iter().map(|(&r, &share)| cx.claims.part(cx.prepared, r, share)).collect();
    rows.order_by(crate::prepare::order);
    let judge = |row| Judged { row, judgement: rules.judge(cx, row), reasons: Vec::new(), set_aside: None };
    let judged: Vec<Judged<'_>> = rows.iter().map(judge).collect();
    let group = (!judged.is_empty()).then(|| judge::group(judged.iter().collect()))?;
    Some(bottleneck(cx, 0, &group, rules.say(cx, &group), &[]))
}

/// Everything but operations, patterns and bottlenecks.
fn frame(cx: &CategoryCx<'_>, judged: &[Judged<'_>]) -> CategoryMetrics {
    let category = cx.category;
    let rated: Vec<f64> = cx.rows().filter_map(|r| r.efficiency.judged()).collect();
    let rated_ms: f64 = cx.rows().filter(|r| r.efficiency.judged().is_some()).map(Row::compute_ms).sum();
    let mean = (!rated.is_empty()).then(|| rated.iter().sum::<f64>() / rated.len() as f64);
    CategoryMetrics {
        schema_version: SCHEMA_VERSION,
        category: Arc::clone(&category.key),
        display_name: Arc::clone(&category.display),
        status: Status::Ok,
        comparison_scope: cx.scope,
        total_time_ms: Ms(category.time_ms),
        copy_time_ms: Ms(category.time.copy_time_ms),
        percent_of_compute: Percent(category.percent_of_compute),
        percent_of_total: Percent(category.percent_of_total),
        operation_count: category.operation_count,
        unique_args_count: category.rows.len(),
        average_efficiency_percent: aggregate(cx.rows()).map(Percent),
        mean_efficiency_percent_unweighted: mean.map(Percent),
        modeled_time_percent: Percent(percent(rated_ms, category.time_ms)),
        operations: Vec::new(),
        bottlenecks: Vec::new(),
        patterns: Vec::new(),
        category_specific: Facts::default(),
        impact_estimates: impact::estimates(cx),
        warnings: warnings(cx),
        notes: notes(cx, judged),
    }
}

fn warnings(cx: &CategoryCx<'_>) -> Vec<String> {
    let mut out = Vec::new();
    for row in cx.rows() {
        if row.efficiency.is_anomaly {
            let e = row.efficiency.efficiency_percent.unwrap_or_default();
            let args = if row.args.is_empty() { String::new() } else { format!(" {}", row.args) };
            let doubt = doubt(&row.efficiency);
            out.push(format!("{}{args}: {}% of peak{doubt}", quoted(&row.name), shown(e, 1)));
        }
        if row.beside.is_considerable() {
            let judged = match row.beside.alone_count {
                0 => "no call ran alone, so its efficiency is not judged".to_owned(),
                n => format!("its efficiency is that of the {} that ran alone", counted(n, "call")),
            };
            let share = shown(row.beside.percent, 0);
            let args = if row.args.is_empty() { String::new() } else { format!(" {}", row.args) };
            out.push(format!(
                "{}{args}: {share}% of its kernel time passes while kernels of other streams run; {judged}",
                quoted(&row.name)
            ));
        }
        if row.high_variance {
            let cov = row.cov.unwrap_or_default();
            let args = if row.args.is_empty() { String::new() } else { format!(" {}", row.args) };
            let (calls, cov) = (counted(row.count, "call"), shown(cov, 2));
            out.push(format!(
                "{}{args}: times of {calls} vary widely (deviation {cov} of the mean)",
                quoted(&row.name)
            ));
        }
    }
    out.extend(host_time(cx));
    out
}

/// Most rows that a remark on host time names.
const HOST_ROWS: usize = 3;

/// Host time far beyond GPU time, with the calls that most of it passes in: one copy to the host that waits for all work
/// before it says nothing about the other operations.
fn host_time(cx: &CategoryCx<'_>) -> Option<String> {
    let time = &cx.category.time;
    if !time.has_sync_bottleneck {
        return None;
    }
    let mut rows: Vec<(&Row, f64)> = cx.rows().filter_map(|r| Some((r, r.sync_ms?))).collect();
    rows.order_by(|a, b| b.1.total_cmp(&a.1).then(a.0.id.cmp(&b.0.id)));
    let on_gpu: f64 = rows.iter().map(|(r, _)| r.time_ms).sum();
    let on_host = time.sync_time_ms + on_gpu;
    let factor = if on_gpu > 0.0 { on_host / on_gpu } else { f64::NAN };
    let mut part = 0.0;
    let named = rows.iter().take(HOST_ROWS).take_while(|(r, ms)| {
        let wanted = part < on_host / 2.0;
        part += if wanted { *ms + r.time_ms } else { 0.0 };
        wanted
    });
    let names: Vec<String> = named.map(|(r, _)| named_calls(r)).collect();
    let in_copies: f64 = rows.iter().filter(|(r, _)| copies_to_host(r)).map(|(_, ms)| ms).sum();
    let text = if in_copies > time.sync_time_ms / 2.0 { TextId::N_SYNC_COPY } else { TextId::N_SYNC };
    let (all, part) = (shown_ms(on_host), shown_ms(part));
    let part = if part == all { "all".to_owned() } else { format!("{part} ms") };
    let which = match cx.rows().count() {
        n if n == rows.len() => "these operations".to_owned(),
        n => format!("{} of these {n} operations", rows.len()),
    };
    let values = [("which", &*which), ("x", &shown(factor, 1)), ("ms", &all), ("part", &part)];
    Some(text.fill(&[&values[..], &[("ops", &*listed(&names))]].concat()))
}

/// A row with its arguments, if they are known.
fn with_args(row: &Row) -> String {
    format!("{} {}", quoted(&row.name), row.args).trim_end().to_owned()
}

/// A row with its arguments and how often it is called.
fn named_calls(row: &Row) -> String {
    let on = if row.args.is_empty() { String::new() } else { format!(" on {}", args::in_prose(&row.args)) };
    format!("{}{on} ({})", quoted(&row.name), counted(row.count, "call"))
}

fn copies_to_host(row: &Row) -> bool {
    let is_copy = |name: &str| CopyLink::of_name(name) == Some(CopyLink::Host);
    row.kernels.iter().any(|k| is_copy(&k.name) && CopyDirection::of_name(&k.name) == CopyDirection::DeviceToHost)
}

/// Rows that would be bottlenecks if they were larger, if kernels could be shorter, or with all of their steps.
fn notes(cx: &CategoryCx<'_>, judged: &[Judged<'_>]) -> Vec<String> {
    let mut floor_is_told = false;
    let mut told = |j: &Judged<'_>| {
        let is_large = || {
            cx.weight_in_category(j.row.work_ms()) > cx.limit(Threshold::BottleneckShare)
                && cx.weight(j.row.work_ms()) >= cx.limit(Threshold::ReportMinPercent)
        };
        match j.set_aside? {
            SetAside::BelowFloor => Some(format!("{}: {} ms, below floor", with_args(j.row), shown_ms(j.row.time_ms))),
            SetAside::KernelFloor if is_large() => {
                let kernels = j.row.only_kernels();
                let known = std::mem::replace(&mut floor_is_told, true);
                let text = if known { TextId::N_KERNEL_FLOOR_TOO } else { TextId::N_KERNEL_FLOOR };
                Some(text.fill(&[
                    ("op", &with_args(j.row)),
                    ("ms", &shown_ms(kernels.ms)),
                    ("us", &shown(1e3 * kernels.ms / kernels.count, 1)),
                    ("floor", &shown(cx.prepared.kernel_floor_us, 1)),
                ]))
            }
            SetAside::FusibleSteps => Some(fusible_steps(cx, j.row)),
            SetAside::KernelFloor | SetAside::SmallShare => None,
        }
    };
    judged.iter().filter_map(&mut told).collect()
}

/// That a row would be a bottleneck if steps beside its products were not told elsewhere; `part` is what is left of it.
fn fusible_steps(cx: &CategoryCx<'_>, part: &Row) -> String {
    let whole = cx.prepared.row(part.id);
    TextId::N_FUSIBLE_STEPS.fill(&[
        ("op", &with_args(whole)),
        ("eff", &maybe(whole.efficiency.judged(), 1)),
        ("own", &maybe(part.efficiency.judged(), 1)),
        ("steps", &shown_ms(whole.time_ms - part.time_ms)),
        ("ms", &shown_ms(whole.time_ms)),
    ])
}

/// One entry for each code and operation, in order of time.
fn patterns(cx: &CategoryCx<'_>, judged: &[Judged<'_>]) -> Vec<PatternMetrics> {
    let mut by_key: BTreeMap<(&str, &str), Vec<&Judged<'_>>> = BTreeMap::new();
    for j in judged {
        for pattern in &j.judgement.patterns {
            by_key.entry((pattern.code, &*j.row.name)).or_default().push(j);
        }
    }
    let mut out: Vec<PatternMetrics> = by_key.into_iter().map(|((code, _), rows)| pattern(cx, code, &rows)).collect();
    out.order_by(|a, b| {
        b.time_ms.0.total_cmp(&a.time_ms.0).then_with(|| (a.pattern, &a.tree_uids).cmp(&(b.pattern, &b.tree_uids)))
    });
    number(cx, &mut out);
    out
}

/// Gives patterns their ids.
pub(crate) fn number(cx: &CategoryCx<'_>, patterns: &mut [PatternMetrics]) {
    for (i, pattern) in patterns.iter_mut().enumerate() {
        pattern.id = format!("{}-p{}", cx.category.key, i + 1);
    }
}

fn pattern(cx: &CategoryCx<'_>, code: &str, judged: &[&Judged<'_>]) -> PatternMetrics {
    // Rows come in order of time.
    let largest = judged[0];
    let of_largest = largest.judgement.patterns.iter().find(|p| p.code == code);
    let mut evidence = of_largest.map(|p| p.evidence.clone()).unwrap_or_default();
    if judged.len() > 1 {
        evidence.push(counted(judged.len() - 1, "more shape"));
    }
    // All of the rows, as the overview has it: what is judged may be a part of them.
    let time_ms: f64 = judged.iter().map(|j| cx.prepared.row(j.row.id).time_ms).sum();
    let range = |j: &&Judged<'_>| match code {
        precision::CODE => precision::row_saving(cx, j.row),
        _ => impact::row_range(cx, j.row, &j.judgement),
    };
    let ranges: Vec<_> = judged.iter().filter_map(range).collect();
    let low = ranges.iter().map(|r| r.low).sum::<f64>();
    let high = ranges.iter().map(|r| r.high).sum::<f64>();
    let saves = high > 0.0;
    let floor = cx.limit(Threshold::ReportMinPercent);
    PatternMetrics {
        id: String::new(),
        pattern: of_largest.map_or("", |p| p.code),
        confidence: of_largest.map_or("low", |p| p.confidence),
        evidence,
        tree_uids: judged.iter().map(|j| j.row.uid).collect(),
        rows: judged.iter().map(|j| j.row.id).collect(),
        module: largest.row.module_path.last().map(|m| base_name(m).to_owned()),
        instances: judged.iter().map(|j| j.row.count).sum(),
        time_ms: Ms(time_ms),
        percent_of_compute: Percent(cx.of_compute(time_ms)),
        savings_ms_low: saves.then_some(Ms(low)),
        savings_ms_high: saves.then_some(Ms(high)),
        notable: of_largest.is_some_and(|p| p.notable) && cx.of_compute(time_ms) >= floor,
        spans: None,
        promoted: None,
    }
}

fn bottleneck(
    cx: &CategoryCx<'_>,
    number: usize,
    group: &Group<'_>,
    mut said: Said,
    patterns: &[PatternMetrics],
) -> Bottleneck {
    let rows = group.rows();
    let members = &group.members;
    let notable = members.iter().any(|m| m.judgement.patterns.iter().any(|p| p.notable));
    let sum = |ms: fn(&Row) -> f64| members.iter().map(|m| ms(m.row)).sum::<f64>();
    let work_ms = sum(Row::work_ms);
    let weight = Weight {
        in_top_ops: members.iter().any(|m| m.row.in_top_ops),
        efficiency: group.efficiency,
        percent_of_category: cx.weight_in_category(work_ms),
        percent_of_compute: cx.weight(work_ms),
        category_percent_of_compute: cx.weight(cx.category.time.work_ms),
        notable,
    };
    let compute_ms = sum(Row::compute_ms);
    let below_band = members.iter().any(|m| m.reasons.contains(&reason::BELOW_BAND));
    let mut reasons: Vec<&'static str> = members.iter().flat_map(|m| m.reasons.iter().copied()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let explains = |p: &&PatternMetrics| p.rows.iter().any(|r| rows.contains(r));
    let covers: Vec<_> = rows.iter().map(|&r| cx.claims.covering(r)).collect();
    let keeps_kernel_work = members.iter().any(|m| m.judgement.patterns.iter().any(|p| p.kernel_work));
    let covered = covers.iter().all(Option::is_some) && !keeps_kernel_work;
    let mut replay = weight.replay(cx, below_band);
    // Replays of a GPU graph, or a recording without shapes.
    if members.iter().all(|m| m.row.inputs.dims.as_deref().is_none_or(<[_]>::is_empty)) {
        said.without_inputs();
        if members.iter().all(|m| is_graph_launch(&m.row.name)) {
            said.in_graph();
        }
        replay = Replay { recommended: false, required: false, reason: "no recorded inputs".to_owned(), package: None };
    }
    if !replay.recommended {
        said.without_package(group.row());
    }
    Bottleneck {
        id: format!("{}-{number}", cx.category.key),
        operation: Arc::clone(&group.row().name),
        tree_uids: members.iter().map(|m| m.row.uid).collect(),
        args: Arc::clone(&group.row().args),
        member_count: members.len(),
        count: group.count(),
        time_ms: Ms(group.time_ms),
        copy_time_ms: Ms(sum(|row| row.copied_ms)),
        percent_of_category: Percent(cx.of_category(compute_ms)),
        percent_of_compute: Percent(cx.of_compute(compute_ms)),
        percent_of_total: Percent(cx.of_total(group.time_ms)),
        efficiency_percent: group.efficiency.map(Percent),
        bound_type: group.row().efficiency.bound_type,
        reasons,
        patterns: patterns.iter().filter(explains).map(|p| p.id.clone()).collect(),
        in_top_ops: weight.in_top_ops,
        priority_category: weight.in_category(cx),
        priority_by_share: weight.overall(cx),
        priority: weight.overall(cx),
        brief: said.brief.unwrap_or_else(|| said.issue.clone()),
        issue: said.issue,
        algorithmic: said.algorithmic,
        kernel: said.kernel,
        text_ids: said.ids,
        impact: impact::of_group(cx, group),
        mending: group.largest().judgement.mending(),
        replay,
        finding: group.largest().judgement.finding,
        covered_by: covers.first().copied().flatten().filter(|_| covered).map(|c| Arc::clone(&c.name)),
        rows,
    }
}

//! The whole analysis of one trace: every tier once, and the findings of all of them in one order.
//!
//! Patterns come first, because the rows they explain are told there and not again row by row; then the analyzers of
//! the categories; then the system tier, which also says how much of a saving the host lets through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jarvis_perf::platform::Platform;
use jarvis_perf::tables::{ArgLists, Report};
use jarvis_trace::side_by_side::both;
use jarvis_trace::{Population, Summary, Trace, Tree};
use rapidhash::RapidHashMap;

use crate::finding::{Evidence, Finding, NO_GAIN, PatternId, Priority, Tier};
use crate::metrics::{
    Bottleneck, CategoryMetrics, Fact, Fusion, MetricsFile, PatternMetrics, Scope, Status, TreeEntry,
};
use crate::patterns::candidates::{
    FusionCandidate, FusionMetrics, fusion, fusion_candidates, fusion_metrics, is_told_of_rows, sure,
};
use crate::patterns::{self, Code, Pattern, Scene};
use crate::prepare::tree_data::TreeData;
use crate::prepare::{PrepareOptions, model_info};
use crate::prepared::{Prepared, Row, Utilization};
use crate::program::{LeafId, Program, RowId};
use crate::rank;
use crate::rounding::{round, shown, shown_ms};
use crate::rules::{CategoryOutcome, Claims, NOT_URGENT, analyze_categories, compute_findings};
use crate::system::gaps::Gaps;
use crate::system::{self, System};
use crate::texts::quoted;
use crate::thresholds::{Threshold, Thresholds};

/// How to analyse.
#[derive(Debug, Clone)]
pub struct AnalysisOptions {
    /// The limits in force.
    pub thresholds: Thresholds,
    /// Whether a reference is compared with.
    pub scope: Scope,
    /// GPU events that the timeline of the report counts.
    pub population: Population,
}

impl Default for AnalysisOptions {
    fn default() -> Self {
        Self { thresholds: Thresholds::default(), scope: Scope::Standalone, population: Population::Window }
    }
}

/// Everything that is known about a trace in the end.
#[derive(Debug)]
pub struct Analysis {
    /// What all analyzers saw.
    pub prepared: Prepared,
    /// Whether a reference is compared with.
    pub scope: Scope,
    /// The system tier; `None` if no GPU event has a time.
    pub system: Option<System>,
    /// All patterns, those that save most first.
    pub patterns: Vec<Pattern>,
    /// Rows that patterns explain.
    pub claims: Claims,
    /// What came of each category, most time first.
    pub outcomes: Vec<CategoryOutcome>,
    /// `fusion_candidates.json`.
    pub fusion_candidates: Vec<FusionCandidate>,
    /// `kernel_fusion_metrics.json`.
    pub fusion: FusionMetrics,
    /// `<category>_tree_data.json`, in the order of the categories.
    pub tree_data: Vec<(Arc<str>, BTreeMap<u32, TreeEntry>)>,
    /// All findings, ranked.
    pub findings: Vec<Finding>,
    /// What failed or could not be read, in the order in which reports tell it.
    pub warnings: Vec<String>,
    told: ToldRows,
}

/// What is in a trace and the program it shows, whatever its operations cost.
#[derive(Debug)]
pub struct Survey {
    /// What is in the trace.
    summary: Summary,
    program: Program,
}

impl Survey {
    /// The tree must have Python frames.
    pub fn of(trace: &Trace, tree: &Tree, lists: &ArgLists) -> Self {
        let summary = Summary::of(trace);
        Self { program: Program::of(trace, tree, &summary, lists), summary }
    }
}

/// What the judgement is made from.
#[derive(Debug)]
pub struct Groundwork {
    prepared: Prepared,
    system: Option<System>,
}

impl Groundwork {
    /// Lays it. Survey, system and report must be of this trace, the report made with
    /// [`call_stack`](jarvis_perf::tables::ReportOptions::call_stack).
    pub fn of(
        survey: Survey,
        system: Option<System>,
        trace: &Trace,
        report: &Report,
        platform: &Platform,
        options: &AnalysisOptions,
    ) -> (Self, Summary) {
        let Survey { summary, program } = survey;
        let prepare = PrepareOptions { thresholds: options.thresholds.clone() };
        let prepared = Prepared::on(program, trace, report, platform, &prepare);
        let completed = |s: System| System {
            kernels: s.kernels.with_categories(&report.rows.kernels),
            card_percent: options.thresholds.get(Threshold::UtilIdleCard),
            ..s
        };
        (Self { prepared, system: system.map(completed) }, summary)
    }

    /// What all analyzers see.
    pub fn prepared(&self) -> &Prepared {
        &self.prepared
    }

    /// Waits of the GPU and why; `None` if no GPU event has a time.
    pub fn gaps(&self) -> Option<&Gaps> {
        self.system.as_ref().map(|s| &s.gaps)
    }

    /// Judges a trace, with the report and the options that the groundwork was laid with.
    pub fn judge(&self, trace: &Trace, report: &Report, options: &AnalysisOptions) -> Judgement {
        let Self { prepared, system } = self;
        let of_system = |system| system::findings(system, &prepared.utilization, Some(&prepared.program));
        let (of_system, (scene, patterns)) = both(
            || system.as_ref().map(of_system).unwrap_or_default(),
            || {
                let scene = Scene::of(prepared);
                let patterns = patterns::detect(&scene);
                (scene, patterns)
            },
        );
        let ((fusion_candidates, fusion), (claims, mut outcomes)) = both(
            || {
                let candidates = fusion_candidates(&scene, &patterns);
                let metrics = fusion_metrics(&scene, &patterns, &candidates);
                (candidates, metrics)
            },
            || {
                let claims = claims(prepared, &patterns);
                let outcomes = analyze_categories(prepared, &claims, options.scope);
                (claims, outcomes)
            },
        );
        add_patterns(&mut outcomes, &scene, &patterns, &prepared.rows);
        let host = system.as_ref().map(|s| &s.host);
        // What the host lets through is worked out for every finding, and none knows of another.
        let (of_patterns, (mut findings, tree_data)) = both(
            || patterns::findings(&scene, &patterns, &prepared.rows, host),
            || {
                let findings = compute_findings(prepared, &outcomes, &claims, host);
                (findings, all_tree_data(trace, report, prepared, &outcomes, &patterns))
            },
        );
        findings.extend(of_patterns);
        findings.extend(of_system);
        system::selections::tell_of_loops(&mut findings, &patterns, &prepared.program);
        if !system::slices::tell_of_slices(&mut findings, &patterns, &prepared.program) {
            system::turns::tell_of_turns(&mut findings, &patterns, &scene);
        }
        fold_kernel_work(&mut findings, &outcomes);
        tell_of_streams(&mut findings, &prepared.utilization);
        let findings = rank::ranked(findings, prepared, system.as_ref().is_some_and(|s| s.host.is_limit()));
        settle_priorities(&mut outcomes, &findings);
        let mut warnings = prepared.warnings.clone();
        warnings.extend(system.iter().flat_map(|s| s.notes(&prepared.utilization)));
        Judgement {
            scope: options.scope,
            patterns,
            claims,
            outcomes,
            fusion_candidates,
            fusion,
            tree_data,
            findings,
            warnings,
        }
    }
}

/// What an [`Analysis`] says beyond its groundwork.
#[derive(Debug)]
pub struct Judgement {
    scope: Scope,
    patterns: Vec<Pattern>,
    claims: Claims,
    outcomes: Vec<CategoryOutcome>,
    fusion_candidates: Vec<FusionCandidate>,
    fusion: FusionMetrics,
    tree_data: Vec<(Arc<str>, BTreeMap<u32, TreeEntry>)>,
    findings: Vec<Finding>,
    warnings: Vec<String>,
}

impl Analysis {
    /// Analyses a trace from the beginning.
    pub fn of(trace: &Trace, report: &Report, platform: &Platform, options: &AnalysisOptions) -> Self {
        let survey = Survey::of(trace, &report.tree, &report.arg_lists);
        let system = System::of(trace, &report.tree, options.population);
        let (groundwork, _) = Groundwork::of(survey, system, trace, report, platform, options);
        let judgement = groundwork.judge(trace, report, options);
        Self::on(groundwork, judgement)
    }

    /// The groundwork and what was judged on it.
    pub fn on(groundwork: Groundwork, judgement: Judgement) -> Self {
        let Groundwork { mut prepared, mut system } = groundwork;
        if let Some(system) = &mut system {
            // Nothing more is asked of it, and it is large.
            system.host.forget_schedule();
        }
        let Judgement { scope, patterns, claims, outcomes, fusion_candidates, fusion, tree_data, findings, warnings } =
            judgement;
        let has = |codes: &[Code]| patterns.iter().any(|p| codes.contains(&p.code));
        let shown = model_info::Shown {
            attention: has(&[Code::UnfusedAttention, Code::UnfusedAttentionBackward]),
            experts: has(&[Code::MoeExpertLoop]),
        };
        let Prepared { model, program, categories, .. } = &mut prepared;
        model_info::with_patterns(model, program, categories, shown);
        Self {
            told: ToldRows::of(&findings),
            prepared,
            scope,
            system,
            patterns,
            claims,
            outcomes,
            fusion_candidates,
            fusion,
            tree_data,
            findings,
            warnings,
        }
    }

    /// Categories whose analyzer failed, with what it said.
    pub fn failures(&self) -> impl Iterator<Item = &CategoryOutcome> {
        self.outcomes.iter().filter(|o| o.status() == Status::Error)
    }

    /// Whether the GPU awaits launches, so that less kernel time need not be less time.
    pub fn awaits_launches(&self) -> bool {
        self.system.as_ref().is_some_and(|s| s.host.is_limit())
    }

    /// What is said in the place of a saving, if the finding brings none.
    pub fn no_gain(&self, finding: &Finding) -> Option<&'static str> {
        let [awaits_launches, not_quantified] = NO_GAIN;
        if self.awaits_launches() && finding.saves_nothing() {
            Some(awaits_launches)
        } else {
            (finding.impact.saved_ms.high <= 0.0).then_some(not_quantified)
        }
    }

    /// What is said in the place of recommendations, if there are none.
    pub fn nothing_recommended(&self) -> String {
        let told = nothing_recommended(&self.outcomes, &self.findings);
        let idle = self.system.as_ref().and_then(|s| s.where_idle(&self.prepared.utilization));
        match idle.filter(|_| told == NO_BOTTLENECK) {
            Some(idle) => format!("{told} {idle}"),
            None => told,
        }
    }

    /// The findings that tell a pattern of a category: of its kind, and of its rows.
    pub fn findings_of<'a>(&'a self, pattern: &'a PatternMetrics) -> impl Iterator<Item = &'a Finding> {
        let about = |f: &&Finding| f.rows.iter().any(|(row, _)| pattern.rows.contains(row));
        self.findings.iter().filter(|f| pattern.told_as() == Some(f.pattern)).filter(about)
    }

    /// The finding that speaks of most of a row's time, if any speaks of half of it.
    pub fn finding_of(&self, row: RowId) -> Option<&Finding> {
        self.told.finding(row).map(|at| &self.findings[at])
    }

    /// The finding that tells a bottleneck.
    pub fn finding_of_bottleneck(&self, b: &Bottleneck) -> Option<&Finding> {
        telling(&self.findings, &self.told, (b.finding, b.time_ms.0), &b.rows)
    }
}

/// Said where there is none.
const NO_BOTTLENECK: &str = "No bottleneck exceeds the thresholds.";

/// Bottlenecks may be there all the same: without a performance model nothing can be said of what they could save, and
/// findings of low priority recommend nothing.
fn nothing_recommended(outcomes: &[CategoryOutcome], findings: &[Finding]) -> String {
    let bottlenecks = || outcomes.iter().filter_map(CategoryOutcome::metrics).flat_map(|m| &m.bottlenecks);
    let unmodelled = bottlenecks().filter(|b| b.efficiency_percent.is_none()).count();
    if unmodelled > 0 {
        let which = if unmodelled == 1 {
            "an operation or kernel that takes".to_owned()
        } else {
            format!("{unmodelled} operations or kernels that take")
        };
        return format!(
            "No performance model covers {which} a notable part of the time, so no change can be put in numbers."
        );
    }
    if findings.is_empty() && bottlenecks().next().is_none() {
        return NO_BOTTLENECK.to_owned();
    }
    // What is urgent by its share of the time, but is no finding: nobody knows what it could save.
    let unknown = bottlenecks().filter(|b| b.finding.is_none() && b.priority <= Priority::High);
    match unknown.max_by(|a, b| a.time_ms.0.total_cmp(&b.time_ms.0)) {
        Some(b) => format!(
            "{} takes {}% of compute, but what a change to it would save can't be told from a trace.",
            quoted(&b.operation),
            shown(b.percent_of_compute.0, 1)
        ),
        None => "What exceeds the thresholds is of low priority: no change is worth a recommendation.".to_owned(),
    }
}

/// Of each row that findings speak of the one that speaks of most of it: its share of the row's time, and its position.
#[derive(Debug, Default)]
struct ToldRows(RapidHashMap<RowId, (f64, usize)>);

impl ToldRows {
    fn of(findings: &[Finding]) -> Self {
        let mut most: RapidHashMap<RowId, (f64, usize)> = RapidHashMap::default();
        for (at, finding) in findings.iter().enumerate() {
            let mut shares: BTreeMap<RowId, f64> = BTreeMap::new();
            for (row, share) in &finding.rows {
                *shares.entry(*row).or_default() += share;
            }
            for (row, share) in shares {
                let known = most.entry(row).or_insert((share, at));
                if share > known.0 {
                    *known = (share, at);
                }
            }
        }
        Self(most)
    }

    /// The finding that speaks of most of a row's time, if any speaks of half of it.
    fn finding(&self, row: RowId) -> Option<usize> {
        self.0.get(&row).filter(|(share, _)| *share >= 0.5).map(|(_, at)| *at)
    }
}

/// The finding that tells a bottleneck of this kind and time and of these rows, most time first: the one of its kind that
/// speaks of most of its time, be the rest of its largest row told elsewhere; else the one that speaks of most of that
/// row, else one of its tier that speaks of a part, else the one of the next row.
fn telling<'f>(
    findings: &'f [Finding],
    told: &ToldRows,
    (kind, ms): (Option<PatternId>, f64),
    rows: &[RowId],
) -> Option<&'f Finding> {
    let &largest = rows.first()?;
    let part = |f: &&Finding| f.tier == Tier::Compute && f.rows.iter().any(|(row, s)| *row == largest && *s > 0.0);
    let is_own = |f: &&Finding| kind == Some(f.pattern) && 2.0 * f.time_ms >= ms;
    let own = findings.iter().find(|f| part(f) && is_own(f));
    let of = |row| told.finding(row).map(|at| &findings[at]);
    let most = own.or_else(|| of(largest)).or_else(|| findings.iter().find(part));
    most.or_else(|| rows.iter().find_map(|r| of(*r)))
}

/// A bottleneck is as urgent as the finding that tells it, be it of a part of its time: one level for one thing, wherever
/// it stands. Whether kernel engineers need a package its own share has decided: the finding is about more than its kernel.
fn settle_priorities(outcomes: &mut [CategoryOutcome], findings: &[Finding]) {
    let told = ToldRows::of(findings);
    for b in outcomes.iter_mut().flat_map(CategoryOutcome::bottlenecks_mut) {
        if let Some(finding) = telling(findings, &told, (b.finding, b.time_ms.0), &b.rows) {
            b.priority = finding.priority;
            if b.priority <= Priority::High && b.replay.reason == NOT_URGENT {
                let (share, pattern) = (b.priority_by_share.title(), finding.pattern.as_str());
                b.replay.reason = format!("{share} by its own share; `{pattern}` makes it urgent and tells what to do");
            }
        }
    }
}

/// A bottleneck that a pattern explains is no finding of its own, but if it calls for a reproducer, whoever must keep
/// the code as it is needs to read so: what its kernel team can do goes to the finding that covers it.
fn fold_kernel_work(findings: &mut [Finding], outcomes: &[CategoryOutcome]) {
    let covered = outcomes.iter().filter_map(CategoryOutcome::metrics).flat_map(|m| &m.bottlenecks);
    for b in covered.filter(|b| b.replay.required) {
        let speaks = |f: &&mut Finding| b.rows.iter().all(|r| f.rows.iter().any(|(row, s)| row == r && *s > 0.5));
        let Some(finding) = findings.iter_mut().find(speaks).filter(|f| b.finding != Some(f.pattern)) else { continue };
        for sentence in &b.kernel {
            let of_operation = format!("`{}`: {}", b.operation, sentence.text);
            if ![&sentence.text, &of_operation].iter().any(|said| finding.paths.kernel.contains(said)) {
                finding.paths.kernel.push(of_operation);
            }
        }
        finding.evidence.push(Evidence {
            table: "unified_perf_summary".to_owned(),
            row: b.operation.to_string(),
            uid: b.tree_uids.first().copied(),
            fact: b.issue.clone(),
        });
    }
}

/// Where streams or GPUs compute side by side, says what part of kernel times the times of the window are.
fn tell_of_streams(findings: &mut [Finding], utilization: &Utilization) {
    if !utilization.runs_side_by_side() {
        return;
    }
    let told = format!(
        "Kernels run side by side, {} ms of them in {} ms: kernel times count {}% in the window.",
        shown_ms(utilization.kernel_time_ms),
        shown_ms(utilization.computation_time_ms),
        shown(utilization.of_window(100.0), 1)
    );
    for finding in findings.iter_mut().filter(|f| f.tier != Tier::System) {
        let basis = &mut finding.impact.basis;
        *basis = format!("{}. {told}", basis.trim_end_matches('.'));
    }
}

/// A pattern over several operations stands with the category whose readers it is for, whatever categories its operations
/// are in.
fn add_patterns(outcomes: &mut [CategoryOutcome], scene: &Scene<'_>, patterns: &[Pattern], rows: &[Row]) {
    for outcome in outcomes {
        if let MetricsFile::Full(metrics) = &mut outcome.file {
            let known = metrics.patterns.len();
            let found = patterns::metrics::of_category(scene, patterns, rows, &outcome.category, known);
            for b in &mut metrics.bottlenecks {
                let explains = |p: &&PatternMetrics| p.rows.iter().any(|row| b.rows.contains(row));
                b.patterns.extend(found.iter().filter(explains).map(|p| p.id.clone()));
            }
            metrics.patterns.extend(found);
            if outcome.analyzer == "sdpa" {
                tell_unfused_attention(metrics);
            }
        }
    }
}

/// Totals of attention in separate operations are those of all its patterns, also of those not worth a finding.
fn tell_unfused_attention(metrics: &mut CategoryMetrics) {
    let unfused = || metrics.patterns.iter().filter(|p| p.spans == Some(PatternId::UNFUSED_ATTENTION));
    let (ms, instances) = unfused().fold((0.0, 0), |(ms, n), p| (ms + p.time_ms.0, n + p.instances));
    if instances > 0 {
        metrics.category_specific.extend([
            ("unfused_attention_detected", Fact::from(true)),
            ("unfused_attention_time_ms", round(ms, 3).into()),
            ("unfused_attention_instances", instances.into()),
        ]);
    }
}

/// Patterns that are told as findings of their own claim what they explain; those that are sure flag what they hold.
fn claims(prepared: &Prepared, patterns: &[Pattern]) -> Claims {
    let mut claims = Claims::none();
    let least_ms = patterns::least_saving_ms(&prepared.thresholds, prepared.utilization.all_kernels_ms());
    for p in patterns.iter().filter(|p| p.code != Code::Recomputation && p.is_promoted(least_ms)) {
        let name = p.module.as_deref().unwrap_or(p.id.as_str());
        let leaves: BTreeSet<LeafId> = p.all_leaves().collect();
        claims.add_leaves(name, p.id, p.code.replaces_products(), p.instances, prepared, &leaves);
    }
    let flags = sure(patterns).map(|p| {
        let name = p.module.as_deref().unwrap_or(p.id.as_str());
        (name, p.id == PatternId::UNFUSED_ATTENTION, p.all_leaves().collect())
    });
    claims.flag(prepared, flags);
    claims
}

/// Tree data of all categories that have rows.
fn all_tree_data(
    trace: &Trace,
    report: &Report,
    prepared: &Prepared,
    outcomes: &[CategoryOutcome],
    patterns: &[Pattern],
) -> Vec<(Arc<str>, BTreeMap<u32, TreeEntry>)> {
    let fusion = fusion_of_rows(prepared, patterns);
    let tree = TreeData::new(trace, report, prepared);
    let of = |key: &str| outcomes.iter().find(|o| &*o.category == key).and_then(CategoryOutcome::metrics);
    let mut all = Vec::with_capacity(prepared.categories.len());
    for category in &prepared.categories {
        let members = of(&category.key).into_iter().flat_map(|m| &m.bottlenecks).flat_map(|b| b.rows.iter().copied());
        let bottlenecks: BTreeSet<RowId> = members.collect();
        all.push((Arc::clone(&category.key), tree.of_category(category, &bottlenecks, &fusion)));
    }
    all
}

/// The fusion that covers most of each row.
fn fusion_of_rows(prepared: &Prepared, patterns: &[Pattern]) -> BTreeMap<RowId, Fusion> {
    let mut best: BTreeMap<RowId, (f64, usize)> = BTreeMap::new();
    for (i, pattern) in patterns.iter().enumerate().filter(|(_, p)| is_told_of_rows(p)) {
        let mut us: BTreeMap<RowId, f64> = BTreeMap::new();
        for leaf in pattern.all_leaves().map(|l| prepared.program.leaf(l)) {
            if let Some(row) = leaf.row {
                *us.entry(row).or_default() += leaf.us;
            }
        }
        for (row, us) in us {
            let known = best.entry(row).or_insert((us, i));
            if us > known.0 {
                *known = (us, i);
            }
        }
    }
    // One may cover many rows, with many operations in each find.
    let mut of_patterns: BTreeMap<usize, Fusion> = BTreeMap::new();
    let of_pattern = |(row, (_, i))| {
        let known = of_patterns.entry(i).or_insert_with(|| fusion(&prepared.program, &patterns[i]));
        (row, known.clone())
    };
    best.into_iter().map(of_pattern).collect()
}

#[cfg(test)]
mod tests;

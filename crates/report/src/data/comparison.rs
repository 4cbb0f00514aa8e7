//! `comparison_metrics.json`, and what a comparison adds to the manifest and to `findings.json`.

use std::path::Path;

use jarvis_analyze::comparative::{
    Both, ChangeKind, Checked, Comparative, Compared, Dominant, Gap, GapSource, MatchLevel, Mode, Outcome, Part,
    SameKernel, SideTotals, Verdict,
};
use jarvis_analyze::finding::{Finding, Paths, PatternId};
use jarvis_analyze::metrics::{Peaks, TopOperationMetrics, UtilizationMetrics};
use jarvis_analyze::prepare::args::SEPARATOR;
use jarvis_analyze::prepared::BoundType;
use jarvis_analyze::program::RowId;
use jarvis_analyze::rounding::{Ms, Percent, Ratio};
use serde::Serialize;
use serde_json::{Value as Json, json};

use crate::{Run, Versus};

/// Most kernels that an operation lists.
const MOST_KERNELS: usize = 5;

/// A side.
#[derive(Serialize)]
struct Side<'a> {
    platform: &'a str,
    peak_hbm_bw_tbs: f64,
    peak_bf16_maf_tflops: Option<f64>,
    total_time_ms: Ms,
    computation_time_ms: Ms,
    memcpy_time_ms: Ms,
    idle_time_ms: Ms,
    steps: u32,
}

#[derive(Serialize)]
struct NormalizationFile<'a> {
    mode: Mode,
    reason: &'a str,
}

#[derive(Serialize)]
struct Coverage {
    matched_reference_percent: Percent,
    matched_target_percent: Percent,
}

/// An operation, a sum over operations, or a category.
#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    match_level: Option<MatchLevel>,
    args: String,
    category: &'a str,
    reference_ms: Ms,
    target_ms: Ms,
    delta_percent: Option<Percent>,
    ratio: Option<Ratio>,
    reference_count: Ratio,
    target_count: Ratio,
    bound_type: Option<BoundType>,
    expected_ratio: Option<Ratio>,
    expected_ratio_low: Option<Ratio>,
    expected_ratio_high: Option<Ratio>,
    expected_delta_percent: Option<Percent>,
    excess: Option<Ratio>,
    verdict: &'static str,
    expected: &'static str,
    explanation_id: Option<&'static str>,
    target_percent_of_compute: Percent,
    saved_ms: Ms,
    reference_kernels: Vec<&'a str>,
    target_kernels: Vec<&'a str>,
    tree_uid: Option<u32>,
}

/// Work without a counterpart.
#[derive(Serialize)]
struct Unmatched<'a> {
    name: &'a str,
    args: String,
    place: &'a str,
    time_ms: Ms,
    percent_of_compute: Percent,
}

#[derive(Serialize)]
struct ChangeFile<'a> {
    kind: ChangeKind,
    what: &'a str,
    reference_ms: Ms,
    target_ms: Ms,
    delta_ms: Ms,
}

/// `comparison_metrics.json`.
#[derive(Serialize)]
pub(crate) struct Metrics<'a> {
    schema_version: u32,
    reference: Side<'a>,
    target: Side<'a>,
    normalization: NormalizationFile<'a>,
    coverage: Coverage,
    dominant_bound: Dominant,
    same_collectives: Option<bool>,
    host_copy_rows_left_out: [usize; 2],
    changes: Vec<ChangeFile<'a>>,
    operations: Vec<Entry<'a>>,
    by_name: Vec<Entry<'a>>,
    categories: Vec<Entry<'a>>,
    unmatched_reference: Vec<Unmatched<'a>>,
    unmatched_target: Vec<Unmatched<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernels_by_name: Option<KernelsByName<'a>>,
}

/// Kernels that both sides run, where operations say little of the whole.
#[derive(Serialize)]
struct KernelsByName<'a> {
    reference_ms: Ms,
    target_ms: Ms,
    delta_percent: Option<Percent>,
    kernels: Vec<KernelEntry<'a>>,
}

/// One of them.
#[derive(Serialize)]
struct KernelEntry<'a> {
    name: &'a str,
    reference_count: Ratio,
    target_count: Ratio,
    reference_ms: Ms,
    target_ms: Ms,
    delta_percent: Option<Percent>,
}

fn kernels_by_name<'a>(c: &'a Comparative) -> Option<KernelsByName<'a>> {
    let one = |k: &'a SameKernel| KernelEntry {
        name: &k.name,
        reference_count: Ratio(k.runs.reference),
        target_count: Ratio(k.runs.target),
        reference_ms: Ms(k.ms.reference),
        target_ms: Ms(k.ms.target),
        delta_percent: k.ms.delta_percent().map(Percent),
    };
    let ms = c.same_kernels_ms();
    (!c.same_kernels.is_empty()).then(|| KernelsByName {
        reference_ms: Ms(ms.reference),
        target_ms: Ms(ms.target),
        delta_percent: ms.delta_percent().map(Percent),
        kernels: c.same_kernels.iter().map(one).collect(),
    })
}

/// The file of a comparison.
pub(crate) fn metrics<'a>(v: &'a Versus<'_>) -> Metrics<'a> {
    let c = v.comparative;
    let entries = |all: &'a [Compared]| all.iter().map(entry).collect();
    let side = |run: &'a Run<'_>, totals: &SideTotals, steps: u32| {
        let peaks = Peaks::of(&run.analysis.prepared);
        Side {
            platform: &run.analysis.prepared.platform.name,
            peak_hbm_bw_tbs: peaks.peak_hbm_bw_tbs,
            peak_bf16_maf_tflops: peaks.peak_bf16_maf_tflops,
            total_time_ms: Ms(totals.total_ms),
            computation_time_ms: Ms(totals.computation_ms),
            memcpy_time_ms: Ms(totals.copy_ms),
            idle_time_ms: Ms(totals.idle_ms),
            steps,
        }
    };
    let unmatched = |run: &'a Run<'_>, parts: &'a [Part], compute_ms: f64| -> Vec<Unmatched<'a>> {
        parts.iter().map(|p| without_counterpart(run, p, compute_ms)).collect()
    };
    Metrics {
        schema_version: jarvis_analyze::metrics::SCHEMA_VERSION,
        reference: side(&v.reference, &c.totals.reference, c.normalization.steps.reference),
        target: side(&v.target, &c.totals.target, c.normalization.steps.target),
        normalization: NormalizationFile { mode: c.normalization.mode, reason: &c.normalization.reason },
        coverage: Coverage {
            matched_reference_percent: Percent(c.coverage_percent.reference),
            matched_target_percent: Percent(c.coverage_percent.target),
        },
        dominant_bound: c.dominant,
        same_collectives: c.same_collectives,
        host_copy_rows_left_out: [c.host_copies.reference, c.host_copies.target],
        changes: changes(v),
        operations: entries(&c.operations),
        by_name: entries(&c.by_name),
        categories: entries(&c.categories),
        unmatched_reference: unmatched(&v.reference, &c.left.reference, c.compute_ms.reference),
        unmatched_target: unmatched(&v.target, &c.left.target, c.compute_ms.target),
        kernels_by_name: kernels_by_name(c),
    }
}

/// Arguments on one line.
fn plain(args: &str) -> String {
    args.replace(SEPARATOR, " ")
}

fn changes<'a>(v: &'a Versus<'_>) -> Vec<ChangeFile<'a>> {
    let one = |c: &'a jarvis_analyze::comparative::Change| ChangeFile {
        kind: c.kind,
        what: &c.what,
        reference_ms: Ms(c.ms.reference),
        target_ms: Ms(c.ms.target),
        delta_ms: Ms(c.ms.delta()),
    };
    v.comparative.changes.iter().map(one).collect()
}

fn entry(c: &Compared) -> Entry<'_> {
    let kernels = Both::of(c.kernels.as_ref(), |k| k.iter().take(MOST_KERNELS).map(|k| &**k).collect::<Vec<_>>());
    Entry {
        name: &c.name,
        match_level: c.level,
        args: plain(&c.args),
        category: &c.category,
        reference_ms: Ms(c.ms.reference),
        target_ms: Ms(c.ms.target),
        delta_percent: c.ms.delta_percent().map(Percent),
        ratio: c.ms.ratio().map(Ratio),
        reference_count: Ratio(c.calls.reference),
        target_count: Ratio(c.calls.target),
        bound_type: c.bound,
        expected_ratio: c.expected.map(|e| Ratio(e.middle())),
        expected_ratio_low: c.expected.map(|e| Ratio(e.low)),
        expected_ratio_high: c.expected.map(|e| Ratio(e.high)),
        expected_delta_percent: c.expected.map(|e| Percent(100.0 * (e.middle() - 1.0))),
        excess: c.excess().map(Ratio),
        verdict: c.verdict.map_or("unmatched", Verdict::as_str),
        expected: match c.verdict {
            Some(verdict) if verdict.is_expected() => "Yes",
            Some(_) => "No",
            None => "n/a",
        },
        explanation_id: c.explanation().map(|e| e.id),
        target_percent_of_compute: Percent(c.percent_of_compute.target),
        saved_ms: Ms(c.saved_ms),
        reference_kernels: kernels.reference,
        target_kernels: kernels.target,
        tree_uid: c.uid,
    }
}

fn without_counterpart<'a>(run: &Run<'a>, part: &'a Part, compute_ms: f64) -> Unmatched<'a> {
    Unmatched {
        name: &part.name,
        args: part.row.map(|r| plain(&run.analysis.prepared.row(r).args)).unwrap_or_default(),
        place: &part.place.modules,
        time_ms: Ms(part.ms),
        percent_of_compute: Percent(if compute_ms > 0.0 { 100.0 * part.ms / compute_ms } else { 0.0 }),
    }
}

/// What the manifest says of the reference.
pub(crate) fn manifest_reference(reference: &Run<'_>) -> Json {
    let p = &reference.analysis.prepared;
    let categories: Vec<Json> = p
        .categories
        .iter()
        .map(|c| {
            json!({
                "name": c.key,
                "gpu_kernel_time_ms": Ms(c.time_ms),
                "percent_of_compute": Percent(c.percent_of_compute),
            })
        })
        .collect();
    json!({
        "platform": p.platform.name,
        "trace_path": reference.labels.trace_path,
        "gpu_utilization": UtilizationMetrics::from(&p.utilization),
        "top_operations": p.top_operations.iter().map(TopOperationMetrics::from).collect::<Vec<_>>(),
        "categories": categories,
    })
}

/// What a finding's operations take on the reference.
#[derive(Serialize)]
pub(crate) struct FindingComparison {
    reference_ms: Ms,
    target_ms: Ms,
    ratio: Option<Ratio>,
    expected_ratio: Option<Ratio>,
    verdict: &'static str,
    bound: Option<BoundType>,
}

/// The comparison of the operation that a finding is best known by: the largest of those that both sides run.
pub(crate) fn of_finding(v: &Versus<'_>, finding: &Finding) -> Option<FindingComparison> {
    let has = |row: &RowId| finding.rows.iter().any(|(r, share)| r == row && *share >= 0.5);
    let own = v.comparative.operations.iter().filter(|c| !c.rows.target.is_empty() && c.rows.target.iter().all(has));
    let largest = own.reduce(|a, b| if b.ms.target > a.ms.target { b } else { a })?;
    Some(FindingComparison {
        reference_ms: Ms(largest.ms.reference),
        target_ms: Ms(largest.ms.target),
        ratio: largest.ms.ratio().map(Ratio),
        expected_ratio: largest.expected.map(|e| Ratio(e.middle())),
        verdict: largest.verdict.map_or("unmatched", Verdict::as_str),
        bound: largest.bound,
    })
}

/// One of several operations that one change explains.
#[derive(Serialize)]
struct GapOperation<'a> {
    name: &'a str,
    args: String,
    reference_ms: Ms,
    target_ms: Ms,
    saved_ms: Ms,
    tree_uid: Option<u32>,
}

/// A place where the target should be improved.
#[derive(Serialize)]
struct GapFile<'a> {
    rank: usize,
    title: &'a str,
    category: &'a str,
    source: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pattern: Option<PatternId>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operations: Vec<GapOperation<'a>>,
    args: Option<String>,
    bound: Option<BoundType>,
    reference_ms: Ms,
    target_ms: Ms,
    delta_percent: Option<Percent>,
    ratio: Option<Ratio>,
    expected_ratio_low: Option<Ratio>,
    expected_ratio_high: Option<Ratio>,
    verdict: Option<&'static str>,
    saved_ms: Ms,
    saved_percent_of_compute: Option<Percent>,
    saved_percent_of_total: Percent,
    paths: &'a Paths,
    replay_package: Option<&'a str>,
    tree_uid: Option<u32>,
}

/// `comparison` of `findings.json`.
#[derive(Serialize)]
pub(crate) struct Comparison<'a> {
    reference: ReferenceRead<'a>,
    normalization: NormalizationFile<'a>,
    total_ms: Sides,
    computation_ms: Sides,
    idle_ms: Sides,
    no_difference: bool,
    changes: Vec<ChangeFile<'a>>,
    findings_gone: &'a [PatternId],
    findings_new: &'a [PatternId],
    gaps: Vec<GapFile<'a>>,
    gates: Vec<GateFile<'a>>,
}

/// A limit that was checked.
#[derive(Serialize)]
struct GateFile<'a> {
    name: &'a str,
    limit_percent: f64,
    status: &'static str,
    reason: Option<&'a str>,
    reference_ms: Option<Ms>,
    target_ms: Option<Ms>,
    measured_percent: Option<Percent>,
}

impl<'a> From<&'a Checked> for GateFile<'a> {
    fn from(checked: &'a Checked) -> Self {
        Self {
            name: &checked.gate.what,
            limit_percent: checked.gate.percent,
            status: checked.outcome.as_str(),
            reason: match &checked.outcome {
                Outcome::NotComparable(why) => Some(why),
                Outcome::Held | Outcome::Broken => None,
            },
            reference_ms: checked.ms.map(|ms| Ms(ms.reference)),
            target_ms: checked.ms.map(|ms| Ms(ms.target)),
            measured_percent: checked.ms.and_then(|ms| ms.delta_percent()).map(Percent),
        }
    }
}

/// What was compared with.
#[derive(Serialize)]
struct ReferenceRead<'a> {
    path: &'a str,
    file: &'a str,
    platform: &'a str,
    peak_hbm_bw_tbs: f64,
    peak_bf16_maf_tflops: Option<f64>,
    gpu_timeline: UtilizationMetrics,
}

/// A time on both sides.
#[derive(Serialize)]
struct Sides {
    reference: Ms,
    target: Ms,
    delta_percent: Option<Percent>,
}

impl From<Both<f64>> for Sides {
    fn from(ms: Both<f64>) -> Self {
        Self { reference: Ms(ms.reference), target: Ms(ms.target), delta_percent: ms.delta_percent().map(Percent) }
    }
}

/// The machine form of a comparison.
pub(crate) fn comparison<'a>(v: &'a Versus<'_>) -> Comparison<'a> {
    let c = v.comparative;
    let p = &v.reference.analysis.prepared;
    let peaks = Peaks::of(p);
    let path = v.reference.labels.trace_path.as_str();
    let total = |of: fn(&SideTotals) -> f64| {
        let sides = Sides::from(Both::of(c.totals.as_ref(), of));
        Sides { delta_percent: sides.delta_percent.filter(|_| c.uncomparable.is_none()), ..sides }
    };
    Comparison {
        reference: ReferenceRead {
            path,
            file: Path::new(path).file_name().and_then(|n| n.to_str()).unwrap_or(path),
            platform: &p.platform.name,
            peak_hbm_bw_tbs: peaks.peak_hbm_bw_tbs,
            peak_bf16_maf_tflops: peaks.peak_bf16_maf_tflops,
            gpu_timeline: (&p.utilization).into(),
        },
        normalization: NormalizationFile { mode: c.normalization.mode, reason: &c.normalization.reason },
        total_ms: total(|t| t.total_ms),
        computation_ms: total(|t| t.computation_ms),
        idle_ms: total(|t| t.idle_ms),
        no_difference: c.is_same(),
        changes: changes(v),
        findings_gone: &c.gone,
        findings_new: &c.new,
        gaps: c.gaps.iter().map(|g| gap(v, g)).collect(),
        gates: c.gates.iter().map(GateFile::from).collect(),
    }
}

fn gap_operation(c: &Compared) -> GapOperation<'_> {
    GapOperation {
        name: &c.name,
        args: plain(&c.args),
        reference_ms: Ms(c.ms.reference),
        target_ms: Ms(c.ms.target),
        saved_ms: Ms(c.saved_ms),
        tree_uid: c.uid,
    }
}

fn gap<'a>(v: &'a Versus<'_>, g: &'a Gap) -> GapFile<'a> {
    let compared = match g.source {
        GapSource::Operation(at) => v.comparative.operations.get(at),
        _ => None,
    };
    let package = g.replay.iter().find_map(|op| v.target.replay.iter().find(|r| r.op == *op));
    let (pattern, members) = match g.source {
        GapSource::Cause(pattern) => (Some(pattern), &*g.operations),
        _ => (None, &[][..]),
    };
    let operations = members.iter().filter_map(|&at| v.comparative.operations.get(at)).map(gap_operation).collect();
    GapFile {
        rank: g.rank,
        title: &g.title,
        category: &g.category,
        source: match g.source {
            GapSource::Operation(_) => "operation",
            GapSource::Cause(_) => "cause",
            GapSource::Unmatched => "unmatched",
            GapSource::Idle => "idle",
            GapSource::Overlap => "overlap",
            GapSource::Copies => "copies",
            GapSource::Communication => "communication",
        },
        pattern,
        operations,
        args: compared.filter(|c| !c.args.is_empty()).map(|c| plain(&c.args)),
        bound: compared.and_then(|c| c.bound),
        reference_ms: Ms(g.ms.reference),
        target_ms: Ms(g.ms.target),
        delta_percent: g.ms.delta_percent().map(Percent),
        ratio: g.ms.ratio().map(Ratio),
        expected_ratio_low: g.expected.map(|e| Ratio(e.low)),
        expected_ratio_high: g.expected.map(|e| Ratio(e.high)),
        verdict: compared.and_then(|c| c.verdict).map(Verdict::as_str),
        saved_ms: Ms(g.saved_ms),
        saved_percent_of_compute: g.saved_percent_of_compute.map(Percent),
        saved_percent_of_total: Percent(g.saved_percent_of_total),
        paths: &g.paths,
        replay_package: package.map(|p| p.path.as_str()),
        tree_uid: compared.and_then(|c| c.uid),
    }
}

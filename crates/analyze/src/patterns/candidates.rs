//! `fusion_candidates.json` and `kernel_fusion_metrics.json`.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jarvis_perf::roofline::MB;
use serde::Serialize;

use super::scene::{Look, Operand, Scene, element_size, numel};
use super::{Code, Confidence, Pattern, Source};
use crate::metrics::Fusion;
use crate::prepare::place;
use crate::program::kind::Kind;
use crate::program::{Direction, LeafId, Program};
use crate::rounding::{self, Ms};

/// What one kernel of a candidate does, over all finds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CandidateKernel {
    /// Kernel.
    pub name: Arc<str>,
    /// What kind of work it does: `gemm`, `elementwise`, …
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The operation that launched it.
    pub op: Arc<str>,
    /// Mean time over the finds.
    #[serde(serialize_with = "rounding::as_us")]
    pub dur_us_mean: f64,
    /// Time over all finds.
    #[serde(serialize_with = "rounding::as_us")]
    pub dur_us_total: f64,
    /// Whether it could be part of a fused kernel.
    pub eligible: bool,
    /// Bytes it reads / 2²⁰, as the performance report counts them.
    #[serde(serialize_with = "rounding::as_some_ratio")]
    pub data_in_mb: Option<f64>,
    /// Bytes it writes / 2²⁰.
    #[serde(serialize_with = "rounding::as_some_ratio")]
    pub data_out_mb: Option<f64>,
    /// Operations / 10⁹.
    #[serde(serialize_with = "rounding::as_some_ratio")]
    pub gflops: Option<f64>,
    /// Unit and precision.
    pub compute_spec: Option<Cow<'static, str>>,
    /// Whether a model gives its numbers.
    pub has_perf_data: bool,
}

/// Operations that could be one kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FusionCandidate {
    /// The first module it was found in, with its number.
    pub module_name: Option<Arc<str>>,
    /// Its class.
    pub base_name: Option<Arc<str>>,
    /// Number of the group among those of the same class.
    pub variant: usize,
    /// Modules around it, outermost first.
    pub parent_chain: Vec<Arc<str>>,
    /// Where it is called from: `attention`, `mlp`, …
    pub call_site: &'static str,
    /// The pattern it is.
    pub pattern: Code,
    /// How sure it is.
    pub confidence: Confidence,
    /// Number of finds.
    pub instance_count: usize,
    /// Kernels of one find.
    pub kernel_count: usize,
    /// Of these, those that could be fused.
    pub eligible_kernel_count: usize,
    /// The kernels.
    pub kernels: Vec<CandidateKernel>,
    /// Kinds in order, joined by `+`.
    pub kernel_type_signature: String,
    /// How many there are of each kind.
    pub kernel_type_summary: BTreeMap<&'static str, usize>,
    /// Whether one of them is fused already.
    pub has_fused_kernel: bool,
    /// Measured time of all finds, backward and copies included.
    #[serde(serialize_with = "rounding::as_us")]
    pub total_kernel_time_us: f64,
    /// Of it, that of the backward of all finds, which the list of kernels leaves out.
    #[serde(serialize_with = "rounding::as_us")]
    pub backward_kernel_time_us: f64,
    /// Kernels of the backward of all finds.
    pub backward_kernel_count: usize,
    /// Shape of the operation it was recognised by.
    pub input_dims: Vec<i64>,
    /// `module`, `sibling_sequence` or `sequence_window`.
    pub source: &'static str,
    /// UIDs of all operations.
    pub op_uids: Vec<u32>,
}

/// What fusing one candidate brings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FusionEstimate {
    /// The module or span.
    pub operation: String,
    /// The pattern.
    pub pattern: Code,
    /// Share of the total time saved, in percent: middle, low, high.
    #[serde(serialize_with = "rounding::as_ratio")]
    pub impact_score: f64,
    /// Cautious end.
    #[serde(serialize_with = "rounding::as_ratio")]
    pub impact_score_low: f64,
    /// Hopeful end.
    #[serde(serialize_with = "rounding::as_ratio")]
    pub impact_score_high: f64,
    /// `full` if all kernels have a model, `partial` if some have, `measured` if nothing but the time is known.
    pub estimation: &'static str,
    /// `memory` or `compute`: what bounds the fused kernel.
    pub bound_type: &'static str,
    /// `matrix_compute` if matrix products take part, else `memory_bound`.
    pub fusion_type: &'static str,
    /// Time now: kernels of one find times finds.
    #[serde(serialize_with = "rounding::as_ms")]
    pub time_ms: f64,
    /// Pauses between the kernels that go with these; no part of their time.
    #[serde(serialize_with = "rounding::as_ms")]
    pub pauses_ms: f64,
    /// Time of the replacement at best.
    #[serde(serialize_with = "rounding::as_some_ms")]
    pub fused_time_ms: Option<f64>,
    /// Cautious end of what is saved.
    #[serde(serialize_with = "rounding::as_some_ms")]
    pub savings_ms_low: Option<f64>,
    /// Hopeful end.
    #[serde(serialize_with = "rounding::as_some_ms")]
    pub savings_ms_high: Option<f64>,
    /// Number of finds.
    pub instance_count: usize,
    /// Kernels of one find.
    pub kernel_count: usize,
    /// Of these, those with a model.
    pub modeled_kernel_count: usize,
    /// How sure the find is.
    pub confidence: Confidence,
    /// Kernels, each name once.
    pub affected_gpu_kernels: Vec<Arc<str>>,
    /// UIDs of all operations.
    pub op_uids: Vec<u32>,
    /// What to know before trusting the numbers.
    pub warning: Option<String>,
}

/// `kernel_fusion_metrics.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FusionMetrics {
    /// `kernel_fusion`.
    pub category: &'static str,
    /// `OK`.
    pub status: &'static str,
    /// Number of candidates.
    pub candidate_count: usize,
    /// Of these, those with an estimate.
    pub estimated_count: usize,
    /// Time of all candidates.
    #[serde(serialize_with = "rounding::as_ms")]
    pub total_time_ms: f64,
    /// Sum of the scores.
    #[serde(serialize_with = "rounding::as_ratio")]
    pub total_impact_score: f64,
    /// One for each candidate.
    pub impact_estimates: Vec<FusionEstimate>,
    /// UIDs of the operations in candidates of high confidence.
    pub high_confidence_uids: Vec<u32>,
    /// What to know before trusting the numbers.
    pub warnings: Vec<String>,
}

/// Codes that are no fusion: nothing takes the place of the operations, or a loop is reordered.
pub(super) fn is_fusion(code: Code) -> bool {
    !code.is_loop() && !code.goes()
}

/// The fusions that are sure.
pub(crate) fn sure(patterns: &[Pattern]) -> impl Iterator<Item = &Pattern> {
    patterns.iter().filter(|p| is_fusion(p.code) && p.confidence == Confidence::High)
}

/// The candidates, in the order of the patterns.
pub fn fusion_candidates(scene: &Scene<'_>, patterns: &[Pattern]) -> Vec<FusionCandidate> {
    let mut variants: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let fusions = patterns.iter().filter(|p| is_fusion(p.code));
    fusions
        .map(|p| {
            let variant = variants.entry(p.module.as_deref()).or_default();
            *variant += 1;
            candidate(scene, p, *variant)
        })
        .collect()
}

fn candidate(scene: &Scene<'_>, pattern: &Pattern, variant: usize) -> FusionCandidate {
    let kernels = kernels(scene, pattern);
    let kinds: Vec<&'static str> = kernels.iter().map(|k| k.kind).collect();
    let mut summary: BTreeMap<&'static str, usize> = BTreeMap::new();
    for kind in &kinds {
        *summary.entry(kind).or_default() += 1;
    }
    let first: &[LeafId] = pattern.leaves.first().map_or(&[], Vec::as_slice);
    let backward = pattern.backward.iter().flatten();
    let fused = |l: &LeafId| matches!(scene.look(l.index()).kind, Kind::Attention | Kind::Compiled);
    FusionCandidate {
        module_name: pattern.module_path.last().cloned(),
        base_name: pattern.module.clone(),
        variant,
        parent_chain: pattern.module_path.clone(),
        call_site: call_site(&pattern.module_path, pattern.code),
        pattern: pattern.code,
        confidence: pattern.confidence,
        instance_count: pattern.instances,
        kernel_count: kernels.len(),
        eligible_kernel_count: kernels.iter().filter(|k| k.eligible).count(),
        kernel_type_signature: kinds.join("+"),
        kernel_type_summary: summary,
        has_fused_kernel: first.iter().any(fused),
        total_kernel_time_us: 1e3 * pattern.total_ms(),
        backward_kernel_time_us: 1e3 * pattern.backward_ms,
        backward_kernel_count: backward.map(|&l| scene.program.leaf(l).kernels.len()).sum(),
        input_dims: pattern.anchor_dims.clone(),
        source: match pattern.source {
            Source::Module | Source::Annotation => "module",
            Source::Op => "sibling_sequence",
            Source::Window => "sequence_window",
        },
        op_uids: uids(scene.program, pattern),
        kernels,
    }
}

fn uids(program: &Program, pattern: &Pattern) -> Vec<u32> {
    let mut uids: Vec<u32> = pattern.all_leaves().map(|l| program.leaf(l).uid).collect();
    uids.sort_unstable();
    uids.dedup();
    uids
}

/// The kernels of the first find, position by position, with their times over all finds of as many operations.
fn kernels(scene: &Scene<'_>, pattern: &Pattern) -> Vec<CandidateKernel> {
    let first: &[LeafId] = pattern.leaves.first().map_or(&[], Vec::as_slice);
    let count = first.iter().map(|l| scene.program.leaf(*l).kernels.len()).sum();
    let mut kernels = Vec::with_capacity(count);
    for (position, l) in first.iter().enumerate() {
        let look = scene.look(l.index());
        let peers: Vec<&LeafId> =
            pattern.leaves.iter().filter(|f| f.len() == first.len()).map(|f| &f[position]).collect();
        let leaf = scene.program.leaf(*l);
        // What an operation does is done by its longest kernel; the others prepare or clean up.
        let main = (0..leaf.kernels.len()).rev().max_by(|&a, &b| leaf.kernels[a].us.total_cmp(&leaf.kernels[b].us));
        for (i, kernel) in leaf.kernels.iter().enumerate() {
            let time = |p: &&LeafId| scene.program.leaf(**p).kernels.get(i).map_or(0.0, |k| k.us);
            let total: f64 = peers.iter().map(time).sum();
            let cost = look.cost.as_ref().filter(|_| main == Some(i));
            let traffic = cost.and_then(|c| c.bytes).map(|bytes| traffic(look, bytes));
            kernels.push(CandidateKernel {
                name: Arc::clone(&kernel.name),
                kind: look.kind.as_str(),
                op: Arc::clone(&leaf.name),
                dur_us_mean: total / peers.len().max(1) as f64,
                dur_us_total: total,
                eligible: look.kind.is_fusible() || matches!(look.kind, Kind::Matrix | Kind::Softmax),
                data_in_mb: traffic.map(|(read, _)| read / MB),
                data_out_mb: traffic.map(|(_, written)| written / MB),
                gflops: cost.and_then(|c| c.flops).map(|f| f / 1e9),
                compute_spec: cost.and_then(jarvis_perf::models::Cost::spec),
                has_perf_data: cost.is_some(),
            });
        }
    }
    kernels
}

/// What an operation reads and writes of the bytes that its model counts.
fn traffic(look: &Look<'_>, bytes: f64) -> (f64, f64) {
    let read = || look.read().iter().map(Operand::bytes).sum::<f64>();
    let written = match look.kind {
        // What they leave is all that is counted beside the tensors they read.
        Kind::Reduce | Kind::Convolution | Kind::Cat => bytes - read(),
        // The largest operand says nothing of the result.
        Kind::Matrix => look
            .result()
            .zip(look.operands.first())
            .map_or_else(|| look.result_bytes(), |(dims, first)| numel(&dims) as f64 * element_size(first.dtype)),
        _ => look.result_bytes(),
    };
    let written = written.clamp(0.0, bytes.max(0.0));
    (bytes - written, written)
}

/// Whether a pattern is told as a fusion of the rows it covers: it has a candidate, and is no mere guess.
pub(crate) fn is_told_of_rows(pattern: &Pattern) -> bool {
    is_fusion(pattern.code) && pattern.confidence < Confidence::Low
}

/// A pattern as the tree data of a row tell it, with the numbers of its candidate.
pub(crate) fn fusion(program: &Program, pattern: &Pattern) -> Fusion {
    let first: &[LeafId] = pattern.leaves.first().map_or(&[], Vec::as_slice);
    Fusion {
        pattern: pattern.code.as_str().to_owned(),
        candidate: pattern.module.as_deref().unwrap_or(pattern.id.as_str()).to_owned(),
        kernels_per_instance: first.iter().map(|l| program.leaf(*l).kernels.len()).sum(),
        instances: pattern.instances,
        time_ms: Ms(pattern.total_ms()),
        fused_time_ms_low: pattern.fused_ms.map(|r| Ms(r.low)),
        fused_time_ms_high: pattern.fused_ms.map(|r| Ms(r.high)),
    }
}

/// Where a pattern is called from.
fn call_site(path: &[Arc<str>], code: Code) -> &'static str {
    let optimizer = code == Code::UnfusedOptimizer;
    place::call_site(path, if optimizer { Direction::Optimizer } else { Direction::Unknown })
}

/// What these candidates bring: those of the patterns.
pub fn fusion_metrics(scene: &Scene<'_>, patterns: &[Pattern], candidates: &[FusionCandidate]) -> FusionMetrics {
    let fusions: Vec<&Pattern> = patterns.iter().filter(|p| is_fusion(p.code)).collect();
    let pairs = fusions.iter().zip(candidates);
    let impact_estimates: Vec<FusionEstimate> = pairs.map(|(p, c)| estimate(scene, p, c)).collect();
    let mut high_confidence_uids: Vec<u32> = sure(patterns).flat_map(|p| uids(scene.program, p)).collect();
    high_confidence_uids.sort_unstable();
    high_confidence_uids.dedup();
    let warnings = impact_estimates.iter().filter_map(|e| e.warning.clone()).collect();
    FusionMetrics {
        category: "kernel_fusion",
        status: "OK",
        candidate_count: fusions.len(),
        estimated_count: impact_estimates.iter().filter(|e| e.savings_ms_high.is_some()).count(),
        total_time_ms: fusions.iter().map(|p| p.total_ms()).sum(),
        total_impact_score: impact_estimates.iter().map(|e| e.impact_score).sum(),
        impact_estimates,
        high_confidence_uids,
        warnings,
    }
}

fn estimate(scene: &Scene<'_>, pattern: &Pattern, candidate: &FusionCandidate) -> FusionEstimate {
    let kernels = &candidate.kernels;
    let score = |ms: Option<f64>| ms.map_or(0.0, |ms| scene.utilization.percent_of_total(ms));
    let (low, high) = (pattern.saved_ms.map(|s| s.low), pattern.saved_ms.map(|s| s.high));
    let modeled = kernels.iter().filter(|k| k.has_perf_data).count();
    let matrix = kernels.iter().any(|k| k.kind == Kind::Matrix.as_str());
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let names = kernels.iter().filter(|k| seen.insert(&k.name)).map(|k| Arc::clone(&k.name)).collect();
    FusionEstimate {
        operation: pattern.module.as_deref().unwrap_or(pattern.code.as_str()).to_owned(),
        pattern: pattern.code,
        impact_score: f64::midpoint(score(low), score(high)),
        impact_score_low: score(low),
        impact_score_high: score(high),
        estimation: match (pattern.saved_ms.is_some(), modeled == kernels.len()) {
            (false, _) => "measured",
            (true, true) => "full",
            (true, false) => "partial",
        },
        bound_type: if matrix { "compute" } else { "memory" },
        fusion_type: if matrix { "matrix_compute" } else { "memory_bound" },
        time_ms: pattern.total_ms(),
        pauses_ms: pattern.pauses_ms,
        fused_time_ms: pattern.fused_ms.map(|f| f.low),
        savings_ms_low: low,
        savings_ms_high: high,
        instance_count: pattern.instances,
        kernel_count: kernels.len(),
        modeled_kernel_count: modeled,
        confidence: pattern.confidence,
        affected_gpu_kernels: names,
        op_uids: candidate.op_uids.clone(),
        warning: pattern.saved_ms.is_none().then(|| format!("{}: {}", pattern.code.as_str(), pattern.basis)),
    }
}

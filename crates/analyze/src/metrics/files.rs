//! Metadata, manifest and tree data.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value as Json;

use super::{SCHEMA_VERSION, Scope, Status, UtilizationMetrics};
use crate::prepare::timing::TIME_NOTE;
use crate::prepared::{BoundType, Category, Prepared, TimeBreakdown, TopOperation, Utilization};
use crate::rounding::{Ms, Percent, Ratio, Us};
use crate::thresholds::Threshold;

/// Said to whoever reads the files: what they need of the trace stands in them.
const POLICY: &str = "DO_NOT_LOAD_TRACE_use_precomputed_tree_data";

impl From<&Utilization> for UtilizationMetrics {
    fn from(u: &Utilization) -> Self {
        Self {
            total_time_ms: Ms(u.total_time_ms),
            computation_time_ms: Ms(u.computation_time_ms),
            computation_time_percent: Percent(u.computation_time_percent),
            exposed_comm_time_ms: Ms(u.exposed_comm_time_ms),
            exposed_comm_time_percent: Percent(u.exposed_comm_time_percent),
            exposed_memcpy_time_ms: Ms(u.exposed_memcpy_time_ms),
            exposed_memcpy_time_percent: Percent(u.exposed_memcpy_time_percent),
            idle_time_ms: Ms(u.idle_time_ms),
            idle_time_percent: Percent(u.idle_time_percent),
            busy_time_ms: Ms(u.busy_time_ms),
            total_comm_time_ms: Ms(u.total_comm_time_ms),
            total_memcpy_time_ms: Ms(u.total_memcpy_time_ms),
        }
    }
}

/// `time_breakdown` of metadata.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct TimeBreakdownMetrics {
    /// Kernel time.
    pub gpu_kernel_time_ms: Ms,
    /// Host time.
    pub cpu_duration_ms: Ms,
    /// Host time beyond kernel time, of host-dominated rows.
    pub sync_time_ms: Ms,
    /// Host-dominated rows.
    pub sync_ops_count: usize,
    /// Whether that is worth telling.
    pub has_sync_bottleneck: bool,
    /// Fixed.
    pub note: &'static str,
}

impl From<&TimeBreakdown> for TimeBreakdownMetrics {
    fn from(t: &TimeBreakdown) -> Self {
        Self {
            gpu_kernel_time_ms: Ms(t.gpu_kernel_time_ms),
            cpu_duration_ms: Ms(t.cpu_duration_ms),
            sync_time_ms: Ms(t.sync_time_ms),
            sync_ops_count: t.sync_ops_count,
            has_sync_bottleneck: t.has_sync_bottleneck,
            note: TIME_NOTE,
        }
    }
}

/// `elementwise_baseline` of metadata.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BaselineMetrics {
    /// Bandwidth.
    pub bandwidth_tbs: Ratio,
    /// In percent of the peak.
    pub efficiency_percent: Percent,
    /// `measured` or `default`.
    pub source: &'static str,
    /// Number of rows it was taken from.
    pub rows: usize,
}

/// Peaks and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Peaks {
    /// Bandwidth.
    pub peak_hbm_bw_tbs: f64,
    /// Matrix rate for bf16.
    pub peak_bf16_maf_tflops: Option<f64>,
    /// By Compute Spec.
    pub max_achievable_tflops: BTreeMap<String, f64>,
    /// By Compute Spec: `seed`, `table`, `arch_file`, `flag`, `derived`.
    pub peak_source: BTreeMap<String, &'static str>,
}

impl Peaks {
    /// Of a prepared trace: the listed ones, and the derived ones that its rows need.
    pub fn of(p: &Prepared) -> Self {
        let used = p.rows.iter().filter_map(|r| r.efficiency.compute_spec.as_deref());
        let mut specs: Vec<&str> = p.platform.peaks.keys().map(String::as_str).chain(used).collect();
        specs.sort_unstable();
        specs.dedup();
        let known: Vec<_> = specs.into_iter().filter_map(|s| Some((s.to_owned(), p.platform.peak(s)?))).collect();
        let word = |source: &'static str| if matches!(source, "reference" | "datasheet") { "table" } else { source };
        Self {
            peak_hbm_bw_tbs: p.peak_hbm_tbs(),
            peak_bf16_maf_tflops: p.platform.peak("matrix_bf16").map(|f| f.value),
            max_achievable_tflops: known.iter().map(|(s, f)| (s.clone(), f.value)).collect(),
            peak_source: known.into_iter().map(|(s, f)| (s, word(f.source.as_str()))).collect(),
        }
    }
}

/// `metadata/<category>_metadata.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Metadata {
    /// 1.
    pub schema_version: u32,
    /// Key of the platform.
    pub platform: String,
    /// As the driver calls it.
    pub device_name: Option<String>,
    /// Peaks.
    #[serde(flatten)]
    pub peaks: Peaks,
    /// Device memory.
    pub memory_gb: Option<f64>,
    /// Multiprocessors or compute units.
    pub compute_units: Option<i64>,
    /// As given.
    pub trace_path: String,
    /// Always `.`.
    pub output_dir: &'static str,
    /// As shown.
    pub category: Arc<str>,
    /// Key.
    pub category_name: Arc<str>,
    /// `compute_kernel` or `system`.
    pub tier: &'static str,
    /// One trace, or one against another.
    pub comparison_scope: Scope,
    /// The GPU's time.
    pub gpu_utilization: UtilizationMetrics,
    /// Host and GPU time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_breakdown: Option<TimeBreakdownMetrics>,
    /// What simple elementwise operations reach.
    pub elementwise_baseline: Option<BaselineMetrics>,
    /// The limits that the analyzer reads.
    pub thresholds: BTreeMap<&'static str, f64>,
    /// Fixed.
    pub trace_loading_policy: &'static str,
}

impl Metadata {
    /// Of a compute category. `thresholds` are those its analyzer reads.
    pub fn of(p: &Prepared, category: &Category, trace_path: &str, scope: Scope, thresholds: &[Threshold]) -> Self {
        let baseline = &p.baseline;
        Self {
            schema_version: SCHEMA_VERSION,
            platform: p.platform.name.clone(),
            device_name: p.device_name.clone(),
            peaks: Peaks::of(p),
            memory_gb: p.platform.memory_gb.map(|f| f.value),
            compute_units: p.compute_units,
            trace_path: trace_path.to_owned(),
            output_dir: ".",
            category: Arc::clone(&category.display),
            category_name: Arc::clone(&category.key),
            tier: "compute_kernel",
            comparison_scope: scope,
            gpu_utilization: (&p.utilization).into(),
            time_breakdown: Some((&category.time).into()),
            elementwise_baseline: Some(BaselineMetrics {
                bandwidth_tbs: Ratio(baseline.bandwidth_tbs),
                efficiency_percent: Percent(baseline.efficiency_percent),
                source: baseline.source,
                rows: baseline.rows.len(),
            }),
            thresholds: thresholds.iter().map(|&t| (t.key(), p.thresholds.get(t))).collect(),
            trace_loading_policy: POLICY,
        }
    }
}

/// An entry of `top_operations` in the manifest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopOperationMetrics {
    /// 1 takes most.
    pub rank: usize,
    /// The launching operation.
    pub name: Arc<str>,
    /// Category of the analysis; none for what launches kernels of several.
    pub category: Option<Arc<str>>,
    /// Time of the kernels it launched itself, with that of copies.
    pub time_ms: Ms,
    /// Of that, copies: they have no share of what computes.
    pub copy_time_ms: Ms,
    /// Of the computation time.
    pub percent_of_compute: Percent,
    /// Running sum.
    pub cumulative_percent: Percent,
    /// Calls.
    pub count: usize,
    /// What bounds it.
    pub bound_type: Option<BoundType>,
    /// Operations per byte.
    pub flops_per_byte: Option<Ratio>,
    /// Best time over time.
    pub efficiency_percent: Option<Percent>,
    /// Names of the rows its kernels are in.
    pub aliases: Vec<Arc<str>>,
}

impl From<&TopOperation> for TopOperationMetrics {
    fn from(t: &TopOperation) -> Self {
        Self {
            rank: t.rank,
            name: Arc::clone(&t.name),
            category: t.category.clone(),
            time_ms: Ms(t.time_ms),
            copy_time_ms: Ms(t.copy_time_ms),
            percent_of_compute: Percent(t.percent_of_compute),
            cumulative_percent: Percent(t.cumulative_percent),
            count: t.count,
            bound_type: t.bound_type,
            flops_per_byte: t.flops_per_byte.map(Ratio),
            efficiency_percent: t.efficiency_percent.map(Percent),
            aliases: t.aliases.clone(),
        }
    }
}

/// What the run was.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Run {
    /// A label.
    pub cluster: Option<String>,
    /// A label.
    pub container: Option<String>,
    /// What the model is called in the report.
    pub model_name: Option<String>,
    /// Whether Python frames were recorded.
    pub python_stack: bool,
    /// Whether shapes were recorded.
    pub record_shapes: bool,
    /// Profiler steps.
    pub steps: u32,
    /// GPUs that the process saw.
    pub device_count: usize,
}

/// An entry of `categories` in the manifest.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ManifestCategory {
    /// Key.
    pub name: Arc<str>,
    /// As shown.
    pub display_name: Arc<str>,
    /// Analyzer.
    pub skill: &'static str,
    /// `compute_kernel` or `system`.
    pub tier: &'static str,
    /// Rows.
    pub ops_count: usize,
    /// Calls.
    pub operation_count: usize,
    /// Kernel time, copies left out.
    pub gpu_kernel_time_ms: Ms,
    /// Copies.
    pub copy_time_ms: Ms,
    /// Of the computation time.
    pub percent_of_compute: Percent,
    /// Host time.
    pub cpu_duration_ms: Ms,
    /// Host time beyond kernel time, of host-dominated rows.
    pub sync_time_ms: Ms,
    /// Host-dominated rows.
    pub sync_ops_count: usize,
    /// Whether that is worth telling.
    pub has_sync_bottleneck: bool,
    /// Path of the rows.
    pub csv_file: Option<String>,
    /// Path of the metadata.
    pub metadata_file: Option<String>,
    /// Path of the metrics.
    pub metrics_file: Option<String>,
    /// Path of the tree data.
    pub tree_data_file: Option<String>,
    /// Path of the findings.
    pub findings_file: Option<String>,
    /// Path of the data of a system category.
    pub data_file: Option<String>,
    /// Whether it could be analysed.
    pub status: Status,
    /// 0 for idle time where there is some.
    pub priority: Option<u32>,
}

impl ManifestCategory {
    /// Of a compute category.
    pub fn compute(category: &Category, status: Status) -> Self {
        let key = &category.key;
        let t = &category.time;
        Self {
            name: Arc::clone(key),
            display_name: Arc::clone(&category.display),
            skill: category.analyzer,
            tier: "compute_kernel",
            ops_count: category.rows.len(),
            operation_count: category.operation_count,
            gpu_kernel_time_ms: Ms(t.gpu_kernel_time_ms),
            copy_time_ms: Ms(t.copy_time_ms),
            percent_of_compute: Percent(category.percent_of_compute),
            cpu_duration_ms: Ms(t.cpu_duration_ms),
            sync_time_ms: Ms(t.sync_time_ms),
            sync_ops_count: t.sync_ops_count,
            has_sync_bottleneck: t.has_sync_bottleneck,
            csv_file: Some(format!("category_data/{key}_ops.csv")),
            metadata_file: Some(format!("metadata/{key}_metadata.json")),
            metrics_file: Some(format!("category_data/{key}_metrics.json")),
            tree_data_file: Some(format!("category_data/{key}_tree_data.json")),
            findings_file: Some(format!("category_findings/{key}_findings.md")),
            data_file: None,
            status,
            priority: None,
        }
    }
}

/// `category_manifest.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// 1.
    pub schema_version: u32,
    /// Key of the platform.
    pub platform: String,
    /// As given.
    pub trace_path: String,
    /// Always `.`.
    pub output_dir: &'static str,
    /// One trace, or one against another.
    pub comparison_scope: Scope,
    /// What the run was.
    pub run: Run,
    /// The GPU's time.
    pub gpu_utilization: UtilizationMetrics,
    /// Whether the GPU computes most of the time.
    pub utilization_ok: bool,
    /// Whether it idles most of the time.
    pub cpu_idle_critical: bool,
    /// Whether findings about the system come first.
    pub system_first: bool,
    /// The operations that take most time.
    pub top_operations: Vec<TopOperationMetrics>,
    /// System tier first, then compute tier, most time first.
    pub categories: Vec<ManifestCategory>,
    /// Fixed.
    pub time_metric_note: &'static str,
    /// Peaks.
    pub peaks: Peaks,
    /// The reference trace, in comparative runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<Json>,
}

/// What a manifest needs besides the prepared trace.
#[derive(Debug, Clone, Default)]
pub struct ManifestInputs {
    /// As given.
    pub trace_path: String,
    /// One trace, or one against another.
    pub scope: Scope,
    /// Labels and the model's name.
    pub cluster: Option<String>,
    /// A label.
    pub container: Option<String>,
    /// What the model is called in the report.
    pub model_name: Option<String>,
    /// Entries of the system tier.
    pub system: Vec<ManifestCategory>,
    /// Entries of the compute tier.
    pub compute: Vec<ManifestCategory>,
}

/// Idle time above this share of the window is critical, by the reference's rule.
const IDLE_CRITICAL_PERCENT: f64 = 50.0;

impl Manifest {
    /// Of a prepared trace.
    pub fn of(p: &Prepared, inputs: ManifestInputs) -> Self {
        let ok = p.utilization.computation_time_percent >= p.thresholds.get(Threshold::UtilComputeOk);
        let mut categories = inputs.system;
        categories.extend(inputs.compute);
        Self {
            schema_version: SCHEMA_VERSION,
            platform: p.platform.name.clone(),
            trace_path: inputs.trace_path,
            output_dir: ".",
            comparison_scope: inputs.scope,
            run: Run {
                cluster: inputs.cluster,
                container: inputs.container,
                model_name: inputs.model_name,
                python_stack: p.program.has_frames,
                record_shapes: p.record_shapes,
                steps: p.program.steps,
                device_count: p.device_count,
            },
            gpu_utilization: (&p.utilization).into(),
            utilization_ok: ok,
            cpu_idle_critical: p.utilization.idle_time_percent > IDLE_CRITICAL_PERCENT,
            system_first: !ok,
            top_operations: p.top_operations.iter().map(Into::into).collect(),
            categories,
            time_metric_note: TIME_NOTE,
            peaks: Peaks::of(p),
            reference: None,
        }
    }
}

/// An event above an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Parent {
    /// Name.
    pub name: String,
    /// Category of the event.
    pub cat: String,
    /// UID.
    pub uid: u32,
    /// Whether it is a call of a module.
    pub module: bool,
}

/// An event below an operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubtreeNode {
    /// 0 is the operation itself.
    pub depth: usize,
    /// Name.
    pub name: String,
    /// Category of the event.
    pub cat: String,
    /// UID.
    pub uid: u32,
    /// As recorded.
    pub input_dims: Json,
    /// As recorded.
    pub input_type: Json,
    /// Time of the kernels below it.
    pub kernel_time_us: Us,
    /// Names of the kernels it launched itself.
    pub kernels: Vec<String>,
}

/// A leaf operation under the same module, or beside it where there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sibling {
    /// UID.
    pub uid: u32,
    /// Operation.
    pub name: Arc<str>,
    /// Category of the analysis.
    pub category: Option<Arc<str>>,
    /// Time of its kernels.
    pub kernel_time_us: Us,
    /// As recorded.
    pub input_dims: Json,
    /// Whether it is the operation itself.
    pub is_self: bool,
}

/// The fusion candidate that covers an operation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fusion {
    /// Code of the pattern.
    pub pattern: String,
    /// What it is called.
    pub candidate: String,
    /// Kernels of one instance, as its candidate counts them.
    pub kernels_per_instance: usize,
    /// Instances.
    pub instances: usize,
    /// Kernel time of all, copies around them and backward work included: what the fused form stands in for.
    pub time_ms: Ms,
    /// Time that a fused form would take, hopeful end.
    pub fused_time_ms_low: Option<Ms>,
    /// Cautious end.
    pub fused_time_ms_high: Option<Ms>,
}

/// An entry of `<category>_tree_data.json`, which is keyed by the UID as text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TreeEntry {
    /// Operation.
    pub op_name: Arc<str>,
    /// UID.
    pub ex_uid: u32,
    /// As recorded.
    pub input_dims: Json,
    /// As recorded.
    pub input_type: Json,
    /// As recorded.
    pub input_strides: Json,
    /// Calls of the row.
    pub instance_count: usize,
    /// Innermost first; calls of the runtime are left out.
    pub parent_chain: Vec<Parent>,
    /// Modules with numbers, outermost first.
    pub module_path: Arc<[Arc<str>]>,
    /// Where it is called from.
    pub call_site: &'static str,
    /// What is below it, in pre-order.
    pub subtree: Vec<SubtreeNode>,
    /// Whether that was cut.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
    /// Leaf operations under the same module, operation or sequence, in order of launch.
    pub siblings: Vec<Sibling>,
    /// Whether a fusion pattern covers it.
    pub fusion_opportunity: bool,
    /// Which.
    pub fusion: Option<Fusion>,
    /// What limits these data.
    pub notes: Vec<String>,
}

//! `findings.json`: the one place that other programs read. Its names are stable.

use std::path::Path;

use jarvis_analyze::finding::{Finding, Tier};
use jarvis_analyze::metrics::{Peaks, UtilizationMetrics};
use jarvis_analyze::prepare::warnings::guessed_platform;
use jarvis_analyze::prepared::{DeviceTime, ModelInfo};
use jarvis_analyze::rounding::{Ms, Percent};
use jarvis_trace::Severity;
use serde::Serialize;

use super::comparison::{self, Comparison, FindingComparison};
use crate::sections::cross::recoverable_percent;
use crate::{Run, Versus};

/// Name and version of the form.
pub(crate) const SCHEMA: &str = "jarvis.findings/1";

/// The whole file.
#[derive(Serialize)]
pub(crate) struct Document<'a> {
    schema: &'static str,
    trace: TraceRead<'a>,
    platform: PlatformUsed<'a>,
    gpu_timeline: GpuTimeline,
    model: Model<'a>,
    findings: Vec<Told>,
    /// What recommendations about kernels could save of the compute time at best.
    #[serde(skip_serializing_if = "Option::is_none")]
    recoverable_percent_of_compute: Option<Percent>,
    /// What differs from the reference, in comparative runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<Comparison<'a>>,
    warnings: Vec<String>,
}

/// A finding, and what its operations take on the reference.
#[derive(Serialize)]
struct Told {
    #[serde(flatten)]
    finding: Finding,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<FindingComparison>,
}

/// What was read.
#[derive(Serialize)]
struct TraceRead<'a> {
    /// As the user gave it.
    path: &'a str,
    /// Its base name.
    file: &'a str,
    events: u64,
    steps: usize,
    device_count: usize,
    capture: Capture,
}

/// What the profiler was told to record: what is missing here limits the findings.
#[derive(Serialize)]
struct Capture {
    shapes: bool,
    python_stack: bool,
    profiler_steps: bool,
}

/// What it was measured against.
#[derive(Serialize)]
struct PlatformUsed<'a> {
    name: &'a str,
    device_name: Option<&'a str>,
    compute_units: Option<i64>,
    memory_gb: Option<f64>,
    #[serde(flatten)]
    peaks: Peaks,
}

/// The GPU's time; all GPUs of the recording are one timeline.
#[derive(Serialize)]
struct GpuTimeline {
    #[serde(flatten)]
    all: UtilizationMetrics,
    /// Each by itself, if several worked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    devices: Vec<DeviceMetrics>,
}

/// One of several GPUs. Percentages are of the window of them all.
#[derive(Serialize)]
struct DeviceMetrics {
    device: String,
    computation_time_ms: Ms,
    exposed_comm_time_ms: Ms,
    exposed_memcpy_time_ms: Ms,
    busy_time_ms: Ms,
    busy_time_percent: Percent,
    idle_time_ms: Ms,
    idle_time_percent: Percent,
}

impl From<&DeviceTime> for DeviceMetrics {
    fn from(d: &DeviceTime) -> Self {
        Self {
            device: d.device.clone(),
            computation_time_ms: Ms(d.computation_time_ms),
            exposed_comm_time_ms: Ms(d.exposed_comm_time_ms),
            exposed_memcpy_time_ms: Ms(d.exposed_memcpy_time_ms),
            busy_time_ms: Ms(d.busy_time_ms),
            busy_time_percent: Percent(d.busy_time_percent),
            idle_time_ms: Ms(d.idle_time_ms),
            idle_time_percent: Percent(d.idle_time_percent),
        }
    }
}

/// What the model seems to be.
#[derive(Serialize)]
struct Model<'a> {
    /// As reports call it.
    name: &'a str,
    #[serde(flatten)]
    info: &'a ModelInfo,
}

/// The file of a run.
pub(crate) fn document<'a>(run: &'a Run<'_>, versus: Option<&'a Versus<'_>>) -> Document<'a> {
    let p = &run.analysis.prepared;
    let path = run.labels.trace_path.as_str();
    Document {
        schema: SCHEMA,
        trace: TraceRead {
            path,
            file: Path::new(path).file_name().and_then(|n| n.to_str()).unwrap_or(path),
            events: run.summary.events(),
            steps: run.summary.steps.len(),
            device_count: p.device_count,
            capture: Capture {
                shapes: p.has_shapes,
                python_stack: p.program.has_frames,
                profiler_steps: !run.summary.steps.is_empty(),
            },
        },
        platform: PlatformUsed {
            name: &p.platform.name,
            device_name: p.device_name.as_deref(),
            compute_units: p.compute_units,
            memory_gb: p.platform.memory_gb.map(|f| f.value),
            peaks: Peaks::of(p),
        },
        gpu_timeline: GpuTimeline {
            all: (&p.utilization).into(),
            devices: p.devices.iter().map(DeviceMetrics::from).collect(),
        },
        model: Model { name: run.model_name(), info: &p.model },
        recoverable_percent_of_compute: recoverable_percent(run).map(Percent),
        findings: run
            .analysis
            .findings
            .iter()
            .map(|f| Told {
                finding: with_replay(run, f),
                comparison: versus.and_then(|v| comparison::of_finding(v, f)),
            })
            .collect(),
        comparison: versus.map(comparison::comparison),
        warnings: warnings(run, versus),
    }
}

/// A finding with the replay package of its operation, or with the reason why there is none.
fn with_replay(run: &Run<'_>, finding: &Finding) -> Finding {
    let mut finding = finding.clone();
    let replayable = finding.tier == Tier::Compute && finding.replay_reason.is_none();
    if finding.replay_package.is_none() && replayable {
        let made = finding.operations.iter().find_map(|o| run.replay.iter().find(|r| r.op == o.name));
        match made {
            Some(entry) => finding.replay_package = Some(entry.path.clone()),
            None => finding.replay_reason = Some("no package was written in this run".to_owned()),
        }
    }
    finding
}

/// What all is measured against if that is a guess, what failed, what the recording lacks, and what a reader of the
/// numbers should know, in this order.
fn warnings(run: &Run<'_>, versus: Option<&Versus<'_>>) -> Vec<String> {
    let failed = run.analysis.failures().map(|o| {
        let why = match &o.file {
            jarvis_analyze::metrics::MetricsFile::Short(short) => short.error.as_deref().unwrap_or_default(),
            jarvis_analyze::metrics::MetricsFile::Full(_) => "",
        };
        format!("{}: {why}", o.display)
    });
    let defects = run.report.diagnostics.seen().filter(|(d, ..)| d.severity > Severity::Info);
    let defects = defects.map(|(d, count, _)| format!("{} ({count}x): {}. {}", d.id, d.meaning, d.remedy));
    let compared = versus.into_iter().flat_map(|v| v.comparative.warnings.iter().cloned());
    let guessed = guessed_platform(&run.analysis.prepared);
    let told = run.analysis.warnings.iter().filter(|w| Some(*w) != guessed.as_ref()).cloned();
    guessed.clone().into_iter().chain(failed).chain(defects).chain(compared).chain(told).collect()
}

//! `cpu_idle_metrics.json`: how much the GPU idles and why.
//!
//! **What it finds.** Every gap on the GPU with its class and what the host did meanwhile.
//! **Why it matters.** Idle time is lost whatever the kernels do.
//! **How it is computed.** See [`super::gaps`]; severity and patterns by the limits below.
//! **What to do.** See the findings `launch_bound`, `host_sync` and `input_starved`.
//! **Limits.** What the host did is known only as far as it was recorded; without Python frames much of it is not.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_trace::InOrder;
use serde::Serialize;

use super::System;
use super::gaps::{GapClass, Gaps, HostActivity};
use super::launch_actions::{fewer_launches, less_host_time};
use super::severity::{IDLE, Severity};
use super::texts::counted;
use crate::finding::Range;
use crate::prepared::Utilization;
use crate::rounding::{Ms, Percent, Ratio, Us, shown, shown_ms};

/// Idle time above this share, in percent, is worth a line.
const LINE_PERCENT: f64 = 5.0;

/// Short kernels above this share of all, in percent, make launches costly.
pub(super) const SHORT_PERCENT: f64 = 30.0;

/// What idle time could fall to, in percent.
const TARGET_PERCENT: f64 = 20.0;

/// Most rows of the list of what the host did.
pub(super) const ACTIVITY_ROWS: usize = 10;

/// `cpu_idle_metrics.json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CpuIdleMetrics {
    /// `OK`.
    pub status: &'static str,
    /// By idle percent without the edges of the capture.
    pub severity: Severity,
    /// The same above `util.idle_card_percent`.
    pub idle_flagged: bool,
    /// The GPU's time.
    pub gpu_utilization: IdleUtilization,
    /// Kernels by number and length.
    pub kernel_analysis: KernelAnalysis,
    /// Gaps by length, class and host activity.
    pub gap_analysis: GapAnalysis,
    /// Calls in which the host waited.
    pub sync: Sync,
    /// What is typical of idle GPUs and holds here.
    pub patterns_detected: Vec<IdlePattern>,
    /// If idle time without the edges fell to the target; 160 stands for 160 or more, see [`Range::MOST`].
    pub potential_speedup: Ratio,
    /// The target.
    pub target_idle_percent: Percent,
    /// Always empty: idle time has no operations.
    pub impact_estimates: [(); 0],
}

/// The GPU's time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct IdleUtilization {
    /// From the first start to the last end of GPU work.
    pub total_time_ms: Ms,
    /// Nothing goes on.
    pub idle_time_ms: Ms,
    /// The same in percent.
    pub idle_time_percent: Percent,
    /// The same with the edges of the capture left out of both.
    pub idle_without_edges_percent: Percent,
    /// Some kernel computes, in percent.
    pub computation_percent: Percent,
    /// Only communication goes on, in percent.
    pub communication_percent: Percent,
    /// Only copies go on, in percent.
    pub memcpy_percent: Percent,
}

/// Kernels by number and length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelAnalysis {
    /// Kernels.
    pub total_kernel_count: usize,
    /// Shorter than 10 µs.
    pub short_kernel_count: usize,
    /// The same in percent.
    pub short_kernel_percent: Percent,
    /// Mean time.
    pub avg_kernel_time_us: Us,
    /// By category of the launching operation.
    pub kernel_count_by_category: BTreeMap<Arc<str>, usize>,
    /// Share of kernel time that no operation launched.
    pub without_operation_percent: Percent,
}

/// Gaps by length, class and host activity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapAnalysis {
    /// All gaps.
    pub gap_count: usize,
    /// Time at the edges of the capture; no part of the shares.
    pub edge_gap_ms: Ms,
    /// By length.
    pub histogram: Vec<GapBucket>,
    /// By class, most time first.
    pub by_class: Vec<ClassRow>,
    /// The longest.
    pub top_gaps: Vec<TopGap>,
    /// By what the host did, most time first.
    pub by_host_activity: Vec<ActivityRow>,
}

/// Gaps of some length.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GapBucket {
    /// Length in microseconds: `5-20`.
    pub bucket_us: &'static str,
    /// Gaps.
    pub count: usize,
    /// Their time.
    pub time_ms: Ms,
}

/// Gaps of a class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct ClassRow {
    /// Why the GPU waited.
    pub class: GapClass,
    /// Gaps.
    pub count: usize,
    /// Their time.
    pub time_ms: Ms,
    /// Of the idle time without the edges of the capture.
    pub percent_of_idle: Percent,
}

/// One of the longest gaps.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopGap {
    /// 1 is the longest.
    pub rank: usize,
    /// From the first event of the file on, as trace viewers count.
    pub start_ms: Ms,
    /// How long.
    pub duration_us: Us,
    /// Why the GPU waited.
    pub class: GapClass,
    /// What the host did.
    pub host_activity: Option<Arc<str>>,
    /// Whether the host was in it for half of the gap or more, so that tables may say so.
    #[serde(skip)]
    pub is_doing: bool,
    /// Name of the GPU event before.
    pub before_kernel: Arc<str>,
    /// Name of the GPU event after.
    pub after_kernel: Arc<str>,
}

/// Gaps during some host activity.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ActivityRow {
    /// Name of the frame, operation or call.
    pub name: Arc<str>,
    /// Time of the gaps.
    pub time_ms: Ms,
    /// Gaps.
    pub count: usize,
    /// Of that time, what the host was in it.
    pub covered_ms: Ms,
}

/// Calls in which the host waited for the GPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Sync {
    /// Calls.
    pub sync_call_count: usize,
    /// Host time in them.
    pub sync_time_ms: Ms,
    /// By name.
    pub by_name: BTreeMap<Arc<str>, SyncName>,
}

/// Calls of one name.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct SyncName {
    /// Calls.
    pub count: usize,
    /// Host time in them.
    pub time_ms: Ms,
}

/// Something that is typical of idle GPUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IdlePattern {
    /// Stable name.
    pub name: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Its numbers.
    pub evidence: String,
    /// What it costs.
    pub impact: String,
    /// What to do; nothing where it is done already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub solution: Option<String>,
}

impl CpuIdleMetrics {
    /// The metrics of a trace.
    pub fn of(system: &System, utilization: &Utilization) -> Self {
        let idle = system.gaps.idle_without_edges_percent();
        // Never all of the window is saved, whatever is idle.
        let busy = (100.0 - idle).max(100.0 * (1.0 - Range::MOST));
        let potential = if idle > TARGET_PERCENT { (100.0 - TARGET_PERCENT) / busy } else { 1.0 };
        Self {
            status: "OK",
            severity: Severity::above(idle, IDLE),
            idle_flagged: idle > system.card_percent,
            gpu_utilization: IdleUtilization {
                total_time_ms: Ms(utilization.total_time_ms),
                idle_time_ms: Ms(utilization.idle_time_ms),
                idle_time_percent: Percent(utilization.idle_time_percent),
                idle_without_edges_percent: Percent(idle),
                computation_percent: Percent(utilization.computation_time_percent),
                communication_percent: Percent(utilization.exposed_comm_time_percent),
                memcpy_percent: Percent(utilization.exposed_memcpy_time_percent),
            },
            kernel_analysis: kernel_analysis(system),
            gap_analysis: gap_analysis(&system.gaps),
            sync: sync(&system.gaps),
            patterns_detected: if idle > LINE_PERCENT { patterns(system) } else { Vec::new() },
            potential_speedup: Ratio(potential),
            target_idle_percent: Percent(TARGET_PERCENT),
            impact_estimates: [],
        }
    }
}

fn kernel_analysis(system: &System) -> KernelAnalysis {
    let kernels = &system.kernels;
    KernelAnalysis {
        total_kernel_count: kernels.count,
        short_kernel_count: kernels.short,
        short_kernel_percent: Percent(kernels.short_percent()),
        avg_kernel_time_us: Us(kernels.mean_us()),
        kernel_count_by_category: kernels.by_category.clone(),
        without_operation_percent: Percent(kernels.without_operation_percent),
    }
}

fn gap_analysis(gaps: &Gaps) -> GapAnalysis {
    const BUCKETS: [&str; 5] = ["<5", "5-20", "20-100", "100-1000", ">=1000"];
    let edge = gaps.class(GapClass::Edge).time;
    let row = |class: GapClass| {
        let tally = gaps.class(class);
        ClassRow {
            class,
            count: tally.count,
            time_ms: Ms(tally.time.as_ms()),
            percent_of_idle: Percent(super::gaps::percent(tally.time, gaps.idle() - edge)),
        }
    };
    let mut by_class: Vec<ClassRow> =
        GapClass::ALL.into_iter().filter(|&c| c != GapClass::Edge && gaps.class(c).count > 0).map(row).collect();
    by_class.order_by(|a, b| b.time_ms.0.total_cmp(&a.time_ms.0).then_with(|| a.class.as_str().cmp(b.class.as_str())));
    let histogram = BUCKETS.into_iter().zip(gaps.histogram);
    GapAnalysis {
        gap_count: gaps.gaps.len(),
        edge_gap_ms: Ms(edge.as_ms()),
        histogram: histogram
            .map(|(bucket_us, t)| GapBucket { bucket_us, count: t.count, time_ms: Ms(t.time.as_ms()) })
            .collect(),
        by_class,
        top_gaps: gaps.longest.iter().zip(1..).map(|(gap, rank)| top_gap(gap, rank)).collect(),
        by_host_activity: gaps.activities.iter().take(ACTIVITY_ROWS).map(activity_row).collect(),
    }
}

fn activity_row(a: &HostActivity) -> ActivityRow {
    ActivityRow {
        name: Arc::clone(&a.name),
        time_ms: Ms(a.tally.time.as_ms()),
        count: a.tally.count,
        covered_ms: Ms(a.covered.time.as_ms()),
    }
}

fn top_gap(gap: &super::gaps::LongGap, rank: usize) -> TopGap {
    TopGap {
        rank,
        start_ms: Ms(gap.position.as_ms()),
        duration_us: Us(gap.length.as_us()),
        class: gap.class,
        host_activity: gap.host_activity.clone(),
        is_doing: gap.is_doing,
        before_kernel: Arc::clone(&gap.before_kernel),
        after_kernel: Arc::clone(&gap.after_kernel),
    }
}

fn sync(gaps: &Gaps) -> Sync {
    Sync {
        sync_call_count: gaps.waits.iter().map(|w| w.count).sum(),
        sync_time_ms: Ms(gaps.waits.iter().map(|w| w.time).sum::<jarvis_trace::Ns>().as_ms()),
        by_name: gaps
            .waits
            .iter()
            .map(|w| (Arc::clone(&w.name), SyncName { count: w.count, time_ms: Ms(w.time.as_ms()) }))
            .collect(),
    }
}

/// The patterns, in the order of the contract; limits from the public project of the seeds' age.
fn patterns(system: &System) -> Vec<IdlePattern> {
    let (gaps, kernels) = (&system.gaps, &system.kernels);
    let idle = format!("idle time is {} ms", shown_ms(gaps.idle().as_ms()));
    let mut found = Vec::new();
    let mut add = |name, high: bool, evidence: String, solution: Option<String>| {
        let severity = if high { Severity::High } else { Severity::Medium };
        found.push(IdlePattern { name, severity, evidence, impact: idle.clone(), solution });
    };
    let short = kernels.short_percent();
    if short > SHORT_PERCENT {
        let evidence = kernels.short_told();
        add("launch_overhead", short > 50.0, evidence, fewer_launches(system, "small kernels"));
    }
    if kernels.count > 1000 {
        let evidence = format!("{} kernels", kernels.count);
        add("high_kernel_count", kernels.count > 5000, evidence, fewer_launches(system, "kernels"));
    }
    let mean = kernels.mean_us();
    if kernels.count > 0 && mean < 50.0 {
        let evidence = format!("kernels take {} us on average", shown(mean, 1));
        let more_work = "give each kernel more work: larger batches, fused operations".to_owned();
        add("small_kernels", mean < 20.0, evidence, Some(more_work));
    }
    let waits = gaps.class(GapClass::HostSync).count;
    if waits >= 2 * gaps.steps {
        let evidence = format!("the host waits for the GPU in the middle of a step before {}", counted(waits, "gap"));
        let fewer = "remove or batch device synchronizations".to_owned();
        add("synchronization", waits >= 10 * gaps.steps, evidence, Some(fewer));
    }
    let work = gaps.class(GapClass::HostWork).time;
    let share = super::gaps::percent(work, gaps.idle());
    if share > 50.0 {
        let evidence = format!("{}% of the idle time is spent in host code before a late launch", shown(share, 1));
        add("host_work", share > 80.0, evidence, Some(less_host_time(system)));
    }
    found
}

//! Utilisation, varying times, host-dominated rows.

use jarvis_perf::tables::{Unified, UnifiedCall, UnifiedRow};
use jarvis_trace::{Clock, EventId, Id, InOrder, Ns, Timeline, Trace, Us};
use rapidhash::RapidHashMap;

use super::{category, kernel_names};
use crate::prepared::{DeviceTime, Row, TimeBreakdown, Utilization};
use crate::thresholds::{Threshold, Thresholds};

/// Fixed note beside every time breakdown.
pub const TIME_NOTE: &str = "rank by gpu_kernel_time_ms; sync_time_ms is host time";

/// The GPU's time.
pub(crate) fn utilization(timeline: &Timeline<Us>) -> Utilization {
    let ms = |us: Us| us.0 / 1e3;
    let total = ms(timeline.total);
    let percent = |us: Us| if total > 0.0 { 100.0 * ms(us) / total } else { 0.0 };
    Utilization {
        total_time_ms: total,
        computation_time_ms: ms(timeline.computation),
        computation_time_percent: percent(timeline.computation),
        exposed_comm_time_ms: ms(timeline.exposed_communication),
        exposed_comm_time_percent: percent(timeline.exposed_communication),
        exposed_memcpy_time_ms: ms(timeline.exposed_memcpy),
        exposed_memcpy_time_percent: percent(timeline.exposed_memcpy),
        idle_time_ms: ms(timeline.idle),
        idle_time_percent: percent(timeline.idle),
        busy_time_ms: ms(timeline.busy),
        total_comm_time_ms: ms(timeline.communication),
        total_memcpy_time_ms: ms(timeline.memcpy),
        kernel_time_ms: ms(timeline.kernels),
    }
}

/// The time of each of several GPUs.
pub(crate) fn devices(trace: &Trace, timelines: &[(Id, Timeline<Ns>)], window: &Utilization) -> Vec<DeviceTime> {
    let percent = |ms: f64| super::percent(ms, window.total_time_ms);
    let of = |(device, timeline): &(Id, Timeline<Ns>)| {
        let busy_time_ms = timeline.busy.ms();
        let idle_time_ms = (window.total_time_ms - busy_time_ms).max(0.0);
        DeviceTime {
            device: trace.id_text(*device),
            computation_time_ms: timeline.computation.ms(),
            exposed_comm_time_ms: timeline.exposed_communication.ms(),
            exposed_memcpy_time_ms: timeline.exposed_memcpy.ms(),
            busy_time_ms,
            busy_time_percent: percent(busy_time_ms),
            idle_time_ms,
            idle_time_percent: percent(idle_time_ms),
        }
    };
    timelines.iter().map(of).collect()
}

/// A kernel whose best time is below this has next to nothing to do, in microseconds.
const IDLE_KERNEL_US: f64 = 0.5;

/// What a kernel takes that has next to nothing to do: the median over the calls of rows that launch one such kernel.
/// Products, attention and convolutions are not asked: small ones take long for reasons of their own.
pub(crate) fn kernel_floor_us(rows: &[Row], thresholds: &Thresholds) -> f64 {
    let idle = |r: &&Row| {
        !category::is_matrix(&r.category)
            && matches!(*r.kernels, [ref k] if !kernel_names::is_copy_or_fill(&k.name))
            && r.efficiency.roofline_time_us.is_some_and(|us| us < IDLE_KERNEL_US)
    };
    let mut calls: Vec<(f64, usize)> = rows.iter().filter(idle).map(|r| (r.median_us, r.count)).collect();
    calls.order_by(|a, b| a.0.total_cmp(&b.0));
    let half = calls.iter().map(|c| c.1).sum::<usize>().div_ceil(2);
    let mut seen = 0;
    let middle = calls.iter().find(|(_, count)| {
        seen += count;
        seen >= half
    });
    let floor = middle.map_or(thresholds.get(Threshold::KernelFloorUs), |(us, _)| *us);
    floor.min(thresholds.get(Threshold::KernelFloorMaxUs))
}

/// Deviation over mean, and whether it is too much. `None` where a row has too few calls or too little time to tell.
pub(crate) fn variance(row: &Row, thresholds: &Thresholds) -> (Option<f64>, bool) {
    let enough = row.count as f64 > thresholds.get(Threshold::VarianceCount)
        && row.percent_of_total >= thresholds.get(Threshold::VariancePercent)
        && row.mean_us > 0.0;
    let cov = row.std_us.filter(|_| enough).map(|std| std / row.mean_us);
    (cov, cov.is_some_and(|c| c > thresholds.get(Threshold::VarianceCov)))
}

/// Host time beyond kernel time in milliseconds, if a row's host time dwarfs its kernels.
pub(crate) fn sync_ms(host_ms: f64, kernel_ms: f64, thresholds: &Thresholds) -> Option<f64> {
    let least = thresholds.get(Threshold::SyncRatio).max(1.0) * kernel_ms;
    (host_ms > least).then_some(host_ms - kernel_ms)
}

/// Host time of rows. An operation whose kernels no model takes has a synthetic row for each of them, and each of those
/// has the time of the whole call; here each has its part, by kernel time.
pub(crate) struct HostTimes {
    /// Kernel time in microseconds and number of the synthetic calls of an event.
    synthetic: RapidHashMap<EventId, (f64, usize)>,
}

impl HostTimes {
    pub(crate) fn of(unified: &Unified) -> Self {
        let mut synthetic: RapidHashMap<EventId, (f64, usize)> = RapidHashMap::default();
        for call in unified.calls.iter().filter(|c| is_synthetic(c)) {
            let sum = synthetic.entry(call.event).or_default();
            *sum = (sum.0 + call.kernel_us, sum.1 + 1);
        }
        Self { synthetic }
    }

    /// Microseconds of all calls of a row.
    pub(crate) fn of_row(&self, unified: &Unified, row: &UnifiedRow) -> f64 {
        let share = |call: &UnifiedCall| match self.synthetic.get(&call.event).filter(|_| is_synthetic(call)) {
            Some(&(us, _)) if us > 0.0 => call.kernel_us / us,
            Some(&(_, count)) => 1.0 / count as f64,
            None => 1.0,
        };
        unified.calls_of(row).map(|call| call.host_us * share(call)).sum()
    }
}

fn is_synthetic(call: &UnifiedCall) -> bool {
    call.uid != call.event.uid()
}

/// Host and GPU time of a category.
pub(crate) fn breakdown<'r>(rows: impl Iterator<Item = &'r Row>, thresholds: &Thresholds) -> TimeBreakdown {
    let mut out = TimeBreakdown::default();
    for row in rows {
        out.gpu_kernel_time_ms += row.compute_ms();
        out.copy_time_ms += row.copied_ms;
        out.work_ms += row.work_ms();
        out.cpu_duration_ms += row.host_ms;
        if let Some(ms) = row.sync_ms {
            out.sync_time_ms += ms;
            out.sync_ops_count += 1;
        }
    }
    out.has_sync_bottleneck = out.sync_time_ms > thresholds.get(Threshold::SyncMinMs)
        && out.sync_time_ms > thresholds.get(Threshold::SyncShare) / 100.0 * out.gpu_kernel_time_ms;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_time_beyond_kernel_time_is_never_negative() {
        let any = Thresholds::from_text("{\"sync.ratio\": 0}").unwrap();
        assert_eq!(sync_ms(1.0, 14.0, &any), None);
        assert_eq!(sync_ms(3.0, 2.0, &any), Some(1.0));
    }
}

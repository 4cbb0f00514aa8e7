//! What a reader of the numbers should know before believing them, in a fixed order.

use jarvis_perf::platform::{Platform, Source};
use jarvis_perf::tables::Report;

use crate::prepared::Prepared;

/// Category times may differ from the computation time by this much before it is told, in percent.
const TIME_SUM_TOLERANCE: f64 = 10.0;

/// GPU time without a recorded launch above this share of kernel time is told, in percent.
const UNLINKED_TOLERANCE: f64 = 5.0;

pub(crate) fn warnings(p: &Prepared, report: &Report) -> Vec<String> {
    let mut out = Vec::new();
    out.extend(other_device(p));
    for row in p.rows.iter().filter(|r| r.efficiency.is_anomaly) {
        let percent = row.efficiency.efficiency_percent.unwrap_or_default();
        out.push(format!(
            "`{}` {}: {percent:.1}% of peak exceeds the peak; verify the measurement",
            row.name, row.args
        ));
    }
    for row in p.rows.iter().filter(|r| r.high_variance) {
        let cov = row.cov.unwrap_or_default();
        out.push(format!("`{}`: times vary widely (deviation {cov:.2} of the mean, {:.2} ms)", row.name, row.time_ms));
    }
    out.extend(time_sum(p));
    if !p.program.has_frames {
        out.push("no Python stack in the trace: module patterns are limited; record with `with_stack=True`".to_owned());
    }
    if !p.has_shapes {
        out.push("no shapes in the trace: no efficiency and no replay; record with `record_shapes=True`".to_owned());
    }
    let graphs = p.rows.iter().filter(|r| r.name.contains("GraphLaunch")).map(|r| r.count).sum::<usize>();
    if graphs > 0 {
        out.push(format!("{graphs} GPU graph launches: the operations inside the graphs are not recorded"));
    }
    if p.program.steps == 0 {
        out.push("no profiler step in the trace: times are of the whole window".to_owned());
    }
    let (count, us) = report.rows.unlinked;
    let kernel_us: f64 = p.rows.iter().map(|r| r.time_ms * 1e3).sum();
    if us > UNLINKED_TOLERANCE / 100.0 * kernel_us {
        out.push(format!("{count} GPU events ({:.2} ms) have no recorded launch and belong to no operation", us / 1e3));
    }
    out.extend(derived_peaks(p));
    out
}

fn other_device(p: &Prepared) -> Option<String> {
    let name = p.device_name.as_deref()?;
    let memory = None;
    let found = Platform::from_device(name, p.compute_units.and_then(|n| u32::try_from(n).ok()), memory)?;
    (found.platform.name != p.platform.name)
        .then(|| format!("the trace is of `{name}`; the analysis uses the peaks of {}", p.platform.name))
}

fn time_sum(p: &Prepared) -> Option<String> {
    let sum: f64 = p.categories.iter().map(|c| c.time_ms).sum();
    let compute = p.utilization.computation_time_ms;
    let far = compute > 0.0 && (sum - compute).abs() > TIME_SUM_TOLERANCE / 100.0 * compute;
    far.then(|| {
        format!("category times add up to {sum:.2} ms, computation time is {compute:.2} ms: streams overlap or kernels belong to no operation")
    })
}

fn derived_peaks(p: &Prepared) -> Option<String> {
    let mut specs: Vec<&str> = p
        .rows
        .iter()
        .filter_map(|r| r.efficiency.compute_spec.as_deref())
        .filter(|spec| p.platform.peak(spec).is_some_and(|f| f.source == Source::Derived))
        .collect();
    specs.sort_unstable();
    specs.dedup();
    (!specs.is_empty()).then(|| format!("derived peaks used for {}", specs.join(", ")))
}

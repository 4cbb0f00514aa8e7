//! A row as `operations[]` shows it.

use std::sync::Arc;

use super::cx::CategoryCx;
use super::judge::Judged;
use crate::metrics::{
    EfficiencyMetrics, InputDims, InputStrides, InputTypes, KernelMetrics, ModuleChain, OperationMetrics, ShortName,
};
use crate::prepare::percent;
use crate::prepared::Row;
use crate::rounding::{Ms, Percent, Ratio, Us};

pub(crate) fn operation(cx: &CategoryCx<'_>, judged: &Judged<'_>) -> OperationMetrics {
    let row = judged.row;
    let covering = cx.claims.covering(cx.prepared, row.id);
    OperationMetrics {
        row: row.id,
        name: Arc::clone(&row.name),
        tree_uid: row.uid,
        count: row.count,
        time_ms: Ms(row.time_ms),
        percent_of_category: Percent(row.percent_of_category),
        percent_of_compute: Percent(row.percent_of_compute),
        percent_of_total: Percent(row.percent_of_total),
        mean_us: Us(row.mean_us),
        median_us: Us(row.median_us),
        min_us: Us(row.min_us),
        max_us: Us(row.max_us),
        std_us: row.std_us.map(Us),
        cov: row.cov.map(Ratio),
        high_variance: row.high_variance,
        efficiency: efficiency(judged),
        efficiency_warning: row.efficiency.warning,
        args: Arc::clone(&row.args),
        input_dims: InputDims(Arc::clone(&row.inputs)),
        input_type: InputTypes(Arc::clone(&row.inputs)),
        input_strides: InputStrides(Arc::clone(&row.inputs)),
        kernels: kernels(cx, row),
        library: row.library,
        launcher_path: Arc::clone(&row.launcher_path),
        module_chain: ModuleChain(Arc::clone(&row.module_path)),
        direction: row.direction,
        in_top_ops: row.in_top_ops,
        has_perf_model: row.has_perf_model,
        fusion_flagged: covering.is_some(),
        fusion_candidate_name: covering.map(|c| c.name.clone()),
        classification: judged.judgement.classification.clone(),
    }
}

fn efficiency(judged: &Judged<'_>) -> EfficiencyMetrics {
    let (e, j) = (&judged.row.efficiency, &judged.judgement);
    let class = |fpb: f64| match () {
        () if fpb > j.intensity.0 => "compute",
        () if fpb < j.intensity.1 => "memory",
        () => "mixed",
    };
    EfficiencyMetrics {
        efficiency_percent: e.efficiency_percent.map(Percent),
        efficiency_percent_mean: e.efficiency_percent_mean.map(Percent),
        bound_type: e.bound_type,
        intensity_class: e.flops_per_byte.map(class),
        flops_per_byte: e.flops_per_byte.map(Ratio),
        tflops_achieved: e.tflops_achieved.map(Ratio),
        tb_s_achieved: e.tb_s_achieved.map(Ratio),
        compute_spec: e.compute_spec.clone(),
        resolved_peak_maf: e.resolved_peak_maf,
        resolved_peak_hbm_bw: e.resolved_peak_hbm_bw,
        roofline_time_us: e.roofline_time_us.map(Us),
        source: e.source,
        is_anomaly: e.is_anomaly,
        warning: e.warning,
        expected_low: j.band.map(|b| b.0),
        expected_high: j.band.map(|b| b.1),
        assessment: j.assessment,
    }
}

fn kernels(cx: &CategoryCx<'_>, row: &Row) -> Vec<KernelMetrics> {
    let total: f64 = row.kernels.iter().map(|k| k.total_us).sum();
    let kernel = |k: &jarvis_perf::tables::KernelStat| KernelMetrics {
        name: Arc::clone(&k.name),
        short_name: ShortName(Arc::clone(&k.name)),
        count: k.count,
        mean_us: Us(k.mean_us),
        total_us: Us(k.total_us),
        percent: Percent(percent(k.total_us, total)),
        stream: k.stream,
        tile: cx.prepared.kernel_names.get(&k.name).tile,
    };
    // The report lists the one with most time last.
    row.kernels.iter().rev().map(kernel).collect()
}

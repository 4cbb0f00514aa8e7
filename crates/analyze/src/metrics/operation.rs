//! A row as `operations[]` shows it. What was judged of it is kept, all else is taken from the row as it is written.

use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::{Classification, InputDims, InputStrides, InputTypes, ModuleChain, ShortName};
use crate::prepare::percent;
use crate::prepared::{BoundType, Efficiency, EfficiencySource, KernelTile, Prepared, Row};
use crate::program::{Direction, RowId};
use crate::rounding::{Ms, Percent, Ratio, Us};

/// What an analyzer says of a row.
#[derive(Debug, Clone)]
pub struct JudgedOperation {
    /// Which one.
    pub row: RowId,
    /// What bounds it, by operations per byte.
    pub intensity: Option<IntensityClass>,
    /// Efficiency expected of its kind, in percent: lower end, upper end.
    pub expected: Option<(f64, f64)>,
    /// Its efficiency in a word.
    pub assessment: Option<&'static str>,
    /// Name of the fusion candidate of high confidence that holds all of it.
    pub fusion_candidate: Option<Arc<str>>,
    /// Why it is slow and no bottleneck all the same.
    pub set_aside: Option<SetAside>,
    /// What only this analyzer says of a row.
    pub classification: Classification,
}

/// Why a row that is slow is no bottleneck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetAside {
    /// Its kernels take little longer than kernels with next to nothing to do.
    KernelFloor,
    /// Too small a part of its category.
    SmallShare,
    /// Too small a part of all computing.
    BelowFloor,
    /// Only with steps beside its matrix work that another finding would fuse.
    FusibleSteps,
}

impl SetAside {
    /// As reports mark it.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::KernelFloor => "kernel floor",
            Self::SmallShare => "small share of its category",
            Self::BelowFloor => "below floor",
            Self::FusibleSteps => "slow for steps that could be fused",
        }
    }
}

/// What bounds a row, by operations per byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IntensityClass {
    /// Arithmetic.
    Compute,
    /// Memory traffic.
    Memory,
    /// It may be either.
    Mixed,
}

/// A row.
#[derive(Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "the fields of a file, each a fact of its own")]
pub(super) struct OperationMetrics<'a> {
    /// Operation.
    name: &'a str,
    /// UID of an example.
    tree_uid: u32,
    /// Calls.
    count: usize,
    /// Kernel time, with that of copies.
    time_ms: Ms,
    /// Of that, copies: they have no share of what computes.
    copy_time_ms: Ms,
    /// Of the category.
    percent_of_category: Percent,
    /// Of the computation time.
    percent_of_compute: Percent,
    /// Of the total time, copies included.
    percent_of_total: Percent,
    /// Mean of a call.
    mean_us: Us,
    /// Median.
    median_us: Us,
    /// Smallest.
    min_us: Us,
    /// Largest.
    max_us: Us,
    /// Standard deviation.
    std_us: Option<Us>,
    /// Deviation over mean.
    cov: Option<Ratio>,
    /// Whether that is too much.
    high_variance: bool,
    /// How close it comes to the hardware.
    efficiency: EfficiencyMetrics<'a>,
    /// What to tell about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    efficiency_warning: Option<&'static str>,
    /// Arguments in short form.
    args: &'a str,
    /// As recorded.
    input_dims: InputDims<'a>,
    /// As recorded.
    input_type: InputTypes<'a>,
    /// As recorded.
    input_strides: InputStrides<'a>,
    /// Kernels, most time first.
    kernels: Kernels<'a>,
    /// Maker of the main kernel.
    library: Option<&'static str>,
    /// Frame of the user's code, else modules, else `Not found`.
    launcher_path: &'a str,
    /// Modules, outermost first, without numbers.
    module_chain: ModuleChain<'a>,
    /// Which pass.
    direction: Direction,
    /// Whether the top operations account for it.
    in_top_ops: bool,
    /// Whether a model claims it.
    has_perf_model: bool,
    /// Whether a fusion candidate of high confidence holds all of it.
    fusion_flagged: bool,
    /// Which.
    fusion_candidate_name: Option<&'a str>,
    /// What only this analyzer says of a row.
    classification: &'a Classification,
}

impl<'a> OperationMetrics<'a> {
    pub(super) fn of(prepared: &'a Prepared, judged: &'a JudgedOperation) -> Self {
        let row = prepared.row(judged.row);
        Self {
            name: &row.name,
            tree_uid: row.uid,
            count: row.count,
            time_ms: Ms(row.time_ms),
            copy_time_ms: Ms(row.copied_ms),
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
            efficiency: EfficiencyMetrics::of(&row.efficiency, judged),
            efficiency_warning: row.efficiency.warning,
            args: &row.args,
            input_dims: InputDims(&row.inputs),
            input_type: InputTypes(&row.inputs),
            input_strides: InputStrides(&row.inputs),
            kernels: Kernels::of(prepared, row),
            library: row.library,
            launcher_path: &row.launcher_path,
            module_chain: ModuleChain(&row.module_path),
            direction: row.direction,
            in_top_ops: row.in_top_ops,
            has_perf_model: row.has_perf_model,
            fusion_flagged: judged.fusion_candidate.is_some(),
            fusion_candidate_name: judged.fusion_candidate.as_deref(),
            classification: &judged.classification,
        }
    }
}

/// How close a row comes to the hardware, with what is expected of it.
#[derive(Debug, Serialize)]
struct EfficiencyMetrics<'a> {
    /// Best time over time of all calls.
    efficiency_percent: Option<Percent>,
    /// Mean over calls.
    efficiency_percent_mean: Option<Percent>,
    /// What bounds it, by the roofline.
    bound_type: Option<BoundType>,
    /// What bounds it, by operations per byte.
    intensity_class: Option<IntensityClass>,
    /// Operations per byte.
    flops_per_byte: Option<Ratio>,
    /// 10¹² operations a second.
    tflops_achieved: Option<Ratio>,
    /// 10¹² bytes a second.
    tb_s_achieved: Option<Ratio>,
    /// Unit and precision.
    compute_spec: Option<&'a str>,
    /// Peak in 10¹² operations a second.
    resolved_peak_maf: Option<f64>,
    /// Peak in 10¹² bytes a second.
    resolved_peak_hbm_bw: f64,
    /// Best time of a call.
    roofline_time_us: Option<Us>,
    /// How it was found.
    source: EfficiencySource,
    /// Whether it cannot be.
    is_anomaly: bool,
    /// What to tell about it.
    warning: Option<&'static str>,
    /// Lower end of what is expected.
    expected_low: Option<f64>,
    /// Upper end.
    expected_high: Option<f64>,
    /// In a word.
    assessment: Option<&'static str>,
}

impl<'a> EfficiencyMetrics<'a> {
    fn of(e: &'a Efficiency, judged: &JudgedOperation) -> Self {
        Self {
            efficiency_percent: e.efficiency_percent.map(Percent),
            efficiency_percent_mean: e.efficiency_percent_mean.map(Percent),
            bound_type: e.bound_type,
            intensity_class: judged.intensity,
            flops_per_byte: e.flops_per_byte.map(Ratio),
            tflops_achieved: e.tflops_achieved.map(Ratio),
            tb_s_achieved: e.tb_s_achieved.map(Ratio),
            compute_spec: e.compute_spec.as_deref(),
            resolved_peak_maf: e.resolved_peak_maf,
            resolved_peak_hbm_bw: e.resolved_peak_hbm_bw,
            roofline_time_us: e.roofline_time_us.map(Us),
            source: e.source,
            is_anomaly: e.is_anomaly,
            warning: e.warning,
            expected_low: judged.expected.map(|(low, _)| low),
            expected_high: judged.expected.map(|(_, high)| high),
            assessment: judged.assessment,
        }
    }
}

/// A kernel of a row.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct KernelMetrics<'a> {
    /// Full name.
    pub name: &'a str,
    /// The first 75 characters.
    pub short_name: ShortName<'a>,
    /// Calls.
    pub count: usize,
    /// Mean of a call.
    pub mean_us: Us,
    /// All calls.
    pub total_us: Us,
    /// Of the row's kernels.
    pub percent: Percent,
    /// Stream.
    pub stream: Option<i64>,
    /// Tile, as its name gives it.
    pub tile: Option<KernelTile>,
}

/// The kernels of a row.
#[derive(Debug, Clone, Copy)]
pub struct Kernels<'a> {
    row: &'a Row,
    prepared: &'a Prepared,
}

impl<'a> Kernels<'a> {
    /// Of this row.
    pub fn of(prepared: &'a Prepared, row: &'a Row) -> Self {
        Self { row, prepared }
    }

    /// Most time first.
    pub fn iter(self) -> impl ExactSizeIterator<Item = KernelMetrics<'a>> {
        let names = &self.prepared.kernel_names;
        let total: f64 = self.row.kernels.iter().map(|k| k.total_us).sum();
        // The report lists the one with most time last.
        self.row.kernels.iter().rev().map(move |k| KernelMetrics {
            name: &k.name,
            short_name: ShortName(&k.name),
            count: k.count,
            mean_us: Us(k.mean_us),
            total_us: Us(k.total_us),
            percent: Percent(percent(k.total_us, total)),
            stream: k.stream,
            tile: names.get(&k.name).tile,
        })
    }
}

impl Serialize for Kernels<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl Serialize for KernelTile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq([Some(self.m), Some(self.n), self.k].into_iter().flatten())
    }
}

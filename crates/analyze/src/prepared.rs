//! What analyzers see: everything they need, prepared once, and never the trace itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_perf::call::InputLists;
use jarvis_perf::platform::Platform;
use jarvis_perf::tables::KernelStat;
use jarvis_perf::value::Value;
use serde::Serialize;

use crate::finding::Range;
use crate::prepare::kernel_names::{self, KernelNames};
use crate::program::{Direction, Program, RowId};
use crate::thresholds::{Threshold, Thresholds};

/// What the GPU's time went into. Percentages are of the total.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Utilization {
    /// From the first start to the last end of GPU work.
    pub total_time_ms: f64,
    /// Some kernel computes.
    pub computation_time_ms: f64,
    /// The same in percent.
    pub computation_time_percent: f64,
    /// Only communication goes on.
    pub exposed_comm_time_ms: f64,
    /// The same in percent.
    pub exposed_comm_time_percent: f64,
    /// Only copies go on.
    pub exposed_memcpy_time_ms: f64,
    /// The same in percent.
    pub exposed_memcpy_time_percent: f64,
    /// Nothing goes on.
    pub idle_time_ms: f64,
    /// The same in percent.
    pub idle_time_percent: f64,
    /// Anything goes on.
    pub busy_time_ms: f64,
    /// Communication goes on, whatever else does.
    pub total_comm_time_ms: f64,
    /// Copies go on, whatever else does.
    pub total_memcpy_time_ms: f64,
    /// The times of computing kernels added up.
    #[serde(skip)]
    pub kernel_time_ms: f64,
}

impl Utilization {
    /// Kernels of one stream overlap by less than this share, where one begins on the heels of the one before.
    const HEELS: f64 = 0.05;

    /// What kernel time is of the time in which anything computes. Where streams or GPUs run side by side, a saving in all
    /// of their kernels shortens the window once.
    pub fn of_window(&self, kernel_ms: f64) -> f64 {
        if self.runs_side_by_side() { kernel_ms * self.computation_time_ms / self.kernel_time_ms } else { kernel_ms }
    }

    /// A share of all kernel time in percent, or of the computation time where that is the same.
    pub fn percent_of_compute(&self, kernel_ms: f64) -> f64 {
        let computation = self.computation_time_ms;
        if computation > 0.0 { 100.0 * self.of_window(kernel_ms) / computation } else { 0.0 }
    }

    /// What kernel time is of the window in percent.
    pub fn percent_of_total(&self, kernel_ms: f64) -> f64 {
        if self.total_time_ms > 0.0 { 100.0 * self.of_window(kernel_ms) / self.total_time_ms } else { 0.0 }
    }

    /// The kernel time that shares are of.
    pub fn all_kernels_ms(&self) -> f64 {
        if self.runs_side_by_side() { self.kernel_time_ms } else { self.computation_time_ms }
    }

    /// A saving of kernel time as one of the window.
    pub fn range_of_window(&self, saved_ms: Range) -> Range {
        Range::new(self.of_window(saved_ms.low), self.of_window(saved_ms.high))
    }

    /// Whether streams or GPUs compute at the same time.
    pub fn runs_side_by_side(&self) -> bool {
        self.kernel_time_ms > (1.0 + Self::HEELS) * self.computation_time_ms
    }
}

/// What one of several GPUs did in the window of all of them. Percentages are of the window.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceTime {
    /// Its number in the recording.
    pub device: String,
    /// Some kernel computes.
    pub computation_time_ms: f64,
    /// Only communication goes on.
    pub exposed_comm_time_ms: f64,
    /// Only copies go on.
    pub exposed_memcpy_time_ms: f64,
    /// Anything goes on.
    pub busy_time_ms: f64,
    /// The same in percent.
    pub busy_time_percent: f64,
    /// Nothing goes on, before its first and after its last kernel too.
    pub idle_time_ms: f64,
    /// The same in percent.
    pub idle_time_percent: f64,
}

/// What bounds an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BoundType {
    /// Arithmetic.
    Compute,
    /// Memory traffic.
    Memory,
}

/// How an efficiency was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum EfficiencySource {
    /// Both sides of the roofline are known.
    Roofline,
    /// Only one of arithmetic and traffic is known.
    ComputeSpec,
    /// The precision is unknown: rated as bf16.
    Bf16Fallback,
    /// A lower bound: of the traffic, or by the traffic alone where the peak rate of a matrix operation is not known. May
    /// clear an operation, never convict it.
    ByteEstimate,
    /// Nothing is known.
    None,
}

/// How close a row comes to what the hardware can do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Efficiency {
    /// Roofline time over measured time, in percent, over all calls.
    pub efficiency_percent: Option<f64>,
    /// Mean over calls.
    pub efficiency_percent_mean: Option<f64>,
    /// What bounds it, by the roofline.
    pub bound_type: Option<BoundType>,
    /// Operations per byte.
    pub flops_per_byte: Option<f64>,
    /// 10¹² operations a second reached.
    pub tflops_achieved: Option<f64>,
    /// 10¹² bytes a second reached.
    pub tb_s_achieved: Option<f64>,
    /// Unit and precision; of several, that of most time.
    pub compute_spec: Option<Arc<str>>,
    /// The share of the time in each, most first, where calls differ in it.
    #[serde(skip)]
    pub specs: Arc<[(Arc<str>, f64)]>,
    /// Peak rate used, in 10¹² operations a second.
    pub resolved_peak_maf: Option<f64>,
    /// Peak bandwidth used, in 10¹² bytes a second.
    pub resolved_peak_hbm_bw: f64,
    /// Best time of one call in microseconds.
    pub roofline_time_us: Option<f64>,
    /// How it was found.
    pub source: EfficiencySource,
    /// Above 110 %: the peak, the model or the timing is wrong.
    pub is_anomaly: bool,
    /// Whether it can be less: a kernel that a compiler wrote may touch a part of its tensors.
    #[serde(skip)]
    pub traffic: Traffic,
    /// What to tell the reader about it, if anything.
    pub warning: Option<&'static str>,
    /// Whether too much of its time was shared with kernels of other streams to say how fast it is.
    #[serde(skip)]
    pub is_shared: bool,
    /// Whether the platform has no peak rate for the matrix work that it is: then its roof is not known.
    #[serde(skip)]
    pub lacks_rate: bool,
}

/// What is known of the bytes that a row moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Traffic {
    /// What it has to move.
    #[default]
    Known,
    /// All of its tensors, of which it may touch a part.
    AtMost,
}

impl Efficiency {
    /// Whether it is an upper bound.
    pub fn is_at_most(&self) -> bool {
        self.traffic == Traffic::AtMost
    }

    /// Nothing is known.
    pub fn unknown(peak_hbm_tbs: f64) -> Self {
        Self {
            efficiency_percent: None,
            efficiency_percent_mean: None,
            bound_type: None,
            flops_per_byte: None,
            tflops_achieved: None,
            tb_s_achieved: None,
            compute_spec: None,
            specs: Arc::default(),
            resolved_peak_maf: None,
            resolved_peak_hbm_bw: peak_hbm_tbs,
            roofline_time_us: None,
            source: EfficiencySource::None,
            is_anomaly: false,
            traffic: Traffic::Known,
            warning: None,
            is_shared: false,
            lacks_rate: false,
        }
    }

    /// The efficiency, where it may be used to call an operation slow: not a lower bound, not an anomaly, not what is
    /// left of the GPU beside other kernels.
    pub fn judged(&self) -> Option<f64> {
        let usable = !self.is_anomaly && !self.is_shared && self.source != EfficiencySource::ByteEstimate;
        self.efficiency_percent.filter(|_| usable)
    }
}

/// Tile of the output that one block of a matrix kernel computes, as the kernel's name gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KernelTile {
    /// Rows of the tile.
    pub m: i64,
    /// Columns.
    pub n: i64,
    /// Depth of a step, where the name tells it.
    pub k: Option<i64>,
}

/// Host and GPU time of a category side by side.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct TimeBreakdown {
    /// Kernel time, copies left out.
    pub gpu_kernel_time_ms: f64,
    /// Copies.
    pub copy_time_ms: f64,
    /// Kernels, and copies within the device.
    pub work_ms: f64,
    /// Host time, each event once.
    pub cpu_duration_ms: f64,
    /// Host time beyond kernel time, of host-dominated rows.
    pub sync_time_ms: f64,
    /// Host-dominated rows.
    pub sync_ops_count: usize,
    /// Whether that is worth telling.
    pub has_sync_bottleneck: bool,
}

/// What the model seems to be. Unknown fields hold [`ModelInfo::UNKNOWN`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// Name, from the outermost modules.
    pub model: String,
    /// Family.
    pub architecture: String,
    /// Parameters, at least.
    pub scale: String,
    /// Precision of the matrix work.
    pub precision: String,
    /// Which rule set each field.
    pub evidence: ModelEvidence,
}

/// Which rule set each field of a [`ModelInfo`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelEvidence {
    /// Of the name.
    pub model: String,
    /// Of the family.
    pub architecture: String,
    /// Of the parameters.
    pub scale: String,
    /// Of the precision.
    pub precision: String,
}

impl ModelInfo {
    /// What stands where the trace does not tell.
    pub const UNKNOWN: &'static str = "Cannot be inferred from trace";
}

/// Calls one after another that do not need each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InARow {
    /// How many.
    pub calls: usize,
    /// Whether by their shapes each could go on with what the one before it gave.
    pub by_shapes: bool,
}

/// A link that copies go over. It is their limit, not the memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Between host and device.
    Host,
    /// Between devices.
    Devices,
}

impl Link {
    /// As sentences say it.
    pub fn words(self) -> &'static str {
        match self {
            Self::Host => "between host and device",
            Self::Devices => "between devices",
        }
    }
}

/// A row of `unified_perf_summary` with what the analysis knows of it.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a table, each a fact of its own")]
pub struct Row {
    /// Which one.
    pub id: RowId,
    /// Operation.
    pub name: Arc<str>,
    /// Category key of the analysis: `gemm`, `sdpa_fwd`, …
    pub category: Arc<str>,
    /// Category of the performance report.
    pub report_category: Arc<str>,
    /// UID of an example.
    pub uid: u32,
    /// Calls.
    pub count: usize,
    /// Kernel time of all calls.
    pub time_ms: f64,
    /// Of that, copies: what the timeline counts as such and not as computing.
    pub copied_ms: f64,
    /// Of these, copies over a link: between host and device, or between devices.
    pub over_link_ms: f64,
    /// The link that most of these go over.
    pub link: Link,
    /// Per call in microseconds: mean, median, smallest, largest, standard deviation.
    pub mean_us: f64,
    /// Median.
    pub median_us: f64,
    /// Smallest.
    pub min_us: f64,
    /// Largest.
    pub max_us: f64,
    /// Standard deviation.
    pub std_us: Option<f64>,
    /// Host time of all calls; of an event whose kernels stand in several rows its share.
    pub host_ms: f64,
    /// Most calls of it one after another that do not need each other, with no other GPU work between them.
    pub back_to_back: InARow,
    /// Of its category's kernel time; copies have none.
    pub percent_of_category: f64,
    /// Of the computation time; copies have none.
    pub percent_of_compute: f64,
    /// Of the total time, copies included.
    pub percent_of_total: f64,
    /// How much of its kernel time it shared with kernels of other streams.
    pub beside: Beside,
    /// How close it comes to the hardware.
    pub efficiency: Efficiency,
    /// Arguments in short form, such as `(8944,1024) bf16`.
    pub args: Arc<str>,
    /// Arguments.
    pub inputs: Arc<InputLists>,
    /// Parameters of its model, in order.
    pub params: Arc<[(Cow<'static, str>, Value)]>,
    /// Operations of one call / 10⁹.
    pub gflops: Option<f64>,
    /// Bytes of one call / 2²⁰.
    pub data_moved_mb: Option<f64>,
    /// Kernels, the one with most time last: as the table lists them, or by name where calls launch different numbers
    /// of them and the table leaves some out.
    pub kernels: Arc<[KernelStat]>,
    /// Kernels that a call launches.
    pub kernels_per_call: usize,
    /// Which pass most of its calls belong to.
    pub direction: Direction,
    /// Whether the top operations account for it.
    pub in_top_ops: bool,
    /// Rank of the top operation that accounts for it.
    pub top_rank: Option<usize>,
    /// Standard deviation over mean, where there are calls enough to tell.
    pub cov: Option<f64>,
    /// Times vary too widely to be relied on.
    pub high_variance: bool,
    /// Host time beyond kernel time, if the row is host-dominated.
    pub sync_ms: Option<f64>,
    /// Whether all it launches are copies over a link.
    pub is_link_copy: bool,
    /// Maker of its main kernel, from the name: data, never prose.
    pub library: Option<&'static str>,
    /// Tile of its main kernel.
    pub tile: Option<KernelTile>,
    /// In how many parts its main kernel splits the inner dimension; `Some(0)` if it splits and does not say.
    pub split: Option<i64>,
    /// Blocks of its main kernel in the third direction of the grid: products of a batch, or parts of the inner
    /// dimension. One where the trace does not tell.
    pub blocks_deep: i64,
    /// Whether a model claims it, as the table says.
    pub has_perf_model: bool,
    /// Names of the modules around it, outermost first, numbers kept.
    pub module_path: Arc<[Arc<str>]>,
    /// Where it is called from: `attention`, `mlp`, `norm`, …
    pub call_site: &'static str,
    /// First line of the user's code that leads to it, else the module chain, else `Not found`.
    pub launcher_path: Arc<str>,
}

/// Steps that take no more than this of the time that goes are gone: the rest is rounding.
const STEPS_GONE: f64 = 1.02;

impl Row {
    /// Whether no model tells its efficiency, a lower bound of its bytes at most. Copies over a link need none, and matrix
    /// work without a peak rate has one.
    pub fn lacks_model(&self) -> bool {
        let unknown = matches!(self.efficiency.source, EfficiencySource::None | EfficiencySource::ByteEstimate);
        unknown && !self.is_link_copy && !self.efficiency.lacks_rate
    }

    /// Whether some of its kernels only change a layout.
    pub fn turns_layout(&self) -> bool {
        self.kernels.iter().any(|k| kernel_names::is_transpose(&k.name))
    }

    /// Time of its kernels that compute: copies do not.
    pub fn compute_ms(&self) -> f64 {
        self.without(self.copied_ms)
    }

    /// Time of what the device itself works on: kernels, and copies within its memory, which could be spared like kernels.
    pub fn work_ms(&self) -> f64 {
        self.without(self.over_link_ms)
    }

    /// Its kernels without the copies and fills beside them; all of these where there is nothing else.
    pub(crate) fn only_kernels(&self) -> OnlyKernels {
        let sum = |stats: &mut dyn Iterator<Item = &KernelStat>| {
            stats.fold((0.0, 0.0), |(n, us), k| (n + k.count as f64, us + k.total_us))
        };
        let (all, all_us) = sum(&mut self.kernels.iter());
        let (own, own_us) = sum(&mut self.kernels.iter().filter(|k| !kernel_names::is_copy_or_fill(&k.name)));
        let part = |own: f64, all: f64| if own > 0.0 { own / all } else { 1.0 };
        OnlyKernels {
            count: part(own, all) * self.kernels_per_call.max(1) as f64 * self.count as f64,
            ms: part(own_us, all_us) * self.time_ms,
        }
    }

    /// Its time without a part of it. Sums of the same times in another order differ in their last digits, which are
    /// nothing.
    fn without(&self, part_ms: f64) -> f64 {
        let left = self.time_ms - part_ms;
        if left > 1e-9 * self.time_ms { left } else { 0.0 }
    }

    /// The row without some steps of its calls: their work is what it was, in so much of the time. More than `anomaly`
    /// percent of peak can't be.
    pub(crate) fn without_steps(&self, share: f64, anomaly: f64) -> Self {
        let mut part = Self { count: self.count, kernels: self.kernels_beside_steps(1.0 - share), ..self.part(share) };
        let e = &mut part.efficiency;
        let rates = [&mut e.efficiency_percent, &mut e.efficiency_percent_mean];
        let rates = rates.into_iter().chain([&mut e.tflops_achieved, &mut e.tb_s_achieved]);
        rates.flatten().for_each(|rate| *rate /= share);
        e.is_anomaly |= e.efficiency_percent.is_some_and(|percent| percent > anomaly);
        for us in [&mut part.mean_us, &mut part.median_us, &mut part.min_us, &mut part.max_us] {
            *us *= share;
        }
        part
    }

    /// Its kernels without those of the steps that take this share of its time. If that is not all that its steps take,
    /// some of them stay, and names do not tell which.
    fn kernels_beside_steps(&self, share: f64) -> Arc<[KernelStat]> {
        let us = |kernels: &[&KernelStat]| kernels.iter().map(|k| k.total_us).sum::<f64>();
        let (steps, own): (Vec<&KernelStat>, Vec<&KernelStat>) =
            self.kernels.iter().partition(|k| kernel_names::is_step(&k.name));
        let all_go = us(&steps) <= STEPS_GONE * share * (us(&steps) + us(&own));
        if own.is_empty() || !all_go { Arc::clone(&self.kernels) } else { own.into_iter().cloned().collect() }
    }

    /// The row as if only so much of its time and calls were there: the rest is told elsewhere.
    pub(crate) fn part(&self, share: f64) -> Self {
        let mut part = self.clone();
        if share < 1.0 {
            let times = [&mut part.time_ms, &mut part.copied_ms, &mut part.over_link_ms, &mut part.host_ms];
            let percents = [&mut part.percent_of_category, &mut part.percent_of_compute, &mut part.percent_of_total];
            times.into_iter().chain(percents).for_each(|x| *x *= share);
            part.count = ((self.count as f64 * share).round() as usize).clamp(self.count.min(1), self.count);
        }
        part
    }
}

/// Kernels of all calls of a row, copies and fills left out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OnlyKernels {
    /// How many.
    pub(crate) count: f64,
    /// Their time.
    pub(crate) ms: f64,
}

/// How much of a row's kernel time passed while kernels of other streams ran.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Beside {
    /// In percent of its kernel time.
    pub percent: f64,
    /// Calls that ran alone.
    pub alone_count: usize,
    /// Their kernel time in microseconds.
    pub alone_us: f64,
}

impl Beside {
    /// Above this share, in percent, the time of the row is no property of the operation.
    const CONSIDERABLE: f64 = 20.0;

    /// Whether it is too much to judge the row by all of its calls.
    pub fn is_considerable(&self) -> bool {
        self.percent > Self::CONSIDERABLE
    }
}

/// A category with rows.
#[derive(Debug, Clone)]
pub struct Category {
    /// Key: `gemm`.
    pub key: Arc<str>,
    /// As shown: `GEMM`.
    pub display: Arc<str>,
    /// Its rows, most time first.
    pub rows: Vec<RowId>,
    /// Kernel time, copies left out.
    pub time_ms: f64,
    /// Of the computation time.
    pub percent_of_compute: f64,
    /// Of the total time.
    pub percent_of_total: f64,
    /// Analyzer that is in charge of it.
    pub analyzer: &'static str,
    /// Calls.
    pub operation_count: usize,
    /// The same by name of the operation, with their milliseconds.
    pub calls_by_name: BTreeMap<Arc<str>, (usize, f64)>,
    /// Host and GPU time.
    pub time: TimeBreakdown,
}

impl Category {
    /// One that only a pattern, or the system tier, names.
    pub fn without_rows(key: Arc<str>, display: Arc<str>, analyzer: &'static str) -> Self {
        Self {
            key,
            display,
            rows: Vec::new(),
            time_ms: 0.0,
            percent_of_compute: 0.0,
            percent_of_total: 0.0,
            analyzer,
            operation_count: 0,
            calls_by_name: BTreeMap::new(),
            time: TimeBreakdown::default(),
        }
    }
}

/// One of the operations that take most time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TopOperation {
    /// 1 takes most.
    pub rank: usize,
    /// The launching operation.
    pub name: Arc<str>,
    /// Category of the analysis; none for what launches kernels of several.
    pub category: Option<Arc<str>>,
    /// Time of the kernels it launched itself, copies left out.
    pub time_ms: f64,
    /// Time of its copies.
    pub copy_time_ms: f64,
    /// Of the computation time.
    pub percent_of_compute: f64,
    /// Running sum.
    pub cumulative_percent: f64,
    /// Calls.
    pub count: usize,
    /// What bounds the rows its kernels are in.
    pub bound_type: Option<BoundType>,
    /// Operations per byte of the largest of these rows.
    pub flops_per_byte: Option<f64>,
    /// Efficiency of these rows.
    pub efficiency_percent: Option<f64>,
    /// Names under which the same kernels appear in `unified_perf_summary`.
    pub aliases: Vec<Arc<str>>,
}

/// What simple elementwise operations reach in this trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Baseline {
    /// Robust form, used for decisions.
    pub bandwidth_tbs: f64,
    /// The same in percent of the peak.
    pub efficiency_percent: f64,
    /// `measured`, or `default` where no row qualifies.
    pub source: &'static str,
    /// Rows it was taken from.
    pub rows: Vec<u32>,
    /// The simple mean over `add_`, `mul`, `copy_`.
    pub seed_bandwidth_tbs: Option<f64>,
}

impl Baseline {
    /// The baseline comes from rows of this trace.
    pub const MEASURED: &'static str = "measured";
    /// No row qualified: the usual share of the peak, good for a ceiling and never to convict.
    pub const DEFAULT: &'static str = "default";
}

/// Everything the compute tier sees.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is something that a recording may lack")]
pub struct Prepared {
    /// The GPU.
    pub platform: Platform,
    /// As the driver calls it.
    pub device_name: Option<String>,
    /// Multiprocessors or compute units.
    pub compute_units: Option<i64>,
    /// The GPU's time.
    pub utilization: Utilization,
    /// The same for each GPU, if several worked.
    pub devices: Vec<DeviceTime>,
    /// Rows of `unified_perf_summary`, in its order.
    pub rows: Vec<Row>,
    /// Categories with rows, most time first.
    pub categories: Vec<Category>,
    /// The ten operations that compute longest.
    pub top_operations: Vec<TopOperation>,
    /// What simple elementwise operations reach.
    pub baseline: Baseline,
    /// What the names of the rows' kernels tell.
    pub kernel_names: KernelNames,
    /// What a kernel takes that has next to nothing to do, in microseconds: no fix makes one faster.
    pub kernel_floor_us: f64,
    /// Leaf operations and modules.
    pub program: Program,
    /// Whether host operations were recorded.
    pub has_operations: bool,
    /// Whether any operation has shapes.
    pub has_shapes: bool,
    /// Whether any operation has the types of its inputs: older versions of PyTorch record shapes without.
    pub has_types: bool,
    /// The same of strides.
    pub has_strides: bool,
    /// Whether shapes were asked for, as the header of the recording says or the shapes themselves: where no operation was
    /// recorded there are none however one asks.
    pub record_shapes: bool,
    /// GPUs that the recording process saw.
    pub device_count: usize,
    /// Names of the models of GPU that worked, the one with most GPU time first.
    pub models_at_work: Vec<String>,
    /// What the model seems to be.
    pub model: ModelInfo,
    /// The limits in force.
    pub thresholds: Thresholds,
    /// What of the recording is lost, one sentence each.
    pub losses: Vec<String>,
    /// What a reader of the numbers should know, in a fixed order; losses first.
    pub warnings: Vec<String>,
}

impl Prepared {
    /// The row.
    pub fn row(&self, id: RowId) -> &Row {
        &self.rows[id.index()]
    }

    /// What the category of a top operation is called in reports.
    pub fn category_display<'a>(&'a self, top: &'a TopOperation) -> &'a str {
        match &top.category {
            None => "Several",
            Some(key) => self.category(key).map_or(&**key, |c| &*c.display),
        }
    }

    /// How many operations the list of the top ones has at most.
    pub fn most_top_operations(&self) -> usize {
        self.thresholds.get(Threshold::TopOps) as usize
    }

    /// The category with this key.
    pub fn category(&self, key: &str) -> Option<&Category> {
        self.categories.iter().find(|c| &*c.key == key)
    }

    /// Peak bandwidth in 10¹² bytes a second.
    pub fn peak_hbm_tbs(&self) -> f64 {
        self.platform.mem_bw_gbps.value / 1e3
    }

    /// Time below which the calls of a row cannot come with the kernels they launch, in milliseconds.
    pub fn floor_ms(&self, row: &Row) -> f64 {
        self.kernel_floor_us * row.kernels_per_call.max(1) as f64 * row.count as f64 / 1e3
    }

    /// Percent of peak bandwidth that memory-bound work can be expected to reach: what simple operations reach in
    /// this trace if that is credible, else the usual share.
    pub fn memory_ceiling(&self) -> f64 {
        let measured = self.baseline.efficiency_percent;
        let credible = self.baseline.source == Baseline::MEASURED
            && measured >= self.thresholds.get(Threshold::BaselineMinCeiling);
        if credible { measured.min(100.0) } else { self.thresholds.get(Threshold::BaselineDefault) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "what does not overlap is not touched")]
    fn only_kernels_side_by_side_count_less() {
        let of = |kernel_time_ms| Utilization {
            total_time_ms: 10.0,
            computation_time_ms: 8.0,
            kernel_time_ms,
            ..Utilization::default()
        };
        assert_eq!(of(0.0).of_window(3.3), 3.3, "not known");
        assert_eq!(of(8.3).of_window(3.3), 3.3, "a kernel begins on the heels of the one before");
        let two = of(16.0);
        assert_eq!((two.of_window(4.0), two.percent_of_compute(16.0), two.percent_of_total(16.0)), (2.0, 100.0, 80.0));
        assert_eq!(two.all_kernels_ms(), 16.0);
    }
}

//! What is compared: for every sheet its key columns, its metrics, what is left out and how rows are ordered.

use jarvis_perf::tables::Table;

/// A group of sheets that can be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SheetGroup {
    /// The GPU's time by what it was spent on.
    GpuTimeline,
    /// Operations by name, and by category.
    OpsSummary,
    /// Kernels by name.
    KernelSummary,
    /// Operations by name and arguments.
    OpsAll,
    /// The sheets of one category of operations each.
    Roofline,
}

/// All groups with the names users know them by.
pub const SHEET_GROUPS: [(&str, SheetGroup); 5] = [
    ("gpu_timeline", SheetGroup::GpuTimeline),
    ("ops_summary", SheetGroup::OpsSummary),
    ("kernel_summary", SheetGroup::KernelSummary),
    ("ops_all", SheetGroup::OpsAll),
    ("roofline", SheetGroup::Roofline),
];

/// What becomes of the joined rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One sheet, in the order of the keys.
    ByKey,
    /// One sheet, by the baseline's value of this column, largest first.
    ByBaseline(&'static str),
    /// A sheet of what both have and one of what only either has, by this column.
    Split(&'static str),
}

/// How a sheet is compared.
#[derive(Debug, Clone)]
pub(crate) struct SheetSpec {
    pub(crate) group: SheetGroup,
    pub(crate) source: String,
    /// Name of the result.
    pub(crate) result: String,
    pub(crate) keys: Vec<String>,
    pub(crate) metrics: &'static [&'static str],
    /// The column that counts calls: weights of means.
    pub(crate) count: &'static str,
    /// Left out of every report.
    pub(crate) dropped: &'static [&'static str],
    /// Left out of variants.
    pub(crate) dropped_in_variants: &'static [&'static str],
    pub(crate) shape: Shape,
    /// Endings of the columns that a workbook hides.
    pub(crate) hidden: &'static [&'static str],
}

const CUMULATIVE: &[&str] = &["Cumulative Percentage (%)"];
const CALL_KEYS: [&str; 5] = ["name", "Input type", "Input Dims", "Input Strides", "Concrete Inputs"];
const HIDDEN_IN_CALLS: &[&str] = &["kernel_names", "median", "std", "min", "max", "ex_UID"];
const HIDDEN_IN_OPS: &[&str] = &[
    "kernel_names_first",
    "UID",
    "UID_first",
    "median",
    "std",
    "min",
    "max",
    "Input type_first",
    "Input Dims_first",
    "Input Strides_first",
    "Concrete Inputs_first",
];
const OP_METRICS: &[&str] =
    &["Kernel Time (µs)_sum", "Kernel Time (µs)_mean", "name_count", "TFLOPS/s_mean", "TB/s_mean"];
const OP_DROPPED_IN_VARIANTS: &[&str] = &[
    "GFLOPS_first",
    "Data Moved (MB)_first",
    "FLOPS/Byte_first",
    "Input Dims_first",
    "Input type_first",
    "Input Strides_first",
    "Concrete Inputs_first",
];
/// Start of the names of parameter columns.
const PARAM: &str = "param: ";
/// Parameters that tell how a kernel did the work, not what the work was: they differ from device to device.
const OF_THE_KERNEL: [&str; 5] =
    ["param: transpose", "param: tile_m", "param: tile_n", "param: tile_k", "param: split_k"];

/// Sheets of operations that the reference compares, with the names of their results.
pub(crate) const SEVEN_OP_SHEETS: [(&str, &str); 7] = [
    ("GEMM", "GEMM"),
    ("SDPA_fwd", "SDPA_fwd"),
    ("SDPA_bwd", "SDPA_bwd"),
    ("CONV_fwd", "CONV_fwd"),
    ("CONV_bwd", "CONV_bwd"),
    ("UnaryElementwise", "un_eltwise"),
    ("BinaryElementwise", "bin_eltwise"),
];

/// A sheet with fixed columns.
struct Fixed {
    group: SheetGroup,
    source: &'static str,
    keys: &'static [&'static str],
    metrics: &'static [&'static str],
    count: &'static str,
    dropped: &'static [&'static str],
    dropped_in_variants: &'static [&'static str],
    shape: Shape,
    hidden: &'static [&'static str],
}

const FIXED: [Fixed; 8] = [
    Fixed {
        group: SheetGroup::GpuTimeline,
        source: "gpu_timeline",
        keys: &["type"],
        metrics: &["time ms"],
        count: "",
        dropped: &[],
        dropped_in_variants: &[],
        shape: Shape::ByKey,
        hidden: &[],
    },
    Fixed {
        group: SheetGroup::OpsSummary,
        source: "ops_summary_by_category",
        keys: &["op category"],
        metrics: &["total_direct_kernel_time_ms", "Count"],
        count: "Count",
        dropped: &["total_direct_kernel_time_sum"],
        dropped_in_variants: CUMULATIVE,
        shape: Shape::ByBaseline("total_direct_kernel_time_ms"),
        hidden: &[],
    },
    Fixed {
        group: SheetGroup::OpsSummary,
        source: "ops_summary",
        keys: &["name"],
        metrics: &["total_direct_kernel_time_ms", "Count"],
        count: "Count",
        dropped: &["total_direct_kernel_time_sum"],
        dropped_in_variants: CUMULATIVE,
        shape: Shape::ByBaseline("total_direct_kernel_time_ms"),
        hidden: &[],
    },
    Fixed {
        group: SheetGroup::KernelSummary,
        source: "kernel_summary",
        keys: &["Kernel name"],
        metrics: &["Kernel duration (µs)_sum", "Kernel duration (µs)_mean", "Kernel duration (µs)_count"],
        count: "Kernel duration (µs)_count",
        dropped: &["Kernel duration (µs)_min", "Kernel duration (µs)_max", "Parent op category"],
        dropped_in_variants: CUMULATIVE,
        shape: Shape::ByBaseline("Kernel duration (µs)_sum"),
        hidden: &[],
    },
    // What reports of old versions have instead.
    Fixed {
        group: SheetGroup::KernelSummary,
        source: "kernel_summary",
        keys: &["name"],
        metrics: &["Total Kernel Time (ms)", "Mean Kernel Time (µs)", "Count"],
        count: "Count",
        dropped: &[
            "Total Kernel Time (µs)",
            "Median Kernel Time (µs)",
            "Std Kernel Time (µs)",
            "Min Kernel Time (µs)",
            "Max Kernel Time (µs)",
            "Category",
        ],
        dropped_in_variants: CUMULATIVE,
        shape: Shape::ByBaseline("Total Kernel Time (ms)"),
        hidden: &[],
    },
    Fixed {
        group: SheetGroup::OpsAll,
        source: "ops_all",
        keys: &CALL_KEYS,
        metrics: &["total_direct_kernel_time_sum", "total_direct_kernel_time_mean", "operation_count"],
        count: "operation_count",
        dropped: &[],
        dropped_in_variants: &[],
        shape: Shape::Split("total_direct_kernel_time_sum"),
        hidden: HIDDEN_IN_CALLS,
    },
    Fixed {
        group: SheetGroup::OpsAll,
        source: "ops_unique_args",
        keys: &CALL_KEYS,
        metrics: &["total_direct_kernel_time_sum", "total_direct_kernel_time_mean", "operation_count"],
        count: "operation_count",
        dropped: &[],
        dropped_in_variants: &[],
        shape: Shape::Split("total_direct_kernel_time_sum"),
        hidden: HIDDEN_IN_CALLS,
    },
    Fixed {
        group: SheetGroup::OpsAll,
        source: "unified_perf_summary",
        keys: &CALL_KEYS,
        metrics: &["Kernel Time (µs)_sum", "Kernel Time (µs)_mean", "operation_count"],
        count: "operation_count",
        dropped: &[],
        dropped_in_variants: &[],
        shape: Shape::Split("Kernel Time (µs)_sum"),
        hidden: HIDDEN_IN_CALLS,
    },
];

/// The fixed sheet of a table, if it is one and has its key columns.
pub(crate) fn fixed(table: &Table) -> Option<SheetSpec> {
    let spec = FIXED.iter().find(|f| f.source == table.name && f.keys.iter().any(|key| table.column(key).is_some()))?;
    Some(SheetSpec {
        group: spec.group,
        source: spec.source.to_owned(),
        result: spec.source.to_owned(),
        keys: spec.keys.iter().map(|&key| key.to_owned()).collect(),
        metrics: spec.metrics,
        count: spec.count,
        dropped: spec.dropped,
        dropped_in_variants: spec.dropped_in_variants,
        shape: spec.shape,
        hidden: spec.hidden,
    })
}

/// Place of a fixed sheet among the results.
pub(crate) fn fixed_place(name: &str) -> Option<usize> {
    FIXED.iter().position(|f| f.source == name)
}

/// Whether a table is a sheet of one category of operations.
pub(crate) fn is_op_sheet(table: &Table) -> bool {
    fixed_place(&table.name).is_none()
        && ["name", OP_METRICS[0], OP_METRICS[2]].iter().all(|h| table.column(h).is_some())
}

/// How a sheet of operations is compared: keys are its name and the parameters that all these tables have, of the
/// kernel too if `kernels_differ`.
pub(crate) fn op_sheet(source: &str, tables: &[&Table], kernels_differ: bool) -> SheetSpec {
    let result = SEVEN_OP_SHEETS.iter().find(|(name, _)| *name == source).map_or(source, |(_, result)| result);
    let mut params: Vec<String> = tables.first().map_or_else(Vec::new, |first| {
        let names = first.columns.iter().map(|c| c.header.as_str());
        let is_key = |h: &str| h.starts_with(PARAM) && (kernels_differ || !OF_THE_KERNEL.contains(&h));
        let shared = |h: &&str| is_key(h) && tables.iter().all(|t| t.column(h).is_some());
        names.filter(shared).map(str::to_owned).collect()
    });
    params.sort_unstable();
    SheetSpec {
        group: SheetGroup::Roofline,
        source: source.to_owned(),
        result: result.to_owned(),
        keys: std::iter::once("name".to_owned()).chain(params).collect(),
        metrics: OP_METRICS,
        count: OP_METRICS[2],
        dropped: &[],
        dropped_in_variants: OP_DROPPED_IN_VARIANTS,
        shape: Shape::Split(OP_METRICS[0]),
        hidden: HIDDEN_IN_OPS,
    }
}

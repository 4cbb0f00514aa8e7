//! The rows of a comparison as sheets.

use std::cmp::Ordering;
use std::sync::Arc;

use jarvis_perf::tables::{Cell, Column, Format, Table, tuple_text};
use jarvis_trace::{EventId, InOrder, Key, StrId, TreeView};
use rapidhash::RapidHashMap;

use super::lca::{LcaGroup, LcaRow, Totals};
use super::merged::{MergedTree, Which};
use super::rows::{DiffRows, Views};

/// The argument lists, in the order of the columns.
pub(crate) const ARG_KEYS: [Key; 4] = [Key::InputDims, Key::InputStrides, Key::InputType, Key::ConcreteInputs];
const ARG_HEADERS: [&str; 4] = ["Input Dims", "Input Strides", "Input type", "Concrete Inputs"];

/// A row of [`diff_stats`] with its texts.
#[derive(Debug, Clone)]
pub struct RowTexts {
    /// The trace.
    pub which: Which,
    /// Kernel.
    pub name: Arc<str>,
    /// Operation.
    pub cpu_op_name: Arc<str>,
    /// UID of the operation.
    pub cpu_op_uid: u32,
    /// Dims, strides, types, concrete inputs; empty where the operation has none.
    pub args: [Arc<str>; 4],
    /// Duration of the kernel in microseconds.
    pub kernel_us: f64,
    /// Busy time of the common call.
    pub busy_us: f64,
    /// Common call.
    pub lca_name: Option<Arc<str>>,
    /// Its id.
    pub lca: Option<u32>,
    /// UID of the kernel.
    pub gpu_op_uid: u32,
    /// Modules around it, outermost first.
    pub nn_module_stack: Arc<str>,
    /// The innermost of them.
    pub nn_module_parent: Arc<str>,
}

/// Texts that are made once.
struct Texts<'a> {
    views: Views<'a>,
    merged: &'a MergedTree,
    names: RapidHashMap<(Which, StrId), Arc<str>>,
    tuples: RapidHashMap<(Which, StrId), Arc<str>>,
    modules: RapidHashMap<(Which, EventId), (Arc<str>, Arc<str>)>,
    empty: Arc<str>,
}

impl Texts<'_> {
    fn name(&mut self, which: Which, e: EventId) -> Arc<str> {
        let trace = self.views.of(which).trace();
        let id = trace.name_id(e);
        Arc::clone(self.names.entry((which, id)).or_insert_with(|| trace.text(id).into()))
    }

    fn args(&mut self, which: Which, e: EventId) -> [Arc<str>; 4] {
        let trace = self.views.of(which).trace();
        ARG_KEYS.map(|key| match trace.text_id(e, key) {
            Some(id) => Arc::clone(self.tuples.entry((which, id)).or_insert_with(|| tuple_text(trace.text(id)).into())),
            None => Arc::clone(&self.empty),
        })
    }

    /// Modules around an operation: kernels of one operation share them.
    fn modules(&mut self, which: Which, op: EventId) -> (Arc<str>, Arc<str>) {
        let (views, merged) = (self.views, self.merged);
        let made = || {
            let (stack, parent) = views.modules(merged, which, op);
            (stack.into(), parent.into())
        };
        self.modules.entry((which, op)).or_insert_with(made).clone()
    }
}

/// The rows with their texts.
pub fn row_texts(one: TreeView<'_>, two: TreeView<'_>, merged: &MergedTree, rows: &DiffRows) -> Vec<RowTexts> {
    let mut texts = Texts {
        views: Views([one, two]),
        merged,
        names: RapidHashMap::default(),
        tuples: RapidHashMap::default(),
        modules: RapidHashMap::default(),
        empty: "".into(),
    };
    let row = |row: &super::DiffRow| {
        let (nn_module_stack, nn_module_parent) = texts.modules(row.which, row.op);
        let dur = texts.views.of(row.which).trace().dur(row.kernel).unwrap_or_default();
        RowTexts {
            which: row.which,
            name: texts.name(row.which, row.kernel),
            cpu_op_name: texts.name(row.which, row.op),
            cpu_op_uid: row.op.uid(),
            args: texts.args(row.which, row.op),
            kernel_us: dur.as_us(),
            busy_us: row.busy_us,
            lca_name: row.lca_name.clone(),
            lca: row.lca,
            gpu_op_uid: row.kernel.uid(),
            nn_module_stack,
            nn_module_parent,
        }
    };
    rows.rows.iter().map(row).collect()
}

fn column<R>(header: &str, format: Format, rows: &[R], cell: impl Fn(&R) -> Cell) -> Column {
    Column { header: header.to_owned(), format, cells: rows.iter().map(cell).collect() }
}

fn text(value: &Arc<str>) -> Cell {
    Cell::Text(Arc::clone(value))
}

fn maybe(value: Option<&Arc<str>>) -> Cell {
    value.map_or(Cell::Missing, text)
}

/// One row a GPU event. Of identical traces there is no column `source`.
pub fn diff_stats(rows: &[RowTexts], identical: bool) -> Table {
    let plain = |header: &str, cell: &dyn Fn(&RowTexts) -> Cell| column(header, Format::Plain, rows, cell);
    let mut columns = vec![
        plain("name", &|r| text(&r.name)),
        plain("cpu_op_name", &|r| text(&r.cpu_op_name)),
        plain("cpu_op_uid", &|r| Cell::Int(r.cpu_op_uid.into())),
    ];
    if !identical {
        columns.push(plain("source", &|r| Cell::Text(r.which.as_str().into())));
    }
    columns.extend((0..4).map(|i| plain(ARG_HEADERS[i], &|r| text(&r.args[i]))));
    columns.extend([
        column("kernel_time", Format::Time, rows, |r| Cell::float(r.kernel_us)),
        column("busy_time", Format::Time, rows, |r| Cell::float(r.busy_us)),
        plain("lowest_common_ancestor_name", &|r| maybe(r.lca_name.as_ref())),
        plain("lowest_common_ancestor_id", &|r| r.lca.map_or(Cell::Missing, |id| Cell::Int(id.into()))),
        plain("gpu_op_uid", &|r| Cell::Int(r.gpu_op_uid.into())),
        plain("nn_module_stack", &|r| text(&r.nn_module_stack)),
        plain("nn_module_parent", &|r| text(&r.nn_module_parent)),
    ]);
    Table { name: "diff_stats".to_owned(), columns }
}

/// What rows of the summary share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct GroupKey {
    texts: [Arc<str>; 8],
    lca_name: Option<Arc<str>>,
    which: Which,
    /// UID of the operation and busy time, where they tell rows apart.
    exact: Option<(u32, u64)>,
}

impl GroupKey {
    fn of(row: &RowTexts, exact: bool) -> Self {
        let [dims, strides, types, concrete] = row.args.clone();
        let texts = [
            Arc::clone(&row.name),
            Arc::clone(&row.cpu_op_name),
            dims,
            strides,
            types,
            concrete,
            Arc::clone(&row.nn_module_stack),
            Arc::clone(&row.nn_module_parent),
        ];
        let exact = exact.then(|| (row.cpu_op_uid, row.busy_us.to_bits()));
        Self { texts, lca_name: row.lca_name.clone(), which: row.which, exact }
    }
}

/// Rows of the summary: kernels that share everything but their times.
#[derive(Debug, Clone)]
pub struct SummaryRow {
    /// The first of them.
    pub first: RowTexts,
    /// How many.
    pub count: usize,
    /// Their microseconds.
    pub sum_us: f64,
}

/// Whether the UID of the operation and the busy time tell rows of the summary apart, as in the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SummaryKeys {
    /// Names and arguments only.
    Readable,
    /// UID and busy time too.
    Everything,
}

/// The rows summed up, most time first; equal times by the texts from left to right.
pub fn summary_rows(rows: &[RowTexts], keys: SummaryKeys) -> Vec<SummaryRow> {
    let mut index: RapidHashMap<GroupKey, usize> = RapidHashMap::default();
    let mut groups: Vec<SummaryRow> = Vec::new();
    for row in rows {
        let at = *index.entry(GroupKey::of(row, keys == SummaryKeys::Everything)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(SummaryRow { first: row.clone(), count: 0, sum_us: 0.0 });
        }
        groups[at].count += 1;
        groups[at].sum_us += row.kernel_us;
    }
    groups.order_by(|a, b| b.sum_us.total_cmp(&a.sum_us).then_with(|| by_texts(a, b)));
    groups
}

fn by_texts(a: &SummaryRow, b: &SummaryRow) -> Ordering {
    let number = |x: f64| jarvis_trace::pyliteral::of_float(x);
    let (x, y) = (&a.first, &b.first);
    x.name
        .cmp(&y.name)
        .then_with(|| a.count.to_string().cmp(&b.count.to_string()))
        .then_with(|| x.cpu_op_name.cmp(&y.cpu_op_name))
        .then_with(|| x.cpu_op_uid.to_string().cmp(&y.cpu_op_uid.to_string()))
        .then_with(|| x.which.cmp(&y.which))
        .then_with(|| x.args.cmp(&y.args))
        .then_with(|| number(x.busy_us).cmp(&number(y.busy_us)))
        .then_with(|| x.lca_name.cmp(&y.lca_name))
        .then_with(|| x.nn_module_stack.cmp(&y.nn_module_stack))
        .then_with(|| x.nn_module_parent.cmp(&y.nn_module_parent))
}

/// The summary as a sheet.
pub fn summary_table(rows: &[SummaryRow], keys: SummaryKeys, identical: bool) -> Table {
    let plain = |header: &str, cell: &dyn Fn(&SummaryRow) -> Cell| column(header, Format::Plain, rows, cell);
    let everything = keys == SummaryKeys::Everything;
    let mut columns = vec![
        plain("name", &|r| text(&r.first.name)),
        plain("operation_count", &|r| Cell::Int(r.count as i64)),
        plain("cpu_op_name", &|r| text(&r.first.cpu_op_name)),
    ];
    if everything {
        columns.push(plain("cpu_op_uid", &|r| Cell::Int(r.first.cpu_op_uid.into())));
    }
    if !identical {
        columns.push(plain("source", &|r| Cell::Text(r.first.which.as_str().into())));
    }
    columns.extend((0..4).map(|i| plain(ARG_HEADERS[i], &|r| text(&r.first.args[i]))));
    if everything {
        columns.push(column("busy_time", Format::Time, rows, |r| Cell::float(r.first.busy_us)));
    }
    columns.extend([
        plain("lowest_common_ancestor_name", &|r| maybe(r.first.lca_name.as_ref())),
        plain("nn_module_stack", &|r| text(&r.first.nn_module_stack)),
        plain("nn_module_parent", &|r| text(&r.first.nn_module_parent)),
        column("kernel_time_mean", Format::Time, rows, |r| Cell::float(r.sum_us / r.count as f64)),
        column("kernel_time_sum", Format::Time, rows, |r| Cell::float(r.sum_us)),
    ]);
    Table { name: "diff_stats_unique_args_summary".to_owned(), columns }
}

/// One row a common call.
pub fn lca_table(rows: &[LcaRow], totals: Totals) -> Table {
    let plain = |header: &str, cell: &dyn Fn(&LcaRow) -> Cell| column(header, Format::Plain, rows, cell);
    let time = |header: &str, cell: &dyn Fn(&LcaRow) -> Cell| column(header, Format::Time, rows, cell);
    let list = |names: &[Arc<str>]| {
        let quoted: Vec<String> = names.iter().map(|n| jarvis_trace::pyliteral::of_str(n)).collect();
        Cell::Text(format!("[{}]", quoted.join(", ")).into())
    };
    let mut columns = vec![
        plain("name", &|r| text(&r.name)),
        plain("lowest_common_ancestor_name", &|r| text(&r.lca_name)),
        plain("lowest_common_ancestor_id", &|r| Cell::Int(r.lca.into())),
        plain("nn_module_stack", &|r| text(&r.nn_module_stack)),
        plain("nn_module_parent", &|r| text(&r.nn_module_parent)),
    ];
    columns.extend((0..4).map(|i| plain(ARG_HEADERS[i], &|r| text(&r.args[i]))));
    columns.extend([
        time("kernel_time_trace1_us", &|r| Cell::float(r.us[0])),
        time("kernel_time_trace2_us", &|r| Cell::float(r.us[1])),
        plain("num_kernels_trace1", &|r| Cell::Int(r.kernels[0].len() as i64)),
        plain("num_kernels_trace2", &|r| Cell::Int(r.kernels[1].len() as i64)),
        plain("kernel_names_trace1", &|r| list(&r.kernels[0])),
        plain("kernel_names_trace2", &|r| list(&r.kernels[1])),
        column("speedup (trace2/trace1)", Format::Quantity, rows, |r| r.ratio().map_or(Cell::Missing, Cell::float)),
        time("delta_us (trace2 - trace1)", &|r| Cell::float(r.delta_us())),
        plain("status", &|r| Cell::Text(r.status.as_str().into())),
    ]);
    let share = |us: f64, total: f64| Cell::float(us / total * 100.0);
    if totals.us[0] > 0.0 {
        columns.push(column("pct_of_trace1_total (%)", Format::Percent, rows, |r| share(r.us[0], totals.us[0])));
        let mut sum = 0.0;
        let cells = rows.iter().map(|r| {
            sum += r.us[0];
            share(sum, totals.us[0])
        });
        let header = "cumulative_pct_trace1 (%)".to_owned();
        columns.push(Column { header, format: Format::Percent, cells: cells.collect() });
    }
    if totals.us[1] > 0.0 {
        columns.push(column("pct_of_trace2_total (%)", Format::Percent, rows, |r| share(r.us[1], totals.us[1])));
    }
    Table { name: "lca_summary".to_owned(), columns }
}

/// One row a group of common calls.
pub fn group_table(groups: &[LcaGroup]) -> Table {
    let plain = |header: &str, cell: &dyn Fn(&LcaGroup) -> Cell| column(header, Format::Plain, groups, cell);
    let time = |header: &str, cell: &dyn Fn(&LcaGroup) -> Cell| column(header, Format::Time, groups, cell);
    // As text: a column of numbers shows `268.0` where one is missing.
    let uid = |uid: Option<u32>| uid.map_or(Cell::Missing, |uid| Cell::Text(uid.to_string().into()));
    let columns = vec![
        plain("name", &|g| text(&g.first.name)),
        plain("lowest_common_ancestor_name", &|g| text(&g.first.lca_name)),
        plain("status", &|g| Cell::Text(g.first.status.as_str().into())),
        plain("Input Dims", &|g| text(&g.first.args[0])),
        plain("Input type", &|g| text(&g.first.args[2])),
        plain("count", &|g| Cell::Int(g.count as i64)),
        time("kernel_time_trace1_us", &|g| Cell::float(g.us[0])),
        time("kernel_time_trace2_us", &|g| Cell::float(g.us[1])),
        time("delta_us (trace2 - trace1)", &|g| Cell::float(g.delta_us())),
        column("ratio (trace2/trace1)", Format::Quantity, groups, |g| g.ratio().map_or(Cell::Missing, Cell::float)),
        plain("num_kernels_trace1", &|g| Cell::Int(g.kernels[0] as i64)),
        plain("num_kernels_trace2", &|g| Cell::Int(g.kernels[1] as i64)),
        plain("ex_UID_trace1", &|g| uid(g.first.uids[0])),
        plain("ex_UID_trace2", &|g| uid(g.first.uids[1])),
        plain("nn_module_parent", &|g| text(&g.first.nn_module_parent)),
    ];
    Table { name: "lca_by_operation".to_owned(), columns }
}

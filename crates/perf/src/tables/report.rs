//! The whole report: builds the tree, fills the sheets, puts them in order.
//!
//! Times are measured in whole nanoseconds and become microseconds where they are shown; under `--parity` they are
//! differences of float microseconds, with the reference's rounding.

use std::sync::Arc;

use jarvis_trace::side_by_side::{both, both_and};
use jarvis_trace::{Diagnostics, EventId, Id, Nesting, Ns, Population, Timeline, Trace, Tree, TreeOptions, Us};
use rapidhash::RapidHashMap;

use super::collectives::Collectives;
use super::context::Context;
use super::inputs::ArgLists;
use super::kernels::{self, Bin, KernelRow, Kernels, ShortKernelRow};
use super::launchers::{self, CategoryRow, LauncherRows, OpRow, UniqueArgsRow};
use super::op_sheets::{self, OpSheet};
use super::options::{ReportError, ReportOptions};
use super::overlap::OverlapSheets;
use super::timeline::GpuTime;
use super::unified::{self, Unified};
use super::{Sheet, Table};

/// A finished report.
#[derive(Debug)]
pub struct Report {
    /// What the sheets are made of.
    pub rows: ReportRows,
    /// The tree that everything was read off.
    pub tree: Tree,
    /// Arguments of calls, as far as they were asked for.
    pub arg_lists: ArgLists,
    /// What was odd about the recording, reading and tree together.
    pub diagnostics: Diagnostics,
    options: ReportOptions,
    ready: ReadySheets,
}

/// What sheets need beside the rows, while the trace is there.
#[derive(Debug)]
struct ReadySheets {
    timeline: Table,
    overlaps: OverlapSheets,
    /// Whether any kernel belongs to an operation.
    any_op: bool,
}

/// The rows that the sheets show, as values: what later stages read instead of cells. Caps on rows hold for the sheets
/// alone.
#[derive(Debug, Default)]
pub struct ReportRows {
    /// The GPU's time, of all events the timeline counts.
    pub timeline: Timeline<Us>,
    /// The same for each GPU, if several worked.
    pub devices: Vec<(Id, Timeline<Ns>)>,
    /// Operations that launched kernels, in order of start.
    pub launchers: LauncherRows,
    /// `ops_summary_by_category`.
    pub categories: Vec<CategoryRow>,
    /// `ops_summary`.
    pub ops: Vec<OpRow>,
    /// `ops_unique_args`.
    pub unique_args: Vec<UniqueArgsRow>,
    /// `unified_perf_summary`, with its calls.
    pub unified: Unified,
    /// The sheets of operations.
    pub op_sheets: Vec<OpSheet>,
    /// `kernel_summary`; empty if not asked for.
    pub kernels: Vec<KernelRow>,
    /// `short_kernel_histogram`; empty if not asked for.
    pub histogram: Vec<Bin>,
    /// `short_kernels_summary`; empty if not asked for.
    pub short_kernels: Vec<ShortKernelRow>,
    /// `coll_analysis`; empty if not asked for.
    pub collectives: Collectives,
    /// GPU events whose launch was not recorded: how many, and their microseconds. Kernel sheets count them.
    pub unlinked: (usize, f64),
    /// Of these, those that end before the first one whose launch was recorded begins: before the window.
    pub unlinked_before: (usize, f64),
    /// Of these, those that the timeline counts: they ran between others.
    pub unlinked_within: (usize, f64),
    /// Operations whose model gave no numbers, and why.
    pub model_failures: Vec<ModelFailure>,
}

/// An operation whose model gave no numbers for some row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailure {
    /// Operation.
    pub op: Arc<str>,
    /// Why.
    pub reason: Arc<str>,
    /// Calls it holds for.
    pub calls: usize,
    /// UID of one of them.
    pub example: u32,
}

impl Report {
    /// The GPU events that the timeline counts.
    pub fn population(&self) -> Population {
        self.options.population()
    }

    /// The sheets in their order. Those without rows are absent, but for the two of short kernels.
    pub fn sheets(&self) -> Vec<Sheet<'_>> {
        let mut sheets = vec![Sheet::from(&self.ready.timeline)];
        sheets.extend(self.launcher_sheets());
        sheets.extend(self.unified_sheets());
        sheets.extend(self.operation_sheets());
        sheets.retain(|sheet| sheet.rows() > 0);
        sheets.extend(self.kernel_sheets());
        sheets
    }

    /// The same with all their cells: several times the memory of the rows.
    pub fn tables(&self) -> Vec<Table> {
        self.sheets().iter().map(Sheet::table).collect()
    }

    /// The sheet of this name.
    pub fn table(&self, name: &str) -> Option<Table> {
        self.sheets().iter().find(|sheet| sheet.name == name).map(Sheet::table)
    }

    /// The sheets of launchers.
    fn launcher_sheets(&self) -> impl Iterator<Item = Sheet<'_>> {
        let Self { rows, options, ready, .. } = self;
        let most = self.cap(options.topk_ops);
        let sheets = [
            launchers::category_sheet(&rows.categories, options.detect_recompute),
            launchers::name_sheet(&rows.ops, options.detect_recompute).capped(most),
            launchers::args_sheet(options, &rows.unique_args).capped(most),
        ];
        sheets.into_iter().chain(ready.overlaps.unique_args.as_ref().map(|t| Sheet::from(t).capped(most)))
    }

    /// The sheets of all calls.
    fn unified_sheets(&self) -> impl Iterator<Item = Sheet<'_>> {
        let Self { rows, options, ready, .. } = self;
        let most = self.cap(options.topk_ops);
        let twin = ready.overlaps.unified.as_ref().map(Sheet::from);
        [rows.unified.sheet(options)].into_iter().chain(twin).map(move |sheet| sheet.capped(most))
    }

    /// The sheets of modelled operations.
    fn operation_sheets(&self) -> impl Iterator<Item = Sheet<'_>> {
        let Self { rows, options, ready, .. } = self;
        let most = self.cap(options.topk_roofline_ops);
        let sheets = ready.overlaps.in_order(&rows.op_sheets, |sheet| sheet.sheet(options));
        sheets.into_iter().map(move |sheet| sheet.capped(most))
    }

    /// How many rows were asked for.
    fn cap(&self, most: Option<usize>) -> Option<usize> {
        most.filter(|_| !self.options.quirks().caps_ignored)
    }

    /// The sheets of kernels and collectives.
    fn kernel_sheets(&self) -> Vec<Sheet<'_>> {
        let Self { rows, options, ready, .. } = self;
        let mut sheets = Vec::new();
        if options.kernel_summary {
            sheets.extend(shown(kernels::summary_sheet(ready.any_op, &rows.kernels)));
        }
        if options.short_kernel_study {
            sheets.push(kernels::histogram_sheet(&rows.histogram));
            sheets.push(kernels::short_sheet(ready.any_op, &rows.short_kernels));
        }
        if options.coll_analysis {
            sheets.extend(shown(rows.collectives.sheet()));
        }
        sheets
    }
}

/// A sheet if it has rows.
fn shown(sheet: Sheet<'_>) -> Option<Sheet<'_>> {
    Some(sheet).filter(|sheet| sheet.rows() > 0)
}

/// From so many rows on the sheets of operations are made last, on a thread of their own. With fewer they take a
/// millisecond or two, and what both threads need at once is memory.
const MANY_ROWS: usize = 1000;

/// Makes the report of a trace.
pub fn build_report(trace: &Trace, options: &ReportOptions) -> Result<Report, ReportError> {
    build_report_around(trace, options, |_| (), |_, _| (), |_, (), ()| ()).map(|(report, ())| report)
}

/// The same, and beside it what else is made of the trace. `first` and `second` need the tree and arguments alone: one is
/// done beside the rows on a thread of its own, the other by the thread that is free before the other. `then` needs what
/// came of them and the rows, but none of the sheets of operations: the report that it sees has none, for where there are
/// many rows they are made beside it.
pub fn build_report_around<A: Send, B: Send + Sync, U>(
    trace: &Trace,
    options: &ReportOptions,
    first: impl FnOnce(&Tree) -> A + Send,
    second: impl Fn(&Tree, &ArgLists) -> B + Sync,
    then: impl FnOnce(&Report, A, B) -> U,
) -> Result<(Report, U), ReportError> {
    let tree = Tree::build(trace, tree_options(options));
    let gpu = GpuTime::of(trace, &tree, options)?;
    let timeline = gpu.sheet(trace, &tree, options);
    let mut report = Report {
        rows: ReportRows::default(),
        diagnostics: diagnostics(trace, &tree, &gpu),
        tree,
        arg_lists: ArgLists::default(),
        options: options.clone(),
        ready: ReadySheets { timeline, overlaps: OverlapSheets::default(), any_op: false },
    };
    let (tree, lists) = (&report.tree, &report.arg_lists);
    let cx = Context::new(trace, tree, lists, options);
    let (a, filled, b) = both_and(|| first(tree), || fill(cx, &gpu), || second(tree, lists));
    (report.rows, report.ready.any_op) = (filled.rows, filled.any_op);
    let (rows, gpu) = (&report.rows, &gpu);
    let (operations, of_then) = match filled.operations {
        Sheets::Made(operations) => (operations, then(&report, a, b)),
        // What they are made from goes with the thread that makes them.
        Sheets::ToBeMade(mut cx) => {
            both(move || operations(&mut cx, gpu, &rows.launchers, &rows.unified), || then(&report, a, b))
        }
    };
    (report.rows.op_sheets, report.ready.overlaps) = operations;
    Ok((report, of_then))
}

/// An error if there is no GPU work that a report could be made of. Work without a recorded launch will do.
pub fn require_gpu_work(trace: &Trace) -> Result<(), ReportError> {
    let options = ReportOptions { include_unlinked: true, ..ReportOptions::default() };
    GpuTime::of(trace, &Tree::build(trace, tree_options(&options)), &options).map(drop)
}

fn diagnostics(trace: &Trace, tree: &Tree, gpu: &GpuTime) -> Diagnostics {
    let mut diagnostics = trace.diagnostics().clone();
    diagnostics.extend(tree.diagnostics());
    gpu.timeline.check(&mut diagnostics);
    diagnostics
}

/// How the tree of a report is built.
pub fn tree_options(options: &ReportOptions) -> TreeOptions {
    let mut tree = TreeOptions { fidelity: options.fidelity, ..TreeOptions::default() };
    if options.quirks().times_in_floats {
        tree.nesting = Nesting::Float;
    }
    if options.needs_frames() { tree.with_python() } else { tree }
}

fn failures(unified: &Unified) -> Vec<ModelFailure> {
    let mut list: Vec<ModelFailure> = Vec::new();
    let mut index: RapidHashMap<(&str, &str), usize> = RapidHashMap::default();
    for row in &unified.rows {
        let Some(reason) = &row.model_failure else { continue };
        let at = *index.entry((&row.identity.name, reason)).or_insert(list.len());
        match list.get_mut(at) {
            Some(known) => known.calls += row.calls.len(),
            None => list.push(ModelFailure {
                op: Arc::clone(&row.identity.name),
                reason: Arc::clone(reason),
                calls: row.calls.len(),
                example: row.ex_uid,
            }),
        }
    }
    list
}

/// The sheets of operations, and those that tell their calls apart by what ran beside them.
type Operations = (Vec<OpSheet>, OverlapSheets);

/// What a report is made of.
struct Filled<'a> {
    /// All rows but those of the sheets of operations.
    rows: ReportRows,
    /// Whether any kernel belongs to an operation.
    any_op: bool,
    operations: Sheets<'a>,
}

/// Sheets of operations.
enum Sheets<'a> {
    Made(Operations),
    /// They have many rows. What they are made from goes otherwise as soon as it can.
    ToBeMade(Box<Context<'a>>),
}

fn fill<'a>(mut cx: Context<'a>, gpu: &GpuTime) -> Filled<'a> {
    let (trace, tree) = (cx.trace, cx.tree);
    let launchers = if with_ops(&cx) { LauncherRows::of(&mut cx) } else { LauncherRows::default() };
    let beside = cx.beside();
    let (sums, (unified, collectives, operations)) = both(
        || Sums::of(beside, &launchers, gpu.timeline.total.0),
        || {
            let (unified, collectives) = modelled(&mut cx, &launchers);
            let operations = if unified.rows.len() < MANY_ROWS {
                Sheets::Made(operations(&mut cx, gpu, &launchers, &unified))
            } else {
                Sheets::ToBeMade(Box::new(cx))
            };
            (unified, collectives, operations)
        },
    );
    let [unlinked, unlinked_before, unlinked_within] = unlinked(trace, tree, gpu);
    let rows = ReportRows {
        timeline: gpu.timeline,
        devices: gpu.by_device(trace),
        launchers,
        categories: sums.categories,
        ops: sums.ops,
        unique_args: sums.unique_args,
        model_failures: failures(&unified),
        unified,
        op_sheets: Vec::new(),
        kernels: sums.kernels,
        histogram: sums.histogram,
        short_kernels: sums.short_kernels,
        collectives,
        unlinked,
        unlinked_before,
        unlinked_within,
    };
    Filled { rows, any_op: sums.any_op, operations }
}

/// Whether operations make rows.
fn with_ops(cx: &Context<'_>) -> bool {
    !cx.tree.is_gpu_only() || !cx.quirks.runtime_calls_make_no_sheets
}

/// The rows that need no model.
#[derive(Debug, Default)]
struct Sums {
    categories: Vec<CategoryRow>,
    ops: Vec<OpRow>,
    unique_args: Vec<UniqueArgsRow>,
    kernels: Vec<KernelRow>,
    histogram: Vec<Bin>,
    short_kernels: Vec<ShortKernelRow>,
    /// Whether any kernel belongs to an operation.
    any_op: bool,
}

impl Sums {
    fn of(mut cx: Context<'_>, launchers: &LauncherRows, total_us: f64) -> Self {
        let (options, cx) = (cx.options, &mut cx);
        let mut sums = Self {
            categories: launchers::by_category(launchers),
            ops: launchers::by_name(cx, launchers),
            unique_args: launchers::by_args(cx, launchers, |_| None),
            ..Self::default()
        };
        if options.kernel_summary || options.short_kernel_study {
            let all = Kernels::of(cx, launchers);
            sums.any_op = all.any_op;
            if options.kernel_summary {
                sums.kernels = kernels::summary(cx, &all, total_us);
            }
            if options.short_kernel_study {
                sums.histogram = kernels::histogram(&all, options.short_kernel_threshold_us, options.short_kernel_bins);
                sums.short_kernels = kernels::short_kernels(cx, &all, total_us);
            }
        }
        sums
    }
}

/// The rows of calls, and of collectives.
fn modelled(cx: &mut Context<'_>, launchers: &LauncherRows) -> (Unified, Collectives) {
    if !with_ops(cx) {
        return Default::default();
    }
    let mut unified = Unified::of(cx, launchers);
    if cx.options.call_stack {
        unified::set_call_stacks(cx, &mut unified.rows);
    }
    let collectives = if cx.options.coll_analysis { Collectives::of(cx) } else { Collectives::default() };
    (unified, collectives)
}

/// Only files are made of them.
fn operations(cx: &mut Context<'_>, gpu: &GpuTime, launchers: &LauncherRows, unified: &Unified) -> Operations {
    if !with_ops(cx) {
        return Default::default();
    }
    let (op_sheets, families) = op_sheets::op_sheets(cx);
    let overlaps = if cx.options.include_overlap {
        OverlapSheets::of(cx, gpu, launchers, unified, &families)
    } else {
        OverlapSheets::default()
    };
    (op_sheets, overlaps)
}

/// GPU events whose launch was not recorded: all of them, those before the window, and those that the timeline counts.
fn unlinked(trace: &Trace, tree: &Tree, gpu: &GpuTime) -> [(usize, f64); 3] {
    let unlinked = |events: &[EventId]| events.iter().copied().filter(|&e| !tree.is_linked(e)).collect::<Vec<_>>();
    let mut events = unlinked(tree.all_gpu_events());
    let sum = |events: &[EventId]| {
        let time: Ns = events.iter().filter_map(|&e| trace.dur(e)).sum();
        (events.len(), time.as_us())
    };
    let all = sum(&events);
    if events.is_empty() {
        return [all; 3];
    }
    let mut counted = unlinked(&gpu.events);
    counted.sort_unstable();
    let begin = tree.linked_gpu_events().filter_map(|e| trace.ts(e)).min();
    let is_before = |e| begin.is_some_and(|begin| trace.end(e).is_some_and(|end| end <= begin));
    events.retain(|e| is_before(*e) && counted.binary_search(e).is_err());
    [all, sum(&events), sum(&counted)]
}

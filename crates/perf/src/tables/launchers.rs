//! The operations that launched kernels: `ops_summary_by_category`, `ops_summary`, `ops_unique_args`.

use std::collections::BTreeSet;
use std::sync::Arc;

use jarvis_trace::tree::Communication;
use jarvis_trace::{EventId, InOrder, Ns, pyliteral, timeline::compensated_sum};

use super::context::{CallIdentity, CallKey, Context, KeyColumns, RECOMPUTE, identity_columns};
use super::inputs::InputsId;
use super::kernel_list::KernelList;
use super::options::ReportOptions;
use super::sheet::{Columns, Stat, count, group_by, maybe_bool, text};
use super::stats::{Stats, percentages};
use super::texts::TextId;
use super::{Cell, Format, Sheet};

/// An operation with the GPU time of what it launched itself and of all below it.
#[derive(Debug, Clone)]
pub struct LauncherRow {
    /// The operation, or the runtime call where no operation is around it.
    pub event: EventId,
    /// Time of its own kernels in microseconds; communication is left out.
    pub direct_us: f64,
    /// Time of all kernels below it in microseconds.
    pub subtree_us: f64,
    /// Where its kernels begin among those of all launchers, and how many there are.
    kernels: (u32, u32),
    pub(crate) category: TextId,
    pub(crate) inputs: InputsId,
    recompute: Option<bool>,
}

/// All launchers of a trace in order of their start.
#[derive(Debug, Default)]
pub struct LauncherRows {
    rows: Vec<LauncherRow>,
    kernels: Vec<EventId>,
    /// Each category once: there are few.
    categories: Vec<(TextId, Arc<str>)>,
    /// Positions of the rows, in order of their events.
    by_event: Vec<u32>,
}

impl LauncherRows {
    pub(crate) fn of(cx: &mut Context<'_>) -> Self {
        let (trace, view) = (cx.trace, cx.view());
        let launchers = view.launchers(Communication::Exclude);
        let mut all = Self { rows: Vec::with_capacity(launchers.len()), ..Self::default() };
        for launcher in launchers.iter() {
            let kernels = view.by_start(launcher.kernels);
            let category = cx.category_of(launcher.event, cx.name_of(launcher.event), &kernels);
            let below = cx.tree.gpu_event_count(launcher.event);
            let direct_us = view.busy(&kernels).0;
            all.rows.push(LauncherRow {
                event: launcher.event,
                direct_us,
                // Most launchers own all that is below them.
                subtree_us: if below == kernels.len() { direct_us } else { view.subtree_busy(launcher.event).0 },
                kernels: (all.kernels.len() as u32, kernels.len() as u32),
                category,
                inputs: cx.inputs_of(launcher.event),
                recompute: cx.recompute(launcher.event),
            });
            if all.categories.iter().all(|(id, _)| *id != category) {
                all.categories.push((category, cx.texts.get(category)));
            }
            all.kernels.extend_from_slice(&kernels);
        }
        all.by_event = (0..all.rows.len() as u32).collect();
        all.by_event.sort_unstable_by_key(|&i| all.rows[i as usize].event);
        debug_assert!(all.rows.is_sorted_by_key(|r| trace.ts(r.event)));
        all
    }

    /// The launchers.
    pub fn rows(&self) -> &[LauncherRow] {
        &self.rows
    }

    /// The row of an event, if it launched something itself.
    pub fn get(&self, event: EventId) -> Option<&LauncherRow> {
        let row = |i: u32| &self.rows[i as usize];
        let at = self.by_event.binary_search_by_key(&event, |&i| row(i).event).ok()?;
        Some(row(self.by_event[at]))
    }

    /// Category of the launcher at a position.
    pub fn category(&self, position: usize) -> &Arc<str> {
        let id = self.rows[position].category;
        let at = self.categories.iter().position(|(known, _)| *known == id);
        &self.categories[at.unwrap_or_default()].1
    }

    /// The kernels a launcher launched itself, in order of start.
    pub fn kernels(&self, row: &LauncherRow) -> &[EventId] {
        let (from, count) = row.kernels;
        &self.kernels[from as usize..][..count as usize]
    }
}

/// A row of `ops_summary_by_category`.
#[derive(Debug, Clone)]
pub struct CategoryRow {
    /// Category.
    pub category: Arc<str>,
    /// Whether the work is done a second time, where that is told apart.
    pub is_recompute: Option<bool>,
    /// Launchers.
    pub count: usize,
    /// Time of the launchers' own kernels in microseconds.
    pub direct_us: f64,
    /// Share in percent, and the running sum of shares.
    pub percent: (f64, f64),
}

/// `ops_summary_by_category`: launchers by category, most time first.
pub(crate) fn by_category(launchers: &LauncherRows) -> Vec<CategoryRow> {
    let rows = launchers.rows();
    let mut out: Vec<CategoryRow> = group_by(rows, |r| (r.category, r.recompute))
        .into_iter()
        .map(|group| CategoryRow {
            category: Arc::clone(launchers.category(group[0])),
            is_recompute: rows[group[0]].recompute,
            count: group.len(),
            direct_us: compensated_sum(group.iter().map(|&i| rows[i].direct_us)),
            percent: (0.0, 0.0),
        })
        .collect();
    out.order_by(|a, b| (&a.category, a.is_recompute).cmp(&(&b.category, b.is_recompute)));
    out.order_by(|a, b| b.direct_us.total_cmp(&a.direct_us));
    let times: Vec<f64> = out.iter().map(|r| r.direct_us / 1e3).collect();
    for (row, percent) in out.iter_mut().zip(percentages(&times)) {
        row.percent = percent;
    }
    out
}

/// The sheet of [`by_category`].
pub(crate) fn category_sheet(rows: &[CategoryRow], recompute: bool) -> Sheet<'_> {
    Columns::<CategoryRow>::new()
        .plain("op category", |r| text(&r.category))
        .when(recompute, |c| c.plain(RECOMPUTE, |r| maybe_bool(r.is_recompute)))
        .plain("Count", |r| count(r.count))
        .time("total_direct_kernel_time_ms", |r| Cell::float(r.direct_us / 1e3))
        .and(percent_columns(|r| r.percent))
        .sheet("ops_summary_by_category", rows)
}

/// Share and running sum of shares, the last two columns of many sheets.
pub(crate) fn percent_columns<R: 'static>(get: fn(&R) -> (f64, f64)) -> Columns<R> {
    Columns::<R>::new()
        .percent("Percentage (%)", move |r| Cell::float(get(r).0))
        .percent("Cumulative Percentage (%)", move |r| Cell::float(get(r).1))
}

/// A row of `ops_summary`.
#[derive(Debug, Clone)]
pub struct OpRow {
    /// Operation.
    pub name: Arc<str>,
    /// Whether the work is done a second time, where that is told apart.
    pub is_recompute: Option<bool>,
    /// Launchers.
    pub count: usize,
    /// Time of the launchers' own kernels in microseconds.
    pub direct_us: f64,
    /// Time of all kernels below the launchers in microseconds.
    pub subtree_us: f64,
    /// Categories, sorted.
    pub categories: Vec<Arc<str>>,
    /// Share in percent, and the running sum of shares.
    pub percent: (f64, f64),
}

/// `ops_summary`: launchers by name, most time first.
pub(crate) fn by_name(cx: &mut Context<'_>, launchers: &LauncherRows) -> Vec<OpRow> {
    let rows = launchers.rows();
    let trace = cx.trace;
    let mut out: Vec<OpRow> = group_by(rows, |r| (trace.name_id(r.event), r.recompute))
        .into_iter()
        .map(|group| {
            let sum = |time: fn(&LauncherRow) -> f64| compensated_sum(group.iter().map(|&i| time(&rows[i])));
            let categories: BTreeSet<&Arc<str>> = group.iter().map(|&i| launchers.category(i)).collect();
            OpRow {
                name: cx.texts.shared(trace.name_id(rows[group[0]].event)),
                is_recompute: rows[group[0]].recompute,
                count: group.len(),
                direct_us: sum(|r| r.direct_us),
                subtree_us: sum(|r| r.subtree_us),
                categories: categories.into_iter().cloned().collect(),
                percent: (0.0, 0.0),
            }
        })
        .collect();
    out.order_by(|a, b| (&a.name, a.is_recompute).cmp(&(&b.name, b.is_recompute)));
    out.order_by(|a, b| b.direct_us.total_cmp(&a.direct_us));
    let times: Vec<f64> = out.iter().map(|r| r.direct_us / 1e3).collect();
    for (row, percent) in out.iter_mut().zip(percentages(&times)) {
        row.percent = percent;
    }
    out
}

/// The sheet of [`by_name`].
pub(crate) fn name_sheet(rows: &[OpRow], recompute: bool) -> Sheet<'_> {
    let categories = |r: &OpRow| {
        let words: Vec<String> = r.categories.iter().map(|c| pyliteral::of_str(c)).collect();
        Cell::Text(format!("[{}]", words.join(", ")).into())
    };
    Columns::<OpRow>::new()
        .plain("name", |r| text(&r.name))
        .when(recompute, |c| c.plain(RECOMPUTE, |r| maybe_bool(r.is_recompute)))
        .time("total_direct_kernel_time_sum", |r| Cell::float(r.direct_us))
        .time("total_subtree_kernel_time_sum", |r| Cell::float(r.subtree_us))
        .time("total_direct_kernel_time_ms", |r| Cell::float(r.direct_us / 1e3))
        .time("total_subtree_kernel_time_ms", |r| Cell::float(r.subtree_us / 1e3))
        .plain("Count", |r| count(r.count))
        .plain("Categories", categories)
        .and(percent_columns(|r| r.percent))
        .sheet("ops_summary", rows)
}

/// A row of `ops_unique_args`.
#[derive(Debug, Clone)]
pub struct UniqueArgsRow {
    /// Operation, place and arguments.
    pub identity: CallIdentity,
    /// Calls.
    pub count: usize,
    /// First start after the first of all, in microseconds.
    pub first_occurrence_us: f64,
    /// Time of the launchers' own kernels in microseconds.
    pub direct_us: Stats,
    /// Time of all kernels below the launchers in microseconds.
    pub subtree_us: Stats,
    /// The first call.
    pub example: EventId,
    /// Own kernels, position by position.
    pub kernels: KernelList,
    /// Share in percent, and the running sum of shares.
    pub percent: (f64, f64),
    /// Positions of the calls among the launchers.
    pub calls: Vec<usize>,
}

/// `ops_unique_args`: launchers by name, place and arguments, most time first.
///
/// `split` may tell calls apart further; it is asked for each position among the launchers.
pub(crate) fn by_args(
    cx: &mut Context<'_>,
    launchers: &LauncherRows,
    split: impl Fn(usize) -> Option<TextId>,
) -> Vec<UniqueArgsRow> {
    let rows = launchers.rows();
    let by_kernels = cx.options.group_by_num_kernels;
    let key = |cx: &Context<'_>, r: &LauncherRow| CallKey {
        name: cx.name_of(r.event),
        category: r.category,
        place: cx.place(r.event),
        inputs: cx.inputs.group(r.inputs),
        num_kernels: by_kernels.then_some(r.kernels.1 as usize),
        recompute: r.recompute,
        over_link: false,
        told: [false; 2],
    };
    let positions: Vec<usize> = (0..rows.len()).collect();
    let groups = group_by(&positions, |&i| (key(cx, &rows[i]), split(i)));
    let mut out: Vec<UniqueArgsRow> = groups
        .into_iter()
        .map(|group| {
            let first = &rows[group[0]];
            let lists = group.iter().map(|&i| launchers.kernels(&rows[i]));
            let key = key(cx, first);
            UniqueArgsRow {
                identity: cx.identity(&key, first.inputs),
                count: group.len(),
                first_occurrence_us: 0.0,
                direct_us: Stats::of(group.iter().map(|&i| rows[i].direct_us)),
                subtree_us: Stats::of(group.iter().map(|&i| rows[i].subtree_us)),
                example: first.event,
                kernels: KernelList::of_events(cx.trace, lists, &mut cx.texts, &cx.quirks),
                percent: (0.0, 0.0),
                calls: group,
            }
        })
        .collect();
    set_first_occurrences(cx, launchers, &mut out);
    // Rows of equal time stay in the order of their first calls.
    let uid = |row: &UniqueArgsRow| cx.quirks.events_in_file_order.then_some(row.example);
    out.order_by(|a, b| b.direct_us.sum.total_cmp(&a.direct_us.sum).then_with(|| uid(a).cmp(&uid(b))));
    let times: Vec<f64> = out.iter().map(|r| r.direct_us.sum).collect();
    for (row, percent) in out.iter_mut().zip(percentages(&times)) {
        row.percent = percent;
    }
    out
}

/// Launchers are in order of start, so a group's first call is its earliest.
fn set_first_occurrences(cx: &Context<'_>, launchers: &LauncherRows, rows: &mut [UniqueArgsRow]) {
    let start = |e: EventId| cx.trace.ts(e).unwrap_or_default();
    let origin = launchers.rows().first().map_or_else(Ns::default, |r| start(r.event));
    for row in rows {
        let start = start(row.example);
        row.first_occurrence_us =
            if cx.quirks.times_in_floats { start.as_us() - origin.as_us() } else { (start - origin).as_us() };
    }
}

/// The sheet of [`by_args`].
pub(crate) fn args_sheet<'a>(options: &ReportOptions, rows: &'a [UniqueArgsRow]) -> Sheet<'a> {
    args_head(options)
        .and(kernel_columns("kernel_details_summary", |r| &r.kernels))
        .and(mixed_column(options, rows, |r| &r.kernels))
        .and(percent_columns(|r| r.percent))
        .sheet("ops_unique_args", rows)
}

/// The columns of `ops_unique_args` up to the kernels.
pub(crate) fn args_head(options: &ReportOptions) -> Columns<UniqueArgsRow> {
    let keys = KeyColumns { num_kernels: options.group_by_num_kernels, recompute: options.detect_recompute };
    let mut columns = identity_columns(keys, |r: &UniqueArgsRow| &r.identity)
        .plain("operation_count", |r| count(r.count))
        .when(options.first_occurrence, |c| c.time("first_occurrence_time", |r| Cell::float(r.first_occurrence_us)));
    for stat in [Stat::Mean, Stat::Median, Stat::Std, Stat::Min, Stat::Max, Stat::Sum] {
        columns = columns.stats("total_direct_kernel_time", &[stat], Format::Time, |r| &r.direct_us).stats(
            "total_subtree_kernel_time",
            &[stat],
            Format::Time,
            |r| &r.subtree_us,
        );
    }
    columns.plain("ex_UID", |r| Cell::Int(i64::from(r.example.uid())))
}

/// The kernels of a group in full and in short.
pub(crate) fn kernel_columns<R: 'static>(header: &'static str, get: fn(&R) -> &KernelList) -> Columns<R> {
    let cell = |text: Option<String>| text.map_or(Cell::Missing, |t| Cell::Text(t.into()));
    Columns::<R>::new()
        .plain(header, move |r| Cell::Text(get(r).text().unwrap_or_else(|| "[]".to_owned()).into()))
        .plain("trunc_kernel_details", move |r| cell(get(r).short_text()))
}

/// Marks rows whose calls ran other kernels than the first, whose names the row shows; where there are any.
pub(crate) fn mixed_column<R: 'static>(options: &ReportOptions, rows: &[R], get: fn(&R) -> &KernelList) -> Columns<R> {
    let any = !options.quirks().mixed_kernels_unmarked && rows.iter().any(|r| get(r).mixed);
    Columns::<R>::new().when(any, |c| c.plain("mixed_kernels", move |r| Cell::Bool(get(r).mixed)))
}

//! The `…_kl_overlap` sheets: the same calls, told apart by which kernels of others ran at the same time.

use jarvis_trace::{Clock, EventId, EventKind, InOrder, Ns, Overlaps, Us, pyliteral};
use rapidhash::RapidHashMap;

use super::context::Context;
use super::kernel_list::{KernelList, Listed, round2};
use super::launchers::{self, LauncherRows, UniqueArgsRow, kernel_columns, percent_columns};
use super::op_sheets::{self, FamilyCalls, OpSheet, OpSheetRow};
use super::sheet::{Columns, Stat, maybe_text, number};
use super::stats::Stats;
use super::texts::TextId;
use super::timeline::GpuTime;
use super::unified::{self, Unified, UnifiedRow};
use super::{Cell, Sheet, Table};

/// What overlaps one call.
struct CallOverlap {
    names: TextId,
    kernels: Vec<Listed>,
    share: f64,
}

/// A row of one of the sheets with what overlaps its calls.
struct OverlapRow<R> {
    row: R,
    names: Option<std::sync::Arc<str>>,
    kernels: KernelList,
    share: Stats,
}

/// The sheets.
#[derive(Debug, Default)]
pub(crate) struct OverlapSheets {
    pub(crate) unique_args: Option<Table>,
    pub(crate) unified: Option<Table>,
    /// Family, and the twin of one of its sheets.
    of_families: Vec<(&'static str, Table)>,
}

/// Finds what overlaps a call; recomputed work is looked at by itself where it is told apart.
struct Finder<T> {
    first: Overlaps<T>,
    recomputed: Overlaps<T>,
}

impl<T: Clock> Finder<T> {
    fn new(cx: &Context<'_>, gpu: &GpuTime) -> Self {
        let (trace, tree) = (cx.trace, cx.tree);
        let told_apart = !cx.quirks.overlap_within_operation_counted;
        let op_of =
            |k: EventId| told_apart.then(|| tree.ancestors(k).find(|&e| trace.kind(e) == EventKind::CpuOp)).flatten();
        let (again, first): (Vec<EventId>, Vec<EventId>) =
            gpu.events.iter().partition(|&&e| cx.options.detect_recompute && tree.is_recompute(e));
        Self { first: Overlaps::find(trace, &first, op_of), recomputed: Overlaps::find(trace, &again, op_of) }
    }

    fn of(&self, cx: &mut Context<'_>, kernels: &[EventId]) -> Option<CallOverlap> {
        let trace = cx.trace;
        let mut kernels = kernels.to_vec();
        kernels.sort_unstable();
        let again = kernels.first().is_some_and(|&k| cx.options.detect_recompute && cx.tree.is_recompute(k));
        let overlaps = if again { &self.recomputed } else { &self.first };
        let found = overlaps.of_launcher(trace, &kernels)?;
        let words: Vec<String> = found.kernels.iter().map(|k| pyliteral::of_str(k.name)).collect();
        let listed = found.kernels.iter().filter_map(|k| {
            Some(Listed {
                name: trace.strings().find(k.name)?,
                event: None,
                us: k.mean_us,
                stream: k.stream,
                overlap: Some(k.share),
            })
        });
        Some(CallOverlap {
            names: cx.texts.intern(&format!("[{}]", words.join(", "))),
            kernels: listed.collect(),
            share: found.share,
        })
    }

    fn of_all<'k>(&self, cx: &mut Context<'_>, calls: impl Iterator<Item = &'k [EventId]>) -> Vec<Option<CallOverlap>> {
        calls.map(|kernels| self.of(cx, kernels)).collect()
    }
}

impl OverlapSheets {
    pub(crate) fn of(
        cx: &mut Context<'_>,
        gpu: &GpuTime,
        launchers: &LauncherRows,
        unified: &Unified,
        families: &[FamilyCalls],
    ) -> Self {
        if cx.quirks.times_in_floats {
            Self::measured_by::<Us>(cx, gpu, launchers, unified, families)
        } else {
            Self::measured_by::<Ns>(cx, gpu, launchers, unified, families)
        }
    }

    fn measured_by<T: Clock>(
        cx: &mut Context<'_>,
        gpu: &GpuTime,
        launchers: &LauncherRows,
        unified: &Unified,
        families: &[FamilyCalls],
    ) -> Self {
        let finder = Finder::<T>::new(cx, gpu);
        let unique_args = Some(unique_args(cx, &finder, launchers));
        let unified = Some(unified_sheet(cx, &finder, unified));
        let of_families = families
            .iter()
            .filter(|family| !family.calls.is_empty())
            .map(|family| (family.family, family_sheet(cx, &finder, family)))
            .collect();
        Self { unique_args, unified, of_families }
    }

    /// The sheets of operations, each family followed by its twins.
    pub(crate) fn in_order<'a>(
        &'a self,
        sheets: &'a [OpSheet],
        of: impl Fn(&'a OpSheet) -> Sheet<'a>,
    ) -> Vec<Sheet<'a>> {
        let mut twins = self.of_families.iter().map(|(family, twin)| (*family, Sheet::from(twin))).peekable();
        let mut out = Vec::new();
        for (i, sheet) in sheets.iter().enumerate() {
            out.push(of(sheet));
            let last_of_family = sheets.get(i + 1).is_none_or(|next| next.family() != sheet.family());
            while last_of_family && twins.peek().is_some_and(|(family, _)| *family == sheet.family()) {
                out.extend(twins.next().map(|(_, twin)| twin));
            }
        }
        out.extend(twins.map(|(_, twin)| twin));
        out
    }
}

fn split(overlaps: &[Option<CallOverlap>]) -> impl Fn(usize) -> Option<TextId> + '_ {
    |i| overlaps[i].as_ref().map(|o| o.names)
}

fn with_overlap<R>(cx: &mut Context<'_>, row: R, calls: &[usize], overlaps: &[Option<CallOverlap>]) -> OverlapRow<R> {
    let of_row = || calls.iter().filter_map(|&i| overlaps[i].as_ref());
    let kernels = KernelList::of(of_row().map(|o| o.kernels.as_slice()), &mut cx.texts, &cx.quirks);
    let share = Stats::of(of_row().map(|o| o.share));
    OverlapRow { row, names: of_row().next().map(|o| cx.texts.get(o.names)), kernels, share }
}

/// A number of a row's shares; what is worked out has two decimals.
fn shown(stat: Stat, share: &Stats) -> Cell {
    let rounded = |value: Option<f64>| number(value.map(round2));
    match stat {
        Stat::Mean => rounded(share.mean()),
        Stat::Median => rounded(share.median()),
        // A single call that overlaps has no spread, not an unknown one.
        Stat::Std if share.count == 1 => Cell::float(0.0),
        Stat::Std => rounded(share.std()),
        Stat::Min | Stat::Max | Stat::Sum => stat.of(share),
    }
}

/// The columns of a sheet with those of the overlap put in.
fn columns<R: 'static>(
    head: Columns<R>,
    kernels: Columns<R>,
    tail: Columns<R>,
    headers: [&'static str; 2],
) -> Columns<OverlapRow<R>> {
    let own = |columns: Columns<R>| columns.lift(|r: &OverlapRow<R>| &r.row);
    let cell = |text: Option<String>| text.map_or(Cell::Missing, |t| Cell::Text(t.into()));
    let [names, details] = headers;
    let with_shares = Stat::SPREAD.into_iter().fold(Columns::new(), |columns: Columns<OverlapRow<R>>, stat| {
        columns.quantity(format!("overlap_pct_{}", stat.word()), move |r| shown(stat, &r.share))
    });
    own(head)
        .plain(names, |r| maybe_text(r.names.as_ref()))
        .last_to(1)
        .and(own(kernels))
        .plain(details, move |r| cell(r.kernels.text()))
        .plain("trunc_overlapping_kernels_details", move |r| cell(r.kernels.short_text()))
        .and(with_shares)
        .and(own(tail))
}

const HEADERS: [&str; 2] = ["overlapping_kernel_names", "overlapping_kernels_details_summary"];

fn unique_args<T: Clock>(cx: &mut Context<'_>, finder: &Finder<T>, launchers: &LauncherRows) -> Table {
    let overlaps = finder.of_all(cx, launchers.rows().iter().map(|r| launchers.kernels(r)));
    let rows: Vec<OverlapRow<UniqueArgsRow>> = launchers::by_args(cx, launchers, split(&overlaps))
        .into_iter()
        .map(|row| {
            let calls = row.calls.clone();
            with_overlap(cx, row, &calls, &overlaps)
        })
        .collect();
    let kernels = kernel_columns("kernel_details_summary", |r: &UniqueArgsRow| &r.kernels);
    let tail = percent_columns(|r: &UniqueArgsRow| r.percent);
    columns(launchers::args_head(cx.options), kernels, tail, HEADERS).sheet("ops_unique_args_kl_overlap", &rows).table()
}

/// Orders rows so that those of one plain row stay together: most time of the whole first.
fn keep_together<R, K: Copy + Eq + std::hash::Hash>(
    rows: &mut [R],
    key: impl Fn(&R) -> K,
    time: impl Fn(&R) -> f64,
    uid: impl Fn(&R) -> u32,
) {
    let mut whole: RapidHashMap<K, (f64, u32)> = RapidHashMap::default();
    for row in rows.iter() {
        let sums = whole.entry(key(row)).or_insert((0.0, u32::MAX));
        *sums = (sums.0 + time(row), sums.1.min(uid(row)));
    }
    rows.order_by(|a, b| {
        let (x, y) = (whole[&key(a)], whole[&key(b)]);
        let of_whole = y.0.total_cmp(&x.0).then(x.1.cmp(&y.1));
        of_whole.then_with(|| time(b).total_cmp(&time(a))).then_with(|| uid(a).cmp(&uid(b)))
    });
}

fn unified_sheet<T: Clock>(cx: &mut Context<'_>, finder: &Finder<T>, unified: &Unified) -> Table {
    let calls = &unified.calls;
    let overlaps = finder.of_all(cx, calls.iter().map(|c| &*c.kernels));
    let mut rows = unified::rows(cx, calls, split(&overlaps));
    if cx.options.call_stack {
        unified::set_call_stacks(cx, &mut rows);
    }
    keep_together(&mut rows, |r| calls[r.calls[0]].key(cx), |r| r.kernel_us.sum, |r| r.ex_uid);
    unified::set_percentages(&mut rows);
    let shape = unified::Shape::of(cx.options, &rows);
    let rows: Vec<OverlapRow<UnifiedRow>> = rows
        .into_iter()
        .map(|row| {
            let calls = row.calls.clone();
            with_overlap(cx, row, &calls, &overlaps)
        })
        .collect();
    let kernels = kernel_columns("kernel_details_summary", |r: &UnifiedRow| &r.kernels);
    columns(unified::head(&shape), kernels, unified::tail(&shape), HEADERS)
        .sheet("unified_perf_summary_kl_overlap", &rows)
        .table()
}

fn family_sheet<T: Clock>(cx: &mut Context<'_>, finder: &Finder<T>, family: &FamilyCalls) -> Table {
    let overlaps = finder.of_all(cx, family.calls.iter().map(|c| &*c.kernels));
    let mut rows = op_sheets::rows(cx, &family.calls, split(&overlaps));
    let key = |r: &OpSheetRow| family.calls[r.calls[0]].key(cx);
    keep_together(&mut rows, key, |r| r.kernel_us.sum, |r| r.example.uid());
    let name = format!("{}_kl_overlap", family.sheet_name());
    let sheet = OpSheet { name, rows, params: op_sheets::param_names(cx, &family.calls), family: family.family };
    let head = sheet.head(cx.options);
    let rows: Vec<OverlapRow<OpSheetRow>> = sheet
        .rows
        .into_iter()
        .map(|row| {
            let calls = row.calls.clone();
            with_overlap(cx, row, &calls, &overlaps)
        })
        .collect();
    let kernels = kernel_columns("kernel_details__summarize_kernel_stats", |r: &OpSheetRow| &r.kernels);
    let headers = ["overlapping_kernel_names_first", "overlapping_kernels_details__summarize_kernel_stats"];
    columns(head, kernels, op_sheets::tail(), headers).sheet(sheet.name, &rows).table()
}

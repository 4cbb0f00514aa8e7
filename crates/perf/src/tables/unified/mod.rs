//! `unified_perf_summary`: every kernel once, under the operation that best explains it.

mod collect;
mod rows;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use jarvis_trace::{InOrder, pyliteral};
use rapidhash::RapidHashSet;

pub(crate) use collect::collect;
pub use rows::UnifiedCall;
pub(crate) use rows::{Speed, calls};

use super::call_stack::{CallStacks, StackCells};
use super::context::{CallIdentity, Context, KeyColumns, identity_columns};
use super::costs::{CostId, Costed};
use super::kernel_list::KernelList;
use super::launchers::{LauncherRows, kernel_columns, mixed_column, percent_columns};
use super::options::ReportOptions;
use super::sheet::{Columns, Stat, count, group_by, maybe_text, number};
use super::stats::{Stats, percentages};
use super::texts::TextId;
use super::{Cell, Format, Sheet};
use crate::models::{ComputeUnit, Cost};
use crate::ops::ModelSource;
use crate::roofline::{Bound, MB, Metrics, Roofline};
use crate::value::Value;

/// A row: calls with the same name, place and arguments.
#[derive(Debug, Clone)]
pub struct UnifiedRow {
    /// Operation, place and arguments.
    pub identity: CallIdentity,
    /// UID of the first call, as the table shows it.
    pub ex_uid: u32,
    /// Positions of the calls in [`Unified::calls`], in row order.
    pub calls: Vec<usize>,
    /// Host time of the calls in microseconds. Of synthetic rows it is the time of the whole call, once per kernel.
    pub host_us: Stats,
    /// Numbers of the model that do not depend on the time.
    pub model: Option<RowModel>,
    /// 10¹² bytes a second.
    pub tb_per_s: Stats,
    /// 10¹² operations a second.
    pub tflops_per_s: Stats,
    /// The best time in percent of the time taken.
    pub pct_roofline: Stats,
    /// Best time and time taken of the calls that have a roofline, in microseconds.
    pub rated_us: (f64, f64),
    /// Time of the calls' kernels in microseconds.
    pub kernel_us: Stats,
    /// Kernels, position by position.
    pub kernels: KernelList,
    /// Whether a model made the numbers or, if it failed, claims the operation; the mere count of tensors is none.
    pub has_perf_model: bool,
    /// Why the model gave no numbers, where it claims the operation and gave none.
    pub model_failure: Option<Arc<str>>,
    /// Where in the program the calls were made, if asked for.
    pub call_stack: Option<StackCells>,
    /// Share of the sheet's kernel time in percent, and the running sum of shares.
    pub percent: (f64, f64),
}

/// What a model says of a call of a row. Where calls cost differently the numbers are means over them, and what can't be
/// averaged is the first one's.
#[derive(Debug, Clone)]
pub struct RowModel {
    /// Operations / 10⁹.
    pub gflops: Option<f64>,
    /// Bytes / 2²⁰.
    pub data_moved_mb: Option<f64>,
    /// Operations per byte.
    pub flops_per_byte: Option<f64>,
    /// Unit and precision, such as `matrix_bf16`; `None` if either is unknown. Where calls differ in it, those of most time.
    pub compute_spec: Option<Arc<str>>,
    /// The share of the calls' time in each unit and precision, most first; empty where they do not differ.
    pub specs: Arc<[(Arc<str>, f64)]>,
    /// The best a platform could do: microseconds and what bounds it.
    pub roofline: Option<(f64, Bound)>,
    /// Parameters of the model, in its order.
    pub params: Arc<[(Cow<'static, str>, Value)]>,
    /// Whose numbers these are.
    pub source: Option<ModelSource>,
    /// Bytes over the link between host and device, or between devices.
    pub link_bytes: Option<f64>,
    /// What PyTorch's own counter says of a call, where it counts it at all.
    pub torch_flops: Option<f64>,
    /// Whether calls cost differently.
    pub is_mean: bool,
}

/// The rows and their calls.
#[derive(Debug, Clone, Default)]
pub struct Unified {
    /// Most time first.
    pub rows: Vec<UnifiedRow>,
    /// All calls, in the order in which the tree is walked.
    pub calls: Vec<UnifiedCall>,
}

impl Unified {
    pub(crate) fn of(cx: &mut Context<'_>, launchers: &LauncherRows) -> Self {
        let taken = collect(cx);
        let calls = calls(cx, launchers, &taken);
        drop(taken);
        let mut rows = rows(cx, &calls, |_| None);
        rows.order_by(|a, b| a.order(b, cx.quirks.events_in_file_order));
        set_percentages(&mut rows);
        Self { rows, calls }
    }

    /// The calls of a row.
    pub fn calls_of<'u>(&'u self, row: &'u UnifiedRow) -> impl ExactSizeIterator<Item = &'u UnifiedCall> {
        row.calls.iter().map(|&i| &self.calls[i])
    }

    /// The sheet.
    pub(crate) fn sheet(&self, options: &ReportOptions) -> Sheet<'_> {
        let shape = Shape::of(options, &self.rows);
        head(&shape)
            .and(kernel_columns("kernel_details_summary", |r| &r.kernels))
            .and(mixed_column(options, &self.rows, |r| &r.kernels))
            .and(tail(&shape))
            .sheet("unified_perf_summary", &self.rows)
    }
}

/// Calls grouped by what the key columns show, in order of first appearance. `split` may tell calls apart further.
pub(crate) fn rows(
    cx: &mut Context<'_>,
    calls: &[UnifiedCall],
    split: impl Fn(usize) -> Option<TextId>,
) -> Vec<UnifiedRow> {
    let positions: Vec<usize> = (0..calls.len()).collect();
    let groups = group_by(&positions, |&i| (calls[i].key(cx), split(i)));
    groups.into_iter().map(|group| UnifiedRow::of(cx, calls, group)).collect()
}

/// Tells every row where in the program its calls were made.
pub(crate) fn set_call_stacks(cx: &Context<'_>, rows: &mut [UnifiedRow]) {
    let mut stacks = CallStacks::new(cx.trace, cx.tree);
    for row in rows {
        row.call_stack = Some(stacks.of_row(&row.kernels, &row.identity.name));
    }
}

/// Fills in the shares of rows that stand in their order.
pub(crate) fn set_percentages(rows: &mut [UnifiedRow]) {
    let times: Vec<f64> = rows.iter().map(|r| r.kernel_us.sum).collect();
    for (row, percent) in rows.iter_mut().zip(percentages(&times)) {
        row.percent = percent;
    }
}

impl UnifiedRow {
    /// The best time of all calls in percent of the time they took. Unlike the mean over calls, one call whose kernels
    /// were not all recorded does not decide it.
    pub fn efficiency_percent(&self) -> Option<f64> {
        self.model.as_ref()?.best()?;
        let (best_us, taken_us) = self.rated_us;
        (taken_us > 0.0).then(|| 100.0 * best_us / taken_us)
    }

    /// Most kernel time first; rows of equal time stay in the order of their first calls, or go by UID, which is where
    /// these stand in the file.
    pub(crate) fn order(&self, other: &Self, by_uid: bool) -> Ordering {
        let uid = |row: &Self| by_uid.then_some(row.ex_uid);
        other.kernel_us.sum.total_cmp(&self.kernel_us.sum).then_with(|| uid(self).cmp(&uid(other)))
    }

    fn of(cx: &mut Context<'_>, calls: &[UnifiedCall], group: Vec<usize>) -> Self {
        let first = &calls[group[0]];
        let members = || group.iter().map(|&i| &calls[i]);
        let kernels = KernelList::of_events(cx.trace, members().map(|c| &*c.kernels), &mut cx.texts, &cx.quirks);
        let key = first.key(cx);
        let identity = cx.identity(&key, first.inputs);
        let failure = members().filter_map(|c| c.cost).find_map(|id| match &cx.costs.get(id).cost {
            Err(error) if first.has_perf_model => Some(error.to_string().into()),
            _ => None,
        });
        let together = Together::of(cx, members());
        let is_mean = together.differ && !cx.quirks.unlike_calls_in_one_row;
        let model = RowModel::of(cx, members().filter_map(|c| c.cost))
            .map(|model| if is_mean { model.averaged(&together) } else { model })
            .map(|model| if cx.quirks.unlike_calls_in_one_row { model } else { model.in_precisions(&together) });
        // Some models need to see the kernels before they can claim a call.
        let modelled = model.as_ref().and_then(|m| m.source).is_some_and(|source| source != ModelSource::Generic);
        Self {
            identity,
            ex_uid: first.uid,
            host_us: Stats::of(members().map(|c| c.host_us)),
            model_failure: if model.is_none() { failure } else { None },
            model,
            tb_per_s: Stats::of(members().filter_map(|c| c.speed(cx).rates.tb_per_s)),
            tflops_per_s: Stats::of(members().filter_map(|c| c.speed(cx).rates.tflops_per_s)),
            pct_roofline: Stats::of(members().filter_map(|c| c.speed(cx).pct_roofline)),
            rated_us: (together.best_us.sum, together.rated_us),
            kernel_us: Stats::of(members().map(|c| c.kernel_us)),
            kernels,
            has_perf_model: first.has_perf_model || modelled,
            call_stack: None,
            percent: (0.0, 0.0),
            calls: group,
        }
    }
}

/// What the calls of a row cost together.
#[derive(Debug, Default)]
struct Together {
    flops: Sum,
    bytes: Sum,
    best_us: Sum,
    /// Time taken by the calls that have a roofline.
    rated_us: f64,
    /// The longest roofline.
    longest: Option<Roofline>,
    /// Whether calls cost differently.
    differ: bool,
    /// Time taken in each unit and precision.
    specs: Vec<(Spec, f64)>,
}

/// Unit and precision.
type Spec = (ComputeUnit, Option<Cow<'static, str>>);

/// A sum over the calls that have a number.
#[derive(Debug, Default)]
struct Sum {
    sum: f64,
    count: usize,
}

impl Sum {
    fn add(&mut self, number: Option<f64>) {
        if let Some(number) = number {
            self.sum += number;
            self.count += 1;
        }
    }

    fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}

impl Together {
    fn of<'c>(cx: &Context<'_>, calls: impl Iterator<Item = &'c UnifiedCall>) -> Self {
        let mut all = Self::default();
        let mut first = None;
        for (call, costed) in calls.filter_map(|call| Some((call, cx.costs.get(call.cost?)))) {
            let Ok(cost) = &costed.cost else { continue };
            all.flops.add(cost.flops);
            all.bytes.add(cost.bytes);
            let best_us = costed.roofline.map(|r| r.time_us);
            all.best_us.add(best_us);
            if let Some(roofline) = costed.roofline {
                all.rated_us += call.kernel_us;
                all.longest = all.longest.filter(|l| l.time_us >= roofline.time_us).or(Some(roofline));
            }
            match all.specs.iter_mut().find(|((unit, precision), _)| (*unit, precision) == (cost.unit, &cost.precision))
            {
                Some((_, us)) => *us += call.kernel_us,
                None => all.specs.push(((cost.unit, cost.precision.clone()), call.kernel_us)),
            }
            let numbers = (cost.flops, cost.bytes, best_us);
            all.differ |= numbers != *first.get_or_insert(numbers);
        }
        all
    }
}

impl RowModel {
    /// The roofline if it tells how short a call could be.
    pub fn best(&self) -> Option<(f64, Bound)> {
        self.roofline.filter(|(_, bound)| !bound.is_least(self.gflops, self.compute_spec.as_deref()))
    }

    /// Of the first call that has numbers; `None` if none has. Where calls differ (other kernels, other steps), each
    /// number is the first that is known.
    pub(crate) fn of(cx: &Context<'_>, costs: impl Iterator<Item = CostId>) -> Option<Self> {
        let mut seen: RapidHashSet<CostId> = RapidHashSet::default();
        let (mut last, mut row): (_, Option<Self>) = (None, None);
        for id in costs {
            // Nearly always all calls have one cost.
            let before = last.replace(id);
            if before == Some(id) {
                continue;
            }
            seen.extend(before);
            if seen.contains(&id) {
                continue;
            }
            let costed = cx.costs.get(id);
            if costed.cost.is_err() {
                continue;
            }
            let next = Self::of_cost(cx, costed);
            row = Some(match row {
                None => next,
                Some(row) => row.or(next),
            });
        }
        row
    }

    fn of_cost(cx: &Context<'_>, costed: &Costed) -> Self {
        // Times do not matter here: only what is independent of them is kept.
        let cost = costed.cost.as_ref().ok();
        let metrics = cost.map(|c| Metrics::new(c, 0.0, &cx.quirks)).unwrap_or_default();
        Self {
            gflops: metrics.gflops,
            data_moved_mb: metrics.data_moved_mb,
            flops_per_byte: metrics.flops_per_byte,
            compute_spec: metrics.compute_spec.map(Into::into),
            specs: Arc::default(),
            roofline: costed.roofline.map(|r| (r.time_us, r.bound)),
            params: Arc::clone(&costed.params),
            source: costed.source,
            link_bytes: costed.link_bytes,
            torch_flops: costed.torch_flops,
            is_mean: false,
        }
    }

    /// The same with the means over all calls.
    fn averaged(self, calls: &Together) -> Self {
        let (flops, bytes) = (calls.flops.mean(), calls.bytes.mean());
        Self {
            gflops: flops.map(|f| f / 1e9),
            data_moved_mb: bytes.map(|b| b / MB),
            flops_per_byte: flops.zip(bytes.filter(|&b| b > 0.0)).map(|(f, b)| f / b),
            roofline: calls.best_us.mean().zip(calls.longest.map(|l| l.bound)),
            is_mean: true,
            ..self
        }
    }

    /// The same rated by what most of the time was computed in: kernels chosen for other calls of the same operation need
    /// not be of the first one's precision.
    fn in_precisions(self, calls: &Together) -> Self {
        let all_us: f64 = calls.specs.iter().map(|(_, us)| us).sum();
        if calls.specs.len() < 2 || all_us <= 0.0 {
            return self;
        }
        let spec = |(unit, precision): &Spec| {
            let cost = Cost { flops: None, bytes: None, unit: *unit, precision: precision.clone() };
            cost.spec().map(Arc::from)
        };
        let mut specs: Vec<(Arc<str>, f64)> =
            calls.specs.iter().filter_map(|(known, us)| Some((spec(known)?, us / all_us))).collect();
        specs.order_by(|a, b| b.1.total_cmp(&a.1));
        let main = specs.first().map(|(spec, _)| Arc::clone(spec));
        Self { compute_spec: main.or(self.compute_spec), specs: specs.into(), ..self }
    }

    /// This, its gaps filled from a later call.
    fn or(self, later: Self) -> Self {
        Self {
            gflops: self.gflops.or(later.gflops),
            data_moved_mb: self.data_moved_mb.or(later.data_moved_mb),
            flops_per_byte: self.flops_per_byte.or(later.flops_per_byte),
            compute_spec: self.compute_spec.or(later.compute_spec),
            roofline: self.roofline.or(later.roofline),
            ..self
        }
    }
}

/// Which of the optional columns there are.
#[expect(clippy::struct_excessive_bools, reason = "each is a column that may be absent")]
pub(crate) struct Shape {
    keys: KeyColumns,
    model: bool,
    roofline: bool,
    call_stack: bool,
    source: bool,
}

impl Shape {
    pub(crate) fn of(options: &ReportOptions, rows: &[UnifiedRow]) -> Self {
        let any = |test: fn(&RowModel) -> bool| rows.iter().filter_map(|r| r.model.as_ref()).any(test);
        Self {
            keys: KeyColumns { num_kernels: options.splits_unified_by_kernels(), recompute: options.detect_recompute },
            model: any(|m| m.gflops.is_some() || m.data_moved_mb.is_some()),
            roofline: any(|m| m.roofline.is_some()),
            call_stack: options.call_stack,
            source: !options.quirks().model_source_unknown,
        }
    }
}

fn model(row: &UnifiedRow, get: fn(&RowModel) -> Option<f64>) -> Cell {
    number(row.model.as_ref().and_then(get))
}

/// The columns before the kernels.
pub(crate) fn head(shape: &Shape) -> Columns<UnifiedRow> {
    let (time, quantity) = (Format::Time, Format::Quantity);
    let (first, rest) = ([Stat::Mean, Stat::Std], [Stat::Median, Stat::Min, Stat::Max]);
    let spec = |r: &UnifiedRow| maybe_text(r.model.as_ref().and_then(|m| m.compute_spec.as_ref()));
    identity_columns(shape.keys, |r: &UnifiedRow| &r.identity)
        .plain("ex_UID", |r| Cell::Int(i64::from(r.ex_uid)))
        .plain("operation_count", |r| count(r.calls.len()))
        .time("total_duration_us", |r| Cell::float(r.host_us.sum))
        .time("mean_duration_us", |r| number(r.host_us.mean()))
        .time("std_duration_us", |r| number(r.host_us.std()))
        .when(shape.model, |c| {
            c.quantity("GFLOPS", |r| model(r, |m| m.gflops))
                .quantity("Data Moved (MB)", |r| model(r, |m| m.data_moved_mb))
                .quantity("FLOPS/Byte", |r| model(r, |m| m.flops_per_byte))
                .plain("Compute Spec", spec)
                .when(shape.roofline, |c| c.plain("Roofline Bound", |r| bound(r.model.as_ref())))
                .stats("TB/s", &first, quantity, |r| &r.tb_per_s)
                .stats("TFLOPS/s", &first, quantity, |r| &r.tflops_per_s)
        })
        .stats("Kernel Time (µs)", &[Stat::Mean, Stat::Std, Stat::Sum], time, |r| &r.kernel_us)
        .stats("duration_us", &rest, time, |r| &r.host_us)
        .when(shape.model, |c| {
            c.stats("TB/s", &rest, quantity, |r| &r.tb_per_s).stats("TFLOPS/s", &rest, quantity, |r| &r.tflops_per_s)
        })
        .when(shape.roofline, |c| {
            c.time("Roofline Time (µs)_first", |r| model(r, |m| m.roofline.map(|(us, _)| us))).stats(
                "Pct Roofline",
                &Stat::SPREAD,
                Format::Percent,
                |r| &r.pct_roofline,
            )
        })
        .stats("Kernel Time (µs)", &rest, time, |r| &r.kernel_us)
}

/// The columns after the kernels.
pub(crate) fn tail(shape: &Shape) -> Columns<UnifiedRow> {
    Columns::<UnifiedRow>::new()
        .plain("perf_params", |r| r.model.as_ref().map_or(Cell::Missing, params))
        .plain("has_perf_model", |r| Cell::Bool(r.has_perf_model))
        .when(shape.source, |c| c.plain(MODEL_SOURCE, |r| source(r.model.as_ref())))
        .when(shape.call_stack, |c| {
            c.plain("entry_point", |r| maybe_text(r.call_stack.as_ref().map(|s| &s.entry_point)))
                .plain("call_stack_full", |r| maybe_text(r.call_stack.as_ref().map(|s| &s.full)))
        })
        .and(percent_columns(|r| r.percent))
}

/// The parameters of a model as a mapping literal, where it has any.
fn params(model: &RowModel) -> Cell {
    if model.params.is_empty() {
        return Cell::Missing;
    }
    let mut literal = String::with_capacity(256);
    literal.push('{');
    for (i, (key, value)) in model.params.iter().enumerate() {
        literal.push_str(if i > 0 { ", " } else { "" });
        pyliteral::push_str(&mut literal, key);
        literal.push_str(": ");
        value.push_to(&mut literal);
    }
    literal.push('}');
    Cell::Text(literal.into())
}

/// Header of the column that says whose model made a row's numbers.
pub(crate) const MODEL_SOURCE: &str = "model_source";

/// What bounds a call, as cells show it.
pub(crate) fn bound(model: Option<&RowModel>) -> Cell {
    let bound = model.and_then(|m| m.roofline).map(|(_, bound)| bound);
    bound.map_or(Cell::Missing, |b| Cell::Text(b.as_str().into()))
}

/// Whose numbers a row shows, as cells show it.
pub(crate) fn source(model: Option<&RowModel>) -> Cell {
    model.and_then(|m| m.source).map_or(Cell::Missing, |s| Cell::Text(s.as_str().into()))
}

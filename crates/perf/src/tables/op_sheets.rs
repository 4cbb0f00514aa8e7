//! The sheets of operations (`GEMM`, `SDPA_fwd`, `Normalization`, …): all calls of a family, by the parameters of their
//! model. A call and one inside it may both be listed, so the times of a sheet must not be added up.

use std::borrow::Cow;
use std::sync::Arc;

use jarvis_trace::{EventId, EventKind, Few, InOrder, StrId};
use rapidhash::RapidHashSet;

use super::context::{Context, NUM_KERNELS, RECOMPUTE, RowName};
use super::costs::{Call, CostId, ParamsId, Pass};
use super::inputs::ArgTexts;
use super::kernel_list::KernelList;
use super::launchers::{kernel_columns, mixed_column};
use super::options::ReportOptions;
use super::sheet::{Columns, Stat, count, group_by, maybe_bool, maybe_text, number, text};
use super::stats::Stats;
use super::texts::TextId;
use super::unified::{MODEL_SOURCE, RowModel, Speed, bound, source};
use super::{Cell, Format, Sheet};
use crate::ops;
use crate::value::Value;

/// The families in the order of their sheets.
const FAMILIES: [&str; 22] = [
    "GEMM",
    "SDPA",
    "CONV",
    "InferenceAttention",
    "BinaryElementwise",
    "GroupedGEMM",
    "MoE_comm",
    "SSM",
    "RoPE",
    "CrossEntropy",
    "UnaryElementwise",
    "MoE_fused",
    "MoE_unfused",
    "MoE_aux",
    "RMSNorm",
    "elementwise",
    "GroupQuant",
    "FusedRoPE",
    "CustomCollective",
    "mHC",
    "Normalization",
    "Reduce",
];

/// Families that are not split by direction.
const UNDIVIDED: [&str; 4] = ["GEMM", "UnaryElementwise", "BinaryElementwise", "Normalization"];

/// Backward operations that the reference moves to the backward sheet; it leaves others on the forward one (F18).
const MOVED: [&str; 4] = [
    "flash_attn::_flash_attn_varlen_backward",
    "aten::convolution_backward",
    "ConvBias_Backward",
    "ConvBiasReLU_Backward",
];

/// Forward operations that the reference takes off the backward sheet, because the backward operation stands there.
const TAKEN_OFF: [&str; 5] =
    ["aten::convolution", "aten::miopen_convolution", "aten::cudnn_convolution", "ConvBias_", "ConvBiasReLU_"];

/// A forward operation without a backward pass.
const NEVER_BACKWARD: &str = "vllm::unified_attention_with_output";

/// A call on a sheet.
#[derive(Debug, Clone)]
pub(crate) struct OpCallRow {
    event: EventId,
    name: StrId,
    cost: CostId,
    us: f64,
    pub(crate) kernels: Few<EventId>,
    recompute: Option<bool>,
}

/// A row: calls of one operation with equal parameters.
#[derive(Debug, Clone)]
pub struct OpSheetRow {
    /// Operation.
    pub name: Arc<str>,
    /// Kernels of a call, where rows are kept apart by it.
    pub num_kernels: Option<usize>,
    /// Whether the work is done a second time, where that is told apart.
    pub is_recompute: Option<bool>,
    /// Numbers and parameters of the model.
    pub model: RowModel,
    /// 10¹² bytes a second.
    pub tb_per_s: Stats,
    /// 10¹² operations a second.
    pub tflops_per_s: Stats,
    /// The best time in percent of the time taken.
    pub pct_roofline: Stats,
    /// Time of the calls' kernels in microseconds.
    pub kernel_us: Stats,
    /// Kernels, position by position.
    pub kernels: KernelList,
    /// Process, its label and thread of the first call.
    pub place: [Arc<str>; 3],
    /// Arguments of the first call, as lists.
    pub args: ArgTexts,
    /// The first call.
    pub example: EventId,
    /// Number of calls.
    pub count: usize,
    /// Positions of the calls among those of the sheet they were counted for.
    pub(crate) calls: Vec<usize>,
}

impl OpSheetRow {
    /// Most kernel time first; rows of equal time stay in the order of their first calls, or go by UID, which is where
    /// these stand in the file.
    fn order(&self, other: &Self, by_uid: bool) -> std::cmp::Ordering {
        let uid = |row: &Self| by_uid.then_some(row.example);
        other.kernel_us.sum.total_cmp(&self.kernel_us.sum).then_with(|| uid(self).cmp(&uid(other)))
    }

    fn param(&self, name: &str) -> Option<&Value> {
        self.model.params.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// A sheet of operations.
#[derive(Debug, Clone)]
pub struct OpSheet {
    /// Name of the sheet.
    pub name: String,
    /// The rows, most time first.
    pub rows: Vec<OpSheetRow>,
    /// Parameters in the order of their columns.
    pub(crate) params: Vec<Cow<'static, str>>,
    pub(crate) family: &'static str,
}

/// The calls of a family in one direction.
pub(crate) struct FamilyCalls {
    pub(crate) family: &'static str,
    pub(crate) pass: Pass,
    pub(crate) calls: Vec<OpCallRow>,
}

impl FamilyCalls {
    /// Name of the sheet these calls stand on.
    pub(crate) fn sheet_name(&self) -> String {
        match self.pass {
            Pass::Forward if UNDIVIDED.contains(&self.family) => self.family.to_owned(),
            Pass::Forward => format!("{}_fwd", self.family),
            Pass::Backward => format!("{}_bwd", self.family),
        }
    }
}

impl OpCallRow {
    /// What makes two calls one row.
    pub(crate) fn key(&self, cx: &Context<'_>) -> (StrId, ParamsId, Option<usize>, Option<bool>) {
        let kernels = cx.options.group_by_num_kernels.then_some(self.kernels.len());
        (self.name, cx.costs.get(self.cost).params_id, kernels, self.recompute)
    }

    fn speed(&self, cx: &Context<'_>) -> Speed {
        Speed::of(cx, cx.costs.get(self.cost), self.us)
    }
}

/// The calls of a family: forward, and backward if it has a sheet for that.
fn family_calls(cx: &mut Context<'_>, family: &'static str, events: Vec<EventId>) -> Vec<FamilyCalls> {
    let forward = events.iter().filter_map(|&e| op_call(cx, e, Pass::Forward)).collect();
    let mut out = vec![FamilyCalls { family, pass: Pass::Forward, calls: forward }];
    if !UNDIVIDED.contains(&family) {
        let explicit = explicit_wrappers(cx, &events);
        let caused: Vec<EventId> = events.into_iter().filter(|&e| causes_backward(cx, e, &explicit)).collect();
        let backward = caused.into_iter().filter_map(|e| op_call(cx, e, Pass::Backward)).collect();
        out.push(FamilyCalls { family, pass: Pass::Backward, calls: backward });
    }
    out
}

/// All events whose name is in a family, in order of start, wherever they stand; but for those that only cast.
fn events_by_family(cx: &mut Context<'_>) -> [Vec<EventId>; FAMILIES.len()] {
    let trace = cx.trace;
    let mut families: Vec<Option<Option<usize>>> = vec![None; trace.strings().len()];
    let mut events: [Vec<EventId>; FAMILIES.len()] = std::array::from_fn(|_| Vec::new());
    for e in trace.events() {
        if matches!(trace.kind(e), EventKind::Inert | EventKind::Metadata) || cx.tree.is_repeated(e) {
            continue;
        }
        let name = trace.name_id(e);
        let family = match families[name.index()] {
            Some(known) => known,
            None => *families[name.index()].insert(family_of(cx, e)),
        };
        if let Some(family) = family.filter(|_| !cx.casts.only_casts(e)) {
            events[family].push(e);
        }
    }
    if !cx.quirks.events_in_file_order {
        for family in &mut events {
            family.sort_by_key(|&e| trace.ts(e));
        }
    }
    events
}

fn family_of(cx: &mut Context<'_>, event: EventId) -> Option<usize> {
    let entry = ops::find(cx.trace.name(event))?;
    let sheet = ops::sheet(entry, &cx.quirks);
    let family = FAMILIES.iter().position(|f| *f == sheet)?;
    let name = cx.name_of(event);
    cx.costs.may_have_model(name).then_some(family)
}

/// Backward wrappers that hold a backward operation of the family itself: its forward operation needs no second row.
fn explicit_wrappers(cx: &Context<'_>, events: &[EventId]) -> RapidHashSet<EventId> {
    if cx.quirks.attention_backward_on_forward_sheet {
        return RapidHashSet::default();
    }
    let wrapper = |&e: &EventId| cx.tree.ancestors(e).find(|&a| cx.tree.forward_of(a).is_some());
    events.iter().filter(|&&e| is_backward(cx.trace.name(e))).filter_map(wrapper).collect()
}

fn causes_backward(cx: &Context<'_>, e: EventId, explicit: &RapidHashSet<EventId>) -> bool {
    cx.trace.name(e) != NEVER_BACKWARD
        && cx.has_backward(e)
        && cx.backward_wrappers(e).iter().all(|wrapper| !explicit.contains(wrapper))
}

fn is_backward(name: &str) -> bool {
    ops::find(name).is_some_and(|entry| entry.category.ends_with("_bwd"))
}

fn op_call(cx: &mut Context<'_>, event: EventId, pass: Pass) -> Option<OpCallRow> {
    let name = RowName { op: cx.trace.name_id(event), kernel: None };
    let own = cx.kernels_by_start(event);
    let inputs = cx.inputs_of(event);
    let cost = cx.cost(&Call { event, name, inputs, kernels: &own, pass });
    let kernels = match pass {
        Pass::Forward => own,
        Pass::Backward => cx.view().by_start(cx.backward_kernels(event)),
    };
    let costed = cx.costs.get(cost);
    // Without FLOPs the reference counts the model as failed; by default bytes are worth a row.
    let ok = costed.cost.as_ref().is_ok_and(|c| c.flops.is_some() || !cx.quirks.metrics_blank_without_flops);
    if !ok {
        return None;
    }
    let us = cx.view().busy(&kernels).0;
    let kernels = (&*kernels).into();
    Some(OpCallRow { event, name: name.op, cost, us, kernels, recompute: cx.recompute(event) })
}

/// Calls grouped by name and parameters, in order of first appearance. `split` may tell calls apart further.
pub(crate) fn rows(
    cx: &mut Context<'_>,
    calls: &[OpCallRow],
    split: impl Fn(usize) -> Option<TextId>,
) -> Vec<OpSheetRow> {
    let positions: Vec<usize> = (0..calls.len()).collect();
    let groups = group_by(&positions, |&i| (calls[i].key(cx), split(i)));
    groups.into_iter().filter_map(|group| row(cx, calls, group)).collect()
}

fn row(cx: &mut Context<'_>, calls: &[OpCallRow], group: Vec<usize>) -> Option<OpSheetRow> {
    let members = || group.iter().map(|&i| &calls[i]);
    let first = &calls[group[0]];
    let kernels = KernelList::of_events(cx.trace, members().map(|c| &*c.kernels), &mut cx.texts, &cx.quirks);
    let place = cx.place(first.event);
    let inputs = cx.inputs_of(first.event);
    Some(OpSheetRow {
        name: cx.texts.shared(first.name),
        num_kernels: cx.options.group_by_num_kernels.then_some(first.kernels.len()),
        is_recompute: first.recompute,
        model: RowModel::of(cx, members().map(|c| c.cost))?,
        tb_per_s: Stats::of(members().filter_map(|c| c.speed(cx).rates.tb_per_s)),
        tflops_per_s: Stats::of(members().filter_map(|c| c.speed(cx).rates.tflops_per_s)),
        pct_roofline: Stats::of(members().filter_map(|c| c.speed(cx).pct_roofline)),
        kernel_us: Stats::of(members().map(|c| c.us)),
        kernels,
        place: [place.process, place.label, place.thread].map(|t| cx.texts.get(t)),
        args: cx.inputs.list_texts(inputs, &mut cx.texts),
        example: first.event,
        count: group.len(),
        calls: group,
    })
}

/// Parameters in order of first appearance over the calls.
pub(crate) fn param_names(cx: &Context<'_>, calls: &[OpCallRow]) -> Vec<Cow<'static, str>> {
    let mut names: Vec<Cow<'static, str>> = Vec::new();
    let mut seen: RapidHashSet<CostId> = RapidHashSet::default();
    for call in calls.iter().filter(|c| seen.insert(c.cost)) {
        for (key, _) in cx.costs.get(call.cost).params.iter() {
            if !names.contains(key) {
                names.push(key.clone());
            }
        }
    }
    names
}

/// All sheets of operations that have rows, in their order; and the calls they were made of, if sheets of overlaps need
/// them too.
pub(crate) fn op_sheets(cx: &mut Context<'_>) -> (Vec<OpSheet>, Vec<FamilyCalls>) {
    let mut sheets: Vec<OpSheet> = Vec::new();
    let mut kept = Vec::new();
    for (family, events) in FAMILIES.into_iter().zip(events_by_family(cx)) {
        if events.is_empty() {
            continue;
        }
        let mut parts = family_calls(cx, family, events);
        for part in &parts {
            let mut rows = rows(cx, &part.calls, |_| None);
            rows.order_by(|a, b| a.order(b, cx.quirks.events_in_file_order));
            rows.shrink_to_fit();
            let params = param_names(cx, &part.calls);
            let mut sheet = OpSheet { name: part.sheet_name(), rows, params, family: part.family };
            if part.pass == Pass::Backward
                && let Some(forward) = sheets.last_mut()
            {
                move_backward(cx, forward, &mut sheet);
            }
            sheets.push(sheet);
        }
        if cx.options.include_overlap {
            move_backward_calls(cx, &mut parts);
            kept.extend(parts);
        }
    }
    sheets.retain(|sheet| !sheet.rows.is_empty());
    (sheets, kept)
}

/// Moves the rows of backward operations, already summarised, to the backward sheet.
fn move_backward(cx: &Context<'_>, forward: &mut OpSheet, backward: &mut OpSheet) {
    let like_reference = cx.quirks.attention_backward_on_forward_sheet;
    let is_moved = |row: &OpSheetRow| {
        if like_reference { MOVED.contains(&&*row.name) } else { is_backward(&row.name) }
    };
    let (backward_rows, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut forward.rows).into_iter().partition(is_moved);
    forward.rows = kept;
    if !backward_rows.is_empty() {
        for name in &forward.params {
            if !backward.params.contains(name) {
                backward.params.push(name.clone());
            }
        }
    }
    backward.rows.extend(backward_rows);
    backward.rows.retain(|row| !TAKEN_OFF.contains(&&*row.name));
    if !like_reference {
        backward.rows.order_by(|a, b| a.order(b, cx.quirks.events_in_file_order));
        // Those of the moved rows alone would be blank columns.
        let OpSheet { rows, params, .. } = forward;
        params.retain(|name| rows.iter().any(|row| row.param(name).is_some()));
    }
}

/// The same for the calls that the sheets of overlaps are made of, which the reference leaves where they are.
fn move_backward_calls(cx: &Context<'_>, parts: &mut [FamilyCalls]) {
    let [forward, backward] = parts else { return };
    if cx.quirks.attention_backward_on_forward_sheet {
        return;
    }
    let (moved, kept): (Vec<_>, Vec<_>) =
        std::mem::take(&mut forward.calls).into_iter().partition(|call| is_backward(cx.trace.text(call.name)));
    forward.calls = kept;
    backward.calls.extend(moved);
    backward.calls.retain(|call| !TAKEN_OFF.contains(&cx.trace.text(call.name)));
}

impl OpSheet {
    /// The family whose sheet it is, without the direction.
    pub fn family(&self) -> &'static str {
        self.family
    }

    /// The sheet.
    pub(crate) fn sheet(&self, options: &ReportOptions) -> Sheet<'_> {
        self.head(options)
            .and(kernel_columns("kernel_details__summarize_kernel_stats", |r| &r.kernels))
            .and(mixed_column(options, &self.rows, |r| &r.kernels))
            .and(tail())
            .sheet(&*self.name, &self.rows)
    }

    /// The columns up to the kernels.
    pub(crate) fn head(&self, options: &ReportOptions) -> Columns<OpSheetRow> {
        let quantity = Format::Quantity;
        let roofline = self.rows.iter().any(|r| r.model.roofline.is_some());
        let mut columns = Columns::<OpSheetRow>::new().plain("name", |r| text(&r.name));
        for name in self.params.clone() {
            let header = format!("param: {name}");
            columns = columns.plain(header, move |r| r.param(&name).map_or(Cell::Missing, param_cell));
        }
        columns
            .when(options.group_by_num_kernels, |c| {
                c.plain(NUM_KERNELS, |r| r.num_kernels.map_or(Cell::Missing, count))
            })
            .when(options.detect_recompute, |c| c.plain(RECOMPUTE, |r| maybe_bool(r.is_recompute)))
            .quantity("GFLOPS_first", |r| number(r.model.gflops))
            .quantity("Data Moved (MB)_first", |r| number(r.model.data_moved_mb))
            .quantity("FLOPS/Byte_first", |r| number(r.model.flops_per_byte))
            .stats("TB/s", &Stat::SPREAD, quantity, |r| &r.tb_per_s)
            .stats("TFLOPS/s", &Stat::SPREAD, quantity, |r| &r.tflops_per_s)
            .plain("process_name_first", |r| text(&r.place[0]))
            .plain("process_label_first", |r| text(&r.place[1]))
            .plain("thread_name_first", |r| text(&r.place[2]))
            .plain("Compute Spec", |r| maybe_text(r.model.compute_spec.as_ref()))
            .when(!options.quirks().model_source_unknown, |c| c.plain(MODEL_SOURCE, |r| source(Some(&r.model))))
            .when(roofline, |c| {
                c.time("Roofline Time (µs)_first", |r| number(r.model.roofline.map(|(us, _)| us)))
                    .plain("Roofline Bound_first", |r| bound(Some(&r.model)))
                    .stats("Pct Roofline", &Stat::SPREAD, Format::Percent, |r| &r.pct_roofline)
            })
    }
}

/// The columns after the kernels.
pub(crate) fn tail() -> Columns<OpSheetRow> {
    let stats = [Stat::Mean, Stat::Median, Stat::Std, Stat::Min, Stat::Max, Stat::Sum];
    Columns::<OpSheetRow>::new()
        .plain("Input Dims_first", |r| maybe_text(r.args.dims.as_ref()))
        .plain("Input type_first", |r| maybe_text(r.args.types.as_ref()))
        .plain("Input Strides_first", |r| maybe_text(r.args.strides.as_ref()))
        .plain("Concrete Inputs_first", |r| maybe_text(r.args.concrete.as_ref()))
        .stats("Kernel Time (µs)", &stats, Format::Time, |r| &r.kernel_us)
        .plain("name_count", |r| count(r.count))
        .plain("UID_first", |r| Cell::Int(i64::from(r.example.uid())))
}

/// A parameter as a cell: numbers and truth values as such, texts bare, lists and tuples as literals.
fn param_cell(value: &Value) -> Cell {
    match value {
        Value::None => Cell::Missing,
        Value::Bool(b) => Cell::Bool(*b),
        Value::Int(i) => Cell::Int(*i),
        Value::Float(x) => Cell::float(*x),
        Value::Str(s) => Cell::Text(s.as_str().into()),
        Value::List(_) | Value::Tuple(_) => {
            let mut text = String::with_capacity(64);
            value.push_to(&mut text);
            Cell::Text(text.into())
        }
    }
}

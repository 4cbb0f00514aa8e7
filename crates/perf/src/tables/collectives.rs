//! `coll_analysis`: kernels of communication libraries by what they exchanged.

use jarvis_trace::{Arg, EventId, EventKind, InOrder, Key, Trace, pyliteral};

use super::context::Context;
use super::sheet::{Columns, Stat, count, group_by, number};
use super::stats::Stats;
use super::texts::tuple_text;
use super::{Cell, Format, Sheet};
use crate::dtype;
use crate::parity::Quirks;

/// The arguments that tell collectives apart, in column order.
const FIELDS: [&str; 10] = [
    "Process Group Name",
    "Process Group Ranks",
    "Collective name",
    "Group size",
    "dtype",
    "In msg nelems",
    "Out msg nelems",
    "In split size",
    "Out split size",
    "stream",
];

const GROUP: usize = 0;
const COLLECTIVE: usize = 2;
const DTYPE: usize = 4;
const IN_ELEMENTS: usize = 5;
const OUT_ELEMENTS: usize = 6;
const STREAM: usize = 9;

/// Value of a field.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Missing,
    Number(f64),
    Text(String),
}

impl Field {
    fn of(arg: Option<Arg<'_>>) -> Self {
        match arg {
            None | Some(Arg::Null) => Self::Missing,
            Some(Arg::Int(i)) => Self::Number(i as f64),
            Some(Arg::Float(x)) if x.is_nan() => Self::Missing,
            Some(Arg::Float(x)) => Self::Number(x),
            Some(Arg::Text(t)) => Self::Text(t.to_owned()),
            Some(Arg::Json(j)) => Self::Text(tuple_text(j)),
            Some(other) => Self::Text(pyliteral::of_arg(other)),
        }
    }

    /// Sort key: numbers, texts, then what is missing.
    fn order(&self) -> (u8, u64, &str) {
        match self {
            // Counts, sizes and streams are not negative, so their bits are in order.
            Self::Number(x) => (0, x.to_bits(), ""),
            Self::Text(t) => (1, 0, t),
            Self::Missing => (2, 0, ""),
        }
    }

    fn number(&self) -> Option<f64> {
        match self {
            Self::Number(x) => Some(*x),
            _ => None,
        }
    }
}

/// A kernel of a communication library.
#[derive(Debug, Clone)]
struct Collective {
    event: EventId,
    us: f64,
    fields: [Field; 10],
}

/// A row of `coll_analysis`.
#[derive(Debug, Clone)]
pub struct CollectiveRow {
    fields: [Field; 10],
    /// Size of what is sent in MB (2²⁰ bytes), if count and type are known.
    pub in_mb: Option<f64>,
    /// Size of what is received in MB (2²⁰ bytes), if count and type are known.
    pub out_mb: Option<f64>,
    /// Durations in microseconds.
    pub us: Stats,
    /// The first such kernel.
    pub example: EventId,
}

impl CollectiveRow {
    /// Name of the collective (`allreduce`, …), where recorded.
    pub fn collective(&self) -> Option<&str> {
        match &self.fields[COLLECTIVE] {
            Field::Text(name) => Some(name),
            _ => None,
        }
    }
}

/// All collectives of a trace.
#[derive(Debug, Clone, Default)]
pub struct Collectives {
    /// The rows, most time first.
    pub rows: Vec<CollectiveRow>,
    /// The rank that was recorded; 0 if that is not known.
    rank: i64,
    /// Which number columns have gaps and so show all their numbers with a point.
    gaps: [bool; 10],
}

impl Collectives {
    pub(crate) fn of(cx: &mut Context<'_>) -> Self {
        let mut kernels = collect(cx);
        fill_groups(&mut kernels);
        let gaps = std::array::from_fn(|i| kernels.iter().any(|k| k.fields[i] == Field::Missing));
        if cx.quirks.incomplete_collectives_vanish {
            kernels.retain(|k| !k.fields.contains(&Field::Missing));
        }
        let groups = group_by(&kernels, |k| {
            k.fields.each_ref().map(|f| {
                let (kind, bits, text) = f.order();
                (kind, bits, text.to_owned())
            })
        });
        let mut rows: Vec<CollectiveRow> = groups
            .into_iter()
            .map(|group| {
                let first = &kernels[group[0]];
                CollectiveRow {
                    fields: first.fields.clone(),
                    in_mb: megabytes(&first.fields, IN_ELEMENTS, &cx.quirks),
                    out_mb: megabytes(&first.fields, OUT_ELEMENTS, &cx.quirks),
                    us: Stats::of(group.iter().map(|&i| kernels[i].us)),
                    example: first.event,
                }
            })
            .collect();
        rows.order_by(|a, b| a.fields.each_ref().map(Field::order).cmp(&b.fields.each_ref().map(Field::order)));
        rows.order_by(|a, b| b.us.sum.total_cmp(&a.us.sum));
        let rank = if rows.is_empty() || cx.quirks.every_rank_is_0 { None } else { rank(cx.trace) };
        Self { rows, rank: rank.unwrap_or(0), gaps }
    }

    /// The sheet.
    pub(crate) fn sheet(&self) -> Sheet<'_> {
        let rank = self.rank;
        let mut columns = Columns::<CollectiveRow>::new().plain("rank", move |_| Cell::Int(rank));
        for (i, header) in FIELDS.into_iter().enumerate() {
            let gaps = self.gaps[i];
            columns = columns.plain(header, move |r| match &r.fields[i] {
                Field::Missing => Cell::Missing,
                Field::Text(t) => Cell::Text(t.as_str().into()),
                Field::Number(x) if gaps || x.fract() != 0.0 => Cell::Float(*x),
                Field::Number(x) => Cell::Int(*x as i64),
            });
        }
        let stats = [Stat::Sum, Stat::Mean, Stat::Std, Stat::Min, Stat::Max];
        columns
            .quantity("In msg size (MB)_first", |r| number(r.in_mb))
            .quantity("Out msg size (MB)_first", |r| number(r.out_mb))
            .stats("dur", &stats, Format::Time, |r| &r.us)
            .plain("operation_count", |r| count(r.us.count))
            .sheet("coll_analysis", &self.rows)
    }
}

fn collect(cx: &mut Context<'_>) -> Vec<Collective> {
    let (trace, tree) = (cx.trace, cx.tree);
    let collective = |&&e: &&EventId| {
        trace.kind(e) == EventKind::Kernel
            && cx.is_communication(e)
            && (trace.get(e, Key::Correlation).is_some() || trace.get(e, Key::ExternalId).is_some())
    };
    let kernels = tree.all_gpu_events().iter().filter(collective);
    kernels
        .map(|&event| {
            let mut fields = FIELDS.map(|key| Field::of(trace.arg(event, key)));
            if fields[COLLECTIVE] == Field::Missing && trace.name(event).contains("cross_device_reduce") {
                fields[COLLECTIVE] = Field::Text("allreduce".to_owned());
            }
            Collective { event, us: trace.dur(event).unwrap_or_default().as_us(), fields }
        })
        .collect()
}

/// Names the group of kernels that lack it: one group if none has a name and all share a stream.
fn fill_groups(kernels: &mut [Collective]) {
    let unnamed = kernels.iter().all(|k| k.fields[GROUP] == Field::Missing);
    let one_stream = kernels.windows(2).all(|pair| pair[0].fields[STREAM] == pair[1].fields[STREAM]);
    let name = if unnamed && one_stream { "all" } else { "Unknown_Group" };
    for kernel in kernels.iter_mut().filter(|k| k.fields[GROUP] == Field::Missing) {
        kernel.fields[GROUP] = Field::Text(name.to_owned());
    }
}

/// The rank of a recording: what its header tells, else the calls of the group that all ranks are in.
fn rank(trace: &Trace) -> Option<i64> {
    let told = trace.facts().value("distributedInfo").and_then(|info| info["rank"].as_i64());
    told.or_else(|| {
        // In any other group the number is the place within that group.
        let is_of_all = |&e: &EventId| {
            trace.name(e) == "record_param_comms"
                && matches!(trace.arg(e, "Process Group Description"), Some(Arg::Text("default_pg")))
        };
        trace.events().filter(is_of_all).find_map(|e| trace.arg(e, "Rank").and_then(Arg::as_int))
    })
}

fn megabytes(fields: &[Field; 10], elements: usize, quirks: &Quirks) -> Option<f64> {
    let Field::Text(dtype) = &fields[DTYPE] else { return None };
    let size = dtype::communicated_size(dtype, quirks)?;
    Some(fields[elements].number()? * size as f64 / crate::roofline::MB)
}

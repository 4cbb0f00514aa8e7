//! Sorted rows of which only the first few are read.

use jarvis_trace::{Clock, EventId, EventKind, Key, Ns, StrId, Trace, TrackId, Tree};
use rapidhash::RapidHashMap;

use super::{LeafId, Program};

/// Operations that put whole rows in order. The first is what the others call.
pub(crate) const SORTS: [&str; 3] = ["aten::sort", "aten::argsort", "aten::msort"];

/// Operations after a sort among which its results are read, those that others call aside.
const REACH: usize = 32;

/// Where the dimension stands among the arguments of a sort, from behind: what comes before it differs from form to form.
const DIMENSION_FROM_BEHIND: usize = 2;

/// What is read of each sorted row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Firsts {
    /// Elements that are read, at most.
    pub(crate) read: i64,
    /// Elements of a row.
    pub(crate) of: i64,
}

/// Finds the sorts after which only the ends of their rows are read.
pub(super) fn find(program: &Program, trace: &Trace, tree: &Tree) -> RapidHashMap<LeafId, Firsts> {
    let mut found = RapidHashMap::default();
    let mut threads: RapidHashMap<TrackId, Calls> = RapidHashMap::default();
    let mut shapes = Shapes::default();
    for (at, leaf) in program.leaves.iter().enumerate().filter(|(_, l)| *l.name == *SORTS[0]) {
        let shape = leaf.inputs.dims.as_deref().and_then(|dims| dims.first()?.shape()).unwrap_or_default();
        let Some(event) = trace.event(leaf.uid) else { continue };
        let track = trace.track_id(event);
        let calls = threads.entry(track).or_insert_with(|| Calls::of(trace, tree, track));
        let firsts = Sorted::of(trace, event, shape).and_then(|sorted| sorted.firsts(trace, calls, &mut shapes));
        found.extend(firsts.map(|firsts| (LeafId(at as u32), firsts)));
    }
    found
}

/// What calls that are equal have in common: name and shapes.
type Alike = (StrId, Option<StrId>);

fn alike(trace: &Trace, event: EventId) -> Alike {
    (trace.name_id(event), trace.text_id(event, Key::InputDims))
}

/// The operations of a thread that no other calls.
struct Calls {
    list: Vec<EventId>,
    /// Where the first sort of a kind stands.
    first: RapidHashMap<Alike, usize>,
}

impl Calls {
    fn of(trace: &Trace, tree: &Tree, track: TrackId) -> Self {
        let events = tree.thread_events().find(|(t, _)| *t == track).map(|(_, events)| events).unwrap_or_default();
        let mut until = Ns(i64::MIN);
        let mut calls = Self { list: Vec::new(), first: RapidHashMap::default() };
        for &event in events.iter().filter(|e| trace.kind(**e) == EventKind::CpuOp) {
            let Some((start, end)) = Ns::span_of(trace, event) else { continue };
            if start < until {
                continue;
            }
            until = end;
            if SORTS.contains(&trace.name(event)) {
                calls.first.entry(alike(trace, event)).or_insert(calls.list.len());
            }
            calls.list.push(event);
        }
        calls
    }

    /// Those after a sort up to those that prepare the next one like it, as others prepared the first one of the recording.
    fn turn(&self, trace: &Trace, sort: usize) -> &[EventId] {
        let of = alike(trace, self.list[sort]);
        let after = &self.list[sort + 1..self.list.len().min(sort + 1 + REACH)];
        let next = after.iter().position(|&e| alike(trace, e) == of);
        let (Some(next), Some(&first)) = (next, self.first.get(&of)) else { return after };
        let before = self.list[..first].iter().rev().zip(after[..next].iter().rev());
        let prepares = before.take_while(|(a, b)| alike(trace, **a) == alike(trace, **b)).count();
        &after[..next - prepares]
    }
}

/// A tensor whose rows were put in order.
struct Sorted<'a> {
    start: Ns,
    shape: &'a [i64],
    /// The dimension they lie along.
    along: usize,
}

impl<'a> Sorted<'a> {
    fn of(trace: &Trace, event: EventId, shape: &'a [i64]) -> Option<Self> {
        let values = values(trace, event)?;
        let dimension = values.len().checked_sub(DIMENSION_FROM_BEHIND).and_then(|at| values[at].parse().ok());
        Some(Self { start: trace.ts(event)?, shape, along: position(dimension.unwrap_or(-1), shape.len())? })
    }

    /// How many elements of each row are read; `None` if others than the first are, or if that can't be told.
    fn firsts(&self, trace: &Trace, calls: &Calls, shapes: &mut Shapes) -> Option<Firsts> {
        let until = calls.list.partition_point(|&e| trace.ts(e).is_some_and(|ts| ts <= self.start));
        // What others sort for themselves nobody else reads.
        let sort = until.checked_sub(1).filter(|&at| SORTS.contains(&trace.name(calls.list[at])))?;
        let mut read = 0;
        for &event in calls.turn(trace, sort) {
            if shapes.of(trace, event).iter().any(|s| s == self.shape) {
                read = self.taken(trace, event)?.max(read);
            }
        }
        (read > 0).then_some(Firsts { read, of: self.shape[self.along] })
    }

    /// How many elements of an end of each row a view takes.
    fn taken(&self, trace: &Trace, event: EventId) -> Option<i64> {
        let (values, length) = (values(trace, event)?, self.shape[self.along]);
        let value = |at: usize| values.get(at).and_then(|v| v.parse::<i64>().ok());
        if position(value(1)?, self.shape.len())? != self.along {
            return None;
        }
        let within = |v: i64| if v < 0 { v.saturating_add(length).max(0) } else { v.min(length) };
        match trace.name(event) {
            "aten::slice" => {
                let (from, to) = (within(value(2).unwrap_or(0)), within(value(3).unwrap_or(i64::MAX)));
                let is_end = (from == 0) != (to == length);
                (is_end && from < to && value(4) == Some(1)).then(|| to - from)
            }
            "aten::select" => [0, length.saturating_sub(1)].contains(&within(value(2)?)).then_some(1),
            _ => None,
        }
    }
}

fn position(dimension: i64, rank: usize) -> Option<usize> {
    let from_first = if dimension < 0 { dimension + rank as i64 } else { dimension };
    usize::try_from(from_first).ok().filter(|&at| at < rank)
}

fn values(trace: &Trace, event: EventId) -> Option<Vec<String>> {
    serde_json::from_str(trace.text(trace.text_id(event, Key::ConcreteInputs)?)).ok()
}

/// Shapes of inputs, each text read once.
#[derive(Default)]
struct Shapes(RapidHashMap<StrId, Vec<Vec<i64>>>);

impl Shapes {
    /// Those of an operation; lists of tensors are none.
    fn of(&mut self, trace: &Trace, event: EventId) -> &[Vec<i64>] {
        let Some(id) = trace.text_id(event, Key::InputDims) else { return &[] };
        self.0.entry(id).or_insert_with(|| {
            let all: Vec<serde_json::Value> = serde_json::from_str(trace.text(id)).unwrap_or_default();
            all.into_iter().filter_map(|shape| serde_json::from_value(shape).ok()).collect()
        })
    }
}

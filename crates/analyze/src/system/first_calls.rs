//! Calls that take the host far longer the first time: libraries prepare themselves for every new shape, kernels are
//! loaded when they are first launched, and programs are compiled. Such time is no part of a program that has run for a
//! while, unless its shapes keep changing.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_trace::{EventId, EventKind, InOrder, Key, Ns, StrId, Trace};
use rapidhash::RapidHashMap;

use super::gaps::{GapClass, percent};
use super::recording::Recording;
use super::texts::list;

/// Gaps from this length on are looked into.
pub(super) const LONG: Ns = Ns(1_000_000);
/// Calls of an operation from which on something is usual, and how many times as long a first call takes then: of a few
/// calls any may be another kind of work, but not one of a tenth of a second among some of tens of microseconds.
const SLOWER: [(usize, i64); 2] = [(8, 10), (3, 100)];
/// What the compiler calls its own work.
const COMPILING: &str = " (dynamo_timed)";
/// What it is told as.
const COMPILER: &str = "torch.compile";

/// Gaps in which the host was in the first call of an operation with its arguments, and that took unusually long, or was
/// compiling.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstCalls {
    /// Time of these gaps.
    pub time: Ns,
    /// Of that: of gaps that follow a wait in the middle of a step.
    pub after_waits: Ns,
    /// Of that: of gaps that follow the end of a step.
    pub after_steps: Ns,
    /// Of that: of calls in the later half of those of their operation.
    late: Ns,
    /// The gaps, from when to when; in order.
    spans: Vec<(Ns, Ns)>,
    /// Names of the operations, most time first.
    pub names: Vec<Arc<str>>,
}

/// First calls go on if this part of their time, in percent, is in the later half of the calls.
const GOING_ON: f64 = 25.0;

/// A long gap with a late launch.
#[derive(Debug, Clone, Copy)]
pub(super) struct LongGap {
    pub(super) class: GapClass,
    /// From when to when it lasts.
    pub(super) span: (Ns, Ns),
    /// What the host did, and what it had waited in.
    pub(super) events: [Option<EventId>; 2],
}

/// All calls of an operation.
#[derive(Debug, Default)]
struct Calls {
    lengths: Vec<Ns>,
    /// In order.
    starts: Vec<Ns>,
    /// By shapes and types.
    first: RapidHashMap<[Option<StrId>; 2], EventId>,
    /// From this length on one takes unusually long.
    slow_from: Option<Ns>,
}

/// Shapes and types of a call.
fn arguments(trace: &Trace, call: EventId) -> [Option<StrId>; 2] {
    [Key::InputDims, Key::InputType].map(|key| trace.text_id(call, key))
}

/// Operations by name.
struct Operations<'t> {
    trace: &'t Trace,
    by_name: BTreeMap<StrId, Calls>,
}

impl<'t> Operations<'t> {
    /// Those with the names of these.
    fn named(trace: &'t Trace, some: impl Iterator<Item = EventId>) -> Self {
        let by_name = some.map(|e| (trace.name_id(e), Calls::default())).collect();
        let mut all = Self { trace, by_name };
        if all.by_name.is_empty() {
            return all;
        }
        for e in trace.events().filter(|&e| trace.kind(e) == EventKind::CpuOp) {
            let Some(calls) = all.by_name.get_mut(&trace.name_id(e)) else { continue };
            calls.lengths.push(trace.dur(e).unwrap_or_default());
            calls.starts.push(trace.ts(e).unwrap_or_default());
            let first = calls.first.entry(arguments(trace, e)).or_insert(e);
            if trace.ts(e) < trace.ts(*first) {
                *first = e;
            }
        }
        for calls in all.by_name.values_mut() {
            calls.starts.sort_unstable();
            let count = calls.lengths.len();
            if let Some((_, slower)) = SLOWER.into_iter().find(|(least, _)| count >= *least) {
                let usual = calls.lengths.select_nth_unstable(count / 2).1;
                calls.slow_from = Some(Ns(usual.0.saturating_mul(slower)));
            }
        }
        all
    }

    /// Whether a call is the first with its arguments and takes unusually long.
    fn is_slow_first(&self, call: EventId) -> bool {
        let Some(calls) = self.by_name.get(&self.trace.name_id(call)) else { return false };
        let is_slow = calls.slow_from.is_some_and(|from| self.trace.dur(call).unwrap_or_default() >= from);
        is_slow && calls.first.get(&arguments(self.trace, call)) == Some(&call)
    }

    /// Whether half of the calls of its operation come before a call.
    fn is_late(&self, call: EventId) -> bool {
        let start = self.trace.ts(call).unwrap_or_default();
        let calls = self.by_name.get(&self.trace.name_id(call));
        calls.is_some_and(|c| 2 * c.starts.partition_point(|&s| s < start) >= c.starts.len())
    }
}

/// What the host was in.
#[derive(Clone, Copy)]
enum Doing {
    Compiling,
    Call(EventId),
}

/// The operation that an event is or lies in, the innermost one whose shapes were recorded if there is one.
fn doing(recording: &Recording<'_>, event: EventId) -> Option<Doing> {
    let (trace, tree) = (recording.trace, recording.tree);
    let ops = || std::iter::once(event).chain(tree.ancestors(event)).filter(|&e| trace.kind(e) == EventKind::CpuOp);
    if ops().any(|e| trace.name(e).ends_with(COMPILING)) {
        return Some(Doing::Compiling);
    }
    let has_shapes = |e: &EventId| trace.text_id(*e, Key::InputDims).is_some();
    ops().find(has_shapes).or_else(|| ops().next()).map(Doing::Call)
}

impl FirstCalls {
    /// Whether there are more and more of them, as where shapes keep changing: in a later part of the run too.
    pub fn go_on(&self) -> bool {
        percent(self.late, self.time) > GOING_ON
    }

    /// Their time where a later part of the run has no such calls, else none.
    pub fn at_start(&self) -> Ns {
        if self.go_on() { Ns(0) } else { self.time }
    }

    /// What of a time, from when to when, passes in such calls that a later part of the run does not have.
    pub(super) fn at_start_within(&self, from: Ns, to: Ns) -> Ns {
        if self.spans.is_empty() || self.go_on() {
            return Ns(0);
        }
        let first = self.spans.partition_point(|s| s.1 <= from);
        let within = self.spans[first..].iter().take_while(|s| s.0 < to);
        within.map(|s| s.1.min(to) - s.0.max(from)).sum()
    }

    /// Their names as texts show them.
    pub(super) fn shown_names(&self) -> String {
        list(self.names.iter().map(|name| &**name), 3)
    }

    pub(super) fn of(recording: &Recording<'_>, gaps: &[LongGap]) -> Self {
        let trace = recording.trace;
        let done: Vec<[Option<Doing>; 2]> =
            gaps.iter().map(|gap| gap.events.map(|e| e.and_then(|e| doing(recording, e)))).collect();
        let calls = done.iter().flatten().filter_map(|d| if let Some(Doing::Call(e)) = d { Some(*e) } else { None });
        let operations = Operations::named(trace, calls);
        let mut total = Self::default();
        let mut by_name: BTreeMap<&str, Ns> = BTreeMap::new();
        for (gap, done) in gaps.iter().zip(&done) {
            let found = done.iter().flatten().find_map(|d| match *d {
                Doing::Compiling => Some((COMPILER, false)),
                Doing::Call(e) => operations.is_slow_first(e).then(|| (trace.name(e), operations.is_late(e))),
            });
            let Some((name, is_late)) = found else { continue };
            let length = gap.span.1 - gap.span.0;
            if is_late {
                total.late = total.late + length;
            }
            let time = by_name.entry(name).or_default();
            *time = *time + length;
            total.time = total.time + length;
            total.spans.push(gap.span);
            match gap.class {
                GapClass::HostSync => total.after_waits = total.after_waits + length,
                GapClass::StepSync => total.after_steps = total.after_steps + length,
                _ => {}
            }
        }
        total.spans.sort_unstable();
        let mut names: Vec<(&str, Ns)> = by_name.into_iter().collect();
        names.order_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        total.names = names.into_iter().map(|(name, _)| name.into()).collect();
        total
    }
}

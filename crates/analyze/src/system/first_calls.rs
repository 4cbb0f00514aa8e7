//! Calls that take the host far longer the first time: libraries prepare themselves for every new shape, and kernels are
//! compiled or loaded when they are first launched. Such time is no part of a program that has run for a while, unless its
//! shapes keep changing.

use std::sync::Arc;

use jarvis_trace::{EventId, EventKind, InOrder, Key, Ns, StrId, Trace};
use rapidhash::RapidHashMap;

/// Gaps from this length on are looked into.
pub(super) const LONG: Ns = Ns(1_000_000);
/// A first call takes this many times as long as is usual for its operation.
const SLOWER: i64 = 10;
/// With fewer calls of an operation nothing is usual.
const LEAST_CALLS: usize = 8;

/// Gaps in which the host was in the first call of an operation with its arguments, and that took unusually long.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstCalls {
    /// Calls.
    pub count: usize,
    /// Time of their gaps.
    pub time: Ns,
    /// Names of the operations, most time first.
    pub names: Vec<Arc<str>>,
}

/// All calls of an operation.
#[derive(Debug, Default)]
struct Calls {
    lengths: Vec<Ns>,
    /// By shapes and types.
    first: RapidHashMap<[Option<StrId>; 2], EventId>,
    /// Time of gaps in first calls.
    time: Ns,
}

impl Calls {
    fn usual(&mut self) -> Option<Ns> {
        let middle = self.lengths.len() / 2;
        (self.lengths.len() >= LEAST_CALLS).then(|| *self.lengths.select_nth_unstable(middle).1)
    }
}

impl FirstCalls {
    /// Of long gaps, each with what the host was in.
    pub(super) fn of(trace: &Trace, gaps: &[(EventId, Ns)]) -> Self {
        let mut by_name: RapidHashMap<StrId, Calls> = RapidHashMap::default();
        for (event, _) in gaps.iter().filter(|(e, _)| trace.kind(*e) == EventKind::CpuOp) {
            by_name.entry(trace.name_id(*event)).or_default();
        }
        if by_name.is_empty() {
            return Self::default();
        }
        let arguments = |e: EventId| [Key::InputDims, Key::InputType].map(|key| trace.text_id(e, key));
        for e in trace.events().filter(|&e| trace.kind(e) == EventKind::CpuOp) {
            let Some(calls) = by_name.get_mut(&trace.name_id(e)) else { continue };
            calls.lengths.push(trace.dur(e).unwrap_or_default());
            let first = calls.first.entry(arguments(e)).or_insert(e);
            if trace.ts(e) < trace.ts(*first) {
                *first = e;
            }
        }
        let usual: RapidHashMap<StrId, Ns> =
            by_name.iter_mut().filter_map(|(&name, calls)| Some((name, calls.usual()?))).collect();
        let mut found: Vec<EventId> = Vec::new();
        let mut total = Self::default();
        for &(event, gap) in gaps {
            let name = trace.name_id(event);
            let (Some(&usual), Some(calls)) = (usual.get(&name), by_name.get_mut(&name)) else { continue };
            let is_first = calls.first.get(&arguments(event)) == Some(&event);
            if !is_first || trace.dur(event).unwrap_or_default().0 < usual.0.saturating_mul(SLOWER) {
                continue;
            }
            if !found.contains(&event) {
                found.push(event);
            }
            calls.time = calls.time + gap;
            total.time = total.time + gap;
        }
        let mut names: Vec<(Ns, &str)> =
            by_name.iter().filter(|(_, c)| c.time > Ns(0)).map(|(&name, c)| (c.time, trace.text(name))).collect();
        names.order_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        total.count = found.len();
        total.names = names.into_iter().map(|(_, name)| name.into()).collect();
        total
    }
}

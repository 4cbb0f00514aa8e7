//! Host nesting: which call happened inside which, from time alone, for each thread by itself.

use std::cmp::Ordering;
use std::ops::Range;

use super::nodes::TreeOptions;
use super::roles::{HostRoles, Thread};
use crate::clock::Clock;
use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{EventId, EventKind, Key, Ns, Trace, TrackId};
use crate::parity::{Fidelity, Nesting};

/// "No node".
pub(crate) const NONE: u32 = u32::MAX;

/// A thread's nodes: numbered without gaps, in the order in which they start.
#[derive(Debug, Clone)]
pub(crate) struct ThreadNodes {
    pub(crate) track: TrackId,
    pub(crate) nodes: Range<u32>,
}

/// The host part of the tree. Nodes are numbered thread by thread in preorder, so everything below node `n` is the
/// range `n + 1 .. end[n]` and the next sibling of `n` is `end[n]`.
#[derive(Debug, Default)]
pub(crate) struct Nested {
    pub(crate) event_of: Vec<EventId>,
    pub(crate) parent: Vec<u32>,
    pub(crate) end: Vec<u32>,
    pub(crate) threads: Vec<ThreadNodes>,
    /// Outermost `cpu_op`s, thread by thread.
    pub(crate) roots: Vec<EventId>,
    /// Events that overlap the end of their caller.
    pub(crate) discarded: Vec<EventId>,
    /// Operations and frames that stand in the file before, by UID.
    pub(crate) repeated: Vec<EventId>,
    /// How often such an overlap was below a microsecond and forgiven.
    pub(crate) bleeds: u64,
}

/// So many calls that begin and end together are looked through for one that stands there already: a file may hold millions.
const MOST_TOGETHER: usize = 16;

/// An event that is still running.
struct Open<C> {
    node: u32,
    start: C,
    end: C,
    cpu_op: bool,
    /// `Python id` of the innermost frame up to and with this event.
    frame: i64,
}

const NO_FRAME: i64 = i64::MIN;

/// Order of host events over all threads: by start, then file order.
pub(crate) fn start_order<C: Clock>(trace: &Trace, a: EventId, b: EventId) -> Ordering {
    let start = |e| C::of(trace.ts(e).unwrap_or_default());
    start(a).cmp(&start(b)).then(a.cmp(&b))
}

/// Nests the events of all threads.
pub(crate) fn nest(
    trace: &Trace,
    roles: &mut HostRoles,
    options: TreeOptions,
    diagnostics: &mut Diagnostics,
) -> Nested {
    match options.nesting {
        Nesting::Exact => nest_by::<Ns>(trace, roles, options, diagnostics),
        Nesting::Float => nest_by::<crate::Us>(trace, roles, options, diagnostics),
    }
}

fn nest_by<C: Clock>(
    trace: &Trace,
    roles: &mut HostRoles,
    options: TreeOptions,
    diagnostics: &mut Diagnostics,
) -> Nested {
    let count = roles.threads.iter().map(|t| t.piles.len()).sum();
    // Calls without a time become nodes later on.
    let nodes = count + roles.timeless.len();
    let mut nested = Nested {
        event_of: Vec::with_capacity(nodes),
        parent: Vec::with_capacity(nodes),
        end: vec![0; count],
        ..Nested::default()
    };
    for thread in std::mem::take(&mut roles.threads) {
        let first = nested.event_of.len() as u32;
        let Thread { track, piles } = thread;
        let events = piles.into_order::<C>(trace, options.nesting);
        nested.nest_thread::<C>(trace, &events, options.fidelity, diagnostics);
        nested.threads.push(ThreadNodes { track, nodes: first..nested.event_of.len() as u32 });
    }
    nested.end.truncate(nested.event_of.len());
    if nested.threads.len() > 1 {
        nested.roots.sort_by(|&a, &b| start_order::<C>(trace, a, b));
    }
    nested.repeated.sort_unstable();
    if let Some(first) = nested.repeated.first() {
        diagnostics.add_many(Defect::DuplicateEvent, nested.repeated.len() as u64, At::Event(first.uid()));
    }
    if let Some(first) = nested.discarded.iter().min() {
        diagnostics.add_many(Defect::NestingDiscarded, nested.discarded.len() as u64, At::Event(first.uid()));
    }
    nested
}

impl Nested {
    fn nest_thread<C: Clock>(
        &mut self,
        trace: &Trace,
        events: &[EventId],
        fidelity: Fidelity,
        diagnostics: &mut Diagnostics,
    ) {
        let mut stack: Vec<Open<C>> = Vec::new();
        let mut open_ops = 0usize;
        for &e in events {
            let (ts, dur) = (trace.ts(e).unwrap_or_default(), trace.dur(e).unwrap_or_default());
            let (start, end) = C::span(ts, dur);
            while let Some(top) = stack.pop_if(|top| start >= top.end) {
                open_ops -= usize::from(top.cpu_op);
                self.end[top.node as usize] = self.event_of.len() as u32;
            }
            if stack.last().is_some_and(|top| (top.start, top.end) == (start, end)) && fidelity.tells_impossible() {
                let same = stack.iter().rev().take_while(|open| (open.start, open.end) == (start, end));
                let same = same.take(MOST_TOGETHER);
                let mut same = same.map(|open| self.event_of[open.node as usize]);
                if same.any(|other| is_repeated(trace, other, e)) {
                    self.repeated.push(e);
                    continue;
                }
            }
            if let Some(top) = stack.last()
                && end > top.end
            {
                let forgiven = top.end - start < C::MICROSECOND && stack.len() >= 2;
                if !forgiven {
                    self.discarded.push(e);
                    continue;
                }
                self.bleeds += 1;
                if let Some(top) = stack.pop() {
                    open_ops -= usize::from(top.cpu_op);
                    self.end[top.node as usize] = self.event_of.len() as u32;
                }
            }
            let kind = trace.kind(e);
            let (parent, outer_frame) = stack.last().map_or((NONE, NO_FRAME), |top| (top.node, top.frame));
            let frame = match kind {
                EventKind::PythonFunction => check_frame(trace, e, outer_frame, diagnostics),
                _ => outer_frame,
            };
            let cpu_op = kind == EventKind::CpuOp;
            if cpu_op {
                if open_ops == 0 {
                    self.roots.push(e);
                }
                open_ops += 1;
            }
            stack.push(Open { node: self.event_of.len() as u32, start, end, cpu_op, frame });
            self.event_of.push(e);
            self.parent.push(parent);
        }
        for top in stack {
            self.end[top.node as usize] = self.event_of.len() as u32;
        }
    }
}

/// Whether two host events of one thread that begin and end together are one, by name and number. Calls that launch are
/// told apart by their correlation, where links are made.
fn is_repeated(trace: &Trace, one: EventId, other: EventId) -> bool {
    let key = match trace.kind(other) {
        EventKind::CpuOp => Key::ExternalId,
        EventKind::PythonFunction => Key::PythonId,
        _ => return false,
    };
    let number = trace.int(other, key);
    let same = number.is_some() && trace.int(one, key) == number;
    same && trace.kind(one) == trace.kind(other) && trace.name_id(one) == trace.name_id(other)
}

/// Compares the recorded caller of a Python frame with the frame it lies in; gives the frame's own id.
#[inline]
fn check_frame(trace: &Trace, e: EventId, outer: i64, diagnostics: &mut Diagnostics) -> i64 {
    let id = trace.int(e, Key::PythonId).unwrap_or(NO_FRAME);
    if let Some(caller) = trace.int(e, Key::PythonParentId)
        && caller != outer
    {
        diagnostics.add(Defect::PythonParentMismatch, At::Event(e.uid()));
    }
    id
}

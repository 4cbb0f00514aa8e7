//! First step of the build: who takes part in what. Host calls and launches are sorted out by passes of their own, so
//! that the two can go on side by side.

use super::piles::Piles;
use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{Class, EventId, EventKind, Key, Trace, TrackId};

/// Host events of one thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) track: TrackId,
    pub(crate) piles: Piles,
}

/// Host events by thread.
#[derive(Debug, Default)]
pub(crate) struct HostRoles {
    pub(crate) threads: Vec<Thread>,
    /// Runtime calls that cannot nest because a time is missing; they can still launch.
    pub(crate) timeless: Vec<EventId>,
    pub(crate) has_cpu_ops: bool,
}

/// What launches, what is launched and what ties the two; every list is in file order until it is
/// [put in order](LinkRoles::order_by_time).
#[derive(Debug, Default)]
pub(crate) struct LinkRoles {
    pub(crate) runtime: Vec<EventId>,
    pub(crate) gpu: Vec<EventId>,
    pub(crate) launch_starts: Vec<EventId>,
    pub(crate) launch_ends: Vec<EventId>,
    pub(crate) backward_starts: Vec<EventId>,
    pub(crate) backward_ends: Vec<EventId>,
    /// Events with a sequence number.
    pub(crate) sequenced: Vec<EventId>,
}

const NONE: u32 = u32::MAX;

/// How far GPU work may lie from all runtime calls, in nanoseconds: a day.
const STRAY: i64 = 24 * 3600 * 1_000_000_000;

impl HostRoles {
    pub(crate) fn of(trace: &Trace, with_python: bool, diagnostics: &mut Diagnostics) -> Self {
        let mut roles = Self::default();
        let threads = roles.threads_of_classes(trace, with_python);
        for e in trace.events() {
            let class = trace.class_id(e).index();
            let thread = threads[class];
            if thread == NONE {
                continue;
            }
            if let (Some(ts), Some(dur)) = (trace.ts(e), trace.dur(e)) {
                roles.threads[thread as usize].piles.add(e, ts, dur);
            } else {
                diagnostics.add(Defect::MissingTime, At::Event(e.uid()));
                if trace.kind(e).is_runtime() {
                    roles.timeless.push(e);
                }
            }
        }
        // There is no class without an event.
        roles.has_cpu_ops = trace.classes().iter().any(|class| class.kind == EventKind::CpuOp);
        roles
    }

    /// For each layout the position of its thread in `threads`; `NONE` if such events do not nest.
    fn threads_of_classes(&mut self, trace: &Trace, with_python: bool) -> Vec<u32> {
        let mut thread_of_track = vec![NONE; trace.tracks().len()];
        let thread = |class: &Class| {
            let (kind, place) = (class.kind, class.layout.track);
            let host =
                kind == EventKind::CpuOp || kind.is_runtime() || with_python && kind == EventKind::PythonFunction;
            if !host {
                return NONE;
            }
            if thread_of_track[place.index()] == NONE {
                thread_of_track[place.index()] = self.threads.len() as u32;
                self.threads.push(Thread { track: place, piles: Piles::default() });
            }
            thread_of_track[place.index()]
        };
        trace.classes().iter().map(thread).collect()
    }
}

impl LinkRoles {
    pub(crate) fn of(trace: &Trace, diagnostics: &mut Diagnostics) -> Self {
        let mut roles = Self::default();
        let classes: Vec<(EventKind, bool)> =
            trace.classes().iter().map(|class| (class.kind, class.slot_of(Key::SequenceNumber).is_some())).collect();
        for e in trace.events() {
            let (kind, sequenced) = classes[trace.class_id(e).index()];
            if sequenced {
                roles.sequenced.push(e);
            }
            match kind {
                EventKind::Runtime | EventKind::Driver => roles.runtime.push(e),
                EventKind::Kernel | EventKind::GpuMemcpy | EventKind::GpuMemset => {
                    roles.gpu.push(e);
                    if trace.ts(e).is_none() || trace.dur(e).is_none() {
                        diagnostics.add(Defect::MissingGpuTime, At::Event(e.uid()));
                    }
                }
                EventKind::LaunchFlowStart => roles.launch_starts.push(e),
                EventKind::LaunchFlowEnd => roles.launch_ends.push(e),
                EventKind::BackwardFlowStart => roles.backward_starts.push(e),
                EventKind::BackwardFlowEnd => roles.backward_ends.push(e),
                _ => {}
            }
        }
        roles
    }

    /// Calls and GPU events by start; those that start together stay in file order. Profilers write buffer after buffer,
    /// and programs that rewrite a trace in any order.
    pub(crate) fn order_by_time(&mut self, trace: &Trace) {
        for list in [&mut self.runtime, &mut self.gpu] {
            if !list.is_sorted_by_key(|&e| trace.ts(e)) {
                list.sort_by_key(|&e| trace.ts(e));
            }
        }
    }

    /// GPU events with a time that can't be: one at 0 would make the window as long as the clock runs. Where most lie
    /// far away, the GPU has a clock of its own, and nothing can be said of any.
    pub(crate) fn leave_strays_out(&mut self, trace: &Trace, diagnostics: &mut Diagnostics) {
        let calls = || self.runtime.iter().filter_map(|&e| trace.ts(e));
        let (Some(first), Some(last)) = (calls().min(), calls().max()) else { return };
        let (first, last) = (first.0.saturating_sub(STRAY), last.0.saturating_add(STRAY));
        let is_stray = |&e: &EventId| trace.ts(e).is_some_and(|ts| !(first..=last).contains(&ts.0));
        let strays: Vec<EventId> = self.gpu.iter().copied().filter(is_stray).collect();
        if let Some(stray) = strays.first().filter(|_| 2 * strays.len() < self.gpu.len()) {
            diagnostics.add_many(Defect::StrayGpuTime, strays.len() as u64, At::Event(stray.uid()));
            self.gpu.retain(|e| !is_stray(e));
        }
    }
}

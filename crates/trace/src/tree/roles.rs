//! First step of the build: one pass over the events that sorts out who takes part in what.

use super::piles::Piles;
use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{Class, EventId, EventKind, Key, Trace, TrackId};

/// Host events of one thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) track: TrackId,
    pub(crate) piles: Piles,
}

/// Events by what they do in the tree; every list is in file order.
#[derive(Debug, Default)]
pub(crate) struct Roles {
    pub(crate) threads: Vec<Thread>,
    pub(crate) runtime: Vec<EventId>,
    /// Runtime calls that cannot nest because a time is missing; they can still launch.
    pub(crate) timeless: Vec<EventId>,
    pub(crate) gpu: Vec<EventId>,
    pub(crate) launch_starts: Vec<EventId>,
    pub(crate) launch_ends: Vec<EventId>,
    pub(crate) backward_starts: Vec<EventId>,
    pub(crate) backward_ends: Vec<EventId>,
    /// Events with a sequence number.
    pub(crate) sequenced: Vec<EventId>,
    pub(crate) has_cpu_ops: bool,
}

/// What all events of a layout have in common.
#[derive(Clone, Copy)]
struct ClassRole {
    kind: EventKind,
    /// Position in `threads`; `NONE` if such events do not nest.
    thread: u32,
    sequenced: bool,
}

const NONE: u32 = u32::MAX;

impl Roles {
    pub(crate) fn of(trace: &Trace, with_python: bool, diagnostics: &mut Diagnostics) -> Self {
        let mut roles = Self::default();
        let classes = roles.classes(trace, with_python);
        for e in trace.events() {
            let class = classes[trace.class_id(e).index()];
            if class.sequenced {
                roles.sequenced.push(e);
            }
            match class.kind {
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
                EventKind::CpuOp => roles.has_cpu_ops = true,
                _ => {}
            }
            if class.thread == NONE {
                continue;
            }
            if let (Some(ts), Some(dur)) = (trace.ts(e), trace.dur(e)) {
                roles.threads[class.thread as usize].piles.add(e, ts, dur);
            } else {
                diagnostics.add(Defect::MissingTime, At::Event(e.uid()));
                if class.kind.is_runtime() {
                    roles.timeless.push(e);
                }
            }
        }
        roles
    }

    /// Roles per layout, and the threads that host events stand on.
    fn classes(&mut self, trace: &Trace, with_python: bool) -> Vec<ClassRole> {
        let mut thread_of_track = vec![NONE; trace.tracks().len()];
        let role = |class: &Class| {
            let (kind, place) = (class.kind, class.layout.track);
            let host =
                kind == EventKind::CpuOp || kind.is_runtime() || with_python && kind == EventKind::PythonFunction;
            if host && thread_of_track[place.index()] == NONE {
                thread_of_track[place.index()] = self.threads.len() as u32;
                self.threads.push(Thread { track: place, piles: Piles::default() });
            }
            ClassRole {
                kind,
                thread: if host { thread_of_track[place.index()] } else { NONE },
                sequenced: class.slot_of(Key::SequenceNumber).is_some(),
            }
        };
        trace.classes().iter().map(role).collect()
    }
}

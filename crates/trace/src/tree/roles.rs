//! First step of the build: one pass over the events that sorts out who takes part in what.

use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{EventId, EventKind, Key, Ns, Trace, TrackId};

/// Host events of one thread, in file order.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) track: TrackId,
    pub(crate) events: Vec<EventId>,
    /// Whether file order is already the order in which they nest: by start, the longer first.
    pub(crate) in_order: bool,
    last: (Ns, Ns),
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
            if class.thread != NONE && !roles.threads[class.thread as usize].add(trace, e) {
                diagnostics.add(Defect::MissingTime, At::Event(e.uid()));
                if class.kind.is_runtime() {
                    roles.timeless.push(e);
                }
            }
        }
        roles
    }

    /// Roles per layout, and the threads with room for their events.
    fn classes(&mut self, trace: &Trace, with_python: bool) -> Vec<ClassRole> {
        let mut counts = vec![0usize; trace.class_count()];
        let mut first = Vec::new();
        for e in trace.events() {
            let class = trace.class_id(e).index();
            if counts[class] == 0 {
                first.push(e);
            }
            counts[class] += 1;
        }
        let mut roles = vec![ClassRole { kind: EventKind::Inert, thread: NONE, sequenced: false }; counts.len()];
        let mut thread_of_track = vec![NONE; trace.tracks().len()];
        let mut capacities = Vec::new();
        for e in first {
            let class = trace.class_id(e).index();
            let (kind, track) = (trace.kind(e), trace.track_id(e));
            let role = &mut roles[class];
            role.kind = kind;
            role.sequenced = trace.get(e, Key::SequenceNumber).is_some();
            let host =
                kind == EventKind::CpuOp || kind.is_runtime() || with_python && kind == EventKind::PythonFunction;
            if host {
                let thread = &mut thread_of_track[track.index()];
                if *thread == NONE {
                    *thread = self.threads.len() as u32;
                    self.threads.push(Thread {
                        track,
                        events: Vec::new(),
                        in_order: true,
                        last: (Ns(i64::MIN), Ns(0)),
                    });
                    capacities.push(0);
                }
                role.thread = *thread;
                capacities[*thread as usize] += counts[class];
            }
        }
        for (thread, capacity) in self.threads.iter_mut().zip(capacities) {
            thread.events.reserve_exact(capacity);
        }
        roles
    }
}

impl Thread {
    /// Adds an event unless it has no start or no duration.
    #[inline]
    fn add(&mut self, trace: &Trace, e: EventId) -> bool {
        let (Some(ts), Some(dur)) = (trace.ts(e), trace.dur(e)) else { return false };
        if ts <= self.last.0 {
            self.in_order &= ts == self.last.0 && dur <= self.last.1;
        }
        self.last = (ts, dur);
        self.events.push(e);
        true
    }
}

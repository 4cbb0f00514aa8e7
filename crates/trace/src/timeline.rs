//! What the GPU did with its time: computing, communicating, copying, or nothing.

use std::cmp::Reverse;

use memchr::memchr2_iter;

use crate::clock::{Clock, Us};
use crate::diagnostics::{At, Defect, Diagnostics};
use crate::interval::IntervalSet;
use crate::model::{EventId, EventKind, Id, Ns, Trace};
use crate::parity::Fidelity;
use crate::tree::Tree;

/// What a GPU event counts as in a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuWork {
    /// Kernels and fills.
    Computation,
    /// Kernels of communication libraries.
    Communication,
    /// Copies.
    Memcpy,
}

impl GpuWork {
    /// From kind and name. Old ROCm reports copies and fills as kernels with names of its own; in timelines they count
    /// as what they are.
    pub fn classify(kind: EventKind, name: &str) -> Self {
        if Self::is_copy(kind, name) {
            Self::Memcpy
        } else if kind == EventKind::Kernel && is_fill_kernel(name) {
            Self::Computation
        } else if is_communication_name(name) {
            Self::Communication
        } else {
            Self::Computation
        }
    }

    /// Whether that is [`GpuWork::Memcpy`], without a look at what else it could be.
    pub fn is_copy(kind: EventKind, name: &str) -> bool {
        kind == EventKind::GpuMemcpy || kind == EventKind::Kernel && is_copy_kernel(name)
    }
}

fn is_copy_kernel(name: &str) -> bool {
    let name = name.strip_suffix(".kd").unwrap_or(name);
    if let Some(form) = name.strip_prefix("__amd_rocclr_copyBuffer") {
        return matches!(form, "" | "Rect" | "Aligned" | "RectAligned");
    }
    matches!(name, "MEMORY_COPY_HOST_TO_DEVICE" | "MEMORY_COPY_DEVICE_TO_HOST" | "MEMORY_COPY_DEVICE_TO_DEVICE")
}

fn is_fill_kernel(name: &str) -> bool {
    let name = name.strip_suffix(".kd").unwrap_or(name);
    name.strip_prefix("__amd_rocclr_fillBuffer").is_some_and(|form| matches!(form, "" | "Aligned"))
}

/// Whether a kernel name is one of a communication library: it has `nccl`, `rccl` or `cross_device_reduce` in it, in
/// capitals or not. Names are long, and each of these has a `c`.
pub fn is_communication_name(name: &str) -> bool {
    let name = name.as_bytes();
    let goes_on = |at: usize, word: &[u8]| name[at..].get(..word.len()).is_some_and(|w| w.eq_ignore_ascii_case(word));
    memchr2_iter(b'c', b'C', name).any(|c| {
        let library = c > 0 && matches!(name[c - 1], b'n' | b'N' | b'r' | b'R') && goes_on(c, b"ccl");
        library || goes_on(c, b"cross_device_reduce")
    })
}

/// Which GPU events a timeline is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Population {
    /// Those whose launch was recorded, and what else ran between the first and the last of them: it kept the GPU busy,
    /// whoever launched it. What of that reaches out takes along what ran beside it: of no time are only some events
    /// counted. What had ended before was launched before the recording.
    #[default]
    Window,
    /// Those whose launch was recorded.
    Linked,
    /// All of them.
    All,
}

impl Population {
    /// The events, in the order of [all](Tree::all_gpu_events).
    pub fn of(self, trace: &Trace, tree: &Tree) -> Vec<EventId> {
        match self {
            Self::Window => within(trace, tree),
            Self::Linked => tree.linked_gpu_events().collect(),
            Self::All => tree.all_gpu_events().to_vec(),
        }
    }
}

fn within(trace: &Trace, tree: &Tree) -> Vec<EventId> {
    let span = |e: EventId| Ns::span_of(trace, e);
    let linked = tree.linked_gpu_events().filter_map(span);
    let (first, last) = linked.fold((Ns(i64::MAX), Ns(i64::MIN)), |w, s| (w.0.min(s.0), w.1.max(s.1)));
    let all = tree.all_gpu_events().iter().copied();
    let mut others: Vec<(Ns, Ns)> = all.clone().filter(|&e| !tree.is_linked(e)).filter_map(span).collect();
    // Back from what ends last, so that each is seen when all that could reach it were.
    others.sort_unstable_by_key(|&(_, end)| Reverse(end));
    let reaches_back = |first: Ns, &(start, end): &(Ns, Ns)| if end > first { first.min(start) } else { first };
    let first = others.iter().filter(|&&(start, _)| start < last).fold(first, reaches_back);
    others.sort_unstable();
    let reaches_on = |last: Ns, &(start, end): &(Ns, Ns)| if start < last { last.max(end) } else { last };
    let last = others.iter().filter(|&&(_, end)| end > first).fold(last, reaches_on);
    let runs_within = |e| span(e).is_some_and(|(start, end)| start < last && end > first);
    all.filter(|&e| tree.is_linked(e) || runs_within(e)).collect()
}

/// Time of the GPU by what it was spent on. All devices and streams given form one timeline. Times are in the unit
/// `T`: [`Us`] computes as the reference does, [`crate::Ns`] exactly.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Timeline<T> {
    /// Some kernel computes.
    pub computation: T,
    /// The times of computing kernels added up: more than the above where they run side by side.
    pub kernels: T,
    /// Only communication goes on.
    pub exposed_communication: T,
    /// Only copies go on.
    pub exposed_memcpy: T,
    /// Anything goes on.
    pub busy: T,
    /// Nothing goes on.
    pub idle: T,
    /// The same in gaps shorter than the threshold and in the others, if there is a threshold.
    pub micro_macro_idle: Option<(T, T)>,
    /// From the first start to the last end.
    pub total: T,
    /// Communication goes on, whatever else does.
    pub communication: T,
    /// Copies go on, whatever else does.
    pub memcpy: T,
}

/// A line of the timeline table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimelineRow {
    /// Name of the row.
    pub kind: &'static str,
    /// Time in milliseconds.
    pub ms: f64,
    /// Share of the total in percent; NaN if the total is zero.
    pub percent: f64,
}

impl<T: Clock> Timeline<T> {
    /// Reduces GPU events to a timeline. Gaps shorter than `micro_idle` count as micro idle. `None` without events
    /// that have a time.
    pub fn of(trace: &Trace, events: &[EventId], micro_idle: Option<T>) -> Option<Self> {
        let mut spans: [Vec<(T, T)>; 3] = Default::default();
        let mut works = Works::new(trace);
        for &e in events {
            if let Some(span) = T::span_of(trace, e) {
                spans[works.of(e) as usize].push(span);
            }
        }
        let kernels =
            spans[GpuWork::Computation as usize].iter().fold(T::ZERO, |sum, &(start, end)| sum + (end - start));
        let [computation, communication, memcpy] = spans.map(IntervalSet::merge);
        let all = computation.union(&communication).union(&memcpy);
        let (start, end) = all.extent()?;
        let (total, busy) = (end - start, all.measure());
        let split = |threshold: T| {
            all.gaps().map(|(from, to)| to - from).fold((T::ZERO, T::ZERO), |(small, large), gap| {
                if gap < threshold { (small + gap, large) } else { (small, large + gap) }
            })
        };
        Some(Self {
            computation: computation.measure(),
            kernels,
            exposed_communication: communication.subtract(&computation).measure(),
            exposed_memcpy: memcpy.subtract(&computation).subtract(&communication).measure(),
            busy,
            idle: total - busy,
            micro_macro_idle: micro_idle.map(split),
            total,
            communication: communication.measure(),
            memcpy: memcpy.measure(),
        })
    }

    /// One timeline for each device, in order of the devices.
    pub fn by_device(trace: &Trace, events: &[EventId], micro_idle: Option<T>) -> Vec<(Id, Self)> {
        let device = |e: EventId| trace.track(trace.track_id(e)).pid;
        let mut sorted = events.to_vec();
        sorted.sort_by_key(|&e| device(e));
        sorted
            .chunk_by(|&a, &b| device(a) == device(b))
            .filter_map(|group| Some((device(group[0]), Self::of(trace, group, micro_idle)?)))
            .collect()
    }

    /// The rows of the timeline table.
    pub fn rows(&self) -> Vec<TimelineRow> {
        let idle = match self.micro_macro_idle {
            None => vec![("idle_time", self.idle)],
            Some((small, large)) => vec![("micro_idle_time", small), ("macro_idle_time", large)],
        };
        let mut rows = vec![
            ("computation_time", self.computation),
            ("exposed_comm_time", self.exposed_communication),
            ("exposed_memcpy_time", self.exposed_memcpy),
            ("busy_time", self.busy),
        ];
        rows.extend(idle);
        rows.extend([
            ("total_time", self.total),
            ("total_comm_time", self.communication),
            ("total_memcpy_time", self.memcpy),
        ]);
        let row =
            |(kind, time): (_, T)| TimelineRow { kind, ms: time.ms(), percent: time.us() / self.total.us() * 100.0 };
        rows.into_iter().map(row).collect()
    }

    /// Checks that the parts add up to the whole and counts a defect if they do not.
    pub fn check(&self, diagnostics: &mut Diagnostics) {
        let parts = self.computation + self.exposed_communication + self.exposed_memcpy + self.idle;
        if (parts - self.total).us().abs() > 1e-6 {
            diagnostics.add(Defect::TimelineMismatch, At::Event(0));
        }
    }
}

impl Timeline<Us> {
    /// The timeline as tables show it: measured in whole nanoseconds, or as the reference does.
    pub fn measured(trace: &Trace, events: &[EventId], micro_idle: Option<Us>, fidelity: Fidelity) -> Option<Self> {
        if fidelity.measures_in_floats() {
            return Self::of(trace, events, micro_idle);
        }
        let micro_idle = micro_idle.map(|us| Ns((us.0 * 1e3).round() as i64));
        Timeline::<Ns>::of(trace, events, micro_idle).map(Timeline::in_us)
    }
}

impl Timeline<Ns> {
    /// The same in microseconds, each time rounded once.
    fn in_us(self) -> Timeline<Us> {
        let us = |time: Ns| Us(time.as_us());
        Timeline {
            computation: us(self.computation),
            kernels: us(self.kernels),
            exposed_communication: us(self.exposed_communication),
            exposed_memcpy: us(self.exposed_memcpy),
            busy: us(self.busy),
            idle: us(self.idle),
            micro_macro_idle: self.micro_macro_idle.map(|(small, large)| (us(small), us(large))),
            total: us(self.total),
            communication: us(self.communication),
            memcpy: us(self.memcpy),
        }
    }
}

/// Kinds of GPU work, each kernel name looked at once.
struct Works<'a> {
    trace: &'a Trace,
    of_kernel_name: Vec<Option<GpuWork>>,
}

impl<'a> Works<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self { trace, of_kernel_name: vec![None; trace.strings().len()] }
    }

    fn of(&mut self, e: EventId) -> GpuWork {
        let (kind, name) = (self.trace.kind(e), self.trace.name_id(e));
        if kind != EventKind::Kernel {
            return GpuWork::classify(kind, self.trace.text(name));
        }
        *self.of_kernel_name[name.index()].get_or_insert_with(|| GpuWork::classify(kind, self.trace.text(name)))
    }
}

/// Sum with the rounding error of each step carried along (Neumaier).
pub fn compensated_sum(values: impl IntoIterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0f64, 0.0f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + lost
}

//! What the system tier reads off a trace, once: GPU events by start with the calls that launched them, profiler
//! steps, calls in which the host waits for the GPU, and spans in which it fetches input.

use jarvis_trace::{
    Clock, EventId, EventKind, GpuWork, IntervalSet, Ns, Population, PythonFrames, Step, StrId, Trace, TrackId, Tree,
};

use super::direction::CopyDirection;
use crate::program::{COMPILED_REGIONS, MODULE_PREFIX, OPTIMIZER_PREFIX};

/// Names of calls in which the host waits until the GPU has got somewhere.
const WAITS: [&str; 4] = ["DeviceSynchronize", "StreamSynchronize", "EventSynchronize", "CtxSynchronize"];

/// Reading a value off the GPU takes at least a launch of a copy. One that lies on the host, such as the step number of
/// an optimizer, is read in 1 to 3 µs.
const SHORTEST_READ: Ns = Ns(8_000);

/// Operations that read one value off the GPU.
pub(super) const READS: [&str; 2] = ["aten::item", "aten::_local_scalar_dense"];

/// Words in the names of frames and annotations that fetch input, or prepare it.
const LOADERS: [&str; 4] = ["DataLoader", "dataloader", "collate", "tokenization"];
const PREPARING_WORDS: [&str; 2] = ["tokeniz", "preprocess"];

/// The frame in which the profiler ends one step and begins the next, with `PROFILER_STEP` at its end.
const PROFILER_FRAME: &str = "torch/profiler/profiler.py(";
const PROFILER_STEP: &str = ": step";

/// Words in the names of calls that get or give back memory.
const ALLOCATION_WORDS: [&str; 3] = ["Malloc", "HostAlloc", "Free"];

/// Smaller copies cost their latency whatever they carry.
const LARGE_COPY: i64 = 64 << 10;

/// The same by time, for recordings without sizes.
const LONG_COPY: Ns = Ns(20_000);

/// Host time before the copy that a step begins with: less is what it takes to call it.
const PREPARING: Ns = Ns(500_000);

/// The same before a copy where no steps are recorded: the end of the step before is a part of it.
const PREPARING_UNMARKED: Ns = Ns(2_000_000);

/// So much before a small copy: numbers of words take little room. Fewer bytes than this are one number and no input.
const PREPARING_SMALL: Ns = Ns(2_000_000);
const SMALLEST_INPUT: i64 = 1 << 10;

/// Without recorded steps, synchronizations of the whole device outside of operations tell them apart, if there are at
/// least this many launches for each.
const LAUNCHES_PER_STEP: usize = 10;

/// A GPU event with a length.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GpuEvent {
    pub(crate) event: EventId,
    pub(crate) start: Ns,
    pub(crate) end: Ns,
    pub(crate) work: GpuWork,
    pub(crate) stream: TrackId,
    /// The call that launched it, if it was recorded with its time; see [`Recording::launch`].
    call: Option<EventId>,
}

/// The call that launched a GPU event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Launch {
    pub(crate) call: EventId,
    pub(crate) start: Ns,
    pub(crate) end: Ns,
}

impl Launch {
    /// Whether the call returned only when the copy it launched was done. Clocks of host and GPU differ a little, and
    /// the last part of a staged copy may go on after the call: a tenth of it is forgiven.
    pub(crate) fn returns_after(&self, copy: &GpuEvent) -> bool {
        self.end > copy.start && self.end >= copy.end - Ns((copy.end - copy.start).0 / 10)
    }
}

/// A call in which the host waits for the GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wait {
    /// The call, or the reading operation where no call was recorded in it.
    pub(crate) event: EventId,
    pub(crate) track: TrackId,
    pub(crate) start: Ns,
    pub(crate) end: Ns,
    /// Whether nothing is launched between it and an edge of its step: steps are told apart by it, not cut in two.
    pub(crate) at_boundary: bool,
    /// Whether it waits for a copy between host and device that is more than a value read.
    pub(crate) copy: bool,
    /// Position of the GPU event it waits for, where the call says which: copies.
    pub(crate) awaited: Option<u32>,
}

/// What the system tier reads off a trace.
#[derive(Debug)]
pub(crate) struct Recording<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) tree: &'a Tree,
    /// GPU events with a length, by start, end and place in the file.
    pub(crate) gpu: Vec<GpuEvent>,
    /// Start of the first event of the file: where trace viewers begin to count.
    pub(crate) first: Ns,
    /// First start and last end of GPU events, those without a length too.
    pub(crate) extent: (Ns, Ns),
    /// Profiler steps on the host, in order.
    pub(crate) steps: Vec<(Ns, Ns)>,
    /// Time between them: the profiler ends one and begins the next, and nothing of the program runs there.
    pub(crate) between_steps: ByTrack,
    /// Optimizer steps on the host.
    pub(crate) optimizer: IntervalSet<Ns>,
    /// Regions of compiled code on the host.
    pub(crate) compiled: IntervalSet<Ns>,
    /// By end.
    pub(crate) waits: Vec<Wait>,
    /// Annotations of the input pipeline, and what steps do before the copy they begin with.
    pub(crate) input: ByTrack,
    /// Calls that get or give back memory.
    pub(crate) allocations: ByTrack,
    /// How many of them get memory of the device, and how many give it back.
    pub(crate) memory_calls: MemoryCalls,
    /// Starts of all launching calls, in order.
    pub(crate) launches: Vec<Ns>,
    /// Whether Python frames were recorded and stand in the tree.
    pub(crate) has_frames: bool,
}

impl<'a> Recording<'a> {
    /// Reads a trace. `None` without GPU events that have a time.
    pub(crate) fn of(trace: &'a Trace, tree: &'a Tree, population: Population) -> Option<Self> {
        let mut recording = Self {
            trace,
            tree,
            gpu: Vec::new(),
            first: Ns(i64::MAX),
            extent: (Ns(i64::MAX), Ns(i64::MIN)),
            steps: Vec::new(),
            between_steps: ByTrack::default(),
            optimizer: IntervalSet::default(),
            compiled: IntervalSet::default(),
            waits: Vec::new(),
            input: ByTrack::default(),
            allocations: ByTrack::default(),
            memory_calls: MemoryCalls::default(),
            launches: Vec::new(),
            has_frames: false,
        };
        recording.read_gpu(population);
        if recording.extent.0 > recording.extent.1 {
            return None;
        }
        recording.read_host();
        recording.add_waited_copies();
        recording.waits.sort_unstable_by_key(|w| (w.end, w.event));
        recording.mark_boundaries();
        recording.add_prepared_input();
        Some(recording)
    }

    fn read_gpu(&mut self, population: Population) {
        let (trace, tree) = (self.trace, self.tree);
        let mut works: Vec<Option<GpuWork>> = vec![None; trace.strings().len()];
        let events = population.of(trace, tree);
        self.gpu.reserve_exact(events.len());
        for event in events {
            let Some((start, end)) = Ns::span_of(trace, event) else { continue };
            let end = end.max(start);
            self.extent = (self.extent.0.min(start), self.extent.1.max(end));
            if start == end {
                continue;
            }
            let (kind, name) = (trace.kind(event), trace.name_id(event));
            let work = if kind == EventKind::Kernel {
                *works[name.index()].get_or_insert_with(|| GpuWork::classify(kind, trace.text(name)))
            } else {
                GpuWork::classify(kind, trace.text(name))
            };
            let call = tree.parent(event).filter(|&call| trace.ts(call).is_some());
            self.gpu.push(GpuEvent { event, start, end, work, stream: trace.track_id(event), call });
        }
        self.gpu.sort_unstable_by_key(|g| (g.start, g.end, g.event));
        self.launches = self.gpu.iter().filter_map(|g| Some(self.launch(g)?.start)).collect();
        self.launches.sort_unstable();
        self.launches.dedup();
    }

    /// The call that launched a GPU event. It is looked up each time: there are many GPU events, and few questions.
    pub(crate) fn launch(&self, g: &GpuEvent) -> Option<Launch> {
        launch_of(self.trace, g)
    }

    /// One pass over all events: the first of them, steps, waits, input.
    fn read_host(&mut self) {
        let trace = self.trace;
        let mut names = Names::new(trace);
        let mut steps: Vec<EventId> = Vec::new();
        let mut reads: Vec<EventId> = Vec::new();
        let mut optimizer: Vec<(Ns, Ns)> = Vec::new();
        let mut compiled: Vec<(Ns, Ns)> = Vec::new();
        for e in trace.events() {
            if let Some(ts) = trace.ts(e).filter(|&ts| ts < self.first && is_drawn(trace, e)) {
                self.first = ts;
            }
            let kind = trace.kind(e);
            match kind {
                EventKind::Runtime | EventKind::Driver if names.is(e, Names::WAIT | Names::BLOCKING_COPY) => {
                    self.waits.extend(wait_of(trace, e));
                }
                EventKind::Runtime | EventKind::Driver if names.is(e, Names::ALLOCATION) => {
                    self.allocations.add(trace, e);
                    self.memory_calls.count(trace.name(e));
                }
                EventKind::CpuOp if names.is(e, Names::READ) => reads.push(e),
                EventKind::CpuOp if names.is(e, Names::COMPILED) => compiled.extend(Ns::span_of(trace, e)),
                EventKind::PythonFunction => self.has_frames = true,
                EventKind::UserAnnotation => {
                    let Some(span) = Ns::span_of(trace, e) else { continue };
                    if Step::is_mark(trace.name(e)) {
                        steps.push(e);
                    } else if trace.name(e).starts_with(OPTIMIZER_PREFIX) {
                        optimizer.push(span);
                    } else if names.is(e, Names::COMPILED) {
                        compiled.push(span);
                    } else if names.is(e, Names::INPUT) {
                        self.input.add(trace, e);
                    }
                }
                _ => {}
            }
        }
        self.has_frames &= self.tree.options().python == PythonFrames::With;
        self.input.sort();
        self.allocations.sort();
        let steps = Step::of_marks(trace, &steps);
        self.between_steps.add_between(trace, &steps);
        self.steps = steps.iter().filter_map(|s| Ns::span_of(trace, s.event)).collect();
        self.optimizer = IntervalSet::merge(optimizer);
        self.compiled = IntervalSet::merge(compiled);
        self.add_reads(&reads);
    }

    /// Reading operations in which no wait was recorded are waits themselves, unless they are over too soon to have
    /// read anything off the GPU, or call nothing where calls are recorded: then the value lies on the host.
    fn add_reads(&mut self, reads: &[EventId]) {
        let mut starts: Vec<(TrackId, Ns)> = self.waits.iter().map(|w| (w.track, w.start)).collect();
        starts.sort_unstable();
        for &e in reads {
            let Some(wait) = wait_of(self.trace, e) else { continue };
            let inside = starts.partition_point(|&s| s < (wait.track, wait.start));
            let has_call = starts.get(inside).is_some_and(|&(track, at)| track == wait.track && at < wait.end);
            let parent = self.tree.parent(e);
            let in_another = parent.is_some_and(|p| READS.contains(&self.trace.name(p)));
            let off_gpu = self.launches.is_empty() || self.calls_runtime(e);
            if !has_call && !in_another && off_gpu && wait.end - wait.start >= SHORTEST_READ {
                self.waits.push(wait);
            }
        }
    }

    fn calls_runtime(&self, operation: EventId) -> bool {
        let is_call = |e| matches!(self.trace.kind(e), EventKind::Runtime | EventKind::Driver);
        self.tree.view(self.trace).subtree(operation).any(is_call)
    }

    /// Adds the calls of copies between host and device that return only when the copy is done: the host has waited
    /// for it. Marks all waits that belong to copies of some size.
    fn add_waited_copies(&mut self) {
        let (trace, tree) = (self.trace, self.tree);
        let mut known: Vec<(EventId, usize)> = self.waits.iter().enumerate().map(|(i, w)| (w.event, i)).collect();
        known.sort_unstable();
        // Calls that launch such copies, and the operations they stand in.
        let mut copying: Vec<EventId> = Vec::new();
        for (i, g) in self.gpu.iter().enumerate().filter(|(_, g)| g.work == GpuWork::Memcpy) {
            let Some(launch) = launch_of(trace, g) else { continue };
            if !CopyDirection::of(trace, g.event).is_host_device() {
                continue;
            }
            if let Ok(at) = known.binary_search_by_key(&launch.call, |k| k.0) {
                self.waits[known[at].1].awaited = Some(i as u32);
            } else if launch.returns_after(g) {
                let wait = wait_of(trace, launch.call);
                self.waits.extend(wait.map(|w| Wait { awaited: Some(i as u32), ..w }));
            }
            if is_large(trace, g) {
                copying.push(launch.call);
                copying.extend(tree.parent(launch.call).filter(|&e| trace.kind(e) == EventKind::CpuOp));
            }
        }
        copying.sort_unstable();
        let copies = |e: EventId| copying.binary_search(&e).is_ok();
        for wait in &mut self.waits {
            wait.copy = copies(wait.event) || tree.parent(wait.event).is_some_and(copies);
        }
    }

    /// Adds what the host does in a step before it launches anything, if that is a copy of some size to the device: it
    /// gets ready what it then copies, whatever the program calls it. Without recorded steps, what takes it long between
    /// other launches and such a copy, unless it works on what it copied just before.
    fn add_prepared_input(&mut self) {
        let trace = self.trace;
        let mut prepared: Vec<(TrackId, Ns, Ns)> = Vec::new();
        let copied = if self.steps.is_empty() { self.copied() } else { Vec::new() };
        for g in self.gpu.iter().filter(|&g| is_to_device(trace, g)) {
            let Some(launch) = launch_of(trace, g) else { continue };
            let from = if self.steps.is_empty() {
                let before = self.launches.partition_point(|&l| l < launch.start).checked_sub(1);
                match before.map(|before| self.launches[before]) {
                    Some(before) => Some(before).filter(|before| copied.binary_search(before).is_err()),
                    None => self.begin(trace.track_id(launch.call)),
                }
            } else {
                self.step_opened_by(launch.start)
            };
            let Some(from) = from else { continue };
            let least = match bytes_of(trace, g) {
                _ if is_large(trace, g) && !self.steps.is_empty() => PREPARING,
                _ if is_large(trace, g) => PREPARING_UNMARKED,
                Some(bytes) if bytes >= SMALLEST_INPUT => PREPARING_SMALL,
                _ => continue,
            };
            let track = trace.track_id(launch.call);
            let waited = self.waits[..self.waits.partition_point(|w| w.end <= launch.start)].iter().rev();
            let waited = waited.take_while(|w| w.end > from).find(|w| w.track == track).map_or(from, |w| w.end);
            if launch.start - waited >= least {
                prepared.push((track, waited, launch.start));
            }
        }
        self.input.spans.extend(prepared);
        self.input.sort();
    }

    /// When the recording of a thread begins.
    pub(crate) fn begin(&self, track: TrackId) -> Option<Ns> {
        let (_, events) = self.tree.thread_events().find(|&(of, _)| of == track)?;
        self.trace.ts(*events.first()?)
    }

    /// The start of the step whose first launch comes at this time.
    fn step_opened_by(&self, launch: Ns) -> Option<Ns> {
        let step = self.steps.partition_point(|&(from, _)| from <= launch).checked_sub(1)?;
        let (from, to) = self.steps[step];
        let first = self.launches.get(self.launches.partition_point(|&l| l < from));
        (launch < to && first == Some(&launch)).then_some(from)
    }

    /// When copies between host and device of more than a few numbers are launched, in order.
    fn copied(&self) -> Vec<Ns> {
        let trace = self.trace;
        let is_one = |g: &&GpuEvent| {
            g.work == GpuWork::Memcpy
                && CopyDirection::of(trace, g.event).is_host_device()
                && bytes_of(trace, g).map_or_else(|| is_large(trace, g), |bytes| bytes >= SMALLEST_INPUT)
        };
        let calls = self.gpu.iter().filter(is_one).filter_map(|g| launch_of(trace, g));
        let mut starts: Vec<Ns> = calls.map(|launch| launch.start).collect();
        starts.sort_unstable();
        starts
    }

    fn mark_boundaries(&mut self) {
        let launched = |from: Ns, to: Ns| {
            let first = self.launches.partition_point(|&l| l < from);
            self.launches.get(first).is_some_and(|&l| l < to)
        };
        let step_of = |at: Ns| {
            let after = self.steps.partition_point(|&(from, _)| from <= at);
            after.checked_sub(1).map(|i| self.steps[i]).filter(|&(_, to)| at < to)
        };
        let whole = |w: &Wait| {
            self.trace.name(w.event).contains("DeviceSynchronize")
                && self.tree.ancestors(w.event).all(|e| self.trace.kind(e) != EventKind::CpuOp)
        };
        let inside = |w: &Wait| launched(Ns(i64::MIN), w.start) && launched(w.end, Ns(i64::MAX));
        let by_device = self.steps.is_empty() && {
            let count = self.waits.iter().filter(|w| whole(w) && inside(w)).count();
            count * LAUNCHES_PER_STEP <= self.launches.len()
        };
        let marks: Vec<bool> = self
            .waits
            .iter()
            .map(|w| {
                let (before, after) = match step_of(w.start) {
                    Some(step) => step,
                    None if self.steps.is_empty() => (Ns(i64::MIN), Ns(i64::MAX)),
                    None => return true,
                };
                // A copy that is waited for is a launch too; what counts is what comes before and after the call.
                by_device && whole(w) || !launched(before, w.start) || !launched(w.end, after)
            })
            .collect();
        for (wait, mark) in self.waits.iter_mut().zip(marks) {
            wait.at_boundary = mark;
        }
    }

    /// How many steps the recording has: at least one. Without recorded steps, those told apart by waits.
    pub(crate) fn step_count(&self) -> usize {
        let (Some(&first), Some(&last)) = (self.launches.first(), self.launches.last()) else { return 1 };
        let between = |w: &&Wait| w.at_boundary && first < w.start && w.end < last;
        if self.steps.is_empty() { 1 + self.waits.iter().filter(between).count() } else { self.steps.len() }
    }

    /// Which part of the host's time from the first to the last launch passes in compiled code.
    pub(crate) fn compiled_share(&self) -> f64 {
        let (Some(&first), Some(&last)) = (self.launches.first(), self.launches.last()) else { return 0.0 };
        let inside = |&(from, to): &(Ns, Ns)| (to.min(last) - from.max(first)).max(Ns(0));
        let compiled: Ns = self.compiled.spans().iter().map(inside).sum();
        if last > first { compiled.0 as f64 / (last - first).0 as f64 } else { 0.0 }
    }

    /// Whether the host is in an optimizer step.
    pub(crate) fn in_optimizer(&self, at: Ns) -> bool {
        holds(&self.optimizer, at)
    }

    /// Whether the host is in compiled code.
    pub(crate) fn in_compiled(&self, at: Ns) -> bool {
        holds(&self.compiled, at)
    }

    /// How much of a span an event covers.
    pub(crate) fn overlap(&self, e: EventId, (from, to): (Ns, Ns)) -> Ns {
        let (start, end) = (self.trace.ts(e).unwrap_or_default(), self.trace.end(e).unwrap_or_default());
        (end.min(to) - start.max(from)).max(Ns(0))
    }

    /// The operation that a user would name for a call: the outermost of the framework's operations directly around
    /// it, else the innermost operation, else the call.
    pub(crate) fn operation_around(&self, call: EventId) -> EventId {
        let is_op = |e: &EventId| self.trace.kind(*e) == EventKind::CpuOp;
        if is_op(&call) {
            return call;
        }
        let mut ops = self.tree.ancestors(call).take_while(is_op).peekable();
        let innermost = ops.peek().copied();
        ops.take_while(|&e| self.trace.name(e).starts_with("aten::")).last().or(innermost).unwrap_or(call)
    }

    /// Whether an operation does nothing but read a value off the GPU.
    pub(crate) fn is_read(&self, operation: EventId) -> bool {
        READS.contains(&self.trace.name(operation))
    }

    /// The innermost frame around a call that is neither built in nor part of the framework.
    pub(crate) fn user_frame(&self, call: EventId) -> Option<EventId> {
        self.tree.ancestors(call).find(|&e| {
            let name = self.trace.name(e);
            let framework = name.starts_with('<')
                || name.starts_with("torch/")
                || name.starts_with(MODULE_PREFIX)
                || name.contains("site-packages/torch/");
            self.trace.kind(e) == EventKind::PythonFunction && !framework
        })
    }
}

/// Whether trace viewers show an event by itself: neither names of threads nor arrows count as the begin of a trace.
fn is_drawn(trace: &Trace, e: EventId) -> bool {
    !matches!(trace.phase(e), 'M' | 's' | 't' | 'f' | '\0')
}

/// Whether a moment lies in one of the spans.
fn holds(spans: &IntervalSet<Ns>, at: Ns) -> bool {
    let spans = spans.spans();
    let after = spans.partition_point(|&(from, _)| from <= at);
    after > 0 && at < spans[after - 1].1
}

fn launch_of(trace: &Trace, g: &GpuEvent) -> Option<Launch> {
    let call = g.call?;
    let start = trace.ts(call)?;
    Some(Launch { call, start, end: start + trace.dur(call).unwrap_or_default() })
}

fn wait_of(trace: &Trace, event: EventId) -> Option<Wait> {
    let (start, end) = Ns::span_of(trace, event)?;
    let track = trace.track_id(event);
    Some(Wait { event, track, start, end, at_boundary: false, copy: false, awaited: None })
}

/// Bytes of a copy, where they are recorded.
pub(super) fn bytes_of(trace: &Trace, copy: &GpuEvent) -> Option<i64> {
    trace.arg(copy.event, "bytes").and_then(jarvis_trace::Arg::as_int)
}

/// Whether it is a copy from the host to the device.
pub(super) fn is_to_device(trace: &Trace, g: &GpuEvent) -> bool {
    g.work == GpuWork::Memcpy && CopyDirection::of(trace, g.event) == CopyDirection::HostToDevice
}

/// Whether a copy is more than a value read. Where its size is missing its time tells.
fn is_large(trace: &Trace, copy: &GpuEvent) -> bool {
    match bytes_of(trace, copy) {
        Some(bytes) => bytes >= LARGE_COPY,
        None => copy.end - copy.start >= LONG_COPY,
    }
}

/// Spans of host time, thread by thread and in order of start.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByTrack {
    spans: Vec<(TrackId, Ns, Ns)>,
}

impl ByTrack {
    fn add(&mut self, trace: &Trace, e: EventId) {
        self.spans.extend(Ns::span_of(trace, e).map(|(from, to)| (trace.track_id(e), from, to)));
    }

    /// Adds the time between steps that follow each other on a thread.
    fn add_between(&mut self, trace: &Trace, steps: &[Step]) {
        for [one, next] in steps.array_windows() {
            let follows = one.number.is_some_and(|n| n.checked_add(1) == next.number);
            let track = trace.track_id(next.event);
            let ends = trace.end(one.event).zip(trace.ts(next.event));
            let spans = ends.filter(|(from, to)| follows && from < to && trace.track_id(one.event) == track);
            self.spans.extend(spans.map(|(from, to)| (track, from, to)));
        }
        self.sort();
    }

    fn sort(&mut self) {
        self.spans.sort_unstable();
    }

    /// The spans of a thread.
    pub(crate) fn of(&self, track: TrackId) -> &[(TrackId, Ns, Ns)] {
        let first = self.spans.partition_point(|s| s.0 < track);
        let count = self.spans[first..].partition_point(|s| s.0 == track);
        &self.spans[first..first + count]
    }
}

/// Calls that get memory of the device from the driver and give it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryCalls {
    /// Those that get it.
    pub got: usize,
    /// Those that give it back.
    pub given_back: usize,
}

impl MemoryCalls {
    /// Those of the host's memory count neither way, nor do those that a pool of the driver answers.
    fn count(&mut self, name: &str) {
        if name.contains("Host") || name.contains("Async") {
            return;
        }
        self.got += usize::from(name.contains("Malloc"));
        self.given_back += usize::from(name.contains("Free"));
    }

    /// Whether each of so many steps gives memory back that the next one asks for again.
    pub(super) fn go_round(self, steps: usize) -> bool {
        self.got.min(self.given_back) >= steps.max(2)
    }
}

/// What names mean, each distinct one looked at once.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    trace: &'a Trace,
    known: Vec<u8>,
}

impl<'a> Names<'a> {
    pub(crate) const WAIT: u8 = 1;
    pub(crate) const BLOCKING_COPY: u8 = 2;
    pub(crate) const READ: u8 = 4;
    pub(crate) const INPUT: u8 = 8;
    pub(crate) const ALLOCATION: u8 = 16;
    pub(crate) const COMPILED: u8 = 32;
    pub(crate) const PROFILER: u8 = 64;
    const SEEN: u8 = 128;

    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self { trace, known: vec![0; trace.strings().len()] }
    }

    /// Whether the name of an event means one of these.
    pub(crate) fn is(&mut self, e: EventId, any: u8) -> bool {
        self.meaning(self.trace.name_id(e)) & any != 0
    }

    fn meaning(&mut self, name: StrId) -> u8 {
        let known = &mut self.known[name.index()];
        if *known == 0 {
            *known = Self::SEEN | meaning(self.trace.text(name));
        }
        *known
    }
}

/// Whether a name says so. Of a frame's file only those of loaders do: what is in the folder of a model that makes tokens
/// of images, or of steps that prepare, may as well run on the GPU.
fn names_input(name: &str) -> bool {
    let of_frame = name.split_once("): ").filter(|(place, _)| place.contains(".py("));
    let (place, function) = of_frame.unwrap_or(("", name));
    let file = place.rsplit(['/', '\\']).next().unwrap_or_default();
    LOADERS.iter().any(|w| file.contains(w)) || LOADERS.iter().chain(&PREPARING_WORDS).any(|w| function.contains(w))
}

fn meaning(name: &str) -> u8 {
    let any = |words: &[&str]| words.iter().any(|w| name.contains(w));
    let mut meaning = 0;
    if any(&WAITS) {
        meaning |= Names::WAIT;
    }
    if name.contains("Memcpy") && !name.contains("Async") {
        meaning |= Names::BLOCKING_COPY;
    }
    if READS.contains(&name) {
        meaning |= Names::READ;
    }
    if names_input(name) {
        meaning |= Names::INPUT;
    }
    if any(&ALLOCATION_WORDS) {
        meaning |= Names::ALLOCATION;
    }
    if COMPILED_REGIONS.iter().any(|p| name.starts_with(p)) {
        meaning |= Names::COMPILED;
    }
    if name.contains(PROFILER_FRAME) && name.ends_with(PROFILER_STEP) {
        meaning |= Names::PROFILER;
    }
    meaning
}

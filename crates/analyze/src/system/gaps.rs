//! Every wait of the GPU, and why it waited.
//!
//! The GPU events that the timeline counts are merged into busy intervals; a gap is what lies between two of them. Let
//! `k` be the first GPU event after the gap and `r` the call that launched it:
//!
//! ```text
//! queued   GPU   |-- a --|g0     g1|-- k --|        r came before g0: the device made it wait
//!          host  |r|
//!
//! late     GPU   |-- a --|g0     g1|-- k --|        r came after g0: the host made it wait
//!          host        ......|r|
//! ```
//!
//! A late gap is charged to what the launching thread did in `[g0, r.start]`. The sum over all classes is the idle time
//! of the timeline, to the nanosecond.
//!
//! Where this departs from the letter of the contract, because traces showed that it has to: memory calls and input
//! frames are looked for first, in the time after the host was free again. Otherwise a loader that runs after the
//! synchronization at the end of a step is taken for that synchronization.

use std::sync::Arc;

use jarvis_trace::{EventId, InOrder, IntervalSet, Ns, Population, StrId, Trace, Tree};
use rapidhash::RapidHashMap;

use super::activity::{Activity, activities};
use super::classify::{Bare, Class, first_class, handed_over_spans, input_before, late_spans, merge, refine};
use super::first_calls::{self, FirstCalls};
use super::recording::{MemoryCalls, Recording, Wait};

/// Why the GPU waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GapClass {
    /// A long gap beside a lone first or last GPU event: the capture began or ended there.
    Edge,
    /// The launch had been there before the gap and the gap is short: kernels can't follow each other faster.
    LaunchQueue,
    /// The launch had been there before the gap and the gap is long: another stream, an event or another rank.
    DeviceWait,
    /// The host had just waited for the GPU in the middle of a step, so nothing was queued.
    HostSync,
    /// The same at the edge of a step, where it is expected; or the host was in the profiler, which ends a step and begins
    /// the next: no part of the program.
    StepSync,
    /// The host got or gave back memory.
    HostAlloc,
    /// The host fetched or prepared input.
    HostData,
    /// The host ran operations or Python.
    HostWork,
    /// Nothing recorded on the launching thread explains the late launch.
    HostIdle,
    /// The launch was not recorded.
    Unlinked,
}

impl GapClass {
    /// All classes, in the order of tables.
    pub const ALL: [Self; 10] = [
        Self::Edge,
        Self::LaunchQueue,
        Self::DeviceWait,
        Self::HostSync,
        Self::StepSync,
        Self::HostAlloc,
        Self::HostData,
        Self::HostWork,
        Self::HostIdle,
        Self::Unlinked,
    ];

    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Edge => "edge",
            Self::LaunchQueue => "launch_queue",
            Self::DeviceWait => "device_wait",
            Self::HostSync => "host_sync",
            Self::StepSync => "step_sync",
            Self::HostAlloc => "host_alloc",
            Self::HostData => "host_data",
            Self::HostWork => "host_work",
            Self::HostIdle => "host_idle",
            Self::Unlinked => "unlinked",
        }
    }

    /// What it means, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Edge => "edge of the capture",
            Self::LaunchQueue => "work was queued; the usual pause between kernels",
            Self::DeviceWait => "work was queued; waits for another stream, event or rank",
            Self::HostSync => "the host had waited for the GPU within a step",
            Self::StepSync => "the host had waited for the GPU between steps, or was in the profiler there",
            Self::HostAlloc => "the host allocates or frees memory",
            Self::HostData => "the host prepares input",
            Self::HostWork => "the host runs operations or Python code",
            Self::HostIdle => "nothing recorded on the launching thread",
            Self::Unlinked => "the launch was not recorded",
        }
    }

    /// Whether the launch came too late.
    pub fn is_late(self) -> bool {
        matches!(
            self,
            Self::HostSync | Self::StepSync | Self::HostAlloc | Self::HostData | Self::HostWork | Self::HostIdle
        )
    }
}

/// A wait of the GPU.
#[derive(Debug, Clone, Copy)]
pub struct Gap {
    /// From the first GPU event on.
    pub start: Ns,
    /// How long.
    pub length: Ns,
    /// Why.
    pub class: GapClass,
    /// How long after the gap began the launch came; zero if it had been there.
    pub late_by: Ns,
    /// Position in [`Gaps::activities`], or `NO_ACTIVITY`; see [`Gap::activity`].
    activity: u32,
    /// Whether the host was in it for half of the time until the launch or more; see [`Gap::doing`].
    is_in_activity: bool,
    /// UID of the GPU event before.
    pub before: u32,
    /// UID of the GPU event after.
    pub after: u32,
}

const NO_ACTIVITY: u32 = u32::MAX;

impl Gap {
    /// What the host did, as a position in [`Gaps::activities`]. (Gaps may be as many as kernels, so it takes four bytes.)
    pub fn activity(&self) -> Option<usize> {
        (self.activity != NO_ACTIVITY).then_some(self.activity as usize)
    }

    /// The same where it can be said that the host was in it, or that the wait in it drained the queue: an operation
    /// that only touches the gap says nothing about it.
    pub fn doing(&self) -> Option<usize> {
        self.activity().filter(|_| self.is_in_activity || self.class == GapClass::HostSync)
    }
}

/// Time of one class, activity or bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Gaps.
    pub count: usize,
    /// Their time.
    pub time: Ns,
}

impl Tally {
    fn add(&mut self, time: Ns) {
        self.count += 1;
        self.time = self.time + time;
    }
}

/// What the host did during gaps.
#[derive(Debug, Clone, PartialEq)]
pub struct HostActivity {
    /// Name of the frame, operation or call.
    pub name: Arc<str>,
    /// UID of one.
    pub example: u32,
    /// Gaps and their time.
    pub tally: Tally,
    /// Those in which the host really was in it, and for how long.
    pub covered: Tally,
}

/// A gap among the longest, with names.
#[derive(Debug, Clone, PartialEq)]
pub struct LongGap {
    /// When it begins, from the first event of the file on: as trace viewers count.
    pub position: Ns,
    /// How long.
    pub length: Ns,
    /// Why.
    pub class: GapClass,
    /// What the host did.
    pub host_activity: Option<Arc<str>>,
    /// Whether it can be said that the host did it; see [`Gap::doing`].
    pub is_doing: bool,
    /// Name of the GPU event before.
    pub before_kernel: Arc<str>,
    /// Name of the GPU event after.
    pub after_kernel: Arc<str>,
    /// UID of the GPU event after.
    pub after_uid: u32,
}

/// Calls of one name in which the host waited for the GPU.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitName {
    /// Name of the call.
    pub name: Arc<str>,
    /// Calls.
    pub count: usize,
    /// Host time in them.
    pub time: Ns,
}

/// An operation that makes the host wait in the middle of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct WaitingOperation {
    /// As a user would name it: `aten::item`, `aten::nonzero`, or the call itself.
    pub name: Arc<str>,
    /// UID of one.
    pub example: u32,
    /// Where it was called from, if frames were recorded.
    pub caller: Option<Arc<str>>,
    /// Gaps that follow it, and their time.
    pub gaps: Tally,
}

/// An operation in which the host waits in the middle of a step, whether or not the GPU runs dry then.
#[derive(Debug, Clone, PartialEq)]
pub struct MidStepWait {
    /// As a user would name it.
    pub name: Arc<str>,
    /// Where it is called from, each place once, if frames were recorded.
    pub callers: Vec<Arc<str>>,
    /// How often.
    pub count: usize,
}

/// All waits of the GPU.
#[derive(Debug, Clone, Default)]
pub struct Gaps {
    /// When the first GPU event started.
    pub begin: Ns,
    /// From the first start to the last end of GPU events.
    pub window: Ns,
    /// Time in which any of them ran.
    pub busy: Ns,
    /// In order of time.
    pub gaps: Vec<Gap>,
    /// Time in which the host fetched input, in the order of the gaps of class [`GapClass::HostData`].
    pub input: Vec<Ns>,
    /// By class, in the order of [`GapClass::ALL`].
    pub by_class: [Tally; 10],
    /// Shorter than 5, 20, 100 and 1000 µs, and the others.
    pub histogram: [Tally; 5],
    /// What the host did, most time first; waits, input and all else.
    pub activities: Vec<HostActivity>,
    /// The ten longest.
    pub longest: Vec<LongGap>,
    /// Profiler steps; where none was recorded, those told apart by synchronizations.
    pub steps: usize,
    /// Whether profiler steps were recorded.
    pub has_steps: bool,
    /// Calls in which the host waited for the GPU, most time first.
    pub waits: Vec<WaitName>,
    /// Of the gaps after waits in the middle of a step: those after copies of some size between host and device.
    pub behind_copies: Tally,
    /// What else made the host wait in the middle of a step, most time first.
    pub waiting_operations: Vec<WaitingOperation>,
    /// Operations that wait in the middle of a step, copies of some size aside, most often first: none of them can be
    /// captured.
    pub mid_step_waits: Vec<MidStepWait>,
    /// Late launches of optimizer steps.
    pub in_optimizer: Tally,
    /// Late launches in first calls of operations.
    pub first_calls: FirstCalls,
    /// Gaps in which the host was in the profiler, between steps.
    pub in_profiler: Tally,
    /// Time of the profiler before late launches, with when the launch came; in order.
    pub(super) profiler: Vec<(Ns, Ns)>,
    /// Time spent on input in the first step before anything was launched. It lies before the window.
    pub input_before: Ns,
    /// Calls for memory of the device.
    pub memory_calls: MemoryCalls,
    /// Whether Python frames were there to be looked at.
    pub has_frames: bool,
}

/// Upper edges of the histogram's buckets but the last.
pub const HISTOGRAM_EDGES: [Ns; 4] = [Ns(5_000), Ns(20_000), Ns(100_000), Ns(1_000_000)];

/// With this share of the late time, in percent, first calls of operations are spoken of.
const FIRST_OF_LATE: f64 = 25.0;

/// How many of the longest gaps are kept with names.
const LONGEST: usize = 10;

impl Gaps {
    /// Of a trace, where nothing else of the system tier is asked for; see [`super::System::of`].
    pub fn of_trace(trace: &Trace, tree: &Tree, population: Population) -> Option<Self> {
        Recording::of(trace, tree, population).map(|recording| Self::of(&recording))
    }

    pub(crate) fn of(recording: &Recording<'_>) -> Self {
        let (bare, busy) = merge(recording);
        let window = recording.extent.1 - recording.extent.0;
        let mut classes: Vec<Class> = bare.iter().map(|gap| first_class(recording, gap, window)).collect();
        // Of what the host did, what is told of each gap: there may be as many gaps as kernels.
        let mut seen: Vec<Seen> = vec![Seen::default(); bare.len()];
        for spans_of in [late_spans, handed_over_spans] {
            let late = spans_of(recording, &bare, &classes);
            let found = activities(recording, &late);
            for (span, activity) in late.iter().zip(found) {
                refine(&mut classes[span.gap].0, span, &activity);
                let Activity { input, profiler, event, .. } = activity;
                seen[span.gap] = Seen { input, profiler, event };
            }
        }
        let mut tables = Tables::new(recording);
        let waits_for_input = bare.iter().zip(&classes).filter(|(_, class)| class.0 == GapClass::HostData);
        let longest = waits_for_input.map(|(gap, _)| gap.to - gap.from).max().unwrap_or_default();
        tables.gaps.input_before = input_before(recording, longest);
        tables.gaps.gaps.reserve_exact(bare.len());
        for ((gap, &class), &seen) in bare.iter().zip(&classes).zip(&seen) {
            tables.add(gap, class, seen);
        }
        tables.finish(window, busy)
    }

    /// Time of a class.
    pub fn class(&self, class: GapClass) -> Tally {
        self.by_class[class as usize]
    }

    /// Time in which nothing ran.
    pub fn idle(&self) -> Ns {
        self.window - self.busy
    }

    /// Time in which nothing ran within these spans, which do not overlap.
    pub fn idle_within(&self, spans: &[(Ns, Ns)]) -> Ns {
        let gaps = self.gaps.iter().map(|gap| (self.begin + gap.start, self.begin + gap.start + gap.length));
        gaps.collect::<IntervalSet<Ns>>().intersect(&spans.iter().copied().collect()).measure()
    }

    /// Time of all gaps whose launch came too late.
    pub fn late(&self) -> Ns {
        GapClass::ALL.into_iter().filter(|c| c.is_late()).map(|c| self.class(c).time).sum()
    }

    /// Whether the GPU waits for itself or for others during most of its idle time, and not for the host.
    pub fn awaits_device(&self) -> bool {
        percent(self.class(GapClass::DeviceWait).time, self.idle()) > 50.0
    }

    /// First calls of operations, if they are a good part of what is late.
    pub fn slow_first_calls(&self) -> Option<&FirstCalls> {
        Some(&self.first_calls).filter(|first| percent(first.time, self.late()) > FIRST_OF_LATE)
    }

    /// Idle time in percent of the window, capture edges left out of both.
    pub fn idle_without_edges_percent(&self) -> f64 {
        self.idle_percent_without(self.class(GapClass::Edge).time)
    }

    /// The same, first calls at the start of a run and what the profiler does between steps left out as well.
    pub fn idle_of_program_percent(&self) -> f64 {
        let edges = self.class(GapClass::Edge).time;
        self.idle_percent_without(edges + self.first_calls.at_start() + self.in_profiler.time)
    }

    fn idle_percent_without(&self, time: Ns) -> f64 {
        percent(self.idle() - time, self.window - time)
    }
}

/// Share in percent; zero of nothing.
pub(crate) fn percent(part: Ns, whole: Ns) -> f64 {
    if whole.0 == 0 { 0.0 } else { 100.0 * part.0 as f64 / whole.0 as f64 }
}

/// What the host did in a gap, as far as tables tell it.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    input: Ns,
    profiler: Ns,
    event: Option<EventId>,
}

/// Sums over gaps while they are classified.
struct Tables<'a, 'r> {
    recording: &'r Recording<'a>,
    gaps: Gaps,
    by_name: RapidHashMap<StrId, u32>,
    by_operation: RapidHashMap<StrId, usize>,
    /// Long gaps, with what the host was in.
    long: Vec<first_calls::LongGap>,
}

impl<'a, 'r> Tables<'a, 'r> {
    fn new(recording: &'r Recording<'a>) -> Self {
        let gaps = Gaps {
            begin: recording.extent.0,
            steps: recording.step_count(),
            has_steps: !recording.steps.is_empty(),
            has_frames: recording.has_frames,
            ..Gaps::default()
        };
        let (by_name, by_operation) = (RapidHashMap::default(), RapidHashMap::default());
        Self { recording, gaps, by_name, by_operation, long: Vec::new() }
    }

    fn add(&mut self, gap: &Bare, (class, wait): Class, Seen { input, profiler, event }: Seen) {
        let recording = self.recording;
        let wait = wait.map(|at| recording.waits[at as usize]);
        let length = gap.to - gap.from;
        self.gaps.by_class[class as usize].add(length);
        let bucket = HISTOGRAM_EDGES.iter().position(|&edge| length < edge).unwrap_or(HISTOGRAM_EDGES.len());
        self.gaps.histogram[bucket].add(length);
        let blamed = match class {
            GapClass::HostSync => wait.map(|w| recording.operation_around(w.event)),
            _ if class.is_late() => event,
            _ => None,
        };
        if let (GapClass::HostSync, Some(wait), Some(operation)) = (class, wait, blamed) {
            if wait.copy {
                self.gaps.behind_copies.add(length);
            } else {
                self.add_operation(wait, operation, length);
            }
        }
        let after = gap.after(recording);
        let launched = recording.launch(after);
        let launch = launched.filter(|_| class.is_late());
        let until = launch.map_or(gap.to, |l| l.start.min(gap.to));
        let covered = |e: EventId| recording.overlap(e, (gap.from, until));
        let is_in = |e: EventId| covered(e) + covered(e) >= until - gap.from;
        let at_edge = launched.filter(|_| class == GapClass::Edge);
        let late_by = launch.or(at_edge).map_or(Ns(0), |l| (l.start - gap.from).max(Ns(0)));
        if class.is_late() && class != GapClass::HostData && length >= first_calls::LONG {
            let waited = blamed.filter(|_| class == GapClass::HostSync);
            let events = [event.filter(|&e| is_in(e)), waited];
            self.long.push(first_calls::LongGap { class, span: (gap.from, gap.to), events });
        }
        let activity = blamed.map_or(NO_ACTIVITY, |e| self.activity(e, length, covered(e)));
        if launch.is_some_and(|l| recording.in_optimizer(l.start)) {
            self.gaps.in_optimizer.add(length);
        }
        if class == GapClass::HostData {
            self.gaps.input.push(input);
        }
        // Between steps without a wait it is the profiler that the GPU waits for.
        if class == GapClass::StepSync && wait.is_none() {
            self.gaps.in_profiler.add(length);
        }
        if profiler > Ns(0) {
            self.gaps.profiler.extend(launch.map(|l| (l.start, profiler)));
        }
        self.gaps.gaps.push(Gap {
            start: gap.from - recording.extent.0,
            length,
            class,
            late_by,
            activity,
            is_in_activity: blamed.is_some_and(is_in),
            before: gap.before(recording).event.uid(),
            after: after.event.uid(),
        });
    }

    fn activity(&mut self, e: EventId, length: Ns, covered: Ns) -> u32 {
        let trace = self.recording.trace;
        let list = &mut self.gaps.activities;
        let position = *self.by_name.entry(trace.name_id(e)).or_insert_with(|| {
            let (tally, covered) = Default::default();
            list.push(HostActivity { name: trace.name(e).into(), example: e.uid(), tally, covered });
            list.len() as u32 - 1
        });
        let activity = &mut list[position as usize];
        activity.tally.add(length);
        if covered > Ns(0) {
            activity.covered.add(covered);
        }
        position
    }

    fn add_operation(&mut self, wait: Wait, operation: EventId, length: Ns) {
        let recording = self.recording;
        let list = &mut self.gaps.waiting_operations;
        let position = *self.by_operation.entry(recording.trace.name_id(operation)).or_insert_with(|| {
            let caller = recording.user_frame(wait.event).map(|e| recording.trace.name(e).into());
            let name = recording.trace.name(operation).into();
            list.push(WaitingOperation { name, example: operation.uid(), caller, gaps: Tally::default() });
            list.len() - 1
        });
        list[position].gaps.add(length);
    }

    fn finish(mut self, window: Ns, busy: Ns) -> Gaps {
        (self.gaps.window, self.gaps.busy) = (window, busy);
        self.gaps.longest = self.longest();
        self.gaps.memory_calls = self.recording.memory_calls;
        self.gaps.first_calls = FirstCalls::of(self.recording, &self.long);
        self.gaps.waits = self.waits();
        self.gaps.mid_step_waits = self.mid_step_waits();
        self.sort_activities();
        self.gaps.waiting_operations.order_by(|a, b| b.gaps.time.cmp(&a.gaps.time).then_with(|| a.name.cmp(&b.name)));
        self.gaps
    }

    fn longest(&self) -> Vec<LongGap> {
        let gaps = &self.gaps.gaps;
        let mut order: Vec<usize> = (0..gaps.len()).collect();
        let key = |&i: &usize| (std::cmp::Reverse(gaps[i].length), gaps[i].start);
        if order.len() > LONGEST {
            order.select_nth_unstable_by_key(LONGEST - 1, key);
            order.truncate(LONGEST);
        }
        order.sort_unstable_by_key(key);
        let name = |uid: u32| -> Arc<str> { self.recording.trace.name(EventId::from_uid(uid)).into() };
        let named = |i: usize| LongGap {
            position: self.gaps.begin + gaps[i].start - self.recording.first,
            length: gaps[i].length,
            class: gaps[i].class,
            is_doing: gaps[i].doing().is_some(),
            host_activity: gaps[i].activity().map(|a| Arc::clone(&self.gaps.activities[a].name)),
            before_kernel: name(gaps[i].before),
            after_kernel: name(gaps[i].after),
            after_uid: gaps[i].after,
        };
        order.into_iter().map(named).collect()
    }

    fn waits(&self) -> Vec<WaitName> {
        let mut list: Vec<WaitName> = Vec::new();
        for wait in &self.recording.waits {
            let name = self.recording.trace.name(wait.event);
            let time = wait.end - wait.start;
            match list.iter_mut().find(|w| &*w.name == name) {
                Some(known) => (known.count, known.time) = (known.count + 1, known.time + time),
                None => list.push(WaitName { name: name.into(), count: 1, time }),
            }
        }
        list.order_by(|a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
        list
    }

    fn mid_step_waits(&self) -> Vec<MidStepWait> {
        let (recording, trace) = (self.recording, self.recording.trace);
        let mut list: Vec<(StrId, Vec<StrId>, usize)> = Vec::new();
        for wait in recording.waits.iter().filter(|w| !w.at_boundary && !w.copy) {
            let name = trace.name_id(recording.operation_around(wait.event));
            let caller = recording.user_frame(wait.event).map(|e| trace.name_id(e));
            let at = list.iter().position(|known| known.0 == name).unwrap_or(list.len());
            if at == list.len() {
                list.push((name, Vec::new(), 0));
            }
            let (_, callers, count) = &mut list[at];
            *count += 1;
            callers.extend(caller.filter(|c| !callers.contains(c)));
        }
        let text = |id: StrId| -> Arc<str> { trace.text(id).into() };
        let named = |(name, callers, count): (StrId, Vec<StrId>, usize)| MidStepWait {
            name: text(name),
            callers: callers.into_iter().map(text).collect(),
            count,
        };
        let mut list: Vec<MidStepWait> = list.into_iter().map(named).collect();
        list.order_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
        list
    }

    /// Most time first; gaps keep pointing at theirs.
    fn sort_activities(&mut self) {
        let mut order: Vec<usize> = (0..self.gaps.activities.len()).collect();
        let list = &self.gaps.activities;
        order.order_by(|&a, &b| {
            list[b].tally.time.cmp(&list[a].tally.time).then_with(|| list[a].name.cmp(&list[b].name))
        });
        let mut place = vec![0u32; order.len()];
        for (to, &from) in order.iter().enumerate() {
            place[from] = to as u32;
        }
        self.gaps.activities = order.into_iter().map(|i| list[i].clone()).collect();
        for gap in &mut self.gaps.gaps {
            gap.activity = gap.activity().map_or(NO_ACTIVITY, |a| place[a]);
        }
    }
}

#[cfg(test)]
mod tests;

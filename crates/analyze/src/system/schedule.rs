//! The recorded schedule, ready to be run again with one thing changed.
//!
//! The host issues launches one after another and now and then waits for the GPU; the GPU starts a kernel when it is
//! launched and what it follows has ended:
//!
//! ```text
//! host   |r1|..|r2|..|r3|................|wait      |..|r4|
//! GPU       |-- k1 --|-- k2 --------|-- k3 --|            |-- k4 --|
//!            ^launch  ^k1 ended      ^k2 ended             ^launch
//! ```
//!
//! So `start(k) = max(end of what it follows + gap, launch + latency)`. Gap and latency are those recorded where the
//! recording shows them (the first for kernels that had been queued, the second for kernels whose launch was late) and
//! typical ones of the same trace where it does not. Run unchanged, the schedule gives the recorded times back to the
//! nanosecond, so what a changed run gives differs by the change alone.
//!
//! It is a model of one host and one order: launches of all threads form one sequence, and kernels keep the order in
//! which they ran.

use jarvis_trace::{EventId, EventKind, GpuWork, Ns, TrackId};

use super::first_calls::FirstCalls;
use super::gaps::{GapClass, Gaps};
use super::recording::{GpuEvent, Launch, Recording, Wait, is_to_device};

pub(super) const NONE: u32 = u32::MAX;

/// Time between the start of a launching call and the start of its kernel on an idle GPU, where the trace has too few
/// to tell: 8 to 12 µs were seen on every machine at hand.
const USUAL_LATENCY: i64 = 8_000;

/// Time between kernels that had been queued, where the trace has too few to tell: 1.0 to 1.6 µs were seen.
const USUAL_QUEUE_GAP: i64 = 1_500;

/// The same within a replayed GPU graph at most: 0.3 to 0.8 µs were seen, and medians of 0.26 to 0.45 in eight replays.
const GRAPH_GAP: i64 = 500;

/// Longer gaps between queued kernels are waits of the device and stay.
pub(super) const LONGEST_QUEUE_GAP: i64 = 10_000;

/// A kernel launched this long before it could start had surely been queued.
const SURELY_QUEUED: i64 = 20_000;

/// A first kernel launched this long before it started was behind more than the latency of some machine.
const LEAST_BACKLOG: i64 = 200_000;

/// A launching call of a kernel that starts later takes longer than this only if the queue of launches is full.
const LONGEST_CALL: Ns = Ns(100_000);

/// What such a call would take if it were not.
const USUAL_CALL: Ns = Ns(10_000);

/// Of the time a step runs, what it takes at most to issue it where the host comes to be ahead.
const AHEAD: f64 = 0.9;

/// Fewer samples than this tell nothing typical.
const SAMPLES: usize = 10;

/// Late launches that nothing recorded explains are left alone by faster launching if they are longer than this.
const UNEXPLAINED: Ns = Ns(1_000_000);

/// A wait may end this short before the last GPU event it waited for, by the clocks of host and GPU.
const CLOCK_SLACK: Ns = Ns(1_000);

/// A GPU event. Times are from the first GPU event on, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    pub(super) start: i64,
    pub(super) end: i64,
    /// The GPU event that ended last before it started, or the one before it on its stream if it started on its heels.
    pub(super) after: u32,
    /// The one before it on its stream, if that had ended.
    pub(super) follows: u32,
    /// Time after `after`; less than none on its heels.
    pub(super) gap: i64,
    /// Time after its launch.
    pub(super) latency: i64,
    /// How long the launching call took, four seconds at most: the part of the latency that the profiler slows down.
    pub(super) call: u32,
    /// Whether its launch was recorded.
    pub(super) linked: bool,
}

/// Something the host does, with the time since the thing before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) delta: i64,
    /// Of it: time that faster launching does not shorten.
    pub(super) fixed: i64,
    /// Of that: time spent on input.
    pub(super) input: i64,
    /// Of `delta`, but for `read`: the rest of the operation that launched before.
    pub(super) carried: i64,
    /// Of `delta`: time in operations that read a value off the GPU in the middle of a step.
    pub(super) read: i64,
    /// Of what belongs to the thing itself: time in calls that get or give back memory. It is the driver's, which the
    /// profiler does not slow down.
    pub(super) memory: i64,
    /// Of the rest of that: time in the profiler between steps, which a faster program does not shorten, and which is not
    /// there without the profiler.
    pub(super) profiler: i64,
    /// Whether it is the first launch of a step.
    pub(super) opens: bool,
    pub(super) act: Act,
}

impl Step {
    /// Of `delta`: what belongs to the thing itself.
    pub(super) fn own(&self) -> i64 {
        self.delta - self.fixed - self.read - self.carried
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    /// Launches these positions of `launched`.
    Launch { from: u32, to: u32 },
    /// Waits until a GPU event has ended, if it had not.
    Wait {
        length: i64,
        awaited: u32,
        /// From the end of what it waited for to its return.
        back: i64,
        at_boundary: bool,
        copy: bool,
        /// Whether that is a copy to the device.
        to_device: bool,
    },
    /// Waits inside a launching call until the queue of launches has room again: until a GPU event has ended, or one from
    /// before the window.
    Blocked { length: i64, awaited: u32, back: i64 },
}

/// The recorded schedule.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    pub(super) works: Vec<Work>,
    pub(super) steps: Vec<Step>,
    pub(super) launched: Vec<u32>,
    /// UIDs of the GPU events with their positions, in order.
    uids: Vec<(u32, u32)>,
    pub(super) graph_gap: i64,
    /// When the host does the first thing.
    pub(super) host_start: i64,
}

impl Schedule {
    pub(crate) fn of(recording: &Recording<'_>, gaps: &Gaps) -> Self {
        let (works, graph_gap) = works(recording, &gaps.first_calls);
        let mut uids: Vec<(u32, u32)> =
            recording.gpu.iter().enumerate().map(|(i, g)| (g.event.uid(), i as u32)).collect();
        uids.sort_unstable();
        let mut schedule = Self { works, uids, graph_gap, ..Self::default() };
        schedule.add_steps(recording, gaps);
        schedule
    }

    /// Whether the host waits for a copy to the device anywhere.
    pub(super) fn awaits_copies_to_device(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.act, Act::Wait { to_device: true, .. }))
    }

    /// Number of GPU events.
    pub(crate) fn len(&self) -> usize {
        self.works.len()
    }

    /// From the first start to the last end: what an unchanged run gives.
    pub(crate) fn window(&self) -> Ns {
        let first = self.works.first().map_or(0, |w| w.start);
        Ns(self.works.iter().map(|w| w.end).max().map_or(0, |last| last - first))
    }

    /// Whether the first GPU event had been queued behind work from before the window.
    pub(super) fn begins_queued(&self) -> bool {
        self.works.first().is_some_and(|first| first.linked && first.latency > LEAST_BACKLOG)
    }

    /// How long the window is if it is one of many: no step waits for the GPU and each is issued in less time than it
    /// runs, so the host comes to be ahead, and what the GPU waited for until then belongs to the beginning of the
    /// recording. `None` if that can't be said.
    pub(super) fn settled(&self) -> Option<Ns> {
        let last = self.steps.iter().rposition(|s| matches!(s.act, Act::Launch { .. }))?;
        let (mut now, mut opened) = (0, Vec::new());
        for step in &self.steps[..=last] {
            now += step.delta;
            match step.act {
                Act::Wait { .. } => return None,
                Act::Launch { .. } if step.opens => opened.push(now),
                _ => {}
            }
        }
        let (&first, &last) = (opened.first()?, opened.last()?);
        let (mut busy, mut waited, mut until) = (0, 0, self.works.first()?.start);
        for work in &self.works {
            // The usual pauses between queued kernels stay, and so do waits of the device: only what had been queued has
            // kept a long gap.
            let is_device_wait = work.linked && work.gap >= LONGEST_QUEUE_GAP;
            if !is_device_wait {
                waited += (work.start - until - USUAL_QUEUE_GAP).max(0);
            }
            busy += (work.end - work.start.max(until)).max(0);
            until = until.max(work.end);
        }
        let steps = opened.len() as f64;
        let issued = (last - first) as f64 / (steps - 1.0);
        (steps >= 2.0 && issued < AHEAD * busy as f64 / steps).then(|| Ns(self.window().0 - waited))
    }

    /// Position of the GPU event with this UID.
    pub(crate) fn position(&self, uid: u32) -> Option<usize> {
        self.uids.binary_search_by_key(&uid, |u| u.0).ok().map(|i| self.uids[i].1 as usize)
    }

    /// How long the GPU event at a position took.
    pub(crate) fn length(&self, position: usize) -> i64 {
        self.works[position].end - self.works[position].start
    }

    /// Host time that belongs to the launch of each GPU event, as recorded and without what the profiler does between
    /// steps; none where it was launched together with another.
    pub(super) fn host_before(&self) -> Vec<i64> {
        let mut before = vec![0; self.works.len()];
        for step in &self.steps {
            if let Act::Launch { from, .. } = step.act {
                before[self.launched[from as usize] as usize] = step.own() - step.profiler;
            }
        }
        before
    }

    fn add_steps(&mut self, recording: &Recording<'_>, gaps: &Gaps) {
        let works = ByEnd::of(&self.works);
        let (waits, blocked) = (waits(recording, &works), blocked(recording, &works));
        let mut acts = self.launches(recording, waits.len() + blocked.len());
        acts.extend(waits);
        acts.extend(blocked);
        // A call that launches a copy and waits for it launches first.
        acts.sort_by_key(|a| (a.at, a.until.is_some()));
        let late = LateLaunches::of(recording, gaps);
        let (reads, memory) = (reads(recording), memory_calls(recording));
        let (mut read_at, mut memory_at) = (0, 0);
        let mut opens = StepStarts { steps: &recording.steps, next: 0, pending: true };
        let mut clock = acts.first().map_or(recording.extent.0, |a| a.at);
        self.host_start = (clock - recording.extent.0).0;
        let mut before: Option<Operation> = None;
        self.steps.reserve_exact(acts.len());
        for act in acts {
            // No change is worth what the run only spends at its start.
            let delta = (act.at - clock - gaps.first_calls.at_start_within(clock, act.at)).max(Ns(0));
            let read = overlap(&reads, &mut read_at, clock, act.at).min(delta);
            let mut step = Step {
                delta: delta.0,
                fixed: 0,
                input: 0,
                carried: 0,
                read: read.0,
                memory: 0,
                profiler: 0,
                opens: false,
                act: act.act,
            };
            let in_memory_calls = overlap(&memory, &mut memory_at, clock, act.at).0;
            if let Act::Launch { .. } = act.act {
                (step.fixed, step.input) = late.fixed(act.at, delta - read);
                step.opens = opens.at_launch(act.at);
                let rest = before.filter(|b| act.operation.is_none_or(|o| o.event != b.event)).map(|b| b.end - clock);
                step.carried =
                    (rest.unwrap_or(Ns(0)).min(delta) - read).0.clamp(0, step.delta - step.fixed - step.read);
                let in_profiler = gaps.profiler.binary_search_by_key(&act.at, |p| p.0);
                step.profiler = in_profiler.map_or(0, |i| gaps.profiler[i].1.0.min(step.own()));
                before = act.operation;
            }
            step.memory = in_memory_calls.min(step.own() - step.profiler).max(0);
            if let Act::Wait { at_boundary: true, .. } = act.act {
                opens.pending = true;
            }
            clock = clock.max(act.until.unwrap_or(act.at));
            self.steps.push(step);
        }
    }

    /// All launches, in a list with room for more acts.
    fn launches(&mut self, recording: &Recording<'_>, more: usize) -> Vec<Timed> {
        let mut calls: Vec<(Ns, EventId, u32)> = recording
            .gpu
            .iter()
            .enumerate()
            .filter_map(|(i, g)| recording.launch(g).map(|l| (l.start, l.call, i as u32)))
            .collect();
        calls.sort_unstable();
        let by_call = || calls.chunk_by(|a, b| a.1 == b.1);
        let mut acts = Vec::with_capacity(by_call().count() + more);
        self.launched.reserve_exact(calls.len());
        for call in by_call() {
            let from = self.launched.len() as u32;
            self.launched.extend(call.iter().map(|c| c.2));
            let act = Act::Launch { from, to: self.launched.len() as u32 };
            acts.push(Timed { at: call[0].0, until: None, act, operation: Operation::around(recording, call[0].1) });
        }
        acts
    }
}

/// Something the host does, with its time.
struct Timed {
    at: Ns,
    until: Option<Ns>,
    act: Act,
    operation: Option<Operation>,
}

/// The outermost of the operations directly around a launch.
#[derive(Debug, Clone, Copy)]
struct Operation {
    event: EventId,
    end: Ns,
}

impl Operation {
    fn around(recording: &Recording<'_>, call: EventId) -> Option<Self> {
        let is_op = |e: &EventId| recording.trace.kind(*e) == EventKind::CpuOp;
        let event = recording.tree.ancestors(call).take_while(is_op).last()?;
        Some(Self { event, end: recording.trace.end(event)? })
    }
}

/// GPU events with what they wait for, and the gap within GPU graphs.
fn works(recording: &Recording<'_>, first_calls: &FirstCalls) -> (Vec<Work>, i64) {
    let gpu = &recording.gpu;
    let origin = recording.extent.0;
    let mut by_end: Vec<u32> = (0..gpu.len() as u32).collect();
    by_end.sort_unstable_by_key(|&i| (gpu[i as usize].end, i));
    let mut ended = 0;
    let mut on_stream: Vec<u32> = vec![NONE; recording.trace.tracks().len()];
    let mut works = Vec::with_capacity(gpu.len());
    let (mut gaps, mut latencies) = (Vec::new(), Vec::new());
    for (i, g) in gpu.iter().enumerate() {
        while by_end.get(ended).is_some_and(|&e| gpu[e as usize].end <= g.start) {
            ended += 1;
        }
        let mut after = if ended == 0 { NONE } else { by_end[ended - 1] };
        let stream = &mut on_stream[g.stream.index()];
        let mut follows = std::mem::replace(stream, i as u32);
        if follows != NONE && gpu[follows as usize].end > g.start {
            if on_heels(&gpu[follows as usize], g) {
                after = follows;
            }
            follows = NONE;
        }
        let between = |from: Ns, to: Ns| (to - from - first_calls.at_start_within(from, to)).0;
        let gap = if after == NONE { 0 } else { between(gpu[after as usize].end, g.start) };
        let launch = recording.launch(g);
        let latency = launch.map_or(0, |l| between(l.start, g.start));
        let call = launch.map_or(0, |l| u32::try_from(between(l.start, l.end).max(0)).unwrap_or(u32::MAX));
        let (start, end, linked) = ((g.start - origin).0, (g.end - origin).0, launch.is_some());
        let work = Work { start, end, after, follows, gap, latency, call, linked };
        if linked && work.is_late() {
            latencies.push(latency);
        } else if latency > gap + SURELY_QUEUED && (0..LONGEST_QUEUE_GAP).contains(&gap) {
            gaps.push(gap);
        }
        works.push(work);
    }
    let queue_gap = median(&mut gaps).unwrap_or(USUAL_QUEUE_GAP);
    let usual = median(&mut latencies).unwrap_or(USUAL_LATENCY);
    for work in works.iter_mut().filter(|w| w.after != NONE && w.linked) {
        // What the recording does not show is what is usual in it, but never more than what it leaves room for.
        if work.is_late() {
            work.gap = work.gap.min(queue_gap);
        } else {
            work.latency = work.latency.min(usual);
        }
    }
    (works, queue_gap.min(GRAPH_GAP))
}

/// Whether a GPU event starts while the one before it on its stream comes to its end: a launch may be allowed to, so that
/// what it prepares is ready by then.
fn on_heels(before: &GpuEvent, g: &GpuEvent) -> bool {
    (before.end - g.start).0 <= (before.end - before.start).0 / 2
}

impl Work {
    /// Whether its launch came after what it follows had ended.
    fn is_late(&self) -> bool {
        self.latency < self.gap || self.after == NONE
    }
}

fn median(values: &mut [i64]) -> Option<i64> {
    let middle = values.len() / 2;
    (values.len() >= SAMPLES).then(|| *values.select_nth_unstable(middle).1)
}

/// GPU events by their end.
struct ByEnd<'a> {
    works: &'a [Work],
    order: Vec<u32>,
}

impl<'a> ByEnd<'a> {
    fn of(works: &'a [Work]) -> Self {
        let mut order: Vec<u32> = (0..works.len() as u32).collect();
        order.sort_unstable_by_key(|&i| (works[i as usize].end, i));
        Self { works, order }
    }

    /// Those that had ended by a time, in the order in which they did.
    fn ended_by(&self, time: i64) -> impl DoubleEndedIterator<Item = (i64, u32)> {
        let until = self.order.partition_point(|&i| self.end_of(i) <= time);
        self.order[..until].iter().map(|&i| (self.end_of(i), i))
    }

    fn end_of(&self, work: u32) -> i64 {
        self.works[work as usize].end
    }

    /// What held a wait up: the GPU event launched before it that ended last before it returned, if it was not over
    /// when the wait began.
    fn awaited(&self, recording: &Recording<'_>, wait: &Wait) -> Option<(i64, u32)> {
        // Launches of other threads may have ended in between; a few of them at most.
        const TRIES: usize = 64;
        let origin = recording.extent.0;
        let launched_before =
            |i: u32| recording.launch(&recording.gpu[i as usize]).is_some_and(|l| l.start <= wait.start);
        let ended = self.ended_by((wait.end + CLOCK_SLACK - origin).0);
        let last = ended.rev().take(TRIES).find(|e| launched_before(e.1));
        last.filter(|e| e.0 > (wait.start - origin).0)
    }
}

/// The threads that launch, in order.
fn launching(recording: &Recording<'_>) -> Vec<TrackId> {
    let mut tracks: Vec<TrackId> =
        recording.gpu.iter().filter_map(|g| Some(recording.trace.track_id(recording.launch(g)?.call))).collect();
    tracks.sort_unstable();
    tracks.dedup();
    tracks
}

/// Spans of calls that get or give back memory in threads that launch.
fn memory_calls(recording: &Recording<'_>) -> Vec<(Ns, Ns)> {
    let tracks = launching(recording);
    let calls = tracks.into_iter().flat_map(|track| recording.allocations.of(track));
    let mut spans: Vec<(Ns, Ns)> = calls.map(|&(_, from, to)| (from, to)).collect();
    spans.sort_unstable();
    spans
}

/// The waits that hold the host up, with what they wait for.
fn waits(recording: &Recording<'_>, works: &ByEnd<'_>) -> Vec<Timed> {
    let tracks = launching(recording);
    let mut waits: Vec<_> = recording.waits.iter().filter(|w| tracks.binary_search(&w.track).is_ok()).collect();
    waits.sort_unstable_by_key(|w| (w.start, w.event));
    let mut free = Ns(i64::MIN);
    let held_up = |w: &Wait| {
        // While another thread launches, the host is not held up.
        let inside = recording.launches.partition_point(|&l| l <= w.start);
        let launches_go_on = recording.launches.get(inside).is_some_and(|&l| l < w.end);
        if launches_go_on || w.start < free {
            return None;
        }
        free = w.end;
        let origin = recording.extent.0;
        let awaited = match w.awaited {
            Some(i) => Some((works.end_of(i), i)),
            None => works.awaited(recording, w),
        };
        let back = awaited.map_or(0, |e| (w.end - origin).0 - e.0);
        let awaited = awaited.map_or(NONE, |e| e.1);
        let (at_boundary, copy) = (w.at_boundary, w.copy);
        let to_device = copy && recording.gpu.get(awaited as usize).is_some_and(|g| is_to_device(recording.trace, g));
        let act = Act::Wait { length: (w.end - w.start).0, awaited, back, at_boundary, copy, to_device };
        Some(Timed { at: w.start, until: Some(w.end), act, operation: None })
    };
    waits.into_iter().filter_map(held_up).collect()
}

/// The launching calls that the full queue holds up, with what they wait for.
fn blocked(recording: &Recording<'_>, works: &ByEnd<'_>) -> Vec<Timed> {
    let origin = recording.extent.0;
    let queued = |l: &Launch, g: &GpuEvent| {
        let surely = g.start - l.end > Ns(SURELY_QUEUED);
        g.work != GpuWork::Memcpy && surely && l.end - l.start > LONGEST_CALL
    };
    let mut calls: Vec<Launch> = Vec::new();
    for g in &recording.gpu {
        // A graph launches thousands with one call, one after another.
        let new = |l: &Launch| calls.last().is_none_or(|last| last.call != l.call) && queued(l, g);
        let found = recording.launch(g).filter(new);
        calls.extend(found);
    }
    calls.sort_unstable_by_key(|l| (l.start, l.call));
    calls.dedup_by_key(|l| l.call);
    let act = |l: Launch| {
        let start = l.start + USUAL_CALL;
        let ended = works.ended_by((l.end - origin).0).next_back().filter(|e| e.0 > (start - origin).0);
        let (awaited, back) = ended.map_or((NONE, 0), |(end, work)| (work, (l.end - origin).0 - end));
        let act = Act::Blocked { length: (l.end - start).0, awaited, back };
        Timed { at: start, until: Some(l.end), act, operation: None }
    };
    calls.into_iter().map(act).collect()
}

/// Spans of operations that only read a value in the middle of a step, without the waits in them.
fn reads(recording: &Recording<'_>) -> Vec<(Ns, Ns)> {
    let mut spans: Vec<(Ns, Ns)> = Vec::new();
    for wait in recording.waits.iter().filter(|w| !w.at_boundary) {
        let operation = recording.operation_around(wait.event);
        if let (true, Some(start), Some(end)) =
            (recording.is_read(operation), recording.trace.ts(operation), recording.trace.end(operation))
        {
            spans.push((start, wait.start));
            spans.push((wait.end, end));
        }
    }
    spans.retain(|s| s.0 < s.1);
    spans.sort_unstable();
    spans
}

/// Time of spans in order that lies in `[from, to]`; `at` moves along with calls in order.
fn overlap(spans: &[(Ns, Ns)], at: &mut usize, from: Ns, to: Ns) -> Ns {
    while spans.get(*at).is_some_and(|s| s.1 <= from) {
        *at += 1;
    }
    let (mut sum, mut until) = (Ns(0), from);
    for &(start, end) in spans[*at..].iter().take_while(|s| s.0 < to) {
        let (start, end) = (start.max(until), end.min(to));
        if start < end {
            sum = sum + (end - start);
            until = end;
        }
    }
    sum
}

/// Which launch is the first of a step.
struct StepStarts<'a> {
    steps: &'a [(Ns, Ns)],
    next: usize,
    pending: bool,
}

impl StepStarts<'_> {
    fn at_launch(&mut self, at: Ns) -> bool {
        while self.steps.get(self.next).is_some_and(|s| s.0 <= at) {
            self.next += 1;
            self.pending = true;
        }
        std::mem::replace(&mut self.pending, false)
    }
}

/// Late launches whose time faster launching does not shorten.
struct LateLaunches {
    /// Start of the launch, time it can't shorten, of it time on input; in order.
    list: Vec<(Ns, Ns, Ns)>,
}

impl LateLaunches {
    fn of(recording: &Recording<'_>, gaps: &Gaps) -> Self {
        let mut list = Vec::new();
        let mut input = gaps.input.iter().copied();
        for gap in &gaps.gaps {
            let at = recording.extent.0 + gap.start + gap.late_by;
            match gap.class {
                GapClass::HostData => {
                    let input = input.next().unwrap_or_default();
                    list.push((at, input, input));
                }
                // What the capture has at its edges is no launch that could be faster.
                GapClass::Edge => list.push((at, gap.late_by, Ns(0))),
                GapClass::HostIdle if gap.late_by >= UNEXPLAINED => list.push((at, gap.late_by, Ns(0))),
                _ => {}
            }
        }
        Self { list }
    }

    fn fixed(&self, launch: Ns, most: Ns) -> (i64, i64) {
        match self.list.binary_search_by_key(&launch, |l| l.0) {
            Ok(i) => (self.list[i].1.min(most).0, self.list[i].2.min(most).0),
            Err(_) => (0, 0),
        }
    }
}

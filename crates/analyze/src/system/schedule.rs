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

use jarvis_trace::{EventId, Ns, TrackId};

use super::gaps::{GapClass, Gaps};
use super::recording::{Recording, Wait};

const NONE: u32 = u32::MAX;

/// Time between the start of a launching call and the start of its kernel on an idle GPU, where the trace has too few
/// to tell: 8 to 12 µs were seen on every machine at hand.
const USUAL_LATENCY: i64 = 8_000;

/// Time between kernels that had been queued, where the trace has too few to tell: 1.0 to 1.6 µs were seen.
const USUAL_QUEUE_GAP: i64 = 1_500;

/// The same within a replayed GPU graph at most: 0.3 to 0.8 µs were seen.
const GRAPH_GAP: i64 = 800;

/// Longer gaps between queued kernels are waits of the device and stay.
const LONGEST_QUEUE_GAP: i64 = 10_000;

/// A kernel launched this long before it could start had surely been queued.
const SURELY_QUEUED: i64 = 20_000;

/// Fewer samples than this tell nothing typical.
const SAMPLES: usize = 10;

/// Late launches that nothing recorded explains are left alone by faster launching if they are longer than this.
const UNEXPLAINED: Ns = Ns(1_000_000);

/// A wait may end this short before the last GPU event it waited for, by the clocks of host and GPU.
const CLOCK_SLACK: Ns = Ns(1_000);

/// A GPU event. Times are from the first GPU event on, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Work {
    start: i64,
    end: i64,
    /// The GPU event that ended last before it started.
    after: u32,
    /// The one before it on its stream.
    follows: u32,
    /// Time after `after`.
    gap: i64,
    /// Time after its launch.
    latency: i64,
    /// How long the launching call took: the part of the latency that the profiler slows down.
    call: i64,
    /// Whether its launch was recorded.
    linked: bool,
}

/// Something the host does, with the time since the thing before.
#[derive(Debug, Clone, Copy)]
struct Step {
    delta: i64,
    /// Of it: time that faster launching does not shorten.
    fixed: i64,
    /// Of that: time spent on input.
    input: i64,
    /// Of `delta`: time in operations that read a value off the GPU in the middle of a step.
    read: i64,
    /// Whether it is the first launch of a step.
    opens: bool,
    act: Act,
}

#[derive(Debug, Clone, Copy)]
enum Act {
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
    },
}

/// Which waits of the host are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Without {
    /// None.
    #[default]
    Nothing,
    /// Those in the middle of a step, with the operations that only read a value.
    MidStepWaits,
    /// Those for copies.
    Copies,
    /// The time spent on input.
    Input,
}

/// What is changed when the schedule is run again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario<'a> {
    /// How many times slower the profiler made the host: its time is divided by this.
    pub(crate) profiler: f64,
    /// What is left of the host's own time between launches.
    pub(crate) host: f64,
    /// Whether all launches of a step are issued at once, as a GPU graph does.
    pub(crate) graph: bool,
    /// What the host no longer does.
    pub(crate) without: Without,
    /// By how many nanoseconds each GPU event is shorter.
    pub(crate) shorter: Option<&'a [i64]>,
    /// Which GPU events are no longer launched at all.
    pub(crate) dropped: Option<&'a [bool]>,
}

impl Scenario<'_> {
    /// As recorded.
    pub(crate) const RECORDED: Self =
        Self { profiler: 1.0, host: 1.0, graph: false, without: Without::Nothing, shorter: None, dropped: None };
}

/// The recorded schedule.
#[derive(Debug, Clone, Default)]
pub(crate) struct Schedule {
    works: Vec<Work>,
    steps: Vec<Step>,
    launched: Vec<u32>,
    /// UIDs of the GPU events with their positions, in order.
    uids: Vec<(u32, u32)>,
    graph_gap: i64,
    /// When the host does the first thing.
    host_start: i64,
}

impl Schedule {
    pub(crate) fn of(recording: &Recording<'_>, gaps: &Gaps) -> Self {
        let (works, graph_gap) = works(recording);
        let mut uids: Vec<(u32, u32)> =
            recording.gpu.iter().enumerate().map(|(i, g)| (g.event.uid(), i as u32)).collect();
        uids.sort_unstable();
        let mut schedule = Self { works, uids, graph_gap, ..Self::default() };
        schedule.add_steps(recording, gaps);
        schedule
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

    /// Position of the GPU event with this UID.
    pub(crate) fn position(&self, uid: u32) -> Option<usize> {
        self.uids.binary_search_by_key(&uid, |u| u.0).ok().map(|i| self.uids[i].1 as usize)
    }

    /// How long the GPU event at a position took.
    pub(crate) fn length(&self, position: usize) -> i64 {
        self.works[position].end - self.works[position].start
    }

    fn add_steps(&mut self, recording: &Recording<'_>, gaps: &Gaps) {
        let mut acts = self.launches(recording);
        let works = ByEnd::of(&self.works);
        acts.extend(waits(recording, &works));
        // A call that launches a copy and waits for it launches first.
        acts.sort_by_key(|a| (a.at, a.until.is_some()));
        let late = LateLaunches::of(recording, gaps);
        let reads = reads(recording);
        let mut read_at = 0;
        let mut opens = StepStarts { steps: &recording.steps, next: 0, pending: true };
        let mut clock = acts.first().map_or(recording.extent.0, |a| a.at);
        self.host_start = (clock - recording.extent.0).0;
        for act in acts {
            let delta = (act.at - clock).max(Ns(0));
            let mut step = Step { delta: delta.0, fixed: 0, input: 0, read: 0, opens: false, act: act.act };
            step.read = overlap(&reads, &mut read_at, clock, act.at).0;
            if let Act::Launch { .. } = act.act {
                (step.fixed, step.input) = late.fixed(act.at, delta - Ns(step.read));
                step.opens = opens.at_launch(act.at);
            }
            if let Act::Wait { at_boundary: true, .. } = act.act {
                opens.pending = true;
            }
            clock = clock.max(act.until.unwrap_or(act.at));
            self.steps.push(step);
        }
    }

    fn launches(&mut self, recording: &Recording<'_>) -> Vec<Timed> {
        let mut calls: Vec<(Ns, EventId, u32)> = recording
            .gpu
            .iter()
            .enumerate()
            .filter_map(|(i, g)| g.launch.map(|l| (l.start, l.call, i as u32)))
            .collect();
        calls.sort_unstable();
        let mut acts = Vec::new();
        for call in calls.chunk_by(|a, b| a.1 == b.1) {
            let from = self.launched.len() as u32;
            self.launched.extend(call.iter().map(|c| c.2));
            let act = Act::Launch { from, to: self.launched.len() as u32 };
            acts.push(Timed { at: call[0].0, until: None, act });
        }
        acts
    }

    /// How long the window is if the schedule is run under a scenario.
    pub(crate) fn run(&self, scenario: &Scenario<'_>) -> Ns {
        Run::new(self, scenario).finish()
    }
}

/// Something the host does, with its time.
struct Timed {
    at: Ns,
    until: Option<Ns>,
    act: Act,
}

/// GPU events with what they wait for, and the gap within GPU graphs.
fn works(recording: &Recording<'_>) -> (Vec<Work>, i64) {
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
        let after = if ended == 0 { NONE } else { by_end[ended - 1] };
        let stream = &mut on_stream[g.stream.index()];
        let follows = std::mem::replace(stream, i as u32);
        let follows = if follows != NONE && gpu[follows as usize].end <= g.start { follows } else { NONE };
        let gap = if after == NONE { 0 } else { (g.start - gpu[after as usize].end).0 };
        let latency = g.launch.map_or(0, |l| (g.start - l.start).0);
        let call = g.launch.map_or(0, |l| (l.end - l.start).0);
        let (start, end, linked) = ((g.start - origin).0, (g.end - origin).0, g.launch.is_some());
        let work = Work { start, end, after, follows, gap, latency, call, linked };
        if linked && work.is_late() {
            latencies.push(latency);
        } else if latency > gap + SURELY_QUEUED && gap < LONGEST_QUEUE_GAP {
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
    ends: Vec<(i64, u32)>,
}

impl<'a> ByEnd<'a> {
    fn of(works: &'a [Work]) -> Self {
        let mut ends: Vec<(i64, u32)> = works.iter().enumerate().map(|(i, w)| (w.end, i as u32)).collect();
        ends.sort_unstable();
        Self { works, ends }
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
        let until = self.ends.partition_point(|e| e.0 <= (wait.end + CLOCK_SLACK - origin).0);
        let launched_before = |i: u32| recording.gpu[i as usize].launch.is_some_and(|l| l.start <= wait.start);
        let last = self.ends[..until].iter().rev().take(TRIES).find(|e| launched_before(e.1));
        last.copied().filter(|e| e.0 > (wait.start - origin).0)
    }
}

/// The waits that hold the host up, with what they wait for.
fn waits(recording: &Recording<'_>, works: &ByEnd<'_>) -> Vec<Timed> {
    let mut tracks: Vec<TrackId> =
        recording.gpu.iter().filter_map(|g| Some(recording.trace.track_id(g.launch?.call))).collect();
    tracks.sort_unstable();
    tracks.dedup();
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
        let act = Act::Wait { length: (w.end - w.start).0, awaited, back, at_boundary, copy };
        Some(Timed { at: w.start, until: Some(w.end), act })
    };
    waits.into_iter().filter_map(held_up).collect()
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
        for gap in &gaps.gaps {
            let at = recording.extent.0 + gap.start + gap.late_by;
            match gap.class {
                GapClass::HostData => list.push((at, gap.input, gap.input)),
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

/// The schedule while it runs.
struct Run<'a> {
    schedule: &'a Schedule,
    scenario: &'a Scenario<'a>,
    /// When each GPU event is launched; `NOT_YET` before.
    issued: Vec<i64>,
    ends: Vec<i64>,
    /// How many GPU events have run, in their order.
    done: usize,
    host: i64,
    first: i64,
    last: i64,
}

const NOT_YET: i64 = i64::MIN;

impl<'a> Run<'a> {
    fn new(schedule: &'a Schedule, scenario: &'a Scenario<'a>) -> Self {
        let count = schedule.works.len();
        Self {
            schedule,
            scenario,
            issued: vec![NOT_YET; count],
            ends: vec![0; count],
            done: 0,
            host: schedule.host_start,
            first: i64::MAX,
            last: i64::MIN,
        }
    }

    fn finish(mut self) -> Ns {
        for step in &self.schedule.steps {
            self.host += self.host_time(step);
            match step.act {
                Act::Launch { from, to } => {
                    for &work in &self.schedule.launched[from as usize..to as usize] {
                        self.issued[work as usize] = self.host;
                    }
                    self.advance();
                }
                Act::Wait { length, awaited, back, at_boundary, copy } => {
                    let left_out = match self.scenario.without {
                        Without::MidStepWaits => !at_boundary && !copy,
                        Without::Copies => copy,
                        Without::Nothing | Without::Input => false,
                    };
                    if !left_out {
                        self.wait(length, awaited, back);
                    }
                }
            }
        }
        self.advance();
        debug_assert_eq!(self.done, self.schedule.works.len(), "every GPU event runs");
        Ns(self.last.saturating_sub(self.first).max(0))
    }

    /// Host time under the profiler as it would be without, to the nearest nanosecond. (`round` is a call on machines
    /// without the instruction; this is not, and takes half the time of a run.)
    fn scaled(&self, time: f64) -> i64 {
        let time = time / self.scenario.profiler;
        (if time < 0.0 { time - 0.5 } else { time + 0.5 }) as i64
    }

    /// Host time before a step.
    fn host_time(&self, step: &Step) -> i64 {
        let s = self.scenario;
        let at_boundary = matches!(step.act, Act::Wait { at_boundary: true, .. });
        let at_once = s.graph && !step.opens && !at_boundary;
        let factor = if at_once || self.drops(step) { 0.0 } else { s.host };
        let own = (step.delta - step.fixed - step.read) as f64 * factor;
        let read = if s.without == Without::MidStepWaits { 0 } else { step.read };
        let fixed = if s.without == Without::Input { step.fixed - step.input } else { step.fixed };
        self.scaled(own + read as f64) + fixed
    }

    fn drops(&self, step: &Step) -> bool {
        let (Some(dropped), Act::Launch { from, to }) = (self.scenario.dropped, step.act) else { return false };
        self.schedule.launched[from as usize..to as usize].iter().all(|&w| dropped[w as usize])
    }

    fn wait(&mut self, length: i64, awaited: u32, back: i64) {
        if awaited == NONE {
            self.host += self.scaled(length as f64);
        } else if (awaited as usize) < self.done {
            self.host = self.host.max(self.ends[awaited as usize] + self.scaled(back as f64));
        } else {
            // Kernels ran in another order than they were launched in: the wait stays as long as it was.
            self.host += length;
        }
    }

    /// Runs the GPU events that can run, in their order.
    fn advance(&mut self) {
        while let Some(work) = self.schedule.works.get(self.done) {
            let issued = self.issued[self.done];
            if work.linked && issued == NOT_YET {
                break;
            }
            let dropped = self.scenario.dropped.is_some_and(|d| d[self.done]);
            let mut start = NOT_YET;
            if work.after != NONE {
                let short = self.scenario.graph && work.gap < LONGEST_QUEUE_GAP;
                let gap = if short { work.gap.min(self.schedule.graph_gap) } else { work.gap };
                start = self.ends[work.after as usize] + if dropped { 0 } else { gap };
            }
            if work.follows != NONE {
                start = start.max(self.ends[work.follows as usize]);
            }
            if work.linked && !(dropped && start > NOT_YET) {
                let in_call = work.latency.min(work.call).max(0);
                start = start.max(issued + self.scaled(in_call as f64) + work.latency - in_call);
            }
            if start == NOT_YET {
                start = work.start;
            }
            let mut end = start;
            if !dropped {
                end += work.end - work.start - self.scenario.shorter.map_or(0, |s| s[self.done]);
                self.first = self.first.min(start);
                self.last = self.last.max(end);
            }
            self.ends[self.done] = end;
            self.done += 1;
        }
    }
}

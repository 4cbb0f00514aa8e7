//! Runs the recorded schedule again with one thing changed; [`super::schedule`] says how.

use jarvis_trace::Ns;

use super::schedule::{Act, LONGEST_QUEUE_GAP, NONE, Schedule, Step};

/// Which waits of the host are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Without {
    /// None.
    #[default]
    Nothing,
    /// Those in the middle of a step.
    MidStepWaits,
    /// The same with the operations that only read a value.
    Reads,
    /// Those for copies.
    Copies,
    /// The time spent on input.
    Input,
    /// The same with waits for copies of input to the device.
    InputAndCopies,
}

impl Without {
    fn is_input(self) -> bool {
        matches!(self, Self::Input | Self::InputAndCopies)
    }
}

/// What becomes of a GPU event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Fate {
    /// It stays.
    #[default]
    Stays,
    /// Something takes its place that the host does not wait for.
    Replaced,
    /// It is no longer launched.
    Gone,
    /// It is no longer launched, but the call that does its work instead takes a part of its host time.
    Merged,
}

impl Fate {
    /// Whether it is not launched any more.
    fn is_gone(self) -> bool {
        matches!(self, Self::Gone | Self::Merged)
    }
}

/// What is changed when the schedule is run again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario<'a> {
    /// What is left of the host's own time between launches.
    pub(crate) host: f64,
    /// Whether all launches of a step are issued at once, as a GPU graph does.
    pub(crate) graph: bool,
    /// What the host no longer does.
    pub(crate) without: Without,
    /// By how many nanoseconds each GPU event is shorter.
    pub(crate) shorter: Option<&'a [i64]>,
    /// What becomes of each GPU event.
    pub(crate) fates: Option<&'a [Fate]>,
    /// Share of the host time of merged launches that is still spent.
    pub(crate) left_behind: f64,
    /// Host time in nanoseconds that comes on top before the launch of each GPU event, by a host that nothing slows.
    pub(crate) added: Option<&'a [i64]>,
    /// Host time in nanoseconds, as recorded, that no longer comes before the launch of each GPU event.
    pub(crate) spared: Option<&'a [i64]>,
}

impl Scenario<'_> {
    /// As recorded.
    pub(crate) const RECORDED: Self = Self {
        host: 1.0,
        graph: false,
        without: Without::Nothing,
        shorter: None,
        fates: None,
        left_behind: 0.0,
        added: None,
        spared: None,
    };

    fn fate(&self, work: usize) -> Fate {
        self.fates.map_or(Fate::Stays, |f| f[work])
    }
}

impl Schedule {
    /// How long the window is if the schedule is run under a scenario, for each guess at how many times slower the
    /// profiler made the host: its time is divided by that.
    pub(crate) fn run<const N: usize>(&self, scenario: &Scenario<'_>, profiler: [f64; N]) -> [Ns; N] {
        Run::new(self, scenario, profiler).finish()
    }
}

/// The schedule while it runs, for all guesses side by side: what happens next never depends on when it happens.
struct Run<'a, const N: usize> {
    schedule: &'a Schedule,
    scenario: &'a Scenario<'a>,
    profiler: [f64; N],
    /// When each GPU event ended or, before it has run, was launched; `NOT_YET` before that. One list for both: what runs
    /// needs the ends of those before it and its own launch, and the list is as long as the trace.
    times: Vec<[i64; N]>,
    /// How many GPU events have run, in their order.
    done: usize,
    host: [i64; N],
    first: [i64; N],
    last: [i64; N],
    /// The first and the last launch.
    issuing: Option<([i64; N], [i64; N])>,
    /// How long the full queue has held the host up.
    blocked: [i64; N],
    /// What became of the last launch: waits for one that is gone or replaced go with it.
    last_fate: Fate,
}

const NOT_YET: i64 = i64::MIN;

impl<'a, const N: usize> Run<'a, N> {
    fn new(schedule: &'a Schedule, scenario: &'a Scenario<'a>, profiler: [f64; N]) -> Self {
        let count = schedule.works.len();
        Self {
            schedule,
            scenario,
            profiler,
            times: vec![[NOT_YET; N]; count],
            done: 0,
            host: [schedule.host_start; N],
            first: [i64::MAX; N],
            last: [i64::MIN; N],
            issuing: None,
            blocked: [0; N],
            last_fate: Fate::Stays,
        }
    }

    fn finish(mut self) -> [Ns; N] {
        for step in &self.schedule.steps {
            match step.act {
                Act::Launch { from, to } => {
                    let launched = &self.schedule.launched[from as usize..to as usize];
                    let fate = self.fate_of(launched);
                    let spared = launched.first().map_or(0, |&w| self.scenario.spared.map_or(0, |s| s[w as usize]));
                    self.pass(self.before_launch(step, fate, spared));
                    self.last_fate = fate;
                    for &work in launched {
                        self.pass([self.scenario.added.map_or(0, |a| a[work as usize]); N]);
                        self.times[work as usize] = self.host;
                    }
                    if !fate.is_gone() {
                        let first = self.issuing.map_or(self.host, |(first, _)| first);
                        self.issuing = Some((first, self.host));
                    }
                    self.advance();
                }
                Act::Wait { length, awaited, back, at_boundary, copy, to_device } => {
                    // What waits for a launch that is not there goes with it.
                    if self.last_fate != Fate::Stays && !at_boundary {
                        continue;
                    }
                    self.pass(self.before_wait(step, at_boundary));
                    let left_out = match self.scenario.without {
                        Without::MidStepWaits | Without::Reads => !at_boundary && !copy,
                        Without::Copies => copy,
                        Without::InputAndCopies => to_device,
                        Without::Nothing | Without::Input => false,
                    };
                    if !left_out {
                        self.wait(length, awaited, back);
                    }
                }
                Act::Blocked { length, awaited, back } => {
                    self.pass(self.before_wait(step, false));
                    // All of a step that is issued at once is one launch.
                    if !self.scenario.graph {
                        self.wait_for_room(length, awaited, back);
                    }
                }
            }
        }
        self.advance();
        debug_assert_eq!(self.done, self.schedule.works.len(), "every GPU event runs");
        let least = self.least();
        std::array::from_fn(|n| Ns(self.last[n].saturating_sub(self.first[n]).max(least[n]).max(0)))
    }

    /// What the window takes at least. Where the GPU begins it with a queue of earlier work, the host has issued much of
    /// it before; but step after step it can't take less than it takes to issue, waits for room in the queue left out. No
    /// change makes it longer than it was.
    fn least(&self) -> [i64; N] {
        let Some((first, last)) = self.issuing.filter(|_| self.schedule.begins_queued()) else { return [0; N] };
        let recorded = self.schedule.window().0;
        std::array::from_fn(|n| (last[n] - first[n] - self.blocked[n]).min(recorded))
    }

    /// Lets time of the host pass.
    fn pass(&mut self, time: [i64; N]) {
        for (host, time) in self.host.iter_mut().zip(time) {
            *host += time;
        }
    }

    /// What becomes of a call that launches several GPU events: it is gone if they all are.
    fn fate_of(&self, launched: &[u32]) -> Fate {
        let fates = || launched.iter().map(|&w| self.scenario.fate(w as usize));
        if fates().all(Fate::is_gone) {
            launched.first().map_or(Fate::Gone, |&w| self.scenario.fate(w as usize))
        } else {
            fates().find(|&f| f == Fate::Replaced).unwrap_or(Fate::Stays)
        }
    }

    /// Host time under the profiler as it would be without, to the nearest nanosecond. (`round` is a call on machines
    /// without the instruction; this is not, and takes half the time of a run.)
    fn scaled(&self, time: f64) -> [i64; N] {
        let mut scaled = [0; N];
        for (scaled, profiler) in scaled.iter_mut().zip(self.profiler) {
            let time = time / profiler;
            *scaled = (if time < 0.0 { time - 0.5 } else { time + 0.5 }) as i64;
        }
        scaled
    }

    /// Host time before a launch. A launch that is not there takes the time of its operation along: what is left is the
    /// rest of the operation before, if that is there.
    fn before_launch(&self, step: &Step, fate: Fate, spared: i64) -> [i64; N] {
        let s = self.scenario;
        let factor = if s.graph && !step.opens { 0.0 } else { s.host };
        let share = |fate: Fate| match fate {
            Fate::Stays | Fate::Replaced => 1.0,
            Fate::Gone => 0.0,
            Fate::Merged => s.left_behind,
        };
        let before = step.carried as f64 * share(self.last_fate);
        let own = (step.own() - spared) as f64 * share(fate);
        let read = if s.without == Without::Reads || self.last_fate != Fate::Stays { 0 } else { step.read };
        let fixed = if s.without.is_input() { step.fixed - step.input } else { step.fixed };
        let profiler = (step.profiler as f64 * share(fate)).min(own);
        let memory = (step.memory as f64 * share(fate)).min(own - profiler);
        let mut time = self.scaled((before + own - profiler - memory) * factor + read as f64);
        // A captured step has its memory.
        let memory = if s.graph && !step.opens { 0 } else { memory as i64 };
        for (time, slower) in time.iter_mut().zip(self.profiler) {
            // Without it there is nothing to end one step and begin the next.
            let between_steps = if slower > 1.0 { 0 } else { profiler as i64 };
            *time += fixed + memory + between_steps;
        }
        time
    }

    fn before_wait(&self, step: &Step, at_boundary: bool) -> [i64; N] {
        let s = self.scenario;
        let factor = if s.graph && !at_boundary { 0.0 } else { s.host };
        let read = if s.without == Without::Reads { 0 } else { step.read };
        let memory = if s.graph && !at_boundary { 0 } else { step.memory };
        let time = self.scaled((step.delta - step.read - step.memory) as f64 * factor + read as f64);
        time.map(|time| time + memory)
    }

    fn wait(&mut self, length: i64, awaited: u32, back: i64) {
        if awaited == NONE {
            self.pass(self.scaled(length as f64));
        } else if (awaited as usize) < self.done {
            let (ends, back) = (self.times[awaited as usize], self.scaled(back as f64));
            for n in 0..N {
                self.host[n] = self.host[n].max(ends[n] + back[n]);
            }
        } else {
            // Kernels ran in another order than they were launched in: the wait stays as long as it was.
            self.pass([length; N]);
        }
    }

    /// The host goes on when a GPU event has ended, or as recorded when it was one from before the window.
    fn wait_for_room(&mut self, length: i64, awaited: u32, back: i64) {
        let since = self.host;
        if (awaited as usize) < self.done {
            for (host, end) in self.host.iter_mut().zip(self.times[awaited as usize]) {
                *host = (*host).max(end + back);
            }
        } else {
            self.pass([length; N]);
        }
        for ((blocked, host), since) in self.blocked.iter_mut().zip(self.host).zip(since) {
            *blocked += host - since;
        }
    }

    /// Runs the GPU events that can run, in their order.
    fn advance(&mut self) {
        while let Some(work) = self.schedule.works.get(self.done) {
            let issued = self.times[self.done];
            if work.linked && issued == [NOT_YET; N] {
                break;
            }
            let dropped = self.scenario.fate(self.done).is_gone();
            let mut start = [NOT_YET; N];
            if work.after != NONE {
                let short = self.scenario.graph && work.gap < LONGEST_QUEUE_GAP;
                let gap = if short { work.gap.min(self.schedule.graph_gap) } else { work.gap };
                // There are no heels of what is gone.
                let gap = if self.scenario.fate(work.after as usize).is_gone() { gap.max(0) } else { gap };
                let ends = &self.times[work.after as usize];
                for n in 0..N {
                    start[n] = ends[n] + if dropped { 0 } else { gap };
                }
            }
            if work.follows != NONE {
                let ends = &self.times[work.follows as usize];
                for n in 0..N {
                    start[n] = start[n].max(ends[n]);
                }
            }
            let placed = work.after != NONE || work.follows != NONE;
            if work.linked && !(dropped && placed) {
                let in_call = work.latency.min(i64::from(work.call)).max(0);
                let called = self.scaled(in_call as f64);
                for n in 0..N {
                    start[n] = start[n].max(issued[n] + called[n] + work.latency - in_call);
                }
            } else if !placed {
                start = [work.start; N];
            }
            let mut end = start;
            if !dropped {
                let length = work.end - work.start - self.scenario.shorter.map_or(0, |s| s[self.done]);
                for n in 0..N {
                    end[n] += length;
                    self.first[n] = self.first[n].min(start[n]);
                    self.last[n] = self.last[n].max(end[n]);
                }
            }
            self.times[self.done] = end;
            self.done += 1;
        }
    }
}

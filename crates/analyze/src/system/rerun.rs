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
    /// What becomes of each GPU event.
    pub(crate) fates: Option<&'a [Fate]>,
    /// Share of the host time of merged launches that is still spent.
    pub(crate) left_behind: f64,
    /// Host time in nanoseconds that comes on top before the launch of each GPU event, by a host that nothing slows.
    pub(crate) added: Option<&'a [i64]>,
}

impl Scenario<'_> {
    /// As recorded.
    pub(crate) const RECORDED: Self = Self {
        profiler: 1.0,
        host: 1.0,
        graph: false,
        without: Without::Nothing,
        shorter: None,
        fates: None,
        left_behind: 0.0,
        added: None,
    };

    fn fate(&self, work: usize) -> Fate {
        self.fates.map_or(Fate::Stays, |f| f[work])
    }
}

impl Schedule {
    /// How long the window is if the schedule is run under a scenario.
    pub(crate) fn run(&self, scenario: &Scenario<'_>) -> Ns {
        Run::new(self, scenario).finish()
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
    /// What became of the last launch: waits for one that is gone or replaced go with it.
    last_fate: Fate,
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
            last_fate: Fate::Stays,
        }
    }

    fn finish(mut self) -> Ns {
        for step in &self.schedule.steps {
            match step.act {
                Act::Launch { from, to } => {
                    let launched = &self.schedule.launched[from as usize..to as usize];
                    let fate = self.fate_of(launched);
                    self.host += self.before_launch(step, fate);
                    self.last_fate = fate;
                    for &work in launched {
                        self.host += self.scenario.added.map_or(0, |a| a[work as usize]);
                        self.issued[work as usize] = self.host;
                    }
                    self.advance();
                }
                Act::Wait { length, awaited, back, at_boundary, copy } => {
                    // What waits for a launch that is not there goes with it.
                    if self.last_fate != Fate::Stays && !at_boundary {
                        continue;
                    }
                    self.host += self.before_wait(step, at_boundary);
                    let left_out = match self.scenario.without {
                        Without::MidStepWaits | Without::Reads => !at_boundary && !copy,
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
    fn scaled(&self, time: f64) -> i64 {
        let time = time / self.scenario.profiler;
        (if time < 0.0 { time - 0.5 } else { time + 0.5 }) as i64
    }

    /// Host time before a launch. A launch that is not there takes the time of its operation along: what is left is the
    /// rest of the operation before, if that is there.
    fn before_launch(&self, step: &Step, fate: Fate) -> i64 {
        let s = self.scenario;
        let factor = if s.graph && !step.opens { 0.0 } else { s.host };
        let share = |fate: Fate| match fate {
            Fate::Stays | Fate::Replaced => 1.0,
            Fate::Gone => 0.0,
            Fate::Merged => s.left_behind,
        };
        let before = step.carried as f64 * share(self.last_fate);
        let own = step.delta - step.fixed - step.read - step.carried;
        let own = own as f64 * share(fate);
        let read = if s.without == Without::Reads || self.last_fate != Fate::Stays { 0 } else { step.read };
        let fixed = if s.without == Without::Input { step.fixed - step.input } else { step.fixed };
        self.scaled((before + own) * factor + read as f64) + fixed
    }

    fn before_wait(&self, step: &Step, at_boundary: bool) -> i64 {
        let s = self.scenario;
        let factor = if s.graph && !at_boundary { 0.0 } else { s.host };
        let read = if s.without == Without::Reads { 0 } else { step.read };
        self.scaled((step.delta - step.read) as f64 * factor + read as f64)
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
            let dropped = self.scenario.fate(self.done).is_gone();
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

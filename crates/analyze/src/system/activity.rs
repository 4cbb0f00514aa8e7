//! What the launching thread did while the GPU waited for a late launch.
//!
//! ```text
//! GPU      |-- k0 --|g0                                  |-- k1 --|
//! thread   |--- frame ----------------------------------------------|
//!               |-- op a --|  |----- op b -----|  |r|
//!                    [g0 ......................... r.start]
//! ```
//!
//! Events of a thread stand in order of start with callers first, so what was running at g0 is the chain of callers of
//! the last event that started before g0, and what started later is a run of the list. Gaps don't overlap, so each
//! event is looked at for one gap at most; what lies in an event that covers less than half of the gap is skipped.

use jarvis_trace::{EventId, EventKind, Ns, Trace, TrackId, Tree};

use super::recording::{Names, Recording};

/// The time between the end of GPU work and the late launch that ends the wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Late {
    /// Which gap.
    pub(crate) gap: usize,
    /// The launching thread.
    pub(crate) track: TrackId,
    /// End of the GPU work before.
    pub(crate) from: Ns,
    /// Start of the launching call.
    pub(crate) to: Ns,
    /// Until when the host was held up by the GPU itself; `from` if it was not.
    pub(crate) free: Ns,
}

/// What a thread did in that time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Activity {
    /// Time covered by any event.
    pub(crate) covered: Ns,
    /// Time covered by calls that get or give back memory, after the host was free.
    pub(crate) allocation: Ns,
    /// Time covered by frames that fetch or prepare input, after the host was free.
    pub(crate) input: Ns,
    /// Time in the profiler itself, between steps.
    pub(crate) profiler: Ns,
    /// The deepest event that covers more than half of it, else the outermost one that covers most.
    pub(crate) event: Option<EventId>,
}

/// Looks at every late launch. `late` has to be in order of time; the answers are in the same order.
pub(crate) fn activities(recording: &Recording<'_>, late: &[Late]) -> Vec<Activity> {
    let (trace, tree) = (recording.trace, recording.tree);
    let mut found = vec![Activity::default(); late.len()];
    let mut names = Names::new(trace);
    let mut by_track: Vec<usize> = (0..late.len()).collect();
    by_track.sort_by_key(|&i| late[i].track);
    for (track, events) in tree.thread_events() {
        let input = Spans { list: recording.input.of(track), at: 0 };
        let allocations = Spans { list: recording.allocations.of(track), at: 0 };
        let between_steps = Spans { list: recording.between_steps.of(track), at: 0 };
        let mut thread = Thread {
            trace,
            tree,
            events,
            at: 0,
            input,
            allocations,
            between_steps,
            launches: &recording.launches,
            names: &mut names,
        };
        let first = by_track.partition_point(|&i| late[i].track < track);
        for &i in by_track[first..].iter().take_while(|&&i| late[i].track == track) {
            found[i] = thread.look(&late[i]);
        }
    }
    found
}

/// A batch has no more tensors to be copied to the device.
const MOST_COPIES: usize = 8;

struct Thread<'a, 'n> {
    trace: &'a Trace,
    tree: &'a Tree,
    /// In order of start, callers first.
    events: &'a [EventId],
    /// First event that starts at or after the last gap looked at.
    at: usize,
    input: Spans<'a>,
    allocations: Spans<'a>,
    between_steps: Spans<'a>,
    /// All launches, in order.
    launches: &'a [Ns],
    names: &'n mut Names<'a>,
}

/// Spans of a thread in order of start, and how many of them are over.
struct Spans<'a> {
    list: &'a [(TrackId, Ns, Ns)],
    at: usize,
}

impl Spans<'_> {
    /// Time of them that lies in a gap, after the host was free.
    fn within(&mut self, late: &Late) -> Ns {
        while self.list.get(self.at).is_some_and(|s| s.2 <= late.from) {
            self.at += 1;
        }
        let mut union = Union::new(late.free.max(late.from), late.to);
        for &(_, start, end) in self.list[self.at..].iter().take_while(|s| s.1 < late.to) {
            union.add(start, end);
        }
        union.covered
    }
}

impl Thread<'_, '_> {
    fn start(&self, e: EventId) -> Ns {
        self.trace.ts(e).unwrap_or_default()
    }

    fn end(&self, e: EventId) -> Ns {
        self.trace.end(e).unwrap_or_default()
    }

    /// First event from a position on that starts at or after a time: found in growing strides, then by halves.
    fn first_from(&self, position: usize, time: Ns) -> usize {
        let (mut low, mut stride) = (position, 1);
        while self.events.get(low + stride).is_some_and(|&e| self.start(e) < time) {
            low += stride;
            stride *= 2;
        }
        let high = (low + stride).min(self.events.len());
        low + self.events[low..high].partition_point(|&e| self.start(e) < time)
    }

    fn look(&mut self, late: &Late) -> Activity {
        self.at = self.first_from(self.at, late.from);
        let length = late.to - late.from;
        let mut seen = Seen::new(late);
        // Running when the gap began, innermost first.
        let mut open = self.at.checked_sub(1).map(|i| self.events[i]);
        let mut deepest = None;
        while let Some(e) = open {
            let end = self.end(e);
            if end > late.from {
                self.note(e, late.from, end, &mut seen);
                if deepest.is_none() && twice(end.min(late.to) - late.from) > length {
                    deepest = Some(e);
                }
                seen.outermost(e, end.min(late.to) - late.from);
                if end >= late.to {
                    break;
                }
            }
            open = self.tree.parent(e);
        }
        // Started in the gap; the last one that covers half of it is the deepest.
        let mut position = self.at;
        while let Some(&e) = self.events.get(position) {
            let start = self.start(e);
            if start >= late.to {
                break;
            }
            let end = self.end(e);
            let overlap = end.min(late.to) - start;
            if start >= seen.all.until {
                seen.outermost(e, overlap);
            }
            self.note(e, start, end, &mut seen);
            if twice(overlap) > length {
                deepest = Some(e);
                position += 1;
            } else {
                position = self.first_from(position + 1, end);
            }
        }
        Activity {
            covered: seen.all.covered,
            allocation: self.allocations.within(late),
            input: seen.input.covered.max(self.input.within(late)),
            // Where frames were recorded they tell more of it.
            profiler: seen.profiler.covered.max(self.between_steps.within(late)),
            event: deepest.or(seen.outermost.map(|o| o.0)),
        }
    }

    /// Whether more is launched in a frame than the copies of a batch: what the GPU prepares is no input that it waits for.
    fn computes(&self, e: EventId) -> bool {
        let before = |time: Ns| self.launches.partition_point(|&l| l < time);
        before(self.end(e)) - before(self.start(e)) > MOST_COPIES
    }

    fn note(&mut self, e: EventId, start: Ns, end: Ns, seen: &mut Seen) {
        seen.all.add(start, end);
        let can_be = matches!(self.trace.kind(e), EventKind::PythonFunction | EventKind::CpuOp);
        if can_be && self.names.is(e, Names::INPUT) && !self.computes(e) {
            seen.input.add(start, end);
        }
        if self.trace.kind(e) == EventKind::PythonFunction && self.names.is(e, Names::PROFILER) {
            seen.profiler.add(start, end);
        }
    }
}

fn twice(time: Ns) -> Ns {
    time + time
}

/// Time covered within bounds by spans that come in order of start.
#[derive(Debug, Clone, Copy)]
struct Union {
    covered: Ns,
    until: Ns,
    bound: Ns,
}

impl Union {
    fn new(from: Ns, to: Ns) -> Self {
        Self { covered: Ns(0), until: from, bound: to }
    }

    fn add(&mut self, start: Ns, end: Ns) {
        let (from, to) = (start.max(self.until), end.min(self.bound));
        if from < to {
            self.covered = self.covered + (to - from);
            self.until = to;
        }
    }
}

struct Seen {
    all: Union,
    input: Union,
    profiler: Union,
    outermost: Option<(EventId, Ns)>,
}

impl Seen {
    fn new(late: &Late) -> Self {
        Self {
            all: Union::new(late.from, late.to),
            input: Union::new(late.free.max(late.from), late.to),
            profiler: Union::new(late.from, late.to),
            outermost: None,
        }
    }

    fn outermost(&mut self, e: EventId, overlap: Ns) {
        // Callers come after what they contain and cover at least as much.
        if self.outermost.is_none_or(|(_, most)| overlap >= most) {
            self.outermost = Some((e, overlap));
        }
    }
}

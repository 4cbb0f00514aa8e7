//! Puts the events of a thread into order of start, making use of the order they already have.
//!
//! A file holds a thread as a few sequences that are in order, one behind the other or interleaved: operations and
//! frames, then runtime calls, of which some thousand may stand a little too late. So events are dealt into piles as
//! they come, each to a pile it continues in order, and the few piles are merged. Compared with sorting (start,
//! event) pairs this halved the time of the whole build on a trace of 3 million events.

use std::cmp::{Ordering, Reverse};

use crate::clock::Clock;
use crate::model::{EventId, Ns, Trace};
use crate::parity::Nesting;

/// More piles than this mean that there is no order to make use of.
const MOST: usize = 8;

/// Events by start, the longer first; events that agree in both in file order.
#[derive(Debug)]
struct Pile {
    events: Vec<EventId>,
    last: (Ns, Ns),
}

/// The events of a thread, dealt in file order.
#[derive(Debug, Default)]
pub(crate) struct Piles {
    ordered: Vec<Pile>,
    current: usize,
    /// Events that continue no pile.
    rest: Vec<EventId>,
    /// Whether some event has no length.
    has_empty: bool,
}

/// Order in which events of a thread are taken up, but for those of no length: by start, then by the rule for ties.
fn nesting_order<C: Clock>(trace: &Trace, nesting: Nesting, a: EventId, b: EventId) -> Ordering {
    let start = |e| C::of(trace.ts(e).unwrap_or_default());
    let by_length = || if nesting.longer_is_outside() { trace.dur(b).cmp(&trace.dur(a)) } else { Ordering::Equal };
    start(a).cmp(&start(b)).then_with(by_length).then(a.cmp(&b))
}

impl Piles {
    #[inline]
    pub(crate) fn add(&mut self, e: EventId, ts: Ns, dur: Ns) {
        self.has_empty |= dur == Ns(0);
        match self.ordered.get_mut(self.current) {
            Some(pile) if pile.continues(ts, dur) => pile.push(e, ts, dur),
            _ => self.add_elsewhere(e, ts, dur),
        }
    }

    #[cold]
    fn add_elsewhere(&mut self, e: EventId, ts: Ns, dur: Ns) {
        let fitting = self.ordered.iter().position(|p| p.continues(ts, dur));
        let Some(pile) = fitting.or((self.ordered.len() < MOST).then_some(self.ordered.len())) else {
            self.rest.push(e);
            return;
        };
        if pile == self.ordered.len() {
            self.ordered.push(Pile { events: Vec::new(), last: (ts, dur) });
        }
        self.ordered[pile].push(e, ts, dur);
        self.current = pile;
    }

    pub(crate) fn len(&self) -> usize {
        self.ordered.iter().map(|p| p.events.len()).sum::<usize>() + self.rest.len()
    }

    /// All events in the order in which they are nested.
    pub(crate) fn into_order<C: Clock>(self, trace: &Trace, nesting: Nesting) -> Vec<EventId> {
        let mut runs: Vec<Vec<EventId>> = self.ordered.into_iter().map(|p| p.events).collect();
        if !self.rest.is_empty() {
            let mut rest = self.rest;
            rest.sort_by(|&a, &b| nesting_order::<C>(trace, nesting, a, b));
            runs.push(rest);
        }
        // Small ones first, so that no event is moved often.
        runs.sort_by_key(|r| Reverse(r.len()));
        while runs.len() > 1
            && let (Some(small), Some(large)) = (runs.pop(), runs.pop())
        {
            let merged = merge::<C>(trace, nesting, &large, &small);
            let at = runs.partition_point(|r| r.len() >= merged.len());
            runs.insert(at, merged);
        }
        let mut order = runs.pop().unwrap_or_default();
        if self.has_empty && nesting.longer_is_outside() {
            order.chunk_by_mut(|&a, &b| trace.ts(a) == trace.ts(b)).for_each(|tied| place_empty(trace, tied));
        }
        order
    }
}

/// Among events that start together puts those of no length behind the one they follow in the file: written after its
/// caller an empty event lies in it, written before the others it is over when they start. (Recordings in whole
/// microseconds are full of such ties.)
fn place_empty(trace: &Trace, tied: &mut [EventId]) {
    if tied.len() < 2 {
        return;
    }
    tied.sort_unstable();
    let mut before = (Reverse(Ns(i64::MAX)), EventId(0));
    let mut keyed: Vec<_> = tied
        .iter()
        .map(|&e| {
            let dur = trace.dur(e).unwrap_or_default();
            if dur != Ns(0) {
                before = (Reverse(dur), e);
            }
            (before, e)
        })
        .collect();
    keyed.sort_unstable();
    for (e, key) in tied.iter_mut().zip(keyed) {
        *e = key.1;
    }
}

impl Pile {
    /// Whether an event that comes later in the file also comes later in the order.
    #[inline]
    fn continues(&self, ts: Ns, dur: Ns) -> bool {
        ts > self.last.0 || ts == self.last.0 && dur <= self.last.1
    }

    #[inline]
    fn push(&mut self, e: EventId, ts: Ns, dur: Ns) {
        self.events.push(e);
        self.last = (ts, dur);
    }
}

fn merge<C: Clock>(trace: &Trace, nesting: Nesting, left: &[EventId], right: &[EventId]) -> Vec<EventId> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let start = |events: &[EventId]| events.first().map(|&e| C::of(trace.ts(e).unwrap_or_default()));
    let (mut left, mut right) = (left, right);
    let (mut left_start, mut right_start) = (start(left), start(right));
    while let (Some(a), Some(b)) = (left_start, right_start) {
        let order = match a.cmp(&b) {
            Ordering::Equal => nesting_order::<C>(trace, nesting, left[0], right[0]),
            order => order,
        };
        if order.is_le() {
            merged.push(left[0]);
            left = &left[1..];
            left_start = start(left);
        } else {
            merged.push(right[0]);
            right = &right[1..];
            right_start = start(right);
        }
    }
    merged.extend_from_slice(left);
    merged.extend_from_slice(right);
    merged
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{TraceBuilder, Us};

    fn ordered(times: &[(u32, u32)], nesting: Nesting) -> Vec<(u32, u32, u32)> {
        let mut b = TraceBuilder::new();
        for &(ts, dur) in times {
            b.cpu_op("op", f64::from(ts), f64::from(dur));
        }
        let trace = b.build();
        let mut piles = Piles::default();
        for e in trace.events() {
            piles.add(e, trace.ts(e).unwrap(), trace.dur(e).unwrap());
        }
        assert_eq!(piles.len(), times.len());
        let time = |e: EventId| (times[e.index()].0, times[e.index()].1, e.uid());
        piles.into_order::<Us>(&trace, nesting).into_iter().map(time).collect()
    }

    proptest! {
        #[test]
        fn dealing_and_merging_sorts(times in prop::collection::vec((0u32..40, 1u32..5), 0..120)) {
            let mut sorted: Vec<_> = (0..).zip(&times).map(|(uid, &(ts, dur))| (ts, dur, uid)).collect();
            sorted.sort_by_key(|e| e.0);
            prop_assert_eq!(ordered(&times, Nesting::Float), sorted.clone());
            sorted.sort_by_key(|e| (e.0, Reverse(e.1)));
            prop_assert_eq!(ordered(&times, Nesting::Exact), sorted);
        }
    }

    #[test]
    fn empty_events_stay_behind_what_they_follow() {
        let order = |times: &[(u32, u32)]| ordered(times, Nesting::Exact).iter().map(|e| e.2).collect::<Vec<_>>();
        assert_eq!(order(&[(5, 0), (5, 2)]), [0, 1]);
        assert_eq!(order(&[(5, 2), (5, 0)]), [0, 1]);
        assert_eq!(order(&[(5, 9), (5, 0), (5, 2)]), [0, 1, 2]);
        assert_eq!(order(&[(5, 0), (5, 2), (5, 0), (5, 9), (5, 0), (4, 1)]), [5, 0, 3, 4, 1, 2]);
    }
}

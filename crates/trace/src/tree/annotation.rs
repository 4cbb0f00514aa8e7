//! Which annotated span an event belongs to.

use crate::clock::{Clock, Us};
use crate::model::{EventId, Trace, TrackId};

/// The annotations of a trace, ready to be looked up.
#[derive(Debug)]
pub struct Annotations {
    /// Annotations that end later than every one that starts before them, in order of start. The first annotation
    /// around an event is always one of these, because an earlier one that ends as late would be around it too.
    outer: Vec<(Us, Us, EventId)>,
    /// All annotations by track and start, each with the position of the one around it.
    nested: Vec<(TrackId, Us, Us, EventId, Option<u32>)>,
}

impl Annotations {
    /// Collects the host and GPU annotations of a trace.
    pub fn of(trace: &Trace) -> Self {
        let spans = trace.events().filter(|&e| trace.kind(e).is_annotation() && trace.dur(e).is_some());
        let mut all: Vec<(Us, Us, EventId)> =
            spans.filter_map(|e| Us::span_of(trace, e).map(|(start, end)| (start, end, e))).collect();
        all.sort_by_key(|a| a.0);
        let mut outer: Vec<(Us, Us, EventId)> = Vec::new();
        for &a in &all {
            if outer.last().is_none_or(|last| last.1 < a.1) {
                outer.push(a);
            }
        }
        // Longer first where starts are equal, so that the one around stands before the one inside.
        all.sort_by_key(|a| (trace.track_id(a.2), a.0, std::cmp::Reverse(a.1), a.2));
        let mut nested: Vec<(TrackId, Us, Us, EventId, Option<u32>)> = Vec::with_capacity(all.len());
        let mut open: Vec<u32> = Vec::new();
        for &(start, end, e) in &all {
            let place = trace.track_id(e);
            while open.pop_if(|o| nested[*o as usize].0 != place || nested[*o as usize].2 < end).is_some() {}
            let position = nested.len() as u32;
            nested.push((place, start, end, e, open.last().copied()));
            open.push(position);
        }
        Self { outer, nested }
    }

    /// The annotation of an event as reports give it: the one that starts first of all that hold the event and end
    /// after it, on whatever thread or device.
    pub fn outermost(&self, trace: &Trace, e: EventId) -> Option<EventId> {
        trace.dur(e)?;
        let (start, end) = Us::span_of(trace, e)?;
        let around = self.outer.partition_point(|a| a.1 <= end);
        self.outer.get(around).filter(|a| a.0 <= start).map(|a| a.2)
    }

    /// The innermost annotation around an event on its own thread or stream.
    pub fn innermost(&self, trace: &Trace, e: EventId) -> Option<EventId> {
        self.around(trace, e).next()
    }

    /// The annotations around an event on its own thread or stream, innermost first.
    pub fn around<'a>(&'a self, trace: &Trace, e: EventId) -> impl Iterator<Item = EventId> + 'a {
        let place = trace.track_id(e);
        let span = Us::span_of(trace, e);
        let last =
            span.and_then(|(start, _)| self.nested.partition_point(|a| (a.0, a.1) <= (place, start)).checked_sub(1));
        let outwards = std::iter::successors(last, |&i| self.nested[i].4.map(|i| i as usize));
        let on_track = outwards.map(|i| &self.nested[i]).take_while(move |a| a.0 == place);
        let holds = move |a: &&(TrackId, Us, Us, EventId, Option<u32>)| span.is_some_and(|(_, end)| a.2 >= end);
        on_track.filter(holds).map(|a| a.3).filter(move |&annotation| annotation != e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceBuilder;

    #[test]
    fn the_outermost_of_any_thread_wins_and_ends_are_strict() {
        // thread 2  |-- step (0..100) -----------------------|
        // thread 1     |-- layer (10..60) -----|
        // thread 1       |op 20..30|      |op 50..60|            |op 95..105|
        let mut b = TraceBuilder::new();
        b.annotation("layer", 10.0, 50.0);
        b.annotation("step", 0.0, 100.0).on(1, 2);
        b.cpu_op("op", 20.0, 10.0);
        b.cpu_op("op", 50.0, 10.0);
        b.cpu_op("op", 95.0, 10.0);
        b.cpu_op("other", 20.0, 10.0);
        b.cpu_op("op.exact", 90.0, 10.0);
        let trace = b.build();
        let annotations = Annotations::of(&trace);
        let name = |a: Option<EventId>| a.map_or("NA", |a| trace.name(a));
        let named = trace.events().filter(|&e| trace.name(e).starts_with("op"));
        let names: Vec<_> = named.map(|e| (e.uid(), name(annotations.outermost(&trace, e)))).collect();
        assert_eq!(names, [(2, "step"), (3, "step"), (4, "NA"), (6, "NA")]);
        let innermost = |uid| name(annotations.innermost(&trace, EventId::from_uid(uid)));
        assert_eq!((innermost(2), innermost(3), innermost(4), innermost(0)), ("layer", "layer", "NA", "NA"));
    }

    #[test]
    fn all_annotations_of_a_thread_are_told_once() {
        // Two spans of the same times around an operation, in a third; another thread's is no part of it.
        let mut b = TraceBuilder::new();
        b.annotation("outer", 0.0, 100.0);
        b.annotation("twin", 10.0, 50.0);
        b.annotation("twin", 10.0, 50.0);
        b.annotation("over", 11.0, 2.0);
        b.annotation("elsewhere", 0.0, 100.0).on(1, 2);
        b.cpu_op("op", 20.0, 10.0);
        let trace = b.build();
        let annotations = Annotations::of(&trace);
        let around = |uid| annotations.around(&trace, EventId::from_uid(uid)).map(EventId::uid).collect::<Vec<_>>();
        assert_eq!(around(5), [2, 1, 0]);
        assert_eq!(around(0), Vec::<u32>::new());
    }

    #[test]
    fn lookup_agrees_with_trying_every_annotation() {
        // A comb of spans of all lengths, some equal, some touching.
        let mut b = TraceBuilder::new();
        for i in 0..60u32 {
            b.annotation("a", f64::from(i * 7 % 40), f64::from(i * 13 % 30)).on(1, i64::from(i % 3));
        }
        for i in 0..200u32 {
            b.cpu_op("op", f64::from(i * 11 % 70), f64::from(i % 9)).on(1, i64::from(i % 3));
        }
        let trace = b.build();
        let annotations = Annotations::of(&trace);
        let mut sorted: Vec<EventId> = trace.events().filter(|&e| trace.kind(e).is_annotation()).collect();
        sorted.sort_by_key(|&a| trace.ts(a));
        for e in trace.events().filter(|&e| !trace.kind(e).is_annotation()) {
            let (start, end) = Us::span_of(&trace, e).unwrap();
            let first = sorted.iter().copied().find(|&a| {
                let (from, to) = Us::span_of(&trace, a).unwrap();
                from <= start && end < to
            });
            assert_eq!(annotations.outermost(&trace, e), first, "event {e}");
        }
    }
}

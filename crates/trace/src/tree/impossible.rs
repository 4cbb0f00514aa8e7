//! GPU events and calls that can't be as they are written: they stand in the file twice, or last longer than what ran
//! after them on their stream allows. They are left out, because whatever is promised would rest on them.

use std::cmp::Ordering;

use rapidhash::RapidHashMap;

use super::roles::LinkRoles;
use crate::clock::Clock;
use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{EventId, Key, Ns, Trace, TrackId};
use crate::timeline::is_communication_name;

/// So many events of a stream must begin and end while another runs before that one can't be right. Kernels that begin
/// while the one before them ends overlap, but none ends first.
const CONTAINED: u32 = 3;

/// How many times longer than all others of its stream such an event is. Streams that share a queue do run side by side,
/// and then long kernels hold short ones.
const LONGER: i64 = 4;

/// At most one in so many events of a stream, and one: more are the way that this stream runs.
const RARE: usize = 100;

/// A recording of fewer other GPU events says nothing of how long one may take.
const OTHERS: usize = 10;

impl LinkRoles {
    /// Of events that agree in everything all but the first. The lists are in order of start.
    pub(crate) fn leave_repeated_out(&mut self, trace: &Trace, diagnostics: &mut Diagnostics) {
        for (list, must_be_numbered) in [(&mut self.runtime, true), (&mut self.gpu, false)] {
            let repeated = repeated(trace, list, must_be_numbered);
            leave_out(list, &repeated, Defect::DuplicateEvent, diagnostics);
        }
    }

    /// GPU events that take longer than they can have. The lists are in order of start.
    pub(crate) fn leave_impossible_out(&mut self, trace: &Trace, diagnostics: &mut Diagnostics) {
        let mut impossible = over_others(trace, &self.gpu);
        impossible.extend(beyond_the_recording(trace, &self.gpu, &self.runtime));
        impossible.sort_unstable();
        impossible.dedup();
        leave_out(&mut self.gpu, &impossible, Defect::ImpossibleDuration, diagnostics);
    }
}

/// Takes some events, sorted by UID, out of a list.
fn leave_out(list: &mut Vec<EventId>, some: &[EventId], defect: Defect, diagnostics: &mut Diagnostics) {
    if let Some(first) = some.first() {
        diagnostics.add_many(defect, some.len() as u64, At::Event(first.uid()));
        list.retain(|e| some.binary_search(e).is_err());
    }
}

/// Those of a list that stand in the file before, by UID.
fn repeated(trace: &Trace, list: &[EventId], must_be_numbered: bool) -> Vec<EventId> {
    let what = |&e: &EventId| (trace.int(e, Key::Correlation), trace.track_id(e), trace.name_id(e), trace.dur(e));
    let mut repeated = Vec::new();
    for together in list.chunk_by(|&a, &b| trace.ts(a) == trace.ts(b)).filter(|group| group.len() > 1) {
        let mut keyed: Vec<_> = together.iter().map(|e| (what(e), *e)).collect();
        keyed.sort_unstable();
        let again = keyed.windows(2).filter(|pair| pair[0].0 == pair[1].0).map(|pair| pair[1]);
        let is_told = |((number, .., dur), e): &((Option<i64>, _, _, Option<Ns>), EventId)| {
            trace.ts(*e).is_some() && (number.is_some() || !must_be_numbered && dur.is_some_and(|d| d > Ns(0)))
        };
        repeated.extend(again.filter(is_told).map(|(_, e)| e));
    }
    repeated.sort_unstable();
    repeated
}

/// An event that still runs, and how many others began and ended since.
#[derive(Clone, Copy)]
struct Running {
    event: EventId,
    end: Ns,
    contained: u32,
}

/// The events of one stream so far.
struct Stream {
    track: TrackId,
    count: usize,
    running: Option<Running>,
    /// The longest one that holds no others.
    longest: Ns,
    over_others: Vec<(EventId, Ns)>,
}

impl Stream {
    fn add(&mut self, trace: &Trace, event: EventId, (start, end): (Ns, Ns)) {
        self.count += 1;
        let of_one_call = |a: EventId| {
            let number = trace.int(a, Key::Correlation);
            number.is_some() && number == trace.int(event, Key::Correlation)
        };
        match &mut self.running {
            Some(r) if start < r.end && end < r.end => {
                // What one call launched, such as a graph, need not run in order.
                r.contained += u32::from(!of_one_call(r.event));
                self.longest = self.longest.max(end - start);
            }
            _ => {
                self.close(trace);
                self.running = Some(Running { event, end, contained: 0 });
            }
        }
    }

    fn close(&mut self, trace: &Trace) {
        let Some(r) = self.running.take() else { return };
        let dur = trace.dur(r.event).unwrap_or_default();
        // Those that wait for others do so beside whatever shares their queue.
        if r.contained >= CONTAINED && !is_communication_name(trace.name(r.event)) {
            self.over_others.push((r.event, dur));
        } else {
            self.longest = self.longest.max(dur);
        }
    }
}

/// Events that by far outlast all others of their stream, some of which begin and end while they run.
fn over_others(trace: &Trace, gpu: &[EventId]) -> Vec<EventId> {
    let mut streams: Vec<Stream> = Vec::new();
    let mut known: RapidHashMap<TrackId, usize> = RapidHashMap::default();
    let mut last = 0;
    for &event in gpu {
        let Some(span) = Ns::span_of(trace, event) else { continue };
        let track = trace.track_id(event);
        if streams.get(last).is_none_or(|s| s.track != track) {
            last = *known.entry(track).or_insert(streams.len());
            if last == streams.len() {
                let (longest, over_others) = (Ns(0), Vec::new());
                streams.push(Stream { track, count: 0, running: None, longest, over_others });
            }
        }
        streams[last].add(trace, event, span);
    }
    let mut found = Vec::new();
    for mut stream in streams {
        stream.close(trace);
        let most = stream.longest.0.saturating_mul(LONGER);
        stream.over_others.retain(|(_, dur)| dur.0 > most);
        if stream.over_others.len() <= stream.count / RARE + 1 {
            found.extend(stream.over_others.into_iter().map(|(event, _)| event));
        }
    }
    found
}

/// The longest event if it outlasts all that the recording has beside it: no call waits for its end, and nothing runs
/// after it.
fn beyond_the_recording(trace: &Trace, gpu: &[EventId], calls: &[EventId]) -> Option<EventId> {
    if gpu.len() <= OTHERS {
        return None;
    }
    let longest = gpu.iter().copied().reduce(|a, b| if by_length(trace, a, b).is_lt() { b } else { a })?;
    let others = gpu.iter().chain(calls).copied().filter(|&e| e != longest);
    let whole = |(first, last): (Ns, Ns), (start, end): (Ns, Ns)| (first.min(start), last.max(end));
    let (first, last) = others.filter_map(|e| Ns::span_of(trace, e)).reduce(whole)?;
    let dur = trace.dur(longest)?;
    (dur > last - first && !is_communication_name(trace.name(longest))).then_some(longest)
}

fn by_length(trace: &Trace, a: EventId, b: EventId) -> Ordering {
    trace.dur(a).cmp(&trace.dur(b))
}

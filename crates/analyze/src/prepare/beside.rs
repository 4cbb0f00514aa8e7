//! Kernels that run beside kernels of other streams.
//!
//! What a kernel takes while others use the GPU too says nothing of the kernel. The times in which kernels of two or more
//! streams run are found first; whatever runs in such a time runs beside another.
//!
//! ```text
//! stream 7   |---- a ----|      |-- c --|
//! stream 8         |---- b ---|
//! shared           |-----|
//! ```

use jarvis_perf::tables::Unified;
use jarvis_trace::{Clock, EventId, EventKind, IntervalSet, Key, Ns, Trace, Tree};

use crate::prepared::Beside;

/// A call that shares no more than this part of its time runs alone: kernels that follow each other on two streams
/// overlap a little.
const ALONE: f64 = 0.05;

/// For each row how much of its time was shared; empty if nothing was.
pub(crate) fn beside(trace: &Trace, tree: &Tree, unified: &Unified) -> Vec<Beside> {
    let shared = shared(trace, tree);
    if shared.is_empty() {
        return Vec::new();
    }
    let of_call = |kernels: &[EventId]| {
        let spans = kernels.iter().filter_map(|&k| Ns::span_of(trace, k));
        spans.map(|span| within(&shared, span).as_us()).sum::<f64>()
    };
    let of_row = |row| {
        let (mut all_us, mut shared_us, mut out) = (0.0, 0.0, Beside::default());
        for call in unified.calls_of(row) {
            let us = of_call(&call.kernels).min(call.kernel_us);
            all_us += call.kernel_us;
            shared_us += us;
            if us <= ALONE * call.kernel_us {
                out.alone_count += 1;
                out.alone_us += call.kernel_us;
            }
        }
        Beside { percent: super::percent(shared_us, all_us), ..out }
    };
    unified.rows.iter().map(of_row).collect()
}

/// The times in which kernels of two or more streams run; none in recordings of several devices, whose kernels don't take
/// each other's place.
fn shared(trace: &Trace, tree: &Tree) -> IntervalSet<Ns> {
    let kernels = || tree.all_gpu_events().iter().copied().filter(|&e| trace.kind(e) == EventKind::Kernel);
    let Some(first) = kernels().next() else { return IntervalSet::default() };
    let device = |e: EventId| trace.int(e, Key::Device);
    // Of one stream, as nearly always, no list is made.
    let one_stream = kernels().all(|e| trace.track_id(e) == trace.track_id(first));
    if one_stream || kernels().any(|e| device(e) != device(first)) {
        return IntervalSet::default();
    }
    let with_track = |e: EventId| Ns::span_of(trace, e).map(|(start, end)| (start, end, trace.track_id(e)));
    let mut spans: Vec<_> = kernels().filter_map(with_track).collect();
    spans.sort_unstable();
    // The latest end of a stream so far, and the latest of all others.
    let (mut last, mut other) = (None, None);
    let mut found = Vec::new();
    for (start, end, track) in spans {
        let same = last.is_some_and(|(_, t)| t == track);
        let until = if same { other } else { last }.map_or(start, |(until, _): (Ns, _)| until);
        if until > start && end > start {
            found.push((start, end.min(until)));
        }
        if last.is_none_or(|(until, _)| end > until) {
            if !same {
                other = last;
            }
            last = Some((end, track));
        } else if !same && other.is_none_or(|(until, _)| end > until) {
            other = Some((end, track));
        }
    }
    IntervalSet::merge(found)
}

/// Time of a span that lies in the set.
fn within(set: &IntervalSet<Ns>, (start, end): (Ns, Ns)) -> Ns {
    let spans = set.spans();
    let first = spans.partition_point(|s| s.1 <= start);
    let inside = spans[first..].iter().take_while(|s| s.0 < end);
    inside.map(|s| s.1.min(end) - s.0.max(start)).sum()
}

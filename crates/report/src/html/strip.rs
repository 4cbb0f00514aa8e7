//! One step of the recording as a strip: what each stream of the GPU ran, and why it waited in between.
//!
//! A page cannot hold a million events and a screen cannot show them. What is shorter than a pixel is merged with its
//! neighbours: a segment says how many kernels it stands for and names the longest.

use jarvis_analyze::system::gaps::{Gap, GapClass, Gaps};
use jarvis_trace::{EventId, Ns, StrId, Trace, TrackId};
use rapidhash::RapidHashMap;
use serde::Serialize;
use std::collections::BTreeMap;

use super::family::Family;
use super::source::Source;
use super::texts::{TextId, Texts};

/// Pixels the window is divided into: a wide screen at a little zoom.
const PIXELS: i64 = 2000;
/// Streams shown, those with most time.
const MOST_STREAMS: usize = 8;

/// The strip.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Strip {
    /// Number of the step, if steps were recorded.
    pub(crate) step: Option<i64>,
    /// Length of the window in microseconds.
    pub(crate) window_us: f64,
    pub(crate) streams: Vec<Stream>,
    /// Streams left out.
    pub(crate) more_streams: usize,
    pub(crate) gaps: Vec<Wait>,
    /// Kernels, copies and fills in the window.
    pub(crate) events: usize,
}

/// What one stream ran.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Stream {
    pub(crate) name: TextId,
    /// In order of time: start and length in nanoseconds, family, events, the longest event's name.
    pub(crate) segments: Vec<(i64, i64, u8, usize, TextId)>,
}

/// A time in which nothing ran, or several that lie close together: start and length in nanoseconds, number of its
/// class in [`CLASSES`], gaps, what the host did.
type Wait = (i64, i64, u8, usize, Option<TextId>);

/// What each class of gap is called, and what it means.
pub(crate) const CLASSES: [(GapClass, &str, &str); 10] = [
    (GapClass::Edge, "edge of the recording", "the capture began or ended here"),
    (GapClass::LaunchQueue, "between kernels", "work was queued; kernels cannot follow each other faster"),
    (GapClass::DeviceWait, "device waits", "work was queued, but waited for another stream, event or rank"),
    (GapClass::HostSync, "host waited for the GPU", "the host had just waited for the GPU, so nothing was queued"),
    (GapClass::StepSync, "end of a step", "between two steps the host waited for the GPU or was in the profiler"),
    (GapClass::HostAlloc, "memory management", "the host got or gave back memory"),
    (GapClass::HostData, "input", "the host fetched or prepared input"),
    (GapClass::HostWork, "host busy", "the host ran operations or Python and launched too late"),
    (GapClass::HostIdle, "host unexplained", "the launch came late and nothing recorded explains why"),
    (GapClass::Unlinked, "launch unknown", "the launch of the next kernel was not recorded"),
];

/// The strip of a trace; `None` without GPU events that have a time.
pub(crate) fn strip(source: &Source<'_>, trace: &Trace, families: &[Family], texts: &mut Texts) -> Option<Strip> {
    let (from, to, step) = window(source, trace)?;
    let pixel = ((to - from).0 / PIXELS).max(1);
    let mut by_stream: BTreeMap<TrackId, Vec<EventId>> = BTreeMap::new();
    let mut events = 0;
    for e in source.population.of(trace, &source.report.tree) {
        let Some((start, end)) = span(trace, e).filter(|s| s.0 < to && s.1 > from) else { continue };
        if end > start {
            by_stream.entry(trace.track_id(e)).or_default().push(e);
            events += 1;
        }
    }
    let mut order: Vec<(Ns, TrackId)> =
        by_stream.iter().map(|(&track, list)| (list.iter().filter_map(|&e| trace.dur(e)).sum(), track)).collect();
    order.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let more_streams = order.len().saturating_sub(MOST_STREAMS);
    order.truncate(MOST_STREAMS);
    let mut names = Names { trace, known: RapidHashMap::default() };
    let mut streams = Vec::new();
    for (_, track) in order {
        let mut list = by_stream.remove(&track).unwrap_or_default();
        list.sort_by_key(|&e| (trace.ts(e), e));
        let segments = segments(&mut names, &list, (from, to, pixel), families, texts);
        streams.push(Stream { name: texts.add(&stream_name(trace, track)), segments });
    }
    let gaps = source.gaps.map(|g| waits(trace, g, (from, to, pixel), texts)).unwrap_or_default();
    Some(Strip { step, window_us: (to - from).as_us(), streams, more_streams, gaps, events })
}

fn span(trace: &Trace, e: EventId) -> Option<(Ns, Ns)> {
    Some((trace.ts(e)?, trace.end(e)?))
}

fn stream_name(trace: &Trace, track: TrackId) -> String {
    let track = trace.track(track);
    let (device, stream) = (trace.id_text(track.pid), trace.id_text(track.tid));
    let stream = stream.strip_prefix("stream ").unwrap_or(&stream).to_owned();
    format!("GPU {device} · stream {stream}")
}

/// From when to when, and which step it is: the step of middle length, or everything where no steps were recorded.
fn window(source: &Source<'_>, trace: &Trace) -> Option<(Ns, Ns, Option<i64>)> {
    let mut steps: BTreeMap<u32, (Ns, Ns)> = BTreeMap::new();
    for leaf in &source.program.leaves {
        let Some(step) = leaf.step else { continue };
        for kernel in &leaf.kernels {
            let Some((from, to)) = span(trace, EventId::from_uid(kernel.uid)) else { continue };
            let known = steps.entry(step).or_insert((from, to));
            *known = (known.0.min(from), known.1.max(to));
        }
    }
    let mut order: Vec<(Ns, u32)> = steps.iter().map(|(&step, &(from, to))| (to - from, step)).collect();
    order.sort_unstable();
    if let Some(&(_, step)) = order.get(order.len() / 2) {
        let (from, to) = steps[&step];
        let number = source.summary.steps.get(step as usize).and_then(|s| s.number);
        return Some((from, to, number)).filter(|_| to > from);
    }
    let all = source.population.of(trace, &source.report.tree);
    let spans = all.iter().filter_map(|&e| span(trace, e));
    let (from, to) = spans.fold((Ns(i64::MAX), Ns(i64::MIN)), |(a, b), (from, to)| (a.min(from), b.max(to)));
    (to > from).then_some((from, to, None))
}

/// A segment while it grows.
struct Growing {
    from: i64,
    to: i64,
    by_family: [i64; Family::ALL.len()],
    count: usize,
    longest: (i64, EventId),
}

impl Growing {
    fn finish(&self, names: &mut Names<'_>, texts: &mut Texts) -> (i64, i64, u8, usize, TextId) {
        let most = self.by_family.iter().enumerate().fold((0, 0), |m, (i, &ns)| if ns > m.1 { (i, ns) } else { m });
        (self.from, self.to - self.from, most.0 as u8, self.count, names.add(self.longest.1, texts))
    }
}

/// Names of a trace's events among the texts. They are long and repeat: each is made printable once.
struct Names<'t> {
    trace: &'t Trace,
    known: RapidHashMap<StrId, TextId>,
}

impl Names<'_> {
    fn add(&mut self, event: EventId, texts: &mut Texts) -> TextId {
        let trace = self.trace;
        *self.known.entry(trace.name_id(event)).or_insert_with(|| texts.add(trace.name(event)))
    }
}

fn segments(
    names: &mut Names<'_>,
    events: &[EventId],
    (from, to, pixel): (Ns, Ns, i64),
    families: &[Family],
    texts: &mut Texts,
) -> Vec<(i64, i64, u8, usize, TextId)> {
    let mut done = Vec::new();
    let mut growing: Option<Growing> = None;
    for &e in events {
        let Some((start, end)) = span(names.trace, e) else { continue };
        let (start, end) = ((start.max(from) - from).0, (end.min(to) - from).0);
        let family = usize::from(families[e.index()].number());
        match &mut growing {
            // Close by, and both together no wider than a pixel.
            Some(g) if start - g.to < pixel / 2 && end.max(g.to) - g.from <= pixel => {
                g.to = g.to.max(end);
                g.count += 1;
                g.by_family[family] += end - start;
                if end - start > g.longest.0 {
                    g.longest = (end - start, e);
                }
            }
            _ => {
                done.extend(growing.take().map(|g| g.finish(names, texts)));
                let mut by_family = [0; Family::ALL.len()];
                by_family[family] = end - start;
                growing = Some(Growing { from: start, to: end, by_family, count: 1, longest: (end - start, e) });
            }
        }
    }
    done.extend(growing.map(|g| g.finish(names, texts)));
    done
}

fn waits(trace: &Trace, gaps: &Gaps, (from, to, pixel): (Ns, Ns, i64), texts: &mut Texts) -> Vec<Wait> {
    let mut done: Vec<Wait> = Vec::new();
    for gap in &gaps.gaps {
        let Some(end) = trace.ts(EventId::from_uid(gap.after)).filter(|&end| end > from && end - gap.length < to)
        else {
            continue;
        };
        let start = (end - gap.length).max(from) - from;
        let length = end.min(to) - from - start;
        add_wait(&mut done, gaps, gap, (start.0, length.0, pixel), texts);
    }
    done
}

/// Adds a gap, to the one before if both together are no wider than a pixel: there the longer one tells why.
fn add_wait(done: &mut Vec<Wait>, gaps: &Gaps, gap: &Gap, (start, length, pixel): (i64, i64, i64), texts: &mut Texts) {
    let class = gap.class as u8;
    let activity = gap.doing().and_then(|a| gaps.activities.get(a)).map(|a| texts.add(&a.name));
    match done.last_mut() {
        Some(last) if start + length - last.0 <= pixel => {
            if length > last.1 {
                (last.2, last.4) = (class, activity);
            }
            last.1 = start + length - last.0;
            last.3 += 1;
        }
        _ => done.push((start, length, class, 1, activity)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_stand_in_their_own_order() {
        for (i, (class, name, meaning)) in CLASSES.iter().enumerate() {
            assert_eq!((*class as usize, *class), (i, GapClass::ALL[i]));
            assert!(!name.is_empty() && !meaning.is_empty());
        }
    }
}

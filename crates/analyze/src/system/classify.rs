//! Finds the gaps and the class of each; [`super::gaps`] says what the classes mean.

use jarvis_trace::Ns;

use super::activity::{Activity, Late, activities};
use super::gaps::GapClass;
use super::recording::{GpuEvent, Recording};

/// Gaps shorter than this are what the queue itself costs.
const QUEUE_GAP: Ns = Ns(10_000);

/// A wait that ended this short before the gap has drained the queue as well.
const DRAINED: Ns = Ns(5_000);

/// Edge gaps are longer than this part of the window: 20 %.
const EDGE_SHARE: i64 = 5;

/// With fewer GPU events a gap beside the first is as good as any other.
const EDGE_EVENTS: usize = 10;

/// A class, with the position of the wait it is charged to.
pub(crate) type Class = (GapClass, Option<u32>);

/// A gap before its class is known.
pub(crate) struct Bare {
    pub(crate) from: Ns,
    pub(crate) to: Ns,
    /// Position of the GPU event before and after.
    pub(crate) before: u32,
    pub(crate) after: u32,
    /// Whether the busy interval before or after is the lone first or last event.
    pub(crate) at_edge: bool,
}

impl Bare {
    /// The GPU event before.
    pub(crate) fn before<'r>(&self, recording: &'r Recording<'_>) -> &'r GpuEvent {
        &recording.gpu[self.before as usize]
    }

    /// The GPU event after.
    pub(crate) fn after<'r>(&self, recording: &'r Recording<'_>) -> &'r GpuEvent {
        &recording.gpu[self.after as usize]
    }
}

/// Merges GPU events into busy intervals and returns what lies between, with the time covered.
pub(crate) fn merge(recording: &Recording<'_>) -> (Vec<Bare>, Ns) {
    let gpu = &recording.gpu;
    let mut gaps: Vec<Bare> = Vec::new();
    let (mut busy, mut until) = (Ns(0), recording.extent.0);
    // The event that ended last so far, and where the current busy interval began.
    let (mut last, mut interval) = (0, 0);
    let mut first_interval = true;
    for (i, g) in gpu.iter().enumerate() {
        if g.start > until {
            let lone_first = first_interval && i - interval == 1;
            gaps.push(Bare { from: until, to: g.start, before: last, after: i as u32, at_edge: lone_first });
            first_interval = false;
            interval = i;
        }
        if g.end > until {
            busy = busy + (g.end - g.start.max(until));
            until = g.end;
            last = i as u32;
        }
    }
    if let Some(gap) = gaps.last_mut() {
        gap.at_edge |= gpu.len() - interval == 1;
    }
    if until < recording.extent.1 && !gpu.is_empty() {
        // An event of no length ends the window.
        gaps.push(Bare { from: until, to: recording.extent.1, before: last, after: last, at_edge: true });
    }
    (gaps, busy)
}

/// The class as far as times alone tell, with the wait it is charged to.
pub(crate) fn first_class(recording: &Recording<'_>, gap: &Bare, window: Ns) -> Class {
    let length = gap.to - gap.from;
    if gap.at_edge && recording.gpu.len() >= EDGE_EVENTS && length.0.saturating_mul(EDGE_SHARE) > window.0 {
        return (GapClass::Edge, None);
    }
    let Some(launch) = recording.launch(gap.after(recording)) else { return (GapClass::Unlinked, None) };
    if launch.start <= gap.from {
        return (if length < QUEUE_GAP { GapClass::LaunchQueue } else { GapClass::DeviceWait }, None);
    }
    let track = recording.trace.track_id(launch.call);
    let first = recording.waits.partition_point(|w| w.end < gap.from - DRAINED);
    let ended = recording.waits.iter().enumerate().skip(first).take_while(|(_, w)| w.end <= launch.start);
    let (mut class, mut charged) = (GapClass::HostWork, None);
    for (at, wait) in ended.filter(|(_, w)| w.track == track) {
        // The last wait in the middle of a step is the one to blame; a boundary only if there is no other.
        if !wait.at_boundary {
            (class, charged) = (GapClass::HostSync, Some(at as u32));
        } else if class != GapClass::HostSync {
            (class, charged) = (GapClass::StepSync, Some(at as u32));
        }
    }
    (class, charged)
}

pub(crate) fn late_spans(recording: &Recording<'_>, gaps: &[Bare], classes: &[Class]) -> Vec<Late> {
    let span = |(i, (gap, (class, wait))): (usize, (&Bare, &Class))| {
        let launch = recording.launch(gap.after(recording)).filter(|_| class.is_late())?;
        let free = wait.map_or(gap.from, |at| recording.waits[at as usize].end.max(gap.from));
        let track = recording.trace.track_id(launch.call);
        Some(Late { gap: i, track, from: gap.from, to: launch.start.min(gap.to), free })
    };
    gaps.iter().zip(classes).enumerate().filter_map(span).collect()
}

/// Gaps that the launching thread does not explain, with the thread that had launched before: work handed from one
/// thread to another, such as from forward to backward, keeps the first one busy.
pub(crate) fn handed_over_spans(recording: &Recording<'_>, gaps: &[Bare], classes: &[Class]) -> Vec<Late> {
    let unexplained = |(i, (gap, (class, _))): (usize, (&Bare, &Class))| {
        let launch = recording.launch(gap.after(recording)).filter(|_| *class == GapClass::HostIdle)?;
        let before = recording.trace.track_id(recording.launch(gap.before(recording))?.call);
        let late = Late { gap: i, track: before, from: gap.from, to: launch.start.min(gap.to), free: gap.from };
        (before != recording.trace.track_id(launch.call)).then_some(late)
    };
    gaps.iter().zip(classes).enumerate().filter_map(unexplained).collect()
}

/// Time spent on input between the start of the first step and the first launch. Where no steps are recorded the program
/// may have been set up in the same time: no more than the longest wait for input that the GPU had later.
pub(crate) fn input_before(recording: &Recording<'_>, longest_later: Ns) -> Ns {
    let Some(launch) = recording.gpu.first().and_then(|g| recording.launch(g)) else { return Ns(0) };
    let track = recording.trace.track_id(launch.call);
    let (from, at_most) = match recording.steps.first() {
        Some(&(from, _)) => (from, Ns(i64::MAX)),
        None => (recording.begin(track).unwrap_or(launch.start), longest_later),
    };
    let lead = Late { gap: 0, track, from, to: launch.start, free: from };
    if lead.from >= lead.to {
        return Ns(0);
    }
    activities(recording, &[lead]).first().map_or(Ns(0), |a| a.input.min(at_most))
}

/// Replaces the class of a late gap by what the thread was found to do.
pub(crate) fn refine(class: &mut GapClass, late: &Late, seen: &Activity) {
    let most = |part: Ns| part + part > late.to - late.from;
    if most(seen.input) {
        *class = GapClass::HostData;
    } else if most(seen.allocation) {
        *class = GapClass::HostAlloc;
    } else if matches!(class, GapClass::HostWork | GapClass::HostIdle) && most(seen.profiler) {
        *class = GapClass::StepSync;
    } else if matches!(class, GapClass::HostWork | GapClass::HostIdle) {
        *class = if most(seen.covered) { GapClass::HostWork } else { GapClass::HostIdle };
    }
}

//! Copies: which way they go, how much they carry, and how much of their time nothing hides.

use std::sync::Arc;

use jarvis_trace::{Clock, EventId, GpuWork, InOrder, IntervalSet, Ns};

use super::direction::CopyDirection;
use super::host_bound::HostBound;
use super::recording::{GpuEvent, Recording, bytes_of};
use crate::finding::Range;

/// Bytes a nanosecond that a copy of page-locked memory reaches at least: a link of sixteen fourth-generation lanes.
const LOCKED_RATE: f64 = 25.0;

/// Bytes a nanosecond that no link between host and device at hand exceeds.
const LINK_RATE: f64 = 60.0;

/// What overlapping a copy of page-locked memory with computation brings at least.
const OVERLAPPED_AT_LEAST: f64 = 0.5;

/// The frame in which a module changes its parameters one by one, with `MODULE_MOVES` at its end.
const MODULE_FRAME: &str = "torch/nn/modules/module.py(";
const MODULE_MOVES: &str = ": _apply";

/// Savings are looked at where copies are exposed for more than one in so many nanoseconds of the window.
const EXPOSED_ONE_IN: i64 = 100;

/// Copies of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DirectionCopies {
    /// Copies.
    pub count: usize,
    /// Their time.
    pub time: Ns,
    /// Time in which any of them went on.
    pub covered: Ns,
    /// The longest.
    pub longest: Ns,
    /// Bytes, where recorded.
    pub bytes: i64,
    /// Time in which nothing else than copies of this direction and other copies went on.
    pub exposed: Ns,
    /// Copies that the host waited for.
    pub waited_for: usize,
    /// Copies from or to memory that is not page-locked.
    pub pageable: usize,
}

/// An operation that copies between host and device.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyOperation {
    /// As a user would name it.
    pub name: Arc<str>,
    /// Which way.
    pub direction: CopyDirection,
    /// UID of one.
    pub example: u32,
    /// Where it was called from, if frames were recorded.
    pub caller: Option<Arc<str>>,
    /// Copies.
    pub count: usize,
    /// Their time.
    pub time: Ns,
    /// Their bytes.
    pub bytes: i64,
    /// Time of those that move parameters: called by a module that goes to another device.
    pub of_modules: Ns,
}

/// All copies of a trace.
#[derive(Debug, Clone, Default)]
pub struct Copies {
    /// In the order of [`CopyDirection::ALL`].
    pub by_direction: [DirectionCopies; 4],
    /// Operations that copy between host and device, most time first.
    pub operations: Vec<CopyOperation>,
    /// Time in which copies went on, whatever else did.
    pub covered: Ns,
    /// Time in which nothing else went on.
    pub exposed: Ns,
    /// The same of copies between host and device, whichever way.
    pub host_exposed: Ns,
    /// What faster and hidden copies between host and device would save, in milliseconds of the window; nothing where
    /// less than one percent of it is at stake.
    pub saved_ms: Option<Range>,
}

impl Copies {
    /// All but what better ones save, and what is to be found out for that.
    pub(crate) fn of(recording: &Recording<'_>, works: &Works) -> (Self, Option<Better>) {
        let mut copies = Self::default();
        let mut spans: [Vec<(Ns, Ns)>; 4] = Default::default();
        for g in recording.gpu.iter().filter(|g| g.work == GpuWork::Memcpy) {
            let direction = CopyDirection::of(recording.trace, g.event);
            let bytes = known_bytes(recording, g);
            spans[direction as usize].push((g.start, g.end));
            let sum = &mut copies.by_direction[direction as usize];
            let time = g.end - g.start;
            sum.count += 1;
            sum.time = sum.time + time;
            sum.longest = sum.longest.max(time);
            sum.bytes = sum.bytes.saturating_add(bytes);
            sum.waited_for += usize::from(is_waited_for(recording, g));
            sum.pageable += usize::from(is_pageable(recording, g.event));
            if direction.is_host_device() {
                copies.add_operation(recording, g, direction, bytes);
            }
        }
        let hidden = works.computation.union(&works.communication);
        let mut between = IntervalSet::default();
        for (direction, spans) in CopyDirection::ALL.into_iter().zip(spans) {
            let spans = IntervalSet::merge(spans);
            let sum = &mut copies.by_direction[direction as usize];
            sum.covered = spans.measure();
            sum.exposed = spans.subtract(&hidden).measure();
            if direction.is_host_device() {
                between = between.union(&spans);
            }
        }
        copies.host_exposed = between.subtract(&hidden).measure();
        copies.covered = works.memcpy.measure();
        copies.exposed = works.memcpy.subtract(&hidden).measure();
        copies.operations.order_by(|a, b| {
            b.time.cmp(&a.time).then_with(|| (&a.name, a.direction, a.example).cmp(&(&b.name, b.direction, b.example)))
        });
        let window = recording.extent.1 - recording.extent.0;
        let matters = copies.exposed.0.saturating_mul(EXPOSED_ONE_IN) > window.0;
        (copies, matters.then(|| Better::of(recording)).flatten())
    }

    /// Copies of one direction.
    pub fn direction(&self, direction: CopyDirection) -> &DirectionCopies {
        &self.by_direction[direction as usize]
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.by_direction.iter().map(|d| d.count).sum()
    }

    fn add_operation(&mut self, recording: &Recording<'_>, g: &GpuEvent, direction: CopyDirection, bytes: i64) {
        let Some(launch) = recording.launch(g) else { return };
        let operation = recording.operation_around(launch.call);
        let name = recording.trace.name(operation);
        let same = |o: &&mut CopyOperation| &*o.name == name && o.direction == direction;
        let time = g.end - g.start;
        let of_modules = if moves_module(recording, launch.call) { time } else { Ns(0) };
        if let Some(known) = self.operations.iter_mut().find(same) {
            known.count += 1;
            known.time = known.time + time;
            known.bytes = known.bytes.saturating_add(bytes);
            known.of_modules = known.of_modules + of_modules;
        } else {
            let caller = recording.user_frame(launch.call).map(|e| recording.trace.name(e).into());
            let (name, example) = (name.into(), operation.uid());
            self.operations.push(CopyOperation { name, direction, example, caller, count: 1, time, bytes, of_modules });
        }
    }
}

/// When the GPU computed, communicated and copied.
#[derive(Debug, Clone, Default)]
pub(crate) struct Works {
    pub(crate) computation: IntervalSet<Ns>,
    pub(crate) communication: IntervalSet<Ns>,
    pub(crate) memcpy: IntervalSet<Ns>,
}

fn known_bytes(recording: &Recording<'_>, copy: &GpuEvent) -> i64 {
    bytes_of(recording.trace, copy).unwrap_or(0).max(0)
}

fn is_pageable(recording: &Recording<'_>, copy: EventId) -> bool {
    recording.trace.name(copy).contains("Pageable")
}

/// Whether a call stands in a module's own way to another device, as frames tell.
fn moves_module(recording: &Recording<'_>, call: EventId) -> bool {
    recording.tree.ancestors(call).any(|e| {
        let name = recording.trace.name(e);
        name.contains(MODULE_FRAME) && name.ends_with(MODULE_MOVES)
    })
}

/// Whether the host waited for a copy: its call returned after it, or a wait of the same operation did.
fn is_waited_for(recording: &Recording<'_>, g: &GpuEvent) -> bool {
    let Some(launch) = recording.launch(g) else { return false };
    if launch.returns_after(g) {
        return true;
    }
    let operation = recording.tree.parent(launch.call);
    let first = recording.waits.partition_point(|w| w.end < g.end);
    // The wait that belongs to a copy comes right after it.
    let near = recording.waits[first..].iter().take(4);
    operation.is_some() && near.into_iter().any(|w| recording.tree.parent(w.event) == operation)
}

/// Copies between host and device as they could be.
#[derive(Debug)]
pub(crate) struct Better {
    /// By how many nanoseconds each GPU event is shorter if copies are hidden.
    hidden: Vec<i64>,
    /// The same if they are page-locked, and still nothing hides them.
    locked: Vec<i64>,
    /// What the link needs for each direction at best, in nanoseconds.
    link_ns: [f64; 2],
    /// Time of copies whose bytes the host moves itself, in nanoseconds.
    by_host: i64,
}

impl Better {
    /// `None` if nothing is copied between host and device.
    fn of(recording: &Recording<'_>) -> Option<Self> {
        let none = vec![0i64; recording.gpu.len()];
        let mut better = Self { hidden: none.clone(), locked: none, link_ns: [0.0; 2], by_host: 0 };
        let mut any = false;
        for (i, g) in recording.gpu.iter().enumerate().filter(|(_, g)| g.work == GpuWork::Memcpy) {
            let direction = CopyDirection::of(recording.trace, g.event);
            if !direction.is_host_device() {
                continue;
            }
            any = true;
            let (time, size) = ((g.end - g.start).0, known_bytes(recording, g) as f64);
            better.hidden[i] = time;
            if is_pageable(recording, g.event) {
                better.by_host += time;
                better.locked[i] = (time - (size / LOCKED_RATE) as i64).max(0);
                better.link_ns[direction as usize] += (size / LINK_RATE).min(time as f64);
            } else {
                better.locked[i] = (time as f64 * OVERLAPPED_AT_LEAST) as i64;
                // It is as fast as the link already.
                better.link_ns[direction as usize] += time as f64;
            }
        }
        any.then_some(better)
    }

    /// Low: page-locked copies that still nothing hides; high: copies that are hidden and not waited for, as far as the
    /// link allows.
    pub(crate) fn saved(&self, host: &HostBound) -> Range {
        let low = host.saved_by_shorter_copies(&self.locked).low;
        let mut high = host.saved_by_hidden_copies(&self.hidden, false).high;
        if self.by_host > 0 {
            // A host that no longer copies is faster elsewhere too, but hardly by more than the copies took it.
            let relieved = host.saved_by_hidden_copies(&self.hidden, true).high;
            high = relieved.min(high + Ns(self.by_host).ms());
        }
        // Both directions can go on at the same time.
        let [a, b] = self.link_ns;
        let most = (host.window().ms() - a.max(b) / 1e6).max(0.0);
        Range::new(low.min(most), high.min(most))
    }
}

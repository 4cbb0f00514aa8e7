//! Copies among what an operation launches. The timeline does not count them as computing, so no share of computing may.

use jarvis_trace::{EventId, GpuWork, Trace};

use crate::system::direction::CopyDirection;

/// Copies of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Copied {
    /// How many.
    pub(crate) count: usize,
    /// Their time in microseconds.
    pub(crate) us: f64,
    /// How many of them go between host and device.
    pub(crate) over_link: usize,
    /// The time of these in microseconds.
    pub(crate) over_link_us: f64,
    /// GPU events of any kind.
    pub(crate) events: usize,
}

impl Copied {
    /// Of these GPU events.
    pub(crate) fn of(trace: &Trace, events: impl Iterator<Item = EventId>) -> Self {
        let mut sum = Self::default();
        for event in events {
            sum.events += 1;
            let us = copy_us(trace, event);
            let Some(us) = us else { continue };
            sum.count += 1;
            sum.us += us;
            if CopyDirection::of(trace, event).is_host_device() {
                sum.over_link += 1;
                sum.over_link_us += us;
            }
        }
        sum
    }

    /// Whether there is nothing but copies between host and device.
    pub(crate) fn is_all_over_link(&self) -> bool {
        self.events > 0 && self.over_link == self.events
    }

    /// The same copies where the operation is known to copy between host and device: one whose name does not tell its
    /// direction does as well.
    pub(crate) fn known_over_link(self) -> Self {
        Self { over_link: self.count, over_link_us: self.us, ..self }
    }
}

/// Time of a GPU event in microseconds, if the timeline counts it as a copy.
pub(crate) fn copy_us(trace: &Trace, event: EventId) -> Option<f64> {
    GpuWork::is_copy(trace.kind(event), trace.name(event)).then(|| trace.dur(event).unwrap_or_default().as_us())
}

//! Copies among what an operation launches. The timeline does not count them as computing, so no share of computing may.

use jarvis_trace::copies::TO_PEER;
use jarvis_trace::{Arg, EventId, GpuWork, Trace};

use crate::prepared::Link;
use crate::system::direction::CopyDirection;

/// Copies of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Copied {
    /// How many.
    pub(crate) count: usize,
    /// Their time in microseconds.
    pub(crate) us: f64,
    /// How many of them go over a link.
    pub(crate) over_link: usize,
    /// The time of these in microseconds.
    pub(crate) over_link_us: f64,
    /// Of that, between devices.
    pub(crate) to_peer_us: f64,
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
            let Some(link) = link(trace, event) else { continue };
            sum.over_link += 1;
            sum.over_link_us += us;
            if link == Link::Devices {
                sum.to_peer_us += us;
            }
        }
        sum
    }

    /// Whether there is nothing but copies over a link.
    pub(crate) fn is_all_over_link(&self) -> bool {
        self.events > 0 && self.over_link == self.events
    }

    /// The same copies where the operation is known to copy over a link: one whose name does not tell its direction does as
    /// well.
    pub(crate) fn known_over_link(self) -> Self {
        Self { over_link: self.count, over_link_us: self.us, ..self }
    }

    /// The link that most of what crosses one goes over.
    pub(crate) fn link(&self) -> Link {
        if 2.0 * self.to_peer_us > self.over_link_us { Link::Devices } else { Link::Host }
    }
}

/// The link that a copy goes over, if it leaves the memory of its device.
fn link(trace: &Trace, copy: EventId) -> Option<Link> {
    match CopyDirection::of(trace, copy) {
        direction if direction.is_host_device() => Some(Link::Host),
        _ => goes_to_peer(trace, copy).then_some(Link::Devices),
    }
}

/// Whether a copy goes to another device: by its name, or by the devices it names.
fn goes_to_peer(trace: &Trace, copy: EventId) -> bool {
    let device = |key| trace.arg(copy, key).and_then(Arg::as_int);
    let differ = device("fromDevice").zip(device("toDevice")).is_some_and(|(from, to)| from != to);
    differ || TO_PEER.iter().any(|word| trace.name(copy).contains(word))
}

/// Time of a GPU event in microseconds, if the timeline counts it as a copy.
pub(crate) fn copy_us(trace: &Trace, event: EventId) -> Option<f64> {
    GpuWork::is_copy(trace.kind(event), trace.name(event)).then(|| trace.dur(event).unwrap_or_default().as_us())
}

#[cfg(test)]
mod tests {
    use jarvis_trace::TraceBuilder;

    use super::*;

    #[test]
    fn copies_to_another_device_go_over_a_link() {
        for (name, devices, wanted) in [
            ("Memcpy HtoD (Pinned -> Device)", None, Some(Link::Host)),
            ("Memcpy DtoD (Device -> Device)", None, None),
            ("Memcpy DtoD (Device -> Device)", Some([1, 1]), None),
            ("Memcpy DtoD (Device -> Device)", Some([0, 1]), Some(Link::Devices)),
            ("Memcpy PtoP (Device -> Device)", None, Some(Link::Devices)),
            ("CopyPeerToPeer", None, Some(Link::Devices)),
        ] {
            let mut b = TraceBuilder::new();
            let copy = b.gpu("gpu_memcpy", name, 10.0, 5.0, 1, 7);
            if let Some([from, to]) = devices {
                copy.arg("fromDevice", from).arg("toDevice", to);
            }
            let trace = b.build();
            let copied = Copied::of(&trace, trace.events());
            assert_eq!(copied.count, 1, "{name}");
            assert_eq!((copied.over_link > 0).then(|| copied.link()), wanted, "{name} {devices:?}");
        }
    }
}

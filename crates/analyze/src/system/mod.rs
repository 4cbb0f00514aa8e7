//! The system tier: the GPU waits. Idle time, copies, communication, and what the host has to do with it.

mod activity;
mod classify;
mod direction;
pub mod gaps;
pub mod host_bound;
mod recording;
mod schedule;

pub use direction::CopyDirection;

use jarvis_trace::{Population, Trace, Tree};

use gaps::Gaps;
use host_bound::HostBound;
use recording::Recording;

/// Everything the system tier sees, prepared once.
#[derive(Debug, Clone)]
pub struct System {
    /// Every wait of the GPU.
    pub gaps: Gaps,
    /// What depends on the speed of the host.
    pub host: HostBound,
}

impl System {
    /// Prepares it from a trace. The tree needs Python frames for gaps to be charged to them. `None` without GPU events
    /// that have a time.
    pub fn of(trace: &Trace, tree: &Tree, population: Population) -> Option<Self> {
        let recording = Recording::of(trace, tree, population)?;
        let gaps = Gaps::of(&recording);
        let host = HostBound::of(&recording, &gaps);
        Some(Self { gaps, host })
    }
}

//! Everything the system tier sees, prepared once.

use jarvis_trace::{Population, Trace, Tree};

use super::communication::{Communication, split};
use super::copies::Copies;
use super::cpu_idle::CARD_PERCENT;
use super::gaps::{GapClass, Gaps};
use super::host_bound::HostBound;
use super::kernels::Kernels;
use super::recording::Recording;
use crate::prepared::Utilization;
use crate::rounding::shown_ms;

/// Everything the system tier sees.
#[derive(Debug, Clone)]
pub struct System {
    /// Every wait of the GPU.
    pub gaps: Gaps,
    /// What depends on the speed of the host.
    pub host: HostBound,
    /// Copies.
    pub copies: Copies,
    /// Communication between GPUs.
    pub communication: Communication,
    /// Kernels by number and length.
    pub kernels: Kernels,
}

impl System {
    /// Prepares it from a trace. The tree needs Python frames for gaps to be charged to them; the population has to be
    /// that of the timeline. `None` without GPU events that have a time.
    pub fn of(trace: &Trace, tree: &Tree, population: Population) -> Option<Self> {
        let recording = Recording::of(trace, tree, population)?;
        let gaps = Gaps::of(&recording);
        let (works, communicating) = split(&recording);
        let (mut copies, better) = Copies::of(&recording, &works);
        let communication = Communication::of(&recording, &communicating, &works);
        let kernels = Kernels::of(&recording);
        drop((works, communicating));
        let host = HostBound::of(recording, &gaps);
        copies.saved_ms = better.map(|b| b.saved(&host));
        Some(Self { gaps, host, copies, communication, kernels })
    }

    /// What reports have to say about the recording beside the numbers: what GPU graphs hide, what is there only once, and
    /// what a slow host means for savings of kernel time.
    pub fn notes(&self) -> Vec<String> {
        [self.kernels.graph_note(), self.first_calls_note(), self.host.note()].into_iter().flatten().collect()
    }

    /// Where idle time lies, if it is worth a word and no recommendation has one for it.
    pub fn where_idle(&self, utilization: &Utilization) -> Option<String> {
        let class = GapClass::ALL.into_iter().rev().max_by_key(|&class| self.gaps.class(class).time)?;
        (utilization.idle_time_percent > CARD_PERCENT).then(|| {
            format!(
                "{} of {} ms idle time lies in `{}` gaps: {}.",
                shown_ms(self.gaps.class(class).time.as_ms()),
                shown_ms(utilization.idle_time_ms),
                class.as_str(),
                class.meaning()
            )
        })
    }

    fn first_calls_note(&self) -> Option<String> {
        let first = self.gaps.slow_first_calls()?;
        let advice = if first.go_on() {
            ""
        } else {
            " Record a later part of the run, after some steps, to see what else there is."
        };
        Some(format!(
            "The GPU waits {} of {} ms while operations ({}) are called for the first time with their arguments. A part of \
             the run in which shapes repeat has no such time, and all shares and savings are different there.{advice}",
            shown_ms(first.time.as_ms()),
            shown_ms(self.gaps.window.as_ms()),
            first.shown_names()
        ))
    }
}

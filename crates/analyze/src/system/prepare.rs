//! Everything the system tier sees, prepared once.

use jarvis_trace::{Ns, Population, Trace, Tree};

use super::communication::{Communication, split};
use super::copies::Copies;
use super::gaps::{GapClass, Gaps};
use super::host_bound::HostBound;
use super::kernels::Kernels;
use super::recording::Recording;
use crate::prepared::Utilization;
use crate::rounding::{shown, shown_ms};
use crate::thresholds::Threshold;

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
    /// Idle time above this share of the window, in percent, is worth a recommendation.
    pub card_percent: f64,
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
        let card_percent = Threshold::UtilIdleCard.info().default;
        Some(Self { gaps, host, copies, communication, kernels, card_percent })
    }

    /// What reports have to say about the recording beside the numbers: what GPU graphs hide, what is there only once, what
    /// the GPU itself waits for, and what a slow host means for savings of kernel time.
    pub fn notes(&self, utilization: &Utilization) -> Vec<String> {
        let of_recording = [self.kernels.graph_note(), self.first_calls_note(), self.edge_note()];
        let of_program = [self.device_wait_note(utilization), self.host.note()];
        of_recording.into_iter().chain(of_program).flatten().collect()
    }

    /// That idle time lies in waits of the GPU for itself or for others, if most of it does: no finding speaks of those.
    pub fn device_wait_note(&self, utilization: &Utilization) -> Option<String> {
        self.where_idle(utilization).filter(|_| self.gaps.awaits_device())
    }

    /// Where idle time lies, if it is worth a word.
    pub fn where_idle(&self, utilization: &Utilization) -> Option<String> {
        let class = GapClass::ALL.into_iter().rev().max_by_key(|&class| self.gaps.class(class).time)?;
        (utilization.idle_time_percent > self.card_percent).then(|| {
            format!(
                "{} of {} ms idle time lies in `{}` gaps: {}.",
                shown_ms(self.gaps.class(class).time.as_ms()),
                shown_ms(utilization.idle_time_ms),
                class.as_str(),
                class.meaning()
            )
        })
    }

    /// That idle time at the edges of the capture says nothing, if there is any.
    pub fn edge_note(&self) -> Option<String> {
        let edges = self.gaps.class(GapClass::Edge).time;
        (edges > Ns(0)).then(|| {
            format!(
                "{} of {} ms idle time lie at the edges of the recording, beside a lone first or last GPU event: no part \
                 of the program. Without them the GPU is idle {}% of the time.",
                shown_ms(edges.as_ms()),
                shown_ms(self.gaps.idle().as_ms()),
                shown(self.gaps.idle_without_edges_percent(), 1)
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

#[cfg(test)]
mod tests {
    use crate::system::fixture::{Host, system, utilization};

    /// Twenty kernels that are queued at once, with a wait of the device before each, and as many that are launched late.
    fn waits(device_us: f64) -> Host {
        let mut host = Host::default();
        for step in 0..2 {
            let start = host.now;
            for _ in 0..20 {
                host.op("aten::mm", 10.0, 100.0);
                host.gpu += device_us;
            }
            host.end_step(2 * step, start);
            let start = host.now;
            for _ in 0..20 {
                host.op("aten::add", 100.0, 5.0);
            }
            host.end_step(2 * step + 1, start);
        }
        host
    }

    #[test]
    fn waits_of_the_device_are_told_beside_whatever_is_found() {
        let notes = |device_us: f64| {
            let Host { b, .. } = waits(device_us);
            system(&b).notes(&utilization(&b))
        };
        let told = notes(400.0);
        assert!(told[0].contains("ms idle time lies in `device_wait` gaps: work was queued"), "{told:?}");
        assert!(told[1].starts_with("For the smaller part of its idle time"), "{told:?}");
        assert!(told.iter().all(|note| !note.contains("waits for the host")), "{told:?}");
        let told = notes(50.0);
        assert!(told[0].starts_with("The GPU waits for the host in this trace") && told.len() == 1, "{told:?}");
    }
}

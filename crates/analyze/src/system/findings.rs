//! The findings of the system tier: which hold, and in which order they should be acted on.
//!
//! Host waits come before launches: a step in which the host waits for the GPU can be neither compiled as a whole nor
//! captured in a GPU graph, so what is said about launches then holds for the program without the waits, and ranks
//! below. Time is counted once: late launches after a wait of the host belong to the wait, copies of some size to the
//! copies, input to the input.

use jarvis_trace::{Clock, InOrder, Ns};

use super::System;
use super::copy_findings::{blocking_copies, exposed_communication};
use super::idle_findings::{host_sync, input_starved, launch_bound};
use super::launch_actions::memory_action;
use super::recomputation::recomputation;
use super::severity::Severity;
use super::texts::{NO_KERNEL, PROFILER_COST};
use crate::finding::{Evidence, Finding, FindingOperation, Impact, Mending, Paths, PatternId, Range, Tier};
use crate::prepared::Utilization;
use crate::program::Program;
use crate::rounding::shown_ms;

/// The hopeful end of a range is at most this many times the cautious one, as speed-ups: a wider range helps nobody,
/// and it is the hopeful end that was never reached. Not so with input: loaded ahead, it took all of the wait away (47 times
/// faster, where the hopeful end without a limit was 46), and how much of it has to be fetched in any case is a guess.
pub(super) const WIDEST: f64 = 7.5;

/// What all findings of the tier are made from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cx<'a> {
    pub(crate) system: &'a System,
    pub(crate) utilization: &'a Utilization,
}

impl Cx<'_> {
    /// Share of the window in percent.
    pub(crate) fn percent(&self, time: Ns) -> f64 {
        super::gaps::percent(time, self.system.gaps.window)
    }
}

/// The findings of the system tier, the first to act on first. `program` adds recomputation, and what
/// makes flags that the host reads.
pub fn findings(system: &System, utilization: &Utilization, program: Option<&Program>) -> Vec<Finding> {
    let cx = Cx { system, utilization };
    let mut waits = host_sync(&cx, program);
    let launches = launch_bound(&cx, waits.as_ref(), program);
    if let (Some((_, waits)), None) = (&mut waits, &launches) {
        waits.paths.algorithmic.extend(memory_action(&cx));
    }
    let mut all: Vec<(Severity, Finding)> = [waits, launches, input_starved(&cx), blocking_copies(&cx)]
        .into_iter()
        .chain([exposed_communication(&cx, program), program.and_then(|p| recomputation(&cx, p))])
        .flatten()
        .collect();
    all.order_by(|(a, x), (b, y)| {
        let saved = y.impact.saved_ms.high.total_cmp(&x.impact.saved_ms.high);
        a.cmp(b).then(saved).then_with(|| x.pattern.cmp(&y.pattern))
    });
    let ranked = all.into_iter().zip(1..);
    ranked.map(|((severity, finding), rank)| Finding { rank, priority: severity.priority(), ..finding }).collect()
}

/// A finding before it is ranked, with how bad it is.
pub(crate) type Judged = (Severity, Finding);

/// What is particular to a finding.
pub(crate) struct Draft {
    pub(crate) pattern: PatternId,
    pub(crate) category: &'static str,
    pub(crate) severity: Severity,
    pub(crate) title: String,
    pub(crate) issue: String,
    pub(crate) operations: Vec<FindingOperation>,
    pub(crate) time: Ns,
    pub(crate) saved_ms: Range,
    pub(crate) basis: String,
    pub(crate) algorithmic: Vec<String>,
    pub(crate) kernel: Vec<String>,
    pub(crate) evidence: Vec<Evidence>,
}

impl Draft {
    /// The finding. Savings depend on host times, so the sentence about them is always there.
    pub(crate) fn finish(self, cx: &Cx<'_>) -> Judged {
        let window = cx.system.gaps.window.ms();
        let saved_ms = narrowed(self.saved_ms, window, self.pattern == PatternId::INPUT_STARVED);
        let finding = Finding {
            rank: 0,
            pattern: self.pattern,
            tier: Tier::System,
            category: self.category.to_owned(),
            priority: self.severity.priority(),
            title: self.title,
            issue: self.issue,
            operations_total: self.operations.len(),
            operations: self.operations,
            operations_left_out_ms: 0.0,
            time_ms: self.time.ms(),
            percent_of_total: cx.percent(self.time),
            paths: Paths {
                algorithmic: self.algorithmic,
                kernel: if self.kernel.is_empty() { vec![NO_KERNEL.to_owned()] } else { self.kernel },
            },
            impact: Impact::of(saved_ms, window, format!("{} {PROFILER_COST}", self.basis)),
            evidence: self.evidence,
            replay_package: None,
            replay_reason: Some("a wait of the GPU can't be replayed as an operation".to_owned()),
            rows: Vec::new(),
            // Work that is not repeated takes its kernels along; all else is time in which the GPU waits.
            kernels_saved_ms: if self.pattern == PatternId::RECOMPUTATION { saved_ms } else { Range::default() },
            goes_with: None,
            mending: Mending::CountedOn,
        };
        (self.severity, finding)
    }
}

/// A range no wider than [`WIDEST`], with the same cautious or hopeful end.
fn narrowed(saved: Range, window: f64, keeps_high: bool) -> Range {
    let speedup = saved.speedup(window);
    let saved_by = |speedup: f64| window * (1.0 - 1.0 / speedup);
    match () {
        () if speedup.high <= speedup.low * WIDEST => saved,
        () if keeps_high => Range::new(saved_by(speedup.high / WIDEST), saved.high),
        () => Range::new(saved.low, saved_by(speedup.low * WIDEST)),
    }
}

/// Evidence from the timeline sheet.
pub(crate) fn timeline_evidence(cx: &Cx<'_>, row: &str, ms: f64, percent: f64) -> Evidence {
    let of = shown_ms(cx.utilization.total_time_ms);
    let share = crate::rounding::shown(percent, 1);
    Evidence {
        table: "gpu_timeline".to_owned(),
        row: row.to_owned(),
        uid: None,
        fact: format!("`{row}` is {} of {of} ms ({share}%)", shown_ms(ms)),
    }
}

#[cfg(test)]
mod tests;

//! How many kernels there are, how long they take, and who launches them.
//!
//! All kernels of the trace count, as in `kernel_summary`, those without a recorded launch too: numbers, categories and
//! shares are then of the same kernels.

use std::collections::BTreeMap;
use std::sync::Arc;

use jarvis_perf::tables::KernelRow;
use jarvis_trace::{EventId, EventKind, Ns};

use super::recording::Recording;
use super::texts::counted;

/// A kernel is short if it takes less than this.
const SHORT: Ns = Ns(10_000);

/// Key of kernels whose launch was not recorded.
const UNLINKED: &str = "unlinked";

/// Whether kernels were launched by a graph, by a bare call, or by something that was not recorded.
pub fn is_without_operation(row: &KernelRow) -> bool {
    matches!(row.category.as_deref(), None | Some("graph" | "runtime"))
}

/// Kernels by number and length.
#[derive(Debug, Clone, Default)]
pub struct Kernels {
    /// Kernels.
    pub count: usize,
    /// Kernels shorter than 10 µs.
    pub short: usize,
    /// Their time, summed.
    pub time: Ns,
    /// By category of the launching operation; empty until [`Kernels::with_categories`].
    pub by_category: BTreeMap<Arc<str>, usize>,
    /// Share of kernel time that no operation launched; none until [`Kernels::with_categories`].
    pub without_operation_percent: f64,
    /// Calls that replayed a GPU graph.
    pub graph_replays: usize,
    /// GPU events that they launched.
    pub replayed: usize,
    /// GPU events that were launched in compiled code.
    pub compiled: usize,
    /// GPU events whose launch was recorded.
    pub launched: usize,
}

impl Kernels {
    pub(crate) fn of(recording: &Recording<'_>) -> Self {
        let trace = recording.trace;
        let mut kernels = Self::default();
        let mut is_graph: Vec<Option<bool>> = vec![None; trace.strings().len()];
        let mut replays: Vec<EventId> = Vec::new();
        for &event in recording.tree.all_gpu_events().iter().filter(|&&e| trace.kind(e) == EventKind::Kernel) {
            let time = trace.dur(event).unwrap_or_default();
            kernels.count += 1;
            kernels.short += usize::from(time < SHORT);
            kernels.time = kernels.time + time;
        }
        for g in &recording.gpu {
            if let Some(launch) = recording.launch(g) {
                kernels.launched += 1;
                kernels.compiled += usize::from(recording.in_compiled(launch.start));
                let name = trace.name_id(launch.call);
                if *is_graph[name.index()].get_or_insert_with(|| is_graph_launch(trace.text(name))) {
                    replays.push(launch.call);
                }
            }
        }
        kernels.replayed = replays.len();
        replays.sort_unstable();
        replays.dedup();
        kernels.graph_replays = replays.len();
        kernels
    }

    /// The same with categories, from the rows of `kernel_summary`.
    #[must_use]
    pub fn with_categories(mut self, rows: &[KernelRow]) -> Self {
        for row in rows {
            let category = row.category.clone().unwrap_or_else(|| UNLINKED.into());
            *self.by_category.entry(category).or_default() += row.us.count;
            if is_without_operation(row) {
                // Kernels that all take no time have no shares.
                self.without_operation_percent +=
                    Some(row.percent_of_kernels).filter(|p| p.is_finite()).unwrap_or_default();
            }
        }
        self
    }

    /// Share of short ones in percent.
    pub fn short_percent(&self) -> f64 {
        if self.count == 0 { 0.0 } else { 100.0 * self.short as f64 / self.count as f64 }
    }

    /// Mean time in microseconds.
    pub fn mean_us(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.time.as_us() / self.count as f64 }
    }

    /// Whether GPU graphs launch most of what runs.
    pub(crate) fn mostly_replayed(&self) -> bool {
        2 * self.replayed > self.launched
    }

    /// Whether compiled code launches most of what runs.
    pub(crate) fn mostly_compiled(&self) -> bool {
        2 * self.compiled > self.launched
    }

    /// How many are short, in words.
    pub(crate) fn short_told(&self) -> String {
        let are = if self.short == 1 { "is" } else { "are" };
        format!("{} of {} {are} shorter than 10 us", self.short, counted(self.count, "kernel"))
    }

    /// What the recording of GPU graphs leaves out; nothing if none was replayed.
    pub fn graph_note(&self) -> Option<String> {
        (self.graph_replays > 0).then(|| {
            let were = if self.replayed == 1 { "was" } else { "were" };
            format!(
                "{} {were} launched by {}. The operations inside a graph are not recorded: \
                 their kernels have no shapes, no modules and no replay package, and gaps between them are not the \
                 host's. Profile one step without GPU graphs to see them.",
                counted(self.replayed, "GPU event"),
                counted(self.graph_replays, "GPU graph replay")
            )
        })
    }
}

/// Whether a call, or a row made of the kernels below one, is the replay of a GPU graph.
pub(crate) fn is_graph_launch(name: &str) -> bool {
    name.contains("GraphLaunch")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::System;
    use crate::system::fixture::tree;
    use jarvis_perf::tables::{ReportOptions, build_report};
    use jarvis_trace::{Population, TraceBuilder};

    #[test]
    fn numbers_categories_and_shares_are_of_the_same_kernels() {
        let mut b = TraceBuilder::new();
        b.cpu_op("aten::mm", 0.0, 50.0).arg("Input Dims", "[[8, 8], [8, 8]]");
        for i in 0..3 {
            b.launch("cudaLaunchKernel", 10.0 + f64::from(i), 1.0, i.into());
            b.kernel("gemm", 100.0 + 20.0 * f64::from(i), if i == 0 { 0.0 } else { 15.0 }, i.into());
        }
        // Launched before the recording began.
        b.event('X', "kernel", "early", 20.0, 10.0);
        let trace = b.build();
        let report = build_report(&trace, &ReportOptions::default()).unwrap();
        let kernels = System::of(&trace, &tree(&trace), Population::Linked).unwrap().kernels;
        let kernels = kernels.with_categories(&report.rows.kernels);
        assert_eq!((kernels.count, kernels.by_category.values().sum()), (4, 4));
        assert_eq!(kernels.by_category.get(UNLINKED), Some(&1));
        assert_eq!((kernels.short, kernels.mean_us(), kernels.without_operation_percent), (1, 10.0, 25.0));
    }
}

//! What of a saving of kernel time arrives end to end: the recorded schedule is run again with it.

use std::collections::BTreeSet;

use super::gemm::is_looped;
use crate::finding::Range;
use crate::prepare::kernel_names::is_transpose;
use crate::prepare::place::{back_to_back, collector, leaves_by_row};
use crate::prepared::Prepared;
use crate::program::RowId;
use crate::rounding::shown_range_ms;
use crate::system::host_bound::{HostBound, Replaced, Replacement};

/// What putting the operands of a loop together may take the host, in microseconds: two calls over a list of tensors.
const STACKING_US: f64 = 100.0;
/// Launches of a batched product: alone, and with its operands put together before and its results taken apart after.
const LAUNCHES: (usize, usize) = (1, 4);

/// A change to rows.
pub(super) struct Fix {
    /// Kernel time that it saves.
    pub(super) saved: Range,
    /// Kernel time that it is about.
    pub(super) time_ms: f64,
    /// What becomes of their calls.
    pub(super) calls: Calls,
}

/// What a change does to calls.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Calls {
    /// They stay and take the GPU less time.
    Stay,
    /// Those one after another become one where they do not need each other.
    Batched,
    /// They stay and no longer launch kernels that only change the layout.
    WithoutTransposes,
}

/// The calls with the one after them that puts their results together: one product gives them so.
fn with_collector(prepared: &Prepared, batch: &[usize]) -> Vec<usize> {
    batch.iter().copied().chain(collector(&prepared.program, batch)).collect()
}

/// Leaves of rows, row by row.
fn leaves_of(prepared: &Prepared, rows: &BTreeSet<RowId>) -> Vec<Vec<usize>> {
    let mut all = leaves_by_row(&prepared.program, prepared.rows.len());
    rows.iter().map(|r| all.get_mut(r.index()).map(std::mem::take).unwrap_or_default()).collect()
}

/// Calls that could be one, and those that stay alone. Only calls alike can be one, and only where they do not need each
/// other: in a loop, as far as shapes tell, or where their results are put together.
fn batches(prepared: &Prepared, rows: &BTreeSet<RowId>) -> Vec<Vec<usize>> {
    let program = &prepared.program;
    let mut all = Vec::new();
    for (row, leaves) in rows.iter().zip(leaves_of(prepared, rows)) {
        let looped = is_looped(prepared, prepared.row(*row));
        for stretch in back_to_back(program, &leaves) {
            if looped || collector(program, stretch).is_some() {
                all.push(stretch.to_vec());
            } else {
                all.extend(stretch.iter().map(|&leaf| vec![leaf]));
            }
        }
    }
    all.sort_unstable();
    all
}

impl Fix {
    /// What arrives, and what is to be said about it if that is not all.
    pub(super) fn within_host(
        &self,
        prepared: &Prepared,
        host: Option<&HostBound>,
        rows: &BTreeSet<RowId>,
    ) -> (Range, Option<String>) {
        let saved = prepared.utilization.range_of_window(self.saved);
        let Some(host) = host else { return (saved, None) };
        if self.calls == Calls::Batched {
            let batches = batches(prepared, rows);
            if batches.iter().any(|batch| batch.len() > 1) {
                let text = "; calls one after another become one, and with them go their launches";
                return (host.clip_fusion(&self.batched(prepared, &batches)), Some(text.to_owned()));
            }
        }
        let mut leaves = leaves_of(prepared, rows).concat();
        leaves.sort_unstable();
        let kernels = || leaves.iter().flat_map(|&l| &prepared.program.leaves[l].kernels);
        let arrives = host.clip_range(self.saved, &kernels().map(|k| k.uid).collect::<Vec<_>>());
        // A window that is shorter without the profiler makes it a larger part, but no more time than there is.
        let arrives = Range::new(arrives.low.min(saved.low), arrives.high.min(saved.high));
        let lost = saved.high - arrives.high;
        let less = saved.low - arrives.low > 0.1 * saved.low || lost > 0.1 * saved.high;
        // Measured with six models whose host was the limit: from nothing to 1.4x. Where nothing is sure, as with group
        // norms, two more gained 1.5x and lost 1.7x: no reason to hope.
        if self.calls == Calls::WithoutTransposes && less && self.saved.low > 0.0 {
            let transposes: Vec<u32> = kernels().filter(|k| is_transpose(&k.name)).map(|k| k.uid).collect();
            let removed = host.clip_removal(&transposes).high;
            if removed > arrives.high {
                let text = "; where the GPU waits for launches, those of the transposes may go with them";
                return (Range::new(arrives.low, removed), Some(text.to_owned()));
            }
        }
        let text = || {
            let schedule = if host.is_limit() {
                "in the recorded schedule, where the GPU then waits for launches"
            } else {
                "where the GPU then waits for launches of a host without the profiler"
            };
            format!(
                "; of {} of kernel time so much is left {schedule}",
                shown_range_ms(self.saved.low, self.saved.high)
            )
        };
        // Of a change that saves nearly all, what is left tells more than what is saved.
        let total = prepared.utilization.total_time_ms;
        let left_over = |of: fn(Range) -> f64| (total - of(arrives)) > 1.1 * (total - of(saved));
        (arrives, (less || left_over(|r| r.low) || left_over(|r| r.high)).then(text))
    }

    fn batched(&self, prepared: &Prepared, batches: &[Vec<usize>]) -> Vec<Replacement> {
        let left = |saved: f64| 1.0 - (saved / self.time_ms.max(f64::MIN_POSITIVE)).min(1.0);
        let (best, worst) = (left(self.saved.high), left(self.saved.low));
        let replacement = |batch: &[usize]| {
            let of = || batch.iter().map(|&l| &prepared.program.leaves[l]);
            let ms: f64 = of().map(|l| l.us / 1e3).sum();
            Replacement {
                kernels: of().flat_map(|l| l.kernels.iter().map(|k| k.uid)).collect(),
                ms: Range::new(ms * best, ms * worst),
                launches: LAUNCHES,
                call_us: (0.0, STACKING_US),
                replaced: Replaced::Loop,
            }
        };
        batches.iter().map(|batch| replacement(&with_collector(prepared, batch))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Call, Scene};

    /// Sizes of what could be one call where both are launched in turns, some times the first before one of the second.
    fn sizes(firsts: usize, turns: usize) -> Vec<usize> {
        let types = r#"["c10::BFloat16", "c10::BFloat16"]"#;
        let kernel = [("gemm", 5.0)];
        let mut scene = Scene::new();
        for _ in 0..turns {
            scene.calls(firsts, &Call::new("aten::bmm", "[[64, 16, 32], [64, 32, 8]]", types, &kernel));
            scene.calls(1, &Call::new("aten::bmm", "[[64, 32, 16], [64, 16, 8]]", types, &kernel));
        }
        let prepared = scene.prepared();
        let rows: BTreeSet<RowId> = prepared.rows.iter().map(|r| r.id).collect();
        assert_eq!(rows.len(), 2);
        batches(&prepared, &rows).iter().map(Vec::len).collect()
    }

    #[test]
    fn only_calls_alike_become_one() {
        assert_eq!(sizes(1, 6), [1; 12], "the second may need what the first gives");
        assert_eq!(sizes(2, 3), [1; 9], "two in a row are no loop");
        assert_eq!(sizes(40, 2), [40, 1, 40, 1]);
    }
}

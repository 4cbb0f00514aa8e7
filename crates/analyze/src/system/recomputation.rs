//! The finding `recomputation`.
//!
//! **What it finds.** Forward work repeated in the backward pass by activation checkpointing.
//! **Why it matters.** It is work the step could do without, if memory allowed.
//! **How it is computed.** Leaves that the tree marks as recomputed; the recorded schedule run again without them.
//! **What to do.** Checkpoint fewer layers.
//! **Limits.** Host time of the checkpointing machinery outside of the repeated operations is not told from theirs; the
//! hopeful end adds a tenth for it, and as much again where the host is the limit.

use jarvis_trace::Ns;

use super::findings::{Cx, Draft, Judged};
use super::host_bound::Limit;
use super::severity::Severity;
use super::texts::{counted, list, quoted};
use crate::finding::{Evidence, PatternId, Range};
use crate::program::{Leaf, Program};
use crate::rounding::{shown, shown_ms};

/// Recomputed kernels in percent of the window: never critical or high by itself, since it is a choice.
const SHARES: [f64; 4] = [f64::INFINITY, f64::INFINITY, 5.0, 1.0];

/// Checkpointing fewer layers brings at least this share of it.
const AT_LEAST: f64 = 0.3;

/// What keeps and finds the values goes too at the hopeful end, so much of it all: it is kernels where the GPU is the
/// limit, and calls around every value where the host is. In three recordings of such hosts it was 0.5 to 0.9.
const MACHINERY: f64 = 0.1;
const MACHINERY_OF_HOST: f64 = 1.0;

/// Forward work repeated in the backward pass.
pub(crate) fn recomputation(cx: &Cx<'_>, program: &Program) -> Option<Judged> {
    let leaves: Vec<&Leaf> = program.leaves.iter().filter(|l| l.is_repeated).collect();
    let us: f64 = leaves.iter().map(|l| l.us).sum();
    let time = Ns((us * 1e3).round() as i64);
    let kernels: Vec<u32> = leaves.iter().flat_map(|l| l.kernels.iter().map(|k| k.uid)).collect();
    let removed = cx.system.host.clip_removal(&kernels);
    // Where the host is the limit, the launches cost more than the kernels.
    let percent = 100.0 * removed.high.max(time.as_ms()) / cx.system.gaps.window.as_ms();
    let severity = Severity::above(percent, SHARES);
    if leaves.is_empty() || severity == Severity::Acceptable {
        return None;
    }
    let is_host = cx.system.host.limit != Limit::Gpu;
    let (machinery, more) = if is_host { (MACHINERY_OF_HOST, "as much again") } else { (MACHINERY, "a tenth more") };
    // All other kernels still have to run.
    let most = (cx.system.gaps.window - cx.system.gaps.busy + time).as_ms();
    let high = ((1.0 + machinery) * removed.high).min(most).max(removed.high);
    let mut modules: Vec<&str> = leaves.iter().filter_map(|l| l.module).map(|m| &*program.module(m).base).collect();
    modules.sort_unstable();
    modules.dedup();
    let draft = Draft {
        pattern: PatternId::RECOMPUTATION,
        category: "recomputation",
        severity,
        title: "Forward work is repeated in the backward pass".to_owned(),
        issue: format!(
            "{} ms of forward work is repeated in the backward pass (activation checkpointing): {}{}.",
            shown_ms(time.as_ms()),
            counted(leaves.len(), "operation"),
            if modules.is_empty() { String::new() } else { format!(" in {}", list(modules, 3)) }
        ),
        operations: Vec::new(),
        time,
        saved_ms: Range::new(AT_LEAST * removed.low, high),
        basis: format!(
            "The recorded schedule run again without these {} kernels and the host time of their launches: up to {} \
             ms, {}% of the window; low is 30% of the least of it, for fewer checkpointed layers, high {more} for \
             keeping the values, as far as other kernels leave room.",
            kernels.len(),
            shown_ms(removed.high),
            shown(100.0 * removed.high / cx.system.gaps.window.as_ms(), 1)
        ),
        algorithmic: vec![
            "Checkpoint fewer layers if memory allows; this trades memory for the time above.".to_owned(),
        ],
        kernel: Vec::new(),
        evidence: leaves
            .iter()
            .take(3)
            .map(|l| Evidence {
                table: "ops_summary".to_owned(),
                row: l.name.to_string(),
                uid: Some(l.uid),
                fact: format!("{} runs again under checkpointing, {} us", quoted(&l.name), shown(l.us, 1)),
            })
            .collect(),
    };
    Some(draft.finish(cx))
}

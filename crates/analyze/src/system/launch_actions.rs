//! What can be done about late launches, for the findings and for the patterns of the idle page alike: what is compiled
//! is not to be compiled, and what is replayed from a GPU graph is not to be captured.

use std::sync::Arc;

use super::System;
use super::cpu_idle::SHORT_PERCENT;
use super::findings::Cx;
use super::gaps::GapClass;
use super::texts::list;
use crate::rounding::shown_ms;

/// Memory calls above this share of the idle time, in percent, are spoken of.
const ALLOCATION_OF_IDLE: f64 = 10.0;

/// Above this share they are the first thing to change.
const MOSTLY_MEMORY: f64 = 50.0;

/// With this share of the late time, in percent, the optimizer is what launches too much.
const OPTIMIZER_OF_LATE: f64 = 50.0;

/// Above this share of its time in compiled code, the host gains nothing from compiling.
const MOSTLY_COMPILED: f64 = 0.5;

pub(super) const FUSED_OPTIMIZER: &str = "Use the fused variant of the optimizer (`fused=True`), or `foreach=True` where it has none: most late launches are its.";

/// Whether most of what the host does or launches is compiled code.
fn is_compiled(system: &System) -> bool {
    system.host.compiled_share > MOSTLY_COMPILED || system.kernels.mostly_compiled()
}

/// Whether compiling may help. Nothing is known of the operations in a GPU graph.
pub(super) fn can_be_compiled(system: &System) -> bool {
    !is_compiled(system) && !system.kernels.mostly_replayed()
}

/// Whether the optimizer is what launches too much.
pub(super) fn is_optimizers(cx: &Cx<'_>) -> bool {
    super::gaps::percent(cx.system.gaps.in_optimizer.time, cx.system.gaps.late()) > OPTIMIZER_OF_LATE
}

/// What to do about many or short kernels, if anything is left to do: to fuse them, named as `fused`, or to replay them.
pub(super) fn fewer_launches(system: &System, fused: &str) -> Option<String> {
    let fuse = can_be_compiled(system).then(|| format!("fuse {fused} with `torch.compile`"));
    let replay = (!system.kernels.mostly_replayed()).then(|| "replay a GPU graph".to_owned());
    let actions: Vec<String> = fuse.into_iter().chain(replay).collect();
    (!actions.is_empty()).then(|| actions.join(", or "))
}

/// What to do about host code before late launches.
pub(super) fn less_host_time(system: &System) -> String {
    let replayed = system.kernels.mostly_replayed();
    match (can_be_compiled(system), replayed) {
        (true, _) => "cut host time per operation with `torch.compile` or a GPU graph",
        (false, false) => "replay a GPU graph, or overlap host work with the GPU",
        (false, true) => "overlap host work with the GPU, or give each launch more work",
    }
    .to_owned()
}

/// What a finding about late launches advises.
pub(super) fn launch_actions(cx: &Cx<'_>) -> Vec<String> {
    let (system, gaps) = (cx.system, &cx.system.gaps);
    let mut actions = Vec::new();
    if is_optimizers(cx) {
        actions.push(FUSED_OPTIMIZER.to_owned());
    }
    if let Some(first) = gaps.slow_first_calls().filter(|first| first.go_on()) {
        let names = first.shown_names();
        actions.push(format!(
            "Keep to few shapes, padded or sorted into buckets, so that first calls ({names}) are rare."
        ));
    }
    let memory = memory_action(cx);
    // What goes round can surely go.
    let mostly_memory = gaps.memory_calls.go_round(gaps.steps)
        || super::gaps::percent(gaps.class(GapClass::HostAlloc).time, gaps.idle()) > MOSTLY_MEMORY;
    actions.extend(memory.clone().filter(|_| mostly_memory));
    actions.extend(capture_action(system));
    if can_be_compiled(system) {
        // Where kernels are long, none is too small to be launched by itself.
        let fuse = if system.kernels.short_percent() > SHORT_PERCENT { "Fuse small kernels and cut" } else { "Cut" };
        actions.push(format!("{fuse} host time per operation with `torch.compile`."));
    }
    actions.push("Overlap host work with the GPU, or give each launch more work with larger batches.".to_owned());
    actions.extend(memory.filter(|_| !mostly_memory));
    if !gaps.has_frames {
        actions.push("Record with `with_stack=True` to see which Python code the launches wait for.".to_owned());
    } else if is_compiled(system) {
        actions.push(
            "Record once more without `with_stack`: recorded frames slow the launchers of compiled code down several \
             times, and without them the trace shows how fast the host is."
                .to_owned(),
        );
    }
    actions
}

/// What to do about memory calls, if a good part of the idle time passes in them.
pub(super) fn memory_action(cx: &Cx<'_>) -> Option<String> {
    let (gaps, memory) = (&cx.system.gaps, cx.system.gaps.class(GapClass::HostAlloc));
    let ms = shown_ms(memory.time.as_ms());
    let calls = gaps.memory_calls;
    (super::gaps::percent(memory.time, gaps.idle()) > ALLOCATION_OF_IDLE).then(|| {
        if calls.go_round(gaps.steps) {
            format!(
                "Keep memory from going back to the driver in every step ({} calls give it back, {} ask for it again; {ms} \
                 ms of idle time pass in them): take `torch.cuda.empty_cache()` out of the step, and where memory is \
                 short set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`.",
                calls.given_back, calls.got
            )
        } else {
            format!("Reuse buffers and avoid allocation inside the step: {ms} ms of idle time pass in it.")
        }
    })
}

/// To capture the step, unless graphs are replayed already. What waits within it keeps it from being captured, however
/// little the wait itself costs.
fn capture_action(system: &System) -> Option<String> {
    let waits = &system.gaps.mid_step_waits;
    let how = "in a GPU graph (`torch.compile(mode=\"reduce-overhead\")` or `torch.cuda.graph`)";
    let names = list(waits.iter().map(|w| &*w.name), 3);
    let places = places(waits.iter().flat_map(|w| &w.callers));
    let at = if places.is_empty() { String::new() } else { format!(", called from {places}") };
    match (system.kernels.mostly_replayed(), waits.is_empty()) {
        (true, true) => None,
        (true, false) => Some(format!("Remove the synchronizations within the step ({names}{at}).")),
        (false, true) => Some(format!("Capture the step {how}.")),
        (false, false) => Some(format!(
            "Remove the synchronizations within the step ({names}{at}), which can't be captured, then capture it {how}."
        )),
    }
}

/// Places in the user's code, each once.
pub(super) fn places<'a>(callers: impl Iterator<Item = &'a Arc<str>>) -> String {
    let mut distinct: Vec<&str> = Vec::new();
    for caller in callers {
        if !distinct.contains(&&**caller) {
            distinct.push(caller);
        }
    }
    list(distinct, 3)
}

//! Findings about copies and communication: `blocking_copies`, `exposed_communication`.
//!
//! **What it finds.** Time in which the GPU only copies to or from the host, or only communicates.
//! **Why it matters.** That time is lost for computation although the GPU has other units for it.
//! **How it is computed.** Exposed time by interval arithmetic ([`super::copies`], [`super::communication`]); what hidden
//! copies bring by running the recorded schedule again without them.
//! **What to do.** Pin, copy ahead, copy less; overlap collectives or make them smaller.
//! **Limits.** One rank does not show how long a collective waited for the others, so its saving is the widest guess here.

use jarvis_trace::{Clock, Ns};

use super::communication::{Collective, UNNAMED};
use super::copies::{CopyOperation, DirectionCopies};
use super::direction::CopyDirection;
use super::findings::{Cx, Draft, Judged, timeline_evidence};
use super::gaps::GapClass;
use super::severity::{EXPOSED, Severity};
use super::texts::{SINGLE_RANK, bytes, counted, list, ms_and_percent, quoted};
use crate::finding::{Evidence, FindingOperation, PatternId, Range};
use crate::program::{Direction, Program};
use crate::rounding::shown_ms;

/// Exposed copies in percent of the window: critical, high, medium, low.
const COPIES: [f64; 4] = [10.0, 5.0, 2.0, 1.0];

/// Overlapping more brings at least this share of what could be hidden: not all computation can be moved beside
/// communication.
const OVERLAP_AT_LEAST: f64 = 0.3;

/// Smaller or fewer messages take at best this share of the exposed communication away.
const SMALLER_MESSAGES: f64 = 0.5;

/// Most operations and collectives of a finding.
const ROWS: usize = 5;

/// Host-device copies that nothing overlaps.
pub(crate) fn blocking_copies(cx: &Cx<'_>) -> Option<Judged> {
    let copies = &cx.system.copies;
    let ways = [CopyDirection::DeviceToHost, CopyDirection::HostToDevice].map(|d| (d, copies.direction(d)));
    let exposed = copies.host_exposed;
    let behind = cx.system.gaps.behind_copies;
    let mut severity = Severity::above(cx.percent(exposed + behind.time), COPIES);
    // Copies of pinned memory that nobody waits for do not hold the host up; what is left is to overlap them, which
    // takes other work to do meanwhile.
    if ways.iter().all(|(_, sum)| is_asynchronous(sum)) {
        severity = severity.max(Severity::Medium);
    }
    let saved_ms = copies.saved_ms.filter(|_| severity.is_card())?;
    let time = exposed + behind.time;
    let late = other_late_launches(cx);
    let saved_ms = Range::new(saved_ms.low, saved_ms.high.min((time + late).ms()));
    // A host that is not held up by copies is ahead of where it was.
    let ahead = if saved_ms.high > time.ms() {
        format!(
            " A host that neither copies nor waits for copies also comes earlier to other launches: {} ms of idle time \
             pass before late ones.",
            shown_ms(late.ms())
        )
    } else {
        String::new()
    };
    let mut parts: Vec<String> = Vec::new();
    for (direction, sum) in ways.iter().filter(|(_, sum)| sum.count > 0) {
        let way = if *direction == CopyDirection::DeviceToHost { "device to host" } else { "host to device" };
        let what = if sum.count == 1 { "copy" } else { "copies" };
        let pinned = if sum.pageable == 0 {
            String::new()
        } else {
            format!(", {} from or to memory that is not pinned", sum.pageable)
        };
        parts.push(format!(
            "{} {what} from {way} ({}, {} ms, {} ms exposed, {} waited for{pinned})",
            sum.count,
            bytes(sum.bytes),
            shown_ms(sum.time.ms()),
            shown_ms(sum.exposed.ms()),
            sum.waited_for,
        ));
    }
    let both_ways = ways.iter().map(|(_, sum)| sum.exposed).sum::<Ns>() - exposed;
    let at_once = if both_ways > Ns(0) {
        format!("; {} ms of both ways at once count once", shown_ms(both_ways.ms()))
    } else {
        String::new()
    };
    let (least, most) = cx.system.host.slowdown();
    let relieved = if ways.iter().any(|(_, sum)| sum.pageable > 0) {
        ", and a host that is faster elsewhere where it no longer copies itself"
    } else {
        ""
    };
    let u = cx.utilization;
    let mut evidence =
        vec![timeline_evidence(cx, "exposed_memcpy_time", u.exposed_memcpy_time_ms, u.exposed_memcpy_time_percent)];
    evidence.extend(copies.operations.iter().take(ROWS).map(copy_evidence));
    let draft = Draft {
        pattern: PatternId::BLOCKING_COPIES,
        category: "multi_kernel",
        severity,
        title: "Copies between host and device that nothing hides".to_owned(),
        issue: format!(
            "{}: {} with nothing else on the GPU{}{at_once}.{ahead}",
            parts.join("; "),
            ms_and_percent(time.ms(), cx.percent(time)),
            if time > exposed { ", gaps after them included" } else { "" }
        ),
        operations: copies.operations.iter().take(ROWS).map(operation).collect(),
        time,
        saved_ms,
        basis: format!(
            "The recorded schedule run again for a profiler that slowed the host down {least} to {most} times: low \
             with unpinned copies at 25 GB/s and pinned ones half hidden, high with all of them hidden and not waited \
             for, as far as a link of 60 GB/s allows and pinned ones as fast as they are{relieved}.",
        ),
        algorithmic: copy_actions(cx),
        kernel: Vec::new(),
        evidence,
    };
    Some(draft.finish(cx))
}

/// Gaps before late launches that are neither the input's nor follow a wait within a step.
fn other_late_launches(cx: &Cx<'_>) -> Ns {
    let classes = [GapClass::HostWork, GapClass::HostIdle, GapClass::HostAlloc, GapClass::StepSync];
    classes.into_iter().map(|class| cx.system.gaps.class(class).time).sum()
}

/// Whether the host neither copies itself nor waits: pinned memory, and nothing that asks for the result.
fn is_asynchronous(copies: &DirectionCopies) -> bool {
    copies.pageable == 0 && copies.waited_for == 0
}

fn copy_actions(cx: &Cx<'_>) -> Vec<String> {
    let copies = &cx.system.copies;
    // Operations are known only where their launches were recorded.
    let by = |direction| {
        let of = copies.operations.iter().filter(move |o| o.direction == direction);
        let names = list(of.map(|o| &*o.name), 3);
        if names.is_empty() { names } else { format!(" (launched by {names})") }
    };
    let mut actions = Vec::new();
    let to_host = copies.direction(CopyDirection::DeviceToHost);
    if to_host.exposed > Ns(0) && is_asynchronous(to_host) {
        actions.push(format!(
            "Let computation of the next step go on beside these copies{}; where they take longer than it, copy less: \
             smaller types, or results kept on the device.",
            by(CopyDirection::DeviceToHost)
        ));
    } else if to_host.exposed > Ns(0) {
        actions.push(format!(
            "Keep data on the device, batch host reads and look at `.item()` and `.cpu()`{}; copy \
             results into pinned buffers with `non_blocking=True` on a stream of their own.",
            by(CopyDirection::DeviceToHost)
        ));
    }
    let to_device = copies.direction(CopyDirection::HostToDevice);
    if to_device.exposed > Ns(0) && is_asynchronous(to_device) {
        actions.push(format!(
            "Begin these copies{} a step ahead so that computation hides them; where they take longer than \
             it, copy less: smaller types, or data kept on the device.",
            by(CopyDirection::HostToDevice)
        ));
    } else if to_device.exposed > Ns(0) {
        actions.push(format!(
            "Pin host memory (`pin_memory=True`), pre-allocate, and let the copies{} run asynchronously \
             (`non_blocking=True`) on a stream of their own while the batch before is computed.",
            by(CopyDirection::HostToDevice)
        ));
    }
    // What costs more is said first: some readers see no other.
    if to_device.exposed > to_host.exposed {
        actions.reverse();
    }
    let all = || copies.operations.iter();
    if 2.0 * all().map(|o| o.of_modules.ms()).sum::<f64>() > all().map(|o| o.time.ms()).sum() {
        let moved = "Most of it is parameters of modules that change devices (`Module.to`): keep the modules on the \
                     device; where they don't fit, keep them in pinned memory and copy the next one ahead on a stream of its \
                     own, and copy nothing back that did not change.";
        actions.insert(0, moved.to_owned());
    }
    actions
}

fn operation(o: &CopyOperation) -> FindingOperation {
    FindingOperation {
        name: o.name.to_string(),
        uid: o.example,
        count: o.count,
        input_dims: serde_json::Value::Null,
        input_types: serde_json::Value::Null,
        time_ms: o.time.ms(),
        efficiency_percent: None,
        bound: None,
        module: None,
    }
}

fn copy_evidence(o: &CopyOperation) -> Evidence {
    Evidence {
        table: "multi_kernel_data.json".to_owned(),
        row: format!("memcpy_summary.by_direction {}", o.direction.as_str()),
        uid: Some(o.example),
        fact: format!(
            "{} copies {} in {}, {} ms",
            quoted(&o.name),
            bytes(o.bytes),
            counted(o.count, "call"),
            shown_ms(o.time.ms())
        ),
    }
}

/// What hides collectives where a backward pass makes gradients, which nothing awaits before the next step.
const OF_GRADIENTS: [&str; 2] = [
    "Overlap collectives with computation: gradient buckets that start during the backward pass, a stream of their own.",
    "Reduce the message size: fewer or lower-precision gradients, accumulation over several steps.",
];

/// The same in inference, where what follows needs their results.
const OF_INFERENCE: [&str; 2] = [
    "Split the batch in two where it is large enough, so that one half computes while the other communicates: what follows \
     a collective needs its result.",
    "Reduce the message size or its latency: lower precision, kernels for small messages, fewer collectives for each layer.",
];

/// Collectives that nothing overlaps.
pub(crate) fn exposed_communication(cx: &Cx<'_>, program: Option<&Program>) -> Option<Judged> {
    let c = &cx.system.communication;
    let percent = cx.percent(c.exposed);
    let severity = Severity::above(percent, EXPOSED);
    if !severity.is_card() {
        return None;
    }
    let free = c.free_computation().min(c.exposed);
    let high = free.ms().max(SMALLER_MESSAGES * c.exposed.ms());
    let u = cx.utilization;
    let mut evidence =
        vec![timeline_evidence(cx, "exposed_comm_time", u.exposed_comm_time_ms, u.exposed_comm_time_percent)];
    // The sheet has those that the timeline counts and that have a name.
    let has_sheet = |c: &Collective| u.total_comm_time_ms > 0.0 && &*c.name != UNNAMED;
    evidence.extend(c.collectives.iter().take(ROWS).map(|c| {
        let (table, row) = if has_sheet(c) {
            ("coll_analysis", c.name.to_string())
        } else {
            ("multi_kernel_data.json", "nccl_summary".to_owned())
        };
        Evidence { table: table.to_owned(), row, uid: Some(c.example), fact: collective_line(c) }
    }));
    let has = |d: Direction| program.is_some_and(|p| p.leaves.iter().any(|l| l.direction == d));
    let infers = has(Direction::Forward) && !has(Direction::Backward) && !has(Direction::Optimizer);
    let (least, of_least) = if infers {
        (0.0, "nothing if what follows needs their results")
    } else {
        (OVERLAP_AT_LEAST, "low if they hid 30% of it")
    };
    let actions = if infers { OF_INFERENCE } else { OF_GRADIENTS };
    let draft = Draft {
        pattern: PatternId::EXPOSED_COMMUNICATION,
        category: "multi_kernel",
        severity,
        title: "Collective communication that no computation hides".to_owned(),
        issue: format!(
            "{} of collective communication goes on with no computation beside it; computation hides {}% of {} ms. \
             {SINGLE_RANK}",
            ms_and_percent(c.exposed.ms(), percent),
            crate::rounding::shown(100.0 * c.overlap_ratio(), 1),
            shown_ms(c.covered.ms())
        ),
        operations: Vec::new(),
        time: c.exposed,
        saved_ms: Range::new(least * free.ms(), high),
        basis: format!(
            "{} ms of computation hide no communication yet: high if they hid all they can ({} ms exposed) or messages \
             took half the time, {of_least}; how much of it is waiting for other ranks is not known.",
            shown_ms(c.free_computation().ms()),
            shown_ms(c.exposed.ms())
        ),
        algorithmic: actions.into_iter().chain(["Check topology and configuration."]).map(str::to_owned).collect(),
        kernel: Vec::new(),
        evidence,
    };
    Some(draft.finish(cx))
}

fn collective_line(c: &Collective) -> String {
    let group = c.group_size.map_or_else(String::new, |n| format!(" over {n} ranks"));
    let dtype = c.dtype.as_deref().unwrap_or("unknown type");
    let size = c.message_bytes.map_or_else(|| "unknown size".to_owned(), bytes);
    format!("{}{group}, {dtype}, {size}: {}, {} ms", quoted(&c.name), counted(c.count, "call"), shown_ms(c.time.ms()))
}

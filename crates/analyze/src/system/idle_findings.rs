//! Findings about idle time: `launch_bound`, `host_sync`, `input_starved`.
//!
//! **What it finds.** Launches that come late, waits of the host in the middle of a step, input that is not there.
//! **Why it matters.** While the GPU waits for the host, no kernel can be fast enough to help.
//! **How it is computed.** Gaps are charged by [`super::gaps`]; input is what loaders do, known by their names, and what a
//! step does for half a millisecond or more before the copy to the device that it begins with. What a change brings is the
//! recorded schedule run again with it, at both ends of what the profiler may have cost ([`super::host_bound`]). Where the
//! host reads flags (`any`, `all`), what makes them goes with the reads at the hopeful end ([`super::flags`]). Small copies
//! to the device that directly follow others go with these ([`super::small_copies`]). Where the program can be compiled,
//! launches issued at once leave one pass of kernels in a row over as many elements there, and no layout changes around
//! convolutions ([`super::compiled`]). Calls that are the first with their arguments and take more than ten times as long
//! as is usual, and compiling, are told apart ([`super::first_calls`]).
//! **What to do.** Issue less or at once, don't wait, load ahead.
//! **Limits.** A trace shows that a launch came late, not what the host could do faster; a program that can be neither
//! compiled nor captured gains less than the low end.

use jarvis_trace::{InOrder, Ns};

use super::cpu_idle::ACTIVITY_ROWS;
use super::findings::{Cx, Draft, Judged, WIDEST, timeline_evidence};
use super::gaps::{GapClass, Gaps, HostActivity, MidStepWait, Tally};
use super::host_bound::{Fix, HostBound, Limit};
use super::launch_actions::{FUSED_OPTIMIZER, can_be_compiled, is_optimizers, launch_actions, memory_action, places};
use super::severity::{EXPOSED, IDLE, Severity};
use super::texts::{counted, list, ms_and_percent, quoted, short};
use super::{compiled, flags, selections, small_copies};
use crate::finding::{Evidence, FindingOperation, PatternId, Range};
use crate::program::Program;
use crate::rank::SURE_GAIN;
use crate::rounding::{shown, shown_ms};

/// Late launches have to make up this share of the window and of the idle time, in percent, to be its cause.
const LATE_OF_WINDOW: f64 = 5.0;
const LATE_OF_IDLE: f64 = 25.0;

/// A speed-up below this is none.
const NOTICEABLE: f64 = 1.05;
/// From this speed-up on, reached even at the cautious end, idle time is worth a change whoever makes it.
const SURE: f64 = 1.02;

/// Waits in the middle of a step: how many there have to be in each.
const WAITS_PER_STEP: usize = 2;

/// Gaps after waits have to make up this share of the window, in percent.
const WAITS_OF_WINDOW: f64 = 2.0;

/// With this share of all late time, in percent, waits cut the program to pieces: what lies between them can only be
/// compiled or captured once they are gone, and a host without them may be faster all over. In measured pairs that was
/// so with shares of 6.7 to 75 %, so with less of it as much less is said.
const WAITS_OF_LATE: f64 = 6.5;

/// Of what copies take that go with another, this part is saved at least: the host still has to put their tensors together.
/// In two measured pairs, where that had been done ahead, a step took a twentieth of its time.
const PUT_TOGETHER: f64 = 0.8;

/// First calls with this share of the gaps after waits, in percent, are what takes the time, and not the waits.
const FIRST_OF_WAITS: f64 = 50.0;

/// Input has to make up this share of the window, in percent.
const INPUT_OF_WINDOW: f64 = 5.0;

/// Above this share of the window, in percent, the recording is of the start of a run and says little about the rest.
const MOSTLY_START: f64 = 50.0;

/// Most operations of a finding.
const OPERATIONS: usize = 5;

/// Late launches that are neither a wait's nor the input's.
fn late_launches(cx: &Cx<'_>) -> Tally {
    let classes = [GapClass::HostWork, GapClass::HostIdle, GapClass::HostAlloc];
    let gaps = &cx.system.gaps;
    let mut late = classes
        .into_iter()
        .map(|c| gaps.class(c))
        .fold(Tally::default(), |sum, t| Tally { count: sum.count + t.count, time: sum.time + t.time });
    let first = &gaps.first_calls;
    if first.at_start() > Ns(0) {
        late.time = late.time - (first.time - first.after_waits - first.after_steps);
        return late;
    }
    if gaps.slow_first_calls().is_some() {
        late.time = late.time + first.after_steps;
    }
    if waits_in_first_calls(cx) {
        late.time = late.time + first.after_waits;
    }
    late
}

/// Whether what follows waits in the middle of a step is mostly time of first calls: it is not the waits that take it.
fn waits_in_first_calls(cx: &Cx<'_>) -> bool {
    let gaps = &cx.system.gaps;
    super::gaps::percent(gaps.first_calls.after_waits, gaps.class(GapClass::HostSync).time) > FIRST_OF_WAITS
}

/// The GPU waits because the host can't issue work fast enough.
pub(crate) fn launch_bound(cx: &Cx<'_>, waits: Option<&Judged>, program: Option<&Program>) -> Option<Judged> {
    let (gaps, host) = (&cx.system.gaps, &cx.system.host);
    let late = late_launches(cx);
    let idle = gaps.idle_of_program_percent();
    let at_start = gaps.first_calls.at_start();
    let no_part = at_start + gaps.in_profiler.time;
    let of_idle = super::gaps::percent(late.time, gaps.idle() - no_part);
    let of_window = super::gaps::percent(late.time, gaps.window - no_part);
    if idle <= cx.system.card_percent || of_window < LATE_OF_WINDOW || of_idle < LATE_OF_IDLE {
        return None;
    }
    if host.limit == Limit::Gpu {
        return None;
    }
    let (before, less, graph) = match waits {
        Some(_) => (Some(Fix::NoReads), Fix::NoReadsCompiled, Fix::NoReadsGraph),
        None => (None, Fix::Compiled, Fix::Graph),
    };
    let mut saved_ms = host.saved(before, [less, graph]);
    let spared = program.filter(|_| can_be_compiled(cx.system)).map(compiled::spared).unwrap_or_default();
    if !spared.is_empty() {
        saved_ms.high = saved_ms.high.max(host.most_saved_with(before, graph, &spared));
    }
    if saved_ms.speedup(gaps.window.as_ms()).high < NOTICEABLE {
        return None;
    }
    let mut severity = Severity::above(idle, IDLE);
    if host.limit == Limit::HostWhileProfiled {
        severity = severity.milder();
    }
    if is_optimizers(cx) {
        severity = severity.milder();
    }
    // However mild: so much idle time, of which a part surely goes, is worth a change.
    if Severity::above(idle, IDLE).is_card() && saved_ms.speedup(gaps.window.as_ms()).low >= SURE {
        severity = severity.min(Severity::Medium);
    }
    if super::gaps::percent(at_start, gaps.window) > MOSTLY_START {
        severity = severity.milder();
    }
    if let Some((worst, _)) = waits.filter(|_| cut_by_waits(cx) >= 1.0) {
        severity = severity.max(worst.milder());
    }
    let draft = Draft {
        pattern: PatternId::LAUNCH_BOUND,
        category: "cpu_idle",
        severity,
        title: "The GPU waits for launches".to_owned(),
        issue: launch_issue(cx, late),
        operations: Vec::new(),
        time: late.time,
        saved_ms,
        basis: launch_basis(cx, waits.is_some(), !spared.is_empty()),
        algorithmic: launch_actions(cx),
        kernel: Vec::new(),
        evidence: launch_evidence(cx),
    };
    Some(draft.finish(cx))
}

fn launch_issue(cx: &Cx<'_>, late: Tally) -> String {
    let kernels = &cx.system.kernels;
    let mut issue = format!(
        "{} of {} ms idle time passes before {} that {} late; {}.",
        shown_ms(late.time.as_ms()),
        shown_ms(cx.system.gaps.idle().as_ms()),
        if late.count == 1 { "1 launch".to_owned() } else { format!("{} launches", late.count) },
        if late.count == 1 { "comes" } else { "come" },
        kernels.short_told()
    );
    if let Some(first) = cx.system.gaps.slow_first_calls() {
        let (part, rest) =
            if first.go_on() { ("of it pass", "") } else { ("more pass", "; they are not counted here") };
        issue += &format!(
            " {} ms {part} in calls ({}) that are the first with their arguments and take the host far longer than \
             later ones{rest}.",
            shown_ms(first.time.as_ms()),
            first.shown_names()
        );
    }
    if cx.system.host.limit == Limit::HostWhileProfiled {
        let most = cx.system.host.slowdown().1;
        issue += &format!(" A host {most} times faster, as it may be without the profiler, would keep the GPU busy.");
    }
    issue
}

fn launch_basis(cx: &Cx<'_>, after_waits: bool, fused: bool) -> String {
    let (least, most) = cx.system.host.slowdown();
    let idle = ms_and_percent(cx.utilization.idle_time_ms, cx.utilization.idle_time_percent);
    let state = if after_waits { ", the host's waits removed," } else { "" };
    let memory = if memory_action(cx).is_some() { " and memory calls as they are" } else { "" };
    let kernels = if fused { " and one pass for elementwise kernels in a row" } else { "" };
    format!(
        "The recorded schedule{state} run again for a profiler that slowed the host down {least} to {most} times: low \
         with 45% less host time between launches{memory}, high with each step issued at once{kernels}; idle time is {idle}.",
    )
}

/// Gaps that slow launching explains.
const LAUNCH_GAPS: [GapClass; 4] = [GapClass::HostWork, GapClass::HostIdle, GapClass::HostAlloc, GapClass::LaunchQueue];

fn launch_evidence(cx: &Cx<'_>) -> Vec<Evidence> {
    let u = cx.utilization;
    let mut evidence = vec![timeline_evidence(cx, "idle_time", u.idle_time_ms, u.idle_time_percent)];
    for class in LAUNCH_GAPS {
        evidence.extend(class_evidence(cx, class));
    }
    evidence.extend(activity_evidence(cx));
    evidence.extend(position_evidence(cx, |class| LAUNCH_GAPS.contains(&class)));
    evidence
}

/// Where `cpu_idle_metrics.json` tells what the host did.
const ACTIVITIES: &str = "gap_analysis.by_host_activity";

fn class_row(class: GapClass) -> String {
    format!("gap_analysis.by_class {}", class.as_str())
}

fn class_evidence(cx: &Cx<'_>, class: GapClass) -> Option<Evidence> {
    let tally = cx.system.gaps.class(class);
    (tally.count > 0).then(|| Evidence {
        table: "cpu_idle_metrics.json".to_owned(),
        row: class_row(class),
        uid: None,
        fact: format!("`{}`: {}, {} ms", class.as_str(), counted(tally.count, "gap"), shown_ms(tally.time.as_ms())),
    })
}

/// What the host was in most while the GPU waited, of what the file lists. Only the time that an operation covers
/// counts: one that ends as a long gap begins did not take that gap.
fn activity_evidence(cx: &Cx<'_>) -> impl Iterator<Item = Evidence> {
    let mut listed: Vec<&HostActivity> = cx.system.gaps.activities.iter().take(ACTIVITY_ROWS).collect();
    listed.retain(|a| a.covered.time > Ns(0));
    listed.order_by(|a, b| b.covered.time.cmp(&a.covered.time).then_with(|| a.name.cmp(&b.name)));
    listed.into_iter().take(3).map(|a| Evidence {
        table: "cpu_idle_metrics.json".to_owned(),
        row: format!("{ACTIVITIES} {}", a.name),
        uid: Some(a.example),
        fact: format!(
            "the host is in {} during {} ms of idle time ({})",
            quoted(&short(&a.name)),
            shown_ms(a.covered.time.as_ms()),
            counted(a.covered.count, "gap")
        ),
    })
}

/// Where the longest gaps are, as a trace viewer wants it.
fn position_evidence(cx: &Cx<'_>, of: impl Fn(GapClass) -> bool) -> impl Iterator<Item = Evidence> {
    cx.system.gaps.longest.iter().zip(1..).filter(move |(gap, _)| of(gap.class)).take(3).map(|(gap, rank)| Evidence {
        table: "cpu_idle_metrics.json".to_owned(),
        row: format!("gap_analysis.top_gaps {rank}"),
        uid: Some(gap.after_uid),
        fact: format!(
            "at {} ms from the first event of the trace the GPU waits {} us before {} (`{}`)",
            shown(gap.position.as_ms(), 3),
            shown(gap.length.as_us(), 1),
            quoted(&short(&gap.after_kernel)),
            gap.class.as_str()
        ),
    })
}

/// Gaps after waits in the middle of a step.
fn mid_step_waits(cx: &Cx<'_>) -> Tally {
    cx.system
        .gaps
        .waiting_operations
        .iter()
        .fold(Tally::default(), |sum, o| Tally { count: sum.count + o.gaps.count, time: sum.time + o.gaps.time })
}

/// How far they cut the program to pieces, from not at all to wholly: there have to be several in each step.
fn cut_by_waits(cx: &Cx<'_>) -> f64 {
    let waits = mid_step_waits(cx);
    let of_late = super::gaps::percent(waits.time, cx.system.gaps.late());
    if waits.count < WAITS_PER_STEP * cx.system.gaps.steps { 0.0 } else { (of_late / WAITS_OF_LATE).min(1.0) }
}

/// The host waits for the GPU in the middle of a step and the GPU then runs dry.
pub(crate) fn host_sync(cx: &Cx<'_>, program: Option<&Program>) -> Option<Judged> {
    let (gaps, host) = (&cx.system.gaps, &cx.system.host);
    let waits = mid_step_waits(cx);
    if waits.count == 0 || waits_in_first_calls(cx) {
        return None;
    }
    let removed = host.saved_without_waits(0.0);
    let often = waits.count >= WAITS_PER_STEP * gaps.steps && cx.percent(waits.time) >= WAITS_OF_WINDOW;
    if !often && removed.speedup(gaps.window.as_ms()).high < NOTICEABLE {
        return None;
    }
    let cut = cut_by_waits(cx);
    let saved_ms = host.saved_without_waits(cut);
    let flags = program.map(flags::kernels).unwrap_or_default();
    let mut copies = program.map(small_copies::following).unwrap_or_default();
    // Fewer are not what the host waits for.
    if 2 * copies.len() < waits.count {
        copies.clear();
    }
    let going = [&*flags, &copies].concat();
    let at_least = if copies.is_empty() { 0.0 } else { PUT_TOGETHER * host.clip_removal(&copies).low };
    let saved_ms = Range::new(saved_ms.low.max(at_least), saved_ms.high.max(host.most_without_flags(&going, cut)));
    let mut severity = Severity::above(cx.percent(waits.time), EXPOSED);
    let idle = gaps.idle_of_program_percent();
    if idle > cx.system.card_percent {
        severity = severity.min(Severity::above(cut * idle, IDLE));
    }
    // What surely brings much is urgent however short the gaps right after the waits are.
    if 100.0 * saved_ms.low >= SURE_GAIN * gaps.window.as_ms() {
        severity = severity.min(Severity::High);
    }
    if is_optimizers(cx) {
        severity = severity.milder();
    }
    let names = list(gaps.waiting_operations.iter().map(|o| &*o.name), 3);
    let others = other_waits(gaps);
    let draft = Draft {
        pattern: PatternId::HOST_SYNC,
        category: "cpu_idle",
        severity,
        title: format!("The host waits for the GPU within the step ({})", list(all_waits(gaps), 3)),
        issue: format!(
            "{} {} the host waits for the GPU ({names}) and the queue runs dry: the gaps right after take {}.{}",
            counted(waits.count, "time"),
            within(gaps),
            ms_and_percent(waits.time.as_ms(), cx.percent(waits.time)),
            told_of_others(&others)
        ),
        operations: waiting_operations(cx),
        time: waits.time,
        saved_ms,
        basis: wait_basis(cx, cut, flags.len(), copies.len()),
        algorithmic: wait_actions(cx, !flags.is_empty(), copies.len()),
        kernel: Vec::new(),
        evidence: wait_evidence(cx),
    };
    let (severity, mut finding) = draft.finish(cx);
    // What makes flags for the host goes with the waits.
    finding.kernels_saved_ms.high = if flags.is_empty() { 0.0 } else { finding.impact.saved_ms.high };
    Some((severity, finding))
}

/// Where waits were counted: only recorded steps are spoken of as such.
fn within(gaps: &Gaps) -> String {
    match gaps.steps {
        steps if gaps.has_steps => format!("in {}", counted(steps, "step")),
        1 => "in the trace".to_owned(),
        steps => format!("in {steps} parts of the trace that synchronizations tell apart"),
    }
}

/// Waits within the step after which no gap was charged to them: the GPU still had work, or the host did something else
/// before the next launch. The schedule is run again without them as well.
fn other_waits(gaps: &Gaps) -> Vec<&MidStepWait> {
    let is_known = |w: &MidStepWait| gaps.waiting_operations.iter().any(|o| o.name == w.name);
    gaps.mid_step_waits.iter().filter(|w| !is_known(w)).collect()
}

/// Names of all waits that the schedule is run again without, those that cost most first.
fn all_waits(gaps: &Gaps) -> Vec<&str> {
    let others = other_waits(gaps).into_iter().map(|w| &*w.name);
    gaps.waiting_operations.iter().map(|o| &*o.name).chain(others).collect()
}

fn told_of_others(others: &[&MidStepWait]) -> String {
    if others.is_empty() {
        return String::new();
    }
    let times = counted(others.iter().map(|w| w.count).sum::<usize>(), "more time");
    let names = list(others.iter().map(|w| &*w.name), 3);
    format!(" It waits {times} ({names}) without such a gap; the range is for a step with none of these waits.")
}

fn waiting_operations(cx: &Cx<'_>) -> Vec<FindingOperation> {
    let operation = |o: &super::gaps::WaitingOperation| FindingOperation {
        name: o.name.to_string(),
        uid: o.example,
        count: o.gaps.count,
        input_dims: serde_json::Value::Null,
        input_types: serde_json::Value::Null,
        time_ms: 0.0,
        efficiency_percent: None,
        bound: None,
        module: None,
    };
    cx.system.gaps.waiting_operations.iter().take(OPERATIONS).map(operation).collect()
}

fn wait_basis(cx: &Cx<'_>, cut: f64, flags: usize, copies: usize) -> String {
    let (least, most) = cx.system.host.slowdown();
    let mut high = "high without the reads".to_owned();
    if cut > 0.0 {
        let of_late = super::gaps::percent(mid_step_waits(cx).time, cx.system.gaps.late());
        high += &format!(
            " and with {}% less host time between launches, as {}% of all late time follows waits",
            shown(HostBound::less_host_percent(cut), 0),
            shown(of_late, 1)
        );
    }
    let mut gone = if flags > 0 { format!(" and the {} of flags", counted(flags, "kernel")) } else { String::new() };
    if copies > 0 {
        gone += &format!(" and {copies} copies that go with another");
    }
    format!(
        "The recorded schedule run again without any of these waits, for a profiler that slowed the host down {least} to \
         {most} times or not at all: low with all other host work as it is, {high}{gone}; all late launches together make up {} ms.",
        shown_ms(cx.system.gaps.late().as_ms())
    )
}

/// Operations that copy, as a program calls them.
const COPYING: [&str; 3] = ["aten::to", "aten::_to_copy", "aten::copy_"];

/// Whether a wait is a call of the runtime in no operation: nothing is read.
fn is_bare_call(name: &str) -> bool {
    name.ends_with("Synchronize")
}

fn wait_actions(cx: &Cx<'_>, reads_flags: bool, copies: usize) -> Vec<String> {
    let gaps = &cx.system.gaps;
    let (sized, mut reading): (Vec<&str>, Vec<&str>) =
        all_waits(gaps).into_iter().partition(|name| selections::is_sized_by_data(name));
    let calls: Vec<&str> = reading.extract_if(.., |name| is_bare_call(name)).collect();
    let mut actions = Vec::new();
    if copies > 0 {
        actions.push(format!(
            "Put together on the host what goes to the device, in pinned memory, and copy it at once with \
             `non_blocking=True`: {copies} small copies directly follow another."
        ));
        reading.retain(|name| !COPYING.contains(name));
    }
    if !calls.is_empty() {
        actions.push(format!(
            "Remove synchronizations that only wait ({}): kernels of a stream run in order without them.",
            list(calls, 3)
        ));
    }
    if !reading.is_empty() {
        actions.push(format!("Remove or batch device synchronizations and scalar reads ({}).", list(reading, 3)));
        actions.push(
            "Keep the value on the device (`torch.where` with three arguments, masks, accumulated tensors) and read it \
             once after the step, or copy it with `non_blocking=True` and look at it a step later."
                .to_owned(),
        );
    }
    if !sized.is_empty() {
        actions.push(selections::advice(&list(sized, 3)));
    }
    if reads_flags {
        actions.push(
            "Make checks (`any`, `all`) only every so many steps: what makes their flags then goes as well.".to_owned(),
        );
    }
    if is_optimizers(cx) {
        actions.insert(0, FUSED_OPTIMIZER.to_owned());
    }
    let others = other_waits(gaps).into_iter().flat_map(|w| &w.callers);
    let callers = places(gaps.waiting_operations.iter().filter_map(|o| o.caller.as_ref()).chain(others));
    if !callers.is_empty() {
        actions.push(format!("They are called from {callers}."));
    }
    actions
}

fn wait_evidence(cx: &Cx<'_>) -> Vec<Evidence> {
    let mut evidence: Vec<Evidence> = class_evidence(cx, GapClass::HostSync).into_iter().collect();
    evidence.extend(cx.system.gaps.waiting_operations.iter().take(3).map(|o| Evidence {
        table: "cpu_idle_metrics.json".to_owned(),
        // The file lists those that took most.
        row: if cx.system.gaps.activities.iter().take(ACTIVITY_ROWS).any(|a| a.name == o.name) {
            format!("{ACTIVITIES} {}", o.name)
        } else {
            class_row(GapClass::HostSync)
        },
        uid: Some(o.example),
        fact: format!(
            "{} drains the queue before {}, {} ms",
            quoted(&o.name),
            counted(o.gaps.count, "gap"),
            shown_ms(o.gaps.time.as_ms())
        ),
    }));
    evidence.extend(cx.system.gaps.waits.iter().take(3).map(|w| Evidence {
        table: "cpu_idle_metrics.json".to_owned(),
        row: format!("sync.by_name {}", w.name),
        uid: None,
        fact: format!(
            "{} takes {} ms on the host in {}",
            quoted(&w.name),
            shown_ms(w.time.as_ms()),
            counted(w.count, "call")
        ),
    }));
    evidence.extend(position_evidence(cx, |class| class == GapClass::HostSync));
    evidence
}

/// The GPU waits for the input pipeline.
pub(crate) fn input_starved(cx: &Cx<'_>) -> Option<Judged> {
    let (gaps, host) = (&cx.system.gaps, &cx.system.host);
    let starved = gaps.class(GapClass::HostData);
    let percent = cx.percent(starved.time);
    if percent < INPUT_OF_WINDOW {
        return None;
    }
    let saved_ms = host.saved_input(starved.time, gaps.input_before);
    let (before, share) = if gaps.input_before > Ns(0) {
        let (input, recorded) = (starved.time + gaps.input_before, gaps.window + gaps.input_before);
        let before = format!(
            " Another {} ms pass before the first launch: with them it is {} of {} ms.",
            shown_ms(gaps.input_before.as_ms()),
            shown_ms(input.as_ms()),
            shown_ms(recorded.as_ms())
        );
        (before, ", as a share of the window and what the first step spends on input before it")
    } else {
        Default::default()
    };
    let draft = Draft {
        pattern: PatternId::INPUT_STARVED,
        category: "cpu_idle",
        severity: Severity::above(percent, EXPOSED),
        title: "The GPU waits for input".to_owned(),
        issue: format!(
            "The launching thread fetches or prepares input while the GPU waits: {} in {}.{before}",
            ms_and_percent(starved.time.as_ms(), percent),
            counted(starved.count, "gap")
        ),
        operations: Vec::new(),
        time: starved.time,
        saved_ms,
        basis: format!(
            "High without these gaps{share}, or with the rest of the host's time 1/{} of the recorded if that is more (the \
             profiler slows down who works and not who waits); low is half of what the recorded schedule, run again \
             without the time spent on input, gives, and no less than 1/{WIDEST} of high as a speed-up.",
            host.slowdown().1
        ),
        algorithmic: vec![
            "Load in other processes and ahead of time: `DataLoader(num_workers=..., prefetch_factor=..., \
             persistent_workers=True)`."
                .to_owned(),
            "Pin the batches (`pin_memory=True`) and copy them with `non_blocking=True` while the step before runs."
                .to_owned(),
        ],
        kernel: Vec::new(),
        evidence: class_evidence(cx, GapClass::HostData)
            .into_iter()
            .chain(position_evidence(cx, |class| class == GapClass::HostData))
            .collect(),
    };
    Some(draft.finish(cx))
}

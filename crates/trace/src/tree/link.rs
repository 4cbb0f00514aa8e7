//! Which runtime call launched which GPU event.

use super::by_key::ByKey;
use super::roles::LinkRoles;
use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{EventId, Id, Key, StrId, Trace};
use crate::parity::Fidelity;

/// A runtime call and a GPU event it launched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) runtime: EventId,
    pub(crate) gpu: EventId,
}

/// All links: calls in the order of the roles, and so the GPU events of one call.
#[derive(Debug, Default)]
pub(crate) struct Links {
    pub(crate) all: Vec<Link>,
    pub(crate) by_key: ByKey,
    /// GPU events without a link though calls carry their number, by UID: which one launched them is not known.
    pub(crate) ambiguous: Vec<EventId>,
}

/// What is known about one linking number that GPU events carry.
#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    starts: bool,
    /// The last flow end.
    end: Option<EventId>,
    /// The GPU event that the flow leads to.
    target: Option<EventId>,
    plain: Claims,
    graph: Claims,
    /// Process of the first call.
    process: Option<Id>,
    several_processes: bool,
}

/// Runtime calls of one sort with the same number; the last one is the owner.
#[derive(Debug, Clone, Copy, Default)]
struct Claims {
    count: u32,
    /// Its position among the calls.
    last: Option<u32>,
}

impl Claims {
    fn add(&mut self, call: u32) {
        self.count += 1;
        self.last = Some(call);
    }
}

/// The argument that carries the linking number: old ROCm builds have no `correlation`.
fn linking_key(trace: &Trace, roles: &LinkRoles, fidelity: Fidelity) -> Key {
    // Names repeat, so each distinct one is looked at once.
    let mut seen = vec![false; trace.strings().len()];
    let first_launch = roles.runtime.iter().find(|&&e| {
        let name = trace.name_id(e);
        !std::mem::replace(&mut seen[name.index()], true) && contains_launch(trace.text(name))
    });
    match first_launch {
        Some(&e) if trace.get(e, Key::Correlation).is_some() => Key::Correlation,
        // A window may hold copies and fills alone.
        _ if fidelity.links_without_launch() && shares_correlation(trace, roles) => Key::Correlation,
        _ => Key::ExternalId,
    }
}

/// Whether some call and some GPU event have the same correlation.
fn shares_correlation(trace: &Trace, roles: &LinkRoles) -> bool {
    let by_correlation = ByKey::new(trace, Key::Correlation, &roles.gpu);
    let mut numbers = roles.runtime.iter().filter_map(|&e| trace.int(e, Key::Correlation));
    numbers.any(|number| by_correlation.slot(number).is_some())
}

fn contains_launch(name: &str) -> bool {
    name.as_bytes().windows(6).any(|w| w.eq_ignore_ascii_case(b"launch"))
}

/// Links GPU events to runtime calls.
pub(crate) fn link(trace: &Trace, roles: &LinkRoles, fidelity: Fidelity, diagnostics: &mut Diagnostics) -> Links {
    let key = linking_key(trace, roles, fidelity);
    let by_key = ByKey::new(trace, key, &roles.gpu);
    let mut slots = vec![Slot::default(); by_key.slots()];
    for &flow in &roles.launch_starts {
        if let Some(slot) = trace.int(flow, Key::FlowId).and_then(|id| by_key.slot(id)) {
            slots[slot].starts = true;
        }
    }
    for &flow in &roles.launch_ends {
        if let Some(slot) = trace.int(flow, Key::FlowId).and_then(|id| by_key.slot(id)) {
            let end = &mut slots[slot].end;
            let is_earlier = end.is_some_and(|end| fidelity.orders_by_time() && trace.ts(flow) < trace.ts(end));
            *end = end.filter(|_| is_earlier).or(Some(flow));
        }
    }
    // Calls that carry the number of some GPU event, with the slot they belong to.
    let mut calls: Vec<(EventId, usize)> = Vec::with_capacity(roles.gpu.len());
    let mut is_graph: Vec<Option<bool>> = vec![None; trace.strings().len()];
    let mut launches = Launches::new(trace);
    for &call in &roles.runtime {
        let Some(number) = trace.int(call, key) else { continue };
        let name = trace.name_id(call);
        let slot = by_key.slot(number);
        launches.count(call, slot.is_some());
        let Some(slot) = slot else { continue };
        let graph = *is_graph[name.index()].get_or_insert_with(|| fidelity.is_graph_launch(trace.text(name)));
        slots[slot].claim(calls.len() as u32, graph, trace.track(trace.track_id(call)).pid);
        calls.push((call, slot));
    }
    for (i, slot) in slots.iter_mut().enumerate() {
        if slot.starts
            && let Some(end) = slot.end
        {
            let place = trace.track_id(end);
            slot.target = by_key.group(i).iter().rev().copied().find(|&g| trace.track_id(g) == place);
        }
    }
    let by_correlation = key == Key::Correlation && fidelity.links_without_flow();
    let mut links = Vec::with_capacity(roles.gpu.len());
    for (i, &(call, slot)) in calls.iter().enumerate() {
        let group = by_key.group(slot);
        let (i, slot) = (Some(i as u32), &slots[slot]);
        // Each group is gone through at most twice, however many calls share the number.
        if slot.plain.last == i || slot.graph.last == i {
            let owned = group.iter().filter(|&&g| slot.owner(g, by_correlation) == i);
            links.extend(owned.map(|&gpu| Link { runtime: call, gpu }));
        }
    }
    report(&slots, &calls, &by_key, diagnostics);
    launches.report(fidelity, diagnostics);
    if fidelity.tells_impossible() {
        report_skew(trace, &links, diagnostics);
    }
    let ambiguous = ambiguous(&slots, &by_key, by_correlation);
    Links { all: links, by_key, ambiguous }
}

impl Slot {
    fn claim(&mut self, call: u32, graph: bool, process: Id) {
        if graph { &mut self.graph } else { &mut self.plain }.add(call);
        self.several_processes |= *self.process.get_or_insert(process) != process;
    }

    /// Whether a recorded flow ties the number together.
    fn has_flow(&self) -> bool {
        self.starts && self.end.is_some()
    }

    /// The call that has launched a GPU event of this slot, by position: the last one that claims it.
    fn owner(&self, gpu: EventId, by_correlation: bool) -> Option<u32> {
        let flowless = by_correlation && !self.has_flow();
        let plain = if self.target == Some(gpu) || flowless { self.plain.last } else { None };
        plain.max(self.graph.last)
    }
}

/// GPU events that another one of their number was linked in place of.
fn ambiguous(slots: &[Slot], by_key: &ByKey, by_correlation: bool) -> Vec<EventId> {
    let mut events = Vec::new();
    for (i, slot) in slots.iter().enumerate().filter(|(_, slot)| slot.target.is_some() && slot.plain.count > 0) {
        events.extend(by_key.group(i).iter().copied().filter(|&gpu| slot.owner(gpu, by_correlation).is_none()));
    }
    events.sort_unstable();
    events
}

/// Launches of kernels, and those without one.
struct Launches<'a> {
    trace: &'a Trace,
    is_launch: Vec<Option<bool>>,
    all: u64,
    lost: u64,
    /// Those of the lost that come before a launch with a kernel.
    between: u64,
    first_lost: Option<EventId>,
}

impl<'a> Launches<'a> {
    /// From this part on it is told that kernels are missing: at the end of a recording some always are.
    const LOST_PART: u64 = 5;
    /// Nothing is told of so few launches.
    const FEW: u64 = 10;
    /// The same of those before the end, none of which should be missing.
    const LOST_PART_BETWEEN: u64 = 100;
    const FEW_BETWEEN: u64 = 3;

    fn new(trace: &'a Trace) -> Self {
        Self { trace, is_launch: vec![None; trace.strings().len()], all: 0, lost: 0, between: 0, first_lost: None }
    }

    fn count(&mut self, call: EventId, has_kernel: bool) {
        let name = self.trace.name_id(call);
        let is_launch = *self.is_launch[name.index()].get_or_insert_with(|| launches_kernel(self.trace.text(name)));
        self.all += u64::from(is_launch);
        if is_launch && !has_kernel {
            self.lost += 1;
            self.first_lost.get_or_insert(call);
        } else if is_launch {
            self.between = self.lost;
        }
    }

    fn report(&self, fidelity: Fidelity, diagnostics: &mut Diagnostics) {
        let Some(first) = self.first_lost else { return };
        let many = self.lost >= Self::FEW && self.lost * Self::LOST_PART >= self.all;
        let many_between = || {
            let considerable = self.between * Self::LOST_PART_BETWEEN >= self.all;
            self.between >= Self::FEW_BETWEEN && considerable && !self.captures_graphs()
        };
        if many {
            diagnostics.add_many(Defect::LaunchWithoutKernel, self.lost, At::Event(first.uid()));
        } else if fidelity.tells_impossible() && many_between() {
            diagnostics.add_many(Defect::LaunchWithoutKernel, self.between, At::Event(first.uid()));
        }
    }

    /// Whether launches may have gone into a graph, where they run nothing.
    fn captures_graphs(&self) -> bool {
        let names = self.trace.strings().arena();
        [&b"BeginCapture"[..], b"EndCapture", b"GraphInstantiate"]
            .into_iter()
            .any(|word| memchr::memmem::find(names, word).is_some())
    }
}

/// Tells of GPU events that begin before their launch. Those of a graph follow the first of them.
fn report_skew(trace: &Trace, links: &[Link], diagnostics: &mut Diagnostics) {
    let is_early = |link: &&Link| match (trace.ts(link.gpu), trace.ts(link.runtime)) {
        (Some(begins), Some(launched)) => begins < launched,
        _ => false,
    };
    let mut early = links.iter().filter(is_early).map(|link| link.gpu);
    if let Some(first) = early.next() {
        let count = 1 + early.count() as u64;
        diagnostics.add_many(Defect::ClockSkew, count, At::Event(first.uid()));
    }
}

/// How many calls put work on the GPU, whether that was recorded or not.
pub fn launch_calls(trace: &Trace) -> usize {
    let strings = trace.strings().len() as u32;
    let launches = |name: &str| launches_kernel(name) || Fidelity::Correct.is_graph_launch(name);
    let launches: Vec<bool> = (0..strings).map(|id| launches(trace.text(StrId(id)))).collect();
    trace.events().filter(|&e| trace.kind(e).is_runtime() && launches[trace.name_id(e).index()]).count()
}

/// Whether a runtime call of this name puts a kernel on the GPU.
fn launches_kernel(name: &str) -> bool {
    name.contains("LaunchKernel") || name.contains("LaunchCooperativeKernel")
}

fn report(slots: &[Slot], calls: &[(EventId, usize)], by_key: &ByKey, diagnostics: &mut Diagnostics) {
    // Slots are in order of their numbers, which need not be file order; the first place reported is the first in
    // the file.
    let mut report = |defect, places: Vec<EventId>| {
        if let Some(first) = places.iter().min() {
            diagnostics.add_many(defect, places.len() as u64, At::Event(first.uid()));
        }
    };
    let call_of = |slot: &Slot| Some(calls.get(slot.plain.last.max(slot.graph.last)? as usize)?.0);
    let claimed_twice = |slot: &Slot, gpu: EventId| {
        let plain = if slot.target == Some(gpu) { slot.plain.count } else { 0 };
        plain + slot.graph.count > 1
    };
    let twice = slots
        .iter()
        .enumerate()
        .flat_map(|(i, slot)| by_key.group(i).iter().copied().filter(move |&gpu| claimed_twice(slot, gpu)));
    report(Defect::DuplicateLaunch, twice.collect());
    let several = slots.iter().enumerate().filter(|(i, slot)| {
        slot.target.is_some() && slot.plain.count > 0 && slot.graph.count == 0 && by_key.group(*i).len() > 1
    });
    report(Defect::SeveralKernelsPerLaunch, several.filter_map(|(_, slot)| call_of(slot)).collect());
    let shared = slots.iter().filter(|slot| slot.several_processes);
    report(Defect::SharedCorrelation, shared.filter_map(call_of).collect());
}

//! Which operation owns which kernels.

use std::borrow::Cow;
use std::ops::Range;

use super::Tree;
use super::nest::NONE;
use super::query::TreeView;
use crate::clock::Us;
use crate::model::{EventId, EventKind, Trace};
use crate::timeline::is_communication_name;

/// Whether kernels of communication libraries are taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Communication {
    /// Left out: they wait for other ranks, so their time is not the operation's.
    #[default]
    Exclude,
    /// Taken in.
    Include,
}

/// An operation with the GPU events it launched itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Launcher<'a> {
    /// The operation, or the runtime call where no operation is around it.
    pub event: EventId,
    /// Its GPU events in the order of [all](Tree::all_gpu_events).
    pub kernels: &'a [EventId],
}

/// All launchers of a trace in order of their start.
#[derive(Debug)]
pub struct Launchers {
    /// Each with where its kernels are.
    groups: Vec<(EventId, Range<u32>)>,
    kernels: Vec<EventId>,
}

impl Launchers {
    /// The launchers, in order of start; of equal starts the one with the earlier first kernel.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Launcher<'_>> {
        self.groups.iter().map(|(event, Range { start, end })| Launcher {
            event: *event,
            kernels: &self.kernels[*start as usize..*end as usize],
        })
    }

    /// Number of launchers.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether nothing was launched.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// What an event above a launch means for who owns it.
enum Step {
    Owner,
    Pass,
    Stop,
}

fn step(trace: &Trace, e: EventId) -> Step {
    match trace.kind(e) {
        EventKind::PythonFunction => Step::Pass,
        EventKind::CpuOp if trace.name(e) == "execute" => Step::Pass,
        EventKind::CpuOp => Step::Owner,
        _ => Step::Stop,
    }
}

impl TreeView<'_> {
    /// The operation that owns a GPU event: the innermost one around its launch, or the launching call if there is
    /// none. `None` for unlinked events.
    pub fn launcher_of(self, kernel: EventId) -> Option<EventId> {
        if !self.tree.is_linked(kernel) {
            return None;
        }
        let call = self.tree.parent(kernel)?;
        for e in self.tree.ancestors(call) {
            match step(self.trace, e) {
                Step::Owner => return Some(e),
                Step::Pass => {}
                Step::Stop => break,
            }
        }
        Some(call)
    }

    /// All operations that launched something.
    pub fn launchers(self, communication: Communication) -> Launchers {
        let owners = owners(self.trace, self.tree);
        // Names repeat, so each distinct one is looked at once.
        let mut communicates: Vec<Option<bool>> = vec![None; self.trace.strings().len()];
        let mut left_out = |k: EventId| {
            let name = self.trace.name_id(k);
            let known = &mut communicates[name.index()];
            communication == Communication::Exclude
                && *known.get_or_insert_with(|| is_communication_name(self.trace.text(name)))
        };
        let mut owned: Vec<(EventId, EventId)> = self
            .tree
            .linked_gpu_events()
            .filter(|&k| !left_out(k))
            .filter_map(|k| {
                let call = self.tree.parent[self.tree.node(k)? as usize];
                let above = self.tree.parent[call as usize];
                let owner = if above == NONE { NONE } else { owners[above as usize] };
                Some((self.tree.event_of[if owner == NONE { call } else { owner } as usize], k))
            })
            .collect();
        // Stable, so kernels stay in their order within a launcher.
        owned.sort_by_key(|o| o.0);
        let kernels: Vec<EventId> = owned.iter().map(|o| o.1).collect();
        let mut at = 0;
        let mut groups: Vec<_> = owned
            .chunk_by(|a, b| a.0 == b.0)
            .map(|group| {
                let range = at..at + group.len() as u32;
                at = range.end;
                (group[0].0, range)
            })
            .collect();
        let by_time = self.tree.options().fidelity.orders_by_time();
        groups.sort_by_key(|(event, range)| {
            let first = kernels[range.start as usize];
            (self.trace.ts(*event), self.trace.ts(first).filter(|_| by_time), first)
        });
        Launchers { groups, kernels }
    }

    /// GPU events in order of start, as kernel lists show them: most are.
    pub fn by_start<'k>(self, events: impl Into<Cow<'k, [EventId]>>) -> Cow<'k, [EventId]> {
        let mut events = events.into();
        if !events.is_sorted_by_key(|&e| self.trace.ts(e)) {
            events.to_mut().sort_by_key(|&e| self.trace.ts(e));
        }
        events
    }

    /// Time during which a launcher's own GPU events run.
    pub fn direct_busy(self, launcher: Launcher<'_>) -> Us {
        self.busy(launcher.kernels)
    }
}

/// For each host node the operation that owns launches directly below it. Parents come before their children, so one
/// pass does, however deep the tree.
fn owners(trace: &Trace, tree: &Tree) -> Vec<u32> {
    let mut owners = vec![NONE; tree.hosts() as usize];
    for node in 0..tree.hosts() {
        let parent = tree.parent[node as usize];
        owners[node as usize] = match step(trace, tree.event_of[node as usize]) {
            Step::Owner => node,
            Step::Pass if parent != NONE => owners[parent as usize],
            _ => NONE,
        };
    }
    owners
}

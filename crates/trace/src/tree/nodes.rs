//! The tree itself: its columns, how they are put together, and the questions they answer directly.

use std::borrow::Cow;
use std::ops::Range;

use super::backward::{Backward, BackwardLinks, Pairs};
use super::by_key::ByKey;
use super::link::{Link, Links, link};
use super::nest::{NONE, Nested, ThreadNodes, nest};
use super::recompute::Recompute;
use super::roles::{HostRoles, LinkRoles};
use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{EventId, EventKind, Trace, TrackId};
use crate::parity::{Fidelity, Nesting};
use crate::side_by_side::both_if;

/// Whether Python frames are nodes of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PythonFrames {
    /// Operations and runtime calls only.
    #[default]
    Without,
    /// Frames and `nn.Module` calls too: needed for call stacks, module paths and recompute marks.
    With,
}

/// How to build a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TreeOptions {
    /// Whether Python frames are nodes.
    pub python: PythonFrames,
    /// The arithmetic of nesting.
    pub nesting: Nesting,
    /// Whether to be right or to agree with the reference.
    pub fidelity: Fidelity,
    /// Where forward and backward are tied together.
    pub backward: BackwardLinks,
    /// What counts as recomputation.
    pub recompute: Recompute,
}

impl TreeOptions {
    /// The same with Python frames.
    #[must_use]
    pub fn with_python(self) -> Self {
        Self { python: PythonFrames::With, ..self }
    }

    /// The same with the numbers of the reference.
    #[must_use]
    pub fn like_reference(self) -> Self {
        Self { fidelity: Fidelity::Reference, ..self }
    }
}

/// Host nodes that share an entry of [`Tree::first_links`].
const NODES_PER_LINK_ENTRY: usize = 64;

/// Events from which on a second thread pays.
const WORTH_A_THREAD: usize = 50_000;

/// The part of the tree that needs no host nodes: who launched what, and what belongs to which forward operation.
struct Launches {
    gpu: Vec<EventId>,
    links: Links,
    backward: Option<Backward>,
    diagnostics: Diagnostics,
}

impl Launches {
    fn of(trace: &Trace, options: TreeOptions) -> Self {
        let mut diagnostics = Diagnostics::default();
        let mut roles = LinkRoles::of(trace, &mut diagnostics);
        if options.fidelity.leaves_strays_out() {
            roles.leave_strays_out(trace, &mut diagnostics);
        }
        if options.fidelity.orders_by_time() {
            roles.order_by_time(trace);
        }
        if options.fidelity.tells_impossible() {
            roles.leave_repeated_out(trace, &mut diagnostics);
            roles.leave_impossible_out(trace, &mut diagnostics);
        }
        let links = link(trace, &roles, options.fidelity, &mut diagnostics);
        let backward = Backward::of(trace, &mut roles, options.fidelity);
        Self { gpu: roles.gpu, links, backward, diagnostics }
    }
}

/// The call tree of a trace: host calls by time, GPU events under the calls that launched them.
///
/// Nodes are numbered so that a subtree is a range: first the host events thread by thread in preorder, then host
/// events without a place, then the linked GPU events in the order of their launching nodes. All answers come from
/// flat columns over those numbers; nothing recurses and no node owns memory. The default is a tree without nodes.
#[derive(Debug, Default)]
pub struct Tree {
    pub(crate) options: TreeOptions,
    /// Event → node; `NONE` for events that are not in the tree.
    pub(crate) node_of: Vec<u32>,
    /// Node → event.
    pub(crate) event_of: Vec<EventId>,
    /// Node → parent node.
    pub(crate) parent: Vec<u32>,
    /// Host node → first node after all below it.
    pub(crate) end: Vec<u32>,
    /// Every so many host nodes → how many links the nodes before it have; see [`Self::first_link`].
    first_links: Vec<u32>,
    /// Link → its number in the order of the launching calls.
    link_number: Vec<u32>,
    /// Link → how often the number falls up to here: a range without a fall is in order.
    falls: Vec<u32>,
    pub(crate) threads: Vec<ThreadNodes>,
    roots: Vec<EventId>,
    gpu: Vec<EventId>,
    /// Those of the GPU events that are not linked, by UID.
    unlinked: Vec<EventId>,
    by_key: ByKey,
    pub(crate) pairs: Pairs,
    pub(crate) recomputed: Vec<Range<u32>>,
    discarded: Range<u32>,
    repeated: Vec<EventId>,
    bleeds: u64,
    has_cpu_ops: bool,
    pub(crate) diagnostics: Diagnostics,
}

/// From this time on, one step of a float that counts microseconds is a quarter of a microsecond or more: 2^50 µs. Times
/// since 1970 are beyond it.
const COARSE_NS: u64 = (1 << 50) * 1000;

impl Tree {
    /// Builds the tree of a trace, on two threads if the trace is long and was read so. The result is the same.
    pub fn build(trace: &Trace, options: TreeOptions) -> Self {
        Self::build_on(trace, options, trace.threads() > 1 && trace.len() >= WORTH_A_THREAD)
    }

    fn build_on(trace: &Trace, options: TreeOptions, side_by_side: bool) -> Self {
        let launches = || Launches::of(trace, options);
        let (launches, mut tree) = both_if(side_by_side, launches, || Self::of_hosts(trace, options));
        tree.attach(&launches.links.all);
        tree.by_key = launches.links.by_key;
        tree.gpu = launches.gpu;
        tree.diagnostics.extend(&launches.diagnostics);
        tree.report_unlinked(trace, &launches.links.ambiguous);
        tree.report_coarse(trace);
        if let Some(backward) = launches.backward {
            tree.link_backward(trace, backward, side_by_side);
        }
        if options.python == PythonFrames::With {
            tree.mark_recompute(trace);
        }
        tree
    }

    /// The host part of the tree.
    fn of_hosts(trace: &Trace, options: TreeOptions) -> Self {
        let mut diagnostics = Diagnostics::default();
        let mut roles = HostRoles::of(trace, options.python == PythonFrames::With, &mut diagnostics);
        let nested = nest(trace, &mut roles, options, &mut diagnostics);
        let mut tree = Self::assemble(trace, options, nested, &roles.timeless);
        tree.has_cpu_ops = roles.has_cpu_ops;
        tree.diagnostics = diagnostics;
        tree
    }

    /// Puts the host nodes into columns; those without a place follow after the nested ones.
    fn assemble(trace: &Trace, options: TreeOptions, nested: Nested, timeless: &[EventId]) -> Self {
        let Nested { mut event_of, mut parent, mut end, threads, roots, discarded, repeated, bleeds } = nested;
        let placed = event_of.len() as u32;
        event_of.extend(discarded.iter().chain(timeless));
        parent.resize(event_of.len(), NONE);
        end.extend(placed + 1..=event_of.len() as u32);
        let mut node_of = vec![NONE; trace.len()];
        for (node, e) in event_of.iter().enumerate() {
            node_of[e.index()] = node as u32;
        }
        Self {
            options,
            node_of,
            event_of,
            parent,
            end,
            first_links: Vec::new(),
            link_number: Vec::new(),
            falls: Vec::new(),
            threads,
            roots,
            gpu: Vec::new(),
            unlinked: Vec::new(),
            by_key: ByKey::default(),
            pairs: Pairs::default(),
            recomputed: Vec::new(),
            discarded: placed..placed + discarded.len() as u32,
            repeated,
            bleeds,
            has_cpu_ops: false,
            diagnostics: Diagnostics::default(),
        }
    }

    /// Adds the linked GPU events as nodes, in the order of the nodes that launched them.
    fn attach(&mut self, links: &[Link]) {
        let hosts = self.event_of.len();
        let mut first_link = vec![0u32; hosts + 1];
        for link in links {
            first_link[self.node_of[link.runtime.index()] as usize + 1] += 1;
        }
        for node in 1..=hosts {
            first_link[node] += first_link[node - 1];
        }
        let mut order = vec![0u32; links.len()];
        let mut taken = 0;
        // Numbers rise within a call, so a call's first link claims the room for all of them.
        while taken < links.len() {
            let runtime = links[taken].runtime;
            let count = links[taken..].iter().take_while(|l| l.runtime == runtime).count();
            let at = first_link[self.node_of[runtime.index()] as usize] as usize;
            for i in 0..count {
                order[at + i] = (taken + i) as u32;
            }
            taken += count;
        }
        self.event_of.reserve_exact(links.len());
        self.parent.reserve_exact(links.len());
        self.falls.reserve_exact(links.len());
        let mut falls = 0;
        for (i, &number) in order.iter().enumerate() {
            let link = links[number as usize];
            self.node_of[link.gpu.index()] = self.event_of.len() as u32;
            self.event_of.push(link.gpu);
            self.parent.push(self.node_of[link.runtime.index()]);
            falls += u32::from(i > 0 && order[i - 1] > number);
            self.falls.push(falls);
        }
        self.first_links =
            first_link.iter().copied().step_by(NODES_PER_LINK_ENTRY).chain([links.len() as u32]).collect();
        self.link_number = order;
    }

    fn report_unlinked(&mut self, trace: &Trace, ambiguous: &[EventId]) {
        if let Some(first) = ambiguous.first() {
            self.diagnostics.add_many(Defect::AmbiguousLaunch, ambiguous.len() as u64, At::Event(first.uid()));
        }
        self.unlinked = self.gpu.iter().copied().filter(|&e| !self.is_linked(e)).collect();
        self.unlinked.sort_unstable();
        let mut unlinked = self.unlinked.iter().filter(|&e| ambiguous.binary_search(e).is_err());
        if let Some(first) = unlinked.next() {
            let count = 1 + unlinked.count() as u64;
            let defect = if has_unread_runtime(trace) { Defect::UnreadRuntime } else { Defect::UnlinkedGpuEvent };
            self.diagnostics.add_many(defect, count, At::Event(first.uid()));
        }
    }

    fn report_coarse(&mut self, trace: &Trace) {
        let far = |e: &EventId| trace.end(*e).or(trace.ts(*e)).is_some_and(|t| t.0.unsigned_abs() >= COARSE_NS);
        let mut coarse = self.gpu.iter().copied().filter(far);
        if let Some(first) = coarse.next() {
            let count = 1 + coarse.count() as u64;
            self.diagnostics.add_many(Defect::CoarseTime, count, At::Event(first.uid()));
        }
    }

    /// Number of host nodes; the nodes after them are GPU events.
    #[inline]
    pub(crate) fn hosts(&self) -> u32 {
        self.end.len() as u32
    }

    #[inline]
    pub(crate) fn node(&self, e: EventId) -> Option<u32> {
        self.node_of.get(e.index()).copied().filter(|&n| n != NONE)
    }

    /// How it was built.
    pub fn options(&self) -> TreeOptions {
        self.options
    }

    /// What was odd about the tree, beside what was odd about the file.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// The event that an event happened in, or was launched by.
    #[inline]
    pub fn parent(&self, e: EventId) -> Option<EventId> {
        let parent = self.parent[self.node(e)? as usize];
        (parent != NONE).then(|| self.event_of[parent as usize])
    }

    /// The events an event lies in, innermost first.
    pub fn ancestors(&self, e: EventId) -> impl Iterator<Item = EventId> + '_ {
        std::iter::successors(self.parent(e), |&e| self.parent(e))
    }

    /// The events directly inside an event by time, then the GPU events it launched.
    pub fn children(&self, e: EventId) -> impl Iterator<Item = EventId> + '_ {
        let range = self.node_range(e);
        let mut next = range.start.saturating_add(1);
        let hosts = std::iter::from_fn(move || {
            (next < range.end).then(|| {
                let child = self.event_of[next as usize];
                next = self.end[next as usize];
                child
            })
        });
        hosts.chain(self.launched(e).iter().copied())
    }

    /// The GPU events a runtime call launched, in the order of [all](Self::all_gpu_events).
    pub fn launched(&self, e: EventId) -> &[EventId] {
        let range = self.node_range(e);
        if range.is_empty() {
            return &[];
        }
        self.link_events(self.first_link(range.start)..self.first_link(range.start + 1))
    }

    fn link_events(&self, links: Range<u32>) -> &[EventId] {
        let gpu = &self.event_of[self.end.len()..];
        &gpu[links.start as usize..links.end as usize]
    }

    fn links_below(&self, e: EventId) -> Range<u32> {
        let range = self.node_range(e);
        if range.is_empty() {
            return 0..0;
        }
        self.first_link(range.start)..self.first_link(range.end)
    }

    /// How many links the nodes before this one have; it may be the one after the last host. The links stand in the order
    /// of their nodes, which they have for parents, so only few need to be looked at.
    fn first_link(&self, node: u32) -> u32 {
        let entry = node as usize / NODES_PER_LINK_ENTRY;
        let Some(&[from, to]) = self.first_links.get(entry..entry + 2).and_then(<[u32]>::first_chunk) else { return 0 };
        let hosts = self.end.len();
        let parents = &self.parent[hosts + from as usize..hosts + to as usize];
        from + parents.partition_point(|&parent| parent < node) as u32
    }

    /// All linked GPU events below an event, in the order of the calls that launched them: by start of these, or file
    /// order as the reference has it. Empty for GPU events themselves.
    pub fn gpu_events(&self, e: EventId) -> Cow<'_, [EventId]> {
        let links = self.links_below(e);
        let (from, to) = (links.start as usize, links.end as usize);
        let events = self.link_events(links);
        if events.len() < 2 || self.falls[from] == self.falls[to - 1] {
            return Cow::Borrowed(events);
        }
        let mut numbered: Vec<(u32, EventId)> =
            self.link_number[from..to].iter().copied().zip(events.iter().copied()).collect();
        numbered.sort_unstable_by_key(|n| n.0);
        Cow::Owned(numbered.into_iter().map(|n| n.1).collect())
    }

    /// How many GPU events there are below an event.
    pub fn gpu_event_count(&self, e: EventId) -> usize {
        self.links_below(e).len()
    }

    /// Whether an event leads to GPU work, or is GPU work.
    pub fn is_gpu_path(&self, e: EventId) -> bool {
        match self.node(e) {
            Some(node) => node >= self.hosts() || !self.links_below(e).is_empty(),
            None => self.unlinked.binary_search(&e).is_ok(),
        }
    }

    /// Whether a GPU event was attached to the call that launched it.
    pub fn is_linked(&self, e: EventId) -> bool {
        self.node(e).is_some_and(|n| n >= self.hosts())
    }

    /// Whether an event takes part in the tree: host events (with or without a place) and linked GPU events.
    pub fn contains(&self, e: EventId) -> bool {
        self.node(e).is_some_and(|n| n < self.discarded.end || n >= self.hosts())
    }

    /// Whether a host event has a place among the calls of its thread.
    pub fn is_nested(&self, e: EventId) -> bool {
        self.node(e).is_some_and(|n| n < self.discarded.start)
    }

    /// The outermost operations of all threads, in order of time.
    pub fn roots(&self) -> &[EventId] {
        &self.roots
    }

    /// The host events of each thread that have a place, in order of start; a call stands before what it contains.
    pub fn thread_events(&self) -> impl ExactSizeIterator<Item = (TrackId, &[EventId])> {
        self.threads.iter().map(|t| (t.track, &self.event_of[t.nodes.start as usize..t.nodes.end as usize]))
    }

    /// All GPU events, linked or not, in order of their start; in file order as the reference has it.
    pub fn all_gpu_events(&self) -> &[EventId] {
        &self.gpu
    }

    /// The linked ones of [all GPU events](Self::all_gpu_events), in their order.
    pub fn linked_gpu_events(&self) -> impl Iterator<Item = EventId> + '_ {
        self.gpu.iter().copied().filter(|&e| self.is_linked(e))
    }

    /// The linked GPU events in the order of the calls that launched them.
    pub(crate) fn links_in_order(&self) -> Vec<EventId> {
        let events = &self.event_of[self.end.len()..];
        let mut ordered = events.to_vec();
        for (&number, &e) in self.link_number.iter().zip(events) {
            ordered[number as usize] = e;
        }
        ordered
    }

    /// Host events that overlap the end of their caller and so have no place.
    pub fn discarded(&self) -> &[EventId] {
        &self.event_of[self.discarded.start as usize..self.discarded.end as usize]
    }

    /// Whether a host event stands in the file before, and so has no place.
    pub fn is_repeated(&self, e: EventId) -> bool {
        !self.repeated.is_empty() && self.repeated.binary_search(&e).is_ok()
    }

    /// How many events overlapped the end of their caller by less than a microsecond and were put beside it.
    pub fn forgiven_overlaps(&self) -> u64 {
        self.bleeds
    }

    /// Whether the recording has no operations at all, so that runtime calls are the launchers.
    pub fn is_gpu_only(&self) -> bool {
        !self.has_cpu_ops
    }

    /// The forward operation that caused a backward event.
    pub fn forward_of(&self, backward: EventId) -> Option<EventId> {
        self.pairs.forward_of(backward)
    }

    /// The backward events that an operation caused.
    pub fn backward_of(&self, forward: EventId) -> impl ExactSizeIterator<Item = EventId> + '_ {
        self.pairs.backward_of(self.node(forward).unwrap_or(NONE), forward)
    }

    /// The backward events that an operation and everything below it caused.
    pub fn subtree_backward(&self, e: EventId) -> impl ExactSizeIterator<Item = EventId> + '_ {
        self.pairs.backward_below(self.node_range(e))
    }
}

/// Whether there are calls of a runtime that is neither CUDA's nor ROCm's.
fn has_unread_runtime(trace: &Trace) -> bool {
    trace.classes().iter().any(|class| {
        let category = class.layout.category.map_or("", |category| trace.text(category));
        class.kind == EventKind::Other && (category.ends_with("_runtime") || category.ends_with("_driver"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceBuilder;

    #[test]
    fn two_threads_build_the_same_tree() {
        let mut b = TraceBuilder::new();
        for i in 0..40u32 {
            let (at, flow) = (f64::from(i) * 100.0, i64::from(i));
            b.cpu_op("aten::linear", at, 90.0).arg("Sequence number", flow);
            b.flow('s', "fwdbwd", at, flow);
            b.launch("cudaLaunchKernel", at + 10.0, 5.0, flow);
            b.kernel("gemm", at + 20.0, 30.0, flow % 37);
            let name = "autograd::engine::evaluate_function: AddmmBackward0";
            b.cpu_op(name, at + 5000.0, 50.0).on(1, 2).arg("Sequence number", flow / 2);
            b.flow('f', "fwdbwd", at + 5000.0, flow).on(1, 2);
        }
        let trace = b.build();
        for options in [
            TreeOptions::default().with_python(),
            TreeOptions::default().like_reference(),
            TreeOptions { backward: BackwardLinks::AndFlows, ..TreeOptions::default() },
        ] {
            let [one, two] = [false, true].map(|side_by_side| Tree::build_on(&trace, options, side_by_side));
            assert!(trace.events().any(|e| one.forward_of(e).is_some()) && one.linked_gpu_events().count() > 0);
            assert!(one.diagnostics.count(Defect::BackwardLinkMismatch) > 0);
            assert_eq!(format!("{one:?}"), format!("{two:?}"));
        }
    }
}

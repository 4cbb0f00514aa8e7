//! The program a trace shows: leaf operations in the order in which they launched their kernels, and the modules they
//! ran in. Patterns are looked for here and nowhere else.

pub(crate) mod firsts;
pub mod kind;
mod parts;
mod repeated;

use std::ops::Range;
use std::sync::Arc;

use jarvis_perf::call::InputLists;
use jarvis_perf::tables::{ArgLists, Unified};
use jarvis_trace::tree::{Annotations, Communication};
use jarvis_trace::{Clock, EventId, EventKind, Few, GpuWork, IntervalSet, Key, Ns, StrId, Summary, Trace, Tree};
use rapidhash::RapidHashMap;

use firsts::Firsts;
use kind::Kind;

macro_rules! position {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// Position in its list.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

position! {
    /// A leaf operation of the program.
    LeafId
}
position! {
    /// A module call of the program.
    ModuleId
}
position! {
    /// A row of `unified_perf_summary`.
    RowId
}

/// Which pass of a step work belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub enum Direction {
    /// Forward.
    #[serde(rename = "fwd")]
    Forward,
    /// Backward.
    #[serde(rename = "bwd")]
    Backward,
    /// Optimizer step.
    #[serde(rename = "opt")]
    Optimizer,
    /// The recording does not tell.
    #[serde(rename = "unknown")]
    Unknown,
}

impl Direction {
    /// As files write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "fwd",
            Self::Backward => "bwd",
            Self::Optimizer => "opt",
            Self::Unknown => "unknown",
        }
    }
}

/// A kernel, copy or fill of a leaf.
#[derive(Debug, Clone)]
pub struct LeafKernel {
    /// UID of the GPU event.
    pub uid: u32,
    /// Its name.
    pub name: Arc<str>,
    /// Its time in microseconds.
    pub us: f64,
    /// When it started.
    pub start: Ns,
    /// What kind of work it is.
    pub work: GpuWork,
    /// Whether it is a copy between host and device, or on the device, by the copy engine.
    pub is_copy: bool,
}

/// What autograd does while an operation runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autograd {
    /// Nothing.
    Off,
    /// It records the operation for a backward pass.
    Records,
}

/// An operation that launched GPU work itself.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// UID of the operation.
    pub uid: u32,
    /// Its name.
    pub name: Arc<str>,
    /// Whether it is an operation; a runtime call that no operation surrounds is none.
    pub is_op: bool,
    /// What it does.
    pub kind: Kind,
    /// Shapes, types, strides and scalars.
    pub inputs: Arc<InputLists>,
    /// What it launched, in order of start.
    pub kernels: Few<LeafKernel>,
    /// Time of its kernels in microseconds; overlapping kernels count once.
    pub us: f64,
    /// The row that its kernels are counted in.
    pub row: Option<RowId>,
    /// The innermost module around it.
    pub module: Option<ModuleId>,
    /// The operations around it, innermost first; [`Program::ops_around`] has their names.
    pub around: Few<OpAround>,
    /// For backward work: the leaf that the forward operation launched, or the next one after it if it launched none.
    pub forward: Option<LeafId>,
    /// Which pass it belongs to.
    pub direction: Direction,
    /// Number of its thread, in order of first appearance.
    pub thread: u32,
    /// Position of the profiler step it was launched in.
    pub step: Option<u32>,
    /// When the host called it.
    pub start: Ns,
    /// When the call returned.
    pub end: Ns,
    /// Whether it repeats forward work in the backward pass.
    pub is_recompute: bool,
    /// Whether it repeats forward work under activation checkpointing.
    pub is_repeated: bool,
    /// Whether gradients may follow.
    pub autograd: Autograd,
    /// Which of its first inputs are parts taken out of larger tensors just before, one bit each.
    taken: u8,
}

impl Leaf {
    /// Whether an input is a part that was taken out of a larger tensor just before, by one of its dimensions.
    pub fn takes_part(&self, input: usize) -> bool {
        input < 8 && self.taken & 1 << input != 0
    }
}

/// An operation around a leaf. There are several for every leaf, so they are kept small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpAround {
    /// UID of the operation.
    pub uid: u32,
    /// Position of its name in [`Program::op_names`].
    name: u32,
}

/// What stands for a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModuleKind {
    /// A call of an `nn.Module`.
    Module,
    /// A span that the user marked, in recordings without Python frames.
    Annotation,
}

/// A call of a module.
#[derive(Debug, Clone)]
pub struct Module {
    /// What it is.
    pub kind: ModuleKind,
    /// UID of the frame.
    pub uid: u32,
    /// Name with its number, such as `Qwen2RMSNorm_6`.
    pub name: Arc<str>,
    /// Name without it: the class.
    pub base: Arc<str>,
    /// The module around it.
    pub parent: Option<ModuleId>,
    /// Its leaves, those of modules in it included: a range of [`Program::leaves`].
    pub leaves: Range<usize>,
}

/// Leaf operations and the modules they ran in.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// Thread by thread, in order of call within a thread.
    pub leaves: Vec<Leaf>,
    /// In order of first leaf; an outer module stands before those in it.
    pub modules: Vec<Module>,
    /// Names of operations around leaves, each once.
    op_names: Vec<Arc<str>>,
    /// Sorts of whose rows only the first elements are read.
    firsts: RapidHashMap<LeafId, Firsts>,
    /// Number of profiler steps.
    pub steps: u32,
    /// Whether the recording has Python frames at all.
    pub has_frames: bool,
}

/// What the frames of modules begin with.
pub(crate) const MODULE_PREFIX: &str = "nn.Module: ";
const BACKWARD_WRAPPER: &str = "autograd::engine::evaluate_function";
/// What the annotations of optimizer steps begin with.
pub(crate) const OPTIMIZER_PREFIX: &str = "Optimizer.step";
/// Beginnings of the names of regions that run compiled code.
pub(crate) const COMPILED_REGIONS: [&str; 2] = ["## Call CompiledFxGraph", "Torch-Compiled Region"];
/// Beginnings of the names of operations that are such regions, forward and backward.
const COMPILED_OPS: [&str; 2] = [COMPILED_REGIONS[1], "CompiledFunction"];
/// Beginnings of annotations that mark no part of a model; regions of compiled code don't either.
const NOT_MODULES: &[&str] = &[
    "DataLoader",
    "Iteration",
    "Optimizer.",
    "ProfilerStep#",
    "PyTorch Profiler",
    "Trace",
    "c10d::",
    "enumerate(",
    "nccl:",
];

impl Program {
    /// Reads the program off a trace. The tree needs Python frames for modules to be seen.
    pub fn of(trace: &Trace, tree: &Tree, summary: &Summary, lists: &ArgLists) -> Self {
        Reader::new(trace, tree, summary, lists).read()
    }

    /// Tells every leaf the row that its kernels are counted in.
    #[must_use]
    pub fn with_rows(mut self, unified: &Unified) -> Self {
        let mut row_of_kernel: RapidHashMap<u32, RowId> = RapidHashMap::default();
        for (i, row) in unified.rows.iter().enumerate() {
            for call in unified.calls_of(row) {
                row_of_kernel.extend(call.kernels.iter().map(|k| (k.uid(), RowId(i as u32))));
            }
        }
        for leaf in &mut self.leaves {
            leaf.row = leaf.kernels.iter().find_map(|k| row_of_kernel.get(&k.uid).copied());
        }
        self
    }

    /// The leaf.
    pub fn leaf(&self, id: LeafId) -> &Leaf {
        &self.leaves[id.index()]
    }

    /// Names of the operations around a leaf of this program, innermost first.
    pub fn ops_around<'a>(&'a self, leaf: &'a Leaf) -> impl ExactSizeIterator<Item = &'a Arc<str>> {
        leaf.around.iter().map(|op| &self.op_names[op.name as usize])
    }

    /// Of a sort after which only the ends of its rows are read: how much of each.
    pub(crate) fn firsts_of(&self, sort: LeafId) -> Option<Firsts> {
        self.firsts.get(&sort).copied()
    }

    /// Whether all calls of a row lie in regions of compiled code.
    pub(crate) fn is_compiled(&self, row: RowId) -> bool {
        let is_region = |name: &Arc<str>| COMPILED_OPS.iter().any(|start| name.starts_with(start));
        let mut calls = self.leaves.iter().filter(|leaf| leaf.row == Some(row)).peekable();
        calls.peek().is_some() && calls.all(|leaf| self.ops_around(leaf).any(is_region))
    }

    /// The module call.
    pub fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.index()]
    }

    /// The modules around a leaf, outermost first.
    pub fn module_chain(&self, leaf: &Leaf) -> Vec<ModuleId> {
        let mut chain: Vec<ModuleId> =
            std::iter::successors(leaf.module, |&m| self.modules[m.index()].parent).collect();
        chain.reverse();
        chain
    }
}

/// The name of a module without its number.
pub fn base_name(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((base, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => base,
        _ => name,
    }
}

struct Reader<'a> {
    trace: &'a Trace,
    tree: &'a Tree,
    lists: &'a ArgLists,
    names: RapidHashMap<StrId, Arc<str>>,
    /// Positions in [`Program::op_names`].
    op_names: RapidHashMap<StrId, u32>,
    /// What kind of work GPU events of a kind and a name are.
    works: RapidHashMap<(EventKind, StrId), GpuWork>,
    /// What operations do that launched one kernel, by both names: few of many events.
    kinds: RapidHashMap<(StrId, StrId), Kind>,
    /// For a frame: the module it is or lies in.
    module_at: RapidHashMap<EventId, Option<ModuleId>>,
    /// What stands for modules where there are no frames.
    annotations: Option<Annotations>,
    /// Backward leaves with the forward operations they belong to.
    forwards: Vec<(LeafId, EventId)>,
    /// Leaves that autograd recorded inside a backward node, with that.
    recorded: Vec<(LeafId, EventId)>,
    optimizer: IntervalSet<Ns>,
    steps: Vec<(Ns, Ns)>,
    program: Program,
}

impl<'a> Reader<'a> {
    fn new(trace: &'a Trace, tree: &'a Tree, summary: &Summary, lists: &'a ArgLists) -> Self {
        let marked = |e: &EventId| trace.kind(*e).is_annotation() && trace.name(*e).starts_with(OPTIMIZER_PREFIX);
        let optimizer = trace.events().filter(marked).filter_map(|e| Ns::span_of(trace, e)).collect();
        let steps = summary.steps.iter().filter_map(|s| Ns::span_of(trace, s.event)).collect::<Vec<_>>();
        let program =
            Program { steps: steps.len() as u32, has_frames: summary.python_frames > 0, ..Program::default() };
        Self {
            trace,
            tree,
            lists,
            names: RapidHashMap::default(),
            op_names: RapidHashMap::default(),
            works: RapidHashMap::default(),
            kinds: RapidHashMap::default(),
            module_at: RapidHashMap::default(),
            annotations: (summary.python_frames == 0).then(|| Annotations::of(trace)),
            forwards: Vec::new(),
            recorded: Vec::new(),
            optimizer,
            steps,
            program,
        }
    }

    fn read(mut self) -> Program {
        let view = self.tree.view(self.trace);
        let launchers = view.launchers(Communication::Include);
        let mut order: Vec<_> = launchers.iter().collect();
        let mut threads: Vec<_> = Vec::new();
        let trace = self.trace;
        let mut thread_of = |e: EventId| {
            let track = trace.track_id(e);
            let known = threads.iter().position(|&t| t == track);
            known.unwrap_or_else(|| {
                threads.push(track);
                threads.len() - 1
            }) as u32
        };
        let thread_numbers: RapidHashMap<EventId, u32> = order.iter().map(|l| (l.event, thread_of(l.event))).collect();
        order.sort_by_key(|l| (thread_numbers[&l.event], self.trace.ts(l.event), l.event));
        self.program.leaves.reserve_exact(order.len());
        for launcher in order {
            let kernels = view.by_start(launcher.kernels);
            let leaf = self.leaf(launcher.event, &kernels, thread_numbers[&launcher.event]);
            self.program.leaves.push(leaf);
        }
        self.link_forward(&mut thread_of);
        repeated::mark(&mut self.program, &self.recorded);
        parts::mark(&mut self.program, trace, self.tree);
        self.program.firsts = firsts::find(&self.program, trace, self.tree);
        self.program
    }

    /// Finds the forward leaves of backward work, now that the leaves of all threads are known.
    fn link_forward(&mut self, mut thread_of: impl FnMut(EventId) -> u32) {
        for (leaf, forward) in std::mem::take(&mut self.forwards) {
            let from = (thread_of(forward), self.trace.ts(forward).unwrap_or_default());
            let at = self.program.leaves.partition_point(|l| (l.thread, l.start) < from);
            let found = self.program.leaves.get(at).filter(|l| l.thread == from.0);
            self.program.leaves[leaf.index()].forward = found.map(|_| LeafId(at as u32));
        }
    }

    fn name(&mut self, id: StrId) -> Arc<str> {
        let trace = self.trace;
        Arc::clone(self.names.entry(id).or_insert_with(|| trace.text(id).into()))
    }

    fn leaf(&mut self, event: EventId, kernels: &[EventId], thread: u32) -> Leaf {
        let trace = self.trace;
        let start = trace.ts(event).unwrap_or_default();
        let us = self.tree.view(trace).busy(kernels).0;
        let (kind, kernels) = self.work(event, kernels);
        let module = if self.annotations.is_some() {
            self.annotation_around(event)
        } else {
            self.tree.parent(event).and_then(|parent| self.module_around(parent))
        };
        let around: Vec<EventId> = self.tree.ancestors(event).filter(|&a| trace.kind(a) == EventKind::CpuOp).collect();
        let ops_around: Vec<Arc<str>> = around.iter().map(|&a| self.name(trace.name_id(a))).collect();
        let id = LeafId(self.program.leaves.len() as u32);
        if let Some(forward) = around.iter().find_map(|&a| self.tree.forward_of(a)) {
            self.forwards.push((id, forward));
        }
        self.recorded.extend(repeated::recorded_in(trace, event, &around, &ops_around).map(|node| (id, node)));
        let is_recompute = self.tree.is_recompute(event);
        self.note_leaf(module);
        Leaf {
            uid: event.uid(),
            name: self.name(trace.name_id(event)),
            is_op: trace.kind(event) == EventKind::CpuOp,
            kind,
            inputs: self.lists.of(trace, event),
            kernels,
            us,
            row: None,
            module,
            direction: self.direction(event, &ops_around, start),
            around: around.iter().map(|&a| self.op_around(a)).collect(),
            forward: None,
            thread,
            step: self.steps.iter().position(|&(from, to)| from <= start && start < to).map(|i| i as u32),
            start,
            end: start + trace.dur(event).unwrap_or_default(),
            is_recompute,
            is_repeated: repeated::is_marked(is_recompute, &ops_around),
            autograd: match trace.int(event, Key::SequenceNumber) {
                Some(_) => Autograd::Records,
                None => Autograd::Off,
            },
            taken: 0,
        }
    }

    fn op_around(&mut self, op: EventId) -> OpAround {
        let id = self.trace.name_id(op);
        let name = self.op_names.get(&id).copied().unwrap_or_else(|| {
            let (name, new) = (self.name(id), self.program.op_names.len() as u32);
            self.program.op_names.push(name);
            self.op_names.insert(id, new);
            new
        });
        OpAround { uid: op.uid(), name }
    }

    /// What a leaf does, and what it launched for that.
    fn work(&mut self, event: EventId, kernels: &[EventId]) -> (Kind, Few<LeafKernel>) {
        let trace = self.trace;
        let launched: Few<LeafKernel> = kernels.iter().map(|&k| self.kernel(k)).collect();
        let id = trace.name_id(event);
        let of = || kind::of(trace.text(id), &launched);
        let kind = match kernels {
            _ if trace.kind(event) != EventKind::CpuOp => Kind::Other,
            [one] => *self.kinds.entry((id, trace.name_id(*one))).or_insert_with(of),
            _ => of(),
        };
        (kind, launched)
    }

    fn kernel(&mut self, kernel: EventId) -> LeafKernel {
        let trace = self.trace;
        let (kind, id) = (trace.kind(kernel), trace.name_id(kernel));
        let name = self.name(id);
        let work = *self.works.entry((kind, id)).or_insert_with(|| GpuWork::classify(kind, &name));
        let us = trace.dur(kernel).unwrap_or_default().as_us();
        let start = trace.ts(kernel).unwrap_or_default();
        LeafKernel { uid: kernel.uid(), name, us, start, work, is_copy: kind == EventKind::GpuMemcpy }
    }

    /// The module that a frame is or lies in. Looked up once per frame: siblings share their callers.
    fn module_around(&mut self, frame: EventId) -> Option<ModuleId> {
        let mut unseen = Vec::new();
        let mut at = Some(frame);
        let mut found = None;
        while let Some(e) = at {
            if let Some(&known) = self.module_at.get(&e) {
                found = known;
                break;
            }
            unseen.push(e);
            at = self.tree.parent(e);
        }
        for e in unseen.into_iter().rev() {
            if self.trace.kind(e) == EventKind::PythonFunction
                && let Some(name) = self.trace.name(e).strip_prefix(MODULE_PREFIX)
            {
                let next = self.program.leaves.len();
                self.program.modules.push(Module {
                    kind: ModuleKind::Module,
                    uid: e.uid(),
                    name: name.into(),
                    base: base_name(name).into(),
                    parent: found,
                    leaves: next..next,
                });
                found = Some(ModuleId(self.program.modules.len() as u32 - 1));
            }
            self.module_at.insert(e, found);
        }
        found
    }

    /// The span that the user marked around an operation. Those of the profiler and of frameworks mark no part of a
    /// model.
    fn annotation_around(&mut self, event: EventId) -> Option<ModuleId> {
        let span = self.annotations.as_ref()?.innermost(self.trace, event)?;
        if let Some(&known) = self.module_at.get(&span) {
            return known;
        }
        let name = self.trace.name(span);
        let next = self.program.leaves.len();
        let module = (!NOT_MODULES.iter().chain(&COMPILED_REGIONS).any(|prefix| name.starts_with(prefix))).then(|| {
            self.program.modules.push(Module {
                kind: ModuleKind::Annotation,
                uid: span.uid(),
                name: name.into(),
                base: base_name(name).into(),
                parent: None,
                leaves: next..next,
            });
            ModuleId(self.program.modules.len() as u32 - 1)
        });
        self.module_at.insert(span, module);
        module
    }

    /// Widens the ranges of the modules around the leaf that is about to be added.
    fn note_leaf(&mut self, module: Option<ModuleId>) {
        let end = self.program.leaves.len() + 1;
        let mut at = module;
        while let Some(m) = at {
            let module = &mut self.program.modules[m.index()];
            module.leaves.end = end;
            at = module.parent;
        }
    }

    fn direction(&self, event: EventId, ops_around: &[Arc<str>], start: Ns) -> Direction {
        let name = self.trace.name(event);
        let backward = name.ends_with("_backward")
            || name.contains("Backward")
            || ops_around.iter().any(|op| op.starts_with(BACKWARD_WRAPPER));
        let spans = self.optimizer.spans();
        let after = spans.partition_point(|&(from, _)| from <= start);
        let in_step = after > 0 && start < spans[after - 1].1;
        if in_step {
            Direction::Optimizer
        } else if backward {
            Direction::Backward
        } else {
            Direction::Forward
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_trace::{TraceBuilder, TreeOptions};

    fn program(b: &TraceBuilder) -> Program {
        let trace = b.build();
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        Program::of(&trace, &tree, &Summary::of(&trace), &ArgLists::default())
    }

    #[test]
    fn leaves_stand_in_call_order_under_their_modules() {
        // |-- nn.Module: Block_0 ------------------------------------|
        //   |-- nn.Module: Norm_1 -----|      |-- aten::add --|
        //      |-- aten::mul --|
        let mut b = TraceBuilder::new();
        b.python("nn.Module: Block_0", 0.0, 100.0);
        b.python("nn.Module: Norm_1", 1.0, 40.0);
        b.cpu_op("aten::mul", 5.0, 20.0).arg("Input Dims", "[[2, 3]]");
        b.launch("cudaLaunchKernel", 6.0, 2.0, 1);
        b.cpu_op("aten::add", 60.0, 20.0);
        b.launch("cudaLaunchKernel", 61.0, 2.0, 2);
        b.kernel("mul_kernel", 50.0, 4.0, 1);
        b.kernel("add_kernel", 90.0, 6.0, 2);
        let p = program(&b);
        let names: Vec<&str> = p.leaves.iter().map(|l| &*l.name).collect();
        assert_eq!(names, ["aten::mul", "aten::add"]);
        assert_eq!(p.leaves[0].inputs.dims.as_ref().unwrap()[0].shape(), Some(&[2, 3][..]));
        let bases: Vec<&str> = p.modules.iter().map(|m| &*m.base).collect();
        assert_eq!(bases, ["Block", "Norm"]);
        assert_eq!((p.modules[0].leaves.clone(), p.modules[1].leaves.clone()), (0..2, 0..1));
        assert_eq!(p.module_chain(&p.leaves[0]), [ModuleId(0), ModuleId(1)]);
        assert_eq!(p.leaves[1].module, Some(ModuleId(0)));
    }

    #[test]
    fn passes_are_told_apart() {
        let mut b = TraceBuilder::new();
        b.annotation("Optimizer.step#SGD.step", 200.0, 100.0);
        b.cpu_op("autograd::engine::evaluate_function: MmBackward0", 0.0, 50.0);
        b.cpu_op("aten::mm", 5.0, 20.0);
        b.launch("cudaLaunchKernel", 6.0, 2.0, 1);
        b.cpu_op("aten::add_", 210.0, 20.0);
        b.launch("cudaLaunchKernel", 212.0, 2.0, 2);
        b.cpu_op("aten::mm", 400.0, 20.0);
        b.launch("cudaLaunchKernel", 402.0, 2.0, 3);
        for i in 1..4 {
            b.kernel("k", 1000.0 + 10.0 * i as f64, 4.0, i);
        }
        let directions: Vec<Direction> = program(&b).leaves.iter().map(|l| l.direction).collect();
        assert_eq!(directions, [Direction::Backward, Direction::Optimizer, Direction::Forward]);
    }

    #[test]
    fn backward_work_knows_its_forward_leaf() {
        // thread 1  |-- aten::expand --|  |-- aten::mul --|      forward, sequence numbers 4 and 5
        // thread 2                                     |-- MulBackward0 --|  |-- ExpandBackward0 --|
        let mut b = TraceBuilder::new();
        b.cpu_op("aten::expand", 0.0, 5.0).arg("Sequence number", 4);
        b.cpu_op("aten::mul", 10.0, 20.0).arg("Sequence number", 5);
        b.launch("cudaLaunchKernel", 12.0, 2.0, 1);
        for (at, sequence, correlation) in [(100.0, 5, 2), (200.0, 4, 3)] {
            let wrapper = format!("autograd::engine::evaluate_function: Backward{sequence}");
            b.cpu_op(&wrapper, at, 50.0).on(1, 2).arg("Sequence number", sequence);
            b.cpu_op("aten::sum", at + 5.0, 20.0).on(1, 2);
            b.launch("cudaLaunchKernel", at + 7.0, 2.0, correlation).on(1, 2);
        }
        for i in 1..4 {
            b.kernel("k", 1000.0 + 10.0 * i as f64, 4.0, i);
        }
        let p = program(&b);
        let forward: Vec<_> = p.leaves.iter().map(|l| l.forward).collect();
        // What launches nothing itself belongs to the next leaf.
        assert_eq!(forward, [None, Some(LeafId(0)), Some(LeafId(0))]);
    }

    #[test]
    fn spans_of_the_user_stand_for_modules_where_there_are_no_frames() {
        let mut b = TraceBuilder::new();
        b.annotation("ProfilerStep#1", 0.0, 300.0);
        b.annotation("layer_3", 10.0, 90.0);
        b.cpu_op("aten::mul", 20.0, 20.0);
        b.launch("cudaLaunchKernel", 22.0, 2.0, 1);
        b.cpu_op("aten::add", 200.0, 20.0);
        b.launch("cudaLaunchKernel", 202.0, 2.0, 2);
        b.kernel("k", 1000.0, 4.0, 1);
        b.kernel("k", 1010.0, 4.0, 2);
        let p = program(&b);
        assert_eq!(p.modules.len(), 1);
        assert_eq!((&*p.modules[0].base, p.modules[0].kind), ("layer", ModuleKind::Annotation));
        let modules: Vec<_> = p.leaves.iter().map(|l| l.module).collect();
        assert_eq!(modules, [Some(ModuleId(0)), None]);
    }

    #[test]
    fn base_names() {
        assert_eq!(base_name("Linear_3"), "Linear");
        assert_eq!(base_name("My_Block"), "My_Block");
        assert_eq!(base_name("X_"), "X_");
    }
}

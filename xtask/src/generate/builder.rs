//! Builds the template: events are opened and closed by nested calls, and each forward op leaves its backward on a
//! tape that is played later on the autograd thread.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::draw;
use super::kernels::Kernel;
use super::layout::{Hole, Layout, Shape, ShapeSet};
use super::memory::Heap;
use super::python::{Routine, Routines};
use super::random::Random;
use super::template::{FlowShapes, Gpu, Node, PID, Run, Spans, Stream, Template, Track, Work};
use super::tensor::{Arg, DType, Tensor};

/// Nominal times of host events, in nanoseconds, near those of `h200/hf_llama_train`.
mod nominal {
    pub(super) const FRAME_BEFORE: u32 = 700;
    pub(super) const FRAME_AFTER: u32 = 450;
    pub(super) const OP_BEFORE: u32 = 2_100;
    pub(super) const OP_AFTER: u32 = 1_500;
    pub(super) const CALL_BEFORE: u32 = 900;
    pub(super) const LAUNCH_BEFORE: u32 = 3_800;
    pub(super) const LAUNCH_AFTER: u32 = 8_300;
}

/// How rarely a piece of Python code takes another branch.
const BRANCH_ONE_IN: usize = 16;

/// Whether an op takes part in autograd: only then has it a sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Grad {
    Tracked,
    Plain,
}

/// A backward step waiting on the tape.
struct Pending {
    name: &'static str,
    /// Sequence number and flow of the forward op; gradients of parameters have neither.
    forward: Option<(u32, u32)>,
    grad: Tensor,
    play: Box<dyn FnOnce(&mut Builder)>,
}

/// See the module.
pub(super) struct Builder {
    layout: Layout,
    nodes: Vec<Node>,
    open: Vec<usize>,
    shapes: ShapeSet,
    spans: Spans,
    track: Track,
    grad: bool,
    tape: Vec<Pending>,
    modules: BTreeMap<&'static str, u32>,
    sites: BTreeMap<&'static str, Vec<Routine>>,
    parents: Vec<u32>,
    ops: Vec<u32>,
    /// Decides structure: names, routing, gaps between correlations.
    pub(super) random: Random,
    pub(super) heap: Heap,
    pub(super) routines: Routines,
    /// Gradient elements gathered since the last collective.
    pub(super) bucket_elements: i64,
}

impl Builder {
    /// An empty step.
    pub(super) fn new(layout: Layout, seed: u64) -> Self {
        let mut random = Random::new(seed, 0);
        let routines = Routines::new(&mut random);
        Self {
            layout,
            nodes: Vec::new(),
            open: Vec::new(),
            shapes: ShapeSet::default(),
            spans: Spans::default(),
            track: Track::Main,
            grad: false,
            tape: Vec::new(),
            modules: BTreeMap::new(),
            sites: BTreeMap::new(),
            parents: vec![0],
            ops: Vec::new(),
            random,
            heap: Heap::default(),
            routines,
            bucket_elements: 0,
        }
    }

    /// The finished step.
    pub(super) fn finish(mut self) -> Template {
        let layout = self.layout;
        let mut ac2g = |ph, place| self.shapes.add(draw::flow(layout, ph, "ac2g", place, Hole::Corr));
        let tracks = [Track::Main, Track::Autograd].map(|track| (PID, track.tid()));
        let launch = tracks.map(|place| ac2g("s", place));
        let call = tracks.map(|place| ac2g("f", place));
        let gpu = Stream::ALL.map(|stream| ac2g("f", (draw::DEVICE, stream.number())));
        let mut fwdbwd =
            |ph, track: Track| self.shapes.add(draw::flow(layout, ph, "fwdbwd", (PID, track.tid()), Hole::Flow));
        let (forward, backward) = (fwdbwd("s", Track::Main), fwdbwd("f", Track::Autograd));
        let flows = FlowShapes { launch, call, gpu, forward, backward };
        let overhead = self.shapes.add(draw::overhead(layout));
        Template { layout, nodes: self.nodes, shapes: self.shapes, spans: self.spans, flows, overhead }
    }

    fn push(&mut self, work: Work, shape: Shape, before_ns: u32, after_ns: u32) -> usize {
        let shape = self.shapes.add(shape);
        let ev = Run::of(&work, self.track).map_or(0, |run| {
            let next = &mut self.spans.ev[run as usize];
            *next += 1;
            *next - 1
        });
        let index = self.nodes.len();
        let end = index as u32 + 1;
        self.nodes.push(Node { work, track: self.track, shape, end, before_ns, after_ns, ev });
        index
    }

    fn inside<R>(&mut self, index: usize, body: impl FnOnce(&mut Self) -> R) -> R {
        self.open.push(index);
        let result = body(self);
        self.open.pop();
        self.nodes[index].end = self.nodes.len() as u32;
        result
    }

    /// A Python frame around `body`.
    pub(super) fn frame<R>(&mut self, name: &str, body: impl FnOnce(&mut Self) -> R) -> R {
        let shape = draw::frame(self.layout, name, None);
        self.frame_of(shape, body)
    }

    fn frame_of<R>(&mut self, shape: Shape, body: impl FnOnce(&mut Self) -> R) -> R {
        self.spans.py += 1;
        let py = self.spans.py;
        let parent = self.parents.last().copied().unwrap_or(0);
        let index = self.push(Work::Frame { py, parent }, shape, nominal::FRAME_BEFORE, nominal::FRAME_AFTER);
        self.parents.push(py);
        let result = self.inside(index, body);
        self.parents.pop();
        result
    }

    /// A frame that calls nothing.
    pub(super) fn call(&mut self, name: &str) {
        self.frame(name, |_| ());
    }

    /// A module of the network around `body`: its own frame, numbered within its class, and PyTorch's two.
    pub(super) fn module<R>(&mut self, class: &'static str, forward: &str, body: impl FnOnce(&mut Self) -> R) -> R {
        let next = self.modules.entry(class).or_insert(0);
        let number = *next;
        *next += 1;
        let shape = draw::frame(self.layout, &format!("nn.Module: {class}_{number}"), Some(number));
        self.frame_of(shape, |b| {
            b.frame("torch/nn/modules/module.py(1783): _call_impl", |b| {
                b.call(super::names::GET_TRACING_STATE);
                b.chatter(class, 6);
                b.frame(forward, |b| {
                    b.call("torch/nn/modules/module.py(1955): __getattr__");
                    body(b)
                })
            })
        })
    }

    /// About `frames` frames of ordinary Python work. The same `site` makes the same calls each time, as code does,
    /// but for a branch now and then.
    pub(super) fn chatter(&mut self, site: &'static str, frames: usize) {
        let mut body = self.sites.remove(site).unwrap_or_default();
        let mut played = 0;
        let mut at = 0;
        while played < frames {
            if at == body.len() {
                body.push(self.routines.pick(&mut self.random));
            }
            let branch = self.random.below(BRANCH_ONE_IN) == 0;
            let routine = if branch { self.routines.pick_rare(&mut self.random) } else { Rc::clone(&body[at]) };
            at += usize::from(!branch);
            played += routine.len();
            self.routine(&routine, 0, 0);
        }
        self.sites.insert(site, body);
    }

    /// Plays the frames of a routine that lie at `depth`, from `from` on; returns where it stopped.
    fn routine(&mut self, routine: &[(u8, Rc<str>)], from: usize, depth: u8) -> usize {
        let mut at = from;
        while at < routine.len() && routine[at].0 == depth {
            let name = routine[at].1.clone();
            at = self.frame(&name, |b| b.routine(routine, at + 1, depth + 1));
        }
        at
    }

    /// An op around `body`, outside autograd.
    pub(super) fn op<R>(&mut self, name: &str, args: &[Arg<'_>], body: impl FnOnce(&mut Self) -> R) -> R {
        self.any_op(name, args, Grad::Plain, body)
    }

    /// An op around `body` that autograd tracks (unless gradients are off).
    pub(super) fn tracked<R>(&mut self, name: &str, args: &[Arg<'_>], body: impl FnOnce(&mut Self) -> R) -> R {
        self.any_op(name, args, Grad::Tracked, body)
    }

    fn any_op<R>(&mut self, name: &str, args: &[Arg<'_>], grad: Grad, body: impl FnOnce(&mut Self) -> R) -> R {
        let head = match (grad, self.grad) {
            (Grad::Tracked, true) => draw::Head::Forward,
            _ => draw::Head::Plain,
        };
        let shape = draw::op(self.layout, name, self.track, head, Some(args));
        self.op_of(shape, None, body)
    }

    /// An op whose shape is already drawn.
    pub(super) fn op_of<R>(
        &mut self,
        shape: Shape,
        forward: Option<(u32, Option<u32>)>,
        body: impl FnOnce(&mut Self) -> R,
    ) -> R {
        self.spans.ext += 1;
        let ext = self.spans.ext;
        let (seq, flow) = forward.unwrap_or((self.spans.seq, None));
        let index = self.push(Work::Op { ext, seq, flow }, shape, nominal::OP_BEFORE, nominal::OP_AFTER);
        self.ops.push(ext);
        let result = self.inside(index, body);
        self.ops.pop();
        result
    }

    /// An op that does nothing the profiler would see.
    pub(super) fn leaf(&mut self, name: &str, args: &[Arg<'_>]) {
        self.op(name, args, |_| ());
    }

    /// Layout and thread, for shapes drawn elsewhere.
    pub(super) fn style(&self) -> (Layout, Track) {
        (self.layout, self.track)
    }

    /// A user annotation around `body`; `on_gpu` gives it a twin above the kernels it covers.
    pub(super) fn note<R>(&mut self, name: draw::Note<'_>, on_gpu: bool, body: impl FnOnce(&mut Self) -> R) -> R {
        self.spans.ext += 1;
        let ext = self.spans.ext;
        let shape = draw::note(self.layout, name, self.track);
        let gpu = on_gpu.then(|| self.shapes.add(draw::gpu_note(self.layout, name)));
        let index = self.push(Work::Note { ext, gpu }, shape, nominal::OP_BEFORE, nominal::OP_AFTER);
        self.inside(index, body)
    }

    fn next_corr(&mut self) -> u32 {
        // Real correlations skip the calls that the profiler does not record, mostly 1 to 26 of them.
        self.spans.corr += 1 + self.random.skewed(26) as u32;
        self.spans.corr
    }

    /// A runtime call that launches nothing.
    pub(super) fn runtime(&mut self, name: &str, cbid: i64, nominal_ns: u32) {
        let waits = name == "cudaDeviceSynchronize" || name == "cudaStreamSynchronize";
        let (ext, corr) = (self.ops.last().copied(), self.next_corr());
        let shape = draw::runtime(self.layout, name, cbid, self.track, ext.is_some());
        let work = Work::Call { ext: ext.unwrap_or(0), corr, waits };
        self.push(work, shape, nominal::CALL_BEFORE, nominal_ns);
    }

    fn launch_by(&mut self, name: &str, cbid: i64, gpu: impl FnOnce(&mut ShapeSet, bool) -> Gpu) {
        let (ext, corr) = (self.ops.last().copied(), self.next_corr());
        let shape = draw::runtime(self.layout, name, cbid, self.track, ext.is_some());
        let gpu = gpu(&mut self.shapes, ext.is_some());
        let work = Work::Launch { ext: ext.unwrap_or(0), corr, gpu };
        self.push(work, shape, nominal::LAUNCH_BEFORE, nominal::LAUNCH_AFTER);
    }

    /// Launches a kernel on the compute stream.
    pub(super) fn launch(&mut self, kernel: &Kernel) {
        self.launch_on(kernel, Stream::Compute, &[]);
    }

    /// Launches a kernel; `extra` are further arguments of it, already in JSON.
    pub(super) fn launch_on(&mut self, kernel: &Kernel, stream: Stream, extra: &[(&str, String)]) {
        let layout = self.layout;
        let (name, cbid) = kernel.launcher();
        self.launch_by(name, cbid, |shapes, in_op| {
            let shape = shapes.add(draw::kernel(layout, kernel, stream, in_op, extra));
            Gpu { shape, stream, nominal_ns: kernel.nominal_ns, bytes: 0 }
        });
    }

    /// Launches a copy or a memset of `bytes`.
    pub(super) fn transfer(&mut self, transfer: draw::Transfer, stream: Stream, bytes: i64) {
        let layout = self.layout;
        let (name, cbid) = transfer.launcher();
        self.launch_by(name, cbid, |shapes, in_op| {
            let shape = shapes.add(draw::transfer(layout, transfer, stream, bytes, in_op));
            let nominal_ns = transfer.nominal_ns(bytes);
            Gpu { shape, stream, nominal_ns, bytes: bytes as u64 }
        });
    }

    /// Records an allocation (or, with negative bytes, its return) at this point.
    fn memory_event(&mut self, bytes: i64, address: i64) {
        let total = self.heap.total();
        let shape = draw::memory(self.layout, self.track, bytes, address, total);
        self.push(Work::Memory, shape, 1, 1);
    }

    /// Allocates a tensor until the end of its backward, or of the step.
    pub(super) fn allocate(&mut self, tensor: &Tensor) {
        let (bytes, address) = self.heap.take(tensor.bytes());
        self.memory_event(bytes, address);
    }

    /// Frees what is still allocated beyond `keep` blocks.
    pub(super) fn free_down_to(&mut self, keep: usize) {
        while let Some((bytes, address)) = self.heap.give_back(keep) {
            self.memory_event(-bytes, address);
        }
    }

    /// Runs `body` with gradients on or off.
    pub(super) fn with_grad<R>(&mut self, on: bool, body: impl FnOnce(&mut Self) -> R) -> R {
        let before = std::mem::replace(&mut self.grad, on);
        let result = body(self);
        self.grad = before;
        result
    }

    /// Puts the backward of the op that is open now on the tape: `grad` is the gradient that arrives.
    pub(super) fn record(&mut self, name: &'static str, grad: &Tensor, play: impl FnOnce(&mut Self) + 'static) {
        if !self.grad {
            return;
        }
        self.spans.flow += 1;
        let (seq, flow) = (self.spans.seq, self.spans.flow);
        self.spans.seq += 1;
        if let Some(&index) = self.open.last()
            && let Work::Op { flow: end, .. } = &mut self.nodes[index].work
        {
            *end = Some(flow);
        }
        self.tape.push(Pending { name, forward: Some((seq, flow)), grad: grad.clone(), play: Box::new(play) });
    }

    /// Puts the accumulation of a parameter's gradient on the tape.
    pub(super) fn record_parameter(&mut self, grad: &Tensor, play: impl FnOnce(&mut Self) + 'static) {
        if self.grad {
            let name = "torch::autograd::AccumulateGrad";
            self.tape.push(Pending { name, forward: None, grad: grad.clone(), play: Box::new(play) });
        }
    }

    /// Plays the tape, last entry first, on the autograd thread.
    pub(super) fn backward(&mut self) {
        self.track = Track::Autograd;
        let (parents, ops) = (std::mem::take(&mut self.parents), std::mem::take(&mut self.ops));
        while let Some(pending) = self.tape.pop() {
            self.evaluate(pending);
        }
        (self.parents, self.ops) = (parents, ops);
        self.track = Track::Main;
    }

    fn evaluate(&mut self, pending: Pending) {
        let Pending { name, forward, grad, play } = pending;
        let head = if forward.is_some() { draw::Head::Backward } else { draw::Head::Plain };
        let outer =
            draw::op(self.layout, &format!("autograd::engine::evaluate_function: {name}"), self.track, head, None);
        let inner = draw::op(self.layout, name, self.track, head, Some(&[Arg::T(&grad)]));
        let kept = self.heap.blocks();
        self.op_of(outer, forward.map(|(seq, _)| (seq, None)), |b| {
            b.op_of(inner, forward.map(|(seq, flow)| (seq, Some(flow))), play);
            b.free_down_to(kept.saturating_sub(1));
        });
    }

    /// `aten::empty` and the memory behind it.
    pub(super) fn empty(&mut self, tensor: &Tensor) {
        let dims = Arg::L(&tensor.dims);
        let args = [dims, Arg::S(tensor.dtype.code()), Arg::S("0"), Arg::No, Arg::No, Arg::No];
        self.op("aten::empty", &args, |b| b.allocate(tensor));
    }

    /// `aten::empty_strided` and the memory behind it.
    pub(super) fn empty_strided(&mut self, tensor: &Tensor) {
        let code = Arg::S(tensor.dtype.code());
        let args = [Arg::L(&tensor.dims), Arg::L(&tensor.strides), code, Arg::S("0"), Arg::No, Arg::S("False")];
        self.op("aten::empty_strided", &args, |b| b.allocate(tensor));
    }

    /// A scalar tensor, as losses are.
    pub(super) fn scalar(dtype: DType) -> Tensor {
        Tensor::new(dtype, &[])
    }
}

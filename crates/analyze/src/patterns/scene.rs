//! What detectors see: the program, with what each leaf does, its tensors and its cost, and where sequences break.

use std::sync::Arc;

use jarvis_perf::call::{Dims, InputLists, OpCall};
use jarvis_perf::dtype;
use jarvis_perf::models::{self, ComputeUnit, Cost, elementwise::broadcast};
use jarvis_perf::parity::Quirks;
use jarvis_perf::platform::Platform;
use jarvis_trace::Ns;
use rapidhash::RapidHashMap;

use crate::prepared::{Baseline, Prepared, Utilization};
use crate::program::kind::{self, Kind};
use crate::program::{Direction, Leaf, LeafId, ModuleId, OpAround, Program};
use crate::thresholds::Thresholds;

/// A host gap longer than this ends a sequence: what follows belongs to something else.
const SEQUENCE_GAP: Ns = Ns(1_000_000);

/// Where pauses are usually longer than this the GPU waits for the host, and what fewer kernels bring is not theirs.
const LONGEST_PAUSE_US: f64 = 2.0;

/// A tensor operand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operand<'a> {
    pub(crate) dims: &'a [i64],
    pub(crate) dtype: &'a str,
    pub(crate) strides: Option<&'a [i64]>,
}

impl Operand<'_> {
    pub(crate) fn numel(&self) -> i64 {
        numel(self.dims)
    }

    /// Bytes of the whole tensor; four bytes an element where the type is unknown.
    pub(crate) fn bytes(&self) -> f64 {
        self.numel() as f64 * element_size(self.dtype)
    }

    /// Whether elements lie in the order of their indices, without gaps; also where that was not recorded.
    pub(crate) fn is_contiguous(&self) -> bool {
        let mut expected: i64 = 1;
        self.strides.is_none_or(|strides| {
            strides.iter().zip(self.dims).rev().all(|(stride, dim)| {
                let fits = *dim == 1 || *stride == expected;
                expected = expected.saturating_mul(*dim);
                fits
            })
        })
    }
}

/// Elements of a shape. Sizes that no tensor has give none, or as many as can be counted.
pub(crate) fn numel(dims: &[i64]) -> i64 {
    dims.iter().fold(1, |n: i64, d| n.saturating_mul((*d).max(0)))
}

pub(crate) fn element_size(name: &str) -> f64 {
    dtype::size(name, &Quirks::NONE).map_or(4.0, |s| s as f64)
}

/// A leaf as patterns see it.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
    /// Its name without `aten::` and the mark of in-place variants.
    pub(crate) base: &'a str,
    /// Whether it overwrites its first operand.
    pub(crate) in_place: bool,
    /// Tensors with at least one dimension; those of a list one by one.
    pub(crate) operands: Vec<Operand<'a>>,
    /// Shape of the result of an elementwise operation; of others the shape of the largest operand.
    pub(crate) full: Vec<i64>,
    /// Shape of the result of a reduction along some dimensions.
    kept: Option<Vec<i64>>,
    /// Whether it is a reduction of all dimensions: its number is not there before all of the tensor was read.
    pub(crate) leaves_a_number: bool,
    /// Whether it is elementwise on tensors without dimensions.
    pub(crate) is_scalar: bool,
    /// Its model's cost, where it has one.
    pub(crate) cost: Option<Cost>,
}

impl<'a> Look<'a> {
    pub(crate) fn new(leaf: &'a Leaf) -> Self {
        let kind = leaf.kind;
        let operands = operands(&leaf.inputs);
        let full = if matches!(kind, Kind::Elementwise | Kind::Random) {
            operands.iter().try_fold(Vec::new(), |out, o| broadcast(&out, o.dims)).ok()
        } else {
            None
        };
        let largest = || operands.iter().map(|o| o.dims).max_by_key(|d| numel(d)).unwrap_or_default().to_vec();
        let full = full.unwrap_or_else(largest);
        let in_place = leaf.name.starts_with("aten::") && leaf.name.ends_with('_') && !leaf.name.ends_with("__");
        let (name, base) = (&*leaf.name, kind::base(&leaf.name));
        let kept = if kind == Kind::Reduce { kept(&leaf.inputs, base) } else { None };
        let leaves_a_number = kind == Kind::Reduce && kept.is_none() && leaf.inputs.concrete.is_some();
        let is_scalar = kind == Kind::Elementwise && operands.is_empty() && has_scalar_tensor(&leaf.inputs);
        Self { kind, name, base, in_place, operands, full, kept, leaves_a_number, is_scalar, cost: cost(leaf) }
    }

    /// Elements of `full`.
    pub(crate) fn numel(&self) -> i64 {
        if self.full.is_empty() { 0 } else { numel(&self.full) }
    }

    /// Tensor operands with as many elements as the result.
    pub(crate) fn full_operands(&self) -> impl Iterator<Item = &Operand<'a>> {
        let n = self.numel();
        self.read().iter().filter(move |o| o.numel() == n)
    }

    /// Tensor operands that are read.
    pub(crate) fn read(&self) -> &[Operand<'a>] {
        // The destination of a copy is written, not read.
        let read = if self.kind == Kind::Copy { 1.min(self.operands.len().saturating_sub(1)) } else { 0 };
        &self.operands[read..]
    }

    /// Shape of its result, where the arguments tell; of a matrix product as one matrix.
    pub(crate) fn result(&self) -> Option<Vec<i64>> {
        let first = || self.operands.first().map(|o| o.dims.to_vec());
        match self.kind {
            _ if self.in_place => first(),
            Kind::Copy | Kind::Norm | Kind::Softmax | Kind::SoftmaxBackward => first(),
            // Half of it goes.
            Kind::Elementwise if self.base == "glu" => None,
            Kind::Elementwise | Kind::Random => Some(self.full.clone()).filter(|f| !f.is_empty()),
            Kind::Reduce => self.kept.clone(),
            Kind::Matrix => super::epilogue::output(self).map(|(all, last)| vec![all / last.max(1), last]),
            _ => None,
        }
    }

    /// Whether its result can be of a type.
    pub(crate) fn may_give(&self, dtype: &str) -> bool {
        match self.base {
            "copy" => self.operands.first().is_some_and(|o| o.dtype == dtype),
            "argmax" | "argmin" => dtype == "long int",
            _ if is_test(self.base) => dtype == "bool",
            _ => self.operands.iter().any(|o| o.dtype == dtype),
        }
    }

    /// Bytes of its result.
    pub(crate) fn result_bytes(&self) -> f64 {
        let first = self.operands.first();
        let size = match self.kind {
            Kind::Copy => first.map(|o| element_size(o.dtype)),
            _ if is_test(self.base) => Some(1.0),
            // Of several floating types the widest; masks and indices do not count.
            _ => self.full_operands().map(|o| element_size(o.dtype)).reduce(f64::max),
        };
        self.numel() as f64 * size.unwrap_or(4.0)
    }

    /// Whether a scalar, and no tensor, is the second operand.
    pub(crate) fn with_scalar(&self) -> bool {
        self.operands.len() == 1
    }

    /// Whether it copies to another type.
    pub(crate) fn is_cast(&self) -> bool {
        self.kind == Kind::Copy && matches!(&self.operands[..], [a, b] if a.dtype != b.dtype)
    }
}

/// Whether an operation answers yes or no for each element.
fn is_test(base: &str) -> bool {
    matches!(base, "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "isnan" | "isinf")
}

/// Same elements and same last dimension: leading dimensions are merged and split for free.
pub(crate) fn agree(a: &[i64], b: &[i64]) -> bool {
    a == b || a.last() == b.last() && numel(a) == numel(b)
}

/// Whether two shapes are those of a matrix and of the same one turned.
pub(crate) fn is_transposed(a: &[i64], b: &[i64]) -> bool {
    matches!((a, b), ([rows, columns], [c, r]) if (rows, columns) == (r, c))
}

/// Where the dimensions of a reduction stand among its arguments.
fn reduced_at(base: &str) -> usize {
    if matches!(base, "linalg_vector_norm" | "norm") { 2 } else { 1 }
}

/// The dimensions that a reduction of a tensor of this rank goes over, counted from the first; `None` where the arguments
/// do not tell.
pub(crate) fn reduced(inputs: &InputLists, base: &str, rank: i64) -> Option<Vec<i64>> {
    let dims = jarvis_perf::args::ints(inputs.concrete.as_ref()?.get(reduced_at(base))?)?;
    Some(dims.into_iter().map(|d| if d < 0 { d + rank } else { d }).collect())
}

/// What a reduction leaves of its first operand's shape: one element of each dimension that goes if it keeps them. `None`
/// where the arguments do not tell, or all dimensions go.
fn kept(inputs: &InputLists, base: &str) -> Option<Vec<i64>> {
    let shape = inputs.dims.as_ref()?.first()?.shape()?;
    // An empty list stands for all of them.
    let dims = reduced(inputs, base, shape.len() as i64).filter(|dims| !dims.is_empty())?;
    let after = inputs.concrete.as_ref()?.get(reduced_at(base) + 1..)?;
    // The flag comes after the dimensions, of variances not at once.
    let flag = after.iter().find(|c| matches!(&***c, "True" | "False"));
    let keeps = flag.is_some_and(|c| c == "True");
    let sizes = shape.iter().zip(0..).filter_map(|(&size, i)| match dims.contains(&i) {
        true if keeps => Some(1),
        true => None,
        false => Some(size),
    });
    Some(sizes.collect::<Vec<_>>()).filter(|s| !s.is_empty())
}

/// What a leaf's model says.
fn cost(leaf: &Leaf) -> Option<Cost> {
    let kernels: Vec<&str> = leaf.kernels.iter().map(|k| &*k.name).collect();
    let call = OpCall {
        name: &leaf.name,
        inputs: &leaf.inputs,
        kernels: &kernels,
        launches: &[],
        sequence: None,
        annotation: None,
        extra: &[],
        forward: None,
    };
    if leaf.is_op { models::cost(&call, &Quirks::NONE) } else { None }
}

/// The tensors of a call.
fn operands(inputs: &InputLists) -> Vec<Operand<'_>> {
    let dims = inputs.dims.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    for (i, entry) in dims.iter().enumerate() {
        let dtype = inputs.types.as_ref().and_then(|t| t.get(i)).map_or("", String::as_str);
        let strides = inputs.strides.as_ref().and_then(|s| s.get(i));
        match entry {
            Dims::Shape(shape) if shape.is_empty() => {}
            Dims::Shape(shape) => {
                found.push(Operand { dims: shape, dtype, strides: strides.and_then(Dims::shape) });
            }
            Dims::List(shapes) => {
                found.extend(shapes.iter().map(|dims| Operand { dims, dtype, strides: None }));
            }
        }
    }
    found
}

/// Whether a tensor without dimensions is among the inputs: numbers have none either, but no type of their own.
pub(super) fn has_scalar_tensor(inputs: &InputLists) -> bool {
    let (Some(dims), Some(types)) = (&inputs.dims, &inputs.types) else { return false };
    let is = |(dims, dtype): (&Dims, &String)| {
        dims.shape().is_some_and(<[i64]>::is_empty) && dtype != "Scalar" && dtype::size(dtype, &Quirks::NONE).is_some()
    };
    dims.iter().zip(types.iter()).any(is)
}

/// Everything a detector may look at.
#[derive(Debug)]
pub struct Scene<'a> {
    pub(crate) program: &'a Program,
    pub(crate) platform: &'a Platform,
    pub(crate) baseline: &'a Baseline,
    pub(crate) utilization: &'a Utilization,
    pub(crate) thresholds: &'a Thresholds,
    /// Equal calls share a look.
    looks: Vec<Look<'a>>,
    look_of: Vec<u32>,
    /// Class of each module in lower case, and how many modules there are around and including it.
    classes: Vec<String>,
    depths: Vec<u32>,
    /// Number of the unbroken sequence of each leaf.
    sequence: Vec<u32>,
    /// The same where long pauses of the host break nothing.
    run: Vec<u32>,
    /// For each leaf the backward leaves it caused, as a range of `backward`.
    backward: Vec<LeafId>,
    first_backward: Vec<u32>,
    /// Time of matrix work and attention in the whole trace.
    pub(crate) matrix_ms: f64,
    /// What the GPU usually waits between two kernels, in microseconds.
    pub(crate) pause_us: f64,
}

impl<'a> Scene<'a> {
    /// Looks at a program.
    pub fn new(
        program: &'a Program,
        platform: &'a Platform,
        baseline: &'a Baseline,
        utilization: &'a Utilization,
        thresholds: &'a Thresholds,
    ) -> Self {
        let (looks, look_of) = looks(program);
        let is_matrix = |k: Kind| matches!(k, Kind::Matrix | Kind::Grouped | Kind::Convolution | Kind::Attention);
        let matrix = program.leaves.iter().zip(&look_of).filter(|(_, l)| is_matrix(looks[**l as usize].kind));
        let matrix_us: f64 = matrix.map(|(leaf, _)| leaf.us).sum();
        let mut depths: Vec<u32> = Vec::with_capacity(program.modules.len());
        for module in &program.modules {
            // An outer module stands before those in it.
            depths.push(module.parent.map_or(1, |p| depths[p.index()] + 1));
        }
        let (backward, first_backward) = backward_leaves(program);
        Self {
            program,
            platform,
            baseline,
            utilization,
            thresholds,
            sequence: numbered(program, breaks),
            run: numbered(program, begins_another_run),
            looks,
            look_of,
            classes: program.modules.iter().map(|m| m.base.to_ascii_lowercase()).collect(),
            depths,
            backward,
            first_backward,
            matrix_ms: matrix_us / 1e3,
            pause_us: pause_us(program),
        }
    }

    /// The same from what all analyzers see.
    pub fn of(prepared: &'a Prepared) -> Self {
        let Prepared { program, platform, baseline, utilization, thresholds, .. } = prepared;
        Self::new(program, platform, baseline, utilization, thresholds)
    }

    /// Whether a backward pass or an optimizer runs, so that weights change from step to step.
    pub(crate) fn trains(&self) -> bool {
        self.program.leaves.iter().any(|l| matches!(l.direction, Direction::Backward | Direction::Optimizer))
    }

    pub(crate) fn len(&self) -> usize {
        self.look_of.len()
    }

    pub(crate) fn leaf(&self, at: usize) -> &'a Leaf {
        &self.program.leaves[at]
    }

    pub(crate) fn look(&self, at: usize) -> &Look<'a> {
        &self.looks[self.look_of[at] as usize]
    }

    /// Whether two leaves are equal calls.
    pub(crate) fn are_alike(&self, a: usize, b: usize) -> bool {
        self.look_of[a] == self.look_of[b]
    }

    /// Whether two leaves stand in one unbroken sequence.
    pub(crate) fn together(&self, a: usize, b: usize) -> bool {
        self.sequence[a] == self.sequence[b]
    }

    /// Whether two leaves stand in one sequence that only long pauses of the host break.
    pub(crate) fn in_one_run(&self, a: usize, b: usize) -> bool {
        self.run[a] == self.run[b]
    }

    /// The positions after `at` in its sequence.
    pub(crate) fn after(&self, at: usize) -> std::ops::Range<usize> {
        let end = self.sequence[at..].partition_point(|&s| s == self.sequence[at]);
        at + 1..at + end
    }

    /// The positions before `at` in its sequence.
    pub(crate) fn before(&self, at: usize) -> std::ops::Range<usize> {
        self.sequence[..at].partition_point(|&s| s < self.sequence[at])..at
    }

    pub(crate) fn us(&self, leaves: &[LeafId]) -> f64 {
        leaves.iter().map(|l| self.program.leaf(*l).us).fold(0.0, std::ops::Add::add)
    }

    /// The backward leaves that forward leaves caused, in order of launch. Work repeated by checkpointing is no
    /// backward work.
    pub(crate) fn backward_of(&self, leaves: &[LeafId]) -> Vec<LeafId> {
        let mut found: Vec<LeafId> = Vec::new();
        for l in leaves {
            let (from, to) = (self.first_backward[l.index()], self.first_backward[l.index() + 1]);
            found.extend(&self.backward[from as usize..to as usize]);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Peak bandwidth in bytes a microsecond.
    pub(crate) fn bytes_per_us(&self) -> f64 {
        self.platform.mem_bw_gbps.value * 1e3
    }

    /// Best rate for a Compute Spec in operations a microsecond; `None` where the platform has none.
    pub(crate) fn flops_per_us(&self, spec: Option<&str>) -> Option<f64> {
        Some(self.platform.peak(spec?)?.value * 1e6)
    }

    /// The two sides of a leaf's roofline, in microseconds: arithmetic and memory. `None` for matrix work whose rate is
    /// not known; that of vector lanes is then taken to cost nothing.
    pub(crate) fn sides_us(&self, look: &Look<'_>) -> Option<(f64, f64)> {
        let cost = look.cost.as_ref()?;
        let arithmetic = match (cost.flops.filter(|&flops| flops > 0.0), self.flops_per_us(cost.spec().as_deref())) {
            (Some(flops), Some(rate)) => flops / rate,
            (Some(_), None) if cost.unit == ComputeUnit::Matrix => return None,
            _ => 0.0,
        };
        Some((arithmetic, cost.bytes? / self.bytes_per_us()))
    }

    /// The least time that a leaf may take, in microseconds.
    pub(crate) fn roofline_us(&self, look: &Look<'_>) -> Option<f64> {
        self.sides_us(look).map(|(arithmetic, memory)| arithmetic.max(memory))
    }

    /// Vector instructions a microsecond: a multiply-add counts as two operations in a platform's rate.
    pub(crate) fn instructions_per_us(&self) -> f64 {
        self.platform.vector_peak().map_or(f64::INFINITY, |p| p.value * 1e6 / 2.0)
    }

    /// Share of the peak bandwidth that simple operations reach in this trace, at most all of it.
    pub(crate) fn baseline_share(&self) -> f64 {
        (self.baseline.efficiency_percent / 100.0).clamp(0.05, 1.0)
    }

    /// The innermost module of a leaf; backward work belongs to that of its forward.
    pub(crate) fn module_of(&self, leaf: &Leaf) -> Option<ModuleId> {
        leaf.module.or_else(|| leaf.forward.and_then(|f| self.program.leaf(f).module))
    }

    /// The innermost module that holds all of the leaves.
    pub(crate) fn common_module(&self, leaves: &[LeafId]) -> Option<ModuleId> {
        let mut modules = leaves.iter().map(|l| self.module_of(self.program.leaf(*l)));
        let first = modules.next()??;
        modules.try_fold(first, |common, m| self.meet(common, m?))
    }

    /// The innermost module that holds both.
    fn meet(&self, mut a: ModuleId, mut b: ModuleId) -> Option<ModuleId> {
        while a != b {
            if self.depths[a.index()] >= self.depths[b.index()] {
                a = self.program.module(a).parent?;
            } else {
                b = self.program.module(b).parent?;
            }
        }
        Some(a)
    }

    /// The innermost operation around all of the leaves, if they are not all that same operation's own.
    pub(crate) fn common_op(&self, leaves: &[LeafId]) -> Option<&'a Arc<str>> {
        let first = self.program.leaf(*leaves.first()?);
        let holds_all = |op: &OpAround| leaves.iter().all(|l| self.program.leaf(*l).around.contains(op));
        let at = first.around.iter().position(holds_all)?;
        self.program.ops_around(first).nth(at).filter(|name| !name.starts_with("autograd::engine"))
    }

    /// How many modules there are around and including this one.
    pub(crate) fn depth(&self, module: Option<ModuleId>) -> usize {
        module.map_or(0, |m| self.depths[m.index()] as usize)
    }

    /// The innermost of a module and those around it whose class has one of these words; case does not count.
    pub(crate) fn hint(&self, module: Option<ModuleId>, words: &[&str]) -> Option<ModuleId> {
        let mut outwards = std::iter::successors(module, |m| self.program.module(*m).parent);
        outwards.find(|m| words.iter().any(|w| self.classes[m.index()].contains(w)))
    }
}

/// A call as far as its look is concerned: name, inputs (shared by equal calls), kernels.
type Call<'a> = (&'a str, *const InputLists, usize, Option<&'a str>);

/// The different looks, and which one each leaf has.
fn looks(program: &Program) -> (Vec<Look<'_>>, Vec<u32>) {
    let mut known: RapidHashMap<Call<'_>, u32> = RapidHashMap::default();
    let mut looks: Vec<Look<'_>> = Vec::new();
    let mut look_of = Vec::with_capacity(program.leaves.len());
    for leaf in &program.leaves {
        let first = leaf.kernels.first().map(|k| &*k.name);
        let call = (&*leaf.name, Arc::as_ptr(&leaf.inputs), leaf.kernels.len(), first);
        let at = *known.entry(call).or_insert_with(|| {
            looks.push(Look::new(leaf));
            looks.len() as u32 - 1
        });
        look_of.push(at);
    }
    (looks, look_of)
}

/// The median pause between one kernel's end and the next one's start, where they don't overlap; none where the GPU
/// waits for the host.
fn pause_us(program: &Program) -> f64 {
    let mut spans: Vec<(Ns, f64)> = program.leaves.iter().flat_map(|l| &l.kernels).map(|k| (k.start, k.us)).collect();
    spans.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    // The difference is taken of whole nanoseconds: floats of absolute times would make it depend on where time begins.
    let pause = |w: &[(Ns, f64)]| (w[1].0 - w[0].0).as_us() - w[0].1;
    let mut pauses: Vec<f64> = spans.windows(2).map(pause).filter(|p| *p >= 0.0).collect();
    pauses.sort_by(f64::total_cmp);
    pauses.get(pauses.len() / 2).copied().filter(|p| *p <= LONGEST_PAUSE_US).unwrap_or(0.0)
}

/// Whether a leaf begins another sequence than the one before it stands in. Within one call of a module a pause of the host
/// is no end: it may collect its garbage there, or load a kernel.
pub(crate) fn breaks(previous: &Leaf, leaf: &Leaf) -> bool {
    let in_one_module = previous.module.is_some() && previous.module == leaf.module;
    begins_another_run(previous, leaf) || !in_one_module && leaf.start > previous.end + SEQUENCE_GAP
}

/// Whether a leaf belongs to another thread or profiler step than the one before it, or one of them to the optimizer.
fn begins_another_run(previous: &Leaf, leaf: &Leaf) -> bool {
    let in_optimizer = |l: &Leaf| l.direction == Direction::Optimizer;
    previous.thread != leaf.thread || previous.step != leaf.step || in_optimizer(previous) != in_optimizer(leaf)
}

/// Numbers the sequences that lie between leaves which begin another.
fn numbered(program: &Program, begins: fn(&Leaf, &Leaf) -> bool) -> Vec<u32> {
    let mut number = 0;
    let mut sequence = Vec::with_capacity(program.leaves.len());
    for (i, leaf) in program.leaves.iter().enumerate() {
        if let Some(previous) = i.checked_sub(1).map(|p| &program.leaves[p]) {
            number += u32::from(begins(previous, leaf));
        }
        sequence.push(number);
    }
    sequence
}

/// Backward leaves sorted by the forward leaf that caused them, and where those of each forward leaf begin.
fn backward_leaves(program: &Program) -> (Vec<LeafId>, Vec<u32>) {
    let mut pairs: Vec<(LeafId, LeafId)> = Vec::new();
    for (i, leaf) in program.leaves.iter().enumerate() {
        if leaf.direction == Direction::Backward && !leaf.is_recompute && !leaf.is_repeated {
            pairs.extend(leaf.forward.map(|f| (f, LeafId(i as u32))));
        }
    }
    pairs.sort_unstable();
    let first = (0..=program.leaves.len()).map(|i| pairs.partition_point(|p| p.0.index() < i) as u32).collect();
    (pairs.into_iter().map(|p| p.1).collect(), first)
}

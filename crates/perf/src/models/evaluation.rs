//! From a call to its numbers: finds the model, asks it, says whose numbers they are.

use crate::args::Args;
use crate::call::{Dims, OpCall};
use crate::count::Count;
use crate::dtype;
use crate::models::{ComputeUnit, Cost, ModelError, Params, PerfModel};
use crate::ops::{self, ModelSource, OpEntry};
use crate::parity::Quirks;

/// What is known of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluation {
    /// Parameters in the order in which tables show them; empty if the evaluation failed.
    pub params: Params,
    /// The cost, or why there is none.
    pub cost: Result<Cost, ModelError>,
    /// Whose numbers they are; `None` where nothing knows the operation.
    pub source: Option<ModelSource>,
    /// Bytes over the link between host and device, or between devices.
    pub link_bytes: Option<f64>,
    /// What `torch.utils.flop_counter` says of the call, where it counts it at all.
    pub torch_flops: Option<f64>,
}

impl Evaluation {
    fn without_model() -> Self {
        Self::failed(ModelError::fail("no model"), None)
    }

    fn failed(error: ModelError, source: Option<ModelSource>) -> Self {
        Self { params: Vec::new(), cost: Err(error), source, link_bytes: None, torch_flops: None }
    }

    /// Whether the reference would remove the whole row.
    pub fn is_dropped(&self) -> bool {
        self.cost == Err(ModelError::Drop)
    }
}

/// The two things a model can be asked.
#[derive(Clone, Copy)]
enum Direction {
    Forward,
    Backward,
}

/// Whether a model of the operation's own claims the call.
///
/// A model that the reference has too claims every call of its name, even one that it then can't read. One found by a
/// prefix, or of our own, claims only what it can read: where it can't, operations further down may know more.
pub fn has_model(call: &OpCall<'_>, quirks: &Quirks) -> bool {
    let by_name = ops::find(call.name);
    let Some(entry) = by_name.or_else(|| ops::find_prefix(call.name)) else { return false };
    let Some(reader) = usable_reader(entry, quirks) else { return false };
    by_name.is_some() && entry.source == ModelSource::Reference || reader(call, quirks).is_ok()
}

/// Cost of the call itself.
pub fn evaluate(call: &OpCall<'_>, quirks: &Quirks) -> Evaluation {
    let Some(entry) = modelled_entry(call.name, quirks) else {
        return if quirks.reference_models_only { Evaluation::without_model() } else { generic(call, quirks) };
    };
    let evaluation = run(entry, call, Direction::Forward, quirks);
    if evaluation.cost.is_err() && is_for_many_names(entry, call) {
        let counted = generic(call, quirks);
        return if counted.cost.is_ok() { counted } else { evaluation };
    }
    // What has no formula keeps its row; only the reference lets it vanish (F22).
    if evaluation.is_dropped() && !quirks.unformulated_rows_vanish {
        return Evaluation::failed(ModelError::fail("no formula for this call"), evaluation.source);
    }
    evaluation
}

/// The cost of [`evaluate`] alone: for those who ask it of many calls and show neither parameters nor source.
pub fn cost(call: &OpCall<'_>, quirks: &Quirks) -> Option<Cost> {
    let counted = || if quirks.reference_models_only { None } else { generic(call, quirks).cost.ok() };
    let Some(entry) = modelled_entry(call.name, quirks) else { return counted() };
    match ask(entry, call, Direction::Forward, quirks) {
        Ok((_, cost)) => Some(cost),
        Err(_) if is_for_many_names(entry, call) => counted(),
        Err(_) => None,
    }
}

/// Whether an entry serves all names of one beginning. It can't know each of them: what it can't read has at least its
/// tensors.
fn is_for_many_names(entry: &OpEntry, call: &OpCall<'_>) -> bool {
    entry.source == ModelSource::Extended && ops::find(call.name).is_none()
}

/// Cost of the backward work that belongs to the forward call `call`: for rows whose only known part is the forward
/// operation they are linked to, and for the backward sheets. Fails unless the forward model has a backward formula;
/// rows of their own it gives only to operations with a [`backward category`](OpEntry::backward_category).
pub fn evaluate_backward(call: &OpCall<'_>, quirks: &Quirks) -> Evaluation {
    match modelled_entry(call.name, quirks) {
        Some(entry) => run(entry, call, Direction::Backward, quirks),
        None => Evaluation::without_model(),
    }
}

fn modelled_entry(name: &str, quirks: &Quirks) -> Option<&'static OpEntry> {
    ops::find(name).or_else(|| ops::find_prefix(name)).filter(|entry| usable_reader(entry, quirks).is_some())
}

fn usable_reader(entry: &OpEntry, quirks: &Quirks) -> Option<crate::models::Reader> {
    entry.reader.filter(|_| !(quirks.reference_models_only && entry.source == ModelSource::Extended))
}

fn run(entry: &OpEntry, call: &OpCall<'_>, direction: Direction, quirks: &Quirks) -> Evaluation {
    let own = ask(entry, call, direction, quirks);
    // Corrected numbers are ours; those that the corrections leave alone are the reference's.
    let corrected = *quirks != Quirks::REFERENCE && entry.source == ModelSource::Reference && {
        let reference = ask(entry, call, direction, &Quirks::REFERENCE);
        match (&own, &reference) {
            (Ok((_, own)), Ok((_, reference))) => own != reference,
            (Err(own), Err(reference)) => own != reference,
            _ => true,
        }
    };
    let source = Some(if corrected { ModelSource::Extended } else { entry.source });
    match own {
        Ok((model, cost)) => finished(model, cost, direction, source),
        Err(error) => Evaluation::failed(error, source),
    }
}

/// Why the numbers of a call can't be right, whatever the model: a broken recording has such sizes, or they are not those
/// of what is in memory. The reference shows them.
fn fault_in_numbers(call: &OpCall<'_>, cost: &Cost, quirks: &Quirks) -> Option<&'static str> {
    let countable = |number: Option<f64>| number.is_none_or(|n| n.is_finite() && n >= 0.0);
    if quirks.negative_counts_shown {
        None
    } else if let Some(fault) = fault_in_sizes(call, quirks) {
        Some(fault)
    } else if !countable(cost.flops) || !countable(cost.bytes) {
        Some("its arguments give no count of operations or bytes")
    } else {
        None
    }
}

/// Why the sizes of a call don't tell what it handles, whatever the model.
fn fault_in_sizes(call: &OpCall<'_>, quirks: &Quirks) -> Option<&'static str> {
    if has_negative_size(call) {
        Some("a size is below 0")
    } else if Args::of(call).has_sparse_tensor() && !quirks.sparse_operands_dense {
        Some("how much there is of a sparse operand is not in the trace")
    } else {
        None
    }
}

fn has_negative_size(call: &OpCall<'_>) -> bool {
    let negative = |shape: &[i64]| shape.iter().any(|&size| size < 0);
    call.inputs.dims.as_deref().unwrap_or_default().iter().any(|dims| match dims {
        Dims::Shape(shape) => negative(shape),
        Dims::List(shapes) => shapes.iter().any(|shape| negative(shape)),
    })
}

/// The model of a call and its cost.
fn ask(
    entry: &OpEntry,
    call: &OpCall<'_>,
    direction: Direction,
    quirks: &Quirks,
) -> Result<(Box<dyn PerfModel>, Cost), ModelError> {
    let Some(reader) = entry.reader else { return Err(ModelError::fail("no model")) };
    let model = reader(call, quirks)?;
    let cost = match direction {
        Direction::Forward => model.forward(),
        Direction::Backward => model.backward(),
    }?;
    match fault_in_numbers(call, &cost, quirks) {
        Some(fault) => Err(ModelError::fail(fault)),
        None => Ok((model, cost)),
    }
}

fn finished(model: Box<dyn PerfModel>, cost: Cost, direction: Direction, source: Option<ModelSource>) -> Evaluation {
    let forward = matches!(direction, Direction::Forward);
    Evaluation {
        source,
        link_bytes: model.link_bytes().filter(|_| forward),
        torch_flops: model.torch_flops().filter(|_| forward),
        // Without FLOPs the reference counts the evaluation as failed and shows no parameters.
        params: if cost.flops.is_some() { model.into_params() } else { Vec::new() },
        cost: Ok(cost),
    }
}

/// Name beginnings of operations whose tensors say nothing of the local memory traffic.
const NOT_COUNTED: &[&str] = &["record_param_comms", "c10d::", "nccl", "_c10d_functional::"];

/// The count for operations with tensors but no formula: each tensor once. A lower bound.
fn generic(call: &OpCall<'_>, quirks: &Quirks) -> Evaluation {
    // Rows made of one kernel of a call inherit the whole call's tensors.
    let counted = !ops::is_synthetic(call.name)
        && fault_in_sizes(call, quirks).is_none()
        && !NOT_COUNTED.iter().any(|prefix| call.name.starts_with(prefix));
    let bytes = if counted { tensor_bytes(call, quirks) } else { None };
    let Some(bytes) = bytes else { return Evaluation::without_model() };
    Evaluation {
        params: Vec::new(),
        cost: Ok(Cost { flops: None, bytes: Some(bytes.to_f64()), unit: ComputeUnit::Unknown, precision: None }),
        source: Some(ModelSource::Generic),

        link_bytes: None,
        torch_flops: None,
    }
}

/// Bytes of all tensors whose size is known; `None` if there is none.
fn tensor_bytes(call: &OpCall<'_>, quirks: &Quirks) -> Option<Count> {
    let args = Args::of(call);
    let sizes = (0..args.len()).filter_map(|i| match args.dims(i).ok()? {
        Dims::Shape(shape) if shape.is_empty() => None,
        Dims::Shape(_) => Some(args.stored_numel(i).ok()? * dtype::size(args.dtype_or_empty(i), quirks)?),
        Dims::List(_) => {
            let elements: Count = args.stored_numels(i).ok()?.into_iter().sum();
            Some(elements * call.list_element_size()?)
        }
    });
    sizes.reduce(|a, b| a + b)
}

//! Operations on lists of tensors: fused optimizers and `_foreach_` calls.

use crate::args::Args;
use crate::call::{Dims, OpCall};
use crate::count::Count;
use crate::kernels;
use crate::models::tally::Tally;
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Elements of the list in `slot`. Lists longer than the profiler's limit are recorded as empty: not guessed.
fn list_elements(args: Args<'_>, slot: usize) -> Result<Count, ModelError> {
    match args.dims(slot)? {
        Dims::List(shapes) if !shapes.is_empty() => Ok(shapes.iter().map(|shape| Count::of(shape)).sum()),
        _ => Err(ModelError::fail("the list of tensors is not in the trace")),
    }
}

fn shown(args: Args<'_>, elements: Count) -> Params {
    let tensors = args.shapes(0).map_or(0, |shapes| shapes.len());
    vec![("num_tensors", Count::from(tensors).into()), ("num_elements", elements.into())]
}

/// `weight` operations and `moves` reads or writes for each element.
fn counted(call: &OpCall<'_>, quirks: &Quirks, weight: i64, moves: i64) -> Read {
    let args = Args::of(call);
    let elements = list_elements(args, 0)?;
    let bytes = call.list_element_size().map(|size| moves * elements * size);
    Tally::vector(shown(args, elements), weight * elements, bytes, call.list_dtype(), quirks).boxed()
}

/// `aten::_fused_adamw_(params, grads, m, v, v_max, steps, …, amsgrad in slot 11)`: parameter and two moments read
/// and written, gradient read.
pub fn adam(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let amsgrad = i64::from(Args::of(call).is_true(11));
    counted(call, quirks, 14 + 2 * amsgrad, 7 + 2 * amsgrad)
}

/// `aten::_fused_sgd_(params, grads, momentum, …)`.
pub fn sgd(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let momentum = list_elements(Args::of(call), 2).is_ok();
    counted(call, quirks, 4, if momentum { 5 } else { 3 })
}

/// Lists among the inputs: each is read.
fn lists(args: Args<'_>) -> i64 {
    (0..args.type_count()).filter(|&i| args.dtype_or_empty(i) == "TensorList").count() as i64
}

/// `aten::_foreach_add_(list, list)` or `(list, scalar)`, `_foreach_sqrt(list)`, …: every list read, one written.
pub fn each(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    counted(call, quirks, 1, lists(Args::of(call)) + 1)
}

/// `aten::_foreach_addcmul_(list, a, b)`, `_foreach_lerp_`: the same with three operations.
pub fn each_ternary(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    counted(call, quirks, 3, lists(Args::of(call)) + 1)
}

/// `aten::_foreach_zero_(list)`: written only.
pub fn zero(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    counted(call, quirks, 0, 1)
}

/// `aten::_foreach_norm(list)`: read only.
pub fn norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    counted(call, quirks, 2, 1)
}

/// `aten::_foreach_copy_(to, from)`: the kernel's template names both types.
pub fn copy(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let elements = list_elements(args, 0)?;
    let sizes = call.kernels.iter().find_map(|kernel| kernels::list_element_sizes(kernel));
    let sizes = sizes.or_else(|| call.list_element_size().map(|size| (size, size)));
    let bytes = sizes.map(|(to, from)| elements * to + elements * from);
    let mut params = shown(args, elements);
    params.push(("bytes_per_element", sizes.map_or(Value::None, |(to, from)| Value::shape(&[to, from]))));
    Tally::vector(params, Count::ZERO, bytes, call.list_dtype(), quirks).boxed()
}

//! Operations on lists of tensors: fused optimizers and `_foreach_` calls.

use crate::args::Args;
use crate::call::{Dims, OpCall};
use crate::count::Count;
use crate::models::tally::Tally;
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;
use crate::{kernels, launch};

/// Elements of the tensors of a call's lists.
#[derive(Debug, Clone, Copy)]
struct Elements {
    count: Count,
    /// `None` where the trace does not tell.
    tensors: Option<usize>,
}

/// Elements of the list in `slot`, where the trace has it.
fn recorded(args: Args<'_>, slot: usize) -> Option<Elements> {
    match args.dims(slot) {
        Ok(Dims::List(shapes)) if !shapes.is_empty() => {
            let count = shapes.iter().map(|shape| Count::of(shape)).sum();
            Some(Elements { count, tensors: Some(shapes.len()) })
        }
        _ => None,
    }
}

/// Elements of the first list. Those longer than the profiler's limit are recorded as empty: then as many as the blocks of
/// the kernels are likely to hold. How many tensors there are is not known; where there could be so many small ones that
/// the count is unsure, nothing is said.
fn list_elements(call: &OpCall<'_>) -> Result<Elements, ModelError> {
    if let Some(elements) = recorded(Args::of(call), 0) {
        return Ok(elements);
    }
    let found = launch::list_elements(call.kernels, call.launches);
    let found = found.ok_or_else(|| ModelError::fail("the list of tensors is not in the trace"))?;
    let too_little = || ModelError::fail("the list of tensors is not in the trace, and its kernels tell too little");
    Ok(Elements { count: found.estimate().ok_or_else(too_little)?, tensors: None })
}

fn shown(elements: Elements) -> Params {
    let mut params = vec![
        ("num_tensors", elements.tensors.map_or(Value::None, |n| Count::from(n).into())),
        ("num_elements", elements.count.into()),
    ];
    if elements.tensors.is_none() {
        params.push(("counted_by", "blocks".into()));
    }
    params
}

/// A cost of `flops` and `bytes` for each element.
fn tally(call: &OpCall<'_>, quirks: &Quirks, elements: Elements, flops: i64, bytes: Option<i64>) -> Tally {
    let flops = flops * elements.count;
    Tally::vector(shown(elements), flops, bytes.map(|bytes| elements.count * bytes), call.list_dtype(), quirks)
}

/// `weight` operations and `moves` reads or writes for each element.
fn counted(call: &OpCall<'_>, quirks: &Quirks, weight: i64, moves: i64) -> Read {
    let bytes = call.list_element_size().map(|size| moves * size);
    tally(call, quirks, list_elements(call)?, weight, bytes).boxed()
}

/// `aten::_fused_adamw_(params, grads, m, v, v_max, steps, …, amsgrad in slot 11)`: parameter and two moments read
/// and written, gradient read.
pub fn adam(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let amsgrad = i64::from(Args::of(call).is_true(11));
    counted(call, quirks, 14 + 2 * amsgrad, 7 + 2 * amsgrad)
}

/// `aten::_fused_sgd_(params, grads, momentum, …)`: without momentum, its kernels work on two lists only.
pub fn sgd(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let momentum = if recorded(args, 0).is_some() {
        recorded(args, 2).is_some()
    } else {
        launch::list_elements(call.kernels, call.launches).is_some_and(|found| found.lists == Some(3))
    };
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

/// `aten::_foreach_addcdiv_(list, a, b)`, `_foreach_lerp_`: the same with three operations.
pub fn each_ternary(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    counted(call, quirks, 3, lists(Args::of(call)) + 1)
}

/// `aten::_foreach_addcmul_(list, a, b)`: lists of factors that look alike count once, see [`product_added`].
///
/// [`product_added`]: crate::models::extended::pointwise::product_added
pub fn each_product_added(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    counted(call, quirks, 3, lists(args) + 1 - i64::from(args.are_alike(1, 2)))
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
    let elements = list_elements(call)?;
    let sizes = call.kernels.iter().find_map(|kernel| kernels::list_element_sizes(kernel));
    let sizes = sizes.or_else(|| call.list_element_size().map(|size| (size, size)));
    let mut tally = tally(call, quirks, elements, 0, sizes.map(|(to, from)| to + from));
    tally.params.push(("bytes_per_element", sizes.map_or(Value::None, |(to, from)| Value::shape(&[to, from]))));
    tally.boxed()
}

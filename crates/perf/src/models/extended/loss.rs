//! Losses.

use std::ops::Range;

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::models::Read;
use crate::models::extended::tensor_params;
use crate::models::tally::{Bytes, Tally};
use crate::parity::Quirks;
use crate::value::Value;

/// Prediction and target read, and the weights between them and the `reduction` (the slot of it); one result, or one an
/// element if that is 0.
fn elementwise(call: &OpCall<'_>, quirks: &Quirks, reduction: usize) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let size = args.size(0, quirks)?;
    let results = if args.int(reduction) == Ok(0) { n } else { Count::ONE };
    let mut given = (0..reduction).filter(|&slot| slot < 2 || args.has_tensor(slot));
    let bytes = given.try_fold(Bytes::new(), |sum, slot| sum.and_read(args, slot, quirks))?;
    let mut params = tensor_params(args, 0)?;
    params.extend(weight_param(args, 2..reduction));
    Tally::vector(params, 3 * n, bytes.and(results, size).total(), args.dtype(0)?, quirks).boxed()
}

/// `aten::mse_loss(x, target, reduction)`, `l1_loss`, `smooth_l1_loss`, `huber_loss`.
pub fn difference(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    elementwise(call, quirks, 2)
}

/// `aten::binary_cross_entropy(x, target, weight, reduction)`.
pub fn cross_entropy(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    elementwise(call, quirks, 3)
}

/// `aten::binary_cross_entropy_with_logits(x, target, weight, pos_weight, reduction)`.
pub fn cross_entropy_with_logits(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    elementwise(call, quirks, 4)
}

/// The shapes of the weights in `slots`, where there are any: they decide the bytes.
fn weight_param(args: Args<'_>, slots: Range<usize>) -> Option<(&'static str, Value)> {
    let shapes: Vec<Value> =
        slots.filter(|&slot| args.has_tensor(slot)).map(|slot| Value::shape(args.shape_or_empty(slot))).collect();
    (!shapes.is_empty()).then_some(("weight_shapes", Value::List(shapes)))
}

/// `aten::mse_loss_backward(grad, x, target, reduction)`. Without a reduction the gradient is one an element.
pub fn difference_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gradient(call, quirks, 3)
}

/// `aten::binary_cross_entropy_backward(grad, x, target, weight, reduction)`.
pub fn cross_entropy_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gradient(call, quirks, 4)
}

/// Prediction, target and the weights before the `reduction` (the slot of it) read, a gradient of x written.
fn gradient(call: &OpCall<'_>, quirks: &Quirks, reduction: usize) -> Read {
    let args = Args::of(call);
    let n = args.numel(1)?;
    let size = args.size(1, quirks)?;
    let mut bytes = Bytes::new().and(args.stored_numel(1)?, size).and_read(args, 2, quirks)?;
    if args.has_tensor(0) {
        bytes = bytes.and_read(args, 0, quirks)?;
    }
    for slot in (3..reduction).filter(|&slot| args.has_tensor(slot)) {
        bytes = bytes.and_read(args, slot, quirks)?;
    }
    let mut params = tensor_params(args, 1)?;
    params.extend(weight_param(args, 3..reduction));
    Tally::vector(params, 3 * n, bytes.and(n, size).total(), args.dtype(1)?, quirks).boxed()
}

/// `aten::nll_loss_forward(log_probabilities, target, …)`: one value of each row is read.
pub fn likelihood(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let rows = args.numel(1)?;
    let picked = rows.min(args.stored_numel(0)?);
    let bytes =
        Bytes::new().and(picked + Count::ONE, args.size(0, quirks)?).and(args.stored_numel(1)?, Some(8)).total();
    Tally::vector(tensor_params(args, 0)?, rows, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::nll_loss_backward(grad, log_probabilities, target, …)`: a gradient of zeros, one value of each row set.
pub fn likelihood_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (n, rows) = (args.numel(1)?, args.numel(2)?);
    let bytes = args.size(1, quirks)?.map(|size| n * size + rows * (8 + size));
    Tally::vector(tensor_params(args, 1)?, rows, bytes, args.dtype(1)?, quirks).boxed()
}

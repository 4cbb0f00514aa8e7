//! Softmax and its logarithm.

use crate::args::Args;
use crate::call::OpCall;
use crate::dtype;
use crate::models::Read;
use crate::models::extended::tensor_params;
use crate::models::tally::{Bytes, Tally};
use crate::parity::Quirks;

/// `aten::_softmax(x, dim, half_to_float)`: maximum, difference, exponential, sum and quotient of each element; the
/// row stays on the chip.
pub fn forward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let size = args.size(0, quirks)?;
    // `_safe_softmax` names the result's type instead.
    let named = args.int(2).ok().and_then(dtype::size_of_code);
    let written = if args.is_true(2) { Some(4) } else { named.or(size) };
    let bytes = Bytes::new().and(args.stored_numel(0)?, size).and(n, written).total();
    Tally::vector(tensor_params(args, 0)?, 5 * n, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::_masked_softmax(x, mask, dim, mask_type)`: the same, and one more choice for each element.
pub fn masked(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let size = args.size(0, quirks)?;
    let bytes = Bytes::new().and(args.stored_numel(0)?, size).and(n, size).and(args.stored_numel(1)?, Some(1));
    Tally::vector(tensor_params(args, 0)?, 6 * n, bytes.total(), args.dtype(0)?, quirks).boxed()
}

/// `aten::_softmax_backward_data(grad, output, dim, input_dtype)`.
pub fn backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let (grad, output) = (args.size(0, quirks)?, args.size(1, quirks)?);
    let written = args.int(3).ok().and_then(dtype::size_of_code).or(grad);
    let bytes = Bytes::new().and(args.stored_numel(0)?, grad).and(args.stored_numel(1)?, output).and(n, written);
    Tally::vector(tensor_params(args, 0)?, 4 * n, bytes.total(), args.dtype(0)?, quirks).boxed()
}

//! Sorting and selection.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::extended::{tensor_params, wrapped};
use crate::models::tally::{Bytes, Tally};
use crate::models::{Cost, ModelError, Read};
use crate::parity::Quirks;

/// Bytes of a position.
const INDEX: i64 = 8;

/// `aten::topk(x, k, dim, …)`: values and positions of the `k` greatest of each row.
pub fn topk(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let shape = args.shape(0)?;
    let n = Count::of(shape);
    let length = row_length(args, args.int(2).unwrap_or(-1))?;
    let outputs = n.div_floor(length).unwrap_or_default() * args.int(1)?;
    let written = Bytes::new().and(outputs, args.size(0, quirks)?).and(outputs, Some(INDEX));
    let bytes = written.and_read(args, 0, quirks)?.total();
    Tally::vector(tensor_params(args, 0)?, n, bytes, args.dtype(0)?, quirks).boxed()
}

/// Elements along `dim`; a tensor without dimensions is a row of one.
fn row_length(args: Args<'_>, dim: i64) -> Result<i64, ModelError> {
    let shape = args.shape(0)?;
    if shape.is_empty() { Ok(1) } else { Ok(shape[wrapped(dim, shape.len())?]) }
}

/// `aten::sort(x, dim, descending)`, `aten::sort(x, stable, dim, descending)`, `aten::argsort`.
///
/// Long rows are sorted digit by digit, with all keys and positions read and written for each byte of the key; short
/// ones in one pass.
pub fn sort(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let dim = args.int(if args.len() > 3 { 2 } else { 1 }).unwrap_or(-1);
    let length = row_length(args, dim)?;
    let by_digits = call.kernels.iter().any(|kernel| kernel.contains("DeviceRadixSort"));
    let bytes = args.size(0, quirks)?.map(|size| {
        let passes = if by_digits { size } else { 1 };
        (2 * n * (size + INDEX) * passes).to_f64()
    });
    let flops = n.to_f64() * (length.max(1) as f64).log2();
    let precision = dtype::vector_precision(args.dtype(0)?, quirks);
    Tally::new(tensor_params(args, 0)?, Cost::vector(flops, bytes, precision)).boxed()
}

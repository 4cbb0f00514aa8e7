//! Operations that pick or place elements by index: only what is touched counts, not the whole table. An element that is
//! touched often counts once, a lower bound: which indices are alike is not in the trace.

use crate::args::Args;
use crate::call::{Dims, OpCall};
use crate::count::Count;
use crate::launch;
use crate::models::elementwise::{broadcast, is_in_place};
use crate::models::extended::{tensor_params, wrapped};
use crate::models::tally::{Bytes, Tally};
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Elements of the first operand that `touches` of them can reach.
fn reached(args: Args<'_>, touches: Count) -> Result<Count, ModelError> {
    Ok(touches.min(args.stored_numel(0)?))
}

/// `aten::index_select(x, dim, index)`.
pub fn index_select(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let shape = args.shape(0)?;
    let at = wrapped(args.int(1)?, shape.len())?;
    let picked = without(shape, at) * args.numel(2)?;
    let bytes = Bytes::new().and(reached(args, picked)? + picked, args.size(0, quirks)?);
    let bytes = bytes.and_read(args, 2, quirks)?.total();
    Tally::vector(index_params(args, 2)?, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// Elements of `shape` for one index of dimension `at`.
fn without(shape: &[i64], at: usize) -> Count {
    Count::of(&shape[..at]) * Count::of(&shape[at + 1..])
}

fn index_params(args: Args<'_>, index: usize) -> Result<Params, ModelError> {
    let mut params = tensor_params(args, 0)?;
    params.push(("index_shape", Value::shape(args.shape(index)?)));
    Ok(params)
}

/// `aten::embedding(table, index, …)`.
pub fn embedding(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let picked = args.numel(1)? * args.dim(0, 1)?;
    let bytes = Bytes::new().and(reached(args, picked)? + picked, args.size(0, quirks)?);
    let bytes = bytes.and_read(args, 1, quirks)?.total();
    Tally::vector(index_params(args, 1)?, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// Slot of the weights of rows, one for each index.
const BAG_WEIGHTS: usize = 6;

/// `aten::_embedding_bag(table, index, offsets, scale, mode, sparse, weights, include_last, …)`: a row for each index, added
/// up into one for each bag; the bag of each index is written for the backward pass.
pub fn embedding_bag(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (index, width) = (args.numel(1)?, args.dim(0, 1)?);
    let bags = Count::from(args.dim(2, 0)?.saturating_sub(i64::from(args.is_true(7))).max(0));
    let picked = index * width;
    let bytes = Bytes::new().and(reached(args, picked)? + bags * width, args.size(0, quirks)?);
    let mut bytes = bytes.and(2 * index + bags, args.size(1, quirks)?);
    let is_weighted = args.has_tensor(BAG_WEIGHTS);
    if is_weighted {
        bytes = bytes.and_read(args, BAG_WEIGHTS, quirks)?;
    }
    // A weighted row is multiplied before it is added.
    let flops = if is_weighted { 2 * picked } else { picked };
    Tally::vector(index_params(args, 1)?, flops, bytes.total(), args.dtype(0)?, quirks).boxed()
}

/// `aten::embedding_dense_backward(grad, index, rows, …)`: the whole table's gradient is written, the touched rows
/// read once more to add up.
pub fn embedding_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let grad = args.numel(0)?;
    let table = Count::from(args.int(2)?) * args.last_dim(0)?;
    let moved = args.stored_numel(0)? + grad.min(table) + table;
    let bytes = Bytes::new().and(moved, args.size(0, quirks)?).and(args.stored_numel(1)?, Some(8)).total();
    Tally::vector(index_params(args, 1)?, grad, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::_embedding_bag_dense_backward(grad, index, bags, …, rows in slot 5, …)`: the whole table's gradient is written. A
/// bag's row is read for the first of its indices and stays at hand for the others, the touched rows are read to add up.
pub fn embedding_bag_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (index, width) = (args.numel(1)?, args.last_dim(0)?);
    let (table, added) = (Count::from(args.int(5)?) * width, index * width);
    let bytes = Bytes::new().and(args.stored_numel(0)? + added.min(table) + table, args.size(0, quirks)?);
    let bytes = bytes.and(2 * index, args.size(1, quirks)?).total();
    Tally::vector(index_params(args, 1)?, added, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::gather(x, dim, index)`.
pub fn gather(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    picked_by(call, quirks, 2)
}

/// `aten::take_along_dim(x, index, dim)`.
pub fn take_along_dim(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    picked_by(call, quirks, 1)
}

/// `aten::take(x, index)`.
pub fn take(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    picked_by(call, quirks, 1)
}

fn picked_by(call: &OpCall<'_>, quirks: &Quirks, index: usize) -> Read {
    let args = Args::of(call);
    let picked = args.numel(index)?;
    let bytes = Bytes::new().and(reached(args, picked)? + picked, args.size(0, quirks)?);
    let bytes = bytes.and_read(args, index, quirks)?.total();
    Tally::vector(index_params(args, index)?, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// `placed` elements added to what is in their places, of which the source in slot 3 holds no more than it has.
fn placed(call: &OpCall<'_>, placed: Count, index: Count, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let source = args.stored_numel(3)?.min(placed);
    touched(call, placed, source + 2 * reached(args, placed)?, index, quirks)
}

/// `placed` elements handled for `moved` reads and writes, all of the first operand's type. What does not work in place
/// copies that operand first.
fn touched(call: &OpCall<'_>, placed: Count, moved: Count, index: Count, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let copied = if is_in_place(call) { Count::ZERO } else { args.stored_numel(0)? + args.numel(0)? };
    let bytes = Bytes::new().and(moved + copied, args.size(0, quirks)?).and(index, Some(8)).total();
    Tally::vector(tensor_params(args, 0)?, placed, bytes, args.dtype(0)?, quirks).boxed()
}

/// The scatter that only sets places; with a fifth input, which says how to combine, it reads them as well.
const SETTING: &[&str] = &["aten::scatter", "aten::scatter_"];

/// `aten::scatter_add(x, dim, index, source)`: one place for each index. A number as the source is only written.
pub fn scatter(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (count, index) = (args.numel(2)?, args.stored_numel(2)?);
    if args.is_number(3) {
        return touched(call, count, reached(args, count)?, index, quirks);
    }
    if SETTING.contains(&call.name) && args.len() <= 4 {
        return touched(call, count, reached(args, count)? + args.stored_numel(3)?.min(count), index, quirks);
    }
    placed(call, count, index, quirks)
}

/// `aten::index_add(x, dim, index, source)`: a slice of the source for each index.
pub fn index_add(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    placed(call, args.numel(3)?, args.stored_numel(2)?, quirks)
}

/// `aten::index_copy(x, dim, index, source)`: as [`index_add`], but nothing of `x` is read.
pub fn index_copy(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let source = args.numel(3)?;
    touched(call, source, reached(args, source)? + args.stored_numel(3)?, args.stored_numel(2)?, quirks)
}

/// `aten::index_fill_(x, dim, index, value)`: a slice written for each index.
pub fn index_fill(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let shape = args.shape(0)?;
    let at = wrapped(args.int(1)?, shape.len())?;
    let filled = without(shape, at) * args.numel(2)?;
    let bytes = Bytes::new().and(reached(args, filled)?, args.size(0, quirks)?);
    let bytes = bytes.and_read(args, 2, quirks)?.total();
    Tally::vector(index_params(args, 2)?, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::index_put_(x, indices, values, accumulate)`: places are read only to add to them, a lone value costs nothing.
pub fn index_put(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let passes = if args.is_true(3) { 2 } else { 1 };
    let values = args.stored_numel(2).unwrap_or_default().when(args.has_tensor(2));
    let indices = args.shapes(1).unwrap_or_default();
    if !indices.is_empty() {
        let (count, index) = indexed(args.shape(0)?, &indices)?;
        return touched(call, count, passes * reached(args, count)? + values, index, quirks);
    }
    // The indices are not in the trace: one for each row of the values.
    let rows = args.shape(2)?.first().ok_or_else(|| ModelError::fail("neither indices nor values have a shape"))?;
    let count = args.numel(2)?;
    touched(call, count, passes * reached(args, count)? + values, Count::from(*rows), quirks)
}

/// `aten::index(x, indices)`; the indices are often not in the trace: then what the kernel's launch picks.
pub fn index(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let Dims::List(indices) = args.dims(1)? else { return index_by_launch(call, args, quirks) };
    let indices: Vec<&[i64]> = indices.iter().map(Vec::as_slice).collect();
    let (picked, index) = indexed(args.shape(0)?, &indices)?;
    let read = reached(args, picked)?;
    let bytes = Bytes::new().and(read + picked, args.size(0, quirks)?).and(index, Some(8)).total();
    Tally::vector(tensor_params(args, 0)?, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// Elements read and written, at most: as many as the blocks of the kernel can handle; and the indices of as many rows.
fn index_by_launch(call: &OpCall<'_>, args: Args<'_>, quirks: &Quirks) -> Read {
    let size = args.known_size(0, quirks)?;
    let row = Count::of(args.shape(0)?.get(1..).unwrap_or_default());
    let found = launch::picked(call.kernels, call.launches, row, size);
    let found = found.ok_or_else(|| ModelError::fail("the index tensors are not in the trace"))?;
    let bytes = (reached(args, found.elements)? + found.elements) * size + found.indices * 8;
    let mut params = tensor_params(args, 0)?;
    params.push(("num_elements", found.elements.into()));
    params.push(("counted_by", "blocks".into()));
    Tally::vector(params, Count::ZERO, Some(bytes), args.dtype(0)?, quirks).boxed()
}

/// Elements that `indices` pick from `shape`, and elements of the indices themselves.
///
/// An empty entry keeps its dimension. An entry as large as several dimensions is a mask: how much it picks is not
/// in the trace.
fn indexed(shape: &[i64], indices: &[&[i64]]) -> Result<(Count, Count), ModelError> {
    let mut picked = Vec::new();
    let mut kept = Count::of(shape.get(indices.len()..).unwrap_or_default());
    let mut elements = Count::ZERO;
    for (at, &index) in indices.iter().enumerate() {
        let size = *shape.get(at).ok_or_else(|| ModelError::fail("more indices than dimensions"))?;
        if index.is_empty() {
            kept = kept * size;
            continue;
        }
        if index.len() > 1 && shape[at..].starts_with(index) {
            return Err(ModelError::fail("indexed by a mask"));
        }
        picked = broadcast(&picked, index)?;
        elements = elements + Count::of(index);
    }
    Ok((kept * Count::of(&picked), elements))
}

/// `nonzero(x)`, `histc`, `bincount`, `unique`: the input once, a lower bound.
pub fn scan(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let bytes = Bytes::new().and_read(args, 0, quirks)?.total();
    Tally::vector(tensor_params(args, 0)?, n, bytes, args.dtype(0)?, quirks).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_replace_their_dimensions() {
        let count = |shape: &[i64], indices: &[&[i64]]| {
            indexed(shape, indices).map(|(picked, index)| (picked.to_i64(), index.to_i64()))
        };
        assert_eq!(count(&[100, 64], &[&[5]]), Ok((5 * 64, 5)));
        assert_eq!(count(&[100, 64, 8], &[&[5], &[5]]), Ok((5 * 8, 10)));
        assert_eq!(count(&[100, 64], &[&[], &[3, 2]]), Ok((100 * 6, 6)));
        assert!(count(&[100, 64], &[&[100, 64]]).is_err(), "a mask");
        assert!(count(&[100], &[&[5], &[5]]).is_err());
    }
}

//! Recurrent nets: whole ones, and the pointwise part of one step.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::tally::{Bytes, Tally, in_out};
use crate::models::{Cost, ModelError, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Where a call keeps its arguments; x is in slot 0, the weights are in slot 1.
struct Layout {
    /// The first of the two states.
    states: usize,
    hidden: usize,
    projection: Option<usize>,
    bidirectional: usize,
    /// What the forward pass saved for a backward call.
    reserve: Option<usize>,
}

/// `aten::_cudnn_rnn(x, weights, …, hx, cx, mode, hidden, projection, layers, batch_first, …, bidirectional, …)`.
pub fn cudnn(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let layout = Layout { states: 4, hidden: 7, projection: Some(8), bidirectional: 13, reserve: None };
    net(call, quirks, &layout)
}

/// `aten::_cudnn_rnn_backward(x, weights, …, hx, cx, y, three gradients, mode, hidden, projection, …, reserve, mask)`.
pub fn cudnn_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let layout = Layout { states: 4, hidden: 11, projection: Some(12), bidirectional: 17, reserve: Some(20) };
    net(call, quirks, &layout)
}

/// `aten::miopen_rnn(x, weights, stride, hx, cx, mode, hidden, layers, …, bidirectional, …)`.
pub fn miopen(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let layout = Layout { states: 3, hidden: 6, projection: None, bidirectional: 11, reserve: None };
    net(call, quirks, &layout)
}

/// `aten::miopen_rnn_backward(x, weights, …, hx, cx, y, three gradients, mode, hidden, layers, …, reserve, mask)`.
pub fn miopen_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let layout = Layout { states: 4, hidden: 11, projection: None, bidirectional: 16, reserve: Some(19) };
    net(call, quirks, &layout)
}

/// Each time step multiplies by every weight matrix; backward once for the gradient of what goes in and once for that of
/// the weights. The recurrent weights are read again each step, from the cache. Backward reads all that forward reads or
/// writes, the gradient of the output and what was saved, and writes the gradients.
fn net(call: &OpCall<'_>, quirks: &Quirks, layout: &Layout) -> Read {
    let args = Args::of(call);
    let weights = args.shapes(1)?;
    let matrices: Count = weights.iter().filter(|w| w.len() == 2).map(|w| Count::of(w)).sum();
    if matrices == Count::ZERO {
        return Err(ModelError::fail("the weights are not in the trace"));
    }
    let x = args.numel(0)?;
    let steps = x.div_floor(args.last_dim(0)?).ok_or_else(|| ModelError::fail("input of no width"))?;
    let hidden = args.int(layout.hidden)?;
    let projection = layout.projection.and_then(|slot| args.int(slot).ok()).filter(|&width| width > 0);
    let directions = if args.is_true(layout.bidirectional) { 2 } else { 1 };
    let state = |slot: usize| Ok::<_, ModelError>(args.numel(slot)?.when(args.has_tensor(slot)));
    let states = 2 * (state(layout.states)? + state(layout.states + 1)?);
    let all: Count = weights.iter().map(|w| Count::of(w)).sum();
    let name = args.dtype(0)?;
    let passes = if layout.reserve.is_some() { 2 } else { 1 };
    let moved = passes * (all + x + steps * projection.unwrap_or(hidden) * directions + states);
    let mut bytes = Bytes::new().and(moved, dtype::size(name, quirks));
    if let Some(slot) = layout.reserve.filter(|&slot| args.has_tensor(slot)) {
        bytes = bytes.and(args.numel(slot)?, args.size(slot, quirks)?);
    }
    let params = vec![
        ("input_shape", Value::shape(args.shape(0)?)),
        ("hidden_size", hidden.into()),
        ("num_weights", all.into()),
        ("dtype_in_out", in_out(name, None)),
    ];
    let flops = (2 * passes * steps * matrices).to_f64();
    let bytes = bytes.total().map(Count::to_f64);
    Tally::new(params, Cost::matrix(flops, bytes, dtype::precision(name, quirks))).boxed()
}

/// `aten::_thnn_fused_lstm_cell(input_gates, hidden_gates, cell, …)`: the pointwise part of a step. Four gates of two
/// sums and an activation, then the new cell and state: 36 operations a cell. Gates are read from both products and saved
/// for the backward pass; cell and state are written.
pub fn lstm_cell(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    recurrent_cell(call, quirks, 36, (3, 3))
}

/// `aten::_thnn_fused_gru_cell(input_gates, hidden_gates, state, …)`: the same with three gates and a mixture of old and new
/// state: 27 operations an entry of it. The state is read and written, and five values an entry are saved.
pub fn gru_cell(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    recurrent_cell(call, quirks, 27, (2, 7))
}

/// So many operations an entry of the state, and how often gates and state are read or written.
fn recurrent_cell(call: &OpCall<'_>, quirks: &Quirks, operations: i64, moved: (i64, i64)) -> Read {
    let args = Args::of(call);
    let (gates, state) = (args.numel(0)?, args.numel(2)?);
    let biases = args.numel(3).unwrap_or_default().when(args.has_tensor(3))
        + args.numel(4).unwrap_or_default().when(args.has_tensor(4));
    let bytes = args.size(0, quirks)?.map(|size| (moved.0 * gates + moved.1 * state + biases) * size);
    let params = vec![("op_shape", Value::shape(args.shape(2)?)), ("dtype_in_out", in_out(args.dtype(0)?, None))];
    Tally::vector(params, operations * state, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::_thnn_fused_lstm_cell_backward_impl(grad_hy, grad_cy, cx, cy, gates, has_bias)`: twice the operations of the
/// forward pass; what is given is read, the gradients of gates and cell are written.
pub fn lstm_cell_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (cell, gates) = (args.numel(2)?, args.numel(4)?);
    cell_backward(args, quirks, (2, 4, 5), (72 * cell, cell + gates, gates))
}

/// `aten::_thnn_fused_gru_cell_backward(grad_hy, saved, has_bias)`: the gradients of both products of three gates and of
/// the state are written.
pub fn gru_cell_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let state = args.numel(0)?;
    cell_backward(args, quirks, (0, 1, 2), (54 * state, 7 * state, 6 * state))
}

/// All tensors up to the slot of what was saved are read. A bias, if there is one, takes another read of the gradients of
/// the gates.
fn cell_backward(
    args: Args<'_>,
    quirks: &Quirks,
    (state, saved, bias): (usize, usize, usize),
    (operations, written, gates): (Count, Count, Count),
) -> Read {
    let read: Count = (0..=saved).filter(|&slot| args.has_tensor(slot)).filter_map(|slot| args.numel(slot).ok()).sum();
    let moved = read + written + gates.when(args.is_true(bias));
    let name = args.dtype(state)?;
    let bytes = args.size(state, quirks)?.map(|size| moved * size);
    let params = vec![("op_shape", Value::shape(args.shape(state)?)), ("dtype_in_out", in_out(name, None))];
    Tally::vector(params, operations, bytes, name, quirks).boxed()
}

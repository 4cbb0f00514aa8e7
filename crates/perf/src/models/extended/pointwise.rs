//! Elementwise operations with real operation counts: 1 for additions and comparisons, 2 for roots, 4 for
//! exponentials and the like, 8 for error functions; backward two more. They matter little, being bound by memory.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype::{self, Operand};
use crate::models::elementwise::{broadcast, is_in_place, operand_bytes, worked_in};
use crate::models::extended::{other_shape, tensor_params};
use crate::models::tally::{Bytes, Tally, in_out};
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Type of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    /// That of x.
    AsX,
    /// That of x, unless x is of whole numbers: then the default type.
    NeverWhole,
    /// That of the parts of x, where x is of complex numbers.
    Real,
    /// One byte.
    Truth,
}

/// x read, a result written.
fn unary(call: &OpCall<'_>, quirks: &Quirks, weight: i64, written: Written) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let size = args.size(0, quirks)?;
    let written = match written {
        Written::NeverWhole if !is_in_place(call) => dtype::float_size(args.dtype(0)?, quirks),
        Written::Real if dtype::is_complex(args.dtype(0)?) => size.map(|size| size / 2),
        Written::Truth if !is_in_place(call) => Some(1),
        _ => size,
    };
    let bytes = Bytes::new().and(args.stored_numel(0)?, size).and(n, written).total();
    Tally::vector(tensor_params(args, 0)?, weight * n, bytes, args.dtype(0)?, quirks).boxed()
}

/// `abs(x)`: of a complex number a real one.
pub fn magnitude(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    unary(call, quirks, 1, Written::Real)
}

/// `relu(x)`, `floor`, `clamp`, …
pub fn simple(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    unary(call, quirks, 1, Written::AsX)
}

/// `square(x)`, `pow_(x, exponent)`.
pub fn power(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    unary(call, quirks, 2, Written::AsX)
}

/// `sqrt(x)`, `reciprocal`.
pub fn root(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    unary(call, quirks, 2, Written::NeverWhole)
}

/// `tanh(x)`, `exp`, `log`, `sin`, …
pub fn transcendental(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    unary(call, quirks, 4, Written::NeverWhole)
}

/// `gelu(x)`, `erf`.
pub fn error_function(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    unary(call, quirks, 8, Written::NeverWhole)
}

/// `isnan(x)`, `logical_not`: one byte an element.
pub fn test(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    unary(call, quirks, 1, Written::Truth)
}

/// `aten::_transform_bias_rescale_qkv(qkv, bias, heads)`: the bias added, queries scaled, heads put in order.
pub fn bias_rescaled_qkv(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let size = args.size(0, quirks)?;
    let bytes = Bytes::new().and(args.stored_numel(0)? + n, size).and_read(args, 1, quirks)?;
    Tally::vector(tensor_params(args, 0)?, 2 * n, bytes.total(), args.dtype(0)?, quirks).boxed()
}

/// Gradient and saved tensor read, a gradient of the first one's type written.
fn gradient(call: &OpCall<'_>, quirks: &Quirks, weight: i64) -> Read {
    let args = Args::of(call);
    let saved = (1..args.len()).find(|&i| args.has_tensor(i)).ok_or_else(|| ModelError::fail("no saved tensor"))?;
    let n = args.numel(0)?;
    let size = args.size(0, quirks)?;
    let bytes = Bytes::new().and(args.stored_numel(0)?, size).and_read(args, saved, quirks)?;
    let mut params = tensor_params(args, 0)?;
    let saved_type = args.dtype(saved)?;
    if saved_type != args.dtype(0)? {
        params.push(("saved_dtype", saved_type.into()));
    }
    Tally::vector(params, weight * n, bytes.and(n, size).total(), args.dtype(0)?, quirks).boxed()
}

/// `hardtanh_backward(grad, x)`, `leaky_relu_backward`.
pub fn simple_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gradient(call, quirks, 3)
}

/// `native_dropout_backward(grad, mask, scale)`.
pub fn dropout_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gradient(call, quirks, 4)
}

/// `silu_backward(grad, x)`, `tanh_backward(grad, y)`, `elu_backward(grad, …, x)`.
pub fn transcendental_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gradient(call, quirks, 6)
}

/// `gelu_backward(grad, x)`.
pub fn error_function_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gradient(call, quirks, 10)
}

/// `aten::native_dropout(x, p, train)`: the result and a mask of one byte an element.
pub fn dropout(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let size = args.size(0, quirks)?;
    let bytes = Bytes::new().and(args.stored_numel(0)?, size).and(n, size).and(n, Some(1)).total();
    Tally::vector(tensor_params(args, 0)?, 2 * n, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::masked_fill(x, mask, value)`: an upper bound where little is filled in place. Either may be the smaller one.
pub fn masked_fill(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = Count::of(&broadcast(args.shape(0)?, args.shape_or_empty(1))?);
    let mask = args.stored_numel(1).unwrap_or_default();
    let bytes = Bytes::new().and(args.stored_numel(0)? + n, args.size(0, quirks)?).and(mask, Some(1)).total();
    let mut params = tensor_params(args, 0)?;
    params.extend(other_shape(args, 1, "mask_shape"));
    Tally::vector(params, n, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::clamp(x, least, most)`: limits that are tensors are read too.
pub fn clamp(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let limits: Vec<usize> = [1, 2].into_iter().filter(|&slot| args.has_tensor(slot)).collect();
    let mut out = args.shape(0)?.to_vec();
    let mut bytes = Bytes::new().and_read(args, 0, quirks)?;
    for slot in limits {
        out = broadcast(&out, args.shape(slot)?)?;
        bytes = bytes.and_read(args, slot, quirks)?;
    }
    let n = Count::of(&out);
    let bytes = bytes.and(n, args.size(0, quirks)?).total();
    let mut params = tensor_params(args, 0)?;
    params.extend(other_shape(args, 1, "least_shape").into_iter().chain(other_shape(args, 2, "most_shape")));
    Tally::vector(params, n, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::glu(x, dim)`: one half times the sigmoid of the other.
pub fn glu(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let half = args.numel(0)?.div_floor(2_i64).unwrap_or_default();
    let bytes = args.size(0, quirks)?.zip(args.stored_numel(0).ok()).map(|(size, read)| (read + half) * size);
    Tally::vector(tensor_params(args, 0)?, 5 * half, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::glu_backward(grad, x, dim)`: the gradient of half the size and x read, a gradient as large as x written.
pub fn glu_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let size = args.size(1, quirks)?;
    let bytes = Bytes::new().and_read(args, 0, quirks)?;
    let bytes = bytes.and(args.stored_numel(1)? + args.numel(1)?, size).total();
    Tally::vector(tensor_params(args, 1)?, 7 * args.numel(0)?, bytes, args.dtype(1)?, quirks).boxed()
}

fn binary_params(args: Args<'_>) -> Result<Params, ModelError> {
    Ok(vec![
        ("shape_in1", Value::shape(args.shape(0)?)),
        ("shape_in2", Value::shape(args.shape(1)?)),
        ("dtype_in1_in2_out", Value::Tuple(vec![args.dtype(0)?.into(), args.dtype(1)?.into(), Value::None])),
        ("stride_input1", args.stride_param(0).unwrap_or(Value::None)),
        ("stride_input2", args.stride_param(1).unwrap_or(Value::None)),
        ("stride_output", Value::None),
    ])
}

/// `sub(a, b)`, `maximum`, `remainder`, …: the result's type by promotion, in place by the first operand.
pub fn binary(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let out = broadcast(args.shape(0)?, args.shape(1)?)?;
    let bytes = operand_bytes(call, args, &out, quirks)?;
    Tally::vector(binary_params(args)?, Count::of(&out), bytes, worked_in(args, [0, 1])?, quirks).boxed()
}

/// `eq(a, b)`, `lt`, `logical_and`, …: one byte a result, in place one of the first operand.
pub fn comparison(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let out = Count::of(&broadcast(args.shape(0)?, args.shape(1)?)?);
    let first = args.size(0, quirks)?;
    let written = if is_in_place(call) { first } else { Some(1) };
    let bytes = Bytes::new().and(args.stored_numel(0)?, first);
    let bytes = bytes.and_read(args, 1, quirks)?.and(out, written).total();
    Tally::vector(binary_params(args)?, out, bytes, worked_in(args, [0, 1])?, quirks).boxed()
}

/// `aten::where(condition, a, b)`.
pub fn choice(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let out = broadcast(&broadcast(args.shape(0)?, args.shape(1)?)?, args.shape(2)?)?;
    let operand =
        |i: usize| Ok::<_, ModelError>(Operand { dtype: args.dtype(i)?, zero_dim: args.shape(i)?.is_empty() });
    let written = dtype::promoted_size(operand(1)?, operand(2)?, quirks);
    let bytes = Bytes::new().and(args.stored_numel(0)?, Some(1)).and_read(args, 1, quirks)?;
    let bytes = bytes.and_read(args, 2, quirks)?.and(Count::of(&out), written).total();
    let params =
        vec![("op_shape", Value::shape(&out)), ("dtype_in_out", Value::texts(&[args.dtype(1)?, args.dtype(2)?]))];
    Tally::vector(params, Count::of(&out), bytes, worked_in(args, [1, 2])?, quirks).boxed()
}

/// `addcmul(x, a, b, value)`, `addcdiv`, `lerp(x, end, weight)`: three reads and a write.
pub fn ternary(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    three_operands(call, quirks, &[0, 1, 2])
}

/// `addcmul_(x, a, b, value)`: as [`ternary`], but factors that look alike count once. Optimizers add the square of the
/// gradient this way, one tensor given twice, and the trace does not tell that from two tensors: a lower bound.
pub fn product_added(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let read: &[usize] = if Args::of(call).are_alike(1, 2) { &[0, 1] } else { &[0, 1, 2] };
    three_operands(call, quirks, read)
}

/// The operands in the slots `read`, and a result as large as all three make it.
fn three_operands(call: &OpCall<'_>, quirks: &Quirks, read: &[usize]) -> Read {
    let args = Args::of(call);
    let out = Count::of(&broadcast(&broadcast(args.shape(0)?, args.shape(1)?)?, args.shape_or_empty(2))?);
    let mut bytes = Bytes::new().and(out, args.size(0, quirks)?);
    for &i in read.iter().filter(|&&i| args.has_tensor(i)) {
        bytes = bytes.and_read(args, i, quirks)?;
    }
    Tally::vector(tensor_params(args, 0)?, 3 * out, bytes.total(), args.dtype(0)?, quirks).boxed()
}

/// `fill_(x, value)`, `zero_`, `normal_`, …: written only.
pub fn fill(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(0)?;
    let bytes = args.size(0, quirks)?.map(|size| n * size);
    Tally::vector(tensor_params(args, 0)?, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// `bernoulli_(x, p)`: written only, unless each element has a probability of its own.
pub fn bernoulli(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    if !args.has_tensor(1) {
        return fill(call, quirks);
    }
    let bytes = Bytes::new().and(args.numel(0)?, args.size(0, quirks)?).and_read(args, 1, quirks)?.total();
    let mut params = tensor_params(args, 0)?;
    params.push(("p_shape", Value::shape(args.shape(1)?)));
    Tally::vector(params, Count::ZERO, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::ones(sizes, dtype, …)`, `aten::zeros`; [`full`] has the value between the two.
pub fn created(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    created_with(call, quirks, 1)
}

/// `aten::full(sizes, value, dtype, …)`.
pub fn full(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    created_with(call, quirks, 2)
}

fn created_with(call: &OpCall<'_>, quirks: &Quirks, type_slot: usize) -> Read {
    let args = Args::of(call);
    let sizes = args.literal_ints(0)?;
    if args.concrete_or_empty(type_slot).is_empty() {
        // It is that of the value or of the program's choice: what fills the tensor knows it.
        return Err(ModelError::fail("the type is not in the trace"));
    }
    let size = args.int(type_slot).ok().and_then(dtype::size_of_code);
    let n = Count::of(&sizes);
    let params = vec![("op_shape", Value::shape(&sizes))];
    Tally::vector(params, Count::ZERO, size.map(|size| n * size), "", quirks).boxed()
}

/// `aten::arange(start, end, step, out)`. Others have a type, a layout and a device instead of a step and an output, and
/// call this one.
pub fn arange(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    if args.len() != 4 || args.is_number(3) {
        return Err(ModelError::fail("no output among the arguments"));
    }
    let span = (args.float(1)? - args.float(0)?) / args.float(2)?;
    if !span.is_finite() {
        return Err(ModelError::fail("endless range"));
    }
    let n = Count::from(span.ceil().max(0.0) as i64);
    let name = args.dtype(3)?;
    let params = vec![("op_shape", Value::Tuple(vec![n.into()])), ("dtype_in_out", in_out(name, None))];
    Tally::vector(params, Count::ZERO, dtype::size(name, quirks).map(|size| n * size), name, quirks).boxed()
}

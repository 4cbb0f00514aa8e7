//! Operations on each element by itself: unary, binary, copies, padding, nearest resampling, gated activations.

use jarvis_trace::CopyLink;

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype::{self, Operand};
use crate::models::extended::other_shape;
use crate::models::tally::{Bytes, Tally, in_out};
use crate::models::{Cost, ModelError, Params, Read};
use crate::parity::{self, Quirks};
use crate::value::Value;

/// Shape, types and strides as every unary operation shows them; the output is the second tensor, if there is one.
pub(crate) fn unary_params(args: Args<'_>, quirks: &Quirks) -> Result<Params, ModelError> {
    let second = args.has_tensor(1);
    Ok(vec![
        ("op_shape", Value::shape(args.shape(0)?)),
        ("dtype_in_out", in_out(args.dtype(0)?, if second { Some(args.dtype(1)?) } else { None })),
        ("stride_input", args.shown_stride(0, quirks)?),
        ("stride_output", if second { args.shown_stride(1, quirks)? } else { Value::None }),
    ])
}

/// Operations of this file that turn whole numbers into others.
const NEVER_WHOLE: &[&str] = &["aten::rsqrt", "aten::sigmoid", "aten::silu"];

/// Operations of two operands that do.
const NEVER_WHOLE_OF_TWO: &[&str] = &["aten::atan2", "aten::div", "aten::true_divide"];

/// `aten::sigmoid(x)` and its likes, one operation an element; a second tensor is the output.
pub fn unary(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let output = match () {
        () if args.has_tensor(1) => args.size(1, quirks)?,
        () if NEVER_WHOLE.contains(&call.name) && !quirks.whole_results_stay_whole => {
            dtype::float_size(args.dtype(0)?, quirks)
        }
        () => args.size(0, quirks)?,
    };
    one_read_one_write(args, output, quirks)
}

/// The first operand read and a result of `written` bytes an element.
fn one_read_one_write(args: Args<'_>, written: Option<i64>, quirks: &Quirks) -> Read {
    let elements = args.numel(0)?;
    let bytes = Bytes::new().and_read(args, 0, quirks)?.and(elements, written).total();
    Tally::vector(unary_params(args, quirks)?, elements, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::pow(x, exponent)`, `aten::clamp_min(x, bound)`: the second argument, if a tensor, is read too. The
/// reference takes it for the output.
pub fn unary_with_operand(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    if quirks.expanded_operands_in_full {
        return unary(call, quirks);
    }
    if !args.has_tensor(1) {
        let written = result_size(call, args, quirks).ok().flatten();
        return one_read_one_write(args, written.or(args.size(0, quirks)?), quirks);
    }
    let out = broadcast(args.shape(0)?, args.shape(1)?)?;
    let bytes = operand_bytes(call, args, &out, quirks)?;
    let mut params = unary_params(args, quirks)?;
    params.extend(other_shape(args, 1, "operand_shape"));
    Tally::vector(params, Count::of(&out), bytes, worked_in(args, [0, 1])?, quirks).boxed()
}

/// The type that two operands are worked in: a number beside a tensor does not decide it.
pub(crate) fn worked_in(args: Args<'_>, slots: [usize; 2]) -> Result<&str, ModelError> {
    let tensor = slots.into_iter().find(|&slot| args.has_tensor(slot));
    args.dtype(tensor.unwrap_or(slots[0]))
}

/// Whether a text is a complex number, such as `0.+1.j`.
fn is_complex_number(text: &str) -> bool {
    let number = text.trim().trim_matches(['(', ')']);
    number.strip_suffix('j').is_some_and(|rest| rest.ends_with(|c: char| c.is_ascii_digit() || c == '.'))
}

/// The type of an operand. A number has that of its text.
fn operand_type(args: Args<'_>, slot: usize) -> Result<&str, ModelError> {
    let name = args.dtype(slot)?;
    if args.is_number(slot) && is_complex_number(args.concrete_or_empty(slot)) {
        return Ok("c10::complex<double>");
    }
    Ok(match args.literal(slot) {
        Ok(Value::Float(_)) if args.is_number(slot) => "double",
        Ok(Value::Int(_)) if args.is_number(slot) => "long int",
        Ok(Value::Bool(_)) if args.is_number(slot) => "bool",
        _ => name,
    })
}

/// `aten::copy_(destination, source)`.
pub fn copy(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    // A source without dimensions is one number.
    let has_source = args.shape(1).is_ok() && args.size(1, quirks).is_ok_and(|size| size.is_some());
    if quirks.expanded_operands_in_full || !has_source {
        return unary(call, quirks);
    }
    let elements = args.numel(0)?;
    let (destination, source) = (args.size(0, quirks)?, args.size(1, quirks)?);
    let bytes = Bytes::new().and(elements, destination).and(args.stored_numel(1)?, source).total();
    let mut params = unary_params(args, quirks)?;
    params.extend(other_shape(args, 1, "source_shape"));
    let mut tally = Tally::vector(params, elements, bytes, args.dtype(0)?, quirks);
    if let Some(link) = link_of(call.kernels) {
        // Keeps the kinds of copy apart where calls are put together by their parameters.
        tally.params.push(("link", link.as_str().into()));
        tally.link_bytes = destination.map(|size| (elements * size).to_f64());
        tally.cost = Cost { flops: Some(0.0), bytes: None, ..tally.cost };
    }
    tally.boxed()
}

/// The link that a call's work, if it is nothing but a copy, goes over.
fn link_of(kernels: &[&str]) -> Option<CopyLink> {
    let mut links =
        kernels.iter().filter(|kernel| !kernel.starts_with("Memset")).map(|kernel| CopyLink::of_name(kernel));
    let first = links.next()??;
    links.all(|link| link.is_some()).then_some(first)
}

/// Shape of the result of two operands, aligned at the last dimension.
pub fn broadcast(a: &[i64], b: &[i64]) -> Result<Vec<i64>, ModelError> {
    let rank = a.len().max(b.len());
    let size = |shape: &[i64], i: usize| (i + shape.len()).checked_sub(rank).map_or(1, |at| shape[at]);
    (0..rank)
        .map(|i| match (size(a, i), size(b, i)) {
            (x, y) if x == y || y == 1 => Ok(x),
            (1, y) => Ok(y),
            _ => Err(ModelError::fail(format!("shapes {a:?} and {b:?} do not fit"))),
        })
        .collect()
}

/// Whether the operation overwrites its first operand.
pub(crate) fn is_in_place(call: &OpCall<'_>) -> bool {
    call.name.ends_with('_')
}

/// Bytes of an element of the result of the first two operands.
fn result_size(call: &OpCall<'_>, args: Args<'_>, quirks: &Quirks) -> Result<Option<i64>, ModelError> {
    if is_in_place(call) && !quirks.in_place_output_promoted {
        return args.size(0, quirks);
    }
    if quirks.zero_dim_first_operand_widens {
        return parity::binary_result_size(args, quirks);
    }
    let operand =
        |i: usize| Ok::<_, ModelError>(Operand { dtype: operand_type(args, i)?, zero_dim: args.shape(i)?.is_empty() });
    let (a, b) = (operand(0)?, operand(1)?);
    // A third input of a division says how to round, mostly in a word that is not recorded: then the result is whole.
    let rounded = args.len() > 2 && args.concrete_or_empty(2) != "None";
    if NEVER_WHOLE_OF_TWO.contains(&call.name) && !rounded && !quirks.whole_results_stay_whole {
        return Ok(dtype::promoted_float_size(a, b, quirks));
    }
    Ok(dtype::promoted_size(a, b, quirks))
}

/// Both operands read and a result of `written` bytes an element.
fn two_reads_one_write(
    args: Args<'_>,
    out: &[i64],
    written: Option<i64>,
    quirks: &Quirks,
) -> Result<Option<Count>, ModelError> {
    let first = Bytes::new().and_read(args, 0, quirks)?;
    let both = first.and_read(args, 1, quirks)?;
    Ok(both.and(Count::of(out), written).total())
}

/// Both operands read and the result, whose type is not in the trace, written.
pub(crate) fn operand_bytes(
    call: &OpCall<'_>,
    args: Args<'_>,
    out: &[i64],
    quirks: &Quirks,
) -> Result<Option<Count>, ModelError> {
    two_reads_one_write(args, out, result_size(call, args, quirks)?, quirks)
}

/// `aten::add(a, b, …)` and its likes; a third tensor is the output.
pub fn binary(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let with_output = Args::of(call).has_tensor(2);
    binary_with(call, quirks, with_output)
}

/// `LigerSiLUMulFunction(a, b)`: as [`binary`], the output never in the trace.
pub fn binary_without_output(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    binary_with(call, quirks, false)
}

fn binary_with(call: &OpCall<'_>, quirks: &Quirks, with_output: bool) -> Read {
    let args = Args::of(call);
    let (a, b) = (args.shape(0)?, args.shape(1)?);
    let out = broadcast(a, b)?;
    let output_type = if with_output { Some(args.dtype(2)?) } else { None };
    let written = match output_type {
        Some(name) => dtype::size(name, quirks),
        None => result_size(call, args, quirks)?,
    };
    let bytes = two_reads_one_write(args, &out, written, quirks)?;
    let types = vec![args.dtype(0)?.into(), args.dtype(1)?.into(), output_type.into()];
    let params = vec![
        ("shape_in1", Value::shape(a)),
        ("shape_in2", Value::shape(b)),
        ("dtype_in1_in2_out", Value::Tuple(types)),
        ("stride_input1", args.shown_stride(0, quirks)?),
        ("stride_input2", args.shown_stride(1, quirks)?),
        ("stride_output", if with_output { args.shown_stride(2, quirks)? } else { Value::None }),
    ];
    let label = if quirks.zero_dim_first_operand_widens { args.dtype(0)? } else { worked_in(args, [0, 1])? };
    Tally::vector(params, Count::of(&out), bytes, label, quirks).boxed()
}

/// `aten::replication_pad2d(x, padding)`: pairs of borders, the last dimension's first.
pub fn replication_pad(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let padding = args.ints(1)?;
    let output = padded(args.shape(0)?, &padding)?;
    let list = Value::List(padding.iter().map(|&p| p.into()).collect());
    resampled(args, &output, Some(list), quirks)
}

/// The shape with pairs of borders added, the last dimension's first.
pub(crate) fn padded(shape: &[i64], padding: &[i64]) -> Result<Vec<i64>, ModelError> {
    let mut output = shape.to_vec();
    for (i, pair) in padding.chunks(2).enumerate() {
        let (&[low, high], Some(at)) = (pair, output.len().checked_sub(i + 1)) else {
            return Err(ModelError::fail("padding does not fit the shape"));
        };
        output[at] = output[at].saturating_add(low).saturating_add(high);
    }
    Ok(output)
}

/// `aten::upsample_nearest2d(x, size, scales)`: the output by size, or by scale factors.
pub fn upsample_nearest(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let output = resampled_shape(args, quirks)?;
    resampled(args, &output, None, quirks)
}

/// Shape of a resampled (batch, channels, space…): `C1` holds the sizes, `C2` the factors if there are no sizes.
pub(crate) fn resampled_shape(args: Args<'_>, quirks: &Quirks) -> Result<Vec<i64>, ModelError> {
    let input = args.shape(0)?;
    let Some((kept, space)) = input.split_at_checked(2) else {
        return Err(ModelError::fail(format!("input of {} dimensions", input.len())));
    };
    if quirks.scale_factors_fail || !matches!(args.concrete(1)?, "" | "None") {
        return Ok([kept, &args.literal_ints(1)?].concat());
    }
    // Interpolations have `align_corners` before the factors.
    let at = if matches!(args.literal(2)?, Value::Bool(_)) { 3 } else { 2 };
    let factors = match args.literal(at)? {
        Value::List(items) | Value::Tuple(items) => items,
        first => (at..at + space.len()).map(|i| args.literal(i).unwrap_or(first.clone())).collect(),
    };
    let sizes = space.iter().zip(&factors).map(|(&size, factor)| match factor {
        Value::Float(f) => Ok((size as f64 * f).floor() as i64),
        Value::Int(f) => Ok(size.saturating_mul(*f)),
        other => Err(ModelError::fail(format!("scale factor `{other}`"))),
    });
    Ok([kept, &sizes.collect::<Result<Vec<i64>, ModelError>>()?].concat())
}

/// One operation an output element; input read, output written.
fn resampled(args: Args<'_>, output: &[i64], padding: Option<Value>, quirks: &Quirks) -> Read {
    let name = args.dtype(0)?;
    let size = args.known_size(0, quirks)?;
    let elements = Count::of(output);
    let mut params = vec![("input_shape", Value::shape(args.shape(0)?)), ("output_shape", Value::shape(output))];
    params.extend(padding.map(|list| ("padding", list)));
    params.extend([
        ("op_shape", Value::shape(output)),
        ("dtype_in_out", Value::texts(&[name, name])),
        ("stride_input", args.shown_stride(0, quirks)?),
        ("stride_output", Value::None),
    ]);
    Tally::vector(params, elements, Some((args.read_numel(0, quirks)? + elements) * size), name, quirks).boxed()
}

/// `silu_and_mul(out, x)`: 5 operations an output element.
pub fn silu_and_mul(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gated(call, quirks, 5)
}

/// `gelu_and_mul(out, x)`: 8 operations an output element.
pub fn gelu_and_mul(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gated(call, quirks, 8)
}

/// `gelu_tanh_and_mul(out, x)`: 10 operations an output element.
pub fn gelu_tanh_and_mul(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    gated(call, quirks, 10)
}

/// Two input elements for each output element.
fn gated(call: &OpCall<'_>, quirks: &Quirks, weight: i64) -> Read {
    let args = Args::of(call);
    let elements = args.numel(0)?;
    let (input, output) = (args.known_size(1, quirks)?, args.known_size(0, quirks)?);
    let params = vec![
        ("op_shape", Value::shape(args.shape(0)?)),
        ("dtype_in_out", Value::texts(&[args.dtype(1)?, args.dtype(0)?])),
        ("stride_input", args.shown_stride(1, quirks)?),
        ("stride_output", args.shown_stride(0, quirks)?),
    ];
    let bytes = Some(2 * elements * input + elements * output);
    Tally::vector(params, weight * elements, bytes, args.dtype(1)?, quirks).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_broadcast_from_the_last_dimension() {
        assert_eq!(broadcast(&[8, 1024], &[1024]).unwrap(), [8, 1024]);
        assert_eq!(broadcast(&[1, 5], &[4, 1]).unwrap(), [4, 5]);
        assert_eq!(broadcast(&[], &[3]).unwrap(), [3]);
        assert_eq!(broadcast(&[0, 3], &[1, 1]).unwrap(), [0, 3]);
        assert!(broadcast(&[3, 4], &[5]).is_err());
    }

    #[test]
    fn borders_start_at_the_last_dimension() {
        assert_eq!(padded(&[2, 3, 16, 16], &[1, 2, 3, 4]).unwrap(), [2, 3, 23, 19]);
        assert!(padded(&[16], &[1, 2, 3, 4]).is_err());
        assert!(padded(&[16], &[1]).is_err());
    }

    #[test]
    fn copies_over_a_link_are_told_by_their_kernels() {
        assert_eq!(link_of(&["Memcpy HtoD (Pageable -> Device)"]), Some(CopyLink::Host));
        assert_eq!(link_of(&["Memset (Device)", "Memcpy DtoH (Device -> Pinned)"]), Some(CopyLink::Host));
        assert_eq!(link_of(&["CopyHostToDevice"]), Some(CopyLink::Host));
        assert_eq!(link_of(&["Memcpy PtoP (Device -> Device)"]), Some(CopyLink::Peer));
        assert_eq!(link_of(&["Memcpy DtoD (Device -> Device)"]), None);
        assert_eq!(link_of(&["Memcpy HtoD (Pageable -> Device)", "void at::native::copy"]), None);
        assert_eq!(link_of(&[]), None);
    }
}

//! Pooling and resampling of (batch, channels, space…).

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::models::elementwise::resampled_shape;
use crate::models::extended::tensor_params;
use crate::models::tally::{Bytes, Tally};
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Windows of a pooling.
struct Windows {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    ceil: bool,
}

impl Windows {
    /// Kernel, stride and padding from slot `first` on; then, for maxima, the dilation; then the rounding.
    fn read(args: Args<'_>, first: usize, rank: usize, dilated: bool) -> Result<Self, ModelError> {
        let list = |slot: usize| for_each_dim(args.literal_ints(slot)?, rank);
        let kernel = list(first)?;
        // An empty stride means the kernel's size.
        let stride = if args.literal_ints(first + 1)?.is_empty() { kernel.clone() } else { list(first + 1)? };
        let dilation = if dilated { list(first + 3)? } else { vec![1; rank] };
        let ceil = args.is_true(first + if dilated { 4 } else { 3 });
        Ok(Self { kernel, stride, padding: list(first + 2)?, dilation, ceil })
    }

    fn output(&self, shape: &[i64]) -> Result<Vec<i64>, ModelError> {
        let space = shape.len() - self.kernel.len();
        let mut output = shape[..space].to_vec();
        for (i, &size) in shape[space..].iter().enumerate() {
            let reach = (Count::from(self.kernel[i]) - Count::ONE) * self.dilation[i];
            let span = Count::from(size) + 2 * Count::from(self.padding[i]) - reach - Count::ONE;
            let steps = if self.ceil { span.div_ceil(self.stride[i]) } else { span.div_floor(self.stride[i]) };
            let mut count = (steps.ok_or_else(|| ModelError::fail("stride 0"))? + Count::ONE).to_i64();
            // Rounded up, the last window must still begin inside the input or its left border.
            let last = Count::from(count.saturating_sub(1)) * self.stride[i];
            if self.ceil && last >= Count::from(size) + self.padding[i].into() {
                count = count.saturating_sub(1);
            }
            output.push(count);
        }
        Ok(output)
    }
}

/// A number for each dimension; a lone one is that of all.
fn for_each_dim(values: Vec<i64>, rank: usize) -> Result<Vec<i64>, ModelError> {
    match values.len() {
        1 => Ok(vec![values[0]; rank]),
        n if n == rank => Ok(values),
        n => Err(ModelError::fail(format!("{n} steps for {rank} dimensions"))),
    }
}

/// Spatial dimensions of an operation: the digit in its name.
fn spatial_rank(name: &str) -> usize {
    if name.contains("3d") {
        3
    } else if name.contains("1d") {
        1
    } else {
        2
    }
}

fn rank_checked(call: &OpCall<'_>, shape: &[i64]) -> Result<usize, ModelError> {
    let rank = spatial_rank(call.name);
    if shape.len() > rank { Ok(rank) } else { Err(ModelError::fail(format!("input of {} dimensions", shape.len()))) }
}

fn shown(args: Args<'_>, slot: usize, output: &[i64]) -> Result<Params, ModelError> {
    let mut params = tensor_params(args, slot)?;
    params.push(("output_shape", Value::shape(output)));
    Ok(params)
}

/// Bytes of the first operand read and of as many elements of its type written.
fn read_and_written(args: Args<'_>, written: Count, quirks: &Quirks) -> Result<Option<Count>, ModelError> {
    Ok(Bytes::new().and_read(args, 0, quirks)?.and(written, args.size(0, quirks)?).total())
}

/// `aten::max_pool2d_with_indices(x, kernel, stride, padding, dilation, ceil)`: values and positions.
pub fn max_pool(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let shape = args.shape(0)?;
    let windows = Windows::read(args, 1, rank_checked(call, shape)?, true)?;
    let output = windows.output(shape)?;
    let outputs = Count::of(&output);
    let bytes =
        Bytes::new().and_read(args, 0, quirks)?.and(outputs, args.size(0, quirks)?).and(outputs, Some(8)).total();
    let flops = outputs * (Count::of(&windows.kernel) - Count::ONE);
    Tally::vector(shown(args, 0, &output)?, flops, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::max_pool2d_with_indices_backward(grad, x, …, positions)`: the gradient is written once, twice if it is
/// filled with zeros first.
pub fn max_pool_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (outputs, n) = (args.numel(0)?, args.numel(1)?);
    let filled = call.kernels.iter().any(|kernel| kernel.contains("FillFunctor") || kernel.starts_with("Memset"));
    let passes = if filled { 2 } else { 1 };
    let bytes = Bytes::new().and_read(args, 0, quirks)?.and(outputs, Some(8));
    let bytes = bytes.and(passes * n, args.size(0, quirks)?).total();
    Tally::vector(tensor_params(args, 1)?, outputs, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::avg_pool2d(x, kernel, stride, padding, ceil, …)`.
pub fn avg_pool(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let shape = args.shape(0)?;
    let windows = Windows::read(args, 1, rank_checked(call, shape)?, false)?;
    let output = windows.output(shape)?;
    let outputs = Count::of(&output);
    let bytes = read_and_written(args, outputs, quirks)?;
    let flops = outputs * Count::of(&windows.kernel);
    Tally::vector(shown(args, 0, &output)?, flops, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::avg_pool2d_backward(grad, x, kernel, …)`.
pub fn avg_pool_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (outputs, n) = (args.numel(0)?, args.numel(1)?);
    let bytes = read_and_written(args, n, quirks)?;
    let kernel = for_each_dim(args.literal_ints(2)?, rank_checked(call, args.shape(1)?)?)?;
    let flops = outputs * Count::of(&kernel);
    Tally::vector(tensor_params(args, 1)?, flops, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::_adaptive_avg_pool2d(x, output_size)`.
pub fn adaptive_avg_pool(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let shape = args.shape(0)?;
    let kept = shape.len() - rank_checked(call, shape)?;
    let output = [&shape[..kept], &args.literal_ints(1)?].concat();
    let bytes = read_and_written(args, Count::of(&output), quirks)?;
    Tally::vector(shown(args, 0, &output)?, Count::of(shape), bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::_adaptive_avg_pool2d_backward(grad, x)`.
pub fn adaptive_avg_pool_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let n = args.numel(1)?;
    let bytes = read_and_written(args, n, quirks)?;
    Tally::vector(tensor_params(args, 1)?, n, bytes, args.dtype(0)?, quirks).boxed()
}

/// Operations an output element: 1 for the nearest neighbour, else those of the interpolation.
fn weight(name: &str) -> i64 {
    [("bilinear", 7), ("bicubic", 35), ("trilinear", 15), ("linear", 3)]
        .into_iter()
        .find_map(|(word, weight)| name.contains(word).then_some(weight))
        .unwrap_or(1)
}

/// `aten::upsample_bilinear2d(x, size, …)` and the other resamplings.
pub fn upsample(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let output = resampled_shape(args, quirks)?;
    let outputs = Count::of(&output);
    let bytes = read_and_written(args, outputs, quirks)?;
    Tally::vector(shown(args, 0, &output)?, weight(call.name) * outputs, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::upsample_bilinear2d_backward(grad, output_size, input_size, …)`.
pub fn upsample_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (outputs, n) = (args.numel(0)?, Count::of(&args.literal_ints(2)?));
    let bytes = read_and_written(args, n, quirks)?;
    Tally::vector(tensor_params(args, 0)?, weight(call.name) * outputs, bytes, args.dtype(0)?, quirks).boxed()
}

/// Neighbours and operations of an output element, by `grid_sampler`'s numbers: bilinear, nearest, bicubic.
const SAMPLES: [(i64, i64); 3] = [(4, 7), (1, 1), (16, 35)];

/// `aten::grid_sampler_2d(x, grid, interpolation, …)`: a place of x for each entry of the grid, in every channel. Of x no
/// more is read than there is, and no more than the neighbours of all places.
pub fn grid_sampler(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let [batch, channels, ..] = *args.shape(0)? else {
        return Err(ModelError::fail("input of less than two dimensions"));
    };
    let [_, place @ .., _] = args.shape(1)? else { return Err(ModelError::fail("a grid without places")) };
    let kind = args.int(2).ok().and_then(|kind| SAMPLES.get(usize::try_from(kind).ok()?));
    let &(neighbours, weight) = kind.unwrap_or(&SAMPLES[0]);
    let output = [&[batch, channels], place].concat();
    let outputs = Count::of(&output);
    let read = args.stored_numel(0)?.min(neighbours * outputs);
    let bytes = Bytes::new().and(read + outputs, args.size(0, quirks)?);
    let bytes = bytes.and_read(args, 1, quirks)?.total();
    Tally::vector(shown(args, 0, &output)?, weight * outputs, bytes, args.dtype(0)?, quirks).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_fit_as_the_framework_says() {
        let windows = |kernel, stride, padding, ceil| Windows {
            kernel: vec![kernel],
            stride: vec![stride],
            padding: vec![padding],
            dilation: vec![1],
            ceil,
        };
        let output = |w: Windows, size| w.output(&[1, 1, size]).unwrap()[2];
        assert_eq!(output(windows(3, 2, 1, false), 112), 56);
        assert_eq!(output(windows(2, 2, 0, false), 57), 28);
        assert_eq!(output(windows(2, 2, 0, true), 57), 29);
        // Rounded up there would be a third window, beginning at 4 in a border of 1 behind 3 elements.
        assert_eq!(output(windows(2, 2, 1, true), 3), 2);
        assert!(windows(2, 0, 0, false).output(&[1, 1, 8]).is_err());
    }
}

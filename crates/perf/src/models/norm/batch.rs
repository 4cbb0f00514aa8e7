//! Batch norm.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::models::norm::{Shown, and_channels, is_given, mask_param, params, reference_backward, reference_forward};
use crate::models::tally::{Bytes, Tally};
use crate::models::{ModelError, Read};
use crate::parity::Quirks;

/// `aten::batch_norm(x, weight, bias, running_mean, running_var, training, …)`.
pub fn batch_norm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let channels = Count::from(args.dim(0, 1)?);
    let is_training = if quirks.training_by_any_text {
        args.is_non_empty(5)
    } else {
        // The variant without running statistics has its flag two slots earlier.
        args.is_true(5)
            || call.name == "aten::_native_batch_norm_legit" && args.is_true(3)
            // Running statistics are updated in training alone, so there is no flag.
            || call.name.starts_with("aten::_batch_norm_with_update")
    };
    if quirks.norm_passes_as_one {
        let shown = Shown { x: 0, has_bias: true, is_affine: is_given(args, 2, quirks)?, is_training };
        return reference_forward(args, shown, channels, quirks);
    }
    let shown = Shown { x: 0, has_bias: args.has_tensor(2), is_affine: args.has_tensor(1), is_training };
    let elements = args.numel(0)?;
    let size = args.size(0, quirks)?;
    let fixed = and_channels(Bytes::new(), args, channels, &[1, 2, 3, 4], quirks);
    // Training writes the running statistics back, and the batch's own for the backward pass.
    let fixed = if is_training {
        and_channels(fixed, args, channels, &[3, 4], quirks).and(2 * channels, Some(4))
    } else {
        fixed
    };
    let reads = if is_training { 2 } else { 1 };
    let flops = 6 * channels + 2 * elements + (3 * elements).when(is_training);
    let bytes = fixed.and_reads(reads, args, 0, quirks)?.and(elements, size).total();
    Tally::vector(params(args, shown, channels.into(), quirks)?, flops, bytes, args.dtype(0)?, quirks).boxed()
}

/// `aten::native_batch_norm_backward(grad, x, weight, running_mean, running_var, mean, invstd, train, eps, mask)`.
pub fn batch_norm_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let is_training = if quirks.training_by_any_text { args.is_non_empty(7) } else { args.is_true(7) };
    let mask = args.literal_bools(9).unwrap_or_else(|_| vec![true; 3]);
    backward(args, 1, is_training, &mask, quirks)
}

/// `aten::cudnn_batch_norm_backward(x, grad, weight, …)`: these kernels exist for training only (F4).
pub fn vendor_batch_norm_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    backward(Args::of(call), 0, !quirks.vendor_batch_norm_backward_not_training, &[true; 3], quirks)
}

fn backward(args: Args<'_>, x: usize, is_training: bool, mask: &[bool], quirks: &Quirks) -> Read {
    let channels = Count::from(args.dim(x, 1)?);
    if quirks.norm_backward_cheap_by_mask {
        let shown = Shown { x, has_bias: true, is_affine: true, is_training };
        return reference_backward(args, shown, channels.into(), &[true], quirks);
    }
    let [input, weight, bias] = *mask else { return Err(ModelError::fail("output_mask has not 3 entries")) };
    let shown = Shown { x, has_bias: bias, is_affine: args.has_tensor(2), is_training };
    let elements = args.numel(x)?;
    let size = args.size(x, quirks)?;
    let sums = weight || bias;
    // Operations, and how often x and the gradient are read.
    let (flops, x_reads, gradient_reads) = match (is_training, input) {
        // One pass reads both tensors for the sums, a second reads them again and writes the gradient.
        (true, true) => (9 * elements + 3 * channels, 2, 2),
        (true, false) => (4 * elements, 1, 1),
        (false, true) => (2 * elements + (4 * elements).when(sums), i64::from(sums), 1),
        (false, false) => ((4 * elements).when(sums), 1, 1),
    };
    let fixed = and_channels(Bytes::new(), args, channels, &[2], quirks).and(2 * channels, Some(4));
    let fixed = fixed.and(Count::from(i64::from(weight) + i64::from(bias)) * channels, Some(4));
    let mut params = params(args, shown, channels.into(), quirks)?;
    params.push(mask_param(mask));
    // The two stand in the first two slots.
    let read = fixed.and_reads(x_reads, args, x, quirks)?.and_reads(gradient_reads, args, 1 - x, quirks)?;
    let bytes = read.and(elements.when(input), size).total();
    Tally::vector(params, flops, bytes, args.dtype(x)?, quirks).boxed()
}

/// One pass of a batch norm that is spread over several GPUs, and its operations an element.
struct Part {
    x: usize,
    /// Slots of tensors as large as x that are read.
    reads: &'static [usize],
    /// Whether one is written.
    writes: bool,
    weight: i64,
    /// Slots of channel-sized tensors that are read.
    channels: &'static [usize],
    /// Channel-sized tensors that are written, in the type of the statistics.
    written: i64,
    /// Slots of weight and bias.
    affine: [Option<usize>; 2],
}

/// `aten::batch_norm_stats(x, eps)`: mean and deviation of this GPU's share.
pub fn batch_norm_stats(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    part(
        call,
        quirks,
        &Part { x: 0, reads: &[0], writes: false, weight: 3, channels: &[], written: 2, affine: [None, None] },
    )
}

/// `aten::batch_norm_elemt(x, weight, bias, mean, invstd, eps)`: the transform.
pub fn batch_norm_elements(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let affine = [Some(1), Some(2)];
    part(
        call,
        quirks,
        &Part { x: 0, reads: &[0], writes: true, weight: 2, channels: &[1, 2, 3, 4], written: 0, affine },
    )
}

/// `aten::batch_norm_backward_reduce(grad, x, mean, invstd, weight, …)`: two sums, and the gradients of weight and bias.
pub fn batch_norm_backward_reduce(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    part(
        call,
        quirks,
        &Part {
            x: 1,
            reads: &[0, 1],
            writes: false,
            weight: 4,
            channels: &[2, 3, 4],
            written: 4,
            affine: [Some(4), None],
        },
    )
}

/// `aten::batch_norm_backward_elemt(grad, x, mean, invstd, weight, sum_dy, sum_dy_xmu, count)`: the gradient of x.
pub fn batch_norm_backward_elements(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let affine = [Some(4), None];
    part(
        call,
        quirks,
        &Part { x: 1, reads: &[0, 1], writes: true, weight: 5, channels: &[2, 3, 4, 5, 6], written: 0, affine },
    )
}

fn part(call: &OpCall<'_>, quirks: &Quirks, part: &Part) -> Read {
    let args = Args::of(call);
    let (elements, channels) = (args.numel(part.x)?, Count::from(args.dim(part.x, 1)?));
    let bytes = and_channels(Bytes::new(), args, channels, part.channels, quirks).and(part.written * channels, Some(4));
    let read = part.reads.iter().try_fold(bytes, |sum, &slot| sum.and_read(args, slot, quirks))?;
    let bytes = read.and(elements.when(part.writes), args.size(part.x, quirks)?).total();
    let [is_affine, has_bias] = part.affine.map(|slot| slot.is_some_and(|slot| args.has_tensor(slot)));
    let shown = Shown { x: part.x, has_bias, is_affine, is_training: true };
    let params = params(args, shown, channels.into(), quirks)?;
    Tally::vector(params, part.weight * elements, bytes, args.dtype(part.x)?, quirks).boxed()
}

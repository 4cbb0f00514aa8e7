//! Backward of the norms over rows: layer and group norm.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::models::norm::{Rows, Shown, and_channels, mask_param, params, reference_backward};
use crate::models::tally::{Bytes, Tally};
use crate::models::{ModelError, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// `aten::native_layer_norm_backward(grad, x, shape, mean, rstd, weight, bias, mask)`.
pub fn layer_norm_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let channels = Count::of(&args.literal_ints(2)?);
    let mask = args.literal_bools(7)?;
    let [_, weight, bias] = mask[..] else { return Err(ModelError::fail("output_mask has not 3 entries")) };
    let shown = Shown { x: 1, has_bias: bias, is_affine: weight, is_training: true };
    if quirks.norm_backward_cheap_by_mask {
        return reference_backward(args, shown, channels.into(), &mask, quirks);
    }
    let rows = args.numel(1)?.div_floor(channels).unwrap_or_default();
    over_rows(args, shown, &Rows { weight: 5, bias: 6, channels, count: rows }, &mask, quirks)
}

/// `aten::native_group_norm_backward(grad, x, mean, rstd, weight, N, C, HxW, groups, mask)`.
pub fn group_norm_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let channels = args.dim(1, 1)?;
    let groups = args.int(8)?;
    let mask = args.literal_bools(9)?;
    if quirks.group_norm_backward_channels_divided {
        let shown = Shown { x: 1, has_bias: true, is_affine: true, is_training: true };
        return reference_backward(args, shown, Value::Float(channels as f64 / groups as f64), &mask, quirks);
    }
    let [_, _, bias] = mask[..] else { return Err(ModelError::fail("output_mask has not 3 entries")) };
    let shown = Shown { x: 1, has_bias: bias, is_affine: args.has_tensor(4), is_training: true };
    let rows = Count::from(args.dim(1, 0)?) * groups;
    // The bias is not in the call; its gradient has the weight's type.
    over_rows(args, shown, &Rows { weight: 4, bias: 4, channels: channels.into(), count: rows }, &mask, quirks)
}

/// Instance norm has no backward operation of its own with a formula.
pub fn instance_norm_backward(_call: &OpCall<'_>, _quirks: &Quirks) -> Read {
    Err(ModelError::Drop)
}

/// Both tensors and the rows' statistics read, the wanted gradients written.
fn over_rows(args: Args<'_>, shown: Shown, over: &Rows, mask: &[bool], quirks: &Quirks) -> Read {
    let [input, weight, bias] = *mask else { return Err(ModelError::fail("output_mask has not 3 entries")) };
    let elements = args.numel(shown.x)?;
    let size = args.size(shown.x, quirks)?;
    let bytes = Bytes::new().and_read(args, 0, quirks)?.and_read(args, shown.x, quirks)?.and(2 * over.count, Some(4));
    let mut bytes = bytes.and(elements.when(input), size);
    for (wanted, slot) in [(input, over.weight), (weight, over.weight), (bias, over.bias)] {
        if wanted {
            bytes = and_channels(bytes, args, over.channels, &[slot], quirks);
        }
    }
    let mut params = params(args, shown, over.channels.into(), quirks)?;
    params.push(mask_param(mask));
    let flops = 4 * elements + (5 * elements).when(input);
    Tally::vector(params, flops, bytes.total(), args.dtype(shown.x)?, quirks).boxed()
}

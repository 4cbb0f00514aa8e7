//! Convolutions of one, two and three dimensions, forward and backward.

use crate::args::{self, Args, stored_shape};
use crate::call::{InputLists, OpCall};
use crate::count::Count;
use crate::dtype;
use crate::models::{Cost, ModelError, Params, PerfModel, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Sizes and steps of a convolution.
///
/// `x` is (batch, channels in, space…); `w` is (channels out, channels in / groups, kernel…), for a transposed one
/// (channels in, channels out / groups, kernel…).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Shape of the input.
    pub x: Vec<i64>,
    /// Shape of the weights.
    pub w: Vec<i64>,
    /// Step, one entry a spatial dimension, as are the next three.
    pub stride: Vec<i64>,
    /// Padding on each side.
    pub padding: Vec<i64>,
    /// Distance of kernel elements.
    pub dilation: Vec<i64>,
    /// Extra output at the far side of a transposed convolution.
    pub output_padding: Vec<i64>,
    /// Whether it is transposed.
    pub transposed: bool,
    /// Groups of channels.
    pub groups: i64,
    /// Bytes from one element of the input to the next, for each of its dimensions; empty if not known.
    pub x_steps: Vec<i64>,
    /// As many for the gradient that a backward call is given.
    pub gradient_steps: Vec<i64>,
}

/// Bytes that device memory reads at once: what lies nearer to a read element is read with it.
const SECTOR: i64 = 32;

/// The gradients that a backward call computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gradients {
    /// Of the input.
    pub input: bool,
    /// Of the weights.
    pub weight: bool,
    /// Of the bias.
    pub bias: bool,
}

impl Geometry {
    /// Shape of the output; fails if a step is zero.
    pub fn output(&self, quirks: &Quirks) -> Result<Vec<i64>, ModelError> {
        let channels = match (self.transposed, quirks.transposed_groups_ignored) {
            (false, _) => self.w[0],
            (true, true) => self.w[1],
            (true, false) => self.w[1].saturating_mul(self.groups),
        };
        let mut out = vec![self.x[0], channels];
        for i in 0..self.x.len() - 2 {
            let size = self.output_size(i)?;
            if size < 0 && !quirks.negative_counts_shown {
                return Err(ModelError::fail("the size of an output is below 0"));
            }
            out.push(size);
        }
        Ok(out)
    }

    fn output_size(&self, i: usize) -> Result<i64, ModelError> {
        let (size, kernel) = (Count::from(self.x[i + 2]), Count::from(self.w[i + 2]));
        let reach = (kernel - Count::ONE) * self.dilation[i];
        let padding = Count::from(self.padding[i]) * 2;
        if self.transposed {
            let inner = (size - Count::ONE) * self.stride[i] - padding;
            return Ok((inner + reach + self.output_padding[i].into() + Count::ONE).to_i64());
        }
        // Truncated, not floored: a kernel larger than the input gives 0, not -1.
        let span = (size + padding - reach - Count::ONE).to_f64() / self.stride[i] as f64 + 1.0;
        if span.is_finite() { Ok(span as i64) } else { Err(ModelError::fail("stride 0")) }
    }

    /// Multiply-adds of one pass over the data, times two.
    fn pass(&self, out: Count) -> Count {
        2 * Count::of(&self.w[1..]) * if self.transposed { Count::of(&self.x) } else { out }
    }

    /// 2·|w per output channel|·|out| (|x| for a transposed one), plus |out| for the bias.
    pub fn flops(&self, bias: bool, quirks: &Quirks) -> Result<Count, ModelError> {
        let out = Count::of(&self.output(quirks)?);
        Ok(self.pass(out) + out.when(bias))
    }

    /// Elements of the input that are read. A kernel that takes longer steps than it is wide passes over the rest,
    /// unless that lies too near to be left out.
    fn read(&self, out: &[i64], quirks: &Quirks) -> Count {
        let mut read =
            if quirks.expanded_operands_in_full { self.x.clone() } else { stored_shape(&self.x, &self.x_steps) };
        for i in 2..read.len() {
            let apart = self.x_steps.get(i).is_some_and(|&step| step >= SECTOR);
            if !self.transposed && !quirks.passed_over_input_counted && apart {
                read[i] = read[i].min(out[i].saturating_mul(self.w[i]));
            }
        }
        Count::of(&read)
    }

    /// Input, weights, bias and output once each, in elements.
    pub fn elements(&self, bias: bool, quirks: &Quirks) -> Result<Count, ModelError> {
        let out = self.output(quirks)?;
        Ok(self.read(&out, quirks) + Count::of(&self.w) + Count::of(&out) + Count::from(out[1]).when(bias))
    }

    /// One pass of multiply-adds for each of the two large gradients, |out| for the bias.
    pub fn backward_flops(&self, wanted: Gradients, quirks: &Quirks) -> Result<Count, ModelError> {
        let out = self.output(quirks)?;
        let space = if self.transposed { &self.x[2..] } else { &out[2..] };
        let weight = 2 * Count::of(&self.w) * self.x[0] * Count::of(space);
        let elements = Count::of(&out);
        Ok(self.pass(elements).when(wanted.input) + weight.when(wanted.weight) + elements.when(wanted.bias))
    }

    /// Bytes of the backward passes: each large one reads two of x, w and the output gradient and writes the third;
    /// the bias one reads the output gradient.
    pub fn backward_bytes(&self, wanted: Gradients, size: i64, quirks: &Quirks) -> Result<Count, ModelError> {
        let out = self.output(quirks)?;
        let held = |shape: &[i64], steps: &[i64]| {
            if quirks.expanded_operands_in_full { Count::of(shape) } else { Count::of(&stored_shape(shape, steps)) }
        };
        let (x, gradient) = (held(&self.x, &self.x_steps), held(&out, &self.gradient_steps));
        let input = gradient + Count::of(&self.w) + Count::of(&self.x);
        let weight = gradient + x + Count::of(&self.w);
        let bias = (gradient + out[1].into()).when(wanted.bias);
        let large = (input.when(wanted.input) + weight.when(wanted.weight)) * size;
        Ok(large + if quirks.bias_gradient_unsized { bias } else { bias * size })
    }

    /// What PyTorch's own counter says: no bias.
    fn torch_flops(&self) -> Option<Count> {
        self.flops(false, &Quirks::NONE).ok()
    }
}

struct Convolution {
    geometry: Geometry,
    size: Option<i64>,
    precision: Option<&'static str>,
    bias: bool,
    /// What the call itself is: a backward one has its gradients.
    itself: Option<Gradients>,
    quirks: Quirks,
    params: Params,
}

impl Convolution {
    fn cost(&self, flops: Count, bytes: Option<Count>) -> Cost {
        Cost::matrix(flops.to_f64(), bytes.map(Count::to_f64), self.precision)
    }

    fn gradients(&self, wanted: Gradients) -> Result<Cost, ModelError> {
        let flops = self.geometry.backward_flops(wanted, &self.quirks)?;
        let bytes = self.size.map(|size| self.geometry.backward_bytes(wanted, size, &self.quirks)).transpose()?;
        Ok(self.cost(flops, bytes))
    }
}

impl PerfModel for Convolution {
    fn into_params(self: Box<Self>) -> Params {
        self.params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        if let Some(wanted) = self.itself {
            return self.gradients(wanted);
        }
        let flops = self.geometry.flops(self.bias, &self.quirks)?;
        let elements = self.geometry.elements(self.bias, &self.quirks)?;
        Ok(self.cost(flops, self.size.map(|size| elements * size)))
    }

    fn backward(&self) -> Result<Cost, ModelError> {
        self.gradients(Gradients { input: true, weight: true, bias: self.bias })
    }

    fn torch_flops(&self) -> Option<f64> {
        // The counter charges a grouped weight gradient for every pair of channels; only plain ones agree.
        let flops = match self.itself {
            None => self.geometry.torch_flops(),
            Some(wanted) if self.geometry.groups == 1 => {
                self.geometry.backward_flops(Gradients { bias: false, ..wanted }, &Quirks::NONE).ok()
            }
            Some(_) => None,
        };
        flops.map(Count::to_f64)
    }
}

/// Where a convolution's arguments stand.
struct Layout {
    x: usize,
    w: usize,
    /// First of stride, padding, dilation, transposed, output padding, groups.
    steps: usize,
}

/// `aten::convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)`.
pub fn convolution(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let bias = if quirks.bias_by_input_count { args.len() == 3 } else { args.has_tensor(2) };
    let geometry = geometry(args, &Layout { x: 0, w: 1, steps: 3 })?;
    model(args, geometry, &Layout { x: 0, w: 1, steps: 3 }, Bias { counted: bias, shown: bias.into() }, quirks)
        .map(|model| Box::new(model) as Box<dyn PerfModel>)
}

/// `aten::convolution_backward(grad, x, w, bias_sizes, stride, …, groups, output_mask)`.
pub fn convolution_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let layout = Layout { x: 1, w: 2, steps: 4 };
    let geometry = geometry(args, &layout)?;
    let (wanted, shown) = if quirks.convolution_mask_ignored {
        // The slot holds sizes, not a tensor, so it has no dimensions and prints as the empty list.
        let bias = !args.shape(3)?.is_empty();
        (Gradients { input: true, weight: true, bias }, if bias { true.into() } else { Value::List(Vec::new()) })
    } else {
        let mask = args.literal_bools(10)?;
        let [input, weight, bias] = mask[..] else { return Err(ModelError::fail("output_mask has not 3 entries")) };
        (Gradients { input, weight, bias }, bias.into())
    };
    let mut model = model(args, geometry, &layout, Bias { counted: wanted.bias, shown }, quirks)?;
    model.itself = Some(wanted);
    if !quirks.convolution_mask_ignored {
        let mask = [wanted.input, wanted.weight, wanted.bias].map(Value::Bool);
        model.params.push(("output_mask", Value::List(mask.to_vec())));
    }
    Ok(Box::new(model))
}

/// `ConvBias_(x, w, bias, stride, padding)` and `ConvBiasReLU_`: a convolution with a bias; the activation is free.
pub fn conv_bias(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    Ok(Box::new(conv_bias_model(call.inputs, quirks)?))
}

/// Backward of [`conv_bias`]; the sizes stand in the forward call of the same sequence number.
pub fn conv_bias_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let forward = call.forward.ok_or_else(|| ModelError::fail("the forward call is not in the trace"))?;
    let mut model = conv_bias_model(forward, quirks)?;
    model.itself = Some(Gradients { input: true, weight: true, bias: true });
    Ok(Box::new(model))
}

fn conv_bias_model(inputs: &InputLists, quirks: &Quirks) -> Result<Convolution, ModelError> {
    let args = Args::new(inputs);
    let (x, w) = shapes(args, 0, 1)?;
    let rank = x.len() - 2;
    let uniform = |i: usize, default: i64| {
        if args.concrete(i)?.is_empty() { Ok(vec![default; rank]) } else { args.int(i).map(|value| vec![value; rank]) }
    };
    let geometry = Geometry {
        x,
        w,
        stride: uniform(3, 1)?,
        padding: uniform(4, 0)?,
        dilation: vec![1; rank],
        output_padding: vec![0; rank],
        transposed: false,
        groups: 1,
        x_steps: byte_steps(args, 0),
        gradient_steps: Vec::new(),
    };
    let bias = Bias { counted: true, shown: true.into() };
    model(args, geometry, &Layout { x: 0, w: 1, steps: 0 }, bias, quirks)
}

/// Shapes of x and w, checked to be of the same, supported rank.
fn shapes(args: Args<'_>, x: usize, w: usize) -> Result<(Vec<i64>, Vec<i64>), ModelError> {
    let (x, w) = (args.shape(x)?, args.shape(w)?);
    if !(3..=5).contains(&x.len()) || w.len() != x.len() {
        return Err(ModelError::fail(format!("input of {} and weights of {} dimensions", x.len(), w.len())));
    }
    Ok((x.to_vec(), w.to_vec()))
}

fn geometry(args: Args<'_>, layout: &Layout) -> Result<Geometry, ModelError> {
    let (x, w) = shapes(args, layout.x, layout.w)?;
    let rank = x.len() - 2;
    let list = |i: usize, default: i64| -> Result<Vec<i64>, ModelError> {
        let text = args.concrete(layout.steps + i)?;
        let values = if text.is_empty() { vec![default] } else { list_of_ints(text)? };
        match values.len() {
            1 => Ok(vec![values[0]; rank]),
            n if n == rank => Ok(values),
            n => Err(ModelError::fail(format!("{n} steps for {rank} dimensions"))),
        }
    };
    Ok(Geometry {
        stride: list(0, 1)?,
        padding: list(1, 0)?,
        dilation: list(2, 1)?,
        transposed: args.literal(layout.steps + 3)?.truth(),
        output_padding: list(4, 0)?,
        groups: args.int(layout.steps + 5)?,
        x_steps: byte_steps(args, layout.x),
        // It stands before x.
        gradient_steps: layout.x.checked_sub(1).map_or_else(Vec::new, |slot| byte_steps(args, slot)),
        x,
        w,
    })
}

/// Bytes from one element of a tensor to the next, for each of its dimensions; empty if not known.
fn byte_steps(args: Args<'_>, i: usize) -> Vec<i64> {
    let size = args.size(i, &Quirks::NONE).ok().flatten();
    let strides = args.stride(i).ok().zip(size);
    strides.map_or_else(Vec::new, |(strides, size)| strides.iter().map(|s| s.saturating_mul(size)).collect())
}

fn list_of_ints(text: &str) -> Result<Vec<i64>, ModelError> {
    args::ints(text).ok_or_else(|| ModelError::fail(format!("`{text}` is no list of whole numbers")))
}

/// Whether a bias counts, and what the parameter shows.
struct Bias {
    counted: bool,
    shown: Value,
}

fn model(
    args: Args<'_>,
    geometry: Geometry,
    layout: &Layout,
    bias: Bias,
    quirks: &Quirks,
) -> Result<Convolution, ModelError> {
    let (x, w) = (args.dtype(layout.x)?, args.dtype(layout.w)?);
    if x != w {
        return Err(ModelError::fail(format!("input of type `{x}`, weights of type `{w}`")));
    }
    let kind = ["conv1d", "conv2d", "conv3d"][geometry.x.len() - 3];
    let params = vec![
        ("convNd", kind.into()),
        ("input_shape", Value::shape(&geometry.x)),
        ("filter_shape", Value::shape(&geometry.w)),
        ("dtype_input_weight", Value::texts(&[x, w])),
        ("input_stride", args.optional_stride_param(layout.x)?),
        ("weight_stride", args.optional_stride_param(layout.w)?),
        ("bias", bias.shown),
        ("stride", Value::shape(&geometry.stride)),
        ("padding", Value::shape(&geometry.padding)),
        ("dilation", Value::shape(&geometry.dilation)),
        ("transposed_conv", geometry.transposed.into()),
        ("output_padding", Value::shape(&geometry.output_padding)),
        ("groups", geometry.groups.into()),
    ];
    Ok(Convolution {
        geometry,
        size: dtype::size(x, quirks),
        precision: dtype::precision(x, quirks),
        bias: bias.counted,
        itself: None,
        quirks: *quirks,
        params,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(x: &[i64], w: &[i64], stride: i64, padding: i64) -> Geometry {
        let rank = x.len() - 2;
        Geometry {
            x: x.to_vec(),
            w: w.to_vec(),
            stride: vec![stride; rank],
            padding: vec![padding; rank],
            dilation: vec![1; rank],
            output_padding: vec![0; rank],
            transposed: false,
            groups: 1,
            x_steps: Vec::new(),
            gradient_steps: Vec::new(),
        }
    }

    #[test]
    fn long_steps_pass_over_input() {
        // A projection of a residual net, f16: 28 of 56 rows are read. Of the columns too in channels-last order, where
        // they lie 512 bytes apart, but not where they lie 2 bytes apart.
        let (x, w) = ([128, 256, 56, 56], [512, 256, 1, 1]);
        let elements = |x_steps: &[i64], quirks: &Quirks| {
            let geometry = Geometry { x_steps: x_steps.to_vec(), ..plain(&x, &w, 2, 0) };
            geometry.elements(false, quirks).unwrap().to_i64() - 512 * 256 - 128 * 512 * 28 * 28
        };
        let (last, first) = ([1_605_632, 2, 28_672, 512], [1_605_632, 6272, 112, 2]);
        assert_eq!(elements(&last, &Quirks::NONE), 128 * 256 * 28 * 28);
        assert_eq!(elements(&first, &Quirks::NONE), 128 * 256 * 28 * 56);
        assert_eq!(elements(&last, &Quirks::REFERENCE), 128 * 256 * 56 * 56);
        assert_eq!(elements(&[], &Quirks::NONE), 128 * 256 * 56 * 56);
    }

    #[test]
    fn output_sizes() {
        let none = &Quirks::NONE;
        // (224 + 2·3 − 6 − 1)/2 + 1 = 112.5 → 112
        assert_eq!(plain(&[128, 3, 224, 224], &[64, 3, 7, 7], 2, 3).output(none).unwrap(), [128, 64, 112, 112]);
        // transposed: (28 − 1)·2 − 2·1 + 3 + 0 + 1 = 56; 32 channels a group, 2 groups
        let up = Geometry { transposed: true, groups: 2, ..plain(&[8, 64, 28, 28], &[64, 32, 4, 4], 2, 1) };
        assert_eq!(up.output(none).unwrap(), [8, 64, 56, 56]);
        assert_eq!(up.output(&Quirks::REFERENCE).unwrap(), [8, 32, 56, 56], "F46");
        // a kernel larger than the padded input: trunc((4 − 6 − 1)/2 + 1) = trunc(−0.5) = 0
        assert_eq!(plain(&[1, 1, 4], &[1, 1, 7], 2, 0).output(none).unwrap(), [1, 1, 0]);
        assert!(plain(&[1, 1, 4], &[1, 1, 3], 0, 0).output(none).is_err());
    }

    #[test]
    fn the_stem_of_a_residual_net() {
        // 2·3·7·7·128·64·112·112 = 30 211 571 712
        let stem = plain(&[128, 3, 224, 224], &[64, 3, 7, 7], 2, 3);
        assert_eq!(stem.flops(false, &Quirks::NONE).unwrap().to_i64(), 30_211_571_712);
        // Its input gradient is never computed: one pass less (F2).
        let all = Gradients { input: true, weight: true, bias: false };
        let masked = Gradients { input: false, ..all };
        assert_eq!(stem.backward_flops(all, &Quirks::NONE).unwrap().to_i64(), 2 * 30_211_571_712);
        assert_eq!(stem.backward_flops(masked, &Quirks::NONE).unwrap().to_i64(), 30_211_571_712);
        let elements = 128 * 3 * 224 * 224 + 64 * 3 * 7 * 7 + 128 * 64 * 112 * 112;
        assert_eq!(stem.backward_bytes(masked, 2, &Quirks::NONE).unwrap().to_i64(), elements * 2);
    }

    #[test]
    fn the_bias_gradient_has_a_size() {
        let geometry = plain(&[8, 64, 56, 56], &[128, 64, 3, 3], 1, 1);
        let bias = Gradients { input: false, weight: false, bias: true };
        let elements = 8 * 128 * 56 * 56 + 128;
        assert_eq!(geometry.backward_bytes(bias, 2, &Quirks::REFERENCE).unwrap().to_i64(), elements, "F47");
        assert_eq!(geometry.backward_bytes(bias, 2, &Quirks::NONE).unwrap().to_i64(), 2 * elements);
    }

    #[test]
    fn hostile_sizes_do_not_panic() {
        let huge = plain(&[i64::MAX; 5], &[i64::MAX; 5], i64::MIN, i64::MAX);
        let _ = huge.flops(true, &Quirks::NONE);
        let transposed = Geometry { transposed: true, ..huge };
        let _ = transposed.backward_bytes(Gradients { input: true, weight: true, bias: true }, 8, &Quirks::NONE);
    }
}

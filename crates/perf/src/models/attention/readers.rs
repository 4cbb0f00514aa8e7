//! Layouts of the attention calls of PyTorch and of the attention libraries.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::attention::varlen::{Packing, packed_geometry};
use crate::models::attention::{Attention, Expanded, Geometry, Lengths, Mask, Scores, Sizes};
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Order of the dimensions of q, k and v.
#[derive(Clone, Copy)]
enum Axes {
    /// (batch, length, heads, width).
    LengthFirst,
    /// (batch, heads, length, width).
    HeadsFirst,
}

/// Sizes of q, k and v in three consecutive slots from `q` on.
fn geometry(args: Args<'_>, q: usize, axes: Axes) -> Result<Geometry, ModelError> {
    let ordered = |slot: usize| {
        let [batch, first, second, width] = args.sizes::<4>(slot)?;
        Ok::<_, ModelError>(match axes {
            Axes::LengthFirst => (batch, first, second, width),
            Axes::HeadsFirst => (batch, second, first, width),
        })
    };
    joined(ordered(q)?, ordered(q + 1)?, ordered(q + 2)?)
}

/// (batch, length, heads, width) of one of q, k and v.
type Sides = (i64, i64, i64, i64);

/// The three put together, if they fit.
pub(super) fn joined(queries: Sides, keys: Sides, values: Sides) -> Result<Geometry, ModelError> {
    let (batch, n_q, h_q, d_qk) = queries;
    let same_heads = (keys.0, keys.1, keys.2) == (values.0, values.1, values.2);
    if batch != keys.0 || d_qk != keys.3 || !same_heads {
        return Err(ModelError::fail("shapes of q, k and v do not fit"));
    }
    Ok(Geometry { batch, n_q, h_q, n_kv: keys.1, h_kv: keys.2, d_qk, d_v: values.3 })
}

/// The seven sizes, as every attention shows them.
pub(super) fn size_params(geometry: &Geometry) -> Params {
    vec![
        ("B", geometry.batch.into()),
        ("N_Q", geometry.n_q.into()),
        ("H_Q", geometry.h_q.into()),
        ("N_KV", geometry.n_kv.into()),
        ("H_KV", geometry.h_kv.into()),
        ("d_h_qk", geometry.d_qk.into()),
        ("d_h_v", geometry.d_v.into()),
    ]
}

/// Real element sizes of q and k; the reference takes two bytes for everything (F10).
pub(super) fn element_sizes(args: Args<'_>, q: usize, quirks: &Quirks) -> Result<Sizes, ModelError> {
    if quirks.attention_two_bytes {
        return Ok(Sizes::uniform(Some(2)));
    }
    let query = args.size(q, quirks)?;
    Ok(Sizes { query, output: query, key: args.size(q + 1, quirks)? })
}

/// What is expanded of q, k and v from slot `q` on, and of the `given` tensors before them. The reference counts it (F27).
pub(super) fn expanded(args: Args<'_>, q: usize, given: usize, quirks: &Quirks) -> Expanded {
    if quirks.expanded_operands_in_full {
        return Expanded::default();
    }
    let bytes = |slot: usize| {
        let (all, stored) = (args.numel(slot).ok()?, args.stored_numel(slot).ok()?);
        Some((all - stored) * args.size(slot, quirks).ok()??)
    };
    Expanded { query_side: (q - given..=q).filter_map(bytes).sum(), key_side: (q + 1..=q + 2).filter_map(bytes).sum() }
}

/// What a call says besides its shapes.
struct Options {
    q: usize,
    axes: Axes,
    dropout: f64,
    causal: Value,
    /// Which mask `causal` stands for.
    mask: Mask,
    scores: Scores,
    is_backward: bool,
    /// Slots of the types shown as `dtype_A_B`; `None` where the reference shows none.
    types: Option<[usize; 2]>,
    /// Whether the strides of q, k and v are shown (and so must be there).
    strides: bool,
    /// Slot of a bias on the scores.
    bias: Option<usize>,
    /// Whether a backward call writes a gradient of that bias.
    bias_gradient: bool,
    /// How far a query sees.
    window: Window,
    /// Slot of the output that a call may be given, of those whose output is wider than 8-bit queries.
    wide_output: Option<usize>,
}

/// How many keys before and behind its own place a query sees; `None` for all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Window {
    left: Option<i64>,
    right: Option<i64>,
}

impl Window {
    /// The two limits in `slot` and the next one; negative or absent ones are none.
    pub(super) fn read(args: Args<'_>, slot: usize, quirks: &Quirks) -> Self {
        let limit = |slot: usize| args.int(slot).ok().filter(|&keys| keys >= 0 && !quirks.sliding_window_ignored);
        Self { left: limit(slot), right: limit(slot + 1) }
    }

    /// As [`Self::read`], for libraries whose layouts differ from version to version: the two count only if both slots hold
    /// a number.
    fn read_pair(args: Args<'_>, slot: usize, quirks: &Quirks) -> Self {
        let numbers = (slot..=slot + 1).all(|slot| args.int(slot).is_ok());
        if numbers { Self::read(args, slot, quirks) } else { Self::default() }
    }

    /// The window of the efficient kernels: so many keys up to the query's own one.
    fn read_length(args: Args<'_>, slot: usize, quirks: &Quirks) -> Self {
        let length = args.int(slot).ok().filter(|&keys| keys > 0 && !quirks.sliding_window_ignored);
        Self { left: length.map(|keys| keys - 1), right: None }
    }

    /// The mask of such a window, if it limits anything; a causal one ends at the query.
    pub(super) fn mask(self, causal: bool) -> Option<Mask> {
        let right = if causal { Some(0) } else { self.right };
        let limited = self.left.is_some() || right.is_some() && !causal;
        limited.then_some(Mask::Window { left: self.left, right })
    }

    /// The limits as parameters, where there are any.
    pub(super) fn params(self) -> Params {
        let shown = |limit: Option<i64>| limit.map_or(Value::None, Value::Int);
        if self == Self::default() {
            return Vec::new();
        }
        vec![("window_left", shown(self.left)), ("window_right", shown(self.right))]
    }
}

impl Options {
    /// A forward call of equal lengths with q, k and v from slot `q` on.
    fn new(q: usize, axes: Axes, dropout: f64, causal: bool) -> Self {
        Self {
            q,
            axes,
            dropout,
            causal: causal.into(),
            mask: Mask::CausalFromEnd,
            scores: Scores::Recomputed,
            is_backward: false,
            types: Some([q, q + 1]),
            strides: false,
            bias: None,
            bias_gradient: false,
            window: Window::default(),
            wide_output: None,
        }
    }

    /// The efficient kernels' mask: 1 causal from the start, 2 from the end.
    fn with_mask_kind(self, kind: i64) -> Self {
        let mask = if kind == 1 { Mask::CausalFromStart } else { Mask::CausalFromEnd };
        Self { causal: matches!(kind, 1 | 2).into(), mask, ..self }
    }

    /// Which pairs are left out.
    fn mask(&self) -> Mask {
        let causal = self.causal.truth();
        match (self.window.mask(causal), self.window.left) {
            (Some(_), Some(left)) if causal && self.mask == Mask::CausalFromStart => Mask::WindowFromStart { left },
            (Some(window), _) => window,
            (None, _) if causal => self.mask,
            (None, _) => Mask::Full,
        }
    }

    fn read(self, call: &OpCall<'_>, quirks: &Quirks) -> Read {
        let args = Args::of(call);
        let geometry = geometry(args, self.q, self.axes)?;
        self.model(args, geometry, Lengths::Equal, quirks).map(|model| Box::new(model) as _)
    }

    fn model(
        self,
        args: Args<'_>,
        geometry: Geometry,
        lengths: Lengths,
        quirks: &Quirks,
    ) -> Result<Attention, ModelError> {
        let mask = self.mask();
        let mut params = size_params(&geometry);
        if self.strides {
            for (i, name) in ["q_stride", "k_stride", "v_stride"].into_iter().enumerate() {
                params.push((name, args.shown_stride(self.q + i, quirks)?));
            }
        }
        params.extend([
            ("dropout", self.dropout.into()),
            ("causal", self.causal),
            ("flash_impl", (self.scores == Scores::Recomputed).into()),
        ]);
        let mut precision = None;
        if let Some([a, b]) = self.types {
            precision = dtype::precision(args.dtype(a)?, quirks);
            params.push(("dtype_A_B", Value::texts(&[args.dtype(a)?, args.dtype(b)?])));
        }
        if let Lengths::Packed(packing) = lengths {
            params.extend(packing.params());
        }
        params.extend(self.window.params());
        let mut bias_bytes = Count::ZERO;
        if let Some(slot) = self.bias.filter(|&slot| args.has_tensor(slot) && !quirks.attention_bias_free) {
            // The gradient is as large as the bias seems, even where that is expanded.
            let moved = args.stored_numel(slot)? + args.numel(slot)?.when(self.bias_gradient);
            bias_bytes = moved * args.known_size(slot, quirks)?;
            params.push(("bias_shape", Value::shape(&args.stored_shape(slot)?)));
            params.push(("bias_dtype", args.dtype(slot)?.into()));
            if self.bias_gradient {
                params.push(("bias_gradient", true.into()));
            }
        }
        let mut sizes = element_sizes(args, self.q, quirks)?;
        if let Some(slot) = self.wide_output {
            let given = dtype::size(args.dtype_or_empty(slot), quirks).filter(|_| args.has_tensor(slot));
            sizes.output = given.or(sizes.query.map(|size| size.max(2)));
        }
        if sizes.output != sizes.query {
            params.push(("output_size", sizes.output.into()));
        }
        // The gradient that a backward call is given stands before q.
        let given = usize::from(self.is_backward && self.q > 0);
        Ok(Attention {
            geometry,
            mask,
            scores: self.scores,
            lengths,
            sizes,
            bias_bytes,
            expanded: expanded(args, self.q, given, quirks),
            precision,
            is_backward: self.is_backward,
            quirks: *quirks,
            params,
        })
    }
}

/// `flash_attn::_flash_attn_forward(q, k, v, dropout, scale, causal, window_left, window_right, …)`.
pub fn flash_attn_forward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    Options { window: Window::read(args, 6, quirks), ..flash_attn(args)? }.read(call, quirks)
}

/// `FlashAttnFunc(q, k, v, dropout, scale, causal, window, softcap, …)`; of the window the trace keeps nothing.
pub fn flash_attn_function(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    flash_attn(Args::of(call))?.read(call, quirks)
}

fn flash_attn(args: Args<'_>) -> Result<Options, ModelError> {
    let options = Options::new(0, Axes::LengthFirst, args.float(3)?, false);
    Ok(Options { causal: args.literal(5)?, strides: true, ..options })
}

/// `flash_attn::_flash_attn_backward(dout, q, k, v, …, dropout, scale, causal, window_left, window_right)`; causal unless it
/// says otherwise. From version 2.7 on dq, dk and dv stand before the dropout, so the flag is where a truth value is.
pub fn flash_attn_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let is_flag = |slot: usize| matches!(args.literal(slot), Ok(Value::Bool(_)));
    let flag = if is_flag(11) && !is_flag(10) && !quirks.flash_backward_slots_fixed { 11 } else { 10 };
    let causal = if args.concrete_or_empty(flag).is_empty() { true.into() } else { args.literal(flag)? };
    let options = Options::new(1, Axes::LengthFirst, args.float_or_zero(flag - 2), true);
    let window = Window::read(args, flag + 1, quirks);
    let options = Options { causal, strides: true, is_backward: true, types: Some([0, 1]), window, ..options };
    let geometry = geometry(args, options.q, options.axes)?;
    let mut model = options.model(args, geometry, Lengths::Equal, quirks)?;
    // The one attention for which the reference looks at the type.
    if quirks.attention_two_bytes {
        model.sizes = Sizes::uniform(args.size(0, quirks)?);
    }
    Ok(Box::new(model))
}

/// `aten::_scaled_dot_product_flash_attention(q, k, v, dropout, causal, …)`.
pub fn aten_sdpa_flash(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let options = Options::new(0, Axes::HeadsFirst, args.float_or_zero(3), args.is_true(4));
    Options { mask: Mask::CausalFromStart, ..options }.read(call, quirks)
}

/// `aten::_scaled_dot_product_{efficient,cudnn}_attention(q, k, v, bias, log_sums, dropout, causal, …)`.
pub fn aten_sdpa_bias(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let options = Options::new(0, Axes::HeadsFirst, args.float_or_zero(5), args.is_true(6));
    Options { mask: Mask::CausalFromStart, scores: Scores::Kept, bias: Some(3), ..options }.read(call, quirks)
}

/// A library call of `aiter` or `flash_attn_3`, whose types the reference does not look at (F17).
fn untyped(call: &OpCall<'_>, quirks: &Quirks, q: usize, dropout: f64, causal: bool) -> Options {
    let options = Options::new(q, Axes::LengthFirst, dropout, causal);
    let readable = Args::of(call).dtype(q + 1).is_ok() && !quirks.attention_precision_unknown;
    Options { types: options.types.filter(|_| readable), ..options }
}

/// A call of `aiter`: dropout, scale, flag and window stand one behind the other.
fn aiter(call: &OpCall<'_>, quirks: &Quirks, q: usize, dropout: usize) -> Options {
    let args = Args::of(call);
    let options = untyped(call, quirks, q, args.float_or_zero(dropout), args.is_true(dropout + 2));
    Options { window: Window::read_pair(args, dropout + 3, quirks), ..options }
}

/// `aiter::_flash_attn_forward(q, k, v, dropout, scale, causal, window_left, window_right, …)`, `aiter::mha_fwd`,
/// `aiter::fmha_v3_fwd`.
pub fn aiter_forward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    aiter(call, quirks, 0, 3).read(call, quirks)
}

/// `aiter::wrapper_fmha_v3_fwd(out, q, k, v, dropout, scale, causal, window_left, window_right, …)`.
pub fn aiter_wrapper_forward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    aiter(call, quirks, 1, 4).read(call, quirks)
}

/// `flash_attn_3::fwd(q, k, v, …)`: output in slot 6, offsets in 7 and 8, longest in 12 and 13, causal in 24, window in 25
/// and 26. The reference knows no packed sequences here.
pub fn flash_attn_3_forward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let options = untyped(call, quirks, 0, 0.0, args.is_true(24));
    if quirks.varlen_unguarded {
        return options.read(call, quirks);
    }
    let window = Window::read(args, 25, quirks);
    packed_or_equal(args, Options { window, wide_output: Some(6), ..options }, quirks, 7, 12)
}

/// `aiter::_flash_attn_backward(dout, q, k, v, …, dropout, scale, causal, window_left, window_right, …)`; the reference takes
/// the first three for q, k, v (F15).
pub fn aiter_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let q = usize::from(!quirks.aiter_backward_slots_shifted);
    Options { is_backward: true, ..aiter(call, quirks, q, 10) }.read(call, quirks)
}

/// `aiter::wrapper_fmha_v3_bwd(dout, q, k, v, …, dropout, scale, causal, window_left, window_right, …)`.
pub fn aiter_wrapper_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    Options { is_backward: true, ..aiter(call, quirks, 1, 7) }.read(call, quirks)
}

/// `aiter::mha_bwd(dout, q, k, v, out, log_sums, dropout, scale, causal, window_left, window_right, …)`.
pub fn aiter_mha_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    Options { is_backward: true, ..aiter(call, quirks, 1, 6) }.read(call, quirks)
}

/// `EvoformerAttention(q, …)` with q (batch, sequences, residues, heads, width): attention over residues.
pub fn evoformer(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let [batch, sequences, residues, heads, width] = args.sizes::<5>(0)?;
    let geometry = Geometry {
        batch: batch.saturating_mul(sequences),
        n_q: residues,
        h_q: heads,
        n_kv: residues,
        h_kv: heads,
        d_qk: width,
        d_v: width,
    };
    let name = args.dtype(0)?;
    let mut params = size_params(&geometry);
    params.extend([
        ("causal", false.into()),
        ("flash_impl", false.into()),
        ("dtype_A_B", Value::List(vec![name.into()])),
    ]);
    let mut bias_bytes = Count::ZERO;
    if !quirks.attention_bias_free {
        let mut shapes = Vec::new();
        for slot in [3, 4].into_iter().filter(|&slot| args.has_tensor(slot)) {
            bias_bytes = bias_bytes + args.stored_numel(slot)? * args.known_size(slot, quirks)?;
            shapes.push(Value::shape(&args.stored_shape(slot)?));
        }
        if !shapes.is_empty() {
            params.push(("bias_shape", Value::List(shapes)));
        }
    }
    let size = if quirks.attention_two_bytes { Some(2) } else { dtype::size(name, quirks) };
    Ok(Box::new(Attention {
        geometry,
        mask: Mask::Full,
        scores: Scores::Kept,
        lengths: Lengths::Equal,
        sizes: Sizes::uniform(size),
        bias_bytes,
        expanded: Expanded::default(),
        precision: dtype::precision(name, quirks),
        is_backward: false,
        quirks: *quirks,
        params,
    }))
}

/// `aten::_scaled_dot_product_cudnn_attention_backward(grad, q, k, v, out, log_sums, …, bias, …, dropout, causal)`.
pub fn aten_cudnn_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let options = Options::new(1, Axes::HeadsFirst, args.float_or_zero(13), args.is_true(14));
    Options { mask: Mask::CausalFromStart, is_backward: true, bias: Some(8), ..options }.read(call, quirks)
}

/// `aten::_scaled_dot_product_flash_attention_backward(grad, q, k, v, …, dropout, causal, …)` and the kernel-level
/// `aten::_flash_attention_backward`, which has the lengths first and a window in slots 15 and 16.
pub fn aten_flash_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (axes, mask, window) = if call.name == "aten::_flash_attention_backward" {
        (Axes::LengthFirst, Mask::CausalFromEnd, Window::read(args, 15, quirks))
    } else {
        (Axes::HeadsFirst, Mask::CausalFromStart, Window::default())
    };
    let options = Options::new(1, axes, args.float_or_zero(10), args.is_true(11));
    let options = Options { is_backward: true, mask, window, ..options };
    packed_or_equal(args, options, quirks, 6, 8)
}

/// `aten::_scaled_dot_product_efficient_attention_backward(grad, q, k, v, bias, …, dropout, output_mask, causal)` and the
/// kernel-level `aten::_efficient_attention_backward`, which has the lengths first, whether the bias gets a gradient in slot
/// 15 and a window in slot 18.
pub fn aten_efficient_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    if call.name == "aten::_efficient_attention_backward" {
        let options = Options::new(1, Axes::LengthFirst, args.float_or_zero(11), false);
        let options = options.with_mask_kind(args.int(14).unwrap_or(0));
        let (window, bias_gradient) = (Window::read_length(args, 18, quirks), args.is_true(15));
        let options = Options { is_backward: true, bias: Some(4), bias_gradient, window, ..options };
        return packed_or_equal(args, options, quirks, 6, 8);
    }
    let options = Options::new(1, Axes::HeadsFirst, args.float_or_zero(9), args.is_true(11));
    let bias_gradient = args.literal_bools(10).is_ok_and(|wanted| wanted.get(3) == Some(&true));
    let mask = Mask::CausalFromStart;
    Options { mask, is_backward: true, bias: Some(4), bias_gradient, ..options }.read(call, quirks)
}

/// `aten::_flash_attention_forward(q, k, v, offsets_q, offsets_k, max_q, max_k, dropout, causal, …)` with a window in slots
/// 11 and 12, and
/// `aten::_efficient_attention_forward(q, k, v, bias, offsets_q, offsets_k, max_q, max_k, dropout, mask_kind, …)` with one in
/// slot 13.
pub fn aten_packed_forward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    if call.name == "aten::_efficient_attention_forward" {
        let options = Options::new(0, Axes::LengthFirst, args.float_or_zero(8), false);
        let options = options.with_mask_kind(args.int(9).unwrap_or(0));
        let window = Window::read_length(args, 13, quirks);
        return packed_or_equal(args, Options { bias: Some(3), window, ..options }, quirks, 4, 6);
    }
    let options = Options::new(0, Axes::LengthFirst, args.float_or_zero(7), args.is_true(8));
    packed_or_equal(args, Options { window: Window::read(args, 11, quirks), ..options }, quirks, 3, 5)
}

/// A call that has packed sequences if the slot `offsets` holds a tensor; `longest` is the first of the two maxima.
fn packed_or_equal(args: Args<'_>, options: Options, quirks: &Quirks, offsets: usize, longest: usize) -> Read {
    if !args.has_tensor(offsets) {
        let geometry = geometry(args, options.q, options.axes)?;
        return options.model(args, geometry, Lengths::Equal, quirks).map(|model| Box::new(model) as _);
    }
    let geometry = if args.shape(options.q)?.len() == 3 {
        packed_geometry(args, options.q)?
    } else {
        geometry(args, options.q, options.axes)?
    };
    let packing = Packing {
        sequences_q: args.dim(offsets, 0)?.saturating_sub(1),
        sequences_kv: args.dim(offsets + 1, 0)?.saturating_sub(1),
        longest_q: args.float(longest)?,
        longest_kv: args.float(longest + 1)?,
    };
    options.model(args, geometry, Lengths::Packed(packing), quirks).map(|model| Box::new(model) as _)
}

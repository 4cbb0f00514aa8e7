//! Sequences of different length packed one behind the other.

use crate::args::Args;
use crate::call::OpCall;
use crate::dtype;
use crate::models::attention::readers::{Window, element_sizes, expanded, joined, size_params};
use crate::models::attention::{Attention, Geometry, Lengths, Mask, Scores};
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// How the packed sequences are cut. The trace holds the number of sequences and the longest, not the cuts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Packing {
    pub(crate) sequences_q: i64,
    pub(crate) sequences_kv: i64,
    pub(crate) longest_q: f64,
    pub(crate) longest_kv: f64,
}

impl Packing {
    pub(super) fn params(&self) -> Params {
        vec![
            ("num_seqs_q", self.sequences_q.into()),
            ("num_seqs_kv", self.sequences_kv.into()),
            ("max_seqlen_q", self.longest_q.into()),
            ("max_seqlen_kv", self.longest_kv.into()),
        ]
    }

    /// One sequence of the greatest length, the others alike in what is left. A lower bound if there is one of that
    /// length: attention grows with the square, and equal lengths have the smallest sum of squares.
    pub(super) fn sum(
        &self,
        total: &Geometry,
        number: impl Fn(&Geometry) -> Result<f64, ModelError>,
        quirks: &Quirks,
    ) -> Result<f64, ModelError> {
        let of = |n_q: f64, n_kv: f64| number(&Geometry { n_q: n_q as i64, n_kv: n_kv as i64, ..*total });
        // Programs often name the most that they allow; no sequence is longer than all of them.
        let there = |longest: f64, all: i64| if quirks.varlen_unguarded { longest } else { longest.min(all as f64) };
        let (longest_q, longest_kv) = (there(self.longest_q, total.n_q), there(self.longest_kv, total.n_kv));
        let longest = of(longest_q, longest_kv)?;
        if self.sequences_q <= 1 {
            return Ok(longest);
        }
        let others_kv = self.sequences_kv.saturating_sub(1).max(if quirks.varlen_unguarded { i64::MIN } else { 1 });
        if others_kv == 0 {
            return Err(ModelError::fail("one sequence of keys for many of queries"));
        }
        let others = (self.sequences_q - 1) as f64;
        let least = if quirks.varlen_unguarded { f64::NEG_INFINITY } else { 0.0 };
        let rest_q = ((total.n_q as f64 - longest_q) / others).floor().max(least);
        let rest_kv = ((total.n_kv as f64 - longest_kv) / others_kv as f64).floor().max(least);
        Ok(longest + others * of(rest_q, rest_kv)?)
    }
}

/// Where a variable-length call keeps its arguments.
struct Layout {
    q: usize,
    offsets: usize,
    longest: usize,
    dropout: usize,
    causal: usize,
    is_backward: bool,
}

/// `flash_attn::_flash_attn_varlen_forward(q, k, v, offsets_q, offsets_k, max_q, max_k, dropout, scale, causal)`; a window
/// behind the flag here and in the backward call.
pub fn flash_attn_varlen_forward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    read(call, quirks, &Layout { q: 0, offsets: 3, longest: 5, dropout: 7, causal: 9, is_backward: false })
}

/// `flash_attn::_flash_attn_varlen_backward(dout, q, k, v, …, offsets, max_q, max_k, dropout, scale, causal)`.
pub fn flash_attn_varlen_backward(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    read(call, quirks, &Layout { q: 1, offsets: 9, longest: 11, dropout: 13, causal: 15, is_backward: true })
}

fn read(call: &OpCall<'_>, quirks: &Quirks, layout: &Layout) -> Read {
    let args = Args::of(call);
    let geometry = packed_geometry(args, layout.q)?;
    let packing = Packing {
        sequences_q: args.dim(layout.offsets, 0)?.saturating_sub(1),
        sequences_kv: args.dim(layout.offsets + 1, 0)?.saturating_sub(1),
        longest_q: args.float(layout.longest)?,
        longest_kv: args.float(layout.longest + 1)?,
    };
    let causal = args.is_true(layout.causal);
    let window = Window::read(args, layout.causal + 1, quirks);
    let (q, k) = (args.dtype(layout.q)?, args.dtype(layout.q + 1)?);
    let mut params = size_params(&geometry);
    params.extend([
        ("dropout", args.float_or_zero(layout.dropout).into()),
        ("causal", causal.into()),
        ("flash_impl", true.into()),
        ("dtype_A_B", Value::texts(&[q, k])),
    ]);
    params.extend(packing.params());
    params.extend(window.params());
    Ok(Box::new(Attention {
        geometry,
        mask: window.mask(causal).unwrap_or(if causal { Mask::CausalFromEnd } else { Mask::Full }),
        scores: Scores::Recomputed,
        lengths: Lengths::Packed(packing),
        sizes: element_sizes(args, layout.q, quirks)?,
        bias_bytes: crate::count::Count::ZERO,
        expanded: expanded(args, layout.q, 0, quirks),
        precision: dtype::precision(q, quirks),
        is_backward: layout.is_backward,
        quirks: *quirks,
        params,
    }))
}

/// Sizes of packed q, k and v, each (tokens, heads, width).
pub(super) fn packed_geometry(args: Args<'_>, q: usize) -> Result<Geometry, ModelError> {
    let sides = |slot: usize| args.sizes::<3>(slot).map(|[length, heads, width]| (1, length, heads, width));
    joined(sides(q)?, sides(q + 1)?, sides(q + 2)?)
}

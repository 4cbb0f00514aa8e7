//! Dense attention: `softmax(Q·Kᵀ)·V`, forward and backward, equal and variable lengths.

mod readers;
mod varlen;

pub use readers::{
    aiter_backward, aiter_forward, aiter_mha_backward, aiter_wrapper_backward, aiter_wrapper_forward,
    aten_cudnn_backward, aten_efficient_backward, aten_flash_backward, aten_packed_forward, aten_sdpa_bias,
    aten_sdpa_flash, evoformer, flash_attn_3_forward, flash_attn_backward, flash_attn_forward, flash_attn_function,
};
pub use varlen::{flash_attn_varlen_backward, flash_attn_varlen_forward};

use crate::count::Count;
use crate::models::{Cost, ModelError, Params, PerfModel};
use crate::parity::Quirks;

/// Sizes of one attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Sequences.
    pub batch: i64,
    /// Queries a sequence.
    pub n_q: i64,
    /// Query heads.
    pub h_q: i64,
    /// Keys a sequence.
    pub n_kv: i64,
    /// Key and value heads.
    pub h_kv: i64,
    /// Width of a query or key.
    pub d_qk: i64,
    /// Width of a value.
    pub d_v: i64,
}

/// Which pairs of query and key are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mask {
    /// None.
    Full,
    /// Query `i` sees keys up to `i`, both counted from the start (PyTorch's `is_causal`).
    CausalFromStart,
    /// The last query sees all keys, each earlier one a key less (the flash-attention libraries).
    CausalFromEnd,
    /// As many keys before and behind a query's own place, places counted from the end; `None` for all.
    Window {
        /// Keys before its place.
        left: Option<i64>,
        /// Keys behind its place.
        right: Option<i64>,
    },
    /// As [`Self::CausalFromStart`], but no more than so many keys before a query's own place.
    WindowFromStart {
        /// Keys before its place.
        left: i64,
    },
}

impl Mask {
    fn is_causal(self) -> bool {
        self != Self::Full
    }

    /// Keys of one sequence that no query sees, so that nobody needs to read them.
    pub fn unseen_keys(self, n_q: i64, n_kv: i64) -> Count {
        let seen = match self {
            Self::CausalFromStart | Self::WindowFromStart { .. } => Count::from(n_q),
            // The last query stands at the last key, the first one `n_q - 1` keys before it.
            Self::Window { left: Some(left), .. } => Count::from(n_q) + left.into(),
            Self::Full | Self::CausalFromEnd | Self::Window { left: None, .. } => return Count::ZERO,
        };
        (Count::from(n_kv) - seen).max(Count::ZERO)
    }

    /// Pairs that are left, for one head of one sequence: Σ over queries of the keys they see.
    pub fn pairs(self, n_q: i64, n_kv: i64) -> Count {
        let (q, kv) = (Count::from(n_q.max(0)), Count::from(n_kv.max(0)));
        // Σ 1..=n
        let triangle = |n: Count| (n * (n + Count::ONE)).div_floor(2_i64).unwrap_or_default();
        match self {
            Self::Full => Count::from(n_q) * n_kv,
            Self::CausalFromStart if q <= kv => triangle(q),
            Self::CausalFromStart => triangle(kv) + (q - kv) * kv,
            // Queries that come before the first key see none.
            Self::CausalFromEnd if q >= kv => triangle(kv),
            Self::CausalFromEnd => triangle(q) + q * (kv - q),
            Self::Window { left, right } => {
                let up_to = |last: i64| pairs_up_to(q, kv, kv - q + last.into());
                let in_reach = right.map_or(q * kv, up_to);
                let passed = left.map_or(Count::ZERO, |left| up_to(left.saturating_neg().saturating_sub(1)));
                (in_reach - passed).max(Count::ZERO)
            }
            Self::WindowFromStart { left } => {
                let up_to = |last: i64| pairs_up_to(q, kv, last.into());
                (up_to(0) - up_to(left.saturating_neg().saturating_sub(1))).max(Count::ZERO)
            }
        }
    }
}

/// Pairs of which query `i` sees the keys 0 to `i + last`: Σ over queries of that, cut to what there is.
fn pairs_up_to(q: Count, kv: Count, last: Count) -> Count {
    // Σ of max(0, first + i) over the queries.
    let ramp = |first: Count| {
        let triangle = |n: Count| (n * (n + Count::ONE)).div_floor(2_i64).unwrap_or_default().when(n > Count::ZERO);
        triangle(first + q - Count::ONE) - triangle(first - Count::ONE)
    };
    let first = last + Count::ONE;
    ramp(first) - ramp(first - kv)
}

impl Geometry {
    /// Unmasked pairs of one head of one sequence. The reference halves the square, and fails on rectangles (F12).
    fn pairs(&self, mask: Mask, quirks: &Quirks) -> Result<f64, ModelError> {
        let all = Count::from(self.n_q) * self.n_kv;
        match (mask, quirks.causal_rectangle_fails) {
            (Mask::Full, _) => Ok(all.to_f64()),
            (causal, false) => Ok(causal.pairs(self.n_q, self.n_kv).to_f64()),
            (_, true) if self.n_q == self.n_kv => Ok(all.to_f64() / 2.0),
            (_, true) => Err(ModelError::fail("causal attention with queries and keys of different number")),
        }
    }

    /// Two operations for each pair, head and element of Q·Kᵀ and of P·V.
    pub fn flops(&self, mask: Mask, quirks: &Quirks) -> Result<f64, ModelError> {
        let per_pair = 2 * Count::from(self.batch) * self.h_q * (Count::from(self.d_qk) + self.d_v.into());
        Ok(self.pairs(mask, quirks)? * per_pair.to_f64())
    }

    /// The four products of the gradients, the scores once more if they were not kept, and the sums over the query
    /// heads that share a key head.
    pub fn backward_flops(&self, mask: Mask, kind: Scores, quirks: &Quirks) -> Result<f64, ModelError> {
        let recompute = kind == Scores::Recomputed || !quirks.attention_recompute_omitted;
        let widths = 2 * Count::from(self.d_v) + 2 * Count::from(self.d_qk) + Count::from(self.d_qk).when(recompute);
        let per_pair = 2 * Count::from(self.batch) * self.h_q * widths;
        let products = self.pairs(mask, quirks)? * per_pair.to_f64();
        let width = Count::from(self.batch) * self.n_kv * (Count::from(self.d_qk) + self.d_v.into());
        if quirks.grouped_heads_sum_short {
            let groups = Count::from(self.h_q).div_floor(self.h_kv).ok_or_else(|| ModelError::fail("no key heads"))?;
            let sums = (width * (groups - Count::ONE)).to_f64();
            return Ok(products + if mask.is_causal() { sums / 2.0 } else { sums });
        }
        Ok(products + (width * (Count::from(self.h_q) - self.h_kv.into())).to_f64())
    }

    fn queries(&self) -> Count {
        Count::from(self.batch) * self.n_q * self.h_q
    }

    fn keys(&self) -> Count {
        Count::from(self.batch) * self.n_kv * self.h_kv
    }

    /// Elements of K and V.
    fn keys_and_values(&self) -> Count {
        self.keys() * (Count::from(self.d_qk) + self.d_v.into())
    }

    /// Elements of K and V that no query sees.
    pub fn unseen_elements(&self, mask: Mask) -> Count {
        Self { n_kv: mask.unseen_keys(self.n_q, self.n_kv).to_i64(), ..*self }.keys_and_values()
    }

    /// Q, K and V read, the output written.
    pub fn elements(&self) -> Traffic {
        Traffic {
            query_side: self.queries() * self.d_qk,
            output_side: self.queries() * self.d_v,
            key_side: self.keys_and_values(),
        }
    }

    /// Q, K, V and the output gradient read, three gradients written.
    pub fn backward_elements(&self) -> Traffic {
        Traffic {
            query_side: 2 * self.queries() * self.d_qk,
            output_side: self.queries() * self.d_v,
            key_side: 2 * self.keys_and_values(),
        }
    }

    /// Bytes that the backward pass reads of what the forward pass made: the output, `size` bytes an element, and the
    /// sum of each row.
    pub fn kept_bytes(&self, size: i64) -> Count {
        self.queries() * (Count::from(self.d_v) * size + 4_i64.into())
    }
}

/// Whether the backward pass finds the scores in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scores {
    /// Computed once more.
    Recomputed,
    /// Taken for kept, as the reference does of some kernels that do not keep them.
    Kept,
}

/// Elements moved, by the tensor that has their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Queries and their gradient.
    pub query_side: Count,
    /// The output or its gradient.
    pub output_side: Count,
    /// Keys, values and their gradients.
    pub key_side: Count,
}

impl Traffic {
    /// All elements.
    pub fn total(self) -> Count {
        self.query_side + self.output_side + self.key_side
    }
}

/// Bytes of an element on each side; `None` where the type is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) query: Option<i64>,
    pub(crate) output: Option<i64>,
    pub(crate) key: Option<i64>,
}

impl Sizes {
    fn uniform(size: Option<i64>) -> Self {
        Self { query: size, output: size, key: size }
    }

    fn bytes(self, traffic: Traffic) -> Option<Count> {
        let Traffic { query_side, output_side, key_side } = traffic;
        Some(query_side * self.query? + output_side * self.output? + key_side * self.key?)
    }
}

/// Bytes that no memory holds, because the tensor is there by stride 0 alone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Expanded {
    /// Of q, and of the gradient that a backward call is given.
    pub(crate) query_side: Count,
    /// Of k and v.
    pub(crate) key_side: Count,
}

/// How long the sequences are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Lengths {
    /// All alike.
    Equal,
    /// Packed one behind the other: the geometry holds the totals.
    Packed(varlen::Packing),
}

/// One attention call.
pub(crate) struct Attention {
    pub(crate) geometry: Geometry,
    pub(crate) mask: Mask,
    pub(crate) scores: Scores,
    pub(crate) lengths: Lengths,
    pub(crate) sizes: Sizes,
    /// Bytes of a bias on the scores.
    pub(crate) bias_bytes: Count,
    pub(crate) expanded: Expanded,
    pub(crate) precision: Option<&'static str>,
    /// Whether the call itself is a backward one.
    pub(crate) is_backward: bool,
    pub(crate) quirks: Quirks,
    pub(crate) params: Params,
}

impl Attention {
    fn forward_cost(&self) -> Result<Cost, ModelError> {
        let flops = self.over_sequences(|geometry| geometry.flops(self.mask, &self.quirks))?;
        self.cost(flops, self.sizes.bytes(self.geometry.elements()))
    }

    fn backward_cost(&self) -> Result<Cost, ModelError> {
        let flops = self.over_sequences(|geometry| geometry.backward_flops(self.mask, self.scores, &self.quirks))?;
        let mut bytes = self.sizes.bytes(self.geometry.backward_elements());
        if !self.quirks.attention_bias_free {
            bytes = bytes.zip(self.sizes.output).map(|(b, size)| b + self.geometry.kept_bytes(size));
        }
        self.cost(flops, bytes)
    }

    fn cost(&self, flops: f64, bytes: Option<Count>) -> Result<Cost, ModelError> {
        let absent = self.expanded.query_side + self.expanded.key_side;
        let unread = self.unseen_bytes()?;
        let bytes = bytes.map(|b| (b + self.bias_bytes - absent).to_f64() - unread);
        Ok(Cost::matrix(flops, bytes, self.precision))
    }

    /// Bytes of the keys and values in memory that no query sees. Their gradients are written all the same. Of packed
    /// sequences as many as the lengths tell, see [`varlen::Packing::sum`].
    fn unseen_bytes(&self) -> Result<f64, ModelError> {
        let (Some(size), false) = (self.sizes.key, self.quirks.sliding_window_ignored) else { return Ok(0.0) };
        let unseen = self.over_sequences(|g| Ok(g.unseen_elements(self.mask).to_f64()))?;
        let all = self.geometry.keys_and_values();
        if unseen <= 0.0 || all <= Count::ZERO {
            return Ok(0.0);
        }
        // What is expanded is so for seen and unseen keys alike.
        let stored = (all * size - self.expanded.key_side).to_f64();
        Ok(stored * (unseen / all.to_f64()).min(1.0))
    }

    fn over_sequences(&self, number: impl Fn(&Geometry) -> Result<f64, ModelError>) -> Result<f64, ModelError> {
        match self.lengths {
            Lengths::Equal => number(&self.geometry),
            Lengths::Packed(packing) => packing.sum(&self.geometry, number, &self.quirks),
        }
    }
}

impl PerfModel for Attention {
    fn into_params(self: Box<Self>) -> Params {
        self.params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        if self.is_backward { self.backward_cost() } else { self.forward_cost() }
    }

    fn backward(&self) -> Result<Cost, ModelError> {
        self.backward_cost()
    }

    fn torch_flops(&self) -> Option<f64> {
        // The counter knows no causality and no shared key heads.
        if self.lengths != Lengths::Equal || self.geometry.h_q != self.geometry.h_kv {
            return None;
        }
        let g = &self.geometry;
        let pairs = 2 * g.queries() * g.n_kv;
        let widths = if self.is_backward {
            3 * Count::from(g.d_qk) + 2 * Count::from(g.d_v)
        } else {
            Count::from(g.d_qk) + g.d_v.into()
        };
        Some((pairs * widths).to_f64())
    }
}

#[cfg(test)]
mod tests;

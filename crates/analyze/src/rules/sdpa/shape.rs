//! Sizes and kind of an attention call.

use jarvis_perf::value::Value;

use crate::prepared::Row;

/// Which implementation a call uses, by the names of operation and kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Flash,
    Paged,
    /// The other backend of the framework: it keeps the scores on the chip too, but takes more time.
    MemoryEfficient,
    FusedOther,
}

const FLASH_WORDS: &[&str] = &["flash", "fmha", "flashattn"];

/// Kernels of the memory-efficient backend, which have a word of flash kernels in their names.
const EFFICIENT_KERNELS: &[&str] = &["memeffattention", "fmha_cutlassf_", "fmha_cutlassb_"];
const EFFICIENT_OPS: &[&str] = &["efficient_attention"];
const PAGED_OPS: &[&str] = &["unified_attention", "paged_attention", "vllm"];

/// Whether any of some words stands in a text.
fn has(words: &[&str], text: &str) -> bool {
    words.iter().any(|w| text.contains(w))
}

/// Names of an operation and its kernels in lower case.
struct Names {
    op: String,
    kernels: Vec<String>,
}

impl Names {
    fn of(row: &Row) -> Self {
        Self { op: row.name.to_lowercase(), kernels: row.kernels.iter().map(|k| k.name.to_lowercase()).collect() }
    }

    fn any_kernel(&self, words: &[&str]) -> bool {
        self.kernels.iter().any(|k| has(words, k))
    }

    fn are_flash(&self) -> bool {
        !self.any_kernel(EFFICIENT_KERNELS) && (has(FLASH_WORDS, &self.op) || self.any_kernel(FLASH_WORDS))
    }
}

/// Whether a call runs on a flash kernel. One over a paged cache may too.
pub(super) fn is_flash(row: &Row) -> bool {
    Names::of(row).are_flash()
}

impl Kind {
    pub(super) fn of(row: &Row) -> Self {
        let names = Names::of(row);
        match () {
            () if has(PAGED_OPS, &names.op) || names.any_kernel(&["paged_attention"]) => Self::Paged,
            () if names.any_kernel(EFFICIENT_KERNELS) => Self::MemoryEfficient,
            () if names.are_flash() => Self::Flash,
            () if has(EFFICIENT_OPS, &names.op) => Self::MemoryEfficient,
            () => Self::FusedOther,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Flash => "flash",
            Self::Paged => "paged",
            Self::MemoryEfficient => "memory_efficient",
            Self::FusedOther => "fused_other",
        }
    }
}

/// What a serving step is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    Prefill,
    Decode,
    Mixed,
    Unknown,
}

/// Share of prompt tokens above which a step mostly reads prompts.
const PREFILL_SHARE: f64 = 0.8;

/// Share of prompt tokens below which it mostly decodes.
const DECODE_SHARE: f64 = 0.2;

impl Workload {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Prefill => "prefill_heavy",
            Self::Decode => "decode_heavy",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }

    fn of(context: Option<i64>, generated: Option<i64>) -> Self {
        let (Some(context), Some(generated)) = (context, generated) else { return Self::Unknown };
        let total = context + generated;
        if total <= 0 {
            return Self::Unknown;
        }
        match context as f64 / total as f64 {
            share if share > PREFILL_SHARE => Self::Prefill,
            share if share < DECODE_SHARE => Self::Decode,
            _ => Self::Mixed,
        }
    }
}

/// Sizes of an attention call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub(super) b: i64,
    pub(super) n_q: i64,
    pub(super) n_kv: i64,
    pub(super) h_q: i64,
    pub(super) h_kv: i64,
    pub(super) d_qk: i64,
    pub(super) d_v: i64,
    pub(super) causal: Option<bool>,
    pub(super) workload: Workload,
}

impl Shape {
    /// From the model's parameters, else from the sizes of Q, K and V.
    pub(super) fn of(row: &Row) -> Option<Self> {
        Self::by_params(row).or_else(|| Self::by_dims(row))
    }

    fn by_params(row: &Row) -> Option<Self> {
        let value = |key: &str| row.params.iter().find(|(k, _)| k == key).map(|(_, v)| v);
        let int = |key: &str| match value(key)? {
            Value::Int(i) => Some(*i),
            Value::Float(x) => Some(*x as i64),
            _ => None,
        };
        let causal = match value("causal") {
            Some(Value::Bool(b)) => Some(*b),
            _ => None,
        };
        let context = int("sum_ctx_tokens").or_else(|| int("c_sq"));
        let generated = int("sum_gen_tokens").or_else(|| int("g_sq"));
        Some(Self {
            b: int("B").unwrap_or(1),
            n_q: int("N_Q")?,
            n_kv: int("N_KV")?,
            h_q: int("H_Q").unwrap_or(1),
            h_kv: int("H_KV").unwrap_or(1),
            d_qk: int("d_h_qk").unwrap_or(0),
            d_v: int("d_h_v").unwrap_or(0),
            causal,
            workload: Workload::of(context, generated),
        })
    }

    /// Q, K, V as `[B, H, N, d]`, or `[B, N, H, d]` for the libraries that say so.
    fn by_dims(row: &Row) -> Option<Self> {
        let dims = row.inputs.dims.as_ref()?;
        let four: Vec<&[i64]> = dims.iter().filter_map(|d| d.shape()).filter(|s| s.len() == 4).take(3).collect();
        let &[q, k, v] = four.as_slice() else { return None };
        let lower = row.name.to_lowercase();
        let heads_last = lower.contains("flash_attn") || lower.contains("aiter");
        let (heads, length) = if heads_last { (2, 1) } else { (1, 2) };
        Some(Self {
            b: q[0],
            n_q: q[length],
            n_kv: k[length],
            h_q: q[heads],
            h_kv: k[heads],
            d_qk: q[3],
            d_v: v[3],
            causal: None,
            workload: Workload::Unknown,
        })
    }

    /// Whether a call of the framework is given one mask for all heads and sequences, with as many queries as keys: as a
    /// rule that is the causal one, of which kernels that are told so compute half.
    pub(super) fn has_square_mask(&self, row: &Row) -> bool {
        // Behind Q, K and V; the backward has the gradient, the output and the logarithms of sums before it.
        let mut others = row.inputs.dims.iter().flat_map(|dims| dims.iter()).skip(3).filter_map(|d| d.shape());
        let is_one = |mask: &[i64]| match mask {
            [rest @ .., q, kv] => (*q, *kv) == (self.n_q, self.n_kv) && rest.iter().all(|d| *d == 1),
            _ => false,
        };
        let is_own = row.name.contains("scaled_dot_product") && self.causal != Some(true);
        is_own && self.n_q == self.n_kv && self.n_q > 1 && others.any(is_one)
    }

    /// Sequence length that bands go by.
    pub(super) fn length(&self) -> i64 {
        self.n_q.max(self.n_kv)
    }

    /// How query heads share key heads.
    pub(super) fn heads(&self) -> &'static str {
        match () {
            () if self.h_kv == self.h_q => "MHA",
            () if self.h_kv == 1 => "MQA",
            () => "GQA",
        }
    }

    /// Query heads per key head.
    pub(super) fn ratio(&self) -> Option<f64> {
        (self.h_kv > 0).then(|| self.h_q as f64 / self.h_kv as f64)
    }
}

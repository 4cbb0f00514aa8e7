//! Sentences of pattern findings, with the ids of the text library. No other sentence is said.

/// A sentence.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Stable name.
    pub id: &'static str,
    /// The sentence; `{name}` is filled in.
    pub template: &'static str,
}

/// Handle of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(usize);

macro_rules! texts {
    ($($name:ident $id:literal $template:literal;)*) => {
        /// Position of each sentence.
        #[expect(non_camel_case_types, reason = "only counts the list")]
        enum Position { $($name,)* }

        impl TextId {
            $(#[doc = $template] pub const $name: Self = Self(Position::$name as usize);)*
        }

        /// All sentences.
        pub const TEXTS: &[Text] = &[$(Text { id: $id, template: $template }),*];
    };
}

#[rustfmt::skip]
texts! {
    I_UNFUSED      "I-UNFUSED"      "Attention in `{module}` runs as {n} separate operations (softmax, batched matmul, scaling, copies): {time} ms over {instances} calls.";
    I_KV           "I-KV"           "Key/value heads are copied {r}x to match the query heads: {time} ms over {instances} calls.";
    I_SDPA_COPY    "I-SDPA-COPY"    "Q, K, V or the output are copied around `{op}`: {time} ms over {instances} calls.";
    I_EXPERTS      "I-EXPERTS"      "{n} experts run one after another as small GEMMs in `{module}`: {time} ms.";
    I_OPT          "I-OPT"          "The optimizer step launches {n} small kernels ({time} ms).";
    I_RECOMPUTE    "I-RECOMPUTE"    "{time} ms of forward work is repeated in the backward pass (activation checkpointing).";
    I_FUSION       "I-FUSION"       "`{module}` launches {n} kernels per call ({list}); {time} ms over {instances} calls.";
    A_FLASH        "A-FLASH"        "Use `torch.nn.functional.scaled_dot_product_attention` so that one optimized attention kernel replaces the sequence (typically 3-10x on attention; here {low}-{high}x by the performance model).";
    A_FLASH_SMALL  "A-FLASH-SMALL"  "Use `torch.nn.functional.scaled_dot_product_attention` so that one optimized attention kernel replaces the sequence ({low}-{high}x on attention by the performance model).";
    A_FLASH_SHORT  "A-FLASH-SHORT"  "At sequence length {n} the gain is smaller; measure this shape before migrating.";
    A_GQA          "A-GQA"          "Use `scaled_dot_product_attention(..., enable_gqa=True)` instead of repeating key/value heads.";
    A_STRIDED      "A-STRIDED"      "Pass Q, K and V without `.contiguous()` if the attention backend accepts strided inputs; the copies cost {time} ms.";
    A_MOE_FUSE     "A-MOE-FUSE"     "Use a fused expert kernel instead of separate stages.";
    A_BATCH        "A-BATCH"        "Batch the small GEMMs into one call (`torch.bmm` with a larger batch, or a grouped GEMM).";
    A_FOREACH      "A-FOREACH"      "Use the fused or foreach variant of the optimizer (`fused=True`).";
    A_RECOMPUTE    "A-RECOMPUTE"    "Checkpoint fewer layers if memory allows; this trades memory for the time above.";
    A_COMPILE      "A-COMPILE"      "Run this region under `torch.compile` to fuse the {n} adjacent operations.";
    A_FUSE         "A-FUSE"         "Fuse with the neighbouring operations ({list}) to remove {mb} MB of intermediate traffic per call.";
    A_FUSE_NORM    "A-FUSE-NORM"    "Replace the decomposed {name} with one fused kernel; {savings_low}-{savings_high} ms recoverable.";
    B_REPLAY       "B-REPLAY"       "Replay artifact recommended for kernel team to investigate and optimize.";
    B_UNFUSED      "B-UNFUSED"      "Optimizing the separate kernels gives limited gains (maybe 10-30%).";
    N_MOE          "N-MOE"          "Expert load balance and routing cannot be seen in a trace; bytes assume uniform routing.";
}

impl TextId {
    /// Its stable name.
    pub fn id(self) -> &'static str {
        TEXTS[self.0].id
    }

    /// The sentence with its placeholders.
    pub fn template(self) -> &'static str {
        TEXTS[self.0].template
    }

    /// The sentence, filled in. What is not given shows as a dash.
    pub fn fill(self, values: &[(&str, &str)]) -> String {
        let mut out = String::new();
        let mut rest = self.template();
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            let value = values.iter().find(|(key, _)| *key == name);
            debug_assert!(value.is_some(), "{}: `{name}` is not filled", self.id());
            out.push_str(value.map_or("-", |(_, v)| v));
            rest = after;
        }
        out + rest
    }

    /// The sentence of a text without placeholders.
    pub fn plain(self) -> String {
        self.fill(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_texts_are_filled() {
        for (i, t) in TEXTS.iter().enumerate() {
            assert!(TEXTS[..i].iter().all(|other| other.id != t.id), "{} stands twice", t.id);
        }
        let text = TextId::I_OPT.fill(&[("n", "7"), ("time", "1.50")]);
        assert_eq!(text, "The optimizer step launches 7 small kernels (1.50 ms).");
    }
}

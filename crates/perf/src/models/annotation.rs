//! Step annotations of serving engines: how many query and key tokens one scheduler step put through attention.
//!
//! An attention call of an inference engine packs many requests into one tensor, so its shapes don't tell its work.
//! The engines write sums over the requests into the name of the step instead. Only the detailed forms carry them;
//! the plain ones (`execute_context_2(14721)_generation_0(0)`) say nothing about attention and are refused here.

use crate::parity::Quirks;

/// Sums over the requests of one kind, with `sq` query tokens and `sk` key tokens each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Σ sq.
    pub sq: i64,
    /// Σ sk.
    pub sk: i64,
    /// Σ sq².
    pub sqsq: i64,
    /// Σ sq·sk.
    pub sqsk: i64,
}

/// The sums of one step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepSums {
    /// Requests that are still reading their prompt.
    pub context: Sums,
    /// Requests that are producing tokens.
    pub generation: Sums,
}

impl StepSums {
    /// The sums that an annotation carries; `None` if it is of another form.
    pub fn parse(annotation: &str) -> Option<Self> {
        vllm(annotation).or_else(|| sglang(annotation)).or_else(|| atom(annotation))
    }

    /// The same step without its context requests, for kernels that serve generation alone.
    #[must_use]
    pub fn generation_only(self) -> Self {
        Self { context: Sums::default(), ..self }
    }

    /// Query tokens of the step.
    pub fn tokens(self) -> i64 {
        self.context.sq.saturating_add(self.generation.sq)
    }
}

/// `execute_<n>_context_<r>(sq<a>sk<b>sqsq<c>sqsk<d>)_generation_<r>(…)`.
fn vllm(text: &str) -> Option<StepSums> {
    let (_, rest) = number(text.strip_prefix("execute_")?)?;
    let (context, rest) = vllm_sums(rest.strip_prefix("_context_")?)?;
    let (generation, _) = vllm_sums(rest.strip_prefix("_generation_")?)?;
    Some(StepSums { context, generation })
}

fn vllm_sums(text: &str) -> Option<(Sums, &str)> {
    let (_, mut rest) = number(text)?;
    let mut values = [0; 4];
    for (value, label) in values.iter_mut().zip(["(sq", "sk", "sqsq", "sqsk"]) {
        (*value, rest) = number(rest.strip_prefix(label)?)?;
    }
    let sums = Sums { sq: values[0], sk: values[1], sqsq: values[2], sqsk: values[3] };
    Some((sums, rest.strip_prefix(')')?))
}

/// `step[DECODE bs=64 g_sq=64 …]`; a missing sum is zero, but some `sqsq` must be there.
fn sglang(text: &str) -> Option<StepSums> {
    let rest = text.strip_prefix("step[")?;
    let fields = ["EXTEND", "DECODE", "MIXED"].iter().find_map(|mode| rest.strip_prefix(mode))?;
    if fields.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') {
        return None;
    }
    let fields = Fields(fields);
    fields.get("sqsq").or_else(|| fields.get("c_sqsq")).or_else(|| fields.get("g_sqsq"))?;
    let value = |key| fields.get(key).unwrap_or(0);
    Some(StepSums {
        context: Sums { sq: value("c_sq"), sk: value("c_sk"), sqsq: value("c_sqsq"), sqsk: value("c_sqsk") },
        generation: Sums { sq: value("g_sq"), sk: value("g_sk"), sqsq: value("g_sqsq"), sqsk: value("g_sqsk") },
    })
}

/// `prefill[… tok=T … sqsq= sqsk= sk=]` or `decode[…]`.
fn atom(text: &str) -> Option<StepSums> {
    let (prefill, fields) = match text.strip_prefix("prefill[") {
        Some(fields) => (true, Fields(fields)),
        None => (false, Fields(text.strip_prefix("decode[")?)),
    };
    let sums =
        Sums { sq: fields.get("tok")?, sk: fields.get("sk")?, sqsq: fields.get("sqsq")?, sqsk: fields.get("sqsk")? };
    let none = Sums::default();
    Some(if prefill {
        StepSums { context: sums, generation: none }
    } else {
        StepSums { context: none, generation: sums }
    })
}

/// `key=number` pairs between other text.
struct Fields<'a>(&'a str);

impl Fields<'_> {
    fn get(&self, key: &str) -> Option<i64> {
        self.0
            .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '[' | ']' | '(' | ')'))
            .find_map(|field| number(field.strip_prefix(key)?.strip_prefix('=')?))
            .map(|(value, _)| value)
    }
}

/// The digits at the start of `text` as a number, and what follows.
fn number(text: &str) -> Option<(i64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

/// Which of the reference's two reports is being made; they annotate different operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The ordinary report.
    Standard,
    /// The report for serving engines.
    Inference,
}

/// Whether operations of this name carry the name of the step they run in. Names are matched by prefix.
pub fn wants_annotation(name: &str, report: Report, quirks: &Quirks) -> bool {
    const STANDARD: &str = "vllm::unified_attention_with_output";
    const INFERENCE: [&str; 13] = [
        "aiter::fmha_v3_varlen_fwd",
        "aiter::mha_batch_prefill",
        "aiter::mha_varlen_fwd",
        "aiter::pa_decode_gluon",
        "aiter::v4_attention_with_output",
        "pseudo_mla_decode_fwd",
        "pseudo_mla_prefill_fwd",
        "pseudo_v4_paged_decode_csa",
        "pseudo_v4_paged_decode_hca",
        "pseudo_v4_paged_decode_swa",
        "sglang_profiler::attention_paged_attention_ragged",
        "sglang_profiler::tilelang_kernel_tilelang_sparse_fwd",
        "vllm::gdn_attention_core",
    ];
    const FORGOTTEN: &str = "aiter::linear_attention_with_output_base";
    if quirks.linear_attention_unannotated {
        name.starts_with(STANDARD) || report == Report::Inference && INFERENCE.iter().any(|p| name.starts_with(p))
    } else {
        // Every report of ours is made for whatever is in the trace.
        [STANDARD, FORGOTTEN].iter().chain(&INFERENCE).any(|prefix| name.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_three_detailed_forms() {
        let text = "execute_6147_context_2(sq6144sk7144sqsq20971520sqsk23019520)_generation_3(sq3sk6144sqsq3sqsk6144)";
        let sums = StepSums {
            context: Sums { sq: 6144, sk: 7144, sqsq: 20_971_520, sqsk: 23_019_520 },
            generation: Sums { sq: 3, sk: 6144, sqsq: 3, sqsk: 6144 },
        };
        assert_eq!(StepSums::parse(text), Some(sums));
        assert_eq!(StepSums::parse(&format!("{text} and more")), Some(sums), "only the start counts");
        assert_eq!(sums.tokens(), 6147);

        let decode = Sums { sq: 64, sk: 131_072, sqsq: 64, sqsk: 131_072 };
        assert_eq!(
            StepSums::parse("step[DECODE bs=64 g_sq=64 g_sqsq=64 g_sqsk=131072 g_sk=131072]"),
            Some(StepSums { context: Sums::default(), generation: decode })
        );
        let mixed = StepSums::parse("step[MIXED bs=2 c_sq=5 c_sqsq=25 g_sq=1 g_sk=9]").unwrap();
        assert_eq!((mixed.context.sqsq, mixed.context.sk, mixed.generation.sk), (25, 0, 9));

        assert_eq!(
            StepSums::parse("decode[bs=64 tok=64 d=64 sqsq=64 sqsk=131072 sk=131072]"),
            Some(StepSums { context: Sums::default(), generation: decode })
        );
        assert_eq!(
            StepSums::parse("prefill[bs=1 tok=64 sqsq=64 sqsk=131072 sk=131072]"),
            Some(StepSums { context: decode, generation: Sums::default() })
        );
    }

    #[test]
    fn anything_else_has_no_sums() {
        for text in [
            "",
            "NA",
            "None",
            "execute_context_2(14721)_generation_0(0)",
            "execute_3_context_2(14721)_generation_0(0)",
            "execute_1_context_1(sq1sk1sqsq1sqsk1)",
            "my execute_1_context_1(sq1sk1sqsq1sqsk1)_generation_0(sq0sk0sqsq0sqsk0)",
            "step[DECODE bs=64]",
            "step[IDLE g_sqsq=1]",
            "step[DECODED g_sqsq=1]",
            "prefill[bs=1 tok=64]",
            "execute_1_context_1(sq99999999999999999999sk1sqsq1sqsk1)_generation_0(sq0sk0sqsq0sqsk0)",
        ] {
            assert_eq!(StepSums::parse(text), None, "{text}");
        }
    }

    #[test]
    fn which_operations_are_annotated() {
        let wants = wants_annotation;
        let (parity, correct) = (&Quirks::REFERENCE, &Quirks::NONE);
        assert!(wants("vllm::unified_attention_with_output", Report::Standard, parity));
        assert!(!wants("aiter::mha_varlen_fwd", Report::Standard, parity));
        assert!(wants("aiter::mha_varlen_fwd", Report::Inference, parity));
        // F23
        assert!(!wants("aiter::linear_attention_with_output_base", Report::Inference, parity));
        assert!(wants("aiter::linear_attention_with_output_base", Report::Standard, correct));
        assert!(wants("aiter::mha_varlen_fwd", Report::Standard, correct));
        assert!(!wants("aten::mm", Report::Inference, correct));
    }
}

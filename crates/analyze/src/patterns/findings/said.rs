//! What a finding of patterns says: title, issue, advice and how its range was found.

use std::collections::BTreeSet;

use super::super::fused::Change;
use super::super::show::{ms, one};
use super::super::words::{attention_parts, fused_call, is_alike, likewise, short_ops};
use super::super::{
    Code, Pattern, attention, attention_time, chain, looped, loss, module, norm, one_hot, optimizer, sorted_rows,
    unused_rows, weight_copies,
};
use super::{MOST_BASES, Maker};
use crate::finding::Paths;
use crate::system::texts::bytes;
use crate::texts::{TextId, counted, quoted};

/// Below this many tokens fused kernels differ most from shape to shape.
const SHORT_SEQUENCE: i64 = 1024;
/// Speed-ups of attention below this are not called typical.
const TYPICAL_GAIN: f64 = 3.0;

impl Maker<'_, '_> {
    pub(super) fn title(&self) -> String {
        let what = match self.first().code {
            Code::UnfusedAttention | Code::UnfusedAttentionBackward => "Unfused attention",
            Code::RepeatedKvHeads => "Key/value heads repeated before attention",
            Code::GrownCache => "Keys and values copied to append to them",
            Code::StackedGradients => "Gradients of parts written twice",
            Code::WeightCopies if self.has(weight_copies::DEQUANTIZES) => "Weights dequantized in every call",
            Code::WeightCopies if self.has(weight_copies::CASTS) => "Weights cast in every call",
            Code::WeightCopies => "Weights copied in every call",
            Code::SdpaCopyOverhead => "Copies around attention",
            Code::MoeExpertLoop => "Experts run one after another",
            Code::LoopedGemms => "Small GEMMs run one after another",
            Code::LoopedRows => "GEMMs read weights once for each slice",
            Code::UnfusedRecurrence => "Recurrent layer written out step by step",
            Code::LoopedLookups => "Tables looked up one after another",
            Code::UnfusedRmsNorm if self.fact("name").starts_with("L2") => "Unfused L2 norm",
            Code::UnfusedRmsNorm => "Unfused RMS norm",
            Code::UnfusedLayerNorm => match &*self.fact("name") {
                "group norm" => "Unfused group norm",
                "instance norm" => "Unfused instance norm",
                _ => "Unfused layer norm",
            },
            Code::UnfusedBatchNorm => "Unfused batch norm",
            Code::UnfusedRope => "Unfused rotary embedding",
            Code::UnfusedSwiglu => "Unfused gated activation",
            Code::UnfusedGelu => "Unfused GELU",
            Code::UnfusedOptimizer if self.has(optimizer::LOOP) => "Tensors handled one by one",
            Code::UnfusedOptimizer if self.has(optimizer::LISTS) => "Optimizer step in several passes",
            Code::UnfusedOptimizer => "Optimizer step of small kernels",
            Code::OneHotTargets if self.has(one_hot::LOOKUP) => "Rows picked with a one-hot matrix",
            Code::OneHotTargets => "Elements picked with one-hot rows",
            Code::UnfoldedConvolution => "Convolution by unfolding",
            Code::Adapters => "Adapters beside linear layers",
            Code::UnusedRows => "Product of which few rows are used",
            Code::SortedForFew => "Rows sorted for their first few elements",
            Code::UnfusedLoss if self.has(loss::BARE) => "Unfused log-softmax over many classes",
            Code::UnfusedLoss => "Unfused loss over many classes",
            Code::ElementwiseChain => "Chain of elementwise operations",
            Code::GemmEpilogue => "Elementwise work after matrix products",
            Code::UnfusedModule => "Module of separate kernels",
            Code::Recomputation => "Forward work recomputed in the backward pass",
        };
        let elsewhere = if self.apart().is_empty() { "" } else { " and elsewhere" };
        match &self.first().module {
            Some(module) => format!("{what} in {}{elsewhere}", quoted(module)),
            None => what.to_owned(),
        }
    }

    pub(super) fn fact(&self, name: &str) -> String {
        let fact = self.first().facts.iter().find(|f| f.0 == name);
        fact.map_or_else(|| "-".to_owned(), |f| f.1.clone())
    }

    fn has(&self, fact: &str) -> bool {
        self.first().has(fact)
    }

    /// Groups in other places or of other operations: what is said of the largest does not hold for them.
    fn apart(&self) -> Vec<&Pattern> {
        let first = self.first();
        self.patterns.iter().copied().filter(|p| !is_alike(first, p)).collect()
    }

    pub(super) fn issue(&self) -> String {
        let first = self.first();
        let alike = || self.patterns.iter().filter(|p| is_alike(first, p));
        let instances: usize = alike().filter(|p| p.code == first.code).map(|p| p.instances).sum();
        let (time, calls) = (ms(alike().map(|p| p.total_ms()).sum()), counted(instances, "call"));
        let backward = Self::backward_of(&alike().copied().collect::<Vec<_>>());
        let kernels = counted(first.ops.len(), "kernel");
        let loose = first.module.is_none();
        let (r, n) = (self.fact("r"), first.ops.len().to_string());
        let text = match first.code {
            Code::UnfusedAttention | Code::UnfusedAttentionBackward => {
                if loose {
                    TextId::I_UNFUSED_LOOSE
                } else {
                    TextId::I_UNFUSED
                }
            }
            Code::RepeatedKvHeads => TextId::I_KV,
            Code::GrownCache => TextId::I_GROWN_CACHE,
            Code::StackedGradients => TextId::I_STACKED,
            Code::OneHotTargets if self.has(one_hot::LOOKUP) => TextId::I_LOOKUP,
            Code::OneHotTargets => TextId::I_ONE_HOT,
            Code::UnfoldedConvolution => TextId::I_UNFOLD,
            Code::Adapters => TextId::I_ADAPTERS,
            Code::UnusedRows => TextId::I_UNUSED_ROWS,
            Code::SortedForFew => TextId::I_SORTED,
            Code::WeightCopies if alike().any(|p| p.halo_ms > 0.0) => TextId::I_AUTOCAST,
            Code::WeightCopies if self.has(weight_copies::DEQUANTIZES) => TextId::I_DEQUANTIZED,
            Code::WeightCopies => TextId::I_WEIGHT_COPIES,
            Code::SdpaCopyOverhead => TextId::I_SDPA_COPY,
            Code::MoeExpertLoop if loose => TextId::I_EXPERTS_LOOSE,
            Code::MoeExpertLoop => TextId::I_EXPERTS,
            Code::LoopedGemms if loose => TextId::I_LOOP_LOOSE,
            Code::LoopedGemms => TextId::I_LOOP,
            Code::LoopedRows if loose => TextId::I_ROWS_LOOSE,
            Code::LoopedRows => TextId::I_ROWS,
            Code::UnfusedRecurrence if loose => TextId::I_RECURRENT_LOOSE,
            Code::UnfusedRecurrence => TextId::I_RECURRENT,
            Code::LoopedLookups if loose => TextId::I_LOOKUPS_LOOSE,
            Code::LoopedLookups => TextId::I_LOOKUPS,
            Code::UnfusedOptimizer if self.has(optimizer::LOOP) => TextId::I_UPDATES,
            Code::UnfusedOptimizer if self.has(optimizer::LISTS) => TextId::I_OPT_LISTS,
            Code::UnfusedOptimizer => TextId::I_OPT,
            Code::Recomputation => TextId::I_RECOMPUTE,
            Code::GemmEpilogue => TextId::I_EPILOGUE,
            Code::UnfusedLoss => TextId::I_LOSS,
            _ if loose => TextId::I_FUSION_LOOSE,
            _ => TextId::I_FUSION,
        };
        let counts = first.code.is_loop() || first.code == Code::UnfusedOptimizer;
        let n = if counts { self.fact("n") } else { n };
        let parts = attention_parts(self.scene, &first.leaves[0]);
        let said = text.fill(&[
            ("module", first.module.as_deref().unwrap_or_default()),
            ("n", &n),
            ("time", &time),
            ("calls", &calls),
            ("backward", &backward),
            ("kernels", &kernels),
            ("r", &r),
            ("classes", &self.fact(loss::CLASSES)),
            ("weights", &self.fact(looped::WEIGHTS_SHARE)),
            ("rows", &self.fact(unused_rows::ROWS)),
            ("used", &self.fact(unused_rows::USED_ROWS)),
            ("elements", &self.fact(sorted_rows::ELEMENTS)),
            ("read", &self.fact(sorted_rows::READ)),
            ("op", &first.anchor),
            ("list", &short_ops(first)),
            ("parts", &parts),
        ]);
        likewise(&self.apart())
            .map_or_else(|| said.clone(), |places| format!("{}; {places}", said.trim_end_matches('.')))
    }

    /// How much of the time of patterns is their backward's, whose kernels no list has; nothing without one.
    fn backward_of(patterns: &[&Pattern]) -> String {
        let of = |p: &Pattern| match p.code {
            Code::UnfusedAttentionBackward => p.total_ms(),
            _ => p.backward_ms,
        };
        let total: f64 = patterns.iter().map(|p| of(p)).sum();
        if total > 0.0 { format!(", {} ms of it in the backward pass", ms(total)) } else { String::new() }
    }

    pub(super) fn paths(&self) -> Paths {
        let first = self.first();
        let n = first.ops.len().to_string();
        let compile = || match first.ops.len() {
            1 => TextId::A_COMPILE_INTO.plain(),
            _ if first.stretches > 1 => TextId::A_COMPILE_GROUPS.fill(&[("n", &first.stretches.to_string())]),
            _ => TextId::A_COMPILE.fill(&[("n", &n)]),
        };
        let algorithmic = match first.code {
            Code::UnfusedAttention | Code::UnfusedAttentionBackward => self.attention_path(),
            Code::RepeatedKvHeads => vec![TextId::A_GQA.plain()],
            Code::GrownCache => vec![TextId::A_GROWN_CACHE.plain()],
            Code::StackedGradients => vec![TextId::A_SPLIT_FIRST.plain()],
            Code::OneHotTargets if self.has(one_hot::LOOKUP) => vec![TextId::A_LOOKUP.plain()],
            Code::OneHotTargets => vec![TextId::A_ONE_HOT.plain()],
            Code::UnfoldedConvolution => vec![TextId::A_UNFOLD.plain()],
            Code::Adapters => vec![TextId::A_MERGE.plain()],
            Code::UnusedRows => vec![TextId::A_ROWS_FIRST.plain()],
            Code::SortedForFew => vec![TextId::A_TOPK.fill(&[("used", &self.fact(sorted_rows::READ))])],
            Code::WeightCopies if self.has(weight_copies::DEQUANTIZES) => vec![TextId::A_DEQUANTIZE.plain()],
            Code::WeightCopies if self.has(weight_copies::CASTS) => vec![TextId::A_CAST_ONCE.plain()],
            Code::WeightCopies => vec![TextId::A_COPY_ONCE.plain()],
            Code::SdpaCopyOverhead => vec![TextId::A_STRIDED.plain()],
            Code::MoeExpertLoop => vec![TextId::A_MOE_FUSE.plain(), TextId::A_BATCH.plain()],
            Code::LoopedGemms => {
                let text = match () {
                    () if self.has(looped::APART) => TextId::A_LOOP_APART,
                    () if self.has(looped::SAME) => TextId::A_LOOP_SAME,
                    () => TextId::A_LOOP,
                };
                vec![text.plain(), TextId::A_BATCH.plain()]
            }
            Code::LoopedRows => vec![TextId::A_LOOP_ROWS.plain(), TextId::A_QUANT.plain()],
            Code::UnfusedRecurrence => vec![TextId::A_RECURRENT.fill(&[("layer", &self.fact("layer"))])],
            Code::LoopedLookups => vec![TextId::A_LOOKUPS.fill(&[("n", &self.fact("n"))])],
            Code::UnfusedOptimizer => {
                let text = match () {
                    () if self.has(optimizer::LOOP) => TextId::A_FOREACH_LOOP,
                    () if self.has(optimizer::BY_HAND) => TextId::A_FOREACH_OWN,
                    () if self.has(optimizer::LISTS) => TextId::A_FUSED_STEP,
                    () => TextId::A_FOREACH,
                };
                vec![text.plain()]
            }
            Code::Recomputation => vec![TextId::A_RECOMPUTE.plain()],
            Code::UnfusedRmsNorm | Code::UnfusedLayerNorm if self.fact("name").ends_with(norm::OVER_CHANNELS) => {
                vec![fused_call(&self.fact("name")), TextId::A_NORM_CHANNELS.plain(), compile()]
            }
            Code::UnfusedRmsNorm | Code::UnfusedLayerNorm | Code::UnfusedBatchNorm | Code::UnfusedGelu => {
                vec![fused_call(&self.fact("name")), compile()]
            }
            // No call of the library has them: the sentence itself names the compiler.
            Code::UnfusedRope | Code::UnfusedSwiglu => vec![fused_call(&self.fact("name"))],
            Code::UnfusedModule if self.has(module::WEIGHTS) => vec![TextId::A_WEIGHTS_ONCE.plain(), compile()],
            Code::UnfusedLoss => self.loss_path(),
            Code::ElementwiseChain if self.has(chain::CAST_FOR) => {
                vec![TextId::A_REDUCE_AS.fill(&[("op", &self.fact(chain::CAST_FOR))]), compile()]
            }
            Code::ElementwiseChain | Code::UnfusedModule => vec![compile()],
            Code::GemmEpilogue => {
                let results: f64 = first.leaves[0].iter().map(|l| self.scene.look(l.index()).result_bytes()).sum();
                let size = bytes((2.0 * results) as i64);
                vec![TextId::A_FUSE.fill(&[("list", &quoted(&first.anchor)), ("size", &size)])]
            }
        };
        let mut kernel = vec![TextId::B_REPLAY.plain()];
        if first.code == Code::UnfusedAttention {
            kernel.insert(0, TextId::B_UNFUSED.plain());
        }
        if first.code == Code::UnfusedLoss && self.has(loss::TRAINS) {
            kernel.insert(0, TextId::B_LOSS.plain());
        }
        Paths { algorithmic, kernel }
    }

    fn loss_path(&self) -> Vec<String> {
        let trains = self.has(loss::TRAINS);
        let of_loss = [
            (trains, TextId::A_LOSS),
            (!trains, TextId::A_LOSS_FORWARD),
            (self.has(loss::SHIFTED), TextId::A_LOSS_SHIFT),
            (self.has(loss::GATHERED), TextId::A_LOSS_GATHER),
            (trains && !self.has(loss::BARE), TextId::A_LOSS_LINEAR),
        ];
        of_loss.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.plain()).collect()
    }

    fn attention_path(&self) -> Vec<String> {
        let gain = Change::of(self.patterns.iter().copied()).gain();
        let function = self.first().facts.iter().find(|f| f.0 == attention::FUNCTION).map(|f| f.1.as_str());
        let text = match function {
            Some(_) => TextId::A_FLEX,
            None if gain.high < TYPICAL_GAIN => TextId::A_FLASH_SMALL,
            None => TextId::A_FLASH,
        };
        let function = function.unwrap_or_default();
        let mut path = vec![text.fill(&[("low", &one(gain.low)), ("high", &one(gain.high)), ("function", function)])];
        if self.heads_ms > 0.0 {
            path.push(TextId::A_GQA.plain());
        }
        if self.first().facts.iter().any(|f| f.0 == attention::AVERAGED) {
            path.push(TextId::A_NEED_WEIGHTS.plain());
        }
        if let Some((_, heads)) = self.first().facts.iter().find(|f| f.0 == attention::TURNS) {
            let own = self.first().stretches > 1;
            let text = if own { TextId::A_FLASH_HEADS_OWN } else { TextId::A_FLASH_HEADS };
            path.push(text.fill(&[("n", heads)]));
        }
        path.extend(self.backend());
        path.extend(self.short_sequences());
        path
    }

    /// Which kernels to ask for where sequences are so short that it matters. Measured on NVIDIA GPUs alone.
    fn backend(&self) -> Option<String> {
        let forward = self.patterns.iter().filter(|p| p.code == Code::UnfusedAttention);
        let lengths: BTreeSet<i64> = forward.filter_map(|p| tokens(p)).collect();
        let short: Vec<String> = lengths.range(..=attention_time::SHORT).map(i64::to_string).collect();
        let is_known = self.scene.platform.vendor.as_deref() == Some("NVIDIA");
        (is_known && !short.is_empty()).then(|| TextId::A_FLASH_EFFICIENT.fill(&[("n", &short.join(", "))]))
    }

    /// What is to be said of short sequences, which not always gain less than long ones or than is typical.
    fn short_sequences(&self) -> Vec<String> {
        let is_short = |n: i64| n < SHORT_SEQUENCE;
        let gain = |is: &dyn Fn(i64) -> bool| {
            Change::of(self.patterns.iter().copied().filter(|p| tokens(p).is_some_and(is))).gain().high
        };
        let lengths: BTreeSet<i64> = self.patterns.iter().filter_map(|p| tokens(p)).collect();
        let (short, long): (Vec<i64>, Vec<i64>) = lengths.into_iter().partition(|n| is_short(*n));
        let usual = if long.is_empty() { TYPICAL_GAIN } else { gain(&|n| !is_short(n)) };
        let (less, rest): (Vec<i64>, Vec<i64>) = short.into_iter().partition(|short| gain(&|n| n == *short) < usual);
        let told = |text: TextId, lengths: Vec<i64>| {
            let list: Vec<String> = lengths.iter().map(i64::to_string).collect();
            (!list.is_empty()).then(|| text.fill(&[("n", &list.join(", "))]))
        };
        told(TextId::A_FLASH_SHORT, less).into_iter().chain(told(TextId::A_FLASH_VARIES, rest)).collect()
    }

    pub(super) fn basis(&self) -> String {
        let mut bases: Vec<&str> = self.patterns.iter().take(MOST_BASES).map(|p| p.basis.as_str()).collect();
        let more = self.patterns.len().saturating_sub(MOST_BASES);
        let rest = format!("{more} smaller groups alike.");
        if more > 0 {
            bases.push(&rest);
        }
        let low_end = Change::of(self.patterns.iter().copied()).low_end();
        bases.extend(low_end.as_deref());
        bases.join(" ")
    }
}

/// The longer of queries and keys of an attention pattern.
fn tokens(pattern: &Pattern) -> Option<i64> {
    pattern.facts.iter().find(|fact| fact.0 == "n").and_then(|fact| fact.1.parse().ok())
}

//! Patterns: operations that together do what one better operation could do.
//!
//! A detector looks for one family of patterns in the program that a trace shows and says what each find would cost
//! after the change. Finds are grouped by module, operations and shape; groups worth a change become findings.
//!
//! To add a pattern: write its file, with the headings of the others, and its line in [`PATTERN_DETECTORS`].

mod adapters;
mod attention;
mod attention_copies;
mod attention_time;
mod batchnorm;
pub mod candidates;
mod chain;
mod claims;
mod epilogue;
mod findings;
mod fused;
mod gated;
mod gelu;
mod group;
mod grown_cache;
mod instructions;
mod lookups;
mod looped;
mod loss;
pub(crate) mod metrics;
mod module;
mod moe;
mod norm;
mod normalizer;
mod one_hot;
mod optimizer;
mod optimizer_lists;
mod recompute;
mod recurrent;
mod rope;
pub(crate) mod scene;
mod show;
mod sorted_rows;
mod stacked_gradients;
pub(crate) mod turns;
pub(crate) mod unfold;
mod unused_rows;
mod weight_copies;
mod words;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use jarvis_trace::InOrder;
use serde::Serialize;

use crate::finding::{PatternId, Range, Tier};
use crate::program::LeafId;
use crate::thresholds::{Threshold, Thresholds};

pub use claims::Claims;
pub use findings::findings;
pub use group::Instance;
pub use scene::Scene;

macro_rules! codes {
    ($($name:ident $code:literal $id:ident;)*) => {
        /// What exactly was found. Several codes may lead to one kind of finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Code {
            $(#[doc = concat!("`", $code, "`.")] #[serde(rename = $code)] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its stable name.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code),* }
            }

            /// The kind of finding it leads to.
            pub fn id(self) -> PatternId {
                match self { $(Self::$name => PatternId::$id),* }
            }
        }
    };
}

#[rustfmt::skip]
codes! {
    UnfusedAttention         "UNFUSED_ATTENTION"     UNFUSED_ATTENTION;
    UnfusedAttentionBackward "UNFUSED_ATTENTION_BWD" UNFUSED_ATTENTION;
    SdpaCopyOverhead         "SDPA_COPY_OVERHEAD"    REPEATED_KV_HEADS;
    RepeatedKvHeads          "REPEATED_KV_HEADS"     REPEATED_KV_HEADS;
    GrownCache               "GROWN_CACHE"           LOW_BANDWIDTH_ELEMENTWISE;
    StackedGradients         "STACKED_GRADIENTS"     LOW_BANDWIDTH_ELEMENTWISE;
    WeightCopies             "WEIGHT_COPIES"         UNFUSED_MODULE;
    MoeExpertLoop            "MOE_EXPERT_LOOP"       MOE_EXPERT_LOOP;
    LoopedGemms              "LOOPED_GEMMS"          TINY_GEMMS;
    LoopedRows               "LOOPED_ROWS"           MEMORY_BOUND_GEMM;
    LoopedLookups            "LOOPED_LOOKUPS"        UNFUSED_MODULE;
    UnfusedRmsNorm           "UNFUSED_RMSNORM"       UNFUSED_NORM;
    UnfusedLayerNorm         "UNFUSED_LAYERNORM"     UNFUSED_NORM;
    UnfusedBatchNorm         "UNFUSED_BATCHNORM"     UNFUSED_NORM;
    UnfusedRope              "UNFUSED_ROPE"          ELEMENTWISE_CHAIN;
    UnfusedSwiglu            "UNFUSED_SWIGLU"        ELEMENTWISE_CHAIN;
    UnfusedGelu              "UNFUSED_GELU"          ELEMENTWISE_CHAIN;
    UnfusedOptimizer         "UNFUSED_OPTIMIZER"     UNFUSED_OPTIMIZER;
    OneHotTargets            "ONE_HOT_TARGETS"       ELEMENTWISE_CHAIN;
    UnfusedLoss              "UNFUSED_LOSS"          UNFUSED_MODULE;
    ElementwiseChain         "ELEMENTWISE_CHAIN"     ELEMENTWISE_CHAIN;
    UnfusedRecurrence        "UNFUSED_RECURRENCE"    UNFUSED_MODULE;
    UnfoldedConvolution      "UNFOLDED_CONVOLUTION"  UNFUSED_MODULE;
    UnusedRows               "UNUSED_ROWS"           LOW_EFFICIENCY_GEMM;
    SortedForFew             "SORTED_FOR_FEW"        UNFUSED_MODULE;
    Adapters                 "LOW_RANK_ADAPTERS"     UNFUSED_MODULE;
    GemmEpilogue             "GEMM_EPILOGUE"         UNFUSED_MODULE;
    UnfusedModule            "UNFUSED_MODULE"        UNFUSED_MODULE;
    Recomputation            "RECOMPUTATION"         RECOMPUTATION;
}

/// Bases of findings whose operations go, word for word: reports tell them in fewer.
pub const WHAT_GOES: [&str; 5] =
    [adapters::BASIS, grown_cache::BASIS, one_hot::BASIS, unused_rows::BASIS, weight_copies::BASIS];

/// The beginning of the basis of convolutions by unfolding.
pub const ONE_CONVOLUTION: &str = unfold::BASIS;

/// The same of rows that are sorted for their first few elements.
pub const FIRST_FEW: &str = sorted_rows::BASIS;

impl Code {
    /// Whether it is a loop that one call takes the place of: its finds differ in length, and nothing is fused.
    pub(crate) fn is_loop(self) -> bool {
        matches!(
            self,
            Self::MoeExpertLoop | Self::LoopedGemms | Self::LoopedRows | Self::LoopedLookups | Self::UnfusedRecurrence
        )
    }

    /// Whether it may be worth its launches alone: one call of a library takes their place, and the GPU as long or longer.
    pub(crate) fn spares_launches(self) -> bool {
        self == Self::UnfusedRecurrence
    }

    /// Whether something takes the place of the matrix products in it: those of other regions stay what they are.
    pub(crate) fn replaces_products(self) -> bool {
        let by_one_call = matches!(self, Self::UnfusedRecurrence | Self::UnfoldedConvolution | Self::Adapters);
        self.id().tier() == Tier::Compute || by_one_call
    }

    /// Whether its operations go, or something else than a fused kernel takes their place.
    pub(crate) fn goes(self) -> bool {
        matches!(
            self,
            Self::RepeatedKvHeads
                | Self::GrownCache
                | Self::SdpaCopyOverhead
                | Self::StackedGradients
                | Self::WeightCopies
                | Self::Adapters
                | Self::OneHotTargets
                | Self::UnfoldedConvolution
                | Self::UnusedRows
                | Self::SortedForFew
                | Self::Recomputation
        )
    }
}

/// How sure a find is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// The operations and their shapes leave no other reading, or a name agrees with them.
    High,
    /// The operations alone, or seen without modules.
    Medium,
    /// A name alone, or shapes are missing. Never a recommendation.
    Low,
}

impl Confidence {
    /// One level less.
    #[must_use]
    pub fn lower(self) -> Self {
        if self == Self::High { Self::Medium } else { Self::Low }
    }
}

/// What holds the operations of a find together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A module.
    Module,
    /// A span that the user marked.
    Annotation,
    /// An operation around them.
    Op,
    /// Only their order on one thread.
    Window,
}

/// What the replacement of one call would take, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fused {
    /// If it runs as well as such kernels do at best.
    pub best_us: f64,
    /// If it runs as badly as they do at worst.
    pub worst_us: f64,
}

/// Finds of one kind: same module class, same operations, same shape.
#[derive(Debug, Clone, Serialize)]
pub struct Pattern {
    /// What was found.
    pub code: Code,
    /// The kind of finding it leads to.
    pub id: PatternId,
    /// How sure it is.
    pub confidence: Confidence,
    /// What holds it together.
    pub source: Source,
    /// Class of the module, or name of the span or operation that holds it.
    pub module: Option<Arc<str>>,
    /// Modules around the first find, outermost first.
    pub module_path: Vec<Arc<str>>,
    /// Operations of one find, in order.
    pub ops: Vec<Arc<str>>,
    /// The operation it was recognised by.
    pub anchor: Arc<str>,
    /// Shape of that operation's input.
    pub anchor_dims: Vec<i64>,
    /// Number of finds.
    pub instances: usize,
    /// Time of the operations themselves.
    pub time_ms: f64,
    /// Time of copies around them that the change removes too.
    pub halo_ms: f64,
    /// Time of the backward work they cause.
    pub backward_ms: f64,
    /// Pauses between their kernels that go with these.
    pub pauses_ms: f64,
    /// What the replacement would take, best and worst, all finds together.
    pub fused_ms: Option<Range>,
    /// What the change saves; nothing where too little is known.
    pub saved_ms: Option<Range>,
    /// How the range was found.
    pub basis: String,
    /// What shows it, in words.
    pub evidence: Vec<String>,
    /// What the texts of the finding need, by name.
    #[serde(skip)]
    pub facts: Vec<(&'static str, String)>,
    /// Stretches of neighbours that the operations of one find stand in.
    #[serde(skip)]
    pub stretches: usize,
    /// The operations of each find.
    #[serde(skip)]
    pub leaves: Vec<Vec<LeafId>>,
    /// The copies around each.
    #[serde(skip)]
    pub halo: Vec<Vec<LeafId>>,
    /// The backward work of each.
    #[serde(skip)]
    pub backward: Vec<Vec<LeafId>>,
}

impl Pattern {
    /// All time that the change is about.
    pub fn total_ms(&self) -> f64 {
        self.time_ms + self.halo_ms + self.backward_ms
    }

    /// Whether a fact was found.
    pub(crate) fn has(&self, fact: &str) -> bool {
        self.facts.iter().any(|f| f.0 == fact)
    }

    /// Whether it is worth a recommendation where one saves at least so much.
    pub fn is_promoted(&self, least_ms: f64) -> bool {
        self.confidence < Confidence::Low && self.saved_ms.is_some_and(|saved| is_worth(saved, least_ms))
    }

    /// All leaves: operations, copies around them, backward work.
    pub fn all_leaves(&self) -> impl Iterator<Item = LeafId> + '_ {
        [&self.leaves, &self.halo, &self.backward].into_iter().flatten().flatten().copied()
    }
}

/// The least that a fusion saves to be a recommendation in a trace that computes for so long, in milliseconds.
pub fn least_saving_ms(thresholds: &Thresholds, computation_ms: f64) -> f64 {
    thresholds.get(Threshold::FusionMinPercent) / 100.0 * computation_ms
}

/// Whether a saving is sure to be one, and large enough to speak of.
fn is_worth(saved: Range, least_ms: f64) -> bool {
    saved.low > 0.0 && saved.high >= least_ms
}

/// Looks for one family of patterns.
#[derive(Debug, Clone, Copy)]
pub struct Detector {
    /// What it may find.
    pub codes: &'static [Code],
    /// Its source, whose head explains it.
    text: &'static str,
    /// Finds it and claims its leaves.
    find: fn(&Scene<'_>, &mut Claims) -> Vec<Instance>,
}

impl Detector {
    /// What it finds, why that matters, how it is computed, what to do and what it can't see.
    pub fn explanation(&self) -> String {
        let lines = self.text.lines().map_while(|l| l.strip_prefix("//!"));
        lines.map(|l| l.strip_prefix(' ').unwrap_or(l)).collect::<Vec<_>>().join("\n")
    }
}

/// The explanation of a code in one line, for tests of what it says.
#[cfg(test)]
fn explained(code: Code) -> String {
    let detector = PATTERN_DETECTORS.iter().find(|d| d.codes.contains(&code));
    detector.map(Detector::explanation).unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

macro_rules! detectors {
    ($($module:ident [$($code:ident),*];)*) => {
        /// All detectors. A leaf belongs to the first that claims it, so the more exact ones come first.
        pub const PATTERN_DETECTORS: &[Detector] = &[$(Detector {
            codes: &[$(Code::$code),*],
            text: include_str!(concat!(stringify!($module), ".rs")),
            find: $module::find,
        }),*];
    };
}

detectors! {
    attention [UnfusedAttention, UnfusedAttentionBackward];
    attention_copies [RepeatedKvHeads, SdpaCopyOverhead];
    grown_cache [GrownCache];
    stacked_gradients [StackedGradients];
    optimizer [UnfusedOptimizer];
    moe [MoeExpertLoop];
    looped [LoopedGemms, LoopedRows];
    recurrent [UnfusedRecurrence];
    lookups [LoopedLookups];
    adapters [Adapters];
    unused_rows [UnusedRows];
    sorted_rows [SortedForFew];
    norm [UnfusedRmsNorm, UnfusedLayerNorm];
    rope [UnfusedRope];
    one_hot [OneHotTargets];
    loss [UnfusedLoss];
    unfold [UnfoldedConvolution];
    gated [UnfusedSwiglu];
    gelu [UnfusedGelu];
    batchnorm [UnfusedBatchNorm];
    weight_copies [WeightCopies];
    chain [ElementwiseChain];
    epilogue [GemmEpilogue];
    module [UnfusedModule];
    recompute [Recomputation];
}

/// Finds all patterns of a program, those that save most first.
pub fn detect(scene: &Scene<'_>) -> Vec<Pattern> {
    let mut claims = Claims::new(scene.len());
    let mut found = Vec::new();
    for detector in PATTERN_DETECTORS {
        let instances = (detector.find)(scene, &mut claims);
        found.extend(group::group(scene, instances));
    }
    let saved = |p: &Pattern| p.saved_ms.map_or(0.0, |s| s.high);
    found.order_by(|a, b| {
        saved(b)
            .total_cmp(&saved(a))
            .then(b.total_ms().total_cmp(&a.total_ms()))
            .then_with(|| (a.code, &a.leaves).cmp(&(b.code, &b.leaves)))
    });
    found
}

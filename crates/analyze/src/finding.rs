//! Findings: the one thing all analysis leads to. Field names are those of `findings.json` and are stable.

use serde::Serialize;

use crate::program::{RowId, base_name};
use crate::rounding::{self, Ms, Ratio};

/// What a finding is about. The names are stable and in [`PATTERNS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct PatternId(&'static str);

impl PatternId {
    /// Its stable name.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// Which part of the system it is about.
    pub fn tier(self) -> Tier {
        // Every id is in the list: nobody else can make one.
        PATTERNS.iter().find(|p| p.id == self).map_or(Tier::Compute, |p| p.tier)
    }
}

/// Which part of the system a finding is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// One operation falls short of the hardware.
    Compute,
    /// Several operations would be cheaper as one.
    Fusion,
    /// The GPU waits.
    System,
}

/// A pattern: its name, its tier, when it holds.
#[derive(Debug, Clone, Copy)]
pub struct PatternInfo {
    /// Stable name.
    pub id: PatternId,
    /// Which part of the system it is about.
    pub tier: Tier,
    /// When it holds, in one line.
    pub holds: &'static str,
}

macro_rules! patterns {
    ($($name:ident $tier:ident $id:literal $holds:literal;)*) => {
        impl PatternId {
            $(#[doc = $holds] pub const $name: Self = Self($id);)*
        }

        /// All patterns.
        pub const PATTERNS: &[PatternInfo] =
            &[$(PatternInfo { id: PatternId::$name, tier: Tier::$tier, holds: $holds }),*];
    };
}

#[rustfmt::skip]
patterns! {
    LOW_EFFICIENCY_GEMM       Compute "low_efficiency_gemm"       "a GEMM far under its roof that no more exact pattern explains";
    FULL_PRECISION_GEMM       Compute "full_precision_gemm"       "fp32 matrix work where a lower precision has a far higher roof";
    TINY_GEMMS                Compute "tiny_gemms"                "many small GEMMs, looped or with a huge batch, that could be one";
    MISALIGNED_GEMM           Compute "misaligned_gemm"           "a dimension that is not a multiple of what the fast kernels need";
    MEMORY_BOUND_GEMM         Compute "memory_bound_gemm"         "a GEMM bound by the bytes it moves";
    QUANTIZED_GEMM            Compute "quantized_gemm"            "8-bit or smaller GEMMs under their band";
    UNFUSED_ATTENTION         Compute "unfused_attention"         "score and value products with softmax between them as separate kernels";
    ATTENTION_BELOW_BAND      Compute "attention_below_band"      "a fused attention kernel under the band for its sequence length";
    REPEATED_KV_HEADS         Compute "repeated_kv_heads"         "key/value heads copied out to the query heads before attention";
    LAYOUT_TRANSPOSES         Compute "layout_transposes"         "layout-changing kernels around convolutions";
    CONVOLUTION_BELOW_BAND    Compute "convolution_below_band"    "a convolution under the band for its kind";
    DEPTHWISE_CONVOLUTION     Compute "depthwise_convolution"     "a depthwise convolution under its band";
    NORM_BELOW_BASELINE       Compute "norm_below_baseline"       "a norm far under what simple elementwise operations reach in the same trace";
    LOW_BANDWIDTH_ELEMENTWISE Compute "low_bandwidth_elementwise" "an elementwise operation under its band";
    LOW_BANDWIDTH_REDUCE      Compute "low_bandwidth_reduce"      "a reduction under its band";
    TRITON_BELOW_BAND         Compute "triton_below_band"         "a compiled kernel under its band";
    MOE_BELOW_BAND            Compute "moe_below_band"            "a fused expert kernel under its band";
    MOE_EXPERT_LOOP           Compute "moe_expert_loop"           "experts run one after another as small GEMMs";
    UNFUSED_NORM              Fusion  "unfused_norm"              "a norm written out as separate kernels under one module";
    ELEMENTWISE_CHAIN         Fusion  "elementwise_chain"         "memory-bound kernels that pass the same tensor on";
    UNFUSED_OPTIMIZER         Fusion  "unfused_optimizer"         "an optimizer step made of per-parameter kernels";
    UNFUSED_MODULE            Fusion  "unfused_module"            "any other module whose kernels would be cheaper fused";
    LAUNCH_BOUND              System  "launch_bound"              "the GPU waits because the host can't issue work fast enough";
    HOST_SYNC                 System  "host_sync"                 "the host waits for the GPU in the middle of a step and the GPU then runs dry";
    BLOCKING_COPIES           System  "blocking_copies"           "host-device copies that nothing overlaps";
    EXPOSED_COMMUNICATION     System  "exposed_communication"     "collectives that nothing overlaps";
    INPUT_STARVED             System  "input_starved"             "the GPU waits for the input pipeline";
    RECOMPUTATION             System  "recomputation"             "forward work repeated in the backward pass";
}

/// How urgent a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Make this change first.
    Critical,
    /// Worth making soon.
    High,
    /// Worth making.
    Medium,
    /// For completeness.
    Low,
}

impl Priority {
    /// As reports write it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Critical => "Critical",
            Self::High => "High",
            Self::Medium => "Medium",
            Self::Low => "Low",
        }
    }
}

/// Whether what mends a finding is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mending {
    /// A change that such operations are known to gain by.
    #[default]
    CountedOn,
    /// Changes of which one may bring it, and which does is not known before they are tried.
    Trial,
    /// What a kernel team may reach, and no other change is known to.
    KernelTeam,
    /// A change of precision where somebody chose the one there is.
    Accuracy,
    /// No performance model covers it: nothing can be told.
    Unknown,
}

impl Mending {
    /// What has to be said after a saving that nobody can count on.
    pub fn condition(self) -> Option<&'static str> {
        match self {
            Self::CountedOn | Self::Unknown => None,
            Self::Trial => Some(", if one of the ways to try gets there"),
            Self::KernelTeam => Some(", if a kernel team gets there"),
            Self::Accuracy => Some(", if accuracy allows"),
        }
    }
}

/// From the cautious to the hopeful end of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Range {
    /// Cautious.
    pub low: f64,
    /// Hopeful.
    pub high: f64,
}

impl Range {
    /// Most of a window that a change is said to save.
    pub const MOST: f64 = 0.995;

    /// By how much what a change brings differs when it is measured, before and after: thirteen programs that the GPU
    /// limits were run four times each, and differed by up to 1.2 percent. What a change leaves alone is the same in both.
    pub(crate) const MEASURED_TWICE: f64 = 0.015;

    /// Both ends at least zero, in order.
    pub fn new(a: f64, b: f64) -> Self {
        Self { low: a.min(b).max(0.0), high: a.max(b).max(0.0) }
    }

    /// End-to-end speed-up if this many milliseconds of a window are saved.
    #[must_use]
    pub fn speedup(self, window_ms: f64) -> Self {
        // Never all of it: a window without GPU work is no answer.
        let of = |saved: f64| window_ms / (window_ms - saved.min(Self::MOST * window_ms)).max(f64::MIN_POSITIVE);
        Self { low: of(self.low), high: of(self.high) }
    }

    /// Time saved of a window, with the error that measuring it has.
    #[must_use]
    pub(crate) fn as_measured(self, window: f64) -> Self {
        let error = |saved: f64| Self::MEASURED_TWICE * saved * (1.0 - saved / window.max(f64::MIN_POSITIVE)).max(0.0);
        Self::new(self.low - error(self.low), self.high + error(self.high))
    }
}

/// A range as files write it.
#[derive(Serialize)]
struct RangeFile<T> {
    low: T,
    high: T,
}

fn ms_range<S: serde::Serializer>(range: &Range, serializer: S) -> Result<S::Ok, S::Error> {
    RangeFile { low: Ms(range.low), high: Ms(range.high) }.serialize(serializer)
}

fn ratio_range<S: serde::Serializer>(range: &Range, serializer: S) -> Result<S::Ok, S::Error> {
    RangeFile { low: Ratio(range.low), high: Ratio(range.high) }.serialize(serializer)
}

/// What is said in the place of a saving: where the GPU waits for the host anyway, and where there is no estimate.
pub const NO_GAIN: [&str; 2] = ["nothing while the GPU awaits launches", "not quantified"];

/// What a change would bring.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Impact {
    /// Milliseconds of the traced window.
    #[serde(serialize_with = "ms_range")]
    pub saved_ms: Range,
    /// End to end: window / (window − saved).
    #[serde(serialize_with = "ratio_range")]
    pub speedup: Range,
    /// How the range was found, in one sentence with its numbers.
    pub basis: String,
}

impl Impact {
    /// What it saves of a window. Where streams run side by side their kernels take longer than the window in which they
    /// do: no more than [`Range::MOST`] of it is saved.
    pub fn of(saved_ms: Range, window_ms: f64, basis: String) -> Self {
        let most = Range::MOST * window_ms;
        let saved_ms = Range { low: saved_ms.low.min(most), high: saved_ms.high.min(most) };
        Self { saved_ms, speedup: saved_ms.speedup(window_ms), basis }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Paths {
    /// A: what to change in the model or its PyTorch calls.
    pub algorithmic: Vec<String>,
    /// B: what a kernel team can do when the model must stay as it is.
    pub kernel: Vec<String>,
}

/// Most operations that a finding lists; the rest is in the tables.
pub(crate) const MOST_OPERATIONS: usize = 24;

/// An operation a finding is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct FindingOperation {
    /// Operation.
    pub name: String,
    /// UID of an example, for `jarvis tree`.
    pub uid: u32,
    /// Calls.
    pub count: usize,
    /// `Input Dims`, as recorded.
    pub input_dims: serde_json::Value,
    /// `Input type`, as recorded.
    pub input_types: serde_json::Value,
    /// Kernel time of all calls.
    #[serde(serialize_with = "rounding::as_ms")]
    pub time_ms: f64,
    /// Percent of what the hardware could do.
    #[serde(serialize_with = "rounding::as_some_percent")]
    pub efficiency_percent: Option<f64>,
    /// `compute` or `memory`.
    pub bound: Option<&'static str>,
    /// Names of the modules around it without their numbers, as calls of several may be one here: `Model > Layer`.
    pub module: Option<String>,
}

impl FindingOperation {
    /// How modules are told, given their names from the outermost on.
    pub(crate) fn module_of<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
        let names: Vec<&str> = names.map(base_name).collect();
        (!names.is_empty()).then(|| names.join(" > "))
    }
}

/// Where a number comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Sheet or file.
    pub table: String,
    /// Row of it, as its key columns name it.
    pub row: String,
    /// UID that `jarvis tree` opens.
    pub uid: Option<u32>,
    /// What it shows, in one line.
    pub fact: String,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// 1 is the change to make first.
    pub rank: usize,
    /// What it is about.
    pub pattern: PatternId,
    /// Which part of the system.
    pub tier: Tier,
    /// Category of the operations: `gemm`, `sdpa_fwd`, …
    pub category: String,
    /// How urgent.
    pub priority: Priority,
    /// One line.
    pub title: String,
    /// One line.
    pub issue: String,
    /// The operations, most time first; the smallest of many are left out.
    pub operations: Vec<FindingOperation>,
    /// How many there are, those left out counted.
    pub operations_total: usize,
    /// Kernel time of those left out.
    #[serde(serialize_with = "rounding::as_ms")]
    pub operations_left_out_ms: f64,
    /// Of the traced window.
    #[serde(serialize_with = "rounding::as_ms")]
    pub time_ms: f64,
    /// Of the traced window.
    #[serde(serialize_with = "rounding::as_percent")]
    pub percent_of_total: f64,
    /// What to do.
    pub paths: Paths,
    /// What it would bring.
    pub impact: Impact,
    /// Whether that can be counted on.
    pub mending: Mending,
    /// Where the numbers come from.
    pub evidence: Vec<Evidence>,
    /// Path of the replay package.
    pub replay_package: Option<String>,
    /// Why there is no replay package.
    pub replay_reason: Option<String>,
    /// Rows of the performance report it speaks of, each with the share of its time that is meant.
    #[serde(skip)]
    pub rows: Vec<(RowId, f64)>,
    /// What kernels take less, of the window: the rest of the saving is time in which the GPU waits.
    #[serde(skip)]
    pub kernels_saved_ms: Range,
    /// The finding whose change takes this one's cause along.
    #[serde(skip)]
    pub goes_with: Option<PatternId>,
}

impl Finding {
    /// What the change is expected to save, in milliseconds of the window: the middle of the range, or what is sure where
    /// nobody knows how to get to the hopeful end.
    pub fn expected_ms(&self) -> f64 {
        let saved = self.impact.saved_ms;
        match self.mending {
            Mending::CountedOn => f64::midpoint(saved.low, saved.high),
            Mending::Trial | Mending::KernelTeam | Mending::Accuracy | Mending::Unknown => saved.low,
        }
    }

    /// Whether it is about operations that no model covers, so that what a change would bring is not known.
    pub fn is_unquantified(&self) -> bool {
        let unknown = self.operations.iter().all(|o| o.efficiency_percent.is_none());
        self.tier == Tier::Compute && unknown && !self.operations.is_empty() && self.saves_nothing()
    }

    /// Whether it saves less than a report can show.
    pub fn saves_nothing(&self) -> bool {
        rounding::round(self.impact.saved_ms.high, 3) <= 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_names_are_unique_and_stable_in_form() {
        for (i, p) in PATTERNS.iter().enumerate() {
            assert!(p.id.as_str().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{}", p.id.as_str());
            assert!(PATTERNS[..i].iter().all(|other| other.id != p.id), "{} stands twice", p.id.as_str());
            assert!(!p.holds.is_empty());
        }
    }

    #[test]
    fn a_range_of_savings_is_a_range_of_speedups() {
        let r = Range::new(50.0, 20.0);
        assert_eq!((r.low, r.high), (20.0, 50.0));
        assert_eq!(r.speedup(100.0), Range { low: 1.25, high: 2.0 });
        assert!(Range::new(0.0, 1e9).speedup(100.0).high.is_finite());
    }

    #[test]
    fn a_measured_saving_has_an_error_in_proportion_to_what_changes() {
        let measured = Range::new(20.0, 75.0).as_measured(100.0);
        // 0.3 percent of 80 ms that are left, and 1.125 percent of 25.
        assert!((measured.low - 19.76).abs() < 1e-9 && (measured.high - 75.28125).abs() < 1e-9, "{measured:?}");
        assert_eq!(Range::new(0.0, 100.0).as_measured(100.0), Range::new(0.0, 100.0));
        assert_eq!(Range::new(0.0, 0.0).as_measured(0.0), Range::new(0.0, 0.0));
    }
}

//! Every limit that the analysis compares with, in one table. Users override them by key.
//!
//! Adding one is one line in the list below; `jarvis explain` and the docs print the table.

use std::collections::BTreeMap;

use jarvis_perf::settings_text::{self, Form};
use serde_json::Value as Json;

/// What a threshold means and where its value comes from.
#[derive(Debug, Clone, Copy)]
pub struct ThresholdInfo {
    /// Key, as files and users write it: `gemm.time_ms`.
    pub key: &'static str,
    /// Value if nobody says otherwise.
    pub default: f64,
    /// Unit: `ms`, `us`, `%`, `ratio`, `MB`, `rows`, …
    pub unit: &'static str,
    /// Who chose the value: a seed document (`S001`), the public project of the seeds' age (`O`) or its newest form
    /// (`N`), or this project (`J`).
    pub origin: &'static str,
    /// What it decides.
    pub doc: &'static str,
}

macro_rules! thresholds {
    ($($name:ident $key:literal $default:literal $unit:literal $origin:literal $doc:literal;)*) => {
        /// A limit of the analysis; [`THRESHOLDS`] has its key, value and meaning.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Threshold {
            $(#[doc = $doc] $name,)*
        }

        #[cfg(test)]
        impl Threshold {
            /// Names as source code has them.
            const NAMES: &[&str] = &[$(stringify!($name)),*];
        }

        /// All thresholds, in the order of [`Threshold`].
        pub const THRESHOLDS: &[ThresholdInfo] = &[
            $(ThresholdInfo { key: $key, default: $default, unit: $unit, origin: $origin, doc: $doc }),*
        ];
    };
}

#[rustfmt::skip]
thresholds! {
    BaselineDefault        "baseline.default_percent"         70.0   "%"     "O"    "memory ceiling where no simple elementwise operation was measured, or a poor one";
    BaselineMinCeiling     "baseline.min_ceiling_percent"     60.0   "%"     "J"    "a measured baseline at or above this is the memory ceiling";
    BaselineMinMb          "baseline.min_mb"                  8.0    "MiB"   "J"    "a call moves at least this to count for the baseline";
    BnBaseline             "bn.baseline"                      70.0   "%"     "S003" "with a baseline above this and the norm below bn.low the kernel is the limit";
    BnLow                  "bn.low"                           20.0   "%"     "S003" "a norm below this while the baseline is above bn.baseline is a kernel issue";
    BnRatioLow             "bn.ratio_low"                     0.3    "ratio" "J"    "a norm at less than this share of the baseline is below it";
    BnRatioOk              "bn.ratio_ok"                      0.6    "ratio" "J"    "a norm at this share of the baseline or more is fine";
    BottleneckEfficiency   "bottleneck.efficiency"            40.0   "%"     "S000, S001, S004" "an operation at or above this is no bottleneck, unless its own band says otherwise";
    BottleneckShare        "bottleneck.percent_of_category"   5.0    "%"     "S000, S001, S004" "share of its category above which an operation counts";
    CompareKernelIssue     "compare.kernel_issue_delta"       100.0  "%"     "S003" "slower than the reference by more than this, and than its hardware explains, is a kernel issue";
    CompareTinyGemm        "compare.tiny_gemm_factor"         5.0    "ratio" "S003" "tiny products that take more than this times the reference's time are a kernel issue";
    CompareTolerance       "compare.tolerance"                0.25   "ratio" "J"    "how far a ratio may lie from the expected one";
    ConvDepthwiseHigh      "conv.band.depthwise.high"         50.0   "%"     "S004" "upper end expected of depthwise convolutions";
    ConvDepthwiseLow       "conv.band.depthwise.low"          30.0   "%"     "S004" "lower end expected of depthwise convolutions";
    ConvLargeHigh          "conv.band.large.high"             80.0   "%"     "S004" "upper end expected of kernels above 3x3";
    ConvLargeLow           "conv.band.large.low"              60.0   "%"     "S004" "lower end expected of kernels above 3x3";
    ConvPointwiseHigh      "conv.band.pointwise.high"         60.0   "%"     "S004" "upper end expected of 1x1 convolutions";
    ConvPointwiseLow       "conv.band.pointwise.low"          40.0   "%"     "S004" "lower end expected of 1x1 convolutions";
    ConvStandardHigh       "conv.band.standard.high"          70.0   "%"     "S004" "upper end expected of 3x3 convolutions";
    ConvStandardLow        "conv.band.standard.low"           50.0   "%"     "S004" "lower end expected of 3x3 convolutions";
    ConvOddFactor          "conv.band.odd_factor"             0.5    "ratio" "J"    "bands of transposed, grouped and dilated convolutions are this part of the plain ones";
    ConvTransposeHigh      "conv.transpose_high"              20.0   "%"     "S004" "layout transposes above this share of convolution time are a layout mismatch";
    ConvTransposeModerate  "conv.transpose_moderate"          10.0   "%"     "S004" "layout transposes from this share on are worth a look";
    EffAcceptable          "eff.acceptable"                   40.0   "%"     "S002" "from here on an efficiency is acceptable";
    EffAnomaly             "eff.anomaly"                      110.0  "%"     "O"    "above this a measurement, a model or a peak is wrong";
    EffExcellent           "eff.excellent"                    80.0   "%"     "S002" "above this an efficiency is excellent; ceiling of compute-bound work";
    EffGood                "eff.good"                         60.0   "%"     "S002" "from here on an efficiency is good";
    FairTopOps             "fair.top_ops_rows"                6.0    "rows"  "S003" "top operations in the short report, which has room for 7";
    FusionMaxKernels       "fusion.max_kernels"               15.0   "count" "N"    "a module that no other pattern explains is a fusion candidate up to this many kernels";
    FusionMinPercent       "fusion.min_percent"               0.5    "%"     "J"    "a fusion saves at least this share of compute to be a recommendation";
    FusionModeledFew       "fusion.min_modeled_fraction_few"  0.5    "ratio" "N"    "share of such a module's operations that have a model, for its saving to be told; fewer than five operations";
    FusionModeledMany      "fusion.min_modeled_fraction_many" 0.75   "ratio" "N"    "the same with five or more";
    GemmIntensityCompute   "gemm.intensity_compute"           200.0  "FLOP/B" "S001" "above this a product is called compute-bound by its intensity";
    GemmIntensityMemory    "gemm.intensity_memory"            100.0  "FLOP/B" "S001" "below this a product is called memory-bound by its intensity";
    GemmPadding            "gemm.padding_percent"             15.0   "%"     "J"    "more padding than this in the tiles is worth telling";
    GemmSkinnyLong         "gemm.skinny.long_side"            512.0  "count" "J"    "the long side of a skinny product is at least this";
    GemmSkinnyShort        "gemm.skinny.short_side"           32.0   "count" "J"    "the short side of a skinny product is at most this";
    GemmTimeMs             "gemm.time_ms"                     50.0   "ms"    "S001" "a product that takes longer counts whatever its share";
    GemmTinyCount          "gemm.tiny.count"                  1000.0 "count" "S001" "batch times calls from which small products are many";
    GemmTinyDepth          "gemm.tiny.depth"                  256.0  "count" "J"    "inner dimension of a tiny product is at most this";
    GemmTinyFactor         "gemm.tiny.factor"                 5.0    "ratio" "S001" "slower than its roofline by more than this is more than batching overhead";
    GemmTinyLong           "gemm.tiny.long_side"              64.0   "count" "J"    "the long side of a tiny product is at most this";
    GemmTinyLoop           "gemm.tiny.loop"                   16.0   "count" "J"    "equal products one after another from which they are a loop";
    GemmTinyShort          "gemm.tiny.short_side"             16.0   "count" "J"    "the short side of a tiny product is at most this";
    GemmUnaligned          "gemm.unaligned_efficiency"        60.0   "%"     "J"    "an unaligned product at or above this shows no harm";
    GemmPaddedBest         "gemm.padded_best_percent"         90.0   "%"     "J"    "what an aligned product of the same size reaches at best, if it fills the GPU";
    GemmPaddedLeast        "gemm.padded_least_percent"        50.0   "%"     "J"    "what an aligned product of the same size reaches at least, if it fills the GPU";
    HighCount              "high_count.calls"                 1000.0 "count" "J"    "this many equal calls are many";
    HighCountUs            "high_count.mean_us"               10.0   "us"    "J"    "calls shorter than this are short";
    ImpactCautiousMemory   "impact.cautious_memory_percent"   50.0   "%"     "N"    "bandwidth that a rewritten memory-bound kernel reaches at least";
    ImpactLowFactor        "impact.low_factor"                0.65   "ratio" "J"    "part of a removed kernel's time that comes back at least";
    IntensityCompute       "intensity.compute"                100.0  "FLOP/B" "S003" "above this an operation is called compute-bound by its intensity";
    IntensityMemory        "intensity.memory"                 50.0   "FLOP/B" "S003" "below this an operation is called memory-bound by its intensity";
    PriorityCriticalEff    "priority.critical_eff"            30.0   "%"     "S001, S002" "critical: efficiency below this";
    PriorityCriticalShare  "priority.critical_share"          15.0   "%"     "S001, S002" "critical: share above this";
    PriorityHighEff        "priority.high_eff"                40.0   "%"     "S001, S002" "high: efficiency below this";
    PriorityHighShare      "priority.high_share"              10.0   "%"     "S001, S002" "high: share above this";
    PriorityMediumShare    "priority.medium_share"            5.0    "%"     "S001, S002" "medium: share above this";
    PrecisionGain          "precision.min_gain"               1.9    "ratio" "J"    "the lower precision's peak is at least this much higher";
    ReplayEfficiency       "replay.max_efficiency"            30.0   "%"     "S002, S003" "a replay package is required below this efficiency";
    ReplayShare            "replay.min_percent_of_compute"    10.0   "%"     "S002, S003" "a replay package is required above this share of compute";
    ReportMinPercent       "report.min_percent_of_compute"    0.5    "%"     "J"    "an operation below this share of compute is not promoted";
    ConvolutionTimeMs      "convolution.time_ms"              50.0   "ms"    "S004" "a convolution that takes longer counts whatever its share";
    SdpaTimeMs             "sdpa.time_ms"                     100.0  "ms"    "S000" "attention that takes longer counts whatever its share";
    ElementwiseTimeMs      "elementwise.time_ms"              10.0   "ms"    "O"    "an elementwise operation that takes longer counts whatever its share";
    ReduceTimeMs           "reduce.time_ms"                   10.0   "ms"    "O"    "a reduction that takes longer counts whatever its share";
    TritonTimeMs           "triton.time_ms"                   10.0   "ms"    "O"    "a compiled kernel that takes longer counts whatever its share";
    BatchnormTimeMs        "batchnorm.time_ms"                10.0   "ms"    "O"    "a batch norm that takes longer counts whatever its share";
    NormTimeMs             "norm.time_ms"                     10.0   "ms"    "J"    "a norm that takes longer counts whatever its share";
    MoeTimeMs              "moe.time_ms"                      100.0  "ms"    "O"    "an expert kernel that takes longer counts whatever its share";
    KernelFloorMaxUs       "kernel.floor_max_us"              5.0    "us"    "J"    "no kernel needs more than this just to run";
    KernelFloorUs          "kernel.floor_us"                  2.0    "us"    "J"    "what a kernel takes that has next to nothing to do, where the trace has none such";
    OtherTimeMs            "other.time_ms"                    100.0  "ms"    "O"    "any other operation that takes longer counts whatever its share";
    SdpaBackwardFactor     "sdpa.backward_factor"             0.6    "ratio" "J"    "backward bands are this part of the forward ones";
    SdpaBelow512Low        "sdpa.band.below_512.low"          5.0    "%"     "S000" "expected below 512 tokens, lower end";
    SdpaBelow512High       "sdpa.band.below_512.high"         15.0   "%"     "S000" "expected below 512 tokens, upper end";
    SdpaBelow1024Low       "sdpa.band.below_1024.low"         8.0    "%"     "S000" "expected from 512 to 1023 tokens, lower end";
    SdpaBelow1024High      "sdpa.band.below_1024.high"        15.0   "%"     "S000" "expected from 512 to 1023 tokens, upper end";
    SdpaBelow2048Low       "sdpa.band.below_2048.low"         20.0   "%"     "S000" "expected from 1024 to 2047 tokens, lower end";
    SdpaBelow2048High      "sdpa.band.below_2048.high"        40.0   "%"     "S000" "expected from 1024 to 2047 tokens, upper end";
    SdpaTo4096Low          "sdpa.band.to_4096.low"            40.0   "%"     "S000" "expected from 2048 to 4096 tokens, lower end";
    SdpaTo4096High         "sdpa.band.to_4096.high"           60.0   "%"     "S000" "expected from 2048 to 4096 tokens, upper end";
    SdpaAbove4096Low       "sdpa.band.above_4096.low"         50.0   "%"     "S000" "expected above 4096 tokens, lower end";
    SdpaAbove4096High      "sdpa.band.above_4096.high"        70.0   "%"     "S000" "expected above 4096 tokens, upper end";
    SdpaDecodeLow          "sdpa.band.decode.low"             5.0    "%"     "O"    "expected of up to 8 queries, lower end";
    SdpaDecodeHigh         "sdpa.band.decode.high"            15.0   "%"     "O"    "expected of up to 8 queries, upper end";
    SdpaPrefillLow         "sdpa.band.prefill.low"            30.0   "%"     "O"    "expected of paged attention that mostly reads prompts, lower end";
    SdpaPrefillHigh        "sdpa.band.prefill.high"           50.0   "%"     "O"    "expected of paged attention that mostly reads prompts, upper end";
    SdpaMixedLow           "sdpa.band.mixed.low"              10.0   "%"     "O"    "expected of paged attention over prompts and decoding, lower end";
    SdpaMixedHigh          "sdpa.band.mixed.high"             30.0   "%"     "O"    "expected of paged attention over prompts and decoding, upper end";
    SdpaShortFactor        "sdpa.short_factor"                0.8    "ratio" "J"    "short sequences are slow below this part of their band's lower end";
    SyncMinMs              "sync.min_ms"                      1.0    "ms"    "O"    "a category's host time beyond its kernels counts above this";
    SyncRatio              "sync.ratio"                       5.0    "ratio" "O"    "a row whose host time is more than this times its kernel time is host-dominated";
    SyncShare              "sync.percent_of_kernel_time"      10.0   "%"     "O"    "a category's host time beyond its kernels counts above this share of kernel time";
    TopOps                 "top_ops.count"                    10.0   "rows"  "S002" "top operations";
    TopOpsMinPercent       "top_ops.min_row_percent"          1.0    "%"     "J"    "a row of a top operation counts as one from this share of compute on";
    UtilComputeOk          "util.compute_ok_percent"          95.0   "%"     "S003" "computation from this share of the window on needs no look at the system first";
    UtilIdleCard           "util.idle_card_percent"           15.0   "%"     "N"    "idle time above this share of the window is a finding";
    VarianceCount          "variance.min_count"               10.0   "count" "N"    "rows with more calls than this are checked for varying times";
    VarianceCov            "variance.cov"                     1.0    "ratio" "N"    "times vary widely above this deviation over mean";
    VariancePercent        "variance.min_percent_of_total"    5.0    "%"     "N"    "rows from this share of the window on are checked for varying times";
}

impl Threshold {
    /// Key, value and meaning.
    pub fn info(self) -> &'static ThresholdInfo {
        &THRESHOLDS[self as usize]
    }

    /// Its key.
    pub fn key(self) -> &'static str {
        self.info().key
    }
}

/// Why thresholds could not be overridden.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// No threshold of that key.
    #[error("no threshold is called `{key}`")]
    Unknown {
        /// What was given.
        key: String,
        /// A key that begins or ends alike, if there is one.
        suggestion: Option<&'static str>,
    },
    /// The value is no number, or none that can be compared with.
    #[error("threshold `{key}`: expected a number of 0 or more, found {found}")]
    Value {
        /// Its key.
        key: String,
        /// What was given.
        found: String,
    },
    /// The file is neither TOML nor JSON.
    #[error("thresholds: {0}")]
    Text(String),
}

impl ThresholdError {
    /// What to do next.
    pub fn help(&self) -> String {
        match self {
            Self::Unknown { suggestion: Some(key), .. } => format!("did you mean `{key}`?"),
            Self::Unknown { suggestion: None, .. } => "`jarvis explain thresholds` lists the keys".to_owned(),
            Self::Value { .. } => "leave the key out to keep the default".to_owned(),
            Self::Text(_) => {
                "write `\"gemm.time_ms\" = 20` or `[gemm]` and `time_ms = 20`, one a line, or a JSON object of the same keys"
                    .to_owned()
            }
        }
    }
}

/// The values in force.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    values: Vec<f64>,
}

impl Default for Thresholds {
    fn default() -> Self {
        Self { values: THRESHOLDS.iter().map(|t| t.default).collect() }
    }
}

impl Thresholds {
    /// The value in force.
    pub fn get(&self, threshold: Threshold) -> f64 {
        self.values[threshold as usize]
    }

    /// Overrides one value.
    pub fn set(&mut self, threshold: Threshold, value: f64) {
        self.values[threshold as usize] = value;
    }

    /// The defaults with these overrides. Keys may be dotted or nested objects.
    pub fn with_overrides(map: &serde_json::Map<String, Json>) -> Result<Self, ThresholdError> {
        let mut flat = BTreeMap::new();
        flatten("", map, &mut flat);
        let mut all = Self::default();
        for (key, value) in flat {
            let at = THRESHOLDS.iter().position(|t| t.key == key);
            let at = at.ok_or_else(|| ThresholdError::Unknown { suggestion: nearest(&key), key: key.clone() })?;
            let number = value.as_f64().filter(|v| v.is_finite() && *v >= 0.0);
            all.values[at] = number.ok_or(ThresholdError::Value { key, found: value.to_string() })?;
        }
        Ok(all)
    }

    /// The defaults with the overrides of a TOML or JSON text.
    pub fn from_text(text: &str) -> Result<Self, ThresholdError> {
        let text = settings_text::without_mark(text);
        let map: serde_json::Map<String, Json> = match settings_text::form(text) {
            Form::Object => serde_json::from_str(text).map_err(|e| ThresholdError::Text(e.to_string()))?,
            Form::Toml => toml::from_str(text).map_err(|e| ThresholdError::Text(e.message().to_owned()))?,
            Form::List => return Err(ThresholdError::Text("expected an object, found a list".to_owned())),
        };
        Self::with_overrides(&map)
    }
}

fn flatten(prefix: &str, map: &serde_json::Map<String, Json>, out: &mut BTreeMap<String, Json>) {
    for (key, value) in map {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            Json::Object(inner) => flatten(&key, inner, out),
            other => {
                out.insert(key, other.clone());
            }
        }
    }
}

/// A key of the group that was named, or with the same first or last part: typing errors mostly hit one of the two.
fn nearest(key: &str) -> Option<&'static str> {
    let last = |k: &str| k.rsplit('.').next().unwrap_or_default().to_owned();
    let first = |k: &str| k.split('.').next().unwrap_or_default().to_owned();
    let alike = |part: &dyn Fn(&str) -> String| THRESHOLDS.iter().map(|t| t.key).find(|k| part(k) == part(key));
    let in_group = THRESHOLDS.iter().map(|t| t.key).find(|k| first(k) == key);
    in_group.or_else(|| alike(&last)).or_else(|| alike(&first))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique_and_documented() {
        for (i, t) in THRESHOLDS.iter().enumerate() {
            assert!(THRESHOLDS[..i].iter().all(|other| other.key != t.key), "{} stands twice", t.key);
            assert!(
                !t.doc.is_empty() && !t.unit.is_empty() && !t.origin.is_empty() && t.key.contains('.'),
                "{}",
                t.key
            );
            assert!(t.default.is_finite() && t.default >= 0.0);
        }
        assert_eq!(Threshold::GemmTimeMs.key(), "gemm.time_ms");
        assert_eq!(Threshold::VariancePercent.key(), "variance.min_percent_of_total");
    }

    /// Sources below a folder, but for tests and for lists of what files tell.
    fn sources(folder: &std::path::Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() && !["tests", "data"].contains(&name) {
                sources(&path, all);
            } else if path.extension().is_some_and(|e| e == "rs") && !["tests.rs", "thresholds.rs"].contains(&name) {
                let text = std::fs::read_to_string(&path).unwrap();
                all.push_str(text.split("#[cfg(test)]\nmod tests {").next().unwrap());
            }
        }
    }

    #[test]
    fn every_limit_is_read_by_something() {
        let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut all = String::new();
        for name in ["analyze", "report"] {
            sources(&crates.join(name).join("src"), &mut all);
        }
        let is_read = |name: &&&str| {
            let word = format!("Threshold::{name}");
            let ends = |at: usize| !all[at + word.len()..].starts_with(|c: char| c.is_alphanumeric());
            all.match_indices(&word).any(|(at, _)| ends(at))
        };
        let unread: Vec<_> = Threshold::NAMES.iter().filter(|name| !is_read(name)).collect();
        assert!(unread.is_empty(), "nothing reads {unread:?}");
    }

    #[test]
    fn overrides_may_be_dotted_or_nested_toml_or_json() {
        let nested = Thresholds::from_text("\"sdpa.short_factor\" = 0.5\n[gemm]\ntime_ms = 20\n").unwrap();
        assert_eq!((nested.get(Threshold::GemmTimeMs), nested.get(Threshold::SdpaShortFactor)), (20.0, 0.5));
        assert_eq!(nested.get(Threshold::SdpaTimeMs), 100.0, "the rest keep their defaults");
        let json = Thresholds::from_text(r#"{"gemm": {"tiny": {"count": 10}}, "bn.low": 1}"#).unwrap();
        assert_eq!((json.get(Threshold::GemmTinyCount), json.get(Threshold::BnLow)), (10.0, 1.0));
    }

    #[test]
    fn a_mark_at_the_beginning_is_no_part_of_the_text() {
        for text in ["\u{feff}{\"bn.low\": 1}", "\u{feff}\"bn.low\" = 1", "\u{feff}[bn]\nlow = 1"] {
            assert_eq!(Thresholds::from_text(text).unwrap().get(Threshold::BnLow), 1.0, "{text}");
        }
    }

    #[test]
    fn what_comparisons_go_by_is_told_as_it_is() {
        // Both are about the time of the reference, not about what the hardware suggests.
        for threshold in [Threshold::CompareKernelIssue, Threshold::CompareTinyGemm] {
            assert!(threshold.info().doc.contains("reference"), "{}", threshold.info().doc);
        }
    }

    #[test]
    fn wrong_overrides_say_what_is_wrong() {
        let error = Thresholds::from_text("[gem]\ntime_ms = 1").unwrap_err();
        assert_eq!(error.to_string(), "no threshold is called `gem.time_ms`");
        assert!(error.help().starts_with("did you mean `"), "{}", error.help());
        let error = Thresholds::from_text("\"gemm.time_ms\" = \"soon\"").unwrap_err();
        assert_eq!(error.to_string(), "threshold `gemm.time_ms`: expected a number of 0 or more, found \"soon\"");
        let error = Thresholds::from_text("\"gemm.time_ms\" = -1").unwrap_err();
        assert!(matches!(error, ThresholdError::Value { .. }));
        assert!(matches!(Thresholds::from_text("{").unwrap_err(), ThresholdError::Text(_)));
        let error = Thresholds::from_text("[{\"gemm.time_ms\": 1}]").unwrap_err();
        assert_eq!(error.to_string(), "thresholds: expected an object, found a list");
    }
}

//! The files of the compute tier as values: metrics, metadata, manifest, tree data. Field names and their order are
//! those of the files and stable.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value as Json;

use crate::finding::{Mending, PatternId, Priority, Range};
use crate::prepared::{BoundType, Prepared, Row};
use crate::program::RowId;
use crate::rounding::{Ms, Percent, Ratio};

/// Version of all these files.
pub const SCHEMA_VERSION: u32 = 1;

/// Whether a category could be analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Status {
    /// It was.
    #[serde(rename = "OK")]
    Ok,
    /// It has no rows.
    #[serde(rename = "NO_DATA")]
    NoData,
    /// Its analyzer failed; nothing is said about it.
    #[serde(rename = "ERROR")]
    Error,
}

/// One trace, or one against another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One trace.
    #[default]
    Standalone,
    /// A target and a reference.
    Comparative,
}

/// What `<category>_metrics.json` is made of.
#[derive(Debug, Clone)]
pub enum MetricsFile {
    /// Of a category that could be analysed.
    Full(Box<CategoryMetrics>),
    /// Of one that could not.
    Short(ShortMetrics),
}

/// What is said of a category without rows or with a failed analyzer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ShortMetrics {
    /// 1.
    pub schema_version: u32,
    /// Key.
    pub category: Arc<str>,
    /// As shown.
    #[serde(skip)]
    pub display_name: Arc<str>,
    /// `NO_DATA` or `ERROR`.
    pub status: Status,
    /// Why, in one line, if the analyzer failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What to tell, if there are no rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

impl ShortMetrics {
    /// A category that has no rows.
    pub fn no_data(category: &str, display: &str) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            category: category.into(),
            display_name: display.into(),
            status: Status::NoData,
            error: None,
            message: Some(format!("No {display} operations found in trace")),
        }
    }

    /// A category whose analyzer failed.
    pub fn error(category: &str, display: &str, error: &str) -> Self {
        let line = error.lines().next().unwrap_or_default().to_owned();
        Self {
            schema_version: SCHEMA_VERSION,
            category: category.into(),
            display_name: display.into(),
            status: Status::Error,
            error: Some(line),
            message: None,
        }
    }
}

/// A fact that an analyzer tells.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Fact {
    /// A plain value.
    Value(Json),
    /// Facts below it.
    Facts(Facts),
    /// Several of them.
    List(Vec<Facts>),
}

impl Fact {
    /// The value, if it is a plain one.
    pub fn value(&self) -> Option<&Json> {
        match self {
            Self::Value(value) => Some(value),
            Self::Facts(_) | Self::List(_) => None,
        }
    }
}

impl<T: Into<Json>> From<T> for Fact {
    fn from(value: T) -> Self {
        Self::Value(value.into())
    }
}

/// Facts in the order in which they are told; each key once. (A JSON object of the library would sort them.)
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts(Vec<(&'static str, Fact)>);

impl Facts {
    /// These facts.
    pub fn of(facts: impl IntoIterator<Item = (&'static str, Fact)>) -> Self {
        let mut all = Self::default();
        all.extend(facts);
        all
    }

    /// Tells a fact; a key told before takes the new value.
    pub fn insert(&mut self, key: &'static str, value: impl Into<Fact>) {
        let value = value.into();
        match self.0.iter_mut().find(|(k, _)| *k == key) {
            Some(known) => known.1 = value,
            None => self.0.push((key, value)),
        }
    }

    /// The fact of this key.
    pub fn get(&self, key: &str) -> Option<&Fact> {
        self.0.iter().find(|(k, _)| *k == key).map(|(_, v)| v)
    }
}

impl<V: Into<Fact>> Extend<(&'static str, V)> for Facts {
    fn extend<T: IntoIterator<Item = (&'static str, V)>>(&mut self, facts: T) {
        for (key, value) in facts {
            self.insert(key, value);
        }
    }
}

impl Serialize for Facts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(k, v)| (k, v)))
    }
}

/// What an analyzer says of its category; [`CategoryFile`] is how it is written.
#[derive(Debug, Clone)]
pub struct CategoryMetrics {
    /// 1.
    pub schema_version: u32,
    /// Key.
    pub category: Arc<str>,
    /// As shown.
    pub display_name: Arc<str>,
    /// `OK`.
    pub status: Status,
    /// One trace, or one against another.
    pub comparison_scope: Scope,
    /// Kernel time, copies left out.
    pub total_time_ms: Ms,
    /// Copies.
    pub copy_time_ms: Ms,
    /// Of the computation time.
    pub percent_of_compute: Percent,
    /// Of the total time.
    pub percent_of_total: Percent,
    /// Calls.
    pub operation_count: usize,
    /// Rows.
    pub unique_args_count: usize,
    /// Time-weighted mean of the rows that have an efficiency and are no anomaly.
    pub average_efficiency_percent: Option<Percent>,
    /// Plain mean of the same rows.
    pub mean_efficiency_percent_unweighted: Option<Percent>,
    /// Share of the category's time that has an efficiency.
    pub modeled_time_percent: Percent,
    /// Rows, most time first.
    pub operations: Vec<JudgedOperation>,
    /// Bottlenecks, most time first.
    pub bottlenecks: Vec<Bottleneck>,
    /// Patterns.
    pub patterns: Vec<PatternMetrics>,
    /// What only this analyzer has to say.
    pub category_specific: Facts,
    /// What improving each operation would bring, as the newest form of the reference scores it.
    pub impact_estimates: Vec<ImpactEstimate>,
    /// Anomalies, varying times, host-dominated operations.
    pub warnings: Vec<String>,
    /// Remarks that are no bottlenecks, for the findings file.
    pub notes: Vec<String>,
}

impl CategoryMetrics {
    /// The rows that were judged, most time first.
    pub fn rows<'a>(&'a self, prepared: &'a Prepared) -> impl ExactSizeIterator<Item = &'a Row> {
        self.operations.iter().map(|o| prepared.row(o.row))
    }
}

/// A sentence and the template it was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sentence {
    /// Template.
    pub id: &'static str,
    /// Filled in.
    pub text: String,
}

/// `Critical`, as these files write it.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the serializer's signature")]
fn titled<S: serde::Serializer>(priority: &Priority, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(priority.title())
}

/// Sentences as one text.
fn joined<S: serde::Serializer>(sentences: &[Sentence], serializer: S) -> Result<S::Ok, S::Error> {
    let texts: Vec<&str> = sentences.iter().map(|s| s.text.as_str()).collect();
    serializer.serialize_str(&texts.join(" "))
}

/// Rows that fall short of the hardware and are worth a look.
#[derive(Debug, Clone, Serialize)]
pub struct Bottleneck {
    /// `<category>-<n>`.
    pub id: String,
    /// Operation.
    pub operation: Arc<str>,
    /// UIDs of all members.
    pub tree_uids: Vec<u32>,
    /// Members.
    #[serde(skip)]
    pub rows: Vec<RowId>,
    /// Arguments of the largest member.
    pub args: Arc<str>,
    /// Members.
    pub member_count: usize,
    /// Calls.
    pub count: usize,
    /// Kernel time, with that of copies.
    pub time_ms: Ms,
    /// Of that, copies: they have no share of what computes.
    pub copy_time_ms: Ms,
    /// Of the category.
    pub percent_of_category: Percent,
    /// Of the computation time.
    pub percent_of_compute: Percent,
    /// Of the total time.
    pub percent_of_total: Percent,
    /// Best time over time of all members.
    pub efficiency_percent: Option<Percent>,
    /// What bounds it.
    pub bound_type: Option<BoundType>,
    /// Why it is one.
    pub reasons: Vec<&'static str>,
    /// Ids of patterns that explain it.
    pub patterns: Vec<String>,
    /// Whether the top operations account for a member.
    pub in_top_ops: bool,
    /// Priority within the category.
    #[serde(serialize_with = "titled")]
    pub priority_category: Priority,
    /// Priority in the whole by share and efficiency.
    #[serde(serialize_with = "titled")]
    pub priority_by_share: Priority,
    /// Priority in the whole: that of the finding that tells it, which knows what mending it brings.
    #[serde(serialize_with = "titled")]
    pub priority: Priority,
    /// What is wrong.
    pub issue: String,
    /// The same without shapes, for where they would stand in the way.
    #[serde(skip)]
    pub brief: String,
    /// What to change in the model.
    #[serde(serialize_with = "joined")]
    pub algorithmic: Vec<Sentence>,
    /// What a kernel team can do.
    #[serde(serialize_with = "joined")]
    pub kernel: Vec<Sentence>,
    /// Templates of these texts.
    pub text_ids: Vec<&'static str>,
    /// What improving it would bring.
    pub impact: BottleneckImpact,
    /// Whether that can be counted on.
    #[serde(skip)]
    pub mending: Mending,
    /// Whether to make a replay package.
    pub replay: Replay,
    /// What the finding is called.
    #[serde(skip)]
    pub finding: Option<PatternId>,
    /// Name of the fusion candidate that covers all members.
    #[serde(skip)]
    pub covered_by: Option<Arc<str>>,
}

/// What improving a bottleneck would bring.
#[derive(Debug, Clone, Default, Serialize)]
pub struct BottleneckImpact {
    /// At the efficiencies worth naming.
    pub targets: Vec<Target>,
    /// Cautious end, in milliseconds of the window.
    pub saved_ms_low: Option<Ms>,
    /// Hopeful end.
    pub saved_ms_high: Option<Ms>,
    /// How the range was found.
    pub basis: String,
}

impl BottleneckImpact {
    /// Both ends, if there is a range.
    pub fn range(&self) -> Option<Range> {
        Some(Range::new(self.saved_ms_low?.0, self.saved_ms_high?.0))
    }
}

/// What an operation would take at another efficiency.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Target {
    /// Percent of peak.
    pub target_percent: Percent,
    /// Time it would take.
    pub time_ms: Ms,
    /// Time it would save.
    pub saved_ms: Ms,
    /// Of its own time.
    pub op_faster_percent: Percent,
    /// Of the computation time.
    pub compute_percent: Percent,
    /// Of the total time.
    pub e2e_percent: Percent,
    /// Whether its kernels can't get so short: then the time is the shortest they can have.
    #[serde(skip)]
    pub at_floor: bool,
}

/// Whether to make a replay package.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Replay {
    /// Whether.
    pub recommended: bool,
    /// Whether the rules ask for it and do not just allow it.
    #[serde(skip)]
    pub required: bool,
    /// Why, or why not.
    pub reason: String,
    /// File name, filled in when it is made.
    pub package: Option<String>,
}

/// A pattern.
#[derive(Debug, Clone, Serialize)]
pub struct PatternMetrics {
    /// `<category>-p<n>`.
    pub id: String,
    /// Code: `TINY_BATCHED_GEMM`, …
    pub pattern: &'static str,
    /// `high`, `medium`, `low`.
    pub confidence: &'static str,
    /// With numbers.
    pub evidence: Vec<String>,
    /// UIDs of the rows.
    pub tree_uids: Vec<u32>,
    /// The rows.
    #[serde(skip)]
    pub rows: Vec<RowId>,
    /// Module of the largest row.
    pub module: Option<String>,
    /// Calls.
    pub instances: usize,
    /// Kernel time.
    pub time_ms: Ms,
    /// Of the computation time.
    pub percent_of_compute: Percent,
    /// Cautious end of what the fix saves.
    pub savings_ms_low: Option<Ms>,
    /// Hopeful end.
    pub savings_ms_high: Option<Ms>,
    /// Whether it is promoted.
    pub notable: bool,
    /// Kind of the finding that tells it, if it spans several operations.
    #[serde(skip)]
    pub spans: Option<PatternId>,
    /// What the pattern becomes if it is a finding of its own and not a remark on a bottleneck.
    #[serde(skip)]
    pub promoted: Option<Promoted>,
}

impl PatternMetrics {
    /// Kind of the finding that tells it, if one may.
    pub fn told_as(&self) -> Option<PatternId> {
        self.spans.or_else(|| self.promoted.as_ref().map(|p| p.pattern))
    }
}

/// A pattern that is a finding of its own.
#[derive(Debug, Clone)]
pub struct Promoted {
    /// Its id.
    pub pattern: PatternId,
    /// One line.
    pub title: String,
    /// One line.
    pub issue: String,
    /// What to change in the model.
    pub algorithmic: Vec<Sentence>,
    /// What a kernel team can do.
    pub kernel: Vec<Sentence>,
    /// How the range was found.
    pub basis: String,
    /// Rows of other categories that the fix also explains: no finding of their own is made of them.
    pub explains: Vec<RowId>,
    /// Rows that get shorter with the fix, but are spoken of for themselves.
    pub also: Vec<RowId>,
    /// Time that the fix is about, rows of other categories included.
    pub time_ms: f64,
    /// What it saves, unrounded.
    pub saved: Range,
    /// How urgent.
    pub priority: Priority,
    /// Facts from rows of other categories.
    pub facts: Vec<String>,
    /// Whether it can be counted on.
    pub mending: Mending,
}

/// A score of the newest form of the reference: share of the total times what is missing to the peak.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImpactEstimate {
    /// Operation.
    pub operation: Arc<str>,
    /// UID of an example.
    pub tree_uid: u32,
    /// What bounds it.
    pub bound_type: Option<BoundType>,
    /// Kernel time.
    pub time_ms: Ms,
    /// Best time over time.
    pub efficiency_percent: Percent,
    /// Three quarters of the gap.
    pub impact_score_low: Ratio,
    /// Seven eighths.
    pub impact_score: Ratio,
    /// All of it.
    pub impact_score_high: Ratio,
}

/// `gpu_utilization` of metadata and manifest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names say it; see `Utilization`")]
pub struct UtilizationMetrics {
    pub total_time_ms: Ms,
    pub computation_time_ms: Ms,
    pub computation_time_percent: Percent,
    pub exposed_comm_time_ms: Ms,
    pub exposed_comm_time_percent: Percent,
    pub exposed_memcpy_time_ms: Ms,
    pub exposed_memcpy_time_percent: Percent,
    pub idle_time_ms: Ms,
    pub idle_time_percent: Percent,
    pub busy_time_ms: Ms,
    pub total_comm_time_ms: Ms,
    pub total_memcpy_time_ms: Ms,
}

mod category_file;
mod classification;
mod files;
mod operation;
mod shared;

pub use category_file::CategoryFile;
pub use classification::{
    BatchNormClass, Classification, ConvolutionClass, ConvolutionShape, ElementwiseClass, GemmClass, GemmShape,
    GenericClass, KernelBreakdown, MoeClass, NormClass, ReduceClass, SdpaClass, SdpaShape, TritonClass,
};

pub use files::{
    BaselineMetrics, Fusion, Manifest, ManifestCategory, ManifestInputs, Metadata, Parent, Peaks, Run, Sibling,
    SubtreeNode, TimeBreakdownMetrics, TopOperationMetrics, TreeEntry,
};
pub use operation::{IntensityClass, JudgedOperation, KernelMetrics, Kernels, SetAside};
pub(crate) use shared::short_name;
pub use shared::{InputDims, InputStrides, InputTypes, ModuleChain, ShortName};

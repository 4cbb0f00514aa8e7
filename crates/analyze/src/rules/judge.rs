//! The bottleneck test, the same for all categories; what a row is judged by differs.

use std::collections::BTreeMap;

use super::cx::CategoryCx;
use crate::finding::{Mending, PatternId};
use crate::metrics::SetAside;
use crate::prepare::kernel_names::is_generated;
use crate::prepare::percent;
use crate::prepared::{BoundType, EfficiencySource, Row};
use crate::program::{Direction, RowId};
use crate::thresholds::Threshold;
use jarvis_trace::InOrder;

/// Why a row is a bottleneck.
pub mod reason {
    /// It takes long.
    pub const TIME_ABS: &str = "TIME_ABS";
    /// It takes a large share of its category.
    pub const TIME_SHARE: &str = "TIME_SHARE";
    /// It is far from the hardware's peak.
    pub const LOW_EFFICIENCY: &str = "LOW_EFFICIENCY";
    /// It is below what is expected of its kind.
    pub const BELOW_BAND: &str = "BELOW_BAND";
    /// No model covers it, so only its time is known.
    pub const UNMODELED_TIME: &str = "UNMODELED_TIME";
}

/// A pattern that a single row shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RowPattern {
    /// Code: `TINY_BATCHED_GEMM`, …
    pub(crate) code: &'static str,
    /// With numbers.
    pub(crate) evidence: Vec<String>,
    /// `high`, `medium`, `low`.
    pub(crate) confidence: &'static str,
    /// Whether it is worth a remark in the priorities.
    pub(crate) notable: bool,
    /// Whether kernel work is worth while even where a fusion covers the row.
    pub(crate) kernel_work: bool,
}

impl RowPattern {
    /// A notable pattern found by composition alone.
    pub(crate) fn new(code: &'static str, evidence: Vec<String>) -> Self {
        Self { code, evidence, confidence: "medium", notable: true, kernel_work: false }
    }

    pub(crate) fn high(mut self) -> Self {
        self.confidence = "high";
        self
    }

    /// A fact and no more: it raises no priority.
    pub(crate) fn fact(mut self) -> Self {
        self.notable = false;
        self
    }

    pub(crate) fn kernel_work(mut self) -> Self {
        self.kernel_work = true;
        self
    }
}

/// What a row is judged by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Judgement {
    /// Efficiency expected of its kind, in percent.
    pub(crate) band: Option<(f64, f64)>,
    /// Efficiency below which it is slow, in percent.
    pub(crate) slow_below: f64,
    /// The same for others of its kind, where less is expected of it than of them.
    pub(crate) others_slow_below: f64,
    /// Efficiency that can be hoped for, in percent.
    pub(crate) ceiling: f64,
    /// Efficiency that can be counted on if the row is mended, where it is known better than by the usual steps.
    pub(crate) floor_target: Option<f64>,
    /// Whether its calls could be one: then they are slow even if each takes no longer than a kernel must.
    pub(crate) batchable: bool,
    /// Why nothing can be counted on, where that is so.
    pub(crate) unsure: Option<Unsure>,
    /// How much of it may be work for nothing.
    pub(crate) needless: Needless,
    /// Whether the row is left out of judgement altogether.
    pub(crate) excluded: bool,
    /// Patterns.
    pub(crate) patterns: Vec<RowPattern>,
    /// What a finding about it is called.
    pub(crate) finding: Option<PatternId>,
    /// In a word.
    pub(crate) assessment: Option<&'static str>,
    /// Limits of operations per byte above which the row is called compute-bound and below which memory-bound.
    pub(crate) intensity: (f64, f64),
}

/// Why nobody can count on an operation to get faster, however far it is from its roof.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Unsure {
    /// It adds up elements wherever its indices say: what meets in one place is added one by one.
    Scatters,
    /// A compiler wrote it for this very work.
    Generated,
    /// A convolution of few input channels.
    FewChannels,
}

impl Unsure {
    fn of(row: &Row) -> Option<Self> {
        match () {
            () if is_generated(&row.name) => Some(Self::Generated),
            () if SCATTERS.iter().any(|w| row.name.contains(w)) => Some(Self::Scatters),
            () => None,
        }
    }

    /// As a basis tells it.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::Scatters => "nothing, since elements that meet in one place are added one by one",
            Self::FewChannels => {
                "nothing, since with so few input channels the way that is fastest differs from shape to shape"
            }
            Self::Generated => "nothing, since a compiler wrote these kernels for this very work",
        }
    }
}

/// How much of an operation may be work for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Needless {
    #[default]
    Nothing,
    /// Half of it. The ceiling is that of all of it, done in the time of half.
    Half,
    All,
}

/// Words in the names of operations that put or add up elements where their indices say.
const SCATTERS: &[&str] = &["index_add", "index_put", "index_reduce", "scatter", "embedding_dense_backward"];

impl Judgement {
    /// What holds for a row of any category.
    pub(crate) fn usual(cx: &CategoryCx<'_>, row: &Row) -> Self {
        Self {
            slow_below: cx.limit(Threshold::BottleneckEfficiency),
            ceiling: cx.ceiling(row.efficiency.bound_type),
            unsure: Unsure::of(row),
            assessment: row.efficiency.judged().map(|e| assess(cx, e)),
            intensity: (cx.limit(Threshold::IntensityCompute), cx.limit(Threshold::IntensityMemory)),
            ..Self::default()
        }
    }

    /// Judged by a band: slow below its lower end, at best at its upper one, or at what memory gives.
    pub(crate) fn with_band(mut self, cx: &CategoryCx<'_>, row: &Row, low: f64, high: f64) -> Self {
        let memory = row.efficiency.bound_type == Some(BoundType::Memory);
        self.band = Some((low, high));
        self.slow_below = low;
        self.ceiling = if memory { high.min(cx.prepared.memory_ceiling()) } else { high };
        self.floor_target = Some(low);
        self
    }

    pub(crate) fn has(&self, code: &str) -> bool {
        self.patterns.iter().any(|p| p.code == code)
    }

    /// Whether what mends the row is known.
    pub(crate) fn mending(&self) -> Mending {
        match self.unsure {
            None => Mending::CountedOn,
            Some(Unsure::FewChannels) => Mending::Trial,
            Some(Unsure::Scatters | Unsure::Generated) => Mending::KernelTeam,
        }
    }
}

/// The general words for efficiencies with what follows from them, the best first.
pub(crate) const ASSESSMENTS: [(&str, &str); 4] = [
    ("Excellent", "focus on algorithmic improvements"),
    ("Good", "limited optimization potential"),
    ("Acceptable", "consider kernel optimization if the time is high"),
    ("Needs investigation", "priority for kernel optimization, generate a replay artifact"),
];

/// The general word for an efficiency.
pub(crate) fn assess(cx: &CategoryCx<'_>, percent: f64) -> &'static str {
    let place = match () {
        () if percent > cx.limit(Threshold::EffExcellent) => 0,
        () if percent >= cx.limit(Threshold::EffGood) => 1,
        () if percent >= cx.limit(Threshold::EffAcceptable) => 2,
        () => 3,
    };
    ASSESSMENTS[place].0
}

/// The word for an efficiency where memory bounds and more than good is not asked for; `low` is the one for what is not
/// acceptable.
pub(crate) fn assess_bandwidth(cx: &CategoryCx<'_>, percent: f64, low: &'static str) -> &'static str {
    match () {
        () if percent > cx.limit(Threshold::EffGood) => "Good",
        () if percent >= cx.limit(Threshold::EffAcceptable) => "Acceptable",
        () => low,
    }
}

/// A row with its judgement.
#[derive(Debug, Clone)]
pub(crate) struct Judged<'a> {
    pub(crate) row: &'a Row,
    pub(crate) judgement: Judgement,
    /// Why it is a bottleneck; empty if it is none.
    pub(crate) reasons: Vec<&'static str>,
    /// Why it is none although it is slow.
    pub(crate) set_aside: Option<SetAside>,
}

impl Judged<'_> {
    pub(crate) fn is_bottleneck(&self) -> bool {
        !self.reasons.is_empty()
    }
}

/// Tests a row. `time_ms` is the time above which it counts whatever its share.
pub(crate) fn test<'a>(cx: &CategoryCx<'_>, row: &'a Row, judgement: Judgement, time_ms: f64) -> Judged<'a> {
    let mut reasons = Vec::new();
    if row.work_ms() > time_ms {
        reasons.push(reason::TIME_ABS);
    }
    if cx.weight_in_category(row.work_ms()) > cx.limit(Threshold::BottleneckShare) {
        reasons.push(reason::TIME_SHARE);
    }
    let efficiency = &row.efficiency;
    let slow: Vec<&'static str> = match (efficiency.judged(), efficiency.source) {
        (Some(e), _) => {
            let low = e < cx.limit(Threshold::BottleneckEfficiency) && e < judgement.slow_below;
            let below = judgement.band.is_some() && e < judgement.slow_below;
            let codes = [(low, reason::LOW_EFFICIENCY), (below, reason::BELOW_BAND)];
            codes.into_iter().filter(|(holds, _)| *holds).map(|(_, code)| code).collect()
        }
        // A lower bound may clear a row and never convicts it.
        (None, EfficiencySource::ByteEstimate)
            if efficiency.efficiency_percent.is_some_and(|e| e >= judgement.slow_below) =>
        {
            Vec::new()
        }
        (None, _) if efficiency.is_anomaly || efficiency.is_shared || efficiency.lacks_rate => Vec::new(),
        (None, _) => vec![reason::UNMODELED_TIME],
    };
    let is_slow = !judgement.excluded && !slow.is_empty();
    let set_aside = match () {
        () if !is_slow => None,
        () if at_kernel_floor(cx, row, &judgement) => Some(SetAside::KernelFloor),
        () if reasons.is_empty() => Some(SetAside::SmallShare),
        () if cx.weight(row.work_ms()) < cx.limit(Threshold::ReportMinPercent) => Some(SetAside::BelowFloor),
        () => None,
    };
    reasons.extend(slow);
    if !is_slow || set_aside.is_some() {
        reasons.clear();
    }
    Judged { row, judgement, reasons, set_aside }
}

/// Whether kernels need their time just to run: a faster one would hardly be shorter. Calls that can become one are judged
/// all the same.
fn at_kernel_floor(cx: &CategoryCx<'_>, row: &Row, judgement: &Judgement) -> bool {
    let modelled = row.efficiency.judged().is_some();
    let best = row.efficiency.roofline_time_us.unwrap_or_default() * row.count as f64 / 1e3;
    let kernels = row.only_kernels();
    let floor_ms = cx.prepared.kernel_floor_us * kernels.count / 1e3;
    let of_floor = percent(floor_ms, kernels.ms).max(percent(best, row.time_ms));
    // However little is expected of an operation, one that takes many times as long has more to do than to run.
    let expected = judgement.slow_below.max(judgement.others_slow_below);
    let least = expected.max(cx.limit(Threshold::BottleneckEfficiency));
    modelled && !judgement.batchable && of_floor >= least
}

/// Bottleneck rows of one operation that are bound by the same thing, belong to the same pass and have the same fix, or
/// none that can be counted on for the same reason.
#[derive(Debug, Clone)]
pub(crate) struct Group<'a> {
    /// Members, most time first.
    pub(crate) members: Vec<&'a Judged<'a>>,
    pub(crate) time_ms: f64,
    /// Best time over time of the members that have one.
    pub(crate) efficiency: Option<f64>,
}

impl<'a> Group<'a> {
    /// The member with most time.
    pub(crate) fn largest(&self) -> &'a Judged<'a> {
        self.members[0]
    }

    pub(crate) fn row(&self) -> &'a Row {
        self.largest().row
    }

    pub(crate) fn rows(&self) -> Vec<RowId> {
        self.members.iter().map(|m| m.row.id).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.members.iter().map(|m| m.row.count).sum()
    }

    pub(crate) fn has(&self, code: &str) -> bool {
        self.members.iter().any(|m| m.judgement.has(code))
    }
}

type Key<'a> = (&'a str, Option<u8>, Direction, Option<PatternId>, Option<Unsure>);

/// Groups bottleneck rows, most time first.
pub(crate) fn groups<'a>(judged: &'a [Judged<'a>]) -> Vec<Group<'a>> {
    let bound = |b: Option<BoundType>| b.map(|b| b as u8);
    let mut by_key: BTreeMap<Key<'a>, Vec<&'a Judged<'a>>> = BTreeMap::new();
    for j in judged.iter().filter(|j| j.is_bottleneck()) {
        let judgement = &j.judgement;
        let bound = bound(j.row.efficiency.bound_type);
        let key = (&*j.row.name, bound, j.row.direction, judgement.finding, judgement.unsure);
        by_key.entry(key).or_default().push(j);
    }
    let mut out: Vec<Group<'a>> = by_key.into_values().map(group).collect();
    out.order_by(|a, b| b.time_ms.total_cmp(&a.time_ms).then_with(|| crate::prepare::order(a.row(), b.row())));
    out
}

/// These as one group, most time first.
pub(crate) fn group<'a>(members: Vec<&'a Judged<'a>>) -> Group<'a> {
    let time_ms = members.iter().map(|m| m.row.time_ms).sum();
    let efficiency = aggregate(members.iter().map(|m| m.row));
    Group { members, time_ms, efficiency }
}

/// Best time over time of the rows that have one, in percent.
pub(crate) fn aggregate<'r>(rows: impl Iterator<Item = &'r Row>) -> Option<f64> {
    let (mut time, mut best) = (0.0, 0.0);
    for row in rows {
        if let Some(e) = row.efficiency.judged() {
            time += row.time_ms;
            best += e * row.time_ms;
        }
    }
    (time > 0.0).then(|| best / time)
}

//! Memory layout of images: which one a row has, and what changing it would bring.

use jarvis_perf::call::{Dims, InputLists};

use super::cx::CategoryCx;
use super::impact::{row_saved, saved, together};
use super::judge::{Judged, Judgement, aggregate};
use super::layout_gradient::FirstGradients;
use super::layout_loss::{Losses, OddGroups, TurningNorms};
use super::layout_volumes::VolumeNorms;
use super::priority::Weight;
use super::words::Said;
use crate::finding::{Mending, PatternId, Priority, Range};
use crate::metrics::{PatternMetrics, Promoted};
use crate::prepare::{kernel_names, percent};
use crate::prepared::{Prepared, Row};
use crate::program::RowId;
use crate::rounding::{Ms, Percent, shown, shown_ms};
use crate::texts::{TextId, counted};
use crate::thresholds::Threshold;

/// Code of the pattern.
pub(crate) const CODE: &str = "TRANSPOSE_OVERHEAD";

/// How the channels of an image lie in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    ChannelsLast,
    Contiguous,
    Other,
}

impl Layout {
    /// Of the first image of a row: channels-last if neighbouring channels are neighbours in memory.
    pub(crate) fn of(row: &Row) -> Self {
        Self::of_inputs(&row.inputs).unwrap_or(Self::Other)
    }

    pub(super) fn of_inputs(inputs: &InputLists) -> Option<Self> {
        let (dims, strides) = (inputs.dims.as_ref()?, inputs.strides.as_ref()?);
        let (d, s) = dims.iter().zip(strides.iter()).find_map(|(d, s)| {
            let (d, s) = (first_shape(d)?, first_shape(s)?);
            (d.len() >= 3 && d.len() == s.len()).then_some((d, s))
        })?;
        Some(match () {
            () if s[1] == 1 && d[1] > 1 => Self::ChannelsLast,
            () if crate::prepare::baseline::is_contiguous(d, s) => Self::Contiguous,
            () => Self::Other,
        })
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::ChannelsLast => "channels_last",
            Self::Contiguous => "contiguous",
            Self::Other => "other",
        }
    }
}

/// What the layouts of images or volumes are called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LayoutNames {
    /// PyTorch's name of the layout with channels last.
    pub(crate) format: &'static str,
    /// That layout by its dimensions.
    pub(crate) last: &'static str,
    /// What to do.
    advice: TextId,
}

const IMAGES: LayoutNames =
    LayoutNames { format: "torch.channels_last", last: "NHWC", advice: TextId::A_CHANNELS_LAST };
const VOLUMES: LayoutNames =
    LayoutNames { format: "torch.channels_last_3d", last: "NDHWC", advice: TextId::A_CHANNELS_LAST_3D };

impl LayoutNames {
    /// For what a row works on: images if nothing is recorded. Tensors of fewer dimensions have no memory format.
    pub(crate) fn of(row: &Row) -> Option<Self> {
        match dimensions(row) {
            None | Some(4) => Some(IMAGES),
            Some(5) => Some(VOLUMES),
            Some(_) => None,
        }
    }
}

/// Dimensions of a row's first tensor.
fn dimensions(row: &Row) -> Option<usize> {
    row.inputs.dims.as_ref()?.iter().find_map(|d| first_shape(d).map(<[i64]>::len).filter(|n| *n > 0))
}

/// Sizes of a tensor, or of the first of a list.
fn first_shape(dims: &Dims) -> Option<&[i64]> {
    match dims {
        Dims::Shape(shape) => Some(shape),
        Dims::List(list) => list.first().map(Vec::as_slice),
    }
}

/// Whether the trace has convolutions, and most transposes around them would go with another layout.
pub(crate) fn may_change(p: &Prepared) -> bool {
    let Some(category) = p.category("convolution") else { return false };
    let all: f64 = category.rows.iter().map(|&r| transposes(p.row(r)).1).sum();
    OddGroups::of(&p.rows).ms <= 0.5 * all
}

/// Kernels of a row that only change the layout, and their time in milliseconds.
pub(crate) fn transposes(row: &Row) -> (usize, f64) {
    let kernels = row.kernels.iter().filter(|k| kernel_names::is_transpose(&k.name));
    kernels.fold((0, 0.0), |(n, ms), k| (n + k.count, ms + k.total_us / 1e3))
}

/// The same, of rows whose layout is to blame: where images lie channels-last already, it is the kernels of their
/// precision that want another.
pub(super) fn turned_ms(row: &Row) -> f64 {
    if Layout::of(row) == Layout::ChannelsLast { 0.0 } else { transposes(row).1 }
}

/// What changing the layout of a model would touch.
struct Fix<'a> {
    /// Convolutions whose layout is at fault.
    convolutions: Vec<&'a Judged<'a>>,
    /// Batch norms that work on the same images.
    norms: Vec<&'a Row>,
    /// Those on volumes.
    volumes: VolumeNorms<'a>,
    /// Poolings that do.
    pools: Vec<&'a Row>,
    /// What else does, and is slower on such images.
    losses: Losses<'a>,
    /// Gradients that do not come channels-last by themselves.
    gradients: FirstGradients,
    /// Norms that turn them back.
    turning: TurningNorms,
    transposes: usize,
    transpose_ms: f64,
    outlook: Outlook,
}

/// Whether another layout helps.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outlook {
    /// Nothing speaks against it.
    Good,
    /// Group or instance norms take a good part: they give images back channels first.
    Doubtful,
    /// What is slower on such images loses more than the rest gains, as far as is known.
    Worse,
    /// The images are channels-last already.
    Done,
    /// Tensors of 1-D convolutions have one memory format: the convolutions must be written in another way.
    NoFormat,
}

/// Norms with kernels for channels first only count from this share of the convolutions' time on, in percent.
const OTHER_NORMS_PERCENT: f64 = 10.0;

impl<'a> Fix<'a> {
    fn of(cx: &CategoryCx<'a>, judged: &'a [Judged<'a>], is_plain: &dyn Fn(&Judgement) -> bool) -> Self {
        let (count, ms) = judged.iter().map(|j| transposes(j.row)).fold((0, 0.0), |a, b| (a.0 + b.0, a.1 + b.1));
        let touched = |j: &&Judged<'_>| {
            transposes(j.row).0 > 0
                || Layout::of(j.row) == Layout::Contiguous
                    && is_plain(&j.judgement)
                    && j.row.efficiency.judged().is_some_and(|e| e < j.judgement.slow_below)
        };
        let turning = TurningNorms::of(&cx.prepared.rows);
        let mut fix = Self {
            convolutions: judged.iter().filter(touched).collect(),
            norms: norms(cx),
            volumes: VolumeNorms::of(cx.prepared),
            pools: channels_first(cx).filter(|r| r.name.contains("pool") && is_image(r)).collect(),
            losses: Losses::of(&cx.prepared.rows),
            gradients: FirstGradients::of(cx),
            turning,
            transposes: count,
            transpose_ms: ms,
            outlook: outlook(cx, judged, ms, turning),
        };
        let expected: f64 = fix.parts(cx).iter().map(|r| f64::midpoint(r.low, r.high)).sum();
        if fix.outlook == Outlook::Good && expected <= 0.0 {
            fix.outlook = Outlook::Worse;
        }
        fix
    }

    /// Whether there are transposes that stay for want of kernels.
    fn has_odd_groups(&self) -> bool {
        self.losses.grouped.ms > 0.0
    }

    /// Transposes that go.
    fn going_ms(&self) -> f64 {
        (self.transpose_ms - self.losses.grouped.ms).max(0.0)
    }

    /// The rows that the fix explains: all it touches, or just those that change the layout if it may not help.
    fn rows(&self) -> Vec<&'a Row> {
        let good = self.outlook == Outlook::Good;
        let convolutions = self.convolutions.iter().map(|j| j.row).filter(|r| good || transposes(r).0 > 0);
        let others = self.norms.iter().chain(&self.pools).copied().filter(|_| good);
        let volumes = self.volumes.rows.iter().copied().filter(|_| good && !self.volumes.lose());
        convolutions.chain(others).chain(volumes).collect()
    }

    /// Transposes go, and batch norms gain. Convolutions and poolings in the wrong layout gain nothing at worst, and come
    /// to their band and to a cautious share of the bandwidth at best. What is slower on such images takes part of it back.
    fn saving(&self, cx: &CategoryCx<'_>) -> Range {
        match self.outlook {
            Outlook::Good => together(&self.parts(cx)),
            Outlook::Worse if self.has_odd_groups() => Range::new(0.0, self.transpose_ms),
            Outlook::Worse => Range::new(0.0, together(&self.parts(cx)).high),
            Outlook::Doubtful => Range::new(0.0, (self.staying_ms() - self.losses.ms.low).max(0.0)),
            Outlook::Done | Outlook::NoFormat => Range::new(0.0, self.transpose_ms),
        }
    }

    /// What goes and what gets faster, less what gets slower.
    fn parts(&self, cx: &CategoryCx<'_>) -> [Range; 7] {
        let going = self.going_ms();
        let pools = saved_by(cx, &self.pools, cx.limit(Threshold::ImpactCautiousMemory), 0.0);
        // No other kernels are at hand for groups whose transposes stay.
        let gaining = self.convolutions.iter().filter(|j| !OddGroups::has(j.row));
        let convolutions: f64 = gaining.map(|j| rest_saving(j)).sum();
        [
            Range::new(cx.limit(Threshold::ImpactLowFactor) * going, going),
            norm_saving(cx, &self.norms),
            self.volumes.saving(),
            Range::new(0.0, convolutions),
            Range::new(0.0, pools),
            Range { low: -self.losses.ms.high, high: -self.losses.ms.low },
            Range { low: -self.gradients.ms.high, high: -self.gradients.ms.low },
        ]
    }

    /// Operations that are slower on images of another layout, each once.
    fn losing(&self) -> String {
        let norms = self.volumes.rows.first().filter(|_| self.volumes.lose()).map(|r| format!("`{}`", r.name));
        let others = Some(self.losses.names()).filter(|names| !names.is_empty());
        norms.into_iter().chain(others).collect::<Vec<_>>().join(", ")
    }

    /// Transposes that stay away where norms turn images back, less what it costs those.
    fn staying_ms(&self) -> f64 {
        let turned = self.convolutions.iter().filter(|j| transposes(j.row).0 > 0).map(|j| j.row.count).sum();
        (self.turning.leave(turned) * self.transpose_ms - self.turning.loss_ms().low).max(0.0)
    }

    /// Of that, what the transposes stand for and the batch norms that they keep in the other layout.
    fn own_saving(&self, cx: &CategoryCx<'_>) -> Range {
        match self.outlook {
            Outlook::Good => {
                let low = cx.limit(Threshold::ImpactLowFactor) * self.going_ms();
                let norms = norm_saving(cx, &self.norms).high + self.volumes.saving().high.max(0.0);
                Range::new(low, self.going_ms() + norms)
            }
            Outlook::Worse => Range::new(0.0, self.saving(cx).high.min(self.transpose_ms)),
            Outlook::Doubtful => Range::new(0.0, self.staying_ms()),
            Outlook::Done | Outlook::NoFormat => Range::new(0.0, self.transpose_ms),
        }
    }
}

/// Slow rows on images in another layout than channels-last.
fn channels_first<'a>(cx: &CategoryCx<'a>) -> impl Iterator<Item = &'a Row> {
    let slow = cx.limit(Threshold::BottleneckEfficiency);
    let first =
        move |r: &&Row| Layout::of(r) != Layout::ChannelsLast && r.efficiency.judged().is_some_and(|e| e < slow);
    cx.prepared.rows.iter().filter(first)
}

/// Batch norms that another layout would make faster: those on images.
pub(super) fn norms<'a>(cx: &CategoryCx<'a>) -> Vec<&'a Row> {
    channels_first(cx).filter(|r| &*r.category == "batchnorm" && !is_volume(r)).collect()
}

/// What they save: they come to an acceptable share of the bandwidth at least, if they are large enough to get there, and
/// to the memory ceiling at best.
pub(super) fn norm_saving(cx: &CategoryCx<'_>, norms: &[&Row]) -> Range {
    let large = cx.limit(Threshold::BaselineMinMb);
    let low = saved_by(cx, norms, cx.limit(Threshold::EffAcceptable), large);
    Range::new(cx.limit(Threshold::ImpactLowFactor) * low, saved_by(cx, norms, cx.prepared.memory_ceiling(), 0.0))
}

/// What rows that move at least so many megabytes save if they reach a share of the bandwidth.
fn saved_by(cx: &CategoryCx<'_>, rows: &[&Row], target: f64, min_mb: f64) -> f64 {
    let rows = rows.iter().filter(|r| r.data_moved_mb.is_some_and(|mb| mb >= min_mb));
    rows.map(|r| row_saved(cx, r, target)).sum()
}

fn outlook(cx: &CategoryCx<'_>, judged: &[Judged<'_>], transpose_ms: f64, turning: TurningNorms) -> Outlook {
    let of = |which: &dyn Fn(&Row) -> bool| -> f64 {
        judged.iter().filter(|j| which(j.row)).map(|j| transposes(j.row).1).sum()
    };
    let last_ms = of(&|row| Layout::of(row) == Layout::ChannelsLast);
    let flat_ms = of(&|row| LayoutNames::of(row).is_none());
    match () {
        () if last_ms > 0.5 * transpose_ms => Outlook::Done,
        () if flat_ms > 0.5 * transpose_ms => Outlook::NoFormat,
        () if cx.of_category(turning.ms) >= OTHER_NORMS_PERCENT => Outlook::Doubtful,
        () => Outlook::Good,
    }
}

/// Whether the first tensor of a row has a batch, channels and at least two sides.
pub(super) fn is_image(row: &Row) -> bool {
    dimensions(row).is_some_and(|n| n >= 4)
}

/// Whether the first tensor of a row has a batch, channels and three sides.
pub(super) fn is_volume(row: &Row) -> bool {
    dimensions(row) == Some(5)
}

/// What the kernels of a convolution that compute would save at the lower end of its band.
fn rest_saving(j: &Judged<'_>) -> f64 {
    let (_, transposes) = transposes(j.row);
    let rest = j.row.time_ms - transposes;
    let (Some(e), Some((low, _))) = (j.row.efficiency.judged(), j.judgement.band) else { return 0.0 };
    if rest <= 0.0 { 0.0 } else { saved(rest, e * j.row.time_ms / rest, low) }
}

/// The pattern of a category whose kernels change layouts a lot; `is_plain` tells which convolutions have good kernels
/// for the other layout.
pub(crate) fn pattern(
    cx: &CategoryCx<'_>,
    judged: &[Judged<'_>],
    is_plain: &dyn Fn(&Judgement) -> bool,
) -> Option<PatternMetrics> {
    let fix = Fix::of(cx, judged, is_plain);
    let share = percent(fix.transpose_ms, cx.category.time_ms);
    let largest = fix.convolutions.first()?;
    if fix.transposes == 0 || share < cx.limit(Threshold::ConvTransposeModerate) {
        return None;
    }
    let (saving, own) = (fix.saving(cx), fix.own_saving(cx));
    let touched: f64 = fix.rows().iter().map(|r| r.time_ms).sum();
    let weighty = cx.of_compute(touched) >= cx.limit(Threshold::ReportMinPercent);
    let rows: Vec<RowId> = fix.convolutions.iter().map(|j| j.row.id).collect();
    let with: Vec<&Judged<'_>> = judged.iter().filter(|j| transposes(j.row).0 > 0).collect();
    Some(PatternMetrics {
        id: String::new(),
        pattern: CODE,
        confidence: "high",
        evidence: vec![
            format!("{}% of convolution time", shown(share, 1)),
            format!("{}, {} ms", counted(fix.transposes, "kernel"), shown_ms(fix.transpose_ms)),
        ],
        tree_uids: with.iter().map(|j| j.row.uid).collect(),
        module: largest.row.module_path.last().map(|m| crate::program::base_name(m).to_owned()),
        instances: with.iter().map(|j| j.row.count).sum(),
        time_ms: Ms(fix.transpose_ms),
        percent_of_compute: Percent(cx.of_compute(fix.transpose_ms)),
        savings_ms_low: Some(Ms(own.low)),
        savings_ms_high: Some(Ms(own.high)),
        notable: true,
        spans: None,
        promoted: (weighty && saving.high > 0.0).then(|| promoted(cx, &fix, share, saving)),
        rows,
    })
}

fn promoted(cx: &CategoryCx<'_>, fix: &Fix<'_>, share: f64, saving: Range) -> Promoted {
    let mut said = Said::default();
    let ms = shown_ms(fix.transpose_ms);
    let norm_ms: f64 = fix.norms.iter().map(|r| r.time_ms).sum();
    let norms = match norm_ms {
        0.0 => String::new(),
        ms => format!("; batch norms on channels-first images take {} ms", shown_ms(ms)),
    };
    let count = fix.transposes.to_string();
    let values = [("pct", &*shown(share, 1)), ("count", &count), ("time", &ms), ("norms", &norms)];
    said.issue(TextId::I_TRANSPOSE, &values);
    let names = fix.convolutions.iter().find_map(|j| LayoutNames::of(j.row)).unwrap_or(IMAGES);
    let share = percent(fix.going_ms(), cx.category.time_ms);
    let sure = fix.outlook == Outlook::Good && share > cx.limit(Threshold::ConvTransposeHigh) && saving.low > 0.0;
    match fix.outlook {
        Outlook::Done => said.model(TextId::A_LIMITED, &[]),
        Outlook::NoFormat => said.model(TextId::A_LAYOUT_1D, &[("pct", &shown(share, 1))]),
        Outlook::Worse if fix.has_odd_groups() => {
            said.model(TextId::A_ODD_GROUPS, &[("format", names.format), ("groups", &fix.losses.grouped.widths())]);
        }
        Outlook::Worse => said.model(
            TextId::A_CHANNELS_LAST_SLOWER,
            &[("pct", &*shown(share, 1)), ("format", names.format), ("ops", &fix.losing())],
        ),
        Outlook::Good if sure => {
            said.model(names.advice, &[("pct", &shown(share, 1))]);
            if cx.prepared.platform.vendor.as_deref() == Some("AMD") {
                said.model(TextId::A_CHANNELS_LAST_AMD, &[]);
            }
        }
        Outlook::Good if saving.low <= 0.0 && !fix.losing().is_empty() => said.model(
            TextId::A_CHANNELS_LAST_SLOWER,
            &[("pct", &*shown(share, 1)), ("format", names.format), ("ops", &fix.losing())],
        ),
        _ => said.model(TextId::A_CHANNELS_LAST_MAYBE, &[("pct", &*shown(share, 1)), ("format", names.format)]),
    }
    if fix.outlook == Outlook::Good && fix.gradients.sums > 0 {
        said.model(TextId::A_TURN_GRADIENT, &[("format", names.format)]);
    }
    said.replay();
    let rows = fix.rows();
    let time_ms: f64 = rows.iter().map(|r| r.time_ms).sum();
    let conv_ms: f64 = fix.convolutions.iter().map(|j| j.row.time_ms).sum();
    let weight = Weight {
        in_top_ops: rows.iter().any(|r| r.in_top_ops),
        efficiency: aggregate(rows.iter().copied()),
        percent_of_category: cx.of_category(conv_ms),
        percent_of_compute: cx.of_compute(time_ms),
        category_percent_of_compute: cx.category.percent_of_compute,
        notable: true,
    };
    let basis = basis(cx, fix, &ms, norm_ms);
    let mut facts = vec![format!("{} layout-changing kernels take {ms} ms", fix.transposes)];
    if !fix.norms.is_empty() {
        facts.push(format!("{} ms of batch norm work on channels-first inputs", shown_ms(norm_ms)));
    }
    Promoted {
        pattern: PatternId::LAYOUT_TRANSPOSES,
        title: "Layout transposes around convolutions".to_owned(),
        issue: said.issue,
        algorithmic: said.algorithmic,
        kernel: said.kernel,
        basis,
        explains: rows.iter().map(|r| r.id).collect(),
        also: Vec::new(),
        time_ms,
        saved: saving,
        priority: if fix.outlook == Outlook::Good {
            weight.overall(cx)
        } else {
            weight.overall(cx).max(Priority::Medium)
        },
        facts,
        mending: Mending::CountedOn,
    }
}

fn basis(cx: &CategoryCx<'_>, fix: &Fix<'_>, transpose_ms: &str, norm_ms: f64) -> String {
    if fix.outlook == Outlook::Worse && fix.has_odd_groups() {
        let slower = shown_ms(fix.losses.ms.high);
        return format!(
            "{transpose_ms} ms of transposes go at best, with groups that there are kernels for; as they are, \
             channels-last images cost up to {slower} ms more and gain less"
        );
    }
    let going = if fix.has_odd_groups() { format!("{} of ", shown_ms(fix.going_ms())) } else { String::new() };
    let mut parts = vec![format!("{going}{transpose_ms} ms of transposes go")];
    match fix.outlook {
        Outlook::Done => {
            parts.push("the images are channels-last already, so only other kernels remove them".to_owned());
        }
        Outlook::NoFormat => {
            parts.push("tensors of 1-D convolutions have no other memory format, so that nothing is sure".to_owned());
        }
        Outlook::Doubtful => {
            let loss = fix.turning.loss_ms();
            parts.push(format!(
                "but {} of group or instance norms turn the images back for as many convolutions and take {}-{} ms longer \
                 on channels-last ones",
                counted(fix.turning.calls, "call"),
                shown_ms(loss.low),
                shown_ms(loss.high)
            ));
        }
        Outlook::Good | Outlook::Worse => {
            if !fix.norms.is_empty() {
                parts.push(format!(
                    "{} ms of batch norm on channels-first inputs run at {}% of bandwidth now and would at {}-{}%",
                    shown_ms(norm_ms),
                    shown(aggregate(fix.norms.iter().copied()).unwrap_or_default(), 1),
                    shown(cx.limit(Threshold::EffAcceptable), 0),
                    shown(cx.prepared.memory_ceiling(), 0),
                ));
            }
            if !fix.volumes.rows.is_empty() {
                parts.push(format!(
                    "{} ms of batch norm on volumes take {}-{} ms on channels-last ones, by what their kernels were measured \
                     to take",
                    shown_ms(fix.volumes.now_ms),
                    shown_ms(fix.volumes.then_ms.low),
                    shown_ms(fix.volumes.then_ms.high)
                ));
            }
            parts.push("convolutions reach the lower end of their band at best".to_owned());
            if fix.losses.ms.high > 0.0 {
                parts.push(format!(
                    "{} may take {}-{} ms longer on channels-last images",
                    fix.losses.names(),
                    shown_ms(fix.losses.ms.low),
                    shown_ms(fix.losses.ms.high)
                ));
            }
            if fix.gradients.sums > 0 {
                parts.push(format!(
                    "the gradient of {} of images comes channels first from an average, and if it is not turned they and \
                     their blocks take up to {} ms longer in the backward pass",
                    counted(fix.gradients.sums, "sum"),
                    shown_ms(fix.gradients.ms.high)
                ));
            }
            let factor = shown(cx.limit(Threshold::ImpactLowFactor), 2);
            parts.push(format!("the cautious end counts {factor} of what goes; deviations add in squares"));
        }
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_from_strides() {
        let layout = |d: &[i64], s: &[i64]| {
            let inputs = InputLists {
                dims: Some([Dims::Shape(d.to_vec())].into()),
                strides: Some([Dims::Shape(s.to_vec())].into()),
                ..InputLists::default()
            };
            Layout::of_inputs(&inputs)
        };
        assert_eq!(layout(&[2, 3, 4, 5], &[60, 1, 15, 3]), Some(Layout::ChannelsLast));
        assert_eq!(layout(&[2, 3, 4, 5], &[60, 20, 5, 1]), Some(Layout::Contiguous));
        assert_eq!(layout(&[2, 3, 4, 5], &[120, 40, 5, 1]), Some(Layout::Other));
        assert_eq!(layout(&[2, 1, 1, 1], &[1, 1, 1, 1]), Some(Layout::Contiguous), "one channel has no layout");
        assert_eq!(layout(&[4, 5], &[5, 1]), None);
    }
}

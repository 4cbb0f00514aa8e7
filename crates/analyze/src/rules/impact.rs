//! What improving an operation would bring.

use crate::finding::Range;
use crate::metrics::{BottleneckImpact, ImpactEstimate, Target};
use crate::prepared::Row;
use crate::rounding::{Ms, Percent, Ratio, of_peak, shown, shown_ms};
use crate::thresholds::Threshold;

use super::cx::CategoryCx;
use super::judge::{Group, Judged, Judgement, Needless};

/// Efficiencies that projections name.
const STEPS: [f64; 3] = [20.0, 50.0, 80.0];

/// A step is worth naming if it lies this far above what is reached, in percent of peak.
const MIN_STEP: f64 = 5.0;

/// Projections that differ by less than this are one, in milliseconds: files show no more decimals.
const SAME_MS: f64 = 0.0005;

/// What is left exceeds the projection by this factor if the time a kernel needs just to run is the limit.
const FLOOR_FACTOR: f64 = 1.05;

/// Time saved if `ms` at efficiency `from` ran at `to`, both in percent.
pub(crate) fn saved(ms: f64, from: f64, to: f64) -> f64 {
    if to > from && from > 0.0 { ms * (1.0 - from / to) } else { 0.0 }
}

/// Time saved if a row ran at `to` percent; its kernels keep the time they need just to run.
pub(crate) fn row_saved(cx: &CategoryCx<'_>, row: &Row, to: f64) -> f64 {
    saved_above(row, to, cx.prepared.floor_ms(row))
}

fn saved_above(row: &Row, to: f64, floor_ms: f64) -> f64 {
    let e = row.efficiency.judged().unwrap_or_default();
    saved(row.time_ms, e, to).min((row.time_ms - floor_ms).max(0.0))
}

/// What several parts save together. They are estimated apart and rarely all come out at the same end, so their
/// deviations add in squares.
pub(crate) fn together(parts: &[Range]) -> Range {
    let middle: f64 = parts.iter().map(|r| f64::midpoint(r.low, r.high)).sum();
    let spread: f64 = parts.iter().map(|r| ((r.high - r.low) / 2.0).powi(2)).sum::<f64>().sqrt();
    Range::new(middle - spread, middle + spread)
}

/// Range of what mending a row saves: up to the ceiling at best; at least to the lower end of its band, or to the next
/// step above what it reaches.
pub(crate) fn row_range(cx: &CategoryCx<'_>, row: &Row, judgement: &Judgement) -> Option<Range> {
    let e = row.efficiency.judged().filter(|&e| e > 0.0)?;
    let floor_ms = floor_ms(cx, row, judgement);
    let high =
        if judgement.needless == Needless::All { row.time_ms } else { saved_above(row, judgement.ceiling, floor_ms) };
    let target = low_target(e, judgement);
    let low = match target {
        _ if judgement.unsure.is_some() => 0.0,
        Some(target) => saved_above(row, target, cautious_floor_ms(cx, row, judgement)),
        None => cx.limit(Threshold::ImpactLowFactor) * high,
    };
    Some(Range::new(low.min(high), high))
}

/// The shortest a mended row can be. Calls that become one need the time of one kernel and not of all.
fn floor_ms(cx: &CategoryCx<'_>, row: &Row, judgement: &Judgement) -> f64 {
    if judgement.batchable { cx.prepared.kernel_floor_us / 1e3 } else { cx.prepared.floor_ms(row) }
}

/// The same for what can be counted on. How many calls of a loop can become one a trace does not tell: it is taken for no
/// more than make one, and those for as long together as one is now.
fn cautious_floor_ms(cx: &CategoryCx<'_>, row: &Row, judgement: &Judgement) -> f64 {
    let floor = floor_ms(cx, row, judgement);
    if is_looped(cx, row, judgement) {
        floor.max(row.time_ms / cx.limit(Threshold::GemmTinyLoop).max(1.0))
    } else {
        floor
    }
}

fn is_looped(cx: &CategoryCx<'_>, row: &Row, judgement: &Judgement) -> bool {
    judgement.batchable && row.back_to_back.calls as f64 >= cx.limit(Threshold::GemmTinyLoop)
}

/// Time saved if a group ran at `to` percent, and whether its kernels can't get so short.
pub(crate) fn group_saved(cx: &CategoryCx<'_>, group: &Group<'_>, to: f64) -> (f64, bool) {
    let of_row = |m: &&Judged<'_>| saved_above(m.row, to, floor_ms(cx, m.row, &m.judgement));
    let most: f64 = group.members.iter().map(of_row).sum();
    let hoped = saved(group.time_ms, group.efficiency.unwrap_or_default(), to);
    (hoped.min(most), group.time_ms - most > FLOOR_FACTOR * (group.time_ms - hoped))
}

/// The efficiency a mended row can be counted on to reach; `None` if no step lies between it and the ceiling.
fn low_target(e: f64, judgement: &Judgement) -> Option<f64> {
    let step = STEPS.into_iter().find(|&s| s >= e + MIN_STEP);
    judgement.floor_target.filter(|&t| t > e).or(step).filter(|&t| t < judgement.ceiling)
}

/// The percentage of peak that a group can reach: that of its largest member, or of all, each at its own, where that one
/// does not tell for the others.
pub(crate) fn ceiling(group: &Group<'_>) -> f64 {
    let largest = group.largest().judgement.ceiling;
    if group.efficiency.is_none_or(|e| e < largest) {
        return largest;
    }
    let (mut best, mut left) = (0.0, 0.0);
    for member in &group.members {
        let Some(e) = member.row.efficiency.judged() else { continue };
        let reached = member.judgement.ceiling.max(e);
        best += e * member.row.time_ms;
        left += if reached > 0.0 { e * member.row.time_ms / reached } else { 0.0 };
    }
    if left > 0.0 { best / left } else { largest }
}

/// The upper end of what mending a group saves.
pub(crate) fn hoped(cx: &CategoryCx<'_>, group: &Group<'_>) -> f64 {
    group.members.iter().filter_map(|m| row_range(cx, m.row, &m.judgement)).map(|r| r.high).sum()
}

/// Projections to higher and higher efficiencies, as long as they differ: kernels that can't get any shorter take the same
/// time at all of them.
fn targets(cx: &CategoryCx<'_>, group: &Group<'_>, e: f64, ceiling: f64) -> Vec<Target> {
    let named = STEPS[..2].iter().copied().filter(|&s| s >= e + MIN_STEP && s < ceiling);
    let mut out: Vec<Target> = Vec::new();
    for to in named.chain(Some(ceiling).filter(|&c| c > e)) {
        let next = target(cx, group, to);
        if out.last().is_none_or(|last| next.saved_ms.0 > last.saved_ms.0 + SAME_MS) {
            out.push(next);
        }
    }
    out
}

/// Impact of mending all members of a group.
pub(crate) fn of_group(cx: &CategoryCx<'_>, group: &Group<'_>) -> BottleneckImpact {
    let ranges: Vec<Range> = group.members.iter().filter_map(|m| row_range(cx, m.row, &m.judgement)).collect();
    let Some(e) = group.efficiency.filter(|_| !ranges.is_empty()) else {
        return BottleneckImpact { basis: "no performance model, so no projection".to_owned(), ..Default::default() };
    };
    let (low, high) = ranges.iter().fold((0.0, 0.0), |(l, h), r| (l + r.low, h + r.high));
    let judgement = &group.largest().judgement;
    let targets = targets(cx, group, e, self::ceiling(group));
    let reached = match cautious_target(group) {
        _ if let Some(unsure) = judgement.unsure => unsure.why().to_owned(),
        Cautious::One(t) if is_looped(cx, group.row(), judgement) => {
            let calls = shown(cx.limit(Threshold::GemmTinyLoop), 0);
            format!("{}% of peak, and no more than {calls} {MADE_ONE}", shown(t, 0))
        }
        Cautious::One(t) => format!("{}% of peak", shown(t, 0)),
        Cautious::Bands => "the lower end of what is expected of each shape".to_owned(),
        Cautious::Steps => "the next of 20, 50 and 80% of peak for each shape".to_owned(),
        Cautious::PartOfHigh => format!("{} of that", shown(cx.limit(Threshold::ImpactLowFactor), 2)),
    };
    let left = group.time_ms - high;
    let basis = format!(
        "{} ms at {}% of peak would take {} ms {}; the cautious end assumes {reached}",
        shown_ms(group.time_ms),
        of_peak(e),
        shown_ms(left),
        best_case(group, left),
    );
    BottleneckImpact { targets, saved_ms_low: Some(Ms(low)), saved_ms_high: Some(Ms(high)), basis }
}

/// Said of what is left where all of it is work for nothing.
pub const NOT_NEEDED: &str = "where it is not needed";

/// Said of what is left where the time that kernels need just to run is the limit.
pub const SHORTEST: &str = "with kernels that can't get any shorter";

/// Said where the calls of a loop become one.
pub const MADE_ONE: &str = "calls made one";

/// What is left of a group at best, in words. Only where its kernels need that time just to run is it told so: shapes may
/// have ceilings of their own.
fn best_case(group: &Group<'_>, left_ms: f64) -> String {
    let at_ceiling = |m: &&Judged<'_>| {
        let e = m.row.efficiency.judged().unwrap_or_default();
        m.row.time_ms - saved(m.row.time_ms, e, m.judgement.ceiling)
    };
    let without_floor: f64 = group.members.iter().map(at_ceiling).sum();
    let ceiling = group.largest().judgement.ceiling;
    let is_needless = |part: Needless| group.members.iter().all(|m| m.judgement.needless == part);
    let differs = |m: &&Judged<'_>| (m.judgement.ceiling - ceiling).abs() > f64::EPSILON;
    match () {
        () if left_ms > FLOOR_FACTOR * without_floor => SHORTEST.to_owned(),
        () if is_needless(Needless::All) => NOT_NEEDED.to_owned(),
        () if is_needless(Needless::Half) => {
            format!("with half of the work at {}%", shown(ceiling / 2.0, 0))
        }
        () if group.members.iter().any(differs) || group.efficiency.is_some_and(|e| e >= ceiling) => {
            "at what each of its shapes can reach".to_owned()
        }
        () => format!("at {}%", shown(ceiling, 0)),
    }
}

/// What the cautious end of a group assumes.
enum Cautious {
    /// All reach the same percentage of peak.
    One(f64),
    /// Each reaches the lower end of its own band.
    Bands,
    /// Each reaches the next step above where it is.
    Steps,
    /// No step lies above any: each saves a part of what it saves at best.
    PartOfHigh,
}

fn cautious_target(group: &Group<'_>) -> Cautious {
    let target = |m: &&Judged<'_>| low_target(m.row.efficiency.judged().unwrap_or_default(), &m.judgement);
    let mut targets: Vec<f64> = group.members.iter().filter_map(target).collect();
    let is_whole = targets.len() == group.members.len();
    targets.dedup();
    match targets[..] {
        [] => Cautious::PartOfHigh,
        [one] if is_whole => Cautious::One(one),
        _ if group.members.iter().all(|m| m.judgement.floor_target.is_some()) => Cautious::Bands,
        _ => Cautious::Steps,
    }
}

fn target(cx: &CategoryCx<'_>, group: &Group<'_>, to: f64) -> Target {
    let (saved, at_floor) = group_saved(cx, group, to);
    let ms = group.time_ms;
    Target {
        target_percent: Percent(to),
        time_ms: Ms(ms - saved),
        saved_ms: Ms(saved),
        op_faster_percent: Percent(if ms > 0.0 { 100.0 * saved / ms } else { 0.0 }),
        compute_percent: Percent(cx.of_compute(saved)),
        e2e_percent: Percent(cx.of_total(saved)),
        at_floor,
    }
}

/// The reference's scores: share of the total times what is missing to the peak.
pub(crate) fn estimates(cx: &CategoryCx<'_>) -> Vec<ImpactEstimate> {
    let estimate = |row: &Row| {
        let e = row.efficiency.judged()?;
        let score = (1.0 - e / 100.0) * cx.of_total(row.time_ms);
        (score > 0.0).then(|| ImpactEstimate {
            operation: row.name.clone(),
            tree_uid: row.uid,
            bound_type: row.efficiency.bound_type,
            time_ms: Ms(row.time_ms),
            efficiency_percent: Percent(e),
            impact_score_low: Ratio(0.75 * score),
            impact_score: Ratio(0.875 * score),
            impact_score_high: Ratio(score),
        })
    };
    cx.rows().filter_map(estimate).collect()
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
mod tests {
    use super::*;

    /// Two products of equal work, the first in twice the time, judged by these: what is said of them as a group.
    fn of_products(judgements: [Judgement; 2]) -> BottleneckImpact {
        let mut scene = crate::testing::Scene::new();
        // 2·4096³ FLOPs take 138.8 us at the peak.
        scene.mm(10, [4096, 4096, 4096], 694.0).mm(10, [4096, 8192, 2048], 347.0);
        let prepared = scene.prepared();
        let category = prepared.category("gemm").unwrap();
        let claims = crate::rules::Claims::none();
        let cx =
            CategoryCx { prepared: &prepared, category, claims: &claims, scope: crate::metrics::Scope::Standalone };
        let rows = cx.rows().zip(judgements);
        let judged: Vec<Judged<'_>> =
            rows.map(|(row, judgement)| Judged { row, judgement, reasons: Vec::new(), set_aside: None }).collect();
        of_group(&cx, &crate::rules::judge::group(judged.iter().collect()))
    }

    #[test]
    fn a_group_projects_to_what_its_members_can_reach() {
        let impact = of_products([20.0, 80.0].map(|ceiling| Judgement { ceiling, ..Judgement::default() }));
        let last = impact.targets.last().unwrap();
        // The largest is where it can be, the other halves its time and more.
        assert!((last.saved_ms.0 - impact.saved_ms_high.unwrap().0).abs() < 0.01, "{impact:?}");
        assert!((last.target_percent.0 - 32.0).abs() < 0.2, "{last:?}");
    }

    #[test]
    fn the_basis_names_what_was_assumed() {
        let basis = |bands: [(f64, f64); 2]| {
            let judged = |(low, ceiling)| Judgement { ceiling, floor_target: Some(low), ..Judgement::default() };
            of_products(bands.map(judged)).basis
        };
        let same = basis([(60.0, 80.0), (60.0, 80.0)]);
        assert!(same.contains("ms at 80%; the cautious end assumes 60% of peak"), "{same}");
        // Kernels of hundreds of microseconds can get shorter.
        let apart = basis([(60.0, 80.0), (45.0, 50.0)]);
        assert!(
            apart.contains("at what each of its shapes can reach; the cautious end assumes the lower end"),
            "{apart}"
        );
    }

    #[test]
    fn savings_are_against_the_current_time() {
        assert_eq!(saved(10.0, 25.0, 50.0), 5.0);
        assert_eq!(saved(10.0, 50.0, 25.0), 0.0, "no target below what is reached");
        assert_eq!(saved(10.0, 0.0, 50.0), 0.0);
    }

    #[test]
    fn deviations_add_in_squares() {
        let sum = together(&[Range::new(10.0, 16.0), Range::new(20.0, 28.0)]);
        assert_eq!((sum.low, sum.high), (32.0, 42.0), "13 + 24 ± √(3² + 4²)");
        assert_eq!(together(&[]), Range::new(0.0, 0.0));
        assert_eq!(together(&[Range::new(1.0, 3.0)]), Range::new(1.0, 3.0));
    }

    #[test]
    fn the_cautious_end_is_the_next_step() {
        let judgement = |ceiling, floor| Judgement { ceiling, floor_target: floor, ..Judgement::default() };
        assert_eq!(low_target(3.0, &judgement(80.0, None)), Some(20.0));
        assert_eq!(low_target(18.0, &judgement(80.0, None)), Some(50.0), "20 is as good as reached");
        assert_eq!(low_target(60.0, &judgement(80.0, None)), None);
        assert_eq!(low_target(30.0, &judgement(70.0, Some(40.0))), Some(40.0));
    }
}

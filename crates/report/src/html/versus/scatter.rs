//! Every matched operation as a dot: what it takes over what the hardware suggests, on logarithmic axes. On the diagonal
//! an operation takes the time that the hardware suggests; around it lies what verdicts tolerate.

use jarvis_analyze::comparative::{Compared, ExpectedRatio, Gap};
use jarvis_analyze::thresholds::Threshold;
use jarvis_trace::InOrder;

use crate::Versus;
use crate::html::family::Family;
use crate::html::markup::{Attribute, Markup, px};
use crate::html::plot::{Layout, Scale, dot_radius, fine_ticks, label, line};
use crate::html::sections::{begin, legend};

/// Most dots, those with most time.
const MOST_DOTS: usize = 400;
/// Share of the dots' time that may lie beyond an axis, where dots stand at its end: what takes next to no time and lies
/// far off must not squeeze all others together.
const LEFT_OUT: f64 = 0.004;
/// Points that the border of the tolerance is drawn through.
const BORDER: u32 = 48;

/// Places to improve that are named beside their dots.
const NAMED: usize = 9;

const WIDE: Layout = Layout { width: 1100.0, height: 540.0, left: 64.0, right: 20.0 };
const NARROW: Layout = Layout { width: 420.0, height: 460.0, left: 48.0, right: 10.0 };

/// What the axes are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    /// Target over reference.
    Ratio,
    /// Milliseconds of the target.
    Time,
}

impl View {
    fn class(self) -> &'static str {
        match self {
            Self::Ratio => "by-ratio",
            Self::Time => "by-time",
        }
    }

    /// Titles of the axes.
    fn titles(self) -> (&'static str, &'static str) {
        match self {
            Self::Ratio => ("expected ratio, from the hardware", "target over reference"),
            Self::Time => ("expected on the target, ms", "taken on the target, ms"),
        }
    }
}

/// A dot.
#[derive(Debug, Clone, Copy)]
struct Dot {
    /// Position among the operations.
    at: usize,
    family: u8,
    /// Time on the reference.
    reference_ms: f64,
    /// Target over reference.
    ratio: f64,
    expected: ExpectedRatio,
    /// The larger time of both, which the area is.
    ms: f64,
    /// Rank of the place to improve.
    gap: Option<usize>,
}

impl Dot {
    fn of(at: usize, c: &Compared, gaps: &[Gap]) -> Option<Self> {
        let (ratio, expected) = (c.ms.ratio()?, c.expected?);
        let usable = ratio > 0.0 && ratio.is_finite() && expected.low > 0.0 && expected.high.is_finite();
        usable.then(|| Self {
            at,
            family: Family::of_category(&c.category).number(),
            reference_ms: c.ms.reference,
            ratio,
            expected,
            ms: c.ms.reference.max(c.ms.target),
            gap: gaps.iter().find(|g| g.operations.contains(&at)).map(|g| g.rank),
        })
    }

    /// One ratio or time from another.
    fn unit(&self, view: View) -> f64 {
        if view == View::Ratio { 1.0 } else { self.reference_ms }
    }

    fn x(&self, view: View) -> f64 {
        self.expected.middle() * self.unit(view)
    }

    fn y(&self, view: View) -> f64 {
        self.ratio * self.unit(view)
    }
}

/// Where a dot stands, and its radius.
type Placed = (f64, f64, f64);

/// The plot.
#[derive(Debug, Clone)]
pub(super) struct Scatter {
    /// Largest first, so that none is hidden.
    dots: Vec<Dot>,
    /// A ratio this far from the expected one is still expected.
    tolerance: f64,
}

impl Scatter {
    /// `None` if no operation has both a ratio and an expected one.
    pub(super) fn of(versus: &Versus<'_>) -> Option<Self> {
        let c = versus.comparative;
        let all = c.operations.iter().enumerate().filter_map(|(at, o)| Dot::of(at, o, &c.gaps));
        let mut dots: Vec<Dot> = all.take(MOST_DOTS).collect();
        dots.order_by(|a, b| b.ms.total_cmp(&a.ms).then(a.at.cmp(&b.at)));
        let tolerance = 1.0 + versus.target.analysis.prepared.thresholds.get(Threshold::CompareTolerance);
        (!dots.is_empty()).then_some(Self { dots, tolerance })
    }

    /// The section, with both views; the first is the one that is shown.
    pub(super) fn section(&self, m: &mut Markup, versus: &Versus<'_>) {
        begin(m, "expected", "As expected?");
        m.open("p", &[("class", &"note")]);
        m.text(format!(
            "Each dot is a matched operation: {} of {}. Its area is its time. On the diagonal it takes as long as the \
             hardware suggests, within the band it counts as expected; above, the target takes longer. A line through a \
             dot is an expectation that is not one number, # the rank of a place to improve. Choose a dot to filter the \
             table below.",
            self.dots.len(),
            versus.comparative.operations.len()
        ));
        m.close("p").raw("<div class=\"views\">");
        let mut views = [(View::Ratio, "Ratios", "view-ratio"), (View::Time, "Times", "view-time")];
        // On one platform all is expected to take the same time: times tell more.
        let first = self.dots[0].expected.low;
        if self.dots.iter().all(|d| (d.expected.low - first).abs() < 1e-6 && (d.expected.high - first).abs() < 1e-6) {
            views.reverse();
        }
        for (i, (_, name, id)) in views.iter().enumerate() {
            let input: [Attribute<'_>; 3] = [("type", &"radio"), ("name", &"view"), ("id", id)];
            let mut all = input.to_vec();
            all.extend((i == 0).then_some(("checked", &"" as _)));
            m.open("input", &all).open("label", &[("for", id)]).text(name).close("label");
        }
        for (view, ..) in views {
            for (class, layout) in [("wide", WIDE), ("narrow", NARROW)] {
                self.svg(m, view, class, layout);
            }
        }
        m.raw("</div>");
        let has = |f: Family| self.dots.iter().any(|d| d.family == f.number());
        legend(m, Family::ALL.into_iter().filter(|(f, _)| has(*f)));
        m.close("section");
    }

    fn svg(&self, m: &mut Markup, view: View, class: &'static str, layout: Layout) {
        let scale = self.scale(view, layout);
        let size = format!("0 0 {} {}", px(layout.width), px(layout.height));
        let class = format!("plot {class} {}", view.class());
        let (x, y) = view.titles();
        let name = format!("{} dots: {y} over {x}; the area is the time", self.dots.len());
        m.open("svg", &[("class", &class), ("viewBox", &size), ("role", &"group"), ("aria-label", &name)]);
        self.band(m, &scale);
        scale.axes(m, (&fine_ticks(scale.x), x), (&fine_ticks(scale.y), y));
        diagonal(m, &scale, view);
        let placed = self.draw(m, &scale, view);
        labels(m, &scale, &placed);
        m.close("svg");
    }

    /// Room for nearly all time on both axes, and for what lies around the diagonal.
    fn scale(&self, view: View, layout: Layout) -> Scale {
        let spread = |value: fn(&Dot, View) -> f64| {
            let mut order: Vec<(f64, f64)> = self.dots.iter().map(|d| (value(d, view), d.ms)).collect();
            order.order_by(|a, b| a.0.total_cmp(&b.0));
            let spare = LEFT_OUT * order.iter().map(|(_, ms)| ms).sum::<f64>();
            (nearly(order.iter().copied(), spare), nearly(order.iter().rev().copied(), spare))
        };
        let (x, y) = (spread(Dot::x), spread(Dot::y));
        let room = |(low, high): (f64, f64), least: f64| {
            let widen = (least / (high / low)).max(1.0).sqrt();
            (low / widen / 1.5, high * widen * 1.5)
        };
        match view {
            View::Ratio => Scale { layout, x: room(x, 1.5), y: room((y.0.min(x.0), y.1.max(x.1)), 4.0) },
            // The same range on both, or the diagonal would be none.
            View::Time => {
                let both = room((x.0.min(y.0), x.1.max(y.1)), 4.0);
                Scale { layout, x: both, y: both }
            }
        }
    }

    /// What counts as expected.
    fn band(&self, m: &mut Markup, scale: &Scale) {
        let at = |i: u32| scale.x.0 * (scale.x.1 / scale.x.0).powf(f64::from(i) / f64::from(BORDER));
        let point = |x: f64, y: f64| format!("{},{}", px(scale.x(x)), px(scale.y(y)));
        let above = (0..=BORDER).map(|i| point(at(i), at(i) * self.tolerance));
        let below = (0..=BORDER).rev().map(|i| point(at(i), at(i) / self.tolerance));
        let points: Vec<String> = above.chain(below).collect();
        m.empty("polygon", &[("points", &points.join(" ")), ("class", &"band")]);
    }

    /// The dots; returns the place and radius of each.
    fn draw(&self, m: &mut Markup, scale: &Scale, view: View) -> Vec<Placed> {
        let most = self.dots.iter().map(|d| d.ms).fold(f64::MIN_POSITIVE, f64::max);
        let mut placed: Vec<Placed> = Vec::new();
        m.open("g", &[("class", &"dots")]);
        for (i, dot) in self.dots.iter().enumerate() {
            let (x, y, r) = (scale.x(dot.x(view)), scale.y(dot.y(view)), dot_radius(dot.ms, most));
            let x = if view == View::Ratio { beside(&placed, (x, y, r), scale.layout) } else { x };
            placed.push((x, y, r));
            let unit = dot.unit(view);
            let (low, high) = (scale.x(dot.expected.low * unit), scale.x(dot.expected.high * unit));
            if high - low > 2.0 {
                line(m, "whisker", (&px(low), &px(y)), (&px(high), &px(y)));
            }
            let (cx, cy, r) = (px(x), px(y), px(r));
            let class = format!("dot f{}", dot.family);
            let tab = if i == 0 { "0" } else { "-1" };
            m.empty(
                "circle",
                &[
                    ("cx", &cx),
                    ("cy", &cy),
                    ("r", &r),
                    ("class", &class),
                    ("data-op", &dot.at),
                    ("tabindex", &tab),
                    ("role", &"button"),
                ],
            );
        }
        m.close("g");
        // Places to improve are named by their rank.
        for (dot, (x, y, r)) in self.dots.iter().zip(&placed).filter(|(d, _)| d.gap.is_some_and(|rank| rank <= NAMED)) {
            let rank = dot.gap.map_or(String::new(), |rank| format!("#{rank}"));
            label(m, (&px(x + r + 4.0), &px(y + 4.0)), "start", "rooflabel", &rank);
        }
        placed
    }
}

/// The first value that more time than `spare` comes up to.
fn nearly(mut order: impl Iterator<Item = (f64, f64)>, mut spare: f64) -> f64 {
    let found = order.find(|(_, ms)| {
        spare -= ms;
        spare < 0.0
    });
    found.map_or(1.0, |(value, _)| value)
}

/// A place for a dot that hides none of those before it: its own, or one to the side of it. Operations share expected
/// ratios, and would stand on top of each other.
fn beside(placed: &[Placed], (x, y, r): Placed, layout: Layout) -> f64 {
    const STEP: f64 = 2.0;
    let farthest = layout.width / 7.0;
    let free = |at: f64| {
        let inside = at - r > layout.left && at + r < layout.width - layout.right;
        inside && placed.iter().all(|(px, py, pr)| (px - at).hypot(py - y) > 0.85 * (pr + r))
    };
    let steps = (0..=(farthest / STEP) as u32).map(|i| f64::from(i) * STEP);
    steps.flat_map(|d| [x + d, x - d]).find(|&at| free(at)).unwrap_or(x)
}

/// The line of what is expected, and where both sides take the same time.
fn diagonal(m: &mut Markup, scale: &Scale, view: View) {
    let (from, to) = (scale.x.0.max(scale.y.0), scale.x.1.min(scale.y.1));
    if from < to {
        let (start, end) = ((px(scale.x(from)), px(scale.y(from))), (px(scale.x(to)), px(scale.y(to))));
        line(m, "roof", (&start.0, &start.1), (&end.0, &end.1));
    }
    if view == View::Ratio && (scale.y.0..scale.y.1).contains(&1.0) {
        let (y, l) = (scale.y(1.0), scale.layout);
        line(m, "even", (&px(l.left), &px(y)), (&px(l.width - l.right), &px(y)));
        label(m, (&px(l.width - l.right - 4.0), &px(y - 5.0)), "end", "rooflabel faintlabel", "same time on both");
    }
}

/// Words for the regions, over the dots.
fn labels(m: &mut Markup, scale: &Scale, placed: &[Placed]) {
    let l = scale.layout;
    let (top, bottom) = (Layout::TOP + 18.0, l.height - Layout::BOTTOM - 10.0);
    m.open("g", &[("class", &"rooflabels")]);
    label(m, (&px(l.left + 10.0), &px(top)), "start", "rooflabel", "▲ slower than the hardware suggests");
    label(m, (&px(l.width - l.right - 8.0), &px(bottom)), "end", "rooflabel", "▼ faster than the hardware suggests");
    let (from, to) = (scale.x.0.max(scale.y.0), scale.x.1.min(scale.y.1));
    if from < to {
        let (start, end) = ((scale.x(from), scale.y(from)), (scale.x(to), scale.y(to)));
        // Where it hides least.
        let at = |share: f64| (start.0 + share * (end.0 - start.0), start.1 + share * (end.1 - start.1) - 6.0);
        let room = |share: f64| {
            let (x, y) = at(share);
            placed.iter().map(|(px, py, r)| (px - x).hypot(py - y) - r).fold(120.0, f64::min)
        };
        let share =
            [0.86, 0.72, 0.58, 0.44, 0.3, 0.16].into_iter().fold(0.86, |a, b| if room(b) > room(a) { b } else { a });
        let (x, y) = (px(at(share).0), px(at(share).1));
        let turn = format!("rotate({} {x} {y})", px((end.1 - start.1).atan2(end.0 - start.0).to_degrees()));
        let at: [Attribute<'_>; 5] =
            [("x", &x), ("y", &y), ("text-anchor", &"middle"), ("class", &"rooflabel"), ("transform", &turn)];
        m.leaf("text", &at, "as expected");
    }
    m.close("g");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dot(at: usize, expected: f64, ratio: f64, ms: f64) -> Dot {
        Dot { at, family: 0, reference_ms: ms, ratio, expected: ExpectedRatio::exactly(expected), ms, gap: None }
    }

    #[test]
    fn dots_above_the_diagonal_are_slower_than_expected() {
        let scatter = Scatter { dots: vec![dot(0, 0.63, 28.0, 13.0), dot(1, 1.4, 1.4, 3.0)], tolerance: 1.25 };
        for view in [View::Ratio, View::Time] {
            let scale = scatter.scale(view, WIDE);
            let height = |d: &Dot| scale.y(d.x(view)) - scale.y(d.y(view));
            assert!(height(&scatter.dots[0]) > 50.0, "{view:?}");
            assert!(height(&scatter.dots[1]).abs() < 1e-6, "{view:?}");
        }
    }

    #[test]
    fn no_dot_hides_another_of_the_same_ratio() {
        let at = (500.0, 200.0, 10.0);
        let first = beside(&[], at, WIDE);
        let second = beside(&[(first, 200.0, 10.0)], at, WIDE);
        assert!((first - 500.0).abs() < 1e-9 && (second - first).abs() >= 16.0);
    }

    #[test]
    fn one_dot_has_axes_too() {
        let scatter = Scatter { dots: vec![dot(0, 1.0, 1.0, 1.0)], tolerance: 1.25 };
        let scale = scatter.scale(View::Ratio, NARROW);
        assert!(scale.x.0 < scale.x.1 && scale.y.0 < scale.y.1 && scale.x.0.is_finite());
    }
}

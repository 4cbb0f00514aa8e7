//! The roofline as a picture: what each operation reaches over what it computes per byte, under the platform's roofs.

use jarvis_analyze::rounding::shown;
use jarvis_perf::platform::Platform;

use super::family::Family;
use super::markup::{Attribute, Markup, clipped, px};
use super::operations::{Operation, Operations};
use super::texts::Texts;

/// Most dots, those with most time.
const MOST_DOTS: usize = 400;
/// Radius of the smallest and of the largest dot: the area is the time.
const RADIUS: (f64, f64) = (2.5, 20.0);
/// Share of the dots' time that may lie below an axis: what takes next to no time and lies far off must not squeeze
/// all others together.
const LEFT_OUT: f64 = 0.01;
/// Distance between two labels.
const LINE: f64 = 14.0;

/// Width and height, and what they leave room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    left: f64,
    right: f64,
}

impl Layout {
    /// For screens and documents.
    pub(crate) const WIDE: Self = Self { width: 1100.0, height: 520.0, left: 64.0, right: 176.0 };
    /// For phones. Labels of roofs stand in the picture.
    pub(crate) const NARROW: Self = Self { width: 420.0, height: 440.0, left: 44.0, right: 12.0 };

    const TOP: f64 = 16.0;
    const BOTTOM: f64 = 46.0;
}

/// A dot.
#[derive(Debug, Clone, Copy)]
struct Dot {
    /// Position among the operations.
    at: usize,
    x: f64,
    y: f64,
    ms: f64,
    family: u8,
}

/// A roof: peak in 10¹² operations a second, and the unit and precision it holds for.
#[derive(Debug, Clone, PartialEq)]
struct Roof {
    spec: String,
    tflops: f64,
}

/// Everything the picture shows.
#[derive(Debug, Clone)]
pub(crate) struct Roofline {
    platform: String,
    bandwidth_tbs: f64,
    /// Highest first.
    roofs: Vec<Roof>,
    /// Largest first, so that none is hidden.
    dots: Vec<Dot>,
    x: (f64, f64),
    y: (f64, f64),
    /// Share of the listed operations' time that has a dot.
    pub(crate) share: f64,
}

impl Roofline {
    /// `None` without a platform, or if no operation has both arithmetic and traffic.
    pub(crate) fn of(operations: &Operations, texts: &Texts, platform: Option<&Platform>) -> Option<Self> {
        let platform = platform?;
        let dots: Vec<Dot> =
            operations.rows.iter().enumerate().filter_map(|(at, o)| dot(at, o)).take(MOST_DOTS).collect();
        dots.first()?;
        let bandwidth_tbs = platform.mem_bw_gbps.value / 1e3;
        let mut roofs: Vec<Roof> = Vec::new();
        for spec in dots.iter().filter_map(|d| operations.rows[d.at].spec).map(|s| texts.get(s)) {
            if let Some(peak) = platform.peak(spec).filter(|_| roofs.iter().all(|r| r.spec != spec)) {
                roofs.push(Roof { spec: spec.to_owned(), tflops: peak.value });
            }
        }
        roofs.sort_by(|a, b| b.tflops.total_cmp(&a.tflops).then_with(|| a.spec.cmp(&b.spec)));
        let peaks = || roofs.iter().map(|r| r.tflops);
        let x = axis(&dots, |d| d.x, peaks().map(|peak| peak / bandwidth_tbs));
        let y = axis(&dots, |d| d.y, peaks());
        let inside = |(from, to): (f64, f64), value: f64| (from..=to).contains(&value);
        let dots: Vec<Dot> = dots.iter().filter(|d| inside(x, d.x) && inside(y, d.y)).copied().collect();
        let all_ms: f64 = operations.rows.iter().map(|o| o.ms.0).sum::<f64>() + operations.more_ms.0;
        let shown_ms: f64 = dots.iter().map(|d| d.ms).sum();
        Some(Self {
            platform: platform.name.clone(),
            bandwidth_tbs,
            roofs,
            x,
            y,
            dots,
            share: if all_ms > 0.0 { shown_ms / all_ms } else { 0.0 },
        })
    }

    /// Number of dots.
    pub(crate) fn dots(&self) -> usize {
        self.dots.len()
    }

    /// Families that have a dot, in the order of legends.
    pub(crate) fn families(&self) -> impl Iterator<Item = (Family, &'static str)> + '_ {
        Family::ALL.into_iter().filter(|(f, _)| self.dots.iter().any(|d| d.family == f.number()))
    }

    /// The picture, without the style that a file needs. `dots` says what a dot's element carries beside its place.
    pub(crate) fn svg(&self, m: &mut Markup, layout: Layout, dots: DotUse<'_>) {
        let scale = Scale { layout, x: self.x, y: self.y };
        self.axes(m, &scale);
        self.roof_lines(m, &scale);
        let most = self.dots.iter().map(|d| d.ms).fold(f64::MIN_POSITIVE, f64::max);
        m.open("g", &[("class", &"dots")]);
        for (i, dot) in self.dots.iter().enumerate() {
            let radius = (RADIUS.1 * (dot.ms / most).sqrt()).max(RADIUS.0);
            let (cx, cy, r) = (px(scale.x(dot.x)), px(scale.y(dot.y)), px(radius));
            let class = format!("dot f{}", dot.family);
            let place: [Attribute<'_>; 4] = [("cx", &cx), ("cy", &cy), ("r", &r), ("class", &class)];
            match dots {
                DotUse::Interactive => {
                    let tab = if i == 0 { "0" } else { "-1" };
                    let mut all = place.to_vec();
                    all.extend([("data-op", &dot.at as _), ("tabindex", &tab as _), ("role", &"button" as _)]);
                    m.empty("circle", &all);
                }
                DotUse::Titled(operations, texts) => {
                    m.open("circle", &place);
                    m.leaf("title", &[], title(&operations.rows[dot.at], texts)).close("circle");
                }
            }
        }
        m.close("g");
        self.roof_labels(m, &scale);
    }

    fn axes(&self, m: &mut Markup, scale: &Scale) {
        let l = scale.layout;
        let (bottom, right) = (l.height - Layout::BOTTOM, l.width - l.right);
        m.open("g", &[("class", &"axes")]);
        for decade in decades(self.x) {
            let x = px(scale.x(decade));
            line(m, "grid", (&x, &px(Layout::TOP)), (&x, &px(bottom)));
            label(m, (&x, &px(bottom + 18.0)), "middle", "tick", &tick(decade));
        }
        for decade in decades(self.y) {
            let y = scale.y(decade);
            line(m, "grid", (&px(l.left), &px(y)), (&px(right), &px(y)));
            label(m, (&px(l.left - 8.0), &px(y + 4.0)), "end", "tick", &tick(decade));
        }
        line(m, "axis", (&px(l.left), &px(bottom)), (&px(right), &px(bottom)));
        line(m, "axis", (&px(l.left), &px(Layout::TOP)), (&px(l.left), &px(bottom)));
        let middle = f64::midpoint(l.left, right);
        label(m, (&px(middle), &px(l.height - 8.0)), "middle", "title", "operations per byte (FLOP/byte)");
        let y = f64::midpoint(Layout::TOP, bottom);
        let turn = format!("rotate(-90 14 {})", px(y));
        let at: [Attribute<'_>; 5] =
            [("x", &"14"), ("y", &px(y)), ("text-anchor", &"middle"), ("class", &"title"), ("transform", &turn)];
        m.leaf("text", &at, "TFLOPS reached").close("g");
    }

    fn roof_lines(&self, m: &mut Markup, scale: &Scale) {
        let right = scale.layout.width - scale.layout.right;
        m.open("g", &[("class", &"roofs")]);
        let highest = self.roofs.first().map_or(self.y.1, |r| r.tflops);
        let (start, end) = self.slope(scale, highest);
        line(m, "roof", (&px(start.0), &px(start.1)), (&px(end.0), &px(end.1)));
        for roof in &self.roofs {
            let (x, y) = (px(scale.x(roof.tflops / self.bandwidth_tbs)), px(scale.y(roof.tflops)));
            line(m, "roof", (&x, &y), (&px(right), &y));
        }
        m.close("g");
    }

    /// Labels of the roofs. They stand over the dots.
    fn roof_labels(&self, m: &mut Markup, scale: &Scale) {
        let right = scale.layout.width - scale.layout.right;
        let wide = scale.layout.right > 100.0;
        m.open("g", &[("class", &"rooflabels")]);
        let (start, end) = self.slope(scale, self.roofs.first().map_or(self.y.1, |r| r.tflops));
        let along = (end.0 - start.0, end.1 - start.1);
        let (x, y) = (px(start.0 + 0.3 * along.0), px(start.1 + 0.3 * along.1 - 7.0));
        let turn = format!("rotate({} {x} {y})", px(along.1.atan2(along.0).to_degrees()));
        let at: [Attribute<'_>; 5] =
            [("x", &x), ("y", &y), ("text-anchor", &"middle"), ("class", &"rooflabel"), ("transform", &turn)];
        m.leaf("text", &at, format!("memory: {} TB/s", plain(self.bandwidth_tbs)));
        let mut free = f64::NEG_INFINITY;
        // Roofs of one height share a label, and labels close to each other are kept apart.
        for roofs in self.roofs.chunk_by(|a, b| a.tflops.to_bits() == b.tflops.to_bits()) {
            let specs: Vec<String> = roofs.iter().map(|r| r.spec.replace('_', " ")).collect();
            let y = scale.y(roofs[0].tflops) + if wide { 4.0 } else { -5.0 };
            free = y.max(free + LINE);
            let (x, anchor) = if wide { (right + 8.0, "start") } else { (right - 2.0, "end") };
            let lines = if wide { specs } else { vec![specs.join(", ")] };
            for (i, spec) in lines.iter().enumerate() {
                let last = i + 1 == lines.len();
                let text = if last { format!("{spec}: {} TFLOPS", plain(roofs[0].tflops)) } else { format!("{spec},") };
                free += if i > 0 { LINE } else { 0.0 };
                label(m, (&px(x), &px(free)), anchor, "rooflabel", &text);
            }
        }
        m.close("g");
    }

    /// Ends of the line that memory draws, from where it enters the picture up to the highest roof.
    fn slope(&self, scale: &Scale, highest: f64) -> ((f64, f64), (f64, f64)) {
        let from = self.x.0.max(self.y.0 / self.bandwidth_tbs);
        let start = (scale.x(from), scale.y(from * self.bandwidth_tbs));
        (start, (scale.x(highest / self.bandwidth_tbs), scale.y(highest)))
    }

    /// What the picture says, in a sentence.
    pub(crate) fn sentence(&self) -> String {
        let (dots, platform) = (self.dots.len(), &self.platform);
        format!("Roofline on {platform}, {dots} dots: TFLOPS reached over operations per byte; the area is the time")
    }
}

/// What dots are for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DotUse<'a> {
    /// A page's script tells more about them.
    Interactive,
    /// A file has nothing but titles.
    Titled(&'a Operations, &'a Texts),
}

fn dot(at: usize, o: &Operation) -> Option<Dot> {
    let (x, y) = (o.intensity?.0, o.tflops?.0);
    let usable = x > 0.0 && y > 0.0 && x.is_finite() && y.is_finite();
    usable.then_some(Dot { at, x, y, ms: o.ms.0, family: o.family })
}

/// Ends of an axis: room for nearly all time and for all roofs.
fn axis(dots: &[Dot], value: fn(&Dot) -> f64, roofs: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut order: Vec<(f64, f64)> = dots.iter().map(|d| (value(d), d.ms)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut spare = LEFT_OUT * order.iter().map(|(_, ms)| ms).sum::<f64>();
    let lowest = order.iter().find(|(_, ms)| {
        spare -= ms;
        spare < 0.0
    });
    let roofs: Vec<f64> = roofs.collect();
    let low = lowest.map_or(1.0, |(v, _)| *v).min(roofs.iter().copied().fold(f64::INFINITY, f64::min));
    let high = roofs.into_iter().chain(order.last().map(|(v, _)| *v)).fold(low, f64::max);
    (low / 2.0, high * 2.2)
}

fn title(o: &Operation, texts: &Texts) -> String {
    let efficiency = o.efficiency.map_or(String::new(), |e| format!(", {} % of the roof", shown(e.0, 1)));
    let args = clipped(texts.get(o.args), 120);
    format!("{} {args}: {} ms{efficiency}", clipped(texts.get(o.name), 80), shown(o.ms.0, 3))
}

/// From values to places.
struct Scale {
    layout: Layout,
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn share(value: f64, (from, to): (f64, f64)) -> f64 {
        ((value / from).ln() / (to / from).ln()).clamp(0.0, 1.0)
    }

    fn x(&self, value: f64) -> f64 {
        let l = self.layout;
        l.left + Self::share(value, self.x) * (l.width - l.left - l.right)
    }

    fn y(&self, value: f64) -> f64 {
        let height = self.layout.height - Layout::TOP - Layout::BOTTOM;
        Layout::TOP + (1.0 - Self::share(value, self.y)) * height
    }
}

/// Powers of ten in a range; every second or third where there are many.
fn decades((from, to): (f64, f64)) -> impl Iterator<Item = f64> {
    let (first, last) = (from.log10().ceil() as i32, to.log10().floor() as i32);
    let every = usize::try_from((last - first) / 6 + 1).unwrap_or(1);
    (first..=last).step_by(every).map(|e| 10f64.powi(e))
}

fn tick(value: f64) -> String {
    match value {
        v if !(1e-3..1e6).contains(&v) => format!("1e{}", v.log10().round()),
        v if v >= 1000.0 => format!("{}k", plain(v / 1e3)),
        v => plain(v),
    }
}

/// A number without decimals that say nothing.
fn plain(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn line(m: &mut Markup, class: &'static str, from: (&String, &String), to: (&String, &String)) {
    m.empty("line", &[("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1), ("class", &class)]);
}

fn label(m: &mut Markup, at: (&String, &String), anchor: &'static str, class: &'static str, text: &str) {
    m.leaf("text", &[("x", at.0), ("y", at.1), ("text-anchor", &anchor), ("class", &class)], text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_read_well() {
        assert_eq!([tick(0.01), tick(1.0), tick(100.0), tick(10_000.0)], ["0.01", "1", "100", "10k"]);
        let all: Vec<f64> = decades((0.5, 2000.0)).collect();
        assert_eq!(all, [1.0, 10.0, 100.0, 1000.0]);
        assert!(decades((1e-9, 1e9)).count() < 8);
    }

    #[test]
    fn the_scale_is_logarithmic_and_keeps_all_inside() {
        let scale = Scale { layout: Layout::WIDE, x: (1.0, 100.0), y: (1.0, 100.0) };
        let middle = f64::midpoint(scale.x(1.0), scale.x(100.0));
        assert!((scale.x(10.0) - middle).abs() < 1e-9);
        assert_eq!(scale.x(1e9).to_bits(), scale.x(100.0).to_bits());
        assert!(scale.y(100.0) < scale.y(1.0));
    }
}

//! The roofline as a picture: what each operation reaches over what it computes per byte, under the platform's roofs.

use jarvis_analyze::rounding::shown;
use jarvis_perf::platform::Platform;
use jarvis_trace::InOrder;

use super::family::Family;
use super::markup::{Attribute, Markup, clipped, px};
use super::operations::{Operation, Operations};
use super::plot::{self, Layout, Scale, dot_radius, label, line, plain};
use super::texts::Texts;

/// Most dots, those with most time.
const MOST_DOTS: usize = 400;
/// Share of the dots' time that may lie below an axis: what takes next to no time and lies far off must not squeeze
/// all others together.
const LEFT_OUT: f64 = 0.01;
/// Distance between two labels.
const LINE: f64 = 14.0;

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
        roofs.order_by(|a, b| b.tflops.total_cmp(&a.tflops).then_with(|| a.spec.cmp(&b.spec)));
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
        let (x, y) = (plot::decades(self.x).collect::<Vec<_>>(), plot::decades(self.y).collect::<Vec<_>>());
        scale.axes(m, (&x, "operations per byte (FLOP/byte)"), (&y, "TFLOPS reached"));
        self.roof_lines(m, &scale);
        let most = self.dots.iter().map(|d| d.ms).fold(f64::MIN_POSITIVE, f64::max);
        m.open("g", &[("class", &"dots")]);
        for (i, dot) in self.dots.iter().enumerate() {
            let radius = dot_radius(dot.ms, most);
            let (cx, cy, r) = (px(scale.x(dot.x)), px(scale.y(dot.y)), px(radius));
            let class = format!("dot f{}", dot.family);
            let [cx, cy, r, class]: [Attribute<'_>; 4] = [("cx", &cx), ("cy", &cy), ("r", &r), ("class", &class)];
            match dots {
                DotUse::Interactive => {
                    let tab = if i == 0 { "0" } else { "-1" };
                    let of_script: [Attribute<'_>; 3] = [("data-op", &dot.at), ("tabindex", &tab), ("role", &"button")];
                    let [at, tab, role] = of_script;
                    m.empty("circle", &[cx, cy, r, class, at, tab, role]);
                }
                DotUse::Titled(operations, texts) => {
                    m.open("circle", &[cx, cy, r, class]);
                    m.leaf("title", &[], title(&operations.rows[dot.at], texts)).close("circle");
                }
            }
        }
        m.close("g");
        self.roof_labels(m, &scale);
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
    order.order_by(|a, b| a.0.total_cmp(&b.0));
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

//! What plots on logarithmic axes share: the layout, the scale, ticks, lines and labels.

use super::markup::{Attribute, Markup, px};

/// Radius of the smallest and of the largest dot: the area is the time.
const RADIUS: (f64, f64) = (2.5, 20.0);

/// Width and height, and what they leave room for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) left: f64,
    pub(crate) right: f64,
}

impl Layout {
    /// For screens and documents.
    pub(crate) const WIDE: Self = Self { width: 1100.0, height: 520.0, left: 64.0, right: 176.0 };
    /// For phones. Labels of roofs stand in the picture.
    pub(crate) const NARROW: Self = Self { width: 420.0, height: 440.0, left: 44.0, right: 12.0 };

    pub(crate) const TOP: f64 = 16.0;
    pub(crate) const BOTTOM: f64 = 46.0;
}

/// From values to places.
pub(crate) struct Scale {
    pub(crate) layout: Layout,
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
}

impl Scale {
    pub(crate) fn share(value: f64, (from, to): (f64, f64)) -> f64 {
        ((value / from).ln() / (to / from).ln()).clamp(0.0, 1.0)
    }

    pub(crate) fn x(&self, value: f64) -> f64 {
        let l = self.layout;
        l.left + Self::share(value, self.x) * (l.width - l.left - l.right)
    }

    pub(crate) fn y(&self, value: f64) -> f64 {
        let height = self.layout.height - Layout::TOP - Layout::BOTTOM;
        Layout::TOP + (1.0 - Self::share(value, self.y)) * height
    }

    /// Both axes with their ticks and titles, and a grid.
    pub(crate) fn axes(&self, m: &mut Markup, x: (&[f64], &'static str), y: (&[f64], &'static str)) {
        let l = self.layout;
        let (bottom, right) = (l.height - Layout::BOTTOM, l.width - l.right);
        m.open("g", &[("class", &"axes")]);
        for &value in x.0 {
            let at = px(self.x(value));
            line(m, "grid", (&at, &px(Layout::TOP)), (&at, &px(bottom)));
            label(m, (&at, &px(bottom + 18.0)), "middle", "tick", &tick(value));
        }
        for &value in y.0 {
            let at = self.y(value);
            line(m, "grid", (&px(l.left), &px(at)), (&px(right), &px(at)));
            label(m, (&px(l.left - 8.0), &px(at + 4.0)), "end", "tick", &tick(value));
        }
        line(m, "axis", (&px(l.left), &px(bottom)), (&px(right), &px(bottom)));
        line(m, "axis", (&px(l.left), &px(Layout::TOP)), (&px(l.left), &px(bottom)));
        label(m, (&px(f64::midpoint(l.left, right)), &px(l.height - 8.0)), "middle", "title", x.1);
        let middle = px(f64::midpoint(Layout::TOP, bottom));
        let turn = format!("rotate(-90 14 {middle})");
        let at: [Attribute<'_>; 5] =
            [("x", &"14"), ("y", &middle), ("text-anchor", &"middle"), ("class", &"title"), ("transform", &turn)];
        m.leaf("text", &at, y.1).close("g");
    }
}

/// Radius of a dot whose area is its time, next to the one with most time.
pub(crate) fn dot_radius(ms: f64, most: f64) -> f64 {
    (RADIUS.1 * (ms / most.max(f64::MIN_POSITIVE)).sqrt()).max(RADIUS.0)
}

/// A power of ten that a number can have: the logarithm of what is none would be one without end.
fn exponent(log: f64) -> i32 {
    log.clamp(f64::from(f64::MIN_10_EXP), f64::from(f64::MAX_10_EXP)) as i32
}

/// Powers of ten in a range; every second or third where there are many.
pub(crate) fn decades((from, to): (f64, f64)) -> impl Iterator<Item = f64> {
    let (first, last) = (exponent(from.log10().ceil()), exponent(to.log10().floor()));
    let every = usize::try_from((last - first) / 6 + 1).unwrap_or(1);
    (first..=last).step_by(every).map(|e| 10f64.powi(e))
}

/// The same with twos and fives between, for ranges of few decades.
pub(crate) fn fine_ticks((from, to): (f64, f64)) -> Vec<f64> {
    const MOST: usize = 9;
    let (first, last) = (exponent(from.log10().floor()), exponent(to.log10().ceil()));
    let of = |steps: &[f64]| -> Vec<f64> {
        let all = (first..=last).flat_map(|e| steps.iter().map(move |s| s * 10f64.powi(e)));
        all.filter(|v| (from..=to).contains(v)).collect()
    };
    let fine = of(&[1.0, 2.0, 5.0]);
    if fine.len() <= MOST { fine } else { decades((from, to)).collect() }
}

/// A value as an axis writes it.
pub(crate) fn tick(value: f64) -> String {
    match value {
        v if !(1e-3..1e6).contains(&v) => format!("1e{}", v.log10().round()),
        v if v >= 1000.0 => format!("{}k", plain(v / 1e3)),
        v => plain(v),
    }
}

/// A number without decimals that say nothing.
pub(crate) fn plain(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

pub(crate) fn line(m: &mut Markup, class: &'static str, from: (&String, &String), to: (&String, &String)) {
    m.empty("line", &[("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1), ("class", &class)]);
}

pub(crate) fn label(m: &mut Markup, at: (&String, &String), anchor: &'static str, class: &'static str, text: &str) {
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
        for endless in [(1e-9, f64::INFINITY), (0.0, f64::INFINITY), (f64::NAN, f64::NAN), (f64::INFINITY, 0.0)] {
            assert!(decades(endless).count() < 10 && fine_ticks(endless).len() < 10, "{endless:?}");
        }
        let fine: Vec<String> = fine_ticks((0.3, 3.0)).into_iter().map(tick).collect();
        assert_eq!(fine, ["0.5", "1", "2"]);
        assert_eq!(fine_ticks((1e-3, 1e3)), decades((1e-3, 1e3)).collect::<Vec<_>>());
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

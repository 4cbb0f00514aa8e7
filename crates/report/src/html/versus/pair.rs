//! Two bars, the reference above the target, with a mark where the hardware suggests the target's bar to end; and the
//! ratio of both on a logarithmic track with the same mark.

use jarvis_analyze::comparative::{Both, ExpectedRatio};
use jarvis_analyze::rounding::shown_ms;

use super::words::{expected as expected_words, percent, times};
use crate::html::markup::{Markup, px};

/// Two times and what is expected of the second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) ms: Both<f64>,
    pub(super) expected: Option<ExpectedRatio>,
}

impl Pair {
    /// The longest time that its bars have to show. An expectation that lies far off does not squeeze them.
    pub(super) fn longest(&self) -> f64 {
        let bars = self.ms.reference.max(self.ms.target);
        let expected = self.expected.map_or(0.0, |e| e.high * self.ms.reference);
        bars.max(expected.min(1.6 * bars))
    }

    /// The bars on a scale that ends at `full` milliseconds.
    pub(super) fn bars(&self, m: &mut Markup, full: f64, name: &str) {
        let share = |ms: f64| (100.0 * ms / full.max(f64::MIN_POSITIVE)).clamp(0.0, 100.0);
        let tip = self.tip(name);
        m.open("div", &[("class", &"pair"), ("data-tip", &tip)]);
        for (class, side, ms) in [("reference", "Reference", self.ms.reference), ("target", "Target", self.ms.target)] {
            m.open("div", &[("class", &format!("line {class}"))]).leaf("span", &[("class", &"side")], side);
            m.raw("<div class=\"room\">");
            if ms > 0.0 {
                m.open("span", &[("class", &"fill"), ("style", &format!("width:{}%", px(share(ms))))]).close("span");
            }
            if let Some(e) = self.expected.filter(|_| class == "target") {
                let (low, high) = (share(e.low * self.ms.reference), share(e.high * self.ms.reference));
                let place = format!("left:{}%;width:{}%", px(low), px(high - low));
                m.open("span", &[("class", &"expect"), ("style", &place)]).close("span");
            }
            m.raw("</div>").leaf("span", &[("class", &"num"), ("data-side", &class)], shown_ms(ms));
            m.close("div");
        }
        m.close("div");
    }

    /// The ratio on a track from `1/reach` to `reach`, on which 1 stands in the middle.
    pub(super) fn track(&self, m: &mut Markup, reach: f64, class: &'static str, name: &str) {
        let place = |ratio: f64| 50.0 * (1.0 + (ratio.max(f64::MIN_POSITIVE).ln() / reach.ln()).clamp(-1.0, 1.0));
        m.open("div", &[("class", &"ratio"), ("data-tip", &self.tip(name))]);
        m.raw("<span class=\"even\"></span>");
        if let Some(e) = self.expected {
            let (low, high) = (place(e.low), place(e.high));
            let at = format!("left:{}%;width:{}%", px(low), px(high - low));
            m.open("span", &[("class", &"expect"), ("style", &at)]).close("span");
        }
        if let Some(ratio) = self.ms.ratio().filter(|r| *r > 0.0) {
            let at = format!("left:{}%", px(place(ratio)));
            m.open("span", &[("class", &format!("actual {class}")), ("style", &at)]).close("span");
        }
        m.close("div");
    }

    /// Everything it shows, in words.
    fn tip(&self, name: &str) -> String {
        let mut lines = vec![
            name.to_owned(),
            format!("reference {} ms, target {} ms", shown_ms(self.ms.reference), shown_ms(self.ms.target)),
        ];
        if let (Some(ratio), Some(delta)) = (self.ms.ratio(), self.ms.delta_percent()) {
            lines.push(format!("target over reference {}, {}", times(ratio), percent(delta)));
        }
        lines.extend(self.expected.map(|e| {
            let (low, high) = (e.low * self.ms.reference, e.high * self.ms.reference);
            let (low, high) = (shown_ms(low), shown_ms(high));
            let ms = if low == high { low } else { format!("{low} to {high}") };
            format!("the hardware suggests {}: {ms} ms", expected_words(e))
        }));
        lines.join("\n")
    }
}

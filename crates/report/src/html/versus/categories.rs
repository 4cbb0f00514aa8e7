//! Categories: both times as bars, the ratio of both, and where the hardware suggests it.

use jarvis_analyze::comparative::{Compared, Verdict};

use super::Scene;
use super::pair::Pair;
use super::rows::category;
use super::words;
use crate::html::family::Family;
use crate::html::markup::{Markup, printable, px};
use crate::html::sections::begin;

/// The track of ratios reaches at least and at most so far.
const REACH: (f64, f64) = (2.0, 16.0);

pub(super) fn section(m: &mut Markup, scene: &Scene<'_>) {
    let c = scene.versus.comparative;
    begin(m, "categories", "By category");
    m.open("p", &[("class", &"note")]);
    m.text(format!("Kernel time {}, with what has no counterpart. ", c.normalization.unit()));
    m.text("Marks show what the hardware suggests for matched operations, where they are most of the category.");
    m.close("p");
    let pair = |c: &Compared| Pair { ms: c.ms, expected: c.expected };
    let full = c.categories.iter().map(|c| pair(c).longest()).fold(0.0, f64::max);
    let reach = reach(&c.categories);
    m.raw("<ul class=\"legend\"><li><span class=\"key side-reference\"></span>Reference</li>");
    m.raw("<li><span class=\"key side-target\"></span>Target</li>");
    m.raw("<li><span class=\"key side-expect\"></span>Expected from the hardware</li></ul>");
    m.open("div", &[("class", &"cats"), ("id", &"category-bars"), ("role", &"list")]);
    head(m, reach);
    for entry in &c.categories {
        one(m, scene, entry, &pair(entry), (full, reach));
    }
    m.raw("</div></section>");
}

fn reach(categories: &[Compared]) -> f64 {
    let far = |ratio: f64| if ratio > 0.0 { ratio.max(1.0 / ratio) } else { 1.0 };
    let all = categories.iter().flat_map(|c| {
        let expected = c.expected.map(|e| far(e.low).max(far(e.high)));
        [c.ms.ratio().map(far), expected].into_iter().flatten()
    });
    all.fold(REACH.0, f64::max).min(REACH.1) * 1.15
}

fn head(m: &mut Markup, reach: f64) {
    m.raw(
        "<div class=\"cat heads\" aria-hidden=\"true\"><span></span><span>Kernel time, ms</span><span class=\"scale\">",
    );
    let ticks = if reach < 6.0 { [0.25, 0.5, 1.0, 2.0, 4.0] } else { [0.1, 0.3, 1.0, 3.0, 10.0] };
    for ratio in ticks.into_iter().filter(|r: &f64| r.ln().abs() < 0.97 * reach.ln()) {
        let place = format!("left:{}%", px(50.0 * (1.0 + ratio.ln() / reach.ln())));
        m.leaf("i", &[("style", &place)], format!("{}×", px(ratio)));
    }
    m.raw("</span><span>Target over reference</span></div>");
}

fn one(m: &mut Markup, scene: &Scene<'_>, c: &Compared, pair: &Pair, (full, reach): (f64, f64)) {
    let name = printable(category(scene.versus, &c.category));
    let (sign, verdict) = match (c.ms.reference > 0.0, c.ms.target > 0.0) {
        (true, true) if c.verdict.is_none() => ("–", "other operations"),
        (true, true) => words::verdict(c.verdict),
        (true, false) => ("–", "only in the reference"),
        (false, _) => ("–", "only in the target"),
    };
    let tone = format!("v-{}", words::key(c.verdict));
    m.open("div", &[("class", &"cat"), ("role", &"listitem"), ("data-category", &printable(&c.category))]);
    m.open("div", &[("class", &"what")]);
    let key = format!("key {}", Family::of_category(&c.category).class());
    m.open("span", &[("class", &key)]).close("span").leaf("b", &[("class", &"name")], &name);
    let bound = words::bound(c.bound).map_or("bound not known".to_owned(), |b| format!("mostly {b}-bound"));
    m.leaf("span", &[("class", &"faint sub")], bound).close("div");
    pair.bars(m, full, &name);
    let dot = if c.verdict.is_some_and(Verdict::is_slow) { "slow" } else { "" };
    pair.track(m, reach, dot, &name);
    let ratio = c.ms.ratio().filter(|r| *r > 0.0);
    m.open("div", &[("class", &"said")]);
    m.leaf("b", &[("data-field", &"ratio")], ratio.map_or("–".to_owned(), words::times));
    m.raw(" <span class=\"faint\">expected ");
    m.leaf("span", &[("data-field", &"expected")], c.expected.map_or("–".to_owned(), words::expected)).raw("</span>");
    m.open("span", &[("class", &format!("verdict {tone}"))]).text(format!("{sign} {verdict}")).close("span");
    m.raw("</div></div>");
}

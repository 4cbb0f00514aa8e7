//! The top of the page: the GPU's time as one bar, and what is left of it after each fix.

use jarvis_analyze::rounding::{shown, shown_ms};

use super::markup::{Markup, px};
use super::side::Share;
use super::waterfall::{Fix, Waterfall};

/// The timeline as one bar with a legend.
pub(crate) fn bar(m: &mut Markup, total_ms: f64, shares: &[Share]) {
    m.open("div", &[("class", &"bar"), ("id", &"timeline-bar")]);
    segments(m, total_ms, shares, 1.0);
    m.close("div");
    m.open("ul", &[("class", &"legend")]);
    for share in shares.iter().filter(|s| s.percent > 0.0) {
        m.open("li", &[("data-key", &share.key)]);
        let class = format!("key {}", share.key);
        m.open("span", &[("class", &class)]).close("span").text(share.label).raw(" ");
        m.leaf("b", &[], format!("{} ms", shown_ms(share.ms)));
        m.leaf("span", &[("class", &"faint")], format!(" {} %", shown(share.percent, 1))).close("li");
    }
    m.close("ul");
}

/// The parts of a bar that takes this share of the width there is.
pub(crate) fn segments(m: &mut Markup, total_ms: f64, shares: &[Share], width_share: f64) {
    for share in shares.iter().filter(|s| s.percent > 0.0) {
        let width = format!("flex-grow:{}", px(share.percent));
        let class = format!("seg {}", share.key);
        let tip = format!(
            "{}\n{} ms of {} ms, {} %\n{}",
            share.label,
            shown_ms(share.ms),
            shown_ms(total_ms),
            shown(share.percent, 1),
            share.meaning
        );
        let name = format!("{}: {} ms, {} %", share.label, shown_ms(share.ms), shown(share.percent, 1));
        m.open(
            "button",
            &[("type", &"button"), ("class", &class), ("style", &width), ("data-tip", &tip), ("aria-label", &name)],
        );
        if share.percent * width_share >= 7.0 {
            m.leaf("span", &[], format!("{} %", shown(share.percent, 1)));
        }
        m.close("button");
    }
}

/// The window after each fix.
pub(crate) fn waterfall(m: &mut Markup, w: &Waterfall) {
    m.open("ol", &[("class", &"fall")]);
    m.raw("<li>").open("span", &[("class", &"what")]).leaf("b", &[], "Now").close("span");
    m.open("span", &[("class", &"track")]).open("span", &[("class", &"left"), ("style", &"width:100%")]);
    m.close("span").close("span");
    m.leaf("span", &[("class", &"num")], format!("{} ms", shown_ms(w.window_ms))).raw("</li>");
    for fix in &w.fixes {
        step(m, w, fix);
    }
    m.close("ol");
    m.open("p", &[("class", &"note")]);
    m.text(
        "Milliseconds of the traced window if the fixes are made in this order. Savings overlap, so each fix is taken to \
         shorten what is left by the share it saves alone, but not below the kernels that stay, and not at all if its cause \
         goes with an earlier one; the thin line runs from the hopeful to the cautious end.",
    );
    m.close("p");
}

fn step(m: &mut Markup, w: &Waterfall, fix: &Fix) {
    let share = |ms: f64| px(100.0 * ms / w.window_ms);
    let tip = format!(
        "after fix {}: {} ms\nbetween {} and {} ms\nalone it saves {} to {} ms",
        fix.rank,
        shown_ms(fix.after_ms),
        shown_ms(fix.after.low),
        shown_ms(fix.after.high),
        shown_ms(fix.saved.low),
        shown_ms(fix.saved.high)
    );
    let link = format!("#finding-{}", fix.rank);
    m.raw("<li>").open("a", &[("class", &"what"), ("href", &link)]);
    m.leaf("span", &[("class", &"rank")], fix.rank).prose(&fix.title).close("a");
    m.open("span", &[("class", &"track"), ("data-tip", &tip)]);
    m.open("span", &[("class", &"left"), ("style", &format!("width:{}%", share(fix.after_ms)))]).close("span");
    let saved = format!("left:{}%;width:{}%", share(fix.after_ms), share(fix.before_ms - fix.after_ms));
    m.open("span", &[("class", &"saved"), ("style", &saved)]).close("span");
    let range = format!("left:{}%;width:{}%", share(fix.after.low), share(fix.after.high - fix.after.low));
    m.open("span", &[("class", &"range"), ("style", &range)]).close("span").close("span");
    m.leaf("span", &[("class", &"num")], format!("{} ms", shown_ms(fix.after_ms))).raw("</li>");
}

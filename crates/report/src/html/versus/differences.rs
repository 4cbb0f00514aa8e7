//! What differs: the parts that the difference of the total times is made of, and what has no counterpart.

use jarvis_analyze::comparative::{Change, Part};
use jarvis_analyze::prepare::args::SEPARATOR;
use jarvis_analyze::rounding::{round, shown, shown_ms};

use super::Scene;
use super::words;
use crate::Run;
use crate::html::markup::{Markup, printable, px};
use crate::html::sections::begin;

/// Most differences, and most rows without a counterpart; files have all.
const MOST: usize = 40;

/// The differences, the largest first.
pub(super) fn changes(m: &mut Markup, scene: &Scene<'_>) {
    let c = scene.versus.comparative;
    begin(m, "changes", "What differs");
    m.raw("<p class=\"note\">The difference of the total times in parts that add up to it, the largest first. Bars to the ");
    m.raw("left: the target takes less; to the right: it takes more.</p>");
    let axis = Axis::of(c.changes.iter().map(|c| c.ms.delta()));
    m.open("ol", &[("class", &"changes")]);
    let told: Vec<&Change> = c.changes.iter().filter(|c| round(c.ms.delta(), 3).abs() > 0.0).collect();
    for change in told.iter().take(MOST) {
        one(m, change, &axis);
    }
    m.close("ol");
    if told.is_empty() {
        m.leaf("p", &[], "Nothing.");
    }
    if told.len() > MOST {
        m.leaf("p", &[("class", &"note")], format!("{} more in findings.json.", told.len() - MOST));
    }
    m.close("section");
}

/// Where differences are drawn: as much room on each side of zero as its largest needs, in percent.
struct Axis {
    zero: f64,
    /// Of a millisecond.
    scale: f64,
}

impl Axis {
    /// Room on a side that has nothing.
    const LEAST: f64 = 4.0;

    fn of(deltas: impl Iterator<Item = f64>) -> Self {
        let (less, more) = deltas.fold((0.0, 0.0), |(less, more): (f64, f64), d| (less.max(-d), more.max(d)));
        let all = if less + more > 0.0 { less + more } else { 1.0 };
        let zero = (100.0 * less / all).clamp(Self::LEAST, 100.0 - Self::LEAST);
        Self { zero, scale: (100.0 - 2.0 * Self::LEAST) / all }
    }
}

fn one(m: &mut Markup, c: &Change, axis: &Axis) {
    let delta = c.ms.delta();
    let width = px(delta.abs() * axis.scale);
    let (class, place) = if delta < 0.0 {
        ("less", format!("right:{}%;width:{width}%", px(100.0 - axis.zero)))
    } else {
        ("more", format!("left:{}%;width:{width}%", px(axis.zero)))
    };
    let times = format!("{} → {} ms", shown_ms(c.ms.reference), shown_ms(c.ms.target));
    let signed = format!("{} ms", words::signed_ms(delta));
    let tip = format!("{}\n{times}\n{signed}", words::kind(c.kind));
    m.raw("<li>").open("div", &[("class", &"what")]);
    m.leaf("span", &[("class", &"kind")], words::kind(c.kind)).raw(" ").prose(&c.what).close("div");
    m.open("div", &[("class", &"delta"), ("data-tip", &tip)]);
    m.open("span", &[("class", &"even"), ("style", &format!("left:{}%", px(axis.zero)))]).close("span");
    m.open("span", &[("class", &class), ("style", &place)]).close("span").close("div");
    m.open("div", &[("class", &"num")]);
    m.leaf("b", &[("data-field", &"delta_ms")], signed);
    m.leaf("span", &[("class", &"faint sub"), ("data-field", &"ms")], times).raw("</div></li>");
}

/// What only one side runs, both lists next to each other.
pub(super) fn unmatched(m: &mut Markup, scene: &Scene<'_>) {
    let left = &scene.versus.comparative.left;
    begin(m, "unmatched", "Without a counterpart");
    m.raw("<div class=\"columns\">");
    list(m, ("reference", "Only in the reference"), &scene.versus.reference, &left.reference);
    list(m, ("target", "Only in the target"), &scene.versus.target, &left.target);
    m.raw("</div></section>");
}

fn list(m: &mut Markup, (side, title): (&'static str, &'static str), run: &Run<'_>, parts: &[Part]) {
    m.raw("<div>").open("h3", &[]).text(title);
    let all: f64 = parts.iter().map(|p| p.ms).sum();
    m.leaf("span", &[("class", &"faint")], format!(" {} ms", shown_ms(all))).close("h3");
    if parts.is_empty() {
        m.raw("<p class=\"faint\">Nothing.</p></div>");
        return;
    }
    m.raw("<div class=\"scroll\">").open("table", &[("class", &"lone"), ("data-side", &side)]);
    m.raw("<thead><tr><th>Operation</th><th class=\"num\">Calls</th><th class=\"num\">ms</th></tr></thead><tbody>");
    for part in parts.iter().take(MOST) {
        let args = part.row.map(|r| run.analysis.prepared.row(r).args.replace(SEPARATOR, ", ")).unwrap_or_default();
        m.raw("<tr><td>").leaf("span", &[("class", &"name")], printable(&part.name));
        for text in [&*args, &*part.place.modules].into_iter().filter(|t| !t.is_empty()) {
            m.leaf("span", &[("class", &"faint sub name")], printable(text));
        }
        m.raw("</td>").leaf("td", &[("class", &"num")], calls(part.calls));
        m.leaf("td", &[("class", &"num")], shown(part.ms, 3)).raw("</tr>");
    }
    m.raw("</tbody></table></div>");
    if parts.len() > MOST {
        m.open("p", &[("class", &"note")]).text(format!("{} more in ", parts.len() - MOST));
        m.raw("<code>comparison_metrics.json</code>.</p>");
    }
    m.close("div");
}

/// A number of calls, which of several steps need not be whole.
pub(super) fn calls(n: f64) -> String {
    let text = shown(n, 1);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_side_has_the_room_it_needs() {
        let axis = Axis::of([-30.0, 10.0].into_iter());
        assert!((axis.zero - 75.0).abs() < 1e-9);
        assert!(axis.zero - 30.0 * axis.scale >= 0.0 && axis.zero + 10.0 * axis.scale <= 100.0);
        let none = Axis::of([].into_iter());
        assert!(none.zero.is_finite() && none.scale.is_finite());
        let less = Axis::of([-5.0].into_iter());
        assert!(less.zero - 5.0 * less.scale >= -1e-9 && less.zero < 100.0);
    }
}

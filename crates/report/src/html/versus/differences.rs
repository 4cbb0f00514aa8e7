//! What differs: the parts that the difference of the total times is made of, and what has no counterpart.

use jarvis_analyze::comparative::{Change, Part};
use jarvis_analyze::rounding::{shown, shown_ms};

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
    let widest = c.changes.iter().map(|c| c.ms.delta().abs()).fold(f64::MIN_POSITIVE, f64::max);
    m.open("ol", &[("class", &"changes")]);
    for change in c.changes.iter().take(MOST) {
        one(m, change, widest);
    }
    m.close("ol");
    if c.changes.len() > MOST {
        m.leaf("p", &[("class", &"note")], format!("{} more in findings.json.", c.changes.len() - MOST));
    }
    m.close("section");
}

fn one(m: &mut Markup, c: &Change, widest: f64) {
    let delta = c.ms.delta();
    let half = px(50.0 * delta.abs() / widest);
    let (class, place) = if delta < 0.0 {
        ("less", format!("right:50%;width:{half}%"))
    } else {
        ("more", format!("left:50%;width:{half}%"))
    };
    let times = format!("{} → {} ms", shown_ms(c.ms.reference), shown_ms(c.ms.target));
    let sign = if delta > 0.0 { "+" } else { "" };
    let tip = format!("{}\n{times}\n{sign}{} ms", words::kind(c.kind), shown_ms(delta));
    m.raw("<li>").open("div", &[("class", &"what")]);
    m.leaf("span", &[("class", &"kind")], words::kind(c.kind)).raw(" ").prose(&c.what).close("div");
    m.open("div", &[("class", &"delta"), ("data-tip", &tip)]).raw("<span class=\"even\"></span>");
    m.open("span", &[("class", &class), ("style", &place)]).close("span").close("div");
    m.open("div", &[("class", &"num")]);
    m.leaf("b", &[("data-field", &"delta_ms")], format!("{sign}{} ms", shown_ms(delta)));
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
        let args = part.row.map(|r| run.analysis.prepared.row(r).args.replace("<br>", ", ")).unwrap_or_default();
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

//! Where the target should be improved, as cards in the order of what they save.

use jarvis_analyze::comparative::{Both, Compared, Gap, GapSource};
use jarvis_analyze::finding::Paths;
use jarvis_analyze::prepare::args::SEPARATOR;
use jarvis_analyze::rounding::{shown, shown_ms};

use super::Scene;
use super::differences::calls;
use super::pair::Pair;
use super::rows::{arguments, is_group};
use super::words;
use crate::html::cards::{fact, paths};
use crate::html::markup::{Markup, printable};
use crate::html::sections::begin;

/// Most steps of a path; the file has all.
const MOST_STEPS: usize = 4;

pub(super) fn section(m: &mut Markup, scene: &Scene<'_>, beside: &[String]) {
    begin(m, "improve", "What to improve on the target");
    let c = scene.versus.comparative;
    if c.gaps.is_empty() {
        m.open("p", &[]).prose(&format!("Nothing from the comparison. {}", c.no_gap())).close("p");
    }
    for gap in &c.gaps {
        card(m, scene, gap, beside);
    }
    m.close("section");
}

/// The tone of a rank, as reports mark it.
fn tone(rank: usize) -> &'static str {
    match rank {
        1 => "card p-critical",
        2 => "card p-high",
        _ => "card p-medium",
    }
}

fn card(m: &mut Markup, scene: &Scene<'_>, gap: &Gap, beside: &[String]) {
    let compared = match gap.source {
        GapSource::Operation(at) => scene.versus.comparative.operations.get(at).map(|c| (at, c)),
        _ => None,
    };
    let id = format!("gap-{}", gap.rank);
    m.open("article", &[("class", &tone(gap.rank)), ("id", &id), ("tabindex", &"-1")]);
    m.raw("<header>").leaf("span", &[("class", &"rank")], gap.rank);
    m.open("h3", &[]).prose(&gap.title).close("h3");
    let badge = match gap.source {
        GapSource::Operation(_) => words::verdict(compared.and_then(|(_, c)| c.verdict)).1,
        GapSource::Cause(_) => "one cause",
        GapSource::Unmatched => "no counterpart",
        GapSource::Idle => "idle",
        GapSource::Overlap => "overlap",
        GapSource::Copies => "copies",
        GapSource::Communication => "communication",
    };
    m.leaf("span", &[("class", &"badge")], badge).raw("</header>");
    let pair = Pair { ms: gap.ms, expected: gap.expected };
    m.raw("<div class=\"gap\">");
    pair.bars(m, pair.longest(), &gap.title.replace('`', ""));
    m.open("dl", &[("class", &"facts")]);
    facts(m, gap, compared.map(|(_, c)| c));
    m.raw("</dl></div>");
    steps(m, gap, &scene.versus.comparative.gaps[..gap.rank.saturating_sub(1)]);
    details(m, scene, gap, compared, beside);
    m.close("article");
}

/// What closing a gap saves in percent, and of what.
fn share(gap: &Gap) -> (f64, &'static str) {
    gap.saved_percent_of_compute.map_or((gap.saved_percent_of_total, "GPU time"), |percent| (percent, "compute"))
}

fn facts(m: &mut Markup, gap: &Gap, compared: Option<&Compared>) {
    let (share, whole) = share(gap);
    let saved = format!("{} ms, {} % of {whole}", shown_ms(gap.saved_ms), shown(share, 1));
    fact(m, "over expectation", &saved, "saved");
    if let (Some(ratio), Some(delta)) = (gap.ms.ratio(), gap.ms.delta_percent()) {
        fact(m, "target over reference", &format!("{} ({})", words::times(ratio), words::percent(delta)), "ratio");
    }
    if let Some(expected) = gap.expected {
        let bound = compared.and_then(|c| words::bound(c.bound)).map_or(String::new(), |b| format!(", {b}-bound"));
        fact(m, "expected from the hardware", &format!("{}{bound}", words::expected(expected)), "expected");
    }
}

fn details(m: &mut Markup, scene: &Scene<'_>, gap: &Gap, compared: Option<(usize, &Compared)>, beside: &[String]) {
    m.raw("<details><summary>Evidence</summary>");
    if let Some((at, c)) = compared {
        if let Some(why) = c.explanation() {
            m.leaf("p", &[("class", &"basis")], why.text);
        }
        both_sides(m, c);
        if at < scene.rows.rows.len() {
            m.raw("<p>").open("button", &[("type", &"button"), ("class", &"link"), ("data-show-row", &at)]);
            m.text("Show it in the table").raw("</button>");
            if let Some(uid) = c.uid {
                m.text(format!("; jarvis tree opens uid {uid} of the target"));
            }
            m.raw("</p>");
        }
    } else if gap.source == GapSource::Unmatched {
        m.raw("<p><a href=\"#unmatched\">Both lists of what has no counterpart</a></p>");
    } else if let Some((what, file)) = seen_in(gap.source).filter(|(_, file)| beside.iter().any(|f| f == file)) {
        m.raw("<p>").text(what).raw(": ").leaf("a", &[("href", &file)], file).raw("</p>");
    }
    if let GapSource::Cause(_) = gap.source {
        members(m, scene, gap);
    }
    for package in scene.versus.target.replay.iter().filter(|r| gap.replay.contains(&r.op)) {
        m.raw("<p>Replay package: ").leaf("code", &[], &package.path).raw("</p>");
    }
    m.raw("</details>");
}

/// Which file tells more of time in which nothing computes, and what of it.
fn seen_in(source: GapSource) -> Option<(&'static str, &'static str)> {
    match source {
        GapSource::Idle => Some(("What the GPU waits for", "system_findings/cpu_idle_findings.md")),
        GapSource::Copies => Some(("What is copied", "system_findings/multi_kernel_findings.md")),
        GapSource::Communication => Some(("What is communicated", "system_findings/multi_kernel_findings.md")),
        _ => None,
    }
}

/// The operations that one change explains.
fn members(m: &mut Markup, scene: &Scene<'_>, gap: &Gap) {
    m.raw("<div class=\"scroll\"><table class=\"sides\"><thead><tr><th>Operation</th><th>Arguments</th><th>Reference (ms)</th>");
    m.raw("<th>Target (ms)</th><th>Over expectation (ms)</th></tr></thead><tbody>");
    for c in gap.operations.iter().filter_map(|&at| scene.versus.comparative.operations.get(at)) {
        m.raw("<tr>");
        for name in [&c.name, &arguments(c)] {
            m.leaf("td", &[("class", &"name")], printable(name));
        }
        for ms in [c.ms.reference, c.ms.target, c.saved_ms] {
            m.leaf("td", &[], shown_ms(ms));
        }
        m.raw("</tr>");
    }
    m.raw("</tbody></table></div>");
}

/// What to do. What concerns other operations stands with those, and what an earlier card says is not said again.
fn steps(m: &mut Markup, gap: &Gap, earlier: &[Gap]) {
    let own = format!("`{}`", gap.name);
    let is_own = |s: &&String| !s.starts_with('`') || s.starts_with(&own);
    let of = |steps: &[String], path: fn(&Gap) -> &Vec<String>| {
        let mut list: Vec<String> = Vec::new();
        for step in steps.iter().filter(is_own) {
            match earlier.iter().find(|e| path(e).contains(step)) {
                Some(e) => {
                    let as_there = format!("As in {}.", e.rank);
                    if !list.contains(&as_there) {
                        list.push(as_there);
                    }
                }
                None => list.push(step.clone()),
            }
        }
        if list.len() > MOST_STEPS {
            let rest = list.len() - MOST_STEPS;
            list.truncate(MOST_STEPS);
            list.push(format!("{rest} more in `findings.json`."));
        }
        list
    };
    let told = Paths {
        algorithmic: of(&gap.paths.algorithmic, |g| &g.paths.algorithmic),
        kernel: of(&gap.paths.kernel, |g| &g.paths.kernel),
    };
    paths(m, &told);
}

/// What is known of it on each side.
fn both_sides(m: &mut Markup, c: &Compared) {
    m.raw("<div class=\"scroll\"><table class=\"sides\"><thead><tr><th></th><th>Reference</th><th>Target</th></tr></thead>");
    m.raw("<tbody>");
    let mut row = |name: &'static str, values: Both<String>| {
        m.raw("<tr>").leaf("td", &[], name);
        for value in [values.reference, values.target] {
            m.leaf("td", &[("class", &"name")], printable(&value));
        }
        m.raw("</tr>");
    };
    row("Calls", Both::of(c.calls, calls));
    row("Kernels", Both::of(c.launched, calls));
    if c.efficiency_percent != Both::default() {
        let text = |e: Option<f64>| e.map_or("–".to_owned(), |e| format!("{} %", shown(e, 1)));
        row("Of the roof", Both::of(c.efficiency_percent, text));
    }
    if is_group(c) {
        row("Operations", Both::of(c.operations.as_ref(), |names| names.join(", ")));
    } else {
        row("Arguments", Both::of(c.shapes.as_ref(), |args| args.replace(SEPARATOR, ", ")));
    }
    row("Longest kernel", Both::of(c.kernels.as_ref(), |k| k.first().map_or("–".to_owned(), ToString::to_string)));
    m.raw("</tbody></table></div>");
}

//! The page of a comparison: both sides next to each other. The reference shows what is achievable, the target is to be
//! improved; all numbers are those of `comparison_metrics.json` and `findings.json`.

mod cards;
mod categories;
mod differences;
mod overview;
mod pair;
mod rows;
mod scatter;
mod words;

use jarvis_analyze::comparative::Both;
use jarvis_trace::Trace;
use serde::Serialize;

use super::cards::{Links, card};
use super::island;
use super::markup::{Markup, printable};
use super::page::{Parts, VERSUS, Words, put_together};
use super::sections::{self, TABLE, ZOOM, begin};
use super::side;
use super::source::Source;
use super::strip::{self, Strip};
use super::texts::Texts;
use crate::Versus;
use rows::Rows;
use scatter::Scatter;

/// What the script of the page reads.
#[derive(Serialize)]
struct PageData<'a> {
    #[serde(flatten)]
    words: Words,
    verdicts: [(&'static str, &'static str, &'static str); 7],
    texts: &'a Texts,
    operations: &'a Rows,
    strips: [Option<&'a Strip>; 2],
}

/// A comparison with what its page needs.
struct Scene<'a> {
    versus: &'a Versus<'a>,
    sources: Both<Source<'a>>,
    texts: Texts,
    rows: Rows,
    strips: Both<Option<Strip>>,
    scatter: Option<Scatter>,
}

/// The page. `beside` are the other files of the output folder, for links.
pub(crate) fn render<'a>(versus: &'a Versus<'a>, traces: Both<&Trace>, beside: &[String]) -> Vec<u8> {
    let sources = Both { reference: Source::of_run(&versus.reference), target: Source::of_run(&versus.target) };
    let mut texts = Texts::default();
    let rows = Rows::of(versus, &mut texts);
    let mut strip = |s: &Source<'_>, trace| strip::strip(s, trace, &side::families(s, trace), &mut texts);
    let strips =
        Both { reference: strip(&sources.reference, traces.reference), target: strip(&sources.target, traces.target) };
    let scatter = Scatter::of(versus);
    let scene = Scene { versus, sources, texts, rows, strips, scatter };
    let data = island::json(&PageData {
        words: Words::new("jarvis.versus/1"),
        verdicts: words::VERDICTS,
        texts: &scene.texts,
        operations: &scene.rows,
        strips: [scene.strips.reference.as_ref(), scene.strips.target.as_ref()],
    });
    let title = versus.target.model_name();
    let mut head = Markup::default();
    head.leaf("h1", &[("class", &"name")], printable(title));
    sections::meta(&mut head, &scene.sources.reference, Some("Reference"));
    sections::meta(&mut head, &scene.sources.target, Some("Target"));
    let (nav, main) = body(&scene, beside);
    put_together(&Parts { kind: VERSUS, title, head, nav, main, data })
}

/// Its id, what it is called in links, whether it is there, and what writes it.
type Section<'a> = (&'static str, &'static str, bool, &'a dyn Fn(&mut Markup));

/// Links to the sections that there are, and the sections.
fn body(scene: &Scene<'_>, beside: &[String]) -> (Markup, Markup) {
    let c = scene.versus.comparative;
    let left = !c.left.reference.is_empty() || !c.left.target.is_empty();
    let strips = scene.strips.reference.is_some() || scene.strips.target.is_some();
    let sections: [Section<'_>; 9] = [
        ("overview", "Overview", true, &|m| overview::section(m, scene)),
        ("improve", "What to improve", true, &|m| cards::section(m, scene, beside)),
        ("step", "Timelines", strips, &|m| steps(m, scene)),
        ("changes", "What differs", !c.changes.is_empty(), &|m| differences::changes(m, scene)),
        ("categories", "By category", !c.categories.is_empty(), &|m| categories::section(m, scene)),
        ("expected", "As expected?", scene.scatter.is_some(), &|m| scatter_section(m, scene)),
        ("operations", "Matched operations", true, &|m| operations(m, scene)),
        ("unmatched", "Without a counterpart", left, &|m| differences::unmatched(m, scene)),
        ("findings", "Target alone", true, &|m| findings(m, scene, beside)),
    ];
    let (mut nav, mut main) = (Markup::default(), Markup::default());
    for (id, name, _, section) in sections.iter().filter(|(.., there, _)| *there) {
        nav.leaf("a", &[("href", &format!("#{id}"))], name);
        section(&mut main);
    }
    (nav, main)
}

fn scatter_section(m: &mut Markup, scene: &Scene<'_>) {
    if let Some(scatter) = &scene.scatter {
        scatter.section(m, scene.versus);
    }
}

fn operations(m: &mut Markup, scene: &Scene<'_>) {
    begin(m, "operations", "Matched operations");
    m.open("p", &[("class", &"note")]);
    m.text(format!(
        "What both sides do, with times {}. Expected is target over reference as the peaks of both platforms suggest; \
         over is what the target takes beyond it. ",
        scene.versus.comparative.normalization.unit()
    ));
    if scene.rows.more_rows > 0 {
        let shown = sections::thousands(scene.rows.rows.len());
        m.text(format!("The {shown} with most time; {} more stand in ", sections::thousands(scene.rows.more_rows)));
        m.raw("<code>comparison_metrics.json</code>.");
    }
    m.close("p").raw(TABLE).close("section");
}

fn steps(m: &mut Markup, scene: &Scene<'_>) {
    begin(m, "step", "One step of each side");
    m.raw(
        "<p class=\"note\">The step of middle length of each side, or all of it where no steps were recorded, on one ",
    );
    m.raw("scale. What is narrower than a pixel is drawn together.</p>").raw(ZOOM);
    for (side, name, source) in
        [("reference", "Reference", &scene.sources.reference), ("target", "Target", &scene.sources.target)]
    {
        m.open("h3", &[("class", &"who")]).text(name).raw(" ");
        m.leaf("span", &[("class", &"faint name")], printable(source.file_name())).close("h3");
        m.open("div", &[("class", &"strip"), ("id", &format!("strip-{side}"))]).close("div");
    }
    m.raw("<ul class=\"legend\" id=\"strip-legend\"></ul>").close("section");
}

/// What the target could do in less time, whatever the reference does.
fn findings(m: &mut Markup, scene: &Scene<'_>, beside: &[String]) {
    let run = &scene.versus.target;
    begin(m, "findings", "Findings of the target alone");
    m.raw(
        "<p class=\"note\">What the target could do in less time, whatever the reference does. Times are of its whole ",
    );
    m.raw("trace.</p>");
    if run.analysis.findings.is_empty() {
        m.leaf("p", &[], run.analysis.nothing_recommended());
    }
    let rows: Vec<u32> = scene.rows.rows.iter().filter_map(|r| r.uid).collect();
    let total_ms = run.report.rows.timeline.total.0 / 1e3;
    for finding in &run.analysis.findings {
        card(m, finding, run.analysis.no_gain(finding), total_ms, &Links { files: beside, rows: &rows });
    }
    m.close("section");
}

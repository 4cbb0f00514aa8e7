//! The sections of the page.

use jarvis_analyze::rank;
use jarvis_analyze::rounding::{shown, shown_ms};
use jarvis_analyze::texts::counted;
use jarvis_trace::InOrder;

use super::cards::{self, Links};
use super::family::Family;
use super::markup::{Markup, printable, px};
use super::overview;
use super::plot::Layout;
use super::roofline::{DotUse, Roofline};
use super::side::Side;
use super::source::Source;
use super::strip::CLASSES;

/// Warnings shown.
const WARNINGS: usize = 12;

/// Buttons that zoom strips.
pub(crate) const ZOOM: &str = "<div class=\"tools\"><span class=\"group\" role=\"group\" aria-label=\"Zoom\">\
     <button type=\"button\" id=\"zoom-out\" aria-label=\"Zoom out\">−</button>\
     <button type=\"button\" id=\"zoom-fit\">Fit</button>\
     <button type=\"button\" id=\"zoom-in\" aria-label=\"Zoom in\">+</button></span></div>";

/// The table of operations, which the script fills.
pub(crate) const TABLE: &str = "<div class=\"tools\"><label class=\"search\"><span class=\"hidden\">Search</span>\
     <input type=\"search\" id=\"search\" placeholder=\"Search name, shape, kernel, module\" autocomplete=\"off\" \
     spellcheck=\"false\"></label><button type=\"button\" id=\"copy-csv\">Copy as CSV</button>\
     <button type=\"button\" id=\"filter-chip\" class=\"chip\" hidden></button>\
     <span class=\"faint\" id=\"table-status\" role=\"status\"></span></div>\
     <div class=\"scroll\"><table id=\"ops\"><thead></thead><tbody></tbody></table></div>\
     <button type=\"button\" id=\"more-rows\" hidden></button>\
     <noscript><p>Tables and charts need JavaScript; the files beside this page hold the same numbers.</p></noscript>";

/// What was read and what it is measured against.
pub(crate) fn head(m: &mut Markup, side: &Side<'_>) {
    let s = &side.source;
    m.leaf("h1", &[("class", &"name")], printable(s.title.unwrap_or(s.file_name())));
    meta(m, s, None);
}

/// What was read, on one line; with what it is called where there are two.
pub(crate) fn meta(m: &mut Markup, s: &Source<'_>, who: Option<&'static str>) {
    m.open("p", &[("class", &"meta")]);
    if let Some(who) = who {
        m.leaf("b", &[], who);
    }
    m.leaf("span", &[("class", &"name")], printable(s.file_name()));
    let mut add = |text: String| {
        m.leaf("span", &[], text);
    };
    let steps = s.summary.steps.len();
    add(counted(thousands(s.summary.events() as usize), "event"));
    if steps > 0 {
        add(counted(steps, "step"));
    }
    match s.platform {
        Some(p) => {
            let bf16 = p.peak("matrix_bf16").map_or(String::new(), |f| format!(", {} TFLOPS bf16", px(f.value)));
            let peaks = format!("{}: {} TB/s{bf16}", printable(&p.name), px(p.mem_bw_gbps.value / 1e3));
            add(if who.is_none() { format!("measured against {peaks}") } else { peaks });
        }
        None => add("no platform: no efficiencies".to_owned()),
    }
    m.close("p");
}

/// Links to the sections that there are.
pub(crate) fn navigation(m: &mut Markup, side: &Side<'_>) {
    let judged = side.source.run.is_some();
    for (id, name, there) in [
        ("overview", "Overview", true),
        ("findings", "Findings", judged),
        ("step", "Timeline", side.data.strip.is_some()),
        ("roofline", "Roofline", side.roofline.is_some()),
        ("where", "Where time goes", side.data.icicle.is_some()),
        ("operations", "Operations", true),
    ] {
        if there {
            m.leaf("a", &[("href", &format!("#{id}"))], name);
        }
    }
}

/// All sections.
pub(crate) fn main(m: &mut Markup, side: &Side<'_>, beside: &[String]) {
    overview_section(m, side);
    if side.source.run.is_some() {
        findings(m, side, beside);
    }
    if side.data.strip.is_some() {
        step(m, side);
    }
    if let Some(roofline) = &side.roofline {
        roofline_section(m, roofline);
    }
    if side.data.icicle.is_some() {
        icicle(m);
    }
    operations(m, side);
}

fn overview_section(m: &mut Markup, side: &Side<'_>) {
    begin(m, "overview", "Overview");
    numbers(m, side);
    overview::bar(m, side.total_ms, &side.shares);
    if !side.waterfall.fixes.is_empty() {
        m.leaf("h3", &[], "Estimated time after each fix");
        overview::waterfall(m, &side.waterfall);
    }
    let said = side.source.run.map_or(&[][..], |run| &run.analysis.warnings);
    warnings(m, &said.iter().map(String::as_str).collect::<Vec<_>>());
    m.close("section");
}

fn numbers(m: &mut Markup, side: &Side<'_>) {
    m.open("dl", &[("class", &"tiles")]);
    let mut tile = |field: &'static str, name: &'static str, value: String, unit: &'static str| {
        m.raw("<div>").leaf("dt", &[], name);
        m.open("dd", &[("data-field", &field)]).text(value).leaf("small", &[], unit).close("dd").raw("</div>");
    };
    tile("total_time_ms", "On the GPU", shown_ms(side.total_ms), " ms");
    for share in side.shares.iter().filter(|s| s.percent >= 0.05 || matches!(s.key, "compute" | "idle")) {
        tile(share.key, share.label, shown(share.percent, 1), " %");
    }
    if side.source.run.is_some() {
        tile("findings", "Changes to make", rank::recommended(side.findings).count().to_string(), "");
    }
    if let Some(last) = side.waterfall.fixes.last() {
        let all = side.waterfall.window_ms / last.after_ms.max(f64::MIN_POSITIVE);
        tile("together", "If all are made", shown(all, 2), " ×");
    }
    m.close("dl");
}

/// What to know before believing the numbers.
pub(crate) fn warnings(m: &mut Markup, all: &[&str]) {
    if all.is_empty() {
        return;
    }
    m.raw("<aside class=\"mind\"><h3>Mind</h3><ul>");
    for warning in all.iter().take(WARNINGS) {
        m.open("li", &[]).prose(warning).close("li");
    }
    if all.len() > WARNINGS {
        m.leaf("li", &[], format!("{} more in findings.json", all.len() - WARNINGS));
    }
    m.raw("</ul></aside>");
}

fn findings(m: &mut Markup, side: &Side<'_>, beside: &[String]) {
    begin(m, "findings", "Findings");
    if side.findings.is_empty() {
        let nothing = side.source.run.map(|run| run.analysis.nothing_recommended());
        m.leaf("p", &[], nothing.unwrap_or_else(|| "No bottleneck exceeds the thresholds.".to_owned()));
    }
    let rows: Vec<u32> = side.data.operations.rows.iter().map(|o| o.uid).collect();
    let links = Links { files: beside, rows: &rows };
    for finding in side.findings {
        let no_gain = side.source.run.and_then(|run| run.analysis.no_gain(finding));
        cards::card(m, finding, no_gain, side.total_ms, &links);
    }
    m.close("section");
}

fn roofline_section(m: &mut Markup, roofline: &Roofline) {
    begin(m, "roofline", "Roofline");
    m.open("p", &[("class", &"note")]);
    m.text(format!(
        "Each dot is an operation with one set of arguments: {} of them, {} % of kernel time. Its area is its time, its \
         distance to the roof what is missing. Choose a dot to filter the table below.",
        thousands(roofline.dots()),
        shown(100.0 * roofline.share, 0)
    ));
    m.close("p");
    for (class, layout) in [("wide", Layout::WIDE), ("narrow", Layout::NARROW)] {
        let view = format!("0 0 {} {}", px(layout.width), px(layout.height));
        let class = format!("plot {class}");
        let label = roofline.sentence();
        m.open("svg", &[("class", &class), ("viewBox", &view), ("role", &"group"), ("aria-label", &label)]);
        roofline.svg(m, layout, DotUse::Interactive);
        m.close("svg");
    }
    legend(m, roofline.families());
    m.close("section");
}

pub(crate) fn legend(m: &mut Markup, families: impl Iterator<Item = (Family, &'static str)>) {
    m.raw("<ul class=\"legend\">");
    for (family, name) in families {
        let class = format!("key {}", family.class());
        m.raw("<li>").open("span", &[("class", &class)]).close("span").text(name).raw("</li>");
    }
    m.raw("</ul>");
}

fn icicle(m: &mut Markup) {
    begin(m, "where", "Where time goes");
    m.raw(
        "<p class=\"note\">Kernel time by module, operation and kernel; layers of one class are added up. Choose a part \
         to zoom in, or move with the arrow keys.</p>\
         <div class=\"crumbs\" id=\"crumbs\"></div><div class=\"icicle\" id=\"icicle\" role=\"group\" \
         aria-label=\"Kernel time by module, operation and kernel\"></div><ul class=\"legend\" id=\"icicle-legend\"></ul>",
    );
    m.close("section");
}

fn step(m: &mut Markup, side: &Side<'_>) {
    let Some(strip) = &side.data.strip else { return };
    begin(m, "step", if strip.step.is_some() { "Timeline of one step" } else { "Timeline" });
    let what = match strip.step {
        Some(number) => format!("Step {number}, of middle length"),
        None => "The whole window: no steps were recorded".to_owned(),
    };
    let more = match strip.more_streams {
        0 => String::new(),
        n => format!("; {n} more streams with less work are left out"),
    };
    m.open("p", &[("class", &"note")]);
    let events = thousands(strip.events);
    m.text(format!(
        "{what}: {} ms, {events} kernels, copies and fills{more}. What is narrower than a pixel is drawn together.",
        shown_ms(strip.window_us / 1e3)
    ));
    m.close("p");
    m.raw(ZOOM).raw("<div class=\"strip\" id=\"strip\"></div><ul class=\"legend\" id=\"strip-legend\"></ul>");
    if let Some(gaps) = side.source.gaps.filter(|g| g.idle().0 > 0) {
        idle_table(m, gaps);
    }
    perfetto(m, side);
    m.close("section");
}

fn idle_table(m: &mut Markup, gaps: &jarvis_analyze::system::gaps::Gaps) {
    m.raw("<h3>Why the GPU was idle</h3><div class=\"scroll\"><table class=\"small\" id=\"idle\"><thead><tr>");
    m.raw("<th>Cause</th><th class=\"num\">Gaps</th><th class=\"num\">ms</th><th class=\"num\">Share of idle</th>");
    m.raw("<th class=\"meaning\">Meaning</th></tr></thead><tbody>");
    let mut order: Vec<_> = CLASSES.iter().map(|c| (gaps.class(c.0), c)).filter(|(t, _)| t.count > 0).collect();
    order.order_by(|a, b| b.0.time.cmp(&a.0.time).then(a.1.0.cmp(&b.1.0)));
    let idle = gaps.idle().0 as f64;
    for (tally, (class, name, meaning)) in order {
        m.open("tr", &[("data-class", &class.as_str())]).raw("<td>");
        let key = format!("key g-{}", class.as_str());
        m.open("span", &[("class", &key)]).close("span").text(name).raw("</td>");
        for number in [
            thousands(tally.count),
            shown_ms(tally.time.as_us() / 1e3),
            format!("{} %", shown(100.0 * tally.time.0 as f64 / idle, 1)),
        ] {
            m.leaf("td", &[("class", &"num")], number);
        }
        m.leaf("td", &[("class", &"faint meaning")], meaning).raw("</tr>");
    }
    m.raw("</tbody></table></div>");
}

fn perfetto(m: &mut Markup, side: &Side<'_>) {
    m.raw("<div class=\"perfetto\"><h3>Every event, in the Perfetto UI</h3><p class=\"note\">Choose ");
    m.leaf("span", &[("class", &"name")], printable(side.source.file_name()));
    m.raw(
        " on your disk, then open it. The browser hands the file from this page to the viewer's; nothing is uploaded. \
         The viewer itself is loaded from ui.perfetto.dev and asks whether to trust a page from your disk.</p>\
         <div class=\"tools\"><input type=\"file\" id=\"trace-file\" aria-label=\"Trace file\" accept=\".json,.gz\">\
         <button type=\"button\" id=\"open-perfetto\" disabled>Open in Perfetto</button>\
         <span class=\"faint\" id=\"perfetto-status\" role=\"status\"></span></div></div>",
    );
}

fn operations(m: &mut Markup, side: &Side<'_>) {
    begin(m, "operations", "Operations");
    let more = &side.data.operations;
    if more.more_rows > 0 {
        m.open("p", &[("class", &"note")]);
        let (rows, ms) = (thousands(more.more_rows), shown_ms(more.more_ms.0));
        m.text(format!("The {} with most time; {rows} more rows ({ms} ms) stand in ", thousands(more.rows.len())));
        m.raw("<code>unified_perf_summary</code>.</p>");
    }
    m.raw(TABLE);
    m.close("section");
}

pub(crate) fn begin(m: &mut Markup, id: &'static str, title: &'static str) {
    let heading = format!("{id}-title");
    m.open("section", &[("id", &id), ("aria-labelledby", &heading)]);
    m.leaf("h2", &[("id", &heading)], title);
}

/// A whole number with commas.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

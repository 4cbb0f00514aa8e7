//! The top of the page: the effect end to end, and both timelines on one scale.

use jarvis_analyze::comparative::{Both, ExpectedRatio, Mode, SideTotals, TotalOf};
use jarvis_analyze::prepared::BoundType;
use jarvis_analyze::rounding::{shown, shown_ms};

use super::Scene;
use super::words::{percent, signed_ms, times};
use crate::html::markup::{Markup, printable, px};
use crate::html::overview::segments;
use crate::html::sections::{begin, warnings};
use crate::html::side::parts_of;

pub(super) fn section(m: &mut Markup, scene: &Scene<'_>) {
    begin(m, "overview", "Overview");
    headline(m, scene);
    tiles(m, scene);
    bars(m, scene);
    m.raw("<div class=\"columns\">");
    totals(m, scene);
    hardware(m, scene);
    m.raw("</div>");
    patterns(m, scene);
    let own = &scene.versus.comparative.warnings;
    let target = &scene.versus.target.analysis;
    // What the target lost is among the comparison's own.
    let of_target = target.warnings.iter().filter(|w| !target.prepared.losses.contains(w));
    let of_target: Vec<String> = of_target.map(|w| format!("Of the target: {w}")).collect();
    warnings(m, &own.iter().chain(&of_target).map(String::as_str).collect::<Vec<_>>());
    m.close("section");
}

fn total(scene: &Scene<'_>, of: TotalOf) -> Both<f64> {
    Both::of(scene.versus.comparative.totals.as_ref(), of)
}

/// What the unit of times is in a sentence.
fn unit(scene: &Scene<'_>) -> &'static str {
    match scene.versus.comparative.normalization.mode {
        Mode::PerStep => " a step",
        Mode::Total | Mode::PerCall => "",
    }
}

fn headline(m: &mut Markup, scene: &Scene<'_>) {
    let c = scene.versus.comparative;
    let ms = total(scene, |t| t.total_ms);
    m.open("p", &[("class", &"headline")]);
    if let Some(said) = c.sameness() {
        m.prose(&said).text(" It takes ");
        m.leaf("b", &[], format!("{} ms", shown_ms(ms.target))).text(format!("{} on the GPU.", unit(scene)));
    } else if let Some(why) = &c.uncomparable {
        m.text(format!("The totals of the recordings are not comparable: {why}. Operations are."));
    } else {
        m.text("The target takes ").leaf("b", &[], format!("{} ms", shown_ms(ms.target)));
        m.text(format!("{} on the GPU, the reference {} ms", unit(scene), shown_ms(ms.reference)));
        if let Some(delta) = ms.delta_percent() {
            let much = shown(delta.abs(), usize::from(delta.abs() < 100.0));
            let words = match () {
                () if much == "0.0" => "as much".to_owned(),
                () if delta < 0.0 => format!("{much} % less"),
                () => format!("{much} % more"),
            };
            m.text(": ").leaf("b", &[], words);
        }
        m.text(".");
    }
    m.close("p").open("p", &[("class", &"note")]);
    let over: f64 = c.gaps.iter().map(|g| g.saved_ms).sum();
    let gaps = match c.gaps.len() {
        0 => c.no_gap(),
        1 => format!("In one place the target takes longer than its hardware suggests: {} ms.", shown_ms(over)),
        n => format!("In {n} places the target takes longer than its hardware suggests: {} ms in all.", shown_ms(over)),
    };
    let reason = &c.normalization.reason;
    m.prose(&format!("{gaps} On the target, {}. Times are {}: {reason}.", c.dominant.words(), c.normalization.unit()));
    m.close("p");
}

fn tiles(m: &mut Markup, scene: &Scene<'_>) {
    let c = scene.versus.comparative;
    let ms = total(scene, |t| t.total_ms);
    m.open("dl", &[("class", &"tiles")]);
    let mut tile = |field: &'static str, name: &'static str, value: String, unit: &'static str| {
        m.raw("<div>").leaf("dt", &[], name);
        m.open("dd", &[("data-field", &field)]).text(value).leaf("small", &[], unit).close("dd").raw("</div>");
    };
    tile("reference_ms", "Reference", shown_ms(ms.reference), " ms");
    tile("target_ms", "Target", shown_ms(ms.target), " ms");
    if let Some(delta) = ms.delta_percent().filter(|_| c.uncomparable.is_none()) {
        tile("delta_percent", "Difference", percent(delta).trim_end_matches(" %").to_owned(), " %");
    }
    tile("gaps", "To improve", c.gaps.len().to_string(), if c.gaps.len() == 1 { " place" } else { " places" });
    tile("over_ms", "Over expectation", shown_ms(c.gaps.iter().map(|g| g.saved_ms).sum()), " ms");
    let matched = c.coverage_percent;
    tile("matched", "Matched time", shown(matched.reference.min(matched.target), 1), " %");
    m.close("dl");
}

/// Parts of the timeline of a side.
const PARTS: [TotalOf; 4] = [|t| t.computation_ms, |t| t.exposed_comm_ms, |t| t.exposed_copy_ms, |t| t.idle_ms];

fn parts(totals: &SideTotals) -> Vec<crate::html::side::Share> {
    parts_of(totals.total_ms, PARTS.map(|of| of(totals)))
}

fn bars(m: &mut Markup, scene: &Scene<'_>) {
    let totals = scene.versus.comparative.totals.as_ref();
    let full = totals.reference.total_ms.max(totals.target.total_ms).max(f64::MIN_POSITIVE);
    m.open("div", &[("class", &"bothbars"), ("id", &"timeline-bar")]);
    for (side, name, totals, source) in [
        ("reference", "Reference", totals.reference, &scene.sources.reference),
        ("target", "Target", totals.target, &scene.sources.target),
    ] {
        let platform = source.platform.map_or(String::new(), |p| printable(&p.name));
        m.raw("<div class=\"one\">").open("div", &[("class", &"whose")]).leaf("b", &[], name).raw(" ");
        m.leaf("span", &[("class", &"faint name")], platform).close("div");
        m.open("div", &[("class", &"room")]);
        let width = format!("width:{}%", px(100.0 * totals.total_ms / full));
        m.open("div", &[("class", &"bar"), ("data-side", &side), ("style", &width)]);
        segments(m, totals.total_ms, &parts(totals), totals.total_ms / full);
        m.raw("</div></div>");
        m.leaf("div", &[("class", &"num")], format!("{} ms", shown_ms(totals.total_ms))).raw("</div>");
    }
    m.close("div");
}

/// The parts of both timelines in a table, which is the legend of the bars too.
fn totals(m: &mut Markup, scene: &Scene<'_>) {
    m.raw("<div><table class=\"plain\" id=\"totals\"><thead><tr><th>GPU time, ms</th><th class=\"num\">Reference</th>");
    m.raw("<th class=\"num\">Target</th><th class=\"num\">Difference</th><th class=\"num\">%</th></tr></thead><tbody>");
    let t = scene.versus.comparative.totals.as_ref();
    for (share, of) in parts(t.target).iter().zip(PARTS) {
        let ms = total(scene, of);
        if ms == Both::default() {
            continue;
        }
        let class = format!("key {}", share.key);
        m.open("tr", &[("data-key", &share.key)]).raw("<td>");
        m.open("span", &[("class", &class)]).close("span").text(share.label).raw("</td>");
        numbers(m, ms);
    }
    m.raw("<tr data-key=\"total\"><td><b>In all</b></td>");
    numbers(m, total(scene, |t| t.total_ms));
    m.raw("</tbody></table></div>");
}

/// The peaks that expectations are made of, and what they suggest by what bounds the work.
fn hardware(m: &mut Markup, scene: &Scene<'_>) {
    let (Some(reference), Some(target)) = (scene.sources.reference.platform, scene.sources.target.platform) else {
        return;
    };
    let platforms = Both { reference, target };
    m.raw("<div><table class=\"plain\" id=\"hardware\"><thead><tr><th>What the hardware suggests</th>");
    m.raw("<th class=\"num\">Reference</th><th class=\"num\">Target</th><th class=\"num\">Expected</th></tr></thead><tbody>");
    let bandwidth = Both::of(platforms, |p| Some(p.mem_bw_gbps.value / 1e3));
    let bf16 = Both::of(platforms, |p| p.peak("matrix_bf16").map(|f| f.value));
    for (name, bound, peaks) in [
        ("Memory-bound work, TB/s", BoundType::Memory, bandwidth),
        ("Compute-bound work, TFLOPS bf16", BoundType::Compute, bf16),
    ] {
        let (Some(reference), Some(target)) = (peaks.reference, peaks.target) else { continue };
        m.raw("<tr>").leaf("td", &[], name);
        for peak in [reference, target] {
            m.leaf("td", &[("class", &"num")], px(peak));
        }
        let ratio = ExpectedRatio::of_bound(Some(bound), None, platforms).middle();
        m.raw("<td class=\"num\">").leaf("b", &[], times(ratio)).raw("</td></tr>");
    }
    m.raw("</tbody></table></div>");
}

fn numbers(m: &mut Markup, ms: Both<f64>) {
    for text in [
        shown_ms(ms.reference),
        shown_ms(ms.target),
        signed_ms(ms.delta()),
        ms.delta_percent().map_or("–".to_owned(), |p| percent(p).trim_end_matches(" %").to_owned()),
    ] {
        m.leaf("td", &[("class", &"num")], text);
    }
    m.raw("</tr>");
}

/// Findings that only one side has.
fn patterns(m: &mut Markup, scene: &Scene<'_>) {
    let c = scene.versus.comparative;
    for (ids, words) in
        [(&c.gone, "Findings that only the reference has: "), (&c.new, "Findings that only the target has: ")]
    {
        if ids.is_empty() {
            continue;
        }
        let names: Vec<String> = ids.iter().map(|id| format!("`{}`", id.as_str())).collect();
        m.open("p", &[("class", &"note")]).text(words).prose(&names.join(", ")).text(".").close("p");
    }
}

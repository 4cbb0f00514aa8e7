//! What must hold of the page of a comparison.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::checks::{self, Kind, tip};
use super::driver::Page;
use super::hostile;
use super::numbers::{self, same};

const VERSUS: Kind = Kind {
    sorted: ("target_ms", 4),
    csv: "name,args,category,reference_ms,target_ms,ratio,expected,over_ms,bound,verdict",
    said: "target over reference",
};

const SECTIONS: &[&str] =
    &["overview", "improve", "step", "changes", "categories", "expected", "operations", "findings"];

/// The page of two traces.
pub(crate) fn compared(page: &Page<'_>, folder: &Path, pictures: &Path, name: &str) -> Result<()> {
    checks::steady(page)?;
    checks::sections(page, SECTIONS)?;
    equal(page, folder).context("numbers")?;
    usable(page)?;
    checks::links(page, folder)?;
    checks::looks(page, pictures, name)?;
    checks::quiet(page)
}

/// No text of either trace became part of the page.
pub(crate) fn hostile(page: &Page<'_>, pictures: &Path) -> Result<()> {
    checks::sections(page, SECTIONS)?;
    checks::sections(page, &["unmatched"])?;
    usable(page)?;
    // The first texts are only in the target, and stand in the list of those.
    checks::harmless(page, &hostile::TEXTS[hostile::ONLY_IN_TARGET..])?;
    let seen = page.text("return document.querySelector('.lone[data-side=target]').textContent")?;
    for text in &hostile::TEXTS[..hostile::ONLY_IN_TARGET] {
        ensure!(seen.contains(text), "{text:?} is not shown as it is");
    }
    checks::save(page, pictures, "hostile_versus")?;
    checks::quiet(page)
}

/// What a reader can do.
fn usable(page: &Page<'_>) -> Result<()> {
    checks::table(page, &VERSUS)?;
    checks::strip(page).context("hovering")?;
    for (selector, words) in [(".cat .pair", "target"), (".cat .ratio", "target"), (".changes .delta", "ms")] {
        // Traces that are the same have no differences.
        if page.script(&format!("return document.querySelector('{selector}') === null"))? == Value::Bool(true) {
            continue;
        }
        page.hover(selector, (0, 0))?;
        ensure!(tip(page)?.contains(words), "{selector} says nothing: {:?}", tip(page)?);
    }
    views(page).context("filtering")?;
    checks::zooming(page).context("zooming")?;
    evidence(page).context("evidence")?;
    checks::themes(page).context("light and dark")
}

/// Dots filter the table in both views, and only one view is seen.
fn views(page: &Page<'_>) -> Result<()> {
    let first = page.text("return document.querySelector('.views input:checked').id")?;
    let other = if first == "view-ratio" { "view-time" } else { "view-ratio" };
    for view in [other, &first] {
        let class = view.replace("view", "by");
        page.click(&format!(".views label[for={view}]"))?;
        page.holds(&format!(
            "[...document.querySelectorAll('.views .plot')].filter(p => p.getBoundingClientRect().height > 0) \
               .every(p => p.classList.contains('{class}') && p.classList.contains('wide'))"
        ))?;
        checks::filtering(page, &VERSUS, &format!(".plot.wide.{class}"))?;
    }
    Ok(())
}

/// A place to improve leads to its row.
fn evidence(page: &Page<'_>) -> Result<()> {
    if page.script("return document.querySelector('[data-show-row]') === null")? == Value::Bool(true) {
        return Ok(());
    }
    page.script("document.querySelector('[data-show-row]').closest('details').open = true")?;
    page.click("[data-show-row]")?;
    page.holds(
        "document.querySelector('#ops tr.chosen').dataset.row === \
         document.querySelector('[data-show-row]').dataset.showRow",
    )?;
    page.click("#filter-chip")
}

/// Numbers are those of `comparison_metrics.json` and `findings.json`.
fn equal(page: &Page<'_>, folder: &Path) -> Result<()> {
    let read = |name: &str| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(folder.join(name))?)?) };
    let metrics = read("category_data/comparison_metrics.json")?;
    let findings = read("findings.json")?;
    overview(page, &metrics, &findings["comparison"]).context("overview")?;
    operations(page, &metrics["operations"]).context("operations")?;
    categories(page, &metrics["categories"]).context("categories")?;
    changes(page, &metrics["changes"]).context("changes")?;
    gaps(page, &findings["comparison"]["gaps"]).context("gaps")?;
    for side in ["reference", "target"] {
        unmatched(page, side, &metrics[format!("unmatched_{side}")]).with_context(|| format!("only in the {side}"))?;
    }
    let list = findings["findings"].as_array().context("no findings")?;
    page.holds(&format!("document.querySelectorAll('#findings .card').length === {}", list.len()))?;
    numbers::cards(page, list)
}

/// The texts of elements, as a list for each of another.
fn texts(page: &Page<'_>, each: &str, inside: &str) -> Result<Vec<Vec<String>>> {
    let all = page.script(&format!(
        "return [...document.querySelectorAll({})].map(e => [...e.querySelectorAll({})].map(t => t.textContent))",
        json!(each),
        json!(inside)
    ))?;
    Ok(serde_json::from_value(all)?)
}

fn overview(page: &Page<'_>, metrics: &Value, comparison: &Value) -> Result<()> {
    let tiles = page.script(
        "return Object.fromEntries([...document.querySelectorAll('.tiles [data-field]')] \
           .map(e => [e.dataset.field, e.textContent]))",
    )?;
    let tile = |name: &str| tiles[name].as_str().with_context(|| format!("no tile {name}"));
    let total = &comparison["total_ms"];
    same(tile("reference_ms")?, &[&total["reference"]])?;
    same(tile("target_ms")?, &[&total["target"]])?;
    same(tile("delta_percent")?, &[&total["delta_percent"]])?;
    let gaps = comparison["gaps"].as_array().context("no gaps")?;
    same(tile("gaps")?, &[&json!(gaps.len())])?;
    let over: f64 = gaps.iter().filter_map(|g| g["saved_ms"].as_f64()).sum();
    // Each is rounded before it is added here.
    ensure!((tile("over_ms")?.trim_end_matches(" ms").parse::<f64>()? - over).abs() < 0.01, "{over}: {tiles}");
    for (row, name) in [("compute", "computation_time_ms"), ("idle", "idle_time_ms"), ("total", "total_time_ms")] {
        let cells = texts(page, &format!("#totals tr[data-key={row}]"), "td.num")?;
        let cells = cells.first().with_context(|| format!("no row {row}"))?;
        let (reference, target) = (&metrics["reference"][name], &metrics["target"][name]);
        same(&cells[0], &[reference])?;
        same(&cells[1], &[target])?;
        let delta = target.as_f64().unwrap_or_default() - reference.as_f64().unwrap_or_default();
        ensure!((cells[2].parse::<f64>()? - delta).abs() < 0.0061, "{cells:?} for {delta}");
    }
    Ok(())
}

/// Columns of a row, and what the file calls them.
const KEYS: &[(&str, &str)] = &[
    ("reference_ms", "reference_ms"),
    ("target_ms", "target_ms"),
    ("ratio", "ratio"),
    ("expected", "expected_ratio"),
    ("expected_low", "expected_ratio_low"),
    ("expected_high", "expected_ratio_high"),
    ("excess", "excess"),
    ("over_ms", "saved_ms"),
    ("bound", "bound_type"),
    ("verdict", "verdict"),
    ("level", "match_level"),
    ("uid", "tree_uid"),
];

/// All rows as the data has them, and those that are seen as they are shown.
fn operations(page: &Page<'_>, metrics: &Value) -> Result<()> {
    let rows = page.script("return JSON.parse(document.getElementById('data').textContent).operations.rows")?;
    let (rows, metrics) = (rows.as_array().context("no rows")?, metrics.as_array().context("no operations")?);
    ensure!(rows.len() == metrics.len() && !rows.is_empty(), "{} rows of {}", rows.len(), metrics.len());
    for (row, metric) in rows.iter().zip(metrics) {
        for (ours, theirs) in KEYS {
            let (shown, exact) = (&row[*ours], &metric[*theirs]);
            // The browser writes whole numbers without decimals.
            let equal = shown == exact || (exact.is_f64() && shown.as_f64() == exact.as_f64());
            ensure!(equal, "{}: {ours} is {shown}, not {exact}", metric["name"]);
        }
    }
    let seen = page.script(
        "return [...document.querySelectorAll('#ops tbody tr')].map(r => [r.dataset.row, ...[...r.cells].map(c => c.textContent)])",
    )?;
    for cells in seen.as_array().into_iter().flatten() {
        let text = |at: usize| cells[at + 1].as_str().unwrap_or_default();
        let metric = &metrics[cells[0].as_str().unwrap_or_default().parse::<usize>()?];
        ensure!(metric["name"].as_str() == Some(text(0)), "{} where {} should be", text(0), metric["name"]);
        let expected = [&metric["expected_ratio_low"], &metric["expected_ratio_high"]];
        let expected = if text(6).contains("to") { &expected[..] } else { &expected[..1] };
        let shown: [(usize, &[&Value]); 5] = [
            (3, &[&metric["reference_ms"]]),
            (4, &[&metric["target_ms"]]),
            (5, &[&metric["ratio"]]),
            (6, expected),
            (7, &[&metric["saved_ms"]]),
        ];
        for (at, values) in shown.iter().filter(|(_, values)| !values[0].is_null()) {
            same(text(*at), values)?;
        }
    }
    Ok(())
}

fn categories(page: &Page<'_>, metrics: &Value) -> Result<()> {
    let shown = page.script(
        "return [...document.querySelectorAll('.cat[data-category]')].map(c => ({name: c.dataset.category, \
           reference: c.querySelector('[data-side=reference]').textContent, \
           target: c.querySelector('[data-side=target]').textContent, \
           ratio: c.querySelector('[data-field=ratio]').textContent, \
           expected: c.querySelector('[data-field=expected]').textContent}))",
    )?;
    let (shown, metrics) = (shown.as_array().context("none")?, metrics.as_array().context("no categories")?);
    ensure!(shown.len() == metrics.len(), "{} of {} categories", shown.len(), metrics.len());
    for (row, metric) in shown.iter().zip(metrics) {
        ensure!(row["name"] == metric["name"], "{} where {} should be", row["name"], metric["name"]);
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        same(text("reference"), &[&metric["reference_ms"]])?;
        same(text("target"), &[&metric["target_ms"]])?;
        if text("ratio") != "–" {
            same(text("ratio"), &[&metric["ratio"]])?;
        }
        let expected = [&metric["expected_ratio_low"], &metric["expected_ratio_high"]];
        match text("expected") {
            "–" => ensure!(expected[0].is_null(), "{} has an expected ratio", metric["name"]),
            text if text.contains("to") => same(text, &expected)?,
            text => same(text, &expected[..1])?,
        }
    }
    Ok(())
}

fn changes(page: &Page<'_>, metrics: &Value) -> Result<()> {
    let shown = texts(page, ".changes li", "[data-field]")?;
    let told: Vec<&Value> = metrics.as_array().into_iter().flatten().filter(|c| c["delta_ms"] != json!(0.0)).collect();
    ensure!(shown.len() == told.len().min(40), "{} of {} differences", shown.len(), told.len());
    for (row, metric) in shown.iter().zip(told) {
        same(&row[0], &[&metric["delta_ms"]])?;
        same(&row[1], &[&metric["reference_ms"], &metric["target_ms"]])?;
    }
    Ok(())
}

fn gaps(page: &Page<'_>, gaps: &Value) -> Result<()> {
    let gaps = gaps.as_array().context("no gaps")?;
    let cards = page.script(
        "return [...document.querySelectorAll('#improve .card')].map(c => ({ \
           id: c.id, title: c.querySelector('h3').textContent, \
           ...Object.fromEntries([...c.querySelectorAll('[data-field], [data-side]')] \
             .map(e => [e.dataset.field || e.dataset.side, e.textContent]))}))",
    )?;
    let cards = cards.as_array().context("no cards")?;
    ensure!(cards.len() == gaps.len(), "{} cards for {} gaps", cards.len(), gaps.len());
    for (card, gap) in cards.iter().zip(gaps) {
        ensure!(card["id"].as_str() == Some(&format!("gap-{}", gap["rank"])), "{} is not its place", card["id"]);
        let title = gap["title"].as_str().unwrap_or_default().replace('`', "");
        ensure!(card["title"].as_str() == Some(&title), "{} where {title} should be", card["title"]);
        let text = |key: &str| card[key].as_str().unwrap_or_default();
        same(text("saved"), &[&gap["saved_ms"], &gap["saved_percent_of_compute"]])?;
        same(text("reference"), &[&gap["reference_ms"]])?;
        same(text("target"), &[&gap["target_ms"]])?;
        if !gap["ratio"].is_null() {
            same(text("ratio"), &[&gap["ratio"], &gap["delta_percent"]])?;
        }
    }
    Ok(())
}

fn unmatched(page: &Page<'_>, side: &str, metrics: &Value) -> Result<()> {
    let shown = texts(page, &format!(".lone[data-side={side}] tbody tr"), "td.num")?;
    let metrics = metrics.as_array().context("no list")?;
    ensure!(shown.len() == metrics.len().min(40), "{} of {}", shown.len(), metrics.len());
    for (row, metric) in shown.iter().zip(metrics) {
        same(&row[1], &[&metric["time_ms"]])?;
    }
    Ok(())
}

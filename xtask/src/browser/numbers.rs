//! The numbers that the page shows are those of `findings.json` and of the tables.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::driver::Page;

/// Compares every number of the overview, of the cards and of the table.
pub(crate) fn equal(page: &Page<'_>, folder: &Path) -> Result<()> {
    let findings: Value = serde_json::from_slice(&fs::read(folder.join("findings.json"))?)?;
    timeline(page, &findings["gpu_timeline"])?;
    let list = findings["findings"].as_array().context("no findings")?;
    let shown = page.script("return document.querySelectorAll('.card').length")?;
    ensure!(shown == json!(list.len()), "{shown} cards for {} findings", list.len());
    cards(page, list)?;
    operations(page, list)?;
    table(page, folder)
}

/// Every card says what its finding says.
pub(super) fn cards(page: &Page<'_>, findings: &[Value]) -> Result<()> {
    for finding in findings {
        card(page, finding).with_context(|| format!("finding {}", finding["rank"]))?;
    }
    Ok(())
}

fn timeline(page: &Page<'_>, timeline: &Value) -> Result<()> {
    let tile =
        |field: &str| page.text(&format!("return document.querySelector('.tiles [data-field={field}]').textContent"));
    same(&tile("total_time_ms")?, &[&timeline["total_time_ms"]])?;
    same(&tile("compute")?, &[&timeline["computation_time_percent"]])?;
    same(&tile("idle")?, &[&timeline["idle_time_percent"]])?;
    let parts = [("compute", "computation"), ("comm", "exposed_comm"), ("copy", "exposed_memcpy"), ("idle", "idle")];
    for (key, name) in parts {
        let (ms, percent) = (&timeline[format!("{name}_time_ms")], &timeline[format!("{name}_time_percent")]);
        let shown =
            page.script(&format!("return document.querySelector('.legend [data-key={key}]')?.textContent ?? null"))?;
        match shown.as_str() {
            Some(text) => same(text, &[ms, percent])?,
            None => ensure!(ms.as_f64() == Some(0.0), "{name} is {ms} ms and not shown"),
        }
    }
    Ok(())
}

/// What a card says in the place of a saving that is none or not known.
const NO_GAIN: [&str; 2] = ["nothing while the GPU awaits launches", "not quantified"];

fn card(page: &Page<'_>, finding: &Value) -> Result<()> {
    let id = format!("finding-{}", finding["rank"]);
    let shown = page.script(&format!(
        "const card = document.getElementById('{id}'); const all = {{text: card.textContent, \
           badge: card.querySelector('.badge').textContent.toLowerCase()}}; \
         for (const e of card.querySelectorAll('[data-field]')) all[e.dataset.field] = e.textContent; return all"
    ))?;
    let field = |name: &str| shown[name].as_str().with_context(|| format!("no {name}"));
    let impact = &finding["impact"];
    let saved = field("saved")?;
    if NO_GAIN.contains(&saved) {
        ensure!(impact["saved_ms"]["high"].as_f64() == Some(0.0), "{saved:?} in the place of {}", impact["saved_ms"]);
        ensure!(shown["speedup"].is_null(), "a speed-up beside {saved:?}");
    } else {
        same(saved, &[&impact["saved_ms"]["low"], &impact["saved_ms"]["high"]])?;
        same(field("speedup")?, &[&impact["speedup"]["low"], &impact["speedup"]["high"]])?;
    }
    same(field("time")?, &[&finding["time_ms"], &finding["percent_of_total"]])?;
    let (text, badge) = (field("text")?, field("badge")?);
    ensure!(Some(badge) == finding["priority"].as_str(), "priority is {badge}");
    let paths = [&finding["paths"]["algorithmic"], &finding["paths"]["kernel"]];
    let said = paths
        .into_iter()
        .flat_map(|p| p.as_array().into_iter().flatten())
        .chain([&finding["title"], &finding["issue"]]);
    for sentence in said.filter_map(Value::as_str) {
        ensure!(text.contains(&sentence.replace('`', "")), "the card does not say {sentence:?}");
    }
    Ok(())
}

/// Rows of the table have the times and efficiencies that findings give for the same operation.
fn operations(page: &Page<'_>, findings: &[Value]) -> Result<()> {
    let rows =
        page.script("return JSON.parse(document.getElementById('data').textContent).sides[0].operations.rows")?;
    let rows = rows.as_array().context("no rows")?;
    let mut compared = 0;
    for operation in findings.iter().flat_map(|f| f["operations"].as_array().into_iter().flatten()) {
        let row = rows.iter().find(|r| r["uid"] == operation["uid"] && r["count"] == operation["count"]);
        let Some(row) = row else { continue };
        if is_told_apart(findings, operation, row) {
            continue;
        }
        for (ours, theirs) in [("ms", "time_ms"), ("efficiency", "efficiency_percent")] {
            // A finding that does not judge by efficiency names none; the tables do.
            if operation[theirs].is_null() {
                continue;
            }
            ensure!(
                row[ours] == operation[theirs],
                "{}: {ours} is {}, not {}",
                operation["name"],
                row[ours],
                operation[theirs]
            );
        }
        compared += 1;
    }
    let named = findings.iter().any(|f| f["operations"].as_array().is_some_and(|o| !o.is_empty()));
    ensure!(compared > 0 || !named, "no operation of the findings stands in the table");
    Ok(())
}

/// Whether a finding lists beside an operation what that calls, such as the zeros that a gradient is written into: both
/// together take the time of the row.
fn is_told_apart(findings: &[Value], operation: &Value, row: &Value) -> bool {
    /// Each of the three times is rounded to a microsecond.
    const ROUNDING: f64 = 0.002;
    let ms = |value: &Value, key: &str| value[key].as_f64().unwrap_or(f64::NAN);
    let rest = ms(row, "ms") - ms(operation, "time_ms");
    let mut told = findings.iter().filter_map(|f| f["operations"].as_array()).filter(|all| all.contains(operation));
    let is_rest = |o: &Value| o["count"] == operation["count"] && (ms(o, "time_ms") - rest).abs() <= ROUNDING;
    rest > ROUNDING && told.any(|all| all.iter().any(is_rest))
}

/// The first rows are those of `unified_perf_summary.csv`.
fn table(page: &Page<'_>, folder: &Path) -> Result<()> {
    let sheet = fs::read_to_string(folder.join("perf_report_csvs/unified_perf_summary.csv"))?;
    let mut lines = sheet.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    ensure!(head.contains(&"Kernel Time (µs)_sum"), "the sheet has no times");
    let shown =
        page.script("return [...document.querySelectorAll('#ops tbody tr')].map(r => r.cells[0].textContent)")?;
    for (line, name) in lines.zip(shown.as_array().into_iter().flatten()).take(20) {
        let name = name.as_str().unwrap_or_default();
        ensure!(line.starts_with(&format!("{name},")), "the table has {name} where the sheet has {line}");
    }
    Ok(())
}

/// Whether the numbers in a text are these, to the digits that the text shows.
pub(super) fn same(text: &str, values: &[&Value]) -> Result<()> {
    let shown: Vec<&str> = text
        .split(|c: char| !c.is_ascii_digit() && c != '.' && c != '-')
        .map(|t| t.trim_end_matches('-'))
        .filter(|t| t.bytes().any(|b| b.is_ascii_digit()))
        .collect();
    ensure!(shown.len() == values.len(), "{text:?} has not {} numbers", values.len());
    for (shown, value) in shown.iter().zip(values) {
        let decimals = shown.split_once('.').map_or(0, |(_, d)| d.len());
        let exact = value.as_f64().with_context(|| format!("{value} is no number"))?;
        // The value in the file is itself rounded.
        let slack = 0.5 * 10f64.powi(-(decimals as i32)) + 0.000_51;
        let number: f64 = shown.parse()?;
        ensure!((number - exact).abs() <= slack, "{text:?} shows {shown} for {exact}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_as_far_as_they_are_shown() {
        assert!(same("16.70 to 19.80 ms", &[&json!(16.696), &json!(19.798)]).is_ok());
        assert!(same("16.71 ms", &[&json!(16.696)]).is_err());
        assert!(same("1 ms", &[&json!(1.0), &json!(2.0)]).is_err());
        assert!(same("-39.1 %", &[&json!(-39.14)]).is_ok());
        assert!(same("39.1 %", &[&json!(-39.14)]).is_err());
    }
}

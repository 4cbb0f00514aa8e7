//! One bottleneck of a category: what, where, why, both paths, and what it would take at better efficiencies.

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::finding::Finding;
use jarvis_analyze::metrics::{Bottleneck, CategoryMetrics, Kernels, ModuleChain, Sentence, Target};
use jarvis_analyze::prepared::{BoundType, KernelTile, Row};

use super::category::Place;
use super::cross::is_recommendation;
use super::words::{cell, counted, figure, ms, pct, shapes, us};
use crate::blocks::{Block, Line, Table};

/// Most kernels that a bottleneck names.
const MOST_KERNELS: usize = 3;

/// Its share of computing, in which copies have none.
fn share(b: &Bottleneck) -> String {
    let of_compute = format!("{}% of compute", pct(b.percent_of_compute.0));
    match b.copy_time_ms.0 {
        copied if copied <= 0.0 => of_compute,
        copied => format!("{of_compute}, {} ms are copies", ms(copied)),
    }
}

/// The bottleneck as the `number`th of its category.
pub(crate) fn bottleneck(
    analysis: &Analysis,
    metrics: &CategoryMetrics,
    b: &Bottleneck,
    number: usize,
    place: Place,
) -> Vec<Block> {
    let level = if place == Place::File { 3 } else { 5 };
    let members = metrics.rows(&analysis.prepared).filter(|row| b.rows.contains(&row.id));
    let largest = members.max_by(|x, y| x.time_ms.total_cmp(&y.time_ms));
    let mut facts: Vec<(&'static str, Line)> = vec![
        ("Shapes", shapes_line(b)),
        ("Time", format!("{} ms ({}), {}", ms(b.time_ms.0), share(b), counted(b.count, "call")).into()),
        ("Efficiency", efficiency(b).into()),
    ];
    if let Some(row) = largest {
        // Steps that are told elsewhere are no part of what it says.
        let part = analysis.claims.without_steps(&analysis.prepared, row);
        let judged = part.as_ref().unwrap_or(row);
        facts.push(("Kernels", kernels(Kernels::of(&analysis.prepared, judged))));
        facts.push(("Called from", called_from(row)));
    }
    facts.push(("Why", reasons(b).into()));
    let told = finding(analysis, b).filter(|_| place == Place::Fair);
    if let Some(f) = told {
        facts.push(("Advice", format!("→ recommendation R{}", f.rank).into()));
    } else {
        facts.push(("Issue", b.issue.as_str().into()));
        facts.push(("Algorithmic", path(&b.algorithmic).into()));
        facts.push(("Kernel", path(&b.kernel).into()));
    }
    if let Some(name) = &b.covered_by {
        facts.push(("Part of", Line::code(name)));
    }
    let priority = if b.priority == b.priority_by_share {
        b.priority.title().to_owned()
    } else {
        // Short, so that it may stand with every bottleneck.
        format!("{} by gain, {} by share", b.priority.title(), b.priority_by_share.title())
    };
    facts.push(("Priority", priority.into()));
    let mut blocks =
        vec![Block::Heading(level, Line::prose(&format!("{number}. ")).and_code(&b.operation)), Block::facts(facts)];
    if !b.impact.targets.is_empty() {
        blocks.push(Block::Paragraph(Line::strong("Impact Projection").and_prose(" (at X% of peak):")));
        blocks.push(Block::Table(projection(analysis, &b.impact.targets)));
    }
    blocks
}

/// The recommendation that tells a bottleneck.
pub(crate) fn finding<'a>(analysis: &'a Analysis, b: &Bottleneck) -> Option<&'a Finding> {
    analysis.finding_of_bottleneck(b).filter(|f| is_recommendation(f))
}

fn shapes_line(b: &Bottleneck) -> Line {
    let line = Line::code(&shapes(&b.args));
    match b.member_count {
        0 | 1 => line,
        n => line.and_prose(&format!(" and {}", counted(n - 1, "more shape"))),
    }
}

fn efficiency(b: &Bottleneck) -> String {
    let of = match b.bound_type {
        Some(BoundType::Compute) => "peak MAF",
        Some(BoundType::Memory) => "peak HBM bandwidth",
        None => "peak",
    };
    b.efficiency_percent.map_or_else(|| "not known".to_owned(), |e| format!("{}% of {of}", pct(e.0)))
}

fn kernels(kernels: Kernels<'_>) -> Line {
    let mut line = Line::new();
    for (i, k) in kernels.iter().take(MOST_KERNELS).enumerate() {
        let tile = k.tile.map(|t| format!(", tile {}", tile(t))).unwrap_or_default();
        line = line.and_prose(if i > 0 { "; " } else { "" }).and_code(&k.short_name.text());
        line = line.and_prose(&format!(" {} us{tile}", us(k.mean_us.0)));
    }
    match kernels.iter().len().saturating_sub(MOST_KERNELS) {
        0 => line,
        more => line.and_prose(&format!("; {more} more")),
    }
}

/// `128x128x64`.
pub(crate) fn tile(t: KernelTile) -> String {
    let k = t.k.map(|k| format!("x{k}")).unwrap_or_default();
    format!("{}x{}{k}", t.m, t.n)
}

fn called_from(row: &Row) -> Line {
    let site = row.call_site;
    let site = if site == "unknown" { String::new() } else { format!(" ({site})") };
    match ModuleChain(&row.module_path).last() {
        Some(module) => Line::code(module).and_prose(&site),
        None if *row.launcher_path == *"Not found" => "not recorded".into(),
        None => Line::code(&row.launcher_path).and_prose(&site),
    }
}

/// The reason codes in words.
fn reasons(b: &Bottleneck) -> String {
    let word = |code: &&str| {
        match *code {
            "TIME_ABS" => "total time",
            "TIME_SHARE" => "category share",
            "LOW_EFFICIENCY" => "low efficiency",
            "BELOW_BAND" => "below band",
            "UNMODELED_TIME" => "no model",
            other => other,
        }
        .to_owned()
    };
    // Below its band it is low for its kind; that says more.
    let banded = b.reasons.contains(&"BELOW_BAND");
    let told = b.reasons.iter().filter(|r| !(banded && **r == "LOW_EFFICIENCY"));
    told.map(word).collect::<Vec<_>>().join(", ")
}

fn path(sentences: &[Sentence]) -> String {
    let texts: Vec<&str> = sentences.iter().map(|s| s.text.as_str()).collect();
    if texts.is_empty() { "Nothing to add.".to_owned() } else { texts.join(" ") }
}

/// What an operation would take at better efficiencies. While the GPU awaits launches, faster kernels may only let it
/// wait longer: what they save is the most that the trace could.
fn projection(analysis: &Analysis, targets: &[Target]) -> Table {
    let [most, awaiting] =
        if analysis.awaits_launches() { ["at most ", " while the GPU awaits launches"] } else { ["", ""] };
    let mut table = Table::new(&["Target Efficiency", ">Time", "E2E Improvement"]);
    for t in targets {
        let differ = (t.compute_percent.0 - t.e2e_percent.0).abs() > 0.1;
        let e2e = format!(", {most}{}% of the trace{awaiting}", pct(t.e2e_percent.0));
        let e2e = if differ { e2e } else { String::new() };
        table.row([
            cell(format!("{}% of peak", figure(jarvis_analyze::rounding::round(t.target_percent.0, 1)))),
            cell(format!("{} ms{}", ms(t.time_ms.0), if t.at_floor { " (its kernels at their shortest)" } else { "" })),
            cell(format!(
                "{}% faster for this op ({}% of compute{e2e})",
                pct(t.op_faster_percent.0),
                pct(t.compute_percent.0)
            )),
        ]);
    }
    table
}

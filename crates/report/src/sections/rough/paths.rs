//! Step 7: how priorities and savings were found, with the arithmetic.

use jarvis_analyze::finding::{Finding, Tier};
use jarvis_analyze::metrics::Bottleneck;
use jarvis_analyze::rounding::{round, shown};

use super::capped;
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::replay::in_report;
use crate::sections::cross::{is_recommendation, leading};
use crate::sections::words::{cell, figure, ms, pct, saves, sentence, speedup};

/// Most bottlenecks whose arithmetic is written out.
const MOST_BOTTLENECKS: usize = 30;

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(3, "Step 7: Optimization Paths Determination")];
    if run.analysis.findings.is_empty() {
        blocks.push(Block::paragraph("No finding came of the analysis."));
    } else {
        blocks.push(Block::paragraph(
            "Findings in order of rank. In the top list, e = efficiency, c = share of its category and C = the \
             category's share of compute decide the level of a bottleneck; time and gain decide that of a pattern.",
        ));
        blocks.extend(capped(findings(run), 40, "findings.json"));
        blocks.extend(details(run));
    }
    let all: Vec<&Bottleneck> =
        run.analysis.outcomes.iter().filter_map(|o| o.metrics()).flat_map(|m| &m.bottlenecks).collect();
    if !all.is_empty() {
        blocks
            .push(Block::paragraph("Arithmetic of the bottlenecks (time · efficiency / target = time at the target):"));
        blocks.push(Block::list(all.iter().take(MOST_BOTTLENECKS).map(|b| arithmetic(b))));
    }
    blocks
}

fn findings(run: &Run<'_>) -> Table {
    let p = &run.analysis.prepared;
    let in_top = format!("In Top {}", p.most_top_operations());
    let mut table = Table::new(&[
        "Finding",
        "Pattern",
        "Tier",
        "Category",
        &in_top,
        ">e",
        ">c",
        ">C",
        "Level",
        ">Time (ms)",
        "Saves",
        "Speed-up",
    ]);
    for f in &run.analysis.findings {
        let (_, rank) = leading(&run.analysis.prepared, f);
        let category = p.category(&f.category);
        let share = category.filter(|c| c.time_ms > 0.0).map(|c| (100.0 * f.time_ms / c.time_ms).min(100.0));
        let or_dash = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), pct);
        table.row([
            cell(format!("{}{}", if is_recommendation(f) { "R" } else { "" }, f.rank)),
            Line::code(f.pattern.as_str()),
            cell(tier(f.tier)),
            Line::code(&f.category),
            cell(rank.map_or_else(|| "no".to_owned(), |r| format!("#{r}"))),
            cell(or_dash(efficiency(f))),
            cell(or_dash(share)),
            cell(or_dash(category.map(|c| c.percent_of_compute))),
            cell(f.priority.title()),
            cell(ms(f.time_ms)),
            cell(saves(run.analysis, f)),
            cell(if run.analysis.no_gain(f).is_some() { "-".to_owned() } else { speedup(f.impact.speedup) }),
        ]);
    }
    table
}

/// Efficiency of a finding's operations by their time.
fn efficiency(finding: &Finding) -> Option<f64> {
    let known = || finding.operations.iter().filter_map(|o| Some((o.efficiency_percent?, o.time_ms)));
    let time: f64 = known().map(|(_, ms)| ms).sum();
    (time > 0.0).then(|| known().map(|(e, ms)| e * ms).sum::<f64>() / time)
}

fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Compute => "compute",
        Tier::Fusion => "fusion",
        Tier::System => "system",
    }
}

/// Each finding with all it says.
fn details(run: &Run<'_>) -> Vec<Block> {
    let path = |p: &[String]| if p.is_empty() { "None.".to_owned() } else { p.join(" ") };
    let mut blocks = Vec::new();
    for f in &run.analysis.findings {
        blocks.push(Block::heading(4, format!("{}. {}", f.rank, f.title)));
        blocks.push(Block::facts([
            ("Issue", f.issue.clone()),
            ("Path A", path(&f.paths.algorithmic)),
            ("Path B", path(&f.paths.kernel)),
            ("Basis", sentence(&f.impact.basis)),
            ("Replay", replay(f)),
        ]));
    }
    blocks
}

fn replay(f: &Finding) -> String {
    match (&f.replay_package, &f.replay_reason) {
        (Some(path), _) => format!("`{}`", path.replace('`', "'")),
        (None, Some(reason)) => sentence(&format!("none: {}", in_report(reason))),
        (None, None) => "Recommended.".to_owned(),
    }
}

fn arithmetic(b: &Bottleneck) -> Line {
    let texts = b.text_ids.join(", ");
    let line = Line::code(&b.id).and_prose(" ").and_code(&b.operation).and_prose(": ");
    let Some(e) = b.efficiency_percent else {
        return line.and_prose(&format!("{}; texts {texts}", b.impact.basis));
    };
    let steps = b.impact.targets.iter().map(|t| {
        let (plain, told) = (ms(b.time_ms.0 * e.0 / t.target_percent.0), ms(t.time_ms.0));
        // Shapes that are there already gain nothing, and none gets shorter than kernels are.
        let by_shape = if plain == told { String::new() } else { format!(", {told} ms shape by shape") };
        let (time, target) = (ms(b.time_ms.0), figure(round(t.target_percent.0, 1)));
        format!("{time} ms · {} / {target} = {plain} ms{by_shape}", shown(e.0, 2))
    });
    let steps: Vec<String> = steps.collect();
    line.and_prose(&format!("{}; texts {texts}", steps.join("; ")))
}

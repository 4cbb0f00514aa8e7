//! Waits of the GPU: a card for each finding of the system tier.

use jarvis_analyze::finding::Finding;

use super::{all_steps, detail_head, first_steps, labelled, see, system_anchor};
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::analysis_md::plan::Plan;
use crate::sections::words::{cell, icon, impact, ms, pct, sentence};

/// Most facts of a table; `findings.json` has all.
const MOST_FACTS: usize = 8;

/// The cards.
pub(crate) fn cards(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "System-Level Optimizations")];
    if plan.system.is_empty() {
        let u = &run.analysis.prepared.utilization;
        blocks.push(Block::paragraph(format!(
            "No system-level issue was detected that a change would mend: the GPU computes {}% of the time, and {}% is idle.",
            pct(u.computation_time_percent),
            pct(u.idle_time_percent)
        )));
        return blocks;
    }
    for (finding, rank) in plan.system.iter().zip(1..) {
        blocks.push(Block::Heading(3, heading(finding, rank, &format!("{} ", icon(finding.priority)))));
        blocks.push(Block::Labels(vec![
            ("Insight".to_owned(), finding.issue.as_str().into()),
            ("Action".to_owned(), first_steps(finding).into()),
            ("Impact".to_owned(), impact(run.analysis, finding).into()),
            (String::new(), see(rank, &system_anchor(rank), &[*finding])),
        ]));
    }
    blocks
}

fn heading(finding: &Finding, rank: usize, before: &str) -> Line {
    Line::prose(&format!("{before}P{rank}: {}", finding.title))
}

/// What the cards rest on.
pub(crate) fn details(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (finding, rank) in plan.system.iter().zip(1..) {
        if rank == 1 {
            blocks.push(Block::heading(3, "System"));
        }
        blocks.extend(detail_head(system_anchor(rank), heading(finding, rank, ""), "system", rank));
        let found = Line::code(finding.pattern.as_str()).and_prose(&format!(
            ": {} ms, {}% of the window.",
            ms(finding.time_ms),
            pct(finding.percent_of_total)
        ));
        blocks.push(labelled("Identification", found));
        blocks.push(labelled("Data", "what the trace shows, and where it stands."));
        blocks.push(Block::Table(facts(finding)));
        blocks.push(labelled("Reasoning for Slowdown", sentence(&finding.issue)));
        blocks.push(labelled("Resolution", all_steps(finding)));
        let basis = sentence(&finding.impact.basis);
        blocks.push(labelled("Impact estimate", format!("{} {basis}", sentence(&impact(run.analysis, finding)))));
    }
    blocks
}

fn facts(finding: &Finding) -> Table {
    let mut table = Table::new(&["Fact", "File"]);
    let mut told: Vec<&str> = Vec::new();
    for evidence in &finding.evidence {
        if told.len() < MOST_FACTS && !told.contains(&evidence.fact.as_str()) {
            told.push(&evidence.fact);
            table.row([cell(sentence(&evidence.fact)), Line::code(&evidence.table)]);
        }
    }
    table
}

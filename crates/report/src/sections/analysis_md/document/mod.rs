//! The report itself: one file a part.
//!
//! Programs that read this form look for marks, which are comments that no reader sees: around the table of categories,
//! around what a card promises, around what its details estimate, and one for each detailed block.

mod appendix;
mod compute;
mod fusion;
mod summary;
mod system;

pub(crate) use compute::COLUMNS;
use jarvis_analyze::finding::Finding;
use jarvis_analyze::rounding::shown;
pub(crate) use summary::NO_OPERATIONS;

use super::plan::Plan;
use super::score::Score;
use crate::Run;
use crate::blocks::{Block, Line};
use crate::language::in_prose;
use crate::sections::cross::is_recommendation;
use crate::sections::fair;

/// The report: its parts with a line across between them.
pub(crate) fn blocks(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let title = format!("{} - {} Analysis", in_prose(run.model_name()), run.analysis.prepared.platform.name);
    let parts = [
        summary::blocks(run, plan),
        fair::warnings(run),
        compute::cards(run, plan),
        fusion::cards(run, plan),
        system::cards(run, plan),
        details(run, plan),
        appendix::blocks(run),
    ];
    let mut blocks = vec![Block::heading(1, title)];
    for (i, part) in parts.into_iter().filter(|part| !part.is_empty()).enumerate() {
        blocks.extend((i > 0).then_some(Block::Rule));
        blocks.extend(part);
    }
    blocks
}

/// What the cards of all tiers rest on.
fn details(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let heading = vec![Block::heading(2, "Detailed Analysis")];
    let all = [heading, compute::details(run, plan), fusion::details(run, plan), system::details(run, plan)].concat();
    if all.len() > 1 {
        return all;
    }
    [all, vec![Block::paragraph("There is no card, so there is no detail to tell.")]].concat()
}

/// Where the details of a card stand, by its tier and number.
pub(crate) fn compute_anchor(rank: usize) -> String {
    format!("detailed-analysis-compute-p{rank}")
}

pub(crate) fn fusion_anchor(rank: usize) -> String {
    format!("detailed-analysis-fusion-P{rank}")
}

pub(crate) fn system_anchor(rank: usize) -> String {
    format!("detailed-analysis-system-p{rank}")
}

/// A mark on a line of its own.
fn mark(text: impl Into<String>) -> Block {
    Block::Paragraph(Line::new().and_mark(text))
}

/// The end of what a mark began.
fn end() -> Block {
    mark("impact-end")
}

/// `low=1.5 high=2`, as marks write a score.
fn ends(score: Score) -> String {
    format!("low={} high={}", shown(score.low, 4), shown(score.high, 4))
}

/// A line with its label.
fn labelled(label: &str, line: impl Into<Line>) -> Block {
    Block::Labels(vec![(label.to_owned(), line.into())])
}

/// The head of a block of details: its place, its heading, its mark.
fn detail_head(anchor: String, heading: Line, tier: &str, rank: usize) -> Vec<Block> {
    vec![
        Block::Anchor(anchor),
        Block::Heading(4, heading),
        mark(format!("reasoning-candidate tier={tier} rank={rank}")),
    ]
}

/// The last line of a card: where its details stand, and which findings of the other reports tell the same.
fn see(rank: usize, anchor: &str, told_in: &[&Finding]) -> Line {
    let line = Line::prose("→ See ").and_link(&format!("Detailed Analysis: P{rank}"), anchor);
    if told_in.is_empty() {
        return line;
    }
    let names: Vec<String> = told_in.iter().map(|finding| name(finding)).collect();
    line.and_prose(&format!("; told as {} in `standalone_analysis_fair.md`", names.join(", ")))
}

/// What the other reports call a finding.
fn name(finding: &Finding) -> String {
    if is_recommendation(finding) { format!("R{}", finding.rank) } else { format!("finding {}", finding.rank) }
}

/// The first sentence of each path of a finding.
fn first_steps(finding: &Finding) -> String {
    let first = |path: &[String]| path.first().cloned().unwrap_or_else(|| "None.".to_owned());
    format!("Path A: {} Path B: {}", first(&finding.paths.algorithmic), first(&finding.paths.kernel))
}

/// That an earlier card of the tier says what a finding says; nothing if none does.
fn as_before(finding: &Finding, earlier: &[usize]) -> Option<String> {
    let at = earlier.iter().position(|rank| *rank == finding.rank)?;
    Some(format!("As in P{} ({}).", at + 1, name(finding)))
}

/// All sentences of each path.
fn all_steps(finding: &Finding) -> String {
    let all = |path: &[String]| if path.is_empty() { "None.".to_owned() } else { path.join(" ") };
    format!("Path A: {} Path B: {}", all(&finding.paths.algorithmic), all(&finding.paths.kernel))
}

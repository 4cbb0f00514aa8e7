//! `standalone_analysis_rough.md`: the working record. Every step with its numbers, for whoever wants to check or to
//! go on from here.

pub(crate) mod baseline;
pub(crate) mod gaps;
mod judgement;
mod paths;
mod preparation;
pub(crate) mod questions;
pub(crate) mod raw;
mod setup;
pub(crate) mod tree;

use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::fair::title;

/// A part of the report.
type Part = fn(&Run<'_>) -> Vec<Block>;

/// The parts in their order.
const PARTS: &[Part] = &[
    setup::blocks,
    preparation::blocks,
    judgement::blocks,
    paths::blocks,
    raw::blocks,
    tree::blocks,
    gaps::blocks,
    questions::blocks,
];

/// The report.
pub(crate) fn document(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(1, title(run, " (Rough)")), Block::heading(2, "Analysis Process Summary")];
    blocks.extend(PARTS.iter().flat_map(|part| part(run)));
    blocks
}

/// Where every row stands.
fn unified(run: &Run<'_>) -> String {
    format!("{}/unified_perf_summary.csv", run.csv_folder())
}

/// A table cut to so many rows, and a line that tells where the rest is.
pub(crate) fn capped(mut table: Table, most: usize, rest_in: &str) -> Vec<Block> {
    let more = table.rows.len().saturating_sub(most);
    table.rows.truncate(most);
    with_rest(table, more, rest_in)
}

/// A table without its last rows, and a line that tells where they are.
fn with_rest(table: Table, more: usize, rest_in: &str) -> Vec<Block> {
    let mut blocks = vec![Block::Table(table)];
    if more > 0 {
        blocks.push(Block::Paragraph(Line::prose(&format!("{more} more in ")).and_code(rest_in).and_prose(".")));
    }
    blocks
}

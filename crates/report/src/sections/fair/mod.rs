//! `standalone_analysis_fair.md`: for people who want to know what to change and what it brings.

pub(crate) mod appendix;
mod detail;
mod recommendations;
mod summary;
mod warnings;

use jarvis_analyze::texts::TextId;

use crate::Run;
use crate::blocks::{Block, say_once};
use crate::language::in_prose;

/// Parts that `analysis.md` has too.
pub(crate) use detail::is_made_up;
pub(crate) use summary::paragraph;
pub(crate) use warnings::blocks as warnings;

/// A part of the report; nothing if it has nothing to say.
type Part = fn(&Run<'_>) -> Vec<Block>;

/// How a recommendation points to its details.
const SEE: &str = "See Detailed Analysis:";

/// The parts in their order, a line across between them.
const PARTS: &[Part] = &[summary::blocks, warnings::blocks, recommendations::blocks, detail::blocks, appendix::blocks];

/// The report.
pub(crate) fn document(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(1, title(run, ""))];
    for (i, part) in PARTS.iter().enumerate() {
        let part = part(run);
        if i > 0 && !part.is_empty() {
            blocks.push(Block::Rule);
        }
        blocks.extend(part);
    }
    say_once(blocks, &[TextId::B_REPLAY.template(), SEE])
}

/// Title of a report, with what tells it from the other.
pub(crate) fn title(run: &Run<'_>, kind: &str) -> String {
    format!("{} - {} Standalone Analysis{kind}", in_prose(run.model_name()), run.analysis.prepared.platform.name)
}

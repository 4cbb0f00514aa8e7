//! The reports for people, as blocks that no format is chosen for yet.

use crate::{OutputFile, Run};

/// All Markdown files of an analysis: findings of each category and of the system tier, and both reports.
pub fn files(_run: &Run<'_>) -> Vec<OutputFile> {
    Vec::new()
}

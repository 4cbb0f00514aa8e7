//! What a reader should know before believing the numbers, and what a better recording would add.

use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::capture;
use crate::sections::words::{sentence, shapes};

/// Most warnings of operations; the rough report has all.
const MOST: usize = 8;

/// The part; nothing if there is nothing to say.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let analysis = run.analysis;
    let mut blocks = Vec::new();
    let failures: Vec<_> = analysis.failures().collect();
    if !failures.is_empty() {
        let mut table = Table::new(&["Analysis", "Error Summary"]);
        for o in &failures {
            let error = match &o.file {
                jarvis_analyze::metrics::MetricsFile::Short(s) => s.error.as_deref().unwrap_or("no message"),
                jarvis_analyze::metrics::MetricsFile::Full(_) => "no message",
            };
            table.row([Line::prose(&o.display), Line::code(error)]);
        }
        blocks.push(Block::Table(table));
        blocks.push(Block::paragraph("These are excluded from the recommendations below."));
    }
    let told: Vec<&String> = analysis.warnings.iter().filter(|w| !capture::is_about_capture(w)).collect();
    let mut items: Vec<Line> = told.iter().take(MOST).map(|w| Line::from(sentence(&shapes(w)))).collect();
    if told.len() > MOST {
        items.push(format!("{} more stand in `standalone_analysis_rough.md`.", told.len() - MOST).into());
    }
    items.extend(capture::notes(run).into_iter().map(|n| Line::strong("Capture:").and_prose(&format!(" {}", n.short))));
    if !items.is_empty() {
        blocks.push(Block::list(items));
    }
    if !blocks.is_empty() {
        blocks.insert(0, Block::heading(2, "Warnings"));
    }
    blocks
}

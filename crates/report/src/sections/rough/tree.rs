//! The call tree around what matters: parent chains, what lies below, patterns as trees, all fusion candidates.

use jarvis_analyze::metrics::TreeEntry;
use jarvis_analyze::patterns::Pattern;
use jarvis_trace::InOrder;

use super::capped;
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::data_file;
use crate::sections::fusion::word;
use crate::sections::idle::short;
use crate::sections::words::{cell, counted, ms, pct, us};

/// Most entries a category shows.
const MOST_ENTRIES: usize = 3;

/// Most lines of a subtree.
const MOST_NODES: usize = 14;

/// Most patterns shown as trees.
const MOST_PATTERNS: usize = 8;

/// Most operations of a pattern's tree.
const MOST_LEAVES: usize = 24;

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "Tree Analysis")];
    for (key, entries) in &run.analysis.tree_data {
        if entries.is_empty() {
            continue;
        }
        let mut largest: Vec<&TreeEntry> = entries.values().collect();
        largest.order_by(|a, b| time(b).total_cmp(&time(a)).then(a.ex_uid.cmp(&b.ex_uid)));
        let name = run.analysis.prepared.category(key).map_or(&**key, |c| &*c.display);
        blocks.push(Block::heading(3, format!("{name} in the Call Tree")));
        blocks.extend(largest.iter().take(MOST_ENTRIES).map(|e| entry(e)));
        if entries.len() > MOST_ENTRIES {
            blocks.push(Block::paragraph(format!(
                "{} more in `{}`.",
                entries.len() - MOST_ENTRIES,
                data_file(run, key, "tree_data.json")
            )));
        }
    }
    if !run.analysis.patterns.is_empty() {
        blocks.push(Block::heading(3, "Patterns in the Call Tree"));
        blocks.extend(run.analysis.patterns.iter().take(MOST_PATTERNS).flat_map(|p| pattern(run, p)));
        blocks.push(Block::heading(3, "All Patterns and Fusion Candidates"));
        blocks.extend(capped(patterns(run), 30, "category_data/fusion_candidates.json"));
    }
    if blocks.len() == 1 {
        blocks.push(Block::paragraph("The trace shows no operations to place in a tree."));
    }
    blocks
}

/// Time of an entry: of one call, times its calls.
fn time(e: &TreeEntry) -> f64 {
    e.subtree.first().map_or(0.0, |n| n.kernel_time_us.0) * e.instance_count as f64
}

/// An operation with what leads to it above and what it launches below.
fn entry(e: &TreeEntry) -> Block {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let modules: Vec<&str> = e.module_path.iter().map(|m| &**m).collect();
    let chain: Vec<&str> = e.parent_chain.iter().rev().map(|p| p.name.as_str()).collect();
    let above = if modules.is_empty() { chain } else { modules };
    let skipped = above.len().saturating_sub(6);
    if skipped > 0 {
        lines.push((0, format!("({} above)", counted(skipped, "level"))));
    }
    for name in above.into_iter().skip(skipped) {
        lines.push((lines.len(), name.to_owned()));
    }
    let base = lines.len();
    for node in e.subtree.iter().take(MOST_NODES) {
        let kernels = if node.kernels.is_empty() {
            String::new()
        } else {
            format!("  -> {}", node.kernels.iter().map(|k| short(k)).collect::<Vec<_>>().join(", "))
        };
        let calls = if node.depth == 0 { format!("  x{}, uid {}", e.instance_count, e.ex_uid) } else { String::new() };
        lines.push((base + node.depth, format!("{}  {} us{calls}{kernels}", node.name, us(node.kernel_time_us.0))));
    }
    if e.subtree.len() > MOST_NODES || e.truncated {
        lines.push((base + 1, "...".to_owned()));
    }
    Block::Tree(lines)
}

/// The first find of a pattern as a tree: module, operations, times.
fn pattern(run: &Run<'_>, p: &Pattern) -> Vec<Block> {
    let program = &run.analysis.prepared.program;
    let Some(first) = p.leaves.first() else { return Vec::new() };
    let head = p.module.as_deref().unwrap_or("(no module recorded)");
    let mut lines = vec![(0, format!("{head}  x{}, {} ms in all", p.instances, ms(p.total_ms())))];
    for l in first.iter().take(MOST_LEAVES) {
        let leaf = program.leaf(*l);
        lines.push((1, format!("{}  {} us", leaf.name, us(leaf.us))));
    }
    if first.len() > MOST_LEAVES {
        lines.push((1, format!("... {} more", first.len() - MOST_LEAVES)));
    }
    let evidence = if p.evidence.is_empty() { String::new() } else { format!(": {}", p.evidence.join("; ")) };
    vec![Block::Paragraph(Line::code(p.code.as_str()).and_prose(&evidence)), Block::Tree(lines)]
}

fn patterns(run: &Run<'_>) -> Table {
    let compute = run.analysis.prepared.utilization.computation_time_ms.max(f64::MIN_POSITIVE);
    let mut table = Table::new(&[
        "Pattern",
        "Module",
        "Confidence",
        ">Finds",
        ">Operations",
        ">Time (ms)",
        ">% of Compute",
        "Kernel Time Saved (ms)",
    ]);
    for p in &run.analysis.patterns {
        let saved =
            p.saved_ms.map_or_else(|| "not estimated".to_owned(), |s| format!("{} to {}", ms(s.low), ms(s.high)));
        table.row([
            Line::code(p.code.as_str()),
            p.module.as_deref().map_or_else(|| cell("-"), Line::code),
            cell(word(p.confidence)),
            cell(p.instances.to_string()),
            cell(p.ops.len().to_string()),
            cell(ms(p.total_ms())),
            cell(pct(100.0 * p.total_ms() / compute)),
            cell(saved),
        ]);
    }
    table
}

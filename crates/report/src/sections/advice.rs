//! A finding told in full, for the files of a tier: issue, both paths, impact, evidence.

use jarvis_analyze::finding::Finding;

use super::words::{icon, impact, sentence};
use crate::Run;
use crate::blocks::Block;

/// Most lines of evidence.
const MOST_EVIDENCE: usize = 8;

/// The finding under a heading of this level.
pub(crate) fn advice(run: &Run<'_>, f: &Finding, level: u8) -> Vec<Block> {
    let mut blocks = vec![Block::heading(level, format!("{} {} (finding {})", icon(f.priority), f.title, f.rank))];
    let path = |sentences: &[String]| if sentences.is_empty() { "None.".to_owned() } else { sentences.join(" ") };
    blocks.push(Block::facts([
        ("Issue", f.issue.clone()),
        ("Path A", path(&f.paths.algorithmic)),
        ("Path B", path(&f.paths.kernel)),
        ("Impact", sentence(&impact(run.analysis, f))),
        ("Basis", sentence(&f.impact.basis)),
        ("Priority", f.priority.title().to_owned()),
    ]));
    let told = evidence(f);
    if !told.is_empty() {
        blocks.push(Block::paragraph("Evidence:"));
        blocks.push(Block::list(told));
    }
    blocks
}

/// Where the numbers of a finding come from.
fn evidence(f: &Finding) -> Vec<String> {
    let told = f.evidence.iter().take(MOST_EVIDENCE).map(|e| {
        let uid = e.uid.map(|uid| format!(", uid {uid}")).unwrap_or_default();
        format!("{} (`{}`{uid})", sentence(&e.fact).trim_end_matches('.'), e.table)
    });
    told.collect()
}

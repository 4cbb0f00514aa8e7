//! Copies beside what computes: tables of compute time leave them out, a line below says how long they take.

use std::collections::BTreeMap;

use jarvis_analyze::prepared::Row;
use jarvis_trace::InOrder as _;

use super::words::ms;
use crate::blocks::{Block, Line};

/// Most operations that a line names.
const MOST_OPERATIONS: usize = 3;

/// What the rows of a table copy, if it is worth a line.
pub(crate) fn footnote<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Block> {
    let mut by_name: BTreeMap<&str, f64> = BTreeMap::new();
    for row in rows.filter(|r| r.copied_ms > 0.0) {
        *by_name.entry(&row.name).or_default() += row.copied_ms;
    }
    let all: f64 = by_name.values().sum();
    let mut longest: Vec<(&str, f64)> = by_name.into_iter().collect();
    longest.order_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    // What is shown as nothing is not worth a line.
    (all >= 0.001).then(|| {
        let mut line = Line::prose(&format!("Not counted as compute: {} ms of memory copies (", ms(all)));
        for (i, (name, time)) in longest.iter().take(MOST_OPERATIONS).enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            line = line.and_prose(comma).and_code(name).and_prose(&format!(" {} ms", ms(*time)));
        }
        let more = if longest.len() > MOST_OPERATIONS { ", ..." } else { "" };
        Block::Paragraph(line.and_prose(&format!("{more}).")))
    })
}

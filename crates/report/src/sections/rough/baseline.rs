//! How the elementwise baseline came about: rows used and rows rejected.

use std::collections::BTreeSet;

use jarvis_analyze::prepare::kernel_names::is_copy_or_fill;
use jarvis_analyze::prepared::{Link, Prepared, Row};
use jarvis_analyze::rounding::shown;
use jarvis_analyze::thresholds::Threshold;

use super::{capped, unified};
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::words::{cell, figure, ms, pct, shapes};

/// Simple operations that are looked at.
const SIMPLE: &[&str] = &["aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::copy_"];

/// Most rows of the table.
const MOST_ROWS: usize = 20;

/// The computation.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let p = &run.analysis.prepared;
    let b = &p.baseline;
    let seed = b.seed_bandwidth_tbs.map_or_else(|| "not known".to_owned(), |t| format!("{} TB/s", shown(t, 2)));
    let mut blocks = vec![Block::facts([
        (
            "Used",
            format!(
                "{} TB/s, {}% of {} TB/s ({})",
                shown(b.bandwidth_tbs, 2),
                pct(b.efficiency_percent),
                figure(p.peak_hbm_tbs()),
                b.source
            ),
        ),
        ("Plain mean over additions, products and copies", seed),
        ("Ceiling for memory-bound work", format!("{}% of peak", pct(p.memory_ceiling()))),
    ])];
    let mut table = Table::new(&["Operation", "Shapes", ">MiB per Call", ">TB/s", ">Time (ms)", "Used"]);
    let counted: BTreeSet<u32> = b.rows.iter().copied().collect();
    for row in p.rows.iter().filter(|r| SIMPLE.contains(&&*r.name)) {
        let used = counted.contains(&row.uid);
        table.row([
            Line::code(&row.name),
            Line::code(&shapes(&row.args)),
            cell(row.data_moved_mb.map_or_else(|| "-".to_owned(), |mb| shown(mb, 1))),
            cell(row.efficiency.tb_s_achieved.map_or_else(|| "-".to_owned(), |t| shown(t, 2))),
            cell(ms(row.time_ms)),
            cell(if used { "yes".to_owned() } else { format!("no: {}", rejected(row, p)) }),
        ]);
    }
    if !table.rows.is_empty() {
        blocks.extend(capped(table, MOST_ROWS, &unified(run)));
    }
    blocks
}

/// Why a row does not count.
fn rejected(row: &Row, p: &Prepared) -> &'static str {
    match (row.data_moved_mb, row.efficiency.tb_s_achieved) {
        _ if row.is_link_copy => match row.link {
            Link::Host => "a copy between host and device",
            Link::Devices => "a copy between devices",
        },
        (None, _) | (_, None) => "no performance model",
        (Some(mb), _) if mb < p.thresholds.get(Threshold::BaselineMinMb) => "too small",
        (_, Some(t)) if t > p.peak_hbm_tbs() => "above the peak",
        _ if row.kernels.iter().any(|k| is_copy_or_fill(&k.name)) => "no kernel of its own",
        _ => "operands differ in shape or layout",
    }
}

/// Why nothing could be measured.
pub(crate) fn unmeasured(p: &Prepared) -> String {
    let simple = p.rows.iter().filter(|r| SIMPLE.contains(&&*r.name));
    let reasons: BTreeSet<&str> = simple.map(|row| rejected(row, p)).collect();
    if reasons.is_empty() {
        return "this trace has no addition, product or copy to measure it by".to_owned();
    }
    let reasons: Vec<&str> = reasons.into_iter().collect();
    format!("no addition, product or copy of this trace could measure it ({})", reasons.join("; "))
}

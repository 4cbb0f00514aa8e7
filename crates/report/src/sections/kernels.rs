//! Kernels that no operation launched: replays of GPU graphs, bare launches, launches that were not recorded.

use jarvis_analyze::system::kernels::is_without_operation;
use jarvis_trace::InOrder;

use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::words::{cell, ms, pct, us};

/// Most kernels of the table.
const MOST: usize = 15;

/// Shares of kernel time below this are not worth a section, in percent.
const WORTH_PERCENT: f64 = 5.0;

/// Kernels of one name and kind of launch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaunchedKernel<'a> {
    /// Kernel.
    pub name: &'a str,
    /// `graph`, `runtime`, or nothing where the launch was not recorded.
    category: Option<&'a str>,
    /// How many.
    pub count: usize,
    /// Their time.
    pub time_ms: f64,
    /// Of all kernels.
    pub percent: f64,
}

impl LaunchedKernel<'_> {
    /// How it was launched, in words.
    pub(crate) fn launch(&self) -> &'static str {
        match self.category {
            Some("graph") => "GPU graph replay",
            Some(_) => "bare launch",
            None => "launch not recorded",
        }
    }
}

/// Kernels without an operation, by launch and name, most time first.
pub(crate) fn launched_without_operation<'a>(run: &Run<'a>) -> Vec<LaunchedKernel<'a>> {
    let mut found: Vec<LaunchedKernel<'a>> = Vec::new();
    // What ended before the window is no part of what is analysed.
    let rows = &run.report.rows;
    let is_before = |unlinked: bool| unlinked && rows.unlinked == rows.unlinked_before;
    for row in &rows.kernels {
        if !is_without_operation(row) || is_before(row.category.is_none()) {
            continue;
        }
        let category = row.category.as_deref();
        let time_ms = row.us.sum / 1e3;
        match found.iter_mut().find(|k| k.name == &*row.name && k.category == category) {
            Some(known) => {
                known.count += row.us.count;
                known.time_ms += time_ms;
                known.percent += row.percent_of_kernels;
            }
            None => found.push(LaunchedKernel {
                name: &row.name,
                category,
                count: row.us.count,
                time_ms,
                percent: row.percent_of_kernels,
            }),
        }
    }
    found
        .order_by(|a, b| b.time_ms.total_cmp(&a.time_ms).then_with(|| (a.category, a.name).cmp(&(b.category, b.name))));
    found
}

/// Share of kernel time that has no operation, in percent, if it is worth a section.
pub(crate) fn share(kernels: &[LaunchedKernel<'_>]) -> Option<f64> {
    Some(kernels.iter().map(|k| k.percent).sum::<f64>()).filter(|p| *p >= WORTH_PERCENT)
}

/// The kernels as a table.
pub(crate) fn table(kernels: &[LaunchedKernel<'_>]) -> Vec<Block> {
    let mut table = Table::new(&["Kernel", "Launched by", ">Count", ">Mean (us)", ">Time (ms)", ">% of Kernel Time"]);
    for k in kernels.iter().take(MOST) {
        table.row([
            Line::code(k.name),
            cell(k.launch()),
            cell(k.count.to_string()),
            cell(us(1e3 * k.time_ms / k.count.max(1) as f64)),
            cell(ms(k.time_ms)),
            cell(pct(k.percent)),
        ]);
    }
    let mut blocks = vec![Block::Table(table)];
    if kernels.len() > MOST {
        let rest: f64 = kernels[MOST..].iter().map(|k| k.time_ms).sum();
        blocks.push(Block::paragraph(format!(
            "{} more take {} ms; `kernel_summary.csv` lists all.",
            kernels.len() - MOST,
            ms(rest)
        )));
    }
    blocks
}

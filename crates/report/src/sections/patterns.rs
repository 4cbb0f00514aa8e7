//! Patterns of a category that name a change, told among its bottlenecks: with the words, the numbers and the priority
//! that the findings have.

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::finding::{Finding, Priority};
use jarvis_analyze::metrics::{CategoryMetrics, PatternMetrics, Promoted};

use super::cross::spans_operations;
use super::words::{cell, impact, ms, ms_range, pct, sentence, shapes};
use crate::blocks::{Block, Line, Table};

/// Most operations that a finding lists.
const MOST_OPERATIONS: usize = 10;

/// A pattern with what is said of it.
pub(crate) struct Told<'a> {
    title: &'a str,
    time_ms: f64,
    percent_of_compute: f64,
    issue: &'a str,
    algorithmic: String,
    kernel: String,
    impact: String,
    priority: Priority,
    /// Its operations, if it spans several.
    operations: Vec<Block>,
}

/// What is said of the patterns of a category, each finding once: in the order of the findings, then what others count.
pub(crate) fn told<'a>(analysis: &'a Analysis, metrics: &'a CategoryMetrics) -> Vec<Told<'a>> {
    let mut findings: Vec<&Finding> = metrics.patterns.iter().flat_map(|p| analysis.findings_of(p)).collect();
    findings.sort_by_key(|f| f.rank);
    findings.dedup_by_key(|f| f.rank);
    let is_counted = |p: &&PatternMetrics| analysis.findings_of(p).next().is_none();
    let counted = metrics.patterns.iter().filter(is_counted).filter_map(|p| p.promoted.as_ref());
    let own = findings.into_iter().map(|f| Told::finding(analysis, f));
    own.chain(counted.map(|p| Told::counted(analysis, p))).collect()
}

impl<'a> Told<'a> {
    fn finding(analysis: &'a Analysis, f: &'a Finding) -> Self {
        Self {
            title: &f.title,
            time_ms: f.time_ms,
            percent_of_compute: of_compute(analysis, f.time_ms),
            issue: &f.issue,
            algorithmic: f.paths.algorithmic.join(" "),
            kernel: f.paths.kernel.join(" "),
            impact: format!("{} (finding {})", impact(analysis, f).trim_end_matches('.'), f.rank),
            priority: f.priority,
            operations: if spans_operations(f) { operations(f) } else { Vec::new() },
        }
    }

    /// Of a pattern whose rows all belong to other findings, which its saving must not be added to.
    fn counted(analysis: &'a Analysis, p: &'a Promoted) -> Self {
        let texts = |path: &[jarvis_analyze::metrics::Sentence]| {
            path.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join(" ")
        };
        let other = p.explains.iter().find_map(|row| analysis.finding_of(*row));
        let with = other.map(|f| format!(", not on top of finding {}", f.rank)).unwrap_or_default();
        Self {
            title: &p.title,
            time_ms: p.time_ms,
            percent_of_compute: of_compute(analysis, p.time_ms),
            issue: &p.issue,
            algorithmic: texts(&p.algorithmic),
            kernel: texts(&p.kernel),
            impact: format!("saves {}{with}", ms_range(p.saved)),
            priority: p.priority,
            operations: Vec::new(),
        }
    }

    /// The pattern as the `number`th bottleneck of its category.
    pub(crate) fn blocks(self, number: usize) -> Vec<Block> {
        let time = format!("{} ms ({}% of compute)", ms(self.time_ms), pct(self.percent_of_compute));
        let mut blocks = vec![
            Block::heading(3, format!("{number}. {}", self.title)),
            Block::facts([
                ("Time", time),
                ("Issue", self.issue.to_owned()),
                ("Algorithmic", self.algorithmic),
                ("Kernel", self.kernel),
                ("Impact", sentence(&self.impact)),
                ("Priority", self.priority.title().to_owned()),
            ]),
        ];
        blocks.extend(self.operations);
        blocks
    }
}

fn of_compute(analysis: &Analysis, time_ms: f64) -> f64 {
    100.0 * time_ms / analysis.prepared.utilization.computation_time_ms.max(f64::MIN_POSITIVE)
}

/// The operations of a finding that spans several.
pub(crate) fn operations(f: &Finding) -> Vec<Block> {
    let mut blocks = vec![Block::Table(operations_table(f))];
    let more = f.operations.len().saturating_sub(MOST_OPERATIONS);
    let beyond = f.operations_total > f.operations.len();
    if more > 0 && beyond {
        blocks.push(Block::paragraph(format!(
            "These are {MOST_OPERATIONS} of {} shapes of operations; {more} more stand in `findings.json`, and those in \
             neither take {} ms.",
            f.operations_total,
            ms(f.operations_left_out_ms)
        )));
    } else if more > 0 {
        blocks.push(Block::paragraph(format!("{more} more in `findings.json`.")));
    }
    blocks
}

fn operations_table(f: &Finding) -> Table {
    let mut table = Table::new(&["Operation", ">Calls", ">Time (ms)", ">% of Peak", "Shapes"]);
    for o in f.operations.iter().take(MOST_OPERATIONS) {
        table.row([
            Line::code(&o.name),
            cell(o.count.to_string()),
            cell(ms(o.time_ms)),
            cell(o.efficiency_percent.map_or_else(|| "-".to_owned(), pct)),
            Line::code(&shapes_of(&o.input_dims)),
        ]);
    }
    table
}

/// `(4,16,2048), (2048)` out of the recorded dims.
fn shapes_of(dims: &serde_json::Value) -> String {
    let shape = |d: &serde_json::Value| {
        let numbers: Vec<String> = d.as_array()?.iter().map(ToString::to_string).collect();
        (!numbers.is_empty()).then(|| format!("({})", numbers.join(",")))
    };
    let all: Vec<String> = dims.as_array().into_iter().flatten().filter_map(shape).collect();
    shapes(&all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_analyze::finding::FindingOperation;

    #[test]
    fn what_is_left_out_is_told_with_its_time() {
        let said = |listed: usize, total: usize, left_out_ms: f64| {
            let f = Finding {
                operations: vec![FindingOperation::default(); listed],
                operations_total: total,
                operations_left_out_ms: left_out_ms,
                ..crate::html::waterfall::tests::finding(1, "a", 1.0, 2.0)
            };
            let blocks = operations(&f);
            match blocks.get(1) {
                Some(Block::Paragraph(line)) => line.plain(),
                _ => String::new(),
            }
        };
        assert_eq!(said(10, 10, 0.0), "");
        assert_eq!(said(24, 24, 0.0), "14 more in findings.json.");
        assert_eq!(
            said(24, 899, 16.638),
            "These are 10 of 899 shapes of operations; 14 more stand in findings.json, and those in neither take \
             16.64 ms."
        );
    }
}

//! The executive summary: one paragraph, one table, the operations that take most time. At most twenty lines.

use jarvis_analyze::finding::{Finding, PatternId, Priority};
use jarvis_analyze::metrics::Fact;
use jarvis_analyze::prepared::{Row, TopOperation};
use jarvis_analyze::thresholds::Threshold;
use jarvis_perf::ops;

use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::language::in_prose;
use crate::sections::cross::{recommendations, recoverable_percent};
use crate::sections::kernels::{LaunchedKernel, launched_without_operation, share};
use crate::sections::words::{PARAGRAPH_WORDS, cell, count_words, counted, ms, ms_range, pct, speedup};

/// Most operations that leave the summary at twenty lines.
const ROOM: usize = 7;

/// With so few operations there is room for kernels, and for how many.
const FEW_OPERATIONS: usize = 1;
const FEW_KERNELS: usize = 3;

/// From this share of an operation's time on, its copies are told.
const COPIED: f64 = 0.01;
/// Losses below this share of the trace are not worth a clause, in percent.
const LOSS_PERCENT: f64 = 1.0;

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut blocks = vec![
        Block::heading(2, "Executive Summary"),
        Block::paragraph(paragraph(run)),
        Block::Table(metrics(run)),
        Block::heading(3, "Top Operations"),
        Block::Paragraph(Line::strong("These operations consume the most GPU time - prioritize optimizations here")),
        Block::Table(top(run)),
    ];
    // A replay of a graph is one launch; its kernels tell more.
    let kernels = launched_without_operation(run);
    let few = run.analysis.prepared.top_operations.len() <= FEW_OPERATIONS;
    if few && !run.analysis.prepared.top_operations.is_empty() && share(&kernels).is_some() {
        blocks.push(Block::Paragraph(Line::strong("Their largest kernels")));
        let mut table = Table::new(&["Kernel", "Launched by", ">Time (ms)", ">% of Kernel Time"]);
        for k in kernels.iter().take(FEW_KERNELS) {
            table.row([Line::code(k.name), cell(k.launch()), cell(ms(k.time_ms)), cell(pct(k.percent))]);
        }
        blocks.push(Block::Table(table));
    }
    blocks
}

/// What the trace is, where its time goes, what can be gained.
pub(crate) fn paragraph(run: &Run<'_>) -> String {
    let p = &run.analysis.prepared;
    let u = &p.utilization;
    let loss = [
        (u.idle_time_percent, "idle"),
        (u.exposed_comm_time_percent, "waiting for communication"),
        (u.exposed_memcpy_time_percent, "waiting for memory copies"),
    ];
    let loss = loss.into_iter().reduce(|a, b| if b.0 > a.0 { b } else { a }).filter(|l| l.0 >= LOSS_PERCENT);
    let loss = loss.map(|(percent, what)| format!(", {}% {what}", pct(percent))).unwrap_or_default();
    let mut text = format!(
        "{} on {}: {} ms of GPU time, {}% computing{loss}.",
        in_prose(run.model_name()),
        p.platform.name,
        ms(u.total_time_ms),
        pct(u.computation_time_percent)
    );
    if let Some(copying) = leading_link_copy(run) {
        let link = copying.link.words();
        text += &format!(" Copies {link} (`{}`) take longer than all computing.", name(&copying.name));
    } else if let Some(c) = p.categories.first() {
        text += &format!(" {} takes {}% of compute", c.display, pct(c.percent_of_compute));
        // The largest may only copy.
        let computing =
            p.top_operations.iter().reduce(|a, b| if b.percent_of_compute > a.percent_of_compute { b } else { a });
        text += &match computing {
            // An operation that kernels of other categories were launched by is larger than its own.
            Some(t) if t.category.as_ref() == Some(&c.key) && t.percent_of_compute <= c.percent_of_compute => {
                format!(", led by `{}` ({}%).", name(&t.name), pct(t.percent_of_compute))
            }
            Some(t) if t.category.is_none() => {
                let share = pct(t.percent_of_compute);
                format!("; kernels of several categories are launched by `{}` ({share}%).", name(&t.name))
            }
            Some(t) => format!("; the largest operation is `{}` ({}%).", name(&t.name), pct(t.percent_of_compute)),
            None => ".".to_owned(),
        };
    }
    let found = recommendations(run);
    let whole = format!("{text} {}", outlook(run, &found, recoverable_percent(run)));
    if count_words(&whole) <= PARAGRAPH_WORDS { whole } else { format!("{text} {}", outlook(run, &found, None)) }
}

/// The operation that copies most over links, where such copies take longer than the GPU computes: no share of computing
/// can be told of it.
fn leading_link_copy<'a>(run: &Run<'a>) -> Option<&'a Row> {
    let p = &run.analysis.prepared;
    let time_ms: f64 = p.rows.iter().map(|r| r.over_link_ms).sum();
    let most = p.rows.iter().reduce(|a, b| if b.over_link_ms > a.over_link_ms { b } else { a })?;
    (time_ms > p.utilization.computation_time_ms).then_some(most)
}

/// A name that fits into a sentence.
fn name(name: &str) -> String {
    let short: String = name.chars().take(60).collect();
    let end = if short.len() < name.len() { "..." } else { "" };
    short.replace('`', "'") + end
}

/// What can be gained.
fn outlook(run: &Run<'_>, found: &[&Finding], recoverable: Option<f64>) -> String {
    let count = |p: Priority| found.iter().filter(|f| f.priority == p).count();
    let Some(first) = found.first() else {
        return run.analysis.nothing_recommended();
    };
    let mut text = format!(
        "{} ({} critical, {} high)",
        counted(found.len(), "recommendation"),
        count(Priority::Critical),
        count(Priority::High)
    );
    if let Some(percent) = recoverable {
        text += &format!(" could recover up to {}% of compute time", pct(percent));
    }
    if run.analysis.no_gain(first).is_none() {
        text += &format!(
            "; the first alone saves {}, {} end to end{}",
            ms_range(first.impact.saved_ms),
            speedup(first.impact.speedup),
            first.mending.condition().unwrap_or_default()
        );
    }
    text + "."
}

fn metrics(run: &Run<'_>) -> Table {
    let p = &run.analysis.prepared;
    let u = &p.utilization;
    let top = p
        .categories
        .first()
        .map_or_else(|| "not known".to_owned(), |c| format!("{} ({}%)", c.display, pct(c.percent_of_compute)));
    let mut table = Table::new(&["Metric", "Value"]);
    for (name, value) in [
        ("Total Compute Time", format!("{} ms", ms(u.computation_time_ms))),
        ("GPU Utilization", format!("{}%", pct(u.computation_time_percent))),
        ("Idle Time", format!("{}%", pct(u.idle_time_percent))),
        ("Exposed Communication", format!("{}%", pct(u.exposed_comm_time_percent))),
        ("Top Bottleneck Category", top),
        ("Flash Attention Usage", flash(run).to_owned()),
    ] {
        table.row([cell(name), cell(value)]);
    }
    table
}

/// Whether attention runs on a fused kernel, as its analyzers saw it, as kernels without operations say, or as a pattern
/// lets suppose that is too unsure for a category of its own.
fn flash<'a>(run: &Run<'a>) -> &'a str {
    let said = run.analysis.outcomes.iter().filter(|o| o.analyzer == "sdpa").filter_map(|o| o.metrics());
    let mut said =
        said.filter_map(|m| m.category_specific.get("flash_attention_usage").and_then(Fact::value)?.as_str());
    let by_kernels = || launched_without_operation(run).iter().any(|k| k.name.to_lowercase().contains("flash"));
    let is_attention = |row: &&Row| run.analysis.prepared.category(&row.category).is_some_and(|c| c.analyzer == "sdpa");
    let has_operations = || {
        run.analysis.prepared.rows.iter().filter(is_attention).any(|row| !ops::is_synthetic(&row.name))
            || run.analysis.patterns.iter().any(|p| p.id == PatternId::UNFUSED_ATTENTION)
    };
    match said.next() {
        Some(said) if has_operations() => said,
        _ if by_kernels() => "Yes, by the names of kernels without operations",
        Some(said) => said,
        None if run.analysis.patterns.iter().any(|p| p.id == PatternId::UNFUSED_ATTENTION) => {
            "No, as far as the trace tells: attention seems to run as separate operations"
        }
        None if run.summary.shaped_ops.1 == 0 => "Not known: no operations are recorded",
        None => "N/A (no attention operations in the trace)",
    }
}

fn top(run: &Run<'_>) -> Table {
    let p = &run.analysis.prepared;
    let most = (p.thresholds.get(Threshold::FairTopOps) as usize).min(ROOM);
    let mut table = Table::new(&["Rank", "Operation", "Category", ">Time (ms)", ">% of Total Compute"]);
    for t in p.top_operations.iter().take(most) {
        let category = p.category_display(t);
        table.row([
            cell(t.rank.to_string()),
            Line::code(&t.name),
            cell(category),
            cell(with_copies(t)),
            cell(pct(t.percent_of_compute)),
        ]);
    }
    if p.top_operations.is_empty() {
        // Without operations the kernels have to stand for them.
        for (i, k) in launched_without_operation(run).iter().take(most).enumerate() {
            kernel_row(&mut table, i + 1, k, p.utilization.computation_time_ms);
        }
    }
    table
}

/// The time of an operation, with what of it is copied where that is not next to nothing: it has no share of computing.
fn with_copies(t: &TopOperation) -> String {
    match t.copy_time_ms {
        copied if copied > 0.0 && copied >= COPIED * t.time_ms => format!("{} ({} copied)", ms(t.time_ms), ms(copied)),
        _ => ms(t.time_ms),
    }
}

fn kernel_row(table: &mut Table, rank: usize, k: &LaunchedKernel<'_>, compute_ms: f64) {
    let share = if compute_ms > 0.0 { pct(100.0 * k.time_ms / compute_ms) } else { "-".to_owned() };
    table.row([cell(rank.to_string()), Line::code(k.name), cell(k.launch()), cell(ms(k.time_ms)), cell(share)]);
}

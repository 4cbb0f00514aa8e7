//! Steps 3 to 5: utilisation, top operations, categories and the data prepared for them.

use jarvis_analyze::thresholds::Threshold;

use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::copies;
use crate::sections::kernels::{self, launched_without_operation};
use crate::sections::words::{bound, cell, ms, pct};

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let p = &run.analysis.prepared;
    let mut blocks = vec![
        Block::heading(3, "Step 3-5: Prepare Category Data"),
        Block::Table(utilization(run)),
        Block::paragraph(assessment(run)),
    ];
    if p.top_operations.is_empty() {
        blocks.push(Block::paragraph("The trace names no operation that launches kernels; the kernels are:"));
        blocks.extend(kernels::table(&launched_without_operation(run)));
    } else {
        blocks.push(Block::Table(top(run)));
    }
    blocks.push(Block::Table(categories(run)));
    blocks.extend(copies::footnote(p.rows.iter()));
    blocks.extend(system(run));
    blocks
}

fn utilization(run: &Run<'_>) -> Table {
    let u = &run.analysis.prepared.utilization;
    let mut table = Table::new(&["GPU Time", ">ms", ">% of Total"]);
    let share = |ms: f64| if u.total_time_ms > 0.0 { pct(100.0 * ms / u.total_time_ms) } else { "-".to_owned() };
    for (name, time, percent) in [
        ("Total", u.total_time_ms, share(u.total_time_ms)),
        ("Computation", u.computation_time_ms, pct(u.computation_time_percent)),
        ("Exposed communication", u.exposed_comm_time_ms, pct(u.exposed_comm_time_percent)),
        ("Exposed memory copies", u.exposed_memcpy_time_ms, pct(u.exposed_memcpy_time_percent)),
        ("Idle", u.idle_time_ms, pct(u.idle_time_percent)),
        ("Busy", u.busy_time_ms, share(u.busy_time_ms)),
        ("All communication", u.total_comm_time_ms, share(u.total_comm_time_ms)),
        ("All memory copies", u.total_memcpy_time_ms, share(u.total_memcpy_time_ms)),
    ] {
        table.row([cell(name), cell(ms(time)), cell(percent)]);
    }
    table
}

fn assessment(run: &Run<'_>) -> String {
    let p = &run.analysis.prepared;
    let wanted = p.thresholds.get(Threshold::UtilComputeOk);
    let reached = p.utilization.computation_time_percent;
    let text = format!("Computation is {}%, {}% is wanted", pct(reached), jarvis_analyze::rounding::shown(wanted, 0));
    if reached < wanted { text + ": the system tier is told first." } else { text + ": kernels are the place to look." }
}

fn top(run: &Run<'_>) -> Table {
    let p = &run.analysis.prepared;
    let mut table = Table::new(&[
        "Rank",
        "Operation",
        "Category",
        ">Calls",
        ">Time (ms)",
        ">% of Compute",
        ">Cumulative %",
        ">Efficiency",
        "Type",
    ]);
    for t in &p.top_operations {
        table.row([
            cell(t.rank.to_string()),
            Line::code(&t.name),
            cell(p.category_display(t)),
            cell(t.count.to_string()),
            cell(ms(t.time_ms)),
            cell(pct(t.percent_of_compute)),
            cell(pct(t.cumulative_percent)),
            cell(t.efficiency_percent.map_or_else(|| "-".to_owned(), |e| pct(e) + "%")),
            cell(bound(t.bound_type)),
        ]);
    }
    table
}

fn categories(run: &Run<'_>) -> Table {
    let analysis = run.analysis;
    let mut table = Table::new(&[
        "Category",
        ">Rows",
        ">Calls",
        ">Time (ms)",
        ">% of Compute",
        ">Host Time (ms)",
        "Host-dominated",
        ">Tree Entries",
    ]);
    for c in &analysis.prepared.categories {
        let entries = analysis.tree_data.iter().find(|(key, _)| *key == c.key).map_or(0, |(_, e)| e.len());
        let sync = if c.time.has_sync_bottleneck { format!("yes, {}", c.time.sync_ops_count) } else { "no".to_owned() };
        table.row([
            cell(&*c.display),
            cell(c.rows.len().to_string()),
            cell(c.operation_count.to_string()),
            cell(ms(c.time_ms)),
            cell(pct(c.percent_of_compute)),
            cell(ms(c.time.cpu_duration_ms)),
            cell(sync),
            cell(entries.to_string()),
        ]);
    }
    table
}

fn system(run: &Run<'_>) -> Vec<Block> {
    let Some(s) = &run.analysis.system else { return Vec::new() };
    let (copies, comm) = (&s.copies, &s.communication);
    vec![Block::facts([
        ("Memory copies", format!("{}, {} ms exposed", copies.count(), ms(copies.exposed.as_ms()))),
        (
            "Communication kernels",
            format!("{}, {} ms, {} ms exposed", comm.count, ms(comm.time.as_ms()), ms(comm.exposed.as_ms())),
        ),
        ("Kernels", format!("{}, {} of them shorter than 10 us", s.kernels.count, s.kernels.short)),
        (
            "Window without the profiler",
            format!("{} to {} ms, estimated", ms(s.host.unprofiled_ms.low), ms(s.host.unprofiled_ms.high)),
        ),
    ])]
}

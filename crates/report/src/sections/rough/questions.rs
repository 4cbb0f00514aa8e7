//! What the trace leaves open, as questions: one for each rule that was met.

use jarvis_analyze::lowering::{Difference, lowering_differences};
use jarvis_analyze::prepare::warnings::{UNLAUNCHED, UNOWNED};
use jarvis_trace::Defect;

use crate::Run;
use crate::blocks::{Block, Line};
use crate::sections::idle::short;
use crate::sections::words::{counted, ms, pct, shapes};

/// Most questions of one kind.
const MOST: usize = 5;

/// Shares from which an operation without a model, or communication, is asked about, in percent.
const ASK_PERCENT: f64 = 5.0;

/// The part.
pub(crate) fn blocks(run: &Run<'_>) -> Vec<Block> {
    let mut items: Vec<Line> = Vec::new();
    for kind in [anomalies, variance, unmodelled, communication, lowering, host_dominated, unlinked] {
        items.extend(kind(run));
    }
    let list = if items.is_empty() {
        Block::paragraph("None: no rule asks for more.")
    } else {
        Block::List { ordered: true, items: items.into_iter().map(|l| (None, l)).collect() }
    };
    vec![Block::heading(2, "Questions for Further Investigation"), list]
}

fn anomalies(run: &Run<'_>) -> Vec<Line> {
    let rows = run.analysis.prepared.rows.iter().filter(|r| r.efficiency.is_anomaly);
    rows.take(MOST)
        .map(|r| {
            let e = r.efficiency.efficiency_percent.unwrap_or_default();
            let part = r.efficiency.is_at_most();
            let asked = if part { "what of its tensors does it touch" } else { "is the peak or the timing right" };
            Line::code(&r.name)
                .and_prose(" on ")
                .and_code(&shapes(&r.args))
                .and_prose(&format!(" reaches {}% of peak: {asked}?", pct(e)))
        })
        .collect()
}

fn variance(run: &Run<'_>) -> Vec<Line> {
    let rows = run.analysis.prepared.rows.iter().filter(|r| r.high_variance);
    rows.take(MOST)
        .map(|r| {
            let cov = jarvis_analyze::rounding::shown(r.cov.unwrap_or_default(), 2);
            Line::code(&r.name).and_prose(&format!(" varies by {cov} of its mean: is the trace steady?"))
        })
        .collect()
}

fn unmodelled(run: &Run<'_>) -> Vec<Line> {
    let rows = run.analysis.prepared.rows.iter();
    let rows = rows.filter(|r| r.efficiency.efficiency_percent.is_none() && r.percent_of_compute > ASK_PERCENT);
    rows.take(MOST)
        .map(|r| {
            let text = format!(
                " takes {}% of compute without a performance model: what does it move?",
                pct(r.percent_of_compute)
            );
            Line::code(&r.name).and_prose(&text)
        })
        .collect()
}

fn communication(run: &Run<'_>) -> Vec<Line> {
    let percent = run.analysis.prepared.utilization.exposed_comm_time_percent;
    let text =
        format!("Exposed communication takes {}% of the trace: what do the traces of all ranks show?", pct(percent));
    Some(Line::from(text)).filter(|_| percent > ASK_PERCENT).into_iter().collect()
}

fn lowering(run: &Run<'_>) -> Vec<Line> {
    let found = lowering_differences(&run.analysis.prepared);
    found
        .iter()
        .take(MOST)
        .map(|d| {
            let [slow, peer] = &d.rows;
            let args = |row| shapes(&run.analysis.prepared.row(row).args);
            let line = Line::code(&d.op).and_prose(" on ").and_code(&args(slow.row));
            match d.difference {
                Difference::Kernel => line
                    .and_prose(" runs on ")
                    .and_code(&short(&slow.kernel))
                    .and_prose(&format!(
                        " at {}% of peak, on ",
                        slow.efficiency_percent.map_or_else(|| "-".to_owned(), pct)
                    ))
                    .and_code(&args(peer.row))
                    .and_prose(&format!(
                        " another kernel reaches {}%: why this kernel for this shape?",
                        peer.efficiency_percent.map_or_else(|| "-".to_owned(), pct)
                    )),
                Difference::KernelCount => {
                    line.and_prose(&format!(" needs {} kernels where other shapes need one: why?", slow.kernels))
                }
            }
        })
        .collect()
}

fn host_dominated(run: &Run<'_>) -> Vec<Line> {
    let categories = run.analysis.prepared.categories.iter().filter(|c| c.time.has_sync_bottleneck);
    categories
        .take(MOST)
        .map(|c| {
            let text = format!(
                "{} operations spend {} ms on the host beyond their GPU time: where is the synchronization?",
                c.display,
                ms(c.time.sync_time_ms)
            );
            Line::from(text)
        })
        .collect()
}

fn unlinked(run: &Run<'_>) -> Vec<Line> {
    let (count, us) = run.report.rows.unlinked;
    let known = run.report.diagnostics.count(Defect::UnlinkedGpuEvent) < count as u64;
    let (have, belong, them) = if count == 1 { ("has", "belongs", "it") } else { ("have", "belong", "them") };
    let what = if known { format!("{belong} {UNOWNED}") } else { format!("{have} {UNLAUNCHED}") };
    let events = counted(count, "GPU event");
    let text = format!("{events} ({} ms) {what}: which launcher started {them}?", ms(us / 1e3));
    Some(Line::from(text)).filter(|_| count > 0).into_iter().collect()
}

//! Operations that could be one kernel: a card for each candidate, and its kernels.

use jarvis_analyze::finding::{Finding, Priority};
use jarvis_analyze::metrics::Peaks;
use jarvis_analyze::patterns::candidates::CandidateKernel;
use jarvis_analyze::prepared::BoundType;
use jarvis_analyze::rounding::shown;
use jarvis_analyze::texts::TextId;

use super::compute::COLUMNS;
use super::{all_steps, as_before, detail_head, first_steps, fusion_anchor, labelled, see};
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::analysis_md::plan::{FusionCard, Plan};
use crate::sections::fusion;
use crate::sections::words::{bound, cell, counted, icon, ms, pct, sentence};

/// Most kernels of a table; the machine form has all.
const MOST_KERNELS: usize = 16;

/// The cards.
pub(crate) fn cards(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "Kernel Fusion Opportunities (Experimental)")];
    if plan.fusion.is_empty() {
        blocks.push(Block::paragraph("No fusion opportunity was detected that is worth a change."));
        return blocks;
    }
    for (card, rank) in plan.fusion.iter().zip(1..) {
        let priority = card.told.map_or(Priority::Low, |finding| finding.priority);
        let told_in: Vec<&Finding> = card.told.into_iter().collect();
        let action = action(card, &leading(plan)[..rank - 1], first_steps);
        blocks.push(Block::Heading(3, heading(card, rank, &format!("{} ", icon(priority)))));
        blocks.push(Block::Labels(vec![
            ("Insight".to_owned(), insight(run, card).into()),
            ("Action".to_owned(), action.into()),
            ("Impact".to_owned(), impact(card).into()),
            ("Confidence".to_owned(), fusion::word(card.estimate.confidence).into()),
            (String::new(), see(rank, &fusion_anchor(rank), &told_in)),
        ]));
    }
    if plan.more_fusions > 0 {
        let more = counted(plan.more_fusions, "smaller opportunity").replace("opportunitys", "opportunities");
        blocks.push(Block::paragraph(format!("More in `category_data/fusion_candidates.json`: {more}.")));
    }
    blocks
}

fn heading(card: &FusionCard<'_>, rank: usize, before: &str) -> Line {
    let c = card.candidate;
    let line =
        Line::prose(&format!("{before}P{rank}: ")).and_code(c.base_name.as_deref().unwrap_or(c.pattern.as_str()));
    let line = if c.base_name.is_some() { line.and_prose(": ").and_code(c.pattern.as_str()) } else { line };
    line.and_prose(&format!(", {} per call", counted(c.kernel_count, "kernel")))
}

fn insight(run: &Run<'_>, card: &FusionCard<'_>) -> String {
    let window = run.analysis.prepared.utilization.total_time_ms.max(f64::MIN_POSITIVE);
    let (c, e) = (card.candidate, card.estimate);
    format!(
        "{} of {} that could run as one: {} ms, {}% of the window.",
        counted(c.instance_count, "call"),
        counted(c.kernel_count, "kernel"),
        ms(e.time_ms),
        pct(100.0 * e.time_ms / window)
    )
}

/// The rank of the finding that speaks of each card; zero where none does.
fn leading(plan: &Plan<'_>) -> Vec<usize> {
    plan.fusion.iter().map(|card| card.told.map_or(0, |finding| finding.rank)).collect()
}

/// What the finding says to do, once.
fn action(card: &FusionCard<'_>, earlier: &[usize], steps: fn(&Finding) -> String) -> String {
    card.told.map_or_else(|| compile(card), |told| as_before(told, earlier).unwrap_or_else(|| steps(told)))
}

/// What helps where no finding says more.
fn compile(card: &FusionCard<'_>) -> String {
    let kernels = card.candidate.kernel_count.to_string();
    format!("Path A: {} Path B: None.", TextId::A_COMPILE.fill(&[("n", &kernels)]))
}

fn impact(card: &FusionCard<'_>) -> String {
    let e = card.estimate;
    format!(
        "saves {} ms of kernel time; impact_score: {} (perf-model coverage {}/{} kernels).",
        fusion::saving(e),
        shown(e.impact_score, 2),
        e.modeled_kernel_count,
        e.kernel_count
    )
}

/// What the cards rest on.
pub(crate) fn details(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    for (card, rank) in plan.fusion.iter().zip(1..) {
        if rank == 1 {
            blocks.push(Block::heading(3, "Kernel Fusion"));
        }
        let (c, e) = (card.candidate, card.estimate);
        blocks.extend(detail_head(fusion_anchor(rank), heading(card, rank, ""), "fusion", rank));
        let place = if c.call_site == "unknown" { String::new() } else { format!(", called from {}", c.call_site) };
        let found = insight(run, card);
        let sure = fusion::confidence(run, c, e);
        let found = format!("{}{place}. How sure that is: {sure}", found.trim_end_matches('.'));
        blocks.push(labelled("Identification", found));
        blocks.push(labelled("Data", "kernels of the first call in their order, times over all calls."));
        blocks.push(Block::Table(kernels(run, card)));
        if c.kernels.len() > MOST_KERNELS {
            let more = counted(c.kernels.len() - MOST_KERNELS, "more kernel");
            blocks.push(Block::paragraph(format!("{more} per call.")));
        }
        blocks.push(labelled("Reasoning for Slowdown", reasoning(card)));
        blocks.push(labelled("Resolution", action(card, &leading(plan)[..rank - 1], all_steps)));
        let basis = card.told.map(|f| format!(" {}", sentence(&f.impact.basis))).unwrap_or_default();
        blocks.push(labelled("Impact estimate", format!("{}{basis}", impact(card))));
    }
    blocks
}

fn kernels(run: &Run<'_>, card: &FusionCard<'_>) -> Table {
    let c = card.candidate;
    let p = &run.analysis.prepared;
    let window = p.utilization.total_time_ms.max(f64::MIN_POSITIVE);
    let peaks = Peaks::of(p);
    let path = c.parent_chain.iter().map(|m| &**m).collect::<Vec<_>>().join(" > ");
    let mut table = Table::new(&COLUMNS);
    for k in c.kernels.iter().take(MOST_KERNELS) {
        let time = k.dur_us_total / 1e3;
        let (intensity, efficiency, bound_type) = against(k, &peaks);
        table.row([
            Line::code(&k.op),
            cell("-"),
            if path.is_empty() { cell("-") } else { Line::code(&path) },
            Line::code(&k.name),
            cell(c.instance_count.to_string()),
            cell(ms(time)),
            cell(pct(100.0 * time / window)),
            cell(intensity.map_or_else(|| "-".to_owned(), |v| shown(v, 2))),
            cell(efficiency.map_or_else(|| "-".to_owned(), |v| shown(v, 2))),
            cell(bound(bound_type)),
        ]);
    }
    table
}

/// Operations per byte, percent of peak and what bounds a kernel, as far as its model tells.
fn against(kernel: &CandidateKernel, peaks: &Peaks) -> (Option<f64>, Option<f64>, Option<BoundType>) {
    let mb = kernel.data_in_mb.zip(kernel.data_out_mb).map(|(read, written)| read + written);
    let memory_us = mb.filter(|_| peaks.peak_hbm_bw_tbs > 0.0).map(|mb| mb / peaks.peak_hbm_bw_tbs);
    let peak =
        kernel.compute_spec.as_deref().and_then(|spec| peaks.max_achievable_tflops.get(spec)).filter(|p| **p > 0.0);
    // 10⁹ operations at 10¹² a second take a millisecond.
    let compute_us = kernel.gflops.zip(peak).map(|(gflops, peak)| 1e3 * gflops / peak);
    let intensity = kernel.gflops.zip(mb).filter(|(_, mb)| *mb > 0.0).map(|(gflops, mb)| 1e3 * gflops / mb);
    let bound = match (compute_us, memory_us) {
        (Some(compute), Some(memory)) if compute >= memory => Some(BoundType::Compute),
        (_, Some(_)) => Some(BoundType::Memory),
        (Some(_), None) => Some(BoundType::Compute),
        (None, None) => None,
    };
    let best = compute_us.into_iter().chain(memory_us).fold(0.0, f64::max);
    let known = best > 0.0 && kernel.dur_us_mean > 0.0;
    (intensity, known.then(|| 100.0 * best / kernel.dur_us_mean), bound)
}

fn reasoning(card: &FusionCard<'_>) -> String {
    let e = card.estimate;
    let now = format!("The separate kernels take {} ms", ms(e.time_ms));
    let fused = e.fused_time_ms.map_or_else(|| "no estimate".to_owned(), |ms_| format!("{} ms at best", ms(ms_)));
    let issue = card.told.map(|f| format!(" {}", f.issue)).unwrap_or_default();
    format!("{now}; one kernel over the same data takes {fused}.{issue}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn kernels_are_held_against_the_peaks() {
        let peaks = Peaks {
            peak_hbm_bw_tbs: 4.0,
            peak_bf16_maf_tflops: None,
            max_achievable_tflops: BTreeMap::from([("matrix_bf16".to_owned(), 500.0)]),
            peak_source: BTreeMap::new(),
        };
        let kernel = |gflops: f64, mb: f64, us: f64| CandidateKernel {
            name: "k".into(),
            kind: "gemm",
            op: "aten::bmm".into(),
            dur_us_mean: us,
            dur_us_total: us,
            eligible: true,
            data_in_mb: Some(mb / 2.0),
            data_out_mb: Some(mb / 2.0),
            gflops: Some(gflops),
            compute_spec: Some("matrix_bf16".into()),
            has_perf_data: true,
        };
        // 5 · 10⁹ operations take 10 us at 500 TFLOPS/s, 8 MB take 2 us at 4 TB/s.
        let (intensity, percent, bound) = against(&kernel(5.0, 8.0, 40.0), &peaks);
        assert_eq!((intensity, percent, bound), (Some(625.0), Some(25.0), Some(BoundType::Compute)));
        let (_, percent, bound) = against(&kernel(0.5, 80.0, 40.0), &peaks);
        assert_eq!((percent, bound), (Some(50.0), Some(BoundType::Memory)));
    }
}

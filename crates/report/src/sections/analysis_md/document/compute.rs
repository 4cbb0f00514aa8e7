//! Operations that fall short of the hardware: a card for each group, and what it rests on.

use jarvis_analyze::finding::Finding;
use jarvis_analyze::metrics::Kernels;
use jarvis_analyze::prepared::{Baseline, BoundType, Prepared};
use jarvis_analyze::rounding::shown;
use jarvis_analyze::texts::TextId;

use super::{all_steps, as_before, compute_anchor, detail_head, end, ends, first_steps, labelled, mark, name, see};
use crate::Run;
use crate::blocks::{Block, Line, Table};
use crate::sections::analysis_md::groups::{Group, LEAST_IMPACT, efficiency};
use crate::sections::analysis_md::plan::{ComputeCard, Plan};
use crate::sections::analysis_md::score::Score;
use crate::sections::cross::Marks;
use crate::sections::fair::is_made_up;
use crate::sections::words::{bound, cell, counted, figure, icon, ms, pct, saves, sentence, shapes};

/// What a table of details begins with, here and for fusions.
pub(crate) const COLUMNS: [&str; 10] = [
    "Operation",
    "Args",
    "Kernel Path",
    "Kernel Name",
    ">Count",
    ">Time (ms)",
    ">% of Total",
    ">FLOPS/Byte",
    ">Efficiency (%)",
    "Bound Type",
];

/// Most rows of a table; the machine form has all.
const MOST_ROWS: usize = 8;

/// A finding that speaks of less than this of a group, in percent of its time, is told as one of a part.
const MOST_OF_IT: f64 = 90.0;

/// The cards.
pub(crate) fn cards(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "Compute Kernel Optimizations")];
    if plan.compute.is_empty() {
        blocks.push(Block::paragraph(format!(
            "No compute kernel issue was detected: no group of operations could bring more than {LEAST_IMPACT}% of the \
             window."
        )));
        return blocks;
    }
    blocks.push(Block::paragraph(
        "Each card is a group of operations of one category that are bound by the same, run on kernels of the same kind \
         and reach as much of their peak. Its impact is what closing 75 to 100% of the gap to peak would bring; a card \
         without a recommendation behind it is a bound and no advice. Cards overlap with fusions and must not be added up.",
    ));
    let leading = leading(plan);
    for (card, rank) in plan.compute.iter().zip(1..) {
        blocks.extend(one(run, card, rank, &leading[..rank - 1]));
    }
    blocks
}

/// The rank of the finding that speaks of most of each card; zero where none does.
fn leading(plan: &Plan<'_>) -> Vec<usize> {
    plan.compute.iter().map(|card| card.told.first().map_or(0, |(finding, _)| finding.rank)).collect()
}

fn one(run: &Run<'_>, card: &ComputeCard<'_>, rank: usize, earlier: &[usize]) -> Vec<Block> {
    let told_in: Vec<&Finding> = card.told.iter().map(|(finding, _)| *finding).collect();
    let score = card.score();
    let category = &card.group.category.key;
    let numbers = format!("low={} mid={} high={}", shown(score.low, 4), shown(score.mid, 4), shown(score.high, 4));
    vec![
        Block::Heading(3, heading(card, rank, &format!("{} ", icon(card.priority())))),
        Block::Labels(vec![
            ("Insight".to_owned(), insight(&card.group)),
            ("Action".to_owned(), action(run, card, earlier).into()),
        ]),
        mark(format!("impact-begin kind=p_item category={category} {numbers}")),
        labelled("Impact", impact(run, card)),
        end(),
        Block::Paragraph(see(rank, &compute_anchor(rank), &told_in)),
    ]
}

/// Number, category, operations, and what they are grouped by.
fn heading(card: &ComputeCard<'_>, rank: usize, before: &str) -> Line {
    let group = &card.group;
    let kind = match (group.bound, group.band.percent()) {
        (Some(_), Some(band)) => format!(", {} at {band}% of peak", bound(group.bound)),
        (None, Some(band)) => format!(", at {band}% of peak"),
        _ => ", without a performance model".to_owned(),
    };
    let line = operations(Line::prose(&format!("{before}P{rank}: {}: ", group.category.display)), group);
    let line = line.and_prose(&kind);
    // What tells it from another group of the same operation.
    group.library.map_or(line.clone(), |library| line.and_prose(", kernels ").and_code(library))
}

/// The operation with most time, and how many others there are.
fn operations(line: Line, group: &Group<'_>) -> Line {
    let names = group.operations();
    let line = line.and_code(names.first().copied().unwrap_or("-"));
    match names.len() {
        0 | 1 => line,
        n => line.and_prose(&format!(" and {}", counted(n - 1, "more operation"))),
    }
}

fn insight(group: &Group<'_>) -> Line {
    let reached = match (group.bound, group.efficiency()) {
        (Some(_), Some(e)) => format!(", {} at {}% of peak", bound(group.bound), pct(e)),
        (None, Some(e)) => format!(", at {}% of peak", pct(e)),
        (_, None) => ", with an efficiency that is not known".to_owned(),
    };
    operations(Line::new(), group).and_prose(&format!(
        ": {} ms in {}, {}% of the window{reached}.",
        ms(group.time_ms),
        counted(group.calls(), "call"),
        pct(group.percent_of_total)
    ))
}

/// What to do, as the findings have it.
fn action(run: &Run<'_>, card: &ComputeCard<'_>, earlier: &[usize]) -> String {
    if let Some((finding, percent)) = card.told.first() {
        let steps = as_before(finding, earlier).unwrap_or_else(|| first_steps(finding));
        return format!("{}{steps}", part(*percent));
    }
    steps_of_bottleneck(card).unwrap_or_else(|| nothing_to_do(run, card))
}

/// Of how much of a group a finding speaks, where it is not all.
fn part(percent: f64) -> String {
    if percent < MOST_OF_IT { format!("For {}% of this time: ", pct(percent)) } else { String::new() }
}

/// What the analyzer of the category says of a bottleneck that became no finding.
fn steps_of_bottleneck(card: &ComputeCard<'_>) -> Option<String> {
    let b = card.bottleneck.filter(|_| card.is_modelled())?;
    let all = |path: &[jarvis_analyze::metrics::Sentence]| match path {
        [] => "None.".to_owned(),
        path => path.iter().map(|s| s.text.as_str()).collect::<Vec<_>>().join(" "),
    };
    Some(format!("Path A: {} Path B: {}", all(&b.algorithmic), all(&b.kernel)))
}

/// Why no change is named.
fn nothing_to_do(run: &Run<'_>, card: &ComputeCard<'_>) -> String {
    let Some(largest) = card.group.members.first() else { return "None.".to_owned() };
    if is_made_up(&largest.row.name) {
        "No change can be named: these kernels belong to no recorded operation, so nothing tells how much they have to do."
            .to_owned()
    } else if !card.is_modelled() {
        "No change can be named without a performance model; one of your own (`--extension`) would tell how far these \
         operations are from the peak."
            .to_owned()
    } else if card.is_kernel_floor() {
        "Launch fewer or larger kernels; these take little longer than kernels with next to nothing to do, so faster \
         ones hardly save time."
            .to_owned()
    } else {
        let name = largest.row.name.replace('`', "'");
        format!("No change is asked for (`{name}` is marked: {}).", Marks::of(run).of_row(largest.row))
    }
}

/// The score as a sentence, and what the findings that speak of the group expect.
fn impact(run: &Run<'_>, card: &ComputeCard<'_>) -> String {
    let window = run.analysis.prepared.utilization.total_time_ms;
    let score = card.score();
    let how = if card.is_modelled() {
        "if 75 to 100% of the gap to peak is closed"
    } else {
        "by a rule of thumb for operations without a performance model (15 to 45% of their time), not by a measurement"
    };
    let mut text = format!("{} {how}", shares(score, window));
    if let Some((finding, _)) = card.told.first() {
        text += &format!("; {} as a whole saves {}", name(finding), saves(run.analysis, finding));
    }
    sentence(&text)
}

/// `2.96 to 3.94% of the window (1.48 to 1.97 ms)`.
fn shares(score: Score, window_ms: f64) -> String {
    let saved = score.ms(window_ms);
    format!(
        "{} to {}% of the window ({} to {} ms)",
        shown(score.low, 2),
        shown(score.high, 2),
        ms(saved.low),
        ms(saved.high)
    )
}

/// What the cards rest on.
pub(crate) fn details(run: &Run<'_>, plan: &Plan<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let leading = leading(plan);
    for (card, rank) in plan.compute.iter().zip(1..) {
        if rank == 1 {
            blocks.push(Block::heading(3, "Compute Kernels"));
        }
        blocks.extend(detail_head(compute_anchor(rank), heading(card, rank, ""), "compute", rank));
        blocks.push(labelled("Identification", identification(&card.group)));
        blocks.extend(data(run, &card.group));
        blocks.push(labelled("Reasoning for Slowdown", reasoning(run, card)));
        blocks.extend(resolution(run, card, &leading[..rank - 1]));
        blocks.extend(estimate(run, card));
    }
    blocks
}

fn identification(group: &Group<'_>) -> Line {
    let kernels = group.library.map_or_else(
        || Line::prose(" on kernels of no known library"),
        |library| Line::prose(" on kernels of kind ").and_code(library),
    );
    let rows = counted(group.members.len(), "row");
    let mut line = Line::prose(&format!("{rows} of {}", counted(group.operations().len(), "operation")));
    line.0.extend(kernels.0);
    let band = group.band.percent().map_or_else(
        || ", no efficiency known".to_owned(),
        |band| format!(", each at {band}% of peak and {}", bound(group.bound)),
    );
    line.and_prose(&format!("{band} (category {}).", group.category.display))
}

fn data(run: &Run<'_>, group: &Group<'_>) -> Vec<Block> {
    let p = &run.analysis.prepared;
    let mut table = Table::new(&COLUMNS);
    for member in group.members.iter().take(MOST_ROWS) {
        let row = member.row;
        let number = |value: Option<f64>, decimals: usize| value.map_or_else(|| "-".to_owned(), |v| shown(v, decimals));
        let kernel = Kernels::of(p, row).iter().next().map_or_else(|| cell("-"), |k| Line::code(k.name));
        let known = efficiency(row).filter(|_| group.band.percent().is_some());
        table.row([
            Line::code(&row.name),
            Line::code(&shapes(&row.args)),
            Line::code(&row.launcher_path),
            kernel,
            cell(row.count.to_string()),
            cell(ms(row.time_ms)),
            cell(pct(row.percent_of_total)),
            cell(number(row.efficiency.flops_per_byte, 2)),
            cell(number(known, 2)),
            cell(bound(group.bound)),
        ]);
    }
    let left = group.members.len().saturating_sub(MOST_ROWS);
    let more = if left > 0 { format!(" {} in `priority_data.json`.", verb(left)) } else { String::new() };
    vec![
        labelled("Data", format!("rows with most time first, efficiencies as means over calls.{more}")),
        Block::Table(table),
    ]
}

/// `3 more rows stand`.
fn verb(rows: usize) -> String {
    format!("{} {}", counted(rows, "more row"), if rows == 1 { "stands" } else { "stand" })
}

/// What the numbers show; never why in the silicon.
fn reasoning(run: &Run<'_>, card: &ComputeCard<'_>) -> String {
    let (p, group) = (&run.analysis.prepared, &card.group);
    let Some(largest) = group.members.first() else { return "not known.".to_owned() };
    if !card.is_modelled() {
        let row = largest.row;
        let (time, share) = (ms(row.compute_ms()), pct(row.percent_of_compute));
        return TextId::I_UNMODELED.fill(&[("op", &row.name), ("time", &time), ("pct", &share)]);
    }
    let mut said = vec![card.bottleneck.map_or_else(|| reached(p, card), |b| sentence(&b.brief))];
    if let Some((low, high)) = largest.judged.expected {
        let name = largest.row.name.replace('`', "'");
        said.push(format!("{} to {}% of peak is expected of `{name}`.", figure(low), figure(high)));
    }
    let is_told = card.bottleneck.is_some_and(|b| b.brief.contains("simple elementwise operations"));
    if group.bound == Some(BoundType::Memory) && p.baseline.source == Baseline::MEASURED && !is_told {
        let reached = pct(p.baseline.efficiency_percent);
        said.push(format!("Simple elementwise operations of this trace reach {reached}% of peak bandwidth."));
    }
    if card.is_kernel_floor() {
        let floor = shown(p.kernel_floor_us, 1);
        said.push(format!(
            "Kernels with next to nothing to do take {floor} us in this trace, and these little longer."
        ));
    }
    said.join(" ")
}

/// What the operation with most time reaches of what the hardware can.
fn reached(p: &Prepared, card: &ComputeCard<'_>) -> String {
    let Some(row) = card.group.members.first().map(|m| m.row) else { return String::new() };
    let (name, e) = (row.name.replace('`', "'"), &row.efficiency);
    match (card.group.bound, e.tflops_achieved, e.tb_s_achieved) {
        (Some(BoundType::Compute), Some(rate), _) => {
            let peak = e.resolved_peak_maf.map_or_else(|| "-".to_owned(), figure);
            format!("`{name}` computes {} of {peak} TFLOPS/s.", shown(rate, 1))
        }
        (_, _, Some(rate)) => format!("`{name}` moves {} of {} TB/s.", shown(rate, 2), figure(p.peak_hbm_tbs())),
        _ => format!("`{name}` takes longer than its performance model says."),
    }
}

/// What to do about each part of it.
fn resolution(run: &Run<'_>, card: &ComputeCard<'_>, earlier: &[usize]) -> Vec<Block> {
    const LABEL: &str = "Resolution";
    let told = card.told.iter().map(|(finding, percent)| {
        let steps = as_before(finding, earlier).unwrap_or_else(|| all_steps(finding));
        sentence(&format!("{} ({}% of this time): {steps}", name(finding), pct(*percent)))
    });
    let mut told: Vec<String> = told.collect();
    match told.len() {
        0 => {
            let steps = steps_of_bottleneck(card).unwrap_or_else(|| nothing_to_do(run, card));
            vec![labelled(LABEL, steps)]
        }
        1 => vec![labelled(LABEL, told.remove(0))],
        _ => vec![labelled(LABEL, "one change for each part."), Block::list(told)],
    }
}

/// What all of it could bring; without a model a trace does not tell.
fn estimate(run: &Run<'_>, card: &ComputeCard<'_>) -> Vec<Block> {
    const LABEL: &str = "Impact estimate";
    let window = run.analysis.prepared.utilization.total_time_ms;
    let score = card.score();
    if !card.is_modelled() {
        let text = format!("not quantifiable from trace data; the rule of thumb gives {}.", shares(score, window));
        return vec![labelled(LABEL, text)];
    }
    let text = format!("{}, between three quarters and all of the gap to peak.", shares(score, window));
    vec![mark(format!("impact-begin kind=detail_estimate {}", ends(score))), labelled(LABEL, text), end()]
}

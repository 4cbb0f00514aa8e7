//! The executive summary of a comparison: one paragraph, one table, at most six findings.

use jarvis_analyze::comparative::{Both, Change, ChangeKind, Compared, Gap, GapSource, Mode, TotalOf, Verdict};
use jarvis_trace::InOrder;

use super::{calls, delta, expected_delta, platforms, title_of};
use crate::Versus;
use crate::blocks::{Block, Line, Table};
use crate::sections::capture;
use crate::sections::words::{PARAGRAPH_WORDS, cell, count_words, ms, pct, sentence, shapes};

/// Most findings.
const MOST_FINDINGS: usize = 6;

/// Most of them that are gaps because of what they save.
const MOST_GAPS: usize = MOST_FINDINGS - 2;

/// A slowdown above this is always told, in percent.
const LARGE_PERCENT: f64 = 100.0;

/// Said of what the hardware suggests where the sides compute in different types.
const OF_TYPES: &str = " for the types of each side";

/// Most warnings of the target; its findings have all.
const MOST_WARNINGS: usize = 6;

/// The part.
pub(super) fn blocks(v: &Versus<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(2, "Executive Summary")];
    blocks.extend(losses(v));
    blocks.extend([
        Block::paragraph(paragraph(v)),
        Block::Table(metrics(v)),
        Block::heading(3, "Key Findings"),
        Block::List { ordered: true, items: findings(v).into_iter().map(|l| (None, l)).collect() },
    ]);
    blocks
}

/// What is missing from the recordings: said first, because all numbers are of what is left.
pub(super) fn losses(v: &Versus<'_>) -> Option<Block> {
    let losses = &v.comparative.losses;
    (!losses.is_empty()).then(|| Block::list(losses.iter().map(|loss| Line::from(sentence(loss)))))
}

fn paragraph(v: &Versus<'_>) -> String {
    let c = v.comparative;
    let compute = Both::of(c.totals.as_ref(), |t| t.computation_ms);
    let [reference, target] = platforms(v);
    let same = c.sameness().map_or(String::new(), |said| said + " ");
    let compared = format!(
        "Target platform compute time is {} ms ({}). This suggests {}.",
        ms(compute.target),
        if c.normalization.mode == Mode::PerCall {
            format!("reference {} ms, which is not comparable", ms(compute.reference))
        } else {
            format!("{} different from reference", delta(compute.delta_percent()))
        },
        c.dominant.words(),
    );
    let unit = format!(" Times are {}; reference {reference}, target {target}.", c.normalization.unit());
    // As much of it as there is room for.
    let all = [format!("{same}{compared}{unit}"), format!("{same}{compared}"), format!("{compared}{unit}")];
    all.into_iter().find(|text| count_words(text) <= PARAGRAPH_WORDS).unwrap_or(compared)
}

fn metrics(v: &Versus<'_>) -> Table {
    let c = v.comparative;
    let mut table = Table::new(&["Metric", ">Reference", ">Target", ">Δ"]);
    let rows: [(&str, TotalOf); 5] = [
        ("Total GPU Time", |t| t.total_ms),
        ("Total Compute", |t| t.computation_ms),
        ("Memory Copy", |t| t.copy_ms),
        ("Communication", |t| t.comm_ms),
        ("Idle", |t| t.idle_ms),
    ];
    for (name, of) in rows {
        let time = Both::of(c.totals.as_ref(), of);
        if name == "Communication" && time == Both::default() {
            continue;
        }
        let text = |time: f64| cell(format!("{} ms", ms(time)));
        let percent = time.delta_percent().filter(|_| c.uncomparable.is_none());
        table.row([cell(name), text(time.reference), text(time.target), cell(delta(percent))]);
    }
    let matched = Both::of(c.coverage_percent, |p| cell(format!("{}%", pct(p))));
    table.row([cell("Matched time"), matched.reference, matched.target, cell("-")]);
    // Without steps, times are divided by one, which is no number of steps.
    let is_known = c.normalization.mode == Mode::PerStep;
    let steps = Both::of(c.normalization.steps, |n| cell(if is_known { calls(f64::from(n)) } else { "-".to_owned() }));
    table.row([cell("Steps"), steps.reference, steps.target, cell("-")]);
    table
}

/// Gaps first, then all other large slowdowns, then what else makes the times differ.
fn findings(v: &Versus<'_>) -> Vec<Line> {
    let c = v.comparative;
    let mut lines: Vec<Line> = c.gaps.iter().take(MOST_GAPS).map(|g| gap(v, g)).collect();
    let large = large_slowdowns(v);
    let alone = large.len().min(MOST_FINDINGS - lines.len());
    // The last line has room for many.
    let alone = if alone < large.len() { alone - 1 } else { alone };
    lines.extend(large[..alone].iter().map(|slow| Line::prose(&slow.sentence)));
    if !large[alone..].is_empty() {
        let rest: Vec<String> = large[alone..].iter().map(|slow| format!("{} ({})", slow.title, slow.delta)).collect();
        lines.push(Line::prose(&format!("More than {LARGE_PERCENT}% slower on target too: {}.", rest.join(", "))));
    }
    let is_new = |change: &&Change| match change.kind {
        ChangeKind::Idle => !has_gap(v, GapSource::Idle),
        ChangeKind::Overlap => !has_gap(v, GapSource::Overlap),
        ChangeKind::Unmatched => !has_gap(v, GapSource::Unmatched),
        ChangeKind::Copies => !has_gap(v, GapSource::Copies),
        ChangeKind::Communication => !has_gap(v, GapSource::Communication),
        _ => !is_told(v, change, &large),
    };
    let room = MOST_FINDINGS - lines.len();
    lines.extend(c.large_changes().filter(is_new).take(room).map(|change| self::change(v, change)));
    if lines.is_empty() {
        let which = if c.uncomparable.is_some() { "No difference that can be compared" } else { "No difference" };
        lines.push(format!("{which} is larger than 1% of the reference's time.").into());
    }
    lines
}

/// Whether gaps and slowdowns tell of nearly all operations that a change is made of.
fn is_told(v: &Versus<'_>, change: &Change, large: &[Slowdown]) -> bool {
    const NEARLY_ALL: f64 = 0.9;
    let c = v.comparative;
    let told = |at: &&usize| {
        c.gaps.iter().take(MOST_GAPS).any(|g| g.operations.contains(at)) || large.iter().any(|slow| slow.at == **at)
    };
    let size = |at: &usize| c.operations.get(*at).map_or(0.0, |o| o.ms.delta().abs());
    let all: f64 = change.operations.iter().map(size).sum();
    all > 0.0 && change.operations.iter().filter(told).map(size).sum::<f64>() >= NEARLY_ALL * all
}

fn has_gap(v: &Versus<'_>, source: GapSource) -> bool {
    v.comparative.gaps.iter().take(MOST_GAPS).any(|g| g.source == source)
}

/// Something that takes the target more than twice as long.
struct Slowdown {
    /// Position of the operation.
    at: usize,
    title: String,
    delta: String,
    sentence: String,
}

/// Those that the first gaps do not tell of, in the order of the others.
fn large_slowdowns(v: &Versus<'_>) -> Vec<Slowdown> {
    let c = v.comparative;
    let rank = |at: usize| c.gaps.iter().find(|g| g.operations.contains(&at)).map_or(usize::MAX, |g| g.rank);
    let is_own = |(at, o): &(usize, &Compared)| is_large(o) && rank(*at) > MOST_GAPS;
    let mut large: Vec<(usize, &Compared)> = c.operations.iter().enumerate().filter(is_own).collect();
    large.order_by(|a, b| rank(a.0).cmp(&rank(b.0)));
    let one = |(at, o): (usize, &Compared)| {
        let title = title_of(o);
        let delta = delta(o.ms.delta_percent());
        let expected = expected_delta(o.expected);
        let sentence = format!("{title}: {delta} on target, expected {expected} from hardware{}.", end(o));
        Slowdown { at, title, delta, sentence }
    };
    large.into_iter().map(one).collect()
}

/// Whether an operation takes the target more than twice as long and has a share.
fn is_large(o: &Compared) -> bool {
    o.is_notable() && o.ms.delta_percent().is_some_and(|percent| percent > LARGE_PERCENT)
}

/// What a slowdown comes to.
fn end(o: &Compared) -> &'static str {
    match o.verdict {
        Some(Verdict::HardwareFaster | Verdict::HardwareSlower) if o.precision.is_some() => OF_TYPES,
        Some(Verdict::Precision) => OF_TYPES,
        Some(Verdict::HardwareFaster | Verdict::HardwareSlower) => " - not a bug",
        Some(Verdict::UnexpectedFast) => " - less than that",
        Some(Verdict::UnexpectedSlow | Verdict::KernelIssue) | None => " - investigate",
    }
}

fn gap(v: &Versus<'_>, g: &Gap) -> Line {
    if g.source == GapSource::Overlap {
        let time = ms(g.ms.target);
        return Line::prose(&format!(
            "{}: {time} ms of kernels run beside others in the reference and one after the other on target - \
             investigate.",
            g.title
        ));
    }
    if matches!(g.source, GapSource::Copies | GapSource::Communication) {
        let time = Both::of(g.ms, ms);
        return Line::prose(&format!("{}: {} to {} ms - investigate.", g.title, time.reference, time.target));
    }
    if g.source == GapSource::Unmatched {
        // The change names the operations.
        let change = v.comparative.changes.iter().find(|c| c.kind == ChangeKind::Unmatched);
        let (what, time) = (change.map_or(&g.title, |c| &c.what), Both::of(g.ms, ms));
        return Line::prose(&format!("{what}: {} to {} ms - investigate.", time.reference, time.target));
    }
    let expected = match (g.expected, &g.precision) {
        (Some(_), Some(types)) => format!(
            " in `{}` instead of `{}`, expected {} from hardware{OF_TYPES}.",
            types.target,
            types.reference,
            expected_delta(g.expected)
        ),
        (Some(_), None) => format!(", expected {} from hardware - investigate.", expected_delta(g.expected)),
        (None, _) => " - investigate.".to_owned(),
    };
    let mut text = format!("{}: {} on target{expected}", g.title, delta(g.ms.delta_percent()));
    if let GapSource::Cause(_) = g.source {
        let members = g.operations.iter().filter_map(|&at| v.comparative.operations.get(at));
        let large: Vec<String> = members
            .filter(|o| is_large(o))
            .map(|o| format!("{} ({})", title_of(o), delta(o.ms.delta_percent())))
            .collect();
        if !large.is_empty() {
            text += &format!(" More than {LARGE_PERCENT}% slower: {}.", large.join(", "));
        }
    }
    Line::prose(&text)
}

/// A change with what it brought.
pub(super) fn change(v: &Versus<'_>, c: &Change) -> Line {
    let total = Both::of(v.comparative.totals.as_ref(), |t| t.total_ms);
    let share = if total.reference > 0.0 { 100.0 * c.ms.delta() / total.reference } else { 0.0 };
    let [reference, target] = platforms(v);
    let differ = reference != target;
    let explained = Some("the hardware explains it").filter(|_| v.comparative.is_explained(c) && differ);
    let why = explained.or_else(|| v.comparative.why_no_gap(c)).map_or(String::new(), |why| format!("; {why}"));
    Line::prose(&format!(
        "{}: {} to {} ms ({} of the reference's GPU time){why}.",
        c.what,
        ms(c.ms.reference),
        ms(c.ms.target),
        delta(Some(share)),
    ))
}

/// What a reader should know before believing the numbers.
pub(super) fn warnings(v: &Versus<'_>) -> Vec<Block> {
    let run = &v.target;
    let is_new = |w: &&String| !v.comparative.losses.contains(w) && !run.analysis.prepared.losses.contains(w);
    let mut items: Vec<Line> = v.comparative.warnings.iter().filter(is_new).map(|w| Line::from(sentence(w))).collect();
    let failed = run.analysis.failures().map(|o| Line::from(format!("{} could not be analysed.", o.display)));
    items.extend(failed);
    let told = run.analysis.warnings.iter().filter(is_new).filter(|w| !capture::is_about_capture(run, w));
    let more = told.clone().count().saturating_sub(MOST_WARNINGS);
    items.extend(told.take(MOST_WARNINGS).map(|w| Line::from(format!("Of the target: {}", sentence(&shapes(w))))));
    if more > 0 {
        items.push(Line::prose(&format!("{more} more in ")).and_code("findings.json").and_prose("."));
    }
    if items.is_empty() {
        return Vec::new();
    }
    vec![Block::heading(2, "Warnings"), Block::list(items)]
}

//! The detailed comparison: a section for each gap, tables for all other differences, each told once.

use jarvis_analyze::comparative::{Both, Change, Compared, Gap, GapSource, Part, Verdict, WORTH_PERCENT};
use jarvis_analyze::prepared::Prepared;
use jarvis_analyze::rounding::shown;

use super::recommendations::{MOST, anchor, is_plain};
use super::{args, calls, delta, expected_delta, expected_ratio, slower};
use crate::Versus;
use crate::blocks::{Block, Line, Table};
use crate::sections::idle::short;
use crate::sections::words::{bound, cell, ms, pct, sentence, shapes};

/// Most rows of a table that has small ones too; `comparison_metrics.json` has all.
const MOST_ROWS: usize = 15;

/// Most further actions of a gap.
const MOST_ACTIONS: usize = 3;

/// Where the rest stands.
const REST: &str = "category_data/comparison_metrics.json";

/// Operations that differ, in the words of a heading.
type Kind = (&'static str, fn(&Compared) -> bool);

/// The part.
pub(super) fn blocks(v: &Versus<'_>) -> Vec<Block> {
    let c = v.comparative;
    let mut sections: Vec<(Option<String>, String, Vec<Block>)> = Vec::new();
    let told = &c.gaps[..c.gaps.len().min(MOST)];
    for gap in told {
        match gap.source {
            GapSource::Operation(at) => sections.extend(c.operations.get(at).map(|o| {
                let title = format!(
                    "{} {}",
                    match () {
                        () if o.place.is_some() => gap.title.clone(),
                        () if is_plain(&o.name) => o.name.clone(),
                        () => code(&o.name),
                    },
                    code(&args(o))
                );
                (Some(anchor(gap)), title, entry(v, gap, o))
            })),
            GapSource::Cause(_) => sections.push((Some(anchor(gap)), gap.title.clone(), cause(v, gap))),
            GapSource::Idle => sections.push((Some(anchor(gap)), "GPU Idle Time".to_owned(), aside(gap, &IDLE))),
            GapSource::Copies => {
                sections.push((Some(anchor(gap)), "Exposed Memory Copies".to_owned(), aside(gap, &COPIES)));
            }
            GapSource::Communication => {
                sections.push((Some(anchor(gap)), "Exposed Communication".to_owned(), aside(gap, &COMMUNICATION)));
            }
            GapSource::Overlap => {
                sections.push((Some(anchor(gap)), "Overlap of Kernels".to_owned(), overlap(v, gap)));
            }
            GapSource::Unmatched => {}
        }
    }
    let is_precision = |o: &Compared| o.verdict == Some(Verdict::Precision);
    let kinds: [Kind; 6] = [
        ("Further operations that are slower than the hardware suggests", |o| {
            o.verdict.is_some_and(|verdict| verdict.is_slow() && verdict != Verdict::Precision)
        }),
        ("Further operations in another precision", is_precision),
        ("Faster than the hardware suggests", |o| o.verdict == Some(Verdict::UnexpectedFast)),
        ("Differences that the types of each side explain", |o| {
            o.verdict.is_some_and(Verdict::is_expected) && o.precision.is_some()
        }),
        ("Hardware-explained differences", |o| {
            o.verdict.is_some_and(Verdict::is_expected) && o.precision.is_none() && !o.is_within_tolerance()
        }),
        ("Differences within the tolerance of what the hardware suggests", Compared::is_within_tolerance),
    ];
    let in_gap = |o: &Compared| told.iter().flat_map(|g| &g.operations).any(|&at| c.operations.get(at) == Some(o));
    for (title, is_kind) in kinds {
        let rows: Vec<&Compared> = c.notable().filter(|o| is_kind(o) && !in_gap(o)).collect();
        if !rows.is_empty() {
            sections.push((None, title.to_owned(), differences(&rows)));
        }
    }
    if !c.left.reference.is_empty() || !c.left.target.is_empty() {
        let title = "Operations without a counterpart".to_owned();
        sections.push((Some("cmp-unmatched".to_owned()), title, unmatched(v)));
    }
    if !c.same_kernels.is_empty() {
        sections.push((None, "Kernels by name".to_owned(), same_kernels(v)));
    }
    sections.push((None, "Where the time differs".to_owned(), vec![Block::Table(changes(v))]));
    let mut blocks = vec![Block::heading(2, "Detailed Comparison")];
    for (i, (anchor, title, body)) in sections.into_iter().enumerate() {
        blocks.extend(anchor.map(Block::Anchor));
        blocks.push(Block::heading(3, format!("{}. {}", i + 1, title.trim_end())));
        blocks.extend(body);
    }
    blocks
}

fn code(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// What is known of one gap.
fn entry(v: &Versus<'_>, gap: &Gap, o: &Compared) -> Vec<Block> {
    let mut table = Table::new(&["Metric", "Reference", "Target", ">Δ", "Expected?"]);
    let expected = if is_explained(o) { "Yes" } else { "No" };
    let time = Both::of(o.ms, |t| cell(format!("{} ms", ms(t))));
    table.row([cell("Time"), time.reference, time.target, cell(delta(o.ms.delta_percent())), cell(expected)]);
    let mut row = |name: &str, values: Both<Line>| {
        table.row([cell(name), values.reference, values.target, cell("-"), cell("-")]);
    };
    row("Calls", Both::of(o.calls, |n| cell(calls(n))));
    row("Kernels", Both::of(o.launched, |n| cell(calls(n))));
    if o.efficiency_percent != Both::default() {
        row("Efficiency", Both::of(o.efficiency_percent, |e| cell(e.map_or("-".to_owned(), |e| pct(e) + "%"))));
    }
    row(
        "Kernel",
        Both {
            reference: kernel(&v.reference.analysis.prepared, o, true),
            target: kernel(&v.target.analysis.prepared, o, false),
        },
    );
    if o.operations.reference != o.operations.target {
        row("Operations", Both::of(o.operations.as_ref(), |names| Line::code(&names.join(", "))));
    }
    let bound = if o.bound.is_some() { format!(", {}", bound(o.bound)) } else { String::new() };
    let ratio = o.ms.ratio().map_or("-".to_owned(), |r| shown(r, 3));
    let is_precision = o.verdict == Some(Verdict::Precision);
    let answer = if is_explained(o) { "YES" } else { "NO" };
    let in_types = if is_precision { " for the types of each side" } else { "" };
    let question = if is_precision {
        "decide whether accuracy allows the types of the reference"
    } else {
        "investigate if there is a kernel issue or fundamental hardware difference"
    };
    let name = format!("`{}`", o.name);
    let mut facts = vec![
        (
            "Expected based on hardware?",
            format!(
                "{answer} - the ratio is {ratio}, the hardware suggests {}{in_types}{bound}.",
                expected_ratio(o.expected)
            ),
        ),
        ("Verdict", format!("{}. {}", verdict(o), o.explanation().map_or("", |e| e.text))),
        ("INVESTIGATE", format!("Operation {name} is {} on target - {question}.", slower(o.ms.delta_percent()))),
        ("ACTION", further(gap)),
        (
            "Basis",
            format!(
                "{} ms less {} ms times {} gives {} ms{}{}.",
                ms(o.ms.target),
                ms(o.ms.reference),
                o.goal.map_or("-".to_owned(), |goal| shown(goal, 3)),
                ms(o.saved_ms),
                if is_capped(o) { ", all that is above the roofline" } else { "" },
                o.uid.map(|uid| format!("; `jarvis tree` opens uid {uid} of the target")).unwrap_or_default()
            ),
        ),
    ];
    facts.extend(replay(v, gap));
    vec![Block::Table(table), Block::facts(facts)]
}

/// Several operations that one change explains, each with its numbers.
fn cause(v: &Versus<'_>, gap: &Gap) -> Vec<Block> {
    let members: Vec<&Compared> = gap.operations.iter().filter_map(|&at| v.comparative.operations.get(at)).collect();
    let mut blocks = differences(&members);
    let mut facts = vec![
        (
            "Expected based on hardware?",
            format!(
                "NO - the ratio is {}, the hardware suggests {}.",
                gap.ms.ratio().map_or("-".to_owned(), |r| shown(r, 3)),
                expected_ratio(gap.expected)
            ),
        ),
        ("ACTION", further(gap)),
        (
            "Basis",
            format!(
                "{} ms less {} ms times the ratio that the hardware suggests of each gives {} ms.",
                ms(gap.ms.target),
                ms(gap.ms.reference),
                ms(gap.saved_ms)
            ),
        ),
    ];
    facts.extend(replay(v, gap));
    blocks.push(Block::facts(facts));
    blocks
}

/// The packages of a gap.
fn replay(v: &Versus<'_>, gap: &Gap) -> Option<(&'static str, String)> {
    let own = v.target.replay.iter().filter(|r| gap.replay.contains(&r.op));
    let paths: Vec<String> = own.map(|r| format!("`{}`", r.path)).collect();
    (!paths.is_empty()).then(|| ("Replay", paths.join(", ")))
}

/// Kernels that both sides run, the largest differences first, and the sum of all.
fn same_kernels(v: &Versus<'_>) -> Vec<Block> {
    let mut table =
        Table::new(&["Kernel", ">Runs (reference)", ">Runs (target)", ">Reference (ms)", ">Target (ms)", ">Δ"]);
    let all = &v.comparative.same_kernels;
    for k in all.iter().take(MOST_ROWS) {
        table.row([
            Line::code(&short(&k.name)),
            cell(calls(k.runs.reference)),
            cell(calls(k.runs.target)),
            cell(ms(k.ms.reference)),
            cell(ms(k.ms.target)),
            cell(delta(k.ms.delta_percent())),
        ]);
    }
    let sum = v.comparative.same_kernels_ms();
    let time = Both::of(sum, |t| cell(ms(t)));
    let name = format!("All {} of the same name", all.len());
    table.row([cell(name), cell("-"), cell("-"), time.reference, time.target, cell(delta(sum.delta_percent()))]);
    let mut blocks = vec![Block::Table(table)];
    if all.len() > MOST_ROWS {
        blocks.push(more(all.len() - MOST_ROWS));
    }
    blocks
}

/// What to do besides what the recommendation says; what concerns other operations stands with those.
fn further(gap: &Gap) -> String {
    let is_own = |s: &&String| !s.starts_with('`') || s.starts_with(&format!("`{}`", gap.name));
    let rest = gap.paths.algorithmic.iter().skip(1).chain(gap.paths.kernel.iter().skip(1)).filter(is_own);
    let mut text = format!("Follow Priority {}.", gap.rank);
    for s in rest.take(MOST_ACTIONS) {
        text += &format!(" {}", sentence(s));
    }
    text
}

/// Whether the hardware explains the difference, for the types that each side computes in.
fn is_explained(o: &Compared) -> bool {
    o.verdict.is_some_and(|verdict| verdict.is_expected() || verdict == Verdict::Precision)
}

/// Whether the time that the hardware suggests is less than the best one.
fn is_capped(o: &Compared) -> bool {
    let uncapped = o.goal.map_or(0.0, |goal| o.ms.target - goal * o.ms.reference);
    ms(uncapped) != ms(o.saved_ms)
}

fn verdict(o: &Compared) -> String {
    o.verdict.map_or("no counterpart", Verdict::as_str).replace('_', " ")
}

/// The main kernel with the tile its name tells.
fn kernel(p: &Prepared, o: &Compared, is_reference: bool) -> Line {
    let (kernels, rows) =
        if is_reference { (&o.kernels.reference, &o.rows.reference) } else { (&o.kernels.target, &o.rows.target) };
    let Some(first) = kernels.first() else { return cell("-") };
    let tile = rows.iter().find_map(|&r| p.row(r).tile).filter(|_| rows.len() == 1);
    let tile = tile.map(|t| format!(" tile {}x{}{}", t.m, t.n, t.k.map(|k| format!("x{k}")).unwrap_or_default()));
    Line::code(&short(first)).and_prose(&tile.unwrap_or_default())
}

/// What is said of time in which nothing computes.
struct Aside {
    metric: &'static str,
    expected: &'static str,
    seen_in: &'static str,
}

const IDLE: Aside = Aside {
    metric: "Idle",
    expected: "NO - the host decides how long the GPU waits.",
    seen_in: "`system_findings/cpu_idle_findings.md`",
};

const COPIES: Aside = Aside {
    metric: "Copies that nothing overlaps",
    expected: "NO - the program decides what is copied, and what runs beside it.",
    seen_in: "`system_findings/multi_kernel_findings.md`",
};

const COMMUNICATION: Aside = Aside {
    metric: "Communication that nothing overlaps",
    expected: "NO - the program decides what runs beside it; one rank can't tell waiting from transfer.",
    seen_in: "`system_findings/multi_kernel_findings.md`",
};

fn aside(gap: &Gap, said: &Aside) -> Vec<Block> {
    let mut table = Table::new(&["Metric", ">Reference", ">Target", ">Δ", "Expected?"]);
    let time = Both::of(gap.ms, |t| cell(format!("{} ms", ms(t))));
    table.row([cell(said.metric), time.reference, time.target, cell(delta(gap.ms.delta_percent())), cell("No")]);
    vec![
        Block::Table(table),
        Block::facts([
            ("Expected based on hardware?", said.expected.to_owned()),
            ("ACTION", further(gap)),
            ("Seen in", said.seen_in.to_owned()),
        ]),
    ]
}

/// The kernels take as long, the GPU does not: what is left to tell is the time in which it computes.
fn overlap(v: &Versus<'_>, gap: &Gap) -> Vec<Block> {
    let mut table = Table::new(&["Metric", ">Reference", ">Target", ">Δ", "Expected?"]);
    let compute = Both::of(v.comparative.totals.as_ref(), |t| t.computation_ms);
    let time = Both::of(compute, |t| cell(format!("{} ms", ms(t))));
    table.row([cell("Compute"), time.reference, time.target, cell(delta(compute.delta_percent())), cell("No")]);
    vec![
        Block::Table(table),
        Block::facts([
            (
                "Expected based on hardware?",
                "NO - the program decides which kernels may run beside each other.".to_owned(),
            ),
            ("ACTION", further(gap)),
        ]),
    ]
}

/// Several operations in one table, all of them: each has a share that has to be told.
fn differences(rows: &[&Compared]) -> Vec<Block> {
    let mut table = Table::new(&[
        "Operation",
        "Shapes",
        ">Reference (ms)",
        ">Target (ms)",
        ">Δ",
        ">From hardware",
        "Expected?",
        "Explanation",
    ]);
    for o in rows {
        let expected = match () {
            () if o.is_within_tolerance() => "Within tolerance",
            () if is_explained(o) => "Yes",
            () => "No",
        };
        table.row([
            Line::code(&o.name),
            Line::code(&args(o)),
            cell(ms(o.ms.reference)),
            cell(ms(o.ms.target)),
            cell(delta(o.ms.delta_percent())),
            cell(expected_delta(o.expected)),
            cell(expected),
            cell(o.explanation().map_or("-", |e| e.text)),
        ]);
    }
    vec![Block::Table(table)]
}

fn more(count: usize) -> Block {
    Block::Paragraph(Line::prose(&format!("{count} more in ")).and_code(REST).and_prose("."))
}

fn unmatched(v: &Versus<'_>) -> Vec<Block> {
    let c = v.comparative;
    let mut table = Table::new(&["Side", "Operation", "Shapes", "Module", ">Calls", ">Time (ms)"]);
    let mut add = |side: &str, p: &Prepared, parts: &[Part]| {
        for part in parts {
            table.row([
                cell(side),
                Line::code(&short(&part.name)),
                Line::code(&part.row.map_or("-".to_owned(), |r| shapes(&p.row(r).args))),
                if part.place.modules.is_empty() { cell("-") } else { Line::code(&part.place.modules) },
                cell(calls(part.calls)),
                cell(ms(part.ms)),
            ]);
        }
    };
    let told = Both::of(c.left.as_ref().zip(c.compute_ms), |(parts, compute)| &parts[..told_apart(parts, compute)]);
    add("reference", &v.reference.analysis.prepared, told.reference);
    add("target", &v.target.analysis.prepared, told.target);
    let hidden = c.left.reference.len() + c.left.target.len() - told.reference.len() - told.target.len();
    let mut blocks = vec![Block::Table(table)];
    if hidden > 0 {
        blocks.push(more(hidden));
    }
    blocks
}

/// How many parts are told by themselves: some, and all that have a share of the compute of their side.
fn told_apart(parts: &[Part], compute_ms: f64) -> usize {
    let has_share = |part: &&Part| 100.0 * part.ms >= WORTH_PERCENT * compute_ms;
    parts.iter().take_while(has_share).count().max(parts.len().min(MOST_ROWS))
}

/// The parts that the difference of the total times is made of.
pub(super) fn changes(v: &Versus<'_>) -> Table {
    table_of(&v.comparative.changes, Both::of(v.comparative.totals.as_ref(), |t| t.total_ms))
}

/// The first changes, the sum of the rest, and the total: the table adds up.
fn table_of(changes: &[Change], total: Both<f64>) -> Table {
    let mut table = Table::new(&["What (operation, kernel)", ">Reference (ms)", ">Target (ms)", ">Difference (ms)"]);
    let mut row = |what: Line, t: Both<f64>| {
        table.row([what, cell(ms(t.reference)), cell(ms(t.target)), cell(ms(t.delta()))]);
    };
    let (told, rest) = changes.split_at(changes.len().min(MOST_ROWS));
    for change in told {
        row(Line::prose(&change.what), change.ms);
    }
    if !rest.is_empty() {
        let sum = |of: fn(&Change) -> f64| rest.iter().map(of).sum::<f64>();
        let ms = Both { reference: sum(|c| c.ms.reference), target: sum(|c| c.ms.target) };
        row(Line::prose(&format!("{} more in ", rest.len())).and_code(REST), ms);
    }
    row(cell("Total GPU time"), total);
    table
}

#[cfg(test)]
mod tests {
    use jarvis_analyze::comparative::{ChangeKind, Place};

    use super::*;

    #[test]
    fn every_notable_difference_has_a_row() {
        let one = Compared {
            name: "aten::mm".to_owned(),
            level: None,
            args: String::new(),
            shapes: Both::default(),
            category: "gemm".into(),
            place: None,
            ms: Both { reference: 1.0, target: 2.0 },
            calls: Both::default(),
            launched: Both::default(),
            percent_of_compute: Both { reference: 2.0, target: 2.0 },
            bound: None,
            expected: None,
            verdict: None,
            goal: None,
            saved_ms: 0.0,
            efficiency_percent: Both::default(),
            operations: Both::default(),
            kernels: Both::default(),
            hardware: None,
            precision: None,
            rows: Both::default(),
            parts: Both::default(),
            uid: None,
        };
        let blocks = differences(&[&one; 21]);
        let [Block::Table(table)] = &*blocks else { panic!("{blocks:?}") };
        assert_eq!(table.rows.len(), 21);
    }

    #[test]
    fn changes_that_are_not_shown_are_counted_and_summed() {
        let one = Change {
            kind: ChangeKind::Time,
            what: "a change".to_owned(),
            ms: Both { reference: 1.0, target: 2.0 },
            verdict: None,
            operations: Vec::new(),
        };
        let total = Both { reference: 18.0, target: 36.0 };
        let all = table_of(&vec![one.clone(); MOST_ROWS + 3], total);
        assert_eq!(all.rows.len(), MOST_ROWS + 2);
        let rest = format!("{:?}", all.rows[MOST_ROWS]);
        assert!(rest.contains("3 more in ") && rest.contains(REST) && rest.contains("6.00"), "{rest}");
        assert_eq!(table_of(&vec![one; MOST_ROWS], total).rows.len(), MOST_ROWS + 1);
    }

    #[test]
    fn parts_with_a_share_are_told_however_many() {
        let place = Place { direction: jarvis_analyze::program::Direction::Forward, modules: "".into() };
        let part =
            Part { row: None, name: "k".into(), category: "other".into(), place, calls: 1.0, kernels: 1.0, ms: 1.0 };
        assert_eq!(told_apart(&vec![part.clone(); 20], 100.0), 20);
        assert_eq!(told_apart(&vec![part.clone(); 20], 101.0), MOST_ROWS);
        assert_eq!(told_apart(&vec![part; 3], 101.0), 3);
    }
}

//! The two reports of a comparison: for people who want to improve the target, and for whoever wants to check.

mod appendix;
mod detail;
mod recommendations;
mod rough;
mod summary;

use jarvis_analyze::comparative::{Compared, ExpectedRatio, Gap};
use jarvis_analyze::rounding::shown;
use jarvis_analyze::texts::TextId;

use crate::Versus;
use crate::blocks::{Block, say_once};
use crate::language::in_prose;
use crate::sections::words::{pct, shapes};

pub(crate) use rough::document as rough;

/// A part of the report; nothing if it has nothing to say.
type Part = fn(&Versus<'_>) -> Vec<Block>;

/// The parts of the short report, a line across between them.
const PARTS: &[Part] = &[summary::blocks, summary::warnings, recommendations::blocks, detail::blocks, appendix::blocks];

/// `comparative_analysis_fair.md`.
pub(crate) fn fair(v: &Versus<'_>) -> Vec<Block> {
    let mut blocks = vec![Block::heading(1, title(v, ""))];
    for (i, part) in PARTS.iter().enumerate() {
        let part = part(v);
        if i > 0 && !part.is_empty() {
            blocks.push(Block::Rule);
        }
        blocks.extend(part);
    }
    say_once(
        blocks,
        &[TextId::B_REPLAY.template(), "See Detailed Comparison:", "of target compute)", "of target GPU time)"],
    )
}

/// Title of a report, with what tells it from the other.
fn title(v: &Versus<'_>, kind: &str) -> String {
    let [reference, target] = platforms(v);
    format!("{} Performance Comparison: {reference} vs {target}{kind}", in_prose(v.target.model_name()))
}

/// Platforms of reference and target.
fn platforms<'a>(v: &Versus<'a>) -> [&'a str; 2] {
    [v.reference, v.target].map(|run| run.analysis.prepared.platform.name.as_str())
}

/// `+2697%` for large differences, `-39.1%` for others; a dash where the reference has nothing.
fn delta(percent: Option<f64>) -> String {
    match percent {
        None => "-".to_owned(),
        Some(p) if p.abs() >= 100.0 => format!("{}{}%", if p > 0.0 { "+" } else { "" }, shown(p, 0)),
        Some(p) => {
            let text = shown(p, 1);
            let sign = if p > 0.0 && text != "0.0" { "+" } else { "" };
            format!("{sign}{text}%")
        }
    }
}

/// `2697% slower`, `15.9% faster`.
fn slower(percent: Option<f64>) -> String {
    match percent {
        None => "slower".to_owned(),
        Some(p) => {
            let word = if p < 0.0 { "faster" } else { "slower" };
            format!("{} {word}", delta(Some(p)).trim_start_matches(['+', '-']))
        }
    }
}

/// `11.3% of target compute`: what closing a gap saves, of the whole it is a part of.
fn share(gap: &Gap) -> String {
    match gap.saved_percent_of_compute {
        Some(percent) => format!("{}% of target compute", pct(percent)),
        None => format!("{}% of target GPU time", pct(gap.saved_percent_of_total)),
    }
}

/// What the hardware suggests: `-36.8%`, or from one to the other.
fn expected_delta(expected: Option<ExpectedRatio>) -> String {
    let Some(e) = expected else { return "-".to_owned() };
    let percent = |ratio: f64| delta(Some(100.0 * (ratio - 1.0)));
    if (e.high - e.low).abs() < 5e-4 { percent(e.low) } else { format!("{} to {}", percent(e.low), percent(e.high)) }
}

/// The ratio that the hardware suggests, or from one to the other.
fn expected_ratio(expected: Option<ExpectedRatio>) -> String {
    let Some(e) = expected else { return "-".to_owned() };
    let (low, high) = (shown(e.low, 3), shown(e.high, 3));
    if low == high { low } else { format!("{low} to {high}") }
}

/// Shapes of an operation, empty for groups.
fn args(c: &Compared) -> String {
    if c.args.is_empty() { String::new() } else { shapes(&c.args) }
}

/// An operation with its first argument, as data.
fn title_of(o: &Compared) -> String {
    let args = args(o);
    let args = args.split(", ").next().filter(|args| !args.is_empty()).map(|args| format!(" `{args}`"));
    format!("`{}`{}", o.name.replace('`', "'"), args.unwrap_or_default())
}

/// A number of calls, which of several steps need not be whole.
fn calls(n: f64) -> String {
    let text = shown(n, 1);
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told_in_its_direction() {
        let told = [Some(2696.8), Some(-15.94), Some(0.0), None].map(slower);
        assert_eq!(told, ["2697% slower", "15.9% faster", "0.0% slower", "slower"]);
    }
}

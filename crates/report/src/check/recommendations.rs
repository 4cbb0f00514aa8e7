//! Recommendations: complete, short, both paths, a number for what they bring; and nothing said twice.

use std::collections::BTreeMap;

use jarvis_analyze::finding::NO_GAIN;
use jarvis_analyze::texts::TextId;

use super::folder::Problems;
use super::json::Json;
use super::markdown::{Document, Line, numbers};
use super::reports::Report;
use super::text::targets;
use super::{Facts, list};

/// Most lines of a recommendation, its heading included.
const CARD_LINES: usize = 10;

/// Most recommendations.
const CARDS: usize = 12;

/// A sentence of this many words or more must not stand twice.
const SENTENCE_WORDS: usize = 8;

/// Checks the recommendations and returns how many there are.
pub(super) fn check(report: &Report<'_>, facts: &Facts<'_>, problems: &mut Problems) -> usize {
    let name = report.name;
    let Some(lines) = report.document.section(|level, title| level == 2 && title.starts_with("Recommendations")) else {
        return 0;
    };
    let cards = cards(lines);
    for (title, card) in &cards {
        one(title, card, facts.is_comparative(), name, problems);
        if !facts.is_comparative()
            && let Some(why) = contradiction(title, field(card, "Impact").unwrap_or_default(), facts)
        {
            let line = card.first().map_or(1, |l| l.number);
            problems.fail_at("impact", name, line, format!("`{title}`: {why}"));
        }
    }
    if cards.len() > CARDS {
        problems.fail("limit", name, format!("{} recommendations, at most {CARDS} are allowed", cards.len()));
    }
    let urgent = list(&facts.findings["findings"]).any(|f| f["priority"] != "low");
    let says_none = || {
        report.document.lines.iter().any(|l| l.text.contains("No bottleneck exceeds the thresholds."))
            || lines.iter().any(|l| l.text.starts_with("No recommendation"))
    };
    if cards.is_empty() && urgent && !facts.is_comparative() {
        problems.fail("W11", name, "there are findings and no recommendation");
    }
    if cards.is_empty() && !urgent && !facts.is_comparative() && !says_none() {
        problems.fail("W11", name, "no recommendation, and no word that there is none");
    }
    cards.len()
}

/// The blocks under headings of level three that speak of a priority.
fn cards<'l, 'a>(lines: &'l [Line<'a>]) -> Vec<(&'a str, Vec<&'l Line<'a>>)> {
    let mut cards: Vec<(&str, Vec<&Line<'_>>)> = Vec::new();
    for line in lines {
        match line.heading() {
            Some((3, title)) => cards.push((title, vec![line])),
            _ if line.text == "---" => {}
            _ => {
                if let Some((_, card)) = cards.last_mut() {
                    card.push(line);
                }
            }
        }
    }
    cards.retain(|(title, _)| title.contains("Priority"));
    cards
}

fn one(title: &str, card: &[&Line<'_>], compared: bool, name: &str, problems: &mut Problems) {
    let line = card.first().map_or(1, |l| l.number);
    let mut fail = |check, text: String| problems.fail_at(check, name, line, format!("`{title}`: {text}"));
    let said = card.iter().filter(|l| l.says()).count();
    if said > CARD_LINES {
        fail("limit", format!("{said} lines, at most {CARD_LINES} are allowed"));
    }
    if card.iter().any(|l| l.is_table() || l.is_code) {
        fail("limit", "tables and code belong to the detailed analysis".to_owned());
    }
    if card.iter().any(|l| has_shape(l.text)) {
        fail("limit", "shapes belong to the detailed analysis".to_owned());
    }
    let field = |label: &str| field(card, label);
    let labels: &[&str] =
        if compared { &["Gap", "Action", "Impact"] } else { &["Operation", "Issue", "Action", "Impact"] };
    for label in labels.iter().filter(|l| field(l).is_none()) {
        fail("W11", format!("no line `**{label}**:`"));
    }
    let action = field("Action").unwrap_or_default();
    for path in ["Path A:", "Path B:"] {
        let count = action.matches(path).count();
        if count != 1 {
            fail("paths", format!("the action has `{path}` {count} times"));
        }
    }
    if action.trim_end().ends_with(':') || action.contains("Path A: Path B:") {
        fail("paths", "a path says nothing".to_owned());
    }
    let impact = field("Impact").unwrap_or_default();
    let no_gain = NO_GAIN.iter().any(|said| impact.contains(said));
    if !impact.bytes().any(|b| b.is_ascii_digit()) && !no_gain {
        fail("impact", format!("the impact has neither a number nor `{}`", NO_GAIN.join("` nor `")));
    }
    let link = card.iter().find(|l| l.text.starts_with('→'));
    if link.is_none_or(|l| !targets(l.text).any(|t| t.starts_with('#'))) {
        fail("W11", "no link to the details".to_owned());
    }
}

/// What a recommendation says under a label.
fn field<'a>(card: &[&Line<'a>], label: &str) -> Option<&'a str> {
    let with = format!("**{label}**:");
    card.iter().find_map(|l| l.text.strip_prefix(with.as_str()).map(str::trim)).filter(|t| !t.is_empty())
}

/// In what a recommendation differs from the finding that its heading names: `(R3)`.
fn contradiction(title: &str, impact: &str, facts: &Facts<'_>) -> Option<String> {
    let rank: usize = title.rsplit_once("(R")?.1.strip_suffix(')')?.parse().ok()?;
    let findings = &facts.findings["findings"];
    if findings.is_null() {
        // Told where the file is read.
        return None;
    }
    // That ranks count on is another check.
    let Some(finding) = list(findings).nth(rank.checked_sub(1)?) else {
        return Some(format!("findings.json has no finding {rank}"));
    };
    let priority = finding["priority"].as_str().unwrap_or_default();
    if !title.to_lowercase().contains(&format!("{priority} priority")) {
        return Some(format!("findings.json says that it is of {priority} priority"));
    }
    let (saved, rest) = impact.strip_prefix("saves ")?.split_once(" of ")?;
    let (window, rest) = rest.split_once('(')?;
    let (speedup, _) = rest.split_once(" end to end")?;
    let total = &facts.findings["gpu_timeline"]["total_time_ms"];
    let differs = |what: &str, value: &Json<'_>| Some(format!("{what}, findings.json says {value}"));
    for (what, range) in [(saved, &finding["impact"]["saved_ms"]), (speedup, &finding["impact"]["speedup"])] {
        let shown = numbers(what);
        // `up to 2.88 ms`: what is not said of the low end is nothing.
        let low = if what.starts_with("up to ") { Some(0.0) } else { shown.first().copied() };
        if !is_shown(low, &range["low"]) {
            return differs(what, &range["low"]);
        }
        if !is_shown(shown.last().copied(), &range["high"]) {
            return differs(what, &range["high"]);
        }
    }
    if is_shown(numbers(window).first().copied(), total) { None } else { differs(window.trim(), total) }
}

/// Whether a number with two decimals is a value with more of them.
fn is_shown(shown: Option<f64>, value: &Json<'_>) -> bool {
    const ROUNDED: f64 = 0.006;
    let near = |shown: f64, value: f64| (shown - value).abs() <= ROUNDED + 1e-9 * value.abs();
    shown.zip(value.as_f64()).is_some_and(|(shown, value)| near(shown, value))
}

/// Whether a text has something like `(37632,8,64)` outside of code.
fn has_shape(text: &str) -> bool {
    let outside = text.split('`').step_by(2);
    outside.flat_map(|part| part.split('(').skip(1)).filter_map(|rest| rest.split(')').next()).any(|inner| {
        inner.contains(',')
            && inner.split(',').all(|n| !n.trim().is_empty() && n.trim().bytes().all(|b| b.is_ascii_digit()))
    })
}

/// No long sentence stands twice in a file.
pub(super) fn duplicates(report: &Report<'_>, problems: &mut Problems) {
    let exempt = TextId::B_REPLAY.plain();
    let exempt = exempt.trim_end_matches('.');
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (line, sentence) in sentences(&report.document) {
        if sentence == exempt {
            continue;
        }
        if let Some(first) = seen.get(&sentence) {
            problems.fail_at("duplicate", report.name, line, format!("stands on line {first} too: {sentence}"));
        } else {
            seen.insert(sentence, line);
        }
    }
}

/// The long sentences of a document with their lines; tables, code, headings and link lines have none.
fn sentences(document: &Document<'_>) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for line in &document.lines {
        // Two changes may bring the same.
        let its_own = ["→", "**Operation**", "**Impact**"];
        let may_repeat = its_own.iter().any(|begin| line.text.starts_with(begin));
        if line.is_code || line.is_table() || line.heading().is_some() || may_repeat {
            continue;
        }
        // Too short for so many words.
        if line.text.len() < 2 * SENTENCE_WORDS - 1 {
            continue;
        }
        let paths = without_label(line.text).split("Path A:").flat_map(|text| text.split("Path B:"));
        for sentence in paths.flat_map(|path| path.split(". ")).flat_map(|text| text.split("? ")) {
            let sentence = sentence.trim().trim_end_matches(['.', '?']);
            // Names are data, however many words they have.
            let words = sentence.split('`').step_by(2).flat_map(str::split_whitespace).count();
            if words >= SENTENCE_WORDS {
                found.push((line.number, sentence.to_owned()));
            }
        }
    }
    found
}

/// A line without list mark and bold label.
fn without_label(text: &str) -> &str {
    let text = text.strip_prefix("- ").unwrap_or(text);
    let Some(rest) = text.strip_prefix("**") else { return text };
    match rest.split_once("**") {
        Some((label, after)) if label.ends_with(':') || after.starts_with(':') => after.trim_start_matches(':').trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_lists_of_numbers_in_brackets() {
        assert!(has_shape("on (37632,8,64) bf16"));
        assert!(!has_shape("`(1,2)` and (11.5% of compute, 12 calls) and (3)"));
    }

    #[test]
    fn sentences_are_told_apart() {
        let text = "- **Issue:** one two three four five six seven eight. Short one.\n\
                    **Action**: Path A: do a b c d e f g h. Path B: do i j k l m n o p.\n\
                    | a b c d e f g h i |\n→ *See a b c d e f g h i*\n";
        let found: Vec<String> = sentences(&Document::of(text)).into_iter().map(|(_, s)| s).collect();
        assert_eq!(found, ["one two three four five six seven eight", "do a b c d e f g h", "do i j k l m n o p"]);
    }
}

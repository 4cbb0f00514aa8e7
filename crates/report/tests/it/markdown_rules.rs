//! What holds for every Markdown file, as functions that name what is wrong.

use std::collections::{BTreeMap, BTreeSet};

use jarvis_analyze::texts::TextId;
use jarvis_report::language;

/// Everything that must hold for any page.
pub(crate) fn check_page(path: &str, text: &str) {
    assert!(text.starts_with("# "), "{path} has no title");
    assert!(text.ends_with('\n') && !text.contains("\n\n\n"), "{path}: blank lines");
    let violations = language::violations(text);
    assert!(violations.is_empty(), "{path}: {violations:#?}");
    check_tables(path, text);
    check_html(path, text);
    check_anchors(path, text);
    check_headings(path, text);
    for word in ["NaN", " inf ", "null", "{}", "TODO"] {
        let hit = prose(text).find(|l| l.contains(word));
        assert!(hit.is_none(), "{path}: `{word}` in {hit:?}");
    }
}

/// Lines outside of code blocks, without what stands between backticks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = String> + '_ {
    let mut fenced = false;
    text.lines().filter_map(move |l| {
        if l.starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then(|| l.split('`').step_by(2).collect::<Vec<_>>().join(""))
    })
}

fn columns(row: &str) -> usize {
    row.replace("\\|", "").matches('|').count() - 1
}

fn check_tables(path: &str, text: &str) {
    let mut fenced = false;
    let open = |l: &str| {
        fenced ^= l.starts_with("```");
        !fenced
    };
    let mut open = open;
    let lines: Vec<&str> = text.lines().filter(|l| open(l)).collect();
    for (i, line) in lines.iter().enumerate().filter(|(_, l)| l.starts_with('|')) {
        let starts = i == 0 || !lines[i - 1].starts_with('|');
        if starts {
            assert!(lines[i + 1].starts_with("| --"), "{path}: no rule below {line}");
            assert!(lines.get(i + 2).is_some_and(|l| l.starts_with('|')), "{path}: a table without rows: {line}");
        } else {
            assert_eq!(columns(line), columns(lines[i - 1]), "{path}: {line}");
        }
        assert!(line.ends_with(" |"), "{path}: {line}");
    }
}

/// No markup but anchors, and every backtick has its partner.
fn check_html(path: &str, text: &str) {
    for line in prose(text) {
        let tag = line.match_indices('<').any(|(at, _)| {
            line[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'))
        });
        let anchor = line.starts_with("<a id=\"") && line.ends_with("\"></a>");
        assert!(!tag || anchor, "{path}: HTML in {line}");
    }
    for line in text.lines().filter(|l| !l.starts_with("```")) {
        assert!(line.replace("\\`", "").matches('`').count().is_multiple_of(2), "{path}: {line}");
        assert!(line.chars().count() < 3000, "{path}: a line of {} characters", line.len());
    }
}

/// Links lead somewhere, and places have one name each.
fn check_anchors(path: &str, text: &str) {
    let mut places = BTreeSet::new();
    for line in text.lines().filter_map(|l| l.strip_prefix("<a id=\"")) {
        let name = line.trim_end_matches("\"></a>");
        assert!(places.insert(name), "{path}: {name} stands twice");
    }
    for line in prose(text) {
        for (at, _) in line.match_indices("](#") {
            let opens = line[..at].rfind('[').filter(|o| !line[..*o].ends_with('\\'));
            let link = line[at + 3..].split(')').next().unwrap();
            assert!(opens.is_none() || places.contains(link), "{path}: nothing is at {link}");
        }
    }
}

/// Something stands below every heading.
fn check_headings(path: &str, text: &str) {
    let lines: Vec<&str> = text.lines().filter(|l| !l.is_empty() && !l.starts_with("<a id")).collect();
    let mut fenced = false;
    let mut last: Option<usize> = None;
    for line in lines {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        let level = line.chars().take_while(|c| *c == '#').count();
        if level > 0 && !fenced {
            assert!(last.is_none_or(|l| level > l), "{path}: nothing stands above {line}");
            last = Some(level);
        } else {
            last = None;
        }
    }
    assert!(last.is_none(), "{path}: nothing stands below the last heading");
}

/// Sentences of eight words or more that stand twice, names included.
pub(crate) fn repeated(text: &str) -> Vec<String> {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    for line in text.lines().filter(|l| !l.starts_with('|') && !l.starts_with('#')) {
        for sentence in line.trim_end().split(". ") {
            let sentence = sentence.trim_start_matches("- ").trim_end_matches('.').to_owned();
            let free = sentence.contains(TextId::B_REPLAY.template().trim_end_matches('.'))
                || sentence.contains("[Detailed Analysis:")
                || sentence.starts_with("**Operation**: ");
            // Names are data; a label is part of its line.
            let words: usize = sentence.split('`').step_by(2).map(|t| t.split_whitespace().count()).sum();
            if !free && words >= 8 {
                *count.entry(sentence).or_default() += 1;
            }
        }
    }
    count.into_iter().filter(|(_, n)| *n > 1).map(|(s, _)| s).collect()
}

/// Non-blank lines between two headings.
pub(crate) fn part<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|l| *l != from).skip(1);
    lines.take_while(|l| !l.starts_with(to)).filter(|l| !l.trim().is_empty()).collect()
}

//! Every number of the fair report stands in a table or JSON file of the same run.
//!
//! A number that is printed with d decimals is found if a number of the files rounds to it at d decimals, in the same
//! unit or in one that the text converts from: milliseconds from microseconds, percent from a share, MiB from
//! bytes. Whole sentences
//! are taken from `findings.json` and the metrics (what a range rests on, what was seen); their numbers stand there.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::traces::{Ran, each, fixture};

/// Numbers of fixed texts, which no file has to hold.
const FIXED: &[&str] = &["(not in the top 10)", "(typically 3-10x on attention;", "70-80% is expected"];

/// Keys of JSON texts that reports take over as sentences.
const SENTENCES: &[&str] = &[
    "basis",
    "fact",
    "issue",
    "title",
    "algorithmic",
    "kernel",
    "evidence",
    "description",
    "warnings",
    "notes",
    "impact",
    "solution",
    "scale",
    "replay_reason",
];

/// What the files of a run say.
struct Known {
    /// In order.
    numbers: Vec<f64>,
    /// Numbers of sentences, as they are written.
    said: BTreeSet<String>,
}

impl Known {
    fn of(files: &BTreeMap<String, Vec<u8>>) -> Self {
        let mut known = Self { numbers: Vec::new(), said: BTreeSet::new() };
        for (name, bytes) in files {
            if name.ends_with(".json") {
                known.json(&serde_json::from_slice(bytes).unwrap(), false);
            } else if name.ends_with(".csv") {
                let mut rows = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(&bytes[..]);
                let cells = rows.records().flat_map(|r| r.unwrap().iter().map(str::to_owned).collect::<Vec<_>>());
                known.numbers.extend(cells.filter_map(|c| c.parse::<f64>().ok()));
            }
        }
        known.numbers.retain(|n| n.is_finite());
        known.numbers.sort_by(f64::total_cmp);
        known
    }

    fn json(&mut self, value: &Value, is_sentence: bool) {
        match value {
            Value::Number(n) => self.numbers.extend(n.as_f64()),
            Value::String(s) if is_sentence => self.said.extend(tokens(s).into_iter().map(|t| t.digits)),
            Value::Array(items) => items.iter().for_each(|v| self.json(v, is_sentence)),
            Value::Object(map) => map.iter().for_each(|(k, v)| self.json(v, is_sentence || SENTENCES.contains(&&**k))),
            _ => {}
        }
    }

    /// Whether a number rounds to this one at its last decimal.
    fn has(&self, value: f64, decimals: i32) -> bool {
        let half = 0.5 * 10f64.powi(-decimals);
        // Both ends belong to it: ties go to the even neighbour, and files are rounded too.
        let slack = half + 1e-9 * value.abs().max(1.0);
        let at = self.numbers.partition_point(|n| *n < value - slack);
        self.numbers.get(at).is_some_and(|n| *n <= value + slack)
    }

    fn knows(&self, token: &Token) -> bool {
        let (value, decimals) = (token.value(), token.decimals());
        self.has(value, decimals)
            || match token.unit.as_str() {
                "ms" => self.has(1e3 * value, decimals - 3),
                "us" => self.has(value / 1e3, decimals + 3),
                "%" => self.has(value / 100.0, decimals + 2),
                // As many decimals as the bytes of a MiB have digits.
                "MiB" => self.has(value * 1_048_576.0, decimals - 6),
                _ => false,
            }
            || self.said.contains(&token.digits)
    }
}

/// A number as it is printed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    digits: String,
    unit: String,
}

impl Token {
    fn value(&self) -> f64 {
        self.digits.parse().unwrap()
    }

    fn decimals(&self) -> i32 {
        self.digits.split_once('.').map_or(0, |(_, after)| after.len() as i32)
    }
}

/// The numbers of a text with their units. Digits of names (`R1`, `bf16`, `W8A8`) are none; `8x64` are two.
fn tokens(text: &str) -> Vec<Token> {
    let chars: Vec<char> = text.chars().collect();
    let mut found: Vec<Token> = Vec::new();
    let mut i = 0;
    while i < chars.len() {
        if !chars[i].is_ascii_digit() {
            i += 1;
            continue;
        }
        let start = i;
        while i < chars.len()
            && (chars[i].is_ascii_digit() || chars[i] == '.' && chars.get(i + 1).is_some_and(char::is_ascii_digit))
        {
            i += 1;
        }
        let before = start.checked_sub(1).map(|b| chars[b]);
        let times = before == Some('x') && start >= 2 && chars[start - 2].is_ascii_digit();
        let in_name = before.is_some_and(|c| (c.is_alphabetic() && !times) || matches!(c, '_' | '#'));
        if !in_name {
            let rest: String = chars[i..].iter().collect();
            found.push(Token { digits: chars[start..i].iter().collect(), unit: unit(&rest).to_owned() });
        }
    }
    found
}

/// The unit of a number by what follows it; the low end of a range has that of the high end.
fn unit(rest: &str) -> &'static str {
    let high_end =
        |sep: &str| rest.strip_prefix(sep).map(|r| r.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.'));
    let rest = high_end("-").or_else(|| high_end(" to ")).unwrap_or(rest).trim_start();
    let is = |unit: &str| rest.strip_prefix(unit).is_some_and(|r| !r.starts_with(|c: char| c.is_alphanumeric()));
    ["ms", "us", "%"].into_iter().find(|u| if *u == "%" { rest.starts_with('%') } else { is(u) }).unwrap_or("")
}

/// The numbers of a report with their lines, from 1.
fn printed(report: &str) -> Vec<(usize, Token)> {
    let mut found = Vec::new();
    let mut units: Vec<&str> = Vec::new();
    for (i, line) in report.lines().enumerate() {
        let line = FIXED.iter().fold(line.to_owned(), |line, fixed| line.replace(fixed, ""));
        // Names stand between backticks, places in the targets of links.
        let line: String = line.split('`').step_by(2).collect();
        let line = match line.find("](#") {
            Some(at) => line[..at].to_owned() + line[at..].split_once(')').map_or("", |(_, rest)| rest),
            None => line,
        };
        if line.starts_with("<a id=") {
            continue;
        }
        if !line.starts_with('|') {
            units.clear();
            found.extend(tokens(without_ordinal(&line)).into_iter().map(|t| (i + 1, t)));
            continue;
        }
        let cells: Vec<&str> = line.trim_matches('|').split('|').collect();
        if units.is_empty() {
            units = cells.iter().map(|c| column_unit(c)).collect();
            continue;
        }
        for (cell, unit) in cells.iter().zip(&units) {
            for mut token in tokens(cell) {
                if token.unit.is_empty() {
                    (*unit).clone_into(&mut token.unit);
                }
                found.push((i + 1, token));
            }
        }
    }
    found
}

/// A heading or an item of a list without its number.
fn without_ordinal(line: &str) -> &str {
    let text = line.trim_start_matches('#').trim_start();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if digits > 0 { text[digits..].strip_prefix(". ").unwrap_or(text) } else { text }
}

fn column_unit(header: &str) -> &'static str {
    match header {
        h if h.contains("(ms") => "ms",
        h if h.contains("(us)") => "us",
        h if h.contains('%') => "%",
        h if h.contains("MiB") => "MiB",
        _ => "",
    }
}

/// Numbers of the fair report that no file has.
fn unknown(ran: &Ran, report: &str) -> Vec<(usize, Token)> {
    let known = Known::of(&ran.files);
    printed(report).into_iter().filter(|(_, token)| !known.knows(token)).collect()
}

#[test]
fn every_number_of_the_fair_report_stands_in_a_file() {
    let mut all = 0;
    each(|ran| {
        all += printed(ran.fair()).len();
        let lost = unknown(ran, ran.fair());
        assert!(lost.is_empty(), "{}: {lost:#?}", ran.name);
    });
    assert!(all > 2000, "only {all} numbers were looked at");
}

#[test]
fn a_number_from_nowhere_is_noticed() {
    let ran = fixture("h200/attn_unfused.json.gz");
    let time = ran.manifest()["gpu_utilization"]["computation_time_ms"].as_f64().unwrap();
    let right = format!("| Total Compute Time | {time:.2} ms |");
    assert!(ran.fair().contains(&right), "{right}");
    for wrong in [time + 0.02, 1000.0 * time, 7.0 * time] {
        let wrong = format!("| Total Compute Time | {wrong:.2} ms |");
        let lost = unknown(&ran, &ran.fair().replace(&right, &wrong));
        assert_eq!(lost.len(), 1, "{wrong}: {lost:?}");
    }
}

#[test]
fn numbers_are_read_with_their_units() {
    let all = |text: &str| tokens(text).into_iter().map(|t| t.digits + &t.unit).collect::<Vec<_>>();
    assert_eq!(all("R1 saves 1.87 to 2.89 ms (1.08x) of bf16 W8A8"), ["1.87ms", "2.89ms", "1.08"]);
    assert_eq!(all("37632 matrices of 8x8x64, 73.9x"), ["37632", "8", "8", "64", "73.9"]);
    assert_eq!(all("427.0-854.0 us a call at 40-80% of it."), ["427.0us", "854.0us", "40%", "80%"]);
    let report =
        "### 3. Reduce (35.3% of compute)\n\n| `a 1` | Time (ms) |\n| --- | ---: |\n| `b 2` | 4.25 |\n\n1. one\n";
    let read: Vec<String> =
        printed(report).into_iter().map(|(line, t)| format!("{line} {}{}", t.digits, t.unit)).collect();
    assert_eq!(read, ["1 35.3%", "5 4.25ms"]);
}

//! Text that has to fit a line.

use std::fmt::Write as _;

use jarvis_trace::spelled;

/// Characters of a line of prose.
pub(crate) const WIDTH: usize = 110;

/// A text of the trace in a line, cut where it is longer.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let text = spelled(text.trim_end());
    if text.chars().count() <= width {
        return text.into_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A number of bytes in the unit that reads best.
pub(crate) fn amount(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Text in lines of [`WIDTH`], broken at words.
pub(crate) fn wrapped(out: &mut String, first: &str, rest: &str, text: &str) {
    let mut line = first.to_owned();
    let mut empty = true;
    for word in spelled(text).split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{line}");
            rest.clone_into(&mut line);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    let _ = writeln!(out, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_fitting_units() {
        let amounts = [0, 999, 1_500, 2_000_000, 12_345_678_900].map(amount);
        assert_eq!(amounts, ["0 B", "999 B", "1.5 kB", "2.0 MB", "12.35 GB"]);
    }

    #[test]
    fn long_texts_are_cut_and_broken_at_words() {
        assert_eq!((cut("abc ", 3), cut("abcd", 3)), ("abc".to_owned(), "ab…".to_owned()));
        let mut out = String::new();
        wrapped(&mut out, "- ", "  ", &"word ".repeat(30));
        assert_eq!(out.lines().count(), 2);
        assert!(
            out.lines().all(|l| l.chars().count() <= WIDTH) && out.lines().nth(1).is_some_and(|l| l.starts_with("  w"))
        );
    }
}

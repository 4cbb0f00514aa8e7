//! Names that have to stay in their place of a line.

use std::borrow::Cow;

/// Characters that turn the order of the text around them, or end a line for some readers.
const TURNING: [char; 14] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}',
    '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Whether a terminal obeys a character where it should show it.
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || TURNING.contains(&c)
}

/// A name as it can stand in a line for people: what a terminal would obey is spelled out, ends of lines and tabs too. Not
/// for data: it would not be the same.
pub fn spelled(name: &str) -> Cow<'_, str> {
    if !name.contains(is_obeyed) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(name.len() + 16);
    for c in name.chars() {
        if is_obeyed(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_line() {
        assert_eq!(spelled("a\nb\tc\u{1b}[1md\u{202e}"), r"a\nb\tc\u{1b}[1md\u{202e}");
        assert!(matches!(spelled("µs … κ \\n 核"), Cow::Borrowed(_)));
    }
}

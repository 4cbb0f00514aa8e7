//! Names that have to fit.

use std::borrow::Cow;

/// At most so many characters of a text, with the mark behind them if there were more.
pub fn shortened<'t>(text: &'t str, most: usize, mark: &str) -> Cow<'t, str> {
    match text.char_indices().nth(most) {
        Some((at, _)) => Cow::Owned(format!("{}{mark}", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_never_split() {
        assert_eq!(shortened("abc", 3, ".."), "abc");
        assert_eq!(shortened("abcd", 3, ".."), "abc..");
        assert_eq!(shortened("µµµµ", 3, "…"), "µµµ…");
        assert_eq!(shortened("µµµ", 3, "…"), "µµµ");
        assert_eq!(shortened("a", 0, ".."), "..");
    }
}

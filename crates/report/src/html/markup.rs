//! `Markup`: the one writer of HTML and SVG. What is not a literal of this program can only get in escaped.

use std::borrow::Cow;
use std::fmt::{self, Display, Write as _};

use jarvis_analyze::rounding::fixed;

/// Longest text of a trace that a page repeats, in characters. Names of 10,000 characters exist.
pub(crate) const LONGEST: usize = 240;

/// Longest sentence, in characters: sentences quote names.
const LONGEST_PROSE: usize = 1200;

/// An attribute: its name and anything that can be shown. The value is escaped.
pub(crate) type Attribute<'a> = (&'static str, &'a dyn Display);

/// HTML or SVG in the making.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Markup(String);

impl Markup {
    /// Markup that this program wrote itself.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Text.
    pub(crate) fn text(&mut self, text: impl Display) -> &mut Self {
        // Writing into memory does not fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// A sentence in which names of code stand between backticks.
    pub(crate) fn prose(&mut self, text: &str) -> &mut Self {
        let text = clipped(text, LONGEST_PROSE);
        for (i, part) in text.split('`').enumerate() {
            if i % 2 == 1 {
                self.leaf("code", &[], part);
            } else {
                self.text(part);
            }
        }
        self
    }

    /// `<tag a="b">`
    pub(crate) fn open(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Self {
        self.tag(tag, attributes);
        self.raw(">")
    }

    /// `</tag>`
    pub(crate) fn close(&mut self, tag: &'static str) -> &mut Self {
        self.raw("</").raw(tag).raw(">")
    }

    /// `<tag a="b"/>`, for elements of SVG that hold nothing.
    pub(crate) fn empty(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) -> &mut Self {
        self.tag(tag, attributes);
        self.raw("/>")
    }

    /// An element that holds a text.
    pub(crate) fn leaf(&mut self, tag: &'static str, attributes: &[Attribute<'_>], text: impl Display) -> &mut Self {
        self.open(tag, attributes).text(text).close(tag)
    }

    /// All of it.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn tag(&mut self, tag: &'static str, attributes: &[Attribute<'_>]) {
        self.raw("<").raw(tag);
        for (name, value) in attributes {
            self.raw(" ").raw(name).raw("=\"");
            let _ = write!(Escaped(&mut self.0), "{value}");
            self.raw("\"");
        }
    }
}

/// Escapes what is written.
struct Escaped<'m>(&'m mut String);

impl fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        // Nearly all of a text stays as it is.
        while let Some(at) = rest.bytes().position(|b| !is_plain(b) || matches!(b, b'&' | b'<' | b'>' | b'"' | b'\'')) {
            self.0.push_str(&rest[..at]);
            let mut chars = rest[at..].chars();
            match chars.next().unwrap_or_default() {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\n' => self.0.push('\n'),
                c if is_unprintable(c) => self.0.push(char::REPLACEMENT_CHARACTER),
                c => self.0.push(c),
            }
            rest = chars.as_str();
        }
        self.0.push_str(rest);
        Ok(())
    }
}

/// Whether a byte is a character that can be seen, or a space.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

/// Control characters, and those that turn the direction of the text that follows: a name must not rearrange the page.
fn is_unprintable(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text of the trace as pages repeat it: printable, and not longer than [`LONGEST`].
pub(crate) fn printable(text: &str) -> String {
    clipped(text, LONGEST).into_owned()
}

/// The same with another limit.
pub(crate) fn clipped(text: &str, most: usize) -> Cow<'_, str> {
    // Nearly all texts: a byte is a character.
    if text.bytes().take(most).all(is_plain) {
        return if text.len() <= most { text.into() } else { format!("{}…", &text[..most - 1]).into() };
    }
    let end = text.char_indices().nth(most).map(|(at, _)| at);
    if end.is_none() && !text.contains(is_unprintable) {
        return text.into();
    }
    let clean = |c: char| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c };
    let mut out: String = text[..end.unwrap_or(text.len())].chars().map(clean).collect();
    if end.is_some() {
        out.pop();
        out.push('…');
    }
    out.into()
}

/// A coordinate or length: as many decimals as can be seen.
pub(crate) fn px(value: f64) -> String {
    let hundredths = value * 100.0;
    // The product is not exact: close to a half it could round to the other side.
    let is_sure = hundredths.abs() < 1e9 && (hundredths.fract().abs() - 0.5).abs() > 1e-6;
    let text = if is_sure { fixed(hundredths.round() as i64, 2) } else { format!("{value:.2}") };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_in_unescaped() {
        let hostile = "</script><img src=x onerror=\"alert('1')\">&\u{0}\u{202e}";
        let mut m = Markup::default();
        m.open("p", &[("title", &hostile)]).text(hostile).close("p");
        let escaped = "&lt;/script&gt;&lt;img src=x onerror=&quot;alert(&#39;1&#39;)&quot;&gt;&amp;\u{fffd}\u{fffd}";
        assert_eq!(m.as_str(), format!("<p title=\"{escaped}\">{escaped}</p>"));
    }

    #[test]
    fn names_in_sentences_are_code() {
        let mut m = Markup::default();
        m.prose("use `a<b` now");
        assert_eq!(m.as_str(), "use <code>a&lt;b</code> now");
    }

    #[test]
    fn long_texts_are_cut() {
        let cut = printable(&"ä".repeat(10_000));
        assert_eq!(cut.chars().count(), LONGEST);
        assert!(cut.ends_with('…'));
        assert_eq!(clipped("abc", 3), "abc");
    }

    #[test]
    fn coordinates_are_short() {
        assert_eq!([px(1.0), px(0.126), px(-0.001), px(100.0)], ["1", "0.13", "0", "100"]);
        assert_eq!(
            [px(-12.5), px(0.125), px(0.375), px(1.005), px(1e12)],
            ["-12.5", "0.12", "0.38", "1", "1000000000000"]
        );
    }
}

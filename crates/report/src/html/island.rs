//! Data for the script of the page: JSON that no HTML parser can take for markup.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// A value as JSON in which no character means anything to HTML: `<`, `>` and `&` are written as escapes, and so are
/// the two line ends that JavaScript once knew and JSON does not.
pub(crate) fn json(value: &impl Serialize) -> String {
    let mut out = Vec::new();
    // Writing into memory does not fail, and all keys are texts.
    let done = value.serialize(&mut Serializer::with_formatter(&mut out, NoMarkup));
    done.ok().and_then(|()| String::from_utf8(out).ok()).unwrap_or_else(|| "null".to_owned())
}

/// JSON without a space. Outside of texts none of the characters can stand.
struct NoMarkup;

impl Formatter for NoMarkup {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let mut rest = fragment;
        // The line ends, like all characters from U+2000 to U+2FFF, begin with 0xE2.
        while let Some(at) = rest.bytes().position(|b| matches!(b, b'<' | b'>' | b'&' | 0xE2)) {
            let mut chars = rest[at..].chars();
            let c = chars.next().unwrap_or_default();
            out.write_all(&rest.as_bytes()[..at])?;
            match c {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write!(out, "\\u{:04x}", u32::from(c))?,
                c => out.write_all(c.encode_utf8(&mut [0; 4]).as_bytes())?,
            }
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_cannot_end_the_island() {
        let text = "</script><!--<script>\u{2028}&\"'";
        let written = json(&text);
        assert!(!written.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }
}

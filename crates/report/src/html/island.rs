//! Data for the script of the page: JSON that no HTML parser can take for markup.

use serde::Serialize;

/// A value as JSON in which no character means anything to HTML: `<`, `>` and `&` are written as escapes, and so are
/// the two line ends that JavaScript once knew and JSON does not.
pub(crate) fn json(value: &impl Serialize) -> String {
    // Writing into memory does not fail, and all keys are texts.
    let plain = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    let mut out = String::with_capacity(plain.len());
    for c in plain.chars() {
        // Outside of texts none of these can stand.
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
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

//! A name in a trace may hold anything. What a terminal would obey is shown on it, not sent to it.

use std::borrow::Cow;

use super::style::Style;

/// A text for people with control characters spelled out. Ends of lines stay, and where it is emphasised what jarvis
/// emphasises with: names have been [`spelled`](jarvis_trace::spelled) when they came into it. Not for data: it would not
/// be the same.
pub(crate) fn harmless(text: &str, style: Style) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.find(is_obeyed) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if let Some(own) = style.emphasis_at(from) {
            out.push_str(own);
            rest = &from[own.len()..];
        } else {
            let mut chars = from.chars();
            out.extend(chars.next().into_iter().flat_map(char::escape_default));
            rest = chars.as_str();
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn is_obeyed(c: char) -> bool {
    c != '\n' && c != '\t' && jarvis_trace::is_obeyed(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_spelled_out() {
        let (plain, bright) = (Style::new(false), Style::new(true));
        let name = "a\u{1b}]0;title\u{7}b\rc\0d\u{202e}e\u{9b}31mf";
        let spelled = r"a\u{1b}]0;title\u{7}b\rc\u{0}d\u{202e}e\u{9b}31mf";
        assert_eq!(harmless(name, plain), spelled);
        assert_eq!(harmless(&bright.strong(name), bright), bright.strong(spelled));
        assert_eq!(harmless(&bright.strong("x"), plain), r"\u{1b}[1mx\u{1b}[0m");
        assert!(matches!(harmless("µs …\n\tκ 核", plain), Cow::Borrowed(_)));
    }
}

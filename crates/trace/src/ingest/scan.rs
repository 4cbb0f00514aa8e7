//! Finding the end of strings and lists.

use memchr::memchr2;

/// Position of the first quote or backslash at or after `pos`.
#[inline]
fn quote_or_backslash(buf: &[u8], pos: usize) -> Option<usize> {
    memchr2(b'"', b'\\', buf.get(pos..)?).map(|i| pos + i)
}

/// Position of the quote that closes the string whose content starts at `pos`, and whether it holds escapes.
#[inline]
pub(super) fn string_end(buf: &[u8], pos: usize) -> Option<(usize, bool)> {
    let mut at = quote_or_backslash(buf, pos)?;
    if buf[at] == b'"' {
        return Some((at, false));
    }
    loop {
        // A backslash: whatever follows it does not end the string.
        at = quote_or_backslash(buf, at + 2)?;
        if buf[at] == b'"' {
            return Some((at, true));
        }
    }
}

/// Position after the bracket that closes the list or object opening at `pos`.
#[inline]
pub(super) fn brackets_end(buf: &[u8], start: usize) -> Option<usize> {
    let mut pos = start;
    let mut depth = 0usize;
    loop {
        match *buf.get(pos)? {
            b'[' | b'{' => depth += 1,
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(pos + 1);
                }
            }
            b'"' => pos = string_end(buf, pos + 1)?.0,
            _ => {}
        }
        pos += 1;
    }
}

/// Position of the first byte at or after `pos` that is no JSON blank.
#[inline]
pub(super) fn skip_blanks(buf: &[u8], mut pos: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = buf.get(pos) {
        pos += 1;
    }
    pos
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_end_at_the_first_quote_that_is_not_escaped() {
        let text = br#"abcdefghijklmnopqrstuvwxyz0123456789", "next"#;
        assert_eq!(string_end(text, 0), Some((36, false)));
        assert_eq!(string_end(br#"a\"b\\" tail and more bytes here"#, 0), Some((6, true)));
        assert_eq!(string_end(br#"no end \""#, 0), None);
        assert_eq!(string_end(b"ends in backslash \\", 0), None);
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        for (list, after) in [("[]", 2), (r#"[[1], {"a]": "}\"]"}]"#, 21), (r#"["\\"]"#, 6)] {
            assert_eq!(brackets_end(format!("{list}, [").as_bytes(), 0), Some(after), "{list}");
        }
        for open in ["[", "[[]", r#"["]"#, r#"["]\"]"#] {
            assert_eq!(brackets_end(open.as_bytes(), 0), None, "{open}");
        }
    }
}

//! Finding the end of strings and lists.

use super::simd::{Marks, marks, quotes_and_backslashes};

/// Position of the first quote or backslash at or after `pos`.
#[inline]
pub(super) fn quote_or_backslash(buf: &[u8], mut pos: usize) -> Option<usize> {
    while let Some(chunk) = buf.get(pos..).and_then(|rest| rest.first_chunk::<16>()) {
        let mask = quotes_and_backslashes(chunk);
        if mask != 0 {
            return Some(pos + mask.trailing_zeros() as usize);
        }
        pos += 16;
    }
    let rest = buf.get(pos..)?;
    rest.iter().position(|&b| b == b'"' || b == b'\\').map(|i| pos + i)
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
    let mut depth = 0i64;
    // All ones while inside a string.
    let mut in_string = 0u32;
    while let Some(chunk) = buf.get(pos..).and_then(|rest| rest.first_chunk::<16>()) {
        let Marks { quotes, backslashes, opens, closes } = marks(chunk);
        if backslashes != 0 {
            return brackets_end_slow(buf, start);
        }
        // A byte is inside a string if the number of quotes up to it is odd: a running XOR of the quote mask.
        let mut inside = quotes;
        inside ^= inside << 1;
        inside ^= inside << 2;
        inside ^= inside << 4;
        inside ^= inside << 8;
        inside = (inside ^ in_string) & 0xffff;
        in_string = if inside & 0x8000 != 0 { u32::MAX } else { 0 };
        let (opens, closes) = (opens & !inside, closes & !inside);
        if depth > i64::from(closes.count_ones()) {
            depth += i64::from(opens.count_ones()) - i64::from(closes.count_ones());
        } else {
            let mut both = opens | closes;
            while both != 0 {
                let bit = both & both.wrapping_neg();
                depth += if opens & bit != 0 { 1 } else { -1 };
                if depth == 0 {
                    return Some(pos + bit.trailing_zeros() as usize + 1);
                }
                both ^= bit;
            }
        }
        pos += 16;
    }
    brackets_end_slow(buf, start)
}

#[cold]
fn brackets_end_slow(buf: &[u8], start: usize) -> Option<usize> {
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
    use proptest::prelude::*;

    #[test]
    fn strings_end_at_the_first_quote_that_is_not_escaped() {
        let text = br#"abcdefghijklmnopqrstuvwxyz0123456789", "next"#;
        assert_eq!(string_end(text, 0), Some((36, false)));
        assert_eq!(string_end(br#"a\"b\\" tail and more bytes here"#, 0), Some((6, true)));
        assert_eq!(string_end(br#"no end \""#, 0), None);
        assert_eq!(string_end(b"ends in backslash \\", 0), None);
    }

    proptest! {
        #[test]
        fn brackets_match_the_slow_way(text in r#"[\[\]{}"\\ab,]{0,80}"#) {
            let text = format!("[{text}");
            prop_assert_eq!(brackets_end(text.as_bytes(), 0), brackets_end_slow(text.as_bytes(), 0));
        }
    }
}

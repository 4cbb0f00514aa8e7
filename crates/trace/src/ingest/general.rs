//! The general event parser: any layout, tolerant of everything writers get wrong. It is the judge of what an event
//! says; the fast path ([`super::shapes`]) only ever agrees with it.

use std::borrow::Cow;

use super::number::{self, Number};
use super::scan::{brackets_end, skip_blanks, string_end};
use crate::model::Place;

/// Why parsing stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// The buffer ends before the value does.
    Incomplete,
    /// No reading of these bytes is JSON.
    Malformed,
}

/// A value, by its place in the buffer. Text spans exclude the quotes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Raw {
    Text { start: usize, end: usize, escaped: bool },
    Number { start: usize, end: usize, value: Number },
    Json { start: usize, end: usize },
    True,
    False,
    Null,
}

/// One key and value of an event.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Field {
    pub(super) place: Place,
    pub(super) key: (usize, usize),
    pub(super) key_escaped: bool,
    pub(super) value: Raw,
}

impl Field {
    /// The name that its key spells.
    pub(super) fn key_text<'b>(&self, buf: &'b [u8]) -> Cow<'b, [u8]> {
        spelled(buf, self.key, self.key_escaped)
    }
}

/// What the string at a span spells: writers may escape any character.
pub(super) fn spelled(buf: &[u8], (start, end): (usize, usize), escaped: bool) -> Cow<'_, [u8]> {
    let raw = &buf[start..end];
    if escaped { Cow::Owned(unescape(raw).0) } else { Cow::Borrowed(raw) }
}

/// What was seen besides the fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Oddities {
    pub(super) args_not_object: bool,
}

/// Reads the object at `pos` and returns the position after it.
pub(super) fn event(buf: &[u8], pos: usize, fields: &mut Vec<Field>) -> Result<(usize, Oddities), Stop> {
    let mut oddities = Oddities::default();
    let end = object(buf, pos, |key, key_escaped, value_at| {
        if *spelled(buf, key, key_escaped) != *b"args" {
            let (value, end) = value(buf, value_at)?;
            fields.push(Field { place: Place::Event, key, key_escaped, value });
            return Ok(end);
        }
        if buf.get(value_at) == Some(&b'{') {
            return object(buf, value_at, |key, key_escaped, value_at| {
                let (value, end) = value(buf, value_at)?;
                fields.push(Field { place: Place::Args, key, key_escaped, value });
                Ok(end)
            });
        }
        oddities.args_not_object = true;
        Ok(value(buf, value_at)?.1)
    })?;
    Ok((end, oddities))
}

/// Walks the object at `pos`: calls `on_value` with the span of each key and the position of its value; it returns
/// the position after the value. Returns the position after the object.
pub(super) fn object(
    buf: &[u8],
    pos: usize,
    mut on_value: impl FnMut((usize, usize), bool, usize) -> Result<usize, Stop>,
) -> Result<usize, Stop> {
    if *buf.get(pos).ok_or(Stop::Incomplete)? != b'{' {
        return Err(Stop::Malformed);
    }
    let mut pos = skip_blanks(buf, pos + 1);
    loop {
        match *buf.get(pos).ok_or(Stop::Incomplete)? {
            b'}' => return Ok(pos + 1),
            b'"' => {}
            _ => return Err(Stop::Malformed),
        }
        let (key, escaped, value_at) = key(buf, pos)?;
        pos = skip_blanks(buf, on_value(key, escaped, value_at)?);
        match *buf.get(pos).ok_or(Stop::Incomplete)? {
            b',' => pos = skip_blanks(buf, pos + 1),
            b'}' => return Ok(pos + 1),
            _ => return Err(Stop::Malformed),
        }
    }
}

/// The key whose opening quote stands at `pos`: its span, whether it holds escapes, and where its value begins.
pub(super) fn key(buf: &[u8], pos: usize) -> Result<((usize, usize), bool, usize), Stop> {
    let (end, escaped) = string_end(buf, pos + 1).ok_or(Stop::Incomplete)?;
    let colon = skip_blanks(buf, end + 1);
    match *buf.get(colon).ok_or(Stop::Incomplete)? {
        b':' => Ok(((pos + 1, end), escaped, skip_blanks(buf, colon + 1))),
        _ => Err(Stop::Malformed),
    }
}

/// The value at `pos` and the position after it.
pub(super) fn value(buf: &[u8], pos: usize) -> Result<(Raw, usize), Stop> {
    match *buf.get(pos).ok_or(Stop::Incomplete)? {
        b'"' => {
            let (end, escaped) = string_end(buf, pos + 1).ok_or(Stop::Incomplete)?;
            Ok((Raw::Text { start: pos + 1, end, escaped }, end + 1))
        }
        b'[' | b'{' => {
            let end = plausible_brackets_end(buf, pos)?;
            Ok((Raw::Json { start: pos, end }, end))
        }
        _ => word(buf, pos),
    }
}

/// Bytes that JSON has outside strings: structure, blanks, and the characters of numbers, exponents, `true`, `false`,
/// `null`, `NaN` and `Infinity`.
const OUTSIDE_STRINGS: &[u8] = b"[]{},: \n\r\t0123456789+-.aeEfiIlnNrstuy";

/// As [`brackets_end`], but gives up as soon as a byte outside strings can't belong to JSON: a broken quote would
/// otherwise swallow the rest of the file.
fn plausible_brackets_end(buf: &[u8], start: usize) -> Result<usize, Stop> {
    let fast = brackets_end(buf, start);
    let mut pos = start;
    let limit = fast.unwrap_or(buf.len());
    while pos < limit {
        match buf[pos] {
            b'"' => match string_end(&buf[..limit], pos + 1) {
                Some((end, _)) => pos = end,
                None => return Err(if fast.is_some() { Stop::Malformed } else { Stop::Incomplete }),
            },
            byte if OUTSIDE_STRINGS.contains(&byte) => {}
            _ => return Err(Stop::Malformed),
        }
        pos += 1;
    }
    fast.ok_or(Stop::Incomplete)
}

/// A bare word: number or constant.
fn word(buf: &[u8], pos: usize) -> Result<(Raw, usize), Stop> {
    let end = number::token_end(buf, pos).ok_or(Stop::Incomplete)?;
    let raw = match &buf[pos..end] {
        b"true" => Raw::True,
        b"false" => Raw::False,
        b"null" => Raw::Null,
        token => match number::parse(token) {
            Some(value) => Raw::Number { start: pos, end, value },
            None => return Err(Stop::Malformed),
        },
    };
    Ok((raw, end))
}

/// Resolves the escapes of a JSON string. The flag tells whether one was invalid and taken literally.
pub(super) fn unescape(raw: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::with_capacity(raw.len());
    let mut invalid = false;
    let mut pos = 0;
    while pos < raw.len() {
        if raw[pos] != b'\\' {
            out.push(raw[pos]);
            pos += 1;
            continue;
        }
        let simple = match raw.get(pos + 1) {
            Some(c @ (b'"' | b'\\' | b'/')) => Some(*c),
            Some(b'b') => Some(8),
            Some(b'f') => Some(12),
            Some(b'n') => Some(b'\n'),
            Some(b'r') => Some(b'\r'),
            Some(b't') => Some(b'\t'),
            _ => None,
        };
        if let Some(byte) = simple {
            out.push(byte);
            pos += 2;
        } else if let Some((c, next)) = unicode_escape(raw, pos) {
            invalid |= c.is_none();
            out.extend_from_slice(c.unwrap_or('\u{fffd}').encode_utf8(&mut [0; 4]).as_bytes());
            pos = next;
        } else {
            invalid = true;
            out.push(b'\\');
            pos += 1;
        }
    }
    (out, invalid)
}

/// `\uXXXX` at `pos`, a surrogate pair included; a lone surrogate is no character.
fn unicode_escape(raw: &[u8], pos: usize) -> Option<(Option<char>, usize)> {
    let unit = |at: usize| {
        let digits = raw.get(at..at + 6)?;
        (digits.starts_with(b"\\u") && digits[2..].iter().all(u8::is_ascii_hexdigit))
            .then(|| u32::from_str_radix(std::str::from_utf8(&digits[2..]).ok()?, 16).ok())?
    };
    let first = unit(pos)?;
    if (0xd800..0xdc00).contains(&first)
        && let Some(second @ 0xdc00..0xe000) = unit(pos + 6)
    {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return Some((char::from_u32(code), pos + 12));
    }
    Some((char::from_u32(first), pos + 6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_resolved_or_taken_literally() {
        for (raw, text, bad) in [
            (r"a\nb", "a\nb", false),
            (r"\u00e9\u20ac", "é€", false),
            (r"\ud83d\ude00", "😀", false),
            (r"\ud83d!", "\u{fffd}!", true),
            (r"\ufffd", "\u{fffd}", false),
            (r"C:\Users\x", r"C:\Users\x", true),
            (r"\u12", r"\u12", true),
            (r#"q\"q\\"#, r#"q"q\"#, false),
        ] {
            let (bytes, invalid) = unescape(raw.as_bytes());
            assert_eq!((String::from_utf8(bytes).unwrap().as_str(), invalid), (text, bad), "{raw}");
        }
    }

    #[test]
    fn fields_are_spans_of_the_buffer() {
        let text = br#"{ "ph" : "X", "args": {"a": [1, "]"], "b": null,}, "ts": 1.5, "x": -Infinity } "#;
        let mut fields = Vec::new();
        let (end, odd) = event(text, 0, &mut fields).unwrap();
        assert_eq!(end, text.len() - 1);
        assert!(!odd.args_not_object);
        assert_eq!(fields.len(), 5);
        assert_eq!((fields[1].place, fields[1].value), (Place::Args, Raw::Json { start: 28, end: 36 }));
        assert_eq!(fields[2].value, Raw::Null);
    }

    #[test]
    fn an_escaped_key_is_the_name_that_it_spells() {
        let text = br#"{"n\u0061me": "mm", "\u0061rgs": {"a": 1}, "\u0061rg": 2}"#;
        let mut fields = Vec::new();
        event(text, 0, &mut fields).unwrap();
        let found: Vec<_> = fields.iter().map(|f| (f.place, f.key_text(text).into_owned())).collect();
        let expected = [(Place::Event, "name"), (Place::Args, "a"), (Place::Event, "arg")];
        assert_eq!(found, expected.map(|(place, key)| (place, key.as_bytes().to_vec())));
    }

    #[test]
    fn what_is_wrong_is_told_apart() {
        let stop = |text: &str| event(text.as_bytes(), 0, &mut Vec::new()).unwrap_err();
        assert_eq!(stop(r#"{"name": "unfinished"#), Stop::Incomplete);
        assert_eq!(stop(r#"{"name": "a "quoted" word", "x": 1}"#), Stop::Malformed);
        assert_eq!(stop(r#"{"name": bogus, "x": 1}"#), Stop::Malformed);
        assert_eq!(stop(r#"{"a": [1, _], "x": 1}"#), Stop::Malformed);
        assert_eq!(stop(r#"{"a" 1}"#), Stop::Malformed);
        assert_eq!(stop(r#"{"a": [[1]"#), Stop::Incomplete);
    }

    proptest! {
        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = event(&bytes, 0, &mut Vec::new());
            let mut object = b"{\"a\":".to_vec();
            object.extend(&bytes);
            let _ = event(&object, 0, &mut Vec::new());
            let _ = unescape(&bytes);
        }
    }
}

//! Numbers from decimal text. Times become whole nanoseconds without passing through a float.

/// A number as the trace has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// How many of the eight bytes are digits, up to the first that is none.
#[inline]
fn digit_count(chunk: u64) -> u32 {
    // Digits become 0..=9; the high bit of each byte then tells the others apart.
    let value = chunk ^ ZEROS;
    ((value.wrapping_add(0x7676_7676_7676_7676) | value) & 0x8080_8080_8080_8080).trailing_zeros() / 8
}

/// Value of the first `count` bytes, 1 to 8 of them, which are digits.
#[inline]
fn digits(chunk: u64, count: u32) -> u64 {
    // Leading zeros in place of what is not ours, then pairs, fours, eights.
    let v = (chunk ^ ZEROS) << (64 - 8 * count);
    let v = v.wrapping_mul(2561) >> 8;
    let v = (v & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    (v & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32
}

const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Bytes of a number that the quick readers look at.
const WINDOW: usize = 24;

/// Up to 16 digits at the start of a window: their value, how many there are, and the eight bytes after them.
#[inline]
fn leading_digits(window: &[u8; WINDOW]) -> Option<(u64, u32, u64)> {
    let (words, _) = window.as_chunks::<8>();
    let word = |i: usize| u64::from_le_bytes(words[i]);
    let after = |i: usize, count: u32| ((u128::from(word(i + 1)) << 64 | u128::from(word(i))) >> (8 * count)) as u64;
    let count = digit_count(word(0));
    if count == 0 {
        return None;
    }
    let high = digits(word(0), count);
    if count < 8 {
        return Some((high, count, after(0, count)));
    }
    let count = digit_count(word(1));
    if count == 0 {
        return Some((high, 8, word(1)));
    }
    Some((high * POWERS[count as usize] + digits(word(1), count), 8 + count, after(1, count)))
}

/// Microseconds with at most three decimals at the start of `text`, as nanoseconds, and what follows. `None` for
/// every other form (and near the end of the text): those go the slow way.
#[inline]
pub(super) fn micros(text: &[u8]) -> Option<(i64, &[u8])> {
    let (whole, count, tail) = leading_digits(text.first_chunk()?)?;
    let [point, a, b, c, after, ..] = tail.to_le_bytes();
    let is_exponent = |byte: u8| byte | 0x20 == b'e';
    // Writers print all three decimals: look at those at once.
    let three = ((tail >> 8) ^ ZEROS) & 0x00ff_ffff;
    let (fraction, len) = if point == b'.' && (three.wrapping_add(0x0076_7676) | three) & 0x0080_8080 == 0 {
        let value = |digit: u8| u64::from(digit & 0x0f);
        (value(a) * 100 + value(b) * 10 + value(c), if is_exponent(after) || after.is_ascii_digit() { 0 } else { 4 })
    } else if point == b'.' {
        few_decimals([a, b, c])
    } else if is_exponent(point) || point.is_ascii_digit() {
        (0, 0)
    } else {
        return Some((i64::try_from(whole * 1000).ok()?, text.get(count as usize..)?));
    };
    if len == 0 {
        return None;
    }
    Some((i64::try_from(whole * 1000 + fraction).ok()?, text.get(count as usize + len..)?))
}

/// One or two decimals: nanoseconds, and how long they are with the point; 0 for another form.
#[cold]
fn few_decimals(bytes: [u8; 3]) -> (u64, usize) {
    let value = |digit: u8| u64::from(digit & 0x0f);
    let ends = |byte: u8| !matches!(byte, b'e' | b'E' | b'-');
    match bytes.map(|b| b.is_ascii_digit()) {
        [true, true, _] if ends(bytes[2]) => (value(bytes[0]) * 100 + value(bytes[1]) * 10, 3),
        [true, false, _] if ends(bytes[1]) => (value(bytes[0]) * 100, 2),
        _ => (0, 0),
    }
}

/// A whole number of at most seven digits at the start of `text`, which most numbers of a trace are, and what follows.
#[inline]
pub(super) fn small(text: &[u8]) -> Option<(u32, &[u8])> {
    let chunk = u64::from_le_bytes(*text.first_chunk()?);
    let count = digit_count(chunk);
    if count == 0 || count == 8 || matches!((chunk >> (8 * count)) as u8, b'.' | b'e' | b'E') {
        return None;
    }
    Some((digits(chunk, count) as u32, text.get(count as usize..)?))
}

/// A whole number or float at the start of `text`, in the forms that occur all the time, and what follows; `None` for
/// the rest.
#[inline]
pub(super) fn number(text: &[u8]) -> Option<(Number, &[u8])> {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let (value, count, tail) = leading_digits(unsigned.first_chunk()?)?;
    let after = tail as u8;
    if matches!(after, b'.' | b'e' | b'E') || after.is_ascii_digit() {
        let (token, rest) = text.split_at_checked(token_end(text, 0)?)?;
        return parse(token).map(|n| (n, rest));
    }
    let value = value as i64;
    let value = if unsigned.len() < text.len() { -value } else { value };
    Some((Number::Int(value), unsigned.get(count as usize..)?))
}

/// Position of the byte that ends the bare word at `pos`.
pub(super) fn token_end(buf: &[u8], pos: usize) -> Option<usize> {
    let ends = |&b: &u8| matches!(b, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t' | b':' | b'"' | b'[' | b'{');
    buf.get(pos..)?.iter().position(ends).map(|i| pos + i)
}

/// Any number a writer may produce: also `NaN`, `inf`, `-Infinity`, and `0.-500`, which is how one writer formats a
/// negative count of nanoseconds.
pub(super) fn parse(token: &[u8]) -> Option<Number> {
    let text = std::str::from_utf8(token).ok()?;
    if let Ok(i) = text.parse::<i64>() {
        return Some(Number::Int(i));
    }
    if let Some((whole, fraction)) = text.split_once(".-") {
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if digits(whole.trim_start_matches('-')) && digits(fraction) {
            let magnitude: f64 = format!("{}.{fraction}", whole.trim_start_matches('-')).parse().ok()?;
            return Some(Number::Float(-magnitude));
        }
    }
    text.parse::<f64>().ok().map(Number::Float)
}

/// Microseconds of any form as nanoseconds: the value and whether digits beyond nanoseconds were rounded away.
/// `None` if it is no finite number, or more than 292 years.
pub(super) fn micros_slow(token: &[u8]) -> Option<(i64, bool)> {
    let text = std::str::from_utf8(token).ok()?.trim();
    let (negative, unsigned) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !whole.is_empty() && plain(whole) && plain(fraction) && fraction.len() <= 3 {
        let ns = format!("{whole}{fraction:0<3}").parse::<i64>().ok()?;
        return Some((if negative { -ns } else { ns }, false));
    }
    let us = match parse(text.as_bytes())? {
        Number::Int(i) => i as f64,
        Number::Float(f) => f,
    };
    let ns = us * 1e3;
    // Sub-nanosecond digits are rounding; an exponent or `0.-500` need not be.
    (ns.is_finite() && ns.abs() < 9.2e18)
        .then(|| (ns.round() as i64, (ns - ns.round()).abs() > 1e-6 * ns.abs().max(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn padded(s: &str) -> Vec<u8> {
        format!("{s}, ------------------------").into_bytes()
    }

    #[test]
    fn times_are_exact_nanoseconds() {
        for (text, ns) in [
            ("6869181218039.954", 6_869_181_218_039_954),
            ("0", 0),
            ("12", 12_000),
            ("24706.900", 24_706_900),
            ("1.5", 1_500),
            ("9999999999999.99", 9_999_999_999_999_990),
            ("1700000000000000.123", 1_700_000_000_000_000_123),
            ("1700000000000000", 1_700_000_000_000_000_000),
            ("12345678", 12_345_678_000),
            ("12345678.9", 12_345_678_900),
        ] {
            let padded = padded(text);
            assert_eq!(micros(&padded), Some((ns, &padded[text.len()..])), "{text}");
            assert_eq!(micros_slow(text.as_bytes()), Some((ns, false)), "{text}");
        }
        for odd in [
            "1.2345",
            "1e3",
            "-1",
            "1.",
            ".5",
            "NaN",
            "0.-500",
            "1.5e3",
            "1.25e3",
            "1.2-",
            "9999999999999999",
            "99999999999999999",
        ] {
            assert_eq!(micros(&padded(odd)), None, "{odd} goes the slow way");
        }
        assert_eq!(micros_slow(b"0.-500"), Some((-500, false)));
        assert_eq!(micros_slow(b"1e3"), Some((1_000_000, false)));
        assert_eq!(micros_slow(b"-2.5"), Some((-2_500, false)));
        assert_eq!(micros_slow(b"1.2345"), Some((1_235, true)));
        assert_eq!(micros_slow(b"NaN"), None);
        assert_eq!(micros_slow(b"1e300"), None);
        assert_eq!(micros_slow(b"x"), None);
    }

    #[test]
    fn odd_numbers_are_read() {
        assert_eq!(parse(b"9223372036854775807"), Some(Number::Int(i64::MAX)));
        assert_eq!(parse(b"18446744073709551616"), Some(Number::Float(18_446_744_073_709_551_616.0)));
        assert_eq!(parse(b"inf"), Some(Number::Float(f64::INFINITY)));
        assert_eq!(parse(b"abc"), None);
        assert_eq!(parse(b"--1"), None);
    }

    proptest! {
        #[test]
        fn fast_numbers_equal_slow_ones(i in -9_999_999_999_999_999i64..9_999_999_999_999_999, f in 0u32..1000, d in 0usize..4) {
            let text = if d == 0 { i.to_string() } else { format!("{i}.{:0d$}", f % 10u32.pow(d as u32)) };
            let buf = padded(&text);
            let (n, rest) = number(&buf).unwrap();
            prop_assert_eq!(rest, &buf[text.len()..]);
            prop_assert_eq!(Some(n), parse(text.as_bytes()));
            if let Some((value, small_rest)) = small(&buf) {
                prop_assert_eq!((Number::Int(i64::from(value)), small_rest), (n, rest));
            }
            if i >= 0 {
                prop_assert_eq!(micros(&buf).map(|(ns, _)| ns), micros_slow(text.as_bytes()).map(|(ns, _)| ns));
            }
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (micros(&bytes), small(&bytes), number(&bytes), micros_slow(&bytes), parse(&bytes));
        }
    }
}

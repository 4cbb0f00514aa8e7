//! Numbers from decimal text. Times become whole nanoseconds without passing through a float.

/// A number as the trace has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// Up to eight digits at `pos`: their value and how many there are. Needs eight readable bytes.
#[inline]
fn digits8(buf: &[u8], pos: usize) -> Option<(u64, u32)> {
    let chunk = u64::from_le_bytes(*buf.get(pos..)?.first_chunk::<8>()?);
    // Bytes that are digits become 0..=9; the high bit of each byte then tells the others apart.
    let value = chunk ^ 0x3030_3030_3030_3030;
    let other = ((value.wrapping_add(0x7676_7676_7676_7676)) | value) & 0x8080_8080_8080_8080;
    let count = other.trailing_zeros() / 8;
    if count == 0 {
        return Some((0, 0));
    }
    // Leading zeros in place of what is not ours, then pairs, fours, eights.
    let v = value << (64 - 8 * count);
    let v = (v & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(2561) >> 8;
    let v = (v & 0x00ff_00ff_00ff_00ff).wrapping_mul(6_553_601) >> 16;
    Some(((v & 0x0000_ffff_0000_ffff).wrapping_mul(42_949_672_960_001) >> 32, count))
}

const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Digits at `pos` (at most 16 of them): value and position after them.
#[inline]
fn digits(buf: &[u8], pos: usize) -> Option<(u64, usize)> {
    let (high, n) = digits8(buf, pos)?;
    if n < 8 {
        return Some((high, pos + n as usize));
    }
    let (low, m) = digits8(buf, pos + 8)?;
    if m == 8 {
        return None;
    }
    Some((high * POWERS[m as usize] + low, pos + 8 + m as usize))
}

/// Microseconds with at most three decimals at `pos`, as nanoseconds. `None` for every other form (and near the end
/// of the buffer): those go the slow way.
#[inline]
pub(super) fn micros(buf: &[u8], pos: usize) -> Option<(i64, usize)> {
    let (whole, end) = digits(buf, pos)?;
    if end == pos {
        return None;
    }
    let tail = *buf.get(end..)?.first_chunk::<8>()?;
    // Writers print all three decimals: look at those at once.
    let word = u64::from_le_bytes(tail);
    let digits = (word >> 8) ^ 0x3030_3030;
    let not_digits = (digits.wrapping_add(0x0076_7676) | digits) & 0x0080_8080;
    if tail[0] == b'.' && not_digits == 0 {
        let [a, b, c, after, ..] = digits.to_le_bytes();
        let fraction = u64::from(a) * 100 + u64::from(b) * 10 + u64::from(c);
        // The fourth byte was flipped too: a digit is below ten.
        let done = after > 9 && !matches!(after ^ 0x30, b'e' | b'E');
        return done.then_some(((whole * 1000 + fraction) as i64, end + 4));
    }
    match tail {
        [b'.', ..] => {
            let (fraction, n) = digits8(buf, end + 1)?;
            let scale = match n {
                1 => 100,
                2 => 10,
                _ => return None,
            };
            let after = end + 1 + n as usize;
            let done = !matches!(buf.get(after)?, b'e' | b'E' | b'-');
            done.then_some(((whole * 1000 + fraction * scale) as i64, after))
        }
        [b'e' | b'E', ..] => None,
        _ => Some(((whole * 1000) as i64, end)),
    }
}

/// A whole number of at most seven digits at `pos`, which most numbers of a trace are.
#[inline]
pub(super) fn small(buf: &[u8], pos: usize) -> Option<(u32, usize)> {
    let (value, n) = digits8(buf, pos)?;
    let end = pos + n as usize;
    let whole = (1..8).contains(&n) && !matches!(buf.get(end)?, b'.' | b'e' | b'E');
    whole.then_some((value as u32, end))
}

/// A whole number or float at `pos`, in the forms that occur all the time; `None` for the rest.
#[inline]
pub(super) fn number(buf: &[u8], pos: usize) -> Option<(Number, usize)> {
    let negative = *buf.get(pos)? == b'-';
    let first = pos + usize::from(negative);
    let (value, end) = digits(buf, first)?;
    if end == first {
        return None;
    }
    if matches!(buf.get(end)?, b'.' | b'e' | b'E') {
        let end = token_end(buf, pos)?;
        return parse(&buf[pos..end]).map(|n| (n, end));
    }
    let value = value as i64;
    Some((Number::Int(if negative { -value } else { value }), end))
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
/// `None` if it is no finite number or out of range.
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
        format!("{s}, ----------------").into_bytes()
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
        ] {
            assert_eq!(micros(&padded(text), 0), Some((ns, text.len())), "{text}");
            assert_eq!(micros_slow(text.as_bytes()), Some((ns, false)), "{text}");
        }
        for odd in ["1.2345", "1e3", "-1", "1.", ".5", "NaN", "0.-500", "99999999999999999"] {
            assert_eq!(micros(&padded(odd), 0), None, "{odd} goes the slow way");
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
        fn fast_numbers_equal_slow_ones(i in -9_999_999_999_999i64..9_999_999_999_999, f in 0u32..1000, d in 0usize..4) {
            let text = if d == 0 { i.to_string() } else { format!("{i}.{:0d$}", f % 10u32.pow(d as u32)) };
            let buf = padded(&text);
            let (n, end) = number(&buf, 0).unwrap();
            prop_assert_eq!(end, text.len());
            prop_assert_eq!(Some(n), parse(text.as_bytes()));
            if let Some((value, small_end)) = small(&buf, 0) {
                prop_assert_eq!((Number::Int(i64::from(value)), small_end), (n, end));
            }
            if i >= 0 {
                prop_assert_eq!(micros(&buf, 0).map(|(ns, _)| ns), micros_slow(text.as_bytes()).map(|(ns, _)| ns));
            }
        }

        #[test]
        fn nothing_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (micros(&bytes, 0), number(&bytes, 0), micros_slow(&bytes), parse(&bytes));
        }
    }
}

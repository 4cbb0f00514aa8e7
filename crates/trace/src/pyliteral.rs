//! JSON values in the notation of Python, which the text forms of the tree and the cells of reports use.

use std::fmt::Write;

use crate::model::Arg;

/// The value of an argument.
pub fn of_arg(value: Arg<'_>) -> String {
    match value {
        Arg::Int(i) => i.to_string(),
        Arg::Float(f) => of_float(f),
        Arg::Text(t) => of_str(t),
        Arg::Json(j) => of_json(j),
        Arg::Bool(true) => "True".to_owned(),
        Arg::Bool(false) => "False".to_owned(),
        Arg::Null => "None".to_owned(),
    }
}

/// A float: the fewest digits that read back as the same number, with an exponent only below 1e-4 and from 1e16.
///
/// Where two such numbers are equally near, the one with the even last digit stands: the standard library's printer
/// takes the other, so `1000000000000000.25` would differ from Python's text.
pub fn of_float(value: f64) -> String {
    let mut out = String::with_capacity(24);
    push_float(&mut out, value);
    out
}

/// Appends the text of [`of_float`].
pub fn push_float(out: &mut String, value: f64) {
    if !value.is_finite() {
        out.push_str(if value.is_nan() { "nan" } else { "inf" });
        if value == f64::NEG_INFINITY {
            out.insert(out.len() - "inf".len(), '-');
        }
        return;
    }
    let mut buffer = zmij::Buffer::new();
    let text = buffer.format_finite(value);
    let magnitude = value.abs();
    if magnitude == 0.0 || (1e-4..1e16).contains(&magnitude) {
        out.push_str(text);
        return;
    }
    let (text, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // The printer writes a few of the small numbers without an exponent: 0.000015 is 1.5 with -5.
    let (sign, text) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let zeros = if whole == "0" { fraction.len() - fraction.trim_start_matches('0').len() + 1 } else { 0 };
    let digits = if zeros > 0 { fraction[zeros - 1..].to_owned() } else { format!("{whole}{fraction}") };
    let exponent = exponent - zeros as i32 + if zeros > 0 { 0 } else { whole.len() as i32 - 1 };
    let (first, rest) = digits.split_at(1);
    let rest = rest.trim_end_matches('0');
    let point = if rest.is_empty() { "" } else { "." };
    let direction = if exponent < 0 { '-' } else { '+' };
    // Writing to a String does not fail.
    let _ = write!(out, "{sign}{first}{point}{rest}e{direction}{:02}", exponent.abs());
}

/// Text in quotes: single ones unless it contains a single and no double one.
pub fn of_str(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_str(&mut out, text);
    out
}

/// Appends the text of [`of_str`].
pub fn push_str(out: &mut String, text: &str) {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(quote);
    // As names of kernels are. No byte ends the search, so that many are looked at in one go.
    let is_plain = |b: u8| matches!(b, b' '..=b'~') && b != b'\\' && b != quote as u8;
    if text.bytes().fold(true, |plain, b| plain & is_plain(b)) {
        out.push_str(text);
        out.push(quote);
        return;
    }
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c => {
                let code = c as u32;
                // Writing to a String does not fail.
                let _ = match code {
                    0..0x100 => write!(out, "\\x{code:02x}"),
                    0x100..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
    out.push(quote);
}

/// Whether a character is shown as it is. Rust and Python escape the same categories in debug output, but Rust also
/// escapes a combining mark that stands first, so none does here.
fn is_printable(c: char) -> bool {
    match c {
        ' '..='~' => true,
        '\0'..='\u{7f}' => false,
        c => String::from_iter(['a', c]).escape_debug().nth(1) == Some(c),
    }
}

/// A JSON text. Goes token by token, so depth costs nothing; what is not JSON is copied.
pub fn of_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let used = match c {
            ' ' | '\t' | '\n' | '\r' => 1,
            ',' | ':' => {
                out.extend([c, ' ']);
                1
            }
            '"' => {
                let used = string_token(rest);
                match serde_json::from_str::<String>(&rest[..used]) {
                    Ok(text) => out.push_str(&of_str(&text)),
                    Err(_) => out.push_str(&rest[..used]),
                }
                used
            }
            '-' | '+' | '.' | '0'..='9' | 'a'..='z' | 'A'..='Z' => {
                let word = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.'));
                let used = rest.find(word).unwrap_or(rest.len());
                out.push_str(&scalar(&rest[..used]));
                used
            }
            c => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = &rest[used..];
    }
    out
}

/// Bytes of the string token at the start of a text.
fn string_token(text: &str) -> usize {
    let mut escaped = false;
    for (i, b) in text.bytes().enumerate().skip(1) {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return i + 1,
            _ => {}
        }
    }
    text.len()
}

fn scalar(token: &str) -> String {
    match token {
        "true" => "True".to_owned(),
        "false" => "False".to_owned(),
        "null" => "None".to_owned(),
        "-0" => "0".to_owned(),
        whole if whole.bytes().all(|b| b.is_ascii_digit() || b == b'-') => whole.to_owned(),
        // Also accepts the NaN and Infinity that some writers put into JSON.
        number => number.parse().map_or_else(|_| number.to_owned(), of_float),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        // Each right side is what Python's repr gives.
        for (value, text) in [
            (5.824, "5.824"),
            (5.0, "5.0"),
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            // 0.01172065734863281250 exactly.
            (12_290.0 / 1_048_576.0, "0.011720657348632812"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.25e300, "1.25e+300"),
            (-1.234e-5, "-1.234e-05"),
            (1e22, "1e+22"),
            (123_456_789_012_345_680_000.0, "1.2345678901234568e+20"),
            (5e-324, "5e-324"),
            (1e15 + 0.25, "1000000000000000.2"),
            (1e15 + 0.75, "1000000000000000.8"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(of_float(value), text);
        }
    }

    #[test]
    fn texts_choose_their_quotes_and_escapes() {
        for (text, literal) in [
            ("c10::Half", "'c10::Half'"),
            ("it's", "\"it's\""),
            ("it's \"x\"", "'it\\'s \"x\"'"),
            ("a\\b\n\t\r\u{1}\u{7f}", "'a\\\\b\\n\\t\\r\\x01\\x7f'"),
            ("µ é e\u{301} \u{a0} \u{200b} 😀 \u{e0001}", "'µ é e\u{301} \\xa0 \\u200b 😀 \\U000e0001'"),
        ] {
            assert_eq!(of_str(text), literal);
        }
    }

    #[test]
    fn json_lists_become_python_lists() {
        for (json, literal) in [
            ("[[1, 141, 512], [512,512], []]", "[[1, 141, 512], [512, 512], []]"),
            ("[\"c10::BFloat16\", \"\"]", "['c10::BFloat16', '']"),
            (
                "[true,false,null,-0,1.0,1e3,2.50,12345678901234567890]",
                "[True, False, None, 0, 1.0, 1000.0, 2.5, 12345678901234567890]",
            ),
            ("{\"a\\u00e9\\\"\": {\"b\":[ ]}}", "{'aé\"': {'b': []}}"),
            ("[NaN, -Infinity, inf]", "[nan, -inf, inf]"),
            ("[\"broken", "[\"broken"),
            ("", ""),
        ] {
            assert_eq!(of_json(json), literal, "{json}");
        }
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        assert_eq!(of_json(&deep), deep);
    }

    #[test]
    fn arguments_of_every_type_have_a_literal() {
        let all = [
            Arg::Int(3),
            Arg::Float(3.0),
            Arg::Text("x"),
            Arg::Json("[1]"),
            Arg::Bool(true),
            Arg::Bool(false),
            Arg::Null,
        ];
        assert_eq!(all.map(of_arg), ["3", "3.0", "'x'", "[1]", "True", "False", "None"]);
    }
}

//! Text to tokens.

use std::ops::Range;

use super::{ExprError, MAX_LENGTH};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Int(i128),
    Float(f64),
    Text(String),
    Name(String),
    /// An operator or bracket.
    Symbol(&'static str),
    End,
}

/// Two-letter symbols stand before the one-letter ones they begin with.
const SYMBOLS: &[&str] = &["//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "<", ">", "(", ")", "[", "]", ","];

/// What people write from habit in other languages.
const FOREIGN: &[(&str, &str)] = &[
    ("**", "write `x * x`"),
    ("&&", "write `and`"),
    ("||", "write `or`"),
    ("!", "write `not`"),
    ("=", "equality is `==`"),
    ("?", "write `if(condition, then, otherwise)`"),
];

/// The tokens of `text` with their places; the last one is [`Token::End`].
pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Range<usize>)>, ExprError> {
    if text.len() > MAX_LENGTH {
        let message = format!("the expression has {} bytes, at most {MAX_LENGTH} are allowed", text.len());
        return Err(ExprError::new(0..text.len(), message).with_help("give parts of it a name under `params`"));
    }
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let start = at;
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let token = match c {
            '0'..='9' | '.' => number(text, &mut at)?,
            'a'..='z' | 'A'..='Z' | '_' => {
                at += run(&text[at..], |c| c.is_ascii_alphanumeric() || c == '_');
                Token::Name(text[start..at].to_owned())
            }
            '\'' | '"' => quoted(text, c, &mut at)?,
            _ => symbol(text, c, &mut at)?,
        };
        out.push((token, start..at));
    }
    out.push((Token::End, text.len()..text.len()));
    Ok(out)
}

/// Bytes at the start of `text` whose characters all satisfy `accept`.
fn run(text: &str, accept: impl Fn(char) -> bool) -> usize {
    text.find(|c| !accept(c)).unwrap_or(text.len())
}

fn number(text: &str, at: &mut usize) -> Result<Token, ExprError> {
    let start = *at;
    *at += run(&text[*at..], |c| c.is_ascii_alphanumeric() || c == '.' || c == '_');
    // The sign of an exponent belongs to the number: `1e-3`.
    let signed_exponent = text[start..*at].ends_with(['e', 'E']) && text[*at..].starts_with(['+', '-']);
    if signed_exponent {
        *at += 1;
        *at += run(&text[*at..], |c| c.is_ascii_digit());
    }
    let span = start..*at;
    let digits = text[span.clone()].replace('_', "");
    if let Ok(whole) = digits.parse() {
        return Ok(Token::Int(whole));
    }
    match digits.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(Token::Float(x)),
        Ok(_) => Err(ExprError::new(span, "the number is too large")),
        Err(_) => Err(ExprError::new(span.clone(), format!("`{}` is not a number", &text[span]))),
    }
}

/// Text between quotes, without escapes: type names and words need none.
fn quoted(text: &str, quote: char, at: &mut usize) -> Result<Token, ExprError> {
    let start = *at;
    let inside = start + 1;
    let Some(length) = text[inside..].find(quote) else {
        return Err(ExprError::new(start..text.len(), "this quote is never closed"));
    };
    *at = inside + length + 1;
    Ok(Token::Text(text[inside..inside + length].to_owned()))
}

fn symbol(text: &str, c: char, at: &mut usize) -> Result<Token, ExprError> {
    let rest = &text[*at..];
    // `**` is no product of products.
    let known = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)).filter(|_| !rest.starts_with("**"));
    if let Some(symbol) = known {
        *at += symbol.len();
        return Ok(Token::Symbol(symbol));
    }
    if let Some((symbol, help)) = FOREIGN.iter().find(|(symbol, _)| rest.starts_with(symbol)) {
        let span = *at..*at + symbol.len();
        return Err(ExprError::new(span, format!("`{symbol}` is no operator here")).with_help(*help));
    }
    let shown = if c.is_control() { c.escape_unicode().to_string() } else { c.to_string() };
    Err(ExprError::new(*at..*at + c.len_utf8(), format!("`{shown}` has no meaning here")))
}

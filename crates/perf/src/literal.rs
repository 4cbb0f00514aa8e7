//! Reads Python literals: the text form of lists and scalars in a trace's `Concrete Inputs`.

use crate::value::Value;

/// Deeper nesting than any argument has; a hostile text must not exhaust the stack.
const MAX_DEPTH: usize = 16;

/// The literal that `text` spells, or `None` if it is none (the empty text is none).
pub fn parse(text: &str) -> Option<Value> {
    let mut reader = Reader { rest: text.trim() };
    let value = reader.value(0)?;
    reader.rest.trim().is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Option<Value> {
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            _ if depth > MAX_DEPTH => None,
            '[' => self.items(']', depth).map(|(items, _)| Value::List(items)),
            '(' => self.items(')', depth).map(|(mut items, comma)| match items.pop() {
                Some(only) if items.is_empty() && !comma => only,
                Some(last) => {
                    items.push(last);
                    Value::Tuple(items)
                }
                None => Value::Tuple(items),
            }),
            quote @ ('\'' | '"') => self.string(quote),
            _ => self.word(),
        }
    }

    /// Items up to `close`, and whether a comma stood among them.
    fn items(&mut self, close: char, depth: usize) -> Option<(Vec<Value>, bool)> {
        self.rest = &self.rest[1..];
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            self.rest = self.rest.trim_start();
            if let Some(rest) = self.rest.strip_prefix(close) {
                self.rest = rest;
                return Some((items, comma));
            }
            if !items.is_empty() {
                self.rest = self.rest.strip_prefix(',')?.trim_start();
                comma = true;
                if self.rest.starts_with(close) {
                    continue;
                }
            }
            items.push(self.value(depth + 1)?);
        }
    }

    fn string(&mut self, quote: char) -> Option<Value> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => text.push(match chars.next()?.1 {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    other => other,
                }),
                c if c == quote => {
                    self.rest = &self.rest[at + c.len_utf8()..];
                    return Some(Value::Str(text));
                }
                c => text.push(c),
            }
        }
        None
    }

    fn word(&mut self) -> Option<Value> {
        let end = self.rest.find([',', ']', ')']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        match word.trim() {
            "None" => Some(Value::None),
            "True" => Some(Value::Bool(true)),
            "False" => Some(Value::Bool(false)),
            number => {
                let whole = number.parse().ok().map(Value::Int);
                // `inf` and `nan` are names in Python, not literals.
                whole.or_else(|| {
                    number
                        .ends_with(|c: char| c.is_ascii_digit() || c == '.')
                        .then(|| number.parse().ok())?
                        .map(Value::Float)
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_print_back_to_themselves() {
        for text in
            ["None", "True", "-3", "2.5", "[]", "[1, 1]", "(5,)", "()", "[[1, 2], [3]]", "['a', None]", "(1, (2, 3))"]
        {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse(" [ 1,2 , ] "), Some(Value::List(vec![Value::Int(1), Value::Int(2)])));
        assert_eq!(parse("(7)"), Some(Value::Int(7)));
        assert_eq!(parse("0."), Some(Value::Float(0.0)));
        assert_eq!(parse("1e-05"), Some(Value::Float(1e-5)));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["", "[1", "1]", "[,]", "nan", "cuda:0", "'open", "[1 2]", "inf"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"[".repeat(100_000)), None);
    }
}

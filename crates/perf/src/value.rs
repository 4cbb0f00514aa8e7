//! Literals as they stand in a trace's argument texts and in table cells.

use std::fmt::{self, Write as _};

use jarvis_trace::pyliteral;

/// A literal: what an argument or a model parameter can be.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `None`.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number with a point.
    Float(f64),
    /// Text.
    Str(String),
    /// `[a, b]`.
    List(Vec<Value>),
    /// `(a, b)`.
    Tuple(Vec<Value>),
}

impl Value {
    /// A tuple of whole numbers, the usual form of a shape.
    pub fn shape(dims: &[i64]) -> Self {
        Self::Tuple(dims.iter().map(|&d| Self::Int(d)).collect())
    }

    /// A tuple of texts, the usual form of a group of types.
    pub fn texts(items: &[&str]) -> Self {
        Self::Tuple(items.iter().map(|&s| Self::from(s)).collect())
    }

    /// Whether Python takes the value for true.
    pub fn truth(&self) -> bool {
        match self {
            Self::None => false,
            Self::Bool(b) => *b,
            Self::Int(i) => *i != 0,
            Self::Float(x) => *x != 0.0,
            Self::Str(s) => !s.is_empty(),
            Self::List(items) | Self::Tuple(items) => !items.is_empty(),
        }
    }

    /// The whole numbers of a list or tuple, or of a lone number; `None` if anything else is among them.
    pub fn ints(&self) -> Option<Vec<i64>> {
        match self {
            Self::Int(i) => Some(vec![*i]),
            Self::List(items) | Self::Tuple(items) => {
                items.iter().map(|v| if let Self::Int(i) = v { Some(*i) } else { None }).collect()
            }
            _ => None,
        }
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Self::Int(i)
    }
}

impl From<f64> for Value {
    fn from(f: f64) -> Self {
        Self::Float(f)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::Str(s.to_owned())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(o: Option<T>) -> Self {
        o.map_or(Self::None, Into::into)
    }
}

/// Prints the literal as Python's `repr` does: this is the cell text of the reference tables.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.push_to(&mut text);
        f.write_str(&text)
    }
}

impl Value {
    /// Appends the literal, as its `Display` prints it.
    pub fn push_to(&self, out: &mut String) {
        match self {
            Self::None => out.push_str("None"),
            Self::Bool(true) => out.push_str("True"),
            Self::Bool(false) => out.push_str("False"),
            // Writing to a String does not fail.
            Self::Int(i) => _ = write!(out, "{i}"),
            Self::Float(x) => pyliteral::push_float(out, *x),
            Self::Str(s) => pyliteral::push_str(out, s),
            Self::List(items) => {
                out.push('[');
                push_joined(out, items);
                out.push(']');
            }
            Self::Tuple(items) => {
                out.push('(');
                push_joined(out, items);
                out.push_str(if items.len() == 1 { ",)" } else { ")" });
            }
        }
    }
}

fn push_joined(out: &mut String, items: &[Value]) {
    for (i, item) in items.iter().enumerate() {
        out.push_str(if i > 0 { ", " } else { "" });
        item.push_to(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        for (x, text) in [
            (0.0, "0.0"),
            (2048.0, "2048.0"),
            (0.1, "0.1"),
            (1e16, "1e+16"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
        ] {
            assert_eq!(Value::Float(x).to_string(), text);
        }
    }

    #[test]
    fn containers_and_quotes() {
        let v = Value::Tuple(vec![Value::Int(5)]);
        assert_eq!(v.to_string(), "(5,)");
        let v = Value::List(vec![Value::from("a"), Value::None, Value::Tuple(vec![]), Value::from(true)]);
        assert_eq!(v.to_string(), "['a', None, (), True]");
        assert_eq!(Value::from("it's").to_string(), "\"it's\"");
        assert_eq!(Value::from("a'b\"c").to_string(), "'a\\'b\"c'");
    }
}

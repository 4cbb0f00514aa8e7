//! Keys and values: what a family takes, and reading what it is given.

use crate::calculator::{CalculatorError, Outcome};
use crate::dtype;
use crate::literal;
use crate::nearest::nearest;
use crate::parity::Quirks;
use crate::value::Value;

/// A kind of operation that can be costed without a trace.
pub struct Family {
    /// Name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    /// Arguments of a call that works.
    pub example: &'static str,
    /// What it takes, in the order in which it is shown.
    pub keys: &'static [Key],
    /// The formula.
    pub(super) run: fn(&Given<'_>) -> Result<Outcome, CalculatorError>,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name; case does not count.
    pub name: &'static str,
    /// Other names it answers to.
    pub aliases: &'static [&'static str],
    /// What its value is.
    pub form: Form,
    /// What holds if it is not given.
    pub fallback: Fallback,
    /// What it means.
    pub meaning: &'static str,
}

/// What a value is.
#[derive(Debug, Clone, Copy)]
pub enum Form {
    /// A whole number above 0.
    Int,
    /// A whole number from 0 on, or several, one a dimension.
    Steps,
    /// Sizes of a tensor.
    Shape,
    /// Yes or no.
    Flag,
    /// A type.
    DType,
    /// One of these.
    Word(&'static [&'static str]),
    /// A list as a trace has it.
    List,
}

/// What holds if a key is not given.
#[derive(Debug, Clone, Copy)]
pub enum Fallback {
    /// Nothing: it must be given.
    Required,
    /// Nothing: the formula does without.
    Absent,
    /// This value.
    Value(&'static str),
    /// The value of another key.
    Key(&'static str),
}

impl Key {
    pub(super) const fn required(name: &'static str, form: Form, meaning: &'static str) -> Self {
        Self { name, aliases: &[], form, fallback: Fallback::Required, meaning }
    }

    pub(super) const fn optional(name: &'static str, form: Form, value: &'static str, meaning: &'static str) -> Self {
        Self { name, aliases: &[], form, fallback: Fallback::Value(value), meaning }
    }

    pub(super) const fn fallback(self, fallback: Fallback) -> Self {
        Self { fallback, ..self }
    }

    pub(super) const fn aliases(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    /// `M=`, `[B=1]`, `[bias]`.
    pub fn usage(&self) -> String {
        let Self { name, fallback, form, .. } = self;
        let words = if let Form::Word(words) = form { words.join("|") } else { String::new() };
        match fallback {
            Fallback::Required => format!("{name}={words}"),
            Fallback::Value("no") => format!("[{name}]"),
            Fallback::Value(value) if words.is_empty() => format!("[{name}={value}]"),
            Fallback::Key(other) => format!("[{name}={other}]"),
            Fallback::Absent | Fallback::Value(_) => format!("[{name}={words}]"),
        }
    }

    fn answers_to(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name) || self.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    }
}

/// A type, as the user means it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Type {
    /// Its name in a trace.
    pub(super) name: String,
    /// Bytes of an element.
    pub(super) bytes: f64,
    /// Label of matrix work.
    pub(super) precision: Option<&'static str>,
}

/// Words for types: word, name in a trace, bytes.
const TYPES: &[(&str, &str, f64)] = &[
    ("fp64", "double", 8.0),
    ("fp32", "float", 4.0),
    ("tf32", "float", 4.0),
    ("fp16", "c10::Half", 2.0),
    ("bf16", "c10::BFloat16", 2.0),
    ("fp8", "c10::Float8_e4m3fn", 1.0),
    ("fp4", "c10::Float4_e2m1fn_x2", 0.5),
    ("int64", "long int", 8.0),
    ("int32", "int", 4.0),
    ("int16", "short int", 2.0),
    ("int8", "signed char", 1.0),
    ("uint8", "unsigned char", 1.0),
    ("bool", "bool", 1.0),
];

impl Type {
    /// A word such as `bf16`, or a name as a trace writes it.
    pub(super) fn read(text: &str) -> Option<Self> {
        if let Some(&(word, name, bytes)) = TYPES.iter().find(|(word, ..)| word.eq_ignore_ascii_case(text)) {
            let precision = if word == "tf32" { Some("tf32") } else { dtype::precision(name, &Quirks::NONE) };
            return Some(Self { name: name.to_owned(), bytes, precision });
        }
        let bytes = dtype::size(text, &Quirks::NONE)? as f64;
        Some(Self { name: text.to_owned(), bytes, precision: dtype::precision(text, &Quirks::NONE) })
    }

    /// Whether two elements share a byte.
    pub(super) fn is_packed(&self) -> bool {
        self.bytes < 1.0
    }
}

/// The values of one request.
pub(super) struct Given<'a> {
    pub(super) model: &'a str,
    keys: &'static [Key],
    /// One entry a key.
    values: Vec<Option<String>>,
}

impl<'a> Given<'a> {
    pub(super) fn read(
        model: &'a str,
        keys: &'static [Key],
        given: &[(&str, Option<&str>)],
    ) -> Result<Self, CalculatorError> {
        let mut values: Vec<Option<String>> = vec![None; keys.len()];
        for &(name, value) in given {
            let Some(at) = keys.iter().position(|key| key.answers_to(name)) else {
                let suggestion = nearest(name, keys.iter().map(|key| key.name));
                return Err(CalculatorError::UnknownKey { model: model.to_owned(), key: name.to_owned(), suggestion });
            };
            if values[at].is_some() {
                return Err(CalculatorError::Twice { model: model.to_owned(), key: keys[at].name });
            }
            // A bare key is a flag; for any other key the empty value is told below.
            let bare = if matches!(keys[at].form, Form::Flag) { "yes" } else { "" };
            values[at] = Some(value.unwrap_or(bare).trim().to_owned());
        }
        for (at, key) in keys.iter().enumerate() {
            let value = match (&values[at], key.fallback) {
                (None, Fallback::Required) => {
                    let Key { name, meaning, .. } = *key;
                    return Err(CalculatorError::MissingKey { model: model.to_owned(), key: name, meaning });
                }
                (None, Fallback::Value(value)) => Some(value.to_owned()),
                (None, Fallback::Key(other)) => {
                    keys.iter().position(|key| key.name == other).and_then(|at| values[at].clone())
                }
                (given, _) => given.clone(),
            };
            values[at] = value;
        }
        Ok(Self { model, keys, values })
    }

    /// Keys and values, defaults included, as they are shown.
    pub(super) fn shown(&self) -> Vec<(String, String)> {
        let pairs = self.keys.iter().zip(&self.values);
        pairs.filter_map(|(key, value)| Some((key.name.to_owned(), value.clone()?))).collect()
    }

    /// The text of a key; `None` if there is none.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        let at = self.keys.iter().position(|key| key.name == name)?;
        self.values[at].as_deref()
    }

    /// The complaint about a key's value.
    pub(super) fn wrong(&self, name: &'static str, expected: impl Into<String>) -> CalculatorError {
        let value = self.text(name).unwrap_or_default().to_owned();
        CalculatorError::Value { model: self.model.to_owned(), key: name, value, expected: expected.into() }
    }

    pub(super) fn int(&self, name: &'static str) -> Result<i64, CalculatorError> {
        let parsed = self.text(name).and_then(whole).filter(|&n| n > 0);
        parsed.ok_or_else(|| self.wrong(name, "a whole number above 0"))
    }

    pub(super) fn flag(&self, name: &'static str) -> Result<bool, CalculatorError> {
        match self.text(name).unwrap_or("no").to_ascii_lowercase().as_str() {
            "yes" | "true" | "on" | "1" => Ok(true),
            "no" | "false" | "off" | "0" => Ok(false),
            _ => Err(self.wrong(name, "yes or no")),
        }
    }

    pub(super) fn dtype(&self, name: &'static str) -> Result<Type, CalculatorError> {
        self.text(name).and_then(Type::read).ok_or_else(|| self.wrong(name, known_types()))
    }

    /// The complaint about one of the types in a key's value.
    pub(super) fn unknown_type(&self, name: &'static str, word: &str) -> CalculatorError {
        self.wrong(name, format!("{}, not `{word}`", known_types()))
    }

    /// A type of whole bytes: packed ones are understood by products alone.
    pub(super) fn whole_dtype(&self, name: &'static str) -> Result<(Type, i64), CalculatorError> {
        let dtype = self.dtype(name)?;
        if dtype.is_packed() {
            return Err(self.wrong(name, "a type of at least one byte"));
        }
        let bytes = dtype.bytes as i64;
        Ok((dtype, bytes))
    }

    pub(super) fn word(&self, name: &'static str) -> Result<&'static str, CalculatorError> {
        let form = self.keys.iter().find(|key| key.name == name).map(|key| key.form);
        let Some(Form::Word(words)) = form else { return Err(self.wrong(name, "a word")) };
        let text = self.text(name).unwrap_or_default();
        let found = words.iter().find(|word| word.eq_ignore_ascii_case(text));
        found.copied().ok_or_else(|| self.wrong(name, format!("one of {}", words.join(", "))))
    }

    /// `8,3,224,224`, `8x3x224x224` or `[8, 3, 224, 224]`.
    pub(super) fn shape(&self, name: &'static str) -> Result<Vec<i64>, CalculatorError> {
        let sizes = self.text(name).and_then(sizes).filter(|sizes| sizes.iter().all(|&size| size > 0));
        sizes.ok_or_else(|| self.wrong(name, "sizes above 0, such as 8,3,224,224"))
    }

    /// One number a dimension, or one for all.
    pub(super) fn steps(&self, name: &'static str, dims: usize) -> Result<Vec<i64>, CalculatorError> {
        let steps = self.text(name).and_then(sizes).filter(|steps| steps.iter().all(|&step| step >= 0));
        match steps {
            Some(steps) if steps.len() == dims => Ok(steps),
            Some(steps) if steps.len() == 1 => Ok(vec![steps[0]; dims]),
            _ => Err(self.wrong(name, format!("one number, or {dims} of them"))),
        }
    }
}

/// What a type may be.
fn known_types() -> String {
    let words: Vec<&str> = TYPES.iter().map(|(word, ..)| *word).collect();
    format!("a type: {} or a name from a trace", words.join(", "))
}

/// `4096`, `4_096`.
fn whole(text: &str) -> Option<i64> {
    text.replace('_', "").parse().ok()
}

/// A list of whole numbers, in brackets or not.
pub(super) fn sizes(text: &str) -> Option<Vec<i64>> {
    if text.starts_with(['[', '(']) {
        return literal::parse(text).as_ref().and_then(Value::ints);
    }
    if text.is_empty() {
        return None;
    }
    text.split([',', 'x', 'X']).map(|part| whole(part.trim())).collect()
}

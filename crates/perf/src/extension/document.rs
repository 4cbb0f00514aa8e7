//! The text of an extension file: TOML or JSON, with the place of every key and value.

use std::fmt;
use std::ops::Range;

use jarvis_trace::InOrder;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use toml::de::{DeTable, DeValue};

use super::{ExtensionError, MAX_FILE_BYTES};
use crate::settings_text::{self, Form};

/// Longest part of a line that an error shows.
const SHOWN_COLUMNS: usize = 120;

/// A file's text and the name by which errors call it.
#[derive(Debug, PartialEq)]
pub(super) struct Source {
    pub(super) label: String,
    pub(super) text: String,
}

/// A key and its value.
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) value: Node,
}

/// A value and its place.
pub(super) struct Node {
    pub(super) span: Range<usize>,
    pub(super) kind: NodeKind,
}

pub(super) enum NodeKind {
    /// Text without its quotes, or a number or truth value as it is written.
    Scalar {
        text: String,
        quoted: bool,
    },
    Table(Vec<Entry>),
    /// Anything else, in words.
    Other(&'static str),
}

impl NodeKind {
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Scalar { quoted: true, .. } => "text",
            Self::Scalar { quoted: false, .. } => "a number or truth value",
            Self::Table(_) => "a table",
            Self::Other(words) => words,
        }
    }
}

impl Source {
    /// The entries of the file, in its own order.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, ExtensionError> {
        if self.text.len() > MAX_FILE_BYTES {
            let message = format!("the file has {} bytes, at most {MAX_FILE_BYTES} are allowed", self.text.len());
            return Err(self.error(0..0, message, None));
        }
        match settings_text::form(&self.text) {
            Form::Object => self.json(&self.text, 0),
            Form::Toml => self.toml(),
            Form::List => {
                let bracket = self.text.find('[').unwrap_or(0);
                Err(self.error(bracket..bracket + 1, "expected an object, found a list".to_owned(), None))
            }
        }
    }

    /// Line and column of a byte, both from 1; columns count characters.
    pub(super) fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// An error that points at `span`.
    pub(super) fn error(&self, span: Range<usize>, message: String, help: Option<String>) -> ExtensionError {
        let (line, column) = self.position(span.start);
        let source_line = self.text.lines().nth(line - 1).unwrap_or("");
        let spanned = self.text.get(span).and_then(|text| text.lines().next()).unwrap_or("");
        // A window of a long line, and nothing a terminal could take for a command.
        let skipped = (column + 20).saturating_sub(SHOWN_COLUMNS);
        let shown: Vec<char> = source_line
            .chars()
            .skip(skipped)
            .take(SHOWN_COLUMNS)
            .map(|c| {
                if c == '\t' {
                    ' '
                } else if c.is_control() {
                    '\u{fffd}'
                } else {
                    c
                }
            })
            .collect();
        let indent = (column - 1 - skipped).min(shown.len());
        let width = spanned.chars().count().clamp(1, (shown.len() - indent).max(1));
        ExtensionError {
            file: self.label.clone(),
            line,
            column,
            message,
            excerpt: format!("{}\n{}{}", shown.into_iter().collect::<String>(), " ".repeat(indent), "^".repeat(width)),
            help,
        }
    }

    /// Where byte `offset` of a text value stands in the file: exactly, unless escapes hide it.
    pub(super) fn inside(&self, node: &Range<usize>, text: &str, part: &Range<usize>) -> Range<usize> {
        let written = self.text.get(node.clone()).unwrap_or("");
        match written.find(text) {
            Some(begin) => node.start + begin + part.start..node.start + begin + part.end,
            None => node.clone(),
        }
    }

    fn toml(&self) -> Result<Vec<Entry>, ExtensionError> {
        let table = DeTable::parse(&self.text).map_err(|e| {
            let span = e.span().unwrap_or(0..0);
            self.error(span, e.message().trim().replace('\n', "; "), None)
        })?;
        Ok(self.toml_table(table.get_ref()))
    }

    fn toml_table(&self, table: &DeTable<'_>) -> Vec<Entry> {
        let mut entries: Vec<Entry> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().to_string(),
                key_span: key.span(),
                value: Node { span: value.span(), kind: self.toml_value(value.get_ref(), value.span()) },
            })
            .collect();
        // The parser sorts by name; parameters need the order of the file.
        entries.order_by_key(|entry| entry.key_span.start);
        entries
    }

    fn toml_value(&self, value: &DeValue<'_>, span: Range<usize>) -> NodeKind {
        match value {
            DeValue::String(text) => NodeKind::Scalar { text: text.to_string(), quoted: true },
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
                NodeKind::Scalar { text: self.text.get(span).unwrap_or("").to_owned(), quoted: false }
            }
            DeValue::Table(table) => NodeKind::Table(self.toml_table(table)),
            DeValue::Array(_) => NodeKind::Other("a list"),
            DeValue::Datetime(_) => NodeKind::Other("a date"),
        }
    }

    /// `part` is a piece of the file's text that holds one JSON object, `depth` objects down.
    fn json(&self, part: &str, depth: usize) -> Result<Vec<Entry>, ExtensionError> {
        let members: Members<'_> = serde_json::from_str(part).map_err(|e| self.json_error(&e))?;
        let mut entries = Vec::with_capacity(members.0.len());
        let mut from = self.offset_of(part) + 1;
        for (key, raw) in members.0 {
            let start = self.offset_of(raw.get());
            let span = start..start + raw.get().len();
            // Only blanks and a comma stand between the last value and the quote that opens the key.
            let quote = self.text[from..start].find('"').map_or(start, |at| from + at);
            let key_end = self.text[quote..start].rfind('"').map_or(start, |at| quote + at + 1);
            from = span.end;
            let kind = match raw.get().as_bytes().first() {
                // The deepest table that means something is a parameter list, at 3.
                Some(b'{') if depth >= 3 => NodeKind::Other("a table"),
                Some(b'{') => NodeKind::Table(self.json(raw.get(), depth + 1)?),
                Some(b'"') => {
                    let text = serde_json::from_str(raw.get()).map_err(|e| self.json_error(&e))?;
                    NodeKind::Scalar { text, quoted: true }
                }
                Some(b'[') => NodeKind::Other("a list"),
                Some(b'n') => NodeKind::Other("null"),
                _ => NodeKind::Scalar { text: raw.get().to_owned(), quoted: false },
            };
            entries.push(Entry { key, key_span: quote..key_end, value: Node { span, kind } });
        }
        Ok(entries)
    }

    /// Where a piece of the file's own text begins.
    fn offset_of(&self, part: &str) -> usize {
        (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize).min(self.text.len())
    }

    fn json_error(&self, error: &serde_json::Error) -> ExtensionError {
        let line_start: usize =
            self.text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
        let mut offset = (line_start + error.column().saturating_sub(1)).min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let text = error.to_string();
        let message = text.split(" at line ").next().unwrap_or(&text);
        self.error(offset..offset, format!("not valid JSON: {message}"), None)
    }
}

/// The members of a JSON object in their own order, values as pieces of the text.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    members.push((key, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

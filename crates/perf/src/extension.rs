//! User models: what an operation costs, told in a file instead of in code.
//!
//! A file maps operation names to a category, parameters, FLOPs and bytes, written as expressions over the call's
//! inputs (`docs/extensions.md`). It is data: it can't read files, call anything or run for long. This module gets
//! the text and knows nothing of where it was found.

mod document;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::call::OpCall;
use crate::dtype;
use crate::expr::{Expr, Item, Scope, is_parameter_name};
use crate::models::{ComputeUnit, Cost, ModelError};
use crate::nearest::nearest;
use crate::parity::Quirks;
use crate::settings_text::without_mark;
use crate::value::Value;
use document::{Entry, Node, NodeKind, Source};
use jarvis_trace::InOrder;

/// Largest file accepted, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;

/// Most parameters of one operation.
const MAX_PARAMS: usize = 64;

/// Precisions that `precision` may name outright.
const PRECISIONS: &[&str] = &["fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "fp6", "fp4", "int8"];

/// Longest name of a category, in characters.
const MAX_CATEGORY: usize = 80;

/// What the parts of reports are called that are about no category of operations.
const RESERVED: &[&str] =
    &["cpu_idle", "multi_kernel", "kernel_fusion", "recomputation", "kernels", "further", "remainder"];

/// Keys of an operation's table.
const KEYS: &[&str] = &["category", "bwd_category", "unit", "precision", "params", "flops", "bytes", "unless"];

/// What is wrong with an extension file, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtensionError {
    /// The file, as it was named to [`Extension::parse`].
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: String,
    /// The line, and below it a mark under the place.
    pub excerpt: String,
    help: Option<String>,
}

impl ExtensionError {
    /// What to write instead, if that can be told.
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for ExtensionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, message, excerpt, .. } = self;
        write!(f, "{file}:{line}:{column}: {message}")?;
        let number = line.to_string();
        let margin = " ".repeat(number.len());
        for (i, text) in excerpt.lines().enumerate() {
            write!(f, "\n {} | {text}", if i == 0 { &number } else { &margin })?;
        }
        Ok(())
    }
}

impl std::error::Error for ExtensionError {}

/// The operations of one or several extension files.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Extension {
    ops: Vec<ExtensionOp>,
}

impl Extension {
    /// Reads a file's text, TOML or JSON. `label` is what errors call the file.
    pub fn parse(text: &str, label: &str) -> Result<Self, ExtensionError> {
        let source = Arc::new(Source { label: label.to_owned(), text: without_mark(text).to_owned() });
        let mut read: Vec<(ExtensionOp, Range<usize>)> = Vec::new();
        for entry in source.entries()? {
            let NodeKind::Table(tables) = entry.value.kind else {
                return Err(stray(&source, &entry));
            };
            if entry.key != "op" {
                let quoted = format!("write [op.\"{}\"]", entry.key);
                return Err(source.error(entry.key_span, format!("unknown table `{}`", entry.key), Some(quoted)));
            }
            for table in tables {
                let span = table.key_span.clone();
                read.push((ExtensionOp::read(&source, table)?, span));
            }
        }
        read.order_by(|(a, _), (b, _)| a.name.cmp(&b.name));
        if let Some([_, (op, span)]) = read.array_windows().find(|[(a, _), (b, _)]| a.name == b.name) {
            return Err(source.error(span.clone(), format!("`{}` is given twice", op.name), None));
        }
        Ok(Self { ops: read.into_iter().map(|(op, _)| op).collect() })
    }

    /// The user's word on the operation of this name.
    pub fn get(&self, name: &str) -> Option<&ExtensionOp> {
        let place = self.ops.binary_search_by(|op| op.name.as_str().cmp(name)).ok()?;
        Some(&self.ops[place])
    }

    /// All operations, sorted by name.
    pub fn ops(&self) -> &[ExtensionOp] {
        &self.ops
    }

    /// Adds the operations of `other`; where both have one, that of `other` holds.
    pub fn overlay(&mut self, other: Self) {
        self.ops.retain(|op| other.get(&op.name).is_none());
        self.ops.extend(other.ops);
        self.ops.order_by(|a, b| a.name.cmp(&b.name));
    }
}

/// One operation of an extension file.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtensionOp {
    /// Operation name, such as `aten::softmax`.
    pub name: String,
    /// Category; `None` leaves the built-in one.
    pub category: Option<String>,
    /// Category of the backward work; `None` leaves the built-in one.
    pub bwd_category: Option<String>,
    unit: ComputeUnit,
    precision: Precision,
    params: Vec<(String, Formula)>,
    flops: Option<Formula>,
    bytes: Option<Formula>,
    unless: Option<Formula>,
    source: Arc<Source>,
}

/// What an extension says of one call.
#[derive(Debug, Clone, PartialEq)]
pub struct Evaluated {
    /// FLOPs, bytes, unit and precision.
    pub cost: Cost,
    /// Parameters in the order of the file.
    pub params: Vec<(String, Value)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Precision {
    Unknown,
    Word(&'static str),
    /// That of a type: `T[0]`.
    OfType(Formula),
}

/// An expression and its place in the file.
#[derive(Debug, Clone, PartialEq)]
struct Formula {
    expr: Expr,
    text: String,
    span: Range<usize>,
}

impl ExtensionOp {
    /// Whether the file gives numbers for this operation and not just a category.
    pub fn has_model(&self) -> bool {
        self.flops.is_some() || self.bytes.is_some()
    }

    /// Costs one call. Fails where an expression does, or where `unless` holds; a type of unknown size leaves FLOPs or
    /// bytes open.
    pub fn evaluate(&self, call: &OpCall<'_>, quirks: &Quirks) -> Result<Evaluated, ModelError> {
        if !self.has_model() {
            return Err(ModelError::fail(format!("the extension gives `{}` a category and no numbers", self.name)));
        }
        let mut items: Vec<Item<'_>> = Vec::with_capacity(self.params.len());
        let mut params = Vec::with_capacity(self.params.len());
        for (name, formula) in &self.params {
            let item = self.run(name, formula, &Scope { inputs: call.inputs, params: &items, quirks })?;
            let value = item.to_value().ok_or_else(|| self.fail(name, formula, None, "pick an entry, such as D[0]"))?;
            params.push((name.clone(), value));
            items.push(item);
        }
        let scope = Scope { inputs: call.inputs, params: &items, quirks };
        if let Some(unless) = &self.unless {
            match self.run("unless", unless, &scope)? {
                Item::Bool(false) => {}
                Item::Bool(true) => return Err(self.fail("unless", unless, None, "the call is not to be modelled")),
                other => {
                    let message = format!("expected true or false, found {}", other.kind());
                    return Err(self.fail("unless", unless, None, &message));
                }
            }
        }
        let flops = self.amount("flops", self.flops.as_ref(), &scope)?;
        let bytes = self.amount("bytes", self.bytes.as_ref(), &scope)?;
        let precision = self.precision_of(&scope)?.map(Into::into);
        Ok(Evaluated { cost: Cost { flops, bytes, unit: self.unit, precision }, params })
    }

    fn run<'a>(&'a self, key: &str, formula: &'a Formula, scope: &Scope<'a, '_>) -> Result<Item<'a>, ModelError> {
        formula.expr.eval(scope).map_err(|e| self.fail(key, formula, Some(&e.span), &e.message))
    }

    /// FLOPs or bytes: a number from 0 on, or not known.
    fn amount(&self, key: &str, formula: Option<&Formula>, scope: &Scope<'_, '_>) -> Result<Option<f64>, ModelError> {
        let Some(formula) = formula else { return Ok(None) };
        let item = formula.expr.eval(scope).map_err(|e| self.fail(key, formula, Some(&e.span), &e.message))?;
        match (&item, item.number()) {
            (Item::None, _) => Ok(None),
            (_, Some(x)) if x.is_finite() && x >= 0.0 => Ok(Some(x)),
            (_, Some(x)) => Err(self.fail(key, formula, None, &format!("expected a number from 0 on, found {x}"))),
            _ => Err(self.fail(key, formula, None, &format!("expected a number, found {}", item.kind()))),
        }
    }

    fn precision_of(&self, scope: &Scope<'_, '_>) -> Result<Option<&'static str>, ModelError> {
        let formula = match &self.precision {
            Precision::Unknown => return Ok(None),
            Precision::Word(word) => return Ok(Some(word)),
            Precision::OfType(formula) => formula,
        };
        let key = "precision";
        let item = formula.expr.eval(scope).map_err(|e| self.fail(key, formula, Some(&e.span), &e.message))?;
        let label = match (&item, self.unit) {
            (Item::None, _) => None,
            (Item::Text(name), ComputeUnit::Vector) => dtype::vector_precision(name, scope.quirks),
            (Item::Text(name), _) => dtype::precision(name, scope.quirks),
            _ => return Err(self.fail(key, formula, None, &format!("expected a type, found {}", item.kind()))),
        };
        Ok(label)
    }

    /// A failure of one call, with the place in the file.
    fn fail(&self, key: &str, formula: &Formula, part: Option<&Range<usize>>, message: &str) -> ModelError {
        let span = part.map_or(formula.span.clone(), |part| self.source.inside(&formula.span, &formula.text, part));
        let (line, column) = self.source.position(span.start);
        let file = &self.source.label;
        ModelError::fail(format!("{file}:{line}:{column}: `{key}` of `{}`: {message}", self.name))
    }

    fn read(source: &Arc<Source>, table: Entry) -> Result<Self, ExtensionError> {
        let NodeKind::Table(entries) = table.value.kind else {
            let message = format!("expected a table for the operation `{}`", table.key);
            return Err(source.error(table.value.span, message, Some(format!("write [op.\"{}\"]", table.key))));
        };
        let mut op = Self {
            name: table.key,
            category: None,
            bwd_category: None,
            unit: ComputeUnit::Unknown,
            precision: Precision::Unknown,
            params: Vec::new(),
            flops: None,
            bytes: None,
            unless: None,
            source: Arc::clone(source),
        };
        if op.name.is_empty() {
            return Err(source.error(table.key_span, "an operation needs a name".to_owned(), None));
        }
        check_keys(source, &entries)?;
        // Parameters first, wherever they stand: the other expressions may use them all.
        if let Some(entry) = entries.iter().find(|entry| entry.key == "params") {
            op.params = read_params(source, &entry.value)?;
        }
        for entry in &entries {
            op.read_entry(entry)?;
        }
        if !op.has_model() && op.category.is_none() && op.bwd_category.is_none() {
            let message = format!("`{}` has neither `flops`, `bytes` nor `category`", op.name);
            return Err(source.error(table.key_span, message, None));
        }
        Ok(op)
    }

    fn read_entry(&mut self, entry: &Entry) -> Result<(), ExtensionError> {
        let source = Arc::clone(&self.source);
        let names: Vec<&str> = self.params.iter().map(|(name, _)| name.as_str()).collect();
        match entry.key.as_str() {
            "category" => self.category = Some(category(&source, entry)?),
            "bwd_category" => self.bwd_category = Some(category(&source, entry)?),
            "unit" => {
                self.unit = match word(&source, entry)? {
                    "matrix" => ComputeUnit::Matrix,
                    "vector" => ComputeUnit::Vector,
                    other => {
                        let message = format!("`unit` is `matrix` or `vector`, not `{other}`");
                        return Err(source.error(entry.value.span.clone(), message, None));
                    }
                }
            }
            "precision" => {
                let given = word(&source, entry)?;
                self.precision = match PRECISIONS.iter().find(|precision| **precision == given) {
                    Some(precision) => Precision::Word(precision),
                    None => Precision::OfType(formula(&source, &entry.value, &names).map_err(|e| ExtensionError {
                        help: Some(format!("give a type, such as T[0], or one of {}", PRECISIONS.join(", "))),
                        ..e
                    })?),
                };
            }
            "flops" => self.flops = Some(formula(&source, &entry.value, &names)?),
            "bytes" => self.bytes = Some(formula(&source, &entry.value, &names)?),
            "unless" => self.unless = Some(formula(&source, &entry.value, &names)?),
            _ => {}
        }
        Ok(())
    }
}

/// A key at the top of the file that should stand in an operation's table.
fn stray(source: &Source, entry: &Entry) -> ExtensionError {
    let message = format!("expected a table [op.\"NAME\"], found {}", entry.value.kind.words());
    let help = KEYS
        .contains(&entry.key.as_str())
        .then(|| format!("put `{}` below a line such as [op.\"aten::softmax\"]", entry.key));
    source.error(entry.key_span.clone(), message, help)
}

/// Refuses keys that mean nothing and keys given twice (TOML itself refuses those, JSON does not).
fn check_keys(source: &Source, entries: &[Entry]) -> Result<(), ExtensionError> {
    for (i, Entry { key, key_span, .. }) in entries.iter().enumerate() {
        if !KEYS.contains(&key.as_str()) {
            let help = nearest(key, KEYS.iter().copied())
                .map_or_else(|| format!("known are {}", KEYS.join(", ")), |near| format!("did you mean `{near}`?"));
            return Err(source.error(key_span.clone(), format!("unknown key `{key}`"), Some(help)));
        }
        if entries[..i].iter().any(|earlier| earlier.key == *key) {
            return Err(source.error(key_span.clone(), format!("`{key}` is given twice"), None));
        }
    }
    Ok(())
}

/// Parameters in order; each may use those before it.
fn read_params(source: &Source, node: &Node) -> Result<Vec<(String, Formula)>, ExtensionError> {
    let NodeKind::Table(entries) = &node.kind else {
        let message = format!("`params` is a table of name = expression, not {}", node.kind.words());
        return Err(source.error(node.span.clone(), message, None));
    };
    if entries.len() > MAX_PARAMS {
        let message = format!("{} parameters, at most {MAX_PARAMS} are allowed", entries.len());
        return Err(source.error(node.span.clone(), message, None));
    }
    let mut params: Vec<(String, Formula)> = Vec::with_capacity(entries.len());
    for Entry { key, key_span, value } in entries {
        let names: Vec<&str> = params.iter().map(|(name, _)| name.as_str()).collect();
        if !is_parameter_name(key) {
            let help = "a name has letters, digits and `_`, and is none of D, T, S, C, a function or a keyword";
            let message = format!("`{key}` can't name a parameter");
            return Err(source.error(key_span.clone(), message, Some(help.to_owned())));
        }
        if names.contains(&key.as_str()) {
            return Err(source.error(key_span.clone(), format!("`{key}` is given twice"), None));
        }
        let compiled = formula(source, value, &names)?;
        params.push((key.clone(), compiled));
    }
    Ok(params)
}

fn word<'e>(source: &Source, entry: &'e Entry) -> Result<&'e str, ExtensionError> {
    match &entry.value.kind {
        NodeKind::Scalar { text, quoted: true } if !text.trim().is_empty() => Ok(text),
        NodeKind::Scalar { quoted: true, .. } => {
            Err(source.error(entry.value.span.clone(), format!("`{}` is empty", entry.key), None))
        }
        other => {
            let message = format!("`{}` is text in quotes, not {}", entry.key, other.words());
            Err(source.error(entry.value.span.clone(), message, None))
        }
    }
}

/// The name of a category: one line, not too long for a heading, and not that of a part that every report has.
fn category(source: &Source, entry: &Entry) -> Result<String, ExtensionError> {
    let name = word(source, entry)?;
    let plain = name.trim().to_lowercase().replace([' ', '-'], "_");
    let (problem, help) = if name.chars().any(char::is_control) {
        ("has a character that can't be shown".to_owned(), "write it on one line".to_owned())
    } else if name.chars().count() > MAX_CATEGORY {
        (format!("has more than {MAX_CATEGORY} characters"), "choose a shorter name".to_owned())
    } else if RESERVED.contains(&plain.as_str()) {
        ("is the name of a part that every report has".to_owned(), format!("choose another, such as my_{plain}"))
    } else {
        return Ok(name.to_owned());
    };
    Err(source.error(entry.value.span.clone(), format!("`{}` {problem}", entry.key), Some(help)))
}

fn formula(source: &Source, node: &Node, params: &[&str]) -> Result<Formula, ExtensionError> {
    let NodeKind::Scalar { text, .. } = &node.kind else {
        let message = format!("expected an expression, found {}", node.kind.words());
        return Err(source.error(node.span.clone(), message, None));
    };
    let expr = Expr::parse(text, params)
        .map_err(|e| source.error(source.inside(&node.span, text, &e.span), e.message, e.help))?;
    Ok(Formula { expr, text: text.clone(), span: node.span.clone() })
}

#[cfg(test)]
mod tests;

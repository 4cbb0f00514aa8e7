//! The arithmetic of extension files: one line of numbers, sizes and functions, and nothing else.
//!
//! A text is compiled once to a flat list of instructions and run many times. It can't reach files, the clock or
//! memory, and every jump goes forward, so it ends after at most as many steps as it has instructions. Length and
//! nesting are bounded; a hostile text is refused and can't exhaust the stack.

mod eval;
mod lex;
mod parse;

use std::ops::Range;

pub(crate) use eval::{Item, Scope};

/// Longest text accepted, in bytes; the longest sensible formula is a tenth of it.
const MAX_LENGTH: usize = 4096;

/// Deepest nesting of brackets, calls and prefix operators.
const MAX_DEPTH: usize = 64;

/// A compiled expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    code: Vec<Instruction>,
}

impl Expr {
    /// Compiles `text`; `params` are the names it may use, in the order of [`Scope::params`].
    pub(crate) fn parse(text: &str, params: &[&str]) -> Result<Self, ExprError> {
        parse::parse(text, params)
    }

    /// Runs the expression.
    pub(crate) fn eval<'a>(&'a self, scope: &Scope<'a, '_>) -> Result<Item<'a>, ExprError> {
        eval::run(&self.code, scope)
    }
}

/// What is wrong with a text, or with the values it met, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExprError {
    /// Bytes of the text that are to blame.
    pub(crate) span: Range<usize>,
    /// What is wrong.
    pub(crate) message: String,
    /// What to write instead.
    pub(crate) help: Option<String>,
}

impl ExprError {
    fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None }
    }

    fn with_help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// One step of the stack machine, with the part of the text it stands for.
#[derive(Debug, Clone, PartialEq)]
struct Instruction {
    op: Op,
    span: Range<usize>,
}

#[derive(Debug, Clone, PartialEq)]
enum Op {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    /// One of the four input lists as a whole.
    Input(Input),
    /// A parameter by its place.
    Param(usize),
    /// `list index → entry`.
    Index,
    Negate,
    Not,
    Binary(BinaryOp),
    Call(Function, usize),
    /// Pops the condition of `if`: true goes on, false jumps to `otherwise`, none leaves none and jumps to `end`.
    Branch {
        otherwise: usize,
        end: usize,
    },
    /// `and` (`stop_on` false) and `or` (true): leaves the left side and jumps to `end` if it settles the matter.
    Shortcut {
        stop_on: bool,
        end: usize,
    },
    /// Checks that the right side of `and` or `or` is a truth value.
    Truth,
    Jump(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Input {
    Dims,
    Types,
    Strides,
    Concrete,
}

impl Input {
    const ALL: [(&'static str, Self); 4] =
        [("D", Self::Dims), ("T", Self::Types), ("S", Self::Strides), ("C", Self::Concrete)];

    /// The letter in expressions and the name in a trace.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Dims => ("D", "Input Dims"),
            Self::Types => ("T", "Input type"),
            Self::Strides => ("S", "Input Strides"),
            Self::Concrete => ("C", "Concrete Inputs"),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Rem,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Min,
    Max,
    Ceil,
    Floor,
    Log2,
    Sqrt,
    Abs,
    Sum,
    Numel,
    Len,
    Sz,
    Int,
    Float,
    Bool,
    List,
}

/// Every function but `if`, which is no ordinary one: name, number of arguments (`None`: any, at least one).
const FUNCTIONS: &[(&str, Function, Option<usize>)] = &[
    ("abs", Function::Abs, Some(1)),
    ("bool", Function::Bool, Some(1)),
    ("ceil", Function::Ceil, Some(1)),
    ("float", Function::Float, Some(1)),
    ("floor", Function::Floor, Some(1)),
    ("int", Function::Int, Some(1)),
    ("len", Function::Len, Some(1)),
    ("list", Function::List, Some(1)),
    ("log2", Function::Log2, Some(1)),
    ("max", Function::Max, None),
    ("min", Function::Min, None),
    ("numel", Function::Numel, Some(1)),
    ("sqrt", Function::Sqrt, Some(1)),
    ("sum", Function::Sum, Some(1)),
    ("sz", Function::Sz, Some(1)),
];

/// Words with a meaning of their own.
const KEYWORDS: &[&str] = &["and", "or", "not", "if", "true", "false", "none", "True", "False", "None"];

/// Whether a parameter may bear this name: an identifier that means nothing else.
pub(crate) fn is_parameter_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !KEYWORDS.contains(&name)
        && FUNCTIONS.iter().all(|(function, ..)| *function != name)
        && Input::ALL.iter().all(|(letter, _)| *letter != name)
}

/// Every function's name, for the test of the manual.
#[cfg(test)]
pub(crate) fn function_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, ..)| *name).chain(["if"])
}

#[cfg(test)]
mod tests;

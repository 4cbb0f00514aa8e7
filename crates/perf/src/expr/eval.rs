//! Runs compiled expressions on one call's inputs.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;
use std::rc::Rc;

use super::{BinaryOp, ExprError, Function, Input, Instruction, Op};
use crate::args;
use crate::call::{Dims, InputLists};
use crate::dtype;
use crate::literal;
use crate::parity::Quirks;
use crate::value::Value;

/// What an expression can see.
pub(crate) struct Scope<'a, 's> {
    /// `D`, `T`, `S` and `C`.
    pub(crate) inputs: &'a InputLists,
    /// Parameters computed so far, in order.
    pub(crate) params: &'s [Item<'a>],
    /// Decides which types have a size.
    pub(crate) quirks: &'s Quirks,
}

/// What an expression can be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Item<'a> {
    /// Not known: arithmetic with it is not known either.
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Cow<'a, str>),
    /// An entry of `D` or `S`.
    Shape(&'a [i64]),
    /// An entry of `D` or `S` that stands for several tensors.
    Shapes(&'a [Vec<i64>]),
    /// A list read from an argument's text.
    List(Rc<[Value]>),
    /// All of `D`, `T`, `S` or `C`.
    Input(WholeInput),
}

/// One of the four input lists as a whole: it can be counted and indexed, nothing else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WholeInput(Input);

impl Item<'_> {
    /// The value as a table shows it; `None` for a whole input list.
    pub(crate) fn to_value(&self) -> Option<Value> {
        Some(match self {
            Self::None => Value::None,
            Self::Bool(b) => Value::Bool(*b),
            Self::Int(n) => i64::try_from(*n).map_or(Value::Float(*n as f64), Value::Int),
            Self::Float(x) => Value::Float(*x),
            Self::Text(text) => Value::Str(text.clone().into_owned()),
            Self::Shape(shape) => Value::shape(shape),
            Self::Shapes(shapes) => Value::List(shapes.iter().map(|shape| Value::shape(shape)).collect()),
            Self::List(items) => Value::List(items.to_vec()),
            Self::Input(_) => return None,
        })
    }

    /// In words, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bool(_) => "true or false",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Text(_) => "text",
            Self::Shape(_) => "a shape",
            Self::Shapes(_) => "a list of shapes",
            Self::List(_) => "a list",
            Self::Input(_) => "a whole input list",
        }
    }

    /// The number, if it is one.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Self::Int(n) => Some(*n as f64),
            Self::Float(x) => Some(*x),
            _ => None,
        }
    }

    /// The entries of a shape or list of numbers and words.
    fn entries(&self) -> Option<Vec<Value>> {
        match self {
            Self::Shape(shape) => Some(shape.iter().map(|&d| Value::Int(d)).collect()),
            Self::List(items) => Some(items.to_vec()),
            _ => None,
        }
    }
}

/// `Ok` or the reason, without the place: the machine adds that.
type Outcome<'a> = Result<Item<'a>, String>;

/// Runs `code` from its first instruction to its end. Jumps go forward only, so this ends.
pub(super) fn run<'a>(code: &'a [Instruction], scope: &Scope<'a, '_>) -> Result<Item<'a>, ExprError> {
    let mut stack: Vec<Item<'a>> = Vec::new();
    let mut at = 0;
    while let Some(Instruction { op, span }) = code.get(at) {
        let target = step(op, &mut stack, scope).map_err(|message| ExprError::new(span.clone(), message))?;
        at = target.unwrap_or(at + 1).max(at + 1);
    }
    pop(&mut stack).map_err(|message| ExprError::new(Range::default(), message))
}

/// Runs one instruction; `Some` is where to go on, if not at the next one.
fn step<'a>(op: &'a Op, stack: &mut Vec<Item<'a>>, scope: &Scope<'a, '_>) -> Result<Option<usize>, String> {
    let result = match op {
        Op::None => Item::None,
        Op::Bool(b) => Item::Bool(*b),
        Op::Int(n) => Item::Int(*n),
        Op::Float(x) => Item::Float(*x),
        Op::Text(text) => Item::Text(Cow::Borrowed(text)),
        Op::Input(input) => Item::Input(WholeInput(*input)),
        Op::Param(place) => scope.params.get(*place).cloned().ok_or("the parameter has no value yet")?,
        Op::Index => {
            let (index, list) = (pop(stack)?, pop(stack)?);
            entry(&list, &index, scope.inputs)?
        }
        Op::Negate => arithmetic(BinaryOp::Sub, &Item::Int(0), &pop(stack)?)?,
        Op::Not => truth(&pop(stack)?)?.map_or(Item::None, |b| Item::Bool(!b)),
        Op::Binary(op) => {
            let (right, left) = (pop(stack)?, pop(stack)?);
            binary(*op, &left, &right)?
        }
        Op::Call(function, count) => {
            let first = stack.len().checked_sub(*count).ok_or(EMPTY)?;
            let arguments = stack.split_off(first);
            call(*function, &arguments, scope)?
        }
        Op::Branch { otherwise, end } => match truth(&pop(stack)?)? {
            Some(true) => return Ok(None),
            Some(false) => return Ok(Some(*otherwise)),
            None => {
                stack.push(Item::None);
                return Ok(Some(*end));
            }
        },
        Op::Shortcut { stop_on, end } => match truth(stack.last().ok_or(EMPTY)?)? {
            Some(b) if b != *stop_on => {
                pop(stack)?;
                return Ok(None);
            }
            _ => return Ok(Some(*end)),
        },
        Op::Truth => truth(stack.last().ok_or(EMPTY)?).map(|_| pop(stack))??,
        Op::Jump(target) => return Ok(Some(*target)),
    };
    stack.push(result);
    Ok(None)
}

/// The parser never makes code that pops too much; a message is still better than a panic.
const EMPTY: &str = "the expression lacks a value";

fn pop<'a>(stack: &mut Vec<Item<'a>>) -> Outcome<'a> {
    stack.pop().ok_or_else(|| EMPTY.to_owned())
}

/// A truth value, or `None` if it is not known.
fn truth(item: &Item<'_>) -> Result<Option<bool>, String> {
    match item {
        Item::Bool(b) => Ok(Some(*b)),
        Item::None => Ok(None),
        other => Err(format!("expected true or false, found {}", other.kind())),
    }
}

fn entry<'a>(list: &Item<'a>, index: &Item<'a>, inputs: &'a InputLists) -> Outcome<'a> {
    if matches!(list, Item::None) || matches!(index, Item::None) {
        return Ok(Item::None);
    }
    let index = match index {
        Item::Int(index) => *index,
        Item::Float(x) => return Err(format!("an index is a whole number, not {x} (`//` divides without a fraction)")),
        other => return Err(format!("an index is a whole number, not {}", other.kind())),
    };
    match list {
        Item::Input(WholeInput(input)) => input_entry(*input, index, inputs),
        Item::Shape(shape) => pick(shape, index, "the shape").map(|&d| Item::Int(i128::from(d))),
        Item::Shapes(shapes) => pick(shapes, index, "the list of shapes").map(|shape| Item::Shape(shape)),
        Item::List(items) => pick(items, index, "the list").map(from_value),
        other => Err(format!("{} has no entries", other.kind())),
    }
}

fn input_entry(input: Input, index: i128, inputs: &InputLists) -> Outcome<'_> {
    let (letter, name) = input.names();
    let absent = || format!("the trace has no {name} for this call");
    match input {
        Input::Dims => pick(inputs.dims.as_deref().ok_or_else(absent)?, index, letter).map(from_dims),
        Input::Strides => pick(inputs.strides.as_deref().ok_or_else(absent)?, index, letter).map(from_dims),
        Input::Types => pick(inputs.types.as_deref().ok_or_else(absent)?, index, letter).map(|text| text_item(text)),
        Input::Concrete => {
            pick(inputs.concrete.as_deref().ok_or_else(absent)?, index, letter).map(|text| text_item(text))
        }
    }
}

fn from_dims(dims: &Dims) -> Item<'_> {
    match dims {
        Dims::Shape(shape) => Item::Shape(shape),
        Dims::List(shapes) => Item::Shapes(shapes),
    }
}

fn text_item(text: &str) -> Item<'_> {
    Item::Text(Cow::Borrowed(text))
}

fn from_value<'a>(value: &Value) -> Item<'a> {
    match value {
        Value::None => Item::None,
        Value::Bool(b) => Item::Bool(*b),
        Value::Int(n) => Item::Int(i128::from(*n)),
        Value::Float(x) => Item::Float(*x),
        Value::Str(text) => Item::Text(Cow::Owned(text.clone())),
        Value::List(items) | Value::Tuple(items) => Item::List(items.as_slice().into()),
    }
}

/// Entry `index`, from the end if it is negative.
fn pick<'l, T>(list: &'l [T], index: i128, name: &str) -> Result<&'l T, String> {
    let length = list.len() as i128;
    let place = if index < 0 { index.saturating_add(length) } else { index };
    usize::try_from(place).ok().and_then(|place| list.get(place)).ok_or_else(|| {
        let plural = if length == 1 { "entry" } else { "entries" };
        format!("{name} has {length} {plural}, there is no entry {index}")
    })
}

fn binary<'a>(op: BinaryOp, left: &Item<'a>, right: &Item<'a>) -> Outcome<'a> {
    match op {
        BinaryOp::Equal => equal(left, right).map(Item::Bool),
        BinaryOp::NotEqual => equal(left, right).map(|b| Item::Bool(!b)),
        BinaryOp::Less => ordered(left, right, Ordering::is_lt),
        BinaryOp::LessEqual => ordered(left, right, Ordering::is_le),
        BinaryOp::Greater => ordered(left, right, Ordering::is_gt),
        BinaryOp::GreaterEqual => ordered(left, right, Ordering::is_ge),
        _ => arithmetic(op, left, right),
    }
}

/// Equality of like with like. `C[2] == 1` compares text with a number and is an error: it would never be true.
fn equal(left: &Item<'_>, right: &Item<'_>) -> Result<bool, String> {
    if let (Some(a), Some(b)) = (left.number(), right.number()) {
        return Ok(compare(left, right, a, b).is_eq());
    }
    if let (Some(a), Some(b)) = (left.entries(), right.entries()) {
        return Ok(a == b);
    }
    match (left, right) {
        (Item::None, other) | (other, Item::None) => Ok(matches!(other, Item::None)),
        (Item::Bool(a), Item::Bool(b)) => Ok(a == b),
        (Item::Text(a), Item::Text(b)) => Ok(a == b),
        (Item::Shapes(a), Item::Shapes(b)) => Ok(a == b),
        _ => Err(format!("can't compare {} with {}", left.kind(), right.kind())),
    }
}

fn ordered<'a>(left: &Item<'_>, right: &Item<'_>, holds: fn(Ordering) -> bool) -> Outcome<'a> {
    if matches!(left, Item::None) || matches!(right, Item::None) {
        return Ok(Item::None);
    }
    match (left.number(), right.number()) {
        (Some(a), Some(b)) => Ok(Item::Bool(holds(compare(left, right, a, b)))),
        _ => Err(format!("can't order {} and {}", left.kind(), right.kind())),
    }
}

/// Whole numbers compare exactly, all others as floats; neither is ever NaN.
fn compare(left: &Item<'_>, right: &Item<'_>, a: f64, b: f64) -> Ordering {
    match (left, right) {
        (Item::Int(a), Item::Int(b)) => a.cmp(b),
        _ => a.partial_cmp(&b).unwrap_or(Ordering::Equal),
    }
}

fn arithmetic<'a>(op: BinaryOp, left: &Item<'_>, right: &Item<'_>) -> Outcome<'a> {
    if matches!(left, Item::None) || matches!(right, Item::None) {
        return Ok(Item::None);
    }
    let (Some(a), Some(b)) = (left.number(), right.number()) else {
        let culprit = if left.number().is_none() { left } else { right };
        return Err(format!("expected a number, found {}", culprit.kind()));
    };
    let divides = matches!(op, BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Rem);
    if divides && b == 0.0 {
        return Err("division by zero".to_owned());
    }
    if let (Item::Int(a), Item::Int(b)) = (left, right)
        && op != BinaryOp::Div
    {
        return whole(op, *a, *b).map(Item::Int).ok_or_else(|| "the number is too large".to_owned());
    }
    finite(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::FloorDiv => (a / b).floor(),
        BinaryOp::Rem => {
            let rest = a % b;
            if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
        }
        _ => a / b,
    })
}

/// Whole-number arithmetic; division rounds down and the remainder has the sign of the divisor, as in Python.
fn whole(op: BinaryOp, a: i128, b: i128) -> Option<i128> {
    match op {
        BinaryOp::Add => a.checked_add(b),
        BinaryOp::Sub => a.checked_sub(b),
        BinaryOp::Mul => a.checked_mul(b),
        _ => {
            let (quotient, rest) = (a.checked_div(b)?, a.checked_rem(b)?);
            let down = rest != 0 && (rest < 0) != (b < 0);
            match op {
                BinaryOp::FloorDiv => Some(if down { quotient - 1 } else { quotient }),
                _ => Some(if down { rest + b } else { rest }),
            }
        }
    }
}

fn finite<'a>(x: f64) -> Outcome<'a> {
    if x.is_finite() { Ok(Item::Float(x)) } else { Err("the number is too large".to_owned()) }
}

fn call<'a>(function: Function, arguments: &[Item<'a>], scope: &Scope<'a, '_>) -> Outcome<'a> {
    if arguments.iter().any(|argument| matches!(argument, Item::None)) {
        return Ok(Item::None);
    }
    let first = arguments.first().ok_or(EMPTY)?;
    match function {
        Function::Min => extreme(arguments, Ordering::is_lt),
        Function::Max => extreme(arguments, Ordering::is_gt),
        Function::Ceil => rounded(first, f64::ceil),
        Function::Floor => rounded(first, f64::floor),
        Function::Log2 => positive(first, "log2").and_then(|x| finite(x.log2())),
        Function::Sqrt => match number(first)? {
            x if x >= 0.0 => finite(x.sqrt()),
            _ => Err("the square root of a negative number".to_owned()),
        },
        Function::Abs => match first {
            Item::Int(n) => n.checked_abs().map(Item::Int).ok_or_else(|| "the number is too large".to_owned()),
            other => finite(number(other)?.abs()),
        },
        Function::Sum => fold(first, BinaryOp::Add, 0),
        Function::Numel => match first {
            // Elements of all tensors of a list.
            Item::Shapes(shapes) => shapes.iter().try_fold(Item::Int(0), |sum, shape| {
                arithmetic(BinaryOp::Add, &sum, &fold(&Item::Shape(shape), BinaryOp::Mul, 1)?)
            }),
            other => fold(other, BinaryOp::Mul, 1),
        },
        Function::Len => length(first, scope.inputs),
        Function::Sz => match first {
            Item::Text(name) => Ok(dtype::size(name, scope.quirks).map_or(Item::None, |n| Item::Int(i128::from(n)))),
            other => Err(format!("expected a type such as T[0], found {}", other.kind())),
        },
        Function::Int => to_int(first),
        Function::Float => match first {
            Item::Text(text) => finite(args::float(text).ok_or_else(|| not_a(text, "number"))?),
            Item::Bool(b) => Ok(Item::Float(f64::from(u8::from(*b)))),
            other => number(other).map(Item::Float),
        },
        Function::Bool => to_bool(first),
        Function::List => match first {
            Item::Text(text) => match literal::parse(text) {
                Some(Value::List(items) | Value::Tuple(items)) => Ok(Item::List(items.into())),
                _ => Err(not_a(text, "list")),
            },
            Item::Shape(_) | Item::List(_) => Ok(first.clone()),
            other => Err(format!("expected text such as C[0], found {}", other.kind())),
        },
    }
}

fn number(item: &Item<'_>) -> Result<f64, String> {
    item.number().ok_or_else(|| format!("expected a number, found {}", item.kind()))
}

fn positive(item: &Item<'_>, function: &str) -> Result<f64, String> {
    number(item)
        .and_then(|x| if x > 0.0 { Ok(x) } else { Err(format!("`{function}` needs a number above 0, found {x}")) })
}

fn not_a(text: &str, what: &str) -> String {
    if text.is_empty() {
        return format!("the text is empty (it is, for tensors), not a {what}");
    }
    // Arguments can be long; their beginning is enough to recognise them.
    let shown: String = text.chars().take(40).collect();
    format!("`{shown}` is not a {what}")
}

/// The least or greatest of the arguments, or of the entries of one list.
fn extreme<'a>(arguments: &[Item<'a>], wins: fn(Ordering) -> bool) -> Outcome<'a> {
    let entries = match arguments {
        [only] => only.entries().map(|values| values.iter().map(from_value).collect::<Vec<_>>()),
        _ => None,
    };
    let candidates = entries.as_deref().unwrap_or(arguments);
    let mut best = candidates.first().ok_or("the list is empty")?;
    number(best)?;
    for candidate in &candidates[1..] {
        if wins(compare(candidate, best, number(candidate)?, number(best)?)) {
            best = candidate;
        }
    }
    Ok(best.clone())
}

fn rounded<'a>(item: &Item<'_>, round: fn(f64) -> f64) -> Outcome<'a> {
    match item {
        Item::Int(n) => Ok(Item::Int(*n)),
        other => match round(number(other)?) {
            // Beyond this a float has no fraction and may not fit.
            x if x.abs() < 1e30 => Ok(Item::Int(x as i128)),
            x => finite(x),
        },
    }
}

fn fold<'a>(item: &Item<'a>, op: BinaryOp, start: i128) -> Outcome<'a> {
    let entries = item.entries().ok_or_else(|| format!("expected a shape or a list, found {}", item.kind()))?;
    entries.iter().try_fold(Item::Int(start), |sum, value| arithmetic(op, &sum, &from_value(value)))
}

fn length<'a>(item: &Item<'_>, inputs: &InputLists) -> Outcome<'a> {
    let length = match item {
        Item::Input(WholeInput(Input::Dims)) => inputs.dims.as_deref().map_or(0, <[_]>::len),
        Item::Input(WholeInput(Input::Types)) => inputs.types.as_deref().map_or(0, <[_]>::len),
        Item::Input(WholeInput(Input::Strides)) => inputs.strides.as_deref().map_or(0, <[_]>::len),
        Item::Input(WholeInput(Input::Concrete)) => inputs.concrete.as_deref().map_or(0, <[_]>::len),
        Item::Shape(shape) => shape.len(),
        Item::Shapes(shapes) => shapes.len(),
        Item::List(items) => items.len(),
        other => return Err(format!("{} has no length", other.kind())),
    };
    Ok(Item::Int(length as i128))
}

fn to_int<'a>(item: &Item<'_>) -> Outcome<'a> {
    let exact = |x: f64| (x.fract() == 0.0 && x.abs() < 1e30).then_some(x as i128);
    match item {
        Item::Int(n) => Ok(Item::Int(*n)),
        Item::Bool(b) => Ok(Item::Int(i128::from(*b))),
        Item::Float(x) => exact(*x).map(Item::Int).ok_or_else(|| format!("{x} is not a whole number")),
        Item::Text(text) => args::int(text)
            .map(i128::from)
            .or_else(|| args::float(text).and_then(exact))
            .map(Item::Int)
            .ok_or_else(|| not_a(text, "whole number")),
        other => Err(format!("expected text such as C[0], found {}", other.kind())),
    }
}

fn to_bool<'a>(item: &Item<'_>) -> Outcome<'a> {
    match item {
        Item::Bool(b) => Ok(Item::Bool(*b)),
        Item::Text(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Item::Bool(true)),
            "false" | "0" | "none" | "" => Ok(Item::Bool(false)),
            _ => Err(not_a(text, "truth value")),
        },
        other => Err(format!("expected text such as C[0], found {}", other.kind())),
    }
}

//! Tokens to instructions: operator precedence by binding power (a Pratt parser), in one pass.

use std::ops::Range;

use super::lex::{self, Token};
use super::{BinaryOp, Expr, ExprError, FUNCTIONS, Function, Input, Instruction, KEYWORDS, MAX_DEPTH, Op};
use crate::nearest::nearest;

/// Loosest first. A prefix operator takes what binds more tightly than itself.
mod power {
    pub(super) const ANY: u8 = 0;
    pub(super) const OR: u8 = 1;
    pub(super) const AND: u8 = 2;
    pub(super) const NOT: u8 = 3;
    pub(super) const COMPARE: u8 = 4;
    pub(super) const SUM: u8 = 5;
    pub(super) const PRODUCT: u8 = 6;
    pub(super) const SIGN: u8 = 7;
    pub(super) const POSTFIX: u8 = 8;
}

pub(super) fn parse(text: &str, params: &[&str]) -> Result<Expr, ExprError> {
    let tokens = lex::tokens(text)?;
    if tokens.len() == 1 {
        return Err(ExprError::new(0..text.len(), "the expression is empty"));
    }
    let mut parser = Parser { tokens, next: 0, depth: 0, params, code: Vec::new() };
    parser.expression(power::ANY)?;
    if *parser.peek() != Token::End {
        return Err(parser.unexpected("an operator or the end"));
    }
    Ok(Expr { code: parser.code })
}

struct Parser<'a> {
    tokens: Vec<(Token, Range<usize>)>,
    next: usize,
    depth: usize,
    params: &'a [&'a str],
    code: Vec<Instruction>,
}

impl Parser<'_> {
    /// The next token; the list ends with `End`, which is never passed.
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    fn span(&self) -> Range<usize> {
        self.tokens[self.next].1.clone()
    }

    /// Where the last token taken ends.
    fn taken_to(&self) -> usize {
        self.next.checked_sub(1).map_or(0, |last| self.tokens[last].1.end)
    }

    fn advance(&mut self) {
        self.next = (self.next + 1).min(self.tokens.len() - 1);
    }

    fn accept(&mut self, symbol: &str) -> bool {
        let found = matches!(self.peek(), Token::Symbol(s) if *s == symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: &str) -> Result<(), ExprError> {
        if self.accept(symbol) { Ok(()) } else { Err(self.unexpected(&format!("`{symbol}`"))) }
    }

    fn unexpected(&self, expected: &str) -> ExprError {
        let found = match self.peek() {
            Token::End => "the end".to_owned(),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::Name(name) => format!("`{name}`"),
            Token::Text(_) => "text".to_owned(),
            Token::Int(_) | Token::Float(_) => "a number".to_owned(),
        };
        ExprError::new(self.span(), format!("expected {expected}, found {found}"))
    }

    /// Adds an instruction for the text from `start` to the last token taken; returns its place.
    fn emit(&mut self, op: Op, start: usize) -> usize {
        self.code.push(Instruction { op, span: start..self.taken_to().max(start) });
        self.code.len() - 1
    }

    fn expression(&mut self, min: u8) -> Result<(), ExprError> {
        // The outermost expression stands in no brackets.
        if self.depth > MAX_DEPTH {
            return Err(ExprError::new(self.span(), format!("nested more than {MAX_DEPTH} deep")));
        }
        self.depth += 1;
        let start = self.span().start;
        self.operand()?;
        while let Some((operator, binding)) = self.operator().filter(|&(_, binding)| binding > min) {
            self.infix(operator, binding, start)?;
        }
        self.depth -= 1;
        Ok(())
    }

    /// The infix or postfix operator that comes next.
    fn operator(&self) -> Option<(Operator, u8)> {
        let binary = |op, binding| Some((Operator::Binary(op), binding));
        match self.peek() {
            Token::Name(word) if word == "or" => Some((Operator::Logic { stop_on: true }, power::OR)),
            Token::Name(word) if word == "and" => Some((Operator::Logic { stop_on: false }, power::AND)),
            Token::Symbol(symbol) => match *symbol {
                "==" => binary(BinaryOp::Equal, power::COMPARE),
                "!=" => binary(BinaryOp::NotEqual, power::COMPARE),
                "<" => binary(BinaryOp::Less, power::COMPARE),
                "<=" => binary(BinaryOp::LessEqual, power::COMPARE),
                ">" => binary(BinaryOp::Greater, power::COMPARE),
                ">=" => binary(BinaryOp::GreaterEqual, power::COMPARE),
                "+" => binary(BinaryOp::Add, power::SUM),
                "-" => binary(BinaryOp::Sub, power::SUM),
                "*" => binary(BinaryOp::Mul, power::PRODUCT),
                "/" => binary(BinaryOp::Div, power::PRODUCT),
                "//" => binary(BinaryOp::FloorDiv, power::PRODUCT),
                "%" => binary(BinaryOp::Rem, power::PRODUCT),
                "[" => Some((Operator::Index, power::POSTFIX)),
                _ => None,
            },
            _ => None,
        }
    }

    fn infix(&mut self, operator: Operator, binding: u8, start: usize) -> Result<(), ExprError> {
        self.advance();
        match operator {
            Operator::Binary(op) => {
                self.expression(binding)?;
                self.emit(Op::Binary(op), start);
                let chained = binding == power::COMPARE && self.operator().is_some_and(|(_, b)| b == power::COMPARE);
                if chained {
                    return Err(ExprError::new(self.span(), "comparisons can't be chained")
                        .with_help("write `a < b and b < c`"));
                }
            }
            Operator::Logic { stop_on } => {
                let shortcut = self.emit(Op::Shortcut { stop_on, end: 0 }, start);
                let right = self.span().start;
                self.expression(binding)?;
                self.emit(Op::Truth, right);
                self.code[shortcut].op = Op::Shortcut { stop_on, end: self.code.len() };
            }
            Operator::Index => {
                self.expression(power::ANY)?;
                self.expect("]")?;
                self.emit(Op::Index, start);
            }
        }
        Ok(())
    }

    fn operand(&mut self) -> Result<(), ExprError> {
        let (token, span) = self.tokens[self.next].clone();
        let start = span.start;
        match token {
            Token::Int(n) => self.take(Op::Int(n)),
            Token::Float(x) => self.take(Op::Float(x)),
            Token::Text(text) => self.take(Op::Text(text)),
            Token::Symbol("(") => {
                self.advance();
                self.expression(power::ANY)?;
                self.expect(")")?;
            }
            Token::Symbol(sign @ ("-" | "+")) => {
                self.advance();
                self.expression(power::SIGN)?;
                if sign == "-" {
                    self.emit(Op::Negate, start);
                }
            }
            Token::Name(name) => self.name(&name, span)?,
            Token::Symbol(_) | Token::End => return Err(self.unexpected("a number, a name or `(`")),
        }
        Ok(())
    }

    /// Takes the next token for `op`.
    fn take(&mut self, op: Op) {
        let start = self.span().start;
        self.advance();
        self.emit(op, start);
    }

    fn name(&mut self, name: &str, span: Range<usize>) -> Result<(), ExprError> {
        let param = self.params.iter().position(|param| *param == name);
        let input = Input::ALL.into_iter().find(|(letter, _)| *letter == name);
        let function = FUNCTIONS.iter().find(|(function, ..)| *function == name);
        match (name, param, input, function) {
            ("not", ..) => {
                self.advance();
                self.expression(power::NOT)?;
                self.emit(Op::Not, span.start);
            }
            ("if", ..) => self.conditional(span.start)?,
            ("true" | "True", ..) => self.take(Op::Bool(true)),
            ("false" | "False", ..) => self.take(Op::Bool(false)),
            ("none" | "None", ..) => self.take(Op::None),
            ("and" | "or", ..) => return Err(self.unexpected("a number, a name or `(`")),
            (_, Some(place), ..) => self.take(Op::Param(place)),
            (_, _, Some((_, input)), _) => self.take(Op::Input(input)),
            (_, _, _, Some(&(_, function, count))) => self.call(name, function, count, span.start)?,
            _ => return Err(self.unknown(name, span)),
        }
        Ok(())
    }

    fn unknown(&self, name: &str, span: Range<usize>) -> ExprError {
        let error = ExprError::new(span, format!("unknown name `{name}`"));
        let functions = FUNCTIONS.iter().map(|(function, ..)| *function);
        let known = self.params.iter().copied().chain(functions).chain(KEYWORDS.iter().copied());
        match nearest(name, known) {
            Some(near) => error.with_help(format!("did you mean `{near}`?")),
            None if self.params.is_empty() => error.with_help("known are D, T, S, C and the functions"),
            None => error
                .with_help(format!("known are D, T, S, C, the functions and {} (in order)", self.params.join(", "))),
        }
    }

    fn call(&mut self, name: &str, function: Function, count: Option<usize>, start: usize) -> Result<(), ExprError> {
        self.advance();
        if !self.accept("(") {
            return Err(self.unexpected(&format!("`(` after the function `{name}`")));
        }
        let mut given = 0;
        while !self.accept(")") {
            if given > 0 {
                self.expect(",")?;
            }
            self.expression(power::ANY)?;
            given += 1;
        }
        let fits = count.map_or(given > 0, |count| count == given);
        if !fits {
            let wanted = count.map_or("at least 1".to_owned(), |count| count.to_string());
            let message = format!("`{name}` takes {wanted} argument, found {given}");
            return Err(ExprError::new(start..self.taken_to(), message));
        }
        self.emit(Op::Call(function, given), start);
        Ok(())
    }

    /// `if(condition, then, otherwise)`; only the side that is chosen is computed.
    fn conditional(&mut self, start: usize) -> Result<(), ExprError> {
        self.advance();
        let form = "write `if(condition, then, otherwise)`";
        let explain = |e: ExprError| if e.help.is_none() { e.with_help(form) } else { e };
        self.expect("(").map_err(explain)?;
        let condition = self.span().start;
        self.expression(power::ANY)?;
        let branch = self.emit(Op::Branch { otherwise: 0, end: 0 }, condition);
        self.expect(",").map_err(explain)?;
        self.expression(power::ANY)?;
        let jump = self.emit(Op::Jump(0), start);
        self.expect(",").map_err(explain)?;
        let otherwise = self.code.len();
        self.expression(power::ANY)?;
        self.expect(")").map_err(explain)?;
        let end = self.code.len();
        self.code[branch].op = Op::Branch { otherwise, end };
        self.code[jump].op = Op::Jump(end);
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Operator {
    Binary(BinaryOp),
    Logic { stop_on: bool },
    Index,
}

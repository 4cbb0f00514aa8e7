//! Guesses which text comes next, so that most texts are found by one comparison instead of a search for their end, a
//! hash and a lookup. A guess is compared byte by byte: a wrong one costs time only.

use super::rows::Rows;
use super::scan::{brackets_end, string_end};
use crate::model::{StrId, Strings};

/// Guesses of either sort: 2 to the power of this.
const GUESS_BITS: u32 = 14;

/// A text and where its bytes stand.
#[derive(Debug, Clone, Copy)]
struct Guess {
    start: usize,
    len: u32,
    id: StrId,
}

/// The last half dozen texts. The same calls happen over and over in the same order, so they nearly always tell the
/// next one: the last text alone does so in 6 of 10 cases, six of them in 9.
#[derive(Debug, Clone, Copy, Default)]
struct History(u64);

impl History {
    /// Ten bits of shift let a text go after six others.
    #[inline]
    fn push(&mut self, id: StrId) {
        self.0 = (self.0 << 10) ^ u64::from(id.0 as u16);
    }

    /// Where the guess for what follows stands.
    #[inline]
    fn place(self) -> usize {
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GUESS_BITS)) as usize
    }
}

/// The guesses, by what came before. Those of lists stand by themselves: a string may look like the start of a list.
#[derive(Debug)]
pub(super) struct Texts {
    names: Vec<Guess>,
    strings: Vec<Guess>,
    lists: Vec<Guess>,
    /// Names of the last events.
    recent_names: History,
    /// The last texts of every sort, names among them.
    recent: History,
}

impl Guess {
    /// What follows if `text` begins with the guess.
    #[inline]
    fn strip<'t>(&self, text: &'t [u8], strings: &Strings) -> Option<&'t [u8]> {
        text.strip_prefix(strings.arena().get(self.start..)?.get(..self.len as usize)?)
    }

    /// Takes the place of what was guessed before.
    fn replace(&mut self, id: StrId, strings: &Strings) {
        let span = strings.span(id);
        // A text of four gigabytes is never guessed.
        if let Ok(len) = u32::try_from(span.len()) {
            *self = Self { start: span.start, len, id };
        }
    }
}

impl Texts {
    /// `none` is the empty text.
    pub(super) fn new(none: StrId) -> Self {
        let guesses = vec![Guess { start: 0, len: 0, id: none }; 1 << GUESS_BITS];
        Self {
            names: guesses.clone(),
            strings: guesses.clone(),
            lists: guesses,
            recent_names: History::default(),
            recent: History::default(),
        }
    }

    /// The name that `text` begins with, and its closing quote with all that follows.
    #[inline(never)]
    pub(super) fn name<'t>(&mut self, text: &'t [u8], rows: &mut Rows) -> Option<(StrId, &'t [u8])> {
        let (id, rest) = string(&mut self.names[self.recent_names.place()], text, rows)?;
        self.recent_names.push(id);
        self.recent.push(id);
        Some((id, rest))
    }

    /// The string whose content `text` begins with, and its closing quote with all that follows.
    #[inline(never)]
    pub(super) fn string<'t>(&mut self, text: &'t [u8], rows: &mut Rows) -> Option<(StrId, &'t [u8])> {
        let (id, rest) = string(&mut self.strings[self.recent.place()], text, rows)?;
        self.recent.push(id);
        Some((id, rest))
    }

    /// The list or object that `text` begins with, and what follows.
    #[inline(never)]
    pub(super) fn json<'t>(&mut self, text: &'t [u8], rows: &mut Rows) -> Option<(StrId, &'t [u8])> {
        let guess = &mut self.lists[self.recent.place()];
        let (id, rest) = match guess.strip(text, &rows.columns.strings) {
            // Brackets balance at the end of the guessed list and not before, so it can't be the start of a longer one.
            Some(rest) if guess.len > 0 => (guess.id, rest),
            _ => other_json(guess, text, rows)?,
        };
        self.recent.push(id);
        Some((id, rest))
    }
}

#[inline]
fn string<'t>(guess: &mut Guess, text: &'t [u8], rows: &mut Rows) -> Option<(StrId, &'t [u8])> {
    match guess.strip(text, &rows.columns.strings) {
        Some(rest) if rest.first() == Some(&b'"') => Some((guess.id, rest)),
        _ => other_string(guess, text, rows),
    }
}

/// A string that was not guessed.
#[inline(never)]
fn other_string<'t>(guess: &mut Guess, text: &'t [u8], rows: &mut Rows) -> Option<(StrId, &'t [u8])> {
    let (end, escaped) = string_end(text, 0)?;
    let (content, rest) = text.split_at_checked(end)?;
    let id = rows.text(content, escaped);
    // A text that was escaped does not stand in the file as it is kept.
    if !escaped {
        guess.replace(id, &rows.columns.strings);
    }
    Some((id, rest))
}

/// A list that was not guessed.
#[inline(never)]
fn other_json<'t>(guess: &mut Guess, text: &'t [u8], rows: &mut Rows) -> Option<(StrId, &'t [u8])> {
    if !matches!(text.first()?, b'[' | b'{') {
        return None;
    }
    let (content, rest) = text.split_at_checked(brackets_end(text, 0)?)?;
    let id = rows.text(content, false);
    guess.replace(id, &rows.columns.strings);
    Some((id, rest))
}

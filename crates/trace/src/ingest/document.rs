//! The document around the events: facts before and after, the array itself, and what to do where it is broken.
//! Works on whatever part of the text is at hand and says how much of it is done with.

use memchr::memmem;

use super::general::{self, Raw, Stop, unescape};
use super::rows::{Lesson, Rows};
use super::scan::skip_blanks;
use super::shapes::Shapes;
use crate::diagnostics::{At, Defect};
use crate::model::Facts;

/// Where in the document the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Before the first character.
    Start,
    /// Among the keys of the top-level object; the flag tells whether `traceEvents` was met already.
    Keys { seen_events: bool },
    /// Among the events; the flag tells whether a top-level object surrounds them.
    Events { in_object: bool },
    /// After the end.
    Done { seen_events: bool },
    /// It is no trace.
    NotATrace,
}

/// Reads a document piece by piece.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) state: State,
    pub(super) rows: Rows,
    pub(super) facts: Facts,
    /// Memory that they take.
    pub(super) fact_bytes: u64,
    shapes: Shapes,
    /// Byte of the document at which the buffer begins.
    base: u64,
    fields: Vec<general::Field>,
    lesson: Lesson,
    trailing_seen: bool,
    /// What stood between the last two events.
    gap: Gap,
    /// Events that went the general way.
    pub(super) slow_events: u64,
    /// How the text begins, to tell what it is if it is no trace.
    pub(super) head: Vec<u8>,
}

/// What one step over the buffer did.
enum Progress {
    /// Went on to this position.
    To(usize),
    /// Done with what stands before this position; needs more text to go on.
    Wait(usize),
}

impl Document {
    pub(super) fn new(state: State, base: u64) -> Self {
        let rows = Rows::new();
        let shapes = Shapes::new(rows.no_name);
        Self {
            state,
            rows,
            facts: Facts::default(),
            fact_bytes: 0,
            shapes,
            base,
            fields: Vec::new(),
            lesson: Lesson::default(),
            trailing_seen: false,
            gap: Gap::default(),
            slow_events: 0,
            head: Vec::new(),
        }
    }

    /// Reads what can be read of `buf`, the text that follows what was consumed before, and returns how many bytes
    /// are done with. With `last`, no more text will come and everything is consumed.
    pub(super) fn feed(&mut self, buf: &[u8], last: bool) -> usize {
        let mut pos = 0;
        loop {
            let progress = match self.state {
                State::Start => self.start(buf, pos, last),
                State::Keys { seen_events } => self.keys(buf, pos, seen_events, last),
                State::Events { in_object } => self.events(buf, pos, in_object, last),
                State::Done { .. } => self.done(buf, pos),
                State::NotATrace => Progress::To(buf.len()),
            };
            match progress {
                Progress::To(next) => pos = next,
                Progress::Wait(at) => {
                    pos = at;
                    break;
                }
            }
            if pos >= buf.len() {
                break;
            }
        }
        if last {
            self.finish(buf, pos);
            pos = buf.len();
        }
        self.base += pos as u64;
        pos
    }

    /// Byte of the document up to which it is read.
    pub(super) fn position(&self) -> u64 {
        self.base
    }

    /// What follows the end of the document is not looked at any more.
    pub(super) fn leave_trailing(&mut self) {
        if !self.trailing_seen {
            self.trailing_seen = true;
            self.rows.diagnostics.add(Defect::TrailingData, At::Byte(self.base));
        }
    }

    fn at(&self, pos: usize) -> At {
        At::Byte(self.base + pos as u64)
    }

    /// The text is over: whatever is not done is cut off.
    fn finish(&mut self, buf: &[u8], pos: usize) {
        let rest = skip_blanks(buf, pos) < buf.len();
        let cut = match self.state {
            // Old Chrome traces may lack the closing bracket.
            State::Events { in_object: false } => rest,
            State::Keys { .. } | State::Events { .. } => true,
            State::Start | State::Done { .. } | State::NotATrace => false,
        };
        if cut {
            let at = self.at(buf.len());
            self.rows.diagnostics.add(Defect::JsonTruncated, at);
        }
    }

    fn start(&mut self, buf: &[u8], pos: usize, last: bool) -> Progress {
        const BOM: &[u8] = b"\xef\xbb\xbf";
        if buf.len() < 3 && !last {
            return Progress::Wait(pos);
        }
        self.head = buf[..buf.len().min(super::SNIFF)].to_vec();
        let mut pos = pos;
        if buf[pos..].starts_with(BOM) {
            self.rows.diagnostics.add(Defect::ByteOrderMark, At::Byte(0));
            pos += BOM.len();
        }
        pos = skip_blanks(buf, pos);
        self.state = match buf.get(pos) {
            None => return if last { Progress::To(pos) } else { Progress::Wait(pos) },
            Some(b'{') => State::Keys { seen_events: false },
            Some(b'[') => State::Events { in_object: false },
            Some(_) => State::NotATrace,
        };
        Progress::To(pos + 1)
    }

    fn keys(&mut self, buf: &[u8], pos: usize, seen_events: bool, last: bool) -> Progress {
        let mut pos = skip_blanks(buf, pos);
        while buf.get(pos) == Some(&b',') {
            pos = skip_blanks(buf, pos + 1);
        }
        match buf.get(pos) {
            None => return Progress::Wait(pos),
            Some(b'}') => {
                self.state = State::Done { seen_events };
                return Progress::To(pos + 1);
            }
            Some(_) => {}
        }
        let entry = if buf[pos] == b'"' { general::key(buf, pos) } else { Err(Stop::Malformed) };
        let found = entry.and_then(|(key, escaped, value_at)| {
            match (&*general::spelled(buf, key, escaped), buf.get(value_at)) {
                (_, None) => Err(Stop::Incomplete),
                (b"traceEvents", Some(b'[')) => Ok((key, None, value_at + 1)),
                _ => general::value(buf, value_at).map(|(value, end)| (key, Some((value, value_at)), end)),
            }
        });
        match found {
            Ok((_, None, next)) => {
                if seen_events {
                    self.rows.diagnostics.add(Defect::RepeatedEventList, self.at(pos));
                }
                self.state = State::Events { in_object: true };
                Progress::To(next)
            }
            Ok((key, Some((value, value_at)), next)) => {
                self.add_fact(&buf[key.0..key.1], value, &buf[value_at..next]);
                Progress::To(next)
            }
            Err(Stop::Incomplete) => Progress::Wait(pos),
            Err(Stop::Malformed) => self.recover_key(buf, pos, seen_events, last),
        }
    }

    fn add_fact(&mut self, key: &[u8], value: Raw, text: &[u8]) {
        let key = String::from_utf8_lossy(&unescape(key).0).into_owned();
        // Bare words that are numbers here but not in JSON would make the whole value unreadable later.
        let text = match value {
            Raw::Number { value: super::number::Number::Float(f), .. } if !f.is_finite() => "null".into(),
            _ => String::from_utf8_lossy(text),
        };
        self.fact_bytes += (key.len() + text.len() + size_of::<(String, String)>()) as u64;
        self.facts.entries.push((key, text.into_owned()));
    }

    /// A fact that can't be read: before the events, look for them; after them, nothing is left to gain.
    #[cold]
    fn recover_key(&mut self, buf: &[u8], pos: usize, seen_events: bool, last: bool) -> Progress {
        const EVENTS: &[u8] = b"\"traceEvents\"";
        if seen_events {
            self.rows.diagnostics.add(Defect::TrailingData, self.at(pos));
            self.trailing_seen = true;
            self.state = State::Done { seen_events };
            return Progress::To(buf.len());
        }
        match memmem::find(&buf[pos + 1..], EVENTS) {
            Some(i) => {
                let at = self.at(pos);
                self.rows.diagnostics.add(Defect::MalformedEvent, at);
                Progress::To(pos + 1 + i)
            }
            None if last => {
                self.state = State::NotATrace;
                Progress::To(buf.len())
            }
            None => Progress::Wait(pos),
        }
    }

    fn done(&mut self, buf: &[u8], pos: usize) -> Progress {
        let rest = skip_blanks(buf, pos);
        if rest < buf.len() && !self.trailing_seen {
            self.trailing_seen = true;
            self.rows.diagnostics.add(Defect::TrailingData, self.at(rest));
            if matches!(buf[rest], b'{' | b'[') {
                self.rows.diagnostics.add(Defect::SecondDocument, self.at(rest));
            }
        }
        Progress::To(buf.len())
    }

    fn events(&mut self, buf: &[u8], pos: usize, in_object: bool, last: bool) -> Progress {
        let mut pos = pos;
        loop {
            let element = self.gap.skip(buf, pos);
            match buf.get(element) {
                None => return Progress::To(buf.len()),
                Some(b'{') => match self.event(buf, element, last) {
                    Progress::To(next) => pos = next,
                    wait @ Progress::Wait(_) => return wait,
                },
                Some(b']') => {
                    self.state =
                        if in_object { State::Keys { seen_events: true } } else { State::Done { seen_events: true } };
                    return Progress::To(element + 1);
                }
                Some(_) => match self.other_element(buf, element, last) {
                    Progress::To(next) => pos = next,
                    wait @ Progress::Wait(_) => return wait,
                },
            }
            if pos >= buf.len() {
                return Progress::To(buf.len());
            }
        }
    }

    #[inline]
    fn event(&mut self, buf: &[u8], pos: usize, last: bool) -> Progress {
        match self.shapes.read(buf, pos, &mut self.rows) {
            Some(end) => Progress::To(end),
            None => self.slow_event(buf, pos, last),
        }
    }

    #[cold]
    fn slow_event(&mut self, buf: &[u8], pos: usize, last: bool) -> Progress {
        self.fields.clear();
        match general::event(buf, pos, &mut self.fields) {
            Ok((end, oddities)) => {
                self.slow_events += 1;
                self.rows.add(buf, &self.fields, oddities, &mut self.lesson);
                self.shapes.learn(buf, pos, end, &self.lesson);
                Progress::To(end)
            }
            Err(Stop::Incomplete) => Progress::Wait(pos),
            Err(Stop::Malformed) => self.recover_event(buf, pos, last),
        }
    }

    /// Skips to where the next event begins.
    #[cold]
    fn recover_event(&mut self, buf: &[u8], pos: usize, last: bool) -> Progress {
        match next_event(buf, pos + 1) {
            Some(next) => {
                self.rows.add_damaged(Defect::MalformedEvent);
                Progress::To(next)
            }
            None if last => {
                self.rows.add_damaged(Defect::MalformedEvent);
                Progress::To(end_of_array(buf, pos + 1).unwrap_or(buf.len()))
            }
            None => Progress::Wait(pos),
        }
    }

    /// An element that is no object keeps its place.
    #[cold]
    fn other_element(&mut self, buf: &[u8], pos: usize, last: bool) -> Progress {
        match general::value(buf, pos) {
            Ok((_, end)) => {
                self.rows.add_damaged(Defect::NotAnObject);
                Progress::To(end)
            }
            Err(Stop::Incomplete) => Progress::Wait(pos),
            Err(Stop::Malformed) => self.recover_event(buf, pos, last),
        }
    }
}

/// What stands between events: as a rule the same few bytes everywhere.
#[derive(Debug, Default)]
struct Gap {
    /// Those bytes with the brace that follows them; all zeros while none are known.
    word: u64,
    mask: u64,
    len: usize,
}

impl Gap {
    /// Position of the first byte at or after `pos` that is neither blank nor comma.
    #[inline]
    fn skip(&mut self, buf: &[u8], pos: usize) -> usize {
        match buf.get(pos..).and_then(|rest| rest.first_chunk()) {
            Some(bytes) if (u64::from_le_bytes(*bytes) ^ self.word) & self.mask == 0 && self.len > 0 => pos + self.len,
            _ => self.other(buf, pos),
        }
    }

    #[inline(never)]
    fn other(&mut self, buf: &[u8], pos: usize) -> usize {
        let element = skip_separators(buf, pos);
        let len = element - pos;
        if len < 8 && buf.get(element) == Some(&b'{') {
            let mut word = [0; 8];
            word[..=len].copy_from_slice(&buf[pos..=element]);
            *self = Self { word: u64::from_le_bytes(word), mask: u64::MAX >> (56 - 8 * len), len };
        }
        element
    }
}

/// Position of the first byte that is neither blank nor comma.
#[inline]
fn skip_separators(buf: &[u8], mut pos: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t' | b',') = buf.get(pos) {
        pos += 1;
    }
    pos
}

/// Position of the next brace that opens an event: `}`, a comma, `{` and one of the keys events begin with. It can't
/// lie inside a string, since the quote after the brace would end that string and be followed by a bare word.
pub(super) fn next_event(buf: &[u8], from: usize) -> Option<usize> {
    const FIRST_KEYS: [&[u8]; 8] =
        [b"\"ph\"", b"\"name\"", b"\"cat\"", b"\"pid\"", b"\"tid\"", b"\"ts\"", b"\"args\"", b"\"id\""];
    memchr::memchr_iter(b'{', buf.get(from..)?).map(|i| from + i).find(|&brace| {
        let key = skip_blanks(buf, brace + 1);
        if !FIRST_KEYS.iter().any(|k| buf[key..].starts_with(k)) {
            return false;
        }
        let before = |mut at: usize| {
            while at > from && matches!(buf[at - 1], b' ' | b'\n' | b'\r' | b'\t') {
                at -= 1;
            }
            at
        };
        let comma = before(brace);
        if comma == from || buf[comma - 1] != b',' {
            return false;
        }
        let close = before(comma - 1);
        close > from && buf[close - 1] == b'}'
    })
}

/// Position of the bracket that closes the array of events, if a damaged event is the last one.
fn end_of_array(buf: &[u8], from: usize) -> Option<usize> {
    memchr::memchr_iter(b'}', buf.get(from..)?).find_map(|i| {
        let bracket = skip_blanks(buf, from + i + 1);
        let after = skip_blanks(buf, bracket + 1);
        (buf.get(bracket) == Some(&b']') && matches!(buf.get(after), None | Some(b',' | b'}'))).then_some(bracket)
    })
}

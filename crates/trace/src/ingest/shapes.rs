//! The fast path: event shapes, learned while reading.
//!
//! A trace of a million events has some eighty shapes: the same keys in the same order with the same blanks. All that
//! does not vary between the events of a shape is one literal, so an event is "compare a literal, read a value",
//! repeated. Shapes form a tree whose edges are such literals, each followed by one kind of value. Every byte of a
//! literal is compared and every value is checked by the next literal, so a wrong guess can cost time, never a wrong
//! reading: an event that fits no shape goes to the general parser, which teaches its shape.

use super::number;
use super::rows::{Lesson, Read, Rows, SlotTemplate, Step};
use super::scan::{brackets_end, string_end};
use crate::model::{ClassId, Id, Layout, MISSING_TIME, Slot, Store, StrId, Track, TrackId};

/// Beyond this the file has no shapes worth learning.
const MAX_NODES: usize = 4000;
/// Alternatives at one place.
const MAX_EDGES: usize = 64;
/// Numbers of one event whose kinds fit the code of a class.
const MAX_NUMBERS: usize = 32;
/// Classes a shape remembers; with more tracks than that they are looked up each time.
const MAX_CLASSES: usize = 256;

/// Sixteen bytes, the unit of comparison.
type Chunk = [u8; 16];

#[inline]
fn chunk_at(buf: &[u8], pos: usize) -> Option<&Chunk> {
    buf.get(pos..)?.first_chunk()
}

/// Constant bytes, laid out so that any literal of up to 64 bytes is compared in one to four steps: chunks from its
/// start and chunks from its end, which may overlap.
#[derive(Debug, PartialEq, Eq)]
enum Literal {
    /// Up to 16 bytes: those that count, and which of them do.
    Short { value: u128, mask: u128 },
    /// Up to 32.
    Medium { first: Chunk, last: Chunk },
    /// Up to 64.
    Long { first: [Chunk; 2], last: [Chunk; 2] },
    /// Any length.
    Huge(Box<[u8]>),
}

impl Literal {
    fn new(bytes: &[u8]) -> Self {
        let chunk = |at: usize| chunk_at(bytes, at).copied().unwrap_or_default();
        match bytes.len() {
            len @ 0..=16 => {
                let (mut value, mut mask) = ([0; 16], [0; 16]);
                value[..len].copy_from_slice(bytes);
                mask[..len].fill(0xff);
                Self::Short { value: u128::from_le_bytes(value), mask: u128::from_le_bytes(mask) }
            }
            len @ 17..=32 => Self::Medium { first: chunk(0), last: chunk(len - 16) },
            len @ 33..=64 => Self::Long { first: [chunk(0), chunk(16)], last: [chunk(len - 32), chunk(len - 16)] },
            _ => Self::Huge(bytes.into()),
        }
    }

    /// Whether the literal, which is `len` bytes long, stands at `pos`. Says no near the end of the buffer, where the
    /// general parser decides.
    #[inline]
    fn stands_at(&self, buf: &[u8], pos: usize, len: usize) -> bool {
        let is = |at: usize, chunk: &Chunk| chunk_at(buf, at) == Some(chunk);
        match self {
            Self::Short { value, mask } => {
                chunk_at(buf, pos).is_some_and(|bytes| (u128::from_le_bytes(*bytes) ^ value) & mask == 0)
            }
            Self::Medium { first, last } => is(pos, first) && is(pos + len - 16, last),
            Self::Long { first, last } => {
                is(pos, &first[0])
                    && is(pos + 16, &first[1])
                    && is(pos + len - 32, &last[0])
                    && is(pos + len - 16, &last[1])
            }
            Self::Huge(bytes) => buf.get(pos..).is_some_and(|rest| rest.starts_with(bytes)),
        }
    }
}

/// What follows a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// A value, and the node that knows what may follow it.
    Value(Read, u32),
    /// The end of an event of this shape.
    End(u32),
}

/// A literal and what follows it.
#[derive(Debug)]
struct Edge {
    literal: Literal,
    len: usize,
    then: Then,
    /// The next alternative at the same place.
    sibling: u32,
}

const NO_EDGE: u32 = u32::MAX;

impl Edge {
    /// Takes the edge if its literal stands at `pos` and its kind of value follows: the position after both.
    #[inline]
    fn take(&self, buf: &[u8], pos: usize, event: &mut Event, rows: &mut Rows, texts: &mut Texts) -> Option<usize> {
        if !self.literal.stands_at(buf, pos, self.len) {
            return None;
        }
        let pos = pos + self.len;
        match self.then {
            Then::End(_) => Some(pos),
            Then::Value(read, _) => event.read(read, buf, pos, rows, texts),
        }
    }
}

/// What may stand at one place.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// The first of its edges.
    first: u32,
    /// The one taken last, which is tried before the others.
    likely: u32,
}

const NEW_NODE: Node = Node { first: NO_EDGE, likely: NO_EDGE };

/// Guesses which text comes next, so that most texts are found by one comparison instead of a search for their end, a
/// hash and a lookup. A guess is compared byte by byte: a wrong one costs time only.
#[derive(Debug)]
struct Texts {
    /// By the hash of what came before.
    guesses: Vec<StrId>,
    last_name: StrId,
}

const GUESSES: usize = 1 << 13;

impl Texts {
    fn new(none: StrId) -> Self {
        Self { guesses: vec![none; GUESSES], last_name: none }
    }

    /// Where the guess for the text at the `slot`-th value after `name` stands.
    #[inline]
    fn place(name: StrId, slot: usize) -> usize {
        ((name.0 as usize).wrapping_mul(0x9e37_79b1) >> 7).wrapping_add(slot * 1031) % GUESSES
    }

    /// The string whose content starts at `pos` (its quote follows it).
    #[inline]
    fn string(&mut self, place: usize, buf: &[u8], pos: usize, rows: &mut Rows) -> Option<(StrId, usize)> {
        let guess = self.guesses[place];
        let text = rows.columns.strings.bytes_of(guess);
        if buf[pos..].starts_with(text) && buf.get(pos + text.len()) == Some(&b'"') {
            return Some((guess, pos + text.len()));
        }
        let (end, escaped) = string_end(buf, pos)?;
        let id = rows.text(&buf[pos..end], escaped);
        // A text that was escaped does not stand in the file as it is kept.
        if !escaped {
            self.guesses[place] = id;
        }
        Some((id, end))
    }

    /// The list or object that opens at `pos`.
    #[inline]
    fn json(&mut self, place: usize, buf: &[u8], pos: usize, rows: &mut Rows) -> Option<(StrId, usize)> {
        if !matches!(buf.get(pos)?, b'[' | b'{') {
            return None;
        }
        let guess = self.guesses[place];
        let text = rows.columns.strings.bytes_of(guess);
        // Brackets balance at the end of the guessed text and not before, so it can't be the start of a longer list.
        if !text.is_empty() && buf[pos..].starts_with(text) && matches!(text[0], b'[' | b'{') {
            return Some((guess, pos + text.len()));
        }
        let end = brackets_end(buf, pos)?;
        let id = rows.text(&buf[pos..end], false);
        self.guesses[place] = id;
        Some((id, end))
    }
}

/// A shape.
#[derive(Debug)]
struct Leaf {
    phase: u8,
    category: Option<StrId>,
    track: Option<TrackId>,
    slots: Vec<SlotTemplate>,
    /// Classes met so far, by the kinds of their numbers and their track; the one met last stands first.
    classes: Vec<(u64, TrackId, ClassId)>,
    /// Edge of the root that the following event took last time.
    next_root_edge: u32,
}

/// The event being read.
struct Event {
    name: StrId,
    pid: Id,
    tid: Id,
    ts: i64,
    dur: i64,
    numbers: u32,
    texts: usize,
    /// Two bits for each number: how it is stored.
    code: u64,
}

/// The shapes learned so far.
#[derive(Debug)]
pub(super) struct Shapes {
    nodes: Vec<Node>,
    edges: Vec<Edge>,
    leaves: Vec<Leaf>,
    last_leaf: Option<usize>,
    texts: Texts,
}

impl Shapes {
    pub(super) fn new(no_name: StrId) -> Self {
        Self {
            nodes: vec![NEW_NODE],
            edges: Vec::new(),
            leaves: Vec::new(),
            last_leaf: None,
            texts: Texts::new(no_name),
        }
    }

    /// Reads the event at `pos` into a row and returns the position after it; `None`, with the rows as they were, if
    /// it fits no shape.
    #[inline]
    pub(super) fn read(&mut self, buf: &[u8], pos: usize, rows: &mut Rows) -> Option<usize> {
        let columns = &rows.columns;
        let before = (columns.values.len(), columns.wide.len(), columns.floats.len());
        let end = self.walk(buf, pos, rows, before.0);
        if end.is_none() {
            rows.columns.values.truncate(before.0);
            rows.columns.wide.truncate(before.1);
            rows.columns.floats.truncate(before.2);
        }
        end
    }

    #[inline]
    fn walk(&mut self, buf: &[u8], start: usize, rows: &mut Rows, values_at: usize) -> Option<usize> {
        let mut event = Event::new(rows.no_name);
        if let Some(leaf) = self.last_leaf {
            self.nodes[0].likely = self.leaves[leaf].next_root_edge;
        }
        let mut pos = start;
        let mut at = 0usize;
        loop {
            let likely = self.nodes[at].likely as usize;
            let edge = self.edges.get(likely)?;
            let then = if let Some(next) = edge.take(buf, pos, &mut event, rows, &mut self.texts) {
                pos = next;
                edge.then
            } else {
                let (then, next) = self.take_other(at, likely, buf, pos, &mut event, rows)?;
                pos = next;
                then
            };
            match then {
                Then::Value(_, target) => at = target as usize,
                Then::End(leaf) => {
                    let leaf = leaf as usize;
                    let class = self.leaves[leaf].class(&event, rows);
                    rows.columns.push(event.name, class, event.ts, event.dur, values_at);
                    self.texts.last_name = event.name;
                    if let Some(previous) = self.last_leaf {
                        self.leaves[previous].next_root_edge = self.nodes[0].likely;
                    }
                    self.last_leaf = Some(leaf);
                    return Some(pos);
                }
            }
        }
    }

    /// The likely edge does not fit: tries the others.
    fn take_other(
        &mut self,
        node: usize,
        likely: usize,
        buf: &[u8],
        pos: usize,
        event: &mut Event,
        rows: &mut Rows,
    ) -> Option<(Then, usize)> {
        let mut at = self.nodes[node].first as usize;
        while let Some(edge) = self.edges.get(at) {
            if at != likely
                && let Some(next) = edge.take(buf, pos, event, rows, &mut self.texts)
            {
                self.nodes[node].likely = at as u32;
                return Some((edge.then, next));
            }
            at = edge.sibling as usize;
        }
        None
    }

    /// Adds the shape of the event that stands at `start..end` of the buffer.
    pub(super) fn learn(&mut self, buf: &[u8], start: usize, end: usize, lesson: &Lesson) {
        let numbers = lesson.steps.iter().filter(|s| s.read == Read::Number).count();
        if !lesson.usable || self.nodes.len() + lesson.steps.len() > MAX_NODES || numbers > MAX_NUMBERS {
            return;
        }
        let mut at = 0;
        let mut literal_start = start;
        for &Step { start: value_start, end: value_end, read } in &lesson.steps {
            let target = self.nodes.len() as u32;
            let Some(then) = self.edge(at, &buf[literal_start..value_start], Then::Value(read, target)) else { return };
            let Then::Value(_, next) = then else { return };
            if next == target {
                self.nodes.push(NEW_NODE);
            }
            at = next as usize;
            literal_start = value_end;
        }
        let leaf = self.leaves.len() as u32;
        if self.edge(at, &buf[literal_start..end], Then::End(leaf)) == Some(Then::End(leaf)) {
            self.leaves.push(Leaf {
                phase: lesson.phase,
                category: lesson.category,
                track: lesson.track,
                slots: lesson.slots.clone(),
                classes: Vec::new(),
                next_root_edge: 0,
            });
        }
    }

    /// The edge of a node with this literal and kind of value, added if it is new; `None` if the node is full.
    fn edge(&mut self, node: usize, literal: &[u8], then: Then) -> Option<Then> {
        let same_kind = |a: Then, b: Then| match (a, b) {
            (Then::Value(a, _), Then::Value(b, _)) => a == b,
            (Then::End(_), Then::End(_)) => true,
            _ => false,
        };
        let (len, literal) = (literal.len(), Literal::new(literal));
        let mut at = self.nodes[node].first;
        let mut alternatives = 0;
        while let Some(edge) = self.edges.get(at as usize) {
            if same_kind(edge.then, then) && edge.len == len && edge.literal == literal {
                return Some(edge.then);
            }
            at = edge.sibling;
            alternatives += 1;
        }
        if alternatives >= MAX_EDGES {
            return None;
        }
        let id = self.edges.len() as u32;
        self.edges.push(Edge { literal, len, then, sibling: self.nodes[node].first });
        self.nodes[node] = Node { first: id, likely: id };
        Some(then)
    }
}

impl Event {
    fn new(no_name: StrId) -> Self {
        Self {
            name: no_name,
            pid: Id::Null,
            tid: Id::Null,
            ts: MISSING_TIME,
            dur: MISSING_TIME,
            numbers: 0,
            texts: 0,
            code: 0,
        }
    }

    #[inline]
    fn read(&mut self, read: Read, buf: &[u8], pos: usize, rows: &mut Rows, texts: &mut Texts) -> Option<usize> {
        match read {
            Read::Name => {
                let (id, end) = texts.string(Texts::place(texts.last_name, 0), buf, pos, rows)?;
                self.name = id;
                Some(end)
            }
            Read::Ts => {
                let (ns, end) = number::micros(buf, pos)?;
                self.ts = ns;
                Some(end)
            }
            Read::Dur => {
                let (ns, end) = number::micros(buf, pos)?;
                self.dur = ns;
                Some(end)
            }
            Read::Number => {
                if let Some((value, end)) = number::small(buf, pos) {
                    rows.columns.values.push(value);
                    self.numbers += 1;
                    return Some(end);
                }
                let (value, end) = number::number(buf, pos)?;
                self.code |= (rows.number(value) as u64) << (2 * self.numbers);
                self.numbers += 1;
                Some(end)
            }
            Read::Text | Read::Json => {
                self.texts += 1;
                let place = Texts::place(self.name, self.texts);
                let (id, end) = if read == Read::Text {
                    texts.string(place, buf, pos, rows)?
                } else {
                    texts.json(place, buf, pos, rows)?
                };
                rows.columns.values.push(id.0);
                Some(end)
            }
            Read::Pid | Read::Tid => {
                let (number::Number::Int(i), end) = number::number(buf, pos)? else { return None };
                *(if read == Read::Pid { &mut self.pid } else { &mut self.tid }) = Id::Int(i);
                Some(end)
            }
        }
    }
}

impl Leaf {
    /// The class of an event of this shape.
    #[inline]
    fn class(&mut self, event: &Event, rows: &mut Rows) -> ClassId {
        let track = match self.track {
            Some(track) => track,
            None => rows.columns.track(Track { pid: event.pid, tid: event.tid }),
        };
        match self.classes.iter().position(|&(code, t, _)| code == event.code && t == track) {
            Some(0) => self.classes[0].2,
            Some(i) => {
                self.classes.swap(0, i);
                self.classes[0].2
            }
            None => self.new_class(event.code, track, rows),
        }
    }

    #[cold]
    fn new_class(&mut self, code: u64, track: TrackId, rows: &mut Rows) -> ClassId {
        let mut numbers = 0;
        let slots = self.slots.iter().map(|slot| {
            let store = slot.store.unwrap_or_else(|| {
                numbers += 1;
                match (code >> (2 * (numbers - 1))) & 3 {
                    0 => Store::Small,
                    1 => Store::Wide,
                    _ => Store::Float,
                }
            });
            Slot { key: slot.key, place: slot.place, store }
        });
        let layout = Layout { phase: self.phase, category: self.category, track, slots: slots.collect() };
        let id = rows.columns.class(layout);
        if self.classes.len() < MAX_CLASSES {
            self.classes.push((code, track, id));
        } else {
            self.classes[MAX_CLASSES - 1] = (code, track, id);
        }
        id
    }
}

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

/// Constant bytes, compared sixteen at a time.
#[derive(Debug)]
struct Literal {
    len: usize,
    chunks: Vec<(u128, u128)>,
}

impl Literal {
    fn new(bytes: &[u8]) -> Self {
        let chunk = |part: &[u8]| {
            let (mut value, mut mask) = ([0; 16], [0; 16]);
            value[..part.len()].copy_from_slice(part);
            mask[..part.len()].fill(0xff);
            (u128::from_le_bytes(value), u128::from_le_bytes(mask))
        };
        Self { len: bytes.len(), chunks: bytes.chunks(16).map(chunk).collect() }
    }

    /// Whether the literal stands at `pos`. Says no near the end of the buffer: the general parser decides there.
    #[inline]
    fn stands_at(&self, buf: &[u8], pos: usize) -> bool {
        let mut at = pos;
        for &(value, mask) in &self.chunks {
            let Some(bytes) = buf.get(at..).and_then(|rest| rest.first_chunk::<16>()) else { return false };
            if (u128::from_le_bytes(*bytes) ^ value) & mask != 0 {
                return false;
            }
            at += 16;
        }
        true
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

#[derive(Debug)]
struct Edge {
    literal: Literal,
    bytes: Box<[u8]>,
    then: Then,
}

/// What may stand at one place; the edge taken last is tried first.
#[derive(Debug, Default)]
struct Node {
    edges: Vec<Edge>,
    likely: usize,
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
    next_root_edge: usize,
}

/// The event being read.
struct Event {
    name: StrId,
    pid: Id,
    tid: Id,
    ts: i64,
    dur: i64,
    numbers: u32,
    /// Two bits for each number: how it is stored.
    code: u64,
}

/// The shapes learned so far.
#[derive(Debug)]
pub(super) struct Shapes {
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    last_leaf: Option<usize>,
}

impl Shapes {
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::default()], leaves: Vec::new(), last_leaf: None }
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
        let mut event = Event {
            name: rows.no_name,
            pid: Id::Null,
            tid: Id::Null,
            ts: MISSING_TIME,
            dur: MISSING_TIME,
            numbers: 0,
            code: 0,
        };
        if let Some(leaf) = self.last_leaf {
            self.nodes[0].likely = self.leaves[leaf].next_root_edge;
        }
        let mut pos = start;
        let mut at = 0usize;
        let mut root_edge = 0;
        loop {
            let node = &mut self.nodes[at];
            let likely = node.likely;
            let (then, next) = match node.edges.get(likely).and_then(|edge| edge.take(buf, pos, &mut event, rows)) {
                Some(taken) => taken,
                None => {
                    let (i, taken) = node
                        .edges
                        .iter()
                        .enumerate()
                        .filter(|(i, _)| *i != likely)
                        .find_map(|(i, edge)| Some((i, edge.take(buf, pos, &mut event, rows)?)))?;
                    node.likely = i;
                    taken
                }
            };
            if at == 0 {
                root_edge = node.likely;
            }
            pos = next;
            match then {
                Then::Value(_, target) => at = target as usize,
                Then::End(leaf) => {
                    let leaf = leaf as usize;
                    let class = self.leaves[leaf].class(&event, rows);
                    rows.columns.push(event.name, class, event.ts, event.dur, values_at);
                    if let Some(previous) = self.last_leaf {
                        self.leaves[previous].next_root_edge = root_edge;
                    }
                    self.last_leaf = Some(leaf);
                    return Some(pos);
                }
            }
        }
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
                self.nodes.push(Node::default());
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
        let node = &mut self.nodes[node];
        if let Some(edge) = node.edges.iter().find(|e| *e.bytes == *literal && same_kind(e.then, then)) {
            return Some(edge.then);
        }
        if node.edges.len() >= MAX_EDGES {
            return None;
        }
        node.edges.push(Edge { literal: Literal::new(literal), bytes: literal.into(), then });
        Some(then)
    }
}

impl Edge {
    /// Takes the edge if its literal stands at `pos` and its kind of value follows.
    #[inline]
    fn take(&self, buf: &[u8], pos: usize, event: &mut Event, rows: &mut Rows) -> Option<(Then, usize)> {
        if !self.literal.stands_at(buf, pos) {
            return None;
        }
        let pos = pos + self.literal.len;
        let next = match self.then {
            Then::End(_) => pos,
            Then::Value(read, _) => event.read(read, buf, pos, rows)?,
        };
        Some((self.then, next))
    }
}

impl Event {
    #[inline]
    fn read(&mut self, read: Read, buf: &[u8], pos: usize, rows: &mut Rows) -> Option<usize> {
        Some(match read {
            Read::Name => {
                let (end, escaped) = string_end(buf, pos)?;
                self.name = rows.text(&buf[pos..end], escaped);
                end
            }
            Read::Ts => {
                let (ns, end) = number::micros(buf, pos)?;
                self.ts = ns;
                end
            }
            Read::Dur => {
                let (ns, end) = number::micros(buf, pos)?;
                self.dur = ns;
                end
            }
            Read::Number => {
                let (value, end) = number::number(buf, pos)?;
                self.code |= (rows.number(value) as u64) << (2 * self.numbers);
                self.numbers += 1;
                end
            }
            Read::Text => {
                let (end, escaped) = string_end(buf, pos)?;
                let id = rows.text(&buf[pos..end], escaped);
                rows.columns.values.push(id.0);
                end
            }
            Read::Json => {
                if !matches!(buf.get(pos)?, b'[' | b'{') {
                    return None;
                }
                let end = brackets_end(buf, pos)?;
                let id = rows.text(&buf[pos..end], false);
                rows.columns.values.push(id.0);
                end
            }
            Read::Pid | Read::Tid => {
                let (number::Number::Int(i), end) = number::number(buf, pos)? else { return None };
                *(if read == Read::Pid { &mut self.pid } else { &mut self.tid }) = Id::Int(i);
                end
            }
        })
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

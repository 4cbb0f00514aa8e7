//! The fast path: event shapes, learned while reading.
//!
//! A trace of a million events has some eighty shapes: the same keys in the same order with the same blanks. All that
//! does not vary between the events of a shape is one literal, so an event is "compare a literal, read a value",
//! repeated. Shapes form a tree whose edges are such literals, each followed by one kind of value. Every byte of a
//! literal is compared and every value is checked by the next literal, so a wrong guess can cost time, never a wrong
//! reading: an event that fits no shape goes to the general parser, which teaches its shape.

use super::literal::Literal;
use super::number;
use super::rows::{Lesson, Read, Rows, SlotTemplate, Step};
use super::texts::Texts;
use crate::diagnostics::Defect;
use crate::model::{ClassId, Id, Layout, MISSING_TIME, Slot, Store, StrId, Track, TrackId};

/// Beyond this the file has no shapes worth learning.
const MAX_NODES: usize = 4000;
/// Alternatives at one place.
const MAX_EDGES: usize = 64;
/// Numbers of one event whose kinds fit the code of a class.
const MAX_NUMBERS: usize = 32;
/// Classes a shape remembers; with more tracks than that they are looked up each time.
const MAX_CLASSES: usize = 256;

/// A literal and what follows it.
#[derive(Debug)]
struct Edge {
    literal: Literal,
    /// The value that follows; `None` if the event is over.
    then: Option<Read>,
    /// The node that knows what may follow the value, or the shape of the event.
    target: u32,
    /// The next alternative at the same place.
    sibling: u32,
}

const NO_EDGE: u32 = u32::MAX;

/// What may stand at one place.
#[derive(Debug, Clone, Copy)]
struct Node {
    /// The first of its edges.
    first: u32,
    /// The one taken last, which is tried before the others.
    likely: u32,
}

const NEW_NODE: Node = Node { first: NO_EDGE, likely: NO_EDGE };

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

/// What reading a text can count.
const REPAIRS: [Defect; 2] = [Defect::InvalidUtf8, Defect::InvalidEscape];

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
        let repairs = rows.diagnostics.counted(REPAIRS);
        let Some(rest) = self.walk(buf.get(pos..)?, rows) else {
            // They are counted again when the event is read another way, or once all of it is there.
            rows.diagnostics.put_back(REPAIRS, repairs);
            rows.columns.values.truncate(before.0);
            rows.columns.wide.truncate(before.1);
            rows.columns.floats.truncate(before.2);
            return None;
        };
        Some(buf.len() - rest.len())
    }

    /// Reads the event that `text` begins with; what follows it. Kept out of its caller and clear of all that is rare,
    /// so that its variables stay in registers.
    #[inline(never)]
    fn walk<'t>(&mut self, mut text: &'t [u8], rows: &mut Rows) -> Option<&'t [u8]> {
        let values_at = rows.columns.values.len();
        let mut event = Event::new(rows.no_name);
        if let Some(leaf) = self.last_leaf {
            self.nodes[0].likely = self.leaves[leaf].next_root_edge;
        }
        let mut at = 0usize;
        // Where a round over the alternatives began.
        let mut tried = NO_EDGE;
        loop {
            let id = self.nodes[at].likely;
            let edge = self.edges.get(id as usize)?;
            let rest = match (edge.literal.strip(text), edge.then) {
                (Some(value), Some(read)) => event.read(read, value, rows, &mut self.texts),
                (rest, _) => rest,
            };
            let Some(rest) = rest else {
                tried = if tried == NO_EDGE { id } else { tried };
                self.turn_to_other(at, tried, text)?;
                continue;
            };
            tried = NO_EDGE;
            text = rest;
            if edge.then.is_none() {
                let leaf = edge.target as usize;
                self.finish(leaf, &event, values_at, rows);
                return Some(text);
            }
            at = edge.target as usize;
        }
    }

    /// An event of a shape is over: its row is written.
    #[inline]
    fn finish(&mut self, leaf: usize, event: &Event, values_at: usize, rows: &mut Rows) {
        let class = self.leaves[leaf].class(event, rows);
        rows.columns.push(event.name, class, event.ts, event.dur, values_at);
        if let Some(previous) = self.last_leaf {
            self.leaves[previous].next_root_edge = self.nodes[0].likely;
        }
        self.last_leaf = Some(leaf);
    }

    /// The likely edge does not fit: makes the next one likely whose literal does. `None` after a whole round, which
    /// began at the edge `tried`.
    #[inline(never)]
    fn turn_to_other(&mut self, at: usize, tried: u32, text: &[u8]) -> Option<()> {
        let node = &mut self.nodes[at];
        loop {
            let next = self.edges.get(node.likely as usize)?.sibling;
            node.likely = if next == NO_EDGE { node.first } else { next };
            if node.likely == tried {
                return None;
            }
            if self.edges.get(node.likely as usize)?.literal.strip(text).is_some() {
                return Some(());
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
            let Some(next) = self.edge(at, &buf[literal_start..value_start], Some(read), target) else { return };
            if next == target {
                self.nodes.push(NEW_NODE);
            }
            at = next as usize;
            literal_start = value_end;
        }
        let leaf = self.leaves.len() as u32;
        if self.edge(at, &buf[literal_start..end], None, leaf) == Some(leaf) {
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

    /// Where the edge of a node with this literal and kind of value leads; added if it is new, `None` if the node is
    /// full.
    fn edge(&mut self, node: usize, literal: &[u8], then: Option<Read>, target: u32) -> Option<u32> {
        let literal = Literal::new(literal);
        let mut at = self.nodes[node].first;
        let mut alternatives = 0;
        while let Some(edge) = self.edges.get(at as usize) {
            if edge.then == then && edge.literal == literal {
                return Some(edge.target);
            }
            at = edge.sibling;
            alternatives += 1;
        }
        if alternatives >= MAX_EDGES {
            return None;
        }
        let id = self.edges.len() as u32;
        self.edges.push(Edge { literal, then, target, sibling: self.nodes[node].first });
        self.nodes[node] = Node { first: id, likely: id };
        Some(target)
    }
}

impl Event {
    fn new(no_name: StrId) -> Self {
        Self { name: no_name, pid: Id::Null, tid: Id::Null, ts: MISSING_TIME, dur: MISSING_TIME, numbers: 0, code: 0 }
    }

    /// Reads the value that `text` begins with; what follows it.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the step of the walk; a call for each would cost as much as the step")]
    fn read<'t>(&mut self, read: Read, text: &'t [u8], rows: &mut Rows, texts: &mut Texts) -> Option<&'t [u8]> {
        match read {
            Read::Number => {
                if let Some((value, rest)) = number::small(text) {
                    rows.columns.values.push(value);
                    self.numbers += 1;
                    return Some(rest);
                }
                self.other_number(text, rows)
            }
            Read::Name => {
                let (id, rest) = texts.name(text, rows)?;
                self.name = id;
                Some(rest)
            }
            Read::Ts | Read::Dur => {
                let (ns, rest) = number::micros(text)?;
                *(if read == Read::Ts { &mut self.ts } else { &mut self.dur }) = ns;
                Some(rest)
            }
            Read::Text => {
                let (id, rest) = texts.string(text, rows)?;
                rows.columns.values.push(id.0);
                Some(rest)
            }
            Read::Json => {
                let (id, rest) = texts.json(text, rows)?;
                rows.columns.values.push(id.0);
                Some(rest)
            }
            Read::Pid | Read::Tid => {
                let (number::Number::Int(i), rest) = number::number(text)? else { return None };
                *(if read == Read::Pid { &mut self.pid } else { &mut self.tid }) = Id::Int(i);
                Some(rest)
            }
        }
    }

    /// A number that is not small.
    #[inline(never)]
    fn other_number<'t>(&mut self, text: &'t [u8], rows: &mut Rows) -> Option<&'t [u8]> {
        let (value, rest) = number::number(text)?;
        self.code |= (rows.number(value) as u64) << (2 * self.numbers);
        self.numbers += 1;
        Some(rest)
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
        if let Some(&(code, t, class)) = self.classes.first()
            && code == event.code
            && t == track
        {
            return class;
        }
        self.other_class(event.code, track, rows)
    }

    #[inline(never)]
    fn other_class(&mut self, code: u64, track: TrackId, rows: &mut Rows) -> ClassId {
        match self.classes.iter().position(|&(c, t, _)| c == code && t == track) {
            Some(i) => {
                self.classes.swap(0, i);
                self.classes[0].2
            }
            None => self.new_class(code, track, rows),
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

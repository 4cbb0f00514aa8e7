//! The columns of a trace and how to read them.

use std::collections::HashMap;

use super::class::{Class, EventKind, Key, Layout, Place, Slot, Store};
use super::ids::{ClassId, EventId, Ns, StrId, TrackId};
use super::strings::Strings;
use super::values::{Field, Repacking, Values, WORD};
use crate::diagnostics::Diagnostics;

/// A `ts` or `dur` that the event does not have.
pub(crate) const MISSING_TIME: i64 = i64::MIN;

/// Durations that do not fit 32 bits of nanoseconds stand in a list of their own.
const LONG_DUR: u32 = u32::MAX;

/// A process or thread id as JSON has it: mostly numbers, sometimes text ("Spans"), sometimes absent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Id {
    /// Absent or `null`.
    Null,
    /// A number; `1` and `1.0` are the same id.
    Int(i64),
    /// Text; `"1"` is another id than `1`.
    Text(StrId),
}

/// A process and a thread of it: one line of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Track {
    /// Process, or device for GPU events.
    pub pid: Id,
    /// Thread, or stream for GPU events.
    pub tid: Id,
}

/// The value of an argument.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arg<'a> {
    /// A whole number.
    Int(i64),
    /// A number with a point or exponent, or one too large for 64 bits.
    Float(f64),
    /// Text, escapes resolved.
    Text(&'a str),
    /// A list or object, as its JSON text.
    Json(&'a str),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

impl Arg<'_> {
    /// As a whole number; writers sometimes put numbers into text.
    pub fn as_int(self) -> Option<i64> {
        match self {
            Self::Int(i) => Some(i),
            Self::Text(t) => t.trim().parse().ok(),
            #[expect(clippy::float_cmp, reason = "asks whether the float is a whole number, exactly")]
            Self::Float(f) if f.trunc() == f && f.abs() < 9e18 => Some(f as i64),
            _ => None,
        }
    }

    /// As a number.
    pub fn as_f64(self) -> Option<f64> {
        match self {
            Self::Int(i) => Some(i as f64),
            Self::Float(f) => Some(f),
            Self::Text(t) => t.trim().parse().ok(),
            _ => None,
        }
    }

    /// The text, if it is text.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(t) => Some(t),
            _ => None,
        }
    }
}

/// What stands in the file beside the events: device properties, capture options, and all else, verbatim.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub(crate) entries: Vec<(String, String)>,
}

impl Facts {
    /// Keys with their JSON text, in file order.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// JSON text of a key; the last one wins.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.entries.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// Parsed value of a key; `None` too if its text is damaged.
    pub fn value(&self, key: &str) -> Option<serde_json::Value> {
        serde_json::from_str(self.text(key)?).ok()
    }

    /// Whether a capture option (`record_shapes`, `with_stack`, …) was on.
    pub fn option_on(&self, key: &str) -> bool {
        matches!(self.text(key), Some("1" | "true"))
    }
}

/// What every event has, side by side: all of it is written at once and most of it is read together.
#[derive(Debug, Clone, Copy)]
struct Row {
    ts: i64,
    dur: u32,
    name: StrId,
    class: ClassId,
    /// Where its arguments start.
    values_at: u32,
}

/// A trace under construction: columns that only grow.
#[derive(Debug, Default, Clone)]
pub(crate) struct Columns {
    rows: Vec<Row>,
    long_durs: Vec<(u32, i64)>,
    pub(crate) values: Values,
    pub(crate) wide: Vec<i64>,
    pub(crate) floats: Vec<f64>,
    pub(crate) strings: Strings,
    pub(crate) class_table: Vec<Class>,
    class_index: HashMap<Layout, ClassId>,
    /// Argument slots of all classes.
    class_slots: usize,
    pub(crate) tracks: Vec<Track>,
    track_index: HashMap<Track, TrackId>,
    ranges: Ranges,
}

/// The least and the most word of each argument of each class, as far as they were looked at.
#[derive(Debug, Default, Clone)]
struct Ranges {
    of_class: Vec<Vec<(u32, u32)>>,
    /// How many rows were looked at.
    rows: usize,
}

impl Columns {
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Lengths of what 32-bit handles point into: rows, bytes of arguments, numbers of both sorts, texts.
    pub(crate) fn lengths(&self) -> [usize; 5] {
        [self.rows.len(), self.values.len(), self.wide.len(), self.floats.len(), self.strings.len()]
    }

    /// Bytes that the columns take, without room to grow into. Depends on nothing but what was read.
    pub(crate) fn memory(&self) -> u64 {
        let column = |length: usize, item: usize| (length * item) as u64;
        column(self.rows.len(), size_of::<Row>())
            + column(self.long_durs.len(), size_of::<(u32, i64)>())
            + self.values.len() as u64
            + column(self.wide.len(), size_of::<i64>())
            + column(self.floats.len(), size_of::<f64>())
            + self.strings.memory()
            // A class stands in the table and, as its layout, in the index.
            + column(self.class_table.len(), size_of::<Class>() + size_of::<(Layout, ClassId)>())
            + column(self.class_slots, 2 * size_of::<Slot>() + size_of::<Field>())
            + column(self.tracks.len(), 2 * size_of::<Track>() + size_of::<TrackId>())
    }

    /// Adds an event whose values were pushed to `values` from `values_at` on.
    #[inline]
    pub(crate) fn push(&mut self, name: StrId, class: ClassId, ts: i64, dur: i64, values_at: usize) {
        let short = if (0..i64::from(LONG_DUR)).contains(&dur) {
            dur as u32
        } else {
            self.long_durs.push((self.rows.len() as u32, dur));
            LONG_DUR
        };
        self.rows.push(Row { ts, dur: short, name, class, values_at: values_at as u32 });
    }

    /// The class of each event, in file order.
    pub(crate) fn classes(&self) -> impl Iterator<Item = ClassId> + '_ {
        self.rows.iter().map(|row| row.class)
    }

    pub(crate) fn class(&mut self, layout: Layout) -> ClassId {
        if let Some(&id) = self.class_index.get(&layout) {
            return id;
        }
        let id = ClassId(self.class_table.len() as u32);
        self.class_slots += layout.slots.len();
        self.class_table.push(Class::new(layout.clone(), |s| self.strings.get(s)));
        self.class_index.insert(layout, id);
        id
    }

    pub(crate) fn track(&mut self, track: Track) -> TrackId {
        let next = TrackId(self.tracks.len() as u32);
        let id = *self.track_index.entry(track).or_insert(next);
        if id == next {
            self.tracks.push(track);
        }
        id
    }

    /// Appends what was read from the part of the file that follows. Handles are given anew in order of first
    /// appearance, so the result is the same as if one reader had read both parts.
    pub(crate) fn append(&mut self, part: Self) {
        // Texts and numbers have other handles then.
        self.ranges = Ranges::default();
        let Self { rows, long_durs, values, wide, floats, .. } = part;
        let text: Vec<StrId> =
            (0..part.strings.len()).map(|i| self.strings.intern(part.strings.get(StrId(i as u32)))).collect();
        drop(part.strings);
        let map_id = |id: Id| if let Id::Text(t) = id { Id::Text(text[t.index()]) } else { id };
        let tracks: Vec<TrackId> =
            part.tracks.iter().map(|t| self.track(Track { pid: map_id(t.pid), tid: map_id(t.tid) })).collect();
        // In first-seen order, as one reader would have met them.
        let class_map: Vec<ClassId> = part
            .class_table
            .iter()
            .map(|c| {
                let mut layout = c.layout.clone();
                layout.category = layout.category.map(|s| text[s.index()]);
                layout.track = tracks[layout.track.index()];
                for slot in &mut layout.slots {
                    slot.key = text[slot.key.index()];
                }
                self.class(layout)
            })
            .collect();

        let first_row = self.len() as u32;
        let (first_value, first_wide, first_float) =
            (self.values.len(), self.wide.len() as u32, self.floats.len() as u32);
        self.long_durs.extend(long_durs.iter().map(|&(row, d)| (row + first_row, d)));
        self.values.append(&values);
        drop(values);
        self.rows.reserve_exact(rows.len());
        for row in &rows {
            let class = &part.class_table[row.class.index()];
            let mut at = first_value + row.values_at as usize;
            for slot in &class.layout.slots {
                let word = |at| self.values.word(at);
                let moved = match slot.store {
                    Store::Text | Store::Json => Some(text[word(at) as usize].0),
                    Store::Wide => Some(word(at) + first_wide),
                    Store::Float => Some(word(at) + first_float),
                    _ => None,
                };
                if let Some(word) = moved {
                    self.values.set_word(at, word);
                }
                at += usize::from(slot.store.words()) * WORD;
            }
            self.rows.push(Row {
                name: text[row.name.index()],
                class: class_map[row.class.index()],
                values_at: row.values_at + first_value as u32,
                ..*row
            });
        }
        self.wide.extend_from_slice(&wide);
        self.floats.extend_from_slice(&floats);
    }

    /// Looks at the arguments of the rows added since the last time, for [`pack`](Self::pack): while a file is unpacked there
    /// is time for it.
    pub(crate) fn note_ranges(&mut self) {
        let words = |class: &Class| class.layout.slots.iter().filter(|s| s.store.words() > 0).count();
        let Ranges { of_class, rows } = &mut self.ranges;
        let new = self.class_table.iter().skip(of_class.len());
        of_class.extend(new.map(|class| vec![(u32::MAX, 0); words(class)]));
        for row in &self.rows[*rows..] {
            let ranges = &mut of_class[row.class.index()];
            let words = self.values.words(row.values_at as usize, ranges.len());
            for ((least, most), word) in ranges.iter_mut().zip(words) {
                *least = word.min(*least);
                *most = word.max(*most);
            }
        }
        *rows = self.rows.len();
    }

    /// Stores arguments in as few bytes as those of their layout need; nothing can be added then.
    pub(crate) fn pack(&mut self) {
        self.note_ranges();
        let ranges = std::mem::take(&mut self.ranges).of_class;
        let fields: Vec<Vec<Field>> = ranges.iter().map(|ranges| Field::of_ranges(ranges)).collect();
        let mut packing = Repacking::new(&mut self.values);
        for row in &mut self.rows {
            let mut from = row.values_at as usize;
            row.values_at = packing.at() as u32;
            for field in &fields[row.class.index()] {
                packing.word(from, *field);
                from += WORD;
            }
        }
        packing.finish();
        for (class, fields) in self.class_table.iter_mut().zip(fields) {
            let stored = class.layout.slots.iter().zip(&mut class.fields).filter(|(slot, _)| slot.store.words() > 0);
            for ((_, field), packed) in stored.zip(fields) {
                *field = packed;
            }
        }
    }
}

/// A recorded trace.
#[derive(Debug, Clone)]
pub struct Trace {
    columns: Columns,
    facts: Facts,
    diagnostics: Diagnostics,
    threads: usize,
}

impl Trace {
    /// `threads` is how many its reader was allowed to use.
    pub(crate) fn new(mut columns: Columns, facts: Facts, diagnostics: Diagnostics, threads: usize) -> Self {
        columns.class_index = HashMap::new();
        Self { columns, facts, diagnostics, threads }
    }

    /// Threads that work on this trace may use; what it was read with.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Number of elements of `traceEvents`, whatever they are.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// Whether there is no element at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All events in file order.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = EventId> + ExactSizeIterator + use<> {
        (0..self.len() as u32).map(EventId)
    }

    /// The event with this UID.
    pub fn event(&self, uid: u32) -> Option<EventId> {
        ((uid as usize) < self.len()).then_some(EventId(uid))
    }

    /// Facts of the file beside its events.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What was odd or lost while reading.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.diagnostics
    }

    /// All texts.
    pub fn strings(&self) -> &Strings {
        &self.columns.strings
    }

    /// The text of a handle.
    pub fn text(&self, id: StrId) -> &str {
        self.columns.strings.get(id)
    }

    /// Name of an event; empty if it has none.
    pub fn name(&self, e: EventId) -> &str {
        self.text(self.name_id(e))
    }

    /// Handle of the name.
    pub fn name_id(&self, e: EventId) -> StrId {
        self.columns.rows[e.index()].name
    }

    #[inline]
    pub(crate) fn class(&self, e: EventId) -> &Class {
        &self.columns.class_table[self.class_id(e).index()]
    }

    /// Names of arguments that events have, in no order and some of them several times.
    pub fn arg_names(&self) -> impl Iterator<Item = &str> {
        let slots = self.classes().iter().flat_map(|class| &class.layout.slots);
        slots.filter(|slot| slot.place == Place::Args).map(|slot| self.text(slot.key))
    }

    /// Whether any event of this kind was recorded with this.
    pub fn records(&self, kind: EventKind, key: Key) -> bool {
        self.classes().iter().any(|class| class.kind == kind && class.slot_of(key).is_some())
    }

    /// All layouts, by handle.
    pub(crate) fn classes(&self) -> &[Class] {
        &self.columns.class_table
    }

    /// Handle of the event's layout. Events of one class have the same kind, category and track.
    #[inline]
    pub fn class_id(&self, e: EventId) -> ClassId {
        self.columns.rows[e.index()].class
    }

    /// Whether there is any kernel, copy or fill.
    pub fn has_gpu_events(&self) -> bool {
        // There is no class without an event.
        self.classes().iter().any(|class| class.kind.is_gpu())
    }

    /// Number of distinct layouts.
    pub fn class_count(&self) -> usize {
        self.columns.class_table.len()
    }

    /// What the event is.
    #[inline]
    pub fn kind(&self, e: EventId) -> EventKind {
        self.class(e).kind
    }

    /// Category text; empty if it has none.
    pub fn category(&self, e: EventId) -> &str {
        self.class(e).layout.category.map_or("", |c| self.text(c))
    }

    /// Phase letter; NUL for an element without one.
    pub fn phase(&self, e: EventId) -> char {
        self.class(e).layout.phase as char
    }

    /// The line of the timeline it stands on.
    #[inline]
    pub fn track_id(&self, e: EventId) -> TrackId {
        self.class(e).layout.track
    }

    /// Process and thread.
    pub fn track(&self, t: TrackId) -> Track {
        self.columns.tracks[t.index()]
    }

    /// All tracks, in order of first appearance.
    pub fn tracks(&self) -> impl ExactSizeIterator<Item = (TrackId, Track)> + '_ {
        self.columns.tracks.iter().enumerate().map(|(i, &t)| (TrackId(i as u32), t))
    }

    /// Process or thread id as text.
    pub fn id_text(&self, id: Id) -> String {
        match id {
            Id::Null => "null".to_owned(),
            Id::Int(i) => i.to_string(),
            Id::Text(t) => self.text(t).to_owned(),
        }
    }

    /// Start time.
    #[inline]
    pub fn ts(&self, e: EventId) -> Option<Ns> {
        let ts = self.columns.rows[e.index()].ts;
        (ts != MISSING_TIME).then_some(Ns(ts))
    }

    /// Duration.
    #[inline]
    pub fn dur(&self, e: EventId) -> Option<Ns> {
        match self.columns.rows[e.index()].dur {
            LONG_DUR => self.long_dur(e),
            d => Some(Ns(i64::from(d))),
        }
    }

    #[cold]
    fn long_dur(&self, e: EventId) -> Option<Ns> {
        let list = &self.columns.long_durs;
        let dur = list.binary_search_by_key(&e.0, |&(row, _)| row).ok().map(|i| list[i].1)?;
        (dur != MISSING_TIME).then_some(Ns(dur))
    }

    /// End time.
    #[inline]
    pub fn end(&self, e: EventId) -> Option<Ns> {
        Some(self.ts(e)? + self.dur(e)?)
    }

    /// Value of one of the well-known arguments.
    pub fn get(&self, e: EventId, key: Key) -> Option<Arg<'_>> {
        let class = self.class(e);
        let slot = class.slot_of(key)?;
        Some(self.value(e, class, slot))
    }

    /// A well-known argument as a whole number.
    #[inline]
    pub fn int(&self, e: EventId, key: Key) -> Option<i64> {
        let class = self.class(e);
        let slot = class.slot_of(key)?;
        match class.layout.slots[slot].store {
            Store::Small => Some(i64::from(self.word(e, class, slot))),
            _ => self.value(e, class, slot).as_int(),
        }
    }

    /// Handle of a well-known argument that is text or a list: equal handles are equal texts.
    #[inline]
    pub fn text_id(&self, e: EventId, key: Key) -> Option<StrId> {
        let class = self.class(e);
        let slot = class.slot_of(key)?;
        matches!(class.layout.slots[slot].store, Store::Text | Store::Json).then(|| StrId(self.word(e, class, slot)))
    }

    /// Value of an argument by its text.
    pub fn arg(&self, e: EventId, key: &str) -> Option<Arg<'_>> {
        let key = self.columns.strings.find(key)?;
        let class = self.class(e);
        let slot = class.layout.slots.iter().position(|s| s.key == key && s.place == Place::Args)?;
        Some(self.value(e, class, slot))
    }

    /// All arguments of an event with their keys, in file order.
    pub fn args(&self, e: EventId) -> impl Iterator<Item = (&str, Arg<'_>)> {
        let class = self.class(e);
        (0..class.layout.slots.len())
            .filter(|&i| class.layout.slots[i].place == Place::Args)
            .map(move |i| (self.text(class.layout.slots[i].key), self.value(e, class, i)))
    }

    #[inline]
    fn word(&self, e: EventId, class: &Class, slot: usize) -> u32 {
        self.columns.values.read(self.columns.rows[e.index()].values_at as usize, class.fields[slot])
    }

    fn value(&self, e: EventId, class: &Class, slot: usize) -> Arg<'_> {
        match class.layout.slots[slot].store {
            Store::Small => Arg::Int(i64::from(self.word(e, class, slot))),
            Store::Wide => Arg::Int(self.columns.wide[self.word(e, class, slot) as usize]),
            Store::Float => Arg::Float(self.columns.floats[self.word(e, class, slot) as usize]),
            Store::Text => Arg::Text(self.text(StrId(self.word(e, class, slot)))),
            Store::Json => Arg::Json(self.text(StrId(self.word(e, class, slot)))),
            Store::True => Arg::Bool(true),
            Store::False => Arg::Bool(false),
            Store::Null => Arg::Null,
        }
    }
}

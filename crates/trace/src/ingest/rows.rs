//! From the fields of one event to a row of the columns.

use std::borrow::Cow;

use super::general::{Field, Oddities, Raw, spelled, unescape};
use super::number::{self, Number};
use crate::diagnostics::{At, Defect, Diagnostics};
use crate::model::{Columns, Id, Layout, MISSING_TIME, Place, Slot, Store, StrId, Track, TrackId};

/// Arguments kept per event. Real events have under forty; more is an attack or an accident.
const MAX_FIELDS: usize = 1024;

/// Phase of an element that is no readable event.
pub(super) const DAMAGED: u8 = 1;

/// From this many tracks on, process and thread ids are values of a shape and no longer part of it: a shape for
/// every thread of a thousand would be learned for nothing.
const MAX_TRACKS_IN_SHAPES: usize = 64;

/// What a varying value of an event is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Name,
    Ts,
    Dur,
    Pid,
    Tid,
    Number,
    Text,
    Json,
}

/// A varying value and where it stood in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) read: Read,
}

/// An argument of a shape; how numbers are stored is known only per event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotTemplate {
    pub(super) key: StrId,
    pub(super) place: Place,
    pub(super) store: Option<Store>,
}

/// What the fast path can learn from an event.
#[derive(Debug, Default)]
pub(super) struct Lesson {
    /// Whether the event is regular enough to learn from.
    pub(super) usable: bool,
    pub(super) steps: Vec<Step>,
    pub(super) slots: Vec<SlotTemplate>,
    pub(super) phase: u8,
    pub(super) category: Option<StrId>,
    /// `None` if process and thread are among the steps.
    pub(super) track: Option<TrackId>,
}

/// The rows read so far.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) columns: Columns,
    pub(super) diagnostics: Diagnostics,
    pub(super) no_name: StrId,
}

impl Rows {
    pub(super) fn new() -> Self {
        let mut columns = Columns::default();
        let no_name = columns.strings.intern("");
        Self { columns, diagnostics: Diagnostics::default(), no_name }
    }

    fn here(&self) -> At {
        At::Event(self.columns.len() as u32)
    }

    fn count(&mut self, defect: Defect) {
        let here = self.here();
        self.diagnostics.add(defect, here);
    }

    /// A row that keeps the place (and so the UIDs after it) of an element that can't be read.
    pub(super) fn add_damaged(&mut self, defect: Defect) {
        self.count(defect);
        let track = self.columns.track(Track { pid: Id::Null, tid: Id::Null });
        let class = self.columns.class(Layout { phase: DAMAGED, category: None, track, slots: Vec::new() });
        let at = self.columns.values.len();
        self.columns.push(self.no_name, class, MISSING_TIME, MISSING_TIME, at);
    }

    /// Adds the event and tells what can be learned from it.
    pub(super) fn add(&mut self, buf: &[u8], fields: &[Field], oddities: Oddities, lesson: &mut Lesson) {
        if oddities.args_not_object {
            self.count(Defect::ArgsNotObject);
        }
        let kept = &fields[..fields.len().min(MAX_FIELDS)];
        if kept.len() < fields.len() {
            self.count(Defect::TooManyArguments);
        }
        *lesson = Lesson { usable: kept.len() == fields.len() && !oddities.args_not_object, ..Lesson::default() };
        let mut row = Row { name: self.no_name, pid: Id::Null, tid: Id::Null, ts: MISSING_TIME, dur: MISSING_TIME };
        let mut slots = Vec::with_capacity(kept.len());
        let values_at = self.columns.values.len();
        let keys: Vec<Cow<'_, [u8]>> = kept.iter().map(|field| field.key_text(buf)).collect();
        for (i, (field, key)) in kept.iter().zip(&keys).enumerate() {
            if kept[i + 1..].iter().zip(&keys[i + 1..]).any(|(f, k)| f.place == field.place && k == key) {
                self.count(Defect::DuplicateKey);
                lesson.usable = false;
                continue;
            }
            lesson.usable &= !field.key_escaped;
            if field.place == Place::Args || !self.known_field(buf, key, field.value, &mut row, lesson) {
                self.argument(buf, field, &mut slots, lesson);
            }
        }
        let track = self.columns.track(Track { pid: row.pid, tid: row.tid });
        let ids_are_steps = lesson.steps.iter().any(|s| matches!(s.read, Read::Pid | Read::Tid));
        lesson.track = (!ids_are_steps).then_some(track);
        if row.dur != MISSING_TIME && row.dur < 0 {
            self.count(Defect::NegativeDuration);
            row.dur = 0;
        }
        let class = self.columns.class(Layout { phase: lesson.phase, category: lesson.category, track, slots });
        self.columns.push(row.name, class, row.ts, row.dur, values_at);
    }

    /// Handles the fields every event has; `false` if this is none of them.
    fn known_field(&mut self, buf: &[u8], key: &[u8], value: Raw, row: &mut Row, lesson: &mut Lesson) -> bool {
        match key {
            b"ph" => {
                if let Raw::Text { start, end, escaped } = value
                    && let [phase] = *spelled(buf, (start, end), escaped)
                {
                    lesson.phase = phase;
                }
            }
            b"cat" => {
                lesson.category = match value {
                    Raw::Text { start, end, escaped } => Some(self.fixed_text(&buf[start..end], escaped, lesson)),
                    _ => None,
                }
            }
            b"name" => match value {
                Raw::Text { start, end, escaped } => {
                    row.name = self.text(&buf[start..end], escaped);
                    lesson.steps.push(Step { start, end, read: Read::Name });
                }
                Raw::Number { start, end, .. } => {
                    row.name = self.text(&buf[start..end], false);
                    lesson.usable = false;
                }
                _ => lesson.usable = false,
            },
            b"pid" => row.pid = self.id(buf, value, Read::Pid, lesson),
            b"tid" => row.tid = self.id(buf, value, Read::Tid, lesson),
            b"ts" => row.ts = self.time(buf, value, Read::Ts, lesson),
            b"dur" => row.dur = self.time(buf, value, Read::Dur, lesson),
            _ => return false,
        }
        true
    }

    fn argument(&mut self, buf: &[u8], field: &Field, slots: &mut Vec<Slot>, lesson: &mut Lesson) {
        let key = self.fixed_text(&buf[field.key.0..field.key.1], field.key_escaped, lesson);
        let (store, step) = match field.value {
            Raw::Text { start, end, escaped } => {
                let id = self.text(&buf[start..end], escaped);
                self.columns.values.push(id.0);
                (Store::Text, Some((start, end, Read::Text)))
            }
            Raw::Json { start, end } => {
                let id = self.text(&buf[start..end], false);
                self.columns.values.push(id.0);
                (Store::Json, Some((start, end, Read::Json)))
            }
            Raw::Number { start, end, value } => (self.number(value), Some((start, end, Read::Number))),
            Raw::True => (Store::True, None),
            Raw::False => (Store::False, None),
            Raw::Null => (Store::Null, None),
        };
        slots.push(Slot { key, place: field.place, store });
        let numeric = matches!(step, Some((.., Read::Number)));
        lesson.slots.push(SlotTemplate { key, place: field.place, store: (!numeric).then_some(store) });
        lesson.steps.extend(step.map(|(start, end, read)| Step { start, end, read }));
    }

    /// Stores a number as the next value and tells how.
    #[inline]
    pub(super) fn number(&mut self, value: Number) -> Store {
        let (word, store) = match value {
            Number::Int(i) => {
                if let Ok(small) = u32::try_from(i) {
                    (small, Store::Small)
                } else {
                    self.columns.wide.push(i);
                    (self.columns.wide.len() as u32 - 1, Store::Wide)
                }
            }
            Number::Float(f) => {
                self.columns.floats.push(f);
                (self.columns.floats.len() as u32 - 1, Store::Float)
            }
        };
        self.columns.values.push(word);
        store
    }

    /// Handle of a string's text.
    #[inline]
    pub(super) fn text(&mut self, raw: &[u8], escaped: bool) -> StrId {
        if escaped {
            return self.escaped_text(raw);
        }
        let (id, repaired) = self.columns.strings.intern_bytes(raw);
        if repaired {
            self.count(Defect::InvalidUtf8);
        }
        id
    }

    /// Handle of a text that would be part of a shape and not a value of it. A shape is compared and not read again, so
    /// a defect in it would be counted once per shape: by one reader once, by two readers of two parts twice.
    fn fixed_text(&mut self, raw: &[u8], escaped: bool, lesson: &mut Lesson) -> StrId {
        let repairs = |d: &Diagnostics| d.count(Defect::InvalidUtf8) + d.count(Defect::InvalidEscape);
        let before = repairs(&self.diagnostics);
        let id = self.text(raw, escaped);
        lesson.usable &= repairs(&self.diagnostics) == before;
        id
    }

    #[cold]
    fn escaped_text(&mut self, raw: &[u8]) -> StrId {
        let (bytes, invalid) = unescape(raw);
        if invalid {
            self.count(Defect::InvalidEscape);
        }
        self.text(&bytes, false)
    }

    fn id(&mut self, buf: &[u8], value: Raw, read: Read, lesson: &mut Lesson) -> Id {
        match value {
            Raw::Number { start, end, value: Number::Int(i) } => {
                if self.columns.tracks.len() > MAX_TRACKS_IN_SHAPES {
                    lesson.steps.push(Step { start, end, read });
                }
                Id::Int(i)
            }
            Raw::Number { value: Number::Float(f), .. } if f.fract() == 0.0 && f.abs() < 9e15 => Id::Int(f as i64),
            Raw::Number { start, end, .. } | Raw::Json { start, end } => {
                Id::Text(self.fixed_text(&buf[start..end], false, lesson))
            }
            Raw::Text { start, end, escaped } => Id::Text(self.fixed_text(&buf[start..end], escaped, lesson)),
            Raw::True | Raw::False | Raw::Null => Id::Null,
        }
    }

    fn time(&mut self, buf: &[u8], value: Raw, read: Read, lesson: &mut Lesson) -> i64 {
        let (start, end) = match value {
            Raw::Number { start, end, .. } => (start, end),
            Raw::Text { start, end, .. } => {
                self.count(Defect::TextNumber);
                lesson.usable = false;
                (start, end)
            }
            _ => {
                self.count(Defect::BadTime);
                lesson.usable = false;
                return MISSING_TIME;
            }
        };
        lesson.steps.push(Step { start, end, read });
        let Some((ns, rounded)) = number::micros_slow(&buf[start..end]) else {
            self.count(Defect::BadTime);
            return MISSING_TIME;
        };
        if rounded {
            self.count(Defect::RoundedTime);
        }
        ns
    }
}

struct Row {
    name: StrId,
    pid: Id,
    tid: Id,
    ts: i64,
    dur: i64,
}

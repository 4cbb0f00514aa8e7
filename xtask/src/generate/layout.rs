//! How an event looks as text. An event is drawn once, with holes where numbers change from step to step; writing
//! it again copies the text between the holes. Drawing may thus be slow and careful, and writing is layout-blind.
//!
//! The three layouts are those of real files: Kineto's own (line breaks and double blanks included), one line as
//! `json.dumps` writes it, and one value a line as `json.dumps(indent=2)` writes it.

use std::collections::HashMap;

/// Which of the layouts met in real files to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Layout {
    /// As the profiler writes it: a few fields a line, three decimals always.
    Kineto,
    /// Re-serialised on one line, `", "` between fields.
    Compact,
    /// Re-serialised with one value a line; metadata after the events.
    Indented,
}

/// A number that is filled in when the event is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// Start, in microseconds with three decimals.
    Ts,
    /// Duration, likewise.
    Dur,
    /// `External id`.
    Ext,
    /// `Ev Idx`.
    Ev,
    /// `Sequence number`.
    Seq,
    /// `correlation`, also the id of `ac2g` flows.
    Corr,
    /// `Python id`.
    Py,
    /// `Python parent id`.
    Parent,
    /// Id of a `fwdbwd` flow.
    Flow,
    /// Bytes per nanosecond of a copy.
    Rate,
    /// Number of the profiler step.
    Step,
}

/// Values for the holes of one event. Unused ones stay 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fill {
    pub(super) ts_ns: u64,
    pub(super) dur_ns: u64,
    pub(super) ext: u64,
    pub(super) ev: u64,
    pub(super) seq: u64,
    pub(super) corr: u64,
    pub(super) py: u64,
    pub(super) parent: u64,
    pub(super) flow: u64,
    pub(super) bytes: u64,
    pub(super) step: u64,
}

/// One drawn event: text, and where the numbers go.
#[derive(Debug)]
pub(super) struct Shape {
    text: Vec<u8>,
    holes: Vec<(u32, Hole)>,
}

impl Shape {
    /// Appends the event to `out`.
    pub(super) fn write(&self, layout: Layout, fill: &Fill, out: &mut Vec<u8>) {
        let mut from = 0;
        for &(at, hole) in &self.holes {
            out.extend_from_slice(&self.text[from..at as usize]);
            from = at as usize;
            match hole {
                Hole::Ts => push_micros(out, fill.ts_ns, layout),
                Hole::Dur => push_micros(out, fill.dur_ns, layout),
                Hole::Ext => push_int(out, fill.ext),
                Hole::Ev => push_int(out, fill.ev),
                Hole::Seq => push_int(out, fill.seq),
                Hole::Corr => push_int(out, fill.corr),
                Hole::Py => push_int(out, fill.py),
                Hole::Parent => push_int(out, fill.parent),
                Hole::Flow => push_int(out, fill.flow),
                Hole::Step => push_int(out, fill.step),
                Hole::Rate => {
                    out.extend_from_slice((fill.bytes as f64 / fill.dur_ns as f64).to_string().as_bytes());
                }
            }
        }
        out.extend_from_slice(&self.text[from..]);
    }
}

/// Appends an integer.
fn push_int(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Appends nanoseconds as microseconds: three decimals from the profiler, as few as needed after re-serialisation.
fn push_micros(out: &mut Vec<u8>, ns: u64, layout: Layout) {
    push_int(out, ns / 1000);
    let rest = ns % 1000;
    let decimals = [b'.', b'0' + (rest / 100) as u8, b'0' + (rest / 10 % 10) as u8, b'0' + (rest % 10) as u8];
    let kept = match (layout, rest) {
        (Layout::Kineto, _) => 4,
        (_, r) if r % 10 != 0 => 4,
        (_, r) if r % 100 != 0 => 3,
        _ => 2,
    };
    out.extend_from_slice(&decimals[..kept]);
}

/// Draws JSON in one of the layouts. `lead` arguments are what Kineto prints before a key or a closing brace, comma
/// included; the other layouts follow their own rule and ignore it.
#[derive(Debug)]
pub(super) struct Pen {
    layout: Layout,
    shape: Shape,
    depth: usize,
    fresh: bool,
}

impl Pen {
    /// A pen standing `depth` levels deep in the document.
    pub(super) fn new(layout: Layout, depth: usize) -> Self {
        Self { layout, shape: Shape { text: Vec::new(), holes: Vec::new() }, depth, fresh: true }
    }

    /// A pen at the start of an event.
    pub(super) fn event(layout: Layout) -> Self {
        let mut pen = Self::new(layout, 2);
        pen.open();
        pen
    }

    /// Ends an event.
    pub(super) fn finish(mut self) -> Shape {
        self.close("\n  ");
        self.shape
    }

    /// The text drawn so far, which must be free of holes.
    pub(super) fn into_text(self) -> Vec<u8> {
        debug_assert!(self.shape.holes.is_empty(), "text with holes cannot stand alone");
        self.shape.text
    }

    /// Goes on within an object that has fields already.
    pub(super) fn continue_object(&mut self) {
        self.fresh = false;
    }

    fn push(&mut self, text: &str) {
        self.shape.text.extend_from_slice(text.as_bytes());
    }

    fn line(&mut self) {
        self.shape.text.push(b'\n');
        self.shape.text.resize(self.shape.text.len() + 2 * self.depth, b' ');
    }

    /// Opens an object.
    pub(super) fn open(&mut self) {
        self.push("{");
        self.depth += 1;
        self.fresh = true;
    }

    /// Closes an object.
    pub(super) fn close(&mut self, lead: &str) {
        self.depth -= 1;
        match self.layout {
            Layout::Kineto => self.push(lead),
            Layout::Indented if !self.fresh => self.line(),
            _ => {}
        }
        self.push("}");
        self.fresh = false;
    }

    /// Starts a field.
    pub(super) fn key(&mut self, lead: &str, name: &str) {
        match self.layout {
            Layout::Kineto => self.push(lead),
            Layout::Compact => self.push(if self.fresh { "" } else { ", " }),
            Layout::Indented => {
                self.push(if self.fresh { "" } else { "," });
                self.line();
            }
        }
        self.fresh = false;
        self.text(name);
        self.push(": ");
    }

    /// A string value.
    pub(super) fn text(&mut self, value: &str) {
        self.push("\"");
        for part in value.split_inclusive(['"', '\\']) {
            match part.strip_suffix(['"', '\\']) {
                None => self.push(part),
                Some(plain) => {
                    self.push(plain);
                    self.push("\\");
                    self.push(&part[plain.len()..]);
                }
            }
        }
        self.push("\"");
    }

    /// A value already in JSON.
    pub(super) fn raw(&mut self, value: &str) {
        self.push(value);
    }

    /// An integer.
    pub(super) fn int(&mut self, value: i64) {
        self.push(&value.to_string());
    }

    /// A number that the profiler prints with six decimals and re-serialisation with as few as needed.
    pub(super) fn six_decimals(&mut self, value: f32) {
        let text = format!("{value:.6}");
        if self.layout == Layout::Kineto {
            self.push(&text);
        } else {
            let short = text.trim_end_matches('0');
            self.push(short);
            self.push(if short.ends_with('.') { "0" } else { "" });
        }
    }

    /// A number to be filled in later.
    pub(super) fn hole(&mut self, hole: Hole) {
        self.shape.holes.push((self.shape.text.len() as u32, hole));
    }

    /// A string with one number inside, as in `ProfilerStep#7`.
    pub(super) fn text_with_hole(&mut self, before: &str, hole: Hole) {
        self.push("\"");
        self.push(before);
        self.hole(hole);
        self.push("\"");
    }

    /// A list; `item` draws each member.
    pub(super) fn list<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.push("[");
        self.depth += 1;
        for (index, value) in items.iter().enumerate() {
            match self.layout {
                Layout::Indented => {
                    self.push(if index == 0 { "" } else { "," });
                    self.line();
                }
                _ => self.push(if index == 0 { "" } else { ", " }),
            }
            item(self, value);
        }
        self.depth -= 1;
        if self.layout == Layout::Indented && !items.is_empty() {
            self.line();
        }
        self.push("]");
    }

    /// A list of one member; Kineto prints `lead` before the member and before the closing bracket.
    pub(super) fn list_of_one(&mut self, lead: &str, item: impl Fn(&mut Self)) {
        if self.layout == Layout::Kineto {
            self.push("[");
            self.push(lead);
            item(self);
            self.push(lead);
            self.push("]");
        } else {
            self.list(&[()], |pen, ()| item(pen));
            self.fresh = false;
        }
    }

    /// A list of integers.
    pub(super) fn ints(&mut self, values: &[i64]) {
        self.list(values, |pen, value| pen.int(*value));
    }
}

/// Place of a shape in its set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ShapeId(u32);

/// Shapes without repetition: a step has ten thousands of events and some thousands of shapes.
#[derive(Debug, Default)]
pub(super) struct ShapeSet {
    shapes: Vec<Shape>,
    by_text: HashMap<Vec<u8>, ShapeId>,
}

impl ShapeSet {
    /// Adds a shape, or finds its equal. Equal text has equal holes, since holes stand where a value is missing.
    pub(super) fn add(&mut self, shape: Shape) -> ShapeId {
        let next = ShapeId(self.shapes.len() as u32);
        let id = *self.by_text.entry(shape.text.clone()).or_insert(next);
        if id == next {
            self.shapes.push(shape);
        }
        id
    }

    /// The shape behind an id of this set.
    pub(super) fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(layout: Layout) -> String {
        let mut pen = Pen::event(layout);
        pen.key("\n    ", "name");
        pen.text("a \"b\" \\c");
        pen.key(", ", "ts");
        pen.hole(Hole::Ts);
        pen.key(",\n    ", "args");
        pen.open();
        pen.key("\n      ", "grid");
        pen.ints(&[2, 66]);
        pen.key(",      ", "none");
        pen.ints(&[]);
        pen.key(", ", "blocks");
        pen.six_decimals(1.0);
        pen.close("\n    ");
        let mut out = Vec::new();
        pen.finish().write(layout, &Fill { ts_ns: 3_844_132_385_479_560, ..Fill::default() }, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn kineto_layout() {
        let want = "{\n    \"name\": \"a \\\"b\\\" \\\\c\", \"ts\": 3844132385479.560,\n    \"args\": {\n      \
                    \"grid\": [2, 66],      \"none\": [], \"blocks\": 1.000000\n    }\n  }";
        assert_eq!(draw(Layout::Kineto), want);
    }

    #[test]
    fn compact_layout_is_json_dumps() {
        let want =
            r#"{"name": "a \"b\" \\c", "ts": 3844132385479.56, "args": {"grid": [2, 66], "none": [], "blocks": 1.0}}"#;
        assert_eq!(draw(Layout::Compact), want);
    }

    #[test]
    fn indented_layout_is_json_dumps_indent_2() {
        let want = "{\n      \"name\": \"a \\\"b\\\" \\\\c\",\n      \"ts\": 3844132385479.56,\n      \"args\": {\n        \
                    \"grid\": [\n          2,\n          66\n        ],\n        \"none\": [],\n        \"blocks\": 1.0\n      }\n    }";
        assert_eq!(draw(Layout::Indented), want);
    }

    #[test]
    fn decimals_shrink_only_after_reserialisation() {
        for (ns, kineto, short) in [
            (0, "0.000", "0.0"),
            (1_500, "1.500", "1.5"),
            (7, "0.007", "0.007"),
            (90, "0.090", "0.09"),
            (999, "0.999", "0.999"),
        ] {
            for (layout, want) in [(Layout::Kineto, kineto), (Layout::Compact, short)] {
                let mut out = Vec::new();
                push_micros(&mut out, ns, layout);
                assert_eq!(String::from_utf8(out).unwrap(), want);
            }
        }
    }
}

//! Synthetic traces for tests, docs and benches.
//!
//! ```
//! use jarvis_trace::TraceBuilder;
//!
//! // thread 1   |-- aten::linear -------------|
//! //               |-- aten::addmm --|
//! //                  |launch|
//! // stream 7                  |kernel|
//! let mut b = TraceBuilder::new();
//! b.cpu_op("aten::linear", 0.0, 100.0);
//! b.cpu_op("aten::addmm", 10.0, 50.0).arg("Input Dims", "[[8], [4, 8], [8, 8]]");
//! b.launch("cudaLaunchKernel", 20.0, 5.0, 1);
//! b.kernel("gemm", 40.0, 12.5, 1);
//! let trace = b.build();
//! assert_eq!(trace.len(), 6, "the link is a pair of flow events");
//! ```

use crate::diagnostics::Diagnostics;
use crate::model::{Columns, Facts, Id, Layout, MISSING_TIME, Ns, Place, Slot, Store, Trace, Track};

/// An argument for a synthetic event.
#[derive(Debug, Clone, PartialEq)]
pub enum BuilderArg {
    /// A whole number.
    Int(i64),
    /// A number with a point.
    Float(f64),
    /// Text, or a JSON list or object if it begins with `[` or `{`.
    Text(String),
    /// `true` or `false`.
    Bool(bool),
    /// `null`.
    Null,
}

macro_rules! arg_from {
    ($($t:ty => |$v:ident| $e:expr),*) => { $(impl From<$t> for BuilderArg { fn from($v: $t) -> Self { $e } })* };
}
arg_from!(i64 => |v| Self::Int(v), i32 => |v| Self::Int(v.into()), u32 => |v| Self::Int(v.into()),
          f64 => |v| Self::Float(v), &str => |v| Self::Text(v.to_owned()), String => |v| Self::Text(v),
          bool => |v| Self::Bool(v));

/// An event to be. Times are in microseconds, as in a trace file.
#[derive(Debug, Clone)]
pub struct EventBuilder {
    phase: u8,
    category: Option<String>,
    name: String,
    pid: BuilderArg,
    tid: BuilderArg,
    ts: Option<Ns>,
    dur: Option<Ns>,
    args: Vec<(Place, String, BuilderArg)>,
}

impl EventBuilder {
    /// Adds an argument.
    pub fn arg(&mut self, key: &str, value: impl Into<BuilderArg>) -> &mut Self {
        self.args.push((Place::Args, key.to_owned(), value.into()));
        self
    }

    /// Puts the event on another process and thread (device and stream for GPU events).
    pub fn on(&mut self, pid: impl Into<BuilderArg>, tid: impl Into<BuilderArg>) -> &mut Self {
        (self.pid, self.tid) = (pid.into(), tid.into());
        self
    }

    /// Sets start and duration in whole nanoseconds, for times that microseconds as a float would blur.
    pub fn at(&mut self, ts: Ns, dur: Ns) -> &mut Self {
        self.ts = Some(ts);
        self.dur = (self.phase == b'X').then_some(dur);
        self
    }

    /// Takes the duration away.
    pub fn without_dur(&mut self) -> &mut Self {
        self.dur = None;
        self
    }

    /// Takes the start time away.
    pub fn without_ts(&mut self) -> &mut Self {
        self.ts = None;
        self
    }
}

/// Builds a trace event by event; the order of the calls is the file order. Host events go to process 1, thread 1;
/// GPU events to device 0, stream 7, unless moved by [`EventBuilder::on`].
#[derive(Debug, Default)]
pub struct TraceBuilder {
    events: Vec<EventBuilder>,
    facts: Facts,
}

impl TraceBuilder {
    /// An empty trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a top-level fact, given as JSON text.
    pub fn fact(&mut self, key: &str, json: &str) -> &mut Self {
        self.facts.entries.push((key.to_owned(), json.to_owned()));
        self
    }

    /// Adds any event.
    pub fn event(&mut self, phase: char, category: &str, name: &str, ts: f64, dur: f64) -> &mut EventBuilder {
        let gpu = matches!(category, "kernel" | "gpu_memcpy" | "gpu_memset" | "gpu_user_annotation");
        let (pid, tid) = if gpu { (0, 7) } else { (1, 1) };
        self.events.push(EventBuilder {
            phase: phase as u8,
            category: (!category.is_empty()).then(|| category.to_owned()),
            name: name.to_owned(),
            pid: pid.into(),
            tid: tid.into(),
            ts: Some(nearest_ns(ts)),
            dur: (phase == 'X').then_some(nearest_ns(dur)),
            args: Vec::new(),
        });
        let last = self.events.len() - 1;
        &mut self.events[last]
    }

    /// Adds a `cpu_op`.
    pub fn cpu_op(&mut self, name: &str, ts: f64, dur: f64) -> &mut EventBuilder {
        self.event('X', "cpu_op", name, ts, dur)
    }

    /// Adds a `python_function`.
    pub fn python(&mut self, name: &str, ts: f64, dur: f64) -> &mut EventBuilder {
        self.event('X', "python_function", name, ts, dur)
    }

    /// Adds a host annotation.
    pub fn annotation(&mut self, name: &str, ts: f64, dur: f64) -> &mut EventBuilder {
        self.event('X', "user_annotation", name, ts, dur)
    }

    /// Adds a runtime call that launches GPU work, with the start of its flow.
    pub fn launch(&mut self, name: &str, ts: f64, dur: f64, correlation: i64) -> &mut EventBuilder {
        self.flow('s', "ac2g", ts, correlation);
        self.event('X', "cuda_runtime", name, ts, dur).arg("correlation", correlation)
    }

    /// Adds a runtime call without a flow.
    pub fn runtime(&mut self, name: &str, ts: f64, dur: f64) -> &mut EventBuilder {
        self.event('X', "cuda_runtime", name, ts, dur)
    }

    /// Adds a kernel on stream 7 of device 0, with the end of its flow.
    pub fn kernel(&mut self, name: &str, ts: f64, dur: f64, correlation: i64) -> &mut EventBuilder {
        self.gpu("kernel", name, ts, dur, correlation, 7)
    }

    /// Adds a GPU event of any category on a stream of device 0, with the end of its flow.
    pub fn gpu(
        &mut self,
        category: &str,
        name: &str,
        ts: f64,
        dur: f64,
        correlation: i64,
        stream: i64,
    ) -> &mut EventBuilder {
        self.flow('f', "ac2g", ts, correlation).on(0, stream);
        self.event('X', category, name, ts, dur)
            .on(0, stream)
            .arg("device", 0)
            .arg("stream", stream)
            .arg("correlation", correlation)
    }

    /// Adds one end of a flow.
    pub fn flow(&mut self, phase: char, category: &str, ts: f64, id: i64) -> &mut EventBuilder {
        let e = self.event(phase, category, category, ts, 0.0);
        e.args.push((Place::Event, "id".to_owned(), id.into()));
        e
    }

    /// The trace.
    pub fn build(&self) -> Trace {
        let mut columns = Columns::default();
        for event in &self.events {
            add(&mut columns, event);
        }
        Trace::new(columns, self.facts.clone(), Diagnostics::default(), 1)
    }

    /// The same events as the text of a trace file.
    pub fn to_json(&self) -> String {
        let quoted = |s: &str| serde_json::Value::from(s).to_string();
        let value = |v: &BuilderArg| match v {
            BuilderArg::Int(i) => i.to_string(),
            BuilderArg::Float(f) => serde_json::Value::from(*f).to_string(),
            BuilderArg::Text(t) if t.starts_with(['[', '{']) => t.clone(),
            BuilderArg::Text(t) => quoted(t),
            BuilderArg::Bool(b) => b.to_string(),
            BuilderArg::Null => "null".to_owned(),
        };
        let event = |e: &EventBuilder| {
            let mut fields = vec![format!("\"ph\": {}", quoted(&(e.phase as char).to_string()))];
            fields.extend(e.category.iter().map(|c| format!("\"cat\": {}", quoted(c))));
            fields.push(format!("\"name\": {}", quoted(&e.name)));
            fields.push(format!("\"pid\": {}, \"tid\": {}", value(&e.pid), value(&e.tid)));
            fields.extend(e.ts.map(|t| format!("\"ts\": {}", decimal_us(t))));
            fields.extend(e.dur.map(|d| format!("\"dur\": {}", decimal_us(d))));
            let pairs = |place: Place| {
                e.args.iter().filter(move |(p, ..)| *p == place).map(|(_, k, v)| format!("{}: {}", quoted(k), value(v)))
            };
            fields.extend(pairs(Place::Event));
            let args: Vec<String> = pairs(Place::Args).collect();
            if !args.is_empty() {
                fields.push(format!("\"args\": {{{}}}", args.join(", ")));
            }
            format!("  {{{}}}", fields.join(", "))
        };
        let mut out = String::from("{\n");
        for (k, v) in self.facts.entries() {
            out += &format!("{}: {v},\n", quoted(k));
        }
        let events: Vec<String> = self.events.iter().map(event).collect();
        out + "\"traceEvents\": [\n" + &events.join(",\n") + "\n]\n}\n"
    }
}

fn nearest_ns(us: f64) -> Ns {
    Ns((us * 1e3).round() as i64)
}

/// Microseconds with three decimals, as the profiler writes them.
fn decimal_us(time: Ns) -> String {
    let magnitude = time.0.unsigned_abs();
    format!("{}{}.{:03}", if time.0 < 0 { "-" } else { "" }, magnitude / 1000, magnitude % 1000)
}

fn add(columns: &mut Columns, event: &EventBuilder) {
    let id = |columns: &mut Columns, value: &BuilderArg| match value {
        BuilderArg::Int(i) => Id::Int(*i),
        BuilderArg::Text(t) => Id::Text(columns.strings.intern(t)),
        _ => Id::Null,
    };
    let track = Track { pid: id(columns, &event.pid), tid: id(columns, &event.tid) };
    let track = columns.track(track);
    let category = event.category.as_deref().map(|c| columns.strings.intern(c));
    let values_at = columns.values.len();
    let mut slots = Vec::new();
    for (place, key, value) in &event.args {
        let key = columns.strings.intern(key);
        let store = push_value(columns, value);
        slots.push(Slot { key, place: *place, store });
    }
    let class = columns.class(Layout { phase: event.phase, category, track, slots });
    let name = columns.strings.intern(&event.name);
    let raw = |time: Option<Ns>| time.map_or(MISSING_TIME, |t| t.0);
    columns.push(name, class, raw(event.ts), raw(event.dur), values_at);
}

fn push_value(columns: &mut Columns, value: &BuilderArg) -> Store {
    let (word, store) = match value {
        BuilderArg::Int(i) => {
            if let Ok(small) = u32::try_from(*i) {
                (small, Store::Small)
            } else {
                columns.wide.push(*i);
                (columns.wide.len() as u32 - 1, Store::Wide)
            }
        }
        BuilderArg::Float(f) => {
            columns.floats.push(*f);
            (columns.floats.len() as u32 - 1, Store::Float)
        }
        BuilderArg::Text(t) => {
            let store = if t.starts_with(['[', '{']) { Store::Json } else { Store::Text };
            (columns.strings.intern(t).0, store)
        }
        BuilderArg::Bool(true) => return Store::True,
        BuilderArg::Bool(false) => return Store::False,
        BuilderArg::Null => return Store::Null,
    };
    columns.values.push(word);
    store
}

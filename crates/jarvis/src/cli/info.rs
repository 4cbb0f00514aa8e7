//! `jarvis info`: the first thing to run on an unknown trace. One screen.

use std::mem::ManuallyDrop;
use std::path::Path;

use clap::Args;
use jarvis_analyze::texts::counted;
use jarvis_trace::tree::{HostOperation, host_operations, launch_calls};
use jarvis_trace::{
    At, Device, Diagnostics, Id, Ns, Population, Summary, Timeline, Trace, TrackSummary, Tree, TreeOptions, Vendor,
    side_by_side, spelled,
};
use serde_json::{Value, json};

use super::{Failure, Session, TraceArg, Work, is_truncated};

/// Lines shown of long lists.
const LIST: usize = 8;

/// Capture options of the profiler, with what is missing without them.
const CAPTURE: [(&str, &str); 5] = [
    ("record_shapes", "no shapes: no FLOPs, bytes or roofline"),
    ("with_stack", "no Python stacks: no source lines"),
    ("with_modules", ""),
    ("profile_memory", ""),
    ("with_flops", ""),
];

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  jarvis info trace.json.gz\n  zcat trace.json.gz | jarvis info - --json")]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    trace: TraceArg,
}

pub(crate) fn run(session: &Session, args: &InfoArgs) -> Result<(), Failure> {
    let path = &args.trace.trace;
    let trace = ManuallyDrop::new(session.open(path, Work::Look)?);
    let defects = tell(session, path, &trace)?;
    session.report(path, &defects)
}

/// Tells what is in a trace. Gives what is wrong with it.
pub(super) fn tell(session: &Session, path: &Path, trace: &Trace) -> Result<Diagnostics, Failure> {
    // Counting and nesting do not need each other.
    let (summary, tree) = session.stage("call tree", || {
        side_by_side::both(|| Summary::of(trace), || Tree::build(trace, TreeOptions::default()))
    });
    let tree = ManuallyDrop::new(tree);
    let mut defects = trace.diagnostics().clone();
    defects.extend(tree.diagnostics());
    let timeline = Timeline::<Ns>::of(trace, &Population::All.of(trace, &tree), None);
    let devices = Timeline::<Ns>::by_device(trace, &Population::All.of(trace, &tree), None);
    let timeline = timeline.as_ref();
    let host =
        timeline.is_none().then(|| Host { launches: launch_calls(trace), operations: host_operations(trace, &tree) });
    let view = View { path, trace, summary: &summary, timeline, devices, host, defects: &defects };
    if session.common.json {
        session.print(format!("{:#}\n", view.json()).as_bytes())?;
    } else {
        session.print_text(&view.text())?;
    }
    Ok(defects)
}

/// A recording of the host alone.
struct Host {
    /// Calls that launch GPU work.
    launches: usize,
    operations: Vec<HostOperation>,
}

struct View<'a> {
    path: &'a Path,
    trace: &'a Trace,
    summary: &'a Summary,
    timeline: Option<&'a Timeline<Ns>>,
    /// Of each GPU by itself.
    devices: Vec<(Id, Timeline<Ns>)>,
    /// What there is to tell where there is no GPU event.
    host: Option<Host>,
    defects: &'a Diagnostics,
}

impl View<'_> {
    fn text(&self) -> String {
        let mut out = Lines::default();
        let events = counted(thousands(self.trace.len() as u64), "event");
        let cut = if is_truncated(self.defects) { " (the file is cut off)" } else { "" };
        out.line("trace", &format!("{}: {events}{cut}", self.path.display()));
        self.recorded_on(&mut out);
        if let Some((start, end)) = self.summary.span {
            out.line("span", &format!("{} of recording", duration(end - start)));
        }
        self.steps(&mut out);
        self.gpu(&mut out);
        self.capture(&mut out);
        let categories = self.summary.categories.iter().map(|(phase, category, count)| {
            let name = if category.is_empty() { "-" } else { category };
            format!("{:>12}  {name} ({phase})", thousands(*count))
        });
        out.list("events by category", categories.collect());
        let streams = self.summary.streams.iter().map(|s| self.track_text(s, true));
        out.list("GPU streams", streams.collect());
        let threads = self.summary.threads.iter().map(|t| self.track_text(t, false));
        out.list("host threads", threads.collect());
        self.host_operations(&mut out);
        self.quality(&mut out);
        out.text
    }

    fn recorded_on(&self, out: &mut Lines) {
        let facts = self.trace.facts();
        let devices = facts.devices();
        let vendor = match facts.vendor() {
            Some(Vendor::Nvidia) => " (CUDA)",
            Some(Vendor::Amd) => " (ROCm)",
            None => "",
        };
        let mut models: Vec<&Device> = Vec::new();
        for device in &devices {
            if !models.iter().any(|m| m.is_same_model(device)) {
                models.push(device);
            }
        }
        for model in &models {
            let alike = devices.iter().filter(|d| d.is_same_model(model)).count();
            let count = if devices.len() > 1 { format!("{alike} x ") } else { String::new() };
            let units = model.multiprocessors.map_or(String::new(), |n| format!(", {n} multiprocessors"));
            let memory = model.memory.map_or(String::new(), |b| format!(", {:.0} GiB", b as f64 / f64::from(1 << 30)));
            out.line("device", &format!("{count}{}{vendor}{units}{memory}", name(model)));
        }
        if models.is_empty() {
            out.line("device", &format!("not recorded{vendor}"));
        } else if models.len() > 1 {
            let working = self.trace.models_at_work();
            let working: Vec<&str> = working.iter().map(name).collect();
            out.line("", &format!("at work: {}", working.join(", ")));
        }
        if let Some(info) = facts.value("distributedInfo") {
            let number = |key: &str| info[key].as_i64().map_or("?".to_owned(), |n| n.to_string());
            let backend = info["backend"].as_str().unwrap_or("?").to_owned();
            out.line("distributed", &format!("rank {} of {}, {backend}", number("rank"), number("world_size")));
        }
    }

    fn steps(&self, out: &mut Lines) {
        let steps = &self.summary.steps;
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
            out.line("steps", "none marked (torch.profiler.schedule marks them)");
            return;
        };
        let total: Ns = steps.iter().map(|s| s.dur).sum();
        let number = |n: Option<i64>| n.map_or("?".to_owned(), |n| format!("#{n}"));
        let numbers = || steps.iter().filter_map(|s| s.number);
        let (first, last) = (numbers().min().or(first.number), numbers().max().or(last.number));
        let (range, each) = match steps.len() {
            1 => (String::new(), ""),
            _ => (format!(" to {}", number(last)), " each"),
        };
        let mean = duration(Ns(total.0 / steps.len() as i64));
        out.line("steps", &format!("{}: {}{range}, {mean}{each} on the host", steps.len(), number(first)));
    }

    fn gpu(&self, out: &mut Lines) {
        let Some(t) = self.timeline else {
            let launches = self.host.as_ref().map_or(0, |host| host.launches as u64);
            let calls = counted(thousands(launches), "call");
            let but = if launches > 0 { format!(", although {calls} launch GPU work") } else { String::new() };
            out.line("GPU", &format!("no GPU events in this trace{but}"));
            return;
        };
        let share = |ns: Ns| format!("{:.1}%", 100.0 * ns.0 as f64 / t.total.0.max(1) as f64);
        out.line(
            "GPU",
            &format!(
                "{} from first to last kernel: computing {}, exposed communication {}, exposed copies {}, idle {}",
                duration(t.total),
                share(t.computation),
                share(t.exposed_communication),
                share(t.exposed_memcpy),
                share(t.idle)
            ),
        );
        if self.devices.len() > 1 {
            let busy = self.devices.iter().map(|(id, d)| {
                let idle = share(t.total - d.busy);
                format!("GPU {}: busy {} of that, idle {idle}", self.trace.id_text(*id), share(d.busy))
            });
            out.list("each by itself", busy.collect());
        }
    }

    fn host_operations(&self, out: &mut Lines) {
        let Some(host) = &self.host else { return };
        let all: i64 = host.operations.iter().map(|op| op.own.0).sum();
        let line = |op: &HostOperation| {
            let share = 100.0 * op.own.0 as f64 / all.max(1) as f64;
            let calls = counted(thousands(op.calls), "call");
            format!("{:>12}  {share:>4.1}%  {} in {calls}", duration(op.own), self.trace.text(op.name))
        };
        out.list("host operations by their own time", host.operations.iter().map(line).collect());
    }

    /// Whether the profiler was told to record something, as the header says or what was recorded shows.
    fn captured(&self, option: &str) -> bool {
        let shown = match option {
            "record_shapes" => self.summary.shaped_ops.0 > 0,
            "with_stack" => self.summary.python_frames > 0,
            _ => false,
        };
        shown || self.trace.facts().option_on(option)
    }

    fn capture(&self, out: &mut Lines) {
        let facts = self.trace.facts();
        // The profiler writes down what is on. A header without any of it has been taken off.
        let told = CAPTURE.iter().any(|(key, _)| facts.value(key).is_some());
        let off_word = if told { "off" } else { "not recorded" };
        let (on, off): (Vec<_>, Vec<_>) = CAPTURE.iter().partition(|(key, _)| self.captured(key));
        let on: Vec<&str> = on.iter().map(|(key, _)| *key).collect();
        let missing: Vec<String> = off
            .iter()
            .filter(|(_, why)| !why.is_empty())
            .map(|(key, why)| format!("{key} {off_word} ({why})"))
            .collect();
        let (shaped, ops) = self.summary.shaped_ops;
        let shapes = if ops == 0 {
            "no host operations".to_owned()
        } else {
            format!("shapes on {:.0}% of operations", 100.0 * shaped as f64 / ops as f64)
        };
        let on = if on.is_empty() { "no options recorded".to_owned() } else { on.join(", ") };
        let missing = if missing.is_empty() { String::new() } else { format!("; {}", missing.join(", ")) };
        out.line("capture", &format!("{on}; {shapes}{missing}"));
    }

    fn track_text(&self, line: &TrackSummary, gpu: bool) -> String {
        let track = self.trace.track(line.track);
        let (pid, tid) = (self.trace.id_text(track.pid), self.trace.id_text(track.tid));
        let events = format!("{:>12}", thousands(line.events));
        if gpu {
            return format!("{events}  device {pid} stream {tid}: {} of GPU work", duration(line.gpu_time));
        }
        let name = self.summary.names.thread(track.pid, track.tid).unwrap_or("");
        let name = if name.is_empty() || name.contains(&tid) { name.to_owned() } else { format!("{name} ") };
        let label =
            if name.is_empty() { format!("process {pid} thread {tid}") } else { format!("process {pid} {name}") };
        format!("{events}  {label}: spans {}", duration(line.span))
    }

    fn quality(&self, out: &mut Lines) {
        let seen = self.defects.seen().map(|(d, count, at)| {
            let at = match at {
                At::Event(uid) => format!("first at UID {uid}"),
                At::Byte(byte) => format!("at byte {byte}"),
            };
            format!("{:>12}  {} [{}, {at}]: {}. {}", thousands(count), d.id, d.severity.name(), d.meaning, d.remedy)
        });
        let seen: Vec<String> = seen.collect();
        if seen.is_empty() {
            out.line("data quality", "no defect found");
        } else {
            out.list("data quality", seen);
        }
    }

    fn json(&self) -> Value {
        let s = self.summary;
        let id = |id: Id| match id {
            Id::Null => Value::Null,
            Id::Int(i) => i.into(),
            Id::Text(t) => self.trace.text(t).into(),
        };
        let line = |l: &TrackSummary| {
            let track = self.trace.track(l.track);
            json!({"pid": id(track.pid), "tid": id(track.tid), "events": l.events, "span_ms": l.span.as_ms(),
                   "gpu_time_ms": l.gpu_time.as_ms(), "name": s.names.thread(track.pid, track.tid)})
        };
        json!({
            "schema": "jarvis.info/1",
            "trace": self.path.to_string_lossy(),
            "events": self.trace.len(),
            "truncated": is_truncated(self.defects),
            "devices": self.trace.facts().devices().iter().map(|d| json!({
                "id": d.id, "name": d.name, "multiprocessors": d.multiprocessors, "memory_bytes": d.memory,
            })).collect::<Vec<_>>(),
            "distributed": self.trace.facts().value("distributedInfo"),
            "span_ms": s.span.map(|(a, b)| (b - a).as_ms()),
            "steps": s.steps.iter().map(|st| json!({"uid": st.event.uid(), "number": st.number, "host_ms": st.dur.as_ms()})).collect::<Vec<_>>(),
            "gpu_timeline_ms": self.timeline.map(|t| json!({
                "total": t.total.as_ms(), "busy": t.busy.as_ms(), "idle": t.idle.as_ms(), "computation": t.computation.as_ms(),
                "exposed_communication": t.exposed_communication.as_ms(), "exposed_memcpy": t.exposed_memcpy.as_ms(),
            })),
            "gpus": self.devices.iter().map(|(device, t)| json!({
                "device": id(*device), "busy_ms": t.busy.as_ms(), "computation_ms": t.computation.as_ms(),
            })).collect::<Vec<_>>(),
            "host": self.host.as_ref().map(|host| json!({
                "launch_calls": host.launches,
                "operations": host.operations.iter().map(|op| json!({
                    "name": self.trace.text(op.name), "calls": op.calls, "own_ms": op.own.as_ms(),
                })).collect::<Vec<_>>(),
            })),
            "capture": CAPTURE.iter().map(|(key, _)| ((*key).to_owned(), self.captured(key).into())).collect::<serde_json::Map<_, _>>(),
            "operations": {"all": s.shaped_ops.1, "with_shapes": s.shaped_ops.0},
            "categories": s.categories.iter().map(|(p, c, n)| json!({"phase": p.to_string(), "category": c, "events": n})).collect::<Vec<_>>(),
            "streams": s.streams.iter().map(line).collect::<Vec<_>>(),
            "threads": s.threads.iter().map(line).collect::<Vec<_>>(),
            "data_quality": self.defects.seen().map(|(d, count, at)| json!({
                "id": d.id, "severity": d.severity.name(), "count": count, "meaning": d.meaning, "remedy": d.remedy,
                "first_uid": if let At::Event(uid) = at { Some(uid) } else { None },
                "first_byte": if let At::Byte(byte) = at { Some(byte) } else { None },
            })).collect::<Vec<_>>(),
        })
    }
}

/// The name of a GPU, if it has one.
fn name(device: &Device) -> &str {
    if device.name.is_empty() { "a GPU without a name" } else { &device.name }
}

#[derive(Default)]
struct Lines {
    text: String,
}

impl Lines {
    fn line(&mut self, label: &str, value: &str) {
        self.text += &format!("{label:<14}{}\n", spelled(value));
    }

    fn list(&mut self, label: &str, items: Vec<String>) {
        if items.is_empty() {
            return;
        }
        self.text += &format!("{label}\n");
        let more = items.len().saturating_sub(LIST);
        for item in items.into_iter().take(LIST) {
            self.text += &format!("  {}\n", spelled(&item));
        }
        if more > 0 {
            self.text += &format!("  {:>12}  and {more} more (--json lists all)\n", "");
        }
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A length of time in the unit that reads best.
pub(crate) fn duration(ns: Ns) -> String {
    let ns = ns.0 as f64;
    match ns.abs() {
        n if n >= 1e9 => format!("{:.2} s", ns / 1e9),
        n if n >= 1e6 => format!("{:.2} ms", ns / 1e6),
        _ => format!("{:.1} µs", ns / 1e3),
    }
}

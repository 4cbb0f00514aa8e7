//! `jarvis tree`: questions about the call tree.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::mem::ManuallyDrop;

use clap::{ArgGroup, Args};
use jarvis_analyze::texts::counted;
use jarvis_perf::nearest::nearest;
use jarvis_perf::tables::{ReportOptions, tree_options};
use jarvis_trace::tree::{ForwardLink, NameIndex, SubtreeText};
use jarvis_trace::{
    Arg, Clock, EventId, EventKind, Fidelity, InOrder, Key, Ns, Place, Trace, Tree, TreeView, pyliteral, spelled,
};
use serde_json::{Map, Value, json};

use super::info::{duration, thousands};
use super::values::whole;
use super::{Failure, Session, TraceArg, Work};

/// Events shown of a long answer, unless asked for more.
const LIMIT: usize = 20;

#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
#[command(group = ArgGroup::new("event").args(["uid", "name"]), after_help = "\
Examples:
  jarvis tree trace.json.gz                                  operations at the root, by GPU time
  jarvis tree trace.json.gz --uid 48                         one event: times, arguments, place
  jarvis tree trace.json.gz --uid 48 --subtree --fields 'Input Dims,Input type'
  jarvis tree trace.json.gz --uid 4690 --parents --python    who called this kernel, with Python frames
  jarvis tree trace.json.gz --name addmm --kernels           kernels of every operation named like that
  jarvis tree trace.json.gz --name '^aten::(mm|bmm)$' --regex --limit 5 --json")]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    trace: TraceArg,
    /// The event with this UID
    #[arg(long, value_name = "N", conflicts_with = "name", allow_negative_numbers = true)]
    uid: Option<u32>,
    /// Events whose name contains this text, capitals or not
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Take the text as a regular expression
    #[arg(long, requires = "name")]
    regex: bool,
    /// Show what each event was called from, innermost first
    #[arg(long, requires = "event")]
    parents: bool,
    /// Show what each event called
    #[arg(long, requires = "event")]
    subtree: bool,
    /// Levels of the subtree to show
    #[arg(long, value_name = "LEVELS", requires = "subtree", value_parser = whole, allow_negative_numbers = true)]
    depth: Option<usize>,
    /// Show branches without GPU work too
    #[arg(long, requires = "subtree")]
    all: bool,
    /// Show backward work below its forward operation, and follow it upwards
    #[arg(long, requires = "event")]
    backward: bool,
    /// Show the GPU events below each event
    #[arg(long, requires = "event")]
    kernels: bool,
    /// Arguments to show, separated by commas
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "event")]
    fields: Vec<String>,
    /// Python frames are part of the tree
    #[arg(long)]
    python: bool,
    /// Events to show at most (0: all)
    #[arg(long, value_name = "N", default_value_t = LIMIT, value_parser = whole, allow_negative_numbers = true)]
    limit: usize,
    /// Build the tree as the reference does
    #[arg(long)]
    parity: bool,
}

impl TreeArgs {
    fn fields(&self) -> Vec<&str> {
        self.fields.iter().map(|f| f.trim()).filter(|f| !f.is_empty()).collect()
    }

    /// Fails for a field that neither this trace nor the profiler knows.
    fn known_fields(&self, trace: &Trace) -> Result<(), Failure> {
        let of_profiler = Key::ALL.iter().filter(|(_, _, place)| *place == Place::Args).map(|(_, name, _)| *name);
        let mut known: Vec<&str> = trace.arg_names().chain(of_profiler).collect();
        known.sort_unstable();
        known.dedup();
        match self.fields().into_iter().find(|field| !known.contains(field)) {
            Some(unknown) => Err(Failure::usage(format!("no event has an argument `{unknown}`"))
                .help(format!("--fields takes any of {}", spelled(&known.join(", "))))),
            None => Ok(()),
        }
    }

    fn forward(&self) -> ForwardLink {
        if self.backward { ForwardLink::Follow } else { ForwardLink::Stop }
    }
}

pub(crate) fn run(session: &Session, args: &TreeArgs) -> Result<(), Failure> {
    let path = &args.trace.trace;
    let trace = ManuallyDrop::new(session.open(path, Work::Look)?);
    if !args.parity {
        args.known_fields(&trace)?;
    }
    let fidelity = if args.parity { Fidelity::Reference } else { Fidelity::Correct };
    // The tree of `jarvis report`: the reference nests by times in floats.
    let mut options = tree_options(&ReportOptions { fidelity, ..ReportOptions::default() });
    if args.python {
        options = options.with_python();
    }
    let tree = ManuallyDrop::new(session.stage("call tree", || Tree::build(&trace, options)));
    let view = tree.view(&trace);
    let answer = if args.uid.is_none() && args.name.is_none() {
        if session.common.json { format!("{:#}\n", roots_json(view, args)) } else { roots_text(view, args) }
    } else {
        let found = select(&trace, args)?;
        let shown = if args.limit == 0 { found.len() } else { found.len().min(args.limit) };
        if session.common.json {
            let events: Vec<Value> = found[..shown].iter().map(|&e| event_json(view, e, args)).collect();
            format!("{:#}\n", json!({"schema": "jarvis.tree/1", "matches": found.len(), "events": events}))
        } else {
            events_text(view, &found, shown, args)
        }
    };
    if session.common.json || args.parity {
        session.print(answer.as_bytes())?;
    } else {
        session.print_text(&answer)?;
    }
    let mut defects = trace.diagnostics().clone();
    defects.extend(tree.diagnostics());
    session.report(path, &defects)
}

/// The events asked for, in file order.
fn select(trace: &Trace, args: &TreeArgs) -> Result<Vec<EventId>, Failure> {
    if let Some(uid) = args.uid {
        return match trace.event(uid) {
            Some(e) => Ok(vec![e]),
            None => Err(Failure::usage(format!("there is no event with UID {uid}")).help(format!(
                "UIDs of this trace go from 0 to {}; larger ones in tables stand for kernels that no operation accounts \
                 for, and the tree data of an analysis name the call that launched them",
                trace.len().saturating_sub(1)
            ))),
        };
    }
    let text = args.name.as_deref().unwrap_or_default();
    let pattern = if args.regex {
        Some(regex_lite::Regex::new(text).map_err(|e| {
            Failure::usage(format!("--name is no regular expression: {e}"))
                .help("leave --regex out to search for plain text")
        })?)
    } else {
        None
    };
    let index = NameIndex::of_trace(trace);
    let text = text.to_ascii_lowercase();
    let contains = |name: &str| name.to_ascii_lowercase().contains(&text);
    let matches = |name: &str| pattern.as_ref().map_or_else(|| contains(name), |p| p.is_match(name));
    let mut found: Vec<EventId> = index
        .matching(trace, matches)
        .flat_map(|(_, events)| events.iter().copied())
        .filter(|&e| !matches!(trace.kind(e), EventKind::Metadata))
        .collect();
    found.sort_unstable();
    Ok(found)
}

fn events_text(view: TreeView<'_>, found: &[EventId], shown: usize, args: &TreeArgs) -> String {
    let mut out = String::new();
    if found.is_empty() {
        let trace = view.trace();
        let index = NameIndex::of_trace(trace);
        let names: Vec<&str> = index.matching(trace, |_| true).map(|(name, _)| trace.text(name)).collect();
        let near = nearest(args.name.as_deref().unwrap_or_default(), names).filter(|_| !args.regex);
        let near = near.map_or(String::new(), |near| format!("; did you mean {}?", spelled(near)));
        return format!("no event has a name like that{near}\n");
    }
    for (i, &e) in found[..shown].iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        event_text(view, e, args, &mut out);
    }
    if shown < found.len() {
        let _ = writeln!(out, "\n{} of {} events shown (--limit 0 shows all)", shown, thousands(found.len() as u64));
    }
    out
}

fn event_text(view: TreeView<'_>, e: EventId, args: &TreeArgs, out: &mut String) {
    let fields = args.fields();
    if args.parents {
        *out += &view.parent_chain_text(e, &fields, args.forward());
    }
    if args.subtree {
        let what = SubtreeText { prune: !args.all, fields: &fields, backward: args.backward, depth: args.depth };
        *out += &view.subtree_text(e, what);
    }
    if args.kernels {
        kernels_text(view, e, out);
    }
    if !args.parents && !args.subtree && !args.kernels {
        card(view, e, &fields, out);
    }
}

/// Everything about one event.
fn card(view: TreeView<'_>, e: EventId, fields: &[&str], out: &mut String) {
    let (trace, tree) = (view.trace(), view.tree());
    let name = |e: EventId| spelled(trace.name(e));
    let category = if trace.category(e).is_empty() { "-" } else { trace.category(e) };
    let track = trace.track(trace.track_id(e));
    let _ = writeln!(out, "UID: {e}, Category: {}, Name: {}", spelled(category), name(e));
    let place = format!("pid {} tid {}", trace.id_text(track.pid), trace.id_text(track.tid));
    let _ = writeln!(out, "  {}", spelled(&place));
    if let Some(ts) = trace.ts(e) {
        let dur = trace.dur(e).map_or(String::new(), |d| format!(", lasts {}", duration(d)));
        let _ = writeln!(out, "  starts at {}.{:03} µs{dur}", ts.0.div_euclid(1000), ts.0.rem_euclid(1000));
    }
    if let Some(parent) = tree.parent(e) {
        let _ = writeln!(out, "  called by UID {parent}: {}", name(parent));
    }
    if let Some(path) = view.module_path(e).filter(|p| !p.is_empty()) {
        let _ = writeln!(out, "  module {}", spelled(&path.join(" > ")));
    }
    let kernels = tree.gpu_events(e);
    if !kernels.is_empty() {
        let busy = duration(busy(view, &kernels));
        let _ = writeln!(out, "  GPU events below: {}, busy {busy}", thousands(kernels.len() as u64));
    }
    if let Some(forward) = tree.forward_of(e) {
        let _ = writeln!(out, "  backward of UID {forward}: {}", name(forward));
    }
    for backward in tree.backward_of(e) {
        let _ = writeln!(out, "  has backward UID {backward}: {}", name(backward));
    }
    for (key, value) in trace.args(e) {
        if fields.is_empty() || fields.contains(&key) {
            let _ = writeln!(out, "  {}", spelled(&format!("{key}: {}", pyliteral::of_arg(value))));
        }
    }
}

fn busy(view: TreeView<'_>, events: &[EventId]) -> Ns {
    let spans = events.iter().filter_map(|&e| Ns::span_of(view.trace(), e)).collect();
    jarvis_trace::IntervalSet::merge(spans).measure()
}

/// The GPU events below an event; a GPU event is its own.
fn gpu_events(view: TreeView<'_>, e: EventId) -> Cow<'_, [EventId]> {
    if view.trace().kind(e).is_gpu() { vec![e].into() } else { view.tree().gpu_events(e) }
}

fn kernels_text(view: TreeView<'_>, e: EventId, out: &mut String) {
    let trace = view.trace();
    let kernels = gpu_events(view, e);
    let total = duration(busy(view, &kernels));
    let _ = writeln!(
        out,
        "UID: {e}, Name: {}: {}, busy {total}",
        spelled(trace.name(e)),
        counted(thousands(kernels.len() as u64), "GPU event")
    );
    for &k in kernels.iter() {
        let track = trace.track(trace.track_id(k));
        let dur = trace.dur(k).map_or("-".to_owned(), |d| format!("{:.3} µs", d.as_us()));
        let place = format!("stream {}  {}", trace.id_text(track.tid), trace.name(k));
        let _ = writeln!(out, "  UID {k:>8}  {dur:>14}  {}", spelled(&place));
    }
}

/// Root operations of one name.
struct RootGroup {
    name: String,
    count: usize,
    gpu: Ns,
    example: EventId,
}

fn root_groups(view: TreeView<'_>) -> Vec<RootGroup> {
    let (trace, tree) = (view.trace(), view.tree());
    let mut groups: Vec<RootGroup> = Vec::new();
    let mut by_name = std::collections::HashMap::new();
    for &root in tree.roots() {
        let at = *by_name.entry(trace.name_id(root)).or_insert(groups.len());
        if at == groups.len() {
            groups.push(RootGroup { name: trace.name(root).to_owned(), count: 0, gpu: Ns(0), example: root });
        }
        groups[at].count += 1;
        groups[at].gpu = groups[at].gpu + busy(view, &tree.gpu_events(root));
    }
    groups.order_by(|a, b| b.gpu.cmp(&a.gpu).then(a.example.cmp(&b.example)));
    groups
}

fn roots_text(view: TreeView<'_>, args: &TreeArgs) -> String {
    let groups = root_groups(view);
    if groups.is_empty() {
        return "this trace has no host operations; --name TEXT finds kernels and runtime calls\n".to_owned();
    }
    let shown = if args.limit == 0 { groups.len() } else { groups.len().min(args.limit) };
    let mut out = format!("{:>12}  {:>8}  {:>8}  operation at the root\n", "GPU busy", "calls", "e.g. UID");
    for g in &groups[..shown] {
        let (gpu, count, name) = (duration(g.gpu), thousands(g.count as u64), spelled(&g.name));
        let _ = writeln!(out, "{gpu:>12}  {count:>8}  {:>8}  {name}", g.example);
    }
    if shown < groups.len() {
        let _ = writeln!(out, "{shown} of {} names shown (--limit 0 shows all)", groups.len());
    }
    out
}

fn roots_json(view: TreeView<'_>, args: &TreeArgs) -> Value {
    let groups = root_groups(view);
    let shown = if args.limit == 0 { groups.len() } else { groups.len().min(args.limit) };
    let rows: Vec<Value> = groups[..shown]
        .iter()
        .map(
            |g| json!({"name": g.name, "count": g.count, "gpu_busy_us": g.gpu.as_us(), "example_uid": g.example.uid()}),
        )
        .collect();
    json!({"schema": "jarvis.tree/1", "root_operations": groups.len(), "roots": rows})
}

fn brief_json(view: TreeView<'_>, e: EventId) -> Map<String, Value> {
    let trace = view.trace();
    let mut m = Map::new();
    m.insert("uid".to_owned(), e.uid().into());
    m.insert("category".to_owned(), trace.category(e).into());
    m.insert("name".to_owned(), trace.name(e).into());
    m.insert("ts_us".to_owned(), trace.ts(e).map(Ns::as_us).into());
    m.insert("dur_us".to_owned(), trace.dur(e).map(Ns::as_us).into());
    m
}

fn arg_json(arg: Arg<'_>) -> Value {
    match arg {
        Arg::Int(i) => i.into(),
        Arg::Float(f) => f.into(),
        Arg::Text(t) => t.into(),
        Arg::Json(t) => serde_json::from_str(t).unwrap_or_else(|_| t.into()),
        Arg::Bool(b) => b.into(),
        Arg::Null => Value::Null,
    }
}

fn event_json(view: TreeView<'_>, e: EventId, args: &TreeArgs) -> Value {
    let (trace, tree) = (view.trace(), view.tree());
    let fields = args.fields();
    let track = trace.track(trace.track_id(e));
    let mut m = brief_json(view, e);
    m.insert("pid".to_owned(), trace.id_text(track.pid).into());
    m.insert("tid".to_owned(), trace.id_text(track.tid).into());
    m.insert("parent".to_owned(), tree.parent(e).map(EventId::uid).into());
    m.insert("module_path".to_owned(), view.module_path(e).into());
    let kernels = gpu_events(view, e);
    m.insert("gpu_events".to_owned(), kernels.len().into());
    m.insert("gpu_busy_us".to_owned(), busy(view, &kernels).as_us().into());
    let shown = trace.args(e).filter(|(key, _)| fields.is_empty() || fields.contains(key));
    m.insert("args".to_owned(), shown.map(|(k, v)| (k.to_owned(), arg_json(v))).collect::<Map<_, _>>().into());
    let list = |events: &mut dyn Iterator<Item = EventId>| -> Value {
        events.map(|e| Value::from(brief_json(view, e))).collect::<Vec<_>>().into()
    };
    if args.parents {
        m.insert("parents".to_owned(), parents_json(view, e, args));
    }
    if args.kernels {
        m.insert("kernels".to_owned(), list(&mut kernels.iter().copied()));
    }
    if args.subtree {
        m.insert("subtree".to_owned(), subtree_json(view, e, args));
    }
    m.into()
}

/// What an event was called from, innermost first. Where the chain goes on in the forward pass it says so.
fn parents_json(view: TreeView<'_>, e: EventId, args: &TreeArgs) -> Value {
    let mut rows = Vec::new();
    for (i, start) in view.chain_starts(e, args.forward()).into_iter().enumerate() {
        if i > 0 {
            let mut m = brief_json(view, start);
            m.insert("link".to_owned(), "forward".into());
            rows.push(Value::from(m));
        }
        rows.extend(view.tree().ancestors(start).map(|e| Value::from(brief_json(view, e))));
    }
    rows.into()
}

/// The subtree as a flat list in order of visit, each node with its parent: nesting as deep as a trace's would break
/// most readers.
fn subtree_json(view: TreeView<'_>, root: EventId, args: &TreeArgs) -> Value {
    let tree = view.tree();
    let mut rows = Vec::new();
    let first = if args.backward { Branch::Forward } else { Branch::Plain };
    // The root has the caller that it has above.
    let mut pending = vec![(root, tree.parent(root), 0, first)];
    while let Some((e, parent, level, branch)) = pending.pop() {
        let mut m = brief_json(view, e);
        m.insert("parent".to_owned(), parent.map(EventId::uid).into());
        m.insert("level".to_owned(), level.into());
        if branch == Branch::Backward {
            m.insert("link".to_owned(), "backward".into());
        }
        rows.push(Value::from(m));
        if args.depth.is_none_or(|depth| level < depth) {
            if branch == Branch::Forward {
                let backward: Vec<EventId> = tree.backward_of(e).collect();
                pending.extend(backward.into_iter().rev().map(|b| (b, Some(e), level + 1, Branch::Backward)));
            }
            let below = if branch == Branch::Forward { branch } else { Branch::Plain };
            let keep = |c: &EventId| args.all || tree.is_gpu_path(*c);
            let children: Vec<EventId> = tree.children(e).filter(keep).collect();
            pending.extend(children.into_iter().rev().map(|c| (c, Some(e), level + 1, below)));
        }
    }
    rows.into()
}

/// How an event of a subtree stands below its parent.
#[derive(Clone, Copy, PartialEq)]
enum Branch {
    /// As its child, with its own backward work below it.
    Forward,
    /// As its backward work.
    Backward,
    /// As its child.
    Plain,
}

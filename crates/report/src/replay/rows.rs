//! What could be packaged: calls of one operation with equal arguments, from a report's rows or from its CSV files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jarvis_perf::literal;
use jarvis_perf::roofline::Bound;
use jarvis_perf::roofline::MB;
use jarvis_perf::tables::{
    ArgLists, ArgTexts, KernelList, ListIds, Report, ReportRows, RowModel, Stats, UnifiedRow, input_ids,
};
use jarvis_perf::value::Value;
use jarvis_trace::timeline::is_communication_name;
use jarvis_trace::{Arg, EventId, EventKind, InOrder, StrId, Trace, Tree};
use rapidhash::RapidHashMap;

use super::inputs::{self, Input};
use super::words;

/// How many operations around a call are tried in its place.
const MOST_ANCESTORS: usize = 3;

/// Most levels between an operation's wrapper and the operation.
const DEEPEST: usize = 8;

/// A kernel of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Name.
    pub name: Arc<str>,
    /// How often a call launches it.
    pub count_per_call: f64,
    /// Mean duration.
    pub mean_us: f64,
}

/// Calls of one operation with equal arguments.
#[derive(Debug, Clone)]
pub struct Row {
    /// Operation.
    pub op: Arc<str>,
    /// Category of the operation.
    pub category: Arc<str>,
    /// Recorded inputs; `None` without shapes.
    pub inputs: Option<Vec<Input>>,
    /// Number of calls.
    pub count: usize,
    /// Kernel time of a call.
    pub kernel_us: Stats,
    /// Kernels of a call.
    pub kernels: Vec<Kernel>,
    /// Share of the time in which some kernel computes.
    pub percent_of_compute: f64,
    /// The best time in percent of the time taken.
    pub efficiency_percent: Option<f64>,
    /// `compute` or `memory`.
    pub bound: Option<&'static str>,
    /// The best time of a call.
    pub roofline_us: Option<f64>,
    /// Operations of a call.
    pub flops: Option<f64>,
    /// Bytes of a call.
    pub bytes: Option<f64>,
    /// Unit and precision.
    pub compute_spec: Option<Arc<str>>,
    /// Name of the report's row, where another operation with the same kernels stands for it.
    pub substituted_for: Option<Arc<str>>,
    /// Where the source of a generated kernel is, in a sentence, if the trace tells.
    pub(crate) source: Option<String>,
    /// Whether automatic casts were on: the call cast its arguments and then called itself.
    pub(crate) casts: bool,
    /// Operations around the calls with the same kernels, innermost first.
    pub(crate) around: Vec<(Arc<str>, Option<Vec<Input>>)>,
}

impl Row {
    /// Microseconds that all calls take beyond the best time; `None` where that is not known.
    pub fn lost_us(&self) -> Option<f64> {
        Some((self.kernel_us.sum - self.roofline_us? * self.count as f64).max(0.0))
    }
}

/// The rows of a report. Rows that are no operations (kernels on their own, wrappers of the autograd engine) are
/// replaced by the operation with the same kernels, where there is one.
pub fn of_report(trace: &Trace, report: &Report) -> Vec<Row> {
    of_report_where(trace, report, &|_| true)
}

/// Those of them that may be among the wanted operations: to read the arguments of all takes long.
pub fn of_report_where(trace: &Trace, report: &Report, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let Report { tree, arg_lists, rows: ReportRows { unified, timeline, .. }, .. } = report;
    let mut rows = Vec::new();
    let mut stand_ins = StandIns::default();
    for row in &unified.rows {
        let name = &row.identity.name;
        let mut events = Vec::new();
        if is_synthetic(name) || !name.contains("::") {
            events = unified.calls_of(row).map(|call| stand_in(trace, tree, name, call.event)).collect();
        }
        if events.is_empty() || events.contains(&None) {
            if !is_wanted(name) {
                continue;
            }
            let mut plain = of_unified(row);
            if let Some(first) = unified.calls_of(row).next() {
                plain.around = around(trace, tree, arg_lists, first.event);
                plain.casts = casts(trace, tree, first.event);
                plain.source = source(trace, first.event);
            }
            rows.push(plain);
            continue;
        }
        for event in events.into_iter().flatten() {
            stand_ins.add(trace, arg_lists, event, row);
        }
    }
    let wanted = stand_ins.groups.into_iter().filter(|group| is_wanted(group.op) || is_wanted(&group.name));
    rows.extend(wanted.map(|group| group.row(trace, tree)));
    rows.extend(collectives(trace, report, is_wanted));
    share_compute(&mut rows, timeline.computation.0);
    rows.order_by(|a, b| b.kernel_us.sum.total_cmp(&a.kernel_us.sum).then_with(|| a.op.cmp(&b.op)));
    rows
}

/// Tells each row its share of the time in which some kernel computes.
fn share_compute(rows: &mut [Row], compute_us: f64) {
    for row in rows {
        row.percent_of_compute = if compute_us > 0.0 { 100.0 * row.kernel_us.sum / compute_us } else { 0.0 };
    }
}

/// Operations that stand for rows that are none.
#[derive(Default)]
struct StandIns<'r> {
    groups: Vec<StandIn<'r>>,
    /// Which group has the calls of this name with these lists: a list is read once, not for each of thousands of calls.
    of_lists: RapidHashMap<(StrId, ListIds), usize>,
    /// The same by what the lists say, since lists that are written differently may say the same.
    of_inputs: BTreeMap<(StrId, Option<Vec<Input>>), usize>,
}

impl<'r> StandIns<'r> {
    /// A call did the work of a row.
    fn add(&mut self, trace: &'r Trace, lists: &ArgLists, event: EventId, row: &'r UnifiedRow) {
        let op = trace.name_id(event);
        let at = *self.of_lists.entry((op, input_ids(trace, event))).or_insert_with(|| {
            let inputs = inputs::of_lists(&lists.of(trace, event));
            *self.of_inputs.entry((op, inputs)).or_insert_with_key(|(_, inputs)| {
                self.groups.push(StandIn::new(trace.text(op), inputs.clone(), row));
                self.groups.len() - 1
            })
        });
        let group = &mut self.groups[at];
        // An operation that launches thousands of kernels is as many calls of its rows.
        if group.events.insert(event) && !is_synthetic(&row.identity.name) {
            group.model = Some(row);
        }
    }
}

/// Calls with equal arguments of an operation that stands for rows that are none.
struct StandIn<'r> {
    op: &'r str,
    inputs: Option<Vec<Input>>,
    events: BTreeSet<EventId>,
    name: Arc<str>,
    category: Arc<str>,
    /// The row whose numbers hold for the operation as well, since it is the same work.
    model: Option<&'r UnifiedRow>,
}

impl<'r> StandIn<'r> {
    fn new(op: &'r str, inputs: Option<Vec<Input>>, row: &UnifiedRow) -> Self {
        let (name, category) = (Arc::clone(&row.identity.name), Arc::clone(&row.identity.category));
        Self { op, inputs, events: BTreeSet::new(), name, category, model: None }
    }

    fn row(self, trace: &Trace, tree: &Tree) -> Row {
        let view = tree.view(trace);
        let kernels: Vec<Vec<EventId>> = self.events.iter().map(|&e| tree.gpu_events(e).into_owned()).collect();
        let base = self.model.map(of_unified);
        let mut row = base.unwrap_or_else(|| Row {
            op: "".into(),
            category: Arc::clone(&self.category),
            inputs: None,
            count: 0,
            kernel_us: Stats::default(),
            kernels: Vec::new(),
            percent_of_compute: 0.0,
            efficiency_percent: None,
            bound: None,
            roofline_us: None,
            flops: None,
            bytes: None,
            compute_spec: None,
            substituted_for: None,
            source: None,
            casts: false,
            around: Vec::new(),
        });
        row.op = self.op.into();
        row.inputs = self.inputs;
        row.count = self.events.len();
        row.kernel_us = Stats::of(kernels.iter().map(|list| view.busy(list).0));
        row.kernels = kernels_of(trace, &kernels);
        row.substituted_for = Some(self.name).filter(|name| is_public(name));
        row
    }
}

/// Collectives, which the report's tables of operations leave out: they can't be packaged, and who asks for one is told.
fn collectives(trace: &Trace, report: &Report, is_wanted: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let Report { tree, arg_lists, rows: ReportRows { unified, .. }, .. } = report;
    // There are many kernels and few names.
    let mut known: RapidHashMap<StrId, bool> = RapidHashMap::default();
    let mut communicates =
        |k: &EventId| *known.entry(trace.name_id(*k)).or_insert_with(|| is_communication_name(trace.name(*k)));
    let mut kernels: BTreeSet<EventId> = tree.linked_gpu_events().filter(|k| communicates(k)).collect();
    if !kernels.is_empty() {
        for call in unified.rows.iter().flat_map(|row| unified.calls_of(row)) {
            for kernel in tree.gpu_events(call.event).iter() {
                kernels.remove(kernel);
            }
        }
    }
    let mut groups: BTreeMap<(&str, Option<Vec<Input>>), BTreeSet<EventId>> = BTreeMap::new();
    for &kernel in &kernels {
        let ops = || tree.ancestors(kernel).filter(|&e| trace.kind(e) == EventKind::CpuOp);
        // The collective stands around what records its arguments.
        let Some(call) = ops().filter(|&e| trace.name(e).contains("::")).last().or_else(|| ops().next()) else {
            continue;
        };
        if is_wanted(trace.name(call)) {
            let inputs = inputs::of_lists(&arg_lists.of(trace, call));
            groups.entry((trace.name(call), inputs)).or_default().insert(call);
        }
    }
    let row = |((op, inputs), events): ((&str, Option<Vec<Input>>), BTreeSet<EventId>)| {
        let (name, category) = (op.into(), "communication".into());
        let group = StandIn { op, inputs, events, name, category, model: None };
        Row { substituted_for: None, ..group.row(trace, tree) }
    };
    groups.into_iter().map(row).collect()
}

/// Names, counts and mean times of the kernels of some calls, most time first.
fn kernels_of(trace: &Trace, calls: &[Vec<EventId>]) -> Vec<Kernel> {
    let mut by_name: BTreeMap<&str, (usize, f64)> = BTreeMap::new();
    for &event in calls.iter().flatten() {
        let entry = by_name.entry(trace.name(event)).or_default();
        entry.0 += 1;
        entry.1 += trace.dur(event).unwrap_or_default().as_us();
    }
    let mut found: Vec<Kernel> = by_name
        .into_iter()
        .map(|(name, (count, us))| Kernel {
            name: name.into(),
            count_per_call: count as f64 / calls.len().max(1) as f64,
            mean_us: us / count as f64,
        })
        .collect();
    found.order_by(|a, b| (b.count_per_call * b.mean_us).total_cmp(&(a.count_per_call * a.mean_us)));
    found
}

/// Whether a name may be shown in a package: one of the framework's, not of a class that the user wrote. The framework
/// numbers its own (`MulBackward0`). A kernel's own row only repeats the operation's name.
fn is_public(name: &str) -> bool {
    let number = |end: &str| !end.is_empty() && end.chars().all(|c| c.is_ascii_digit());
    !is_synthetic(name) && (name.contains("::") || name.rsplit_once("Backward").is_some_and(|(_, end)| number(end)))
}

fn is_synthetic(name: &str) -> bool {
    name.contains("->") || name.ends_with("(Synthetic Op)")
}

/// The operation that did the work of an event that is none itself: of a lone kernel the operation that launched it,
/// of a wrapper the operation inside with the same kernels.
pub(crate) fn stand_in(trace: &Trace, tree: &Tree, name: &str, event: EventId) -> Option<EventId> {
    let is_op = |e: EventId| trace.kind(e) == EventKind::CpuOp && trace.name(e).contains("::");
    if is_synthetic(name) {
        return is_op(event).then_some(event);
    }
    let kernels = tree.gpu_event_count(event);
    let mut at = event;
    for _ in 0..DEEPEST {
        at = tree.children(at).find(|&c| trace.kind(c) == EventKind::CpuOp && tree.gpu_event_count(c) == kernels)?;
        if is_op(at) {
            return Some(at);
        }
    }
    None
}

/// What the launch of a generated kernel says of its source.
fn source(trace: &Trace, event: EventId) -> Option<String> {
    let text = |key: &str| match trace.arg(event, key) {
        Some(Arg::Text(text)) if !text.is_empty() => Some(words::quoted(text)),
        _ => None,
    };
    match (text("kernel_file"), text("kernel_hash")) {
        (Some(file), Some(hash)) => Some(format!("Source {file}, hash {hash} are recorded in the trace.")),
        (Some(file), None) => Some(format!("Source {file} is recorded in the trace.")),
        (None, Some(hash)) => Some(format!("Hash {hash} is recorded in the trace.")),
        (None, None) => None,
    }
}

/// Whether an operation casts its arguments and then calls itself, as it does under automatic mixed precision.
fn casts(trace: &Trace, tree: &Tree, event: EventId) -> bool {
    let below = |name: &str| tree.children(event).any(|c| trace.kind(c) == EventKind::CpuOp && trace.name(c) == name);
    below("aten::to") && below(trace.name(event))
}

/// Operations around an event that have exactly its kernels.
fn around(trace: &Trace, tree: &Tree, lists: &ArgLists, event: EventId) -> Vec<(Arc<str>, Option<Vec<Input>>)> {
    let kernels = tree.gpu_event_count(event);
    let same = |&e: &EventId| tree.gpu_event_count(e) == kernels && trace.kind(e) == EventKind::CpuOp;
    tree.ancestors(event)
        .take(MOST_ANCESTORS)
        .take_while(same)
        .filter(|&e| trace.name(e).contains("::"))
        .map(|e| (trace.name(e).into(), inputs::of_lists(&lists.of(trace, e))))
        .collect()
}

fn of_unified(row: &UnifiedRow) -> Row {
    let model = row.model.as_ref();
    let best = model.and_then(RowModel::best);
    Row {
        op: Arc::clone(&row.identity.name),
        category: Arc::clone(&row.identity.category),
        inputs: inputs::of_texts(&row.identity.args),
        count: row.calls.len(),
        kernel_us: row.kernel_us,
        kernels: of_list(&row.kernels),
        percent_of_compute: 0.0,
        efficiency_percent: row.efficiency_percent(),
        bound: best.map(|(_, bound)| bound_word(bound.as_str())),
        roofline_us: best.map(|(us, _)| us),
        flops: model.and_then(|m| m.gflops).map(|g| g * 1e9),
        bytes: model.and_then(|m| m.data_moved_mb).map(mebibytes),
        compute_spec: model.and_then(|m| m.compute_spec.clone()),
        substituted_for: None,
        source: None,
        casts: false,
        around: Vec::new(),
    }
}

fn mebibytes(mb: f64) -> f64 {
    (mb * MB).round()
}

fn bound_word(cell: &str) -> &'static str {
    if cell.starts_with("COMPUTE") { "compute" } else { "memory" }
}

fn of_list(list: &KernelList) -> Vec<Kernel> {
    // Each call of the list has all of its kernels: an entry stands for one of them, or in long lists for many.
    let runs: usize = list.kernels.iter().map(|k| k.count).sum();
    let share = list.per_call as f64 / runs.max(1) as f64;
    merged(list.kernels.iter().map(|k| (Arc::clone(&k.name), k.mean_us, k.count as f64 * share)))
}

/// Kernels by name, in order of first appearance: each part is a name, a mean time and how many a call has.
fn merged(parts: impl Iterator<Item = (Arc<str>, f64, f64)>) -> Vec<Kernel> {
    let mut found: Vec<Kernel> = Vec::new();
    for (name, us, times) in parts {
        match found.iter_mut().find(|k| k.name == name) {
            Some(known) => {
                let all = known.count_per_call + times;
                known.mean_us = (known.mean_us * known.count_per_call + us * times) / all;
                known.count_per_call = all;
            }
            None => found.push(Kernel { name, count_per_call: times, mean_us: us }),
        }
    }
    found
}

/// The rows of a `unified_perf_summary.csv`. Shares are of the compute time that the `gpu_timeline.csv` beside it has;
/// without one, of the time of all operations.
pub fn of_csv(text: &[u8], timeline: Option<&[u8]>) -> Result<Vec<Row>, csv::Error> {
    let mut reader = csv::Reader::from_reader(text);
    let headers = reader.headers()?.clone();
    let at = |name: &str| headers.iter().position(|h| h == name);
    let columns = Columns { at: &at };
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        if let Some(row) = columns.row(&record) {
            rows.push(row);
        }
    }
    if let Some(us) = timeline.and_then(compute_us) {
        share_compute(&mut rows, us);
    }
    Ok(rows)
}

/// The time in which some kernel computes, of a `gpu_timeline.csv`.
fn compute_us(timeline: &[u8]) -> Option<f64> {
    let mut reader = csv::Reader::from_reader(timeline);
    let ms = reader.headers().ok()?.iter().position(|header| header == "time ms")?;
    let row = reader.records().flatten().find(|row| row.get(0) == Some("computation_time"))?;
    Some(1e3 * row.get(ms)?.parse::<f64>().ok()?)
}

struct Columns<'c> {
    at: &'c dyn Fn(&str) -> Option<usize>,
}

impl Columns<'_> {
    fn text<'r>(&self, record: &'r csv::StringRecord, name: &str) -> Option<&'r str> {
        record.get((self.at)(name)?).filter(|text| !text.is_empty())
    }

    fn number(&self, record: &csv::StringRecord, name: &str) -> Option<f64> {
        self.text(record, name)?.parse().ok()
    }

    fn row(&self, record: &csv::StringRecord) -> Option<Row> {
        let text = |name| self.text(record, name);
        let number = |name: &str| self.number(record, name);
        let us = |part: &str| number(&format!("Kernel Time (µs)_{part}"));
        let count = number("operation_count")? as usize;
        let kernel_us = Stats::read(count, us("sum")?, us);
        // Of the cell as the table has it: what counts the bytes of matrix work alone is no time to hold it against.
        let bytes_only = text("Roofline Bound") == Some(Bound::MemoryBytesOnly.as_str());
        let is_least = bytes_only && Bound::MemoryBytesOnly.is_least(number("GFLOPS"), text("Compute Spec"));
        let roofline_us = number("Roofline Time (µs)_first").filter(|_| !is_least);
        let args = ArgTexts {
            dims: text("Input Dims").map(Arc::from),
            types: text("Input type").map(Arc::from),
            strides: text("Input Strides").map(Arc::from),
            concrete: text("Concrete Inputs").map(Arc::from),
        };
        Some(Row {
            op: text("name")?.into(),
            category: text("op category").unwrap_or_default().into(),
            inputs: inputs::of_texts(&args),
            count,
            kernel_us,
            kernels: text("kernel_details_summary").map_or_else(Vec::new, |cell| kernels_of_cell(cell, count)),
            percent_of_compute: number("Percentage (%)").unwrap_or_default(),
            // Of all calls together: one whose kernels were not all recorded does not decide it.
            efficiency_percent: roofline_us
                .filter(|_| kernel_us.sum > 0.0)
                .map(|best_us| 100.0 * best_us * count as f64 / kernel_us.sum),
            bound: text("Roofline Bound").filter(|_| !is_least).map(bound_word),
            roofline_us,
            flops: number("GFLOPS").map(|g| g * 1e9),
            bytes: number("Data Moved (MB)").map(mebibytes),
            compute_spec: text("Compute Spec").map(Arc::from),
            substituted_for: None,
            source: None,
            casts: false,
            around: Vec::new(),
        })
    }
}

/// The kernels of a cell of so many calls: a list of mappings, of which names, counts and mean times are read.
fn kernels_of_cell(cell: &str, calls: usize) -> Vec<Kernel> {
    let mut parts: Vec<(Arc<str>, f64, f64)> = Vec::new();
    let mut rest = cell;
    while let Some((_, after)) = rest.split_once("{'name': ") {
        let end = after.find(", 'stream'").unwrap_or(after.len());
        let Some(Value::Str(name)) = literal::parse(&after[..end]) else { break };
        let count = number_after(after, "'count': ").unwrap_or_default();
        // Entries by name are more than the calls; one by one they are as many, or fewer where calls differ.
        let times = (count / calls.max(1) as f64).max(1.0);
        parts.push((name.into(), number_after(after, "'mean_duration_us': ").unwrap_or_default(), times));
        rest = &after[end..];
    }
    merged(parts.into_iter())
}

/// The number after a key. The reference's tables write `np.float64(2.0)`.
fn number_after(text: &str, key: &str) -> Option<f64> {
    let number = text.split_once(key)?.1;
    let number = number.strip_prefix("np.float64(").unwrap_or(number);
    let end = number.find([',', '}', ')']).unwrap_or(number.len());
    number[..end].trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_classes_are_not_shown() {
        for (name, shown) in [
            ("ScaledDotProductCudnnAttentionBackward0", true),
            ("aten::_mine", true),
            ("SecretFunctionBackward", false),
            ("SecretModule", false),
            ("aten::sort->k (Synthetic Op)", false),
        ] {
            assert_eq!(is_public(name), shown, "{name}");
        }
    }

    #[test]
    fn kernels_of_a_cell_are_counted_by_name() {
        let cell = "[{'name': 'a, b', 'stream': 7, 'count': 2, 'mean_duration_us': 2.0, 'x': 1}, \
                    {'name': \"it's\", 'stream': 7, 'count': 2, 'mean_duration_us': np.float64(5.5)}, \
                    {'name': 'a, b', 'stream': 7, 'count': 2, 'mean_duration_us': 4.0}]";
        let kernels = kernels_of_cell(cell, 2);
        assert_eq!(kernels.len(), 2);
        assert_eq!((&*kernels[0].name, kernels[0].count_per_call, kernels[0].mean_us), ("a, b", 2.0, 3.0));
        assert_eq!((&*kernels[1].name, kernels[1].mean_us), ("it's", 5.5));
        assert!(kernels_of_cell("oops", 2).is_empty());
        // Long lists are by name: 512 runs in two calls.
        let cell = "[{'name': 'cell', 'stream': 7, 'count': 512, 'total_duration_us': np.float64(1024.0), \
                    'mean_duration_us': np.float64(2.0)}]";
        let kernels = kernels_of_cell(cell, 2);
        assert!((kernels[0].count_per_call - 256.0).abs() < 1e-9 && (kernels[0].mean_us - 2.0).abs() < 1e-9);
    }
}

//! The system tier on real traces: known numbers, measured pairs, and what has to hold for every trace.

use std::path::Path;

use jarvis_analyze::finding::{Finding, PatternId, Priority};
use jarvis_analyze::prepared::Utilization;
use jarvis_analyze::system::cpu_idle::CpuIdleMetrics;
use jarvis_analyze::system::gaps::GapClass;
use jarvis_analyze::system::host_bound::Limit;
use jarvis_analyze::system::multi_kernel::MultiKernelMetrics;
use jarvis_analyze::system::{System, findings};
use jarvis_trace::{Ns, Population, ReadOptions, Timeline, Trace, Tree, TreeOptions, Us};

use crate::support::{fixtures, shared, traces_in};

struct Case {
    name: String,
    trace: Trace,
    tree: Tree,
    system: System,
    utilization: Utilization,
}

impl Case {
    fn open(path: &Path) -> Self {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let trace = Trace::open(path, &ReadOptions::default()).unwrap();
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        let system = System::of(&trace, &tree, Population::Linked).unwrap();
        let timeline: Timeline<Us> = Timeline::of(&trace, &Population::Linked.of(&trace, &tree), None).unwrap();
        let utilization = utilization(&timeline);
        Self { name, trace, tree, system, utilization }
    }

    fn findings(&self) -> Vec<Finding> {
        findings(&self.system, &self.utilization, None)
    }

    fn ms(&self, class: GapClass) -> f64 {
        self.system.gaps.class(class).time.as_ms()
    }
}

fn utilization(timeline: &Timeline<Us>) -> Utilization {
    let rows = timeline.rows();
    let row = |kind: &str| rows.iter().find(|r| r.kind == kind).map_or((0.0, 0.0), |r| (r.ms, r.percent));
    let (computation, communication) = (row("computation_time"), row("exposed_comm_time"));
    let (memcpy, idle) = (row("exposed_memcpy_time"), row("idle_time"));
    Utilization {
        total_time_ms: row("total_time").0,
        computation_time_ms: computation.0,
        computation_time_percent: computation.1,
        exposed_comm_time_ms: communication.0,
        exposed_comm_time_percent: communication.1,
        exposed_memcpy_time_ms: memcpy.0,
        exposed_memcpy_time_percent: memcpy.1,
        idle_time_ms: idle.0,
        idle_time_percent: idle.1,
        busy_time_ms: row("busy_time").0,
        total_comm_time_ms: row("total_comm_time").0,
        total_memcpy_time_ms: row("total_memcpy_time").0,
        kernel_time_ms: timeline.kernels.0 / 1e3,
    }
}

fn near(value: f64, expected: f64) {
    assert!((value - expected).abs() < 0.006, "{value} is not {expected}");
}

#[test]
fn gaps_of_public_traces_are_those_of_the_contract() {
    let Some(folder) = shared() else { return };
    let open = |name: &str| Case::open(&folder.join("mi300").join(name));
    let classifier = open("Falconsai_nsfw_image_detection__1016002.json.gz");
    near(classifier.system.gaps.window.as_ms(), 6.87);
    near(classifier.system.gaps.idle().as_ms(), 5.15);
    near(classifier.system.gaps.late().as_ms(), 4.82);
    near(classifier.ms(GapClass::DeviceWait), 0.32);
    near(classifier.ms(GapClass::LaunchQueue), 0.01);
    let bert = open("gaunernst_bert-small-uncased__1016001.json.gz");
    near(bert.system.gaps.window.as_ms(), 3.50);
    near(bert.system.gaps.idle().as_ms(), 3.10);
    near(bert.system.gaps.late().as_ms(), 3.00);
    let video = open("facebook_timesformer-base-finetuned-k400__1016002.json.gz");
    assert!((video.utilization.idle_time_percent - 1.2).abs() < 0.05);
    assert_eq!(video.findings(), [], "no card");
    assert_eq!(video.system.host.limit, Limit::Gpu);
}

/// `step_ms` of a workload, measured without the profiler.
fn step_ms(facts: &serde_json::Value, name: &str) -> f64 {
    facts["workloads"][name]["step_ms"].as_f64().unwrap()
}

fn facts(folder: &Path) -> serde_json::Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join("h200/facts.json")).unwrap()).unwrap()
}

/// Checks that the first finding of `before` is this one, that its range holds what was measured, and how wide it is.
fn check_pair(folder: &Path, before: &str, after: &str, pattern: PatternId, widest: f64) -> Case {
    let facts = facts(folder);
    let measured = step_ms(&facts, before) / step_ms(&facts, after);
    let found = Case::open(&folder.join(format!("h200/{before}.json.gz"))).findings();
    let first = &found[0];
    assert_eq!(first.pattern, pattern, "{before}");
    assert!(first.priority <= Priority::High);
    let range = first.impact.speedup;
    println!("{before}: {:.2}x to {:.2}x, measured {measured:.2}x", range.low, range.high);
    assert!(range.low <= measured && measured <= range.high, "{measured} is not in {range:?}");
    assert!(range.high / range.low <= widest, "{range:?} is wider than {widest}");
    Case::open(&folder.join(format!("h200/{after}.json.gz")))
}

#[test]
fn the_launch_bound_pair_is_found_and_its_gain_is_in_the_range() {
    let Some(folder) = shared() else { return };
    let after = check_pair(&folder, "decode_eager", "decode_graphed", PatternId::LAUNCH_BOUND, 8.0);
    assert_eq!(after.findings(), []);
}

#[test]
fn the_synchronizing_pair_is_found_and_its_gain_is_in_the_range() {
    let Some(folder) = shared() else { return };
    let after = check_pair(&folder, "item_every_step", "item_never", PatternId::HOST_SYNC, 3.0);
    assert!(after.findings().iter().all(|f| f.pattern != PatternId::HOST_SYNC));
}

#[test]
fn steps_without_the_profiler_are_foreseen() {
    // Real steps of 24 programs, from GPU-bound to 96 % idle: the estimate has to come within a tenth of each.
    let Some(folder) = shared() else { return };
    let facts = facts(&folder);
    for (name, fact) in facts["workloads"].as_object().unwrap() {
        let path = folder.join(format!("h200/{name}.json.gz"));
        if !path.is_file() {
            continue;
        }
        let (measured, steps) = (step_ms(&facts, name), fact["steps"].as_f64().unwrap());
        let estimate = Case::open(&path).system.host.unprofiled_ms;
        let (low, high) = (estimate.low / steps, estimate.high / steps);
        println!("{name}: {measured:.2} ms, estimated {low:.2} to {high:.2}");
        assert!(measured > 0.9 * low && measured < 1.1 * high, "{name}: {measured} is far from {low}..{high}");
    }
}

#[test]
fn a_replayed_graph_is_no_launch_problem() {
    let path = fixtures().join("h200/decode_graphed.json.gz");
    let case = Case::open(&path);
    assert_eq!(case.findings(), []);
    assert_eq!((case.system.kernels.graph_replays, case.system.kernels.replayed), (8, 1808));
    let notes = case.system.notes(&case.utilization);
    assert!(notes[0].contains("The operations inside a graph are not recorded"), "{notes:?}");
    let metrics = CpuIdleMetrics::of(&case.system, &case.utilization);
    assert!(metrics.idle_flagged, "idle time is still there and still told");
}

/// What has to hold for every trace.
fn check(case: &Case) {
    let (name, gaps) = (&case.name, &case.system.gaps);
    let timeline: Timeline<Ns> =
        Timeline::of(&case.trace, &Population::Linked.of(&case.trace, &case.tree), None).unwrap();
    assert_eq!((gaps.window, gaps.busy, gaps.idle()), (timeline.total, timeline.busy, timeline.idle), "{name}");
    assert_eq!(gaps.by_class.iter().map(|t| t.time).sum::<Ns>(), timeline.idle, "{name}");
    let metrics = MultiKernelMetrics::of(&case.system, &case.utilization);
    assert_eq!(metrics.cross_validation.status, "PASS", "{name}: {:?}", metrics.cross_validation.warnings);
    // Before the findings: what they ask for is kept.
    let again = System::of(&case.trace, &case.tree, Population::Linked).unwrap();
    assert_eq!(format!("{again:?}"), format!("{:?}", case.system), "{name}");
    let all = case.findings();
    for (f, rank) in all.iter().zip(1..) {
        let (saved, speedup) = (f.impact.saved_ms, f.impact.speedup);
        assert_eq!(f.rank, rank);
        assert!(0.0 <= saved.low && saved.low <= saved.high && saved.high < gaps.window.as_ms(), "{name}: {f:?}");
        assert!(1.0 <= speedup.low && speedup.high / speedup.low <= 8.0, "{name}: {speedup:?}");
        assert!(!f.paths.algorithmic.is_empty() && !f.paths.kernel.is_empty() && !f.evidence.is_empty(), "{name}");
        assert!(!f.issue.contains('\n') && !f.title.is_empty());
    }
    assert!(all.is_sorted_by_key(|f| f.priority), "{name}");
    let lines = all.iter().map(|f| {
        let s = f.impact.speedup;
        format!("{} {:?} {:.2}-{:.2}x", f.pattern.as_str(), f.priority, s.low, s.high)
    });
    let (idle, limit) = (case.utilization.idle_time_percent, case.system.host.limit);
    println!("{name}: {idle:.1}% idle, {limit:?}; {}", lines.collect::<Vec<_>>().join("; "));
}

#[test]
fn every_trace_adds_up() {
    let mut files = traces_in(&fixtures());
    assert!(!files.is_empty());
    files.extend(shared().iter().flat_map(|folder| traces_in(folder)));
    for path in files {
        check(&Case::open(&path));
    }
}

#[test]
fn the_host_is_said_to_be_only_where_it_is() {
    // The longest gap begins with the last 0.3 ms of a batch norm; nothing is recorded in the other 6 ms.
    let Some(path) = shared().map(|folder| folder.join("h200/resnet50_nchw.json.gz")).filter(|p| p.is_file()) else {
        return;
    };
    let case = Case::open(&path);
    let longest = &case.system.gaps.longest[0];
    assert_eq!((longest.class, longest.host_activity.as_deref()), (GapClass::HostIdle, Some("aten::batch_norm")));
    let found = case.findings();
    let launches = found.iter().find(|f| f.pattern == PatternId::LAUNCH_BOUND).unwrap();
    let said: Vec<&str> = launches.evidence.iter().map(|e| &*e.fact).filter(|f| f.contains("the host is in")).collect();
    assert!(!said.is_empty() && said.iter().all(|f| !f.contains("`aten::batch_norm`")), "{said:?}");
}

//! Events that can't be as they are written: they are told, and left out where numbers would rest on them.

use jarvis_trace::{Defect, Ns, Population, ReadOptions, Timeline, Trace, TraceBuilder, Tree, TreeOptions};

/// Products in a row, 10 µs each, with the launch of each 100 µs before it.
fn row_of(kernels: i64) -> TraceBuilder {
    let mut b = TraceBuilder::new();
    for i in 0..kernels {
        let at = 12.0 * i as f64;
        b.cpu_op("aten::mm", at, 8.0).arg("External id", i + 1);
        b.launch("cudaLaunchKernel", at + 1.0, 2.0, i);
        b.kernel("mm", 100.0 + at, 10.0, i);
    }
    b
}

fn seen(b: &TraceBuilder, defect: Defect) -> (u64, usize) {
    let tree = Tree::build(&b.build(), TreeOptions::default());
    let reference = Tree::build(&b.build(), TreeOptions::default().like_reference());
    let count = tree.diagnostics().count(defect);
    assert!(count == 0 || reference.diagnostics().count(defect) == 0, "the reference tells nothing of {defect:?}");
    (count, tree.all_gpu_events().len())
}

#[test]
fn a_kernel_that_outlasts_those_after_it_is_left_out() {
    let with = |length: f64, correlation: i64| {
        let mut b = row_of(50);
        b.launch("cudaLaunchKernel", 119.0, 0.5, correlation);
        b.kernel("odd", 219.5, length, correlation);
        seen(&b, Defect::ImpossibleDuration)
    };
    assert_eq!(with(500.0, 1000), (1, 50));
    assert_eq!(with(1e9, 1000), (1, 50), "longer than the whole recording");
    // A kernel may begin while the one before it ends, and be short beside a long one.
    assert_eq!(with(11.0, 1000), (0, 51));
    assert_eq!(with(39.0, 1000), (0, 51), "no more than others of the stream by far");
    // On a stream of its own it holds nobody.
    let mut b = row_of(50);
    b.launch("cudaLaunchKernel", 119.0, 0.5, 1000);
    b.gpu("kernel", "beside", 219.5, 500.0, 1000, 8);
    assert_eq!(seen(&b, Defect::ImpossibleDuration), (0, 51));
}

#[test]
fn what_waits_for_others_and_what_runs_side_by_side_by_nature_stays() {
    let mut b = row_of(50);
    b.launch("cudaLaunchKernel", 119.0, 0.5, 1000);
    b.kernel("ncclDevKernel_AllReduce", 219.5, 300.0, 1000);
    assert_eq!(seen(&b, Defect::ImpossibleDuration), (0, 51));
    // Several of fifty are how this queue runs.
    let mut b = row_of(50);
    for (i, at) in [(1, 219.5), (2, 319.5), (3, 419.5)] {
        b.launch("cudaLaunchKernel", at - 100.0, 0.2, 1000 + i);
        b.kernel("long", at, 90.0, 1000 + i);
    }
    assert_eq!(seen(&b, Defect::ImpossibleDuration), (0, 53));
    // Parts of a graph have one launch and need not wait for each other.
    let mut b = TraceBuilder::new();
    b.launch("cudaGraphLaunch", 0.0, 5.0, 1);
    for i in 0..20 {
        b.kernel("part", 10.0 + 2.0 * f64::from(i), if i == 0 { 39.0 } else { 1.0 }, 1);
    }
    assert_eq!(seen(&b, Defect::ImpossibleDuration), (0, 20));
}

#[test]
fn a_last_kernel_beyond_all_that_was_recorded_is_left_out() {
    let with = |kernels: i64, length: f64, waits: bool| {
        let mut b = row_of(kernels);
        b.launch("cudaLaunchKernel", 700.0, 1.0, 1000);
        b.kernel("last", 800.0, length, 1000);
        if waits {
            b.launch("cudaDeviceSynchronize", 705.0, length + 96.0, 1001);
        }
        seen(&b, Defect::ImpossibleDuration).0
    };
    assert_eq!([with(50, 1e6, false), with(50, 1e6, true), with(50, 400.0, false)], [1, 0, 0]);
    assert_eq!(with(5, 1e6, false), 0, "so few kernels tell nothing");
}

#[test]
fn an_event_that_stands_twice_counts_once() {
    let mut b = row_of(20);
    for i in 4..7 {
        let at = 12.0 * i as f64;
        b.cpu_op("aten::mm", at, 8.0).arg("External id", i + 1);
        b.launch("cudaLaunchKernel", at + 1.0, 2.0, i);
        b.kernel("mm", 100.0 + at, 10.0, i);
    }
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let count = |defect| tree.diagnostics().count(defect);
    assert_eq!(count(Defect::DuplicateEvent), 9);
    let told = [Defect::AmbiguousLaunch, Defect::SeveralKernelsPerLaunch, Defect::DuplicateLaunch];
    assert_eq!(told.map(count), [0; 3], "nothing else is said of them");
    assert_eq!((tree.all_gpu_events().len(), tree.linked_gpu_events().count(), tree.roots().len()), (20, 20, 20));
    assert_eq!(trace.events().filter(|&e| tree.is_repeated(e)).count(), 3, "operations");
    // Another operation of the same time, and one that has no number, may be an operation within the other.
    let mut b = row_of(20);
    b.cpu_op("aten::mm", 48.0, 8.0).arg("External id", 77);
    b.cpu_op("aten::mm", 60.0, 8.0);
    assert_eq!(seen(&b, Defect::DuplicateEvent), (0, 20));
}

#[test]
fn launches_that_lost_their_kernels_before_the_end_are_told() {
    let lost = |without: &[i64], capture: bool| {
        let mut b = TraceBuilder::new();
        for i in 0..200 {
            b.launch("cudaLaunchKernel", 10.0 * i as f64, 1.0, i);
            if !without.contains(&i) {
                b.kernel("k", 10.0 * i as f64 + 5.0, 1.0, i);
            }
        }
        if capture {
            b.runtime("cudaStreamBeginCapture", 3000.0, 1.0);
        }
        seen(&b, Defect::LaunchWithoutKernel).0
    };
    assert_eq!(lost(&[20, 21, 22, 100, 199], false), 4, "the last may have run after the end");
    assert_eq!(lost(&[20, 21], false), 0);
    assert_eq!(lost(&[195, 196, 197, 198, 199], false), 0);
    assert_eq!(lost(&[20, 21, 22, 100], true), 0, "these may have gone into a graph");
}

#[test]
fn kernels_before_their_launch_are_told() {
    let skewed = |us: f64| {
        let mut b = TraceBuilder::new();
        for i in 0..10 {
            b.launch("cudaLaunchKernel", 20.0 * i as f64, 4.0, i);
            b.kernel("k", 20.0 * i as f64 + us, 5.0, i);
        }
        seen(&b, Defect::ClockSkew)
    };
    assert_eq!([skewed(1.0), skewed(0.0), skewed(-0.5), skewed(-900.0)], [(0, 10), (0, 10), (10, 10), (10, 10)]);
}

#[test]
fn another_order_of_the_file_changes_nothing() {
    let mut b = row_of(30);
    b.launch("cudaGraphLaunch", 500.0, 5.0, 500);
    for i in 0..4 {
        b.gpu("kernel", "part", 600.0 + 5.0 * f64::from(i), 3.0, 500, 7 + i64::from(i % 2));
    }
    let trace = b.build();
    let mut document: serde_json::Value = serde_json::from_str(&b.to_json()).unwrap();
    document["traceEvents"].as_array_mut().unwrap().reverse();
    let text = document.to_string();
    let reversed = Trace::read(text.as_bytes(), "reversed.json", &ReadOptions::default()).unwrap();
    let told = |trace: &Trace| {
        let tree = Tree::build(trace, TreeOptions::default());
        let shown = |e| (trace.name(e).to_owned(), trace.ts(e), trace.dur(e));
        let kernels: Vec<_> = tree.all_gpu_events().iter().map(|&e| shown(e)).collect();
        let below: Vec<_> = tree.thread_events().flat_map(|(_, events)| events.iter()).copied().collect();
        let below: Vec<_> = below
            .into_iter()
            .map(|e| (shown(e), tree.gpu_events(e).iter().map(|&k| shown(k)).collect::<Vec<_>>()))
            .collect();
        let timeline: Timeline<Ns> = Timeline::of(trace, &Population::default().of(trace, &tree), None).unwrap();
        (kernels, below, timeline)
    };
    assert_eq!(told(&trace), told(&reversed));
}

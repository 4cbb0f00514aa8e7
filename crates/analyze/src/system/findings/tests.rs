use jarvis_trace::TraceBuilder;

use super::*;
use crate::finding::Priority;
use crate::program::Program;
use crate::system::cpu_idle::CpuIdleMetrics;
use crate::system::fixture::{Host, system, tree, utilization};
use crate::system::gaps::GapClass;
use crate::system::host_bound::{Fix, Limit};
use crate::system::multi_kernel::MultiKernelMetrics;
use crate::system::multi_kernel_data::MultiKernelData;

mod communication;
mod idle;
mod input;

fn found(b: &TraceBuilder) -> Vec<Finding> {
    findings(&system(b), &utilization(b), None)
}

/// The same with what the program tells.
fn found_in_program(b: &TraceBuilder) -> Vec<Finding> {
    let trace = b.build();
    let lists = jarvis_perf::tables::ArgLists::default();
    let program = Program::of(&trace, &tree(&trace), &jarvis_trace::Summary::of(&trace), &lists);
    findings(&system(b), &utilization(b), Some(&program))
}

fn names(findings: &[Finding]) -> Vec<&'static str> {
    findings.iter().map(|f| f.pattern.as_str()).collect()
}

/// Two steps of 40 operations that take `host` µs each and launch kernels of `kernel` µs.
//
// host  |op||op||op| ... |wait|   |op||op| ...
// GPU     |k|  |k|  |k| ...         |k|  |k| ...
fn steps(host_us: f64, kernel_us: f64) -> Host {
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        for _ in 0..40 {
            host.op("aten::mm", host_us, kernel_us);
        }
        host.end_step(step, start);
    }
    host
}

#[test]
fn a_step_that_two_threads_mark_is_one_step() {
    let mut host = steps(50.0, 5.0);
    let before = (system(&host.b).gaps.steps, found(&host.b)[0].impact.saved_ms);
    host.b.annotation("ProfilerStep#0", 1.0, 2000.0).on(2, 2);
    host.b.annotation("ProfilerStep#1", 2100.0, 2000.0).on(2, 2);
    assert_eq!((system(&host.b).gaps.steps, found(&host.b)[0].impact.saved_ms), before);
    assert_eq!(before.0, 2);
}

#[test]
fn late_launches_of_small_kernels_are_launch_bound() {
    let host = steps(50.0, 5.0);
    let all = found(&host.b);
    assert_eq!(names(&all), ["launch_bound"]);
    let f = &all[0];
    assert_eq!((f.rank, f.priority, f.tier), (1, Priority::Critical, Tier::System));
    // 80 operations of 50 µs, of which the kernels take 5: low with 45 % less host time, high with steps at once.
    assert!(f.impact.speedup.low > 1.6 && f.impact.speedup.low < 1.82, "{:?}", f.impact);
    assert!(f.impact.speedup.high > 4.0 && f.impact.speedup.high < 8.0, "{:?}", f.impact);
    assert!(f.impact.basis.ends_with(PROFILER_COST));
    assert_eq!(f.paths.kernel, [NO_KERNEL]);
    assert!(f.paths.algorithmic[0].contains("GPU graph"));
    assert!(f.evidence.iter().any(|e| e.fact.starts_with("at ") && e.uid.is_some()), "positions for a trace viewer");
    assert!(f.time_ms > 3.0 && f.percent_of_total > 80.0);
}

#[test]
fn only_small_kernels_are_to_be_fused_where_launches_come_late() {
    for (kernel_us, told) in [
        (5.0, "Fuse small kernels and cut host time per operation with `torch.compile`."),
        (20.0, "Cut host time per operation with `torch.compile`."),
    ] {
        let all = found(&steps(80.0, kernel_us).b);
        assert_eq!(names(&all), ["launch_bound"]);
        assert!(all[0].paths.algorithmic.iter().any(|a| a == told), "{kernel_us}: {:?}", all[0].paths.algorithmic);
    }
}

/// Steps of ten operations on tensors of these sizes, one for each step; the first call with a size takes the host 3 ms.
fn of_sizes(sizes: &[i64]) -> Host {
    let mut host = Host::default();
    for (step, size) in sizes.iter().enumerate() {
        let start = host.now;
        for call in 0..10 {
            let us = if call == 0 && !sizes[..step].contains(size) { 3000.0 } else { 50.0 };
            host.op_on("aten::mm", &format!("[[64, {size}], [{size}, 64]]"), us, 5.0);
        }
        host.end_step(step, start);
    }
    host
}

#[test]
fn first_calls_with_new_shapes_are_told_of() {
    let host = of_sizes(&[16, 32, 48, 16]);
    let system = system(&host.b);
    let first = system.gaps.slow_first_calls().unwrap();
    // Half of each call comes after its launch; the half before follows the end of a step.
    assert_eq!(first.names, ["aten::mm".into()]);
    assert!((4.5..7.7).contains(&first.time.as_ms()), "{:?}", first.time);
    let all = found(&host.b);
    assert_eq!(names(&all), ["launch_bound"]);
    assert!(all[0].issue.contains("ms of it pass in calls (`aten::mm`) that are the first with"), "{}", all[0].issue);
    assert!(all[0].paths.algorithmic[0].starts_with("Keep to few shapes"), "{:?}", all[0].paths);
    let notes = system.notes(&utilization(&host.b));
    assert!(notes[0].contains("are called for the first time with their arguments"), "{notes:?}");
    assert!(first.go_on());
    let early = crate::system::fixture::system(&of_sizes(&[16, 32, 16, 32, 16, 32]).b);
    let early = early.gaps.slow_first_calls().unwrap();
    assert!(!early.go_on(), "{early:?}");
    // The same shape again and again is slow for another reason.
    let mut slow = Host::default();
    for step in 0..4 {
        let start = slow.now;
        for call in 0..10 {
            slow.op_on("aten::mm", "[[64, 16], [16, 64]]", if call == 0 { 3000.0 } else { 50.0 }, 5.0);
        }
        slow.end_step(step, start);
    }
    assert_eq!(crate::system::fixture::system(&slow.b).gaps.slow_first_calls(), None);
}

#[test]
fn what_first_calls_take_is_not_put_down_to_the_waits_before_them() {
    let of = |first_us: f64| {
        let mut host = Host::default();
        for step in 0..4 {
            let start = host.now;
            for call in 0..10 {
                if call % 5 == 4 {
                    host.item();
                }
                let us = if call % 5 == 4 { first_us } else { 50.0 };
                host.op_on("aten::mm", &format!("[[64, {}], [8, 64]]", 10 * step + call), us, 5.0);
            }
            host.end_step(step, start);
        }
        host
    };
    assert_eq!(names(&found(&of(50.0).b))[0], "host_sync");
    let slow = of(3000.0);
    assert!(system(&slow.b).gaps.first_calls.after_waits.as_ms() > 10.0);
    assert_eq!(names(&found(&slow.b)), ["launch_bound"]);
}

#[test]
fn compiling_is_told_as_such() {
    let mut host = steps(50.0, 5.0);
    let start = host.now;
    host.b.cpu_op("_compile.compile_inner (dynamo_timed)", start, 40_000.0);
    host.now += 40_000.0;
    for _ in 0..20 {
        host.op("aten::mm", 50.0, 5.0);
    }
    host.end_step(2, start);
    let system = system(&host.b);
    let first = system.gaps.slow_first_calls().unwrap();
    assert_eq!((first.names.as_slice(), first.go_on()), (&["torch.compile".into()][..], false));
    // Advice on the recording is no change to the program, and what it leaves out is nobody's saving.
    let notes = system.notes(&utilization(&host.b));
    assert!(notes[0].contains("Record a later part of the run"), "{notes:?}");
    let (all, before) = (found(&host.b), found(&steps(50.0, 5.0).b));
    let (f, without) = (&all[0], &before[0]);
    assert!(f.paths.algorithmic.iter().all(|a| !a.contains("Record a later part")), "{:?}", f.paths);
    assert!(f.issue.contains("ms more pass in calls (`torch.compile`)"), "{}", f.issue);
    // Three steps in the place of two.
    assert!(f.impact.saved_ms.high < 1.6 * without.impact.saved_ms.high, "{:?} {:?}", f.impact, without.impact);
    assert!(f.time_ms < 1.6 * without.time_ms, "{} {}", f.time_ms, without.time_ms);
}

#[test]
fn results_as_large_as_the_data_say_are_no_reads() {
    let of = |name: &str| {
        let mut host = Host::default();
        for step in 0..4 {
            let start = host.now;
            for _ in 0..10 {
                host.op("aten::mm", 20.0, 40.0);
                host.waiting(name);
            }
            host.end_step(step, start);
        }
        found(&host.b)
            .into_iter()
            .find(|f| f.pattern == crate::finding::PatternId::HOST_SYNC)
            .unwrap()
            .paths
            .algorithmic
    };
    let read = of("aten::item");
    assert!(read[0].contains("scalar reads (`aten::item`)"), "{read:?}");
    let sized = of("aten::where");
    assert!(sized[0].starts_with("The host waits to learn how large the results of `aten::where` are"), "{sized:?}");
    assert!(sized.iter().all(|a| !a.contains("scalar reads") && !a.contains("read it once")), "{sized:?}");
}

#[test]
fn a_busy_gpu_is_not_launch_bound() {
    // Kernels longer than their operations: the queue is never empty.
    assert_eq!(names(&found(&steps(50.0, 55.0).b)), [""; 0]);
    // Kernels a little shorter: idle time is under 15 % of the window.
    assert_eq!(names(&found(&steps(50.0, 44.0).b)), [""; 0]);
}

#[test]
fn a_profiler_that_may_explain_it_makes_it_milder() {
    // 40 % idle, but a host 1.3 times faster already keeps the GPU nearly busy.
    let all = found(&steps(50.0, 30.0).b);
    assert_eq!(names(&all), ["launch_bound"]);
    assert_eq!(all[0].priority, Priority::Low);
    assert!(all[0].issue.contains("without the profiler"));
    assert!(all[0].impact.speedup.low < 1.05);
}

#[test]
fn what_the_profiler_does_not_explain_is_worth_a_change() {
    // A quarter of the kernels is so short that no such host keeps the GPU busy there.
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        for i in 0..40 {
            host.op("aten::mm", 50.0, if i < 10 { 15.0 } else { 32.0 });
        }
        host.end_step(step, start);
    }
    let all = found(&host.b);
    assert_eq!((names(&all), all[0].priority), (vec!["launch_bound"], Priority::Medium));
    assert!(all[0].issue.contains("without the profiler") && all[0].impact.speedup.low > 1.02, "{:?}", all[0]);
}

#[test]
fn compiled_code_is_not_told_to_compile() {
    let advice = |compiled: bool| {
        let mut host = steps(50.0, 1.0);
        host.b.python("train.py(1): main", -10.0, 10_000.0);
        if compiled {
            host.b.cpu_op("Torch-Compiled Region: 0/0", 0.0, 5_000.0);
        }
        let all = found(&host.b);
        assert_eq!(names(&all), ["launch_bound"]);
        all[0].paths.algorithmic.join(" ")
    };
    assert!(advice(false).contains("with `torch.compile`") && !advice(false).contains("without `with_stack`"));
    assert!(!advice(true).contains("with `torch.compile`") && advice(true).contains("without `with_stack`"));
}

#[test]
fn a_replayed_graph_is_not_launch_bound_and_says_what_is_missing() {
    // host  |graph launch|                          |wait|
    // GPU        |k||k||k||k| ... 40 kernels, 1 µs apart
    let mut b = TraceBuilder::new();
    for step in 0..2 {
        let at = 1000.0 * f64::from(step);
        b.annotation(&format!("ProfilerStep#{step}"), at - 60.0, 990.0);
        b.launch("cudaGraphLaunch", at - 20.0, 15.0, step.into());
        for k in 0..40 {
            b.kernel("k", at + 3.0 * f64::from(k), 2.0, step.into());
        }
        b.runtime("cudaDeviceSynchronize", at, 125.0);
    }
    let s = system(&b);
    assert_eq!(s.kernels.graph_replays, 2);
    assert_eq!(names(&findings(&s, &utilization(&b), None)), [""; 0]);
    let notes = s.notes(&utilization(&b));
    assert!(notes[0].starts_with("80 GPU events were launched by 2 GPU graph replays."), "{notes:?}");
}

/// Two steps with a read after every tenth operation.
fn reads(host_us: f64, kernel_us: f64, reads: usize) -> Host {
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        for i in 0..40 {
            host.op("aten::mm", host_us, kernel_us);
            if i % 10 == 4 && i / 10 < reads {
                host.item();
            }
        }
        host.end_step(step, start);
    }
    host
}

#[test]
fn reads_within_the_step_come_before_launches() {
    let all = found(&reads(50.0, 5.0, 4).b);
    assert_eq!(names(&all), ["host_sync", "launch_bound"]);
    assert_eq!((all[0].priority, all[1].priority), (Priority::Critical, Priority::High));
    assert_eq!(all[0].operations[0].name, "aten::item");
    assert_eq!(all[0].operations[0].count, 8);
    assert!(all[0].impact.speedup.high / all[0].impact.speedup.low < 3.0, "{:?}", all[0].impact);
    let first = &all[1].paths.algorithmic[0];
    assert!(first.contains("Remove the synchronizations within the step (`aten::item`)"), "{first}");
    assert!(first.contains("then capture it in a GPU graph"), "{first}");
}

#[test]
fn a_little_more_waiting_makes_a_little_more_of_it() {
    // Two steps of forty reads, with more and more operations between them: the share of the waits falls.
    let of = |between: usize| {
        let mut host = Host::default();
        for step in 0..2 {
            let start = host.now;
            for _ in 0..40 {
                for _ in 0..between {
                    host.op("aten::mm", 50.0, 5.0);
                }
                host.item();
            }
            host.end_step(step, start);
        }
        let all = found(&host.b);
        let f = all.into_iter().find(|f| f.pattern == PatternId::HOST_SYNC).unwrap();
        let gaps = system(&host.b).gaps;
        let share = crate::system::gaps::percent(gaps.class(GapClass::HostSync).time, gaps.late());
        (share, f.impact.speedup.high, f.priority)
    };
    let all: Vec<_> = (8..24).map(of).collect();
    let (most, least) = (all[0].0, all[all.len() - 1].0);
    assert!(most > 6.5 && least < 4.5, "{all:?}");
    for pair in all.windows(2) {
        let [(_, more, before), (_, less, after)] = pair else { unreachable!() };
        assert!(less <= more && less / more > 0.93, "{all:?}");
        assert!(*after as usize - *before as usize <= 1, "{all:?}");
    }
}

/// Two steps of twenty products, each followed by these operations on tensors and a read.
fn checked(made: &[(&str, &str)]) -> Finding {
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        for _ in 0..20 {
            host.op_on("aten::mm", "[[64, 64], [64, 64]]", 50.0, 5.0);
            for (name, dims) in made {
                host.op_on(name, dims, 50.0, 5.0);
            }
            host.item();
        }
        host.end_step(step, start);
    }
    let all = found_in_program(&host.b);
    all.into_iter().find(|f| f.pattern == PatternId::HOST_SYNC).unwrap()
}

#[test]
fn what_makes_a_flag_that_the_host_reads_may_go_with_the_read() {
    let flag = checked(&[("aten::ne", "[[64, 64], [64, 64]]"), ("aten::any", "[[64, 64]]")]);
    assert!(flag.impact.basis.contains("and the 80 kernels of flags"), "{}", flag.impact.basis);
    assert!(flag.paths.algorithmic.iter().any(|a| a.contains("`any`, `all`")), "{:?}", flag.paths);
    // A sum may be what the program is for, and so may what has another shape.
    let value = checked(&[("aten::ne", "[[64, 64], [64, 64]]"), ("aten::sum", "[[64, 64]]")]);
    assert!(!value.impact.basis.contains("of flags"), "{}", value.impact.basis);
    assert!(flag.impact.speedup.high > 1.2 * value.impact.speedup.high, "{:?} {:?}", flag.impact, value.impact);
    assert_eq!(flag.impact.speedup.low.to_bits(), value.impact.speedup.low.to_bits());
    // The product is what the flags are about.
    let product = checked(&[("aten::mul", "[[64, 64]]"), ("aten::gt", "[[64, 64], []]"), ("aten::any", "[[64, 64]]")]);
    assert!(product.impact.basis.contains("and the 80 kernels of flags"), "{}", product.impact.basis);
    let other = checked(&[("aten::ne", "[[64, 32], [64, 32]]"), ("aten::any", "[[64, 64]]")]);
    assert!(other.impact.basis.contains("and the 40 kernels of flags"), "{}", other.impact.basis);
}

#[test]
fn what_cannot_be_captured_is_named_however_little_it_costs() {
    let mut host = reads(50.0, 5.0, 1);
    let end = host.now;
    host.b.python("train.py(7): step", -10.0, end + 100.0);
    let all = found(&host.b);
    assert_eq!(names(&all), ["launch_bound"]);
    let first = &all[0].paths.algorithmic[0];
    assert!(first.contains("(`aten::item`, called from `train.py(7): step`)"), "{first}");
    assert!(first.contains("then capture it in a GPU graph"), "{first}");
}

#[test]
fn a_place_that_several_operations_are_called_from_is_told_once() {
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        for i in 0..40 {
            host.op("aten::mm", 50.0, 5.0);
            if i % 10 == 4 {
                host.now += 2.0;
                let from = host.now;
                host.item();
                // Every other one as a truth value: an operation of its own.
                if i % 20 == 4 {
                    host.b.cpu_op("aten::is_nonzero", from - 1.0, host.now - from + 2.0);
                    host.now += 2.0;
                }
            }
        }
        host.end_step(step, start);
    }
    let end = host.now;
    host.b.python("train.py(7): step", -10.0, end + 100.0);
    let all = found(&host.b);
    assert_eq!(names(&all), ["host_sync", "launch_bound"]);
    let places = all[0].paths.algorithmic.last().unwrap();
    assert_eq!(places, "They are called from `train.py(7): step`.");
    let named: Vec<&str> = all[0].operations.iter().map(|o| &*o.name).collect();
    assert_eq!(named.len(), 2, "{named:?}");
}

#[test]
fn one_read_in_a_step_is_no_finding_if_it_costs_little() {
    assert_eq!(names(&found(&reads(50.0, 5.0, 1).b)), ["launch_bound"]);
}

#[test]
fn reads_that_drain_a_full_queue_are_found_without_idle_launches() {
    // The GPU is the limit, but each read lets it run dry.
    let all = found(&reads(20.0, 40.0, 4).b);
    assert_eq!(names(&all), ["host_sync"]);
    assert!(all[0].impact.speedup.low > 1.02 && all[0].impact.speedup.high < 1.25, "{:?}", all[0].impact);
}

/// Turns of short kernels, long ones and a read: after it the GPU runs dry again and again until the long ones come.
fn turns(short: usize, long_us: f64, mut end: impl FnMut(&mut Host, f64)) -> Finding {
    let mut host = Host::default();
    let start = host.now;
    for _ in 0..8 {
        (0..short).for_each(|_| host.op("aten::add", 20.0, 2.0));
        (0..3).for_each(|_| host.op("aten::mm", 20.0, long_us));
        host.item();
    }
    end(&mut host, start);
    let all = found(&host.b);
    assert_eq!(all[0].pattern, PatternId::HOST_SYNC, "{:?}", names(&all));
    all[0].clone()
}

#[test]
fn waits_that_surely_cost_much_are_urgent_however_short_the_gaps_after_them() {
    let step = |host: &mut Host, start: f64| host.end_step(0, start);
    let much = turns(4, 160.0, step);
    assert!(much.percent_of_total < 5.0 && much.impact.speedup.low > 1.06, "{:?}", much.impact);
    let little = turns(1, 160.0, step);
    assert!(little.percent_of_total < 5.0 && little.impact.speedup.low < 1.05, "{:?}", little.impact);
    assert_eq!((much.priority, little.priority), (Priority::High, Priority::Low));
}

#[test]
fn only_recorded_steps_are_counted_as_steps() {
    let issue = |end: fn(&mut Host, f64)| turns(4, 160.0, end).issue;
    assert!(issue(|host, start| host.end_step(0, start)).starts_with("7 times in 1 step the host waits"));
    let bare = issue(|_, _| {});
    assert!(bare.starts_with("7 times in the trace the host waits"), "{bare}");
}

#[test]
fn what_the_profiler_does_between_steps_is_not_the_programs() {
    // host  |op|...|op||-- frame 600 us --||op|...|op|
    // GPU     |k|...|k|                     |k|...|k|
    let build = |frame: Option<&str>| {
        let mut host = Host::default();
        for step in 0..2 {
            let start = host.now;
            for _ in 0..4 {
                host.op("aten::mm", 20.0, 15.0);
            }
            let work = if frame.is_some_and(|f| f.starts_with("train")) { 600.0 } else { 0.0 };
            host.b.annotation(&format!("ProfilerStep#{step}"), start, host.now + work - start);
            if let Some(frame) = frame {
                host.b.python(frame, host.now, 600.0);
            }
            host.now += 600.0;
        }
        host.b
    };
    let own = build(Some("train.py(3): step"));
    assert_eq!(names(&found(&own)), ["launch_bound"]);
    let frames = ["torch/profiler/profiler.py(884): step", "/opt/torch/profiler/profiler.py(894): step"];
    // Where no frames were recorded, what lies between steps is.
    for frame in frames.into_iter().map(Some).chain([None]) {
        let b = build(frame);
        assert_eq!(names(&found(&b)), [""; 0]);
        let system = system(&b);
        assert_eq!(system.gaps.in_profiler.count, 1);
        let told = system.where_idle(&utilization(&b)).unwrap();
        assert!(
            told.contains("ms idle time lies in `step_sync` gaps: the host had waited for the GPU between steps, or"),
            "{told}"
        );
        // Less host time between launches leaves it as it is.
        let saved = |b| crate::system::fixture::system(b).host.saved(None, [Fix::Compiled; 2]);
        assert!(saved(&b).high < 0.1 && saved(&own).low > 0.1, "{:?} {:?}", saved(&b), saved(&own));
        // And without the profiler it is not there.
        let unprofiled = system.host.unprofiled_ms;
        assert!(unprofiled.high < 0.3, "{unprofiled:?}");
    }
    assert_eq!(system(&steps(20.0, 200.0).b).where_idle(&utilization(&steps(20.0, 200.0).b)), None);
}

/// Steps that copy `bytes` to the device first, `us` long and waited for.
//
// host  |-- copy --------||op||op|..    |-- copy --------||op||op|..
// GPU     |-- memcpy ----|  |k||k|..      |-- memcpy ----|  |k||k|..
fn copying(bytes: i64, us: f64, kind: &str) -> TraceBuilder {
    copying_host(bytes, us, kind).b
}

fn copying_host(bytes: i64, us: f64, kind: &str) -> Host {
    copying_between(bytes, us, kind, (20.0, 50.0))
}

/// The same with operations that take the host and the GPU this long.
fn copying_between(bytes: i64, us: f64, kind: &str, (host_us, gpu_us): (f64, f64)) -> Host {
    let mut host = Host::default();
    host.op("aten::mm", host_us, gpu_us);
    for i in 0..8 {
        let at = host.now;
        let start = (at + 12.0).max(host.gpu);
        host.gpu = start + us;
        host.b.cpu_op("aten::to", at, host.gpu + 15.0 - at);
        host.b.launch("cudaMemcpyAsync", at + 2.0, host.gpu + 8.0 - at, 1000 + i);
        let name = format!("Memcpy HtoD ({kind} -> Device)");
        host.b.gpu("gpu_memcpy", &name, start, us, 1000 + i, 7).arg("bytes", bytes);
        host.now = host.gpu + 20.0;
        for _ in 0..10 {
            host.op("aten::mm", host_us, gpu_us);
        }
    }
    host
}

#[test]
fn what_copies_save_is_named() {
    for (host, told) in [((100.0, 5.0), true), ((20.0, 50.0), false)] {
        let b = copying_between(8 << 20, 1000.0, "Pageable", host).b;
        let all = found(&b);
        let f = all.iter().find(|f| f.pattern == PatternId::BLOCKING_COPIES).unwrap();
        let late = system(&b).gaps.class(GapClass::HostWork).time.as_ms();
        assert!(f.impact.saved_ms.high <= f.time_ms + late, "{:?} {} {late}", f.impact, f.time_ms);
        assert_eq!(f.impact.saved_ms.high > f.time_ms, told, "{:?} {}", f.impact, f.time_ms);
        let named =
            format!("comes earlier to other launches: {} ms of idle time pass before late ones.", shown_ms(late));
        assert_eq!(f.issue.ends_with(&named), told, "{}", f.issue);
    }
}

#[test]
fn a_host_that_no_longer_copies_is_faster_elsewhere_too() {
    let saved = |kind: &str, us: f64| {
        let b = copying_between(8 << 20, us, kind, (100.0, 5.0)).b;
        let all = found(&b);
        let f = all.iter().find(|f| f.pattern == PatternId::BLOCKING_COPIES).unwrap();
        f.impact.saved_ms.high
    };
    // 8 ms of the host between copies of 8 ms: what the host copies itself is in the way of the rest.
    let (by_host, by_link) = (saved("Pageable", 1000.0), saved("Pinned", 1000.0));
    assert!(by_host > by_link + 0.5 && by_host < by_link + 8.0, "{by_host} {by_link}");
    // Short copies are not much in the way.
    let (by_host, by_link) = (saved("Pageable", 150.0), saved("Pinned", 150.0));
    assert!(by_host <= by_link + 8.0 * 0.150 + 1e-6, "{by_host} {by_link}");
}

#[test]
fn parameters_that_go_back_and_forth_are_told_of() {
    let first = |frame: &str| {
        let mut host = copying_host(8 << 20, 2000.0, "Pageable");
        host.b.python(frame, -1.0, host.now + 2.0);
        let all = found(&host.b);
        all[0].paths.algorithmic[0].clone()
    };
    let told = first("torch/nn/modules/module.py(931): _apply");
    assert!(told.contains("`Module.to`") && told.contains("pinned memory"), "{told}");
    assert!(!first("train.py(7): _apply").contains("`Module.to`"));
}

#[test]
fn copies_that_nothing_hides_are_found() {
    // 8 MiB in 2 ms are 4 GB/s: pinned memory at 25 GB/s would take 0.34 ms.
    let b = copying(8 << 20, 2000.0, "Pageable");
    let all = found(&b);
    assert_eq!(names(&all), ["blocking_copies"]);
    let f = &all[0];
    assert_eq!(f.priority, Priority::Critical);
    // 20.2 ms, of which 16 are copies: 2.7 are left pinned, none hidden.
    assert!(f.impact.speedup.low > 2.6 && f.impact.speedup.low < 3.1, "{:?}", f.impact);
    assert!(f.impact.speedup.high > 3.8 && f.impact.speedup.high < 5.5, "{:?}", f.impact);
    assert!(f.paths.algorithmic[0].contains("`aten::to`"));
    assert_eq!((f.operations[0].name.as_str(), f.operations[0].count), ("aten::to", 8));
    let copies = *system(&b).copies.direction(crate::system::CopyDirection::HostToDevice);
    assert_eq!((copies.count, copies.waited_for, copies.pageable, copies.bytes), (8, 8, 8, 64 << 20));
    assert_eq!(copies.exposed, copies.time);
    // A read of one value beside them does not come first.
    let mut host = copying_host(8 << 20, 2000.0, "Pageable");
    host.item();
    let actions = &found(&host.b)[0].paths.algorithmic;
    assert!(actions[0].starts_with("Pin host memory") && actions[1].starts_with("Keep data"), "{actions:?}");
    // Who launches them stands with the copies.
    assert!(actions[0].contains("the copies (launched by `aten::to`)"), "{actions:?}");
    // Whose launches were not recorded belong to no operation, and none is named.
    let mut late = TraceBuilder::new();
    late.kernel("k", 0.0, 10.0, 1);
    late.gpu("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 20.0, 2000.0, 2, 7).arg("bytes", 8 << 20);
    let trace = late.build();
    let unlinked = crate::system::System::of(&trace, &tree(&trace), jarvis_trace::Population::All).unwrap();
    let all = findings(&unlinked, &crate::prepared::Utilization { total_time_ms: 2.02, ..utilization(&b) }, None);
    let told: Vec<&String> = all.iter().flat_map(|f| &f.paths.algorithmic).collect();
    assert!(told.iter().any(|t| t.contains("copies")) && told.iter().all(|t| !t.contains("launched by")), "{told:?}");
    // Small ones cost the wait for them, not the copy.
    assert_eq!(names(&found(&copying(4096, 5.0, "Pageable"))), ["host_sync"]);
}

#[test]
fn copies_as_fast_as_the_link_can_only_be_fewer() {
    // Four steps of a pinned copy on a stream of its own, 1000 us, beside 400 us of kernels: nothing hides the rest.
    //
    // host  |copy||op||op|..           |copy||op|..
    // GPU   stream 9 |-- memcpy -------------||-- memcpy --
    //       stream 7    |k||k|..              |k||k|..
    let mut host = Host::default();
    for i in 0..4 {
        let start = f64::from(i) * 1000.0 + 20.0;
        host.now = host.now.max(start - 20.0);
        host.b.cpu_op("aten::to", host.now, 10.0);
        host.b.launch("cudaMemcpyAsync", host.now + 2.0, 5.0, 1000 + i64::from(i));
        let name = "Memcpy HtoD (Pinned -> Device)";
        host.b.gpu("gpu_memcpy", name, start, 1000.0, 1000 + i64::from(i), 9).arg("bytes", 25 << 20);
        host.now += 10.0;
        for _ in 0..8 {
            host.op("aten::mm", 20.0, 50.0);
        }
    }
    let all = found(&host.b);
    assert_eq!(names(&all), ["blocking_copies"]);
    let f = &all[0];
    assert!(f.impact.saved_ms.high < 0.05, "the link is busy all the time: {:?}", f.impact);
    assert!(f.paths.algorithmic[0].contains("copy less") && !f.paths.algorithmic[0].contains("pin_memory"));
}

#[test]
fn copies_both_ways_at_once_take_the_window_once() {
    // Two steps of pinned copies on streams of their own, 2000 us, at the same time, then 2000 us of kernels.
    //
    // GPU   stream 9  |-- HtoD --|            |-- HtoD --|
    //       stream 11 |-- DtoH --|            |-- DtoH --|
    //       stream 7             |k||k||k||k|            |k||k||k||k|
    let mut host = Host::default();
    for step in 0..2_i32 {
        let start = f64::from(step) * 4000.0 + 40.0;
        host.now = host.now.max(start - 40.0);
        for (way, (name, stream)) in
            [("Memcpy HtoD (Pinned -> Device)", 9), ("Memcpy DtoH (Device -> Pinned)", 11)].into_iter().enumerate()
        {
            let id = 1000 + 2 * i64::from(step) + way as i64;
            host.b.cpu_op("aten::copy_", host.now, 10.0);
            host.b.launch("cudaMemcpyAsync", host.now + 2.0, 5.0, id);
            host.b.gpu("gpu_memcpy", name, start, 2000.0, id, stream).arg("bytes", 100 << 20);
            host.now += 12.0;
        }
        host.now = start + 1990.0;
        for _ in 0..4 {
            host.op("aten::mm", 20.0, 500.0);
        }
    }
    let all = found(&host.b);
    let f = all.iter().find(|f| f.pattern == PatternId::BLOCKING_COPIES).unwrap();
    assert!((f.time_ms - 4.0).abs() < 0.1 && f.percent_of_total < 60.0, "{} {}", f.time_ms, f.percent_of_total);
    assert!(f.issue.contains("3.99 ms of both ways at once count once"), "{}", f.issue);
    // They are asynchronous already.
    assert!(
        f.paths.algorithmic.iter().all(|t| t.contains("copy less") && !t.contains("non_blocking")),
        "{:?}",
        f.paths
    );
    let system = system(&host.b);
    let told = crate::system::multi_kernel::MultiKernelMetrics::of(&system, &utilization(&host.b)).memcpy_assessment;
    assert!((told.total_time_ms.0 - 4.0).abs() < 0.1 && told.percent_of_total.0 < 60.0, "{told:?}");
}

/// A gradient exchange beside some computation.
//
// stream 7   |-- mm 0..1000 ------|
// stream 9        |-- nccl 600..600+us ---------|
fn exchange(us: f64) -> TraceBuilder {
    exchange_of("BFloat16", us)
}

fn exchange_of(dtype: &str, us: f64) -> TraceBuilder {
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
    b.launch("cudaLaunchKernel", -5.0, 5.0, 2);
    b.kernel("mm", 0.0, 1000.0, 1);
    b.gpu("kernel", "ncclDevKernel_AllReduce_Sum_bf16", 600.0, us, 2, 9)
        .arg("Collective name", "allreduce")
        .arg("Group size", 8)
        .arg("dtype", dtype)
        .arg("In msg nelems", 1_048_576);
    b
}

#[test]
fn recomputed_forward_work_is_found() {
    // |-- checkpoint.py(1): recompute_fn --|
    //   |-- aten::mm --|
    //        |launch|
    let mut host = steps(20.0, 50.0);
    let at = host.now;
    host.b.python("torch/utils/checkpoint.py(1): recompute_fn", at, 1000.0);
    for _ in 0..10 {
        host.op("aten::mm", 20.0, 50.0);
    }
    let all = found_in_program(&host.b);
    assert_eq!(names(&all), ["recomputation"]);
    let f = &all[0];
    assert_eq!(f.priority, Priority::Medium);
    assert!((f.time_ms - 0.5).abs() < 1e-9);
    assert!(f.impact.saved_ms.high > 0.45 && f.impact.saved_ms.low > 0.1, "{:?}", f.impact);
    assert_eq!(names(&found(&host.b)), [""; 0]);
}

#[test]
fn checkpointing_costs_a_host_that_is_the_limit_more_than_the_repeated_work() {
    let basis = |op_us: f64, kernel_us: f64| {
        let mut host = steps(op_us, kernel_us);
        host.b.python("torch/utils/checkpoint.py(1): recompute_fn", host.now, 40.0 * op_us);
        for _ in 0..10 {
            host.op("aten::mm", op_us, kernel_us);
        }
        let all = found_in_program(&host.b);
        let found = all.into_iter().find(|f| f.pattern == PatternId::RECOMPUTATION).unwrap();
        let window = system(&host.b).gaps.window.as_ms();
        assert!(found.impact.saved_ms.high < window, "{:?}", found.impact);
        (found.impact.basis, found.impact.saved_ms.high / window)
    };
    let (gpu, of_gpu) = basis(20.0, 50.0);
    assert!(gpu.contains("high a tenth more"), "{gpu}");
    let (host, of_host) = basis(50.0, 2.0);
    assert!(host.contains("high as much again"), "{host}");
    assert!(of_host > 1.5 * of_gpu, "{of_gpu} and {of_host}");
}

#[test]
fn late_launches_of_the_optimizer_name_it() {
    // host  |-- Optimizer.step ----------------------|
    //        |op||op||op| ... each launches a tiny kernel
    let mut host = steps(50.0, 2.0);
    host.b.annotation("Optimizer.step#Adam.step", -10.0, host.now + 100.0);
    let all = found(&host.b);
    assert_eq!(names(&all), ["launch_bound"]);
    assert_eq!(all[0].priority, Priority::High, "the optimizer's own finding is more exact");
    assert!(all[0].paths.algorithmic[0].contains("`fused=True`"));
}

#[test]
fn ranges_are_never_too_wide_to_use() {
    // 99 % idle: issuing each step at once would give some 40x.
    let all = found(&steps(500.0, 2.0).b);
    let speedup = all[0].impact.speedup;
    assert!(speedup.high / speedup.low <= WIDEST + 1e-9, "{speedup:?}");
    assert!((speedup.low - 1.8).abs() < 0.05, "{speedup:?}");
}

/// Keys of an object.
fn keys(value: &serde_json::Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

#[test]
fn the_idle_file_has_its_fields() {
    let b = reads(50.0, 5.0, 4).b;
    let metrics = CpuIdleMetrics::of(&system(&b), &utilization(&b));
    assert_eq!(metrics.severity, Severity::Critical);
    let json = serde_json::to_value(&metrics).unwrap();
    let fields = [
        "gap_analysis",
        "gpu_utilization",
        "idle_flagged",
        "impact_estimates",
        "kernel_analysis",
        "patterns_detected",
        "potential_speedup",
        "severity",
        "status",
        "sync",
        "target_idle_percent",
    ];
    assert_eq!(keys(&json), fields);
    assert_eq!(json["severity"], "CRITICAL");
    let gaps = &json["gap_analysis"];
    assert_eq!(keys(gaps), ["by_class", "by_host_activity", "edge_gap_ms", "gap_count", "histogram", "top_gaps"]);
    assert_eq!(keys(&gaps["by_class"][0]), ["class", "count", "percent_of_idle", "time_ms"]);
    assert_eq!(gaps["top_gaps"][0]["rank"], 1);
    assert_eq!(json["sync"]["by_name"]["cudaStreamSynchronize"]["count"], 8);
    assert_eq!(json["target_idle_percent"], 20.0);
    let patterns: Vec<&str> = metrics.patterns_detected.iter().map(|p| p.name).collect();
    assert_eq!(patterns, ["launch_overhead", "small_kernels", "synchronization", "host_work"]);
    assert_eq!(json["impact_estimates"], serde_json::json!([]));
    let shares: f64 = metrics.gap_analysis.by_class.iter().map(|c| c.percent_of_idle.0).sum();
    assert!((shares - 100.0).abs() < 1e-9);
}

#[test]
fn the_multi_kernel_files_have_their_fields() {
    let mut b = exchange(1000.0);
    b.launch("cudaMemcpyAsync", -3.0, 2.0, 3);
    b.gpu("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 1600.0, 400.0, 3, 11).arg("bytes", 1024);
    let (s, u) = (system(&b), utilization(&b));
    let data = serde_json::to_value(MultiKernelData::of(&s)).unwrap();
    assert_eq!(keys(&data), ["memcpy_summary", "nccl_summary", "overlap_analysis"]);
    let copies = &data["memcpy_summary"]["by_direction"]["D2H"];
    let fields = [
        "avg_bytes",
        "avg_time_us",
        "count",
        "exposed_time_us",
        "max_time_us",
        "sync_like_count",
        "total_bytes",
        "total_time_us",
    ];
    assert_eq!(keys(copies), fields);
    assert_eq!((&copies["exposed_time_us"], &copies["total_bytes"]), (&400.0.into(), &1024.into()));
    let collective = &data["nccl_summary"]["by_collective"][0];
    let fields = ["collective", "count", "dtype", "exposed_time_us", "group_size", "message_bytes", "total_time_us"];
    assert_eq!(keys(collective), fields);
    assert_eq!(collective["message_bytes"], 2_097_152);
    assert_eq!(data["overlap_analysis"]["comm_overlap_ratio"], 0.4);
    let metrics = serde_json::to_value(MultiKernelMetrics::of(&s, &u)).unwrap();
    let fields = [
        "cross_validation",
        "impact_estimates",
        "memcpy_assessment",
        "memcpy_summary",
        "nccl_blocking_assessment",
        "nccl_summary",
        "overlap_analysis",
        "overlap_assessment",
        "patterns_detected",
        "status",
        "total_time_ms",
    ];
    assert_eq!(keys(&metrics), fields);
    assert_eq!(metrics["overlap_analysis"]["exposed_comm_time_ms"], 0.6);
    assert_eq!(metrics["memcpy_assessment"]["issues"][0]["severity"], "CRITICAL");
    assert_eq!(metrics["status"], "OK");
    let none = serde_json::to_value(MultiKernelMetrics::of(&system(&steps(20.0, 50.0).b), &u)).unwrap();
    assert_eq!(none["status"], "NO_DATA");
}

#[test]
fn texts_keep_to_neutral_words() {
    let mut all = found(&reads(50.0, 5.0, 4).b);
    all.extend(found(&copying(8 << 20, 2000.0, "Pageable")));
    all.extend(found(&exchange(1000.0)));
    for f in all {
        let facts = f.evidence.iter().map(|e| &e.fact);
        let prose = [&f.title, &f.issue, &f.impact.basis].into_iter().chain(&f.paths.algorithmic).chain(facts);
        let text: String = prose.flat_map(|p| p.split('`').step_by(2)).collect();
        for word in
            ["CUDA", "cuda", "HIP", "NCCL", "nccl", "straggler", "guaranteed", "probably", "likely", "root cause"]
        {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}

use jarvis_trace::{Ns, Population, TraceBuilder};
use proptest::prelude::*;

use super::*;
use crate::system::System;
use crate::system::cpu_idle::CpuIdleMetrics;
use crate::system::fixture::{system, timeline, tree, utilization};

/// The classes of all gaps, in order.
fn classes(b: &TraceBuilder) -> Vec<&'static str> {
    system(b).gaps.gaps.iter().map(|g| g.class.as_str()).collect()
}

/// Two kernels with a gap of 100 µs from 100 to 200, the second launched at 190; the host does what `host` adds.
//
// host                    ..................... |launch 190|
// GPU      |-- a 0..100 --|                           |-- b 200..300 --|
fn late(host: impl FnOnce(&mut TraceBuilder)) -> Vec<&'static str> {
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
    b.kernel("a", 0.0, 100.0, 1);
    host(&mut b);
    b.launch("cudaLaunchKernel", 190.0, 5.0, 2);
    b.kernel("b", 200.0, 100.0, 2);
    classes(&b)
}

#[test]
fn a_launch_that_was_there_is_the_queues_or_the_devices() {
    // host    |launch 50|
    // GPU     |-- a 0..100 --|   |-- b --|      9.999 µs: queue, 10 µs: device
    let of = |gap: f64| {
        let mut b = TraceBuilder::new();
        b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
        b.launch("cudaLaunchKernel", 50.0, 5.0, 2);
        b.kernel("a", 0.0, 100.0, 1);
        b.kernel("b", 100.0 + gap, 100.0, 2);
        classes(&b)
    };
    assert_eq!(of(9.999), ["launch_queue"]);
    assert_eq!(of(10.0), ["device_wait"]);
    assert_eq!(of(0.0), [""; 0]);
}

#[test]
fn a_busy_thread_is_work_and_an_unrecorded_one_idle() {
    // host                    |-- op 140..189 --| |launch 190|      49 of 90 µs are covered
    // GPU      |-- a 0..100 --|                           |-- b 200..300 --|
    assert_eq!(
        late(|b| {
            b.cpu_op("aten::add", 140.0, 49.0);
        }),
        ["host_work"]
    );
    // 45 of 90 µs is not more than half.
    assert_eq!(
        late(|b| {
            b.cpu_op("aten::add", 140.0, 45.0);
        }),
        ["host_idle"]
    );
    assert_eq!(late(|_| ()), ["host_idle"]);
    // A frame that contains the launch covers the gap as well.
    assert_eq!(
        late(|b| {
            b.python("train.py(1): step", 50.0, 400.0);
        }),
        ["host_work"]
    );
}

#[test]
fn a_wait_that_drained_the_queue_is_charged() {
    // host     |launch -100|  |-- wait ... 96 --| |op| |launch 190|      it may end 5 µs before the gap
    // GPU      |-- a 0..100 --|                           |-- b 200..300 --|
    let wait = |end: f64| {
        late(move |b| {
            b.runtime("cudaStreamSynchronize", 10.0, end - 10.0);
            b.cpu_op("aten::add", 101.0, 88.0);
        })
    };
    assert_eq!(wait(95.0), ["host_sync"]);
    assert_eq!(wait(94.999), ["host_work"]);
    assert_eq!(wait(190.0), ["host_sync"]);
    assert_eq!(wait(190.001), ["host_work"], "still waiting when the launch came: another thread's");
}

#[test]
fn a_wait_on_another_thread_is_not_charged() {
    // thread 1               |-- op 101..189 --| |launch 190|
    // thread 2    |-- wait 10..150 ---|
    // GPU      |-- a 0..100 --|                           |-- b 200..300 --|
    let found = late(|b| {
        b.runtime("cudaStreamSynchronize", 10.0, 140.0).on(1, 2);
        b.cpu_op("aten::add", 101.0, 88.0);
    });
    assert_eq!(found, ["host_work"]);
}

#[test]
fn waits_at_the_edge_of_a_step_are_expected() {
    // steps    |-- ProfilerStep#1 -20..150 -----------| |-- ProfilerStep#2 151..400 --|
    // host        |-- wait 10..105 --|                     |launch 190|
    // GPU      |-- a 0..100 --|                                |-- b 200..300 --|
    let stepped = |first_step_ends: f64| {
        late(move |b| {
            b.annotation("ProfilerStep#1", -20.0, first_step_ends + 20.0);
            b.annotation("ProfilerStep#2", first_step_ends + 1.0, 400.0);
            b.runtime("cudaDeviceSynchronize", 10.0, 95.0);
        })
    };
    assert_eq!(stepped(150.0), ["step_sync"]);
    assert_eq!(stepped(192.0), ["host_sync"], "the same step goes on launching after the wait");
}

#[test]
fn without_steps_a_device_synchronization_tells_them_apart_unless_there_are_many() {
    // host     |l0||l1|..|l9||-- wait --| |l10|..      ten launches for each wait: steps; fewer: host_sync
    // GPU        |k0||k1|..|k9|             |k10|..
    let of = |launches: i64| {
        let mut b = TraceBuilder::new();
        for i in 0..launches {
            b.launch("cudaLaunchKernel", i as f64, 0.5, i);
            b.kernel("k", 10.0 + i as f64, 1.0, i);
        }
        let end = 10.0 + launches as f64;
        b.runtime("cudaDeviceSynchronize", 30.0, end + 1.0 - 30.0);
        b.launch("cudaLaunchKernel", end + 100.0, 0.5, 100);
        b.kernel("last", end + 110.0, 1.0, 100);
        b.launch("cudaLaunchKernel", end + 100.5, 0.5, 101);
        b.kernel("last", end + 111.0, 1.0, 101);
        classes(&b)
    };
    assert_eq!(of(30), ["step_sync"]);
    assert_eq!(of(7), ["host_sync"]);
}

#[test]
fn memory_calls_have_to_cover_most_of_the_gap() {
    // host               |-- cudaMalloc 120..166 --| |launch 190|      46 of 90 µs
    // GPU      |-- a 0..100 --|                            |-- b 200..300 --|
    assert_eq!(
        late(|b| {
            b.runtime("cudaMalloc", 120.0, 46.0);
        }),
        ["host_alloc"]
    );
    let half = late(|b| {
        b.cpu_op("aten::empty", 110.0, 79.0);
        b.runtime("cudaMalloc", 120.0, 45.0);
    });
    assert_eq!(half, ["host_work"]);
    // Several calls count together, wherever they nest.
    let several = late(|b| {
        b.cpu_op("aten::empty", 110.0, 30.0);
        b.runtime("hipMalloc", 112.0, 25.0);
        b.cpu_op("aten::empty", 145.0, 30.0);
        b.runtime("hipFree", 147.0, 25.0);
    });
    assert_eq!(several, ["host_alloc"]);
}

#[test]
fn input_is_found_in_frames_and_annotations_also_after_a_step() {
    // host               |-- dataloader.py(7): __next__ 110..180 --| |launch 190|
    // GPU      |-- a 0..100 --|                                            |-- b 200..300 --|
    let frame = |dur: f64| {
        late(move |b| {
            b.python("torch/utils/data/dataloader.py(7): __next__", 110.0, dur);
        })
    };
    assert_eq!(frame(46.0), ["host_data"]);
    assert_eq!(frame(45.0), ["host_idle"]);
    let annotated = late(|b| {
        b.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 110.0, 70.0);
    });
    assert_eq!(annotated, ["host_data"]);
    // The wait at the end of the step is over when the loader runs.
    let after_a_step = |loader: f64| {
        late(move |b| {
            b.annotation("ProfilerStep#1", -20.0, 130.0);
            b.runtime("cudaDeviceSynchronize", 10.0, 95.0);
            b.python("my_collate.py(3): collate_fn", 188.0 - loader, loader);
        })
    };
    assert_eq!(after_a_step(46.0), ["host_data"]);
    assert_eq!(after_a_step(40.0), ["step_sync"]);
}

#[test]
fn a_launch_that_was_not_recorded_explains_nothing() {
    // GPU      |-- a 0..100 --|   |-- b 200..300 --|      b without a launch
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
    b.kernel("a", 0.0, 100.0, 1);
    b.event('X', "kernel", "b", 200.0, 100.0);
    let trace = b.build();
    let tree = tree(&trace);
    let of = |population| System::of(&trace, &tree, population).unwrap().gaps;
    assert_eq!(of(Population::All).gaps.iter().map(|g| g.class).collect::<Vec<_>>(), [GapClass::Unlinked]);
    assert_eq!(of(Population::Linked).gaps.len(), 0);
}

#[test]
fn a_stray_first_event_makes_an_edge() {
    // GPU   |stray|                        |k||k||k||k| ...      the gap is a fifth of the window or more
    let of = |start: f64, events: i64| {
        let mut b = TraceBuilder::new();
        b.launch("cudaLaunchKernel", -10.0, 1.0, 0);
        b.kernel("stray", 0.0, 1.0, 0);
        for i in 1..events {
            b.launch("cudaLaunchKernel", start - 20.0, 1.0, i);
            b.kernel("k", start + 10.0 * i as f64, 10.0, i);
        }
        let gaps = system(&b).gaps;
        (gaps.gaps[0].class, gaps.idle_without_edges_percent())
    };
    // From 1 to 1010 of 1110 µs.
    assert_eq!(of(1000.0, 11), (GapClass::Edge, 0.0));
    // From 1 to 30 of 150 µs: just 19.3 %.
    assert_eq!(of(20.0, 13).0, GapClass::DeviceWait);
    assert_ne!(of(1000.0, 9).0, GapClass::Edge, "too few events to call one stray");
}

#[test]
fn the_deepest_caller_that_covers_half_is_named() {
    // host     |-- step ---------------------------------------------------------|
    //                         |-- aten::linear 105..189 ----------------|
    //                             |-- aten::addmm 110..160 --||-- t --|
    //                                                                    |launch 190|
    // GPU      |-- a 0..100 --|                                                |-- b 200..300 --|
    let mut b = TraceBuilder::new();
    b.python("train.py(1): step", -50.0, 500.0);
    b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
    b.cpu_op("aten::linear", 105.0, 84.0);
    b.cpu_op("aten::addmm", 110.0, 50.0);
    b.cpu_op("aten::t", 160.0, 20.0);
    b.launch("cudaLaunchKernel", 190.0, 5.0, 2);
    b.kernel("a", 0.0, 100.0, 1);
    b.kernel("b", 200.0, 100.0, 2);
    let gaps = system(&b).gaps;
    let activity = &gaps.activities[gaps.gaps[0].activity().unwrap()];
    assert_eq!((&*activity.name, activity.tally), ("aten::addmm", Tally { count: 1, time: Ns(100_000) }));
    assert_eq!(gaps.longest[0].host_activity.as_deref(), Some("aten::addmm"));
    assert_eq!((activity.covered.time, gaps.longest[0].is_doing), (Ns(50_000), true));
    assert_eq!((&*gaps.longest[0].before_kernel, &*gaps.longest[0].after_kernel), ("a", "b"));
    assert_eq!(gaps.histogram.map(|t| t.count), [0, 0, 0, 1, 0], "100 µs are not less than 100");
}

#[test]
fn an_operation_that_only_touches_a_gap_is_not_what_the_host_does() {
    // host     |launch -10| |-- aten::batch_norm 90..110 --|                       |launch 190|
    // GPU      |-- a 0..100 --|                                                          |-- b 200..300 --|
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
    b.cpu_op("aten::batch_norm", 90.0, 20.0);
    b.launch("cudaLaunchKernel", 190.0, 5.0, 2);
    b.kernel("a", 0.0, 100.0, 1);
    b.kernel("b", 200.0, 100.0, 2);
    let gaps = system(&b).gaps;
    assert_eq!(gaps.gaps[0].class, GapClass::HostIdle);
    // The field names the outermost operation; only ten of the hundred microseconds are its.
    let activity = &gaps.activities[gaps.gaps[0].activity().unwrap()];
    assert_eq!((&*activity.name, activity.tally.time), ("aten::batch_norm", Ns(100_000)));
    assert_eq!(activity.covered, Tally { count: 1, time: Ns(10_000) });
    assert_eq!((gaps.gaps[0].doing(), gaps.longest[0].is_doing), (None, false));
}

#[test]
fn work_handed_to_another_thread_keeps_the_first_one_busy() {
    // thread 1  |launch -10|  |-- backward() 90..180 --|
    // thread 2                                          |launch 190|
    // GPU      |-- a 0..100 --|                               |-- b 200..300 --|
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
    b.cpu_op("aten::backward", 90.0, 90.0);
    b.launch("cudaLaunchKernel", 190.0, 5.0, 2).on(1, 2);
    b.kernel("a", 0.0, 100.0, 1);
    b.kernel("b", 200.0, 100.0, 2);
    assert_eq!(classes(&b), ["host_work"]);
}

#[test]
fn reads_name_the_operation_and_its_caller() {
    // host  |-- train.py(9): loop ------------------------------------------------------|
    //                |-- aten::item 60..120 -------------|
    //                  |-- aten::_local_scalar_dense --|      |-- op 130..189 --| |launch 190|
    //                      |-- wait 80..110 --|
    let mut b = TraceBuilder::new();
    b.python("train.py(9): loop", -50.0, 500.0);
    b.python("<built-in method item>", 55.0, 70.0);
    b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
    b.cpu_op("aten::item", 60.0, 60.0);
    b.cpu_op("aten::_local_scalar_dense", 62.0, 55.0);
    b.runtime("cudaStreamSynchronize", 80.0, 30.0);
    b.cpu_op("aten::add", 130.0, 59.0);
    b.launch("cudaLaunchKernel", 190.0, 5.0, 2);
    b.kernel("a", 0.0, 100.0, 1);
    b.kernel("b", 200.0, 100.0, 2);
    let gaps = system(&b).gaps;
    assert_eq!(gaps.gaps[0].class, GapClass::HostSync);
    let operation = &gaps.waiting_operations[0];
    assert_eq!((&*operation.name, operation.caller.as_deref()), ("aten::item", Some("train.py(9): loop")));
    assert_eq!(gaps.waits.iter().map(|w| (&*w.name, w.count)).collect::<Vec<_>>(), [("cudaStreamSynchronize", 1)]);
}

#[test]
fn a_read_without_a_recorded_wait_is_a_wait_itself() {
    let found = |copies: bool| {
        late(|b| {
            b.cpu_op("aten::item", 60.0, 60.0);
            b.cpu_op("aten::_local_scalar_dense", 62.0, 55.0);
            if copies {
                b.runtime("cudaMemcpyAsync", 70.0, 45.0);
            }
            b.cpu_op("aten::add", 130.0, 59.0);
        })
    };
    assert_eq!(found(true), ["host_sync"]);
    // A value that lies on the host, such as the step number of an optimizer, whatever keeps the host from reading it.
    assert_eq!(found(false), ["host_work"]);
}

#[test]
fn the_ten_longest_come_longest_first() {
    let mut b = TraceBuilder::new();
    let mut at = 0.0;
    for i in 0..14i64 {
        b.launch("cudaLaunchKernel", -100.0 + i as f64, 1.0, i);
        b.kernel("k", at, 10.0, i);
        at += 10.0 + ((i * 5) % 14) as f64;
    }
    let gaps = system(&b).gaps;
    let lengths: Vec<i64> = gaps.longest.iter().map(|g| g.length.0 / 1000).collect();
    assert_eq!(lengths, [13, 12, 11, 10, 8, 7, 6, 5, 4, 3], "9 µs would come after the last kernel");
}

/// Whatever is not counted: a viewer's zero is the first thing that it draws.
#[test]
fn positions_count_from_the_first_event_of_the_file() {
    let mut b = TraceBuilder::new();
    b.event('M', "", "thread_name", 0.0, 0.0);
    b.event('s', "ac2g", "ac2g", 500.0, 0.0);
    b.event('i', "", "Iteration Start: PyTorch Profiler", 1000.0, 0.0);
    // Its launch was not recorded: it is no part of the window.
    b.event('X', "kernel", "early", 3000.0, 10.0);
    for (i, start) in [(1, 5000.0), (2, 5040.0), (3, 5200.0)] {
        b.launch("cudaLaunchKernel", start - 20.0, 1.0, i);
        b.kernel("k", start, 10.0, i);
    }
    let gaps = system(&b).gaps;
    let positions: Vec<(i64, i64)> = gaps.longest.iter().map(|g| (g.position.0, g.length.0)).collect();
    assert_eq!(positions, [(4_050_000, 150_000), (4_010_000, 30_000)]);
    let shown = CpuIdleMetrics::of(&system(&b), &utilization(&b)).gap_analysis.top_gaps;
    assert_eq!((shown[0].start_ms.0, shown[1].start_ms.0), (4.05, 4.01));
}

/// A random trace: kernels on some streams with launches before or after, calls of all kinds on two threads.
fn traces() -> impl Strategy<Value = TraceBuilder> {
    let kernel = (0i64..3000, 0i64..60, 0i64..3, -80i64..60, 1i64..3);
    let host = (0i64..3000, 1i64..300, 0usize..9, 1i64..3);
    (prop::collection::vec(kernel, 1..60), prop::collection::vec(host, 0..60)).prop_map(|(kernels, hosts)| {
        let mut b = TraceBuilder::new();
        for (i, (start, dur, stream, lead, thread)) in kernels.into_iter().enumerate() {
            let launch = (start + lead) as f64;
            b.launch("cudaLaunchKernel", launch, 3.0, i as i64).on(1, thread);
            let category = if i % 7 == 3 { "gpu_memcpy" } else { "kernel" };
            let name = if i % 7 == 3 { "Memcpy DtoH (Device -> Pageable)" } else { "k" };
            b.gpu(category, name, start as f64, dur as f64 / 2.0, i as i64, stream).arg("bytes", 100_000);
        }
        for (start, dur, what, thread) in hosts {
            let (start, dur) = (start as f64, dur as f64);
            match what {
                0 => b.runtime("cudaStreamSynchronize", start, dur),
                1 => b.runtime("cudaDeviceSynchronize", start, dur),
                2 => b.runtime("cudaMalloc", start, dur),
                3 => b.python("dataloader.py(1): next", start, dur),
                4 => b.cpu_op("aten::item", start, dur),
                5 => b.annotation("ProfilerStep#1", start, dur),
                6 => b.annotation("Optimizer.step#SGD", start, dur),
                7 => b.python("train.py(3): loop", start, dur),
                _ => b.cpu_op("aten::mul", start, dur),
            }
            .on(1, thread);
        }
        b
    })
}

proptest! {
    #[test]
    fn classes_sum_to_the_idle_time(b in traces()) {
        let trace = b.build();
        let tree = tree(&trace);
        for population in [Population::Linked, Population::All] {
            let gaps = System::of(&trace, &tree, population).unwrap().gaps;
            let timeline = timeline(&trace, &tree, population);
            prop_assert_eq!((gaps.window, gaps.busy, gaps.idle()), (timeline.total, timeline.busy, timeline.idle));
            let sum = |tallies: &[Tally]| tallies.iter().map(|t| t.time).sum::<Ns>();
            prop_assert_eq!(sum(&gaps.by_class), timeline.idle);
            prop_assert_eq!(sum(&gaps.histogram), timeline.idle);
            prop_assert_eq!(gaps.gaps.iter().map(|g| g.length).sum::<Ns>(), timeline.idle);
            prop_assert!(gaps.gaps.iter().all(|g| g.length > Ns(0)));
        }
    }

    #[test]
    fn the_same_trace_gives_the_same_answer(b in traces()) {
        let of = |b: &TraceBuilder| format!("{:?}", system(b));
        prop_assert_eq!(of(&b), of(&b));
    }

    #[test]
    fn an_unchanged_schedule_gives_the_recorded_window(b in traces()) {
        let trace = b.build();
        let tree = tree(&trace);
        for population in [Population::Linked, Population::All] {
            let recording = crate::system::recording::Recording::of(&trace, &tree, population).unwrap();
            let gaps = Gaps::of(&recording);
            let schedule = crate::system::schedule::Schedule::of(&recording, &gaps);
            let [run] = schedule.run(&crate::system::rerun::Scenario::RECORDED, [1.0]);
            prop_assert_eq!(run, schedule.window());
            let ends = recording.gpu.iter().map(|g| g.end).max();
            let first = recording.gpu.first().map(|g| g.start);
            prop_assert_eq!(ends.zip(first).map_or(Ns(0), |(end, start)| end - start), run);
        }
    }

    #[test]
    fn guesses_run_side_by_side_as_they_do_alone(b in traces()) {
        use crate::system::rerun::{Fate, Scenario, Without};
        let trace = b.build();
        let tree = tree(&trace);
        let recording = crate::system::recording::Recording::of(&trace, &tree, Population::All).unwrap();
        let schedule = crate::system::schedule::Schedule::of(&recording, &Gaps::of(&recording));
        let shorter = vec![500; schedule.len()];
        let fates = [Fate::Gone, Fate::Stays, Fate::Merged, Fate::Replaced];
        let fates: Vec<Fate> = fates.into_iter().cycle().take(schedule.len()).collect();
        let recorded = Scenario::RECORDED;
        for scenario in [
            Scenario { graph: true, ..recorded },
            Scenario { without: Without::Reads, host: 0.55, ..recorded },
            Scenario { fates: Some(&fates), shorter: Some(&shorter), left_behind: 0.15, ..recorded },
        ] {
            let alone = [1.0, 1.4, 2.5].map(|guess| schedule.run(&scenario, [guess])[0]);
            prop_assert_eq!(schedule.run(&scenario, [1.0, 1.4, 2.5]), alone);
        }
    }
}

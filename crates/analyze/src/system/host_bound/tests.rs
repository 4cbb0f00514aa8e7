use jarvis_trace::TraceBuilder;

use super::*;
use crate::system::System;
use crate::system::fixture::{Host, system};

/// UIDs of the GPU events of a trace, by start.
fn kernels(b: &TraceBuilder) -> Vec<u32> {
    let trace = b.build();
    let mut found: Vec<_> = trace.events().filter(|&e| trace.kind(e).is_gpu()).collect();
    found.sort_by_key(|&e| trace.ts(e));
    found.into_iter().map(jarvis_trace::EventId::uid).collect()
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6, "{a} is not {b}");
}

/// What is left of a saving of so much.
fn clipped(host: &HostBound, saved_ms: f64, kernels: &[u32]) -> Range {
    host.clip_range(Range::new(saved_ms, saved_ms), kernels)
}

/// Launches 10 µs apart, kernels of 100 µs: the host is ahead.
//
// host  |r1||r2||r3|...
// GPU     |-- k1 -----||-- k2 -----||-- k3 -----| ...
fn host_ahead() -> TraceBuilder {
    let mut host = Host::default();
    for _ in 0..20 {
        host.op("aten::mm", 10.0, 100.0);
    }
    host.b
}

/// Launches 100 µs apart, kernels of 10 µs: the GPU is ahead.
//
// host  |r1|           |r2|           |r3|           ...
// GPU      |k1|           |k2|           |k3|        ...
fn gpu_ahead() -> TraceBuilder {
    let mut host = Host::default();
    for _ in 0..20 {
        host.op("aten::mm", 100.0, 10.0);
    }
    host.b
}

#[test]
fn what_the_host_is_ahead_of_is_saved_in_full() {
    let b = host_ahead();
    let host = system(&b).host;
    assert_eq!(host.limit, Limit::Gpu);
    assert_eq!(host.note(), None);
    let kernels = kernels(&b);
    let saved = clipped(&host, 0.5, &kernels[5..15]);
    close(saved.low, 0.5);
    close(saved.high, 0.5);
}

#[test]
fn a_queue_from_before_the_window_does_not_hide_the_host() {
    // host  |r1||r2| .. |r20|                          launched 40 µs apart, while the GPU was busy with earlier work
    // GPU                      |-- k1 --||-- k2 --| .. 100 µs each
    let mut host = Host::default();
    host.gpu = 5_000.0;
    for _ in 0..20 {
        host.op("aten::mm", 40.0, 100.0);
    }
    let kernels = kernels(&host.b);
    let host = system(&host.b).host;
    assert_eq!(host.limit, Limit::Gpu);
    let window = host.window().ms();
    close(window, 2.019);
    // Without that queue the host needs 19 times 40 µs, however short the kernels are: less without the profiler, by a
    // factor of 1.3 to 2.3.
    let saved = clipped(&host, 1.9, &kernels);
    assert!((saved.low - (window - 0.760 / 1.3)).abs() < 1e-5, "{saved:?}");
    assert!((saved.high - (window - 0.760 / 2.3)).abs() < 1e-5, "{saved:?}");
    // What does not reach that arrives in full.
    close(clipped(&host, 0.5, &kernels).low, 0.5);
}

/// Two steps of operations that take the host this long, kernels of 100 µs; the first launches are late, and with
/// `waits` each step ends with a wait.
fn late_start(host_us: f64, waits: bool) -> System {
    late_start_on(host_us, waits, 0.0)
}

/// The same on a device that waits this long before each kernel.
fn late_start_on(host_us: f64, waits: bool, device_us: f64) -> System {
    let mut host = Host::default();
    for number in 0..2 {
        let start = host.now;
        for i in 0..20 {
            let late = if number == 0 && i < 3 { 300.0 } else { 0.0 };
            host.gpu += device_us;
            host.op("aten::mm", host_us + late, 100.0);
        }
        if waits {
            host.end_step(number, start);
        } else {
            host.b.annotation(&format!("ProfilerStep#{number}"), start, host.now - start);
        }
    }
    system(&host.b)
}

#[test]
fn a_host_that_comes_to_be_ahead_is_no_limit() {
    // host  |r1|       |r2|       |r3|       |r4||r5||r6||r7| ..
    // GPU      |-- k1 --|  |-- k2 --|  |-- k3 --||-- k4 --||-- k5 --| ..
    let settled = late_start(30.0, false).host;
    assert_eq!((settled.limit, settled.has_settled()), (Limit::Gpu, true));
    // Forty kernels and the pauses between them: what the GPU waited for at the beginning does not come again.
    let window = settled.unprofiled_window().ms();
    assert!(window > 4.0 && window < 4.06, "{window}");
    let saved = settled.unprofiled(Range::new(1.0, 1.0));
    close(saved.low, settled.window().ms() / window);
    // What the device waits for comes again.
    let waiting = late_start_on(30.0, false, 50.0).host.unprofiled_window().ms();
    assert!(waiting > window + 1.7 && waiting < window + 2.0, "{waiting}");
    // It would come again in each step that waits, and the host is never ahead if it takes longer than the kernels.
    assert!(!late_start(30.0, true).host.has_settled());
    let slow = late_start(300.0, false).host;
    assert_eq!((slow.limit, slow.has_settled()), (Limit::Host, false));
}

#[test]
fn a_full_queue_is_no_work_of_the_host() {
    // host  |r1||r2||r3      ||r4      ||r5      | ..   the third launch returns when the first kernel has ended, and so on
    // GPU     |-- k1 ---||-- k2 ---||-- k3 ---| ..
    let mut host = Host::default();
    for i in 0..20 {
        let start = host.now;
        let end = if i < 2 { start + 20.0 } else { 8.0 + 501.0 * f64::from(i - 1) };
        host.b.cpu_op("aten::mm", start, end + 1.0 - start);
        host.launch_taking(end - start - 1.0, start + 1.0, "kernel", "k", 500.0);
        host.now = end + 2.0;
    }
    let kernels = kernels(&host.b);
    let host = system(&host.b).host;
    assert_eq!(host.limit, Limit::Gpu);
    let window = host.window().ms();
    // All of nine tenths of the kernels' time arrives: with shorter ones there is room sooner.
    let saved = clipped(&host, 9.0, &kernels);
    assert!(saved.low > 8.9 && saved.low < window, "{saved:?} of {window}");
}

#[test]
fn what_the_gpu_is_ahead_of_saves_nothing() {
    let b = gpu_ahead();
    let host = system(&b).host;
    assert_eq!(host.limit, Limit::Host);
    assert!(host.note().unwrap().contains("saves nothing"));
    let kernels = kernels(&b);
    // The last kernel ends the window, so what it saves counts; the others hide under their launch gaps.
    let saved = clipped(&host, 0.095, &kernels[..19]);
    close(saved.low, 0.0);
    close(saved.high, 0.0);
    let last = clipped(&host, 0.005, &kernels[19..]);
    close(last.low, 0.005);
}

#[test]
fn a_saving_is_cut_where_the_next_launch_comes() {
    // host  |r1|                    |r2 at 60|
    // GPU     |-- k1 8..108 -----------------||-- k2 109..119 --|
    //         |-- k1 8..28 --|               |-- k2 68..78 --|      80 µs off k1 bring 41 µs, if the host is as recorded
    let mut host = Host::default();
    host.launch(0.0, "kernel", "k1", 100.0);
    host.launch(60.0, "kernel", "k2", 10.0);
    let kernels = kernels(&host.b);
    let saved = clipped(&system(&host.b).host, 0.080, &kernels[..1]);
    // Without the profiler it is 1.3 times faster at least and launches at 46 µs: 14 µs less to wait for.
    assert!((saved.low - 0.0548).abs() < 1e-4, "{saved:?}");
    // At most it is 2.3 times faster: 34 µs less.
    assert!((saved.high - 0.0749).abs() < 1e-4, "{saved:?}");
}

#[test]
fn savings_are_never_more_than_asked_for_or_there() {
    let b = host_ahead();
    let host = system(&b).host;
    let kernels = kernels(&b);
    assert!(clipped(&host, 10.0, &kernels).high <= 2.1, "the window is 2.1 ms");
    assert_eq!(clipped(&host, 0.0, &kernels), Range::new(0.0, 0.0));
    assert_eq!(clipped(&host, 1.0, &[]), Range::new(0.0, 0.0));
    assert_eq!(clipped(&host, 1.0, &[u32::MAX]), Range::new(0.0, 0.0));
    let range = host.clip_range(Range::new(0.2, 0.4), &kernels);
    close(range.low, 0.2);
    close(range.high, 0.4);
}

#[test]
fn launches_that_vanish_give_their_host_time_back() {
    // host  |r1|           |r2|           |r3|        every second operation is dropped: half of the host time goes
    let b = gpu_ahead();
    let kernels = kernels(&b);
    let odd: Vec<u32> = kernels.iter().copied().skip(1).step_by(2).collect();
    let saved = system(&b).host.clip_removal(&odd);
    assert!(saved.high > 0.9 && saved.high < 1.1, "ten operations of 100 µs: {saved:?}");
    assert!(saved.low > 0.9, "the same share of a faster host's time: {saved:?}");
    // Where the host is ahead they give their GPU time back.
    let b = host_ahead();
    let kernels = self::kernels(&b);
    let saved = system(&b).host.clip_removal(&kernels[5..10]);
    close(saved.low, 0.505);
}

#[test]
fn waits_for_launches_that_vanish_go_with_them() {
    // host  |op|..|op||item  wait|..|op|..      nothing is left of a read whose copy is not launched
    let mut host = Host::default();
    for _ in 0..10 {
        host.op("aten::mm", 100.0, 10.0);
        host.item();
    }
    host.op("aten::mm", 100.0, 10.0);
    let trace = host.b.build();
    let copies: Vec<u32> =
        trace.events().filter(|&e| trace.name(e).starts_with("Memcpy")).map(jarvis_trace::EventId::uid).collect();
    let saved = system(&host.b).host.clip_removal(&copies);
    // Ten reads of some 30 µs each on the host.
    assert!(saved.low > 0.2 && saved.high < 0.4, "{saved:?}");
}

#[test]
fn fused_kernels_save_their_launches_where_the_host_is_slow() {
    // host  |r1|     |r2|     |r3|     |r4| ...      four operations become one of 20 µs
    let b = gpu_ahead();
    let kernels = kernels(&b);
    let replacement = |kernels: &[u32], ms: f64, launches| {
        let ms = Range::new(ms, ms);
        Replacement { kernels: kernels.to_vec(), ms, launches, call_us: (0.0, 0.0), replaced: Replaced::Region }
    };
    let groups: Vec<Replacement> = kernels.chunks(4).map(|group| replacement(group, 0.020, (1, 1))).collect();
    let saved = system(&b).host.clip_fusion(&groups);
    assert!(saved.high > 1.4 && saved.high < 1.6, "15 of 20 operations go: {saved:?}");
    assert!(saved.low > 0.8 * 1.4 && saved.low < 0.9 * 1.6, "a call in their place takes time too: {saved:?}");
    let groups: Vec<Replacement> = kernels.chunks(4).map(|group| replacement(group, 0.020, (2, 2))).collect();
    let saved = system(&b).host.clip_fusion(&groups);
    assert!(saved.high > 0.9 && saved.high < 1.1, "10 of 20 operations go: {saved:?}");
    let costly: Vec<Replacement> = groups.into_iter().map(|g| Replacement { call_us: (0.0, 500.0), ..g }).collect();
    close(system(&b).host.clip_fusion(&costly).low, 0.0);
    // Where the GPU is, they save its time: 400 µs become 150, and three gaps of 1 µs go too.
    let b = host_ahead();
    let kernels = self::kernels(&b);
    let saved = system(&b).host.clip_fusion(&[replacement(&kernels[4..8], 0.150, (1, 1))]);
    close(saved.low, 0.253);
}

#[test]
fn a_call_in_the_place_of_a_loop_takes_no_longer_than_one_of_its_calls() {
    // host  |op|.......|op|op|op|op|        what comes before the first call is the end of the loop before
    let mut host = Host::default();
    for _ in 0..4 {
        host.now += 400.0;
        for _ in 0..8 {
            host.op("aten::mm", 50.0, 2.0);
        }
    }
    let kernels = kernels(&host.b);
    let of = |replaced| {
        let ms = Range::new(0.002, 0.002);
        let one = |kernels: &[u32]| Replacement {
            kernels: kernels.to_vec(),
            ms,
            launches: (1, 1),
            call_us: (0.0, 0.0),
            replaced,
        };
        system(&host.b).host.clip_fusion(&kernels.chunks(8).map(one).collect::<Vec<_>>())
    };
    let (loops, experts) = (of(Replaced::Loop), of(Replaced::Experts));
    let (region, parameters) = (of(Replaced::Region), of(Replaced::Parameters));
    close(region.low, parameters.low);
    assert!(parameters.high > 1.03 * region.high, "the profiler may have slowed it less: {region:?} {parameters:?}");
    close(loops.low, experts.low);
    // Three pauses of 400 µs between four loops: as many calls are left, of 50 µs each and less without the profiler.
    let window = system(&host.b).host.window().ms();
    assert!(window - experts.high > 1.0 && window - loops.high < 0.2, "{experts:?} {loops:?} of {window}");
}

#[test]
fn kernels_on_the_heels_of_others_move_with_them() {
    // GPU  |-- k1 --------|      |-- k3 --------|
    //                   |-- k2 --|            |-- k4 --|        starts before the one before it has ended
    let mut host = Host::default();
    for _ in 0..10 {
        host.op("aten::mm", 10.0, 100.0);
        host.gpu -= 17.0;
        host.op("aten::mm", 10.0, 40.0);
    }
    let kernels = kernels(&host.b);
    let saved = clipped(&system(&host.b).host, 0.5, &kernels);
    close(saved.low, 0.5);
    let long: Vec<u32> = kernels.iter().copied().step_by(2).collect();
    close(clipped(&system(&host.b).host, 0.4, &long).low, 0.4);
}

#[test]
fn a_host_that_is_slow_only_under_the_profiler_is_told() {
    // Kernels of 80 µs, operations of 100 µs: without frames the host may be 1.3 to 2.3 times faster.
    let mut host = Host::default();
    for _ in 0..20 {
        host.op("aten::mm", 100.0, 80.0);
    }
    let s = system(&host.b);
    assert_eq!(s.host.limit, Limit::HostWhileProfiled);
    assert!(s.host.note().unwrap().contains("2.3"));
    // The window is 1.98 ms; the GPU alone needs 1.62.
    assert!(s.host.unprofiled_ms.low > 1.6 && s.host.unprofiled_ms.high < 1.7, "{:?}", s.host.unprofiled_ms);
}

#[test]
fn frames_make_the_profiler_cost_more() {
    let mut with = gpu_ahead();
    with.python("train.py(1): main", -10.0, 10_000.0);
    assert_eq!(system(&with).host.slowdown(), SLOWDOWN_WITH_FRAMES);
    assert_eq!(system(&gpu_ahead()).host.slowdown(), SLOWDOWN);
}

#[test]
fn frames_make_compiled_code_slower_still() {
    let compiled = |frames: bool, share: f64| {
        let mut host = Host::default();
        for _ in 0..20 {
            host.op("aten::mm", 100.0, 80.0);
        }
        // Launches are from 50 to 1950 us.
        host.b.annotation("## Call CompiledFxGraph f1 ##", 50.0, share * 1900.0);
        if frames {
            host.b.python("train.py(1): main", -10.0, 10_000.0);
        }
        system(&host.b).host
    };
    assert_eq!(compiled(false, 1.0).slowdown(), SLOWDOWN);
    assert_eq!(compiled(true, 0.0).slowdown(), SLOWDOWN_WITH_FRAMES);
    assert_eq!(compiled(true, 1.0).slowdown(), SLOWDOWN_COMPILED_WITH_FRAMES);
    // Half of the recorded time at 1.4 to 2.5, half at 2.5 to 7: times add up.
    assert_eq!(compiled(true, 0.5).slowdown(), (1.8, 3.7));
    // The GPU has 80 of 100 us to do: a host that was slowed down threefold keeps it busy.
    assert_eq!(compiled(true, 1.0).limit, Limit::HostWhileProfiled);
}

#[test]
fn waits_that_vanish_let_the_host_run_ahead() {
    // host  |op||op|..|op||item  wait|........|op||op|..|op||item  wait|
    // GPU     |k1||k2|..            |k10|c|     |k1||k2|..          |k10|c|
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        for _ in 0..4 {
            for _ in 0..10 {
                host.op("aten::mm", 20.0, 40.0);
            }
            host.item();
        }
        host.op("aten::mm", 20.0, 40.0);
        host.end_step(step, start);
    }
    let s = system(&host.b);
    // Four times a step the GPU waits some 30 µs for the first launch; without the waits it does not.
    let [gain, _, at_most] = s.host.speedups(None, Fix::NoWaits);
    assert!(gain > 1.05 && gain < 1.12, "{gain}");
    assert!(at_most < gain, "less with a faster host");
    assert!(s.host.speedups(None, Fix::NoReadsCompiled)[0] >= gain);
    assert!(s.host.speedups(None, Fix::Graph)[0] < gain, "a graph does not take the waits away");
}

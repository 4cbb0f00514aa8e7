//! GPU time by what it was spent on.

use jarvis_trace::timeline::{compensated_sum, is_communication_name};
use jarvis_trace::{
    Diagnostics, EventId, EventKind, GpuWork, Id, Ns, Population, Timeline, Trace, TraceBuilder, Tree, TreeOptions, Us,
};
use proptest::prelude::*;

fn gpu(trace: &Trace) -> Vec<EventId> {
    trace.events().filter(|&e| trace.kind(e).is_gpu()).collect()
}

#[test]
fn gpu_work_is_told_by_kind_and_name() {
    use EventKind::{GpuMemcpy, GpuMemset, Kernel};
    use GpuWork::{Communication, Computation, Memcpy};
    for (kind, name, work) in [
        (GpuMemcpy, "Memcpy DtoH (Device -> Pinned)", Memcpy),
        (GpuMemcpy, "nccl copy", Memcpy),
        (Kernel, "MEMORY_COPY_HOST_TO_DEVICE", Memcpy),
        (Kernel, "MEMORY_COPY_DEVICE_TO_HOST.kd", Memcpy),
        (Kernel, "__amd_rocclr_copyBuffer", Memcpy),
        (Kernel, "__amd_rocclr_copyBufferRectAligned.kd", Memcpy),
        (Kernel, "__amd_rocclr_copyBufferRect", Memcpy),
        (Kernel, "__amd_rocclr_copyBufferAligned", Memcpy),
        (Kernel, "__amd_rocclr_copyBufferAlignedRect", Computation),
        (Kernel, "my__amd_rocclr_copyBuffer", Computation),
        (GpuMemset, "__amd_rocclr_copyBuffer", Computation),
        (Kernel, "__amd_rocclr_fillBufferAligned.kd", Computation),
        (Kernel, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", Communication),
        (Kernel, "void RCCL_kernel()", Communication),
        (Kernel, "sglang::Cross_Device_Reduce_1stage", Communication),
        (GpuMemset, "NCCL memset", Communication),
        (GpuMemset, "Memset (Device)", Computation),
        (Kernel, "ncc l", Computation),
        (Kernel, "", Computation),
    ] {
        assert_eq!(GpuWork::classify(kind, name), work, "{kind:?} {name}");
    }
    assert!(is_communication_name("xNcClx") && !is_communication_name("ncl"));
}

#[test]
fn time_is_exposed_where_nothing_computes() {
    // 0    10   20   30   40   50   60   70   80
    // |-- gemm -----|         |relu|                    stream 7: computation 0..30, 50..60
    //           |-- nccl ----------|                    stream 8: communication 20..55 → exposed 30..50
    //      |copy|        |-- copy -----------|          stream 9: 10..20, 40..70 → exposed 60..70
    //                                              .    an empty fill at 80 stretches the total
    let mut b = TraceBuilder::new();
    b.gpu("kernel", "gemm", 0.0, 30.0, 1, 7);
    b.gpu("kernel", "relu", 50.0, 10.0, 2, 7);
    b.gpu("kernel", "nccl", 20.0, 35.0, 3, 8);
    b.gpu("gpu_memcpy", "copy", 10.0, 10.0, 4, 9);
    b.gpu("gpu_memcpy", "copy", 40.0, 30.0, 5, 9);
    b.gpu("gpu_memset", "fill", 80.0, 0.0, 6, 9);
    let trace = b.build();
    let t = Timeline::<Us>::of(&trace, &gpu(&trace), None).unwrap();
    let rows: Vec<_> = t.rows().iter().map(|r| format!("{} {} {}", r.kind, r.ms, r.percent)).collect();
    assert_eq!(
        rows,
        [
            "computation_time 0.04 50",
            "exposed_comm_time 0.02 25",
            "exposed_memcpy_time 0.01 12.5",
            "busy_time 0.07 87.5",
            "idle_time 0.01 12.5",
            "total_time 0.08 100",
            "total_comm_time 0.035 43.75",
            "total_memcpy_time 0.04 50",
        ]
    );
    let exact = Timeline::<Ns>::of(&trace, &gpu(&trace), Some(Ns(10_000))).unwrap();
    assert_eq!((exact.busy, exact.idle), (Ns(70_000), Ns(10_000)));
    assert_eq!(exact.micro_macro_idle, Some((Ns(0), Ns(10_000))), "a gap as long as the threshold is not micro");
    let kinds: Vec<_> = exact.rows().iter().map(|r| r.kind).collect();
    assert_eq!(kinds[4..6], ["micro_idle_time", "macro_idle_time"]);
}

#[test]
fn lengths_are_rounded_as_in_the_reference_and_exact_on_request() {
    let mut b = TraceBuilder::new();
    b.kernel("k", 0.0, 0.0, 1).at(Ns(6_869_181_218_039_954), Ns(6_239));
    let trace = b.build();
    let busy = Timeline::<Us>::of(&trace, &gpu(&trace), None).unwrap().busy;
    assert_eq!(busy.0.to_bits(), 6.239_257_812_5f64.to_bits());
    assert_eq!(Timeline::<Ns>::of(&trace, &gpu(&trace), None).unwrap().busy, Ns(6_239));
}

#[test]
fn nothing_gives_no_timeline_and_no_length_gives_no_percent() {
    let mut b = TraceBuilder::new();
    b.kernel("k", 5.0, 0.0, 1);
    b.kernel("no start", 5.0, 1.0, 1).without_ts();
    let trace = b.build();
    assert!(Timeline::<Us>::of(&trace, &[], None).is_none());
    let all = gpu(&trace);
    assert!(Timeline::<Us>::of(&trace, &all[1..], None).is_none());
    let t = Timeline::<Us>::of(&trace, &all, None).unwrap();
    assert!(t.total == Us(0.0) && t.rows().iter().all(|r| r.percent.is_nan()));
}

#[test]
fn unlinked_events_count_on_request_and_devices_stand_apart() {
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", 0.0, 1.0, 1);
    b.kernel("k", 10.0, 5.0, 1);
    b.event('X', "kernel", "other device", 100.0, 20.0).on(1, 7);
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let total = |population: Population| Timeline::<Us>::of(&trace, &population.of(&trace, &tree), None).unwrap().total;
    assert_eq!((total(Population::Linked), total(Population::All)), (Us(5.0), Us(110.0)));
    let devices = Timeline::<Us>::by_device(&trace, &Population::All.of(&trace, &tree), None);
    let busy: Vec<_> = devices.iter().map(|(id, t)| (*id, t.busy)).collect();
    assert_eq!(busy, [(Id::Int(0), Us(5.0)), (Id::Int(1), Us(20.0))]);
}

#[test]
fn what_runs_between_linked_events_keeps_the_gpu_busy() {
    // stream 7   |lost|   |k1|   |lost|   |k2|   |lost|
    // stream 8          |lost|
    let mut b = TraceBuilder::new();
    for (number, at) in [(1, 100.0), (2, 200.0)] {
        b.launch("cudaLaunchKernel", at - 90.0, 1.0, number);
        b.kernel("k", at, 10.0, number);
    }
    for (correlation, at, stream) in [(91, 20.0, 7), (92, 95.0, 8), (93, 140.0, 7), (94, 300.0, 7)] {
        b.gpu("kernel", "lost", at, 20.0, correlation, stream);
    }
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let timeline = |p: Population| Timeline::<Us>::of(&trace, &p.of(&trace, &tree), None).unwrap();
    let of = |p: Population| (timeline(p).total, timeline(p).busy);
    assert_eq!(of(Population::Linked), (Us(110.0), Us(20.0)));
    assert_eq!(of(Population::Window), (Us(115.0), Us(50.0)), "and what reaches into the window");
    assert_eq!(of(Population::All), (Us(300.0), Us(90.0)));
}

/// Of the time that it adds to the window nothing else may be left out.
#[test]
fn what_reaches_out_of_the_window_takes_along_what_ran_beside_it() {
    // stream 7   |old||old||old|  |old||old|  |k1|   |k2| |late|
    // stream 20                 |-- lost --------|   |-- lost --|  |later|
    let mut b = TraceBuilder::new();
    for (number, at) in [(1, 100.0), (2, 120.0)] {
        b.launch("cudaLaunchKernel", 1.0, 1.0, number);
        b.kernel("k", at, 10.0, number);
    }
    let lost = [(10.0, 9.0, 7), (20.0, 9.0, 7), (30.0, 9.0, 7), (60.0, 9.0, 7), (70.0, 9.0, 7), (135.0, 9.0, 7)];
    let beside = [(50.0, 55.0, 20), (125.0, 20.0, 20), (150.0, 20.0, 20)];
    for (number, (at, us, stream)) in lost.into_iter().chain(beside).enumerate() {
        b.gpu("kernel", "lost", at, us, 90 + number as i64, stream);
    }
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default());
    let events = Population::Window.of(&trace, &tree);
    let timeline = Timeline::<Us>::of(&trace, &events, None).unwrap();
    assert_eq!((events.len(), timeline.total), (7, Us(95.0)));
}

#[test]
fn small_parts_are_not_lost_in_a_sum() {
    assert_eq!(compensated_sum([1e16, 1.0, 1.0, -1e16]).to_bits(), 2.0f64.to_bits());
    assert_eq!(compensated_sum([]).to_bits(), 0.0f64.to_bits());
}

proptest! {
    #[test]
    fn parts_add_up(events in prop::collection::vec((0u8..4, 0i64..2_000_000, 0i64..200_000), 1..60)) {
        let mut b = TraceBuilder::new();
        for &(what, ts, dur) in &events {
            let (category, name) = [("kernel", "k"), ("kernel", "nccl"), ("gpu_memcpy", "c"), ("gpu_memset", "m")][what as usize];
            b.gpu(category, name, 0.0, 0.0, 1, what.into()).at(Ns(3_844_184_989_810_831 + ts), Ns(dur));
        }
        let trace = b.build();
        let events = gpu(&trace);
        let mut seen = Diagnostics::default();
        let float = Timeline::<Us>::of(&trace, &events, Some(Us(20.0))).unwrap();
        float.check(&mut seen);
        let exact = Timeline::<Ns>::of(&trace, &events, Some(Ns(20_000))).unwrap();
        exact.check(&mut seen);
        prop_assert!(seen.worst().is_none());
        let (small, large) = exact.micro_macro_idle.unwrap();
        prop_assert_eq!(small + large, exact.idle);
        prop_assert_eq!(exact.computation + exact.exposed_communication + exact.exposed_memcpy, exact.busy);
        prop_assert_eq!(exact.busy + exact.idle, exact.total);
        prop_assert!((float.busy.0 - exact.busy.as_us()).abs() < 0.1);
    }
}

#[test]
fn parts_that_do_not_add_up_are_counted() {
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", 0.0, 1.0, 1);
    b.kernel("gemm", 10.0, 5.0, 1);
    let trace = b.build();
    let whole = Timeline::<Ns>::of(&trace, &gpu(&trace), None).unwrap();
    let count = |t: &Timeline<Ns>| {
        let mut diagnostics = Diagnostics::default();
        t.check(&mut diagnostics);
        diagnostics.count(jarvis_trace::Defect::TimelineMismatch)
    };
    assert_eq!(count(&whole), 0);
    let torn = Timeline { idle: Ns(1_000), ..whole };
    assert_eq!(count(&torn), 1);
}

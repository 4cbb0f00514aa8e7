//! Which idle time is whose, and what is said of it.

use super::*;

#[test]
fn idle_time_is_worth_a_finding_above_the_limit_in_force() {
    let b = steps(50.0, 5.0).b;
    let of = |card_percent: f64| System { card_percent, ..system(&b) };
    let flagged = |card_percent: f64| CpuIdleMetrics::of(&of(card_percent), &utilization(&b)).idle_flagged;
    assert_eq!(names(&findings(&of(15.0), &utilization(&b), None)), ["launch_bound"]);
    assert!(findings(&of(95.0), &utilization(&b), None).is_empty());
    assert_eq!((flagged(15.0), flagged(95.0)), (true, false));
}

#[test]
fn idle_time_at_the_edges_is_no_fault_of_the_host() {
    let mut host = Host::default();
    host.op("aten::zero_", 10.0, 1.0);
    host.now += 5000.0;
    let start = host.now;
    for _ in 0..40 {
        host.op("aten::mm", 10.0, 100.0);
    }
    host.end_step(0, start);
    let (s, u) = (system(&host.b), utilization(&host.b));
    assert!(u.idle_time_percent > 50.0 && s.gaps.class(GapClass::Edge).count == 1, "{u:?}");
    let metrics = CpuIdleMetrics::of(&s, &u);
    assert_eq!((metrics.severity, metrics.idle_flagged), (Severity::Acceptable, false));
    let json = serde_json::to_value(&metrics).unwrap();
    let percent = |name: &str| json["gpu_utilization"][name].as_f64().unwrap();
    assert!(percent("idle_time_percent") > 50.0 && percent("idle_without_edges_percent") < 2.0, "{json}");
    assert_eq!(s.host.limit, Limit::Gpu);
    let notes = s.notes(&u);
    assert!(notes.len() == 1 && notes[0].contains("lie at the edges of the recording"), "{notes:?}");
}

/// Two steps of kernels, each after a call that gets memory for so long.
fn allocating(memory_us: f64, waits: bool) -> Host {
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        for i in 0..20 {
            if waits {
                let back = host.gpu.max(host.now) + 5.0;
                host.b.runtime("cudaEventSynchronize", host.now, back - host.now);
                host.now = back + 1.0;
            }
            host.b.runtime("cudaMalloc", host.now, memory_us);
            host.now += memory_us;
            host.op("aten::mm", 10.0, 200.0);
            if waits && i % 2 == 1 {
                host.item();
                host.op("aten::mm", 10.0, 200.0);
            }
        }
        host.end_step(step, start);
    }
    host
}

#[test]
fn memory_calls_are_as_slow_without_the_profiler() {
    let host = allocating(300.0, false);
    let s = system(&host.b);
    assert_eq!(s.host.limit, Limit::Host, "the driver's time is not the profiler's");
    let all = found(&host.b);
    assert_eq!(names(&all), ["launch_bound"]);
    assert_eq!(all[0].priority, Priority::Medium);
    assert!(all[0].paths.algorithmic[0].starts_with("Reuse buffers"), "{:?}", all[0].paths);
    assert!(all[0].impact.basis.contains("memory calls as they are"), "{}", all[0].impact.basis);
    // As much host work of another kind may be the profiler's.
    assert_ne!(system(&steps(310.0, 200.0).b).host.limit, Limit::Host);
}

#[test]
fn memory_that_goes_back_in_every_step_comes_first() {
    let advice = |free: &str| {
        let mut host = Host::default();
        for step in 0..2 {
            let start = host.now;
            for _ in 0..10 {
                host.b.runtime("cudaMalloc", host.now, 120.0);
                host.now += 120.0;
                host.op("aten::mm", 100.0, 5.0);
            }
            host.b.runtime(free, host.now, 100.0);
            host.now += 100.0;
            host.end_step(step, start);
        }
        let all = found(&host.b);
        assert_eq!(names(&all)[0], "launch_bound");
        all[0].paths.algorithmic.clone()
    };
    let back = advice("cudaFree");
    assert!(back[0].contains("`torch.cuda.empty_cache()`"), "{back:?}");
    assert!(back[0].contains("(2 calls give it back, 20 ask for it again"), "{back:?}");
    // Memory of the host, and memory that stays.
    for free in ["cudaFreeHost", "cudaEventQuery"] {
        let stays = advice(free);
        assert!(stays.iter().all(|a| !a.contains("empty_cache")), "{stays:?}");
        assert!(stays.iter().any(|a| a.starts_with("Reuse buffers")), "{stays:?}");
    }
}

/// Two steps that copy so many tensors to the device, each for so long and waited for, with so many kernels between them.
fn copying(copies: usize, us: f64, between: usize) -> Host {
    let mut host = Host::default();
    for step in 0..2 {
        let start = host.now;
        for i in 0..copies {
            let call = host.now;
            host.launch_taking(12.0, call + 5.0, "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", us);
            let back = host.gpu.max(call + 17.0) + 5.0;
            host.b.cpu_op("aten::to", call, back + 5.0 - call);
            host.b.runtime("cudaStreamSynchronize", call + 18.0, back - call - 18.0);
            host.now = back + 5.0;
            if between > 0 && i % between == 0 {
                host.op("aten::add", 10.0, 3.0);
            }
        }
        for _ in 0..5 {
            host.op("aten::mm", 10.0, 20.0);
        }
        host.end_step(step, start);
    }
    host
}

#[test]
fn small_copies_in_a_row_are_one() {
    let of = |host: &Host| {
        let all = found_in_program(&host.b);
        all.into_iter().find(|f| f.pattern == PatternId::HOST_SYNC).unwrap()
    };
    let row = of(&copying(64, 2.0, 0));
    let first = &row.paths.algorithmic[0];
    assert!(first.starts_with("Put together on the host") && first.contains("126 small copies"), "{first}");
    assert!(row.impact.basis.contains("and 126 copies that go with another"), "{}", row.impact.basis);
    let apart = of(&copying(64, 2.0, 4));
    assert!(apart.paths.algorithmic[0].starts_with("Remove or batch"), "{:?}", apart.paths);
    assert!(row.impact.speedup.high > 1.5 * apart.impact.speedup.high, "{:?} {:?}", row.impact, apart.impact);
    assert!(row.impact.speedup.low > apart.impact.speedup.low, "{:?} {:?}", row.impact, apart.impact);
}

#[test]
fn all_waits_that_the_range_is_without_are_named() {
    let host = allocating(100.0, true);
    let all = found(&host.b);
    let f = all.iter().find(|f| f.pattern == PatternId::HOST_SYNC).unwrap();
    let both = "(`aten::item`, `cudaEventSynchronize`)";
    assert!(f.title.ends_with(both), "{}", f.title);
    // A call that only waits reads nothing that could stay where it is.
    assert!(f.paths.algorithmic[0].contains("only wait (`cudaEventSynchronize`)"), "{:?}", f.paths);
    assert!(f.paths.algorithmic[1].contains("scalar reads (`aten::item`)"), "{:?}", f.paths);
    assert!(f.issue.contains("more times (`cudaEventSynchronize`) without such a gap"), "{}", f.issue);
    // What passes in memory calls is told once.
    let told = all.iter().flat_map(|f| &f.paths.algorithmic).filter(|a| a.starts_with("Reuse buffers")).count();
    assert_eq!(told, 1, "{all:?}");
}

/// What the idle page says is to be done about each of its patterns.
fn solutions(b: &TraceBuilder) -> Vec<(&'static str, Option<String>)> {
    let metrics = CpuIdleMetrics::of(&system(b), &utilization(b));
    metrics.patterns_detected.into_iter().map(|p| (p.name, p.solution)).collect()
}

/// All that is said is to be done about launches, by the page and by the finding.
fn advised(b: &TraceBuilder) -> String {
    let all = found(b);
    let f = all.iter().find(|f| f.pattern == PatternId::LAUNCH_BOUND).unwrap();
    let page = solutions(b).into_iter().filter_map(|(_, solution)| solution);
    page.chain(f.paths.algorithmic.clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_compiled_is_not_told_to_compile_on_any_page() {
    let mut host = steps(50.0, 5.0);
    assert!(advised(&host.b).contains("fuse small kernels with `torch.compile`, or replay a GPU graph"));
    assert!(advised(&host.b).contains("cut host time per operation with `torch.compile` or a GPU graph"));
    // All launches are in compiled code, though what the host does before them takes most of its time.
    for step in 0..2 {
        for op in 0..40 {
            let at = f64::from(step) * 2020.0 + f64::from(op) * 50.0;
            host.b.annotation("Torch-Compiled Region: 0/0", at + 20.0, 15.0);
        }
    }
    let s = system(&host.b);
    assert!(s.host.compiled_share < 0.5 && s.kernels.compiled > 70, "{:?}", s.kernels);
    let advised = advised(&host.b);
    assert!(!advised.contains("with `torch.compile`"), "{advised}");
    assert!(advised.contains("replay a GPU graph") && advised.contains("Capture the step"), "{advised}");
}

#[test]
fn what_graphs_replay_is_not_told_to_be_captured() {
    // Two steps of twenty pieces, each a graph of its own that the host is slow to reach.
    let mut b = TraceBuilder::new();
    for piece in 0..40 {
        let at = f64::from(piece) * 200.0;
        if piece % 20 == 0 {
            b.annotation(&format!("ProfilerStep#{piece}"), at, 3999.0);
        }
        b.cpu_op("aten::copy_", at, 150.0);
        b.launch("cudaGraphLaunch", at + 150.0, 20.0, piece.into());
        for k in 0..10 {
            b.gpu("kernel", "k", at + 165.0 + 2.5 * f64::from(k), 2.0, piece.into(), 7);
        }
    }
    let advised = advised(&b);
    for word in ["GPU graph", "torch.compile", "apture"] {
        assert!(!advised.contains(word), "{word} in {advised}");
    }
    assert_eq!(solutions(&b)[0], ("launch_overhead", None));
    let json = serde_json::to_value(CpuIdleMetrics::of(&system(&b), &utilization(&b))).unwrap();
    assert!(json["patterns_detected"][0].get("solution").is_none(), "{json}");
    assert!(advised.contains("overlap host work with the GPU"), "{advised}");
}

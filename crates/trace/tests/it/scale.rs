//! How the build behaves on large recordings. Run by hand:
//! `cargo test --release -p jarvis-trace --test it scale -- --ignored --nocapture`

use std::time::Instant;

use jarvis_trace::{Ns, Population, Timeline, Trace, TraceBuilder, Tree, TreeOptions, Us};

fn measure(name: &str, trace: &Trace) {
    for (label, options) in [("ops", TreeOptions::default()), ("frames", TreeOptions::default().with_python())] {
        // The best of several runs is the one least disturbed by others on the machine.
        let time = (0..7).map(|_| {
            let start = Instant::now();
            let tree = Tree::build(trace, options);
            (start.elapsed(), tree.roots().len())
        });
        let (best, roots) = time.min().unwrap();
        let each = best.as_nanos() as f64 / trace.len() as f64;
        println!("{name} {label}: {} events, {roots} roots, {best:?}, {each:.1} ns an event", trace.len());
    }
}

#[test]
#[ignore = "takes gigabytes and half a minute; for measuring"]
fn ten_million_events() {
    // |-- op ------------------------------|   a million times, each with six calls inside and a launched kernel
    //   |f||f||f||f||f|  |launch|
    let mut b = TraceBuilder::new();
    for i in 0..1_000_000i64 {
        let at = |offset: i64| Ns(1_000_000_000 + i * 1000 + offset);
        b.cpu_op("op", 0.0, 0.0).at(at(0), Ns(900));
        for f in 0..5 {
            b.python("frame", 0.0, 0.0).at(at(10 + f * 100), Ns(90));
        }
        b.launch("cudaLaunchKernel", 0.0, 0.0, i).at(at(600), Ns(90));
        b.kernel("k", 0.0, 0.0, i).at(at(700), Ns(250));
    }
    let trace = b.build();
    drop(b);
    measure("synthetic", &trace);
    let tree = Tree::build(&trace, TreeOptions::default().with_python());
    assert_eq!((tree.roots().len(), tree.linked_gpu_events().count()), (1_000_000, 1_000_000));
    let busy = Timeline::<Us>::of(&trace, &Population::Linked.of(&tree), None).unwrap().busy;
    assert!((busy.0 - 250_000.0).abs() < 1e-3);
}

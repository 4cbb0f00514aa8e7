//! How the tree and the timeline hold on a recording of many events; `cargo bench -p jarvis-trace` says how fast.

use jarvis_trace::{Ns, Population, Timeline, TraceBuilder, Tree, TreeOptions, Us};

#[test]
fn eight_hundred_thousand_events() {
    // |-- op ------------------------------|   many times, each with six calls inside and a launched kernel
    //   |f||f||f||f||f|  |launch|
    const OPS: usize = 100_000;
    let mut b = TraceBuilder::new();
    for i in 0..OPS as i64 {
        let at = |offset: i64| Ns(1_000_000_000 + i * 1000 + offset);
        b.cpu_op("op", 0.0, 0.0).at(at(0), Ns(900));
        for f in 0..5 {
            b.python("frame", 0.0, 0.0).at(at(10 + f * 100), Ns(90));
        }
        b.launch("cudaLaunchKernel", 0.0, 0.0, i).at(at(600), Ns(90));
        b.kernel("k", 0.0, 0.0, i).at(at(700), Ns(250));
    }
    let trace = b.build();
    let tree = Tree::build(&trace, TreeOptions::default().with_python());
    assert_eq!((tree.roots().len(), tree.linked_gpu_events().count()), (OPS, OPS));
    let busy = Timeline::<Us>::of(&trace, &Population::Linked.of(&trace, &tree), None).unwrap().busy;
    assert!((busy.0 - 25_000.0).abs() < 1e-3);
}

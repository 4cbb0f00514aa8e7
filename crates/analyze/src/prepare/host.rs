//! How long the host needs to issue the work of the window. A GPU that gets faster soon waits for the host.

use jarvis_trace::{EventKind, Ns, Trace, Tree};

/// A runtime call counts with at most this: longer ones wait for the GPU, in a full queue or a synchronisation.
const LONGEST_CALL: Ns = Ns(20_000);

/// Time between two operations of a thread up to this is the program's own; longer pauses wait for something.
const LONGEST_PAUSE: Ns = Ns(500_000);

/// Milliseconds that the host is busy issuing work, all threads one after another: outermost operations and runtime
/// calls without the time they wait, and the short pauses between them.
///
/// Where the GPU starves this is the window within a few percent; where it does not, it is what the window becomes
/// once the GPU is faster (seen on pairs of traces before and after a fix).
pub(crate) fn host_ms(trace: &Trace, tree: &Tree) -> f64 {
    let mut spans: Vec<(usize, Ns, Ns)> = Vec::new();
    let mut waits = 0;
    for e in trace.events() {
        let kind = trace.kind(e);
        if !kind.is_runtime() && kind != EventKind::CpuOp {
            continue;
        }
        let (Some(start), Some(dur)) = (trace.ts(e), trace.dur(e)) else { continue };
        if kind.is_runtime() {
            waits += (dur.0 - LONGEST_CALL.0).max(0);
        }
        if !tree.ancestors(e).any(|a| trace.kind(a) == EventKind::CpuOp) {
            spans.push((trace.track_id(e).index(), start, start + dur));
        }
    }
    spans.sort_unstable();
    let mut total = 0;
    for thread in spans.chunk_by(|a, b| a.0 == b.0) {
        let mut end = thread[0].1;
        for &(_, start, stop) in thread {
            let pause = start.0 - end.0;
            total += if pause <= LONGEST_PAUSE.0 { pause.max(0) } else { 0 };
            total += (stop.0 - start.0.max(end.0)).max(0);
            end = end.max(stop);
        }
    }
    Ns((total - waits).max(0)).as_us() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_trace::{TraceBuilder, TreeOptions};

    #[test]
    fn waiting_is_not_work() {
        // |-- op 100 --|  pause 50  |-- op 1000, of it a launch of 900 that waits --|   pause 5000   |-- op 10 --|
        let mut b = TraceBuilder::new();
        b.cpu_op("aten::mm", 0.0, 100.0);
        b.cpu_op("aten::add", 20.0, 50.0);
        b.cpu_op("aten::mm", 150.0, 1000.0);
        b.launch("cudaLaunchKernel", 200.0, 900.0, 1);
        b.cpu_op("aten::mm", 6150.0, 10.0);
        b.kernel("k", 1200.0, 10.0, 1);
        let trace = b.build();
        let tree = Tree::build(&trace, TreeOptions::default());
        // 100 + 50 + (1000 − 880) + 10 µs.
        assert!((host_ms(&trace, &tree) - 0.280).abs() < 1e-9);
    }
}

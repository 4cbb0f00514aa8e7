//! What the host did, by operation.

use super::Tree;
use crate::model::{EventKind, Ns, StrId, Trace};
use crate::order::InOrder as _;

/// An operation over all its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostOperation {
    /// Its name.
    pub name: StrId,
    /// How often it was called.
    pub calls: u64,
    /// Time that passed in it and in none of the operations that it called.
    pub own: Ns,
}

/// The operations of a recording, most own time first.
pub fn host_operations(trace: &Trace, tree: &Tree) -> Vec<HostOperation> {
    let name = |i: usize| HostOperation { name: StrId(i as u32), calls: 0, own: Ns(0) };
    let mut by_name: Vec<HostOperation> = (0..trace.strings().len()).map(name).collect();
    let is_op = |&e: &_| trace.kind(e) == EventKind::CpuOp;
    for e in trace.events().filter(is_op) {
        let took = trace.dur(e).unwrap_or_default();
        let own = &mut by_name[trace.name_id(e).index()];
        own.calls += 1;
        own.own.0 += took.0;
        if let Some(caller) = tree.ancestors(e).find(is_op) {
            by_name[trace.name_id(caller).index()].own.0 -= took.0;
        }
    }
    by_name.retain(|op| op.calls > 0);
    by_name.order_by(|a, b| b.own.cmp(&a.own).then_with(|| trace.text(a.name).cmp(trace.text(b.name))));
    by_name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceBuilder;
    use crate::tree::{TreeOptions, launch_calls};

    #[test]
    fn an_operation_has_the_time_that_no_other_one_in_it_has() {
        let mut b = TraceBuilder::new();
        b.cpu_op("aten::linear", 0.0, 100.0);
        b.cpu_op("aten::addmm", 10.0, 50.0);
        // No operation: the time of the call is that of the operation that made it.
        b.launch("cudaLaunchKernel", 20.0, 5.0, 1);
        b.cpu_op("aten::addmm", 200.0, 30.0);
        let trace = b.build();
        let tree = Tree::build(&trace, TreeOptions::default());
        let found: Vec<_> = host_operations(&trace, &tree)
            .iter()
            .map(|op| (trace.text(op.name).to_owned(), op.calls, op.own.as_us()))
            .collect();
        assert_eq!(found, [("aten::addmm".to_owned(), 2, 80.0), ("aten::linear".to_owned(), 1, 50.0)]);
        assert_eq!(launch_calls(&trace), 1);
    }
}

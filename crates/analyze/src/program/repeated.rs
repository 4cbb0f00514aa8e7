//! Forward work that activation checkpointing does again in the backward pass.
//!
//! The reentrant form has a backward node of its own, the other one a Python frame. Where neither is recorded, what
//! tells is that autograd records the operations inside a backward node once more: they have sequence numbers there.
//! So have the operations of a backward pass that is itself differentiated; but those are a few for each node and other
//! ones than the forward pass has.

use std::sync::Arc;

use jarvis_perf::call::InputLists;
use jarvis_trace::{EventId, Key, Trace};
use rapidhash::{RapidHashMap, RapidHashSet};

use super::{LeafId, Program};

/// How the autograd engine names the event around a backward node.
const NODE: &str = "autograd::engine::evaluate_function: ";

/// The backward node of reentrant checkpointing.
const BLOCK: &str = "CheckpointFunctionBackward";

/// A block that is worth a checkpoint launches at least as much.
const LEAST_LEAVES: usize = 5;

/// Of the leaves of a repeated block so many per cent are known from the forward pass.
const LEAST_KNOWN: usize = 90;

/// Whether a leaf is marked as repeated. Inside the node of the reentrant form both the repeated forward and the
/// backward of the block run; there only what stands directly in that node is repeated.
pub(super) fn is_marked(is_recompute: bool, ops_around: &[Arc<str>]) -> bool {
    if !ops_around.iter().any(|op| op.contains(BLOCK)) {
        return is_recompute;
    }
    let innermost = ops_around.iter().find_map(|op| op.strip_prefix(NODE));
    innermost.is_some_and(|node| node.contains(BLOCK))
}

/// The backward node inside which autograd recorded this operation or one around it.
pub(super) fn recorded_in(
    trace: &Trace,
    event: EventId,
    around: &[EventId],
    ops_around: &[Arc<str>],
) -> Option<EventId> {
    let node = ops_around.iter().position(|op| op.starts_with(NODE))?;
    // Right below the node is its own function, with the number of the forward operation.
    let (_, inside) = around[..node].split_last()?;
    let is_recorded = |&e: &EventId| trace.int(e, Key::SequenceNumber).is_some();
    (is_recorded(&event) || inside.iter().any(is_recorded)).then_some(around[node])
}

/// Marks the leaves recorded inside backward nodes that are forward work done again.
pub(super) fn mark(program: &mut Program, recorded: &[(LeafId, EventId)]) {
    if recorded.is_empty() {
        return;
    }
    let forward = |at: &usize| !program.ops_around(&program.leaves[*at]).any(|op| op.starts_with(NODE));
    let key = |program: &Program, at: usize| {
        let leaf = &program.leaves[at];
        // Equal names and equal inputs are shared.
        (Arc::as_ptr(&leaf.name), Arc::as_ptr(&leaf.inputs))
    };
    let known: RapidHashSet<(*const str, *const InputLists)> =
        (0..program.leaves.len()).filter(forward).map(|at| key(program, at)).collect();
    let mut nodes: RapidHashMap<EventId, Vec<usize>> = RapidHashMap::default();
    for (leaf, node) in recorded {
        nodes.entry(*node).or_default().push(leaf.index());
    }
    for leaves in nodes.into_values().filter(|leaves| leaves.len() >= LEAST_LEAVES) {
        let seen = leaves.iter().filter(|&&at| known.contains(&key(program, at))).count();
        if 100 * seen >= LEAST_KNOWN * leaves.len() {
            for at in leaves {
                program.leaves[at].is_repeated = true;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use jarvis_trace::{Summary, TraceBuilder, Tree, TreeOptions};

    use super::*;

    /// A forward pass of six operations on one thread; on another a backward node that holds some.
    fn repeated(node: &[(&str, bool)]) -> Vec<String> {
        let forward = ["aten::native_layer_norm", "aten::mm", "aten::gelu", "aten::mm", "aten::add", "aten::mul"];
        let mut b = TraceBuilder::new();
        let mut launches = 0;
        let mut op = |b: &mut TraceBuilder, name: &str, at: f64, thread: i64, recorded: bool| {
            launches += 1;
            let event = b.cpu_op(name, at, 8.0).on(1, thread).arg("Input Dims", "[[64, 64]]");
            if recorded {
                event.arg("Sequence number", 100 + launches);
            }
            b.launch("cudaLaunchKernel", at + 1.0, 2.0, launches).on(1, thread);
            b.kernel("k", 2000.0 + 10.0 * launches as f64, 4.0, launches);
        };
        for (i, name) in forward.into_iter().enumerate() {
            op(&mut b, name, 10.0 * i as f64, 1, true);
        }
        let length = 10.0 * node.len() as f64 + 10.0;
        b.cpu_op("autograd::engine::evaluate_function: MulBackward0", 1000.0, length)
            .on(1, 2)
            .arg("Sequence number", 106);
        b.cpu_op("MulBackward0", 1001.0, length - 2.0).on(1, 2).arg("Sequence number", 106);
        for (i, (name, recorded)) in node.iter().enumerate() {
            op(&mut b, name, 1005.0 + 10.0 * i as f64, 2, *recorded);
        }
        let trace = b.build();
        let tree = Tree::build(&trace, TreeOptions::default());
        let program = Program::of(&trace, &tree, &Summary::of(&trace), &jarvis_perf::tables::ArgLists::default());
        program.leaves.iter().filter(|l| l.is_repeated).map(|l| l.name.to_string()).collect()
    }

    #[test]
    fn what_autograd_records_again_is_repeated() {
        let block = ["aten::native_layer_norm", "aten::mm", "aten::gelu", "aten::mm", "aten::add"];
        let mut node: Vec<(&str, bool)> = block.map(|name| (name, true)).to_vec();
        // The node's own work is recorded by nobody.
        node.push(("aten::mul", false));
        assert_eq!(repeated(&node), block);
    }

    #[test]
    fn what_differentiates_a_backward_pass_is_not() {
        assert!(repeated(&[("aten::mul", true), ("aten::mul", true)]).is_empty(), "a few for each node");
        let others = ["aten::mm", "aten::mul", "aten::gelu_backward", "aten::sum", "aten::neg", "aten::mm"];
        assert!(repeated(&others.map(|name| (name, true))).is_empty(), "other operations than the forward pass has");
        let unrecorded = ["aten::native_layer_norm", "aten::mm", "aten::gelu", "aten::mm", "aten::add"];
        assert!(repeated(&unrecorded.map(|name| (name, false))).is_empty());
    }
}

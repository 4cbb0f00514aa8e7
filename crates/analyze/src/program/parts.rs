//! Operands that are parts of larger tensors: what loops over the parts have in common, and one call could take whole.

use jarvis_trace::{EventId, EventKind, Key, StrId, Trace, Tree};
use rapidhash::RapidHashMap;

use super::{Leaf, Program};

/// Operations that give parts of a tensor without one of its dimensions: one, or all of them.
const TAKING: [&str; 2] = ["aten::select", "aten::unbind"];

/// Most views between two leaves that are looked at: a call takes few, but one `unbind` is as many as it gives.
const MOST: usize = 512;

/// Tells every leaf which of its inputs were taken out of larger tensors since the leaf before it.
pub(super) fn mark(program: &mut Program, trace: &Trace, tree: &Tree) {
    let mut views = Views { trace, takes: RapidHashMap::default(), wholes: RapidHashMap::default() };
    for leaves in program.leaves.chunk_by_mut(|a, b| a.thread == b.thread) {
        let track = leaves.first().and_then(|l| trace.event(l.uid)).map(|e| trace.track_id(e));
        let Some((_, events)) = tree.thread_events().find(|(t, _)| Some(*t) == track) else { continue };
        let mut leaves = leaves.iter_mut().peekable();
        let mut since: Vec<EventId> = Vec::new();
        for &event in events {
            // Those that are not among the events took nothing.
            while leaves.next_if(|l| Some(l.start) < trace.ts(event)).is_some() {}
            if let Some(leaf) = leaves.next_if(|l| l.uid == event.uid()) {
                if !since.is_empty() {
                    leaf.taken = views.taken(leaf, &since);
                    since.clear();
                }
            } else if trace.kind(event) == EventKind::CpuOp && since.len() < MOST && views.takes(event) {
                since.push(event);
            }
        }
    }
}

/// Views, each way to take a part read once.
struct Views<'a> {
    trace: &'a Trace,
    takes: RapidHashMap<StrId, bool>,
    /// Shapes of what parts are taken of.
    wholes: RapidHashMap<StrId, Vec<i64>>,
}

impl Views<'_> {
    fn takes(&mut self, event: EventId) -> bool {
        let (trace, name) = (self.trace, self.trace.name_id(event));
        *self.takes.entry(name).or_insert_with(|| TAKING.contains(&trace.text(name)))
    }

    /// A bit for each input that has the shape of a part, each view used once.
    fn taken(&mut self, leaf: &Leaf, views: &[EventId]) -> u8 {
        let trace = self.trace;
        let mut wholes: Vec<StrId> = views.iter().filter_map(|&e| trace.text_id(e, Key::InputDims)).collect();
        let mut taken = 0;
        for (i, dims) in leaf.inputs.dims.iter().flatten().take(8).enumerate() {
            let Some(part) = dims.shape().filter(|s| !s.is_empty()) else { continue };
            let found = wholes.iter().position(|&id| {
                let whole = self.wholes.entry(id).or_insert_with(|| first_shape(trace.text(id)));
                is_part(part, whole)
            });
            if let Some(found) = found {
                wholes.swap_remove(found);
                taken |= 1 << i;
            }
        }
        taken
    }
}

/// The shape of the first of several inputs; none if it is not a tensor.
fn first_shape(lists: &str) -> Vec<i64> {
    let all: Vec<serde_json::Value> = serde_json::from_str(lists).unwrap_or_default();
    let first = all.into_iter().next().and_then(|first| serde_json::from_value(first).ok());
    first.unwrap_or_default()
}

/// Whether a shape is another one without one of its dimensions. A matrix may have been transposed since.
fn is_part(part: &[i64], whole: &[i64]) -> bool {
    let without = |left_out: usize| {
        let rest = whole.iter().enumerate().filter(move |(i, _)| *i != left_out).map(|(_, d)| d);
        rest.clone().eq(part) || rest.rev().eq(part)
    };
    whole.len() == part.len() + 1 && (0..whole.len()).any(without)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_trace::{Summary, TraceBuilder, TreeOptions};

    /// Which inputs of the products are parts: of a product whose operands these views gave, and of one after it.
    fn taken(views: &[(&str, &str)]) -> [u8; 2] {
        let mut b = TraceBuilder::new();
        for (i, (name, whole)) in views.iter().enumerate() {
            b.cpu_op(name, i as f64, 0.5).arg("Input Dims", *whole);
        }
        for n in 0..2 {
            let at = 100.0 + 50.0 * f64::from(n);
            b.cpu_op("aten::mm", at, 20.0).arg("Input Dims", "[[64, 128], [128, 32]]");
            b.launch("cudaLaunchKernel", at + 2.0, 2.0, i64::from(n));
            b.kernel("k", 1000.0 + at, 4.0, i64::from(n));
        }
        let trace = b.build();
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        let leaves = Program::of(&trace, &tree, &Summary::of(&trace)).leaves;
        [leaves[0].taken, leaves[1].taken]
    }

    #[test]
    fn operands_that_views_gave_are_parts() {
        let (rows, weights) = ("[[8, 64, 128], [], []]", "[[8, 128, 32], [], []]");
        assert_eq!(taken(&[]), [0, 0]);
        assert_eq!(taken(&[("aten::select", rows), ("aten::select", weights)]), [0b11, 0]);
        assert_eq!(taken(&[("aten::unbind", weights)]), [0b10, 0]);
        assert_eq!(taken(&[("aten::select", "[[64, 8, 128], [], []]")]), [0b01, 0], "along any dimension");
        assert_eq!(taken(&[("aten::select", "[[8, 32, 128], [], []]")]), [0b10, 0], "and transposed");
        for other in ["[[8, 64, 64], [], []]", "[[64, 128], [], []]", "[]", "oops"] {
            assert_eq!(taken(&[("aten::select", other)]), [0, 0], "{other}");
        }
        assert_eq!(taken(&[("aten::relu", rows)]), [0, 0]);
    }
}

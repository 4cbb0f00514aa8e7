//! Operands that are parts of larger tensors: what loops over the parts have in common, and one call could take whole.

use jarvis_trace::{EventId, EventKind, Key, StrId, Trace, Tree};
use rapidhash::RapidHashMap;

use super::{Leaf, Program};

/// Operations that give parts of a tensor, and what becomes of the dimension they cut.
const TAKING: [(&str, Cut); 3] =
    [("aten::select", Cut::Gone), ("aten::unbind", Cut::Gone), ("aten::slice", Cut::Shorter)];

/// What becomes of a dimension.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// The part does not have it.
    Gone,
    /// The part has less of it.
    Shorter,
}

/// A view is used by one of so many leaves after it, or not at all: arguments are taken before any is cast.
const REACH: usize = 4;

/// Most views that wait for their use: a call takes few, but one `unbind` is as many as it gives.
const MOST: usize = 512;

/// Tells every leaf which of its inputs were taken out of larger tensors just before.
pub(super) fn mark(program: &mut Program, trace: &Trace, tree: &Tree) {
    let mut views = Views { trace, takes: RapidHashMap::default(), parts: RapidHashMap::default() };
    for leaves in program.leaves.chunk_by_mut(|a, b| a.thread == b.thread) {
        let track = leaves.first().and_then(|l| trace.event(l.uid)).map(|e| trace.track_id(e));
        let Some((_, events)) = tree.thread_events().find(|(t, _)| Some(*t) == track) else { continue };
        let mut leaves = leaves.iter_mut().enumerate().peekable();
        let mut waiting: Vec<View> = Vec::new();
        for &event in events {
            // Those that are not among the events took nothing.
            while leaves.next_if(|(_, l)| Some(l.start) < trace.ts(event)).is_some() {}
            let next = leaves.peek().map_or(0, |(i, _)| *i);
            if let Some((at, leaf)) = leaves.next_if(|(_, l)| l.uid == event.uid()) {
                waiting.retain(|v| at < v.before + REACH);
                if !waiting.is_empty() {
                    leaf.taken = views.taken(leaf, &mut waiting);
                }
            } else if trace.kind(event) == EventKind::CpuOp && waiting.len() < MOST {
                waiting.extend(views.takes(event).map(|cut| View { event, cut, before: next }));
            }
        }
    }
}

/// A part taken out of a tensor, and the leaf before which it was.
struct View {
    event: EventId,
    cut: Cut,
    before: usize,
}

/// What views give, each way to take a part read once.
struct Views<'a> {
    trace: &'a Trace,
    takes: RapidHashMap<StrId, Option<Cut>>,
    parts: RapidHashMap<[Option<StrId>; 3], Part>,
}

impl Views<'_> {
    fn takes(&mut self, event: EventId) -> Option<Cut> {
        let (trace, name) = (self.trace, self.trace.name_id(event));
        let known = || TAKING.iter().find(|(taking, _)| *taking == trace.text(name)).map(|(_, cut)| *cut);
        *self.takes.entry(name).or_insert_with(known)
    }

    /// A bit for each input that a view gave; each gives one.
    fn taken(&mut self, leaf: &Leaf, waiting: &mut Vec<View>) -> u8 {
        let trace = self.trace;
        // The destination of a copy is written, not read.
        let read = usize::from(&*leaf.name == "aten::copy_");
        let mut taken = 0;
        for (i, dims) in leaf.inputs.dims.as_deref().unwrap_or_default().iter().enumerate().take(8).skip(read) {
            let Some(input) = dims.shape().filter(|s| !s.is_empty()) else { continue };
            let gave = waiting.iter().position(|view| {
                let [dims, values] = [Key::InputDims, Key::ConcreteInputs].map(|key| trace.text_id(view.event, key));
                let of = || Part::of(view.cut, [dims, values].map(|id| id.map(|id| trace.text(id))));
                let part = self.parts.entry([Some(trace.name_id(view.event)), dims, values]).or_insert_with(of);
                part.is(input)
            });
            if let Some(gave) = gave {
                waiting.remove(gave);
                taken |= 1 << i;
            }
        }
        taken
    }
}

/// A tensor of which one dimension was cut.
struct Part {
    whole: Vec<i64>,
    cut: Cut,
    /// The dimension, where it is recorded.
    along: Option<usize>,
}

impl Part {
    /// Of the shapes and values of a view's arguments: the tensor, and the dimension.
    fn of(cut: Cut, [dims, concrete]: [Option<&str>; 2]) -> Self {
        let shapes: Vec<serde_json::Value> = dims.and_then(|d| serde_json::from_str(d).ok()).unwrap_or_default();
        let whole: Vec<i64> =
            shapes.into_iter().next().and_then(|w| serde_json::from_value(w).ok()).unwrap_or_default();
        let values: Vec<String> = concrete.and_then(|c| serde_json::from_str(c).ok()).unwrap_or_default();
        let dimension = values.get(1).and_then(|d| d.parse::<i64>().ok());
        let from_first = dimension.map(|d| if d < 0 { d + whole.len() as i64 } else { d });
        Self { along: from_first.and_then(|d| usize::try_from(d).ok()), cut, whole }
    }

    /// Whether it has a shape. A matrix may have been transposed since.
    fn is(&self, shape: &[i64]) -> bool {
        let rank = shape.len() + usize::from(self.cut == Cut::Gone);
        let turned: Vec<i64> = shape.iter().rev().copied().collect();
        let fits = |along: usize| self.is_cut(along, shape) || self.is_cut(along, &turned);
        self.whole.len() == rank && self.along.map_or_else(|| (0..rank).any(fits), fits)
    }

    /// Whether a shape is that of the tensor but for this dimension.
    fn is_cut(&self, along: usize, shape: &[i64]) -> bool {
        let is_rest = |(i, _): &(usize, &i64)| *i != along;
        let rest = self.whole.iter().enumerate().filter(is_rest).map(|(_, d)| d);
        match self.cut {
            Cut::Gone => rest.eq(shape),
            Cut::Shorter => {
                let is_shorter = self.whole.get(along).zip(shape.get(along)).is_some_and(|(whole, part)| part < whole);
                is_shorter && rest.eq(shape.iter().enumerate().filter(is_rest).map(|(_, d)| d))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jarvis_trace::{Summary, TraceBuilder, TreeOptions};

    /// Which inputs of two products are parts, after these views: name, what of, along which dimension.
    fn taken(views: &[(&str, &str, Option<i64>)]) -> [u8; 2] {
        let mut b = TraceBuilder::new();
        for (i, (name, whole, dimension)) in views.iter().enumerate() {
            let view = b.cpu_op(name, i as f64, 0.5).arg("Input Dims", format!("[{whole}, [], []]"));
            if let Some(d) = dimension {
                view.arg("Concrete Inputs", format!("[\"\", \"{d}\", \"0\"]"));
            }
        }
        for n in 0..2 {
            let at = 100.0 + 50.0 * f64::from(n);
            b.cpu_op("aten::mm", at, 20.0).arg("Input Dims", "[[64, 128], [128, 32]]");
            b.launch("cudaLaunchKernel", at + 2.0, 2.0, i64::from(n));
            b.kernel("k", 1000.0 + at, 4.0, i64::from(n));
        }
        let trace = b.build();
        let tree = Tree::build(&trace, TreeOptions::default().with_python());
        let leaves = Program::of(&trace, &tree, &Summary::of(&trace), &jarvis_perf::tables::ArgLists::default()).leaves;
        [leaves[0].taken, leaves[1].taken]
    }

    #[test]
    fn operands_that_views_gave_are_parts() {
        let (rows, weights) = ("[8, 64, 128]", "[8, 128, 32]");
        assert_eq!(taken(&[]), [0, 0]);
        assert_eq!(taken(&[("aten::select", rows, None), ("aten::select", weights, None)]), [0b11, 0]);
        assert_eq!(taken(&[("aten::unbind", weights, Some(0))]), [0b10, 0]);
        let twice = ("aten::select", weights, Some(0));
        assert_eq!(taken(&[twice, twice]), [0b10, 0b10], "a view waits for its use");
        assert_eq!(taken(&[("aten::select", "[64, 8, 128]", Some(-2))]), [0b01, 0], "along any dimension");
        assert_eq!(taken(&[("aten::select", "[64, 8, 128]", Some(0))]), [0, 0], "but along that");
        assert_eq!(taken(&[("aten::select", "[8, 32, 128]", Some(0))]), [0b10, 0], "and transposed");
        for other in ["[8, 64, 64]", "[64, 128]", "[]", "oops"] {
            assert_eq!(taken(&[("aten::select", other, None)]), [0, 0], "{other}");
        }
        assert_eq!(taken(&[("aten::select", rows, Some(7))]), [0, 0]);
        assert_eq!(taken(&[("aten::slice", "[512, 128]", Some(0))]), [0b01, 0], "some rows");
        assert_eq!(taken(&[("aten::slice", "[64, 1024]", Some(-1))]), [0b01, 0], "some columns");
        assert_eq!(taken(&[("aten::slice", "[512, 128]", Some(1))]), [0, 0], "but along that");
        assert_eq!(taken(&[("aten::slice", "[64, 128]", Some(1))]), [0, 0], "all of it");
        assert_eq!(taken(&[("aten::slice", rows, Some(0))]), [0, 0], "a slice keeps its dimensions");
        assert_eq!(taken(&[("aten::relu", rows, Some(0))]), [0, 0]);
    }
}

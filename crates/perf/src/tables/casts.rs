//! Calls that cast their arguments and then call their own operation again, as autocast has them: the types they were
//! given are not those that are computed in, so the call inside stands for the work, and each cast for itself. So does
//! the call inside a function that is recorded without what decides the cost, and the copies that a copy is made of: one
//! over a link between tensors that do not lie alike in memory is a copy over the link and a rearrangement on the device.

use jarvis_trace::{EventId, EventKind};
use rapidhash::RapidHashMap;

use super::context::Context;
use crate::call::InputLists;
use crate::dtype;
use crate::ops;
use crate::parity::Quirks;

/// How far above the working call the casting one may be.
const FARTHEST: usize = 10;

/// A function of the attention libraries. Its window is a pair, of which the trace keeps nothing; the operation inside it
/// has the two numbers.
const WINDOWLESS: &str = "FlashAttnFunc";

/// The operation that may be made of others of its name, whatever their types.
const COPY: &str = "aten::copy_";

/// Category of what does its work.
const ATTENTION: &str = "SDPA_fwd";

/// The calls of a trace that only cast, and those that do their work.
#[derive(Debug, Clone, Default)]
pub(crate) struct Casts {
    /// By casting call: the call inside it that works on other types.
    inside: RapidHashMap<EventId, EventId>,
    /// By working call: the nearest casting call around it.
    around: RapidHashMap<EventId, EventId>,
}

impl Casts {
    /// Whether the work of a call is that of another one inside it.
    pub(crate) fn only_casts(&self, call: EventId) -> bool {
        self.inside.contains_key(&call)
    }

    /// The call that does the work of this one: itself, unless it only casts.
    pub(crate) fn working(&self, call: EventId) -> EventId {
        std::iter::successors(Some(call), |e| self.inside.get(e).copied()).last().unwrap_or(call)
    }

    /// The casting calls around a working one, nearest first.
    pub(crate) fn around(&self, call: EventId) -> impl Iterator<Item = EventId> + '_ {
        std::iter::successors(self.around.get(&call).copied(), |e| self.around.get(e).copied())
    }

    fn add(&mut self, outer: EventId, inner: EventId) {
        self.inside.entry(outer).or_insert(inner);
        self.around.entry(inner).or_insert(outer);
    }
}

impl Context<'_> {
    /// Notes the calls around a modelled one that only cast for it, or that it says more than. A call of another operation
    /// that makes a row of its own is no way to it.
    pub(crate) fn note_casts(&mut self, inner: EventId) {
        let (trace, tree) = (self.trace, self.tree);
        let name = trace.name_id(inner);
        for outer in tree.ancestors(inner).take(FARTHEST) {
            match trace.kind(outer) {
                EventKind::CpuOp if trace.name_id(outer) == name => {
                    let (given, used) = (self.inputs_of(outer), self.inputs_of(inner));
                    let passes_on =
                        trace.text(name) == COPY || casts(self.inputs.parsed(given), self.inputs.parsed(used));
                    if passes_on && !self.works_itself(outer) {
                        self.casts.add(outer, inner);
                    }
                }
                EventKind::CpuOp if self.is_told_by(outer, inner) => {
                    if !self.works_itself(outer) {
                        self.casts.add(outer, inner);
                    }
                }
                EventKind::CpuOp if !self.has_model(outer) => {}
                EventKind::PythonFunction => {}
                _ => return,
            }
        }
    }

    /// Whether the cost of a call is told by another one inside it alone.
    fn is_told_by(&self, outer: EventId, inner: EventId) -> bool {
        let (outer, inner) = (self.trace.name(outer), self.trace.name(inner));
        outer == WINDOWLESS
            && !self.quirks.attention_functions_make_rows
            && ops::find(inner).is_some_and(|entry| entry.category == ATTENTION)
    }

    /// Whether a call launches something that no call inside it does: then it does more than to cast.
    fn works_itself(&self, call: EventId) -> bool {
        let (trace, tree) = (self.trace, self.tree);
        let through_calls = |c: EventId| matches!(trace.kind(c), EventKind::CpuOp | EventKind::PythonFunction);
        !tree.launched(call).is_empty() || tree.children(call).any(|c| !through_calls(c) && tree.gpu_event_count(c) > 0)
    }

    /// Backward wrappers of a call's work alone: not those of the casts before it.
    pub(crate) fn backward_wrappers(&self, forward: EventId) -> Vec<EventId> {
        let working = self.casts.working(forward);
        let of_casting = self.casts.around(working).flat_map(|outer| self.tree.backward_of(outer));
        of_casting.chain(self.tree.subtree_backward(working)).collect()
    }

    /// Whether a call itself caused backward work, under the name of its casting calls or its own.
    pub(crate) fn has_backward(&self, forward: EventId) -> bool {
        let mut calls = std::iter::once(forward).chain(self.casts.around(forward));
        calls.any(|e| self.tree.backward_of(e).len() > 0)
    }
}

/// Whether a tensor has another type inside than it was given with. A number that becomes a tensor is no cast.
fn casts(given: &InputLists, used: &InputLists) -> bool {
    let (Some(given), Some(used)) = (&given.types, &used.types) else { return false };
    let is_tensor = |name: &str| name != "Scalar" && dtype::size(name, &Quirks::NONE).is_some();
    given.iter().zip(used.iter()).any(|(from, to)| from != to && is_tensor(from) && is_tensor(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(types: &[&str]) -> InputLists {
        InputLists { types: Some(types.iter().map(|&t| t.to_owned()).collect()), ..InputLists::default() }
    }

    #[test]
    fn only_tensors_are_cast() {
        assert!(casts(&of(&["c10::BFloat16", "float"]), &of(&["c10::BFloat16", "c10::BFloat16"])));
        assert!(casts(&of(&["c10::BFloat16", "ScalarList", "float"]), &of(&["float", "ScalarList", "float"])));
        // Overloads of one operation: a number as a tensor, more arguments.
        assert!(!casts(&of(&["float", "Scalar"]), &of(&["float", "double"])));
        assert!(!casts(&of(&["float", ""]), &of(&["float", "ScalarList", "Scalar", ""])));
        assert!(!casts(&InputLists::default(), &of(&["float"])));
    }

    #[test]
    fn the_innermost_call_works() {
        let [outer, middle, inner] = [1, 2, 3].map(EventId::from_uid);
        let mut casts = Casts::default();
        casts.add(outer, middle);
        casts.add(middle, inner);
        assert_eq!([outer, middle, inner].map(|e| casts.working(e)), [inner; 3]);
        assert_eq!(casts.around(inner).collect::<Vec<_>>(), [middle, outer]);
        assert!(casts.only_casts(middle) && !casts.only_casts(inner));
    }
}

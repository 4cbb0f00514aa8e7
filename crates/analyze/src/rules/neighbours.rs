//! What a row could be one kernel with: the operations right before and after it that pass a tensor on.
//!
//! A trace does not tell which tensor goes where. What one operation writes is taken for what the next one reads only if
//! shape and type allow it; everything else that happens to be launched next to it shares nothing that a fusion saves.

use super::cx::CategoryCx;
use crate::patterns::scene::{Look, Operand, agree};
use crate::prepared::Row;
use crate::program::Leaf;
use crate::program::kind::Kind;
use crate::texts::quoted;

/// Operations next to a row's first call that hand it a tensor or take one from it.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    /// Names between backticks, each once.
    pub(crate) names: Vec<String>,
    /// Bytes of a call that are neither written nor read any more once they are one.
    pub(crate) bytes: f64,
}

impl Neighbours {
    pub(crate) fn of(cx: &CategoryCx<'_>, row: &Row) -> Self {
        let leaves = &cx.prepared.program.leaves;
        let Some(at) = leaves.iter().position(|l| l.row == Some(row.id)) else { return Self::default() };
        let own = &leaves[at];
        // Steps of the same call are the operation itself and nothing to fuse it with.
        let last = at + leaves[at + 1..].iter().take_while(|l| same_call(own, l)).count();
        let beside = |i: Option<usize>| i.and_then(|i| leaves.get(i)).filter(|l| together(own, l)).map(Look::new);
        let (before, after) = (beside(at.checked_sub(1)), beside(Some(last + 1)));
        let (begin, end) = (Look::new(own), Look::new(&leaves[last]));
        let mut found = Self::default();
        let pairs = [(before.as_ref(), before.as_ref(), Some(&begin)), (after.as_ref(), Some(&end), after.as_ref())];
        for (neighbour, earlier, later) in pairs {
            let (Some(neighbour), Some(earlier), Some(later)) = (neighbour, earlier, later) else { continue };
            let Some(tensor) = passed_on(earlier, later).filter(|_| is_light(neighbour.kind)) else { continue };
            // What is overwritten in place has to be written all the same.
            found.bytes += tensor.bytes() * if earlier.in_place { 1.0 } else { 2.0 };
            let name = quoted(neighbour.name);
            if !found.names.contains(&name) {
                found.names.push(name);
            }
        }
        found
    }
}

/// Whether both are steps of one call of their row's operation.
fn same_call(a: &Leaf, b: &Leaf) -> bool {
    a.row == b.row && a.around.iter().any(|outer| b.around.contains(outer))
}

fn together(a: &Leaf, b: &Leaf) -> bool {
    a.thread == b.thread && a.module == b.module && a.step == b.step
}

/// Whether a compiler makes it a part of the kernel next to it.
fn is_light(kind: Kind) -> bool {
    kind.is_fusible() || matches!(kind, Kind::Norm | Kind::Softmax | Kind::SoftmaxBackward | Kind::Fill)
}

/// The operand of the later operation that can be the result of the earlier one.
fn passed_on<'a>(earlier: &Look<'_>, later: &'a Look<'_>) -> Option<&'a Operand<'a>> {
    let result = earlier.result()?;
    later.read().iter().find(|o| agree(&result, o.dims) && earlier.may_give(o.dtype))
}

//! What turns logits into log-probabilities: a log-softmax, a softmax and its logarithm, or the logarithm of a sum of
//! exponentials that logits are held against.

use super::claims::Claims;
use super::scene::{Look, Operand, Scene};
use crate::program::Direction;
use crate::program::kind::Kind;

/// Leaves looked at on either side: work on labels may come between.
pub(super) const REACH: usize = 14;
/// Work on so small a part of the logits is on labels, weights of classes or losses of rows.
const SMALL: i64 = 64;

/// Which of them it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One call: log-probabilities of all classes.
    LogSoftmax,
    /// A softmax, then the logarithm of all that it gives.
    Logarithm,
    /// A softmax from which elements are picked before their logarithm is taken.
    Picked,
    /// The largest logit of each row and the sum of exponentials: one number for each row.
    Sum,
}

/// Where logits are normalized.
#[derive(Debug, Clone)]
pub(super) struct Normalizer {
    pub(super) form: Form,
    /// Its leaves; the first one reads the logits.
    pub(super) leaves: Vec<usize>,
}

impl Normalizer {
    /// The one that begins at a leaf.
    pub(super) fn at(scene: &Scene<'_>, claims: &Claims, at: usize) -> Option<Self> {
        let leaf = scene.leaf(at);
        if leaf.direction == Direction::Backward || leaf.is_repeated || !claims.is_free(at) || !is_over_last(scene, at)
        {
            return None;
        }
        match scene.look(at).base {
            "_log_softmax" => Some(Self { form: Form::LogSoftmax, leaves: vec![at] }),
            "_softmax" => Self::of_softmax(scene, claims, at),
            "amax" | "max" => Self::of_sum(scene, claims, at),
            _ => None,
        }
    }

    pub(super) fn last(&self) -> usize {
        self.leaves.last().copied().unwrap_or_default()
    }

    /// A softmax of which the logarithm is taken, with nothing between but what keeps it from being that of zero.
    fn of_softmax(scene: &Scene<'_>, claims: &Claims, softmax: usize) -> Option<Self> {
        let n = scene.look(softmax).numel();
        let mut leaves = vec![softmax];
        let mut is_picked = false;
        for i in scene.after(softmax).take(REACH) {
            let look = scene.look(i);
            if scene.leaf(i).direction == Direction::Backward {
                return None;
            }
            if is_small(look, n) {
                if is_picked && look.base == "log" {
                    return Some(Self { form: Form::Picked, leaves });
                }
                continue;
            }
            let keeps_off_zero = matches!(look.base, "add" | "clamp" | "clamp_min" | "clamp_max");
            match look.base {
                _ if is_picked || !claims.is_free(i) || look.numel() != n => return None,
                "log" => {
                    leaves.push(i);
                    return Some(Self { form: Form::Logarithm, leaves });
                }
                _ if keeps_off_zero && look.read().iter().filter(|o| !is_small_operand(o, n)).count() == 1 => {
                    leaves.push(i);
                }
                base if picks(look.kind, base) => is_picked = true,
                _ => return None,
            }
        }
        None
    }

    /// The largest element of each row, the differences from it, their exponentials, and the sum of those.
    fn of_sum(scene: &Scene<'_>, claims: &Claims, max: usize) -> Option<Self> {
        let look = scene.look(max);
        let n = look.numel();
        let makes_rows = |look: &Look<'_>| look.kind == Kind::Reduce && look.numel() == n && !look.leaves_a_number;
        if !makes_rows(look) {
            return None;
        }
        let mut leaves = vec![max];
        for i in scene.after(max).take(REACH) {
            let look = scene.look(i);
            if is_small(look, n) {
                continue;
            }
            let is_next = match leaves.len() {
                1 => look.base == "sub",
                2 => look.base == "exp",
                _ => look.base == "sum" && makes_rows(look) && is_over_last(scene, i),
            };
            if !is_next || look.numel() != n || !claims.is_free(i) || scene.leaf(i).direction == Direction::Backward {
                return None;
            }
            leaves.push(i);
            if look.base == "sum" {
                return Some(Self { form: Form::Sum, leaves });
            }
        }
        None
    }
}

/// Whether an operation picks elements by their number.
pub(super) fn picks(kind: Kind, base: &str) -> bool {
    kind == Kind::Index && matches!(base, "gather" | "index" | "index_select" | "take_along_dim")
}

/// Whether work is on a small part of so many elements alone.
pub(super) fn is_small(look: &Look<'_>, n: i64) -> bool {
    !matches!(look.kind, Kind::Matrix | Kind::Grouped) && look.numel().saturating_mul(SMALL) <= n
}

pub(super) fn is_small_operand(operand: &Operand<'_>, n: i64) -> bool {
    operand.numel().saturating_mul(SMALL) <= n
}

/// Whether an operation goes over the last dimension, as far as its arguments tell.
pub(super) fn is_over_last(scene: &Scene<'_>, at: usize) -> bool {
    let rank = scene.look(at).full.len() as i64;
    let concrete = scene.leaf(at).inputs.concrete.as_ref().and_then(|c| c.get(1));
    let dim = concrete.and_then(|c| c.trim_matches(['[', ']']).parse::<i64>().ok());
    dim.is_none_or(|d| d == -1 || d == rank - 1)
}

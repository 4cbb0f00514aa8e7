//! Two pieces of work, side by side where there is a thread to spare.

use crate::side_by_side::both;

/// Runs both; the first on a thread of its own if asked to.
pub(crate) fn join<A: Send, B>(side_by_side: bool, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B) -> (A, B) {
    if !side_by_side {
        return (a(), b());
    }
    both(a, b)
}

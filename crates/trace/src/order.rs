//! Sorting of lists that are not long.
//!
//! Every `sort_by` brings some ten kilobytes of code of its own, and there are a hundred places that put a handful of
//! rows in order: together a seventh of the program. Here they share one sort, of positions. Lists with an entry per
//! event are sorted by the standard library.

use std::cmp::Ordering;

/// Stable sorting by the one shared sort.
pub trait InOrder<T> {
    /// Like `sort_by`.
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Like `sort_by_key`.
    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> InOrder<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut order = positions(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        // Place `i` gets what lies at `order[i]`: each cycle of the permutation is walked once.
        for start in 0..order.len() {
            let mut at = start;
            loop {
                let next = std::mem::replace(&mut order[at], at);
                if next == start {
                    break;
                }
                self.swap(at, next);
                at = next;
            }
        }
    }
}

/// The positions `0..len` in order.
fn positions(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::InOrder;

    proptest! {
        #[test]
        fn equals_the_stable_sort_of_the_standard_library(keys in prop::collection::vec(0u8..20, 0..200)) {
            let mut ours: Vec<(u8, usize)> = keys.iter().copied().zip(0..).collect();
            let mut theirs = ours.clone();
            theirs.sort_by_key(|x| std::cmp::Reverse(x.0));
            ours.order_by(|a, b| b.0.cmp(&a.0));
            prop_assert_eq!(&ours, &theirs);
            theirs.sort_by_key(|x| x.0 / 3);
            ours.order_by_key(|x| x.0 / 3);
            prop_assert_eq!(ours, theirs);
        }
    }
}

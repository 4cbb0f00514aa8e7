//! Sets of time spans: the arithmetic behind busy, idle and exposed time. Pure; knows no event.
//!
//! The unit of time is a parameter, so the same code computes in whole nanoseconds and in the float microseconds of
//! the reference (see [`crate::Us`]).

use std::ops::{Add, Sub};

/// A point in time or a length of it.
pub trait Time: Copy + Ord + Add<Output = Self> + Sub<Output = Self> {
    /// No time at all.
    const ZERO: Self;
}

/// Disjoint spans in order of time. Spans that touch are one span; a span of no length is kept where nothing covers
/// it, because it still marks that something happened there (it can stretch [`IntervalSet::extent`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IntervalSet<T> {
    spans: Vec<(T, T)>,
}

impl<T> Default for IntervalSet<T> {
    fn default() -> Self {
        Self { spans: Vec::new() }
    }
}

impl<T: Time> FromIterator<(T, T)> for IntervalSet<T> {
    fn from_iter<I: IntoIterator<Item = (T, T)>>(iter: I) -> Self {
        Self::merge(iter.into_iter().collect())
    }
}

impl<T: Time> IntervalSet<T> {
    /// The union of spans given in any order. A span that ends before it starts counts as one of no length.
    pub fn merge(mut spans: Vec<(T, T)>) -> Self {
        if !spans.is_sorted_by_key(|s| s.0) {
            // Spans with equal starts end up joined, so their order does not matter.
            spans.sort_unstable_by_key(|s| s.0);
        }
        // Joined in place: the write position never overtakes the reading one.
        let mut kept = 0usize;
        for i in 0..spans.len() {
            let (start, end) = (spans[i].0, spans[i].1.max(spans[i].0));
            if kept > 0 && start <= spans[kept - 1].1 {
                spans[kept - 1].1 = spans[kept - 1].1.max(end);
            } else {
                spans[kept] = (start, end);
                kept += 1;
            }
        }
        spans.truncate(kept);
        Self { spans }
    }

    /// The spans, disjoint and in order of time.
    pub fn spans(&self) -> &[(T, T)] {
        &self.spans
    }

    /// Whether there is no span, not even one of no length.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Time covered.
    pub fn measure(&self) -> T {
        self.spans.iter().fold(T::ZERO, |sum, &(start, end)| sum + (end - start))
    }

    /// First start and last end.
    pub fn extent(&self) -> Option<(T, T)> {
        Some((self.spans.first()?.0, self.spans.last()?.1))
    }

    /// What lies between the spans.
    pub fn gaps(&self) -> impl Iterator<Item = (T, T)> + '_ {
        self.spans.windows(2).map(|pair| (pair[0].1, pair[1].0))
    }

    /// What either set covers.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (mut a, mut b) = (self.spans.iter().peekable(), other.spans.iter().peekable());
        let mut all = Vec::with_capacity(self.spans.len() + other.spans.len());
        while let (Some(x), Some(y)) = (a.peek(), b.peek()) {
            let next = if x.0 <= y.0 { a.next() } else { b.next() };
            all.extend(next);
        }
        all.extend(a);
        all.extend(b);
        Self::merge(all)
    }

    /// What both sets cover. Spans of no length have no part in it.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let (mut i, mut j) = (0, 0);
        let mut spans = Vec::new();
        while let (Some(&a), Some(&b)) = (self.spans.get(i), other.spans.get(j)) {
            let (start, end) = (a.0.max(b.0), a.1.min(b.1));
            if start < end {
                spans.push((start, end));
            }
            if a.1 < b.1 {
                i += 1;
            } else {
                j += 1;
            }
        }
        Self { spans }
    }

    /// What this set covers and the other does not. Spans of no length have no part in it.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let mut spans = Vec::new();
        let mut first = 0;
        for &(start, end) in &self.spans {
            while other.spans.get(first).is_some_and(|o| o.1 <= start) {
                first += 1;
            }
            let mut open = start;
            // The last one seen may reach into the next span too, so `first` stays where it is.
            for &(from, to) in other.spans[first..].iter().take_while(|o| o.0 < end).filter(|o| o.0 < o.1) {
                if open < from {
                    spans.push((open, from));
                }
                open = open.max(to);
            }
            if open < end {
                spans.push((open, end));
            }
        }
        Self { spans }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Ns, Us};

    fn ns(spans: &[(i64, i64)]) -> IntervalSet<Ns> {
        spans.iter().map(|&(a, b)| (Ns(a), Ns(b))).collect()
    }

    #[test]
    fn touching_spans_join() {
        // 0    5    10   15   20
        // |-------|
        //      |------|
        //             |--|
        //                   |--|      => |----------------|  |--|
        assert_eq!(ns(&[(12, 15), (18, 21), (0, 8), (5, 12)]).spans(), [(Ns(0), Ns(15)), (Ns(18), Ns(21))]);
    }

    #[test]
    fn a_span_of_no_length_stretches_the_extent_only() {
        // 0    5    10
        // .    |----|        extent 0..10, measure 5
        let set = ns(&[(5, 10), (0, 0)]);
        assert_eq!(set.extent(), Some((Ns(0), Ns(10))));
        assert_eq!(set.measure(), Ns(5));
        assert_eq!(set.gaps().collect::<Vec<_>>(), [(Ns(0), Ns(5))]);
        assert_eq!(ns(&[(7, 3)]).spans(), [(Ns(7), Ns(7))], "a backward span has no length");
    }

    #[test]
    fn subtract_keeps_the_gaps() {
        // 0    5    10   15   20   25   30
        //      |---------|    |---------|     self
        // |------|    |----------|    .       other (a point does not cut)
        //        |----|          |------|     self − other
        let left = ns(&[(5, 15), (20, 30)]);
        let right = ns(&[(0, 7), (12, 23), (28, 28)]);
        assert_eq!(left.subtract(&right), ns(&[(7, 12), (23, 30)]));
        assert_eq!(left.intersect(&right), ns(&[(5, 7), (12, 15), (20, 23)]));
        assert_eq!(left.union(&right), ns(&[(0, 30)]));
    }

    #[test]
    fn one_span_may_cut_two() {
        //   |----|   |----|        self
        //      |-------|           other
        //   |--|       |--|
        assert_eq!(ns(&[(0, 5), (8, 13)]).subtract(&ns(&[(3, 10)])), ns(&[(0, 3), (10, 13)]));
    }

    fn spans() -> impl Strategy<Value = Vec<(i64, i64)>> {
        prop::collection::vec((0i64..200, 0i64..30).prop_map(|(start, length)| (start, start + length)), 0..40)
    }

    /// Float microseconds on the grid that timestamps of a real trace lie on.
    fn us(spans: &[(i64, i64)]) -> IntervalSet<Us> {
        let at = |t: i64| Us(1.4e12 + t as f64 / 4096.0);
        spans.iter().map(|&(a, b)| (at(a), at(b))).collect()
    }

    fn laws<T: Time + std::fmt::Debug>(a: &IntervalSet<T>, b: &IntervalSet<T>) {
        let (union, both) = (a.union(b), a.intersect(b));
        assert_eq!(union.measure() + both.measure(), a.measure() + b.measure());
        assert_eq!(union, b.union(a));
        assert_eq!(both, b.intersect(a));
        let rest = a.subtract(b);
        assert!(rest.intersect(b).is_empty());
        assert_eq!(rest.measure() + both.measure(), a.measure());
        assert_eq!(rest.union(&b.subtract(a)).union(&both).measure(), union.measure(), "three parts make the union");
        assert_eq!(union.subtract(b).measure(), rest.measure());
        assert_eq!(union.intersect(a).measure(), a.measure(), "absorption");
        assert_eq!(IntervalSet::merge(union.spans().to_vec()), union, "merging again changes nothing");
        for set in [&union, &both, &rest] {
            assert!(set.spans().windows(2).all(|w| w[0].1 < w[1].0), "spans are apart: {set:?}");
            assert!(set.extent().is_none_or(|(s, e)| set.gaps().fold(set.measure(), |m, g| m + (g.1 - g.0)) == e - s));
        }
    }

    proptest! {
        #[test]
        fn set_laws_hold(a in spans(), b in spans()) {
            laws(&ns(&a), &ns(&b));
            laws(&us(&a), &us(&b));
        }

        #[test]
        fn three_sets_distribute(a in spans(), b in spans(), c in spans()) {
            let (a, b, c) = (ns(&a), ns(&b), ns(&c));
            prop_assert_eq!(a.union(&b).union(&c), a.union(&b.union(&c)));
            prop_assert_eq!(a.intersect(&b).intersect(&c), a.intersect(&b.intersect(&c)));
            let (left, right) = (a.intersect(&b.union(&c)), a.intersect(&b).union(&a.intersect(&c)));
            prop_assert_eq!(left.measure(), right.measure());
            prop_assert_eq!(a.subtract(&b).subtract(&c).measure(), a.subtract(&b.union(&c)).measure());
        }

        #[test]
        fn order_does_not_matter((a, shuffled) in spans().prop_flat_map(|v| (Just(v.clone()), Just(v).prop_shuffle()))) {
            prop_assert_eq!(ns(&a), ns(&shuffled));
            prop_assert_eq!(us(&a), us(&shuffled));
        }
    }
}

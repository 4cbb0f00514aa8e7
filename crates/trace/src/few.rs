//! Lists that nearly always have one item.

use std::ops::Deref;
use std::slice;

/// A list of which there are many, nearly all of one item: that takes no memory of its own.
#[derive(Debug, Clone)]
pub struct Few<T>(Items<T>);

#[derive(Debug, Clone)]
enum Items<T> {
    One(T),
    Any(Box<[T]>),
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut items = items.into_iter().fuse();
        Self(match (items.next(), items.next()) {
            (Some(one), None) => Items::One(one),
            (first, second) => Items::Any(first.into_iter().chain(second).chain(items).collect()),
        })
    }
}

impl<T: Clone> From<&[T]> for Few<T> {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T> Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Items::One(one) => slice::from_ref(one),
            Items::Any(items) => items,
        }
    }
}

impl<'a, T> IntoIterator for &'a Few<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_items_stays_in_order() {
        for n in 0..4 {
            let items: Vec<u32> = (0..n).collect();
            let few: Few<u32> = items.as_slice().into();
            assert_eq!(*few, *items);
            assert_eq!((&few).into_iter().count(), items.len());
        }
        assert_eq!(size_of::<Few<u32>>(), size_of::<Box<[u32]>>());
    }
}

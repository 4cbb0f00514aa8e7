//! A value of each side of a comparison.

/// A value of the reference and the same of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Both<T> {
    /// Shows what is achievable.
    pub reference: T,
    /// Is to be improved.
    pub target: T,
}

impl<T> Both<T> {
    /// The same of each side.
    pub fn of<S>(sides: Both<S>, value: impl Fn(S) -> T) -> Self {
        Self { reference: value(sides.reference), target: value(sides.target) }
    }

    /// Both sides, to look at.
    pub fn as_ref(&self) -> Both<&T> {
        Both { reference: &self.reference, target: &self.target }
    }

    /// Both sides, to change.
    pub fn as_mut(&mut self) -> Both<&mut T> {
        Both { reference: &mut self.reference, target: &mut self.target }
    }

    /// Both sides together.
    pub fn zip<U>(self, other: Both<U>) -> Both<(T, U)> {
        Both { reference: (self.reference, other.reference), target: (self.target, other.target) }
    }
}

impl Both<f64> {
    /// What the target takes more.
    pub fn delta(&self) -> f64 {
        self.target - self.reference
    }

    /// Target over reference; `None` if the reference has nothing.
    pub fn ratio(&self) -> Option<f64> {
        (self.reference > 0.0).then(|| self.target / self.reference)
    }

    /// What the target takes more, in percent of the reference.
    pub fn delta_percent(&self) -> Option<f64> {
        self.ratio().map(|r| 100.0 * (r - 1.0))
    }

    /// Adds the same of another.
    pub(crate) fn add(&mut self, other: Self) {
        self.reference += other.reference;
        self.target += other.target;
    }
}

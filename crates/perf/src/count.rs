//! Whole numbers that can't overflow into nonsense: element, byte and operation counts.

use std::iter::Sum;
use std::ops::{Add, Mul, Sub};

use crate::value::Value;

/// A count of elements, bytes or operations.
///
/// 128 bits hold every product a real call can give exactly; the shapes of a broken trace saturate instead of
/// panicking. Converted to `f64` once, at the end of a formula.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(i128);

impl Count {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// One element.
    pub const ONE: Self = Self(1);

    /// Elements of a shape: the product of its sizes, 1 for the empty shape.
    pub fn of(shape: &[i64]) -> Self {
        shape.iter().fold(Self::ONE, |n, &d| n * d)
    }

    /// The number as a float; exact below 2⁵³.
    pub fn to_f64(self) -> f64 {
        self.0 as f64
    }

    /// The number as an `i64`, clamped to its range.
    pub fn to_i64(self) -> i64 {
        i64::try_from(self.0).unwrap_or(if self.0 < 0 { i64::MIN } else { i64::MAX })
    }

    /// Quotient rounded down; `None` if the divisor is zero.
    pub fn div_floor(self, divisor: impl Into<Self>) -> Option<Self> {
        let divisor = divisor.into().0;
        let quotient = self.0.checked_div(divisor)?;
        let inexact = self.0.checked_rem(divisor)? != 0;
        Some(Self(if inexact && ((self.0 < 0) != (divisor < 0)) { quotient - 1 } else { quotient }))
    }

    /// Quotient rounded up; `None` if the divisor is zero.
    pub fn div_ceil(self, divisor: impl Into<Self>) -> Option<Self> {
        let negated = Self(self.0.checked_neg()?);
        Some(Self(negated.div_floor(divisor)?.0.checked_neg()?))
    }

    /// The number itself if `condition` holds, otherwise zero.
    #[must_use]
    pub fn when(self, condition: bool) -> Self {
        if condition { self } else { Self::ZERO }
    }
}

impl From<i64> for Count {
    fn from(n: i64) -> Self {
        Self(i128::from(n))
    }
}

impl From<usize> for Count {
    fn from(n: usize) -> Self {
        Self(n as i128)
    }
}

impl From<Count> for Value {
    fn from(n: Count) -> Self {
        Self::Int(n.to_i64())
    }
}

impl Add for Count {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Count {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Mul for Count {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Self(self.0.saturating_mul(other.0))
    }
}

impl Mul<i64> for Count {
    type Output = Self;
    fn mul(self, other: i64) -> Self {
        self * Self::from(other)
    }
}

impl Mul<Count> for i64 {
    type Output = Count;
    fn mul(self, other: Count) -> Count {
        Count::from(self) * other
    }
}

impl Sum for Count {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::ZERO, Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_multiply_and_saturate() {
        assert_eq!(Count::of(&[]), Count::ONE);
        assert_eq!(Count::of(&[2, 3, 4]), Count::from(24_i64));
        assert_eq!(Count::of(&[5, 0, 7]), Count::ZERO);
        let huge = Count::of(&[i64::MAX; 9]);
        assert_eq!(huge * 2 + huge, huge);
        assert_eq!(huge.to_i64(), i64::MAX);
    }

    #[test]
    fn division_rounds_as_floor_and_ceil() {
        let seven = Count::from(7_i64);
        assert_eq!(seven.div_floor(2_i64), Some(Count::from(3_i64)));
        assert_eq!(seven.div_ceil(2_i64), Some(Count::from(4_i64)));
        assert_eq!(Count::from(-7_i64).div_floor(2_i64), Some(Count::from(-4_i64)));
        assert_eq!(seven.div_floor(0_i64), None);
        assert_eq!(seven.div_ceil(0_i64), None);
    }
}

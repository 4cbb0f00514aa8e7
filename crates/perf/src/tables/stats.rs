//! Sums and spreads of the values of a group. Pure.

use jarvis_trace::timeline::compensated_sum;
use smallvec::SmallVec;

/// Numbers of a group: most groups are small, and there may be many.
pub(crate) type Numbers = SmallVec<[f64; 8]>;

/// What a column family (`_mean`, `_median`, `_std`, `_min`, `_max`, `_sum`) says of a group's values. Rows hold several
/// of these, so it is kept small: what is missing is seen from the count.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stats {
    /// Number of values; missing ones do not count.
    pub count: usize,
    /// Sum; 0 without values.
    pub sum: f64,
    median: f64,
    std: f64,
    min: f64,
    max: f64,
}

impl Stats {
    /// Of these values, in any order.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Numbers = values.into_iter().collect();
        let sum = compensated_sum(values.iter().copied());
        let std = sample_std(&values).unwrap_or_default();
        values.sort_unstable_by(f64::total_cmp);
        let (Some(median), &[min, ..], &[.., max]) = (median_of_sorted(&values), &*values, &*values) else {
            return Self::default();
        };
        Self { count: values.len(), sum, median, std, min, max }
    }

    /// As a table has them: `part` reads the column `median`, `std`, `min` or `max`, which may be missing.
    pub fn read(count: usize, sum: f64, part: impl Fn(&str) -> Option<f64>) -> Self {
        let [median, std, min, max] = ["median", "std", "min", "max"].map(|p| part(p).unwrap_or(f64::NAN));
        Self { count, sum, median, std, min, max }
    }

    /// Sum over count.
    pub fn mean(&self) -> Option<f64> {
        self.known(self.sum / self.count as f64)
    }

    /// Middle value, or the mean of the two middle ones.
    pub fn median(&self) -> Option<f64> {
        self.known(self.median)
    }

    /// Sample standard deviation (n − 1), so `None` for a single value.
    pub fn std(&self) -> Option<f64> {
        self.known(self.std).filter(|_| self.count > 1)
    }

    /// Smallest value.
    pub fn min(&self) -> Option<f64> {
        self.known(self.min)
    }

    /// Largest value.
    pub fn max(&self) -> Option<f64> {
        self.known(self.max)
    }

    fn known(&self, number: f64) -> Option<f64> {
        (self.count > 0 && !number.is_nan()).then_some(number)
    }
}

/// Sample standard deviation in one pass, as the reference takes it.
fn sample_std(values: &[f64]) -> Option<f64> {
    let (mut mean, mut squares) = (0.0, 0.0);
    for (i, &x) in values.iter().enumerate() {
        let before = mean;
        mean += (x - before) / (i + 1) as f64;
        squares += (x - mean) * (x - before);
    }
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

/// Middle value of values in order, or the mean of the two middle ones.
pub(crate) fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let even = sorted.len().is_multiple_of(2);
    Some(if even { f64::midpoint(sorted[sorted.len() / 2 - 1], upper) } else { upper })
}

/// Population standard deviation (n), with the order of operations of the reference.
pub(crate) fn population_std(values: &[f64], mean: f64) -> f64 {
    let squares: Numbers = values.iter().map(|x| (x - mean) * (x - mean)).collect();
    (pairwise_sum(&squares) / values.len() as f64).sqrt()
}

/// Sum in the order in which the reference's number library adds, because some sums are compared as text: eight
/// running sums up to 128 values, halves beyond.
pub(crate) fn pairwise_sum(values: &[f64]) -> f64 {
    const LANES: usize = 8;
    const BLOCK: usize = 128;
    let n = values.len();
    if n < LANES {
        return values.iter().fold(0.0, |sum, x| sum + x);
    }
    if n > BLOCK {
        let half = n / 2 - (n / 2) % LANES;
        return pairwise_sum(&values[..half]) + pairwise_sum(&values[half..]);
    }
    let (body, tail) = values.split_at(n - n % LANES);
    let mut lanes = [0.0; LANES];
    lanes.copy_from_slice(&body[..LANES]);
    for chunk in body[LANES..].chunks_exact(LANES) {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x;
        }
    }
    let pairs = [lanes[0] + lanes[1], lanes[2] + lanes[3], lanes[4] + lanes[5], lanes[6] + lanes[7]];
    tail.iter().fold((pairs[0] + pairs[1]) + (pairs[2] + pairs[3]), |sum, x| sum + x)
}

/// Shares of a column in percent, and their running sum.
pub(crate) fn percentages(values: &[f64]) -> Vec<(f64, f64)> {
    let total = pairwise_sum(values);
    let mut running = 0.0;
    values
        .iter()
        .map(|value| {
            let share = value / total * 100.0;
            running += share;
            (share, running)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let s = Stats::of([4.0, 1.0, 3.0, 2.0]);
        assert_eq!((s.count, s.sum, s.mean(), s.median()), (4, 10.0, Some(2.5), Some(2.5)));
        // Squares of ±1.5 and ±0.5 are 5 together; over n − 1 = 3.
        assert_eq!(s.std(), Some((5.0f64 / 3.0).sqrt()));
        assert_eq!((s.min(), s.max()), (Some(1.0), Some(4.0)));
        let one = Stats::of([7.0]);
        assert_eq!((one.std(), one.median()), (None, Some(7.0)));
        let none = Stats::of([]);
        assert_eq!((none, none.sum), (Stats::default(), 0.0));
        assert_eq!([none.mean(), none.median(), none.std(), none.min(), none.max()], [None; 5]);
    }

    #[test]
    fn columns_that_a_table_lacks_are_missing() {
        let read = Stats::read(4, 10.0, |part| (part != "std").then_some(part.len() as f64));
        assert_eq!([read.mean(), read.median(), read.std(), read.max()], [Some(2.5), Some(6.0), None, Some(3.0)]);
    }

    #[test]
    fn sums_follow_the_block_scheme() {
        // 1e16 + 1 is lost one by one, but kept where the small values meet first.
        let mut values = [1.0; 16];
        values[0] = 1e16;
        // Lane 0 holds 1e16 + 1 (lost), the seven others 2 each: 14 in all.
        let few = [1e16, 1.0, 1.0];
        let long: Vec<f64> = (0..1000).map(f64::from).collect();
        let sums = [&values[..], &few, &long].map(pairwise_sum);
        assert_eq!(sums.map(f64::to_bits), [1e16 + 14.0, 1e16, 499_500.0].map(f64::to_bits));
    }

    #[test]
    fn shares_add_up() {
        assert_eq!(percentages(&[3.0, 1.0]), [(75.0, 75.0), (25.0, 100.0)]);
    }
}

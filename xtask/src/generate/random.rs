//! A small seeded generator of numbers: the same seed gives the same trace on every machine.

/// `SplitMix64`: one addition and three mixes a number, no state beyond eight bytes, good enough for jitter.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    /// Starts a sequence; `lane` separates sequences that share a seed.
    pub(super) fn new(seed: u64, lane: u64) -> Self {
        let mut random = Self(seed ^ lane.wrapping_mul(0xD6E8_FEB8_6659_FD93));
        random.next();
        random
    }

    /// The next number, uniform over all of `u64`.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (which must not be 0); the bias is below one in 2^32 for the bounds used here.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        (((self.next() >> 32) * bound as u64) >> 32) as usize
    }

    /// An index below `bound` that prefers small ones, as a few functions of a program get most of its calls.
    pub(super) fn skewed(&mut self, bound: usize) -> usize {
        let limit = self.below(bound);
        self.below(limit + 1)
    }

    /// A time near `nominal_ns`: 70 % to 145 % of it, and once in 256 draws four times as long, as on a busy host.
    /// Never 0, so that two events never share a start.
    pub(super) fn jitter(&mut self, nominal_ns: u32) -> u64 {
        let draw = self.next();
        let scaled = (u64::from(nominal_ns) * (717 + (draw & 0x3FF) * 3 / 4)) >> 10;
        let slow = if draw >> 56 == 0 { scaled * 4 } else { scaled };
        slow.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_numbers_and_bounds_hold() {
        let (mut a, mut b, mut c) = (Random::new(1, 2), Random::new(1, 2), Random::new(1, 3));
        let one: Vec<u64> = (0..8).map(|_| a.next()).collect();
        let two: Vec<u64> = (0..8).map(|_| b.next()).collect();
        assert_eq!(one, two);
        assert_ne!(one[0], c.next());
        for _ in 0..10_000 {
            assert!(a.below(7) < 7);
            assert!(a.skewed(7) < 7);
            let ns = a.jitter(1000);
            assert!((700..=1450 * 4).contains(&ns), "{ns}");
        }
        assert!(a.jitter(1) >= 1);
    }
}

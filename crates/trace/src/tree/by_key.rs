//! Events by a number they carry: GPU events by correlation, operations by sequence number.

use crate::model::{EventId, Key, Trace};

/// Events grouped by a number, in the order given inside a group.
#[derive(Debug, Default)]
pub(crate) struct ByKey {
    numbers: Numbers,
    /// Where the group of a slot starts in `events`; one more entry than slots.
    first: Vec<u32>,
    events: Vec<EventId>,
}

/// From numbers to slots, which are in order of the numbers; every slot has events.
#[derive(Debug)]
enum Numbers {
    /// A bit for each number from the first on. A profiler counts correlations up, so nearly always this does; it also
    /// counts the calls that launch nothing, so a slot for each number would take many times the memory.
    Dense { first: i64, blocks: Vec<Block>, count: usize },
    /// Slot = position.
    Sorted(Vec<i64>),
}

/// Which of so many consecutive numbers there are.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    present: u64,
    /// How many there are before these.
    before: u32,
}

/// Widest table by number, in numbers for each event.
const WIDEST: usize = 32;

impl Default for Numbers {
    fn default() -> Self {
        Self::Sorted(Vec::new())
    }
}

impl Numbers {
    fn new(numbers: &[i64]) -> Self {
        let (Some(&low), Some(&high)) = (numbers.iter().min(), numbers.iter().max()) else {
            return Self::default();
        };
        match usize::try_from(high.abs_diff(low)) {
            Ok(width) if width < numbers.len() * WIDEST + 1024 => {
                let mut blocks = vec![Block::default(); width / 64 + 1];
                for number in numbers {
                    let at = (number - low) as usize;
                    blocks[at / 64].present |= 1 << (at % 64);
                }
                let mut count = 0;
                for block in &mut blocks {
                    block.before = count;
                    count += block.present.count_ones();
                }
                Self::Dense { first: low, blocks, count: count as usize }
            }
            _ => {
                let mut distinct = numbers.to_vec();
                distinct.sort_unstable();
                distinct.dedup();
                Self::Sorted(distinct)
            }
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Dense { count, .. } => *count,
            Self::Sorted(numbers) => numbers.len(),
        }
    }

    #[inline]
    fn slot(&self, number: i64) -> Option<usize> {
        match self {
            Self::Dense { first, blocks, .. } => {
                let at = usize::try_from(number.checked_sub(*first)?).ok()?;
                let Block { present, before } = *blocks.get(at / 64)?;
                let bit = 1 << (at % 64);
                (present & bit != 0).then(|| before as usize + (present & (bit - 1)).count_ones() as usize)
            }
            Self::Sorted(numbers) => numbers.binary_search(&number).ok(),
        }
    }
}

impl ByKey {
    /// Groups those of the events that have the key.
    pub(crate) fn new(trace: &Trace, key: Key, events: &[EventId]) -> Self {
        let keyed: Vec<(i64, EventId)> = events.iter().filter_map(|&e| Some((trace.int(e, key)?, e))).collect();
        let numbers = Numbers::new(&keyed.iter().map(|k| k.0).collect::<Vec<_>>());
        let slots: Vec<usize> = keyed.iter().filter_map(|k| numbers.slot(k.0)).collect();
        let mut first = vec![0u32; numbers.count() + 1];
        for &slot in &slots {
            first[slot + 1] += 1;
        }
        for i in 1..first.len() {
            first[i] += first[i - 1];
        }
        let mut next = first.clone();
        let mut events = vec![EventId(0); keyed.len()];
        for (&slot, &(_, e)) in slots.iter().zip(&keyed) {
            events[next[slot] as usize] = e;
            next[slot] += 1;
        }
        Self { numbers, first, events }
    }

    /// Number of slots.
    pub(crate) fn slots(&self) -> usize {
        self.numbers.count()
    }

    /// Slot of a number, if events have it.
    #[inline]
    pub(crate) fn slot(&self, number: i64) -> Option<usize> {
        self.numbers.slot(number)
    }

    /// All groups, by slot.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &[EventId]> {
        (0..self.slots()).map(|slot| self.group(slot))
    }

    /// Events of a slot.
    pub(crate) fn group(&self, slot: usize) -> &[EventId] {
        &self.events[self.first[slot] as usize..self.first[slot + 1] as usize]
    }

    /// Events with a number.
    pub(crate) fn get(&self, number: i64) -> &[EventId] {
        self.slot(number).map_or(&[], |slot| self.group(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceBuilder;

    fn groups(correlations: &[i64]) -> (Trace, ByKey) {
        let mut b = TraceBuilder::new();
        for &c in correlations {
            b.event('X', "kernel", "k", 0.0, 1.0).arg("correlation", c);
        }
        let trace = b.build();
        let gpu: Vec<_> = trace.events().collect();
        let by_key = ByKey::new(&trace, Key::Correlation, &gpu);
        (trace, by_key)
    }

    #[test]
    fn near_and_far_numbers_group_alike() {
        for far in [0, 1 << 60] {
            let (_, by_key) = groups(&[5, 7, 5, 7 + far, -3]);
            let uids = |n: i64| by_key.get(n).iter().map(|e| e.uid()).collect::<Vec<_>>();
            assert_eq!(uids(5), [0, 2]);
            assert_eq!(uids(7), if far == 0 { vec![1, 3] } else { vec![1] });
            assert_eq!(uids(-3), [4]);
            assert!(uids(6).is_empty() && uids(i64::MIN).is_empty() && uids(i64::MAX).is_empty());
        }
        assert!(groups(&[]).1.get(0).is_empty());
        assert_eq!(groups(&[i64::MIN, i64::MAX]).1.get(i64::MAX).len(), 1);
    }
}

//! Whether both sides communicate alike: the same kinds of collectives, over groups of the same size, with messages of
//! the same type and size, as often in a step. One rank can't tell waiting from transfer, so times are no part of it.

use std::collections::BTreeMap;

use super::Both;
use crate::system::communication::Collective;

/// Counts that differ by less are the same: steps are cut out of longer recordings.
const ALIKE: f64 = 1e-6;

/// `None` if neither side has collectives.
pub(super) fn same(collectives: Both<&[Collective]>, steps: Both<f64>) -> Option<bool> {
    let counts = Both::of(collectives.zip(steps), |(all, steps)| {
        let mut counts = BTreeMap::new();
        for c in all {
            let kind = (&*c.name, c.group_size, c.dtype.as_deref(), c.message_bytes);
            *counts.entry(kind).or_insert(0.0) += c.count as f64 / steps;
        }
        counts
    });
    if counts.reference.is_empty() && counts.target.is_empty() {
        return None;
    }
    let pairs = counts.reference.iter().zip(&counts.target);
    let alike = |((kind, n), (other, m)): ((_, &f64), (_, &f64))| kind == other && (n - m).abs() < ALIKE;
    Some(counts.reference.len() == counts.target.len() && { pairs }.all(alike))
}

#[cfg(test)]
mod tests {
    use jarvis_trace::Ns;

    use super::*;

    fn collective(name: &str, bytes: i64, count: usize) -> Collective {
        Collective {
            name: name.into(),
            group_size: Some(8),
            dtype: Some("bf16".into()),
            message_bytes: Some(bytes),
            count,
            time: Ns(count as i64 * 1000),
            exposed: Ns(0),
            example: 0,
        }
    }

    #[test]
    fn kinds_sizes_and_counts_of_a_step_decide() {
        let one = [collective("allreduce", 1024, 4), collective("allgather", 64, 2)];
        // Another order, twice the steps, other times.
        let two = [collective("allgather", 64, 4), collective("allreduce", 1024, 8)];
        let of = |reference: &[Collective], target: &[Collective], steps: (f64, f64)| {
            same(Both { reference, target }, Both { reference: steps.0, target: steps.1 })
        };
        assert_eq!(of(&one, &two, (1.0, 2.0)), Some(true));
        assert_eq!(of(&one, &two, (1.0, 1.0)), Some(false), "twice as often");
        let larger = [collective("allreduce", 2048, 4), collective("allgather", 64, 2)];
        assert_eq!(of(&one, &larger, (1.0, 1.0)), Some(false), "larger messages");
        let other = [collective("reduce_scatter", 1024, 4), collective("allgather", 64, 2)];
        assert_eq!(of(&one, &other, (1.0, 1.0)), Some(false), "another kind");
        assert_eq!(of(&one, &[], (1.0, 1.0)), Some(false));
        assert_eq!(of(&[], &[], (1.0, 1.0)), None);
    }
}

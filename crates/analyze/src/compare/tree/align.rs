//! The reference's alignment of two lists of calls: edit distance, then a second look at names that repeat.

use super::names::NameTable;
use super::nodes::Nodes;
use jarvis_trace::EventId;
use rapidhash::{RapidHashMap, RapidHashSet};

/// Largest table of distances. Lists beyond it, which no tree of operations has, are aligned from their ends.
const MOST_CELLS: usize = 100_000_000;

/// Levels below a node that tell nodes of one name apart.
const LEVELS: usize = 4;

/// A step of an alignment; numbers are positions in the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Match(usize, usize),
    Delete(usize),
    Insert(usize),
}

/// Wagner–Fischer with cost 1 for each change. The walk back never replaces one name by another.
pub(crate) fn edit_steps(a: &[u32], b: &[u32]) -> Vec<Step> {
    let (mut i, mut j) = (a.len(), b.len());
    let mut steps = Vec::with_capacity(i + j);
    // From the end, equal names always match.
    while i > 0 && j > 0 && a[i - 1] == b[j - 1] {
        (i, j) = (i - 1, j - 1);
        steps.push(Step::Match(i, j));
    }
    let width = j + 1;
    if (i + 1).saturating_mul(width) > MOST_CELLS {
        steps.extend((0..j).rev().map(Step::Insert).chain((0..i).rev().map(Step::Delete)));
        steps.reverse();
        return steps;
    }
    let table = distances(&a[..i], &b[..j]);
    while i > 0 || j > 0 {
        if i > 0 && j > 0 && a[i - 1] == b[j - 1] {
            (i, j) = (i - 1, j - 1);
            steps.push(Step::Match(i, j));
        } else if i > 0 && (j == 0 || table[i * width + j] == table[(i - 1) * width + j] + 1) {
            i -= 1;
            steps.push(Step::Delete(i));
        } else {
            j -= 1;
            steps.push(Step::Insert(j));
        }
    }
    steps.reverse();
    steps
}

fn distances(a: &[u32], b: &[u32]) -> Vec<u32> {
    let width = b.len() + 1;
    let mut table = vec![0; (a.len() + 1) * width];
    for (j, cell) in table[..width].iter_mut().enumerate() {
        *cell = j as u32;
    }
    for i in 1..=a.len() {
        table[i * width] = i as u32;
        for j in 1..width {
            let diagonal = table[(i - 1) * width + j - 1] + u32::from(a[i - 1] != b[j - 1]);
            let around = table[(i - 1) * width + j].min(table[i * width + j - 1]) + 1;
            table[i * width + j] = diagonal.min(around);
        }
    }
    table
}

/// Names below a node, sorted, level by level.
type Levels = Vec<Vec<u32>>;

fn levels(nodes: &mut Nodes<'_>, table: &mut NameTable, e: EventId) -> Levels {
    let mut level = vec![e];
    let mut all = Vec::with_capacity(LEVELS);
    for _ in 0..LEVELS {
        level = level.iter().flat_map(|&e| nodes.gpu_children(e)).collect();
        let mut names: Vec<u32> = level.iter().map(|&e| nodes.name(table, e)).collect();
        names.sort_unstable();
        all.push(names);
    }
    all
}

/// Equal leading levels, then common names at the first level that is not equal.
fn score(a: &Levels, b: &Levels) -> (usize, usize) {
    let equal = a.iter().zip(b).take_while(|(x, y)| x == y).count();
    let common = a.get(equal).zip(b.get(equal)).map_or(0, |(x, y)| intersection(x, y));
    (equal, common)
}

fn intersection(a: &[u32], b: &[u32]) -> usize {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        match x.cmp(y) {
            std::cmp::Ordering::Less => i += 1,
            std::cmp::Ordering::Greater => j += 1,
            std::cmp::Ordering::Equal => (i, j, count) = (i + 1, j + 1, count + 1),
        }
    }
    count
}

/// Both trees and the names they share.
pub(crate) struct Pair<'p, 'a> {
    pub(crate) sides: &'p mut [Nodes<'a>; 2],
    pub(crate) table: &'p mut NameTable,
}

/// Matches repeated names anew by what lies below them.
pub(crate) fn rematched(pair: &mut Pair<'_, '_>, a: &[EventId], b: &[EventId], steps: Vec<Step>) -> Vec<Step> {
    let [one, two] = pair.sides;
    let names_a: Vec<u32> = a.iter().map(|&e| one.name(pair.table, e)).collect();
    let names_b: Vec<u32> = b.iter().map(|&e| two.name(pair.table, e)).collect();
    let mut places: RapidHashMap<u32, [Vec<usize>; 2]> = RapidHashMap::default();
    let mut order = Vec::new();
    for (side, names) in [&names_a, &names_b].into_iter().enumerate() {
        for (at, &name) in names.iter().enumerate() {
            places.entry(name).or_insert_with(|| {
                order.push(name);
                Default::default()
            })[side]
                .push(at);
        }
    }
    let old: RapidHashSet<(usize, usize)> =
        steps.iter().filter_map(|s| if let Step::Match(i, j) = *s { Some((i, j)) } else { None }).collect();
    let matched: RapidHashSet<u32> = old.iter().map(|&(i, _)| names_a[i]).collect();
    order.retain(|name| {
        let [p, q] = &places[name];
        !p.is_empty() && !q.is_empty() && (p.len() > 1 || q.len() > 1) && matched.contains(name)
    });
    if order.is_empty() {
        return steps;
    }
    let mut new = Vec::new();
    let (mut used_a, mut used_b) = (vec![false; a.len()], vec![false; b.len()]);
    for name in &order {
        let [p, q] = &places[name];
        let below_a: Vec<Levels> = p.iter().map(|&i| levels(one, pair.table, a[i])).collect();
        let below_b: Vec<Levels> = q.iter().map(|&j| levels(two, pair.table, b[j])).collect();
        let mut pairs = Vec::with_capacity(p.len() * q.len());
        for (x, &i) in p.iter().enumerate() {
            for (y, &j) in q.iter().enumerate() {
                let first = std::cmp::Reverse(score(&below_a[x], &below_b[y]));
                pairs.push((first, !old.contains(&(i, j)), i, j));
            }
        }
        pairs.sort_unstable();
        for (_, _, i, j) in pairs {
            if !used_a[i] && !used_b[j] {
                (used_a[i], used_b[j]) = (true, true);
                new.push((i, j));
            }
        }
    }
    if new.iter().all(|pair| old.contains(pair)) {
        return steps;
    }
    new.sort_unstable();
    let order: RapidHashSet<u32> = order.into_iter().collect();
    let repeated = |step: &Step| match *step {
        Step::Match(i, _) | Step::Delete(i) => order.contains(&names_a[i]),
        Step::Insert(j) => order.contains(&names_b[j]),
    };
    let mut out: Vec<Step> = steps.iter().copied().filter(|s| !repeated(s)).collect();
    out.extend(new.iter().map(|&(i, j)| Step::Match(i, j)));
    let left_a = (0..a.len()).filter(|i| order.contains(&names_a[*i]) && !used_a[*i]);
    out.extend(left_a.map(Step::Delete));
    let left_b = (0..b.len()).filter(|j| order.contains(&names_b[*j]) && !used_b[*j]);
    out.extend(left_b.map(Step::Insert));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unequal_names_are_never_matched() {
        use Step::{Delete, Insert, Match};
        assert_eq!(edit_steps(&[1, 2, 3], &[1, 3]), [Match(0, 0), Delete(1), Match(2, 1)]);
        assert_eq!(edit_steps(&[1], &[1, 1]), [Insert(0), Match(0, 1)]);
        assert_eq!(edit_steps(&[], &[7]), [Insert(0)]);
        let steps = edit_steps(&[1, 2], &[3, 4]);
        assert!(steps.iter().all(|s| !matches!(s, Match(..))) && steps.len() == 4, "{steps:?}");
    }

    #[test]
    fn common_names_are_counted_with_their_number() {
        assert_eq!(intersection(&[1, 1, 2, 5], &[1, 2, 2, 5]), 3);
        assert_eq!(score(&vec![vec![1], vec![2, 3]], &vec![vec![1], vec![2]]), (1, 1));
        assert_eq!(score(&vec![vec![1]], &vec![vec![1]]), (1, 0));
    }
}

//! Pairs the calls of two lists: in order as far as possible, calls with the same arguments and the same work below
//! them before others of their name, wherever those stand.
//!
//! Lists are cut at calls that both have once, so that the table of scores stays small: the whole is near linear.

use rapidhash::RapidHashMap;

/// What a call is compared by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CallKey {
    /// Its name.
    pub(crate) name: u64,
    /// Its name and the shapes and types it was called with.
    pub(crate) args: u64,
    /// The same, and everything below it.
    pub(crate) tree: u64,
}

/// Largest table of scores.
const MOST_CELLS: usize = 1 << 14;

/// Scores of a pair: the name has to be the same; arguments and the work below tell calls of one name apart.
const NAME: u32 = 4;
const ARGS: u32 = 2;
const TREE: u32 = 1;

/// How exactly calls agree.
type Level = fn(&CallKey) -> u64;
const LEVELS: [Level; 3] = [|k| k.tree, |k| k.args, |k| k.name];

/// Pairs of positions, in order of the first.
pub(crate) fn pairs(a: &[CallKey], b: &[CallKey]) -> Vec<(usize, usize)> {
    let mut found = in_order(a, b);
    exchanged(a, b, &mut found);
    moved(a, b, &mut found, &LEVELS);
    found.sort_unstable();
    found
}

/// A part of both lists that is still to be aligned.
#[derive(Clone, Copy)]
struct Part {
    a: (usize, usize),
    b: (usize, usize),
}

fn in_order(a: &[CallKey], b: &[CallKey]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut pending = vec![Part { a: (0, a.len()), b: (0, b.len()) }];
    while let Some(mut part) = pending.pop() {
        while part.a.0 < part.a.1 && part.b.0 < part.b.1 && a[part.a.0].tree == b[part.b.0].tree {
            found.push((part.a.0, part.b.0));
            (part.a.0, part.b.0) = (part.a.0 + 1, part.b.0 + 1);
        }
        while part.a.0 < part.a.1 && part.b.0 < part.b.1 && a[part.a.1 - 1].tree == b[part.b.1 - 1].tree {
            (part.a.1, part.b.1) = (part.a.1 - 1, part.b.1 - 1);
            found.push((part.a.1, part.b.1));
        }
        let (n, m) = (part.a.1 - part.a.0, part.b.1 - part.b.0);
        if n == 0 || m == 0 {
            continue;
        }
        if n.saturating_mul(m) <= MOST_CELLS {
            best(a, b, part, &mut found);
            continue;
        }
        let anchors = LEVELS.iter().map(|level| unique_anchors(a, b, part, *level)).find(|anchors| !anchors.is_empty());
        match anchors {
            Some(anchors) => {
                let ends = anchors.iter().copied().chain([(part.a.1, part.b.1)]);
                let mut start = (part.a.0, part.b.0);
                for (i, j) in ends {
                    pending.push(Part { a: (start.0, i), b: (start.1, j) });
                    start = (i + 1, j + 1);
                }
                found.extend(anchors);
            }
            None => found.extend(by_occurrence(a, b, part)),
        }
    }
    found
}

/// The pairs of highest score, by a table over the rest of both lists.
fn best(a: &[CallKey], b: &[CallKey], part: Part, found: &mut Vec<(usize, usize)>) {
    let (a, b) = (&a[part.a.0..part.a.1], &b[part.b.0..part.b.1]);
    let width = b.len() + 1;
    let mut table = vec![0_u32; (a.len() + 1) * width];
    let score = |x: &CallKey, y: &CallKey| {
        if x.name == y.name {
            NAME + ARGS * u32::from(x.args == y.args) + TREE * u32::from(x.tree == y.tree)
        } else {
            0
        }
    };
    for (i, x) in a.iter().enumerate().rev() {
        for (j, y) in b.iter().enumerate().rev() {
            let skip = table[(i + 1) * width + j].max(table[i * width + j + 1]);
            let score = score(x, y);
            let take = if score > 0 { score + table[(i + 1) * width + j + 1] } else { 0 };
            table[i * width + j] = skip.max(take);
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let here = table[i * width + j];
        let score = score(&a[i], &b[j]);
        if score > 0 && here == score + table[(i + 1) * width + j + 1] {
            found.push((part.a.0 + i, part.b.0 + j));
            (i, j) = (i + 1, j + 1);
        } else if here == table[(i + 1) * width + j] {
            i += 1;
        } else {
            j += 1;
        }
    }
}

/// Calls that both parts have exactly once, as many as can be paired in order.
fn unique_anchors(a: &[CallKey], b: &[CallKey], part: Part, level: Level) -> Vec<(usize, usize)> {
    let mut seen: RapidHashMap<u64, [(usize, usize); 2]> = RapidHashMap::default();
    for (side, (list, range)) in [(a, part.a), (b, part.b)].into_iter().enumerate() {
        for (at, key) in list.iter().enumerate().take(range.1).skip(range.0) {
            let entry = &mut seen.entry(level(key)).or_default()[side];
            *entry = (entry.0 + 1, at);
        }
    }
    let once = |i: usize| match seen.get(&level(&a[i])) {
        Some([(1, _), (1, j)]) => Some((i, *j)),
        _ => None,
    };
    rising(&(part.a.0..part.a.1).filter_map(once).collect::<Vec<_>>())
}

/// The k-th call of a kind with the k-th of the other list, as many as can be paired in order.
fn by_occurrence(a: &[CallKey], b: &[CallKey], part: Part) -> Vec<(usize, usize)> {
    let mut places: RapidHashMap<u64, std::collections::VecDeque<usize>> = RapidHashMap::default();
    for (j, key) in b.iter().enumerate().take(part.b.1).skip(part.b.0) {
        places.entry(key.args).or_default().push_back(j);
    }
    let next = |i: usize| Some((i, places.get_mut(&a[i].args)?.pop_front()?));
    rising(&(part.a.0..part.a.1).filter_map(next).collect::<Vec<_>>())
}

/// The longest run of pairs whose second positions rise too.
fn rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut tails: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (at, pair) in pairs.iter().enumerate() {
        let place = tails.partition_point(|&t| pairs[t].1 < pair.1);
        before.push(place.checked_sub(1).map(|p| tails[p]));
        if place == tails.len() {
            tails.push(at);
        } else {
            tails[place] = at;
        }
    }
    let mut run: Vec<(usize, usize)> =
        std::iter::successors(tails.last().copied(), |&at| before[at]).map(|at| pairs[at]).collect();
    run.reverse();
    run
}

/// Parts pairs that share only a name where a call of the same arguments is to be had elsewhere: calls of one name that
/// changed places are paired in order at first.
fn exchanged(a: &[CallKey], b: &[CallKey], found: &mut Vec<(usize, usize)>) {
    let (exact, by_name): (Vec<_>, Vec<_>) = found.iter().partition(|&&(i, j)| a[i].args == b[j].args);
    if by_name.is_empty() {
        return;
    }
    *found = exact;
    moved(a, b, found, &LEVELS[..2]);
    let (mut used_a, mut used_b) = (vec![false; a.len()], vec![false; b.len()]);
    for &(i, j) in &*found {
        (used_a[i], used_b[j]) = (true, true);
    }
    found.extend(by_name.into_iter().filter(|&(i, j)| !used_a[i] && !used_b[j]));
}

/// Pairs what is left by tree, then arguments, then name, as far as the levels go, wherever it stands.
fn moved(a: &[CallKey], b: &[CallKey], found: &mut Vec<(usize, usize)>, levels: &[Level]) {
    if found.len() == a.len().min(b.len()) {
        return;
    }
    let (mut used_a, mut used_b) = (vec![false; a.len()], vec![false; b.len()]);
    for &(i, j) in &*found {
        (used_a[i], used_b[j]) = (true, true);
    }
    for level in levels {
        let mut places: RapidHashMap<u64, std::collections::VecDeque<usize>> = RapidHashMap::default();
        for (j, key) in b.iter().enumerate().filter(|(j, _)| !used_b[*j]) {
            places.entry(level(key)).or_default().push_back(j);
        }
        for (i, key) in a.iter().enumerate() {
            if used_a[i] {
                continue;
            }
            if let Some(j) = places.get_mut(&level(key)).and_then(std::collections::VecDeque::pop_front) {
                (used_a[i], used_b[j]) = (true, true);
                found.push((i, j));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ab` is name `a` with arguments `b`.
    fn keys(text: &str) -> Vec<CallKey> {
        let key = |word: &str| {
            let bytes = word.as_bytes();
            let (name, args) = (u64::from(bytes[0]), u64::from(*bytes.get(1).unwrap_or(&0)));
            CallKey { name, args: name << 8 | args, tree: name << 8 | args }
        };
        text.split_whitespace().map(key).collect()
    }

    #[test]
    fn arguments_tell_repeated_names_apart() {
        assert_eq!(pairs(&keys("m1 m2"), &keys("m2")), [(1, 0)]);
        assert_eq!(pairs(&keys("m1 m2 m3"), &keys("m1 m3")), [(0, 0), (2, 1)]);
        // As many are paired as there are, those of the same arguments first.
        assert_eq!(pairs(&keys("m1 m2"), &keys("m2 m3")), [(0, 1), (1, 0)]);
        assert_eq!(pairs(&keys("m1 m2"), &keys("m3 m4")), [(0, 0), (1, 1)]);
    }

    #[test]
    fn calls_that_changed_places_are_found() {
        assert_eq!(pairs(&keys("a b c"), &keys("b c a")), [(0, 2), (1, 0), (2, 1)]);
        assert_eq!(pairs(&keys("x a"), &keys("a y")), [(1, 0)]);
        // Of one name too.
        assert_eq!(pairs(&keys("m1 m2"), &keys("m2 m1")), [(0, 1), (1, 0)]);
        assert_eq!(pairs(&keys("m1 m2 m3 x"), &keys("m2 m1 m4 x")), [(0, 1), (1, 0), (2, 2), (3, 3)]);
        assert_eq!(pairs(&[], &keys("a")), []);
    }

    #[test]
    fn long_lists_are_cut_at_anchors() {
        let list = |skip: usize| -> Vec<CallKey> {
            let key = |i: usize| CallKey { name: (i % 7) as u64, args: (i % 350) as u64 * 7, tree: (i * 11) as u64 };
            (0..20_000).filter(|i| i % skip != 5).map(key).collect()
        };
        let (a, b) = (list(997), list(1009));
        let found = pairs(&a, &b);
        let exact = found.iter().filter(|&&(i, j)| a[i].tree == b[j].tree).count();
        assert!(exact > 19_900, "{exact}");
        // Without anything that occurs once.
        let same = |n: usize| vec![CallKey { name: 1, args: 1, tree: 1 }; n];
        let mut odd = same(3000);
        odd[0].tree = 2;
        odd[2999].tree = 3;
        assert_eq!(pairs(&odd, &same(2000)).len(), 2000);
    }
}

//! Which work of the target is which of the reference.
//!
//! Rows are matched by ever looser keys, each call once, unless they are known to do more or less. Of matched rows as
//! many calls are compared as both sides make; what one side makes more may match a looser key, in the places where it
//! makes more. What is left over on both sides in the same place of the module tree is compared as a whole: there one
//! side does otherwise what the other does, fused for example.

use std::collections::BTreeMap;

use serde::Serialize;

use super::both::Both;
use super::canonical;
use super::same_work;
use super::work::{Part, Place};
use crate::prepared::{Prepared, Row};
use crate::program::RowId;

/// How two things were found to be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MatchLevel {
    /// Operation and all arguments.
    Exact,
    /// Operation, shapes and types.
    Shape,
    /// What the operation does, shapes and types.
    Canonical,
    /// What the operation does and shapes; the types differ.
    Dims,
    /// The place in the module tree; the operations differ.
    Module,
}

impl MatchLevel {
    /// As files write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Shape => "shape",
            Self::Canonical => "canonical",
            Self::Dims => "dims",
            Self::Module => "module",
        }
    }
}

/// The levels at which rows are matched, the strictest first.
const ROW_LEVELS: [MatchLevel; 4] = [MatchLevel::Exact, MatchLevel::Shape, MatchLevel::Canonical, MatchLevel::Dims];

/// Work that both sides do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Match {
    /// How it was found.
    pub(crate) level: MatchLevel,
    /// The calls that are compared, those of the reference scaled.
    pub(crate) parts: Both<Vec<Part>>,
}

impl Match {
    /// Time of a step on each side.
    pub(crate) fn ms(&self) -> Both<f64> {
        Both::of(self.parts.as_ref(), |parts| parts.iter().map(|p| p.ms).sum())
    }
}

fn calls(parts: &Both<Vec<Part>>) -> Both<f64> {
    Both::of(parts.as_ref(), |parts| parts.iter().map(|p| p.calls).sum())
}

/// What is matched and what is left over.
#[derive(Debug, Clone)]
pub(crate) struct Matched {
    pub(crate) matches: Vec<Match>,
    pub(crate) left: Both<Vec<Part>>,
    /// By what those of the reference were scaled that have no calls of the target to be scaled to; 1 where nothing is.
    pub(crate) factor: f64,
}

/// What becomes of calls that only one side makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surplus {
    /// They are left over.
    LeftOver,
    /// The recordings are not equally long: the reference is scaled to the target's calls.
    Scaled,
}

/// Matches the work of two sides.
pub(crate) fn matched(sides: Both<&Prepared>, work: Both<Vec<Part>>, surplus: Surplus) -> Matched {
    let mut of_row = Both::of(work, Rows::of);
    let mut found = Matched { matches: Vec::new(), left: Both::default(), factor: 1.0 };
    let mut recorded_ms = 0.0;
    for level in ROW_LEVELS {
        for rows in common_rows(sides, &of_row, level) {
            if same_work::is_other(sides, &rows) {
                continue;
            }
            let parts =
                Both { reference: of_row.reference.take(&rows.reference), target: of_row.target.take(&rows.target) };
            let (parts, more) = match surplus {
                Surplus::LeftOver => as_many_calls(parts),
                Surplus::Scaled => (parts, Both::default()),
            };
            // A looser key may find their counterparts: the other side may make them in another layout, say.
            of_row.reference.put_back(more.reference);
            of_row.target.put_back(more.target);
            recorded_ms += parts.reference.iter().map(|p| p.ms).sum::<f64>();
            let parts = if surplus == Surplus::Scaled { scaled(parts) } else { parts };
            found.matches.push(Match { level, parts });
        }
    }
    found.left.reference.extend(of_row.reference.rest());
    found.left.target.extend(of_row.target.rest());
    if surplus == Surplus::Scaled && recorded_ms > 0.0 {
        // What has no counterpart is as much longer or shorter as the rest.
        found.factor = found.matches.iter().map(|m| m.ms().reference).sum::<f64>() / recorded_ms;
    }
    // How much of a place a side has lost is not known: what is left of it says nothing.
    if sides.reference.losses.is_empty() && sides.target.losses.is_empty() {
        by_place(&mut found);
    }
    let factor = found.factor;
    found.left.reference.iter_mut().for_each(|p| *p = p.times(factor));
    found
}

/// The parts of a side by row; those taken are gone.
struct Rows {
    by_row: BTreeMap<RowId, Vec<Part>>,
    without: Vec<Part>,
}

impl Rows {
    fn of(parts: Vec<Part>) -> Self {
        let mut rows = Self { by_row: BTreeMap::new(), without: Vec::new() };
        rows.put_back(parts);
        rows
    }

    fn put_back(&mut self, parts: Vec<Part>) {
        for part in parts {
            match part.row {
                Some(row) => self.by_row.entry(row).or_default().push(part),
                None => self.without.push(part),
            }
        }
    }

    fn take(&mut self, rows: &[RowId]) -> Vec<Part> {
        rows.iter().filter_map(|row| self.by_row.remove(row)).flatten().collect()
    }

    fn rest(self) -> impl Iterator<Item = Part> {
        self.by_row.into_values().flatten().chain(self.without)
    }
}

/// Rows that have the same key on both sides, in the order of the keys.
fn common_rows(sides: Both<&Prepared>, rows: &Both<Rows>, level: MatchLevel) -> Vec<Both<Vec<RowId>>> {
    let mut by_key: BTreeMap<String, Both<Vec<RowId>>> = BTreeMap::new();
    for &id in rows.reference.by_row.keys() {
        if let Some(key) = key(sides.reference.row(id), level) {
            by_key.entry(key).or_default().reference.push(id);
        }
    }
    for &id in rows.target.by_row.keys() {
        if let Some(key) = key(sides.target.row(id), level) {
            by_key.entry(key).or_default().target.push(id);
        }
    }
    by_key.into_values().filter(|both| !both.reference.is_empty() && !both.target.is_empty()).collect()
}

fn key(row: &Row, level: MatchLevel) -> Option<String> {
    let i = &row.inputs;
    match level {
        MatchLevel::Exact => Some(format!("{} {:?} {:?} {:?} {:?}", row.name, i.dims, i.types, i.strides, i.concrete)),
        MatchLevel::Shape => Some(format!("{} {:?} {:?}", row.name, i.dims, i.types)),
        MatchLevel::Canonical => canonical::key(row, true),
        MatchLevel::Dims => canonical::key(row, false),
        MatchLevel::Module => None,
    }
}

/// The calls that both sides make, and those that one makes more: where the other makes fewer in the same place, and
/// only then elsewhere.
fn as_many_calls(parts: Both<Vec<Part>>) -> (Both<Vec<Part>>, Both<Vec<Part>>) {
    let mut calls: BTreeMap<Place, Both<f64>> = BTreeMap::new();
    for p in &parts.reference {
        calls.entry(p.place.clone()).or_default().reference += p.calls;
    }
    for p in &parts.target {
        calls.entry(p.place.clone()).or_default().target += p.calls;
    }
    let here = |c: &Both<f64>| c.reference.min(c.target);
    let over = Both {
        reference: calls.values().map(|c| c.reference - here(c)).sum::<f64>(),
        target: calls.values().map(|c| c.target - here(c)).sum::<f64>(),
    };
    let elsewhere = over.reference.min(over.target);
    // Of what a place has over, so much is matched elsewhere.
    let share = Both::of(over, |over| if over > 0.0 { elsewhere / over } else { 0.0 });
    let split = |parts: Vec<Part>, share: f64, of: fn(&Both<f64>) -> f64| {
        let (mut same, mut left) = (Vec::new(), Vec::new());
        for part in parts {
            let place = calls.get(&part.place).copied().unwrap_or_default();
            let all = of(&place);
            let kept = if all > 0.0 { (here(&place) + share * (all - here(&place))) / all } else { 1.0 };
            if kept > 1.0 - 1e-9 {
                same.push(part);
                continue;
            }
            left.push(part.times(1.0 - kept));
            if kept > 0.0 {
                same.push(part.times(kept));
            }
        }
        (same, left)
    };
    let reference = split(parts.reference, share.reference, |c| c.reference);
    let target = split(parts.target, share.target, |c| c.target);
    (Both { reference: reference.0, target: target.0 }, Both { reference: reference.1, target: target.1 })
}

fn scaled(parts: Both<Vec<Part>>) -> Both<Vec<Part>> {
    let calls = calls(&parts);
    let factor = if calls.reference > 0.0 { calls.target / calls.reference } else { 1.0 };
    Both { reference: parts.reference.iter().map(|p| p.times(factor)).collect(), target: parts.target }
}

/// Compares what is left over in the same place, the innermost places first. The outermost module is no place to climb
/// to: it holds everything.
fn by_place(found: &mut Matched) {
    let mut open: BTreeMap<Place, Both<Vec<Part>>> = BTreeMap::new();
    let left = std::mem::take(&mut found.left);
    for part in left.reference {
        open.entry(part.place.clone()).or_default().reference.push(part);
    }
    for part in left.target {
        open.entry(part.place.clone()).or_default().target.push(part);
    }
    let deepest = open.keys().map(Place::depth).max().unwrap_or_default();
    for depth in (1..=deepest).rev() {
        let here: Vec<Place> = open.keys().filter(|p| p.depth() == depth).cloned().collect();
        for place in here {
            let Some(parts) = open.remove(&place) else { continue };
            if !parts.reference.is_empty() && !parts.target.is_empty() {
                let mut parts = in_place(parts, &place);
                parts.reference.iter_mut().for_each(|p| *p = p.times(found.factor));
                found.matches.push(Match { level: MatchLevel::Module, parts });
            } else if depth > 2 {
                let around = open.entry(place.parent()).or_default();
                around.reference.extend(parts.reference);
                around.target.extend(parts.target);
            } else {
                found.left.reference.extend(parts.reference);
                found.left.target.extend(parts.target);
            }
        }
    }
    for parts in open.into_values() {
        found.left.reference.extend(parts.reference);
        found.left.target.extend(parts.target);
    }
}

/// The parts as parts of the place they are compared in.
fn in_place(mut parts: Both<Vec<Part>>, place: &Place) -> Both<Vec<Part>> {
    for part in parts.reference.iter_mut().chain(&mut parts.target) {
        part.place = place.clone();
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Direction;

    fn part(name: &str, modules: &str, calls: f64, ms: f64) -> Part {
        let place = Place { direction: Direction::Forward, modules: modules.into() };
        Part { row: None, name: name.into(), category: "other".into(), place, calls, kernels: calls, ms }
    }

    fn ms(parts: &[Part]) -> f64 {
        parts.iter().map(|p| p.ms).sum()
    }

    #[test]
    fn surplus_calls_are_left_over_where_they_are_made() {
        // The reference adds in the block and, unlike the target, in the norm.
        let reference = vec![part("add", "Model/Block", 4.0, 4.0), part("add", "Model/Norm", 8.0, 16.0)];
        let target = vec![part("add", "Model/Block", 4.0, 5.0)];
        let (same, left) = as_many_calls(Both { reference, target });
        assert_eq!((ms(&same.reference), ms(&same.target)), (4.0, 5.0));
        assert_eq!((ms(&left.reference), left.target.len()), (16.0, 0));
        assert_eq!(&*left.reference[0].place.modules, "Model/Norm");
    }

    #[test]
    fn calls_that_moved_are_still_the_same() {
        let reference = vec![part("add", "Model/Old", 4.0, 4.0)];
        let target = vec![part("add", "Model/New", 6.0, 6.0)];
        let (same, left) = as_many_calls(Both { reference, target });
        assert_eq!((ms(&same.reference), ms(&same.target)), (4.0, 4.0));
        assert!(left.reference.is_empty() && (ms(&left.target) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn what_is_left_in_one_place_is_compared_as_a_whole() {
        let left = Both {
            reference: vec![
                part("mul", "Model/Block/Norm", 4.0, 2.0),
                part("pow", "Model/Block/Norm", 4.0, 3.0),
                part("cat", "Model", 1.0, 1.0),
            ],
            target: vec![part("fused_norm", "Model/Block/FusedNorm", 4.0, 1.0), part("roll", "Other", 1.0, 1.0)],
        };
        let mut found = Matched { matches: Vec::new(), left, factor: 1.0 };
        by_place(&mut found);
        // The classes differ, the block around them does not; the outermost module is no place.
        assert_eq!(found.matches.len(), 1);
        let group = &found.matches[0];
        assert_eq!(group.level, MatchLevel::Module);
        assert_eq!(group.ms(), Both { reference: 5.0, target: 1.0 });
        assert_eq!(&*group.parts.target[0].place.modules, "Model/Block");
        assert_eq!((&*found.left.reference[0].name, &*found.left.target[0].name), ("cat", "roll"));
    }

    #[test]
    fn recordings_of_other_length_are_scaled_call_by_call() {
        let parts = Both { reference: vec![part("mm", "", 2.0, 3.0)], target: vec![part("mm", "", 4.0, 5.0)] };
        assert_eq!(calls(&parts), Both { reference: 2.0, target: 4.0 });
        let same = scaled(parts);
        assert_eq!((ms(&same.reference), ms(&same.target)), (6.0, 5.0));
        assert_eq!(calls(&same), Both { reference: 4.0, target: 4.0 });
    }
}

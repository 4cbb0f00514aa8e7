//! The work of one side: the calls of each row, by their place in the module tree.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jarvis_trace::GpuWork;

use crate::prepared::Prepared;
use crate::program::{Direction, Leaf, ModuleId, Program, RowId};

/// Where work stands: the pass, and the classes of the modules around it, outermost first, `/` between them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The pass.
    pub direction: Direction,
    /// The modules; empty where none are recorded.
    pub modules: Arc<str>,
}

impl Place {
    /// How many modules there are around.
    pub(crate) fn depth(&self) -> usize {
        if self.modules.is_empty() { 0 } else { self.modules.split('/').count() }
    }

    /// The place around it.
    pub(crate) fn parent(&self) -> Self {
        let modules = self.modules.rsplit_once('/').map_or("", |(outer, _)| outer);
        Self { direction: self.direction, modules: modules.into() }
    }

    /// The innermost module, with the pass where it is not the forward one.
    pub fn short(&self) -> String {
        let inner = self.modules.rsplit('/').next().unwrap_or_default();
        match self.direction {
            Direction::Backward => format!("{inner} (backward)"),
            Direction::Optimizer => format!("{inner} (optimizer)"),
            Direction::Forward | Direction::Unknown => inner.to_owned(),
        }
    }
}

/// Calls of one operation in one place.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The row they are counted in; none for launches without an operation.
    pub row: Option<RowId>,
    /// Operation.
    pub name: Arc<str>,
    /// Category key.
    pub category: Arc<str>,
    /// Where.
    pub place: Place,
    /// Calls in a step.
    pub calls: f64,
    /// Kernels in a step.
    pub kernels: f64,
    /// Their time in a step.
    pub ms: f64,
}

impl Part {
    /// So many times it.
    pub(crate) fn times(&self, factor: f64) -> Self {
        let (calls, kernels, ms) = (self.calls * factor, self.kernels * factor, self.ms * factor);
        Self { calls, kernels, ms, ..self.clone() }
    }
}

/// All work of a side that is compared.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    /// In the order of the rows, then of the places.
    pub(crate) parts: Vec<Part>,
    /// Rows that only copy between host and device, or between devices.
    pub(crate) host_copies: usize,
    /// Time of the copies of a step.
    pub(crate) copies: Copies,
}

/// How long copies take, whatever runs beside them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Copies {
    /// Those that no part holds.
    pub(crate) apart_ms: f64,
    /// Those that parts hold.
    pub(crate) in_parts_ms: f64,
}

/// What leaves of one row and place add up to.
#[derive(Default)]
struct Tally {
    leaves: f64,
    kernels: f64,
    us: f64,
}

/// What a row adds up to without the calls that have lost kernels.
struct Whole {
    calls: f64,
    kernels: f64,
    ms: f64,
}

/// How many kernels most leaves of a name have in a row. Of a recording that misses a part, leaves that have fewer have
/// lost some.
fn usual_kernels(leaves: &[Leaf]) -> BTreeMap<(RowId, &str), usize> {
    let mut counts: BTreeMap<(RowId, &str), Vec<usize>> = BTreeMap::new();
    for leaf in leaves {
        if let Some(row) = leaf.row {
            counts.entry((row, &leaf.name)).or_default().push(leaf.kernels.len());
        }
    }
    let upper_median = |mut counts: Vec<usize>| {
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied().unwrap_or_default()
    };
    counts.into_iter().map(|(key, counts)| (key, upper_median(counts))).collect()
}

impl Work {
    /// The work of a side, in steps of which the recording has so many.
    pub(crate) fn of(p: &Prepared, steps: f64) -> Self {
        let places = Places::of(&p.program);
        let mut rows: BTreeMap<(RowId, Place), Tally> = BTreeMap::new();
        let mut bare: BTreeMap<(Arc<str>, Place), Tally> = BTreeMap::new();
        let mut collectives: BTreeSet<&Arc<str>> = BTreeSet::new();
        let mut copies = Copies::default();
        let usual = if p.losses.is_empty() { BTreeMap::new() } else { usual_kernels(&p.program.leaves) };
        let mut cut: BTreeMap<RowId, Tally> = BTreeMap::new();
        for leaf in &p.program.leaves {
            if !leaf.kernels.is_empty() && leaf.kernels.iter().all(|k| k.work == GpuWork::Communication) {
                collectives.extend(leaf.kernels.iter().map(|k| &k.name));
                continue;
            }
            let copied = leaf.kernels.iter().filter(|k| k.work == GpuWork::Memcpy).map(|k| k.us).sum::<f64>();
            let is_apart = match leaf.row {
                Some(row) => p.row(row).is_link_copy,
                None => leaf.kernels.iter().all(|k| k.is_copy),
            };
            *(if is_apart { &mut copies.apart_ms } else { &mut copies.in_parts_ms }) += copied / 1e3 / steps;
            let place = places.of_leaf(&p.program, leaf);
            let is_cut = |row| usual.get(&(row, &*leaf.name)).is_some_and(|usual| leaf.kernels.len() < *usual);
            let tally = match leaf.row {
                // As a call it would seem to take next to no time.
                Some(row) if is_cut(row) => cut.entry(row).or_default(),
                Some(row) => rows.entry((row, place)).or_default(),
                None if is_apart => continue,
                None => bare.entry((Arc::clone(&leaf.name), place)).or_default(),
            };
            tally.leaves += 1.0;
            tally.kernels += leaf.kernels.len() as f64;
            tally.us += leaf.us;
        }
        let mut parts = Vec::new();
        let mut host_copies = 0;
        for row in &p.rows {
            if row.is_link_copy {
                host_copies += 1;
                continue;
            }
            let first = Place { direction: Direction::Forward, modules: "".into() };
            let own: Vec<(&Place, &Tally)> = rows
                .range((row.id, first)..)
                .take_while(|((id, _), _)| *id == row.id)
                .map(|((_, place), tally)| (place, tally))
                .collect();
            let us: f64 = own.iter().map(|(_, t)| t.us).sum();
            let leaves: f64 = own.iter().map(|(_, t)| t.leaves).sum();
            let launched: f64 = row.kernels.iter().map(|k| k.count as f64).sum();
            let lost = cut.remove(&row.id).unwrap_or_default();
            let whole = Whole {
                calls: row.count as f64 * leaves / (leaves + lost.leaves),
                kernels: launched - lost.kernels,
                ms: row.time_ms * us / (us + lost.us),
            };
            let part = |place: Place, calls: f64, kernels: f64, ms: f64| Part {
                row: Some(row.id),
                name: Arc::clone(&row.name),
                category: Arc::clone(&row.category),
                place,
                calls: calls / steps,
                kernels: kernels / steps,
                ms: ms / steps,
            };
            if us > 0.0 {
                parts.extend(own.iter().map(|(place, t)| {
                    let share = t.leaves / leaves;
                    part((*place).clone(), whole.calls * share, whole.kernels * share, whole.ms * t.us / us)
                }));
            } else if row.time_ms > 0.0 && !row.kernels.iter().any(|k| collectives.contains(&k.name)) {
                let place = Place { direction: row.direction, modules: "".into() };
                parts.push(part(place, row.count as f64, launched, row.time_ms));
            }
        }
        parts.extend(bare.into_iter().map(|((name, place), t)| Part {
            row: None,
            name,
            category: "other".into(),
            place,
            calls: t.leaves / steps,
            kernels: t.kernels / steps,
            ms: t.us / 1e3 / steps,
        }));
        Self { parts, host_copies, copies }
    }

    /// Kernel time of a step.
    pub(crate) fn ms(&self) -> f64 {
        self.parts.iter().map(|p| p.ms).sum()
    }
}

/// The path of each module, made once.
struct Places(Vec<Arc<str>>);

impl Places {
    fn of(program: &Program) -> Self {
        let mut paths: Vec<Arc<str>> = Vec::with_capacity(program.modules.len());
        for module in &program.modules {
            // An outer module stands before those in it.
            let outer = module.parent.and_then(|p| paths.get(p.index()));
            paths.push(match outer {
                Some(outer) => format!("{outer}/{}", module.base).into(),
                None => Arc::clone(&module.base),
            });
        }
        Self(paths)
    }

    fn of_leaf(&self, program: &Program, leaf: &Leaf) -> Place {
        // Backward work belongs where its forward work stood.
        let module: Option<ModuleId> = leaf.module.or_else(|| program.leaf(leaf.forward?).module);
        let modules = module.and_then(|m| self.0.get(m.index())).map_or_else(|| "".into(), Arc::clone);
        Place { direction: leaf.direction, modules }
    }
}

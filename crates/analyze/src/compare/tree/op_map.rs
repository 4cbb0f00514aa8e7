//! Kernels by operation, for each trace and for both together.
//!
//! Operations that correspond but have different names get a common one. The reference also renames them in its summary
//! and falls back to the name of the module around them, `root` where there is none; that is kept for its files alone.

use std::collections::BTreeSet;
use std::sync::Arc;

use rapidhash::RapidHashMap;

use super::merged::Which;
use super::tables::{RowTexts, SummaryRow};

/// Operations with their kernels, both sorted.
pub type OpKernels = Vec<(Arc<str>, Vec<Arc<str>>)>;

/// What an operation does in one trace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpWork {
    /// Kernels, sorted.
    pub kernels: Vec<Arc<str>>,
    /// Modules around it, sorted, without blanks.
    pub nn_module_parents: Vec<Arc<str>>,
}

/// An operation in both traces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpEntry {
    /// Its name, or the common name of those that correspond.
    pub name: Arc<str>,
    /// What it does in each trace; `None` where it does not occur.
    pub work: [Option<OpWork>; 2],
}

/// Whether operations may be renamed to the module around them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renames {
    /// To what their names have in common.
    ByName,
    /// To the module around both too, as the reference does.
    ByModule,
}

/// The kernels of each operation of a trace.
pub fn op_kernels(rows: &[RowTexts], which: Which) -> OpKernels {
    let mut map: std::collections::BTreeMap<Arc<str>, BTreeSet<Arc<str>>> = std::collections::BTreeMap::new();
    for row in rows.iter().filter(|r| r.which == which) {
        map.entry(Arc::clone(&row.cpu_op_name)).or_default().insert(Arc::clone(&row.name));
    }
    map.into_iter().map(|(op, kernels)| (op, kernels.into_iter().collect())).collect()
}

/// Common names of operations that correspond.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommonNames(RapidHashMap<Arc<str>, Arc<str>>);

impl CommonNames {
    /// The common name of an operation; its own if it has none.
    pub fn of<'n>(&'n self, name: &'n Arc<str>) -> &'n Arc<str> {
        self.0.get(name).unwrap_or(name)
    }
}

/// Finds the common names of operations under one common call.
pub fn common_names(rows: &[RowTexts], renames: Renames) -> CommonNames {
    let modules = modules_of(rows);
    let mut order: Vec<[Vec<Arc<str>>; 2]> = Vec::new();
    let mut index: RapidHashMap<u32, usize> = RapidHashMap::default();
    for row in rows {
        let Some(lca) = row.lca else { continue };
        let at = *index.entry(lca).or_insert(order.len());
        if at == order.len() {
            order.push(Default::default());
        }
        let names = &mut order[at][row.which as usize];
        if !names.contains(&row.cpu_op_name) {
            names.push(Arc::clone(&row.cpu_op_name));
        }
    }
    let mut seen: rapidhash::RapidHashSet<Arc<str>> = rapidhash::RapidHashSet::default();
    let mut renamed: RapidHashMap<Arc<str>, Arc<str>> = RapidHashMap::default();
    for [one, two] in order {
        if one.is_empty() || two.is_empty() || one.iter().chain(&two).all(|name| seen.contains(name)) {
            continue;
        }
        seen.extend(one.iter().chain(&two).cloned());
        let common = |x: &Arc<str>, y: &Arc<str>| common_name(x, y, &modules, renames);
        let mut rename = |x: &Arc<str>, y: &Arc<str>, name: &Arc<str>| {
            renamed.insert(Arc::clone(x), Arc::clone(name));
            renamed.insert(Arc::clone(y), Arc::clone(name));
        };
        if one.len() == two.len() {
            for (x, y) in one.iter().zip(&two) {
                if let Some(name) = common(x, y) {
                    rename(x, y, &name);
                }
            }
            continue;
        }
        let mut right: Vec<&Arc<str>> = two.iter().filter(|y| !one.contains(y)).collect();
        for x in one.iter().filter(|x| !two.contains(x)) {
            if let Some((at, name)) = right.iter().enumerate().find_map(|(at, y)| Some((at, common(x, y)?))) {
                rename(x, right.remove(at), &name);
            }
        }
    }
    CommonNames(renamed)
}

fn modules_of(rows: &[RowTexts]) -> RapidHashMap<Arc<str>, BTreeSet<Arc<str>>> {
    let mut modules: RapidHashMap<Arc<str>, BTreeSet<Arc<str>>> = RapidHashMap::default();
    for row in rows {
        modules.entry(Arc::clone(&row.cpu_op_name)).or_default().insert(Arc::clone(&row.nn_module_parent));
    }
    modules
}

fn common_name(
    one: &Arc<str>,
    two: &Arc<str>,
    modules: &RapidHashMap<Arc<str>, BTreeSet<Arc<str>>>,
    renames: Renames,
) -> Option<Arc<str>> {
    if one == two {
        return None;
    }
    let local = |name: &str| name.rsplit("::").next().unwrap_or(name).to_owned();
    let (a, b) = (local(one), local(two));
    if a == b {
        return Some(a.into());
    }
    if a.contains(&b) || b.contains(&a) {
        let shorter = if a.chars().count() <= b.chars().count() { a } else { b };
        return Some(shorter.into());
    }
    let head = |name: &str| name.chars().take(20).collect::<String>();
    if head(&a) == head(&b) {
        return Some(format!("{a}/{b}").into());
    }
    let only = |name: &Arc<str>| modules.get(name).filter(|m| m.len() == 1).and_then(BTreeSet::first);
    match (only(one), only(two)) {
        (Some(module), Some(other)) if module == other && renames == Renames::ByModule => Some(without_blanks(module)),
        _ => None,
    }
}

/// A text without blanks.
pub fn without_blanks(text: &str) -> Arc<str> {
    text.replace(' ', "").into()
}

/// Renames in the summary, as the reference does in its file.
pub fn rename_summary(rows: &mut [SummaryRow], names: &CommonNames) {
    for row in rows {
        row.first.cpu_op_name = Arc::clone(names.of(&row.first.cpu_op_name));
        row.first.nn_module_parent = without_blanks(&row.first.nn_module_parent);
    }
}

/// An operation with its kernels and the modules around it in each trace.
type Gathered = (Arc<str>, [BTreeSet<Arc<str>>; 2], [BTreeSet<Arc<str>>; 2]);

/// Operations in both traces, in the order of the summary (after [`rename_summary`] or with its names).
pub fn op_map(rows: &[SummaryRow], names: &CommonNames) -> Vec<OpEntry> {
    let mut index: RapidHashMap<Arc<str>, usize> = RapidHashMap::default();
    let mut order: Vec<Gathered> = Vec::new();
    for row in rows {
        let name = names.of(&row.first.cpu_op_name);
        let at = *index.entry(Arc::clone(name)).or_insert(order.len());
        if at == order.len() {
            order.push((Arc::clone(name), Default::default(), Default::default()));
        }
        let side = row.first.which as usize;
        order[at].1[side].insert(Arc::clone(&row.first.name));
        order[at].2[side].insert(without_blanks(&row.first.nn_module_parent));
    }
    let entry = |(name, kernels, parents): Gathered| {
        let mut work = kernels.into_iter().zip(parents).map(|(kernels, parents)| {
            (!kernels.is_empty()).then(|| OpWork {
                kernels: kernels.into_iter().collect(),
                nn_module_parents: parents.into_iter().collect(),
            })
        });
        OpEntry { name, work: [work.next().flatten(), work.next().flatten()] }
    };
    order.into_iter().map(entry).collect()
}

//! Rows that a pattern over several operations explains: their slowness is told there, once, and not row by row.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::finding::PatternId;
use crate::prepare::kernel_names::has_steps;
use crate::prepare::place;
use crate::prepared::{Prepared, Row};
use crate::program::{LeafId, RowId};
use crate::thresholds::Threshold;

/// From this share on a row counts as covered: the rest is rounding.
const COVERED: f64 = 0.995;

/// A pattern over several operations, as far as rows are concerned.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// What reports call it: the module, mostly.
    pub name: Arc<str>,
    /// What its finding is called.
    pub pattern: PatternId,
    /// Whether something takes the place of its matrix work.
    pub replaces_matrix: bool,
    /// Kernel time of all instances.
    pub time_ms: f64,
    /// How often it occurs.
    pub instances: usize,
    /// How much of each row's time it stands for, 0 to 1.
    pub shares: BTreeMap<RowId, f64>,
}

/// All claims on rows. Candidates claim leaves exclusively, so shares add up.
#[derive(Debug, Clone, Default)]
pub struct Claims {
    candidates: Vec<Candidate>,
    /// Rows all of whose operations lie in fusion candidates of high confidence, with the name of the largest.
    flagged: BTreeMap<RowId, Arc<str>>,
}

impl Claims {
    /// No claims.
    pub fn none() -> Self {
        Self::default()
    }

    /// Claims whole rows.
    #[cfg(test)]
    pub(crate) fn add_rows(&mut self, name: &str, pattern: PatternId, prepared: &Prepared, rows: &BTreeSet<RowId>) {
        let time_ms = rows.iter().map(|&r| prepared.row(r).time_ms).sum();
        let instances = rows.iter().map(|&r| prepared.row(r).count).max().unwrap_or_default();
        let shares = rows.iter().map(|&r| (r, 1.0)).collect();
        self.candidates.push(Candidate {
            name: name.into(),
            pattern,
            replaces_matrix: pattern.tier() == crate::finding::Tier::Compute,
            time_ms,
            instances,
            shares,
        });
    }

    /// Claims leaves: rows are claimed by the share of their time that the leaves stand for. Matrix work is only claimed by
    /// patterns that replace it: the products of a module that could be fused stay what they are. Steps beside them, such
    /// as the addition of a bias after a convolution, do not.
    pub fn add_leaves(
        &mut self,
        name: &str,
        pattern: PatternId,
        replaces_matrix: bool,
        instances: usize,
        prepared: &Prepared,
        leaves: &BTreeSet<LeafId>,
    ) {
        let row_us: Vec<f64> = prepared.rows.iter().map(|r| r.time_ms * 1e3).collect();
        let taken = leaves.iter().filter(|&&l| {
            let leaf = prepared.program.leaf(l);
            replaces_matrix || leaf.kind.is_fusible() || !leaf.row.is_some_and(|row| is_matrix(prepared, row))
        });
        let shares = place::shares(&prepared.program, taken.map(|l| l.index()), &row_us);
        let us: f64 = leaves.iter().map(|&l| prepared.program.leaf(l).us).sum();
        let shares = shares.into_iter().collect();
        self.candidates.push(Candidate {
            name: name.into(),
            pattern,
            replaces_matrix,
            time_ms: us / 1e3,
            instances,
            shares,
        });
    }

    /// Flags rows that candidates of high confidence hold as a whole: name, whether the pattern replaces matrix work,
    /// leaves. Whether a candidate is worth a finding of its own does not matter here.
    pub fn flag<'a>(&mut self, prepared: &Prepared, candidates: impl Iterator<Item = (&'a str, bool, Vec<LeafId>)>) {
        let leaves = &prepared.program.leaves;
        let mut held: Vec<bool> = vec![false; leaves.len()];
        let mut largest: BTreeMap<RowId, (f64, &str)> = BTreeMap::new();
        for (name, replaces_matrix, own) in candidates {
            let mut us: BTreeMap<RowId, f64> = BTreeMap::new();
            for leaf in own {
                let Some(row) = leaves[leaf.index()].row else { continue };
                if !is_matrix(prepared, row) || replaces_matrix {
                    held[leaf.index()] = true;
                    *us.entry(row).or_default() += leaves[leaf.index()].us;
                }
            }
            for (row, us) in us {
                let most = largest.entry(row).or_insert((us, name));
                if us > most.0 {
                    *most = (us, name);
                }
            }
        }
        for (leaf, _) in leaves.iter().zip(&held).filter(|(_, held)| !**held) {
            if let Some(row) = leaf.row {
                largest.remove(&row);
            }
        }
        self.flagged = largest.into_iter().map(|(row, (_, name))| (row, name.into())).collect();
    }

    /// The candidate of high confidence that holds a row as a whole.
    pub fn flagged(&self, row: RowId) -> Option<&Arc<str>> {
        self.flagged.get(&row)
    }

    /// All candidates, in the order in which they were added.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Candidates of a pattern.
    pub fn of_pattern(&self, pattern: PatternId) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(move |c| c.pattern == pattern)
    }

    /// Share of a row's time that candidates of a pattern stand for.
    pub fn share_of_pattern(&self, row: RowId, pattern: PatternId) -> f64 {
        self.of_pattern(pattern).filter_map(|c| c.shares.get(&row)).sum::<f64>().min(1.0)
    }

    /// Share of a row's time that patterns of the compute tier stand for.
    pub fn share_of_compute(&self, row: RowId) -> f64 {
        let compute = self.candidates.iter().filter(|c| c.replaces_matrix);
        compute.filter_map(|c| c.shares.get(&row)).sum::<f64>().min(1.0)
    }

    /// Share of a row's time that is claimed.
    pub fn share(&self, row: RowId) -> f64 {
        self.of_row(row).map(|(_, share)| share).sum::<f64>().min(1.0)
    }

    /// The part of a row that is judged, if it is not all of it: it has no steps of its calls, beside the matrix work that
    /// it is rated by, which patterns claim.
    pub fn without_steps(&self, prepared: &Prepared, row: &Row) -> Option<Row> {
        let own = self.own_share(prepared, row.id);
        (own < COVERED).then(|| row.without_steps(own, prepared.thresholds.get(Threshold::EffAnomaly)))
    }

    /// So much of a row, claimed steps left out.
    pub(crate) fn part(&self, prepared: &Prepared, row: RowId, share: f64) -> Row {
        match self.without_steps(prepared, prepared.row(row)) {
            Some(judged) => judged.part(share / self.own_share(prepared, row)),
            None => prepared.row(row).part(share),
        }
    }

    /// What of a row is no step that could be fused: all of it but of matrix work.
    fn own_share(&self, prepared: &Prepared, row: RowId) -> f64 {
        if !is_matrix(prepared, row) {
            return 1.0;
        }
        let steps = self.of_row(row).filter(|(c, _)| !c.replaces_matrix);
        let steps = steps.map(|(_, share)| share).sum::<f64>();
        // Where steps alone were recorded, nothing is left that could be rated without them.
        if steps < COVERED { 1.0 - steps } else { 1.0 }
    }

    /// The candidate with the largest share of a row that is claimed as a whole.
    pub fn covering(&self, row: RowId) -> Option<&Candidate> {
        if self.share(row) < COVERED {
            return None;
        }
        let mut most: Option<(&Candidate, f64)> = None;
        for (candidate, share) in self.of_row(row) {
            if most.is_none_or(|(_, s)| share > s) {
                most = Some((candidate, share));
            }
        }
        most.map(|(candidate, _)| candidate)
    }

    fn of_row(&self, row: RowId) -> impl Iterator<Item = (&Candidate, f64)> {
        self.candidates.iter().filter_map(move |c| Some((c, *c.shares.get(&row)?)))
    }
}

fn is_matrix(prepared: &Prepared, row: RowId) -> bool {
    has_steps(&prepared.row(row).category)
}

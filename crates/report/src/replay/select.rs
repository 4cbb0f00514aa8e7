//! Which rows go into which package.

use std::collections::BTreeMap;

use super::index::{Cause, Skipped};
use super::{COVERED, Entry, Row, describe, entry, told};
use jarvis_trace::InOrder;

impl Skipped {
    /// Whether no package of it can be made.
    pub fn is_impossible(&self) -> bool {
        self.cause == Cause::Impossible
    }
}

/// Why a package is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// A bottleneck that must be looked at.
    Required,
    /// Another bottleneck.
    Recommended,
    /// The user named it.
    Requested,
}

/// An operation that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Name; `*` stands for any text.
    pub pattern: String,
    /// Why.
    pub tier: Tier,
}

/// How names are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// The whole name, `*` for any text.
    #[default]
    Whole,
    /// Any part of the name, capitals or not.
    Contains,
}

/// Which operations are packaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The operations; the first that fits a name decides its tier.
    pub wanted: Vec<Wanted>,
    /// How names are compared.
    pub matching: Matching,
    /// Leave out kernel names, the device's name and counts.
    pub anonymous: bool,
    /// Most packages.
    pub most_packages: usize,
    /// Most entries of a package.
    pub most_entries: usize,
}

impl Selection {
    /// The operations of these names.
    pub fn of<'n>(names: impl IntoIterator<Item = &'n str>, tier: Tier) -> Self {
        let wanted = names.into_iter().map(|name| Wanted { pattern: name.to_owned(), tier }).collect();
        Self { wanted, matching: Matching::Whole, anonymous: false, most_packages: 10, most_entries: 20 }
    }

    /// Why an operation is packaged; `None` if it is not.
    pub fn tier_of(&self, op: &str) -> Option<Tier> {
        self.wanted.iter().find(|wanted| self.fits(&wanted.pattern, op)).map(|wanted| wanted.tier)
    }

    fn fits(&self, pattern: &str, op: &str) -> bool {
        match self.matching {
            Matching::Whole => fits(pattern, op),
            Matching::Contains => op.to_ascii_lowercase().contains(&pattern.to_ascii_lowercase()),
        }
    }

    /// Names that the user gave and no row has.
    fn missed(&self, rows: &[Row]) -> Vec<String> {
        let has =
            |pattern: &str| rows.iter().any(|row| self.fits(pattern, &row.op) || self.fits(pattern, shown_name(row)));
        let named = self.wanted.iter().filter(|wanted| wanted.tier == Tier::Requested);
        named.map(|wanted| &wanted.pattern).filter(|pattern| !has(pattern)).cloned().collect()
    }
}

/// Whether a name is what a pattern says.
fn fits(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|start| name.strip_prefix(start)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// An operation and its entries.
#[derive(Debug)]
pub(crate) struct Op<'r> {
    pub(crate) name: &'r str,
    pub(crate) tier: Tier,
    /// Most time first.
    pub(crate) entries: Vec<Entry<'r>>,
}

impl Op<'_> {
    /// Time of all calls of all entries.
    pub(crate) fn us(&self) -> f64 {
        self.entries.iter().map(|e| e.row.kernel_us.sum).sum()
    }
}

/// What is packaged and what is not.
#[derive(Debug)]
pub(crate) struct Chosen<'r> {
    pub(crate) ops: Vec<Op<'r>>,
    pub(crate) skipped: Vec<Skipped>,
    /// Names that the user gave and no operation has.
    pub(crate) missed: Vec<String>,
}

/// What the report calls a row.
fn shown_name(row: &Row) -> &str {
    row.substituted_for.as_deref().unwrap_or(&row.op)
}

impl<'r> Chosen<'r> {
    pub(crate) fn of(rows: &'r [Row], selection: &Selection) -> Self {
        let mut by_op: BTreeMap<&'r str, Op<'r>> = BTreeMap::new();
        let mut skipped = Vec::new();
        for row in rows {
            let Some(tier) = selection.tier_of(&row.op).or_else(|| selection.tier_of(shown_name(row))) else {
                continue;
            };
            match entry(row) {
                Ok(entry) => {
                    let name = entry.op;
                    by_op.entry(name).or_insert_with(|| Op { name, tier, entries: Vec::new() }).entries.push(entry);
                }
                Err(reason) => {
                    let reason = told(row, reason, selection.anonymous);
                    skipped.push(left_out(row, Cause::Impossible, reason));
                }
            }
        }
        let mut ops: Vec<Op<'r>> = by_op.into_values().collect();
        for op in &mut ops {
            op.entries.order_by(|a, b| b.row.kernel_us.sum.total_cmp(&a.row.kernel_us.sum));
        }
        ops.order_by(|a, b| b.us().total_cmp(&a.us()).then(a.name.cmp(b.name)));
        for op in ops.split_off(selection.most_packages.min(ops.len())) {
            let reason = format!("More than {} packages were selected; name the operation.", selection.most_packages);
            skipped.extend(op.entries.iter().map(|e| left_out(e.row, Cause::NotSelected, reason.clone())));
        }
        for op in &mut ops {
            keep_most(op, selection.most_entries);
        }
        let missed = selection.missed(rows);
        skipped.extend(missed.iter().map(|name| Skipped {
            op_name: name.clone(),
            args: String::new(),
            time_ms: 0.0,
            reason: "No operation of the trace that uses the GPU is called so.".to_owned(),
            cause: Cause::Impossible,
        }));
        skipped.order_by(|a, b| b.time_ms.total_cmp(&a.time_ms).then_with(|| a.op_name.cmp(&b.op_name)));
        Self { ops, skipped, missed }
    }
}

/// Keeps the entries that make up most of an operation's time.
fn keep_most(op: &mut Op<'_>, most: usize) {
    let enough = op.us() * COVERED;
    let mut covered = 0.0;
    let mut kept = 0;
    for entry in &op.entries {
        if kept > 0 && covered >= enough {
            break;
        }
        covered += entry.row.kernel_us.sum;
        kept += 1;
    }
    op.entries.truncate(kept.min(most.max(1)));
}

fn left_out(row: &Row, cause: Cause, reason: String) -> Skipped {
    Skipped {
        op_name: row.op.to_string(),
        args: describe::args(row.inputs.as_deref()),
        time_ms: row.kernel_us.sum / 1e3,
        reason,
        cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_whole_by_wildcard_or_in_part() {
        for (pattern, name, expected) in [
            ("aten::mm", "aten::mm", true),
            ("aten::mm", "aten::addmm", false),
            ("*mm", "aten::addmm", true),
            ("aten::*", "aten::mm", true),
            ("aten::*_backward", "aten::gelu_backward", true),
            ("aten::*_backward", "aten::gelu_backward_x", false),
            ("*", "", true),
            ("a*a", "a", false),
            ("", "x", false),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
        let mut selection = Selection::of(["mm"], Tier::Requested);
        assert_eq!(selection.tier_of("aten::mm"), None);
        selection.matching = Matching::Contains;
        assert_eq!(selection.tier_of("aten::addmm"), Some(Tier::Requested));
    }
}

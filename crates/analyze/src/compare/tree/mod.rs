//! Comparison of two traces by their call trees.
//!
//! [`merge`] lays the two trees over each other: a node of the result is a call that both made, or one that only one
//! made. [`DiffRows`] then tells, for every GPU event, the lowest call that both traces have around it (its LCA);
//! [`LcaRow`] sums them up a call, [`tables`] shows them as sheets, [`op_map`] lists kernels by operation.

mod align;
mod lca;
mod matching;
mod merge;
mod merged;
mod names;
mod nodes;
pub mod op_map;
mod reference;
mod rows;
pub mod tables;
mod unified;

pub use lca::{LcaGroup, LcaRow, LcaStatus, Totals, lca_groups, lca_summary};
pub use merged::{MergedNode, MergedTree, Presence, Which};
pub use names::{comparison_name, loose_name};
pub use rows::{DiffRow, DiffRows};
pub use unified::{LcaCells, lca_cells, lca_columns};

use jarvis_trace::{Fidelity, TreeView};

use super::parity::Quirks;

/// Lays two trees over each other. The first trace is the baseline.
pub fn merge(one: TreeView<'_>, two: TreeView<'_>, fidelity: Fidelity) -> MergedTree {
    if Quirks::of(fidelity).merge_like_reference { reference::merge(one, two) } else { merge::merge(one, two) }
}

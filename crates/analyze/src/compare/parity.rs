//! Everything the comparison does differently when asked to agree with the reference: its faults, by the numbers they
//! have in the specification. Code asks [`Quirks`] where the two ways part. To drop the mode, delete this module,
//! [`crate::compare::tree`]'s `reference` module and what no longer compiles.
//!
//! | fault | correct | reference |
//! |---|---|---|
//! | 1, 2 | rows of one key are put together before they are joined | every row of a key is joined with every other |
//! | 3 | sheets that some report lacks are compared; all sheets of operations are | the first report decides; seven sheets |
//! | 5 | key columns stay; `UID_first` is hidden | key columns without a value go |
//! | 7 | the summary groups by what users can tell apart | by operation UID and busy time too |
//! | 8 | operations keep their names | some are renamed to a module, or to `root` |
//! | 11, 13, 15 | one root a tree, siblings in order, wrappers stay | two roots, wrappers vanish |
//! | 12 | fills are GPU work like kernels and copies | a fill that both traces have is not listed |
//!
//! Right in both modes: tab names are shortened uniquely (4), sorts are stable (6), identical traces are told (9).

use jarvis_trace::Fidelity;

/// Which faults of the reference to reproduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
pub struct Quirks {
    /// Rows that share a key are joined each with each (1, 2).
    pub rows_multiply: bool,
    /// Which sheets there are is decided by the first report, and sheets another lacks are an error (3).
    pub first_report_decides: bool,
    /// Only the seven sheets of operations that the reference knows are compared, if none is empty (3).
    pub seven_op_sheets: bool,
    /// Key columns without a value are removed, and empty sheets are written without columns (5).
    pub keys_may_vanish: bool,
    /// Numbers in text keys differ from numbers in number keys.
    pub keys_by_type: bool,
    /// A call tree is merged as the reference merges it (7, 8, 11, 12, 15).
    pub merge_like_reference: bool,
    /// Rows are the same only if their events have the same UIDs.
    pub same_by_uid: bool,
}

impl Quirks {
    /// Those of a fidelity.
    pub fn of(fidelity: Fidelity) -> Self {
        let all = fidelity == Fidelity::Reference;
        Self {
            rows_multiply: all,
            first_report_decides: all,
            seven_op_sheets: all,
            keys_may_vanish: all,
            keys_by_type: all,
            merge_like_reference: all,
            same_by_uid: all,
        }
    }
}

//! Everything that is computed differently under `--parity`: the reference's faults and blanks, by name.
//!
//! Models ask `quirks.some_fault` where the two ways part; formulas that exist for parity alone stand here too. To
//! drop the mode, delete this module and what no longer compiles.

/// Which behaviour of the reference is reproduced. [`Quirks::NONE`] is the default, correct mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// Reproduce the reference in full.
    pub parity: bool,
}

impl Quirks {
    /// Correct numbers.
    pub const NONE: Self = Self { parity: false };
    /// Every number, blank and quirk of the reference.
    pub const REFERENCE: Self = Self { parity: true };
}

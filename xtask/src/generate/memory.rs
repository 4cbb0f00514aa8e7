//! The allocator behind `[memory]` events: blocks taken and given back in stack order, so that a step ends with what
//! it began with and every step can repeat the same totals.

/// Size of the first block that is never returned: weights, optimizer state.
const RESIDENT_BYTES: i64 = 21_474_836_480;
/// What the allocator has reserved from the device, all along.
pub(super) const RESERVED_BYTES: i64 = 88_046_829_568;
/// Blocks are multiples of this, as PyTorch's are.
const GRANULE_BYTES: i64 = 512;
/// Where the device's addresses begin in traces of 64-bit Linux.
const FIRST_ADDRESS: i64 = 139_793_440_000_000;

/// Blocks of the step now allocated.
#[derive(Debug, Default)]
pub(super) struct Heap {
    blocks: Vec<(i64, i64)>,
    used: i64,
}

impl Heap {
    /// Takes a block; returns its size and address.
    pub(super) fn take(&mut self, bytes: i64) -> (i64, i64) {
        let size = (bytes.max(1) + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES;
        let address = FIRST_ADDRESS + self.used;
        self.blocks.push((size, address));
        self.used += size;
        (size, address)
    }

    /// Gives back the youngest block, if more than `keep` are allocated.
    pub(super) fn give_back(&mut self, keep: usize) -> Option<(i64, i64)> {
        if self.blocks.len() <= keep {
            return None;
        }
        let (size, address) = self.blocks.pop()?;
        self.used -= size;
        Some((size, address))
    }

    /// Number of blocks allocated.
    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes allocated, resident ones included.
    pub(super) fn total(&self) -> i64 {
        RESIDENT_BYTES + self.used
    }
}

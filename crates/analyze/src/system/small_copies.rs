//! Small copies to the device one after another, as `[x.to(device) for x in samples]` leaves them: one copy of all does as
//! much, and the host waits once for it.

use jarvis_trace::GpuWork;

use super::direction::CopyDirection;
use crate::program::{Leaf, Program};

/// Fewer copies are no row.
const LEAST: usize = 8;

/// A longer copy takes its time for its bytes.
const SMALL_US: f64 = 20.0;

/// The GPU events, by UID, of copies that follow others without anything launched in between.
pub(super) fn following(program: &Program) -> Vec<u32> {
    let same_row =
        |a: &Leaf, b: &Leaf| a.thread == b.thread && a.step == b.step && goes_to_device(a) && goes_to_device(b);
    let rows = program.leaves.chunk_by(same_row).filter(|row| row.len() >= LEAST);
    rows.flat_map(|row| &row[1..]).flat_map(|leaf| leaf.kernels.iter().map(|k| k.uid)).collect()
}

/// Whether all a leaf does is to copy to the device.
fn goes_to_device(leaf: &Leaf) -> bool {
    let mut kernels = leaf.kernels.iter().peekable();
    kernels.peek().is_some()
        && kernels.all(|k| {
            k.work == GpuWork::Memcpy
                && CopyDirection::of_name(&k.name) == CopyDirection::HostToDevice
                && k.us < SMALL_US
        })
}

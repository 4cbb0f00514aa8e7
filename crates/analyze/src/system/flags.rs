//! Flags that the host reads, as in `if torch.isnan(x).any():`. A program that looks less often need not make them either.

use super::recording::READS;
use crate::program::{Leaf, Program};

/// What makes one flag of many.
const REDUCED: [&str; 2] = ["aten::any", "aten::all"];
/// What makes flags of numbers, or of other flags.
const COMPARED: [&str; 15] = [
    "aten::abs",
    "aten::bitwise_and",
    "aten::bitwise_not",
    "aten::bitwise_or",
    "aten::eq",
    "aten::ge",
    "aten::gt",
    "aten::isinf",
    "aten::le",
    "aten::logical_and",
    "aten::logical_not",
    "aten::logical_or",
    "aten::lt",
    "aten::mul",
    "aten::ne",
];
/// Most comparisons of a flag: `isfinite` has four.
const MOST: usize = 6;

/// The GPU events, by UID, that make flags which the host then reads.
pub(super) fn kernels(program: &Program) -> Vec<u32> {
    let mut kernels = Vec::new();
    for (at, leaf) in program.leaves.iter().enumerate() {
        if READS.contains(&&*leaf.name) {
            kernels.extend(makers(&program.leaves[..at], leaf.thread).flat_map(|l| l.kernels.iter().map(|k| k.uid)));
        }
    }
    kernels
}

/// The operations at the end of these that make one flag; none if the last one does not.
fn makers(before: &[Leaf], thread: u32) -> impl Iterator<Item = &Leaf> {
    let mut of_thread = before.iter().rev().take_while(|l| l.thread == thread);
    let mut makers: Vec<&Leaf> = of_thread.next().filter(|l| REDUCED.contains(&&*l.name)).into_iter().collect();
    if let Some(shape) = makers.first().and_then(|l| shape(l)) {
        let is_compared = |l: &&Leaf| COMPARED.contains(&&*l.name) && self::shape(l) == Some(shape);
        makers.extend(of_thread.take_while(is_compared).take(MOST));
    }
    // Flags can be multiplied, but so can what is looked at.
    while makers.last().is_some_and(|l| &*l.name == "aten::mul") {
        makers.pop();
    }
    makers.into_iter()
}

/// The sizes of its first input.
fn shape(leaf: &Leaf) -> Option<&[i64]> {
    leaf.inputs.dims.as_ref()?.first()?.shape()
}

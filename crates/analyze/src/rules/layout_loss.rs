//! What operations beside convolutions lose where images come to lie channels-last: some kernels of PyTorch are slower on
//! them than on contiguous ones, and take back part of what the transposes cost.

use std::collections::BTreeSet;

use super::layout::{Layout, is_image};
use crate::finding::Range;
use crate::prepared::Row;

/// Operations with how many times as long they take, at least and at most: eight shapes from 8x64x56x56 to
/// 4x48x256x256, in half and single precision, on an H200. Poolings of maxima, paddings with a constant and everything
/// elementwise take as long either way, and bilinear upsampling between 0.02 and 2.7 times as long.
const SLOWER: &[(&str, f64, f64)] = &[
    ("aten::upsample_nearest2d", 1.9, 2.9),
    ("aten::_upsample_nearest_exact2d", 1.9, 2.9),
    ("aten::upsample_nearest2d_backward", 1.0, 2.2),
    ("aten::_upsample_nearest_exact2d_backward", 1.0, 2.2),
    ("aten::reflection_pad2d", 1.8, 2.2),
    ("aten::avg_pool2d", 1.0, 2.1),
    (CAT, 1.1, 2.2),
];

const CAT: &str = "aten::cat";

/// The same of group and instance norms, forward and backward, of sixteen shapes and types. They give channels-first images
/// back, whatever they get.
const NORMS_SLOWER: (f64, f64) = (1.2, 3.0);

/// Group and instance norms on images.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurningNorms {
    pub(super) calls: usize,
    pub(super) ms: f64,
}

impl TurningNorms {
    pub(super) fn of(rows: &[Row]) -> Self {
        let is_one = |r: &&Row| {
            let kind = r.name.contains("group_norm") || r.name.contains("instance_norm");
            &*r.category == "norm" && kind && is_image(r) && Layout::of(r) != Layout::ChannelsLast
        };
        let count = |sum: Self, r: &Row| Self { calls: sum.calls + r.count, ms: sum.ms + r.time_ms };
        rows.iter().filter(is_one).fold(Self { calls: 0, ms: 0.0 }, count)
    }

    /// How much longer they take on channels-last images, in milliseconds.
    pub(super) fn loss_ms(self) -> Range {
        Range::new(self.ms * (NORMS_SLOWER.0 - 1.0), self.ms * (NORMS_SLOWER.1 - 1.0))
    }

    /// Share of so many convolutions that does not get its images from one of them.
    pub(super) fn leave(self, convolutions: usize) -> f64 {
        (1.0 - self.calls as f64 / convolutions.max(1) as f64).max(0.0)
    }
}

/// Rows that lose.
#[derive(Debug)]
pub(super) struct Losses<'a> {
    rows: Vec<&'a Row>,
    /// How much longer they take, in milliseconds.
    pub(super) ms: Range,
}

impl<'a> Losses<'a> {
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let mut losses = Self { rows: Vec::new(), ms: Range::new(0.0, 0.0) };
        for row in rows {
            let Some((_, least, most)) = SLOWER.iter().find(|(name, ..)| *name == &*row.name) else { continue };
            let touched = is_image(row) && Layout::of(row) == Layout::Contiguous;
            if touched && (&*row.name != CAT || joins_channels(row)) {
                losses.rows.push(row);
                losses.ms.low += row.time_ms * (least - 1.0);
                losses.ms.high += row.time_ms * (most - 1.0);
            }
        }
        losses
    }

    /// The operations, each once.
    pub(super) fn names(&self) -> String {
        let names: BTreeSet<&str> = self.rows.iter().map(|r| &*r.name).collect();
        names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    }
}

/// Whether tensors are put together by their channels.
fn joins_channels(row: &Row) -> bool {
    let dim = row.inputs.concrete.as_ref().and_then(|c| c.get(1)?.parse::<i64>().ok());
    matches!(dim, Some(1 | -3))
}

//! What operations beside convolutions lose where images come to lie channels-last: some kernels of PyTorch are slower on
//! them than on contiguous ones, and take back part of what the transposes cost.

use std::collections::BTreeSet;

use super::convolution::group_width;
use super::layout::{Layout, is_image, transposes};
use crate::finding::Range;
use crate::prepared::Row;
use crate::texts::listed;

/// Operations with how many times as long they take, at least and at most: eight shapes from 8x64x56x56 to
/// 4x48x256x256, in half and single precision, on an H200. Poolings of maxima, paddings with a constant and everything
/// elementwise take as long either way, and bilinear upsampling between 0.02 and 2.7 times as long. Those of volumes: six
/// shapes, in half and single precision.
const SLOWER: &[(&str, f64, f64)] = &[
    ("aten::upsample_nearest2d", 1.9, 2.9),
    ("aten::_upsample_nearest_exact2d", 1.9, 2.9),
    ("aten::upsample_nearest2d_backward", 1.0, 2.2),
    ("aten::_upsample_nearest_exact2d_backward", 1.0, 2.2),
    ("aten::reflection_pad2d", 1.8, 2.2),
    ("aten::avg_pool2d", 1.0, 2.1),
    ("aten::upsample_nearest3d", 1.4, 2.2),
    ("aten::avg_pool3d", 1.3, 5.4),
    (CAT, 1.1, 2.2),
];

const CAT: &str = "aten::cat";

/// How many times as long the transposes around convolutions in groups take, at least and at most, where the library has no
/// kernel for groups of that width: it transposes for another engine in either layout. Sixteen shapes of widths that are no
/// power of two, or of two channels, forward and with the backward pass, in half and single precision on an H200: they
/// took 0.6 to 4.8 times as long, half of them 2.9 and more, and two in single precision a quarter. The kernels between them
/// mostly take as long either way. Groups of 4, 8, 16, 32, 64 and 128 channels need none on channels-last images.
const GROUPED: (f64, f64) = (1.0, 4.0);

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
    /// Convolutions that do too, and whose transposes stay.
    pub(super) grouped: OddGroups,
}

impl<'a> Losses<'a> {
    pub(super) fn of(rows: &'a [Row]) -> Self {
        let mut losses = Self { rows: Vec::new(), ms: Range::new(0.0, 0.0), grouped: OddGroups::of(rows) };
        losses.ms.low += losses.grouped.ms * (GROUPED.0 - 1.0);
        losses.ms.high += losses.grouped.ms * (GROUPED.1 - 1.0);
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
        let names = names.into_iter().map(|name| format!("`{name}`"));
        let grouped = (self.grouped.ms > 0.0).then(|| format!("convolutions in {}", self.grouped.widths()));
        names.chain(grouped).collect::<Vec<_>>().join(", ")
    }
}

/// Convolutions in groups that the library has no kernels for.
#[derive(Debug)]
pub(super) struct OddGroups {
    /// Transposes around them.
    pub(super) ms: f64,
    widths: BTreeSet<i64>,
}

impl OddGroups {
    pub(super) fn of(rows: &[Row]) -> Self {
        let mut odd = Self { ms: 0.0, widths: BTreeSet::new() };
        for row in rows.iter().filter(|r| &*r.category == "convolution" && Layout::of(r) != Layout::ChannelsLast) {
            let (Some(width), (_, ms)) = (Self::width(row), transposes(row)) else { continue };
            if ms > 0.0 {
                odd.ms += ms;
                odd.widths.insert(width);
            }
        }
        odd
    }

    /// Whether a convolution is one.
    pub(super) fn has(row: &Row) -> bool {
        Self::width(row).is_some()
    }

    fn width(row: &Row) -> Option<i64> {
        group_width(row).filter(|&w| is_image(row) && !has_kernels(w))
    }

    /// How wide their groups are.
    pub(super) fn widths(&self) -> String {
        let widths: Vec<String> = self.widths.iter().map(i64::to_string).collect();
        format!("groups of {} channels", listed(&widths))
    }
}

/// Whether the library has kernels for convolutions in groups of so many channels.
fn has_kernels(width: i64) -> bool {
    width >= 4 && width.count_ones() == 1
}

/// Whether tensors are put together by their channels.
fn joins_channels(row: &Row) -> bool {
    let dim = row.inputs.concrete.as_ref().and_then(|c| c.get(1)?.parse::<i64>().ok());
    matches!(dim, Some(1 | -3))
}

//! Sizes of a matrix product.

use std::borrow::Cow;

use jarvis_perf::dtype;
use jarvis_perf::kernels::{Tile, dimension_efficiency};
use jarvis_perf::parity::Quirks;
use jarvis_perf::value::Value;

use crate::prepare::args::short_type;
use crate::prepared::{KernelTile, Row};
use crate::rules::cx::CategoryCx;
use crate::rules::words::is_backward;
use crate::thresholds::{Threshold, Thresholds};

/// Alignment that fast kernels want, in bytes.
const ALIGNMENT: i64 = 16;

/// Side of the tile that fast kernels use for small products.
const USUAL_TILE: i64 = 128;

/// From this ratio of inner dimension to output on, kernels split the inner dimension.
const DEEP: i64 = 4;

/// Sizes and type of a product.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub(super) m: i64,
    pub(super) n: i64,
    pub(super) k: i64,
    pub(super) batch: i64,
    /// Short name of the operands' type.
    pub(super) dtype: Cow<'static, str>,
    /// Bytes of an element.
    pub(super) element: Option<i64>,
    /// Whether each operand lies column by column in memory.
    columns: (bool, bool),
    /// Whether M or N is what all groups of a grouped product have together.
    cut: bool,
    /// Matrices of the second factor that are weights; `None` where it may be no weight.
    weights: Option<i64>,
}

/// The operand of a product that holds most of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Heavy {
    /// The second factor, a weight.
    Weight,
    /// The first factor, what a weight is applied to.
    Input,
}

/// Of the bytes of a product, what most of them are at least.
const MOST_BYTES: f64 = 0.5;

/// How a product's output fits the tiles of its kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct TileFit {
    /// Tiles of all batches and splits.
    pub(super) tiles: i64,
    /// Part of the tiles' area that is no output.
    pub(super) padding_percent: f64,
    /// Whether there may be more: the inner dimension is split in parts that nothing counts, or groups of rows that
    /// nothing counts begin a tile each.
    pub(super) at_least: bool,
}

impl Shape {
    /// From the model's parameters, else from the arguments.
    pub(super) fn of(row: &Row) -> Option<Self> {
        let int = |key: &str| match row.params.iter().find(|(k, _)| k == key)?.1 {
            Value::Int(i) => Some(i),
            _ => None,
        };
        let (m, n, k, batch) = match (int("M"), int("N"), int("K")) {
            (Some(m), Some(n), Some(k)) => (m, n, k, int("B").or(int("G").filter(|_| !is_cut(row))).unwrap_or(1)),
            _ => by_dims(row)?,
        };
        let kind = operand_type(row);
        Some(Self {
            m,
            n,
            k,
            batch,
            dtype: kind.map(short_type).unwrap_or_default(),
            element: kind.and_then(|t| dtype::size(t, &Quirks::NONE)),
            columns: (by_columns(row, 0), by_columns(row, 1)),
            cut: is_cut(row),
            weights: weights(row, batch),
        })
    }

    /// The operand that holds most of the bytes, and its share of them, 0 to 1; `None` where it is not known which factor
    /// is the weight.
    pub(super) fn heavy(&self) -> Option<(Heavy, f64)> {
        let [m, n, k, batch, weights] = [self.m, self.n, self.k, self.batch, self.weights?].map(|v| v as f64);
        let (input, weight, output) = (batch * m * k, weights * n * k, batch * m * n);
        let (heavy, bytes) = if weight > input { (Heavy::Weight, weight) } else { (Heavy::Input, input) };
        let share = bytes / (input + weight + output);
        (share >= MOST_BYTES).then_some((heavy, share))
    }

    /// Whether most of the bytes are a weight's: fewer of its bytes or more tokens for each of them help.
    pub(super) fn is_weight_bound(&self) -> bool {
        matches!(self.heavy(), Some((Heavy::Weight, _)))
    }

    pub(super) fn short_side(&self) -> i64 {
        self.m.min(self.n)
    }

    pub(super) fn long_side(&self) -> i64 {
        self.m.max(self.n)
    }

    /// Whether a row is many small products: in a call, or over all calls.
    pub(super) fn is_tiny_batched(&self, row: &Row, limits: &Thresholds) -> bool {
        (self.long_side() as f64) <= limits.get(Threshold::GemmTinyLong)
            && (self.short_side() as f64) <= limits.get(Threshold::GemmTinyShort)
            && (self.k as f64) <= limits.get(Threshold::GemmTinyDepth)
            && self.batch as f64 * row.count as f64 >= limits.get(Threshold::GemmTinyCount)
    }

    pub(super) fn is_skinny(&self, cx: &CategoryCx<'_>) -> bool {
        (self.short_side() as f64) <= cx.limit(Threshold::GemmSkinnyShort)
            && (self.long_side() as f64) >= cx.limit(Threshold::GemmSkinnyLong)
    }

    /// In a word.
    pub(super) fn class(&self, cx: &CategoryCx<'_>, row: &Row) -> &'static str {
        match () {
            () if self.is_tiny_batched(row, &cx.prepared.thresholds) => "tiny_batched",
            () if self.is_skinny(cx) => "skinny",
            () if self.m.min(self.n).min(self.k) >= 1024 => "large",
            () => "regular",
        }
    }

    /// The dimensions that lie along memory and are no multiples of the alignment: name, size, next multiple. Only the
    /// lengths of contiguous rows matter to kernels, so an odd M of row-major operands does no harm.
    pub(super) fn unaligned(&self) -> Vec<(&'static str, i64, i64)> {
        let Some(element) = self.element.filter(|&e| e > 0 && e <= ALIGNMENT) else { return Vec::new() };
        let step = ALIGNMENT / element;
        let first = if self.columns.0 { ("M", self.m) } else { ("K", self.k) };
        let second = if self.columns.1 { ("K", self.k) } else { ("N", self.n) };
        let mut odd = vec![first, second, ("N", self.n)];
        // One row or column is a product with a vector, whose kernels have no such wish.
        odd.retain(|&(_, v)| v > 1 && v % step != 0);
        odd.sort_unstable();
        odd.dedup();
        odd.into_iter().map(|(dim, v)| (dim, v, next_multiple(v, step))).collect()
    }

    /// Part of the GPU that the output's tiles can keep busy, 0 to 1; `None` where splitting the inner dimension could
    /// make up for few tiles.
    pub(super) fn filled(&self, compute_units: i64) -> Option<f64> {
        if compute_units <= 0
            || self.k > self.long_side().saturating_mul(DEEP)
            || [self.m, self.n, self.batch].contains(&0)
        {
            return None;
        }
        let tiles = div_ceil(self.m, USUAL_TILE) as f64 * div_ceil(self.n, USUAL_TILE) as f64 * self.batch as f64;
        Some((tiles / compute_units as f64).min(1.0))
    }

    /// How the output fits the tiles of the main kernel.
    pub(super) fn tiles(&self, row: &Row) -> Option<TileFit> {
        let KernelTile { m, n, k } = row.tile.filter(|_| self.batch > 0)?;
        // On how many units they run is of no matter here.
        let fit = dimension_efficiency(self.m, self.n, Tile { m, n, k }, 1)?;
        let split = row.split.filter(|&s| s > 1).unwrap_or(1);
        // One product has no batch to lay along the third direction of the grid.
        let deep = row.split.is_none() && self.batch == 1 && row.blocks_deep > 1;
        Some(TileFit {
            tiles: (fit.tiles * self.batch * split).to_i64(),
            padding_percent: 100.0 * (1.0 - fit.tile),
            at_least: row.split == Some(0) || deep || self.cut,
        })
    }
}

/// Matrices of the second factor that are weights. Batched products multiply activations, in the backward pass either
/// factor may be one, and a product with a vector may have its weight first. Groups have a weight each.
fn weights(row: &Row, batch: i64) -> Option<i64> {
    let groups = row.params.iter().find_map(|(key, value)| match value {
        Value::Int(groups) if key == "G" => Some(*groups),
        _ => None,
    });
    let unclear = is_backward(row) || row.name.ends_with("mv") || row.name.ends_with("mv_");
    groups.or((batch == 1).then_some(1)).filter(|_| !unclear)
}

fn div_ceil(a: i64, b: i64) -> i64 {
    a / b + i64::from(a % b != 0)
}

pub(super) fn next_multiple(value: i64, step: i64) -> i64 {
    div_ceil(value, step).saturating_mul(step)
}

/// Whether an operand lies column by column in memory; unknown strides are those of rows.
fn by_columns(row: &Row, operand: usize) -> bool {
    let strides = row.inputs.strides.as_ref().and_then(|s| s.get(operand_at(row) + operand)?.shape());
    strides.is_some_and(|s| matches!(s, [.., a, b] if *b != 1 && *a == 1))
}

/// Whether the rows or columns of one operand of a grouped product are cut into the groups: only one of the two has a
/// dimension of groups, or all matrices are told one by one.
fn is_cut(row: &Row) -> bool {
    let rank = |i: usize| row.inputs.dims.as_ref().and_then(|d| d.get(i)?.shape()).map_or(0, <[i64]>::len);
    let grouped = row.params.iter().any(|(key, _)| key == "G");
    grouped && !matches!((rank(0), rank(1)), (3, 3) | (2, 2))
}

fn operand_at(row: &Row) -> usize {
    usize::from(row.name.contains("addmm") || row.name.contains("baddbmm") || row.name.contains("addbmm"))
}

fn operand_type(row: &Row) -> Option<&str> {
    let types = row.inputs.types.as_ref()?;
    types.get(operand_at(row)).map(String::as_str).filter(|t| !t.is_empty())
}

fn by_dims(row: &Row) -> Option<(i64, i64, i64, i64)> {
    let dims = row.inputs.dims.as_ref()?;
    let at = operand_at(row);
    match (dims.get(at)?.shape()?, dims.get(at + 1)?.shape()?) {
        (&[m, k], &[inner, n]) if k == inner => Some((m, n, k, 1)),
        (&[batch, m, k], &[_, inner, n]) if k == inner => Some((m, n, k, batch)),
        _ => None,
    }
}

//! Work that goes between images with channels first and their channels laid together.
//!
//! A linear layer over the channels of an image wants them together in memory: `permute` gives it a view of them that has to
//! be copied first, and what comes back is added to images in the other order. With channels last the view is as the layer
//! wants it, so that nothing is copied, what is added lies as what it is added to, and the matrix product adds the bias. A
//! norm over the channels copies such a view within itself.

use crate::finding::Range;
use crate::patterns::scene::numel;
use crate::prepared::Row;
use crate::rules::cx::CategoryCx;
use crate::rules::impact::row_saved;

/// Operations that copy, by their names.
const COPIES: &[&str] = &["aten::copy_", "aten::clone", "aten::contiguous"];

/// What the kernels are called that copy a tensor into another order.
const COPY_KERNEL: &str = "direct_copy_kernel";

/// The operation that adds the bias itself where its input is no plain matrix.
const LINEAR: &str = "aten::linear";

/// What it is made of.
#[derive(Debug, Default)]
pub(super) struct Across<'a> {
    /// Copies from one order into the other.
    copies: Vec<&'a Row>,
    /// Operations on tensors of both orders.
    mixed: Vec<&'a Row>,
    /// Biases that are added on their own.
    biases: Vec<&'a Row>,
    /// Time of copies that other operations make of the images they are given, in milliseconds.
    copied_within_ms: f64,
}

impl<'a> Across<'a> {
    /// On the images of these convolutions.
    pub(super) fn of(cx: &CategoryCx<'a>, convolutions: &[&Row]) -> Self {
        let images: Vec<&[i64]> = convolutions.iter().filter_map(|row| image(row)).collect();
        let mut found = Self::default();
        for row in cx.prepared.rows.iter().filter(|row| row.category != cx.category.key) {
            let tensors = tensors(row);
            let is_image = |dims: &[i64]| images.iter().any(|image| same_sizes(image, dims));
            match &tensors[..] {
                [(a, first), (b, second), ..] if a == b && is_image(a) && order(a, first) != order(b, second) => {
                    let list = if COPIES.contains(&&*row.name) { &mut found.copies } else { &mut found.mixed };
                    list.push(row);
                }
                [(a, _), (bias, _)] if bias.len() == 1 && is_bias_of(cx, row) => {
                    let pixels = numel(a) / bias[0].max(1);
                    if images.iter().any(|image| numel(image) / image[1].max(1) == pixels) {
                        found.biases.push(row);
                    }
                }
                [(a, strides), ..] if is_image(a) && !order(a, strides).is_sorted() => {
                    found.copied_within_ms += copied_ms(row);
                }
                _ => {}
            }
        }
        found
    }

    /// What is told with the convolutions. (Biases are told where the matrix products are, and what is copied within an
    /// operation with that.)
    pub(super) fn rows(&self) -> impl Iterator<Item = &'a Row> {
        self.copies.iter().chain(&self.mixed).copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows().next().is_none()
    }

    pub(super) fn ms(&self) -> f64 {
        self.rows().map(|row| row.time_ms).sum()
    }

    /// What channels last save of it: at best the copies go, the rest comes to what memory allows, and matrix products add
    /// their biases and operations copy nothing themselves; at worst half of the first two.
    pub(super) fn saving(&self, cx: &CategoryCx<'_>) -> Range {
        let ms = |rows: &[&Row]| rows.iter().map(|row| row.time_ms).sum::<f64>();
        let mixed: f64 = self.mixed.iter().map(|row| row_saved(cx, row, cx.prepared.memory_ceiling())).sum();
        let told = ms(&self.copies) + mixed;
        Range::new(0.5 * told, told + ms(&self.biases) + self.copied_within_ms)
    }
}

/// Sizes of a convolution's images; the backward has the gradient first.
fn image(row: &Row) -> Option<&[i64]> {
    row.inputs.dims.as_ref()?.first()?.shape().filter(|dims| dims.len() > 3)
}

/// Whether one shape has the sizes of another, in whatever order.
fn same_sizes(a: &[i64], b: &[i64]) -> bool {
    let sorted = |list: &[i64]| {
        let mut list = list.to_vec();
        list.sort_unstable();
        list
    };
    a.len() == b.len() && sorted(a) == sorted(b)
}

/// The tensors of a row, with how they lie in memory.
fn tensors(row: &Row) -> Vec<(&[i64], &[i64])> {
    let (Some(dims), Some(strides)) = (&row.inputs.dims, &row.inputs.strides) else { return Vec::new() };
    let both = dims.iter().zip(strides.iter()).filter_map(|(d, s)| Some((d.shape()?, s.shape()?)));
    both.filter(|(d, s)| !d.is_empty() && d.len() == s.len()).collect()
}

/// The dimensions from the outermost in memory to the innermost; those of one element lie anywhere.
fn order(dims: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..dims.len()).filter(|&d| dims[d] > 1).collect();
    order.sort_by_key(|&d| std::cmp::Reverse(strides[d]));
    order
}

/// Time of the kernels of a row that copy its input first.
fn copied_ms(row: &Row) -> f64 {
    row.kernels.iter().filter(|k| k.name.contains(COPY_KERNEL)).map(|k| k.total_us / 1e3).sum()
}

/// Whether a row is the addition of a bias that a linear layer makes on its own.
fn is_bias_of(cx: &CategoryCx<'_>, row: &Row) -> bool {
    let program = &cx.prepared.program;
    let in_linear = |name: &std::sync::Arc<str>| &**name == LINEAR;
    &*row.name == "aten::add_"
        && program.leaves.iter().find(|l| l.row == Some(row.id)).is_some_and(|l| program.ops_around(l).any(in_linear))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_of_one_element_lie_anywhere() {
        let (dims, first, last) = ([64, 256, 56, 56], [802_816, 3136, 56, 1], [802_816, 1, 14336, 256]);
        assert_eq!((order(&dims, &first), order(&dims, &last)), (vec![0, 1, 2, 3], vec![0, 2, 3, 1]));
        // Images of one pixel, and of one channel, are the same in both layouts.
        assert_eq!(order(&[64, 256, 1, 1], &[256, 1, 1, 1]), order(&[64, 256, 1, 1], &[256, 1, 256, 256]));
        assert_eq!(order(&[64, 1, 56, 56], &[3136, 3136, 56, 1]), order(&[64, 1, 56, 56], &[3136, 1, 56, 1]));
    }
}

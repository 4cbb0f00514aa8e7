//! Convolutions of few input channels, as the first of most vision models is.
//!
//! Measured on one H200: forward and the gradient of the filter of 2-D convolutions with 1, 3, 4 and 8 input channels, sides
//! of 3 to 16, strides of 1 to 16, 16 and 128 images, both layouts and four precisions, 768 times in all, with the kernels
//! that the library chooses by itself.

use super::shape::{Kind, Shape};
use crate::prepared::Row;
use crate::rules::judge::{Judgement, RowPattern, Unsure};
use crate::rules::words::Said;
use crate::texts::TextId;

/// Most input channels that count as few, of those measured. With 16 the median was 1.1 to 1.5 times as high as with 8, with
/// 64 1.4 to 2.
const MOST: i64 = 8;

/// What they reach of the roofline in half precision or TF32, in percent: a quarter of the shapes reached less than 3 to 8
/// in the better layout, none more than 38.
const BAND: (f64, f64) = (5.0, 35.0);
/// The same in full precision: a quarter less than 18 to 20, none more than 49.
const BAND_IN_FULL: (f64, f64) = (18.0, 45.0);

/// Whether a convolution has few input channels. One by one filters are products, and reach as much as others.
pub(super) fn has_few(shape: &Shape) -> bool {
    matches!(shape.kind(), Kind::Large | Kind::Standard) && shape.per_group <= MOST
}

fn is_in_full(row: &Row) -> bool {
    matches!(row.efficiency.compute_spec.as_deref(), Some("matrix_fp32" | "matrix_fp64"))
}

/// Asks no more than such convolutions were measured to reach, and counts on nothing: between both layouts, and with
/// channels added, one shape took up to eighteen times as long as another way, and which was fastest differed from shape to
/// shape. Nor does half precision mend them: of 288 pairs 56% took longer in it than in full precision.
pub(super) fn limit(row: &Row, shape: &Shape, judgement: &mut Judgement) {
    let (low, high) = if is_in_full(row) { BAND_IN_FULL } else { BAND };
    judgement.others_slow_below = judgement.slow_below;
    judgement.band = Some((low, high));
    judgement.slow_below = low;
    judgement.ceiling = judgement.ceiling.min(high);
    judgement.floor_target = None;
    judgement.unsure = Some(Unsure::FewChannels);
    let channels = crate::texts::counted(shape.per_group, "input channel");
    judgement.patterns.push(RowPattern::new("FEW_CHANNELS", vec![channels]).high().fact());
}

/// What may help.
pub(super) fn say(row: &Row, shape: &Shape, said: &mut Said) {
    if shape.cuts_patches() {
        said.model(TextId::A_PATCHES, &[]);
    }
    said.model(if is_in_full(row) { TextId::A_TRY_KERNELS } else { TextId::A_FEW_CHANNELS }, &[]);
}

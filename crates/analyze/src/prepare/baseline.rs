//! What simple elementwise operations reach in this trace: what the memory system demonstrably gives.

use jarvis_perf::call::{Dims, InputLists};
use jarvis_trace::InOrder;

use super::kernel_names;
use crate::prepared::{Baseline, Row};
use crate::thresholds::{Threshold, Thresholds};

/// Rows of the plain mean.
const SEED_ROWS: &[&str] = &["aten::add_", "aten::mul", "aten::copy_"];

/// Rows of the robust form.
const SIMPLE_ROWS: &[&str] = &["aten::add", "aten::add_", "aten::mul", "aten::mul_", "aten::copy_"];

/// Row-major tensors stand for a trace if so much of the time of all dense ones is theirs.
const MOSTLY: f64 = 0.5;

/// Which memory layouts count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Layouts {
    /// Row-major only.
    Contiguous,
    /// Any dense one, the same for all operands.
    AnyDense,
}

/// The baseline of a trace. `mean_tbs` is the mean over calls that the report shows, by row.
pub(crate) fn baseline(rows: &[Row], mean_tbs: &[Option<f64>], peak_tbs: f64, thresholds: &Thresholds) -> Baseline {
    let seed: Vec<f64> =
        rows.iter().zip(mean_tbs).filter(|(r, _)| SEED_ROWS.contains(&&*r.name)).filter_map(|(_, tbs)| *tbs).collect();
    let seed_bandwidth_tbs = (!seed.is_empty()).then(|| seed.iter().sum::<f64>() / seed.len() as f64);
    let of = |layouts| measured(rows, peak_tbs, thresholds.get(Threshold::BaselineMinMb), layouts);
    // A model that lives in channels-last has hardly any row-major tensors; equal dense layouts then serve as well.
    let measured = of(Layouts::AnyDense).map(|dense| match of(Layouts::Contiguous) {
        Some(contiguous) if contiguous.time_ms >= MOSTLY * dense.time_ms => contiguous,
        _ => dense,
    });
    let usual = peak_tbs * thresholds.get(Threshold::BaselineDefault) / 100.0;
    let source = if measured.is_some() { Baseline::MEASURED } else { Baseline::DEFAULT };
    let (bandwidth_tbs, rows) = measured.map_or((usual, Vec::new()), |m| (m.tbs, m.uids));
    let efficiency_percent = 100.0 * bandwidth_tbs / peak_tbs;
    Baseline { bandwidth_tbs, efficiency_percent, source, rows, seed_bandwidth_tbs }
}

/// What rows of some layouts reach.
struct Measured {
    /// Mean over their time, in 10¹² bytes a second.
    tbs: f64,
    time_ms: f64,
    uids: Vec<u32>,
}

fn measured(rows: &[Row], peak_tbs: f64, min_mb: f64, layouts: Layouts) -> Option<Measured> {
    let counts = |r: &&Row| {
        SIMPLE_ROWS.contains(&&*r.name)
            && r.kernels.iter().all(|k| !kernel_names::is_copy_or_fill(&k.name))
            && r.data_moved_mb.is_some_and(|mb| mb >= min_mb)
            && r.efficiency.tb_s_achieved.is_some_and(|tbs| tbs <= peak_tbs)
            && plain_operands(&r.inputs, layouts)
    };
    let (mut weighted, mut time_ms, mut uids) = (0.0, 0.0, Vec::new());
    for row in rows.iter().filter(counts) {
        weighted += row.efficiency.tb_s_achieved.unwrap_or_default() * row.time_ms;
        time_ms += row.time_ms;
        uids.push(row.uid);
    }
    (time_ms > 0.0).then(|| Measured { tbs: weighted / time_ms, time_ms, uids })
}

/// Whether all tensors of a call have the same sizes and the same dense layout. Numbers do not count.
fn plain_operands(inputs: &InputLists, layouts: Layouts) -> bool {
    let (Some(dims), Some(strides)) = (&inputs.dims, &inputs.strides) else { return false };
    let mut tensors = Vec::new();
    for (d, s) in dims.iter().zip(strides.iter()) {
        match (d, s) {
            (Dims::Shape(d), Dims::Shape(_)) if d.is_empty() => {}
            (Dims::Shape(d), Dims::Shape(s)) => tensors.push((d, s)),
            _ => return false,
        }
    }
    let Some((first, layout)) = tensors.first() else { return false };
    let fits = match layouts {
        Layouts::Contiguous => is_contiguous(first, layout),
        Layouts::AnyDense => is_dense(first, layout),
    };
    // Strides of dimensions of size 1 mean nothing.
    let same = |d: &[i64], s: &[i64]| {
        d == first.as_slice() && d.iter().zip(s).zip(layout.iter()).all(|((&size, a), b)| size == 1 || a == b)
    };
    fits && tensors.iter().all(|(d, s)| same(d, s))
}

/// Whether strides are row-major without gaps.
pub(crate) fn is_contiguous(dims: &[i64], strides: &[i64]) -> bool {
    let mut expected = 1_i64;
    dims.len() == strides.len()
        && dims.iter().zip(strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == expected;
            // Sizes may be any numbers.
            expected = expected.saturating_mul(size);
            fits
        })
}

/// Whether a tensor fills its memory without gaps or repeats, in any order of dimensions.
fn is_dense(dims: &[i64], strides: &[i64]) -> bool {
    if dims.len() != strides.len() {
        return false;
    }
    let mut order: Vec<usize> = (0..dims.len()).filter(|&i| dims[i] != 1).collect();
    order.order_by_key(|&i| strides[i]);
    let mut expected = 1_i64;
    order.into_iter().all(|i| {
        let fits = strides[i] == expected;
        expected = expected.saturating_mul(dims[i]);
        fits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(dims: &[&[i64]], strides: &[&[i64]]) -> InputLists {
        let of = |list: &[&[i64]]| Some(list.iter().map(|s| Dims::Shape(s.to_vec())).collect());
        InputLists { dims: of(dims), strides: of(strides), ..InputLists::default() }
    }

    #[test]
    fn operands_must_be_alike_and_dense() {
        let plain = |d: &[&[i64]], s: &[&[i64]], l| plain_operands(&inputs(d, s), l);
        assert!(plain(&[&[4, 8], &[4, 8], &[]], &[&[8, 1], &[8, 1], &[]], Layouts::Contiguous));
        assert!(!plain(&[&[4, 8], &[8]], &[&[8, 1], &[1]], Layouts::Contiguous), "broadcast");
        assert!(!plain(&[&[4, 8], &[4, 8]], &[&[8, 1], &[1, 4]], Layouts::Contiguous), "layout change");
        let huge: &[&[i64]] = &[&[i64::MAX, 3, i64::MIN, 7]];
        for layouts in [Layouts::Contiguous, Layouts::AnyDense] {
            assert!(!plain(huge, huge, layouts), "sizes may be any numbers");
        }
        let nhwc: (&[i64], &[i64]) = (&[2, 3, 4, 5], &[60, 1, 15, 3]);
        assert!(!plain(&[nhwc.0], &[nhwc.1], Layouts::Contiguous));
        assert!(plain(&[nhwc.0, nhwc.0], &[nhwc.1, nhwc.1], Layouts::AnyDense));
        assert!(!plain(&[&[4, 8]], &[&[0, 1]], Layouts::AnyDense), "repeated rows");
        assert!(!plain(&[&[]], &[&[]], Layouts::Contiguous), "numbers only");
    }

    #[test]
    fn sizes_of_one_have_no_layout() {
        assert!(is_contiguous(&[1, 5], &[999, 1]));
        assert!(!is_contiguous(&[2, 5], &[999, 1]));
    }
}

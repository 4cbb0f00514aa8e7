//! Kernel lowering differences: the same operation runs on other kernels for other shapes, and does not fare as well.
//!
//! **What it finds.** Rows of one operation whose main kernels differ while their efficiencies lie more than a factor
//! of two apart, and rows that need more kernels per call than the others of their operation.
//! **Why it matters.** Another kernel for the same work shows what this shape could reach.
//! **Limits.** Which kernel is chosen is seen, why it is chosen is not. Rows that cost next to nothing are left out.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::prepare::kernel_names::main_kernel;
use crate::prepared::{Prepared, Row};
use crate::program::RowId;
use jarvis_trace::InOrder;

/// Efficiencies this many times apart are worth a question.
const FACTOR: f64 = 2.0;

/// Rows below this share of the computation time are not asked about, in percent.
const MIN_PERCENT: f64 = 0.5;

/// Calls shorter than this are mostly launch, whatever the kernel, in microseconds.
const MIN_US: f64 = 10.0;

/// In what the rows of an operation differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// In the main kernel, and in efficiency by more than a factor of two.
    Kernel,
    /// In the number of kernels per call.
    KernelCount,
}

/// A shape of an operation and how it runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Lowered {
    /// Row of the performance report.
    pub row: RowId,
    /// Its main kernel.
    pub kernel: Arc<str>,
    /// Kernels per call.
    pub kernels: usize,
    /// Mean time of a call in microseconds.
    pub mean_us: f64,
    /// Percent of what the hardware could do.
    pub efficiency_percent: Option<f64>,
}

/// An operation that runs differently for different shapes.
#[derive(Debug, Clone, PartialEq)]
pub struct LoweringDifference {
    /// Operation.
    pub op: Arc<str>,
    /// In what its rows differ.
    pub difference: Difference,
    /// The slow or many-kernel row first, then the one it is compared with.
    pub rows: [Lowered; 2],
}

/// All differences, those of the rows with most time first. Each row is asked about at most once for each kind.
pub fn lowering_differences(prepared: &Prepared) -> Vec<LoweringDifference> {
    let mut by_op: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
    for row in prepared.rows.iter().filter(|r| !r.kernels.is_empty()) {
        by_op.entry(&row.name).or_default().push(row);
    }
    let mut found: Vec<(f64, LoweringDifference)> = Vec::new();
    for rows in by_op.values() {
        for row in rows.iter().filter(|r| r.percent_of_compute >= MIN_PERCENT && r.mean_us >= MIN_US) {
            for (difference, peer) in
                [(Difference::Kernel, other_kernel(row, rows)), (Difference::KernelCount, fewer(row, rows))]
            {
                let Some(peer) = peer else { continue };
                let rows = [lowered(row), lowered(peer)];
                found.push((row.time_ms, LoweringDifference { op: Arc::clone(&row.name), difference, rows }));
            }
        }
    }
    found.order_by(|(a, x), (b, y)| {
        b.total_cmp(a).then_with(|| (&x.op, x.difference, x.rows[0].row).cmp(&(&y.op, y.difference, y.rows[0].row)))
    });
    found.into_iter().map(|(_, d)| d).collect()
}

/// The row of the same direction that does best on another kernel, if that is more than twice as well.
fn other_kernel<'a>(row: &Row, rows: &[&'a Row]) -> Option<&'a Row> {
    let own = row.efficiency.judged()?;
    let kernel = main_kernel(row);
    let better = rows.iter().filter(|r| r.direction == row.direction);
    let better = better.filter_map(|r| Some((r.efficiency.judged().filter(|e| *e > FACTOR * own)?, *r)));
    // Names are looked into last: of most rows nothing does so much better.
    let better = better.filter(|(_, r)| main_kernel(r) != kernel);
    let best = better
        .fold(None, |best: Option<(f64, &Row)>, (e, r)| if best.is_none_or(|b| e > b.0) { Some((e, r)) } else { best });
    best.map(|(_, r)| r)
}

/// The largest row of the operation that needs one kernel, if this one needs more and most others don't.
fn fewer<'a>(row: &Row, rows: &[&'a Row]) -> Option<&'a Row> {
    if kernels_per_call(row) < 2 {
        return None;
    }
    let single: Vec<&&Row> = rows.iter().filter(|r| kernels_per_call(r) == 1).collect();
    let most = 2 * single.len() > rows.len() - 1;
    single.into_iter().filter(|_| most).copied().reduce(|a, b| if b.time_ms > a.time_ms { b } else { a })
}

/// Kernels of a call; fills and copies beside them are none.
fn kernels_per_call(row: &Row) -> usize {
    (row.only_kernels().count / row.count.max(1) as f64).round() as usize
}

fn lowered(row: &Row) -> Lowered {
    Lowered {
        row: row.id,
        kernel: main_kernel(row).unwrap_or_default().into(),
        kernels: kernels_per_call(row),
        mean_us: row.mean_us,
        efficiency_percent: row.efficiency.judged(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Call, Scene};

    fn mm<'a>(dims: &'a str, kernels: &'a [(&'a str, f64)]) -> Call<'a> {
        Call::new("aten::mm", dims, r#"["c10::BFloat16", "c10::BFloat16"]"#, kernels)
    }

    #[test]
    fn another_kernel_that_does_far_better_is_found() {
        let mut scene = Scene::new();
        scene.calls(4, &mm("[[4096, 4096], [4096, 4096]]", &[("good_128x128", 200.0)]));
        scene.calls(4, &mm("[[4096, 4096], [4096, 4000]]", &[("bad_64x64", 900.0)]));
        scene.calls(4, &mm("[[4096, 4096], [4096, 2048]]", &[("good_128x128", 110.0)]));
        let found = lowering_differences(&scene.prepared());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&*found[0].op, found[0].difference), ("aten::mm", Difference::Kernel));
        assert_eq!((&*found[0].rows[0].kernel, &*found[0].rows[1].kernel), ("bad_64x64", "good_128x128"));
        assert!(found[0].rows[1].efficiency_percent > found[0].rows[0].efficiency_percent.map(|e| 2.0 * e));
    }

    #[test]
    fn steps_beside_a_convolution_are_not_what_it_runs_on() {
        const BIAS: &str = "void at::native::elementwise_kernel<128, 4, at::native::CUDAFunctor_add<c10::Half>>";
        const TRANSPOSE: &str = "void cudnn::engines_precompiled::nchwToNhwcKernel<__half>";
        let convolution = |scene: &mut Scene, side: i64, kernels: &[(&str, f64)]| {
            let dims = format!("[[64, 256, {side}, {side}], [256, 256, 3, 3], [], [], [], [], [], [], []]");
            let types = r#"["c10::Half", "c10::Half", "", "ScalarList", "ScalarList", "ScalarList", "Scalar", "ScalarList", "Scalar"]"#;
            let mut call = Call::new("aten::convolution", &dims, types, kernels);
            call.concrete = Some(r#"["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]"#);
            scene.calls(4, &call);
        };
        for step in [BIAS, TRANSPOSE] {
            // The step takes longer than the library's kernel, which differs from shape to shape.
            let mut scene = Scene::new();
            convolution(&mut scene, 56, &[("library_fprop_128x128", 400.0)]);
            convolution(&mut scene, 48, &[("library_fprop_64x64", 1000.0), (step, 1500.0)]);
            let found = lowering_differences(&scene.prepared());
            let kernel: Vec<_> = found.iter().filter(|d| d.difference == Difference::Kernel).collect();
            assert_eq!(kernel.len(), 1, "{step}: {found:?}");
            assert_eq!(&*kernel[0].rows[0].kernel, "library_fprop_64x64", "{step}");
            // One kernel for both shapes is no difference, whatever steps stand beside it.
            let mut scene = Scene::new();
            convolution(&mut scene, 56, &[("library_fprop_128x128", 400.0)]);
            convolution(&mut scene, 48, &[("library_fprop_128x128", 400.0), (step, 1500.0)]);
            let found = lowering_differences(&scene.prepared());
            assert!(found.iter().all(|d| d.difference != Difference::Kernel), "{step}: {found:?}");
        }
    }

    #[test]
    fn a_row_of_more_kernels_than_its_neighbours_is_found() {
        let mut scene = Scene::new();
        scene.calls(4, &mm("[[4096, 4096], [4096, 4096]]", &[("gemm", 200.0)]));
        scene.calls(4, &mm("[[64, 8192], [8192, 64]]", &[("splitk", 200.0), ("reduce", 10.0)]));
        scene.calls(4, &mm("[[4096, 4096], [4096, 2048]]", &[("gemm", 110.0)]));
        let found = lowering_differences(&scene.prepared());
        let counts: Vec<_> = found.iter().filter(|d| d.difference == Difference::KernelCount).collect();
        assert_eq!(counts.len(), 1);
        assert_eq!((counts[0].rows[0].kernels, counts[0].rows[1].kernels), (2, 1));
    }

    #[test]
    fn one_kernel_for_all_shapes_is_no_difference() {
        let mut scene = Scene::new();
        scene.mm(4, [4096, 4096, 4096], 200.0).mm(4, [64, 4096, 4096], 200.0);
        assert_eq!(lowering_differences(&scene.prepared()), []);
    }
}

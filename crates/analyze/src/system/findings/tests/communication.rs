//! Collectives that nothing hides.

use super::*;
use crate::system::texts::SINGLE_RANK;

#[test]
fn exposed_communication_lists_collectives_and_its_limits() {
    let b = exchange(1000.0);
    let all = found(&b);
    assert_eq!(names(&all), ["exposed_communication"]);
    let f = &all[0];
    assert!(f.issue.contains(SINGLE_RANK));
    assert_eq!(f.evidence[1].fact, "`allreduce` over 8 ranks, BFloat16, 2.0 MiB: 1 call, 1.00 ms");
    // 600 of 1600 µs are exposed; 600 µs of computation hide nothing yet.
    assert!((f.impact.saved_ms.high - 0.6).abs() < 1e-9 && (f.impact.saved_ms.low - 0.18).abs() < 1e-9);
    assert_eq!(names(&found(&exchange(450.0))), [""; 0], "4.8 % are exposed");
    let metrics = MultiKernelMetrics::of(&system(&b), &utilization(&b));
    assert_eq!(metrics.cross_validation.status, "PASS", "{:?}", metrics.cross_validation);
    assert!((metrics.overlap_assessment.overlap_ratio.unwrap().0 - 0.4).abs() < 1e-9);
    assert!(metrics.nccl_blocking_assessment.flagged && metrics.overlap_assessment.flagged);
}

#[test]
fn collectives_that_no_sheet_has_are_told_by_the_data() {
    let mut b = TraceBuilder::new();
    b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
    b.kernel("mm", 0.0, 1000.0, 1);
    b.cpu_op("symm_mem::two_shot_all_reduce_", 1000.0, 20.0);
    b.launch("cudaLaunchKernel", 1005.0, 5.0, 2);
    b.gpu("kernel", "two_shot_all_reduce_kernel", 1020.0, 1000.0, 2, 9);
    let all = found(&b);
    let f = all.iter().find(|f| f.pattern == PatternId::EXPOSED_COMMUNICATION).unwrap();
    assert_eq!((&*f.evidence[1].table, &*f.evidence[1].row), ("multi_kernel_data.json", "nccl_summary"));
    let named = &found(&exchange(1000.0))[0].evidence[1];
    assert_eq!((&*named.table, &*named.row), ("coll_analysis", "allreduce"));
}

#[test]
fn messages_of_any_type_have_a_size() {
    for (dtype, size) in [("Float8_e5m2fnuz", "1.0 MiB"), ("UInt16", "2.0 MiB"), ("UInt32", "4.0 MiB")] {
        let all = found(&exchange_of(dtype, 1000.0));
        assert_eq!(all[0].evidence[1].fact, format!("`allreduce` over 8 ranks, {dtype}, {size}: 1 call, 1.00 ms"));
    }
}

#[test]
fn nothing_is_promised_of_collectives_whose_results_are_awaited() {
    let draw = |trains: bool| {
        let mut b = TraceBuilder::new();
        b.cpu_op("aten::mm", -12.0, 10.0);
        b.launch("cudaLaunchKernel", -10.0, 5.0, 1);
        b.kernel("mm", 0.0, 1000.0, 1);
        b.cpu_op("symm_mem::two_shot_all_reduce_", 1000.0, 20.0);
        b.launch("cudaLaunchKernel", 1005.0, 5.0, 2);
        b.gpu("kernel", "two_shot_all_reduce_kernel", 1020.0, 1000.0, 2, 9);
        if trains {
            b.cpu_op("autograd::engine::evaluate_function: MmBackward0", 2000.0, 30.0);
            b.cpu_op("aten::mm", 2002.0, 20.0);
            b.launch("cudaLaunchKernel", 2005.0, 5.0, 3);
            b.kernel("mm", 2030.0, 500.0, 3);
        }
        let all = found_in_program(&b);
        let f = all.into_iter().find(|f| f.pattern == PatternId::EXPOSED_COMMUNICATION).unwrap();
        (f.impact.saved_ms.low, f.paths.algorithmic[0].clone(), f.impact.basis)
    };
    let (low, advice, basis) = draw(false);
    assert!(low.abs() < 1e-12 && advice.starts_with("Split the batch"), "{low} {advice}");
    assert!(basis.contains("nothing if what follows needs their results"), "{basis}");
    let (low, advice, _) = draw(true);
    assert!(low > 0.0 && advice.contains("gradient buckets"), "{low} {advice}");
}

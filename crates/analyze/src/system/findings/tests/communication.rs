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

//! Comparison of reports: small tables, and what holds for every pair.

use jarvis_analyze::compare::reports::{
    CompareError, CompareOptions, Comparison, NamedReport, SheetGroup, compare_tables, read,
};
use jarvis_perf::tables::{Cell, Report, ReportOptions, Table, build_report};
use jarvis_trace::{Fidelity, ReadOptions, Trace};

use crate::support::trace;

fn sheet(name: &str, text: &str) -> Table {
    read::csv(name, text.as_bytes()).unwrap()
}

fn compare(
    reports: &[(&str, Vec<Table>)],
    fidelity: Fidelity,
    groups: &[SheetGroup],
) -> Result<Comparison, CompareError> {
    let named: Vec<NamedReport<'_>> = reports.iter().map(|(tag, tables)| NamedReport { tag, tables }).collect();
    compare_tables(&named, &CompareOptions { fidelity, groups: groups.to_vec() })
}

fn texts(table: &Table, header: &str) -> Vec<String> {
    let column = table.column(header).unwrap_or_else(|| panic!("{header} not among {:?}", headers(table)));
    column.texts().iter().map(ToString::to_string).collect()
}

fn headers(table: &Table) -> Vec<&str> {
    table.columns.iter().map(|c| c.header.as_str()).collect()
}

fn names(comparison: &Comparison) -> Vec<&str> {
    comparison.tables.iter().map(|t| t.name.as_str()).collect()
}

const KERNELS: &str =
    "Parent cpu_op,Kernel name,Kernel duration (µs)_sum,Kernel duration (µs)_count,Kernel duration (µs)_mean\n";

/// Two kernels of one name in each report.
fn kernels(sums: [f64; 2]) -> Table {
    let row = |op: &str, sum: f64| format!("{op},cat,{sum},2,{}\n", sum / 2.0);
    sheet("kernel_summary", &format!("{KERNELS}{}{}", row("aten::a", sums[0]), row("aten::b", sums[1])))
}

#[test]
fn kernels_are_summed_by_name() {
    let reports = [("x", vec![kernels([10.0, 2.0])]), ("y", vec![kernels([20.0, 10.0])])];
    let result = compare(&reports, Fidelity::Correct, &[SheetGroup::KernelSummary]).unwrap();
    let table = &result.tables[0];
    assert_eq!(table.rows(), 1);
    assert_eq!(texts(table, "Kernel duration (µs)_sum__y_diff"), ["18"]);
    assert_eq!(texts(table, "Kernel duration (µs)_sum__y_pct"), ["150.0"]);
    assert_eq!(texts(table, "x::Kernel duration (µs)_count"), ["4"]);
    assert_eq!(texts(table, "x::Kernel duration (µs)_mean"), ["3.0"]);
    assert_eq!(texts(table, "x::Parent cpu_op"), ["aten::a; aten::b"]);
    // The reference joins each with each.
    let reference = compare(&reports, Fidelity::Reference, &[SheetGroup::KernelSummary]).unwrap();
    assert_eq!(texts(&reference.tables[0], "Kernel duration (µs)_sum__y_diff"), ["10", "0", "18", "8"]);
}

const GEMM: &str = "name,param: M,param: x,Kernel Time (µs)_sum,Kernel Time (µs)_mean,name_count,UID_first\n";

#[test]
fn sheets_that_one_report_lacks_are_compared_all_the_same() {
    let gemm = |rows: &str| sheet("GEMM", &format!("{GEMM}{rows}"));
    let odd = sheet("Odd_fwd", &format!("{GEMM}odd,1,,5.5,5.5,1,7\n"));
    let reports = [
        ("a", vec![gemm("mm,8,,4,2,2,1\nmm,9,,1,1,1,2\n")]),
        ("b", vec![gemm("mm,8,,6,2,3,1\n"), odd.clone()]),
        ("c", vec![odd]),
    ];
    let result = compare(&reports, Fidelity::Correct, &[SheetGroup::Roofline]).unwrap();
    assert_eq!(
        names(&result),
        [
            "GEMM_intersect_b",
            "GEMM_only_baseline_b",
            "GEMM_only_baseline_c",
            "Odd_fwd_only_variant_b",
            "Odd_fwd_only_variant_c"
        ]
    );
    assert_eq!(result.notes, ["there is no sheet GEMM in c", "there is no sheet Odd_fwd in a"]);
    let both = &result.tables[0];
    assert_eq!(headers(both)[..3], ["name", "param: M", "param: x"], "keys stay");
    assert_eq!(texts(both, "name_count__b_diff"), ["1.0"], "another row of the join has no count");
    let hidden: Vec<&str> =
        headers(both).into_iter().zip(&result.hidden[0]).filter(|(_, hide)| **hide).map(|(h, _)| h).collect();
    assert_eq!(hidden, ["a::UID_first", "b::UID_first"]);

    let error = compare(&reports, Fidelity::Reference, &[SheetGroup::KernelSummary]).unwrap_err();
    assert_eq!(error.to_string(), "report a: there is no sheet kernel_summary");
    // The reference fails on a sheet that another report lacks, and skips one that is empty in some report.
    let lacking = compare(&reports, Fidelity::Reference, &[SheetGroup::Roofline]).unwrap_err();
    assert_eq!(lacking.to_string(), "report c: there is no sheet GEMM");
    let empty = [reports[0].clone(), ("c", vec![gemm("")])];
    let empty = compare(&empty, Fidelity::Reference, &[SheetGroup::Roofline]).unwrap_err();
    assert_eq!(empty, CompareError::Nothing);
    let two = [reports[0].clone(), reports[1].clone()];
    let reference = compare(&two, Fidelity::Reference, &[SheetGroup::Roofline]).unwrap();
    assert_eq!(names(&reference), ["GEMM_intersect_b", "GEMM_only_baseline_b", "GEMM_only_variant_b"]);
    assert!(!headers(&reference.tables[0]).contains(&"param: x"), "a key without a value goes");
    assert!(reference.tables[2].columns.is_empty());
}

#[test]
fn kernels_of_a_report_in_another_form_are_left_out_with_a_word() {
    let old =
        sheet("kernel_summary", "name,Total Kernel Time (ms),Mean Kernel Time (µs),Count\nk,3,1500,2\nl,1,500,2\n");
    let new = kernels([4.0, 2.0]);
    let left_out =
        |tag: &str| format!("sheet kernel_summary of {tag} is left out: it has not the columns that the others have");
    for (reports, tag, key) in [
        ([("new", vec![new.clone()]), ("old", vec![old.clone()])], "old", "Kernel name"),
        ([("old", vec![old]), ("new", vec![new])], "new", "name"),
    ] {
        let result = compare(&reports, Fidelity::Correct, &[SheetGroup::KernelSummary]).unwrap();
        assert_eq!(result.notes, [left_out(tag)]);
        assert!(texts(&result.tables[0], key).iter().all(|name| !name.is_empty()), "no row without a name");
    }
}

#[test]
fn numbers_follow_their_columns() {
    let timeline = |rows: &str| vec![sheet("gpu_timeline", &format!("type,time ms,percent\n{rows}"))];
    let reports = [("a", timeline("busy,2,50\nzero,0,0\n")), ("b", timeline("busy,3,60\nnew,1,1\nzero,1,1\n"))];
    let table = &compare(&reports, Fidelity::Reference, &[SheetGroup::GpuTimeline]).unwrap().tables[0];
    assert_eq!(texts(table, "type"), ["busy", "new", "zero"]);
    assert_eq!(texts(table, "time ms__b_diff"), ["1.0", "", "1.0"]);
    assert_eq!(texts(table, "time ms__b_pct"), ["50.0", "", ""], "nothing by zero");
    assert_eq!(texts(table, "a::time ms"), ["2.0", "", "0.0"]);
    assert_eq!(texts(table, "b::time ms"), ["3", "1", "1"]);
}

#[test]
fn names_have_to_tell_reports_apart() {
    let report = || vec![sheet("gpu_timeline", "type,time ms\nbusy,2\n")];
    let failed =
        |reports: &[(&str, Vec<Table>)]| compare(reports, Fidelity::Correct, &[SheetGroup::GpuTimeline]).unwrap_err();
    assert_eq!(failed(&[("a", report())]), CompareError::TooFew(1));
    assert_eq!(failed(&[("a", report()), ("a", report())]), CompareError::SameTag("a".into()));
    for tag in ["", "a__b", "a::b"] {
        assert_eq!(failed(&[("a", report()), (tag, report())]), CompareError::BadTag(tag.into()));
    }
    assert_eq!(failed(&[("a", Vec::new()), ("b", Vec::new())]), CompareError::Nothing);
    for error in [CompareError::TooFew(0), CompareError::Nothing] {
        assert!(!error.help().is_empty());
    }
}

#[test]
fn keys_that_repeat_without_end_are_refused() {
    let many = || {
        let rows = "k,1,1,1,1\n".repeat(3000);
        vec![sheet("kernel_summary", &format!("{KERNELS}{}", rows.replace("k,1", "op,k")))]
    };
    let reports = [("a", many()), ("b", many())];
    let error = compare(&reports, Fidelity::Reference, &[SheetGroup::KernelSummary]).unwrap_err();
    assert!(matches!(error, CompareError::TooManyRows { .. }), "{error}");
    assert_eq!(compare(&reports, Fidelity::Correct, &[SheetGroup::KernelSummary]).unwrap().tables[0].rows(), 1);
}

/// Reports in memory: one with itself, and two both ways round.
#[test]
fn reports_of_fixtures() {
    let report = |name: &str| {
        let trace = Trace::open(&trace("h200", name)?, &ReadOptions::default()).unwrap();
        Some(build_report(&trace, &ReportOptions::default()).unwrap())
    };
    let (Some(one), Some(two)) = (report("attn_unfused"), report("attn_fused")) else { return };
    let of_two = |baseline: (&str, &Report), variant: (&str, &Report)| {
        let made = [baseline, variant].map(|(tag, report)| (tag, report.tables()));
        compare_tables(&made.each_ref().map(|(tag, tables)| NamedReport { tag, tables }), &CompareOptions::default())
    };
    let same = of_two(("x", &one), ("y", &one)).unwrap();
    assert!(same.notes.is_empty() && !names(&same).iter().any(|n| n.contains("_only_")), "{:?}", names(&same));
    for table in &same.tables {
        for column in table.columns.iter().filter(|c| c.header.ends_with("__y_diff")) {
            let zero = |c: &Cell| matches!(c, Cell::Missing | Cell::Int(0)) || *c == Cell::Float(0.0);
            assert!(column.cells.iter().all(zero), "{} {}", table.name, column.header);
        }
    }
    let there = of_two(("x", &one), ("y", &two)).unwrap();
    let back = of_two(("y", &two), ("x", &one)).unwrap();
    let rows = |c: &Comparison, name: &str| c.tables.iter().find(|t| t.name == name).map_or(0, Table::rows);
    assert_eq!(rows(&there, "unified_perf_summary_intersect_y"), rows(&back, "unified_perf_summary_intersect_x"));
    assert_eq!(
        rows(&there, "unified_perf_summary_only_baseline_y"),
        rows(&back, "unified_perf_summary_only_variant_x")
    );
    assert!(rows(&there, "unified_perf_summary_only_baseline_y") > 0);
}

//! `jarvis report`.

use std::fs;
use std::path::Path;

use crate::support::{Run, files, fixture, jarvis, jarvis_fed};

/// Runs `jarvis report` on a fixture into a folder.
fn report(trace: &str, out: &Path, more: &[&str]) -> Run {
    let (trace, out) = (fixture(trace), out.to_string_lossy().into_owned());
    let mut args = vec!["report", trace.to_str().expect("UTF-8"), "-o", &out];
    args.extend(more);
    jarvis(&args)
}

fn csv(root: &Path, sheet: &str) -> String {
    fs::read_to_string(root.join("perf_report_csvs").join(format!("{sheet}.csv"))).expect("a sheet")
}

/// What differs from machine to machine.
fn normal(text: &str, out: &Path) -> String {
    let fixtures = fixture("");
    text.replace(&*out.to_string_lossy(), "OUT").replace(&*fixtures.to_string_lossy(), "FIXTURES/")
}

#[test]
fn the_summary_fits_one_screen_and_names_the_files() {
    let out = tempfile::tempdir().unwrap();
    let run = report("h200/attn_unfused.json.gz", out.path(), &[]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    assert!(run.out.lines().count() <= 40, "{}", run.out);
    insta::assert_snapshot!("report_summary", normal(&run.out, out.path()));
    let found = files(out.path());
    assert!(found["perf_report.xlsx"].starts_with(b"PK"));
    assert!(csv(out.path(), "gpu_timeline").starts_with("type,time ms,percent\ncomputation_time,"));
    assert!(csv(out.path(), "unified_perf_summary").contains("model_source"));
    let ours = |name: &str| matches!(name, "report.html" | "perf_report.xlsx") || name.starts_with("perf_report_csvs/");
    assert!(found.keys().all(|name| ours(name)), "{:?}", found.keys());
}

#[test]
fn matrix_work_without_a_peak_rate_is_not_rated_and_that_is_told() {
    let out = tempfile::tempdir().unwrap();
    let arch = out.path().join("arch.json");
    fs::write(&arch, r#"{"name": "G", "mem_bw_gbps": 4800, "max_achievable_tflops": {"matrix_fp8": 1979}}"#).unwrap();
    let options = ["--arch", arch.to_str().unwrap(), "--json"];
    let run = report("h200/attn_unfused.json.gz", out.path(), &options);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.err.contains("warning: `G` has no peak rate for matrix_bf16: how close"), "{}", run.err);
    let summary: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    let rated = |name: &str| {
        let operations = summary["operations"].as_array().unwrap();
        let found = operations.iter().find(|o| o["name"] == name).unwrap();
        (found["efficiency_percent"].is_null(), found["bound"].is_null())
    };
    assert_eq!((rated("aten::mm"), rated("aten::_softmax")), ((true, true), (false, false)));

    let trace = fixture("h200/attn_unfused.json.gz");
    let list = ["replay", trace.to_str().unwrap(), "--list", "--op", "aten::mm", options[0], options[1], "--json"];
    let run = jarvis(&list);
    assert!(run.err.contains("warning: `G` has no peak rate for matrix_bf16"), "{}", run.err);
    let listed: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert!(listed[0]["lost_ms"].is_null() && listed[0]["efficiency_percent"].is_null(), "{listed}");
    let softmax = ["replay", trace.to_str().unwrap(), "--list", "--op", "aten::_softmax", options[0], options[1]];
    assert_eq!(jarvis(&softmax).err, "", "only of what is asked for");
}

#[test]
fn the_default_folder_lies_beside_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json.gz");
    fs::copy(fixture("h200/tiny_bmm_window.json.gz"), &trace).unwrap();
    assert_eq!(jarvis(&["report", trace.to_str().unwrap()]).status, 0);
    assert!(folder.path().join("analysis_output/perf_report.xlsx").is_file());
    assert!(folder.path().join("analysis_output/perf_report_csvs/gpu_timeline.csv").is_file());
}

#[test]
fn a_finished_analysis_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json.gz");
    fs::copy(fixture("h200/tiny_bmm_window.json.gz"), &trace).unwrap();
    let trace = trace.to_str().unwrap();
    assert_eq!(jarvis(&["analyze", trace]).status, 0);
    let out = folder.path().join("analysis_output");
    let before = files(&out);
    for more in [&[][..], &["--no-html"], &["--parity", "--no-xlsx"]] {
        let run = jarvis(&[&["report", trace], more].concat());
        assert_eq!(run.status, 2, "{}", run.err);
        assert!(run.err.contains("holds an analysis") && run.err.contains("-o DIR"), "{}", run.err);
    }
    assert!(files(&out) == before, "nothing is written");
    let elsewhere = folder.path().join("report");
    assert_eq!(jarvis(&["report", trace, "-o", elsewhere.to_str().unwrap()]).status, 0);
}

#[test]
fn outputs_go_where_they_are_sent() {
    let out = tempfile::tempdir().unwrap();
    let (book, csvs) = (out.path().join("b/book.xlsx"), out.path().join("c"));
    let places = ["--xlsx", book.to_str().unwrap(), "--csv-dir", csvs.to_str().unwrap()];
    assert_eq!(report("h200/tiny_bmm_window.json.gz", out.path(), &places).status, 0);
    let found = files(out.path());
    assert!(found.contains_key("b/book.xlsx") && found.contains_key("c/gpu_timeline.csv"), "{:?}", found.keys());
    assert!(!out.path().join("perf_report_csvs").exists());

    let none = tempfile::tempdir().unwrap();
    let run = report("h200/tiny_bmm_window.json.gz", none.path(), &["--no-xlsx", "--no-csv", "--no-html"]);
    assert_eq!(run.status, 0);
    assert!(files(none.path()).is_empty() && !run.out.contains("written"), "{}", run.out);
    assert_eq!(report("h200/tiny_bmm_window.json.gz", none.path(), &["--no-xlsx", "--xlsx", "x"]).status, 2);
}

#[test]
fn the_same_trace_gives_the_same_bytes() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let options: [&[&str]; 3] = [&["--threads", "1"], &["--threads", "2"], &[]];
    for (folder, options) in folders.iter().zip(options) {
        assert_eq!(report("h200/decode_graphed.json.gz", folder.path(), options).status, 0);
    }
    let first = files(folders[0].path());
    assert!(first.len() > 8);
    assert!(folders[1..].iter().all(|folder| files(folder.path()) == first));
}

#[test]
fn two_runs_into_one_folder_do_not_disturb_each_other() {
    let (shared, alone) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let shared = shared.path();
            scope.spawn(move || assert_eq!(report("h200/fp8_gemms.json.gz", shared, &["-q"]).status, 0));
        }
    });
    assert_eq!(report("h200/fp8_gemms.json.gz", alone.path(), &[]).status, 0);
    assert_eq!(files(shared.path()), files(alone.path()));
}

#[test]
fn json_tells_everything() {
    let out = tempfile::tempdir().unwrap();
    let run = report("h200/attn_unfused.json.gz", out.path(), &["--json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(answer["schema"], "jarvis.report/1");
    assert_eq!(answer["platform"]["name"], "H200");
    assert_eq!(answer["gpu_timeline"][5]["type"], "total_time");
    assert_eq!(answer["operations"].as_array().unwrap().len(), 10);
    let first = &answer["operations"][0];
    assert!(first["efficiency_percent"].as_f64().unwrap() > 0.0 && first["uid"].is_u64(), "{first}");
    let listed = answer["files"].as_array().unwrap();
    assert_eq!(listed.len(), files(out.path()).len());
    assert!(listed.iter().all(|path| Path::new(path.as_str().unwrap()).is_file()));
}

#[test]
fn platforms_are_named_guessed_or_missed() {
    let out = tempfile::tempdir().unwrap();
    let header = || csv(out.path(), "unified_perf_summary").lines().next().unwrap().to_owned();
    let run = report("h200/fp8_gemms.json.gz", out.path(), &["--platform", "mi300x"]);
    assert!(run.out.contains("efficiencies against MI300X: 5.3 TB/s, 708 TFLOPS bf16 achievable"), "{}", run.out);
    assert!(header().contains("Pct Roofline"));
    // One figure in place of the device's own.
    let run = report("h200/fp8_gemms.json.gz", out.path(), &["--peak-hbm-tbs", "4.2"]);
    assert!(run.out.contains("efficiencies against H200: 4.2 TB/s"), "{}", run.out);
    // A file of one's own.
    let arch = out.path().join("arch.json");
    fs::write(&arch, r#"{"name": "Mine", "mem_bw_gbps": 1000, "max_achievable_tflops": {"matrix_bf16": 100}}"#)
        .unwrap();
    let run = report("h200/fp8_gemms.json.gz", out.path(), &["--arch", arch.to_str().unwrap()]);
    assert!(run.out.contains("efficiencies against Mine: 1 TB/s, 100 TFLOPS bf16\n"), "{}", run.out);
    // A recording that does not tell its GPU: told, and reported all the same.
    let run = report("handmade/gpu_only.json", out.path(), &[]);
    assert_eq!(run.status, 0);
    assert!(
        run.err.contains("warning: the trace does not tell its GPU") && run.err.contains("MI300X, MI325X"),
        "{}",
        run.err
    );
    let figures = ["--peak-hbm-tbs", "2", "--peak-maf-tflops", "300"];
    let run = report("handmade/gpu_only.json", out.path(), &figures);
    assert!(run.out.contains("efficiencies against custom: 2 TB/s, 300 TFLOPS bf16"), "{}", run.out);
    let run = report("handmade/gpu_only.json", out.path(), &figures[..2]);
    assert_eq!(run.status, 2);
    assert!(run.err.contains("help: add --platform NAME"), "{}", run.err);
    let run = report("h200/fp8_gemms.json.gz", out.path(), &["--platform", "H20"]);
    assert_eq!(run.status, 2);
    assert!(run.err.contains("unknown platform `H20`; known are MI300X"), "{}", run.err);
}

#[test]
fn parity_has_a_roofline_only_if_a_platform_is_named() {
    let out = tempfile::tempdir().unwrap();
    let header = |more: &[&str]| {
        assert_eq!(report("h200/fp8_gemms.json.gz", out.path(), more).status, 0);
        csv(out.path(), "unified_perf_summary").lines().next().unwrap().to_owned()
    };
    let plain = header(&["--parity"]);
    assert!(!plain.contains("Pct Roofline") && !plain.contains("model_source"), "{plain}");
    assert!(header(&["--parity", "--platform", "H200"]).contains("Pct Roofline"));
}

const EXTENSION: &str =
    "[op.\"aten::_scaled_mm\"]\nunit = \"matrix\"\nprecision = \"fp8\"\nflops = \"7\"\nbytes = \"100\"\n";

#[test]
fn an_extension_beside_the_trace_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.json.gz");
    fs::copy(fixture("h200/fp8_gemms.json.gz"), &trace).unwrap();
    fs::write(folder.path().join("jarvis.toml"), EXTENSION).unwrap();
    let (trace, out) = (trace.to_str().unwrap(), folder.path().join("out"));
    let run = |more: &[&str]| jarvis(&[&["report", trace, "-o", out.to_str().unwrap(), "--json"], more].concat());
    let source = |run: &Run| {
        let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        answer["operations"][0]["model_source"].as_str().unwrap_or("none").to_owned()
    };
    assert_eq!(source(&run(&[])), "extension");
    // Under parity only on request.
    let parity = run(&["--parity"]);
    assert_ne!(source(&parity), "extension");
    assert!(parity.err.contains("jarvis.toml is left out under --parity"), "{}", parity.err);
    // A file that is named goes over it; a broken one is shown.
    let other = folder.path().join("other.toml");
    fs::write(&other, EXTENSION.replace("\"7\"", "\"D[\"")).unwrap();
    let broken = run(&["--extension", other.to_str().unwrap()]);
    assert_eq!(broken.status, 2);
    assert!(broken.err.contains("other.toml:4:") && broken.err.contains("flops = \"D[\""), "{}", broken.err);
    let missing = run(&["--extension", "no/such.toml"]);
    assert_eq!(missing.status, 2);
    assert!(missing.err.contains("no/such.toml"), "{}", missing.err);
}

#[test]
fn options_reach_the_sheets() {
    let out = tempfile::tempdir().unwrap();
    let trace = "h200/attn_unfused.json.gz";
    let options = [
        "--micro-idle-thresh-us",
        "5",
        "--no-kernel-summary",
        "--no-short-kernel-study",
        "--topk-ops",
        "3",
        "--topk-roofline-ops",
        "1",
        "--include-first-occurrence-time",
        "--group-by-num-kernels",
        "--include-overlap-info",
        "--include-unlinked-kernels",
        "--disable-coll-analysis",
    ];
    assert_eq!(report(trace, out.path(), &options).status, 0);
    let found = files(out.path());
    assert!(csv(out.path(), "gpu_timeline").contains("micro_idle_time,"));
    assert!(!found.contains_key("perf_report_csvs/kernel_summary.csv"));
    assert!(!found.contains_key("perf_report_csvs/short_kernel_histogram.csv"));
    assert!(found.contains_key("perf_report_csvs/ops_unique_args_kl_overlap.csv"));
    assert_eq!(csv(out.path(), "ops_summary").lines().count(), 4);
    assert_eq!(csv(out.path(), "GEMM").lines().count(), 2);
    let unique = csv(out.path(), "ops_unique_args");
    assert!(unique.contains("first_occurrence_time") && unique.contains("num_kernels"));

    let out = tempfile::tempdir().unwrap();
    let options = [
        "--short-kernel-threshold-us",
        "50",
        "--short-kernel-histogram-bins",
        "7",
        "--topk-short-kernels",
        "2",
        "--include-call-stack",
        "--detect-recompute",
    ];
    assert_eq!(report(trace, out.path(), &options).status, 0);
    assert_eq!(csv(out.path(), "short_kernel_histogram").lines().count(), 8);
    assert_eq!(csv(out.path(), "short_kernels_summary").lines().count(), 3);
    assert!(csv(out.path(), "unified_perf_summary").contains("entry_point"));
    assert!(csv(out.path(), "gpu_timeline").contains("is_recompute"));
    for wrong in [["--short-kernel-histogram-bins", "0"], ["--micro-idle-thresh-us", "-1"], ["--topk-ops", "x"]] {
        assert_eq!(report(trace, out.path(), &wrong).status, 2, "{wrong:?}");
    }
}

#[test]
fn a_place_that_cannot_be_written_is_told_before_the_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let run = report("h200/tiny_bmm_window.json.gz", &file.join("below"), &[]);
    assert_eq!(run.status, 4, "{}", run.err);
    assert!(run.err.contains("the folder can't be written to") && run.err.contains("-o DIR"), "{}", run.err);
    assert_eq!(run.out, "");
    // Told even before the trace is looked at.
    let run = jarvis(&["report", "no/such/trace.json", "-o", file.to_str().unwrap()]);
    assert_eq!(run.status, 4, "{}", run.err);
    let book = folder.path().to_str().unwrap();
    let run = report("h200/tiny_bmm_window.json.gz", folder.path(), &["--xlsx", book]);
    assert_eq!(run.status, 4);
    assert!(run.err.contains("there is a folder of this name"), "{}", run.err);
    assert_eq!(files(folder.path()).len(), 1, "nothing was left behind");
}

#[test]
fn traces_that_give_no_report_are_explained() {
    let out = tempfile::tempdir().unwrap();
    let run = report("handmade/cpu_only.json", out.path(), &[]);
    assert_eq!(run.status, 3);
    assert!(
        run.err.contains("error: the trace has no GPU events") && run.err.contains("ProfilerActivity.CUDA"),
        "{}",
        run.err
    );
    assert!(files(out.path()).is_empty());
    // A damaged one gives what it has; --strict makes that a failure, after the files are written.
    let run = report("handmade/truncated.json.gz", out.path(), &["--strict"]);
    assert_eq!(run.status, 1);
    assert!(files(out.path()).contains_key("perf_report.xlsx"));
}

#[test]
fn standard_input_and_sheets_of_an_earlier_run() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let packed = fs::read(fixture("h200/attn_unfused.json.gz")).unwrap();
    let run = jarvis_fed(&["report", "-", "-o", folder], &packed);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let run = report("h200/fp8_gemms.json.gz", out.path(), &[]);
    assert!(run.err.contains("also holds files that this run did not write: BinaryElementwise.csv"), "{}", run.err);
    let run = report("h200/fp8_gemms.json.gz", out.path(), &["--no-html", "--no-xlsx"]);
    assert!(run.err.contains("did not write: perf_report.xlsx, report.html"), "{}", run.err);
    // An analysis does not take them for its own either.
    let trace = fixture("h200/mlp_fp32.json.gz");
    let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", folder]);
    assert!(run.status == 0 && run.err.contains("also holds files that this run did not write: "), "{}", run.err);
    let checked = jarvis(&["check", folder]);
    assert_eq!(checked.status, 0, "{}", checked.out);
    assert!(checked.out.contains("WARN stranger perf_report_csvs/Normalization.csv: "), "{}", checked.out);
}

/// The reference's own files, byte for byte. (Of the other fixture's sheets, which the cells' test of the perf crate
/// compares, some numbers differ in their last digit.)
#[test]
fn parity_writes_the_files_of_the_reference() {
    let arch = fixture("h200/H200_arch.json");
    let traces = [
        "attn_fused",
        "attn_unfused",
        "decode_graphed",
        "elementwise_compiled",
        "elementwise_eager",
        "fp8_gemms",
        "mlp_fp32",
        "tiny_bmm_window",
    ];
    for trace in traces {
        let out = tempfile::tempdir().unwrap();
        let csvs = out.path().join("csvs");
        let options = ["--parity", "--arch", arch.to_str().unwrap(), "--no-xlsx", "--csv-dir", csvs.to_str().unwrap()];
        let run = report(&format!("h200/{trace}.json.gz"), out.path(), &options);
        assert_eq!(run.status, 0, "{}", run.err);
        let (ours, theirs) = (files(&csvs), files(&fixture(&format!("h200/{trace}_perf_report_csvs"))));
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{trace}");
        for (name, bytes) in &theirs {
            let (ours, theirs) = (String::from_utf8_lossy(&ours[name]), String::from_utf8_lossy(bytes));
            assert_eq!(ours, theirs, "{trace}: {name}");
        }
    }
}

#[test]
fn the_screen_has_no_more_operations_than_the_sheet() {
    let out = tempfile::tempdir().unwrap();
    let listed = |run: &str| {
        run.lines().skip_while(|l| !l.starts_with("operations by")).skip(1).take_while(|l| !l.is_empty()).count()
    };
    let trace = "h200/attn_unfused.json.gz";
    let run = report(trace, out.path(), &["--topk-ops", "4"]);
    assert_eq!((listed(&run.out), run.out.contains(" more in unified")), (4, false), "{}", run.out);
    let run = report(trace, out.path(), &["--topk-ops", "12"]);
    assert!(listed(&run.out) == 11 && run.out.contains("  2 more in unified_perf_summary\n"), "{}", run.out);
    let run = report(trace, out.path(), &["--topk-ops", "4", "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(answer["operations"].as_array().unwrap().len(), 4);
}

//! `jarvis compare` and `jarvis diff`: against the reference's stored outputs where they are, and on the fixtures.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Run, fixture, jarvis, shared};

/// The only folder below a folder.
fn inside(folder: &Path) -> PathBuf {
    fs::read_dir(folder).expect("a folder").next().expect("an entry").expect("an entry").path()
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
    entries
        .filter(|p| p.is_file())
        .map(|p| {
            let text = fs::read(&p).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            (p.file_name().expect("a name").to_string_lossy().into_owned(), text.expect("a file"))
        })
        .collect()
}

/// Fields of a CSV text.
fn records(text: &str) -> Vec<Vec<String>> {
    let mut rows = vec![vec![String::new()]];
    let mut quoted = false;
    for c in text.chars() {
        let row = rows.last_mut().expect("a row");
        match c {
            '"' => {
                // A doubled quote closes and opens again; the text between keeps one.
                if !quoted && row.last().is_some_and(|f| f.ends_with('\u{1}')) {
                    let field = row.last_mut().expect("a field");
                    field.pop();
                    field.push('"');
                } else if quoted {
                    row.last_mut().expect("a field").push('\u{1}');
                }
                quoted = !quoted;
            }
            ',' if !quoted => row.push(String::new()),
            '\n' if !quoted => rows.push(vec![String::new()]),
            c => row.last_mut().expect("a field").push(c),
        }
    }
    rows.pop();
    for field in rows.iter_mut().flatten() {
        *field = field.replace('\u{1}', "");
    }
    rows
}

fn same(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(x), Ok(y)) => x.to_bits() == y.to_bits() || (x - y).abs() <= (1e-6 * x.abs().max(y.abs())).max(1e-9),
        _ => a == b,
    }
}

/// Cells of the stored folder, and how many of them ours has. Rows that tie may stand in another order.
fn agreement(ours: &Path, stored: &Path) -> (usize, usize) {
    let (ours, stored) = (files(ours), files(stored));
    assert_eq!(ours.keys().collect::<Vec<_>>(), stored.keys().collect::<Vec<_>>());
    let (mut cells, mut equal) = (0, 0);
    for (name, text) in &stored {
        let (mut mine, theirs) = (records(&ours[name]), records(text));
        assert_eq!(mine[0], theirs[0], "{name}");
        assert_eq!(mine.len(), theirs.len(), "{name}");
        for row in &theirs[1..] {
            cells += row.len();
            let found = (1..mine.len()).find(|&i| mine[i].iter().zip(row).all(|(a, b)| same(a, b)));
            if let Some(at) = found {
                equal += row.len();
                mine.remove(at);
            } else {
                println!("{name}: no row {:?}", &row[..row.len().min(3)]);
            }
        }
    }
    (equal, cells)
}

fn compare(reports: [&Path; 2], names: [&str; 2], out: &Path, more: &[&str]) -> Run {
    let texts = [reports[0], reports[1], out].map(|p| p.to_str().expect("UTF-8").to_owned());
    let mut args = vec!["compare", &texts[0], &texts[1], "-o", &texts[2], "--names", names[0], names[1]];
    args.extend(more);
    jarvis(&args)
}

#[test]
fn parity_gives_the_reference_comparison_of_operations() {
    let Some(root) = shared("compare_test_e2e/reference") else { return };
    let out = tempfile::tempdir().unwrap();
    let reports = [root.join("h100_perf_report_csvs"), root.join("mi300_perf_report_csvs")];
    let run = compare([&reports[0], &reports[1]], ["h100", "mi300"], out.path(), &["--parity"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let agreed = agreement(&out.path().join("comparison_csvs"), &root.join("compare_h100_mi300_qwen_csvs"));
    assert_eq!(agreed, (9007, 9007));
}

#[test]
fn parity_gives_the_reference_comparison_of_kernels_and_names() {
    for (folder, sheet, cells) in [("compare_test", "kernel_summary", 771), ("compare_test_ops", "ops_summary", 512)] {
        let Some(root) = shared(folder) else { continue };
        let out = tempfile::tempdir().unwrap();
        let reports = ["256thread", "512thread"].map(|name| inside(&root.join(name)));
        let options = ["--parity", "--sheets", "gpu_timeline", sheet];
        let run = compare([&reports[0], &reports[1]], ["256thread", "512thread"], out.path(), &options);
        assert_eq!((run.status, run.err.as_str()), (0, ""));
        let agreed = agreement(&out.path().join("comparison_csvs"), &inside(&root.join("reference")));
        assert_eq!(agreed, (cells, cells), "{folder}");
    }
}

#[test]
fn parity_gives_the_reference_diff_byte_for_byte() {
    let trace = |gpu: &str| shared(&format!("{gpu}/facebook_timesformer-base-finetuned-k400__1016002.json.gz"));
    let (Some(stored), Some(one), Some(two)) = (shared("tracediff_test"), trace("mi300"), trace("h100")) else {
        return;
    };
    let out = tempfile::tempdir().unwrap();
    let [one, two, folder] = [&*one, &*two, out.path()].map(|p| p.to_str().unwrap());
    let run = jarvis(&["diff", one, two, "--parity", "-o", folder]);
    assert_eq!(run.status, 0, "{}", run.err);
    let (ours, stored) = (files(out.path()), files(&stored));
    assert_eq!(ours.keys().collect::<Vec<_>>(), stored.keys().collect::<Vec<_>>());
    for (name, text) in &stored {
        assert!(ours[name] == *text, "{name} differs");
    }
}

fn report(trace: &str, out: &Path) -> PathBuf {
    let trace = fixture(&format!("h200/{trace}.json.gz"));
    let run = jarvis(&["report", trace.to_str().unwrap(), "-o", out.to_str().unwrap(), "-q"]);
    assert_eq!(run.status, 0, "{}", run.err);
    out.to_path_buf()
}

#[test]
fn workbooks_and_folders_are_the_same_reports() {
    let root = tempfile::tempdir().unwrap();
    let one = report("attn_unfused", &root.path().join("before/analysis_output"));
    let two = report("attn_fused", &root.path().join("after/analysis_output"));
    let out = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let books = [one.join("perf_report.xlsx"), two.join("perf_report.xlsx")];
    let [one, two, book_one, book_two] = [&one, &two, &books[0], &books[1]].map(|p| p.to_str().unwrap());
    let folders = jarvis(&["compare", one, two, "-o", &out("f")]);
    // The unfused attention has no sheet of its own.
    let note = "note: there is no sheet SDPA_fwd in before\n";
    assert_eq!((folders.status, folders.err.as_str()), (0, note));
    assert!(folders.out.contains("baseline  before:") && folders.out.contains("variant   after:"), "{}", folders.out);
    assert!(folders.out.lines().count() <= 40);
    let books = jarvis(&["compare", book_one, book_two, "-o", &out("b.xlsx")]);
    assert_eq!((books.status, books.err.as_str()), (0, note));
    let (from_folders, from_books) =
        (files(&root.path().join("f/comparison_csvs")), files(&root.path().join("b_csvs")));
    assert_eq!(from_folders.keys().collect::<Vec<_>>(), from_books.keys().collect::<Vec<_>>());
    // Cells of a workbook have no texts longer than it can hold; the timeline has numbers alone.
    assert_eq!(from_folders["gpu_timeline.csv"], from_books["gpu_timeline.csv"]);
    // Three reports: tabs of their own, names that tell them apart.
    let three = jarvis(&["compare", one, two, book_two, "-o", &out("three"), "--json"]);
    assert_eq!(three.status, 0, "{}", three.err);
    let answer: serde_json::Value = serde_json::from_str(&three.out).unwrap();
    let tags: Vec<&str> = answer["reports"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(tags, ["before", "after", "after-2"]);
    assert_eq!(answer["schema"], "jarvis.compare/1");
    assert!(root.path().join("three/comparison.xlsx").is_file());
}

#[test]
fn the_report_of_a_comparison_is_that_of_its_target() {
    let root = tempfile::tempdir().unwrap();
    let [before, after] = ["attn_unfused", "attn_fused"].map(|name| fixture(&format!("h200/{name}.json.gz")));
    let both = root.path().join("both");
    let [before, after, out] = [&before, &after, &both].map(|p| p.to_str().unwrap());
    let run = jarvis(&["analyze", after, "--reference", before, "-o", out, "-q"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let alone = report("attn_fused", &root.path().join("alone"));
    let run = compare([&alone, &both], ["alone", "both"], &root.path().join("out"), &["--sheets", "ops_summary"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    assert!(run.out.contains("no difference"), "{}", run.out);
}

#[test]
fn the_summary_tells_what_was_compared() {
    let root = tempfile::tempdir().unwrap();
    let (one, two) = (report("attn_fused", &root.path().join("one")), report("attn_unfused", &root.path().join("two")));
    let run = compare([&one, &two], ["one", "two"], &root.path().join("out"), &["--sheets", "roofline"]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(!run.out.contains("no difference"), "{}", run.out);
    // Without a row in common the three numbers are still of one sheet.
    for (folder, rows) in [(&one, "a"), (&two, "b")] {
        let csv = |sheet: &str| folder.join(format!("perf_report_csvs/{sheet}.csv"));
        let text = fs::read_to_string(csv("unified_perf_summary")).unwrap();
        fs::write(csv("unified_perf_summary"), text.replace("\naten::", &format!("\n{rows}::"))).unwrap();
    }
    let run = compare([&one, &two], ["one", "two"], &root.path().join("out"), &[]);
    assert!(run.out.contains("operations by arguments: 0 in both"), "{}", run.out);
}

#[test]
fn what_is_no_report_is_told() {
    let root = tempfile::tempdir().unwrap();
    let good = report("tiny_bmm_window", &root.path().join("good"));
    let good = good.to_str().unwrap();
    let out = root.path().join("out");
    let failed = |second: &str, status: i32, word: &str| {
        let run = jarvis(&["compare", good, second, "-o", out.to_str().unwrap()]);
        assert_eq!(run.status, status, "{}", run.err);
        assert!(run.err.contains(word) && run.err.contains("help: "), "{}", run.err);
        assert!(!out.exists(), "nothing is written");
    };
    failed(fixture("h200/attn_fused.json.gz").to_str().unwrap(), 3, "not a report");
    failed("no/such/report.xlsx", 3, "no/such/report.xlsx");
    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    failed(empty.to_str().unwrap(), 3, "no CSV files");
    let broken = root.path().join("broken.xlsx");
    fs::write(&broken, b"PK\x03\x04 and then nothing of use").unwrap();
    failed(broken.to_str().unwrap(), 3, "not a readable workbook");
    fs::write(empty.join("GEMM.csv"), b"name\n\xff\xfe\n").unwrap();
    failed(empty.to_str().unwrap(), 3, "line 2 is not UTF-8");
    fs::write(empty.join("GEMM.csv"), b"").unwrap();
    assert_eq!(jarvis(&["compare", good]).status, 2);
    assert_eq!(jarvis(&["compare", good, good, "--names", "a"]).status, 2);
    assert_eq!(jarvis(&["compare", good, good, "--sheets", "nonsense"]).status, 2);
}

fn diff(one: &str, two: &str, more: &[&str]) -> Run {
    let (one, two) = (fixture(one), fixture(two));
    let mut args = vec!["diff", one.to_str().unwrap(), two.to_str().unwrap()];
    args.extend(more);
    jarvis(&args)
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    for more in [&[][..], &["--parity"], &["--python"]] {
        let run = diff("h200/attn_fused.json.gz", "h200/attn_fused.json.gz", more);
        assert_eq!(run.status, 0, "{}", run.err);
        assert!(run.out.contains("no difference"), "{}", run.out);
    }
}

#[test]
fn a_diff_is_one_screen_and_its_files_are_whole() {
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    let run = diff("h200/attn_unfused.json.gz", "h200/attn_fused.json.gz", &["-o", folder]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    assert!(run.out.lines().count() <= 40 && run.out.contains("only in 1"), "{}", run.out);
    let found = files(out.path());
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    let expected = [
        "cpu_op_map.json",
        "cpu_op_map_trace1.json",
        "cpu_op_map_trace2.json",
        "diff_stats.csv",
        "diff_stats_unique_args_summary.csv",
        "lca_by_operation.csv",
        "lca_summary.csv",
        "merged_tree_output.txt",
    ];
    assert_eq!(names, expected);
    assert!(found["merged_tree_output.txt"].contains(">> trace1: "));
    let rows = records(&found["lca_by_operation.csv"]);
    let uids = ["ex_UID_trace1", "ex_UID_trace2"].map(|h| rows[0].iter().position(|c| c == h).unwrap());
    let texts: Vec<&str> = rows[1..].iter().flat_map(|row| uids.map(|at| &*row[at])).collect();
    assert!(texts.contains(&"") && texts.iter().all(|t| t.chars().all(|c| c.is_ascii_digit())), "{texts:?}");
    let map: serde_json::Value = serde_json::from_str(&found["cpu_op_map.json"]).unwrap();
    assert!(map["aten::mm"]["trace1"]["kernels"].is_array() && map.get("root").is_none());
    let again =
        diff("h200/attn_unfused.json.gz", "h200/attn_fused.json.gz", &["--json", "--limit", "3", "--threads", "1"]);
    let answer: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(answer["schema"], "jarvis.diff/1");
    assert_eq!(
        (answer["identical"].as_bool(), answer["largest_changes"].as_array().map(Vec::len)),
        (Some(false), Some(3))
    );
}

#[test]
fn what_is_not_compared_is_told() {
    let run = diff("h200/attn_fused.json.gz", "h200/attn_fused.json.gz", &[]);
    assert!(!run.out.contains("not compared"), "{}", run.out);
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("t.json");
    fs::write(
        &path,
        r#"{"traceEvents": [
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":9,"args":{}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":2,"args":{"correlation":7}},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":20,"dur":5,"args":{"stream":7,"correlation":7}},
{"ph":"X","cat":"kernel","name":"lost","pid":0,"tid":7,"ts":30,"dur":1500,"args":{"stream":7,"correlation":8}},
{"ph":"X","cat":"kernel","name":"lost","pid":0,"tid":7,"ts":2000,"dur":501.75,"args":{"stream":7,"correlation":9}}]}"#,
    )
    .unwrap();
    let (lost, whole) = (path.to_str().unwrap(), fixture("h200/attn_fused.json.gz"));
    let run = jarvis(&["diff", lost, whole.to_str().unwrap()]);
    let first = run.out.lines().next().unwrap();
    let told = "1 GPU event, 0.005 ms (not compared: 2 without a recorded launch, 2.002 ms)";
    assert!(first.ends_with(told), "{first}");
    let run = jarvis(&["diff", lost, whole.to_str().unwrap(), "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(answer["unlinked_gpu_events"], serde_json::json!([2, 0]));
    assert_eq!(answer["unlinked_gpu_us"], serde_json::json!([2001.75, 0.0]));
}

#[test]
fn traces_without_gpu_work_can_not_be_compared() {
    let run = diff("h200/attn_fused.json.gz", "handmade/cpu_only.json", &[]);
    assert_eq!(run.status, 3);
    assert!(run.err.contains("cpu_only.json: no GPU events") && run.err.contains("help: "), "{}", run.err);
    assert_eq!(jarvis(&["diff", "-", "-"]).status, 2);
    assert_eq!(diff("h200/attn_fused.json.gz", "handmade/gpu_only.json", &[]).status, 0);
}

#[test]
fn files_of_an_earlier_comparison_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let reports = ["attn_fused", "attn_unfused", "mlp_fp32"]
        .map(|name| fixture(&format!("h200/{name}_perf_report_csvs")).to_str().unwrap().to_owned());
    let [one, two, three] = &reports;
    let run = jarvis(&["compare", one, two, three, "-o", &path("out")]);
    assert!(run.status == 0 && !run.err.contains("did not write"), "{}", run.err);
    let run = jarvis(&["compare", one, two, "-o", &path("out")]);
    assert!(run.status == 0 && run.err.contains("also holds files that this run did not write: "), "{}", run.err);
    let [one, two] = ["attn_fused", "attn_unfused"]
        .map(|name| fixture(&format!("h200/{name}.json.gz")).to_str().unwrap().to_owned());
    let run = jarvis(&["diff", &one, &two, "-o", &path("diff")]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    fs::write(folder.path().join("diff/mine.csv"), "x").unwrap();
    let run = jarvis(&["diff", &one, &two, "--parity", "-o", &path("diff")]);
    assert!(run.err.contains("did not write: lca_by_operation.csv, lca_summary.csv"), "{}", run.err);
}

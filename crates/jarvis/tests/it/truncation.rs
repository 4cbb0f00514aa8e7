//! Cut recordings through the whole program: what stands before the cut is analysed, and every report says so.

use std::fs;
use std::path::Path;

use jarvis::pipeline::{AnalyzeOptions, Emit, ReplayChoice, analyze, self_check};
use jarvis::trace::Trace;
use jarvis_analyze::thresholds::Thresholds;
use jarvis_perf::platform::Platform;
use jarvis_report::{OutputFile, RunLabels};

use crate::support::{files, fixture, jarvis};

/// Told in every report of a recording that ends early.
const CUT: &str = "The recording is cut off";

/// One operation with one kernel, then little else: few of its bytes can be cut without the kernel.
const TINY: &str = r#"{"traceEvents": [
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":9,"args":{"Input Dims":[[64,64],[64,64]],"Input type":["float","float"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":2,"args":{"correlation":7}},
{"ph":"s","id":7,"pid":1,"tid":1,"ts":2,"cat":"ac2g","name":"ac2g"},
{"ph":"f","id":7,"pid":0,"tid":7,"ts":20,"cat":"ac2g","name":"ac2g"},
{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":20,"dur":5,"args":{"stream":7,"correlation":7}},
{"ph":"i","name":"x","ts":30}
],"traceName":"t"}"#;

fn analysed(text: &[u8]) -> Option<Vec<OutputFile>> {
    let options = AnalyzeOptions {
        platform: Platform::find("H200").unwrap().clone(),
        labels: RunLabels { trace_path: "cut.json".to_owned(), ..RunLabels::default() },
        extension: None,
        thresholds: Thresholds::default(),
        replay: ReplayChoice::None,
        emit: vec![Emit::AnalysisMd],
    };
    let analyzed = analyze(Trace::parse(text).ok()?, &options).ok()?;
    let problems = self_check(&analyzed.files);
    assert!(problems.is_empty(), "{problems:?}");
    Some(analyzed.files.to_vec().unwrap())
}

fn text_of<'f>(files: &'f [OutputFile], name: &str) -> &'f str {
    std::str::from_utf8(&files.iter().find(|f| f.path == Path::new(name)).unwrap().bytes).unwrap()
}

#[test]
fn the_whole_analysis_bears_a_cut_at_every_byte() {
    let text = TINY.as_bytes();
    let kernel_ends = TINY.find("\"correlation\":7}},\n{\"ph\":\"i\"").unwrap() + "\"correlation\":7}}".len();
    let whole = analysed(text).expect("an analysis");
    let sheet = "perf_report_csvs/gpu_timeline.csv";
    for cut in 0..text.len() {
        let Some(files) = analysed(&text[..cut]) else {
            assert!(cut < kernel_ends, "cut at {cut}: no analysis, though the kernel is there");
            continue;
        };
        assert!(cut >= kernel_ends, "cut at {cut}: an analysis of what?");
        assert_eq!(text_of(&files, sheet), text_of(&whole, sheet), "cut at {cut}");
        for report in ["standalone_analysis_fair.md", "standalone_analysis_rough.md", "report.html"] {
            assert!(text_of(&files, report).contains(CUT), "cut at {cut}: {report} does not say so");
        }
    }
    assert!(!text_of(&whole, "standalone_analysis_fair.md").contains(CUT));
}

#[test]
fn every_report_of_a_cut_recording_says_so() {
    for (name, why) in
        [("truncated.json", "the document ends early"), ("truncated.json.gz", "the gzip stream ends early")]
    {
        let out = tempfile::tempdir().unwrap();
        let (trace, folder) = (fixture(&format!("handmade/{name}")), out.path().to_string_lossy().into_owned());
        let run = jarvis(&["analyze", trace.to_str().unwrap(), "-o", &folder, "--platform", "H200"]);
        assert_eq!(run.status, 0, "{}", run.err);
        assert!(run.out.contains(CUT), "{}", run.out);
        assert!(run.err.contains("warning:") && run.err.contains("ends early"), "{}", run.err);
        for report in ["standalone_analysis_fair.md", "standalone_analysis_rough.md", "report.html"] {
            let text = fs::read_to_string(out.path().join(report)).unwrap();
            assert!(text.contains(CUT) && text.contains(why) && text.contains("at byte "), "{name}: {report}");
        }
        let log: serde_json::Value =
            serde_json::from_slice(&fs::read(out.path().join("run_log.json")).unwrap()).unwrap();
        assert!(log["warnings"][0].as_str().unwrap().starts_with(CUT), "{log:#}");
        assert_eq!(log["self_check"], serde_json::json!([]));
        let strict =
            jarvis(&["analyze", trace.to_str().unwrap(), "-o", &folder, "--platform", "H200", "--strict", "-q"]);
        assert_eq!(strict.status, 1, "{}", strict.err);
        assert!(strict.err.contains("_truncated"), "{}", strict.err);
    }
}

#[test]
fn a_comparison_with_a_cut_recording_says_which_side_is_cut() {
    let (whole, cut) = (fixture("handmade/rocm_like.json"), fixture("handmade/truncated.json"));
    let (whole, cut) = (whole.to_str().unwrap(), cut.to_str().unwrap());
    for (target, reference, side) in [(whole, cut, "reference"), (cut, whole, "target")] {
        let told = format!("Of the {side}: {CUT}");
        let out = tempfile::tempdir().unwrap();
        let folder = out.path().to_str().unwrap();
        let platform = ["--platform", "MI300X", "--reference-platform", "MI300X"];
        let args = [&["analyze", target, "--reference", reference, "-o", folder][..], &platform].concat();
        let run = jarvis(&args);
        assert_eq!(run.status, 0, "{}", run.err);
        let written = files(out.path());
        let fair = String::from_utf8_lossy(&written["comparative_analysis_fair.md"]);
        assert_eq!(fair.matches(CUT).count(), 1, "{fair}");
        // Before any number: of the report, of the working record, of the screen.
        let before = |text: &str, number: &str| text.find(&told) < text.find(number) && text.contains(&told);
        assert!(before(&fair, "Target platform compute time"), "{told}: {fair}");
        let rough = String::from_utf8_lossy(&written["comparative_analysis_rough.md"]);
        assert!(before(&rough, "Step 1"), "{told}: {rough}");
        assert!(before(&run.out.replace("\n  ", " "), "GPU time"), "{told}: {}", run.out);
    }
}

#[test]
fn a_file_that_ends_before_its_gpu_work_is_told_as_cut_and_not_as_recorded_without_it() {
    let out = tempfile::tempdir().unwrap();
    let (cut, folder) = (out.path().join("cut.json"), out.path().join("out"));
    let end = TINY.find("{\"ph\":\"X\",\"cat\":\"kernel\"").unwrap();
    fs::write(&cut, &TINY.as_bytes()[..end]).unwrap();
    let whole = fixture("handmade/rocm_like.json");
    let (cut, folder, whole) = (cut.to_str().unwrap(), folder.to_str().unwrap(), whole.to_str().unwrap());
    let named = ["--platform", "MI300X", "--reference-platform", "H200"];
    for args in [
        &["analyze", cut, "-o", folder][..],
        &["analyze", cut, "-o", folder, "--platform", "H200"],
        &[&["analyze", whole, "--reference", cut, "-o", folder][..], &named].concat(),
        &["report", cut, "-o", folder],
        &["diff", whole, cut],
    ] {
        let run = jarvis(args);
        assert_eq!(run.status, 3, "{args:?}: {}", run.err);
        assert!(run.err.contains("the trace is cut off at byte "), "{args:?}: {}", run.err);
        assert!(run.err.contains("none of the 4 events before that is GPU work"), "{args:?}: {}", run.err);
        assert!(run.err.contains("help: copy the file again"), "{args:?}: {}", run.err);
        assert!(!run.err.contains("ProfilerActivity"), "{args:?}: {}", run.err);
    }
}

#[test]
fn a_damaged_stream_is_told_apart_from_a_short_one() {
    let whole = fs::read(fixture("h200/mlp_fp32.json.gz")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (path, out) = (at("damaged.json.gz"), at("out"));
    // Not every other byte breaks the stream at once.
    let is_told = (2..40).any(|part| {
        let mut bytes = whole.clone();
        bytes[whole.len() / 2 / part] ^= 0x55;
        fs::write(&path, bytes).unwrap();
        let defects = jarvis(&["info", &path, "--json"]).out;
        let run = jarvis(&["analyze", &path, "-o", &out, "--platform", "H200"]);
        let is_damaged = defects.contains("gzip_corrupt") && run.err.contains("is cut off at byte");
        assert!(!is_damaged || run.err.contains("cause: the gzip stream is damaged there"), "{}", run.err);
        is_damaged
    });
    assert!(is_told, "no such damage was tried");
    fs::write(&path, &whole[..whole.len() / 4]).unwrap();
    let run = jarvis(&["analyze", &path, "-o", &out, "--platform", "H200"]);
    assert!(run.status == 3 && !run.err.contains("damaged there"), "{}", run.err);
}

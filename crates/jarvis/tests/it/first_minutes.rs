//! What a new user meets first: version, help, progress, logs, colours, machine forms, wrong files and slips.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::{JARVIS, Run, fixture, in_a_terminal, jarvis};

fn trace() -> String {
    fixture("h200/tiny_bmm_window.json.gz").to_string_lossy().into_owned()
}

#[test]
fn the_version_tells_commit_and_target() {
    assert_eq!(jarvis(&["-V"]).out, format!("jarvis {}\n", env!("CARGO_PKG_VERSION")));
    let long = jarvis(&["--version"]).out;
    let inside = long.split_once(" (").and_then(|(_, rest)| rest.trim_end().strip_suffix(')')).expect("brackets");
    let (commit, target) = inside.split_once(", ").expect("two parts");
    assert!(commit == "unknown" || commit.len() >= 12 && commit.chars().all(|c| c.is_ascii_hexdigit()), "{long}");
    assert!(target.split('-').count() >= 3, "{long}");
}

#[test]
fn every_command_has_a_machine_form() {
    let home = tempfile::tempdir().unwrap();
    let place = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    let (trace, out, other, sheets) = (trace(), place("out"), place("demo"), place("sheets"));
    let runs: &[&[&str]] = &[
        &["analyze", &trace, "-o", &out],
        &["analyze", &trace, "--reference", &trace, "-o", &place("versus")],
        &["demo", "-o", &other],
        &["info", &trace],
        &["tree", &trace],
        &["report", &trace, "-o", &sheets],
        &["check", &out],
        &["compare", &out, &sheets, "-o", &place("compared")],
        &["diff", &trace, &trace],
        &["replay", &trace, "--list"],
        &["replay", &trace, "--op", "aten::bmm", "-o", &place("replay")],
        &["platforms"],
        &["model", "gemm", "M=8", "N=8", "K=8"],
        &["model"],
        &["explain", "aten::mm"],
        &["schema"],
        &["schema", "findings"],
        &["completions", "bash"],
        &["man"],
        &["man", "-o", &place("man")],
    ];
    for args in runs {
        let run = jarvis(&[args, &["--json"][..]].concat());
        assert_eq!(run.status, 0, "{args:?}: {}", run.err);
        if let Err(error) = serde_json::from_str::<Value>(&run.out) {
            panic!("{args:?}: {error}\n{}", run.out);
        }
    }
}

#[test]
fn the_demo_says_where_things_are_and_gives_its_trace() {
    let home = tempfile::tempdir().unwrap();
    let place = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    let (folder, trace) = (place("out"), place("demo.json.gz"));
    let run = jarvis(&["demo", "-o", &folder, "--save-trace", &trace]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    for part in ["What to change, in this order", "out/report.html", "\nNext\n  jarvis analyze trace.json.gz "] {
        assert!(run.out.contains(part), "{part} is missing in\n{}", run.out);
    }
    let again = jarvis(&["analyze", &trace, "-o", &place("again"), "--quiet"]);
    assert_eq!(again.status, 0, "{}", again.err);
    let page = |folder: &str| fs::read(home.path().join(folder).join("perf_report_csvs/GEMM.csv")).unwrap();
    assert_eq!(page("out"), page("again"));
}

#[test]
fn schemas_are_listed_and_printed() {
    let listed = jarvis(&["schema"]).out;
    let files = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")).unwrap();
    for file in files.map(|entry| entry.unwrap().path()) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let short = name.strip_suffix(".schema.json").unwrap();
        assert!(listed.contains(short), "{short} is not listed");
        for asked in [short, &name] {
            assert_eq!(jarvis(&["schema", asked]).out, fs::read_to_string(&file).unwrap());
        }
    }
    let wrong = jarvis(&["schema", "finding"]);
    assert_eq!(wrong.status, 2);
    assert!(wrong.err.contains("did you mean `findings`?"), "{}", wrong.err);
}

#[test]
fn logs_go_to_standard_error_and_only_on_request() {
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (trace(), out.path().to_str().unwrap());
    let run = |more: &[&str]| jarvis(&[&["analyze", &trace, "-o", folder][..], more].concat());
    let (plain, once, twice) = (run(&[]), run(&["-v"]), run(&["-vv"]));
    assert_eq!(plain.err, "");
    assert_eq!((&plain.out, &plain.out), (&once.out, &twice.out), "results do not depend on it");
    for part in ["read ", " 121 events", "perf_report: ", "analysis: ", "writing: ", " findings, "] {
        assert!(once.err.contains(part), "{part} is missing in\n{}", once.err);
    }
    assert!(once.err.lines().all(|l| l.starts_with('[')), "{}", once.err);
    assert!(twice.err.contains("findings.json: ") && twice.err.contains("gpu_timeline.csv: "), "{}", twice.err);
    assert!(twice.err.lines().count() > once.err.lines().count());
    assert_eq!(run(&["-q", "-v"]).status, 2);
}

#[test]
fn colours_are_for_terminals_unless_asked_for() {
    let out = tempfile::tempdir().unwrap();
    let run = |variables: &[(&str, &str)]| -> Run {
        let mut command = Command::new(JARVIS);
        command.args(["analyze", &trace(), "-o", out.path().to_str().unwrap()]);
        command.envs(variables.iter().copied()).output().unwrap().into()
    };
    assert!(!run(&[]).out.contains('\x1b'));
    assert!(run(&[("CLICOLOR_FORCE", "1")]).out.contains("\x1b[1m"));
    assert!(!run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).out.contains('\x1b'));
}

#[test]
fn long_work_says_how_far_it_is_in_a_terminal() {
    let slow = |rest: &str| {
        let trace = trace();
        format!("(head -c 1000 {trace}; sleep 1.6; tail -c +1001 {trace}) | {JARVIS} info - {rest}")
    };
    let here = Path::new(".");
    let Some(shown) = in_a_terminal(&slow(""), here, &[]) else { return };
    assert_eq!(shown.status, 0, "{}", shown.out);
    assert!(shown.out.contains("\rreading standard input 1.0 kB, "), "{:?}", shown.out);
    let (_, after) = shown.out.rsplit_once("\r\x1b[K").expect("the line goes");
    assert!(after.starts_with("trace  ") && !after.contains("reading"), "{after:?}");
    let quiet = in_a_terminal(&slow("--quiet"), here, &[]).unwrap();
    assert!(!quiet.out.contains("reading") && quiet.out.contains("121 events"), "{:?}", quiet.out);
    let piped: Run = Command::new("sh").args(["-c", &slow("")]).output().unwrap().into();
    assert_eq!(piped.err, "");
}

#[test]
fn slips_get_a_suggestion() {
    let trace = trace();
    let out = tempfile::tempdir().unwrap();
    let folder = out.path().to_str().unwrap();
    for (args, meant) in [
        (&["analyse"][..], "'analyze'"),
        (&["analyze", &trace, "--platfrom", "H200"], "'--platform'"),
        (&["analyze", &trace, "--platform", "h20"], "did you mean H200?"),
        (&["analyze", &trace, "-o", folder, "--replay", "aten::bm"], "no operation is called aten::bm"),
        (&["platforms", "MI300"], "did you mean MI300X?"),
        (&["model", "gem"], "did you mean `gemm`?"),
        (&["explain", "aten::mmm"], "did you mean `aten::"),
        (&["explain", "unfused_atention"], "did you mean `unfused_attention`?"),
        (&["replay", &trace, "--op", "bmm", "-o", folder], "did you mean aten::bmm?"),
        (&["replay", &trace, "--op", "aten::bm", "-o", folder], "did you mean aten::bmm?"),
        (&["tree", &trace, "--name", "aten::bbmm"], "did you mean aten::bmm?"),
        (&["completions", "bsh"], "'bash'"),
    ] {
        let run = jarvis(args);
        assert!(run.err.contains(meant) || run.out.contains(meant), "{args:?}\n{}{}", run.out, run.err);
    }
}

#[test]
fn wrong_files_are_named_for_what_they_are() {
    let home = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = home.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_string_lossy().into_owned()
    };
    let browser = br#"[{"name": "parse", "cat": "v8", "ph": "X", "ts": 1, "dur": 3, "pid": 1, "tid": 1}]"#;
    let cpu = fixture("handmade/cpu_only.json").to_string_lossy().into_owned();
    for (path, what, help) in [
        (file("a.png", b"\x89PNG\r\n\x1a\n"), "PNG picture", "pass the profiler's trace"),
        (file("a.json.gz", b"<!DOCTYPE html>"), "web page", "fetch the trace again"),
        (file("a.sqlite", b"SQLite format 3\0"), "SQLite database (an Nsight Systems", "torch.profiler"),
        (file("a.nsys-rep", b"\x01\x02"), "Nsight Systems report", "torch.profiler"),
        (file("a.csv", b"\"Name\",\"Calls\"\n\"k\",1\n"), "CSV table (rocprof", "torch.profiler"),
        (file("empty.json", b""), "is empty", "capture anew"),
        (file("browser.json", browser), "not of the PyTorch profiler", "torch.profiler"),
        (file("none.json", b"{\"traceEvents\": []}"), "no events", "capture anew"),
        (cpu, "no GPU events", "ProfilerActivity.CUDA"),
        (home.path().to_string_lossy().into_owned(), "is a folder", "a.json.gz"),
        (home.path().join("a.json").to_string_lossy().into_owned(), "No such file", "did you mean"),
    ] {
        let run = jarvis(&["analyze", &path, "--platform", "H200", "-o", &home.path().join("out").to_string_lossy()]);
        assert_eq!(run.status, 3, "{path}: {}", run.err);
        // What the host did is all that a recording of the host alone can tell.
        assert_eq!(run.out.is_empty(), what != "no GPU events", "{path}: {}", run.out);
        let (error, rest) = run.err.split_once("\nhelp: ").unwrap_or_else(|| panic!("{path}: {}", run.err));
        assert!(error.contains(what) && rest.contains(help), "{path}: {}", run.err);
    }
}

/// A link that leads nowhere is not what was meant.
#[cfg(unix)]
#[test]
fn a_broken_link_is_told_with_where_it_leads() {
    let home = tempfile::tempdir().unwrap();
    let path = |name: &str| home.path().join(name).to_string_lossy().into_owned();
    std::os::unix::fs::symlink("gone.json", home.path().join("link.json")).unwrap();
    let run = jarvis(&["info", &path("link.json")]);
    assert!(run.status == 3 && run.err.contains("it is a link to gone.json, which is not there"), "{}", run.err);
    let near = jarvis(&["info", &path("links.json")]);
    assert!(!near.err.contains("did you mean"), "{}", near.err);
}

#[test]
fn every_exit_status_is_told_by_help_and_document() {
    let help = jarvis(&["--help"]).out.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, help) = help.split_once("Exit status:").unwrap();
    let document =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/command-line.md")).unwrap();
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/exit.rs")).unwrap();
    let statuses: Vec<&str> = source.lines().filter_map(|l| l.rsplit_once(" = ")?.1.strip_suffix(';')).collect();
    assert!(statuses.len() >= 7, "{source}");
    for status in statuses {
        assert!(help.contains(&format!(" {status} ")), "{status}: {help}");
        assert!(document.contains(&format!("| {status} |")), "{status}: {document}");
    }
}

#[test]
fn the_kernel_of_the_examples_is_one_of_the_demo() {
    let help = jarvis(&["tree", "--help"]).out;
    let (before, _) = help.split_once(" --parents --python").unwrap();
    let uid = before.rsplit(' ').next().unwrap();
    let out = tempfile::tempdir().unwrap();
    let (trace, folder) = (out.path().join("demo.json.gz"), out.path().join("out"));
    let trace = trace.to_str().unwrap();
    assert_eq!(jarvis(&["demo", "--save-trace", trace, "-o", folder.to_str().unwrap(), "-q"]).status, 0);
    let run = jarvis(&["tree", trace, "--uid", uid, "--parents", "--python"]);
    assert!(
        run.out.contains(&format!("UID: {uid}, Category: kernel")) && run.out.contains("python_function"),
        "{}",
        run.out
    );
}

#[test]
fn numbers_that_options_can_not_take_are_told_with_what_they_can() {
    let trace = trace();
    let model = ["model", "gemm", "M=8", "N=8", "K=8", "--platform", "H200"];
    for (args, told) in [
        (&["info", &trace, "--threads=-1"][..], "expected a whole number from 0 on"),
        (&["info", &trace, "--threads", "-1"], "expected a whole number from 0 on"),
        (&["report", &trace, "--topk-ops", "-1"], "expected a whole number from 0 on"),
        (&["tree", &trace, "--uid", "-1"], "-1 is not in 0.."),
        (&["replay", &trace, "--list", "--max-packages", "-1"], "expected a whole number from 1 on"),
        (&[&model[..], &["--memory-gb", "much"]].concat(), "expected a number above 0"),
        (&[&model[..], &["--peak-hbm-tbs", "-4"]].concat(), "--peak-hbm-tbs must be a number above 0, not -4\nhelp: "),
    ] {
        let run = jarvis(args);
        assert_eq!(run.status, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains(told) && !run.err.contains("tip:"), "{args:?}: {}", run.err);
    }
}

#[test]
fn options_about_traces_stand_where_traces_are_read_and_hidden_commands_nowhere() {
    let out = tempfile::tempdir().unwrap();
    let (folder, trace) = (out.path().to_str().unwrap(), trace());
    for command in ["analyze", "demo", "info", "tree", "report", "diff", "replay"] {
        let help = jarvis(&[command, "--help"]).out;
        assert!(["--strict", "--threads", "--max-memory"].iter().all(|option| help.contains(option)), "{help}");
    }
    for command in ["check", "compare", "platforms", "model", "explain", "schema", "completions", "man"] {
        let help = jarvis(&[command, "--help"]).out;
        assert!(!["--strict", "--threads", "--max-memory"].iter().any(|option| help.contains(option)), "{help}");
        assert!(help.contains("--json") && help.contains("--quiet"), "{help}");
    }
    // Who always passes them may go on doing so.
    assert_eq!(jarvis(&["--threads", "1", "platforms"]).status, 0);
    assert_eq!(jarvis(&["platforms", "--threads", "1", "--strict"]).status, 0);
    assert_eq!(jarvis(&["--threads", "1", "info", &trace, "--strict"]).status, 0);
    assert_eq!(jarvis(&["man", "-o", folder]).status, 0);
    assert!(out.path().join("jarvis-analyze.1").is_file() && !out.path().join("jarvis-remote-side.1").exists());
    let page = fs::read_to_string(out.path().join("jarvis-platforms.1")).unwrap();
    assert!(!page.contains("threads"), "{page}");
}

#[test]
fn reports_repeat_figures_that_the_user_gave() {
    let out = tempfile::tempdir().unwrap();
    let (folder, trace) = (out.path().to_str().unwrap(), trace());
    let given = ["--peak-hbm-tbs", "4.25", "--peak-maf-tflops", "700", "--memory-gb", "96"];
    let repeated = "`--peak-hbm-tbs 4.25`, `--peak-maf-tflops 700`, `--memory-gb 96`";
    let reference = ["--reference", &*trace, "--reference-peak-hbm-tbs", "4.5"];
    for (more, report, told) in [
        (&[][..], "standalone_analysis_rough.md", repeated),
        (&reference, "comparative_analysis_rough.md", "`--reference-peak-hbm-tbs 4.5`"),
    ] {
        let run = jarvis(&[&["analyze", &*trace, "-o", folder][..], &given, more].concat());
        assert_eq!(run.status, 0, "{}", run.err);
        let text = fs::read_to_string(out.path().join(report)).unwrap();
        assert!(text.contains(repeated) && text.contains(told), "{text}");
        let checked = jarvis(&["check", folder]);
        assert_eq!(checked.status, 0, "{}{}", checked.out, checked.err);
    }
}

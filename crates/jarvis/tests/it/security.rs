//! Traces made by an enemy: what is in them is data, wherever it ends up.

use std::fmt::Write as _;
use std::fs;
use std::io::{Cursor, Read};
use std::path::Path;
use std::process::Command;

use crate::support::{Run, command, files, jarvis};

/// A trace whose operations, kernels, arguments and facts have these names.
fn trace(names: &[String]) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let mut events = String::new();
    for (i, name) in names.iter().enumerate() {
        let (at, name) = (1000 + 100 * i, quoted(name));
        let _ = write!(
            events,
            r#"{{"ph":"X","cat":"user_annotation","name":{name},"pid":1,"tid":1,"ts":{at},"dur":90}},
            {{"ph":"X","cat":"python_function","name":{name},"pid":1,"tid":1,"ts":{at}.5,"dur":80,"args":{{"Python id":{i},"Call stack":{name}}}}},
            {{"ph":"X","cat":"cpu_op","name":{name},"pid":1,"tid":1,"ts":{at}.9,"dur":50,"args":{{"External id":{i},
              "Input Dims":[[64,64],[64,64]],"Input type":["float",{name}],"Concrete Inputs":[{name},""],"kernel_file":{name}}}}},
            {{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{at}.95,"dur":5,"args":{{"External id":{i},"correlation":{i}}}}},
            {{"ph":"X","cat":"kernel","name":{name},"pid":0,"tid":7,"ts":{at}.97,"dur":40,"args":{{"External id":{i},"correlation":{i},"device":0,"stream":7}}}},"#
        );
    }
    let fact = quoted(&names[0]);
    format!(
        r#"{{"schemaVersion":1,"traceName":{fact},"deviceProperties":[{{"id":0,"name":{fact}}}],"traceEvents":[{events}{{}}],"with_stack":{fact}}}"#
    )
}

fn write(folder: &Path, names: &[String]) -> String {
    let path = folder.join("hostile.json");
    fs::write(&path, trace(names)).expect("a file");
    path.to_str().expect("UTF-8").to_owned()
}

/// Whoever opens a pipe that nobody writes to waits for ever; strace, where it is there, shows every file that is opened.
#[cfg(unix)]
#[test]
fn no_path_in_a_trace_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let bait = folder.path().join("bait");
    let made = Command::new("mkfifo").arg(&bait).status().expect("mkfifo");
    assert!(made.success());
    let bait = bait.to_str().expect("UTF-8");
    let spelled = ["", "file://", "triton::"].map(|start| format!("{start}{bait}"));
    let path = write(
        folder.path(),
        &[spelled.as_slice(), &[format!("{bait}(12): forward"), "nn.Module: bait_0".to_owned()]].concat(),
    );
    let out = folder.path().join("out");
    let out = out.to_str().expect("UTF-8");
    let log = folder.path().join("calls");
    let traced = Command::new("strace").arg("-V").output().is_ok();
    if !traced {
        println!("skipped: strace is not here; only the pipe is tried");
    }
    for args in [
        vec!["info", &path],
        vec!["tree", &path, "--name", "bait", "--parents", "--subtree", "--python"],
        vec!["analyze", &path, "--platform", "H200", "-o", out],
        vec!["report", &path, "-o", out],
        vec!["diff", &path, &path, "-o", out],
        vec!["replay", &path, "--op", "*", "-o", out],
        vec!["check", out],
    ] {
        let mut command = Command::new("timeout");
        command.arg("60");
        if traced {
            command.args(["strace", "-f", "-e", "trace=open,openat,execve,connect,readlink", "-o"]).arg(&log);
        }
        let run = command.arg(env!("CARGO_BIN_EXE_jarvis")).args(&args).output().expect("jarvis runs");
        assert_ne!(run.status.code(), Some(124), "{args:?} waits for the pipe");
        let calls = fs::read_to_string(&log).unwrap_or_default();
        let bad = calls.lines().find(|line| line.contains("/bait") || line.contains("connect("));
        assert_eq!(bad, None, "{args:?}");
        assert!(calls.matches("execve(").count() <= 1, "{args:?} runs a program: {calls}");
    }
}

/// Names that a terminal would obey: its title, its colours, the line before, the order of letters.
#[test]
fn no_name_reaches_the_terminal_as_a_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "op\u{1b}]0;owned\u{7}\u{1b}[2J\rhidden\0\u{202e}\u{9b}31mend";
    let path = write(folder.path(), &[name.to_owned(), format!("aten::{name}")]);
    let out = folder.path().join("out");
    let out = out.to_str().expect("UTF-8");
    for args in [
        vec!["info", &path, "-vv"],
        vec!["tree", &path],
        vec!["tree", &path, "--name", "op", "--parents", "--subtree", "--python"],
        vec!["report", &path, "-o", out],
        vec!["replay", &path, "--list"],
        vec!["diff", &path, &path],
        vec!["analyze", &path, "--platform", "H200", "-o", out],
    ] {
        let run = jarvis(&args);
        assert_eq!(run.status, 0, "{args:?}: {}", run.err);
        let obeyed = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
        let shown = [run.out.as_str(), &run.err].concat();
        assert!(!shown.contains(obeyed), "{args:?}: {:?}", shown.lines().find(|line| line.contains(obeyed)));
    }
    let told = jarvis(&["tree", &path, "--uid", "2", "--json"]).out;
    let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
    assert_eq!(told["events"][0]["name"], name, "data is as it is");
}

/// Names that would forge lines, columns or what jarvis itself emphasises.
#[test]
fn no_name_makes_a_line_or_a_colour_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "op\nforged\there\u{1b}[1;31mred\u{1b}[0m";
    let path = write(folder.path(), &[name.to_owned(), format!("aten::{name}")]);
    let out = folder.path().join("out");
    let out = out.to_str().expect("UTF-8");
    for args in [
        vec!["info", &path, "-vv"],
        vec!["tree", &path],
        vec!["tree", &path, "--uid", "2"],
        vec!["tree", &path, "--name", "op", "--parents", "--subtree", "--kernels", "--python"],
        vec!["report", &path, "-o", out, "-vv"],
        vec!["replay", &path, "--list"],
        vec!["replay", &path, "--op", "*", "-o", out],
        vec!["diff", &path, &path],
        vec!["diff", &path, &path, "--limit", "0", "--python"],
        vec!["analyze", &path, "--platform", "H200", "-o", out, "-vv"],
    ] {
        let run: Run =
            command(&args).env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR").output().expect("jarvis").into();
        assert_eq!(run.status, 0, "{args:?}: {}", run.err);
        let shown = [run.out.as_str(), &run.err].concat();
        assert!(!shown.contains('\t') && !shown.contains("\u{1b}[1;31mred"), "{args:?}: {shown}");
        assert!(!shown.lines().any(|line| line.trim_start().starts_with("forged")), "{args:?}: {shown}");
    }
    let exact = jarvis(&["tree", &path, "--uid", "2", "--parents", "--parity"]).out;
    assert!(exact.contains(name), "the reference's texts are as they are: {exact}");
}

/// Names that would lead elsewhere, or nowhere on some system.
#[test]
fn file_names_made_of_operations_stay_where_they_belong() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = "x".repeat(5000);
    let names = [
        "../../evil",
        "/etc/passwd",
        "a\0b",
        "con.x",
        "NUL",
        "Same",
        "same",
        "..",
        ".",
        "a\\..\\b",
        "é\u{202e}x\n",
        &long,
    ];
    let path = write(folder.path(), &names.map(str::to_owned));
    let out = folder.path().join("deep/er/out");
    let run = jarvis(&["replay", &path, "--op", "*", "-o", out.to_str().expect("UTF-8"), "--max-packages", "50"]);
    assert_eq!(run.status, 0, "{}", run.err);
    let run = jarvis(&["analyze", &path, "--platform", "H200", "-o", out.to_str().expect("UTF-8")]);
    assert_eq!(run.status, 0, "{}", run.err);
    let all = files(folder.path());
    assert!(all.keys().all(|name| name == "hostile.json" || name.starts_with("deep/er/out/")), "{:?}", all.keys());
    let mut lower: Vec<String> = all.keys().map(|name| name.to_lowercase()).collect();
    lower.dedup();
    assert_eq!(lower.len(), all.len(), "told apart by case alone");
    for name in all.keys() {
        let file = name.rsplit('/').next().unwrap_or_default();
        assert!(file.len() <= 160 && file.is_ascii(), "{name}");
        assert!(file.chars().all(|c| c.is_ascii_alphanumeric() || "._-~".contains(c)), "{name}");
        let stem = file.split('.').next().unwrap_or_default().to_lowercase();
        assert!(
            !["con", "nul", "aux", "prn", ""].contains(&stem.as_str()) || name.ends_with("_replay_package.zip"),
            "{name}"
        );
    }
    for (name, bytes) in all.iter().filter(|(name, _)| name.ends_with(".zip")) {
        let stem = name.rsplit('/').next().unwrap_or_default().split('.').next().unwrap_or_default();
        assert_ne!(stem, "con", "{name}");
        let mut zip = zip::ZipArchive::new(Cursor::new(bytes)).expect("a zip");
        for at in 0..zip.len() {
            let entry = zip.by_index(at).expect("an entry").name().expect("a name").into_owned();
            assert!(
                entry.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)) && !entry.starts_with('.'),
                "{entry}"
            );
        }
    }
}

const FORMULAS: [&str; 8] =
    ["=HYPERLINK(\"http://x\")", "+1+cmd|' /C calc'!A0", "-2+3+cmd", "@SUM(1)", "\t=1+1", "\r=1+1", "=1+1", "-x"];

/// Cells of CSV files that a spreadsheet would run, and whether any cell of a formula's text is there at all.
fn formulas(csv: &[u8]) -> (Vec<String>, bool) {
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(csv);
    let mut found = Vec::new();
    let mut any = false;
    for record in reader.records().map(|r| r.expect("a record")) {
        for cell in &record {
            any |= FORMULAS.iter().any(|f| cell.contains(f));
            if cell.starts_with(['=', '+', '-', '@', '\t', '\r']) && cell.parse::<f64>().is_err() {
                found.push(cell.to_owned());
            }
        }
    }
    (found, any)
}

#[test]
fn no_cell_becomes_a_formula_unless_it_must_be_exact() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), &FORMULAS.map(str::to_owned));
    let out = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    for args in [
        vec!["report", &path, "-o", &out("report")],
        vec!["analyze", &path, "--platform", "H200", "-o", &out("analyze")],
        vec!["diff", &path, &path, "-o", &out("diff")],
        vec!["compare", &out("report"), &out("report"), "--names", "=a", "--names", "@b", "-o", &out("compare")],
        vec!["report", "--parity", "--include-unlinked-kernels", &path, "-o", &out("exact")],
    ] {
        let run = jarvis(&args);
        let refused = run.status == 2 && args[0] == "compare";
        assert!(run.status == 0 || refused, "{args:?}: {}", run.err);
    }
    let (mut shown, mut exact) = (false, false);
    for (name, bytes) in files(folder.path()) {
        if name.ends_with(".csv") {
            let (found, any) = formulas(&bytes);
            if name.starts_with("exact/") {
                exact |= found.iter().any(|cell| cell == FORMULAS[0]);
            } else {
                assert!(found.is_empty(), "{name}: {found:?}");
                shown |= any;
            }
        }
        if name.ends_with(".xlsx") {
            let mut book = zip::ZipArchive::new(Cursor::new(bytes)).expect("a workbook");
            for at in 0..book.len() {
                let mut part = book.by_index(at).expect("a part");
                let mut xml = String::new();
                let path = part.name().expect("a name").into_owned();
                if path.starts_with("xl/worksheets/") && part.read_to_string(&mut xml).is_ok() {
                    assert!(!xml.contains("<f>") && !xml.contains("<f "), "{name}: {path} has a formula");
                    assert!(!xml.contains("<hyperlink"), "{name}: {path} has a link");
                }
            }
        }
    }
    assert!(shown && exact, "the names are nowhere to be seen");
}

//! Limits of the machine: memory, disk, time, and who else is there. Outputs are complete or absent, and the exit status
//! tells which.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::{Run, command, files, fixture, jarvis};

const BIN: &str = env!("CARGO_BIN_EXE_jarvis");

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

/// A small file that unpacks to two million events.
fn bomb(folder: &Path) -> PathBuf {
    let event = r#"{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":2},"#;
    let mut bytes = gzip(br#"{"traceEvents":["#);
    let member = gzip(event.repeat(20_000).as_bytes());
    bytes.extend((0..100).flat_map(|_| member.iter().copied()));
    bytes.extend(gzip(b"{}]}"));
    let path = folder.join("bomb.json.gz");
    fs::write(&path, &bytes).expect("a file");
    assert!(bytes.len() < 1 << 20);
    path
}

/// Every command that reads traces, into this output folder.
fn commands(trace: &str, out: &str) -> Vec<Vec<String>> {
    let lines = [
        "info TRACE",
        "tree TRACE",
        "report TRACE -o OUT",
        "analyze TRACE -o OUT --platform H200",
        "analyze TRACE -o OUT --platform H200 --reference TRACE",
        "diff TRACE TRACE -o OUT",
        "replay TRACE --op * -o OUT",
    ];
    let word = |w: &str| match w {
        "TRACE" => trace.to_owned(),
        "OUT" => out.to_owned(),
        w => w.to_owned(),
    };
    lines.iter().map(|line| line.split(' ').map(word).collect()).collect()
}

#[test]
fn every_command_stops_at_the_memory_it_may_take() {
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, out) = (bomb(folder.path()), folder.path().join("out"));
    for command in commands(text(&trace), text(&out)) {
        let mut args: Vec<&str> = command.iter().map(String::as_str).collect();
        args.extend(["--max-memory", "20M"]);
        let run = jarvis(&args);
        assert_eq!(run.status, 3, "{command:?}: {}", run.err);
        let allowed = if run.err.contains("20 MiB") { "20 MiB" } else { "10 MiB" };
        let said = format!("bomb.json.gz takes more than {allowed} of memory: that much was reached at byte ");
        assert!(run.err.contains(&said) && run.err.contains("help: allow more with --max-memory"), "{}", run.err);
        assert_eq!((run.out.as_str(), out.exists()), ("", false), "{command:?}");
    }
    // With what the machine has it is read.
    assert_eq!(jarvis(&["info", text(&trace)]).status, 0);
}

/// So little that the program can hardly be loaded. Who asks for the calls of a panic must not wait for them without end.
#[cfg(target_os = "linux")]
#[test]
fn with_next_to_no_memory_a_run_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = fixture("h200/attn_unfused.json.gz");
    for (at, kilobytes) in (20_000..60_000).step_by(2_500).enumerate() {
        let script = format!("ulimit -v {kilobytes}; timeout 60 \"$0\" \"$@\"");
        let run = Command::new("sh")
            .args(["-c", &script, BIN, "analyze", text(&trace), "--platform", "H200", "-o"])
            .arg(folder.path().join(at.to_string()))
            .env("RUST_BACKTRACE", "1")
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        assert_ne!(run.status.code(), Some(124), "{kilobytes} kB: {}", String::from_utf8_lossy(&run.stderr));
    }
}

#[test]
fn a_size_that_is_none_is_wrong_usage() {
    let run = jarvis(&["info", "x.json", "--max-memory", "much"]);
    assert_eq!(run.status, 2);
    assert!(run.err.contains("give a size such as 8G, 512M or 50%"), "{}", run.err);
}

#[test]
fn blanks_without_end_are_told_soon() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("blanks.json.gz");
    let mut bytes = gzip(br#"{"traceEvents":["#);
    let member = gzip(&vec![b' '; 64 << 20]);
    // Two gigabytes, of which half is looked at.
    bytes.extend((0..32).flat_map(|_| member.iter().copied()));
    fs::write(&path, bytes).expect("a file");
    let run = jarvis(&["info", text(&path)]);
    assert_eq!(run.status, 3);
    assert!(run.err.contains("has more than 1 GiB of text without an event, from byte 0 "), "{}", run.err);
}

/// Runs jarvis in a shell that says `before` first.
fn in_shell(before: &str, args: &[&str]) -> Run {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before}\nexec \"$0\" \"$@\"")).arg(BIN).args(args);
    command.stdin(Stdio::null()).output().expect("a shell").into()
}

/// Files of more than some blocks can't be written, whether or not the signal that says so is ignored from the start.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_what_was_there() {
    let trace = fixture("h200/elementwise_eager.json.gz");
    for limit in ["ulimit -f 20", "trap '' XFSZ; ulimit -f 20"] {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        let limited = |out: &Path| in_shell(limit, &["analyze", text(&trace), "--platform", "H200", "-o", text(out)]);
        let run = limited(&out.join("deep"));
        assert_eq!(run.status, 4, "{limit}: {}", run.err);
        let place = format!("{}/", text(&out.join("deep")));
        for part in [place.as_str(), "the file can't be written", "help: allow larger files (ulimit -f)"] {
            assert!(run.err.contains(part), "{limit}: {part}: {}", run.err);
        }
        assert!(run.err.starts_with("error: ") && run.err.lines().count() == 2, "it is told once: {}", run.err);
        assert!(files(folder.path()).is_empty() && !out.exists(), "folders made on the way go too");
        // The same into a folder that has results.
        assert_eq!(jarvis(&["analyze", text(&trace), "--platform", "H200", "-o", text(&out)]).status, 0);
        let before = files(&out);
        assert_eq!(limited(&out).status, 4);
        assert!(files(&out) == before, "something changed");
    }
}

/// A disk that is really full, where the machine lets us make one.
#[test]
fn a_full_file_system_leaves_nothing() {
    let script = r#"mount -t tmpfs -o size=100k none "$MOUNT" || exit 99
        "$0" report "$TRACE" -o "$MOUNT/a/out"; status=$?
        ls -A "$MOUNT"; exit $status"#;
    let mount = tempfile::tempdir().expect("a folder");
    let run = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", script, BIN])
        .env("MOUNT", mount.path())
        .env("TRACE", fixture("h200/attn_fused.json.gz"))
        .output();
    let Some(run) = run.ok().map(Run::from).filter(|run| run.status == 4 || run.err.contains("jarvis")) else {
        println!("skipped: no small file system can be made here");
        return;
    };
    assert_eq!((run.status, run.out.as_str()), (4, ""), "{}", run.err);
    assert!(run.err.contains("help: make room"), "{}", run.err);
}

#[test]
fn an_output_stream_that_is_full_is_told() {
    if !Path::new("/dev/full").exists() {
        println!("skipped: there is no /dev/full here");
        return;
    }
    let trace = fixture("h200/elementwise_eager.json.gz");
    for args in [&["info", text(&trace)][..], &["--help"], &["analyze", "--help"], &["--version"], &["help", "tree"]] {
        let run = in_shell("exec >/dev/full", args);
        assert_eq!(run.status, 4, "{args:?}");
        assert!(run.err.contains("the output could not be written"), "{args:?}: {}", run.err);
    }
}

#[test]
fn places_that_can_not_be_written_are_told_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    fs::write(&file, "mine").expect("a file");
    let absent = folder.path().join("absent.json");
    // The trace is not there either: that the folder is told first shows that it was looked at first.
    for out in [text(&file), &format!("{}/below", text(&file)), "/proc/1/nothing/can/be/here"] {
        for command in ["report", "analyze", "replay"] {
            let mut args = vec![command, text(&absent), "-o", out];
            if command == "replay" {
                args.extend(["--op", "x"]);
            }
            let run = jarvis(&args);
            assert_eq!(run.status, 4, "{args:?}: {}", run.err);
            assert!(run.err.contains("can't be written") && run.err.contains("-o DIR"), "{}", run.err);
        }
    }
    assert_eq!(fs::read_to_string(&file).expect("still there"), "mine");
}

#[test]
fn options_that_say_nothing_or_too_much_are_wrong_usage() {
    let trace = fixture("h200/elementwise_eager.json.gz");
    let folder = tempfile::tempdir().expect("a folder");
    let (trace, out) = (text(&trace), folder.path().join("out"));
    let out = text(&out);
    for (args, said) in [
        (&["analyze", trace, "-o", out, "--replay", ","][..], "no name of an operation between the commas"),
        (&["replay", trace, "-o", out, "--op", ","], "--op has no name between its commas"),
        (&["replay", trace, "--list", "--op", " , "], "--op has no name between its commas"),
        (&["analyze", trace, "-o", out, "--reference", trace, "--fail-on", "slowdown=5%%"], "one % is enough"),
        (&["analyze", trace, "-o", out, "--ssh", "x"], "--cluster"),
        (&["--json"], "requires a subcommand"),
    ] {
        let run = jarvis(args);
        assert_eq!(run.status, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains(said) && !run.err.contains("remote-side"), "{args:?}: {}", run.err);
    }
    assert!(!Path::new(out).exists());
    // Set for good, it is no wish for another machine.
    let run: Run = command(&["info", trace]).env("JARVIS_SSH", "x").output().expect("jarvis").into();
    assert_eq!(run.status, 0, "{}", run.err);
    let run: Run = command(&["analyze", trace, "-o", out]).env("JARVIS_SSH", "x").output().expect("jarvis").into();
    assert_eq!(run.status, 0, "{}", run.err);
}

#[test]
fn two_outputs_at_one_path_are_told_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (absent, out, page, book) = (at("absent.json"), at("out"), at("out/report.html"), at("out/./x.xlsx"));
    let csvs = at("out/x.xlsx");
    for (args, both) in [
        (&["report", &absent, "-o", &out, "--xlsx", &page][..], ["the page", "--xlsx"]),
        (&["report", &absent, "-o", &out, "--xlsx", &book, "--csv-dir", &csvs], ["--xlsx", "--csv-dir"]),
        (&["report", &absent, "-o", &out, "--csv-dir", &page], ["the page", "--csv-dir"]),
        (&["compare", &absent, &absent, "-o", &book, "--csv-dir", &csvs], ["-o", "--csv-dir"]),
    ] {
        let run = jarvis(args);
        assert_eq!(run.status, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains("one path") && both.iter().all(|name| run.err.contains(name)), "{}", run.err);
    }
    // A table of another name is known when it is made.
    let trace = fixture("h200/elementwise_eager.json.gz");
    let table = at("out/perf_report_csvs/gpu_timeline.csv");
    let run = jarvis(&["report", text(&trace), "-o", &out, "--xlsx", &table]);
    assert_eq!(run.status, 2, "{}", run.err);
    assert!(run.err.contains("two outputs would go to this path") && !Path::new(&out).exists(), "{}", run.err);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_told_before_the_work() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (absent, out, socket, dead) = (at("absent.json"), at("out"), at("socket.xlsx"), at("dead"));
    let _socket = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
    std::os::unix::fs::symlink("nowhere", &dead).expect("a link");
    for args in [
        &["report", &absent, "-o", &out, "--xlsx", &socket][..],
        &["compare", &absent, &absent, "-o", &socket, "--no-csv"],
        &["demo", "-o", &out, "--save-trace", &socket],
        &["report", &absent, "-o", &out, "--xlsx", &dead],
        &["analyze", &absent, "-o", &dead],
        &["report", &absent, "-o", &dead],
        &["diff", &absent, &absent, "-o", &dead],
    ] {
        let run = jarvis(args);
        assert_eq!(run.status, 4, "{args:?}: {}", run.err);
        let what = if args.contains(&socket.as_str()) {
            format!("{socket}: this is a device, a pipe or a socket")
        } else {
            format!("{dead}: this link points to nothing")
        };
        assert!(run.err.contains(&what), "{args:?}: {}", run.err);
    }
    assert!(Path::new(&dead).is_symlink() && !Path::new(&out).exists());
}

/// What a run writes, without what differs from run to run.
fn results(out: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = files(out);
    found.remove("run_log.json");
    found
}

#[test]
fn two_runs_into_one_folder_end_as_one_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let traces = ["elementwise_eager", "fp8_gemms"].map(|name| fixture(&format!("h200/{name}.json.gz")));
    let command = |trace: &Path, out: &Path| {
        let mut command = Command::new(BIN);
        command.arg("analyze").arg(trace).args(["--platform", "H200", "-o"]).arg(out);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let alone = [0, 1].map(|i| {
        let out = folder.path().join(format!("alone-{i}"));
        assert!(command(&traces[i], &out).status().expect("jarvis runs").success());
        results(&out)
    });
    let both = folder.path().join("both");
    for _ in 0..3 {
        let runs = [0, 1].map(|i| command(&traces[i], &both).spawn().expect("jarvis runs"));
        for run in runs {
            let run = run.wait_with_output().expect("jarvis ends");
            assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        }
        let found = results(&both);
        assert!(found == alone[0] || found == alone[1], "a mixture: {:?}", found.keys());
    }
}

/// Ends a process as a user or a scheduler does, and tells by which signal it ended.
#[cfg(unix)]
fn end(child: &mut std::process::Child, signal: &str) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt;
    Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).status().expect("kill");
    child.wait().expect("it ends").signal()
}

/// Somebody else holds the folder, so the run is sure to be in the middle of writing when it is told to stop.
#[cfg(unix)]
#[test]
fn a_run_that_is_stopped_while_writing_leaves_nothing() {
    let trace = fixture("h200/elementwise_eager.json.gz");
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (held, new) = (folder.path().join("a"), folder.path().join("b/c"));
        fs::create_dir(&held).expect("a folder");
        let lock = fs::File::open(&held).expect("a folder");
        lock.lock().expect("a lock");
        let mut child = Command::new(BIN)
            .args(["report", "--no-html"])
            .arg(&trace)
            .arg("--xlsx")
            .arg(held.join("r.xlsx"))
            .arg("--csv-dir")
            .arg(&new)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("jarvis runs");
        while !new.exists() {
            std::thread::sleep(Duration::from_millis(5));
            assert!(child.try_wait().expect("a child").is_none(), "it did not wait");
        }
        assert_eq!(end(&mut child, signal), Some(number));
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("UTF-8");
        assert_eq!(said, "interrupted: the output is as it was before\n");
        assert!(!folder.path().join("b").exists() && files(&held).is_empty(), "{signal}");
    }
}

/// At whatever moment: nothing, or everything.
#[cfg(unix)]
#[test]
fn a_run_that_is_stopped_at_any_moment_leaves_all_or_nothing() {
    let trace = fixture("h200/elementwise_eager.json.gz");
    let folder = tempfile::tempdir().expect("a folder");
    let command = |out: &Path| {
        let mut command = Command::new(BIN);
        command.arg("analyze").arg(&trace).args(["--platform", "H200", "-o"]).arg(out);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let whole = folder.path().join("whole");
    let began = std::time::Instant::now();
    assert!(command(&whole).status().expect("jarvis runs").success());
    let (took, whole) = (began.elapsed(), results(&whole));
    for part in 1..=12 {
        let out = folder.path().join(format!("out-{part}"));
        let mut child = command(&out).spawn().expect("jarvis runs");
        std::thread::sleep(took * part / 10);
        end(&mut child, "INT");
        assert!(!out.exists() || results(&out) == whole, "after {part} tenths: {:?}", files(&out).keys());
        let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().map(|e| e.file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{left:?}");
    }
}

/// What `nohup` asks for is kept.
#[cfg(target_os = "linux")]
#[test]
fn signals_that_are_ignored_stay_ignored() {
    let trace = fixture("h200/elementwise_eager.json.gz");
    let run = in_shell("trap '' HUP; (sleep 0.05; kill -HUP $$) &", &["info", text(&trace)]);
    assert_eq!(run.status, 0, "{}", run.err);
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let trace = fixture("h200/attn_unfused.json.gz");
    let mut child = Command::new(BIN)
        .args(["tree", text(&trace), "--name", "", "--limit", "0"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("jarvis runs");
    let mut first = [0; 10];
    child.stdout.take().expect("piped").read_exact(&mut first).expect("some text");
    let run = child.wait_with_output().expect("it ends");
    assert_eq!((run.status.code(), run.stderr.as_slice()), (Some(0), &b""[..]));
}

/// Spaces, line ends and bytes that are no text, in the names of what is read and of what is written.
#[cfg(unix)]
#[test]
fn any_path_will_do() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().expect("a folder");
    for (i, name) in [&b"with space"[..], b"line\nend", b"\xff\xfe no text", b"-dash", b"*?'\"$x;&"].iter().enumerate()
    {
        let inside = folder.path().join(i.to_string()).join(OsStr::from_bytes(name));
        fs::create_dir_all(&inside).expect("a folder");
        let trace = inside.join(OsStr::from_bytes(&[name, &b".json.gz"[..]].concat()));
        fs::copy(fixture("h200/elementwise_eager.json.gz"), &trace).expect("a copy");
        let out = inside.join(OsStr::from_bytes(name));
        let run = |args: &[&OsStr]| {
            let output = Command::new(BIN).args(args).stdin(Stdio::null()).output().expect("jarvis runs");
            assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        };
        let (trace, flag) = (trace.as_os_str(), OsStr::new("-o"));
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|end| out.join(end));
        run(&["info".as_ref(), trace]);
        run(&["tree".as_ref(), trace]);
        run(&["analyze".as_ref(), trace, "--platform".as_ref(), "H200".as_ref(), flag, a.as_ref()]);
        run(&["check".as_ref(), a.as_ref()]);
        run(&["report".as_ref(), trace, flag, b.as_ref()]);
        run(&["diff".as_ref(), trace, trace, flag, c.as_ref()]);
        run(&["replay".as_ref(), trace, "--op".as_ref(), "*".as_ref(), flag, d.as_ref()]);
        let names = ["--names", "x", "y"].map(OsStr::new);
        run(&["compare".as_ref(), b.as_ref(), b.as_ref(), names[0], names[1], names[0], names[2], flag, d.as_ref()]);
        assert!(a.join("findings.json").is_file() || a.join("run_log.json").is_file());
        assert!(b.join("perf_report.xlsx").is_file() && d.read_dir().expect("a folder").next().is_some());
    }
}

#[test]
fn what_was_read_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let trace = fs::read(fixture("h200/attn_fused.json.gz")).unwrap();
    for name in ["t.json.gz", "findings.json", "cpu_op_map.json"] {
        fs::write(at(name), &trace).unwrap();
    }
    for (name, book) in [("a", "a.xlsx"), ("b", "b.xlsx")] {
        let run = jarvis(&["report", &at("t.json.gz"), "--xlsx", &at(book), "--no-csv", "-q", "-o", &at(name)]);
        assert_eq!(run.status, 0, "{}", run.err);
    }
    fs::create_dir(at("sub")).unwrap();
    let before = files(folder.path());
    let here = folder.path().to_str().unwrap();
    let roundabout = at("sub/../t.json.gz");
    for args in [
        &["report", &at("t.json.gz"), "--xlsx", &at("t.json.gz"), "--no-csv"][..],
        &["report", &at("t.json.gz"), "--xlsx", &roundabout, "--no-csv"],
        &["compare", &at("a.xlsx"), &at("b.xlsx"), "-o", &at("a.xlsx")],
        &["compare", &at("a.xlsx"), &at("b.xlsx"), "-o", &at("b.xlsx")],
        &["analyze", &at("findings.json"), "-o", here],
        &["analyze", &at("t.json.gz"), "--reference", &at("findings.json"), "-o", here],
        &["diff", &at("t.json.gz"), &at("cpu_op_map.json"), "-o", here],
    ] {
        let run = jarvis(args);
        assert_eq!(run.status, 4, "{args:?}: {}{}", run.out, run.err);
        assert!(run.err.contains("this file was read, and would be overwritten"), "{args:?}: {}", run.err);
        assert!(files(folder.path()) == before, "{args:?}");
    }
}

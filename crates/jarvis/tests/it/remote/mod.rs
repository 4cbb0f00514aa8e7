//! `jarvis analyze --cluster`, against a real sshd of this machine.

mod sshd;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use self::sshd::{Sshd, wait_for};
use crate::support::{Run, files, fixture, jarvis};

const TRACE: &str = "h200/mlp_fp32.json.gz";
/// What a stranger of this name, or an older jarvis, may answer.
const OTHER: &str = "#!/bin/sh\necho 'jarvis-remote-side 0.0.1 protocol 0'\n";
/// As much of docker as is used: `box` runs, `asleep` does not, `bare` has no shell.
const DOCKER: &str = r#"#!/bin/sh
printf '%s\n' "$*" >>"$(dirname "$0")/docker.log"
for last; do :; done
case $1 in
inspect)
  case $last in
    box | bare) echo true ;;
    asleep) echo false ;;
    *) echo "Error: No such object: $last" >&2; exit 1 ;;
  esac ;;
exec)
  [ "$2" = -i ] || exit 125
  [ "$3" != bare ] || { echo 'exec: "sh": executable file not found in $PATH' >&2; exit 127; }
  shift 3
  exec "$@" ;;
esac
"#;

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

/// The files of a run, without the one that has the time in it.
fn results(folder: &Path) -> Vec<(String, Vec<u8>)> {
    files(folder).into_iter().filter(|(name, _)| name != "run_log.json").collect()
}

fn same(a: &[(String, Vec<u8>)], b: &[(String, Vec<u8>)]) {
    let names = |files: &[(String, Vec<u8>)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    assert_eq!(names(a), names(b));
    for (a, b) in a.iter().zip(b) {
        assert!(a == b, "{} differs", a.0);
    }
}

#[test]
fn a_run_there_gives_what_a_run_here_gives() {
    let Some(host) = Sshd::start() else { return };
    host.install();
    // What start-up files of the other side print does no harm.
    fs::write(host.path("home/.bashrc"), "echo Welcome; printf 'Mind the step'\n").unwrap();
    let trace = text(&fixture(TRACE));
    let (there, here) = (host.path("there"), host.path("here"));
    let options = ["--model-name", "it's \"my\" $(net)", "--replay", "none", "--threads", "2"];
    let far = host.analyze(&[&[&trace, "--cluster", "loop", "-o", &text(&there)], &options[..]].concat());
    assert_eq!((far.status, far.err.as_str()), (0, ""));
    let near = jarvis(&[&["analyze", &trace, "--cluster-label", "loop", "-o", &text(&here)], &options[..]].concat());
    assert_eq!(far.out.replace(&text(&there), "OUT"), near.out.replace(&text(&here), "OUT"));
    same(&results(&there), &results(&here));
    assert!(files(&there).contains_key("run_log.json"));
    assert_eq!(host.left_behind(), [] as [PathBuf; 0]);

    // Results of an earlier run go, as they do here, and the default folder is the current one.
    fs::rename(&there, host.path("analysis_output")).unwrap();
    let again = host.analyze(&[&text(&fixture("h200/attn_unfused.json.gz")), "--cluster", "loop", "--json", "-q"]);
    assert_eq!((again.status, again.err.as_str()), (0, ""));
    let findings = fs::read_to_string(host.path("analysis_output/findings.json")).unwrap();
    assert_eq!(again.out, findings);
    let manifest = fs::read_to_string(host.path("analysis_output/category_manifest.json")).unwrap();
    assert!(manifest.contains("\"cluster\": \"loop\""), "{manifest}");
}

#[test]
fn a_comparison_its_gate_and_files_of_this_side_go_along() {
    let Some(host) = Sshd::start() else { return };
    host.install();
    let (target, reference) = (fixture(TRACE), fixture("h200/attn_unfused.json.gz"));
    fs::copy(&target, host.path("home/target.json.gz")).unwrap();
    fs::write(host.path("limits.json"), "{}").unwrap();
    let out = text(&host.path("out"));
    let gate = ["--reference", &text(&reference), "--fail-on", "slowdown=0%", "--thresholds", "limits.json"];
    let args = |trace: &str, more: &[&str]| -> Vec<String> {
        [trace, "-o", &out].iter().chain(&gate).chain(more).map(|&word| word.to_owned()).collect()
    };
    let far = args("~/target.json.gz", &["--cluster", "loop"]);
    let far = host.analyze(&far.iter().map(String::as_str).collect::<Vec<_>>());
    let found = results(&host.path("out"));
    let near = args(&text(&host.path("home/target.json.gz")), &["--cluster-label", "loop"]);
    let near: Run = host.command(&near.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap().into();
    assert_eq!((far.status, &far.out, &far.err), (near.status, &near.out, &near.err));
    assert_eq!(far.status, 1, "the gate does not hold: {}", far.err);
    same(&found, &results(&host.path("out")));

    // What can't be read here is told before anybody is asked.
    let run = host.analyze(&["~/t.json", "--cluster", "nobody", "--thresholds", "none.json"]);
    assert_eq!(run.status, 2, "{}", run.err);
    assert!(run.err.contains("none.json") && !run.err.contains("ssh"), "{}", run.err);
}

#[test]
fn jarvis_is_copied_if_it_is_not_there_and_removed() {
    let Some(host) = Sshd::start() else { return };
    host.program("jarvis", OTHER);
    let args = [&text(&fixture(TRACE)), "--cluster", "loop", "-o", "out"];
    let run: Run = host.command_of(&host.slim(), &args).output().unwrap().into();
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(run.err.starts_with("note: loop: jarvis ") && run.err.lines().count() == 1, "{}", run.err);
    assert!(host.path("out/report.html").exists());
    assert_eq!(host.left_behind(), [] as [PathBuf; 0]);
}

#[test]
fn a_copy_is_kept_on_request_and_a_named_one_is_used() {
    let Some(host) = Sshd::start() else { return };
    host.install();
    // No program for checksums: the copy tells its own.
    for name in ["sha256sum", "shasum", "openssl"] {
        host.program(name, "#!/bin/sh\nexit 1\n");
    }
    let args = [&text(&fixture(TRACE)), "--cluster", "loop", "-o", "out", "--keep", "--remote-binary"];
    let slim = host.slim();
    let run = host.analyze(&[&args[..], &[&text(&slim)]].concat());
    assert_eq!(run.status, 0, "{}", run.err);
    let kept = host.left_behind();
    assert_eq!(kept.len(), 1, "{kept:?}");
    assert!(run.err.contains(&text(&kept[0])), "{}", run.err);
    assert_eq!(fs::read(kept[0].join("jarvis")).unwrap(), fs::read(slim).unwrap());
    fs::remove_dir_all(&kept[0]).unwrap();

    // A program that is something else is found out, and goes.
    fs::write(host.path("other"), OTHER).unwrap();
    let run = host.analyze(&[&args[..], &["other"]].concat());
    assert_eq!(run.status, 5, "{}", run.err);
    assert!(run.err.contains("jarvis-remote-side 0.0.1") && run.err.contains("help: --remote-binary"), "{}", run.err);
    let run = host.analyze(&[&args[..], &["missing"]].concat());
    assert_eq!(run.status, 2, "{}", run.err);
    assert_eq!(host.left_behind(), [] as [PathBuf; 0]);
}

#[test]
fn a_damaged_copy_is_not_run() {
    let Some(host) = Sshd::start() else { return };
    host.program("sha256sum", "#!/bin/sh\necho 0123  -\n");
    fs::write(host.path("other"), OTHER).unwrap();
    let run = host.analyze(&["t.json", "--cluster", "loop", "--remote-binary", "other"]);
    assert_eq!(run.status, 5, "{}", run.err);
    assert!(run.err.contains("checksum"), "{}", run.err);
    assert_eq!(host.left_behind(), [] as [PathBuf; 0]);
}

#[test]
fn another_kind_of_machine_needs_another_program() {
    let Some(host) = Sshd::start() else { return };
    host.program("uname", "#!/bin/sh\n[ \"$1\" = -s ] && echo Linux || echo riscv64\n");
    let run = host.analyze(&["t.json", "--cluster", "loop"]);
    assert_eq!(run.status, 5, "{}", run.err);
    assert!(run.err.contains("Linux on riscv64") && run.err.contains("--remote-binary"), "{}", run.err);
    assert_eq!(host.left_behind(), [] as [PathBuf; 0]);
}

#[test]
fn failures_of_the_analysis_are_those_of_a_run_here() {
    let Some(host) = Sshd::start() else { return };
    host.install();
    fs::write(host.path("home/empty.json"), "").unwrap();
    for (trace, more) in [
        (text(&host.path("home/empty.json")), &[][..]),
        (text(&fixture("handmade/cpu_only.json")), &["--platform", "H200"]),
        (text(&fixture("handmade/gpu_only.json")), &[]),
        (text(&host.path("home/none.json")), &[]),
    ] {
        let far = host.analyze(&[&[&trace, "--cluster", "loop", "-o", "out"], more].concat());
        let near = jarvis(&[&["analyze", &trace, "-o", &text(&host.path("near"))], more].concat());
        assert_eq!((far.status, &far.out, &far.err), (near.status, &near.out, &near.err), "{trace}");
        assert!(far.status > 1, "{trace}");
    }
    assert!(!host.path("out").exists() && host.left_behind().is_empty());
}

#[test]
fn odd_names_mean_themselves() {
    let Some(host) = Sshd::start() else { return };
    host.install();
    let name = "-a 'b' \"c\" $(touch pwned) `touch pwned` \\ \n;é*.json.gz";
    fs::copy(fixture(TRACE), host.path("home").join(name)).unwrap();
    let run = host.analyze(&["--cluster", "loop", "-o", "-out 'x'", "--", &format!("~/{name}")]);
    assert_eq!(run.status, 2, "a folder can't be an option: {}", run.err);
    let run = host.analyze(&["--cluster", "loop", "-o=-out 'x' $(touch pwned)", "--", &format!("~/{name}")]);
    assert_eq!(run.status, 0, "{}", run.err);
    assert!(host.path("-out 'x' $(touch pwned)/report.html").exists());
    for folder in ["", "home", "tmp"] {
        assert!(!host.path(folder).join("pwned").exists());
    }
    for bad in ["-oProxyCommand=touch pwned", "", "me@-x", "a b"] {
        let run = host.analyze(&["t.json", &format!("--cluster={bad}")]);
        assert_eq!(run.status, 2, "{bad:?}: {}", run.err);
    }
    let run = host.analyze(&["t.json", "--cluster=loop", "--container=x;touch pwned"]);
    assert_eq!(run.status, 2, "{}", run.err);
    let run = host.analyze(&["-", "--cluster=loop"]);
    assert_eq!(run.status, 2, "{}", run.err);
    let run = host.analyze(&["t.json", "--keep"]);
    assert_eq!(run.status, 2, "it has no meaning here: {}", run.err);
    assert!(!host.path("pwned").exists());
}

#[test]
fn hosts_that_cannot_be_reached_are_told() {
    let Some(host) = Sshd::start() else { return };
    for (name, reason) in [("nobody", "refused"), ("stranger", "Host key verification failed")] {
        let run = host.analyze(&["t.json", "--cluster", name, "-o", "out"]);
        assert_eq!(run.status, 5, "{}", run.err);
        let wanted = format!("error: ssh could not connect to {name}");
        assert!(run.err.contains(reason) && run.err.contains(&wanted) && run.err.contains("help:"), "{}", run.err);
    }
    let run = host.analyze(&["t.json", "--cluster", "loop", "--ssh", "no-such-ssh"]);
    assert_eq!(run.status, 5, "{}", run.err);
    assert!(run.err.contains("`no-such-ssh` can't be run") && run.err.contains("--ssh"), "{}", run.err);
    assert!(!host.path("out").exists());
}

/// A message as the other side sends it.
fn message(kind: u8, name: &str, body: &[u8]) -> Vec<u8> {
    let lengths = [&(name.len() as u32).to_le_bytes()[..], &(body.len() as u64).to_le_bytes()].concat();
    [&[kind], &lengths[..], name.as_bytes(), body].concat()
}

#[test]
fn what_a_hostile_host_sends_goes_nowhere() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // It answers what it likes, whatever it is asked.
    let ssh = format!(
        "#!/bin/sh\nIFS=\"'\" read -r _ nonce _\nprintf '\\n%s found x\\n' \"$nonce\"\ncat '{}'\n",
        at("answer").display()
    );
    fs::write(at("ssh"), ssh).unwrap();
    fs::set_permissions(at("ssh"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let hello = message(1, concat!(env!("CARGO_PKG_VERSION"), " ", env!("JARVIS_COMMIT"), " protocol 1"), b"");
    let (file, end) = (|path: &str| message(5, path, b"x"), message(7, "", &[0]));
    let (out, ssh) = (text(&at("out/in")), text(&at("ssh")));
    let answers = |answer: &[Vec<u8>]| {
        fs::write(at("answer"), [&hello[..], &answer.concat()].concat()).unwrap();
        jarvis(&["analyze", "t.json", "--cluster", "x", "--ssh", &ssh, "-o", &out])
    };
    let run = answers(&[file("a/good.txt"), message(6, "", b"said"), end.clone()]);
    assert_eq!((run.status, run.out.as_str(), run.err.as_str()), (0, "said", ""));
    fs::remove_dir_all(at("out")).unwrap();
    for bad in ["../evil", "/tmp/jarvis_evil", "a/../../evil", "a\nb", ""] {
        let run = answers(&[file("good.txt"), file(bad), end.clone()]);
        assert_eq!(run.status, 5, "{bad:?}: {}", run.err);
        assert!(run.err.contains("does not belong"), "{bad:?}: {}", run.err);
    }
    for cut in [&[file("good.txt")][..], &[file("good.txt"), vec![9; 13]], &[message(2, "", b"x"), end.clone()]] {
        assert_eq!(answers(cut).status, 5, "{cut:?}");
    }
    fs::write(at("answer"), message(1, "0.0.1", b"")).unwrap();
    let run = jarvis(&["analyze", "t.json", "--cluster", "x", "--ssh", &ssh, "-o", &out]);
    assert!(run.status == 5 && run.err.contains("0.0.1"), "{}", run.err);
    assert!(!at("out").exists() && !at("evil").exists(), "nothing is written of what is not whole and good");
}

#[test]
fn a_container_is_entered_with_docker() {
    let Some(host) = Sshd::start() else { return };
    host.install();
    host.program("docker", DOCKER);
    let trace = text(&fixture(TRACE));
    let run = host.analyze(&[&trace, "--cluster", "loop", "--container", "box", "-o", "out"]);
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    let log = fs::read_to_string(host.path("bin/docker.log")).unwrap();
    assert!(log.contains("\nexec -i box sh -c "), "{log}");
    let manifest = fs::read_to_string(host.path("out/category_manifest.json")).unwrap();
    assert!(manifest.contains("\"cluster\": \"loop\"") && manifest.contains("\"container\": \"box\""), "{manifest}");

    for (name, reason) in [("asleep", "is not running"), ("bare", "no shell"), ("gone", "No such object: gone")] {
        let run = host.analyze(&[&trace, "--cluster", "loop", "--container", name, "-o", "none"]);
        assert_eq!(run.status, 5, "{}", run.err);
        assert!(run.err.contains(reason) && run.err.contains("help:"), "{}", run.err);
    }
    assert!(!host.path("none").exists() && host.left_behind().is_empty());
}

#[test]
fn a_container_of_this_machine_needs_no_ssh() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path();
    fs::write(bin.join("docker"), DOCKER).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_jarvis"), bin.join("jarvis")).unwrap();
    fs::set_permissions(bin.join("docker"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let args = ["analyze", &text(&fixture(TRACE)), "--container", "box", "-o", &text(&bin.join("out")), "-q"];
    let run: Run = crate::support::command(&args).env("PATH", path).output().unwrap().into();
    assert_eq!((run.status, run.err.as_str()), (0, ""));
    assert!(bin.join("out/report.html").exists());
}

/// A trace that never ends, and a jarvis that is to be copied to it.
fn endless(host: &Sshd) -> Command {
    let made = Command::new("mkfifo").arg(host.path("home/trace.json")).status().unwrap();
    assert!(made.success());
    let mut command = host.command_of(&host.slim(), &["~/trace.json", "--cluster", "loop", "-o", "out"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn when_this_side_is_interrupted_the_other_stops() {
    let Some(host) = Sshd::start() else { return };
    let mut run = endless(&host).process_group(0).spawn().unwrap();
    assert!(wait_for(|| host.is_busy()), "the analysis runs");
    assert!(wait_for(|| host.left_behind().is_empty()), "its program is gone already");
    // As Ctrl-C does: to all processes of the terminal.
    let killed = Command::new("kill").args(["-INT", "--", &format!("-{}", run.id())]).status().unwrap();
    assert!(killed.success());
    assert!(!run.wait().unwrap().success());
    assert!(wait_for(|| !host.is_busy()), "nobody waits, and it stops");
    assert!(!host.path("out").exists() && host.left_behind().is_empty());
}

#[test]
fn when_this_side_is_killed_during_the_copy_nothing_stays() {
    let Some(host) = Sshd::start() else { return };
    let mut run = endless(&host).spawn().unwrap();
    assert!(wait_for(|| !host.left_behind().is_empty()), "the copy begins");
    run.kill().unwrap();
    run.wait().unwrap();
    assert!(wait_for(|| host.left_behind().is_empty() && !host.is_busy()), "{:?}", host.left_behind());
    assert!(!host.path("out").exists());
}

#[test]
fn a_connection_that_breaks_is_told_and_nothing_is_written() {
    let Some(host) = Sshd::start() else { return };
    host.install();
    let mut command = endless(&host);
    let run = command.stderr(Stdio::piped()).spawn().unwrap();
    assert!(wait_for(|| host.is_busy()), "the analysis runs");
    // The only child of the process is its ssh.
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).unwrap();
    let killed = Command::new("kill").args(["-KILL", children.trim()]).status().unwrap();
    assert!(killed.success(), "{children}");
    let run: Run = run.wait_with_output().unwrap().into();
    assert_eq!(run.status, 5, "{}", run.err);
    // Which of them depends on whether the other side's greeting had been read when the connection broke.
    let told = ["ended there without a result", "the connection ended before jarvis ran there"];
    assert!(told.iter().any(|t| run.err.contains(t)) && run.err.contains("help:"), "{}", run.err);
    assert!(wait_for(|| !host.is_busy()), "nobody waits, and it stops");
    assert!(!host.path("out").exists() && host.left_behind().is_empty());
}

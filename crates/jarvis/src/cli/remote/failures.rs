//! What can go wrong on the way there, in words.

use std::env::consts::{ARCH, OS};
use std::io;
use std::process::ExitStatus;

use super::link::Phase;
use super::place::PlaceArgs;
use super::side::VERSION;
use crate::cli::Failure;
use crate::exit;

/// The other side stopped speaking.
pub(super) fn silence(place: &PlaceArgs, phase: &Phase, status: Option<ExitStatus>) -> Failure {
    let code = status.and_then(|status| status.code());
    let name = place.name();
    let ended = match (code, status) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(status)) => status.to_string(),
        (None, None) => "it did not end".to_owned(),
    };
    let failure = |what: String| Failure::new(exit::REMOTE, what);
    match phase {
        Phase::Connecting => match &place.cluster {
            Some(host) if code == Some(255) => {
                failure(format!("ssh could not connect to {host}; its reason stands above")).help(format!(
                    "`{} {host}` must work by itself first; keys, user, port and jump hosts come from your ssh \
                     configuration",
                    place.ssh()
                ))
            }
            Some(host) if code == Some(127) => {
                failure(format!("{host}: `{}` or the shell `sh` of the host was not found", place.ssh()))
                    .help("install the OpenSSH client here, or name it with --ssh; the host needs a POSIX shell")
            }
            Some(host) => failure(format!("{host} ended the session before anything ran there ({ended})"))
                .help(format!("`{} {host} sh -c true` must work by itself first", place.ssh())),
            None => failure(format!("no shell could be run here ({ended})")).help("`sh -c true` must work"),
        },
        Phase::Entering(tool) if matches!(code, Some(126 | 127)) => {
            failure(format!("{name} has no shell (`{tool} exec` ended with {ended})"))
                .help("a container needs `sh`, `dd` and `head`; without them, copy the trace out with `docker cp`")
        }
        Phase::Entering(tool) => failure(format!("{name}: `{tool} exec` failed ({ended}); its reason stands above"))
            .help(format!("`{tool} exec -i NAME sh -c true` must work there by itself first")),
        Phase::Preparing => failure(format!("{name}: the connection ended before jarvis ran there ({ended})"))
            .help("try again; what stands above may say why"),
        Phase::Running | Phase::Done => failure(format!("{name}: jarvis ended there without a result ({ended})"))
            .help("if the connection was lost, try again; status 137 means that the memory there was not enough"),
    }
}

/// The scripts say that they can't go on.
pub(super) fn refusal(place: &PlaceArgs, kind: &str, text: &str) -> Failure {
    let name = place.name();
    let container = place.container.as_ref().map(ToString::to_string).unwrap_or_default();
    let failure = |what: String| Failure::new(exit::REMOTE, what);
    match kind {
        "no-tool" => failure(format!("{name}: neither docker nor podman is to be found there"))
            .help("leave --container out if the trace can be read from outside the container"),
        "stopped" => {
            failure(format!("{name} is not running")).help(format!("start it there: {text} start {container}"))
        }
        "unknown" => failure(format!("{name} can't be used: {}", text.trim()))
            .help("`docker ps` or `podman ps` there lists what runs, and shows whether you may"),
        "folder" => failure(format!("{name}: there is no folder that programs can be put into and run from"))
            .help(format!("set TMPDIR there, or install jarvis {VERSION} there")),
        "copy" => failure(format!("{name}: the copy of jarvis did not arrive whole in {text}"))
            .help("is the disk full there? TMPDIR there names another folder"),
        "checksum" => {
            failure(format!("{name}: the copy of jarvis has another checksum than the one sent")).help("try again")
        }
        "run" => {
            let mut failure = failure(format!("{name}: the copy of jarvis is no jarvis {VERSION} that runs there"))
                .help(
                    "--remote-binary FILE names one to copy instead; a static one runs on any Linux of its processor",
                );
            failure.cause = Some(if text.is_empty() { "it said nothing".to_owned() } else { text.to_owned() });
            failure
        }
        other => failure(format!("{name}: {other} {text}")),
    }
}

/// Whether our own program would run there.
pub(super) fn check_kind(place: &PlaceArgs, system: &str, machine: &str) -> Result<(), Failure> {
    let os = match system {
        "Linux" => "linux",
        "Darwin" => "macos",
        other => other,
    };
    let arch = match machine {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    if (os, arch) == (OS, ARCH) {
        return Ok(());
    }
    let what = format!("{} is {system} on {machine}, this jarvis is for {OS} on {ARCH}", place.name());
    Err(Failure::new(exit::REMOTE, what).help(format!(
        "build jarvis {VERSION} for {system} on {machine} and name it with --remote-binary FILE, or install it there on \
         the PATH or in ~/.local/bin"
    )))
}

/// What came makes no sense.
pub(super) fn nonsense(place: &PlaceArgs, error: &io::Error) -> Failure {
    Failure::new(exit::REMOTE, format!("{}: what came back is not to be understood: {error}", place.name()))
        .help("try again; if it stays, the jarvis there may be of another build: --remote-binary copies one")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::style::Style;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        place: PlaceArgs,
    }

    fn place(args: &[&str]) -> PlaceArgs {
        Line::parse_from([&["x"], args].concat()).place
    }

    #[test]
    fn another_kind_of_machine_is_told() {
        let place = place(&["--cluster", "gpu1"]);
        let (here, there) = if ARCH == "x86_64" { ("x86_64", "aarch64") } else { ("arm64", "x86_64") };
        let system = if OS == "macos" { "Darwin" } else { "Linux" };
        assert!(check_kind(&place, system, here).is_ok());
        let failure = check_kind(&place, system, there).unwrap_err().text(Style::new(false));
        assert!(failure.contains(there) && failure.contains("--remote-binary"), "{failure}");
        assert!(check_kind(&place, "FreeBSD", here).is_err());
    }

    #[test]
    fn each_refusal_says_what_to_do() {
        let place = place(&["--cluster", "gpu1", "--container", "box"]);
        for kind in ["no-tool", "stopped", "unknown", "folder", "copy", "checksum", "run"] {
            let failure = refusal(&place, kind, "docker");
            assert_eq!(failure.status, exit::REMOTE);
            assert!(failure.help.is_some() && failure.what.contains("container box of gpu1"), "{failure:?}");
        }
    }
}

//! What is compared: ways to inflate, and commands of `jarvis`.

use std::path::Path;
use std::process::Command;

use super::trace::{Container, Trace};

/// Something to run on a trace.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// How the table calls it.
    pub(crate) label: String,
    /// Program and arguments; `{trace}` and `{out}` are put in later.
    command: Vec<String>,
    containers: &'static [Container],
}

const GZIP: &[Container] = &[Container::Gzip];
const PLAIN: &[Container] = &[Container::Plain];
const BOTH: &[Container] = &[Container::Gzip, Container::Plain];

/// The yardstick of all ratios: the least that reading a compressed trace can cost.
pub(crate) const INFLATE: &str = "inflate: zlib-rs raw + crc-fast";
/// The yardstick that everybody has.
pub(crate) const GNU_GZIP: &str = "gzip -dc";

/// Commands of `jarvis`, run where the binary has them: name of the subcommand, and the whole command line.
const JARVIS: &[(&str, &str)] = &[
    // Reads, builds the tree, prints one event: the least a command can do.
    ("tree", "tree {trace} --uid 0 --quiet"),
    ("info", "info {trace} --quiet"),
    ("report", "report {trace} -o {out} --quiet"),
    ("analyze", "analyze {trace} -o {out} --quiet"),
];

impl Candidate {
    fn new(label: &str, program: &Path, arguments: &str, containers: &'static [Container]) -> Self {
        let mut command = vec![program.display().to_string()];
        command.extend(arguments.split_whitespace().map(str::to_owned));
        Self { label: label.to_owned(), command, containers }
    }

    /// Whether it can read the trace.
    pub(crate) fn reads(&self, trace: &Trace) -> bool {
        self.containers.contains(&trace.container)
    }

    /// The command for one trace; what it writes goes under `out`.
    pub(crate) fn command(&self, trace: &Path, out: &Path) -> Vec<String> {
        let put = |part: &String| {
            part.replace("{trace}", &trace.display().to_string()).replace("{out}", &out.display().to_string())
        };
        self.command.iter().map(put).collect()
    }
}

/// All candidates that can run here, and a line for each that cannot. `more` are further `jarvis` command lines.
pub(crate) fn all(xtask: &Path, jarvis: &Path, more: &[String]) -> (Vec<Candidate>, Vec<String>) {
    let mut skipped = Vec::new();
    let mut candidates = vec![
        Candidate::new(INFLATE, xtask, "inflate --how raw {trace}", GZIP),
        Candidate::new("inflate: flate2 MultiGzDecoder", xtask, "inflate --how multi {trace}", GZIP),
    ];
    let gzip = Path::new("gzip");
    if Command::new(gzip).arg("--version").output().is_ok_and(|output| output.status.success()) {
        candidates.push(Candidate::new(GNU_GZIP, gzip, "-dc {trace}", GZIP));
    } else {
        skipped.push(format!("`{GNU_GZIP}`: there is no gzip on this machine"));
    }
    candidates.push(Candidate::new("read", xtask, "inflate --how read {trace}", PLAIN));

    let help = Command::new(jarvis).arg("help").output();
    let help = help.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    for (name, arguments) in JARVIS {
        if lists(&help, name) {
            candidates.push(Candidate::new(&format!("jarvis {name}"), jarvis, arguments, BOTH));
        } else {
            skipped.push(format!("`jarvis {name}`: `jarvis help` does not list it"));
        }
    }
    for line in more {
        candidates.push(Candidate::new(&format!("jarvis {}", line.replace("{trace}", "").trim()), jarvis, line, BOTH));
    }
    (candidates, skipped)
}

/// Whether a help text has `name` as the first word of a line.
fn lists(help: &str, name: &str) -> bool {
    help.lines().any(|line| line.starts_with(' ') && line.split_whitespace().next() == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subcommands_are_found_in_help() {
        let help = "info about jarvis\n\nCommands:\n  info     Show what a trace holds\n  help     info\n";
        assert!(lists(help, "info"));
        assert!(!lists(help, "report") && !lists(help, "about"));
    }

    #[test]
    fn places_are_put_in() {
        let candidate = Candidate::new("x", Path::new("/bin/jarvis"), "report {trace} -o {out}/csv", BOTH);
        let command = candidate.command(Path::new("/t.json.gz"), Path::new("/o"));
        assert_eq!(command, ["/bin/jarvis", "report", "/t.json.gz", "-o", "/o/csv"]);
    }
}

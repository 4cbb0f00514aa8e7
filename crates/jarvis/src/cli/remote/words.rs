//! Which options go to the other side. All of them do, as they were typed, unless they are about the way there.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

/// Options that only concern this side, or that are given to the other side in another form.
const OWN: &[&str] = &[
    "trace",
    "output",
    "platform",
    "cluster",
    "container",
    "cluster_label",
    "container_label",
    "keep",
    "remote_binary",
    "ssh",
];
/// Options that name a file of this side, which goes along.
const FILES: &[&str] = &["arch", "extension", "thresholds", "reference_arch"];

/// What the user typed, for the other side.
#[derive(Debug, Default)]
pub(super) struct Typed {
    pub(super) words: Vec<OsString>,
    /// Files that options name.
    pub(super) files: Vec<PathBuf>,
}

/// The options of a command line.
pub(super) fn typed(command: &Command, matches: &ArgMatches) -> Typed {
    let mut typed = Typed::default();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        // A default is the same there; what this environment says is not meant for that machine.
        let given = matches.value_source(id) == Some(ValueSource::CommandLine);
        if given && !OWN.contains(&id) {
            typed.add(arg, matches);
        }
    }
    typed
}

impl Typed {
    fn add(&mut self, arg: &Arg, matches: &ArgMatches) {
        let id = arg.get_id().as_str();
        let Some(long) = arg.get_long() else { return };
        let name = format!("--{long}");
        match arg.get_action() {
            ArgAction::SetTrue | ArgAction::SetFalse => self.words.push(name.into()),
            ArgAction::Count => self.words.extend((0..matches.get_count(id)).map(|_| OsString::from(&name))),
            _ => {
                for value in matches.get_raw(id).into_iter().flatten() {
                    self.words.push(option(&name, value));
                    if FILES.contains(&id) {
                        self.files.push(Path::new(value).to_path_buf());
                    }
                }
            }
        }
    }
}

/// `--name=value` in one word, so that no value is taken for an option.
pub(super) fn option(name: &str, value: &OsStr) -> OsString {
    let mut word = OsString::from(name);
    word.push("=");
    word.push(value);
    word
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    fn typed_of(line: &[&str]) -> Typed {
        let mut command = Cli::command();
        command.build();
        let matches = command.clone().try_get_matches_from(line).unwrap();
        let analyze = command.find_subcommand("analyze").unwrap();
        typed(analyze, matches.subcommand_matches("analyze").unwrap())
    }

    #[test]
    fn options_arrive_as_typed() {
        let line = "jarvis --json analyze t.json --cluster h --keep -o out --reference=r --fail-on slowdown=5% \
            --fail-on gemm=1% -q --replay none --arch a.json --model-name -x";
        let mut line: Vec<&str> = line.split(' ').filter(|w| !w.is_empty()).collect();
        line.pop();
        line.pop();
        line.push("--model-name=a b'\n");
        let typed = typed_of(&line);
        let mut words: Vec<&str> = typed.words.iter().map(|w| w.to_str().unwrap()).collect();
        words.sort_unstable();
        let mut wanted = [
            "--json",
            "--quiet",
            "--reference=r",
            "--fail-on=slowdown=5%",
            "--fail-on=gemm=1%",
            "--replay=none",
            "--arch=a.json",
            "--model-name=a b'\n",
        ];
        wanted.sort_unstable();
        assert_eq!(words, wanted);
        assert_eq!(typed.files, [PathBuf::from("a.json")]);
    }

    #[test]
    fn the_lists_name_options_that_are_there() {
        let mut command = Cli::command();
        command.build();
        let analyze = command.find_subcommand("analyze").unwrap();
        for id in OWN.iter().chain(FILES) {
            assert!(analyze.get_arguments().any(|arg| arg.get_id() == id), "{id}");
        }
        // A path means a file of this side or of that one; a new option has to say which.
        for arg in analyze.get_arguments() {
            let id = arg.get_id().as_str();
            let is_path =
                matches!(arg.get_value_names(), Some([name]) if ["FILE", "DIR", "PATH"].contains(&name.as_str()));
            assert!(!is_path || OWN.contains(&id) || FILES.contains(&id), "{id}");
        }
    }
}

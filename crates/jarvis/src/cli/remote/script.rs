//! What runs there before jarvis does: two small scripts for a POSIX shell.
//!
//! The command line that ssh hands to the login shell is the same few plain characters every time, whatever that shell
//! is: it starts `sh`, which reads the script from standard input, byte by byte so that nothing of what follows is
//! taken. No word of the user goes through a shell but the name of a container: paths and options travel to jarvis
//! itself, see `wire.rs`.

use super::place::Container;

/// Goes into a container.
const ENTER: &str = include_str!("../../../assets/remote/enter.sh");
/// Finds jarvis or takes a copy, and runs it.
const PREPARE: &str = include_str!("../../../assets/remote/prepare.sh");

/// What to run there, and what to feed to it first.
#[derive(Debug)]
pub(super) struct Scripts {
    /// For the login shell.
    pub(super) command: String,
    /// For standard input.
    pub(super) input: String,
}

/// What the scripts need to know.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    /// Stands at the beginning of every line of ours.
    pub(super) nonce: &'a str,
    /// What a jarvis of this build answers to `remote-side --version`.
    pub(super) build: &'a str,
    pub(super) container: Option<&'a Container>,
    /// Whether a jarvis that is installed will do.
    pub(super) search: bool,
    /// Whether the copy stays.
    pub(super) keep: bool,
}

impl Wanted<'_> {
    pub(super) fn scripts(&self) -> Scripts {
        let set = |name: &str, value: &str| format!("{name}={}\n", quoted(value));
        let yes = |on: bool| if on { "1" } else { "" };
        let common = set("nonce", self.nonce);
        let prepare = format!(
            "{common}{}{}{}{PREPARE}",
            set("build", self.build),
            set("search", yes(self.search)),
            set("keep", yes(self.keep))
        );
        let Some(container) = self.container else {
            return Scripts { command: command(&prepare), input: prepare };
        };
        let name = set("name", &container.to_string());
        let enter = format!("{common}{name}{}{ENTER}", set("boot", &boot(&prepare)));
        Scripts { command: command(&enter), input: enter + &prepare }
    }
}

/// For any login shell.
fn command(script: &str) -> String {
    format!("exec sh -c '{}'", boot(script))
}

/// Reads a script of this length from standard input, no byte more, and runs it.
fn boot(script: &str) -> String {
    format!("eval \"$(dd bs=1 count={} 2>/dev/null)\"", script.len())
}

/// One word of a POSIX shell, whatever is in it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_login_shell_sees_plain_characters_only() {
        let container = "box".parse().unwrap();
        for container in [None, Some(&container)] {
            let wanted = Wanted { nonce: "n", build: "it's 1", container, search: true, keep: false };
            let command = wanted.scripts().command;
            assert_eq!(command.matches('\'').count(), 2, "{command}");
            assert!(!command.contains(['\n', '\\', '!', '`']), "{command}");
        }
    }

    #[test]
    fn words_come_through_a_shell_as_they_are() {
        if cfg!(windows) {
            return;
        }
        for word in ["", "a b", "it's", "'", "''\\'", "$HOME `id` \"x\"", "a\nb", "-n", "!*?[~"] {
            let script = format!("printf %s {}", quoted(word));
            let mut child = Command::new("sh")
                .args(["-c", &boot(&script)])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut stdin = child.stdin.take().unwrap();
            // What follows the script is not read.
            stdin.write_all((script + "rest").as_bytes()).unwrap();
            drop(stdin);
            let output = child.wait_with_output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}

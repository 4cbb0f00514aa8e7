//! The connection: one process, `ssh` or a shell, and the lines that the scripts say before jarvis speaks.

use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::place::PlaceArgs;
use super::script::Wanted;
use crate::cli::Failure;
use crate::exit;

/// What start-up files of the other side may print before our first line.
const MAX_NOISE: u64 = 1 << 20;
/// How long the other side has to tidy up before the connection is cut.
const PATIENCE: Duration = Duration::from_secs(10);

/// A line of the scripts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// This tool is about to go into the container.
    Entering(String),
    /// A shell runs where the analysis is to run.
    Hello,
    /// This jarvis is of our build and speaks from here on.
    Found(String),
    /// No such jarvis is there: system and machine.
    Need(String, String),
    /// The copy can come.
    Send,
    /// The copy is good and speaks from here on. The folder it lies in.
    Run(String),
    /// What went wrong, and more about it.
    Fail(String, String),
}

impl Said {
    fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let pair = || rest.split_once(' ').unwrap_or((rest, ""));
        Some(match word {
            "entering" => Self::Entering(rest.to_owned()),
            "hello" => Self::Hello,
            "found" => Self::Found(rest.to_owned()),
            "need" => Self::Need(pair().0.to_owned(), pair().1.to_owned()),
            "send" => Self::Send,
            "run" => Self::Run(rest.to_owned()),
            "fail" => Self::Fail(pair().0.to_owned(), pair().1.to_owned()),
            _ => return None,
        })
    }
}

/// How far the other side has come: what its silence means depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Phase {
    Connecting,
    Entering(String),
    Preparing,
    Running,
    /// Everything is said.
    Done,
}

/// The process, and both ends of the conversation.
pub(super) struct Link<'a> {
    place: &'a PlaceArgs,
    nonce: String,
    child: Child,
    to: Option<ChildStdin>,
    from: Option<BufReader<ChildStdout>>,
    phase: Phase,
}

impl<'a> Link<'a> {
    /// Starts the process and feeds the scripts to it.
    pub(super) fn open(place: &'a PlaceArgs, build: &str) -> Result<Self, Failure> {
        let nonce = format!("jarvis-{:016x}", RandomState::new().hash_one(std::process::id()));
        let wanted = Wanted {
            nonce: &nonce,
            build,
            container: place.container.as_ref(),
            search: place.remote_binary.is_none(),
            keep: place.keep,
        };
        let scripts = wanted.scripts();
        let mut command = command(place, &scripts.command);
        // Standard error is shared: progress, warnings and what ssh has to say come through as they are.
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = started.map_err(|error| {
            let program = command.get_program().to_string_lossy().into_owned();
            Failure::new(exit::REMOTE, format!("`{program}` can't be run: {error}"))
                .help("install the OpenSSH client, or name your ssh program with --ssh")
        })?;
        let (to, from) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        let mut link = Self { place, nonce, child, to, from, phase: Phase::Connecting };
        // A process that does not read is one that ends at once, and says why.
        let _ = link.write(scripts.input.as_bytes());
        Ok(link)
    }

    /// The next line of the scripts.
    pub(super) fn said(&mut self) -> Result<Said, Failure> {
        let Some(from) = &mut self.from else { return Err(self.silence()) };
        let mut left = MAX_NOISE;
        let found = loop {
            let mut line = Vec::new();
            let read = from.take(left).read_until(b'\n', &mut line).unwrap_or(0) as u64;
            if read == 0 {
                break None;
            }
            left -= read;
            let line = String::from_utf8_lossy(&line);
            if let Some(said) = line.strip_prefix(&self.nonce).and_then(|l| Said::parse(l.trim())) {
                break Some(said);
            }
        };
        let Some(said) = found else { return Err(self.silence()) };
        match &said {
            Said::Entering(tool) => self.phase = Phase::Entering(tool.clone()),
            Said::Hello => self.phase = Phase::Preparing,
            Said::Found(_) | Said::Run(_) => self.phase = Phase::Running,
            _ => {}
        }
        Ok(said)
    }

    /// What the other side says once jarvis runs there.
    pub(super) fn messages(&mut self) -> Option<&mut BufReader<ChildStdout>> {
        self.from.as_mut()
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let to = self.to.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        to.write_all(bytes)?;
        to.flush()
    }

    /// Why nothing more comes.
    pub(super) fn silence(&mut self) -> Failure {
        let status = self.close();
        super::failures::silence(self.place, &self.phase, status)
    }

    /// Ends a conversation in which everything was said.
    pub(super) fn finish(mut self) {
        self.phase = Phase::Done;
    }

    /// Ends the conversation: the other side tidies up, and is cut off if it takes too long.
    fn close(&mut self) -> Option<ExitStatus> {
        drop(self.to.take());
        if let Some(mut from) = self.from.take() {
            // Whoever is in the middle of a sentence must be able to end it.
            thread::spawn(move || io::copy(&mut from, &mut io::sink()));
        }
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().ok()? {
                return Some(status);
            }
            thread::sleep(Duration::from_millis(5));
        }
        if self.phase == Phase::Done {
            // An ssh that others share the connection of stays for them.
            return None;
        }
        self.child.kill().ok()?;
        self.child.wait().ok()
    }
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        self.close();
    }
}

/// The process: `ssh` to the host, or a shell of this machine.
fn command(place: &PlaceArgs, line: &str) -> Command {
    let Some(host) = &place.cluster else {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        return command;
    };
    // A variable that is set to nothing is not set.
    let ssh = place.ssh();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | '\\' | ':');
    let mut command = if ssh.chars().all(plain) {
        Command::new(ssh)
    } else {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {ssh} \"$@\""), "ssh"]);
        command
    };
    // No terminal: the bytes must come as they are. Nothing of this machine is lent to the host for this.
    command.args(["-T", "-a", "-x", "-o", "ClearAllForwardings=yes", "--"]).arg(host.to_string()).arg(line);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_scripts() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let (system, machine) = pair("Linux", "x86_64");
        assert_eq!(Said::parse("need Linux x86_64"), Some(Said::Need(system, machine)));
        assert_eq!(Said::parse("run /tmp/a b"), Some(Said::Run("/tmp/a b".to_owned())));
        let (kind, text) = pair("run", "no such library");
        assert_eq!(Said::parse("fail run no such library"), Some(Said::Fail(kind, text)));
        assert_eq!(Said::parse("hello"), Some(Said::Hello));
        assert_eq!(Said::parse("goodbye"), None);
    }
}

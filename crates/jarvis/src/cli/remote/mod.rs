//! `jarvis analyze --cluster HOST`: the same analysis where the trace lies.
//!
//! One connection carries everything. A shell script there (`script.rs`) finds a jarvis of this build or takes a copy
//! of this one; that jarvis (`side.rs`) gets the command line, runs it, and sends back the files and the summary
//! (`wire.rs`), which are then written here as those of any run. Standard input of the process there is its lifeline:
//! when this end goes, however it goes, that one stops and the copy is removed.

mod failures;
mod link;
mod place;
mod script;
mod side;
mod wire;
mod words;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use clap::CommandFactory as _;
use jarvis_report::OutputFile;

pub(crate) use place::{Host, PlaceArgs};
pub(crate) use side::{Peer, SideArgs, expanded, named_text, run as serve};

use self::link::{Link, Said};
use self::wire::{Look, Message};
use super::{Cli, Failure, Session, read_text};

/// More files and bytes than any analysis makes.
const MAX_FILES: usize = 100_000;
const MAX_BYTES: u64 = 4 << 30;
/// How much of the program is sent at a time.
const CHUNK: usize = 256 << 10;

/// What is to be analysed.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    pub(crate) place: &'a PlaceArgs,
    /// As the other side knows it.
    pub(crate) trace: &'a Path,
    pub(crate) reference: Option<&'a Path>,
    /// Of this side; the other side only names it.
    pub(crate) folder: &'a Path,
    pub(crate) platform: Option<&'a str>,
    pub(crate) cluster_label: Option<&'a str>,
    pub(crate) container_label: Option<&'a str>,
}

/// What came back.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) files: Vec<OutputFile>,
    pub(crate) out: Vec<u8>,
    pub(crate) status: u8,
}

/// Runs the job there.
pub(crate) fn analyze(session: &Session, job: &Job<'_>) -> Result<Outcome, Failure> {
    let stdin = Some(Path::new("-"));
    if Some(job.trace) == stdin || job.reference == stdin {
        return Err(Failure::usage("standard input is here, and the analysis runs elsewhere")
            .help("name the trace as that machine knows it"));
    }
    let look = Look { colour: session.style().is_on(), terminal: session.shows_progress() };
    let request = request(job, look)?;
    let program = job.place.remote_binary.as_deref().map(Program::read).transpose()?;
    let mut link = Link::open(job.place, &side::build())?;
    let ready = prepare(session, job.place, program, &mut link)?;
    greet(job.place, &mut link, &ready)?;
    // If the other side is gone, reading tells why.
    let _ = link.write(&request);
    let result = receive(job.place, &mut link)?;
    link.finish();
    if let (Ready::Copied { folder, .. }, true) = (&ready, job.place.keep) {
        session.note(&format!("{}: jarvis stays in {folder}; in ~/.local/bin it would be found", job.place.name()));
    }
    Ok(result)
}

/// The command line for the other side, and the files that it names.
fn request(job: &Job<'_>, look: Look) -> Result<Vec<u8>, Failure> {
    let mut command = Cli::command();
    command.build();
    // It has been parsed before, so it can be again.
    let matches = command.clone().try_get_matches_from(std::env::args_os()).unwrap_or_default();
    let typed = match (command.find_subcommand("analyze"), matches.subcommand_matches("analyze")) {
        (Some(command), Some(matches)) => words::typed(command, matches),
        _ => words::Typed::default(),
    };
    let mut words: Vec<OsString> = vec!["analyze".into()];
    words.extend(typed.words);
    words.push(words::option("--output", job.folder.as_os_str()));
    let more = [
        ("--platform", job.platform),
        ("--cluster-label", job.cluster_label),
        ("--container-label", job.container_label),
    ];
    for (name, value) in more {
        words.extend(value.map(|value| words::option(name, OsStr::new(value))));
    }
    words.extend(["--".into(), job.trace.as_os_str().to_owned()]);
    let mut bytes = Vec::new();
    for word in words {
        Message::Word(word.as_encoded_bytes().to_vec()).write(&mut bytes)?;
    }
    for path in typed.files {
        let text = read_text(&path)?.into_bytes();
        Message::Named { path: path.as_os_str().as_encoded_bytes().to_vec(), text }.write(&mut bytes)?;
    }
    Message::Go(look).write(&mut bytes)?;
    Ok(bytes)
}

/// Which jarvis answers there.
enum Ready {
    Found,
    Copied { folder: String, sum: String },
}

/// Listens to the scripts until jarvis runs.
fn prepare(
    session: &Session,
    place: &PlaceArgs,
    mut program: Option<Program>,
    link: &mut Link<'_>,
) -> Result<Ready, Failure> {
    loop {
        match link.said()? {
            Said::Entering(_) | Said::Hello => {}
            Said::Found(_) => return Ok(Ready::Found),
            Said::Need(system, machine) => {
                let program = match program {
                    Some(ref program) => program,
                    None => program.insert(Program::own(place, &system, &machine)?),
                };
                let _ = link.write(format!("{} {}\n", program.bytes.len(), program.sum).as_bytes());
            }
            Said::Send => {
                if let Some(program) = &program {
                    program.send(session, place, link);
                }
            }
            Said::Run(folder) => {
                let sum = program.map(|program| program.sum).unwrap_or_default();
                return Ok(Ready::Copied { folder, sum });
            }
            Said::Fail(kind, text) => return Err(failures::refusal(place, &kind, &text)),
        }
    }
}

/// The program to copy.
struct Program {
    bytes: Vec<u8>,
    sum: String,
}

impl Program {
    fn read(path: &Path) -> Result<Self, Failure> {
        let bytes = fs::read(path).map_err(|error| {
            Failure::usage(format!("{}: {error}", path.display()))
                .help("--remote-binary FILE names the jarvis to copy there")
        })?;
        let sum = side::sum(&bytes);
        Ok(Self { bytes, sum })
    }

    /// The one that runs here, if it would run there.
    fn own(place: &PlaceArgs, system: &str, machine: &str) -> Result<Self, Failure> {
        failures::check_kind(place, system, machine)?;
        Self::read(&std::env::current_exe()?)
    }

    /// Sends it, and says so. If the other side stops reading, it says why.
    fn send(&self, session: &Session, place: &PlaceArgs, link: &mut Link<'_>) {
        let megabytes = self.bytes.len() as f64 / 1e6;
        session.note(&format!("{}: jarvis {} is copied for this run ({megabytes:.1} MB)", place.name(), side::VERSION));
        let shown = session.shows_progress();
        let (mut last, mut sent) = (Instant::now(), 0);
        let mut is_shown = false;
        for chunk in self.bytes.chunks(CHUNK) {
            if link.write(chunk).is_err() {
                break;
            }
            sent += chunk.len();
            if shown && last.elapsed() > Duration::from_millis(250) {
                let _ = write!(io::stderr(), "\r  {:.0}% ", 100.0 * sent as f64 / self.bytes.len() as f64);
                (last, is_shown) = (Instant::now(), true);
            }
        }
        if is_shown {
            let _ = write!(io::stderr(), "\r        \r");
        }
    }
}

/// The first message: who is there.
fn greet(place: &PlaceArgs, link: &mut Link<'_>, ready: &Ready) -> Result<(), Failure> {
    let Message::Hello { build, sum } = next(place, link)? else {
        return Err(failures::nonsense(place, &io::Error::other("no greeting")));
    };
    if !side::build().ends_with(&build) || build.is_empty() {
        return Err(failures::nonsense(place, &io::Error::other(format!("the jarvis there is {build}"))));
    }
    match (ready, sum) {
        (Ready::Copied { sum: sent, .. }, Some(sum)) if *sent != sum => Err(failures::refusal(place, "checksum", "")),
        _ => Ok(()),
    }
}

fn next(place: &PlaceArgs, link: &mut Link<'_>) -> Result<Message, Failure> {
    let Some(from) = link.messages() else { return Err(link.silence()) };
    Message::read(from).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidData => failures::nonsense(place, &error),
        _ => link.silence(),
    })
}

/// Everything up to the exit status. Nothing is written before all of it is there.
fn receive(place: &PlaceArgs, link: &mut Link<'_>) -> Result<Outcome, Failure> {
    let mut result = Outcome::default();
    let mut bytes_left = MAX_BYTES;
    loop {
        let message = next(place, link)?;
        let wrong = |what: &str| failures::nonsense(place, &io::Error::other(what.to_owned()));
        match message {
            Message::File { path, bytes } => {
                bytes_left = bytes_left.checked_sub(bytes.len() as u64).ok_or_else(|| wrong("too many bytes"))?;
                if result.files.len() >= MAX_FILES {
                    return Err(wrong("too many files"));
                }
                if !is_plain(&path) {
                    return Err(wrong("a file that does not belong into the output folder"));
                }
                result.files.push(OutputFile::new(PathBuf::from(path), bytes));
            }
            Message::Out(bytes) => {
                bytes_left = bytes_left.checked_sub(bytes.len() as u64).ok_or_else(|| wrong("too many bytes"))?;
                result.out.extend(bytes);
            }
            Message::End(status) => {
                result.status = status;
                return Ok(result);
            }
            _ => return Err(wrong("a message that belongs to the other direction")),
        }
    }
}

/// Whether this is a relative path of ordinary names.
fn is_plain(path: &str) -> bool {
    let parts = |c| matches!(c, Component::Normal(_));
    !path.is_empty() && !path.chars().any(char::is_control) && Path::new(path).components().all(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_paths_are_taken() {
        for good in ["report.html", "a/b/c.csv", "a b", "é"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "./x", "a\nb", "\u{1b}[2J"] {
            assert!(!is_plain(bad), "{bad:?}");
        }
    }
}

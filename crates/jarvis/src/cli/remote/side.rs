//! The other side: `jarvis remote-side`, which the scripts run where the trace lies.
//!
//! It reads one request from standard input, runs it, and answers on standard output instead of writing files. When
//! standard input ends, nobody waits for the answer any more, and it stops.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use clap::Args;
use jarvis_report::OutputFile;
use sha2::{Digest as _, Sha256};

use super::wire::{Look, Message};
use crate::cli::{Cli, Command, Failure, Outlet, Session, analyze, fault};
use crate::exit;

/// What a person calls this build.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Two ends with the same text here understand each other and find the same.
const BUILD: &str = concat!(env!("CARGO_PKG_VERSION"), " ", env!("JARVIS_COMMIT"), " protocol 1");
/// How the process ends if nobody waits for it; the script there knows the number.
const GONE: u8 = 129;

/// Files that options of the request name, with their text.
static NAMED: OnceLock<BTreeMap<PathBuf, String>> = OnceLock::new();

/// What a jarvis of this build answers to `remote-side --version`.
pub(super) fn build() -> String {
    format!("jarvis-remote-side {BUILD}")
}

#[derive(Debug, Args)]
#[command(version = BUILD, long_version = BUILD)]
pub(crate) struct SideArgs {
    /// Tell the checksum of this program first
    #[arg(long)]
    checksum: bool,
    /// The folder of this program, which was made for it alone: both go as soon as it runs
    #[arg(long, value_name = "DIR")]
    remove: Option<PathBuf>,
}

/// The user's end of the connection.
#[derive(Debug)]
pub(crate) struct Peer {
    out: Mutex<BufWriter<io::Stdout>>,
    look: Look,
}

impl Peer {
    /// Whether standard output has colours there.
    pub(crate) fn has_colours(&self) -> bool {
        self.look.colour
    }

    /// Whether standard error is a terminal there.
    pub(crate) fn has_terminal(&self) -> bool {
        self.look.terminal
    }

    /// What belongs on standard output.
    pub(crate) fn print(&self, bytes: &[u8]) -> io::Result<()> {
        self.send(&Message::Out(bytes.to_vec()))
    }

    /// Files for the output folder.
    pub(crate) fn deliver(&self, files: Vec<OutputFile>) -> io::Result<()> {
        for file in files {
            let path = file.path.to_string_lossy().replace('\\', "/");
            self.send(&Message::File { path, bytes: file.bytes })?;
        }
        Ok(())
    }

    fn send(&self, message: &Message) -> io::Result<()> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        message.write(&mut *out)?;
        out.flush()
    }
}

/// Serves one request.
pub(crate) fn run(args: &SideArgs) -> Result<(), Failure> {
    let program = std::env::current_exe()?;
    let sum = if args.checksum { Some(sum(&fs::read(&program)?)) } else { None };
    if let Some(folder) = &args.remove {
        remove(&program, folder);
    }
    let mut peer = Peer { out: Mutex::new(BufWriter::new(io::stdout())), look: Look::default() };
    peer.send(&Message::Hello { build: BUILD.to_owned(), sum })?;
    // Whoever does not ask is gone.
    let request = Request::read(&mut io::stdin().lock()).map_err(|_| Failure::told(GONE))?;
    peer.look = request.look;
    let peer = Arc::new(peer);
    let answered = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&answered);
    std::thread::spawn(move || stop_when_alone(&watched));
    let status = answer(request, &peer);
    // Whoever has the answer may hang up at once, and that is no reason to say that nobody was there.
    answered.store(true, Ordering::SeqCst);
    peer.send(&Message::End(status)).map_err(|_| Failure::told(GONE))
}

/// Runs the request; its exit status. Standard error is the user's, so failures are told there.
fn answer(request: Request, peer: &Arc<Peer>) -> u8 {
    let _ = NAMED.set(request.named);
    let cli = match Cli::parsed(request.words) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = write!(io::stderr(), "{error}");
            return exit::USAGE;
        }
    };
    let Command::Analyze(mut args) = cli.command else { return exit::USAGE };
    args.expand_home(std::env::home_dir().as_deref());
    let session = Session::new(cli.common, Outlet::There(Arc::clone(peer)));
    match fault::guarded(|| analyze::run(&session, &args)).unwrap_or_else(|fault| Err(fault.failure())) {
        Ok(()) => exit::OK,
        Err(failure) => {
            session.tell(&failure);
            failure.status
        }
    }
}

/// What the user's end wants.
#[derive(Debug, Default)]
struct Request {
    words: Vec<OsString>,
    named: BTreeMap<PathBuf, String>,
    look: Look,
}

impl Request {
    fn read(from: &mut impl io::Read) -> io::Result<Self> {
        let mut request = Self { words: vec!["jarvis".into()], ..Self::default() };
        loop {
            match Message::read(from)? {
                Message::Word(word) => request.words.push(os_string(word)),
                Message::Named { path, text } => {
                    let text = String::from_utf8(text).map_err(io::Error::other)?;
                    request.named.insert(PathBuf::from(os_string(path)), text);
                }
                Message::Go(look) => return Ok(Self { look, ..request }),
                _ => return Err(io::Error::other("a message that belongs to the other direction")),
            }
        }
    }
}

/// The text of a file that came with the request.
pub(crate) fn named_text(path: &Path) -> Option<&'static str> {
    NAMED.get()?.get(path).map(String::as_str)
}

/// `~` and `~/…` are below the home of whoever runs this; all else is as it is.
pub(crate) fn expanded(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_path_buf(),
    }
}

/// Waits for the end of standard input, and ends the process if there is no answer yet: whoever asked is gone.
fn stop_when_alone(answered: &AtomicBool) {
    let mut ignored = [0; 256];
    let mut stdin = io::stdin().lock();
    while stdin.read(&mut ignored).is_ok_and(|read| read > 0) {}
    if answered.load(Ordering::SeqCst) {
        return;
    }
    #[expect(clippy::exit, reason = "nobody is left to hear of anything, and the analysis can't be interrupted")]
    std::process::exit(GONE.into());
}

/// Removes the copy that was made for this run. A running program needs its file no more. Only a folder that holds
/// nothing but this program goes; what can't be removed now is left to the script.
fn remove(program: &Path, folder: &Path) {
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if program.parent().is_some_and(|parent| same(parent, folder)) {
        let _ = fs::remove_file(program);
        let _ = fs::remove_dir(folder);
    }
}

/// SHA-256 in hexadecimal digits.
pub(super) fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut sum, byte| {
        let _ = write!(sum, "{byte:02x}");
        sum
    })
}

#[cfg(unix)]
fn os_string(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

#[cfg(not(unix))]
fn os_string(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_home_is_expanded() {
        let home = Some(Path::new("/home/me"));
        for (typed, meant) in
            [("~", "/home/me/"), ("~/a b", "/home/me/a b"), ("~you/a", "~you/a"), ("a/~/b", "a/~/b"), ("/x", "/x")]
        {
            assert_eq!(expanded(Path::new(typed), home), Path::new(meant), "{typed}");
        }
        assert_eq!(expanded(Path::new("~/a"), None), Path::new("~/a"));
    }

    #[test]
    fn the_checksum_is_the_one_that_others_compute() {
        assert_eq!(sum(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}

//! How a command fails: what happened, why, what to do next, and the exit status that goes with it.

use std::io;

use jarvis_trace::ReadError;

use super::harmless::harmless;
use super::style::Style;
use crate::exit;

/// Why a command stopped.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit status.
    pub(crate) status: u8,
    /// What happened, where.
    pub(crate) what: String,
    /// Why, if more is known.
    pub(crate) cause: Option<String>,
    /// What to do next.
    pub(crate) help: Option<String>,
}

impl Failure {
    pub(crate) fn new(status: u8, what: impl Into<String>) -> Self {
        Self { status, what: what.into(), cause: None, help: None }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::new(exit::USAGE, what)
    }

    /// A failure that the user has read of already.
    pub(crate) fn told(status: u8) -> Self {
        Self::new(status, "")
    }

    /// Whether there is nothing to tell: the reader of our output went away, which is no fault, or knows already.
    pub(crate) fn is_told(&self) -> bool {
        self.status == exit::OK || self.what.is_empty()
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::new(exit::INPUT, error.to_string()).help(error.help())
    }
}

/// Errors of our own output stream.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::new(exit::OK, "the reader of the output went away"),
            _ => Self::new(exit::OUTPUT, format!("the output could not be written: {error}")),
        }
    }
}

impl Failure {
    /// The lines that tell of it.
    pub(crate) fn text(&self, style: Style) -> String {
        // Lines of a file may be shown in them, but no emphasis.
        let plain = Style::new(false);
        let mut text = format!("{} {}", style.label("error"), harmless(&self.what, plain));
        for (kind, line) in [("cause", &self.cause), ("help", &self.help)] {
            if let Some(line) = line {
                text += &format!("\n{} {}", style.label(kind), harmless(line, plain));
            }
        }
        text
    }
}

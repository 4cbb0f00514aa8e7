//! What reading may cost at most. A file of a few megabytes can unpack to hundreds of gigabytes, so every reader stops
//! at a limit and says which. Checked once a block, never for an event: the limits cost nothing that can be measured.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use super::document::{Document, State};

/// Limits of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Memory that the trace and what follows from it may take, in bytes; `None` for as much as there is.
    pub memory: Option<u64>,
    /// Bytes that later work takes for each event, which count as well: a trace that can be read but not analysed is of
    /// no use.
    pub later_per_event: u64,
    /// Bytes that later work takes for each distinct text: tables have a row for each distinct name.
    pub later_per_text: u64,
    /// Longest text, in bytes, in which no event ends. Guards against endless blanks and endless values.
    pub without_event: u64,
    /// From this many unpacked bytes on, a gzip file that unpacks to more than [`Limits::MOST_RATIO`] times its size is
    /// refused.
    pub ratio_from: u64,
}

impl Limits {
    /// Real traces unpack to 10 to 30 times their size, those made of long texts that repeat to a few hundred; deflate
    /// can't do more than 1032.
    pub const MOST_RATIO: u64 = 500;

    /// Rows, bytes of arguments and texts have 32-bit handles. What one block adds beyond this still fits.
    const MOST_HANDLES: usize = 3_000_000_000;

    /// Text after the end of the document that is looked at before the rest is left alone.
    const TRAILING: u64 = 64 << 20;
}

impl Default for Limits {
    fn default() -> Self {
        Self { memory: None, later_per_event: 0, later_per_text: 0, without_event: 1 << 30, ratio_from: 2 << 30 }
    }
}

/// The limit that was met, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exceeded {
    /// Memory.
    Memory { limit: u64, at: u64, events: u64 },
    /// Text without an event.
    NoEvent { limit: u64, from: u64 },
    /// How much a gzip file unpacks to.
    Ratio { packed: u64, unpacked: u64 },
    /// Handles.
    Events { events: u64 },
}

/// Why reading stopped early.
#[derive(Debug)]
pub(super) enum Halt {
    Io(io::Error),
    Limit(Exceeded),
}

impl From<io::Error> for Halt {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Exceeded> for Halt {
    fn from(limit: Exceeded) -> Self {
        Self::Limit(limit)
    }
}

/// The limits of one file and what is used up of them, shared by the parsers of its parts.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    memory: AtomicU64,
    events: AtomicU64,
}

impl Budget {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, memory: AtomicU64::new(0), events: AtomicU64::new(0) }
    }

    /// Fails if a stream unpacks to more than a recording would.
    pub(super) fn check_ratio(&self, packed: u64, unpacked: u64) -> Result<(), Exceeded> {
        if unpacked > self.limits.ratio_from && unpacked / packed.max(1) > Limits::MOST_RATIO {
            return Err(Exceeded::Ratio { packed, unpacked });
        }
        Ok(())
    }

    /// Fails if the parts of a file have more rows or arguments together than there are handles.
    pub(super) fn check_handles<'d>(&self, parts: impl Iterator<Item = &'d Document>) -> Result<(), Exceeded> {
        let longest = parts.fold([0; 5], |sum, part| {
            let lengths = part.rows.columns.lengths();
            std::array::from_fn(|i| sum[i] + lengths[i])
        });
        if !fits(longest) {
            return Err(Exceeded::Events { events: self.events.load(Ordering::Relaxed) });
        }
        Ok(())
    }
}

/// Whether handles of 32 bits can point to all of it.
fn fits(lengths: [usize; 5]) -> bool {
    lengths.iter().all(|&length| length <= Limits::MOST_HANDLES)
}

/// What one parser has used up.
#[derive(Debug)]
pub(super) struct Account<'b> {
    budget: &'b Budget,
    memory: u64,
    events: u64,
    /// Where the last event ended, at the latest.
    last_event: u64,
}

/// Whether there is a reason to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    GoOn,
    /// What follows can't change the result.
    Enough,
}

impl<'b> Account<'b> {
    pub(super) fn new(budget: &'b Budget, document: &Document) -> Self {
        Self { budget, memory: 0, events: 0, last_event: document.position() }
    }

    /// Takes stock after a block. `waiting` is text that was read and not parsed yet, in bytes.
    pub(super) fn check(&mut self, document: &mut Document, waiting: usize) -> Result<Verdict, Exceeded> {
        let Limits { memory, later_per_event, later_per_text, without_event, .. } = self.budget.limits;
        let columns = &document.rows.columns;
        let events = columns.len() as u64;
        let later = events * later_per_event + columns.strings.len() as u64 * later_per_text;
        let used = columns.memory() + document.fact_bytes + waiting as u64 + later;
        // The sum may shrink: text that was waiting is parsed.
        let all = self.budget.memory.fetch_add(used.wrapping_sub(self.memory), Ordering::Relaxed);
        let all = all.wrapping_add(used.wrapping_sub(self.memory));
        let new_events = events - self.events;
        let all_events = self.budget.events.fetch_add(new_events, Ordering::Relaxed) + new_events;
        (self.memory, self.events) = (used, events);
        let read = document.position() + waiting as u64;
        if let Some(limit) = memory.filter(|&limit| all > limit) {
            return Err(Exceeded::Memory { limit, at: read, events: all_events });
        }
        if !fits(columns.lengths()) {
            return Err(Exceeded::Events { events: all_events });
        }
        if new_events > 0 {
            self.last_event = document.position();
        }
        let silent = read - self.last_event;
        match document.state {
            State::NotATrace => Ok(Verdict::Enough),
            State::Done { .. } if silent > Limits::TRAILING => {
                document.leave_trailing();
                Ok(Verdict::Enough)
            }
            State::Done { .. } => Ok(Verdict::GoOn),
            _ if silent > without_event => Err(Exceeded::NoEvent { limit: without_event, from: self.last_event }),
            _ => Ok(Verdict::GoOn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three billion rows are more than a test can have, so the sum is tested on what it is made of.
    #[test]
    fn handles_can_not_run_out() {
        let mut document = Document::new(State::Start, 0);
        let text = br#"{"traceEvents": [{"ph": "X", "args": {"a": 1, "b": -1, "c": 0.5}}, {}]}"#;
        document.feed(text, true);
        let lengths = document.rows.columns.lengths();
        assert_eq!(lengths[..4], [2, 3 * 4, 1, 1]);
        assert_eq!(lengths[4], document.rows.columns.strings.len());
        // An argument takes four bytes and at least five of text: `"":0,`.
        assert!(Limits::MOST_HANDLES as u64 + Limits::default().without_event < u64::from(u32::MAX));
        let budget = Budget::new(Limits::default());
        assert!(budget.check_handles([&document, &document].into_iter()).is_ok());
        let full = [Limits::MOST_HANDLES - 1; 5];
        assert!(fits(full) && !fits([full[0] + 2; 5]));
    }
}

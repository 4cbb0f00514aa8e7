//! Feeding a document: blocks of text from one thread to the parser on another, or several parsers on parts of a
//! plain file. Memory is bounded by the blocks, whatever the size of the file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;

use super::ReadOptions;
use super::counted::Counted;
use super::document::{Document, State, next_event};
use super::limits::{Account, Budget, Halt, Verdict};
use crate::side_by_side::{Beside, beside, joined};

/// Text per block: small enough to stay in the second-level cache between the two threads.
const BLOCK: usize = 512 << 10;
/// Text of the first blocks: they grow with what has been read, so that a small file takes little memory.
const FIRST_BLOCK: usize = 128 << 10;
/// Room before the text, for the event that the previous block cut in two.
const HEAD: usize = 64 << 10;
/// Blocks in flight at most: enough that neither thread waits for the other's stutter. Small files need fewer.
const BLOCKS: usize = 8;
/// A plain file smaller than this is not worth a second thread.
const PARALLEL: u64 = 4 << 20;

/// Text from anywhere: fills the buffer, fewer bytes only at the end.
pub(super) trait Source: Send {
    fn fill(&mut self, out: &mut [u8]) -> io::Result<usize>;

    /// Fails if what was unpacked so far is more than a recording would be.
    fn check(&self, _budget: &Budget) -> Result<(), Halt> {
        Ok(())
    }
}

impl<R: Read + Send> Source for super::gzip::Gunzip<R> {
    fn fill(&mut self, out: &mut [u8]) -> io::Result<usize> {
        super::gzip::Gunzip::fill(self, out)
    }

    fn check(&self, budget: &Budget) -> Result<(), Halt> {
        Ok(budget.check_ratio(self.packed(), self.unpacked())?)
    }
}

/// Plain text.
pub(super) struct Plain<R>(pub(super) R);

impl<R: Read + Send> Source for Plain<R> {
    fn fill(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            match self.0.read(&mut out[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(filled)
    }
}

/// The size of a block after `read` bytes of text: all blocks together stay below a tenth of it.
fn block_size(read: u64) -> usize {
    ((read >> 7) as usize).next_power_of_two().clamp(FIRST_BLOCK, BLOCK)
}

/// Parses blocks as they come, carrying what one leaves over into the next.
struct Feeder<'b> {
    document: Document,
    account: Account<'b>,
    /// What is left over, if it does not fit the room before the next block.
    carry: Vec<u8>,
    /// Not worth trying again before this much text is there: keeps the cost of one huge value linear.
    enough: usize,
}

impl<'b> Feeder<'b> {
    fn new(document: Document, budget: &'b Budget) -> Self {
        let account = Account::new(budget, &document);
        Self { document, account, carry: Vec::new(), enough: 0 }
    }

    /// `block` holds text at `HEAD..HEAD + len`.
    fn feed(&mut self, block: &mut [u8], len: usize, last: bool) -> Result<Verdict, Halt> {
        self.parse(block, len, last);
        Ok(self.account.check(&mut self.document, self.carry.len())?)
    }

    fn parse(&mut self, block: &mut [u8], len: usize, last: bool) {
        if self.carry.len() <= HEAD && self.enough <= HEAD {
            let start = HEAD - self.carry.len();
            block[start..HEAD].copy_from_slice(&self.carry);
            let text = &block[start..HEAD + len];
            let used = self.document.feed(text, last);
            self.carry.clear();
            self.carry.extend_from_slice(&text[used..]);
            self.enough = if used == 0 { 2 * self.carry.len() } else { 0 };
            return;
        }
        self.carry.extend_from_slice(&block[HEAD..HEAD + len]);
        if self.carry.len() >= self.enough || last {
            let used = self.document.feed(&self.carry, last);
            self.carry.drain(..used);
            self.enough = if used == 0 { 2 * self.carry.len() } else { 0 };
        }
    }
}

/// Reads a document, which may be packed later: `source` on a thread of its own, if there is one to be had, the parser on
/// this one.
pub(super) fn read_piped<S: Source>(
    mut source: S,
    document: Document,
    budget: &Budget,
    packed: bool,
) -> Result<(Document, S), Halt> {
    let (empty_tx, empty_rx): (SyncSender<Vec<u8>>, Receiver<Vec<u8>>) = sync_channel(BLOCKS);
    let (full_tx, full_rx) = sync_channel::<(Vec<u8>, usize)>(BLOCKS);
    std::thread::scope(|scope| {
        let (give, take) = sync_channel::<S>(1);
        let producer = Builder::new().spawn_scoped(scope, move || -> Result<S, Halt> {
            let mut source = take.recv().map_err(io::Error::other)?;
            let mut made = 0;
            let mut read = 0;
            loop {
                let mut block = match empty_rx.try_recv() {
                    Ok(block) => block,
                    Err(_) if made < BLOCKS => {
                        made += 1;
                        Vec::new()
                    }
                    Err(_) => match empty_rx.recv() {
                        Ok(block) => block,
                        Err(_) => return Ok(source),
                    },
                };
                let size = block_size(read);
                if block.is_empty() {
                    // Unlike `resize` this touches nothing, and most of the room before the text stays untouched.
                    block = vec![0; HEAD + size];
                } else {
                    block.resize(HEAD + size, 0);
                }
                let len = source.fill(&mut block[HEAD..])?;
                read += len as u64;
                source.check(budget)?;
                if full_tx.send((block, len)).is_err() || len < size {
                    return Ok(source);
                }
            }
        });
        let Ok(producer) = producer else { return Ok((read_inline(&mut source, document, budget)?, source)) };
        // It waits for that.
        let _ = give.send(source);
        let mut feeder = Feeder::new(document, budget);
        let mut verdict = Ok(Verdict::GoOn);
        while let Ok((mut block, len)) = full_rx.recv() {
            let last = HEAD + len < block.len();
            verdict = feeder.feed(&mut block, len, last);
            if !matches!(verdict, Ok(Verdict::GoOn)) {
                break;
            }
            // The producer may be done already.
            let _ = empty_tx.send(block);
            if packed {
                // It is the slower one, so there is time.
                feeder.document.rows.columns.note_ranges();
            }
        }
        // Nobody waits for anybody any more.
        drop((empty_tx, full_rx));
        let source = joined(producer);
        verdict?;
        Ok((feeder.document, source?))
    })
}

/// Reads a document on this thread alone, in the same blocks, so that limits are met at the same place.
pub(super) fn read_inline<S: Source>(source: &mut S, document: Document, budget: &Budget) -> Result<Document, Halt> {
    let mut feeder = Feeder::new(document, budget);
    let mut block = Vec::new();
    let mut read = 0;
    loop {
        let size = block_size(read);
        block.resize(HEAD + size, 0);
        let len = source.fill(&mut block[HEAD..])?;
        read += len as u64;
        source.check(budget)?;
        let verdict = feeder.feed(&mut block, len, len < size)?;
        if len < size || verdict == Verdict::Enough {
            return Ok(feeder.document);
        }
    }
}

/// Reads a plain file with several parsers, each on its own part. `None` if the file does not fall into parts, which
/// the caller then reads in one.
pub(super) fn read_parallel(
    open: impl Fn() -> io::Result<File> + Sync,
    options: &ReadOptions,
    budget: &Budget,
) -> Result<Option<Document>, Halt> {
    let len = open()?.metadata()?.len();
    let parts = options.threads.min((len / (PARALLEL / 2)) as usize);
    if parts < 2 || len < PARALLEL {
        return Ok(None);
    }
    let mut cuts = vec![0];
    for i in 1..parts {
        match cut_near(&mut open()?, len / parts as u64 * i as u64)? {
            Some(cut) if cuts.last().is_none_or(|&last| last < cut) => cuts.push(cut),
            _ => return Ok(None),
        }
    }
    cuts.push(len);

    let read_part = |i: usize| -> Result<(Document, bool), Halt> {
        let mut file = open()?;
        file.seek(SeekFrom::Start(cuts[i]))?;
        let state = if i == 0 { State::Start } else { State::Events { in_object: true } };
        let document = Document::new(state, cuts[i]);
        let is_last = i + 2 == cuts.len();
        let mut text = Plain(Counted::new(file.take(cuts[i + 1] - cuts[i]), options));
        if is_last {
            return Ok((read_inline(&mut text, document, budget)?, true));
        }
        read_exactly(&mut text, document, budget)
    };
    let mut results: Vec<Result<(Document, bool), Halt>> = std::thread::scope(|scope| {
        let read_part = &read_part;
        let workers: Vec<_> = (1..cuts.len() - 1).map(|i| beside(scope, move || read_part(i))).collect();
        let first = read_part(0);
        std::iter::once(first).chain(workers.into_iter().map(Beside::joined)).collect()
    });
    if results.iter().any(|r| matches!(r, Ok((_, false)))) {
        return Ok(None);
    }
    budget.check_handles(results.iter().flatten().map(|(document, _)| document))?;
    let mut rest = results.split_off(1).into_iter();
    let mut whole = match results.pop() {
        Some(first) => first?.0,
        None => return Ok(None),
    };
    for part in &mut rest {
        let part = part?.0;
        let first_uid = whole.rows.columns.len() as u32;
        whole.rows.diagnostics.append(&part.rows.diagnostics, first_uid, 0);
        whole.rows.columns.append(part.rows.columns);
        whole.facts.entries.extend(part.facts.entries);
        whole.slow_events += part.slow_events;
        whole.state = part.state;
    }
    Ok(Some(whole))
}

/// Reads a part that ends where the next event begins; the flag tells whether it came out even.
fn read_exactly<S: Source>(source: &mut S, document: Document, budget: &Budget) -> Result<(Document, bool), Halt> {
    let mut feeder = Feeder::new(document, budget);
    let mut block = vec![0; HEAD + BLOCK];
    loop {
        let len = source.fill(&mut block[HEAD..])?;
        // What follows is another part's to read, so there is never enough.
        feeder.feed(&mut block, len, false)?;
        if len < BLOCK {
            let even = feeder.carry.is_empty() && feeder.document.state == State::Events { in_object: true };
            return Ok((feeder.document, even));
        }
    }
}

/// The first byte at or after `from` where an event begins, if one does within a reasonable distance.
fn cut_near(file: &mut File, from: u64) -> io::Result<Option<u64>> {
    file.seek(SeekFrom::Start(from))?;
    let mut text = Vec::new();
    file.take(1 << 20).read_to_end(&mut text)?;
    Ok(next_event(&text, 0).map(|i| from + i as u64))
}

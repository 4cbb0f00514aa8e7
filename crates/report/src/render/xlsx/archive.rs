//! The file of a workbook. Its parts are packed on a thread of their own: to pack a sheet takes about as long as to write
//! it.

use std::io::{self, Seek, SeekFrom, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// Deflate level: the quickest one. The next one takes a quarter more instructions for a file a fifth smaller.
const LEVEL: i64 = 1;
/// A part of fewer bytes is stored as it is: to set up the packing costs more than the packing.
const PACKED_FROM: usize = 4 << 10;
/// What is passed on at once, in bytes.
const BLOCK: usize = 1 << 16;
/// Blocks that wait to be packed.
const WAITING: usize = 2;

/// What a workbook can be written to.
pub trait Target: Write + Seek + Send + 'static {}

impl<T: Write + Seek + Send + 'static> Target for T {}

/// What comes next in the file.
enum Piece {
    Part { name: String, packed: bool },
    Text(String),
}

/// The file under construction.
#[derive(Debug)]
pub(super) struct Archive<W> {
    pieces: SyncSender<Piece>,
    /// Texts that were packed: their room is used again.
    packed: Receiver<String>,
    packing: io::Result<JoinHandle<Result<W, ZipError>>>,
}

impl<W: Target> Archive<W> {
    pub(super) fn begin(out: W) -> Self {
        let (pieces, waiting) = sync_channel(WAITING);
        let (done, packed) = sync_channel(WAITING);
        Self { pieces, packed, packing: Builder::new().spawn(move || pack(out, waiting, &done)) }
    }

    /// A part of unknown length begins.
    pub(super) fn start(&self, name: &str) {
        self.pass(Piece::Part { name: name.to_owned(), packed: true });
    }

    /// A whole part.
    pub(super) fn part(&self, name: &str, text: String) {
        self.pass(Piece::Part { name: name.to_owned(), packed: text.len() >= PACKED_FROM });
        self.text(text);
    }

    /// More of the part that was begun.
    pub(super) fn text(&self, text: String) {
        self.pass(Piece::Text(text));
    }

    /// The same if it is worth it.
    pub(super) fn pass_on(&self, text: &mut String) {
        if text.len() >= BLOCK {
            let room = text.capacity();
            let next = self.packed.try_recv().unwrap_or_else(|_| String::with_capacity(room));
            self.text(std::mem::replace(text, next));
        }
    }

    /// If nobody takes it, packing has failed, and [`Self::finish`] tells why.
    fn pass(&self, piece: Piece) {
        let _ = self.pieces.send(piece);
    }

    pub(super) fn finish(self) -> Result<W, ZipError> {
        drop(self.pieces);
        self.packing?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Writes to an empty file until something fails, and from then on only counts: a zip file that is given up tells of it on
/// standard error.
struct UntilFailure<W> {
    out: W,
    failure: Option<io::Error>,
    at: u64,
    end: u64,
}

impl<W> UntilFailure<W> {
    fn attempt<T>(&mut self, otherwise: T, act: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.failure.is_some() {
            return Ok(otherwise);
        }
        match act(&mut self.out) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                self.failure = Some(error);
                Ok(otherwise)
            }
            done => done,
        }
    }
}

impl<W: Write> Write for UntilFailure<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.attempt(bytes.len(), |out| out.write(bytes))?;
        self.at += written as u64;
        self.end = self.end.max(self.at);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.attempt((), W::flush)
    }
}

impl<W: Seek> Seek for UntilFailure<W> {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        let to = match place {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.end.checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        let to = to.ok_or(io::ErrorKind::InvalidInput)?;
        self.at = self.attempt(to, |out| out.seek(SeekFrom::Start(to)))?;
        Ok(self.at)
    }
}

fn pack<W: Target>(out: W, pieces: Receiver<Piece>, done: &SyncSender<String>) -> Result<W, ZipError> {
    let mut zip = ZipWriter::new(UntilFailure { out, failure: None, at: 0, end: 0 });
    let options = SimpleFileOptions::default().last_modified_time(DateTime::default());
    for piece in pieces {
        match piece {
            Piece::Part { name, packed: true } => {
                let packed = options.compression_method(CompressionMethod::Deflated);
                zip.start_file(name, packed.compression_level(Some(LEVEL)))?;
            }
            Piece::Part { name, packed: false } => {
                zip.start_file(name, options.compression_method(CompressionMethod::Stored))?;
            }
            Piece::Text(mut text) => {
                zip.write_all(text.as_bytes())?;
                text.clear();
                // Nobody may want it.
                let _ = done.try_send(text);
            }
        }
    }
    let UntilFailure { out, failure, .. } = zip.finish()?;
    failure.map_or(Ok(out), |error| Err(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes.
    #[derive(Debug)]
    struct Full(io::Cursor<Vec<u8>>, usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0.get_ref().len() + bytes.len() > self.1 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Seek for Full {
        fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
            self.0.seek(place)
        }
    }

    #[test]
    fn a_full_disk_is_told_wherever_it_is_full() {
        let make = |room: usize| {
            let archive = Archive::begin(Full(io::Cursor::default(), room));
            archive.part("small", "text".to_owned());
            archive.start("large");
            for i in 0..40 {
                let numbers: Vec<String> = (0..4000).map(|n| (n * (i + 7) % 1000).to_string()).collect();
                archive.text(numbers.join(" "));
            }
            archive.finish()
        };
        let whole = make(usize::MAX).unwrap().0.into_inner().len();
        for room in [0, 10, whole / 2, whole - 1] {
            let error = make(room).unwrap_err();
            assert!(matches!(error, ZipError::Io(e) if e.kind() == io::ErrorKind::StorageFull), "{room}");
        }
        assert_eq!(make(whole).unwrap().0.into_inner().len(), whole);
    }
}

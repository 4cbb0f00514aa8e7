//! The file of a workbook. Its parts are packed on a thread of their own: to pack a sheet takes about as long as to write
//! it.

use std::fmt::Debug;
use std::io::{Seek, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

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
    packing: JoinHandle<Result<W, ZipError>>,
}

impl<W: Target> Archive<W> {
    pub(super) fn begin(out: W) -> Self {
        let (pieces, waiting) = sync_channel(WAITING);
        Self { pieces, packing: std::thread::spawn(|| pack(out, waiting)) }
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
            self.text(std::mem::replace(text, String::with_capacity(room)));
        }
    }

    /// If nobody takes it, packing has failed, and [`Self::finish`] tells why.
    fn pass(&self, piece: Piece) {
        let _ = self.pieces.send(piece);
    }

    pub(super) fn finish(self) -> Result<W, ZipError> {
        drop(self.pieces);
        self.packing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn pack<W: Target>(out: W, pieces: Receiver<Piece>) -> Result<W, ZipError> {
    let mut zip = ZipWriter::new(out);
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
            Piece::Text(text) => zip.write_all(text.as_bytes())?,
        }
    }
    zip.finish()
}

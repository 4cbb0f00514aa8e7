//! `OutputFile`: what every renderer returns, and where files go that are written piece by piece.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFile {
    /// Where, relative to the output folder; never absolute, never with `..`.
    pub path: PathBuf,
    /// All of it.
    pub bytes: Vec<u8>,
}

impl OutputFile {
    /// The file `path` with these bytes.
    pub fn new(path: impl Into<PathBuf>, mut bytes: Vec<u8>) -> Self {
        // It is kept until all are written, so it takes no more room than it must.
        bytes.shrink_to_fit();
        Self { path: path.into(), bytes }
    }
}

/// Who takes files as they are made.
pub trait Taker {
    /// Takes a finished file.
    fn put(&mut self, file: OutputFile);

    /// Takes a file that may be large, in pieces. If a piece can't be taken, the file may be made a second time.
    fn write(&mut self, path: &Path, make: &dyn Fn(&mut Pieces<'_>) -> io::Result<()>);
}

impl Taker for Vec<OutputFile> {
    fn put(&mut self, file: OutputFile) {
        self.push(file);
    }

    fn write(&mut self, path: &Path, make: &dyn Fn(&mut Pieces<'_>) -> io::Result<()>) {
        self.put(OutputFile::new(path, in_memory(make)));
    }
}

/// All of a file that is made in pieces; nothing if it can't be made.
pub fn in_memory(make: &dyn Fn(&mut Pieces<'_>) -> io::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut take = |piece: &[u8]| {
        bytes.extend_from_slice(piece);
        Ok(())
    };
    let mut pieces = Pieces::new(&mut take);
    // Memory takes everything.
    let made = make(&mut pieces);
    let rest = pieces.rest();
    bytes.extend(rest);
    if made.is_ok() { bytes } else { Vec::new() }
}

/// A file in the making, of which a piece is passed on whenever one is full: what is written is small, and soon out of
/// the way.
pub struct Pieces<'a> {
    piece: Vec<u8>,
    take: &'a mut dyn FnMut(&[u8]) -> io::Result<()>,
}

/// What is passed on at once, in bytes.
const PIECE: usize = 1 << 16;

impl<'a> Pieces<'a> {
    /// Nothing yet.
    pub fn new(take: &'a mut dyn FnMut(&[u8]) -> io::Result<()>) -> Self {
        Self { piece: Vec::new(), take }
    }

    /// What was not passed on yet.
    pub fn rest(self) -> Vec<u8> {
        self.piece
    }

    #[cold]
    fn pass_on(&mut self) -> io::Result<()> {
        (self.take)(&self.piece)?;
        self.piece.clear();
        Ok(())
    }
}

impl std::fmt::Debug for Pieces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces").field("piece", &self.piece.len()).finish_non_exhaustive()
    }
}

impl Write for Pieces<'_> {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes)?;
        Ok(bytes.len())
    }

    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() < PIECE { Ok(()) } else { self.pass_on() }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_make_up_the_whole() {
        let line = |i: usize| format!("line {i}\n").into_bytes();
        let make = |pieces: &mut Pieces<'_>| (0..20_000).try_for_each(|i| pieces.write_all(&line(i)));
        let whole: Vec<u8> = (0..20_000).flat_map(line).collect();
        let mut lens = Vec::new();
        let mut taken = Vec::new();
        let mut take = |piece: &[u8]| {
            lens.push(piece.len());
            taken.extend_from_slice(piece);
            Ok(())
        };
        let mut pieces = Pieces::new(&mut take);
        make(&mut pieces).unwrap();
        let rest = pieces.rest();
        assert!(!rest.is_empty() && rest.len() < PIECE);
        taken.extend(rest);
        assert!(lens.len() > 1 && lens.iter().all(|len| (PIECE..PIECE + 16).contains(len)), "{lens:?}");
        assert!(taken == whole && in_memory(&make) == whole);
    }

    #[test]
    fn what_cannot_be_taken_is_told() {
        let mut take = |_: &[u8]| Err(io::ErrorKind::StorageFull.into());
        let mut pieces = Pieces::new(&mut take);
        pieces.write_all(&vec![0; PIECE - 1]).unwrap();
        assert_eq!(pieces.write_all(&[0]).unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}

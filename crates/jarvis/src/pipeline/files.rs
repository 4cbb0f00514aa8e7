//! Finished files. Whoever writes them may put each away as it is made: they would be most of what an analysis holds in
//! the end.

use std::borrow::Cow;
use std::fmt::Debug;
use std::fs::File;
use std::io::{self, BufWriter, Cursor, IntoInnerError, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jarvis_report::{Checksum, OutputFile, Pieces, RunningChecksum, Taker, in_memory};
use jarvis_trace::InOrder as _;

/// A smaller file stays in memory even if it was put away: it may be read again.
const WORTH_IT: usize = 16 << 10;

/// Where finished files are put away.
pub trait Shelf: Debug + Send + Sync {
    /// Puts a file away and tells where it lies. If it can't, the file stays in memory, and why is told when it is
    /// written from there.
    fn put_away(&self, path: &Path, bytes: &[u8]) -> Option<PathBuf>;

    /// Begins a file that is put away as it is made, and tells where it lies. If it can't, the file is made in memory.
    fn begin(&self, path: &Path) -> Option<(PathBuf, File)>;
}

/// A file in the making: see [`Files::begin`].
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    out: Out,
}

#[derive(Debug)]
enum Out {
    /// And where it lies.
    Away(BufWriter<Summed>, PathBuf),
    Memory(Cursor<Vec<u8>>),
}

/// A file whose checksum is made of the bytes as they pass.
#[derive(Debug)]
struct Summed {
    file: File,
    /// Of the bytes so far; `None` once the writer went back to change some.
    sum: Option<Box<RunningChecksum>>,
    /// How many bytes passed.
    len: u64,
}

impl Summed {
    fn new(file: File) -> Self {
        Self { file, sum: Some(Box::default()), len: 0 }
    }

    /// The checksum of the finished file, which lies at `path`. It is read again only if parts were changed: as a rule
    /// that is the workbook alone, and the system still has it in memory.
    fn finish(self, path: &Path) -> io::Result<Checksum> {
        self.sum.map_or_else(|| sum_of(File::open(path)?), |sum| Ok(sum.sum()))
    }
}

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        if let Some(sum) = &mut self.sum {
            sum.add(&bytes[..count]);
            self.len += count as u64;
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Seek for Summed {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        let at = self.file.seek(place)?;
        if at != self.len {
            self.sum = None;
        }
        Ok(at)
    }
}

/// The checksum of a file, read piece by piece.
fn sum_of(mut file: impl Read) -> io::Result<Checksum> {
    let mut sum = RunningChecksum::default();
    let mut piece = vec![0; 256 << 10];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(sum.sum()),
            count => sum.add(&piece[..count]),
        }
    }
}

impl Write for OpenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Away(file, _) => file.write(bytes),
            Out::Memory(memory) => memory.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Away(file, _) => file.flush(),
            Out::Memory(_) => Ok(()),
        }
    }
}

impl Seek for OpenFile {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        match &mut self.out {
            Out::Away(file, _) => file.seek(place),
            Out::Memory(memory) => memory.seek(place),
        }
    }
}

/// Finished files, in the order in which they came.
#[derive(Debug, Default)]
pub struct Files {
    shelf: Option<Arc<dyn Shelf>>,
    list: Vec<(PathBuf, Place)>,
}

#[derive(Debug)]
struct Place {
    len: usize,
    checksum: Checksum,
    /// Nothing if it was put away and is large.
    bytes: Option<Vec<u8>>,
    /// Where it was put away.
    away: Option<PathBuf>,
}

impl Place {
    fn memory(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len(), checksum: Checksum::of(&bytes), bytes: Some(bytes), away: None }
    }

    fn read(&self) -> io::Result<Cow<'_, [u8]>> {
        match (&self.bytes, &self.away) {
            (Some(bytes), _) => Ok(Cow::Borrowed(bytes)),
            (None, Some(path)) => std::fs::read(path).map(Cow::Owned),
            (None, None) => Ok(Cow::Borrowed(&[])),
        }
    }
}

/// Files in memory.
impl From<Vec<OutputFile>> for Files {
    fn from(files: Vec<OutputFile>) -> Self {
        let list = files.into_iter().map(|file| (file.path, Place::memory(file.bytes))).collect();
        Self { shelf: None, list }
    }
}

/// One of the files.
#[derive(Debug, Clone, Copy)]
pub struct FileRef<'a> {
    /// Path relative to the output folder.
    pub path: &'a Path,
    place: &'a Place,
}

impl<'a> FileRef<'a> {
    /// Its bytes: how many.
    pub fn len(&self) -> usize {
        self.place.len
    }

    /// Their checksum.
    pub fn checksum(&self) -> Checksum {
        self.place.checksum
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes.
    pub fn read(&self) -> io::Result<Cow<'a, [u8]>> {
        self.place.read()
    }

    /// Where it was put away.
    pub fn away(&self) -> Option<&'a Path> {
        self.place.away.as_deref()
    }
}

impl Files {
    /// No files yet; they are put on this shelf.
    pub fn on(shelf: Arc<dyn Shelf>) -> Self {
        Self { shelf: Some(shelf), list: Vec::new() }
    }

    /// No files yet, for the same shelf.
    pub(super) fn more(&self) -> Self {
        Self { shelf: self.shelf.clone(), list: Vec::new() }
    }

    /// Adds a file.
    pub fn put(&mut self, file: OutputFile) {
        let OutputFile { path, bytes } = file;
        let away = self.shelf.as_ref().and_then(|shelf| shelf.put_away(&path, &bytes));
        let (len, checksum) = (bytes.len(), Checksum::of(&bytes));
        let bytes = (away.is_none() || len < WORTH_IT).then_some(bytes);
        self.list.push((path, Place { len, checksum, bytes, away }));
    }

    /// Begins a file that is written piece by piece. It is one of these when it [has ended](Self::end).
    pub(super) fn begin(&self, path: &Path) -> OpenFile {
        let begun = self.shelf.as_ref().and_then(|shelf| shelf.begin(path));
        let memory = || Out::Memory(Cursor::default());
        let out = begun.map_or_else(memory, |(place, file)| Out::Away(BufWriter::new(Summed::new(file)), place));
        OpenFile { path: path.to_path_buf(), out }
    }

    /// Adds a file that was written piece by piece.
    pub(super) fn end(&mut self, mut file: OpenFile) -> io::Result<()> {
        file.flush()?;
        let OpenFile { path, out } = file;
        match out {
            Out::Away(mut file, place) => {
                let len = file.seek(SeekFrom::End(0))? as usize;
                let checksum = file.into_inner().map_err(IntoInnerError::into_error)?.finish(&place)?;
                self.list.push((path, Place { len, checksum, bytes: None, away: Some(place) }));
            }
            Out::Memory(memory) => self.put(OutputFile::new(path, memory.into_inner())),
        }
        Ok(())
    }

    pub(super) fn put_all(&mut self, files: impl IntoIterator<Item = OutputFile>) {
        for file in files {
            self.put(file);
        }
    }

    /// Adds files that somebody else has made.
    pub(super) fn append(&mut self, others: Self) {
        self.list.extend(others.list);
    }

    /// Puts them in the order of their paths, whoever made which first.
    pub(super) fn sort(&mut self) {
        self.list.order_by(|(a, _), (b, _)| a.cmp(b));
    }

    /// Their paths, relative to the output folder.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.list.iter().map(|(path, _)| path.as_path())
    }

    /// All of them.
    pub fn each(&self) -> impl Iterator<Item = FileRef<'_>> {
        self.list.iter().map(|(path, place)| FileRef { path, place })
    }

    /// The file of this path with its bytes.
    pub fn find(&self, path: &Path) -> Option<io::Result<Cow<'_, [u8]>>> {
        self.list.iter().find(|(p, _)| p == path).map(|(_, place)| place.read())
    }

    /// All files with their bytes.
    pub fn to_vec(&self) -> io::Result<Vec<OutputFile>> {
        let owned = |file: FileRef<'_>| Ok(OutputFile::new(file.path, file.read()?.into_owned()));
        self.each().map(owned).collect()
    }
}

impl Taker for Files {
    fn put(&mut self, file: OutputFile) {
        self.put(file);
    }

    /// A file of less than a piece is put as a whole. If pieces can't be put away, the file stays in memory.
    fn write(&mut self, path: &Path, make: &dyn Fn(&mut Pieces<'_>) -> io::Result<()>) {
        let mut open: Option<OpenFile> = None;
        let mut take = |piece: &[u8]| open.get_or_insert_with(|| self.begin(path)).write_all(piece);
        let mut pieces = Pieces::new(&mut take);
        let made = make(&mut pieces);
        let rest = pieces.rest();
        let Some(mut open) = open else {
            return self.put(OutputFile::new(path, if made.is_ok() { rest } else { Vec::new() }));
        };
        if made.and_then(|()| open.write_all(&rest)).and_then(|()| self.end(open)).is_err() {
            self.put(OutputFile::new(path, in_memory(make)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, byte: u8, len: usize) -> OutputFile {
        OutputFile::new(name, vec![byte; len])
    }

    /// Takes files of all names but `b`, and of `full` not a byte.
    #[derive(Debug)]
    struct Folder(tempfile::TempDir);

    impl Shelf for Folder {
        fn put_away(&self, path: &Path, bytes: &[u8]) -> Option<PathBuf> {
            let place = self.0.path().join(path.file_name()?);
            std::fs::write(&place, bytes).ok()?;
            (path != Path::new("b") && (path != Path::new("full") || bytes.is_empty())).then_some(place)
        }

        fn begin(&self, path: &Path) -> Option<(PathBuf, File)> {
            let place = self.put_away(path, &[])?;
            let full = path == Path::new("full");
            let file = if full { File::open(&place) } else { File::create(&place) };
            Some((place, file.ok()?))
        }
    }

    #[test]
    fn files_come_back_as_they_were() {
        let all =
            [file("a", 1, WORTH_IT), file("b", 2, 2 * WORTH_IT), file("dir/c", 3, 13 * WORTH_IT + 1), file("d", 4, 0)];
        let mut files = Files::on(Arc::new(Folder(tempfile::tempdir().unwrap())));
        files.put_all(all.clone());
        let in_memory = files.list.iter().map(|(_, place)| place.bytes.is_some());
        assert!(in_memory.eq([false, true, false, true]));
        assert!(files.each().map(|f| f.away().is_some()).eq([true, false, true, true]));
        assert!(files.paths().eq(all.iter().map(|f| f.path.as_path())));
        for (found, file) in files.each().zip(&all) {
            assert_eq!((found.path, found.len()), (file.path.as_path(), file.bytes.len()));
            assert_eq!(*found.read().unwrap(), *file.bytes);
            assert_eq!(found.checksum(), Checksum::of(&file.bytes));
        }
        let mut more = files.more();
        more.put(file("e", 5, 3 * WORTH_IT));
        assert!(more.list[0].1.bytes.is_none());
        let mut both = Files::from(all.to_vec());
        both.append(files);
        assert_eq!(both.to_vec().unwrap(), [all.clone(), all].concat());
    }

    #[test]
    fn files_written_piece_by_piece_come_back_too() {
        let mut files = Files::on(Arc::new(Folder(tempfile::tempdir().unwrap())));
        // The second one can't be put away.
        for name in ["a", "b"] {
            let mut open = files.begin(Path::new(name));
            for piece in ["..piece", " by ", "piece"] {
                open.write_all(piece.as_bytes()).unwrap();
            }
            open.seek(SeekFrom::Start(0)).unwrap();
            open.write_all(b"my ").unwrap();
            files.end(open).unwrap();
        }
        assert!(files.each().map(|f| f.away().is_some()).eq([true, false]));
        for file in files.each() {
            assert_eq!((file.len(), &*file.read().unwrap()), (16, &b"my iece by piece"[..]));
            assert_eq!(file.checksum(), Checksum::of(b"my iece by piece"));
        }
    }

    #[test]
    fn files_made_in_pieces_come_back_wherever_they_lie() {
        let line = |i: u32| format!("{i}\n").into_bytes();
        let lines = |count: u32| move |out: &mut Pieces<'_>| (0..count).try_for_each(|i| out.write_all(&line(i)));
        let mut files = Files::on(Arc::new(Folder(tempfile::tempdir().unwrap())));
        for (name, count) in [("a", 100_000), ("b", 100_000), ("c", 10), ("full", 100_000)] {
            files.write(Path::new(name), &lines(count));
        }
        let expected = |count: u32| (0..count).flat_map(line).collect::<Vec<_>>();
        for (file, count) in files.each().zip([100_000, 100_000, 10, 100_000]) {
            assert!(*file.read().unwrap() == expected(count) && file.len() == expected(count).len(), "{:?}", file.path);
            assert_eq!(file.checksum(), Checksum::of(&expected(count)));
        }
        assert!(files.each().map(|f| f.away().is_some()).eq([true, false, true, false]));
        assert!(files.list.iter().map(|(_, place)| place.bytes.is_some()).eq([false, true, true, true]));
    }
}

//! Finished files wait on disk until all are there: they would be most of what an analysis holds by then.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jarvis_report::OutputFile;
use jarvis_trace::InOrder as _;

/// A smaller file stays in memory.
const WORTH_IT: usize = 16 << 10;

/// Finished files, in the order in which they came.
#[derive(Debug, Default)]
pub struct Files {
    /// A file without a name in the system's folder for such, made when it is needed. Where it can't be made or is full,
    /// files stay in memory.
    store: Option<Arc<File>>,
    /// How much of it is in use.
    end: u64,
    list: Vec<(PathBuf, Place)>,
}

#[derive(Debug)]
enum Place {
    Memory(Vec<u8>),
    Store { store: Arc<File>, at: u64, len: usize },
}

/// Files in memory.
impl From<Vec<OutputFile>> for Files {
    fn from(files: Vec<OutputFile>) -> Self {
        let list = files.into_iter().map(|file| (file.path, Place::Memory(file.bytes))).collect();
        Self { list, ..Self::default() }
    }
}

impl Place {
    fn len(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.len(),
            Self::Store { len, .. } => *len,
        }
    }

    fn read(&self) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Memory(bytes) => Ok(Cow::Borrowed(bytes)),
            Self::Store { store, at, len } => {
                let mut bytes = vec![0; *len];
                system::read_at(store, &mut bytes, *at)?;
                Ok(Cow::Owned(bytes))
            }
        }
    }

    /// Copies the file piece by piece.
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        const PIECE: usize = 64 << 10;
        match self {
            Self::Memory(bytes) => out.write_all(bytes),
            Self::Store { store, at, len } => {
                let mut piece = vec![0; PIECE.min(*len)];
                for from in (0..*len).step_by(PIECE) {
                    let piece = &mut piece[..PIECE.min(len - from)];
                    system::read_at(store, piece, at + from as u64)?;
                    out.write_all(piece)?;
                }
                Ok(())
            }
        }
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
        self.place.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its bytes.
    pub fn read(&self) -> io::Result<Cow<'a, [u8]>> {
        self.place.read()
    }

    /// Writes it to another file, without taking the memory that all its bytes would.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        self.place.write(out)
    }
}

impl Files {
    /// Adds a file.
    pub fn put(&mut self, file: OutputFile) {
        let OutputFile { path, bytes } = file;
        let place = self.stored(&bytes).unwrap_or(Place::Memory(bytes));
        self.list.push((path, place));
    }

    pub(super) fn put_all(&mut self, files: impl IntoIterator<Item = OutputFile>) {
        for file in files {
            self.put(file);
        }
    }

    /// Adds files that were kept elsewhere.
    pub(super) fn append(&mut self, others: Self) {
        self.list.extend(others.list);
    }

    /// Puts them in the order of their paths, whoever made which first.
    pub(super) fn sort(&mut self) {
        self.list.order_by(|(a, _), (b, _)| a.cmp(b));
    }

    /// Where the bytes are in the store; `None` if they are not.
    fn stored(&mut self, bytes: &[u8]) -> Option<Place> {
        if bytes.len() < WORTH_IT || !cfg!(unix) {
            return None;
        }
        if self.store.is_none() {
            self.store = tempfile::tempfile().ok().map(Arc::new);
        }
        let (store, at) = (Arc::clone(self.store.as_ref()?), self.end);
        system::write_at(&store, bytes, at).ok()?;
        self.end += bytes.len() as u64;
        Some(Place::Store { store, at, len: bytes.len() })
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

#[cfg(unix)]
mod system {
    use std::fs::File;
    use std::io;
    use std::os::unix::fs::FileExt as _;

    pub(super) fn write_at(store: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        store.write_all_at(bytes, at)
    }

    pub(super) fn read_at(store: &File, bytes: &mut [u8], at: u64) -> io::Result<()> {
        store.read_exact_at(bytes, at)
    }
}

/// Nothing is stored where files can't be read at a place.
#[cfg(not(unix))]
mod system {
    use std::fs::File;
    use std::io;

    pub(super) fn write_at(_store: &File, _bytes: &[u8], _at: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn read_at(_store: &File, _bytes: &mut [u8], _at: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, byte: u8, len: usize) -> OutputFile {
        OutputFile::new(name, vec![byte; len])
    }

    #[test]
    fn files_come_back_as_they_were() {
        let all = [file("a", 1, WORTH_IT), file("b", 2, 3), file("dir/c", 3, 13 * WORTH_IT + 1), file("d", 4, 0)];
        let mut files = Files::default();
        files.put_all(all.clone());
        let is_stored = |(_, place): &(PathBuf, Place)| matches!(place, Place::Store { .. });
        assert_eq!(files.list.iter().map(is_stored).collect::<Vec<_>>(), [cfg!(unix), false, cfg!(unix), false]);
        assert!(files.paths().eq(all.iter().map(|f| f.path.as_path())));
        for (found, file) in files.each().zip(&all) {
            assert_eq!((found.path, found.len()), (file.path.as_path(), file.bytes.len()));
            assert_eq!(*found.read().unwrap(), *file.bytes);
            let mut written = Vec::new();
            found.write(&mut written).unwrap();
            assert_eq!(written, file.bytes);
        }
        let mut both = Files::from(all.to_vec());
        both.append(files);
        assert_eq!(both.to_vec().unwrap(), [all.clone(), all].concat());
    }

    #[cfg(unix)]
    #[test]
    fn a_store_that_can_not_be_written_to_is_none() {
        let named = tempfile::NamedTempFile::new().unwrap();
        let mut files = Files { store: Some(Arc::new(File::open(named.path()).unwrap())), ..Files::default() };
        let all = [file("a", 1, WORTH_IT), file("b", 2, WORTH_IT)];
        files.put_all(all.clone());
        assert_eq!(files.to_vec().unwrap(), all);
    }
}

//! Writes output files, all of them or none.
//!
//! Every file is first written whole under a temporary name in its own folder, by [`Staging`] as soon as it is made or
//! by its [`Batch`]; when all are there, they are renamed. A reader therefore never sees half a file. If anything fails, what was replaced so far is put back and the temporaries
//! go, as do folders made on the way; [`abandon`] does the same when the program is told to stop. Folders are locked
//! while files get their names, so that of two runs into one folder the second waits, and what is there in the end is of one run alone.
//! Files are not synced to disk: the trace is still there to run on again.

mod lock;
mod undo;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use jarvis_report::{Checksum, OutputFile};

use crate::pipeline::Shelf;
use lock::Locks;
use undo::Undo;
pub use undo::abandon;

/// A temporary file that was not written to for so long is nobody's.
const ABANDONED: Duration = Duration::from_hours(24);

/// Tells the temporary names of one process apart.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Why the output could not be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A folder can't be made or written to.
    #[error("{}: the folder can't be written to: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A file can't be written.
    #[error("{}: the file can't be written: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// Where a file is to go there is a folder.
    #[error("{}: there is a folder of this name", path.display())]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Where a file is to go there is something else: it would be lost, or swallow what is written.
    #[error("{}: this is a device, a pipe or a socket and no file", path.display())]
    NoFile {
        /// What is there.
        path: PathBuf,
    },
    /// Two files would have one name.
    #[error("{}: two outputs would go to this path", path.display())]
    Twice {
        /// Where.
        path: PathBuf,
    },
    /// A link on the way leads nowhere.
    #[error("{}: this link points to nothing", path.display())]
    DeadLink {
        /// The link.
        path: PathBuf,
    },
    /// The file is one that the results are made of.
    #[error("{}: this file was read, and would be overwritten", path.display())]
    IsInput {
        /// The file.
        path: PathBuf,
    },
    /// Another run writes there and does not come to an end.
    #[error("{}: another run of jarvis is writing to this folder", path.display())]
    Busy {
        /// The folder.
        path: PathBuf,
    },
    /// A file would be written outside its folder.
    #[error("{}: not a path inside the output folder", path.display())]
    Outside {
        /// The path.
        path: PathBuf,
    },
}

impl OutputError {
    /// What to do next.
    pub fn help(&self) -> &'static str {
        let error = match self {
            Self::Folder { error, .. } | Self::File { error, .. } => error,
            Self::IsFolder { .. } => return "move it away, or choose another place with -o DIR",
            Self::NoFile { .. } => return "name a file; what is not wanted can be left out, see --help",
            Self::DeadLink { .. } => return "make what it points to, remove it, or choose another place",
            Self::Twice { .. } => return "name another path for one of them",
            Self::IsInput { .. } => return "choose another place with -o",
            Self::Busy { .. } => return "wait for it to end, or choose another folder with -o DIR",
            Self::Outside { .. } => return "this is a fault of jarvis: please report it",
        };
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room, or choose a folder on another disk with -o DIR"
            }
            io::ErrorKind::FileTooLarge => {
                "allow larger files (ulimit -f), or choose a folder on another disk with -o DIR"
            }
            io::ErrorKind::InvalidFilename => "choose a shorter path with -o DIR",
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                "a part of this path is a file: choose another folder with -o DIR"
            }
            _ => "choose a folder you may write to with -o DIR",
        }
    }
}

/// A file that an earlier run says it wrote.
#[derive(Debug)]
pub struct Earlier {
    /// Relative to the folder.
    pub path: PathBuf,
    /// Its size and checksum as they were then.
    pub seal: Option<(u64, String)>,
}

/// Tells which files an earlier run left in a folder.
type Listing = fn(&Path) -> Vec<Earlier>;

/// The bytes of a file, or where they lie under a temporary name already.
enum Contents<'a> {
    Bytes(Cow<'a, [u8]>),
    Staged(PathBuf),
}

/// A file to be written.
struct Planned<'a> {
    /// Where the user looks for it.
    path: PathBuf,
    /// Where it goes: the same, or where a link of that name points to.
    place: PathBuf,
    contents: Contents<'a>,
}

/// A set of files to be written together.
#[derive(Default)]
pub struct Batch<'a> {
    files: Vec<Planned<'a>>,
    roots: BTreeSet<PathBuf>,
    replaces: Option<(PathBuf, Listing)>,
    /// Files that must stay as they are, by their true paths.
    inputs: Vec<PathBuf>,
    /// What was done for it before it was put together.
    undo: Option<Arc<Undo>>,
}

impl<'a> Batch<'a> {
    /// For files of which some are written already.
    pub fn on(staging: &Staging) -> Self {
        Self { undo: Some(Arc::clone(&staging.undo)), ..Self::default() }
    }

    /// Adds a file to be written below `root`.
    pub fn add(&mut self, root: &Path, file: OutputFile) -> Result<(), OutputError> {
        self.add_bytes(root, &file.path, file.bytes)
    }

    /// The same with bytes that may be somebody else's.
    pub fn add_bytes(&mut self, root: &Path, path: &Path, bytes: impl Into<Cow<'a, [u8]>>) -> Result<(), OutputError> {
        self.add_below(root, path, Contents::Bytes(bytes.into()))
    }

    /// The same for a file that the [`Staging`] of this batch has written under a temporary name.
    pub fn add_staged(&mut self, root: &Path, path: &Path, temporary: &Path) -> Result<(), OutputError> {
        self.add_below(root, path, Contents::Staged(temporary.to_path_buf()))
    }

    fn add_below(&mut self, root: &Path, path: &Path, contents: Contents<'a>) -> Result<(), OutputError> {
        if !is_inside(path) {
            return Err(OutputError::Outside { path: path.to_path_buf() });
        }
        // A link of this name is replaced: results stay in the folder that they were asked to go to.
        let path = root.join(path);
        self.files.push(Planned { place: path.clone(), path, contents });
        self.roots.insert(root.to_path_buf());
        Ok(())
    }

    /// Adds a file with its full path, as the user gave it: where that is a link, what it points to is replaced.
    pub fn add_at(&mut self, path: PathBuf, bytes: Vec<u8>) -> Result<(), OutputError> {
        let place = place_of(&path)?;
        self.roots.insert(folder_of(&place).to_path_buf());
        self.files.push(Planned { path, place, contents: Contents::Bytes(bytes.into()) });
        Ok(())
    }

    /// Files that `earlier` lists are removed from the folder if this batch does not write them, and folders that are
    /// empty then. A list is no proof: what lies elsewhere, or is not what was written then, is left alone.
    pub fn replaces(&mut self, root: &Path, earlier: Listing) {
        self.replaces = Some((root.to_path_buf(), earlier));
    }

    /// Files that were read: if one of them would be overwritten, nothing is written.
    pub fn spares<'p>(&mut self, inputs: impl IntoIterator<Item = &'p Path>) {
        // What has no true path is not there, or is a stream.
        self.inputs.extend(inputs.into_iter().filter_map(|path| path.canonicalize().ok()));
    }

    fn is_input(&self, path: &Path) -> bool {
        // To find a true path takes the system a question for each part of it, and most files are new.
        let is_there = !self.inputs.is_empty() && path.exists();
        is_there && path.canonicalize().is_ok_and(|path| self.inputs.contains(&path))
    }

    /// Where the files go.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|file| file.path.as_path())
    }

    /// Writes all files, or none. Tells which files of an earlier run stay, because they have changed since.
    pub fn write(self) -> Result<Vec<PathBuf>, OutputError> {
        self.stage()?.publish()
    }

    /// Writes every file under a temporary name.
    fn stage(mut self) -> Result<Staged<'a>, OutputError> {
        let undo = self.undo.take().unwrap_or_else(|| Arc::new(Undo::begin()));
        if let Some(path) = self.paths().find(|path| self.is_input(path)) {
            return Err(OutputError::IsInput { path: path.to_path_buf() });
        }
        let mut places = BTreeSet::new();
        if let Some(twice) = self.files.iter().find(|file| !places.insert(file.place.as_path())) {
            return Err(OutputError::Twice { path: twice.path.clone() });
        }
        let locks = Locks::take(&self.roots, &undo)?;
        self.sweep(ABANDONED);
        let earlier = self.replaces.as_ref().map_or_else(Vec::new, |(root, earlier)| earlier(root));
        let mut temporaries = Vec::with_capacity(self.files.len());
        for file in &self.files {
            temporaries.push(match &file.contents {
                Contents::Bytes(bytes) => stage(&file.place, bytes, &undo)?,
                Contents::Staged(temporary) => temporary.clone(),
            });
        }
        Ok(Staged { batch: self, earlier, temporaries, undo, _locks: locks })
    }

    /// Removes files of temporary names that nobody has written to for so long: of a run that was killed.
    fn sweep(&self, since: Duration) {
        let folders: BTreeSet<&Path> = self.files.iter().map(|file| folder_of(&file.place)).collect();
        let is_left = |entry: &fs::DirEntry| {
            let name = entry.file_name();
            let is_ours = name.to_str().and_then(|name| name.strip_prefix(".jarvis-")?.strip_suffix(".tmp")).is_some();
            let written = || entry.metadata().and_then(|about| about.modified()).ok();
            is_ours && written().and_then(|at| at.elapsed().ok()).is_some_and(|age| age >= since)
        };
        for entry in folders.into_iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten() {
            if is_left(&entry) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Removes what an earlier run wrote and this one does not, and tells what is there but not as it was written. What
    /// can't be removed stays: an old file does no harm that a failed run would not.
    fn retire(&self, earlier: &[Earlier], undo: &Undo) -> Vec<PathBuf> {
        let Some((root, _)) = &self.replaces else { return Vec::new() };
        let ours: BTreeSet<&Path> = self.paths().collect();
        let mut changed = Vec::new();
        for file in earlier.iter().filter(|file| lies_in(root, &file.path)) {
            let path = root.join(&file.path);
            if ours.contains(path.as_path()) || self.is_input(&path) {
                continue;
            }
            if file.is_unchanged(&path) {
                undo.retire(&path, root);
            } else {
                changed.push(path);
            }
        }
        changed
    }
}

impl Earlier {
    /// Whether what lies at `path` is still what was written.
    fn is_unchanged(&self, path: &Path) -> bool {
        let Some((bytes, checksum)) = &self.seal else { return false };
        // Of another size it need not be read.
        path.metadata().is_ok_and(|about| about.len() == *bytes)
            && fs::read(path).is_ok_and(|bytes| Checksum::of(&bytes).to_string() == *checksum)
    }
}

/// Whether there is a file of this name in the folder itself, and not where a link leads.
fn lies_in(root: &Path, name: &Path) -> bool {
    let is = |path: &Path, wanted: fn(&fs::FileType) -> bool| {
        fs::symlink_metadata(root.join(path)).is_ok_and(|about| wanted(&about.file_type()))
    };
    let mut folders = name.ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty());
    is_inside(name) && is(name, fs::FileType::is_file) && folders.all(|folder| is(folder, fs::FileType::is_dir))
}

/// Whether a relative path stays inside the folder it is relative to.
fn is_inside(path: &Path) -> bool {
    !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// Writes a file under a temporary name, which is told.
fn stage(path: &Path, bytes: &[u8], undo: &Undo) -> Result<PathBuf, OutputError> {
    let (temporary, mut file) = begin_stage(path, undo)?;
    file.write_all(bytes).map_err(|error| OutputError::File { path: path.to_path_buf(), error })?;
    Ok(temporary)
}

/// Makes an empty file under a temporary name.
fn begin_stage(path: &Path, undo: &Undo) -> Result<(PathBuf, File), OutputError> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() || about.is_symlink() && path.is_dir() => {
            return Err(OutputError::IsFolder { path: path.to_path_buf() });
        }
        Ok(about) if !about.is_file() && !about.is_symlink() => {
            return Err(OutputError::NoFile { path: path.to_path_buf() });
        }
        _ => {}
    }
    undo.make_folders(folder_of(path))?;
    undo.create_beside(path).map_err(|error| OutputError::File { path: path.to_path_buf(), error })
}

/// Writes files of a batch to come under temporary names. They go with the last of it and of the batch, if that has not
/// been written by then.
#[derive(Debug)]
pub struct Staging {
    root: PathBuf,
    undo: Arc<Undo>,
}

impl Staging {
    /// For files below `root`.
    pub fn begin(root: &Path) -> Self {
        Self { root: root.to_path_buf(), undo: Arc::new(Undo::begin()) }
    }
}

impl Shelf for Staging {
    fn put_away(&self, path: &Path, bytes: &[u8]) -> Option<PathBuf> {
        if is_inside(path) { stage(&self.root.join(path), bytes, &self.undo).ok() } else { None }
    }

    fn begin(&self, path: &Path) -> Option<(PathBuf, File)> {
        if is_inside(path) { begin_stage(&self.root.join(path), &self.undo).ok() } else { None }
    }
}

/// Files that are written but do not have their names yet. They go if they are not published.
struct Staged<'a> {
    batch: Batch<'a>,
    /// What an earlier run wrote.
    earlier: Vec<Earlier>,
    /// Where each file of the batch is.
    temporaries: Vec<PathBuf>,
    undo: Arc<Undo>,
    /// Given up last.
    _locks: Locks,
}

impl Staged<'_> {
    /// Gives every file its name, or none.
    fn publish(self) -> Result<Vec<PathBuf>, OutputError> {
        let changed = self.name_all()?;
        self.undo.forget();
        Ok(changed)
    }

    fn name_all(&self) -> Result<Vec<PathBuf>, OutputError> {
        for (temporary, file) in self.temporaries.iter().zip(&self.batch.files) {
            let named = self.undo.publish(temporary, &file.place);
            named.map_err(|error| OutputError::File { path: file.path.clone(), error })?;
        }
        Ok(self.batch.retire(&self.earlier, &self.undo))
    }
}

/// The folder a path lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Where a file goes that the user gave this path: there, or where a link of that name points to.
fn place_of(path: &Path) -> Result<PathBuf, OutputError> {
    let is_link = fs::symlink_metadata(path).is_ok_and(|about| about.is_symlink());
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => Err(OutputError::IsFolder { path: path.to_path_buf() }),
        Ok(about) if !about.is_file() => Err(OutputError::NoFile { path: path.to_path_buf() }),
        Ok(_) if is_link => path.canonicalize().map_err(|error| OutputError::File { path: path.to_path_buf(), error }),
        Err(_) if is_link => Err(OutputError::DeadLink { path: path.to_path_buf() }),
        _ => Ok(path.to_path_buf()),
    }
}

/// Whether two paths are of one place, be there something or not.
pub fn is_one_place(a: &Path, b: &Path) -> bool {
    let of_folder = |path: &Path| Some(folder_of(path).canonicalize().ok()?.join(path.file_name()?));
    let place = |path: &Path| {
        let there = path.canonicalize().ok().or_else(|| of_folder(path));
        there.or_else(|| std::path::absolute(path).ok()).unwrap_or_else(|| path.to_path_buf())
    };
    place(a) == place(b)
}

/// A new file beside `path`, under a name that nobody else uses.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    loop {
        let name = temporary_name(path);
        match File::create_new(&name) {
            // Left over from a process that had our number before.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (name, file)),
        }
    }
}

/// A name beside `path`. It has nothing of the path's own name, which may be as long as names can be.
fn temporary_name(path: &Path) -> PathBuf {
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    folder_of(path).join(format!(".jarvis-{}-{number}.tmp", std::process::id()))
}

/// Whether a file can be written to the path that the user gave, told before the work is done.
pub fn probe_file(path: &Path) -> Result<(), OutputError> {
    probe(folder_of(&place_of(path)?))
}

/// Whether files can be written into `folder`, told before the work is done. Makes nothing that stays.
pub fn probe(folder: &Path) -> Result<(), OutputError> {
    let failed = |path: &Path, error| OutputError::Folder { path: path.to_path_buf(), error };
    let missing = folder.ancestors().take_while(|f| !f.exists());
    if let Some(link) = missing.filter(|f| f.is_symlink()).last() {
        return Err(OutputError::DeadLink { path: link.to_path_buf() });
    }
    let existing = folder.ancestors().find(|f| f.exists()).filter(|f| !f.as_os_str().is_empty());
    let existing = existing.unwrap_or(Path::new("."));
    if !existing.is_dir() {
        return Err(failed(folder, io::Error::from(io::ErrorKind::NotADirectory)));
    }
    let undo = Undo::begin();
    let (name, _) = undo.create_beside(&existing.join("probe")).map_err(|error| failed(folder, error))?;
    let removed = fs::remove_file(name).map_err(|error| failed(folder, error));
    undo.forget();
    removed
}

#[cfg(test)]
mod tests;

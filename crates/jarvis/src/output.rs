//! Writes output files, all of them or none.
//!
//! Every file is first written whole under a temporary name in its own folder; when all are there, they are renamed.
//! A reader therefore never sees half a file, and two runs into one folder can't mix their bytes: each file is the
//! whole file of one of them. If anything fails, what was replaced so far is put back and the temporaries go, as do
//! folders made on the way. Files are not synced to disk: the trace is still there to run on again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jarvis_report::OutputFile;

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
            Self::Outside { .. } => return "this is a fault of jarvis: please report it",
        };
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room, or choose a folder on another disk with -o DIR"
            }
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
                "a part of this path is a file: choose another folder with -o DIR"
            }
            _ => "choose a folder you may write to with -o DIR",
        }
    }
}

/// A set of files to be written together.
#[derive(Debug, Default)]
pub struct Batch {
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Batch {
    /// Adds a file to be written below `root`.
    pub fn add(&mut self, root: &Path, file: OutputFile) -> Result<(), OutputError> {
        if !is_inside(&file.path) {
            return Err(OutputError::Outside { path: file.path });
        }
        self.files.push((root.join(file.path), file.bytes));
        Ok(())
    }

    /// Adds a file with its full path.
    pub fn add_at(&mut self, path: PathBuf, bytes: Vec<u8>) {
        self.files.push((path, bytes));
    }

    /// Where the files go.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Writes all files, or none.
    pub fn write(self) -> Result<(), OutputError> {
        let mut undo = Undo::default();
        let done = self.stage(&mut undo).and_then(|staged| publish(&staged, &mut undo));
        if done.is_err() {
            undo.roll_back();
        } else {
            undo.forget();
        }
        done
    }

    /// Writes every file under a temporary name.
    fn stage(&self, undo: &mut Undo) -> Result<Vec<Staged<'_>>, OutputError> {
        let mut staged = Vec::with_capacity(self.files.len());
        for (path, bytes) in &self.files {
            if path.is_dir() {
                return Err(OutputError::IsFolder { path: path.clone() });
            }
            make_folders(folder_of(path), undo)?;
            let failed = |error| OutputError::File { path: path.clone(), error };
            let (temporary, mut file) = create_beside(path).map_err(failed)?;
            undo.remove.push(temporary.clone());
            file.write_all(bytes).map_err(failed)?;
            staged.push(Staged { temporary, path });
        }
        Ok(staged)
    }
}

/// Removes files of an earlier run from an output folder, and folders that are empty then. Names that lead out of the
/// folder are left alone, as is what can't be removed: an old file does no harm that a failed run would not.
pub fn remove_listed(root: &Path, names: impl IntoIterator<Item = PathBuf>) {
    for name in names {
        if !is_inside(&name) {
            continue;
        }
        let path = root.join(&name);
        if fs::remove_file(&path).is_ok() {
            let folders = name.ancestors().skip(1).filter(|a| !a.as_os_str().is_empty());
            for folder in folders {
                let _ = fs::remove_dir(root.join(folder));
            }
        }
    }
}

/// Whether a relative path stays inside the folder it is relative to.
fn is_inside(path: &Path) -> bool {
    !path.as_os_str().is_empty() && path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// A file that is written but does not have its name yet.
struct Staged<'a> {
    temporary: PathBuf,
    path: &'a Path,
}

/// Gives every file its name.
fn publish(staged: &[Staged<'_>], undo: &mut Undo) -> Result<(), OutputError> {
    for Staged { temporary, path } in staged {
        let kept = keep(path);
        fs::rename(temporary, path).map_err(|error| OutputError::File { path: path.to_path_buf(), error })?;
        undo.remove.retain(|name| name != temporary);
        undo.replaced.push((path.to_path_buf(), kept));
    }
    Ok(())
}

/// A second name for the file that is about to be replaced. File systems without such names lose the old file if a
/// later one fails; its new version is whole all the same.
fn keep(path: &Path) -> Option<PathBuf> {
    let kept = temporary_name(path);
    fs::hard_link(path, &kept).ok().map(|()| kept)
}

/// What to do if something fails, and what to tidy if nothing does.
#[derive(Default)]
struct Undo {
    /// Temporary files.
    remove: Vec<PathBuf>,
    /// Files that have their name, and where the file lies that had it before.
    replaced: Vec<(PathBuf, Option<PathBuf>)>,
    /// Folders that were made, outermost first.
    folders: Vec<PathBuf>,
}

impl Undo {
    /// Puts everything back. What can't be put back stays: there is nobody to tell but in the error that led here.
    fn roll_back(self) {
        for (path, kept) in self.replaced.into_iter().rev() {
            let _ = match kept {
                Some(kept) => fs::rename(kept, path),
                None => fs::remove_file(path),
            };
        }
        for path in self.remove {
            let _ = fs::remove_file(path);
        }
        for folder in self.folders.into_iter().rev() {
            // Fails, as it should, if somebody else has put something there meanwhile.
            let _ = fs::remove_dir(folder);
        }
    }

    fn forget(self) {
        for kept in self.replaced.into_iter().filter_map(|(_, kept)| kept) {
            let _ = fs::remove_file(kept);
        }
    }
}

/// The folder a path lies in.
fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn make_folders(folder: &Path, undo: &mut Undo) -> Result<(), OutputError> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists()).collect();
    // Before they are made: some may be there when a later one fails.
    undo.folders.extend(missing.into_iter().rev().map(Path::to_path_buf));
    fs::create_dir_all(folder).map_err(|error| OutputError::Folder { path: folder.to_path_buf(), error })
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

fn temporary_name(path: &Path) -> PathBuf {
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    folder_of(path).join(format!(".{name}.{}-{number}.tmp", std::process::id()))
}

/// Whether files can be written into `folder`, told before the work is done. Makes nothing that stays.
pub fn probe(folder: &Path) -> Result<(), OutputError> {
    let failed = |path: &Path, error| OutputError::Folder { path: path.to_path_buf(), error };
    let existing = folder.ancestors().find(|f| f.exists()).filter(|f| !f.as_os_str().is_empty());
    let existing = existing.unwrap_or(Path::new("."));
    if !existing.is_dir() {
        return Err(failed(folder, io::Error::from(io::ErrorKind::NotADirectory)));
    }
    let (name, _) = create_beside(&existing.join("probe")).map_err(|error| failed(folder, error))?;
    fs::remove_file(name).map_err(|error| failed(folder, error))
}

#[cfg(test)]
mod tests;

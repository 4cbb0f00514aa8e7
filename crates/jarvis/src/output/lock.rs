//! Locks on output folders. The folder itself is locked, so no file is left behind; where a system or a file system has
//! no such locks, runs go on without them and each single file is still the whole file of one of them.

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::OutputError;
use super::undo::Undo;

/// How long another run may take to write its files. It is done with everything else by then.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often to look.
const PAUSE: Duration = Duration::from_millis(20);

/// Locks that are held until this goes.
pub(super) struct Locks {
    _folders: Vec<File>,
}

impl Locks {
    /// Locks folders, made if need be, waiting for who else has them.
    pub(super) fn take(folders: &BTreeSet<PathBuf>, undo: &Undo) -> Result<Self, OutputError> {
        Self::take_within(folders, undo, PATIENCE)
    }

    pub(super) fn take_within(
        folders: &BTreeSet<PathBuf>,
        undo: &Undo,
        patience: Duration,
    ) -> Result<Self, OutputError> {
        for folder in folders {
            undo.make_folders(folder)?;
        }
        // In one order for all, whatever the folders are called: else two runs could wait for each other.
        let ordered: BTreeSet<PathBuf> = folders.iter().filter_map(|folder| folder.canonicalize().ok()).collect();
        let until = Instant::now() + patience;
        let mut held = Vec::new();
        for folder in &ordered {
            held.extend(lock(folder, undo, until)?);
        }
        Ok(Self { _folders: held })
    }
}

/// `None` if it can't be locked at all.
fn lock(path: &Path, undo: &Undo, until: Instant) -> Result<Option<File>, OutputError> {
    loop {
        // Who had it before may have taken it away again.
        undo.make_folders(path)?;
        let Ok(folder) = File::open(path) else { return Ok(None) };
        match folder.try_lock() {
            Ok(()) if is_at(&folder, path) => return Ok(Some(folder)),
            Ok(()) => {}
            Err(TryLockError::WouldBlock) if Instant::now() >= until => {
                return Err(OutputError::Busy { path: path.to_path_buf() });
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

/// Whether an open folder is the one that is found at a path now.
#[cfg(unix)]
fn is_at(folder: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (folder.metadata(), path.metadata()) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_folder: &File, _path: &Path) -> bool {
    true
}

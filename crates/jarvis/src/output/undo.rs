//! What has been done so far, and how to undo it: by who did it if something fails, or by who is told to stop the program.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{OutputError, create_beside, temporary_name};

/// What batches that are not finished have done, by their number. Each step is done and noted under this lock, so whoever
/// holds it sees everything that is to be undone.
static OPEN: Mutex<BTreeMap<u64, Steps>> = Mutex::new(BTreeMap::new());

/// Numbers batches.
static BATCHES: AtomicU64 = AtomicU64::new(0);

fn open() -> MutexGuard<'static, BTreeMap<u64, Steps>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Undoes what unfinished batches have done, because the program is about to end. Nothing can be written after this.
/// Tells whether there was anything to undo.
pub fn abandon() -> bool {
    let mut batches = open();
    let any = batches.values().any(|steps| !steps.is_empty());
    for steps in std::mem::take(&mut *batches).into_values() {
        steps.roll_back();
    }
    // Whoever is writing waits for this lock until the program has ended.
    std::mem::forget(batches);
    any
}

/// The steps of one batch. Unless it is [forgotten](Self::forget), everything is put back in the end.
#[derive(Debug)]
pub(super) struct Undo {
    number: u64,
}

impl Undo {
    pub(super) fn begin() -> Self {
        let number = BATCHES.fetch_add(1, Ordering::Relaxed);
        open().insert(number, Steps::default());
        Self { number }
    }

    /// Does something and notes it.
    fn step<T>(&self, act: impl FnOnce(&mut Steps) -> T) -> T {
        act(open().entry(self.number).or_default())
    }

    /// Makes a folder and those around it.
    pub(super) fn make_folders(&self, folder: &Path) -> Result<(), OutputError> {
        self.step(|steps| {
            if steps.folders.iter().any(|made| made.as_os_str() == folder.as_os_str()) {
                return Ok(());
            }
            let missing = folder.ancestors().take_while(|f| !f.as_os_str().is_empty() && !f.exists());
            let missing: Vec<PathBuf> = missing.map(Path::to_path_buf).collect();
            // Before they are made: some may be there when a later one fails.
            steps.folders.extend(missing.into_iter().rev());
            fs::create_dir_all(folder).map_err(|error| OutputError::Folder { path: folder.to_path_buf(), error })
        })
    }

    /// A new temporary file beside `path`.
    pub(super) fn create_beside(&self, path: &Path) -> io::Result<(PathBuf, File)> {
        self.step(|steps| {
            let (name, file) = create_beside(path)?;
            steps.remove.push(name.clone());
            Ok((name, file))
        })
    }

    /// Gives a temporary file its name.
    pub(super) fn publish(&self, temporary: &Path, path: &Path) -> io::Result<()> {
        self.step(|steps| {
            let kept = keep(path);
            if let Err(error) = fs::rename(temporary, path) {
                kept.map(fs::remove_file);
                return Err(error);
            }
            steps.remove.retain(|name| name.as_os_str() != temporary.as_os_str());
            steps.replaced.push((path.to_path_buf(), kept));
            Ok(())
        })
    }

    /// Takes a file away that is not part of the output any more.
    pub(super) fn retire(&self, path: &Path, root: &Path) {
        self.step(|steps| {
            let kept = temporary_name(path);
            if fs::rename(path, &kept).is_ok() {
                steps.replaced.push((path.to_path_buf(), Some(kept)));
                let above = path.ancestors().skip(1).take_while(|folder| *folder != root);
                steps.emptied.extend(above.map(Path::to_path_buf));
            }
        });
    }

    /// Ends the batch. The lock is held until all is tidy: else the program could be stopped when nobody knows any more
    /// what is to be removed.
    fn end(&self, tidy: fn(Steps)) {
        let mut batches = open();
        tidy(batches.remove(&self.number).unwrap_or_default());
    }

    /// It is done: what was kept for undoing goes, and nothing is put back.
    pub(super) fn forget(&self) {
        self.end(Steps::forget);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        self.end(Steps::roll_back);
    }
}

/// A second name for the file that is about to be replaced. File systems without such names lose the old file if a
/// later one fails; its new version is whole all the same.
fn keep(path: &Path) -> Option<PathBuf> {
    let kept = temporary_name(path);
    fs::hard_link(path, &kept).ok().map(|()| kept)
}

/// What to do if something fails, and what to tidy if nothing does.
#[derive(Debug, Default)]
struct Steps {
    /// Temporary files.
    remove: Vec<PathBuf>,
    /// Files that have their name or went, and where the file lies that had it before.
    replaced: Vec<(PathBuf, Option<PathBuf>)>,
    /// Folders that were made, outermost first.
    folders: Vec<PathBuf>,
    /// Folders that files were taken from, innermost first.
    emptied: Vec<PathBuf>,
}

impl Steps {
    fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.replaced.is_empty() && self.folders.is_empty()
    }

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
        for folder in self.emptied {
            // Fails, as it should, if something is left in it.
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of a finished or a failed batch, seen by somebody who waits for it to be over: nothing temporary is left then.
    fn is_tidy_when_it_is_over(finish: fn(&Undo)) {
        let root = tempfile::tempdir().unwrap();
        let undo = Undo::begin();
        for number in 0..400 {
            let path = root.path().join(format!("{number}.csv"));
            fs::write(&path, "old").unwrap();
            let (temporary, _) = undo.create_beside(&path).unwrap();
            undo.publish(&temporary, &path).unwrap();
        }
        let temporaries = || {
            let names = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with(".jarvis-")).count()
        };
        assert_eq!(temporaries(), 400, "the old files are kept while they may be needed");
        std::thread::scope(|scope| {
            let (number, temporaries) = (undo.number, &temporaries);
            let watch = scope.spawn(move || {
                loop {
                    let batches = open();
                    if !batches.contains_key(&number) {
                        return temporaries();
                    }
                }
            });
            finish(&undo);
            assert_eq!(watch.join().unwrap(), 0);
        });
    }

    #[test]
    fn whoever_stops_the_program_finds_a_batch_or_nothing_of_it() {
        is_tidy_when_it_is_over(Undo::forget);
        is_tidy_when_it_is_over(|undo| undo.end(Steps::roll_back));
    }
}

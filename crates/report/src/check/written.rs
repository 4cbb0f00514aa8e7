//! What a run wrote is still there, whole: files, their sizes and checksums as its log has them, packages as the index
//! has them.
//! All of it is about files on disk; a run that is about to write them knows what it has.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Cursor};

use sha2::{Digest, Sha256};

use super::folder::{Folder, Problems};
use super::json::Json;
use super::{Facts, layout, list};
use crate::Checksum;
use crate::replay::index::hex;

/// The log of a run.
pub(super) const LOG: &str = "run_log.json";
/// Since this version logs list all files, with their checksums.
const COMPLETE: u64 = 3;
/// The list of replay packages, and their folder.
const INDEX: &str = "replay_packages/index.json";

/// Files that runs leave only if they are killed.
pub(super) fn leftovers(folder: &Folder<'_>, problems: &mut Problems) {
    for name in folder.names().filter(|name| is_leftover(name)) {
        problems.warn("leftover", name, "a temporary file of a run that was killed; it can be removed");
    }
}

fn is_leftover(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.strip_prefix(".jarvis-").is_some_and(|rest| rest.strip_suffix(".tmp").is_some())
}

/// The checks of a JSON file, if it is one that lists others.
pub(super) fn document(folder: &Folder<'_>, name: &str, document: &Json<'_>, problems: &mut Problems) {
    match name {
        LOG => listed(folder, document, problems),
        INDEX => packages(folder, document, problems),
        _ => {}
    }
}

/// The log of a run that lists all its files.
pub(super) struct Log<'a> {
    listed: BTreeSet<Cow<'a, str>>,
}

impl<'a> Log<'a> {
    /// `None` for logs of older versions, and where there is none.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let log = Json::read(bytes).ok()?;
        let listed = list(&log["files"]).filter_map(|file| Some(Cow::Owned(file["path"].as_str()?.to_owned())));
        (log["schema_version"].as_u64()? >= COMPLETE).then(|| Self { listed: listed.collect() })
    }

    /// Files that the run did not write and that look like its own: by their place or by their kind.
    pub(super) fn strangers<'f>(&self, folder: &'f Folder<'_>, facts: &Facts<'_>) -> BTreeSet<&'f str> {
        // These are asked for, whether or not they are listed.
        let must: BTreeSet<&str> = layout::must_have_written(facts).collect();
        let is_like_ours = |name: &str| match name.split_once('/') {
            Some((place, _)) => PLACES.contains(&place) || place.ends_with("perf_report_csvs"),
            None => name.rsplit_once('.').is_some_and(|(_, end)| KINDS.contains(&end)),
        };
        let is_ours =
            |name: &str| name == LOG || is_leftover(name) || self.listed.contains(name) || must.contains(name);
        folder.names().filter(|name| is_like_ours(name) && !is_ours(name)).collect()
    }
}

/// Folders of results.
const PLACES: [&str; 5] = ["metadata", "category_data", "category_findings", "system_findings", "replay_packages"];
/// Kinds of results beside them.
const KINDS: [&str; 6] = ["md", "json", "html", "xlsx", "svg", "csv"];

/// Tells of files that are none of the run.
pub(super) fn tell_strangers(strangers: &BTreeSet<&str>, problems: &mut Problems) {
    for name in strangers {
        problems.warn("stranger", name, format!("{LOG} does not list it: it may be of another trace"));
    }
}

/// A folder on disk has a log: without it nobody can tell whether the other files are whole. It lists what every run
/// writes, and what its own results name.
pub(super) fn log(folder: &Folder<'_>, log: Option<&Log<'_>>, facts: &Facts<'_>, problems: &mut Problems) {
    if folder.is_on_disk() && !folder.has(LOG) {
        problems.fail("written", LOG, "missing; it tells which files the run wrote, and their checksums");
    }
    let Some(log) = log else { return };
    let must: BTreeSet<&str> = layout::must_have_written(facts).collect();
    for name in must.into_iter().filter(|name| !log.listed.contains(*name)) {
        problems.fail("written", LOG, format!("{name} is not listed, and every run like this writes it"));
    }
}

/// Workbooks on disk can be unpacked.
pub(super) fn workbooks(folder: &Folder<'_>, problems: &mut Problems) {
    let books: Vec<&str> = folder.ending(".xlsx").filter(|name| folder.size_of(name).is_some()).collect();
    for name in books {
        if let Err(error) = unpacked(&folder.bytes(name).unwrap_or_default()) {
            problems.fail("workbook", name, format!("it can't be read: {error}"));
        }
    }
}

/// Whether every part of a zip file is whole, with the checksums that stand in it.
fn unpacked(bytes: &[u8]) -> io::Result<()> {
    let mut zip = zip::ZipArchive::new(Cursor::new(bytes))?;
    for part in 0..zip.len() {
        io::copy(&mut zip.by_index(part)?, &mut io::sink())?;
    }
    Ok(())
}

/// Files with the sizes and checksums that they had. Logs of older versions tell no checksums or not even sizes, and
/// less can be said of them.
fn listed(folder: &Folder<'_>, log: &Json<'_>, problems: &mut Problems) {
    let files =
        list(&log["files"]).filter_map(|file| Some((file["path"].as_str()?, file["bytes"].as_u64()?, &file["crc32"])));
    for (name, bytes, sum) in files {
        match folder.size_of(name) {
            None => problems.fail("written", name, format!("missing; {LOG} lists it")),
            Some(found) if found != bytes => {
                problems.fail("written", name, format!("{found} bytes, {LOG} says {bytes}"));
            }
            Some(_) => {
                if let Some(problem) = sum.as_str().and_then(|sum| other_sum(folder, name, sum)) {
                    problems.fail("written", name, problem);
                }
            }
        }
    }
}

/// What is to be said of a file whose checksum is not this one.
fn other_sum(folder: &Folder<'_>, name: &str, sum: &str) -> Option<String> {
    let found = Checksum::of(&folder.bytes(name)?).to_string();
    (found != sum).then(|| format!("not what the run wrote: its CRC-32 is {found}, {LOG} says {sum}"))
}

/// Packages are what they were when they were made. Only those on disk can have changed.
fn packages(folder: &Folder<'_>, index: &Json<'_>, problems: &mut Problems) {
    let packages = list(&index["packages"]).filter_map(|p| Some((p["package"].as_str()?, p["sha256"].as_str()?)));
    for (package, hash) in packages {
        let path = format!("replay_packages/{}", package.rsplit('/').next().unwrap_or(package));
        let bytes = folder.size_of(&path).and_then(|_| folder.bytes(&path));
        if bytes.is_some_and(|bytes| hex(&Sha256::digest(&bytes)) != hash) {
            problems.fail("replay", &path, format!("not the package that {INDEX} lists: its SHA-256 differs"));
        }
    }
}

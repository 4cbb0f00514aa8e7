//! What a run wrote is still there, whole: files, their sizes and checksums as its log has them, packages as the index
//! has them.
//! All of it is about files on disk; a run that is about to write them knows what it has.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use super::folder::{Folder, Problems};
use super::json::Json;
use super::list;
use crate::Checksum;
use crate::replay::index::hex;

/// The log of a run.
const LOG: &str = "run_log.json";
/// The list of replay packages, and their folder.
const INDEX: &str = "replay_packages/index.json";

/// Files that runs leave only if they are killed.
pub(super) fn leftovers(folder: &Folder<'_>, problems: &mut Problems) {
    let is_left = |name: &&str| {
        let file = name.rsplit('/').next().unwrap_or(name);
        file.strip_prefix(".jarvis-").is_some_and(|rest| rest.strip_suffix(".tmp").is_some())
    };
    for name in folder.names().filter(is_left) {
        problems.warn("leftover", name, "a temporary file of a run that was killed; it can be removed");
    }
}

/// The checks of a JSON file, if it is one that lists others.
pub(super) fn document(folder: &Folder<'_>, name: &str, document: &Json<'_>, problems: &mut Problems) {
    match name {
        LOG => {
            listed(folder, document, problems);
            strangers(folder, document, problems);
        }
        INDEX => packages(folder, document, problems),
        _ => {}
    }
}

/// A folder on disk has a log: without it nobody can tell whether the other files are whole.
pub(super) fn log(folder: &Folder<'_>, problems: &mut Problems) {
    if folder.is_on_disk() && !folder.has(LOG) {
        problems.fail("written", LOG, "missing; it tells which files the run wrote, and their checksums");
    }
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

/// Tables that the run did not write stand among those that it did, and look like its own.
fn strangers(folder: &Folder<'_>, log: &Json<'_>, problems: &mut Problems) {
    let listed: BTreeSet<&str> = list(&log["files"]).filter_map(|file| file["path"].as_str()).collect();
    let folder_of = |name: &'_ str| name.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
    // Logs of older versions do not list them all.
    let known: BTreeSet<String> = listed.iter().map(|name| folder_of(name)).collect();
    let is_among_tables = |name: &&str| {
        let folder = folder_of(name);
        folder.ends_with("perf_report_csvs") && known.contains(&folder)
    };
    for name in folder.ending(".csv").filter(|name| is_among_tables(name) && !listed.contains(name)) {
        problems.warn("stranger", name, format!("{LOG} does not list it: it may be of another trace"));
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

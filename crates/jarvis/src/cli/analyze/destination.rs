//! Where the files of an analysis go, with a log of the run and what our own check says of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jarvis_analyze::analysis::Analysis;
use jarvis_analyze::texts::counted;
use jarvis_report::check::Problem;
use jarvis_report::render::xlsx::Cuts;
use jarvis_report::{Checksum, OutputFile, replay};
use jarvis_trace::Diagnostics;
use serde_json::json;

use super::super::layout::amount;
use super::super::sheets::warn_of_cuts;
use super::super::strangers::warn_of_strangers;
use super::super::{Failure, LONG_VERSION, Outlet, Session};
use super::{FINDINGS, RUN_LOG};
use crate::exit;
use crate::output::{Batch, Earlier, OutputError, Staging};
use crate::pipeline::{AnalyzeError, FileRef, Files, Shelf};

/// What the log of a run tells.
pub(super) struct Log<'a> {
    pub(super) stages: &'a [(&'static str, Duration)],
    pub(super) analysis: &'a Analysis,
    pub(super) diagnostics: &'a [&'a Diagnostics],
}

/// Where the files of a run go.
pub(super) struct Output<'a> {
    pub(super) session: &'a Session,
    pub(super) folder: &'a Path,
    /// Files of the user that results are made of.
    inputs: Vec<&'a Path>,
    /// Writes files as they are made, unless they go to another machine.
    staging: Option<Arc<Staging>>,
}

impl<'a> Output<'a> {
    pub(super) fn to(session: &'a Session, folder: &'a Path, inputs: Vec<&'a Path>) -> Self {
        let is_here = matches!(session.outlet, Outlet::Here);
        Self { session, folder, inputs, staging: is_here.then(|| Arc::new(Staging::begin(folder))) }
    }

    /// No files yet.
    pub(super) fn files(&self) -> Files {
        self.staging.as_ref().map_or_else(Files::default, |staging| Files::on(Arc::clone(staging) as Arc<dyn Shelf>))
    }

    /// Why there are no files.
    pub(super) fn failure(&self, error: AnalyzeError) -> Failure {
        match error {
            AnalyzeError::Write { path, error } => OutputError::File { path: self.folder.join(path), error }.into(),
            error => error.into(),
        }
    }

    /// Checks and writes the files, all of them or none, and returns the machine form of the findings if it is asked for.
    pub(super) fn write(
        &self,
        files: &Files,
        cuts: Cuts,
        log: &Log<'_>,
        check: fn(&Files) -> Vec<Problem>,
    ) -> Result<(Vec<u8>, SelfCheck), Failure> {
        warn_of_cuts(self.session, cuts);
        let began = Instant::now();
        let problems = check(files);
        if let Some(first) = problems.first() {
            // The files are of use all the same, so they are written before the command fails.
            let more = problems.len() - 1;
            self.session.warn(&format!("a fault of jarvis, please report it: {first} (and {more} more in {RUN_LOG})"));
        }
        let log = OutputFile::new(RUN_LOG, run_log(log, &problems, began.elapsed(), files));
        // Where a file was put away, it is only until it gets its name.
        let findings = if self.session.common.json { files.find(Path::new(FINDINGS)).transpose()? } else { None };
        match &self.session.outlet {
            Outlet::Here => self.publish(files, Some(log))?,
            Outlet::There(peer) => {
                let mut files = files.to_vec()?;
                files.push(log);
                peer.deliver(files)?;
            }
        }
        Ok((findings.unwrap_or_default().into_owned(), SelfCheck::of(&problems)))
    }

    /// Gives files their names in the folder, and writes those first that are not there yet.
    pub(super) fn publish(&self, files: &Files, log: Option<OutputFile>) -> Result<(), OutputError> {
        let (session, folder) = (self.session, self.folder);
        session.stage("writing", || {
            let mut batch = self.staging.as_deref().map_or_else(Batch::default, Batch::on);
            batch.spares(self.inputs.iter().copied());
            for file in files.each() {
                session.log(2, || format!("{}: {}", file.path.display(), amount(file.len() as u64)));
                if let Some(temporary) = file.away() {
                    batch.add_staged(folder, file.path, temporary)?;
                } else {
                    let failed = |error| OutputError::File { path: folder.join(file.path), error };
                    batch.add_bytes(folder, file.path, file.read().map_err(failed)?)?;
                }
            }
            if let Some(log) = log {
                batch.add(folder, log)?;
            }
            // Results of another trace or of other options would look like results of this run.
            batch.replaces(folder, listed);
            let paths: Vec<PathBuf> = batch.paths().map(Path::to_path_buf).collect();
            let count = paths.len();
            let lost = asked_for_earlier(folder, &paths);
            let changed = batch.write()?;
            if !changed.is_empty() {
                let names: Vec<String> = changed.iter().map(|path| path.display().to_string()).collect();
                session.warn(&format!(
                    "{}: not what an earlier run wrote under these names, and left where it is: {}",
                    folder.display(),
                    names.join(", ")
                ));
            }
            let known: Vec<PathBuf> = paths.iter().chain(&changed).cloned().collect();
            for place in result_folders(folder, &paths) {
                warn_of_strangers(session, &place, &known, |name| !name.starts_with(".jarvis-"));
            }
            if !lost.is_empty() {
                session.warn(&format!(
                    "{}: packages that were asked for earlier are gone: {}; `jarvis replay` makes them again",
                    folder.display(),
                    lost.join(", ")
                ));
            }
            session.log(1, || format!("{} in {}", counted(count, "file"), folder.display()));
            Ok(())
        })
    }
}

/// What our own check said of the files.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SelfCheck {
    Holds,
    Fails,
}

impl SelfCheck {
    fn of(problems: &[Problem]) -> Self {
        if problems.is_empty() { Self::Holds } else { Self::Fails }
    }

    /// Results that contradict themselves are no success, whatever else holds.
    pub(super) fn outcome(self) -> Result<(), Failure> {
        match self {
            Self::Holds => Ok(()),
            Self::Fails => Err(Failure::new(exit::FAULT, "the results fail a check of their own")
                .help(format!("please report it with `self_check` of {RUN_LOG}; the files are written all the same"))),
        }
    }
}

/// The folders that hold nothing but results.
fn result_folders(folder: &Path, paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let places = paths.iter().filter_map(|path| path.parent()).filter(|place| *place != folder);
    // There may be packages that this run has none of.
    places.map(Path::to_path_buf).chain([folder.join(replay::FOLDER)]).collect()
}

/// Packages that somebody asked for by name and that these files replace without having them.
fn asked_for_earlier(folder: &Path, ours: &[PathBuf]) -> Vec<String> {
    let packages = folder.join(replay::FOLDER);
    let index = std::fs::read(packages.join(replay::INDEX)).unwrap_or_default();
    let index: serde_json::Value = serde_json::from_slice(&index).unwrap_or_default();
    let asked = index["packages"].as_array().into_iter().flatten().filter(|package| package["tier"] == "requested");
    let names = asked.filter_map(|package| Path::new(package["package"].as_str()?).file_name()?.to_str());
    let is_lost = |name: &&str| packages.join(name).is_file() && !ours.contains(&packages.join(name));
    names.filter(is_lost).map(str::to_owned).collect()
}

/// Files that an earlier run into the folder says it wrote.
fn listed(folder: &Path) -> Vec<Earlier> {
    let text = std::fs::read(folder.join(RUN_LOG)).unwrap_or_default();
    let log: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let files = log["files"].as_array().into_iter().flatten();
    let file = |file: &serde_json::Value| {
        // Older versions wrote names alone.
        let path = PathBuf::from(file["path"].as_str().or_else(|| file.as_str())?);
        let seal = file["bytes"].as_u64().zip(file["crc32"].as_str().map(str::to_owned));
        Some(Earlier { path, seal })
    };
    files.filter_map(file).collect()
}

fn run_log(log: &Log<'_>, self_check: &[Problem], check_took: Duration, files: &Files) -> Vec<u8> {
    let stages = log.stages.iter().copied().chain([("self_check", check_took)]);
    let stages: Vec<_> =
        stages.map(|(name, took)| json!({"stage": name, "ms": took.as_micros() as f64 / 1e3})).collect();
    let failures: Vec<_> = log.analysis.failures().map(|o| &*o.category).collect();
    let diagnostics: Vec<_> = log
        .diagnostics
        .iter()
        .flat_map(|diagnostics| diagnostics.seen())
        .map(|(d, count, _)| json!({"id": d.id, "count": count, "meaning": d.meaning, "remedy": d.remedy}))
        .collect();
    let entry = |file: FileRef<'_>| {
        let path = file.path.to_string_lossy().replace('\\', "/");
        (path.clone(), file_entry(&path, file.len(), file.checksum()))
    };
    let written: BTreeMap<String, serde_json::Value> = files.each().map(entry).collect();
    let log = json!({
        "schema_version": 3,
        "version": env!("CARGO_PKG_VERSION"),
        "build": LONG_VERSION,
        "stages": stages,
        "failed_categories": failures,
        "warnings": log.analysis.warnings,
        "data_quality": diagnostics,
        "self_check": self_check,
        "files": written.into_values().collect::<Vec<_>>(),
    });
    format!("{log:#}\n").into_bytes()
}

/// What the log tells of a file.
pub(in crate::cli) fn file_entry(path: &str, bytes: usize, checksum: Checksum) -> serde_json::Value {
    json!({"path": path, "bytes": bytes, "crc32": checksum.to_string()})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pipeline::quick_check;

    #[test]
    fn results_that_fail_our_own_check_are_a_fault() {
        assert!(SelfCheck::of(&[]).outcome().is_ok());
        let problems = quick_check(&Files::default());
        assert!(!problems.is_empty());
        let failure = SelfCheck::of(&problems).outcome().unwrap_err();
        assert_eq!((failure.status, failure.is_told()), (exit::FAULT, false));
    }
}

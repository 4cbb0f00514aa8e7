//! An output folder as the checks see it: names and bytes, read by whoever asks for the check.

use std::collections::{BTreeMap, BTreeSet};

use super::{Level, Problem};
use jarvis_trace::InOrder;

/// The files of an output folder. Names are relative to it, with `/` between their parts.
#[derive(Debug, Clone, Default)]
pub struct Folder<'a> {
    files: BTreeMap<String, &'a [u8]>,
    folders: BTreeSet<String>,
}

impl<'a> Folder<'a> {
    /// A folder with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file and the folders it stands in. The bytes of files that are neither JSON, CSV nor Markdown are not
    /// looked at and may be left out.
    pub fn file(&mut self, name: impl Into<String>, bytes: &'a [u8]) {
        let name = name.into();
        let mut parent = name.as_str();
        while let Some((folder, _)) = parent.rsplit_once('/') {
            self.folders.insert(folder.to_owned());
            parent = folder;
        }
        self.files.insert(name, bytes);
    }

    /// Adds a folder, which may be empty.
    pub fn folder(&mut self, name: impl Into<String>) {
        self.folders.insert(name.into());
    }

    /// Whether this looks like an output folder at all.
    pub fn is_output(&self) -> bool {
        self.has("category_manifest.json") || self.has("findings.json")
    }

    /// How many files there are.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    pub(crate) fn has_folder(&self, name: &str) -> bool {
        self.folders.contains(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<&'a [u8]> {
        self.files.get(name).copied()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    /// All names with this end, in order.
    pub(crate) fn ending<'s>(&'s self, end: &'s str) -> impl Iterator<Item = &'s str> {
        self.files.keys().map(String::as_str).filter(move |name| name.ends_with(end))
    }
}

/// Collects what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Problems(Vec<Problem>);

impl Problems {
    /// A check that failed.
    pub(crate) fn fail(&mut self, check: &'static str, file: &str, text: impl Into<String>) {
        self.add(Level::Failed, check, file, None, text.into());
    }

    /// The same with the line, from 1.
    pub(crate) fn fail_at(&mut self, check: &'static str, file: &str, line: usize, text: impl Into<String>) {
        self.add(Level::Failed, check, file, Some(line), text.into());
    }

    /// Something to know that is no failure.
    pub(crate) fn warn(&mut self, check: &'static str, file: &str, text: impl Into<String>) {
        self.add(Level::Warning, check, file, None, text.into());
    }

    fn add(&mut self, level: Level, check: &'static str, file: &str, line: Option<usize>, text: String) {
        self.0.push(Problem { level, check, file: file.to_owned(), line, text });
    }

    /// What several collected, one after the other.
    pub(crate) fn all(parts: impl Iterator<Item = Self>) -> Self {
        Self(parts.flat_map(|part| part.0).collect())
    }

    /// Failures first; otherwise in the order of the checks.
    pub(crate) fn into_list(mut self) -> Vec<Problem> {
        self.0.order_by_key(|p| p.level);
        self.0
    }
}

//! An output folder as the checks see it: names and bytes, read by whoever asks for the check.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{Level, Problem};
use jarvis_trace::InOrder;

/// Reads a file.
type Reader<'a> = Box<dyn Fn() -> Cow<'a, [u8]> + Sync + 'a>;

/// The files of an output folder. Names are relative to it, with `/` between their parts.
#[derive(Default)]
pub struct Folder<'a> {
    /// Without a reader where the file is there and is not looked into.
    files: BTreeMap<String, Option<Reader<'a>>>,
    folders: BTreeSet<String>,
    /// Bytes that files have on disk; only of files that lie there.
    sizes: BTreeMap<String, u64>,
}

impl<'a> Folder<'a> {
    /// A folder with nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file and the folders it stands in.
    pub fn file(&mut self, name: impl Into<String>, bytes: &'a [u8]) {
        self.file_read_by(name, move || Cow::Borrowed(bytes));
    }

    /// The same for a file that is read each time it is looked at.
    pub fn file_read_by(&mut self, name: impl Into<String>, read: impl Fn() -> Cow<'a, [u8]> + Sync + 'a) {
        self.add(name.into(), Some(Box::new(read)));
    }

    /// The same for a file that is not looked into.
    pub fn closed_file(&mut self, name: impl Into<String>) {
        self.add(name.into(), None);
    }

    /// Tells how many bytes a file has on disk.
    pub fn size(&mut self, name: impl Into<String>, bytes: u64) {
        self.sizes.insert(name.into(), bytes);
    }

    fn add(&mut self, name: String, reader: Option<Reader<'a>>) {
        let mut parent = name.as_str();
        while let Some((folder, _)) = parent.rsplit_once('/') {
            self.folders.insert(folder.to_owned());
            parent = folder;
        }
        self.files.insert(name, reader);
    }

    /// The same without some of its files.
    pub(crate) fn without(&self, strangers: &BTreeSet<&str>) -> Folder<'_> {
        let mut rest = Folder { folders: self.folders.clone(), ..Folder::default() };
        for name in self.names().filter(|name| !strangers.contains(name)) {
            if self.is_closed(name) {
                rest.closed_file(name);
            } else {
                rest.file_read_by(name, move || self.bytes(name).unwrap_or_default());
            }
            rest.sizes.extend(self.size_of(name).map(|bytes| (name.to_owned(), bytes)));
        }
        rest
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

    /// Whether a file is there and is not looked into.
    pub(crate) fn is_closed(&self, name: &str) -> bool {
        self.files.get(name).is_some_and(Option::is_none)
    }

    /// How many bytes a file has on disk, if it lies there.
    pub(crate) fn size_of(&self, name: &str) -> Option<u64> {
        self.sizes.get(name).copied()
    }

    /// Whether the files lie on disk; a run that is about to write them checks them before.
    pub(crate) fn is_on_disk(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// All names, in order.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    pub(crate) fn has_folder(&self, name: &str) -> bool {
        self.folders.contains(name)
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<Cow<'a, [u8]>> {
        self.files.get(name)?.as_ref().map(|read| read())
    }

    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        match self.bytes(name)? {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
        }
    }

    /// All names of files with this end that can be looked into, in order.
    pub(crate) fn ending<'s>(&'s self, end: &'s str) -> impl Iterator<Item = &'s str> {
        let open = self.files.iter().filter(|(_, reader)| reader.is_some());
        open.map(|(name, _)| name.as_str()).filter(move |name| name.ends_with(end))
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

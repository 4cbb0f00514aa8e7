//! Every distinct text of a trace, stored once. Names and argument texts repeat thousands of times, so all later
//! work (comparison, grouping, parsing of argument lists) is done once per distinct text.

use std::ops::Range;

use hashbrown::HashTable;

use super::ids::StrId;

/// The texts of a trace.
#[derive(Debug, Default, Clone)]
pub struct Strings {
    arena: String,
    ends: Vec<usize>,
    hashes: Vec<u64>,
    table: HashTable<u32>,
}

/// The hash used for texts everywhere in this crate: the same input gives the same value on every machine.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u64 {
    rapidhash::v3::rapidhash_v3(bytes)
}

impl Strings {
    /// The text.
    pub fn get(&self, id: StrId) -> &str {
        &self.arena[self.span(id)]
    }

    /// The handle of a text, if the trace has it.
    pub fn find(&self, text: &str) -> Option<StrId> {
        self.find_hashed(text.as_bytes(), hash_bytes(text.as_bytes()))
    }

    /// Number of distinct texts.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all texts together.
    pub fn bytes(&self) -> usize {
        self.arena.len()
    }

    /// Bytes that they take with what finds them.
    pub(crate) fn memory(&self) -> u64 {
        // The table keeps a handle and a byte for each text, and is at most seven eighths full.
        const FINDING: usize = size_of::<usize>() + size_of::<u64>() + (size_of::<u32>() + 1) * 8 / 7;
        (self.arena.len() + self.ends.len() * FINDING) as u64
    }

    /// All texts, one behind the other.
    #[inline]
    pub(crate) fn arena(&self) -> &[u8] {
        self.arena.as_bytes()
    }

    /// Where a text stands among all.
    #[inline]
    pub(crate) fn span(&self, id: StrId) -> Range<usize> {
        let end = self.ends[id.index()];
        let start = if id.0 == 0 { 0 } else { self.ends[id.index() - 1] };
        start..end
    }

    fn bytes_of(&self, id: StrId) -> &[u8] {
        &self.arena.as_bytes()[self.span(id)]
    }

    #[inline]
    fn find_hashed(&self, bytes: &[u8], hash: u64) -> Option<StrId> {
        self.table
            .find(hash, |&id| self.hashes[id as usize] == hash && self.bytes_of(StrId(id)) == bytes)
            .map(|&id| StrId(id))
    }

    /// Handle of a text, added if it is new.
    pub(crate) fn intern(&mut self, text: &str) -> StrId {
        let hash = hash_bytes(text.as_bytes());
        if let Some(id) = self.find_hashed(text.as_bytes(), hash) {
            return id;
        }
        self.insert(text, hash)
    }

    /// As [`Strings::intern`] for bytes that should be UTF-8; the flag tells whether they were not and had to be
    /// repaired with U+FFFD.
    #[inline]
    pub(crate) fn intern_bytes(&mut self, bytes: &[u8]) -> (StrId, bool) {
        let hash = hash_bytes(bytes);
        if let Some(id) = self.find_hashed(bytes, hash) {
            return (id, false);
        }
        match std::str::from_utf8(bytes) {
            Ok(text) => (self.insert(text, hash), false),
            Err(_) => (self.intern(&String::from_utf8_lossy(bytes)), true),
        }
    }

    #[cold]
    fn insert(&mut self, text: &str, hash: u64) -> StrId {
        let id = self.ends.len() as u32;
        self.arena.push_str(text);
        self.ends.push(self.arena.len());
        self.hashes.push(hash);
        let hashes = &self.hashes;
        self.table.insert_unique(hash, id, |&other| hashes[other as usize]);
        StrId(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_a_handle_and_broken_ones_are_repaired() {
        let mut s = Strings::default();
        let a = s.intern("aten::mm");
        let empty = s.intern("");
        assert_eq!(s.intern_bytes(b"aten::mm"), (a, false));
        let (broken, repaired) = s.intern_bytes(b"x\xff");
        assert!(repaired);
        assert_eq!(s.get(broken), "x\u{fffd}");
        assert_eq!(s.intern_bytes(b"x\xff"), (broken, true));
        assert_eq!((s.get(a), s.get(empty), s.len()), ("aten::mm", "", 3));
        assert_eq!((s.find("aten::mm"), s.find("nope")), (Some(a), None));
    }
}

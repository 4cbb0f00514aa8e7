//! Texts that page data repeats, each once.

use std::collections::BTreeMap;

use serde::Serialize;

use super::markup::printable;

/// Position in the list of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct TextId(u32);

/// Texts, printable and cut, in order of first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    list: Vec<String>,
    index: BTreeMap<String, TextId>,
}

impl Texts {
    /// The text's position.
    pub(crate) fn add(&mut self, text: &str) -> TextId {
        let text = printable(text);
        if let Some(&known) = self.index.get(&text) {
            return known;
        }
        let id = TextId(self.list.len() as u32);
        self.list.push(text.clone());
        self.index.insert(text, id);
        id
    }

    /// The text.
    pub(crate) fn get(&self, id: TextId) -> &str {
        &self.list[id.0 as usize]
    }
}

impl Serialize for Texts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.list.serialize(serializer)
    }
}

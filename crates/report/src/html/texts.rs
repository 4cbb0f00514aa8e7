//! Texts that page data repeats, each once.

use std::sync::Arc;

use rapidhash::RapidHashMap;
use serde::Serialize;

use super::markup::{LONGEST, clipped};

/// Position in the list of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct TextId(u32);

/// Texts, printable and cut, in order of first use.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    list: Vec<Arc<str>>,
    index: RapidHashMap<Arc<str>, TextId>,
}

impl Texts {
    /// The text's position.
    pub(crate) fn add(&mut self, text: &str) -> TextId {
        let text = clipped(text, LONGEST);
        if let Some(&known) = self.index.get(&*text) {
            return known;
        }
        let id = TextId(self.list.len() as u32);
        let text: Arc<str> = text.into();
        self.list.push(Arc::clone(&text));
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

//! The argument lists of calls. Few distinct ones serve many events, so each is read once.

use std::sync::Arc;

use jarvis_trace::{EventId, Key, StrId, Trace, pyliteral};
use rapidhash::RapidHashMap;
use serde_json::Value as Json;

use super::texts::{TextId, Texts, list_text};
use crate::call::{Dims, InputLists};

/// The lists in the order of the key columns: dims, types, strides, concrete inputs.
const KEYS: [Key; 4] = [Key::InputDims, Key::InputType, Key::InputStrides, Key::ConcreteInputs];

/// The four lists as cells show them; `None` where the event lacks one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArgTexts {
    /// `Input Dims`.
    pub dims: Option<Arc<str>>,
    /// `Input type`.
    pub types: Option<Arc<str>>,
    /// `Input Strides`.
    pub strides: Option<Arc<str>>,
    /// `Concrete Inputs`.
    pub concrete: Option<Arc<str>>,
}

impl ArgTexts {
    fn new([dims, types, strides, concrete]: [Option<Arc<str>>; 4]) -> Self {
        Self { dims, types, strides, concrete }
    }
}

/// Handle of the lists of a call. Different handles may show the same texts; [`Inputs::group`] tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct InputsId(u32);

/// Calls whose lists read the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct InputsGroup(u32);

#[derive(Debug)]
struct Entry {
    lists: [Option<StrId>; 4],
    tuples: [Option<TextId>; 4],
    group: InputsGroup,
    parsed: InputLists,
}

/// No lists.
const UNKNOWN: InputsId = InputsId(u32::MAX);

/// All argument lists met so far.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    trace: &'a Trace,
    entries: Vec<Entry>,
    index: RapidHashMap<[Option<StrId>; 4], InputsId>,
    /// By event: [`UNKNOWN`] if it was not asked for.
    of_event: Vec<InputsId>,
    groups: RapidHashMap<[Option<TextId>; 4], InputsGroup>,
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            entries: Vec::new(),
            index: RapidHashMap::default(),
            of_event: vec![UNKNOWN; trace.len()],
            groups: RapidHashMap::default(),
        }
    }

    /// The lists of an event.
    pub(crate) fn of(&mut self, event: EventId, texts: &mut Texts<'_>) -> InputsId {
        let known = self.of_event[event.index()];
        if known != UNKNOWN {
            return known;
        }
        let id = self.look_up(event, texts);
        self.of_event[event.index()] = id;
        id
    }

    fn look_up(&mut self, event: EventId, texts: &mut Texts<'_>) -> InputsId {
        let lists = KEYS.map(|key| self.trace.text_id(event, key));
        if let Some(&id) = self.index.get(&lists) {
            return id;
        }
        let tuples = lists.map(|list| list.map(|l| texts.tuple(l)));
        let next = InputsGroup(self.groups.len() as u32);
        let group = *self.groups.entry(tuples).or_insert(next);
        let id = InputsId(self.entries.len() as u32);
        let parsed = parse(lists.map(|list| list.map(|l| self.trace.text(l))));
        self.entries.push(Entry { lists, tuples, group, parsed });
        self.index.insert(lists, id);
        id
    }

    fn entry(&self, id: InputsId) -> &Entry {
        &self.entries[id.0 as usize]
    }

    pub(crate) fn group(&self, id: InputsId) -> InputsGroup {
        self.entry(id).group
    }

    /// As models read them.
    pub(crate) fn parsed(&self, id: InputsId) -> &InputLists {
        &self.entry(id).parsed
    }

    /// As nested tuples.
    pub(crate) fn tuple_texts(&self, id: InputsId, texts: &Texts<'_>) -> ArgTexts {
        ArgTexts::new(self.entry(id).tuples.map(|t| t.map(|t| texts.get(t))))
    }

    /// As nested lists.
    pub(crate) fn list_texts(&self, id: InputsId, texts: &mut Texts<'_>) -> ArgTexts {
        ArgTexts::new(self.entry(id).lists.map(|list| {
            let id = texts.intern(&list_text(self.trace.text(list?)));
            Some(texts.get(id))
        }))
    }

    /// Handles of dims, strides and concrete inputs; `None` if one is missing.
    pub(crate) fn shown_without_types(&self, id: InputsId) -> Option<[TextId; 3]> {
        let [dims, _, strides, concrete] = self.entry(id).tuples;
        Some([dims?, strides?, concrete?])
    }
}

/// The argument lists of an event, as models read them.
pub fn input_lists(trace: &Trace, event: EventId) -> InputLists {
    parse(KEYS.map(|key| trace.text_id(event, key).map(|l| trace.text(l))))
}

fn parse([dims, types, strides, concrete]: [Option<&str>; 4]) -> InputLists {
    InputLists { dims: dims_of(dims), types: words_of(types), strides: dims_of(strides), concrete: words_of(concrete) }
}

fn items(json: Option<&str>) -> Option<Vec<Json>> {
    serde_json::from_str(json?).ok()
}

fn dims_of(json: Option<&str>) -> Option<Vec<Dims>> {
    let shape = |list: &[Json]| list.iter().filter_map(Json::as_i64).collect::<Vec<i64>>();
    let of = |item: &Json| match item.as_array().map_or(&[][..], Vec::as_slice) {
        list if list.first().is_some_and(Json::is_array) => {
            Dims::List(list.iter().map(|inner| shape(inner.as_array().map_or(&[][..], Vec::as_slice))).collect())
        }
        list => Dims::Shape(shape(list)),
    };
    Some(items(json)?.iter().map(of).collect())
}

fn words_of(json: Option<&str>) -> Option<Vec<String>> {
    let word = |item: Json| match item {
        Json::String(text) => text,
        other => pyliteral::of_json(&other.to_string()),
    };
    Some(items(json)?.into_iter().map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_models_want_them() {
        let parsed = parse([
            Some("[[2,3],[],[[4],[5,6]]]"),
            Some("[\"float\",\"\",\"TensorList\"]"),
            None,
            Some("[\"\",\"1\",3]"),
        ]);
        assert_eq!(
            parsed.dims,
            Some(vec![Dims::Shape(vec![2, 3]), Dims::Shape(vec![]), Dims::List(vec![vec![4], vec![5, 6]])])
        );
        assert_eq!(parsed.strides, None);
        assert_eq!(parsed.concrete, Some(vec![String::new(), "1".to_owned(), "3".to_owned()]));
        assert_eq!(parse([Some("oops"), None, None, None]).dims, None);
    }
}

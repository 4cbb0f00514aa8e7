//! The argument lists of calls. Few distinct ones serve many events, so each is read once.

use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use jarvis_trace::{EventId, Key, StrId, Trace, pyliteral};
use rapidhash::RapidHashMap;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

use super::texts::{TextId, Texts};
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

#[derive(Debug, Clone)]
struct Entry {
    lists: ListIds,
    tuples: [Option<TextId>; 4],
    group: InputsGroup,
    parsed: Arc<InputLists>,
}

/// Handles of a call's lists, in the order of the key columns.
pub type ListIds = [Option<StrId>; 4];

/// The argument lists of a trace as models read them, each read once, whichever thread first asks for it.
#[derive(Debug, Default)]
pub struct ArgLists {
    calls: Mutex<RapidHashMap<ListIds, Arc<InputLists>>>,
    sizes: Mutex<RapidHashMap<StrId, Option<Arc<[Dims]>>>>,
    words: Mutex<RapidHashMap<StrId, Option<Arc<[String]>>>>,
}

impl ArgLists {
    /// The lists of an event of the trace. Calls with the same lists share them.
    pub fn of(&self, trace: &Trace, event: EventId) -> Arc<InputLists> {
        self.read(trace, input_ids(trace, event))
    }

    fn read(&self, trace: &Trace, lists: ListIds) -> Arc<InputLists> {
        once(&self.calls, lists, || {
            let [dims, types, strides, concrete] = lists;
            let sizes = |list: Option<StrId>| once(&self.sizes, list?, || dims_of(trace.text(list?)));
            let words = |list: Option<StrId>| once(&self.words, list?, || words_of(trace.text(list?)));
            Arc::new(InputLists {
                dims: sizes(dims),
                types: words(types),
                strides: sizes(strides),
                concrete: words(concrete),
            })
        })
    }
}

/// What is known of a key, or what `read` makes of it. Nobody waits while it is read: two that read the same at once are
/// rare.
fn once<K: Copy + Eq + Hash, V: Clone>(known: &Mutex<RapidHashMap<K, V>>, key: K, read: impl FnOnce() -> V) -> V {
    let known = || known.lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().get(&key).cloned();
    found.unwrap_or_else(|| {
        let value = read();
        known().entry(key).or_insert(value).clone()
    })
}

/// All argument lists met so far.
#[derive(Debug, Clone)]
pub(crate) struct Inputs<'a> {
    trace: &'a Trace,
    lists: &'a ArgLists,
    entries: Vec<Entry>,
    /// By the handles of the four lists. One look-up is so cheap that the answer is not kept by event.
    index: RapidHashMap<u128, InputsId>,
    groups: RapidHashMap<[Option<TextId>; 4], InputsGroup>,
}

impl<'a> Inputs<'a> {
    pub(crate) fn new(trace: &'a Trace, lists: &'a ArgLists) -> Self {
        Self { trace, lists, entries: Vec::new(), index: RapidHashMap::default(), groups: RapidHashMap::default() }
    }

    /// The lists of an event.
    pub(crate) fn of(&mut self, event: EventId, texts: &mut Texts<'_>) -> InputsId {
        let lists = input_ids(self.trace, event);
        let key = lists.iter().fold(0, |key, list| key << 32 | list.map_or(0, |l| l.index() as u128 + 1));
        if let Some(&id) = self.index.get(&key) {
            return id;
        }
        let tuples = lists.map(|list| list.map(|l| texts.tuple(l)));
        let next = InputsGroup(self.groups.len() as u32);
        let group = *self.groups.entry(tuples).or_insert(next);
        let id = InputsId(self.entries.len() as u32);
        let parsed = self.lists.read(self.trace, lists);
        self.entries.push(Entry { lists, tuples, group, parsed });
        self.index.insert(key, id);
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
            let id = texts.list(list?);
            Some(texts.get(id))
        }))
    }

    /// Handles of dims, strides and concrete inputs; `None` if one is missing.
    pub(crate) fn shown_without_types(&self, id: InputsId) -> Option<[TextId; 3]> {
        let [dims, _, strides, concrete] = self.entry(id).tuples;
        Some([dims?, strides?, concrete?])
    }
}

/// Handles of the argument lists of an event: where they are equal, so are the lists.
pub fn input_ids(trace: &Trace, event: EventId) -> ListIds {
    KEYS.map(|key| trace.text_id(event, key))
}

fn dims_of(json: &str) -> Option<Arc<[Dims]>> {
    let items: Vec<Sizes> = serde_json::from_str(json).ok()?;
    let of = |item| match item {
        Sizes::List { each: Some(each), .. } => Dims::List(each),
        Sizes::List { numbers, .. } => Dims::Shape(numbers),
        Sizes::Number(_) | Sizes::Other => Dims::Shape(Vec::new()),
    };
    Some(items.into_iter().map(of).collect())
}

/// A part of a list of sizes, read without a document of all its parts.
enum Sizes {
    Number(i64),
    List {
        /// The numbers in it.
        numbers: Vec<i64>,
        /// If it begins with a list: the numbers in each of its parts.
        each: Option<Vec<Vec<i64>>>,
    },
    Other,
}

impl<'de> Deserialize<'de> for Sizes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizesVisitor)
    }
}

struct SizesVisitor;

impl<'de> Visitor<'de> for SizesVisitor {
    type Value = Sizes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sizes")
    }

    fn visit_i64<E>(self, number: i64) -> Result<Sizes, E> {
        Ok(Sizes::Number(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Sizes, E> {
        Ok(i64::try_from(number).map_or(Sizes::Other, Sizes::Number))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Sizes, E> {
        Ok(Sizes::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Sizes, E> {
        Ok(Sizes::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Sizes, E> {
        Ok(Sizes::Other)
    }

    fn visit_unit<E>(self) -> Result<Sizes, E> {
        Ok(Sizes::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sizes, A::Error> {
        while map.next_entry::<IgnoredAny, Sizes>()?.is_some() {}
        Ok(Sizes::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Sizes, A::Error> {
        let (mut numbers, mut each, mut is_first) = (Vec::new(), None, true);
        while let Some(item) = seq.next_element()? {
            if std::mem::take(&mut is_first) && matches!(item, Sizes::List { .. }) {
                each = Some(Vec::new());
            }
            if let Sizes::Number(number) = item {
                numbers.push(number);
            }
            if let Some(each) = &mut each {
                each.push(if let Sizes::List { numbers, .. } = item { numbers } else { Vec::new() });
            }
        }
        Ok(Sizes::List { numbers, each })
    }
}

fn words_of(json: &str) -> Option<Arc<[String]>> {
    let word = |item: Json| match item {
        Json::String(text) => text,
        other => pyliteral::of_json(&other.to_string()),
    };
    let items: Vec<Json> = serde_json::from_str(json).ok()?;
    Some(items.into_iter().map(word).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_models_want_them() {
        let dims = [Dims::Shape(vec![2, 3]), Dims::Shape(vec![]), Dims::List(vec![vec![4], vec![5, 6]])];
        assert_eq!(dims_of("[[2,3],[],[[4],[5,6]]]").as_deref(), Some(&dims[..]));
        let words = ["", "1", "3"].map(str::to_owned);
        assert_eq!(words_of("[\"\",\"1\",3]").as_deref(), Some(&words[..]));
        assert_eq!((dims_of("oops"), words_of("oops")), (None, None));
    }

    #[test]
    fn calls_with_the_same_lists_share_them() {
        let mut b = jarvis_trace::TraceBuilder::new();
        for (i, dims) in ["[[1,2]]", "[[3]]", "[[1,2]]"].into_iter().enumerate() {
            b.cpu_op("aten::relu", i as f64, 0.5).arg("Input Dims", dims).arg("Input type", "[\"float\"]");
        }
        let (trace, lists) = (b.build(), ArgLists::default());
        let [first, other, again] = [0, 1, 2].map(|i| lists.of(&trace, trace.events().nth(i).unwrap()));
        assert!(Arc::ptr_eq(&first, &again) && !Arc::ptr_eq(&first, &other));
        assert_eq!(other.dims.as_deref(), Some(&[Dims::Shape(vec![3])][..]));
        assert_eq!(other.strides, None);
        assert!(Arc::ptr_eq(first.types.as_ref().unwrap(), other.types.as_ref().unwrap()), "lists one by one too");
    }

    #[test]
    fn what_is_no_size_is_left_out() {
        let odd = r#"[3,null,"x",{"a":[1]},[4,-5,1.5,"6",true,18446744073709551615,[7],8],[[1],2,[[3],4]]]"#;
        let mut expected = vec![Dims::Shape(vec![]); 4];
        expected.push(Dims::Shape(vec![4, -5, 8]));
        expected.push(Dims::List(vec![vec![1], vec![], vec![4]]));
        assert_eq!(dims_of(odd).as_deref(), Some(&expected[..]));
        for damaged in ["3", "{}", "[[1]", "[[1],]", "[1e999]"] {
            assert_eq!(dims_of(damaged), None, "{damaged}");
        }
    }
}

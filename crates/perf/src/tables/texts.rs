//! Texts that cells show, each held once. Group keys compare handles instead of texts.

use std::sync::Arc;

use jarvis_trace::{StrId, Trace, pyliteral};
use rapidhash::RapidHashMap;

/// Handle of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TextId(u32);

/// The texts.
#[derive(Debug, Clone)]
pub(crate) struct Texts<'a> {
    trace: &'a Trace,
    list: Vec<Arc<str>>,
    index: RapidHashMap<Arc<str>, TextId>,
    of_trace: RapidHashMap<StrId, TextId>,
    tuples: RapidHashMap<StrId, TextId>,
    lists: RapidHashMap<StrId, TextId>,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(trace: &'a Trace) -> Self {
        Self {
            trace,
            list: Vec::new(),
            index: RapidHashMap::default(),
            of_trace: RapidHashMap::default(),
            tuples: RapidHashMap::default(),
            lists: RapidHashMap::default(),
        }
    }

    pub(crate) fn intern(&mut self, text: &str) -> TextId {
        if let Some(&id) = self.index.get(text) {
            return id;
        }
        let id = TextId(self.list.len() as u32);
        let shared: Arc<str> = text.into();
        self.list.push(Arc::clone(&shared));
        self.index.insert(shared, id);
        id
    }

    /// A text of the trace.
    pub(crate) fn of(&mut self, text: StrId) -> TextId {
        if let Some(&id) = self.of_trace.get(&text) {
            return id;
        }
        let id = self.intern(self.trace.text(text));
        self.of_trace.insert(text, id);
        id
    }

    /// A list of the trace in the form of nested tuples; what is no list stays as it is.
    pub(crate) fn tuple(&mut self, json: StrId) -> TextId {
        if let Some(&id) = self.tuples.get(&json) {
            return id;
        }
        let id = self.intern(&tuple_text(self.trace.text(json)));
        self.tuples.insert(json, id);
        id
    }

    /// A list of the trace in the form of nested lists; what is no list stays as it is.
    pub(crate) fn list(&mut self, json: StrId) -> TextId {
        if let Some(&id) = self.lists.get(&json) {
            return id;
        }
        let id = self.intern(&list_text(self.trace.text(json)));
        self.lists.insert(json, id);
        id
    }

    pub(crate) fn get(&self, id: TextId) -> Arc<str> {
        Arc::clone(&self.list[id.0 as usize])
    }

    pub(crate) fn str(&self, id: TextId) -> &str {
        &self.list[id.0 as usize]
    }

    /// A text of the trace, shared.
    pub(crate) fn shared(&mut self, text: StrId) -> Arc<str> {
        let id = self.of(text);
        self.get(id)
    }
}

/// A JSON list in the notation of Python, as a list.
pub(crate) fn list_text(json: &str) -> String {
    if is_container(json) { pyliteral::of_json(json) } else { json.to_owned() }
}

/// A JSON list in the notation of Python, lists as tuples: `[[1, 2], []]` → `((1, 2), ())`, `["a"]` → `('a',)`.
pub fn tuple_text(json: &str) -> String {
    if !is_container(json) {
        return json.to_owned();
    }
    let list = pyliteral::of_json(json);
    let mut out = String::with_capacity(list.len() + 8);
    // Whether each open list has an element, and whether it has a comma.
    let mut open: Vec<(bool, bool)> = Vec::new();
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for c in list.chars() {
        if let Some(q) = quote {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == q => quote = None,
                _ => {}
            }
            out.push(c);
            continue;
        }
        match c {
            ']' => {
                let (filled, comma) = open.pop().unwrap_or_default();
                out.push_str(if filled && !comma { ",)" } else { ")" });
            }
            ',' => {
                if let Some(list) = open.last_mut() {
                    list.1 = true;
                }
                out.push(',');
            }
            ' ' => out.push(' '),
            c => {
                if let Some(list) = open.last_mut() {
                    list.0 = true;
                }
                match c {
                    '[' => {
                        open.push((false, false));
                        out.push('(');
                    }
                    '\'' | '"' => {
                        quote = Some(c);
                        out.push(c);
                    }
                    c => out.push(c),
                }
            }
        }
    }
    out
}

fn is_container(json: &str) -> bool {
    json.starts_with(['[', '{'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_become_tuples() {
        for (json, tuple) in [
            ("[[1, 141, 512], [512,512], []]", "((1, 141, 512), (512, 512), ())"),
            ("[[5]]", "((5,),)"),
            ("[]", "()"),
            ("[[], [[1,2],[3]]]", "((), ((1, 2), (3,)))"),
            ("[\"\", \"[1, 1]\", \"it's\"]", "('', '[1, 1]', \"it's\")"),
            ("[\"a\\\\\", \"b\"]", "('a\\\\', 'b')"),
            ("[null, true, 0.5]", "(None, True, 0.5)"),
            ("plain", "plain"),
        ] {
            assert_eq!(tuple_text(json), tuple, "{json}");
        }
        assert_eq!(list_text("[[1,2],[\"\"]]"), "[[1, 2], ['']]");
        assert_eq!(list_text("[0, 1]".trim()), "[0, 1]");
    }

    #[test]
    fn equal_texts_share_a_handle() {
        let mut b = jarvis_trace::TraceBuilder::new();
        b.cpu_op("a", 0.0, 1.0).arg("Input Dims", "[[1,2]]");
        b.cpu_op("b", 2.0, 1.0).arg("Input Dims", "[[1, 2]]");
        let trace = b.build();
        let mut texts = Texts::new(&trace);
        let mut dims = |i: usize| {
            let e = trace.events().nth(i).unwrap();
            texts.tuple(trace.text_id(e, jarvis_trace::Key::InputDims).unwrap())
        };
        assert_eq!(dims(0), dims(1));
    }
}

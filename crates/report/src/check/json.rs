//! JSON as the checks read it. Its texts are those of the file, so that a file which is read to be looked at once is
//! not copied piece by piece; `serde_json::Value` took more than twice as long.

use std::borrow::Cow;
use std::fmt;
use std::ops::Index;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Number, Value};

/// A value of a JSON file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) enum Json<'a> {
    #[default]
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    List(Vec<Self>),
    Object(Object<'a>),
}

/// An object: its keys in order, each once.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Object<'a>(Vec<(Cow<'a, str>, Json<'a>)>);

impl<'a> Object<'a> {
    pub(super) fn get(&self, key: &str) -> Option<&Json<'a>> {
        self.place(key).ok().map(|at| &self.0[at].1)
    }

    /// Keys and values, in order of the keys.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Json<'a>)> {
        self.0.iter().map(|(key, value)| (&**key, value))
    }

    pub(super) fn into_entries(self) -> Vec<(Cow<'a, str>, Json<'a>)> {
        self.0
    }

    /// The last of several values of a key is the one that counts.
    fn insert(&mut self, key: Cow<'a, str>, value: Json<'a>) {
        match self.place(&key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Where a key stands, else where it would.
    fn place(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| (**other).cmp(key))
    }
}

impl<'a> Json<'a> {
    /// Reads a file.
    pub(super) fn read(bytes: &'a [u8]) -> serde_json::Result<Self> {
        serde_json::from_slice(bytes)
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    pub(super) fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(super) fn as_f64(&self) -> Option<f64> {
        if let Self::Number(number) = self { number.as_f64() } else { None }
    }

    pub(super) fn as_u64(&self) -> Option<u64> {
        if let Self::Number(number) = self { number.as_u64() } else { None }
    }

    pub(super) fn as_object(&self) -> Option<&Object<'a>> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// The items of a list; none if it is no list.
    pub(super) fn items(&self) -> &[Self] {
        if let Self::List(items) = self { items } else { &[] }
    }

    fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(is) => Value::Bool(*is),
            Self::Number(number) => Value::Number(number.clone()),
            Self::String(text) => Value::String(text.to_string()),
            Self::List(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(object) => object.iter().map(|(key, value)| (key.to_owned(), value.to_value())).collect(),
        }
    }
}

/// The value of a key; `Null` where there is none.
impl Index<&str> for Json<'_> {
    type Output = Self;

    fn index(&self, key: &str) -> &Self {
        self.as_object().and_then(|object| object.get(key)).unwrap_or(&Json::Null)
    }
}

impl PartialEq<str> for Json<'_> {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<&str> for Json<'_> {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

/// As it would stand in a file, on one line.
impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

impl<'de> Deserialize<'de> for Json<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any valid JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, is: bool) -> Result<Self::Value, E> {
        Ok(Json::Bool(is))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Json::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(number).map_or(Json::Null, Json::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Json::String(Cow::Borrowed(text)))
    }

    /// A text with escaped characters, which does not stand in the file as it is.
    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Json::String(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Json::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = Object::default();
        while let Some((key, value)) = map.next_entry()? {
            let Json::String(key) = key else { return Err(A::Error::custom("a key is no text")) };
            object.insert(key, value);
        }
        Ok(Json::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_reads_as_serde_json_reads_it() {
        let texts = [
            r#"{"b": [1, -2, 2.50, 1e3, null, true], "a": {"x\"y": "ü\n", "": {}}, "b2": [], "a": 1.0, "c": -0}"#,
            "[18446744073709551615, -9223372036854775808, 123456789012345678901234567890, 0.1]",
            " null ",
            "\"\\ud83d\\udd34 x\"",
        ];
        for text in texts {
            let expected: Value = serde_json::from_str(text).unwrap();
            let json = Json::read(text.as_bytes()).unwrap();
            assert_eq!(json.to_value(), expected);
            assert_eq!(json.to_string(), expected.to_string());
            assert_eq!(Json::deserialize(&expected).unwrap(), json);
        }
    }

    #[test]
    fn what_is_no_json_is_told_as_serde_json_tells_it() {
        let deep = "[".repeat(200);
        let texts = [
            "",
            "{",
            "{\"a\": NaN}",
            "[1,]",
            "{\"a\" 1}",
            "{1: 2}",
            "1e999",
            "\"\u{1}\"",
            "\"\\ud800\"",
            "{} x",
            &deep,
        ];
        let bytes = texts.iter().map(|text| text.as_bytes()).chain([&b"[\"\xff\"]"[..], b"{\"\xff\": 1}"]);
        for bytes in bytes {
            let expected = serde_json::from_slice::<Value>(bytes).unwrap_err();
            assert_eq!(Json::read(bytes).unwrap_err().to_string(), expected.to_string(), "{bytes:?}");
        }
    }

    #[test]
    fn keys_are_found_and_the_last_of_several_counts() {
        let json = Json::read(br#"{"b": 1, "a": "x", "b": {"c": 2}}"#).unwrap();
        assert!(json["a"] == "x" && json["b"]["c"].as_u64() == Some(2));
        assert!(json["none"]["c"].is_null() && json["a"]["c"].is_null());
        assert_eq!(json.as_object().unwrap().iter().map(|(key, _)| key).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(Json::read(br#"{"b": {"c": 2}, "a": "x"}"#).unwrap(), json, "in whatever order");
    }
}

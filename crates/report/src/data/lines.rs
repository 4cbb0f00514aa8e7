//! JSON with a value a line, two spaces a level: the layout of `serde_json`'s own, which writes an indent level by level.
//! Long lists can have what lies deep within their entries on one line.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// A comma, a line end and the indent of sixteen levels: nearly every line begins with a part of it.
const START: &[u8] = b",\n                                ";

/// Spaces of a level.
const INDENT: usize = 2;

/// Where the writing is.
#[derive(Debug)]
pub(crate) struct Lines {
    depth: usize,
    /// From here on, lists and objects stay on their line.
    deepest: usize,
    /// Whether the list or object that ends holds anything; an empty one stays on its line.
    has_value: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::down_to(usize::MAX)
    }
}

impl Lines {
    /// A line for every value of so many levels.
    pub(crate) fn down_to(deepest: usize) -> Self {
        Self { depth: 0, deepest, has_value: false }
    }

    fn line<W: ?Sized + Write>(&self, out: &mut W, comma: bool) -> io::Result<()> {
        if self.depth > self.deepest {
            return if comma { out.write_all(b", ") } else { Ok(()) };
        }
        let start = &START[usize::from(!comma)..];
        let len = usize::from(comma) + 1 + INDENT * self.depth;
        out.write_all(&start[..len.min(start.len())])?;
        (start.len()..len).try_for_each(|_| out.write_all(b" "))
    }

    fn begin<W: ?Sized + Write>(&mut self, out: &mut W, bracket: u8) -> io::Result<()> {
        self.depth += 1;
        self.has_value = false;
        out.write_all(&[bracket])
    }

    fn end<W: ?Sized + Write>(&mut self, out: &mut W, bracket: u8) -> io::Result<()> {
        let on_its_line = self.depth > self.deepest;
        self.depth -= 1;
        if self.has_value && !on_its_line {
            self.line(out, false)?;
        }
        out.write_all(&[bracket])
    }
}

impl Formatter for Lines {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b'[')
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b']')
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.line(out, !first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin(out, b'{')
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.end(out, b'}')
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.line(out, !first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::{Serializer, Value, json};

    use super::*;

    #[test]
    fn the_layout_is_the_usual_one() {
        let mut deep = json!({"a": [1, {"b": []}], "c": {}, "d": "x"});
        for _ in 0..40 {
            deep = json!([deep, {"e": Value::Null}]);
        }
        let mut out = Vec::new();
        deep.serialize(&mut Serializer::with_formatter(&mut out, Lines::default())).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string_pretty(&deep).unwrap());
    }

    #[test]
    fn what_lies_deep_stays_on_its_line() {
        let value = json!({"a": [{"b": [[1, 2], [], {"c": {"d": 3, "e": {}}}], "f": 4}, {}], "g": []});
        let mut out = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut out, Lines::down_to(3))).unwrap();
        let expected = r#"{
  "a": [
    {
      "b": [[1, 2], [], {"c": {"d": 3, "e": {}}}],
      "f": 4
    },
    {}
  ],
  "g": []
}"#;
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}

//! JSON with a value a line, two spaces a level: the layout of `serde_json`'s own, which writes an indent level by level.

use std::io::{self, Write};

use serde_json::ser::Formatter;

/// A comma, a line end and the indent of sixteen levels: nearly every line begins with a part of it.
const START: &[u8] = b",\n                                ";

/// Spaces of a level.
const INDENT: usize = 2;

/// Where the writing is.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    depth: usize,
    /// Whether the list or object that ends holds anything; an empty one stays on its line.
    has_value: bool,
}

impl Lines {
    fn line<W: ?Sized + Write>(&self, out: &mut W, comma: bool) -> io::Result<()> {
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
        self.depth -= 1;
        if self.has_value {
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
}

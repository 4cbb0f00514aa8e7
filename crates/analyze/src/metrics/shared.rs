//! Values that a file shows in another form than the row they are of has them. They take their form as they are
//! written: there are as many as distinct calls.

use std::sync::Arc;

use jarvis_perf::call::{Dims, InputLists};
use jarvis_trace::shortened;
use serde::{Serialize, Serializer};

use crate::program::base_name;

/// Longest short name of a kernel or an operation, in characters.
const SHORT_NAME: usize = 75;

/// The first characters of a name.
pub(crate) fn short_name(name: &str) -> String {
    shortened(name, SHORT_NAME, "...").into_owned()
}

/// The first characters of a kernel's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortName<'a>(pub &'a str);

impl ShortName<'_> {
    /// As it is shown.
    pub fn text(&self) -> String {
        short_name(self.0)
    }
}

impl Serialize for ShortName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text())
    }
}

/// Modules, outermost first, without numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModuleChain<'a>(pub &'a [Arc<str>]);

impl<'a> ModuleChain<'a> {
    /// The innermost one.
    pub fn last(self) -> Option<&'a str> {
        self.0.last().map(|module| base_name(module))
    }
}

impl Serialize for ModuleChain<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|module| base_name(module)))
    }
}

/// Sizes of the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputDims<'a>(pub &'a InputLists);

impl Serialize for InputDims<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        sizes(self.0.dims.as_deref(), serializer)
    }
}

/// Element types of the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputTypes<'a>(pub &'a InputLists);

impl Serialize for InputTypes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.types.serialize(serializer)
    }
}

/// Strides of the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct InputStrides<'a>(pub &'a InputLists);

impl Serialize for InputStrides<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        sizes(self.0.strides.as_deref(), serializer)
    }
}

/// Sizes as they were recorded.
fn sizes<S: Serializer>(dims: Option<&[Dims]>, serializer: S) -> Result<S::Ok, S::Error> {
    struct One<'a>(&'a Dims);

    impl Serialize for One<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 {
                Dims::Shape(sizes) => sizes.serialize(serializer),
                Dims::List(list) => list.serialize(serializer),
            }
        }
    }

    match dims {
        Some(dims) => serializer.collect_seq(dims.iter().map(One)),
        None => serializer.serialize_none(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::args::{dims_json, types_json};

    fn json(value: &impl Serialize) -> String {
        serde_json::to_string(value).unwrap()
    }

    #[test]
    fn values_of_a_row_read_as_their_copies_do() {
        let lists = InputLists {
            dims: Some([Dims::Shape(vec![8, 1]), Dims::Shape(vec![]), Dims::List(vec![vec![2], vec![]])].into()),
            types: Some(["float".to_owned(), String::new()].into()),
            strides: None,
            concrete: None,
        };
        assert_eq!(json(&InputDims(&lists)), dims_json(lists.dims.as_deref()).to_string());
        assert_eq!(json(&InputTypes(&lists)), types_json(lists.types.as_deref()).to_string());
        assert_eq!(json(&InputStrides(&lists)), "null");
        assert_eq!(json(&ModuleChain(&["Net_0".into(), "Linear_12".into()])), r#"["Net","Linear"]"#);
        assert_eq!(json(&ShortName(&"k".repeat(76))), format!("\"{}...\"", "k".repeat(75)));
    }
}

//! `OpCall`: one distinct call of an operation, as the models see it. Models never see the trace or the tree.

use std::sync::Arc;

use crate::dtype;
use crate::kernels;
use crate::launch::Launch;
use crate::parity::Quirks;
use crate::value::Value;

/// One entry of `Input Dims` or `Input Strides`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Dims {
    /// A tensor's sizes (empty for scalars, `None` and 0-dim tensors).
    Shape(Vec<i64>),
    /// The sizes of each tensor of a tensor list.
    List(Vec<Vec<i64>>),
}

impl Dims {
    /// The sizes, if this is one tensor and not a list of tensors.
    pub fn shape(&self) -> Option<&[i64]> {
        match self {
            Self::Shape(s) => Some(s),
            Self::List(_) => None,
        }
    }
}

/// The four parallel input lists of an operation; `None` where the trace lacks the list. Calls of many shapes have few
/// different types and scalars, so lists are shared one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct InputLists {
    /// `Input Dims`.
    pub dims: Option<Arc<[Dims]>>,
    /// `Input type`.
    pub types: Option<Arc<[String]>>,
    /// `Input Strides`.
    pub strides: Option<Arc<[Dims]>>,
    /// `Concrete Inputs`: always text in the trace, `""` for tensors.
    pub concrete: Option<Arc<[String]>>,
}

/// One distinct call: everything a model may know.
#[derive(Debug, Clone, Copy)]
pub struct OpCall<'a> {
    /// Operation name, such as `aten::mm`.
    pub name: &'a str,
    /// Shapes, types, strides, scalars.
    pub inputs: &'a InputLists,
    /// Names of the kernels below this call, in order of start time.
    pub kernels: &'a [&'a str],
    /// Launches of these kernels, in the same order; empty where nothing depends on them: they stand in for the sizes of
    /// tensors that the trace does not record.
    pub launches: &'a [Option<Launch>],
    /// `Sequence number`, where recorded.
    pub sequence: Option<i64>,
    /// Name of the enclosing step annotation, for the operations that need it (`"NA"` if there is none).
    pub annotation: Option<&'a str>,
    /// Further arguments by name (`MoE topk`, `v4_H_Q`, …).
    pub extra: &'a [(&'a str, Value)],
    /// For a backward operation whose sizes stand in its forward call: that call's inputs.
    pub forward: Option<&'a InputLists>,
}

/// Name of the extra argument that holds the type of the tensors next to a call, for lists whose kernels don't tell.
pub const SIBLING_DTYPE: &str = "sibling dtype";

impl OpCall<'_> {
    /// The extra argument called `name`.
    pub fn extra_arg(&self, name: &str) -> Option<&Value> {
        self.extra.iter().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Type of the call's tensor lists: from its kernels' templates, else from the tensors next to it; empty if
    /// neither tells.
    pub fn list_dtype(&self) -> &str {
        kernels::list_dtype(self.kernels).unwrap_or_else(|| self.sibling_dtype())
    }

    /// Bytes of an element of the call's tensor lists: from its kernels' templates, else from the tensors next to it.
    pub fn list_element_size(&self) -> Option<i64> {
        kernels::list_element_size(self.kernels).or_else(|| dtype::size(self.sibling_dtype(), &Quirks::NONE))
    }

    fn sibling_dtype(&self) -> &str {
        match self.extra_arg(SIBLING_DTYPE) {
            Some(Value::Str(name)) => name,
            _ => "",
        }
    }
}

//! Reads one slot of a call's four input lists, by the rules that the models share.
//!
//! In formulas and comments `D0`, `T1`, `S2`, `C3` are the slots of `Input Dims`, `Input type`, `Input Strides` and
//! `Concrete Inputs`. A tensor slot has `C = ""`; a number or `None` has `D = []`. Reading past the end of a list
//! fails the model, as does a list that the trace lacks.

use crate::call::{Dims, InputLists, OpCall};
use crate::count::Count;
use crate::dtype;
use crate::literal;
use crate::models::ModelError;
use crate::parity::Quirks;
use crate::value::Value;

/// The input lists of one call.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    inputs: &'a InputLists,
}

impl<'a> Args<'a> {
    /// The arguments of `call`.
    pub fn of(call: &OpCall<'a>) -> Self {
        Self { inputs: call.inputs }
    }

    /// The arguments in `inputs`.
    pub fn new(inputs: &'a InputLists) -> Self {
        Self { inputs }
    }

    /// Number of entries of `Input Dims` (0 where the trace has none).
    pub fn len(&self) -> usize {
        self.inputs.dims.as_deref().map_or(0, <[_]>::len)
    }

    /// Whether `Input Dims` is empty or absent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// `D[i]`: a shape or a list of shapes.
    pub fn dims(&self, i: usize) -> Result<&'a Dims, ModelError> {
        slot(self.inputs.dims.as_deref(), i, "Input Dims")
    }

    /// `D[i]` as one shape; fails on a tensor list.
    pub fn shape(&self, i: usize) -> Result<&'a [i64], ModelError> {
        self.dims(i)?.shape().ok_or_else(|| ModelError::fail(format!("input {i} is a list of tensors, not a tensor")))
    }

    /// `D[i]` as one shape, empty if there is no such slot or it holds a list.
    pub fn shape_or_empty(&self, i: usize) -> &'a [i64] {
        self.shape(i).unwrap_or(&[])
    }

    /// `D[i]` as a list of shapes; a lone tensor is a list of one, a lone empty slot an empty list.
    pub fn shapes(&self, i: usize) -> Result<Vec<&'a [i64]>, ModelError> {
        Ok(match self.dims(i)? {
            Dims::Shape(shape) if shape.is_empty() => Vec::new(),
            Dims::Shape(shape) => vec![shape],
            Dims::List(shapes) => shapes.iter().map(Vec::as_slice).collect(),
        })
    }

    /// Whether slot `i` exists and has at least one dimension: the test for "a tensor was given".
    pub fn has_tensor(&self, i: usize) -> bool {
        match self.dims(i) {
            Ok(Dims::Shape(shape)) => !shape.is_empty(),
            Ok(Dims::List(shapes)) => !shapes.is_empty(),
            Err(_) => false,
        }
    }

    /// Whether an argument is a number of the program and no tensor.
    pub fn is_number(&self, i: usize) -> bool {
        self.dtype_or_empty(i).eq_ignore_ascii_case("Scalar")
    }

    /// `D[i][j]`.
    pub fn dim(&self, i: usize, j: usize) -> Result<i64, ModelError> {
        let shape = self.shape(i)?;
        shape.get(j).copied().ok_or_else(|| ModelError::fail(format!("input {i} has {} dimensions", shape.len())))
    }

    /// The last entry of `D[i]`.
    pub fn last_dim(&self, i: usize) -> Result<i64, ModelError> {
        self.shape(i)?.last().copied().ok_or_else(|| ModelError::fail(format!("input {i} has no dimensions")))
    }

    /// `D[i]` as exactly `N` sizes.
    pub fn sizes<const N: usize>(&self, i: usize) -> Result<[i64; N], ModelError> {
        let shape = self.shape(i)?;
        shape.try_into().map_err(|_| ModelError::fail(format!("input {i} has {} dimensions, not {N}", shape.len())))
    }

    /// Whether slots `i` and `j` have the same sizes, type and strides, as the same tensor has.
    pub fn are_alike(&self, i: usize, j: usize) -> bool {
        let strides = |i: usize| self.inputs.strides.as_ref().and_then(|strides| strides.get(i));
        let known = self.dims(i).is_ok() && self.dims(j).is_ok();
        known && self.dims(i) == self.dims(j) && self.dtype(i) == self.dtype(j) && strides(i) == strides(j)
    }

    /// |`D[i]`|, the elements of one tensor.
    pub fn numel(&self, i: usize) -> Result<Count, ModelError> {
        self.shape(i).map(Count::of)
    }

    /// `T[i]`.
    pub fn dtype(&self, i: usize) -> Result<&'a str, ModelError> {
        slot(self.inputs.types.as_deref(), i, "Input type").map(String::as_str)
    }

    /// `T[i]`, or the empty text if there is no such slot.
    pub fn dtype_or_empty(&self, i: usize) -> &'a str {
        self.dtype(i).unwrap_or("")
    }

    /// Number of entries of `Input type` (0 where the trace has none).
    pub fn type_count(&self) -> usize {
        self.inputs.types.as_deref().map_or(0, <[_]>::len)
    }

    /// Bytes of an element of slot `i`; `None` if its type is unknown. Fails past the end.
    pub fn size(&self, i: usize, quirks: &Quirks) -> Result<Option<i64>, ModelError> {
        Ok(dtype::size(self.dtype(i)?, quirks))
    }

    /// Bytes of an element of slot `i`; fails if its type is unknown.
    pub fn known_size(&self, i: usize, quirks: &Quirks) -> Result<i64, ModelError> {
        let name = self.dtype(i)?;
        dtype::size(name, quirks).ok_or_else(|| unknown_dtype(name))
    }

    /// Whether the trace has `Input Strides` at all.
    pub fn has_strides(&self) -> bool {
        self.inputs.strides.is_some()
    }

    /// `S[i]`; fails where the trace has no strides.
    pub fn stride(&self, i: usize) -> Result<&'a [i64], ModelError> {
        let strides: &Dims = slot(self.inputs.strides.as_deref(), i, "Input Strides")?;
        strides.shape().ok_or_else(|| ModelError::fail(format!("input {i} is a list of tensors, not a tensor")))
    }

    /// `S[i]` as a parameter; fails where the trace has no strides.
    pub fn stride_param(&self, i: usize) -> Result<Value, ModelError> {
        self.stride(i).map(Value::shape)
    }

    /// `S[i]` as a parameter; `None` where the trace has no strides.
    pub fn optional_stride_param(&self, i: usize) -> Result<Value, ModelError> {
        if self.has_strides() { self.stride_param(i) } else { Ok(Value::None) }
    }

    /// `S[i]` as a parameter where a model shows it without needing it: absent strides fail in the reference alone.
    pub fn shown_stride(&self, i: usize, quirks: &Quirks) -> Result<Value, ModelError> {
        if quirks.missing_strides_fail { self.stride_param(i) } else { Ok(self.stride_param(i).unwrap_or(Value::None)) }
    }

    /// Whether an operand is no array of its elements, but a sparse tensor: it has dimensions and no strides, though others
    /// have. Where nothing has strides, the trace does not tell.
    pub fn has_sparse_tensor(&self) -> bool {
        let ranks = || (0..self.len()).filter_map(|i| Some((self.shape(i).ok()?.len(), self.stride(i).ok()?.len())));
        let is_strided = |(dims, strides): (usize, usize)| dims > 0 && strides == dims;
        ranks().any(|(dims, strides)| dims > 0 && strides == 0) && ranks().any(is_strided)
    }

    /// `D[i]` as memory holds it: dimensions of stride 0 (expanded ones) have one entry.
    pub fn stored_shape(&self, i: usize) -> Result<Vec<i64>, ModelError> {
        Ok(stored_shape(self.shape(i)?, self.stride(i).unwrap_or(&[])))
    }

    /// Elements of each tensor of the list in slot `i` that memory really holds.
    pub fn stored_numels(&self, i: usize) -> Result<Vec<Count>, ModelError> {
        let strides = match self.inputs.strides.as_deref().and_then(|strides| strides.get(i)) {
            Some(Dims::List(strides)) => strides.as_slice(),
            _ => &[],
        };
        let stride = |at: usize| strides.get(at).map_or(&[][..], Vec::as_slice);
        Ok(match self.dims(i)? {
            Dims::List(shapes) => {
                shapes.iter().enumerate().map(|(at, shape)| Count::of(&stored_shape(shape, stride(at)))).collect()
            }
            Dims::Shape(shape) if shape.is_empty() => Vec::new(),
            Dims::Shape(_) => vec![self.stored_numel(i)?],
        })
    }

    /// Elements of slot `i` that memory really holds: expanded dimensions count once.
    pub fn stored_numel(&self, i: usize) -> Result<Count, ModelError> {
        self.stored_shape(i).map(|shape| Count::of(&shape))
    }

    /// Elements of slot `i` that are read: those in memory. The reference counts expanded dimensions in full (F27).
    pub fn read_numel(&self, i: usize, quirks: &Quirks) -> Result<Count, ModelError> {
        if quirks.expanded_operands_in_full { self.numel(i) } else { self.stored_numel(i) }
    }

    /// `C[i]`.
    pub fn concrete(&self, i: usize) -> Result<&'a str, ModelError> {
        slot(self.inputs.concrete.as_deref(), i, "Concrete Inputs").map(String::as_str)
    }

    /// `C[i]`, or the empty text if there is no such slot.
    pub fn concrete_or_empty(&self, i: usize) -> &'a str {
        self.concrete(i).unwrap_or("")
    }

    /// `int(C[i])`; fails unless it is one.
    pub fn int(&self, i: usize) -> Result<i64, ModelError> {
        let text = self.concrete(i)?;
        int(text).ok_or_else(|| ModelError::fail(format!("argument {i} is `{text}`, not a whole number")))
    }

    /// `float(C[i])`; fails unless it is one.
    pub fn float(&self, i: usize) -> Result<f64, ModelError> {
        let text = self.concrete(i)?;
        float(text).ok_or_else(|| ModelError::fail(format!("argument {i} is `{text}`, not a number")))
    }

    /// `flt(C[i])`: 0 where the number is missing or unreadable.
    pub fn float_or_zero(&self, i: usize) -> f64 {
        float(self.concrete_or_empty(i)).unwrap_or(0.0)
    }

    /// `bool_eq(C[i])`: whether the text is `true`, in any case of letters; false where missing.
    pub fn is_true(&self, i: usize) -> bool {
        self.concrete_or_empty(i).eq_ignore_ascii_case("true")
    }

    /// `truthy_str(C[i])`: whether there is any text at all. The reference takes `"False"` for true this way (F3).
    pub fn is_non_empty(&self, i: usize) -> bool {
        !self.concrete_or_empty(i).is_empty()
    }

    /// `flag(C[i])`: `true`/`1` → true, `false`/`0`/empty/`None` → false, any other text → true.
    pub fn flag(&self, i: usize) -> bool {
        let text = self.concrete_or_empty(i).trim();
        !matches!(text.to_ascii_lowercase().as_str(), "" | "false" | "0" | "none")
    }

    /// `lit(C[i])`: the literal the text spells; the empty text fails.
    pub fn literal(&self, i: usize) -> Result<Value, ModelError> {
        let text = self.concrete(i)?;
        literal::parse(text).ok_or_else(|| ModelError::fail(format!("argument {i} is `{text}`, not a literal")))
    }

    /// `lit(C[i])` as whole numbers: a list of them, or a lone one.
    pub fn literal_ints(&self, i: usize) -> Result<Vec<i64>, ModelError> {
        let value = self.literal(i)?;
        value.ints().ok_or_else(|| ModelError::fail(format!("argument {i} is `{value}`, not whole numbers")))
    }

    /// `lit(C[i])` as truth values.
    pub fn literal_bools(&self, i: usize) -> Result<Vec<bool>, ModelError> {
        let value = self.literal(i)?;
        let items = match &value {
            Value::List(items) | Value::Tuple(items) => items.iter().map(Value::truth).collect(),
            _ => return Err(ModelError::fail(format!("argument {i} is `{value}`, not a list"))),
        };
        Ok(items)
    }

    /// `ints(C[i])`: brackets off, split on commas, whole numbers.
    pub fn ints(&self, i: usize) -> Result<Vec<i64>, ModelError> {
        let text = self.concrete(i)?;
        ints(text).ok_or_else(|| ModelError::fail(format!("argument {i} is `{text}`, not whole numbers")))
    }
}

/// A shape as memory holds it: dimensions of stride 0 have one entry.
pub fn stored_shape(shape: &[i64], stride: &[i64]) -> Vec<i64> {
    let mut stored = shape.to_vec();
    if stride.len() == shape.len() && !shape.contains(&0) {
        stored.iter_mut().zip(stride).filter(|(_, step)| **step == 0).for_each(|(size, _)| *size = 1);
    }
    stored
}

fn slot<'a, T>(list: Option<&'a [T]>, i: usize, name: &str) -> Result<&'a T, ModelError> {
    let list = list.ok_or_else(|| ModelError::fail(format!("the trace has no {name}")))?;
    list.get(i).ok_or_else(|| ModelError::fail(format!("{name} has {} entries, input {i} is needed", list.len())))
}

/// The error for a type whose element size is unknown.
pub fn unknown_dtype(name: &str) -> ModelError {
    ModelError::fail(format!("the size of type `{name}` is unknown"))
}

/// A whole number as Python's `int` reads it.
pub fn int(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

/// A number as Python's `float` reads it.
pub fn float(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// Whole numbers between brackets, separated by commas.
pub fn ints(text: &str) -> Option<Vec<i64>> {
    text.trim().trim_matches(['[', ']', '(', ')']).split(',').map(int).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lists(concrete: &[&str]) -> InputLists {
        InputLists {
            dims: Some([Dims::Shape(vec![2, 3]), Dims::Shape(vec![]), Dims::List(vec![vec![4], vec![5]])].into()),
            types: Some(["float".to_owned(), "Scalar".to_owned(), "TensorList".to_owned()].into()),
            strides: Some([Dims::Shape(vec![0, 1]), Dims::Shape(vec![]), Dims::List(vec![vec![1], vec![1]])].into()),
            concrete: Some(concrete.iter().map(|&c| c.to_owned()).collect()),
        }
    }

    #[test]
    fn slots_past_the_end_fail() {
        let inputs = lists(&[""]);
        let args = Args::new(&inputs);
        assert_eq!(args.shape(0), Ok(&[2, 3][..]));
        assert!(args.shape(2).is_err(), "a list is no tensor");
        assert!(args.dim(0, 2).is_err());
        assert!(args.dims(3).is_err());
        assert!(args.concrete(1).is_err());
        assert!(Args::new(&InputLists::default()).dtype(0).is_err());
        assert_eq!(args.shapes(2), Ok(vec![&[4][..], &[5][..]]));
        assert_eq!(args.shapes(1), Ok(vec![]));
        assert!(args.has_tensor(0) && !args.has_tensor(1) && args.has_tensor(2) && !args.has_tensor(3));
    }

    #[test]
    fn expanded_dimensions_are_stored_once() {
        let inputs = lists(&[]);
        let args = Args::new(&inputs);
        assert_eq!(args.numel(0), Ok(Count::from(6_i64)));
        assert_eq!(args.stored_numel(0), Ok(Count::from(3_i64)));
        assert_eq!(args.stored_shape(0), Ok(vec![1, 3]));
        assert_eq!(args.stored_numels(2), Ok(vec![4_i64.into(), 5_i64.into()]));
        assert_eq!(args.stored_numels(0), Ok(vec![3_i64.into()]));
        assert_eq!(args.stored_numels(1), Ok(vec![]));
    }

    #[test]
    fn scalars_by_the_rules_of_the_reference() {
        let inputs = lists(&["", "0.", "False", "[1, 2]", "7", "TRUE", "None", "abc"]);
        let args = Args::new(&inputs);
        assert!([0, 1, 6, 7].into_iter().all(|i| args.float_or_zero(i) == 0.0));
        assert_eq!([2, 5, 0, 99].map(|i| args.is_true(i)), [false, true, false, false]);
        assert_eq!([2, 0].map(|i| args.is_non_empty(i)), [true, false]);
        assert_eq!([0, 2, 4, 5, 6, 7].map(|i| args.flag(i)), [false, false, true, true, false, true]);
        assert_eq!(args.ints(3), Ok(vec![1, 2]));
        assert_eq!(args.literal_ints(3), Ok(vec![1, 2]));
        assert_eq!(args.int(4), Ok(7));
        assert!(args.literal(0).is_err() && args.int(7).is_err());
    }
}

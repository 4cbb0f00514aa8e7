//! Tensors as the profiler sees them (type, sizes, strides) and the four input lists of an op.

use super::layout::Pen;

/// Element types that occur, with PyTorch's name, its `ScalarType` number and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DType {
    BFloat16,
    Float,
    Long,
}

impl DType {
    /// The name in `Input type`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::BFloat16 => "c10::BFloat16",
            Self::Float => "float",
            Self::Long => "long int",
        }
    }

    /// The number in `Concrete Inputs`.
    pub(super) fn code(self) -> &'static str {
        match self {
            Self::BFloat16 => "15",
            Self::Float => "6",
            Self::Long => "4",
        }
    }

    /// Bytes of one element.
    pub(super) fn bytes(self) -> i64 {
        match self {
            Self::BFloat16 => 2,
            Self::Float => 4,
            Self::Long => 8,
        }
    }
}

/// A tensor without its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tensor {
    pub(super) dtype: DType,
    pub(super) dims: Vec<i64>,
    pub(super) strides: Vec<i64>,
}

impl Tensor {
    /// A contiguous tensor.
    pub(super) fn new(dtype: DType, dims: &[i64]) -> Self {
        let mut strides = vec![1; dims.len()];
        for axis in (1..dims.len()).rev() {
            strides[axis - 1] = strides[axis] * dims[axis];
        }
        Self { dtype, dims: dims.to_vec(), strides }
    }

    /// A contiguous tensor of bfloat16, the type of weights and activations here.
    pub(super) fn bf16(dims: &[i64]) -> Self {
        Self::new(DType::BFloat16, dims)
    }

    /// Contiguous, same sizes, another type.
    pub(super) fn cast(&self, dtype: DType) -> Self {
        Self::new(dtype, &self.dims)
    }

    /// Contiguous, same type, other sizes.
    pub(super) fn resized(&self, dims: &[i64]) -> Self {
        Self::new(self.dtype, dims)
    }

    /// The same memory with two axes exchanged.
    pub(super) fn swapped(&self, one: usize, other: usize) -> Self {
        let mut tensor = self.clone();
        tensor.dims.swap(one, other);
        tensor.strides.swap(one, other);
        tensor
    }

    /// The same memory with one axis cut to `len`.
    pub(super) fn narrowed(&self, axis: usize, len: i64) -> Self {
        let mut tensor = self.clone();
        tensor.dims[axis] = len;
        tensor
    }

    /// Whether elements lie one after the other.
    pub(super) fn is_contiguous(&self) -> bool {
        Self::new(self.dtype, &self.dims).strides == self.strides
    }

    /// Number of elements.
    pub(super) fn elements(&self) -> i64 {
        self.dims.iter().product()
    }

    /// Bytes of the elements.
    pub(super) fn bytes(&self) -> i64 {
        self.elements() * self.dtype.bytes()
    }
}

/// One argument of an op.
#[derive(Clone, Debug)]
pub(super) enum Arg<'a> {
    /// A tensor.
    T(&'a Tensor),
    /// A list of tensors.
    Ts(&'a [Tensor]),
    /// A list of tensors too long for the profiler to describe.
    Many,
    /// A scalar.
    S(&'a str),
    /// A scalar computed here.
    N(i64),
    /// A list of integers.
    L(&'a [i64]),
    /// Not given.
    No,
}

/// Writes `[1, 2]` as PyTorch puts it inside a string.
pub(super) fn bracketed(values: &[i64]) -> String {
    let texts: Vec<String> = values.iter().map(i64::to_string).collect();
    format!("[{}]", texts.join(", "))
}

/// Draws the four input lists.
pub(super) fn draw_inputs(pen: &mut Pen, args: &[Arg<'_>]) {
    pen.key(", ", "Concrete Inputs");
    pen.list(args, |pen, arg| match arg {
        Arg::S(text) => pen.text(text),
        Arg::N(number) => pen.text(&number.to_string()),
        Arg::L(list) => pen.text(&bracketed(list)),
        _ => pen.text(""),
    });
    pen.key(", ", "Input type");
    pen.list(args, |pen, arg| {
        pen.text(match arg {
            Arg::T(tensor) => tensor.dtype.name(),
            Arg::Ts(_) | Arg::Many => "TensorList",
            Arg::S(_) | Arg::N(_) => "Scalar",
            Arg::L(_) => "ScalarList",
            Arg::No => "",
        });
    });
    pen.key(", ", "Input Strides");
    draw_sizes(pen, args, |tensor| &tensor.strides);
    pen.key(", ", "Input Dims");
    draw_sizes(pen, args, |tensor| &tensor.dims);
}

fn draw_sizes(pen: &mut Pen, args: &[Arg<'_>], sizes: fn(&Tensor) -> &[i64]) {
    pen.list(args, |pen, arg| match arg {
        Arg::T(tensor) => pen.ints(sizes(tensor)),
        Arg::Ts(tensors) => pen.list(tensors, |pen, tensor| pen.ints(sizes(tensor))),
        _ => pen.ints(&[]),
    });
}

#[cfg(test)]
mod tests {
    use super::super::layout::Layout;
    use super::*;

    #[test]
    fn strides_follow_views() {
        let x = Tensor::bf16(&[4, 1024, 16, 128]);
        assert_eq!(x.strides, [2_097_152, 2048, 128, 1]);
        let y = x.swapped(1, 2);
        assert_eq!(
            (y.dims.as_slice(), y.strides.as_slice()),
            ([4, 16, 1024, 128].as_slice(), [2_097_152, 128, 2048, 1].as_slice())
        );
        assert!(x.is_contiguous() && !y.is_contiguous());
        assert_eq!(x.bytes(), 4 * 1024 * 16 * 128 * 2);
    }

    /// The text is that of `aten::cat` in `h200/hf_llama_train`.
    #[test]
    fn four_lists_as_the_profiler_writes_them() {
        let parts = [Tensor::bf16(&[0]), Tensor::bf16(&[4, 4])];
        let mut pen = Pen::new(Layout::Kineto, 0);
        draw_inputs(&mut pen, &[Arg::Ts(&parts), Arg::S("-2"), Arg::L(&[1, 2]), Arg::No]);
        let want = concat!(
            r#", "Concrete Inputs": ["", "-2", "[1, 2]", ""], "Input type": ["TensorList", "Scalar", "ScalarList", ""]"#,
            r#", "Input Strides": [[[1], [4, 1]], [], [], []], "Input Dims": [[[0], [4, 4]], [], [], []]"#
        );
        assert_eq!(String::from_utf8(pen.into_text()).unwrap(), want);
    }
}

//! Products outside the GEMM family, Fourier transforms, factorisations.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::extended::wrapped;
use crate::models::gemm::{Gemm, Product};
use crate::models::tally::{Bytes, Tally, in_out};
use crate::models::{Cost, ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

fn product_params(product: &Product, a: &str, b: &str) -> Params {
    vec![
        ("M", product.m.into()),
        ("N", product.n.into()),
        ("K", product.k.into()),
        ("bias", product.bias.into()),
        ("dtype_A_B", Value::texts(&[a, b])),
    ]
}

/// A product of slots `a` and `b` with an output of `out` bytes an element (A's size if `None`).
fn product(call: &OpCall<'_>, quirks: &Quirks, product: Product, [a, b]: [usize; 2], out: Option<i64>) -> Read {
    let args = Args::of(call);
    let (size_a, size_b) = (args.size(a, quirks)?, args.size(b, quirks)?);
    let result = Count::from(product.batch) * product.m * product.n;
    let operands = Bytes::new().and(args.stored_numel(a)?, size_a).and(args.stored_numel(b)?, size_b);
    let bytes = operands.and(result, out.or(size_a)).total();
    let (type_a, type_b) = (args.dtype(a)?, args.dtype(b)?);
    let gemm = Gemm {
        product,
        bytes: bytes.map(Count::to_f64),
        precision: dtype::precision(type_a, quirks),
        params: product_params(&product, type_a, type_b),
    };
    if dtype::is_complex(type_a) { gemm.complex(call, quirks) } else { gemm.finish(call, quirks) }
}

/// `aten::_int_mm(A, B)`: 8-bit operands, 32-bit sums.
pub fn int_mm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let sizes = Product { batch: 1, m: args.dim(0, 0)?, n: args.dim(1, 1)?, k: args.dim(0, 1)?, bias: false };
    product(call, quirks, sizes, [0, 1], Some(4))
}

/// `aten::_weight_int8pack_mm(x, weight, scales)`: weights (N, K).
pub fn weight_int8(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let sizes = Product { batch: 1, m: args.dim(0, 0)?, n: args.dim(1, 0)?, k: args.dim(0, 1)?, bias: false };
    product(call, quirks, sizes, [0, 1], None)
}

/// `aten::mv(A, x)`.
pub fn mv(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let sizes = Product { batch: 1, m: args.dim(0, 0)?, n: 1, k: args.dim(0, 1)?, bias: false };
    product(call, quirks, sizes, [0, 1], None)
}

/// `aten::dot(a, b)`.
pub fn dot(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let sizes = Product { batch: 1, m: 1, n: 1, k: args.dim(0, 0)?, bias: false };
    product(call, quirks, sizes, [0, 1], None)
}

/// Which numbers a transform turns into which.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Transform {
    RealToComplex,
    ComplexToReal,
    Complex,
}

/// `aten::_fft_r2c(x, dims, norm, onesided)`.
pub fn fft_r2c(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    fft(call, quirks, Transform::RealToComplex)
}

/// `aten::_fft_c2r(x, dims, norm, last_size)`.
pub fn fft_c2r(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    fft(call, quirks, Transform::ComplexToReal)
}

/// `aten::_fft_c2c(x, dims, norm, forward)`.
pub fn fft_c2c(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    fft(call, quirks, Transform::Complex)
}

/// 5·n·log₂ L operations, half of it if one side is real; input read and output written once.
fn fft(call: &OpCall<'_>, quirks: &Quirks, transform: Transform) -> Read {
    let args = Args::of(call);
    let input = args.shape(0)?.to_vec();
    let dims = args.literal_ints(1)?;
    let dims = dims.iter().map(|&dim| wrapped(dim, input.len())).collect::<Result<Vec<_>, _>>()?;
    let last = *dims.last().ok_or_else(|| ModelError::fail("no dimension to transform"))?;
    let mut output = input.clone();
    match transform {
        Transform::RealToComplex if args.is_true(3) => output[last] = input[last] / 2 + 1,
        Transform::ComplexToReal => output[last] = args.int(3)?,
        Transform::RealToComplex | Transform::Complex => {}
    }
    let name = args.dtype(0)?;
    let size = dtype::size(name, quirks);
    let written = match transform {
        Transform::RealToComplex => size.map(|size| 2 * size),
        Transform::ComplexToReal => size.map(|size| size / 2),
        Transform::Complex => size,
    };
    let bytes = Bytes::new().and_read(args, 0, quirks)?.and(Count::of(&output), written).total();
    let (points, share) = match transform {
        Transform::RealToComplex => (&input, 0.5),
        Transform::ComplexToReal => (&output, 0.5),
        Transform::Complex => (&input, 1.0),
    };
    let length = dims.iter().fold(Count::ONE, |n, &dim| n * points[dim]).to_f64().max(1.0);
    let flops = share * 5.0 * Count::of(points).to_f64() * length.log2();
    let params = vec![
        ("input_shape", Value::shape(&input)),
        ("output_shape", Value::shape(&output)),
        ("dtype_in_out", in_out(name, None)),
    ];
    let precision = dtype::vector_precision(name, quirks);
    Tally::new(params, Cost::vector(flops, bytes.map(Count::to_f64), precision)).boxed()
}

/// Batch and order of the square matrices in `slot`.
fn square(args: Args<'_>, slot: usize) -> Result<(Count, i64), ModelError> {
    match args.shape(slot)? {
        &[ref batch @ .., rows, columns] if rows == columns => Ok((Count::of(batch), rows)),
        other => Err(ModelError::fail(format!("{other:?} is not square"))),
    }
}

/// A factorisation of `share`·n³ operations; the matrix read and written.
fn factorisation(call: &OpCall<'_>, quirks: &Quirks, share: f64) -> Read {
    let args = Args::of(call);
    let (batch, n) = square(args, 0)?;
    let elements = batch * n * n;
    let name = args.dtype(0)?;
    let bytes = Bytes::new().and_read(args, 0, quirks)?.and(elements, dtype::size(name, quirks)).total();
    let params = vec![("op_shape", Value::shape(args.shape(0)?)), ("dtype_in_out", in_out(name, None))];
    let flops = share * (elements * n).to_f64();
    Tally::new(params, Cost::matrix(flops, bytes.map(Count::to_f64), dtype::precision(name, quirks))).boxed()
}

/// `aten::linalg_lu_factor_ex(A)`: ⅔·n³.
pub fn lu(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    factorisation(call, quirks, 2.0 / 3.0)
}

/// `aten::linalg_cholesky_ex(A)`: ⅓·n³.
pub fn cholesky(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    factorisation(call, quirks, 1.0 / 3.0)
}

/// `aten::linalg_inv_ex(A)`: 2·n³.
pub fn inverse(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    factorisation(call, quirks, 2.0)
}

/// `aten::linalg_solve_triangular(A, B, …)`.
pub fn solve_triangular(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    triangular(call, quirks, 0, 1)
}

/// `aten::triangular_solve(B, A, …)`.
pub fn triangular_solve(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    triangular(call, quirks, 1, 0)
}

/// n²·k operations for k right-hand sides, which are read and written.
fn triangular(call: &OpCall<'_>, quirks: &Quirks, matrix: usize, sides: usize) -> Read {
    let args = Args::of(call);
    let (_, n) = square(args, matrix)?;
    let right = args.numel(sides)?;
    let name = args.dtype(matrix)?;
    let bytes = Bytes::new().and_read(args, matrix, quirks)?.and_read(args, sides, quirks)?;
    let bytes = bytes.and(right, args.size(matrix, quirks)?).total().map(Count::to_f64);
    let params = vec![
        ("op_shape", Value::shape(args.shape(matrix)?)),
        ("rhs_shape", Value::shape(args.shape(sides)?)),
        ("dtype_in_out", in_out(name, None)),
    ];
    Tally::new(params, Cost::matrix((right * n).to_f64(), bytes, dtype::precision(name, quirks))).boxed()
}

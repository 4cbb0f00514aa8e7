//! Layouts of the inference libraries' products: weights have N first, K last.

use crate::args::Args;
use crate::call::{Dims, OpCall};
use crate::count::Count;
use crate::dtype;
use crate::models::gemm::training::plain_params;
use crate::models::gemm::{Gemm, OperandSizes, Product};
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// The type that these products write unless the call names another.
const BF16: &str = "c10::bfloat16";

fn size(name: &str, quirks: &Quirks) -> Option<f64> {
    dtype::size(name, quirks).map(|s| s as f64)
}

/// A (M × K) in slot 0, weights (N × K) in slot 1. The rows of A may have several dimensions.
fn weights_by_rows(args: Args<'_>, bias: bool, quirks: &Quirks) -> Result<Product, ModelError> {
    if quirks.product_rows_by_first_dim {
        return Ok(Product { batch: 1, m: args.dim(0, 0)?, n: args.dim(1, 0)?, k: args.dim(0, 1)?, bias });
    }
    let Some((&k, rows)) = args.shape(0)?.split_last() else {
        return Err(ModelError::fail("input 0 has no dimensions"));
    };
    let [n, depth] = args.sizes(1)?;
    if depth != k {
        return Err(ModelError::fail(format!("rows of {k} do not fit weights of {depth}")));
    }
    Ok(Product { batch: 1, m: Count::of(rows).to_i64(), n, k, bias })
}

/// B, M, N, K, bias and the types of A, B and the output.
fn batch_first_params(product: &Product, types: &[&str]) -> Params {
    vec![
        ("B", product.batch.into()),
        ("M", product.m.into()),
        ("N", product.n.into()),
        ("K", product.k.into()),
        ("bias", product.bias.into()),
        ("dtype_A_B", Value::texts(types)),
    ]
}

/// 8-bit operands with scales per block or token.
pub fn a8w8(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let product = weights_by_rows(args, false, quirks)?;
    let (a, b) = (args.dtype_or_empty(0), args.dtype_or_empty(1));
    let mut params = batch_first_params(&product, &[a, b, BF16]);
    if args.len() > 3 {
        let block = |length: i64, scales: Option<&i64>| -> Value {
            scales.filter(|&&s| s != 0).and_then(|&s| Count::from(length).div_ceil(s)).into()
        };
        let scale = Some(args.dtype_or_empty(2)).filter(|t| !t.is_empty()).unwrap_or("float32");
        params.extend([
            ("quant_scheme", "a8w8_blockscale".into()),
            ("quant_granularity", "per_block".into()),
            ("block_k", block(product.k, args.shape(2)?.last())),
            ("block_n", block(product.n, args.shape(3)?.first())),
            ("scale_dtype", scale.into()),
        ]);
    }
    params.extend([("output_shape", Value::shape(&[product.m, product.n])), ("output_dtype", BF16.into())]);
    let sizes = OperandSizes { a: size(a, quirks), b: size(b, quirks), out: Some(2.0), bias: Some(0.0) };
    Gemm { product, bytes: product.bytes(&sizes), precision: dtype::precision(a, quirks), params }.finish(call, quirks)
}

/// `vllm::rocm_unquantized_gemm(x, weight, bias)`.
pub fn unquantized(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let product = weights_by_rows(args, args.has_tensor(2), quirks)?;
    let types = [args.dtype(0)?, args.dtype(1)?, args.dtype_or_empty(2)];
    let [a, b, third] = types.map(|t| size(t, quirks));
    let out = if product.bias { third } else { b };
    let mut params = batch_first_params(&product, &types);
    params.remove(0);
    let sizes = OperandSizes { a, b, out, bias: out };
    Gemm { product, bytes: product.bytes(&sizes), precision: dtype::precision(types[0], quirks), params }
        .finish(call, quirks)
}

fn sixteen_bit(call: &OpCall<'_>, quirks: &Quirks, product: Product, out: &str) -> Read {
    let args = Args::of(call);
    let types = [args.dtype(0)?, args.dtype(1)?, out];
    let [a, b, out] = types.map(|t| size(t, quirks));
    let sizes = OperandSizes { a, b, out, bias: out };
    Gemm {
        product,
        bytes: product.bytes(&sizes),
        precision: dtype::precision(types[0], quirks),
        params: batch_first_params(&product, &types),
    }
    .finish(call, quirks)
}

/// `aiter::gemm_a16w16_atomic_(x, weight, …, out)`.
pub fn a16w16_atomic(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    sixteen_bit(call, quirks, weights_by_rows(args, false, quirks)?, args.dtype(3).unwrap_or(BF16))
}

/// `aiter::gemm_a16w16(x, weight, bias, …)`.
pub fn a16w16(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    sixteen_bit(call, quirks, weights_by_rows(args, args.has_tensor(2), quirks)?, args.dtype(0)?)
}

/// `aiter::_gemm_a16w16_asm(x, weight, out, …)`.
pub fn a16w16_asm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let named = Some(args.dtype_or_empty(2)).filter(|t| dtype::size(t, quirks).is_some());
    sixteen_bit(call, quirks, weights_by_rows(args, false, quirks)?, named.unwrap_or(args.dtype(0)?))
}

/// `aiter::gemm_afp4wfp4_`: two packed 4-bit operands.
pub fn afp4wfp4(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let stored = weights_by_rows(args, false, quirks)?;
    let product = Product { k: stored.k.saturating_mul(2), ..stored };
    let sizes = OperandSizes { a: Some(0.5), b: Some(0.5), out: Some(2.0), bias: Some(0.0) };
    Gemm {
        product,
        bytes: product.bytes(&sizes),
        precision: Some("fp4"),
        params: batch_first_params(&product, &[args.dtype(0)?, args.dtype(1)?, BF16]),
    }
    .finish(call, quirks)
}

/// `aiter::batched_gemm_a16wfp4_`: A (B, M, K) and packed 4-bit weights (B, N, K/2).
pub fn batched_a16wfp4(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let product =
        Product { batch: args.dim(0, 0)?, m: args.dim(0, 1)?, n: args.dim(1, 1)?, k: args.dim(0, 2)?, bias: false };
    let a = args.dtype(0)?;
    let sizes = OperandSizes { a: size(a, quirks), b: Some(0.5), out: Some(2.0), bias: Some(0.0) };
    Gemm {
        product,
        bytes: product.bytes(&sizes),
        precision: Some("fp4"),
        params: batch_first_params(&product, &[a, args.dtype(1)?, BF16]),
    }
    .finish(call, quirks)
}

/// The batched 8-bit product: weights (B, N, K), A either (B, M, K) or (M, B, K).
pub fn batched_a8w8(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let batch = args.dim(1, 0)?;
    let rows = usize::from(args.dim(0, 0)? == batch);
    let product = Product { batch, m: args.dim(0, rows)?, n: args.dim(1, 1)?, k: args.dim(0, 2)?, bias: false };
    let (a, b) = (args.dtype(0)?, args.dtype(1)?);
    let sizes = OperandSizes { a: size(a, quirks), b: size(b, quirks), out: Some(2.0), bias: Some(0.0) };
    Gemm {
        product,
        bytes: product.bytes(&sizes),
        precision: dtype::precision(b, quirks),
        params: batch_first_params(&product, &[a, b, BF16]),
    }
    .finish(call, quirks)
}

/// `vllm::gemm_with_dynamic_quant`: the first two matrices are A (M × K) and the packed weights (N × K/2).
pub fn dynamic_quant(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let matrices: Vec<usize> = (0..args.len())
        .filter(|&i| matches!(args.dims(i), Ok(Dims::Shape(shape)) if shape.len() == 2))
        .take(2)
        .collect();
    let (first, second) = if let [first, second] = matrices[..] { (first, second) } else { (0, 1) };
    let ([m, k], [n, packed_k]) = (args.sizes::<2>(first)?, args.sizes::<2>(second)?);
    let product = Product { batch: 1, m, n, k, bias: false };
    let mut sizes = OperandSizes::uniform(args.size(0, quirks)?);
    if !quirks.packed_weight_as_activation {
        // Two 4-bit weights a byte, unless the weight has all of K.
        sizes.b = if packed_k == k { size(args.dtype(1)?, quirks) } else { Some(0.5) };
    }
    Gemm {
        product,
        bytes: product.bytes(&sizes),
        precision: dtype::precision(args.dtype(0)?, quirks),
        params: plain_params(args, &product, 0, 1)?,
    }
    .finish(call, quirks)
}

/// `bitsandbytes::int8_linear_matmul(A, B)`: B is (N × K), sums are stored in 32 bits.
pub fn int8_linear_matmul(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    if quirks.int8_weight_axes_swapped {
        return super::scaled_mm(call, quirks);
    }
    let args = Args::of(call);
    let product = weights_by_rows(args, false, quirks)?;
    let mut sizes = OperandSizes::uniform(args.size(0, quirks)?);
    sizes.out = Some(4.0);
    Gemm {
        product,
        bytes: product.bytes(&sizes),
        precision: dtype::precision(args.dtype(0)?, quirks),
        params: plain_params(args, &product, 0, 1)?,
    }
    .finish(call, quirks)
}

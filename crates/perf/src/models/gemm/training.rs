//! Layouts of the training libraries' products and of PyTorch's scaled ones.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::gemm::{Gemm, OperandSizes, Product};
use crate::models::tally::Bytes;
use crate::models::{ModelError, Params, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// M, N, K, bias, strides and types, as most products show them; `a` and `b` are the operands' slots.
pub(super) fn plain_params(args: Args<'_>, product: &Product, a: usize, b: usize) -> Result<Params, ModelError> {
    Ok(vec![
        ("M", product.m.into()),
        ("N", product.n.into()),
        ("K", product.k.into()),
        ("bias", product.bias.into()),
        ("stride_A", args.optional_stride_param(a)?),
        ("stride_B", args.optional_stride_param(b)?),
        ("dtype_A_B", Value::texts(&[args.dtype(a)?, args.dtype(b)?])),
    ])
}

/// A in slot `a`, B in the next one, as rows × columns.
pub(super) fn rows_by_columns(args: Args<'_>, a: usize, bias: bool) -> Result<Product, ModelError> {
    Ok(Product { batch: 1, m: args.dim(a, 0)?, n: args.dim(a + 1, 1)?, k: args.dim(a, 1)?, bias })
}

/// `aten::_scaled_mm(A, B, scale_a, scale_b, bias, scale_result, out_dtype, fast)` and its likes.
pub fn scaled_mm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    scaled(call, 4, 6, quirks)
}

/// `aten::_scaled_mm_v2(A, B, scales_a, recipe_a, swizzle_a, scales_b, recipe_b, swizzle_b, bias, out_dtype, …)`.
pub fn scaled_mm_v2(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    scaled(call, 8, 9, quirks)
}

/// A product of scaled numbers with a bias and the type of its result in these slots.
fn scaled(call: &OpCall<'_>, bias_at: usize, type_at: usize, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let bias = if quirks.bias_by_input_count { args.len() == 3 } else { args.has_tensor(bias_at) };
    let product = rows_by_columns(args, 0, bias)?;
    let size = args.known_size(0, quirks)?;
    args.known_size(1, quirks)?;
    // 8-bit products are stored in 16 bits unless the call names another type.
    let named = dtype::size_of_code(args.int(type_at).unwrap_or(-1)).filter(|_| !quirks.bias_by_input_count);
    let out = named.or(match size {
        1 => Some(2),
        2 | 4 => Some(size),
        _ => None,
    });
    let bias_size = if quirks.bias_by_input_count || !bias { Some(size) } else { args.size(bias_at, quirks)? };
    let mut sizes = OperandSizes::uniform(Some(size));
    (sizes.out, sizes.bias) = (out.map(|s| s as f64), bias_size.map(|s| s as f64));
    let bytes = if quirks.products_by_sizes_alone {
        product.bytes(&sizes)
    } else {
        let result = Bytes::new().and(Count::from(product.m) * product.n, out);
        let operands = result.and_read(args, 0, quirks)?.and_read(args, 1, quirks)?;
        let all = if bias { operands.and_read(args, bias_at, quirks)? } else { operands };
        all.total().map(Count::to_f64)
    };
    // Bytes are those of the pairs, sums run over the numbers.
    let packed = dtype::is_packed_pair(args.dtype(0)?) && !quirks.packed_pairs_as_numbers;
    let product = if packed { Product { k: product.k.saturating_mul(2), ..product } } else { product };
    let mut params = plain_params(args, &product, 0, 1)?;
    if !quirks.bias_by_input_count {
        params.extend(named.map(|size| ("output_size", size.into())));
        params.extend(bias.then(|| ("bias_dtype", args.dtype_or_empty(bias_at).into())));
    }
    Gemm { product, bytes, precision: dtype::precision(args.dtype(0)?, quirks), params }.finish(call, quirks)
}

/// `tex_ts::te_gemm_ts`: A in slot 0, B in 5, output in 10, bias in 18; BLAS flags in 4 and 9.
pub fn te_gemm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let (rows, columns) = if args.concrete(4)? == "1" { (0, 1) } else { (1, 0) };
    let product = Product {
        batch: 1,
        m: args.dim(0, rows)?,
        n: args.dim(5, usize::from(args.concrete(9)? == "1"))?,
        k: args.dim(0, columns)?,
        bias: !args.concrete(14)?.is_empty(),
    };
    let mut params = plain_params(args, &product, 0, 5)?;
    let types = [args.dtype(0)?, args.dtype(5)?, args.dtype(10)?, args.dtype(18)?];
    if let Some((_, value)) = params.last_mut() {
        *value = Value::texts(&types);
    }
    let [a, b, out, bias] = types.map(|t| dtype::size(t, quirks).map(|s| s as f64));
    Gemm {
        product,
        bytes: product.bytes(&OperandSizes { a, b, out, bias }),
        precision: dtype::precision(types[0], quirks),
        params,
    }
    .finish(call, quirks)
}

/// The products that tree extensions cut out of fused linear modules: as `mm`, 16-bit output.
pub fn te_linear(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let product = rows_by_columns(args, 0, false)?;
    let (a, b) = (args.dtype(0)?, args.dtype(1)?);
    if a != b {
        return Err(ModelError::fail(format!("operands of different type: `{a}` and `{b}`")));
    }
    let mut sizes = OperandSizes::uniform(args.size(0, quirks)?);
    sizes.out = Some(2.0);
    Gemm {
        product,
        bytes: product.bytes(&sizes),
        precision: dtype::precision(a, quirks),
        params: plain_params(args, &product, 0, 1)?,
    }
    .finish(call, quirks)
}

/// Sizes of a hipBLASLt call: A in slot 0, B in 2, BLAS flags for A, B and the output in 5, 6 and 7.
pub(super) fn hipblaslt_product(args: Args<'_>) -> Result<Product, ModelError> {
    let (mut a, mut b) = (0, 2);
    let (mut trans_a, mut trans_b) = (args.flag(5), args.flag(6));
    // A transposed output is the product of the swapped, transposed operands.
    if args.flag(7) {
        (a, b) = (b, a);
        (trans_a, trans_b) = (!trans_b, !trans_a);
    }
    Ok(Product {
        batch: 1,
        m: args.dim(a, usize::from(trans_a))?,
        k: args.dim(a, usize::from(!trans_a))?,
        n: args.dim(b, usize::from(!trans_b))?,
        bias: false,
    })
}

/// `primus_turbo::hipblaslt_gemm_fp8(A, scale_a, B, scale_b, …)`.
pub fn hipblaslt_fp8(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let product = hipblaslt_product(args)?;
    let (a, b) = (args.known_size(0, quirks)?, args.known_size(2, quirks)?);
    let out = if a == 1 { 2 } else { a };
    let sizes = OperandSizes { a: Some(a as f64), b: Some(b as f64), out: Some(out as f64), bias: Some(out as f64) };
    let mut params = plain_params(args, &product, 0, 2)?;
    params.extend([("dtype_scaleA", args.dtype(1)?.into()), ("dtype_scaleB", args.dtype(3)?.into())]);
    Gemm { product, bytes: product.bytes(&sizes), precision: dtype::precision(args.dtype(0)?, quirks), params }
        .finish(call, quirks)
}

//! Products of 4-bit operands with a scale per 32 values (MXFP4).

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::gemm::training::{hipblaslt_product, plain_params};
use crate::models::gemm::{Gemm, Product};
use crate::models::{ModelError, Read};
use crate::parity::Quirks;

/// Values that share one scale.
const BLOCK: i64 = 32;

/// Slots of the operands and of their scales.
struct Slots {
    a: usize,
    b: usize,
    scale_a: usize,
    scale_b: usize,
}

/// `primus_turbo::hipblaslt_gemm_fp4(A, scale_a, B, scale_b, …)`: K is packed in pairs.
pub fn hipblaslt_fp4(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let product = hipblaslt_product(Args::of(call))?;
    packed(call, quirks, product, &Slots { a: 0, b: 2, scale_a: 1, scale_b: 3 })
}

/// `aiter::gemm_a4w4(A, B, scale_a, scale_b, …)`: both operands have K last.
pub fn a4w4(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    let product = Product { batch: 1, m: args.dim(0, 0)?, n: args.dim(1, 0)?, k: args.dim(0, 1)?, bias: false };
    packed(call, quirks, product, &Slots { a: 0, b: 1, scale_a: 2, scale_b: 3 })
}

fn packed(call: &OpCall<'_>, quirks: &Quirks, stored: Product, slots: &Slots) -> Read {
    let args = Args::of(call);
    let product = Product { k: stored.k.saturating_mul(2), ..stored };
    let mut params = plain_params(args, &product, slots.a, slots.b)?;
    params.extend([
        ("dtype_scaleA", args.dtype(slots.scale_a)?.into()),
        ("dtype_scaleB", args.dtype(slots.scale_b)?.into()),
    ]);
    // The operands may be recorded as plain bytes.
    let precision =
        if quirks.precision_labels_missing { dtype::precision(args.dtype(slots.a)?, quirks) } else { Some("fp4") };
    Gemm { product, bytes: Some(bytes(args, &product, slots, quirks)?.to_f64()), precision, params }
        .finish(call, quirks)
}

/// Packed operands, their scales, a 16-bit output.
fn bytes(args: Args<'_>, product: &Product, slots: &Slots, quirks: &Quirks) -> Result<Count, ModelError> {
    let side = |length: i64, operand: usize, scale: usize| {
        let pairs = Count::from(product.k.div_euclid(2)) * args.known_size(operand, quirks)?;
        let scales = Count::from(product.k).div_ceil(BLOCK).unwrap_or_default();
        Ok::<_, ModelError>((pairs + scales * args.size(scale, quirks)?.unwrap_or(1)) * length)
    };
    let operands = side(product.m, slots.a, slots.scale_a)? + side(product.n, slots.b, slots.scale_b)?;
    Ok(operands + Count::from(product.m) * product.n * 2)
}

//! Matrix products that `torch.compile` made of its Triton templates: `triton_tem_fused_mm_0` and its like.

use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::gemm::{Gemm, Product};
use crate::models::triton::{Tensor, tensors};
use crate::models::{ModelError, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Words of a name that stand for a product, whether it is one of a batch, and whether something is added.
const PRODUCTS: &[(&str, bool, bool)] =
    &[("mm", false, false), ("addmm", false, true), ("bmm", true, false), ("baddbmm", true, true)];

/// A product: the name says so, and two operands and the last tensor, its result, fit. Operands are often recorded as the
/// views they were made of, so their elements count, and K must be a size of both.
pub fn product(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let words = || call.name.split('_');
    let &(_, batched, bias) = PRODUCTS
        .iter()
        .find(|(word, ..)| words().any(|w| w == *word))
        .ok_or_else(|| ModelError::fail("no product by its name"))?;
    let tensors = tensors(call, quirks)?;
    let (product, a) = fitting(&tensors, batched, bias).ok_or_else(|| ModelError::fail("no operands that fit"))?;
    let size = |t: &Tensor<'_>| Some(t.stored * dtype::size(t.dtype, quirks)?);
    let bytes = tensors.iter().map(size).sum::<Option<Count>>();
    let params = vec![
        ("B", product.batch.into()),
        ("M", product.m.into()),
        ("N", product.n.into()),
        ("K", product.k.into()),
        ("bias", bias.into()),
        ("dtype_A_B", Value::texts(&[a.dtype])),
    ];
    let precision = dtype::precision(a.dtype, quirks);
    Gemm { product, bytes: bytes.map(Count::to_f64), precision, params }.finish(call, quirks)
}

/// The sizes, if the first pair of tensors that can be operands of the last one tells them, and the first of the pair.
fn fitting<'a>(tensors: &[Tensor<'a>], batched: bool, bias: bool) -> Option<(Product, Tensor<'a>)> {
    let (result, inputs) = tensors.split_last()?;
    let (&n, before) = result.shape.split_last()?;
    let (m, batch) = if batched {
        let (&m, batch) = before.split_last()?;
        (m, Count::of(batch).to_i64())
    } else {
        (Count::of(before).to_i64(), 1)
    };
    let rows = Count::from(batch) * m;
    inputs.iter().enumerate().find_map(|(i, a)| {
        let k = a.elements.div_floor(rows).filter(|&k| k > Count::ZERO && k * rows == a.elements)?.to_i64();
        let fits =
            |b: &&Tensor<'_>| b.elements == Count::from(batch) * k * n && b.shape.contains(&k) && b.shape.contains(&n);
        let found = a.shape.len() > 1 && a.shape.contains(&k) && inputs[i + 1..].iter().any(|b| fits(&b));
        found.then_some((Product { batch, m, n, k, bias }, *a))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(shapes: &[&[i64]], batched: bool) -> Option<[i64; 4]> {
        let tensor = |&shape: &&'static [i64]| {
            let elements = Count::of(shape);
            Tensor { shape, dtype: "float", elements, stored: elements }
        };
        let shapes: Vec<&'static [i64]> = shapes.iter().map(|s| &*s.to_vec().leak()).collect();
        let tensors: Vec<Tensor<'_>> = shapes.iter().map(tensor).collect();
        fitting(&tensors, batched, false).map(|(p, _)| [p.batch, p.m, p.n, p.k])
    }

    #[test]
    fn operands_are_found_by_what_fits() {
        assert_eq!(sizes(&[&[4096, 2048], &[2048, 8192], &[4096, 8192]], false), Some([1, 4096, 8192, 2048]));
        // A bias first, an input of three dimensions, a weight that is recorded as it is stored.
        assert_eq!(sizes(&[&[64], &[2, 8, 32], &[64, 32], &[16, 64]], false), Some([1, 16, 64, 32]));
        // What an epilogue adds stands between the operands and the result.
        assert_eq!(sizes(&[&[16, 32], &[32, 64], &[16, 64], &[16, 64]], false), Some([1, 16, 64, 32]));
        assert_eq!(sizes(&[&[3, 16, 32], &[3, 32, 64], &[3, 16, 64]], true), Some([3, 16, 64, 32]));
        assert_eq!(sizes(&[&[4096, 2048], &[4096, 2048]], false), None);
        assert_eq!(sizes(&[&[16, 32], &[16, 64]], false), None);
        assert_eq!(sizes(&[&[0, 32], &[32, 64], &[0, 64]], false), None);
        assert_eq!(sizes(&[], false), None);
    }
}

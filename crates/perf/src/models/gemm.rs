//! Matrix products: `C = A·B (+ bias)`, possibly many at once.

mod inference;
mod mxfp4;
mod pytorch;
mod training;

pub use inference::{
    a8w8, a16w16, a16w16_asm, a16w16_atomic, afp4wfp4, batched_a8w8, batched_a16wfp4, dynamic_quant,
    int8_linear_matmul, unquantized,
};
pub use mxfp4::{a4w4, hipblaslt_fp4};
pub use pytorch::{addbmm, addmm, addmv, addr, baddbmm, bmm, mm};
pub use training::{hipblaslt_fp8, scaled_mm, scaled_mm_v2, te_gemm, te_linear};

use crate::call::OpCall;
use crate::count::Count;
use crate::kernels;
use crate::models::{Cost, ModelError, Params, PerfModel, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// Sizes of a product: `batch` times (`m` × `k`)·(`k` × `n`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Product {
    /// Number of products.
    pub batch: i64,
    /// Rows of A and of the output.
    pub m: i64,
    /// Columns of B and of the output.
    pub n: i64,
    /// Length of the sums.
    pub k: i64,
    /// Whether a vector of `n` is added.
    pub bias: bool,
}

/// Bytes of an element of each operand; `None` where the type is unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OperandSizes {
    /// Of A.
    pub a: Option<f64>,
    /// Of B.
    pub b: Option<f64>,
    /// Of the output.
    pub out: Option<f64>,
    /// Of the bias.
    pub bias: Option<f64>,
}

impl OperandSizes {
    /// One size for all.
    pub fn uniform(size: Option<i64>) -> Self {
        let size = size.map(|s| s as f64);
        Self { a: size, b: size, out: size, bias: size }
    }
}

impl Product {
    /// 2·M·N·K, plus M·N for the bias; times the batch.
    pub fn flops(&self) -> Count {
        let out = Count::from(self.m) * self.n;
        (2 * out * self.k + out.when(self.bias)) * self.batch
    }

    /// Each operand read once and the output written once; `None` if a type is unknown.
    pub fn bytes(&self, sizes: &OperandSizes) -> Option<f64> {
        let elements = |rows: i64, columns: i64| (Count::from(rows) * columns * self.batch).to_f64();
        let bias = if self.bias { elements(1, self.n) } else { 0.0 };
        let products = elements(self.m, self.k) * sizes.a? + elements(self.k, self.n) * sizes.b?;
        Some(products + elements(self.m, self.n) * sizes.out? + bias * sizes.bias?)
    }
}

/// A product with the parameters that its tables show.
#[derive(Debug, Clone)]
pub(crate) struct Gemm {
    pub(crate) product: Product,
    pub(crate) bytes: Option<f64>,
    pub(crate) precision: Option<&'static str>,
    pub(crate) params: Params,
}

impl PerfModel for Gemm {
    fn into_params(self: Box<Self>) -> Params {
        self.params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        Ok(Cost::matrix(self.product.flops().to_f64(), self.bytes, self.precision))
    }

    fn torch_flops(&self) -> Option<f64> {
        Some(Product { bias: false, ..self.product }.flops().to_f64())
    }
}

impl Gemm {
    /// Completes the parameters with the batch, where the op has none of its own, and with what the kernels' names
    /// tell.
    pub(crate) fn finish(self, call: &OpCall<'_>, quirks: &Quirks) -> Read {
        Ok(Box::new(self.finished(call, quirks)?))
    }

    fn finished(mut self, call: &OpCall<'_>, quirks: &Quirks) -> Result<Self, ModelError> {
        if kernels::multiplies_sparse(call.kernels) && !quirks.sparse_operands_dense {
            return Err(ModelError::fail("one matrix is sparse, and how many elements it has is not recorded"));
        }
        if self.params.iter().all(|(name, _)| *name != "B") {
            self.params.push(("B", Value::Int(1)));
        }
        let Some(kernel) = kernels::gemm_kernel(call.kernels, quirks)? else { return Ok(self) };
        self.params.push(("transpose", Value::Tuple(vec![kernel.trans_a.into(), kernel.trans_b.into()])));
        if let Some(tile) = kernel.tile.filter(|_| !quirks.gemm_kernel_grammar_short) {
            self.params.extend([("tile_m", tile.m.into()), ("tile_n", tile.n.into()), ("tile_k", tile.k.into())]);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_product_by_hand() {
        // 128×256 · 256×512, bf16: 2·128·512·256 = 33 554 432; (128·256 + 256·512 + 128·512)·2 = 458 752.
        let product = Product { batch: 1, m: 128, n: 512, k: 256, bias: false };
        let sizes = OperandSizes::uniform(Some(2));
        assert_eq!(product.flops(), Count::from(33_554_432_i64));
        assert_eq!(product.bytes(&sizes), Some(458_752.0));
        // With a bias: + 128·512 operations, + 512·2 bytes.
        let with_bias = Product { bias: true, ..product };
        assert_eq!(with_bias.flops(), Count::from(33_619_968_i64));
        assert_eq!(with_bias.bytes(&sizes), Some(459_776.0));
        // Four of them at once.
        let batched = Product { batch: 4, ..product };
        assert_eq!(batched.flops(), Count::from(134_217_728_i64));
        assert_eq!(batched.bytes(&sizes), Some(1_835_008.0));
        assert_eq!(product.bytes(&OperandSizes { b: None, ..sizes }), None);
    }

    #[test]
    fn sparse_matrices_are_not_counted_in_full() {
        let shape = |dims: [i64; 2]| crate::call::Dims::Shape(dims.to_vec());
        let inputs = crate::call::InputLists {
            dims: Some([shape([50_000, 50_000]), shape([50_000, 128])].into()),
            types: Some(vec!["float".to_owned(); 2].into()),
            ..crate::call::InputLists::default()
        };
        let cost = |kernel: &str, quirks: &Quirks| {
            let call = OpCall {
                name: "aten::mm",
                inputs: &inputs,
                kernels: &["fill", kernel],
                launches: &[],
                sequence: None,
                annotation: None,
                extra: &[],
                forward: None,
            };
            crate::models::evaluate(&call, quirks).cost
        };
        let sparse = "void cusparse::csrmm_alg2_kernel<cusparse::CsrMMPolicy<float>>";
        assert!(cost("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n", &Quirks::NONE).is_ok());
        assert!(cost(sparse, &Quirks::NONE).unwrap_err().to_string().contains("sparse"));
        assert!(cost(sparse, &Quirks::REFERENCE).is_ok());
    }

    #[test]
    fn hostile_sizes_do_not_overflow() {
        let huge = Product { batch: i64::MAX, m: i64::MAX, n: i64::MAX, k: i64::MAX, bias: true };
        assert!(huge.flops().to_f64() > 1e30);
        assert!(huge.bytes(&OperandSizes::uniform(Some(2))).unwrap() > 1e30);
    }
}

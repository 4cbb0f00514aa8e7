//! PyTorch's own products: `A·B`, one or many at once, and something added to them.

use crate::args::Args;
use crate::call::OpCall;
use crate::count::Count;
use crate::dtype;
use crate::models::gemm::training::{plain_params, rows_by_columns};
use crate::models::gemm::{Gemm, OperandSizes, Product};
use crate::models::tally::Bytes;
use crate::models::{Cost, ModelError, Params, PerfModel, Read};
use crate::parity::Quirks;
use crate::value::Value;

/// `aten::mm(A, B)`.
pub fn mm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let product = rows_by_columns(Args::of(call), 0, false)?;
    read(call, quirks, product, 0)
}

/// `aten::addmm(self, A, B, beta, alpha)`.
pub fn addmm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let product = rows_by_columns(Args::of(call), 1, true)?;
    read(call, quirks, product, 1)
}

/// `aten::bmm(A, B)`.
pub fn bmm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let product = batched(Args::of(call), 0, false)?;
    read(call, quirks, product, 0)
}

/// `aten::baddbmm(self, A, B, beta, alpha)`.
pub fn baddbmm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let product = batched(Args::of(call), 1, true)?;
    read(call, quirks, product, 1)
}

/// `aten::addbmm(self, A, B, beta, alpha)`: the products of a batch added up, which is one product of longer sums.
pub fn addbmm(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let product = batched(Args::of(call), 1, true)?;
    let product = Product { batch: 1, k: product.k.saturating_mul(product.batch), ..product };
    read(call, quirks, product, 1)
}

/// `aten::addmv(self, A, x, beta, alpha)`.
pub fn addmv(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    read(call, quirks, Product { batch: 1, m: args.dim(1, 0)?, n: 1, k: args.dim(1, 1)?, bias: true }, 1)
}

/// `aten::addr(self, x, y, beta, alpha)`: every product of two entries.
pub fn addr(call: &OpCall<'_>, quirks: &Quirks) -> Read {
    let args = Args::of(call);
    read(call, quirks, Product { batch: 1, m: args.dim(1, 0)?, n: args.dim(2, 0)?, k: 1, bias: true }, 1)
}

/// A in slot `a`, B in the next one, the batch first.
fn batched(args: Args<'_>, a: usize, bias: bool) -> Result<Product, ModelError> {
    Ok(Product { batch: args.dim(a, 0)?, m: args.dim(a, 1)?, n: args.dim(a + 1, 2)?, k: args.dim(a, 2)?, bias })
}

/// A product whose operands are in `a` and the next slot, what is added in the one before.
fn read(call: &OpCall<'_>, quirks: &Quirks, mut product: Product, a: usize) -> Read {
    let args = Args::of(call);
    let name = args.dtype(a)?;
    let precision = dtype::precision(name, quirks);
    let own = !quirks.products_by_sizes_alone;
    let named = NamedOutput::of(call, args).filter(|_| own);
    if own && product.bias && args.float(a + 2 + usize::from(named.is_some())) == Ok(0.0) {
        // Nothing is added, and what stands there is not read.
        product.bias = false;
    }
    let mut params = Params::new();
    if matches!(call.name, "aten::bmm" | "aten::baddbmm" | "aten::baddbmm_") {
        params.push(("B", product.batch.into()));
    }
    params.extend(plain_params(args, &product, a, a + 1)?);
    if !own {
        let bytes = product.bytes(&OperandSizes::uniform(args.size(a, quirks)?));
        return Gemm { product, bytes, precision, params }.finish(call, quirks);
    }
    if product.bias && Count::of(args.shape(0)?) > Count::from(product.n) {
        params.push(("added_shape", Value::shape(args.shape(0)?)));
    }
    if let Some(NamedOutput(size)) = named {
        params.push(("output_size", size.into()));
    }
    let out = named.map_or(args.size(a, quirks)?, |NamedOutput(size)| Some(size));
    let gemm = Gemm { product, bytes: bytes(args, &product, a, out, quirks)?, precision, params };
    if dtype::is_complex(name) { gemm.complex(call, quirks) } else { gemm.finish(call, quirks) }
}

/// What memory holds of the operands and of what is added, read once, and the output.
fn bytes(
    args: Args<'_>,
    product: &Product,
    a: usize,
    out: Option<i64>,
    quirks: &Quirks,
) -> Result<Option<f64>, ModelError> {
    let result = Bytes::new().and(Count::from(product.batch) * product.m * product.n, out);
    let mut slots = [a, a + 1].into_iter().chain(product.bias.then_some(0));
    let bytes = slots.try_fold(result, |sum: Bytes, slot| sum.and_read(args, slot, quirks))?;
    Ok(bytes.total().map(Count::to_f64))
}

/// Bytes of an element of the output, where the call names its type (`out_dtype`).
#[derive(Clone, Copy)]
struct NamedOutput(i64);

impl NamedOutput {
    fn of(call: &OpCall<'_>, args: Args<'_>) -> Option<Self> {
        let slot = match call.name {
            "aten::mm" | "aten::bmm" => 2,
            // With a type there are six arguments; a sixth tensor is the output of the plain call.
            "aten::addmm" | "aten::baddbmm" if args.len() == 6 && !args.has_tensor(5) => 3,
            _ => return None,
        };
        args.int(slot).ok().and_then(dtype::size_of_code).map(Self)
    }
}

/// A product of complex numbers: four real products and two sums for each pair, two sums to add to it.
struct Complex(Gemm);

impl Gemm {
    /// As [`finish`](Self::finish), of complex numbers.
    pub(crate) fn complex(self, call: &OpCall<'_>, quirks: &Quirks) -> Read {
        Ok(Box::new(Complex(self.finished(call, quirks)?)))
    }
}

impl PerfModel for Complex {
    fn into_params(self: Box<Self>) -> Params {
        self.0.params
    }

    fn forward(&self) -> Result<Cost, ModelError> {
        let product = &self.0.product;
        let out = Count::from(product.m) * product.n * product.batch;
        let flops = 8 * out * product.k + (2 * out).when(product.bias);
        Ok(Cost::matrix(flops.to_f64(), self.0.bytes, self.0.precision))
    }

    fn torch_flops(&self) -> Option<f64> {
        self.0.torch_flops()
    }
}

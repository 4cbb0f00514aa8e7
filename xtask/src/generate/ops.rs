//! Ops of a transformer as PyTorch runs them on CUDA: the children, launches and backward of each, as seen in
//! `h200/hf_llama_train`. Every function returns the op's result.

use super::builder::Builder;
use super::collectives;
use super::draw::Transfer;
use super::kernels::{self, Kernel};
use super::template::Stream;
use super::tensor::{Arg, DType, Tensor};

use Arg::{L, N, No, S, T};

fn as_strided(b: &mut Builder, from: &Tensor, to: &Tensor) {
    b.leaf("aten::as_strided", &[T(from), L(&to.dims), L(&to.strides), No]);
}

/// `aten::view`: other sizes, same memory.
pub(super) fn view(b: &mut Builder, x: &Tensor, dims: &[i64]) -> Tensor {
    let out = x.resized(dims);
    b.tracked("aten::view", &[T(x), L(dims)], |b| record_view(b, "ViewBackward0", x, &out));
    out
}

fn record_view(b: &mut Builder, name: &'static str, x: &Tensor, out: &Tensor) {
    let (dims, grad) = (x.dims.clone(), out.clone());
    b.record(name, out, move |b| {
        reshape(b, &grad, &dims);
    });
}

/// `aten::reshape`: a view if the memory allows it, else a copy.
pub(super) fn reshape(b: &mut Builder, x: &Tensor, dims: &[i64]) -> Tensor {
    b.tracked("aten::reshape", &[T(x), L(dims)], |b| {
        if x.is_contiguous() {
            return view(b, x, dims);
        }
        b.op("aten::clone", &[T(x), S("0")], |b| {
            let copy = x.resized(&x.dims);
            b.op("aten::empty_like", &[T(x), S(x.dtype.code()), S("0"), No, No, S("0")], |b| b.empty(&copy));
            copy_into(b, &copy, x);
        });
        let out = x.resized(dims);
        b.tracked("aten::_unsafe_view", &[T(x), L(dims)], |b| record_view(b, "UnsafeViewBackward0", x, &out));
        out
    })
}

/// `aten::copy_`: a kernel, or the copy engine when types and layouts agree.
fn copy_into(b: &mut Builder, to: &Tensor, from: &Tensor) {
    b.op("aten::copy_", &[T(to), T(from), S("False")], |b| {
        let functor = kernels::lambda("direct_copy_kernel_cuda", from.dtype, 1);
        if from.is_contiguous() && from.dtype == to.dtype {
            b.transfer(Transfer::DeviceToDevice, Stream::Compute, to.bytes());
        } else if from.is_contiguous() {
            b.launch(&kernels::vectorized(&functor, to, 2));
        } else {
            b.launch(&kernels::strided(&functor, to, 2));
        }
    });
}

/// `aten::transpose`.
pub(super) fn transpose(b: &mut Builder, x: &Tensor, one: usize, other: usize) -> Tensor {
    let out = x.swapped(one, other);
    b.tracked("aten::transpose", &[T(x), N(one as i64), N(other as i64)], |b| {
        as_strided(b, x, &out);
        let grad = out.clone();
        b.record("TransposeBackward0", &out, move |b| {
            transpose(b, &grad, one, other);
        });
    });
    out
}

/// `aten::t`: a matrix turned.
pub(super) fn t(b: &mut Builder, x: &Tensor) -> Tensor {
    let out = x.swapped(0, 1);
    b.tracked("aten::t", &[T(x)], |b| {
        b.op("aten::transpose", &[T(x), S("0"), S("1")], |b| as_strided(b, x, &out));
        let grad = out.clone();
        b.record("TBackward0", &out, move |b| {
            t(b, &grad);
        });
    });
    out
}

/// `aten::unsqueeze`: a new axis of length 1.
pub(super) fn unsqueeze(b: &mut Builder, x: &Tensor, axis: usize) -> Tensor {
    let mut dims = x.dims.clone();
    dims.insert(axis, 1);
    let out = x.resized(&dims);
    b.op("aten::unsqueeze", &[T(x), N(axis as i64)], |b| as_strided(b, x, &out));
    out
}

/// `aten::slice` of the last axis.
pub(super) fn slice(b: &mut Builder, x: &Tensor, from: i64, to: i64) -> Tensor {
    let axis = x.dims.len() - 1;
    let out = x.narrowed(axis, to - from);
    // The profiler prints an open end as the largest integer.
    let end = if to == x.dims[axis] { i64::MAX } else { to };
    b.tracked("aten::slice", &[T(x), N(axis as i64), N(from), N(end), S("1")], |b| {
        as_strided(b, x, &out);
        let (full, grad) = (x.resized(&x.dims), out.clone());
        b.record("SliceBackward0", &out, move |b| {
            let args = [T(&grad), L(&full.dims), N(axis as i64), N(from), N(end), S("1")];
            b.op("aten::slice_backward", &args, |b| {
                zeros(b, &full);
                let part = full.narrowed(axis, to - from);
                let args = [T(&full), N(axis as i64), N(from), N(end), S("1")];
                b.op("aten::slice", &args, |b| as_strided(b, &full, &part));
                copy_into(b, &part, &grad);
            });
        });
    });
    out
}

/// `aten::zeros`.
pub(super) fn zeros(b: &mut Builder, out: &Tensor) {
    b.op("aten::zeros", &[L(&out.dims), S(out.dtype.code()), S("0"), No, No], |b| {
        b.empty(out);
        b.op("aten::zero_", &[T(out)], |b| fill(b, out, "0"));
    });
}

/// `aten::fill_`.
pub(super) fn fill(b: &mut Builder, out: &Tensor, value: &str) {
    let kernel = kernels::vectorized(&kernels::fill(out.dtype), out, 1);
    b.op("aten::fill_", &[T(out), S(value)], |b| b.launch(&kernel));
}

/// `aten::to`: another type.
pub(super) fn to(b: &mut Builder, x: &Tensor, dtype: DType) -> Tensor {
    let out = x.cast(dtype);
    b.tracked("aten::to", &[T(x), S(dtype.code()), S("False"), S("False"), No], |b| {
        b.tracked("aten::_to_copy", &[T(x), S(dtype.code()), No, No, No, S("False"), No], |b| {
            b.empty_strided(&out);
            copy_into(b, &out, x);
            let (grad, back) = (out.clone(), x.dtype);
            b.record("ToCopyBackward0", &out, move |b| {
                to(b, &grad, back);
            });
        });
    });
    out
}

/// `aten::mul` of tensors that may broadcast. Both sides get a gradient when `both`, else only the first.
pub(super) fn mul(b: &mut Builder, x: &Tensor, y: &Tensor, both: bool) -> Tensor {
    let out = if x.elements() >= y.elements() { x.resized(&x.dims) } else { y.resized(&y.dims) };
    b.tracked("aten::mul", &[T(x), T(y)], |b| {
        b.launch(&pointwise("MulFunctor", &out, &[x, y]));
        let (grad, x, y) = (out.clone(), x.clone(), y.clone());
        b.record("MulBackward0", &out, move |b| {
            mul(b, &grad, &y, false);
            if both {
                mul(b, &grad, &x, false);
            }
        });
    });
    out
}

fn pointwise(operation: &str, out: &Tensor, inputs: &[&Tensor]) -> Kernel {
    let functor = kernels::binary(operation, out.dtype);
    let tensors = inputs.len() as i64 + 1;
    if inputs.iter().all(|x| x.is_contiguous() && x.dims == out.dims) {
        kernels::vectorized(&functor, out, tensors)
    } else {
        kernels::strided(&functor, out, tensors)
    }
}

/// `aten::add` of equal shapes.
pub(super) fn add(b: &mut Builder, x: &Tensor, y: &Tensor) -> Tensor {
    let out = x.resized(&x.dims);
    b.tracked("aten::add", &[T(x), T(y), S("1")], |b| {
        b.launch(&pointwise("add", &out, &[x, y]));
        b.record("AddBackward0", &out, |_| ());
    });
    out
}

/// `aten::neg`.
pub(super) fn neg(b: &mut Builder, x: &Tensor) -> Tensor {
    let out = x.resized(&x.dims);
    b.tracked("aten::neg", &[T(x)], |b| {
        b.launch(&kernels::strided(&kernels::lambda("neg_kernel_cuda", x.dtype, 1), &out, 2));
        let grad = out.clone();
        b.record("NegBackward0", &out, move |b| {
            neg(b, &grad);
        });
    });
    out
}

/// `aten::cat` of two halves along the last axis.
pub(super) fn cat(b: &mut Builder, one: &Tensor, other: &Tensor) -> Tensor {
    let axis = one.dims.len() - 1;
    let mut dims = one.dims.clone();
    dims[axis] += other.dims[axis];
    let out = one.resized(&dims);
    let (first, len) = (one.dims[axis], dims[axis]);
    b.tracked("aten::cat", &[Arg::Ts(&[one.clone(), other.clone()]), S("-1")], |b| {
        let name = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::(anonymous namespace)::OpaqueType<2u>, unsigned int, 4, 64, 64>\
                    (at::native::(anonymous namespace)::OpaqueType<2u>*, at::native::(anonymous namespace)::CatArrInputTensorMetadata<at::native::(anonymous \
                    namespace)::OpaqueType<2u>, unsigned int, 64, 64>, at::native::(anonymous namespace)::TensorSizeStride<unsigned int, 4u>, int, unsigned int)";
        b.launch(&kernels::named(name, 264, 512, 1_200 + (out.bytes() / 2200) as u32));
        let grad = out.clone();
        b.record("CatBackward0", &out, move |b| {
            for (from, count) in [(0, first), (first, len - first)] {
                b.op("aten::narrow", &[T(&grad), N(axis as i64), N(from), N(count)], |b| {
                    slice(b, &grad, from, from + count);
                });
            }
        });
    });
    out
}

/// `aten::silu`.
pub(super) fn silu(b: &mut Builder, x: &Tensor) -> Tensor {
    let out = x.resized(&x.dims);
    b.tracked("aten::silu", &[T(x)], |b| {
        b.launch(&kernels::vectorized(&kernels::lambda("(anonymous namespace)::silu_kernel", x.dtype, 1), &out, 2));
        let (grad, x) = (out.clone(), x.clone());
        b.record("SiluBackward0", &out, move |b| {
            let functor = kernels::lambda("(anonymous namespace)::silu_backward_kernel", x.dtype, 2);
            b.op("aten::silu_backward", &[T(&grad), T(&x)], |b| b.launch(&kernels::vectorized(&functor, &x, 3)));
        });
    });
    out
}

/// `aten::mm`; `layout` is that of the matrices in memory, as cuBLAS writes it.
pub(super) fn mm(b: &mut Builder, x: &Tensor, y: &Tensor, layout: &str) -> Tensor {
    let (rows, inner, columns) = (x.dims[0], x.dims[1], y.dims[1]);
    let out = x.resized(&[rows, columns]);
    b.tracked("aten::mm", &[T(x), T(y)], |b| {
        let kernel = kernels::gemm(rows, columns, inner, layout);
        if kernel.name.contains("splitK") {
            b.transfer(Transfer::Memset, Stream::Compute, 4 * kernel.grid[1]);
        }
        b.allocate(&out);
        b.launch(&kernel);
        let (grad, x, y) = (out.clone(), x.clone(), y.clone());
        b.record("MmBackward0", &out, move |b| {
            let turned = t(b, &grad);
            mm(b, &turned, &x, "NTN");
            let weight = t(b, &y);
            t(b, &weight);
            mm(b, &grad, &weight, "NNT");
        });
    });
    out
}

/// `aten::linear` without bias; the weight is a parameter.
pub(super) fn linear(b: &mut Builder, x: &Tensor, outputs: i64) -> Tensor {
    let inputs = x.dims.last().copied().unwrap_or(1);
    let weight = Tensor::bf16(&[outputs, inputs]);
    b.tracked("aten::linear", &[T(x), T(&weight), No], |b| {
        parameter(b, &weight);
        let turned = t(b, &weight);
        b.tracked("aten::matmul", &[T(x), T(&turned)], |b| {
            if x.dims.len() == 2 {
                return mm(b, x, &turned, "TNT");
            }
            let flat = reshape(b, x, &[x.elements() / inputs, inputs]);
            let product = mm(b, &flat, &turned, "TNN");
            let mut dims = x.dims.clone();
            let last = dims.len() - 1;
            dims[last] = outputs;
            let out = product.resized(&dims);
            b.tracked("aten::_unsafe_view", &[T(&product), L(&dims)], |b| {
                record_view(b, "UnsafeViewBackward0", &product, &out);
            });
            out
        })
    })
}

/// Marks a parameter: its gradient is accumulated, and joins the bucket that the next collective reduces.
pub(super) fn parameter(b: &mut Builder, weight: &Tensor) {
    let grad = weight.clone();
    b.record_parameter(weight, move |b| {
        b.op("aten::detach", &[T(&grad)], |b| b.leaf("detach", &[T(&grad)]));
        collectives::gradient_ready(b, &grad);
    });
}

/// `aten::rms_norm`, fused, with its weight.
pub(super) fn rms_norm(b: &mut Builder, x: &Tensor) -> Tensor {
    let out = x.resized(&x.dims);
    let width = x.dims.last().copied().unwrap_or(1);
    let weight = Tensor::bf16(&[width]);
    let rows = x.elements() / width;
    let args = [T(x), L(&[width]), T(&weight), S("9.9999999999999995e-07")];
    b.tracked("aten::rms_norm", &args, |b| {
        parameter(b, &weight);
        b.tracked("aten::_fused_rms_norm", &args, |b| {
            b.empty(&out);
            b.empty(&Tensor::new(DType::Float, &[rows]));
            let name = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, true>(int, float, c10::BFloat16 const*, \
                        c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)";
            b.launch(&kernels::named(name, rows, 128, 2_000 + (x.bytes() / 1500) as u32));
            let (x, weight) = (x.clone(), weight.clone());
            b.record("FusedRmsNormBackward0", &out, move |b| rms_norm_backward(b, &x, &weight, rows));
        });
    });
    out
}

fn rms_norm_backward(b: &mut Builder, x: &Tensor, weight: &Tensor, rows: i64) {
    let scale = Tensor::new(DType::Float, &[rows, 1]);
    let args = [T(x), T(x), L(&weight.dims), T(&scale), T(weight), S("[True, True]")];
    b.op("aten::_fused_rms_norm_backward", &args, |b| {
        b.op("aten::empty_like", &[T(x), No, No, No, No, S("0")], |b| b.empty(x));
        b.op("aten::empty_like", &[T(weight), No, No, No, No, S("0")], |b| b.empty(weight));
        for (name, blocks) in [
            ("layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float, true>", rows),
            ("GammaBetaBackwardCUDAKernelTemplate<c10::BFloat16, float, 64u, 16u, 256u, false, true, true>", 32),
        ] {
            let name = format!(
                "void at::native::(anonymous namespace)::{name}(c10::BFloat16 const*, c10::BFloat16 const*, float const*, float const*, \
                 c10::BFloat16 const*, c10::BFloat16*, int)"
            );
            b.launch(&kernels::named(&name, blocks, 256, 3_000 + (x.bytes() / 900) as u32));
        }
    });
}

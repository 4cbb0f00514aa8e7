//! Attention, embedding and loss: ops with shapes of their own.

use super::builder::Builder;
use super::draw::Transfer;
use super::kernels;
use super::ops;
use super::template::Stream;
use super::tensor::{Arg, DType, Tensor};

use Arg::{L, N, No, S, T};

const SCALE: &str = "0.088388347648318447";

/// `aten::scaled_dot_product_attention` on the cuDNN path, causal, with grouped heads.
pub(super) fn scaled_dot_product(b: &mut Builder, q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    let (batch, heads, rows, width) = (q.dims[0], q.dims[1], q.dims[2], q.dims[3]);
    let out = Tensor::bf16(&[batch, rows, heads, width]).swapped(1, 2);
    let sums = Tensor::new(DType::Float, &[batch, heads, rows, 1]);
    let ns = 6_000 + (batch * heads * rows * rows * width * 2 / 400_000) as u32;
    let outer = [T(q), T(k), T(v), No, S("0."), S("True"), S(SCALE), S("True")];
    b.tracked("aten::scaled_dot_product_attention", &outer, |b| {
        let middle = [T(q), T(k), T(v), No, S("True"), S("0."), S("True"), S("False"), S(SCALE)];
        b.tracked("aten::_scaled_dot_product_cudnn_attention", &middle, |b| {
            let tail = [N(rows), N(rows), S("True"), S("0."), S("True"), S("False"), S(SCALE)];
            let mut inner = vec![T(q), T(k), T(v), No, No, No];
            inner.extend(tail);
            b.op("aten::_cudnn_attention_forward", &inner, |b| {
                b.leaf("aten::empty", &[L(&[]), S("4"), No, No, No, No]);
                b.leaf("aten::empty", &[L(&[]), S("4"), No, No, No, No]);
                b.runtime("cudaStreamIsCapturing", 317, 1_100);
                b.op("aten::empty_like", &[T(q), No, No, No, No, No], |b| b.empty_strided(&out));
                b.empty(&sums);
                b.transfer(Transfer::Memset, Stream::Compute, 4);
                b.runtime("cudaGetErrorString", 12, 260);
                b.launch(&kernels::attention("fprop", ns));
                b.runtime("cudaGetErrorString", 12, 260);
            });
            let saved = [q.clone(), k.clone(), v.clone(), out.clone(), sums.clone()];
            b.record("ScaledDotProductCudnnAttentionBackward0", &out, move |b| backward(b, &saved, ns));
        });
    });
    out
}

fn backward(b: &mut Builder, saved: &[Tensor; 5], forward_ns: u32) {
    let [q, k, v, out, sums] = saved;
    let seed = Builder::scalar(DType::Long);
    let rows = q.dims[2];
    let args = [
        T(out),
        T(q),
        T(k),
        T(v),
        T(out),
        T(sums),
        T(&seed),
        T(&seed),
        No,
        No,
        No,
        N(rows),
        N(rows),
        S("0."),
        S("True"),
        S(SCALE),
    ];
    b.op("aten::_scaled_dot_product_cudnn_attention_backward", &args, |b| {
        b.op("aten::_cudnn_attention_backward", &args, |b| {
            for input in [q, k, v] {
                b.op("aten::empty_like", &[T(input), No, No, No, No, No], |b| b.empty_strided(input));
            }
            b.transfer(Transfer::Memset, Stream::Compute, 4);
            b.runtime("cudaGetErrorString", 12, 260);
            let pointers =
                "(void const*, void*, unsigned int, unsigned int, unsigned int, unsigned int, float const*, bool)";
            for name in
                ["compute_dot_do_o_specialized<true, 128>", "", "convert_dq_to_16bits<true>", "fmha_reduce_head<true>"]
            {
                b.runtime("cudaGetFuncBySymbol", 336, 2_400);
                if name.is_empty() {
                    b.launch(&kernels::attention("bprop", forward_ns * 5 / 2));
                } else {
                    let name = format!("void cudnn::fusion::{name}{pointers}");
                    b.launch(&kernels::named(&name, 8192, 128, 2_000 + (q.bytes() / 1200) as u32));
                }
                b.runtime("cudaGetErrorString", 12, 200);
            }
        });
    });
}

/// `aten::embedding` of `vocabulary` rows.
pub(super) fn embedding(b: &mut Builder, tokens: &Tensor, vocabulary: i64, width: i64) -> Tensor {
    let weight = Tensor::bf16(&[vocabulary, width]);
    let count = tokens.elements();
    let out = Tensor::bf16(&[tokens.dims[0], tokens.dims[1], width]);
    b.tracked("aten::embedding", &[T(&weight), T(tokens), S("-1"), S("False"), S("False")], |b| {
        ops::parameter(b, &weight);
        b.op("aten::reshape", &[T(tokens), L(&[-1])], |b| b.leaf("aten::view", &[T(tokens), L(&[-1])]));
        let (flat, rows) = (tokens.resized(&[count]), Tensor::bf16(&[count, width]));
        b.op("aten::index_select", &[T(&weight), S("0"), T(&flat)], |b| {
            b.empty(&Tensor::bf16(&[0]));
            b.leaf("aten::resize_", &[T(&Tensor::bf16(&[0])), L(&rows.dims), No]);
            let name = "void at::native::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long, bool)";
            b.launch(&kernels::named(name, count, 256, 2_000 + (rows.bytes() / 1800) as u32));
        });
        b.leaf("aten::view", &[T(&rows), L(&out.dims)]);
        let (grad, tokens) = (out.clone(), tokens.clone());
        b.record("EmbeddingBackward0", &out, move |b| embedding_backward(b, &grad, &tokens, vocabulary));
    });
    out
}

fn embedding_backward(b: &mut Builder, grad: &Tensor, tokens: &Tensor, vocabulary: i64) {
    let args = [T(grad), T(tokens), N(vocabulary), S("-1"), S("False"), S("False")];
    b.op("aten::embedding_backward", &args, |b| {
        b.op("aten::embedding_dense_backward", &args[..5], |b| {
            let width = grad.dims[2];
            b.op("aten::empty_like", &[T(tokens), No, No, No, No, S("0")], |b| b.empty(tokens));
            let cub = "void at_cuda_detail::cub::detail::radix_sort::";
            let policy = "at_cuda_detail::cub::detail::radix::policy_hub<long, at::cuda::cub::detail::OpaqueType<8>, unsigned long long>::Policy1000";
            b.launch(&kernels::named(&format!("{cub}DeviceRadixSortHistogramKernel<{policy}, long>(unsigned long long*, long const*, int, int)"), 924, 128, 3_200));
            b.runtime("cudaPeekAtLastError", 11, 150);
            for _ in 0..8 {
                b.transfer(Transfer::Memset, Stream::Compute, 1024);
                b.launch(&kernels::named(&format!("{cub}DeviceRadixSortOnesweepKernel<{policy}, long>(int*, int*, long*, long const*, int, int)"), 1, 384, 5_800));
                b.runtime("cudaPeekAtLastError", 11, 150);
            }
            ops::zeros(b, &Tensor::bf16(&[vocabulary, width]));
            for name in ["compute_grad_weight<c10::BFloat16, long>", "sum_and_scatter<c10::BFloat16, long>"] {
                let name = format!("void at::native::(anonymous namespace)::{name}(long const*, c10::BFloat16 const*, long const*, long, long, float*)");
                b.launch(&kernels::named(&name, 9010, 1024, 57_000));
            }
        });
    });
}

/// Cross entropy of `logits` (rows × classes, float).
pub(super) fn cross_entropy(b: &mut Builder, logits: &Tensor) -> Tensor {
    let labels = Tensor::new(DType::Long, &logits.dims[..1]);
    let loss = Builder::scalar(DType::Float);
    let args = [T(logits), T(&labels), No, S("1"), S("-100"), S("0.")];
    b.tracked("aten::cross_entropy_loss", &args, |b| {
        b.tracked("aten::log_softmax", &[T(logits), S("1"), S("6")], |b| {
            b.tracked("aten::_log_softmax", &[T(logits), S("1"), S("False")], |b| {
                b.allocate(logits);
                b.launch(&softmax("cunn_SoftMaxForward", "LogSoftMaxForwardEpilogue", logits, 1024));
                let logits = logits.clone();
                b.record("LogSoftmaxBackward0", &logits.clone(), move |b| {
                    b.op("aten::_log_softmax_backward_data", &[T(&logits), T(&logits), S("1"), S("6")], |b| {
                        b.launch(&softmax("cunn_SoftMaxBackward", "LogSoftMaxBackwardEpilogue", &logits, 512));
                    });
                });
            });
        });
        nll_loss(b, logits, &labels, &loss);
    });
    loss
}

fn softmax(kernel: &str, epilogue: &str, logits: &Tensor, threads: i64) -> kernels::Kernel {
    let space = "at::native::(anonymous namespace)";
    let name =
        format!("void {space}::{kernel}<4, float, float, float, {space}::{epilogue}>(float*, float const*, int)");
    kernels::named(&name, logits.dims[0], threads, 4_000 + (logits.bytes() / 1300) as u32)
}

fn nll_loss(b: &mut Builder, logits: &Tensor, labels: &Tensor, loss: &Tensor) {
    let args = [T(logits), T(labels), No, S("1"), S("-100")];
    b.tracked("aten::nll_loss_nd", &args, |b| {
        b.tracked("aten::nll_loss", &args, |b| {
            b.tracked("aten::nll_loss_forward", &args, |b| {
                b.leaf("aten::resize_", &[T(loss), L(&[]), No]);
                let name = "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>(float*, float*, float const*, \
                            long const*, float const*, bool, long, long, long, long)";
                b.launch(&kernels::named(name, 1, 256, 18_000));
                let (logits, labels, loss) = (logits.clone(), labels.clone(), loss.clone());
                b.record("NllLossBackward0", &loss.clone(), move |b| {
                    let args = [T(&loss), T(&logits), T(&labels), No, S("1"), S("-100"), T(&loss)];
                    b.op("aten::nll_loss_backward", &args, |b| {
                        b.op("aten::zero_", &[T(&logits)], |b| ops::fill(b, &logits, "0"));
                        let name = "void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<float, long>(float*, float const*, long const*, \
                                    float const*, float const*, bool, int, int, long, long)";
                        b.launch(&kernels::named(name, 1, 256, 11_000));
                    });
                });
            });
        });
    });
}

/// `aten::item`: the host waits for one number.
pub(super) fn item(b: &mut Builder, x: &Tensor) {
    b.op("aten::item", &[T(x)], |b| {
        b.op("aten::_local_scalar_dense", &[T(x)], |b| {
            b.transfer(Transfer::DeviceToHost, Stream::Compute, x.bytes());
            b.runtime("cudaStreamSynchronize", 131, 3_000);
        });
    });
}

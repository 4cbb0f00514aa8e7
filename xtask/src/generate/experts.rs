//! A mixture of experts: the router, and one gated MLP per expert over the tokens routed to it. How many tokens each
//! expert gets is drawn, so the sizes differ from expert to expert and from layer to layer as they do in real ones.

use super::builder::Builder;
use super::kernels;
use super::ops;
use super::python::{tensor_method, torch_function};
use super::tensor::{Arg, DType, Tensor};

use Arg::{L, N, No, S, T};

/// Experts of a layer.
const EXPERTS: i64 = 6;
/// Width of an expert.
const EXPERT_WIDTH: i64 = 1408;
const FILE: &str = "transformers/models/mixtral/modeling_mixtral.py";

/// The block: `x` is batch × rows × width.
pub(super) fn block(b: &mut Builder, x: &Tensor) -> Tensor {
    b.module("MixtralSparseMoeBlock", &format!("{FILE}(122): forward"), |b| {
        let width = x.dims[2];
        let tokens = x.elements() / width;
        let flat = b.frame(&tensor_method("view"), |b| ops::view(b, x, &[tokens, width]));
        let weights = b.module("MixtralTopKRouter", &format!("{FILE}(104): forward"), |b| router(b, &flat));
        let mut left = tokens * 2;
        for expert in 0..EXPERTS {
            let share = left / (EXPERTS - expert);
            let routed = match expert {
                last if last == EXPERTS - 1 => left,
                _ => (share * (70 + b.random.below(61) as i64) / 100).clamp(8, tokens) / 8 * 8,
            };
            left -= routed.min(left);
            self::expert(b, &flat, &weights, routed.clamp(8, tokens));
        }
        b.frame(&tensor_method("reshape"), |b| ops::reshape(b, &flat, &x.dims))
    })
}

fn router(b: &mut Builder, x: &Tensor) -> Tensor {
    let logits = b.frame("<built-in function linear>", |b| ops::linear(b, x, EXPERTS));
    let logits = b.frame(&tensor_method("float"), |b| ops::to(b, &logits, DType::Float));
    let out = logits.clone();
    b.frame("torch/nn/functional.py(2122): softmax", |b| {
        b.frame(&tensor_method("softmax"), |b| {
            b.tracked("aten::softmax", &[T(&logits), S("-1"), No], |b| {
                b.tracked("aten::_softmax", &[T(&logits), S("-1"), S("False")], |b| {
                    let name = "void (anonymous namespace)::softmax_warp_forward<float, float, float, 2, false, false>(float*, float const*, int, int, int, bool const*, int, bool)";
                    b.launch(&kernels::named(name, out.dims[0] / 8, 128, 2_300));
                    let grad = out.clone();
                    b.record("SoftmaxBackward0", &out, move |b| {
                        b.op("aten::_softmax_backward_data", &[T(&grad), T(&grad), S("-1"), S("6")], |b| {
                            let name = "void (anonymous namespace)::softmax_warp_backward<float, float, float, 2, false, false>(float*, float const*, float const*, int, int, int, bool const*)";
                            b.launch(&kernels::named(name, grad.dims[0] / 8, 128, 2_500));
                        });
                    });
                });
            });
        });
    });
    b.frame(&torch_function("topk"), |b| {
        b.op("aten::topk", &[T(&logits), S("2"), S("-1"), S("True"), S("True")], |b| {
            b.empty(&logits.resized(&[logits.dims[0], 2]));
            let name = "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>(at::cuda::detail::TensorInfo<float const, unsigned int>, unsigned int, unsigned int, bool)";
            b.launch(&kernels::named(name, logits.dims[0], 32, 9_000));
        });
    });
    logits
}

fn expert(b: &mut Builder, x: &Tensor, weights: &Tensor, routed: i64) {
    b.module("MixtralBlockSparseTop2MLP", &format!("{FILE}(78): forward"), |b| {
        let rows = index_select(b, x, routed);
        let gate = b.module("Linear", super::model::LINEAR, |b| ops::linear(b, &rows, EXPERT_WIDTH));
        let gate = b.module("SiLUActivation", "transformers/activations.py(102): forward", |b| ops::silu(b, &gate));
        let up = b.module("Linear", super::model::LINEAR, |b| ops::linear(b, &rows, EXPERT_WIDTH));
        let hidden = ops::mul(b, &gate, &up, true);
        let out = b.module("Linear", super::model::LINEAR, |b| ops::linear(b, &hidden, x.dims[1]));
        let share = weights.cast(DType::BFloat16).resized(&[routed, 1]);
        let scaled = ops::mul(b, &out, &share, false);
        index_add(b, x, &scaled);
    });
}

fn index_select(b: &mut Builder, x: &Tensor, rows: i64) -> Tensor {
    let index = Tensor::new(DType::Long, &[rows]);
    let out = x.resized(&[rows, x.dims[1]]);
    b.frame(&tensor_method("index_select"), |b| {
        b.tracked("aten::index_select", &[T(x), S("0"), T(&index)], |b| {
            b.empty(&out);
            b.launch(&gather(&out));
            let (x, grad, index) = (x.clone(), out.clone(), index.clone());
            b.record("IndexSelectBackward0", &out, move |b| {
                b.op("aten::index_select_backward", &[T(&grad), L(&x.dims), N(0), T(&index)], |b| {
                    ops::zeros(b, &x);
                    index_add(b, &x, &grad);
                });
            });
        });
    });
    out
}

fn gather(out: &Tensor) -> kernels::Kernel {
    let name = "void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>\
                (at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, int, int, unsigned int, unsigned int, long)";
    kernels::named(name, out.dims[0], 128, 1_500 + (out.bytes() / 1500) as u32)
}

fn index_add(b: &mut Builder, to: &Tensor, rows: &Tensor) {
    let index = Tensor::new(DType::Long, &rows.dims[..1]);
    b.tracked("aten::index_add_", &[T(to), S("0"), T(&index), T(rows), S("1")], |b| {
        let name = "void at::native::indexFuncLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true, at::native::ReduceAdd>\
                    (at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>, int, int, unsigned int, unsigned int, long, long)";
        b.launch(&kernels::named(name, rows.dims[0], 128, 2_500 + (rows.bytes() / 700) as u32));
        let (grad, index) = (rows.clone(), index.clone());
        b.record("IndexAddBackward0", rows, move |b| {
            b.op("aten::index_select", &[T(&grad), S("0"), T(&index)], |b| b.launch(&gather(&grad)));
        });
    });
}

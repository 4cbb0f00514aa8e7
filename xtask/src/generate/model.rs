//! The network: a decoder-only transformer, every third layer with experts.

use super::attention;
use super::builder::Builder;
use super::experts;
use super::ops;
use super::python::{tensor_method, torch_function};
use super::tensor::{DType, Tensor};

const FILE: &str = "transformers/models/llama/modeling_llama.py";
/// The forward of `torch.nn.Linear`.
pub(super) const LINEAR: &str = "torch/nn/modules/linear.py(130): forward";

const BATCH: i64 = 4;
const ROWS: i64 = 1024;
const WIDTH: i64 = 2048;
const HEADS: i64 = 16;
const GROUPS: i64 = 4;
const HEAD_WIDTH: i64 = WIDTH / HEADS;
const MLP_WIDTH: i64 = 5632;
const VOCABULARY: i64 = 32_000;
/// Frames of Python around each layer besides those of its modules: caches, configuration, masks.
const LAYER_CHATTER: usize = 70;

/// Token numbers of one batch.
pub(super) fn tokens() -> Tensor {
    Tensor::new(DType::Long, &[BATCH, ROWS])
}

/// Runs the network and returns the loss.
pub(super) fn forward(b: &mut Builder, layers: usize) -> Tensor {
    b.module("DistributedDataParallel", "torch/nn/parallel/distributed.py(1670): forward", |b| {
        b.chatter("replica", 40);
        b.module("LlamaForCausalLM", &format!("{FILE}(436): forward"), |b| {
            let hidden = b.module("LlamaModel", &format!("{FILE}(364): forward"), |b| decoder(b, layers));
            let logits = linear(b, &hidden, VOCABULARY);
            b.frame("transformers/loss/loss_utils.py(49): ForCausalLMLoss", |b| {
                let logits = b.frame(&tensor_method("float"), |b| ops::to(b, &logits, DType::Float));
                let flat = b.frame(&tensor_method("view"), |b| ops::view(b, &logits, &[BATCH * ROWS, VOCABULARY]));
                b.frame("transformers/loss/loss_utils.py(32): fixed_cross_entropy", |b| {
                    b.frame("torch/nn/functional.py(3421): cross_entropy", |b| {
                        b.call("torch/nn/_reduction.py(7): get_enum");
                        b.frame("<built-in function cross_entropy_loss>", |b| attention::cross_entropy(b, &flat))
                    })
                })
            })
        })
    })
}

fn decoder(b: &mut Builder, layers: usize) -> Tensor {
    let mut x = b.module("Embedding", "torch/nn/modules/sparse.py(188): forward", |b| {
        b.frame(&torch_function("embedding"), |b| attention::embedding(b, &tokens(), VOCABULARY, WIDTH))
    });
    for layer in 0..layers {
        b.chatter("layer", LAYER_CHATTER);
        x = b.frame("transformers/modeling_layers.py(80): __call__", |b| {
            b.module("LlamaDecoderLayer", &format!("{FILE}(295): forward"), |b| decoder_layer(b, &x, layer % 3 == 2))
        });
    }
    norm(b, &x)
}

fn decoder_layer(b: &mut Builder, x: &Tensor, sparse: bool) -> Tensor {
    let normed = norm(b, x);
    let attended = b.module("LlamaAttention", &format!("{FILE}(243): forward"), |b| attend(b, &normed));
    let x = ops::add(b, x, &attended);
    let normed = norm(b, &x);
    let out = if sparse { experts::block(b, &normed) } else { mlp(b, &normed) };
    ops::add(b, &x, &out)
}

fn norm(b: &mut Builder, x: &Tensor) -> Tensor {
    b.module("RMSNorm", "torch/nn/modules/normalization.py(401): forward", |b| {
        b.frame("torch/nn/functional.py(2940): rms_norm", |b| {
            b.call("<built-in function _has_torch_function_variadic>");
            b.frame(&torch_function("rms_norm"), |b| ops::rms_norm(b, x))
        })
    })
}

fn linear(b: &mut Builder, x: &Tensor, outputs: i64) -> Tensor {
    b.module("Linear", LINEAR, |b| {
        b.call("torch/nn/modules/module.py(1955): __getattr__");
        b.frame("<built-in function linear>", |b| ops::linear(b, x, outputs))
    })
}

fn heads(b: &mut Builder, x: &Tensor, count: i64) -> Tensor {
    let projected = linear(b, x, count * HEAD_WIDTH);
    let split = b.frame(&tensor_method("view"), |b| ops::view(b, &projected, &[BATCH, ROWS, count, HEAD_WIDTH]));
    b.frame(&tensor_method("transpose"), |b| ops::transpose(b, &split, 1, 2))
}

fn attend(b: &mut Builder, x: &Tensor) -> Tensor {
    let (query, key, value) = (heads(b, x, HEADS), heads(b, x, GROUPS), heads(b, x, GROUPS));
    let (query, key) = b.frame(&format!("{FILE}(137): apply_rotary_pos_emb"), |b| {
        let table = Tensor::bf16(&[1, ROWS, HEAD_WIDTH]);
        let cos = b.frame(&tensor_method("unsqueeze"), |b| ops::unsqueeze(b, &table, 1));
        let sin = b.frame(&tensor_method("unsqueeze"), |b| ops::unsqueeze(b, &table, 1));
        (rotate(b, &query, &cos, &sin), rotate(b, &key, &cos, &sin))
    });
    b.chatter("attention", 12);
    let out = b.frame("transformers/integrations/sdpa_attention.py(79): sdpa_attention_forward", |b| {
        b.call("transformers/integrations/sdpa_attention.py(27): use_gqa_in_sdpa");
        let out = b.frame("<built-in function scaled_dot_product_attention>", |b| {
            attention::scaled_dot_product(b, &query, &key, &value)
        });
        b.frame(&tensor_method("transpose"), |b| ops::transpose(b, &out, 1, 2))
    });
    let joined = b.frame(&tensor_method("reshape"), |b| ops::reshape(b, &out, &[BATCH, ROWS, WIDTH]));
    linear(b, &joined, WIDTH)
}

fn rotate(b: &mut Builder, x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let straight = ops::mul(b, x, cos, false);
    let turned = b.frame(&format!("{FILE}(130): rotate_half"), |b| {
        let half = HEAD_WIDTH / 2;
        let (low, high) = (ops::slice(b, x, 0, half), ops::slice(b, x, half, HEAD_WIDTH));
        let negated = ops::neg(b, &high);
        b.frame(&torch_function("cat"), |b| ops::cat(b, &negated, &low))
    });
    let crossed = ops::mul(b, &turned, sin, false);
    ops::add(b, &straight, &crossed)
}

fn mlp(b: &mut Builder, x: &Tensor) -> Tensor {
    b.module("LlamaMLP", &format!("{FILE}(174): forward"), |b| {
        let gate = linear(b, x, MLP_WIDTH);
        let gate = b.module("SiLUActivation", "transformers/activations.py(102): forward", |b| {
            b.frame("torch/nn/functional.py(2375): silu", |b| {
                b.call("<built-in function _has_torch_function_unary>");
                b.frame("<built-in function silu>", |b| ops::silu(b, &gate))
            })
        });
        let up = linear(b, x, MLP_WIDTH);
        let hidden = ops::mul(b, &gate, &up, true);
        linear(b, &hidden, WIDTH)
    })
}

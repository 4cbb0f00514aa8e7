//! One training step around the network: the batch, forward, backward, gradient clipping, optimizer, and the loss read
//! back.

use super::attention;
use super::builder::Builder;
use super::draw::{Note, Transfer};
use super::kernels;
use super::layout::Layout;
use super::model;
use super::ops;
use super::python::{tensor_method, torch_function};
use super::random::Random;
use super::template::{Stream, Template};
use super::tensor::{Arg, DType, Tensor};

use Arg::{Many, N, No, S, T};

/// Frames of Python that fetching one sample takes.
const SAMPLE_CHATTER: usize = 60;
/// Frames of Python that the optimizer spends on one parameter.
const PARAMETER_CHATTER: usize = 14;
/// Parameters of one layer.
const PARAMETERS_PER_LAYER: usize = 9;

/// How large a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Layers of the network.
    pub(super) layers: usize,
    /// Samples that the loader prepares; each is Python work only.
    pub(super) samples: usize,
}

/// Builds the step.
pub(super) fn build(layout: Layout, seed: u64, extent: Extent) -> Template {
    let mut builder = Builder::new(layout, seed);
    let b = &mut builder;
    b.note(Note::Step, true, |b| {
        load(b, extent.samples);
        b.frame("train.py(148): training_step", |b| {
            let loss = b.with_grad(true, |b| model::forward(b, extent.layers));
            backward(b, &loss);
            clip(b, extent.layers);
            optimize(b, extent.layers);
            b.frame(&tensor_method("item"), |b| attention::item(b, &loss));
        });
        b.free_down_to(0);
    });
    b.frame("torch/profiler/profiler.py(884): step", |b| b.chatter("profiler", 30));
    builder.finish()
}

fn load(b: &mut Builder, samples: usize) {
    let name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
    b.note(Note::Fixed(name), false, |b| {
        b.frame("torch/utils/data/dataloader.py(733): __next__", |b| {
            b.frame("torch/utils/data/dataloader.py(788): _next_data", |b| {
                b.frame("torch/utils/data/_utils/fetch.py(49): fetch", |b| {
                    // Draws of their own, so that the number of samples changes nothing else in the step.
                    let own = Random::new(b.random.next(), 1);
                    let rest = std::mem::replace(&mut b.random, own);
                    for _ in 0..samples {
                        b.frame("datasets/arrow_dataset.py(2870): __getitem__", |b| {
                            b.chatter("sample", SAMPLE_CHATTER);
                        });
                    }
                    b.random = rest;
                    b.frame("torch/utils/data/_utils/collate.py(398): default_collate", collate);
                });
            });
        });
    });
    let tokens = model::tokens();
    b.frame("accelerate/utils/operations.py(136): send_to_device", |b| {
        b.frame(&tensor_method("to"), |b| {
            b.op("aten::to", &[T(&tokens), S("4"), S("0"), No, No, S("True"), S("False"), No], |b| {
                b.op("aten::_to_copy", &[T(&tokens), S("4"), S("0"), No, No, S("True"), No], |b| {
                    b.empty_strided(&tokens);
                    b.op("aten::copy_", &[T(&tokens), T(&tokens), S("True")], |b| {
                        b.transfer(Transfer::HostToDevice, Stream::Copy, tokens.bytes());
                    });
                });
            });
        });
        b.runtime("cudaEventRecord", 135, 900);
        b.runtime("cudaStreamWaitEvent", 147, 800);
    });
}

fn collate(b: &mut Builder) {
    let row = Tensor::new(DType::Long, &[1024]);
    let rows = vec![row; 4];
    b.frame(&torch_function("stack"), |b| {
        b.op("aten::stack", &[Arg::Ts(&rows), S("0")], |b| b.leaf("aten::cat", &[Arg::Ts(&rows), S("0")]));
    });
}

fn backward(b: &mut Builder, loss: &Tensor) {
    b.frame("accelerate/accelerator.py(2570): backward", |b| {
        b.frame("torch/_tensor.py(576): backward", |b| {
            b.frame("torch/autograd/__init__.py(253): backward", |b| {
                b.chatter("backward", 8);
                b.frame(&torch_function("ones_like"), |b| {
                    b.op("aten::ones_like", &[T(loss), No, No, No, S("False"), S("1")], |b| ops::fill(b, loss, "1."));
                });
                b.frame("torch/autograd/graph.py(860): _engine_run_backward", |b| {
                    let run = "<built-in method run_backward of torch._C._EngineBase object at 0x7fa3b0c5e2d0>";
                    b.frame(run, Builder::backward);
                });
            });
        });
    });
}

fn clip(b: &mut Builder, layers: usize) {
    let norm = Builder::scalar(DType::Float);
    b.frame("torch/nn/utils/clip_grad.py(38): _no_grad_wrapper", |b| {
        for _ in 0..layers * PARAMETERS_PER_LAYER {
            b.chatter("clip", PARAMETER_CHATTER / 2);
        }
        b.frame(&torch_function("_foreach_norm"), |b| {
            b.op("aten::_foreach_norm", &[Many, S("2."), No], |b| {
                for _ in 0..layers.div_ceil(4) {
                    b.launch(&kernels::multi_tensor(
                        "TensorListMetadata<1>",
                        "LpNormFunctor<c10::BFloat16, (at::native::NormType)1, c10::BFloat16, 1, 1, 0>",
                        320,
                    ));
                }
            });
        });
        b.frame(&torch_function("stack"), |b| {
            let norms = Tensor::bf16(&[(layers * PARAMETERS_PER_LAYER) as i64]);
            b.op("aten::stack", &[Many, S("0")], |b| {
                b.op("aten::cat", &[Many, S("0")], |b| {
                    b.launch(&kernels::named(
                        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_contig",
                        4,
                        128,
                        1_800,
                    ));
                });
            });
            b.op("aten::linalg_vector_norm", &[T(&norms), S("2."), No, S("False"), No], |b| {
                b.launch(&kernels::reduce("NormTwoOps", &norms, 1));
            });
        });
        b.op("aten::_foreach_mul_", &[Many, T(&norm)], |b| {
            for _ in 0..layers.div_ceil(4) {
                b.launch(&kernels::multi_tensor(
                    "TensorListMetadata<1>",
                    "BinaryOpScalarTensorFunctor<c10::BFloat16, 1, 1, 0>",
                    320,
                ));
            }
        });
    });
}

fn optimize(b: &mut Builder, layers: usize) {
    let parameters = layers * PARAMETERS_PER_LAYER;
    b.note(Note::Fixed("Optimizer.step#AdamW.step"), true, |b| {
        b.frame("torch/optim/optimizer.py(512): wrapper", |b| {
            b.frame("torch/optim/optimizer.py(60): _use_grad", |b| {
                b.frame("torch/optim/adam.py(214): step", |b| {
                    b.frame("torch/optim/adam.py(139): _init_group", |b| {
                        for _ in 0..parameters {
                            b.call(&torch_function("is_complex"));
                            b.call("torch/_tensor.py(1225): __hash__");
                            b.chatter("parameter", PARAMETER_CHATTER);
                        }
                    });
                    b.frame("torch/optim/adam.py(803): _fused_adam", |b| fused_adam(b, layers));
                });
            });
        });
    });
    b.note(Note::Fixed("Optimizer.zero_grad#AdamW.zero_grad"), false, |b| {
        b.frame("torch/optim/optimizer.py(1027): zero_grad", |b| b.chatter("zero", parameters * 2));
    });
}

fn fused_adam(b: &mut Builder, layers: usize) {
    b.frame(&torch_function("_foreach_add_"), |b| {
        b.op("aten::_foreach_add_", &[Many, S("1")], |b| {
            b.launch(&kernels::multi_tensor("TensorListMetadata<1>", "BinaryOpScalarFunctor<float, 1, 1, 0>", 39));
        });
    });
    let step = ["0.0001", "0.90000000000000002", "0.999", "0.01", "1e-08", "False", "False"];
    let mut args = vec![Many; 6];
    args.extend(step.map(S));
    args.extend([No, No]);
    b.frame(&torch_function("_fused_adamw_"), |b| {
        b.op("aten::_fused_adamw_", &args, |b| {
            for chunk in 0..layers {
                let functor = "FusedAdamMathFunctor<c10::BFloat16, 4, (at::native::ADAM_MODE)1, false>";
                b.launch(&kernels::multi_tensor(
                    "FusedOptimizerTensorListMetadata<4>",
                    functor,
                    320 - (chunk % 2) as i64 * 39,
                ));
            }
        });
    });
    b.leaf("aten::_foreach_sub_", &[Many, N(0)]);
}

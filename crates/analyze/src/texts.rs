//! The text library: every sentence of a finding, with placeholders in braces. No other sentence is said.
//!
//! `I` tells what is wrong, `A` what to change in the model, `B` what a kernel team can do, `N` is a remark.

use std::fmt::Display;

/// A sentence.
#[derive(Debug, Clone, Copy)]
pub struct Text {
    /// Stable name.
    pub id: &'static str,
    /// The sentence; `{name}` is filled in.
    pub template: &'static str,
}

/// Handle of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(usize);

macro_rules! texts {
    ($($name:ident $id:literal $template:literal;)*) => {
        /// Position of each sentence.
        #[expect(non_camel_case_types, reason = "only counts the list")]
        enum Position { $($name,)* }

        #[expect(clippy::doc_markdown, reason = "the sentences as they are said")]
        impl TextId {
            $(#[doc = $template] pub const $name: Self = Self(Position::$name as usize);)*
        }

        /// All sentences.
        pub const TEXTS: &[Text] = &[$(Text { id: $id, template: $template }),*];
    };
}

#[rustfmt::skip]
texts! {
    I_COMPUTE      "I-COMPUTE"      "`{op}` reaches {tflops} of {peak} TFLOPS/s ({eff}% of peak) on {args}; FLOPS/Byte {fpb}{knee} makes it compute-bound.";
    I_MEMORY       "I-MEMORY"       "`{op}` moves {tbs} of {peak} TB/s ({eff}% of peak) on {args}; FLOPS/Byte {fpb}{knee} makes it memory-bound.";
    I_UNMODELED    "I-UNMODELED"    "`{op}` takes {time} ms ({pct}% of compute); no performance model covers it, so its efficiency is not known.";
    I_TINY         "I-TINY"         "{batch} matrices of {m}x{n}x{k} per call, {count} calls: {factor}x the roofline time.";
    I_SKINNY       "I-SKINNY"       "One GEMM side is only {min}; {pct}% of the bytes are the {what}, and {tbs} of {peak} TB/s is reached.";
    I_QUANT        "I-QUANT"        "Quantized GEMM ({dtype}) at {eff}% of {peak}.";
    I_FP32         "I-FP32"         "{time} ms of matrix work runs in {dtype} ({peak} TFLOPS/s peak){more}; the lower-precision peak is {peak16} TFLOPS/s.";
    I_KV           "I-KV"           "Key/value heads are copied {r}x to match the query heads: {time} ms over {calls}.";
    I_EXPERTS      "I-EXPERTS"      "{n} experts run one after another as small GEMMs in `{module}`: {time} ms.";
    I_EXPERTS_LOOSE "I-EXPERTS-LOOSE" "{n} experts run one after another as small GEMMs: {time} ms.";
    I_DEPTHWISE_FIRST "I-DEPTHWISE-FIRST" "{time} ms of depthwise convolutions on channels-first images reach {pct}% of peak.";
    I_DEPTHWISE_NORM "I-DEPTHWISE-NORM" "{norm} ms of batch norm beside them reach {normpct}%.";
    I_DEPTHWISE_ACROSS "I-DEPTHWISE-ACROSS" "{time} ms go into copies between layouts and work on tensors of both.";
    I_LOOP         "I-LOOP"         "A loop of {n} turns runs small GEMMs one after another in `{module}`: {time} ms over {calls}.";
    I_LOOP_LOOSE   "I-LOOP-LOOSE"   "A loop of {n} turns runs small GEMMs one after another: {time} ms over {calls}.";
    I_ROWS         "I-ROWS"         "A loop of {n} turns multiplies slices of a tensor by weights one after another in `{module}`: {time} ms over {calls}. To read the weights at the peak bandwidth takes {weights}% of the products' time.";
    I_ROWS_LOOSE   "I-ROWS-LOOSE"   "A loop of {n} turns multiplies slices of a tensor by weights one after another: {time} ms over {calls}. To read the weights at the peak bandwidth takes {weights}% of the products' time.";
    I_LOOKUPS      "I-LOOKUPS"      "{n} tables are looked up one after another in `{module}`: {time} ms over {calls}{backward}.";
    I_LOOKUPS_LOOSE "I-LOOKUPS-LOOSE" "{n} tables are looked up one after another: {time} ms over {calls}{backward}.";
    I_RECURRENT    "I-RECURRENT"    "A recurrent layer runs {n} steps in time as separate small kernels in `{module}`: {time} ms over {calls}.";
    I_RECURRENT_LOOSE "I-RECURRENT-LOOSE" "A recurrent layer runs {n} steps in time as separate small kernels: {time} ms over {calls}.";
    I_OPT_LISTS    "I-OPT-LISTS"    "The optimizer step is {n} operations on lists of tensors ({time} ms), each another pass over memory.";
    I_OPT          "I-OPT"          "The optimizer step launches {n} small kernels ({time} ms).";
    I_UPDATES      "I-UPDATES"      "A loop over tensors launches {n} small kernels ({time} ms), a few for each tensor.";
    I_RECOMPUTE    "I-RECOMPUTE"    "{time} ms of forward work is repeated in the backward pass (activation checkpointing).";
    I_UNFUSED      "I-UNFUSED"      "Attention in `{module}` runs as {n} separate operations ({parts}): {time} ms over {calls}{backward}.";
    I_UNFUSED_LOOSE "I-UNFUSED-LOOSE" "Attention runs as {n} separate operations ({parts}): {time} ms over {calls}{backward}.";
    I_NOT_FLASH    "I-NOT-FLASH"    "Attention uses `{op}`, which is not a Flash Attention path.";
    I_GROWN_CACHE  "I-GROWN-CACHE"  "Keys and values for `{op}` are written out whole to append to them: {time} ms over {calls}{backward}.";
    I_ONE_HOT      "I-ONE-HOT"      "One element of each row is picked by a product with one-hot rows and a sum ({list}): {time} ms over {calls}{backward}.";
    I_UNFOLD       "I-UNFOLD"       "A convolution runs as unfolding, copies and a matrix product ({list}): {time} ms over {calls}{backward}.";
    I_AUTOCAST     "I-AUTOCAST"     "Weights, and what is multiplied with them, are cast right before the products: {time} ms over {calls}.";
    I_WEIGHT_COPIES "I-WEIGHT-COPIES" "Weights are copied right before the products that read them: {time} ms over {calls}.";
    I_DEQUANTIZED  "I-DEQUANTIZED"  "Quantized weights are written out in a wider type right before the products that read them ({list}): {time} ms over {calls}.";
    I_UNUSED_ROWS  "I-UNUSED-ROWS"  "`{op}` makes {rows} rows of which {used} are used ({list}): {time} ms over {calls}.";
    I_STACKED      "I-STACKED"      "The backward pass stacks the gradients of the parts of a tensor in one order and copies them into another ({list}): {time} ms over {calls}.";
    I_SORTED       "I-SORTED"       "Rows of {elements} elements are sorted ({list}) of which the first {read} are read: {time} ms over {calls}{backward}.";
    I_ADAPTERS     "I-ADAPTERS"     "Low-rank adapters run beside their layers ({list}): {time} ms over {calls}.";
    I_LOOKUP       "I-LOOKUP"       "Rows of a matrix are picked by a product with one-hot rows ({list}): {time} ms over {calls}{backward}.";
    I_SDPA_COPY    "I-SDPA-COPY"    "Q, K, V or the output are copied around `{op}`: {time} ms over {calls}.";
    I_SDPA_BELOW   "I-SDPA-BELOW"   "Sequence length {n}: {eff}% of peak, expected {low}-{high}%{more}.";
    I_TRANSPOSE    "I-TRANSPOSE"    "{pct}% of convolution time is layout transposes ({count} kernels, {time} ms){norms}.";
    I_BN           "I-BN"           "{bn_eff}% of peak bandwidth while simple elementwise operations in this trace reach {base}%.";
    I_LOW_BASELINE "I-LOW-BASELINE" "Simple elementwise operations reach only {base}% of peak bandwidth; 70-80% is expected.";
    I_FUSION       "I-FUSION"       "`{module}` launches {kernels} per call ({list}); {time} ms over {calls}{backward}.";
    I_FUSION_LOOSE "I-FUSION-LOOSE" "{kernels} in a row work on tensors whose shapes fit each other ({list}); {time} ms over {calls}{backward}.";
    I_LIKEWISE     "I-LIKEWISE"     "likewise in {places}: {list}.";
    I_EPILOGUE     "I-EPILOGUE"     "Elementwise work ({list}) runs on its own after `{op}`; {time} ms over {calls}{backward}.";
    I_LOSS         "I-LOSS"         "What comes after the logits of {classes} classes runs as separate kernels that each read or write all of them ({list}): {time} ms over {calls}{backward}.";
    A_LOSS         "A-LOSS"         "Run the loss under `torch.compile` in one function with every cast, shift and copy of the logits: it then reads them in their own type and writes nothing but their gradient.";
    A_LOSS_FORWARD "A-LOSS-FORWARD" "Run this under `torch.compile` in one function with every cast, shift and copy of the logits: it then reads them in their own type.";
    A_LOSS_SHIFT   "A-LOSS-SHIFT"   "Shift the labels and not the logits (`labels = torch.nn.functional.pad(labels, (0, 1), value=-100)[:, 1:]`): the loss leaves -100 out, and no logits are copied.";
    A_LOSS_GATHER  "A-LOSS-GATHER"  "Use `torch.nn.functional.cross_entropy` in the place of a softmax, its logarithm and picking by index, whose backward pass writes and reads zeros for all classes.";
    A_LOSS_LINEAR  "A-LOSS-LINEAR"  "Or compute the last linear layer and the loss together, a few tokens at a time, as fused linear cross entropies of kernel libraries do: all logits are then never in memory at once.";
    A_FLEX         "A-FLEX"         "Use `torch.nn.attention.flex_attention` under `torch.compile` with what is computed on the scores ({function}) as its `score_mod`: `scaled_dot_product_attention` has no place for that (here {low}-{high}x by the performance model).";
    A_FLASH        "A-FLASH"        "Use `torch.nn.functional.scaled_dot_product_attention` so that one optimized attention kernel replaces the sequence (typically 3-10x on attention; here {low}-{high}x by the performance model).";
    A_FLASH_HEADS  "A-FLASH-HEADS"  "Pass all heads in one call, as `[batch, heads, tokens, head size]`: {n} run one after another now.";
    A_FLASH_HEADS_OWN "A-FLASH-HEADS-OWN" "Pass all heads in one call, as `[batch, heads, tokens, head size]`, from one projection for all of them: {n} run one after another now, each with its own.";
    A_NEED_WEIGHTS "A-NEED-WEIGHTS" "If the averaged weights are not needed, call the module with `need_weights=False`: they keep the fused kernel from running.";
    A_FLASH_SMALL  "A-FLASH-SMALL"  "Use `torch.nn.functional.scaled_dot_product_attention` so that one optimized attention kernel replaces the sequence ({low}-{high}x on attention by the performance model).";
    A_FLASH_PATH   "A-FLASH-PATH"   "Use `torch.nn.functional.scaled_dot_product_attention` with inputs that its flash backend accepts (half precision, no dense mask).";
    A_FLASH_HALF   "A-FLASH-HALF"   "Run attention in bf16 or fp16 first; the flash backend of `torch.nn.functional.scaled_dot_product_attention` takes no {dtype}.";
    A_FLASH_SHORT  "A-FLASH-SHORT"  "At sequence length {n} the gain is smaller; measure this shape before migrating.";
    A_FLASH_VARIES "A-FLASH-VARIES" "At sequence length {n} fused kernels differ most from shape to shape; measure this one before migrating.";
    A_FLASH_EFFICIENT "A-FLASH-EFFICIENT" "Over {n} tokens call it within `torch.nn.attention.sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION)`: the kernel that is chosen by itself may take more than twice as long.";
    A_PRECISION    "A-PRECISION"    "Run the matrix work under bf16 autocast, or for part of that gain allow TF32 with `torch.set_float32_matmul_precision(\"high\")`.";
    A_PRECISION_MATRIX "A-PRECISION-MATRIX" "Run the matrix work under bf16 autocast.";
    A_PRECISION_CONV "A-PRECISION-CONV" "Run the convolutions under bf16 autocast, or for part of that gain allow TF32 with `torch.backends.cudnn.allow_tf32 = True`.";
    A_PRECISION_BF16 "A-PRECISION-BF16" "Run the convolutions under bf16 autocast.";
    A_PRECISION_FP64_TF32 "A-PRECISION-FP64-TF32" "Make the fp64 tensors bf16 where accuracy allows (`.to(torch.bfloat16)` on the model and its inputs), or float32 with TF32 (`torch.set_float32_matmul_precision(\"high\")`) for part of that gain: float32 alone has no higher peak than fp64 here, and autocast and TF32 leave fp64 as it is.";
    A_PRECISION_FP64 "A-PRECISION-FP64" "Make the fp64 tensors bf16 where accuracy allows (`.to(torch.bfloat16)` on the model and its inputs), or float32 for part of that gain: autocast and TF32 leave fp64 as it is.";
    A_GROWN_CACHE  "A-GROWN-CACHE"  "Allocate the cache at its full length once and write new keys and values into it (`cache[:, :, t:t+1] = k`, or a static cache of the library) instead of `torch.cat` in every step.";
    A_ONE_HOT      "A-ONE-HOT"      "Pick the elements by index: `torch.nn.functional.cross_entropy(logits, targets)`, or `gather`, needs no one-hot rows.";
    A_BROADCAST    "A-BROADCAST"    "Let it broadcast instead: operations on a size of one, or on an `expand`ed view, read the same elements again without a copy.";
    A_UNFOLD       "A-UNFOLD"       "Use the convolution itself (`torch.nn.functional.conv2d`) in the place of unfolding and a matrix product: its kernels read each input where it lies, and nothing is written out once for each tap of the filter.";
    A_CAST_ONCE    "A-CAST-ONCE"    "Convert the weights once (`model.to(torch.bfloat16)`, or the type that the products run in) instead of casting them in every call, as autocast does.";
    A_COPY_ONCE    "A-COPY-ONCE"    "Keep the copy of the weight, or store it as the product reads it, instead of copying it in every call.";
    A_DEQUANTIZE   "A-DEQUANTIZE"   "Dequantize the weights once and keep them where memory allows; else use a product that takes them as they are stored (weight-only kernels, as `torchao` has them), or compile the call, so that no wider copy is written.";
    A_ROWS_FIRST   "A-ROWS-FIRST"   "Take the rows that are needed before the layer and not after it (`lm_head(hidden[:, -1:])` for the next token; `logits_to_keep=1` where the model has it).";
    A_MERGE        "A-MERGE"        "Merge the adapters into the weights before inference (`merge_and_unload()` of the library, or add the product of both weights to the layer's) unless several are served at a time.";
    A_LOOKUP       "A-LOOKUP"       "Pick the rows by index: `torch.nn.functional.embedding(indices, weight)` reads those alone.";
    A_SPARSE_TABLE "A-SPARSE-TABLE" "Of the {rows} rows of the table at most {used} have a gradient: with `sparse=True` of the embedding and an optimizer for such gradients (`torch.optim.SparseAdam`, `torch.optim.SGD`) neither touches the others.";
    A_SPLIT_FIRST  "A-SPLIT-FIRST"  "Take the parts out of the tensor as it lies, and reshape them then: `q, k, v = (t.view(b, n, heads, -1).transpose(1, 2) for t in qkv.chunk(3, -1))` in place of `permute` and `unbind`. Their gradients are then written once.";
    A_TOPK         "A-TOPK"         "Take the first of each row without sorting the rest: `torch.topk(x, {used})` gives the same values and indices (`largest=False` for the smallest, `sorted=False` where their order does not matter).";
    A_SORT         "A-SORT"         "Sort less: `torch.topk` where only the first few of each row are used.";
    A_WEIGHTS_ONCE "A-WEIGHTS-ONCE" "Make the weight once and keep it: these operations work on what stays the same from call to call. Else use a product that takes the weight as it is stored.";
    A_GQA          "A-GQA"          "Use `scaled_dot_product_attention(..., enable_gqa=True)` instead of repeating key/value heads.";
    A_FOREACH      "A-FOREACH"      "Use the fused variant of the optimizer (`fused=True`), or `foreach=True` where it has none.";
    A_FUSED_STEP   "A-FUSED-STEP"   "Use the fused variant of the optimizer (`fused=True`), which passes over parameters, gradients and states once.";
    A_FOREACH_OWN  "A-FOREACH-OWN"  "Use an optimizer of the framework with `fused=True`, or update lists of tensors with `torch._foreach_*` operations.";
    A_FOREACH_LOOP "A-FOREACH-LOOP" "Handle all tensors at once with `torch._foreach_*` operations on lists of them (`torch._foreach_mul_`, `torch._foreach_copy_`, `torch._foreach_norm`; a moving average is one `torch._foreach_lerp_`).";
    A_RECOMPUTE    "A-RECOMPUTE"    "Checkpoint fewer layers if memory allows; this trades memory for the time above.";
    A_STRIDED      "A-STRIDED"      "Pass Q, K and V without `.contiguous()` if the attention backend accepts strided inputs.";
    A_LOOP         "A-LOOP"         "Take the loop away: its operands are slices of larger tensors, which one batched call takes as they are (`torch.bmm(x, w)` for `x[i] @ w[i]`).";
    A_LOOP_SAME    "A-LOOP-SAME"    "Take the loop away: its turns read slices of one tensor, and with the same weights in each one call takes all of it (`m(x)` for `m(x[i])`); where the weights differ, put them into one tensor and batch the products (`torch.bmm`).";
    A_LOOP_ROWS    "A-LOOP-ROWS"    "Take the loop away: if the weights are the same in each turn, one call takes all slices and reads them once (`m(x)` for `m(x[i])`).";
    A_LOOP_APART   "A-LOOP-APART"   "Take the loop away if no turn needs the result of the one before: with the weights of all turns in one tensor (`torch.func.stack_module_state` stacks those of modules), one batched call does the same (`torch.bmm`, or `torch.func.vmap` around the module); where all read the same input, one product with their weights side by side does.";
    A_LOOKUPS      "A-LOOKUPS"      "Put the tables into one and add an offset to the rows of each, so that one lookup (`torch.nn.EmbeddingBag` or `torch.nn.Embedding`) takes the place of {n}; libraries for recommenders have such tables (`TableBatchedEmbeddingBags` of FBGEMM).";
    A_RECURRENT    "A-RECURRENT"    "Run the whole sequence in one call of `{layer}`, or capture the loop in a GPU graph where the cell is not the library's.";
    A_BATCH        "A-BATCH"        "Batch the small GEMMs into one call (`torch.bmm` with a larger batch, or a grouped GEMM).";
    A_BATCH_IF     "A-BATCH-IF"     "If none of the small GEMMs needs the result of the one before it, batch them into one call (`torch.bmm` with a larger batch, or a grouped GEMM).";
    A_BATCHED      "A-BATCHED"      "The {batch} small GEMMs of a call are batched already: fewer and larger ones help, or one kernel for them and what stands next to them.";
    A_BATCH_TOKENS "A-BATCH-TOKENS" "Process more tokens per call to raise FLOPS/Byte.";
    A_COMPILE_BATCH "A-COMPILE-BATCH" "Try `torch.compile`; it can batch or fuse these calls automatically.";
    A_COMPILED     "A-COMPILED"     "Limited: this runs in a compiled region already, and the compiler left it an operation of its own.";
    A_AUTOTUNE     "A-AUTOTUNE"     "This runs in a compiled region already; `torch.compile` with `mode=\"max-autotune\"` also tries other kernels for it.";
    A_CAPTURE      "A-CAPTURE"      "Profile one step without GPU graphs: the operation behind this kernel is not recorded, and what to change depends on it.";
    A_COMPILE      "A-COMPILE"      "Run this region under `torch.compile` to fuse the {n} adjacent operations.";
    A_COMPILE_WITH "A-COMPILE-WITH" "Run `{op}` and what stands next to it ({list}) under `torch.compile` to fuse them.";
    A_COMPILE_GROUPS "A-COMPILE-GROUPS" "Run this region under `torch.compile` to fuse each of the {n} groups of adjacent operations.";
    A_COMPILE_INTO "A-COMPILE-INTO" "Run this region under `torch.compile` to make it part of its neighbour.";
    A_REDUCE_AS    "A-REDUCE-AS"    "Pass `dtype=` to `{op}`: it casts what it reads, and no copy of the tensor is made.";
    A_FUSE         "A-FUSE"         "Fuse with the neighbouring operations ({list}) under `torch.compile` to remove {size} of intermediate traffic per call.";
    A_FUSE_NORM    "A-FUSE-NORM"    "Run this region under `torch.compile` to replace the decomposed {name} with one fused kernel.";
    A_FUSE_CALL    "A-FUSE-CALL"    "Replace the decomposed {name} with one fused kernel: `{call}`.";
    A_NORM_CHANNELS "A-NORM-CHANNELS" "On images in channels-last memory call `layer_norm` or `rms_norm` on the permuted view: its rows lie together there.";
    A_FUSE_RESIDUAL "A-FUSE-RESIDUAL" "Fuse the residual add with the normalization: under `torch.compile` they are one kernel.";
    A_FUSE_CONV    "A-FUSE-CONV"    "Fuse the convolution with its bias, normalization or activation: run the module under `torch.compile`.";
    A_QUANT        "A-QUANT"        "Quantization (W8A8, FP8) would cut the weight traffic of this memory-bound GEMM if accuracy allows.";
    A_QUANT_CHECK  "A-QUANT-CHECK"  "Validate the quantization scheme and its calibration for this shape.";
    A_SPARSE       "A-SPARSE"       "If the weights are sparse, a sparsity-aware operation applies; sparsity is not visible in a trace.";
    A_PAD          "A-PAD"          "Pad {dim} from {v} to {v2}; {waste}% of the tile area is padding.";
    A_PAD_ALIGN    "A-PAD-ALIGN"    "Pad {pads}: rows of {rows} `{dtype}` values are not a multiple of 16 bytes.";
    A_CHANNELS_LAST "A-CHANNELS-LAST" "Convert the model with `model.to(memory_format=torch.channels_last)`: NHWC instead of NCHW removes the transposes (typically 30-45% of convolution time; here {pct}%).";
    A_CHANNELS_LAST_AMD "A-CHANNELS-LAST-AMD" "Set `PYTORCH_MIOPEN_SUGGEST_NHWC=1` where the release of PyTorch for ROCm does not choose such kernels by itself.";
    A_CHANNELS_LAST_3D "A-CHANNELS-LAST-3D" "Convert the model with `model.to(memory_format=torch.channels_last_3d)`: NDHWC instead of NCDHW removes the transposes ({pct}% of convolution time here).";
    A_LAYOUT_1D    "A-LAYOUT-1D"    "Consider 2-D convolutions of height one with channels innermost: tensors of 1-D convolutions have no memory format to choose, and transposes are {pct}% of convolution time.";
    A_CHANNELS_LAST_NORM "A-CHANNELS-LAST-NORM" "Convert the model with `model.to(memory_format={format})`; the norm then works on {last} inputs.";
    A_CHANNELS_LAST_MAYBE "A-CHANNELS-LAST-MAYBE" "Consider `{format}`; transposes are {pct}% of convolution time.";
    A_CHANNELS_LAST_SLOWER "A-CHANNELS-LAST-SLOWER" "Try `{format}` and measure: the transposes go ({pct}% of convolution time), but {ops} may take longer on such images.";
    A_TURN_GRADIENT "A-TURN-GRADIENT" "Turn the gradient once, where the images are averaged at the end: `x.register_hook(lambda g: g.contiguous(memory_format={format}))` right before. It comes channels first, and sums of images pass it on to every block.";
    A_BN_ALT       "A-BN-ALT"       "Where the model allows, LayerNorm or GroupNorm may have faster kernels; check `torch.compile` too.";
    A_BN_FOLD      "A-BN-FOLD"      "To infer, fold it into the convolution before it, which adds a bias in any case (`torch.nn.utils.fusion.fuse_conv_bn_eval`).";
    A_EVAL         "A-EVAL"         "Call `model.eval()` where the model only infers: {n} run in training mode, and the trace has no backward pass.";
    A_RMSNORM      "A-RMSNORM"      "Where the model allows, RMSNorm instead of LayerNorm does less work.";
    A_TRITON_VALIDATE "A-TRITON-VALIDATE" "Compare this custom kernel with the equivalent framework operation before tuning it.";
    A_GENERATED    "A-GENERATED"    "The compiler wrote this kernel: `torch.compile` with `mode=\"max-autotune\"`, where it is not set yet, also tries other block sizes.";
    A_COMPILE_SCOPE "A-COMPILE-SCOPE" "{n} compiled kernels of {us} us on average: a wider compile region would fuse more; `TORCH_LOGS=graph_breaks` lists where regions end.";
    A_MOE_BATCH    "A-MOE-BATCH"    "Batch more tokens per expert call.";
    A_MOE_FUSE     "A-MOE-FUSE"     "Use a fused expert kernel instead of separate stages, or one grouped product for all experts (`torch._grouped_mm`, `torch.nn.functional.grouped_mm` in newer releases).";
    A_KV_BLOCK     "A-KV-BLOCK"     "Try KV cache block sizes 16, 32 and 64.";
    A_DECODE_BATCH "A-DECODE-BATCH" "Serve more sequences per decode step, or draft tokens speculatively.";
    A_CHUNKED      "A-CHUNKED"      "Split long prompts into chunks.";
    A_DEPTHWISE_LAST "A-DEPTHWISE-LAST" "Convert the model and its inputs to channels-last (`model.to(memory_format=torch.channels_last)`): the library has faster depthwise kernels for it than the one that ran here.";
    A_PATCHES      "A-PATCHES"      "Its windows lie side by side: cut the images into patches (`reshape` and `permute`) and multiply them with the filters (`torch.nn.functional.linear`), and measure both ways.";
    A_FEW_CHANNELS "A-FEW-CHANNELS" "Let the library try its kernels (`torch.backends.cudnn.benchmark = True`), and measure channels-last images, also with channels of zeros added up to 4 or 8.";
    A_TRY_KERNELS  "A-TRY-KERNELS"  "Let the library try its kernels (`torch.backends.cudnn.benchmark = True`), and measure both layouts.";
    A_ODD_GROUPS   "A-ODD-GROUPS"   "Keep the images as they are: there are no kernels for {groups}, and `{format}` makes the transposes around them up to four times as long. Where the architecture may change, groups of 8, 16, 32, 64 or 128 channels need none in `{format}`.";
    A_LIMITED      "A-LIMITED"      "Limited: this operation type is usually well optimized.";
    A_SDPA_MASK    "A-SDPA-MASK"    "Pass `is_causal=True` if the mask of {n} by {n} is the causal one: kernels then skip what it hides instead of reading it.";
    A_SDPA_SHAPE   "A-SDPA-SHAPE"   "Attention is already fused; only another shape than head size {d} and batch {b} would help.";
    B_REPLAY       "B-REPLAY"       "Replay artifact recommended for kernel team to investigate and optimize.";
    B_ASK_PACKAGE  "B-ASK-PACKAGE"  "A kernel team can get a replay package with `jarvis replay TRACE --op NAME`; none was written for these operations.";
    B_NO_INPUTS    "B-NO-INPUTS"    "No replay package can be made: the trace has no recorded inputs for these kernels.";
    B_NO_PACKAGE   "B-NO-PACKAGE"   "No replay package can be made of what was recorded; `replay_packages/index.json` says why.";
    B_TILE         "B-TILE"         "Tune tile sizes for M={m} N={n} K={k}; the current kernel uses {tile} ({tiles} tiles for {cus} compute units).";
    B_SPLIT        "B-SPLIT"        "Try a split-K variant for the long K={k}.";
    B_SELECT       "B-SELECT"       "Check the kernel selection: `{kernel}` was chosen for this shape.";
    B_GENERATED    "B-GENERATED"    "Tune what the compiler wrote, `{kernel}`: its source is in the compiler's cache.";
    B_BW           "B-BW"           "Close the bandwidth gap: {saved} ms of kernel time less at {ceiling}% of peak bandwidth.";
    B_TINY         "B-TINY"         "{factor}x slower than its roofline is above the 5x expected of batching overhead: kernel issue.";
    B_QUANT_REPLAY "B-QUANT-REPLAY" "Quantized kernels may need their own tuning; replay artifact recommended.";
    B_SDPA         "B-SDPA"         "Tune the attention kernel for this shape (N={n}, head size {d}, {pattern}{more}).";
    B_UNFUSED      "B-UNFUSED"      "Optimizing the separate kernels gives limited gains (maybe 10-30%).";
    B_LOSS         "B-LOSS"         "One pass that keeps the largest element and the sum of each row makes the loss, and one more turns the logits into their gradient where they lie.";
    B_BN           "B-BN"           "The normalization kernel is the limit, not the hardware; native kernels take {pct}% of its time.";
    B_DEPTHWISE    "B-DEPTHWISE"    "Use specialized depthwise kernels.";
    B_STRIDE       "B-STRIDE"       "Inputs are not contiguous (strides {strides}); the replay can compare a contiguous copy.";
    N_EXPECTED     "N-EXPECTED"     "{eff}% is within the {low}-{high}% expected at sequence length {n}.";
    N_ABOVE_EXPECTED "N-ABOVE-EXPECTED" "{eff}% is above the {low}-{high}% expected at sequence length {n}.";
    N_FUSIBLE_STEPS "N-FUSIBLE-STEPS" "{op}: {eff}% of peak, {own}% without {steps} of its {ms} ms; these are steps beside the products, such as a bias, that could be fused.";
    N_KERNEL_FLOOR "N-KERNEL-FLOOR" "{op}: {ms} ms in kernels of {us} us; kernels with next to nothing to do take {floor} us in this trace (median), so fewer or larger calls save time and faster kernels hardly do.";
    N_KERNEL_FLOOR_TOO "N-KERNEL-FLOOR-TOO" "{op}: {ms} ms in kernels of {us} us, likewise.";
    N_NEAR_EXPECTED "N-NEAR-EXPECTED" "{eff}% is below the {low}-{high}% expected at sequence length {n}, but it counts as slow only below {slow}%.";
    N_SYNC         "N-SYNC"         "Host time for {which} is {x}x their GPU time ({ms} ms, {part} of it in {ops}); this is a framework matter, not a kernel one.";
    N_SYNC_COPY    "N-SYNC-COPY"    "Host time for {which} is {x}x their GPU time ({ms} ms, {part} of it in {ops}); in copies from device to host the host waits for work issued before.";
    N_SDPA_TILES   "N-SDPA-TILES"   "{op} on {b} x {h} heads: {tiles} for {cus} compute units.";
    N_MOE          "N-MOE"          "Expert load balance and routing cannot be seen in a trace; bytes assume uniform routing.";
    N_BN_COMMON    "N-BN-COMMON"    "BatchNorm takes {pct}% of compute (10-50% is common in convolutional networks).";
    N_COUNTERS     "N-COUNTERS"     "Low efficiency - profile with hardware counters to diagnose.";
    N_REPRODUCER   "N-REPRODUCER"   "Bottleneck identified - generate reproducer for kernel team.";
}

impl TextId {
    /// Its stable name.
    pub fn id(self) -> &'static str {
        TEXTS[self.0].id
    }

    /// The sentence with its placeholders.
    pub fn template(self) -> &'static str {
        TEXTS[self.0].template
    }

    /// The placeholders, in order.
    pub fn placeholders(self) -> Vec<&'static str> {
        placeholders(self.template())
    }

    /// The sentence, filled in. What is not given shows as a dash.
    pub fn fill(self, values: &[(&str, &str)]) -> String {
        let mut out = String::new();
        let mut rest = self.template();
        while let Some((before, after)) = rest.split_once('{') {
            out.push_str(before);
            let (name, after) = after.split_once('}').unwrap_or((after, ""));
            let value = values.iter().find(|(key, _)| *key == name);
            debug_assert!(value.is_some(), "{}: `{name}` is not filled", self.id());
            let value = value.map_or("-", |(_, v)| v);
            // Between backticks stands one name, whatever a trace calls it.
            if out.ends_with('`') && after.starts_with('`') {
                out += &name_of(value);
            } else {
                out += value;
            }
            rest = after;
        }
        out + rest
    }

    /// Whether it is said in a text: whether all that stands before its first placeholder is.
    pub(crate) fn is_said_in(self, text: &str) -> bool {
        self.template().split('{').next().is_some_and(|start| text.contains(start))
    }

    /// The sentence of a text without placeholders.
    pub fn plain(self) -> String {
        self.fill(&[])
    }
}

/// Longest name in a sentence, in characters.
const LONGEST_NAME: usize = 120;

/// A name as the trace has it, fit to stand between backticks: one line, none of its own, not too long.
fn name_of(name: &str) -> String {
    let clean = |c: char| {
        if c.is_control() {
            ' '
        } else if c == '`' {
            '\''
        } else {
            c
        }
    };
    let short: String = name.chars().take(LONGEST_NAME).map(clean).collect();
    let cut = name.chars().nth(LONGEST_NAME).is_some();
    if cut { short + "..." } else { short }
}

/// A name between backticks.
pub(crate) fn quoted(name: &str) -> String {
    format!("`{}`", name_of(name))
}

/// Several things in a sentence: `a, b and c`.
pub fn listed(things: &[String]) -> String {
    match things {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        things => things.concat(),
    }
}

/// A number of things: `1 gap`, `2 gaps`.
pub fn counted(count: impl Display, thing: &str) -> String {
    let count = count.to_string();
    format!("{count} {thing}{}", if count == "1" { "" } else { "s" })
}

fn placeholders(template: &'static str) -> Vec<&'static str> {
    template.split('{').skip(1).filter_map(|part| part.split_once('}')).map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sources that may say a sentence.
    const SOURCES: &[&str] = &[
        include_str!("patterns/words.rs"),
        include_str!("rules/batchnorm.rs"),
        include_str!("rules/convolution.rs"),
        include_str!("rules/convolution/depthwise.rs"),
        include_str!("rules/convolution/few_channels.rs"),
        include_str!("rules/elementwise.rs"),
        include_str!("rules/gemm.rs"),
        include_str!("rules/gemm/patterns.rs"),
        include_str!("rules/generic.rs"),
        include_str!("rules/moe.rs"),
        include_str!("rules/norm.rs"),
        include_str!("rules/reduce.rs"),
        include_str!("rules/sdpa.rs"),
        include_str!("rules/triton.rs"),
        include_str!("rules/layout.rs"),
        include_str!("rules/precision.rs"),
        include_str!("rules/words.rs"),
        include_str!("rules/outcome.rs"),
        include_str!("rules/drive.rs"),
        include_str!("patterns/findings/said.rs"),
    ];

    #[test]
    fn one_thing_is_told_as_one() {
        assert_eq!(
            (counted(1, "gap"), counted(0, "gap"), counted(21, "gap")),
            ("1 gap".into(), "0 gaps".into(), "21 gaps".into())
        );
        assert_eq!((counted("1", "event"), counted("1,001", "event")), ("1 event".into(), "1,001 events".into()));
        assert_eq!((counted(1.0, "kernel"), counted(1.5, "kernel")), ("1 kernel".into(), "1.5 kernels".into()));
    }

    #[test]
    fn ids_are_unique_and_every_sentence_is_said() {
        for (i, text) in TEXTS.iter().enumerate() {
            assert!(TEXTS[..i].iter().all(|t| t.id != text.id), "{} stands twice", text.id);
            let name = format!("TextId::{}", text.id.replace('-', "_"));
            let said = SOURCES.iter().any(|source| {
                source
                    .match_indices(&name)
                    .any(|(at, _)| !source[at + name.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_'))
            });
            assert!(said, "{} is never said", text.id);
        }
    }

    #[test]
    fn sentences_end_and_are_short() {
        for text in TEXTS {
            assert!(text.template.ends_with('.'), "{}", text.id);
            assert!(text.template.matches(". ").count() <= 1, "{} has more than two sentences", text.id);
            assert_eq!(text.template.matches('{').count(), text.template.matches('}').count(), "{}", text.id);
            assert!(!text.template.contains('!'), "{}", text.id);
        }
    }

    /// The terminal shows the first sentence alone.
    #[test]
    fn advice_that_may_stand_first_names_the_call_to_use() {
        let first = [
            TextId::A_MOE_FUSE,
            TextId::A_FUSE,
            TextId::A_FUSE_NORM,
            TextId::A_FUSE_CALL,
            TextId::A_FUSE_RESIDUAL,
            TextId::A_FUSE_CONV,
            TextId::A_COMPILE,
            TextId::A_COMPILE_WITH,
            TextId::A_EVAL,
        ];
        for text in first {
            let sentence = text.template().split(". ").next().unwrap_or_default();
            assert!(["`torch.", "`{call}`", "`model."].iter().any(|call| sentence.contains(call)), "{}", text.id());
        }
    }

    #[test]
    fn a_name_stays_one_name() {
        assert_eq!(quoted("a`b\nc"), "`a'b c`");
        assert!(quoted(&"x".repeat(10_000)).len() < 130);
        let text = TextId::B_SELECT.fill(&[("kernel", "k`x")]);
        assert_eq!(text, "Check the kernel selection: `k'x` was chosen for this shape.");
    }

    #[test]
    fn placeholders_are_filled_in() {
        assert_eq!(TextId::B_SPLIT.placeholders(), ["k"]);
        assert_eq!(TextId::B_SPLIT.fill(&[("k", "4096")]), "Try a split-K variant for the long K=4096.");
        assert_eq!(TextId::B_REPLAY.plain(), TextId::B_REPLAY.template());
        for (i, text) in TEXTS.iter().enumerate() {
            let names = placeholders(text.template);
            let values: Vec<(&str, &str)> = names.iter().map(|n| (*n, "7")).collect();
            assert!(!TextId(i).fill(&values).contains(['{', '}']), "{}", text.id);
        }
    }
}

//! Everything that is computed differently under `--parity`: the reference's faults and blanks, by name.
//!
//! Models ask `quirks.some_fault` where the two ways part; formulas that exist for parity alone stand here too. To
//! drop the mode, delete this module and what no longer compiles.

use crate::args::Args;
use crate::models::ModelError;

/// Declares [`Quirks`] with its two values, so that a fault is named in one place.
macro_rules! quirks {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// Which faults of the reference are reproduced. [`Quirks::NONE`] is the default, correct mode.
        ///
        /// The F-numbers are those of the list of known faults in the model specification.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Quirks {
            $($(#[doc = $doc])+ pub $name: bool,)+
        }

        impl Quirks {
            /// Correct numbers.
            pub const NONE: Self = Self { $($name: false,)+ };
            /// Every number, blank and quirk of the reference.
            pub const REFERENCE: Self = Self { $($name: true,)+ };
        }
    };
}

quirks! {
    /// F1: a bias of `aten::convolution` and `aten::_scaled_mm` is seen only in calls of exactly three inputs.
    bias_by_input_count,
    /// F2: `aten::convolution_backward` ignores `output_mask` and takes its bias flag from an always empty slot.
    convolution_mask_ignored,
    /// F3: any text, even `"False"`, makes a norm count as training.
    training_by_any_text,
    /// F4: the vendor batch-norm backward ops count as not training.
    vendor_batch_norm_backward_not_training,
    /// F5: absent weights and biases of norms are counted as if they were there.
    absent_affine_counted,
    /// F6: the cheap branch of norm backward hangs on the output mask instead of on the training flag.
    norm_backward_cheap_by_mask,
    /// F7: channel-sized tensors of norms weigh as much per element as the activations.
    norm_stats_in_activation_type,
    /// F8: group norm has C channels forward, C / groups backward.
    group_norm_backward_channels_divided,
    /// Batch norm's traffic is counted as if x were read once, layer-like norms' statistics by channel, not by row.
    norm_passes_as_one,
    /// F9: reductions always have one output element, because the list of dimensions is never decoded.
    reduction_to_one_element,
    /// F10: attention counts two bytes an element whatever the type.
    attention_two_bytes,
    /// F11: attention bias, mask and row sums cost nothing.
    attention_bias_free,
    /// F12: causal attention with queries and keys of different length fails.
    causal_rectangle_fails,
    /// F13: backward of the efficient and cuDNN attention omits the recomputed scores.
    attention_recompute_omitted,
    /// F14: the sum over grouped query heads lacks the head count and is halved when causal.
    grouped_heads_sum_short,
    /// F15: `aiter::_flash_attn_backward` reads (dout, q, k) as (q, k, v).
    aiter_backward_slots_shifted,
    /// Not numbered: `flash_attn::_flash_attn_backward` is read as if the gradients were not among its arguments, so the
    /// scale stands for the causal flag.
    flash_backward_slots_fixed,
    /// F16: variable-length attention divides by zero or fails on unequal remainders.
    varlen_unguarded,
    /// F17: the `aiter` and `flash_attn_3` attention ops have no precision.
    attention_precision_unknown,
    /// F18: attention backward ops other than the variable-length one stay on the forward sheet.
    attention_backward_on_forward_sheet,
    /// F19: attention ignores sliding windows, in inference and elsewhere.
    sliding_window_ignored,
    /// F20: the latent of MLA decode is counted twice, as K and as V.
    mla_latent_counted_twice,
    /// F21: the value width of sparse attention is always 512.
    sparse_value_width_fixed,
    /// F22: an operation whose model has no formula vanishes with its time.
    unformulated_rows_vanish,
    /// F23: `aiter::linear_attention_with_output_base` never gets its step annotation.
    linear_attention_unannotated,
    /// F24: the type of a paged KV cache is not looked at.
    paged_cache_type_unknown,
    /// F25: a zero-dim first operand sizes the output of a binary operation.
    zero_dim_first_operand_widens,
    /// F26: in-place binary operations size their output by the wider operand.
    in_place_output_promoted,
    /// F27: expanded operands count in full, host copies count as device memory traffic.
    expanded_operands_in_full,
    /// F28: bool, complex, 16-bit and unsigned types have no size.
    dtype_sizes_missing,
    /// F29: int8 and e5m2 have no precision label; bytes are rated as fp8 everywhere.
    precision_labels_missing,
    /// F30: `bitsandbytes::int8_linear_matmul` reads N from the wrong axis and stores 2-byte results.
    int8_weight_axes_swapped,
    /// Not numbered: the inference libraries' products take the first two dimensions of an input for M and K, though it may
    /// have three, and do not look whether K is that of the weights.
    product_rows_by_first_dim,
    /// F31: `vllm::gemm_with_dynamic_quant` sizes the packed weight like the activation.
    packed_weight_as_activation,
    /// Not numbered: `aten::_scaled_mm` takes the pairs of packed 4-bit numbers for numbers.
    packed_pairs_as_numbers,
    /// F32: grouped GEMM sizes its output by the weight and loses the group factor for variable K.
    grouped_output_as_weight,
    /// F33: unfused expert GEMMs take the hidden width for the inner one and are rated at the weight's type.
    expert_inner_width_as_hidden,
    /// F34: Triton tensors of plain types (`float`, `int`, …) weigh nothing.
    triton_plain_types_weigh_nothing,
    /// F35: pointwise Triton kernels get an output write although the output is already listed.
    triton_pointwise_extra_write,
    /// F36: Triton gathers count the whole lookup table.
    triton_tables_in_full,
    /// Not numbered: Triton tensors without dimensions weigh nothing.
    triton_single_elements_ignored,
    /// F37: the last integer argument of a Triton kernel is its element count, whatever the grid.
    triton_last_integer_counts,
    /// F38: one unknown word in a Triton kernel's name zeroes its arithmetic.
    triton_unknown_word_zeroes,
    /// F39: Triton precision labels are long names that match no platform figure.
    triton_long_precision_names,
    /// Calls of different cost share a row of an operation's sheet where the parameters shown there are equal, and such a
    /// row, also of `unified_perf_summary`, has the first one's numbers.
    unlike_calls_in_one_row,
    /// A row whose calls ran different kernels shows the first call's, and no sign of the others.
    mixed_kernels_unmarked,
    /// A call without FLOPs has no metrics at all, not even those of its bytes.
    metrics_blank_without_flops,
    /// A call without FLOPs, or without a rate listed for its Compute Spec, has no roofline, although its bytes would
    /// give one.
    roofline_blank_without_rate,
    /// F42: only Tensile and nvjet kernel names are understood, and a short nvjet name breaks the model.
    gemm_kernel_grammar_short,
    /// Sheets of operations, and rows of frames and kernels without one, go through events in file order, so that the call
    /// that stands for a row is the first of the file and not that of the recording.
    events_in_file_order,
    /// Events nest by float microseconds, and times are differences of those.
    times_in_floats,
    /// F43: the group quantisers are split over two sheets.
    group_quant_on_two_sheets,
    /// F45: the depthwise causal convolution counts as matrix work.
    causal_convolution_on_matrix_unit,
    /// F46: grouped transposed convolutions have too few output channels.
    transposed_groups_ignored,
    /// F47: the bias gradient of a convolution is counted in elements instead of bytes.
    bias_gradient_unsized,
    /// Not numbered: the rotary embedding of queries and keys takes their second dimension for all heads, and fails
    /// without keys.
    rotated_heads_flat,
    /// F49: resampling by scale factors fails.
    scale_factors_fail,
    /// Operations without a model in the reference have none, not even the generic count.
    reference_models_only,
    /// Not numbered: expert GEMMs take the size of an input element for that of a result, and a usual size for every
    /// type that their short table lacks.
    expert_sizes_assumed,
    /// Not numbered: a quotient, root or sigmoid of whole numbers is taken for a whole number.
    whole_results_stay_whole,
    /// Not numbered: sizes below 0, as only a broken recording has, give counts below 0.
    negative_counts_shown,
    /// Not numbered: a call recorded without strides fails where strides are shown as a parameter.
    missing_strides_fail,
    /// Not numbered: cross entropy takes the first dimension for all rows, though logits may have three.
    cross_entropy_rows_by_first_dim,
    /// Not numbered: the gated delta net counts two bytes an element whatever the type.
    delta_net_two_bytes,
    /// Not numbered: a convolution counts all of its input, also what it steps over.
    passed_over_input_counted,
    /// Not numbered: fp32 matrix products are rated as such even where their kernels compute in tf32.
    tf32_unseen,
    /// Not numbered: PyTorch's own products are counted by M, N and K in the type of A alone: expanded operands in full, an
    /// added matrix as a vector and even if it is not read, complex numbers as real ones.
    products_by_sizes_alone,
    /// Not numbered: the backward pass of RMS norm writes all gradients, also those that nobody wants.
    rms_gradients_unmasked,
    /// Not numbered: operations on sparse tensors are counted as if all of their elements were there.
    sparse_operands_dense,
    /// Tables 4: operations that launch through the driver do not own their launches; their kernels stand in synthetic
    /// rows of their own.
    driver_launches_overlooked,
    /// Tables 14: collectives with a missing field vanish from `coll_analysis`.
    incomplete_collectives_vanish,
    /// Not numbered: `coll_analysis` knows the sizes of nine types; 8-bit floats and others have none.
    communicated_sizes_missing,
    /// Not numbered: `coll_analysis` of a single recording calls every rank 0.
    every_rank_is_0,
    /// Tables 15: the caps on rows are accepted and ignored.
    caps_ignored,
    /// Cells list kernels one by one, however many a call launches.
    kernel_lists_however_long,
    /// Tables 15: rows of `unified_perf_summary` are not kept apart by number of kernels.
    unified_ignores_num_kernels,
    /// Tables 18: recordings without operations have no sheets of operations, though they may have Python frames and
    /// runtime calls.
    runtime_calls_make_no_sheets,
    /// Tables 21: of a timeline split by recomputation only the parts are shown.
    recompute_parts_alone,
    /// Not numbered: a call that casts its arguments for its own operation, as under autocast, is rated by the types
    /// before the cast, and the casts' time is its own.
    casting_calls_make_rows,
    /// Not numbered: a function of an attention library is rated by its own arguments, though only the operation inside it
    /// is recorded with the window.
    attention_functions_make_rows,
    /// Not numbered: the row of an operation known by its forward one has the time of all backward work of that one, also of
    /// what has rows of its own.
    backward_rows_hold_siblings,
    /// With Python frames in the tree, a frame that launches kernels itself makes a row of `unified_perf_summary`.
    frames_make_rows,
    /// Tree 7: GPU events whose launch was not recorded leave a hole in the timeline where they ran between others.
    timeline_of_linked_alone,
    /// Tree 14: kernels of one operation on two streams count as overlapping each other.
    overlap_within_operation_counted,
    /// There is no word on whose model made a row's numbers.
    model_source_unknown,
}

/// Bytes of an element of a binary operation's result as the reference sizes it: the wider operand's, unless one has
/// no dimensions, then the first one's (F25).
pub(crate) fn binary_result_size(args: Args<'_>, quirks: &Quirks) -> Result<Option<i64>, ModelError> {
    let (first, second) = (args.size(0, quirks)?, args.size(1, quirks)?);
    let without_dims = args.shape(0)?.is_empty() || args.shape(1)?.is_empty();
    Ok(first.zip(second).map(|(first, second)| if without_dims { first } else { first.max(second) }))
}

/// A norm as the reference counts it: one pass over x, all channel-sized tensors in the activation's type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReferenceNorm {
    /// Elements of x.
    pub(crate) elements: f64,
    /// Channels; a fraction for the backward of group norms (F8).
    pub(crate) channels: f64,
    /// Bytes of an element of x.
    pub(crate) size: f64,
    pub(crate) has_bias: bool,
    pub(crate) is_affine: bool,
    pub(crate) is_training: bool,
}

impl ReferenceNorm {
    /// Operations and bytes of the forward pass.
    pub(crate) fn forward(&self) -> (f64, f64) {
        let (n, c) = (self.elements, self.channels);
        let flops = 6.0 * c + 2.0 * n + if self.is_training { 3.0 * n } else { 0.0 };
        let tensors = 2
            + u32::from(self.is_affine)
            + u32::from(self.is_affine && self.has_bias)
            + if self.is_training { 2 } else { 0 };
        (flops, 2.0 * n * self.size + f64::from(tensors) * c * self.size)
    }

    /// Operations and bytes of the backward pass; `input` is the first entry of the output mask (F6).
    pub(crate) fn backward(&self, input: bool) -> (f64, f64) {
        let (n, c) = (self.elements, self.channels);
        let each = n / c;
        let fixed = if self.is_training { 0.0 } else { 3.0 };
        let branch = match (input, self.is_training) {
            (true, true) => 5.0 * each,
            (true, false) => 0.0,
            (false, _) => 2.0 * each,
        };
        let reads = if input && self.is_training { 2.0 } else { 1.0 };
        let gradients = match (self.is_affine && self.is_training, self.has_bias) {
            (true, true) => 2,
            (true, false) => 1,
            (false, _) => 0,
        };
        let tensors = u32::from(self.is_training) + u32::from(self.is_affine) + gradients;
        let bytes = n * self.size + n * self.size * reads + f64::from(tensors) * c * self.size;
        (c * (fixed + 4.0 * each + branch), bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_modes_differ_in_every_field() {
        let count = |quirks: Quirks, word: &str| format!("{quirks:?}").matches(word).count();
        assert_eq!(count(Quirks::NONE, "true"), 0);
        assert_eq!(count(Quirks::REFERENCE, "false"), 0);
        assert!(count(Quirks::REFERENCE, "true") > 40);
    }

    fn close((a, b): (f64, f64), (x, y): (f64, f64)) {
        assert!((a - x).abs() <= 1e-9 * x && (b - y).abs() <= 1e-9 * y, "{a} {b} is not {x} {y}");
    }

    #[test]
    fn norms_of_the_reference_by_hand() {
        // (128, 64, 56, 56) f16 in training: 5·25 690 112 + 6·64; 4·N + 6 tensors·64·2.
        let batch = ReferenceNorm {
            elements: 25_690_112.0,
            channels: 64.0,
            size: 2.0,
            has_bias: true,
            is_affine: true,
            is_training: true,
        };
        close(batch.forward(), (128_450_944.0, 4.0 * 25_690_112.0 + 768.0));
        // Backward, wrongly not training (F4): 64·(3 + 4e); 2·N·2 bytes and the weight.
        let vendor = ReferenceNorm { is_training: false, ..batch };
        close(vendor.backward(true), (4.0 * 25_690_112.0 + 192.0, 4.0 * 25_690_112.0 + 128.0));
        // Layer norm backward (64, 28, 28, 192) f32: 9·N; (3·N + 4·192)·4.
        let layer = ReferenceNorm { elements: 9_633_792.0, channels: 192.0, size: 4.0, ..batch };
        close(layer.backward(true), (86_704_128.0, 12.0 * 9_633_792.0 + 4.0 * 192.0 * 4.0));
        // Without the input gradient the branch costs 2·N instead of nothing (F6).
        close(layer.backward(false), (6.0 * 9_633_792.0, 8.0 * 9_633_792.0 + 4.0 * 192.0 * 4.0));
    }
}

use super::auxiliary::{exchange, routing};
use super::{fused_block, fused_scaled, ogs_operands, ogs_up, staged_up, tiled_up};
use crate::call::{Dims, InputLists, OpCall};
use crate::models::{Cost, ModelError, Reader};
use crate::parity::Quirks;
use crate::value::Value;

fn lists(shapes: &[&[i64]], types: &[&str], concrete: &[&str]) -> InputLists {
    InputLists {
        dims: Some(shapes.iter().map(|s| Dims::Shape(s.to_vec())).collect()),
        types: Some(types.iter().map(|&t| t.to_owned()).collect()),
        strides: None,
        concrete: Some(concrete.iter().map(|&c| c.to_owned()).collect()),
    }
}

fn call<'a>(inputs: &'a InputLists, kernels: &'a [&'a str], extra: &'a [(&'a str, Value)]) -> OpCall<'a> {
    OpCall { name: "", inputs, kernels, launches: &[], sequence: None, annotation: None, extra, forward: None }
}

fn cost(reader: Reader, call: &OpCall<'_>, quirks: &Quirks) -> Result<Cost, ModelError> {
    reader(call, quirks)?.forward()
}

const BF16: &str = "c10::BFloat16";
const F8: &str = "c10::Float8_e4m3fnuz";

/// 2 tokens of width 8, one of 4 experts each, inner width 4, gated.
fn block() -> InputLists {
    lists(&[&[2, 8], &[4, 8, 8], &[4, 8, 4], &[2, 1]], &[BF16, F8, F8, "float"], &[])
}

#[test]
fn a_fused_block_by_hand() {
    let inputs = block();
    let cost = cost(fused_block, &call(&inputs, &[], &[]), &Quirks::REFERENCE).unwrap();
    // One projection: 2·2·8·4·1 = 128; gated: two up, one down; sum over k: 2·8·(2·1 − 1) = 16.
    assert_eq!(cost.flops, Some(3.0 * 128.0 + 16.0));
    // Active experts: 4·(1 − (3/4)²) = 1.75; a matrix has 32 bytes, there are three; 16 elements in and out.
    assert_eq!(cost.bytes, Some(16.0 * 2.0 + 1.75 * 32.0 * 3.0 + 16.0 * 2.0));
    assert_eq!(cost.precision.as_deref(), Some("bf16"));
}

#[test]
fn parameters_in_order() {
    let inputs = block();
    let model = fused_block(&call(&inputs, &[], &[]), &Quirks::REFERENCE).unwrap();
    let params = model.into_params();
    let names: Vec<&str> = params.iter().map(|(name, _)| *name).collect();
    let expected =
        ["num_tokens", "hidden_dim", "inter_dim", "num_experts", "topk", "gated", "input_dtype", "weight_dtype"];
    assert_eq!(names, expected);
    assert_eq!(params[5].1, Value::Bool(true));
}

#[test]
fn weights_packed_in_plain_bytes_weigh_half() {
    // As above, but with two 4-bit weights in each `unsigned char`: 8 × 4 and 8 × 2 as stored.
    let inputs =
        lists(&[&[2, 8], &[4, 8, 4], &[4, 8, 2], &[2, 1]], &[BF16, "unsigned char", "unsigned char", "float"], &[]);
    let call = call(&inputs, &[], &[]);
    let activations = 64.0;
    let [parity, default] = [Quirks::REFERENCE, Quirks::NONE].map(|q| cost(fused_block, &call, &q).unwrap().bytes);
    assert_eq!(parity, Some(activations + 1.75 * 32.0 * 3.0));
    assert_eq!(default, Some(activations + 1.75 * 16.0 * 3.0));
}

#[test]
fn plain_floats_weigh_four_bytes_by_default() {
    // x (2, 8), up (4, 8, 8), out (2, 1, 4): 16 in, 1.75·32·2 weights, 8 out; the reference takes 2, 1 and 2 bytes.
    let inputs = lists(&[&[2, 8], &[4, 8, 8], &[2, 1, 4]], &["float", "float", "float"], &[]);
    let call = call(&inputs, &[], &[]);
    let [parity, default] = [Quirks::REFERENCE, Quirks::NONE].map(|q| cost(tiled_up, &call, &q).unwrap().bytes);
    assert_eq!(parity, Some(32.0 + 112.0 + 16.0));
    assert_eq!(default, Some(64.0 + 448.0 + 32.0));
}

#[test]
fn results_have_a_type_of_their_own_by_default() {
    // fp8 in, bf16 out (slot 6): 2·1·4 results weigh 8 bytes in the reference, 16 in truth.
    let shapes: [&[i64]; 7] = [&[2, 8], &[4, 8, 8], &[4, 8, 4], &[1], &[1], &[1], &[2, 1, 4]];
    let inputs = lists(&shapes, &[F8, F8, F8, "int", "int", "int", BF16], &[]);
    let call = call(&inputs, &[], &[]);
    let [parity, default] = [Quirks::REFERENCE, Quirks::NONE].map(|q| cost(staged_up, &call, &q).unwrap().bytes);
    assert_eq!(parity, Some(16.0 + 112.0 + 8.0));
    assert_eq!(default, Some(16.0 + 112.0 + 16.0));
}

#[test]
fn ogs_kernels_are_rated_by_their_activations() {
    let kernel = "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu";
    assert_eq!(ogs_operands(kernel), [Some(("c10::BFloat16", "bf16")), Some(("FP4", "fp4"))]);
    assert_eq!(ogs_operands("_matmul_ogs_nnt_bf16xfp8e4nvxmxfp4_1"), [Some(("FP8", "fp8")), Some(("FP4", "fp4"))]);
    assert_eq!(ogs_operands("_p_matmul_ogs_nnt_bf16xmxfp8xmxfp4_1"), [Some(("FP8", "fp8")), Some(("FP4", "fp4"))]);
    assert_eq!(ogs_operands("gemm"), [None, None]);

    let inputs = lists(&[&[2, 8], &[2, 4]], &[BF16, BF16], &[]);
    let extra = [("MoE topk", Value::Int(1)), ("MoE GEMM gated", Value::Bool(true))];
    let kernels = [kernel];
    let call = call(&inputs, &kernels, &extra);
    let [parity, default] = [Quirks::REFERENCE, Quirks::NONE].map(|q| cost(ogs_up, &call, &q).unwrap());
    assert_eq!((parity.flops, parity.bytes), (default.flops, default.bytes));
    assert_eq!((parity.precision.as_deref(), default.precision.as_deref()), (Some("fp4"), Some("bf16")));
}

#[test]
fn the_inner_width_is_taken_from_the_configuration() {
    // F33: 2·2·8·I·1 with I = 8 (the hidden width) or 4.
    let inputs = lists(&[&[2, 8], &[2, 4]], &[BF16, BF16], &[]);
    let extra = [("MoE topk", Value::Int(1)), ("MoE GEMM gated", Value::Bool(false)), ("MoE inter_dim", Value::Int(4))];
    let call = call(&inputs, &["_matmul_ogs_NNT_bf16xbf16xmxfp4_1"], &extra);
    let [parity, default] = [Quirks::REFERENCE, Quirks::NONE].map(|q| cost(ogs_up, &call, &q).unwrap().flops);
    assert_eq!((parity, default), (Some(256.0), Some(128.0)));
}

#[test]
fn unquantised_weights_have_a_size_by_default() {
    let inputs = lists(&[&[2, 8], &[2, 4]], &[BF16, BF16], &[]);
    let extra = [("MoE topk", Value::Int(1)), ("MoE GEMM gated", Value::Bool(false))];
    let call = call(&inputs, &["_matmul_ogs_NNT_bf16xbf16xbf16_1"], &extra);
    assert!(cost(ogs_up, &call, &Quirks::REFERENCE).is_err());
    // 16 in, 1.75·64 weights, 16 out, two bytes each.
    assert_eq!(cost(ogs_up, &call, &Quirks::NONE).unwrap().bytes, Some(32.0 + 224.0 + 32.0));
}

#[test]
fn missing_facts_fail() {
    let inputs = lists(&[&[2, 8], &[2, 4]], &[BF16, BF16], &[]);
    let full = [("MoE topk", Value::Int(1)), ("MoE GEMM gated", Value::Bool(true))];
    let kernels = ["matmul_ogs_fp8"];
    for quirks in [Quirks::REFERENCE, Quirks::NONE] {
        assert!(cost(ogs_up, &call(&inputs, &kernels, &full), &quirks).is_ok());
        assert!(cost(ogs_up, &call(&inputs, &[], &full), &quirks).is_err(), "no kernel");
        assert!(cost(ogs_up, &call(&inputs, &kernels, &full[..1]), &quirks).is_err(), "gated?");
        assert!(cost(ogs_up, &call(&inputs, &kernels, &full[1..]), &quirks).is_err(), "k?");
        let scaled = lists(&[&[2, 8], &[2, 8], &[4, 8, 8], &[4, 8, 4]], &[BF16, F8, F8, F8], &["", "", "", ""]);
        assert!(cost(fused_scaled, &call(&scaled, &[], &[]), &quirks).is_err(), "k is an argument past the end");
        let none = lists(&[&[2, 8], &[0, 8, 8], &[0, 8, 4], &[2, 1]], &[BF16, F8, F8, "float"], &[]);
        assert!(cost(fused_block, &call(&none, &[], &[]), &quirks).is_err(), "no experts");
    }
}

#[test]
fn routing_counts_every_tensor_whose_size_is_known() {
    // The largest tensor is the first of two with 4 elements; 4·2 + 4·4 bytes, the list and the unknown type nothing.
    let mut inputs = lists(&[&[2, 2], &[4], &[], &[3]], &[BF16, "float", "Scalar", "mystery"], &[]);
    let list = Dims::List(vec![vec![100], vec![100]]);
    inputs.dims = inputs.dims.map(|dims| dims.iter().cloned().chain([list]).collect());
    let model = routing(&call(&inputs, &[], &[]), &Quirks::REFERENCE).unwrap();
    let cost = model.forward().unwrap();
    assert_eq!((cost.flops, cost.bytes, cost.precision.as_deref()), (Some(4.0), Some(24.0), Some("bf16")));
    let operands = "[((2, 2), 'c10::BFloat16'), ((4,), 'float'), ((3,), 'mystery')]";
    assert_eq!(model.into_params()[0].1.to_string(), operands);

    let unknown = lists(&[&[2, 2]], &["mystery"], &[]);
    let cost = cost_of(routing, &unknown);
    assert_eq!((cost.flops, cost.bytes), (Some(4.0), None));
    let cost = cost_of(routing, &InputLists::default());
    assert_eq!((cost.flops, cost.bytes), (Some(0.0), None));
}

#[test]
fn exchanged_tokens_count_once_in_both_directions() {
    let inputs = lists(&[&[3, 5]], &[BF16], &[]);
    let model = exchange(&call(&inputs, &[], &[]), &Quirks::REFERENCE).unwrap();
    let cost = model.forward().unwrap();
    assert_eq!((cost.flops, cost.bytes), (Some(0.0), Some(30.0)));
    assert_eq!(model.backward(), Ok(cost));
    assert_eq!(model.into_params().pop(), Some(("bpe", Value::Int(2))));
    assert_eq!(cost_of(exchange, &InputLists::default()).bytes, None);
}

fn cost_of(reader: Reader, inputs: &InputLists) -> Cost {
    cost(reader, &call(inputs, &[], &[]), &Quirks::REFERENCE).unwrap()
}
